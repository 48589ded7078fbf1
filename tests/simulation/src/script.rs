//! What happens to the world from outside: users and faults, drawn from a seed before the run begins. Must not carry anything out.

use crate::gates::{Kind, Manner};
use crate::queue::Millis;
use crate::seeded::Seeded;
use crate::{plots, story};

/// When an action comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    At(Millis),
    /// This long after the action before it.
    AfterPrevious(Millis),
    /// This long after the n-th opening of a placement.
    AfterOpen(usize, Millis),
    /// This long after a process has decided to open a placement, for the n-th time.
    AfterDecision(usize, Millis),
}

/// How a workload object is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edit {
    Spec,
    /// To a version that crashes.
    Broken,
    /// It only takes fields away, so no time tells of it.
    Removal,
    /// Labels or annotations: nothing of the spec.
    Metadata,
    Replicas,
    /// It leaves the clauses' selection, and comes back with the next one of these.
    Label,
}

/// How a policy is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyEdit {
    Pause,
    Resume,
    Soak,
    Condition,
    Filter,
    Health,
    Selectors,
    CreateOnly,
    Collectors,
    AddStage,
    RemoveStage,
    RemoveFirstStage,
    Reorder,
    Previous,
    Clause,
    /// A stage behind all others.
    Append,
    /// The first stage selects the clusters of the second one, too, or no more.
    Wider,
    /// The name of the StatusCollector that is not there is taken out.
    Spelling,
    /// The gates of all stages are asked something else, and take it.
    Gates,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    EditWorkload(usize, Edit),
    DeleteWorkload(usize),
    RecreateWorkload(usize),
    EditPolicy(PolicyEdit),
    DeletePolicy,
    /// The finalizer of another owner keeps it for so long.
    DeletePolicySlowly(Millis),
    OrphanPolicy,
    RecreatePolicy,
    Relabel(usize),
    DropCollector,
    EditCollector,
    BreakEvidence,
    DropEvidence,
    /// A user makes our collector show what is desired as if it were what runs.
    TwistEvidence,
    /// The users' StatusCollector asks for what runs, or for what is wanted.
    ChangeQuestion,
    /// A person writes an older content into each CombinedStatus, without most of KubeStellar's labels.
    RestoreCombined,
    ClosePlacement(usize),
    EditPlacement(usize),
    /// A person takes all annotations of a placement away.
    StripPlacement(usize),
    /// A person replaces a placement by a manifest that has neither annotations nor our collector.
    ReplacePlacement(usize),
    DeletePlacement(usize),
    ForeignPlacement(usize),
    /// A placement that was deleted is made anew from its manifest.
    PutBackPlacement(usize),
    RestartKubeStellar {
        down_ms: Millis,
        inventory_ms: Millis,
        objects_ms: Millis,
    },
    Unreachable(usize, Millis),
    Reachable(usize),
    /// The cluster's agent applies nothing, while the one that reports goes on.
    Undelivered(usize, Millis),
    Sicken(usize, usize),
    Recover(usize, usize),
    Autoscale(usize, usize),
    Kill(usize, Millis),
    PauseProcess(usize, Millis),
    Skew(usize, Millis),
    LateWatch(usize, usize, Millis),
    Relist(usize),
    LoseAnswer,
    RefuseWrite,
    /// No workload object can be read, while all that is watched can.
    RefuseReads(Millis),
}

/// The names of actions that have no kinds of their own.
const OTHERS: [&str; 36] = [
    "DeleteWorkload",
    "RecreateWorkload",
    "DeletePolicy",
    "DeletePolicySlowly",
    "OrphanPolicy",
    "RecreatePolicy",
    "Relabel",
    "DropCollector",
    "EditCollector",
    "BreakEvidence",
    "DropEvidence",
    "TwistEvidence",
    "ChangeQuestion",
    "RestoreCombined",
    "ClosePlacement",
    "EditPlacement",
    "StripPlacement",
    "ReplacePlacement",
    "DeletePlacement",
    "ForeignPlacement",
    "PutBackPlacement",
    "RestartKubeStellar",
    "Unreachable",
    "Reachable",
    "Undelivered",
    "Sicken",
    "Recover",
    "Autoscale",
    "Kill",
    "PauseProcess",
    "Skew",
    "LateWatch",
    "Relist",
    "LoseAnswer",
    "RefuseWrite",
    "RefuseReads",
];

impl Action {
    /// What it does, without to what: `Kill`, `EditWorkload Broken`.
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Self::EditWorkload(_, edit) => format!("EditWorkload {edit:?}"),
            Self::EditPolicy(edit) => format!("EditPolicy {edit:?}"),
            other => {
                let text = format!("{other:?}");
                text.split(|next: char| !next.is_alphabetic())
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            }
        }
    }

    /// All that [`Action::kind`] gives.
    #[must_use]
    pub fn kinds() -> Vec<String> {
        let edits = EDITS.iter().map(|edit| format!("EditWorkload {edit:?}"));
        let policy_edits = POLICY_EDITS
            .iter()
            .chain(&PLOTTED_EDITS)
            .map(|edit| format!("EditPolicy {edit:?}"));
        let others = OTHERS.iter();
        edits
            .chain(policy_edits)
            .chain(others.map(|name| (*name).to_owned()))
            .collect()
    }
}

/// One run: all that is not drawn while it goes on.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub actions: Vec<(When, Action)>,
    pub setting: Setting,
}

/// The world before anything happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Clusters of each stage; the first of them may be shared with the stage before.
    pub clusters: Vec<usize>,
    pub shares: Vec<bool>,
    pub objects: Vec<crate::server::Resource>,
    pub soak: Option<&'static str>,
    pub has_condition: bool,
    pub has_filter: bool,
    pub keeps_previous: bool,
    pub two_processes: bool,
    pub second_policy: bool,
    pub slow_requests: bool,
    pub slow_transport: bool,
    pub slow_reports: bool,
    pub slow_rollouts: bool,
    pub late_watches: bool,
    /// The first stage passes over updates that no cluster acknowledges within two minutes.
    pub accepts_unseen: bool,
    /// KubeStellar's queue of BindingPolicies has a backlog.
    pub slow_queue: bool,
    /// How late it sees changed objects at most, where its queue has a backlog of them.
    pub objects_late_ms: Millis,
    /// When it starts, it learns late what clusters have reported: rows are empty for a moment.
    pub late_reports: bool,
    /// The API server does not know `createOnly`, as with an older CRD.
    pub drops_create_only: bool,
    /// Names of clusters are as long as the names of objects may be.
    pub has_long_names: bool,
    /// The garbage collector has a backlog.
    pub slow_garbage: bool,
    /// The first stage asks nothing of what it places: it only soaks.
    pub waits_only: bool,
    /// Health is asked by no stage.
    pub ignores_health: bool,
    /// The clauses name a StatusCollector that is not there, too.
    pub is_misspelt: bool,
    /// The users' StatusCollector asks for what is wanted at first.
    pub asks_desired: bool,
    /// The condition passes over clusters of which the StatusCollector has no value.
    pub is_lenient: bool,
    /// The filter can be evaluated for the first object alone.
    pub fails_for_one: bool,
    /// The transport tells which generation of each Binding it has taken.
    pub transport_tells: bool,
    /// A rollout of a Deployment fails after half a minute.
    pub short_deadlines: bool,
    /// How many ConfigMaps there are beside the objects. If there are any, clauses name as many StatusCollectors as they may, by names as
    /// long as they may be.
    pub crowd: usize,
    /// Status has no room for the names of clusters with pending updates.
    pub has_no_room: bool,
    /// Of each stage, where one has any.
    pub gates: Vec<Vec<Manner>>,
    /// Within what time of the last action the rollout has to be completed; 0: nothing is required.
    pub done_within_ms: Millis,
}

const EDITS: [Edit; 6] = [
    Edit::Spec,
    Edit::Broken,
    Edit::Removal,
    Edit::Metadata,
    Edit::Replicas,
    Edit::Label,
];
const POLICY_EDITS: [PolicyEdit; 15] = [
    PolicyEdit::Pause,
    PolicyEdit::Resume,
    PolicyEdit::Soak,
    PolicyEdit::Condition,
    PolicyEdit::Filter,
    PolicyEdit::Health,
    PolicyEdit::Selectors,
    PolicyEdit::CreateOnly,
    PolicyEdit::Collectors,
    PolicyEdit::AddStage,
    PolicyEdit::RemoveStage,
    PolicyEdit::RemoveFirstStage,
    PolicyEdit::Reorder,
    PolicyEdit::Previous,
    PolicyEdit::Clause,
];
/// Edits that only plots make.
const PLOTTED_EDITS: [PolicyEdit; 4] = [
    PolicyEdit::Append,
    PolicyEdit::Wider,
    PolicyEdit::Spelling,
    PolicyEdit::Gates,
];
/// Families of actions; each run uses a random half of them.
pub(crate) const FAMILIES: usize = 12;
/// In one run of this many, status has no room for names.
const NO_ROOM: usize = 5;
/// One action in this many is a burst.
const BURSTS: usize = 6;
/// The families that change the sets of clusters and placements: cluster labels, edited placements, restarts of KubeStellar.
const MOVING: [usize; 3] = [5, 7, 8];

impl Script {
    /// Each run uses a random half of the families of actions (swarm testing: Groce et al. 2012): some states are only reached in
    /// runs without a disturbance that is otherwise frequent.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let mut script = Self::drawn_but_for_room(seed);
        let setting = &mut script.setting;
        // The time within which a rollout completes is stated for status with room for names.
        setting.has_no_room |= setting.done_within_ms == 0 && Seeded::new(seed, 3).once_in(NO_ROOM);
        script
    }

    /// Everything but the room for names, which only plots set here.
    fn drawn_but_for_room(seed: u64) -> Self {
        let mut chance = Seeded::new(seed, 1);
        // Two thirds of the runs follow a plot, most others tell a story, and in the rest anything may come at any time.
        if !chance.once_in(3) {
            return plots::drawn(seed, &mut chance);
        }
        if !chance.once_in(4) {
            return story::told(seed, &mut chance);
        }
        let setting = Setting::drawn(&mut chance);
        let families: Vec<usize> = (0..FAMILIES).filter(|_| chance.once_in(2)).collect();
        let count = if families.is_empty() { 0 } else { chance.below(9) };
        let mut actions: Vec<(When, Action)> = Vec::new();
        for position in 0..count {
            let family = chance.pick(&families).copied().unwrap_or_default();
            let when = when(&mut chance, position > 0);
            if chance.once_in(BURSTS) {
                actions.extend(burst(when, &mut chance));
            } else {
                actions.push((when, action(family, &mut chance)));
            }
        }
        Self { seed, actions, setting }
    }
}

impl Script {
    /// Nothing is there, and no user and no fault acts.
    #[must_use]
    pub fn bare(seed: u64) -> Self {
        Self {
            seed,
            actions: Vec::new(),
            setting: Setting::default(),
        }
    }
}

impl Setting {
    pub(crate) fn drawn(chance: &mut Seeded) -> Self {
        use crate::server::Resource::{ConfigMap, Deployment, NetworkPolicy, StatefulSet};
        let stages = 2 + chance.below(2);
        let mut objects = vec![if chance.once_in(4) { StatefulSet } else { Deployment }];
        if chance.once_in(3) {
            let more = [Deployment, StatefulSet, NetworkPolicy, ConfigMap];
            objects.extend(chance.pick(&more).copied());
        }
        let mut often = |times: usize| chance.once_in(times);
        let shares: Vec<bool> = (0..stages).map(|stage| stage > 0 && often(3)).collect();
        let mut setting = Self {
            shares,
            objects,
            has_condition: often(3),
            has_filter: often(4),
            keeps_previous: often(4),
            two_processes: often(4),
            second_policy: often(8),
            slow_requests: often(6),
            slow_transport: often(4),
            slow_reports: often(5),
            slow_rollouts: often(4),
            late_watches: often(6),
            accepts_unseen: often(4),
            slow_queue: often(6),
            objects_late_ms: 0,
            late_reports: false,
            drops_create_only: often(10),
            soak: if often(4) {
                Some(if often(2) { "10s" } else { "1m" })
            } else {
                None
            },
            clusters: (0..stages).map(|_| 1 + usize::from(often(2))).collect(),
            ..Self::default()
        };
        if chance.once_in(8) {
            let kind = if chance.once_in(2) { Kind::Moody } else { Kind::Harsh };
            setting.gates = vec![vec![Manner::drawn(chance, kind)]];
        }
        setting
    }
}

fn when(chance: &mut Seeded, has_previous: bool) -> When {
    let soon = |chance: &mut Seeded| {
        let most = [5, 100, 2_000, 6_000, 30_000, 150_000];
        let most = chance.pick(&most).copied().unwrap_or(5);
        chance.between(0, most)
    };
    match chance.below(4) {
        0 if has_previous => When::AfterPrevious(soon(chance)),
        1 | 2 => When::AfterOpen(chance.below(4), soon(chance)),
        _ => {
            let most = [20_000, 60_000, 300_000];
            let most = chance.pick(&most).copied().unwrap_or(20_000);
            When::At(chance.between(0, most))
        }
    }
}

/// A cluster is away while an object is edited and something moves the sets, all within seconds. Drawn one by one, the three would
/// hardly ever meet.
fn burst(when: When, chance: &mut Seeded) -> [(When, Action); 3] {
    let away = Action::Unreachable(chance.below(6), chance.between(40_000, 300_000));
    let edits = [Edit::Spec, Edit::Replicas, Edit::Removal];
    let edit = Action::EditWorkload(chance.below(2), chance.pick(&edits).copied().unwrap_or(Edit::Spec));
    let moving = action(chance.pick(&MOVING).copied().unwrap_or(MOVING[0]), chance);
    let (first, second) = if chance.once_in(2) {
        (edit, moving)
    } else {
        (moving, edit)
    };
    let soon = |chance: &mut Seeded| When::AfterPrevious(chance.between(0, 4_000));
    [(when, away), (soon(chance), first), (soon(chance), second)]
}

pub(crate) fn action(family: usize, chance: &mut Seeded) -> Action {
    let long = [1_000, 8_000, 40_000, 200_000];
    let a_while = |chance: &mut Seeded| {
        let most = chance.pick(&long).copied().unwrap_or(1_000);
        chance.between(100, most)
    };
    match family {
        0 | 1 => Action::EditWorkload(chance.below(2), chance.pick(&EDITS).copied().unwrap_or(Edit::Spec)),
        2 => match chance.below(3) {
            0 => Action::DeleteWorkload(chance.below(2)),
            _ => Action::RecreateWorkload(chance.below(2)),
        },
        3 => Action::EditPolicy(chance.pick(&POLICY_EDITS).copied().unwrap_or(PolicyEdit::Pause)),
        4 => match chance.below(4) {
            0 => Action::DeletePolicy,
            1 => Action::OrphanPolicy,
            _ => Action::RecreatePolicy,
        },
        5 => Action::Relabel(chance.below(6)),
        6 => match chance.below(4) {
            0 => Action::DropCollector,
            1 => Action::EditCollector,
            2 => Action::BreakEvidence,
            _ => Action::DropEvidence,
        },
        7 => match chance.below(6) {
            0 => Action::ClosePlacement(chance.below(3)),
            1 => Action::EditPlacement(chance.below(3)),
            2 => Action::DeletePlacement(chance.below(3)),
            3 => Action::StripPlacement(chance.below(3)),
            4 => Action::ReplacePlacement(chance.below(3)),
            _ => Action::ForeignPlacement(chance.below(3)),
        },
        8 => Action::RestartKubeStellar {
            down_ms: a_while(chance),
            inventory_ms: chance.between(0, 12_000),
            objects_ms: chance.between(0, 6_000),
        },
        9 => match chance.below(3) {
            0 => Action::Sicken(chance.below(6), chance.below(2)),
            1 => Action::Autoscale(chance.below(6), chance.below(2)),
            _ => Action::Unreachable(chance.below(6), a_while(chance)),
        },
        10 => match chance.below(3) {
            0 => Action::Kill(chance.below(2), a_while(chance)),
            1 => Action::PauseProcess(chance.below(2), a_while(chance)),
            _ => Action::Skew(chance.below(2), chance.between(-5_000, 5_000)),
        },
        _ => match chance.below(4) {
            0 => Action::LateWatch(chance.below(2), chance.below(5), a_while(chance)),
            1 => Action::Relist(chance.below(2)),
            2 => Action::LoseAnswer,
            _ => Action::RefuseWrite,
        },
    }
}
