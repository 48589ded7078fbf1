//! The kubeconfig file that a playground leaves for kubectl while it runs.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::commands::{Failure, Result};

/// The file; one in the temporary directory goes with the playground, one that the user named stays.
pub struct KubeconfigFile {
    path: PathBuf,
    temporary: bool,
}

impl KubeconfigFile {
    /// # Errors
    /// When the file cannot be written.
    pub fn to(wished: Option<&Path>, text: &str) -> Result<Self> {
        let file = match wished {
            Some(path) => Self {
                path: path.to_owned(),
                temporary: false,
            },
            None => {
                let now_ms = jiff::Timestamp::now().as_millisecond();
                let name = format!("stagegate-playground-{}-{now_ms}.kubeconfig", std::process::id());
                Self {
                    path: std::env::temp_dir().join(name),
                    temporary: true,
                }
            }
        };
        file.write(text)
            .with_context(|| format!("writing {}", file.path.display()))
            .map_err(Failure::Environment)?;
        Ok(file)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        if self.temporary {
            // Others may write to the temporary directory: a file or link that is there already is not ours.
            options.create_new(true);
        } else {
            options.create(true).truncate(true);
        }
        options.write(true).open(&self.path)?.write_all(text.as_bytes())
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if self.temporary {
            // A file that stays behind points to a port where nobody listens: harmless.
            drop(std::fs::remove_file(&self.path));
        }
    }
}
