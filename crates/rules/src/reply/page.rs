//! The built-in pages. Their titles are nginx's, because monitoring compares them; the shape
//! of a page is its too, because clients and tools look for it.

/// The title of a built-in page. It differs from the reason phrase (`http1::status`) in two places, as in nginx.
fn title(status: u16) -> Option<&'static str> {
    Some(match status {
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Authorization Required",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Time-out",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Large",
        415 => "Unsupported Media Type",
        416 => "Requested Range Not Satisfiable",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Temporarily Unavailable",
        504 => "Gateway Time-out",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => return None,
    })
}

/// A request head that is too large, which `error_page` tells from other bad requests.
pub const STATUS_HEAD_TOO_LARGE: u16 = 494;

/// What the client sees of a status: nginx's own codes for oversized heads and refused TLS are never sent.
pub fn shown_status(status: u16) -> u16 {
    if detail(status).is_some() { 400 } else { status }
}

/// nginx's own codes, which are sent as 400, and what their page says.
fn detail(status: u16) -> Option<&'static str> {
    Some(match status {
        STATUS_HEAD_TOO_LARGE => "Request Header Or Cookie Too Large",
        495 => "The SSL certificate error",
        496 => "No required SSL certificate was sent",
        497 => "The plain HTTP request was sent to HTTPS port",
        _ => return None,
    })
}

/// Internet Explorer shows a page of its own instead of an error page of less than 512 bytes.
const PADDING: &str = "<!-- this line makes the page long enough for MSIE to show it -->\r\n";

/// How often [`PADDING`] is repeated: six times its 67 bytes and the shortest page are above 512.
const PADDING_LINES: usize = 6;

/// Appends the built-in page of a status and says whether there is one; otherwise the body is empty. `server` is what
/// `server_tokens` makes of the server's name, `padded` is [`pads_error_pages`] and `msie_padding on`.
pub fn write_page(status: u16, server: &str, padded: bool, out: &mut Vec<u8>) -> bool {
    let (shown, title, detail) = match (detail(status), title(status)) {
        (Some(detail), _) => (400, detail, Some(detail)),
        (None, Some(title)) => (status, title, None),
        (None, None) => return false,
    };
    let heading = if detail.is_some() { "Bad Request" } else { title };
    let mut page = format!(
        "<html>\r\n<head><title>{shown} {title}</title></head>\r\n<body>\r\n<center><h1>{shown} {heading}</h1></center>\r\n"
    );
    if let Some(detail) = detail {
        page.push_str("<center>");
        page.push_str(detail);
        page.push_str("</center>\r\n");
    }
    page.push_str("<hr><center>");
    page.push_str(server);
    page.push_str("</center>\r\n</body>\r\n</html>\r\n");
    if padded && shown >= 400 {
        page.push_str(&PADDING.repeat(PADDING_LINES));
    }
    out.extend_from_slice(page.as_bytes());
    true
}

/// Whether a User-Agent replaces short error pages by its own: Internet Explorer, but not the Opera versions that call
/// themselves so.
pub fn pads_error_pages(user_agent: &[u8]) -> bool {
    memchr::memmem::find(user_agent, b"MSIE ").is_some() && memchr::memmem::find(user_agent, b"Opera").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(status: u16, padded: bool) -> String {
        let mut out = Vec::new();
        assert!(write_page(status, "server/1.0", padded, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_page_has_the_known_shape() {
        assert_eq!(
            page(404, false),
            "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n\
             <hr><center>server/1.0</center>\r\n</body>\r\n</html>\r\n"
        );
    }

    #[test]
    fn unsendable_codes_show_a_400_page() {
        assert_eq!([493, 494, 495, 496, 497, 498].map(shown_status), [493, 400, 400, 400, 400, 498]);
        let page = page(494, false);
        assert!(page.contains("<title>400 Request Header Or Cookie Too Large</title>"));
        assert!(
            page.contains("<h1>400 Bad Request</h1></center>\r\n<center>Request Header Or Cookie Too Large</center>")
        );
    }

    #[test]
    fn a_status_without_a_page_has_none() {
        assert!(!write_page(418, "x", false, &mut Vec::new()));
    }

    #[test]
    fn titles_differ_from_reason_phrases_where_nginx_does() {
        assert_eq!((title(302), title(401)), (Some("Found"), Some("Authorization Required")));
        assert_eq!((title(404), title(503)), (Some("Not Found"), Some("Service Temporarily Unavailable")));
    }

    #[test]
    fn only_internet_explorer_gets_padding_and_only_for_errors() {
        assert!(pads_error_pages(b"Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1)"));
        assert!(!pads_error_pages(b"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; en) Opera 8.50"));
        assert!(!pads_error_pages(b"curl/8"));
        assert!(page(410, true).len() > 512);
        assert_eq!(page(301, true), page(301, false));
    }
}
