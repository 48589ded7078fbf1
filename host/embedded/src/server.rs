//! The server itself: its state, the log of its requests and the faults to come. Must not know how requests reach it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use stagegate_clock::SharedClock;

use crate::kinds::builtin;
use crate::refusal::Refusal;
use crate::requests::{Fault, FaultAnswer, Faults, Request, RequestLog};
use crate::store::{Commit, CommitAuthor, State};
use crate::write::{Author, FieldValidation, Part, Writer};

/// Namespaces that exist from the start.
const FIRST_NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// The user as whom a real API server sends requests to itself.
const INTERNAL_USER: &str = "system:apiserver";

/// An API server in this process. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    clock: SharedClock,
    state: Mutex<State>,
    requests: Mutex<RequestLog>,
    faults: Mutex<Faults>,
}

/// Why custom resource definitions could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("encoding custom resource definition {name}")]
    Encode {
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("installing custom resource definition {name}")]
    Refused {
        name: String,
        #[source]
        source: Refusal,
    },
}

/// The answer while another thread panicked under the lock is the state as it was left: every write stores last.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// An empty server: the built-in kinds and the usual namespaces.
    pub fn new(clock: SharedClock) -> Server {
        let mut state = State::default();
        state.serve(builtin::kinds());
        let shared = Shared {
            clock,
            state: Mutex::new(state),
            requests: Mutex::new(RequestLog::default()),
            faults: Mutex::new(Faults::default()),
        };
        let server = Server {
            shared: Arc::new(shared),
        };
        for name in FIRST_NAMESPACES {
            let namespace = json!({"metadata": {"name": name}});
            let created = server.create_internally("", "namespaces", namespace);
            debug_assert!(created.is_ok(), "the names are namespaces' names");
        }
        server
    }

    /// Makes the server serve custom resources.
    pub fn install_crds(&self, definitions: Vec<CustomResourceDefinition>) -> Result<(), InstallError> {
        for definition in definitions {
            let name = definition.metadata.name.clone().unwrap_or_default();
            let body = serde_json::to_value(&definition).map_err(|source| InstallError::Encode {
                name: name.clone(),
                source,
            })?;
            self.create_internally("apiextensions.k8s.io", "customresourcedefinitions", body)
                .map_err(|source| InstallError::Refused { name, source })?;
        }
        Ok(())
    }

    /// The requests so far.
    pub fn requests(&self) -> RequestLog {
        lock(&self.shared.requests).clone()
    }

    /// Logs every committed write from now on. The log is not bounded: it is for tests.
    pub fn log_commits(&self) {
        self.state().log_commits();
    }

    /// The log without its first `skip` entries; empty without [`Self::log_commits`].
    pub fn commits(&self, skip: usize) -> Vec<Commit> {
        self.state().commits(skip)
    }

    /// Makes some of the requests to come go wrong.
    pub fn inject(&self, fault: Fault) {
        lock(&self.shared.faults).add(fault);
    }

    /// Forgets all history: continue tokens and watches that are behind get 410.
    pub fn compact(&self) {
        self.state().compact();
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Logs a request and says what shall go wrong with it.
    pub(crate) fn note(&self, request: Request) -> Option<FaultAnswer> {
        let fault = lock(&self.shared.faults).hit(&request);
        lock(&self.shared.requests).record(request);
        fault
    }

    fn create_internally(&self, group: &str, plural: &str, body: serde_json::Value) -> Result<(), Refusal> {
        let mut state = self.state();
        let kind = state
            .kind(group, "v1", plural)
            .cloned()
            .ok_or_else(Refusal::no_such_path)?;
        let author = Author {
            user: INTERNAL_USER.to_owned(),
            manager: "stagegate-embedded".to_owned(),
            dry_run: false,
            force: false,
            validation: FieldValidation::Strict,
        };
        state.caused_by(CommitAuthor::Server, self.now());
        let mut writer = Writer {
            state: &mut state,
            asked: kind.clone(),
            kind,
            namespace: "",
            part: Part::Main,
            author: &author,
            now: self.now(),
            warnings: Vec::new(),
        };
        writer.create(body).map(|_| ())
    }
}
