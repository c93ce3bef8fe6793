//! Children whose master has died without telling them: where they can be reached, and how a new master takes their sockets
//! over. A master opens an abstract Unix socket that has its pid in its name, and hands it to its children, who listen there
//! once they are alone. The kernel tells each side who the other is, so no other user can take part.

use super::channel::{Channel, Kind};
use super::order::Order;
use super::pid_file::{self, Written};
use super::sockets::{Bound, Sockets};
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

/// A child that is alone looks at once; one that has a master again does not answer, and is not waited for longer.
const ANSWER_TIMEOUT_MS: u16 = 500;
/// Children that one dead master can have left working: the one that served, and one that was about to take over.
const CHILDREN_MAX: usize = 2;
/// Those who wait to be heard there: a new master, and a `-s`.
const BACKLOG: i32 = 8;

/// Opens the place where the children of this process can be reached when it is gone.
pub(super) fn open_meeting_place() -> io::Result<OwnedFd> {
    let socket = unix_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    bind(&socket, &address(std::process::id())?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn unix_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Pids are unique within their namespace, and abstract names within that of the network.
fn address(master: u32) -> io::Result<SocketAddrUnix> {
    let namespace = std::fs::read_link("/proc/self/ns/pid")?;
    Ok(SocketAddrUnix::new_abstract_name(format!("holdfast {} {master}", namespace.display()).as_bytes())?)
}

/// A child's side: the next master, or `-s`, that root or the user of the former master has started.
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

/// A line to a child that a master with this pid has left behind.
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

/// Tells the children that a dead master has left behind; whether there were any.
pub(crate) fn tell_left_behind(master: u32, end_now: bool) -> bool {
    let adopted = adopt(master);
    for (child, _) in &adopted {
        let _ = child.send(if end_now { Kind::Stop } else { Kind::Drain }, "");
    }
    !adopted.is_empty()
}

/// A child that works on, and the sockets that it gave.
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
        let address = listeners.first().and_then(|first| first.local_address().ok().flatten());
        // Its real options are not known; those of the configuration are set when it is taken on.
        all.extend(address.map(|address| Bound { address, options: ListenOptions::default(), listeners }));
    }
    Some(all)
}

/// Takes over the sockets of children whose master, by its pid file, has died; they go on until they are told to finish.
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
