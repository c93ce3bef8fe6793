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
    use sockdiag::{Socket, State};

    /// A socket of which only state and ends matter.
    pub(crate) fn socket(state: State, local: &str, remote: &str) -> Socket {
        let ends = Socket::between(local.parse().expect("an address"), remote.parse().expect("an address"));
        Socket { state, ..ends }
    }
}
