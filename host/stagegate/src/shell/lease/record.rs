//! What a Lease says, whoever wrote it: garbage is a Lease that nobody is known to hold for longer than ours lasts. Must not
//! compare any time in it with a clock: it is another machine's.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::{Election, Timing};

/// The holder; `None` where it was released or never taken.
pub fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    Some(holder).filter(|holder| !holder.is_empty())
}

/// How often it has changed hands. What no leader can have written counts for nothing.
pub fn transitions(lease: &Lease) -> u64 {
    let written = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
    written.and_then(|count| u64::try_from(count).ok()).unwrap_or_default()
}

/// How long its holder counts on it. One that says nothing sensible gets as long as we would.
pub fn duration(lease: &Lease, ours: Timing) -> Duration {
    let written = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    match written.and_then(|seconds| u64::try_from(seconds).ok()) {
        None | Some(0) => ours.lease(),
        Some(seconds) => Duration::from_secs(seconds).min(Timing::LEASE_MAX),
    }
}

/// Whether the holder has not done anything between the two.
pub fn is_unchanged(before: &Lease, after: &Lease) -> bool {
    before.metadata.uid == after.metadata.uid && before.spec == after.spec
}

/// The count for the next leader, after one that counted `transitions`, where stamps say that `met` was reached. A number
/// that leaves no room for another was never counted.
pub fn next(transitions: u64, met: u64) -> u64 {
    let counted = [transitions.max(met), met, transitions];
    counted.into_iter().find(|count| has_room(*count)).unwrap_or_default() + 1
}

/// Whether a Lease can count one further.
pub fn has_room(count: u64) -> bool {
    i32::try_from(count).is_ok_and(|count| count < i32::MAX)
}

/// What a leader writes.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub transitions: u64,
    pub now: Timestamp,
}

impl Claim {
    /// A Lease that is not there yet.
    pub fn created(self, election: &Election) -> Lease {
        let metadata = ObjectMeta {
            namespace: Some(election.namespace.clone()),
            name: Some(election.name.clone()),
            ..ObjectMeta::default()
        };
        self.over(&Lease { metadata, spec: None }, election)
    }

    /// In place of the version that was seen: any other is refused by the server.
    pub fn over(self, seen: &Lease, election: &Election) -> Lease {
        let is_ours = holder(seen) == Some(&election.identity);
        let before = seen.spec.as_ref();
        let acquired = before.and_then(|spec| spec.acquire_time.clone()).filter(|_| is_ours);
        // It counts in whole seconds: what others wait for must not be shorter than what we count on.
        let seconds = election.timing.lease().as_millis().div_ceil(1_000);
        let spec = LeaseSpec {
            holder_identity: Some(election.identity.clone()),
            lease_duration_seconds: i32::try_from(seconds).ok(),
            acquire_time: acquired.or(Some(MicroTime(self.now))),
            renew_time: Some(MicroTime(self.now)),
            lease_transitions: i32::try_from(self.transitions).ok(),
            ..LeaseSpec::default()
        };
        with_spec(seen, spec)
    }
}

/// Nobody's, and short, for those who wait by its duration alone.
pub fn released(seen: &Lease, now: Timestamp) -> Lease {
    let before = seen.spec.clone().unwrap_or_default();
    let spec = LeaseSpec {
        holder_identity: None,
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: before.lease_transitions,
        ..LeaseSpec::default()
    };
    with_spec(seen, spec)
}

fn with_spec(seen: &Lease, spec: LeaseSpec) -> Lease {
    Lease {
        metadata: ObjectMeta {
            managed_fields: None,
            ..seen.metadata.clone()
        },
        spec: Some(spec),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};

    use super::{Timing, duration, holder, next, transitions};

    fn lease(change: impl FnOnce(&mut LeaseSpec)) -> Lease {
        let mut spec = LeaseSpec::default();
        change(&mut spec);
        Lease {
            spec: Some(spec),
            ..Lease::default()
        }
    }

    #[test]
    fn a_lease_that_says_nothing_sensible_is_waited_for_as_long_as_ours_lasts() {
        let ours = Timing::of_lease(Duration::from_secs(15));
        let seconds = |given: Option<i32>| duration(&lease(|spec| spec.lease_duration_seconds = given), ours).as_secs();
        let cases = [
            (None, 15),
            (Some(0), 15),
            (Some(-1), 15),
            (Some(i32::MIN), 15),
            (Some(1), 1),
            (Some(60), 60),
            (Some(i32::MAX), 600),
        ];
        for (given, waited) in cases {
            assert_eq!(seconds(given), waited, "{given:?}");
        }
        assert_eq!(duration(&Lease::default(), ours).as_secs(), 15);
    }

    #[test]
    fn nobody_holds_a_lease_without_a_holder() {
        assert_eq!(holder(&Lease::default()), None);
        assert_eq!(holder(&lease(|spec| spec.holder_identity = Some(String::new()))), None);
        let held = lease(|spec| spec.holder_identity = Some("\u{0}\n../..".to_owned()));
        assert_eq!(holder(&held), Some("\u{0}\n../.."));
    }

    #[test]
    fn the_count_of_changes_of_hands_only_grows_and_never_overflows() {
        let of = |given: Option<i32>| transitions(&lease(|spec| spec.lease_transitions = given));
        assert_eq!([of(None), of(Some(-7)), of(Some(i32::MIN)), of(Some(3))], [0, 0, 0, 3]);
        let max = u64::try_from(i32::MAX).unwrap();
        let cases = [
            ((3, 0), 4),
            // A Lease that was deleted counts anew, and stamps are ahead of it.
            ((3, 9), 10),
            ((max, 9), 10),
            ((max - 1, 0), max),
            ((3, max), 4),
            ((3, u64::MAX), 4),
            ((max, u64::MAX), 1),
        ];
        for ((counted, met), then) in cases {
            assert_eq!(next(counted, met), then, "{counted} {met}");
        }
    }
}
