//! Objects of the API: written, read, waited for.

use super::KUBERNETES_DEADLINE;
use super::api::{JSON, MERGE, path};
use super::plane::{ControlPlane, LOOK_AGAIN};
use crate::output_for;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// An event about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `Normal` or `Warning`.
    pub kind: String,
    /// One word.
    pub reason: String,
    /// The sentence for the operator.
    pub message: String,
}

impl ControlPlane {
    /// Creates a namespace with a name that no other test of this control plane gets; returns the name.
    pub fn create_namespace(&self, stem: &str) -> String {
        static CREATED: AtomicU32 = AtomicU32::new(1);
        let name = format!("{stem}-{}", CREATED.fetch_add(1, Ordering::Relaxed));
        self.create("v1/namespaces", "", &json!({"metadata": {"name": name}}));
        name
    }

    /// Creates the namespaces of these names that do not exist.
    ///
    /// # Panics
    /// If the server refuses one.
    #[track_caller]
    pub fn apply_namespaces(&self, names: &[&str]) {
        let one =
            |name: &&str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
        self.apply(&names.iter().map(one).collect::<Vec<_>>().join("\n---\n"));
    }

    /// Applies objects, in YAML, on the server's side.
    ///
    /// # Panics
    /// If the server refuses one.
    #[track_caller]
    pub fn apply(&self, yaml: &str) {
        let (ended, said) = self.feed(&["apply", "--server-side", "--force-conflicts", "-f", "-"], yaml);
        assert!(ended, "kubectl apply: {said}\n{yaml}");
    }

    /// What the server says against these objects, in YAML; `None` if it takes them.
    pub fn refusal(&self, yaml: &str) -> Option<String> {
        let (ended, said) = self.feed(&["apply", "--server-side", "--force-conflicts", "-f", "-"], yaml);
        (!ended).then_some(said)
    }

    /// Deletes the objects of a YAML text, and does not wait until they are gone.
    ///
    /// # Panics
    /// If one of them is not there.
    #[track_caller]
    pub fn delete_all(&self, yaml: &str) {
        let (ended, said) = self.feed(&["delete", "--wait=false", "-f", "-"], yaml);
        assert!(ended, "kubectl delete: {said}\n{yaml}");
    }

    fn feed(&self, arguments: &[&str], yaml: &str) -> (bool, String) {
        let output = output_for(self.kubectl().args(arguments), yaml);
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Creates an object of a resource such as `v1/services`.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn create(&self, resource: &str, namespace: &str, object: &Value) -> Value {
        self.demand("POST", &path(resource, namespace, ""), JSON, object)
    }

    /// The object; `None` if there is none.
    ///
    /// # Panics
    /// If the server does not answer.
    #[track_caller]
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.api.get(&path(resource, namespace, name)).unwrap_or_else(|error| panic!("{resource} {name}: {error}"))
    }

    /// All objects of a resource in a namespace, or in all of them.
    #[track_caller]
    pub fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        let mut list = self.get(resource, namespace, "").unwrap_or_else(|| panic!("no {resource} here"));
        match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// Merges a patch into an object.
    #[track_caller]
    pub fn patch(&self, resource: &str, namespace: &str, name: &str, patch: &Value) -> Value {
        self.demand("PATCH", &path(resource, namespace, name), MERGE, patch)
    }

    /// Merges a patch into the status of an object.
    #[track_caller]
    pub fn patch_status(&self, resource: &str, namespace: &str, name: &str, patch: &Value) -> Value {
        self.demand("PATCH", &format!("{}/status", path(resource, namespace, name)), MERGE, patch)
    }

    /// Deletes an object, and does not wait until it is gone.
    #[track_caller]
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) {
        self.demand("DELETE", &path(resource, namespace, name), JSON, &json!({}));
    }

    /// A request that must succeed.
    #[track_caller]
    pub(super) fn demand(&self, method: &str, path: &str, kind: &str, body: &Value) -> Value {
        match self.api.request(method, path, kind, &body.to_string()) {
            Ok((200..=202, answer)) => answer,
            other => panic!("{method} {path}: {other:?}"),
        }
    }

    /// Waits until the object fulfils a condition, and returns it.
    ///
    /// # Panics
    /// At [`KUBERNETES_DEADLINE`], with `what` and the object.
    #[track_caller]
    pub fn wait_for(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let path = path(resource, namespace, name);
        let deadline = Instant::now() + KUBERNETES_DEADLINE;
        loop {
            let seen = self.api.get(&path);
            if let Ok(Some(object)) = &seen
                && holds(object)
            {
                return object.clone();
            }
            assert!(Instant::now() < deadline, "not seen in {KUBERNETES_DEADLINE:?}: {what}; {path} is {seen:#?}");
            std::thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// Waits until there is no such object.
    #[track_caller]
    pub fn wait_until_gone(&self, resource: &str, namespace: &str, name: &str) {
        let path = path(resource, namespace, name);
        let deadline = Instant::now() + KUBERNETES_DEADLINE;
        while !matches!(self.api.get(&path), Ok(None)) {
            assert!(Instant::now() < deadline, "{path} is still there after {KUBERNETES_DEADLINE:?}");
            std::thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// The events about objects of this name.
    #[track_caller]
    pub fn events(&self, namespace: &str, name: &str) -> Vec<Event> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = self.list("v1/events", namespace);
        let about = events.iter().filter(|event| event["involvedObject"]["name"] == name);
        about
            .map(|event| Event {
                kind: text(&event["type"]),
                reason: text(&event["reason"]),
                message: text(&event["message"]),
            })
            .collect()
    }
}
