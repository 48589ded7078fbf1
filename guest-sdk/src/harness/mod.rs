//! Tests of a gate without a cluster: cases in files, the same cases through the real sandbox, and the property that
//! worse evidence never opens the gate.
//!
//! A gate's `tests/cases.rs` is this, with the gate's own names:
//!
//! ```no_run
//! # use stagegate_guest::{Error, Gate, Request, Verdict};
//! # #[derive(serde::Deserialize, schemars::JsonSchema)]
//! # struct MinAvailable {}
//! # impl Gate for MinAvailable {
//! #     const NAME: &'static str = "";
//! #     const VERSION: &'static str = "";
//! #     const SUMMARY: &'static str = "";
//! #     fn evaluate(&self, _: &Request) -> Result<Verdict, Error> { Ok(Verdict::pass()) }
//! # }
//! use stagegate_guest::harness::{Cases, Worse};
//!
//! # /*
//! #[test]
//! # */
//! fn the_cases_hold() -> Result<(), Error> {
//!     Cases::read("cases")?.hold::<MinAvailable>()
//! }
//!
//! # /*
//! #[test]
//! # */
//! fn worse_evidence_never_opens_it() -> Result<(), Error> {
//!     Cases::read("cases")?.never_open_by_worse_evidence::<MinAvailable>(&[Worse::Lower("available")])
//! }
//! ```
//!
//! Every case is judged natively. Where the environment's `STAGEGATE` names the `stagegate` program, [`Cases::hold`]
//! has every case judged by the component, too, in the sandbox that a cluster would use, and the verdicts must be
//! equal. The component is `STAGEGATE_GATE`, or what `cargo build --target wasm32-wasip2 --profile gate` has left in
//! the target folder of the test.
//!
//! The form of a case is [`Case`]'s. A test fails by the error that it returns.

mod case;
mod columns;
mod fixture;
mod sandbox;
mod schema;
mod search;
mod step;
mod worse;

use std::io::Write as _;
use std::path::Path;

pub use case::{Case, Expectation};
pub use fixture::{Cluster, Earlier, Report, Table, Watched};
pub use schema::schema_is_fresh;
pub use worse::Worse;

use crate::{Error, Gate, Outcome};

/// Writes to standard error itself: `cargo test` hides what a passing test writes with `eprintln!`.
fn tell(text: &str) {
    let _written = writeln!(std::io::stderr(), "{text}");
}

/// The cases of a gate.
#[derive(Debug)]
pub struct Cases(Vec<Case>);

impl Cases {
    /// Reads `*.yaml` in `folder`, which is relative to the package of the test.
    ///
    /// # Errors
    /// The folder cannot be read or has no case, or a file is no case: the error names it.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = folder.as_ref();
        let failed = |error: &dyn std::fmt::Display| Error::new(format_args!("reading {}: {error}", folder.display()));
        let mut cases = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| failed(&error))? {
            let path = entry.map_err(|error| failed(&error))?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                cases.push(Case::read(&path)?);
            }
        }
        if cases.is_empty() {
            return Err(failed(&"there is no case in it"));
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self(cases))
    }

    /// Judges every case natively and, where `STAGEGATE` is set, in the sandbox. If all
    /// cases hold, standard error says how many there are and where they ran.
    ///
    /// # Errors
    /// All cases whose verdict is not the expected one, and what is different.
    pub fn hold<G: Gate>(&self) -> Result<(), Error> {
        self.judge::<G>(sandbox::Sandbox::from_environment()?.as_ref())
    }

    /// Judges every case natively, whatever the environment says: for a gate that is no component.
    ///
    /// # Errors
    /// As of [`Self::hold`].
    pub fn hold_natively<G: Gate>(&self) -> Result<(), Error> {
        self.judge::<G>(None)
    }

    fn judge<G: Gate>(&self, sandbox: Option<&sandbox::Sandbox>) -> Result<(), Error> {
        let wrong: Vec<String> = (self.0.iter())
            .filter_map(|case| {
                let judged = case.judge::<G>().and_then(|()| match sandbox {
                    Some(sandbox) => sandbox.agrees_on::<G>(case),
                    None => Ok(()),
                });
                judged.err().map(|error| format!("{}: {error}", case.name))
            })
            .collect();
        if !wrong.is_empty() {
            return Err(Error::new(wrong.join("\n")));
        }
        let cases = match self.0.len() {
            1 => "the only case holds".to_owned(),
            cases => format!("all {cases} cases hold"),
        };
        let how = match sandbox {
            Some(_) => "natively and in the sandbox",
            None => "natively",
        };
        tell(&format!("{}: {cases} {how}", G::NAME));
        Ok(())
    }

    /// Makes the evidence of every case worse, step by step, in many ways: removes collectors, columns, rows and
    /// values, makes clusters look as if they had never reported and objects unhealthy, lowers the host's counts, and
    /// moves the numbers of the `columns`.
    /// A gate that does not pass must not pass on worse evidence.
    ///
    /// # Errors
    /// A counterexample: the case, the fewest steps that were found, and the verdicts before and after the last of
    /// them. Or that the gate gives no verdict in any case, only errors: then there is nothing to make worse.
    pub fn never_open_by_worse_evidence<G: Gate>(&self, columns: &[Worse]) -> Result<(), Error> {
        let has_verdict = |case: &Case| Ok::<_, Error>(search::outcome::<G>(&case.request()?) != Outcome::Unknown);
        let with_verdict = self.0.iter().map(has_verdict).collect::<Result<Vec<bool>, Error>>()?;
        if !with_verdict.contains(&true) {
            return Err(Error::new(
                "the gate gives no verdict in any case, only errors: nothing can be made worse",
            ));
        }
        self.0.iter().try_for_each(|case| search::search::<G>(case, columns))
    }
}
