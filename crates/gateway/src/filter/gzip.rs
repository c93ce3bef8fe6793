//! `gzip`: decides which responses are compressed, and edits their heads. Called when the head has every field that
//! nginx looks at, for responses from all kinds of content.

use crate::downstream::reply_head::{HeadView, Mark, ReplyHead};
use crate::filter::compress::Gzip;
use crate::plan::filters::GzipPlan;
use conf::model::HttpVersion;
use http1::{FieldId, Method, RequestHead, Version};
use rules::gzip::{ProxiedFacts, accepts_gzip, is_msie6, is_proxied_allowed, weak_tag};
use rules::precondition::parse_date;

/// The client of the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GzipClient<'a> {
    pub(crate) request: &'a RequestHead,
    /// The bytes that the request's spans point into.
    pub(crate) bytes: &'a [u8],
    /// Seconds since the epoch.
    pub(crate) now: i64,
    /// It is another exchange: this is a subrequest.
    pub(crate) is_inside: bool,
}

/// Turns a head into that of a compressed response if the location wants that, and returns the compressor. `has_room`:
/// there is memory for one. `flushes`: received data is passed on at once.
pub(crate) fn compress(
    plan: &GzipPlan,
    head: &mut ReplyHead,
    answer: &[u8],
    client: &GzipClient<'_>,
    has_room: impl FnOnce() -> bool,
    flushes: bool,
) -> Option<Gzip> {
    if !wants(plan, head.with(answer)) || !client.takes_gzip(plan, head.with(answer)) || !has_room() {
        return None;
    }
    let tag = head.fields.value(FieldId::ETag, answer).and_then(weak_tag);
    for id in [FieldId::ContentLength, FieldId::AcceptRanges, FieldId::ETag, FieldId::TransferEncoding] {
        head.fields.remove(id);
    }
    if let Some(tag) = tag {
        head.fields.push(FieldId::ETag, &tag);
    }
    head.fields.push(FieldId::ContentEncoding, b"gzip");
    // The compressed length is not known.
    head.length = None;
    head.fields.move_mark_last(Mark::Length);
    if client.request.method == Method::Head {
        return None;
    }
    head.has_body = true;
    Some(Gzip::new(plan.level, flushes))
}

/// Whether a response with this head would be compressed: ranges cannot be asked for then.
pub(crate) fn would_compress(plan: &GzipPlan, head: HeadView<'_>, client: &GzipClient<'_>) -> bool {
    wants(plan, head) && client.takes_gzip(plan, head)
}

/// Whether the location compresses a response with this head.
pub(crate) fn wants(plan: &GzipPlan, view: HeadView<'_>) -> bool {
    plan.on
        && matches!(view.head.status, 200 | 403 | 404)
        && !view.head.fields.says(FieldId::ContentEncoding, view.answer)
        && view.head.stated_length().is_none_or(|length| length >= plan.length_min)
        && plan.types.covers(view.value(FieldId::ContentType).unwrap_or_default())
}

impl GzipClient<'_> {
    /// Whether this client accepts compressed responses.
    pub(crate) fn takes_gzip(&self, plan: &GzipPlan, head: HeadView<'_>) -> bool {
        let Self { request, bytes, .. } = self;
        // As in nginx, a subrequest does not.
        if self.is_inside {
            return false;
        }
        let accepted = request.value(FieldId::AcceptEncoding, bytes).is_some_and(accepts_gzip);
        let version = match request.version {
            Version::Http10 => HttpVersion::Http10,
            Version::Http11 => HttpVersion::Http11,
        };
        if !accepted || version < plan.http_version {
            return false;
        }
        if !plan.msie6 && plan.agents.is_empty() && !request.seen.contains(FieldId::Via) {
            return true;
        }
        let agent = request.value(FieldId::UserAgent, bytes);
        if plan.msie6 && agent.is_some_and(is_msie6) {
            return false;
        }
        if request.seen.contains(FieldId::Via) && !is_proxied_allowed(plan.proxied, &self.proxied_facts(head)) {
            return false;
        }
        // An expression that exceeds its match limits may match this agent: every client can read an uncompressed
        // response.
        !agent.is_some_and(|agent| plan.agents.iter().any(|regex| regex.code.is_match(agent).unwrap_or(true)))
    }

    fn proxied_facts<'h>(&self, head: HeadView<'h>) -> ProxiedFacts<'h> {
        let now = head.value(FieldId::Date).and_then(parse_date).unwrap_or(self.now);
        let expires = head.value(FieldId::Expires);
        ProxiedFacts {
            authorized: self.request.seen.contains(FieldId::Authorization),
            expired: expires.map(|expires| parse_date(expires).is_some_and(|expires| expires < now)),
            cache_control: head.value(FieldId::CacheControl),
            has_last_modified: head.value(FieldId::LastModified).is_some(),
            has_etag: head.value(FieldId::ETag).is_some(),
        }
    }
}
