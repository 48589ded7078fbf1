//! The facts of the decision that broke a rule, as a case file of `host/decide/tests/cases`. Must not judge them.

use serde_json::{Map, Value, json};
use stagegate_api::StagedBindingPolicy;
use stagegate_decide::staging::{BindingFacts, Decoded, Facts};

use crate::oracle::Violation;
use crate::server::{Server, version_of};

/// A case that fails while the rule is broken: it expects that no further stage passes. A person adds what else to expect.
/// `None`: no decision broke the rule.
#[must_use]
pub fn of(violation: &Violation, server: &Server) -> Option<String> {
    let facts = violation.facts.as_deref()?;
    let mut lines = vec![format!("why: {}", json!(violation.text)), "set:".to_owned()];
    lines.extend(
        world(facts, server)
            .into_iter()
            .map(|(pointer, value)| format!("  /{pointer}: {value}")),
    );
    let found = |(key, answer): (&_, &stagegate_decide::staging::ObjectFacts)| {
        Some((format!("{key}"), json!(answer.found.as_ref()?)))
    };
    let objects: Map<String, Value> = facts.objects.iter().filter_map(found).collect();
    lines.push(format!("answers: {}", json!({"objects": objects})));
    lines.push(format!("expect: {}", expected(&facts.policy.object)));
    Some(lines.join("\n") + "\n")
}

fn world(facts: &Facts, server: &Server) -> Vec<(&'static str, Value)> {
    let of_kind = |mut object: Value, kind: &str| {
        object["kind"] = json!(kind);
        object["apiVersion"] = json!(match kind {
            "StagedBindingPolicy" => "community.kubestellar.io/v1alpha1",
            _ => "control.kubestellar.io/v1alpha1",
        });
        object
    };
    let placements = facts.placements.iter().filter_map(|(name, placement)| {
        let object = of_kind(json!(placement.object()?), "BindingPolicy");
        Some((name.to_string(), json!({"object": object})))
    });
    let binding = |binding: &BindingFacts| {
        let object = binding.object.as_ref().and_then(Decoded::object);
        let object = object.map(|object| json!({"object": of_kind(json!(object), "Binding")}));
        json!({"observed": binding.observed, "object": object})
    };
    let bindings = facts
        .bindings
        .iter()
        .map(|(name, facts)| (name.to_string(), binding(facts)));
    // What a decision sees is a view; the case is made of what was stored.
    let combined = facts.combined.iter().filter_map(|(key, view)| {
        let version = view.object()?.metadata.resource_version.clone()?;
        let mut log = server
            .combined
            .log()
            .iter()
            .rev()
            .filter_map(|entry| entry.after.as_ref());
        let stored = log.find(|stored| version_of(&stored.metadata) == version)?;
        Some((
            key.clone(),
            json!({"object": of_kind(json!(**stored), "CombinedStatus")}),
        ))
    });
    let collectors = facts.collectors.iter();
    let collectors = collectors.map(|(name, collector)| (name.clone(), of_kind(json!(**collector), "StatusCollector")));
    let evidence = facts.evidence_collector.as_ref().map(
        |facts| json!({"oursSince": facts.ours_since, "object": of_kind(json!(*facts.object), "StatusCollector")}),
    );
    vec![
        ("bindings", Value::Object(bindings.collect())),
        ("collectors", Value::Object(collectors.collect())),
        ("collectorsChanged", json!(facts.collectors_changed)),
        ("combined", Value::Object(combined.collect())),
        ("evidenceCollector", json!(evidence)),
        ("kubestellarSeenAt", json!(facts.kubestellar_seen_at)),
        ("leaseTransitions", json!(facts.lease_transitions)),
        ("now", json!(facts.now)),
        ("placements", Value::Object(placements.collect())),
        (
            "policy",
            json!({"object": of_kind(json!(*facts.policy.object), "StagedBindingPolicy")}),
        ),
        ("watchingSince", json!(facts.watching_since)),
    ]
}

fn expected(policy: &StagedBindingPolicy) -> Value {
    let stages = policy.status.iter().flat_map(|status| &status.stages).enumerate();
    let waiting = stages.filter(|(_, stage)| stage.passed_at.is_none());
    let waiting: Map<String, Value> = waiting
        .map(|(position, _)| (format!("/stages/{position}/passedAt"), Value::Null))
        .collect();
    json!({"writes": ["status"], "status": waiting})
}
