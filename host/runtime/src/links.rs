//! Who names whom, both ways: so that the cost of an event follows what it touches. Must not know what is linked.

use std::collections::{BTreeMap, BTreeSet};

use super::few::Few;

/// A relation between two sorts of names.
#[derive(Clone, Debug, Default)]
pub struct Links {
    to: BTreeMap<String, Few<String>>,
    from: BTreeMap<String, Few<String>>,
}

impl Links {
    /// `name` names exactly these from now on.
    pub fn set(&mut self, name: &str, targets: BTreeSet<String>) {
        if self.of(name).eq(&targets) {
            return;
        }
        let before = self.to.remove(name).unwrap_or_default();
        for gone in before.iter().filter(|gone| !targets.contains(*gone)) {
            if let Some(names) = self.from.get_mut(gone) {
                names.remove(&name.to_owned());
                if names.is_empty() {
                    self.from.remove(gone);
                }
            }
        }
        for target in &targets {
            self.from.entry(target.clone()).or_default().insert(name.to_owned());
        }
        if !targets.is_empty() {
            self.to.insert(name.to_owned(), targets.into_iter().collect());
        }
    }

    /// All that name anything.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.to.keys()
    }

    /// What `name` names.
    pub fn of(&self, name: &str) -> impl Iterator<Item = &String> {
        self.to.get(name).into_iter().flatten()
    }

    /// Who names `target`.
    pub fn naming(&self, target: &str) -> impl Iterator<Item = &String> {
        self.from.get(target).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::Links;

    fn set(names: &[&str]) -> std::collections::BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn both_directions_follow_every_change() {
        let mut links = Links::default();
        links.set("p", set(&["a", "b"]));
        links.set("q", set(&["b"]));
        assert_eq!(links.naming("b").collect::<Vec<_>>(), ["p", "q"]);
        links.set("p", set(&["a"]));
        assert_eq!(links.naming("b").collect::<Vec<_>>(), ["q"]);
        assert_eq!(links.all().collect::<Vec<_>>(), ["p", "q"]);
        links.set("p", set(&[]));
        assert_eq!(links.naming("a").count(), 0);
        assert_eq!(links.of("p").count(), 0);
        assert!(
            links.from.len() == 1 && links.to.len() == 1,
            "nothing is left of what is no longer named"
        );
    }
}
