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
    pub(crate) parsed: Option<ParsedTarget>,
    pub(crate) server: u32,
    pub(crate) location: Option<LocationId>,
    /// An internal redirect leads here, so `internal` locations may serve it.
    pub(crate) internal: bool,
    /// An internal redirect has replaced the client's target: `$uri` is in `Request::uri`.
    pub(crate) uri_replaced: bool,
    /// The redirect has brought arguments, which are in `Request::args`.
    pub(crate) has_args: bool,
    /// The URI's bytes are nevertheless those of the client: only arguments were set.
    pub(crate) uri_verbatim: bool,
    /// `try_files` has found the URI below an alias that replaces the whole URI.
    pub(crate) uri_below_alias: bool,
    /// A program has rewritten the URI; a location must be found for it.
    pub(crate) moved: bool,
    /// `rewrite … break`: the URI does not match the location's name any more.
    pub(crate) name_is_stale: bool,
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
