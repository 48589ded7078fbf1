//! The loop that takes the Lease, keeps it and gives it up. Must not lead on anything but an answer of the server to a
//! write of its own, and then only from the time at which that write was sent.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use kube::api::PostParams;
use kube::core::DynamicObject;
use kube::{Api, Client};
use stagegate_clock::SharedClock;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::election::Election;
use super::moment::{Moment, Term};
use super::record::{self, Claim};
use super::state::{LeaderState, Leadership};
use crate::events::REPORTER;
use crate::request::{RequestError, request};

/// Longest wait for the answer to the release: the process is about to end.
const RELEASE_MAX: Duration = Duration::from_secs(1);
/// Longest time in which a change of a long lease goes unseen by those that stand by, before half of it is added.
const LOOK_MAX: Duration = Duration::from_secs(2);
const NOT_RENEWED: &str = "it could not be renewed in time";

#[derive(Clone)]
pub struct Elector {
    api: Api<DynamicObject>,
    clock: SharedClock,
    election: Election,
    leader_state: Arc<LeaderState>,
    /// The Lease as it was last seen, and since when it has been so.
    known: Option<Known>,
    /// Why this process does not lead, as it was last said.
    said: Option<String>,
    /// Looks at the Lease so far.
    looks: u64,
    catching_up: CatchingUp,
}

/// How often the Lease has caught up with fencing tokens that were ahead of it. Those of a leader by another Lease are ahead again as
/// soon as it has: the two would raise them against each other as fast as the API server takes it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CatchingUp {
    last: Option<Instant>,
    /// None long after the one before.
    in_row: u32,
}

impl CatchingUp {
    const PAUSE_FIRST: Duration = Duration::from_secs(1);
    const PAUSE_MAX: Duration = Duration::from_secs(60);
    /// Longer apart, two of them do not belong together.
    const GAP_MAX: Duration = Duration::from_secs(180);

    /// Whether the Lease may do so now. Until then this process writes nothing where a fencing token is ahead.
    fn may(&self) -> bool {
        let doublings = self.in_row.saturating_sub(1).min(16);
        let pause = (Self::PAUSE_FIRST * 2u32.pow(doublings)).min(Self::PAUSE_MAX);
        self.last.is_none_or(|last| last.elapsed() >= pause)
    }

    /// The Lease has. `true`: for the third time in a row.
    fn note(&mut self) -> bool {
        let is_in_row = self.last.is_some_and(|last| last.elapsed() < Self::GAP_MAX);
        self.in_row = if is_in_row { self.in_row.saturating_add(1) } else { 1 };
        self.last = Some(Instant::now());
        self.in_row == 3
    }
}

#[derive(Clone)]
struct Known {
    lease: DynamicObject,
    since: Instant,
}

/// What a look at the Lease came to.
enum Look {
    /// It is this process's, by a write that was sent at this time.
    Ours { lease: Box<DynamicObject>, sent: Moment },
    /// Another one's, until this time unless it renews it.
    Theirs { until: Instant },
}

impl Elector {
    pub fn new(client: &Client, clock: SharedClock, election: Election, leader_state: Arc<LeaderState>) -> Self {
        Self {
            api: Api::namespaced_with(client.clone(), &election.namespace, &record::resource()),
            clock,
            election,
            leader_state,
            known: None,
            said: None,
            looks: 0,
            catching_up: CatchingUp::default(),
        }
    }

    /// Never returns.
    pub async fn run(mut self) {
        let mut met = self.leader_state.met.subscribe();
        loop {
            if self.is_leading() && !self.leader_state.may_write() {
                self.step_down(NOT_RENEWED);
            }
            let looked = self.look().await;
            let wait = self.take(looked);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // A fencing token is ahead of the lease: it catches up now, or turns out to be another's. The sender is ours.
                _ = met.changed(), if self.is_leading() => {}
            }
        }
    }

    /// For the end of the process; once the loop has ended.
    pub async fn release(&self) {
        if !self.leader_state.step_down() {
            return;
        }
        match tokio::time::timeout(RELEASE_MAX, self.try_release()).await {
            Ok(Ok(())) => info!(lease = %self.election, "released the lease"),
            Ok(Err(error)) => warn!(lease = %self.election, error = error.chain(), "the lease was not released"),
            Err(_elapsed) => warn!(lease = %self.election, "the lease was not released: no answer"),
        }
    }

    async fn try_release(&self) -> Result<(), RequestError> {
        loop {
            // A renewal that the loop did not wait for may still come in between.
            let lease = request(self.what("get"), self.api.get(&self.election.name)).await?;
            if record::holder(&lease) != Some(&self.election.identity) {
                return Ok(());
            }
            match self.replace(&record::released(&lease, self.clock.now())).await {
                Err(error) if error.is_conflict() => {}
                released => return released.map(drop),
            }
        }
    }

    /// One try, within the time for one.
    async fn look(&mut self) -> Result<Look, RequestError> {
        self.looks = self.looks.wrapping_add(1);
        // What comes after the end of a leader's time is worth nothing.
        let left = Some(self.left()).filter(|left| !left.is_zero());
        let answer = self.election.timing.answer().min(left.unwrap_or(Duration::MAX));
        let what = self.what("hold");
        tokio::time::timeout(answer, self.try_once())
            .await
            .unwrap_or(Err(RequestError::NotInTime { what }))
    }

    async fn try_once(&mut self) -> Result<Look, RequestError> {
        // A leader's last version is most likely still the newest.
        if self.is_leading()
            && let Some(known) = self.known.clone()
        {
            match self.claim(&known.lease).await {
                Err(error) if error.is_outdated() => {}
                answer => return answer,
            }
        }
        match request(self.what("get"), self.api.get(&self.election.name)).await {
            Ok(lease) => self.judge(lease).await,
            Err(error) if error.is_not_found() => self.create().await,
            Err(error) => Err(error),
        }
    }

    /// Whoever deletes a Lease does not end the term of its holder.
    async fn create(&mut self) -> Result<Look, RequestError> {
        if let Some(until) = self.others_term() {
            return Ok(Look::Theirs { until });
        }
        self.known = None;
        let sent = Moment::now();
        let met = *self.leader_state.met.borrow();
        let transitions = if met == 0 { 0 } else { record::next(0, met) };
        let now = self.clock.now();
        let lease = Claim { transitions, now }.created(&self.election);
        let created = request(self.what("create"), self.api.create(&posting(), &lease)).await;
        let lease = Box::new(created?);
        Ok(Look::Ours { lease, sent })
    }

    /// Until when the holder that was last seen may count on the Lease, if that is another process.
    fn others_term(&self) -> Option<Instant> {
        let known = self.known.as_ref()?;
        record::holder(&known.lease).filter(|holder| *holder != self.election.identity)?;
        let until = known.since + record::duration(&known.lease, self.election.timing);
        (Instant::now() < until).then_some(until)
    }

    /// Free, expired, ours: taken. Else it is waited for.
    async fn judge(&mut self, lease: DynamicObject) -> Result<Look, RequestError> {
        let now = Instant::now();
        let since = match &self.known {
            Some(known) if record::is_unchanged(&known.lease, &lease) => known.since,
            _ => now,
        };
        let until = since + record::duration(&lease, self.election.timing);
        let holder = record::holder(&lease).map(str::to_owned);
        self.known = Some(Known {
            lease: lease.clone(),
            since,
        });
        match holder {
            Some(holder) if holder != self.election.identity && now < until => {
                if self.is_news(&holder) {
                    info!(lease = %self.election, holder, "standing by");
                }
                Ok(Look::Theirs { until })
            }
            _ => self.claim(&lease).await,
        }
    }

    /// Compare and swap: whoever saw an older version is refused by the server.
    async fn claim(&mut self, seen: &DynamicObject) -> Result<Look, RequestError> {
        let sent = Moment::now();
        let (transitions, now) = (self.count_after(seen), self.clock.now());
        let lease = Claim { transitions, now }.over(seen, &self.election);
        let lease = Box::new(self.replace(&lease).await?);
        let is_ours = record::holder(seen) == Some(&self.election.identity);
        if is_ours && transitions > record::transitions(seen) && self.catching_up.note() {
            warn!(
                lease = %self.election,
                transitions,
                "fencing tokens are ahead of the lease again and again: another process leads by another Lease; start both with the same \
                 --lease-namespace and --lease-name"
            );
        }
        Ok(Look::Ours { lease, sent })
    }

    async fn replace(&self, lease: &DynamicObject) -> Result<DynamicObject, RequestError> {
        let params = posting();
        let replaced = self.api.replace(&self.election.name, &params, lease);
        request(self.what("replace"), replaced).await
    }

    /// The count that a Lease of ours has: a new one when it changes hands, or when fencing tokens are ahead of it.
    fn count_after(&self, seen: &DynamicObject) -> u64 {
        let met = *self.leader_state.met.borrow();
        let counted = record::transitions(seen);
        let is_ours = record::holder(seen) == Some(&self.election.identity);
        if is_ours && (met <= counted || !record::has_room(met) || !self.catching_up.may()) {
            return counted;
        }
        record::next(counted, met)
    }

    /// Takes in what a look came to, and says when to look again.
    fn take(&mut self, looked: Result<Look, RequestError>) -> Duration {
        let retry = self.election.timing.retry();
        let look = retry.min(LOOK_MAX);
        let trouble = looked.as_ref().err().filter(|error| !error.is_conflict());
        self.leader_state.looked(trouble.map(RequestError::chain));
        match looked {
            Ok(Look::Ours { lease, sent }) => {
                self.take_lease(*lease, sent);
                return retry.saturating_sub(sent.elapsed());
            }
            Ok(Look::Theirs { until }) => {
                self.step_down("another process holds it");
                let expires_in = until.saturating_duration_since(Instant::now());
                return self.jittered(look).min(expires_in + self.jittered(look) / 8);
            }
            Err(error) if error.is_conflict() => debug!(lease = %self.election, "another process was faster"),
            Err(error) => {
                let error = error.chain();
                if self.is_news(&error) {
                    warn!(lease = %self.election, error, "the lease cannot be held");
                }
            }
        }
        match self.left() {
            left if left.is_zero() => {
                self.step_down(NOT_RENEWED);
                self.jittered(look)
            }
            left => retry.min(left),
        }
    }

    fn take_lease(&mut self, lease: DynamicObject, sent: Moment) {
        let term = Term {
            from: sent,
            length: self.election.timing.renew_deadline(),
        };
        let transitions = record::transitions(&lease);
        self.known = Some(Known {
            lease,
            since: Instant::now(),
        });
        if term.left().is_zero() {
            // The answer took longer than it is worth: the next one may be in time.
            self.step_down(NOT_RENEWED);
            return;
        }
        // A gap in which nothing could be written ends the term, even if nobody else has led meanwhile.
        if self.is_leading() && !self.leader_state.may_write() {
            self.step_down(NOT_RENEWED);
        }
        if !self.is_leading() {
            info!(lease = %self.election, transitions, "leading");
        }
        self.said = None;
        self.leader_state.lead(transitions, term);
    }

    fn step_down(&mut self, why: &str) {
        if self.leader_state.step_down() {
            warn!(lease = %self.election, why, "lost the lease: standing by");
        }
    }

    fn is_leading(&self) -> bool {
        *self.leader_state.leadership.borrow() != Leadership::Standby
    }

    /// How long this process may still write.
    fn left(&self) -> Duration {
        self.leader_state.left()
    }

    /// Up to half as long again, so that candidates that began together do not stay together.
    fn jittered(&self, wait: Duration) -> Duration {
        let mut hasher = DefaultHasher::new();
        (&self.election.identity, self.looks).hash(&mut hasher);
        let permille = u32::try_from(hasher.finish() % 500).unwrap_or_default();
        wait + wait * permille / 1_000
    }

    /// Whether it is worth a line: why this process does not lead is said once for each reason in a row.
    fn is_news(&mut self, why: &str) -> bool {
        let is_news = self.said.as_deref() != Some(why);
        self.said = Some(why.to_owned());
        is_news
    }

    fn what(&self, verb: &str) -> String {
        format!("{verb} leases {}", self.election)
    }
}

fn posting() -> PostParams {
    PostParams {
        field_manager: Some(REPORTER.to_owned()),
        ..PostParams::default()
    }
}
