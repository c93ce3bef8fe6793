//! Cost of the rules for a typical proxied request: a server of 1,000 by Host, a location of 10,000, the URI, three templates of
//! `proxy_set_header` and an access-log line. Also what tables of 100,000 entries and a rewrite program add. The goal for all of it is well
//! under a microsecond, because each microsecond of user time costs 2.5 % of the throughput ratio.
//!
//! `cargo bench -p rules`
#![allow(missing_docs)] // `criterion_group!` makes an undocumented function

use conf::source::{FileId, Span};
use conf::value::Cidr;
use conf::value::template::{Part, Template as Written};
use criterion::{Criterion, criterion_group, criterion_main};
use rules::captures::Captures;
use rules::geo::{Geo, GeoBlock};
use rules::host::parse_host;
use rules::location::{Found, LocationMatch, LocationSpec, Locations};
use rules::log_format::LogFormat;
use rules::map::{Map, MapKey};
use rules::pattern::Pattern;
use rules::program::{Condition, Machine, Place, Program, Rewrite, Step, Then};
use rules::server_name::{NamedServer, ServerName, ServerNames};
use rules::slots::VarSlots;
use rules::template::{Template, View};
use rules::time_format::Moment;
use rules::uri::parse_target;
use rules::user_variables::{Definition, Definitions, Surroundings, Trouble};
use rules::variable::{UserVariables, Variable};
use std::cell::RefCell;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

const SERVERS: u32 = 1_000;
const LOCATIONS: u32 = 10_000;
/// Entries of the map and lines of the geo.
const ENTRIES: u32 = 100_000;
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

fn map(entries: u32, of: Variable) -> Map {
    let entries = (0..entries).map(|number| {
        let key = MapKey::Exact(format!("/service/{number}/users/list.html").into_bytes());
        (key, Template::constant(format!("group{}", number % 100).as_bytes()))
    });
    Map::build(Template::variable(of), Template::constant(b"none"), entries.collect())
}

fn geo(lines: u32) -> Geo {
    let values: Vec<String> = (0..100).map(|number| format!("area{number}")).collect();
    let lines: Vec<(GeoBlock, Option<&[u8]>)> = (0..lines)
        .map(|number| {
            // Networks of eight addresses, one in ten inside another one.
            let (first, prefix) = (number << 5, if number % 10 == 0 { 26 } else { 29 });
            let cidr = Cidr::parse(format!("{}/{prefix}", Ipv4Addr::from(first)).as_bytes()).expect("a network").0;
            (GeoBlock::Network(cidr), Some(values[number as usize % 100].as_bytes()))
        })
        .collect();
    Geo::build(None, b"", &lines).expect("networks cannot overlap in part")
}

/// A rewrite program that hits at its end: three conditions, an assignment and a rewrite.
fn program(users: &mut UserVariables) -> Program {
    let slot = users.declare("flag").expect("free");
    let mut pattern = |source: &str| Pattern::compile(source.as_bytes(), false, users).expect("valid");
    let uri = Written { parts: vec![Part::Text(b"/new/".to_vec()), Part::Capture(1)], span: SPAN };
    let blocks = ["^/never/", "^/neither/"].map(|source| Step::If {
        condition: Condition::Match(Variable::Uri, pattern(source)),
        place: None,
        steps: vec![Step::Return(0)],
    });
    let rewrite = Rewrite {
        pattern: pattern("^/service/(.*)$"),
        uri: Template::compile(&uri, &UserVariables::default()).expect("valid"),
        args: None,
        append_args: true,
        then: Then::Break,
    };
    let truth = Step::If { condition: Condition::True(Variable::User(slot)), place: None, steps: vec![Step::Break] };
    let mut steps = blocks.to_vec();
    steps.extend([Step::Set(slot, Template::constant(b"0")), truth, Step::Rewrite(Box::new(rewrite))]);
    Program::build(steps, false)
}

/// A view as the gateway's: over fields in a buffer.
struct Request {
    time_local: [u8; 26],
    uri: Vec<u8>,
    slots: VarSlots,
    captures: RefCell<Captures>,
    definitions: Definitions,
}

impl Surroundings for Request {
    fn slots(&self) -> &VarSlots {
        &self.slots
    }

    fn captures(&self) -> &RefCell<Captures> {
        &self.captures
    }

    fn client(&self) -> Option<IpAddr> {
        None
    }

    fn forwarded_for<'a>(&'a self, _: &mut Vec<&'a [u8]>) {}

    fn trouble(&self, trouble: Trouble<'_>) {
        panic!("{trouble:?}");
    }
}

impl Machine for Request {
    fn uri(&self) -> &[u8] {
        &self.uri
    }

    fn args(&self) -> &[u8] {
        b"page=2&order=name"
    }

    fn was_quoted(&self) -> bool {
        false
    }

    fn set_args(&mut self, _: &[u8]) {}

    fn set_rate(&mut self, _: &[u8]) {}

    fn rewrite(&mut self, uri: Vec<u8>, _: Option<Vec<u8>>, _: bool) {
        black_box(uri);
    }

    fn stay(&mut self) {}

    fn enter(&mut self, _: u32) {}

    fn notice(&self, _: &str) {}
}

impl View for Request {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let value: &[u8] = match variable {
            Variable::User(slot) => return self.definitions.write(*slot, self, out),
            Variable::Uri => &self.uri,
            Variable::Capture(group) => {
                out.extend_from_slice(self.captures.borrow().group(usize::from(*group)).unwrap_or_default());
                return true;
            }
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

fn request(definitions: Definitions) -> Request {
    Request {
        time_local: Moment::new(1_795_293_000, 0).local(),
        uri: b"/service/5000/users/list.html".to_vec(),
        slots: VarSlots::default(),
        captures: RefCell::default(),
        definitions,
    }
}

fn bench_tables(criterion: &mut Criterion) {
    let mut users = UserVariables::default();
    let program = program(&mut users);
    let (small, large) = (map(1, Variable::Uri), map(ENTRIES, Variable::Uri));
    let chosen = users.declare("chosen").expect("free");
    let list = vec![(chosen, Definition::Map(Box::new(map(ENTRIES, Variable::Uri).volatile(true))))];
    let mut request = request(Definitions::build(&users, list));
    let mut captures = Captures::default();
    let mut line = Vec::with_capacity(4096);
    for (name, table) in [("map of 1", &small), ("map of 100,000", &large)] {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                let found =
                    table.find(black_box(b"/service/5000/users/list.html"), &mut captures).expect("no expression");
                found.value.as_constant().map(<[u8]>::len)
            });
        });
    }
    criterion.bench_function("variable of a map of 100,000", |bencher| {
        bencher.iter(|| {
            line.clear();
            request.write(black_box(&Variable::User(chosen)), &mut line)
        });
    });
    for (name, lines) in [("geo of 1", 1), ("geo of 100,000", ENTRIES)] {
        let table = geo(lines);
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| table.find(black_box(Some(IpAddr::V4(Ipv4Addr::from(50_000 << 5)))), &[]).len());
        });
    }
    criterion.bench_function("rewrite program", |bencher| {
        bencher.iter(|| program.run(Place::default(), black_box(&mut request)));
    });
}

fn bench(criterion: &mut Criterion) {
    let mut users = UserVariables::default();
    let servers = servers(&mut users);
    let locations = locations();
    let variable = |name: &str| vec![Part::Variable(name.to_owned())];
    let headers = ["host", "remote_addr", "proxy_add_x_forwarded_for"].map(|name| template(variable(name), &users));
    let log = LogFormat::combined();
    let request = request(Definitions::default());
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

criterion_group!(benches, bench, bench_tables);
criterion_main!(benches);
