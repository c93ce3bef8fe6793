//! What `watch` makes of sockets, counters and time: histograms, logs and their reports, queues, listeners, destinations, who
//! closed first. Pure: sockets, counts and `now` come in as arguments, so all of it is tested without a socket. The drivers
//! beside this folder hold the kernel, the clock and the terminal.

pub(super) mod account;
pub(crate) mod closers;
pub(super) mod destinations;
pub(super) mod listeners;
pub(super) mod log_file;
pub(super) mod metrics;
pub(super) mod missed;
pub(super) mod picture;
pub(crate) mod piles;
pub(crate) mod series;
pub(crate) mod table;
pub(super) mod tables;
pub(crate) mod tally;

#[cfg(test)]
pub(crate) mod tests {
    use sockdiag::{Socket, State, Timer};

    /// A socket of which only state and ends matter.
    pub(crate) fn socket(state: State, local: &str, remote: &str) -> Socket {
        Socket {
            state,
            v6_socket: false,
            local: local.parse().expect("an address"),
            remote: remote.parse().expect("an address"),
            interface: 0,
            cookie: 0,
            timer: Timer::Off,
            retransmits: 0,
            recv_queue: 0,
            send_queue: 0,
            uid: 0,
            inode: 0,
            cgroup: None,
            memory: None,
            tcp: None,
        }
    }
}
