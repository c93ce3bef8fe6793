//! Executes the requests of `holdfast ctl` in the process that serves. It uses a separate thread, because answers wait
//! for workers and locks. The master has logged the request and passed it on.

use super::channel::{Channel, Kind};
use crate::ctl::request::{
    Answer, CacheAct, CachedKeys, ConnectionChange, Listing, PeerName, PoolChange, ROWS_MAX, Request,
};
use gateway::caches::KeyPattern;
use gateway::inspect::Tunnels;
use gateway::{Generation, Level, Registry, status_json};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;

/// Executes a request, and sends the answer when it is ready. `packet` is the master's: a number and the request.
pub(super) fn begin(
    packet: &[u8],
    registry: &'static Registry,
    generation: &Arc<Generation>,
    channel: &Channel,
) -> io::Result<()> {
    let Some((id, request)) = decode(packet) else { return Ok(()) };
    let (generation, channel) = (Arc::clone(generation), channel.try_clone()?);
    let work = move || {
        let answer = Answer::of(carry_out(&request, registry, &generation));
        // If the master is gone, the answer is not needed.
        let _ = channel.send_body(Kind::CtlAnswer, &encode_answer(id, &answer), &[]);
    };
    std::thread::Builder::new().name("ctl".to_owned()).spawn(work).map(drop)
}

/// Encodes a request for the child, with the number of the client. `None`: it is too long.
pub(super) fn encode(id: u64, request: &Request) -> Option<String> {
    let request = String::from_utf8(request.encode()).ok()?;
    Some(format!("{id} {request}")).filter(|packet| packet.len() <= super::channel::TEXT_BYTES_MAX)
}

fn decode(packet: &[u8]) -> Option<(u64, Request)> {
    let (id, request) = std::str::from_utf8(packet).ok()?.split_once(' ')?;
    Some((id.parse().ok()?, serde_json::from_str(request).ok()?))
}

fn encode_answer(id: u64, answer: &Answer) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend_from_slice(&answer.encode());
    bytes
}

/// The number of the client, and its answer.
pub(super) fn decode_answer(bytes: &[u8]) -> Option<(u64, Answer)> {
    let (id, answer) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*id), serde_json::from_slice(answer).ok()?))
}

fn carry_out(request: &Request, registry: &Registry, generation: &Generation) -> Result<Value, String> {
    match request {
        Request::Status => {
            serde_json::from_slice(&status_json(registry, generation)).map_err(|error| error.to_string())
        }
        Request::Peers { change } => {
            if let Some(change) = change.as_ref().filter(|change| !change.carry_out(registry)) {
                let PeerName { group, peer } = change.peer();
                return Err(format!("no peer \"{peer}\" in group \"{group}\": `holdfast ctl peers` lists them"));
            }
            Ok(json!({"peers": registry.peer_rows()}))
        }
        Request::Pools { change: None } => Ok(json!({"pools": registry.pool_rows()})),
        Request::Pools { change: Some(PoolChange::Flush { group }) } => {
            let closed = registry.flush_pools(group.as_deref());
            let closed = closed.ok_or_else(|| format!("no group \"{}\"", group.as_deref().unwrap_or_default()))?;
            Ok(json!({"closed": closed}))
        }
        Request::Connections { change: Some(ConnectionChange::Close { connection }), .. }
        | Request::Tunnels { change: Some(ConnectionChange::Close { connection }), .. } => {
            let closed = registry.close_connection(*connection);
            if closed { Ok(json!({"closed": connection})) } else { Err(format!("no connection *{connection}")) }
        }
        Request::Connections { list, change: Some(ConnectionChange::CloseAll) } => {
            close_all(registry, list, Tunnels::Not)
        }
        Request::Tunnels { list, change: Some(ConnectionChange::CloseAll) } => close_all(registry, list, Tunnels::Only),
        Request::Connections { list, change: None } => Ok(json!(registry.list_connections(&list.filter()?))),
        Request::Tunnels { list, change: None } => Ok(json!(registry.list_tunnels(&list.filter()?))),
        Request::Cache { act: None } => Ok(json!({"caches": generation.cache_rows()})),
        Request::Cache { act: Some(act) } => act_on_cache(act, generation),
        Request::LogLevel { level } => {
            if let Some(word) = level {
                registry.set_log_level(level_of(word)?);
            }
            Ok(json!({"level": registry.log_level().map(Level::label)}))
        }
        Request::Errors { limit, after, .. } => Ok(json!({"errors": registry.last_errors(*after, *limit)})),
        Request::Reload { .. } => Err("the master reloads".to_owned()),
        Request::Top { .. } => Err("it is shown from the status".to_owned()),
    }
}

fn close_all(registry: &Registry, list: &Listing, tunnels: Tunnels) -> Result<Value, String> {
    if !list.selects() {
        return Err("close-all needs --client, --state, --upstream or --route".to_owned());
    }
    let (closed, complete) = registry.close_all(&list.filter()?, tunnels);
    Ok(json!({"closed": closed, "complete": complete}))
}

fn act_on_cache(act: &CacheAct, generation: &Generation) -> Result<Value, String> {
    let (CacheAct::List { of } | CacheAct::Purge { of }) = act;
    let CachedKeys { zone, key, limit } = of;
    let (wanted, limit) = (KeyPattern::parse(key), (*limit).min(ROWS_MAX));
    let found = match act {
        CacheAct::List { .. } => generation.list_cache(zone, &wanted, limit),
        CacheAct::Purge { .. } => generation.purge_cache(zone, &wanted, limit),
    };
    let found = found.ok_or_else(|| format!("no cache \"{zone}\": `holdfast ctl cache` lists them"))?;
    Ok(json!(found))
}

fn level_of(word: &str) -> Result<Option<Level>, String> {
    if word == "default" {
        return Ok(None);
    }
    let found = Level::ALL.into_iter().find(|level| level.label() == word);
    found.map(Some).ok_or_else(|| {
        let all: Vec<_> = Level::ALL.map(Level::label).into();
        format!("`{word}` is not a level: {} or default", all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway::ErrorLog;

    #[test]
    fn requests_and_answers_pass_the_channel() {
        let packet = encode(7, &Request::Reload { dry_run: true }).unwrap();
        assert_eq!(decode(packet.as_bytes()), Some((7, Request::Reload { dry_run: true })));
        let long = Request::LogLevel { level: Some("x".repeat(5000)) };
        assert_eq!(encode(7, &long), None);
        let answer = Answer::of(Err("no".to_owned()));
        assert_eq!(decode_answer(&encode_answer(9, &answer)), Some((9, answer)));
        assert_eq!((decode(b"x"), decode_answer(b"short")), (None, None));
    }

    #[test]
    fn levels_are_set_and_reset() {
        let registry = Registry::leak(1, ErrorLog::new(Level::Emerg, 0)).unwrap();
        assert!(level_of("loud").unwrap_err().contains("is not a level"));
        registry.set_log_level(level_of("debug").unwrap());
        assert_eq!(registry.log_level(), Some(Level::Debug));
        registry.set_log_level(level_of("default").unwrap());
        assert_eq!(registry.log_level(), None);
    }
}
