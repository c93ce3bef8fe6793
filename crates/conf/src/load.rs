//! Entry point of loading: the main file, the `-g` directives and all included files become one tree. It opens no file
//! itself but reads through the caller's [`Loader`]. Called by the binary for `-t`, `-T` and every start and reload.

mod include;

use std::io;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Diagnostic, Severity};
use crate::parse::{Notes, Text};

use crate::source::{COMMAND_LINE, FileId, SourceMap, Span};
use crate::tree::Block;

pub(crate) use include::Includer;

pub use crate::lex::WORD_BYTES_MAX;
pub use crate::parse::NESTING_MAX;

/// Parsing stops at this many errors; a longer list is of no use. This also bounds the work of rewinding after an
/// error.
pub const ERRORS_MAX: usize = 100;

/// Most files that one configuration may read; each inclusion counts. A host with one file per customer has tens of
/// thousands; two files that include each other twice would never end.
pub const INCLUDES_MAX: usize = 65_536;

/// Includes inside includes. Real configurations have three or four levels.
pub const INCLUDE_DEPTH_MAX: usize = 32;

/// Most bytes of one configuration; each inclusion counts. The largest known real ones are `geo` tables of about 40 MB.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// Where files come from. The binary reads the file system; tests and the fuzzer use memory.
pub trait Loader {
    /// Reads one file. The error's `raw_os_error` appears in the message, so pass on the error of the system.
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;

    /// The paths that a mask with `*`, `?` or `[…]` matches, as in glob(3): wildcards match neither a leading `.` nor
    /// `/`. No match is an empty list, not an error. The order does not matter: the caller sorts by bytes, as nginx
    /// does.
    fn glob(&mut self, mask: &Path) -> io::Result<Vec<PathBuf>>;
}

/// The result of loading. The tree is always usable: it lacks only what could not be parsed.
#[derive(Debug)]
pub struct Loaded {
    /// All texts in the order of opening; the text of `-g`, if given, comes first.
    pub sources: SourceMap,
    /// The top level: the directives of `-g`, then those of the main file, with included ones in place.
    pub tree: Block,
    /// What the parser found, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The path of the main file as opened; a relative path was resolved against `prefix`.
    pub main: PathBuf,
    /// Base of relative paths of logs, temporary files and content (nginx's `-p`).
    pub prefix: PathBuf,
    /// Base of relative paths of `include`, certificates and password files: the main file's directory.
    pub conf_prefix: PathBuf,
    /// What the checks must know about errors that the parser reported.
    pub(crate) notes: Notes,
}

impl Loaded {
    /// A tree that was not read from files, with the sources that its spans point to. Relative paths in it have no base.
    pub fn from_tree(tree: Block, sources: SourceMap) -> Self {
        let (main, prefix, conf_prefix) = (PathBuf::new(), PathBuf::new(), PathBuf::new());
        Self { sources, tree, diagnostics: Vec::new(), main, prefix, conf_prefix, notes: Notes::default() }
    }

    /// Whether the texts could be read and parsed without an error.
    pub fn is_ok(&self) -> bool {
        self.diagnostics.iter().all(|diagnostic| diagnostic.severity < Severity::Error)
    }
}

/// Reads the main file, the directives that `-g` gave, and every included file.
///
/// `main` may be relative to `prefix`. All problems are in [`Loaded::diagnostics`]; the function itself cannot fail.
pub fn load(main: &Path, prefix: &Path, globals: Option<&str>, loader: &mut dyn Loader) -> Loaded {
    let main = prefix.join(main);
    let conf_prefix = main.parent().unwrap_or(prefix).to_path_buf();
    let mut includer = Includer::new(&conf_prefix, loader);
    let mut directives = Vec::new();
    if let Some(globals) = globals {
        // nginx reads the `-g` text before the main file and by itself: its last `;` must not be missing.
        let file = includer.sources.add(COMMAND_LINE, globals.as_bytes().to_vec());
        directives = includer.parse(file, Text::CommandLine);
    }
    let (file, from_main) = includer.parse_main(&main);
    if directives.is_empty() {
        directives = from_main;
    } else {
        directives.extend(from_main);
    }
    let Includer { sources, diagnostics, notes, .. } = includer;
    let len = sources.source(file).text.len() as u32;
    let open = Span { file, start: 0, end: 0 };
    let close = Span { file, start: len, end: len };
    Loaded {
        sources,
        tree: Block { directives, open, close },
        diagnostics,
        main,
        prefix: prefix.to_path_buf(),
        conf_prefix,
        notes,
    }
}

/// The empty span at the start of a file.
pub(crate) fn start_of(file: FileId) -> Span {
    Span { file, start: 0, end: 0 }
}
