//! Runs one CEL expression, or one WebAssembly [`gate`], within limits: values in, one typed answer or one short error out.
//!
//! The expression is written by a user and the values are objects of a cluster, so neither may hurt the process: compiling,
//! evaluating and dropping happen on threads with a stack of their own, every step is paid for from a [`Budget`], and an
//! error never repeats a value. Nothing here knows Kubernetes, does input or output, or reads the time except to keep a
//! deadline.
//!
//! ```
//! use stagegate_evaluate::{Answer, Budget, Value, compile};
//!
//! let ready = compile("obj.status.readyReplicas >= obj.spec.replicas", &["obj"])?;
//! let obj = Value::from(&serde_json::json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 3}}));
//! assert_eq!(ready.eval(&[("obj", obj)], Budget::default())?, Answer::Bool(true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod budget;
mod charged;
mod check;
mod compile;
#[cfg(test)]
mod conformance;
mod elsewhere;
mod error;
mod explain;
mod extended;
pub mod gate;
mod library;
mod patterns;
mod reading;
mod rewrite;
mod shape;
mod syntax;
mod text;
mod threads;
mod value;

pub use answer::{Answer, Origin};
pub use budget::Budget;
pub use compile::{Compiled, compile, compile_shaped};
pub use error::{CompileError, EvalError, EvalErrorKind};
pub use explain::{Cause, explain};
pub use library::Library;
pub use reading::{Comparison, Member, Place, Reading, Written, reading};
pub use shape::{Shape, meant, mistyped};
pub use value::{OutOfRange, Value};
