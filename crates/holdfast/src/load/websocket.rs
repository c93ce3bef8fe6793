//! `holdfast load ws://…`, `tcp://… --hold` and `http://… --sse`: runs and reports a load of held connections like any other load. The load
//! itself is in `load::websocket`.

use super::Ended;
use super::args::LoadArgs;
use super::{exit, refuse};
use crate::report::print;
use load::Verdict;
use load::drive::{self, Progress};
use load::results::websocket::WebSocketResults;
use load::websocket::{Held, WebSocketExpectation, WebSocketOptions};
use terminal::Terminal;

pub(super) fn run(args: &LoadArgs) -> u8 {
    let asked = args.websocket_options().and_then(|options| {
        let parse = |text: &String| text.parse::<WebSocketExpectation>().map_err(|error| format!("--expect: {error}"));
        Ok((options, args.expect.iter().map(parse).collect::<Result<Vec<_>, _>>()?))
    });
    match asked {
        Ok((options, expect)) => {
            execute(&options, &expect, args).unwrap_or_else(|message| refuse(&message, exit::FAILED))
        }
        Err(message) => refuse(&message, exit::USAGE),
    }
}

fn execute(options: &WebSocketOptions, expect: &[WebSocketExpectation], args: &LoadArgs) -> Result<u8, String> {
    let files = args.files.files();
    let baseline = args.baseline.read()?;
    files.check()?;
    // Without the live view if JSON goes to standard output, because it would overwrite the view.
    let live = !args.plain && !args.quiet && Terminal::is_there() && !files.json_on_stdout();
    let progress = Progress { quiet: args.quiet, live, sockets: args.looks_at_sockets() };
    let driven = drive::websocket(options, super::part, progress, &files)?;
    let (summary, rows) = (&driven.summary, driven.rows());
    let health = summary.health();
    let mut verdicts: Vec<Verdict> = expect.iter().map(|expectation| expectation.judge(summary, &health)).collect();
    let sockets = driven.sockets.as_ref();
    if let Some(baseline) = &baseline {
        let results = WebSocketResults { summary, health: &health, verdicts: &verdicts, rows, sockets };
        verdicts.extend(baseline.judge(&results)?);
    }
    let results = WebSocketResults { summary, health: &health, verdicts: &verdicts, rows, sockets };
    let written = files.after(&results) && driven.written;
    if !files.json_on_stdout() {
        print(results.text().as_bytes());
    }
    let ended = Ended {
        failure: summary.failure.as_deref(),
        nothing: (summary.record.established == 0 && !summary.stopped).then_some(match options.held() {
            Held::Tcp => "no connection was opened",
            Held::WebSocket => "no WebSocket was opened",
            Held::Events => "no event stream was opened",
        }),
        is_void: !health.void.is_empty(),
        verdicts: &verdicts,
        written,
    };
    Ok(ended.code(args.allow_lag))
}
