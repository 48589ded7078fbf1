//! Which row has which name: open addressing over FNV-1a. An ordered or a seeded map would be a tenth of a small gate,
//! or ask the host for randomness. Names that collide on purpose cost time, and a call's time is limited.

pub(crate) struct Index<'a> {
    names: &'a [&'a str],
    /// Rows, or [`FREE`]; at most half of them are taken.
    slots: Vec<u32>,
}

const FREE: u32 = u32::MAX;

impl<'a> Index<'a> {
    /// # Errors
    /// The first name that is there twice.
    pub(crate) fn of(names: &'a [&'a str]) -> Result<Self, &'a str> {
        let mut index = Self {
            names,
            slots: vec![FREE; (names.len() * 2).next_power_of_two()],
        };
        for (row, name) in (0_u32..).zip(names) {
            let slot = index.slot(name);
            if index.slots[slot] != FREE {
                return Err(name);
            }
            index.slots[slot] = row;
        }
        Ok(index)
    }

    pub(crate) fn row(&self, name: &str) -> Option<usize> {
        let row = self.slots[self.slot(name)];
        (row != FREE).then_some(row as usize)
    }

    /// Where the name is, or would be.
    fn slot(&self, name: &str) -> usize {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != FREE && self.names[self.slots[slot] as usize] != name {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::Index;

    #[test]
    fn every_name_is_found_at_its_row_and_no_other_is() {
        let owned: Vec<String> = (0..1_000).map(|at| format!("cluster-{at}")).collect();
        let names: Vec<&str> = owned.iter().map(String::as_str).collect();
        let index = Index::of(&names).ok().unwrap();
        for (row, name) in names.iter().enumerate() {
            assert_eq!(index.row(name), Some(row));
        }
        assert_eq!(index.row("cluster-1000"), None);
        assert_eq!(Index::of(&[]).ok().unwrap().row(""), None);
    }

    #[test]
    fn a_name_that_is_there_twice_is_said() {
        assert_eq!(Index::of(&["a", "b", "a"]).err(), Some("a"));
    }
}
