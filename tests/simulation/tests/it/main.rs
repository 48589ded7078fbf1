//! Seeds that are kept, and new ones: none breaks a rule, and the same seed gives the same run. And KubeStellar's part does what the real one did.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails by the panic")]

mod recordings;
mod seeds;
mod tools;
