//! Takes a response from its content to the client's side: the head begins here, content fills it, and the steps of
//! `filter` edit it in the order defined here. The same for trailers.

use crate::base::close::CloseReason;
use crate::base::logs::error::quoted;
use crate::downstream::h1::head::ClientWords;
use crate::downstream::reply_head::{Fields, HeadView, Mark, ReplyHead};
use crate::exchange::Exchange;
use crate::exchange::reply::is_bodiless;
use crate::exchange::subrequest::Errand;
use crate::exchange::view::ExchangeView;
use crate::filter::added_fields::{HeadValues, add_fields, add_trailers, adds_trailers};
use crate::filter::additions::{Additions, adds, edit_head};
use crate::filter::assembly;
use crate::filter::charset::{self, CharsetFacts, CharsetStep};
use crate::filter::forced_range::Portion;
use crate::filter::gunzip::{self, is_packed, would_unpack};
use crate::filter::gzip::{GzipClient, compress, wants, would_compress};
use crate::filter::more_headers;
use crate::filter::stage::Stage;
use crate::filter::steps;
use crate::plan::added_fields::AddedField;
use crate::plan::filters::{Coding, GzipPlan};
use http1::FieldId;
use http1::outgoing::is_field_value;
use rules::template::Template;
use std::rc::Rc;

/// A larger response of our own is not compressed: it is in memory as a whole, and compressing it would block the
/// worker.
pub(crate) const OWN_BYTES_MAX: usize = 256 * 1024;

/// Whether a response may be compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compress {
    No,
    Yes,
    /// Received data is passed on at once.
    Flushing,
}

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
        self.response.status = status;
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
            portion.say_of_answer(head);
        }
        self.edit_fields(head);
        self.add_fields(head);
        self.show_trace(head);
        self.fill_user_id(head);
        if let Ranges::OfFile(portion) = ranges {
            portion.say(head);
        }
        // A response that was begun but not sent may have left filters behind.
        self.response.filters.set_packer(None);
        self.response.filters.set_stages(Vec::new());
        self.response.assembly = None;
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
            let value = self.evaluation();
            more_headers::edit(&plan.responses, head, self.answer_bytes(), &|template, head| {
                self.one_line(value(template, head), || "\"more_set_headers\"".to_owned())
            });
        }
    }

    fn add_fields(&self, head: &mut ReplyHead) {
        // A slice does not get them; the whole response does.
        if let Some(plan) = self.location().added.as_ref().filter(|_| self.routing.slice.is_none()) {
            add_fields(plan, head, self.answer_bytes(), self);
        }
    }

    /// Whether the location adds text before or after the body of this head.
    pub(crate) fn adds_around(&self, head: &ReplyHead) -> bool {
        let plan = self.location().additions.as_deref().filter(|_| !self.is_subrequest());
        plan.is_some_and(|plan| adds(plan, head, self.answer_bytes()))
    }

    /// Applies the body filters to a head, and sets up their stages. As in nginx, `sub_filter` does not see the bodies
    /// that `add_before_body` and `add_after_body` add, and `ssi` sees what all others make.
    fn begin_stages(&mut self, head: &mut ReplyHead, compress: Compress) {
        let mut stages = Vec::new();
        if compress != Compress::No {
            stages.extend(self.unpack(head));
        }
        let around = self.location().additions.is_some() && self.adds_around(head);
        if around {
            edit_head(head, self.answer_bytes());
        }
        for filter in &self.location().filters {
            stages.extend(steps::begin(filter, head, self.answer_bytes(), &self.evaluation()));
        }
        stages.extend(self.recode(head));
        let page = self.page_settings(head);
        if let Some(plan) = self.location().ssi.as_deref().filter(|_| page.is_some()) {
            assembly::edit_head(plan, head, self.answer_bytes(), self.is_subrequest());
        }
        if !self.down.sends_body(head) {
            return;
        }
        if let Some(settings) = page {
            stages.push(self.begin_page(settings, head));
        }
        if around {
            stages.extend(self.add_around(&self.charset_of_parts(head)));
        }
        self.response.filters.set_stages(stages);
    }

    fn charset_facts<'a>(
        &'a self,
        head: &ReplyHead,
        value: &'a dyn Fn(&Template, HeadView<'_>) -> Vec<u8>,
    ) -> Option<CharsetFacts<'a>> {
        let plan = self.location().charset.as_deref();
        let (said, outer) = (self.response.said_charset.as_deref(), self.response.outer_charset.as_deref());
        let is_due = (plan.is_some() || said.is_some() || outer.is_some()) && head.fields.has(FieldId::ContentType);
        // A subrequest for a status alone is no part of a response.
        let is_part = outer.is_some() || !self.is_subrequest();
        (is_due && is_part).then(|| CharsetFacts { plan, charsets: &self.generation.charsets, said, outer, value })
    }

    /// `charset`
    fn recode(&self, head: &mut ReplyHead) -> Option<Box<dyn Stage>> {
        let value = self.evaluation();
        let step = self.charset_facts(head, &value)?.step(head.with(self.answer_bytes()));
        let is_inside = self.is_subrequest();
        let rename = |head: &mut ReplyHead, name: Vec<u8>| {
            let name = self.one_line(name, || "\"charset\"".to_owned());
            if !is_inside {
                charset::name(head, self.answer_bytes(), &name);
            }
        };
        match step {
            CharsetStep::Leave => None,
            CharsetStep::Name(name) => {
                rename(head, name);
                None
            }
            CharsetStep::Recode(name, recoding) => {
                rename(head, name);
                Some(charset::begin(head, recoding))
            }
            CharsetStep::NoMap(from, to) => {
                let (from, to) = (quoted(&from), quoted(&to));
                self.error_log(&format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\""));
                None
            }
            CharsetStep::Unknown(name) => {
                self.error_log(&format!("unknown charset \"{}\" to override", quoted(&name)));
                None
            }
        }
    }

    /// A media type of ours, with the character set for clients.
    pub(crate) fn with_charset(&self, media: &[u8]) -> Vec<u8> {
        let mut head = ReplyHead::of(200);
        head.fields.push(FieldId::ContentType, media);
        let value = self.evaluation();
        let step = self.charset_facts(&head, &value).map(|facts| facts.step(head.with(b"")));
        if let Some(CharsetStep::Name(name) | CharsetStep::Recode(name, _)) = step {
            charset::name(&mut head, b"", &self.one_line(name, || "\"charset\"".to_owned()));
        }
        head.fields.value(FieldId::ContentType, b"").unwrap_or_default().to_vec()
    }

    /// The character set for the parts of this response.
    pub(crate) fn charset_of_parts(&self, head: &ReplyHead) -> Box<[u8]> {
        let own = || charset::named(head.with(self.answer_bytes())).into();
        self.response.outer_charset.clone().unwrap_or_else(own)
    }

    /// A function that evaluates templates while a head is made.
    fn evaluation(&self) -> impl Fn(&Template, HeadView<'_>) -> Vec<u8> {
        |template, head| {
            let mut value = Vec::new();
            template.write(&ExchangeView::before(self, head), &mut value);
            value
        }
    }

    /// `gunzip`
    fn unpack(&self, head: &mut ReplyHead) -> Option<Box<dyn Stage>> {
        let plan = self.location().gzip.as_deref()?;
        let answer = self.answer_bytes();
        would_unpack(plan, head.with(answer), &self.gzip_client()).then(|| gunzip::begin(head, answer))
    }

    /// Whether a Vary field is due (`gzip_vary`): the response depends on the client's Accept-Encoding.
    fn varies(&mut self, head: &ReplyHead) -> bool {
        let is_ready_made = std::mem::take(&mut self.response.varies);
        let plan = self.location().gzip.as_ref().filter(|plan| plan.vary && !self.is_subrequest());
        plan.is_some_and(|plan| is_ready_made || is_packed(plan, head.with(self.answer_bytes())))
    }

    fn wants_to_compress(&self, head: &ReplyHead, wanted: Compress) -> bool {
        let plan = self.location().gzip.as_ref().filter(|plan| plan.vary && !self.is_subrequest());
        wanted != Compress::No && plan.is_some_and(|plan| wants(plan, head.with(self.answer_bytes())))
    }

    /// `add_before_body` and `add_after_body`: starts the subrequests.
    fn add_around(&mut self, charset: &[u8]) -> Option<Box<dyn Stage>> {
        let generation = Rc::clone(&self.generation);
        let id = self.routing.target.location.unwrap_or_else(|| generation.server(self.routing.target.server).own);
        let plan = generation.location(id).additions.as_ref()?;
        let [before, after] = [&plan.before, &plan.after]
            .map(|uri| Some(self.start(Errand::for_body(uri.as_deref()?.to_vec(), charset.into()))));
        Some(Box::new(Additions::new(before, after)))
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

    fn gzip_client(&self) -> GzipClient<'_> {
        GzipClient {
            request: &self.request.head,
            bytes: &self.request.bytes,
            now: self.thread.clock.now().as_secs() as i64,
            is_inside: self.is_subrequest(),
        }
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
        let client = self.gzip_client();
        let gzips = |plan: &GzipPlan| would_compress(plan, view, &client) || would_unpack(plan, view, &client);
        self.location().gzip.as_deref().is_some_and(gzips)
            || self.charset_facts(head, &self.evaluation()).is_some_and(|facts| {
                // The type of a multipart response does not tell the type of its parts: they would not be converted.
                let asks_for_several = self
                    .request
                    .head
                    .value(FieldId::Range, &self.request.bytes)
                    .is_some_and(|range| range.contains(&b','));
                charset::would_change(&facts, view, asks_for_several)
            })
            || self.location().filters.iter().any(|filter| steps::would_change(filter, view))
            || self.location().ssi.as_deref().is_some_and(|plan| assembly::wants(plan, view))
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
            add_trailers(plan, self.response.status, &mut trailers, |field, trailers| {
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
