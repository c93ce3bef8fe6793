//! Loads and checks each file `golden/*.conf`, and compares the findings with the `.txt` beside it. Set
//! `HOLDFAST_BLESS=1` to rewrite the `.txt` files, then read the difference before you commit it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Files;
use conf::diagnostic::{Diagnostic, Severity};
use conf::table::Directive;
use conf::{check, table, verdict};

/// All files of the folder, as if they were in `/etc/nginx`.
fn files(folder: &Path) -> Files {
    let mut files = Files::default();
    for entry in fs::read_dir(folder).expect("the folder exists") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().expect("a file has a name");
        files.0.insert(Path::new("/etc/nginx").join(name), fs::read(&path).expect("the file can be read"));
    }
    files
}

/// The output of `-t`.
fn run(name: &str, files: &mut Files, rows: &[Directive]) -> String {
    let main = Path::new("/etc/nginx").join(name);
    let loaded = conf::load(&main, Path::new("/etc/nginx"), None, files);
    let mut found = loaded.diagnostics.clone();
    found.extend(check(&loaded, rows));
    conf::diagnostic::sort(&mut found);
    let mut out: String = found.iter().map(|diagnostic| diagnostic.render(&loaded.sources, false) + "\n").collect();
    match found.iter().find(|diagnostic| diagnostic.severity == Severity::Error) {
        Some(first) => {
            let line = verdict::log_line(first, &loaded.sources);
            let _ = writeln!(out, "{line}\n{}", verdict::test_failed(&main));
        }
        None => {
            let _ = writeln!(out, "{}\n{}", verdict::syntax_ok(&main), verdict::test_successful(&main));
        }
    }
    for diagnostic in &found {
        lies_inside(diagnostic, &loaded.sources);
    }
    out
}

fn lies_inside(diagnostic: &Diagnostic, sources: &conf::source::SourceMap) {
    for span in std::iter::once(diagnostic.span).chain(diagnostic.related.iter().map(|related| related.span)) {
        let len = sources.source(span.file).text.len() as u32;
        assert!(span.start <= span.end && span.end <= len, "{diagnostic:?} lies outside its text of {len} bytes");
    }
}

/// The lines of both, with differences marked.
fn difference(expected: &str, found: &str) -> String {
    let mut out = String::new();
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    for at in 0..expected.len().max(found.len()) {
        match (expected.get(at), found.get(at)) {
            (Some(a), Some(b)) if a == b => writeln!(out, "  {a}"),
            (a, b) => {
                let line = |mark, text: Option<&&str>| text.map_or(String::new(), |text| format!("{mark} {text}\n"));
                write!(out, "{}{}", line('-', a), line('+', b))
            }
        }
        .expect("writing to a String cannot fail");
    }
    out
}

#[test]
fn findings_match_the_golden_files() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden");
    let bless = std::env::var_os("HOLDFAST_BLESS").is_some();
    let rows = table::all();
    let mut files = files(&folder);
    let mut names: Vec<String> = files
        .0
        .keys()
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() > 20, "the golden files are missing");
    let mut wrong = String::new();
    for name in names {
        let found = run(&name, &mut files, rows);
        let path = folder.join(&name).with_extension("txt");
        if bless {
            fs::write(&path, &found).expect("the folder can be written");
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if expected != found {
            let _ = writeln!(wrong, "{name}:\n{}", difference(&expected, &found));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
