//! The integration tests of `origin`, one module per subject.

mod fastcgi;
mod faults;
mod http2;
mod pages;
mod robust;
mod talk;
mod tcp;
mod tls;
mod tunnels;
mod websocket;
