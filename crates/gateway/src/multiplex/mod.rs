//! Shared by HTTP/2 connections to clients and to upstreams: an engine, frames for the socket, and the waiting bytes of
//! each stream. It knows no socket. The sessions of both sides call it.

pub(crate) mod carried;
pub(crate) mod failure;
pub(crate) mod head;
pub(crate) mod stream;
