//! A child from its master's view: a process, the channel to it, and what it has not answered yet.

use super::Plan;
use crate::ctl::request::Answer;
use crate::instance::Instance;
use crate::process::{ChildPlan, Part};
use crate::report::errno;
use crate::serve::channel::{Channel, Kind};
use crate::serve::commons::Commons;
use crate::serve::ctl_work;
use crate::serve::figures::{FiguresFile, Round};
use crate::serve::log_files::{Journal, LogFiles};
use crate::serve::order::{Order, Texts};
use crate::serve::{ROLE, Role};
use gateway::Level;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Name in process lists.
const TITLE: &str = "holdfast: worker process";

/// A child.
pub(super) struct Offspring {
    process: std::process::Child,
    pub(super) channel: Channel,
    /// Where it publishes its figures, if there are other children.
    pub(super) figures: Option<FiguresFile>,
    /// The order that it has not answered.
    asked: Option<Asked>,
    /// Answers that come too late.
    late: u32,
    /// Whether it has prepared a configuration, and waits for the order to apply it.
    prepared: bool,
    since: Instant,
    /// Whether the other end is closed: the child is about to end.
    hung_up: bool,
}

/// An order that a child answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Prepare,
    /// To apply a configuration: the first one, or the one that it has prepared.
    Apply,
}

/// What every new child gets.
pub(super) struct Start<'a> {
    pub(super) instance: &'a Instance,
    pub(super) journal: &'a Journal,
    pub(super) files: &'a LogFiles,
    pub(super) meeting_place: Option<&'a OwnedFd>,
    /// What it shares with other processes.
    pub(super) shares: Option<Shares<'a>>,
}

/// What a child shares with other processes.
pub(super) struct Shares<'a> {
    pub(super) commons: &'a Commons,
    /// Where it publishes its figures.
    pub(super) figures: &'a FiguresFile,
    /// Where the others do, and the sum of those that have ended.
    pub(super) others: OtherFiles<'a>,
}

/// Files with figures.
pub(super) struct OtherFiles<'a> {
    pub(super) round: Round,
    pub(super) files: Vec<BorrowedFd<'a>>,
}

/// A message from a child.
pub(super) enum Word {
    /// It has done what it was asked for.
    Ready,
    /// It refuses the configuration, for this reason.
    Refused(String),
    /// The answer to a request of `holdfast ctl`, with the client's number.
    Answered(u64, Answer),
    /// Its counts, as a text for the service manager.
    Counted(String),
}

impl Offspring {
    /// Starts a child with a configuration.
    pub(super) fn start(plan: &Plan, part: Part, with: &Start<'_>) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the child could not be started {}", errno(&error));
        let (channel, theirs) = Channel::pair().map_err(failed)?;
        // The program file as of the master's start, even if it was replaced since.
        let mut command = Command::new("/proc/self/exe");
        command.arg0(TITLE).env_clear().env(ROLE, Role::Child.name()).stdin(Stdio::from(theirs));
        let ChildPlan { env, uses_stderr, .. } = &plan.process().child;
        command.envs(env.iter().map(|(name, value)| (name, OsStr::from_bytes(value))));
        if !uses_stderr && let Some(file) = with.journal.for_stderr() {
            command.stderr(Stdio::from(file)).stdout(Stdio::null());
        }
        let process = command.spawn().map_err(failed)?;
        let since = Instant::now();
        let figures = with.shares.as_ref().map(|shares| shares.figures.share()).transpose().map_err(failed)?;
        let mut child =
            Self { process, channel, figures, asked: None, late: 0, prepared: false, since, hung_up: false };
        if let Some(shares) = &with.shares {
            // Before the configuration: the child may be asked for the sums as soon as it serves.
            child.share_figures(&shares.others).map_err(failed)?;
        }
        let mut order = Order::new(with.instance.clone());
        order.part = Some(part);
        let commons = with.shares.as_ref().map(|shares| shares.commons);
        child.send(Kind::Configure, order, plan, with.files, commons, Some(with))?;
        child.asked = Some(Asked::Apply);
        Ok(child)
    }

    /// Sends a configuration with its sockets and logs, for it to prepare.
    pub(super) fn offer(
        &mut self,
        plan: &Plan,
        instance: &Instance,
        files: &LogFiles,
        commons: Option<&Commons>,
    ) -> Result<(), String> {
        self.send(Kind::Prepare, Order::new(instance.clone()), plan, files, commons, None)?;
        self.asked = Some(Asked::Prepare);
        Ok(())
    }

    /// Lets it apply the configuration that it has prepared.
    pub(super) fn apply(&mut self) {
        if std::mem::take(&mut self.prepared) {
            self.order(Kind::Apply);
            self.asked = Some(Asked::Apply);
        }
    }

    /// Lets it forget the configuration that it has prepared.
    pub(super) fn withdraw(&mut self) {
        if std::mem::take(&mut self.prepared) {
            self.order(Kind::Withdraw);
        }
    }

    /// Its answer is not waited for any more. What it has been asked to prepare, it forgets.
    pub(super) fn stop_waiting(&mut self) {
        if self.asked.take() == Some(Asked::Prepare) {
            self.order(Kind::Withdraw);
        }
        self.late += 1;
    }

    /// Whether it owes an answer.
    pub(super) fn owes_answer(&self) -> bool {
        self.asked.is_some()
    }

    /// Whether it takes part in a change.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some() || self.prepared
    }

    fn send(
        &self,
        kind: Kind,
        mut order: Order,
        plan: &Plan,
        files: &LogFiles,
        commons: Option<&Commons>,
        start: Option<&Start<'_>>,
    ) -> Result<(), String> {
        let zones = commons.map(|commons| commons.zones(plan.zones())).transpose();
        let zones = zones.map_err(|error| format!("memfd_create() failed {}", errno(&error)))?.unwrap_or_default();
        order.zones = zones.iter().map(|(zone, _)| zone.clone()).collect();
        let bound = plan.bound.borrow();
        let sockets = bound.iter().flat_map(|bound| &bound.listeners).map(|listener| listener.descriptor());
        let memory = zones.iter().map(|(_, words)| words.descriptor());
        let mut descriptors: Vec<BorrowedFd<'_>> = memory.chain(sockets).collect();
        let listeners = bound.iter().map(|bound| (bound.name(), bound.listeners.len())).collect();
        (order.texts, order.listeners) = (plan.texts.borrow().clone(), listeners);
        order.tickets = plan.registry.ticket_states();
        add_logs(files, &mut order, &mut descriptors);
        if let Some(Start { meeting_place, shares, .. }) = start {
            order.meeting_place = meeting_place.is_some();
            descriptors.extend(meeting_place.map(|place| place.as_fd()));
            if let Some(Shares { commons, figures, .. }) = shares {
                commons.add(figures, &mut order, &mut descriptors);
            }
        }
        let sent = self.channel.send_body(kind, &order.encode(), &descriptors);
        sent.map_err(|error| format!("the child takes no orders {}", errno(&error)))
    }

    /// Sends newly opened logs.
    pub(super) fn reopen(&mut self, instance: &Instance, files: &LogFiles) {
        let mut order = Order::new(instance.clone());
        let mut descriptors = Vec::new();
        add_logs(files, &mut order, &mut descriptors);
        // If sending fails, the child is about to end, which another place detects.
        let _ = self.channel.send_body(Kind::Reopen, &order.encode(), &descriptors);
    }

    /// Sends changed certificate files.
    pub(super) fn renew_certificates(&mut self, instance: &Instance, texts: &Texts) {
        let mut order = Order::new(instance.clone());
        order.texts = texts.clone();
        // If sending fails, the child is about to end, which another place detects.
        let _ = self.channel.send_body(Kind::Certificates, &order.encode(), &[]);
    }

    /// Sends the files with the figures of the other processes.
    pub(super) fn share_figures(&self, others: &OtherFiles<'_>) -> io::Result<()> {
        self.channel.send_body(Kind::Figures, &others.round.encode(), &others.files)
    }

    /// Sends an order without a text.
    pub(super) fn order(&mut self, kind: Kind) {
        let _ = self.channel.send(kind, "");
    }

    /// Passes on a request of `holdfast ctl`.
    pub(super) fn pass_on(&self, packet: &str) -> io::Result<()> {
        self.channel.send(Kind::Ctl, packet)
    }

    /// The process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The time since its start.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether it may still send something.
    pub(super) fn speaks(&self) -> bool {
        !self.hung_up
    }

    /// Receives the next message, if any.
    pub(super) fn listen(&mut self) -> Option<Word> {
        if self.hung_up {
            return None;
        }
        match self.channel.receive() {
            Ok(mut packet) if packet.kind == Kind::CtlAnswer => {
                let (id, answer) = ctl_work::decode_answer(&packet.take_body().ok()?)?;
                Some(Word::Answered(id, answer))
            }
            Ok(packet) if packet.kind == Kind::Counts => {
                Some(Word::Counted(String::from_utf8_lossy(&packet.text).into_owned()))
            }
            Ok(packet) if matches!(packet.kind, Kind::Ready | Kind::Refused) && self.late > 0 => {
                self.late -= 1;
                None
            }
            Ok(packet) => match (packet.kind, self.asked) {
                (Kind::Ready, Some(asked)) => {
                    (self.asked, self.prepared) = (None, asked == Asked::Prepare);
                    Some(Word::Ready)
                }
                (Kind::Refused, Some(_)) => {
                    self.asked = None;
                    Some(Word::Refused(String::from_utf8_lossy(&packet.text).into_owned()))
                }
                _ => None,
            },
            Err(error) => {
                self.hung_up = !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
                None
            }
        }
    }

    /// The child's lifetime, if it has ended. Logs its end in nginx's words.
    pub(super) fn ended(&mut self, journal: &Journal) -> Option<Duration> {
        let status = self.process.try_wait().ok()??;
        let pid = self.process.id();
        let (level, text) = describe(status);
        journal.log(level, &format!("worker process {pid} {text}"));
        Some(self.since.elapsed())
    }

    /// Kills it.
    pub(super) fn kill(&mut self) {
        let _ = self.process.kill();
    }
}

fn add_logs<'f>(files: &'f LogFiles, order: &mut Order, descriptors: &mut Vec<BorrowedFd<'f>>) {
    for (path, file) in &files.files {
        order.logs.push(path.clone());
        descriptors.push(file.as_fd());
    }
}

/// The end of a process, as nginx writes it after its name and pid.
pub(super) fn describe(status: ExitStatus) -> (Level, String) {
    match (status.signal(), status.code()) {
        (Some(signal), _) if status.core_dumped() => (Level::Alert, format!("exited on signal {signal} (core dumped)")),
        (Some(signal), _) => (Level::Alert, format!("exited on signal {signal}")),
        (None, code) => (Level::Notice, format!("exited with code {}", code.unwrap_or(-1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_described_in_nginxs_words_at_its_levels() {
        // The upper byte is the exit code, the lower one the signal, with 0x80 for a core (wait(2)).
        for (raw, level, text) in [
            (0, Level::Notice, "exited with code 0"),
            (1 << 8, Level::Notice, "exited with code 1"),
            (9, Level::Alert, "exited on signal 9"),
            (0x80 + 11, Level::Alert, "exited on signal 11 (core dumped)"),
        ] {
            assert_eq!(describe(ExitStatus::from_raw(raw)), (level, text.to_owned()));
        }
    }
}
