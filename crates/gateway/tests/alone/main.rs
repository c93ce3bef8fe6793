//! Tests of the gateway that must not run beside others: what they measure depends on how much memory the kernel gives to sockets and
//! how fast this process takes bytes. Cargo runs one program after the other, so a program of their own is enough.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod memory;
