//! Responses of our own: `return`, redirects, error pages. `relay` passes on proxied ones.

use crate::base::close::CloseReason;
use crate::content::filtered::{Compress, OWN_BYTES_MAX, Ranges};
use crate::downstream::reply_head::{Mark, ReplyHead};
use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody, is_bodiless};
use crate::exchange::step::{Served, Step};
use crate::exchange::view::ExchangeView;
use crate::plan::program::ReturnPlan;
use http1::outgoing::is_field_value;
use http1::{FieldId, Method};
use rules::precondition::{ModifiedSince, Validators, Verdict, evaluate};
use rules::template::Template;
use rules::time_format::Moment;
use std::borrow::Cow;
use std::net::IpAddr;

impl Exchange {
    /// Executes `return`: 444 closes without an answer, and so does 499, which means that the client has left.
    pub(crate) fn return_step(&mut self, plan: &ReturnPlan) -> Step {
        if matches!(plan.status, 444 | 499) {
            self.response.set_status(plan.status);
            self.down.ending.break_off(CloseReason::Unanswered);
            return Step::Served(Served::Responded);
        }
        if plan.text.is_some() {
            // `$status` in the text is the status of that text.
            self.response.set_status(plan.status);
        }
        let reply = self.return_reply(plan);
        Step::Reply(self.under_conditions(reply))
    }

    /// Applies the request's conditions to a 200 made here, which has neither date nor tag.
    pub(crate) fn under_conditions(&mut self, reply: Reply) -> Reply {
        self.under_conditions_of(reply, None)
    }

    /// The same for one that was last modified then, in seconds since 1970.
    pub(crate) fn under_conditions_of(&mut self, reply: Reply, modified: Option<i64>) -> Reply {
        if reply.status != 200 || !self.is_conditional() {
            return reply;
        }
        match evaluate(&self.conditions(), &Validators { modified, tag: None }, ModifiedSince::Exact) {
            Verdict::Send => reply,
            Verdict::Failed => Reply::error(412),
            Verdict::NotModified => {
                self.response.show_under(None);
                let dated = modified.map(|at| (FieldId::LastModified, Moment::new(at, 0).http_date().to_vec()));
                Reply { fields: dated.into_iter().collect(), ..Reply::empty(304) }
            }
        }
    }

    fn return_reply(&self, plan: &ReturnPlan) -> Reply {
        let mut text = Vec::new();
        if let Some(template) = &plan.text {
            template.write(&ExchangeView::of(self), &mut text);
        }
        match plan.status {
            301 | 302 | 303 | 307 | 308 => self.client_redirect(plan.status, text, &plan.text),
            status if plan.text.is_some() || status < 400 => Reply {
                status,
                content_type: Some(plan.types.type_of(self.uri()))
                    .filter(|media| !media.is_empty() && !is_bodiless(status))
                    .map(Into::into),
                body: ReplyBody::Bytes(text),
                ..Reply::default()
            },
            status => Reply::error(status),
        }
    }

    /// `stub_status`, in nginx's words.
    pub(crate) fn stub_status(&mut self) -> Reply {
        if !matches!(self.routing.method(), Method::Get | Method::Head) {
            return Reply::error(405);
        }
        let totals = self.thread.registry.totals_of_all();
        let text = format!(
            "Active connections: {} \nserver accepts handled requests\n {} {} {} \nReading: {} Writing: {} Waiting: {} \n",
            totals.active,
            totals.accepted,
            totals.handled,
            totals.requests,
            totals.reading,
            totals.writing,
            totals.waiting
        );
        self.under_conditions(Reply {
            status: 200,
            content_type: Some(b"text/plain".as_slice().into()),
            body: ReplyBody::Bytes(text.into_bytes()),
            ..Reply::default()
        })
    }

    /// The redirect from `/dir` to `/dir/`.
    pub(crate) fn slash_redirect(&self) -> Reply {
        let mut location = Vec::new();
        rules::uri::escape(&self.location().name, rules::uri::Escape::Uri, &mut location);
        if let Some(args) = self.args() {
            location.push(b'?');
            location.extend_from_slice(args);
        }
        Reply { fields: vec![(FieldId::Location, self.absolute_location(location))], ..Reply::error(301) }
    }

    /// Redirects the client to a configured URL. A URL with a control character, which a variable may contain, is
    /// refused. One of the templates `written` made it.
    pub(crate) fn client_redirect<'a>(
        &self,
        status: u16,
        url: Vec<u8>,
        written: impl IntoIterator<Item = &'a Template>,
    ) -> Reply {
        if !is_field_value(&url) {
            self.refuse_url("a redirect", written);
            return Reply::error(500);
        }
        Reply { fields: vec![(FieldId::Location, self.absolute_location(url))], ..Reply::error(status) }
    }

    /// Logs that a URL has a control character, and the variable that contains it.
    pub(crate) fn refuse_url<'a>(&self, of: &str, written: impl IntoIterator<Item = &'a Template>) {
        let mut culprits = written.into_iter().map(|url| self.brought_by(url, |value| !is_field_value(value)));
        let by = culprits.find(|by| !by.is_empty()).unwrap_or_default();
        self.error_log(&format!("a control character in the URL of {of}{by}; it is not sent"));
    }

    /// Adds scheme and host to a path.
    pub(crate) fn absolute_location(&self, location: Vec<u8>) -> Vec<u8> {
        // The arguments are inserted as they are, and `set $args` may have put a line end into them.
        let location = self.one_line(location, || "\"Location\"".to_owned());
        let plan = self.location().redirects;
        if location.first() != Some(&b'/') || !plan.absolute {
            return location;
        }
        let scheme = self.down.scheme();
        let mut absolute = [scheme.name(), b"://"].concat();
        match (self.request.head.host, self.down.local_address()) {
            _ if plan.server_name => {
                absolute.extend_from_slice(&self.generation.server(self.routing.target.server()).name);
            }
            (Some(host), _) => {
                // `$host`: in lower case, and without the root's dot.
                let name = host.name.of(&self.request.bytes);
                absolute.extend(name.strip_suffix(b".").unwrap_or(name).iter().map(u8::to_ascii_lowercase));
            }
            (None, Some(own)) => match own.ip() {
                IpAddr::V4(ip) => absolute.extend_from_slice(ip.to_string().as_bytes()),
                IpAddr::V6(ip) => absolute.extend_from_slice(format!("[{ip}]").as_bytes()),
            },
            (None, _) => return location,
        }
        if let Some(port) = self.server_port().filter(|port| plan.port && *port != scheme.default_port()) {
            absolute.push(b':');
            absolute.extend_from_slice(port.to_string().as_bytes());
        }
        absolute.extend_from_slice(&location);
        absolute
    }

    /// Sends a reply.
    pub(crate) fn respond(&mut self, reply: &Reply) -> Served {
        let status = match reply.body {
            ReplyBody::ErrorPage => rules::reply::shown_status(reply.status),
            _ => reply.status,
        };
        let mut head = self.begin_head(status);
        self.settle_keepalive();
        self.begin_pace();
        let (body, content_type) = self.render(reply);
        head.has_body = !is_bodiless(status);
        head.length = (head.has_body && !reply.is_unmeasured).then_some(body.len() as u64);
        head.has_trailers = self.wants_trailers(status, false);
        self.fill_own_head(reply, content_type, &mut head);
        let compress = if body.len() > OWN_BYTES_MAX { Compress::No } else { Compress::Yes };
        self.filter_head(&mut head, Ranges::None, compress);
        if let Some(refusal) = self.refuse_undecided() {
            self.spares.recycle_reply_head(head);
            return self.respond(&refusal);
        }
        let body = if self.down.sends_body(&head) { &body[..] } else { &[][..] };
        if self.response.filters.send_head(&mut self.down, head.with(b""), body, true).is_err() {
            self.down.ending.break_off(CloseReason::ClientAborted);
        }
        self.spares.recycle_reply_head(head);
        Served::Responded
    }

    /// The body and its type.
    fn render<'a>(&self, reply: &'a Reply) -> (Cow<'a, [u8]>, Option<&'a [u8]>) {
        let none = Cow::Borrowed(&[][..]);
        match &reply.body {
            ReplyBody::Empty | ReplyBody::File(_) | ReplyBody::ToNobody => (none, reply.content_type.as_deref()),
            ReplyBody::Bytes(bytes) => (Cow::Borrowed(bytes), reply.content_type.as_deref()),
            ReplyBody::ErrorPage if is_bodiless(reply.status) => (none, None),
            ReplyBody::ErrorPage => {
                let mut page = Vec::new();
                let server = String::from_utf8_lossy(&self.location().server_token);
                let is_written = rules::reply::write_page(reply.status, &server, self.pads_error_pages(), &mut page);
                (Cow::Owned(page), is_written.then_some(b"text/html"))
            }
        }
    }

    fn pads_error_pages(&self) -> bool {
        let request = &self.request;
        let user_agent = request.head.value(FieldId::UserAgent, &request.bytes);
        self.location().msie_padding && user_agent.is_some_and(rules::reply::pads_error_pages)
    }

    fn fill_own_head(&self, reply: &Reply, content_type: Option<&[u8]>, head: &mut ReplyHead) {
        self.fill_server_and_date(head);
        if let Some(content_type) = content_type {
            head.fields.push(FieldId::ContentType, content_type);
        }
        head.fields.mark(Mark::Length);
        for (id, value) in &reply.fields {
            head.fields.push(*id, value);
        }
        self.fill_carried(|id| reply.fields.iter().any(|(own, _)| *own == id), head);
        head.fields.mark(Mark::Connection);
    }
}
