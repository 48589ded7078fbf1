//! Scripts that each lead to the one state which a single rule is for, with random times and settings around it. Drawn at random, that
//! state would hardly ever be reached. Must not carry anything out.

mod bindings;
mod evidence;
mod joins;
mod lives;
mod names;
mod placements;
mod prompt;
mod updates;

use crate::queue::Millis;
use crate::script::{Action, Script, Setting, When};
use crate::seeded::Seeded;
use crate::server::Resource;

/// Draws what happens, and in which world.
type Plot = fn(&mut Seeded) -> (Setting, Vec<(When, Action)>);

const ALL: [&[Plot]; 8] = [
    bindings::PLOTS,
    updates::PLOTS,
    lives::PLOTS,
    evidence::PLOTS,
    placements::PLOTS,
    names::PLOTS,
    prompt::PLOTS,
    joins::PLOTS,
];

/// So long after the action before.
fn later(chance: &mut Seeded, from: Millis, to: Millis) -> When {
    When::AfterPrevious(chance.between(from, to))
}

/// Stages with so many clusters, and one object.
fn small(clusters: Vec<usize>) -> Setting {
    Setting {
        shares: vec![false; clusters.len()],
        clusters,
        objects: vec![Resource::Deployment],
        ..Setting::default()
    }
}

/// One of the plots.
pub fn drawn(seed: u64, chance: &mut Seeded) -> Script {
    let plots: Vec<Plot> = ALL.concat();
    let plot = plots[chance.below(plots.len())];
    let (setting, actions) = plot(chance);
    Script { seed, actions, setting }
}
