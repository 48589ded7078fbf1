//! The cases of the gate, natively and, where `STAGEGATE` names the program, in the sandbox.

use gate_freeze_window::FreezeWindow;
use stagegate_guest::Error;
use stagegate_guest::harness::{Cases, schema_is_fresh};

#[test]
fn the_cases_hold() -> Result<(), Error> {
    Cases::read("cases")?.hold::<FreezeWindow>()
}

#[test]
fn worse_evidence_never_opens_it() -> Result<(), Error> {
    Cases::read("cases")?.never_open_by_worse_evidence::<FreezeWindow>(&[])
}

#[test]
fn the_stored_schema_is_what_the_config_is() -> Result<(), Error> {
    schema_is_fresh::<FreezeWindow>("config.schema.json")
}
