//! The state directory of an issuer: the account's key and URL, certificates with their keys. Each file is written
//! under another name, synced, and renamed. Other processes of the same configuration may use the same directory, one
//! at a time.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const ACCOUNT_KEY: &str = "account.key";
const ACCOUNT_URL: &str = "account.url";
const LOCK: &str = "lock";

/// The state directory of an issuer, if it has one.
#[derive(Debug, Clone)]
pub(crate) struct Store(Option<PathBuf>);

/// Permission to order, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "closing it unlocks")] Option<File>);

/// A stored account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptAccount {
    /// The private key in PEM.
    pub(crate) key_pem: Vec<u8>,
    /// Its URL at the authority, if known.
    pub(crate) url: Option<String>,
}

impl Store {
    pub(crate) fn new(directory: Option<&Path>) -> Self {
        Self(directory.map(Path::to_owned))
    }

    /// Locks the directory. `None`: another process is ordering.
    pub(crate) fn lock(&self) -> io::Result<Option<Lock>> {
        let Some(directory) = &self.0 else { return Ok(Some(Lock(None))) };
        // Usually the master has created it; a process without a master creates it here.
        let _ = DirBuilder::new().mode(0o700).create(directory);
        let path = directory.join(LOCK);
        let file = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(Some(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The stored account. Its URL is valid only for the authority where it was created; `directory` is the URL of that
    /// authority's directory.
    pub(crate) fn account(&self, directory: &str) -> Option<KeptAccount> {
        let key_pem = self.read(ACCOUNT_KEY)?;
        let text = self.read(ACCOUNT_URL).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let mut lines = text.lines();
        let url = lines.next().filter(|url| !url.is_empty()).map(str::to_owned);
        // nginx's module writes only one line.
        let is_here = lines.next().is_none_or(|made_at| made_at == directory);
        Some(KeptAccount { key_pem, url: url.filter(|_| is_here) })
    }

    /// Stores an account.
    pub(crate) fn keep_account(&self, key_pem: &[u8], url: &str, directory: &str) -> io::Result<()> {
        // The key comes first: without it the URL is useless, and the key can find the URL again.
        self.write(ACCOUNT_KEY, key_pem)?;
        self.write(ACCOUNT_URL, format!("{url}\n{directory}\n").as_bytes())
    }

    /// The authority does not know the account: its URL must not be used again.
    pub(crate) fn forget_account_url(&self) {
        if let Some(directory) = &self.0 {
            // If the file cannot be removed, the next attempt fails in the same way and logs it.
            let _ = std::fs::remove_file(directory.join(ACCOUNT_URL));
        }
    }

    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.0.as_ref()?.join(name)).ok()
    }

    /// Writes a file that only its owner can read.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let Some(directory) = &self.0 else { return Ok(()) };
        let (path, new) = (directory.join(name), directory.join(format!("{name}.new")));
        // A process that died may have left its file.
        let _ = std::fs::remove_file(&new);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        File::open(directory)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn files_are_the_owner_s_alone_and_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(Some(folder.path()));
        assert_eq!(store.account("https://ca/dir"), None);
        std::fs::write(folder.path().join("account.key.new"), "left by one that died").unwrap();
        store.keep_account(b"key", "https://ca/1", "https://ca/dir").unwrap();
        let mode = std::fs::metadata(folder.path().join("account.key")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let kept = |url: Option<&str>| Some(KeptAccount { key_pem: b"key".to_vec(), url: url.map(str::to_owned) });
        assert_eq!(store.account("https://ca/dir"), kept(Some("https://ca/1")));
        assert_eq!(store.account("https://other/dir"), kept(None));
        store.forget_account_url();
        assert_eq!(store.account("https://ca/dir"), kept(None));
        assert!(!folder.path().join("account.key.new").exists());
    }

    #[test]
    fn one_process_orders_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (Store::new(Some(folder.path())), Store::new(Some(folder.path())));
        let held = one.lock().unwrap();
        assert!(held.is_some() && other.lock().unwrap().is_none());
        drop(held);
        assert!(other.lock().unwrap().is_some());
    }
}
