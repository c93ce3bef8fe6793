//! `gzip`, `brotli` and `zstd`: decides which responses are compressed with which coding, and edits their heads. Called
//! when the head has every field that nginx looks at, for responses from all kinds of content.

use crate::downstream::reply_head::{HeadView, Mark, ReplyHead};
use crate::filter::brotli::{Brotli, brotli_bytes};
use crate::filter::compress::{Coder, GZIP_BYTES, Gzip, Packer};
#[cfg(feature = "zstd")]
use crate::filter::zstd::{Zstd, zstd_bytes};
use crate::plan::filters::{Coding, CodingPlan, GzipPlan};
use conf::model::{HttpVersion, MediaTypes};
use http1::{FieldId, Method, RequestHead, Version};
use rules::gzip::{ProxiedFacts, coding_quality, gzip_quality, is_msie6, is_proxied_allowed, weak_tag};
use rules::precondition::parse_date;
use std::io;

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

/// The coding for one response.
#[derive(Clone, Copy)]
pub(crate) enum Packing<'p> {
    Gzip(&'p GzipPlan),
    Other(&'p CodingPlan),
}

impl Packing<'_> {
    fn coding(self) -> Coding {
        match self {
            Self::Gzip(_) => Coding::Gzip,
            Self::Other(plan) => plan.coding,
        }
    }

    /// Memory of a compressor for a body of this length.
    fn bytes(self, length: Option<u64>) -> usize {
        match self {
            Self::Gzip(_) => GZIP_BYTES,
            #[cfg(feature = "zstd")]
            Self::Other(plan) if plan.coding == Coding::Zstd => zstd_bytes(plan.level, plan.window, length),
            Self::Other(plan) => brotli_bytes(plan.level, plan.window, length),
        }
    }

    // Only the encoder of zstd can fail.
    #[cfg_attr(not(feature = "zstd"), allow(clippy::unnecessary_wraps))]
    fn coder(self, length: Option<u64>) -> io::Result<Box<dyn Coder>> {
        Ok(match self {
            Self::Gzip(plan) => Box::new(Gzip::new(plan.level)),
            #[cfg(feature = "zstd")]
            Self::Other(plan) if plan.coding == Coding::Zstd => Box::new(Zstd::new(plan.level, plan.window, length)?),
            Self::Other(plan) => Box::new(Brotli::new(plan.level, plan.window, length)),
        })
    }
}

/// Turns a head into that of a compressed response if the location wants that, and returns the compressor. `has_room`:
/// there is memory for one of this many bytes. `flushes`: received data is passed on at once.
pub(crate) fn compress(
    plan: &GzipPlan,
    head: &mut ReplyHead,
    answer: &[u8],
    client: &GzipClient<'_>,
    has_room: impl Fn(usize) -> bool,
    flushes: bool,
) -> Option<Packer> {
    let length = head.with(answer).head.stated_length();
    let packing = choose(plan, head.with(answer), client, |packing| has_room(packing.bytes(length)))?;
    let is_to_head = client.request.method == Method::Head;
    // An encoder that the system has no memory for leaves the response as it is.
    let coder = if is_to_head { None } else { Some(packing.coder(length).ok()?) };
    let tag = head.fields.value(FieldId::ETag, answer).and_then(weak_tag);
    for id in [FieldId::ContentLength, FieldId::AcceptRanges, FieldId::ETag, FieldId::TransferEncoding] {
        head.fields.remove(id);
    }
    if let Some(tag) = tag {
        head.fields.push(FieldId::ETag, &tag);
    }
    head.fields.push(FieldId::ContentEncoding, packing.coding().token().as_bytes());
    // The compressed length is not known.
    head.length = None;
    head.fields.move_mark_last(Mark::Length);
    let coder = coder?;
    head.has_body = true;
    Some(Packer::new(packing.coding(), coder, flushes))
}

/// The coding for a response with this head: what the client prefers among those that the location wants, that the
/// client accepts and that `fits` allows. Without a preference brotli comes before zstd, and gzip last.
fn choose<'p>(
    plan: &'p GzipPlan,
    head: HeadView<'_>,
    client: &GzipClient<'_>,
    fits: impl Fn(Packing<'_>) -> bool,
) -> Option<Packing<'p>> {
    let others = plan.others.iter().filter(|other| wants_other(other, head));
    let others = others.map(|other| (client.quality(other.coding), Packing::Other(other)));
    let gzip = wants_gzip(plan, head).then(|| (client.gzip_quality(plan, head), Packing::Gzip(plan)));
    let mut best: Option<(u16, Packing<'p>)> = None;
    for (quality, packing) in others.chain(gzip) {
        let Some(quality) = quality else { continue };
        if best.is_none_or(|(best, _)| quality > best) && fits(packing) {
            best = Some((quality, packing));
        }
    }
    best.map(|(_, packing)| packing)
}

/// Whether a response with this head would be compressed: ranges cannot be asked for then.
pub(crate) fn would_compress(plan: &GzipPlan, head: HeadView<'_>, client: &GzipClient<'_>) -> bool {
    choose(plan, head, client, |_| true).is_some()
}

/// Whether the location compresses a response with this head.
pub(crate) fn wants(plan: &GzipPlan, view: HeadView<'_>) -> bool {
    wants_gzip(plan, view) || plan.others.iter().any(|other| wants_other(other, view))
}

fn wants_gzip(plan: &GzipPlan, view: HeadView<'_>) -> bool {
    plan.on && is_compressible(view, plan.length_min, &plan.types)
}

fn wants_other(plan: &CodingPlan, view: HeadView<'_>) -> bool {
    plan.on && is_compressible(view, plan.length_min, &plan.types)
}

fn is_compressible(view: HeadView<'_>, length_min: u64, types: &MediaTypes) -> bool {
    matches!(view.head.status, 200 | 403 | 404)
        && !view.head.fields.has_value(FieldId::ContentEncoding, view.answer)
        && view.head.stated_length().is_none_or(|length| length >= length_min)
        && types.covers(view.value(FieldId::ContentType).unwrap_or_default())
}

impl GzipClient<'_> {
    /// Whether this client accepts responses compressed with gzip.
    pub(crate) fn takes_gzip(&self, plan: &GzipPlan, head: HeadView<'_>) -> bool {
        self.gzip_quality(plan, head).is_some()
    }

    /// The quality that this client gives to brotli or zstd, in thousandths; `None` if it does not accept it. As in the
    /// modules of nginx, the conditions of `gzip` do not count.
    pub(crate) fn quality(&self, coding: Coding) -> Option<u16> {
        let accepted = self.request.value(FieldId::AcceptEncoding, self.bytes).filter(|_| !self.is_inside)?;
        coding_quality(accepted, coding.token().as_bytes())
    }

    /// The quality that this client gives to gzip; `None` if it gets no response compressed with it.
    pub(crate) fn gzip_quality(&self, plan: &GzipPlan, head: HeadView<'_>) -> Option<u16> {
        let accepted = self.request.value(FieldId::AcceptEncoding, self.bytes)?;
        // As in nginx, a subrequest is not compressed.
        gzip_quality(accepted).filter(|_| !self.is_inside && self.is_allowed(plan, head))
    }

    /// The conditions of `gzip` besides `Accept-Encoding`.
    fn is_allowed(&self, plan: &GzipPlan, head: HeadView<'_>) -> bool {
        let Self { request, bytes, .. } = self;
        let version = match request.version {
            Version::Http10 => HttpVersion::Http10,
            Version::Http11 => HttpVersion::Http11,
        };
        if version < plan.http_version {
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
