//! A response cache without disk and clock: what a response says about storing it, its key, its file format, and the
//! index of the files. Bytes and times come in, decisions come out. The gateway owns the files and the sockets.

mod entry;
mod freshness;
mod index;
mod key;
mod news;
mod snapshot;
mod vary;

pub use entry::{BODY_START_MAX, Entry, EntryFault, FIXED_BYTES, Parsed, is_foreign};
pub use freshness::{Freshness, Ignored, Said, allows_authorized};
pub use index::{Entered, Found, Full, Index, Lock, Place, Record, Stored};
pub use key::{Key, Levels};
pub use news::{NEWS_WORDS, News};
pub use snapshot::{RECORD_BYTES, SnapshotFault, decode_snapshot, encode_snapshot};
pub use vary::{VARY_BYTES_MAX, is_kept_apart, variant_of};
