//! The server itself: the shared state behind a router, a client without a socket, and a listener for everybody else.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use stagegate_clock::SharedClock;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::http::handle;
use crate::kinds::builtin;
use crate::refusal::Refusal;
use crate::requests::{Fault, FaultAnswer, Faults, Request, RequestLog};
use crate::store::{Commit, CommitAuthor, State};
use crate::write::{Author, FieldValidation, Part, Writer};

/// Namespaces that exist from the start.
const FIRST_NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

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

    /// The server as a service. Needs no runtime until it is called.
    pub fn router(&self) -> Router {
        Router::new().fallback(handle).with_state(self.clone())
    }

    /// A client that calls the router directly. Must be made inside a tokio runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.router(), "default")
    }

    /// Answers connections until `shutdown` is done; open watches are then cut.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> std::io::Result<()> {
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let stream = tokio::select! {
                () = &mut shutdown => return Ok(()),
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    // The peer went before it was accepted.
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
                    Err(error) => return Err(error),
                },
            };
            // Without it the last line of a watch waits 40 ms for an acknowledgement.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "setting TCP_NODELAY");
            }
            let service = TowerToHyperService::new(self.router());
            connections.spawn(async move {
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "connection ended");
                }
            });
        }
    }

    /// A kubeconfig, in YAML, for a server that listens on `address`.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             current-context: stagegate\n\
             clusters:\n\
             - name: stagegate\n  cluster:\n    server: http://{address}\n\
             contexts:\n\
             - name: stagegate\n  context:\n    cluster: stagegate\n    user: stagegate\n    namespace: default\n\
             users:\n\
             - name: stagegate\n  user: {{}}\n"
        )
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
            manager: "stagegate-embedded".to_owned(),
            dry_run: false,
            force: false,
            validation: FieldValidation::Strict,
        };
        state.caused_by(CommitAuthor::Server, self.now());
        let mut writer = Writer {
            state: &mut state,
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
