//! Builds a fix as a change of the configuration's files and prints it as a unified diff. The diff names the place,
//! `patch` can apply it, and the reversed change undoes it. Rules decide which directives to write; this module keeps
//! inherited lists: a block with a `proxy_set_header` of its own inherits none, so it repeats the outer ones.

use crate::configuration::{Configuration, Found, argument, is};
use conf::source::{FileId, Span};
use conf::tree::{Block, Directive};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Lines of context around a change: `patch` needs none, but readers do.
const CONTEXT: usize = 1;
/// One level of indentation if no line shows another.
const INDENT: &str = "    ";

/// How to undo any change.
pub(crate) const UNDO: &str = "Take the lines with + out and put those with - back (as a patch: patch -R), and reload.";

/// A change in progress.
pub(crate) struct Change<'c> {
    configuration: &'c Configuration,
    edits: Vec<Edit>,
    /// Comments below the diff.
    remarks: Vec<String>,
    /// Locations with headers already set.
    homes: Vec<Span>,
}

struct Edit {
    at: Span,
    text: String,
}

impl<'c> Change<'c> {
    pub(crate) fn new(configuration: &'c Configuration) -> Self {
        Self { configuration, edits: Vec::new(), remarks: Vec::new(), homes: Vec::new() }
    }

    /// Replaces a text: a word, or a whole directive with its `;`.
    pub(crate) fn replace(&mut self, at: Span, text: impl Into<String>) -> &mut Self {
        self.push(at, text.into())
    }

    /// Removes a directive, and its line if nothing else is on it.
    pub(crate) fn remove(&mut self, directive: &Directive) -> &mut Self {
        let text = self.text(directive.span.file);
        let (start, end) = (directive.span.start as usize, directive.span.end as usize);
        let line = line_start(text, start);
        let after = text.get(end..).unwrap_or_default();
        let rest = after.iter().position(|byte| *byte == b'\n');
        let is_alone = text.get(line..start).is_some_and(|before| before.trim_ascii().is_empty())
            && rest.is_some_and(|rest| after.get(..rest).is_some_and(|after| after.trim_ascii().is_empty()));
        let at = match rest.filter(|_| is_alone) {
            Some(rest) => span(directive.span.file, line, end + rest + 1),
            None => directive.span,
        };
        self.push(at, String::new())
    }

    /// Adds lines above a directive.
    pub(crate) fn before(&mut self, directive: &Directive, lines: &[String]) -> &mut Self {
        let file = directive.span.file;
        let start = directive.span.start as usize;
        let text = self.text(file);
        let line = line_start(text, start);
        let indent = text.get(line..start).unwrap_or_default();
        if !indent.trim_ascii().is_empty() {
            return self.push(span(file, start, start), format!("{} ", lines.join(" ")));
        }
        let indent = String::from_utf8_lossy(indent).into_owned();
        let text = lines.iter().fold(String::new(), |text, line| text + &indented(&indent, line));
        self.push(span(file, line, line), text)
    }

    /// Adds a line below a directive.
    pub(crate) fn after(&mut self, directive: &Directive, line: &str) -> &mut Self {
        let file = directive.span.file;
        let (text, start, end) = (self.text(file), directive.span.start as usize, directive.span.end as usize);
        let indent = text.get(line_start(text, start)..start).unwrap_or_default();
        let space = if indent.trim_ascii().is_empty() {
            format!("\n{}", String::from_utf8_lossy(indent))
        } else {
            " ".to_owned()
        };
        self.push(span(file, end, end), format!("{space}{line}"))
    }

    /// Adds lines at the end of a block.
    pub(crate) fn at_end(&mut self, block: &Block, lines: &[String]) -> &mut Self {
        let file = block.close.file;
        let close = block.close.start as usize;
        let text = self.text(file);
        let line = line_start(text, close);
        let outer = text.get(line..close).unwrap_or_default();
        if !outer.trim_ascii().is_empty() {
            let space = if outer.ends_with(b" ") { "" } else { " " };
            return self.push(span(file, close, close), format!("{space}{} ", lines.join(" ")));
        }
        let indent = self.indent_within(block).unwrap_or_else(|| format!("{}{INDENT}", String::from_utf8_lossy(outer)));
        let text = lines.iter().fold(String::new(), |text, line| text + &indented(&indent, line));
        self.push(span(file, line, line), text)
    }

    /// The indentation of the block's last directive that begins a line.
    fn indent_within(&self, block: &Block) -> Option<String> {
        block.directives.iter().rev().find_map(|directive| {
            let text = self.text(directive.span.file);
            let start = directive.span.start as usize;
            let indent = text.get(line_start(text, start)..start)?;
            (directive.span.file == block.close.file && indent.trim_ascii().is_empty())
                .then(|| String::from_utf8_lossy(indent).into_owned())
        })
    }

    /// Sets a directive in a block: replaces the one of that name, or adds it at the end.
    pub(crate) fn set(&mut self, block: &Directive, line: impl Into<String>) -> &mut Self {
        let line = line.into();
        let name = line.split([' ', ';']).next().unwrap_or_default();
        let Some(inner) = block.block.as_deref() else { return self };
        match inner.directives.iter().rev().find(|directive| is(directive, name)) {
            Some(old) => self.replace(old.span, line),
            None => self.at_end(inner, &[line]),
        }
    }

    /// Sets a directive at the top level: replaces the one of that name, or adds it above `events`.
    pub(crate) fn set_main(&mut self, line: impl Into<String>) -> &mut Self {
        let line = line.into();
        let name = line.split([' ', ';']).next().unwrap_or_default();
        if let Some(old) = self.configuration.main(name) {
            return self.replace(old.span, line);
        }
        match self.configuration.main("events") {
            Some(events) => self.before(events, &[line]),
            None => self.remark(format!("at the top level: {line}")),
        }
    }

    /// Sets a directive for a `proxy_pass`: in its location.
    pub(crate) fn set_for(&mut self, pass: &Found<'_>, line: impl Into<String>) -> &mut Self {
        match pass.home() {
            Some(home) => self.set(home, line),
            None => self,
        }
    }

    /// Sets request fields that a `proxy_pass` sends on; other fields stay.
    pub(crate) fn send(&mut self, pass: &Found<'_>, fields: &[(&str, &str)]) -> &mut Self {
        let Some((home, block)) = pass.home().and_then(|home| Some((home, home.block.as_deref()?))) else {
            return self;
        };
        if self.homes.contains(&home.span) {
            return self;
        }
        self.homes.push(home.span);
        let of = |header: &Directive, field: &str| argument(header, 0).is_some_and(|it| it.eq_ignore_ascii_case(field));
        let own: Vec<&Directive> = block.directives.iter().filter(|line| is(line, "proxy_set_header")).collect();
        let mut lines = Vec::new();
        if own.is_empty() {
            let outer = pass.inherited_all("proxy_set_header").into_iter();
            let kept = outer.filter(|header| !fields.iter().any(|(field, _)| of(header, field)));
            lines.extend(kept.map(|header| self.configuration.text(header.span).into_owned()));
        }
        for (field, value) in fields {
            let line = format!("proxy_set_header {field} {value};");
            match own.iter().rev().find(|header| of(header, field)) {
                Some(header) => {
                    self.replace(header.span, line);
                }
                None => lines.push(line),
            }
        }
        self.beside(pass, home, block, &lines)
    }

    /// Adds lines to the location of a `proxy_pass`: above the directive if it is directly in the location, otherwise
    /// at the end.
    fn beside(&mut self, pass: &Found<'_>, home: &Directive, block: &Block, lines: &[String]) -> &mut Self {
        if lines.is_empty() {
            return self;
        }
        let is_here = pass.within.last().is_some_and(|within| within.span == home.span);
        if is_here && pass.directive.span.file == block.close.file {
            self.before(pass.directive, lines)
        } else {
            self.at_end(block, lines)
        }
    }

    /// The variable that is `upgrade` for a request that asks for an upgrade, and empty for others. Uses an existing
    /// one, or adds a `map` at the top of `http`.
    pub(crate) fn connection_variable(&mut self) -> String {
        let maps = self.configuration.all("map");
        let is_it = |map: &&Found<'_>| {
            let values = map.directive.block.as_deref().map(|block| &block.directives[..]).unwrap_or_default();
            let of = |key: &str| values.iter().find(|line| is(line, key)).and_then(|line| argument(line, 0));
            argument(map.directive, 0).is_some_and(|source| source == "$http_upgrade")
                && of("default").is_some_and(|value| value.eq_ignore_ascii_case("upgrade"))
                && of("").is_some_and(|value| value.is_empty())
        };
        if let Some(known) = maps.iter().find(is_it).and_then(|map| argument(map.directive, 1)) {
            return known;
        }
        let is_taken = |name: &str| maps.iter().any(|map| argument(map.directive, 1).is_some_and(|it| it == name));
        let name = ["$connection_upgrade", "$upgrade_or_empty", "$connection_field"];
        let name = name.into_iter().find(|name| !is_taken(name)).unwrap_or("$doctors_connection");
        self.at_top(&[format!("map $http_upgrade {name} {{ default upgrade; '' ''; }}")]);
        name.to_owned()
    }

    /// Adds lines at the top of `http`: above its first directive.
    pub(crate) fn at_top(&mut self, lines: &[String]) -> &mut Self {
        let block = self.configuration.main("http").and_then(|http| http.block.as_deref());
        let first =
            block.and_then(|block| block.directives.first().filter(|first| first.span.file == block.close.file));
        match (first, block) {
            (Some(first), _) => self.before(first, lines),
            (None, Some(block)) => self.at_end(block, lines),
            (None, None) => self,
        }
    }

    /// Adds a comment below the change.
    pub(crate) fn remark(&mut self, text: impl Into<String>) -> &mut Self {
        self.remarks.push(text.into());
        self
    }

    fn push(&mut self, at: Span, text: String) -> &mut Self {
        self.edits.push(Edit { at, text });
        self
    }

    fn text(&self, file: FileId) -> &'c [u8] {
        self.configuration.source(file).1
    }

    /// Prints the change as a unified diff, with the remarks as comments below it.
    pub(crate) fn fix(&self) -> String {
        let mut files: BTreeMap<FileId, Vec<&Edit>> = BTreeMap::new();
        for edit in &self.edits {
            files.entry(edit.at.file).or_default().push(edit);
        }
        let mut out = String::new();
        for (file, mut edits) in files {
            edits.sort_by_key(|edit| (edit.at.start, edit.at.end));
            // Two equal edits of the same place, such as one line for two passes, become one.
            edits.dedup_by(|later, earlier| later.at == earlier.at && later.text == earlier.text);
            let (name, text) = self.configuration.source(file);
            let _ = write!(out, "--- {name}\n+++ {name}\n");
            diff(&mut out, text, &edits);
        }
        for remark in &self.remarks {
            remark.lines().for_each(|line| {
                let _ = writeln!(out, "# {line}");
            });
        }
        out.trim_end_matches('\n').to_owned()
    }
}

fn indented(indent: &str, lines: &str) -> String {
    lines.lines().fold(String::new(), |text, line| format!("{text}{indent}{line}\n"))
}

fn span(file: FileId, start: usize, end: usize) -> Span {
    // Offsets come from spans, which are 32 bits wide.
    let of = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
    Span { file, start: of(start), end: of(end) }
}

fn line_start(text: &[u8], at: usize) -> usize {
    text.get(..at).unwrap_or(text).iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
}

/// The start of the line after the one that contains `at`.
fn line_end(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().position(|byte| *byte == b'\n').map_or(text.len(), |newline| at + newline + 1)
}

/// Old lines that are replaced by new lines.
struct Hunk<'t> {
    /// Byte range of the old lines.
    old: std::ops::Range<usize>,
    edits: Vec<&'t Edit>,
}

fn diff(out: &mut String, text: &[u8], edits: &[&Edit]) {
    let mut hunks: Vec<Hunk<'_>> = Vec::new();
    for edit in edits {
        let (start, end) = (edit.at.start as usize, edit.at.end as usize);
        let first = line_start(text, start);
        // An edit of whole lines does not touch the line after it.
        let is_whole = first == start && (edit.text.is_empty() || edit.text.ends_with('\n'));
        let last = if is_whole && line_start(text, end) == end { end } else { line_end(text, end) };
        match hunks.last_mut() {
            Some(hunk) if hunk.old.end > first => {
                hunk.old.end = hunk.old.end.max(last);
                hunk.edits.push(edit);
            }
            _ => hunks.push(Hunk { old: first..last, edits: vec![edit] }),
        }
    }
    // An edit may repeat an existing line, which leaves nothing to change.
    let pieces = hunks.iter().map(|hunk| hunk.narrowed(text)).filter(|it| !it.old.is_empty() || !it.new.is_empty());
    let mut shift = 0_isize;
    let mut pieces = pieces.peekable();
    while let Some(first) = pieces.next() {
        let (start, mut end) = (first.old.start, first.old.end);
        let mut group = vec![first];
        // Pieces whose context would touch form one hunk.
        let near = |end: usize, next: &Piece| lines(slice(text, end..next.old.start)).len() <= 2 * CONTEXT;
        while let Some(next) = pieces.next_if(|next| near(end, next)) {
            end = next.old.end;
            group.push(next);
        }
        let above = lines(slice(text, 0..start));
        let line = 1 + above.len().saturating_sub(CONTEXT);
        let below = lines(slice(text, end..text.len()));
        let mut body: Vec<(char, &[u8])> = Vec::new();
        body.extend(marked(' ', above.get(line - 1..).unwrap_or_default().to_vec()));
        let mut at = start;
        for piece in &group {
            body.extend(marked(' ', lines(slice(text, at..piece.old.start))));
            body.extend(marked('-', lines(slice(text, piece.old.clone()))));
            body.extend(marked('+', lines(&piece.new)));
            at = piece.old.end;
        }
        body.extend(marked(' ', below.get(..CONTEXT.min(below.len())).unwrap_or_default().to_vec()));
        let count = |other: char| body.iter().filter(|(mark, _)| *mark != other).count();
        let (before, after) = (count('+'), count('-'));
        let line = isize::try_from(line).unwrap_or(isize::MAX);
        // A side without lines has the number of the line before it.
        let of = |line: isize, count: usize| if count == 0 { line - 1 } else { line };
        let _ = writeln!(out, "@@ -{},{before} +{},{after} @@", of(line, before), of(line + shift, after));
        shift += isize::try_from(after).unwrap_or(isize::MAX) - isize::try_from(before).unwrap_or(isize::MAX);
        for (mark, line) in &body {
            show(out, *mark, line);
        }
    }
}

/// Lines that differ, without equal lines: `patch` interprets uneven context as the end of a file.
struct Piece {
    old: std::ops::Range<usize>,
    new: Vec<u8>,
}

fn marked(mark: char, lines: Vec<&[u8]>) -> impl Iterator<Item = (char, &[u8])> {
    lines.into_iter().map(move |line| (mark, line))
}

fn slice(text: &[u8], range: std::ops::Range<usize>) -> &[u8] {
    text.get(range).unwrap_or_default()
}

impl Hunk<'_> {
    fn narrowed(&self, text: &[u8]) -> Piece {
        let (new, old) = (self.applied(text), lines(slice(text, self.old.clone())));
        let new = lines(&new);
        let bytes = |lines: &[&[u8]]| lines.iter().map(|line| line.len()).sum::<usize>();
        let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let (rest_old, rest_new) = (old.get(same..).unwrap_or_default(), new.get(same..).unwrap_or_default());
        let tail = rest_old.iter().rev().zip(rest_new.iter().rev()).take_while(|(old, new)| old == new).count();
        let start = self.old.start + bytes(old.get(..same).unwrap_or_default());
        let end = self.old.end - bytes(old.get(old.len() - tail..).unwrap_or_default());
        Piece { old: start..end, new: rest_new.get(..rest_new.len() - tail).unwrap_or_default().concat() }
    }

    fn applied(&self, text: &[u8]) -> Vec<u8> {
        let mut new = Vec::new();
        let mut at = self.old.start;
        for edit in &self.edits {
            let (start, end) = (edit.at.start as usize, edit.at.end as usize);
            new.extend_from_slice(slice(text, at..start));
            new.extend_from_slice(edit.text.as_bytes());
            at = at.max(end);
        }
        new.extend_from_slice(slice(text, at..self.old.end));
        new
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn show(out: &mut String, mark: char, line: &[u8]) {
    let text: Cow<'_, str> = String::from_utf8_lossy(line);
    out.push(mark);
    out.push_str(&text);
    if !text.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::fixture::facts;
    use super::*;

    const TEXT: &str = "events {}\nhttp {\n    upstream api {\n        server 127.0.0.1:1;\n    }\n    server {\n        \
                        proxy_set_header Host $host;\n        location / { proxy_pass http://api; }\n    }\n}\n";

    #[test]
    fn added_lines_repeat_inherited_headers() {
        let facts = facts(TEXT);
        let configuration = facts.configuration.as_ref().expect("given");
        let mut change = Change::new(configuration);
        change.set(configuration.upstream("api").expect("written"), "keepalive 32;");
        let pass = configuration.all("proxy_pass").remove(0);
        change.send(&pass, &[("Connection", "\"\"")]).remark("a remark");
        let diff = change.fix();
        assert_eq!(
            diff,
            "--- /etc/nginx/nginx.conf\n+++ /etc/nginx/nginx.conf\n@@ -4,2 +4,3 @@\n         server 127.0.0.1:1;\n\
             +        keepalive 32;\n     }\n@@ -7,3 +8,3 @@\n         proxy_set_header Host $host;\n\
             -        location / { proxy_pass http://api; }\n\
             +        location / { proxy_set_header Host $host; proxy_set_header Connection \"\"; proxy_pass http://api; }\n     }\n# a remark"
        );
    }

    #[test]
    fn removal_leaves_no_hole_and_marks_a_missing_newline() {
        let facts = facts("events {}\nhttp {\n    server_tokens on;\n}");
        let configuration = facts.configuration.as_ref().expect("given");
        let mut change = Change::new(configuration);
        change.remove(configuration.all("server_tokens")[0].directive);
        assert!(
            change.fix().ends_with(" http {\n-    server_tokens on;\n }\n\\ No newline at end of file"),
            "{}",
            change.fix()
        );
    }
}
