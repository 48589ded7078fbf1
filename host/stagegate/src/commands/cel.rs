//! `stagegate cel`: one expression over one object, exactly as a stage's check or filter would be evaluated.

use std::io::{self, Write as _};

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use stagegate_api::combined_status_view::{self, CombinedStatusView};
use stagegate_api::{CombinedStatus, evidence, label};
use stagegate_decide::names::ObjectKey;
use stagegate_decide::staging::{ClusterReport, JudgedObject, Root};
use stagegate_evaluate::{Answer, Budget, explain};

use super::{Failure, Outcome, Result};
use crate::args::{self, CelArgs, Format};
use crate::controllers::variables::{self, Shown};
use crate::manifests;

/// Prints the value as JSON, and on standard error why it is false; `-o json` prints `{"value": …, "kind": "bool"}`, with `explain` where
/// it is false, or `{"error": "…"}` on one line.
///
/// # Errors
/// Files that cannot be read. An expression that is refused or fails is an answer: [`Outcome::Negative`].
pub fn evaluate(args: &CelArgs) -> Result {
    let text = expression(args)?;
    let given = given(args)?;
    let answer = run(&text, &given);
    let mut out = io::stdout();
    match (args.output, &answer) {
        (Format::Text, Ok((answer, explained))) => {
            writeln!(out, "{}", answer.to_json())?;
            if let Some(explained) = explained {
                writeln!(io::stderr(), "{explained}")?;
            }
        }
        (Format::Json, Ok((answer, explained))) => {
            let mut line = json!({"value": answer.to_json(), "kind": answer.kind()});
            if let Some(explained) = explained {
                line["explain"] = json!(explained);
            }
            writeln!(out, "{line}")?;
        }
        (Format::Text, Err(message)) => writeln!(io::stderr(), "error: {message}")?,
        (Format::Json, Err(message)) => writeln!(out, "{}", json!({"error": message}))?,
    }
    Ok(match answer {
        Ok((Answer::Bool(false), _)) | Err(_) => Outcome::Negative,
        Ok(_) => Outcome::Success,
    })
}

/// What an expression sees of a manifest.
struct Given {
    root: Root,
    value: Value,
    clusters: Option<Vec<ClusterReport>>,
    object: Option<JudgedObject>,
}

/// The answer, and why it is false if it is.
fn run(text: &str, given: &Given) -> std::result::Result<(Answer, Option<String>), String> {
    let root = given.root;
    let compiled = variables::compile(text, root).map_err(|error| error.to_string())?;
    let shown = match root {
        Root::Clause => Shown {
            clause: Some(&given.value),
            ..Shown::default()
        },
        Root::CombinedStatus => Shown {
            clause: None,
            combined: Some(&given.value),
            clusters: given.clusters.as_deref(),
            object: given.object.as_ref(),
        },
    };
    let bound = variables::values(&variables::named(&compiled, root), shown)?;
    let answer = compiled
        .eval(&bound, Budget::default())
        .map_err(|error| error.to_string())?;
    let is_false = answer == Answer::Bool(false);
    let explained = is_false.then(|| explain(text, &bound, Budget::default())).flatten();
    Ok((answer, explained))
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

fn given(args: &CelArgs) -> Result<Given> {
    let path = &args.with;
    let manifests = manifests::read(std::slice::from_ref(path)).map_err(|error| Failure::Input(error.into()))?;
    let [manifest] = manifests.as_slice() else {
        let error = anyhow!("{} holds {} objects; one is needed", path.display(), manifests.len());
        return Err(Failure::Input(error));
    };
    let root = match args.root {
        args::Root::CombinedStatus | args::Root::Obj => Root::CombinedStatus,
        args::Root::DownsyncClause => Root::Clause,
    };
    if root == Root::Clause || manifest.kind() != "CombinedStatus" {
        return Ok(Given {
            root,
            value: manifest.value.clone(),
            clusters: None,
            object: None,
        });
    }
    // As the controller does it: without kind, apiVersion and the results of its own collector.
    let combined: CombinedStatus = serde_json::from_value(manifest.value.clone())
        .with_context(|| format!("reading {} as a CombinedStatus", path.display()))
        .map_err(Failure::Input)?;
    let view = CombinedStatusView::of(&combined);
    let key = key_of(&view);
    Ok(Given {
        root,
        value: combined_status_view::visible_results(&combined),
        clusters: key.as_ref().and_then(|key| clusters_of(key, &view)),
        object: key.map(|key| JudgedObject {
            group: key.group,
            version: None,
            resource: key.resource,
            namespace: key.namespace.unwrap_or_default(),
            name: key.name,
            generation: None,
        }),
    })
}

/// The object that a CombinedStatus is about, as its labels name it.
fn key_of(view: &CombinedStatusView) -> Option<ObjectKey> {
    let label = |key: &str| Some(view.label(key).to_owned()).filter(|text| !text.is_empty());
    Some(ObjectKey {
        group: label(label::API_GROUP).unwrap_or_default(),
        resource: label(label::RESOURCE)?,
        namespace: label(label::NAMESPACE),
        name: label(label::NAME)?,
    })
}

fn clusters_of(key: &ObjectKey, view: &CombinedStatusView) -> Option<Vec<ClusterReport>> {
    let ours = evidence::collector_name();
    let found = match view.evidence.as_slice() {
        [found] => found,
        several => several.iter().find(|found| found.collector == ours)?,
    };
    let rows = found.malformed.is_none().then_some(&found.rows)?;
    Some(rows.iter().map(|row| ClusterReport::of(key, row)).collect())
}
