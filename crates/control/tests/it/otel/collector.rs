//! The collector as a process: it ends when it is dropped.

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use testkit::peer_or_skip;

pub(super) struct Collector {
    child: Child,
    pub(super) endpoint: String,
    lines: Receiver<String>,
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
        let mut child = command.arg(script).args([kind, codes]).args(pair).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = output.next().expect("it prints its port").unwrap().parse().unwrap();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            while let Some(Ok(line)) = output.next() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Some(Self { child, endpoint: endpoint(port), lines })
    }

    /// The next call that it accepts.
    #[track_caller]
    pub(super) fn call(&self) -> Value {
        let line = self.lines.recv_timeout(Duration::from_secs(30)).expect("spans are sent");
        serde_json::from_str(&line).unwrap()
    }

    /// Whether a call has come that was not taken.
    pub(super) fn has_more(&self) -> bool {
        self.lines.try_recv().is_ok()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
