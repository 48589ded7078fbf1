//! The list of defects: one file each, a text that is replaced in one source file and the tests that must tell. Must not
//! touch a file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// A way in which the program could be wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defect {
    /// The file's name, without its ending.
    #[serde(skip)]
    pub name: String,
    /// What its user would suffer, in one sentence.
    pub why: String,
    /// From the root of the repository.
    pub file: PathBuf,
    /// Occurs in the file exactly once.
    pub find: String,
    pub replace: String,
    /// The cheapest first: the later ones are run only where those before them see nothing.
    pub found_by: Vec<Tests>,
}

/// Integration tests of one crate.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
pub struct Tests {
    /// The crate's folder, from the root of the repository.
    pub of: PathBuf,
    /// As `cargo test` takes it: a part of their names.
    pub filter: String,
    /// Whether they stand beside the code, and not among the integration tests.
    #[serde(default, rename = "unit")]
    pub is_unit: bool,
}

impl Defect {
    /// The source with the defect in it.
    ///
    /// # Errors
    /// Where the text to be replaced does not occur exactly once.
    pub fn apply(&self, source: &str) -> Result<String> {
        // A block of a YAML file ends with a line break, a place in a line does not.
        let occurrences = source.matches(&self.find).count();
        if self.find.is_empty() || occurrences != 1 {
            bail!(
                "{}: its text occurs {occurrences} times in {}",
                self.name,
                self.file.display()
            );
        }
        if self.find == self.replace {
            bail!("{}: it changes nothing", self.name);
        }
        Ok(source.replacen(&self.find, &self.replace, 1))
    }
}

/// All of them, in the order of their names.
///
/// # Errors
/// Where one cannot be read.
pub fn all(root: &Path) -> Result<Vec<Defect>> {
    let folder = root.join("tests/mutants/defects");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Defect> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let defect: Defect = serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Defect { name, ..defect })
}
