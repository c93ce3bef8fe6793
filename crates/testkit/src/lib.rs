//! Tools for tests that talk to the gateway: the real gateway on worker threads of the test's process ([`Gateway`]),
//! upstreams that play a script ([`Peer`]), and clients that control each byte ([`Talk`]). Only tests use it. Every wait
//! ends with its event or fails the test at [`DEADLINE`]; nothing here sleeps and hopes. It has its own HTTP parser, so
//! that a mistake in the product's codecs does not hide itself.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod authority;
mod browser;
mod datagrams;
mod fetch;
mod gateway;
mod http2_service;
mod http2_talk;
pub mod kubernetes;
mod message;
pub mod name_server;
mod namespaces;
mod nats;
mod peer;
mod port;
mod program;
mod responder;
mod running;
mod secured;
pub mod sides;
mod signal;
pub mod site;
mod skip;
mod small_disk;
mod talk;

pub use crate::authority::{Authority, Issued};
pub use crate::browser::{Browser, Seen, Window, assert_page_holds};
pub use crate::datagrams::{DATAGRAM_BYTES_MAX, DatagramPeer, DatagramTalk};
pub use crate::fetch::{ask, fetch};
pub use crate::gateway::{Explainer, Gateway};
pub use crate::http2_service::{Asked, Http2Service};
pub use crate::http2_talk::{Answer, Http2Talk, http2_block, http2_frame};
pub use crate::message::{Message, Request, Response};
pub use crate::name_server::NameServer;
pub use crate::namespaces::{with_own_mounts, with_own_network};
pub use crate::nats::Nats;
pub use crate::peer::{Deaf, Peer, Queued, Refusing, Then};
pub use crate::port::free_port;
pub use crate::program::{assert_metrics_are_sound, debian_nginx, peer_or_skip, peer_program};
pub use crate::responder::{Habit, Responder, names_responder};
pub use crate::running::{Ended, Running, output_for};
pub use crate::signal::{Signal, until};
pub use crate::skip::skip;
pub use crate::small_disk::SmallDisk;
pub use crate::talk::{Came, End, Talk};

use std::time::Duration;

/// No step of a conversation takes longer, however loaded the machine is.
pub const DEADLINE: Duration = Duration::from_secs(20);
