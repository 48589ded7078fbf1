//! Who may write policies: the shipped admission policy on a real server, with users who have one right or both. Must not run the
//! program: every scenario shows that it works behind the policy.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stagegate_api::StagedBindingPolicy;
use stagegate_cluster_tests::control_plane::{ControlPlane, client};
use stagegate_cluster_tests::installation::{Installation, Kind, kubectl};

const POLICIES: &str = "stagedbindingpolicies.community.kubestellar.io";
const PLACEMENTS: &str = "bindingpolicies.control.kubestellar.io";
/// Users, and what each may do to policies and to placements.
const USERS: [(&str, &str, &str); 3] = [
    ("tenant", "get,create,update,patch,delete", ""),
    ("creator", "get,create,update,patch", "create"),
    ("placer", "get,create,update,patch", "create,update"),
];
/// An admission policy takes effect a moment after it was written.
const IN_FORCE_MAX: Duration = Duration::from_secs(30);

/// # Errors
/// Of a request that is wrongly admitted or wrongly refused.
pub async fn whoever_writes_policies_may_place(folder: &Path) -> anyhow::Result<()> {
    let plane = ControlPlane::start(&folder.join("server")).await?;
    let installation = Installation::install(&plane, Kind::BesideKubeStellar).await?;
    let server = Server { plane, folder };
    for (user, of_policies, of_placements) in USERS {
        server.allow(user, of_policies, POLICIES)?;
        if !of_placements.is_empty() {
            server.allow(user, of_placements, PLACEMENTS)?;
        }
    }
    server.await_in_force()?;

    server.refused(server.create("tenant", "shop"), "tenant", "create")?;
    server.create("creator", "shop").context("whoever may create both")?;
    server.create("placer", "other").context("whoever may write both")?;

    let spec = json!({"spec": {"paused": true}});
    server.refused(server.patch("tenant", "shop", &spec), "tenant", "update")?;
    server.refused(server.patch("creator", "shop", &spec), "creator", "update")?;
    server
        .patch("placer", "shop", &spec)
        .context("an edit of whoever may update both")?;
    // Nothing is placed by these.
    for metadata in [
        json!({"labels": {"team": "web"}}),
        json!({"finalizers": ["example.com/kept"]}),
        json!({"finalizers": null}),
    ] {
        let patch = json!({ "metadata": metadata });
        server
            .patch("tenant", "shop", &patch)
            .with_context(|| format!("metadata alone: {patch}"))?;
    }
    let labelled_and_edited = json!({"metadata": {"labels": {"team": "shop"}}, "spec": {"paused": false}});
    server.refused(server.patch("tenant", "shop", &labelled_and_edited), "tenant", "update")?;

    let controller: Api<StagedBindingPolicy> = Api::all(client(installation.kubeconfig()).await?);
    let status = Patch::Merge(json!({"status": {"phase": "Progressing"}}));
    let written = controller.patch_status("shop", &PatchParams::default(), &status).await;
    written.context("status by the controller's service account")?;
    server
        .ask("tenant", &["delete", POLICIES, "shop"])
        .context("a deletion takes away only what the policy placed")?;
    Ok(())
}

struct Server<'a> {
    plane: ControlPlane,
    folder: &'a Path,
}

impl Server<'_> {
    fn allow(&self, user: &str, verbs: &str, resource: &str) -> anyhow::Result<()> {
        let name = format!("{user}-{resource}");
        let (resource, group) = resource.split_once('.').context("a resource without a group")?;
        let verbs: Vec<&str> = verbs.split(',').collect();
        let rules = json!([{"apiGroups": [group], "resources": [resource], "verbs": verbs}]);
        let api = "rbac.authorization.k8s.io";
        let role = json!({"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        let binding = json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
        });
        for object in [role, binding] {
            let file = self.file(&object)?;
            kubectl(Some(&self.plane), &["apply", "--server-side", "-f", &file])?;
        }
        Ok(())
    }

    /// Returns when the admission policy is in force.
    fn await_in_force(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let file = self.file(&policy("probe"))?;
        // A role takes a moment, too; until then the refusal has another reason.
        loop {
            match self.ask("tenant", &["create", "--dry-run=server", "-f", &file]) {
                Err(error) if format!("{error:#}").contains("ValidatingAdmissionPolicy") => return Ok(()),
                outcome if begun.elapsed() > IN_FORCE_MAX => bail!("the admission policy is not in force: {outcome:?}"),
                _ => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    fn create(&self, user: &str, name: &str) -> anyhow::Result<()> {
        let file = self.file(&policy(name))?;
        self.ask(user, &["create", "-f", &file])
    }

    fn patch(&self, user: &str, name: &str, patch: &Value) -> anyhow::Result<()> {
        self.ask(
            user,
            &["patch", POLICIES, name, "--type=merge", "-p", &patch.to_string()],
        )
    }

    fn ask(&self, user: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let user = format!("--as={user}");
        kubectl(Some(&self.plane), &[arguments, &[&user]].concat()).map(drop)
    }

    /// The admission policy refused, and names who, what and what to do.
    fn refused(&self, outcome: anyhow::Result<()>, user: &str, verb: &str) -> anyhow::Result<()> {
        let Err(error) = outcome else {
            bail!("{user} may {verb}");
        };
        let said = format!("{error:#}");
        for words in [
            "stagegate-placement-rights",
            &format!(
                "{user} may not {verb} {PLACEMENTS} at the cluster scope: whoever {verb}s a StagedBindingPolicy decides what"
            ),
            &format!("ask an administrator for a ClusterRole with it, or to {verb} this policy for you"),
        ] {
            ensure!(
                said.contains(words),
                "{user} is refused to {verb}, without {words:?}: {said}"
            );
        }
        Ok(())
    }

    fn file(&self, object: &Value) -> anyhow::Result<String> {
        let path = self.folder.join("object.json");
        std::fs::write(&path, object.to_string()).with_context(|| format!("writing {}", path.display()))?;
        Ok(path.display().to_string())
    }
}

fn policy(name: &str) -> Value {
    json!({
        "apiVersion": "community.kubestellar.io/v1alpha1",
        "kind": "StagedBindingPolicy",
        "metadata": {"name": name},
        "spec": {
            "downsync": [{"resources": ["configmaps"], "namespaces": ["default"], "objectNames": ["settings"]}],
            "stages": [{"name": "dev", "clusterSelectors": [{"matchLabels": {"env": "dev"}}]}],
        },
    })
}
