//! A tunnel as another process needs it, and a tunnel made of that. Both processes have descriptors of the two sockets;
//! the one that has frozen the tunnel neither reads nor writes ([`crate::registry::handover`]).

use crate::base::buffer::{RareSpill, Spill};
use crate::base::close::CloseSide;
use crate::base::logs::access::{LineName, LogSink};
use crate::base::read_size::ReadSize;
use crate::plan::tunnel::{TunnelKind, TunnelPlan};
use crate::registry::generation::{BoundTunnel, Generation};
use crate::registry::limit_zones::Limited;
use crate::registry::peer_states::TunnelPeer;
use crate::registry::pool::{Bound, IdleSocket};
use crate::registry::process::Registry;
use crate::registry::spans::{Span, SpanKind, SpanValue};
use crate::thread::WorkerThread;
use crate::tunnel::end::ClientEnd;
use crate::tunnel::heartbeat::Heartbeat;
use crate::tunnel::record::{LATE, TunnelAttempt, TunnelRecord};
use crate::tunnel::{Extras, Flow, Tunnel};
use reactor::{Millis, TaskId};
use rules::log_format::EarlyLine;
use rules::pace::Pace;
use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use transport::Transport;
use upstream::balance::Counted;
use upstream::shared::TunnelPermit;
use websocket::Boundary;

/// The separators between the values of two attempts.
const SEPARATORS: [&[u8]; 3] = [b"", b", ", b" : "];

impl Tunnel {
    /// Whether another process can continue it: both ends are sockets in clear, neither has failed, and it is not
    /// being drained.
    pub(crate) fn can_be_handed_over(&self) -> bool {
        let is_plain = |socket: &Transport| !socket.is_secure() && !socket.is_failed();
        self.downstream.socket().is_some_and(is_plain) && is_plain(&self.upstream) && !self.is_leaving()
    }

    /// Descriptors of both sockets for another process.
    pub(crate) fn ends_for_another(&self) -> io::Result<[OwnedFd; 2]> {
        let copy = |socket: &Transport| socket.stream().as_socket().as_fd().try_clone_to_owned();
        let client = self.downstream.socket().ok_or(io::ErrorKind::InvalidInput)?;
        Ok([copy(client)?, copy(&self.upstream)?])
    }

    /// Its state for another process.
    pub(crate) fn state_for_another(&self, registry: &Registry) -> handover::Tunnel {
        let direction = |end: usize| handover::Direction {
            waiting: self.extras.as_ref().map(|extras| extras.spills[end].waiting().to_vec()).unwrap_or_default(),
            bytes: self.bytes[end],
            flow: match self.flows[end] {
                Flow::Open => handover::Flow::Open,
                Flow::Ended => handover::Flow::Ended,
                Flow::Closed => handover::Flow::Closed,
            },
        };
        let pace = |end: usize| {
            let [rate, after, began_ms, not_before_ms] = self.paces()?[end]?.to_parts();
            Some(handover::Pace { rate, after, began_ms, not_before_ms })
        };
        let peer = self.upstream.names();
        handover::Tunnel {
            settings: settings_of(self.plan(), registry),
            directions: [direction(0), direction(1)],
            moved_at_ms: self.moved_at.0,
            ended_by: self.ended_by.map(|side| match side {
                CloseSide::Client => handover::Side::Client,
                CloseSide::Gateway => handover::Side::Gateway,
                CloseSide::Upstream => handover::Side::Upstream,
            }),
            frames: self.has_frames.then(|| self.positions().map(|place| place.to_bytes())),
            heartbeat: self.extras.as_ref().and_then(|extras| Some(extras.heartbeat.as_ref()?.state())),
            paces: [pace(0), pace(1)],
            peer: peer.map(|(group, address)| handover::Peer {
                group: group.into(),
                address,
                ordinal: self.seat.counted_ordinal().map(u64::from),
                has_port: self.upstream.has_port(),
            }),
            record: self.record.as_ref().map(|record| record.state()),
        }
    }

    /// Continues a tunnel of another process, with the two sockets as the ends. `None` if that is not possible here: one
    /// of its logs does not exist, or a socket cannot be watched. It reads and writes nothing yet.
    pub(crate) fn take_over(
        thread: &WorkerThread,
        generation: &Generation,
        task: TaskId,
        state: handover::Tunnel,
        ends: [OwnedFd; 2],
    ) -> Option<Self> {
        let record = match state.record {
            Some(record) => Some(Box::new(TunnelRecord::from_state(record, generation)?)),
            None => None,
        };
        let sent = match state.frames.map(|frames| frames.map(Boundary::from_bytes)) {
            Some([client, upstream]) => Some([client?, upstream?]),
            None => None,
        };
        let heartbeat = state.heartbeat.as_ref().map(Heartbeat::from_state);
        let registry = thread.registry;
        let plan = bound_tunnel(&state.settings, generation, registry);
        let [client, upstream] = ends;
        let client = Transport::plain(thread.reactor.register(client, task).ok()?);
        let Ok(upstream) = thread.reactor.register(upstream, task) else {
            client.release();
            return None;
        };
        let (mut permit, mut seat, mut port) = (None, Counted::default(), None);
        if let Some(peer) = &state.peer {
            (permit, seat) = places_at(peer, generation, registry);
            port = if peer.has_port { registry.ports.opened(&upstream, &peer.address) } else { None };
        }
        let flows = state.directions.each_ref().map(|direction| flow_of(direction.flow));
        let paces = state.paces.map(|pace| {
            let handover::Pace { rate, after, began_ms, not_before_ms } = pace?;
            Some(Pace::from_parts([rate, after, began_ms, not_before_ms]))
        });
        let spills = state.directions.each_ref().map(|direction| {
            let mut spill = Spill::default();
            spill.hold(&[&direction.waiting]);
            RareSpill::new(spill)
        });
        if flows[0] == Flow::Closed {
            // The predecessor has sent the FIN. Sending it again only tells our reactor.
            let _ = upstream.shutdown_write();
        }
        let mut tunnel = Self {
            downstream: ClientEnd::Socket(client),
            upstream: Bound::new(Transport::plain(upstream), plan, port, permit),
            task,
            record,
            bytes: state.directions.map(|direction| direction.bytes),
            moved_at: Millis(state.moved_at_ms),
            extras: None,
            seat,
            flows,
            ended_by: state.ended_by.map(|side| match side {
                handover::Side::Client => CloseSide::Client,
                handover::Side::Gateway => CloseSide::Gateway,
                handover::Side::Upstream => CloseSide::Upstream,
            }),
            has_frames: sent.is_some(),
            sizes: [ReadSize::default(); 2],
        };
        tunnel.set_extras(Extras {
            sent: sent.unwrap_or_default(),
            spills,
            paces: (paces != [None; 2]).then(|| Box::new(paces)),
            heartbeat,
            leaving: None,
        });
        Some(tunnel)
    }

    /// Gives it up without an end: another process has its sockets, and continues.
    pub(crate) fn release(self) {
        if let ClientEnd::Socket(socket) = self.downstream {
            socket.release();
        }
        self.upstream.release();
    }
}

/// The tunnel's places in the counts of its peer.
fn places_at(
    peer: &handover::Peer,
    generation: &Generation,
    registry: &'static Registry,
) -> (Option<TunnelPermit<'static, IdleSocket>>, Counted) {
    let handover::Peer { group, address, ordinal, .. } = peer;
    let ordinal = ordinal.and_then(|ordinal| u32::try_from(ordinal).ok());
    let health = registry.identities.health();
    let seat = ordinal.map(|ordinal| health.count_tunnel(group, address, ordinal)).unwrap_or_default();
    let is_known = |permit: &TunnelPermit<'_, IdleSocket>| {
        let ordinal = seat.ordinal();
        let peer = permit.peer().map(|peer| TunnelPeer { group: permit.group(), peer, ordinal });
        peer.is_none_or(|peer| generation.peer_states.has(peer))
    };
    // Without a place, no reload drains the tunnel for its peer: the next one cannot remove what this one does not have.
    let permit = registry.pool.count_tunnel(group, address).filter(is_known);
    (permit, seat)
}

fn settings_of(plan: &BoundTunnel, registry: &Registry) -> handover::Settings {
    handover::Settings {
        kind: match plan.kind {
            TunnelKind::Upgraded => handover::Kind::Upgraded,
            TunnelKind::Session { half_close: false } => handover::Kind::Session,
            TunnelKind::Session { half_close: true } => handover::Kind::HalfClosingSession,
        },
        idle_max_ms: milliseconds(plan.idle_max),
        ping_ms: plan.ping.map(milliseconds),
        buffer_bytes: plan.buffer_bytes as u64,
        route: plan.route.as_deref().map(str::to_owned),
        error_log: plan.error_log.as_ref().and_then(|log| registry.identities.name_of_error_log(log)),
        marks: plan.marks.to_vec(),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn flow_of(state: handover::Flow) -> Flow {
    match state {
        handover::Flow::Open => Flow::Open,
        handover::Flow::Ended => Flow::Ended,
        handover::Flow::Closed => Flow::Closed,
    }
}

/// The same settings here: those of the configuration, if it has them. As after a reload, a tunnel keeps the settings of
/// the configuration that opened it. A tunnel with a route that this configuration does not have gets no marks, so that no
/// later reload drains it for that: another program may have made its marks in another way.
fn bound_tunnel(
    settings: &handover::Settings,
    generation: &Generation,
    registry: &'static Registry,
) -> Arc<BoundTunnel> {
    let kind = match settings.kind {
        handover::Kind::Upgraded => TunnelKind::Upgraded,
        handover::Kind::Session => TunnelKind::Session { half_close: false },
        handover::Kind::HalfClosingSession => TunnelKind::Session { half_close: true },
    };
    // A log that does not exist here is replaced by that of the process.
    let error_log = settings.error_log.as_deref().and_then(|name| registry.identities.error_log_named(name));
    let is_known = settings.marks.iter().any(|mark| generation.route_marks.contains(mark));
    let plan = TunnelPlan {
        idle_max: Duration::from_millis(settings.idle_max_ms),
        ping: settings.ping_ms.map(Duration::from_millis),
        buffer_bytes: usize::try_from(settings.buffer_bytes).unwrap_or(usize::MAX).max(1),
        kind,
        error_log: None,
        marks: if is_known { settings.marks.as_slice().into() } else { Arc::default() },
    };
    let is_same = |known: &&Arc<BoundTunnel>| {
        known.marks.iter().any(|mark| plan.marks.contains(mark))
            && known.route.as_deref() == settings.route.as_deref()
            && known.kind == plan.kind
            && known.idle_max == plan.idle_max
            && known.ping == plan.ping
            && known.buffer_bytes == plan.buffer_bytes
            && known.error_log.as_ref().map(Arc::as_ptr) == error_log.as_ref().map(Arc::as_ptr)
    };
    let all = generation.proxies.iter().map(|proxy| &proxy.tunnel);
    let mut all = all.chain(generation.stream_proxies.iter().map(|proxy| &proxy.tunnel));
    if let Some(known) = all.find(is_same) {
        return Arc::clone(known);
    }
    let route = settings.route.as_deref().map(Into::into);
    Arc::new(BoundTunnel { plan, error_log, route, generation: generation.number, registry })
}

impl TunnelRecord {
    fn state(&self) -> handover::Record {
        let line = |(sink, name, early): &(Arc<LogSink>, Option<LineName>, EarlyLine)| {
            let (text, gaps) = early.parts();
            handover::Line {
                log: sink.place().full_name(),
                file: name.as_ref().map(|name| handover::LineName { path: name.path.clone(), root: name.root.clone() }),
                text: text.to_vec(),
                gaps: gaps
                    .iter()
                    .filter_map(|(at, variable)| {
                        let place = LATE.iter().position(|late| late == variable)?;
                        Some((u64::from(*at), place as u64))
                    })
                    .collect(),
            }
        };
        let permits = self.limits.iter().flat_map(|limited| &limited.permits);
        let limit = |(zone, key_text, key): (&str, &str, &[u8])| handover::Limit {
            zone: zone.to_owned(),
            key_text: key_text.to_owned(),
            key: key.to_vec(),
        };
        let attempt = |attempt: &TunnelAttempt| handover::Attempt {
            response_us: attempt.response_us,
            response_length: attempt.response_length,
            bytes_received: attempt.bytes_received,
            bytes_sent: attempt.bytes_sent,
            separator: attempt.separator.to_vec(),
        };
        handover::Record {
            lines: self.lines.iter().map(line).collect(),
            began_at_ms: self.began_at.0,
            accepted_at_ms: self.accepted_at.0,
            head_bytes: self.head_bytes,
            attempt_began_at_ms: self.attempt_began_at.0,
            first_byte_ms: self.first_byte_ms,
            limits: permits.map(|permit| limit(permit.parts())).collect(),
            attempts: self.attempts.iter().map(attempt).collect(),
            spans: self.spans.iter().map(span_state).collect(),
        }
    }

    /// `None` if a log does not exist here.
    fn from_state(state: handover::Record, generation: &Generation) -> Option<Self> {
        let line = |line: handover::Line| {
            let sink = generation.sinks.iter().find(|sink| sink.place().full_name() == line.log)?;
            let gap = |(at, place): (u64, u64)| {
                Some((u32::try_from(at).ok()?, LATE.get(usize::try_from(place).ok()?)?.clone()))
            };
            let gaps = line.gaps.into_iter().map(gap).collect::<Option<_>>()?;
            let name = line.file.map(|name| LineName { path: name.path, root: name.root });
            Some((Arc::clone(sink), name, EarlyLine::from_parts(line.text, gaps)?))
        };
        let permit = |limit: handover::Limit| {
            let zones = &generation.connection_zones;
            let zone = zones.iter().find(|zone| *zone.name == *limit.zone && *zone.key_text == *limit.key_text)?;
            // It is admitted already, even if the limit is lower now.
            zone.admit(&limit.key, u32::MAX).ok()
        };
        let permits: Vec<_> = state.limits.into_iter().filter_map(permit).collect();
        let limits = (!permits.is_empty()).then(|| Box::new(Limited { permits, ..Limited::default() }));
        let attempt = |attempt: handover::Attempt| TunnelAttempt {
            response_us: attempt.response_us,
            response_length: attempt.response_length,
            bytes_received: attempt.bytes_received,
            bytes_sent: attempt.bytes_sent,
            separator: SEPARATORS.into_iter().find(|known| **known == *attempt.separator).unwrap_or(b", "),
        };
        Some(Self {
            lines: state.lines.into_iter().map(line).collect::<Option<_>>()?,
            began_at: Millis(state.began_at_ms),
            accepted_at: Millis(state.accepted_at_ms),
            head_bytes: state.head_bytes,
            attempt_began_at: Millis(state.attempt_began_at_ms),
            first_byte_ms: state.first_byte_ms,
            limits,
            // What `least_time` measures ends with the process: the balancer here knows nothing of the session's start.
            timing: None,
            attempts: state.attempts.into_iter().map(attempt).collect(),
            spans: state.spans.into_iter().map(span_of).collect(),
        })
    }
}

fn span_state(span: &Span) -> handover::Span {
    let value = |value: &SpanValue| match value {
        SpanValue::Text(text) => handover::SpanValue::Text(text.clone()),
        SpanValue::Texts(text) => handover::SpanValue::Texts(text.clone()),
        SpanValue::Number(number) => handover::SpanValue::Number(*number),
        SpanValue::Flag(flag) => handover::SpanValue::Flag(*flag),
    };
    handover::Span {
        trace_id: span.trace_id,
        id: span.id,
        parent: span.parent,
        state: span.state.to_string(),
        name: span.name.clone(),
        kind: match span.kind {
            SpanKind::Server => handover::SpanKind::Server,
            SpanKind::Client => handover::SpanKind::Client,
        },
        began_ns: span.began_ns,
        ended_ns: span.ended_ns,
        attributes: span.attributes.iter().map(|(name, of)| (name.to_string(), value(of))).collect(),
        error: span.error.as_ref().map(ToString::to_string),
    }
}

fn span_of(span: handover::Span) -> Span {
    let value = |value: handover::SpanValue| match value {
        handover::SpanValue::Text(text) => SpanValue::Text(text),
        handover::SpanValue::Texts(text) => SpanValue::Texts(text),
        handover::SpanValue::Number(number) => SpanValue::Number(number),
        handover::SpanValue::Flag(flag) => SpanValue::Flag(flag),
    };
    Span {
        trace_id: span.trace_id,
        id: span.id,
        parent: span.parent,
        state: span.state.into(),
        name: span.name,
        kind: match span.kind {
            handover::SpanKind::Server => SpanKind::Server,
            handover::SpanKind::Client => SpanKind::Client,
        },
        began_ns: span.began_ns,
        ended_ns: span.ended_ns,
        attributes: span.attributes.into_iter().map(|(name, of)| (Cow::Owned(name), value(of))).collect(),
        error: span.error.map(Cow::Owned),
    }
}
