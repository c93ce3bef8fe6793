//! OpenSSL's texts for the contents of a certificate: distinguished names in both forms, dates, PEM. nginx's variables have these
//! texts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;
use x509_parser::der_parser::asn1_rs::{Oid, Tag};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// OpenSSL's short names of attributes, by object identifier.
const SHORT_NAMES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
];

fn short_name(oid: &Oid<'_>) -> Option<&'static str> {
    let text = oid.to_id_string();
    SHORT_NAMES.iter().find(|(id, _)| *id == text).map(|(_, name)| *name)
}

/// The text of an attribute in UTF-8, if it is of a kind that has one.
fn text_of(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    let value = attribute.attr_value();
    match value.tag() {
        Tag::BmpString => {
            let units: Vec<u16> =
                value.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            Some(String::from_utf16_lossy(&units))
        }
        Tag::Utf8String => Some(String::from_utf8_lossy(value.data).into_owned()),
        Tag::PrintableString | Tag::Ia5String | Tag::TeletexString | Tag::NumericString | Tag::VisibleString => {
            // OpenSSL reads these as Latin-1.
            Some(value.data.iter().map(|&byte| char::from(byte)).collect())
        }
        _ => None,
    }
}

/// As `X509_NAME_print_ex` writes it with `XN_FLAG_RFC2253`: the last attribute first, `\` before what separates.
pub(crate) fn rfc2253(name: &X509Name<'_>) -> String {
    let mut out = String::new();
    let mut parts: Vec<_> = name.iter_rdn().collect();
    parts.reverse();
    for (at, part) in parts.into_iter().enumerate() {
        let mut attributes: Vec<_> = part.iter().collect();
        attributes.reverse();
        for (number, attribute) in attributes.into_iter().enumerate() {
            out.push_str(match (at, number) {
                (0, 0) => "",
                (_, 0) => ",",
                _ => "+",
            });
            push_attribute(attribute, &mut out);
        }
    }
    out
}

fn push_attribute(attribute: &AttributeTypeAndValue<'_>, out: &mut String) {
    let known = short_name(attribute.attr_type());
    match known {
        Some(name) => out.push_str(name),
        None => out.push_str(&attribute.attr_type().to_id_string()),
    }
    out.push('=');
    match (known, text_of(attribute)) {
        (Some(_), Some(text)) => push_escaped(&text, out),
        _ => push_dump(attribute, out),
    }
}

/// `#` and the value in DER, in hexadecimal: what has no name or no text.
fn push_dump(attribute: &AttributeTypeAndValue<'_>, out: &mut String) {
    let value = attribute.attr_value();
    out.push('#');
    let length = value.data.len();
    let mut der = vec![value.tag().0 as u8];
    match u8::try_from(length) {
        Ok(short @ 0..0x80) => der.push(short),
        Ok(byte) => der.extend([0x81, byte]),
        Err(_) => der.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    der.extend_from_slice(value.data);
    for byte in der {
        push_hex(byte, out);
    }
}

pub(crate) fn push_hex(byte: u8, out: &mut String) {
    let _ = write!(out, "{byte:02X}");
}

/// RFC 2253 §2.4, with control characters and bytes beyond ASCII in hexadecimal.
fn push_escaped(text: &str, out: &mut String) {
    let last = text.len().saturating_sub(1);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            0..=0x1f | 0x7f..=0xff => {
                out.push('\\');
                push_hex(byte, out);
            }
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => out.extend(['\\', char::from(byte)]),
            b'#' if at == 0 => out.push_str("\\#"),
            b' ' if at == 0 || at == last => out.push_str("\\ "),
            _ => out.push(char::from(byte)),
        }
    }
}

/// As `X509_NAME_oneline` writes it: `/C=US/O=…`, in the order of the certificate, with `+` inside of a group.
pub(crate) fn legacy(name: &X509Name<'_>) -> String {
    let mut out = String::new();
    let attributes = name.iter_rdn().flat_map(|part| part.iter().enumerate());
    for (number, attribute) in attributes {
        out.push(if number == 0 { '/' } else { '+' });
        match short_name(attribute.attr_type()) {
            Some(name) => out.push_str(name),
            None => out.push_str(&attribute.attr_type().to_id_string()),
        }
        out.push('=');
        for &byte in attribute.attr_value().data {
            if matches!(byte, b'/' | b'+') {
                out.extend(['\\', char::from(byte)]);
            } else if (b' '..=b'~').contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.push_str("\\x");
                push_hex(byte, &mut out);
            }
        }
    }
    out
}

/// As `ASN1_TIME_print` writes it: `Nov  3 09:05:00 2026 GMT`.
pub(crate) fn openssl_date(seconds: i64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days to a date of the Gregorian calendar, in years that begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    let name = MONTHS[month.rem_euclid(12) as usize];
    format!("{name} {day:2} {:02}:{:02}:{:02} {year} GMT", second / 3600, second / 60 % 60, second % 60)
}

/// A certificate as PEM, with OpenSSL's 64 characters a line.
pub(crate) fn to_pem(der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in body.as_bytes().chunks(64) {
        out.extend(line.iter().map(|&byte| char::from(byte)));
        out.push('\n');
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_as_openssl_prints_them() {
        assert_eq!(openssl_date(0), "Jan  1 00:00:00 1970 GMT");
        assert_eq!(openssl_date(951_782_400), "Feb 29 00:00:00 2000 GMT");
        assert_eq!(openssl_date(4_102_444_799), "Dec 31 23:59:59 2099 GMT");
        assert_eq!(openssl_date(-1), "Dec 31 23:59:59 1969 GMT");
    }

    #[test]
    fn separators_are_escaped() {
        let escaped = |text: &str| {
            let mut out = String::new();
            push_escaped(text, &mut out);
            out
        };
        assert_eq!(escaped("a,b+c"), "a\\,b\\+c");
        assert_eq!(escaped("#a "), "\\#a\\ ");
        assert_eq!(escaped("é\n"), "\\C3\\A9\\0A");
    }
}
