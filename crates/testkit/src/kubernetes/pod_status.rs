//! The status of a Pod, as a kubelet reports it.

use super::container::{Container, restarts};
use super::node::{Shared, text};
use super::pod::Pod;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The time as the API writes it, in whole seconds.
pub(super) fn now() -> String {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).expect("zero is a number of nanoseconds");
    now.format(&Rfc3339).expect("a year of four digits")
}

/// The status now; conditions that are as they were before keep their time.
pub(super) fn of(pod: &mut Pod, object: &Value, node: &Shared, before: Option<&Value>) -> Value {
    let containers: Vec<Value> = pod.containers.iter_mut().map(container_status).collect();
    let are_ready = containers.iter().all(|container| container["ready"] == true);
    let is_ready = are_ready && gates_are_open(object);
    let conditions: Vec<Value> = [
        ("PodScheduled", true),
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("ContainersReady", are_ready),
        ("Ready", is_ready),
    ]
    .map(|(kind, holds)| condition(kind, holds, before))
    .into();
    let address = pod.network.address();
    json!({
        "phase": phase(&mut pod.containers, object),
        "hostIP": node.network.address(),
        "hostIPs": [{"ip": node.network.address()}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": pod.begun,
        "conditions": conditions,
        "containerStatuses": containers,
    })
}

/// Conditions that others must set before the Pod is ready.
fn gates_are_open(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let is_true =
        |kind: &Value| conditions.into_iter().flatten().any(|it| it["type"] == *kind && it["status"] == "True");
    object["spec"]["readinessGates"].as_array().into_iter().flatten().all(|gate| is_true(&gate["conditionType"]))
}

fn condition(kind: &str, holds: bool, before: Option<&Value>) -> Value {
    let status = if holds { "True" } else { "False" };
    let mut known = before.and_then(|before| before["conditions"].as_array()).into_iter().flatten();
    let known = known.find(|it| it["type"] == kind && it["status"] == status);
    known.cloned().unwrap_or_else(|| json!({"type": kind, "status": status, "lastTransitionTime": now()}))
}

fn phase(containers: &mut [Container], object: &Value) -> &'static str {
    if containers.iter().any(|container| container.process.is_none()) {
        return "Pending";
    }
    let ended: Vec<_> = containers.iter_mut().map(Container::ended).collect();
    let is_ending = !object["metadata"]["deletionTimestamp"].is_null();
    if ended.iter().any(|ended| ended.is_none_or(|status| !is_ending && restarts(object, status))) {
        return "Running";
    }
    if ended.iter().flatten().all(std::process::ExitStatus::success) { "Succeeded" } else { "Failed" }
}

fn container_status(container: &mut Container) -> Value {
    let runs = container.runs();
    let ended = container.ended();
    let state = match (&container.problem, ended) {
        (Some((reason, message)), _) => json!({"waiting": {"reason": reason, "message": message}}),
        (None, Some(ended)) => json!({"terminated": {
            // What a shell reports for a process that a signal has ended.
            "exitCode": ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0)),
            "reason": if ended.success() { "Completed" } else { "Error" },
            "startedAt": container.started,
        }}),
        (None, None) if runs => json!({"running": {"startedAt": container.started}}),
        (None, None) => json!({"waiting": {"reason": "ContainerCreating"}}),
    };
    let image = text(&container.spec["image"]);
    json!({
        "name": container.spec["name"],
        "image": image,
        "imageID": image,
        "containerID": container.process.as_ref().map_or(String::new(), |process| format!("fake://{}", process.id())),
        "ready": container.ready && runs,
        "started": runs,
        "restartCount": container.restarts,
        "state": state,
    })
}
