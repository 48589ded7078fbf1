//! Requests that change something: from query and body to a writer's call, and its answer back.

use axum::response::Response;

use super::answers::{deleted_status, json_response, warned};
use super::options;
use super::request::Request;
use super::view::View;
use crate::kinds::events;
use crate::refusal::Refusal;
use crate::selector::Selector;
use crate::store::{CommitAuthor, CommitRequest};
use crate::write::{Author, DeleteOptions, FieldValidation, Part, Patch, WriteResult, Writer, propagation};

impl Request<'_> {
    fn author(&self) -> Author {
        let validation = match self.call.query("fieldValidation") {
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            _ => FieldValidation::Warn,
        };
        Author {
            user: self.call.user().to_owned(),
            manager: self.call.manager(),
            dry_run: self.call.query("dryRun") == "All",
            force: self.call.flag("force"),
            validation,
        }
    }

    /// Runs `write` under the state's lock, on the kind under which the objects are stored.
    pub(super) fn locked<T>(&self, write: impl FnOnce(&mut Writer<'_>) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let author = self.author();
        let mut state = self.server.state();
        let kind = if self.kind.is_event_alias() {
            let core = state.kind("", "v1", &self.kind.plural).cloned();
            core.ok_or_else(Refusal::no_such_path)?
        } else {
            self.kind.clone()
        };
        let now = self.server.now();
        if state.logs_commits() {
            state.caused_by(CommitAuthor::Request(self.commit_request()), now);
        }
        let part = match self.resource.subresource.as_deref() {
            Some("status") => Part::Status,
            Some("scale") => Part::Scale,
            _ => Part::Main,
        };
        let mut writer = Writer {
            state: &mut state,
            kind,
            asked: self.kind.clone(),
            namespace: &self.resource.namespace,
            part,
            author: &author,
            now,
            warnings: Vec::new(),
        };
        write(&mut writer)
    }

    /// What the log of commits says of this request.
    fn commit_request(&self) -> CommitRequest {
        let body: serde_json::Value = serde_json::from_slice(&self.call.body).unwrap_or_default();
        let condition = |name: &str| {
            let places = [format!("/preconditions/{name}"), format!("/metadata/{name}")];
            let given = places.iter().find_map(|place| body.pointer(place)?.as_str());
            given.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        CommitRequest {
            user: self.call.user().to_owned(),
            manager: self.call.manager(),
            verb: self.call.verb(self.resource),
            subresource: self.resource.subresource.clone().unwrap_or_default(),
            uid: condition("uid"),
            resource_version: condition("resourceVersion"),
        }
    }

    fn body(&self) -> Result<serde_json::Value, Refusal> {
        let body = self.call.json()?;
        Ok(if self.kind.is_event_alias() {
            events::to_core(body)
        } else {
            body
        })
    }

    fn answer(&self, written: &WriteResult) -> Result<Response, Refusal> {
        let mut body = Vec::new();
        View::of(self.kind, self.call, self.server.now())?.write_object(&written.revision, &mut body);
        let response = json_response(if written.created { 201 } else { 200 }, body);
        Ok(warned(response, &written.warnings))
    }

    fn delete_options(&self) -> Result<DeleteOptions, Refusal> {
        let mut options = DeleteOptions {
            dry_run: self.author().dry_run,
            ..DeleteOptions::default()
        };
        if !self.call.query("propagationPolicy").is_empty() {
            options.propagation = propagation(self.call.query("propagationPolicy"));
        }
        let body = self.call.json()?;
        options::check_deletion(self.call, &body)?;
        options.read(&body);
        Ok(options)
    }
}

pub(super) fn create(request: &Request<'_>) -> Result<Response, Refusal> {
    let Request { kind, resource, .. } = *request;
    if kind.namespaced && resource.namespace.is_empty() {
        return Err(Refusal::method_not_allowed());
    }
    let body = request.body()?;
    let written = request.locked(|writer| writer.create(body))?;
    request.answer(&written)
}

pub(super) fn update(request: &Request<'_>) -> Result<Response, Refusal> {
    let Request { resource, .. } = *request;
    let body = request.body()?;
    let written = request.locked(|writer| writer.update(&resource.name, body))?;
    request.answer(&written)
}

pub(super) fn patch(request: &Request<'_>) -> Result<Response, Refusal> {
    let Request {
        kind, resource, call, ..
    } = *request;
    let mut patch = Patch::decode(call.media_type(), &call.body)?;
    if kind.is_event_alias() {
        patch = match patch {
            Patch::Merge(body) => Patch::Merge(events::patch_to_core(body)),
            Patch::Strategic(body) => Patch::Strategic(events::patch_to_core(body)),
            Patch::Apply(body) => Patch::Apply(events::to_core(body)),
            Patch::Json(_) => {
                return Err(Refusal::unsupported_media_type(
                    "JSON patch of events.k8s.io is not supported",
                ));
            }
        };
    }
    let written = request.locked(|writer| writer.patch(&resource.name, patch))?;
    request.answer(&written)
}

pub(super) fn delete(request: &Request<'_>) -> Result<Response, Refusal> {
    let Request {
        server,
        kind,
        resource,
        call,
    } = *request;
    let options = request.delete_options()?;
    let (deleted, warnings) = request.locked(|writer| {
        let deleted = writer.delete(&resource.name, &options)?;
        Ok((deleted, std::mem::take(&mut writer.warnings)))
    })?;
    if deleted.gone {
        let status = deleted_status(kind, &resource.name, &deleted.revision.uid);
        return Ok(warned(json_response(200, status.to_string()), &warnings));
    }
    let mut body = Vec::new();
    View::of(kind, call, server.now())?.write_object(&deleted.revision, &mut body);
    Ok(warned(json_response(200, body), &warnings))
}

pub(super) fn delete_all(request: &Request<'_>) -> Result<Response, Refusal> {
    let Request {
        server,
        kind,
        resource,
        call,
    } = *request;
    // One request never empties more than one namespace.
    if kind.is_namespace() || kind.namespaced && resource.namespace.is_empty() {
        return Err(Refusal::method_not_allowed());
    }
    let options = request.delete_options()?;
    let selector = Selector::parse(kind, call.query("labelSelector"), call.query("fieldSelector"))?;
    let (deleted, warnings) = request.locked(|writer| {
        let deleted = writer.delete_all(&selector, &options)?;
        Ok((deleted, std::mem::take(&mut writer.warnings)))
    })?;
    let metadata = serde_json::json!({"resourceVersion": server.state().version().to_string()});
    let mut body = Vec::new();
    View::of(kind, call, server.now())?.write_list(&deleted, &metadata, &mut body);
    Ok(warned(json_response(200, body), &warnings))
}
