//! `stagegate cel`: one expression over one object, exactly as a stage's check or filter would be evaluated.

use std::io::{self, Write as _};

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use stagegate_api::{CombinedStatus, combined_status_view};
use stagegate_evaluate::{Answer, Budget, compile};

use super::{Failure, Outcome, Result};
use crate::args::{CelArgs, Format, Root};
use crate::manifests;

/// Prints the value as JSON; `-o json` prints `{"value": …, "kind": "bool"}` or `{"error": "…"}` on one line.
///
/// # Errors
/// Files that cannot be read. An expression that is refused or fails is an answer: [`Outcome::Negative`].
pub fn evaluate(args: &CelArgs) -> Result {
    let text = expression(args)?;
    let object = object(args)?;
    let answer = run(&text, args.root, &object);
    let mut out = io::stdout();
    match (args.output, &answer) {
        (Format::Text, Ok(answer)) => writeln!(out, "{}", answer.to_json())?,
        (Format::Json, Ok(answer)) => writeln!(out, "{}", json!({"value": answer.to_json(), "kind": answer.kind()}))?,
        (Format::Text, Err(message)) => writeln!(io::stderr(), "error: {message}")?,
        (Format::Json, Err(message)) => writeln!(out, "{}", json!({"error": message}))?,
    }
    Ok(match answer {
        Ok(Answer::Bool(false)) | Err(_) => Outcome::Negative,
        Ok(_) => Outcome::Success,
    })
}

/// The variables that an expression may use; the object stands behind each of them.
fn variables(root: Root) -> &'static [&'static str] {
    match root {
        Root::CombinedStatus | Root::Obj => &["combinedStatus", "obj"],
        Root::DownsyncClause => &["downsyncClause"],
    }
}

fn run(text: &str, root: Root, object: &Value) -> std::result::Result<Answer, String> {
    let names = variables(root);
    let compiled = compile(text, names).map_err(|error| error.to_string())?;
    let value = stagegate_evaluate::Value::from(object);
    let variables: Vec<_> = names.iter().map(|name| (*name, value.clone())).collect();
    compiled
        .eval(&variables, Budget::default())
        .map_err(|error| error.to_string())
}

fn expression(args: &CelArgs) -> Result<String> {
    match (&args.expression, &args.file) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
            text.map_err(Failure::Input)
        }
        (None, None) => Err(Failure::Input(anyhow!("an expression or -f FILE is needed"))),
    }
}

fn object(args: &CelArgs) -> Result<Value> {
    let path = &args.with;
    let manifests = manifests::read(std::slice::from_ref(path)).map_err(|error| Failure::Input(error.into()))?;
    let [manifest] = manifests.as_slice() else {
        let error = anyhow!("{} holds {} objects; one is needed", path.display(), manifests.len());
        return Err(Failure::Input(error));
    };
    if args.root == Root::DownsyncClause || manifest.kind() != "CombinedStatus" {
        return Ok(manifest.value.clone());
    }
    // As the controller does it: without kind, apiVersion and the results of its own collector.
    let combined: CombinedStatus = serde_json::from_value(manifest.value.clone())
        .with_context(|| format!("reading {} as a CombinedStatus", path.display()))
        .map_err(Failure::Input)?;
    Ok(combined_status_view::visible_results(&combined))
}
