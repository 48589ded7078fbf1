//! The Deployment and what points at it: flags that the binary takes, the restricted profile, ports, selectors, names.

use clap::Parser as _;
use serde_json::{Value, json};
use stagegate::args::{Args, Command, Controller, RunArgs};

use super::{BASE, HOSTING, KUSTOMIZATIONS, NODE_POOLS, PLAIN, Rendered, WDS, identity, texts};

/// What a Kubernetes label, and so most names, can hold (RFC 1123).
const NAME_BYTES_MAX: usize = 63;

fn container(deployment: &Value) -> &Value {
    let containers = &deployment["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        containers.as_array().map(Vec::len),
        Some(1),
        "one container, no side cars"
    );
    &containers[0]
}

/// The flags as the program itself understands them.
pub fn parsed(deployment: &Value) -> RunArgs {
    let arguments = texts(&container(deployment)["args"]);
    let line = std::iter::once("stagegate").chain(arguments.iter().copied());
    match Args::try_parse_from(line) {
        Ok(Args {
            command: Command::Run(run),
        }) => run,
        Ok(other) => panic!("{arguments:?} do not run controllers: {other:?}"),
        Err(error) => panic!("the binary does not take {arguments:?}: {error}"),
    }
}

fn flag<'a>(deployment: &'a Value, name: &str) -> Option<&'a str> {
    let prefix = format!("--{name}=");
    texts(&container(deployment)["args"])
        .into_iter()
        .find_map(|argument| argument.strip_prefix(&prefix))
}

#[test]
fn the_binary_takes_the_flags_of_every_deployment() {
    let table: [(&str, &[Controller], bool); 4] = [
        (BASE, &[Controller::Staging], false),
        (HOSTING, &[Controller::Staging], true),
        (
            PLAIN,
            &[Controller::Staging, Controller::Binding, Controller::Combine],
            false,
        ),
        (NODE_POOLS, &[Controller::Yurtappdaemon], false),
    ];
    for (folder, controllers, has_kubeconfig) in table {
        let Some(rendered) = Rendered::by_kustomize(folder) else {
            return;
        };
        let run = parsed(rendered.deployment().expect(folder));
        assert_eq!(run.controllers, controllers, "{folder}");
        assert_eq!(run.gate_namespaces, ["stagegate-gates"], "{folder}");
        assert_eq!(run.cluster.kubeconfig.is_some(), has_kubeconfig, "{folder}");
        assert!(
            run.gate_cache.is_none(),
            "{folder}: no volume is mounted for a gate cache"
        );
    }
}

/// Pod Security Standards, profile "restricted" (v1.34), as far as fields of a Deployment go.
pub fn breaches(pod: &Value) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            breaches.push(what.to_owned());
        }
    };
    for host in ["hostNetwork", "hostPID", "hostIPC"] {
        must(pod[host].is_null(), host);
    }
    let security = &pod["securityContext"];
    must(security["runAsNonRoot"] == true, "runAsNonRoot");
    must(security["runAsUser"].as_u64().is_some_and(|user| user > 0), "runAsUser");
    must(security["seccompProfile"]["type"] == "RuntimeDefault", "seccompProfile");
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let is_allowed = ["secret", "configMap", "emptyDir", "projected"]
            .iter()
            .any(|sort| volume[sort].is_object());
        must(is_allowed, "volumes");
    }
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    for container in lists.iter().flat_map(|list| pod[list].as_array().into_iter().flatten()) {
        let own = &container["securityContext"];
        must(own["allowPrivilegeEscalation"] == false, "allowPrivilegeEscalation");
        must(own["privileged"].is_null() || own["privileged"] == false, "privileged");
        must(own["capabilities"]["drop"] == json!(["ALL"]), "capabilities.drop");
        must(own["capabilities"]["add"].is_null(), "capabilities.add");
        must(own["procMount"].is_null(), "procMount");
        // Overrides of what the pod says.
        for overriding in ["runAsNonRoot", "runAsUser", "seccompProfile"] {
            must(own[overriding].is_null(), overriding);
        }
        for port in container["ports"].as_array().into_iter().flatten() {
            must(port["hostPort"].is_null(), "hostPort");
        }
        // Not of the profile, but of ours.
        must(own["readOnlyRootFilesystem"] == true, "readOnlyRootFilesystem");
        must(
            container["resources"]["limits"]["memory"].is_string(),
            "a limit of memory",
        );
        must(
            container["resources"]["limits"]["cpu"].is_null(),
            "no limit of processor time",
        );
    }
    breaches
}

#[test]
fn every_pod_is_within_the_restricted_profile() {
    let mut pods = 0;
    for folder in KUSTOMIZATIONS {
        let Some(rendered) = Rendered::by_kustomize(folder) else {
            return;
        };
        for deployment in rendered.of_kind("Deployment") {
            pods += 1;
            assert_eq!(
                breaches(&deployment["spec"]["template"]["spec"]),
                Vec::<String>::new(),
                "{folder}"
            );
        }
        for namespace in rendered.of_kind("Namespace") {
            let enforced = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
            assert_eq!(enforced, "restricted", "{}", identity(namespace));
        }
    }
    assert_eq!(pods, 4);
}

#[test]
fn each_breach_of_the_profile_is_seen() {
    let Some(rendered) = Rendered::by_kustomize(BASE) else {
        return;
    };
    let pod = &rendered.deployment().expect("the base has one")["spec"]["template"]["spec"];
    let table = [
        ("/securityContext/runAsNonRoot", json!(false)),
        ("/securityContext/runAsUser", json!(0)),
        ("/securityContext/seccompProfile", Value::Null),
        ("/containers/0/securityContext/allowPrivilegeEscalation", json!(true)),
        (
            "/containers/0/securityContext/capabilities",
            json!({"drop": ["NET_RAW"]}),
        ),
        ("/containers/0/securityContext/readOnlyRootFilesystem", json!(false)),
        ("/containers/0/securityContext", Value::Null),
        (
            "/containers/0/ports/0",
            json!({"containerPort": 8080, "hostPort": 8080}),
        ),
        ("/containers/0/resources", Value::Null),
    ];
    for (pointer, worse) in table {
        let mut broken = pod.clone();
        *broken.pointer_mut(pointer).expect(pointer) = worse;
        assert!(!breaches(&broken).is_empty(), "{pointer}");
    }
}

fn has_labels(labels: &Value, selector: &Value) -> bool {
    let wanted = selector.as_object().filter(|wanted| !wanted.is_empty());
    wanted.is_some_and(|wanted| wanted.iter().all(|(name, value)| labels[name] == *value))
}

#[test]
fn selectors_match_the_pods_and_ports_are_those_of_the_container() {
    for folder in [BASE, HOSTING, PLAIN, NODE_POOLS] {
        let Some(rendered) = Rendered::by_kustomize(folder) else {
            return;
        };
        let deployment = rendered.deployment().expect(folder);
        let template = &deployment["spec"]["template"];
        let selectors = [
            ("Deployment", "/spec/selector/matchLabels"),
            (
                "Deployment",
                "/spec/template/spec/topologySpreadConstraints/0/labelSelector/matchLabels",
            ),
            ("Service", "/spec/selector"),
            ("PodDisruptionBudget", "/spec/selector/matchLabels"),
            ("NetworkPolicy", "/spec/podSelector/matchLabels"),
        ];
        for (kind, pointer) in selectors {
            let selector = rendered
                .find(kind, "stagegate")
                .expect(kind)
                .pointer(pointer)
                .expect(pointer);
            assert!(
                has_labels(&template["metadata"]["labels"], selector),
                "{folder}: {kind} {selector}"
            );
        }
        let container = container(deployment);
        assert_eq!(container["ports"].as_array().map(Vec::len), Some(1), "{folder}");
        let port = &container["ports"][0];
        let address = flag(deployment, "admin-address").expect("the admin server has an address");
        assert_eq!(address, format!("0.0.0.0:{}", port["containerPort"]), "{folder}");
        let service = rendered.find("Service", "stagegate").expect("a Service");
        let policy = rendered.find("NetworkPolicy", "stagegate").expect("a NetworkPolicy");
        for named in [
            &service["spec"]["ports"][0]["targetPort"],
            &policy["spec"]["ingress"][0]["ports"][0]["port"],
            &container["livenessProbe"]["httpGet"]["port"],
            &container["readinessProbe"]["httpGet"]["port"],
        ] {
            assert_eq!(named, &port["name"], "{folder}");
        }
        assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/livez", "{folder}");
        assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz", "{folder}");
        assert_eq!(
            policy["spec"]["ingress"].as_array().map(Vec::len),
            Some(1),
            "{folder}: nothing but the admin port is reached"
        );
    }
}

#[test]
fn beside_kubestellar_the_pods_have_a_kubeconfig_and_no_token_and_each_side_only_what_is_its() {
    let (Some(hosting), Some(wds)) = (Rendered::by_kustomize(HOSTING), Rendered::by_kustomize(WDS)) else {
        return;
    };
    let deployment = hosting.deployment().expect("the pods run in the hosting cluster");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "stagegate-wds");
    let mount = &pod["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["name"], pod["volumes"][0]["name"]);
    let folder = mount["mountPath"].as_str().expect("a path");
    assert_eq!(
        flag(deployment, "kubeconfig"),
        Some(format!("{folder}/kubeconfig").as_str())
    );
    // Readable for the group that fsGroup puts the process in, and for nobody else.
    assert_eq!(pod["volumes"][0]["secret"]["defaultMode"], 0o440);
    assert!(pod["securityContext"]["fsGroup"].is_u64());

    let kinds = |rendered: &Rendered| {
        let mut kinds: Vec<String> = rendered.all().map(|object| object["kind"].to_string()).collect();
        kinds.sort();
        kinds.dedup();
        kinds.join(" ").replace('"', "")
    };
    assert_eq!(
        kinds(&hosting),
        "Deployment Namespace NetworkPolicy PodDisruptionBudget Service ServiceAccount"
    );
    assert_eq!(
        kinds(&wds),
        "ClusterRole ClusterRoleBinding Namespace Role RoleBinding ServiceAccount ValidatingAdmissionPolicy \
         ValidatingAdmissionPolicyBinding"
    );
    let namespaces: Vec<String> = wds.of_kind("Namespace").into_iter().map(identity).collect();
    assert_eq!(
        namespaces,
        ["Namespace /stagegate-gates", "Namespace /stagegate-system"]
    );
}

#[test]
fn names_are_labels_and_images_name_no_registry() {
    for folder in KUSTOMIZATIONS {
        let Some(rendered) = Rendered::by_kustomize(folder) else {
            return;
        };
        for object in rendered.all() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            assert!(
                (1..=NAME_BYTES_MAX).contains(&name.len()),
                "{folder}: {}",
                identity(object)
            );
        }
        for deployment in rendered.of_kind("Deployment") {
            let image = container(deployment)["image"].as_str().expect("an image");
            assert!(!image.contains('/'), "{folder}: {image} names a registry or an owner");
            let version = image.strip_prefix("stagegate:").expect("this project's image");
            assert_eq!(
                version,
                env!("CARGO_PKG_VERSION"),
                "{folder}: not the image of this version"
            );
        }
    }
}
