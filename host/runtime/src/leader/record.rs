//! What a Lease says, whoever wrote it: garbage is a Lease that nobody is known to hold for longer than ours lasts. Must not
//! compare any time in it with a clock: it is another machine's.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use super::election::{Election, Timing};

/// The highest count that a leader has: a Lease holds one more, which no fencing token has.
const TRANSITIONS_LAST: u64 = i32::MAX.cast_unsigned() as u64 - 1;

/// Read as it is: a time that this program cannot read must not keep anybody from taking a Lease over.
pub fn resource() -> ApiResource {
    ApiResource::erase::<Lease>(&())
}

/// The holder; `None` where it was released or never taken.
pub fn holder(lease: &DynamicObject) -> Option<&str> {
    let holder = spec(lease)["holderIdentity"].as_str()?;
    Some(holder).filter(|holder| !holder.is_empty())
}

/// How often it has changed hands. What no leader can have written counts for nothing.
pub fn transitions(lease: &DynamicObject) -> u64 {
    spec(lease)["leaseTransitions"].as_u64().unwrap_or_default()
}

/// How long its holder counts on it. One that says nothing sensible gets as long as we would.
pub fn duration(lease: &DynamicObject, ours: Timing) -> Duration {
    match spec(lease)["leaseDurationSeconds"].as_u64() {
        None | Some(0) => ours.lease(),
        Some(seconds) => Duration::from_secs(seconds).min(Timing::LEASE_MAX),
    }
}

/// Whether the holder has not done anything between the two.
pub fn is_unchanged(before: &DynamicObject, after: &DynamicObject) -> bool {
    before.metadata.uid == after.metadata.uid && spec(before) == spec(after)
}

fn spec(lease: &DynamicObject) -> &Value {
    &lease.data["spec"]
}

/// The count for the next leader, after one that counted `transitions`, where fencing tokens say that `met` was reached. A number
/// that leaves no room for another was never counted.
pub fn next(transitions: u64, met: u64) -> u64 {
    let counted = [transitions.max(met), met, transitions];
    let next = counted.into_iter().find(|count| has_room(*count)).unwrap_or_default() + 1;
    // A fencing token of the last number would be none: then nobody could ever open what bears it.
    next.min(TRANSITIONS_LAST)
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
    pub fn created(self, election: &Election) -> DynamicObject {
        self.over(
            &DynamicObject::new(&election.name, &resource()).within(&election.namespace),
            election,
        )
    }

    /// In place of the version that was seen: any other is refused by the server.
    pub fn over(self, seen: &DynamicObject, election: &Election) -> DynamicObject {
        let now = json!(MicroTime(self.now));
        let is_ours = holder(seen) == Some(&election.identity);
        let acquired = spec(seen)["acquireTime"].clone();
        // It counts in whole seconds: what others wait for must not be shorter than what we count on.
        let seconds = election.timing.lease().as_millis().div_ceil(1_000);
        let spec = json!({
            "holderIdentity": election.identity,
            "leaseDurationSeconds": u64::try_from(seconds).unwrap_or_default(),
            "acquireTime": if is_ours && acquired.is_string() { &acquired } else { &now },
            "renewTime": now,
            "leaseTransitions": self.transitions,
        });
        with_spec(seen, spec)
    }
}

/// Nobody's, and short, for those who wait by its duration alone.
pub fn released(seen: &DynamicObject, now: Timestamp) -> DynamicObject {
    let now = json!(MicroTime(now));
    let count = transitions(seen);
    let spec = json!({"leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now, "leaseTransitions": count});
    with_spec(seen, spec)
}

fn with_spec(seen: &DynamicObject, spec: Value) -> DynamicObject {
    let mut lease = seen.clone();
    lease.metadata.managed_fields = None;
    lease.data = json!({"spec": spec});
    lease
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use kube::core::DynamicObject;
    use serde_json::{Value, json};

    use super::{Claim, Election, Timing, duration, holder, next, transitions};

    fn lease(spec: Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": "stagegate"}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_lease_that_says_nothing_sensible_is_waited_for_as_long_as_ours_lasts() {
        let ours = Timing::of_lease(Duration::from_secs(15));
        let cases = [
            (json!({}), 15),
            (json!({"leaseDurationSeconds": null}), 15),
            (json!({"leaseDurationSeconds": 0}), 15),
            (json!({"leaseDurationSeconds": -1}), 15),
            (json!({"leaseDurationSeconds": "1"}), 15),
            (json!({"leaseDurationSeconds": 1}), 1),
            (json!({"leaseDurationSeconds": 60}), 60),
            (json!({"leaseDurationSeconds": i32::MAX}), 600),
            (json!([]), 15),
            (json!(null), 15),
        ];
        for (spec, waited) in cases {
            assert_eq!(duration(&lease(spec.clone()), ours).as_secs(), waited, "{spec}");
        }
    }

    #[test]
    fn a_time_that_cannot_be_read_is_replaced_like_any_other() {
        let election = Election {
            namespace: "default".to_owned(),
            name: "stagegate".to_owned(),
            identity: "us".to_owned(),
            timing: Timing::of_lease(Duration::from_millis(1_500)),
        };
        let seen = lease(json!({"holderIdentity": "them", "renewTime": "9999-12-31T23:59:59Z", "acquireTime": 7}));
        let now = Timestamp::UNIX_EPOCH;
        let claimed = Claim { transitions: 4, now }.over(&seen, &election);
        let time = "1970-01-01T00:00:00.000000Z";
        let spec = json!({
            "holderIdentity": "us", "leaseDurationSeconds": 2, "acquireTime": time, "renewTime": time, "leaseTransitions": 4,
        });
        assert_eq!(claimed.data, json!({"spec": spec}));
    }

    #[test]
    fn nobody_holds_a_lease_without_a_holder() {
        for spec in [
            json!(null),
            json!({}),
            json!({"holderIdentity": ""}),
            json!({"holderIdentity": 7}),
        ] {
            assert_eq!(holder(&lease(spec.clone())), None, "{spec}");
        }
        let held = lease(json!({"holderIdentity": "\u{0}\n../.."}));
        assert_eq!(holder(&held), Some("\u{0}\n../.."));
    }

    #[test]
    fn the_count_of_changes_of_hands_only_grows_and_never_overflows() {
        let of = |given: Value| transitions(&lease(json!({"leaseTransitions": given})));
        assert_eq!(
            [of(json!(null)), of(json!(-7)), of(json!("3")), of(json!(3))],
            [0, 0, 0, 3]
        );
        let max = u64::try_from(i32::MAX).unwrap();
        let cases = [
            ((3, 0), 4),
            // A Lease that was deleted counts anew, and fencing tokens are ahead of it.
            ((3, 9), 10),
            ((max, 9), 10),
            // The last number is no fencing token's.
            ((max - 1, 0), max - 1),
            ((0, max - 1), max - 1),
            ((3, max), 4),
            ((3, u64::MAX), 4),
            ((max, u64::MAX), 1),
        ];
        for ((counted, met), then) in cases {
            assert_eq!(next(counted, met), then, "{counted} {met}");
        }
    }
}
