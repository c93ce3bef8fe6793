//! Plans that share servers and groups with those before are like those that are made from scratch.

use super::*;
use crate::lower::{Lowered, lower_reusing};
use crate::plan::location::{Content, LocationId};
use crate::plan::proxy::ProxyId;
use crate::plan::tls::KnownPairs;
use conf::diagnostic::Severity;
use conf::model::{Model, Options};
use conf::reuse::Memory;
use conf::tree::Block;
use proptest::prelude::*;
use rules::captures::Captures;
use rules::location::Found;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Each server and each group has a file, so a change of one moves no other.
struct PartFiles<'a>(&'a str, &'a BTreeMap<u8, String>);

impl conf::Loader for PartFiles<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let Self(frame, parts) = self;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if let Ok(number) = name.parse::<u8>() {
            return Ok(parts[&number].clone().into());
        }
        let includes = parts.keys().map(|number| format!("include /{number}.conf;\n")).collect::<Vec<_>>().concat();
        Ok(format!("events {{}} http {{ {frame}\n {includes} }}").into())
    }

    fn glob(&mut self, _mask: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn lowered(model: &Model, memory: &mut LowerMemory) -> Result<Lowered, Vec<String>> {
    let options = LowerOptions {
        prefix: "/".into(),
        workers: 2,
        share: Share::default(),
        hostname: "host.test".to_owned(),
        resolve: &|_, port| Ok(vec![([192, 0, 2, 1], port).into()]),
        conf_directory: "/".into(),
        now_s: 0,
        read: &|path| std::fs::read(path),
        known_pairs: &KnownPairs::default(),
    };
    let lowered = lower_reusing(model, &options, memory);
    lowered.map_err(|found| found.into_iter().map(|found| found.message).collect())
}

/// Plans that are made one after another.
#[derive(Default)]
pub(crate) struct PlanRow {
    models: Memory,
    plans: LowerMemory,
    before: Option<Block>,
}

/// A plan, and how many servers it shares with the one before.
pub(crate) struct NextPlan {
    pub(crate) plan: Plan,
    shared: usize,
    warnings: usize,
}

impl PlanRow {
    /// Makes the next plan, and compares it with one from scratch; `None` if the text is refused.
    pub(crate) fn next(&mut self, frame: &str, parts: &BTreeMap<u8, String>) -> Option<NextPlan> {
        let mut loaded = conf::load(Path::new("/nginx.conf"), Path::new("/"), None, &mut PartFiles(frame, parts));
        if let Some(before) = &self.before {
            conf::reuse::share(&mut loaded.tree, before, |_| true);
        }
        let mut found = conf::check_reusing(&loaded, conf::table::all(), &mut self.models);
        let (model, more) =
            conf::model::lower_reusing(&loaded.tree, &loaded.sources, Options::default(), &mut self.models);
        found.extend(more);
        if found.iter().any(|found| found.severity == Severity::Error) {
            return None;
        }
        let servers = |memory: &LowerMemory| -> HashSet<*const ServerPlan> {
            let kept = memory.0.iter().flat_map(|kept| kept.servers.values());
            kept.map(|server| Arc::as_ptr(&server.plan)).collect()
        };
        // It keeps the plans before, so that their addresses are not used again.
        let known = servers(&self.plans);
        let fresh = lowered(&model, &mut LowerMemory::default());
        let made = lowered(&model, &mut self.plans);
        assert_eq!(made.as_ref().err(), fresh.as_ref().err());
        let (made, fresh) = (made.ok()?, fresh.ok()?);
        let warnings = made.warnings.len();
        let (made, fresh) = (made.plan, fresh.plan);
        assert_eq!(digest(&made), digest(&fresh), "{frame} {parts:?}");
        let shared = made.servers.iter().filter(|server| known.contains(&Arc::as_ptr(server))).count();
        self.before = Some(loaded.tree);
        Some(NextPlan { plan: made, shared, warnings })
    }
}

/// What a plan does, without its numbers.
fn digest(plan: &Plan) -> String {
    let mut out = format!("{:?} {:?}", plan.wants(), plan.temp_directories);
    let names: BTreeMap<&str, usize> = plan.groups.iter().map(|group| (&*group.name, group.servers.len())).collect();
    let uses = plan.group_uses.iter().count();
    let sinks: Vec<_> = plan.sinks.iter().map(|sink| sink.place.to_string()).collect();
    let (locations, proxies) = (plan.locations.iter().count(), plan.proxies.iter().count());
    let _ = writeln!(out, "{names:?} {uses} {sinks:?} {locations} {proxies} {}", plan.guests.len());
    for server in &plan.servers {
        let name = server.name.escape_ascii();
        let _ = writeln!(out, "server {name} {:?} {:?} {}", server.span, server.limits, server.tls.is_some());
        location(plan, server.own, &mut out);
        for uri in ["/", "/a", "/a/x", "/b", "/b/x", "/c", "/x"] {
            let found = server.locations.find(uri.as_bytes(), &mut Captures::default());
            let _ = write!(out, "  {uri} ");
            match found {
                Ok(Found::Location { id, .. } | Found::Redirect { id }) => location(plan, LocationId(id), &mut out),
                Ok(Found::Server) => out.push_str("server\n"),
                Err(error) => out.push_str(&error.message),
            }
        }
    }
    out
}

fn location(plan: &Plan, id: LocationId, out: &mut String) {
    let it = plan.location(id);
    let names = [&it.name[..], &it.route, &it.server].map(|name| name.escape_ascii().to_string());
    let logs: Vec<_> = it.access_logs.iter().map(|log| plan.sinks[log.sink.0 as usize].place.to_string()).collect();
    let zones = it.limits.iter().flat_map(|limits| &limits.requests);
    let zones: Vec<_> = zones.map(|limit| &plan.request_zones[limit.zone.0 as usize].name).collect();
    let _ = write!(out, "{names:?} {:?} {logs:?} {zones:?} {}", it.span, it.gzip.is_some());
    match &it.content {
        Content::Proxy(id) => proxy(plan, *id, out),
        Content::VariablePass(pass) => {
            for id in (0..).map_while(|place| pass.proxy(place)) {
                proxy(plan, id, out);
            }
        }
        Content::Return(answer) => _ = write!(out, " return {}", answer.status),
        Content::Files(_) => out.push_str(" files"),
        _ => out.push_str(" other"),
    }
    for place in it.program.iter().flat_map(|program| &program.places) {
        out.push_str("\n    if ");
        location(plan, *place, out);
    }
    if let Some(except) = &it.limit_except {
        out.push_str("\n    except ");
        location(plan, except.others, out);
    }
    out.push('\n');
}

fn proxy(plan: &Plan, id: ProxyId, out: &mut String) {
    let it = plan.proxies.get(id.0);
    let used = plan.group_uses.get(it.group.0);
    let group = plan.groups.get(used.group.0);
    // A pool that is local to a location has the number of the location in its name.
    let is_local = used.sharing.location.is_some();
    let servers: Vec<_> = group.servers.iter().map(|server| &server.text).collect();
    let marks = if is_local { &[][..] } else { &it.tunnel.marks };
    let _ = write!(
        out,
        " to {} {servers:?} {is_local} {} {:?} {:?} {marks:?} {}",
        group.name,
        it.host.escape_ascii(),
        it.port,
        it.read_timeout,
        it.set_fields.len()
    );
}

pub(crate) fn parts<const N: usize>(parts: [(u8, &str); N]) -> BTreeMap<u8, String> {
    parts.into_iter().map(|(name, text)| (name, text.to_owned())).collect()
}

const GROUP: &str = "upstream app { server 127.0.0.1:1; }";
pub(crate) const A: &str =
    "server { server_name a; location /a { proxy_pass http://app; } location /b { return 204; } }";
pub(crate) const B: &str =
    "server { server_name b; location /a { proxy_pass http://app; } location /x { return 204; } }";

#[test]
fn servers_that_do_not_change_keep_their_plans_and_numbers() {
    let mut row = PlanRow::default();
    let first = row.next("", &parts([(1, GROUP), (2, A), (3, B)])).unwrap();
    let place = |plan: &Plan| plan.servers[1].own;
    // One more location before those of the second server.
    let longer = A.replace("location /b", "location /c { return 205; } location /b");
    let second = row.next("", &parts([(1, GROUP), (2, &longer), (3, B)])).unwrap();
    assert_eq!((first.shared, second.shared, place(&second.plan)), (0, 1, place(&first.plan)));
    assert!(Arc::ptr_eq(&first.plan.servers[1], &second.plan.servers[1]));
    let third = row.next("", &parts([(1, GROUP), (3, B)])).unwrap();
    assert_eq!(third.shared, 0, "its place in the files is another one");
}

#[test]
fn what_a_server_depends_on_makes_it_anew() {
    let mut row = PlanRow::default();
    let all = parts([(1, GROUP), (2, A), (3, B)]);
    assert_eq!(row.next("", &all).unwrap().shared, 0);
    assert_eq!(row.next("", &all).unwrap().shared, 2);
    let other = parts([(1, &GROUP.replace(":1", ":2")), (2, A), (3, B)]);
    assert_eq!(row.next("", &other).unwrap().shared, 0, "the group");
    assert_eq!(row.next("proxy_read_timeout 3s;", &other).unwrap().shared, 0, "the frame");
    // The server listens on all addresses as before, but another one shares an address with HTTP/2.
    let listens = |http2: &str| {
        let one = "server { listen 127.0.0.1:80; server_name a; }";
        parts([(1, one), (2, &format!("server {{ listen 127.0.0.1:81; {http2} server_name b; }}"))])
    };
    let mut row = PlanRow::default();
    assert_eq!(row.next("", &listens("")).unwrap().shared, 0);
    assert_eq!(row.next("", &listens("http2 on;")).unwrap().shared, 1);
}

#[test]
fn a_server_that_shares_lists_with_others_is_not_kept() {
    let (one, two) =
        ("server { server_name a; access_log /own combined; }", "server { server_name b; access_log /own combined; }");
    let mut row = PlanRow::default();
    row.next("", &parts([(1, one), (2, two)])).unwrap();
    assert_eq!(row.next("", &parts([(1, one), (2, two)])).unwrap().shared, 0);
    assert_eq!(row.next("", &parts([(1, &one.replace("/own", "/other")), (2, two)])).unwrap().shared, 0);
}

#[test]
fn a_server_with_a_warning_is_kept_and_warns_again() {
    let warns = A.replace("http://app;", "http://app; proxy_set_header Content-Length 5;");
    let all = parts([(1, GROUP), (2, &warns), (3, B)]);
    let mut row = PlanRow::default();
    let first = row.next("", &all).unwrap();
    let second = row.next("", &all).unwrap();
    assert_eq!((first.shared, second.shared, first.warnings, second.warnings), (0, 2, 1, 1));
}

#[test]
fn numbers_do_not_grow_without_end() {
    let mut row = PlanRow::default();
    let mut most = 0;
    for round in 0..400_u32 {
        let locations =
            (0..round % 40).map(|it| format!("location /{it} {{ return 204; }}")).collect::<Vec<_>>().concat();
        let changing = format!("server {{ server_name a; {locations} }}");
        let next = row.next("", &parts([(1, GROUP), (2, &changing), (3, B)])).unwrap();
        most = most.max(next.plan.locations.end());
    }
    assert!(most <= 2 * 43 + GAPS_FREE, "{most}");
}

/// A server or a group.
fn part() -> impl Strategy<Value = String> {
    let server = (0..4_u8, 0..12_u8, 0..3_u8).prop_map(|(name, content, group)| {
        let content = match content {
            0 => "return 200 x;".to_owned(),
            1 => format!("proxy_set_header X $host; proxy_read_timeout 7s; proxy_pass http://g{group};"),
            2 => "gzip on; access_log /x combined;".to_owned(),
            3 => "limit_req zone=z;".to_owned(),
            4 => format!("set $mine 1; if ($mine) {{ return 204; }} proxy_pass http://g{group};"),
            5 => "rewrite ^/(?<rest>.*)$ /x/$rest;".to_owned(),
            6 => format!("limit_except GET {{ deny all; }} proxy_pass http://g{group};"),
            7 => format!("proxy_pass http://$arg_x; proxy_set_header X g{group};"),
            8 => "add_header X $sent_http_y; return 204;".to_owned(),
            9 => "set $other$ 1;".replace("$ 1", " 1"),
            10 => format!("access_log /y named; proxy_pass http://elsewhere{group};"),
            _ => "try_files $uri =404; error_log /e warn;".to_owned(),
        };
        format!(
            "server {{ listen 127.0.0.1:80; server_name s{name}; location /a {{ {content} }}
             location /b {{ proxy_pass http://g{group}; }} }}"
        )
    });
    let group = (0..3_u8, 1..4_u8, 0..3_u8).prop_map(|(name, port, more)| {
        let more = ["", "keepalive 4 local;", "hash $upstream_local_addr;"][usize::from(more)];
        format!("upstream g{name} {{ server 127.0.0.1:{port}; {more} }}")
    });
    prop_oneof![3 => server, 1 => group]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_row_of_changes_gives_the_plans_of_each_text(
        changes in proptest::collection::vec((0..10_u8, proptest::option::weighted(0.8, part()), 0..12_u8), 1..16)
    ) {
        const FRAME: &str = "limit_req_zone $uri zone=z:1m rate=1r/s; log_format named $sent_http_z;";
        let (mut row, mut parts) = (PlanRow::default(), BTreeMap::new());
        for (place, part, frame) in changes {
            match part {
                Some(part) => _ = parts.insert(place, part),
                None => _ = parts.remove(&place),
            }
            let more = match frame {
                0 => "gzip on;",
                1 => "map $uri $m { default 1; }",
                2 => "access_log /y named;",
                _ => "",
            };
            row.next(&format!("{FRAME} {more}"), &parts);
        }
    }
}
