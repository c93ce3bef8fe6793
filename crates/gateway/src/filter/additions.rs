//! `add_before_body` and `add_after_body`: the responses of subrequests around a body. The body waits, bounded by the
//! limit for content that is sent ahead, until the subrequest before it has ended.

use crate::downstream::internal::Subrequest;
use crate::downstream::reply_head::{HeadView, Mark, ReplyHead};
use crate::filter::stage::{Piece, Stage};
use crate::filter::steps::{BodyFilter, Compress, FilterHost};
use crate::plan::filters::AdditionPlan;
use http1::FieldId;
use rules::gzip::weak_tag;
use std::io;

/// The additions to a response with this head, if it gets any.
fn added<'a>(host: &'a dyn FilterHost, head: HeadView<'_>) -> Option<&'a AdditionPlan> {
    let plan = host.location().additions.as_deref().filter(|_| !host.is_subrequest())?;
    let media = head.value(FieldId::ContentType).unwrap_or_default();
    (head.head.status == 200 && plan.types.covers(media)).then_some(plan)
}

/// Whether something is added to a response with this head.
pub(crate) fn adds(host: &dyn FilterHost, head: HeadView<'_>) -> bool {
    added(host, head).is_some()
}

/// `add_before_body` and `add_after_body`: the head gets room for a longer body.
pub(super) struct RoomStep;

impl BodyFilter for RoomStep {
    /// As in nginx, parts of what others made may be asked for. Those of a file may not: it asks [`adds`].
    fn would_change(&self, _: &dyn FilterHost, _: HeadView<'_>) -> bool {
        false
    }

    fn begin(&self, host: &mut dyn FilterHost, head: &mut ReplyHead, _: Compress) -> Option<Box<dyn Stage>> {
        if adds(host, head.with(host.upstream_bytes())) {
            edit_head(head, host.upstream_bytes());
        }
        None
    }
}

/// The same: starts the subrequests for what is added.
pub(super) struct AdditionStep;

impl BodyFilter for AdditionStep {
    fn would_change(&self, _: &dyn FilterHost, _: HeadView<'_>) -> bool {
        false
    }

    fn begin(&self, host: &mut dyn FilterHost, head: &mut ReplyHead, _: Compress) -> Option<Box<dyn Stage>> {
        let plan = added(host, head.with(host.upstream_bytes())).filter(|_| host.sends_body(head))?;
        let charset = host.charset_of_parts(head);
        let [before, after] =
            [&plan.before, &plan.after].map(|uri| Some(host.start_body(uri.as_deref()?.to_vec(), charset.clone())));
        Some(Box::new(Additions::new(before, after)))
    }
}

/// Removes fields from a head that are wrong for the extended body.
fn edit_head(head: &mut ReplyHead, answer: &[u8]) {
    let tag = head.fields.value(FieldId::ETag, answer).and_then(weak_tag);
    for id in [FieldId::ContentLength, FieldId::AcceptRanges, FieldId::ETag, FieldId::TransferEncoding] {
        head.fields.remove(id);
    }
    if let Some(tag) = tag {
        head.fields.push(FieldId::ETag, &tag);
    }
    head.length = None;
    head.fields.move_mark_last(Mark::Length);
}

/// The subrequests around one body.
#[derive(Debug)]
pub(crate) struct Additions {
    before: Option<Subrequest>,
    after: Option<Subrequest>,
    /// Bytes of the body that arrived while the subrequest before it runs.
    held: Vec<u8>,
    /// The body is complete.
    is_body_over: bool,
}

impl Additions {
    fn new(before: Option<Subrequest>, after: Option<Subrequest>) -> Self {
        Self { before, after, held: Vec::new(), is_body_over: false }
    }
}

impl Stage for Additions {
    fn hold(&mut self, body: &[u8], last: bool) {
        self.held.extend_from_slice(body);
        self.is_body_over |= last;
    }

    /// Whether bytes wait for a subrequest before them.
    fn is_waiting(&self) -> bool {
        self.is_body_over || !self.held.is_empty()
    }

    fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn next_piece(&mut self) -> io::Result<Piece> {
        if let Some(piece) = piece_of(&mut self.before) {
            return Ok(piece);
        }
        if !self.held.is_empty() {
            return Ok(Piece::Bytes(std::mem::take(&mut self.held)));
        }
        if !self.is_body_over {
            return Ok(Piece::Nothing);
        }
        Ok(piece_of(&mut self.after).unwrap_or(Piece::End))
    }
}

/// The next piece of a subrequest's body; `None`: it has ended.
fn piece_of(from: &mut Option<Subrequest>) -> Option<Piece> {
    let subrequest = from.as_ref()?;
    let is_over = subrequest.is_over();
    let bytes = subrequest.take_body();
    if !bytes.is_empty() {
        return Some(Piece::Bytes(bytes));
    }
    if is_over {
        *from = None;
        return None;
    }
    Some(Piece::Nothing)
}
