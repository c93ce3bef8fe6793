//! Relays the response body from the upstream to the client: bounded, with back-pressure, re-framed. The proxy calls it
//! once the response head is sent.

use crate::base::close::CloseReason;
use crate::base::fault::Fault;
use crate::base::memory::FLOOR_BYTES;
use crate::base::read_size::ReadSize;
use crate::base::stall_timeout::StallTimeout;
use crate::content::proxy::behind::CaughtUp;
use crate::downstream::Downstream;
use crate::downstream::reply_head::HeadView;
use crate::exchange::Exchange;
use crate::exchange::caching::Storing;
use crate::exchange::saving::Saving;
use crate::exchange::subrequest::LOOK_AGAIN;
use crate::exchange::waiting::Wants;
use crate::filter::chain::Chain;
use crate::filter::compress::GZIP_TURN_BYTES;
use crate::upstream::outgoing_body::OutgoingBody;
use crate::upstream::response_body::{CodingError, ResponseBody, Source};
use crate::upstream::sending::Sending;
use crate::upstream::side::UpstreamSide;
use reactor::{Interest, Millis, Read, SCRATCH_BYTES, Woken};
use rules::pace::Pace;
use std::time::Duration;

/// Reads before other tasks get their turn: 1 MB at full scratch size.
pub(crate) const READS_MAX: u32 = 4;

/// A response body being relayed.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) body: ResponseBody,
    /// The client does not want this body, and not all of it has come.
    pub(crate) unread: bool,
    /// `proxy_limit_rate`
    pub(crate) pace: Option<Pace>,
    /// Bytes of the body that came with the head.
    pub(crate) preread: u64,
    /// `proxy_cache`: the file in which the body is also stored.
    pub(crate) store: Option<Box<Storing>>,
    /// `proxy_store`: the file in which the body is also saved.
    pub(crate) saving: Option<Box<Saving>>,
    /// The client gets none of the body: it wants none, or has left. The body is received for a file alone.
    pub(crate) muted: bool,
    /// The client has left, and storing goes on.
    pub(crate) gone: Option<CloseReason>,
    /// The client is slower than the requests that wait for the stored response: from this offset on it gets the body
    /// out of the cache's file.
    pub(crate) behind: Option<u64>,
}

/// How a relay ended.
#[derive(Debug)]
pub(crate) enum RelayEnd {
    /// The client's side has everything.
    Complete,
    /// The upstream broke off, or its coding is invalid.
    UpstreamBroken(String),
    /// `proxy_read_timeout`.
    UpstreamTimeout,
    /// The client is gone.
    ClientGone(CloseReason),
}

/// Why bytes cannot be relayed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FeedError {
    Coding(CodingError),
    Client,
}

impl Relay {
    pub(crate) fn new(body: ResponseBody) -> Self {
        Self {
            body,
            unread: false,
            preread: 0,
            pace: None,
            store: None,
            saving: None,
            muted: false,
            gone: None,
            behind: None,
        }
    }

    /// Passes on received bytes; `head` goes before them. Nothing is sent if the coding is invalid from the start.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        head: Option<HeadView<'_>>,
        filters: &mut Chain,
        down: &mut Downstream,
    ) -> Result<(), FeedError> {
        let (body, last) = self.body.take(bytes).map_err(FeedError::Coding)?;
        if let Some(store) = &mut self.store {
            store.push(body);
        }
        if let Some(saving) = &mut self.saving {
            saving.push(body);
        }
        let sent = match head {
            Some(head) if self.muted => filters.send_head(down, head, &[], true),
            None if self.muted => Ok(()),
            Some(head) => filters.send_head(down, head, body, last),
            None if body.is_empty() && !last => Ok(()),
            None => filters.send_body(down, body, last),
        };
        sent.map_err(|_| FeedError::Client)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let stored = self.store.as_ref().map_or(0, |store| store.held_bytes());
        let saved = self.saving.as_ref().map_or(0, |saving| saving.held_bytes());
        self.body.held_bytes() + stored + saved
    }

    /// Whether the body also goes into a file, so all of it is received.
    pub(crate) fn is_kept(&self) -> bool {
        self.store.is_some() || self.saving.is_some()
    }

    /// Whether a piece for the file should be written now.
    fn is_write_due(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_due())
            || self.saving.as_ref().is_some_and(|saving| saving.is_due())
    }

    /// Replaces a wait if other requests wait for the stored data, or the client accepts more of it.
    fn for_readers(&mut self, step: RelayStep, takes_more: bool) -> RelayStep {
        let waits = matches!(
            step,
            RelayStep::UpstreamEmpty | RelayStep::BothWaiting | RelayStep::ClientFull | RelayStep::Paced(_)
        );
        match self.store.as_ref().filter(|store| waits && store.is_awaited()) {
            Some(store) if store.has_pending() => RelayStep::Store,
            Some(_) if self.behind.is_none() && matches!(step, RelayStep::BothWaiting | RelayStep::ClientFull) => {
                self.fall_behind();
                RelayStep::Yield
            }
            _ if waits && takes_more => RelayStep::Yield,
            _ => step,
        }
    }

    /// From now on the client gets the body out of the cache's file, and the upstream is read as fast as it sends.
    fn fall_behind(&mut self) {
        if let Some(store) = &self.store {
            self.behind = Some(store.taken());
            self.muted = true;
        }
    }

    /// The upstream closed: whether that is the end of the body.
    fn close(&mut self, filters: &mut Chain, down: &mut Downstream) -> Result<bool, FeedError> {
        let ends = self.body.close();
        if ends && !self.muted {
            filters.send_body(down, &[], true).map_err(|_| FeedError::Client)?;
        }
        Ok(ends)
    }
}

/// The result of a relay step.
enum RelayStep {
    End(RelayEnd),
    /// The client does not accept the waiting bytes, and no more may be held for it.
    ClientFull,
    /// The same, and the upstream has sent nothing either.
    BothWaiting,
    /// The upstream has sent nothing more.
    UpstreamEmpty,
    /// Write the received data to its file.
    Store,
    /// Let other tasks run.
    Yield,
    /// The pace, or those that read along, permit no read for this long.
    Paced(Duration),
}

/// Timeouts and limits of a relay.
pub(crate) struct RelayPlan {
    pub(crate) buffer_bytes: usize,
    pub(crate) read_timeout: Duration,
    pub(crate) send_timeout: Duration,
}

/// A request body that is still being sent while its response arrives: HTTP/2 allows both at once.
pub(crate) struct Upload<'a> {
    pub(crate) sending: &'a mut Sending,
    pub(crate) body: &'a OutgoingBody,
}

impl Upload<'_> {
    /// Whether more of the request can be sent.
    fn goes_on(&self, up: &UpstreamSide) -> bool {
        up.sends_both_ways() && !self.sending.is_over()
    }

    /// Whether the client must send before the upload can go on.
    fn awaits_client(&self, up: &UpstreamSide) -> bool {
        self.goes_on(up) && self.body.is_streamed() && !self.sending.complete && self.sending.unsent_bytes() == 0
    }
}

/// Limits of one step: how much may be held, and the most that is read at once. Lower if memory is short.
struct Bounds {
    buffer_bytes: usize,
    read_bytes_max: usize,
    now: Millis,
}

impl Exchange {
    /// Relays the body until it is complete on the client's side of the socket, or cannot be completed.
    pub(crate) async fn relay(
        &mut self,
        relay: &mut Relay,
        up: &UpstreamSide,
        upload: &mut Upload<'_>,
        plan: &RelayPlan,
    ) -> RelayEnd {
        self.thread.registry.faults.pass(Fault::Relay);
        let mut size = ReadSize::default();
        let mut stall = StallTimeout::new(Default::default(), self.thread.reactor.now());
        loop {
            if upload.goes_on(up) && self.send_more(upload.sending, up, upload.body).is_err() {
                return RelayEnd::ClientGone(CloseReason::ClientAborted);
            }
            let bounds = self.bounds(relay, plan);
            let held = relay.held_bytes();
            let takes_more = match self.serve_behind(relay, bounds.buffer_bytes).await {
                Ok(caught_up) => caught_up == CaughtUp::TakesMore,
                Err(reason) => return RelayEnd::ClientGone(reason),
            };
            let before = self.given_to_client();
            let step = step(&mut self.response.filters, &mut self.down, relay, up, &bounds, &mut size);
            let is_idle = !takes_more && matches!(step, RelayStep::Yield) && before == self.given_to_client();
            let (timeout, wants, client_full) = match relay.for_readers(step, takes_more) {
                RelayStep::End(end) => return end,
                RelayStep::Store => {
                    Box::pin(self.write_kept(relay)).await;
                    continue;
                }
                RelayStep::Yield if is_idle => (plan.read_timeout, Wants::of_upstream(up, Interest::READ), false),
                RelayStep::Yield => {
                    self.yield_holding(held).await;
                    continue;
                }
                RelayStep::Paced(pause) => {
                    let woken = self.wait(self.client_room().holding(held), pause).await;
                    if woken == Woken::PeerGone && !self.has_given_all() {
                        return RelayEnd::ClientGone(CloseReason::ClientAborted);
                    }
                    // The upstream was not read meanwhile.
                    stall = StallTimeout::new(Default::default(), self.thread.reactor.now());
                    continue;
                }
                // A subrequest that the body waits for wakes this exchange.
                RelayStep::ClientFull if self.down.waiting_bytes() == 0 => (LOOK_AGAIN, Wants::NOTHING, true),
                RelayStep::ClientFull => (plan.send_timeout, self.client_room(), true),
                RelayStep::BothWaiting => {
                    let wants = Wants::of_upstream(up, Interest::READ).or_of_client(Interest::WRITE);
                    (plan.send_timeout, wants, true)
                }
                RelayStep::UpstreamEmpty => {
                    let room = Interest::WRITE.only_if(relay.behind.is_some() && self.down.waiting_bytes() > 0);
                    (plan.read_timeout, Wants::of_upstream(up, Interest::READ).or_of_client(room), false)
                }
            };
            let uploaded = (upload.sending.sent_bytes(), self.intake.body.received);
            let mark = (relay.body.received, self.down.bytes_sent(), uploaded, client_full);
            let left = stall.left(mark, timeout, self.thread.reactor.now());
            let wants = if upload.awaits_client(up) { wants.and_of_client(Interest::READ) } else { wants };
            match self.wait(wants.holding(held), left).await {
                Woken::Deadline if client_full && !self.is_call_over() => {
                    return RelayEnd::ClientGone(CloseReason::SendTimeout);
                }
                Woken::Deadline => return RelayEnd::UpstreamTimeout,
                Woken::PeerGone if !self.has_given_all() => return RelayEnd::ClientGone(CloseReason::ClientAborted),
                Woken::Ready | Woken::PeerGone => {}
            }
        }
    }
}

impl Exchange {
    /// Whether the client has the whole response, as long as its head said, before the upstream has told its end, such as the last
    /// record of FastCGI. Then it leaves nothing behind, and the rest of the upstream's message is read without it.
    fn has_given_all(&mut self) -> bool {
        let has_length = self.down.is_complete() && !self.down.is_until_close();
        let has_all = has_length && self.down.waiting_bytes() == 0;
        if has_all {
            self.upstream.ignore_abort(true);
        }
        has_all
    }

    /// What the client has got, or waits for. If it stays the same while bytes come, such as empty records, only a wait finds
    /// out that the client has left.
    fn given_to_client(&self) -> (u64, usize) {
        (self.down.bytes_sent(), self.down.waiting_bytes())
    }

    /// Writes the received data to its file.
    async fn write_kept(&mut self, relay: &mut Relay) {
        if let Some(store) = relay.store.as_mut() {
            self.write_store(store, relay.behind).await;
        }
        if let Some(saving) = relay.saving.as_mut() {
            self.write_saved(saving).await;
        }
    }

    /// Waits for room at the client if bytes wait for it.
    fn client_room(&self) -> Wants<'static> {
        Wants::of_client(Interest::WRITE.only_if(self.down.waiting_bytes() > 0))
    }

    fn bounds(&self, relay: &Relay, plan: &RelayPlan) -> Bounds {
        // Decoding needs as much memory again.
        let copies = if relay.body.is_coded() { 2 } else { 1 };
        let most = self.thread.memory.room(copies * SCRATCH_BYTES, copies * FLOOR_BYTES) / copies;
        // Compressing takes longer than passing on: other tasks get their turn in between.
        let most = if self.response.filters.changes_body() { most.min(GZIP_TURN_BYTES) } else { most };
        Bounds { buffer_bytes: plan.buffer_bytes.min(most), read_bytes_max: most, now: self.thread.reactor.now() }
    }
}

fn step(
    filters: &mut Chain,
    down: &mut Downstream,
    relay: &mut Relay,
    up: &UpstreamSide,
    bounds: &Bounds,
    size: &mut ReadSize,
) -> RelayStep {
    for _ in 0..READS_MAX {
        if relay.is_write_due() {
            return RelayStep::Store;
        }
        if relay.muted {
            if relay.body.is_done() {
                return RelayStep::End(RelayEnd::Complete);
            }
        } else {
            match filters.flush(down) {
                Err(_) => return RelayStep::End(RelayEnd::ClientGone(CloseReason::ClientAborted)),
                // `settle` sends the rest of a complete body: the upstream is free by then.
                Ok(_) if relay.body.is_done() => return RelayStep::End(RelayEnd::Complete),
                Ok(_) if filters.waiting_bytes(down) >= bounds.buffer_bytes => return RelayStep::ClientFull,
                Ok(_) => {}
            }
        }
        // The requests that read along have to read first. They wake this exchange, and its client may be one of them.
        if relay.store.as_ref().is_some_and(|store| store.is_full()) {
            let is_client = relay.behind.is_some() && down.waiting_bytes() > 0;
            return if is_client { RelayStep::ClientFull } else { RelayStep::Paced(LOOK_AGAIN) };
        }
        let before = if relay.muted { 0 } else { down.waiting_bytes() };
        // The held bytes are bounded; a client that has accepted everything so far may get more at once.
        let room = size.bytes(bounds.buffer_bytes, bounds.read_bytes_max) - before.min(bounds.buffer_bytes);
        let max = match relay.body.source {
            Source::Length(left) => room.min(usize::try_from(left).unwrap_or(usize::MAX)),
            _ => room,
        };
        let max = match relay.pace.map(|pace| pace.room(relay.body.received, bounds.now.0)) {
            None => max,
            Some(Ok(most)) => max.min(usize::try_from(most).unwrap_or(usize::MAX)),
            Some(Err(pause_ms)) => return RelayStep::Paced(Duration::from_millis(pause_ms)),
        };
        let received = relay.body.received;
        match up.read_with(max, |bytes| (bytes.len(), relay.feed(bytes, None, filters, down))) {
            Ok(Read::Data((count, Ok(())))) => {
                size.note(count == max, relay.muted || down.waiting_bytes() == 0);
                if let Some(pace) = &mut relay.pace {
                    pace.note(received, relay.body.received, bounds.now.0);
                }
            }
            Ok(Read::Data((_, Err(error)))) => return RelayStep::End(broken(error)),
            Ok(Read::NotReady) => return if before > 0 { RelayStep::BothWaiting } else { RelayStep::UpstreamEmpty },
            Ok(Read::Closed) => {
                return match relay.close(filters, down) {
                    Ok(true) => RelayStep::End(RelayEnd::Complete),
                    Ok(false) => {
                        RelayStep::End(RelayEnd::UpstreamBroken("upstream prematurely closed connection".into()))
                    }
                    Err(error) => RelayStep::End(broken(error)),
                };
            }
            Err(error) => return RelayStep::End(RelayEnd::UpstreamBroken(up.read_failure(&error, true).reason)),
        }
    }
    if relay.body.is_done() { RelayStep::End(RelayEnd::Complete) } else { RelayStep::Yield }
}

fn broken(error: FeedError) -> RelayEnd {
    match error {
        FeedError::Coding(error) => RelayEnd::UpstreamBroken(error.phrase()),
        FeedError::Client => RelayEnd::ClientGone(CloseReason::ClientAborted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::logs::error::{ErrorLog, Level};
    use crate::downstream::Asker;
    use crate::downstream::client::{ClientScheme, SupposedClient};
    use crate::downstream::internal::{Subrequest, suppose};
    use crate::downstream::reply_head::ReplyHead;
    use crate::registry::generation::ListenerId;
    use crate::registry::process::Registry;
    use crate::thread::WorkerThread;
    use crate::upstream::scripted::{Behind, ScriptedPeer};
    use http1::{Method, Version};
    use reactor::{PeerAddress, Reactor};
    use std::rc::Rc;

    /// A client that keeps what it gets in memory.
    fn client() -> (Downstream, Subrequest) {
        let registry = Registry::leak(1, ErrorLog::new(Level::Emerg, 0)).expect("a registry");
        let thread = Rc::new(WorkerThread::new(0, registry, Reactor::new().expect("a reactor")));
        let client = SupposedClient {
            listener: ListenerId(0),
            peer: PeerAddress::Ip(([127, 0, 0, 1], 1).into()),
            scheme: ClientScheme::Http,
            local_address: None,
            local_path: None,
            is_plain_by_mistake: false,
        };
        let (internal, response) = suppose(&thread, client, Method::Get);
        (Downstream::new(Asker::Exchange(internal), Method::Get, Version::Http11, true, false), response)
    }

    /// Relays until a step would wait. Returns the last step, and what the client has got.
    fn relayed(source: Source, pieces: &[&[u8]], behind: Behind) -> (RelayStep, Vec<u8>) {
        let (mut down, response) = client();
        let mut filters = Chain::default();
        let side = ScriptedPeer::side(pieces, behind, None);
        let mut relay = Relay::new(ResponseBody::new(source));
        let head = ReplyHead::whole(0);
        relay.feed(b"", Some(head.with(b"")), &mut filters, &mut down).expect("a client in memory");
        let bounds = Bounds { buffer_bytes: 4096, read_bytes_max: 4096, now: Millis(0) };
        let mut size = ReadSize::default();
        loop {
            match step(&mut filters, &mut down, &mut relay, &side, &bounds, &mut size) {
                RelayStep::Yield => {}
                step => return (step, response.take_body()),
            }
        }
    }

    #[test]
    fn a_body_is_complete_at_its_length() {
        let (step, body) = relayed(Source::Length(5), &[b"ab", b"cde"], Behind::Silence);
        assert!(matches!(step, RelayStep::End(RelayEnd::Complete)));
        assert_eq!(body, b"abcde");
    }

    #[test]
    fn a_silent_peer_is_waited_for() {
        let (step, body) = relayed(Source::Length(5), &[b"ab"], Behind::Silence);
        assert!(matches!(step, RelayStep::UpstreamEmpty | RelayStep::BothWaiting));
        assert_eq!(body, b"ab");
    }

    #[test]
    fn a_peer_that_closes_ends_a_body_without_a_length_alone() {
        let (step, body) = relayed(Source::UntilClose, &[b"abc"], Behind::Close);
        assert!(matches!(step, RelayStep::End(RelayEnd::Complete)));
        assert_eq!(body, b"abc");
        let (step, _) = relayed(Source::Length(5), &[b"abc"], Behind::Close);
        let RelayStep::End(RelayEnd::UpstreamBroken(reason)) = step else { panic!("it was taken for the end") };
        assert_eq!(reason, "upstream prematurely closed connection");
    }

    #[test]
    fn an_invalid_coding_breaks_the_relay() {
        let (step, body) = relayed(Source::Chunked(Box::default()), &[b"1\r\na\r\n", b"x"], Behind::Silence);
        assert!(matches!(step, RelayStep::End(RelayEnd::UpstreamBroken(_))));
        assert_eq!(body, b"a");
    }
}
