//! Fields that a location adds to every response: `expires`, `add_header`, `add_trailer`. These steps edit heads and
//! trailers; the caller evaluates the values.

use crate::downstream::reply_head::{Fields, HeadView, ReplyHead};
use crate::plan::added_fields::{AddedField, AddedPlan, ExpiresPlan, expiry, is_usual};
use conf::model::{Expires, parse_expires_text};
use http1::FieldId;
use rules::precondition::parse_date;
use rules::template::Template;

/// Evaluates the values of added fields. `head` is the head so far, which values may use.
pub(crate) trait HeadValues {
    /// The value of a field.
    fn field(&self, field: &AddedField, head: HeadView<'_>) -> Vec<u8>;
    /// The value of the `expires` template.
    fn expires(&self, template: &Template, head: HeadView<'_>) -> Vec<u8>;
    /// Seconds since the epoch.
    fn now(&self) -> i64;
    /// Offset of local time, east of Greenwich.
    fn utc_offset_minutes(&self) -> i16;
}

/// Adds the location's fields to a head.
pub(crate) fn add_fields(plan: &AddedPlan, head: &mut ReplyHead, answer: &[u8], values: &impl HeadValues) {
    let usual = is_usual(head.status);
    if usual {
        add_expiry(plan, head, answer, values);
    }
    for field in plan.fields.iter().filter(|field| field.always || usual) {
        let value = values.field(field, head.with(answer));
        if field.replaces() {
            head.fields.remove(FieldId::of_name(field.name.as_bytes()));
        }
        if !value.is_empty() {
            head.fields.push_named(field.name.as_bytes(), &value);
        }
    }
}

fn add_expiry(plan: &AddedPlan, head: &mut ReplyHead, answer: &[u8], values: &impl HeadValues) {
    let evaluated;
    let expires = match &plan.expires {
        ExpiresPlan::Fixed(Expires::Off) => return,
        ExpiresPlan::Fixed(expires) => expires,
        ExpiresPlan::Template { modified, value } => {
            let text = values.expires(value, head.with(answer));
            // As in nginx, an invalid value leaves the response unchanged.
            let Some(expires) = parse_expires_text(&text, *modified) else { return };
            evaluated = expires;
            &evaluated
        }
    };
    let modified = head.fields.value(FieldId::LastModified, answer).and_then(parse_date);
    if let Some((date, control)) = expiry(expires, values.now(), modified, values.utc_offset_minutes()) {
        head.fields.remove(FieldId::Expires);
        head.fields.remove(FieldId::CacheControl);
        head.fields.push(FieldId::Expires, &date);
        head.fields.push(FieldId::CacheControl, &control);
    }
}

/// Whether the location adds trailers to a response of this status.
pub(crate) fn adds_trailers(plan: Option<&AddedPlan>, status: u16) -> bool {
    plan.is_some_and(|plan| plan.trailers.iter().any(|field| field.always || is_usual(status)))
}

/// Adds the location's trailers. `value` may use the trailers so far.
pub(crate) fn add_trailers(
    plan: &AddedPlan,
    status: u16,
    trailers: &mut Fields,
    value: impl Fn(&AddedField, &Fields) -> Vec<u8>,
) {
    for field in plan.trailers.iter().filter(|field| field.always || is_usual(status)) {
        let value = value(field, trailers);
        if !value.is_empty() {
            trailers.push_named(field.name.as_bytes(), &value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::outgoing::FieldToken;

    /// Each value contains the server field that the head has so far.
    struct Values;

    impl HeadValues for Values {
        fn field(&self, _: &AddedField, head: HeadView<'_>) -> Vec<u8> {
            head.value(FieldId::Server).unwrap_or_default().to_vec()
        }

        fn expires(&self, _: &Template, _: HeadView<'_>) -> Vec<u8> {
            Vec::new()
        }

        fn now(&self) -> i64 {
            784_111_777
        }

        fn utc_offset_minutes(&self) -> i16 {
            0
        }
    }

    fn added(name: &[u8], always: bool) -> AddedField {
        let name = FieldToken::new(name).expect("a name");
        AddedField { directive: "add_header", name, value: Template::constant(b""), always }
    }

    fn shown(plan: &AddedPlan, status: u16) -> String {
        let mut head = ReplyHead::of(status);
        head.fields.push(FieldId::Server, b"x");
        head.fields.push(FieldId::CacheControl, b"private");
        head.fields.push(FieldId::ETag, b"\"old\"");
        add_fields(plan, &mut head, b"", &Values);
        head.fields
            .iter(b"")
            .map(|(name, value)| format!("{}={};", name.escape_ascii(), value.escape_ascii()))
            .collect::<Vec<_>>()
            .concat()
    }

    #[test]
    fn fields_are_added_and_replaced_by_status() {
        let plan = AddedPlan {
            expires: ExpiresPlan::Fixed(Expires::Epoch),
            fields: vec![added(b"ETag", false), added(b"X-By", true)],
            trailers: Vec::new(),
        };
        assert_eq!(
            shown(&plan, 200),
            "Server=x;Expires=Thu, 01 Jan 1970 00:00:01 GMT;Cache-Control=no-cache;ETag=x;X-By=x;"
        );
        assert_eq!(shown(&plan, 500), "Server=x;Cache-Control=private;ETag=\\\"old\\\";X-By=x;");
    }
}
