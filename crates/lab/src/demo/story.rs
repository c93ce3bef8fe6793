//! The report of the demo: the record's figures in tables that fit a terminal, and an explanation in words. Everything here
//! is computed from the record; `lab::report` writes the full report.

use crate::judge::{Judged, counted_word};
use crate::record::{Record, Sample};
use crate::report::arms::{Arm, Arms};
use ::report::figure::shown;
use ::report::{Cell, Document, Section, Severity, Table, Unit, Verdict};
use stats::Summary;
use stats::verdict::ROUNDS_MIN;

/// The process that is compared; its probe has the same name.
const PROXY: &str = "proxy";
/// The probe of the origin's port, to which the proxy connects.
const ORIGIN: &str = "origin";
/// The suffixes of the arm names without and with a pool, after the program.
const KINDS: [&str; 2] = ["unpooled", "pooled"];
/// The facts of the record's fingerprint that the demo shows.
const FACTS: [&str; 7] = [
    "processor",
    "kernel",
    "load average at the start",
    "network",
    "network instead of what was asked for, since",
    "nginx",
    "haproxy",
];

/// The document.
pub fn document(record: &Record, judged: &[Judged]) -> Document {
    let arms = Arms::of(record);
    let mut document = Document::new(
        "What a proxy costs, without and with a pool of connections to its origin",
        &format!("holdfast demo {}", env!("CARGO_PKG_VERSION")),
    );
    document.facts = facts(record);
    document.answer = answer(record, &arms);
    let (rate, time) = requests(&arms);
    let (cpu, busiest) = cpu(&arms);
    let figures = warned(record, &arms, Section::new("Figures")).table(rate).table(cpu);
    let more = Section::new("More figures").table(time).table(busiest);
    document
        .section(compared(record).folded())
        .section(figures)
        .section(more.folded())
        .section(connections(record, &arms).folded())
        .section(meaning(record, &arms, judged))
}

/// The answer in a sentence: how a pool changed the programs that ran both ways.
fn answer(record: &Record, arms: &Arms<'_>) -> Option<String> {
    let parts: Vec<String> = PROGRAMS
        .iter()
        .filter_map(|program| pair(arms, program))
        .filter_map(|(program, without, with)| {
            let median = |values: &[f64]| Summary::of(values).map(|summary| summary.median);
            let saved = median(&with.over(without, &format!("cpu_us_per_request.{PROXY}")))?;
            let faster = median(&with.over(without, "requests_per_second"))?;
            Some(format!(
                "{program} {:.0} % of the CPU per request and {faster:.2} times the requests/s",
                saved * 100.0
            ))
        })
        .collect();
    let rounds = counted_word(record.rounds() as usize, "round");
    (!parts.is_empty()).then(|| {
        format!("With a pool of connections to the origin, compared with none: {} ({rounds}).", parts.join("; "))
    })
}

/// The programs that are compared.
const PROGRAMS: [&str; 2] = ["nginx", "holdfast"];

/// The arms that continue if there is time for `fit` arms: all of them, all that have a proxy, or the two arms of one
/// program.
pub fn kept<'a>(arms: &[&'a str], fit: usize) -> Vec<&'a str> {
    if fit >= arms.len() {
        return arms.to_vec();
    }
    let proxied: Vec<&str> =
        arms.iter().copied().filter(|arm| PROGRAMS.iter().any(|program| arm.starts_with(program))).collect();
    if !proxied.is_empty() && fit >= proxied.len() {
        return proxied;
    }
    let of =
        |program: &&str| -> Vec<&'a str> { proxied.iter().copied().filter(|arm| arm.starts_with(*program)).collect() };
    PROGRAMS.iter().map(of).find(|pair| pair.len() == KINDS.len()).unwrap_or_else(|| arms.to_vec())
}

/// The arms that continue if some of them can get no verdict in the time: those of programs that keep both arms. If there
/// are none, all continue.
pub fn worth_running<'a>(arms: &[&'a str], hopeless: &[&str]) -> Vec<&'a str> {
    let kept: Vec<&str> = arms.iter().copied().filter(|arm| !hopeless.contains(arm)).collect();
    let is_of = |program: &str, arm: &str| KINDS.iter().any(|kind| arm == format!("{program} {kind}"));
    let is_whole = |program: &&str| kept.iter().filter(|arm| is_of(program, arm)).count() == KINDS.len();
    let (whole, broken): (Vec<&str>, Vec<&str>) = PROGRAMS.iter().copied().partition(|program| is_whole(program));
    if whole.is_empty() {
        return arms.to_vec();
    }
    kept.into_iter().filter(|arm| !broken.iter().any(|program| is_of(program, arm))).collect()
}

/// A program's arms without and with a pool.
fn pair<'s, 'a>(arms: &'s Arms<'a>, program: &'static str) -> Option<(&'static str, &'s Arm<'a>, &'s Arm<'a>)> {
    let find = |kind: &str| arms.iter().find(|arm| arm.name == format!("{program} {kind}"));
    let [unpooled, pooled] = KINDS.map(find);
    Some((program, unpooled?, pooled?))
}

fn facts(record: &Record) -> Vec<(String, String)> {
    let method = record.experiment.method;
    let requests = record.experiment.loads.iter().filter_map(|load| load.requests).sum::<u64>();
    let arguments = record.experiment.loads.iter().flat_map(|load| &load.arguments).cloned().collect::<Vec<_>>();
    let method = format!(
        "at most {} of all arms, there and back; per sample all servers start afresh, {} s warm-up, then {} for a \
         page of 612 bytes by `holdfast load {} --no-keepalive`: each over a connection of its own",
        counted_word(method.rounds as usize, "round"),
        method.warm_up,
        counted_word(requests as usize, "request"),
        arguments.join(" "),
    );
    let known = |name: &&str| record.fingerprint.iter().find(|(known, _)| known == name).cloned();
    let mut facts: Vec<(String, String)> = FACTS.iter().filter_map(known).collect();
    facts.push(("method".to_owned(), method));
    facts.push((
        "figures".to_owned(),
        format!("median [least–most] of {}", counted_word(record.rounds() as usize, "round")),
    ));
    facts
}

/// Compares the arms in a table.
fn compared(record: &Record) -> Section {
    let experiment = &record.experiment;
    let mut section = Section::new("What is compared");
    for arm in &experiment.arms {
        let said = |name: &str| arm.values.get(name).or_else(|| experiment.values.get(name)).map(String::as_str);
        let words: Vec<&str> =
            ["group", "reuse"].into_iter().filter_map(said).filter(|text| !text.is_empty()).collect();
        let program = arm.programs.get(PROXY).map(String::as_str);
        let process = experiment.processes.iter().find(|process| process.name == PROXY);
        let program = program.or_else(|| process.map(|process| process.program.as_str())).unwrap_or(PROXY);
        let what = if arm.without.iter().any(|name| name == PROXY) {
            "client -> origin".to_owned()
        } else {
            format!("client -> {program} -> origin, with `{}`", words.join(" "))
        };
        section = section.note(Severity::Note, format!("{}: {what}", arm.name));
    }
    section
}

/// Adds what is missing: absent arms with the reason, rounds, samples.
fn warned(record: &Record, arms: &Arms<'_>, mut section: Section) -> Section {
    for (arm, reason) in &record.absent {
        section = section.note(Severity::Warning, format!("arm \"{arm}\" is absent: {reason}"));
    }
    if let Some(partial) = &record.partial {
        section =
            section.note(Severity::Warning, format!("This is partial: {partial}. What follows is what there is."));
    }
    for arm in arms.iter() {
        if let Some((_, reason)) = arm.void.first() {
            let (void, all) = (arm.void.len(), arm.void.len() + arm.samples.len());
            let what = format!("{}: {void} of {all} samples count for nothing. {reason}", arm.name);
            section = section.note(Severity::Warning, what);
        }
    }
    section
}

fn requests(arms: &Arms<'_>) -> (Table, Table) {
    let mut rate = Table::new("How much", &["arm", "requests/s", "of direct, %", "bottleneck"]);
    let mut time = Table::new("How long a request takes", &["arm", "mean, ms", "p99, ms", "requests", "failed"]);
    let direct = arms.as_slice().first();
    for arm in arms.iter() {
        let of_direct = direct.map(|direct| arm.over(direct, "requests_per_second")).unwrap_or_default();
        rate = rate.row(vec![
            arm.name.into(),
            spread(&arm.values("requests_per_second"), 1.0),
            spread(&of_direct, 100.0),
            arm.bottleneck().unwrap_or_else(|| "none".to_owned()).into(),
        ]);
        let sum = |figure: &str| digits(arm.values(figure).iter().sum());
        time = time.row(vec![
            arm.name.into(),
            spread(&arm.values("latency_ms.mean"), 1.0),
            spread(&arm.values("latency_ms.p99"), 1.0),
            sum("requests").into(),
            sum("failed").into(),
        ]);
    }
    (rate, time)
}

fn cpu(arms: &Arms<'_>) -> (Table, Table) {
    let busiest = "Time that the busiest thread of each ran or waited for a core, %";
    (
        by_process("CPU of each process, µs per request", "cpu_us_per_request", 1.0, arms),
        by_process(busiest, "busiest", 100.0, arms),
    )
}

fn by_process(title: &str, figure: &str, factor: f64, arms: &Arms<'_>) -> Table {
    let processes = arms.processes();
    let mut table = Table::new(title, &["arm"]);
    table.columns.extend(processes.iter().map(|name| (*name).to_owned()));
    for arm in arms.iter() {
        let cells = processes.iter().map(|process| spread(&arm.values(&format!("{figure}.{process}")), factor));
        table = table.row([arm.name.into()].into_iter().chain(cells).collect());
    }
    table
}

fn connections(record: &Record, arms: &Arms<'_>) -> Section {
    let mut opened = Table::new("Opened per request", &["arm", "by the client", "by the proxy"]);
    for arm in arms.iter() {
        let cells = [by_client, by_proxy].map(|of| spread(&computed(arm, of), 1.0));
        opened = opened.row([arm.name.into()].into_iter().chain(cells).collect());
    }
    let note = "Who closes first keeps the socket in TIME_WAIT. At each port the last column is how many of the sockets in TIME_WAIT \
                is the port's own side: 100 says that it always closed first, 0 that the other side did.";
    let mut section = Section::new("Connections").table(opened).note(Severity::Note, note);
    let ports = record.experiment.probes.iter().filter_map(|probe| match probe {
        crate::experiment::Probe::Port { name, .. } => Some(name),
        _ => None,
    });
    for port in ports {
        let title = format!("Sockets at the {port}'s port, both ends counted, mean over the load");
        let states = ["ESTABLISHED", "TIME_WAIT"];
        let closed_first = format!("of TIME_WAIT the {port}'s, %");
        let mut table = Table::new(&title, &["arm", "ESTABLISHED", "TIME_WAIT", "all others", &closed_first]);
        for arm in arms.iter() {
            let of = |sample: &Sample, name: &str| sample.figures.get(&format!("sockets.{port}{name}.net")).copied();
            let [established, time_wait] = states.map(|state| computed(arm, |sample| of(sample, &format!(".{state}"))));
            let others = computed(arm, |sample| {
                let known = states.iter().filter_map(|state| of(sample, &format!(".{state}"))).sum::<f64>();
                Some((of(sample, "")? - known).max(0.0))
            });
            let first = spread(&computed(arm, |sample| closed_first_share(sample, port)), 100.0);
            let cells = [established, time_wait, others].map(|values| spread(&values, 1.0));
            table = table.row([arm.name.into()].into_iter().chain(cells).chain([first]).collect());
        }
        section = section.table(table);
    }
    section
}

/// Connections that the client opened per request.
fn by_client(sample: &Sample) -> Option<f64> {
    per_request(sample, *sample.figures.get("client.connections_opened")?)
}

/// Connections that the proxy opened per request: those opened on the whole host, less the client's. `None` without a
/// proxy.
fn by_proxy(sample: &Sample) -> Option<f64> {
    sample.figures.get(&format!("cpu_us_per_request.{PROXY}"))?;
    let all = sample.figures.get("tcp.here.Tcp.ActiveOpens")?;
    per_request(sample, all - sample.figures.get("client.connections_opened")?)
}

/// With fewer sockets it is not clear who closed first.
const CLOSED_MIN: f64 = 10.0;

/// The share of the sockets in TIME_WAIT at a port that belong to the side that listens there, which closed first. `None`
/// if there are too few sockets.
fn closed_first_share(sample: &Sample, port: &str) -> Option<f64> {
    let of = |name: &str| sample.figures.get(name).copied();
    let all = of(&format!("sockets.{port}.TIME_WAIT.end")).filter(|all| *all >= CLOSED_MIN)?;
    Some((of(&format!("closed_first.{port}.end"))? / all).clamp(0.0, 1.0))
}

fn per_request(sample: &Sample, count: f64) -> Option<f64> {
    let requests = sample.figures.get("requests").copied().filter(|requests| *requests > 0.0)?;
    Some((count / requests).max(0.0))
}

/// The explanation: the result in words, the claims, and what the figures do not show.
fn meaning(record: &Record, arms: &Arms<'_>, judged: &[Judged]) -> Section {
    let mut section = Section::new("What it means");
    let find = |name: &str| arms.iter().find(|arm| arm.name == name);
    let pairs = PROGRAMS.iter().filter_map(|program| pair(arms, program));
    for sentence in pairs.filter_map(|(program, without, with)| in_words(program, without, with)) {
        section = section.note(Severity::Note, sentence);
    }
    let few: Vec<&str> =
        arms.iter().filter(|arm| arm.samples.len() + arm.void.len() < ROUNDS_MIN).map(|arm| arm.name).collect();
    if !few.is_empty() && few.len() < arms.as_slice().len() {
        let what = format!(
            "Not run in every round, so that the others have the {ROUNDS_MIN} rounds of a verdict in the time: {}.",
            few.join(", ")
        );
        section = section.note(Severity::Note, what);
    }
    if (record.rounds() as usize) < ROUNDS_MIN {
        let few = counted_word(record.rounds() as usize, "round");
        let what =
            format!("Too few for verdicts: {few}, where {ROUNDS_MIN} are needed. These are figures, and no more.");
        section = section.note(Severity::Warning, what);
    } else {
        let was_run = |name: &String| find(name).is_some() && !few.contains(&name.as_str());
        let is_answered = |one: &&Judged| one.asked && was_run(&one.claim.of) && one.claim.against.iter().all(was_run);
        let about_these = judged.iter().filter(is_answered);
        // The reason contains the numbers; the evidence is only in the full report.
        let short = |one: &Judged| Verdict { evidence: Vec::new(), ..one.verdict.clone() };
        section = about_these.fold(section, |section, one| section.verdict(short(one)));
    }
    let client = arms.iter().filter(|arm| arm.bottleneck().is_some_and(|who| who.contains("client")));
    let names: Vec<&str> = client.map(|arm| arm.name).collect();
    let client = match names.as_slice() {
        [] => String::new(),
        names => format!(
            " The client was a bottleneck of {}: requests/s there are the client's as much as the server's.",
            names.join(", ")
        ),
    };
    let shared = match cores(record) {
        Some(1) => {
            "client, proxy and origin have one core together, on which each waits for the others: requests/s say what all three cost, \
             and how fast none of them is by itself."
        }
        _ => "client, proxy and origin take these cores from each other.",
    };
    let care = format!(
        "Read it with care: {shared}{client} CPU per request of the proxy is what tells, and what travels to another machine."
    );
    section = section.note(Severity::Note, care);
    let held = "TIME_WAIT stays for a minute at the end that closed first, and each holds a port towards its destination; here the \
                kernel hands such a port out again (tcp_tw_reuse on loopback), between machines it does not: `holdfast plan` has the \
                sums, `holdfast watch` shows them on a live system.";
    let more = "The same with HAProxy, 100,000 requests, clients that keep their connections, a record and a page with charts: \
                `holdfast lab run pool-throughput`.";
    section.note(Severity::Note, held).note(Severity::Note, more)
}

/// Number of cores that the demo could use, if the record says so (`2 × Xeon`).
fn cores(record: &Record) -> Option<u32> {
    let (_, processor) = record.fingerprint.iter().find(|(name, _)| name == "processor")?;
    processor.split_once(" × ")?.0.parse().ok()
}

/// How the pool changed one program.
fn in_words(program: &str, without: &Arm<'_>, with: &Arm<'_>) -> Option<String> {
    let median = |values: &[f64]| Summary::of(values).map(|summary| summary.median);
    let cpu = format!("cpu_us_per_request.{PROXY}");
    let [opened_without, opened_with] = [without, with].map(|arm| median(&computed(arm, by_proxy)));
    let [cpu_without, cpu_with] = [without, with].map(|arm| arm.median(&cpu));
    let saved = median(&with.over(without, &cpu))?;
    let faster = median(&with.over(without, "requests_per_second"))?;
    let closed = median(&computed(without, |sample| closed_first_share(sample, ORIGIN)));
    Some(format!(
        "Without a pool {program} opened {}, and used {} µs of CPU per request; with a pool it opened {}, and used {} µs, \
         which is {:.0} % of that. The client got {:.2} times the requests/s.{}",
        connections_to_origin(opened_without?),
        digits(cpu_without?),
        connections_to_origin(opened_with?),
        digits(cpu_with?),
        saved * 100.0,
        faster,
        closed.map(|share| closed_first_sentence(program, share)).unwrap_or_default(),
    ))
}

/// Formats the number of connections to the origin per request.
fn connections_to_origin(per_request: f64) -> String {
    match digits(per_request).as_str() {
        "0" => "no connection to the origin".to_owned(),
        "1" => "a connection to the origin for each request".to_owned(),
        count => format!("{count} connections to the origin per request"),
    }
}

/// One side counts as closing first from this share on.
const ONE_SIDE: f64 = 0.9;

/// Who has the sockets in TIME_WAIT at the origin's port without a pool, and whether they hold the proxy's ports.
fn closed_first_sentence(program: &str, share_of_origin: f64) -> String {
    let part = |share: f64| format!("{:.0} % of what is left in TIME_WAIT", share * 100.0);
    if share_of_origin >= ONE_SIDE {
        let part = part(share_of_origin);
        format!(
            " Without a pool the origin closed first ({part} at its port is its own), so that no port of {program} is held."
        )
    } else if share_of_origin <= 1.0 - ONE_SIDE {
        let part = part(1.0 - share_of_origin);
        format!(
            " Without a pool {program} closed first ({part} at the origin's port), and each of these holds one of its ports."
        )
    } else {
        let part = part(share_of_origin);
        format!(
            " Without a pool now the origin closed first ({part} at its port is its own), now {program}, or both at the same time."
        )
    }
}

fn computed(arm: &Arm<'_>, of: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
    arm.samples.iter().filter_map(|sample| of(sample)).collect()
}

/// `median [least–most]`, each multiplied by `factor`, or only the median if all look the same. The head of the report has
/// the count.
fn spread(values: &[f64], factor: f64) -> Cell {
    let values: Vec<f64> = values.iter().map(|value| value * factor).collect();
    let Some(Summary { median, min, max, .. }) = Summary::of(&values) else { return "–".into() };
    let [median, min, max] = [median, min, max].map(digits);
    if min == max { median.into() } else { format!("{median} [{min}–{max}]").into() }
}

fn digits(value: f64) -> String {
    shown(value, &Unit::of(""))
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;
