//! The part of the installation that one process is (`worker_groups`). What a process counts by itself is divided among
//! the processes, so that their sum is what is written. A part is rounded up, so it is never 0.

/// The part of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 0.
    pub index: u16,
    /// The number of processes.
    pub of: u16,
    /// `worker_connections` of each worker, if it is not what is written: there are more processes than workers were asked
    /// for.
    pub worker_connections: Option<u32>,
}

impl Default for Share {
    /// The whole.
    fn default() -> Self {
        Self { index: 0, of: 1, worker_connections: None }
    }
}

impl Share {
    /// This process's part of a limit; that of 0 is 0, which means that there is no limit.
    pub(crate) fn divide<N>(self, limit: N) -> N
    where
        N: Copy + TryFrom<u64> + Into<u64>,
    {
        let part = limit.into().div_ceil(u64::from(self.of.max(1)));
        // A part is not larger than the whole, so it fits.
        N::try_from(part).unwrap_or(limit)
    }

    /// `worker_connections` of each worker.
    pub(crate) fn connections(self, written: u32) -> u32 {
        self.worker_connections.unwrap_or(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_are_never_zero() {
        let three = Share { of: 3, ..Share::default() };
        assert_eq!([0, 1, 2, 3, 4, 300, 301].map(|limit: u32| three.divide(limit)), [0, 1, 1, 1, 2, 100, 101]);
        assert_eq!(three.divide(u64::MAX), u64::MAX / 3);
        assert_eq!([0, 1, u32::MAX].map(|limit| Share::default().divide(limit)), [0, 1, u32::MAX]);
    }
}
