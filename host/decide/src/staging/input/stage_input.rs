//! What a stage is judged on. Must not judge.

use stagegate_api::StageStatus;

use super::facts::Facts;
use super::placement::OwnedPlacement;
use super::spec::CheckedStage;

/// An open placement, its stage, and what is known of both.
#[derive(Clone, Copy, Debug)]
pub struct StageInput<'a> {
    pub facts: &'a Facts,
    pub stage: &'a CheckedStage,
    pub own: &'a OwnedPlacement<'a>,
    pub recorded: Option<&'a StageStatus>,
    /// An earlier stage is still placed and is to be removed: the soak starts after that.
    pub is_handing_over: bool,
}
