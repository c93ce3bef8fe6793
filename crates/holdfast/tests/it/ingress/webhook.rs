//! The admission webhook: asked by a real API server, and by clients that mean no good.

use super::gateway;
use super::scene::{INGRESSES, Replica, Scene, wait_until};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use testkit::kubernetes::ControlPlane;
use testkit::{Authority, Talk};

const CONFIGURATIONS: &str = "admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
/// The port in the node's network.
const PORT: u16 = 9443;
/// More connections than the webhook has places.
const CROWD: usize = 70;

/// A replica with a webhook, and the certificate's folder.
struct Hooked {
    replica: Replica,
    at: SocketAddr,
    folder: tempfile::TempDir,
}

fn start(scene: &Scene<'_>, authority: &Authority) -> Hooked {
    start_with(scene, authority, &[])
}

fn start_with(scene: &Scene<'_>, authority: &Authority, flags: &[&str]) -> Hooked {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = authority.issue(&["127.0.0.1"]).write(folder.path(), "webhook");
    let own = [
        format!("--validating-webhook={}:{PORT}", scene.network.address()),
        format!("--validating-webhook-certificate={}", certificate.display()),
        format!("--validating-webhook-key={}", key.display()),
    ];
    let replica = scene.replica(&own.iter().map(String::as_str).chain(flags.iter().copied()).collect::<Vec<_>>());
    let at = scene.network.reach((scene.network.address(), PORT).into());
    Hooked { replica, at, folder }
}

/// The API server asks the webhook about Ingresses and routes of the test's namespace.
fn configuration(scene: &Scene<'_>, authority: &Authority, at: SocketAddr) -> Value {
    json!({
        "metadata": {"name": scene.namespace},
        "webhooks": [{
            "name": "ingresses.holdfast.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 10,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}},
            "rules": [
                {"apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["ingresses"]},
                {"apiGroups": ["gateway.networking.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["httproutes", "grpcroutes"]},
            ],
            "clientConfig": {"url": format!("https://{at}/networking/v1/ingresses"),
                "caBundle": STANDARD.encode(authority.pem())},
        }],
    })
}

fn ingress(scene: &Scene<'_>, name: &str, host: &str, annotations: &[(&str, &str)]) -> String {
    let annotations: serde_json::Map<String, Value> =
        annotations.iter().map(|(name, value)| (format!("nginx.ingress.kubernetes.io/{name}"), json!(value))).collect();
    let backend = json!({"service": {"name": "pod", "port": {"number": 80}}});
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": scene.namespace, "annotations": annotations},
        "spec": {"ingressClassName": scene.namespace, "rules": [{"host": host, "http": {"paths":
            [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]},
    })
    .to_string()
}

/// `kubectl create`: whether the API server took it, and what it said.
fn create(scene: &Scene<'_>, object: &str) -> (bool, String) {
    let output = testkit::output_for(scene.plane.kubectl().args(["create", "-f", "-"]), object);
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The first refusal by the webhook of an Ingress that is wrong; each try has another name.
fn refusal(scene: &Scene<'_>, stem: &str) -> String {
    let (mut number, mut said) = (0, String::new());
    wait_until("the webhook refuses an Ingress", || {
        number += 1;
        let name = format!("{stem}-{number}");
        let bad = ingress(scene, &name, &format!("{name}.test"), &[("auth-url", "http://127.0.0.1/")]);
        let (is_taken, text) = create(scene, &bad);
        said = text;
        !is_taken && said.contains("Holdfast would not serve")
    });
    said
}

#[test]
fn webhook_refuses_bad_ingresses_and_warns_about_others() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let authority = Authority::new("webhook");
    let hooked = start(&scene, &authority);
    let _pod = scene.serve("first.test", "pod");
    hooked.replica.wait_for("first.test", 200, "pod");
    assert!(create(&scene, &ingress(&scene, "before", "before.test", &[("enable-modsecurity", "true")])).0);
    scene.plane.create(CONFIGURATIONS, "", &configuration(&scene, &authority, hooked.at));

    let said = refusal(&scene, "bad");
    for words in ["/bad-", "WrongAnnotation: \"auth-url\"", "To mend it, correct the value of the annotation"] {
        assert!(said.contains(words), "{said}");
    }
    let (is_taken, said) = create(&scene, &ingress(&scene, "good", "good.test", &[("auth-keepalive", "8")]));
    assert!(is_taken && said.contains("Warning: \"auth-keepalive\" has no effect"), "{said}");
    hooked.replica.wait_for("good.test", 200, "pod");
    let (is_taken, said) = create(&scene, &ingress(&scene, "second", "first.test", &[]));
    let owner = format!("Ingress {}/pod already has the path \"/\" of host \"first.test\"", scene.namespace);
    assert!(!is_taken && said.contains(&owner), "{said}");
    // What was wrong before the webhook came can get labels.
    scene.plane.patch(INGRESSES, &scene.namespace, "before", &json!({"metadata": {"labels": {"a": "b"}}}));
    assert!(hooked.replica.figure("webhook_refusals_total") >= 2 && hooked.replica.figure("webhook_errors_total") == 0);
    scene.plane.delete(CONFIGURATIONS, "", &scene.namespace);
}

#[test]
fn webhook_refuses_routes_that_would_not_be_accepted() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let authority = Authority::new("webhook");
    let flag = gateway::gateway(&scene);
    let bad = json!([{"matches": [{"path": {"type": "RegularExpression", "value": "/("}}]}]);
    gateway::route(&scene, "before.test", &bad);
    let hooked = start_with(&scene, &authority, &[&flag]);
    let _pod = scene.serve("first.test", "pod");
    hooked.replica.wait_for("first.test", 200, "pod");
    let not_accepted = |route: &Value| route["status"]["parents"][0]["conditions"][0]["status"] == "False";
    scene.plane.wait_for(gateway::HTTP_ROUTES, &scene.namespace, "before.test", "not accepted", not_accepted);
    scene.plane.create(CONFIGURATIONS, "", &configuration(&scene, &authority, hooked.at));
    refusal(&scene, "bad");

    let route = |kind: &str, host: &str, rules: &Value| {
        create(&scene, &gateway::manifest(&scene, kind, host, rules).to_string())
    };
    let extension =
        json!({"type": "ExtensionRef", "extensionRef": {"group": "example.com", "kind": "Lua", "name": "x"}});
    let call = json!([{"matches": [{"method": {"type": "RegularExpression", "service": "("}}]}]);
    for (kind, host, rules, words) in [
        ("HTTPRoute", "regex.test", &bad, "missing closing parenthesis"),
        ("HTTPRoute", "filter.test", &json!([{"filters": [extension]}]), "filters of kind \"Lua\" are not supported"),
        ("GRPCRoute", "call.test", &call, "missing closing parenthesis"),
    ] {
        let (is_taken, said) = route(kind, host, rules);
        let begin = format!("Holdfast would not serve {kind} {}/{host}. ", scene.namespace);
        assert!(!is_taken && said.contains(&begin) && said.contains(words) && said.contains("To mend it"), "{said}");
    }
    let to = |service: &str| json!([{"backendRefs": [{"name": service, "port": 80}]}]);
    let (is_taken, said) = route("HTTPRoute", "good.test", &to("pod"));
    assert!(is_taken && said.is_empty(), "{said}");
    hooked.replica.wait_for("good.test", 200, "pod");
    let (is_taken, said) = route("HTTPRoute", "early.test", &to("later"));
    assert!(is_taken && said.contains(&format!("Warning: there is no Service {}/later", scene.namespace)), "{said}");
    // What was wrong before the webhook came can get labels.
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    scene.plane.patch(gateway::HTTP_ROUTES, &scene.namespace, "before.test", &labels);
    assert_eq!(hooked.replica.figure("webhook_errors_total"), 0);
    scene.plane.delete(CONFIGURATIONS, "", &scene.namespace);
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let hooked = start(&scene, &old);
    scene.plane.create(CONFIGURATIONS, "", &configuration(&scene, &old, hooked.at));
    refusal(&scene, "old");
    new.issue(&["127.0.0.1"]).write(hooked.folder.path(), "webhook");
    let trusts = |authority: &Authority| Talk::connect_secure(hooked.at, &authority.client(), "127.0.0.1").is_ok();
    wait_until("the new certificate is used", || trusts(&new));
    assert!(!trusts(&old));
    let renewed = configuration(&scene, &new, hooked.at);
    scene.plane.patch(CONFIGURATIONS, "", &scene.namespace, &json!({"webhooks": renewed["webhooks"]}));
    refusal(&scene, "new");
    scene.plane.delete(CONFIGURATIONS, "", &scene.namespace);
}

fn post(body: &str) -> String {
    let head = "POST /networking/v1/ingresses HTTP/1.1\r\nHost: hook\r\nContent-Type: application/json\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn review(kind: &str) -> String {
    let request = json!({"uid": "u", "operation": "CREATE", "namespace": "shop", "name": "a",
        "kind": {"group": "networking.k8s.io", "version": "v1", "kind": kind}, "object": {"metadata": {"name": "a"}}});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string()
}

#[test]
fn hostile_requests_get_an_error_and_traffic_and_reviews_go_on() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let authority = Authority::new("webhook");
    let hooked = start(&scene, &authority);
    let _pod = scene.serve("shop.test", "pod");
    hooked.replica.wait_for("shop.test", 200, "pod");
    let side = authority.client();
    let connect = || Talk::connect_secure(hooked.at, &side, "127.0.0.1").expect("trusted");
    let ask = |text: &str| {
        let mut talk = connect();
        talk.send(text);
        talk.response().status()
    };
    assert_eq!(ask(&post(&review("Ingress"))), 200);
    for (status, text) in [
        (
            413,
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 9999999\r\n\r\n"
                .to_owned(),
        ),
        (400, post("not JSON")),
        (400, post(&"[".repeat(100_000))),
        (400, post(&review("Ingress").replace("{\"name\":\"a\"}", &"{\"a\":".repeat(100_000)))),
        (400, post(&review("Pod"))),
        (405, "GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_owned()),
        (415, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}".to_owned()),
        (431, format!("POST / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "x".repeat(20_000))),
        (400, "nonsense\r\n\r\n".to_owned()),
    ] {
        assert_eq!(ask(&text), status, "{}", text.chars().take(200).collect::<String>());
    }
    let mut slow = connect();
    slow.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{");
    assert_eq!(slow.response().status(), 408, "a body that does not come");

    // Connections that say nothing take all places. Traffic does not notice; when their time is over, there is room again.
    let crowd: Vec<TcpStream> = (0..CROWD).map(|_| TcpStream::connect(hooked.at).expect("a connection")).collect();
    assert_eq!(hooked.replica.answer("shop.test"), (200, "pod".to_owned()));
    wait_until("the webhook has room again", || {
        Talk::connect_secure(hooked.at, &side, "127.0.0.1").is_ok_and(|mut talk| {
            talk.send(post(&review("Ingress")));
            talk.response().status() == 200
        })
    });
    drop(crowd);
    assert!(hooked.replica.runs() && hooked.replica.is_ready());
    assert!(hooked.replica.figure("webhook_errors_total") >= 7);
}

#[test]
fn webhook_is_off_by_default_and_costs_no_traffic() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let webhook = SocketAddr::from((scene.network.address(), PORT));
    let replica = scene.replica(&[]);
    assert!(scene.network.run(|| TcpStream::connect(webhook)).is_err());
    drop(replica);
    let address = format!("--validating-webhook={webhook}");
    let replica = scene.replica(&[
        &address,
        "--validating-webhook-certificate=/nonexistent/cert",
        "--validating-webhook-key=/nonexistent/key",
    ]);
    let _pod = scene.serve("shop.test", "pod");
    replica.wait_for("shop.test", 200, "pod");
}
