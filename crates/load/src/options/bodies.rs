//! Checks of the options that say how request bodies are sent.

use super::{Options, OptionsError, Version};
use crate::upload::PIECE_BYTES_MAX;

impl Options {
    /// Checks how bodies are sent.
    pub(super) fn check_bodies(&self) -> Result<(), OptionsError> {
        let wrong = |text: &'static str| Err(OptionsError::Contradiction(text));
        if self.compress.is_some() && (self.is_tcp() || self.grpc || self.script.is_some()) {
            return wrong("compressed bodies are for HTTP without a script; gRPC compresses its messages by itself");
        }
        if self.compress.is_some_and(|coding| !coding.is_available()) {
            return wrong("this build has no zstd (build it with `--features zstd`, or use gzip or br)");
        }
        let Some(upload) = self.upload else { return Ok(()) };
        let has_pieces = matches!(self.version, Version::Http11 | Version::Http2) && !self.grpc;
        if !has_pieces || self.script.is_some() || self.scenario.is_some() || self.pipeline > 1 {
            return wrong(
                "bodies in pieces are for HTTP/1.1, one request at a time, and for HTTP/2; without gRPC, a script or a scenario",
            );
        }
        if !(1..=PIECE_BYTES_MAX).contains(&upload.piece_bytes) {
            return wrong("a piece of a body has 1 byte to 16 MB");
        }
        if upload.bytes_per_second.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return wrong("a body is sent at more than 0 bytes per second");
        }
        for target in &self.targets {
            if target.body.is_empty() {
                return wrong("there is no body to send in pieces");
            }
            if !self.template(&target.body)?.is_static() {
                return wrong("a body in pieces is the same each time: `{{…}}` has no place in it (--no-templates)");
            }
        }
        Ok(())
    }
}
