//! The control plane: etcd, the API server and, if wanted, the controllers, on loopback.

use super::KUBERNETES_DEADLINE;
use super::api::{Api, JSON};
use super::definitions::Channel;
use super::files::{ADMIN_TOKEN, Files};
use super::process::Process;
use super::warden::{self, Kind};
use crate::{free_port, peer_program};
use nix::sys::signal::Signal;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Controllers that tests need. Without the node's own, which would evict Pods of a node that renews no lease.
const CONTROLLERS: &str = "deployment-controller,replicaset-controller,daemonset-controller,endpointslice-controller,\
                           namespace-controller,garbage-collector-controller,serviceaccount-controller,job-controller,\
                           root-ca-certificate-publisher-controller";
/// Between two looks at a state of the control plane.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A control plane. Everything ends with it.
pub struct ControlPlane {
    // In the order in which they end.
    controllers: Mutex<Option<Process>>,
    server: Mutex<Option<Process>>,
    etcd: Process,
    etcd_port: u16,
    port: u16,
    kubeconfig: PathBuf,
    pub(super) files: Files,
    pub(super) api: Api,
    folder: tempfile::TempDir,
}

impl ControlPlane {
    /// Starts etcd and an API server with role-based access.
    ///
    /// # Panics
    /// If they do not start, or are not there: `cargo xtask peers` builds them.
    pub fn start() -> Self {
        let plane = Self::begin();
        plane.wait_until_ready();
        plane
    }

    /// The same with controllers: Deployments get Pods, Services get slices, and deleted namespaces become empty.
    pub fn start_with_controllers() -> Self {
        let plane = Self::begin();
        plane.with_controllers();
        plane.wait_until_ready();
        plane
    }

    /// The one that all tests of this process share, with controllers and all definitions of the Gateway API. Each test takes
    /// namespaces, classes and nodes of its own ([`Self::create_namespace`]), and does not stop the servers.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ControlPlane> = OnceLock::new();
        SHARED.get_or_init(|| {
            let plane = Self::start_with_controllers();
            plane.install_gateway_api(Channel::Experimental);
            plane
        })
    }

    fn begin() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        warden::keep(Kind::Folder, folder.path().display());
        let files = Files::write(folder.path());
        let (etcd_port, port) = (free_port(), free_port());
        let etcd = start_etcd(folder.path(), etcd_port);
        let server = start_server(folder.path(), etcd_port, port);
        Self {
            controllers: Mutex::new(None),
            server: Mutex::new(Some(server)),
            etcd,
            etcd_port,
            port,
            kubeconfig: files.kubeconfig("admin", port, ADMIN_TOKEN, "default"),
            api: Api::new(port, files.authority_pem(), ADMIN_TOKEN),
            files,
            folder,
        }
    }

    /// Starts the controllers.
    pub fn with_controllers(&self) {
        let mut command = Command::new(peer_program("kube-controller-manager"));
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .arg(format!("--controllers={CONTROLLERS}"))
            .arg(format!("--secure-port={}", free_port()))
            .arg(format!("--cert-dir={}", self.folder.path().join("controllers").display()))
            .arg(format!("--root-ca-file={}", self.authority_file().display()))
            .args(["--bind-address=127.0.0.1", "--leader-elect=false"])
            // Tests make many objects at once, and wait for what follows from them.
            .args(["--kube-api-qps=500", "--kube-api-burst=1000"]);
        let process = Process::start(&mut command, &self.folder.path().join("controllers.log")).expect("it starts");
        *lock(&self.controllers) = Some(process);
    }

    fn authority_file(&self) -> PathBuf {
        let file = self.files.file("authority.crt");
        std::fs::write(&file, self.files.authority_pem()).unwrap();
        file
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + KUBERNETES_DEADLINE;
        while !self.api.request("GET", "/readyz", JSON, "").is_ok_and(|(status, _)| status == 200) {
            let ended = lock(&self.server).as_mut().and_then(Process::ended);
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the API server is not ready: {ended:?}\n{}",
                self.server_log()
            );
            std::thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where the API server listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// A kubeconfig of a service account, with a token that the API server has issued for it. The account must exist.
    pub fn kubeconfig_of(&self, namespace: &str, account: &str) -> PathBuf {
        let token = self.token_of(namespace, account);
        self.files.kubeconfig(&format!("{namespace}-{account}"), self.port, &token, namespace)
    }

    /// A token of a service account, valid for an hour.
    pub fn token_of(&self, namespace: &str, account: &str) -> String {
        let path = format!("{}/token", super::path("v1/serviceaccounts", namespace, account));
        let wanted = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let issued = self.demand("POST", &path, JSON, &wanted);
        issued["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// A kubectl with the administrator's rights.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(peer_program("kubectl"));
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(self.folder.path().join("cache"));
        command
    }

    /// Ends the API server at once. Its objects stay in etcd.
    pub fn stop_api_server(&self) {
        if let Some(mut server) = lock(&self.server).take() {
            server.kill();
        }
    }

    /// Starts the API server again, at the same port, and waits until it is ready.
    pub fn start_api_server(&self) {
        *lock(&self.server) = Some(start_server(self.folder.path(), self.etcd_port, self.port));
        self.wait_until_ready();
    }

    /// Stops the API server's threads: connections stay open, and nothing answers.
    pub fn pause_api_server(&self) {
        lock(&self.server).as_mut().expect("it was not stopped").signal(Signal::SIGSTOP);
    }

    /// Lets a paused API server go on.
    pub fn resume_api_server(&self) {
        lock(&self.server).as_mut().expect("it was not stopped").signal(Signal::SIGCONT);
    }

    /// Removes all former versions of objects from etcd: a list of exactly such a version is answered with "410 Gone". A watch from
    /// an old version is answered so after a restart of the API server, compacted or not: its cache begins with its start.
    pub fn compact_etcd(&self) {
        let now = self.ask_etcd("/v3/kv/range", r#"{"key":"AA=="}"#);
        let revision = now["header"]["revision"].as_str().expect("etcd tells its revision").to_owned();
        let done = self.ask_etcd("/v3/kv/compaction", &json!({"revision": revision, "physical": true}).to_string());
        // Compacted twice at the same revision is compacted.
        assert!(
            done["header"].is_object() || done.to_string().contains("has been compacted"),
            "etcd did not compact: {done}"
        );
    }

    /// etcd's own API as JSON.
    fn ask_etcd(&self, path: &str, body: &str) -> serde_json::Value {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.etcd_port)).expect("etcd listens");
        socket.set_read_timeout(Some(KUBERNETES_DEADLINE)).unwrap();
        let length = body.len();
        write!(socket, "POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}").expect("etcd reads");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("etcd answers");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        serde_json::from_str(body).unwrap_or_else(|_| panic!("not JSON: {answer:?}"))
    }

    /// What the API server printed.
    pub fn server_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }

    /// Process ids of etcd, the API server and the controllers, as far as they run.
    pub fn processes(&self) -> Vec<u32> {
        let others = [&self.server, &self.controllers].map(|process| lock(process).as_ref().map(Process::id));
        [Some(self.etcd.id())].into_iter().chain(others).flatten().collect()
    }

    /// Bytes of memory that its processes occupy now.
    pub fn resident_bytes(&self) -> u64 {
        let others = [&self.server, &self.controllers].map(|it| lock(it).as_ref().map_or(0, Process::resident_bytes));
        self.etcd.resident_bytes() + others.iter().sum::<u64>()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.server_log();
            let from = log.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
            let _ = writeln!(std::io::stderr(), "the end of the API server's log:\n{}", &log[from..]);
        }
        warden::forget(Kind::Folder, self.folder.path().display());
    }
}

fn lock(process: &Mutex<Option<Process>>) -> MutexGuard<'_, Option<Process>> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start_etcd(folder: &Path, port: u16) -> Process {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", free_port()));
    let mut command = Command::new(peer_program("etcd"));
    command
        .arg(format!("--data-dir={}", folder.join("etcd").display()))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .arg(format!("--initial-cluster=default={peer}"))
        // Nothing has to outlive the machine.
        .args(["--unsafe-no-fsync", "--log-level=error"]);
    Process::start(&mut command, &folder.join("etcd.log")).expect("etcd starts")
}

fn start_server(folder: &Path, etcd_port: u16, port: u16) -> Process {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new(peer_program("kube-apiserver"));
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd_port}"))
        .args(["--bind-address=127.0.0.1", "--secure-port", &port.to_string()])
        // A loopback address is no endpoint, so the service `kubernetes` has none.
        .args(["--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16"])
        .args(["--tls-cert-file", &file("server.crt"), "--tls-private-key-file", &file("server.key")])
        .args(["--token-auth-file", &file("tokens.csv"), "--authorization-mode=RBAC"])
        .args(["--service-account-issuer=https://kubernetes.default.svc"])
        .args(["--service-account-key-file", &file("accounts.pub")])
        .args(["--service-account-signing-key-file", &file("accounts.key")])
        // Pods need no account: the node mounts no tokens, and without controllers there is no default account.
        .arg("--disable-admission-plugins=ServiceAccount")
        // Kubelets are relatives of the tests: they listen on the loopback of the machine.
        .arg("--kubelet-preferred-address-types=InternalDNS")
        .args(["--cert-dir", &file("certificates"), "--profiling=false"]);
    Process::start(&mut command, &folder.join("server.log")).expect("the API server starts")
}
