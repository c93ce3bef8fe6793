//! Manifests of applications -> objects of the Gateway API. `applications/*.yaml` are what people apply; `*.golden` is the
//! output, which a test of `holdfast` also gives to a real API server. `HOLDFAST_BLESS=1` writes it anew.

use ingress::Name;
use ingress::migrate::gateway_api::{Converted, Options, convert};
use ingress::migrate::{Manifests, Wanted, analyse};
use std::fs;
use std::path::{Path, PathBuf};

const APPLICATIONS: [&str; 5] = ["argocd", "canary", "grafana", "keycloak", "wordpress"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/applications")
}

fn converted(texts: &[String], gateway: Option<Name>, experimental: bool) -> Converted {
    let prefix = "nginx.ingress.kubernetes.io".to_owned();
    let mut manifests = Manifests::default();
    for text in texts {
        manifests.read("a.yaml", text);
    }
    assert_eq!(manifests.unreadable, []);
    let wanted = Wanted {
        class: "nginx".into(),
        without_class: false,
        config_map: None,
        allow_snippets: false,
        annotations_prefix: prefix.clone(),
    };
    let options = Options { class: "holdfast".into(), gateway, experimental, annotations_prefix: prefix };
    convert(&analyse(&manifests, &wanted).cluster, &options)
}

fn text(name: &str) -> String {
    fs::read_to_string(folder().join(format!("{name}.yaml"))).expect("a file")
}

fn compare(file: &str, found: &str) {
    let path = folder().join(file);
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        fs::write(&path, found).expect("written");
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, golden, "{file} differs; HOLDFAST_BLESS=1 writes it anew");
}

#[test]
fn each_application_has_its_golden_output() {
    for name in APPLICATIONS {
        compare(&format!("{name}.golden"), &converted(&[text(name)], None, false).yaml().expect("YAML"));
    }
}

#[test]
fn one_gateway_gets_grants_for_certificates_of_other_namespaces() {
    let texts: Vec<String> = APPLICATIONS.iter().map(|name| text(name)).collect();
    let all = converted(&texts, Some(Name::new("edge", "public")), true);
    compare("all-with-one-gateway.golden", &all.yaml().expect("YAML"));
    let kinds = |kind: &str| all.objects.iter().filter(|it| it.object["kind"] == kind).count();
    assert_eq!(kinds("Gateway"), 1);
    assert_eq!(kinds("ReferenceGrant"), 3, "blog, argocd, login");
}

#[test]
fn output_survives_a_round_trip() {
    let texts: Vec<String> = APPLICATIONS.iter().map(|name| text(name)).collect();
    let all = converted(&texts, None, true);
    let yaml = all.yaml().expect("YAML");
    let read: Vec<serde_json::Value> = serde_saphyr::from_multiple(&yaml).expect("YAML");
    let written: Vec<_> = all.objects.into_iter().map(|it| it.object).collect();
    assert_eq!(read, written);
}

#[test]
fn text_of_an_annotation_cannot_leave_its_comment() {
    let text = text("grafana").replace("/$2\n", "\"/$1\\nkind: Secret\\r---\"\n");
    let yaml = converted(&[text], None, false).yaml().expect("YAML");
    assert!(yaml.contains("# kind: Secret"), "{yaml}");
    assert!(yaml.lines().all(|line| !line.starts_with("kind: Secret")), "{yaml}");
    serde_saphyr::from_multiple::<serde_json::Value>(&yaml).expect("YAML");
}

#[test]
fn many_hosts_and_paths_split_gateways_and_routes() {
    let rule = |host: usize| {
        let paths: Vec<String> = (0..20)
            .map(|path| {
                format!("{{path: /p{path}, pathType: Exact, backend: {{service: {{name: a, port: {{number: 80}}}}}}}}")
            })
            .collect();
        format!("  - {{host: h{host}.example, http: {{paths: [{}]}}}}\n", paths.join(", "))
    };
    let rules: String = (0..40).map(rule).collect();
    let text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: many, namespace: a}}\nspec:\n  \
         ingressClassName: nginx\n  rules:\n{rules}"
    );
    let found = converted(&[text], None, false);
    let of = |kind: &str| found.objects.iter().filter(move |it| it.object["kind"] == kind).collect::<Vec<_>>();
    assert_eq!(of("Gateway").len(), 2);
    assert_eq!(of("HTTPRoute").len(), 80);
    let most = of("HTTPRoute").iter().filter_map(|it| it.object["spec"]["rules"].as_array()).map(Vec::len).max();
    assert_eq!(most, Some(16));
}
