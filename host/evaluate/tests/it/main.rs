//! Integration tests of `stagegate-evaluate`: expressions and answers, errors, and hostile texts in child processes.

mod answers;
mod errors;
mod explanations;
mod functions;
mod gate;
mod hostile;
mod mutations;
mod shapes;
mod values;

use serde_json::json;
use stagegate_evaluate::{Answer, Budget, EvalError, Value, compile};

/// Evaluates `text` over the variable `obj` with the default budget.
fn eval(text: &str, obj: &serde_json::Value) -> Result<Answer, EvalError> {
    let compiled = compile(text, &["obj"]).unwrap_or_else(|error| panic!("{text}: {error}"));
    compiled.eval(&[("obj", Value::from(obj))], Budget::default())
}

/// A workload as the API server gives it.
fn deployment() -> serde_json::Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "nginx", "generation": 4, "labels": {"zone": "b", "app": "nginx", "tier": "web"}},
        "spec": {"replicas": 3, "ratio": 0.5, "ports": [80, 443]},
        "status": {"readyReplicas": 3, "conditions": [{"type": "Available", "status": "True"}]}
    })
}
