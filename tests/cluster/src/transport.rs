//! KubeStellar's OCM transport against the API server of [`crate::kubestellar`]: it makes ManifestWorks of Bindings, in the clusters' mailbox
//! namespaces. Must not play the clusters' part.

use std::path::Path;

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::assets::Assets;
use crate::control_plane::ControlPlane;
use crate::controller::{Controller, Pace, Program};
use crate::kubestellar::WDS;

/// Starts it where KubeStellar runs and ManifestWorks are served; returns when it works.
///
/// # Errors
/// With the end of its log.
pub async fn start(plane: &ControlPlane, pace: Pace) -> anyhow::Result<Controller> {
    let kubeconfig = plane.kubeconfig();
    let mut arguments = vec![
        format!("--wds-kubeconfig={}", kubeconfig.display()),
        format!("--transport-kubeconfig={}", kubeconfig.display()),
        format!("--wds-name={WDS}"),
        // As KubeStellar's chart sets them; by itself it puts several objects into one ManifestWork.
        "--max-num-wrapped=1".to_owned(),
        "-v=2".to_owned(),
        "--metrics-bind-address=127.0.0.1:0".to_owned(),
        "--pprof-bind-address=127.0.0.1:0".to_owned(),
    ];
    arguments.extend(["wds", "transport"].into_iter().flat_map(|client| pace.flags(client)));
    let program = Program {
        name: "transport",
        path: Assets::get()?.transport.clone(),
        arguments,
        at_work: ("started workers", 1),
    };
    Controller::start(program, plane.folder()).await
}

/// The definition of ManifestWork.
///
/// # Errors
/// A file that is none.
pub fn definition() -> anyhow::Result<CustomResourceDefinition> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("definitions/manifestworks.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))
}
