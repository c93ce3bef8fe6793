//! Describes an experiment: what it does and claims, how long it takes, and what an arm starts. Pure; `holdfast lab show`,
//! `list` and `check` print it.

use crate::experiment::{Arm, Claim, Form, Order};
use crate::plan::{self, Content, Site, Staged};
use crate::{Experiment, Loaded};
use ::report::text::printable;
use ::report::{Document, Section, Severity, Table};
use std::fmt::Write as _;
use std::path::Path;

/// What the experiment does and claims.
pub fn document(experiment: &Experiment) -> Document {
    let method = experiment.method;
    let order = match method.order {
        Order::Mirrored => "forward in one round, backward in the next",
        Order::Random => "drawn anew for each round from the seed",
    };
    let mut about = Section::new("About");
    for paragraph in experiment.about.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        about = about.note(Severity::Note, paragraph.replace('\n', " "));
    }
    let mut arms = Table::new("Arms", &["arm", "differs in"]);
    for arm in &experiment.arms {
        arms = arms.row(vec![arm.name.clone().into(), difference(arm).into()]);
    }
    let mut processes = Table::new("Processes", &["process", "host", "program"]);
    for process in &experiment.processes {
        let host = experiment.host_of_process(process.host.as_deref()).unwrap_or_default();
        processes = processes.row(vec![process.name.clone().into(), host.into(), process.program.clone().into()]);
    }
    for load in experiment.fills.iter().chain(&experiment.loads) {
        let host = experiment.host_of_load(load.host.as_deref()).unwrap_or_default();
        let program = format!("{:?}", load.program).to_lowercase();
        let program = format!("{program} {}", load.arguments.join(" "));
        processes = processes.row(vec![load.name().to_owned().into(), host.into(), program.into()]);
    }
    let mut claims = Table::new("Claims", &["claim", "figure", "bound"]);
    for claim in &experiment.claims {
        claims = claims.row(vec![claim.says.clone().into(), claim.figure.clone().into(), bound(claim).into()]);
    }
    titled(&experiment.title)
        .fact("name", experiment.name.clone())
        .fact("rounds", format!("{}, and up to {} for void ones, arms {order}", method.rounds, method.spare))
        .fact("takes", takes(experiment))
        .section(about)
        .section(swept(experiment, Section::new("What is compared").table(arms).table(processes)))
        .section(Section::new("What is claimed").table(claims))
}

/// Adds the conditions of a sweep, if there are several.
fn swept(experiment: &Experiment, section: Section) -> Section {
    if experiment.sweep.is_empty() {
        return section;
    }
    let mut table = Table::new("Each combination of these is a run of its own", &["value", "takes"]);
    for (name, values) in &experiment.sweep {
        table = table.row(vec![name.clone().into(), values.join(", ").into()]);
    }
    section.table(table)
}

/// How an arm differs from the others, in the words of the file.
fn difference(arm: &Arm) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(arm.without.iter().map(|name| format!("no {name}")));
    parts.extend(arm.programs.iter().map(|(process, program)| format!("{process} is {program}")));
    parts.extend(arm.clients.iter().map(|(load, client)| format!("{load} is {client:?}").to_lowercase()));
    let arguments = arm.process_arguments.iter();
    parts.extend(arguments.map(|(process, words)| format!("{process} with {}", words.join(" "))));
    parts.extend(arm.confs.iter().map(|(process, conf)| format!("{process} reads {conf}")));
    parts.extend(arm.values.iter().map(|(name, value)| format!("{name} = \"{}\"", value.replace('\n', " "))));
    let sysctls = arm.sysctls.iter();
    let sysctls = sysctls.flat_map(|(host, settings)| settings.iter().map(move |(name, value)| (host, name, value)));
    parts.extend(sysctls.map(|(host, name, value)| format!("{name} = {value} on {host}")));
    parts.extend(arm.descriptors.iter().map(|(process, limit)| format!("{limit} descriptors for {process}")));
    parts.extend(arm.url.iter().map(|url| format!("asks {url}")));
    parts.extend((!arm.arguments.is_empty()).then(|| format!("load with {}", arm.arguments.join(" "))));
    printable(&parts.join("; "))
}

fn bound(claim: &Claim) -> String {
    let between = match &claim.against {
        Some(against) => format!("{} against {against}: ", claim.of),
        None => format!("{}: ", claim.of),
    };
    let said = [
        ("at least", "×", claim.times_at_least),
        ("at most", "×", claim.times_at_most),
        ("at least", "+", claim.more_at_least),
        ("at most", "+", claim.more_at_most),
        ("at least", "", claim.value_at_least),
        ("at most", "", claim.value_at_most),
    ];
    let said = said.into_iter().filter_map(|(which, sign, bound)| Some(format!("{which} {sign}{}", bound?)));
    let shown = if claim.observed { " (shown, not claimed)" } else { "" };
    let only = if claim.only == Some(Form::Full) { " (not with --quick)" } else { "" };
    format!("{between}{}{shown}{only}", said.collect::<Vec<_>>().join(", "))
}

/// A document of the lab without sections.
pub fn titled(title: &str) -> Document {
    Document::new(title, &format!("holdfast lab {}", env!("CARGO_PKG_VERSION")))
}

/// The approximate length of a run.
pub fn takes(experiment: &Experiment) -> String {
    /// Creating the network, starting and ending processes: 0.3 s for one process on one host, 0.6 s for a chain of four
    /// hosts, on an otherwise idle machine of two cores.
    const BESIDE_S: f64 = 0.5;
    let samples = f64::from(experiment.method.rounds) * experiment.arms.len() as f64 * experiment.cell_count() as f64;
    let seconds = (experiment.seconds_per_sample() + BESIDE_S) * samples;
    let counted = experiment.loads.iter().chain(&experiment.fills).any(|load| load.requests.is_some());
    let more = if counted { " and its requests" } else { "" };
    if seconds < 120.0 { format!("{seconds:.0} s{more}") } else { format!("{:.0} min{more}", seconds / 60.0) }
}

/// Every command line and file of an arm. The error lists everything that prevents its start.
pub fn started(loaded: &Loaded, arm: &str) -> Result<String, String> {
    let Loaded { experiment, places } = loaded;
    // For a sweep, the first combination.
    let cells = experiment.cells();
    let experiment = cells.first().unwrap_or(experiment);
    let site = Site { folder: Path::new("/sample"), network: experiment.network.kind, places };
    let staged: Staged = plan::staged(experiment, arm, site).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        faults.join("\n")
    })?;
    let mut text = String::new();
    for host in &staged.hosts {
        let addresses: Vec<String> = host.addresses.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "# host {}: {}", host.name, addresses.join(", "));
        for (name, value) in &host.sysctls {
            let _ = writeln!(text, "#   {name} = {value}");
        }
    }
    for process in &staged.processes {
        let _ = writeln!(text, "\n# process {} on {}, {}", process.name, process.host, process.place);
        let conf = process.conf.as_ref().map(|conf| format!(" [{}]", conf.display())).unwrap_or_default();
        let _ = writeln!(text, "{:?}{conf} {}", process.program, process.arguments.join(" "));
        add_files(&mut text, &process.files);
    }
    for load in staged.fills.iter().chain(&staged.loads) {
        let _ = writeln!(text, "\n# load {} on {}, {}", load.name, load.host, load.place);
        let _ = writeln!(text, "{:?} {} {}", load.program, load.arguments.join(" "), load.url);
        add_files(&mut text, &load.files);
    }
    Ok(text)
}

fn add_files(text: &mut String, files: &[plan::StagedFile]) {
    for file in files {
        let _ = writeln!(text, "\n## {}", file.path.display());
        let _ = match &file.content {
            Content::Text(content) => writeln!(text, "{}", content.trim_end()),
            Content::Fill(bytes) => writeln!(text, "({bytes} × x)"),
        };
    }
}
