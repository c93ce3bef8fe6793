//! Internal redirects: `index`, `error_page`, named locations. The client sees one response; inside, the request is
//! routed again. `serve` limits their number.

use crate::base::close::CloseReason;
use crate::base::logs::error::quoted;
use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::step::{Redirect, Step};
use crate::exchange::trace::{Event, Tracer};
use crate::exchange::view::ExchangeView;
use crate::plan::location::LocationId;
use http1::FieldId;
use http1::outgoing::is_field_value;
use rules::reply::PageTarget;
use rules::template::Template;
use std::rc::Rc;

impl Exchange {
    /// The `error_page` for a reply, if one applies. None applies to bodies that the configuration wrote itself
    /// (`return 404 "text"`) and, unless `recursive_error_pages` is on, to errors of an error page.
    pub(crate) fn error_page<T: Tracer>(&mut self, reply: &Reply, trace: T) -> Option<Step> {
        if reply.status < 300 || !matches!(reply.body, ReplyBody::ErrorPage) {
            return None;
        }
        // After these errors the connection may be out of step, so nginx closes it, also if an error page is shown.
        if self.down.ending.keeps() && matches!(reply.status, 400 | 413 | 414 | 495..=497 | 500 | 501) {
            self.down.ending.close(CloseReason::AfterError);
        }
        // An error of an error page is shown with its own status.
        self.response.show_under(None);
        if !self.response.allows_error_page() || self.down.ending.is_gone() {
            return None;
        }
        let generation = Rc::clone(&self.generation);
        let id = self.routing.target.location().unwrap_or_else(|| generation.server(self.routing.target.server()).own);
        let location = generation.location(id);
        self.response.allow_error_pages(location.recursive_error_pages || location.error_pages.0.is_empty());
        let page = location.error_pages.find(reply.status)?;
        self.carry_reply(reply);
        let mut target = Vec::new();
        let page_target = page.target(&ExchangeView::of(self), &mut target);
        trace.note(self, Event::ErrorPage { status: reply.status, target: &page_target });
        Some(match page_target {
            PageTarget::Internal { uri, args } => {
                self.response.show_under(page.shown_status());
                self.routing.fetch_by_get();
                Step::Redirect(Redirect::Uri { uri: uri.to_vec(), args: args.map(<[u8]>::to_vec) })
            }
            PageTarget::Named(name) => {
                self.response.show_under(page.shown_status());
                Step::Redirect(Redirect::Named(name.to_vec()))
            }
            PageTarget::Redirect { status, location } => {
                self.response.end_error_pages();
                Step::Reply(self.redirect_reply(status, location, page.written()))
            }
        })
    }

    /// Redirects the client; a path stays a path. A URL with a control character, which a variable may contain, is
    /// refused.
    fn redirect_reply(&self, status: u16, location: &[u8], written: &Template) -> Reply {
        if !is_field_value(location) {
            self.refuse_url("an error page", [written]);
            return Reply::error(500);
        }
        Reply { fields: vec![(FieldId::Location, location.to_vec())], ..Reply::error(status) }
    }

    /// Routes the request again.
    pub(crate) fn redirect<T: Tracer>(&mut self, redirect: Redirect, trace: T) -> Step {
        self.routing.target.begin_redirect();
        match redirect {
            Redirect::Uri { uri, args } => {
                self.request.uri = uri;
                self.routing.target.replace(args.is_some());
                self.request.args = args.unwrap_or_default();
                self.route_uri(trace)
            }
            Redirect::Named(name) => {
                let found = self.generation.server(self.routing.target.server()).locations.named(&name);
                if let Some(id) = found {
                    self.enter_location(LocationId(id));
                    trace.note(self, Event::Found);
                    return Step::Content;
                }
                self.error_log(&format!("could not find named location \"{}\"", quoted(&name)));
                Step::Reply(Reply::error(500))
            }
        }
    }
}
