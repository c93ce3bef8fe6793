//! `ssi`: executes the commands of a page. A wait of the exchange does it, since every way of a body to its client leads
//! there; included pages are subrequests, which may include others.

use crate::base::logs::error::quoted;
use crate::downstream::internal::WantedParts;
use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::subrequest::Errand;
use crate::exchange::view::ExchangeView;
use crate::filter::assembly::{Assembly, Resumed, SetVariable};
use crate::filter::charset;
use crate::filter::stage::Stage;
use crate::upstream::replay_body::ReplayBody;
use http1::{FieldId, Method};
use rules::ssi::{Host, Include, Output, PageSettings, Shared, TIME_FORMAT};
use rules::template::View as _;
use rules::time_format::{Moment, Zone};
use rules::variable::Variable;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Pages inside of pages, as in nginx: a page that includes itself ends there.
const DEPTH_MAX: u8 = 51;

/// Pages that one request of a client includes. nginx bounds only those that run at the same time, by 64,535: a page that
/// includes itself twice would keep a worker busy for hours. All of them may run at the same time, with some 16 KB each.
const INCLUDES_MAX: u32 = 1024;

/// Commands that are executed before other tasks get their turn. A regular expression may take a millisecond.
const COMMANDS_AT_ONCE: u32 = 64;

/// What was executed.
enum Executed {
    /// The input is used up.
    Nothing,
    Text,
    Command,
}

/// What all pages of one client's request share.
#[derive(Default)]
pub(crate) struct Tree {
    shared: RefCell<Shared>,
    /// Number of included pages.
    included: Cell<u32>,
}

/// The place of a page among those of one client's request.
#[derive(Default)]
pub(crate) struct Inclusion {
    tree: Rc<Tree>,
    depth: u8,
    /// The text in place of an error, and its media type.
    stub: Option<(Vec<u8>, Box<[u8]>)>,
}

impl Inclusion {
    /// Whether this page may include another one.
    fn admit(&self, include: &Include) -> Result<(), String> {
        let uri = quoted(&include.uri);
        if self.depth >= DEPTH_MAX {
            return Err(format!("subrequests cycle while processing \"{uri}\""));
        }
        let included = self.tree.included.get();
        if included >= INCLUDES_MAX {
            return Err(format!("more than {INCLUDES_MAX} pages are included, the last one is \"{uri}\""));
        }
        self.tree.included.set(included + 1);
        Ok(())
    }
}

/// A page's view of its exchange.
struct PageHost<'a>(&'a Exchange, &'a Assembly);

impl Host for PageHost<'_> {
    fn value(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(name) = std::str::from_utf8(name) else { return false };
        let variable = Variable::resolve(name, &self.0.generation.page_variables);
        variable.is_some_and(|variable| ExchangeView::of(self.0).write(&variable, out))
    }

    fn uri(&self) -> &[u8] {
        self.0.uri()
    }

    fn set_time_format(&self, format: &[u8]) {
        *self.1.time_format.borrow_mut() = format.to_vec();
    }

    fn report(&self, message: &str) {
        self.0.error_log(&format!("{message} while sending response to client"));
    }
}

impl Exchange {
    /// Bytes of memory that the pages of this request share.
    pub(crate) fn shared_page_bytes(&self) -> usize {
        let own = self.response.inclusion.as_ref().filter(|inclusion| inclusion.depth == 0);
        own.map_or(0, |inclusion| inclusion.tree.shared.borrow().held_bytes())
    }

    /// The stage of a page.
    pub(crate) fn begin_page(&mut self, settings: PageSettings, head: &ReplyHead) -> Box<dyn Stage> {
        let media = head.fields.value(FieldId::ContentType, self.answer_bytes()).unwrap_or_default().into();
        let assembly = Rc::new(Assembly::new(settings, self.charset_of_parts(head), media));
        self.response.inclusion.get_or_insert_default();
        self.response.assembly = Some(Rc::clone(&assembly));
        Box::new(assembly)
    }

    /// The character set for the parts of this response.
    pub(crate) fn charset_of_parts(&self, head: &ReplyHead) -> Box<[u8]> {
        let own = || charset::named(head.with(self.answer_bytes())).into();
        self.response.outer_charset().map_or_else(own, Into::into)
    }

    /// Executes commands of the page as far as possible without a wait. `true`: some were executed.
    pub(crate) fn assemble(&self) -> bool {
        let (Some(assembly), Some(inclusion)) = (&self.response.assembly, &self.response.inclusion) else {
            return false;
        };
        let mut has_run = match assembly.resume() {
            Resumed::No => false,
            Resumed::Yes => true,
            Resumed::WithVariable(set) => {
                self.store_variable(&inclusion.tree, &set);
                true
            }
        };
        let input = assembly.take_input();
        has_run |= !input.is_empty();
        let mut rest = &input[..];
        let mut commands = 0;
        while commands < COMMANDS_AT_ONCE && assembly.has_room() {
            match self.execute_next(assembly, inclusion, &mut rest) {
                Executed::Nothing => break,
                Executed::Text => {}
                Executed::Command => commands += 1,
            }
        }
        let done = input.len() - rest.len();
        assembly.put_back(input, done);
        if assembly.is_at_end() {
            assembly.add_text(assembly.page.borrow_mut().finish(&PageHost(self, assembly)));
            assembly.end();
            has_run = true;
        }
        has_run
    }

    /// Executes one command or passes one text on.
    fn execute_next(&self, assembly: &Assembly, inclusion: &Inclusion, input: &mut &[u8]) -> Executed {
        let host = PageHost(self, assembly);
        let mut page = assembly.page.borrow_mut();
        let mut shared = inclusion.tree.shared.borrow_mut();
        match page.next(input, &mut shared, &host) {
            None => return Executed::Nothing,
            Some(Output::Nothing) => {}
            Some(Output::Text(text)) => {
                assembly.add_text(text);
                return Executed::Text;
            }
            Some(Output::Made(text)) => assembly.add_text(&text),
            Some(Output::Include(include)) => match inclusion.admit(&include) {
                Ok(()) => self.include(assembly, inclusion, *include),
                Err(fault) => {
                    if let Output::Made(text) = page.refuse(&fault, &host) {
                        assembly.add_text(&text);
                    }
                }
            },
        }
        Executed::Command
    }

    fn include(&self, assembly: &Assembly, inclusion: &Inclusion, include: Include) {
        let Include { uri, args, waits, set, stub } = include;
        let body = if self.intake.can_replay() { self.intake.replay.clone() } else { ReplayBody::None };
        let errand = Errand {
            uri,
            method: Method::Get,
            wanted: WantedParts::Body,
            body,
            sets: None,
            charset: Some(assembly.charset.clone()),
            resumes: None,
            args,
            inclusion: Some(Box::new(Inclusion {
                tree: Rc::clone(&inclusion.tree),
                depth: inclusion.depth + 1,
                stub: stub.clone().map(|text| (text, assembly.media.clone())),
            })),
        };
        // As in nginx, all pages of a request have the same variables.
        let subrequest = self.start_with(errand, self.routing.slots.share());
        match set {
            Some(name) => assembly.wait_for_variable(subrequest, name),
            None => assembly.add_included(subrequest, stub, waits),
        }
    }

    /// `set` of `include`: only a response without an error becomes the value.
    fn store_variable(&self, tree: &Tree, set: &SetVariable) {
        if set.is_too_long {
            self.error_log("too big subrequest response while sending response to client");
        } else if (200..300).contains(&set.status)
            && let Err(fault) = tree.shared.borrow_mut().store(&set.name, &set.value)
        {
            self.error_log(&fault);
        }
    }

    /// The text in place of an error of an included page (`stub`).
    pub(crate) fn or_stub(&mut self, reply: Reply) -> Reply {
        let is_error = matches!(reply.body, ReplyBody::ErrorPage);
        let stub = self.response.inclusion.as_mut().filter(|_| is_error).and_then(|inclusion| inclusion.stub.take());
        match stub {
            Some((text, media)) => {
                Reply { status: 200, content_type: Some(media), body: ReplyBody::Bytes(text), ..Reply::default() }
            }
            None => reply,
        }
    }

    /// `$date_local` and `$date_gmt`
    pub(crate) fn write_date(&self, zone: Zone, out: &mut Vec<u8>) -> bool {
        let second = self.thread.clock.now().as_secs() as i64;
        let moment = match zone {
            Zone::Gmt => Moment::new(second, 0),
            Zone::Local => self.thread.clock.moment(),
        };
        let date = match &self.response.assembly {
            Some(assembly) => moment.format(&assembly.time_format.borrow(), zone, second),
            None => moment.format(TIME_FORMAT, zone, second),
        };
        date.map(|date| out.extend_from_slice(&date)).is_some()
    }
}
