//! Scripts with a plot: rollout after rollout, and in each what only one guard of the rules is for. Drawn one by one, what has to meet
//! within seconds would hardly ever meet. Must not carry anything out.

use crate::queue::Millis;
use crate::script::{Action, Edit, PolicyEdit, Script, Setting, When, action};
use crate::seeded::Seeded;

/// Longest time between two actions of one chapter: at once, within seconds, within a stage.
const GAPS_MS: [Millis; 4] = [300, 2_000, 6_000, 20_000];
/// How long a cluster is out of reach. A pending update may count after two minutes.
const AWAY_MS: [Millis; 4] = [20_000, 150_000, 300_000, 450_000];
/// Longest time from the beginning of a rollout to what disturbs it. A stage takes some 13 s.
const LEAD_MS: [Millis; 4] = [2_000, 8_000, 14_000, 40_000];
/// How long KubeStellar is away. After 30 s it counts as silent.
const SILENCE_MS: [Millis; 4] = [3_000, 20_000, 70_000, 200_000];
/// Updates, those that are hard to see most often.
const EDITS: [Edit; 7] = [
    Edit::Spec,
    Edit::Spec,
    Edit::Removal,
    Edit::Removal,
    Edit::Replicas,
    Edit::Broken,
    Edit::Label,
];
/// The families that change policies, sets of clusters, evidence and placements, and that restart KubeStellar.
const MOVES: [usize; 7] = [3, 4, 5, 6, 7, 7, 8];
/// The families of faults of clusters, processes and requests.
const FAULTS: [usize; 3] = [9, 10, 11];

/// A story of one to three rollouts.
pub fn told(seed: u64, chance: &mut Seeded) -> Script {
    let mut setting = Setting::drawn(chance);
    // Small worlds have more rollouts in the same time, and a disturbance more often meets what matters.
    if chance.once_in(2) {
        setting.clusters.truncate(2);
        setting.shares.truncate(2);
        setting.objects.truncate(1);
    }
    // One that is alone cannot leave: its stage would have none.
    if chance.once_in(2) {
        setting.clusters[0] = 2;
    }
    setting.second_policy &= chance.once_in(3);
    setting.accepts_unseen &= chance.once_in(3);
    setting.slow_transport |= chance.once_in(4);
    // While a stage soaks, the set of the next one cannot hide what happens to its own.
    if chance.once_in(2) {
        setting.soak = chance.pick(&["10s", "30s", "1m"]).copied();
    }
    let mut actions = Vec::new();
    let chapters = [1, 1, 2, 3];
    for chapter in 0..chance.pick(&chapters).copied().unwrap_or(1) {
        if chapter > 0 {
            actions.push((soon(chance, &[90_000, 200_000]), beginning(chance)));
        }
        let chosen = match chance.below(8) {
            0 | 1 => silence(chance),
            2 => succession(chance, &mut setting),
            3 => evidence(chance, &mut setting),
            _ => pending_updates(chance),
        };
        in_any_order(chosen, chance, &mut actions);
    }
    Script { seed, actions, setting }
}

/// A new revision, most often: the rollout begins anew, and the clusters already have something.
fn beginning(chance: &mut Seeded) -> Action {
    match chance.below(8) {
        0 => Action::RecreatePolicy,
        1 => Action::EditPolicy(PolicyEdit::Reorder),
        2 => Action::EditPolicy(PolicyEdit::Collectors),
        3 => Action::EditPolicy(PolicyEdit::CreateOnly),
        _ => Action::EditPolicy(PolicyEdit::Clause),
    }
}

/// An object is updated while a cluster is out of reach, and one set or placement changes. More would hide what one guard is for.
fn pending_updates(chance: &mut Seeded) -> Vec<Action> {
    // Those of the first stage most often: it is where a rollout begins.
    let among = if chance.once_in(3) { 6 } else { 2 };
    let cluster = chance.below(among);
    let longest = chance.pick(&AWAY_MS).copied().unwrap_or(AWAY_MS[0]);
    // One update that it gets, and one that it does not.
    let mut chosen = Vec::new();
    if chance.once_in(2) {
        chosen.push(update(0, chance));
    }
    if !chance.once_in(4) {
        chosen.push(Action::Unreachable(cluster, chance.between(longest / 2, longest)));
    }
    chosen.push(update(0, chance));
    match chance.below(8) {
        0 | 1 => {}
        2..=4 => chosen.push(Action::Relabel(cluster)),
        _ => {
            let family = chance.pick(&MOVES).copied().unwrap_or(MOVES[0]);
            chosen.push(action(family, chance));
        }
    }
    if chance.once_in(6) {
        let family = chance.pick(&FAULTS).copied().unwrap_or(FAULTS[0]);
        chosen.push(action(family, chance));
    }
    chosen
}

/// KubeStellar is away while something changes that it would have to act on.
fn silence(chance: &mut Seeded) -> Vec<Action> {
    let longest = chance.pick(&SILENCE_MS).copied().unwrap_or(SILENCE_MS[0]);
    let mut chosen = vec![Action::RestartKubeStellar {
        down_ms: chance.between(longest / 3, longest),
        inventory_ms: chance.between(0, 12_000),
        objects_ms: chance.between(0, 6_000),
    }];
    for _ in 0..1 + chance.below(3) {
        chosen.push(match chance.below(6) {
            0 => Action::EditPolicy(PolicyEdit::Selectors),
            1 => Action::Relabel(chance.below(4)),
            2 => action(7, chance),
            3 => action(9, chance),
            _ => update(0, chance),
        });
    }
    chosen
}

/// A leader stands still or dies while a user wants something else: what it has sent must not arrive after the next leader's.
fn succession(chance: &mut Seeded, setting: &mut Setting) -> Vec<Action> {
    setting.two_processes = true;
    let process = chance.below(2);
    let long = chance.between(15_000, 60_000);
    let other = match chance.below(4) {
        0 => update(0, chance),
        1 => action(7, chance),
        2 => action(3, chance),
        _ => Action::EditPolicy(PolicyEdit::Pause),
    };
    let mut chosen = vec![Action::PauseProcess(process, long), other];
    if chance.once_in(3) {
        chosen.push(action(10, chance));
    }
    chosen
}

/// What evidence is made of changes while not all is well.
fn evidence(chance: &mut Seeded, setting: &mut Setting) -> Vec<Action> {
    setting.has_condition |= chance.once_in(2);
    let unwell = match chance.below(3) {
        0 => Action::EditWorkload(0, Edit::Broken),
        1 => Action::Unreachable(chance.below(4), chance.between(10_000, 100_000)),
        _ => Action::Sicken(chance.below(4), 0),
    };
    let mut chosen = vec![unwell];
    for _ in 0..1 + chance.below(2) {
        chosen.push(match chance.below(5) {
            0 => Action::EditPolicy(PolicyEdit::Filter),
            1 => Action::EditPolicy(PolicyEdit::Condition),
            2 => Action::EditPolicy(PolicyEdit::Soak),
            _ => action(6, chance),
        });
    }
    chosen
}

/// What belongs together comes at once, within seconds or within a stage, as it was told or in any order.
fn in_any_order(mut chosen: Vec<Action>, chance: &mut Seeded, actions: &mut Vec<(When, Action)>) {
    let gap = chance.pick(&GAPS_MS).copied().unwrap_or(GAPS_MS[0]);
    let mut when = match chance.below(8) {
        // Between a decision and what it was made for.
        0 if actions.is_empty() => When::AfterDecision(chance.below(3), chance.between(0, 40)),
        1..=4 if actions.is_empty() => When::AfterOpen(chance.below(3), chance.between(0, 12_000)),
        _ => soon(chance, &LEAD_MS),
    };
    let is_as_told = chance.once_in(2);
    while !chosen.is_empty() {
        let next = chosen.remove(if is_as_told { 0 } else { chance.below(chosen.len()) });
        actions.push((when, next));
        when = soon(chance, &[gap]);
    }
}

fn soon(chance: &mut Seeded, longest: &[Millis]) -> When {
    let longest = chance.pick(longest).copied().unwrap_or_default();
    When::AfterPrevious(chance.between(0, longest))
}

fn update(object: usize, chance: &mut Seeded) -> Action {
    match chance.below(6) {
        0 => Action::RecreateWorkload(object),
        _ => Action::EditWorkload(object, chance.pick(&EDITS).copied().unwrap_or(Edit::Spec)),
    }
}
