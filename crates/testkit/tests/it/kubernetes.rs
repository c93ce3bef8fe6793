//! The control plane and the fake node: tests of gateways in Kubernetes rely on what is shown here.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use testkit::kubernetes::{ControlPlane, FakeNode, Image, KUBERNETES_DEADLINE, Network};
use testkit::{Peer, Talk, until};

/// The port of the program that Pods run here.
const PORT: u16 = 8080;

#[test]
fn objects_survive_an_api_server_restart() {
    let plane = ControlPlane::start();
    let namespace = plane.create_namespace("outage");
    let old = plane.create("v1/configmaps", &namespace, &json!({"metadata": {"name": "a"}, "data": {"k": "1"}}));
    plane.patch("v1/configmaps", &namespace, "a", &json!({"data": {"k": "2"}}));

    plane.stop_api_server();
    let refused = plane.kubectl().args(["get", "configmaps"]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("refused"), "{refused:?}");
    plane.start_api_server();

    assert_eq!(plane.get("v1/configmaps", &namespace, "a").unwrap()["data"]["k"], "2");
    let version = old["metadata"]["resourceVersion"].as_str().unwrap();
    let raw = |query: &str| {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps?resourceVersion={version}&{query}");
        let output = plane.kubectl().args(["get", "--raw", &path]).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    // The server's cache begins with its start; older versions are in etcd alone.
    let watch = raw("watch=1&timeoutSeconds=5");
    assert!(watch.contains("too old resource version"), "{watch}");
    let list = raw("resourceVersionMatch=Exact");
    assert!(list.contains("\"k\":\"1\""), "{list}");
    plane.compact_etcd();
    let list = raw("resourceVersionMatch=Exact");
    assert!(list.contains("too old") && !list.contains("\"k\""), "{list}");
}

#[test]
fn the_gateway_api_is_there_and_access_is_by_role() {
    let plane = ControlPlane::shared();
    let namespace = plane.create_namespace("roles");
    let gateway = |port: u32| {
        format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: g, namespace: {namespace}}}, spec: \
             {{gatewayClassName: c, listeners: [{{name: http, port: {port}, protocol: HTTP}}]}}}}"
        )
    };
    plane.apply(&gateway(80));
    plane.wait_for("gateway.networking.k8s.io/v1/gateways", &namespace, "g", "it has a port", |gateway| {
        gateway["spec"]["listeners"][0]["port"] == 80
    });
    let refusal = plane.refusal(&gateway(70_000)).expect("the definition forbids that port");
    assert!(refusal.contains("65535"), "{refusal}");

    plane.create("v1/serviceaccounts", &namespace, &json!({"metadata": {"name": "reader"}}));
    let kubeconfig = plane.kubeconfig_of(&namespace, "reader");
    let may = |verb: &str| {
        let mut kubectl = plane.kubectl();
        kubectl.arg("--kubeconfig").arg(&kubeconfig).args(["auth", "can-i", verb, "secrets"]);
        String::from_utf8(kubectl.output().unwrap().stdout).unwrap().trim() == "yes"
    };
    assert!(!may("list"));
    plane.apply(&format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {{name: r, namespace: {namespace}}}, rules: \
         [{{apiGroups: [''], resources: [secrets], verbs: [list]}}]}}\n---\n\
         {{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {{name: r, namespace: {namespace}}}, \
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}}, subjects: \
         [{{kind: ServiceAccount, name: reader, namespace: {namespace}}}]}}\n"
    ));
    until("the role is in force", || may("list").then_some(()));
    assert!(!may("delete"));
}

#[test]
fn a_deployment_becomes_processes_behind_a_service() {
    let Some(network) = Network::new_or_skip() else { return };
    let (plane, network) = (ControlPlane::shared(), Arc::new(network));
    let namespace = plane.create_namespace("pods");
    plane.create(
        "v1/secrets",
        &namespace,
        &json!({"metadata": {"name": "s"}, "stringData": {"word": "from the secret"}}),
    );
    plane.apply(&deployment(&namespace));
    let _node = FakeNode::start(plane, &network, &[&namespace], &[program()]);

    let addresses = ready_addresses(plane, &namespace, 2);
    let answers = addresses.iter().map(|address| ask(&network, *address)).collect::<Vec<_>>();
    assert!(
        answers.iter().all(|answer| answer.contains(&namespace) && answer.contains("from the secret")),
        "{answers:?}"
    );
    assert_ne!(answers[0], answers[1], "each answers with its own name");

    // A Pod that is deleted ends, and another one takes its place.
    let pods = plane.list("v1/pods", &namespace);
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    let log = plane.kubectl().args(["--namespace", &namespace, "logs", name]).output().unwrap();
    let printed = String::from_utf8_lossy(&log.stdout);
    assert!(printed.contains("running 1 test"), "{log:?}");
    plane.delete("v1/pods", &namespace, name);
    plane.wait_until_gone("v1/pods", &namespace, name);
    let after = ready_addresses(plane, &namespace, 2);
    assert_ne!(after, addresses);
    assert!(after.iter().all(|address| ask(&network, *address).contains(&namespace)));

    // So does one that ends by itself, in the same Pod.
    let pods = plane.list("v1/pods", &namespace);
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    let address = SocketAddr::new(pods[0]["status"]["podIP"].as_str().unwrap().parse().unwrap(), PORT);
    network.run(|| Talk::connect(address).send_get("/exit", ""));
    plane.wait_for("v1/pods", &namespace, name, "its container runs again", |pod| {
        let container = &pod["status"]["containerStatuses"][0];
        container["restartCount"] == 1 && container["ready"] == true
    });
}

#[test]
fn a_pod_reports_an_unknown_image_and_a_missing_secret() {
    let Some(network) = Network::new_or_skip() else { return };
    let (plane, network) = (ControlPlane::shared(), Arc::new(network));
    let namespace = plane.create_namespace("refused");
    let _node = FakeNode::start(plane, &network, &[&namespace], &[program()]);
    let reason = |name: &str, reason: &str| {
        plane.wait_for("v1/pods", &namespace, name, reason, |pod| {
            pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
        })
    };
    plane.create(
        "v1/pods",
        &namespace,
        &json!({
            "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "unknown:1"}]},
        }),
    );
    assert_eq!(reason("a", "ImagePullBackOff")["status"]["phase"], "Pending");
    plane.create(
        "v1/pods",
        &namespace,
        &json!({
            "metadata": {"name": "b"},
            "spec": {
                "containers": [{"name": "c", "image": "it", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
                "volumes": [{"name": "v", "secret": {"secretName": "absent"}}],
            },
        }),
    );
    reason("b", "CreateContainerConfigError");
}

#[test]
fn endpoints_without_pods_are_peers_of_the_test() {
    let Some(network) = Network::new_or_skip() else { return };
    let plane = ControlPlane::shared();
    let namespace = plane.create_namespace("peers");
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let at = network.publish(peer.address());
    plane.write_service(&namespace, "s", 80);
    plane.write_endpoints(&namespace, "s", &[at.into(), at.into()]);
    plane.write_endpoints(&namespace, "s", &[at.into()]);
    assert_eq!(slices(plane, &namespace, "s").len(), 1);
    assert_eq!(network.run(|| Talk::connect(at).get("/", "").text()), "hi");
    assert_eq!(Talk::connect(network.reach(at)).get("/", "").text(), "hi");
}

/// The program of the Pods: it answers with its name, and `/exit` ends it.
#[test]
#[ignore = "it is what Pods run; without POD_NAME it does nothing"]
fn pod_program() {
    let [Ok(name), Ok(namespace), Ok(file)] = ["POD_NAME", "NAMESPACE", "WORD_FILE"].map(std::env::var) else { return };
    let word = std::fs::read_to_string(file).unwrap();
    let body = format!("{namespace}/{name}: {word}");
    for socket in TcpListener::bind(("0.0.0.0", PORT)).unwrap().incoming() {
        let mut socket = socket.unwrap();
        let lines = BufReader::new(&socket).lines().map_while(Result::ok);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        if head.first().is_some_and(|line| line.starts_with("GET /exit")) {
            return;
        }
        let _ = write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    }
}

fn program() -> Image {
    let this = std::env::current_exe().expect("a program has a path");
    Image::new("it", &this, &["kubernetes::pod_program", "--exact", "--ignored", "--nocapture"])
}

fn deployment(namespace: &str) -> String {
    let objects = [
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "namespace": namespace},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "d"}},
                "template": {
                    "metadata": {"labels": {"app": "d"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 5,
                        "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
                        "containers": [{
                            "name": "c",
                            "image": "registry.example/tests/it:1",
                            "ports": [{"name": "http", "containerPort": PORT}],
                            "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
                            "volumeMounts": [{"name": "v", "mountPath": "/etc/words"}],
                            "env": [
                                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                                {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                                {"name": "WORD_FILE", "value": "/etc/words/word"},
                            ],
                        }],
                    },
                },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "d", "namespace": namespace},
            "spec": {"selector": {"app": "d"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        }),
    ];
    objects.map(|object| object.to_string()).join("\n---\n")
}

fn slices(plane: &ControlPlane, namespace: &str, service: &str) -> Vec<Value> {
    let mut slices = plane.list("discovery.k8s.io/v1/endpointslices", namespace);
    slices.retain(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
    slices
}

/// The addresses of the Service's ready endpoints, once there are this many and no others.
fn ready_addresses(plane: &ControlPlane, namespace: &str, count: usize) -> Vec<SocketAddr> {
    let deadline = std::time::Instant::now() + KUBERNETES_DEADLINE;
    loop {
        let slices = slices(plane, namespace, "d");
        let endpoints: Vec<&Value> =
            slices.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten().collect();
        let ready: Vec<&&Value> = endpoints.iter().filter(|it| it["conditions"]["ready"] == true).collect();
        if ready.len() == count && endpoints.len() == count {
            let address = |endpoint: &Value| endpoint["addresses"][0].as_str().and_then(|text| text.parse().ok());
            let sockets = ready.iter().map(|endpoint| Some(SocketAddr::new(address(endpoint)?, PORT)));
            return sockets.collect::<Option<_>>().expect("the API has checked the addresses");
        }
        assert!(std::time::Instant::now() < deadline, "{slices:#?}\n{:#?}", plane.list("v1/pods", namespace));
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}

fn ask(network: &Network, address: SocketAddr) -> String {
    network.run(|| Talk::connect(address).get("/", "").text())
}
