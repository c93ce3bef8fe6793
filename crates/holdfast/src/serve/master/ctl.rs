//! Handles the requests of `holdfast ctl` in the master: it does reloads and dry runs itself, and passes other requests
//! to the child. Every change is logged with the caller.

use super::ctl_merge;
use super::dry_run::{self, DryRun};
use super::offspring::Offspring;
use super::{Ending, Master};
use crate::ctl::request::{Answer, Request};
use crate::serve::ctl_socket::Asked;
use crate::serve::ctl_work;
use gateway::Level;
use serde_json::{Value, json};
use std::time::Instant;

/// Clients that wait for work in progress.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    reloads: Vec<Reload>,
    /// Data that the master adds to a child's answers, by the client's number.
    additions: Vec<(u64, Addition)>,
    /// Requests that children execute.
    passed_on: Vec<PassedOn>,
    /// Changes of peers and of the log level, for a child that takes the place of a dead one.
    remembered: Vec<Request>,
}

/// A request in the hands of children.
#[derive(Debug)]
struct PassedOn {
    id: u64,
    request: Request,
    /// The process ids of the children that were asked, with their answers.
    asked: Vec<(u32, Option<Answer>)>,
}

/// The number of no client: nothing waits for the answer.
const NO_CLIENT: u64 = 0;
/// Most changes that are remembered: one for each of many peers. The oldest is forgotten.
const REMEMBERED_MAX: usize = 1000;

#[derive(Debug)]
struct Reload {
    id: u64,
    /// Whether another reload is in progress and this one follows it.
    is_next: bool,
}

#[derive(Debug)]
enum Addition {
    Status(Value),
    DryRun(DryRun),
}

impl Master<'_> {
    /// Serves the control socket.
    pub(super) fn look_at_ctl(&mut self) {
        let asked = self.ctl.turn(Instant::now());
        // Clients that have left get no answer.
        self.awaited.additions.retain(|(id, _)| self.ctl.waits(*id));
        self.awaited.passed_on.retain(|asked| self.ctl.waits(asked.id));
        self.awaited.reloads.retain(|reload| self.ctl.waits(reload.id));
        for Asked { id, caller, request } in asked {
            if request.is_change() {
                self.journal.log(Level::Notice, &format!("ctl: {}, asked by {caller}", request.words()));
            }
            if let Err(error) = self.begin_request(id, &request) {
                self.ctl.answer(id, &Answer::of(Err(error)));
            }
        }
    }

    fn begin_request(&mut self, id: u64, request: &Request) -> Result<(), String> {
        match request {
            Request::Reload { .. } if self.ending != Ending::Not => Err("the instance is shutting down".to_owned()),
            Request::Reload { dry_run: false } => {
                let is_next = self.is_reloading();
                self.awaited.reloads.push(Reload { id, is_next });
                self.reload();
                Ok(())
            }
            Request::Reload { dry_run: true } => {
                let dry_run = self.dry_run();
                if !dry_run.replaces_child() {
                    let answer = Answer::of(Ok(dry_run.into_json(None)));
                    self.ctl.answer(id, &answer);
                    return Ok(());
                }
                self.awaited.additions.push((id, Addition::DryRun(dry_run)));
                self.pass_on(id, &Request::Status)
            }
            Request::Status => {
                let own = self.own_status();
                self.awaited.additions.push((id, Addition::Status(own)));
                self.pass_on(id, request)
            }
            _ => self.pass_on(id, request),
        }
    }

    fn pass_on(&mut self, id: u64, request: &Request) -> Result<(), String> {
        let packet = ctl_work::encode(id, request).ok_or("the request is too long")?;
        let mut children: Vec<&Offspring> = self.serving().filter(|child| child.speaks()).collect();
        if matches!(request, Request::Status | Request::Cache { act: Some(_) }) {
            // The status of any process is that of all, and so are the files of a cache. A purge reaches the others by it.
            children.truncate(1);
        }
        let mut asked = Vec::new();
        for child in children {
            child.pass_on(&packet).map_err(|error| format!("the worker process cannot be reached ({error})"))?;
            asked.push((child.pid(), None));
        }
        if asked.is_empty() {
            return Err("no worker process serves at this moment".to_owned());
        }
        self.awaited.passed_on.push(PassedOn { id, request: request.clone(), asked });
        self.remember(request);
        Ok(())
    }

    /// A child has ended or retires: requests that it has not answered get an error.
    pub(super) fn child_left(&mut self, pid: u32) {
        let owes = |asked: &PassedOn| asked.asked.contains(&(pid, None));
        let (failed, rest) = std::mem::take(&mut self.awaited.passed_on).into_iter().partition(owes);
        self.awaited.passed_on = rest;
        for PassedOn { id, .. } in failed {
            let message = "the worker process was replaced before it answered; ask again, or look first whether a change was made";
            self.finish_request(id, Answer::of(Err(message.to_owned())));
        }
    }

    /// A child has answered.
    pub(super) fn answered(&mut self, pid: u32, id: u64, answer: Answer) {
        let Some(at) = self.awaited.passed_on.iter().position(|asked| asked.id == id) else { return };
        let passed_on = &mut self.awaited.passed_on[at];
        if let Some(owed) = passed_on.asked.iter_mut().find(|(asked, _)| *asked == pid) {
            owed.1 = Some(answer);
        }
        if passed_on.asked.iter().all(|(_, answer)| answer.is_some()) {
            let PassedOn { request, asked, .. } = self.awaited.passed_on.swap_remove(at);
            let answers = asked.into_iter().filter_map(|(_, answer)| answer).collect();
            let workers = self.plan.process().child.workers.into();
            self.finish_request(id, ctl_merge::merge(&request, answers, workers));
        }
    }

    fn finish_request(&mut self, id: u64, answer: Answer) {
        let at = self.awaited.additions.iter().position(|(waiting, _)| *waiting == id);
        let addition = at.map(|at| self.awaited.additions.swap_remove(at).1);
        let answer = match (addition, answer) {
            (Some(Addition::Status(master)), Answer { result, error: None }) => {
                Answer::of(Ok(json!({"master": master, "serving": result})))
            }
            (Some(Addition::DryRun(dry_run)), Answer { result, error: None }) => {
                Answer::of(Ok(dry_run.into_json(Some(&result))))
            }
            (_, answer) => answer,
        };
        self.ctl.answer(id, &answer);
    }

    /// Remembers a change that belongs to all processes, also to one that is started later.
    fn remember(&mut self, request: &Request) {
        if self.seats.len() < 2 {
            return;
        }
        let is_same = |known: &Request| match (known, request) {
            (Request::Peers { change: Some(known) }, Request::Peers { change: Some(new) }) => known.replaced_by(new),
            (Request::LogLevel { .. }, Request::LogLevel { .. }) => true,
            _ => false,
        };
        if matches!(request, Request::Peers { change: Some(_) } | Request::LogLevel { level: Some(_) }) {
            let remembered = &mut self.awaited.remembered;
            remembered.retain(|known| !is_same(known));
            remembered.push(request.clone());
            let surplus = remembered.len().saturating_sub(REMEMBERED_MAX);
            remembered.drain(..surplus);
        }
    }

    /// Lets a child that takes the place of a dead one make the changes that the others have made.
    pub(super) fn repeat_changes(&self, child: &Offspring) {
        for request in &self.awaited.remembered {
            // If sending fails, the child is about to end, which another place detects.
            let _ = ctl_work::encode(NO_CLIENT, request).map(|packet| child.pass_on(&packet));
        }
    }

    /// All children are new, and begin with what the configuration says.
    pub(super) fn forget_changes(&mut self) {
        self.awaited.remembered.clear();
    }

    /// A reload has ended: the clients that wait for it get the result.
    pub(super) fn reloaded(&mut self, outcome: Result<(), &str>) {
        self.service.reloaded(outcome);
        let waiting = std::mem::take(&mut self.awaited.reloads);
        let (next, done): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|reload| reload.is_next);
        self.awaited.reloads = next;
        let answer = Answer::of(outcome.map(|()| json!({"reloaded": true})).map_err(str::to_owned));
        for reload in done {
            self.ctl.answer(reload.id, &answer);
        }
    }

    /// The reload requested during the last one starts.
    pub(super) fn begins_again(&mut self) {
        self.awaited.reloads.iter_mut().for_each(|reload| reload.is_next = false);
    }

    fn own_status(&self) -> Value {
        let child = self.serving().next();
        json!({
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "conf": self.plan.prepared.loaded.main.display().to_string(),
            "worker_pid": child.map(Offspring::pid),
            "worker_pids": self.serving().map(Offspring::pid).collect::<Vec<_>>(),
            "worker_groups": self.seats.len(),
            "worker_age_ms": child.map(|child| u64::try_from(child.age().as_millis()).unwrap_or(u64::MAX)),
            "retiring": self.retiring.len(),
        })
    }

    /// Computes the changes of a reload without doing it.
    fn dry_run(&mut self) -> DryRun {
        let (prepared, texts) = self.read(self.instance.loader());
        dry_run::compare(&self.plan, &prepared, &texts)
    }
}
