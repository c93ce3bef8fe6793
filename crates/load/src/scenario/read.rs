//! Reads a scenario file: checks what its types cannot say, reads the files beside it, and returns the targets of the load
//! and the [`Scenario`]. Errors name the step. Files come through a function, so that tests have none.

use super::body::{self, BodyPart, TypedBody};
use super::compiled::OWN_VARIABLES;
use super::data;
use super::file::{CheckTable, DataFile, ExtractTable, File, PartTable, Plain, Statuses, StepTable};
use super::{Check, Condition, Data, Escape, Extract, Flow, Piece, Scenario, Step, Subject};
use crate::options::{TARGETS_MAX, Target};
use crate::results::read_at_most;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

/// Longest scenario file; a long one has some ten kilobytes.
const SCENARIO_BYTES_MAX: u64 = 16 << 20;
/// Longest file beside it: bodies and data. All of them are held in memory once in each process.
const BESIDE_BYTES_MAX: u64 = 256 << 20;

/// Why a scenario cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ScenarioError(String);

impl ScenarioError {
    pub(super) fn new(problem: String) -> Self {
        Self(problem)
    }

    fn of_step(flow: &str, step: &str, problem: &str) -> Self {
        Self(format!("scenario `{flow}`, step `{step}`: {problem}"))
    }
}

/// A scenario file with the targets of its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioFile {
    /// One for each step, in order.
    pub targets: Vec<Target>,
    /// What the users do.
    pub scenario: Scenario,
}

/// Reads a file beside the scenario by its name.
type Beside<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<u8>, String>;

impl ScenarioFile {
    /// Reads a file and the files beside it. `base` replaces that of the file, and `fields` are added to each step that does
    /// not have them.
    pub fn read(path: &Path, base: Option<&str>, fields: &[(String, String)]) -> Result<Self, ScenarioError> {
        let text = read_at_most(path, SCENARIO_BYTES_MAX).map_err(ScenarioError)?;
        let text = String::from_utf8(text).map_err(|error| ScenarioError(format!("{}: {error}", path.display())))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let mut beside = |name: &str| read_at_most(&folder.join(name), BESIDE_BYTES_MAX);
        let read = Self::parse(&text, &name, base, fields, &mut beside);
        read.map_err(|ScenarioError(problem)| ScenarioError(format!("{}: {problem}", path.display())))
    }

    fn parse(
        text: &str,
        name: &str,
        base: Option<&str>,
        fields: &[(String, String)],
        beside: Beside<'_>,
    ) -> Result<Self, ScenarioError> {
        let file: File = toml::from_str(text).map_err(|error| ScenarioError(error.to_string()))?;
        let mut variables = Variables::new(&file.variables);
        let mut data = Vec::new();
        for one in &file.data {
            let read = read_data(one, &mut variables, beside);
            data.push(read.map_err(|problem| ScenarioError(format!("data `{}`: {problem}", one.name)))?);
        }
        for extract in file.scenarios.iter().flat_map(|flow| &flow.steps).flat_map(|step| &step.extract) {
            variables.place(&extract.name);
        }
        let mut shared: Vec<(String, String)> = fields.to_vec();
        add_missing(&mut shared, file.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        let settings = Settings {
            base: base.or(file.base.as_deref()).map(|base| base.trim_end_matches('/')),
            shared: &shared,
            think: file.think.as_deref(),
            is_single: file.scenarios.len() == 1,
        };
        let (mut targets, mut flows) = (Vec::new(), Vec::<Flow>::new());
        for flow in &file.scenarios {
            if flow.steps.is_empty() {
                return Err(ScenarioError(format!("scenario `{}` has no step", flow.name)));
            }
            let mut steps = Vec::<Step>::new();
            for table in &flow.steps {
                let wrong = |problem: String| ScenarioError::of_step(&flow.name, &table.name, &problem);
                let (target, step) = settings.step(&flow.name, table, &mut variables, beside).map_err(wrong)?;
                if flows.iter().flat_map(|flow| &flow.steps).chain(&steps).any(|known| known.name == step.name) {
                    return Err(wrong("another step has this name".to_owned()));
                }
                targets.push(target);
                steps.push(step);
            }
            flows.push(Flow { name: flow.name.clone(), weight: flow.weight, steps });
        }
        if targets.is_empty() {
            return Err(ScenarioError("it has no [[scenario]]".to_owned()));
        }
        if targets.len() > TARGETS_MAX {
            return Err(ScenarioError(format!("more than {TARGETS_MAX} steps")));
        }
        let name = file.name.unwrap_or_else(|| name.to_owned());
        let scenario = Scenario { name, flows, data, variables: variables.0, cookies: file.cookies, order: Vec::new() };
        Ok(Self { targets, scenario })
    }
}

/// The names of variables with their start values.
struct Variables(Vec<(String, String)>);

impl Variables {
    fn new(given: &BTreeMap<String, String>) -> Self {
        let own = OWN_VARIABLES.iter().map(|name| ((*name).to_owned(), String::new()));
        Self(own.chain(given.iter().map(|(name, value)| (name.clone(), value.clone()))).collect())
    }

    /// The place of a variable; a new one starts empty.
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.0.iter().position(|(known, _)| known == name) {
            return place;
        }
        self.0.push((name.to_owned(), String::new()));
        self.0.len() - 1
    }
}

fn read_data(file: &DataFile, variables: &mut Variables, beside: Beside<'_>) -> Result<Data, String> {
    let bytes = beside(&file.file)?;
    let (names, rows) = match file.file.rsplit_once('.') {
        Some((_, "csv")) => data::read_csv(&bytes),
        Some((_, "jsonl" | "ndjson")) => data::read_json_lines(&bytes),
        _ => Err("a file of data ends in .csv, .jsonl or .ndjson".to_owned()),
    }
    .map_err(|problem| format!("{}: {problem}", file.file))?;
    if rows.is_empty() {
        return Err(format!("{} has no rows", file.file));
    }
    let columns = names.iter().map(|column| variables.place(&format!("{}.{column}", file.name))).collect();
    Ok(Data { name: file.name.clone(), order: file.order, per: file.per, columns, rows })
}

/// What holds for all steps.
struct Settings<'a> {
    base: Option<&'a str>,
    shared: &'a [(String, String)],
    think: Option<&'a str>,
    is_single: bool,
}

impl Settings<'_> {
    fn step(
        &self,
        flow: &str,
        table: &StepTable,
        variables: &mut Variables,
        beside: Beside<'_>,
    ) -> Result<(Target, Step), String> {
        let name = if self.is_single { table.name.clone() } else { format!("{flow}/{}", table.name) };
        if name.is_empty() || name.contains(['<', '>', '=']) || name.contains(char::is_control) {
            return Err("the name of a step has none of < > =, so that thresholds can name it".to_owned());
        }
        if table.repeat == 0 {
            return Err("repeat is at least 1".to_owned());
        }
        let url = match (self.base, table.url.starts_with('/')) {
            (Some(base), true) => format!("{base}{}", table.url),
            (None, true) => return Err("the URL is a path, and the file has no `base`".to_owned()),
            _ => table.url.clone(),
        };
        // The host is needed before any value is known.
        let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest).split(['/', '?']).next();
        if host.is_some_and(|host| host.contains("{{")) {
            return Err(format!("{url}: the host has no templates"));
        }
        let body = body_of(table, beside)?;
        let mut fields: Vec<(String, String)> =
            table.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        add_missing(&mut fields, self.shared.iter().cloned());
        if let Some(content_type) = body.as_ref().and_then(|body| body.content_type.clone()) {
            add_missing(&mut fields, [("Content-Type".to_owned(), content_type)]);
        }
        let default_method = if body.is_some() { "POST" } else { "GET" };
        let method = table.method.clone().unwrap_or_else(|| default_method.to_owned());
        let url = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let target = Target { method, fields, ..Target::new(url) };
        let think = table.think.as_deref().or(self.think).map_or(Ok((Duration::ZERO, Duration::ZERO)), think)?;
        let body = body.map(|body| body.pieces).unwrap_or_default();
        let extract = table.extract.iter().map(|table| extract(table, variables)).collect::<Result<_, _>>()?;
        let checks = checks(&table.check)?;
        Ok((target, Step { name, body, think, repeat: table.repeat, checks, extract }))
    }
}

/// Adds the fields that are missing.
fn add_missing(fields: &mut Vec<(String, String)>, others: impl IntoIterator<Item = (String, String)>) {
    for (name, value) in others {
        if !fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            fields.push((name, value));
        }
    }
}

/// `500ms`, or `100ms..2s`.
fn think(text: &str) -> Result<(Duration, Duration), String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let (from, to) = (report::typed::duration(from)?, report::typed::duration(to)?);
    if from > to { Err(format!("the think time `{text}` ends before it begins")) } else { Ok((from, to)) }
}

fn body_of(table: &StepTable, beside: Beside<'_>) -> Result<Option<TypedBody>, String> {
    let mut bodies = Vec::new();
    bodies.extend(table.body.as_deref().map(body::text));
    bodies.extend(table.json.as_ref().map(body::json));
    bodies.extend(table.form.as_ref().map(body::form));
    if let Some(file) = &table.file {
        bodies.push(body::file(beside(file)?));
    }
    if let Some(parts) = &table.multipart {
        let parts = parts.iter().map(|table| part(table, beside)).collect::<Result<_, _>>()?;
        bodies.push(body::multipart(parts));
    }
    if bodies.len() > 1 {
        return Err("a step has one of body, json, file, form and multipart".to_owned());
    }
    Ok(bodies.pop())
}

fn part(table: &PartTable, beside: Beside<'_>) -> Result<BodyPart, String> {
    let (content, filename) = match (&table.text, &table.file) {
        (Some(text), None) => (Piece::Text(text.clone(), Escape::None), table.filename.clone()),
        (None, Some(file)) => {
            let name = file.rsplit('/').next().unwrap_or(file).to_owned();
            (Piece::Bytes(beside(file)?), Some(table.filename.clone().unwrap_or(name)))
        }
        _ => return Err(format!("part `{}` has either text or file", table.name)),
    };
    let octets = || filename.as_ref().map(|_| "application/octet-stream".to_owned());
    let content_type = table.content_type.clone().or_else(octets);
    if [&table.name, content_type.as_ref().unwrap_or(&table.name)].iter().any(|text| text.contains(['\r', '\n'])) {
        return Err(format!("part `{}` has a line end in its head", table.name));
    }
    Ok(BodyPart { name: table.name.clone(), filename, content_type, content })
}

fn checks(tables: &[CheckTable]) -> Result<Vec<Check>, String> {
    let mut checks = Vec::<Check>::new();
    for table in tables {
        let mut check = check(table)?;
        let (name, mut number) = (check.name.clone(), 1);
        while checks.iter().any(|known| known.name == check.name) {
            number += 1;
            check.name = format!("{name} ({number})");
        }
        checks.push(check);
    }
    Ok(checks)
}

fn check(table: &CheckTable) -> Result<Check, String> {
    let named = |condition: Condition, subject: Subject, words: String| {
        Ok(Check { name: table.name.clone().unwrap_or(words), subject, condition })
    };
    let conditions =
        [table.equals.is_some(), table.contains.is_some(), table.matches.is_some()].iter().filter(|it| **it).count();
    if let Some(statuses) = &table.status {
        if conditions > 0 || table.header.is_some() || table.pointer.is_some() {
            return Err("a check of the status has no other condition; write a second check".to_owned());
        }
        let (ranges, words) = ranges(statuses)?;
        return named(Condition::Statuses(ranges), Subject::Status, format!("status {words}"));
    }
    let (subject, part) = subject(table.header.as_deref(), table.pointer.as_deref())?;
    if conditions > 1 {
        return Err("a check has one of equals, contains and matches; write a second check".to_owned());
    }
    if let Some(text) = &table.equals {
        let text = text.text();
        return named(Condition::Equals(text.clone()), subject, format!("{part} equals {text}"));
    }
    if let Some(text) = &table.contains {
        return named(Condition::Contains(text.clone()), subject, format!("{part} contains {text}"));
    }
    if let Some(pattern) = &table.matches {
        return named(Condition::Matches(pattern.clone()), subject, format!("{part} matches {pattern}"));
    }
    match subject {
        Subject::Body => Err("a check names a status, or what the body must be".to_owned()),
        _ => named(Condition::Exists, subject, format!("{part} exists")),
    }
}

fn subject(header: Option<&str>, pointer: Option<&str>) -> Result<(Subject, String), String> {
    match (header, pointer) {
        (Some(_), Some(_)) => Err("either a header or a pointer, not both".to_owned()),
        (Some(name), None) => Ok((Subject::Header(name.to_owned()), format!("header {name}"))),
        (None, Some(pointer)) if pointer.is_empty() || pointer.starts_with('/') => {
            Ok((Subject::Pointer(pointer.to_owned()), pointer.to_owned()))
        }
        (None, Some(pointer)) => Err(format!("`{pointer}` is no JSON pointer: it starts with a slash")),
        (None, None) => Ok((Subject::Body, "body".to_owned())),
    }
}

fn extract(table: &ExtractTable, variables: &mut Variables) -> Result<Extract, String> {
    if OWN_VARIABLES.contains(&table.name.as_str()) || table.name.is_empty() || table.name.contains(['{', '}']) {
        return Err(format!("`{}` cannot be the name of a variable", table.name));
    }
    let (subject, _) = subject(table.header.as_deref(), table.pointer.as_deref())?;
    Ok(Extract { variable: variables.place(&table.name), subject, pattern: table.matches.clone() })
}

/// The ranges of statuses, and their words.
fn ranges(statuses: &Statuses) -> Result<(Vec<(u16, u16)>, String), String> {
    let all = match statuses {
        Statuses::One(one) => std::slice::from_ref(one),
        Statuses::Several(several) => several.as_slice(),
    };
    let ranges = all.iter().map(range).collect::<Result<_, _>>()?;
    Ok((ranges, all.iter().map(Plain::text).collect::<Vec<_>>().join(" or ")))
}

fn range(status: &Plain) -> Result<(u16, u16), String> {
    let text = status.text();
    let wrong = || format!("`{text}` is no status, such as 200 or \"2xx\"");
    if let Some(class) = text.strip_suffix("xx") {
        let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class)).ok_or_else(wrong)?;
        return Ok((class * 100, class * 100 + 99));
    }
    let status = text.parse().ok().filter(|status| (100..=999).contains(status)).ok_or_else(wrong)?;
    Ok((status, status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, OptionsError};
    use std::sync::Arc;

    fn parse(text: &str) -> Result<ScenarioFile, String> {
        let mut beside = |name: &str| match name {
            "users.csv" => Ok(b"name,pass\na,1\nb,2\n".to_vec()),
            "a.png" => Ok(vec![0xff, b'{', b'{']),
            _ => Err(format!("{name}: no such file")),
        };
        ScenarioFile::parse(text, "shop", None, &[], &mut beside).map_err(|error| error.to_string())
    }

    fn error(step: &str) -> String {
        parse(&format!("base = 'http://a'\n[[scenario]]\nname = 's'\n[[scenario.step]]\nname = 'x'\nurl = '/'\n{step}"))
            .unwrap_err()
    }

    #[test]
    fn a_file_becomes_targets_and_steps() {
        let read = parse(
            r#"
            base = "http://127.0.0.1:8080/"
            headers = { Accept = "*/*" }
            think = "1s"
            [[data]]
            name = "users"
            file = "users.csv"
            order = "unique"
            [[scenario]]
            name = "buy"
            weight = 3
            [[scenario.step]]
            name = "login"
            url = "/login?u={{users.name}}"
            form = { user = "{{users.name}}" }
            think = "10ms..20ms"
            repeat = 2
            check = [{ status = [200, "3xx"] }, { header = "Location", contains = "/" }, { pointer = "/n", equals = 7 }]
            extract = [{ name = "token", pointer = "/token" }]
            [[scenario]]
            name = "browse"
            [[scenario.step]]
            name = "login"
            url = "https://other.example/{{token}}"
            multipart = [{ name = "f", file = "a.png" }]
            "#,
        )
        .unwrap();
        let names: Vec<&str> = read.scenario.steps().map(|(_, step)| step.name.as_str()).collect();
        assert_eq!((names, read.scenario.name.as_str()), (vec!["buy/login", "browse/login"], "shop"));
        let (target, step) = (&read.targets[0], &read.scenario.flows[0].steps[0]);
        assert_eq!(
            (target.url.to_string().as_str(), target.method.as_str()),
            ("http://127.0.0.1:8080/login?u={{users.name}}", "POST")
        );
        let fields: Vec<&str> = target.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(fields, ["Accept", "Content-Type"]);
        assert_eq!((step.think, step.repeat), ((Duration::from_millis(10), Duration::from_millis(20)), 2));
        let checks: Vec<&str> = step.checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(checks, ["status 200 or 3xx", "header Location contains /", "/n equals 7"]);
        assert_eq!(step.checks[0].condition, Condition::Statuses(vec![(200, 200), (300, 399)]));
        let variables: Vec<&str> = read.scenario.variables.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(variables, ["iteration", "user", "users.name", "users.pass", "token"]);
        assert_eq!(read.scenario.data[0].rows.len(), 2);
        assert_eq!(read.scenario.flows[1].steps[0].think.0, Duration::from_secs(1));
        let options = Options {
            targets: read.targets,
            scenario: Some(Arc::new(read.scenario)),
            ..Options::new(Target::new("http://a/".parse().unwrap()))
        };
        assert_eq!((options.check(), options.sockets()), (Ok(()), 20), "ten users, two places");
    }

    #[test]
    fn mistakes_name_the_step_and_the_cure() {
        assert!(error("body = 'a'\njson = 1").contains("scenario `s`, step `x`: a step has one of body"));
        assert!(error("check = [{ status = '6x' }]").contains("`6x` is no status"));
        assert!(error("check = [{ pointer = 'a' }]").contains("starts with a slash"));
        assert!(error("check = [{ name = 'empty' }]").contains("names a status"));
        assert!(error("check = [{ contains = 'a', equals = 'b' }]").contains("one of equals"));
        assert!(error("extract = [{ name = 'user' }]").contains("cannot be the name"));
        assert!(error("think = '2s..1s'").contains("ends before it begins"));
        assert!(error("file = 'none'").contains("none: no such file"));
        assert!(error("urll = 1").contains("unknown field `urll`"), "{}", error("urll = 1"));
        assert!(error("[[scenario.step]]\nname = 'x'\nurl = '/'").contains("another step has this name"));
        assert!(error("[[scenario.step]]\nname = 'y'\nurl = 'http://{{h}}/'").contains("the host has no templates"));
        assert!(error("repeat = 0").contains("at least 1"));
        assert!(error("name2 = 1").contains("line 7"), "{}", error("name2 = 1"));
        assert!(parse("scenario = []").unwrap_err().contains("no [[scenario]]"));
    }

    #[test]
    fn an_unknown_variable_is_refused_before_the_load() {
        let text = "[[scenario]]\nname = 's'\n[[scenario.step]]\nname = 'x'\nurl = 'http://a/{{tokn}}'";
        let read = parse(text).unwrap();
        let options = Options {
            targets: read.targets,
            scenario: Some(Arc::new(read.scenario)),
            ..Options::new(Target::new("http://a/".parse().unwrap()))
        };
        let compiled = super::super::Compiled::new(options.scenario.as_ref().unwrap(), &options);
        let Err(OptionsError::Step(step, problem)) = compiled else { panic!("it is accepted") };
        assert_eq!(step, "x");
        assert!(problem.contains("`{{tokn}}`") && problem.contains("no variable"), "{problem}");
    }
}
