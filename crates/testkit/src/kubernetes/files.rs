//! The files of a control plane: certificates, keys, tokens and kubeconfigs.

use crate::Authority;
use rcgen::KeyPair;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Who may do everything.
pub(super) const ADMIN_TOKEN: &str = "admin-token";

/// The folder of a control plane, and the authority of its certificate.
pub(super) struct Files {
    folder: PathBuf,
    authority: Authority,
}

impl Files {
    /// Writes what the API server starts with.
    pub(super) fn write(folder: &Path) -> Self {
        let authority = Authority::new("holdfast-test-kubernetes");
        authority.issue(&["kubernetes", "kubernetes.default.svc", "localhost", "127.0.0.1"]).write(folder, "server");
        let key = KeyPair::generate().unwrap();
        fs::write(folder.join("accounts.key"), key.serialize_pem()).unwrap();
        fs::write(folder.join("accounts.pub"), key.public_key_pem()).unwrap();
        fs::write(folder.join("tokens.csv"), format!("{ADMIN_TOKEN},admin,1,\"system:masters\"\n")).unwrap();
        Self { folder: folder.to_owned(), authority }
    }

    /// A file of the folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The authority that issued the API server's certificate, in PEM.
    pub(super) fn authority_pem(&self) -> String {
        self.authority.pem()
    }

    /// Writes `NAME.kubeconfig` for the bearer of a token. A program that reads it at any time reads all of it.
    pub(super) fn kubeconfig(&self, name: &str, port: u16, token: &str, namespace: &str) -> PathBuf {
        use base64::Engine as _;
        let authority = base64::engine::general_purpose::STANDARD.encode(self.authority_pem());
        // JSON is YAML.
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": authority,
            }}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name, "namespace": namespace}}],
        });
        let (whole, partial) = (self.file(&format!("{name}.kubeconfig")), self.file(&format!("{name}.partial")));
        fs::write(&partial, format!("{text:#}\n")).unwrap();
        fs::rename(&partial, &whole).unwrap();
        whole
    }
}
