//! The phases of an exchange in their order: route, rewrite, limits, access, content, respond, settle. A future exists
//! only from a complete head to settle; it returns its end, by which the worker decides about the connection.

use crate::base::close::CloseReason;
use crate::base::logs::error::quoted;
use crate::downstream::Left;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::step::{Served, Step};
use crate::exchange::trace::{Event, Tracer, Untraced};
use crate::exchange::{Begin, Beginning, Exchange, Refusal};
use crate::phases::settle::Concluded;
use crate::plan::location::{Content, LocationPlan};
use crate::thread::executor::{self, Mailbox};
use rules::reply::STATUS_HEAD_TOO_LARGE;
use std::convert::Infallible;
use std::rc::Rc;

pub(crate) mod access;
pub(crate) mod acme;
pub(crate) mod auth_jwt;
pub(crate) mod basic_auth;
pub(crate) mod limits;
pub(crate) mod mirror;
pub(crate) mod more_headers;
pub(crate) mod real_client;
pub(crate) mod redirect;
pub(crate) mod rewrite;
pub(crate) mod route;
pub(crate) mod route_to;
pub(crate) mod secured;
pub(crate) mod settle;
pub(crate) mod spans;
pub(crate) mod try_files;

/// The end of an exchange: the worker decides by it what happens to the client's side.
pub(crate) struct Next {
    pub(crate) concluded: Concluded,
    /// What is left of the client's side. Only the worker looks into it.
    pub(crate) left: Left,
}

/// Runs exchanges one after the other, as they are put into the mailbox. This is a loop and not a function per exchange, so
/// that its memory is set up once: making a new future copies all of it.
pub(crate) async fn run(mailbox: Rc<Mailbox<Begin, Next>>) -> Infallible {
    loop {
        if let Some(begin) = mailbox.take_arguments() {
            let Begin { thread, spares, generation, asker, request, beginning } = begin;
            let mut exchange = Exchange::new(thread, spares, generation, asker, request, &beginning);
            let step = match beginning {
                Beginning::Head => exchange.route(Untraced),
                Beginning::Refused(refusal) => exchange.refuse(refusal),
                Beginning::Subrequest(inherited) => {
                    let redirect = exchange.take_on(*inherited);
                    redirect.map_or(Step::Resume, |redirect| exchange.redirect(redirect, Untraced))
                }
            };
            let concluded = match exchange.serve(step, Untraced).await {
                Served::Responded => {
                    let sent = exchange.settle().await;
                    exchange.conclude(sent)
                }
                Served::Tunnel(start) => exchange.conclude_tunnel(start),
            };
            let Exchange { thread, spares, request, mut upstream, down, .. } = exchange;
            spares.recycle(request, &thread.memory);
            spares.recycle_answer(upstream.take_answer(), &thread.memory);
            mailbox.put_result(Next { concluded, left: down.into_left() });
        }
        executor::suspend().await;
    }
}

/// Most internal redirects of one exchange, as in nginx: more indicate a loop in the configuration.
const REDIRECTS_MAX: u32 = 10;

/// Whether the steps before a location's content still have to run: rules, limits, access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    ToDo,
    Done,
}

impl Exchange {
    /// Runs the locations until there is a response.
    pub(crate) async fn serve<T: Tracer>(&mut self, mut step: Step, trace: T) -> Served {
        let mut redirects = 0;
        loop {
            if !matches!(step, Step::Served(_))
                && let Some(refusal) = self.refuse_undecided()
            {
                step = Step::Reply(refusal);
            }
            trace.note(self, Event::Next(&step));
            step = match step {
                Step::Served(served) => return served,
                Step::Rules => self.server_rules(trace).await,
                Step::Content => self.content(Before::ToDo, trace).await,
                Step::Resume => self.content(Before::Done, trace).await,
                Step::Redirect(_) | Step::Moved if redirects == REDIRECTS_MAX => {
                    let uri = quoted(self.uri());
                    self.error_log(&format!("rewrite or internal redirection cycle while processing \"{uri}\""));
                    self.response.end_error_pages();
                    Step::Reply(Reply::error(500))
                }
                Step::Redirect(redirect) => {
                    redirects += 1;
                    self.redirect(redirect, trace)
                }
                Step::Moved => {
                    redirects += 1;
                    self.routing.target.leave_location();
                    self.route_location(trace)
                }
                Step::Reply(Reply { status, body: ReplyBody::ToNobody, .. }) => return self.leave_unanswered(status),
                Step::Reply(reply) if self.down.wants_tunnel() && (200..300).contains(&reply.status) => {
                    Step::Reply(self.no_tunnel_here())
                }
                Step::Reply(reply) => {
                    let reply = self.or_stub(reply);
                    let Some(page) = self.error_page(&reply, trace) else {
                        let reply = self.as_grpc(reply);
                        return self.deliver(reply).await;
                    };
                    page
                }
            }
        }
    }

    /// Refuses a page, which a client that wants a tunnel would take for one.
    fn no_tunnel_here(&mut self) -> Reply {
        self.client_log("client sent CONNECT for a WebSocket where the location has no upstream to lead it to");
        self.response.end_error_pages();
        Reply::error(405)
    }

    /// U13: the client has left.
    fn leave_unanswered(&mut self, status: u16) -> Served {
        self.response.set_status(status);
        self.down.ending.break_off(CloseReason::ClientAborted);
        Served::Responded
    }

    /// Runs the location's content.
    async fn content<T: Tracer>(&mut self, before: Before, trace: T) -> Step {
        let generation = Rc::clone(&self.generation);
        let Some(location) = self.routing.target.location() else { return Step::Reply(Reply::error(404)) };
        let mut location = generation.location(location);
        let is_new = before == Before::ToDo;
        if is_new && let Some(step) = self.route_to(&location.routes, trace) {
            return step;
        }
        if let Some(program) = location.program.as_ref().filter(|_| is_new) {
            if let Some(step) = self.location_rules(program, trace).await {
                return step;
            }
            // An `if` may have selected other settings.
            location = generation.location(
                self.routing.target.location().unwrap_or(generation.server(self.routing.target.server()).own),
            );
        }
        if is_new
            && !matches!(location.content, Content::Return(_))
            && let Some(refusal) = self.admit_to(location, trace).await
        {
            return Step::Reply(refusal);
        }
        self.note_admitted();
        if let Some(plan) = location.try_files.as_ref().filter(|_| is_new)
            && let Some(step) = self.try_files(plan, trace).await
        {
            return step;
        }
        if let Some(plan) = location.mirror.as_ref().filter(|_| !self.is_subrequest()) {
            trace.note(self, Event::Mirror(plan));
            if !T::OFFLINE
                && let Err(refusal) = self.mirror(plan).await
            {
                return Step::Reply(refusal);
            }
        }
        if !matches!(location.content, Content::Files(_)) {
            // An index was found for a file that is not readable.
            self.routing.take_prefetched();
        }
        if let Some(refusal) = self.refuse_undecided() {
            return Step::Reply(refusal);
        }
        if self.down.wants_tunnel() && !location.content.answers_tunnels() {
            return Step::Reply(self.no_tunnel_here());
        }
        if let Some(plan) = self.is_sliced() {
            trace.note(self, Event::Slices(plan));
            if !T::OFFLINE {
                return Box::pin(self.send_slices(plan)).await;
            }
        }
        self.begin_content(&generation, &location.content, trace).await
    }

    /// The checks of a location before its content. Returns the answer to a request that is not admitted.
    async fn admit_to<T: Tracer>(&mut self, location: &LocationPlan, trace: T) -> Option<Reply> {
        if let Some(plan) = &location.more_headers
            && let Err(refusal) = self.edit_request(plan)
        {
            return Some(refusal);
        }
        if let Some(plan) = &location.real_ip {
            self.find_client(plan);
        }
        if let Some(plan) = &location.limits {
            trace.note(self, Event::Limits(plan));
            if let Some(refusal) = self.limit(plan).await {
                return Some(refusal);
            }
        }
        let plan = location.access.as_ref().filter(|_| !self.is_subrequest())?;
        self.access(plan, trace).await
    }

    /// Answers and logs an invalid head. The settings are those of its server, if that was known before the fault,
    /// otherwise of the address's default server.
    pub(crate) fn refuse(&mut self, refusal: Refusal) -> Step {
        let is_read = matches!(refusal, Refusal::OutOfMemory) || self.request.head.host.is_some();
        let _ = if is_read { self.choose_server(Untraced) } else { self.choose_default_server() };
        self.parse_refused_uri();
        let (status, reason) = match refusal {
            Refusal::Malformed(error) => {
                self.client_log(&format!("{}: {error}", error.phrase()));
                let status = if error.is_too_large() { STATUS_HEAD_TOO_LARGE } else { error.status() };
                (status, CloseReason::BadRequest)
            }
            Refusal::HeadTimeout => {
                self.client_log("client timed out (110: Connection timed out) while reading client request headers");
                (408, CloseReason::HeadTimeout)
            }
            Refusal::ClientLeft => {
                self.client_log("client prematurely closed connection while reading client request headers");
                return Step::Reply(Reply::to_nobody(400));
            }
            Refusal::OutOfMemory => {
                // The built-in page: another one could need an upstream, and memory for it.
                self.response.end_error_pages();
                (503, CloseReason::MemoryBudget)
            }
        };
        self.down.ending.break_off(reason);
        Step::Reply(Reply::error(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the future that a function returns.
    fn size_of_future<F: Future>(_: impl Fn(Rc<Mailbox<Begin, Next>>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_exchange_is_no_larger_than_was_decided() {
        assert!(size_of_future(run) <= 4096, "{} bytes", size_of_future(run));
    }
}
