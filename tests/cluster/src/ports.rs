//! Ports of loopback for servers that have to be told theirs, and that must find it free again after they were killed.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

use anyhow::bail;

/// Below the ports that systems hand out for outgoing connections and for port 0 (Linux begins at 32768, others at 49152), so that
/// no client of a test takes one between the question and the server's start.
const RANGE: RangeInclusive<u16> = 20_000..=31_999;

static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that nobody listens on, and that this process hands out once.
///
/// # Errors
/// All are taken.
pub fn free() -> anyhow::Result<u16> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..10_000 {
        // Drawn, so that two processes that test at the same time do not walk through the same ports.
        let port = rand::random_range(RANGE);
        if !taken.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            taken.insert(port);
            return Ok(port);
        }
    }
    bail!("no port from {} to {} is free", RANGE.start(), RANGE.end())
}
