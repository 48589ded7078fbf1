//! The Dockerfile, read as text since nothing here builds images: by whom it runs, and that it names no image of its own.

use super::{PLAIN, Rendered, read};

#[test]
fn the_image_runs_as_the_user_of_the_manifests_and_names_no_registry() {
    let text = read("deploy/Dockerfile");
    let lines = |instruction: &str| -> Vec<String> {
        let matching = text
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("{instruction} ")));
        matching.map(str::to_owned).collect()
    };
    assert_eq!(
        lines("FROM"),
        ["${BUILDER} AS build", "${BASE}"],
        "images come by arguments only"
    );
    assert_eq!(lines("ARG"), ["BUILDER", "BASE=scratch"]);
    assert_eq!(lines("ENTRYPOINT"), ["[\"/stagegate\"]"]);
    let Some(rendered) = Rendered::by_kustomize(PLAIN) else {
        return;
    };
    let security = &rendered.deployment().expect("a Deployment")["spec"]["template"]["spec"]["securityContext"];
    let user = format!("{}:{}", security["runAsUser"], security["runAsGroup"]);
    assert_eq!(lines("USER"), [user]);
}
