//! `X-Accel-*`: response fields by which an upstream controls the gateway. `X-Accel-Redirect` lets another location
//! answer; `X-Accel-Buffering` sets how much of the response is buffered for a slow client. The others concern caches,
//! rates and charsets.

use crate::base::logs::error::quoted;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::step::{Redirect, Step};
use crate::registry::generation::BoundProxy;
use http1::FieldId;
use rules::uri::parse_internal;

/// Upstream fields that are kept for the response of the redirect's target, as in nginx.
const CARRIED: [FieldId; 5] =
    [FieldId::SetCookie, FieldId::ContentDisposition, FieldId::CacheControl, FieldId::Expires, FieldId::AcceptRanges];

impl Exchange {
    /// The target of `X-Accel-Redirect`, if the proxy honours it.
    pub(crate) fn accel_redirect(&self, plan: &BoundProxy) -> Option<&[u8]> {
        let answer = self.answer().filter(|_| plan.accel_redirect)?;
        answer.head.value(FieldId::XAccelRedirect, &answer.bytes)
    }

    /// Redirects to it. The method becomes GET, unless it is HEAD or the target is a named location.
    pub(crate) fn follow_accel_redirect(&mut self, plan: &BoundProxy) -> Step {
        let uri = self.accel_redirect(plan).unwrap_or_default().to_vec();
        self.carry(plan, &CARRIED);
        self.take_limit_rate(plan);
        self.take_charset(plan);
        let said = self.answer().and_then(|answer| answer.head.value(FieldId::ContentType, &answer.bytes));
        let said = said.filter(|media| !media.is_empty()).map(Into::into);
        self.response.carry_type(said);
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

    /// Bytes of the response that are buffered for a client that does not accept them.
    pub(crate) fn buffer_bytes(&self, plan: &BoundProxy) -> usize {
        match self.asks_for_buffering(plan) {
            Some(buffered) => plan.accel_buffer_bytes[usize::from(buffered)],
            None => plan.buffer_bytes,
        }
    }

    /// Whether received data is passed on at once, also by a compressor.
    pub(crate) fn flushes(&self, plan: &BoundProxy) -> bool {
        self.asks_for_buffering(plan).map_or(plan.flushes, |buffered| !buffered)
    }

    /// The value of `X-Accel-Buffering`, if the proxy honours it.
    fn asks_for_buffering(&self, plan: &BoundProxy) -> Option<bool> {
        let answer = self.answer().filter(|_| plan.obeys_buffering)?;
        match answer.head.value(FieldId::XAccelBuffering, &answer.bytes)? {
            said if said.eq_ignore_ascii_case(b"no") => Some(false),
            said if said.eq_ignore_ascii_case(b"yes") => Some(true),
            _ => None,
        }
    }
}
