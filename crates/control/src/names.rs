//! Drives the gateway's book of names: resolves each name when it is due, within its time limit, and settles it.

use crate::bell::ringer;
use crate::dns;
use gateway::Registry;
use gateway::names::{NameFailure, Outcome, Question, ResolverPlan};
use reactor::monotonic_millis;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Most resolvers kept. A configuration has one or two. If there are more, those of earlier configurations are dropped
/// together and made again when needed.
const RESOLVERS_MAX: usize = 32;

/// How long to wait for the bell if no lookup is scheduled.
const LONG: Duration = Duration::from_hours(1);

/// Connects to the registry. The bell signals a request for a name.
pub(crate) fn attach(registry: &'static Registry) -> Arc<Notify> {
    let bell = Arc::new(Notify::new());
    registry.names().attach(ringer(&bell));
    bell
}

/// Runs as long as the control plane.
pub(crate) async fn run(registry: &'static Registry, bell: Arc<Notify>) {
    let mut resolvers: HashMap<Arc<ResolverPlan>, dns::Resolver> = HashMap::new();
    loop {
        let now_ms = monotonic_millis().0;
        let due = registry.names().due(now_ms);
        for question in due.questions {
            if resolvers.len() > RESOLVERS_MAX {
                resolvers.clear();
            }
            let plan = Arc::clone(&question.resolver);
            let resolver = resolvers.entry(plan).or_insert_with_key(|plan| dns::Resolver::new(plan)).clone();
            let lookup = Lookup { registry, question: Some(question) };
            tokio::spawn(lookup.run(resolver));
        }
        let pause = due.next_ms.map_or(LONG, |at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms)));
        tokio::select! {
            () = bell.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// A lookup in progress. Dropping it settles it; otherwise the name would never be looked up again.
struct Lookup {
    registry: &'static Registry,
    /// `None` once it is settled.
    question: Option<Arc<Question>>,
}

impl Lookup {
    async fn run(mut self, resolver: dns::Resolver) {
        let Some(question) = self.question.clone() else { return };
        let outcome = resolver.look_up(&question).await;
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: Outcome) {
        if let Some(question) = self.question.take() {
            self.registry.names().settle(&question, outcome, monotonic_millis().0);
        }
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.settle(Outcome::Failed { failure: NameFailure::ServerFailure, ttl_ms: None });
    }
}
