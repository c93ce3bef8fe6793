//! The routing state of a request: its target, and the effects of programs and redirects on it.

use crate::exchange::otel::Otel;
use crate::exchange::prefetched::Prefetched;
use crate::exchange::request_trace::PhaseTimes;
use crate::exchange::target::Target;
use crate::exchange::undecided::Undecided;
use http1::Method;
use jwt::Token;
use rules::captures::Captures;
use rules::pattern::Pattern;
use rules::slice::Slice;
use rules::slots::VarSlots;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The routing state of a request.
pub(crate) struct Routing {
    pub(crate) target: Target,
    pub(super) captures: RefCell<Captures>,
    /// Values of user-defined variables.
    pub(super) slots: VarSlots,
    /// The client's method; an error page is fetched by GET.
    pub(super) method: Method,
    /// A file that was opened while looking for an index.
    pub(super) prefetched: Option<Prefetched>,
    /// This subrequest renews a stale cached response, which its starter sends meanwhile.
    pub(super) is_update: bool,
    /// The slice that this subrequest asks for (`slice`); its starter assembles the response.
    pub(super) slice: Option<Slice>,
    /// The token of `auth_jwt`; subrequests share it.
    pub(super) token: Option<Rc<Token>>,
    /// The trace context; subrequests share it.
    pub(super) otel: Otel,
    /// The phases of a request with the secret of `request_trace_secret`.
    pub(super) traced: Option<Box<PhaseTimes>>,
    /// Whether an expression in a variable could not be decided.
    pub(crate) undecided: Undecided,
    /// Depth of evaluation of a protected link, which may refer to itself.
    pub(super) links_asked: Cell<u8>,
}

impl Routing {
    pub(crate) fn new(method: Method) -> Self {
        Self {
            target: Target::default(),
            captures: RefCell::default(),
            slots: VarSlots::default(),
            method,
            prefetched: None,
            is_update: false,
            slice: None,
            token: None,
            otel: Otel::default(),
            traced: None,
            undecided: Undecided::default(),
            links_asked: Cell::new(0),
        }
    }

    /// The client's method; an error page is fetched by GET.
    pub(crate) fn method(&self) -> Method {
        self.method
    }

    pub(crate) fn captures(&self) -> &RefCell<Captures> {
        &self.captures
    }

    pub(crate) fn captures_mut(&mut self) -> &mut Captures {
        self.captures.get_mut()
    }

    /// Values of user-defined variables.
    pub(crate) fn slots(&self) -> &VarSlots {
        &self.slots
    }

    /// The named groups of the last match become variables.
    pub(crate) fn store_groups(&mut self, pattern: &Pattern) {
        self.slots.store_groups(pattern, self.captures.get_mut());
    }

    /// Keeps a file that was opened while looking for an index.
    pub(crate) fn prefetch(&mut self, file: Prefetched) {
        self.prefetched = Some(file);
    }

    /// The kept file, once.
    pub(crate) fn take_prefetched(&mut self) -> Option<Prefetched> {
        self.prefetched.take()
    }

    /// Whether this subrequest renews a stale cached response.
    pub(crate) fn is_update(&self) -> bool {
        self.is_update
    }

    /// Whether this subrequest asks for a slice.
    pub(crate) fn is_slice(&self) -> bool {
        self.slice.is_some()
    }

    /// The token of `auth_jwt`.
    pub(crate) fn token(&self) -> Option<&Rc<Token>> {
        self.token.as_ref()
    }

    pub(crate) fn set_token(&mut self, token: Option<Token>) {
        self.token = token.map(Rc::new);
    }

    /// The trace context.
    pub(crate) fn otel(&self) -> &Otel {
        &self.otel
    }

    /// A replacement response is fetched by GET, or by HEAD if the client wants the head only.
    pub(crate) fn fetch_by_get(&mut self) {
        if self.method != Method::Head {
            self.method = Method::Get;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_in_place_of_a_response_is_fetched_by_get_or_head() {
        for (asked, fetched) in [(Method::Post, Method::Get), (Method::Get, Method::Get), (Method::Head, Method::Head)]
        {
            let mut routing = Routing::new(asked);
            routing.fetch_by_get();
            assert_eq!(routing.method(), fetched);
        }
    }

    #[test]
    fn a_new_routing_has_no_token_file_or_slice() {
        let mut routing = Routing::new(Method::Get);
        assert!(routing.token().is_none() && routing.take_prefetched().is_none());
        assert!(!routing.is_slice() && !routing.is_update());
        assert!(routing.captures_mut().group(0).is_none() && routing.captures().borrow().group(0).is_none());
    }
}
