//! `cargo xtask tidy`: layout rules that neither rustc nor clippy has. One file per rule, each with its fixtures.
//!
//! A rule checks one thing and returns findings; this file reads the sources once and prints the findings.

mod banned_names;
mod bare_ignore;
mod catalogue_rows;
mod direction;
mod doc_examples;
mod exceptions;
mod file_header;
mod file_length;
mod function_length;
mod layer_methods;
mod layers;
mod links;
mod one_name;
mod plain_words;
mod profiles;
pub(crate) mod source;
mod test_programs;
mod unsafe_code;
mod wall_clock;
mod workplace_paths;

use crate::metadata;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

/// Options of `cargo xtask tidy`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Lower or remove the exceptions that have become too large, and change nothing else.
    #[arg(long)]
    shrink: bool,
}

/// One violation, printed as `path:line: [rule] what is wrong and what to do instead`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.path, self.line, self.rule, self.text)
    }
}

/// Runs the task.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let files = source::tracked_files(workspace)?;
    let mut findings = direction::check(&metadata::packages(workspace)?);
    let mut measures = Vec::new();
    let mut types = Vec::new();
    let mut methods = layer_methods::Methods::default();
    let mut documents = BTreeMap::new();
    let mut examples = doc_examples::Examples::default();
    let mut catalogue = catalogue_rows::Catalogue::read(workspace)?;
    for path in &files {
        // A deleted file is listed until the deletion is committed.
        let Ok(bytes) = std::fs::read(workspace.root.join(path)) else { continue };
        findings.extend(workplace_paths::check(path, &bytes));
        let kind = Path::new(path).extension().and_then(OsStr::to_str);
        if !matches!(kind, Some("rs" | "md" | "toml" | "conf" | "sh")) {
            continue;
        }
        // Configurations that tests feed to the parser may contain any bytes.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if matches!(kind, Some("toml" | "conf" | "sh")) {
            findings.extend(plain_words::check_comments(path, &text));
            if path == "Cargo.toml" {
                findings.extend(profiles::check(path, &text)?);
            }
            examples.note_manifest(path, &text);
            continue;
        }
        if kind == Some("md") {
            findings.extend(plain_words::check_document(path, &text));
            documents.insert(path.clone(), text);
            continue;
        }
        let source = Source::parse(path, text)?;
        findings.extend(check_source(&source));
        findings.extend(catalogue.check(&source));
        types.extend(one_name::collect(&source));
        methods.note(&source);
        examples.note_source(&source);
        measures.extend(file_length::measure(&source));
        measures.extend(function_length::measure(&source));
    }

    findings.extend(catalogue.check_tests());
    findings.extend(one_name::check(types));
    findings.extend(methods.check());
    findings.extend(examples.check());
    findings.extend(links::check(&documents, &files.iter().cloned().collect::<BTreeSet<String>>()));

    let file = workspace.root.join(exceptions::FILE);
    let listed = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", exceptions::FILE))?;
    if args.shrink {
        return Ok(std::fs::write(&file, exceptions::shrink(&listed, &measures)?)?);
    }
    findings.extend(exceptions::check(&listed, &measures)?);

    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    println!("tidy: {} files, no findings", files.len());
    Ok(())
}

/// The rules that need one source file only.
fn check_source(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(file_header::check(source));
    findings.extend(bare_ignore::check(source));
    findings.extend(unsafe_code::check(source));
    findings.extend(wall_clock::check(source));
    findings.extend(banned_names::check(source));
    findings.extend(layers::check(source));
    findings.extend(plain_words::check(source));
    findings.extend(test_programs::check(source));
    findings
}
