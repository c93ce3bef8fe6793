//! The contents of a server or a location besides its settings: rewrite programs, content, inner locations.

use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::files::{self, TryFiles};
use super::location::{Content, LimitExcept, Location, LocationSettings, Matcher};
use super::lower::Walk;
use super::proxy::Scheme;
use super::proxy_pass::{PassPlace, parse_application_pass, parse_proxy_pass};
use super::rewrite::{self, If, Instruction, Program};
use super::route_to::{self, RouteTo};
use crate::diagnostic::Diagnostic;
use crate::load::NESTING_MAX;
use crate::source::Span;
use crate::tree::{Block, Directive, Word};
use crate::value::Parsed;
use crate::value::words::MethodSet;

/// The contents of one block.
#[derive(Default)]
pub(crate) struct Inside {
    pub(crate) program: Program,
    pub(crate) content: Option<Content>,
    pub(crate) try_files: Option<Box<TryFiles>>,
    pub(crate) routes: Vec<RouteTo>,
    pub(crate) limit_except: Option<Box<LimitExcept>>,
    pub(crate) locations: Vec<Location>,
}

/// The position of the walk.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The matcher of the innermost location; `None` directly in a server.
    matcher: Option<&'a Matcher>,
    /// Inside `if` or `limit_except`.
    nameless: bool,
    depth: usize,
}

impl Place<'_> {
    fn of_pass(self) -> PassPlace {
        let uri = self.matcher.and_then(Matcher::uri);
        PassPlace { uri_allowed: uri.is_some() && !self.nameless, matched_length: uri.map_or(0, <[u8]>::len) }
    }
}

impl Walk {
    /// What is inside a server.
    pub(crate) fn inside_server(&mut self, block: &Block, settings: &Arc<LocationSettings>) -> Inside {
        self.inside(block, settings, Place { matcher: None, nameless: false, depth: 0 })
    }

    fn inside(&mut self, block: &Block, settings: &Arc<LocationSettings>, place: Place<'_>) -> Inside {
        let mut inside = Inside::default();
        // Content is read first: an `if` or `limit_except` takes it over even if it is written after them.
        for directive in &block.directives {
            self.content(directive, place, &mut inside);
        }
        for directive in &block.directives {
            if let Some(step) = self.step(directive, settings, place, &inside) {
                inside.program.push(step);
            }
            match (directive.name.value.as_slice(), &directive.block) {
                (b"limit_except", Some(block)) => {
                    inside.limit_except = self.limit_except(directive, block, settings, place, inside.content.as_ref());
                }
                (b"location", Some(block)) => {
                    if let Some(location) = self.location(directive, block, settings, place) {
                        inside.locations.push(location);
                    }
                }
                _ => {}
            }
        }
        check_duplicates(&inside.locations, &mut self.out);
        inside
    }

    fn content(&mut self, directive: &Directive, place: Place<'_>, inside: &mut Inside) {
        match directive.name.value.as_slice() {
            b"proxy_pass" => {
                let pass = parse_proxy_pass(directive, place.of_pass(), &mut self.groups);
                if let Some(pass) = self.report(pass) {
                    inside.content = Some(Content::Proxy(Box::new(pass)));
                }
            }
            name @ (b"fastcgi_pass" | b"scgi_pass" | b"uwsgi_pass" | b"memcached_pass" | b"grpc_pass") => {
                let scheme = match name {
                    b"fastcgi_pass" => Scheme::Fastcgi,
                    b"scgi_pass" => Scheme::Scgi,
                    b"memcached_pass" => Scheme::Memcached,
                    b"grpc_pass" => Scheme::Grpc,
                    _ => Scheme::Uwsgi,
                };
                let pass = parse_application_pass(directive, scheme, &mut self.groups);
                if let Some(pass) = self.report(pass) {
                    inside.content = Some(Content::Proxy(Box::new(pass)));
                }
            }
            b"stub_status" => inside.content = Some(Content::StubStatus),
            b"status_page" => inside.content = Some(Content::StatusPage),
            b"empty_gif" => inside.content = Some(Content::EmptyGif),
            b"route_to" => {
                let parsed = route_to::parse_route_to(directive);
                inside.routes.extend(self.report(parsed));
            }
            b"try_files" => {
                let parsed = files::parse_try_files(&directive.args, directive.span);
                inside.try_files = self.report(parsed).map(Box::new);
            }
            _ => {}
        }
    }

    fn step(
        &mut self,
        directive: &Directive,
        settings: &Arc<LocationSettings>,
        place: Place<'_>,
        outer: &Inside,
    ) -> Option<Instruction> {
        let parsed = match directive.name.value.as_slice() {
            b"return" => rewrite::parse_return(directive, &mut self.out).map(Instruction::Return),
            b"rewrite" => rewrite::parse_rewrite(directive, &self.env, &mut self.out)
                .map(|rewrite| Instruction::Rewrite(Box::new(rewrite))),
            b"set" => rewrite::parse_set(directive),
            b"break" => Ok(Instruction::Break(directive.span)),
            b"if" => return self.step_if(directive, settings, place, outer),
            _ => return None,
        };
        self.report(parsed)
    }

    fn step_if(
        &mut self,
        directive: &Directive,
        settings: &Arc<LocationSettings>,
        place: Place<'_>,
        outer: &Inside,
    ) -> Option<Instruction> {
        let condition = rewrite::parse_condition(directive, &self.env);
        let condition = self.report(condition);
        let block = directive.block.as_ref()?;
        if place.depth >= NESTING_MAX {
            self.out.push(too_deep(directive));
            return None;
        }
        let settings = self.settings(block, settings);
        let inside = self.inside(block, &settings, Place { nameless: true, depth: place.depth + 1, ..place });
        // The block takes over the content of the location around it, unless it has its own.
        let content = inside.content.or_else(|| outer.content.clone());
        Some(Instruction::If(Box::new(If {
            condition: condition?,
            program: inside.program,
            settings,
            content,
            span: directive.span,
        })))
    }

    fn limit_except(
        &mut self,
        directive: &Directive,
        block: &Block,
        settings: &Arc<LocationSettings>,
        place: Place<'_>,
        content: Option<&Content>,
    ) -> Option<Box<LimitExcept>> {
        let methods = MethodSet::parse_limit_except(&directive.args);
        let methods = self.report(methods)?;
        let settings = self.settings(block, settings);
        let inside = self.inside(block, &settings, Place { nameless: true, depth: place.depth + 1, ..place });
        // `limit_except` takes over a proxy from the location around it, and no other handler.
        let outer = content.filter(|content| matches!(content, Content::Proxy(_)));
        let content = inside.content.or_else(|| outer.cloned());
        Some(Box::new(LimitExcept { methods, settings, content, span: directive.span }))
    }

    fn location(
        &mut self,
        directive: &Directive,
        block: &Block,
        settings: &Arc<LocationSettings>,
        place: Place<'_>,
    ) -> Option<Location> {
        let span = directive.args.last().map_or(directive.name.span, |last| directive.name.span.to_end(last.span));
        if place.depth >= NESTING_MAX {
            self.out.push(too_deep(directive));
            return None;
        }
        let matcher = self.matcher(&directive.args, directive);
        let matcher = self.report(matcher)?;
        if let Some(outer) = place.matcher {
            let nested = check_nesting(&matcher, outer, span);
            self.report(nested);
        }
        let settings = self.settings(block, settings);
        if matches!(matcher, Matcher::Named(_)) {
            let alias = block.directives.iter().find(|inner| inner.name.value == b"alias");
            self.out.extend(alias.map(|alias| {
                Diagnostic::error(alias.name.span, "the \"alias\" directive cannot be used inside the named location")
            }));
        }
        let inside =
            self.inside(block, &settings, Place { matcher: Some(&matcher), nameless: false, depth: place.depth + 1 });
        self.report(route_to::check_count(&inside.routes));
        let auto_redirect =
            matches!(&inside.content, Some(Content::Proxy(_))) && matcher.uri().is_some_and(|uri| uri.ends_with(b"/"));
        Some(Location {
            matcher,
            settings,
            content: inside.content,
            auto_redirect,
            try_files: inside.try_files,
            routes: inside.routes,
            program: inside.program,
            limit_except: inside.limit_except,
            locations: inside.locations,
            span,
        })
    }

    fn matcher(&self, words: &[Word], directive: &Directive) -> Parsed<Matcher> {
        match words {
            [word] => self.matcher_of_one(word),
            [modifier, word, ..] => match modifier.value.as_slice() {
                b"=" => Ok(Matcher::Exact(word.value.to_vec())),
                b"^~" => Ok(Matcher::PrefixNoRegex(word.value.to_vec())),
                b"~" => self.env.regex(word, 0, false).map(Matcher::Regex),
                b"~*" => self.env.regex(word, 0, true).map(Matcher::Regex),
                _ => {
                    Err(Diagnostic::error(modifier.span, format!("invalid location modifier \"{}\"", modifier.text()))
                        .with_hint("one of `=`, `^~`, `~`, `~*`"))
                }
            },
            [] => Err(Diagnostic::error(directive.name.span, "invalid number of arguments in \"location\" directive")),
        }
    }

    /// Reads a location's only argument: the modifier may touch the name.
    fn matcher_of_one(&self, word: &Word) -> Parsed<Matcher> {
        match word.value.as_slice() {
            [b'=', uri @ ..] => Ok(Matcher::Exact(uri.to_vec())),
            [b'^', b'~', uri @ ..] => Ok(Matcher::PrefixNoRegex(uri.to_vec())),
            [b'~', b'*', ..] => self.env.regex(word, 2, true).map(Matcher::Regex),
            [b'~', ..] => self.env.regex(word, 1, false).map(Matcher::Regex),
            [b'@', name @ ..] => Ok(Matcher::Named(String::from_utf8_lossy(name).into_owned())),
            // A URI begins with a slash: for nginx before 1.31.5 this is a prefix that matches nothing.
            [b'$', ..] => {
                let message =
                    format!("location \"{}\" by a variable is known but not supported by holdfast", word.text());
                Err(Diagnostic::error(word.span, message).with_hint(
                    "`route_to @name condition ...` in a location leads to a named location by method, fields, arguments and variables",
                ))
            }
            uri => Ok(Matcher::Prefix(uri.to_vec())),
        }
    }
}

fn too_deep(directive: &Directive) -> Diagnostic {
    Diagnostic::error(directive.name.span, format!("blocks are nested deeper than {NESTING_MAX} levels"))
}

/// The name as nginx shows it: without modifier.
fn shown(matcher: &Matcher) -> String {
    match matcher {
        Matcher::Named(name) => format!("@{name}"),
        Matcher::Regex(regex) => String::from_utf8_lossy(&regex.pattern).into_owned(),
        Matcher::Exact(uri) | Matcher::Prefix(uri) | Matcher::PrefixNoRegex(uri) => {
            String::from_utf8_lossy(uri).into_owned()
        }
    }
}

fn check_nesting(inner: &Matcher, outer: &Matcher, span: Span) -> Parsed<()> {
    let (name, around) = (shown(inner), shown(outer));
    let error = |message: String| Err(Diagnostic::error(span, message));
    match (inner, outer) {
        (_, Matcher::Exact(_)) => {
            error(format!("location \"{name}\" cannot be inside the exact location \"{around}\""))
        }
        (_, Matcher::Named(_)) => {
            error(format!("location \"{name}\" cannot be inside the named location \"{around}\""))
        }
        (Matcher::Named(_), _) => error(format!("named location \"{name}\" can be on the server level only")),
        (Matcher::Regex(_), _) => Ok(()),
        _ if name.starts_with(&around) => Ok(()),
        _ => error(format!("location \"{name}\" is outside location \"{around}\"")),
    }
}

fn check_duplicates(locations: &[Location], out: &mut Vec<Diagnostic>) {
    if locations.len() < 2 {
        return;
    }
    let mut known: FxHashMap<(u8, &[u8]), Span> = FxHashMap::with_capacity_and_hasher(locations.len(), FxBuildHasher);
    for location in locations {
        let key: (u8, &[u8]) = match &location.matcher {
            Matcher::Exact(uri) => (0, uri),
            Matcher::Prefix(uri) | Matcher::PrefixNoRegex(uri) => (1, uri),
            Matcher::Named(name) => (2, name.as_bytes()),
            Matcher::Regex(_) => continue,
        };
        let Some(first) = known.insert(key, location.span) else { continue };
        let message = format!("duplicate location \"{}\"", shown(&location.matcher));
        // nginx accepts the second of two named locations without a message and never uses it.
        let found = match &location.matcher {
            Matcher::Named(_) => Diagnostic::warning(location.span, message),
            _ => Diagnostic::error(location.span, message),
        };
        out.push(found.with_related(first, "first defined here"));
    }
}
