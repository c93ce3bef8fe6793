//! Content handlers: proxy, files, status page, and replies of our own.

pub(crate) mod cache;
pub(crate) mod carried;
pub(crate) mod empty_gif;
pub(crate) mod files;
pub(crate) mod filtered;
pub(crate) mod proxy;
pub(crate) mod rate;
pub(crate) mod reply;
pub(crate) mod slices;
pub(crate) mod status;
pub(crate) mod status_page;
