//! Tasks: events and deadlines are delivered to them. A task here is only an index with a generation, a place in the ready
//! list and a timer; its owner does the work.

use std::collections::VecDeque;

/// A task of one reactor. The generation makes an id of an ended task harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskId {
    /// Index, dense from 0, reused after the task has ended.
    pub index: u32,
    /// Distinguishes the tasks that had this index.
    pub generation: u32,
}

impl TaskId {
    /// Both parts in one number.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.index) << 32 | u64::from(self.generation)
    }

    /// The inverse of [`Self::number`].
    pub(crate) fn from_number(number: u64) -> Self {
        Self { index: (number >> 32) as u32, generation: number as u32 }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Header {
    generation: u32,
    alive: bool,
    queued: bool,
    deadline_fired: bool,
    /// Its end waits for a later turn.
    deferred: bool,
}

/// Ends of connections in one turn. When thousands of peers leave at once, the kernel reports that before what other
/// connections have received since; closing 64 connections takes 2 to 3 ms.
const ENDS_MAX: usize = 64;

/// The task table and the ready list.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    headers: Vec<Header>,
    free: Vec<u32>,
    ready: VecDeque<u32>,
    /// How many more connections may end in this turn.
    ends_left: usize,
    /// Tasks that end in a later turn, each once.
    deferred: VecDeque<TaskId>,
}

impl Tasks {
    /// An empty table with room for this many tasks.
    pub(crate) fn with_room(tasks: usize) -> Self {
        Self { headers: Vec::with_capacity(tasks), ..Self::default() }
    }

    pub(crate) fn create(&mut self) -> TaskId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.headers.push(Header::default());
            (self.headers.len() - 1) as u32
        });
        let header = &mut self.headers[index as usize];
        // A queued flag left from the index's former task stays: its entry is still in the list and wakes the new one once.
        header.alive = true;
        header.deadline_fired = false;
        header.deferred = false;
        TaskId { index, generation: header.generation }
    }

    pub(crate) fn end(&mut self, task: TaskId) {
        if let Some(header) = self.alive(task) {
            header.alive = false;
            header.generation = header.generation.wrapping_add(1);
            self.free.push(task.index);
        }
    }

    pub(crate) fn wake(&mut self, task: TaskId) {
        if self.alive(task).is_some() {
            self.wake_index(task.index);
        }
    }

    pub(crate) fn fire_deadline(&mut self, index: u32) {
        if let Some(header) = self.headers.get_mut(index as usize).filter(|header| header.alive) {
            header.deadline_fired = true;
            self.wake_index(index);
        }
    }

    /// Begins a turn: the tasks that have waited longest may end before others.
    pub(crate) fn begin_ends(&mut self) {
        self.ends_left = ENDS_MAX;
        for _ in 0..self.deferred.len().min(ENDS_MAX) {
            let Some(task) = self.deferred.pop_front() else { break };
            if let Some(header) = self.alive(task) {
                header.deferred = false;
                self.wake_index(task.index);
            }
        }
    }

    /// Whether a task may end in this turn; otherwise it is woken in a later one.
    pub(crate) fn may_end(&mut self, task: TaskId) -> bool {
        if let Some(left) = self.ends_left.checked_sub(1) {
            self.ends_left = left;
            return true;
        }
        if let Some(header) = self.alive(task)
            && !std::mem::replace(&mut header.deferred, true)
        {
            self.deferred.push_back(task);
        }
        false
    }

    pub(crate) fn take_deadline_fired(&mut self, task: TaskId) -> bool {
        self.alive(task).is_some_and(|header| std::mem::take(&mut header.deadline_fired))
    }

    pub(crate) fn next_ready(&mut self) -> Option<TaskId> {
        while let Some(index) = self.ready.pop_front() {
            let header = &mut self.headers[index as usize];
            header.queued = false;
            if header.alive {
                return Some(TaskId { index, generation: header.generation });
            }
        }
        None
    }

    pub(crate) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn is_live(&self, task: TaskId) -> bool {
        self.headers.get(task.index as usize).is_some_and(|header| header.alive && header.generation == task.generation)
    }

    fn wake_index(&mut self, index: u32) {
        let header = &mut self.headers[index as usize];
        if !std::mem::replace(&mut header.queued, true) {
            self.ready.push_back(index);
        }
    }

    fn alive(&mut self, task: TaskId) -> Option<&mut Header> {
        self.headers.get_mut(task.index as usize).filter(|header| header.alive && header.generation == task.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_waits_once_for_its_end() {
        let mut tasks = Tasks::default();
        let [first, second] = [tasks.create(), tasks.create()];
        for task in [first, second, first, second] {
            assert!(!tasks.may_end(task), "no turn has begun");
        }
        assert_eq!(tasks.deferred, [first, second]);
        tasks.end(first);
        let next = tasks.create();
        assert!(next.index == first.index && !tasks.may_end(next));
        tasks.begin_ends();
        assert_eq!([tasks.next_ready(), tasks.next_ready(), tasks.next_ready()], [Some(second), Some(next), None]);
        assert!(tasks.may_end(second) && tasks.deferred.is_empty());
    }
}
