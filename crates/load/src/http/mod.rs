//! HTTP/1.1 as a protocol of the load: connections, the requests on them, their responses. When a request is due is the
//! pacer's business, what happened to it goes to the recorder; this is the driver between them, called by `worker`.

mod connection;
mod pool;
mod response;

pub(crate) use pool::Http;
