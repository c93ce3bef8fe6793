//! Lets a new master take the sockets of children whose master was killed. A master opens an abstract Unix socket with
//! its pid in the name and passes it to its children. The children listen there once the master is gone. The kernel
//! tells each side the user of the other, so no other user can take part.

use super::channel::{Channel, Kind};
use super::order::Order;
use super::pid_file::{self, Written};
use super::sockets::{Bound, Sockets};
use conf::model::WorkerGroups;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reactor::{ListenOptions, Listener};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// An orphaned child answers at once. A child that has a master again does not answer, and we do not wait longer for
/// it.
const ANSWER_TIMEOUT_MS: u16 = 500;
/// Most children that one dead master can leave: those that served, and those that were about to replace them.
const CHILDREN_MAX: usize = 2 * WorkerGroups::MAX as usize;
/// Connections that wait there: a new master, and a `-s`.
const BACKLOG: i32 = 8;

/// Opens the socket by which the children of this process can be reached after its end.
pub(super) fn open_meeting_place() -> io::Result<OwnedFd> {
    let socket = unix_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    bind(&socket, &address(std::process::id())?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn unix_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Pids are unique within a pid namespace, abstract names within a network namespace.
fn address(master: u32) -> io::Result<SocketAddrUnix> {
    let namespace = std::fs::read_link("/proc/self/ns/pid")?;
    Ok(SocketAddrUnix::new_abstract_name(format!("holdfast {} {master}", namespace.display()).as_bytes())?)
}

/// The child's side: accepts a new master or a `-s` started by root or by the former master's user.
pub(super) fn accept_master(place: BorrowedFd<'_>, former_user: u32) -> io::Result<Option<Channel>> {
    let socket = match accept_with(place, SocketFlags::CLOEXEC) {
        Ok(socket) => socket,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let user = socket_peercred(&socket)?.uid.as_raw();
    if user != 0 && user != former_user {
        return Ok(None);
    }
    Channel::over(socket).map(Some)
}

/// Connects to a child of the dead master with this pid.
fn reach(master: u32) -> io::Result<Channel> {
    let socket = unix_socket(SocketFlags::CLOEXEC)?;
    connect(&socket, &address(master)?)?;
    let opened_by = socket_peercred(&socket)?;
    let user = opened_by.uid.as_raw();
    let is_ours = user == 0 || user == nix::unistd::geteuid().as_raw();
    if !is_ours || u32::try_from(opened_by.pid.as_raw_nonzero().get()) != Ok(master) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Channel::over(socket)
}

/// Sends an order to the children of a dead master. Returns whether there were any.
pub(crate) fn signal_left_behind(master: u32, end_now: bool) -> bool {
    let adopted = adopt(master);
    for (child, _) in &adopted {
        let _ = child.send(if end_now { Kind::Stop } else { Kind::Drain }, "");
    }
    !adopted.is_empty()
}

/// A child that continues to work, and the sockets that it passed on.
type Adopted = (Channel, Vec<Bound>);

fn adopt(master: u32) -> Vec<Adopted> {
    let mut adopted = Vec::new();
    while adopted.len() < CHILDREN_MAX {
        let Some(child) = reach(master).ok().and_then(ask_for_sockets) else { break };
        adopted.push(child);
    }
    adopted
}

fn ask_for_sockets(mut channel: Channel) -> Option<Adopted> {
    channel.send(Kind::Adopt, "").ok()?;
    loop {
        let ready =
            poll(&mut [PollFd::new(channel.descriptor(), PollFlags::POLLIN)], PollTimeout::from(ANSWER_TIMEOUT_MS));
        if ready != Ok(1) {
            return None;
        }
        match channel.receive() {
            Ok(mut packet) if packet.kind == Kind::Heritage => {
                let order = Order::decode(&packet.take_body().ok()?)?;
                let bound = bound_of(&order, packet.descriptors)?;
                return Some((channel, bound));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}

fn bound_of(order: &Order, descriptors: Vec<OwnedFd>) -> Option<Vec<Bound>> {
    let mut descriptors = descriptors.into_iter();
    let mut all = Vec::new();
    for (_, count) in &order.listeners {
        let mut listeners = Vec::new();
        for _ in 0..*count {
            listeners.push(Arc::new(Listener::from_inherited(descriptors.next()?).ok()?));
        }
        let Some(first) = listeners.first() else { continue };
        let (address, datagrams) = (first.local_address().ok().flatten(), first.is_datagrams());
        let options = ListenOptions { datagrams, ..ListenOptions::default() };
        // The socket's real options are unknown; those of the configuration are set when it is applied.
        all.extend(address.map(|address| Bound { address, options, listeners }));
    }
    Some(all)
}

/// Takes over the sockets of the children whose master, by its pid file, has died. The children continue until they are
/// told to finish.
pub(super) fn adopt_by_pid_file(path: &Path, sockets: &mut Sockets) -> Vec<Channel> {
    let mut channels = Vec::new();
    for path in [path.to_path_buf(), pid_file::old_path(path)] {
        let Ok(Written::Ended(master)) = pid_file::read(&path) else { continue };
        for (channel, bound) in adopt(master) {
            sockets.take_over(bound);
            channels.push(channel);
        }
    }
    channels
}
