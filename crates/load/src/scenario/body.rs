//! Bodies of steps as pieces: text, JSON, forms and `multipart/form-data`. Templates stay templates, and each kind of body
//! has its own way to escape the values that replace them. Pure: files come as bytes.

use super::{Escape, Piece};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A body with its type.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TypedBody {
    pub(super) pieces: Vec<Piece>,
    /// The value of Content-Type, if the kind of body has one.
    pub(super) content_type: Option<String>,
}

/// A part of `multipart/form-data`.
#[derive(Debug)]
pub(super) struct BodyPart {
    pub(super) name: String,
    pub(super) filename: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) content: Piece,
}

pub(super) fn text(text: &str) -> TypedBody {
    TypedBody { pieces: vec![Piece::Text(text.to_owned(), Escape::None)], content_type: None }
}

pub(super) fn file(bytes: Vec<u8>) -> TypedBody {
    TypedBody { pieces: vec![Piece::Bytes(bytes)], content_type: None }
}

pub(super) fn json(value: &serde_json::Value) -> TypedBody {
    let pieces = vec![Piece::Text(value.to_string(), Escape::Json)];
    TypedBody { pieces, content_type: Some("application/json".to_owned()) }
}

pub(super) fn form(fields: &BTreeMap<String, String>) -> TypedBody {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        encode_outside_templates(name, &mut text);
        text.push('=');
        encode_outside_templates(value, &mut text);
    }
    let pieces = vec![Piece::Text(text, Escape::Form)];
    TypedBody { pieces, content_type: Some("application/x-www-form-urlencoded".to_owned()) }
}

/// RFC 7578. The boundary depends on the content, so it appears in no part.
pub(super) fn multipart(parts: Vec<BodyPart>) -> TypedBody {
    let mut boundary = String::new();
    for attempt in 0u64.. {
        boundary = format!("holdfast-{attempt:016x}");
        let is_within = |bytes: &[u8]| memchr::memmem::find(bytes, boundary.as_bytes()).is_some();
        let appears = parts.iter().any(|part| match &part.content {
            Piece::Text(text, _) => is_within(text.as_bytes()),
            Piece::Bytes(bytes) => is_within(bytes),
        });
        if !appears {
            break;
        }
    }
    let mut pieces = Vec::new();
    for part in parts {
        let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(&part.name));
        if let Some(filename) = &part.filename {
            let _ = write!(head, "; filename=\"{}\"", quoted(filename));
        }
        if let Some(content_type) = &part.content_type {
            let _ = write!(head, "\r\nContent-Type: {content_type}");
        }
        head.push_str("\r\n\r\n");
        pieces.extend([Piece::Text(head, Escape::Field), part.content, Piece::Bytes(b"\r\n".to_vec())]);
    }
    pieces.push(Piece::Bytes(format!("--{boundary}--\r\n").into_bytes()));
    TypedBody { pieces, content_type: Some(format!("multipart/form-data; boundary={boundary}")) }
}

/// A part of a body that is made once, with its content as bytes.
#[derive(Debug)]
pub(crate) struct FormContent {
    pub(crate) name: String,
    pub(crate) filename: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) bytes: Vec<u8>,
}

/// The same body as bytes, and its Content-Type.
pub(crate) fn multipart_bytes(contents: Vec<FormContent>) -> (Vec<u8>, String) {
    let part = |content: FormContent| {
        let FormContent { name, filename, content_type, bytes } = content;
        BodyPart { name, filename, content_type, content: Piece::Bytes(bytes) }
    };
    let TypedBody { pieces, content_type } = multipart(contents.into_iter().map(part).collect());
    let mut body = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text, _) => body.extend_from_slice(text.as_bytes()),
            Piece::Bytes(bytes) => body.extend_from_slice(&bytes),
        }
    }
    (body, content_type.unwrap_or_default())
}

/// A name in `Content-Disposition`, as browsers write it (RFC 7578 section 2 and the HTML standard).
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// Encodes text for a form and leaves `{{…}}` as it is.
fn encode_outside_templates(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some((before, from)) = rest.split_once("{{") {
        let Some((word, behind)) = from.split_once("}}") else { break };
        encode_form(before.as_bytes(), out);
        let _ = write!(out, "{{{{{word}}}}}");
        rest = behind;
    }
    encode_form(rest.as_bytes(), out);
}

fn encode_form(bytes: &[u8], out: &mut String) {
    let mut encoded = Vec::new();
    Escape::Form.write(bytes, &mut encoded);
    // Escaped bytes are ASCII.
    out.push_str(&String::from_utf8_lossy(&encoded));
}

impl Escape {
    /// Appends a value.
    pub(crate) fn write(self, value: &[u8], out: &mut Vec<u8>) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let percent = |byte: u8, out: &mut Vec<u8>| {
            let digit = |half: u8| HEX.get(usize::from(half)).copied().unwrap_or_default();
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        };
        for &byte in value {
            match self {
                Self::None => out.push(byte),
                Self::Path => match byte {
                    0..=b' ' | 127.. | b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                        percent(byte, out);
                    }
                    _ => out.push(byte),
                },
                Self::Field => out.push(if matches!(byte, 0 | b'\r' | b'\n') { b' ' } else { byte }),
                Self::Form => match byte {
                    b' ' => out.push(b'+'),
                    b'*' | b'-' | b'.' | b'_' => out.push(byte),
                    _ if byte.is_ascii_alphanumeric() => out.push(byte),
                    _ => percent(byte, out),
                },
                Self::Json => match byte {
                    b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                    0..=31 => {
                        out.extend_from_slice(b"\\u00");
                        out.extend(format!("{byte:02x}").bytes());
                    }
                    _ => out.push(byte),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only_text(body: &TypedBody) -> &str {
        match body.pieces.as_slice() {
            [Piece::Text(text, _)] => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_form_is_encoded_and_its_templates_are_kept() {
        let fields =
            BTreeMap::from([("a b".to_owned(), "1&2=é".to_owned()), ("t".to_owned(), "x {{user.name}}!".to_owned())]);
        assert_eq!(only_text(&form(&fields)), "a+b=1%262%3D%C3%A9&t=x+{{user.name}}%21");
    }

    #[test]
    fn values_cannot_leave_their_place() {
        let escaped = |escape: Escape, value: &str| {
            let mut out = Vec::new();
            escape.write(value.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(escaped(Escape::Path, "a b/é?x=%20\r\nX: y"), "a%20b/%C3%A9?x=%20%0D%0AX:%20y");
        assert_eq!(escaped(Escape::Field, "a\r\nX: y"), "a  X: y");
        assert_eq!(escaped(Escape::Json, "say \"x\\\n"), "say \\\"x\\\\\\u000a");
        assert_eq!(escaped(Escape::Form, "a b&c"), "a+b%26c");
    }

    #[test]
    fn a_multipart_body_has_a_boundary_that_no_part_contains() {
        let part = BodyPart {
            name: "a\"b".to_owned(),
            filename: Some("x.bin".to_owned()),
            content_type: Some("image/png".to_owned()),
            content: Piece::Bytes(b"--holdfast-0000000000000000".to_vec()),
        };
        let body = multipart(vec![part]);
        assert_eq!(body.content_type.as_deref(), Some("multipart/form-data; boundary=holdfast-0000000000000001"));
        let bytes: Vec<u8> = body
            .pieces
            .iter()
            .flat_map(|piece| match piece {
                Piece::Text(text, _) => text.clone().into_bytes(),
                Piece::Bytes(bytes) => bytes.clone(),
            })
            .collect();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "--holdfast-0000000000000001\r\nContent-Disposition: form-data; name=\"a%22b\"; filename=\"x.bin\"\r\n\
             Content-Type: image/png\r\n\r\n--holdfast-0000000000000000\r\n--holdfast-0000000000000001--\r\n"
        );
    }
}
