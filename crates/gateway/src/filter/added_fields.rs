//! What a location adds to every response: `expires`, `add_header`, `add_trailer`. Called by whoever encodes a head, and
//! when a body has ended.

use crate::content::reply::is_bodiless;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::plan::added_fields::AddedField;
use crate::plan::added_fields::AddedPlan;
use crate::plan::added_fields::ExpiresPlan;
use crate::plan::added_fields::drop_fields;
use crate::plan::added_fields::expiry;
use crate::plan::added_fields::fields;
use crate::plan::added_fields::is_usual;
use conf::model::{Expires, parse_expires_text};
use http1::encode::encode_field;
use http1::outgoing::is_field_value;
use http1::{FieldId, Method, Version};
use rules::precondition::parse_date;

impl Exchange {
    /// Adds to an encoded head, which may be seen by the values, what the location wants in it.
    pub(crate) fn encode_added(&self, status: u16, head: &mut Vec<u8>) {
        let Some(plan) = &self.location().added else { return };
        if is_usual(status) {
            self.encode_expiry(plan, head);
        }
        for field in plan.fields.iter().filter(|field| field.always || is_usual(status)) {
            let value = self.added_value(field, &ExchangeView::before(self, head));
            if field.replaces() {
                drop_fields(head, &[field.name.as_bytes()]);
            }
            if !value.is_empty() {
                encode_field(field.name.as_bytes(), &value, head);
            }
        }
    }

    fn encode_expiry(&self, plan: &AddedPlan, head: &mut Vec<u8>) {
        let evaluated;
        let expires = match &plan.expires {
            ExpiresPlan::Fixed(Expires::Off) => return,
            ExpiresPlan::Fixed(expires) => expires,
            ExpiresPlan::Template { modified, value } => {
                let mut text = Vec::new();
                value.write(&ExchangeView::before(self, head), &mut text);
                // As in nginx a value that says nothing leaves the response as it is.
                let Some(expires) = parse_expires_text(&text, *modified) else { return };
                evaluated = expires;
                &evaluated
            }
        };
        let clock = &self.thread.clock;
        let modified = fields(head).find(|(name, _)| name.eq_ignore_ascii_case(b"last-modified"));
        let modified = modified.and_then(|(_, value)| parse_date(value));
        let said = expiry(expires, clock.now().as_secs() as i64, modified, clock.utc_offset_minutes());
        if let Some((date, control)) = said {
            drop_fields(head, &[b"expires", b"cache-control"]);
            encode_field(b"Expires", &date, head);
            encode_field(b"Cache-Control", &control, head);
        }
    }

    /// The value of a field, as `view` shows the exchange.
    fn added_value(&self, field: &AddedField, view: &ExchangeView<'_>) -> Vec<u8> {
        let mut value = Vec::new();
        field.value.write(view, &mut value);
        self.one_line(value, || {
            let by = self.brought_by(&field.value, |value| !is_field_value(value));
            format!("\"{} {}\"{by}", field.directive, field.name.as_bytes().escape_ascii())
        })
    }

    /// Whether the response ends in trailers, which only chunks can have: the location's, or those that it `brings` along.
    pub(crate) fn wants_trailers(&self, status: u16, brings: bool) -> bool {
        let adds = || {
            let added = self.location().added.as_ref();
            added.is_some_and(|plan| plan.trailers.iter().any(|field| field.always || is_usual(status)))
        };
        (brings || adds())
            && !is_bodiless(status)
            && self.down.method != Method::Head
            && self.down.version == Version::Http11
            && self.client_plan().chunked_transfer_encoding
    }

    /// `proxy_pass_trailers`: the lines of the upstream's that are not hidden.
    fn passed_trailers(&self) -> Vec<u8> {
        let plan = self.generation.proxy_of(&self.location().content, self.proxy_place);
        let (Some(answer), Some(plan)) = (self.answer(), plan) else { return Vec::new() };
        if !plan.pass_trailers {
            return Vec::new();
        }
        let mut lines = Vec::with_capacity(answer.trailers.len());
        for (name, value) in fields(&answer.trailers) {
            if !plan.hidden.contains(FieldId::of_name(name), name) {
                encode_field(name, value, &mut lines);
            }
        }
        lines
    }

    /// Ends a body that waits for its trailers.
    pub(crate) fn send_trailers(&mut self) {
        if !self.down.awaits_trailers() {
            return;
        }
        let mut lines = self.passed_trailers();
        if let Some(plan) = &self.location().added {
            for field in plan.trailers.iter().filter(|field| field.always || is_usual(self.status)) {
                let value = self.added_value(field, &ExchangeView::before_trailers(self, &lines));
                if !value.is_empty() {
                    encode_field(field.name.as_bytes(), &value, &mut lines);
                }
            }
        }
        if self.down.end_with_trailers(&lines).is_err() {
            self.close = Some(crate::base::close::CloseReason::ClientAborted);
        }
    }
}
