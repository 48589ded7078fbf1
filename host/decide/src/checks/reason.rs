//! The closed list of reason words: used alike in conditions, checks, Events and the printer column.

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident => $notable:literal,)*) => {
        /// Why a policy is where it is. `UpperCamelCase` as Kubernetes conditions want it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            /// Every one, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Worth an Event when it is reached in a stage; the others occur in every healthy rollout.
            pub const fn is_notable(self) -> bool {
                match self { $(Self::$name => $notable,)* }
            }
        }
    };
}

impl Reason {
    /// Whether the Event is of type `Warning`: the rollout does not go on unless a person acts. An Event is `Normal` about what a
    /// stage merely waits for, what a person has asked for, and what went well.
    pub const fn is_warning(self) -> bool {
        match self {
            Self::Paused | Self::Completed | Self::StageOpened | Self::StagePassed => false,
            // A set that shrank is accepted after a while; conditions and gates hold until the clusters are ready.
            Self::BindingSetShrank | Self::ConditionFalse | Self::GateHolds => false,
            // In every rollout a collector that reads a count fails while the status does not have that count yet.
            Self::RowError => false,
            other => other.is_notable(),
        }
    }
}

reasons! {
    // The policy itself.
    Accepted => false,
    /// The reason of `Stalled` while it is False.
    NoConflict => false,
    InvalidSpec => true,
    InvalidExpression => true,
    InvalidGateConfig => true,
    InvalidObject => true,
    Paused => true,
    Completed => true,
    /// What happens when a stage is opened or left.
    StageOpened => true,
    StagePassed => true,
    EditedAfterCompletion => true,
    Opening => false,
    EvidenceExpired => false,
    KubeStellarSilent => false,
    // What stalls it: somebody has to act.
    BindingPolicyNotOwned => true,
    EvidenceCollectorNotOwned => true,
    ActiveStageRemoved => true,
    BindingPolicyNotStored => true,
    // The placement and its Binding.
    Placing => false,
    NameInUse => false,
    BindingPolicyNotSynced => false,
    BindingMissing => false,
    BindingNotOwned => false,
    NoDestinations => true,
    NoObjects => true,
    TooManyObjects => true,
    StatusTooLarge => true,
    Settling => false,
    BindingSetShrank => true,
    TransportError => true,
    EvidenceCollectorNew => false,
    // The status part.
    FilterError => true,
    FilterMatchedNothing => true,
    NoStatusForKind => true,
    ObjectMissing => true,
    ObjectForbidden => true,
    StatusCollectorMissing => true,
    StatusCollectorInvalid => true,
    StatusCollectorChanged => false,
    CombinedStatusMissing => false,
    CombinedStatusNotOwned => true,
    CombinedStatusTooLarge => true,
    CombinedStatusStale => false,
    CollectorNotCombined => false,
    RowError => true,
    AggregationError => true,
    EvidenceMalformed => true,
    NotReported => false,
    DestinationsDiffer => false,
    UpdateUnacknowledged => false,
    UpdateAcknowledgementOverdue => true,
    TooManyUpdates => true,
    // The checks.
    Complete => false,
    Healthy => false,
    /// Occurs in every rollout.
    Unhealthy => false,
    /// A rollout has failed and does not go on by itself.
    HealthFailed => true,
    ConditionTrue => false,
    ConditionFalse => true,
    ConditionError => true,
    GatePassed => false,
    GateHolds => true,
    GateFailed => true,
    GateError => true,
    GateNamespaceNotAllowed => true,
    GateModuleMissing => true,
    GateModuleRefused => true,
    GateModuleFailed => true,
    GateDigestMismatch => true,
    Soaking => false,
    Soaked => false,
    PlacedNotEvaluated => false,
}
