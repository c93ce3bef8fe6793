//! `holdfast origin --fastcgi` behind `fastcgi_pass` of nginx and of the gateway: both get the same from it, keep its connections
//! where they are told to, and answer its faults alike.

use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{Response, Talk};

const BOTH: [Side; 2] = [Side::Nginx, Side::Ours];

const TEXT: &str = "\
    access_log off;\n\
    fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;\n\
    fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;\n\
    fastcgi_param REQUEST_URI $request_uri; fastcgi_param SERVER_PROTOCOL $server_protocol;\n\
    upstream kept { server {upstream:0}; keepalive 4; }\n\
    upstream single { server {upstream:1}; }\n\
    server {\n\
        listen {listen};\n\
        client_max_body_size 10m;\n\
        location / { fastcgi_pass kept; fastcgi_keep_conn on; }\n\
    }\n\
    server { listen {listen:1}; location / { fastcgi_pass single; fastcgi_next_upstream off; } }\n";

fn origin() -> origin::Running {
    let options = origin::Options { fastcgi: true, ..origin::Options::default() };
    origin::Origin::bind(options).unwrap().start().unwrap()
}

fn ask(sides: &Sides, side: Side, listener: usize, request: &str) -> Response {
    let mut client = Talk::connect(sides.address(side, listener));
    client.send(request);
    client.response()
}

/// What must be equal: status, fields of the application, body.
fn parts_of(response: &Response) -> (u16, Vec<Option<String>>, Vec<u8>) {
    let fields = ["Content-Type", "Content-Length", "ETag", "Last-Modified", "X-Own", "Location"];
    let fields = fields.iter().map(|name| response.value(name).map(str::to_owned)).collect();
    (response.status(), fields, response.body.clone())
}

#[test]
fn the_origin_answers_nginx_and_the_gateway() {
    for generation in [Nginx::Old, Nginx::New] {
        let Some(nginx) = nginx_or_skip(generation) else { continue };
        let (kept, single) = (origin(), origin());
        let sides = Sides::start(&nginx, TEXT, &[kept.address(), single.address()], &[]);
        for target in [
            "/",
            "/bytes/0",
            "/bytes/100000",
            "/chunked/70000?chunk=9",
            "/close-delimited/9",
            "/status/404?header=X-Own:yes",
            "/status/302?header=Location:http://a.test/x",
            "/status/304",
            "/delay/20",
            "/slow/3?step=1&every=10",
            "/status/200?stderr=careful",
            "/params?a=b",
            "/none",
        ] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nX-One: 1\r\n\r\n");
            for listener in [0, 1] {
                let [theirs, ours] = BOTH.map(|side| parts_of(&ask(&sides, side, listener, &request)));
                assert_eq!(theirs, ours, "{generation:?} {target} {listener}");
                assert!(theirs.0 != 502, "{target}: {}", sides.logs());
            }
        }
        for side in BOTH {
            let body = "x".repeat(200_000);
            let post = format!("POST /echo HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let echo = ask(&sides, side, 0, &post).text();
            assert!(echo.contains("\"body\":{\"bytes\":200000,"), "{side:?}: {echo}");
            let reset = ask(&sides, side, 1, "GET /reset/at?point=request HTTP/1.1\r\nHost: a.test\r\n\r\n");
            assert_eq!(reset.status(), 502, "{side:?}");
        }
        assert!(sides.our_log().contains("FastCGI sent in stderr: \"careful\""), "{}", sides.our_log());
        // A connection for each request; or few of each side: a request that comes before the record that ends the
        // response before it finds no idle one.
        let requests = single.counts().requests;
        assert!(requests >= 28 && single.counts().connections_accepted >= requests, "{:?}", single.counts());
        assert!(kept.counts().connections_accepted <= requests / 2, "{:?}", kept.counts());
    }
}
