//! `proxy_store`: the body of a response on its way into a plain file. `content/proxy/save` decides which responses are
//! saved, and where; the relay hands over the bytes.

use crate::base::logs::error::{Level, errno, quoted};
use crate::base::saved_file::{SavedFile, SavedName};
use crate::exchange::Exchange;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

/// Bytes of a body that are written to a file at once; as for the files of a cache. They are held in memory until then.
const PIECE_BYTES: usize = 128 * 1024;

/// A response being saved.
pub(crate) struct Saving {
    name: SavedName,
    /// Bytes not yet written to the file.
    pending: Vec<u8>,
    written: u64,
    file: Option<SavedFile>,
    /// A write failed: the response goes on, and is not saved.
    failed: bool,
}

impl std::fmt::Debug for Saving {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Saving").field("name", &self.name).field("written", &self.written).finish_non_exhaustive()
    }
}

impl Saving {
    pub(crate) fn new(name: SavedName) -> Self {
        Self { name, pending: Vec::new(), written: 0, file: None, failed: false }
    }

    /// Takes a part of the body.
    pub(crate) fn push(&mut self, body: &[u8]) {
        if !self.failed {
            self.pending.extend_from_slice(body);
        }
    }

    /// Whether the pending bytes should be written now.
    pub(crate) fn is_due(&self) -> bool {
        self.pending.len() >= PIECE_BYTES
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pending.capacity() + self.name.path.as_os_str().len()
    }
}

impl Exchange {
    /// Writes the pending bytes of the body to the file, and waits for the write.
    pub(crate) async fn write_saved(&self, saving: &mut Saving) {
        let (file, pending) = (saving.file.take(), std::mem::take(&mut saving.pending));
        let (name, offload, offset) = (saving.name.clone(), self.thread.registry.offload.clone(), saving.written);
        let count = pending.len() as u64;
        let job = move || -> io::Result<(SavedFile, Vec<u8>)> {
            let file = file.map_or_else(|| SavedFile::create(&name, offload), Ok)?;
            file.write(offset, &pending)?;
            Ok((file, pending))
        };
        match self.offload(job).await.flatten() {
            Ok((file, mut pending)) => {
                pending.clear();
                saving.pending = pending;
                saving.written += count;
                saving.file = Some(file);
            }
            Err(error) => {
                saving.failed = true;
                self.save_failed(&saving.name, &error);
            }
        }
    }

    /// The body is complete: its file gets its name.
    pub(crate) async fn finish_saved(&self, saving: Box<Saving>) {
        let Saving { name, pending, written, file, failed } = *saving;
        if failed {
            return;
        }
        let (given, offload) = (name.clone(), self.thread.registry.offload.clone());
        let job = move || -> io::Result<()> {
            let file = file.map_or_else(|| SavedFile::create(&given, offload), Ok)?;
            file.write(written, &pending)?;
            file.finish(&given)
        };
        if let Err(error) = self.offload(job).await.flatten() {
            self.save_failed(&name, &error);
        }
    }

    fn save_failed(&self, name: &SavedName, error: &io::Error) {
        let path = quoted(name.path.as_os_str().as_bytes());
        self.log_at(
            Level::Crit,
            &format!("\"{path}\" cannot be written ({}); the response is not saved", errno(error)),
        );
    }
}
