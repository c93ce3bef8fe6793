//! Checks the tree against the directive table: does the directive exist, is it allowed in this block, is the number of
//! arguments right, and does holdfast act on it. `model` checks what the arguments mean. Called by `-t` and by every
//! start and reload, between `load` and lowering.

mod needs;
mod suggest;

use std::fmt::Write as _;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::diagnostic::{Diagnostic, Severity};
use crate::load::{ERRORS_MAX, Loaded, start_of};
use crate::model::memory::{Memory, address, is_shared};
use crate::source::Span;
use crate::table::{self, Context, Contexts, Directive as Row, Support};
use crate::tree::{Block, Directive, Quote, Word};

use suggest::{Suggestion, contexts_text};

/// Checks the whole configuration against the rows of a table. Returns errors, warnings and notes in the order of the
/// tree; at most [`ERRORS_MAX`] errors.
pub fn check<'r>(loaded: &Loaded, rows: impl IntoIterator<Item = &'r Row>) -> Vec<Diagnostic> {
    check_with(loaded, rows, None)
}

/// The same for one of several trees that are made one after another: a server or a group in which nothing was found before is
/// not checked again. A note that a directive has no effect may be missing, if that depends on other parts of the tree.
pub fn check_reusing<'r>(
    loaded: &Loaded,
    rows: impl IntoIterator<Item = &'r Row>,
    memory: &mut Memory,
) -> Vec<Diagnostic> {
    check_with(loaded, rows, Some(memory))
}

fn check_with<'r>(
    loaded: &Loaded,
    rows: impl IntoIterator<Item = &'r Row>,
    memory: Option<&mut Memory>,
) -> Vec<Diagnostic> {
    let index = Index::new(rows);
    let mut checker = Checker {
        loaded,
        index: &index,
        found: Vec::new(),
        errors: 0,
        reported: FxHashSet::default(),
        noted: FxHashMap::default(),
        met: FxHashMap::default(),
        known: memory.as_deref(),
        checked: FxHashMap::default(),
    };
    checker.block(&loaded.tree.directives, Context::Main);
    checker.required_blocks();
    checker.count_notes();
    let Checker { found, checked, errors, .. } = checker;
    // An error is reported once, so a block without findings may have the error of another block.
    if let Some(memory) = memory.filter(|_| errors == 0) {
        memory.keep_checked(checked);
    }
    found
}

/// The rows by name.
struct Index<'r> {
    by_name: FxHashMap<&'r [u8], Vec<&'r Row>>,
}

impl<'r> Index<'r> {
    fn new(rows: impl IntoIterator<Item = &'r Row>) -> Self {
        let mut by_name: FxHashMap<&[u8], Vec<&Row>> = FxHashMap::default();
        for row in rows {
            by_name.entry(row.name.as_bytes()).or_default().push(row);
        }
        Self { by_name }
    }

    fn find(&self, name: &[u8]) -> &[&'r Row] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    fn find_in(&self, name: &[u8], context: Context) -> Option<&'r Row> {
        self.find(name).iter().find(|row| row.contexts.contains(context)).copied()
    }

    fn rows(&self) -> impl Iterator<Item = &'r Row> + Clone {
        self.by_name.values().flatten().copied()
    }
}

/// One directive to check. Where a `;` is missing, one directive of the tree becomes several subjects.
#[derive(Clone, Copy)]
struct Subject<'t> {
    name: &'t Word,
    args: &'t [Word],
    block: Option<&'t Block>,
}

impl<'t> Subject<'t> {
    fn of(directive: &'t Directive) -> Self {
        Self { name: &directive.name, args: &directive.args, block: directive.block.as_deref() }
    }

    /// Name and arguments.
    fn words(&self) -> Span {
        self.args.last().map_or(self.name.span, |last| self.name.span.to(last.span))
    }

    /// Splits the directive before the argument at `index`. The second subject begins with that argument.
    fn split(self, index: usize) -> Option<(Self, Self)> {
        let (args, rest) = self.args.split_at_checked(index)?;
        let (name, rest) = rest.split_first()?;
        Some((Self { args, block: None, ..self }, Self { name, args: rest, block: self.block }))
    }
}

struct Checker<'c, 'r> {
    loaded: &'c Loaded,
    index: &'c Index<'r>,
    found: Vec<Diagnostic>,
    errors: usize,
    /// What was already reported, so that a file included ten times reports each mistake once.
    reported: FxHashSet<(Span, String)>,
    /// For each directive name, the place of its note in `found` and the number of further places.
    noted: FxHashMap<String, (usize, u32)>,
    /// Needs that were looked up: each lookup may walk the whole tree.
    met: FxHashMap<&'static str, bool>,
    /// What was found before; `None` if there is no tree before.
    known: Option<&'c Memory>,
    /// Servers and groups without findings, by the address of their block.
    checked: FxHashMap<usize, Directive>,
}

impl<'r> Checker<'_, 'r> {
    fn block(&mut self, directives: &[Directive], context: Context) {
        // Holds only directives that may appear once, so the list stays short.
        let mut seen: Vec<(&'r str, Span)> = Vec::new();
        for directive in directives {
            if let Some(memory) = self.known.filter(|_| context == Context::Http && is_shared(directive)) {
                self.once(memory, directive, &mut seen);
                continue;
            }
            let damaged = self.loaded.notes.damaged.contains(&directive.span);
            self.directive(Subject::of(directive), context, damaged, &mut seen);
        }
    }

    /// Checks a server or a group, unless nothing was found in it before.
    fn once(&mut self, memory: &Memory, directive: &Directive, seen: &mut Vec<(&'r str, Span)>) {
        let found = self.found.len();
        if !memory.is_checked(directive) {
            self.directive(Subject::of(directive), Context::Http, false, seen);
        }
        if let Some(at) = address(directive).filter(|_| self.found.len() == found) {
            self.checked.insert(at, directive.clone());
        }
    }

    fn directive(&mut self, it: Subject<'_>, context: Context, damaged: bool, seen: &mut Vec<(&'r str, Span)>) {
        // This limit also bounds the recursion when every line of a file lacks its `;`.
        if self.errors >= ERRORS_MAX {
            return;
        }
        let rows = self.index.find(&it.name.value);
        let Some(row) = rows.iter().find(|row| row.contexts.contains(context)).copied() else {
            if rows.is_empty() {
                self.unknown(it, context, damaged);
            } else if rows.iter().all(|row| row.support == Support::No && !is_neutral(row, it)) {
                self.unsupported(it, rows[0]);
            } else {
                self.misplaced(it, rows, context);
            }
            return;
        };
        if row.support == Support::No && !is_neutral(row, it) {
            self.unsupported(it, row);
            return;
        }
        if !damaged && !self.shape(it, row, context, seen) {
            return;
        }
        self.support(it, row);
        if !row.repeatable && !damaged {
            match seen.iter().find(|(name, _)| *name == row.name) {
                Some(&(_, first)) => self.duplicate(it, first),
                None => seen.push((row.name, it.words())),
            }
        }
        if let Some(block) = it.block {
            self.inside(row.name, block, context);
        }
    }

    /// Checks for a block or `;`, the number of arguments, and flags. Returns false if it reported the directive and
    /// there is nothing more to check.
    fn shape(&mut self, it: Subject<'_>, row: &'r Row, context: Context, seen: &mut Vec<(&'r str, Span)>) -> bool {
        let is_count_ok = row.args.accepts(it.args.len());
        let is_flag_ok = !row.args.flag || it.args.first().is_none_or(is_flag);
        let is_shape_ok = row.args.block == it.block.is_some();
        let swallowed = self.swallowed(it, row, context);
        if is_count_ok && is_flag_ok && is_shape_ok {
            if let Some(at) = swallowed {
                self.warn_swallowed(it, at);
            }
            return true;
        }
        if let Some((this, next)) = swallowed.and_then(|at| it.split(at)) {
            // Checks both halves as if the `;` were there, to find the next mistake in the same run.
            if !row.args.block {
                self.unterminated(this, next);
            }
            self.directive(this, context, false, seen);
            self.directive(next, context, false, seen);
            return false;
        }
        if is_shape_ok && !is_count_ok {
            self.wrong_count(it, row);
        } else if is_shape_ok {
            self.bad_flag(it);
        } else if row.args.block {
            let diagnostic = Diagnostic::error(it.words(), format!("directive \"{}\" has no opening \"{{\"", row.name));
            self.push(diagnostic.with_hint(usage(row)));
        } else {
            self.unexpected_block(it, row);
        }
        if let (true, Some(block)) = (row.args.block, it.block) {
            self.inside(row.name, block, context);
        }
        false
    }

    /// Checks the body of a block that opens in `outer`.
    fn inside(&mut self, name: &str, block: &Block, outer: Context) {
        match context_inside(name, outer) {
            Some(Context::Entries) => self.entries(name, block),
            Some(context) => self.block(&block.directives, context),
            None => {}
        }
        if name == "upstream" {
            self.state_file(block);
        }
    }

    /// Checks the body of a `state` file: the file holds the group's servers and nothing else, and the group has no
    /// other servers.
    fn state_file(&mut self, block: &Block) {
        let Some(state) = block.directives.iter().find(|directive| directive.name.value == b"state") else { return };
        if state.name.span.file != block.open.file {
            let message = "\"state\" directive is not allowed in an included file";
            let hint = "write it in the `upstream` block itself";
            self.push(Diagnostic::error(Subject::of(state).words(), message).with_hint(hint));
        }
        for directive in &block.directives {
            let is_server = directive.name.value == b"server";
            let in_state = self.loaded.notes.states.contains(&directive.name.span.file);
            let words = Subject::of(directive).words();
            if in_state && !is_server {
                let message = "a state file holds \"server\" directives only";
                self.push(Diagnostic::error(words, message).with_related(state.name.span, "it is named here"));
            } else if is_server && !in_state {
                let message = "\"server\" directive cannot be used along with \"state\"";
                let diagnostic = Diagnostic::error(words, message).with_related(state.name.span, "`state` is here");
                self.push(diagnostic.with_hint("the servers of such a group are in its state file"));
            }
        }
    }

    /// Finds an argument that begins a line and is the name of a directive allowed here: the `;` before it is probably
    /// missing.
    fn swallowed(&self, it: Subject<'_>, row: &Row, context: Context) -> Option<usize> {
        let mut before = it.name;
        for (at, arg) in it.args.iter().enumerate() {
            if arg.quote == Quote::Bare
                && before.span.file == arg.span.file
                && self.begins_line(before.span, arg.span)
                && let Some(named) = self.index.find_in(&arg.value, context)
                && (!is_parameter(row, &arg.value) || is_whole(named, &it.args[at + 1..]))
            {
                return Some(at);
            }
            before = arg;
        }
        None
    }

    fn begins_line(&self, before: Span, word: Span) -> bool {
        let between = Span { start: before.end, end: word.start, ..before };
        self.loaded.sources.bytes(between).contains(&b'\n')
    }

    fn unterminated(&mut self, this: Subject<'_>, next: Subject<'_>) {
        let last = this.args.last().unwrap_or(this.name);
        let message = format!("directive \"{}\" is not terminated by \";\"", this.name.text());
        let diagnostic = Diagnostic::error(this.words(), message)
            .with_related(next.name.span, format!("`{}` would be an argument of it", next.name.text()))
            .with_hint(format!("put `;` after `{}`", last.text()));
        self.push(diagnostic);
    }

    fn warn_swallowed(&mut self, it: Subject<'_>, at: usize) {
        let word = &it.args[at];
        let message = format!("\"{}\" is an argument of \"{}\" here", word.text(), it.name.text());
        let hint =
            format!("if it is meant as a directive, end `{}` with `;`; if not, put it in quotes", it.name.text());
        self.push(
            Diagnostic::warning(word.span, message).with_related(it.name.span, "which begins here").with_hint(hint),
        );
    }

    fn wrong_count(&mut self, it: Subject<'_>, row: &Row) {
        let message = format!("invalid number of arguments in \"{}\" directive", row.name);
        self.push(Diagnostic::error(it.words(), message).with_hint(usage(row)));
    }

    fn bad_flag(&mut self, it: Subject<'_>) {
        let Some(arg) = it.args.first() else { return };
        let (value, name) = (arg.text(), it.name.text());
        let message = format!("invalid value \"{value}\" in \"{name}\" directive, it must be \"on\" or \"off\"");
        let guess = match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" | "enable" | "enabled" => "on",
            "false" | "no" | "0" | "disable" | "disabled" | "none" => "off",
            _ => return self.push(Diagnostic::error(arg.span, message)),
        };
        self.push(Diagnostic::error(arg.span, message).with_hint(format!("did you mean `{guess}`?")));
    }

    fn unexpected_block(&mut self, it: Subject<'_>, row: &Row) {
        let message = format!("directive \"{}\" is not terminated by \";\"", row.name);
        let touches = it.block.is_some_and(|block| block.open.start == it.words().end);
        let hint = if touches && it.args.last().is_some_and(|last| last.quote == Quote::Bare) {
            "a word ends at `{`: an argument that contains `{`, `}` or `;` must be in quotes".to_owned()
        } else {
            format!("it has no block: {}", usage(row))
        };
        self.push(Diagnostic::error(it.words(), message).with_hint(hint));
    }

    fn duplicate(&mut self, it: Subject<'_>, first: Span) {
        let message = format!("\"{}\" directive is duplicate", it.name.text());
        self.push(Diagnostic::error(it.words(), message).with_related(first, "first defined here"));
    }

    fn unknown(&mut self, it: Subject<'_>, context: Context, damaged: bool) {
        if let Some(foreign) = table::foreign(&it.name.text()) {
            let name = it.name.text();
            if it.block.is_none()
                && let [only] = it.args
                && only.value.eq_ignore_ascii_case(b"off")
                && table::Foreign::is_switch(&name)
            {
                let why =
                    format!("it belongs to {}, which holdfast does not have: `off` changes nothing", foreign.owner);
                self.note(it, &name, why);
                return;
            }
            let message = format!("directive \"{name}\" is known but not supported by holdfast");
            let hint = format!("it belongs to {}; {}", foreign.owner, foreign.instead);
            self.push(Diagnostic::error(it.name.span, message).with_hint(hint));
            return;
        }
        let message = format!("unknown directive \"{}\"", it.name.text());
        let suggestion = suggest::suggest(it.name, context, self.index);
        if !damaged {
            let mut diagnostic = Diagnostic::error(it.name.span, message);
            diagnostic.hint = suggestion.as_ref().map(Suggestion::text);
            self.push(diagnostic);
        }
        // If the block's name is only misspelt, its body is checked as well. For any other unknown name, the directives
        // allowed inside are not known.
        if let (Some(Suggestion::Name(row)), Some(block)) = (suggestion, it.block)
            && row.args.block
        {
            self.inside(row.name, block, context);
        }
    }

    fn misplaced(&mut self, it: Subject<'_>, rows: &[&Row], context: Context) {
        // Mismatched braces cause misplaced directives. That error is reported already and has to be repaired first.
        if !self.loaded.notes.unbalanced {
            let contexts = rows.iter().fold(0, |bits, row| bits | row.contexts.0);
            let name = it.name.text();
            let here = suggest::context_name(context);
            let allowed = contexts_text(Contexts(contexts));
            let message = format!("\"{name}\" directive is not allowed here");
            let hint = format!("this is {here}; `{name}` is allowed in {allowed}");
            self.push(Diagnostic::error(it.words(), message).with_hint(hint));
        }
        // If the directive belongs in only one place, its body is checked as if the block was there.
        if let Some(block) = it.block {
            let name = it.name.text();
            let mut bodies = rows.iter().filter(|row| row.args.block).flat_map(|row| bodies(&name, row.contexts));
            if let Some(body) = bodies.next()
                && bodies.all(|other| other == body)
                && body != Context::Entries
            {
                self.block(&block.directives, body);
            }
        }
    }

    fn unsupported(&mut self, it: Subject<'_>, row: &Row) {
        let message = format!("directive \"{}\" is known but not supported by holdfast", row.name);
        let mut hint = format!("it belongs to {}", row.module.owner());
        let instead = table::instead_of(row);
        if !instead.is_empty() {
            hint.push_str("; ");
            hint.push_str(instead);
        }
        if let Some(lines) = table::lines_instead_of(row.name) {
            hint.push_str(". For the same variables: ");
            hint.push_str(lines);
        }
        self.push(Diagnostic::error(it.words(), message).with_hint(hint));
    }

    fn support(&mut self, it: Subject<'_>, row: &'r Row) {
        match row.support {
            Support::Yes => {}
            Support::No => self.note(it, row.name, "it is the default here and changes nothing".to_owned()),
            Support::Accepted(why) => self.note(it, row.name, why.to_owned()),
            Support::With(need) if self.is_met(need) => {}
            // The directive that an `OnlyWith` row needs gets its own error, so this row can only have no effect.
            Support::With(need) | Support::OnlyWith(need) => {
                self.note(it, row.name, format!("it acts only with {need}"));
            }
        }
    }

    fn is_met(&mut self, need: &'static str) -> bool {
        *self.met.entry(need).or_insert_with(|| needs::is_met(need, &self.loaded.tree))
    }

    /// Adds one note for each directive name, at the first place.
    fn note(&mut self, it: Subject<'_>, name: &str, why: String) {
        if let Some((_, more)) = self.noted.get_mut(name) {
            *more += 1;
            return;
        }
        self.noted.insert(name.to_owned(), (self.found.len(), 0));
        let message = format!("\"{name}\" directive has no effect here");
        self.found.push(Diagnostic::note(it.words(), message).with_hint(why));
    }

    fn count_notes(&mut self) {
        for &(at, more) in self.noted.values().filter(|(_, more)| *more > 0) {
            // Writing to a String cannot fail.
            let _ = write!(self.found[at].message, " (and in {more} more places)");
        }
    }

    fn push(&mut self, diagnostic: Diagnostic) {
        if self.reported.insert((diagnostic.span, diagnostic.message.clone())) {
            self.errors += usize::from(diagnostic.severity == Severity::Error);
            self.found.push(diagnostic);
        }
    }

    /// Entries have no names to look up, so only their number can be checked here.
    fn entries(&mut self, block_name: &str, block: &Block) {
        let (singles, message): (&[&[u8]], _) = match block_name {
            "map" => (&[b"hostnames", b"volatile"], "invalid number of the map parameters"),
            "geo" => (&[b"ranges", b"proxy_recursive"], "invalid number of the geo parameters"),
            "split_clients" => (&[], "invalid number of parameters"),
            "charset_map" => (&[], "invalid parameters number"),
            _ => return,
        };
        for entry in &block.directives {
            let is_single = entry.args.is_empty() && singles.contains(&entry.name.value.as_slice());
            if is_single || entry.args.len() == 1 || self.loaded.notes.damaged.contains(&entry.span) {
                continue;
            }
            if self.errors >= ERRORS_MAX {
                return;
            }
            let words = Subject::of(entry).words();
            let hint = "an entry is two words and `;`; a word with spaces in it must be in quotes";
            self.push(Diagnostic::error(words, message).with_hint(hint));
        }
    }

    /// nginx refuses a configuration without `events`, even if the block would be empty.
    fn required_blocks(&mut self) {
        let tree = &self.loaded.tree;
        let source = self.loaded.sources.source(tree.open.file);
        let has_events = tree.directives.iter().any(|directive| directive.name.value == b"events");
        if has_events || self.errors > 0 || !self.loaded.is_ok() || source.is_unread() {
            return;
        }
        let message = "no \"events\" section in configuration";
        self.push(Diagnostic::error(start_of(tree.open.file), message).with_hint("add `events {}` at the top level"));
    }
}

/// Whether an unsupported directive only states what holdfast does anyway.
fn is_neutral(row: &Row, it: Subject<'_>) -> bool {
    let args: Vec<&[u8]> = it.args.iter().map(|arg| arg.value.as_slice()).collect();
    it.block.is_none() && row.is_neutral(&args)
}

/// Whether the word is part of the directive's own syntax, as `gzip` in `access_log`.
fn is_parameter(row: &Row, word: &[u8]) -> bool {
    let words = row.syntax.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.into_iter().any(|known| known.as_bytes() == word)
}

/// Whether these arguments complete the directive. A directive that takes none does not count.
fn is_whole(row: &Row, args: &[Word]) -> bool {
    !args.is_empty() && row.args.accepts(args.len()) && (!row.args.flag || args.iter().all(is_flag))
}

/// `on` and `off` in any case, as nginx takes them.
fn is_flag(word: &Word) -> bool {
    word.value.eq_ignore_ascii_case(b"on") || word.value.eq_ignore_ascii_case(b"off")
}

/// Most characters of a syntax in a hint: with the rest of the hint, it fits one line of a terminal.
const SYNTAX_CHARS_MAX: usize = 80;

/// How many arguments there are, and what they are.
fn usage(row: &Row) -> String {
    let count = match (row.args.min, row.args.max) {
        (0, 0) => "no arguments".to_owned(),
        (1, 1) => "1 argument".to_owned(),
        (0, u8::MAX) => "any number of arguments".to_owned(),
        (1, u8::MAX) => "1 argument or more".to_owned(),
        (min, u8::MAX) => format!("{min} arguments or more"),
        (min, max) if min == max => format!("{min} arguments"),
        (min, max) => format!("{min} to {max} arguments"),
    };
    let space = if row.syntax.is_empty() { "" } else { " " };
    let end = if !row.args.block {
        ";"
    } else if row.syntax.contains('{') {
        ""
    } else {
        " { … }"
    };
    // `listen` alone has a dozen optional parameters; the reference lists them all.
    let syntax = match row.syntax.char_indices().nth(SYNTAX_CHARS_MAX) {
        Some((at, _)) => format!("{}…", row.syntax[..at].rsplit_once(' ').map_or("", |(shown, _)| shown)),
        None => row.syntax.to_owned(),
    };
    format!("it takes {count}: `{}{space}{syntax}{end}`", row.name)
}

/// The context of a block's body; `None` for a block that the checks do not look into.
fn context_inside(name: &str, outer: Context) -> Option<Context> {
    Some(match (name, outer) {
        ("events", Context::Main) => Context::Events,
        ("http", Context::Main) => Context::Http,
        ("stream", Context::Main) => Context::Stream,
        ("mail", Context::Main) => Context::Mail,
        ("server", Context::Http) => Context::Server,
        ("server", Context::Stream) => Context::StreamServer,
        ("server", Context::Mail) => Context::MailServer,
        ("upstream", Context::Http) => Context::Upstream,
        ("acme_issuer", Context::Http) => Context::AcmeIssuer,
        ("otel_exporter", Context::Http) => Context::OtelExporter,
        ("upstream", Context::Stream) => Context::StreamUpstream,
        ("location", Context::Server | Context::Location) => Context::Location,
        ("if", Context::Server | Context::IfInServer) => Context::IfInServer,
        ("if", Context::Location | Context::IfInLocation) => Context::IfInLocation,
        ("limit_except", Context::Location) => Context::LimitExcept,
        ("types" | "map" | "geo" | "geoip2" | "split_clients" | "charset_map", _) => Context::Entries,
        _ => return None,
    })
}

/// The contexts that a block's body has, for each place in which the block may appear.
fn bodies(name: &str, contexts: Contexts) -> impl Iterator<Item = Context> {
    contexts.iter().filter_map(move |context| context_inside(name, context))
}
