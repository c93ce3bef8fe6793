//! The target of a request: as the client sent it, and as rewrites and internal redirects have changed it.

use crate::base::close::CloseReason;
use crate::downstream::request::Request;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::plan::listener::ListenerPlan;
use crate::plan::location::LocationId;
use crate::registry::tls_choice::server_named;
use http1::TargetForm;
use rules::captures::Captures;
use rules::uri::{ParsedTarget, parse_target};
use std::rc::Rc;
use tls::SessionFacts;

/// The present target of the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    pub(super) parsed: Option<ParsedTarget>,
    pub(super) server: u32,
    pub(super) location: Option<LocationId>,
    /// An internal redirect leads here, so `internal` locations may serve it.
    pub(super) internal: bool,
    /// An internal redirect has replaced the client's target: `$uri` is in `Request::uri`.
    pub(super) uri_replaced: bool,
    /// The redirect has brought arguments, which are in `Request::args`.
    pub(super) has_args: bool,
    /// The URI's bytes are nevertheless those of the client: only arguments were set.
    pub(super) uri_verbatim: bool,
    /// `try_files` has found the URI below an alias that replaces the whole URI.
    pub(super) uri_below_alias: bool,
    /// A program has rewritten the URI; a location must be found for it.
    pub(super) moved: bool,
    /// `rewrite … break`: the URI does not match the location's name any more.
    pub(super) name_is_stale: bool,
}

impl Target {
    /// The server of the request.
    pub(crate) fn server(&self) -> u32 {
        self.server
    }

    pub(crate) fn choose_server(&mut self, server: u32) {
        self.server = server;
    }

    /// The location, once one was found.
    pub(crate) fn location(&self) -> Option<LocationId> {
        self.location
    }

    pub(crate) fn enter(&mut self, location: LocationId) {
        self.location = Some(location);
    }

    /// A location must be found anew.
    pub(crate) fn leave_location(&mut self) {
        self.location = None;
    }

    /// The client's target, unless its head was refused.
    pub(crate) fn parsed(&self) -> Option<&ParsedTarget> {
        self.parsed.as_ref()
    }

    /// An internal redirect leads here: `internal` locations may serve it.
    pub(crate) fn is_internal(&self) -> bool {
        self.internal
    }

    /// `$uri` is in `Request::uri`.
    pub(crate) fn is_uri_replaced(&self) -> bool {
        self.uri_replaced
    }

    /// Whether a replaced URI must be escaped before it is sent on.
    pub(crate) fn needs_escape(&self) -> bool {
        self.uri_replaced && !self.uri_verbatim
    }

    /// `try_files` has found the URI below an alias that replaces the whole URI.
    pub(crate) fn is_below_alias(&self) -> bool {
        self.uri_below_alias
    }

    /// The URI does not match the location's name any more.
    pub(crate) fn is_name_stale(&self) -> bool {
        self.name_is_stale
    }

    /// An internal redirect begins: what was found out about the last URI does not count.
    pub(crate) fn begin_redirect(&mut self) {
        self.internal = true;
        self.name_is_stale = false;
        self.uri_verbatim = false;
        self.uri_below_alias = false;
    }

    /// The URI and the arguments of the request were replaced.
    pub(crate) fn replace(&mut self, has_args: bool) {
        self.uri_replaced = true;
        self.has_args = has_args;
    }

    /// The URI was found below an alias that replaces the whole URI.
    pub(crate) fn find_below_alias(&mut self) {
        self.uri_below_alias = true;
    }

    /// Only the arguments were replaced. The URI was copied for that, if it was the client's.
    pub(crate) fn replace_args(&mut self) {
        self.uri_verbatim |= !self.uri_replaced;
        self.uri_replaced = true;
        self.has_args = true;
    }

    /// A program begins to run.
    pub(crate) fn begin_program(&mut self) {
        self.moved = false;
    }

    /// Whether a program has rewritten the URI, so that a location must be found for it.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved
    }

    /// A program has rewritten the URI; `stays`: in its location.
    pub(crate) fn rewrite(&mut self, has_args: bool, stays: bool) {
        self.internal = true;
        self.uri_replaced = true;
        self.uri_verbatim = false;
        self.has_args = has_args;
        self.moved = !stays;
        self.name_is_stale |= stays;
    }

    /// The request stays in its location in spite of a rewrite.
    pub(crate) fn stay(&mut self) {
        // The result of an earlier rewrite is sent as it is: it is not what the location matched.
        self.name_is_stale |= self.moved;
        self.moved = false;
    }
}

impl Exchange {
    pub(crate) fn parse_uri(&mut self) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let Request { bytes, head, uri, .. } = &mut *self.request;
        if head.target.form == TargetForm::Asterisk {
            // `OPTIONS *` asks about the server as a whole.
            return Err(Reply::empty(204));
        }
        let raw = bytes.get(path_start(&head.target)..head.target.raw.end()).unwrap_or_default();
        let merge_slashes = generation.server(self.routing.target.server).merge_slashes;
        match parse_target(raw, merge_slashes, uri) {
            Ok(parsed) => {
                self.routing.target.parsed = Some(parsed);
                Ok(())
            }
            Err(error) => {
                self.client_log(&format!("client sent invalid request: {}", error.explain()));
                self.down.ending.break_off(CloseReason::BadRequest);
                // nginx has not read Host at this point.
                self.choose_default_server()?;
                Err(Reply::error(400))
            }
        }
    }

    /// Without a name in the request the server is that of the handshake.
    pub(crate) fn choose_default_server(&mut self) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let listener = generation.listener(self.down.listener()).ok_or_else(|| Reply::error(500))?;
        self.routing.target.server = self.server_of_handshake(listener);
        Ok(())
    }

    /// The server for a request that names none: that of the handshake.
    pub(crate) fn server_of_handshake(&self, listener: &ListenerPlan) -> u32 {
        let named =
            |session: &dyn SessionFacts| server_named(listener, session.server_name()?, &mut Captures::default());
        self.down.tls(named).flatten().unwrap_or_else(|| listener.names.default_server())
    }

    /// The path of a request refused for another reason, for its error page: a bad path is not reported again.
    pub(crate) fn parse_refused_uri(&mut self) {
        let merge_slashes = self.generation.server(self.routing.target.server).merge_slashes;
        let Request { bytes, head, uri, .. } = &mut *self.request;
        let raw = bytes.get(path_start(&head.target)..head.target.raw.end()).unwrap_or_default();
        if !raw.is_empty() {
            self.routing.target.parsed = parse_target(raw, merge_slashes, uri).ok();
        }
    }

    /// `$uri`: the normalised path.
    pub(crate) fn uri(&self) -> &[u8] {
        if self.routing.target.uri_replaced {
            return &self.request.uri;
        }
        let Some(parsed) = &self.routing.target.parsed else { return b"" };
        parsed.path(self.raw_target(), &self.request.uri)
    }

    /// The target from its path on, as the client sent it.
    pub(crate) fn raw_target(&self) -> &[u8] {
        let target = &self.request.head.target;
        self.request.bytes.get(path_start(target)..target.raw.end()).unwrap_or_default()
    }

    /// `$request_uri`: the target, without the host of an absolute one.
    pub(crate) fn request_uri(&self) -> &[u8] {
        let target = &self.request.head.target;
        match target.form {
            TargetForm::Absolute if self.raw_target().is_empty() => b"/",
            TargetForm::Absolute => self.raw_target(),
            _ => target.raw.of(&self.request.bytes),
        }
    }

    /// `$args`.
    pub(crate) fn args(&self) -> Option<&[u8]> {
        if self.routing.target.uri_replaced {
            return self.routing.target.has_args.then_some(&self.request.args[..]);
        }
        self.routing.target.parsed.as_ref()?.args(self.raw_target())
    }
}

/// Where path and query begin; an absolute target may have no path (`http://host?query`).
fn path_start(target: &http1::Target) -> usize {
    match target.query {
        _ if !target.path.is_empty() => target.path.start as usize,
        Some(query) => (query.start as usize).saturating_sub(1),
        None => target.raw.end(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_uri_is_escaped_unless_it_is_the_clients() {
        let mut target = Target::default();
        assert!(!target.needs_escape() && !target.is_uri_replaced());
        target.replace_args();
        assert!(target.is_uri_replaced() && !target.needs_escape());
        target.rewrite(true, false);
        target.replace_args();
        assert!(target.needs_escape());
        let mut target = Target::default();
        target.replace(false);
        target.replace_args();
        assert!(target.needs_escape() && target.has_args);
    }

    #[test]
    fn a_rewrite_moves_the_request_unless_it_stays() {
        let mut target = Target::default();
        target.rewrite(false, false);
        assert!(target.has_moved() && target.is_internal() && !target.is_name_stale());
        target.stay();
        assert!(!target.has_moved() && target.is_name_stale());
        target.begin_redirect();
        assert!(target.is_internal() && !target.is_name_stale());
        target.rewrite(false, true);
        assert!(!target.has_moved() && target.is_name_stale());
        target.rewrite(false, false);
        target.begin_program();
        assert!(!target.has_moved());
    }

    #[test]
    fn a_redirect_clears_the_findings_of_the_last_uri() {
        let mut target = Target::default();
        target.choose_server(2);
        target.enter(LocationId(7));
        target.find_below_alias();
        target.begin_redirect();
        assert_eq!((target.server(), target.location(), target.is_below_alias()), (2, Some(LocationId(7)), false));
        target.leave_location();
        assert_eq!(target.location(), None);
    }
}
