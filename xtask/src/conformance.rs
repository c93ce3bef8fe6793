//! `cargo xtask conformance`: the Gateway API project's own conformance tests against `holdfast ingress`.
//!
//! It builds the suite, its echo server and the part of `CoreDNS` that it needs from Go modules, and has `testkit` run them beside
//! a real control plane and a fake node. The suite's report goes to `docs/conformance`.

use crate::peers::go::Go;
use crate::peers::{self, kubernetes::GATEWAY_API};
use crate::workspace::{FEATURES as FULL, Workspace, heading, run};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::PathBuf;

/// Options of `cargo xtask conformance`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program to test; without it only the suite's own objects are set up.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Build the program first, and test it.
    #[arg(long, conflicts_with = "binary")]
    build: bool,
    /// Run one test of the suite, by its short name; the report is not kept then.
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// Profiles to test.
    #[arg(long, value_name = "NAMES", default_value = "GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS")]
    profiles: String,
    /// Features to test, separated by commas; an empty list means those in the status of the gateway's class.
    #[arg(long, value_name = "NAMES", default_value = FEATURES)]
    features: String,
    /// Further options of the suite, after `--`.
    #[arg(last = true)]
    options: Vec<String>,
}

/// What the core of the profiles consists of.
const FEATURES: &str = "Gateway,ReferenceGrant,HTTPRoute,GRPCRoute,TLSRoute";

/// Sources of our module; the suite and the servers are in the modules that it requires.
const SOURCES: [(&str, &str); 4] = [
    ("go.mod", include_str!("peers/conformance/go.mod")),
    ("go.sum", include_str!("peers/conformance/go.sum")),
    ("conformance_test.go", include_str!("peers/conformance/conformance_test.go")),
    ("coredns/main.go", include_str!("peers/conformance/coredns/main.go")),
];

/// Runs the task.
pub(crate) fn run_task(workspace: &Workspace, args: &Args) -> Result<()> {
    let bin = peers::provide(workspace)?;
    let programs = build(workspace, &Go::of(&workspace.target("peers"), &bin)?)?;
    let report = workspace.root.join("docs/conformance").join(format!("gateway-api-{GATEWAY_API}.yaml"));
    heading("conformance tests of the Gateway API");
    let mut test = workspace.cargo();
    test.args(["test", "--package", "testkit", "--test", "it", "--locked"])
        .args(["conformance::", "--", "--ignored", "--nocapture"])
        .env("HOLDFAST_PEERS", &bin)
        .env("HOLDFAST_CONFORMANCE", &programs)
        .env("HOLDFAST_CONFORMANCE_PROFILES", &args.profiles)
        .env("HOLDFAST_CONFORMANCE_FEATURES", &args.features)
        .env("HOLDFAST_CONFORMANCE_OPTIONS", args.options.join("\n"));
    let binary = if args.build { Some(program(workspace)?) } else { args.binary.clone() };
    if let Some(binary) = binary {
        test.env("HOLDFAST_CONFORMANCE_BINARY", fs::canonicalize(binary).context("no such program")?);
    }
    match &args.test {
        Some(name) => test.env("HOLDFAST_CONFORMANCE_TEST", name),
        None => test.env("HOLDFAST_CONFORMANCE_REPORT", &report),
    };
    run(&mut test)
}

/// Builds Holdfast with all features.
fn program(workspace: &Workspace) -> Result<PathBuf> {
    run(workspace.cargo().args(["build", "--locked", "--package", "holdfast", "--features", FULL]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.root.join("target"), PathBuf::from);
    Ok(target.join("debug/holdfast"))
}

/// Builds the suite and its servers into the folder that it returns: two minutes the first time.
fn build(workspace: &Workspace, go: &Go) -> Result<PathBuf> {
    let (module, into) = (go.folder("conformance")?, workspace.target("conformance"));
    for (name, text) in SOURCES {
        let file = module.join(name);
        fs::create_dir_all(file.parent().expect("below the module"))?;
        fs::write(&file, text)?;
    }
    fs::create_dir_all(&into)?;
    let short = ["-trimpath", "-ldflags", "-s -w", "-o"];
    run(go.command(&module).args(["test", "-c"]).args(short).arg(into.join("suite")).arg("."))
        .context("cannot build the conformance tests")?;
    let servers = ["sigs.k8s.io/gateway-api/conformance/echo-basic", "./coredns"];
    run(go.command(&module).arg("build").args(short).arg(into.join("")).args(servers))
        .context("cannot build the servers of the conformance tests")?;
    let find = ["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api/conformance"];
    let source = crate::workspace::output_of(go.command(&module).args(find))?;
    fs::copy(PathBuf::from(source.trim()).join("base/manifests.yaml"), into.join("base.yaml"))?;
    Ok(into)
}
