//! Sticky sessions: reads the session from the request, adds the cookie to the response, and learns sessions from
//! responses. `upstream::balance` chooses the peer for a session.

use crate::content::proxy::Tries;
use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::plan::sticky::{CookiePlan, LearnPlan, StickyPlan, is_same_site, session_key};
use crate::registry::generation::BoundProxy;
use http1::FieldId;
use rules::template::Template;
use rules::time_format::Moment;
use rules::variable::cookie;
use std::io::Write as _;
use std::time::Duration;

/// When a session is learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LearnAt {
    Header,
    End,
}

/// What `expires=max` means: nginx's ten years, and the last second that old clients can represent.
const FOREVER: &str = "; expires=Thu, 31-Dec-37 23:55:55 GMT; max-age=315360000";

impl Exchange {
    /// The `sid` of the peer that the request's session is bound to; empty if it is not.
    pub(crate) fn bound_to(&self, plan: &BoundProxy) -> Vec<u8> {
        let request = &self.request;
        let found = match &plan.group.sticky {
            None => None,
            Some(StickyPlan::Cookie(plan)) => {
                let mut fields = request.head.fields.iter().filter(|field| field.id == FieldId::Cookie);
                fields.find_map(|field| cookie(field.value.of(&request.bytes), &plan.name)).map(<[u8]>::to_vec)
            }
            Some(StickyPlan::Route(templates)) => self.first_of(templates),
            Some(StickyPlan::Learn(learn)) => self.first_of(&learn.lookup).and_then(|session| {
                let sid = plan.group.sessions.as_ref()?.lookup(session_key(&session), self.thread.pool_now())?;
                Some(sid.to_vec())
            }),
            Some(StickyPlan::Header { name, .. }) => {
                let mut fields = request.head.fields.iter();
                let field = fields.find(|field| name.matches(field.name.of(&request.bytes)));
                field.map(|field| field.value.of(&request.bytes).to_vec())
            }
        };
        found.unwrap_or_default()
    }

    /// The first template with a value that is not empty.
    fn first_of(&self, templates: &[Template]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        templates.iter().find_map(|template| {
            template.write(&ExchangeView::of(self), &mut value);
            (!value.is_empty()).then(|| std::mem::take(&mut value))
        })
    }

    /// Adds the cookie that tells the client its peer.
    pub(crate) fn fill_sticky(&self, plan: &BoundProxy, head: &mut ReplyHead) {
        let Some(attempt) = self.upstream.attempts().last() else { return };
        let Some(set) = plan.group.members.of(&attempt.held) else { return };
        let sid = set.balance.sid(attempt.peer as usize);
        match &plan.group.sticky {
            Some(StickyPlan::Cookie(cookie)) => {
                let mut value = Vec::new();
                self.write_cookie(cookie, sid, &mut value);
                let value = self.one_line(value, || "\"sticky cookie\"".to_owned());
                head.fields.push(FieldId::SetCookie, &value);
            }
            Some(StickyPlan::Header { written, .. }) => head.fields.push_named(written, sid),
            _ => {}
        }
    }

    fn write_cookie(&self, plan: &CookiePlan, sid: &[u8], out: &mut Vec<u8>) {
        let view = ExchangeView::of(self);
        let attribute = |name: &[u8], template: &Option<Template>, out: &mut Vec<u8>| {
            let Some(template) = template else { return };
            let start = out.len();
            out.extend_from_slice(name);
            let value = out.len();
            template.write(&view, out);
            if out.len() == value {
                out.truncate(start);
            }
        };
        out.extend_from_slice(&plan.name);
        out.push(b'=');
        out.extend_from_slice(sid);
        match plan.expires {
            None => {}
            Some(Duration::MAX) => out.extend_from_slice(FOREVER.as_bytes()),
            Some(expires) => write_expiry(self.thread.clock.now(), expires, out),
        }
        attribute(b"; domain=", &plan.domain, out);
        if plan.httponly {
            out.extend_from_slice(b"; httponly");
        }
        if plan.secure {
            out.extend_from_slice(b"; secure");
        }
        let start = out.len();
        attribute(b"; samesite=", &plan.samesite, out);
        // Browsers ignore an unknown value, which would disable the protection.
        if let Some(value) = out.get(start + b"; samesite=".len()..)
            && !is_same_site(value)
        {
            out.truncate(start);
            out.extend_from_slice(b"; samesite=strict");
        }
        attribute(b"; path=", &plan.path, out);
    }

    /// Binds the session to the peer that answered.
    pub(crate) fn learn_session(&self, plan: &BoundProxy, tries: &Tries, index: usize, at: LearnAt) {
        let Some(StickyPlan::Learn(learn)) = &plan.group.sticky else { return };
        let LearnPlan { create, lookup, at_header, .. } = &**learn;
        if *at_header != (at == LearnAt::Header) {
            return;
        }
        let (Some(set), Some(sessions)) = (plan.group.members.of(&tries.choice.held), &plan.group.sessions) else {
            return;
        };
        let (session, is_new) = match self.first_of(create) {
            Some(session) => (session, true),
            None => match self.first_of(lookup) {
                Some(session) => (session, false),
                None => return,
            },
        };
        sessions.learn(session_key(&session), set.balance.sid(index), is_new, self.thread.pool_now());
    }
}

/// Writes `expires` in the oldest cookie date format, and `max-age`.
fn write_expiry(now: Duration, expires: Duration, out: &mut Vec<u8>) {
    out.extend_from_slice(b"; expires=");
    out.extend_from_slice(&Moment::new(now.saturating_add(expires).as_secs() as i64, 0).cookie_date());
    // Writing to a vector cannot fail.
    let _ = write!(out, "; max-age={}", expires.as_secs());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expiry(now: u64, expires: u64) -> String {
        let mut out = Vec::new();
        write_expiry(Duration::from_secs(now), Duration::from_secs(expires), &mut out);
        String::from_utf8(out).expect("a date is ASCII")
    }

    #[test]
    fn an_expiry_has_the_date_of_old_cookies() {
        assert_eq!(expiry(784_111_777, 0), "; expires=Sun, 06-Nov-94 08:49:37 GMT; max-age=0");
        assert_eq!(expiry(2_145_916_555, 3600), "; expires=Fri, 01-Jan-2038 00:55:55 GMT; max-age=3600");
    }
}
