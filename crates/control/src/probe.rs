//! One check of one peer: a new connection, a request, and the response, within the check's time limit. The gateway's
//! `CheckTalk` decides whether the response is good. The connection is not used for anything else.

use crate::wire::Wire;
use gateway::checks::{CheckResult, CheckTalk, Finding, Probe};
use gateway::errno;
use reactor::{PeerAddress, is_shortage};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout_at};

const CONNECTING: &str = "connecting to upstream";
const HANDSHAKING: &str = "SSL handshaking to upstream";
const SENDING: &str = "sending request to upstream";

/// The deadline of a check.
#[derive(Debug, Clone, Copy)]
struct Limit {
    timeout: Duration,
    until: Instant,
}

impl Limit {
    /// Runs a step of the check. `Err`: the time is over.
    async fn step<T>(self, phase: &'static str, step: impl Future<Output = T>) -> Result<T, CheckResult> {
        timeout_at(self.until, step).await.map_err(|_| {
            let waited = self.timeout.as_secs_f64();
            CheckResult::new(Finding::TimedOut, phase, format!("upstream timed out, {waited} s for the whole check"))
        })
    }
}

/// Makes a check.
pub(crate) async fn ask(probe: &Probe) -> CheckResult {
    let timeout = probe.plan.timeout;
    // A time limit beyond the clock's range counts as a day.
    let until = Instant::now().checked_add(timeout).unwrap_or_else(|| Instant::now() + Duration::from_hours(24));
    talk(probe, Limit { timeout, until }).await.unwrap_or_else(|timed_out| timed_out)
}

async fn talk(probe: &Probe, limit: Limit) -> Result<CheckResult, CheckResult> {
    match &probe.address {
        PeerAddress::Ip(address) => match limit.step(CONNECTING, TcpStream::connect(address)).await? {
            Ok(stream) => converse(stream, probe, limit).await,
            Err(error) => Ok(not_connected(&error)),
        },
        PeerAddress::Unix(path) => match limit.step(CONNECTING, UnixStream::connect(path)).await? {
            Ok(stream) => converse(stream, probe, limit).await,
            Err(error) => Ok(not_connected(&error)),
        },
    }
}

/// A lack of descriptors or ports on our side is not the peer's failure.
fn not_connected(error: &io::Error) -> CheckResult {
    let is_ours = is_shortage(error) || error.kind() == io::ErrorKind::AddrNotAvailable;
    let finding = if is_ours { Finding::NotMade } else { Finding::Connect };
    CheckResult::new(finding, CONNECTING, format!("connect() failed ({})", errno(error)))
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    probe: &Probe,
    limit: Limit,
) -> Result<CheckResult, CheckResult> {
    let mut wire = match &probe.plan.tls {
        None => Wire::plain(stream),
        Some(tls) => {
            let peer = probe.address.to_string();
            match limit.step(HANDSHAKING, Wire::secure(stream, tls, &peer)).await? {
                Ok(wire) => wire,
                Err(phrase) => return Ok(CheckResult::new(Finding::Connect, HANDSHAKING, phrase)),
            }
        }
    };
    let Some(mut talk) = CheckTalk::begin(&probe.plan) else {
        return Ok(CheckResult::new(Finding::Passed, CONNECTING, ""));
    };
    let sent = limit.step(SENDING, wire.send(&talk.take_output())).await?;
    // A peer may answer before it has read the whole request; its answer decides.
    read_answer(wire, talk, sent.err(), limit).await
}

async fn read_answer(
    mut wire: Wire<impl AsyncRead + AsyncWrite + Unpin>,
    mut talk: CheckTalk<'_>,
    mut unsent: Option<io::Error>,
    limit: Limit,
) -> Result<CheckResult, CheckResult> {
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match limit.step(talk.phase(), wire.read(&mut buffer)).await? {
            Ok(()) if buffer.is_empty() => return Ok(talk.end()),
            Ok(()) => {
                if let Some(result) = talk.take(&buffer) {
                    return Ok(result);
                }
                let more = talk.take_output();
                if !more.is_empty() && unsent.is_none() {
                    unsent = limit.step(SENDING, wire.send(&more)).await?.err();
                }
            }
            Err(error) => {
                let (phase, detail) = match unsent {
                    Some(unsent) => (SENDING, format!("send() failed ({})", errno(&unsent))),
                    None => (talk.phase(), format!("recv() failed ({})", errno(&error))),
                };
                return Ok(CheckResult::new(Finding::Broken, phase, detail));
            }
        }
    }
}
