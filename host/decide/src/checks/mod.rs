//! Evaluating the checks of a stage: health, condition, gates and soak. Must not know what is placed, nor where.

pub(crate) mod answers;
pub(crate) mod check;
pub(crate) mod evaluate;
pub(crate) mod expressions;
pub(crate) mod finding;
pub(crate) mod gate_call;
pub(crate) mod gates;
pub(crate) mod health;
pub(crate) mod question;
pub(crate) mod reason;
pub(crate) mod record;
pub(crate) mod soak;
pub(crate) mod spec;
pub(crate) mod stage;
pub(crate) mod steps;
pub(crate) mod variables;
pub(crate) mod verdict;

pub use answers::{Answers, AnswersMut, Compilation};
pub use gate_call::{
    CombinedRef, ConfigAnswer, ConfigKey, EarlierVerdict, GateAnswer, GateCall, GateDestination, GateEvidenceRow,
    GateHealth, GateNamespaces, GateObject, GateRequest, GateVerdict, Module, ModuleFacts, Shown, Source, SourceEntry,
};
pub use question::{Evidence, Question};
pub use reason::Reason;
pub use variables::{ClusterReport, ConditionEvidence, JudgedObject, PoolReport, Root, Variable};
pub use verdict::{Verdict, VerdictKey};
