//! A configuration as rules look at it: directives with the blocks around them, and what they inherit. The tree and not the
//! typed model, since a directive that Holdfast refuses may well be at work in the nginx beside it.

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

/// A directive with everything around it.
#[derive(Debug, Clone)]
pub struct Found<'a> {
    /// The directive.
    pub directive: &'a Directive,
    /// The directives whose blocks it is in, outermost first.
    pub within: Vec<&'a Directive>,
    root: &'a Block,
}

impl Configuration {
    /// From what `conf::load` gave.
    pub fn new(loaded: conf::Loaded) -> Self {
        Self { tree: loaded.tree, sources: loaded.sources }
    }

    /// File, line and column from 1.
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

    /// What is written there.
    pub(crate) fn text(&self, span: Span) -> Cow<'_, str> {
        String::from_utf8_lossy(self.sources.bytes(span))
    }

    /// Every directive of `http` and the top level with what is around it, in the order of the text.
    pub fn everything(&self) -> Vec<Found<'_>> {
        self.matching(|_| true)
    }

    /// All directives of that name, in the order of the text. Those of `stream` and `mail` are other directives.
    pub fn all(&self, name: &str) -> Vec<Found<'_>> {
        self.matching(|directive| is(directive, name))
    }

    fn matching(&self, wanted: impl Fn(&Directive) -> bool) -> Vec<Found<'_>> {
        let mut found = Vec::new();
        walk(&self.tree, &mut Vec::new(), &mut |directive, within| {
            if wanted(directive) && !within.first().is_some_and(|outer| is(outer, "stream") || is(outer, "mail")) {
                found.push(Found { directive, within: within.to_vec(), root: &self.tree });
            }
        });
        found
    }

    /// The one that counts at the top level.
    pub fn main(&self, name: &str) -> Option<&Directive> {
        last(&self.tree, name)
    }

    /// The setting of `events {}`.
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
    /// What holds here: in the innermost block around this directive that says it.
    pub fn inherited(&self, name: &str) -> Option<&'a Directive> {
        self.blocks().find_map(|block| last(block, name))
    }

    /// Of directives such as `proxy_set_header`, of which a block that has one inherits none: those that hold here.
    pub fn inherited_all(&self, name: &str) -> Vec<&'a Directive> {
        let of = |block: &'a Block| block.directives.iter().filter(|directive| is(directive, name)).collect::<Vec<_>>();
        self.blocks().map(of).find(|directives| !directives.is_empty()).unwrap_or_default()
    }

    /// The value of the `proxy_set_header` for that field, if there is one here.
    pub fn sent_header(&self, field: &str) -> Option<String> {
        let headers = self.inherited_all("proxy_set_header");
        let of = |header: &&&Directive| argument(header, 0).is_some_and(|name| name.eq_ignore_ascii_case(field));
        headers.iter().rev().find(of).and_then(|header| argument(header, 1))
    }

    /// Whether what comes here is asked to become a tunnel: the client's Upgrade is passed on.
    pub fn upgrades(&self) -> bool {
        self.sent_header("Upgrade").is_some_and(|value| !value.is_empty())
    }

    /// Where lines about what is proxied from here may appear: the innermost `location`, since `if` takes few of them.
    pub fn home(&self) -> Option<&'a Directive> {
        self.around("location")
    }

    /// The innermost block of that name around it.
    pub fn around(&self, name: &str) -> Option<&'a Directive> {
        self.within.iter().rev().copied().find(|block| is(block, name))
    }

    fn blocks(&self) -> impl Iterator<Item = &'a Block> + '_ {
        self.within.iter().rev().filter_map(|directive| directive.block.as_deref()).chain([self.root])
    }
}

/// Whether that is the directive's name.
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
