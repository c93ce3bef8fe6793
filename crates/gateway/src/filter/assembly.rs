//! `ssi`: the stage of a page that is put together. It holds the page's bytes until the exchange has executed their
//! commands (`exchange::including`), and returns texts and included responses in their order.

use crate::downstream::internal::Subrequest;
use crate::downstream::reply_head::{HeadView, Mark, ReplyHead};
use crate::filter::stage::{Piece, Stage};
use crate::filter::steps::{BodyFilter, Compress, FilterHost};
use crate::plan::filters::SsiPlan;
use http1::FieldId;
use rules::gzip::weak_tag;
use rules::ssi::{Page, PageSettings, TIME_FORMAT};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

/// Bytes of output that may wait; commands are executed as long as there are fewer. One command makes at most a few
/// hundred kilobytes.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Included responses that one page waits for at a time. They begin in the order of the page, so more would only take
/// memory.
const RUNNING_MAX: usize = 32;

/// `ssi`
pub(super) struct PageStep;

impl BodyFilter for PageStep {
    fn would_change(&self, host: &dyn FilterHost, head: HeadView<'_>) -> bool {
        host.location().ssi.as_deref().is_some_and(|plan| wants(plan, head))
    }

    fn begin(&self, host: &mut dyn FilterHost, head: &mut ReplyHead, _: Compress) -> Option<Box<dyn Stage>> {
        let plan = host.location().ssi.as_deref().filter(|_| host.shows_body())?;
        if !wants(plan, head.with(host.upstream_bytes())) {
            return None;
        }
        let settings = plan.page;
        edit_head(plan, head, host.upstream_bytes(), host.is_subrequest());
        host.sends_body(head).then(|| host.begin_page(settings, head))
    }
}

/// Whether a response with this head is such a page.
fn wants(plan: &SsiPlan, head: HeadView<'_>) -> bool {
    head.head.length != Some(0) && plan.types.covers(head.value(FieldId::ContentType).unwrap_or_default())
}

/// Removes fields from a head that are wrong for the page made of it.
fn edit_head(plan: &SsiPlan, head: &mut ReplyHead, answer: &[u8], is_subrequest: bool) {
    head.length = None;
    head.fields.move_mark_last(Mark::Length);
    for id in [FieldId::ContentLength, FieldId::TransferEncoding] {
        head.fields.remove(id);
    }
    if is_subrequest {
        return;
    }
    let tag = head.fields.value(FieldId::ETag, answer).and_then(weak_tag).filter(|_| plan.keeps_last_modified);
    for id in [FieldId::AcceptRanges, FieldId::ETag] {
        head.fields.remove(id);
    }
    match tag {
        Some(tag) => head.fields.push(FieldId::ETag, &tag),
        None if plan.keeps_last_modified => {}
        None => head.fields.remove(FieldId::LastModified),
    }
}

/// A page that is put together.
#[derive(Debug)]
pub(crate) struct Assembly {
    pub(crate) page: RefCell<Page>,
    /// `config timefmt`
    pub(crate) time_format: RefCell<Vec<u8>>,
    /// The character set and the media type for included responses.
    pub(crate) charset: Box<[u8]>,
    pub(crate) media: Box<[u8]>,
    parts: RefCell<Parts>,
}

/// Its bytes.
#[derive(Debug, Default)]
struct Parts {
    /// The page as received, from `taken` on.
    input: Vec<u8>,
    taken: usize,
    /// The input is complete.
    is_over: bool,
    output: VecDeque<Part>,
    output_bytes: usize,
    pause: Option<Pausing>,
    /// The output is complete.
    is_done: bool,
}

/// A part of the output.
#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    /// A response, and the text in its place if it is empty.
    Included(Rc<Subrequest>, Option<Vec<u8>>),
}

/// What a page waits for before its next command.
#[derive(Debug)]
enum Pausing {
    /// `wait="yes"`
    Included(Rc<Subrequest>),
    Variable(Rc<Subrequest>, Box<SetVariable>),
}

/// A variable that gets a response (`set`).
#[derive(Debug, Default)]
pub(crate) struct SetVariable {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// The response is longer than its location allows.
    pub(crate) is_too_long: bool,
    /// The status of the response, when it has ended.
    pub(crate) status: u16,
}

/// What the end of a pause brings.
pub(crate) enum Resumed {
    /// There is no pause, or it has not ended.
    No,
    Yes,
    WithVariable(Box<SetVariable>),
}

impl Assembly {
    pub(crate) fn new(settings: PageSettings, charset: Box<[u8]>, media: Box<[u8]>) -> Self {
        let time_format = TIME_FORMAT.to_vec().into();
        Self { page: Page::new(settings).into(), time_format, charset, media, parts: RefCell::default() }
    }

    /// Ends the pause if what it waits for has ended.
    pub(crate) fn resume(&self) -> Resumed {
        let mut parts = self.parts.borrow_mut();
        match parts.pause.take() {
            None => Resumed::No,
            Some(Pausing::Included(included)) if included.is_over() => Resumed::Yes,
            Some(Pausing::Variable(included, mut set)) => {
                // The end first: bytes may come with it.
                let is_over = included.is_over();
                set.value.extend_from_slice(&included.take_body());
                set.is_too_long |= set.value.len() as u64 > included.kept_bytes_max();
                if !is_over && !set.is_too_long {
                    parts.pause = Some(Pausing::Variable(included, set));
                    return Resumed::No;
                }
                set.status = included.ended().map_or(0, |ended| ended.status);
                Resumed::WithVariable(set)
            }
            running => {
                parts.pause = running;
                Resumed::No
            }
        }
    }

    /// Takes the input whose commands may be executed now; empty if there is none.
    pub(crate) fn take_input(&self) -> Vec<u8> {
        let mut parts = self.parts.borrow_mut();
        if !parts.has_room() {
            return Vec::new();
        }
        let taken = std::mem::take(&mut parts.taken);
        let mut input = std::mem::take(&mut parts.input);
        input.drain(..taken);
        input
    }

    /// Whether the next command may be executed.
    pub(crate) fn has_room(&self) -> bool {
        self.parts.borrow().has_room()
    }

    /// Gives input back, of which the first bytes are done.
    pub(crate) fn put_back(&self, input: Vec<u8>, done: usize) {
        let mut parts = self.parts.borrow_mut();
        if done < input.len() {
            (parts.input, parts.taken) = (input, done);
        }
    }

    /// Whether the input is complete and done, and [`Self::end`] is due.
    pub(crate) fn is_at_end(&self) -> bool {
        let parts = self.parts.borrow();
        parts.is_over && parts.pause.is_none() && parts.held_input() == 0 && !parts.is_done
    }

    /// The output is complete.
    pub(crate) fn end(&self) {
        self.parts.borrow_mut().is_done = true;
    }

    pub(crate) fn add_text(&self, text: &[u8]) {
        let mut parts = self.parts.borrow_mut();
        parts.output_bytes += text.len();
        match parts.output.back_mut() {
            Some(Part::Bytes(bytes)) => bytes.extend_from_slice(text),
            _ if text.is_empty() => {}
            _ => parts.output.push_back(Part::Bytes(text.to_vec())),
        }
    }

    /// Adds a response. `waits`: the next command waits for its end.
    pub(crate) fn add_included(&self, included: Subrequest, stub: Option<Vec<u8>>, waits: bool) {
        let included = Rc::new(included);
        let mut parts = self.parts.borrow_mut();
        if waits {
            parts.pause = Some(Pausing::Included(Rc::clone(&included)));
        }
        parts.output.push_back(Part::Included(included, stub));
    }

    /// The next command waits for a response, which a variable gets.
    pub(crate) fn wait_for_variable(&self, included: Subrequest, name: Vec<u8>) {
        let set = Box::new(SetVariable { name, ..SetVariable::default() });
        self.parts.borrow_mut().pause = Some(Pausing::Variable(Rc::new(included), set));
    }
}

impl Parts {
    fn held_input(&self) -> usize {
        self.input.len() - self.taken
    }

    fn has_room(&self) -> bool {
        let running = || self.output.iter().filter(|part| matches!(part, Part::Included(..))).count();
        self.pause.is_none() && self.output_bytes < OUTPUT_BYTES_MAX && running() < RUNNING_MAX
    }

    fn next_piece(&mut self) -> Piece {
        loop {
            match self.output.front_mut() {
                None => return if self.is_done { Piece::End } else { Piece::Nothing },
                Some(Part::Bytes(bytes)) => {
                    let bytes = std::mem::take(bytes);
                    self.output_bytes -= bytes.len();
                    self.output.pop_front();
                    return Piece::Bytes(bytes);
                }
                Some(Part::Included(included, stub)) => {
                    // The end first: bytes may come with it.
                    let is_over = included.is_over();
                    let bytes = included.take_body();
                    if !bytes.is_empty() {
                        return Piece::Bytes(bytes);
                    }
                    if !is_over {
                        return Piece::Nothing;
                    }
                    let stub = stub.take();
                    let had_content = included.ended().is_some_and(|ended| ended.had_content);
                    self.output.pop_front();
                    if let Some(stub) = stub.filter(|stub| !stub.is_empty() && !had_content) {
                        return Piece::Bytes(stub);
                    }
                }
            }
        }
    }
}

impl Stage for Rc<Assembly> {
    fn hold(&mut self, body: &[u8], last: bool) {
        let mut parts = self.parts.borrow_mut();
        if parts.taken > 0 && parts.held_input() == 0 {
            parts.input.clear();
            parts.taken = 0;
        }
        parts.input.extend_from_slice(body);
        parts.is_over |= last;
    }

    fn next_piece(&mut self) -> io::Result<Piece> {
        Ok(self.parts.borrow_mut().next_piece())
    }

    fn is_waiting(&self) -> bool {
        let parts = self.parts.borrow();
        parts.is_over || parts.held_input() > 0 || !parts.output.is_empty() || parts.pause.is_some()
    }

    fn held_bytes(&self) -> usize {
        let parts = self.parts.borrow();
        parts.held_input() + parts.output_bytes
    }

    fn own_bytes(&self) -> usize {
        let set = match &self.parts.borrow().pause {
            Some(Pausing::Variable(_, set)) => set.value.len(),
            _ => 0,
        };
        self.page.borrow().held_bytes() + set
    }
}
