//! `limit_req`, `limit_conn` and their zones.

use crate::base::logs::error::Level;
use crate::lower::Lowering;
use crate::plan::limits::{
    ConnectionLimit, ConnectionZoneId, LimitPlan, RefusalPlan, RequestLimit, RequestZoneId, ZonePlan, key_text,
};
use conf::model;
use conf::source::Span;
use conf::value::words::LogLevel;
use rules::limit::RequestRule;
use rules::template::Template;

/// The keys of the configuration's zones, compiled.
#[derive(Debug, Default)]
pub(super) struct ZoneKeys {
    requests: Vec<Template>,
    connections: Vec<Template>,
}

impl Lowering<'_> {
    /// Compiles the keys, also those of unused zones: an error there is reported as well.
    pub(super) fn compile_zone_keys(&mut self) {
        let declared = self.declared;
        let requests = declared.request_zones.iter().map(|zone| self.template(&zone.key)).collect();
        let connections = declared.connection_zones.iter().map(|zone| self.template(&zone.key)).collect();
        self.zone_keys = ZoneKeys { requests, connections };
    }

    /// Gives all zones their numbers, in the order of the text.
    pub(super) fn number_zones(&mut self) {
        let declared = self.declared;
        for zone in &declared.request_zones {
            zone_of(&mut self.plan.request_zones, &zone.name, zone.size, &zone.key, zone.span);
        }
        for zone in &declared.connection_zones {
            zone_of(&mut self.plan.connection_zones, &zone.name, zone.size, &zone.key, zone.span);
        }
    }

    /// The limits of a location; `None` if there are none.
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
        let written = self.declared.request_zones.get(limit.zone.0 as usize)?;
        let zones = &mut self.plan.request_zones;
        let zone = RequestZoneId(zone_of(zones, &written.name, written.size, &written.key, written.span));
        if let Some(sharing) = &mut self.sharing {
            sharing.note_request_zone(zone.0);
        }
        let rule = RequestRule { rate_milli: written.rate_milli, burst: limit.burst, delay: limit.delay };
        let key = self.zone_keys.requests.get(limit.zone.0 as usize)?.clone();
        Some(RequestLimit { zone, key, rule })
    }

    fn connection_limit(&mut self, limit: model::ConnectionLimit) -> Option<ConnectionLimit> {
        let written = self.declared.connection_zones.get(limit.zone.0 as usize)?;
        let zones = &mut self.plan.connection_zones;
        let zone = ConnectionZoneId(zone_of(zones, &written.name, written.size, &written.key, written.span));
        if let Some(sharing) = &mut self.sharing {
            sharing.note_connection_zone(zone.0);
        }
        let key = self.zone_keys.connections.get(limit.zone.0 as usize)?.clone();
        Some(ConnectionLimit { zone, key, most: limit.most })
    }
}

/// The index of a zone, which is added to the list on first use.
fn zone_of(zones: &mut Vec<ZonePlan>, name: &str, bytes: u64, key: &conf::value::Template, span: Span) -> u32 {
    let known = zones.iter().position(|known| known.span == span && known.name == name);
    known.unwrap_or_else(|| {
        zones.push(ZonePlan { name: name.into(), bytes, key_text: key_text(key), span });
        zones.len() - 1
    }) as u32
}

/// The level of a log line about a delay, as in nginx.
fn one_lower(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::Warn,
        LogLevel::Warn => Level::Notice,
        _ => Level::Info,
    }
}
