//! The certificate of the admission webhook. Its files are a mounted Secret, which changes while the process runs.

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest file: the API server keeps Secrets of 1 MB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A certificate, its key, and the files that they come from.
pub(crate) struct Certificate {
    chain_file: PathBuf,
    key_file: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The contents of the files when they were read last, whether they could be used or not.
    read: Option<(Vec<u8>, Vec<u8>)>,
    config: Option<Arc<ServerConfig>>,
    trouble: Option<String>,
}

/// What a look at the files found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing new.
    Same,
    /// A new certificate is used from now on.
    Renewed,
    /// They cannot be used; the former certificate stays.
    Trouble(String),
}

impl Certificate {
    pub(crate) fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self { chain_file: certificate, key_file: key, state: Mutex::default() }
    }

    /// TLS with the present certificate; `None`: there was none yet.
    pub(crate) fn config(&self) -> Option<Arc<ServerConfig>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    /// Reads the files. The same trouble is reported once.
    pub(crate) fn look(&self) -> Look {
        let read = read(&self.chain_file).and_then(|chain| Ok((chain, read(&self.key_file)?)));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if read.as_ref().ok().is_some_and(|read| state.read.as_ref() == Some(read)) {
            return Look::Same;
        }
        let made = read.and_then(|read| {
            let made = tls(&read.0, &read.1);
            state.read = Some(read);
            made
        });
        match made {
            Ok(config) => {
                state.config = Some(Arc::new(config));
                state.trouble = None;
                Look::Renewed
            }
            Err(trouble) if state.trouble.as_ref() == Some(&trouble) => Look::Same,
            Err(trouble) => {
                state.trouble = Some(trouble.clone());
                Look::Trouble(trouble)
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let done = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut content));
    done.map(|_| content).map_err(|error| format!("{}: {error}", path.display()))
}

fn tls(certificate: &[u8], key: &[u8]) -> Result<ServerConfig, String> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| format!("the certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key: {error}"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?.with_no_client_auth();
    builder.with_single_cert(chain, key).map_err(|error| format!("the certificate and the key: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Authority;

    #[test]
    fn files_are_read_again_and_broken_ones_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("a.pem"), folder.path().join("a.key"));
        let kept = Certificate::new(certificate.clone(), key.clone());
        assert!(matches!(kept.look(), Look::Trouble(text) if text.contains("a.pem")));
        assert_eq!(kept.look(), Look::Same, "the same trouble is reported once");
        assert!(kept.config().is_none());
        let authority = Authority::new("webhook");
        let one = authority.issue(&["one.test"]);
        std::fs::write(&certificate, &one.chain).unwrap();
        std::fs::write(&key, &one.key).unwrap();
        assert_eq!((kept.look(), kept.look()), (Look::Renewed, Look::Same));
        let first = kept.config().expect("a certificate");
        let two = authority.issue(&["two.test"]);
        std::fs::write(&certificate, &two.chain).unwrap();
        assert!(matches!(kept.look(), Look::Trouble(_)), "the key is still that of the first one");
        assert!(Arc::ptr_eq(&first, &kept.config().expect("it stays")));
        std::fs::write(&key, &two.key).unwrap();
        assert_eq!(kept.look(), Look::Renewed);
        assert!(!Arc::ptr_eq(&first, &kept.config().expect("a certificate")));
        std::fs::write(&key, "").unwrap();
        assert!(matches!(kept.look(), Look::Trouble(text) if text.contains("the key")));
        assert!(kept.config().is_some());
    }
}
