//! A client whose writes wait for a permit that is asked for at the moment of sending. One place, below everything that
//! writes, so that no write can forget it. Must not judge what is written.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use super::state::LeaderState;
use crate::write_blocked::WriteBlocked;

/// What a write needs.
#[derive(Clone, Debug)]
pub enum WriteGuard {
    /// The lease.
    Lease(Arc<LeaderState>),
    /// That this has not been cancelled.
    Unless(CancellationToken),
}

impl WriteGuard {
    fn is_given(&self) -> bool {
        match self {
            Self::Lease(leader_state) => leader_state.may_write(),
            Self::Unless(token) => !token.is_cancelled(),
        }
    }

    async fn withdrawn(&self) {
        match self {
            Self::Lease(leader_state) => leader_state.lost().await,
            Self::Unless(token) => token.cancelled().await,
        }
    }
}

/// `client`, with every write held to the permit: refused without it, given up when it is withdrawn.
pub fn guard_writes(client: &Client, permit: WriteGuard) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, permit) = (client.clone(), permit.clone());
        async move { send(&client, &permit, request).await }
    });
    Client::new(service, namespace)
}

async fn send(client: &Client, permit: &WriteGuard, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    // Every other method may change something; no request of this program with one of those is only a question.
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(client.send(request).await?);
    }
    if !permit.is_given() {
        return Err(WriteBlocked::Unsent.into());
    }
    let mut withdrawn = pin!(permit.withdrawn());
    // It may not have left yet: connections take time, too. Whoever wakes this asks once more, for timers stand still while a
    // machine sleeps.
    let is_over = poll_fn(|context| match permit.is_given() {
        true => withdrawn.as_mut().poll(context),
        false => Poll::Ready(()),
    });
    tokio::select! {
        biased;
        () = is_over => Err(WriteBlocked::GivenUp.into()),
        answer = client.send(request) => Ok(answer?),
    }
}
