//! Holds `tests/data/old-stager-defects.md` to its word: every defect is there, and every test it names exists.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

struct Row {
    number: String,
    tests: String,
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("tests/data/old-stager-defects.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| S"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [number, _, tests] = cells.as_slice() else {
            panic!("three cells in {line}")
        };
        Row {
            number: (*number).to_owned(),
            tests: (*tests).to_owned(),
        }
    })
    .collect()
}

/// What stands in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Defects of what surrounds the decisions: the statement says how ours differs.
const STATED: [&str; 4] = ["S26", "S27", "S29", "S30"];

#[test]
fn every_defect_of_the_old_stager_is_listed_once() {
    let numbers: Vec<String> = rows().into_iter().map(|row| row.number).collect();
    let wanted: Vec<String> = (1..=30).map(|number| format!("S{number}")).collect();
    assert_eq!(numbers, wanted);
}

#[test]
fn every_named_test_exists() {
    let sources = sources(&root().join("host"));
    for Row { number, tests } in rows() {
        let mut named = 0;
        for test in quoted(&tests) {
            named += 1;
            let is_case = root()
                .join("host/decide/tests/cases")
                .join(format!("{test}.yaml"))
                .is_file();
            let function = format!("fn {}()", test.rsplit("::").next().unwrap_or_default());
            let is_function = sources.iter().any(|source| source.contains(&function));
            assert!(
                is_case || is_function,
                "{number} names {test:?}, which is neither a case nor a test"
            );
        }
        assert!(named > 0 || STATED.contains(&number.as_str()), "{number} names no test");
    }
}

fn sources(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(std::fs::read_to_string(path).unwrap());
        }
    }
    found
}
