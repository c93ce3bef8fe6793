//! `holdfast explain`: says what the gateway does with one request, without serving. It opens no connection, binds no
//! port and writes no file. `gateway::explain` runs the phases; this module reads the command line and prints.

mod hosts;
mod text;

pub(crate) use hosts::HostsFile;

use crate::instance::{Instance, Wanted};
use crate::output::JsonFlag;
use crate::verdict::{Lasting, prepare};
use crate::{exit, report};
use ::gateway::explain::{ExplainedRequest, Explanation, explain};
use std::io::{self, IsTerminal as _};
use std::net::IpAddr;
use std::path::PathBuf;

/// Explain what the gateway does with a request
///
/// Says which server and location serve it and why, and lists rewrites, conditions, access rules and limits in their order. Then
/// it prints the answer, or the request that the upstream gets and how its peer is chosen. Each step names the directive's file
/// and line. Opens no connection, binds no port, writes no file.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit codes: 0 explained; 1 the configuration has an error; 2 wrong command line; 3 no listener takes the request."
)]
pub(crate) struct Args {
    /// The URL, such as `https://example.com/path?x=1`
    url: String,
    /// Read this configuration
    #[arg(short = 'c', long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Take relative paths from here
    #[arg(short = 'p', long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// The method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// A header field, such as 'Cookie: id=1'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<String>,
    /// The client's address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    from: IpAddr,
    /// The listening address, such as `192.0.2.1:80` or `unix:/run/http.sock` [default: by the URL]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The length of the request's body
    #[arg(long, value_name = "BYTES", value_parser = crate::typed::bytes)]
    body_size: Option<u64>,
    #[command(flatten)]
    json: JsonFlag,
    /// List everything that was tried
    #[arg(long)]
    full: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> u8 {
    let question = match question(args) {
        Ok(question) => question,
        Err(message) => return fail(&message, exit::USAGE),
    };
    let mut lasting = match Lasting::offline(HostsFile::read()) {
        Ok(lasting) => lasting,
        Err(error) => return fail(&format!("eventfd() failed {}", report::errno(&error)), exit::FAILED),
    };
    let wanted = Wanted { conf_path: args.conf.clone(), prefix: args.prefix.clone(), ..Wanted::default() };
    let instance = Instance::find(&wanted);
    let mut prepared = prepare(&instance, &mut instance.loader(), &mut lasting);
    prepared.diagnostics.retain(|found| found.severity == conf::diagnostic::Severity::Error);
    let (Some(registry), Some(plan), true) = (lasting.existing(), &prepared.plan, prepared.is_ok()) else {
        report::diagnostics(&prepared);
        report::say(&conf::verdict::test_failed(&prepared.loaded.main));
        return exit::FAILED;
    };
    match explain(registry, &plan.generation, &prepared.loaded, &question) {
        Ok(mut explanation) => {
            let substitutes = lasting.hosts.iter().flat_map(HostsFile::substitutes);
            explanation.assumptions.extend(
                substitutes
                    .map(|(name, address)| format!("The name {name} is not looked up: {address} is used instead.")),
            );
            print(args, &explanation)
        }
        Err(message) => fail(&message, exit::NO),
    }
}

fn print(args: &Args, explanation: &Explanation) -> u8 {
    // The explanation has only text, numbers and lists, which JSON can hold.
    let json = || Ok(serde_json::to_string_pretty(explanation).unwrap_or_default() + "\n");
    let text = || text::render(explanation, args.full, report::colours(io::stdout().is_terminal()));
    match args.json.emit(json, text) {
        Ok(()) => exit::OK,
        Err(message) => fail(&message, exit::FAILED),
    }
}

fn fail(message: &str, code: u8) -> u8 {
    report::say(&format!("holdfast explain: {message}"));
    code
}

/// The request of the command line.
fn question(args: &Args) -> Result<ExplainedRequest, String> {
    let mut question = ExplainedRequest::new(&args.url)?;
    question.method.clone_from(&args.method);
    for header in &args.headers {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| format!("\"{header}\" has no colon; write a field as 'Name: value'"))?;
        let (name, value) = (name.to_owned(), value.trim().to_owned());
        if name.eq_ignore_ascii_case("host") {
            question.host = value;
        } else {
            question.fields.push((name, value));
        }
    }
    question.from = args.from;
    question.listener.clone_from(&args.listen);
    question.body_bytes = args.body_size;
    Ok(question)
}
