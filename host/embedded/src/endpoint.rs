//! How clients reach a server: a router, a client without a socket, a listener for everybody else and a kubeconfig for it. Must not
//! read a request.

use std::future::Future;
use std::net::SocketAddr;

use axum::Router;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::http::handle;
use crate::server::Server;

impl Server {
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
}
