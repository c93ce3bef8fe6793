//! The driver for HTTP/2 connections. Requests use as many streams as fit, and a failed stream does not affect the others.
//! When the target ends a connection, the connection is opened again after its last stream is over.

use super::connection::{Connection, Flight, State};
use super::multiplex::Multiplex;
use super::pool::Http;
use crate::cause::Cause;
use crate::worker::requests::Bench;
use http2::OpenFault;
use std::time::Duration;
use transport::Transport;

impl Http {
    /// Begins HTTP/2 on a connection, unless ALPN has selected another protocol. Returns `false` if it failed.
    pub(super) fn begin_streams(&mut self, bench: &mut Bench, at: u32) -> bool {
        let Some(connection) = self.connections.get_mut(at as usize) else { return false };
        let Some(stream) = &connection.stream else { return false };
        if stream.session(|session| session.alpn() == Some(b"h2")) == Some(false) {
            self.fail(bench, at, Cause::NoHttp2);
            return false;
        }
        let mut out = std::mem::take(&mut self.codec.out);
        out.clear();
        connection.multiplex = Some(Box::new(Multiplex::new(self.setup.grpc, self.setup.upload, &mut out)));
        // If the write fails, a read fails too, after it has returned the data that the target sent before.
        let _ = connection.write(&out);
        self.codec.out = out;
        true
    }

    /// Opens streams for waiting requests of a connection while there is room.
    pub(super) fn send_streams(&mut self, bench: &mut Bench, at: u32) {
        let Self { setup, connections, codec, is_open, .. } = self;
        let Some(connection) = connections.get_mut(at as usize) else { return };
        let Connection { multiplex: Some(multiplex), flights, state, .. } = connection else { return };
        *state = State::Busy;
        let now_ns = bench.seat.now_ns.max(1);
        let limit = multiplex.limit(setup.streams.unwrap_or(1));
        let mut out = std::mem::take(&mut codec.out);
        out.clear();
        while multiplex.calls() < limit {
            let Some(waiting) = flights.pop_front() else { break };
            // In a closed loop a request begins when it can be sent.
            let due_ns = if *is_open { waiting.due_ns } else { now_ns };
            let flight = Flight { sent_ns: now_ns, due_ns, ..waiting };
            let Some(request) = setup.request(flight.target).streamed() else { break };
            match multiplex.open(flight, request, bench, codec, &mut out) {
                Ok(bytes) => {
                    self.under_way += 1;
                    bench.count_up();
                    let tally = bench.tally(flight.target);
                    tally.begun += 1;
                    tally.bytes_sent += bytes;
                }
                Err(OpenFault::Head(fault)) => {
                    bench.failure = Some(format!("a request cannot be sent over HTTP/2: {fault}"));
                    break;
                }
                Err(OpenFault::TooMany | OpenFault::Going) => {
                    flights.push_front(waiting);
                    break;
                }
            }
        }
        multiplex.pump(bench, &mut out);
        if multiplex.has_more() {
            bench.seat.reactor.wake(connection.task);
        }
        let _ = connection.write(&out);
        codec.out = out;
        self.arm(bench, at);
    }

    /// Sets the deadline of a connection, for its oldest call or the next piece of a body. An earlier one stays, and checks
    /// again when it fires.
    fn arm(&mut self, bench: &Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        let Some(multiplex) = &mut connection.multiplex else { return };
        let piece_due_ns = multiplex.piece_due_ns().unwrap_or(u64::MAX);
        if multiplex.armed_ns.is_some_and(|armed_ns| armed_ns <= piece_due_ns) {
            return;
        }
        let oldest_ns = multiplex.oldest_ns();
        // Requests that wait for the target's settings have the same timeout as a response.
        let since_ns = oldest_ns.unwrap_or(bench.seat.now_ns);
        let timeout_ns = since_ns.saturating_add(self.setup.response_timeout.as_nanos() as u64);
        let deadline_ns = timeout_ns.min(piece_due_ns);
        multiplex.armed_ns = oldest_ns.is_some().then_some(deadline_ns);
        let left = Duration::from_nanos(deadline_ns.saturating_sub(bench.seat.now_ns));
        bench.seat.reactor.set_deadline(connection.task, Some(bench.seat.reactor.now().after(left)));
    }

    /// The socket is readable or writable, or the deadline has fired.
    pub(super) fn exchange_streams(&mut self, bench: &mut Bench, at: u32, fired: bool) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        if connection.is_sending() && connection.flush().is_err() {
            // Data that the target sent before its reset tells more than the failed write; it is read below.
        }
        let mut progress = connection.read(&mut self.codec, bench);
        let ended = progress.completed + progress.unprocessed.len();
        self.under_way = self.under_way.saturating_sub(ended);
        self.send_again(bench, at, std::mem::take(&mut progress.unprocessed));
        if let Some(cause) = progress.fault {
            return self.fail(bench, at, cause);
        }
        if fired {
            self.expire(bench, at);
        }
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        let is_empty = connection.multiplex.as_ref().is_none_or(|multiplex| multiplex.calls() == 0);
        let gone = is_empty && connection.stream.as_ref().is_some_and(Transport::is_peer_closed);
        if progress.last || progress.closed || gone {
            return self.end_streams(bench, at, progress.closed);
        }
        if connection.multiplex.as_ref().is_some_and(|multiplex| multiplex.is_going()) {
            return self.take_off_list(at);
        }
        if progress.completed > 0 && is_empty { self.think(bench, at) } else { self.next(bench, at) }
    }

    /// Fails the calls that have timed out. The connection and its other streams continue.
    fn expire(&mut self, bench: &mut Bench, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        let Some(multiplex) = &mut connection.multiplex else { return };
        bench.seat.look_at_clock();
        let now_ns = bench.seat.now_ns;
        let before_ns = now_ns.saturating_sub(self.setup.response_timeout.as_nanos() as u64);
        let mut out = std::mem::take(&mut self.codec.out);
        out.clear();
        let expired = multiplex.expire(before_ns, &mut out);
        multiplex.armed_ns = None;
        // Which calls wait for a window has changed.
        multiplex.pump(bench, &mut out);
        let _ = connection.write(&out);
        self.codec.out = out;
        self.under_way = self.under_way.saturating_sub(expired.len());
        for (flight, cause) in expired {
            bench.tally(flight.target).failure(cause, now_ns.saturating_sub(flight.due_ns));
        }
        self.arm(bench, at);
    }

    /// Handles requests that the target did not process. In an open loop they go back to the line; in a closed loop they do
    /// not count.
    fn send_again(&mut self, bench: &mut Bench, at: u32, flights: Vec<Flight>) {
        let Some(connection) = self.connections.get(at as usize) else { return };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
        for flight in flights {
            if self.is_open {
                bench.unsend(flight.target);
                group.waiting.push_front((flight.target, flight.due_ns));
                self.under_way += 1;
            } else {
                bench.take_back(flight.target);
            }
        }
    }

    /// The target has ended the connection, and its last stream is over.
    pub(super) fn end_streams(&mut self, bench: &mut Bench, at: u32, closed: bool) {
        self.take_off_list(at);
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
        for flight in connection.flights.drain(..).rev() {
            if self.is_open {
                group.waiting.push_front((flight.target, flight.due_ns));
                self.under_way += 1;
            } else {
                bench.give_back();
            }
        }
        self.end_connection(bench, at, closed);
    }

    /// Removes a connection from the list of those with room, until it is opened again.
    fn take_off_list(&mut self, at: u32) {
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        if std::mem::replace(&mut connection.is_listed, false)
            && let Some(group) = self.groups.get_mut(usize::from(connection.group))
        {
            group.free.retain(|free| *free != at);
        }
    }

    /// Puts a connection back on the list if it has room. It was taken off the top for a request.
    pub(super) fn list_again(&mut self, at: u32) {
        let Some(wanted) = self.setup.streams else { return };
        let Some(connection) = self.connections.get_mut(at as usize) else { return };
        connection.is_listed = connection.room(wanted) > 0;
        if connection.is_listed
            && let Some(group) = self.groups.get_mut(usize::from(connection.group))
        {
            group.free.push(at);
        }
    }

    /// Decides what a connection does next after its streams have changed.
    pub(super) fn next_of_streams(&mut self, bench: &mut Bench, at: u32) {
        let Self { setup, connections, groups, is_open, .. } = self;
        let wanted = setup.streams.unwrap_or(1);
        let Some(connection) = connections.get_mut(at as usize) else { return };
        let Some(group) = groups.get_mut(usize::from(connection.group)) else { return };
        if *is_open {
            while connection.room(wanted) > 0
                && let Some((target, due_ns)) = group.waiting.pop_front()
            {
                self.under_way = self.under_way.saturating_sub(1);
                let kind = setup.request(target).kind;
                connection.flights.push_back(Flight::new(target, kind, due_ns));
            }
        } else if bench.ending {
            // Requests without a stream are no longer begun.
            connection.flights.clear();
        } else {
            while connection.in_flight() < wanted && bench.may_begin() {
                let target = group.choice.next();
                let kind = setup.request(target).kind;
                connection.flights.push_back(Flight::new(target, kind, bench.seat.now_ns));
            }
        }
        let has_stream = connection.stream.is_some();
        if connection.flights.is_empty() {
            if connection.in_flight() == 0 {
                connection.state = if has_stream { State::Idle } else { State::Closed };
                bench.seat.reactor.set_deadline(connection.task, None);
                if let Some(multiplex) = &mut connection.multiplex {
                    multiplex.armed_ns = None;
                }
            }
        } else if has_stream {
            self.send_streams(bench, at);
        } else {
            self.open(bench, at);
        }
        let Some(connection) = self.connections.get(at as usize) else { return };
        if self.is_open && !connection.is_listed {
            self.list_again(at);
        }
    }

    /// Number of requests that wait for a stream on their connection.
    pub(super) fn wait_for_streams(&self) -> usize {
        self.connections.iter().map(|connection| connection.flights.len()).sum()
    }
}
