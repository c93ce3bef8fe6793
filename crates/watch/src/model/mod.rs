//! Evaluates sockets, counters and time for `watch`: histograms, logs and their reports, queues, listeners, destinations,
//! who closed first. Pure: sockets, counts and `now` are arguments, so everything is tested without a socket. The drivers
//! beside this folder have the kernel, the clock and the terminal.

pub(crate) mod account;
pub mod closers;
pub mod destinations;
pub(crate) mod json;
pub(crate) mod listeners;
pub(crate) mod log_file;
pub(crate) mod metrics;
pub(crate) mod missed;
pub(crate) mod picture;
pub mod piles;
pub(crate) mod series;
pub(crate) mod table;
pub(crate) mod tables;
pub mod tally;

#[cfg(test)]
pub(crate) mod tests {
    use sockdiag::{Socket, State};

    /// A socket with this state and these ends; its other fields do not matter.
    pub(crate) fn socket(state: State, local: &str, remote: &str) -> Socket {
        let ends = Socket::between(local.parse().expect("an address"), remote.parse().expect("an address"));
        Socket { state, ..ends }
    }
}
