//! The steps of an exchange besides its content, from routing to the log line.

pub(crate) mod access;
pub(crate) mod limits;
pub(crate) mod real_client;
pub(crate) mod redirect;
pub(crate) mod rewrite;
pub(crate) mod settle;
pub(crate) mod try_files;
