//! The integration tests of `lab`, one module per subject.

mod judging;
mod reading;
mod recorded;
mod records;
mod report;
mod schema;
mod stage;
mod staging;
mod sweeping;
