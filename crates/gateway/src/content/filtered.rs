//! Takes a response from its content to the client's side: the head begins here, content fills it, and the steps of
//! `filter` edit it in the order defined here. The same for trailers.

use crate::base::close::CloseReason;
use crate::downstream::ClientWords;
use crate::downstream::internal::{Internal, Subrequest};
use crate::downstream::reply_head::{Fields, HeadView, Mark, ReplyHead};
use crate::exchange::Exchange;
use crate::exchange::reply::is_bodiless;
use crate::exchange::subrequest::Errand;
use crate::exchange::view::ExchangeView;
use crate::filter::added_fields::{HeadValues, add_fields, add_trailers, adds_trailers};
use crate::filter::charset;
use crate::filter::forced_range::Portion;
use crate::filter::gunzip::is_packed;
use crate::filter::gzip::{GzipClient, compress, wants, would_compress};
use crate::filter::more_headers;
use crate::filter::stage::Stage;
pub(crate) use crate::filter::steps::Compress;
use crate::filter::steps::{self, FilterHost};
use crate::plan::added_fields::AddedField;
use crate::plan::filters::{Coding, GzipPlan};
use crate::plan::location::LocationPlan;
use http1::FieldId;
use http1::outgoing::is_field_value;
use rules::charset::Charsets;
use rules::ssi::PageSettings;
use rules::template::Template;

/// A larger response of our own is not compressed: it is in memory as a whole, and compressing it would block the
/// worker.
pub(crate) const OWN_BYTES_MAX: usize = 256 * 1024;

/// The portion of a response to send, and where it was decided.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ranges<'a> {
    /// `proxy_force_ranges`: Accept-Ranges is one of the upstream's fields.
    Forced(&'a Portion),
    /// The ranges of a file.
    OfFile(&'a Portion),
    None,
}

impl Exchange {
    /// An empty head with this status, for content to fill.
    #[allow(clippy::unnecessary_box_returns)] // what is recycled is the box
    pub(crate) fn begin_head(&mut self, status: u16) -> Box<ReplyHead> {
        self.response.set_status(status);
        let (cache_status, is_kept) = (self.cache_status(), self.edits_cached());
        let kept_bytes_max = self.location().subrequest_bytes_max;
        if let Some(internal) = self.down.internal_mut() {
            internal.set_cache_status(cache_status, is_kept);
            internal.set_kept_bytes_max(kept_bytes_max);
        }
        let plan = self.client_plan();
        let words = ClientWords { chunks: plan.chunked_transfer_encoding, keepalive_seconds: plan.keepalive_header };
        self.down.set_words(words, plan.http2_chunk_bytes);
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
        head.fields.push(FieldId::Date, &self.thread.clock.date());
    }

    /// Applies the steps to a head that content has filled. If an expression could not be decided, they stop early, and
    /// the caller refuses the request.
    pub(crate) fn filter_head(&mut self, head: &mut ReplyHead, ranges: Ranges<'_>, compress: Compress) {
        if let Ranges::Forced(portion) = ranges {
            portion.add_fields_to_answer(head);
        }
        self.edit_fields(head);
        self.add_fields(head);
        self.show_trace(head);
        self.fill_user_id(head);
        if let Ranges::OfFile(portion) = ranges {
            portion.add_fields(head);
        }
        // A response that was begun but not sent may have left filters behind.
        self.response.forget_filters();
        if self.routing.undecided.is_due() {
            return;
        }
        let varies = self.varies(head);
        self.begin_stages(head, compress);
        if head.length.is_none()
            && let Ranges::OfFile(Portion::Offered) | Ranges::Forced(Portion::Offered) = ranges
        {
            // The body changes, so its parts cannot be asked for.
            head.fields.remove(FieldId::AcceptRanges);
        }
        if varies || self.wants_to_compress(head, compress) {
            head.fields.push(FieldId::Vary, b"Accept-Encoding");
        }
        self.compress(head, compress);
        if self.down.ending.keeps() && self.down.ends_by_close(head) {
            self.close_delimited();
            head.fields.move_mark_last(Mark::Connection);
        }
    }

    /// `more_set_headers`, `more_clear_headers`
    fn edit_fields(&self, head: &mut ReplyHead) {
        if let Some(plan) = &self.location().more_headers {
            more_headers::edit(&plan.responses, head, self.answer_bytes(), &|name, template, head| {
                let written = self.as_line(self.value(template, head), "more_set_headers");
                // As in the nginx module, the Location that it sets counts as a redirect's own.
                if FieldId::of_name(name) == FieldId::Location { self.absolute_location(written) } else { written }
            });
        }
    }

    /// Whether `more_clear_headers Accept-Ranges` applies to a response of this type: it is sent whole.
    pub(crate) fn clears_ranges(&self, media: &[u8]) -> bool {
        self.location().more_headers.as_ref().is_some_and(|plan| plan.clears_ranges(media))
    }

    fn add_fields(&self, head: &mut ReplyHead) {
        // A slice does not get them; the whole response does.
        if let Some(plan) = self.location().added.as_ref().filter(|_| !self.routing.is_slice()) {
            add_fields(plan, head, self.answer_bytes(), self);
        }
    }

    /// Applies the body filters to a head, and sets up their stages.
    fn begin_stages(&mut self, head: &mut ReplyHead, compress: Compress) {
        let location = self.location();
        let names_charset = self.response.accel_charset().is_some() || self.response.outer_charset().is_some();
        if !location.changes_bodies() && location.additions.is_none() && !names_charset {
            return;
        }
        let stages = steps::begin(self, head, compress);
        if self.down.sends_body(head) {
            self.response.filters.set_stages(stages);
        }
    }

    /// A media type of ours, with the character set for clients.
    pub(crate) fn with_charset(&self, media: &[u8]) -> Vec<u8> {
        charset::media_for_clients(self, media)
    }

    /// Whether a Vary field is due (`gzip_vary`): the response depends on the client's Accept-Encoding.
    fn varies(&mut self, head: &ReplyHead) -> bool {
        let is_ready_made = self.response.take_variant();
        let plan = self.location().gzip.as_ref().filter(|plan| plan.vary && !self.is_subrequest());
        plan.is_some_and(|plan| is_ready_made || is_packed(plan, head.with(self.answer_bytes())))
    }

    fn wants_to_compress(&self, head: &ReplyHead, wanted: Compress) -> bool {
        let plan = self.location().gzip.as_ref().filter(|plan| plan.vary && !self.is_subrequest());
        wanted != Compress::No && plan.is_some_and(|plan| wants(plan, head.with(self.answer_bytes())))
    }

    fn compress(&mut self, head: &mut ReplyHead, wanted: Compress) {
        let Some(plan) = self.location().gzip.as_ref().filter(|_| wanted != Compress::No && !self.is_subrequest())
        else {
            return;
        };
        let has_room = |bytes: usize| self.thread.memory.room(bytes, 0) >= bytes;
        let flushes = wanted == Compress::Flushing;
        let packer = compress(plan, head, self.answer_bytes(), &self.gzip_client(), has_room, flushes);
        self.response.filters.set_packer(packer);
    }

    /// The quality that this client gives to ready-made files of a coding; `None` if it does not accept them.
    pub(crate) fn coding_quality(&self, plan: &GzipPlan, coding: Coding) -> Option<u16> {
        match coding {
            Coding::Gzip => self.gzip_client().gzip_quality(plan, ReplyHead::default().with(b"")),
            Coding::Brotli | Coding::Zstd => self.gzip_client().quality(coding),
        }
    }

    /// Whether filters would change the body of a whole response with this head, once the location has added its
    /// fields.
    pub(crate) fn would_change(&self, head: &mut ReplyHead) -> bool {
        self.edit_fields(head);
        self.add_fields(head);
        let view = head.with(self.answer_bytes());
        let gzips = |plan: &GzipPlan| would_compress(plan, view, &self.gzip_client());
        self.location().gzip.as_deref().is_some_and(gzips) || steps::would_change(self, view)
    }

    /// The end of the connection marks the end of the body.
    pub(crate) fn close_delimited(&mut self) {
        self.down.ending.close(CloseReason::CloseDelimited);
    }

    /// Whether the response ends in trailers, which need chunks: the location's, or the upstream's if `brings`.
    pub(crate) fn wants_trailers(&self, status: u16, brings: bool) -> bool {
        (brings || adds_trailers(self.location().added.as_deref(), status))
            && !is_bodiless(status)
            && self.down.takes_body()
            && self.down.takes_trailers()
    }

    /// `proxy_pass_trailers`: the upstream's trailers that are not hidden.
    fn pass_trailers(&self, trailers: &mut Fields) {
        let (Some(answer), Some(plan)) =
            (self.answer(), self.generation.proxy_of(&self.location().content, self.upstream.place()))
        else {
            return;
        };
        if !plan.pass_trailers {
            return;
        }
        for (id, name, value) in answer.trailers.iter() {
            if !plan.hidden.contains(id, name) {
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
            add_trailers(plan, self.response.status(), &mut trailers, |field, trailers| {
                self.added_value(field, &ExchangeView::before_trailers(self, trailers))
            });
        }
        if self.response.filters.end_with_trailers(&mut self.down, &trailers).is_err() {
            self.down.ending.break_off(CloseReason::ClientAborted);
        }
    }

    /// The value of an added field, evaluated with `view`.
    fn added_value(&self, field: &AddedField, view: &ExchangeView<'_>) -> Vec<u8> {
        let mut value = Vec::new();
        field.value.write(view, &mut value);
        self.one_line(value, || {
            let by = self.brought_by(&field.value, |value| !is_field_value(value));
            format!("\"{} {}\"{by}", field.directive, field.name.as_bytes().escape_ascii())
        })
    }
}

impl FilterHost for Exchange {
    fn location(&self) -> &LocationPlan {
        Exchange::location(self)
    }

    fn upstream_bytes(&self) -> &[u8] {
        self.answer_bytes()
    }

    fn gzip_client(&self) -> GzipClient<'_> {
        GzipClient {
            request: &self.request.head,
            bytes: &self.request.bytes,
            now: self.thread.clock.now().as_secs() as i64,
            is_inside: self.is_subrequest(),
        }
    }

    fn is_subrequest(&self) -> bool {
        Exchange::is_subrequest(self)
    }

    fn shows_body(&self) -> bool {
        // Of other subrequests the body is not used, or the whole of which it is a slice is the page.
        self.down.internal().is_none_or(Internal::is_part)
    }

    fn sends_body(&self, head: &ReplyHead) -> bool {
        self.down.sends_body(head)
    }

    fn charsets(&self) -> &Charsets {
        &self.generation.charsets
    }

    fn accel_charset(&self) -> Option<&[u8]> {
        self.response.accel_charset()
    }

    fn outer_charset(&self) -> Option<&[u8]> {
        self.response.outer_charset()
    }

    fn charset_of_parts(&self, head: &ReplyHead) -> Box<[u8]> {
        Exchange::charset_of_parts(self, head)
    }

    fn value(&self, template: &Template, head: HeadView<'_>) -> Vec<u8> {
        let mut value = Vec::new();
        template.write(&ExchangeView::before(self, head), &mut value);
        value
    }

    fn as_line(&self, value: Vec<u8>, directive: &str) -> Vec<u8> {
        self.one_line(value, || format!("\"{directive}\""))
    }

    fn report(&self, message: &str) {
        self.error_log(message);
    }

    fn start_body(&self, uri: Vec<u8>, charset: Box<[u8]>) -> Subrequest {
        self.start_with(Errand::for_body(uri, charset), self.routing.slots().clone())
    }

    fn begin_page(&mut self, settings: PageSettings, head: &ReplyHead) -> Box<dyn Stage> {
        Exchange::begin_page(self, settings, head)
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
