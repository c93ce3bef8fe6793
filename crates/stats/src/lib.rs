//! What measurements show and how certain that is: histograms of durations, summaries of rounds, intervals, tests of
//! significance, and one `verdict` over a paired experiment. Numbers come in, numbers and their uncertainty go out. There is no
//! clock and no thread, and the only source of randomness is the caller's seed.
//!
//! What is *not* here: how things are measured (`load`, `lab`), and how they are shown (`report`).
//!
//! * [`Histogram`] holds durations of one kind, merges, and survives being written to a file without loss.
//! * [`Summary`] is how a handful of rounds is ever shown: median, spread and count together.
//! * [`verdict::judge`] compares two arms round by round; [`hodges_lehmann`], [`signed_rank`] and [`mann_whitney`] are its parts.

// Ranks and probabilities of 0 and 1 in tests are whole or half numbers, which doubles hold exactly.
#![cfg_attr(test, allow(clippy::float_cmp))]

pub mod bootstrap;
pub mod histogram;
pub mod hodges_lehmann;
pub mod interval;
pub mod mann_whitney;
pub mod normal;
pub mod random;
pub mod ranks;
pub mod rounds;
pub mod signed_rank;
pub mod spectrum;
pub mod summary;
pub mod verdict;

pub use histogram::Histogram;
pub use interval::Interval;
pub use random::Random;
pub use summary::Summary;
