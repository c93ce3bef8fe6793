//! Merges what the workers of a run record: the totals of the run, and each interval once all workers have finished it.
//! Pure; `crew` receives the messages.

use crate::generator::GeneratorRecord;
use crate::processors::{Spent, Ticks};
use crate::remote::AgentFigures;
use crate::script::Globals;
use crate::worker::Message;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What workers of any protocol record.
pub(crate) trait Recorded: Default {
    /// Adds a record of another interval. Calls `pause` between two histograms, because merging one takes some ten
    /// microseconds.
    fn add(&mut self, other: &Self, pause: fn());

    /// Adds a record of the same interval from another worker.
    fn add_beside(&mut self, other: &Self, pause: fn()) {
        self.add(other, pause);
    }

    /// An empty record for the same load that a worker can reuse, if reusing its memory is worthwhile.
    fn spare(&self) -> Option<Self> {
        None
    }

    /// Clears all counts and keeps the allocated memory.
    fn clear(&mut self);

    /// Complete responses, or what corresponds to them.
    fn complete(&self) -> u64;

    /// The generator's own part of the record.
    fn generator(&self) -> &GeneratorRecord;

    /// The same, mutable.
    fn generator_mut(&mut self) -> &mut GeneratorRecord;
}

/// Merges the records of the workers, whose intervals end at slightly different times.
#[derive(Debug)]
pub(crate) struct Collected<R> {
    pub(crate) whole: R,
    /// The first intervals, which the totals do not contain: the warm-up.
    pub(crate) skipped: u64,
    /// Intervals that at least one worker has not finished.
    open: BTreeMap<u64, R>,
    /// An empty record, usually one that was handed out before. Reusing it avoids half a megabyte of fresh pages for each
    /// interval.
    spare: Option<R>,
    /// Whether `spare` has all the memory that a worker needs.
    has_room: bool,
    /// By worker: the first interval that the worker has not finished.
    progress: Vec<u64>,
    /// By worker: time spent since the start of the run.
    spent: Vec<Spent>,
    /// Processor ticks of the machine during the run. The receiver of the messages adds them.
    pub(crate) processors: Ticks,
    pub(crate) ended_ns: u64,
    pub(crate) completed_ns: u64,
    /// Why the run ended early: the error of the first worker that failed.
    pub(crate) failure: Option<String>,
    /// What was lost with worker processes that ended without a report.
    pub(crate) lost: Vec<String>,
    /// Remarks about the run.
    pub(crate) marks: Vec<String>,
    /// The agents of a farm.
    pub(crate) agents: Vec<AgentFigures>,
    /// Script globals of workers in other processes, by worker.
    pub(crate) scripts: Vec<(usize, Globals)>,
}

impl<R: Recorded> Collected<R> {
    /// `whole` is an empty record.
    pub(crate) fn new(workers: usize, whole: R) -> Self {
        let spare = whole.spare();
        Self {
            whole,
            skipped: 0,
            open: BTreeMap::new(),
            has_room: spare.is_some(),
            spare,
            progress: vec![0; workers],
            spent: vec![Spent::default(); workers],
            processors: Ticks::default(),
            ended_ns: 0,
            completed_ns: 0,
            failure: None,
            lost: Vec::new(),
            marks: Vec::new(),
            agents: Vec::new(),
            scripts: Vec::new(),
        }
    }

    /// Processes one message. Calls `pause` between two steps.
    pub(crate) fn take(&mut self, message: Message<R>, pause: fn()) {
        match message {
            Message::Interval { worker, interval, mut record, last } => {
                if interval >= self.skipped {
                    self.whole.add(&record, pause);
                    if let Some(spent) = self.spent.get_mut(worker) {
                        *spent += record.generator().spent;
                    }
                    let most = self.spent.iter().copied().fold(Spent::default(), Spent::most);
                    self.whole.generator_mut().spent_most = most;
                }
                self.put(interval, &mut record, pause);
                // The length of the last interval is known only at `Done`, so it is shown then.
                if !last {
                    self.move_on(worker, interval + 1);
                }
            }
            Message::Done { worker, ended_ns, completed_ns } => {
                self.ended_ns = self.ended_ns.max(ended_ns);
                self.completed_ns = self.completed_ns.max(completed_ns);
                self.move_on(worker, u64::MAX);
            }
            Message::Lost { workers, text } => {
                workers.for_each(|worker| self.move_on(worker, u64::MAX));
                self.lost.push(text);
            }
            Message::Script { worker, globals } => self.scripts.push((worker, globals)),
            Message::Failed(error) => {
                self.failure.get_or_insert_with(|| error.to_string());
            }
            Message::Mark(text) => self.marks.push(text),
            Message::Agents(agents) => self.agents = agents,
            Message::Ready | Message::Stopped => {}
        }
    }

    /// Adds a record to its interval. The first record of an interval is swapped with the spare one instead of being copied
    /// and cleared; the worker gets the spare back.
    fn put(&mut self, interval: u64, record: &mut R, pause: fn()) {
        match self.open.entry(interval) {
            Entry::Occupied(mut together) => together.get_mut().add_beside(record, pause),
            Entry::Vacant(place) => match self.spare.take() {
                Some(mut first) if self.has_room => {
                    std::mem::swap(&mut first, record);
                    place.insert(first);
                }
                spare => place.insert(spare.unwrap_or_default()).add_beside(record, pause),
            },
        }
    }

    /// Whether all workers have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.progress.iter().all(|progress| *progress == u64::MAX)
    }

    fn move_on(&mut self, worker: usize, interval: u64) {
        if let Some(progress) = self.progress.get_mut(worker) {
            *progress = interval;
        }
    }

    /// The next interval that all workers have finished.
    pub(crate) fn finished(&mut self) -> Option<(u64, R)> {
        let entry = self.open.first_entry()?;
        let all = self.progress.iter().min()?;
        (entry.key() < all).then(|| entry.remove_entry())
    }

    /// Takes back a record after it was shown.
    pub(crate) fn take_back(&mut self, mut record: R) {
        record.clear();
        self.spare = Some(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loan::Loan;
    use crate::record::HttpRecord;

    impl Collected<HttpRecord> {
        fn take_now(&mut self, message: Message) {
            self.take(message, || ());
        }
    }

    fn interval(worker: usize, interval: u64, latency_ns: u64) -> Message {
        let mut record = Loan::of(HttpRecord::new(1));
        record.generator.spent = Spent { cpu_ns: latency_ns, waited_ns: Some(1) };
        record.generator.spent_most = record.generator.spent;
        record.targets[0].response(200, 1, latency_ns);
        Message::Interval { worker, interval, record, last: false }
    }

    #[test]
    fn an_interval_is_handed_out_when_all_have_finished_it() {
        let mut collected = Collected::new(2, HttpRecord::new(1));
        collected.take_now(interval(0, 0, 5));
        collected.take_now(interval(0, 1, 6));
        assert!(collected.finished().is_none());
        collected.take_now(interval(1, 0, 7));
        let (number, record) = collected.finished().unwrap();
        assert_eq!((number, record.whole().responses), (0, 2));
        assert!(collected.finished().is_none() && !collected.is_over());
        // The next record starts empty and reuses the memory.
        collected.take_back(record);
        for (worker, number) in [(0, 2), (1, 1), (1, 2)] {
            collected.take_now(interval(worker, number, 8));
        }
        assert_eq!(collected.finished().map(|(number, _)| number), Some(1));
        let (number, record) = collected.finished().unwrap();
        assert_eq!((number, record.whole().responses, record.generator.spent.waited_ns), (2, 2, Some(2)));
    }

    #[test]
    fn the_busiest_worker_is_one_and_not_all_together() {
        let mut collected = Collected::new(2, HttpRecord::new(1));
        for (worker, number, cpu_ns) in [(0, 0, 5), (1, 0, 7), (0, 1, 6), (1, 1, 1)] {
            collected.take_now(interval(worker, number, cpu_ns));
        }
        let busiest_of_interval = collected.finished().map(|(_, record)| record.generator.spent_most.cpu_ns);
        let whole = &collected.whole;
        assert_eq!(
            (busiest_of_interval, whole.generator.spent.cpu_ns, whole.generator.spent_most.cpu_ns),
            (Some(7), 19, 11)
        );
        assert_eq!((whole.generator.spent.waited_ns, whole.generator.spent_most.waited_ns), (Some(4), Some(2)));
    }

    #[test]
    fn workers_that_are_lost_are_not_waited_for() {
        let mut collected = Collected::new(3, HttpRecord::new(1));
        collected.take_now(interval(0, 0, 5));
        collected.take_now(Message::Lost { workers: 1..3, text: "two are gone".to_owned() });
        assert_eq!(collected.finished().map(|(number, _)| number), Some(0));
        collected.take_now(Message::Done { worker: 0, ended_ns: 9, completed_ns: 8 });
        assert!(collected.is_over() && collected.lost == ["two are gone"]);
    }
}
