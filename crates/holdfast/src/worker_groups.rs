//! `worker_groups`: how many processes an installation has, what each gets of the workers and of the planned connections, and
//! what several processes cannot share. Called by `process` and `verdict`; knows no process.

use conf::diagnostic::Diagnostic;
use conf::model::{Declared, Model, Sticky, WorkerGroups};
use conf::source::Span;
use gateway::Share;

/// Descriptors of a process that are not connections: logs, epoll and event descriptors, the channel to the master, files being
/// served.
pub(crate) const DESCRIPTORS_BESIDE: u64 = 64;

/// Workers and connections, spread over processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spread {
    /// The number of processes.
    pub(crate) groups: u16,
    /// The workers of each.
    pub(crate) workers: u16,
    /// The connections of each worker.
    pub(crate) connections: u32,
}

impl Spread {
    /// Spreads `workers` with `connections` each over a number of processes. Each process gets the same number of workers, at
    /// least one, and all together the connections that are planned, rounded up.
    pub(crate) fn over(groups: u16, workers: u16, connections: u32) -> Self {
        let groups = groups.max(1);
        let each = workers.div_ceil(groups).max(1);
        let all = u64::from(groups) * u64::from(each);
        let part = (u64::from(workers) * u64::from(connections)).div_ceil(all);
        Self { groups, workers: each, connections: u32::try_from(part).unwrap_or(connections) }
    }

    /// The same over the number that the configuration wants, or that the descriptors of a process are enough for.
    pub(crate) fn wanted(wanted: WorkerGroups, workers: u16, connections: u32, descriptors: u64) -> Self {
        match wanted {
            WorkerGroups::Count(groups) => Self::over(groups, workers, connections),
            WorkerGroups::Auto => {
                let spreads = (1..=WorkerGroups::MAX).map(|groups| Self::over(groups, workers, connections));
                let mut last = Self::over(1, workers, connections);
                for spread in spreads {
                    last = spread;
                    if spread.descriptors() <= descriptors {
                        break;
                    }
                }
                last
            }
        }
    }

    /// The descriptors that a process may need: two for a proxied connection.
    pub(crate) fn descriptors(self) -> u64 {
        u64::from(self.workers) * u64::from(self.connections) * 2 + DESCRIPTORS_BESIDE
    }

    /// The part of one process.
    pub(crate) fn share(self, index: u16, written: u32) -> Share {
        let worker_connections = Some(self.connections).filter(|part| *part != written);
        Share { index, of: self.groups, worker_connections }
    }
}

/// Reports directives that would be wrong with several processes, because their state is in one.
pub(crate) fn refuse_unshared(model: &Model, groups: u16, place: Span, out: &mut Vec<Diagnostic>) {
    if groups < 2 {
        return;
    }
    let mut refuse = |span: Span, what: &str, why: &str| {
        let message = format!("{what} cannot be used with \"worker_groups\" above 1: {why}");
        let hint = format!("\"worker_groups\" is {groups} here; remove one of the two");
        out.push(Diagnostic::error(span, message).with_hint(hint));
    };
    if !model.main.settings.master_process {
        refuse(place, "\"master_process off\"", "the master starts the processes and passes them the listeners");
    }
    let learns = |declared: &Declared| -> Vec<Span> {
        let learning = declared.upstreams.iter().filter(|it| matches!(it.settings.sticky, Some(Sticky::Learn { .. })));
        learning.map(|upstream| upstream.span).collect()
    };
    let of_stream = model.stream.iter().flat_map(|stream| learns(&stream.declared));
    for span in model.http.iter().flat_map(|http| learns(&http.declared)).chain(of_stream) {
        refuse(
            span,
            "\"sticky learn\"",
            "each process would know the sessions that it has learned itself; \"sticky cookie\" and \"sticky route\" work",
        );
    }
    let Some(http) = &model.http else { return };
    for issuer in &http.acme_issuers {
        refuse(
            issuer.span,
            "\"acme_issuer\"",
            "the authority's validation may reach a process that does not know its answer",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(groups: u16, workers: u16, connections: u32) -> Spread {
        Spread { groups, workers, connections }
    }

    #[test]
    fn planned_connections_stay_the_same_in_all_processes_together() {
        assert_eq!(Spread::over(1, 4, 1000), spread(1, 4, 1000));
        assert_eq!(Spread::over(2, 4, 1000), spread(2, 2, 1000));
        assert_eq!(Spread::over(3, 4, 1000), spread(3, 2, 667), "4000 in 6 workers, rounded up");
        assert_eq!(Spread::over(4, 2, 1000), spread(4, 1, 500));
        assert_eq!(Spread::over(64, 1, 1), spread(64, 1, 1), "never 0");
        assert_eq!(Spread::over(4, 2, 1000).share(3, 1000), Share { index: 3, of: 4, worker_connections: Some(500) });
        assert_eq!(Spread::over(2, 4, 1000).share(0, 1000), Share { index: 0, of: 2, worker_connections: None });
    }

    #[test]
    fn auto_takes_as_many_processes_as_the_descriptors_require() {
        let auto =
            |workers, connections, descriptors| Spread::wanted(WorkerGroups::Auto, workers, connections, descriptors);
        assert_eq!(auto(2, 512, 20_000), spread(1, 2, 512));
        assert_eq!(auto(2, 4984, 20_000), spread(1, 2, 4984), "exactly enough");
        assert_eq!(auto(2, 4985, 20_000), spread(2, 1, 4985));
        assert_eq!(auto(2, 50_000, 20_000), spread(11, 1, 9091));
        assert_eq!(auto(1, u32::MAX, 20_000).groups, WorkerGroups::MAX);
        assert_eq!(Spread::wanted(WorkerGroups::Count(3), 3, 10, 20).groups, 3);
    }
}
