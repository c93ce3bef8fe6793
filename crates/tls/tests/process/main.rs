//! Tests of `tls` that must have the process for themselves: they measure its resident memory, which other tests would change.

mod memory;
