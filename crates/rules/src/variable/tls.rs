//! Variables about TLS towards clients. On a connection in clear each of them has no value. The names are apart from the fixed ones,
//! because nginx lets a configuration define variables of these names.

/// One of them, by its place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // nginx's documented variables, one to one, as the table below has them
pub enum TlsVariable {
    AlpnProtocol,
    Cipher,
    Ciphers,
    ClientCert,
    ClientEscapedCert,
    ClientFingerprint,
    ClientIssuer,
    ClientIssuerLegacy,
    ClientRawCert,
    ClientSerial,
    ClientSignature,
    ClientSubject,
    ClientSubjectLegacy,
    ClientValidEnd,
    ClientValidRemain,
    ClientValidStart,
    ClientVerify,
    Curve,
    Curves,
    EarlyData,
    Protocol,
    ServerName,
    SessionId,
    SessionReused,
    Signature,
    Signatures,
}

/// Every name, sorted.
const NAMES: &[(&str, TlsVariable)] = &[
    ("ssl_alpn_protocol", TlsVariable::AlpnProtocol),
    ("ssl_cipher", TlsVariable::Cipher),
    ("ssl_ciphers", TlsVariable::Ciphers),
    ("ssl_client_cert", TlsVariable::ClientCert),
    ("ssl_client_escaped_cert", TlsVariable::ClientEscapedCert),
    ("ssl_client_fingerprint", TlsVariable::ClientFingerprint),
    ("ssl_client_i_dn", TlsVariable::ClientIssuer),
    ("ssl_client_i_dn_legacy", TlsVariable::ClientIssuerLegacy),
    ("ssl_client_raw_cert", TlsVariable::ClientRawCert),
    ("ssl_client_s_dn", TlsVariable::ClientSubject),
    ("ssl_client_s_dn_legacy", TlsVariable::ClientSubjectLegacy),
    ("ssl_client_serial", TlsVariable::ClientSerial),
    ("ssl_client_sigalg", TlsVariable::ClientSignature),
    ("ssl_client_v_end", TlsVariable::ClientValidEnd),
    ("ssl_client_v_remain", TlsVariable::ClientValidRemain),
    ("ssl_client_v_start", TlsVariable::ClientValidStart),
    ("ssl_client_verify", TlsVariable::ClientVerify),
    ("ssl_curve", TlsVariable::Curve),
    ("ssl_curves", TlsVariable::Curves),
    ("ssl_early_data", TlsVariable::EarlyData),
    ("ssl_protocol", TlsVariable::Protocol),
    ("ssl_server_name", TlsVariable::ServerName),
    ("ssl_session_id", TlsVariable::SessionId),
    ("ssl_session_reused", TlsVariable::SessionReused),
    ("ssl_sigalg", TlsVariable::Signature),
    ("ssl_sigalgs", TlsVariable::Signatures),
];

impl TlsVariable {
    /// What these variables depend on, for a note where a configuration lacks it.
    pub const NEEDS: &'static str = "a TLS listener (`listen … ssl`)";

    /// The variable of a name in lower case.
    pub(super) fn find(name: &str) -> Option<Self> {
        let at = NAMES.binary_search_by_key(&name, |(known, _)| known).ok()?;
        Some(NAMES[at].1)
    }

    /// Every name, for suggestions.
    pub(super) fn names<'a>() -> impl Iterator<Item = &'a str> {
        NAMES.iter().map(|(name, _)| -> &'a str { name })
    }

    /// Its name, without `$`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Whether `stream` has it, too.
    pub(super) fn is_of_stream(self) -> bool {
        !matches!(self, Self::ClientIssuerLegacy | Self::ClientSubjectLegacy | Self::EarlyData)
    }

    /// Whether it describes the client's certificate.
    pub fn is_of_client(self) -> bool {
        self.name().starts_with("ssl_client_")
    }

    /// Whether it shows what the client offered in its hello, which is otherwise not kept.
    pub fn is_offer(self) -> bool {
        matches!(self, Self::Ciphers | Self::Curves | Self::Signatures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_finds_every_name() {
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (name, variable) in NAMES {
            assert_eq!(TlsVariable::find(name), Some(*variable));
            assert_eq!(variable.name(), *name);
        }
        assert_eq!(TlsVariable::find("ssl_made_up"), None);
    }
}
