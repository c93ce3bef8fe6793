//! Tests of the tools for tests.

mod conformance;
mod kubernetes;
