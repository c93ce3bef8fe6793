//! HTTP as a protocol of the load, over HTTP/1.1 or HTTP/2: connections, their requests and their responses. The pacer
//! decides when a request is due, and the recorder takes the results. This is the driver between them; `worker` calls it.

mod connection;
mod multiplex;
mod pool;
mod ramp;
mod response;
mod scripted;
mod streams;
mod uploads;
mod users;

pub(crate) use pool::Http;
