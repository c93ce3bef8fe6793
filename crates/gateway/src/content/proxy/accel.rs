//! `X-Accel-*`: fields of a response by which an upstream steers the gateway. `X-Accel-Redirect` leaves the answer to
//! another location, `X-Accel-Buffering` says how much of the response is held for a slow client. The others concern
//! caches, rates and charsets.

use crate::base::logs::error::quoted;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::step::{Redirect, Step};
use crate::registry::generation::BoundProxy;
use http1::FieldId;
use rules::uri::parse_internal;

/// Fields of the upstream's that go with what it redirects to, as in nginx.
const CARRIED: [FieldId; 5] =
    [FieldId::SetCookie, FieldId::ContentDisposition, FieldId::CacheControl, FieldId::Expires, FieldId::AcceptRanges];

impl Exchange {
    /// Where the upstream wants the request to go on.
    pub(crate) fn accel_redirect(&self, plan: &BoundProxy) -> Option<&[u8]> {
        let answer = self.answer().filter(|_| plan.accel_redirect)?;
        answer.head.value(FieldId::XAccelRedirect, &answer.bytes)
    }

    /// Goes there. The method is GET from now on, unless it is HEAD or the location is a named one.
    pub(crate) fn follow_accel_redirect(&mut self, plan: &BoundProxy) -> Step {
        let uri = self.accel_redirect(plan).unwrap_or_default().to_vec();
        self.carry(plan, &CARRIED);
        self.take_limit_rate(plan);
        self.take_charset(plan);
        self.response.carried_type = self
            .answer()
            .and_then(|answer| answer.head.value(FieldId::ContentType, &answer.bytes))
            .filter(|media| !media.is_empty())
            .map(Into::into);
        if uri.starts_with(b"@") {
            return Step::Redirect(Redirect::Named(uri));
        }
        let Some((path, args)) = parse_internal(&uri) else {
            self.error_log(&format!("unsafe URI \"{}\" was detected in X-Accel-Redirect", quoted(&uri)));
            return Step::Reply(Reply::error(404));
        };
        self.routing.fetch_by_get();
        Step::Redirect(Redirect::Uri { uri: path, args: args.map(<[u8]>::to_vec) })
    }

    /// Bytes of the response that are held for a client that does not take them.
    pub(crate) fn buffer_bytes(&self, plan: &BoundProxy) -> usize {
        match self.says_buffering(plan) {
            Some(buffered) => plan.accel_buffer_bytes[usize::from(buffered)],
            None => plan.buffer_bytes,
        }
    }

    /// Whether what comes is passed on at once, also by a compressor.
    pub(crate) fn flushes(&self, plan: &BoundProxy) -> bool {
        self.says_buffering(plan).map_or(plan.flushes, |buffered| !buffered)
    }

    /// What the upstream says about it, where it has a say.
    fn says_buffering(&self, plan: &BoundProxy) -> Option<bool> {
        let answer = self.answer().filter(|_| plan.obeys_buffering)?;
        match answer.head.value(FieldId::XAccelBuffering, &answer.bytes)? {
            said if said.eq_ignore_ascii_case(b"no") => Some(false),
            said if said.eq_ignore_ascii_case(b"yes") => Some(true),
            _ => None,
        }
    }
}
