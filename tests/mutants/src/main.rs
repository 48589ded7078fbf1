//! `make mutants`: applies each defect alone, expects a test to fail, and prints which one did. The exit code is 1 if no test
//! finds a defect, or if a defect does not compile.
//!
//! `STAGEGATE_MUTANT=<name>[,<name>…]` runs these only. `STAGEGATE_BY=simulation` asks the simulation alone, about the defects of
//! the decision rules: `SIMULATE_S=60 FIRST=1` gives it a minute for each.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use stagegate_mutants::build::{Build, SIMULATION, TestResult};
use stagegate_mutants::defect::{self, Defect, Tests};
use stagegate_mutants::tree::Tree;

/// Failing tests that are printed for a defect.
const SHOWN: usize = 3;
const WIDTH: usize = 150;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let folder = target_directory(&sources)?.join("mutants");
    let tree = Tree::new(sources.clone(), folder.join("tree"));
    let build = Build {
        tree: tree.root.clone(),
        target: folder.join("target"),
    };
    let defects = chosen(&sources)?;
    std::fs::create_dir_all(&tree.root)?;
    tree.restore()?;
    without_defect(&build, &defects)?;
    let mut unfound = Vec::new();
    for defect in &defects {
        let begun = Instant::now();
        tree.restore()?;
        let source = std::fs::read_to_string(tree.root.join(&defect.file))?;
        tree.write(&defect.file, defect.apply(&source)?.as_bytes())?;
        let found = find(&build, defect)?;
        say(&format!("{:<52} {:>4} s", defect.name, begun.elapsed().as_secs()))?;
        match found {
            Found::By(of, tests) => tell(&of, &tests)?,
            Found::Not(why) => {
                say(&format!("    NOT FOUND: {why}"))?;
                unfound.push(defect.name.as_str());
            }
        }
    }
    tree.restore()?;
    let found = defects.len() - unfound.len();
    say(&format!("mutants: {found} of {} defects found", defects.len()))?;
    for name in &unfound {
        say(&format!("not found: {name}"))?;
    }
    Ok(unfound.is_empty())
}

enum Found {
    By(PathBuf, Vec<(String, Vec<String>)>),
    Not(String),
}

/// Those whose tests are built in seconds come first.
fn chosen(sources: &Path) -> Result<Vec<Defect>> {
    let mut defects = defect::all(sources)?;
    if let Ok(names) = std::env::var("STAGEGATE_MUTANT") {
        let names: BTreeSet<&str> = names.split(',').collect();
        defects.retain(|defect| names.contains(defect.name.as_str()));
        ensure!(defects.len() == names.len(), "not all of these are defects: {names:?}");
    }
    if std::env::var("STAGEGATE_BY").is_ok_and(|by| by == "simulation") {
        defects.retain(|defect| defect.file.starts_with("host/decide/src"));
        for defect in &mut defects {
            defect.found_by = vec![Tests {
                of: SIMULATION.into(),
                filter: "no_new_seed".to_owned(),
                is_unit: false,
            }];
        }
    }
    defects.sort_by_key(|defect| defect.found_by.first().map(|tests| tests.of.clone()));
    Ok(defects)
}

/// A test that fails anyway finds nothing.
fn without_defect(build: &Build, defects: &[Defect]) -> Result<()> {
    let tests: BTreeSet<&Tests> = defects.iter().flat_map(|defect| &defect.found_by).collect();
    for tests in tests {
        let begun = Instant::now();
        match build.run(tests)? {
            TestResult::Green => say(&format!(
                "without a defect: {} {} passes ({} s)",
                tests.of.display(),
                tests.filter,
                begun.elapsed().as_secs()
            ))?,
            TestResult::DoesNotCompile(errors) => bail!("without a defect it does not compile:\n{errors}"),
            told => bail!("without a defect: {} {}: {told:?}", tests.of.display(), tests.filter),
        }
    }
    Ok(())
}

fn find(build: &Build, defect: &Defect) -> Result<Found> {
    for tests in &defect.found_by {
        match build.run(tests)? {
            TestResult::Green => {}
            TestResult::Red(failed) => return Ok(Found::By(tests.of.clone(), failed)),
            TestResult::DoesNotCompile(errors) => return Ok(Found::Not(format!("it does not compile:\n{errors}"))),
            TestResult::Broke(how) => return Ok(Found::Not(format!("{} {}: {how}", tests.of.display(), tests.filter))),
        }
    }
    Ok(Found::Not(defect.why.clone()))
}

fn tell(of: &Path, tests: &[(String, Vec<String>)]) -> Result<()> {
    for (name, why) in tests.iter().take(SHOWN) {
        say(&format!("    {} {name}", of.display()))?;
        for line in why {
            say(&format!(
                "        {}",
                line.trim().chars().take(WIDTH).collect::<String>()
            ))?;
        }
    }
    if tests.len() > SHOWN {
        say(&format!("    and {} more tests", tests.len() - SHOWN))?;
    }
    Ok(())
}

/// A line at a time: a run takes a while.
fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

fn target_directory(sources: &Path) -> Result<PathBuf> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(sources)
        .output()
        .context("running cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
    let folder = metadata["target_directory"].as_str();
    Ok(PathBuf::from(
        folder.context("cargo metadata names the target directory")?,
    ))
}
