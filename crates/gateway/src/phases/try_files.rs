//! `try_files`: the first of several paths that exists becomes the URI; otherwise the request goes to the last one.
//! Called before a location's content.

use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::step::{Redirect, Step};
use crate::exchange::trace::{Event, Tracer};
use crate::exchange::view::ExchangeView;
use crate::plan::files::Alias;
use crate::plan::location::{TryFallbackPlan, TryFilesPlan};
use reactor::FileKind;
use rules::uri::split_args;
use std::io::ErrorKind;

impl Exchange {
    /// Looks for the first existing path. `None`: it is the URI now, and the location's content is next.
    pub(crate) async fn try_files<T: Tracer>(&mut self, plan: &TryFilesPlan, trace: T) -> Option<Step> {
        if let Err(reply) = self.check_alias() {
            return Some(Step::Reply(reply));
        }
        for candidate in &plan.tries {
            let mut uri = Vec::new();
            candidate.path.write(&ExchangeView::of(self), &mut uri);
            let is_fixed = candidate.path.as_constant().is_some();
            self.cut_alias(is_fixed, &mut uri);
            let mut path = std::mem::take(&mut self.request.path);
            path.clear();
            self.location().root.write_tried(&ExchangeView::of(self), &uri, &mut path);
            let wanted = if candidate.directory { FileKind::Directory } else { FileKind::Regular };
            let safe = self.location().root.holds(&path);
            let opened = if safe { self.open(&path).await } else { Err(ErrorKind::NotFound.into()) };
            let found = match &opened {
                Ok(file) => file.status.kind == wanted,
                Err(error) => error.kind() == ErrorKind::PermissionDenied && self.is_there(&path, wanted).await,
            };
            trace.note(self, Event::TriedFile { path: &path, directory: candidate.directory, found });
            match opened {
                Ok(file) if found && !candidate.directory => self.prefetch(path, file),
                // Without the slash, as in nginx: `/dir` is redirected to `/dir/`, so that relative links work.
                _ => self.request.path = path,
            }
            if found {
                self.take_found(uri, candidate.directory);
                return None;
            }
        }
        trace.note(self, Event::FellBack(&plan.fallback));
        Some(match &plan.fallback {
            TryFallbackPlan::Status(status) => Step::Reply(Reply::error(*status)),
            TryFallbackPlan::Named(name) => Step::Redirect(Redirect::Named(name.to_vec())),
            TryFallbackPlan::Uri(template) => {
                let mut target = Vec::new();
                template.write(&ExchangeView::of(self), &mut target);
                self.cut_alias(template.as_constant().is_some(), &mut target);
                let (uri, args) = split_args(&target);
                Step::Redirect(Redirect::Uri { uri: uri.to_vec(), args: args.map(<[u8]>::to_vec) })
            }
        })
    }

    /// Below an `alias`, removes the location's prefix from a path with variables, as in nginx. This includes the
    /// fallback, which is therefore written `/name//name/page`. A path without variables stays unchanged.
    fn cut_alias(&self, is_fixed: bool, path: &mut Vec<u8>) {
        let Some(Alias::Prefix(length)) = self.location().root.alias else { return };
        let Some(prefix) = self.uri().get(..length) else { return };
        if !is_fixed && path.starts_with(prefix) {
            path.drain(..length);
        }
    }

    /// Makes the found path the URI.
    fn take_found(&mut self, mut path: Vec<u8>, is_directory: bool) {
        match self.location().root.alias {
            None => self.replace_uri(path),
            Some(Alias::Prefix(length)) => {
                path.splice(..0, self.uri().get(..length).unwrap_or_default().iter().copied());
                self.replace_uri(path);
            }
            // The alias replaces the whole URI; later lookups are below it.
            Some(Alias::Whole) if !is_directory => {
                self.replace_uri(path);
                self.routing.target.find_below_alias();
            }
            Some(Alias::Whole) => {}
        }
    }

    /// Replaces the URI; the arguments stay.
    fn replace_uri(&mut self, uri: Vec<u8>) {
        let args = self.args().map(<[u8]>::to_vec);
        self.request.uri = uri;
        self.routing.target.replace(args.is_some());
        self.request.args = args.unwrap_or_default();
    }
}
