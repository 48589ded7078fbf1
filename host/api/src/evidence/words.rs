//! The words that the evidence collector passes on: types, statuses and reasons of conditions, and phases. They are closed
//! sets, so that a cluster can choose neither the text of these columns nor its length. Must not judge.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$member:meta])* $word:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
        #[repr(u8)]
        pub enum $name { $($(#[$member])* $word,)* }

        impl $name {
            /// All of them, in the order that rows use.
            pub const ALL: [Self; [$(stringify!($word)),*].len()] = [$(Self::$word),*];

            /// As Kubernetes spells it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word),)* }
            }

            pub(super) fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|word| word.as_str() == text)
            }
        }
    };
}

words! {
    /// The types of conditions that health is judged by.
    ConditionType {
        /// Pods, and most custom resources.
        Ready,
        /// kstatus: work remains.
        Reconciling,
        /// kstatus: it does not go on without a person.
        Stalled,
        /// Deployments and APIServices.
        Available,
        /// Deployments.
        Progressing,
        /// Deployments and ReplicaSets.
        ReplicaFailure,
        /// Jobs.
        Complete,
        /// Jobs.
        Failed,
        /// CustomResourceDefinitions.
        Established,
        /// CustomResourceDefinitions.
        NamesAccepted,
        /// Pods.
        PodScheduled,
    }
}

words! {
    /// The reasons that a rule or a message needs; no other is passed on.
    ConditionReason {
        /// Deployment: the rollout is done.
        NewReplicaSetAvailable,
        /// Deployment: the rollout has failed.
        ProgressDeadlineExceeded,
        /// Deployment.
        DeploymentPaused,
        /// Deployment.
        ReplicaSetCreateError,
        /// Deployment and ReplicaSet: Pods cannot be created.
        FailedCreate,
        /// Job.
        BackoffLimitExceeded,
        /// Job.
        DeadlineExceeded,
        /// Job.
        PodFailurePolicy,
        /// Pod.
        Unschedulable,
        /// CustomResourceDefinition: Established=False for a moment.
        Installing,
        /// APIService.
        ServiceNotFound,
        /// APIService.
        MissingEndpoints,
        /// APIService.
        FailedDiscoveryCheck,
    }
}

words! {
    /// `status.phase` of built-in kinds; for a Service of type LoadBalancer whether it has an address.
    ReportedPhase {
        /// Pod, PersistentVolumeClaim; a Service without an address.
        Pending,
        /// Pod.
        Running,
        /// Pod.
        Succeeded,
        /// Pod.
        Failed,
        /// Pod.
        Unknown,
        /// PersistentVolumeClaim.
        Bound,
        /// PersistentVolumeClaim.
        Lost,
        /// Namespace.
        Active,
        /// Namespace.
        Terminating,
        /// A Service of type LoadBalancer that has an address.
        Assigned,
    }
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// The cluster does not know, or reports something that is no status of a condition.
    Unknown,
}

/// What a cluster reports about one condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReportedCondition {
    /// Its status.
    pub status: ConditionStatus,
    /// Its reason, if it is a known one.
    pub reason: Option<ConditionReason>,
}

/// The conditions of one object in one cluster, as far as health is judged by them.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct ReportedConditions {
    by_type: [Option<ReportedCondition>; ConditionType::ALL.len()],
    /// The object's conditions are not a well-formed list, so a type that is missing here may still be there.
    pub unreadable: bool,
}

/// How the collector writes conditions that it cannot read.
pub(super) const UNREADABLE: &str = "?";

impl ReportedConditions {
    /// The condition of this type, if the object has one.
    pub fn get(&self, type_: ConditionType) -> Option<ReportedCondition> {
        self.by_type[type_ as usize]
    }

    /// Of a status that was read here, by type, status and reason. Types that health is not judged by are left out, and reasons that no
    /// rule knows; a type that is there twice cannot be read.
    pub fn of<'a>(conditions: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>) -> Self {
        let mut known = Self::default();
        for (type_, status, reason) in conditions {
            let Some(type_) = ConditionType::parse(type_) else {
                continue;
            };
            let status = match status {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            };
            let reason = reason.and_then(ConditionReason::parse);
            let place = &mut known.by_type[type_ as usize];
            known.unreadable |= place.is_some();
            *place = Some(ReportedCondition { status, reason });
        }
        known
    }

    /// Adds one entry, `type=status` or `type=status:reason`; false if it is malformed or repeats a type.
    pub(super) fn take(&mut self, entry: &str) -> bool {
        if entry == UNREADABLE {
            self.unreadable = true;
            return true;
        }
        let Some((type_, rest)) = entry.split_once('=') else {
            return false;
        };
        let (status, reason) = rest
            .split_once(':')
            .map_or((rest, None), |(status, reason)| (status, Some(reason)));
        let status = match status {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            "Unknown" => ConditionStatus::Unknown,
            _ => return false,
        };
        let (Some(type_), Ok(reason)) = (
            ConditionType::parse(type_),
            reason.map(|text| ConditionReason::parse(text).ok_or(())).transpose(),
        ) else {
            return false;
        };
        let place = &mut self.by_type[type_ as usize];
        let is_first = place.is_none();
        *place = Some(ReportedCondition { status, reason });
        is_first
    }
}

impl TryFrom<Vec<String>> for ReportedConditions {
    type Error = String;

    fn try_from(entries: Vec<String>) -> Result<Self, String> {
        let mut conditions = Self::default();
        match entries.iter().find(|entry| !conditions.take(entry)) {
            None => Ok(conditions),
            Some(entry) => Err(format!("{entry:?} is no condition")),
        }
    }
}

impl From<ReportedConditions> for Vec<String> {
    fn from(conditions: ReportedConditions) -> Self {
        let entry = |type_: ConditionType| {
            let condition = conditions.get(type_)?;
            let status = match condition.status {
                ConditionStatus::True => "True",
                ConditionStatus::False => "False",
                ConditionStatus::Unknown => "Unknown",
            };
            let reason = condition
                .reason
                .map_or_else(String::new, |reason| format!(":{}", reason.as_str()));
            Some(format!("{}={status}{reason}", type_.as_str()))
        };
        let entries = ConditionType::ALL.into_iter().filter_map(entry);
        entries
            .chain(conditions.unreadable.then(|| UNREADABLE.to_owned()))
            .collect()
    }
}
