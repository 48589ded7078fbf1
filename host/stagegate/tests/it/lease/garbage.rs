//! Leases that no process of ours has written.

use std::time::Duration;

use serde_json::{Value, json};
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;

use super::{Candidate, put_lease, watch};
use crate::matrices::{Matrix, in_virtual_time};

/// What the Lease says, as far as an API server takes it (no duration below 1, no count below 0); after how many seconds somebody leads at the earliest and at the latest.
fn leases() -> Vec<(Value, u64, u64)> {
    let long = "x".repeat(4_000);
    let time = "1970-01-01T00:00:00.000000Z";
    vec![
        (json!(null), 0, 4),
        (json!({}), 0, 4),
        (json!({"holderIdentity": ""}), 0, 4),
        (
            json!({"leaseTransitions": i32::MAX, "leaseDurationSeconds": i32::MAX}),
            0,
            4,
        ),
        (json!({"holderIdentity": "somebody"}), 15, 20),
        (json!({"holderIdentity": long}), 15, 20),
        (json!({"holderIdentity": "\u{1}\n../é", "leaseTransitions": 0}), 15, 20),
        (
            json!({"holderIdentity": "somebody", "leaseDurationSeconds": 3, "leaseTransitions": i32::MAX}),
            3,
            8,
        ),
        (
            json!({"holderIdentity": "somebody", "leaseDurationSeconds": i32::MAX}),
            600,
            605,
        ),
        (
            json!({"holderIdentity": "somebody", "renewTime": time, "acquireTime": time, "leaseDurationSeconds": 15}),
            15,
            20,
        ),
        (
            json!({"holderIdentity": "somebody", "renewTime": "9999-12-30T00:00:00.000000Z", "leaseDurationSeconds": 15}),
            15,
            20,
        ),
        // Another replica whose name happens to be one of ours before a restart.
        (
            json!({"holderIdentity": "candidate-0-before", "leaseDurationSeconds": 15}),
            15,
            20,
        ),
    ]
}

#[test]
fn whatever_a_lease_says_one_leads_in_the_end_and_never_two() {
    let mut matrix = Matrix::new("garbage leases");
    for (spec, earliest, latest) in leases() {
        let outcome = in_virtual_time(one_leads(spec.clone(), earliest, latest));
        matrix.add(|| spec.to_string(), outcome);
    }
    matrix.end();
}

async fn one_leads(spec: Value, earliest: u64, latest: u64) -> Result<(), String> {
    let server = Server::new(TokioClock::shared());
    put_lease(&server, spec).await;
    let candidates: Vec<Candidate> = (0..3)
        .map(|nth| Candidate::start(&server, &format!("candidate-{nth}")))
        .collect();
    let nobody = watch(&candidates, Duration::from_secs(latest + 60)).await;
    let (earliest, latest) = (Duration::from_secs(earliest), Duration::from_secs(latest));
    let leading = candidates.iter().filter(|candidate| candidate.leads()).count();
    if leading != 1 || nobody < earliest || nobody > latest {
        return Err(format!("{leading} lead, after {nobody:?} without any"));
    }
    let transitions = candidates.iter().find_map(Candidate::transitions);
    let is_count = transitions.is_some_and(|count| count > 0 && count < 1_000);
    is_count.then_some(()).ok_or_else(|| format!("counted {transitions:?}"))
}
