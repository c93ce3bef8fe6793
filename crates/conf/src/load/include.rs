//! `include`: masks, cycles and limits. Keeps the texts and the list of open files; hands each text to `parse` and is
//! called back by it for every `include` directive.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{ERRORS_MAX, INCLUDE_DEPTH_MAX, INCLUDES_MAX, Loader, TEXT_BYTES_MAX, start_of};
use crate::diagnostic::Diagnostic;
use crate::parse::{Body, Notes, Text, parse};
use crate::source::{FileId, SourceMap, Span};
use crate::tree::{Directive, Word};

/// Why a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An `include` directive, in a body of this kind.
    Include(Body),
    /// A `state` directive: the file need not exist yet.
    State,
}

/// The state of one load.
pub(crate) struct Includer<'l> {
    pub(crate) sources: SourceMap,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) notes: Notes,
    loader: &'l mut dyn Loader,
    conf_prefix: &'l Path,
    /// The file of each path: a file that is included ten times is read, kept and dumped once.
    by_path: FxHashMap<PathBuf, FileId>,
    /// The files being parsed, outermost first.
    open: Vec<FileId>,
    /// Number of blocks around the current place, over all open files.
    pub(crate) depth: usize,
    files: usize,
    bytes: usize,
    /// Set after too many errors or at a limit: reading stops.
    pub(crate) stopped: bool,
}

impl<'l> Includer<'l> {
    pub(super) fn new(conf_prefix: &'l Path, loader: &'l mut dyn Loader) -> Self {
        Self {
            sources: SourceMap::default(),
            diagnostics: Vec::new(),
            notes: Notes::default(),
            loader,
            conf_prefix,
            by_path: FxHashMap::default(),
            open: Vec::new(),
            depth: 0,
            files: 0,
            bytes: 0,
            stopped: false,
        }
    }

    /// Reports a finding. Stops reading at the limit of errors.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        if self.stopped {
            return;
        }
        self.diagnostics.push(diagnostic);
        self.stopped = self.diagnostics.len() >= ERRORS_MAX;
    }

    /// Reports a finding and stops reading.
    pub(crate) fn report_and_stop(&mut self, diagnostic: Diagnostic) {
        self.report(diagnostic);
        self.stopped = true;
    }

    pub(super) fn parse(&mut self, file: FileId, text: Text) -> Vec<Directive> {
        self.open.push(file);
        let bytes = Arc::clone(&self.sources.source(file).text);
        let directives = parse(self, &bytes, file, text);
        self.open.pop();
        directives
    }

    pub(super) fn parse_main(&mut self, path: &Path) -> (FileId, Vec<Directive>) {
        match self.read(path) {
            Ok(file) => (file, self.parse(file, Text::File(Body::Directives))),
            Err(error) => {
                let file = self.sources.add_unread(path.to_string_lossy());
                let place = start_of(file);
                self.report(Diagnostic::error(place, describe(path, &error)));
                (file, Vec::new())
            }
        }
    }

    /// Reads the files of `include mask;` into the place of the directive.
    pub(crate) fn include(&mut self, mask: &Word, body: Body, into: &mut Vec<Directive>) {
        let path = self.conf_prefix.join(std::ffi::OsStr::from_bytes(&mask.value));
        if !mask.value.iter().any(|byte| b"*?[".contains(byte)) {
            self.include_file(&path, mask.span, Kind::Include(body), into);
            return;
        }
        match self.loader.glob(&path) {
            Ok(mut paths) => {
                paths.sort_unstable_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
                for path in paths {
                    self.include_file(&path, mask.span, Kind::Include(body), into);
                }
            }
            Err(error) => {
                let message = format!("glob() \"{}\" failed {}", path.display(), errno(&error));
                self.report(Diagnostic::error(mask.span, message));
            }
        }
    }

    /// Reads the servers in the file of `state file;`. Without the file the group has none.
    pub(crate) fn include_state(&mut self, path: &Word, into: &mut Vec<Directive>) {
        let place = path.span;
        let path = self.conf_prefix.join(std::ffi::OsStr::from_bytes(&path.value));
        self.include_file(&path, place, Kind::State, into);
        if let Some(&file) = self.by_path.get(&path) {
            self.notes.states.insert(file);
        }
    }

    fn include_file(&mut self, path: &Path, place: Span, kind: Kind, into: &mut Vec<Directive>) {
        if self.stopped {
            return;
        }
        let file = match self.read(path) {
            Ok(file) => file,
            Err(error) if kind == Kind::State && error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                let mut diagnostic = Diagnostic::error(place, describe(path, &error));
                if self.sources.bytes(place).first().is_some_and(|&byte| byte != b'/') {
                    let below = self.conf_prefix.display();
                    diagnostic = diagnostic.with_hint(format!("a relative path is taken from `{below}`"));
                }
                self.report(diagnostic);
                return;
            }
        };
        if let Some(at) = self.open.iter().position(|&open| open == file) {
            let chain: Vec<_> =
                self.open[at..].iter().chain([&file]).map(|&id| self.sources.source(id).name.as_str()).collect();
            let message = format!("\"include\" cycle: {}", chain.join(" -> "));
            self.report(
                Diagnostic::error(place, message)
                    .with_hint("a file may not include itself, directly or through others"),
            );
            return;
        }
        self.files += 1;
        self.bytes += self.sources.source(file).text.len();
        let over = if self.open.len() > INCLUDE_DEPTH_MAX {
            Some(format!("\"include\" is nested deeper than {INCLUDE_DEPTH_MAX} files"))
        } else if self.files > INCLUDES_MAX {
            Some(format!("more than {INCLUDES_MAX} files are included"))
        } else if self.bytes > TEXT_BYTES_MAX {
            Some(format!("the configuration is larger than {TEXT_BYTES_MAX} bytes"))
        } else {
            None
        };
        if let Some(message) = over {
            self.report_and_stop(Diagnostic::error(place, message).with_hint("is the same file included in a circle?"));
            return;
        }
        let body = match kind {
            Kind::Include(body) => body,
            Kind::State => Body::Directives,
        };
        into.extend(self.parse(file, Text::File(body)));
    }

    /// The text at a path, read at its first use.
    fn read(&mut self, path: &Path) -> io::Result<FileId> {
        if let Some(&file) = self.by_path.get(path) {
            return Ok(file);
        }
        let text = self.loader.read(path)?;
        if text.len() > TEXT_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let file = self.sources.add(path.to_string_lossy(), text);
        self.by_path.insert(path.to_path_buf(), file);
        Ok(file)
    }
}

/// nginx's phrase for a file that cannot be read: the system call, the path, errno and its text.
fn describe(path: &Path, error: &io::Error) -> String {
    // Opening a directory succeeds; it is the read that fails.
    let call = if error.kind() == io::ErrorKind::IsADirectory { "pread" } else { "open" };
    format!("{call}() \"{}\" failed {}", path.display(), errno(error))
}

/// `(2: No such file or directory)`.
fn errno(error: &io::Error) -> String {
    let text = error.to_string();
    if let Some(number) = error.raw_os_error() {
        let text = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text);
        return format!("({number}: {text})");
    }
    match error.kind() {
        io::ErrorKind::NotFound => "(2: No such file or directory)".to_owned(),
        io::ErrorKind::PermissionDenied => "(13: Permission denied)".to_owned(),
        io::ErrorKind::IsADirectory => "(21: Is a directory)".to_owned(),
        _ => format!("({text})"),
    }
}
