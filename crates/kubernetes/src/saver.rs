//! Writes the last known state, some time after each change.

use crate::controller::Inner;
use crate::options::Severity;
use crate::snapshot;
use std::sync::Arc;
use std::time::Duration;

/// The time from a change to the file. A change that the file lacks is read again from the API server; a large state costs
/// 100 ms of a core to write.
const GATHER: Duration = Duration::from_millis(500);

/// Runs as long as the controller.
pub(crate) async fn run(inner: Arc<Inner>) {
    let Some(directory) = inner.options.state_directory.clone() else { return };
    let mut told = None;
    loop {
        inner.to_save.notified().await;
        tokio::time::sleep(GATHER).await;
        let cluster = inner.store().cluster.clone();
        let place = directory.clone();
        let saved = tokio::task::spawn_blocking(move || snapshot::save(&place, &cluster)).await;
        let trouble = match saved {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = trouble.as_ref().filter(|error| told.as_ref() != Some(*error)) {
            let message = format!("the state cannot be written to {}: {error}", directory.display());
            inner.log(Severity::Warning, &message);
        }
        told = trouble;
    }
}
