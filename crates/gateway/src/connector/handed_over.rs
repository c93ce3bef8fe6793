//! Idle connections to upstreams that go to another process, or come from one. Those under TLS and of HTTP/2 stay: their
//! keys, or the state of their engine, cannot leave.

use crate::connector::leased::pool_taken_over;
use crate::registry::handover::IdleHandedOver;
use crate::registry::pool::{IdleSocket, UpstreamPool};
use crate::thread::WorkerThread;
use std::os::fd::OwnedFd;
use transport::Transport;
use upstream::Millis;
use upstream::shared::{Meta, PoolKey, Removed};

/// What another process needs; `None` if it cannot continue the connection, which is then closed.
pub(crate) fn for_another(mut removed: Removed<IdleSocket>, pool: &UpstreamPool) -> Option<IdleHandedOver> {
    if removed.connection.engine.is_some() {
        return None;
    }
    let (group, key) = pool.describe(removed.key)?;
    let has_port = removed.connection.port.is_some();
    let socket = removed.connection.parked.take()?.into_plain()?;
    let state = handover::Idle {
        group: group.into(),
        address: key.peer,
        source: key.source.map(|source| source.to_string()),
        proxy_protocol: key.proxy_protocol,
        location: key.location.map(String::from),
        created_at_ms: removed.meta.created_at.0,
        requests: u64::from(removed.meta.requests),
        idle_since_ms: removed.idle_since.0,
        has_port,
    };
    Some(IdleHandedOver { state: state.encode(), socket })
}

/// Pools a connection of another process. It is closed if this configuration has no such connections, or has enough.
pub(crate) fn pool_from_another(thread: &WorkerThread, state: &handover::Idle, socket: OwnedFd) {
    let registry = thread.registry;
    let source = match &state.source {
        None => None,
        Some(text) => match text.parse() {
            Ok(source) => Some(source),
            Err(_) => return,
        },
    };
    let key = registry.pool.known_key(&state.group, |group| PoolKey {
        group,
        peer: state.address.clone(),
        tls: None,
        source,
        proxy_protocol: state.proxy_protocol,
        location: state.location.as_deref().map(Into::into),
    });
    let Some(permit) = key.and_then(|key| registry.pool.open_spare(thread.id(), key)) else { return };
    let meta =
        Meta { created_at: Millis(state.created_at_ms), requests: u32::try_from(state.requests).unwrap_or(u32::MAX) };
    // It belongs to a task until it is parked.
    let task = thread.reactor.create_task();
    if let Ok(stream) = thread.reactor.register(socket, task) {
        let port = if state.has_port { registry.ports.opened(&stream, &state.address) } else { None };
        pool_taken_over(permit, Transport::plain(stream), port, (meta, Millis(state.idle_since_ms)), thread);
    }
    thread.reactor.end_task(task);
}
