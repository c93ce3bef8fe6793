//! `error_page`: what is shown instead of a status, and with which status.

use super::is_redirect;
use crate::template::{Template, View};
use crate::uri::split_args;

/// Which status the page is sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// The original status.
    Keep,
    /// `=`: the page's own status counts.
    OfPage,
    /// `=200`
    Status(u16),
}

/// One `error_page` for one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// The status that it is for.
    pub status: u16,
    /// Which status the page is sent with.
    pub overwrite: Overwrite,
    /// A URI, a named location or a URL.
    pub target: Template,
}

/// Where a page is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageTarget<'a> {
    /// An internal redirect with method GET (HEAD stays HEAD). The URI is not decoded.
    Internal {
        /// The path.
        uri: &'a [u8],
        /// What was behind its `?`.
        args: Option<&'a [u8]>,
    },
    /// The location `@name`; method and URI stay.
    Named(&'a [u8]),
    /// The client is sent to this URL.
    Redirect {
        /// 302, or the redirect status that was asked for.
        status: u16,
        /// For the Location field.
        location: &'a [u8],
    },
}

impl ErrorPage {
    /// The status that the client sees: `None` is the page's own.
    pub fn shown_status(&self) -> Option<u16> {
        match self.overwrite {
            Overwrite::OfPage => None,
            Overwrite::Status(status) => Some(status),
            Overwrite::Keep => Some(super::shown_status(self.status)),
        }
    }

    /// The target as it is configured.
    pub fn written(&self) -> &Template {
        &self.target
    }

    /// Where the page is found. `out` is cleared and holds the evaluated target.
    pub fn target<'a, V: View + ?Sized>(&self, view: &V, out: &'a mut Vec<u8>) -> PageTarget<'a> {
        out.clear();
        self.target.write(view, out);
        match out.first() {
            Some(b'/') => {
                let (uri, args) = split_args(out);
                PageTarget::Internal { uri, args }
            }
            Some(b'@') => PageTarget::Named(out),
            _ => {
                let status = match self.overwrite {
                    Overwrite::Status(status) if is_redirect(status) => status,
                    _ => 302,
                };
                PageTarget::Redirect { status, location: out }
            }
        }
    }
}

/// The `error_page` directives of a location, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorPages(pub Box<[ErrorPage]>);

impl ErrorPages {
    /// The page of a status, if there is one: the first that was written.
    pub fn find(&self, status: u16) -> Option<&ErrorPage> {
        self.0.iter().find(|page| page.status == status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::Variable;

    /// Knows nothing.
    struct Nothing;

    impl View for Nothing {
        fn write(&self, _: &Variable, _: &mut Vec<u8>) -> bool {
            false
        }
    }

    fn page(status: u16, overwrite: Overwrite, target: &str) -> ErrorPage {
        ErrorPage { status, overwrite, target: Template::constant(target.as_bytes()) }
    }

    #[test]
    fn target_selects_how_the_page_is_fetched() {
        let target = |page: &ErrorPage| format!("{:?}", page.target(&Nothing, &mut Vec::new()));
        let expected = PageTarget::Internal { uri: b"/50x.html", args: Some(b"a=b") };
        assert_eq!(target(&page(500, Overwrite::Keep, "/50x.html?a=b")), format!("{expected:?}"));
        let expected = PageTarget::Named(b"@fallback");
        assert_eq!(target(&page(404, Overwrite::Keep, "@fallback")), format!("{expected:?}"));
        for (overwrite, status) in [
            (Overwrite::Keep, 302),
            (Overwrite::OfPage, 302),
            (Overwrite::Status(301), 301),
            (Overwrite::Status(200), 302),
        ] {
            let expected = PageTarget::Redirect { status, location: b"http://example.com/" };
            assert_eq!(target(&page(403, overwrite, "http://example.com/")), format!("{expected:?}"));
        }
    }

    #[test]
    fn the_shown_status() {
        assert_eq!(page(404, Overwrite::Keep, "/x").shown_status(), Some(404));
        assert_eq!(page(404, Overwrite::OfPage, "/x").shown_status(), None);
        assert_eq!(page(404, Overwrite::Status(200), "/x").shown_status(), Some(200));
        assert_eq!(page(497, Overwrite::Keep, "/x").shown_status(), Some(400));
    }

    #[test]
    fn the_first_page_of_a_status_counts() {
        let pages = ErrorPages([page(404, Overwrite::Keep, "/1"), page(404, Overwrite::Keep, "/2")].into());
        assert_eq!(pages.find(404), pages.0.first());
        assert_eq!(pages.find(500), None);
    }
}
