//! Which location of a server a URI belongs to. nginx's rules: an exact name ends the search; otherwise the longest prefix
//! is remembered, regular expressions are tried in their order unless that prefix is `^~`, and nested locations are
//! searched inside what was found. Built once for each server by the gateway; `find` runs once for each round of an
//! exchange. Names are compared with the normalised URI of `uri`.

mod trie;

use crate::captures::Captures;
use crate::pattern::{MatchError, Pattern};
use crate::variable::UserVariables;
use conf::diagnostic::Diagnostic;
use conf::source::Span;
use rustc_hash::FxHashMap;
use trie::{Lookup, Trie};

/// Nested locations deeper than this are refused: `find` recurses once for each level, and no configuration needs more.
const DEPTH_MAX: usize = 32;

/// The arguments of a `location` directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocationMatch {
    /// `= /name`
    Exact(Vec<u8>),
    /// `/name`
    Prefix(Vec<u8>),
    /// `^~ /name`: as a prefix, but expressions are not tried.
    PrefixFinal(Vec<u8>),
    /// `~ expression` and `~* expression`
    Regex(Pattern),
    /// `@name`, reached by internal redirects only. With the `@`.
    Named(Vec<u8>),
}

impl LocationMatch {
    /// Parses the one or two arguments, glued forms (`=/x`, `~*\.gif$`) included; the error is the text of a diagnostic.
    pub fn parse(args: &[&[u8]], users: &mut UserVariables) -> Result<Self, String> {
        let (modifier, name) = match args {
            [modifier, name] => (*modifier, *name),
            [word] => {
                let modifiers: [&[u8]; 4] = [b"~*", b"^~", b"=", b"~"];
                let glued = modifiers.into_iter().find(|modifier| word.starts_with(modifier)).unwrap_or_default();
                word.split_at(glued.len())
            }
            _ => return Err("invalid number of arguments in \"location\" directive".into()),
        };
        match modifier {
            b"" if name.first() == Some(&b'@') => Ok(Self::Named(name.to_vec())),
            b"" => Ok(Self::Prefix(name.to_vec())),
            b"=" => Ok(Self::Exact(name.to_vec())),
            b"^~" => Ok(Self::PrefixFinal(name.to_vec())),
            b"~" | b"~*" => Pattern::compile(name, modifier == b"~*", users).map(Self::Regex),
            _ => Err(format!("invalid location modifier \"{}\"", modifier.escape_ascii())),
        }
    }

    /// The name, or the text of the expression, as nginx prints it.
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Exact(name) | Self::Prefix(name) | Self::PrefixFinal(name) | Self::Named(name) => name,
            Self::Regex(pattern) => pattern.source().as_bytes(),
        }
    }
}

/// One `location` block.
#[derive(Debug, Clone)]
pub struct LocationSpec {
    /// The caller's id of the location.
    pub id: u32,
    /// What it matches.
    pub matcher: LocationMatch,
    /// Whether the name without its trailing slash is answered by a redirect to the name. nginx does so for prefix and
    /// exact locations that end in a slash and are handled by `proxy_pass` or a relative of it.
    pub auto_redirect: bool,
    /// The locations inside it, in the order of the configuration.
    pub nested: Vec<LocationSpec>,
    /// Where it was written.
    pub span: Span,
}

/// What a URI leads to.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// No location of the server: the server's own settings apply.
    Server,
    /// This location.
    Location {
        /// The caller's id.
        id: u32,
        /// The expression that matched, if one did: its named groups are to be stored in their slots.
        pattern: Option<&'a Pattern>,
    },
    /// 301 to the name of this location with the arguments of the request behind it (`uri::write_redirect`).
    Redirect {
        /// The caller's id of the location whose name ends in the slash that the URI lacks.
        id: u32,
    },
}

/// What a search comes across, in its order.
#[derive(Debug, Clone, Copy)]
pub enum Tried<'a> {
    /// A location whose name is the URI: the search ends.
    Exact(u32),
    /// The location with the longest prefix on its level.
    Prefix {
        /// The caller's id.
        id: u32,
        /// `^~`: expressions on its level are not tried.
        is_final: bool,
    },
    /// A location whose name is the URI with a slash: the search ends.
    Slash(u32),
    /// A location with an expression.
    Expression {
        /// The caller's id.
        id: u32,
        /// The expression.
        pattern: &'a Pattern,
        /// Whether it matched.
        matched: bool,
    },
}

/// All locations of one server.
#[derive(Debug, Clone, Default)]
pub struct Locations {
    root: Level,
    named: FxHashMap<Box<[u8]>, u32>,
}

/// The locations directly inside a server or a location.
#[derive(Debug, Clone, Default)]
struct Level {
    names: Trie<StaticNode>,
    patterns: Box<[PatternNode]>,
}

/// A location with a name, found by the trie.
#[derive(Debug, Clone)]
struct StaticNode {
    id: u32,
    is_final: bool,
    nested: Option<Box<Level>>,
}

/// A location with an expression.
#[derive(Debug, Clone)]
struct PatternNode {
    id: u32,
    pattern: Pattern,
    nested: Option<Box<Level>>,
}

impl Locations {
    /// Builds the tables. The errors carry nginx's phrases; a second `@name` is a warning, and the first one is used.
    pub fn build(specs: Vec<LocationSpec>) -> Result<(Self, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut builder = Builder::default();
        let root = builder.level(specs, None, 0);
        if builder.errors.is_empty() {
            Ok((Self { root, named: builder.named }, builder.warnings))
        } else {
            Err(builder.errors)
        }
    }

    /// The location of a normalised URI. `captures` is overwritten if an expression matches.
    #[inline]
    pub fn find(&self, uri: &[u8], captures: &mut Captures) -> Result<Found<'_>, MatchError> {
        self.find_and_tell(uri, captures, |_| {})
    }

    /// The same; calls `tell` for everything that the search comes across.
    pub fn find_and_tell<T: Fn(Tried<'_>) + Copy>(
        &self,
        uri: &[u8],
        captures: &mut Captures,
        tell: T,
    ) -> Result<Found<'_>, MatchError> {
        Ok(match self.root.find(uri, captures, tell)? {
            Search::Nothing => Found::Server,
            Search::Prefix { id } | Search::Exact { id } => Found::Location { id, pattern: None },
            Search::Pattern { id, pattern } => Found::Location { id, pattern: Some(pattern) },
            Search::Redirect { id } => Found::Redirect { id },
        })
    }

    /// The location `@name`; `name` has the `@`.
    pub fn named(&self, name: &[u8]) -> Option<u32> {
        self.named.get(name).copied()
    }
}

/// What one level found. Only `Prefix` leaves room for expressions of the levels around it.
enum Search<'a> {
    Nothing,
    Prefix { id: u32 },
    Exact { id: u32 },
    Pattern { id: u32, pattern: &'a Pattern },
    Redirect { id: u32 },
}

impl Level {
    fn find<T: Fn(Tried<'_>) + Copy>(
        &self,
        uri: &[u8],
        captures: &mut Captures,
        tell: T,
    ) -> Result<Search<'_>, MatchError> {
        let mut prefix = None;
        match self.names.lookup(uri) {
            Lookup::Exact(node) => {
                tell(Tried::Exact(node.id));
                return Ok(Search::Exact { id: node.id });
            }
            Lookup::Redirect(node) => {
                tell(Tried::Slash(node.id));
                return Ok(Search::Redirect { id: node.id });
            }
            Lookup::Nothing => {}
            Lookup::Prefix(node) => {
                tell(Tried::Prefix { id: node.id, is_final: node.is_final });
                let mut id = node.id;
                if let Some(nested) = &node.nested {
                    match nested.find(uri, captures, tell)? {
                        Search::Nothing => {}
                        Search::Prefix { id: inner } => id = inner,
                        found => return Ok(found),
                    }
                }
                if node.is_final {
                    return Ok(Search::Prefix { id });
                }
                prefix = Some(id);
            }
        }
        for node in &self.patterns {
            let matched = node.pattern.captures(uri, captures)?;
            tell(Tried::Expression { id: node.id, pattern: &node.pattern, matched });
            if matched {
                return node.find_nested(uri, captures, tell);
            }
        }
        Ok(prefix.map_or(Search::Nothing, |id| Search::Prefix { id }))
    }
}

impl PatternNode {
    /// The expression matched. A location inside it may match more closely, but the search ends here in any case.
    fn find_nested<T: Fn(Tried<'_>) + Copy>(
        &self,
        uri: &[u8],
        captures: &mut Captures,
        tell: T,
    ) -> Result<Search<'_>, MatchError> {
        let found = match &self.nested {
            Some(nested) => nested.find(uri, captures, tell)?,
            None => Search::Nothing,
        };
        Ok(match found {
            Search::Nothing => Search::Pattern { id: self.id, pattern: &self.pattern },
            // A prefix inside an expression ends the search too, which is what `Exact` says.
            Search::Prefix { id } => Search::Exact { id },
            found => found,
        })
    }
}

/// Collects what is wrong while the levels are built.
#[derive(Default)]
struct Builder {
    named: FxHashMap<Box<[u8]>, u32>,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl Builder {
    fn level(&mut self, specs: Vec<LocationSpec>, outer: Option<&LocationMatch>, depth: usize) -> Level {
        let mut level = Level::default();
        let mut patterns = Vec::new();
        for LocationSpec { id, matcher, auto_redirect, nested, span } in specs {
            if let Err(message) = check_place(&matcher, outer, depth) {
                self.errors.push(Diagnostic::error(span, message));
                continue;
            }
            let nested = (!nested.is_empty()).then(|| Box::new(self.level(nested, Some(&matcher), depth + 1)));
            let auto_redirect = auto_redirect && matcher.name().ends_with(b"/");
            let free = match matcher {
                LocationMatch::Exact(ref name) => {
                    level.names.insert_exact(name, StaticNode { id, is_final: true, nested: None }, auto_redirect)
                }
                LocationMatch::Prefix(ref name) => {
                    level.names.insert_prefix(name, StaticNode { id, is_final: false, nested }, auto_redirect)
                }
                LocationMatch::PrefixFinal(ref name) => {
                    level.names.insert_prefix(name, StaticNode { id, is_final: true, nested }, auto_redirect)
                }
                LocationMatch::Regex(pattern) => {
                    patterns.push(PatternNode { id, pattern, nested });
                    continue;
                }
                LocationMatch::Named(name) => {
                    self.insert_named(name, id, span);
                    continue;
                }
            };
            if !free {
                let shown = matcher.name().escape_ascii();
                self.errors.push(Diagnostic::error(span, format!("duplicate location \"{shown}\"")));
            }
        }
        level.patterns = patterns.into();
        level
    }

    fn insert_named(&mut self, name: Vec<u8>, id: u32, span: Span) {
        if self.named.contains_key(&name[..]) {
            let message = format!("duplicate location \"{}\", the first one is used", name.escape_ascii());
            self.warnings.push(Diagnostic::warning(span, message));
        } else {
            self.named.insert(name.into(), id);
        }
    }
}

/// nginx's rules on what may appear inside what.
fn check_place(matcher: &LocationMatch, outer: Option<&LocationMatch>, depth: usize) -> Result<(), String> {
    let Some(outer) = outer else { return Ok(()) };
    let (name, outer_name) = (matcher.name().escape_ascii(), outer.name().escape_ascii());
    if depth > DEPTH_MAX {
        return Err(format!("location \"{name}\" is nested more than {DEPTH_MAX} levels deep"));
    }
    match (matcher, outer) {
        (_, LocationMatch::Exact(_)) => {
            Err(format!("location \"{name}\" cannot be inside the exact location \"{outer_name}\""))
        }
        (_, LocationMatch::Named(_)) => {
            Err(format!("location \"{name}\" cannot be inside the named location \"{outer_name}\""))
        }
        (LocationMatch::Named(_), _) => Err(format!("named location \"{name}\" can be on the server level only")),
        (LocationMatch::Regex(_), _) => Ok(()),
        // nginx compares with the text of an outer expression as well, which nearly never fits: kept, since a
        // configuration that nginx refuses must not pass here.
        (matcher, outer) if !matcher.name().starts_with(outer.name()) => {
            Err(format!("location \"{name}\" is outside location \"{outer_name}\""))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
