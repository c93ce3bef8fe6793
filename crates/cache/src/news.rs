//! What the processes of one installation tell each other about a cache's files, as words of shared memory. The files are the
//! truth: news that is lost costs a look at the disk.

use crate::index::Record;
use crate::key::Key;

/// Words of one piece of news.
pub const NEWS_WORDS: usize = 12;

/// A change of an index that the other processes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// A file exists, and was used now.
    File(Record),
    /// A file was removed.
    Gone(Key),
    /// A response was removed with all its variants.
    Purged(Key),
    /// A key is answered with a status for some time.
    Status {
        /// The key.
        key: Key,
        /// The tag of the key that all variants share.
        tag: u64,
        /// The status.
        status: u16,
        /// Until when, in seconds since the epoch.
        until_s: i64,
    },
}

const FILE: u32 = 1;
const GONE: u32 = 2;
const PURGED: u32 = 3;
const STATUS: u32 = 4;

impl News {
    /// Encodes it. The first word is a checksum over the number and the other words.
    pub fn encode(self, number: u32) -> [u32; NEWS_WORDS] {
        let (kind, key, numbers) = match self {
            Self::File(Record { key, tag, bytes, expires_s }) => (FILE, key, [tag, bytes, expires_s.cast_unsigned()]),
            Self::Gone(key) => (GONE, key, [0; 3]),
            Self::Purged(key) => (PURGED, key, [0; 3]),
            Self::Status { key, tag, status, until_s } => {
                (STATUS, key, [tag, u64::from(status), until_s.cast_unsigned()])
            }
        };
        let halves = numbers.into_iter().flat_map(|number| [number as u32, (number >> 32) as u32]);
        let mut words = [0; NEWS_WORDS];
        let rest = [kind].into_iter().chain(key.words()).chain(halves);
        words.iter_mut().skip(1).zip(rest).for_each(|(word, value)| *word = value);
        words[0] = checksum(number, &words);
        words
    }

    /// Decodes the news with this number; `None` if the words are torn or other news.
    pub fn decode(number: u32, words: &[u32; NEWS_WORDS]) -> Option<Self> {
        let [written, kind, a, b, c, d, rest @ ..] = *words;
        if written != checksum(number, words) {
            return None;
        }
        let key = Key::of_words([a, b, c, d]);
        let half = |at: usize| u64::from(rest[2 * at]) | u64::from(rest[2 * at + 1]) << 32;
        let (tag, second, time_s) = (half(0), half(1), half(2).cast_signed());
        match kind {
            FILE => Some(Self::File(Record { key, tag, bytes: second, expires_s: time_s })),
            GONE => Some(Self::Gone(key)),
            PURGED => Some(Self::Purged(key)),
            STATUS => Some(Self::Status { key, tag, status: u16::try_from(second).ok()?, until_s: time_s }),
            _ => None,
        }
    }
}

fn checksum(number: u32, words: &[u32; NEWS_WORDS]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    for word in &words[1..] {
        hasher.update(&word.to_le_bytes());
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn news() -> impl Strategy<Value = News> {
        let key = any::<[u8; 16]>().prop_map(Key);
        prop_oneof![
            (key.clone(), any::<(u64, u64, i64)>()).prop_map(|(key, (tag, bytes, expires_s))| News::File(Record {
                key,
                tag,
                bytes,
                expires_s
            })),
            key.clone().prop_map(News::Gone),
            key.clone().prop_map(News::Purged),
            (key, any::<(u64, u16, i64)>()).prop_map(|(key, (tag, status, until_s))| News::Status {
                key,
                tag,
                status,
                until_s
            }),
        ]
    }

    proptest! {
        #[test]
        fn news_comes_back_as_it_was(news in news(), number: u32) {
            prop_assert_eq!(News::decode(number, &news.encode(number)), Some(news));
        }

        #[test]
        fn torn_and_other_news_is_refused(one in news(), other in news(), number: u32, cut in 1..NEWS_WORDS) {
            let (one, other) = (one.encode(number), other.encode(number.wrapping_add(1)));
            let mut torn = one;
            torn[cut..].copy_from_slice(&other[cut..]);
            prop_assert_eq!(News::decode(number, &torn).is_some(), torn == one);
            prop_assert_eq!(News::decode(number.wrapping_add(16_384), &one), None);
        }
    }
}
