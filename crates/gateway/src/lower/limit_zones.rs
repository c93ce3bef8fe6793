//! `limit_req`, `limit_conn` and their zones. A zone is known by name and size, as in nginx: a reload that keeps both keeps
//! what it has counted, and the rate may change.

use crate::base::logs::error::Level;
use crate::lower::{Lowering, Registry};
use crate::registry::limit_zones::{
    ConnectionLimit, ConnectionZone, LimitPlan, RefusalPlan, RequestLimit, RequestZone, key_text,
};
use conf::diagnostic::Diagnostic;
use conf::model;
use conf::source::Span;
use conf::value::words::LogLevel;
use rules::limit::RequestRule;
use rules::template::Template;
use std::collections::HashMap;
use std::sync::Arc;

/// A zone's identity: its name and its bytes.
type ZoneKey = (String, u64);

/// The zones of the process.
#[derive(Debug, Default)]
pub(super) struct LimitZones {
    requests: HashMap<ZoneKey, Arc<RequestZone>>,
    connections: HashMap<ZoneKey, Arc<ConnectionZone>>,
}

impl Registry {
    /// Lets go of zones that nobody but this registry holds: earlier configurations had them.
    pub(super) fn forget_limit_zones(&mut self) {
        self.limit_zones.requests.retain(|_, zone| Arc::strong_count(zone) > 1);
        self.limit_zones.connections.retain(|_, zone| Arc::strong_count(zone) > 1);
    }
}

/// The keys of the configuration's zones, compiled.
#[derive(Debug, Default)]
pub(super) struct ZoneKeys {
    requests: Vec<Template>,
    connections: Vec<Template>,
}

impl Lowering<'_> {
    /// Compiles the keys, also those of zones that nobody uses: a mistake there is one all the same.
    pub(super) fn compile_zone_keys(&mut self) {
        let http = self.http;
        let requests = http.request_zones.iter().map(|zone| self.template(&zone.key)).collect();
        let connections = http.connection_zones.iter().map(|zone| self.template(&zone.key)).collect();
        self.zone_keys = ZoneKeys { requests, connections };
    }

    /// What a location limits; `None` for nothing.
    pub(super) fn limit_plan(&mut self, limits: &model::LimitSettings) -> Option<Box<LimitPlan>> {
        if limits.requests.is_empty() && limits.connections.is_empty() {
            return None;
        }
        Some(Box::new(LimitPlan {
            requests: limits.requests.iter().filter_map(|limit| self.request_limit(limit)).collect(),
            request_refusal: RefusalPlan {
                status: limits.request_status,
                level: limits.request_log_level.into(),
                dry_run: limits.request_dry_run,
            },
            delay_level: one_lower(limits.request_log_level),
            connections: limits.connections.iter().filter_map(|limit| self.connection_limit(*limit)).collect(),
            connection_refusal: RefusalPlan {
                status: limits.connection_status,
                level: limits.connection_log_level.into(),
                dry_run: limits.connection_dry_run,
            },
        }))
    }

    fn request_limit(&mut self, limit: &model::RequestLimit) -> Option<RequestLimit> {
        let written = self.http.request_zones.get(limit.zone.0 as usize)?;
        let text = key_text(&written.key);
        let zones = &mut self.registry.limit_zones.requests;
        let zone = zones
            .entry((written.name.clone(), written.size))
            .or_insert_with(|| Arc::new(RequestZone::new(&written.name, &text, written.size)));
        let zone = Arc::clone(zone);
        self.refuse_other_key("limit_req", &written.name, [&text, &zone.key_text], written.span);
        let rule = RequestRule { rate_milli: written.rate_milli, burst: limit.burst, delay: limit.delay };
        let key = self.zone_keys.requests.get(limit.zone.0 as usize)?.clone();
        Some(RequestLimit { zone, key, rule })
    }

    fn connection_limit(&mut self, limit: model::ConnectionLimit) -> Option<ConnectionLimit> {
        let written = self.http.connection_zones.get(limit.zone.0 as usize)?;
        let text = key_text(&written.key);
        let zones = &mut self.registry.limit_zones.connections;
        let zone = zones
            .entry((written.name.clone(), written.size))
            .or_insert_with(|| Arc::new(ConnectionZone::new(&written.name, &text, written.size)));
        let zone = Arc::clone(zone);
        self.refuse_other_key("limit_conn_zone", &written.name, [&text, &zone.key_text], written.span);
        let key = self.zone_keys.connections.get(limit.zone.0 as usize)?.clone();
        Some(ConnectionLimit { zone, key, most: limit.most })
    }

    /// What was counted by another key says nothing about this one, and nobody knows which is meant.
    fn refuse_other_key(&mut self, word: &str, zone: &str, [now, before]: [&str; 2], span: Span) {
        if now == before {
            return;
        }
        let message = format!("{word} \"{zone}\" uses the \"{now}\" key while previously it used the \"{before}\" key");
        let hint = "another key needs another zone: give it another name";
        if !self.found.iter().any(|known| known.message == message) {
            self.found.push(Diagnostic::error(span, message).with_hint(hint));
        }
    }
}

/// The level of a line about a delay, as in nginx.
fn one_lower(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::Warn,
        LogLevel::Warn => Level::Notice,
        _ => Level::Info,
    }
}
