//! Responses of our own: `return`, redirects, error pages. Proxied ones are `relay`'s.

use crate::base::close::CloseReason;
use crate::content::files::send::FileReply;
use crate::downstream::h1::Framing;
use crate::exchange::Exchange;
use crate::exchange::step::{Served, Step};
use crate::exchange::view::ExchangeView;
use crate::filter::gzip::OWN_BYTES_MAX;
use crate::plan::program::ReturnPlan;
use http1::encode::{encode_field, encode_head_end, encode_number_field, encode_status_line};
use http1::{FieldId, Method, Version};
use std::net::IpAddr;

/// A response that is complete in memory.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Further fields, in order.
    pub(crate) fields: Vec<(&'static [u8], Vec<u8>)>,
    pub(crate) content_type: Option<Box<[u8]>>,
    pub(crate) body: ReplyBody,
}

/// The body of a reply.
#[derive(Debug, Default)]
pub(crate) enum ReplyBody {
    /// None, and nothing is said about its length where the status has none.
    #[default]
    Empty,
    Bytes(Vec<u8>),
    /// The built-in page of the status.
    ErrorPage,
    /// A file, or a part of it.
    File(Box<FileReply>),
    /// Nothing is sent at all, since nobody is there: the status is what is logged.
    ToNobody,
}

impl Reply {
    /// The built-in page of a status.
    pub(crate) fn error(status: u16) -> Self {
        Self { status, body: ReplyBody::ErrorPage, ..Self::default() }
    }

    /// What is logged of a request whose client has left.
    pub(crate) fn to_nobody(status: u16) -> Self {
        Self { status, body: ReplyBody::ToNobody, ..Self::default() }
    }

    /// A status without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Self { status, ..Self::default() }
    }
}

/// The field of a body that comes in chunks.
pub(crate) const CHUNKED: &[u8] = b"Transfer-Encoding: chunked\r\n";

/// Whether responses of this status never have a body.
pub(crate) fn is_bodiless(status: u16) -> bool {
    status < 200 || status == 204 || status == 304
}

impl Exchange {
    /// What `return` does: 444 closes without an answer, and so does 499, which says that nobody is there to hear one.
    pub(crate) fn return_step(&mut self, plan: &ReturnPlan) -> Step {
        if matches!(plan.status, 444 | 499) {
            self.status = plan.status;
            self.close = Some(CloseReason::Unanswered);
            self.down.keepalive = false;
            return Step::Served(Served::Responded);
        }
        if plan.text.is_some() {
            // `$status` in the text is that of the text.
            self.status = plan.status;
        }
        Step::Reply(self.return_reply(plan))
    }

    fn return_reply(&self, plan: &ReturnPlan) -> Reply {
        let mut text = Vec::new();
        if let Some(template) = &plan.text {
            template.write(&ExchangeView::of(self), &mut text);
        }
        match plan.status {
            301 | 302 | 303 | 307 | 308 => self.client_redirect(plan.status, text),
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
    pub(crate) fn stub_status(&self) -> Reply {
        if !matches!(self.method, Method::Get | Method::Head) {
            return Reply::error(405);
        }
        let totals = self.thread.shared.totals();
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
        Reply {
            status: 200,
            content_type: Some(b"text/plain".as_slice().into()),
            body: ReplyBody::Bytes(text.into_bytes()),
            ..Reply::default()
        }
    }

    /// The redirect from `/dir` to `/dir/`.
    pub(crate) fn slash_redirect(&self) -> Reply {
        let mut location = Vec::new();
        rules::uri::escape(&self.location().name, rules::uri::Escape::Uri, &mut location);
        if let Some(args) = self.args() {
            location.push(b'?');
            location.extend_from_slice(args);
        }
        Reply { fields: vec![(b"Location", self.absolute_location(location))], ..Reply::error(301) }
    }

    /// Puts scheme and host before a path.
    pub(crate) fn absolute_location(&self, location: Vec<u8>) -> Vec<u8> {
        // Arguments go into it as they are, and `set $args` may have brought a line end into them.
        let location = self.one_line(location, || "\"Location\"".to_owned());
        let plan = self.location().redirects;
        if location.first() != Some(&b'/') || !plan.absolute {
            return location;
        }
        let mut absolute = b"http://".to_vec();
        match (self.request.head.host, self.down.connection.stream.local_address()) {
            _ if plan.server_name => {
                absolute.extend_from_slice(&self.generation.server(self.target.server).name);
            }
            (Some(host), _) => {
                // `$host`: without case, and without the root's dot.
                let name = host.name.of(&self.request.bytes);
                absolute.extend(name.strip_suffix(b".").unwrap_or(name).iter().map(u8::to_ascii_lowercase));
            }
            (None, Ok(Some(own))) => match own.ip() {
                IpAddr::V4(ip) => absolute.extend_from_slice(ip.to_string().as_bytes()),
                IpAddr::V6(ip) => absolute.extend_from_slice(format!("[{ip}]").as_bytes()),
            },
            (None, _) => return location,
        }
        if let Some(port) = self.server_port().filter(|port| plan.port && *port != 80) {
            absolute.push(b':');
            absolute.extend_from_slice(port.to_string().as_bytes());
        }
        absolute.extend_from_slice(&location);
        absolute
    }

    /// `$server_port`; `None` on a Unix socket.
    pub(crate) fn server_port(&self) -> Option<u16> {
        self.down.connection.stream.local_address().ok().flatten().map(|address| address.port())
    }

    /// Sends a reply.
    pub(crate) fn respond(&mut self, reply: &Reply) -> Served {
        let status = match reply.body {
            ReplyBody::ErrorPage => rules::reply::shown_status(reply.status),
            _ => reply.status,
        };
        self.status = status;
        self.settle_keepalive();
        self.begin_pace();
        let mut head = self.thread.take_scratch();
        head.clear();
        let (body, content_type) = self.render(reply);
        let bodiless = is_bodiless(status);
        let is_head = self.down.method == Method::Head;
        let framing = match self.wants_trailers(status, false) {
            _ if bodiless || is_head => Framing::Empty,
            true => Framing::Chunked,
            false => Framing::Length(body.len() as u64),
        };
        self.down.with_trailers = framing == Framing::Chunked;
        self.encode_own_head(reply, content_type.as_deref(), body.len(), &mut head);
        if let Some(refusal) = self.refuse_undecided() {
            self.thread.put_scratch(head);
            return self.respond(&refusal);
        }
        let framing = if body.len() > OWN_BYTES_MAX { framing } else { self.compress(framing, false, &mut head) };
        encode_head_end(&mut head);
        let body = if framing == Framing::Empty { &[][..] } else { &body[..] };
        if self.down.send_head(&head, framing, body, true).is_err() {
            self.close = Some(CloseReason::ClientAborted);
        }
        self.thread.put_scratch(head);
        Served::Responded
    }

    fn render(&self, reply: &Reply) -> (Vec<u8>, Option<Box<[u8]>>) {
        match &reply.body {
            ReplyBody::Empty | ReplyBody::File(_) | ReplyBody::ToNobody => (Vec::new(), reply.content_type.clone()),
            ReplyBody::Bytes(bytes) => (bytes.clone(), reply.content_type.clone()),
            ReplyBody::ErrorPage if is_bodiless(reply.status) => (Vec::new(), None),
            ReplyBody::ErrorPage => {
                let mut page = Vec::new();
                let server = String::from_utf8_lossy(&self.location().server_token);
                if rules::reply::write_page(reply.status, &server, self.pads_error_pages(), &mut page) {
                    (page, Some(b"text/html".as_slice().into()))
                } else {
                    (page, None)
                }
            }
        }
    }

    fn pads_error_pages(&self) -> bool {
        let request = &self.request;
        let user_agent = request.head.value(FieldId::UserAgent, &request.bytes);
        self.location().msie_padding && user_agent.is_some_and(rules::reply::pads_error_pages)
    }

    fn encode_own_head(&self, reply: &Reply, content_type: Option<&[u8]>, length: usize, head: &mut Vec<u8>) {
        encode_status_line(Version::Http11, self.status, None, head);
        self.encode_server_and_date(head);
        if let Some(content_type) = content_type {
            encode_field(b"Content-Type", content_type, head);
        }
        if self.down.with_trailers {
            head.extend_from_slice(CHUNKED);
        } else if !is_bodiless(self.status) {
            encode_number_field(b"Content-Length", length as u64, head);
        }
        for (name, value) in &reply.fields {
            encode_field(name, value, head);
        }
        self.encode_carried(|name| reply.fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)), head);
        self.encode_connection(head);
        self.encode_added(self.status, head);
    }

    pub(crate) fn encode_server_and_date(&self, head: &mut Vec<u8>) {
        encode_field(b"Server", &self.location().server_token, head);
        head.extend_from_slice(b"Date: ");
        self.thread.clock.write_date(head);
        head.extend_from_slice(b"\r\n");
    }

    /// The Connection field, and Keep-Alive where it is configured.
    pub(crate) fn encode_connection(&self, head: &mut Vec<u8>) {
        if !self.down.keepalive {
            head.extend_from_slice(b"Connection: close\r\n");
            return;
        }
        head.extend_from_slice(b"Connection: keep-alive\r\n");
        if let Some(seconds) = self.client_plan().keepalive_header {
            head.extend_from_slice(b"Keep-Alive: timeout=");
            head.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
            head.extend_from_slice(b"\r\n");
        }
    }
}
