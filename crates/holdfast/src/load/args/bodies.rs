//! The flags that say how request bodies are sent.

use crate::typed::bytes;
use load::{Coding, PIECE_BYTES_MAX, Upload};

/// The default piece: what common clients read from a file at once.
const PIECE_BYTES_DEFAULT: u64 = 16 * 1024;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct BodyFlags {
    /// Send bodies compressed, with Content-Encoding: gzip, br or zstd
    #[arg(long, value_name = "CODING", value_parser = parse_coding, conflicts_with_all = ["script", "grpc"])]
    compress: Option<Coding>,
    /// Send the body with Transfer-Encoding: chunked instead of a length (over HTTP/2: without a length)
    #[arg(long, conflicts_with_all = ["script", "grpc", "scenario"])]
    chunked: bool,
    /// Send the body in pieces at this many bytes per second on each connection or stream, such as 64k/s
    #[arg(long, value_name = "RATE", value_parser = parse_bytes_per_second, conflicts_with_all = ["script", "grpc", "scenario"])]
    body_rate: Option<f64>,
    /// Bytes of a chunk, or of a piece of --body-rate; 16k if not given
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    chunk_size: Option<u64>,
}

fn parse_coding(text: &str) -> Result<Coding, String> {
    let found = Coding::ALL.into_iter().find(|coding| coding.name() == text);
    found.ok_or_else(|| "one of gzip, br and zstd".to_owned())
}

fn parse_bytes_per_second(text: &str) -> Result<f64, String> {
    let rate = bytes(text.strip_suffix("/s").unwrap_or(text)).map_err(|_| "bytes per second, such as 64k/s")?;
    if rate == 0 { Err("above 0".to_owned()) } else { Ok(rate as f64) }
}

impl BodyFlags {
    /// The first flag that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.compress.is_some(), "--compress"),
            (self.chunked, "--chunked"),
            (self.body_rate.is_some(), "--body-rate"),
            (self.chunk_size.is_some(), "--chunk-size"),
        ];
        given.iter().find(|(given, _)| *given).map(|(_, name)| *name)
    }

    pub(super) fn compress(&self) -> Option<Coding> {
        self.compress
    }

    pub(super) fn upload(&self) -> Result<Option<Upload>, String> {
        if !self.chunked && self.body_rate.is_none() {
            return match self.chunk_size {
                Some(_) => Err("--chunk-size is for --chunked and --body-rate".to_owned()),
                None => Ok(None),
            };
        }
        let piece = self.chunk_size.unwrap_or(PIECE_BYTES_DEFAULT);
        let piece_bytes = usize::try_from(piece).unwrap_or(usize::MAX);
        if !(1..=PIECE_BYTES_MAX).contains(&piece_bytes) {
            return Err("--chunk-size: 1 byte to 16 MB".to_owned());
        }
        Ok(Some(Upload { chunked: self.chunked, piece_bytes, bytes_per_second: self.body_rate }))
    }
}
