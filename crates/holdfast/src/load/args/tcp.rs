//! The flags of a load over TCP (`tcp://`, `tls://`), and which of the other flags go with it.

use super::LoadArgs;
use crate::typed::bytes;
use load::{Exchange, Reply, Url};

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "For tcp:// and tls:// URLs")]
pub(super) struct TcpFlags {
    /// Bytes of each message, 128 if not given; 0 sends nothing, and needs --no-keepalive
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    size: Option<u64>,
    /// What must come back for each message: echo (the same bytes, compared), none, or this many bytes; none with --size 0
    #[arg(long, value_name = "echo|none|BYTES", value_parser = parse_reply)]
    reply: Option<Reply>,
}

fn parse_reply(text: &str) -> Result<Reply, String> {
    text.parse()
}

impl TcpFlags {
    /// The first flag that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [(self.size.is_some(), "--size"), (self.reply.is_some(), "--reply")];
        given.iter().find(|(given, _)| *given).map(|(_, name)| *name)
    }

    /// The message and its reply.
    pub(super) fn exchange(&self) -> Exchange {
        let sound = Exchange::default();
        let bytes = self.size.map_or(sound.bytes, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let reply = self.reply.unwrap_or(if bytes == 0 { Reply::None } else { sound.reply });
        Exchange { bytes, reply }
    }
}

impl LoadArgs {
    /// Whether the targets are of TCP.
    pub(super) fn is_tcp(&self) -> bool {
        self.urls.iter().any(|url| Url::is_tcp(without_weight(url)))
    }

    /// An error if a flag was given that TCP has no use for.
    pub(super) fn check_flags_of_tcp(&self) -> Result<(), String> {
        let for_http = [
            (!self.header.is_empty(), "-H"),
            (self.method.is_some(), "--method"),
            (self.body.is_some() || self.body_file.is_some(), "--body"),
            (!self.form.is_empty(), "--form"),
            (self.http2, "--http2"),
            (self.streams.is_some(), "--streams"),
            (self.grpc, "--grpc"),
            (self.script.is_some(), "--script"),
            (self.style != load::results::http::Style::Own, "--style"),
            (self.no_templates, "--no-templates"),
            (self.tls.handshakes_only(), "--handshakes"),
        ];
        if let Some(flag) = self.bodies.given() {
            return Err(format!("{flag} is not for tcp:// URLs"));
        }
        match for_http.iter().find(|(given, _)| *given) {
            Some((_, flag)) => Err(format!("{flag} is not for tcp:// URLs")),
            None => Ok(()),
        }
    }
}

/// A URL without the `3*` before it.
fn without_weight(url: &str) -> &str {
    let is_weight = |weight: &str| weight.bytes().all(|byte| byte.is_ascii_digit());
    url.split_once('*').filter(|(weight, _)| is_weight(weight)).map_or(url, |(_, url)| url)
}
