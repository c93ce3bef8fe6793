//! The phases of an exchange in their order: route, rewrite, limits, access, content, respond, settle. A future exists only
//! from a complete head to settle; it returns what becomes of the connection.

use crate::base::close::CloseReason;
use crate::base::logs::error::quoted;
use crate::downstream::connection::Connection;
use crate::downstream::linger::LingerPlan;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::step::{Served, Step};
use crate::exchange::waiting::ClientLeft;
use crate::exchange::{Begin, Exchange, Refusal};
use crate::plan::location::Content;
use crate::thread::executor::{self, Desk};
use crate::tunnel::Tunnel;
use reactor::TaskId;
use rules::reply::STATUS_HEAD_TOO_LARGE;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

pub(crate) mod access;
pub(crate) mod acme;
pub(crate) mod limits;
pub(crate) mod real_client;
pub(crate) mod redirect;
pub(crate) mod rewrite;
pub(crate) mod route;
pub(crate) mod secured;
pub(crate) mod settle;
pub(crate) mod try_files;

/// What becomes of the connection.
pub(crate) enum Next {
    /// It waits for the next request, at most for this long.
    KeepAlive(Box<Connection>, Duration),
    /// It is one side of a tunnel from now on.
    Tunnel(Box<Tunnel>),
    /// It is closed, but what the client still sends is read for a while.
    Linger { connection: Box<Connection>, reason: CloseReason, plan: LingerPlan },
    /// It was closed already.
    Gone(TaskId, CloseReason),
    /// It is closed.
    Close(Box<Connection>, CloseReason),
}

/// Runs one exchange after the other: those that are put on the desk. A loop, not a function of one exchange, so that its
/// memory is set up once: making a future anew copies all of it.
pub(crate) async fn run(desk: Rc<Desk<Begin, Next>>) -> Infallible {
    loop {
        if let Some(begin) = desk.take_arguments() {
            let refusal = begin.refusal;
            let mut exchange = Exchange::new(begin);
            let step = match refusal {
                None => exchange.route(),
                Some(refusal) => exchange.refuse(refusal),
            };
            let next = match exchange.serve(step).await {
                Served::Responded => {
                    let sent = exchange.settle().await;
                    exchange.end(sent)
                }
                Served::Tunnel(start) => exchange.hand_to_tunnel(*start),
            };
            desk.put_result(next);
        }
        executor::suspend().await;
    }
}

/// Internal redirects of one exchange, as in nginx: more is a loop in the configuration.
const REDIRECTS_MAX: u32 = 10;

impl Exchange {
    /// Runs what the locations say, until there is a response.
    async fn serve(&mut self, mut step: Step) -> Served {
        let mut redirects = 0;
        loop {
            if !matches!(step, Step::Served(_))
                && let Some(refusal) = self.refuse_undecided()
            {
                step = Step::Reply(refusal);
            }
            step = match step {
                Step::Served(served) => return served,
                Step::Rules => self.server_rules().await,
                Step::Content => self.content().await,
                Step::Redirect(_) | Step::Moved if redirects == REDIRECTS_MAX => {
                    let uri = quoted(self.uri());
                    self.error_log(&format!("rewrite or internal redirection cycle while processing \"{uri}\""));
                    self.response.error_pages_done = true;
                    Step::Reply(Reply::error(500))
                }
                Step::Redirect(redirect) => {
                    redirects += 1;
                    self.redirect(redirect)
                }
                Step::Moved => {
                    redirects += 1;
                    self.routing.target.location = None;
                    self.route_location()
                }
                Step::Reply(Reply { status, body: ReplyBody::ToNobody, .. }) => return self.leave_unanswered(status),
                Step::Reply(reply) => match self.error_page(&reply) {
                    Some(page) => page,
                    None => return self.deliver(reply).await,
                },
            }
        }
    }

    /// U13: nobody is there to be answered.
    fn leave_unanswered(&mut self, status: u16) -> Served {
        self.response.status = status;
        self.down.ending.break_off(CloseReason::ClientAborted);
        Served::Responded
    }

    /// Runs the location's content.
    async fn content(&mut self) -> Step {
        let generation = Rc::clone(&self.generation);
        let Some(location) = self.routing.target.location else { return Step::Reply(Reply::error(404)) };
        let mut location = generation.location(location);
        if let Some(program) = &location.program {
            if let Some(step) = self.location_rules(program).await {
                return step;
            }
            // An `if` may have led to other settings.
            location = generation
                .location(self.routing.target.location.unwrap_or(generation.server(self.routing.target.server).own));
        }
        if !matches!(location.content, Content::Return(_)) {
            if let Some(plan) = &location.real_ip {
                self.find_client(plan);
            }
            if let Some(plan) = &location.limits
                && let Some(refusal) = self.limit(plan).await
            {
                return Step::Reply(refusal);
            }
            if let Some(refusal) = self.access() {
                return Step::Reply(refusal);
            }
        }
        if let Some(plan) = &location.try_files
            && let Some(step) = self.try_files(plan).await
        {
            return step;
        }
        if !matches!(location.content, Content::Files(_)) {
            // An index was found for somebody who does not read it.
            self.routing.prefetched = None;
        }
        if let Some(refusal) = self.refuse_undecided() {
            return Step::Reply(refusal);
        }
        match &location.content {
            Content::Proxy(proxy) => {
                let plan = generation.proxy(*proxy);
                self.upstream.place = 0;
                match self.hold_members(plan).await {
                    Ok(held) => self.proxy(plan, held).await,
                    Err(ClientLeft) => self.client_left(),
                }
            }
            Content::VariablePass(plan) => self.proxy_computed(plan).await,
            Content::Return(plan) => self.return_step(plan),
            Content::Files(plan) => self.files(plan).await,
            Content::StubStatus => Step::Reply(self.stub_status()),
            Content::StatusPage => Step::Reply(self.status_page().await),
            Content::Nothing => Step::Reply(Reply::error(404)),
        }
    }

    /// A head that is not acceptable is answered, and logged, by the server that it is for as far as that was known before
    /// the fault, otherwise by the default server of the address.
    fn refuse(&mut self, refusal: Refusal) -> Step {
        let is_read = matches!(refusal, Refusal::OutOfMemory) || self.request.head.host.is_some();
        let _ = if is_read { self.choose_server() } else { self.choose_default_server() };
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
                // The built-in page: another one could need an upstream, and the memory for it.
                self.response.error_pages_done = true;
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
    fn size_of_future<F: Future>(_: impl Fn(Rc<Desk<Begin, Next>>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_exchange_is_no_larger_than_was_decided() {
        assert!(size_of_future(run) <= 4096, "{} bytes", size_of_future(run));
    }
}
