//! Snippets: text of the configuration language in annotations. A snippet is parsed by itself, so no brace of it can
//! close a block of the configuration. Each directive must be on the list below, and what it may name is checked. The
//! result is lines of the Ingress's own locations; it never is text again.

use crate::tree::Origin;
use crate::value::{self, Place};
use conf::load::Loader;
use conf::tree::{Block, Directive, Word};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most directives of one snippet. Real ones have a few dozen; each is copied to each path of the Ingress.
const DIRECTIVES_MAX: usize = 256;

/// Directives that act on the Ingress's own requests and responses only. None of them reads a file, opens a connection,
/// changes a listener or runs a script.
const ALLOWED: &[&str] = &[
    "absolute_redirect",
    "add_header",
    "add_header_inherit",
    "add_trailer",
    "allow",
    "break",
    "brotli",
    "brotli_comp_level",
    "brotli_min_length",
    "brotli_types",
    "charset",
    "charset_types",
    "chunked_transfer_encoding",
    "client_body_timeout",
    "client_max_body_size",
    "default_type",
    "deny",
    "etag",
    "expires",
    "gzip",
    "gzip_comp_level",
    "gzip_min_length",
    "gzip_proxied",
    "gzip_types",
    "gzip_vary",
    "if",
    "if_modified_since",
    "keepalive_disable",
    "limit_rate",
    "limit_rate_after",
    "log_not_found",
    "more_clear_headers",
    "more_clear_input_headers",
    "more_set_headers",
    "more_set_input_headers",
    "port_in_redirect",
    "proxy_buffer_size",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_connect_timeout",
    "proxy_cookie_flags",
    "proxy_force_ranges",
    "proxy_hide_header",
    "proxy_http_version",
    "proxy_ignore_client_abort",
    "proxy_ignore_headers",
    "proxy_limit_rate",
    "proxy_next_upstream",
    "proxy_next_upstream_again",
    "proxy_next_upstream_pause",
    "proxy_next_upstream_timeout",
    "proxy_next_upstream_tries",
    "proxy_pass_header",
    "proxy_pass_request_body",
    "proxy_pass_request_headers",
    "proxy_read_timeout",
    "proxy_request_buffering",
    "proxy_send_timeout",
    "proxy_set_header",
    "return",
    "rewrite",
    "satisfy",
    "send_timeout",
    "server_name_in_redirect",
    "set",
    "sub_filter",
    "sub_filter_last_modified",
    "sub_filter_once",
    "sub_filter_types",
    "tunnel_timeout",
];

/// Directives of which nginx's rewrite module makes a program: their order matters.
const PROGRAM: &[&str] = &["break", "if", "return", "rewrite", "set"];

/// What a snippet gives.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Snippet {
    /// `if`, `return`, `rewrite`, `set`, `break`, in their order.
    pub(crate) program: Vec<Directive>,
    /// Fields of requests to the service.
    pub(crate) headers: Vec<(String, String)>,
    /// Other lines.
    pub(crate) lines: Vec<Directive>,
}

/// Reads nothing but the one text.
struct OneText<'t>(&'t str);

const MAIN: &str = "/snippet";

impl Loader for OneText<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        if path == Path::new(MAIN) {
            Ok(self.0.as_bytes().to_vec())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    fn glob(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Reads and checks a snippet. `unique` makes names of its variables those of one Ingress.
pub(crate) fn read(text: &str, origin: Origin, place: Place<'_>, unique: u64) -> Result<Snippet, String> {
    // `include` reads files while the text is parsed, so the word itself must not get that far.
    if text.len() > value::VALUE_BYTES_MAX {
        return Err(format!("longer than {} bytes", value::VALUE_BYTES_MAX));
    }
    let loaded = conf::load(Path::new(MAIN), Path::new("/"), None, &mut OneText(text));
    if let Some(error) = loaded.diagnostics.iter().find(|found| found.severity == conf::diagnostic::Severity::Error) {
        return Err(error.message.clone());
    }
    let mut reader = Reader { origin, place, unique, own: BTreeSet::new(), count: 0 };
    reader.names(&loaded.tree, 0)?;
    let mut out = Snippet::default();
    for directive in reader.block(&loaded.tree.directives)? {
        let name = directive.name.text().into_owned();
        if name == "proxy_set_header" {
            let [field, text] = directive.args.as_slice() else {
                return Err("\"proxy_set_header\" takes 2 words".into());
            };
            if !value::is_header_name(&field.text()) {
                return Err("\"proxy_set_header\" with a wrong name".into());
            }
            out.headers.push((field.text().into_owned(), text.text().into_owned()));
        } else if PROGRAM.contains(&name.as_str()) {
            out.program.push(directive);
        } else {
            out.lines.push(directive);
        }
    }
    Ok(out)
}

struct Reader<'p> {
    origin: Origin,
    place: Place<'p>,
    unique: u64,
    /// Variables that the snippet sets.
    own: BTreeSet<String>,
    count: usize,
}

impl Reader<'_> {
    /// Collects the variables that are set, and counts.
    fn names(&mut self, block: &Block, depth: usize) -> Result<(), String> {
        if depth > 2 {
            return Err("blocks in blocks in blocks".into());
        }
        for directive in &block.directives {
            self.count += 1;
            if self.count > DIRECTIVES_MAX {
                return Err(format!("more than {DIRECTIVES_MAX} directives"));
            }
            if directive.name.value == b"set" {
                let name = directive.args.first().map(|word| word.text().into_owned()).unwrap_or_default();
                let name = name.strip_prefix('$').ok_or("\"set\" without a variable")?.to_owned();
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                if !(1..=64).contains(&name.len()) || !name.bytes().all(is_name) || value::is_harmless(&name) {
                    return Err(format!("\"set\" must not set \"${}\"", name.escape_debug()));
                }
                self.own.insert(name);
            }
            if let Some(inner) = &directive.block {
                self.names(inner, depth + 1)?;
            }
        }
        Ok(())
    }

    fn block(&self, directives: &[Directive]) -> Result<Vec<Directive>, String> {
        directives.iter().map(|directive| self.directive(directive)).collect()
    }

    fn directive(&self, directive: &Directive) -> Result<Directive, String> {
        let name = directive.name.text().into_owned();
        if !ALLOWED.contains(&name.as_str()) {
            return Err(format!("\"{}\" is not allowed in snippets", name.escape_debug()));
        }
        if directive.block.is_some() != (name == "if") {
            return Err(format!("\"{name}\" with a block, or without one"));
        }
        meaning(&name, &directive.args)?;
        // Expressions have `$` that are no variables.
        let expression = match name.as_str() {
            "rewrite" => Some(0),
            "if" => directive.args.iter().position(|word| word.value.contains(&b'~')).map(|at| at + 1),
            _ => None,
        };
        let mut args = Vec::with_capacity(directive.args.len());
        for (index, word) in directive.args.iter().enumerate() {
            let text = std::str::from_utf8(&word.value).map_err(|_| "not UTF-8".to_owned())?;
            let text = if expression == Some(index) {
                value::regex(text.strip_suffix(')').filter(|_| name == "if").unwrap_or(text))?;
                text.to_owned()
            } else {
                self.text(text)?
            };
            args.push(Word { quote: word.quote, ..self.origin.word(text) });
        }
        let block = match &directive.block {
            Some(block) => Some(Arc::new(self.origin.braces(self.block(&block.directives)?))),
            None => None,
        };
        Ok(Directive { args, block, ..self.origin.line::<&str>(&name, []) })
    }

    /// A word with variables of the request, those of the snippet, and captures.
    fn text(&self, text: &str) -> Result<String, String> {
        value::printable(&text.replace(['\n', '\r', '\t'], " "))?;
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let (inner, braces) = rest.strip_prefix('{').map_or((rest, false), |inner| (inner, true));
            let length =
                inner.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(inner.len());
            let (name, behind) = inner.split_at(length);
            if self.own.contains(name) {
                rest = if braces { behind.strip_prefix('}').ok_or("a bracket is missing")? } else { behind };
                // `set` and `if` want the plain form; a letter behind it would change the name.
                let plain = !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
                let own = format!("hf_s{:016x}_{name}", self.unique);
                let _ = if plain { write!(out, "${own}") } else { write!(out, "${{{own}}}") };
                continue;
            }
            let end = rest.len() - behind.len() + usize::from(braces && behind.starts_with('}'));
            let digits = rest.starts_with(|first: char| first.is_ascii_digit());
            let end = if digits { 1 } else { end };
            let one = value::template(&format!("${}", &rest[..end]), self.place, true)?;
            // `${name}` in the condition of an `if` would not be one variable.
            let plain = !rest[end..].starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
            out.push_str(&if plain { one.replace("${", "$").replace('}', "") } else { one });
            rest = &rest[end..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// What a directive may not name.
fn meaning(name: &str, args: &[Word]) -> Result<(), String> {
    let texts: Vec<String> = args.iter().map(|word| word.text().into_owned()).collect();
    match name {
        // `-f`, `-d`, `-e` and `-x` ask for files.
        "if" if texts.iter().any(|text| {
            ["-f", "-d", "-e", "-x"].iter().any(|ask| text.trim_start_matches(['(', '!']).starts_with(ask))
        }) =>
        {
            Err("\"if\" must not ask for files".into())
        }
        // Locations that begin so belong to authentication and copies of all Ingresses of the host.
        "rewrite" | "return" if texts.iter().any(|text| text.starts_with("/_") || text.starts_with('@')) => {
            Err(format!("\"{name}\" must not lead to inner locations"))
        }
        // A value that nginx reads from the response as an order to itself.
        "proxy_pass_header" | "add_header" | "more_set_headers" | "add_trailer"
            if texts.iter().any(|text| text.to_ascii_lowercase().trim_start().starts_with("x-accel-")) =>
        {
            Err("\"X-Accel-…\" fields are not allowed".into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::source::FileId;

    fn try_read(text: &str) -> Result<Snippet, String> {
        read(text, Origin(FileId(0)), Place { namespace: "shop", ingress: "front" }, 7)
    }

    #[test]
    fn usual_snippets_are_read() {
        let text = "more_set_headers \"X-Frame: deny\";\nproxy_set_header X-A $remote_addr;\n\
            if ($http_user_agent ~* \"bad|(worse)$\") { return 403; }\nset $x \"a$host\"; rewrite ^/a/(.*)$ /b/$1 break;\n\
            add_header X-X $x always;";
        let snippet = try_read(text).unwrap();
        assert_eq!(snippet.headers, [("X-A".to_owned(), "$remote_addr".to_owned())]);
        assert_eq!(snippet.program.len(), 3);
        assert_eq!(snippet.lines.len(), 2);
        assert_eq!(snippet.lines[1].args[1].text(), "$hf_s0000000000000007_x");
    }

    #[test]
    fn everything_else_is_refused() {
        for wrong in [
            "include /etc/passwd;",
            "root /;",
            "alias /var/run/secrets/;",
            "proxy_pass http://10.0.0.1;",
            "content_by_lua_block { os.execute('id') }",
            "js_content x;",
            "load_module x.so;",
            "} server { listen 81; }",
            "return 200 a; } location /x { return 200 b;",
            "if (-f /etc/passwd) { return 200; }",
            "if (!-f $uri) { return 200; }",
            "location /x { return 200; }",
            "add_header X $document_root;",
            "add_header X $hf_dollar;",
            "add_header X-Accel-Redirect /secret;",
            "set $host x;",
            "rewrite ^ /_external-auth-x last;",
            "error_log /tmp/x debug;",
            "access_log /tmp/x;",
            "client_body_temp_path /tmp;",
            "ssl_certificate x;",
            "add_header",
            "if ($host) { if ($host) { if ($host) { return 200; } } }",
            "proxy_set_header 'X\n: y' z;",
        ] {
            let found = try_read(wrong);
            // A directive with too few words is found by the check of the whole tree.
            assert!(found.is_err() || wrong == "add_header", "{wrong}: {found:?}");
        }
    }
}
