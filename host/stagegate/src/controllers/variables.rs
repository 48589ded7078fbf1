//! The values of the variables of filters and conditions. Only what an expression names is made, each from one conversion. Must not
//! evaluate an expression, nor decide what a cluster is shown to have reported.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use stagegate_api::evidence;
use stagegate_decide::checks::{ClusterReport, JudgedObject, PoolReport, Root, Variable};
use stagegate_evaluate::{
    Budget, Cause, CompileError, Compiled, EvalError, EvalErrorKind, Library, Member, Shape, Value, compile_shaped,
    explain, meant, reading,
};

/// What an expression may see; a variable whose value is not here must not be named, except `collectors`, which must not be read.
#[derive(Clone, Copy, Default)]
pub struct Shown<'a> {
    /// `downsyncClause`
    pub clause: Option<&'a Json>,
    /// `combinedStatus` and `obj`; the source of `collectors`.
    pub combined: Option<&'a Json>,
    pub clusters: Option<&'a [ClusterReport]>,
    pub object: Option<&'a JudgedObject>,
    pub pools: Option<&'a [PoolReport]>,
}

/// Compiles an expression over the variables of its root.
pub fn compile(text: &str, root: Root) -> Result<Compiled, CompileError> {
    let named = root.variables().iter().copied();
    let declared = named.map(|variable| (variable.name().to_owned(), shape(variable, root)));
    // Only Stagegate evaluates these. A collector's expressions are KubeStellar's, too, which has fewer functions.
    compile_shaped(text, declared.collect(), Library::Extended)
}

/// The shape of the values that [`values`] makes, as far as it is the same for all objects.
fn shape(variable: Variable, root: Root) -> Shape {
    match variable {
        Variable::CombinedStatus | Variable::Obj => Shape::Any,
        // As KubeStellar writes a Binding: a `BoundObject`.
        Variable::DownsyncClause => {
            let texts = ["group", "version", "resource", "namespace", "name", "resourceVersion"];
            let flags = ["createOnly", "wantSingletonReportedState", "wantMultiWECReportedState"];
            let texts = texts.map(|name| (name, Shape::String)).into_iter();
            let flags = flags.map(|name| (name, Shape::Bool));
            Shape::record(
                texts
                    .chain(flags)
                    .chain([("statusCollectors", Shape::list(Shape::String))]),
            )
        }
        Variable::Clusters => Shape::list(Shape::record([
            ("name", Shape::String),
            ("reportedAt", Shape::Timestamp),
            ("generation", Shape::Int),
            ("replicas", Shape::Int),
            ("updated", Shape::Int),
            ("ready", Shape::Int),
            ("available", Shape::Int),
            ("healthy", Shape::Bool),
            ("message", Shape::String),
        ])),
        Variable::Pools => Shape::list(Shape::record([
            ("name", Shape::String),
            ("labels", Shape::map(Shape::String)),
            ("generation", Shape::Int),
            ("replicas", Shape::Int),
            ("updated", Shape::Int),
            ("ready", Shape::Int),
            ("available", Shape::Int),
            ("healthy", Shape::Bool),
            ("message", Shape::String),
        ])),
        Variable::Object => {
            let texts = ["group", "version", "resource", "namespace", "name"];
            let members = texts.map(|name| (name, Shape::String)).into_iter();
            // As `object_of_clause` makes it.
            let generation = (root == Root::CombinedStatus).then_some(("generation", Shape::Int));
            Shape::record(members.chain(generation))
        }
        Variable::Collectors => Shape::map(Shape::list(Shape::map(Shape::Any))),
    }
}

/// The variables that a compiled expression names.
pub fn named(compiled: &Compiled, root: Root) -> BTreeSet<Variable> {
    compiled.variables().filter_map(|name| root.variable(name)).collect()
}

/// The values of these variables. `collectors` is left out where no StatusCollector has a result: then reading it is an error, and an
/// expression that looks at the object's kind first need not read it.
///
/// # Errors
/// If any other variable has no value: an empty list or map in its place could make a stage pass.
pub fn values(named: &BTreeSet<Variable>, shown: Shown<'_>) -> Result<Vec<(&'static str, Value)>, String> {
    let mut combined: Option<Value> = None;
    let value = |variable: &Variable| {
        let value = match variable {
            Variable::DownsyncClause => shown.clause.map(Value::from),
            Variable::CombinedStatus | Variable::Obj => {
                combined = combined.take().or_else(|| shown.combined.map(Value::from));
                combined.clone()
            }
            Variable::Collectors => shown.combined.and_then(collectors),
            Variable::Clusters => shown.clusters.map(|clusters| Value::list(clusters.iter().map(cluster))),
            Variable::Pools => shown.pools.map(|pools| Value::list(pools.iter().map(pool))),
            Variable::Object => shown.object.map(object).or_else(|| shown.clause.map(object_of_clause)),
        };
        match value {
            Some(value) => Ok(Some((variable.name(), value))),
            None if *variable == Variable::Collectors => Ok(None),
            None => Err(without_value(*variable)),
        }
    };
    named.iter().map(value).filter_map(Result::transpose).collect()
}

fn without_value(variable: Variable) -> String {
    format!("`{}` has no value: {}", variable.name(), remedy(variable))
}

/// Why `text` is false. Where that is because something is not healthy in a cluster or a
/// pool, the `message` there says why: the rules of health make that text, and it holds no part of an object.
pub fn why_false(text: &str, root: Root, bound: &[(&str, Value)]) -> Option<String> {
    let variable = match root {
        Root::Clause | Root::CombinedStatus => Variable::Clusters,
        Root::Pools => Variable::Pools,
    };
    let cause = Cause {
        variable: variable.name(),
        member: "healthy",
        text: "message",
    };
    explain(text, bound, Some(cause), Budget::default())
}

/// Why the evaluation of `text` failed, and what to do: name a StatusCollector, test a member that may be absent, or use the
/// StatusCollector or column that was probably meant.
pub fn explained(error: &EvalError, (text, root): (&str, Root), bound: &[(&str, Value)]) -> String {
    let name = match &error.kind {
        EvalErrorKind::NoSuchKey { name } => name,
        EvalErrorKind::NoValue { name } if name == Variable::Collectors.name() => {
            return without_value(Variable::Collectors);
        }
        _ => return error.to_string(),
    };
    if name.starts_with('(') {
        return error.to_string();
    }
    let collectors = bound
        .iter()
        .find(|(variable, _)| *variable == Variable::Collectors.name());
    if let Some((_, collectors)) = collectors
        && let Some(missing) = missing_of_collectors(name, text, collectors)
    {
        return missing;
    }
    let of = operand(name, text);
    let of = of.as_deref().unwrap_or("a");
    let test = if is_simple(name) {
        format!("has({of}.{name})")
    } else {
        format!("{name:?} in {of}")
    };
    let absent = format!("no such member: {name}. If it may be absent, test it first: {test}");
    match root {
        Root::Pools => absent,
        Root::Clause | Root::CombinedStatus => {
            format!("{absent}; if the kind never has it, exclude the kind with the stage's filter")
        }
    }
}

/// What the member of that name is read of, if that is known and the same everywhere.
fn operand(name: &str, text: &str) -> Option<String> {
    let operands = reading(text)?.operands.remove(name)?;
    match Vec::from_iter(operands).as_slice() {
        [operand] => operand.clone(),
        _ => None,
    }
}

/// What to say of a key that is missing below `collectors`, if it is the name of a StatusCollector or nearly that of a column. Silent
/// where it may be missing elsewhere.
fn missing_of_collectors(name: &str, text: &str, collectors: &Value) -> Option<String> {
    let names = collectors.keys();
    let reading = reading(text)?;
    let of_collectors = |member: &Member| member.of == Variable::Collectors.name();
    let mut named = reading.members.iter().filter(|member| member.name == name);
    let is_collector = |member: &Member| of_collectors(member) && !member.is_of_elements && !member.is_tested;
    if !names.iter().any(|known| known == name) && named.clone().any(is_collector) {
        let hint = match meant(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}? If not, check"),
            None => format!("there are results of {}. Check", names.join(", ")),
        };
        return Some(format!(
            "no result of StatusCollector {name}: {hint} that it exists and that spec.downsync[].statusCollectors names it"
        ));
    }
    let whole = [Variable::CombinedStatus, Variable::Obj];
    if named.any(|member| !of_collectors(member)) || whole.iter().any(|all| reading.variables.contains(all.name())) {
        return None;
    }
    let rows = names
        .iter()
        .filter_map(|name| collectors.member(name)?.items())
        .flatten();
    let columns: BTreeSet<String> = rows.flat_map(|row| row.keys()).collect();
    let near = meant(name, columns.iter().map(String::as_str))?;
    (near != name).then(|| format!("no such column: {name}; did you mean {near}?"))
}

/// Whether it can stand after a dot.
fn is_simple(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_reserved = matches!(name, "in" | "true" | "false" | "null");
    !is_reserved && name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

fn remedy(variable: Variable) -> String {
    match variable {
        Variable::Collectors => {
            "no StatusCollector has a result about the object; name one in spec.downsync[].statusCollectors".to_owned()
        }
        Variable::Pools => "give the workloads of a YurtAppDaemon".to_owned(),
        _ => format!(
            "give a CombinedStatus of a BindingPolicy that Stagegate has made, with its labels and the results of the \
             StatusCollector {}…",
            evidence::NAME_PREFIX
        ),
    }
}

fn cluster(report: &ClusterReport) -> Value {
    // A time outside of CEL's range is left out: an expression that reads it fails.
    let reported_at = report.reported_at.and_then(|seconds| Value::timestamp(seconds, 0).ok());
    let members = [
        ("name", Some(Value::from(report.name.borrowed().text()))),
        ("reportedAt", reported_at),
        ("generation", report.generation.map(Value::from)),
        ("replicas", report.replicas.map(Value::from)),
        ("updated", report.updated.map(Value::from)),
        ("ready", report.ready.map(Value::from)),
        ("available", report.available.map(Value::from)),
        ("healthy", Some(Value::from(report.healthy))),
        ("message", Some(Value::from(report.message.as_str()))),
    ];
    map(members)
}

fn pool(report: &PoolReport) -> Value {
    let labels = report.labels.iter();
    let labels = labels.map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    map([
        ("name", Some(Value::from(report.name.as_str()))),
        ("labels", Some(Value::map(labels))),
        ("generation", report.generation.map(Value::from)),
        ("replicas", report.replicas.map(Value::from)),
        ("updated", report.updated.map(Value::from)),
        ("ready", report.ready.map(Value::from)),
        ("available", report.available.map(Value::from)),
        ("healthy", Some(Value::from(report.healthy))),
        ("message", Some(Value::from(report.message.as_str()))),
    ])
}

fn object(judged: &JudgedObject) -> Value {
    let text = |text: &str| Some(Value::from(text));
    map([
        ("group", text(&judged.group)),
        ("version", judged.version.as_deref().map(Value::from)),
        ("resource", text(&judged.resource)),
        ("namespace", text(&judged.namespace)),
        ("name", text(&judged.name)),
        ("generation", judged.generation.map(Value::from)),
    ])
}

/// Without `generation`: which objects are judged does not change with an update.
fn object_of_clause(clause: &Json) -> Value {
    let text = |name: &'static str| (name, clause.get(name).map(Value::from));
    let namespace = clause.get("namespace").map_or_else(|| Value::from(""), Value::from);
    map([
        text("group"),
        text("version"),
        text("resource"),
        ("namespace", Some(namespace)),
        text("name"),
    ])
}

fn map<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    Value::map(
        members
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?))),
    )
}

/// By the name of each StatusCollector the rows of its result; `None` without any result.
fn collectors(combined: &Json) -> Option<Value> {
    let mut results = items(combined, "results").peekable();
    results.peek()?;
    Some(Value::map(results.filter_map(|result| {
        Some((result.get("name")?.as_str()?.to_owned(), rows(result)))
    })))
}

fn rows(result: &Json) -> Value {
    let names: Vec<&str> = items(result, "columnNames")
        .map(|name| name.as_str().unwrap_or_default())
        .collect();
    // Of two columns of one name nobody knows which is meant: the row has neither.
    let is_alone = |name: &str| names.iter().filter(|other| **other == name).count() == 1;
    let shown: Vec<Option<String>> = names
        .iter()
        .map(|name| is_alone(name).then(|| (*name).to_owned()))
        .collect();
    let row = |row: &Json| {
        let columns = shown.iter().zip(items(row, "columns"));
        Value::map(columns.filter_map(|(name, column)| Some((name.clone()?, cell(column)?))))
    };
    Value::list(items(result, "rows").map(row))
}

fn items<'a>(value: &'a Json, member: &str) -> impl Iterator<Item = &'a Json> {
    value.get(member).and_then(Json::as_array).into_iter().flatten()
}

/// A Number is a double, which KubeStellar writes as text. One that cannot be parsed or is not finite is left out of its row, as is any
/// other value that cannot be read: to read it is an error, whereas `!(rate > 0.01)` would be true for NaN.
fn cell(cell: &Json) -> Option<Value> {
    let member = |name: &str| cell.get(name);
    match cell.get("type").and_then(Json::as_str)? {
        "Number" => {
            let number: f64 = member("float").and_then(Json::as_str)?.parse().ok()?;
            number.is_finite().then(|| Value::from(number))
        }
        "Bool" => member("bool").and_then(Json::as_bool).map(Value::from),
        "String" => member("string").and_then(Json::as_str).map(Value::from),
        "Array" => member("array").map(Value::from),
        "Object" => member("object").map(Value::from),
        "Null" => Some(Value::null()),
        _ => None,
    }
}
