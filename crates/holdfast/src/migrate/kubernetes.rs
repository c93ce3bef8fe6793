//! `holdfast migrate kubernetes`: reads manifests, or a cluster by kubectl, and reports for each Ingress what works
//! unchanged, what differs and what is refused; writes equivalent objects of the Gateway API. The analysis is in the crate
//! `ingress`.

use crate::exit;
use crate::output::Output;
use ingress::migrate::gateway_api::{self, Converted};
use ingress::migrate::manifests::FILE_BYTES_MAX;
use ingress::migrate::{Analysis, Manifests, Report, Verdict, Wanted, analyse};
use ingress::{Kind, Level, Name};
use report::{Document, Section, Table};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files of one call. A repository of manifests of a large organisation has some thousands.
const FILES_MAX: usize = 20_000;
/// Folders in folders.
const FOLDERS_MAX: usize = 32;
/// What kubectl is asked for. Secrets only if wanted: the report seldom needs them.
const KINDS: &str = "ingresses,ingressclasses,services,configmaps,namespaces";

/// Report what the Ingresses of ingress-nginx need before Holdfast serves them.
///
/// Reads files, folders (*.yaml, *.yml, *.json) or `-` for standard input: the output of `kubectl get --output yaml`. Changes nothing.
/// With --gateway-api it also writes equivalent objects of the Gateway API.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit codes: 0 Holdfast serves all of them; 3 something is refused; 1 a file cannot be read, or there is no Ingress of the class; 2 wrong command line."
)]
pub(super) struct Args {
    /// Manifests: files, folders, or - for standard input
    #[arg(value_name = "PATH", required_unless_present = "kubeconfig")]
    paths: Vec<PathBuf>,
    /// Read the cluster of this kubeconfig, by kubectl
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// With --kubeconfig: read Secrets, too, to check the certificates and passwords that Ingresses name
    #[arg(long, requires = "kubeconfig")]
    secrets: bool,
    /// The class that ingress-nginx serves
    #[arg(long, value_name = "NAME", default_value = "nginx")]
    class: String,
    /// Ingresses without a class, too, as with ingress-nginx's --watch-ingress-without-class
    #[arg(long)]
    without_class: bool,
    /// The ConfigMap of ingress-nginx; without it, the one that its chart makes
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = name)]
    configmap: Option<Name>,
    /// Read snippets, as with the flag of the controller; without it, the ConfigMap decides
    #[arg(long)]
    allow_snippet_annotations: bool,
    /// The prefix of annotations
    #[arg(long, value_name = "PREFIX", default_value = "nginx.ingress.kubernetes.io")]
    annotations_prefix: String,
    /// Write equivalent Gateway API objects to this file
    #[arg(long, value_name = "FILE")]
    gateway_api: Option<PathBuf>,
    /// One Gateway for all namespaces; without it, one in each namespace
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = name, requires = "gateway_api")]
    gateway: Option<Name>,
    /// The GatewayClass of the written Gateways
    #[arg(long, value_name = "NAME", default_value = "holdfast", requires = "gateway_api")]
    gateway_class: String,
    /// Write fields of the experimental channel, too
    #[arg(long, requires = "gateway_api")]
    experimental: bool,
    #[command(flatten)]
    output: Output,
}

fn name(text: &str) -> Result<Name, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Name::new(namespace, name))
        }
        _ => Err("write NAMESPACE/NAME".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// If nothing can be reported: the reason.
pub(super) fn answer(args: &Args) -> Result<u8, String> {
    let failed = |message: String| format!("holdfast migrate kubernetes: {message}");
    let manifests = read(args).map_err(failed)?;
    let wanted = Wanted {
        class: args.class.clone(),
        without_class: args.without_class,
        config_map: args.configmap.clone(),
        allow_snippets: args.allow_snippet_annotations,
        annotations_prefix: args.annotations_prefix.clone(),
    };
    let mut analysis = analyse(&manifests, &wanted);
    if analysis.ingresses.is_empty() && manifests.unreadable.is_empty() {
        let others = analysis.others.len();
        let hint =
            if others == 0 { String::new() } else { format!("; {others} of other classes: --class, --without-class") };
        return Err(failed(format!("no Ingress of the class \"{}\" was found{hint}", args.class)));
    }
    if args.kubeconfig.is_some() && !args.secrets {
        analysis.missing.retain(|object| object.kind != Kind::Secret);
    }
    let converted = args.gateway_api.as_ref().map(|file| write(args, &analysis, file)).transpose().map_err(failed)?;
    let document = document(&manifests, &analysis, converted.as_ref(), args);
    args.output.emit(&document).map_err(failed)?;
    let refused = analysis.refuses() || !manifests.unreadable.is_empty();
    Ok(if refused { exit::NO } else { exit::OK })
}

fn read(args: &Args) -> Result<Manifests, String> {
    let mut manifests = Manifests::default();
    let mut files = Vec::new();
    for path in &args.paths {
        if path == Path::new("-") {
            manifests.read(
                "standard input",
                &bounded(io::stdin().lock()).map_err(|error| format!("standard input: {error}"))?,
            );
        } else {
            collect(path, 0, true, &mut files).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    for file in files {
        let opened = File::open(&file).and_then(bounded);
        let text = opened.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        manifests.read(&file.display().to_string(), &text);
    }
    if let Some(kubeconfig) = &args.kubeconfig {
        manifests.read("the cluster", &kubectl(kubeconfig, args.secrets)?);
    }
    Ok(manifests)
}

/// The text, up to one byte more than is read.
fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Files of a folder, in the order of their names. `named`: the operator wrote this path, so it is read whatever its name is.
fn collect(path: &Path, depth: usize, named: bool, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let kind = if named { fs::metadata(path)?.file_type() } else { fs::symlink_metadata(path)?.file_type() };
    if kind.is_dir() {
        if depth == FOLDERS_MAX {
            return Err(io::Error::other(format!("more than {FOLDERS_MAX} folders in each other")));
        }
        let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        entries.sort();
        return entries.iter().try_for_each(|entry| collect(entry, depth + 1, false, files));
    }
    let wanted = path.extension().is_some_and(|it| it == "yaml" || it == "yml" || it == "json");
    if kind.is_file() && (named || wanted) {
        if files.len() == FILES_MAX {
            return Err(io::Error::other(format!("more than {FILES_MAX} files")));
        }
        files.push(path.to_owned());
    }
    Ok(())
}

/// The objects of a cluster as one list. kubectl knows every way to authenticate.
fn kubectl(kubeconfig: &Path, secrets: bool) -> Result<String, String> {
    let kinds = if secrets { format!("{KINDS},secrets") } else { KINDS.to_owned() };
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(kubeconfig).args(["get", &kinds, "--all-namespaces", "--output=json"]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run kubectl: {error}"))?;
    let text = child.stdout.take().map(bounded).transpose();
    let ended = child.wait().map_err(|error| format!("kubectl: {error}"))?;
    if !ended.success() {
        return Err(format!("kubectl failed: {ended}"));
    }
    Ok(text.map_err(|error| format!("kubectl: {error}"))?.unwrap_or_default())
}

fn write(args: &Args, analysis: &Analysis, file: &Path) -> Result<Converted, String> {
    let options = gateway_api::Options {
        class: args.gateway_class.clone(),
        gateway: args.gateway.clone(),
        experimental: args.experimental,
        annotations_prefix: args.annotations_prefix.clone(),
    };
    let converted = gateway_api::convert(&analysis.cluster, &options);
    fs::write(file, converted.yaml()?).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(converted)
}

fn document(manifests: &Manifests, analysis: &Analysis, converted: Option<&Converted>, args: &Args) -> Document {
    let count = |verdict| analysis.count(verdict);
    let (total, refused) = (analysis.ingresses.len(), count(Verdict::Refused));
    let title = match refused + manifests.unreadable.len() {
        0 => format!("Holdfast serves all {total} Ingresses of the class \"{}\"", args.class),
        1 => format!("1 of {total} Ingresses needs a change before Holdfast serves all of it"),
        refused => format!("{refused} of {total} Ingresses need changes before Holdfast serves all of them"),
    };
    let mut document = Document::new(&title, &format!("holdfast migrate kubernetes {}", env!("CARGO_PKG_VERSION")))
        .fact("class", args.class.clone())
        .fact(
            "Ingresses",
            format!(
                "{total}: {} work unchanged, {} differ, {refused} refused",
                count(Verdict::Unchanged),
                count(Verdict::Differs)
            ),
        );
    if let Some(map) = &analysis.config_map {
        document = document.fact("ConfigMap", map.object.name.to_string());
    }
    if let (Some(converted), Some(file)) = (converted, &args.gateway_api) {
        document = document.fact("Gateway API", format!("{} objects in {}", converted.objects.len(), file.display()));
    }
    let sections = [
        unreadable(manifests),
        findings(analysis, "Refused", "Not served by Holdfast", |level| level == Level::Refused),
        findings(analysis, "Differs", "Served; each line is a difference or something without effect", |level| {
            level != Level::Refused
        }),
        unchanged(analysis),
        others(analysis),
        missing(analysis),
        converted.and_then(losses),
    ];
    sections.into_iter().flatten().fold(document, Document::section)
}

fn unreadable(manifests: &Manifests) -> Option<Section> {
    let mut table = Table::new("The API server would refuse them", &["where", "why"]);
    for (source, why) in &manifests.unreadable {
        table = table.row(vec![source.as_str().into(), why.as_str().into()]);
    }
    (!manifests.unreadable.is_empty()).then(|| Section::new("Not read").table(table))
}

fn findings(analysis: &Analysis, title: &str, caption: &str, is: fn(Level) -> bool) -> Option<Section> {
    let mut table = Table::new(caption, &["object", "where", "what"]);
    let mut any = false;
    let reports = analysis.ingresses.iter().chain(&analysis.config_map);
    let of_reports = reports.flat_map(|it| it.findings.iter().map(move |finding| (it.source.as_str(), finding)));
    let all = of_reports.chain(analysis.rest.iter().map(|finding| ("", finding)));
    for (source, finding) in all.filter(|(_, finding)| is(finding.level)) {
        any = true;
        let object = finding.object.to_string();
        table = table.row(vec![object.as_str().into(), source.into(), finding.message.as_str().into()]);
    }
    any.then(|| Section::new(title).table(table))
}

/// Everything that works as before: whole Ingresses, and the other annotations of those with findings.
fn unchanged(analysis: &Analysis) -> Option<Section> {
    let mut table = Table::new("As in ingress-nginx", &["object", "where", "annotations or keys"]);
    let mut any = false;
    let shown = |it: &&Report| it.verdict == Verdict::Unchanged || !it.unchanged.is_empty();
    for report in analysis.ingresses.iter().chain(&analysis.config_map).filter(shown) {
        any = true;
        let object = report.object.to_string();
        let words = report.unchanged.join(", ");
        table = table.row(vec![object.as_str().into(), report.source.as_str().into(), words.as_str().into()]);
    }
    any.then(|| Section::new("Works unchanged").table(table))
}

fn others(analysis: &Analysis) -> Option<Section> {
    let mut table = Table::new("They stay with their controllers", &["Ingress", "class"]);
    for (name, class) in &analysis.others {
        let name = name.to_string();
        let class = if class.is_empty() { "none" } else { class };
        table = table.row(vec![name.as_str().into(), class.into()]);
    }
    (!analysis.others.is_empty()).then(|| Section::new("Other classes").table(table))
}

fn missing(analysis: &Analysis) -> Option<Section> {
    let mut table = Table::new("Ingresses name them, and they were not checked", &["object"]);
    for object in &analysis.missing {
        table = table.row(vec![object.to_string().as_str().into()]);
    }
    (!analysis.missing.is_empty()).then(|| Section::new("Not among the manifests").table(table))
}

fn losses(converted: &Converted) -> Option<Section> {
    let mut table =
        Table::new("Without an equivalent: keep the Ingress, or do it elsewhere", &["Ingress", "what", "why"]);
    for (name, what, why) in &converted.losses {
        let name = name.to_string();
        table = table.row(vec![name.as_str().into(), what.as_str().into(), why.as_str().into()]);
    }
    (!converted.losses.is_empty()).then(|| Section::new("Gateway API").table(table))
}
