//! `health_check`: the check's request, its interval, and the conditions for a good answer.

use crate::plan::upstream_tls::{NamePlan, UpstreamTlsPlan, without_port};
use conf::model::{CheckCondition, CheckKind, HealthCheck, TextTest};
use http1::Version;
use http1::outgoing::{FieldLine, FieldToken, HeadWriter, OutgoingHead};
use std::sync::Arc;
use std::time::Duration;
use tls::ClientSide;
use upstream::check::CheckPolicy;

/// A group's `health_check`.
#[derive(Debug)]
pub struct CheckPlan {
    pub(crate) group: Box<str>,
    pub(crate) policy: CheckPolicy,
    /// Timeout of a whole check, including connecting.
    pub timeout: Duration,
    /// The request.
    pub(crate) asked: Asked,
    /// TLS with the server name, if used.
    pub tls: Option<CheckTls>,
    /// The port to use instead of a peer's own.
    pub(crate) port: Option<u16>,
}

/// The request of a check.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Nothing: connecting is enough.
    Nothing,
    Http(HttpCheck),
    Grpc(GrpcCheck),
}

/// A check by `grpc.health.v1`.
#[derive(Debug)]
pub(crate) struct GrpcCheck {
    /// `:authority`
    pub(crate) host: Box<[u8]>,
    /// The request's message, with its prefix.
    pub(crate) message: Box<[u8]>,
    /// The `grpc-status` of a healthy peer.
    pub(crate) status: u8,
}

/// TLS of a check.
#[derive(Debug)]
pub struct CheckTls {
    /// The settings.
    pub side: ClientSide,
    /// The name for SNI and certificate.
    pub name: Option<Arc<str>>,
}

/// A check by a request.
#[derive(Debug)]
pub struct HttpCheck {
    /// The whole request.
    pub request: Box<[u8]>,
    /// Conditions that must hold once the head has come.
    pub(crate) head_conditions: Vec<CheckCondition>,
    /// Conditions on the body.
    pub(crate) body_conditions: Vec<TextTest>,
}

impl CheckPlan {
    /// The plan of a group.
    pub(crate) fn new(group: &str, written: &HealthCheck) -> Self {
        let host = |host: &'_ Option<Vec<u8>>| host.clone().unwrap_or_else(|| group.as_bytes().to_vec());
        let asked = match &written.kind {
            CheckKind::Tcp => Asked::Nothing,
            CheckKind::Http { uri, host: named, conditions } => {
                Asked::Http(HttpCheck::new(uri, &host(named), conditions))
            }
            CheckKind::Grpc { service, host: named, status } => {
                Asked::Grpc(GrpcCheck::new(&host(named), service, *status))
            }
        };
        Self {
            group: group.into(),
            policy: CheckPolicy {
                interval_ms: written.interval.as_millis() as u64,
                jitter_ms: written.jitter.as_millis() as u64,
                fails: written.fails,
                passes: written.passes,
            },
            timeout: written.timeout,
            asked,
            tls: None,
            port: written.port,
        }
    }
}

impl CheckPlan {
    /// Makes the check use TLS. A server name that each request sets for itself is replaced by the group's.
    pub(crate) fn use_tls(&mut self, tls: &UpstreamTlsPlan) {
        let name = match &tls.name {
            NamePlan::Nameless => None,
            NamePlan::Fixed(name) => Some(Arc::clone(name)),
            NamePlan::Made(_) => without_port(self.group.as_bytes()).map(Into::into),
        };
        self.tls = Some(CheckTls { side: tls.side.clone(), name });
    }
}

impl GrpcCheck {
    pub(crate) fn new(host: &[u8], service: &[u8], status: u8) -> Self {
        // `HealthCheckRequest.service`: field 1, a string. The configuration limits it to a length that fits in one
        // byte.
        let mut message = vec![0; 5];
        if !service.is_empty() {
            message.extend_from_slice(&[0x0A, service.len() as u8]);
            message.extend_from_slice(service);
        }
        message[4] = (message.len() - 5) as u8;
        Self { host: host.into(), message: message.into(), status }
    }
}

impl HttpCheck {
    pub(crate) fn new(uri: &[u8], host: &[u8], conditions: &[CheckCondition]) -> Self {
        // If the request cannot be encoded, an empty one is sent, and the peer fails its checks visibly.
        let request = encode(uri, host).unwrap_or_default();
        let mut check = Self { request: request.as_bytes().into(), head_conditions: vec![], body_conditions: vec![] };
        for condition in conditions {
            match condition {
                CheckCondition::Body(test) => check.body_conditions.push(test.clone()),
                other => check.head_conditions.push(other.clone()),
            }
        }
        check
    }
}

fn encode(uri: &[u8], host: &[u8]) -> Option<OutgoingHead> {
    let mut head = HeadWriter::begin(OutgoingHead::default(), |out| out.extend_from_slice(b"GET")).ok()?;
    head.target(Version::Http11, |out| out.extend_from_slice(uri)).ok()?;
    let agent = concat!("holdfast/", env!("CARGO_PKG_VERSION"), " (health check)");
    let fields: [(&[u8], &[u8]); 4] = [
        (b"Host", host),
        // The peer closes first, so that no check leaves one of our ports in TIME_WAIT.
        (b"Connection", b"close"),
        (b"Accept", b"*/*"),
        (b"User-Agent", agent.as_bytes()),
    ];
    for (name, value) in fields {
        head.line(&FieldLine::new(&FieldToken::new(name)?, value)?);
    }
    Some(head.finish())
}
