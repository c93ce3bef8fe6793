//! `add_before_body` and `add_after_body`: the responses of subrequests around a body. The body waits, bounded by the
//! limit for content that is sent ahead, until the subrequest before it has ended.

use crate::downstream::internal::Subrequest;
use crate::downstream::reply_head::{Mark, ReplyHead};
use crate::filter::stage::{Piece, Stage};
use crate::plan::filters::AdditionPlan;
use http1::FieldId;
use rules::gzip::weak_tag;
use std::io;

/// Whether something is added to a response with this head. Upstream fields point into `answer`.
pub(crate) fn adds(plan: &AdditionPlan, head: &ReplyHead, answer: &[u8]) -> bool {
    let media = head.fields.value(FieldId::ContentType, answer).unwrap_or_default();
    head.status == 200 && plan.types.covers(media)
}

/// Removes fields from a head that are wrong for the extended body.
pub(crate) fn edit_head(head: &mut ReplyHead, answer: &[u8]) {
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
    pub(crate) fn new(before: Option<Subrequest>, after: Option<Subrequest>) -> Self {
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
