//! Rewrites fields of an upstream's response: Location and Refresh by `proxy_redirect`, Set-Cookie by
//! `proxy_cookie_domain`, `proxy_cookie_path` and `proxy_cookie_flags`. Called when an upstream's response is encoded.

use crate::base::logs::error::Level;
use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::registry::generation::BoundProxy;
use http1::{Field, FieldId};
use rules::captures::Captures;
use rules::pattern::MatchError;
use std::borrow::Cow;

impl Exchange {
    /// Passes fields on, rewritten as the location says.
    pub(crate) fn pass_fields(&self, plan: &BoundProxy, head: &mut ReplyHead) {
        let Some(answer) = self.answer() else { return };
        let seen = |id| answer.head.seen.contains(id);
        let redirects = !plan.redirects.0.is_empty() && (seen(FieldId::Location) || seen(FieldId::Refresh));
        let cookies = plan.cookies.is_some() && seen(FieldId::SetCookie);
        for field in self.passed_fields(plan) {
            match field.id {
                FieldId::Location | FieldId::Refresh if redirects => {}
                FieldId::SetCookie if cookies => {}
                _ => {
                    head.fields.pass(field);
                    continue;
                }
            }
            match self.rewrite(plan, field, &answer.bytes) {
                Cow::Borrowed(_) => head.fields.pass(field),
                // nginx itself spells the name of a Location that it makes absolute; over HTTP/2 names arrive in lower
                // case.
                Cow::Owned(value) if field.id == FieldId::Location && value.starts_with(b"/") => {
                    match self.absolute_location(value) {
                        path if path.starts_with(b"/") => head.fields.pass_as(field, &path),
                        absolute => head.fields.push(FieldId::Location, &absolute),
                    }
                }
                Cow::Owned(value) => head.fields.pass_as(field, &value),
            }
        }
    }

    /// The value of a field for the client; `field` points into `bytes`.
    pub(crate) fn rewritten<'a>(&self, plan: &BoundProxy, field: &Field, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self.rewrite(plan, field, bytes) {
            // A rewritten Location that is a path becomes absolute, like one of our own.
            Cow::Owned(value) if field.id == FieldId::Location => Cow::Owned(self.absolute_location(value)),
            value => value,
        }
    }

    /// The same, but a Location that is a path stays one.
    fn rewrite<'a>(&self, plan: &BoundProxy, field: &Field, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let value = field.value.of(bytes);
        let mut rewritten = Vec::new();
        match self.rewrite_field(plan, field.id, value, &mut rewritten) {
            Ok(true) => Cow::Owned(match field.id {
                FieldId::Location | FieldId::Refresh => self.one_line(rewritten, || "\"proxy_redirect\"".to_owned()),
                _ => self.one_line(rewritten, || "\"proxy_cookie_domain\" and its like".to_owned()),
            }),
            Ok(false) => Cow::Borrowed(value),
            Err(error) => {
                self.error_log(&error.message);
                self.routing.undecided.note();
                Cow::Borrowed(value)
            }
        }
    }

    fn rewrite_field(
        &self,
        plan: &BoundProxy,
        id: FieldId,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, MatchError> {
        let view = ExchangeView::of(self);
        let mut captures = Captures::default();
        match (id, &plan.cookies) {
            (FieldId::Location, _) => plan.redirects.rewrite_location(value, &view, &mut captures, out),
            (FieldId::Refresh, _) => plan.redirects.rewrite_refresh(value, &view, &mut captures, out),
            (FieldId::SetCookie, Some(cookies)) => {
                let mut unknown = |flag: &[u8]| {
                    let message = format!("invalid proxy_cookie_flags flag \"{}\"", flag.escape_ascii());
                    self.log_at(Level::Warn, &message);
                };
                cookies.rewrite(value, &view, &mut captures, &mut unknown, out)
            }
            _ => Ok(false),
        }
    }
}
