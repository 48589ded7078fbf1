//! `stagegate lint` over files that say what is wrong with them: `tests/lint/*.yaml`.
//!
//! Each expected finding is a line `#= line:column: severity: message [rule]`, exactly as a pipe is told, after the
//! objects; a file without any is clean.

use super::{cases, repository, stagegate, text};

#[test]
fn every_file_has_exactly_the_findings_it_names() {
    for file in cases("lint") {
        let path = file.display().to_string();
        let content = std::fs::read_to_string(&file).expect("the case was listed");
        let expected: Vec<&str> = content.lines().filter_map(|line| line.strip_prefix("#= ")).collect();
        let ended = stagegate(&["lint", &path]);
        let output = text(&ended.stdout);
        let prefix = format!("{path}:");
        let found: Vec<&str> = output
            .lines()
            .map(|line| line.strip_prefix(&prefix).unwrap_or(line))
            .collect();
        assert_eq!(found, expected, "{path}: {}", text(&ended.stderr));
        let fails = expected.iter().any(|finding| finding.contains(": error: "));
        assert_eq!(ended.status.code(), Some(i32::from(fails)), "{path}");
    }
}

#[test]
fn the_examples_and_the_original_samples_are_clean() {
    for path in [
        "deploy/examples/shortest",
        "deploy/examples/three-stages",
        "deploy/examples/nginx-original",
        "tests/data/original-nginx-obj.yaml",
        "tests/data/original-nginx-combinedstatus.yaml",
    ] {
        let ended = stagegate(&["lint", &repository(path)]);
        assert_eq!(
            (ended.status.code(), text(&ended.stdout)),
            (Some(0), String::new()),
            "{path}"
        );
    }
}

#[test]
fn a_file_with_nothing_to_check_is_a_usage_error() {
    let ended = stagegate(&["lint", &repository("deploy/examples/three-stages/clusters.yaml")]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(text(&ended.stderr).contains("no StagedBindingPolicy and no StatusCollector in"));
}
