//! The order in which items of one stage get a revision. Must not know what an item is.

/// One item of a stage, in the order of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// It has the revision.
    pub has_revision: bool,
    /// It has the revision, and runs as it should.
    pub is_settled: bool,
}

/// What the items that have the revision prove beyond running as they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Nothing is asked of them.
    NotAsked,
    /// Every check passes over them, or none has the revision yet.
    Passed,
    /// A check does not pass, or nobody knows.
    Missing,
}

/// Which items may get the revision now, by their positions: at most so many have it without running as they should. Where checks are asked,
/// none gets it before all that have it run as they should and the checks pass over them.
pub(crate) fn next(items: &[Item], at_once: usize, proof: Proof) -> Vec<usize> {
    let unsettled = items
        .iter()
        .filter(|item| item.has_revision && !item.is_settled)
        .count();
    // Before the first of them runs, they are what begins together; a write that failed is made up for.
    let has_begun = items.iter().any(|item| item.is_settled);
    if has_begun && (proof == Proof::Missing || proof == Proof::Passed && unsettled > 0) {
        return Vec::new();
    }
    let without = items.iter().enumerate().filter(|(_, item)| !item.has_revision);
    without
        .map(|(at, _)| at)
        .take(at_once.saturating_sub(unsettled))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Item, Proof, next};

    const OLD: Item = Item {
        has_revision: false,
        is_settled: false,
    };
    const NEW: Item = Item {
        has_revision: true,
        is_settled: false,
    };
    const DONE: Item = Item {
        has_revision: true,
        is_settled: true,
    };

    #[test]
    fn so_many_items_are_on_their_way_at_once_and_each_that_arrives_makes_room() {
        for (items, at_once, expected) in [
            (vec![OLD, OLD, OLD], 1, vec![0]),
            (vec![NEW, OLD, OLD], 1, vec![]),
            (vec![DONE, OLD, OLD], 1, vec![1]),
            (vec![OLD, DONE, NEW, OLD], 2, vec![0]),
            (vec![OLD, OLD, OLD], usize::MAX, vec![0, 1, 2]),
            (vec![NEW, NEW, OLD], 1, vec![]),
            (vec![DONE, DONE], 1, vec![]),
            (vec![], 1, vec![]),
        ] {
            assert_eq!(next(&items, at_once, Proof::NotAsked), expected, "{items:?} {at_once}");
        }
    }

    #[test]
    fn where_checks_are_asked_no_item_follows_before_they_pass_over_all_that_have_the_revision() {
        for (items, at_once, expected) in [
            (vec![OLD, OLD, OLD], 2, vec![0, 1]),
            (vec![NEW, DONE, OLD], 2, vec![]),
            (vec![DONE, DONE, OLD], 2, vec![2]),
        ] {
            assert_eq!(next(&items, at_once, Proof::Passed), expected, "{items:?} {at_once}");
        }
        assert!(next(&[DONE, OLD], 2, Proof::Missing).is_empty());
    }

    #[test]
    fn items_that_begin_together_are_made_up_to_their_number_before_the_first_of_them_runs() {
        for proof in [Proof::Passed, Proof::Missing] {
            assert_eq!(next(&[NEW, OLD, OLD], 2, proof), [1]);
            assert!(next(&[NEW, NEW, OLD], 2, proof).is_empty());
        }
    }
}
