//! A configuration for rules: directives with the blocks around them and with what they inherit. It uses the tree and
//! not the typed model, because nginx may use a directive that Holdfast refuses.

use conf::source::{FileId, SourceMap, Span};
use conf::tree::{Block, Directive, Word};
use conf::value::{size, time};
use std::borrow::Cow;

/// A parsed configuration.
#[derive(Debug)]
pub struct Configuration {
    tree: Block,
    sources: SourceMap,
}

/// A directive with the blocks around it.
#[derive(Debug, Clone)]
pub struct Found<'a> {
    /// The directive.
    pub directive: &'a Directive,
    /// The blocks that contain it, outermost first.
    pub within: Vec<&'a Directive>,
    root: &'a Block,
}

impl Configuration {
    /// Takes the result of `conf::load`.
    pub fn new(loaded: conf::Loaded) -> Self {
        Self { tree: loaded.tree, sources: loaded.sources }
    }

    /// File, line and column of a span; lines and columns count from 1.
    pub fn place(&self, span: Span) -> (String, usize, usize) {
        let source = self.sources.source(span.file);
        let (line, column) = source.line_column(span.start);
        (source.name.clone(), line as usize, column as usize)
    }

    /// The name of the main file, as it was typed.
    pub(crate) fn main_file(&self) -> &str {
        self.source(FileId(0)).0
    }

    /// The name and the bytes of a file.
    pub(crate) fn source(&self, file: FileId) -> (&str, &[u8]) {
        let source = self.sources.source(file);
        (&source.name, &source.text)
    }

    /// The text of a span.
    pub(crate) fn text(&self, span: Span) -> Cow<'_, str> {
        String::from_utf8_lossy(self.sources.bytes(span))
    }

    /// Every directive of the top level and `http`, with the blocks around it, in the order of the text.
    pub fn everything(&self) -> Vec<Found<'_>> {
        self.matching(|_| true)
    }

    /// All directives of that name, in the order of the text, without those of `stream` and `mail`.
    pub fn all(&self, name: &str) -> Vec<Found<'_>> {
        self.matching(|directive| is(directive, name))
    }

    /// All directives of that name in `stream`, in the order of the text.
    pub fn of_stream(&self, name: &str) -> Vec<Found<'_>> {
        let all = self.matching_in(&["http", "mail"], |directive| is(directive, name));
        all.into_iter().filter(|found| found.within.first().is_some_and(|outer| is(outer, "stream"))).collect()
    }

    /// Every `listen` for TCP, of `http` and `stream`.
    pub fn listens(&self) -> Vec<Found<'_>> {
        self.matching_in(&["mail"], |directive| {
            is(directive, "listen") && directive.args.iter().all(|word| word.value != *b"udp")
        })
    }

    fn matching(&self, wanted: impl Fn(&Directive) -> bool) -> Vec<Found<'_>> {
        self.matching_in(&["stream", "mail"], wanted)
    }

    /// The matching directives outside of these blocks of the top level.
    fn matching_in(&self, without: &[&str], wanted: impl Fn(&Directive) -> bool) -> Vec<Found<'_>> {
        let mut found = Vec::new();
        walk(&self.tree, &mut Vec::new(), &mut |directive, within| {
            let is_outside = !within.first().is_some_and(|outer| without.iter().any(|name| is(outer, name)));
            if wanted(directive) && is_outside {
                found.push(Found { directive, within: within.to_vec(), root: &self.tree });
            }
        });
        found
    }

    /// The effective directive of that name at the top level.
    pub fn main(&self, name: &str) -> Option<&Directive> {
        last(&self.tree, name)
    }

    /// The effective directive of that name in `events {}`.
    pub fn events(&self, name: &str) -> Option<&Directive> {
        self.main("events")?.block.as_deref().and_then(|block| last(block, name))
    }

    /// The `upstream {}` of that name.
    pub fn upstream(&self, name: &str) -> Option<&Directive> {
        self.all("upstream")
            .into_iter()
            .map(|found| found.directive)
            .find(|upstream| argument(upstream, 0) == Some(name.into()))
    }

    /// Workers: the number given, or the processors for `auto`. 1 if it is not set, as in nginx.
    pub fn workers(&self, cpus: Option<u64>) -> Option<u64> {
        match self.main("worker_processes") {
            None => Some(1),
            Some(directive) if argument(directive, 0).as_deref() == Some("auto") => cpus,
            Some(directive) => number(directive, 0),
        }
    }

    /// `worker_connections`; 512 if it is not set, as in nginx.
    pub fn worker_connections(&self) -> u64 {
        self.events("worker_connections").and_then(|directive| number(directive, 0)).unwrap_or(512)
    }

    /// Whether the gateway chooses as many processes as the descriptors are enough for (`worker_groups auto`).
    pub fn fits_processes_to_descriptors(&self) -> bool {
        self.main("worker_groups").is_some_and(|directive| argument(directive, 0).as_deref() == Some("auto"))
    }
}

/// Depth is bounded by `conf::load::NESTING_MAX`.
fn walk<'a>(
    block: &'a Block,
    within: &mut Vec<&'a Directive>,
    visit: &mut impl FnMut(&'a Directive, &[&'a Directive]),
) {
    for directive in &block.directives {
        visit(directive, within);
        if let Some(inner) = &directive.block {
            within.push(directive);
            walk(inner, within, visit);
            within.pop();
        }
    }
}

impl<'a> Found<'a> {
    /// The effective directive of that name: in the innermost block around this one that has it.
    pub fn inherited(&self, name: &str) -> Option<&'a Directive> {
        self.blocks().find_map(|block| last(block, name))
    }

    /// The effective directives of a list such as `proxy_set_header`: a block with one of them inherits none.
    pub fn inherited_all(&self, name: &str) -> Vec<&'a Directive> {
        let of = |block: &'a Block| block.directives.iter().filter(|directive| is(directive, name)).collect::<Vec<_>>();
        self.blocks().map(of).find(|directives| !directives.is_empty()).unwrap_or_default()
    }

    /// The value of the effective `proxy_set_header` for that field, if there is one.
    pub fn sent_header(&self, field: &str) -> Option<String> {
        let headers = self.inherited_all("proxy_set_header");
        let of = |header: &&&Directive| argument(header, 0).is_some_and(|name| name.eq_ignore_ascii_case(field));
        headers.iter().rev().find(of).and_then(|header| argument(header, 1))
    }

    /// Whether the client's Upgrade is passed on, so that requests here may become tunnels.
    pub fn upgrades(&self) -> bool {
        self.sent_header("Upgrade").is_some_and(|value| !value.is_empty())
    }

    /// The block for new lines about a `proxy_pass`: the innermost `location`, because `if` allows few of them.
    pub fn home(&self) -> Option<&'a Directive> {
        self.around("location")
    }

    /// The innermost surrounding block of that name.
    pub fn around(&self, name: &str) -> Option<&'a Directive> {
        self.within.iter().rev().copied().find(|block| is(block, name))
    }

    fn blocks(&self) -> impl Iterator<Item = &'a Block> + '_ {
        self.within.iter().rev().filter_map(|directive| directive.block.as_deref()).chain([self.root])
    }
}

/// Whether the directive has that name.
pub fn is(directive: &Directive, name: &str) -> bool {
    directive.name.value == *name.as_bytes()
}

fn last<'a>(block: &'a Block, name: &str) -> Option<&'a Directive> {
    block.directives.iter().rev().find(|directive| is(directive, name))
}

/// An argument as text.
pub fn argument(directive: &Directive, place: usize) -> Option<String> {
    directive.args.get(place).map(|word| word.text().into_owned())
}

/// An argument as a number.
pub fn number(directive: &Directive, place: usize) -> Option<u64> {
    argument(directive, place)?.parse().ok()
}

/// An argument as a size in bytes.
pub fn bytes(directive: &Directive, place: usize) -> Option<u64> {
    read(directive, place, size::parse_size)
}

/// An argument as seconds.
pub fn seconds(directive: &Directive, place: usize) -> Option<u64> {
    read(directive, place, time::parse_milliseconds).map(|duration| duration.as_secs())
}

fn read<T, E>(directive: &Directive, place: usize, parse: impl Fn(&str, &Word) -> Result<T, E>) -> Option<T> {
    parse(&directive.name.text(), directive.args.get(place)?).ok()
}
