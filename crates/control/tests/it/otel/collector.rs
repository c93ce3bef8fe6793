//! The collector as a process: it ends when it is dropped.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Running, peer_or_skip};

pub(super) struct Collector {
    running: Running,
    pub(super) endpoint: String,
}

impl Collector {
    /// One of gRPC in clear that accepts everything; `None`: it is not installed.
    pub(super) fn start() -> Option<Self> {
        Self::refusing("")
    }

    /// One that refuses the first calls with these codes.
    pub(super) fn refusing(codes: &str) -> Option<Self> {
        Self::with("grpc", codes, &[], |port| format!("127.0.0.1:{port}"))
    }

    /// One of another kind.
    pub(super) fn with(
        kind: &str,
        codes: &str,
        pair: &[PathBuf],
        endpoint: impl FnOnce(u16) -> String,
    ) -> Option<Self> {
        let python = peer_or_skip(&["python-otlp"])?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/otel/collector.py");
        let mut command = Command::new(python);
        let running = Running::start(command.arg(script).args([kind, codes]).args(pair));
        let port = running.wait_for_output("").parse().expect("it prints its port");
        Some(Self { running, endpoint: endpoint(port) })
    }

    /// The next call that it accepts.
    #[track_caller]
    pub(super) fn call(&self) -> Value {
        serde_json::from_str(&self.running.wait_for_output("")).unwrap()
    }

    /// Whether a call has come that was not taken.
    pub(super) fn has_more(&self) -> bool {
        self.running.next_output().is_some()
    }
}
