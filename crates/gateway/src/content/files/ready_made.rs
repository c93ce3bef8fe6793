//! `gzip_static`, `brotli_static`, `zstd_static`: serves a compressed form from a file beside the requested one.

use crate::base::logs::error::{Level, errno, quoted};
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::plan::files::FilesPlan;
use crate::plan::filters::{Coding, GzipPlan};
use conf::model::ReadyMade;
use http1::Method;
use reactor::{FileKind, is_link_loop};
use std::cmp::Reverse;
use std::io::ErrorKind;

/// A compressed form that may lie beside a file.
#[derive(Clone, Copy)]
struct Form {
    coding: Coding,
    is_always: bool,
    /// What the client gives to it; `None` if it does not accept it.
    quality: Option<u16>,
}

impl Form {
    fn is_taken(self) -> bool {
        self.is_always || self.quality.is_some()
    }
}

impl Exchange {
    /// The compressed form of this path's file, if the client gets it.
    pub(super) async fn ready_made(&mut self, plan: &FilesPlan, path: &[u8]) -> Option<Reply> {
        let gzip = self.location().gzip.as_deref()?;
        if !matches!(self.routing.method(), Method::Get | Method::Head) {
            return None;
        }
        let (forms, vary) = (self.forms(gzip), gzip.vary);
        for form in forms {
            if (form.is_taken() || vary)
                && let Some(reply) = self.try_form(plan, path, form).await
            {
                return Some(reply);
            }
        }
        None
    }

    /// The forms of this location, the one that the client prefers first.
    fn forms(&self, gzip: &GzipPlan) -> Vec<Form> {
        let others = gzip.others.iter().map(|other| (other.coding, other.ready_made));
        let mut forms: Vec<Form> = others
            .chain([(Coding::Gzip, gzip.ready_made)])
            .filter(|(_, ready_made)| *ready_made != ReadyMade::Off)
            .map(|(coding, ready_made)| Form {
                coding,
                is_always: ready_made == ReadyMade::Always,
                quality: self.coding_quality(gzip, coding),
            })
            .collect();
        forms.sort_by_key(|form| Reverse(form.quality));
        forms
    }

    async fn try_form(&mut self, plan: &FilesPlan, path: &[u8], form: Form) -> Option<Reply> {
        let path = [path, form.coding.suffix()].concat();
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
        if !form.is_always {
            self.response.note_variant();
        }
        match file.status.kind {
            _ if !form.is_taken() => None,
            FileKind::Directory => None,
            FileKind::Other => {
                self.log_at(Level::Crit, &format!("\"{}\" is not a regular file", quoted(&path)));
                Some(Reply::error(404))
            }
            FileKind::Regular => Some(self.file_reply(plan, file, Some(form.coding.token()))),
        }
    }
}
