//! Handles the requests of `holdfast ctl` in the master: it does reloads and dry runs itself, and passes other requests
//! to the child. Every change is logged with the caller.

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
    /// Clients with a request that the child executes.
    passed_on: Vec<u64>,
}

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
        self.awaited.passed_on.retain(|id| self.ctl.waits(*id));
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
        let Some(child) = self.child.as_ref().filter(|child| child.speaks()) else {
            return Err("no worker process serves at this moment".to_owned());
        };
        let packet = ctl_work::encode(id, request).ok_or("the request is too long")?;
        child.pass_on(&packet).map_err(|error| format!("the worker process cannot be reached ({error})"))?;
        self.awaited.passed_on.push(id);
        Ok(())
    }

    /// The child has ended or retires: its pending requests get an error.
    pub(super) fn child_left(&mut self) {
        for id in std::mem::take(&mut self.awaited.passed_on) {
            let message = "the worker process was replaced before it answered; ask again, or look first whether a change was made";
            self.answered(id, Answer::of(Err(message.to_owned())));
        }
    }

    /// The child has answered.
    pub(super) fn answered(&mut self, id: u64, answer: Answer) {
        self.awaited.passed_on.retain(|waiting| *waiting != id);
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
        let child = self.child.as_ref();
        json!({
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "conf": self.plan.prepared.loaded.main.display().to_string(),
            "worker_pid": child.map(Offspring::pid),
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
