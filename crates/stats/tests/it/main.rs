//! The integration tests of `stats`, one module per subject.

mod verdict;
