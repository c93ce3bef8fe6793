//! Requests for applications behind FastCGI, SCGI or uwsgi: parameters instead of a head of HTTP. Everything else is as for HTTP: peers,
//! connections, retries, responses, filters.

use crate::base::logs::error::quoted;
use crate::content::proxy::request_head::is_condition;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::view::ExchangeView;
use crate::plan::application::{ApplicationPlan, ApplicationProtocol};
use crate::registry::generation::BoundProxy;
use crate::upstream::outgoing_body::OutgoingBody;
use cgi::{Params, fastcgi, scgi, uwsgi};
use http1::outgoing::OutgoingHead;
use http1::{Field, FieldId};
use rules::time_format::Moment;

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
        self.upstream.note_upgrade(false);
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

    /// Logs what an application has written to standard error.
    pub(super) fn log_stderr(&self, text: &[u8], place: &str) {
        let text = text.trim_ascii_end();
        if !text.is_empty() {
            self.error_log(&format!("FastCGI sent in stderr: \"{}\" while {place}", quoted(text)));
        }
    }
}

/// Whether a field becomes the parameter with this name.
fn is_param_of(field: &[u8], param: &[u8]) -> bool {
    let byte = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
    field.len() == param.len() && field.iter().map(byte).eq(param.iter().copied())
}
