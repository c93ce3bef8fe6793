//! `holdfast doctor diff`: the differences in effect between two configurations, or of one configuration under two
//! programs. The comparison is in `doctor::compare`.

use super::{configuration, named, target};
use crate::exit;
use crate::output::Output;
use ::doctor::Dialect;
use ::doctor::compare::{Side, compare, refused};
use report::{Document, Section, Severity, Table};
use std::path::PathBuf;

/// Show how two configurations differ in effect, or how two programs read one.
///
/// Compares the effective value of each directive in each block: written, inherited, or the program's default. `holdfast doctor
/// diff --target nginx-1.26 --against nginx-1.30 nginx.conf` shows what an upgrade changes.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit codes: 0 no difference; 3 a difference; 1 a file cannot be read; 2 wrong command line."
)]
pub(crate) struct Args {
    /// The configuration.
    #[arg(value_name = "A")]
    first: PathBuf,
    /// The other configuration; default: the same file.
    #[arg(value_name = "B", required_unless_present = "against")]
    second: Option<PathBuf>,
    /// The program that reads the first, such as nginx-1.26 or holdfast. Default: as for `doctor`.
    #[arg(long, value_name = "PROGRAM")]
    target: Option<Dialect>,
    /// The program that reads the second; default: that of the first.
    #[arg(long, value_name = "PROGRAM")]
    against: Option<Dialect>,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> u8 {
    match answer(args) {
        Ok(0) => exit::OK,
        Ok(_) => exit::NO,
        Err(message) => {
            crate::report::say(message.trim_end());
            exit::FAILED
        }
    }
}

/// Returns the number of differences.
fn answer(args: &Args) -> Result<usize, String> {
    let second = args.second.as_ref().unwrap_or(&args.first);
    let (left, right) = (configuration(&args.first)?, configuration(second)?);
    let target = target::find(args.target, Some(&left), None);
    let a = Side { configuration: &left, dialect: target.dialect };
    let b = Side { configuration: &right, dialect: args.against.unwrap_or(target.dialect) };
    let differences = compare(a, b);
    let names =
        [(&args.first, a), (second, b)].map(|(path, side)| format!("{} ({})", path.display(), side.dialect.name()));
    let [first, other] = &names;
    let title = match differences.len() {
        0 => format!("Nothing differs between {first} and {other}"),
        1 => format!("1 difference between {first} and {other}"),
        count => format!("{count} differences between {first} and {other}"),
    };
    let made_by = format!("holdfast doctor {}", env!("CARGO_PKG_VERSION"));
    let mut document = Document::new(&title, &made_by);
    if !differences.is_empty() {
        let mut table = Table::new("What counts", &["where", "setting", first, other]);
        for it in &differences {
            let cells = [&it.place, &it.setting, &it.before, &it.after];
            table = table.row(cells.into_iter().map(|text| text.as_str().into()).collect());
        }
        document = document.section(Section::new("Differences").table(table));
    }
    let mut lacking = 0;
    let (in_first, in_second) = (refused(a), refused(b));
    for (name, these, those) in [(first, &in_first, &in_second), (other, &in_second, &in_first)] {
        let only: Vec<_> = these.iter().filter(|it| !those.contains(it)).collect();
        lacking += only.len();
        if only.is_empty() {
            continue;
        }
        let mut section = Section::new(&format!("Only {name} lacks"));
        for (directive, what) in only {
            let severity = if what.starts_with("refused") { Severity::Error } else { Severity::Note };
            section = section.note(severity, format!("{directive}: {what}"));
        }
        document = document.section(section);
    }
    args.output.emit(&document).map_err(|error| named(&error))?;
    Ok(differences.len() + lacking)
}
