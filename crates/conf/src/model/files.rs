//! How files are found, named and sent: `root`, `alias`, `index`, `types`, `sendfile`.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Block, Word};
use crate::value::plain::{parse_bytes, parse_flag, parse_u32};
use crate::value::size::{Buffers, number, parse_offset, parse_size};
use crate::value::time::{milliseconds, parse_seconds};
use crate::value::{Parsed, Template, invalid_parameter, parameter};

/// `root` or `alias`; a level has only one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Root {
    /// The path, relative to the prefix unless absolute, without a slash at its end (which `alias` keeps).
    pub path: Template,
    /// Whether it is an `alias`: the path replaces the part of the URI that the location matched. An inner location
    /// inherits the alias, and the path still replaces what the location that wrote it matched.
    pub alias: bool,
    /// Where it was written; `None` for the default `html`.
    pub span: Option<Span>,
}

/// File name extension (lower case, without dot) to media type.
pub type Types = BTreeMap<Vec<u8>, Vec<u8>>;

/// `if_modified_since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// The header is ignored.
    Off,
    /// The times must be equal.
    Exact,
    /// The file's time must not be later.
    Before,
}

/// `autoindex_format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFormat {
    /// HTML.
    Html,
    /// JSON.
    Json,
    /// JSON as the argument of a function named by the client.
    Jsonp,
    /// XML.
    Xml,
}

/// `open_file_cache`. Each directive is a cache of its own, identified by its span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFileCache {
    /// Paths at most.
    pub max: u64,
    /// How long an unused path stays.
    pub inactive: Duration,
    /// Where it is written.
    pub span: Span,
}

/// `disable_symlinks`.
#[derive(Debug, Clone, PartialEq)]
pub struct SymlinkSettings {
    /// Links that have the owner of what they lead to are followed.
    pub follows_same_owner: bool,
    /// Links in this part of the path, its beginning, are followed.
    pub from: Option<Template>,
}

fn parse_symlinks(at: &mut At<'_>) -> Parsed<Option<SymlinkSettings>> {
    let (mut kind, mut from) = (None, None);
    for word in at.words() {
        match word.value.as_slice() {
            b"off" => kind = Some(None),
            b"on" => kind = Some(Some(false)),
            b"if_not_owner" => kind = Some(Some(true)),
            _ => {
                let part = parameter(word, "from").ok_or_else(|| invalid_parameter(word))?;
                from = Some(Template::parse(at.name, &part)?);
            }
        }
    }
    let span = at.directive.span;
    let error = |message: String| Diagnostic::error(span, message);
    let kind =
        kind.ok_or_else(|| error(format!("\"{}\" must have \"off\", \"on\" or \"if_not_owner\" parameter", at.name)))?;
    match (kind, from, at.words()) {
        (_, None, [first, second]) => {
            Err(error(format!("duplicate parameters \"{} {}\"", first.text(), second.text())))
        }
        (None, Some(_), _) => Err(error("\"from=\" cannot be used with \"off\" parameter".to_owned())),
        (kind, from, _) => Ok(kind.map(|follows_same_owner| SymlinkSettings { follows_same_owner, from })),
    }
}

/// nginx's default for `inactive=`.
const OPEN_FILE_INACTIVE: Duration = Duration::from_mins(1);

fn parse_open_file_cache(at: &mut At<'_>) -> Parsed<Option<OpenFileCache>> {
    let (mut max, mut inactive) = (None, OPEN_FILE_INACTIVE);
    for word in at.words() {
        let is_good = if let Some(value) = parameter(word, "max") {
            max = number(&value.value).filter(|count| *count > 0);
            max.is_some()
        } else if let Some(value) = parameter(word, "inactive") {
            milliseconds(&value.value, true).is_some_and(|time| {
                inactive = Duration::from_millis(time);
                true
            })
        } else if word.value == b"off" {
            return Ok(None);
        } else {
            return Err(invalid_parameter(word));
        };
        if !is_good {
            let message = format!("invalid \"open_file_cache\" parameter \"{}\"", word.text());
            return Err(Diagnostic::error(word.span, message));
        }
    }
    let span = at.directive.span;
    let max = max.ok_or_else(|| Diagnostic::error(span, "\"open_file_cache\" must have the \"max\" parameter"))?;
    Ok(Some(OpenFileCache { max, inactive, span }))
}

settings! {
    /// Files of a location.
    pub struct FileSettings {
        /// Where files are.
        root: Root = default_root(), "root" | "alias" => edit(edit_root);
        /// Files tried for a URI that ends in `/`, in order; only the last may begin with `/`.
        index: Vec<Template> = vec![default_index()], "index" => each(parse_index);
        /// Whether a directory without an index is listed.
        listed: bool = false, "autoindex" => value(parse_flag);
        /// Format of the list.
        list_format: ListFormat = ListFormat::Html, "autoindex_format" => choice(&[
            ("html", ListFormat::Html), ("json", ListFormat::Json), ("jsonp", ListFormat::Jsonp), ("xml", ListFormat::Xml)]);
        /// Whether lists show local time.
        list_local_time: bool = false, "autoindex_localtime" => value(parse_flag);
        /// Whether lists show sizes in bytes.
        list_exact_size: bool = true, "autoindex_exact_size" => value(parse_flag);
        /// Whether a random file of a directory serves as its index.
        random_index: bool = false, "random_index" => value(parse_flag);
        /// Media types by extension.
        types: Arc<Types> = default_types();
        /// Media type of an unknown extension.
        default_type: Vec<u8> = b"text/plain".to_vec(), "default_type" => value(parse_bytes);
        /// Files go out by `sendfile(2)`.
        sendfile: bool = false, "sendfile" => value(parse_flag);
        /// Most bytes of one `sendfile(2)`; 0 for no limit.
        sendfile_max_chunk: u64 = 2 << 20, "sendfile_max_chunk" => value(parse_size);
        /// Head and first bytes go out in full packets (`TCP_CORK`).
        tcp_nopush: bool = false, "tcp_nopush" => value(parse_flag);
        /// Files are sent with an `ETag`.
        etag: bool = true, "etag" => value(parse_flag);
        /// How `If-Modified-Since` is compared.
        if_modified_since: IfModifiedSince = IfModifiedSince::Exact, "if_modified_since" => choice(&[
            ("off", IfModifiedSince::Off), ("exact", IfModifiedSince::Exact), ("before", IfModifiedSince::Before)]);
        /// Ranges of one request at most; 0 switches ranges off, `None` is no limit.
        max_ranges: Option<u32> = None, "max_ranges" => option(parse_u32);
        /// Bytes of each piece in which a response is requested; 0 requests it whole.
        slice: u64 = 0, "slice" => value(parse_size);
        /// Cache of open files.
        open_file_cache: Option<OpenFileCache> = None, "open_file_cache" => whole(parse_open_file_cache);
        /// How long an entry is valid before the file is checked again.
        open_file_valid: Duration = Duration::from_mins(1), "open_file_cache_valid" => value(parse_seconds);
        /// Uses after which a file stays open.
        open_file_min_uses: u32 = 1, "open_file_cache_min_uses" => value(parse_u32);
        /// Whether failures to open a file are cached.
        open_file_errors: bool = false, "open_file_cache_errors" => value(parse_flag);
        /// Which symbolic links in the path of a file are refused.
        disable_symlinks: Option<SymlinkSettings> = None, "disable_symlinks" => whole(parse_symlinks);
        /// Buffers for reading a file that `sendfile` does not send.
        output_buffers: Buffers = Buffers { count: 2, size: 32 << 10 }, "output_buffers" => whole(parse_buffers);
        /// Bytes that are collected before they are sent; checked, and of no effect here.
        postpone_output: u64 = 1460, "postpone_output" => value(parse_size);
        /// Read-ahead in bytes; checked, and of no effect here.
        read_ahead: u64 = 0, "read_ahead" => value(parse_size);
        /// Size from which a file is read past the page cache; checked, and of no effect here.
        directio: Option<u64> = None, "directio" => unless_off(parse_offset);
        /// Alignment of such reads; checked, and of no effect here.
        directio_alignment: u64 = 512, "directio_alignment" => value(parse_offset);
    }
}

fn default_root() -> Root {
    Root {
        path: Template::text(b"html", Span { file: crate::source::FileId(0), start: 0, end: 0 }),
        alias: false,
        span: None,
    }
}

fn default_index() -> Template {
    Template::text(b"index.html", Span { file: crate::source::FileId(0), start: 0, end: 0 })
}

fn default_types() -> Arc<Types> {
    static DEFAULT: OnceLock<Arc<Types>> = OnceLock::new();
    let build = || {
        let known = [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")];
        Arc::new(known.into_iter().map(|(extension, media)| (extension.into(), media.into())).collect())
    };
    Arc::clone(DEFAULT.get_or_init(build))
}

pub(crate) fn parse_buffers(at: &mut At<'_>) -> Parsed<Buffers> {
    Buffers::parse(at.name, at.word(0)?, at.word(1)?)
}

fn edit_root(root: &mut Root, at: &mut At<'_>) -> Parsed<()> {
    let alias = at.name == "alias";
    let word = at.word(0)?;
    if !at.fresh {
        let message = if root.alias == alias {
            format!("\"{}\" directive is duplicate", at.name)
        } else {
            let other = if alias { "root" } else { "alias" };
            format!("\"{}\" directive is duplicate, \"{other}\" directive was specified earlier", at.name)
        };
        let mut error = Diagnostic::error(at.directive.name.span, message);
        if let Some(span) = root.span {
            error = error.with_related(span, "specified here");
        }
        return Err(error);
    }
    for variable in ["$document_root", "${document_root}", "$realpath_root", "${realpath_root}"] {
        if word.value.windows(variable.len()).any(|window| window == variable.as_bytes()) {
            let name = variable.trim_matches(|sign| matches!(sign, '$' | '{' | '}'));
            let message = format!("the ${name} variable cannot be used in the \"{}\" directive", at.name);
            return Err(Diagnostic::error(word.span, message));
        }
    }
    let mut path = Template::parse(at.name, word)?;
    if !alias
        && let Some(crate::value::Part::Text(text)) = path.parts.last_mut()
        && text.ends_with(b"/")
    {
        text.pop();
    }
    *root = Root { path, alias, span: Some(at.directive.span) };
    Ok(())
}

fn parse_index(name: &str, word: &Word) -> Parsed<Template> {
    if word.value.is_empty() {
        return Err(Diagnostic::error(word.span, "index \"\" in \"index\" directive is invalid"));
    }
    Template::parse(name, word)
}

/// Reads the body of `types`. A word that appears twice keeps its last type, with nginx's warning.
pub(crate) fn lower_types(block: &Block, out: &mut Vec<Diagnostic>) -> Types {
    let mut types = Types::new();
    for entry in &block.directives {
        for extension in &entry.args {
            let key = extension.value.to_ascii_lowercase();
            if let Some(old) = types.insert(key, entry.name.value.to_vec()) {
                let message = format!(
                    "duplicate extension \"{}\", content type: \"{}\", previous content type: \"{}\"",
                    extension.text(),
                    entry.name.text(),
                    String::from_utf8_lossy(&old)
                );
                out.push(Diagnostic::warning(extension.span, message));
            }
        }
    }
    types
}

/// `try_files`: the paths to look for, in order, and the fallback if none exists. Not inherited.
#[derive(Debug, Clone, PartialEq)]
pub struct TryFiles {
    /// Paths under `root`; one that ends in `/` means a directory.
    pub tries: Vec<TryFile>,
    /// The last resort.
    pub fallback: TryFallback,
    /// Where it was written.
    pub span: Span,
}

/// One path of `try_files`.
#[derive(Debug, Clone, PartialEq)]
pub struct TryFile {
    /// The path, without the slash that marks a directory.
    pub path: Template,
    /// It ended in `/`.
    pub directory: bool,
}

/// The last argument of `try_files`.
#[derive(Debug, Clone, PartialEq)]
pub enum TryFallback {
    /// An internal redirect to a URI, which may carry arguments.
    Uri(Template),
    /// A named location, without its `@`.
    Named(String),
    /// `=404`
    Status(u16),
}

/// Reads a `try_files`.
pub(crate) fn parse_try_files(words: &[Word], span: Span) -> Parsed<TryFiles> {
    let Some((last, tries)) = words.split_last().filter(|(_, tries)| !tries.is_empty()) else {
        return Err(Diagnostic::error(span, "invalid number of arguments in \"try_files\" directive"));
    };
    let fallback = if let Some(code) = last.value.strip_prefix(b"=") {
        let code = number(code).filter(|&code| code <= 999);
        TryFallback::Status(
            code.ok_or_else(|| Diagnostic::error(last.span, format!("invalid code \"{}\"", last.text())))? as u16,
        )
    } else if let Some(name) = last.value.strip_prefix(b"@") {
        TryFallback::Named(String::from_utf8_lossy(name).into_owned())
    } else {
        TryFallback::Uri(Template::parse("try_files", last)?)
    };
    let tries = tries
        .iter()
        .map(|word| {
            let mut path = Template::parse("try_files", word)?;
            let directory = word.value.ends_with(b"/");
            if directory && let Some(crate::value::Part::Text(text)) = path.parts.last_mut() {
                text.pop();
                if text.is_empty() {
                    path.parts.pop();
                }
            }
            Ok(TryFile { path, directory })
        })
        .collect::<Parsed<_>>()?;
    Ok(TryFiles { tries, fallback, span })
}

/// An absolute path ends the search, so the paths after it are never tried.
pub(crate) fn check_index(block: &Block, out: &mut Vec<Diagnostic>) {
    for directive in block.directives.iter().filter(|directive| directive.name.value == b"index") {
        let Some((_, before)) = directive.args.split_last() else { continue };
        for word in before.iter().filter(|word| word.value.starts_with(b"/")) {
            out.push(Diagnostic::warning(word.span, "only the last index in \"index\" directive should be absolute"));
        }
    }
}
