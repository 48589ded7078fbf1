//! Rules about the repository itself, held by tests: who may use whom, what the map names, how files look.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const LINES_MAX: usize = 600;

/// What runs gates, and therefore no part of one.
const HOST: &[&str] = &[
    "stagegate-api",
    "stagegate-decide",
    "stagegate-embedded",
    "stagegate-evaluate",
    "stagegate",
    "k8s-openapi",
    "kube",
    "tokio",
    "wasmtime",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is two folders up")
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--offline")
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cargo {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Source files that people wrote, relative to the root.
fn sources() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(root())
        .output();
    let listed = output
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8(output.stdout).unwrap());
    let paths: Vec<PathBuf> = match listed {
        Some(listed) => listed.lines().map(PathBuf::from).collect(),
        None => ["gates", "guest-sdk", "host", "tests"]
            .into_iter()
            .flat_map(|folder| walk(&root().join(folder)))
            .map(|path| path.strip_prefix(root()).unwrap().to_owned())
            .collect(),
    };
    assert!(paths.len() > 50, "only {} source files found", paths.len());
    paths.into_iter().filter(|path| root().join(path).exists()).collect()
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path {
            path if path.is_dir() && !path.ends_with("target") => walk(&path),
            path if path.extension().is_some_and(|extension| extension == "rs") => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

#[test]
fn crates_use_only_those_of_ours_that_they_may() {
    let may: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("stagegate-api", &[][..]),
        ("stagegate-decide", &["stagegate-api"][..]),
        ("stagegate-evaluate", &[][..]),
        ("stagegate-clock", &[][..]),
        (
            "stagegate-embedded",
            &["stagegate-api", "stagegate-clock", "stagegate-evaluate"][..],
        ),
        ("stagegate-runtime", &["stagegate-api", "stagegate-clock"][..]),
        ("stagegate-sandbox", &["stagegate-api", "stagegate-evaluate"][..]),
        ("stagegate-guest", &[][..]),
        ("gate-freeze-window", &["stagegate-guest"][..]),
        ("gate-min-available", &["stagegate-guest"][..]),
        ("gate-hostile", &["stagegate-guest"][..]),
        ("stagegate-mutants", &[][..]),
        ("stagegate-simulation", &["stagegate-api", "stagegate-decide"][..]),
        (
            "stagegate-cluster-tests",
            &["stagegate-api", "stagegate-clock", "stagegate-embedded"][..],
        ),
        (
            "stagegate",
            &[
                "stagegate-api",
                "stagegate-clock",
                "stagegate-decide",
                "stagegate-embedded",
                "stagegate-evaluate",
                "stagegate-runtime",
                "stagegate-sandbox",
            ][..],
        ),
    ]);
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps"])).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let names: BTreeSet<&str> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        may.keys().copied().collect(),
        "the table of who may use whom names every crate"
    );
    for package in packages {
        let name = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let is_allowed =
                !names.contains(used) || may[name].contains(&used) || (used == name && dependency["kind"] == "dev");
            assert!(is_allowed, "{name} may not use {used}");
        }
    }
}

#[test]
fn the_table_of_crates_is_what_cargo_says() {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps"])).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter().map(|package| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let folder = manifest.parent().unwrap().strip_prefix(root()).unwrap();
        let name = package["name"].as_str().unwrap();
        // The samples have one row.
        if folder.starts_with("gates") {
            return ("gates".to_owned(), "gate-*".to_owned());
        }
        (folder.to_string_lossy().into_owned(), name.to_owned())
    });
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = map
        .lines()
        .skip_while(|line| !line.starts_with("| folder | crate |"))
        .skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| {
        let mut cells = line
            .split('|')
            .map(|cell| cell.trim().trim_matches('`').to_owned())
            .skip(1);
        (cells.next().unwrap(), cells.next().unwrap())
    });
    assert_eq!(rows.collect::<BTreeSet<_>>(), packages.collect::<BTreeSet<_>>());
}

/// The rooms of `staging`, and those that each may use: only what comes before it.
const ROOMS: &[&str] = &["input", "evidence", "updates", "status", "rollout"];
/// Most imports between them.
const ROOM_IMPORTS_MAX: usize = 42;

#[test]
fn the_rooms_of_staging_use_only_those_below_them() {
    let rules = root().join("host/decide/src");
    let mut imports = 0;
    for (at, room) in ROOMS.iter().enumerate() {
        for path in walk(&rules.join("staging").join(room)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = || text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for (other_at, other) in ROOMS.iter().enumerate().filter(|(other_at, _)| *other_at != at) {
                let name = format!("crate::staging::{other}::");
                let used = code().filter(|line| line.contains(&name)).count();
                assert!(used == 0 || other_at < at, "{} uses {other}", path.display());
                imports += used;
            }
        }
    }
    assert!(
        imports <= ROOM_IMPORTS_MAX,
        "{imports} imports between the rooms of staging"
    );
}

/// What several of them need stands beside them: `checks`, `health`, `selector`, `precondition`.
#[test]
fn no_controllers_rules_use_those_of_another_one_and_checks_use_none() {
    let rules = root().join("host/decide/src");
    let controllers = ["staging", "pools", "binding", "combine"];
    for of in controllers.into_iter().chain(["checks", "health"]) {
        for path in walk(&rules.join(of)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for other in controllers.into_iter().filter(|other| *other != of) {
                let name = format!("crate::{other}::");
                let using = code.clone().find(|line| line.contains(&name));
                assert_eq!(using, None, "{} uses {other}", path.display());
            }
        }
    }
}

#[test]
fn trees_have_nothing_that_their_crate_may_not_have() {
    let banned = [
        (
            "stagegate-api",
            &["tokio", "kube-client", "kube-runtime", "wasmtime", "hyper"][..],
        ),
        (
            "stagegate-decide",
            &[
                "tokio",
                "futures",
                "hyper",
                "kube-client",
                "kube-runtime",
                "wasmtime",
                "cel",
                "tracing",
                "rand",
            ][..],
        ),
        // tokio is there: the streams of WASI are made of it. Nothing reaches a network.
        ("stagegate-evaluate", &["kube", "kube-core", "k8s-openapi", "hyper"][..]),
        ("stagegate-embedded", &["stagegate-decide"][..]),
        (
            "stagegate-runtime",
            &["kube-runtime", "wasmtime", "cel", "stagegate-decide"][..],
        ),
        ("stagegate-sandbox", &["kube-client", "kube-runtime", "hyper"][..]),
        ("gate-freeze-window", HOST),
        ("gate-min-available", HOST),
        ("gate-hostile", HOST),
        ("stagegate-mutants", HOST),
        // Time and chance are its own.
        ("stagegate-simulation", &["tokio", "cel", "tracing", "rand"][..]),
    ];
    for (package, banned) in banned {
        let tree = cargo(&[
            "tree",
            "--package",
            package,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ]);
        let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(names.contains(package), "no tree of {package}");
        for name in banned {
            assert!(!names.contains(name), "{package} has {name} in its tree");
        }
    }
}

#[test]
fn every_path_that_the_map_names_exists() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(
        map.lines().count() <= 250,
        "ARCHITECTURE.md is a map: at most 250 lines"
    );
    let quoted = map.split('`').skip(1).step_by(2);
    let paths: Vec<&str> = quoted
        .filter(|text| {
            ["deploy/", "gates/", "guest-sdk/", "host/", "tests/", "wit/"]
                .iter()
                .any(|top| text.starts_with(top))
        })
        .collect();
    assert!(paths.len() > 10, "only {} paths found", paths.len());
    for path in paths {
        assert!(
            root().join(path).exists(),
            "ARCHITECTURE.md names {path}, which does not exist"
        );
    }
    for folder in ["host", "deploy", "tests"] {
        assert!(
            map.contains(&format!("`{folder}/")),
            "ARCHITECTURE.md does not name {folder}"
        );
    }
}

#[test]
fn every_source_file_says_what_it_is_for_and_stays_readable() {
    for path in sources() {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        assert!(
            text.starts_with("//!"),
            "{} does not open by saying what it is for",
            path.display()
        );
        let lines = text.lines().count();
        assert!(
            lines <= LINES_MAX,
            "{} has {lines} lines, at most {LINES_MAX}",
            path.display()
        );
    }
}

#[test]
fn nothing_is_a_place_holder() {
    // Put together here, so that this file does not find itself.
    let words = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["todo", "!("],
        ["unimple", "mented!"],
        ["XX", "X"],
    ]
    .map(|parts| parts.concat());
    for path in sources() {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        for word in &words {
            assert!(!text.contains(word), "{} has a {word}", path.display());
        }
    }
}

/// Words that were replaced by the field's own, as whole words. In code of the program, its documents, its kinds and its charts; the
/// change log tells what was replaced.
const RETIRED: &[&str] = &[
    "unseenUpdates",
    "notJudged",
    "Shrunk",
    "timeoutMs",
    "memoryMiB",
    "NothingKept",
    "DecidedTooLate",
    "BindingNotOurs",
    "BindingPolicyForeign",
    "CombinedStatusForeign",
    "EvidenceCollectorForeign",
    "UpdatePending",
    "UpdateNotSeen",
    "PlacedNotJudged",
    "queue_due",
    "queue_running",
    "queue_failing",
    "queue_oldest_seconds",
    "queue_retries_total",
    "evaluations_total",
    "compilations_total",
    "evaluation_duration_seconds",
    "watch_silence_seconds",
    "as wished",
    "the outside failed",
    "the answer is no",
    "kept back",
    "read anew",
    "taken in",
    "told of",
    "at rest",
    "Rivals",
    "Ailment",
    "GateTalk",
    "Subjected",
    "Judging",
    "Judgement",
    "Told",
    "Standing",
    "Trouble",
    "Permit",
    "Withheld",
    "contest",
    "Imitation",
    "imitate",
    "Debt",
    "owe",
    "owes",
    "owed",
    "ReadAnew",
];

#[test]
fn words_that_were_replaced_are_gone() {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "host/*/src/*",
            "guest-sdk/src",
            "deploy",
            "docs",
            "wit",
            "*.md",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let is_read = |path: &&str| *path != "CHANGELOG.md" && !path.starts_with("deploy/kustomize/kubestellar-crds");
    let mut found = Vec::new();
    for path in listed.lines().filter(is_read) {
        let Ok(text) = std::fs::read_to_string(root().join(path)) else {
            continue;
        };
        for word in RETIRED {
            let is_part = |side: Option<char>| side.is_some_and(|side| side.is_alphanumeric() || side == '_');
            let mut places = text.match_indices(word);
            let is_whole = |(at, _): (usize, &str)| {
                !is_part(text[..at].chars().next_back()) && !is_part(text[at + word.len()..].chars().next())
            };
            if places.any(is_whole) {
                found.push(format!("{path}: {word}"));
            }
        }
    }
    let sources = listed.lines().filter(|path| path.starts_with("host/"));
    assert!(sources.count() > 200, "git lists too few sources:\n{listed}");
    assert_eq!(found, Vec::<String>::new());
}
