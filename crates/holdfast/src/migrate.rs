//! `holdfast migrate`: reads an nginx configuration and reports which directives work unchanged, have no effect,
//! differ, are not supported (with their replacement), or could be improved. It changes nothing. `migrate kubernetes` does
//! the same for the Ingresses of a cluster.

#[cfg(feature = "kubernetes")]
mod kubernetes;

use crate::doctor::target;
use crate::exit;
use crate::files::Files;
use crate::instance::{Instance, Wanted};
use crate::output::Output;
use crate::verdict::{self, Lasting};
use ::doctor::compare::{Side, compare};
use ::doctor::configuration::{Configuration, Found, is};
use ::doctor::{Dialect, configuration as words};
use conf::diagnostic::{Diagnostic, Severity};
use conf::source::SourceMap;
use conf::tree::Block;
use report::{Document, Section, Table};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Report what an nginx configuration needs before Holdfast serves it.
///
/// Reads the file and its includes; changes nothing. `holdfast -t -c FILE` stops at errors; `migrate` lists all unsupported
/// directives with their replacements, and all differences.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "Exit codes: 0 Holdfast serves it; 3 a directive is not supported; 1 a file cannot be read; 2 wrong command line."
)]
pub(crate) struct Args {
    /// The configuration.
    #[arg(short = 'c', long, value_name = "FILE", default_value = "/etc/nginx/nginx.conf")]
    conf: PathBuf,
    /// The nginx that serves it now, such as nginx-1.26. Default: the nginx on the PATH, or nginx 1.26.
    #[arg(long, value_name = "PROGRAM")]
    from: Option<Dialect>,
    #[command(flatten)]
    output: Output,
    #[cfg(feature = "kubernetes")]
    #[command(subcommand)]
    command: Option<Of>,
}

/// What else can be migrated.
#[cfg(feature = "kubernetes")]
#[derive(Debug, clap::Subcommand)]
enum Of {
    Kubernetes(Box<kubernetes::Args>),
}

/// The condition under which a difference from nginx concerns a configuration.
enum Trigger {
    /// Every configuration.
    Always,
    /// A directive of that name.
    Directive(&'static str),
    /// A directive with this end of its name.
    Ending(&'static str),
    /// An argument that contains this.
    Word(&'static str),
}

/// Differences of docs/guide/differences.md that concern a directive or variable: trigger, difference, page.
const DIFFERENCES: [(Trigger, &str, &str); 13] = [
    (
        Trigger::Always,
        "Requests that two servers may read in two ways get 400. The error log at level info names the reason.",
        "differences.md#requests",
    ),
    (
        Trigger::Always,
        "A field that Connection names ends at this hop; nginx passes it on.",
        "differences.md#fields-between-hops",
    ),
    (
        Trigger::Directive("keepalive"),
        "The pool belongs to the process: N connections for each worker, shared by all workers.",
        "reference.md",
    ),
    (
        Trigger::Directive("upstream"),
        "All workers share failures, limits and balancing, with `zone` and without.",
        "differences.md#upstreams",
    ),
    (Trigger::Directive("gzip"), "Compressed bodies have other lengths, because the compressors differ.", "gzip.md"),
    (
        Trigger::Directive("error_page"),
        "A page for a 304 is not sent, and one for a redirect has one Location.",
        "differences.md#responses",
    ),
    (
        Trigger::Ending("_cache_path"),
        "Files of nginx's cache are neither used nor removed, but new ones may replace them: give Holdfast another folder.",
        "caching.md#the-files",
    ),
    (Trigger::Directive("expires"), "expires replaces the Expires field of the upstream.", "differences.md#responses"),
    (
        Trigger::Directive("ignore_invalid_headers"),
        "A name with a forbidden character is refused with `off`, too.",
        "differences.md#requests",
    ),
    (
        Trigger::Directive("proxy_method"),
        "An empty value leaves the client's method.",
        "differences.md#fields-between-hops",
    ),
    (
        Trigger::Word("$request_completion"),
        "It is empty where the client got a part of the response.",
        "differences.md#logs",
    ),
    (
        Trigger::Word("$upstream_status"),
        "It is the status of the final response and never that of an interim one.",
        "differences.md#logs",
    ),
    (Trigger::Word("$request_length"), "It contains a request body that was discarded unread.", "differences.md#logs"),
];

/// A feature that Holdfast has and nginx lacks: the condition under which it helps, what to write, and the page.
type Advice = (fn(&Configuration) -> bool, &'static str, &'static str, &'static str);

const BETTER: [Advice; 5] = [
    (
        |configuration| lacks(configuration, "upstream", "keepalive_learn"),
        "keepalive_learn on;",
        "in each upstream block: Holdfast learns when a peer closes idle connections and closes them before, so no request meets a close",
        "time-wait.md",
    ),
    (
        |configuration| lacks(configuration, "upstream", "health_check"),
        "health_check uri=/healthz;",
        "in each upstream block: a peer that fails gets no requests before a client meets it",
        "health-checks.md",
    ),
    (
        |configuration| {
            configuration.everything().iter().any(Found::upgrades) && configuration.all("tunnel_timeout").is_empty()
        },
        "tunnel_timeout 1h; tunnel_ping 30s;",
        "where WebSockets pass: their time-out is apart from proxy_read_timeout, and dead clients are noticed",
        "tunnels.md",
    ),
    (
        |configuration| configuration.main("memory_budget").is_none(),
        "memory_budget 512m;",
        "at the top level: one limit for the buffers of all connections, so the kernel does not kill the process",
        "symptoms/memory-budget.md",
    ),
    (
        |configuration| configuration.all("status_page").is_empty(),
        "location /status { status_page; allow 127.0.0.1; deny all; }",
        "pools, peers, ports and memory live, and metrics for Prometheus",
        "status-page.md",
    ),
];

/// Whether a block of that name lacks this directive.
fn lacks(configuration: &Configuration, block: &str, name: &str) -> bool {
    configuration.all(block).iter().any(|found| {
        let inside = found.directive.block.as_ref().map(|block| block.directives.as_slice()).unwrap_or_default();
        !inside.iter().any(|directive| is(directive, name))
    })
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> u8 {
    #[cfg(feature = "kubernetes")]
    let answered = match &args.command {
        Some(Of::Kubernetes(args)) => kubernetes::answer(args),
        None => answer(args),
    };
    #[cfg(not(feature = "kubernetes"))]
    let answered = answer(args);
    answered.unwrap_or_else(|message| {
        crate::report::say(message.trim_end());
        exit::FAILED
    })
}

/// The findings about a configuration.
struct Findings {
    /// Errors: position and diagnostic.
    refused: Vec<(String, Diagnostic)>,
    /// Directives without effect: name or message, and how often.
    idle: BTreeMap<String, usize>,
}

fn answer(args: &Args) -> Result<u8, String> {
    let loaded = conf::load(&args.conf, Path::new(""), None, &mut Files::default());
    if !loaded.is_ok() {
        return Err(loaded.diagnostics.iter().map(|found| found.render(&loaded.sources, false)).collect());
    }
    let mut findings = look(&loaded);
    if findings.refused.is_empty() {
        findings.refused = verdict_of_a_start(&args.conf)?;
    }
    let configuration = Configuration::new(loaded);
    let from = target::find(args.from, Some(&configuration), None).dialect;
    // A file with directives of Holdfast was written for some nginx before.
    let from = if from == Dialect::Holdfast { Dialect::NGINX_1_26 } else { from };
    let total = configuration.everything().len();
    let (refused, idle) = (findings.refused.len(), findings.idle.values().sum::<usize>());
    let settings = settings(&configuration, from);

    let title = match refused {
        0 => "Holdfast serves this configuration as it is".to_owned(),
        1 => "1 place has to change before Holdfast serves this configuration".to_owned(),
        count => format!("{count} places have to change before Holdfast serves this configuration"),
    };
    let document = Document::new(&title, &format!("holdfast migrate {}", env!("CARGO_PKG_VERSION")))
        .fact("configuration", args.conf.display().to_string())
        .fact("compared with", from.name())
        .fact("directives", format!("{total}: {refused} not supported, {idle} without effect, the others work"));
    let sections = [
        not_supported(&findings),
        without_effect(&findings),
        settings,
        Some(handbook(&configuration)),
        better(&configuration),
    ];
    let document = sections.into_iter().flatten().fold(document, Document::section);
    args.output.emit(&document).map_err(|error| format!("holdfast migrate: {error}"))?;
    Ok(if refused == 0 { exit::OK } else { exit::NO })
}

/// Checks the configuration. Then it removes refused directives, so that lowering finds further errors.
fn look(loaded: &conf::Loaded) -> Findings {
    let mut refused = Vec::new();
    let mut idle = BTreeMap::new();
    for found in conf::check(loaded, conf::table::all()) {
        match found.severity {
            Severity::Error => refused.push((place(&loaded.sources, &found), found)),
            Severity::Note => *idle.entry(found.message).or_insert(0) += 1,
            Severity::Warning => {}
        }
    }
    let mut rest = loaded.tree.clone();
    remove(&mut rest, &refused);
    let (_, more) = conf::model::lower_with(&rest, &loaded.sources, conf::model::Options { privileged: true });
    let more = more.into_iter().filter(|found| found.severity == Severity::Error);
    // A setting that several levels inherit is reported for each of them.
    for found in more {
        let at = place(&loaded.sources, &found);
        if !refused.iter().any(|(there, known)| *there == at && known.message == found.message) {
            refused.push((at, found));
        }
    }
    refused.sort_by_key(|(_, found)| (found.span.file, found.span.start));
    Findings { refused, idle }
}

/// The errors that only `-t` finds: names of variables, users and hosts. They are resolved only if nothing else is
/// wrong.
fn verdict_of_a_start(conf: &Path) -> Result<Vec<(String, Diagnostic)>, String> {
    let instance = Instance::find(&Wanted { conf_path: Some(conf.to_owned()), ..Wanted::default() });
    let mut lasting = Lasting::without_workers().map_err(|error| format!("holdfast migrate: {error}"))?;
    let prepared = verdict::prepare(&instance, &mut instance.loader(), &mut lasting);
    let errors = prepared.diagnostics.into_iter().filter(|found| found.severity == Severity::Error);
    Ok(errors.map(|found| (place(&prepared.loaded.sources, &found), found)).collect())
}

fn place(sources: &SourceMap, found: &Diagnostic) -> String {
    let source = sources.source(found.span.file);
    format!("{}:{}", source.name, source.line_column(found.span.start).0)
}

/// Removes each directive with an error: the innermost one that contains the error's position.
fn remove(block: &mut Block, refused: &[(String, Diagnostic)]) {
    block.directives.retain_mut(|directive| {
        let inside = |span: &conf::source::Span| {
            refused.iter().any(|(_, found)| {
                found.span.file == span.file && (span.start..span.end.max(span.start + 1)).contains(&found.span.start)
            })
        };
        let words = std::iter::once(&directive.name).chain(&directive.args).map(|word| word.span);
        if words.into_iter().any(|span| inside(&span)) {
            return false;
        }
        if let Some(block) = &mut directive.block {
            remove(Arc::make_mut(block), refused);
        }
        true
    });
}

fn not_supported(findings: &Findings) -> Option<Section> {
    let mut table = Table::new("Each of these is an error at `holdfast -t`", &["where", "what", "instead"]);
    for (place, found) in &findings.refused {
        let hint = found.hint.clone().unwrap_or_default();
        table = table.row(vec![place.as_str().into(), found.message.as_str().into(), hint.as_str().into()]);
    }
    (!findings.refused.is_empty()).then(|| Section::new("Not supported").table(table))
}

fn without_effect(findings: &Findings) -> Option<Section> {
    let mut table = Table::new("These may stay: they are accepted and do nothing", &["what", "times"]);
    for (message, count) in &findings.idle {
        table = table.row(vec![message.as_str().into(), count.to_string().as_str().into()]);
    }
    (!findings.idle.is_empty()).then(|| Section::new("Without effect").table(table))
}

/// Settings with another effect here than in the previous nginx, such as changed defaults.
fn settings(configuration: &Configuration, from: Dialect) -> Option<Section> {
    let side = |dialect| Side { configuration, dialect };
    let differences = compare(side(from), side(Dialect::Holdfast));
    let mut table =
        Table::new("To keep the old behaviour, write the old value", &["where", "setting", &from.name(), "holdfast"]);
    for it in &differences {
        table = table.row([&it.place, &it.setting, &it.before, &it.after].map(|text| text.as_str().into()).into());
    }
    (!differences.is_empty()).then(|| Section::new("Different values").table(table))
}

fn handbook(configuration: &Configuration) -> Section {
    let everything = configuration.everything();
    let has = |trigger: &Trigger| match trigger {
        Trigger::Always => true,
        Trigger::Directive(name) => everything.iter().any(|found| is(found.directive, name)),
        Trigger::Ending(end) => everything.iter().any(|found| found.directive.name.value.ends_with(end.as_bytes())),
        Trigger::Word(part) => everything.iter().any(|found| {
            (0..found.directive.args.len())
                .any(|at| words::argument(found.directive, at).is_some_and(|word| word.contains(part)))
        }),
    };
    let mut table = Table::new("Where Holdfast differs on purpose", &["what", "page of the handbook"]);
    for (_, text, page) in DIFFERENCES.iter().filter(|(trigger, ..)| has(trigger)) {
        table = table.row(vec![(*text).into(), (*page).into()]);
    }
    Section::new("Different behaviour").table(table)
}

fn better(configuration: &Configuration) -> Option<Section> {
    let mut table = Table::new("None of it is necessary", &["write", "where and why", "page of the handbook"]);
    let mut any = false;
    for (_, line, why, page) in BETTER.iter().filter(|(gains, ..)| gains(configuration)) {
        any = true;
        table = table.row(vec![(*line).into(), (*why).into(), (*page).into()]);
    }
    any.then(|| Section::new("What could be better").table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_and_heading_is_in_the_handbook() {
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
        let pages = DIFFERENCES.iter().map(|row| row.2).chain(BETTER.iter().map(|row| row.3));
        for link in pages {
            let (page, heading) = link.split_once('#').unwrap_or((link, ""));
            let text = std::fs::read_to_string(guide.join(page)).unwrap_or_else(|_| panic!("{page} is not there"));
            let anchors =
                text.lines().filter_map(|line| line.strip_prefix("## ")).map(|it| it.to_lowercase().replace(' ', "-"));
            assert!(heading.is_empty() || anchors.into_iter().any(|it| it == heading), "{link}");
        }
    }
}
