//! The one StatusCollector the controller owns: in the clauses it writes, and whether the live one is to be trusted. Must not
//! look at what the collector answers.
//!
//! KubeStellar rewrites a CombinedStatus only when rows change, and compares them one way (measured on v0.30). With
//! the evidence columns in every clause, any status change of any cluster changes a row, so the whole CombinedStatus
//! is rewritten with it, fresh errors included.

use kube::ResourceExt as _;
use stagegate_api::evidence;
use stagegate_api::{BindingPolicySpec, DownsyncClause, StatusCollector};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::staging::input::{Facts, clauses::without_evidence};
use crate::time::after;

/// Marks the collector as ours: one of its name without this label belongs to somebody else.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "stagegate");

/// Our collector, ready to be created.
pub fn object() -> StatusCollector {
    let mut collector = evidence::collector();
    collector
        .labels_mut()
        .insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    collector
}

/// Whether the live one answers what we ask.
pub fn has_our_spec(live: &StatusCollector) -> bool {
    live.spec == *evidence::collector_spec()
}

pub fn is_ours(live: &StatusCollector) -> bool {
    live.labels()
        .get(MANAGED_BY.0)
        .is_some_and(|value| value == MANAGED_BY.1)
}

/// The clauses as written into a BindingPolicy: the user's, each with the evidence collector appended.
pub fn with_evidence(clauses: &[DownsyncClause]) -> Vec<DownsyncClause> {
    let mut clauses = without_evidence(clauses);
    for clause in &mut clauses {
        clause.status_collectors.push(evidence::collector_name());
    }
    clauses
}

/// The spec without any evidence collector: nothing is reported of such a placement.
pub fn unreported(spec: &BindingPolicySpec) -> BindingPolicySpec {
    BindingPolicySpec {
        downsync: without_evidence(&spec.downsync),
        ..spec.clone()
    }
}

/// The spec with our collector, if it has none.
pub fn reported(spec: &BindingPolicySpec) -> Option<BindingPolicySpec> {
    let is_without = unreported(spec) == *spec;
    is_without.then(|| BindingPolicySpec {
        downsync: with_evidence(&spec.downsync),
        ..spec.clone()
    })
}

/// The evidence counts only while our collector is ours, has our spec, and has had it for long enough.
pub fn require(facts: &Facts) -> Result<(), Finding> {
    let name = evidence::collector_name();
    let new = |text: String| Finding::unknown(Reason::EvidenceCollectorNew, text);
    let Some(live) = &facts.evidence_collector else {
        return Err(new(format!("StatusCollector {name} is being created")));
    };
    if let Some(foreign) = foreign(&live.object) {
        return Err(foreign);
    }
    if !has_our_spec(&live.object) {
        return Err(new(format!("StatusCollector {name} was changed and is being put back")));
    }
    if let Some(refused) = refused(&live.object) {
        return Err(refused);
    }
    let window = facts.settings.collector();
    if is_unchanged_for_long(facts, &live.object) {
        return Ok(());
    }
    match live.ours_since {
        Some(since) if facts.now >= after(since, window) => Ok(()),
        Some(since) => Err(new(format!(
            "StatusCollector {name} has been there since {since:.1}: what it says counts after {} ms",
            window.as_millis()
        ))
        .wake_at(after(since, window))),
        None => Err(new(format!("StatusCollector {name} has not been seen yet"))),
    }
}

/// What KubeStellar says against it; one that is refused is as if it were not there, and what it said before may stay.
pub fn refused(live: &StatusCollector) -> Option<Finding> {
    let error = live.status.as_ref()?.errors.first()?;
    let error: String = error.chars().take(256).collect();
    let text = format!(
        "StatusCollector {} is refused ({error}): correct its spec",
        live.name_any()
    );
    Some(Finding::unknown(Reason::StatusCollectorInvalid, text))
}

/// Somebody else's collector under our name.
pub fn foreign(live: &StatusCollector) -> Option<Finding> {
    (!is_ours(live)).then(|| {
        let name = evidence::collector_name();
        Finding::unknown(
            Reason::EvidenceCollectorNotOwned,
            format!(
                "there is a StatusCollector {name} that is not ours (no label {}={}): delete it",
                MANAGED_BY.0, MANAGED_BY.1
            ),
        )
    })
}

/// Never changed since its creation, and that was long ago, whatever the clocks' difference: a restart of this process
/// need not wait again.
fn is_unchanged_for_long(facts: &Facts, live: &StatusCollector) -> bool {
    const CLOCK_DIFFERENCE: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
    let created = live.metadata.creation_timestamp.as_ref().map(|time| time.0);
    live.metadata.generation == Some(1)
        && created
            .is_some_and(|created| facts.now >= after(after(created, facts.settings.collector()), CLOCK_DIFFERENCE))
}
