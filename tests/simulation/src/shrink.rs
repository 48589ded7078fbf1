//! A smaller script that still breaks the same rule. Must not look at why.

use crate::run::run;
use crate::script::{Script, Setting};
use crate::server::Resource;

/// As small as taking away one part at a time makes it: actions in halves, quarters and so on, then what the world has that it need not
/// have.
#[must_use]
pub fn shrunk(script: &Script, rule: &str) -> Script {
    let breaks = |script: &Script| run(script, false).violation.is_some_and(|found| found.rule == rule);
    let mut best = script.clone();
    while let Some(smaller) = smaller(&best).into_iter().find(breaks) {
        best = smaller;
    }
    best
}

/// Every script that has one part less, those that lack most first.
fn smaller(script: &Script) -> Vec<Script> {
    let mut all = Vec::new();
    let mut length = script.actions.len();
    while length > 0 {
        for from in (0..script.actions.len()).step_by(length) {
            let mut fewer = script.clone();
            let to = (from + length).min(fewer.actions.len());
            fewer.actions.drain(from..to);
            all.push(fewer);
        }
        length /= 2;
    }
    all.extend(plainer(&script.setting).into_iter().map(|setting| Script {
        setting,
        ..script.clone()
    }));
    all
}

fn plainer(setting: &Setting) -> Vec<Setting> {
    type Flag = fn(&mut Setting) -> &mut bool;
    const FLAGS: [Flag; 10] = [
        |setting| &mut setting.two_processes,
        |setting| &mut setting.second_policy,
        |setting| &mut setting.has_condition,
        |setting| &mut setting.has_filter,
        |setting| &mut setting.keeps_previous,
        |setting| &mut setting.slow_requests,
        |setting| &mut setting.slow_transport,
        |setting| &mut setting.slow_reports,
        |setting| &mut setting.slow_rollouts,
        |setting| &mut setting.late_watches,
    ];
    let changed = |change: &dyn Fn(&mut Setting)| {
        let mut plainer = setting.clone();
        change(&mut plainer);
        plainer
    };
    let mut all: Vec<Setting> = FLAGS
        .iter()
        .map(|flag| changed(&|setting| *flag(setting) = false))
        .collect();
    all.push(changed(&|setting| setting.soak = None));
    all.push(changed(&|setting| setting.objects = vec![Resource::Deployment]));
    all.push(changed(&|setting| {
        setting.clusters.truncate(2);
        setting.shares.truncate(2);
    }));
    for stage in 0..setting.clusters.len() {
        all.push(changed(&|setting| setting.clusters[stage] = 1));
        all.push(changed(&|setting| setting.shares[stage] = false));
    }
    all.retain(|plainer| plainer != setting);
    all
}
