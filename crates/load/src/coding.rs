//! Content codings (RFC 9110 section 8.4.1): compressed request bodies, and responses decoded for checks. Pure.

use crate::template::{Template, Values};
use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::{self, Read as _, Write as _};

/// Quality of brotli: what common clients use for what they compress while they send. 11 takes forty times as long.
const BROTLI_QUALITY: i32 = 5;
/// Window of brotli as a power of two, the largest that every decoder must accept.
const BROTLI_WINDOW: i32 = 22;
/// Level of zstd: its own default.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 3;
/// Buffer of the decoders.
const DECODER_BYTES: usize = 16 * 1024;
/// Most codings of one response. More than one is rare, and each is decoded in full.
const CODINGS_MAX: usize = 4;

/// A content coding of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878; only in builds with the feature `zstd`.
    Zstd,
}

impl Coding {
    /// All codings.
    pub const ALL: [Self; 3] = [Self::Gzip, Self::Brotli, Self::Zstd];

    /// The name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// Whether this build has it.
    pub fn is_available(self) -> bool {
        self != Self::Zstd || cfg!(feature = "zstd")
    }

    /// Compresses a body; an empty one stays empty. Writing into memory does not fail, and the options are checked for codings
    /// that this build does not have.
    fn compress_or_keep(self, bytes: Vec<u8>) -> Vec<u8> {
        if bytes.is_empty() { bytes } else { self.compress(&bytes).unwrap_or(bytes) }
    }

    /// Compresses a body.
    fn compress(self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            Self::Brotli => {
                let parameters = brotli::enc::BrotliEncoderParams {
                    quality: BROTLI_QUALITY,
                    lgwin: BROTLI_WINDOW,
                    ..Default::default()
                };
                let mut out = Vec::new();
                brotli::BrotliCompress(&mut &*bytes, &mut out, &parameters)?;
                Ok(out)
            }
            Self::Zstd => compress_zstd(bytes),
        }
    }
}

#[cfg(feature = "zstd")]
fn compress_zstd(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = vec![0; zstd_safe::compress_bound(bytes.len())];
    let len = zstd_safe::compress(out.as_mut_slice(), bytes, ZSTD_LEVEL).map_err(failed)?;
    out.truncate(len);
    Ok(out)
}

#[cfg(not(feature = "zstd"))]
fn compress_zstd(_: &[u8]) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Decodes a frame of zstd, at most this many bytes of it.
#[cfg(feature = "zstd")]
fn decode_zstd(bytes: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut decoder = zstd_safe::DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
    let mut input = zstd_safe::InBuffer::around(bytes);
    let mut out: Vec<u8> = Vec::new();
    let mut piece = vec![0; DECODER_BYTES];
    loop {
        let before = input.pos();
        let mut output = zstd_safe::OutBuffer::around(piece.as_mut_slice());
        decoder.decompress_stream(&mut output, &mut input).map_err(failed)?;
        let written = output.as_slice();
        let has_moved = !written.is_empty() || input.pos() > before;
        out.extend_from_slice(written);
        out.truncate(most);
        if out.len() == most || !has_moved {
            return Ok(out);
        }
    }
}

#[cfg(not(feature = "zstd"))]
fn decode_zstd(_: &[u8], _: usize) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(feature = "zstd")]
fn failed(code: zstd_safe::ErrorCode) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

/// Decodes the body of a response by the values of its Content-Encoding fields, at most this many bytes of it. The coding
/// that was applied last comes last in the field. A cut body gives the bytes before the cut. A body that is not decodable
/// stays as it came.
pub(crate) fn decode<'b, 'f>(fields: impl Iterator<Item = &'f [u8]>, body: &'b [u8], most: usize) -> Cow<'b, [u8]> {
    let values: Vec<&[u8]> = fields.flat_map(|value| value.split(|byte| *byte == b',')).collect();
    let mut decoded = Cow::Borrowed(body);
    for value in values.iter().rev().take(CODINGS_MAX) {
        let value = value.trim_ascii();
        let is = |name: &str| value.eq_ignore_ascii_case(name.as_bytes());
        let bytes: &[u8] = &decoded;
        let out = if is("gzip") || is("x-gzip") {
            read(MultiGzDecoder::new(bytes), most)
        } else if is("deflate") {
            read(ZlibDecoder::new(bytes), most)
        } else if is("br") {
            read(brotli::Decompressor::new(bytes, DECODER_BYTES), most)
        } else if is("zstd") {
            decode_zstd(bytes, most)
        } else if is("identity") {
            continue;
        } else {
            return decoded;
        };
        match out {
            Ok(out) => decoded = Cow::Owned(out),
            Err(_) => return decoded,
        }
    }
    decoded
}

/// Reads a decoder up to its end, an error after some bytes, or a number of bytes.
fn read(decoder: impl io::Read, most: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    match decoder.take(most as u64).read_to_end(&mut out) {
        Err(error) if out.is_empty() => Err(error),
        _ => Ok(out),
    }
}

/// The body of a request: rendered for each request, and compressed if that is asked for.
#[derive(Debug)]
pub(crate) struct Body {
    template: Template,
    coding: Option<Coding>,
}

impl Body {
    /// A body without values is compressed here, once.
    pub(crate) fn new(template: Template, coding: Option<Coding>) -> Self {
        let Some(coding) = coding.filter(|_| template.is_static()) else { return Self { template, coding } };
        let mut bytes = Vec::new();
        template.render(&mut Values::new(0, 0), &mut bytes);
        Self { template: Template::literal(&coding.compress_or_keep(bytes)), coding: None }
    }

    /// Whether it is the same each time.
    pub(crate) fn is_static(&self) -> bool {
        self.template.is_static()
    }

    /// Appends the body of one request.
    pub(crate) fn render(&self, values: &mut Values, out: &mut Vec<u8>) {
        let before = out.len();
        self.template.render(values, out);
        let Some(coding) = self.coding else { return };
        let plain = out.split_off(before);
        out.extend_from_slice(&coding.compress_or_keep(plain));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'f>(field: &'f str, body: &[u8], most: usize) -> (Vec<u8>, &'f str) {
        (decode([field.as_bytes()].into_iter(), body, most).into_owned(), field)
    }

    #[test]
    fn decodes_compressed_bodies() {
        let text = b"the same words again, and again the same words ".repeat(400);
        for coding in Coding::ALL.into_iter().filter(|coding| coding.is_available()) {
            let packed = coding.compress(&text).unwrap();
            assert!(packed.len() < text.len() / 10, "{coding:?}: {}", packed.len());
            assert_eq!(of(coding.name(), &packed, usize::MAX).0, text, "{coding:?}");
            assert_eq!(of(coding.name(), &packed, 100).0, text[..100], "{coding:?}");
        }
        let twice = Coding::Brotli.compress(&Coding::Gzip.compress(&text).unwrap()).unwrap();
        assert_eq!(of("identity, GZIP , br", &twice, usize::MAX).0, text);
    }

    #[test]
    fn leaves_uncompressed_bodies_unchanged() {
        for field in ["gzip", "br", "deflate", "zstd", "rot13", ""] {
            assert_eq!(of(field, b"plain text", 1000).0, b"plain text", "{field}");
        }
        let packed = Coding::Gzip.compress(&vec![b'x'; 100_000]).unwrap();
        assert!(of("gzip", &packed[..packed.len() - 9], 1 << 20).0.starts_with(b"xxx"), "a cut body");
    }

    #[test]
    fn bodies_with_values_are_compressed_each_time() {
        let body = Body::new(Template::parse(b"n={{counter}}").unwrap(), Some(Coding::Gzip));
        let mut values = Values { counter: 41, ..Values::new(0, 0) };
        let mut out = b"head".to_vec();
        body.render(&mut values, &mut out);
        assert_eq!(of("gzip", out.strip_prefix(b"head").unwrap(), 100).0, b"n=41");
        assert!(!body.is_static());
    }
}
