//! Where the servers' binaries come from. Must not start any.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, ensure};

/// A folder with `etcd`, `kube-apiserver` and `kubectl`, as the ecosystem's test tools agree on.
const KUBEBUILDER_ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The programs that the tests start.
#[derive(Clone, Debug)]
pub struct Assets {
    pub etcd: PathBuf,
    pub apiserver: PathBuf,
    pub controller_manager: PathBuf,
    pub scheduler: PathBuf,
    pub kubectl: PathBuf,
    /// Kills what is left when the test process is gone.
    pub kubernetes: PathBuf,
    /// Its controller-manager.
    pub kubestellar: PathBuf,
    /// Its OCM transport.
    pub transport: PathBuf,
    pub helm: PathBuf,
    /// Tells whether tools that wait for an object would take it for ready.
    pub kstatus: PathBuf,
}

impl Assets {
    /// Those of `KUBEBUILDER_ASSETS` where it has them, else those that `servers/build` makes; that takes minutes the first time.
    ///
    /// # Errors
    /// When they cannot be built.
    pub fn get() -> anyhow::Result<&'static Assets> {
        static ASSETS: OnceLock<Result<Assets, String>> = OnceLock::new();
        let found = ASSETS.get_or_init(|| Assets::find().map_err(|error| format!("{error:#}")));
        found.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    fn find() -> anyhow::Result<Assets> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("servers/build");
        let output = Command::new(&script)
            .stderr(std::process::Stdio::inherit())
            .output()
            .with_context(|| format!("running {}", script.display()))?;
        ensure!(
            output.status.success(),
            "{} ended with {}",
            script.display(),
            output.status
        );
        let built = PathBuf::from(String::from_utf8(output.stdout)?.trim_end());
        let given = std::env::var_os(KUBEBUILDER_ASSETS).map(PathBuf::from);
        let of = |name: &str| {
            let given = given.as_ref().map(|folder| folder.join(name));
            given.filter(|path| path.is_file()).unwrap_or_else(|| built.join(name))
        };
        Ok(Assets {
            etcd: of("etcd"),
            apiserver: of("kube-apiserver"),
            kubectl: of("kubectl"),
            controller_manager: built.join("kube-controller-manager"),
            scheduler: built.join("kube-scheduler"),
            kubernetes: built.join("kubernetes"),
            kubestellar: built.join("kubestellar-controller-manager"),
            transport: built.join("ocm-transport-controller"),
            helm: built.join("helm"),
            kstatus: built.join("kstatus"),
        })
    }
}
