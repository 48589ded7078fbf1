//! Where an object is. Must not know what is there.

use crate::kinds::ResourceId;

/// An object's place within its resource; the namespace is empty for cluster-scoped ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

/// An object's place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectPlace {
    pub resource: ResourceId,
    pub key: Key,
}
