//! The integration tests of `sockdiag`, one module per subject.

mod against_ss;
mod churn;
mod elsewhere;
mod filters_against_ss;
mod namespaces;
