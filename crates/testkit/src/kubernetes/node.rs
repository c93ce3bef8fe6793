//! One machine of the cluster: it binds Pods to itself, runs their containers as processes and reports their state, as a kubelet
//! does. It looks at all of its Pods every [`TICK`].

use super::api::{Api, JSON, STRATEGIC, path};
use super::kubelet::Kubelet;
use super::network::Network;
use super::plane::ControlPlane;
use super::pod::Pod;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks at the Pods. A kubelet is told of changes; a list of a test's Pods takes the API server a millisecond.
const TICK: Duration = Duration::from_millis(50);

/// What runs for containers of an image.
#[derive(Debug, Clone)]
pub struct Image {
    name: String,
    program: Vec<String>,
}

impl Image {
    /// Containers with an image of this name, in whichever registry and with whichever tag, run this program; a container's
    /// `command` takes the program's place and its `args` follow.
    pub fn new(name: &str, program: &Path, arguments: &[&str]) -> Self {
        let mut words = vec![program.to_str().expect("a path in UTF-8").to_owned()];
        words.extend(arguments.iter().map(|&word| word.to_owned()));
        Self { name: name.to_owned(), program: words }
    }
}

/// A node. Its Pods end with it.
pub struct FakeNode {
    name: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    _kubelet: Kubelet,
}

/// What the thread of a node works with.
pub(super) struct Shared {
    pub(super) api: Api,
    pub(super) network: Arc<Network>,
    pub(super) folder: tempfile::TempDir,
    pub(super) images: BTreeMap<String, Vec<String>>,
    pub(super) name: String,
    namespaces: Vec<String>,
    over: AtomicBool,
}

impl FakeNode {
    /// Starts a node in this network that runs the Pods of these namespaces, or of all if there are none here. The API server becomes
    /// reachable in the network at its own address, so that kubeconfigs hold there, too.
    ///
    /// # Panics
    /// If the API server does not take it.
    pub fn start(plane: &ControlPlane, network: &Arc<Network>, namespaces: &[&str], images: &[Image]) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(1);
        let name = format!("node-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().expect("a temporary directory");
        let kubelet = Kubelet::start(folder.path());
        plane.create("v1/nodes", "", &json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}));
        let status = json!({
            "addresses": [
                {"type": "InternalIP", "address": network.address()},
                {"type": "Hostname", "address": name},
                // The API server asks the kubelet there.
                {"type": "InternalDNS", "address": "127.0.0.1"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "FakeNode", "message": "it runs in a test"}],
            "capacity": {"cpu": "8", "memory": "16Gi", "pods": "500"},
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "500"},
        });
        plane.patch_status("v1/nodes", "", &name, &json!({"status": status}));
        network.share(plane.address());
        let shared = Arc::new(Shared {
            api: plane.api.clone(),
            network: Arc::clone(network),
            folder,
            images: images.iter().map(|image| (image.name.clone(), image.program.clone())).collect(),
            name: name.clone(),
            namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
            over: AtomicBool::new(false),
        });
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.run()
        });
        Self { name, shared, thread: Some(thread), _kubelet: kubelet }
    }

    /// Its name in the API.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the containers of a Pod printed.
    pub fn log(&self, namespace: &str, pod: &str) -> String {
        let folder = fs::read_dir(self.shared.folder.path()).expect("it is there").flatten();
        let start = format!("{namespace}.{pod}.");
        let files = folder.filter(|file| file.file_name().to_string_lossy().starts_with(&start));
        files.map(|file| fs::read_to_string(file.path().join("log")).unwrap_or_default()).collect()
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
        assert!(ended.is_ok() || std::thread::panicking(), "the node failed; its panic is above");
    }
}

impl Shared {
    fn run(&self) {
        let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
        while !self.over.load(Ordering::Acquire) {
            // While the API server is away, the Pods go on.
            if let Some(seen) = self.list() {
                self.follow(&seen, &mut pods);
            }
            std::thread::park_timeout(TICK);
        }
    }

    fn list(&self) -> Option<Vec<Value>> {
        let all = [String::new()];
        let namespaces = if self.namespaces.is_empty() { &all[..] } else { &self.namespaces[..] };
        let mut seen = Vec::new();
        for namespace in namespaces {
            let mut list = self.api.get(&path("v1/pods", namespace, "")).ok().flatten()?;
            if let Value::Array(items) = list["items"].take() {
                seen.extend(items);
            }
        }
        Some(seen)
    }

    fn follow(&self, seen: &[Value], pods: &mut BTreeMap<String, Pod>) {
        let mut here = BTreeSet::new();
        for object in seen {
            let is_ending = !object["metadata"]["deletionTimestamp"].is_null();
            let node = object["spec"]["nodeName"].as_str();
            if node.is_none() && !is_ending {
                self.bind(object);
            }
            if node != Some(&self.name) {
                continue;
            }
            let uid = text(&object["metadata"]["uid"]);
            here.insert(uid.clone());
            let pod = pods.entry(uid).or_insert_with(|| Pod::new(self, object));
            pod.follow(self, object, is_ending);
        }
        // The API forgot them, for example because they were deleted without a grace period.
        pods.retain(|uid, _| here.contains(uid));
    }

    /// What a scheduler does. If another node is faster, the server refuses.
    fn bind(&self, object: &Value) {
        let metadata = &object["metadata"];
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.name},
        });
        self.send("POST", &format!("{}/binding", path("v1/pods", &namespace, &name)), JSON, &binding);
    }

    /// Changes the status of a Pod. `false`: the server did not take it, and the next tick tries again.
    pub(super) fn report(&self, namespace: &str, name: &str, status: &Value) -> bool {
        self.send(
            "PATCH",
            &format!("{}/status", path("v1/pods", namespace, name)),
            STRATEGIC,
            &json!({"status": status}),
        )
    }

    /// Removes a Pod that has ended.
    pub(super) fn remove(&self, namespace: &str, name: &str, uid: &str) {
        let now = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": uid},
        });
        self.send("DELETE", &path("v1/pods", namespace, name), JSON, &now);
    }

    fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> bool {
        self.api.request(method, path, kind, &body.to_string()).is_ok_and(|(status, _)| status < 300)
    }

    /// The data of a Secret or a `ConfigMap`, decoded.
    pub(super) fn data(&self, resource: &str, namespace: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        use base64::Engine as _;
        let object = self.api.get(&path(resource, namespace, name)).ok().flatten()?;
        let decoded = |value: &Value| match (resource, value.as_str().unwrap_or_default()) {
            ("v1/secrets", coded) => base64::engine::general_purpose::STANDARD.decode(coded).unwrap_or_default(),
            (_, plain) => plain.as_bytes().to_vec(),
        };
        let data = object["data"].as_object();
        Some(data.into_iter().flatten().map(|(key, value)| (key.clone(), decoded(value))).collect())
    }

    /// A folder for a Pod, with its log and its volumes.
    pub(super) fn pod_folder(&self, object: &Value) -> PathBuf {
        let [namespace, name, uid] = ["namespace", "name", "uid"].map(|part| text(&object["metadata"][part]));
        let folder = self.folder.path().join(format!("{namespace}.{name}.{uid}"));
        fs::create_dir_all(&folder).expect("a folder below a temporary one");
        folder
    }
}

/// A string of an object; empty if there is none.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
