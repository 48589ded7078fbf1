//! YurtAppDaemons on the embedded control plane, in virtual time: one sentence, one scenario. Where the words of OpenYurt's proposal
//! promise something, a scenario holds it; where OpenYurt's controller broke it, another one does.

mod bad_input;
mod checks;
mod disturbed;
mod lifecycle;
mod lost;
mod revisions;
mod stages;
mod takeover;
mod workloads;
mod world;
