//! Checks of a request against what was negotiated: whether its server speaks the connection's protocol, whether it came
//! over TLS if that is required, whether it is for the server of the handshake, and whether the client has shown a
//! certificate if one is required.

use crate::exchange::reply::Reply;
use crate::exchange::{Exchange, tls_view};
use crate::plan::tls::{ClientDemands, VerifyPlan};
use crate::registry::tls_choice::server_named;
use rules::captures::Captures;
use std::rc::Rc;
use tls::{SessionFacts, VerifyResult};

/// Misdirected Request (RFC 9110, 15.5.20).
const MISDIRECTED: u16 = 421;
/// nginx's own statuses: the client's certificate is invalid, there is none, and plain HTTP on a TLS port. Clients see
/// 400.
const CERTIFICATE_FAILS: u16 = 495;
const NO_CERTIFICATE: u16 = 496;
const PLAIN_HTTP: u16 = 497;

impl Exchange {
    /// Refuses a request over HTTP/2 for a server without HTTP/2: another connection negotiates again.
    pub(crate) fn check_protocol(&self) -> Result<(), Reply> {
        let listener = self.generation.listener(self.down.listener());
        let is_offered = self.generation.server(self.routing.target.server()).http2.enabled
            || listener.is_some_and(|listener| listener.http2);
        if is_offered || self.down.http2().is_empty() {
            return Ok(());
        }
        self.client_log(
            "client attempted to request the server name for which the negotiated protocol is disabled while reading \
             client request headers",
        );
        Err(Reply::error(MISDIRECTED))
    }

    /// Refuses a request that violates the TLS requirements.
    pub(crate) fn check_tls(&mut self) -> Result<(), Reply> {
        if self.down.is_plain_by_mistake() {
            self.client_log("client sent plain HTTP request to HTTPS port while reading client request headers");
            return Err(Reply::error(PLAIN_HTTP));
        }
        if self.down.tls(|_| ()).is_none() {
            return Ok(());
        }
        let generation = Rc::clone(&self.generation);
        let Some(demands) = generation.server(self.routing.target.server()).demands() else { return Ok(()) };
        if self.is_misdirected() {
            self.client_log("client attempted to request the server name different from the one that was negotiated");
            return Err(Reply::error(MISDIRECTED));
        }
        self.check_certificate(demands)
    }

    /// Whether the client named one server in its handshake, and another one in its request.
    fn is_misdirected(&self) -> bool {
        let Some(listener) = self.generation.listener(self.down.listener()) else { return false };
        let head = &self.request.head;
        let host = head.host.map_or(&b""[..], |host| host.name.of(&self.request.bytes));
        let host = host.strip_suffix(b".").unwrap_or(host);
        let differs = |session: &dyn SessionFacts| {
            let name = session.server_name()?;
            server_named(listener, name, &mut Captures::default())?;
            let name = name.strip_suffix('.').unwrap_or(name);
            Some(head.host.is_some() && !name.as_bytes().eq_ignore_ascii_case(host))
        };
        self.down.tls(differs).flatten().unwrap_or_default()
    }

    fn check_certificate(&mut self, demands: &ClientDemands) -> Result<(), Reply> {
        let result = self.down.tls(|session| result_of(session, demands)).unwrap_or(VerifyResult::None);
        let Some(message) = certificate_fault(result, demands.verify) else { return Ok(()) };
        self.client_log(&format!("{message} while reading client request headers"));
        Err(Reply::error(if matches!(result, VerifyResult::None) { NO_CERTIFICATE } else { CERTIFICATE_FAILS }))
    }
}

/// nginx's phrase for a client's certificate that is missing or invalid; `None` if it is accepted.
pub(crate) fn certificate_fault(result: VerifyResult, verify: VerifyPlan) -> Option<String> {
    match (result, verify) {
        (VerifyResult::Success, _)
        | (VerifyResult::NoAuthority(_), VerifyPlan::OptionalNoAuthority)
        | (VerifyResult::None, VerifyPlan::Optional | VerifyPlan::OptionalNoAuthority) => None,
        (VerifyResult::None, VerifyPlan::Required) => Some("client sent no required SSL certificate".to_owned()),
        (VerifyResult::NoGoodStanding(reason), _) => Some(format!("client SSL certificate verify error: {reason}")),
        (VerifyResult::Failed(reason) | VerifyResult::NoAuthority(reason), _) => {
            let number = tls::verify_error_number(reason);
            Some(format!("client SSL certificate verify error: ({number}:{reason})"))
        }
    }
}

/// The result of the check of the client's certificate. A check for another server's demands does not count.
pub(crate) fn result_of(session: &dyn SessionFacts, demands: &ClientDemands) -> VerifyResult {
    session
        .client_verification()
        .filter(|_| tls_view::counts(session, Some(demands)))
        .map_or(VerifyResult::None, |verification| verification.result)
}
