//! ValidatingAdmissionPolicies without parameters: compiled when they are stored, asked about every write while a binding names them.
//! Must not know where objects are stored, nor refuse a request itself: it says what a policy says.
//!
//! Expressions run within the limits of `stagegate-evaluate`, and one that has no answer counts as the policy's `failurePolicy`
//! says. What a real API server has besides is refused with the policy, by the name of its field:
//! parameters, the authorizer, audit annotations, the options of a request, `has()` of a
//! variable, and a variable that is a quantity, an address or a version. An optional as a variable has no answer.

mod complaints;
mod expressions;
mod matching;
mod policies;
mod policy;
mod review;

pub use complaints::binding_causes;
pub use policies::{Denial, Outcome, Policies};
pub use policy::{Policy, Reason};
pub use review::{Form, KindName, Operation, Review, User};

/// The group of policies and their bindings.
pub const GROUP: &str = "admissionregistration.k8s.io";
pub const POLICIES: &str = "validatingadmissionpolicies";
pub const BINDINGS: &str = "validatingadmissionpolicybindings";
