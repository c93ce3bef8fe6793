//! Scenarios from what others have recorded or described: curl's command lines, HAR files of browsers and proxies, OpenAPI in
//! JSON. The result is the TOML of a scenario, to be read and changed by a person, and notes about what it does not have.

mod curl;
mod har;
mod openapi;
mod write;

use crate::options::TARGETS_MAX;
use crate::url::Url;
use serde_json::Value;
use std::collections::BTreeMap;

/// Most bytes of a file that is converted: browsers record some megabytes a page.
pub const CONVERTED_BYTES_MAX: u64 = 256 << 20;

/// Pauses below this are the browser's, not a person's.
const THINK_MS_MIN: u64 = 100;
/// Longer pauses are cut: the person was away.
const THINK_MS_MAX: u64 = 60_000;

/// Fields that the load writes itself, or that belong to the recorded connection or browser: cookies are kept for each user, and
/// compressed bodies could not be checked.
const LEFT_OUT: [&str; 10] = [
    "host",
    "content-length",
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "te",
    "cookie",
    "accept-encoding",
];

/// A scenario in the making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The TOML of the scenario.
    pub toml: String,
    /// What it does not have, or what to look at; a sentence each.
    pub notes: Vec<String>,
}

/// What is known of a file before it is written.
#[derive(Debug, Default)]
struct Draft {
    /// Of URLs that begin with a slash.
    base: Option<String>,
    variables: BTreeMap<String, String>,
    flows: Vec<DraftFlow>,
    notes: Vec<String>,
}

#[derive(Debug, Default)]
struct DraftFlow {
    name: String,
    steps: Vec<DraftStep>,
}

#[derive(Debug, Clone, Default)]
struct DraftStep {
    name: String,
    method: String,
    url: String,
    fields: Vec<(String, String)>,
    body: DraftBody,
    think_ms: u64,
    /// What the response's status must be, as a check has it: `200` or `"2xx"`.
    status: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
enum DraftBody {
    #[default]
    None,
    Text(String),
    Json(Value),
    Form(Vec<(String, String)>),
    File(String),
    Multipart(Vec<DraftPart>),
}

#[derive(Debug, Clone, Default, PartialEq)]
struct DraftPart {
    name: String,
    text: Option<String>,
    file: Option<String>,
    filename: Option<String>,
    content_type: Option<String>,
}

/// Makes a scenario of a text whose kind shows in itself. The error says what it is not.
pub fn convert(name: &str, text: &str) -> Result<Converted, String> {
    let mut draft = match serde_json::from_str::<Value>(text) {
        Ok(value) if value.pointer("/log/entries").is_some() => har::read(&value)?,
        Ok(value) if value.get("openapi").is_some() => openapi::read(&value)?,
        Ok(value) if value.get("swagger").is_some() => {
            return Err("Swagger 2 is not read; converters to OpenAPI 3 exist (swagger2openapi)".to_owned());
        }
        Ok(_) => return Err("the JSON is neither a HAR file (log.entries) nor OpenAPI (openapi)".to_owned()),
        Err(_) if text.trim_start().starts_with("openapi:") => {
            return Err("OpenAPI is read as JSON: convert it with `yq -o json` first".to_owned());
        }
        Err(_) if text.split_whitespace().next().is_some_and(|word| word.rsplit('/').next() == Some("curl")) => {
            curl::read(text)?
        }
        Err(_) => return Err("it is neither a command line of curl, nor a HAR file, nor OpenAPI in JSON".to_owned()),
    };
    limit_steps(&mut draft);
    draft.flows.retain(|flow| !flow.steps.is_empty());
    if draft.flows.is_empty() {
        return Err(["it has no request that can be sent".to_owned()]
            .into_iter()
            .chain(draft.notes)
            .collect::<Vec<_>>()
            .join("; "));
    }
    name_steps(&mut draft);
    take_out_common_base(&mut draft);
    let toml = write::toml(name, &mut draft);
    Ok(Converted { toml, notes: draft.notes })
}

/// A load has no more steps than this.
fn limit_steps(draft: &mut Draft) {
    let mut room = TARGETS_MAX;
    let mut cut = 0;
    for flow in &mut draft.flows {
        let kept = flow.steps.len().min(room);
        cut += flow.steps.len() - kept;
        flow.steps.truncate(kept);
        room -= kept;
    }
    if cut > 0 {
        draft.notes.push(format!("{cut} requests are left out: a scenario has at most {TARGETS_MAX}."));
    }
}

/// Gives each step the name of its request, and a number where that repeats.
fn name_steps(draft: &mut Draft) {
    for flow in &mut draft.flows {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for step in &mut flow.steps {
            if step.name.is_empty() {
                let path = path_of(&step.url).split(['?', '#']).next().unwrap_or("/");
                step.name = format!("{} {}", step.method, shortened(path));
            }
            let count = seen.entry(step.name.clone()).or_default();
            *count += 1;
            if *count > 1 {
                step.name = format!("{} ({count})", step.name);
            }
        }
    }
}

fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    if text.chars().count() <= CHARACTERS_MAX {
        return text.to_owned();
    }
    text.chars().take(CHARACTERS_MAX - 1).chain(['\u{2026}']).collect()
}

/// The path of a URL, with its query.
fn path_of(url: &str) -> &str {
    let Some((_, behind)) = url.split_once("://") else { return url };
    behind.find('/').map_or("/", |at| behind.get(at..).unwrap_or("/"))
}

/// Scheme, host and port of a URL.
fn origin_of(url: &str) -> Option<&str> {
    let (scheme, behind) = url.split_once("://")?;
    let end = behind.find(['/', '?', '#']).unwrap_or(behind.len());
    url.get(..scheme.len() + 3 + end)
}

/// Makes the origin of all steps the base of the file, so that a URL on the command line can replace it.
fn take_out_common_base(draft: &mut Draft) {
    let steps = || draft.flows.iter().flat_map(|flow| &flow.steps);
    let first = steps().find_map(|step| origin_of(&step.url)).map(str::to_owned);
    let Some(base) =
        first.filter(|first| steps().all(|step| origin_of(&step.url).is_none_or(|origin| origin == first)))
    else {
        return;
    };
    for step in draft.flows.iter_mut().flat_map(|flow| &mut flow.steps) {
        if origin_of(&step.url).is_some() {
            let path = path_of(&step.url).to_owned();
            step.url = path;
        }
    }
    draft.base = Some(base);
}

/// A URL that a load can send requests to: without a fragment, with a path.
fn sound_url(url: &str) -> Result<String, String> {
    let url = url.split('#').next().unwrap_or_default();
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    url.parse::<Url>().map_err(|error| format!("{url}: {error}"))?;
    let origin = origin_of(&url).unwrap_or_default();
    let rest = url.get(origin.len()..).unwrap_or_default();
    Ok(if rest.starts_with('/') { url } else { format!("{origin}/{rest}") })
}

/// Whether a field of a recorded request is a part of the scenario.
fn is_kept(field: &str) -> bool {
    !field.starts_with(':') && !LEFT_OUT.iter().any(|known| field.eq_ignore_ascii_case(known))
}

/// A body by its type: JSON and forms in a form that a person can change.
fn body_of(content_type: &str, text: String) -> DraftBody {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if (media == "application/json" || media.ends_with("+json"))
        && let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(&text)
    {
        return DraftBody::Json(value);
    }
    if media == "application/x-www-form-urlencoded"
        && let Some(fields) = form_fields(&text)
    {
        return DraftBody::Form(fields);
    }
    if text.is_empty() { DraftBody::None } else { DraftBody::Text(text) }
}

/// The fields of an encoded form; `None` if it has a name twice, or is not made of names and values.
fn form_fields(text: &str) -> Option<Vec<(String, String)>> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (form_decoded(name)?, form_decoded(value)?);
        if fields.iter().any(|(known, _)| *known == name) {
            return None;
        }
        fields.push((name, value));
    }
    Some(fields)
}

fn form_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
                bytes.push((digit(rest.next())? * 16 + digit(rest.next())?) as u8);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_the_format_from_the_text() {
        for (text, error) in [
            ("{}", "neither a HAR file"),
            ("{\"swagger\": \"2.0\"}", "Swagger 2 is not read"),
            ("openapi: 3.0.0\npaths: {}", "yq -o json"),
            ("hello", "neither a command line of curl"),
            ("{\"log\": {\"entries\": []}}", "no request"),
            ("curl", "no URL"),
        ] {
            let found = convert("a", text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
    }

    #[test]
    fn forms_are_read_where_nothing_is_lost() {
        let fields = |text| {
            form_fields(text).map(|fields| fields.into_iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>())
        };
        assert_eq!(fields("a=1&b=x+y%2B%C3%BC"), Some(vec!["a=1".to_owned(), "b=x y+ü".to_owned()]));
        assert_eq!((fields("a=1&a=2"), fields("plain"), fields("a=%zz"), fields("a=%ff")), (None, None, None, None));
    }

    #[test]
    fn urls_are_made_sound() {
        assert_eq!(sound_url("a.test"), Ok("http://a.test/".to_owned()));
        assert_eq!(sound_url("https://a.test?x=1#part"), Ok("https://a.test/?x=1".to_owned()));
        assert!(sound_url("ftp://a.test/").is_err());
        assert_eq!((origin_of("https://a:1/x?y"), path_of("https://a:1/x?y")), (Some("https://a:1"), "/x?y"));
    }
}
