//! A smaller script that still breaks the same rule. Must not look at why.

use crate::run::run;
use crate::script::{Script, Setting};
use crate::server::Resource;

/// The smallest script found for which `breaks` still holds. Removes one part at a time: actions in halves, quarters and so on,
/// then the optional parts of the world.
pub fn shrunk(script: &Script, breaks: impl Fn(&Script) -> bool) -> Script {
    let mut best = script.clone();
    while let Some(smaller) = smaller(&best).into_iter().find(&breaks) {
        best = smaller;
    }
    best
}

/// All that a person needs of a seed that breaks a rule: the smallest script that breaks it, what happens in that, and the fatal
/// decision as a case file.
#[must_use]
pub fn smallest(seed: u64, rule: &str) -> String {
    let breaks = |script: &Script| run(script, false).violation.is_some_and(|found| found.rule == rule);
    let script = shrunk(&Script::drawn(seed), breaks);
    let outcome = run(&script, true);
    let mut lines = vec![
        format!("The smallest script found that breaks the rule {rule} (of seed {seed}):"),
        format!("{:?}", script.setting),
    ];
    lines.extend(
        script
            .actions
            .iter()
            .map(|(when, action)| format!("{when:?}: {action:?}")),
    );
    lines.push("\nWhat happens:".to_owned());
    lines.extend(outcome.trace);
    lines.extend(
        outcome
            .violation
            .map(|violation| format!("{}: {}", violation.rule, violation.text)),
    );
    if let Some(case) = outcome.case {
        lines.push(format!(
            "\nThe decision that breaks it, as a file of host/decide/tests/cases:\n{case}"
        ));
    }
    lines.join("\n")
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
    const FLAGS: [Flag; 17] = [
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
        |setting| &mut setting.accepts_unseen,
        |setting| &mut setting.slow_queue,
        |setting| &mut setting.drops_create_only,
        |setting| &mut setting.ignores_health,
        |setting| &mut setting.transport_tells,
        |setting| &mut setting.short_deadlines,
        |setting| &mut setting.has_no_room,
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
    all.push(changed(&|setting| setting.gates.clear()));
    all.push(changed(&|setting| setting.crowd = 0));
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
