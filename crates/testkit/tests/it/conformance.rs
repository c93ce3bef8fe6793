//! The conformance tests of the Gateway API. `cargo xtask conformance` builds them and says in the environment what to run.

use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::kubernetes::{Channel, ControlPlane, FakeNode, Image, Network};
use testkit::{Authority, Running};

/// The class of the suite's Gateways.
const CLASS: &str = "holdfast";
/// The name that `holdfast ingress` has as a controller of that class.
const CONTROLLER: &str = "holdfast.dev/gateway";
/// Most Gateways at one time: the suite has fewer.
const GATEWAYS_MAX: u8 = 64;
/// The suite takes a quarter of an hour; one that hangs ends here.
const SUITE_MAX: Duration = Duration::from_hours(1);

#[test]
#[ignore = "it takes a quarter of an hour and needs Go: `cargo xtask conformance`"]
fn the_gateway_api_suite() {
    let Some(programs) = given("") else { return };
    let programs = Path::new(&programs);
    let network = Arc::new(Network::new_or_skip().expect("the suite takes root"));
    let plane = ControlPlane::start_with_controllers();
    plane.install_gateway_api(Channel::Experimental);
    let images = ["echo-basic", "coredns"].map(|name| Image::new(name, &programs.join(name), &[]));
    let node = FakeNode::start(&plane, &network, &[], &images);

    let Some(binary) = given("_BINARY") else {
        set_up_only(&plane, &programs.join("base.yaml"));
        return;
    };
    plane.apply(
        &json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
            "metadata": {"name": CLASS}, "spec": {"controllerName": CONTROLLER},
        })
        .to_string(),
    );
    let log = programs.join("holdfast.log");
    let gateway = start_gateway(&network, &plane, &binary, &log);
    // The suite reads the class once, for the features that the gateway claims.
    let what = format!("the class is accepted; the gateway's log is {}", log.display());
    plane.wait_for("gateway.networking.k8s.io/v1/gatewayclasses", "", CLASS, &what, |class| {
        let conditions = class["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|it| it["type"] == "Accepted" && it["status"] == "True")
    });
    let mut suite = Running::of(
        network
            .command(programs.join("suite"))
            .args(options())
            .env("KUBECONFIG", plane.kubeconfig())
            .current_dir(programs)
            .stdin(Stdio::null())
            .spawn()
            .expect("the suite starts"),
    );
    let deadline = Instant::now() + SUITE_MAX;
    while !suite.has_ended() {
        assert!(!gateway.has_ended(), "the gateway ended; its log is {}", log.display());
        assert!(Instant::now() < deadline, "the suite did not end in {SUITE_MAX:?}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
    let ended = suite.wait();
    drop(node);
    assert!(ended.success(), "the suite ended with {ended}; what Holdfast said is in {}", log.display());
}

fn given(name: &str) -> Option<String> {
    std::env::var(format!("HOLDFAST_CONFORMANCE{name}")).ok()
}

fn options() -> Vec<String> {
    let mut options = vec![
        "-test.v".to_owned(),
        "-test.timeout=1h".to_owned(),
        format!("-gateway-class={CLASS}"),
        "-organization=holdfast".to_owned(),
        "-project=holdfast".to_owned(),
        "-url=https://holdfast.dev".to_owned(),
        "-contact=@holdfast".to_owned(),
        format!("-version={}", env!("CARGO_PKG_VERSION")),
        format!("-usable-address={}", address(GATEWAYS_MAX)),
        format!("-unusable-address={}", address(GATEWAYS_MAX + 1)),
        // Everything ends with the control plane.
        "-cleanup-base-resources=false".to_owned(),
    ];
    for (flag, name) in [
        ("conformance-profiles", "_PROFILES"),
        ("supported-features", "_FEATURES"),
        ("run-test", "_TEST"),
        ("report-output", "_REPORT"),
    ] {
        options.extend(given(name).filter(|value| !value.is_empty()).map(|value| format!("-{flag}={value}")));
    }
    if let Some(parent) = given("_REPORT").as_deref().and_then(|report| Path::new(report).parent()) {
        fs::create_dir_all(parent).expect("the folder of the report");
    }
    options.extend(given("_OPTIONS").unwrap_or_default().lines().map(str::to_owned));
    options
}

/// The suite's own objects, and all of its Pods ready.
fn set_up_only(plane: &ControlPlane, base: &Path) {
    let text = fs::read_to_string(base).expect("`cargo xtask conformance` writes it");
    plane.apply(&text.replace("{GATEWAY_CLASS_NAME}", CLASS));
    let authority = Authority::new("conformance");
    for deployment in plane.list("apps/v1/deployments", "") {
        write_certificates(plane, &authority, &deployment);
    }
    for deployment in plane.list("apps/v1/deployments", "") {
        let [namespace, name] =
            ["namespace", "name"].map(|key| deployment["metadata"][key].as_str().expect("a string"));
        let wanted = deployment["spec"]["replicas"].clone();
        plane.wait_for("apps/v1/deployments", namespace, name, "all of its Pods are ready", |deployment| {
            deployment["status"]["readyReplicas"] == wanted
        });
    }
}

/// Certificates that the suite makes itself, for the Pods that wait for them.
fn write_certificates(plane: &ControlPlane, authority: &Authority, deployment: &Value) {
    let namespace = deployment["metadata"]["namespace"].as_str().expect("a string");
    for volume in deployment["spec"]["template"]["spec"]["volumes"].as_array().into_iter().flatten() {
        let (resource, name, object) = if let Some(name) = volume["secret"]["secretName"].as_str() {
            let issued = authority.issue(&["abc.example.com"]);
            ("v1/secrets", name, json!({"stringData": {"tls.crt": issued.chain, "tls.key": issued.key}}))
        } else if let Some(name) = volume["configMap"]["name"].as_str() {
            ("v1/configmaps", name, json!({"data": {"ca.crt": authority.pem()}}))
        } else {
            continue;
        };
        if plane.get(resource, namespace, name).is_none() {
            let mut object = object;
            object["metadata"] = json!({"name": name});
            plane.create(resource, namespace, &object);
        }
    }
}

/// An address of the pool, if the number is not above [`GATEWAYS_MAX`].
fn address(number: u8) -> String {
    format!("10.255.0.{number}")
}

fn start_gateway(network: &Network, plane: &ControlPlane, binary: &str, log: &PathBuf) -> Running {
    let log = File::create(log).expect("a log");
    // Gateways of the suite have the same ports and hostnames, so each needs an address of its own.
    let pool: Vec<String> = (1..=GATEWAYS_MAX).map(address).collect();
    for address in &pool {
        let added = network.command("ip").args(["address", "add", &format!("{address}/32"), "dev", "lo"]).status();
        assert!(added.expect("ip runs").success(), "{address} cannot be added");
    }
    let mut command: Command = network.command(binary);
    command.arg("ingress").arg("--kubeconfig").arg(plane.kubeconfig());
    command.args(["--gateway-controller-name", CONTROLLER, "--gateway-address-pool", &pool.join(",")]);
    command.args(["--listen-address", &network.address().to_string()]);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
    Running::of(command.spawn().expect("the program starts"))
}
