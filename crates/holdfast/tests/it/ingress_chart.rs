//! The Helm chart and the plain manifests: Helm's lint, the schema of the values, rendering, and what a real API server says
//! about every object and every permission.

use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::kubernetes::ControlPlane;
use testkit::{free_port, peer_program};

const CHART: &str = "packaging/helm/holdfast";
/// A Helm that Go's module proxy gave believes in a version of years ago.
const KUBERNETES: &str = "--kube-version=1.34.0";
const SETS: [&str; 5] = ["default", "full", "host", "low-ports", "scoped"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn helm(words: &[&str]) -> Output {
    Command::new(peer_program("helm")).current_dir(root()).args(words).output().expect("helm starts")
}

fn rendered(words: &[&str]) -> String {
    let output = helm(&[&["template", "holdfast", CHART, "--namespace=holdfast", KUBERNETES], words].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn values(set: &str) -> String {
    format!("--values={CHART}/ci/{set}-values.yaml")
}

#[test]
fn lint_finds_nothing() {
    for set in SETS {
        let output = helm(&["lint", "--strict", CHART, &values(set)]);
        assert!(output.status.success(), "{set}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn plain_manifests_are_the_rendered_chart() {
    for file in ["holdfast.yaml", "holdfast-gateway-api.yaml", "holdfast-admission-webhook.yaml"] {
        let text = read(&format!("packaging/kubernetes/{file}"));
        let (command, rest) = text.split_once('\n').expect("lines");
        let (_, command) = command.split_once(": helm ").expect("a command");
        let (namespace, objects) = rest.split_once("---\n").expect("documents");
        assert!(namespace.contains("kind: Namespace"), "{namespace}");
        let output = helm(&command.split(' ').collect::<Vec<_>>());
        let found = String::from_utf8_lossy(&output.stdout);
        assert!(found == format!("---\n{objects}"), "{file} is outdated: `cargo xtask manifests` writes it");
    }
}

#[test]
fn the_chart_has_the_dashboards_and_alerts_of_the_packages() {
    for entry in fs::read_dir(root().join(CHART).join("files")).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        let is_dashboard = Path::new(&name).extension().is_some_and(|extension| extension == "json");
        let folder = if is_dashboard { "grafana" } else { "prometheus" };
        let same = read(&format!("{CHART}/files/{name}")) == read(&format!("packaging/{folder}/{name}"));
        assert!(same, "{name} is outdated: `cargo xtask docs` writes it");
    }
    assert_eq!(fs::read_dir(root().join(CHART).join("files")).expect("a folder").count(), 6);
}

#[test]
fn the_schema_refuses_wrong_values() {
    for (set, wanted) in [
        ("--set=defaultBackend.enabled=true", "'defaultBackend' not allowed"),
        ("--set=controller.admissionWebhooks.patch.enabled=true", "'patch' not allowed"),
        ("--set=controller.admissionWebhooks.failurePolicy=Perhaps", "/controller/admissionWebhooks/failurePolicy"),
        ("--set=controller.replicas=2", "'replicas' not allowed"),
        ("--set=controller.kind=StatefulSet", "/controller/kind"),
        ("--set=controller.replicaCount=many", "got string, want integer"),
        ("--set=controller.service.type=ExternalName", "/controller/service/type"),
        ("--set=controller.containerPort.http=70000", "/controller/containerPort/http"),
        ("--set=controller.image.digest=sha256:1", "/controller/image/digest"),
        ("--set-string=tcp.9000=nowhere", "/tcp/9000"),
        ("--set-string=tcp.http=a/b:80", "propertyName 'http'"),
        ("--set=controller.acme.directory=http://ca.test/dir", "/controller/acme/directory"),
        ("--set=controller.acme.contacts={a b}", "/controller/acme/contacts/0"),
        ("--set=controller.acme.secret=Big", "/controller/acme/secret"),
        ("--set=controller.acme.enabled=true", "'enabled' not allowed"),
        ("--set=controller.shutdownGracePeriodSeconds=-1", "/controller/shutdownGracePeriodSeconds"),
    ] {
        let output = helm(&["template", "h", CHART, KUBERNETES, set]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(wanted), "{set}: {message}");
    }
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    for (set, wanted) in [
        ("controller.terminationGracePeriodSeconds=30", "need 250"),
        ("controller.extraArgs.http-port=80", "has a value of its own"),
        ("controller.extraArgs.acme-secret=x", "has a value of its own"),
        (
            "controller.acme.directory=https://ca.test/dir,controller.updateStatus=false",
            "needs controller.updateStatus",
        ),
        ("controller.extraArgs.validating-webhook=x", "has a value of its own"),
        ("controller.metrics.serviceMonitor.enabled=true", "needs controller.metrics.enabled"),
        ("controller.gatewayClassResource.enabled=true", "needs controller.gatewayAPI.enabled"),
        ("controller.hostNetwork=true,controller.containerPort.http=80", "needs controller.image.runAsUser: 0"),
    ] {
        let output = helm(&["template", "h", CHART, KUBERNETES, "--set", set]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(wanted), "{set}: {message}");
    }
}

/// The arguments of the container. Each one is a line of the Deployment or of the `DaemonSet`.
fn arguments(text: &str) -> Vec<String> {
    let (_, rest) = text.split_once("\n          args:\n").expect("arguments");
    let (lines, _) = rest.split_once("\n          env:\n").expect("an environment behind them");
    let word = |line: &str| line.trim().strip_prefix("- ").expect("a list").trim_matches('"').to_owned();
    lines.lines().map(word).collect()
}

#[test]
fn the_program_accepts_the_arguments_that_the_chart_gives() {
    let certificate = ["--set=controller.admissionWebhooks.enabled=true"];
    // In place of the mounted file.
    let folder = tempfile::tempdir().expect("a folder");
    let authority = folder.path().join("ca.crt");
    fs::write(&authority, testkit::Authority::new("ca").pem()).expect("written");
    for (set, more) in SETS.into_iter().map(|set| (set, &[][..])).chain([("default", &certificate[..])]) {
        let text = rendered(&[&[values(set).as_str()], more].concat());
        let given = arguments(&text);
        assert!(given.len() > 10 && given[0] == "ingress", "{set}: {given:?}");
        let has_webhook = text.contains("kind: ValidatingWebhookConfiguration");
        assert_eq!(given.iter().any(|word| word.starts_with("--validating-webhook=:")), has_webhook, "{set}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(&given).env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
        // Other tests run beside this one, and there is no cluster: it ends when it has read all of its arguments.
        command.args(["--kubeconfig=/nonexistent/kubeconfig", "--healthz-host=127.0.0.1"]);
        command.arg(format!("--healthz-port={}", free_port()));
        if given.iter().any(|word| word.starts_with("--acme-trusted-certificate=")) {
            command.arg(format!("--acme-trusted-certificate={}", authority.display()));
        }
        if has_webhook {
            command.arg(format!("--validating-webhook=127.0.0.1:{}", free_port()));
        }
        let output = command.output().expect("holdfast starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("/nonexistent/kubeconfig"), "{set}: {given:?}: {said}");
        assert!(!said.contains("has no effect"), "{set}: {said}");
    }
}

#[test]
fn webhook_covers_watched_objects_with_a_service_certificate() {
    let text = rendered(&[&values("scoped")]);
    let (_, hook) = text.split_once("kind: ValidatingWebhookConfiguration").expect("a webhook");
    let hook = hook.split("\n---").next().expect("a document");
    for words in [
        "- name: ingresses.holdfast.dev",
        "resources: [ingresses]",
        "- name: routes.holdfast.dev",
        "resources: [httproutes, grpcroutes, tlsroutes, tcproutes, udproutes]",
        "failurePolicy: Ignore",
        "kubernetes.io/metadata.name: shop",
        "caBundle: ",
        "name: holdfast-admission",
    ] {
        assert!(hook.contains(words), "{words}: {hook}");
    }
    assert!(text.contains("secretName: holdfast-admission") && text.contains("optional: true"));
    let with_manager = rendered(&[
        "--set=controller.admissionWebhooks.enabled=true",
        "--set=controller.admissionWebhooks.certManager.enabled=true",
        "--set=controller.networkPolicy.enabled=true",
    ]);
    assert!(with_manager.contains("cert-manager.io/inject-ca-from: holdfast/holdfast-admission"));
    assert!(with_manager.contains("holdfast-admission.holdfast.svc") && !with_manager.contains("tls.key: "));
    assert!(with_manager.contains("- port: webhook"), "the network policy lets the API server in");
    assert!(
        !with_manager.contains("routes.holdfast.dev"),
        "the controller may not read routes without the Gateway API"
    );
    assert!(!rendered(&[]).contains("admission"), "it is off");
}

#[test]
fn an_upgrade_keeps_the_certificate_of_the_webhook() {
    let plane = ControlPlane::shared();
    let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig().display());
    let secret = |namespace: &str| {
        let place = format!("--namespace={namespace}");
        let output = helm(&[
            "template",
            "holdfast",
            CHART,
            "--dry-run=server",
            KUBERNETES,
            "--show-only=templates/admissionwebhook.yaml",
            "--set=controller.admissionWebhooks.enabled=true",
            &place,
            &kubeconfig,
        ]);
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let secret = text.split("\n---\n").find(|it| it.contains("kind: Secret")).expect("a Secret").to_owned();
        let authority = secret.split("ca.crt: ").nth(1).and_then(|rest| rest.lines().next()).expect("an authority");
        assert!(text.contains(&format!("caBundle: {authority}")), "the API server trusts it");
        secret
    };
    let namespace = plane.create_namespace("chart-hook");
    let first = secret(&namespace);
    assert_ne!(first, secret(&namespace), "nothing is kept before it is installed");
    kubectl(plane, &["apply", "-f", "-"], &first);
    assert_eq!(first, secret(&namespace));
}

#[test]
fn capabilities_are_added_for_low_ports_alone() {
    for set in SETS {
        let text = rendered(&[&values(set)]);
        assert!(text.contains("drop: [ALL]") && text.contains("readOnlyRootFilesystem: true"), "{set}");
        let low = set == "low-ports";
        assert_eq!(text.contains("NET_BIND_SERVICE"), low, "{set}");
        assert_eq!(text.contains("net.ipv4.ip_unprivileged_port_start"), low, "{set}");
    }
}

#[test]
fn every_value_is_in_the_readme() {
    let readme = read(&format!("{CHART}/README.md"));
    let schema: serde_json::Value = serde_json::from_str(&read(&format!("{CHART}/values.schema.json"))).expect("JSON");
    let mut paths = BTreeSet::new();
    leaves(&schema, "", &mut paths);
    assert!(paths.len() > 100, "{paths:?}");
    let missing: Vec<_> = paths.iter().filter(|path| !readme.contains(&format!("| `{path}` |"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The names of values; what a value contains further is not listed.
fn leaves(schema: &serde_json::Value, path: &str, paths: &mut BTreeSet<String>) {
    const WHOLE: [&str; 1] = ["controller.resources"];
    match schema["properties"].as_object() {
        Some(properties) if !WHOLE.contains(&path) => {
            for (name, inside) in properties.iter().filter(|(name, _)| *name != "global") {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(inside, &path, paths);
            }
        }
        _ => {
            paths.insert(path.to_owned());
        }
    }
}

/// kubectl with a text on standard input.
fn kubectl(plane: &ControlPlane, words: &[&str], text: &str) -> String {
    let output = testkit::output_for(plane.kubectl().args(words), text);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {message}");
    assert!(!message.to_lowercase().contains("warning"), "{message}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Definitions with any content for the kinds of the Prometheus operator.
fn monitoring_definitions() -> String {
    let one = |kind: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        })
        .to_string()
    };
    format!("{}\n---\n{}", one("ServiceMonitor"), one("PrometheusRule"))
}

#[test]
fn an_api_server_accepts_every_object_of_every_set_of_values() {
    let plane = ControlPlane::shared();
    kubectl(plane, &["apply", "-f", "-"], &monitoring_definitions());
    kubectl(plane, &["wait", "--for=condition=Established", "customresourcedefinition", "--all"], "");
    plane.apply_namespaces(&["holdfast", "shop"]);
    for set in SETS {
        kubectl(plane, &["apply", "--dry-run=server", "-f", "-"], &rendered(&[&values(set)]));
    }
}

/// Whether the service account `NAMESPACE:NAME` may do it. The question is a verb, a resource with its group, and a namespace or none:
/// `update leases.coordination.k8s.io/NAME -n shop`, `patch ingresses.networking.k8s.io --subresource=status -n shop`.
fn may(plane: &ControlPlane, account: &str, question: &str) -> bool {
    let mut words = question.split(' ');
    let mut attributes = json!({"verb": words.next().expect("a verb")});
    let mut set = |key: &str, value: &str| attributes[key] = value.into();
    let (kind, name) = words.next().and_then(|what| what.split_once('/').or(Some((what, "")))).expect("a resource");
    let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
    set("resource", resource);
    set("group", group);
    set("name", name);
    while let Some(word) = words.next() {
        match word.strip_prefix("--subresource=") {
            Some(part) => set("subresource", part),
            None if word == "-n" => set("namespace", words.next().expect("a namespace")),
            None => panic!("{word} in {question:?}"),
        }
    }
    let (namespace, _) = account.split_once(':').expect("a namespace and a name");
    // As the API server sees a token of this account.
    let spec = json!({
        "user": format!("system:serviceaccount:{account}"),
        "groups": ["system:authenticated", "system:serviceaccounts", format!("system:serviceaccounts:{namespace}")],
        "resourceAttributes": attributes,
    });
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let answer = plane.create("authorization.k8s.io/v1/subjectaccessreviews", "", &review);
    answer["status"]["allowed"].as_bool().unwrap_or_else(|| panic!("{question}: {answer}"))
}

const INGRESSES: &str = "ingresses.networking.k8s.io";
const READ: [&str; 5] = [INGRESSES, "services", "endpointslices.discovery.k8s.io", "secrets", "configmaps"];

#[test]
fn roles_grant_exactly_the_needed_rights() {
    let plane = ControlPlane::shared();
    let text =
        read("packaging/kubernetes/holdfast-gateway-api.yaml").replace("namespace: holdfast", "namespace: chart-all");
    let text = text.replace("name: holdfast\n  labels:\n    # The Pods", "name: chart-all\n  labels:\n    # The Pods");
    kubectl(plane, &["apply", "-f", "-"], &text);
    let account = "chart-all:holdfast";
    let gateway = ["gateways", "listenersets", "httproutes", "grpcroutes", "tlsroutes", "tcproutes", "udproutes"]
        .map(|kind| format!("{kind}.gateway.networking.k8s.io"));
    let cluster =
        ["ingressclasses.networking.k8s.io", "nodes", "namespaces", "gatewayclasses.gateway.networking.k8s.io"];
    let read = gateway.iter().map(String::as_str).chain(READ).chain(cluster);
    for kind in
        read.chain(["referencegrants.gateway.networking.k8s.io", "backendtlspolicies.gateway.networking.k8s.io"])
    {
        for verb in ["get", "list", "watch"] {
            assert!(may(plane, account, &format!("{verb} {kind}")), "{verb} {kind}");
        }
        for verb in ["create", "update", "patch", "delete"] {
            assert!(!may(plane, account, &format!("{verb} {kind} -n shop")), "{verb} {kind}");
        }
    }
    for kind in gateway.iter().map(String::as_str).chain([INGRESSES, "gatewayclasses.gateway.networking.k8s.io"]) {
        assert!(may(plane, account, &format!("patch {kind} --subresource=status -n shop")), "{kind}");
    }
    for question in [
        "create events.events.k8s.io -n shop",
        "create leases.coordination.k8s.io -n chart-all",
        "update leases.coordination.k8s.io/holdfast-leader -n chart-all",
    ] {
        assert!(may(plane, account, question), "{question}");
    }
    for question in [
        "update leases.coordination.k8s.io/another -n chart-all",
        "create leases.coordination.k8s.io -n shop",
        "create pods -n chart-all",
        "create serviceaccounts --subresource=token -n chart-all",
        "impersonate users",
        "escalate clusterroles.rbac.authorization.k8s.io",
    ] {
        assert!(!may(plane, account, question), "{question}");
    }
}

#[test]
fn with_a_scope_secrets_of_other_namespaces_cannot_be_read() {
    let plane = ControlPlane::shared();
    plane.apply_namespaces(&["chart-one", "chart-shop"]);
    let sets = ["--set=controller.scope.namespace=chart-shop", "--set=controller.ingressClassResource.enabled=false"];
    let values = values("scoped");
    let release = ["template", "one", CHART, "--namespace=chart-one", KUBERNETES, values.as_str()];
    let words = [&release[..], &sets].concat();
    let output = helm(&words);
    kubectl(plane, &["apply", "-f", "-"], &String::from_utf8(output.stdout).expect("text"));
    let account = "chart-one:shop-proxy";
    for kind in READ {
        assert!(may(plane, account, &format!("watch {kind} -n chart-shop")), "{kind}");
        assert!(!may(plane, account, &format!("watch {kind}")), "{kind}");
        assert!(!may(plane, account, &format!("get {kind} -n chart-one")), "{kind}");
    }
    assert!(may(plane, account, &format!("patch {INGRESSES} --subresource=status -n chart-shop")));
    assert!(!may(plane, account, &format!("patch {INGRESSES} --subresource=status -n chart-one")));
    assert!(may(plane, account, "update leases.coordination.k8s.io/one-holdfast-leader -n chart-one"));
    // Certificates by ACME: Secrets of the watched namespace, and two of the own one by name.
    for question in [
        "create secrets -n chart-shop",
        "update secrets/front -n chart-shop",
        "create secrets -n chart-one",
        "update secrets/one-holdfast-acme -n chart-one",
        "watch secrets/one-holdfast-acme-challenges -n chart-one",
    ] {
        assert!(may(plane, account, question), "{question}");
    }
    for question in
        ["delete secrets -n chart-shop", "update secrets/another -n chart-one", "watch secrets -n chart-one"]
    {
        assert!(!may(plane, account, question), "{question}");
    }
}
