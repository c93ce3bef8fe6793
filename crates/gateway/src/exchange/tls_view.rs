//! The values of `$ssl_…`, read from the client's TLS session. The views of exchanges and of sessions of `stream` call it;
//! values are not cached.

use crate::exchange::Exchange;
use crate::plan::tls::ClientDemands;
use rules::variable::TlsVariable;
use std::time::Duration;
use tls::SessionFacts;

/// Appends a value of the client's connection; without TLS there is none.
pub(crate) fn of(exchange: &Exchange, variable: TlsVariable, out: &mut Vec<u8>) -> bool {
    let now = exchange.thread.clock.now();
    let server = exchange.generation.server(exchange.routing.target.server);
    exchange.down.tls(|session| of_session(variable, session, server.demands(), now, out)).unwrap_or_default()
}

/// The same for a session of TLS. `demands` are those of the server; `now` counts from 1970.
pub(crate) fn of_session(
    variable: TlsVariable,
    session: &dyn SessionFacts,
    demands: Option<&ClientDemands>,
    now: Duration,
    out: &mut Vec<u8>,
) -> bool {
    if variable.is_of_client() && !counts(session, demands) {
        return variable == TlsVariable::ClientVerify && append(Some("NONE"), out);
    }
    write(variable, session, now, out)
}

/// Whether the client's certificate was checked against these demands: it may have been checked for another server.
pub(crate) fn counts(session: &dyn SessionFacts, demands: Option<&ClientDemands>) -> bool {
    demands.is_none_or(|demands| session.chosen().is_some_and(|side| side.asks_for(&demands.check)))
}

/// Appends a value, if there is one. As in nginx, an empty value is none. `now` counts from 1970.
fn write(variable: TlsVariable, session: &dyn SessionFacts, now: Duration, out: &mut Vec<u8>) -> bool {
    match variable {
        TlsVariable::Protocol => append(session.protocol().map(tls::Protocol::name), out),
        TlsVariable::Cipher => append(session.cipher(), out),
        TlsVariable::Ciphers => append(session.offered_ciphers(), out),
        TlsVariable::Curve => append(session.curve(), out),
        TlsVariable::Curves => append(session.offered_curves(), out),
        TlsVariable::Signature => append(session.signature(), out),
        TlsVariable::Signatures => append(session.offered_signatures(), out),
        TlsVariable::ClientSignature => append(session.client_signature(), out),
        TlsVariable::ServerName => append(session.server_name(), out),
        TlsVariable::SessionId => append(session.session_id().map(hexadecimal), out),
        TlsVariable::SessionReused => append(Some(if session.is_resumed() { "r" } else { "." }), out),
        // As in nginx it is empty once the handshake is complete.
        TlsVariable::EarlyData => session.is_early_data() && append(Some("1"), out),
        TlsVariable::AlpnProtocol => append(session.alpn(), out),
        TlsVariable::ClientVerify => {
            let verification = session.client_verification();
            append(verification.map_or_else(|| "NONE".to_owned(), |found| found.result.text()).into(), out)
        }
        _ => client_certificate(variable, session, now, out),
    }
}

/// A value from the client's certificate.
fn client_certificate(variable: TlsVariable, session: &dyn SessionFacts, now: Duration, out: &mut Vec<u8>) -> bool {
    let Some(certificate) = session.peer_certificate() else { return false };
    let value = match variable {
        TlsVariable::ClientRawCert => Some(certificate.pem()),
        // Each further line begins with a tab, so that the value fits into a folded header field.
        TlsVariable::ClientCert => Some(certificate.pem().trim_end().replace('\n', "\n\t")),
        TlsVariable::ClientEscapedCert => Some(certificate.escaped()),
        TlsVariable::ClientSubject => certificate.subject(),
        TlsVariable::ClientIssuer => certificate.issuer(),
        TlsVariable::ClientSubjectLegacy => certificate.subject_legacy(),
        TlsVariable::ClientIssuerLegacy => certificate.issuer_legacy(),
        TlsVariable::ClientSerial => certificate.serial(),
        TlsVariable::ClientFingerprint => Some(certificate.fingerprint()),
        TlsVariable::ClientValidStart => certificate.valid_from(),
        TlsVariable::ClientValidEnd => certificate.valid_to(),
        TlsVariable::ClientValidRemain => certificate.days_left(now).map(|days| days.to_string()),
        _ => None,
    };
    append(value, out)
}

fn append(value: Option<impl AsRef<[u8]>>, out: &mut Vec<u8>) -> bool {
    let Some(value) = value else { return false };
    out.extend_from_slice(value.as_ref());
    !value.as_ref().is_empty()
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::variable::{UserVariables, Variable};
    use std::sync::Arc;
    use tls::{ClientCheck, ClientSide, OneServer, Pair, ServerSide, Session, Trust};

    /// The server's end of a connection with a complete handshake.
    fn session(client: &ClientSide, server: &Arc<ServerSide>) -> Session {
        let mut asks = Session::client(client, "a.test").unwrap();
        let mut answers = Session::server(Arc::new(OneServer(Arc::clone(server))));
        for _ in 0..4 {
            let mut wire = Vec::new();
            asks.take_output(&mut wire);
            answers.receive(&mut wire, &mut |_| ()).unwrap();
            wire.clear();
            answers.take_output(&mut wire);
            asks.receive(&mut wire, &mut |_| ()).unwrap();
        }
        assert!(!answers.is_handshaking());
        answers
    }

    fn pair() -> Pair {
        Pair::self_made(&["a.test".to_owned()]).unwrap()
    }

    /// The value of a variable, `-` for none.
    fn value(session: &Session, name: &str) -> String {
        let Some(Variable::Tls(variable)) = Variable::resolve(name, &UserVariables::default()) else {
            panic!("{name} is not about TLS")
        };
        let mut out = Vec::new();
        if write(variable, session, Duration::from_hours(490_896), &mut out) {
            String::from_utf8(out).unwrap()
        } else {
            assert_eq!(out, b"", "{name}");
            "-".to_owned()
        }
    }

    #[test]
    fn the_connection_is_described_as_nginx_does() {
        let client = ClientSide::new(Trust::Anyone).alpn(["http/1.1"]).build().unwrap();
        let side = Arc::new(ServerSide::new().pair(pair()).alpn(["http/1.1"]).keep_offers().build().unwrap());
        let first = session(&client, &side);
        for (name, expected) in [
            ("ssl_protocol", "TLSv1.3"),
            ("ssl_cipher", "TLS_AES_256_GCM_SHA384"),
            ("ssl_curve", "X25519MLKEM768"),
            ("ssl_server_name", "a.test"),
            ("ssl_alpn_protocol", "http/1.1"),
            ("ssl_session_reused", "."),
            ("ssl_early_data", "-"),
            ("ssl_client_verify", "NONE"),
            ("ssl_client_s_dn", "-"),
            ("ssl_client_cert", "-"),
        ] {
            assert_eq!(value(&first, name), expected, "{name}");
        }
        let id = value(&first, "ssl_session_id");
        assert!(id.len() == 64 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");
        assert!(value(&first, "ssl_curves").starts_with("X25519MLKEM768:X25519:prime256v1"));
        assert!(value(&first, "ssl_ciphers").contains(":ECDHE-RSA-AES128-GCM-SHA256"));
        assert_eq!(value(&session(&client, &side), "ssl_session_reused"), "r");
    }

    #[test]
    fn offers_have_no_value_unless_they_were_kept() {
        let client = ClientSide::new(Trust::Anyone).build().unwrap();
        let session = session(&client, &Arc::new(ServerSide::new().pair(pair()).build().unwrap()));
        assert_eq!([value(&session, "ssl_ciphers"), value(&session, "ssl_curves")], ["-", "-"]);
        assert_eq!(value(&session, "ssl_alpn_protocol"), "-");
    }

    #[test]
    fn a_client_certificate_is_described() {
        let check = Arc::new(ClientCheck::new(b"", b"").unwrap());
        let side = Arc::new(ServerSide::new().pair(pair()).client_check(check).build().unwrap());
        let own = pair();
        let pem = own.chain_pem();
        let client = ClientSide::new(Trust::Anyone).pair(Some(own)).build().unwrap();
        let session = session(&client, &side);
        let lines: Vec<&str> = pem.lines().collect();
        assert_eq!(value(&session, "ssl_client_raw_cert"), format!("{}\n", lines.join("\n")));
        assert_eq!(value(&session, "ssl_client_cert"), lines.join("\n\t"));
        let escaped = value(&session, "ssl_client_escaped_cert");
        assert!(escaped.starts_with("-----BEGIN%20CERTIFICATE-----%0A") && escaped.ends_with("-----%0A"), "{escaped}");
        assert_eq!(value(&session, "ssl_client_s_dn"), "CN=rcgen self signed cert");
        assert_eq!(value(&session, "ssl_client_i_dn_legacy"), "/CN=rcgen self signed cert");
        assert_eq!(value(&session, "ssl_client_verify"), "FAILED:self-signed certificate");
        assert_eq!(value(&session, "ssl_client_fingerprint").len(), 40);
        assert_ne!(value(&session, "ssl_client_serial"), "-");
        assert!(value(&session, "ssl_client_v_start").ends_with(" GMT"));
        assert!(value(&session, "ssl_client_v_end").ends_with(" GMT"));
        assert!(value(&session, "ssl_client_v_remain").parse::<u64>().unwrap() > 0);
    }
}
