//! The last known state as a file, for a container that restarts while the API server is away. The directory is a
//! memory-backed `emptyDir`: it has Secrets, so files are 0600 and are replaced as a whole.

use crate::kinds;
use ingress::{Cluster, Kind};
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The file below the directory.
const FILE: &str = "state.json";
/// The form of the file; a file of another form is not read.
const FORM: u64 = 1;
/// Largest file: 20,000 endpoints and 5,000 routes need about 20 MB. The directory is memory of the container.
const BYTES_MAX: u64 = 256 << 20;

/// Writes the objects.
pub(crate) fn save(directory: &Path, cluster: &Cluster) -> io::Result<()> {
    let mut objects = Map::new();
    for kind in Kind::ALL {
        let all = kinds::values(cluster, kind).map_err(io::Error::other)?;
        if !all.is_empty() {
            objects.insert(kind.word().to_owned(), Value::Array(all));
        }
    }
    let text = serde_json::to_vec(&json!({"form": FORM, "objects": objects})).map_err(io::Error::other)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("the state has {} bytes, and at most {BYTES_MAX} are kept", text.len())));
    }
    let (path, temporary) = (directory.join(FILE), directory.join(format!("{FILE}.new")));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&text)?;
    // No fsync: the directory is memory, and a torn file is one that was never renamed.
    std::fs::rename(&temporary, &path)
}

/// Reads the objects, as the API server would give them. `None`: there is no file.
pub(crate) fn load(directory: &Path) -> io::Result<Option<Vec<(Kind, Value)>>> {
    let file = match File::open(directory.join(FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("the file is too large"));
    }
    let mut state: Value = serde_json::from_slice(&text).map_err(io::Error::other)?;
    if state["form"] != FORM {
        return Err(io::Error::other("the file is of another version"));
    }
    let mut found = Vec::new();
    // In this order, objects come before the Secrets that they name.
    for kind in
        Kind::ALL.into_iter().filter(|kind| !kinds::is_kept_if_named(*kind)).chain([Kind::ConfigMap, Kind::Secret])
    {
        if let Value::Array(all) = state["objects"][kind.word()].take() {
            found.extend(all.into_iter().map(|object| (kind, object)));
        }
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::References;
    use crate::store::Store;
    use ingress::Name;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn saved_state_returns_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(load(folder.path()).unwrap().is_none());
        let mut store = Store::new("p", References::new());
        let ingress =
            json!({"metadata": {"namespace": "shop", "name": "front"}, "spec": {"tls": [{"secretName": "cert"}]}});
        store.put(Kind::Ingress, ingress).unwrap();
        let secret = json!({"metadata": {"namespace": "shop", "name": "cert"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "YQ=="}});
        store.put(Kind::Secret, secret).unwrap();
        save(folder.path(), &store.cluster).unwrap();
        let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut restored = Store::new("p", References::new());
        for (kind, object) in load(folder.path()).unwrap().unwrap() {
            restored.put(kind, object).unwrap();
        }
        let name = Name::new("shop", "cert");
        assert_eq!(restored.cluster.secrets[&name], store.cluster.secrets[&name]);
        assert_eq!(restored.cluster.ingresses, store.cluster.ingresses);
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{}", "[1]", r#"{"form": 2, "objects": {}}"#] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            assert!(load(folder.path()).is_err(), "{text}");
        }
        std::fs::write(folder.path().join(FILE), r#"{"form": 1, "objects": {"Service": 7, "Nonsense": []}}"#).unwrap();
        assert!(load(folder.path()).unwrap().unwrap().is_empty());
    }
}
