//! A map that forgets its oldest entries: every cache here has a bound, whatever users and clusters do.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// First in, first out: an entry that is asked for again is simply worked out again.
#[derive(Clone, Debug)]
pub struct BoundedMap<K, V> {
    limit: usize,
    entries: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, V> BoundedMap<K, V> {
    /// Holds at most `limit` entries, and at least one.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            entries: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    /// Forgets the oldest entries beyond the youngest `limit`.
    pub fn shorten(&mut self, limit: usize) {
        let surplus = self.order.len().saturating_sub(limit);
        for oldest in self.order.drain(..surplus) {
            self.entries.remove(&oldest);
        }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::BoundedMap;

    #[test]
    fn the_oldest_entry_leaves_when_the_map_is_full() {
        let mut map = BoundedMap::new(2);
        map.insert("a", 1);
        map.insert("b", 2);
        map.insert("a", 3);
        map.insert("c", 4);
        assert_eq!(map.get(&"a"), None);
        assert_eq!(map.get(&"b"), Some(&2));
        assert_eq!(map.get(&"c"), Some(&4));
        assert_eq!(map.iter().count(), 2);
    }

    #[test]
    fn a_map_that_is_shortened_keeps_the_youngest_entries() {
        let mut map = BoundedMap::new(4);
        for number in 0..4 {
            map.insert(number, number);
        }
        map.shorten(8);
        assert_eq!(map.iter().count(), 4);
        map.shorten(1);
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&3, &3)]);
        assert_eq!(map.get(&0), None);
    }
}
