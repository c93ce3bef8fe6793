//! Text to tree to checks to model: nothing panics or hangs, every finding lies inside its text, and the dump is what was
//! read. The input is the main file; it may include itself and one other file.
#![no_main]

use std::io;
use std::path::{Path, PathBuf};

use conf::diagnostic::{Diagnostic, Severity};
use conf::source::SourceMap;
use conf::table;
use conf::{check, verdict};
use libfuzzer_sys::fuzz_target;

/// The main file is the input; `part` is included where the input includes it; a mask matches both.
struct Files<'i>(&'i [u8]);

impl conf::Loader for Files<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("/c/main") => Ok(self.0.to_vec()),
            Some("/c/part") => Ok(b"root /srv;\n server { listen 80; include part;\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn glob(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec!["/c/part".into(), "/c/main".into()])
    }
}

fn assert_inside(diagnostic: &Diagnostic, sources: &SourceMap) {
    for span in std::iter::once(diagnostic.span).chain(diagnostic.related.iter().map(|related| related.span)) {
        let len = sources.source(span.file).text.len();
        assert!(span.start <= span.end && span.end as usize <= len, "{diagnostic:?} lies outside its text");
    }
}

fuzz_target!(|text: &[u8]| {
    // Every byte also as what `-g` gives, when it is text.
    let globals = std::str::from_utf8(text).ok().filter(|text| text.len() < 64);
    let loaded = conf::load(Path::new("main"), Path::new("/c"), globals, &mut Files(text));
    let checked = check(&loaded, table::all());
    for diagnostic in loaded.diagnostics.iter().chain(&checked) {
        assert_inside(diagnostic, &loaded.sources);
        let _ = diagnostic.render(&loaded.sources, true);
        let _ = diagnostic.record(&loaded.sources);
        let _ = verdict::log_line(diagnostic, &loaded.sources);
    }
    if loaded.is_ok() && checked.iter().all(|found| found.severity < Severity::Error) {
        let (_, found) = conf::model::lower(&loaded.tree, &loaded.sources);
        found.iter().for_each(|diagnostic| assert_inside(diagnostic, &loaded.sources));
    }
    let header = b"# configuration file /c/main:\n";
    let dump = verdict::dump(&loaded.sources);
    let main = dump.strip_prefix(header).expect("the main file comes first");
    assert!(main.starts_with(text), "the dump is not what was read");
});
