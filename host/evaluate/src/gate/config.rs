//! Whether a gate's config fits the JSON Schema that the gate names. The schema is the gate author's: it may be built to cost
//! much, so this runs only where processor time is limited from outside. Nothing is fetched.

use std::error::Error;

use jsonschema::{PatternOptions, Retrieve, Uri};
use serde_json::Value;

use super::text::sentence;

/// Checks `config` against `schema` (draft 2020-12), both JSON texts. The error names the place by its JSON Pointer and has
/// at most [`super::FAILURE_CHARS_MAX`] characters. A schema that cannot be used is an error, too.
pub fn check_config(schema: &str, config: &str) -> Result<(), String> {
    check(schema, config).map_err(sentence)
}

fn check(schema: &str, config: &str) -> Result<(), String> {
    let schema: Value = serde_json::from_str(schema).map_err(|error| format!("the schema is not JSON: {error}"))?;
    let config: Value = serde_json::from_str(config).map_err(|error| format!("the config is not JSON: {error}"))?;
    let validator = jsonschema::draft202012::options()
        // The other engine backtracks: a pattern of a few characters could take for ever.
        .with_pattern_options(PatternOptions::regex())
        .with_retriever(Nothing)
        .build(&schema)
        .map_err(|error| format!("the schema cannot be used: {error}"))?;
    let Err(error) = validator.validate(&config) else {
        return Ok(());
    };
    Err(match error.instance_path().as_str() {
        "" => error.to_string(),
        path => format!("{path}: {error}"),
    })
}

/// Refuses every reference that leaves the schema.
struct Nothing;

impl Retrieve for Nothing {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn Error + Send + Sync>> {
        Err("a schema may refer to itself only".into())
    }
}
