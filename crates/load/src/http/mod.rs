//! HTTP as a protocol of the load, over HTTP/1.1 or over streams of HTTP/2: connections, the requests on them, their responses. When a request is due is the
//! pacer's business, what happened to it goes to the recorder; this is the driver between them, called by `worker`.

mod connection;
mod multiplex;
mod pool;
mod response;
mod streams;

pub(crate) use pool::Http;
