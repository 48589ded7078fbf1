//! The closed list of reason words: used alike in conditions, checks, Events and the printer column.

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($name:ident => $notable:literal, $meaning:literal;)*) => {
        /// Why a policy is where it is. `UpperCamelCase` as Kubernetes conditions want it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason { $(#[doc = $meaning] $name,)* }

        impl Reason {
            /// Every one, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As status, Events and metrics have it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What it means, in a sentence for a table of all of them.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }

            /// Whether an Event is written when a stage gets this reason. Most of the others also occur in healthy rollouts.
            pub const fn is_notable(self) -> bool {
                match self { $(Self::$name => $notable,)* }
            }
        }
    };
}

impl Reason {
    /// Whether every healthy rollout has it for some seconds, until KubeStellar has caught up.
    pub const fn is_brief(self) -> bool {
        matches!(
            self,
            Self::Placing
                | Self::Opening
                | Self::BindingPolicyNotSynced
                | Self::BindingMissing
                | Self::Settling
                | Self::EvidenceCollectorNew
                | Self::CombinedStatusMissing
                | Self::CombinedStatusStale
                | Self::CollectorNotCombined
        )
    }

    /// Whether the Event is of type `Warning`: a person should look, and often must act before the rollout goes on. An Event is `Normal`
    /// about what a stage merely waits for, what a person has asked for, and what went well.
    pub const fn is_warning(self) -> bool {
        match self {
            Self::Paused | Self::Completed | Self::StageOpened | Self::StagePassed => false,
            // A set that shrank is accepted after a while; conditions and gates hold until the clusters are ready.
            Self::BindingSetShrank | Self::ConditionFalse | Self::GateHolds => false,
            // It often means only that a cluster has not reported a count yet.
            Self::RowError => false,
            other => other.is_notable(),
        }
    }
}

reasons! {
    // The policy itself.
    Accepted => false, "The policy can be carried out.";
    NoConflict => false, "Nothing stalls the policy: the reason of condition `Stalled` when it is False.";
    InvalidSpec => true, "A field of the spec is wrong; the message names it and the fix.";
    InvalidExpression => true, "A filter or a condition does not compile.";
    InvalidGateConfig => true, "A gate refuses its `config`.";
    InvalidObject => true, "An object that the policy needs cannot be decoded: its fields are not those of its kind.";
    Paused => true, "`spec.paused` is true.";
    Completed => true, "The last stage has passed.";
    StageOpened => true, "An Event: a stage's BindingPolicy was opened or changed in place without a new pass of the previous stage, or was taken over from the Go stager.";
    StagePassed => true, "An Event: a stage other than the last has passed; the message names the next one.";
    EditedAfterCompletion => true, "An Event: an object was updated after the rollout was completed, and all placed stages get the update at once.";
    Opening => false, "The stage is about to be placed.";
    EvidenceExpired => false, "The evidence was too old when the next stage was to be opened, so it is read again.";
    KubeStellarSilent => false, "All checks pass, but KubeStellar has written nothing for 30 s: Stagegate makes a change that moves no workload and waits until KubeStellar has processed it. If this lasts for more than a minute, check whether KubeStellar's controller-manager runs.";
    // What stalls it until a person acts.
    BindingPolicyNotOwned => true, "A BindingPolicy that this policy does not own has the name that a stage needs: rename the stage or the policy, or delete the BindingPolicy, which removes what it places from its clusters.";
    EvidenceCollectorNotOwned => true, "A StatusCollector of another owner has the name of the controller's own: delete it.";
    ActiveStageRemoved => true, "The spec no longer has the stage that is placed: put it back, or delete its BindingPolicy, which removes the workload from its clusters.";
    BindingPolicyNotStored => true, "The API server did not store a BindingPolicy as Stagegate wrote it: the CRD does not know a field, or an admission webhook changed it.";
    // The placement and its Binding.
    Placing => false, "KubeStellar or its transport has not taken the last change yet.";
    NameInUse => false, "An earlier BindingPolicy of this name is still being deleted.";
    BindingPolicyNotSynced => false, "KubeStellar has not seen the last change of the BindingPolicy.";
    BindingMissing => false, "KubeStellar has not written the Binding yet.";
    BindingNotOwned => false, "A Binding of this name belongs to another BindingPolicy.";
    NoDestinations => true, "The stage's `clusterSelectors` match no cluster.";
    NoObjects => true, "`downsync` matches no object.";
    TooManyObjects => true, "The stage has more objects or clusters than status can record (1,024 each).";
    StatusTooLarge => true, "The status of the policy would not fit into an object of the API server.";
    Settling => false, "The set of objects and clusters, or an object without generation, changed a moment ago.";
    BindingSetShrank => true, "The Binding has lost objects or clusters; the smaller set counts once it has stayed unchanged for a while.";
    TransportError => true, "KubeStellar's transport reports an error for the Binding.";
    EvidenceCollectorNew => false, "The controller's own StatusCollector is not stored yet, or was changed a moment ago.";
    // The status part.
    FilterError => true, "The filter gives no boolean for an object.";
    FilterMatchedNothing => true, "The filter is false for every bound object.";
    NoStatusForKind => true, "Clusters return no status of the kinds that are to be checked.";
    ObjectMissing => true, "A bound object does not exist any more.";
    ObjectForbidden => true, "The controller may not read a bound object: grant it `get`.";
    StatusCollectorMissing => true, "A StatusCollector that `downsync` names does not exist.";
    StatusCollectorInvalid => true, "KubeStellar reports an error in a StatusCollector.";
    StatusCollectorChanged => false, "A StatusCollector was changed after KubeStellar last combined the statuses.";
    CombinedStatusMissing => false, "KubeStellar has written no CombinedStatus of an object yet.";
    CombinedStatusNotOwned => true, "A CombinedStatus was not written by KubeStellar.";
    CombinedStatusTooLarge => true, "A CombinedStatus is larger than the API server stores.";
    CombinedStatusStale => false, "The CombinedStatus is older than this placement.";
    CollectorNotCombined => false, "The CombinedStatus lacks the results of a StatusCollector, or has those of another one.";
    RowError => true, "An expression of a StatusCollector fails for a cluster. No Event reports it in the first ten seconds after the set of objects and clusters was accepted.";
    AggregationError => true, "An aggregation of a StatusCollector fails.";
    EvidenceMalformed => true, "A row of the evidence is not as the controller asked for it.";
    NotReported => false, "A cluster has not reported on an object.";
    DestinationsDiffer => false, "The clusters in the evidence are not those of the Binding.";
    UpdateUnacknowledged => false, "A cluster has not reported since an object was updated, or its report may be about an older version.";
    UpdateAcknowledgementOverdue => true, "A cluster has not acknowledged an update for two minutes: see `unacknowledgedUpdates`.";
    TooManyUpdates => true, "Status has no room for more updates that clusters have not acknowledged.";
    // The checks.
    Complete => false, "The evidence is complete.";
    Healthy => false, "Every object is healthy in every cluster.";
    Unhealthy => false, "An object is not healthy yet in a cluster.";
    HealthFailed => true, "A rollout has failed in a cluster and does not go on by itself.";
    ConditionTrue => false, "The condition is true.";
    ConditionFalse => true, "The condition is false.";
    ConditionError => true, "The condition gives no boolean.";
    GatePassed => false, "The gate lets the stage pass.";
    GateHolds => true, "The gate holds the stage for now.";
    GateFailed => true, "The gate says that this attempt will never pass.";
    GateError => true, "The gate gave no verdict: it crashed, exceeded a limit, gave an invalid answer, or has not been called yet.";
    GateNamespaceNotAllowed => true, "The gate's ConfigMap is in a namespace that `--gate-namespaces` does not list.";
    GateModuleMissing => true, "The ConfigMap, or its key, does not exist.";
    GateModuleRefused => true, "The component is no gate: see `stagegate gate check`.";
    GateModuleFailed => true, "The component could not be read or compiled.";
    GateDigestMismatch => true, "The component is not the one of `module.digest`.";
    Soaking => false, "All checks pass, but not yet for the time of `soak`.";
    Soaked => false, "All checks have passed for the time of `soak`.";
    PlacedNotEvaluated => false, "The stage has no health check, condition or gate; its Binding is complete.";
}
