//! One leader among several processes, in virtual time: who holds the Lease, that nobody else writes, and that a rollout
//! changes hands at any moment without harm.

mod fencing;
mod garbage;
mod holding;
mod interceptor;
mod rollout;
mod second;
mod soak;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use stagegate_clock::{SharedClock, TokioClock};
use stagegate_embedded::Server;
use stagegate_runtime::leader::{Election, LeaderState, Leadership, RunningElection, Timing};

use self::interceptor::Interceptor;

const LEASE: Duration = Duration::from_secs(15);
/// The rule for everybody who waits for a holder that has fallen silent.
const TAKEOVER_MAX: Duration = Duration::from_secs(20);
const NAMESPACE: &str = "default";

fn election(identity: &str) -> Election {
    Election {
        namespace: NAMESPACE.to_owned(),
        name: "stagegate".to_owned(),
        identity: identity.to_owned(),
        timing: Timing::of_lease(LEASE),
    }
}

fn leases(server: &Server) -> Api<Lease> {
    Api::namespaced(server.client(), NAMESPACE)
}

/// What the Lease says now.
async fn record(server: &Server) -> Value {
    let lease = leases(server).get("stagegate").await.unwrap();
    json!(lease.spec.unwrap_or_default())
}

async fn put_lease(server: &Server, spec: Value) {
    let lease = json!({"metadata": {"name": "stagegate", "namespace": NAMESPACE}, "spec": spec});
    let lease: Lease = serde_json::from_value(lease).unwrap();
    leases(server).create(&PostParams::default(), &lease).await.unwrap();
}

/// A candidate and its way to the server.
struct Candidate {
    interceptor: Interceptor,
    running: Option<RunningElection>,
    standing: Arc<LeaderState>,
}

impl Candidate {
    fn start(server: &Server, identity: &str) -> Self {
        Self::start_by(
            Interceptor::new(server.router(), identity),
            identity,
            TokioClock::shared(),
        )
    }

    fn start_by(interceptor: Interceptor, identity: &str, clock: SharedClock) -> Self {
        let (running, standing) = RunningElection::start(&interceptor.client(), clock, election(identity));
        Self {
            interceptor,
            running: Some(running),
            standing,
        }
    }

    fn leads(&self) -> bool {
        *self.standing.leadership().borrow() != Leadership::Standby
    }

    /// How often the lease had changed hands when this one took it.
    fn transitions(&self) -> Option<u64> {
        match *self.standing.leadership().borrow() {
            Leadership::Standby => None,
            Leadership::Leader { transitions } => Some(transitions),
        }
    }

    /// As `kill -9` would.
    fn kill(&mut self) {
        drop(self.running.take());
    }

    async fn release(&mut self) {
        self.running.take().unwrap().release().await;
    }

    async fn until_leading(&self, within: Duration) {
        let mut leadership = self.standing.leadership();
        let leading = leadership.wait_for(|leadership| *leadership != Leadership::Standby);
        let waited = tokio::time::timeout(within, leading).await;
        assert!(waited.is_ok_and(|waited| waited.is_ok()), "no leader within {within:?}");
    }
}

/// Looks for `span` that never two may write at once, and gives how long nobody could.
async fn watch(candidates: &[Candidate], span: Duration) -> Duration {
    let step = Duration::from_millis(10);
    let mut nobody = Duration::ZERO;
    for _ in 0..span.as_millis() / step.as_millis() {
        let writing: Vec<usize> = (0..candidates.len())
            .filter(|place| candidates[*place].standing.may_write())
            .collect();
        assert!(writing.len() < 2, "{writing:?} may write at once");
        nobody += if writing.is_empty() { step } else { Duration::ZERO };
        tokio::time::sleep(step).await;
    }
    nobody
}
