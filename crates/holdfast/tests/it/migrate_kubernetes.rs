//! `holdfast migrate kubernetes` from the command line: its report, exit codes and output, with manifests of applications.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::kubernetes::ControlPlane;

fn applications() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ingress/tests/it/applications")
}

fn migrate(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.current_dir(applications()).args(["migrate", "kubernetes"]).args(words).output().expect("it starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_report_of_typical_applications_is_the_golden_one() {
    let files = ["argocd.yaml", "canary.yaml", "grafana.yaml", "keycloak.yaml", "wordpress.yaml"];
    let found = migrate(&[&files[..], &["--full"]].concat());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/migrate_kubernetes.golden");
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        fs::write(&golden, text(&found)).expect("written");
    }
    assert_eq!(text(&found), fs::read_to_string(&golden).unwrap_or_default(), "HOLDFAST_BLESS=1 writes it anew");
}

#[test]
fn a_refused_ingress_ends_with_three() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = fs::read_to_string(applications().join("grafana.yaml")).expect("a file");
    let text = text.replace("proxy-read-timeout: \"3600\"", "enable-modsecurity: \"true\"");
    fs::write(folder.path().join("a.yml"), text).expect("written");
    let found = migrate(&[folder.path().to_str().expect("text"), "--json"]);
    assert_eq!(found.status.code(), Some(3));
    let document: Value = serde_json::from_slice(&found.stdout).expect("JSON");
    let all = document.to_string();
    assert!(all.contains("Refused") && all.contains("enable-modsecurity"), "{all}");
}

#[test]
fn a_canary_pair_ends_with_zero() {
    let found = migrate(&["canary.yaml"]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found));
    assert!(text(&found).contains("shop/of-traefik"), "{}", text(&found));
}

#[test]
fn without_an_ingress_of_the_class_it_fails() {
    let found = migrate(&["canary.yaml", "--class", "haproxy"]);
    assert_eq!(found.status.code(), Some(1));
    let message = String::from_utf8_lossy(&found.stderr);
    assert!(message.contains("no Ingress of the class \"haproxy\""), "{message}");
    assert_eq!(migrate(&["no-such-file.yaml"]).status.code(), Some(1));
    assert_eq!(migrate(&[]).status.code(), Some(2));
}

#[test]
fn an_api_server_accepts_the_written_gateway_api() {
    let plane = ControlPlane::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gateway.yaml");
    plane.apply_namespaces(&["argocd", "blog", "edge", "login", "monitoring", "shop"]);
    for extra in [&[][..], &["--gateway", "edge/public", "--experimental"]] {
        let words = [&[".", "--gateway-api", file.to_str().expect("text")], extra].concat();
        let found = migrate(&words);
        assert!(matches!(found.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&found.stderr));
        let mut apply = plane.kubectl();
        let output = apply.args(["apply", "--dry-run=server", "-f"]).arg(&file).output().expect("kubectl starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
