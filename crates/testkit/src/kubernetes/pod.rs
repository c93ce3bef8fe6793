//! A Pod of the fake node: its network, its volumes and its containers.
//!
//! A container is a process of this machine with a network of its own, and sees all files. A volume is therefore a folder
//! elsewhere: where a container's environment or arguments name the path of a mount, they get the folder's path instead.

use super::container::Container;
use super::network::{Network, PodNetwork};
use super::node::{Shared, text};
use super::pod_status;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the API sets where a Pod does not say how long it may take to end.
const GRACE_DEFAULT: u64 = 30;

/// A Pod that is bound to the node.
pub(super) struct Pod {
    // Processes end before their network.
    pub(super) containers: Vec<Container>,
    pub(super) network: PodOrNode,
    pub(super) begun: String,
    /// What was reported last.
    reported: Option<Value>,
    /// When its processes are killed; set once it was asked to end.
    kill_at: Option<Instant>,
    identity: [String; 3],
}

/// Where the containers run.
pub(super) enum PodOrNode {
    Pod(PodNetwork),
    Node(Arc<Network>),
}

impl PodOrNode {
    pub(super) fn address(&self) -> Ipv4Addr {
        match self {
            Self::Pod(network) => network.address,
            Self::Node(network) => network.address(),
        }
    }

    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Self::Pod(network) => network.command(program),
            Self::Node(network) => network.command(program),
        }
    }
}

impl Pod {
    /// Makes its network. Its containers start when it is followed.
    pub(super) fn new(node: &Shared, object: &Value) -> Self {
        let on_host = object["spec"]["hostNetwork"].as_bool().unwrap_or(false);
        let network =
            if on_host { PodOrNode::Node(Arc::clone(&node.network)) } else { PodOrNode::Pod(node.network.add_pod()) };
        let specs = object["spec"]["containers"].as_array().into_iter().flatten();
        let folder = node.pod_folder(object);
        Self {
            containers: specs.map(|spec| Container::new(spec.clone(), folder.clone())).collect(),
            network,
            begun: pod_status::now(),
            reported: None,
            kill_at: None,
            identity: ["namespace", "name", "uid"].map(|part| text(&object["metadata"][part])),
        }
    }

    /// Brings its processes to what the API says, and reports their state if it has changed.
    pub(super) fn follow(&mut self, node: &Shared, object: &Value, is_ending: bool) {
        if is_ending {
            self.end(object);
        } else {
            for container in &mut self.containers {
                container.keep_running(node, object, &self.network);
            }
        }
        for container in &mut self.containers {
            container.probe(&node.network, self.network.address());
        }
        let before = self.reported.take();
        let status = pod_status::of(self, object, node, before.as_ref());
        let [namespace, name, uid] = &self.identity;
        let is_known = before.as_ref() == Some(&status) || node.report(namespace, name, &status);
        self.reported = if is_known { Some(status) } else { before };
        if is_ending && self.containers.iter_mut().all(|container| !container.runs()) {
            node.remove(namespace, name, uid);
        }
    }

    /// Asks its processes to end, and kills them after the grace period.
    fn end(&mut self, object: &Value) {
        let grace = object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(GRACE_DEFAULT);
        let first = self.kill_at.is_none();
        let kill_at = *self.kill_at.get_or_insert_with(|| Instant::now() + Duration::from_secs(grace));
        for container in &mut self.containers {
            if first {
                container.signal(Signal::SIGTERM);
            } else if Instant::now() >= kill_at {
                container.signal(Signal::SIGKILL);
            }
        }
    }
}

/// Writes a volume's files and returns its folder; an error names what is missing, as a kubelet would.
pub(super) fn volume(node: &Shared, object: &Value, name: &str, folder: &std::path::Path) -> Result<PathBuf, String> {
    let volumes = object["spec"]["volumes"].as_array().into_iter().flatten();
    let volume = { volumes }.find(|volume| volume["name"] == name).ok_or(format!("no volume {name}"))?;
    let at = folder.join("volumes").join(name);
    fs::create_dir_all(&at).expect("a folder below a temporary one");
    let namespace = text(&object["metadata"]["namespace"]);
    let (resource, source, key) = match (volume.get("secret"), volume.get("configMap")) {
        (Some(secret), _) => ("v1/secrets", secret, "secretName"),
        (_, Some(map)) => ("v1/configmaps", map, "name"),
        _ if volume.get("emptyDir").is_some() => return Ok(at),
        _ => return Err(format!("the fake node has no volumes such as {volume}")),
    };
    let wanted = text(&source[key]);
    let data = node.data(resource, &namespace, &wanted).ok_or(format!("{resource} \"{wanted}\" not found"))?;
    let paths: Vec<(String, String)> = match source["items"].as_array() {
        Some(items) => items.iter().map(|item| (text(&item["key"]), text(&item["path"]))).collect(),
        None => data.keys().map(|key| (key.clone(), key.clone())).collect(),
    };
    for (key, path) in paths {
        let content = data.get(&key).ok_or(format!("{wanted} has no key {key}"))?;
        let file = at.join(path);
        fs::create_dir_all(file.parent().expect("below the volume")).expect("a folder below a temporary one");
        fs::write(file, content).expect("a file below a temporary folder");
    }
    Ok(at)
}
