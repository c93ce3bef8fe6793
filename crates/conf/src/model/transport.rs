//! The transport of the proxy: connections, timeouts, buffers, retries.

use std::time::Duration;

use super::client::{Amount, TempPath, parse_rate, parse_temp_path};
use super::files::parse_buffers;
use super::settings::{At, Touched, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;
use crate::value::plain::{parse_flag, parse_u32};
use crate::value::size::{Buffers, parse_offset, parse_size};
use crate::value::template::has_variables;
use crate::value::time::parse_milliseconds;
use crate::value::words::NextUpstream;
use crate::value::{Address, Host, Parsed, Template, address, invalid_parameter};

/// `proxy_bind`.
#[derive(Debug, Clone, PartialEq)]
pub struct Bind {
    /// The local address.
    pub address: BindAddress,
    /// The address need not be ours (`IP_TRANSPARENT`).
    pub transparent: bool,
}

/// The address of a `proxy_bind`.
#[derive(Debug, Clone, PartialEq)]
pub enum BindAddress {
    /// Known when the configuration is read; port 0 leaves the choice to the kernel.
    Fixed(Address),
    /// Evaluated for each connection; an empty string binds nothing.
    Template(Template),
}

settings! {
    /// The transport of a location's proxy.
    pub struct TransportSettings {
        /// Local address of connections.
        bind: Option<Bind> = None, "proxy_bind" => whole(parse_bind);
        /// Local addresses that connections are spread over.
        bind_pool: Vec<Address> = Vec::new(), "proxy_bind_pool" => each(parse_pool_address);
        /// `SO_KEEPALIVE`.
        socket_keepalive: bool = false, "proxy_socket_keepalive" => value(parse_flag);
        /// `SO_SNDBUF` in bytes; `None` leaves the kernel's.
        socket_sndbuf: Option<u64> = None, "proxy_socket_sndbuf" => value(parse_socket_buffer);
        /// `SO_RCVBUF` in bytes; `None` leaves the kernel's.
        socket_rcvbuf: Option<u64> = None, "proxy_socket_rcvbuf" => value(parse_socket_buffer);
        /// Checked, and of no effect on Linux.
        send_lowat: u64 = 0, "proxy_send_lowat" => value(parse_size);
        /// Longest time of a connect.
        connect_timeout: Duration = Duration::from_mins(1), "proxy_connect_timeout" => value(parse_milliseconds);
        /// Longest time between two writes.
        send_timeout: Duration = Duration::from_mins(1), "proxy_send_timeout" => value(parse_milliseconds);
        /// Longest time between two reads.
        read_timeout: Duration = Duration::from_mins(1), "proxy_read_timeout" => value(parse_milliseconds);
        /// Longest time from the head of the request to the end of the response; zero for no limit.
        request_timeout: Duration = Duration::ZERO, "proxy_request_timeout" => value(parse_milliseconds);
        /// Failures after which the next peer is tried.
        next_upstream: NextUpstream = NextUpstream::ERROR.with(NextUpstream::TIMEOUT), "proxy_next_upstream" => whole(parse_next);
        /// Most peers to try; 0 for no limit.
        next_upstream_tries: u32 = 0, "proxy_next_upstream_tries" => value(parse_u32);
        /// Time for all tries; zero for no limit.
        next_upstream_timeout: Duration = Duration::ZERO, "proxy_next_upstream_timeout" => value(parse_milliseconds);
        /// Whether peers are asked once more when each has failed.
        next_upstream_again: bool = false, "proxy_next_upstream_again" => value(parse_flag);
        /// Pause before each further try; zero for none.
        next_upstream_pause: Duration = Duration::ZERO, "proxy_next_upstream_pause" => value(parse_milliseconds);
        /// Whether the upstream request continues after the client has left.
        ignore_client_abort: bool = false, "proxy_ignore_client_abort" => value(parse_flag);
        /// Whether the whole request body is read before it goes to the upstream.
        request_buffering: bool = true, "proxy_request_buffering" => value(parse_flag);
        /// Whether the response may be read from the upstream faster than the client reads it.
        buffering: bool = true, "proxy_buffering" => value(parse_flag);
        /// Bytes for the head, and for the whole response if buffering is off.
        buffer_size: u64 = 4 << 10, "proxy_buffer_size" => value(parse_size);
        /// Buffers for one response.
        buffers: Buffers = Buffers { count: 8, size: 4 << 10 }, "proxy_buffers" => whole(parse_buffers);
        /// Most bytes being sent while more is read. This is the written value; `busy_size()` gives the effective one.
        busy_buffers_size: Option<u64> = None, "proxy_busy_buffers_size" => option(parse_size);
        /// Bytes of one temporary file; 0 switches files off.
        max_temp_file_size: u64 = 1 << 30, "proxy_max_temp_file_size" => value(parse_offset);
        /// Bytes written to a temporary file at once. This is the written value; `temp_file_write_size()` gives the
        /// effective one.
        temp_file_write: Option<u64> = None, "proxy_temp_file_write_size" => option(parse_size);
        /// Where temporary files are.
        temp_path: TempPath = TempPath::at("proxy_temp"), "proxy_temp_path" => whole(parse_temp_path);
        /// Bytes per second from the upstream; 0 for no limit. Only with buffering.
        limit_rate: Amount = Amount::Fixed(0), "proxy_limit_rate" => value(parse_rate);
        /// Whether a non-idempotent request is replayed if it is certain that the upstream did not read it.
        retry_unsent: bool = false, "retry_unsent" => value(parse_flag);
    }
}

impl TransportSettings {
    /// The sizes that are checked against each other.
    pub(crate) fn sizes(&self) -> (u64, Buffers, Option<u64>, u64, Option<u64>) {
        (self.buffer_size, self.buffers, self.busy_buffers_size, self.max_temp_file_size, self.temp_file_write)
    }

    /// Whether a level sets one of the sizes that are checked against each other.
    pub(crate) fn sizes_touched(touched: &Touched, group: &'static str) -> bool {
        const FIELDS: [&str; 5] =
            ["buffer_size", "buffers", "busy_buffers_size", "max_temp_file_size", "temp_file_write"];
        FIELDS.iter().any(|field| touched.has(group, field))
    }

    /// The larger of `proxy_buffer_size` and one of the `proxy_buffers`.
    fn largest(&self) -> u64 {
        self.buffer_size.max(self.buffers.size)
    }

    /// Bytes that may be busy sending: twice the largest buffer unless written.
    pub fn busy_size(&self) -> u64 {
        self.busy_buffers_size.unwrap_or_else(|| self.largest().saturating_mul(2))
    }

    /// Bytes written to a temporary file at once: twice the largest buffer unless written.
    pub fn temp_file_write_size(&self) -> u64 {
        self.temp_file_write.unwrap_or_else(|| self.largest().saturating_mul(2))
    }

    /// Checks the sizes of one merged level against each other. `prefix` is that of the directives.
    pub(crate) fn check(&self, prefix: &str, span: impl Fn(&str) -> Span, out: &mut Vec<Diagnostic>) {
        let span = |name: &str| span(&format!("{prefix}{name}"));
        let both = format!("the maximum of the value of \"{prefix}buffer_size\" and one of the \"{prefix}buffers\"");
        if self.buffers.count < 2 {
            let message = format!("there must be at least 2 \"{prefix}buffers\"");
            out.push(Diagnostic::error(span("buffers"), message));
            return;
        }
        let busy = self.busy_size();
        if busy < self.largest() {
            let message = format!("\"{prefix}busy_buffers_size\" must be equal to or greater than {both}");
            out.push(
                Diagnostic::error(span("busy_buffers_size"), message)
                    .with_hint(format!("{busy} bytes may be busy, and the largest buffer has {}", self.largest())),
            );
        } else if busy > self.buffers.total() - self.buffers.size {
            let message = format!(
                "\"{prefix}busy_buffers_size\" must be less than the size of all \"{prefix}buffers\" minus one buffer"
            );
            out.push(Diagnostic::error(span("busy_buffers_size"), message).with_hint(format!(
                "{busy} bytes may be busy (twice the largest buffer unless written), and all buffers but one have {}",
                self.buffers.total() - self.buffers.size
            )));
        }
        if self.temp_file_write_size() < self.largest() {
            let message = format!("\"{prefix}temp_file_write_size\" must be equal to or greater than {both}");
            out.push(Diagnostic::error(span("temp_file_write_size"), message));
        }
        let file = self.max_temp_file_size;
        if file != 0 && file < self.largest() {
            let message = format!(
                "\"{prefix}max_temp_file_size\" must be equal to zero to disable temporary files usage or must be equal to or greater than {both}"
            );
            out.push(Diagnostic::error(span("max_temp_file_size"), message));
        }
    }
}

/// 0 leaves the kernel's size, as the default does.
fn parse_socket_buffer(name: &str, word: &Word) -> Parsed<Option<u64>> {
    parse_size(name, word).map(|size| (size > 0).then_some(size))
}

/// The words of `memcached_next_upstream`: an answer has no status.
const NEXT_MEMCACHED: [(&str, NextUpstream); 5] = [
    ("error", NextUpstream::ERROR),
    ("timeout", NextUpstream::TIMEOUT),
    ("invalid_response", NextUpstream::INVALID_HEADER),
    ("not_found", NextUpstream::HTTP_404),
    ("off", NextUpstream::OFF),
];

fn parse_next(at: &mut At<'_>) -> Parsed<NextUpstream> {
    let words = if at.name == "memcached_next_upstream" { &NEXT_MEMCACHED } else { NextUpstream::WORDS };
    let set = NextUpstream::parse_words(at.words(), words, at.out)?;
    Ok(if set.contains(NextUpstream::OFF) { NextUpstream::OFF } else { set })
}

pub(crate) fn parse_bind(at: &mut At<'_>) -> Parsed<Option<Bind>> {
    let word = at.word(0)?;
    if word.value == b"off" && at.words().len() == 1 {
        return Ok(None);
    }
    let transparent = match at.words().get(1) {
        None => false,
        Some(second) if second.value == b"transparent" => true,
        Some(second) => return Err(invalid_parameter(second)),
    };
    let address = if has_variables(&word.value) {
        BindAddress::Template(Template::parse(at.name, word)?)
    } else {
        BindAddress::Fixed(parse_local(word)?)
    };
    Ok(Some(Bind { address, transparent }))
}

/// Reads a local address: a number, with or without a port; a name is not looked up here.
fn parse_local(word: &Word) -> Parsed<Address> {
    let invalid = || {
        Diagnostic::error(word.span, format!("invalid address \"{}\"", word.text()))
            .with_hint("a local IP address, with or without a port")
    };
    // An IPv6 address may appear without brackets where no port follows.
    if let Ok(ip) = word.text().parse() {
        return Ok(Address { host: Host::Ip(ip), port: 0 });
    }
    let url = address::parse_url(&word.value).map_err(|_| invalid())?;
    match url.host {
        Host::Ip(_) if url.uri.is_empty() => Ok(Address { host: url.host, port: url.port.unwrap_or(0) }),
        _ => Err(invalid()),
    }
}

fn parse_pool_address(_name: &str, word: &Word) -> Parsed<Address> {
    parse_local(word)
}
