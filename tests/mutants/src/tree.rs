//! A copy of the sources that may be broken. A file is written only where it differs, so that cargo builds anew what a
//! defect touches and nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

#[derive(Clone, Debug)]
pub struct Tree {
    pub root: PathBuf,
    sources: PathBuf,
}

impl Tree {
    pub fn new(sources: PathBuf, root: PathBuf) -> Self {
        Self { root, sources }
    }

    /// Makes the copy equal to the sources: every file that git tracks or would add, and nothing else.
    ///
    /// # Errors
    /// Where git or the file system refuses.
    pub fn restore(&self) -> Result<()> {
        let listed = self.listed()?;
        for path in &listed {
            let text = std::fs::read(self.sources.join(path)).with_context(|| format!("reading {}", path.display()))?;
            self.write(path, &text)?;
        }
        for path in files_under(&self.root)? {
            let is_left_over = path.strip_prefix(&self.root).is_ok_and(|path| !listed.contains(path));
            if is_left_over {
                std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Puts the text in place of the file's, if it is another one.
    ///
    /// # Errors
    /// Where the file system refuses.
    pub fn write(&self, path: &Path, text: &[u8]) -> Result<()> {
        let path = self.root.join(path);
        if std::fs::read(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        let writing = || format!("writing {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(writing)?;
        }
        std::fs::write(&path, text).with_context(writing)
    }

    fn listed(&self) -> Result<BTreeSet<PathBuf>> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.sources)
            .output()
            .context("running git ls-files")?;
        ensure!(
            output.status.success(),
            "git ls-files: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let names = String::from_utf8(output.stdout).context("reading the names of git ls-files")?;
        let paths = names.split_terminator('\0').map(PathBuf::from);
        // One that is deleted and not yet committed so is still listed.
        Ok(paths.filter(|path| self.sources.join(path).is_file()).collect())
    }
}

fn files_under(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_under(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}
