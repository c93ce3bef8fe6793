//! The routing state of a request: its target, and the effects of programs and redirects on it.

use crate::exchange::otel::Otel;
use crate::exchange::prefetched::Prefetched;
use crate::exchange::request_trace::PhaseTimes;
use crate::exchange::target::Target;
use crate::exchange::undecided::Undecided;
use http1::Method;
use jwt::Token;
use rules::captures::Captures;
use rules::slice::Slice;
use rules::slots::VarSlots;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The routing state of a request.
pub(crate) struct Routing {
    pub(crate) target: Target,
    pub(crate) captures: RefCell<Captures>,
    /// Values of user-defined variables.
    pub(crate) slots: VarSlots,
    /// The client's method; an error page is fetched by GET.
    pub(crate) method: Method,
    /// A file that was opened while looking for an index.
    pub(crate) prefetched: Option<Prefetched>,
    /// This subrequest renews a stale cached response, which its starter sends meanwhile.
    pub(crate) is_update: bool,
    /// The slice that this subrequest asks for (`slice`); its starter assembles the response.
    pub(crate) slice: Option<Slice>,
    /// The token of `auth_jwt`; subrequests share it.
    pub(crate) token: Option<Rc<Token>>,
    /// The trace context; subrequests share it.
    pub(crate) otel: Otel,
    /// The phases of a request with the secret of `request_trace_secret`.
    pub(crate) traced: Option<Box<PhaseTimes>>,
    /// Whether an expression in a variable could not be decided.
    pub(crate) undecided: Undecided,
    /// Depth of evaluation of a protected link, which may refer to itself.
    pub(crate) links_asked: Cell<u8>,
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
            assert_eq!(routing.method, fetched);
        }
    }
}
