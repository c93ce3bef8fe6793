//! The request of a step as bytes: rendered for each user, with its variables and its cookies.

use super::{Escape, Piece, Step};
use crate::coding::Body;
use crate::options::{Options, Target};
use crate::request::fields;
use crate::template::{Template, TemplateError, Values};

/// The request of a step.
#[derive(Debug)]
pub(crate) struct StepRequest {
    method: String,
    path: Template,
    /// The rest of the request line, and the fields.
    fields: Template,
    body: Body,
    /// Whether Content-Length is added.
    has_length: bool,
    /// Whether the step has its own Cookie field, which replaces that of the user.
    has_cookie: bool,
}

impl StepRequest {
    pub(super) fn new(
        step: &Step,
        target: &Target,
        options: &Options,
        variable: &dyn Fn(&str) -> Option<usize>,
    ) -> Result<Self, TemplateError> {
        let parse = |text: &str, escape| Template::parse_with(text.as_bytes(), escape, variable);
        let mut body = Template::literal(b"");
        for piece in &step.body {
            body.append(match piece {
                Piece::Text(text, escape) => parse(text, *escape)?,
                Piece::Bytes(bytes) => Template::literal(bytes),
            });
        }
        let rest = format!(" {}\r\n{}", options.version.name(), fields(target, options, !step.body.is_empty()));
        let has = |name: &str| target.fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        // RFC 9110 section 8.6: a method that gives a body a meaning has a length even without one.
        let expects_body = matches!(target.method.as_str(), "POST" | "PUT" | "PATCH");
        let has_length = (expects_body || !step.body.is_empty()) && !has("content-length") && !has("transfer-encoding");
        Ok(Self {
            method: target.method.clone(),
            path: parse(&target.url.path, Escape::Path)?,
            fields: parse(&rest, Escape::Field)?,
            body: Body::new(body, options.compress),
            has_length,
            has_cookie: has("cookie"),
        })
    }

    /// Appends the request. `path` gets its request target, `body` is a work buffer, and `cookies` appends the value of the
    /// Cookie field for that target.
    pub(crate) fn encode(
        &self,
        values: &mut Values,
        (path, body): (&mut Vec<u8>, &mut Vec<u8>),
        cookies: impl FnOnce(&[u8], &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        const COOKIE: &[u8] = b"Cookie: ";
        path.clear();
        body.clear();
        self.path.render(values, path);
        self.body.render(values, body);
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(path);
        self.fields.render(values, out);
        if !self.has_cookie {
            let before = out.len();
            out.extend_from_slice(COOKIE);
            cookies(path, out);
            if out.len() == before + COOKIE.len() {
                out.truncate(before);
            } else {
                out.extend_from_slice(b"\r\n");
            }
        }
        if self.has_length {
            http1::encode::encode_number_field(b"Content-Length", body.len() as u64, out);
        }
        http1::encode::encode_head_end(out);
        out.extend_from_slice(body);
    }
}
