//! Figures that a process publishes for the others (`worker_groups`): a file in memory with its status and its totals, which its
//! owner writes and the others read. The master keeps the file, so the last figures of a killed process are not lost.
//!
//! Each of the two has two places, written in turns, each with a number and a checksum: a reader takes the newest place that is
//! complete. So no process waits, and a process that is killed while it writes spoils only one place.

use gateway::Totals;
use rustix::fs::{MemfdFlags, memfd_create};
use std::cmp::Reverse;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::os::unix::fs::FileExt as _;

/// Where the status and the totals are. Pages that are not written take no memory.
const STATUS: Places = Places { at: [0, 64 << 20], bytes_max: (64 << 20) - HEAD_BYTES };
const TOTALS: Places = Places { at: [128 << 20, (128 << 20) + 4096], bytes_max: 4096 - HEAD_BYTES };

/// Where a process tells which round of files it knows.
const KNOWN_AT: u64 = (128 << 20) + 8192;

/// Number, length, checksum.
const HEAD_WORDS: usize = 3;
const HEAD_BYTES: u64 = HEAD_WORDS as u64 * 8;

/// Most attempts of a reader. One fails if its owner publishes twice during it: that takes the owner as long as two status pages,
/// and the reader less than one, so a second failure is rare.
const ATTEMPTS_MAX: usize = 16;

/// What comes with the files of the other processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Round {
    /// The master counts: each set of files has a number.
    pub(super) number: u64,
    /// The first file is that of all processes that have ended.
    pub(super) has_ended: bool,
}

impl Round {
    /// The body of a message.
    pub(super) fn encode(self) -> Vec<u8> {
        let mut body = self.number.to_le_bytes().to_vec();
        body.push(u8::from(self.has_ended));
        body
    }

    /// `None`: the body is not understood.
    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let (number, rest) = body.split_first_chunk::<8>()?;
        let [has_ended] = rest else { return None };
        Some(Self { number: u64::from_le_bytes(*number), has_ended: *has_ended != 0 })
    }
}

/// The file, for a writer or for a reader. Only one handle may write the status, and only one the totals.
#[derive(Debug)]
pub(super) struct FiguresFile {
    file: File,
    /// The number of what this handle has written last.
    number: u64,
}

/// The two places of one kind of figures.
struct Places {
    at: [u64; 2],
    bytes_max: u64,
}

/// What is before the bytes of a place.
#[derive(Debug, Clone, Copy)]
struct Head {
    number: u64,
    bytes: u64,
    checksum: u64,
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

    /// Publishes a status, as `gateway` encodes it.
    pub(super) fn write_status(&mut self, status: &[u8]) -> io::Result<()> {
        self.write(&STATUS, status)
    }

    /// Publishes totals.
    pub(super) fn write_totals(&mut self, totals: &Totals) -> io::Result<()> {
        let bytes: Vec<u8> = totals.numbers().iter().flat_map(|number| number.to_le_bytes()).collect();
        self.write(&TOTALS, &bytes)
    }

    /// Its owner knows the files of this round.
    pub(super) fn set_known(&self, round: u64) -> io::Result<()> {
        self.file.write_all_at(&round.to_le_bytes(), KNOWN_AT)
    }

    /// The last round that its owner knows; 0 before the first.
    pub(super) fn known(&self) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, KNOWN_AT).map_or(0, |()| u64::from_le_bytes(bytes))
    }

    /// The newest status; `None` if there is none.
    pub(super) fn status(&self) -> Option<Vec<u8>> {
        STATUS.read(&self.file)
    }

    /// The newest totals; `None` if there are none.
    pub(super) fn totals(&self) -> Option<Totals> {
        let bytes = TOTALS.read(&self.file)?;
        let (numbers, _) = bytes.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
        Some(Totals::of_numbers(numbers.try_into().ok()?))
    }

    fn write(&mut self, places: &Places, body: &[u8]) -> io::Result<()> {
        let length = body.len() as u64;
        if length > places.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let number = self.number + 1;
        let words: [u64; HEAD_WORDS] = [number, length, checksum(number, body)];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(body);
        self.file.write_all_at(&bytes, places.at[(number % 2) as usize])?;
        self.number = number;
        Ok(())
    }
}

impl Places {
    /// The newest bytes. Both places may change while they are read: then it reads again.
    fn read(&self, file: &File) -> Option<Vec<u8>> {
        for _ in 0..ATTEMPTS_MAX {
            let mut heads: Vec<(u64, Head)> = self.at.iter().filter_map(|at| Some((*at, head(file, *at)?))).collect();
            if heads.is_empty() {
                return None;
            }
            heads.sort_by_key(|(_, head)| Reverse(head.number));
            // A place that is being written now is not complete, and the other one is.
            if let Some(found) = heads.into_iter().find_map(|(at, head)| self.body(file, at, head)) {
                return Some(found);
            }
        }
        None
    }

    fn body(&self, file: &File, at: u64, head: Head) -> Option<Vec<u8>> {
        let length = usize::try_from(head.bytes).ok().filter(|_| head.bytes <= self.bytes_max)?;
        let mut body = vec![0; length];
        file.read_exact_at(&mut body, at + HEAD_BYTES).ok()?;
        (checksum(head.number, &body) == head.checksum).then_some(body)
    }
}

fn head(file: &File, at: u64) -> Option<Head> {
    let mut bytes = [0; HEAD_BYTES as usize];
    file.read_exact_at(&mut bytes, at).ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    let [number, bytes, checksum] =
        words.try_into().ok().map(|words: [[u8; 8]; HEAD_WORDS]| words.map(u64::from_le_bytes))?;
    (number > 0).then_some(Head { number, bytes, checksum })
}

fn checksum(number: u64, body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(number);
    hasher.write_usize(body.len());
    hasher.write(body);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn status(number: u64) -> Vec<u8> {
        vec![b'x'; 20_000 + number as usize]
    }

    fn totals(number: u64) -> Totals {
        Totals { requests: number, waiting: number, ..Totals::default() }
    }

    #[test]
    fn a_round_is_known_when_its_owner_tells_so() {
        let file = FiguresFile::new().unwrap();
        assert_eq!(file.known(), 0);
        file.set_known(7).unwrap();
        assert_eq!(FiguresFile::over(file.file().try_clone().unwrap()).known(), 7);
        for has_ended in [false, true] {
            let round = Round { number: 1 << 40, has_ended };
            assert_eq!(Round::decode(&round.encode()), Some(round));
        }
        assert_eq!((Round::decode(b"ended"), Round::decode(&[0; 10])), (None, None));
    }

    #[test]
    fn the_newest_complete_figures_are_read() {
        let mut file = FiguresFile::new().unwrap();
        let mut of_totals = file.share().unwrap();
        assert_eq!((file.status(), file.totals()), (None, None));
        for number in 1..5 {
            file.write_status(&status(number)).unwrap();
            of_totals.write_totals(&totals(number)).unwrap();
            let other = FiguresFile::over(file.file().try_clone().unwrap());
            assert_eq!((other.status(), other.totals()), (Some(status(number)), Some(totals(number))));
        }
        // The fourth figures are in the first places: killed while it wrote them, the process has left the third.
        file.file().write_all_at(b"torn", STATUS.at[0] + HEAD_BYTES + 5000).unwrap();
        file.file().write_all_at(b"torn", TOTALS.at[0] + HEAD_BYTES + 20).unwrap();
        assert_eq!((file.status(), file.totals()), (Some(status(3)), Some(totals(3))));
    }

    #[test]
    fn figures_are_always_readable_and_never_go_back() {
        const WRITTEN: u64 = 500;
        let mut file = FiguresFile::new().unwrap();
        let mut of_totals = file.share().unwrap();
        file.write_status(&status(1)).unwrap();
        of_totals.write_totals(&totals(1)).unwrap();
        let reader = file.share().unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 2..=WRITTEN {
                    file.write_status(&status(number)).unwrap();
                    of_totals.write_totals(&totals(number)).unwrap();
                }
                ended.store(true, Ordering::Release);
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let (mut length, mut requests) = (0, 0);
                    while !ended.load(Ordering::Acquire) {
                        let now = reader.status().unwrap().len();
                        assert!(now >= length, "{now} after {length}");
                        let read = reader.totals().unwrap();
                        assert!(
                            read.requests >= requests && read.waiting == read.requests,
                            "{read:?} after {requests}"
                        );
                        (length, requests) = (now, read.requests);
                    }
                });
            }
        });
        assert_eq!((reader.status(), reader.totals()), (Some(status(WRITTEN)), Some(totals(WRITTEN))));
    }
}
