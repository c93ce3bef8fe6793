//! `cargo xtask manifests`: renders `packaging/kubernetes/holdfast*.yaml` from the chart, so that the plain manifests and the
//! chart cannot differ. A test in `holdfast` (`ingress_chart`) fails if a file is outdated.

use crate::workspace::{Workspace, find_program, output_of};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The chart.
pub(crate) const CHART: &str = "packaging/helm/holdfast";
const FOLDER: &str = "packaging/kubernetes";
/// The first line of a rendered file: the command follows. The test reads it, too.
const COMMAND: &str = "# Rendered by `cargo xtask manifests`: ";

/// A Helm that Go's module proxy gave believes in a version of years ago.
const KUBERNETES: &str = "--kube-version=1.34.0";

/// File, and arguments of `helm template`. Both begin with the namespace, which Helm does not render.
const FILES: [(&str, &[&str]); 3] = [
    ("holdfast.yaml", &[]),
    (
        "holdfast-gateway-api.yaml",
        &["--set=controller.gatewayAPI.enabled=true", "--set=controller.gatewayClassResource.enabled=true"],
    ),
    // With a certificate of cert-manager: one that Helm makes would be a key in a public file.
    (
        "holdfast-admission-webhook.yaml",
        &[
            "--set=controller.admissionWebhooks.enabled=true",
            "--set=controller.admissionWebhooks.certManager.enabled=true",
        ],
    ),
];

const NAMESPACE: &str = "apiVersion: v1
kind: Namespace
metadata:
  name: holdfast
  labels:
    # The Pods need no more than the strictest profile allows.
    pod-security.kubernetes.io/enforce: restricted
";

/// Runs the task.
pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    let helm = helm(workspace)?;
    for (file, arguments) in FILES {
        let mut command = Command::new(&helm);
        command
            .current_dir(&workspace.root)
            .args(["template", "holdfast", CHART, "--namespace=holdfast", KUBERNETES])
            .args(arguments);
        let words = ["helm template holdfast", CHART, "--namespace=holdfast", KUBERNETES]
            .into_iter()
            .chain(arguments.iter().copied());
        let words: Vec<&str> = words.collect();
        let text = format!("{COMMAND}{}\n{NAMESPACE}{}", words.join(" "), output_of(&mut command)?);
        super::docs::write_page(workspace, &format!("{FOLDER}/{file}"), &text)?;
    }
    Ok(())
}

fn helm(workspace: &Workspace) -> Result<PathBuf> {
    let peers = std::env::var_os("HOLDFAST_PEERS").map_or_else(|| workspace.target("peers/bin"), PathBuf::from);
    let own = peers.join("helm");
    if own.is_file() {
        return Ok(own);
    }
    find_program("helm").context("no helm here: `cargo xtask peers` builds it")
}

/// The files that the chart has from other folders of `packaging`: path in the chart, and their text.
pub(crate) fn shared_files(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    let rules = "packaging/prometheus/holdfast.rules.yml";
    let text = fs::read_to_string(workspace.root.join(rules)).with_context(|| format!("cannot read {rules}"))?;
    Ok(vec![(format!("{CHART}/files/holdfast.rules.yml"), text)])
}
