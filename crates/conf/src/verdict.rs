//! The lines that nginx prints for `-t` and `-T`, word for word, because scripts and control panels search for them.
//! Text only; the binary prints it, `-t` lines to stderr as nginx does.

use std::path::Path;

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{COMMAND_LINE, SourceMap};

/// `nginx: [emerg] unknown directive "x" in /etc/nginx/nginx.conf:3`; warnings are `[warn]` and notes `[notice]`.
pub fn log_line(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let level = match diagnostic.severity {
        Severity::Error => "emerg",
        Severity::Warning => "warn",
        Severity::Note => "notice",
    };
    let source = sources.source(diagnostic.span.file);
    let message = &diagnostic.message;
    if source.is_unread() {
        format!("nginx: [{level}] {message}")
    } else if source.name == COMMAND_LINE {
        format!("nginx: [{level}] {message} in command line")
    } else {
        let (line, _) = source.line_column(diagnostic.span.start);
        format!("nginx: [{level}] {message} in {}:{line}", source.name)
    }
}

/// `nginx: the configuration file /etc/nginx/nginx.conf syntax is ok`
pub fn syntax_ok(main: &Path) -> String {
    format!("nginx: the configuration file {} syntax is ok", main.display())
}

/// `nginx: configuration file /etc/nginx/nginx.conf test is successful`
pub fn test_successful(main: &Path) -> String {
    format!("nginx: configuration file {} test is successful", main.display())
}

/// `nginx: configuration file /etc/nginx/nginx.conf test failed`
pub fn test_failed(main: &Path) -> String {
    format!("nginx: configuration file {} test failed", main.display())
}

/// The output of `-T` after the verdict: each file once, as read, below a line with its name.
pub fn dump(sources: &SourceMap) -> Vec<u8> {
    let mut out = Vec::new();
    for source in sources.iter().filter(|source| source.is_file()) {
        out.extend_from_slice(format!("# configuration file {}:\n", source.name).as_bytes());
        out.extend_from_slice(&source.text);
        out.push(b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Span;

    #[test]
    fn lines_match_nginx() {
        let mut sources = SourceMap::default();
        let globals = sources.add(COMMAND_LINE, b"x;".to_vec());
        let file = sources.add("/etc/nginx/nginx.conf", b"a;\nb;\nx;\n".to_vec());
        let unread = sources.add_unread("/y");
        let line = |file, start| {
            let diagnostic = Diagnostic::error(Span { file, start, end: start }, "unknown directive \"x\"");
            log_line(&diagnostic, &sources)
        };
        assert_eq!(line(file, 6), "nginx: [emerg] unknown directive \"x\" in /etc/nginx/nginx.conf:3");
        assert_eq!(line(globals, 0), "nginx: [emerg] unknown directive \"x\" in command line");
        assert_eq!(line(unread, 0), "nginx: [emerg] unknown directive \"x\"");
        assert_eq!(dump(&sources), b"# configuration file /etc/nginx/nginx.conf:\na;\nb;\nx;\n\n");
    }
}
