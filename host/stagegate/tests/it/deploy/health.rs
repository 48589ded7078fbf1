//! The health checks for other tools (`deploy/health`), run by interpreters of their languages on policies in every phase.

use mlua::{Lua, LuaSerdeExt as _};
use serde_json::{Value, json};
use stagegate_evaluate::{Answer, Budget, compile};

use super::root;

/// Each policy, and the verdict of kstatus on it.
fn policies() -> Vec<(String, String, Value)> {
    let path = root().join("tests/data/policies-in-every-phase.json");
    let recorded: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = recorded
        .iter()
        .map(|it| (text(&it["case"]), text(&it["verdict"]), it["policy"].clone()));
    let unseen = json!({"metadata": {"name": "new", "generation": 1}, "spec": {}});
    let unseen = ("not seen by the controller".to_owned(), "InProgress".to_owned(), unseen);
    entries.chain([unseen]).collect()
}

#[test]
fn argo_cd_reports_a_policy_as_its_conditions_do() {
    let script = std::fs::read_to_string(root().join("deploy/health/argo-cd.lua")).unwrap();
    for (case, verdict, policy) in policies() {
        let lua = Lua::new();
        lua.globals().set("obj", lua.to_value(&policy).unwrap()).unwrap();
        let health: Value = lua.from_value(lua.load(&script).eval().unwrap()).unwrap();
        let is_paused = policy["status"]["phase"] == "Paused";
        let wanted = match verdict.as_str() {
            "Current" => "Healthy",
            "Failed" => "Degraded",
            _ if is_paused => "Suspended",
            _ => "Progressing",
        };
        assert_eq!(health["status"], wanted, "{case}: {health}");
        let has_message = health["message"].as_str().is_some_and(|message| !message.is_empty());
        assert!(has_message, "{case}: {health}");
    }
}

#[test]
fn flux_reports_a_policy_as_its_conditions_do() {
    let text = std::fs::read_to_string(root().join("deploy/health/flux.yaml")).unwrap();
    let snippet: Value = serde_saphyr::from_str(&text).unwrap();
    let [expressions] = snippet["healthCheckExprs"].as_array().unwrap().as_slice() else {
        panic!("one kind")
    };
    assert_eq!(expressions["kind"], "StagedBindingPolicy");
    for (case, verdict, policy) in policies() {
        assert_eq!(flux(expressions, &policy), verdict, "{case}");
    }
}

/// As Flux does it (its RFC 0009): the generation first, then the expressions in this order; an error means in progress.
fn flux(expressions: &Value, policy: &Value) -> &'static str {
    let observed = &policy["status"]["observedGeneration"];
    if !observed.is_null() && *observed != policy["metadata"]["generation"] {
        return "InProgress";
    }
    let members = policy.as_object().unwrap();
    let names: Vec<&str> = members.keys().map(String::as_str).collect();
    for (expression, verdict) in [
        ("inProgress", "InProgress"),
        ("failed", "Failed"),
        ("current", "Current"),
    ] {
        let Ok(compiled) = compile(expressions[expression].as_str().unwrap(), &names) else {
            return "InProgress";
        };
        let variables: Vec<_> = members
            .iter()
            .map(|(name, value)| (name.as_str(), stagegate_evaluate::Value::from(value)))
            .collect();
        match compiled.eval(&variables, Budget::default()) {
            Ok(Answer::Bool(true)) => return verdict,
            Ok(_) => {}
            Err(_waited_out) => return "InProgress",
        }
    }
    "InProgress"
}
