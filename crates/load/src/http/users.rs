//! The virtual users of a worker: each plays the flows of a scenario, step by step, with its own variables, cookies and
//! rows of data, on a connection of its own to each address. The user with number n has the n-th connection of each group.
//! In a closed loop a user begins its next iteration when the last one has ended. In an open loop an iteration is due at its
//! time, takes a free user, and is a new person each time.
//!
//! A step is due when the response before it is complete and the think time is over. If the connection is still ending or
//! pausing then, the step is due when the connection is ready, since that wait is the load's own.

use super::connection::{Connection, State};
use super::pool::{Http, WAITING_MAX};
use super::response::Fields;
use crate::cause::Cause;
use crate::choice::Choice;
use crate::coding::decode;
use crate::scenario::{BODY_CHECKED_MAX, Compiled, Feed, Jar, KeepCookies, Origin, Response};
use crate::setup::Setup;
use crate::template::Values;
use crate::worker::NEVER;
use crate::worker::requests::Bench;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What a user is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UserState {
    /// No iteration.
    Free,
    /// A request is in flight, or its connection is being opened.
    Busy,
    /// In a think time before the next step; or behind the last step, when the iteration is over.
    Thinking { is_over: bool },
    /// The next step waits for its connection.
    Waiting,
    /// The iteration is over, and a connection of the user is not quiet yet.
    Leaving,
}

/// How an iteration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Completed,
    Failed,
    Cut,
}

#[derive(Debug)]
struct User {
    state: UserState,
    flow: u16,
    /// The current step, as the number of its target.
    step: u16,
    /// How often the step was done in a row.
    repeated: u32,
    /// When the iteration was due.
    due_ns: u64,
    /// The request target of the last request.
    path: Vec<u8>,
    variables: Vec<Vec<u8>>,
    jar: Jar,
    /// The row of each data file.
    rows: Vec<Option<usize>>,
}

/// The users of a worker.
#[derive(Debug)]
pub(super) struct Users {
    setup: Arc<Setup>,
    all: Vec<User>,
    choice: Choice,
    feeds: Vec<Feed>,
    /// Open loop: users without an iteration; the one used last is on top.
    free: Vec<u32>,
    /// Open loop: iterations that wait for a user: flow and due time.
    waiting: VecDeque<(u16, u64)>,
    /// When users in a think time continue.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// The first connection of each group.
    firsts: Vec<u32>,
    /// Number of the next iteration, over all workers.
    iteration: u64,
    workers: u64,
    is_open: bool,
    /// Outcomes of the checks of one response.
    told: Vec<bool>,
}

impl Users {
    /// `None` without a scenario. The connections are those of all groups, in order.
    pub(super) fn new(
        setup: &Arc<Setup>,
        connections: &[Connection],
        is_open: bool,
        bench: &Bench,
    ) -> Option<Box<Self>> {
        let compiled = setup.scenario.as_ref()?;
        let groups = setup.groups.len().max(1);
        let count = connections.len() / groups;
        let user = || User {
            state: UserState::Free,
            flow: 0,
            step: 0,
            repeated: 0,
            due_ns: 0,
            path: Vec::new(),
            variables: Vec::new(),
            jar: Jar::default(),
            rows: vec![None; compiled.data().len()],
        };
        let (index, workers) = (bench.seat.index, bench.seat.workers);
        Some(Box::new(Self {
            all: std::iter::repeat_with(user).take(count).collect(),
            choice: Choice::new(compiled.weights()),
            feeds: compiled.data().iter().map(|data| Feed::new(data, index, workers)).collect(),
            free: (0..count as u32).rev().collect(),
            waiting: VecDeque::new(),
            due: BinaryHeap::new(),
            firsts: (0..groups).map(|group| (group * count) as u32).collect(),
            iteration: index as u64,
            workers: workers as u64,
            is_open,
            told: Vec::new(),
            setup: Arc::clone(setup),
        }))
    }

    fn compiled(setup: &Setup) -> Option<&Compiled> {
        setup.scenario.as_ref()
    }

    /// The user of a connection.
    pub(super) fn of(&self, at: u32, group: u16) -> u32 {
        at - self.firsts.get(usize::from(group)).copied().unwrap_or_default()
    }

    /// The connections of a user.
    fn connections(&self, user: u32) -> impl Iterator<Item = usize> + '_ {
        self.firsts.iter().map(move |first| (first + user) as usize)
    }

    fn state(&self, user: u32) -> UserState {
        self.all.get(user as usize).map_or(UserState::Free, |user| user.state)
    }

    /// Users in an iteration that goes on, and iterations that wait for a user.
    pub(super) fn under_way(&self) -> usize {
        let goes_on = |user: &&User| match user.state {
            UserState::Busy | UserState::Waiting => true,
            UserState::Thinking { is_over } => !is_over,
            UserState::Free | UserState::Leaving => false,
        };
        self.all.iter().filter(goes_on).count() + self.waiting.len()
    }

    /// Begins an iteration, or returns `false` if a data file has no row left for it.
    fn begin(&mut self, bench: &mut Bench, number: u32, flow: u16, due_ns: u64) -> bool {
        let Some(compiled) = Self::compiled(&self.setup) else { return false };
        let Some(user) = self.all.get_mut(number as usize) else { return false };
        let (is_new, iteration) = (self.is_open, self.iteration);
        let flow = compiled.listed(iteration).unwrap_or(flow);
        for (place, feed) in user.rows.iter_mut().zip(&mut self.feeds) {
            let kept = place.filter(|_| !is_new);
            *place = feed.take(kept, &mut bench.values.random);
            if place.is_none() {
                bench.run_out();
                return false;
            }
        }
        self.iteration += self.workers;
        let worker = bench.seat.index as u64;
        let person = if is_new { iteration } else { u64::from(number) * self.workers + worker };
        compiled.start(&mut user.variables, iteration, person);
        for (data, row) in compiled.data().iter().zip(&user.rows) {
            let row = row.and_then(|row| data.rows.get(row)).map(Vec::as_slice).unwrap_or_default();
            for (variable, value) in data.columns.iter().zip(row) {
                if let Some(place) = user.variables.get_mut(*variable) {
                    *place = value.clone().into_bytes();
                }
            }
        }
        if is_new || compiled.cookies() == KeepCookies::Iteration {
            user.jar.clear();
        }
        let first = compiled.flows.get(usize::from(flow)).map_or(0, |steps| steps.start);
        (user.flow, user.step, user.repeated, user.due_ns) = (flow, first, 0, due_ns);
        user.state = UserState::Waiting;
        if let Some(tally) = bench.seat.record.flow(usize::from(flow)) {
            tally.begun += 1;
        }
        true
    }

    fn end(&mut self, bench: &mut Bench, number: u32, ended: Ended) {
        let Some(user) = self.all.get_mut(number as usize) else { return };
        user.state = UserState::Leaving;
        let duration_ns = bench.seat.now_ns.saturating_sub(user.due_ns);
        let Some(tally) = bench.seat.record.flow(usize::from(user.flow)) else { return };
        match ended {
            Ended::Completed => {
                tally.completed += 1;
                tally.duration.record(duration_ns);
            }
            Ended::Failed => tally.failed += 1,
            Ended::Cut => tally.cut += 1,
        }
    }

    /// The request of a user failed.
    pub(super) fn fail(&mut self, bench: &mut Bench, number: u32) {
        if self.state(number) == UserState::Busy {
            self.end(bench, number, Ended::Failed);
        }
    }

    /// Appends the request of a step of a user.
    pub(super) fn encode(
        &mut self,
        (number, target, now_ns): (u32, u16, u64),
        values: &mut Values,
        body: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        let Some(compiled) = Self::compiled(&self.setup) else { return };
        let (Some(step), Some(user)) = (compiled.step(target), self.all.get_mut(number as usize)) else { return };
        let User { path, jar, variables, .. } = user;
        let keeps = compiled.cookies() != KeepCookies::None;
        std::mem::swap(&mut values.variables, variables);
        let cookies = |path: &[u8], out: &mut Vec<u8>| {
            if keeps {
                jar.write(&Origin { host: &step.host, path, is_secure: step.is_secure }, now_ns, out);
            }
        };
        step.request.encode(values, (path, body), cookies, out);
        std::mem::swap(&mut values.variables, variables);
    }

    /// Bytes of the body that the response to a step must keep.
    pub(super) fn body_bytes_max(&self, target: u16) -> usize {
        let step = Self::compiled(&self.setup).and_then(|compiled| compiled.step(target));
        step.map_or(0, |step| step.examination.body_bytes_max())
    }

    /// Judges a response, and decides what the user does next.
    fn judge(&mut self, bench: &mut Bench, number: u32, response: &Response<'_>) {
        let setup = Arc::clone(&self.setup);
        let Some(compiled) = Self::compiled(&setup) else { return };
        let Some(user) = self.all.get_mut(number as usize).filter(|user| user.state == UserState::Busy) else {
            return;
        };
        let (target, now_ns) = (user.step, bench.seat.now_ns);
        let Some(step) = compiled.step(target) else { return };
        if compiled.cookies() != KeepCookies::None {
            let origin = Origin { host: &step.host, path: &user.path, is_secure: step.is_secure };
            let date = response.values("date").next();
            for field in response.values("set-cookie") {
                user.jar.store(field, &origin, date, now_ns);
            }
        }
        self.told.clear();
        std::mem::swap(&mut bench.values.variables, &mut user.variables);
        let is_complete = step.examination.judge(response, &mut bench.values, |_, passed| self.told.push(passed));
        std::mem::swap(&mut bench.values.variables, &mut user.variables);
        for (number, passed) in self.told.iter().enumerate() {
            bench.tally(target).check(number, *passed);
        }
        if !is_complete {
            return self.end(bench, number, Ended::Failed);
        }
        user.repeated += 1;
        if user.repeated >= step.repeat {
            (user.repeated, user.step) = (0, target + 1);
        }
        let is_last = compiled.flows.get(usize::from(user.flow)).is_none_or(|steps| user.step >= steps.end);
        self.think(bench, number, step.think, is_last);
    }

    /// Lets a user pause after a response. In an open loop it leaves after its last step.
    fn think(&mut self, bench: &mut Bench, number: u32, think: (Duration, Duration), is_last: bool) {
        if is_last {
            self.end(bench, number, Ended::Completed);
        } else if bench.ending && !self.is_open {
            self.end(bench, number, Ended::Cut);
        }
        let Some(user) = self.all.get_mut(number as usize) else { return };
        let is_over = user.state == UserState::Leaving;
        let pause_ns = match think {
            (_, to) if to.is_zero() => 0,
            (from, to) => bench.values.random.u64(from.as_nanos() as u64..=to.as_nanos() as u64),
        };
        if pause_ns == 0 || (is_over && (self.is_open || bench.is_exhausted())) {
            if !is_over {
                user.state = UserState::Waiting;
            }
            return;
        }
        user.state = UserState::Thinking { is_over };
        self.due.push(Reverse((bench.seat.now_ns.saturating_add(pause_ns), number)));
    }
}

impl Http {
    /// Closed loop: all users begin.
    pub(super) fn begin_users(&mut self, bench: &mut Bench) {
        let count = self.users.as_ref().map_or(0, |users| users.all.len());
        for user in 0..count as u32 {
            self.release_user(bench, user, bench.seat.now_ns);
        }
    }

    /// Open loop: an iteration is due.
    pub(super) fn arrive_user(&mut self, bench: &mut Bench, due_ns: u64) {
        let Some(users) = &mut self.users else { return };
        let flow = users.choice.next();
        if let Some(user) = users.free.pop() {
            return self.begin_iteration(bench, user, flow, due_ns);
        }
        if users.waiting.len() >= WAITING_MAX {
            let first = Users::compiled(&self.setup).and_then(|compiled| compiled.flows.get(usize::from(flow)));
            let tally = bench.tally(first.map_or(0, |steps| steps.start));
            tally.begun += 1;
            return tally.failure(Cause::LineFull, 0);
        }
        users.waiting.push_back((flow, due_ns));
        bench.seat.record.waiting_max = bench.seat.record.waiting_max.max(users.waiting.len() as u64);
    }

    fn begin_iteration(&mut self, bench: &mut Bench, user: u32, flow: u16, due_ns: u64) {
        let Some(users) = &mut self.users else { return };
        if users.begin(bench, user, flow, due_ns) {
            self.start_step(bench, user, due_ns);
        } else if users.is_open {
            // The rows of a data file are used; iterations that wait begin no more.
            users.waiting.clear();
            users.free.push(user);
        }
    }

    /// Gives the current step of a user to its connection, if that is ready.
    fn start_step(&mut self, bench: &mut Bench, user: u32, due_ns: u64) {
        let Some(users) = &mut self.users else { return };
        let Some(of_user) = users.all.get_mut(user as usize) else { return };
        let (target, group) = (of_user.step, self.setup.group_of(of_user.step));
        let Some(at) = users.firsts.get(group).map(|first| first + user) else { return };
        let state = self.connections.get(at as usize).map(|connection| connection.state);
        of_user.state = UserState::Waiting;
        if matches!(state, Some(State::Idle | State::Closed)) {
            of_user.state = UserState::Busy;
            self.assign(bench, at, target, due_ns);
        }
    }

    /// A connection without a request in flight is ready: its user may continue.
    pub(super) fn next_of_user(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        connection.state = if connection.stream.is_some() { State::Idle } else { State::Closed };
        bench.seat.reactor.set_deadline(connection.task, None);
        self.resume_user(bench, at);
    }

    /// Lets the user of a connection do what it waits for, if its connections are ready.
    pub(super) fn resume_user(&mut self, bench: &mut Bench, at: u32) {
        let Some((users, connection)) = self.users.as_ref().zip(self.connections.get(at as usize)) else { return };
        let user = users.of(at, connection.group);
        let is_quiet = |at: usize| {
            self.connections.get(at).is_some_and(|other| matches!(other.state, State::Idle | State::Closed))
        };
        match users.state(user) {
            UserState::Waiting => self.start_step(bench, user, bench.seat.now_ns),
            UserState::Leaving if users.connections(user).all(is_quiet) => {
                self.release_user(bench, user, bench.seat.now_ns);
            }
            _ => {}
        }
    }

    /// Gives a user its next iteration, due at this time in a closed loop.
    fn release_user(&mut self, bench: &mut Bench, user: u32, due_ns: u64) {
        let Some(users) = &mut self.users else { return };
        if let Some(user) = users.all.get_mut(user as usize) {
            user.state = UserState::Free;
        }
        if !users.is_open {
            self.begin_next(bench, user, due_ns);
        } else if let Some((flow, due_ns)) = users.waiting.pop_front() {
            self.begin_iteration(bench, user, flow, due_ns);
        } else {
            users.free.push(user);
        }
    }

    /// Closed loop: begins the next iteration of a user, or lets it wait until it is active.
    fn begin_next(&mut self, bench: &mut Bench, user: u32, due_ns: u64) {
        let Some(users) = &mut self.users else { return };
        let now_ns = bench.seat.now_ns;
        let number = u64::from(user) * users.workers + bench.seat.index as u64;
        let next_ns = self.setup.ramp.as_ref().map_or(Some(now_ns), |ramp| ramp.next_active_ns(number, now_ns));
        if next_ns.is_some_and(|next_ns| next_ns <= now_ns) {
            if bench.may_begin() {
                let flow = users.choice.next();
                self.begin_iteration(bench, user, flow, due_ns);
            }
            return;
        }
        if let (Some(next_ns), Some(of_user)) = (next_ns, users.all.get_mut(user as usize)) {
            of_user.state = UserState::Thinking { is_over: true };
            users.due.push(Reverse((next_ns, user)));
        }
        let connections: Vec<usize> = users.connections(user).collect();
        for at in connections {
            self.close_quiet(bench, at as u32);
        }
    }

    /// When the next think time is over.
    pub(super) fn next_user_ns(&self) -> u64 {
        let first = self.users.as_ref().and_then(|users| users.due.peek());
        first.map_or(NEVER, |Reverse((due_ns, _))| *due_ns)
    }

    /// A think time is over.
    pub(super) fn continue_user(&mut self, bench: &mut Bench) {
        let Some(users) = &mut self.users else { return };
        let Some(Reverse((due_ns, user))) = users.due.pop() else { return };
        let is_quiet = |at: usize| {
            self.connections.get(at).is_some_and(|other| matches!(other.state, State::Idle | State::Closed))
        };
        match users.state(user) {
            UserState::Thinking { is_over: false } => self.start_step(bench, user, due_ns),
            UserState::Thinking { is_over: true } if users.connections(user).all(is_quiet) => {
                self.release_user(bench, user, due_ns);
            }
            UserState::Thinking { is_over: true } => {
                if let Some(user) = users.all.get_mut(user as usize) {
                    user.state = UserState::Leaving;
                }
            }
            _ => {}
        }
    }

    /// Judges the response that a connection has received.
    pub(super) fn end_step(&mut self, bench: &mut Bench, at: u32) {
        let (Some(users), Some(capture)) = (&mut self.users, &mut self.codec.capture) else { return };
        let Some(connection) = self.connections.get(at as usize) else { return };
        let user = users.of(at, connection.group);
        for (status, fields, body) in capture.done.drain(..) {
            let (status, fields, body): (u16, Fields, Vec<u8>) = (status, fields, body);
            let values = Response { status, fields: &fields, body: &[] };
            let body = decode(values.values("content-encoding"), &body, BODY_CHECKED_MAX + 1);
            users.judge(bench, user, &Response { status, fields: &fields, body: &body });
        }
    }

    /// The end of a closed loop: users in a think time stop there.
    pub(super) fn cut_users(&mut self, bench: &mut Bench) {
        let Some(users) = self.users.as_mut().filter(|users| !users.is_open) else { return };
        users.due.clear();
        for user in 0..users.all.len() as u32 {
            match users.state(user) {
                UserState::Thinking { is_over: false } | UserState::Waiting => users.end(bench, user, Ended::Cut),
                UserState::Thinking { is_over: true } => {
                    if let Some(user) = users.all.get_mut(user as usize) {
                        user.state = UserState::Leaving;
                    }
                }
                _ => {}
            }
        }
    }

    /// The end of the run: all iterations are cut. Returns those that waited, with the target of their first step.
    pub(super) fn abandon_users(&mut self, bench: &mut Bench) -> Vec<(u16, u64, bool)> {
        let Some(users) = &mut self.users else { return Vec::new() };
        users.due.clear();
        for user in 0..users.all.len() as u32 {
            if matches!(
                users.state(user),
                UserState::Busy | UserState::Waiting | UserState::Thinking { is_over: false }
            ) {
                users.end(bench, user, Ended::Cut);
            }
        }
        let compiled = Users::compiled(&self.setup);
        let first = |flow: u16| {
            compiled.and_then(|compiled| compiled.flows.get(usize::from(flow))).map_or(0, |steps| steps.start)
        };
        users.waiting.drain(..).map(|(flow, due_ns)| (first(flow), due_ns, false)).collect()
    }
}
