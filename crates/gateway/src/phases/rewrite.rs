//! The rewrite phases: a server's program before a location is sought, a location's before its content. `rules` runs
//! the programs; this module applies them to an exchange, tests files, and turns their results into steps.

use crate::base::logs::error::{Level, quoted};
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::step::Step;
use crate::exchange::trace::{Event, Tracer};
use crate::exchange::view::ExchangeView;
use crate::plan::program::ProgramPlan;
use conf::value::size::parse_size_text;
use reactor::{FileKind, c_path, open_file_cached};
use rules::captures::Captures;
use rules::program::{Did, FileTest, Machine, Place, Stop};
use rules::slots::VarSlots;
use rules::template::View;
use rules::user_variables::{Surroundings, Trouble};
use rules::variable::Variable;
use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::rc::Rc;

/// The permission bit that nginx tests for `-x`: the owner's.
const OWNER_EXECUTES: u32 = 0o100;

impl Exchange {
    /// Runs the server's program, then finds a location.
    pub(crate) async fn server_rules<T: Tracer>(&mut self, trace: T) -> Step {
        let generation = Rc::clone(&self.generation);
        self.routing.target.leave_location();
        if let Some(plan) = &generation.server(self.routing.target.server()).program
            && let Some(step) = self.run_program(plan, trace).await
        {
            return step;
        }
        self.route_location(trace)
    }

    /// Runs a location's program. `None`: next is the content of the location, which an `if` may have changed.
    pub(crate) async fn location_rules<T: Tracer>(&mut self, plan: &ProgramPlan, trace: T) -> Option<Step> {
        self.routing.target.begin_program();
        let step = self.run_program(plan, trace).await;
        step.or_else(|| self.routing.target.has_moved().then_some(Step::Moved))
    }

    async fn run_program<T: Tracer>(&mut self, plan: &ProgramPlan, trace: T) -> Option<Step> {
        let mut place = Place::default();
        loop {
            match plan.program.run(place, &mut Rewriting { exchange: self, plan, trace }) {
                Stop::End => return None,
                Stop::Return(number) => return plan.answers.get(number as usize).map(|plan| self.return_step(plan)),
                Stop::Redirect(status, url) => {
                    return Some(Step::Reply(self.client_redirect(status, url, plan.program.redirect_urls())));
                }
                Stop::Failed(message) => {
                    self.error_log(&message);
                    return Some(Step::Reply(Reply::error(500)));
                }
                Stop::Look { test, path, negated, yes, no } => {
                    let shown = if T::OFFLINE { path.clone() } else { Vec::new() };
                    let found = self.look(test, path).await;
                    trace.note(self, Event::Looked { path: &shown, found, holds: found != negated });
                    place = if found { yes } else { no };
                }
            }
        }
    }

    /// `-f`, `-d`, `-e`, `-x`
    async fn look(&self, test: FileTest, path: Vec<u8>) -> bool {
        let guard = self.path_guard(&path);
        let Some(name) = c_path(path) else { return false };
        // Names that are tested for each request are in the kernel's memory, so no lookup waits for a disk.
        match if guard.is_none() { open_file_cached(&name) } else { Ok(None) } {
            Ok(Some(file)) if test != FileTest::Executable => {
                return match test {
                    FileTest::Regular => file.status.kind == FileKind::Regular,
                    FileTest::Directory => file.status.kind == FileKind::Directory,
                    FileTest::Exists | FileTest::Executable => true,
                };
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return false,
            _ => {}
        }
        self.tested(name, guard).await.is_some_and(|status| match test {
            FileTest::Regular => status.is_file(),
            FileTest::Directory => status.is_dir(),
            FileTest::Exists => true,
            FileTest::Executable => status.mode() & OWNER_EXECUTES != 0,
        })
    }
}

/// An exchange while a program runs on it.
struct Rewriting<'a, T> {
    exchange: &'a mut Exchange,
    plan: &'a ProgramPlan,
    trace: T,
}

impl<T> View for Rewriting<'_, T> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        ExchangeView::of(self.exchange).write(variable, out)
    }
}

impl<T> Surroundings for Rewriting<'_, T> {
    fn slots(&self) -> &VarSlots {
        self.exchange.routing.slots()
    }

    fn captures(&self) -> &RefCell<Captures> {
        self.exchange.routing.captures()
    }

    fn client(&self) -> Option<IpAddr> {
        self.exchange.client().ip()
    }

    fn forwarded_for<'a>(&'a self, fields: &mut Vec<&'a [u8]>) {
        self.exchange.forwarded_for(fields);
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        self.exchange.variable_trouble(&trouble);
    }
}

impl<T: Tracer> Machine for Rewriting<'_, T> {
    const TRACED: bool = T::OFFLINE;

    fn ran(&mut self, number: u32, did: Did<'_>) {
        self.trace.note(self.exchange, Event::Ran(self.plan, number, did));
    }

    fn uri(&self) -> &[u8] {
        self.exchange.uri()
    }

    fn args(&self) -> &[u8] {
        self.exchange.args().unwrap_or_default()
    }

    fn was_quoted(&self) -> bool {
        let Some(parsed) = self.exchange.routing.target.parsed() else { return false };
        let path = self.exchange.raw_target().get(parsed.raw_path_range()).unwrap_or_default();
        parsed.quoted || path.contains(&b'+')
    }

    fn set_args(&mut self, args: &[u8]) {
        let exchange = &mut *self.exchange;
        if !exchange.routing.target.is_uri_replaced() {
            let uri = exchange.uri().to_vec();
            exchange.request.uri = uri;
        }
        exchange.routing.target.replace_args();
        exchange.request.args = args.to_vec();
    }

    fn set_rate(&mut self, size: &[u8]) {
        match parse_size_text(size) {
            Some(rate) => self.exchange.response.limit_rate_to(rate),
            None => self.exchange.error_log(&format!("invalid $limit_rate \"{}\"", quoted(size))),
        }
    }

    fn rewrite(&mut self, uri: Vec<u8>, args: Option<Vec<u8>>, stays: bool) {
        let exchange = &mut *self.exchange;
        let args = args.or_else(|| exchange.args().map(<[u8]>::to_vec));
        exchange.routing.target.rewrite(args.is_some(), stays);
        exchange.request.uri = uri;
        exchange.request.args = args.unwrap_or_default();
    }

    fn stay(&mut self) {
        self.exchange.routing.target.stay();
    }

    fn enter(&mut self, place: u32) {
        if let Some(id) = self.plan.places.get(place as usize) {
            self.exchange.routing.target.enter(*id);
        }
    }

    fn notice(&self, message: &str) {
        self.exchange.log_at(Level::Notice, message);
    }
}
