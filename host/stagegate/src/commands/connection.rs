//! The cluster that a command talks to, as flags and kubeconfig describe it, and what its refusals mean in one sentence with the
//! server's address. Must not know what a command asks for.

use std::io;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http::Uri;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Config};
use stagegate_runtime::request::RequestError;

use super::{Failure, Result};
use crate::args::ClusterArgs;
use crate::target::Kind;

/// Longest wait of a command for an answer of the server.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A client, and where it sends its requests.
pub struct Cluster {
    pub client: Client,
    pub server: Server,
}

/// An API server, and the kind that it is asked for.
#[derive(Clone, Debug)]
pub struct Server {
    /// `HOST:PORT`.
    address: String,
    kind: Kind,
}

/// Must run inside a tokio runtime.
///
/// # Errors
/// [`Failure::Input`] for a kubeconfig that cannot be used. That the server answers is not tried.
pub async fn cluster(args: &ClusterArgs) -> Result<Cluster> {
    let mut config = config(args).await.map_err(Failure::Input)?;
    // Repeating a write behind the caller's back would hide a conflict from it.
    config.default_retry = false;
    let server = Server::of(&config.cluster_url);
    let client = Client::try_from(config)
        .context("building the client")
        .map_err(Failure::Input)?;
    Ok(Cluster { client, server })
}

async fn config(args: &ClusterArgs) -> anyhow::Result<Config> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    let (kubeconfig, file) = match (&args.kubeconfig, &args.context) {
        (Some(path), _) => (Kubeconfig::read_from(path), path.display().to_string()),
        (None, Some(_)) => (Kubeconfig::read(), "the kubeconfig".to_owned()),
        (None, None) => {
            let inferred = Config::infer().await;
            return inferred.context("finding a kubeconfig or the pod's service account");
        }
    };
    let kubeconfig = kubeconfig.with_context(|| format!("reading {file}"))?;
    require_context(&kubeconfig, args.context.as_deref()).with_context(|| format!("using {file}"))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.with_context(|| format!("using {file}"))
}

/// Fails where the kubeconfig lacks the context, with the names of those that it has.
fn require_context(kubeconfig: &Kubeconfig, named: Option<&str>) -> anyhow::Result<()> {
    let known: Vec<&str> = kubeconfig
        .contexts
        .iter()
        .map(|context| context.name.as_str())
        .collect();
    let has = match known.as_slice() {
        [] => "it has no context".to_owned(),
        known => format!("it has {}", known.join(", ")),
    };
    let current = kubeconfig.current_context.as_deref().filter(|name| !name.is_empty());
    match named.or(current) {
        Some(name) if known.contains(&name) => Ok(()),
        Some(name) => match stagegate_evaluate::meant(name, known) {
            Some(meant) => Err(anyhow!("there is no context {name:?}; did you mean {meant}?")),
            None => Err(anyhow!(
                "there is no context {name:?}: {has}; choose one with --context"
            )),
        },
        None => Err(anyhow!(
            "the kubeconfig has no current context ({has}): choose one with --context"
        )),
    }
}

impl Cluster {
    /// For requests about objects of this kind.
    pub fn asked_for(mut self, kind: Kind) -> Self {
        self.server.kind = kind;
        self
    }

    /// The answer to a request about objects of the kind that the server is asked for.
    ///
    /// # Errors
    /// [`Server::explain`]; when no answer comes within 10 s.
    pub async fn answer<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T> {
        match tokio::time::timeout(ANSWER_MAX, request).await {
            Ok(answer) => answer.map_err(|error| Failure::Environment(self.server.explain(error.into()))),
            Err(_elapsed) => Err(Failure::Environment(self.server.silent())),
        }
    }
}

impl Server {
    fn of(url: &Uri) -> Self {
        let host = url.host().unwrap_or_default();
        let default_port = if url.scheme_str() == Some("http") { 80 } else { 443 };
        Self {
            address: format!("{host}:{}", url.port_u16().unwrap_or(default_port)),
            kind: Kind::default(),
        }
    }

    fn silent(&self) -> anyhow::Error {
        let address = &self.address;
        anyhow!(
            "the server {address} has not answered within {} s: check that it is reachable, and that the kubeconfig names the \
             right one",
            ANSWER_MAX.as_secs()
        )
    }

    /// What an error of a request means, where that is known; any other error stays as it is, with the server's address.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let requested = error.downcast_ref::<RequestError>();
        if let Some(RequestError::NoAnswer { .. }) = requested {
            return self.silent();
        }
        if let Some(RequestError::Refused { code, message, .. }) = requested {
            return self.refused(*code, message).unwrap_or(error);
        }
        // The client's errors hold their causes in boxes, and a box is what the chain shows.
        let mut statuses = error.chain().filter_map(|cause| cause.downcast_ref::<Box<Status>>());
        let explained = statuses.find_map(|status| self.refused(status.code, &status.message));
        if let Some(explained) = explained {
            return explained;
        }
        let Some(cause) = error.chain().find_map(|cause| cause.downcast_ref::<kube::Error>()) else {
            return error;
        };
        self.unconnected(cause)
            .unwrap_or_else(|| error.context(format!("asking the server {}", self.address)))
    }

    /// The server has answered, and not as hoped.
    fn refused(&self, code: u16, message: &str) -> Option<anyhow::Error> {
        let address = &self.address;
        match code {
            401 => Some(anyhow!(
                "the server {address} does not accept these credentials (401 Unauthorized): log in again, choose another context \
                 with --context, or check the pod's service account"
            )),
            403 => Some(anyhow!(
                "the server {address} does not allow this (403 Forbidden): {message}; grant this right, or choose another context \
                 with --context"
            )),
            404 => Some(anyhow!(
                "the {} CRD is not installed on the server {address}: `{} | kubectl apply -f -` installs it",
                self.kind.as_str(),
                self.kind.definition()
            )),
            _ => None,
        }
    }

    /// The server was not reached.
    fn unconnected(&self, error: &kube::Error) -> Option<anyhow::Error> {
        let address = &self.address;
        if let kube::Error::Auth(cause) = error {
            return Some(anyhow!("getting the credentials for the server {address}: {cause}"));
        }
        if !matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_)) {
            return None;
        }
        let causes = anyhow::Chain::new(error);
        let is_refused = |cause: &(dyn std::error::Error + 'static)| {
            let cause = cause.downcast_ref::<io::Error>();
            cause.is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
        };
        if causes.clone().any(is_refused) {
            return Some(anyhow!(
                "the connection to the server {address} was refused: check that the server runs, and that the kubeconfig names the \
                 right host and port"
            ));
        }
        let root = causes.last().map(ToString::to_string).unwrap_or_default();
        Some(anyhow!(
            "the connection to the server {address} failed: {root}; check the address and the certificates in the kubeconfig"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Server {
        Server::of(&url.parse().unwrap())
    }

    #[test]
    fn an_address_has_the_port_of_its_scheme_unless_it_names_one() {
        assert_eq!(server("https://api.example").address, "api.example:443");
        assert_eq!(server("http://api.example/wds1").address, "api.example:80");
        assert_eq!(server("https://[::1]:6443").address, "[::1]:6443");
    }

    #[test]
    fn each_refusal_says_what_to_do_in_one_sentence_with_the_address() {
        let said = |code| {
            let status = Status::failure("it is forbidden", "Reason").with_code(code);
            let error = kube::Error::Api(status.boxed());
            server("https://api.example").explain(error.into()).to_string()
        };
        let refusals = [
            (
                401,
                "the server api.example:443 does not accept these credentials (401 Unauthorized): log in again, choose another \
                 context with --context, or check the pod's service account",
            ),
            (
                403,
                "the server api.example:443 does not allow this (403 Forbidden): it is forbidden; grant this right, or choose another \
                 context with --context",
            ),
            (
                404,
                "the StagedBindingPolicy CRD is not installed on the server api.example:443: `stagegate crds | kubectl apply -f -` \
                 installs it",
            ),
            (500, "asking the server api.example:443"),
        ];
        for (code, sentence) in refusals {
            assert_eq!(said(code), sentence);
        }
    }

    #[test]
    fn an_unknown_context_is_an_error_that_lists_the_known_ones() {
        let kubeconfig = Kubeconfig::from_yaml(
            "{contexts: [{name: wds1, context: {cluster: c}}, {name: its1, context: {cluster: c}}]}",
        );
        let kubeconfig = kubeconfig.unwrap();
        let said = |name| require_context(&kubeconfig, name).unwrap_err().to_string();
        assert!(require_context(&kubeconfig, Some("its1")).is_ok());
        assert_eq!(said(Some("wds2")), "there is no context \"wds2\"; did you mean wds1?");
        assert_eq!(
            said(Some("other")),
            "there is no context \"other\": it has wds1, its1; choose one with --context"
        );
        assert_eq!(
            said(None),
            "the kubeconfig has no current context (it has wds1, its1): choose one with --context"
        );
    }
}
