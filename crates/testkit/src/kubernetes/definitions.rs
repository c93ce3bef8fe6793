//! The definitions of the Gateway API and of cert-manager, which `cargo xtask peers` takes from their Go modules.

use super::plane::ControlPlane;
use crate::peer_program;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A set of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// What clusters have.
    Standard,
    /// The same with fields and kinds that may still change.
    Experimental,
}

impl Channel {
    /// The folder with its files.
    ///
    /// # Panics
    /// If it is not there: `cargo xtask peers` fetches it.
    pub fn folder(self) -> PathBuf {
        let name = match self {
            Self::Standard => "standard",
            Self::Experimental => "experimental",
        };
        shared("gateway-api").join(name)
    }
}

/// A folder of definitions among the peers.
fn shared(name: &str) -> PathBuf {
    // `cargo xtask peers` puts it beside the folder of programs, where kubectl is.
    let bin = peer_program("kubectl");
    let folder = bin.with_file_name("..").join("share").join(name);
    assert!(folder.is_dir(), "no {} here: `cargo xtask peers` fetches it", folder.display());
    folder
}

impl ControlPlane {
    /// Installs the definitions of the Gateway API and waits until the API server serves them.
    ///
    /// # Panics
    /// If the server refuses one.
    pub fn install_gateway_api(&self, channel: Channel) {
        self.install(&channel.folder());
    }

    /// The same with the definitions of cert-manager. Its controllers are the peer `cert-manager`.
    ///
    /// # Panics
    /// If the server refuses one.
    pub fn install_cert_manager(&self) {
        self.install(&shared("cert-manager"));
    }

    fn install(&self, folder: &Path) {
        let mut apply = self.kubectl();
        let output = apply.args(["apply", "--server-side", "-f"]).arg(folder).output().expect("kubectl starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let definitions = "apiextensions.k8s.io/v1/customresourcedefinitions";
        for definition in self.list(definitions, "") {
            let name = definition["metadata"]["name"].as_str().expect("a name");
            self.wait_for(definitions, "", name, "the definition is established", is_established);
        }
    }
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|it| it["type"] == "Established" && it["status"] == "True")
}
