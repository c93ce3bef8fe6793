//! OpenTelemetry's own collector, made by its builder of the parts that the tests use: the receiver of OTLP, and an exporter that
//! passes spans on as JSON over HTTP.

use super::go::Go;
use crate::workspace::run;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The name under `target/peers/bin`.
pub(super) const NAME: &str = "otelcol";
/// The version that the tests are written against.
pub(super) const VERSION: &str = "v0.145.0";
/// The version of its parts that count for themselves.
const STABLE: &str = "v1.51.0";

/// Builds it into `bin`.
pub(super) fn build(go: &Go, home: &Path, bin: &Path) -> Result<()> {
    let own = go.folder(NAME)?;
    let module = format!("go.opentelemetry.io/collector/cmd/builder@{VERSION}");
    run(go.command(home).args(["install", "-trimpath", &module]).env("GOBIN", &own))
        .with_context(|| format!("cannot build the collector's builder; `go install {module}` by hand shows why"))?;
    let parts = own.join("parts.yaml");
    fs::write(&parts, manifest(go.program(), &own.join("made")))?;
    let mut builder = Command::new(own.join("builder"));
    go.set_up(builder.current_dir(home));
    run(builder.arg("--config").arg(&parts)).context("cannot build the collector")?;
    fs::copy(own.join("made").join(NAME), bin.join(NAME)).map(drop).context("cannot copy the collector")
}

fn manifest(go: &Path, out: &Path) -> String {
    format!(
        "dist:\n  name: {NAME}\n  module: holdfast.test/{NAME}\n  go: {}\n  output_path: {}\n\
         receivers:\n  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver {VERSION}\n\
         exporters:\n  - gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter {VERSION}\n\
         providers:\n  - gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider {STABLE}\n  \
         - gomod: go.opentelemetry.io/collector/confmap/provider/envprovider {STABLE}\n",
        go.display(),
        out.display()
    )
}
