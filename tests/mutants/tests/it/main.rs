//! The list of defects stays one: each can still be applied, and names tests that are there. Whether they are found is for
//! `make mutants` to say, which takes a while.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails by the panic")]

use std::path::{Path, PathBuf};

use stagegate_mutants::defect::{self, Defect};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn defects() -> Vec<Defect> {
    defect::all(&root()).unwrap()
}

#[test]
fn every_defect_can_be_applied_to_the_source_as_it_is() {
    let failures: Vec<String> = defects()
        .iter()
        .filter_map(|defect| {
            let source = std::fs::read_to_string(root().join(&defect.file)).unwrap_or_default();
            defect.apply(&source).err().map(|error| error.to_string())
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_defect_says_who_suffers_and_which_tests_find_it() {
    for defect in defects() {
        let Defect {
            name, why, found_by, ..
        } = &defect;
        assert!(why.ends_with('.') && why.len() > 40, "{name}: {why:?} is no sentence");
        assert!(!found_by.is_empty(), "{name} names no tests");
        for tests in found_by {
            let manifest = root().join(&tests.of).join("Cargo.toml");
            assert!(manifest.exists(), "{name}: there is no crate {}", tests.of.display());
            assert!(
                !tests.filter.is_empty(),
                "{name} would run every test of {}",
                tests.of.display()
            );
        }
    }
}

#[test]
fn there_are_many_defects_and_some_that_only_a_whole_world_shows() {
    let defects = defects();
    assert!(defects.len() >= 24, "only {} defects", defects.len());
    let in_worlds = |defect: &&Defect| {
        defect
            .found_by
            .iter()
            .all(|tests| tests.of == Path::new("host/stagegate"))
    };
    let count = defects.iter().filter(in_worlds).count();
    assert!(count >= 6, "only {count} are found by scenarios alone");
}
