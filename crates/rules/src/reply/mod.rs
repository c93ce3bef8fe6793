//! Replies that need no content: `return`, `error_page` and the pages that replace a body. Decisions only: the gateway
//! sends them.

mod error_page;
mod page;

pub use error_page::{ErrorPage, ErrorPages, Overwrite, PageTarget};
pub use page::{STATUS_HEAD_TOO_LARGE, pads_error_pages, shown_status, write_page};

use crate::template::Template;
use crate::variable::UserVariables;
use conf::diagnostic::Diagnostic;
use conf::value::template as written;

/// `return 444`: the connection is closed without a response.
pub const STATUS_CLOSE: u16 = 444;

/// Whether a status sends the client elsewhere, so that a text given with it is a URL.
fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// A compiled `return`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Return {
    /// The status alone: it may lead to an `error_page`, otherwise its built-in page is sent. [`STATUS_CLOSE`] is one.
    Status(u16),
    /// A response with this body (perhaps empty) in the location's default type; `error_page` has no say.
    Body {
        /// The status.
        status: u16,
        /// The body.
        text: Template,
    },
    /// A redirect with the built-in page as its body.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// For the Location field. One that begins with `/` is made absolute by the caller.
        location: Template,
    },
}

impl Return {
    /// Compiles `return STATUS [TEXT]`; `return URL` is status 302 with the URL as its text.
    pub fn compile(status: u16, text: Option<&written::Template>, users: &UserVariables) -> Result<Self, Diagnostic> {
        let text = match text {
            Some(text) => Template::compile(text, users)?,
            None => Template::constant(b""),
        };
        let is_empty = text.as_constant().is_some_and(<[u8]>::is_empty);
        Ok(if is_redirect(status) {
            Self::Redirect { status, location: text }
        } else if status >= 400 && is_empty {
            Self::Status(status)
        } else {
            Self::Body { status, text }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::source::{FileId, Span};

    fn compiled(status: u16, text: Option<&str>) -> Return {
        let text = text.map(|text| written::Template {
            parts: if text.is_empty() { vec![] } else { vec![written::Part::Text(text.as_bytes().to_vec())] },
            span: Span { file: FileId(0), start: 0, end: 0 },
        });
        Return::compile(status, text.as_ref(), &UserVariables::default()).unwrap()
    }

    #[test]
    fn status_selects_the_reply_text() {
        let text = Template::constant(b"x");
        assert_eq!(compiled(200, Some("x")), Return::Body { status: 200, text: text.clone() });
        assert_eq!(compiled(204, None), Return::Body { status: 204, text: Template::constant(b"") });
        assert_eq!(compiled(308, Some("x")), Return::Redirect { status: 308, location: text.clone() });
        assert_eq!(compiled(404, Some("x")), Return::Body { status: 404, text });
        assert_eq!(compiled(404, None), Return::Status(404));
        assert_eq!(compiled(404, Some("")), Return::Status(404), "as in nginx an empty text is none");
        assert_eq!(compiled(STATUS_CLOSE, None), Return::Status(444));
    }
}
