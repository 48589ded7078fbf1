//! A StatusCollector's expressions evaluated for each cluster, and the decision made of the outcomes. Blocks; must not
//! send a request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use stagegate_api::{Binding, CombinedStatus, StatusCollectorSpec};
use stagegate_decide::combine::{
    Collector, CompileProblem, Computed, Evaluation, Facts, Outcome, Plan, WorkloadObject, collector_errors, decide,
    expressions, keeps_row, questions,
};
use stagegate_evaluate::{Answer, Value};

use crate::controllers::evaluator::Evaluator;

/// The variables of a StatusCollector's expressions.
pub const VARIABLES: &[&str] = &["inventory", "obj", "propagation", "returned"];
/// 0001-01-01T00:00:00Z, KubeStellar's time of a status that nobody owns.
const YEAR_1_SECONDS: i64 = -62_135_596_800;

/// What one cluster returned about the object.
#[derive(Clone, Debug, Default)]
pub struct Returned {
    pub status: Option<Json>,
    /// When it last changed; `None` when nobody owns a status.
    pub at: Option<Timestamp>,
}

/// All that a combination is made of.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub object: WorkloadObject,
    pub content: Json,
    pub binding: Option<Arc<Binding>>,
    pub specs: BTreeMap<String, StatusCollectorSpec>,
    pub returned: BTreeMap<String, Returned>,
    pub existing: Vec<CombinedStatus>,
    pub report_namespace_exists: bool,
}

/// Evaluates what has to be and decides.
pub fn plan(evaluator: &Evaluator, inputs: &Inputs) -> Plan {
    let valid = inputs
        .specs
        .iter()
        .filter(|(_, spec)| errors(evaluator, spec).is_empty());
    let mut collectors: BTreeMap<String, Collector> = valid
        .map(|(name, spec)| {
            (
                name.clone(),
                Collector {
                    spec: spec.clone(),
                    evaluations: BTreeMap::new(),
                },
            )
        })
        .collect();
    let evaluations = evaluations(evaluator, inputs, &collectors);
    for ((collector, cluster), evaluation) in evaluations {
        if let Some(collector) = collectors.get_mut(&collector) {
            collector.evaluations.insert(cluster, evaluation);
        }
    }
    decide(&facts(inputs, &collectors))
}

/// Why a collector counts as absent; none when it is valid.
pub fn errors(evaluator: &Evaluator, spec: &StatusCollectorSpec) -> Vec<String> {
    let problems: Vec<CompileProblem<'_>> = expressions(spec)
        .filter_map(|expression| {
            let message = evaluator.compiled(expression.text, VARIABLES).err()?;
            Some(CompileProblem {
                place: expression.place,
                message,
            })
        })
        .collect();
    collector_errors(spec, &problems)
}

fn facts<'a>(inputs: &'a Inputs, collectors: &'a BTreeMap<String, Collector>) -> Facts<'a> {
    Facts {
        object: &inputs.object,
        binding: inputs.binding.as_deref(),
        collectors,
        existing: &inputs.existing,
        report_namespace_exists: inputs.report_namespace_exists,
    }
}

type Evaluations = BTreeMap<(String, String), Evaluation>;

fn evaluations(evaluator: &Evaluator, inputs: &Inputs, collectors: &BTreeMap<String, Collector>) -> Evaluations {
    let facts = facts(inputs, collectors);
    let questions = questions(&facts);
    let clusters: BTreeSet<&str> = questions.iter().map(|question| question.cluster).collect();
    let content = Value::from(&inputs.content);
    let rows: BTreeMap<&str, Vec<(&str, Value)>> = clusters
        .into_iter()
        .map(|cluster| {
            (
                cluster,
                variables(cluster, content.clone(), inputs.returned.get(cluster)),
            )
        })
        .collect();
    let mut evaluations = Evaluations::new();
    for question in questions {
        let Some(bound) = rows.get(question.cluster) else {
            continue;
        };
        let filter = question.filter.map(|text| outcome(evaluator, text, bound));
        let columns = if filter.as_ref().is_none_or(keeps_row) {
            question
                .columns
                .iter()
                .map(|(_, text)| outcome(evaluator, text, bound))
                .collect()
        } else {
            Vec::new()
        };
        let key = (question.collector.to_owned(), question.cluster.to_owned());
        evaluations.insert(key, Evaluation { filter, columns });
    }
    evaluations
}

/// KubeStellar's environment: no WorkStatus is an empty status, which is there all the same, and the year 1970.
fn variables(cluster: &str, content: Value, returned: Option<&Returned>) -> Vec<(&'static str, Value)> {
    let status = returned.and_then(|returned| returned.status.as_ref());
    let status = json!({"status": status.unwrap_or(&json!({}))});
    let (seconds, nanos) = match returned {
        None => (0, 0),
        Some(Returned { at: None, .. }) => (YEAR_1_SECONDS, 0),
        Some(Returned { at: Some(at), .. }) => (at.as_second(), 0),
    };
    // Out of CEL's range is no time that an API server writes; then there is no such member, and its use an error.
    let at = Value::timestamp(seconds, nanos).ok();
    let propagation = Value::map(at.map(|at| ("lastReturnedUpdateTimestamp".to_owned(), at)));
    vec![
        ("inventory", Value::from(&json!({"name": cluster}))),
        ("obj", content),
        ("returned", Value::from(&status)),
        ("propagation", propagation),
    ]
}

/// The variables whose values a map has, as [`VARIABLES`] are typed; a time is text in it.
///
/// # Errors
/// A member that is no variable, a time that is none.
pub fn given(map: &serde_json::Map<String, Json>) -> Result<Vec<(&'static str, Value)>, String> {
    let variable = |(name, value): (&String, &Json)| {
        let Some(known) = VARIABLES.iter().find(|known| *known == name) else {
            let known = VARIABLES.join(", ");
            return Err(format!(
                "{name:?} is no variable of a StatusCollector's expression; these are {known}"
            ));
        };
        let value = match *known {
            "propagation" => propagation(value)?,
            _ => Value::from(value),
        };
        Ok((*known, value))
    };
    map.iter().map(variable).collect()
}

fn propagation(given: &Json) -> Result<Value, String> {
    const AT: &str = "lastReturnedUpdateTimestamp";
    let wanted = || format!("propagation is a map of {AT}, a time such as \"2026-01-05T09:00:00Z\"");
    let members = given.as_object().ok_or_else(wanted)?;
    let at: Timestamp = match (members.get(AT).and_then(Json::as_str), members.len()) {
        (Some(text), 1) => text.parse().map_err(|_| wanted())?,
        _ => return Err(wanted()),
    };
    let at = Value::timestamp(at.as_second(), 0).map_err(|_| wanted())?;
    Ok(Value::map([(AT.to_owned(), at)]))
}

fn outcome(evaluator: &Evaluator, text: &str, bound: &[(&str, Value)]) -> Outcome {
    let compiled = match evaluator.compiled(text, VARIABLES) {
        Ok(compiled) => compiled,
        Err(message) => return Outcome::Error(message),
    };
    match evaluator.eval(&compiled, bound) {
        Ok(answer) => computed(answer),
        Err(error) => Outcome::Error(error.to_string()),
    }
}

fn computed(answer: Answer) -> Outcome {
    let computed = match answer {
        Answer::Null => Computed::Null,
        Answer::Bool(value) => Computed::Bool(value),
        Answer::Int(value) => Computed::Int(value),
        Answer::Uint(value) => Computed::Uint(value),
        Answer::Double(value) => Computed::Double(value),
        Answer::String(text) => Computed::String(text),
        Answer::Type(name) => Computed::Type(name),
        Answer::Bytes(bytes) => Computed::Bytes(bytes),
        Answer::Timestamp { seconds, nanos } => match Timestamp::new(seconds, i32::try_from(nanos).unwrap_or(0)) {
            Ok(time) => Computed::Timestamp(time),
            Err(_) => return Outcome::Error("the time is out of range".to_owned()),
        },
        Answer::Duration { seconds, nanos } => {
            Computed::Nanoseconds(seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos)))
        }
        Answer::Map(..) if !answer.from_data() => Computed::BuiltMap,
        list_or_map @ (Answer::List(..) | Answer::Map(..)) => Computed::Json(list_or_map.to_json()),
        Answer::Other => return Outcome::Error("the value is of a type that no column can hold".to_owned()),
    };
    Outcome::Value(computed)
}
