//! Shared state of a worker's exchanges: buffers of finished ones for reuse, subrequests to start, and connections to
//! upstreams.

use crate::base::memory::{Ledger, Pressure};
use crate::connector::h2::hub::Hub;
use crate::downstream::reply_head::ReplyHead;
use crate::downstream::request::Request;
use crate::exchange::Begin;
use crate::upstream::answer::Answer;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Recycled exchange buffers and futures kept by a worker: enough for the exchanges that usually run at the same time;
/// a burst beyond it allocates.
pub(crate) const SPARES_MAX: usize = 256;

/// The spare buffers of one worker, and the exchanges that it should start. The buffers count as held memory.
#[derive(Default)]
pub(crate) struct Spares {
    #[allow(clippy::vec_box)] // what is recycled is the box: an exchange owns it
    requests: RefCell<Vec<Box<Request>>>,
    #[allow(clippy::vec_box)] // as above
    answers: RefCell<Vec<Box<Answer>>>,
    /// Nearly every head is sent in the turn in which it is made, so one spare is enough.
    head: Cell<Option<Box<ReplyHead>>>,
    /// Connections to upstreams that exchanges share.
    pub(crate) hub: Rc<Hub>,
    /// Subrequests and streams that the worker has not started yet, in the order of their requests.
    started: RefCell<VecDeque<Begin>>,
}

impl Spares {
    /// Buffers for an exchange.
    pub(crate) fn request(&self, memory: &Ledger) -> Box<Request> {
        let Some(request) = self.requests.borrow_mut().pop() else { return Box::default() };
        memory.regain(request.held_bytes() as u64);
        request
    }

    /// Takes the buffers of a finished exchange back.
    pub(crate) fn recycle(&self, mut request: Box<Request>, memory: &Ledger) {
        let mut requests = self.requests.borrow_mut();
        if requests.len() < SPARES_MAX && memory.pressure() == Pressure::None {
            request.clear();
            memory.spend(request.held_bytes() as u64);
            requests.push(request);
        }
    }

    /// A buffer for the response head of an upstream.
    pub(crate) fn answer(&self, memory: &Ledger) -> Box<Answer> {
        let Some(answer) = self.answers.borrow_mut().pop() else { return Box::default() };
        memory.regain(answer.held_bytes() as u64);
        answer
    }

    /// Takes the buffer of a response head back.
    pub(crate) fn recycle_answer(&self, answer: Option<Box<Answer>>, memory: &Ledger) {
        let mut answers = self.answers.borrow_mut();
        if let Some(mut answer) = answer
            && answers.len() < SPARES_MAX
            && memory.pressure() == Pressure::None
        {
            answer.clear();
            memory.spend(answer.held_bytes() as u64);
            answers.push(answer);
        }
    }

    /// Queues an exchange; the worker starts it before it waits for events.
    pub(crate) fn start(&self, begin: Begin) {
        self.started.borrow_mut().push_back(begin);
    }

    /// The exchange that has waited longest.
    pub(crate) fn next_started(&self) -> Option<Begin> {
        self.started.borrow_mut().pop_front()
    }

    /// An empty head for a response.
    #[allow(clippy::unnecessary_box_returns)] // what is recycled is the box
    pub(crate) fn reply_head(&self) -> Box<ReplyHead> {
        self.head.take().unwrap_or_default()
    }

    /// Takes a head back.
    pub(crate) fn recycle_reply_head(&self, mut head: Box<ReplyHead>) {
        head.clear();
        self.head.set(Some(head));
    }

    /// Frees spare buffers; the closure gives the number to keep for a number of buffers of one kind.
    pub(crate) fn keep(&self, kept: impl Fn(usize) -> usize, memory: &Ledger) {
        let mut answers = self.answers.borrow_mut();
        let count = kept(answers.len());
        for answer in answers.drain(count..) {
            memory.regain(answer.held_bytes() as u64);
        }
        let mut requests = self.requests.borrow_mut();
        let count = kept(requests.len());
        for request in requests.drain(count..) {
            memory.regain(request.held_bytes() as u64);
        }
    }
}
