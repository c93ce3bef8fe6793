//! Asks the gateway for its status on a thread of its own, so that a gateway that hangs does not stop the other samples.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Fetches a status; the error is for the operator.
pub type Ask = Box<dyn FnMut() -> Result<Vec<u8>, String> + Send>;

/// A status comes from memory: a gateway that takes longer for it is silent, not busy.
const LATE_MAX: Duration = Duration::from_secs(3);

/// A thread that asks.
#[derive(Debug)]
pub(super) struct Asker {
    questions: SyncSender<()>,
    answers: Receiver<Result<Vec<u8>, String>>,
    /// Since when an answer is awaited.
    asked: Option<Instant>,
}

impl Asker {
    pub(super) fn start(mut ask: Ask) -> Result<Self, String> {
        let (questions, asked) = sync_channel(1);
        // One answer fits, so that the thread ends when this side is gone.
        let (answered, answers) = sync_channel(1);
        let work = move || {
            while asked.recv().is_ok() {
                if answered.send(ask()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("asker".to_owned()).spawn(work).map_err(|error| error.to_string())?;
        Ok(Self { questions, answers, asked: None })
    }

    /// Asks, unless the last question is still open.
    pub(super) fn ask(&mut self) {
        if self.asked.is_none() {
            self.asked = match self.questions.try_send(()) {
                Ok(()) => Some(Instant::now()),
                Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => None,
            };
        }
    }

    /// Waits for the answer until this moment; `None` if it may still come.
    pub(super) fn answer(&mut self, until: Instant) -> Option<Result<Vec<u8>, String>> {
        let answer = self.wait(until);
        match &self.asked {
            Some(asked) if asked.elapsed() < LATE_MAX => None,
            _ => Some(answer),
        }
    }

    fn wait(&mut self, until: Instant) -> Result<Vec<u8>, String> {
        let Some(asked) = self.asked else { return Err("the thread that asks has ended".to_owned()) };
        match self.answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(answer) => {
                self.asked = None;
                answer
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("no answer for {:.1} s", asked.elapsed().max(Duration::from_millis(1)).as_secs_f64()))
            }
            Err(RecvTimeoutError::Disconnected) => Err("the thread that asks has ended".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_comes_with_a_later_question() {
        let (release, held) = sync_channel::<()>(0);
        let ask = move || {
            held.recv().map_err(|error| error.to_string())?;
            Ok(b"status".to_vec())
        };
        let mut asker = Asker::start(Box::new(ask)).unwrap();
        asker.ask();
        assert_eq!(asker.answer(Instant::now()), None);
        assert!(asker.wait(Instant::now()).unwrap_err().starts_with("no answer for "));
        asker.ask();
        release.send(()).unwrap();
        assert_eq!(asker.answer(Instant::now() + Duration::from_secs(30)), Some(Ok(b"status".to_vec())));
    }
}
