//! The integration tests of `transport`, one module per subject.

mod secure;
