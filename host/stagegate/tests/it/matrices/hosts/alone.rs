//! What a single host comes to, and what is wrong with two that come to something else.

use std::collections::BTreeMap;

use super::case::{Case, Edit, Rollout};
use super::choosers::Orders;
use super::run::{Run, run};

/// Two hosts may send so many times what one sends: each write may be lost to the other, and be decided on again.
const WRITES_FACTOR: usize = 4;
/// So often may a closed placement be made again that is no longer needed.
const MADE_AGAIN_MAX: usize = 2;

/// What single hosts come to, by what they do and what is edited.
#[derive(Default)]
pub struct Alone(BTreeMap<(Rollout, Edit), Run>);

impl Alone {
    fn of(&mut self, case: &Case, edit: Edit) -> &Run {
        self.0.entry((case.rollout, edit)).or_insert_with(|| {
            let alone = Case {
                hosts: 1,
                edit,
                rollout: case.rollout,
                ..Case::UNDISTURBED
            };
            let run = run(&alone, Orders::new(0, 0..0)).unwrap();
            assert_eq!(
                run.wrongs,
                Vec::<String>::new(),
                "one host alone, {:?}, {edit:?}",
                case.rollout
            );
            run
        })
    }

    /// What is wrong with a run of two hosts.
    pub fn judge(&mut self, case: &Case, run: &Run) -> Vec<String> {
        let mut wrongs = run.wrongs.clone();
        let alone = self.of(case, run.edited);
        if run.end != alone.end {
            wrongs.push(format!("one host ends at {:?}, two at {:?}", alone.end, run.end));
        }
        let most = WRITES_FACTOR * alone.log.len();
        if run.log.len() > most {
            wrongs.push(format!("{} writes, one host needs {}", run.log.len(), alone.log.len()));
        }
        if run.edited == Edit::None {
            // A create that was decided on long ago makes a placement that was removed meanwhile. It is closed, and goes again.
            let (two, one) = (run.made_and_removed(), alone.made_and_removed());
            let is_as_often = two.iter().all(|(name, (made, removed))| {
                let (made_by_one, removed_by_one) = one.get(name).copied().unwrap_or_default();
                let more = made.checked_sub(made_by_one);
                more.is_some_and(|more| more <= MADE_AGAIN_MAX && *removed == removed_by_one + more)
            });
            if two.len() != one.len() || !is_as_often {
                wrongs.push(format!("one host makes and removes {one:?}, two do {two:?}"));
            }
        }
        wrongs
    }
}
