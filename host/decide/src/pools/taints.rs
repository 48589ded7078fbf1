//! Which taints a Pod bears, as Kubernetes decides it, and what it needs to bear those of its pool. Must not look at nodes.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// A toleration for each taint that none of these tolerates. The value does not matter to it, so that a change of it restarts nothing.
pub(super) fn missing(tolerations: &[Toleration], taints: &[Taint]) -> Vec<Toleration> {
    let mut missing: Vec<Toleration> = Vec::new();
    for taint in taints {
        let is_tolerated = |toleration: &Toleration| tolerates(toleration, taint);
        if tolerations.iter().any(is_tolerated) || missing.iter().any(is_tolerated) {
            continue;
        }
        missing.push(Toleration {
            effect: Some(taint.effect.clone()),
            key: Some(taint.key.clone()),
            operator: Some("Exists".to_owned()),
            ..Toleration::default()
        });
    }
    missing
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let [key, effect, value] =
        [&toleration.key, &toleration.effect, &toleration.value].map(|text| text.as_deref().unwrap_or_default());
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref() {
        Some("Exists") => true,
        // Without a key only Exists tolerates anything.
        None | Some("" | "Equal") => !key.is_empty() && value == taint.value.as_deref().unwrap_or_default(),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::missing;

    /// The keys of the tolerations that are added.
    fn added(tolerations: Value, taints: Value) -> Vec<String> {
        let (tolerations, taints) = (
            from_value::<Vec<_>>(tolerations).unwrap(),
            from_value::<Vec<_>>(taints).unwrap(),
        );
        missing(&tolerations, &taints)
            .into_iter()
            .map(|added| format!("{} {}", added.key.unwrap(), added.effect.unwrap()))
            .collect()
    }

    #[test]
    fn a_taint_that_no_toleration_of_the_template_tolerates_gets_one() {
        let taint = json!([{"key": "edge", "value": "a", "effect": "NoSchedule"}]);
        let of = |toleration: Value| added(json!([toleration]), taint.clone());
        let added_here = ["edge NoSchedule".to_owned()];
        assert_eq!(added(json!([]), taint.clone()), added_here);
        for tolerating in [
            json!({"operator": "Exists"}),
            json!({"key": "edge", "operator": "Exists"}),
            json!({"key": "edge", "operator": "Exists", "effect": "NoSchedule"}),
            json!({"key": "edge", "value": "a"}),
            json!({"key": "edge", "operator": "Equal", "value": "a", "effect": "NoSchedule"}),
        ] {
            assert!(of(tolerating.clone()).is_empty(), "{tolerating}");
        }
        for not_tolerating in [
            json!({"key": "edge", "value": "b"}),
            json!({"key": "other", "operator": "Exists"}),
            json!({"key": "edge", "operator": "Exists", "effect": "NoExecute"}),
            json!({"key": "edge", "operator": "Unheard"}),
            json!({"value": "a"}),
        ] {
            assert_eq!(of(not_tolerating.clone()), added_here, "{not_tolerating}");
        }
    }

    #[test]
    fn each_effect_of_a_key_is_a_taint_of_its_own_and_equal_ones_get_one_toleration() {
        let taints = json!([
            {"key": "edge", "effect": "NoSchedule"}, {"key": "edge", "effect": "NoExecute"}, {"key": "edge", "value": "b", "effect": "NoSchedule"},
        ]);
        assert_eq!(added(json!([]), taints), ["edge NoSchedule", "edge NoExecute"]);
    }
}
