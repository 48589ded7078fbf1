//! The order in which items of one stage get a revision. Must not know what an item is.

/// One item of a stage, in the order of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// It has the revision.
    pub has_revision: bool,
    /// It has the revision, and runs as it should.
    pub is_settled: bool,
}

/// Which items may get the revision now, by their positions: at most so many have it without running as they should.
pub(crate) fn next(items: &[Item], at_once: usize) -> Vec<usize> {
    let unsettled = items
        .iter()
        .filter(|item| item.has_revision && !item.is_settled)
        .count();
    let without = items.iter().enumerate().filter(|(_, item)| !item.has_revision);
    without
        .map(|(at, _)| at)
        .take(at_once.saturating_sub(unsettled))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Item, next};

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
            assert_eq!(next(&items, at_once), expected, "{items:?} {at_once}");
        }
    }
}
