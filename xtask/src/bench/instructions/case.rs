//! The cases: the proxy's configuration for a request, and the options of the load generator.

/// One kind of request.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The content of its location, without the braces.
    pub(super) location: &'static str,
    pub(super) scheme: &'static str,
    /// Further options of `holdfast load`.
    pub(super) load: &'static [&'static str],
}

impl Case {
    /// Whether a tunnel is open and its messages are counted instead of requests.
    pub(super) fn is_websocket(&self) -> bool {
        self.scheme == "ws"
    }

    /// The proxy speaks HTTP/2 in this case.
    pub(super) fn is_http2(&self) -> bool {
        self.load.contains(&"--http2")
    }
}

const PROXIED: &str = "proxy_pass http://pages/;";
/// The origin sends each message back.
const TUNNELLED: &str = "proxy_pass http://pages/websocket/echo; proxy_set_header Upgrade $http_upgrade; \
                         proxy_set_header Connection upgrade;";

/// Every case.
pub(super) const ALL: [Case; 11] = [
    Case { name: "proxied", location: PROXIED, scheme: "http", load: &[] },
    Case { name: "logged", location: "proxy_pass http://pages/; access_log access.log;", scheme: "http", load: &[] },
    Case {
        name: "fields",
        location: PROXIED,
        scheme: "http",
        load: &[
            "-HAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "-HAccept-Encoding: gzip, deflate, br, zstd",
            "-HAccept-Language: en-GB,en;q=0.5",
            "-HCache-Control: no-cache",
            "-HCookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=yes",
            "-HDNT: 1",
            "-HOrigin: http://shop.example",
            "-HPragma: no-cache",
            "-HPriority: u=0, i",
            "-HReferer: http://shop.example/catalogue?page=2",
            "-HSec-Fetch-Dest: document",
            "-HSec-Fetch-Mode: navigate",
            "-HSec-Fetch-Site: same-origin",
            "-HSec-Fetch-User: ?1",
            "-HTE: trailers",
            "-HUpgrade-Insecure-Requests: 1",
            "-HUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "-HX-Forwarded-For: 192.0.2.7",
            "-HX-Request-Id: 7f3a1c9e5b2d4f60",
            "-HX-Tenant: blue",
        ],
    },
    Case { name: "answer-64k", location: "proxy_pass http://pages/bytes/65536;", scheme: "http", load: &[] },
    Case { name: "upload-64k", location: PROXIED, scheme: "http", load: &["-mPOST", "--body-file=upload"] },
    Case { name: "file", location: "alias page;", scheme: "http", load: &[] },
    Case { name: "return", location: "return 200 \"hello\\n\";", scheme: "http", load: &[] },
    Case {
        name: "not-modified",
        location: "alias page;",
        scheme: "http",
        load: &["-HIf-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"],
    },
    Case { name: "tls", location: PROXIED, scheme: "https", load: &["--insecure"] },
    Case { name: "http2", location: PROXIED, scheme: "http", load: &["--http2", "--streams=10"] },
    Case { name: "websocket", location: TUNNELLED, scheme: "ws", load: &["--message-size=100"] },
];
