//! Keeps the OCSP responses for stapling fresh: fetched at start, refreshed before they expire, removed when they have
//! expired. A handshake never waits for them; without a response nothing is stapled.

use crate::ocsp::{Dialers, ask, now_seconds, place};
use gateway::ocsp::StapleAsk;
use gateway::{Level, Registry};
use hyper::body::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tls::{CertStatus, StatusAnswer};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Most questions in progress: sites with thousands of certificates have one authority.
const AT_ONCE: usize = 4;
/// How often a response is refreshed, and how long before it expires; as in nginx.
const REFRESH_SECONDS: i64 = 3600;
const AHEAD_SECONDS: i64 = 300;
/// Shortest time between two requests, also after a failure; as in nginx.
const PAUSE_SECONDS: i64 = 300;
/// The clock is read at least this often, because it may be set and a machine may sleep.
const LOOK_SECONDS: i64 = 600;

/// A certificate and the state of its response.
struct Kept {
    ask: Arc<StapleAsk>,
    /// When to ask (seconds since 1970).
    due: i64,
    under_way: bool,
    response: Option<Bytes>,
    /// When the response expires.
    ends: Option<i64>,
}

type Answered = (Arc<StapleAsk>, Result<(StatusAnswer, Bytes), String>);

/// Runs as long as the control plane.
pub(crate) async fn run(registry: &'static Registry, bell: Arc<Notify>) {
    let mut kept: Vec<Kept> = Vec::new();
    let mut tasks: JoinSet<Answered> = JoinSet::new();
    let mut dialers = Dialers::default();
    loop {
        follow(registry, &mut kept);
        let now = now_seconds();
        for one in &mut kept {
            one.take_off(registry, now);
            if one.due <= now && !one.under_way && tasks.len() < AT_ONCE {
                one.under_way = true;
                let (ask_for, dialer) = (Arc::clone(&one.ask), dialers.of(&one.ask.responder));
                tasks.spawn(async move {
                    let answer = ask(dialer, &ask_for.question, &ask_for.responder, ask_for.trusted.as_ref()).await;
                    (ask_for, answer)
                });
            }
        }
        let next = kept.iter().filter(|one| !one.under_way).map(Kept::next).min();
        // If all slots are in use, the loop waits for a task to end.
        let wait = next.map_or(LOOK_SECONDS, |next| (next - now).clamp(1, LOOK_SECONDS));
        tokio::select! {
            () = bell.notified() => {}
            () = tokio::time::sleep(Duration::from_secs(wait.unsigned_abs())) => {}
            Some(done) = tasks.join_next() => match done {
                Ok((ask, answer)) => settle(registry, &mut kept, &ask, answer),
                // After a panic it is unknown which task has ended: all certificates that wait for an answer are asked
                // about again, after a pause.
                Err(_) => kept.iter_mut().filter(|one| one.under_way).for_each(|one| {
                    one.under_way = false;
                    one.due = now_seconds() + PAUSE_SECONDS;
                }),
            },
        }
    }
}

/// Updates the list of certificates.
fn follow(registry: &'static Registry, kept: &mut Vec<Kept>) {
    for message in registry.staples_refused() {
        registry.error_log().log(Level::Warn, &message);
    }
    let wanted = registry.staples_wanted();
    kept.retain(|one| wanted.iter().any(|ask| ask.is_same(&one.ask)));
    for ask in wanted {
        match kept.iter().find(|one| one.ask.is_same(&ask)) {
            // Another server may use the same certificate now.
            Some(one) => {
                if let Some(response) = &one.response {
                    registry.staple(&ask, Some(response));
                }
            }
            None => kept.push(Kept { ask, due: 0, under_way: false, response: None, ends: None }),
        }
    }
}

fn settle(
    registry: &'static Registry,
    kept: &mut [Kept],
    ask: &Arc<StapleAsk>,
    answer: Result<(StatusAnswer, Bytes), String>,
) {
    let Some(one) = kept.iter_mut().find(|one| one.ask.is_same(ask)) else { return };
    one.under_way = false;
    let now = now_seconds();
    let answer = answer.and_then(|(answer, bytes)| match answer.status {
        CertStatus::Good => Ok((answer, bytes)),
        status => Err(format!("certificate status \"{status}\" in the OCSP response")),
    });
    match answer {
        Ok((answer, bytes)) => {
            registry.staple(ask, Some(&bytes));
            one.response = Some(bytes);
            one.ends = answer.next_update;
            one.due = refresh_at(answer.next_update, now);
        }
        Err(message) => {
            one.due = now + PAUSE_SECONDS;
            let message = format!("{message} {}, certificate: {}", place(&ask.responder), ask.name);
            registry.error_log().log(Level::Error, &message);
        }
    }
}

fn refresh_at(next_update: Option<i64>, now: i64) -> i64 {
    let before_end = next_update.map_or(i64::MAX, |end| end.saturating_sub(AHEAD_SECONDS));
    before_end.min(now + REFRESH_SECONDS).max(now + PAUSE_SECONDS)
}

impl Kept {
    /// The time of the next action.
    fn next(&self) -> i64 {
        self.due.min(self.ends.unwrap_or(i64::MAX))
    }

    /// Removes expired responses.
    fn take_off(&mut self, registry: &'static Registry, now: i64) {
        if self.ends.is_some_and(|end| end < now) {
            (self.response, self.ends) = (None, None);
            registry.staple(&self.ask, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refreshes_hourly_and_at_most_every_five_minutes() {
        let now = 1_800_000_000;
        let after = |next_update: Option<i64>| refresh_at(next_update.map(|seconds| now + seconds), now) - now;
        assert_eq!(after(None), 3600);
        assert_eq!(after(Some(7 * 86_400)), 3600);
        assert_eq!(after(Some(1800)), 1500);
        assert_eq!(after(Some(60)), 300);
        assert_eq!(after(Some(-60)), 300);
    }
}
