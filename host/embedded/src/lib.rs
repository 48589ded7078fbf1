//! An API server in one process: what the playground, policy tests and most of our own tests run on. It serves what
//! kube and kubectl use of a Kubernetes API server, over a socket or without one, and keeps everything in memory.
//!
//! It must not become a second truth: it decides nothing that a real API server would not decide the same way, and it
//! has no authentication. Known to differ: no RBAC, quotas or webhooks; ValidatingAdmissionPolicies act without parameters
//! and without the authorizer, and not on what the server itself collects as garbage; built-in kinds are decoded,
//! validated and completed only as far as rollouts carry them, and not run; versions of a definition are not converted,
//! only renamed; collection by owner happens within the write that causes it; reads are never stale, and nothing fails
//! unless a [`Fault`] says so. What else differs is listed in `tests/cluster/requests`, answer by answer.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use stagegate_clock::TokioClock;
//! use stagegate_embedded::Server;
//!
//! let server = Server::new(TokioClock::shared());
//! let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(server.client());
//! assert!(namespaces.get("default").await.is_ok());
//! # Ok(())
//! # }
//! ```

mod admission;
mod cause;
mod client_errors;
pub mod clusters;
mod endpoint;
mod fields;
mod health;
mod http;
mod kinds;
mod labels;
mod names;
pub mod nodes;
mod refusal;
mod requests;
mod schema;
mod selector;
mod server;
mod store;
mod time;
mod watched;
mod write;

pub use http::USER_HEADER;
pub use refusal::Refusal;
pub use requests::{Fault, FaultAnswer, Request, RequestLog};
pub use server::{InstallError, Server};
pub use store::{Commit, CommitAuthor, CommitRequest};
