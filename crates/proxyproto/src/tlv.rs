//! The TLVs of version 2, by the names that nginx gives them in `$proxy_protocol_tlv_…`.

/// Bytes of a TLV ahead of its value: type, and length.
const TLV_HEAD_BYTES: usize = 3;
/// Bytes in the value of `ssl` ahead of its own TLVs: what the client did, and how its certificate was verified.
const SSL_HEAD_BYTES: usize = 5;
const SSL: u8 = 0x20;

/// nginx's names of types.
const NAMES: [(&str, u8); 5] =
    [("alpn", 0x01), ("authority", 0x02), ("unique_id", 0x05), ("ssl", SSL), ("netns", 0x30)];
/// The same inside `ssl`.
const SSL_NAMES: [(&str, u8); 5] =
    [("version", 0x21), ("cn", 0x22), ("cipher", 0x23), ("sig_alg", 0x24), ("key_alg", 0x25)];

/// What a name of a TLV means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlvName {
    /// A type.
    Type(u8),
    /// A type inside `ssl`.
    Ssl(u8),
    /// How the client's certificate was verified: a number, 0 for success.
    SslVerify,
}

impl TlvName {
    /// Reads `alpn`, `ssl_cn`, `0x05`, `ssl_0x21` and so on.
    pub fn parse(name: &[u8]) -> Option<Self> {
        match name.strip_prefix(b"ssl_") {
            Some(b"verify") => Some(Self::SslVerify),
            Some(rest) => type_of(rest, &SSL_NAMES).map(Self::Ssl),
            None => type_of(name, &NAMES).map(Self::Type),
        }
    }
}

fn type_of(name: &[u8], names: &[(&str, u8)]) -> Option<u8> {
    if let Some(digits) = name.strip_prefix(b"0x") {
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        return u8::from_str_radix(digits, 16).ok();
    }
    names.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, code)| *code)
}

/// Appends the value of the first TLV of its type; `false` if there is no such TLV. A malformed TLV ends the list.
pub fn write_tlv(tlvs: &[u8], name: TlvName, out: &mut Vec<u8>) -> bool {
    let value = match name {
        TlvName::Type(code) => find(tlvs, code),
        TlvName::Ssl(code) => find(tlvs, SSL).and_then(|ssl| find(ssl.get(SSL_HEAD_BYTES..)?, code)),
        TlvName::SslVerify => {
            let verify = find(tlvs, SSL).and_then(|ssl| ssl.get(1..SSL_HEAD_BYTES)?.first_chunk());
            let Some(verify) = verify else { return false };
            out.extend_from_slice(u32::from_be_bytes(*verify).to_string().as_bytes());
            return true;
        }
    };
    out.extend_from_slice(value.unwrap_or_default());
    value.is_some()
}

fn find(mut tlvs: &[u8], code: u8) -> Option<&[u8]> {
    loop {
        let (&[kind, high, low], rest) = tlvs.split_first_chunk::<TLV_HEAD_BYTES>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
        if kind == code {
            return Some(value);
        }
        tlvs = rest;
    }
}
