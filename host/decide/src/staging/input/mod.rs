//! What a decision rests on: facts, the checked spec, and what stands under the name of each stage.

pub(crate) mod admitted;
pub(crate) mod binding_view;
pub(crate) mod clauses;
pub(crate) mod facts;
pub(crate) mod hold;
pub(crate) mod observed;
pub(crate) mod placement;
pub(crate) mod recorded;
pub(crate) mod selectors;
pub(crate) mod spec;
pub(crate) mod stage_input;

pub(crate) use self::facts::{
    BindingFacts, ContentDigest, Decoded, Facts, NAMES_BYTES_MAX, ObjectFacts, ObjectMeta, PENDING_BYTES_MAX, Read,
    Settings,
};
pub(crate) use self::hold::{HoldAnswer, HoldFacts};
pub(crate) use self::observed::{NamedVersion, Observed, SeenGeneration};
pub(crate) use self::placement::{FencingToken, OwnedPlacement, Slot};
pub(crate) use self::spec::{Checked, CheckedStage};
pub(crate) use self::stage_input::StageInput;
