//! `docs/reference.md`: its tables are what the program has.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use stagegate_api::{annotation, crd};
use stagegate_decide::staging::Reason;

/// The items of the list in the description of a field: value and meaning.
fn values(pointer: &str) -> String {
    let policy = serde_json::to_value(crd::ours().first()).unwrap();
    let root = "/spec/versions/0/schema/openAPIV3Schema/properties";
    let description = policy
        .pointer(&format!("{root}{pointer}/description"))
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{pointer} has no description"));
    let mut table = "| value | meaning |\n| --- | --- |\n".to_owned();
    for item in description.split("\n- ").skip(1) {
        let (value, meaning) = item.split_once(": ").unwrap_or((item, ""));
        let meaning = meaning.split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(table, "| `{value}` | {} |", meaning.trim_end_matches('.')).unwrap();
    }
    table
}

fn reasons() -> String {
    let mut table = "| reason | Event | meaning | what to do |\n| --- | --- | --- | --- |\n".to_owned();
    for reason in Reason::ALL {
        let event = match (reason.is_notable(), reason.is_warning()) {
            (false, _) => "",
            (true, false) => "Normal",
            (true, true) => "Warning",
        };
        let meaning = reason.meaning().trim_end_matches('.');
        let advice = reason.advice().unwrap_or_default();
        writeln!(table, "| `{}` | {event} | {meaning} | {advice} |", reason.as_str()).unwrap();
    }
    table
}

fn annotations() -> String {
    let mut table = "| annotation | meaning |\n| --- | --- |\n".to_owned();
    for (name, meaning) in annotation::ALL {
        let name = name.trim_start_matches("community.kubestellar.io/");
        writeln!(table, "| `{name}` | {meaning} |").unwrap();
    }
    table
}

/// The fields of the spec of a kind of the playground, with their descriptions; those of its rules once.
fn simulated(kind: &str) -> String {
    let playground = serde_json::to_value(crd::all_for_playground()).unwrap();
    let is_it = |crd: &&Value| crd["spec"]["names"]["kind"] == kind;
    let crd = playground.as_array().unwrap().iter().find(is_it).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let rule = &spec["rules"]["items"]["properties"];
    let mut table = "| field | meaning |\n| --- | --- |\n".to_owned();
    let of_rules = Some(("rules[].", rule)).filter(|_| kind == "SimulatedCluster");
    for (prefix, fields) in [("", spec)].into_iter().chain(of_rules) {
        for (name, field) in fields.as_object().unwrap() {
            let meaning = field["description"].as_str().unwrap();
            let meaning = meaning.split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(table, "| `{prefix}{name}` | {} |", meaning.trim_end_matches('.')).unwrap();
        }
    }
    table
}

#[test]
fn the_tables_of_the_reference_are_what_the_program_has() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    let known = std::fs::read_to_string(&path).unwrap();
    let mut fresh = known.clone();
    let stage = "/status/properties/stages/items/properties";
    for (name, table) in [
        ("phases", values("/status/properties/phase")),
        ("states", values(&format!("{stage}/state"))),
        ("outcomes", values(&format!("{stage}/checks/items/properties/outcome"))),
        ("reasons", reasons()),
        ("annotations", annotations()),
        ("simulated-cluster", simulated("SimulatedCluster")),
        ("simulated-node", simulated("SimulatedNode")),
    ] {
        let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
        let from = fresh.find(&begin).expect(&begin) + begin.len();
        let to = fresh.find(&end).expect(&end);
        fresh.replace_range(from..to, &table);
    }
    if std::env::var_os("STAGEGATE_WRITE").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, fresh, "STAGEGATE_WRITE=1 writes them anew");
}
