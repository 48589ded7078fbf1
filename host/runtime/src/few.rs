//! A set that mostly has one member: in order and without doubles, in as much memory as its members take. A tree of one has room
//! for eleven.

/// From so many members on, room is made for more than the next one.
const FEW: usize = 4;

/// Finding takes time as in a tree, adding as in a list.
#[derive(Clone, Debug)]
pub struct Few<T>(Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Ord> Few<T> {
    pub fn contains(&self, member: &T) -> bool {
        self.0.binary_search(member).is_ok()
    }

    pub fn insert(&mut self, member: T) {
        if let Err(at) = self.0.binary_search(&member) {
            if self.0.len() < FEW {
                self.0.reserve_exact(1);
            }
            self.0.insert(at, member);
        }
    }

    pub fn remove(&mut self, member: &T) {
        if let Ok(at) = self.0.binary_search(member) {
            self.0.remove(at);
        }
    }
}

impl<T> Few<T> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T: Ord> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Self {
        let mut members: Vec<T> = members.into_iter().collect();
        members.sort();
        members.dedup();
        members.shrink_to_fit();
        Self(members)
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn members_are_in_order_and_once() {
        let mut few: Few<u32> = [3, 1, 3].into_iter().collect();
        for member in [2, 9, 1, 8, 7] {
            few.insert(member);
        }
        assert_eq!(few.iter().copied().collect::<Vec<_>>(), [1, 2, 3, 7, 8, 9]);
        few.remove(&8);
        few.remove(&5);
        assert!(few.contains(&7) && !few.contains(&8));
        assert_eq!(few.iter().count(), 5);
    }
}
