//! `userid`: the id that a client sends, and the one that it gets. Each is determined once per exchange, when a
//! variable or the response's head first needs it.

use crate::base::logs::error::{Level, quoted};
use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::plan::user_id::UserIdPlan;
use conf::model::{UserIdExpiry, UserIdMode};
use http1::FieldId;
use rules::time_format::Moment;
use rules::user_id::{CookieFault, UserId};
use rules::variable::{Variable, cookie};
use std::cell::{Cell, OnceCell};
use std::net::IpAddr;

/// Nearly the last second that 32 bits can represent.
const FOREVER: &[u8] = b"; expires=Thu, 31-Dec-37 23:55:55 GMT";

/// The ids of an exchange.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserIds {
    received: OnceCell<Option<Box<UserId>>>,
    given: OnceCell<Option<Box<UserId>>>,
    /// Being determined now: `$uid_reset` may be a `map` of `$uid_set`, which has no value meanwhile.
    is_asked: Cell<bool>,
}

impl UserIds {
    /// The ids that a subrequest inherits from its starter.
    pub(crate) fn inherited(&self) -> Self {
        // If the client's own request got no new id, a subrequest makes none either.
        let inherited = self.clone();
        let _ = inherited.given.set(None);
        inherited
    }
}

impl Exchange {
    fn user_id_cookie(&self, plan: &UserIdPlan) -> Option<&[u8]> {
        let request = &self.request;
        let mut fields = request.head.fields.iter().filter(|field| field.id == FieldId::Cookie);
        fields.find_map(|field| cookie(field.value.of(&request.bytes), plan.name.as_bytes()))
    }

    /// The id that the client sent.
    fn received_id(&self, plan: &UserIdPlan) -> Option<UserId> {
        let read = || {
            let cookie = self.user_id_cookie(plan)?;
            let fault = match UserId::decode(cookie) {
                Ok(id) => return id.map(Box::new),
                Err(CookieFault::TooShort) => "too short",
                Err(CookieFault::Invalid) => "invalid",
            };
            self.error_log(&format!("client sent {fault} userid cookie \"{}\"", quoted(cookie)));
            None
        };
        self.response.user_ids.received.get_or_init(read).as_deref().copied()
    }

    /// The id that the client gets.
    fn given_id(&self, plan: &UserIdPlan) -> Option<UserId> {
        if !matches!(plan.mode, UserIdMode::V1 | UserIdMode::On) {
            return None;
        }
        let ids = &self.response.user_ids;
        if let Some(known) = ids.given.get() {
            return known.as_deref().copied();
        }
        if ids.is_asked.replace(true) {
            return None;
        }
        let given = self.give_id(plan);
        ids.is_asked.set(false);
        ids.given.get_or_init(|| given.map(Box::new)).as_deref().copied()
    }

    fn give_id(&self, plan: &UserIdPlan) -> Option<UserId> {
        if let Some(id) = self.received_id(plan) {
            let mut reset = Vec::new();
            plan.reset.write(&ExchangeView::of(self), &mut reset);
            if matches!(reset.as_slice(), b"" | b"0") {
                let cookie = self.user_id_cookie(plan).unwrap_or_default();
                let is_missing = plan.mark.is_some_and(|mark| !UserId::is_marked(cookie, mark));
                // The same id is sent back with the mark.
                return is_missing.then_some(id);
            }
            if reset == b"log" {
                self.log_at(Level::Notice, &format!("userid cookie \"{}\" was reset", id.shown(&plan.name)));
            }
        }
        let seconds = self.thread.clock.now().as_secs() as u32;
        let mut counter = self.thread.user_ids.get();
        let made = match plan.mode {
            UserIdMode::V1 => counter.next_v1(plan.service.unwrap_or(0), seconds),
            _ => counter.next(plan.service.map_or_else(|| self.service_bytes(), u32::to_be_bytes), seconds),
        };
        self.thread.user_ids.set(counter);
        Some(made)
    }

    /// The address that the client connected to, or the last four bytes of it.
    fn service_bytes(&self) -> [u8; 4] {
        match self.down.local_address().map(|address| address.ip()) {
            Some(IpAddr::V4(address)) => address.octets(),
            Some(IpAddr::V6(address)) => {
                let [.., a, b, c, d] = address.octets();
                [a, b, c, d]
            }
            None => [0; 4],
        }
    }

    /// `$uid_got` and `$uid_set`
    pub(super) fn write_user_id(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let Some(plan) = self.location().user_id.as_deref() else { return false };
        let id = if *variable == Variable::UidSet { self.given_id(plan) } else { self.received_id(plan) };
        id.is_some_and(|id| {
            out.extend_from_slice(id.shown(&plan.name).as_bytes());
            true
        })
    }

    /// Adds the cookie to a head.
    pub(crate) fn fill_user_id(&self, head: &mut ReplyHead) {
        let Some(plan) = self.location().user_id.as_deref().filter(|_| !self.is_subrequest()) else { return };
        let Some(id) = self.given_id(plan) else { return };
        let mut value = [plan.name.as_bytes(), b"=", &id.encode(plan.mark)].concat();
        match plan.expires {
            UserIdExpiry::Session => {}
            UserIdExpiry::Max => value.extend_from_slice(FOREVER),
            UserIdExpiry::After(time) => {
                let until = self.thread.clock.now().saturating_add(time).as_secs() as i64;
                value.extend_from_slice(b"; expires=");
                value.extend_from_slice(&Moment::new(until, 0).cookie_date());
            }
        }
        value.extend_from_slice(&plan.attributes);
        head.fields.push(FieldId::SetCookie, &value);
        if let Some(p3p) = &plan.p3p {
            head.fields.push_named(b"P3P", p3p);
        }
    }
}
