//! `stagegate gate configmap`: the manifest that brings a component into a cluster.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use anyhow::Context as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stagegate_decide::names::Digest;
use stagegate_evaluate::gate::{self, FailureKind};

use super::{Failure, Outcome, Result, advice, file};
use crate::args::GateConfigmapArgs;

/// Above it the manifest has the packed component. `kubectl apply` without `--server-side` keeps a copy of the manifest in an
/// annotation, of which Kubernetes takes 256 KiB: as base64 that holds 192 KiB, less what stands around it.
const PLAIN_BYTES_MAX: usize = 188 << 10;
/// Kubernetes: most bytes of all values of a ConfigMap.
const CONFIG_MAP_BYTES_MAX: usize = 1 << 20;

/// Writes the ConfigMap as YAML to standard output, and to standard error its digest (for a policy that pins it) and what it
/// takes to apply it.
///
/// # Errors
/// A file that cannot be read. A component that no host loads is an answer: [`Outcome::Negative`], with what to do.
pub fn manifest(args: &GateConfigmapArgs) -> Result {
    let component = file::component(&args.file)?;
    let shown = args.file.display();
    if let Err(failure) = gate::inspect(&component) {
        writeln!(io::stderr(), "{shown} cannot be used as a gate: {failure}")?;
        if failure.kind == FailureKind::TooLarge {
            writeln!(
                io::stderr(),
                "a ConfigMap holds 1 MiB, and a host loads components up to that, also packed ones"
            )?;
        }
        writeln!(io::stderr(), "advice: {}", advice(failure.kind))?;
        return Ok(Outcome::Negative);
    }
    let digest = Digest::of_bytes(&component);
    let is_plain = component.len() <= PLAIN_BYTES_MAX;
    let value = if is_plain { component } else { file::gzip(&component)? };
    if value.len() > CONFIG_MAP_BYTES_MAX {
        writeln!(
            io::stderr(),
            "{shown} has {} bytes even when packed, and a ConfigMap holds {CONFIG_MAP_BYTES_MAX}\nadvice: {}",
            value.len(),
            advice(FailureKind::TooLarge)
        )?;
        return Ok(Outcome::Negative);
    }
    let note = match value.len() {
        size if size > PLAIN_BYTES_MAX => "; apply it with `kubectl apply --server-side`",
        _ => "",
    };
    let how = if is_plain { "plain" } else { "packed with gzip" };
    writeln!(io::stderr(), "sha256:{digest}, {} bytes {how}{note}", value.len())?;
    let config_map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(args.name.clone()),
            namespace: Some(args.namespace.clone()),
            ..ObjectMeta::default()
        },
        binary_data: Some(BTreeMap::from([(args.key.clone(), ByteString(value))])),
        ..ConfigMap::default()
    };
    let yaml = serde_saphyr::to_string(&config_map).context("writing a ConfigMap as YAML");
    io::stdout().write_all(yaml.map_err(Failure::Environment)?.as_bytes())?;
    Ok(Outcome::Success)
}
