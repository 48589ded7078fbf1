//! Which parts are simulated, and their delays.

/// Which parts are simulated, and their delays.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From an event of a Binding or ManifestWork, or a report of an object that it brings, until its workload is handed to the clusters. The first event
    /// sets the time and later ones do not move it; the hand-over takes what the Binding says by then.
    pub transport_delay_ms: u64,
    /// From a change of an object's health until its WorkStatus says so.
    pub status_delay_ms: u64,
    /// What tells the clusters what to hold.
    pub source: Source,
}

/// What tells simulated clusters what to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Bindings: no transport runs.
    #[default]
    Bindings,
    /// The ManifestWorks of the clusters' mailbox namespaces, which a transport writes.
    ManifestWorks,
}

impl Default for Settings {
    /// As fast as a playground wants it, and still in order: never at once.
    fn default() -> Self {
        Self {
            transport_delay_ms: 50,
            status_delay_ms: 50,
            source: Source::default(),
        }
    }
}
