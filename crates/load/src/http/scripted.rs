//! What the HTTP driver asks of a wrk script besides its requests.

use super::pool::Http;
use crate::worker::requests::Bench;
use std::time::Duration;

impl Http {
    /// Passes complete responses to the script.
    pub(super) fn show_responses(&mut self, bench: &mut Bench) {
        let (Some(script), Some(capture)) = (&mut self.script, &mut self.codec.capture) else { return };
        for (status, fields, body) in capture.done.drain(..) {
            script.response(status, &fields, &body);
        }
        if let Some(failure) = script.failure.take() {
            bench.failure = Some(failure.to_string());
        }
    }

    /// The pause that the script requests before its next request.
    pub(super) fn script_pause(&mut self, bench: &mut Bench) -> Option<Duration> {
        let script = self.script.as_mut().filter(|_| !bench.is_exhausted())?;
        let pause = script.delay();
        if let Some(failure) = script.failure.take() {
            bench.failure = Some(failure.to_string());
        }
        pause.filter(|pause| !pause.is_zero())
    }
}
