//! Figures that a process publishes for the others (`worker_groups`): a file in memory with the totals and the status, which its
//! owner writes and the others read. The master keeps the file, so the last figures of a killed process are not lost.
//!
//! The file has two halves, written in turns, each with a number and a checksum: a reader takes the newest half that is
//! complete. So no process waits, and a process that is killed while it writes spoils only one half.

use gateway::Totals;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::os::unix::fs::FileExt as _;

/// Where the second half begins; pages that are not written take no memory.
const HALF_BYTES: u64 = 64 << 20;
/// Number, length, checksum, totals.
const HEAD_WORDS: usize = 3 + Totals::COUNT;
const HEAD_BYTES: usize = HEAD_WORDS * 8;

/// The body of the message with the files of other processes, if the first is that of all processes that have ended.
pub(super) const FIGURES_WITH_ENDED: &[u8] = b"ended";

/// The file, for its writer or for a reader.
#[derive(Debug)]
pub(super) struct FiguresFile {
    file: File,
    /// The number of the last figures that this process has written.
    number: u64,
}

/// Figures of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Figures {
    pub(super) totals: Totals,
    /// The status, as `gateway` encodes it.
    pub(super) status: Vec<u8>,
}

/// What is before the figures of a half.
#[derive(Debug, Clone, Copy)]
struct Head {
    number: u64,
    bytes: u64,
    checksum: u64,
    totals: Totals,
}

impl FiguresFile {
    /// A new file without figures.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self::over(File::from(memfd_create(c"figures", MemfdFlags::CLOEXEC)?)))
    }

    /// The file of another process, or this process's own one that the master made.
    pub(super) fn over(file: File) -> Self {
        Self { file, number: 0 }
    }

    /// Another handle of it.
    pub(super) fn share(&self) -> io::Result<Self> {
        Ok(Self::over(self.file.try_clone()?))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Publishes figures.
    pub(super) fn write(&mut self, figures: &Figures) -> io::Result<()> {
        if figures.status.len() as u64 + HEAD_BYTES as u64 > HALF_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.number += 1;
        let words = [self.number, figures.status.len() as u64, 0];
        let mut words: Vec<u64> = words.into_iter().chain(figures.totals.numbers()).collect();
        words[2] = checksum(&words, &figures.status);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(&figures.status);
        self.file.write_all_at(&bytes, self.number % 2 * HALF_BYTES)
    }

    /// The newest figures; `None` if there are none.
    pub(super) fn read(&self) -> Option<Figures> {
        // A half that is being written now is not complete, and the other one is.
        let mut heads: Vec<(u64, Head)> =
            [0, HALF_BYTES].into_iter().filter_map(|at| Some((at, self.head(at)?))).collect();
        heads.sort_by_key(|(_, head)| std::cmp::Reverse(head.number));
        heads.into_iter().find_map(|(at, head)| self.body(at, head))
    }

    /// The newest totals alone.
    pub(super) fn totals(&self) -> Option<Totals> {
        let heads = [0, HALF_BYTES].into_iter().filter_map(|at| self.head(at));
        heads.max_by_key(|head| head.number).map(|head| head.totals)
    }

    fn head(&self, at: u64) -> Option<Head> {
        let mut bytes = [0; HEAD_BYTES];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let [number, bytes, checksum, totals @ ..] = words.as_slice() else { return None };
        let totals = Totals::of_numbers(totals.try_into().ok()?);
        (*number > 0).then_some(Head { number: *number, bytes: *bytes, checksum: *checksum, totals })
    }

    fn body(&self, at: u64, head: Head) -> Option<Figures> {
        let Head { number, bytes, checksum: written, totals } = head;
        let length = usize::try_from(bytes).ok().filter(|_| bytes < HALF_BYTES)?;
        let mut status = vec![0; length];
        self.file.read_exact_at(&mut status, at + HEAD_BYTES as u64).ok()?;
        let words: Vec<u64> = [number, bytes, 0].into_iter().chain(totals.numbers()).collect();
        (checksum(&words, &status) == written).then_some(Figures { totals, status })
    }
}

fn checksum(words: &[u64], status: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for word in words {
        hasher.write_u64(*word);
    }
    hasher.write(status);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(number: u64) -> Figures {
        let totals = Totals { requests: number, ..Totals::default() };
        Figures { totals, status: vec![b'x'; 100_000 + number as usize] }
    }

    #[test]
    fn the_newest_complete_figures_are_read() {
        let mut file = FiguresFile::new().unwrap();
        assert_eq!((file.read(), file.totals()), (None, None));
        for number in 1..5 {
            file.write(&figures(number)).unwrap();
            let other = FiguresFile::over(file.file().try_clone().unwrap());
            assert_eq!((other.read(), other.totals()), (Some(figures(number)), Some(figures(number).totals)));
        }
        // The fourth figures are in the first half: killed while it wrote them, the process has left the third.
        file.file().write_all_at(b"torn", HEAD_BYTES as u64 + 5000).unwrap();
        assert_eq!(file.read(), Some(figures(3)));
    }
}
