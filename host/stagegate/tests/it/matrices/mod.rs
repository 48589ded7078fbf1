//! Whole rollouts on the embedded control plane, each with one thing gone wrong, for all things that can: every matrix
//! prints how many cases it ran, and a case that fails is named with what replays it.

mod hosts;
