//! The differences in effect between two configurations, or of one configuration under two programs. It compares the
//! effective settings of each block: written there, inherited, or the default. So a line that only moved, or that only
//! states the default, is no difference.

use crate::configuration::{Configuration, Found, argument, is};
use crate::dialect::Dialect;
use conf::table::{self, Support};
use conf::tree::Directive;
use std::collections::{BTreeMap, BTreeSet};

/// One side.
#[derive(Debug, Clone, Copy)]
pub struct Side<'c> {
    /// The configuration.
    pub configuration: &'c Configuration,
    /// The program that reads it.
    pub dialect: Dialect,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The blocks, outermost first: `http > server a.example > location /`.
    pub place: String,
    /// The directive, or `block` where one side lacks it.
    pub setting: String,
    /// The effective value on the first side.
    pub before: String,
    /// The effective value on the second side.
    pub after: String,
}

/// The value of a setting that is not set and has no default.
const NOTHING: &str = "not set";

/// All differences, in the order of the first configuration.
pub fn compare(a: Side<'_>, b: Side<'_>) -> Vec<Difference> {
    let (left, right) = (a.blocks(), b.blocks());
    let mut found = Vec::new();
    let mut places: Vec<&String> = left.iter().map(|(place, _)| place).collect();
    let known: BTreeSet<&String> = places.iter().copied().collect();
    places.extend(right.iter().map(|(place, _)| place).filter(|place| !known.contains(place)));
    let (left, right): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (left.iter().map(|(p, b)| (p, b)).collect(), right.iter().map(|(p, b)| (p, b)).collect());
    // An inherited value differs in every inner block; it is listed only where it is set.
    let mut said: BTreeSet<(String, String, String, String)> = BTreeSet::new();
    for place in places {
        match (left.get(place), right.get(place)) {
            (Some(before), Some(after)) => {
                let mut names: BTreeSet<&str> = before.settings.keys().map(String::as_str).collect();
                names.extend(after.settings.keys().map(String::as_str));
                for name in names {
                    let (one, other) = (before.value(name), after.value(name));
                    if one == other {
                        continue;
                    }
                    let is_outer = parents(place)
                        .any(|parent| said.contains(&(parent.to_owned(), name.to_owned(), one.clone(), other.clone())));
                    said.insert((place.clone(), name.to_owned(), one.clone(), other.clone()));
                    if !is_outer {
                        found.push(Difference {
                            place: place.clone(),
                            setting: name.to_owned(),
                            before: one,
                            after: other,
                        });
                    }
                }
            }
            (before, after) => {
                let there = |side: bool| if side { "there" } else { "not there" }.to_owned();
                let outer = parents(place).next();
                let is_within = outer
                    .is_some_and(|outer| left.contains_key(&outer.to_owned()) != right.contains_key(&outer.to_owned()));
                if !is_within {
                    found.push(Difference {
                        place: place.clone(),
                        setting: "block".to_owned(),
                        before: there(before.is_some()),
                        after: there(after.is_some()),
                    });
                }
            }
        }
    }
    found
}

/// Directives that this side refuses or ignores, each once: the name, and which of the two.
pub fn refused(side: Side<'_>) -> Vec<(String, String)> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for Found { directive, within, .. } in side.configuration.everything() {
        let name = directive.name.text();
        if within.last().is_some_and(|block| ENTRIES.iter().any(|table| is(block, table))) {
            continue;
        }
        let rows: Vec<_> = table::all().iter().filter(|row| row.name == name).collect();
        if rows.is_empty() {
            continue;
        }
        let what = if side.dialect == Dialect::Holdfast {
            match rows.iter().map(|row| row.support).find(|support| !matches!(support, Support::No)) {
                None => Some("refused: Holdfast does not have it".to_owned()),
                Some(Support::Accepted(why)) => Some(format!("no effect: {why}")),
                _ => None,
            }
        } else {
            let since = rows.iter().map(|row| row.since).find(|since| !side.dialect.has_directive(since));
            let is_missing = rows.iter().all(|row| !side.dialect.has_directive(row.since));
            since.filter(|_| is_missing).map(|since| match since {
                "holdfast" => "refused: only Holdfast has it".to_owned(),
                since => format!("refused: it came with nginx {since}"),
            })
        };
        if let Some(what) = what {
            found.entry(name.into_owned()).or_insert(what);
        }
    }
    found.into_iter().collect()
}

/// Blocks that contain entries, not directives.
const ENTRIES: [&str; 5] = ["map", "geo", "split_clients", "types", "charset_map"];

/// A block with its effective settings.
struct Counted {
    settings: BTreeMap<String, String>,
    dialect: Dialect,
    is_table: bool,
}

impl Counted {
    fn value(&self, name: &str) -> String {
        if let Some(value) = self.settings.get(name) {
            return value.clone();
        }
        let default = if self.is_table { None } else { default(self.dialect, name) };
        default.unwrap_or_else(|| NOTHING.to_owned())
    }
}

/// The default, if known: from the table, with the changes of 1.27.3 and 1.29.7.
fn default(dialect: Dialect, name: &str) -> Option<String> {
    match name {
        "proxy_http_version" => Some(dialect.upstream_version().to_owned()),
        "proxy_set_header Connection" => Some(if dialect.pools_by_default() { "\"\"" } else { "close" }.to_owned()),
        "keepalive" if dialect.pools_by_default() => Some("32 local".to_owned()),
        "ssl_protocols" => {
            Some(if dialect.accepts_old_tls() { "TLSv1 TLSv1.1 TLSv1.2" } else { "TLSv1.2 TLSv1.3" }.to_owned())
        }
        "keepalive" => None,
        _ => table::all().iter().find(|row| row.name == name)?.default.map(str::to_owned),
    }
}

fn parents(place: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(place);
    std::iter::from_fn(move || {
        rest = rest?.rsplit_once(" > ").map(|(outer, _)| outer);
        rest
    })
}

impl Side<'_> {
    /// All blocks by their path, in the order of the text.
    fn blocks(&self) -> Vec<(String, Counted)> {
        let mut blocks = vec![("top level".to_owned(), self.counted(None))];
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut names: BTreeMap<(u32, u32), String> = BTreeMap::new();
        for found in self.configuration.everything() {
            if found.directive.block.is_none() {
                continue;
            }
            let outer = found.within.last().and_then(|outer| names.get(&key(outer)));
            let own = label(found.directive);
            let place = outer.map_or_else(|| own.clone(), |outer| format!("{outer} > {own}"));
            let times = seen.entry(place.clone()).or_default();
            *times += 1;
            let place = if *times > 1 { format!("{place} (no. {times})") } else { place };
            names.insert(key(found.directive), place.clone());
            let counted = self.counted(Some(&found));
            blocks.push((place, counted));
        }
        blocks
    }

    fn counted(&self, found: Option<&Found<'_>>) -> Counted {
        let mut settings = BTreeMap::new();
        let is_table = found.is_some_and(|found| ENTRIES.iter().any(|table| is(found.directive, table)));
        let chain = found.map(|found| found.within.iter().copied().chain([found.directive]).collect::<Vec<_>>());
        let Some(chain) = chain else {
            for directive in self.configuration.everything().iter().filter(|found| found.within.is_empty()) {
                add(&mut settings, directive.directive);
            }
            return Counted { settings, dialect: self.dialect, is_table };
        };
        for (depth, block) in chain.iter().enumerate() {
            let is_own = depth + 1 == chain.len();
            let lines = block.block.as_deref().map(|block| &block.directives[..]).unwrap_or_default();
            // A list in this block replaces the whole inherited list.
            let lists: BTreeSet<_> = lines.iter().filter(|line| is_list(line)).map(|line| line.name.text()).collect();
            settings.retain(|name: &String, _| !lists.iter().any(|list| name.split(' ').next() == Some(list)));
            for line in lines.iter().filter(|line| is_own || is_inherited(line)) {
                add(&mut settings, line);
            }
        }
        // Settings with an effect on `proxy_pass` or on a group, even if they are not written.
        let passes = settings.contains_key("proxy_pass");
        let group = chain.last().is_some_and(|block| is(block, "upstream"));
        for name in [("proxy_http_version", passes), ("proxy_set_header Connection", passes), ("keepalive", group)] {
            if let (name, true) = name {
                let value = default(self.dialect, name).unwrap_or_else(|| NOTHING.to_owned());
                settings.entry(name.to_owned()).or_insert(value);
            }
        }
        Counted { settings, dialect: self.dialect, is_table }
    }
}

fn key(directive: &Directive) -> (u32, u32) {
    (directive.span.file.0, directive.span.start)
}

fn inherit(line: &Directive) -> Option<table::Inherit> {
    let name = line.name.text();
    table::all().iter().find(|row| row.name == name).map(|row| row.inherit)
}

fn is_inherited(line: &Directive) -> bool {
    matches!(inherit(line), Some(table::Inherit::Value | table::Inherit::ListReplaced))
}

fn is_list(line: &Directive) -> bool {
    matches!(inherit(line), Some(table::Inherit::ListReplaced))
}

fn add(settings: &mut BTreeMap<String, String>, line: &Directive) {
    if line.block.is_some() {
        return;
    }
    let words = |from: usize| -> String {
        let words: Vec<String> = line.args.iter().skip(from).map(|word| word.text().into_owned()).collect();
        if words.is_empty() || words == [""] { "\"\"".to_owned() } else { words.join(" ") }
    };
    let name = line.name.text();
    // Each header of a list is a setting of its own.
    if is_list(line) && line.args.len() > 1 {
        settings.insert(format!("{name} {}", argument(line, 0).unwrap_or_default()), words(1));
        return;
    }
    let is_repeatable = table::all().iter().find(|row| row.name == name).is_none_or(|row| row.repeatable);
    match settings.get_mut(&*name).filter(|_| is_repeatable && !is_inherited(line)) {
        Some(known) => {
            known.push_str("; ");
            known.push_str(&words(0));
        }
        None => drop(settings.insert(name.into_owned(), words(0))),
    }
}

/// A server is named by its `server_name`, or by its `listen`.
fn label(directive: &Directive) -> String {
    let name = directive.name.text();
    let own: Vec<String> = directive.args.iter().map(|word| word.text().into_owned()).collect();
    if name != "server" {
        return std::iter::once(name.into_owned()).chain(own).collect::<Vec<_>>().join(" ");
    }
    let lines = directive.block.as_deref().map(|block| &block.directives[..]).unwrap_or_default();
    let line = |name: &str| lines.iter().find(|line| is(line, name));
    let words = line("server_name").or_else(|| line("listen")).map(|line| &line.args[..]).unwrap_or_default();
    let words: Vec<String> = words.iter().map(|word| word.text().into_owned()).collect();
    format!("server {}", words.join(" ")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::rules::fixture::facts;
    use super::*;

    fn of(a: (&str, Dialect), b: (&str, Dialect)) -> Vec<String> {
        let whole = |text: &str| facts(&format!("events {{}}\nhttp {{\n{text}\n}}\n")).configuration.expect("given");
        let (left, right) = (whole(a.0), whole(b.0));
        let found = compare(Side { configuration: &left, dialect: a.1 }, Side { configuration: &right, dialect: b.1 });
        found.iter().map(|it| format!("{}: {}: {} -> {}", it.place, it.setting, it.before, it.after)).collect()
    }

    fn between(a: &str, b: &str) -> Vec<String> {
        of((a, Dialect::NGINX_1_26), (b, Dialect::NGINX_1_26))
    }

    const PASS: &str =
        "upstream api { server 127.0.0.1:1; } server { server_name a; location / { proxy_pass http://api; } }";

    #[test]
    fn moved_lines_and_written_defaults_are_no_difference() {
        assert_eq!(between("server { server_name a; expires 1h; }", "expires 1h; server { server_name a; }").len(), 1);
        assert_eq!(
            between(
                "server { server_name a; location / { gzip on; root /a; } }",
                "server { server_name a; location / { root /a; gzip on; } }"
            ),
            [""; 0]
        );
        assert_eq!(between("sendfile off;", ""), [""; 0]);
        assert_eq!(between("proxy_read_timeout 60s;", ""), [""; 0]);
        assert_eq!(between(PASS, PASS), [""; 0]);
    }

    #[test]
    fn a_difference_is_reported_once_at_its_block() {
        let within = "server { server_name a; location / { proxy_pass http://127.0.0.1:1; } }";
        assert_eq!(
            between(within, &format!("proxy_read_timeout 5s; {within}")),
            ["http: proxy_read_timeout: 60s -> 5s"]
        );
        let header = "server { server_name a; location / { proxy_set_header X 1; proxy_pass http://127.0.0.1:1; } }";
        assert_eq!(
            between(&format!("proxy_set_header Y 2; {within}"), &format!("proxy_set_header Y 2; {header}")),
            [
                "http > server a > location /: proxy_set_header X: not set -> 1",
                "http > server a > location /: proxy_set_header Y: 2 -> not set",
            ]
        );
        assert_eq!(between("", within), ["http > server a: block: not there -> there"]);
    }

    #[test]
    fn two_generations_of_nginx_read_the_same_text_differently() {
        assert_eq!(
            of((PASS, Dialect::NGINX_1_26), (PASS, Dialect::NGINX_1_30)),
            [
                "http > upstream api: keepalive: not set -> 32 local",
                "http > server a > location /: proxy_http_version: 1.0 -> 1.1",
                "http > server a > location /: proxy_set_header Connection: close -> \"\"",
            ]
        );
    }

    #[test]
    fn directives_that_one_side_lacks_are_named() {
        let given = facts("events {}\nhttp { tunnel_timeout 5s; server { http2 on; } map $uri $x { http2 1; } }\n")
            .configuration;
        let configuration = given.as_ref().expect("given");
        let names =
            |dialect| -> Vec<String> { refused(Side { configuration, dialect }).into_iter().map(|it| it.0).collect() };
        assert_eq!(names(Dialect::NGINX_1_22), ["http2", "tunnel_timeout"]);
        assert_eq!(names(Dialect::NGINX_1_26), ["tunnel_timeout"]);
    }
}
