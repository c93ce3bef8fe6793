//! What the rules cost a typical proxied request: a server of 1,000 by Host, a location of 10,000, the URI, three templates of
//! `proxy_set_header` and an access-log line. The goal is well under a microsecond for all of it together, since each
//! microsecond of user time is worth 2.5 % of the throughput ratio.
//!
//! `cargo bench -p rules`
#![allow(missing_docs)] // `criterion_group!` makes an undocumented function

use conf::source::{FileId, Span};
use conf::value::template::{Part, Template as Written};
use criterion::{Criterion, criterion_group, criterion_main};
use rules::captures::Captures;
use rules::host::parse_host;
use rules::location::{Found, LocationMatch, LocationSpec, Locations};
use rules::log_format::LogFormat;
use rules::server_name::{NamedServer, ServerName, ServerNames};
use rules::template::{Template, View};
use rules::time_format::Moment;
use rules::uri::parse_target;
use rules::variable::{UserVariables, Variable};
use std::hint::black_box;

const SERVERS: u32 = 1_000;
const LOCATIONS: u32 = 10_000;
const SPAN: Span = Span { file: FileId(0), start: 0, end: 0 };
const FIELDS: [(&[u8], &[u8]); 6] = [
    (b"Host", b"app500.example.com:8080"),
    (b"User-Agent", b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    (b"Accept", b"text/html,application/xhtml+xml"),
    (b"Accept-Encoding", b"gzip, deflate, br"),
    (b"Connection", b"keep-alive"),
    (b"Cookie", b"session=0123456789abcdef"),
];
const TARGET: &[u8] = b"/service/5000/users/list.html?page=2&order=name";

fn servers(users: &mut UserVariables) -> ServerNames {
    let names = (0..SERVERS).map(|server| NamedServer {
        server,
        name: ServerName::parse(format!("app{server}.example.com").as_bytes(), users).expect("a valid name"),
        span: SPAN,
    });
    ServerNames::build("0.0.0.0:80", 0, names.collect()).0
}

fn locations() -> Locations {
    let specs = (0..LOCATIONS).map(|id| LocationSpec {
        id,
        matcher: LocationMatch::Prefix(format!("/service/{id}/").into_bytes()),
        auto_redirect: true,
        nested: Vec::new(),
        span: SPAN,
    });
    Locations::build(specs.collect()).expect("no name twice").0
}

fn template(parts: Vec<Part>, users: &UserVariables) -> Template {
    Template::compile(&Written { parts, span: SPAN }, users).expect("known variables")
}

/// A view as the gateway's: over fields in a buffer.
struct Request {
    time_local: [u8; 26],
}

impl View for Request {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let value: &[u8] = match variable {
            Variable::Host => b"app500.example.com",
            Variable::RemoteAddr | Variable::ProxyAddXForwardedFor => b"192.168.100.200",
            Variable::TimeLocal => &self.time_local,
            Variable::Request => b"GET /service/5000/users/list.html?page=2&order=name HTTP/1.1",
            Variable::Status => b"200",
            Variable::BodyBytesSent => b"612",
            Variable::Http(name) => {
                let Some((_, value)) = FIELDS.iter().find(|(field, _)| name.matches(field)) else { return false };
                value
            }
            _ => return false,
        };
        out.extend_from_slice(value);
        true
    }
}

fn bench(criterion: &mut Criterion) {
    let mut users = UserVariables::default();
    let servers = servers(&mut users);
    let locations = locations();
    let variable = |name: &str| vec![Part::Variable(name.to_owned())];
    let headers = ["host", "remote_addr", "proxy_add_x_forwarded_for"].map(|name| template(variable(name), &users));
    let log = LogFormat::combined();
    let request = Request { time_local: Moment::new(1_795_293_000, 0).local() };
    let mut captures = Captures::default();
    let (mut decoded, mut head, mut line) = (Vec::new(), Vec::with_capacity(4096), Vec::with_capacity(4096));

    criterion.bench_function("server of 1,000", |bencher| {
        bencher.iter(|| {
            let host = parse_host(black_box(FIELDS[0].1)).expect("valid");
            servers.lookup(&host.name, &mut captures).map(|matched| matched.server)
        });
    });
    criterion.bench_function("uri", |bencher| bencher.iter(|| parse_target(black_box(TARGET), true, &mut decoded)));
    criterion.bench_function("location of 10,000", |bencher| {
        bencher.iter(|| match locations.find(black_box(b"/service/5000/users/list.html"), &mut captures) {
            Ok(Found::Location { id, .. }) => id,
            other => panic!("{other:?}"),
        });
    });
    criterion.bench_function("three header templates", |bencher| {
        bencher.iter(|| {
            head.clear();
            for template in &headers {
                template.write(black_box(&request), &mut head);
            }
            head.len()
        });
    });
    criterion.bench_function("access log line", |bencher| {
        bencher.iter(|| {
            line.clear();
            log.write(black_box(&request), &mut line);
            line.len()
        });
    });
    criterion.bench_function("a whole proxied request", |bencher| {
        bencher.iter(|| {
            let host = parse_host(black_box(FIELDS[0].1)).expect("valid");
            let server = servers.lookup(&host.name, &mut captures).expect("no expression").server;
            let parsed = parse_target(black_box(TARGET), true, &mut decoded).expect("valid");
            let found = locations.find(parsed.path(TARGET, &decoded), &mut captures).expect("no expression");
            head.clear();
            for template in &headers {
                template.write(&request, &mut head);
            }
            line.clear();
            log.write(&request, &mut line);
            (server, matches!(found, Found::Location { .. }), head.len(), line.len())
        });
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
