//! `gzip`: which responses are compressed, and what that does to their heads. Asked when a head is encoded but for its end:
//! everything that nginx looks at is in it by then, whoever made the response.

use crate::base::close::CloseReason;
use crate::downstream::h1::Framing;
use crate::exchange::Exchange;
use crate::filter::compress::{GZIP_BYTES, Gzip};
use crate::plan::added_fields::drop_fields;
use crate::plan::added_fields::fields;
use crate::plan::filters::GzipPlan;
use conf::model::HttpVersion;
use http1::encode::encode_field;
use http1::{FieldId, Method, Version};
use rules::gzip::{ProxiedFacts, accepts_gzip, is_msie6, is_proxied_allowed, weak_tag};
use rules::precondition::parse_date;

/// A response of our own that is larger is not compressed: it is in memory as a whole, and would hold the worker.
pub(crate) const OWN_BYTES_MAX: usize = 256 * 1024;

impl Exchange {
    /// Makes a head, which is encoded but for its end, that of a compressed response where the location wants it, and says
    /// how the body is framed then. `flushes`: what comes is passed on at once.
    pub(crate) fn compress(&mut self, framing: Framing, flushes: bool, head: &mut Vec<u8>) -> Framing {
        // A response that was begun and not sent may have left one behind.
        self.down.set_gzip(None);
        let Some(plan) = &self.location().gzip else { return framing };
        if !plan.wants(self.status, head) {
            return framing;
        }
        let (vary, level, is_for_client) = (plan.vary, plan.level, self.takes_gzip(plan, head));
        if vary {
            encode_field(b"Vary", b"Accept-Encoding", head);
        }
        if !is_for_client || self.thread.memory.room(GZIP_BYTES, 0) < GZIP_BYTES {
            return framing;
        }
        let tag = fields(head).find(|(name, _)| name.eq_ignore_ascii_case(b"etag")).map(|(_, tag)| weak_tag(tag));
        drop_fields(head, &[b"content-length", b"accept-ranges", b"etag", b"transfer-encoding"]);
        if let Some(Some(tag)) = tag {
            encode_field(b"ETag", &tag, head);
        }
        encode_field(b"Content-Encoding", b"gzip", head);
        if self.down.method == Method::Head {
            return framing;
        }
        self.down.set_gzip(Some(Gzip::new(level, flushes)));
        if self.down.version == Version::Http11 && self.client_plan().chunked_transfer_encoding {
            encode_field(b"Transfer-Encoding", b"chunked", head);
            return Framing::Chunked;
        }
        if self.down.keepalive {
            self.down.keepalive = false;
            self.close.get_or_insert(CloseReason::CloseDelimited);
            drop_fields(head, &[b"connection", b"keep-alive"]);
            self.encode_connection(head);
        }
        Framing::UntilClose
    }

    /// Whether a file of this head would be compressed: parts of it cannot be asked for then.
    pub(crate) fn would_compress(&self, head: &[u8]) -> bool {
        let plan = self.location().gzip.as_ref();
        plan.is_some_and(|plan| plan.wants(200, head) && self.takes_gzip(plan, head))
    }

    /// Whether this client gets compressed responses.
    fn takes_gzip(&self, plan: &GzipPlan, head: &[u8]) -> bool {
        let (request, bytes) = (&self.request.head, &self.request.bytes);
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
        // An expression that cannot be matched within its limits may be about this agent: what is not compressed, any reads.
        !agent.is_some_and(|agent| plan.agents.iter().any(|regex| regex.code.is_match(agent).unwrap_or(true)))
    }

    fn proxied_facts<'h>(&self, head: &'h [u8]) -> ProxiedFacts<'h> {
        let value = |wanted: &[u8]| fields(head).find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|it| it.1);
        let date = value(b"date").and_then(parse_date);
        let now = date.unwrap_or_else(|| self.thread.clock.now().as_secs() as i64);
        ProxiedFacts {
            authorized: self.request.head.seen.contains(FieldId::Authorization),
            expired: value(b"expires").map(|expires| parse_date(expires).is_some_and(|expires| expires < now)),
            cache_control: value(b"cache-control"),
            has_last_modified: value(b"last-modified").is_some(),
            has_etag: value(b"etag").is_some(),
        }
    }
}
