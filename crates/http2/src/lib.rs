//! HTTP/2 (RFC 9113) for both roles, as a state machine: bytes and `now` come in as arguments, events and bytes come
//! out. There is no socket, clock, thread or random source here. The gateway, the origin and the load generator call
//! it.
//!
//! The owner of a connection reads from its socket, and passes the bytes to [`Connection::receive`] until that returns
//! no more events. Bytes to send are appended to the owner's buffer. Heads are decoded into the owner's [`Head`], and
//! DATA is returned as a part of the bytes that were read: an idle connection has no buffer.
//!
//! ```
//! use http2::{Config, Connection, Event, Head, RequestLine, Role};
//!
//! let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
//! let mut client = Connection::new(Role::Client, Config::default(), 0, &mut to_server);
//! let mut server = Connection::new(Role::Server, Config::default(), 0, &mut to_client);
//! let request = RequestLine { method: b"GET", scheme: b"https", authority: b"example.org", path: b"/", ..Default::default() };
//! let asked = client.open(&request, true, &mut to_server, |_| ()).unwrap();
//!
//! let (mut head, mut input) = (Head::default(), &to_server[..]);
//! while let Some(event) = server.receive(0, &mut input, &mut head, &mut to_client).unwrap() {
//!     if let Event::Head { stream, end: true } = event {
//!         assert_eq!(head.path.of(&head.bytes), b"/");
//!         server.respond(stream, 200, false, &mut to_client, |fields| fields.add(b"Server", b"example").unwrap()).unwrap();
//!         assert_eq!(server.send_data(stream, b"hello", true, &mut to_client, 64 * 1024), Ok(5));
//!     }
//! }
//!
//! let mut input = &to_client[..];
//! let mut body = Vec::new();
//! while let Some(event) = client.receive(0, &mut input, &mut head, &mut to_server).unwrap() {
//!     if let Event::Data { stream, bytes, .. } = event {
//!         assert_eq!(stream, asked);
//!         body.extend_from_slice(bytes);
//!     }
//! }
//! assert_eq!(body, b"hello");
//! ```

mod abuse;
mod check;
mod code;
mod connection;
mod event;
mod frame;
mod head;
pub mod hpack;
mod priority;
mod reason;
mod settings;
mod streams;

pub use check::FieldFault;
pub use code::ErrorCode;
pub use connection::{Connection, Fields, OpenFault, RequestLine, SendFault};
pub use event::{Closed, Event, ResetBy, StreamId};
pub use frame::PREFACE;
pub use head::{Head, HeadKind};
pub use priority::Priority;
pub use reason::{HeadFault, Reason};
pub use settings::{Config, PeerSettings, Role};
