//! `autoindex` and `random_index`: another thread reads the directory and makes the listing.

use crate::base::logs::error::{Level, errno, quoted};
use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::step::{Redirect, Step};
use crate::plan::files::ListingPlan;
use conf::model::ListFormat;
use rules::listing::{Entry, EntryKind, Listing, is_callback};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Entries of a directory that are listed: about 20 MB of listing, which is in memory as a whole. Larger directories
/// are refused.
const ENTRIES_MAX: usize = 100_000;

impl Exchange {
    /// The listing of a directory.
    pub(super) async fn listing(&mut self, plan: &ListingPlan, path: &[u8]) -> Reply {
        let offset = if plan.local_time { self.thread.clock.utc_offset_minutes() } else { 0 };
        let listing = match plan.format {
            ListFormat::Html => Listing::Html {
                exact_size: plan.exact_size,
                utc_offset_minutes: offset,
                is_utf8: self.with_charset(b"text/html").to_ascii_lowercase().ends_with(b"charset=utf-8"),
            },
            ListFormat::Json => Listing::Json,
            ListFormat::Jsonp => Listing::Jsonp,
            ListFormat::Xml => Listing::Xml,
        };
        let callback = match listing {
            Listing::Jsonp => {
                rules::variable::arg(self.args().unwrap_or_default(), b"callback").unwrap_or_default().to_vec()
            }
            _ => Vec::new(),
        };
        if !is_callback(&callback) {
            self.client_log(&format!("client sent invalid callback name: \"{}\"", quoted(&callback)));
            return Reply::error(400);
        }
        let media = listing.media_type(&callback);
        let (folder, uri) = (path.to_vec(), self.uri().to_vec());
        let read = self.offload(move || {
            let mut entries = entries_of(&folder)?;
            Ok(listing.write(&uri, &callback, &mut entries))
        });
        match read.await.flatten() {
            Ok(text) => Reply {
                status: 200,
                content_type: Some(media.as_bytes().into()),
                body: ReplyBody::Bytes(text),
                is_unmeasured: true,
                ..Reply::default()
            },
            Err(error) => self.unlisted(path, &error),
        }
    }

    /// `random_index`: a redirect to any file of the directory; `None` where it has none.
    pub(super) async fn random_index(&mut self) -> Option<Step> {
        let path = match self.path_of(None) {
            Ok(path) => path,
            Err(reply) => return Some(Step::Reply(reply)),
        };
        let folder = path.clone();
        let read = self.offload(move || entries_of(&folder)).await.flatten();
        let step = match read {
            Err(error) => Some(Step::Reply(self.unlisted(&path, &error))),
            Ok(entries) => {
                let files: Vec<_> = entries.into_iter().filter(|entry| entry.kind == EntryKind::File).collect();
                // Any number will do: the request id consists of random bytes.
                let place = usize::try_from(self.request_id() % files.len().max(1) as u128).unwrap_or_default();
                files.get(place).map(|file| {
                    let uri = [self.uri(), &file.name].concat();
                    Step::Redirect(Redirect::Uri { uri, args: self.args().map(<[u8]>::to_vec) })
                })
            }
        };
        self.request.path = path;
        step
    }

    fn unlisted(&self, path: &[u8], error: &io::Error) -> Reply {
        let (level, status) = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => (Level::Error, 404),
            ErrorKind::PermissionDenied => (Level::Error, 403),
            _ => (Level::Crit, 500),
        };
        let path = quoted(path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path));
        self.log_at(level, &format!("opendir() \"{path}\" failed ({})", errno(error)));
        Reply::error(status)
    }
}

/// The entries of a directory, except those with a name that begins with a dot.
fn entries_of(folder: &[u8]) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for found in fs::read_dir(Path::new(OsStr::from_bytes(folder)))? {
        let found = found?;
        let name = found.file_name().into_vec();
        if name.first() == Some(&b'.') {
            continue;
        }
        if entries.len() == ENTRIES_MAX {
            return Err(io::Error::new(ErrorKind::FileTooLarge, "more than 100,000 entries"));
        }
        // A symbolic link may be dangling.
        let metadata = match fs::metadata(found.path()) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::symlink_metadata(found.path()) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                metadata => metadata?,
            },
            metadata => metadata?,
        };
        entries.push(entry_of(name, &metadata));
    }
    Ok(entries)
}

fn entry_of(name: Vec<u8>, metadata: &Metadata) -> Entry {
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_file() => EntryKind::File,
        _ => EntryKind::Other,
    };
    Entry { name, kind, modified: metadata.mtime(), size: metadata.size() }
}
