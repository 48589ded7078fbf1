//! Artifacts by the digest of their component: in a directory, or in memory. What comes out was checked, and nobody can
//! change it any more. Must not compile.
//!
//! An artifact is machine code that is run as it stands, so the directory belongs to this user alone, and an entry that is
//! not, byte for byte, what was put in is removed and counts as absent.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use stagegate_api::Digest;

use super::directory::Directory;
use super::sealed::sealed;

/// Most bytes of artifacts in memory.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug)]
pub struct Cache {
    directory: Option<Directory>,
    /// Without a directory all artifacts, with one those that could not be written.
    memory: Mutex<Memory>,
}

impl Cache {
    pub fn in_memory() -> Self {
        Self {
            directory: None,
            memory: Mutex::default(),
        }
    }

    /// In a directory, which is made where it is missing.
    ///
    /// # Errors
    /// A directory that is not this user's, or that others may enter; one that cannot be made or read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            directory: Some(Directory::open(path)?),
            ..Self::in_memory()
        })
    }

    /// The artifact as a sealed file, its offset at the begin. `None`: it has to be compiled.
    pub fn get(&self, component: &Digest) -> Option<File> {
        if let Some(file) = self.memory().get(component) {
            return Some(file);
        }
        self.directory.as_ref()?.read(component)
    }

    pub fn contains(&self, component: &Digest) -> bool {
        self.memory().position(component).is_some()
            || self
                .directory
                .as_ref()
                .is_some_and(|directory| directory.contains(component))
    }

    /// Keeps an artifact. That it cannot be written to the directory is no failure: it is kept in memory.
    ///
    /// # Errors
    /// No memory for it.
    pub fn insert(&self, component: &Digest, artifact: &[u8]) -> io::Result<()> {
        if let Some(directory) = &self.directory {
            match directory.write(component, artifact) {
                Ok(()) => return Ok(()),
                Err(error) => tracing::warn!(%component, %error, "an artifact could not be written to the cache"),
            }
        }
        let file = sealed(artifact)?;
        self.memory().insert(Held {
            component: component.clone(),
            bytes: artifact.len() as u64,
            file,
        });
        Ok(())
    }

    /// Forgets an artifact that turned out not to be usable.
    pub fn remove(&self, component: &Digest) {
        let mut memory = self.memory();
        if let Some(at) = memory.position(component) {
            memory.held.remove(at);
        }
        if let Some(directory) = &self.directory {
            directory.remove(component);
        }
    }

    /// No code that can panic runs under the lock, so a poisoned state is whole.
    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Least recently used first.
#[derive(Debug, Default)]
struct Memory {
    held: VecDeque<Held>,
}

#[derive(Debug)]
struct Held {
    component: Digest,
    bytes: u64,
    file: File,
}

impl Memory {
    fn position(&self, component: &Digest) -> Option<usize> {
        self.held.iter().position(|held| held.component == *component)
    }

    fn get(&mut self, component: &Digest) -> Option<File> {
        let held = self.held.remove(self.position(component)?)?;
        // The copy shares the offset, but nobody reads by it: artifacts are mapped.
        let file = held.file.try_clone().ok();
        self.held.push_back(held);
        file
    }

    fn insert(&mut self, new: Held) {
        self.held.retain(|held| held.component != new.component);
        self.held.push_back(new);
        while self.held.len() > 1 && self.held.iter().map(|held| held.bytes).sum::<u64>() > MEMORY_BYTES_MAX {
            self.held.pop_front();
        }
    }
}
