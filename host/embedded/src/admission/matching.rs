//! Which writes a policy or a binding is about (`matchConstraints`, `matchResources`). Must not evaluate an expression.

use serde_json::Value;

use super::review::{Form, Review};
use crate::labels::selects;

/// What a `MatchResources` selects.
pub(super) struct Matching {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    namespaces: Value,
    objects: Value,
    /// `matchPolicy: Exact`: other versions of what a rule names do not count.
    exact: bool,
}

struct Rule {
    groups: Vec<String>,
    versions: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
    /// Empty: all.
    names: Vec<String>,
    scope: String,
}

impl Matching {
    /// Reads what was checked and completed with defaults.
    pub fn read(resources: &Value) -> Matching {
        let rules = |name: &str| {
            let rules = resources[name].as_array().into_iter().flatten();
            rules.map(Rule::read).collect()
        };
        Matching {
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            namespaces: resources["namespaceSelector"].clone(),
            objects: resources["objectSelector"].clone(),
            exact: resources["matchPolicy"] == "Exact",
        }
    }

    /// The form in which the rules match the write, if they do. Without rules, every write matches.
    pub fn form<'r>(&self, review: &Review<'r>) -> Option<&'r Form> {
        if review
            .namespace_labels()
            .is_some_and(|labels| !selects(&self.namespaces, labels))
        {
            return None;
        }
        let mut objects = [review.object, review.old].into_iter().flatten();
        if !is_empty(&self.objects) && !objects.any(|object| selects(&self.objects, &object["metadata"]["labels"])) {
            return None;
        }
        let forms = if self.exact {
            review.forms.get(..1)
        } else {
            Some(review.forms)
        };
        let forms = forms.unwrap_or_default();
        let meant = |rules: &[Rule]| {
            let any = |form: &&Form| rules.iter().any(|rule| rule.means(form, review));
            forms.iter().find(any)
        };
        match () {
            () if meant(&self.excluded).is_some() => None,
            () if self.rules.is_empty() => forms.first(),
            () => meant(&self.rules),
        }
    }
}

/// A selector without terms selects every object, also one that is not there.
fn is_empty(selector: &Value) -> bool {
    let mut terms = ["/matchLabels", "/matchExpressions"].into_iter();
    terms.all(|terms| match selector.pointer(terms) {
        Some(Value::Object(labels)) => labels.is_empty(),
        Some(Value::Array(expressions)) => expressions.is_empty(),
        _ => true,
    })
}

impl Rule {
    fn read(rule: &Value) -> Rule {
        let texts = |name: &str| {
            let texts = rule[name].as_array().into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Rule {
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            operations: texts("operations"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
        }
    }

    fn means(&self, form: &Form, review: &Review<'_>) -> bool {
        has(&self.groups, &form.group)
            && has(&self.versions, &form.version)
            && has(&self.operations, review.operation.name())
            && (self.names.is_empty() || self.names.iter().any(|name| name == review.name))
            && self.has_scope(review)
            && self.resources.iter().any(|resource| {
                let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                (plural == "*" || plural == form.plural)
                    && (subresource == "*" || subresource == review.subresource.unwrap_or_default())
            })
    }

    fn has_scope(&self, review: &Review<'_>) -> bool {
        match self.scope.as_str() {
            "Namespaced" => review.is_namespaced(),
            "Cluster" => !review.is_namespaced(),
            _ => true,
        }
    }
}

fn has(listed: &[String], wanted: &str) -> bool {
    listed.iter().any(|listed| listed == "*" || listed == wanted)
}
