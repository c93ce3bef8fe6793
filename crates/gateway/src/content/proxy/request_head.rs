//! The head for the upstream. Variables may contain any bytes; `http1::outgoing` refuses bytes that would make the head
//! read as anything but one request. Such a request is answered with 500, and a log line names the variable.

use crate::base::logs::error::Level;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::view::ExchangeView;
use crate::plan::proxy::{PassUriPlan, SetField};
use crate::registry::generation::BoundProxy;
use crate::upstream::outgoing_body::OutgoingBody;
use http1::outgoing::{FieldToken, HeadWriter, OutgoingHead, Unsendable, is_field_value};
use http1::{FieldId, Version, names_h2c};
use rules::grpc::write_timeout;
use rules::template::Template;
use rules::time_format::Moment;
use rules::uri::{PassUri, ProxyUri};
use rules::variable::Variable;

/// A head that cannot be sent: its buffer for reuse, and the message to log.
struct Refused {
    buffer: OutgoingHead,
    message: String,
}

impl Exchange {
    /// Writes the head for the upstream; the error is the answer if it cannot be sent.
    pub(crate) fn encode_upstream_head(&mut self, plan: &BoundProxy, body: &OutgoingBody) -> Result<(), Reply> {
        if let Some(application) = &plan.application {
            return self.encode_application_head(plan, application, body);
        }
        let earlier = std::mem::take(&mut self.request.upstream_head);
        match self.write_upstream_head(plan, body, earlier) {
            Ok((head, upgrade_sent)) => {
                self.request.upstream_head = head;
                self.upstream.note_upgrade(upgrade_sent);
                self.refuse_undecided().map_or(Ok(()), Err)
            }
            Err(Refused { buffer, message }) => {
                self.request.upstream_head = buffer;
                self.error_log(&message);
                Err(Reply::error(500))
            }
        }
    }

    /// Writes the head; returns it, and whether it asks for an upgrade.
    fn write_upstream_head(
        &self,
        plan: &BoundProxy,
        body: &OutgoingBody,
        earlier: OutgoingHead,
    ) -> Result<(OutgoingHead, bool), Refused> {
        let mut head = HeadWriter::begin(earlier, |out| self.write_upstream_method(plan, out))
            .map_err(|(_, buffer)| Refused { buffer, message: self.explain_method(plan) })?;
        let version = if plan.http_1_1 { Version::Http11 } else { Version::Http10 };
        if head.target(version, |out| self.write_upstream_target(plan, out)).is_err() {
            return Err(Refused { buffer: head.abandon(), message: "zero length URI to proxy".to_owned() });
        }
        let mut upgrade_sent = false;
        for field in &plan.set_fields {
            let (id, written) = match field {
                SetField::Constant(line) => (line.id(), head.line(line)),
                SetField::Made { name, value } => {
                    let Ok(written) = self.write_set_field(name, value, &mut head) else {
                        let message = self.explain_field(name, value);
                        return Err(Refused { buffer: head.abandon(), message });
                    };
                    (name.id(), written)
                }
            };
            upgrade_sent |= written && id == FieldId::Upgrade;
        }
        if !head.has_host() {
            self.write_own_host(&mut head);
        }
        if body.is_chunked() {
            head.chunked();
        } else if let Some(length) = body.content_length() {
            head.content_length(length);
        }
        self.write_cache_conditions(plan, &mut head);
        if plan.is_grpc {
            self.write_call_fields(plan, &mut head);
        }
        let has_deadline = plan.is_grpc && self.upstream.call_deadline().is_some();
        let (request, is_cacheable) = (&self.request, self.is_cacheable());
        let passed = request.head.fields.iter().filter(|field| {
            let is_replaced = plan.replaced.contains(field.id, field.name.of(&request.bytes));
            let is_withheld =
                (is_cacheable && is_condition(field.id)) || (has_deadline && field.id == FieldId::GrpcTimeout);
            plan.pass_request_headers && !field.hop && !is_replaced && !is_withheld
        });
        head.parsed_fields(&request.bytes, passed);
        Ok((head.finish(), upgrade_sent))
    }

    /// `proxy_cache_revalidate`: the validators of the stale response, unless the configuration sets these fields
    /// itself.
    fn write_cache_conditions(&self, plan: &BoundProxy, head: &mut HeadWriter) {
        let Some((modified, tag)) = self.cache_validators() else { return };
        let date = modified.map(|modified| Moment::new(modified, 0).http_date().to_vec()).unwrap_or_default();
        for (id, value) in [(FieldId::IfModifiedSince, &*date), (FieldId::IfNoneMatch, tag)] {
            if let Some(name) = FieldToken::new(id.name().as_bytes()).filter(|_| !plan.replaced.contains(id, b"")) {
                // A value that cannot be sent was never stored; the request is then unconditional.
                let _ = head.field(&name, |out| out.extend_from_slice(value));
            }
        }
    }

    /// `TE: trailers`, as in nginx if the client sent it: gRPC servers require it. Also the rest of the call's time.
    fn write_call_fields(&self, plan: &BoundProxy, head: &mut HeadWriter) {
        let te = self.request.head.value(FieldId::Te, &self.request.bytes).unwrap_or_default();
        let is_trailers = |coding: &[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"trailers");
        if te.split(|&byte| byte == b',').any(is_trailers)
            && !plan.sets_te
            && let Some(name) = FieldToken::new(b"TE")
        {
            let _ = head.field(&name, |out| out.extend_from_slice(b"trailers"));
        }
        if let Some(left) = self.call_time_left().filter(|_| !plan.replaced.contains(FieldId::GrpcTimeout, b""))
            && let Some(name) = FieldToken::new(b"grpc-timeout")
        {
            let _ = head.field(&name, |out| write_timeout(left, out));
        }
    }

    fn write_set_field(&self, name: &FieldToken, value: &Template, head: &mut HeadWriter) -> Result<bool, Unsendable> {
        head.field(name, |out| {
            let start = out.len();
            value.write(&ExchangeView::of(self), out);
            // R47: an upgrade to h2c is removed, no matter from which of the client's fields a variable takes it.
            if name.id() == FieldId::Upgrade && out.get(start..).is_some_and(names_h2c) {
                out.truncate(start);
            }
        })
    }

    /// The configured Host is empty. Most upstreams refuse a request without Host and others misread it, so the default
    /// Host is sent.
    fn write_own_host(&self, head: &mut HeadWriter) {
        let host = Template::variable(Variable::ProxyHost);
        let written =
            FieldToken::new(b"Host").map(|name| head.field(&name, |out| host.write(&ExchangeView::of(self), out)));
        if written != Some(Ok(true)) {
            head.empty_host();
        }
        self.log_at(Level::Warn, "\"proxy_set_header Host\" is empty; the upstream gets the host of \"proxy_pass\"");
    }

    /// The client's method, or that of `proxy_method` unless that is empty.
    fn write_upstream_method(&self, plan: &BoundProxy, out: &mut Vec<u8>) {
        if self.upstream.caching().is_some_and(|caching| caching.converts_head) {
            return out.extend_from_slice(b"GET");
        }
        if let Some(method) = &plan.method {
            method.write(&ExchangeView::of(self), out);
            if !out.is_empty() {
                return;
            }
            self.error_log("\"proxy_method\" is empty; the client's method is sent");
        }
        out.extend_from_slice(self.method_name());
    }

    fn explain_method(&self, plan: &BoundProxy) -> String {
        let by = plan.method.as_ref().map(|method| self.brought_by(method, |value| FieldToken::new(value).is_none()));
        format!("the value of \"proxy_method\" is no method{}; the request is not sent", by.unwrap_or_default())
    }

    fn explain_field(&self, name: &FieldToken, value: &Template) -> String {
        let (name, by) = (name.as_bytes().escape_ascii(), self.brought_by(value, |value| !is_field_value(value)));
        format!("a control character in the value of \"proxy_set_header {name}\"{by}; the request is not sent")
    }

    /// Names the variable whose value is `bad`.
    pub(crate) fn brought_by(&self, template: &Template, bad: impl Fn(&[u8]) -> bool) -> String {
        match template.culprit(&ExchangeView::of(self), bad) {
            Some(variable) => format!(", from {}", self.generation.definitions.shown(variable)),
            None => String::new(),
        }
    }

    /// The method that the upstream sees.
    pub(crate) fn upstream_method(&self, plan: &BoundProxy) -> &[u8] {
        match plan.application {
            None => self.request.upstream_head.method(),
            // `REQUEST_METHOD` tells an application the client's method; as in nginx, that is independent of whether a
            // body is sent.
            Some(_) => self.method_name(),
        }
    }

    pub(crate) fn write_upstream_target(&self, plan: &BoundProxy, out: &mut Vec<u8>) {
        let parsed = self.routing.target.parsed();
        let uri = ProxyUri {
            raw: self.raw_target(),
            raw_is_valid: parsed.is_some_and(|parsed| !parsed.empty_path) && !self.routing.target.is_uri_replaced(),
            uri: self.uri(),
            args: self.args(),
            location: &self.location().name,
            location_is_valid: !self.routing.target.is_name_stale(),
            needs_escape: self.routing.target.needs_escape() || parsed.is_some_and(|parsed| parsed.quoted),
        };
        uri.write(
            match &plan.uri {
                PassUriPlan::Absent => PassUri::Absent,
                PassUriPlan::Replace(uri) => PassUri::Replace(uri),
                PassUriPlan::Variable => PassUri::AsGiven(self.upstream.url().map_or(&[], |target| &target.uri)),
            },
            out,
        );
    }
}

/// Client fields that make the response specific to that client: they are not passed on if the response may be stored.
pub(super) fn is_condition(id: FieldId) -> bool {
    matches!(
        id,
        FieldId::IfModifiedSince
            | FieldId::IfUnmodifiedSince
            | FieldId::IfNoneMatch
            | FieldId::IfMatch
            | FieldId::Range
            | FieldId::IfRange
    )
}
