//! Applications behind FastCGI, SCGI or uwsgi: the request as parameters, and the head of a CGI response. Everything
//! else is as for HTTP: peers, connections, retries, bodies, filters.

use crate::base::logs::error::quoted;
use crate::base::memory::HEAD_BYTES_USUAL;
use crate::content::proxy::Tries;
use crate::content::proxy::request_head::is_condition;
use crate::content::proxy::response_head::HeadStep;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::view::ExchangeView;
use crate::plan::application::{ApplicationPlan, ApplicationProtocol, FastcgiPlan};
use crate::registry::generation::BoundProxy;
use crate::upstream::outgoing_body::OutgoingBody;
use crate::upstream::records::Records;
use crate::upstream::side::UpstreamSide;
use cgi::{Params, fastcgi, http_head, scgi, uwsgi};
use http1::outgoing::OutgoingHead;
use http1::{Field, FieldId, Parse, RequestKind, ResponseKind};
use rules::time_format::Moment;
use upstream::DiscardReason;
use upstream::retry::Failure;

/// Prefix of the parameters that are fields of the request.
const FIELD: &[u8] = b"HTTP_";

impl Exchange {
    /// Writes the request for an application; the error is the answer if it cannot be sent.
    pub(super) fn encode_application_head(
        &mut self,
        plan: &BoundProxy,
        application: &ApplicationPlan,
        body: &OutgoingBody,
    ) -> Result<(), Reply> {
        let buffer = std::mem::take(&mut self.request.upstream_head).into_buffer();
        let written = match &application.protocol {
            ApplicationProtocol::Fastcgi(own) => {
                let mut head = fastcgi::RequestHead::begin(buffer, own.keeps_connections);
                self.write_params(plan, application, &mut head).map(|()| head.finish())
            }
            ApplicationProtocol::Scgi => {
                let mut head = scgi::RequestHead::begin(buffer, body.content_length().unwrap_or(0));
                self.write_params(plan, application, &mut head).map(|()| head.finish())
            }
            ApplicationProtocol::Memcached(memcached) => self.write_key(memcached, buffer),
            ApplicationProtocol::Uwsgi { modifier1, modifier2 } => {
                let mut head = uwsgi::RequestHead::begin(buffer, *modifier1, *modifier2);
                self.write_params(plan, application, &mut head).map(|()| head.finish())
            }
        };
        self.upstream.upgrade_sent = false;
        self.request.upstream_head = OutgoingHead::opaque(written?);
        self.refuse_undecided().map_or(Ok(()), Err)
    }

    fn write_params(
        &self,
        plan: &BoundProxy,
        application: &ApplicationPlan,
        head: &mut impl Params,
    ) -> Result<(), Reply> {
        let too_large = |error: cgi::TooLarge| {
            self.error_log(&format!("{error}; the request is not sent"));
            Reply::error(500)
        };
        let mut value = Vec::new();
        for param in &application.params {
            value.clear();
            param.value.write(&ExchangeView::of(self), &mut value);
            if !(param.unless_empty && value.is_empty()) {
                head.param(&param.name, &value).map_err(too_large)?;
            }
        }
        if let Some((modified, tag)) = self.cache_validators() {
            let date = modified.map(|modified| Moment::new(modified, 0).http_date().to_vec()).unwrap_or_default();
            for (name, value) in [(&b"HTTP_IF_MODIFIED_SINCE"[..], &*date), (&b"HTTP_IF_NONE_MATCH"[..], tag)] {
                if !value.is_empty() && !application.names.contains(name) {
                    head.param(name, value).map_err(too_large)?;
                }
            }
        }
        if !plan.pass_request_headers {
            return Ok(());
        }
        let is_cacheable = self.is_cacheable();
        let (fields, bytes) = (&self.request.head.fields, &self.request.bytes);
        let mut name = FIELD.to_vec();
        for (at, field) in fields.iter().enumerate() {
            if is_cacheable && is_condition(field.id) {
                continue;
            }
            name.truncate(FIELD.len());
            name.extend(
                field.name.of(bytes).iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }),
            );
            // A `Proxy` field would become the application's HTTP_PROXY (CVE-2016-5385).
            if name == b"HTTP_PROXY" || application.names.contains(&*name) {
                continue;
            }
            let same = |other: &&Field| is_param_of(other.name.of(bytes), &name[FIELD.len()..]);
            if fields[..at].iter().any(|other| same(&other)) {
                // Already sent, joined with the first field of its name.
                continue;
            }
            if let Some(other) = fields[at + 1..]
                .iter()
                .filter(same)
                .find(|other| !other.name.of(bytes).eq_ignore_ascii_case(field.name.of(bytes)))
            {
                let (one, other) = (quoted(field.name.of(bytes)), quoted(other.name.of(bytes)));
                self.client_log(&format!("header fields \"{one}\" and \"{other}\" are one parameter"));
                return Err(Reply::error(400));
            }
            value.clear();
            let between: &[u8] = if field.id == FieldId::Cookie { b"; " } else { b", " };
            for field in fields[at..].iter().filter(same) {
                if !value.is_empty() {
                    value.extend_from_slice(between);
                }
                value.extend_from_slice(field.value.of(bytes));
            }
            head.param(&name, &value).map_err(too_large)?;
        }
        Ok(())
    }

    /// Takes received bytes before the response head is complete.
    pub(super) fn take_records(
        &mut self,
        bytes: &[u8],
        fastcgi: &FastcgiPlan,
        plan: &BoundProxy,
        up: &UpstreamSide,
        tries: &Tries,
    ) -> HeadStep {
        let invalid = |reason: String| HeadStep::Failed(Failure::InvalidHeader, reason, DiscardReason::ProtocolError);
        let mut records: Box<Records> = self.upstream.records.take().unwrap_or_default();
        let used = match records.receive(bytes) {
            Ok(used) => used,
            Err(error) => return invalid(error.to_string()),
        };
        let stderr = records.take_stderr();
        self.log_stderr(&stderr, "reading response header from upstream");
        let is_fatal = |text: &[u8]| memchr::memmem::find(&stderr, text).is_some();
        if fastcgi.fatal_texts.iter().any(|text| is_fatal(text)) {
            return invalid(String::new());
        }
        // As in nginx, bytes behind the end belong to no request; their connection must not serve another one.
        let has_excess = used < bytes.len();
        let mut head = self.thread.take_scratch();
        let is_complete = records.take_head(&mut head);
        let step = match is_complete {
            Err(error) => invalid(error.to_string()),
            Ok(false) if records.has_closed_output() => {
                invalid("upstream prematurely closed FastCGI stdout".to_owned())
            }
            Ok(false) if records.has_ended() => {
                invalid("upstream sent unexpected FastCGI record: 3, the end without a head".to_owned())
            }
            Ok(false) if records.waiting_bytes() >= plan.limits.head_bytes_max => {
                invalid("upstream sent too big header".to_owned())
            }
            Ok(false) if records.waiting_bytes() > HEAD_BYTES_USUAL && self.thread.refuses_growth() => no_room(),
            Ok(false) => {
                self.upstream.records = Some(records);
                HeadStep::Waiting
            }
            Ok(true) => {
                self.upstream.records = Some(records);
                let keeps = fastcgi.keeps_connections && !has_excess;
                let mut step = self.begin_cgi_response(&head, b"", keeps, plan, up, tries);
                if let HeadStep::Relaying(relay) = &mut step {
                    relay.body.excess |= has_excess;
                }
                step
            }
        };
        self.thread.put_scratch(head);
        step
    }

    /// Looks for the head of a CGI response in everything received so far.
    pub(super) fn take_cgi_head(
        &mut self,
        bytes: &[u8],
        plan: &BoundProxy,
        up: &UpstreamSide,
        tries: &Tries,
    ) -> HeadStep {
        let invalid = |reason: String| HeadStep::Failed(Failure::InvalidHeader, reason, DiscardReason::ProtocolError);
        let mut head = self.thread.take_scratch();
        let step = match http_head(bytes, &mut head) {
            Err(error) => invalid(error.to_string()),
            Ok(Some(length)) => self.begin_cgi_response(&head, &bytes[length..], false, plan, up, tries),
            Ok(None) if bytes.len() >= plan.limits.head_bytes_max => invalid("upstream sent too big header".to_owned()),
            Ok(None) if bytes.len() > HEAD_BYTES_USUAL && self.thread.refuses_growth() => no_room(),
            Ok(None) => {
                self.keep_answer_bytes(bytes);
                HeadStep::Waiting
            }
        };
        self.thread.put_scratch(head);
        step
    }

    /// Continues with the CGI head that was found; `rest` is what followed it.
    pub(super) fn begin_cgi_response(
        &mut self,
        head: &[u8],
        rest: &[u8],
        keeps_connection: bool,
        plan: &BoundProxy,
        up: &UpstreamSide,
        tries: &Tries,
    ) -> HeadStep {
        let invalid = |reason: String| HeadStep::Failed(Failure::InvalidHeader, reason, DiscardReason::ProtocolError);
        // A value comes also where the client asked for the head only.
        let is_head = tries.asks_for_head && !self.upstream.is_value;
        let request = if is_head { RequestKind::Head } else { RequestKind::Other };
        let answer = self.answer_mut();
        match http1::response::parse(head, &plan.limits, request, &mut answer.head) {
            Ok(Parse::Complete { .. }) if answer.head.kind == ResponseKind::Final => {
                answer.head.keepalive = keeps_connection;
                self.begin_response(head, rest, plan, up, tries)
            }
            Ok(_) => invalid("upstream sent invalid status".to_owned()),
            Err(error) => invalid(format!("{}: {error}", error.phrase())),
        }
    }

    /// Logs what an application has written to standard error.
    pub(super) fn log_stderr(&self, text: &[u8], place: &str) {
        let text = text.trim_ascii_end();
        if !text.is_empty() {
            self.error_log(&format!("FastCGI sent in stderr: \"{}\" while {place}", quoted(text)));
        }
    }
}

pub(super) fn no_room() -> HeadStep {
    let reason = "memory_budget has no room for the rest of a large response head".into();
    HeadStep::Failed(Failure::NoSocket, reason, DiscardReason::ResponseBodyUnread)
}

/// Whether a field becomes the parameter with this name.
fn is_param_of(field: &[u8], param: &[u8]) -> bool {
    let byte = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
    field.len() == param.len() && field.iter().map(byte).eq(param.iter().copied())
}
