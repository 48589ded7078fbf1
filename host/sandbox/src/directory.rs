//! The cache's directory: one file for each component and engine, named by both, with the SHA-256 of its name and what
//! follows in front. Held open, so that another directory moved to its place changes nothing. Must not touch files whose
//! names are not its own.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};
use sha2::{Digest as _, Sha256};
use stagegate_api::Digest;

use super::protocol::ARTIFACT_BYTES_MAX;
use super::sealed::Open;

/// Most bytes of all entries; the oldest go first.
const DIRECTORY_BYTES_MAX: u64 = 512 << 20;
/// A file that is being written is left alone for this long.
const TEMPORARY_FOR: Duration = Duration::from_secs(3_600);
const TEMPORARY_PREFIX: &str = ".new-";
const SHA256_BYTES: usize = 32;
const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub struct Directory {
    open: OwnedFd,
    /// Of the engine: artifacts of another one are never looked at.
    compatibility: String,
}

impl Directory {
    pub fn open(path: &Path) -> io::Result<Self> {
        let refused = |why: &str| {
            let message = format!("the cache directory {} {why}", path.display());
            io::Error::new(io::ErrorKind::PermissionDenied, message)
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| io::Error::new(error.kind(), format!("opening the cache directory: {error}")))?;
        let stat = rustix::fs::fstat(&open)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(refused("belongs to another user"));
        }
        if stat.st_mode & 0o077 != 0 {
            return Err(refused("can be entered by others; it must have mode 0700"));
        }
        let directory = Self {
            open,
            compatibility: stagegate_evaluate::gate::compatibility(),
        };
        directory.prune()?;
        Ok(directory)
    }

    /// The checked artifact, sealed. An entry that is not what was written is removed.
    pub fn read(&self, component: &Digest) -> Option<File> {
        let name = self.name(component)?;
        match self.read_entry(&name) {
            Ok(artifact) => Some(artifact),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(%component, %error, "an entry of the cache is removed");
                self.unlink(&name);
                None
            }
        }
    }

    pub fn contains(&self, component: &Digest) -> bool {
        self.name(component)
            .is_some_and(|name| statat(&self.open, name.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Whole or not at all, also when the machine stops in between.
    pub fn write(&self, component: &Digest, artifact: &[u8]) -> io::Result<()> {
        let name = self
            .name(component)
            .ok_or_else(|| io::Error::other("the digest is none"))?;
        let temporary = format!("{TEMPORARY_PREFIX}{}", uuid::Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.open, temporary.as_str(), flags, Mode::RUSR | Mode::WUSR)?);
        let written = file
            .write_all(&summing(&name).chain_update(artifact).finalize())
            .and_then(|()| file.write_all(artifact))
            .and_then(|()| file.sync_all())
            .and_then(|()| Ok(renameat(&self.open, temporary.as_str(), &self.open, name.as_str())?));
        if let Err(error) = written {
            self.unlink(&temporary);
            return Err(error);
        }
        rustix::fs::fsync(&self.open)?;
        self.prune()
    }

    pub fn remove(&self, component: &Digest) {
        if let Some(name) = self.name(component) {
            self.unlink(&name);
        }
    }

    /// `None` for a digest that is none: it could name a file elsewhere.
    fn name(&self, component: &Digest) -> Option<String> {
        let digest = component.as_str();
        is_hex(digest, 64).then(|| format!("{digest}.{}", self.compatibility))
    }

    /// In one pass and pieces that stay in the processor's cache: this is done whenever a child is started.
    fn read_entry(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.open, name, flags, Mode::empty())?);
        let mut sum = [0; SHA256_BYTES];
        file.read_exact(&mut sum)?;
        let (mut hash, mut artifact) = (summing(name), Open::new()?);
        let mut piece = vec![0; PIECE_BYTES];
        let mut length = 0;
        loop {
            let read = file.read(&mut piece)?;
            if read == 0 {
                break;
            }
            length += read;
            if length > ARTIFACT_BYTES_MAX {
                return Err(io::Error::other(format!("it has more than {ARTIFACT_BYTES_MAX} bytes")));
            }
            hash.update(&piece[..read]);
            artifact.write_all(&piece[..read])?;
        }
        if hash.finalize().as_slice() != sum {
            return Err(io::Error::other("it is not what was written"));
        }
        artifact.seal()
    }

    fn unlink(&self, name: &str) {
        if let Err(error) = unlinkat(&self.open, name, AtFlags::empty())
            && error != rustix::io::Errno::NOENT
        {
            tracing::warn!(name, %error, "a file of the cache could not be removed");
        }
    }

    /// Removes the oldest entries over the bound, also those of other engines, and what killed processes left half written.
    fn prune(&self) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.open)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_temporary = is_temporary(name);
            if !is_temporary && !is_entry(name) {
                continue;
            }
            let Ok(stat) = statat(&self.open, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                continue;
            }
            let changed = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or_default());
            if !is_temporary {
                entries.push((
                    changed,
                    u64::try_from(stat.st_size).unwrap_or_default(),
                    name.to_owned(),
                ));
            } else if now.saturating_sub(changed) > TEMPORARY_FOR {
                self.unlink(name);
            }
        }
        entries.sort_unstable();
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, name) in entries {
            if total <= DIRECTORY_BYTES_MAX {
                break;
            }
            self.unlink(&name);
            total -= bytes;
        }
        Ok(())
    }
}

/// The sum of an entry begins with its name, so that an artifact under another one's name is none.
fn summing(name: &str) -> Sha256 {
    Sha256::new().chain_update(name)
}

/// As [`Directory::name`] makes it for any component and engine.
fn is_entry(name: &str) -> bool {
    name.split_once('.')
        .is_some_and(|(component, compatibility)| is_hex(component, 64) && is_hex(compatibility, 64))
}

/// As [`Directory::write`] makes it.
fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY_PREFIX)
        .is_some_and(|number| is_hex(number, 32))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
