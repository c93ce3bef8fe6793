//! `holdfast migrate kubernetes`: reads manifests, or a cluster by kubectl, and reports for each Ingress what works
//! unchanged, what differs and what is refused; writes equivalent objects of the Gateway API. The analysis and its report
//! are in the crate `ingress`.

use crate::exit;
use crate::output::Output;
use ingress::migrate::gateway_api::{self, Converted};
use ingress::migrate::manifests::FILE_BYTES_MAX;
use ingress::migrate::{Analysis, Manifests, Wanted, Written, analyse, document};
use ingress::{Kind, Name};
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
    let written = converted.as_ref().zip(args.gateway_api.as_deref());
    let written = written.map(|(converted, file)| Written { converted, file });
    let made_by = format!("holdfast migrate kubernetes {}", env!("CARGO_PKG_VERSION"));
    let document = document(&manifests, &analysis, written, &args.class, &made_by);
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
