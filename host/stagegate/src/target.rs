//! What a command names: a kind of rollout, and the name of one as kubectl writes it. Must not ask a cluster.

use std::str::FromStr;

/// The kinds whose rollouts are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    StagedBindingPolicy,
    YurtAppDaemon,
}

impl Kind {
    const ALL: [Self; 2] = [Self::StagedBindingPolicy, Self::YurtAppDaemon];

    /// As manifests have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StagedBindingPolicy => "StagedBindingPolicy",
            Self::YurtAppDaemon => "YurtAppDaemon",
        }
    }

    /// More than one of them.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::StagedBindingPolicy => "StagedBindingPolicies",
            Self::YurtAppDaemon => "YurtAppDaemons",
        }
    }

    /// The short name in messages.
    pub const fn short(self) -> &'static str {
        match self {
            Self::StagedBindingPolicy => "sbp",
            Self::YurtAppDaemon => "yad",
        }
    }

    /// The command that prints its definition.
    pub const fn definition(self) -> &'static str {
        match self {
            Self::StagedBindingPolicy => "stagegate crds",
            Self::YurtAppDaemon => "stagegate crds --workloads",
        }
    }

    /// The command that runs its controller.
    pub const fn controller(self) -> &'static str {
        match self {
            Self::StagedBindingPolicy => "stagegate run",
            Self::YurtAppDaemon => "stagegate run --controllers yurtappdaemon",
        }
    }

    /// All names that kubectl takes for it.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::StagedBindingPolicy => &["stagedbindingpolicy", "stagedbindingpolicies", "sbp"],
            Self::YurtAppDaemon => &["yurtappdaemon", "yurtappdaemons", "yad", "udd"],
        }
    }

    fn named(word: &str) -> Option<Self> {
        let is_name = |kind: &Self| kind.names().iter().any(|name| name.eq_ignore_ascii_case(word));
        Self::ALL.into_iter().find(is_name)
    }
}

/// `yad/nginx`, or `nginx`, which is a StagedBindingPolicy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    pub name: String,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            None => (Kind::StagedBindingPolicy, text),
            Some((word, name)) => {
                let kind =
                    Kind::named(word).ok_or_else(|| format!("there is no kind {word:?}: the kinds are sbp and yad"))?;
                (kind, name)
            }
        };
        if name.is_empty() {
            return Err("the name is missing: expected NAME, or KIND/NAME such as yad/nginx".to_owned());
        }
        let name = name.to_owned();
        Ok(Self { kind, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_policy_unless_it_names_another_kind() {
        let target = |text: &str| text.parse::<Target>().map(|target| (target.kind, target.name));
        let daemon = Ok((Kind::YurtAppDaemon, "nginx".to_owned()));
        for kind in ["yad", "udd", "yurtappdaemon", "yurtappdaemons", "YurtAppDaemon"] {
            assert_eq!(target(&format!("{kind}/nginx")), daemon, "{kind}");
        }
        let policy = Ok((Kind::StagedBindingPolicy, "nginx".to_owned()));
        for text in ["nginx", "sbp/nginx", "stagedbindingpolicies/nginx"] {
            assert_eq!(target(text), policy, "{text}");
        }
        for text in ["", "yad/", "deploy/nginx"] {
            assert!(target(text).is_err(), "{text:?}");
        }
    }
}
