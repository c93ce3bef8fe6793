//! Asks about clients' certificates while their connections wait. Each question is settled, also after an error or a
//! panic.

use crate::dial::Dialer;
use crate::ocsp::{Dialers, ask, now_seconds, place};
use gateway::ocsp::OpenQuestion;
use gateway::{Level, Registry};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tls::StatusAnswer;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Most questions in progress; the gateway limits how many wait.
const AT_ONCE: usize = 64;
/// Clients can cause errors at will, so at most one line is logged in this time, with the number of suppressed ones.
const LINE_PAUSE: Duration = Duration::from_secs(1);

/// Runs as long as the control plane.
pub(crate) async fn run(registry: &'static Registry, bell: Arc<Notify>) {
    let mut tasks: JoinSet<()> = JoinSet::new();
    let mut dialers = Dialers::default();
    let mut waiting: VecDeque<Asking> = VecDeque::new();
    let lines = Arc::<Lines>::default();
    loop {
        waiting.extend(
            registry.client_statuses().take().into_iter().map(|question| Asking { registry, question: Some(question) }),
        );
        while tasks.len() < AT_ONCE {
            let Some(asking) = waiting.pop_front() else { break };
            let Some(question) = &asking.question else { continue };
            let dialer = dialers.of(&question.responder);
            tasks.spawn(asking.run(dialer, Arc::clone(&lines)));
        }
        tokio::select! {
            () = bell.notified() => {}
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// When the last line was written, and how many were suppressed since.
#[derive(Default)]
struct Lines(Mutex<(Option<Instant>, u64)>);

impl Lines {
    /// Whether a line may be written now; returns the number of suppressed lines.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0.is_some_and(|last| now.saturating_duration_since(last) < LINE_PAUSE) {
            state.1 += 1;
            return None;
        }
        let (_, more) = std::mem::replace(&mut *state, (Some(now), 0));
        Some(more)
    }
}

/// A question in progress.
struct Asking {
    registry: &'static Registry,
    /// `None` once it is settled.
    question: Option<OpenQuestion>,
}

impl Asking {
    async fn run(mut self, dialer: Dialer, lines: Arc<Lines>) {
        let Some(open) = self.question.clone() else { return };
        match ask(dialer, &open.question, &open.responder, None).await {
            Ok((answer, _)) => self.settle(Some(answer)),
            Err(message) => {
                if let Some(more) = lines.admit(Instant::now()) {
                    let more =
                        if more == 0 { String::new() } else { format!("; {more} more faults since the last line") };
                    let line = format!("{message} {}{more}", place(&open.responder));
                    self.registry.error_log().log(Level::Error, &line);
                }
                self.settle(None);
            }
        }
    }

    fn settle(&mut self, answer: Option<StatusAnswer>) {
        if let Some(question) = self.question.take() {
            self.registry.client_statuses().settle(&question, answer, now_seconds());
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.settle(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppressed_lines_are_counted_once_a_second() {
        let (lines, begun) = (Lines::default(), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        assert_eq!([0, 1, 999].map(|ms| lines.admit(at(ms))), [Some(0), None, None]);
        assert_eq!([1000, 1500, 3000].map(|ms| lines.admit(at(ms))), [Some(2), None, Some(1)]);
    }
}
