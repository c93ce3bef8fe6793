//! The way of a response from its content to the client's side: the head is begun here, filled by its content, and goes through
//! the steps of `filter`, whose order is here; trailers likewise.

use crate::base::close::CloseReason;
use crate::downstream::h1::Framing;
use crate::downstream::h1_head::ClientWords;
use crate::downstream::reply_head::{Fields, HeadView, Mark, ReplyHead};
use crate::exchange::Exchange;
use crate::exchange::reply::is_bodiless;
use crate::exchange::view::ExchangeView;
use crate::filter::added_fields::{HeadValues, add_fields, add_trailers, adds_trailers};
use crate::filter::compress::GZIP_BYTES;
use crate::filter::forced_range::Portion;
use crate::filter::gzip::{GzipClient, compress, would_compress};
use crate::plan::added_fields::AddedField;
use http1::chunked::trailer_fields;
use http1::outgoing::is_field_value;
use http1::{FieldId, Method};
use rules::template::Template;

/// A response of our own that is larger is not compressed: it is in memory as a whole, and would hold the worker.
pub(crate) const OWN_BYTES_MAX: usize = 256 * 1024;

/// Whether a response may be compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compress {
    No,
    Yes,
    /// What comes is passed on at once.
    Flushing,
}

/// What of a response is sent, and who says so.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ranges<'a> {
    /// `proxy_force_ranges`: its field is one of the upstream's.
    Forced(&'a Portion),
    /// Those of a file.
    OfFile(&'a Portion),
    None,
}

impl Exchange {
    /// An empty head of this status, for content to fill.
    #[allow(clippy::unnecessary_box_returns)] // what is recycled is the box
    pub(crate) fn begin_head(&mut self, status: u16) -> Box<ReplyHead> {
        self.response.status = status;
        let plan = self.client_plan();
        let words = ClientWords { chunks: plan.chunked_transfer_encoding, keepalive_seconds: plan.keepalive_header };
        self.down.words = words;
        let mut head = self.spares.reply_head();
        head.status = status;
        head
    }

    pub(crate) fn fill_server_and_date(&self, head: &mut ReplyHead) {
        self.fill_server(head);
        self.fill_date(head);
    }

    pub(crate) fn fill_server(&self, head: &mut ReplyHead) {
        head.fields.push(FieldId::Server, &self.location().server_token);
    }

    pub(crate) fn fill_date(&self, head: &mut ReplyHead) {
        head.fields.push_with(FieldId::Date, |out| self.thread.clock.write_date(out));
    }

    /// Applies the steps to a head that its content has filled. Where an expression could not be decided meanwhile, they end
    /// early: the caller refuses the request.
    pub(crate) fn filter_head(&mut self, head: &mut ReplyHead, ranges: Ranges<'_>, compress: Compress) {
        if let Ranges::Forced(portion) = ranges {
            portion.say_of_answer(head);
        }
        self.add_fields(head);
        if let Ranges::OfFile(portion) = ranges {
            portion.say(head);
        }
        // A response that was begun and not sent may have left one behind.
        self.response.filters.set_gzip(None);
        if self.routing.undecided.is_due() {
            return;
        }
        self.compress(head, compress);
        if self.down.ending.keeps() && self.down.framing_of(head) == Framing::UntilClose {
            self.close_delimited();
            head.fields.move_mark_last(Mark::Connection);
        }
    }

    fn add_fields(&self, head: &mut ReplyHead) {
        if let Some(plan) = &self.location().added {
            add_fields(plan, head, self.answer_bytes(), self);
        }
    }

    fn compress(&mut self, head: &mut ReplyHead, wanted: Compress) {
        let Some(plan) = self.location().gzip.as_ref().filter(|_| wanted != Compress::No) else { return };
        let has_room = || self.thread.memory.room(GZIP_BYTES, 0) >= GZIP_BYTES;
        let flushes = wanted == Compress::Flushing;
        let gzip = compress(plan, head, self.answer_bytes(), &self.gzip_client(), has_room, flushes);
        self.response.filters.set_gzip(gzip);
    }

    fn gzip_client(&self) -> GzipClient<'_> {
        GzipClient {
            request: &self.request.head,
            bytes: &self.request.bytes,
            now: self.thread.clock.now().as_secs() as i64,
        }
    }

    /// Whether a whole response with this head would be compressed, once the location has added its fields.
    pub(crate) fn would_compress(&self, head: &mut ReplyHead) -> bool {
        let Some(plan) = &self.location().gzip else { return false };
        self.add_fields(head);
        would_compress(plan, head.with(self.answer_bytes()), &self.gzip_client())
    }

    /// The end of the body is that of the connection.
    pub(crate) fn close_delimited(&mut self) {
        self.down.ending.close(CloseReason::CloseDelimited);
    }

    /// Whether the response ends in trailers, which only chunks can have: the location's, or those that it `brings` along.
    pub(crate) fn wants_trailers(&self, status: u16, brings: bool) -> bool {
        (brings || adds_trailers(self.location().added.as_deref(), status))
            && !is_bodiless(status)
            && self.down.method != Method::Head
            && self.down.takes_chunks()
    }

    /// `proxy_pass_trailers`: the upstream's that are not hidden.
    fn pass_trailers(&self, trailers: &mut Fields) {
        let (Some(answer), Some(plan)) =
            (self.answer(), self.generation.proxy_of(&self.location().content, self.upstream.place))
        else {
            return;
        };
        if !plan.pass_trailers {
            return;
        }
        for (name, value) in trailer_fields(&answer.trailers) {
            if !plan.hidden.contains(FieldId::of_name(name), name) {
                trailers.push_named(name, value);
            }
        }
    }

    /// Ends a body that waits for its trailers.
    pub(crate) fn send_trailers(&mut self) {
        if !self.down.awaits_trailers() {
            return;
        }
        let mut trailers = Fields::default();
        self.pass_trailers(&mut trailers);
        if let Some(plan) = &self.location().added {
            add_trailers(plan, self.response.status, &mut trailers, |field, trailers| {
                self.added_value(field, &ExchangeView::before_trailers(self, trailers))
            });
        }
        if self.response.filters.end_with_trailers(&mut self.down, &trailers).is_err() {
            self.down.ending.break_off(CloseReason::ClientAborted);
        }
    }

    /// The value of a field, as `view` shows the exchange.
    fn added_value(&self, field: &AddedField, view: &ExchangeView<'_>) -> Vec<u8> {
        let mut value = Vec::new();
        field.value.write(view, &mut value);
        self.one_line(value, || {
            let by = self.brought_by(&field.value, |value| !is_field_value(value));
            format!("\"{} {}\"{by}", field.directive, field.name.as_bytes().escape_ascii())
        })
    }
}

impl HeadValues for Exchange {
    fn field(&self, field: &AddedField, head: HeadView<'_>) -> Vec<u8> {
        self.added_value(field, &ExchangeView::before(self, head))
    }

    fn expires(&self, template: &Template, head: HeadView<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        template.write(&ExchangeView::before(self, head), &mut text);
        text
    }

    fn now(&self) -> i64 {
        self.thread.clock.now().as_secs() as i64
    }

    fn utc_offset_minutes(&self) -> i16 {
        self.thread.clock.utc_offset_minutes()
    }
}
