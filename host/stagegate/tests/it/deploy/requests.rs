//! What each controller asks an API server for, against what its role grants: the same, in both directions. The rollout here
//! is made to need every right once. The embedded server knows no roles; one that does is for the tests that have a cluster.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use stagegate::options::{ControllerName, Delays, Options};
use stagegate::start::{self, RunningControllers};
use stagegate_api::combined_status_view::MAX_KEPT_BYTES;
use stagegate_api::{Phase, StatusCollector, evidence};
use stagegate_clock::TokioClock;
use stagegate_embedded::{Fault, FaultAnswer};

use super::rights::{Right, rights};
use super::{PLAIN, Rendered};
use crate::harness::{Call, Pace, Tap, World, gate, gated, policy, sandbox, shop, workload};

/// One of the three, alone in its process as far as requests go.
struct Alone {
    role: &'static str,
    tap: Tap,
    _running: RunningControllers,
}

async fn alone(world: &World, name: ControllerName, role: &'static str) -> Alone {
    let tap = Tap::new(world.server.router(), role);
    let options = Options {
        controllers: BTreeSet::from([name]),
        settle_ms: 200,
        delays: Delays {
            binding_ms: 100,
            combine_ms: 100,
        },
        sandbox: sandbox(),
        ..Options::default()
    };
    let running = start::start(tap.client(), TokioClock::shared(), options).await;
    Alone {
        role,
        tap,
        _running: running.expect("the embedded server answers"),
    }
}

/// Group, resource, verb and namespace; `None` for what everyone may ask (versions and kinds).
fn asked(call: &Call) -> Option<(String, String, String, Option<String>)> {
    let (path, query) = call.target.split_once('?').unwrap_or((&call.target, ""));
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, parts) = match parts.as_slice() {
        ["api", _version, rest @ ..] => ("core", rest),
        ["apis", group, _version, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, parts) = match parts {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        rest => (None, rest),
    };
    let (resource, is_named) = match parts {
        [] => return None,
        [resource] => ((*resource).to_owned(), false),
        [resource, _name] => ((*resource).to_owned(), true),
        [resource, _name, part] => (format!("{resource}/{part}"), true),
        _ => panic!("what does {path} ask for?"),
    };
    let verb = match (call.method.as_str(), is_named) {
        ("GET", true) => "get",
        ("GET", false) if query.contains("watch=true") => "watch",
        ("GET", false) => "list",
        ("POST", false) => "create",
        ("PUT", true) => "update",
        ("PATCH", true) => "patch",
        ("DELETE", true) => "delete",
        (method, _) => panic!("which verb is {method} {path}?"),
    };
    Some((group.to_owned(), resource, verb.to_owned(), namespace))
}

/// Everything that a controller may have to do, once.
async fn everything(world: &World) {
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    // After a write that is refused the policy is read.
    let status = "stagedbindingpolicies.community.kubestellar.io/status";
    world
        .server
        .inject(Fault::new("patch", status, FaultAnswer::Status(409)));
    world.apply(&policy("web")).await;
    world.until_phase("web", Phase::Completed, 60).await;

    // Somebody edits the collector of ours.
    let collectors: Api<StatusCollector> = Api::all(world.client.clone());
    let found = collectors.list(&ListParams::default()).await.expect("a list");
    let ours = found.items.iter().map(ResourceExt::name_any);
    let ours = ours
        .into_iter()
        .find(|name| evidence::is_evidence_collector(name))
        .expect("ours");
    world.edit_collector(&ours, json!({"limit": 1})).await;

    // A gate, of which the ConfigMap lacks the component.
    world.apply_gates_namespace().await;
    let empty = ConfigMap {
        metadata: kube::core::ObjectMeta {
            name: Some("empty".to_owned()),
            ..Default::default()
        },
        ..ConfigMap::default()
    };
    world
        .config_maps()
        .create(&PostParams::default(), &empty)
        .await
        .expect("a ConfigMap");
    world.apply(&workload("api")).await;
    world.apply(&gated("api", &gate("empty", &json!({})))).await;
    world.pass(10).await;

    // The same is announced again and again.
    for paused in [true, false, true, false, true, false] {
        world.edit_policy("api", json!({"spec": {"paused": paused}})).await;
        world.pass(5).await;
    }

    // Evidence that is too much to be kept.
    let wide = format!(
        "apiVersion: control.kubestellar.io/v1alpha1\nkind: StatusCollector\nmetadata: {{name: wide}}\n\
         spec: {{select: [{{name: text, def: \"'{}'\"}}], limit: 20}}\n",
        "x".repeat(MAX_KEPT_BYTES)
    );
    world.apply(&wide).await;
    world.apply(&workload("much")).await;
    world
        .apply(&policy("much").replace("[worst, total]", "[worst, total, wide]"))
        .await;
    world.until_phase("much", Phase::Completed, 60).await;

    // A workload whose updates go through the stages.
    stagegate::held_bindings::install(&world.client)
        .await
        .expect("the shipped policy");
    world.apply(&workload("held")).await;
    world
        .apply(&policy("held").replacen("  stages:", "  updates: Staged\n  stages:", 1))
        .await;
    world.until_phase("held", Phase::Completed, 120).await;

    // An object without namespace.
    let (before, after) = policy("space")
        .split_once("  - apiGroup")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .expect("a clause");
    let (_, stages) = after.split_once("  stages:").expect("stages");
    world
        .apply(&format!(
            "{before}  - apiGroup: \"\"\n    resources: [namespaces]\n    objectNames: [shop]\n    statusCollectors: [worst]\n  stages:{stages}"
        ))
        .await;
    world.pass(10).await;

    world.delete(&world.policies(), "web").await;
    world.pass(30).await;
}

#[tokio::test(start_paused = true)]
async fn each_controller_asks_for_what_its_role_grants_and_for_nothing_else() {
    let Some(plain) = Rendered::with_staged_updates(PLAIN) else {
        return;
    };
    let granted = rights(&plain);
    let of = |role: &str| -> BTreeSet<Right> { granted.iter().filter(|right| right.0 == role).cloned().collect() };
    let mut world = World::start_without_host(Pace::Fast).await;
    world.stop_parts().await;
    let controllers = [
        alone(&world, ControllerName::Staging, "stagegate-staging").await,
        alone(&world, ControllerName::Binding, "stagegate-binding").await,
        alone(&world, ControllerName::Combine, "stagegate-combine").await,
    ];
    everything(&world).await;

    let mut wrong = Vec::new();
    for Alone { role, tap, .. } in &controllers {
        let mut unused = of(role);
        if *role == "stagegate-staging" {
            unused.extend(of("stagegate-staged-updates"));
            unused.extend(of("stagegate-gates"));
            unused.extend(of("stagegate-events"));
        }
        let own = unused.clone();
        let of_workloads: BTreeSet<Right> = &of("stagegate-workloads-get") | &of("stagegate-workloads-watch");
        let calls: BTreeSet<_> = tap.calls().iter().filter_map(asked).collect();
        for (group, resource, verb, namespace) in calls {
            let is_it = |right: &Right| (&right.1, &right.2, &right.3) == (&group, &resource, &verb);
            match own.iter().find(|right| is_it(right)) {
                Some(right) => {
                    let only_in = match right.0.as_str() {
                        "stagegate-gates" => Some("stagegate-gates"),
                        "stagegate-events" => Some("default"),
                        _ => namespace.as_deref(),
                    };
                    if namespace.as_deref() != only_in {
                        wrong.push(format!("{role} asks for {verb} {resource} in {namespace:?}"));
                    }
                    unused.remove(right);
                }
                None if of_workloads.iter().any(is_it) => {}
                None => wrong.push(format!("{role} is not granted {verb} {group} {resource}")),
            }
        }
        wrong.extend(unused.iter().map(|right| format!("{role} never asked for {right:?}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
