//! The response body from the upstream to the client: bounded, with back-pressure, re-framed. The proxy calls it once the
//! response head is sent.

use crate::base::close::CloseReason;
use crate::base::fault::Fault;
use crate::base::memory::FLOOR_BYTES;
use crate::base::stall_timeout::StallTimeout;
use crate::connector::leased::Leased;
use crate::downstream::h1::Downstream;
use crate::downstream::reply_head::HeadView;
use crate::exchange::Exchange;
use crate::exchange::waiting::Wants;
use crate::filter::chain::Chain;
use crate::filter::compress::GZIP_TURN_BYTES;
use crate::upstream::answer::read_failure;
use crate::upstream::response_body::{ResponseBody, Source};
use http1::ChunkError;
use reactor::{Interest, Millis, Read, SCRATCH_BYTES, Woken};
use rules::pace::Pace;
use std::time::Duration;

/// Reads before others get their turn: 1 MB at full scratch size.
const READS_MAX: u32 = 4;

/// A response body on its way.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) body: ResponseBody,
    /// The client does not want this body, and not all of it has come.
    pub(crate) unread: bool,
    /// `proxy_limit_rate`
    pub(crate) pace: Option<Pace>,
    /// Bytes of the body that came with the head.
    pub(crate) preread: u64,
}

/// How a relay ended.
#[derive(Debug)]
pub(crate) enum RelayEnd {
    /// Everything was given to the client's side.
    Complete,
    /// The upstream broke off, or broke the coding.
    UpstreamBroken(String),
    /// `proxy_read_timeout`.
    UpstreamTimeout,
    /// The client is gone.
    ClientGone(CloseReason),
}

/// Why bytes cannot be relayed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FeedError {
    Coding(ChunkError),
    Client,
}

impl Relay {
    pub(crate) fn new(source: Source) -> Self {
        Self { body: ResponseBody::new(source), unread: false, preread: 0, pace: None }
    }

    /// Passes on received bytes; `head` goes ahead of them. Nothing is sent if the coding is wrong from the start.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        head: Option<HeadView<'_>>,
        filters: &mut Chain,
        down: &mut Downstream,
    ) -> Result<(), FeedError> {
        let (body, last) = self.body.take(bytes).map_err(FeedError::Coding)?;
        let sent = match head {
            Some(head) => filters.send_head(down, head, body, last),
            None if body.is_empty() && !last => Ok(()),
            None => filters.send_body(down, body, last),
        };
        sent.map_err(|_| FeedError::Client)
    }

    /// The upstream closed: whether that is the end of the body.
    fn close(&mut self, filters: &mut Chain, down: &mut Downstream) -> Result<bool, FeedError> {
        let ends = self.body.close();
        if ends {
            filters.send_body(down, &[], true).map_err(|_| FeedError::Client)?;
        }
        Ok(ends)
    }
}

/// What a step of the relay came to.
enum Step {
    End(RelayEnd),
    /// The client does not take what is there, and no more may be held for it.
    ClientFull,
    /// The same, and the upstream has nothing either.
    BothWaiting,
    /// The upstream has nothing at the moment.
    UpstreamEmpty,
    /// Others are due.
    Yield,
    /// Nothing may be read for so long.
    Paced(Duration),
}

/// Timeouts and bounds of a relay.
pub(crate) struct RelayPlan {
    pub(crate) buffer_bytes: usize,
    pub(crate) read_timeout: Duration,
    pub(crate) send_timeout: Duration,
}

/// What may be held and asked for in one step: less than the configuration allows, where memory is short.
struct Bounds {
    buffer_bytes: usize,
    ask_max: usize,
    now: Millis,
}

impl Exchange {
    /// Moves the body until it is complete on the client's side of the socket, or cannot be completed.
    pub(crate) async fn relay(&mut self, relay: &mut Relay, up: &Leased, plan: &RelayPlan) -> RelayEnd {
        self.thread.shared.faults.pass(Fault::Relay);
        let mut ask = plan.buffer_bytes;
        let mut stall = StallTimeout::new(Default::default(), self.thread.reactor.now());
        loop {
            // Taking a coding off needs as much again.
            let copies = if relay.body.is_coded() { 2 } else { 1 };
            let most = self.thread.memory.room(copies * SCRATCH_BYTES, copies * FLOOR_BYTES) / copies;
            // Compressing takes longer than passing on: others get their turn in between.
            let most = if self.response.filters.is_compressed() { most.min(GZIP_TURN_BYTES) } else { most };
            ask = ask.min(most);
            let bounds =
                Bounds { buffer_bytes: plan.buffer_bytes.min(most), ask_max: most, now: self.thread.reactor.now() };
            let held = relay.body.held_bytes();
            let (timeout, wants) = match step(&mut self.response.filters, &mut self.down, relay, up, &bounds, &mut ask)
            {
                Step::End(end) => return end,
                Step::Yield => {
                    self.yield_holding(held).await;
                    continue;
                }
                Step::Paced(pause) => {
                    let room = Wants::of_client(Interest::WRITE.only_if(self.down.waiting_bytes() > 0));
                    if self.wait(room.holding(held), pause).await == Woken::PeerGone {
                        return RelayEnd::ClientGone(CloseReason::ClientAborted);
                    }
                    continue;
                }
                Step::ClientFull => (plan.send_timeout, Wants::of_client(Interest::WRITE)),
                Step::BothWaiting => {
                    (plan.send_timeout, Wants::of_upstream(up.stream(), Interest::READ).or_of_client(Interest::WRITE))
                }
                Step::UpstreamEmpty => (plan.read_timeout, Wants::of_upstream(up.stream(), Interest::READ)),
            };
            let client_full = wants.is_of_client();
            let mark = (relay.body.received, self.down.bytes_sent, client_full);
            let left = stall.left(mark, timeout, self.thread.reactor.now());
            match self.wait(wants.holding(held), left).await {
                Woken::Ready => {}
                Woken::Deadline if client_full => return RelayEnd::ClientGone(CloseReason::SendTimeout),
                Woken::Deadline => return RelayEnd::UpstreamTimeout,
                Woken::PeerGone => return RelayEnd::ClientGone(CloseReason::ClientAborted),
            }
        }
    }
}

fn step(
    filters: &mut Chain,
    down: &mut Downstream,
    relay: &mut Relay,
    up: &Leased,
    bounds: &Bounds,
    ask: &mut usize,
) -> Step {
    for _ in 0..READS_MAX {
        match filters.flush(down) {
            Err(_) => return Step::End(RelayEnd::ClientGone(CloseReason::ClientAborted)),
            // What is unsent when the body is complete is `settle`'s: the upstream is free by then.
            Ok(_) if relay.body.is_done() => return Step::End(RelayEnd::Complete),
            Ok(_) if down.waiting_bytes() >= bounds.buffer_bytes => return Step::ClientFull,
            Ok(_) => {}
        }
        let before = down.waiting_bytes();
        // What may be held is bounded; a client that has taken everything so far may be given more at once.
        let room = (*ask).max(bounds.buffer_bytes) - before.min(bounds.buffer_bytes);
        let max = match relay.body.source {
            Source::Length(left) => room.min(usize::try_from(left).unwrap_or(usize::MAX)),
            _ => room,
        };
        let max = match relay.pace.map(|pace| pace.room(relay.body.received, bounds.now.0)) {
            None => max,
            Some(Ok(most)) => max.min(usize::try_from(most).unwrap_or(usize::MAX)),
            Some(Err(pause_ms)) => return Step::Paced(Duration::from_millis(pause_ms)),
        };
        let received = relay.body.received;
        match up.stream().read_with(max, |bytes| (bytes.len(), relay.feed(bytes, None, filters, down))) {
            Ok(Read::Data((count, Ok(())))) => {
                *ask = match down.waiting_bytes() {
                    0 if count == max => (*ask * 2).min(bounds.ask_max),
                    0 => *ask,
                    _ => bounds.buffer_bytes,
                };
                if let Some(pace) = &mut relay.pace {
                    pace.note(received, relay.body.received, bounds.now.0);
                }
            }
            Ok(Read::Data((_, Err(error)))) => return Step::End(broken(error)),
            Ok(Read::NotReady) => return if before > 0 { Step::BothWaiting } else { Step::UpstreamEmpty },
            Ok(Read::Closed) => {
                return match relay.close(filters, down) {
                    Ok(true) => Step::End(RelayEnd::Complete),
                    Ok(false) => Step::End(RelayEnd::UpstreamBroken("upstream prematurely closed connection".into())),
                    Err(error) => Step::End(broken(error)),
                };
            }
            Err(error) => return Step::End(RelayEnd::UpstreamBroken(read_failure(&error))),
        }
    }
    if relay.body.is_done() { Step::End(RelayEnd::Complete) } else { Step::Yield }
}

fn broken(error: FeedError) -> RelayEnd {
    match error {
        FeedError::Coding(error) => RelayEnd::UpstreamBroken(format!("{}: {error}", error.response_phrase())),
        FeedError::Client => RelayEnd::ClientGone(CloseReason::ClientAborted),
    }
}
