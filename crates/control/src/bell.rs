//! How the registry wakes a loop of the control plane.

use std::sync::Arc;
use tokio::sync::Notify;

/// What rings a bell, from any thread. A ring while nothing waits wakes the next wait.
pub(crate) fn ringer(bell: &Arc<Notify>) -> impl Fn() + Send + Sync + 'static {
    let bell = Arc::clone(bell);
    move || bell.notify_one()
}
