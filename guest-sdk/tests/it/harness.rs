//! The harness finds what is wrong: a case that does not hold, a file that is none, and a gate that worse evidence
//! opens.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use stagegate_guest::harness::{Cases, Worse, schema_is_fresh};
use stagegate_guest::{Error, Gate, Health, Request, Verdict};

/// Holds while a row is short. What has no row is not short: the defect.
#[derive(Deserialize, JsonSchema)]
struct Forgetful {}

impl Gate for Forgetful {
    const NAME: &'static str = "forgetful";
    const VERSION: &'static str = "0.0.0";
    const SUMMARY: &'static str = "Judges the rows that are there";

    fn evaluate(&self, request: &Request) -> Result<Verdict, Error> {
        let available = request.objects[0].column("health", "available")?.numbers()?;
        let short = available.iter().filter(|value| **value < 2.0).count();
        Ok(if short > 0 {
            Verdict::hold(format!("{short} short"))
        } else {
            Verdict::pass()
        })
    }
}

/// Takes an unknown number for a good one, but only where another is bad: two steps away from a pass.
#[derive(Deserialize, JsonSchema)]
struct Optimist {}

impl Gate for Optimist {
    const NAME: &'static str = "optimist";
    const VERSION: &'static str = "0.0.0";
    const SUMMARY: &'static str = "Averages what it knows";

    fn evaluate(&self, request: &Request) -> Result<Verdict, Error> {
        let known: Vec<i64> = request.evidence()?.filter_map(|row| row.available().ok()).collect();
        let mean = known.iter().sum::<i64>() / i64::try_from(known.len().max(1))?;
        Ok(if mean >= 2 {
            Verdict::pass()
        } else {
            Verdict::hold(format!("{mean} on average"))
        })
    }
}

/// Waits for what is progressing, and takes what has failed for what is over: the defect.
#[derive(Deserialize, JsonSchema)]
struct Patient {}

impl Gate for Patient {
    const NAME: &'static str = "patient";
    const VERSION: &'static str = "0.0.0";
    const SUMMARY: &'static str = "Waits while something is progressing";

    fn evaluate(&self, request: &Request) -> Result<Verdict, Error> {
        let mut progressing = (request.evidence()?).filter(|row| row.health() == Health::Progressing);
        Ok(progressing.next().map_or_else(Verdict::pass, |row| {
            Verdict::hold(format!("{} is on its way", row.cluster()))
        }))
    }
}

/// Passes where fewer than half are updated: the defect.
#[derive(Deserialize, JsonSchema)]
struct Inverted {}

impl Gate for Inverted {
    const NAME: &'static str = "inverted";
    const VERSION: &'static str = "0.0.0";
    const SUMMARY: &'static str = "Compares the wrong way";

    fn evaluate(&self, request: &Request) -> Result<Verdict, Error> {
        for row in request.evidence()? {
            if row.updated()? * 2 > row.total()? {
                return Ok(Verdict::hold(format!("{} is updated", row.cluster())));
            }
        }
        Ok(Verdict::pass())
    }
}

#[derive(Deserialize, JsonSchema)]
struct Honest {}

impl Gate for Honest {
    const NAME: &'static str = "honest";
    const VERSION: &'static str = "0.0.0";
    const SUMMARY: &'static str = "Judges every cluster";

    fn evaluate(&self, request: &Request) -> Result<Verdict, Error> {
        let rows = request.objects[0]
            .column("health", "available")?
            .numbers()?
            .per_cluster("cluster", request)?;
        let short = rows.iter().find(|(_, value)| *value < 2.0);
        Ok(short.map_or_else(Verdict::pass, |(cluster, value)| {
            Verdict::hold(format!("{cluster} has {value}"))
        }))
    }
}

/// A folder with one case.
struct Folder(PathBuf);

impl Folder {
    fn with(name: &str, case: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("stagegate-guest-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("case.yaml"), case).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

const TABLE: &str = "
why: b is short
now: 2026-11-20T09:00:00Z
clusters: [a, b]
objects:
- object: shop/web
  evidence: {a: {available: 3}, b: {available: 1}}
  collectors: {health: {columns: [cluster, available], rows: [[a, 2], [b, 1]]}}
expect: {outcome: hold, reason: b has 1}
";

fn worse<G: Gate>(name: &str, case: &str) -> Result<(), Error> {
    let folder = Folder::with(name, case);
    Cases::read(&folder.0)?.never_open_by_worse_evidence::<G>(&[Worse::Lower("available")])
}

#[test]
fn a_gate_that_forgets_missing_rows_is_found_with_the_one_step_that_opens_it() {
    let found = worse::<Forgetful>("forgetful", TABLE).unwrap_err().to_string();
    let expected = "worse evidence opens the gate, case case: b is short\n  at first: hold, 1 short\n  \
                    collector health of deployments shop/web: row 1 is missing: pass";
    assert_eq!(found, expected);
}

#[test]
fn a_defect_two_steps_away_is_found_and_no_step_too_many_is_shown() {
    let case = TABLE.replace("b: {available: 1}", "b: {available: 2}");
    let found = worse::<Optimist>("optimist", &case).unwrap_err().to_string();
    let lines: Vec<&str> = found.lines().collect();
    assert!(
        lines.len() == 4 && lines[1].contains("pass") && lines[2].contains("hold") && lines[3].ends_with("pass"),
        "{found}"
    );
    assert!(lines[3].contains("available is missing"), "{found}");
}

#[test]
fn a_gate_that_takes_what_has_failed_for_done_is_found() {
    let case = TABLE.replace("b: {available: 1}", "b: {health: progressing}");
    let found = worse::<Patient>("patient", &case).unwrap_err().to_string();
    let expected = "worse evidence opens the gate, case case: b is short\n  at first: hold, b is on its way\n  \
                    deployments shop/web in b: it is failed: pass";
    assert_eq!(found, expected);
}

#[test]
fn a_gate_that_fewer_updated_replicas_open_is_found() {
    let case = TABLE.replace(
        "{a: {available: 3}, b: {available: 1}}",
        "{a: {updated: 1, total: 4}, b: {updated: 3, total: 4}}",
    );
    let found = worse::<Inverted>("inverted", &case).unwrap_err().to_string();
    let expected = "worse evidence opens the gate, case case: b is short\n  at first: hold, b is updated\n  \
                    deployments shop/web in b: updated is one lower: pass";
    assert_eq!(found, expected);
}

#[test]
fn an_honest_gate_has_no_counterexample() -> Result<(), Error> {
    worse::<Honest>("honest", TABLE)?;
    worse::<Honest>("honest-passing", &TABLE.replace("[b, 1]]", "[b, 5]]"))
}

#[test]
fn a_gate_that_only_errs_is_found() {
    let case = TABLE.replace("collectors: {health:", "collectors: {other:");
    let found = worse::<Honest>("errs", &case).unwrap_err().to_string();
    assert_eq!(
        found,
        "the gate gives no verdict in any case, only errors: nothing can be made worse"
    );
}

#[test]
fn a_case_that_does_not_hold_says_what_is_different() {
    let folder = Folder::with(
        "differs",
        &TABLE.replace("outcome: hold, reason: b has 1", "outcome: pass, validFor: 1m"),
    );
    let said = Cases::read(&folder.0)
        .unwrap()
        .hold_natively::<Honest>()
        .unwrap_err()
        .to_string();
    let expected = "case: b is short\n  outcome is `hold`, expected `pass`\n  reason is `b has 1`, expected ``\n  \
                    validFor is `none`, expected `1m`";
    assert_eq!(said, expected);
}

#[test]
fn a_file_that_is_no_case_is_named() {
    let wrong = [
        (TABLE.replace("why:", "reason:"), "unknown field `reason`"),
        (
            TABLE.replace("[b, 1]]", "[b]]"),
            "row 1 of collector health is not as long as its header",
        ),
        (
            TABLE.replace("b: {available: 1}", "c: {available: 1}"),
            "evidence of c, which is no cluster",
        ),
        (TABLE.replace("2026-11-20", "1969-11-20"), "out of range"),
    ];
    for (case, message) in wrong {
        let folder = Folder::with("wrong", &case);
        let said = Cases::read(&folder.0).unwrap_err().to_string();
        assert!(said.contains("case.yaml: ") && said.contains(message), "{said}");
    }
    assert!(
        Cases::read("no-such-folder")
            .unwrap_err()
            .to_string()
            .contains("reading no-such-folder")
    );
    assert!(
        Cases::read("src")
            .unwrap_err()
            .to_string()
            .contains("there is no case in it")
    );
}

#[test]
fn a_schema_that_is_out_of_date_is_said() {
    let folder = Folder::with("schema", TABLE);
    let path = folder.0.join("config.schema.json");
    std::fs::write(&path, "{}").unwrap();
    assert!(
        schema_is_fresh::<Honest>(&path)
            .unwrap_err()
            .to_string()
            .contains("is out of date")
    );
    assert!(
        schema_is_fresh::<Honest>(folder.0.join("none.json"))
            .unwrap_err()
            .to_string()
            .contains("reading")
    );
}
