//! Whole rollouts on the embedded control plane, in virtual time: one sentence, one scenario. What they promise is about
//! the policy's user: where the workload is, what the status says, and that nothing else is held up.

mod arrivals;
mod bad_input;
mod defects;
mod gates;
mod gates_bad_input;
mod health;
mod noise;
mod requests;
mod rollout;
mod scale;
mod sickness;
mod soak;
mod updates;
mod upheaval;
