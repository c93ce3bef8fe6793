//! `gzip_static`: serves the compressed form from a file beside the requested one.

use crate::base::logs::error::{Level, errno, quoted};
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::plan::files::FilesPlan;
use conf::model::ReadyMade;
use http1::Method;
use reactor::{FileKind, is_link_loop};
use std::io::ErrorKind;

impl Exchange {
    /// The compressed form of this path's file, if the client gets it.
    pub(super) async fn ready_made(&mut self, plan: &FilesPlan, path: &[u8]) -> Option<Reply> {
        let gzip = self.location().gzip.as_deref().filter(|gzip| gzip.ready_made != ReadyMade::Off)?;
        if !matches!(self.routing.method, Method::Get | Method::Head) {
            return None;
        }
        let is_always = gzip.ready_made == ReadyMade::Always;
        let (is_taken, vary) = (is_always || self.takes_gzip(gzip), gzip.vary);
        if !is_taken && !vary {
            return None;
        }
        let path = [path, b".gz"].concat();
        let file = match self.open(&path).await {
            Ok(file) => file,
            Err(error) => {
                let level = match error.kind() {
                    ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => return None,
                    ErrorKind::PermissionDenied => Level::Error,
                    _ if is_link_loop(&error) => Level::Error,
                    _ => Level::Crit,
                };
                self.log_at(
                    level,
                    &format!("{} \"{}\" failed ({})", self.opening_call(), quoted(&path), errno(&error)),
                );
                return None;
            }
        };
        // `Vary` is also due if this client gets the uncompressed form.
        self.response.varies = !is_always;
        match file.status.kind {
            _ if !is_taken => None,
            FileKind::Directory => None,
            FileKind::Other => {
                self.log_at(Level::Crit, &format!("\"{}\" is not a regular file", quoted(&path)));
                Some(Reply::error(404))
            }
            FileKind::Regular => Some(self.file_reply(plan, file, Some("gzip"))),
        }
    }
}
