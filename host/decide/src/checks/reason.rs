//! The closed list of reason words: used alike in conditions, checks, Events and the printer column.

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($name:ident => $notable:literal, $meaning:literal, $advice:literal;)*) => {
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

            /// The reason of this word; `None`: another version of Stagegate wrote it.
            pub fn named(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.as_str() == word)
            }

            /// What it means, in a sentence for a table of all of them.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }

            /// What a person can do about it, in one or more sentences; `None`: nothing has to be done. The message beside the reason
            /// is about the case at hand and may name more.
            pub const fn advice(self) -> Option<&'static str> {
                match self { $(Self::$name => advice_of($advice),)* }
            }

            /// Whether an Event is written when a stage gets this reason. Most of the others also occur in healthy rollouts.
            pub const fn is_notable(self) -> bool {
                match self { $(Self::$name => $notable,)* }
            }
        }
    };
}

/// In the table an empty text stands for none.
const fn advice_of(text: &'static str) -> Option<&'static str> {
    if text.is_empty() { None } else { Some(text) }
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
            Self::Paused | Self::Completed | Self::StageOpened | Self::StagePassed | Self::Superseded => false,
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
    Accepted => false,
        "The policy can be carried out.",
        "";
    NoConflict => false,
        "Nothing stalls the policy: the reason of condition `Stalled` when it is False.",
        "";
    InvalidSpec => true,
        "A field of the spec is wrong; the message names it.",
        "Correct the field that the message names; `stagegate lint` checks a policy before you apply it.";
    InvalidExpression => true,
        "A filter or a condition does not compile.",
        "Correct the expression that the message names; `stagegate lint` checks it before you apply it, and `stagegate cel` tries it on a CombinedStatus.";
    InvalidGateConfig => true,
        "A gate refuses its `config`.",
        "Correct the gate's `config` as the message says, or put a component that accepts it into the gate's ConfigMap.";
    InvalidObject => true,
        "An object that the policy needs cannot be decoded: its fields are not those of its kind.",
        "Correct or delete the object that the message names, and check that KubeStellar is one of the supported versions. Deleting a BindingPolicy removes what it places from its clusters; KubeStellar writes a deleted CombinedStatus again.";
    Paused => true,
        "`spec.paused` is true.",
        "Set `spec.paused` to false when the rollout may go on.";
    Completed => true,
        "The last stage has passed.",
        "";
    StageOpened => true,
        "An Event: a stage's BindingPolicy was opened or changed in place without a new pass of the previous stage, or was taken over from the Go stager.",
        "";
    StagePassed => true,
        "An Event: a stage other than the last has passed; the message names the next one.",
        "";
    EditedAfterCompletion => true,
        "An Event: an object was updated after the rollout was completed, and all placed stages get the update at once.",
        "Check the workload, for no stage has checked this update first; `Ready` shows the health of the last stage. A change of `spec.downsync` starts a new rollout.";
    Opening => false,
        "The stage is about to be placed.",
        "Wait: it takes seconds. If it lasts, look for the cause in the log of the controller.";
    EvidenceExpired => false,
        "The evidence was too old when the next stage was to be opened, so it is read again.",
        "Wait: the evidence is read again. If it lasts, lower `limits.timeout` of the stage's gates, use fewer gates, or find out why the API server is slow.";
    KubeStellarSilent => false,
        "All checks pass, but KubeStellar has written nothing for 30 s: Stagegate makes a change that moves no workload and waits until KubeStellar has processed it.",
        "Wait for a minute. If it lasts, check whether KubeStellar's controller-manager runs.";
    SecondController => true,
        "Something else writes the status of the policy as well: the reason of condition `Contested`.",
        "Find the other process: each reports an Event with its host as the reporting instance. Let one run, or start all with `--leader-elect` and the same `--lease-namespace` and `--lease-name`.";
    // What stalls it until a person acts.
    BindingPolicyNotOwned => true,
        "A BindingPolicy that this policy does not own has the name that a stage needs.",
        "Rename the stage, create the policy under another name, or delete the BindingPolicy, which removes what it places from its clusters.";
    EvidenceCollectorNotOwned => true,
        "A StatusCollector of another owner has the name of the controller's own.",
        "Delete the StatusCollector that the message names; the controller creates its own.";
    ActiveStageRemoved => true,
        "The spec no longer has the stage that is placed.",
        "Put the stage back into `spec.stages`, or delete its BindingPolicy, which removes the workload from its clusters.";
    BindingPolicyNotStored => true,
        "The API server did not store a BindingPolicy as Stagegate wrote it: the CRD does not know a field, or an admission webhook changed it.",
        "Take the field that the message names out of the policy, upgrade KubeStellar, or change the webhook.";
    // Staged updates.
    VersionsUnknown => false,
        "With `updates: Staged`, the version of an object is not known now, so nothing is changed.",
        "Wait: it takes seconds. If it lasts, restore the object that the message names, or take it out of `spec.downsync`.";
    TooLargeToHold => true,
        "With `updates: Staged`, the policy has more objects than one annotation can list.",
        "Split the policy.";
    HoldsNotEnforced => true,
        "With `updates: Staged`, the control plane does not refuse changes of held Bindings, so nothing is opened or released.",
        "Install deploy/kustomize/staged-updates on a control plane with Kubernetes 1.30 or newer (with Helm, `stagedUpdates: true`), or set `spec.updates: Immediate`.";
    HoldBroken => true,
        "An Event: a held Binding had lost its list of admitted versions, or named others. It is held again as it is.",
        "Find out who changed the Binding. Clusters of the stage may have got versions that were not admitted; an edit of the objects starts a new revision in the first stage.";
    DeliveryUnproven => true,
        "An Event: KubeStellar has written a held Binding anew while an object had a newer version, so clusters of the stage may have got that version.",
        "Check the objects that the message names in the clusters of the stage. The next release of the stage brings all its clusters to one version.";
    SharedCluster => true,
        "With `updates: Staged`, two stages of the policy are to have different versions in the same cluster.",
        "Change `clusterSelectors` so that no cluster belongs to two stages.";
    Superseded => true,
        "An Event: an object was edited before the last stage had the revision before, so that the first stage gets the newer one.",
        "";
    // The placement and its Binding.
    Placing => false,
        "KubeStellar or its transport has not taken the last change yet.",
        "Wait: it takes seconds. If it lasts, check whether KubeStellar's controller-manager and transport run.";
    NameInUse => false,
        "An earlier BindingPolicy of this name is still being deleted.",
        "Wait for the deletion. If it lasts, check whether KubeStellar, which removes its finalizers, and the garbage collector of Kubernetes run.";
    BindingPolicyNotSynced => false,
        "KubeStellar has not seen the last change of the BindingPolicy.",
        "Wait: it takes seconds. If it lasts, check whether KubeStellar's controller-manager runs; if the message names a selector, correct it.";
    BindingMissing => false,
        "KubeStellar has not written the Binding yet.",
        "Wait: it takes seconds. If it lasts, check whether KubeStellar's controller-manager runs; without KubeStellar, start Stagegate with `--controllers staging,binding,combine`, and where these run, look for Events `KindNotListed` about the stage's BindingPolicy.";
    BindingNotOwned => false,
        "A Binding of this name belongs to another BindingPolicy.",
        "Wait until KubeStellar replaces the Binding. If it lasts, check whether KubeStellar's controller-manager and the garbage collector of Kubernetes run.";
    NoDestinations => true,
        "The stage's `clusterSelectors` match no cluster.",
        "Label a ManagedCluster so that the stage's `clusterSelectors` match it, or correct the selectors.";
    NoObjects => true,
        "`downsync` matches no object.",
        "Create the objects that `spec.downsync` selects, or correct its clauses.";
    TooManyObjects => true,
        "The stage has more objects or clusters than status can record (1,024 each).",
        "Split the policy.";
    StatusTooLarge => true,
        "The status of the policy would not fit into an object of the API server.",
        "Split the policy, or set `spec.previousStages: Remove`, which removes the workload from the clusters of earlier stages.";
    Settling => false,
        "The set of objects and clusters, or an object without generation, changed a moment ago.",
        "Wait: it takes seconds, and about half a minute after a change in place. If it lasts, something keeps changing the objects or the labels of clusters.";
    BindingSetShrank => true,
        "The Binding has lost objects or clusters; the smaller set counts once it has stayed unchanged for a while.",
        "Wait for about half a minute. If the loss is not intended, restore the objects or the labels of the clusters at once.";
    TransportError => true,
        "KubeStellar's transport reports an error for the Binding.",
        "Correct the object, or the cluster's properties, as the message says.";
    EvidenceCollectorNew => false,
        "The controller's own StatusCollector is not stored yet, or was changed a moment ago.",
        "Wait: it takes about ten seconds. If it lasts, find out what else changes the StatusCollector that the message names.";
    // The status part.
    FilterError => true,
        "The filter gives no boolean for an object.",
        "Correct `spec.stages[].filter`; `stagegate cel --root downsyncClause` tries it.";
    FilterMatchedNothing => true,
        "The filter is false for every bound object.",
        "Correct `spec.stages[].filter`, or place the objects that it names.";
    NoStatusForKind => true,
        "Clusters return no status of the kinds that are to be checked.",
        "Exclude the kind in `spec.stages[].filter`. If the stage has no object of another kind, place one, or give the stage `health: Ignored` and a soak, without condition and gates.";
    ObjectMissing => true,
        "A bound object does not exist any more.",
        "Wait: it takes seconds. If it lasts, check whether KubeStellar's controller-manager runs: it takes a deleted object out of the Binding.";
    ObjectForbidden => true,
        "The controller may not read a bound object.",
        "Grant the controller the right to `get` objects of that kind: see deploy/README.md.";
    StatusCollectorMissing => true,
        "A StatusCollector that `downsync` names does not exist.",
        "Create the StatusCollector, or take its name out of `spec.downsync`.";
    StatusCollectorInvalid => true,
        "KubeStellar reports an error in a StatusCollector.",
        "Correct the spec of the StatusCollector as the message says.";
    StatusCollectorChanged => false,
        "A StatusCollector was changed after KubeStellar last combined the statuses.",
        "Wait until the time that the message names.";
    WorkloadUnproven => false,
        "The workload of a node pool is not as the new revision says, or its controller has not seen its last change.",
        "Wait: it takes seconds. If it lasts, look at the workload of the pool that the message names.";
    CombinedStatusMissing => false,
        "KubeStellar has written no CombinedStatus of an object yet.",
        "Wait for about ten seconds. If it lasts for more than a minute, do what the message says, or check whether KubeStellar's controller-manager runs; without KubeStellar, start Stagegate with `--controllers staging,binding,combine`.";
    CombinedStatusNotOwned => true,
        "A CombinedStatus was not written by KubeStellar.",
        "Delete the CombinedStatus; KubeStellar writes it again.";
    CombinedStatusTooLarge => true,
        "A CombinedStatus is larger than the API server stores.",
        "Select fewer columns in the StatusCollectors that `spec.downsync` names, or add a filter to them.";
    CombinedStatusStale => false,
        "The CombinedStatus is older than this placement.",
        "Wait until a cluster reports. If none does, delete the CombinedStatus that the message names; KubeStellar writes it again.";
    CollectorNotCombined => false,
        "The CombinedStatus lacks the results of a StatusCollector, or has those of another one.",
        "Wait: it takes seconds. If it lasts, check whether KubeStellar's controller-manager runs; see docs/operations.md for a version that can deadlock.";
    RowError => true,
        "An expression of a StatusCollector fails for a cluster. No Event reports it in the first ten seconds after the set of objects and clusters was accepted.",
        "Wait until the cluster has reported. If it lasts, guard the StatusCollector's expression with `has()`.";
    AggregationError => true,
        "An aggregation of a StatusCollector fails.",
        "Correct `combinedFields` of the StatusCollector that the message names.";
    EvidenceMalformed => true,
        "A row of the evidence is not as the controller asked for it.",
        "Wait: it takes seconds. If it lasts, delete the CombinedStatus of the object that the message names; KubeStellar writes it again.";
    NotReported => false,
        "A cluster has not reported on an object.",
        "Check whether the cluster is reachable and KubeStellar's agent runs there. If the kind never has a status, exclude it in `spec.stages[].filter`. Follow the message if it says more.";
    DestinationsDiffer => false,
        "The clusters in the evidence are not those of the Binding.",
        "Wait: it takes seconds. If it lasts, delete the object that the message names; KubeStellar writes it again.";
    UpdateUnacknowledged => false,
        "A cluster has not reported since an object was updated, or its report may be about an older version.",
        "Wait for about two minutes, or until the time that the message names. If the cluster does not report, check whether it is reachable.";
    UpdateAcknowledgementOverdue => true,
        "A cluster has not acknowledged an update for two minutes.",
        "Check whether the cluster is reachable, and do what the message says. With `unacknowledgedUpdates: Ignore` on the stage, the status that was reported counts as it is.";
    TooManyUpdates => true,
        "Status has no room for more updates that clusters have not acknowledged.",
        "Wait until all clusters have acknowledged the updates. Update fewer objects at a time, or split the policy.";
    // The checks.
    Complete => false,
        "The evidence is complete.",
        "";
    Healthy => false,
        "Every object is healthy in every cluster.",
        "";
    Unhealthy => false,
        "An object is not healthy yet in a cluster.",
        "Wait until the workload is healthy; if it does not become so, look for the cause in the cluster that the message names.";
    HealthFailed => true,
        "A rollout has failed in a cluster and does not go on by itself.",
        "Look for the cause in the cluster that the message names, and correct the workload or the cluster.";
    ConditionTrue => false,
        "The condition is true.",
        "";
    ConditionFalse => true,
        "The condition is false.",
        "Wait until the clusters report what the condition asks for, or correct the workload or `spec.stages[].condition`.";
    ConditionError => true,
        "The condition gives no boolean.",
        "Correct `spec.stages[].condition` or the StatusCollector that it reads; `stagegate cel` tries it on a CombinedStatus.";
    GatePassed => false,
        "The gate lets the stage pass.",
        "";
    GateHolds => true,
        "The gate holds the stage for now.",
        "Wait, or do what the gate's message asks for. The gate is called again when the reports change, or after the time that it named.";
    GateFailed => true,
        "The gate says that this attempt will never pass.",
        "Find out why the gate refuses. To have it called again, edit its entry in the policy, the stage's `clusterSelectors` or `spec.downsync`.";
    GateError => true,
        "The gate gave no verdict: it crashed, exceeded a limit, gave an invalid answer, or has not been called yet.",
        "Wait: the gate is called again after 30 s. If it lasts, correct the gate or raise its `limits`, as the message says.";
    GateNamespaceNotAllowed => true,
        "The gate's ConfigMap is in a namespace that `--gate-namespaces` does not list.",
        "Move the ConfigMap to an allowed namespace, or add its namespace to the controller's `--gate-namespaces`.";
    GateModuleMissing => true,
        "The ConfigMap, or its key, does not exist.",
        "Create the ConfigMap with the component under that key (`stagegate gate configmap` prints one), or correct the gate's `module`.";
    GateModuleRefused => true,
        "The component is no gate.",
        "Put a gate into the ConfigMap; `stagegate gate check` says what is wrong with a component.";
    GateModuleFailed => true,
        "The component could not be read or compiled.",
        "Wait: it is tried again. If it lasts, check whether the controller may read the ConfigMap, and try the component with `stagegate gate check`.";
    GateDigestMismatch => true,
        "The component is not the one of `module.digest`.",
        "Put the component of that digest into the ConfigMap, or correct `module.digest`.";
    Soaking => false,
        "All checks pass, but not yet for the time of `soak`.",
        "Wait until the soak ends; the message says when.";
    Soaked => false,
        "All checks have passed for the time of `soak`.",
        "";
    PlacedNotEvaluated => false,
        "The stage has no health check, condition or gate; its Binding is complete.",
        "If the stage is to be checked, give it `health: Required`, a condition or a gate.";
}
