//! The files that the configuration of a cluster names: values of Secrets and `ConfigMap`s, and the certificate that this
//! process made itself. No path of the file system is read, so no object can name one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conf::tree::Block;
use ingress::translation::FileSource;
use ingress::{Cluster, DEFAULT_CERTIFICATE, DEFAULT_KEY};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directive with a file that is read for requests, not with the configuration.
const READ_BY_WORKERS: &[u8] = b"auth_basic_user_file";

/// Contents by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClusterFiles(BTreeMap<PathBuf, Arc<[u8]>>);

impl ClusterFiles {
    /// The contents behind the paths of a translation. A path without a value is left out: reading it gives an error at the
    /// place that names it.
    pub(super) fn of(cluster: &Cluster, paths: &BTreeMap<String, FileSource>, own: &Self) -> Self {
        let mut files = own.0.clone();
        for (path, source) in paths {
            if let Some(content) = content(cluster, source) {
                files.insert(path.into(), content.into());
            }
        }
        Self(files)
    }

    /// A certificate for hosts without one, made for this process. No client trusts it; it shows that none is configured.
    pub(super) fn self_made() -> Result<Self, String> {
        let failed = |error: rcgen::Error| format!("no certificate could be made: {error}");
        let mut parameters = rcgen::CertificateParams::new(vec!["holdfast.invalid".to_owned()]).map_err(failed)?;
        let name = &mut parameters.distinguished_name;
        name.push(rcgen::DnType::CommonName, "Holdfast Ingress Controller Default Certificate");
        let key = rcgen::KeyPair::generate().map_err(failed)?;
        let certificate = parameters.self_signed(&key).map_err(failed)?;
        let files = [(DEFAULT_CERTIFICATE, certificate.pem()), (DEFAULT_KEY, key.serialize_pem())];
        Ok(Self(files.into_iter().map(|(path, text)| (path.into(), text.into_bytes().into())).collect()))
    }

    /// Writes the files that workers read themselves below a directory, and lets the tree name them there.
    pub(super) fn write_for_workers(&self, tree: &mut Block, directory: &Path) -> Result<(), String> {
        for line in &mut tree.directives {
            if let Some(block) = line.block.as_mut().filter(|block| has_files_of_workers(block)) {
                // Other trees may have the block, too.
                self.write_for_workers(Arc::make_mut(block), directory)?;
            }
            if line.name.value != READ_BY_WORKERS {
                continue;
            }
            for word in &mut line.args {
                let path = PathBuf::from(OsStr::from_bytes(&word.value));
                let Some((content, relative)) = self.0.get(&path).zip(path.strip_prefix("/").ok()) else { continue };
                let place = directory.join(relative);
                write(&place, content).map_err(|error| format!("{}: {error}", place.display()))?;
                word.value = place.into_os_string().into_vec().into();
            }
        }
        Ok(())
    }

    /// The paths with contents that differ from earlier ones, gone ones too.
    pub(super) fn changed(&self, before: &Self) -> Vec<PathBuf> {
        let new = self.0.iter().filter(|(path, content)| before.0.get(*path) != Some(content)).map(|(path, _)| path);
        let gone = before.0.keys().filter(|path| !self.0.contains_key(*path));
        new.chain(gone).cloned().collect()
    }
}

/// Whether a block, or one inside, names a file that workers read.
fn has_files_of_workers(block: &Block) -> bool {
    let mut lines = block.directives.iter();
    lines.any(|line| line.name.value == READ_BY_WORKERS || line.block.as_deref().is_some_and(has_files_of_workers))
}

impl conf::Loader for ClusterFiles {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let content = self.0.get(path).ok_or_else(|| io::Error::from_raw_os_error(nix::errno::Errno::ENOENT as i32))?;
        Ok(content.to_vec())
    }

    fn glob(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// Writes a file that only this user may read, if its content is another.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

fn content(cluster: &Cluster, source: &FileSource) -> Option<Vec<u8>> {
    let of_secret = |secret, key: &String| {
        let text = cluster.secrets.get(secret)?.data.get(key)?;
        STANDARD.decode(text.trim()).ok()
    };
    match source {
        FileSource::Secret(secret, key) => of_secret(secret, key),
        FileSource::ConfigMap(map, key) => Some(cluster.config_maps.get(map)?.data.get(key)?.clone().into_bytes()),
        FileSource::SecretPasswords(secret) => {
            let mut lines = Vec::new();
            for (user, text) in &cluster.secrets.get(secret)?.data {
                let password = STANDARD.decode(text.trim()).ok()?;
                // A value of several lines would bring users of its own.
                if !password.contains(&b'\n') {
                    lines.extend([user.as_bytes(), b":", password.as_slice(), b"\n"].concat());
                }
            }
            Some(lines)
        }
        FileSource::SecretJoined(secret, keys) => {
            let mut joined = Vec::new();
            for part in keys.iter().filter_map(|key| of_secret(secret, key)) {
                joined.extend(part);
                if joined.last() != Some(&b'\n') {
                    joined.push(b'\n');
                }
            }
            (!joined.is_empty()).then_some(joined)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::Loader as _;
    use ingress::Name;
    use ingress::objects::core::Secret;

    fn cluster(key: &str, value: &str) -> Cluster {
        let mut secret = Secret::default();
        secret.metadata.name = "cert".into();
        secret.data.insert(key.to_owned(), STANDARD.encode(value));
        let mut cluster = Cluster::default();
        ingress::cluster::insert(&mut cluster.secrets, secret);
        cluster
    }

    #[test]
    fn files_of_passwords_are_written_for_workers() {
        let source = FileSource::SecretPasswords(Name::new("", "cert"));
        let paths = BTreeMap::from([("/kubernetes/passwords/cert".to_owned(), source)]);
        let files = ClusterFiles::of(&cluster("user", "$apr1$x"), &paths, &ClusterFiles::default());
        let origin = ingress::tree::Origin(conf::source::FileId(0));
        let line = origin.line("auth_basic_user_file", ["/kubernetes/passwords/cert"]);
        let mut tree = origin.braces(vec![origin.block::<&str>("http", [], vec![line])]);
        let folder = tempfile::tempdir().unwrap();
        files.write_for_workers(&mut tree, folder.path()).unwrap();
        let written = folder.path().join("kubernetes/passwords/cert");
        assert_eq!(std::fs::read(&written).unwrap(), b"user:$apr1$x\n");
        let block = tree.directives[0].block.as_deref().unwrap();
        assert_eq!(block.directives[0].args[0].value, written.as_os_str().as_bytes());
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&written).unwrap()) & 0o777, 0o600);
    }

    #[test]
    fn only_values_of_objects_are_read() {
        let source = FileSource::Secret(Name::new("", "cert"), "tls.crt".into());
        let paths = BTreeMap::from([("/kubernetes/x".to_owned(), source)]);
        let own = ClusterFiles::self_made().expect("a certificate");
        let before = ClusterFiles::of(&cluster("tls.crt", "one"), &paths, &own);
        assert_eq!(before.clone().read(Path::new("/kubernetes/x")).unwrap(), b"one");
        assert!(before.clone().read(Path::new("/etc/passwd")).is_err());
        assert!(before.clone().read(Path::new(DEFAULT_KEY)).unwrap().starts_with(b"-----BEGIN"));
        let after = ClusterFiles::of(&cluster("tls.crt", "two"), &paths, &own);
        assert_eq!(after.changed(&before), [PathBuf::from("/kubernetes/x")]);
        let gone = ClusterFiles::of(&cluster("other", "two"), &paths, &own);
        assert_eq!(gone.changed(&before), [PathBuf::from("/kubernetes/x")]);
    }
}
