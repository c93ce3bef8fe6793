//! Command lines of curl, as browsers copy them and as documentation has them: a step for each URL.

use super::{Draft, DraftBody, DraftFlow, DraftPart, DraftStep, body_of, is_kept, sound_url};
use crate::form::FormPart;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::fmt::Write as _;

/// Options without an effect on what is sent.
const SILENT: [&str; 22] = [
    "-s",
    "--silent",
    "-S",
    "--show-error",
    "-v",
    "--verbose",
    "-i",
    "--include",
    "-f",
    "--fail",
    "--fail-with-body",
    "-g",
    "--globoff",
    "-N",
    "--no-buffer",
    "-#",
    "--progress-bar",
    "--http1.1",
    "-0",
    "--http1.0",
    "--no-progress-meter",
    "-q",
];

/// The same with a value.
const SILENT_WITH_VALUE: [&str; 12] = [
    "-o",
    "--output",
    "-w",
    "--write-out",
    "-m",
    "--max-time",
    "--connect-timeout",
    "--retry",
    "-c",
    "--cookie-jar",
    "-D",
    "--dump-header",
];

/// Options for which the load has a flag: the flag, and whether curl's option has a value.
const ELSEWHERE: [(&str, bool, &str); 9] = [
    ("-k", false, "--insecure"),
    ("--insecure", false, "--insecure"),
    ("--resolve", true, "--resolve"),
    ("--unix-socket", true, "--unix"),
    ("--cacert", true, "--cacert"),
    ("-E", true, "--cert and --key"),
    ("--cert", true, "--cert and --key"),
    ("--key", true, "--cert and --key"),
    ("--interface", true, "--source"),
];

/// Said where a command has cookies.
const COOKIES: &str = "Cookies are left out: each user keeps those that the responses set.";

/// The steps of all commands in the text.
pub(super) fn read(text: &str) -> Result<Draft, String> {
    let mut draft = Draft::default();
    let mut flow = DraftFlow { name: "curl".to_owned(), steps: Vec::new() };
    for command in commands(words(text)?) {
        let mut call = CommandLine::default();
        call.read(command, &mut draft.notes)?;
        flow.steps.extend(call.steps()?);
    }
    draft.flows.push(flow);
    draft.notes.sort();
    draft.notes.dedup();
    Ok(draft)
}

/// One command line.
#[derive(Debug, Default)]
struct CommandLine {
    urls: Vec<String>,
    method: Option<String>,
    fields: Vec<(String, String)>,
    data: Vec<String>,
    file: Option<String>,
    parts: Vec<DraftPart>,
    is_json: bool,
    /// `-G`: data goes into the query.
    in_query: bool,
    is_head: bool,
}

impl CommandLine {
    fn read(&mut self, words: Vec<String>, notes: &mut Vec<String>) -> Result<(), String> {
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (option, mut value) = split(&word);
            let Some(option) = option else {
                self.urls.push(word);
                continue;
            };
            let mut take = || value.take().or_else(|| words.next()).ok_or_else(|| format!("{option} has no value"));
            match option.as_str() {
                "-X" | "--request" => self.method = Some(take()?),
                "-H" | "--header" => self.header(&take()?, notes),
                "-A" | "--user-agent" => self.fields.push(("User-Agent".to_owned(), take()?)),
                "-e" | "--referer" => self.fields.push(("Referer".to_owned(), take()?)),
                "-u" | "--user" => {
                    let credentials = format!("Basic {}", BASE64_STANDARD.encode(take()?));
                    self.fields.push(("Authorization".to_owned(), credentials));
                }
                "-b" | "--cookie" => {
                    take()?;
                    notes.push(COOKIES.to_owned());
                }
                "-d" | "--data" | "--data-ascii" | "--data-binary" => {
                    let value = take()?;
                    match value.strip_prefix('@') {
                        Some(path) => self.file = Some(path.to_owned()),
                        None => self.data.push(value),
                    }
                }
                "--data-raw" => self.data.push(take()?),
                "--data-urlencode" => self.data.push(urlencoded(&take()?)),
                "--json" => {
                    self.is_json = true;
                    self.data.push(take()?);
                }
                "-F" | "--form" | "--form-string" => {
                    let is_plain = option == "--form-string";
                    self.parts.push(part(&take()?, is_plain)?);
                }
                "-T" | "--upload-file" => {
                    self.file = Some(take()?);
                    self.method.get_or_insert_with(|| "PUT".to_owned());
                }
                "-I" | "--head" => self.is_head = true,
                "-G" | "--get" => self.in_query = true,
                "--url" => self.urls.push(take()?),
                "--compressed" => {
                    notes.push("Bodies are asked for without compression, so that checks can read them.".to_owned());
                }
                "-L" | "--location" => notes.push("Redirects are not followed: write them as steps.".to_owned()),
                "--http2" | "--http2-prior-knowledge" | "--http3" => {
                    notes.push("A scenario is played over HTTP/1.1.".to_owned());
                }
                known if SILENT.contains(&known) => {}
                known if SILENT_WITH_VALUE.contains(&known) => drop(take()?),
                other => match ELSEWHERE.iter().find(|(known, ..)| *known == other) {
                    Some((known, has_value, flag)) => {
                        if *has_value {
                            take()?;
                        }
                        notes.push(format!("{known} of curl is {flag} of `holdfast load`."));
                    }
                    None => notes.push(format!("{other} is not known here, and left out.")),
                },
            }
        }
        if self.urls.is_empty() { Err("a command of curl has no URL".to_owned()) } else { Ok(()) }
    }

    fn header(&mut self, text: &str, notes: &mut Vec<String>) {
        let Some((name, value)) = text.split_once(':') else { return };
        if name.trim().eq_ignore_ascii_case("cookie") {
            notes.push(COOKIES.to_owned());
        }
        if is_kept(name.trim()) {
            self.fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(&field.1)
    }

    fn steps(mut self) -> Result<Vec<DraftStep>, String> {
        let data = self.data.join("&");
        let body = if !self.parts.is_empty() {
            DraftBody::Multipart(std::mem::take(&mut self.parts))
        } else if let Some(path) = self.file.take() {
            DraftBody::File(path)
        } else if self.data.is_empty() || self.in_query {
            DraftBody::None
        } else {
            let default = if self.is_json { "application/json" } else { "application/x-www-form-urlencoded" };
            body_of(self.value("Content-Type").unwrap_or(default), data.clone())
        };
        let is_sent_as_text = matches!(body, DraftBody::Text(_) | DraftBody::File(_));
        if self.value("Content-Type").is_none() && is_sent_as_text && !self.in_query {
            let kind = if self.is_json { "application/json" } else { "application/x-www-form-urlencoded" };
            self.fields.push(("Content-Type".to_owned(), kind.to_owned()));
        }
        if self.is_json && self.value("Accept").is_none() {
            self.fields.push(("Accept".to_owned(), "application/json".to_owned()));
        }
        let default = match (self.is_head, &body) {
            (true, _) => "HEAD",
            (false, DraftBody::None) => "GET",
            (false, _) => "POST",
        };
        let method = self.method.clone().unwrap_or_else(|| default.to_owned());
        let step = |url: &String| {
            let mut url = sound_url(url)?;
            if self.in_query && !data.is_empty() {
                url.push(if url.contains('?') { '&' } else { '?' });
                url.push_str(&data);
            }
            let (method, fields, body) = (method.clone(), self.fields.clone(), body.clone());
            Ok(DraftStep { method, url, fields, body, ..DraftStep::default() })
        };
        self.urls.iter().map(step).collect()
    }
}

/// The option of a word, and the value that is attached to it. `None`: it is a URL.
fn split(word: &str) -> (Option<String>, Option<String>) {
    if word == "-" || !word.starts_with('-') {
        return (None, None);
    }
    if word.starts_with("--") {
        return match word.split_once('=') {
            Some((option, value)) => (Some(option.to_owned()), Some(value.to_owned())),
            None => (Some(word.to_owned()), None),
        };
    }
    let end = word.char_indices().nth(2).map_or(word.len(), |(at, _)| at);
    let (option, rest) = word.split_at(end);
    // `-sS` is two options without values; the first of a word decides.
    let takes_value = ["-X", "-H", "-A", "-e", "-u", "-b", "-d", "-F", "-T", "-o", "-w", "-m", "-c", "-D", "-E"];
    if rest.is_empty() || takes_value.contains(&option) {
        return (Some(option.to_owned()), Some(rest.to_owned()).filter(|rest| !rest.is_empty()));
    }
    (Some(option.to_owned()), None)
}

/// A part of `-F`, or of `--form-string` without a meaning of `@` and `;`.
fn part(text: &str, is_plain: bool) -> Result<DraftPart, String> {
    let FormPart { name, text, file, filename, content_type } =
        if is_plain { FormPart::plain(text)? } else { text.parse()? };
    let file = file.map(|path| path.to_string_lossy().into_owned());
    Ok(DraftPart { name, text, file, filename, content_type })
}

/// `--data-urlencode`: `name=text`, or a text.
fn urlencoded(text: &str) -> String {
    let encode = |text: &str| {
        let mut out = String::new();
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                out.push(byte as char);
            } else {
                // Writing to a string cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    };
    match text.split_once('=') {
        Some(("", value)) => encode(value),
        Some((name, value)) => format!("{name}={}", encode(value)),
        None => encode(text),
    }
}

/// The words of each command: they begin with `curl`.
fn commands(words: Vec<String>) -> Vec<Vec<String>> {
    let mut commands: Vec<Vec<String>> = Vec::new();
    for word in words {
        let is_start = word.rsplit('/').next() == Some("curl") && !word.contains("://");
        match commands.last_mut() {
            Some(last) if !is_start => last.push(word),
            _ => commands.push(Vec::new()),
        }
    }
    commands
}

/// The words of a shell's lines: quotes, `$'…'`, continued lines, comments. Variables and everything else of a shell stay as
/// they are written.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut has_word) = (Vec::new(), String::new(), false);
    let mut rest = text.chars().peekable();
    while let Some(symbol) = rest.next() {
        match symbol {
            '\\' => match rest.next() {
                Some('\n') | None => {}
                Some('\r') if rest.peek() == Some(&'\n') => drop(rest.next()),
                Some(other) => {
                    word.push(other);
                    has_word = true;
                }
            },
            '\'' => {
                has_word = true;
                loop {
                    match rest.next() {
                        Some('\'') => break,
                        Some(other) => word.push(other),
                        None => return Err("a quotation mark ' is not closed".to_owned()),
                    }
                }
            }
            '$' if rest.peek() == Some(&'\'') => {
                rest.next();
                has_word = true;
                ansi_quoted(&mut rest, &mut word)?;
            }
            '"' => {
                has_word = true;
                loop {
                    match (rest.next(), rest.peek()) {
                        (Some('"'), _) => break,
                        (Some('\\'), Some('"' | '\\' | '$' | '`')) => word.extend(rest.next()),
                        (Some('\\'), Some('\n')) => drop(rest.next()),
                        (Some(other), _) => word.push(other),
                        (None, _) => return Err("a quotation mark \" is not closed".to_owned()),
                    }
                }
            }
            '#' if !has_word => while rest.next_if(|symbol| *symbol != '\n').is_some() {},
            symbol if symbol.is_whitespace() || symbol == ';' => {
                if std::mem::take(&mut has_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            symbol => {
                word.push(symbol);
                has_word = true;
            }
        }
    }
    if has_word {
        words.push(word);
    }
    Ok(words)
}

/// `$'…'` with the escapes of C, as browsers copy bodies.
fn ansi_quoted(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, word: &mut String) -> Result<(), String> {
    let open = || "a quotation mark $' is not closed".to_owned();
    loop {
        match rest.next().ok_or_else(open)? {
            '\'' => return Ok(()),
            '\\' => match rest.next().ok_or_else(open)? {
                'n' => word.push('\n'),
                'r' => word.push('\r'),
                't' => word.push('\t'),
                kind @ ('u' | 'x') => {
                    let most = if kind == 'u' { 4 } else { 2 };
                    let mut code = 0;
                    for _ in 0..most {
                        let Some(digit) = rest.peek().and_then(|symbol| symbol.to_digit(16)) else { break };
                        rest.next();
                        code = code * 16 + digit;
                    }
                    word.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                }
                other => word.push(other),
            },
            other => word.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::convert;
    use super::*;

    fn toml(text: &str) -> (toml::Table, Vec<String>) {
        let converted = convert("a", text).unwrap();
        (converted.toml.parse().unwrap_or_else(|error| panic!("{error}: {}", converted.toml)), converted.notes)
    }

    fn step(text: &str) -> toml::Table {
        let (file, notes) = toml(text);
        assert_eq!(notes, [""; 0]);
        file["scenario"][0]["step"][0].as_table().unwrap().clone()
    }

    fn table(text: &str) -> toml::Table {
        text.parse().unwrap()
    }

    #[test]
    fn words_match_a_shell() {
        let of = |text| words(text).unwrap();
        assert_eq!(of("a 'b c' \"d \\\" e\" f\\ g\\\n h # not\ni"), ["a", "b c", "d \" e", "f g", "h", "i"]);
        assert_eq!(of("$'x\\'y\\n\\u00fc' ''"), ["x'y\nü", ""]);
        for open in ["'a", "\"a", "$'a"] {
            assert!(words(open).is_err(), "{open}");
        }
    }

    #[test]
    fn a_copied_request_becomes_a_step() {
        let (file, notes) = toml(
            "curl 'https://shop.test/api/cart?x=1#top' -X 'PUT' \\\n  -H 'accept: application/json' -H 'cookie: a=b' \\\n  \
             -H 'content-type: application/json' --data-raw $'{\"item\":7,\"name\":\"it\\'s\"}' --compressed -sS",
        );
        assert_eq!(notes, ["Bodies are asked for without compression, so that checks can read them.", COOKIES]);
        assert_eq!(file["base"].as_str(), Some("https://shop.test"));
        let expected = "name = \"PUT /api/cart\"\nmethod = \"PUT\"\nurl = \"/api/cart?x=1\"\n\
                        headers = { accept = \"application/json\", content-type = \"application/json\" }\njson = { item = 7, name = \"it's\" }";
        assert_eq!(file["scenario"][0]["step"][0].as_table().unwrap(), &table(expected));
    }

    #[test]
    fn bodies_match_curl() {
        let form = step("curl http://a/ -d name=x+y -d b=2");
        assert_eq!(form, table("name = \"POST /\"\nurl = \"/\"\nform = { name = \"x y\", b = \"2\" }"));
        let text = step("curl http://a/ -d plain");
        assert_eq!(
            text,
            table(
                "name = \"POST /\"\nurl = \"/\"\nheaders = { Content-Type = \"application/x-www-form-urlencoded\" }\nbody = \"plain\""
            )
        );
        assert_eq!(step("curl -G http://a/s -d q=1 --data-urlencode 'n=a b'")["url"].as_str(), Some("/s?q=1&n=a%20b"));
        assert_eq!(step("curl -I http://a/")["method"].as_str(), Some("HEAD"));
        let json = step("curl --json '{\"a\": [1]}' http://a/");
        assert_eq!(
            (json["json"]["a"][0].as_integer(), json["headers"]["Accept"].as_str()),
            (Some(1), Some("application/json"))
        );
        let file = step("curl -T photo.jpg http://a/up");
        assert_eq!((file["method"].as_str(), file["file"].as_str()), (Some("PUT"), Some("photo.jpg")));
        let parts = step("curl http://a/ -F 'who=me' -F 'pic=@p.png;type=image/png;filename=\"x.png\"'");
        let expected = "p = [{ name = \"who\", text = \"me\" }, { name = \"pic\", file = \"p.png\", filename = \"x.png\", content_type = \"image/png\" }]";
        assert_eq!(parts["multipart"], table(expected)["p"]);
    }

    #[test]
    fn several_commands_are_several_steps_and_share_their_fields() {
        let (file, notes) = toml(
            "curl -u me:secret http://a/1\n# a comment\ncurl -u me:secret http://a/1 http://a/2 -k -L --strange\n",
        );
        assert_eq!(file["headers"]["Authorization"].as_str(), Some("Basic bWU6c2VjcmV0"));
        let names: Vec<_> =
            file["scenario"][0]["step"].as_array().unwrap().iter().map(|step| step["name"].as_str()).collect();
        assert_eq!(names, [Some("GET /1"), Some("GET /1 (2)"), Some("GET /2")]);
        assert_eq!(
            notes,
            [
                "--strange is not known here, and left out.",
                "-k of curl is --insecure of `holdfast load`.",
                "Redirects are not followed: write them as steps."
            ]
        );
    }
}
