//! The charts' descriptions of their values: the schema has them, and the comments of `values.yaml` and the table in the chart's `README.md`
//! are made from it. Must not render anything.

use std::fmt::Write as _;

use base64::Engine as _;
use serde_json::Value;

use super::{read, root};

const CHARTS: [&str; 2] = ["deploy/helm/stagegate", "deploy/helm/stagegate-crds"];
const WIDTH_MAX: usize = 120;
const BEGIN: &str = "<!-- begin values -->\n";
const END: &str = "<!-- end values -->";

/// The schema of each value that has no values below it, by its path; what Helm itself hands over is none.
pub fn leaves(schema: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    let members = schema["properties"].as_object().into_iter().flatten();
    for (name, member) in members.filter(|(name, _)| *name != "global") {
        if member["properties"].is_object() {
            let below = leaves(member).into_iter();
            found.extend(below.map(|(path, leaf)| (format!("{name}.{path}"), leaf)));
        } else {
            found.push((name.clone(), member));
        }
    }
    found
}

/// A line of `values.yaml` that is neither empty nor a comment.
struct Line<'a> {
    text: &'a str,
    indent: usize,
    path: String,
    /// What stands there; nothing where values are below it.
    value: &'a str,
}

/// # Panics
/// On a default that takes more than its line.
fn lines(values: &str) -> Vec<Line<'_>> {
    let mut above: Vec<&str> = Vec::new();
    let is_read = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let mut found = Vec::new();
    for text in values.lines().filter(is_read) {
        let split = text.trim().split_once(':');
        let (name, value) = split.unwrap_or_else(|| panic!("{text}: a default takes one line"));
        let indent = text.len() - text.trim_start().len();
        above.truncate(indent / 2);
        above.push(name);
        found.push(Line {
            text,
            indent,
            path: above.join("."),
            value: value.trim(),
        });
    }
    found
}

fn wrapped(text: &str, indent: usize) -> String {
    let start = format!("{}#", " ".repeat(indent));
    let mut lines = vec![start.clone()];
    for word in text.split(' ') {
        let length = |line: &str| line.chars().count();
        if lines
            .last()
            .is_some_and(|line| length(line) + 1 + length(word) > WIDTH_MAX)
        {
            lines.push(start.clone());
        }
        let line = lines.last_mut().expect("there is one from the start");
        line.push(' ');
        line.push_str(word);
    }
    lines.join("\n")
}

fn description<'a>(leaves: &[(String, &'a Value)], path: &str) -> Option<&'a str> {
    let (_, leaf) = leaves.iter().find(|(leaf, _)| leaf == path)?;
    let description = leaf["description"].as_str();
    Some(description.unwrap_or_else(|| panic!("{path} has no description")))
}

/// `values.yaml` with the comments that the schema gives it.
fn commented(values: &str, leaves: &[(String, &Value)]) -> String {
    let (head, _) = values.split_once("\n\n").expect("a comment about the file comes first");
    let mut text = format!("{head}\n");
    for line in lines(values) {
        if line.indent == 0 {
            text.push('\n');
        }
        if let Some(description) = description(leaves, &line.path) {
            writeln!(text, "{}", wrapped(description, line.indent)).expect("a text grows");
        }
        writeln!(text, "{}", line.text).expect("a text grows");
    }
    text
}

fn table(values: &str, leaves: &[(String, &Value)]) -> String {
    let mut table = "| value | default | what for |\n| --- | --- | --- |\n".to_owned();
    for line in lines(values) {
        if let Some(description) = description(leaves, &line.path) {
            writeln!(table, "| `{}` | `{}` | {description} |", line.path, line.value).expect("a text grows");
        }
    }
    table
}

#[test]
fn comments_and_readme_of_the_charts_are_what_their_schemas_say() {
    for chart in CHARTS {
        let schema: Value = serde_json::from_str(&read(&format!("{chart}/values.schema.json"))).expect("JSON");
        let leaves = leaves(&schema);
        let (values, readme) = (format!("{chart}/values.yaml"), format!("{chart}/README.md"));
        let known = read(&values);
        let mut listed: Vec<String> = lines(&known)
            .into_iter()
            .filter(|line| !line.value.is_empty())
            .map(|line| line.path)
            .collect();
        listed.sort();
        let described: Vec<&String> = leaves.iter().map(|(path, _)| path).collect();
        assert_eq!(
            listed.iter().collect::<Vec<_>>(),
            described,
            "{chart}: each value has a default and a description"
        );
        let mut fresh_readme = read(&readme);
        let from = fresh_readme.find(BEGIN).expect(BEGIN) + BEGIN.len();
        let to = fresh_readme.find(END).expect(END);
        fresh_readme.replace_range(from..to, &table(&known, &leaves));
        for (path, fresh) in [(values, commented(&known, &leaves)), (readme, fresh_readme)] {
            if std::env::var_os("STAGEGATE_WRITE").is_some() {
                std::fs::write(root().join(&path), &fresh).expect("the repository is writable");
            }
            assert_eq!(read(&path), fresh, "{path}: STAGEGATE_WRITE=1 writes it anew");
        }
    }
}

#[test]
fn the_charts_carry_their_icon_so_that_nothing_is_fetched() {
    let icon = base64::engine::general_purpose::STANDARD.encode(read("deploy/helm/icon.svg"));
    for chart in CHARTS {
        let described: Value = serde_saphyr::from_str(&read(&format!("{chart}/Chart.yaml"))).expect("a chart is YAML");
        assert_eq!(
            described["icon"],
            format!("data:image/svg+xml;base64,{icon}"),
            "{chart}: deploy/helm/icon.svg"
        );
    }
}
