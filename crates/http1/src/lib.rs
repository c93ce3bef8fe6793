//! HTTP/1.0 and HTTP/1.1 for both roles: heads, framing, the chunked coding, hop-by-hop rules, limits. Pure: bytes come
//! in as arguments and spans, decisions and bytes come out; there is no socket, clock or thread here. The gateway, the
//! built-in origin and the load generator call it.
//!
//! Ambiguous input is refused, never repaired: sections R and S of the catalogue of bad input are the tests of this
//! crate, by number.
//!
//! # Decision: a tokenizer of our own
//!
//! `httparse` is faster at tokenizing, but accepts what we refuse or cannot tell apart afterwards (bare LF without a
//! choice, lower-case methods), returns slices instead of positions, and leaves names,
//! framing, Host and Connection for a second pass. Ours does all of it in one pass without `unsafe`: values eight bytes
//! at a time, names by a class table, known names by comparing two words.
//!
//! Nanoseconds per head, best of 400 batches of 500, recycled structs, no LTO, one shared core of a machine under full
//! load, so only the ratios say much; `benches/heads.rs` repeats it:
//!
//! | head | bytes | this crate, all decisions | `httparse`, tokens only |
//! |---|---|---|---|
//! | wrk | 50 | 130 | 81 |
//! | API call, 8 fields | 308 | 430 | 234 |
//! | browser, 16 fields | 766 | 796 | 671 |
//! | response of nginx, static page | 238 | 446 | 212 |

pub mod chunked;
mod connection;
pub mod edit;
pub mod encode;
pub mod error;
pub mod field;
mod framing;
pub mod hop;
pub mod limits;
mod method;
pub mod outgoing;
pub mod request;
pub mod response;
mod scan;
mod span;
pub mod status;
mod target;
mod trailers;

pub use connection::{ConnectionOptions, names_h2c, protocols};
pub use error::{ChunkError, LineFault, RequestError, ResponseError};
pub use field::{Field, FieldId, FieldSet};
pub use framing::Version;
pub use limits::{BareLf, Limits};
pub use method::Method;
pub use request::{BodyFraming, Parse, RequestHead, Upgrade, UpgradeKind};
pub use response::{RequestKind, ResponseFraming, ResponseHead, ResponseKind};
pub use scan::{HeadEnd, find_head_end};
pub use span::Span;
pub use target::{Host, Scheme, Target, TargetForm};
pub use trailers::Trailers;
