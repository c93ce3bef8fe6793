//! The event loop of a data-plane thread: epoll in edge-triggered readiness style, tasks, timers, sockets, wake-ups from
//! other threads, and the system calls that these need. It knows no protocol. `gateway`, `load` and `origin` are on it.
//!
//! One [`Reactor`] belongs to one thread. A *task* is an index that events are delivered to; what a task does is its
//! owner's business. A [`Stream`] is a connected socket registered with the reactor and owned by a task; [`Parked`] is the
//! same socket without a task, which another thread may take over.

mod address;
mod clock;
mod connect;
mod counters;
mod datagram;
mod file;
mod guarded_file;
mod listener;
mod mailbox;
mod offload;
mod parked;
mod poller;
mod process;
mod scratch;
mod stream;
mod sys;
mod sys_datagram;
mod task;
mod timer;
mod wait;

mod reactor;

pub use clock::{monotonic_millis, thread_cpu, wall_clock};
pub use connect::ConnectOptions;
pub use counters::SharedCounters;
pub use datagram::{BATCH_MAX, Datagram, Datagrams, Sent};
pub use file::{
    FileKind, FileStatus, OpenFile, c_path, free_bytes, is_link_loop, open_file, open_file_cached, read_at,
    read_cached_with, read_into, reserve,
};
pub use guarded_file::{LinkRule, open_guarded, open_guarded_cached, status_guarded};
pub use listener::{AcceptQueue, Accepted, BacklogGranted, ListenOptions, Listener, SoKeepalive};
pub use mailbox::Mailbox;
pub use offload::{Offload, Pending};
pub use parked::{Parked, ParkedId};
pub use poller::SourceId;
pub use process::{
    descriptor_limit, inherited_channel, is_shortage, raise_descriptor_limit, return_free_memory, set_descriptor_limit,
};
pub use reactor::{Reactor, Ready};
pub use scratch::SCRATCH_BYTES;
pub use stream::{Peeked, Progress, Read, Stream, TcpState};
pub use task::TaskId;
pub use terms::{Micros, Millis, PeerAddress, U48};
pub use timer::Wheel;
pub use wait::{Awaited, Interest, Leaving, Waited, Woken};
