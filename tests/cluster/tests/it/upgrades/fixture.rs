//! What is recorded of a release: a folder for each kind of installation, and in it what was applied and what was stored. Must not start anything.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use stagegate_api::Digest;
use stagegate_cluster_tests::etcd::Stored;
use stagegate_cluster_tests::installation::{Kind, rendered};

use crate::world::{objects_of, repository};

const RELEASES: &str = "tests/data/releases";
/// The definitions and manifests, as the release ships them.
const INSTALLATION: &str = "installation.yaml";
/// What the release has written, and what that is about.
const STORED: &str = "stored.json";
/// By file, as `sha256sum --check` reads it: what is recorded once stays as it is.
const SUMS: &str = "tests/data/releases/SHA256SUMS";
/// Those of which a release is recorded.
pub const KINDS: [Kind; 2] = [Kind::PlainCluster, Kind::NodePools];
/// What rollouts are made of; where keys begin so, and what then must not follow.
const KEPT: [(&str, &[&str]); 8] = [
    ("/registry/apps.openyurt.io/", &[]),
    ("/registry/cluster.open-cluster-management.io/", &[]),
    ("/registry/community.kubestellar.io/", &[]),
    ("/registry/control.kubestellar.io/", &[]),
    ("/registry/controllerrevisions/", &[]),
    ("/registry/deployments/", &["stagegate-system/"]),
    // How often the leader has changed is part of the order in which placements are written.
    ("/registry/leases/stagegate-system/", &[]),
    ("/registry/namespaces/", &["default", "kube-", "stagegate-"]),
];

pub fn is_kept(key: &str) -> bool {
    KEPT.iter().any(|(prefix, others)| {
        let rest = key.strip_prefix(prefix);
        rest.is_some_and(|rest| !others.iter().any(|other| rest.starts_with(other)))
    })
}

pub struct Fixture {
    release: String,
    pub kind: Kind,
}

/// Of all releases.
pub fn all() -> Vec<Fixture> {
    let folder = repository(RELEASES);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut releases: Vec<String> = folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    releases.sort();
    let fixtures = releases.into_iter().flat_map(|release| {
        KINDS.map(|kind| Fixture {
            release: release.clone(),
            kind,
        })
    });
    fixtures.collect()
}

impl Fixture {
    /// Of the version that the workspace has.
    pub fn of_today(kind: Kind) -> Fixture {
        Fixture {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            kind,
        }
    }

    pub fn name(&self) -> String {
        format!("{}::{:?}", self.release, self.kind)
    }

    fn path(&self, file: &str) -> PathBuf {
        let kind = match self.kind {
            Kind::NodePools => "node-pools",
            Kind::PlainCluster | Kind::BesideKubeStellar => "plain-cluster",
        };
        Path::new(RELEASES).join(&self.release).join(kind).join(file)
    }

    /// The file, from the repository's root.
    pub fn installation(&self) -> String {
        self.path(INSTALLATION).display().to_string()
    }

    /// # Errors
    /// A file that is missing or says something else.
    pub fn stored(&self) -> anyhow::Result<Vec<Stored>> {
        let path = repository(&self.path(STORED).to_string_lossy());
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, stored: &[Stored]) -> anyhow::Result<()> {
        let kept: Vec<&Stored> = stored.iter().filter(|one| is_kept(&one.key)).collect();
        let text = serde_json::to_string_pretty(&kept)? + "\n";
        self.put(STORED, &text)?;
        self.put(INSTALLATION, &shipped(self.kind)?)
    }

    fn put(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let relative = self.path(file);
        let path = repository(&relative.to_string_lossy());
        std::fs::create_dir_all(path.parent().context("a file in no folder")?)?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        note(&relative.to_string_lossy(), &Digest::of_bytes(text.as_bytes()))
    }
}

/// The last one of all that is noted of a file counts.
fn note(file: &str, digest: &Digest) -> anyhow::Result<()> {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let path = repository(SUMS);
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let others = known.lines().filter(|line| !line.ends_with(&format!("  {file}")));
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    lines.push(format!("{digest}  {file}"));
    lines.sort_by(|a, b| a.split_whitespace().last().cmp(&b.split_whitespace().last()));
    std::fs::write(&path, lines.join("\n") + "\n").with_context(|| format!("writing {}", path.display()))
}

/// As YAML, one document for each object.
fn shipped(kind: Kind) -> anyhow::Result<String> {
    let definitions = match kind {
        Kind::NodePools => "deploy/crds/workloads",
        Kind::PlainCluster | Kind::BesideKubeStellar => "deploy/crds",
    };
    let mut objects = objects_of(&repository(definitions))?;
    objects.extend(rendered(kind)?);
    ensure!(objects.iter().any(|object| object["kind"] == "Deployment"));
    let mut text =
        "# What a release ships and an installation of it applies: definitions and manifests. Recorded; do not edit.\n"
            .to_owned();
    for object in &objects {
        text.push_str("---\n");
        text.push_str(&yaml(object)?);
    }
    Ok(text)
}

fn yaml(object: &Value) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(object).context("writing YAML")?;
    Ok(text.trim_end().to_owned() + "\n")
}
