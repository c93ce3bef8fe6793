//! The connections of one worker, and which request uses which of them. In a closed loop each connection is a user. In an
//! open loop a request takes a free connection, opens one, or waits in line. Over HTTP/2 each stream takes the part of a
//! connection; `streams` has the differences. In a load over TCP messages take the part of requests. `worker` calls this through [`Driver`].

use super::connection::{Connection, Flight, State};
use super::response::{Capture, Codec};
use super::uploads::{begin_upload, send_pieces};
use super::users::Users;
use crate::cause::Cause;
use crate::choice::Choice;
use crate::options::Options;
use crate::script::{BODY_BYTES_MAX, WorkerScript};
use crate::setup::Setup;
use crate::worker::requests::Bench;
use crate::worker::requests::Driver;
use reactor::{PeerAddress, TaskId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use transport::{HandshakeProgress, Transport};

/// Pause in a closed loop after a connection without a response, so that no connection tries a refusing target thousands of
/// times a second.
const FAULT_PAUSE_CLOSED: Duration = Duration::from_millis(10);
/// The same in an open loop, where the rate limits the attempts already; the pause only prevents spinning.
const FAULT_PAUSE_OPEN: Duration = Duration::from_millis(1);
/// How long the target has to close a connection that either side announced as ending. The side that closes first keeps the
/// port in `TIME_WAIT` for a minute, so the server should be that side.
const LINGER: Duration = Duration::from_millis(500);
/// Requests that may wait for a connection in one worker: a minute at 16,000 a second, 24 MB.
pub(super) const WAITING_MAX: usize = 1_000_000;

/// The connections to one address.
#[derive(Debug)]
pub(super) struct AddressPool {
    /// Closed loop: selects among the targets at this address.
    pub(super) choice: Choice,
    /// Idle connections, with or without a socket; the one used last is on top. Over HTTP/2, connections with room for a
    /// stream.
    pub(super) free: Vec<u32>,
    /// Waiting requests: target and due time.
    pub(super) waiting: VecDeque<(u16, u64)>,
}

/// The driver for HTTP.
#[derive(Debug)]
pub(crate) struct Http {
    pub(super) setup: Arc<Setup>,
    choice: Choice,
    pub(super) groups: Vec<AddressPool>,
    /// Indexed by task.
    pub(super) connections: Vec<Connection>,
    pub(super) codec: Codec,
    /// Buffer for rendered requests.
    out: Vec<u8>,
    body: Vec<u8>,
    /// Number of requests in flight or in line.
    pub(super) under_way: usize,
    pub(super) is_open: bool,
    pub(super) think: Option<(Duration, Duration)>,
    pub(super) script: Option<WorkerScript>,
    /// The users of a scenario, if there is one.
    pub(super) users: Option<Box<Users>>,
    /// The address that the script has chosen.
    script_address: Option<PeerAddress>,
    /// Requests in flight per connection in a closed loop.
    depth: usize,
    /// The number of this worker, and the number of all workers.
    pub(super) index: usize,
    pub(super) workers: usize,
}

impl Http {
    /// Takes this worker's share of the connections of each group.
    pub(crate) fn new(setup: Arc<Setup>, options: &Options, script: Option<WorkerScript>, bench: &Bench) -> Self {
        let (index, workers) = (bench.seat.index, bench.seat.workers);
        let mut connections = Vec::new();
        let mut groups = Vec::new();
        for (number, group) in setup.groups.iter().enumerate() {
            let share = group.connections / workers + usize::from(index < group.connections % workers);
            let first = connections.len();
            connections.extend((0..share).map(|_| Connection::new(bench.seat.reactor.create_task(), number as u16)));
            let targets = options.targets.iter().enumerate().filter(|(at, _)| setup.group_of(*at as u16) == number);
            let choice = Choice::new(targets.map(|(at, target)| (at as u16, target.weight)));
            // The first connection is used first.
            let free = (first..connections.len()).rev().map(|at| at as u32).collect();
            groups.push(AddressPool { choice, free, waiting: VecDeque::new() });
        }
        let choice = Choice::new(options.targets.iter().enumerate().map(|(at, target)| (at as u16, target.weight)));
        let is_open = options.pace.is_open();
        let mut codec = Codec::new();
        codec.messages.clone_from(&setup.messages);
        let is_captured = setup.scenario.is_some() || script.as_ref().is_some_and(WorkerScript::wants_responses);
        codec.capture = is_captured.then(|| Capture::new(BODY_BYTES_MAX));
        let depth = script.as_ref().map_or(setup.pipeline, WorkerScript::requests);
        let script_address = script.as_ref().and_then(|script| script.address).map(PeerAddress::from);
        Self {
            users: Users::new(&setup, &connections, is_open, bench),
            setup,
            choice,
            groups,
            connections,
            codec,
            out: Vec::new(),
            body: Vec::new(),
            under_way: 0,
            is_open,
            think: options.pace.think(),
            script,
            script_address,
            depth,
            index,
            workers,
        }
    }

    /// Counts a request as begun and assigns it to a connection.
    pub(super) fn assign(&mut self, bench: &mut Bench, at: u32, target: u16, due_ns: u64) {
        let kind = self.setup.request(target).kind;
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        connection.flights.push_back(Flight::new(target, kind, due_ns));
        if matches!(connection.state, State::Connecting | State::Securing) {
            // Over HTTP/2 more requests may be assigned while the connection is being opened.
        } else if connection.stream.is_some() {
            self.send(bench, at);
        } else {
            self.open(bench, at);
        }
    }

    pub(super) fn open(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        bench.seat.record.opened += 1;
        connection.opened_ns = bench.seat.now_ns;
        // Consecutive connections across all workers use every source address once before one repeats.
        let number = at as usize * self.workers + self.index;
        let Some((address, connect)) = self.setup.way(connection.group, number) else { return };
        let address = self.script_address.as_ref().unwrap_or(address);
        match bench.seat.reactor.connect(address, connect, connection.task) {
            Ok(stream) => {
                let done = stream.is_writable();
                connection.open(self.setup.transport(connection.group, stream));
                connection.state = State::Connecting;
                let deadline = bench.seat.reactor.now().after(self.setup.connect_timeout);
                bench.seat.reactor.set_deadline(connection.task, Some(deadline));
                if done {
                    self.connected(bench, at);
                }
            }
            Err(error) => self.fail(bench, at, Cause::of_connect(&error)),
        }
    }

    /// Checks the result of `connect`, once there is one.
    fn connected(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        let Some(stream) = &connection.stream else { return };
        let outcome = stream.take_error();
        bench.seat.look_at_clock();
        match outcome {
            Ok(None) => {
                bench.seat.record.established += 1;
                bench.seat.record.connect.record(bench.seat.now_ns.saturating_sub(connection.opened_ns));
                self.secure(bench, at);
            }
            Ok(Some(error)) | Err(error) => self.fail(bench, at, Cause::of_connect(&error)),
        }
    }

    /// Continues the TLS handshake, if there is one, and then sends the requests.
    fn secure(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        let Some(stream) = &connection.stream else { return };
        if connection.state == State::Connecting && stream.is_secure() {
            (connection.state, connection.opened_ns) = (State::Securing, bench.seat.now_ns);
            let deadline = bench.seat.reactor.now().after(self.setup.connect_timeout);
            bench.seat.reactor.set_deadline(connection.task, Some(deadline));
        }
        match stream.handshake() {
            Ok(HandshakeProgress::Waiting) => return,
            Ok(HandshakeProgress::Done) => {}
            Err(error) => {
                let cause = bench.seat.record.tls.get_or_insert_default().fail(&error);
                return self.fail(bench, at, cause);
            }
        }
        if stream.is_secure() {
            bench.seat.look_at_clock();
            let time_ns = bench.seat.now_ns.saturating_sub(connection.opened_ns);
            let handshakes = bench.seat.record.tls.get_or_insert_default();
            stream.session(|session| handshakes.complete(session, time_ns));
        }
        if self.setup.handshakes_only {
            return self.count_handshake(bench, at);
        }
        connection.look_for_greeting(bench);
        // A kept connection is opened before the load begins, so its first request counts from the time it can be sent.
        if !self.is_open && self.setup.keepalive {
            let now_ns = bench.seat.now_ns;
            connection.flights.iter_mut().for_each(|flight| flight.due_ns = now_ns);
        }
        if self.setup.streams.is_some() && !self.begin_streams(bench, at) {
            return;
        }
        self.send(bench, at);
    }

    /// Counts a load of handshakes only. The target's session tickets and its close are still awaited.
    fn count_handshake(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        let now_ns = bench.seat.now_ns;
        for flight in connection.flights.drain(..) {
            bench.count_up();
            bench.completed(now_ns.saturating_sub(flight.due_ns));
            let tally = bench.tally(flight.target);
            tally.begun += 1;
            tally.handshake(now_ns.saturating_sub(flight.due_ns));
        }
        // The next read reports a reset.
        let _ = connection.stream.as_ref().map(Transport::shutdown_write);
        connection.state = State::Lingering;
        bench.seat.reactor.set_deadline(connection.task, Some(bench.seat.reactor.now().after(LINGER)));
    }

    /// Writes all requests of a connection that are not written yet.
    fn send(&mut self, bench: &mut Bench, at: u32) {
        if self.setup.streams.is_some() {
            return self.send_streams(bench, at);
        }
        let Self { setup, connections, out, body, script, depth, users, .. } = self;
        let Some(connection) = connections.get_mut(at as usize) else { return };
        connection.state = State::Busy;
        let now_ns = bench.seat.now_ns;
        let new = connection.flights.iter().rev().take_while(|flight| flight.sent_ns == 0).count();
        let first_new = connection.flights.len() - new;
        let same = match connection.flights.get(first_new) {
            Some(flight) if new == 1 && script.is_none() && users.is_none() => setup.request(flight.target).same(),
            _ => None,
        };
        out.clear();
        for (number, flight) in connection.flights.iter_mut().skip(first_new).enumerate() {
            // 0 means "not yet"; one nanosecond is below the resolution of all figures.
            flight.sent_ns = now_ns.max(1);
            let before = out.len();
            if let Some(script) = script {
                // One string of a script contains `depth` requests.
                if number % *depth == 0 {
                    script.encode(out);
                    bench.failure = script.failure.take().map(|failure| failure.to_string());
                }
            } else if let Some(users) = users {
                let user = users.of(at, connection.group);
                users.encode((user, flight.target, now_ns), &mut bench.values, body, out);
            } else if let Some(messages) = &setup.messages {
                flight.number = bench.values.counter as u32;
                out.extend_from_slice(messages.of(flight.number));
            } else if same.is_none() {
                setup.request(flight.target).encode(&mut bench.values, body, out);
            }
            bench.count_up();
            let tally = bench.tally(flight.target);
            tally.begun += 1;
            tally.bytes_sent += same.map_or(out.len() - before, |same| same.len()) as u64;
        }
        self.under_way += new;
        let bytes = same.map_or(out.as_slice(), |same| same);
        let written = connection.write(bytes);
        begin_upload(setup, connection, bench);
        let deadline = bench.seat.reactor.now().after(setup.response_timeout);
        bench.seat.reactor.set_deadline(connection.task, Some(deadline));
        if self.setup.messages.as_ref().is_some_and(|messages| messages.are_unanswered()) {
            // Complete as soon as the socket has taken all of it, which no event reports.
            bench.seat.reactor.wake(connection.task);
        }
        if written.is_err() {
            let cause = if connection.served > 0 { Cause::KeepaliveRace } else { Cause::ResetUnanswered };
            self.fail(bench, at, cause);
        }
    }

    /// Closes a connection and fails all its requests in flight.
    pub(super) fn fail(&mut self, bench: &mut Bench, at: u32, cause: Cause) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        bench.seat.look_at_clock();
        let flights = connection.drain_flights(bench);
        if let Some(users) = self.users.as_mut().filter(|_| !flights.is_empty()) {
            users.fail(bench, users.of(at, connection.group));
        }
        for flight in flights {
            let latency_ns = bench.seat.now_ns.saturating_sub(flight.due_ns);
            let tally = bench.tally(flight.target);
            if flight.sent_ns == 0 {
                tally.begun += 1;
            } else {
                self.under_way = self.under_way.saturating_sub(1);
            }
            tally.failure(cause, latency_ns);
        }
        let pause = match (connection.served, self.is_open) {
            (0, true) => FAULT_PAUSE_OPEN,
            (0, false) => FAULT_PAUSE_CLOSED,
            // At the next tick, so that the functions that call this one do not call each other recursively.
            _ => Duration::from_millis(1),
        };
        connection.close();
        self.rest(bench, at, pause);
    }

    pub(super) fn rest(&mut self, bench: &Bench, at: u32, pause: Duration) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        connection.state = State::Resting;
        bench.seat.reactor.set_deadline(connection.task, Some(bench.seat.reactor.now().after(pause)));
    }

    /// Decides what a connection without requests in flight does next.
    pub(super) fn next(&mut self, bench: &mut Bench, at: u32) {
        if self.users.is_some() {
            self.next_of_user(bench, at);
        } else if self.setup.streams.is_some() {
            self.next_of_streams(bench, at);
        } else if self.waits_for_ramp(bench, at) {
            // It continues when it is active again.
        } else if self.is_open {
            self.next_in_line(bench, at);
        } else {
            self.next_of_loop(bench, at);
        }
    }

    fn next_in_line(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
        if let Some((target, due_ns)) = group.waiting.pop_front() {
            self.under_way = self.under_way.saturating_sub(1);
            return self.assign(bench, at, target, due_ns);
        }
        connection.state = if connection.stream.is_some() { State::Idle } else { State::Closed };
        bench.seat.reactor.set_deadline(connection.task, None);
        group.free.push(at);
    }

    /// Fills the connection up to the depth of the pipeline.
    fn next_of_loop(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
        // A script's string is sent as a whole, once the previous one is completely answered.
        let full = self.script.is_some() && !connection.flights.is_empty();
        while !full && connection.flights.len() < self.depth && bench.may_begin() {
            let target = group.choice.next();
            let kind = self.setup.request(target).kind;
            connection.flights.push_back(Flight::new(target, kind, bench.seat.now_ns));
        }
        if connection.flights.back().is_some_and(|flight| flight.sent_ns == 0) {
            if connection.stream.is_some() {
                self.send(bench, at);
            } else {
                self.open(bench, at);
            }
        } else if connection.flights.is_empty() {
            connection.state = if connection.stream.is_some() { State::Idle } else { State::Closed };
            bench.seat.reactor.set_deadline(connection.task, None);
        }
    }

    /// The socket is readable or writable.
    fn exchange(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        if connection.is_sending() && connection.flush().is_err() {
            // Data that the target sent before its reset tells more than the failed write; it is read below.
        }
        let piece_due_ns = send_pieces(connection, bench, &mut self.body);
        let sent = connection.complete_unanswered(self.setup.messages.as_deref(), bench);
        if let (Some(users), Some(capture)) = (&self.users, &mut self.codec.capture) {
            capture.body_bytes_max = connection.flights.front().map_or(0, |flight| users.body_bytes_max(flight.target));
        }
        let mut progress = connection.read(&mut self.codec, bench);
        progress.completed += sent;
        progress.last |= sent > 0 && !self.setup.keepalive;
        self.under_way = self.under_way.saturating_sub(progress.completed);
        self.end_step(bench, at);
        self.show_responses(bench);
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        if let Some(cause) = progress.fault {
            if connection.flights.is_empty() && cause == Cause::Unasked {
                bench.seat.record.targets.iter_mut().take(1).for_each(|tally| tally.failure(cause, 0));
            }
            return self.fail(bench, at, cause);
        }
        if progress.completed == 0 {
            return self.check_deadline(bench, at, piece_due_ns);
        }
        // Without the rest of its body the next request would be part of this one.
        progress.last |= connection.end_upload();
        // The target's FIN came with the response, so another request would fail.
        let gone = connection.flights.is_empty() && connection.stream.as_ref().is_some_and(Transport::is_peer_closed);
        if progress.last || progress.closed || gone {
            return self.end_connection(bench, at, progress.closed);
        }
        if connection.flights.is_empty()
            && let Some(pause) = self.script_pause(bench)
        {
            return self.rest(bench, at, pause);
        }
        self.think(bench, at);
    }

    /// Pauses after a response in a closed loop, if a think time is set.
    pub(super) fn think(&mut self, bench: &mut Bench, at: u32) {
        match self.think {
            Some(think) if !bench.is_exhausted() => {
                let (from, to) = (think.0.as_micros() as u64, think.1.as_micros() as u64);
                let pause = Duration::from_micros(bench.values.random.u64(from..=to));
                self.rest(bench, at, pause);
            }
            _ => self.next(bench, at),
        }
    }

    /// Handles the last response of a connection.
    pub(super) fn end_connection(&mut self, bench: &mut Bench, at: u32, closed: bool) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        // The target does not answer requests sent after the last one of a connection.
        for flight in connection.flights.drain(..) {
            self.under_way = self.under_way.saturating_sub(1);
            bench.take_back(flight.target);
        }
        if !closed && !connection.stream.as_ref().is_some_and(Transport::is_peer_closed) {
            if self.setup.messages.is_some() {
                // The target cannot know that this was the last message. The next read reports a reset.
                let _ = connection.stream.as_ref().map(Transport::shutdown_write);
            }
            connection.state = State::Lingering;
            bench.seat.reactor.set_deadline(connection.task, Some(bench.seat.reactor.now().after(LINGER)));
            // The user may continue at another address.
            return self.resume_user(bench, at);
        }
        bench.seat.record.closed_by_target += 1;
        connection.close();
        self.next(bench, at);
    }

    /// An idle or lingering connection has become readable, or its deadline has fired.
    fn look_at_quiet(&mut self, bench: &mut Bench, at: u32, fired: bool) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        let state = connection.state;
        let progress = connection.read(&mut self.codec, bench);
        let ended = progress.closed || progress.fault.is_some();
        // Over HTTP/2 the target has sent GOAWAY.
        let last = progress.last && self.setup.streams.is_some() && !ended;
        if progress.fault == Some(Cause::Unasked) && state == State::Idle {
            bench.seat.record.targets.iter_mut().take(1).for_each(|tally| tally.failure(Cause::Unasked, 0));
        }
        match state {
            State::Idle if ended => {
                bench.seat.record.closed_by_target += 1;
                connection.close();
            }
            State::Idle if last => self.end_streams(bench, at, false),
            State::Resting if last => {
                bench.seat.record.closed_by_load += 1;
                connection.close();
                connection.state = State::Resting;
            }
            State::Lingering if ended || fired => {
                // In a load over TCP, this side has sent its FIN first.
                if ended && self.setup.messages.is_none() {
                    bench.seat.record.closed_by_target += 1;
                } else {
                    bench.seat.record.closed_by_load += 1;
                }
                connection.close();
                bench.seat.look_at_clock();
                self.next(bench, at);
            }
            State::Resting if ended => {
                bench.seat.record.closed_by_target += 1;
                connection.close();
                connection.state = State::Resting;
            }
            _ => {}
        }
    }
}

impl Driver for Http {
    /// Messages without a reply follow each other as long as the sockets take them.
    fn yields_to_next_turn(&self) -> bool {
        self.setup.messages.as_ref().is_some_and(|messages| messages.are_unanswered())
    }

    fn begin(&mut self, bench: &mut Bench) {
        if self.is_open {
            return;
        }
        if self.users.is_some() {
            return self.begin_users(bench);
        }
        for at in 0..self.connections.len() as u32 {
            self.next(bench, at);
        }
    }

    fn arrive(&mut self, bench: &mut Bench, due_ns: u64) {
        if self.users.is_some() {
            return self.arrive_user(bench, due_ns);
        }
        let target = self.choice.next();
        let Some(group) = self.groups.get_mut(self.setup.group_of(target)) else { return };
        if let Some(at) = group.free.pop() {
            self.assign(bench, at, target, due_ns);
            return self.list_again(at);
        }
        if group.waiting.len() >= WAITING_MAX {
            let tally = bench.tally(target);
            tally.begun += 1;
            return tally.failure(Cause::LineFull, 0);
        }
        group.waiting.push_back((target, due_ns));
        self.under_way += 1;
        bench.seat.record.waiting_max = bench.seat.record.waiting_max.max(group.waiting.len() as u64);
    }

    fn ready(&mut self, bench: &mut Bench, task: TaskId) {
        let at = task.index;
        let fired = bench.seat.reactor.take_deadline_fired(task);
        let Some(connection) = self.connections.get(at as usize) else { return };
        match connection.state {
            State::Closed => {}
            State::Busy if self.setup.streams.is_some() => self.exchange_streams(bench, at, fired),
            State::Busy => self.exchange(bench, at),
            State::Connecting => match &connection.stream {
                Some(stream) if stream.is_writable() || stream.is_failed() => self.connected(bench, at),
                _ if fired => self.fail(bench, at, Cause::ConnectTimeout),
                _ => {}
            },
            State::Securing if fired => self.fail(bench, at, Cause::TlsStalled),
            State::Securing => self.secure(bench, at),
            State::Resting if fired => {
                bench.seat.look_at_clock();
                self.next(bench, at);
            }
            State::Idle | State::Lingering | State::Resting => self.look_at_quiet(bench, at, fired),
        }
    }

    fn under_way(&self) -> usize {
        let connecting = |connection: &&Connection| matches!(connection.state, State::Connecting | State::Securing);
        let connecting = self.connections.iter().filter(connecting).count();
        let for_streams = if self.setup.streams.is_some() { self.wait_for_streams() } else { 0 };
        self.under_way + connecting + for_streams + self.users.as_ref().map_or(0, |users| users.under_way())
    }

    fn next_user_ns(&self) -> u64 {
        Self::next_user_ns(self)
    }

    fn continue_user(&mut self, bench: &mut Bench) {
        Self::continue_user(self, bench);
    }

    fn wind_up(&mut self, bench: &mut Bench) {
        self.cut_users(bench);
    }

    fn end(&mut self, bench: &mut Bench) {
        bench.seat.record.server = self.codec.server.take();
    }

    fn abandon(&mut self, bench: &mut Bench, cause: Option<Cause>) {
        bench.seat.look_at_clock();
        let lines = self.groups.iter_mut().flat_map(|group| group.waiting.drain(..));
        let mut all: Vec<(u16, u64, bool)> = lines.map(|(target, due_ns)| (target, due_ns, false)).collect();
        all.extend(self.abandon_users(bench));
        for connection in &mut self.connections {
            let flights = connection.drain_flights(bench).into_iter();
            all.extend(flights.map(|flight| (flight.target, flight.due_ns, flight.sent_ns > 0)));
            connection.close();
        }
        for (target, due_ns, sent) in all {
            let latency_ns = bench.seat.now_ns.saturating_sub(due_ns);
            let tally = bench.tally(target);
            tally.begun += u64::from(!sent);
            match cause {
                Some(cause) => tally.failure(cause, latency_ns),
                None => bench.seat.record.cut_off += 1,
            }
        }
        self.under_way = 0;
    }
}
