//! `slice`: assembles a response from slices of one size. Each slice is a subrequest for the same content with its own
//! `$slice_range`, so a cache stores slices. This exchange checks that they belong to one response, and handles
//! conditions and ranges.

use crate::base::buffer::Flushed;
use crate::base::close::CloseReason;
use crate::content::files::send::gone;
use crate::content::filtered::{Compress, Ranges};
use crate::content::proxy::forced_range::unsatisfiable;
use crate::downstream::internal::{SentHead, Subrequest};
use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::attempts::Attempts;
use crate::exchange::reply::Reply;
use crate::exchange::step::{Served, Step};
use crate::exchange::subrequest::{Errand, LOOK_AGAIN};
use crate::exchange::waiting::Wants;
use crate::filter::forced_range::{Portion, RangeFacts};
use crate::plan::slice::SlicePlan;
use http1::{FieldId, Span};
use reactor::{Interest, Woken};
use rules::precondition::{Validators, Verdict, evaluate, parse_date};
use rules::slice::Slice;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// What to send: bytes of the whole, and the tag that each slice must have.
struct Course {
    range: Range<u64>,
    tag: Option<Vec<u8>>,
}

/// A slice being received.
struct SlicePiece {
    subrequest: Subrequest,
    attempts: Rc<RefCell<Attempts>>,
}

impl Exchange {
    /// Sends the response to this request, one slice at a time.
    pub(crate) async fn send_slices(&mut self, plan: SlicePlan) -> Step {
        let first = self.first_slice(plan);
        let piece = self.start_slice(first);
        let mut sent = match self.head_of(&piece.subrequest).await {
            Ok(Some(sent)) => sent,
            Ok(None) => return Step::Reply(Reply::error(500)),
            Err(step) => return step,
        };
        self.upstream.show_slice_status(sent.cache_status);
        if sent.head.status != 206 {
            // It is no slice: passed on as it is.
            return self.send_whole_slice(sent, piece).await;
        }
        let (place, size) = match first.check(sent.head.fields.value(FieldId::ContentRange, b"")) {
            Ok(checked) => checked,
            Err(fault) => {
                // nginx closes the connection without an answer.
                self.error_log(&fault.to_string());
                return Step::Reply(Reply::error(502));
            }
        };
        let tag = sent.head.fields.value(FieldId::ETag, b"").map(<[u8]>::to_vec);
        for id in [FieldId::ContentRange, FieldId::AcceptRanges] {
            sent.head.fields.remove(id);
        }
        sent.head.status = 200;
        sent.head.length = Some(size);
        match self.slice_verdict(plan, &sent) {
            Verdict::Send => {}
            Verdict::Failed => return Step::Reply(Reply::error(412)),
            Verdict::NotModified => {
                let step = self.send_unchanged(sent.head);
                self.let_end(piece).await;
                return step;
            }
        }
        let portion = self.slice_portion(plan, &sent.head, size);
        let range = match &portion {
            Portion::Nothing { size } => return Step::Reply(unsatisfiable(*size)),
            Portion::Part { range, .. } => range.clone(),
            Portion::Whole | Portion::Offered => 0..size,
        };
        let course = Course { range, tag };
        self.send_pieces(sent.head, &portion, course, (first, place.end, piece)).await
    }

    fn start_slice(&mut self, slice: Slice) -> SlicePiece {
        let attempts = Rc::default();
        let errand = Errand::for_slice(slice, self.routing.method(), &attempts);
        SlicePiece { subrequest: self.start(errand), attempts }
    }

    /// Waits for the head of a slice; `None`: there will be none.
    async fn head_of(&self, subrequest: &Subrequest) -> Result<Option<SentHead>, Step> {
        loop {
            if let Some(head) = subrequest.take_head() {
                return Ok(Some(head));
            }
            if subrequest.is_over() {
                return Ok(None);
            }
            if self.wait(Wants::NOTHING, LOOK_AGAIN).await == Woken::PeerGone {
                return Err(self.client_left());
            }
        }
    }

    /// The result of the request's conditions. As in nginx, they are left to the upstream if the response is not
    /// stored.
    fn slice_verdict(&self, plan: SlicePlan, SentHead { head, is_kept, .. }: &SentHead) -> Verdict {
        if !is_kept || !self.is_conditional() {
            return Verdict::Send;
        }
        let modified = head.fields.value(FieldId::LastModified, b"").and_then(parse_date);
        let tag = head.fields.value(FieldId::ETag, b"");
        evaluate(&self.conditions(), &Validators { modified, tag }, plan.modified_since)
    }

    fn slice_portion(&self, plan: SlicePlan, head: &ReplyHead, size: u64) -> Portion {
        let asked = |id| self.request.head.value(id, &self.request.bytes);
        let media = head.fields.value(FieldId::ContentType, b"").unwrap_or_default();
        if plan.ranges_max == 0 || self.response.shown_status().is_some() || self.clears_ranges(media) {
            return Portion::Whole;
        }
        let Some(range) = asked(FieldId::Range) else { return Portion::Offered };
        if self.location().changes_bodies() {
            let mut changed = ReplyHead::whole(size);
            changed.fields = head.fields.copy(b"");
            if self.would_change(&mut changed) {
                return Portion::Whole;
            }
        }
        Portion::of(&RangeFacts {
            range,
            of: asked(FieldId::IfRange),
            tag: head.fields.value(FieldId::ETag, b""),
            modified: head.fields.value(FieldId::LastModified, b""),
            size,
        })
    }

    /// Takes over a slice's head, with another status.
    #[allow(clippy::unnecessary_box_returns)] // what is recycled is the box
    fn take_over_head(&mut self, from: ReplyHead, portion: &Portion) -> Box<ReplyHead> {
        let status = if matches!(portion, Portion::Part { .. }) { 206 } else { from.status };
        let mut head = self.begin_head(self.response.status_for(status));
        self.settle_keepalive();
        self.begin_pace();
        head.fields = from.fields;
        (head.has_body, head.length) = (from.has_body, from.length);
        if let Portion::Part { range, .. } = portion {
            head.length = Some(range.end - range.start);
        }
        head.has_trailers = head.has_body && self.wants_trailers(head.status, false);
        self.filter_head(&mut head, Ranges::Forced(portion), Compress::Yes);
        head
    }

    fn send_unchanged(&mut self, mut from: ReplyHead) -> Step {
        from.status = 304;
        (from.has_body, from.length) = (false, None);
        for id in [FieldId::ContentType, FieldId::ContentEncoding] {
            from.fields.remove(id);
        }
        match self.send_sliced_head(from, b"", &Portion::Whole) {
            Ok(sent) => self.end_slices(sent),
            Err(step) => step,
        }
    }

    fn send_only_head(&mut self, head: Box<ReplyHead>, reason: &[u8]) -> Step {
        if gone(self.response.filters.send_head(&mut self.down, head.with(reason), &[], true)).is_err() {
            self.down.ending.break_off(CloseReason::ClientAborted);
        }
        self.spares.recycle_reply_head(head);
        Step::Served(Served::Responded)
    }

    /// Sends a head that a body follows. `Err`: the response is complete, or the request is refused.
    fn send_sliced_head(
        &mut self,
        from: ReplyHead,
        reason: &[u8],
        portion: &Portion,
    ) -> Result<Result<(), CloseReason>, Step> {
        let mut head = self.take_over_head(from, portion);
        head.reason =
            (!reason.is_empty() && self.response.shown_status().is_none()).then(|| Span::new(0, reason.len()));
        if let Some(refusal) = self.refuse_undecided() {
            self.spares.recycle_reply_head(head);
            return Err(Step::Reply(refusal));
        }
        if !self.down.sends_body(&head) {
            return Err(self.send_only_head(head, reason));
        }
        let begun = gone(self.response.filters.send_head(&mut self.down, head.with(reason), &[], false));
        self.spares.recycle_reply_head(head);
        Ok(begun)
    }

    /// Passes on a response that is no slice.
    async fn send_whole_slice(&mut self, from: SentHead, piece: SlicePiece) -> Step {
        let begun = match self.send_sliced_head(from.head, &from.reason, &Portion::Whole) {
            Ok(begun) => begun,
            Err(step) => {
                self.let_end(piece).await;
                return step;
            }
        };
        let sent = match begun {
            Ok(()) => self.pass_piece(piece).await,
            Err(reason) => Err(reason),
        };
        self.end_slices(sent)
    }

    /// Sends the head and all slices. The head of the first one has come; it ends at `end`.
    async fn send_pieces(
        &mut self,
        from: ReplyHead,
        portion: &Portion,
        course: Course,
        (mut slice, mut end, mut piece): (Slice, u64, SlicePiece),
    ) -> Step {
        let mut sent = match self.send_sliced_head(from, b"", portion) {
            Ok(begun) => begun,
            Err(step) => {
                self.let_end(piece).await;
                return step;
            }
        };
        let (start, last) = (course.range.start, course.range.end);
        if sent.is_ok() && !(slice.start..end).contains(&start) {
            // A suffix range begins in another slice: the size from the first slice gave its position.
            slice = slice.at(start);
            self.let_end(piece).await;
            match self.next_slice(slice, &course).await {
                Ok(next) => (piece, end) = next,
                Err(reason) => return self.end_slices(Err(reason)),
            }
        }
        if sent.is_ok() {
            self.response.filters.send_only(&(start - slice.start..last - slice.start));
        }
        while sent.is_ok() {
            sent = self.pass_piece(piece).await;
            if sent.is_err() || end >= last {
                break;
            }
            slice = slice.at(end);
            match self.next_slice(slice, &course).await {
                Ok(next) => (piece, end) = next,
                Err(reason) => return self.end_slices(Err(reason)),
            }
        }
        self.end_slices(sent)
    }

    /// Requests another slice; returns it, and where it ends.
    async fn next_slice(&mut self, slice: Slice, course: &Course) -> Result<(SlicePiece, u64), CloseReason> {
        let piece = self.start_slice(slice);
        let Ok(sent) = self.head_of(&piece.subrequest).await else { return Err(CloseReason::ClientAborted) };
        let Some(SentHead { head, .. }) = sent else { return Err(self.missing_slice("missing slice response")) };
        if head.status != 206 {
            return Err(self.missing_slice(&format!("unexpected status code {} in slice response", head.status)));
        }
        if course.tag.is_some() && head.fields.value(FieldId::ETag, b"") != course.tag.as_deref() {
            return Err(self.missing_slice("etag mismatch in slice response"));
        }
        match slice.check(head.fields.value(FieldId::ContentRange, b"")) {
            Ok((place, _)) => Ok((piece, place.end)),
            Err(fault) => Err(self.missing_slice(&fault.to_string())),
        }
    }

    fn missing_slice(&self, reason: &str) -> CloseReason {
        self.error_log(reason);
        CloseReason::Truncated
    }

    /// Receives the rest of a slice whose body is not sent, so that it is stored even if the client goes on.
    async fn let_end(&self, piece: SlicePiece) {
        while !piece.subrequest.is_over() {
            drop(piece.subrequest.take_body());
            if self.wait(Wants::NOTHING, LOOK_AGAIN).await == Woken::PeerGone {
                return;
            }
        }
    }

    /// Passes on the body of a slice, as fast as the client accepts it.
    async fn pass_piece(&mut self, piece: SlicePiece) -> Result<(), CloseReason> {
        let SlicePiece { subrequest, attempts } = piece;
        loop {
            if gone(self.response.filters.flush(&mut self.down))? == Flushed::Waiting {
                self.wait_for_client().await?;
                continue;
            }
            let is_over = subrequest.is_over();
            let bytes = subrequest.take_body();
            if !bytes.is_empty() {
                gone(self.response.filters.send_body(&mut self.down, &bytes, false))?;
                continue;
            }
            if is_over {
                let Some(ended) = subrequest.ended() else { return Err(CloseReason::Truncated) };
                // As in nginx, `$upstream_…` are those of the first slice.
                self.upstream.adopt_attempts(&attempts);
                // A truncated response has no status.
                return if ended.status == 0 { Err(CloseReason::Truncated) } else { Ok(()) };
            }
            let room = Interest::WRITE.only_if(self.down.waiting_bytes() > 0);
            if self.wait(Wants::of_client(room), LOOK_AGAIN).await == Woken::PeerGone {
                return Err(CloseReason::ClientAborted);
            }
        }
    }

    fn end_slices(&mut self, sent: Result<(), CloseReason>) -> Step {
        let ended = sent.and_then(|()| gone(self.response.filters.send_body(&mut self.down, &[], true)));
        match ended {
            Ok(()) => {}
            Err(CloseReason::Truncated) => return Step::Served(self.truncate()),
            Err(reason) => {
                self.stop_sending(reason, "sending response to client");
            }
        }
        Step::Served(Served::Responded)
    }
}
