//! Where a request leads: its target, and what routing, programs and redirects have made of it.

use crate::exchange::prefetched::Prefetched;
use crate::exchange::target::Target;
use crate::exchange::undecided::Undecided;
use http1::Method;
use rules::captures::Captures;
use rules::slice::Slice;
use rules::slots::VarSlots;
use std::cell::{Cell, RefCell};

/// Where a request leads.
pub(crate) struct Routing {
    pub(crate) target: Target,
    pub(crate) captures: RefCell<Captures>,
    /// Values of user-defined variables.
    pub(crate) slots: VarSlots,
    /// The client's method; an error page is fetched by GET.
    pub(crate) method: Method,
    /// A file that was opened while an index was looked for.
    pub(crate) prefetched: Option<Prefetched>,
    /// It renews a stale response of a cache while the exchange that started it uses that.
    pub(crate) is_update: bool,
    /// Which piece of a response it asks for (`slice`), where another exchange puts that together.
    pub(crate) slice: Option<Slice>,
    /// Whether an expression of a variable could not be decided.
    pub(crate) undecided: Undecided,
    /// How often a protected link is asked for by what it is made of.
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
            undecided: Undecided::default(),
            links_asked: Cell::new(0),
        }
    }

    /// What replaces a response is fetched by GET, unless the client wants the head only.
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
