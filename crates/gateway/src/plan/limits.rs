//! `limit_req`, `limit_conn` and their zones.

use crate::base::logs::error::Level;
use conf::source::Span;
use conf::value::Part;
use rules::limit::RequestRule;
use rules::template::Template;

/// Index of a `limit_req_zone` in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestZoneId(pub(crate) u32);

/// Index of a `limit_conn_zone` in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionZoneId(pub(crate) u32);

/// A zone that is used. Zones of several configurations are the same if name and size are equal.
pub(crate) struct ZonePlan {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// The key as it was written.
    pub(crate) key_text: String,
    pub(crate) span: Span,
}

/// The limits of a location.
pub(crate) struct LimitPlan {
    /// `limit_req`, in order.
    pub(crate) requests: Vec<RequestLimit>,
    pub(crate) request_refusal: RefusalPlan,
    /// The level of the log line about a delay.
    pub(crate) delay_level: Level,
    /// `limit_conn`, in order.
    pub(crate) connections: Vec<ConnectionLimit>,
    pub(crate) connection_refusal: RefusalPlan,
}

/// What happens to a request that exceeds a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusalPlan {
    pub(crate) status: u16,
    pub(crate) level: Level,
    /// Only log, do not refuse.
    pub(crate) dry_run: bool,
}

/// One `limit_req`.
pub(crate) struct RequestLimit {
    pub(crate) zone: RequestZoneId,
    pub(crate) key: Template,
    pub(crate) rule: RequestRule,
}

/// One `limit_conn`.
pub(crate) struct ConnectionLimit {
    pub(crate) zone: ConnectionZoneId,
    pub(crate) key: Template,
    pub(crate) most: u32,
}

/// A key as it was written.
pub(crate) fn key_text(key: &conf::value::Template) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Part::Variable(name) => format!("${name}"),
        Part::Capture(group) => format!("${group}"),
    };
    key.parts.iter().map(part).collect()
}
