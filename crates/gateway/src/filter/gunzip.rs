//! `gunzip`: unpacks compressed responses for clients that do not accept them. A step returns about 32 KB at once,
//! however small its input was.

use crate::downstream::reply_head::{HeadView, Mark, ReplyHead};
use crate::filter::gzip::GzipClient;
use crate::filter::stage::{Edit, Stage, Taken, Transform};
use crate::filter::steps::{BodyFilter, Compress, FilterHost};
use crate::plan::filters::GzipPlan;
use flate2::write::MultiGzDecoder;
use http1::FieldId;
use rules::gzip::weak_tag;
use std::fmt;
use std::io::{self, Write as _};

/// Memory of an unpacker: its window, its tables, and the crate's buffer of 32 KB.
pub(crate) const GUNZIP_BYTES: usize = 80 * 1024;

/// Whether a response with this head is compressed, so that it is unpacked for some clients.
pub(crate) fn is_packed(plan: &GzipPlan, head: HeadView<'_>) -> bool {
    plan.unpacks && head.value(FieldId::ContentEncoding).is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip"))
}

/// Whether it is unpacked for this client.
fn would_unpack(plan: &GzipPlan, head: HeadView<'_>, client: &GzipClient<'_>) -> bool {
    is_packed(plan, head) && !client.takes_gzip(plan, head)
}

/// `gunzip`
pub(super) struct UnpackStep;

impl BodyFilter for UnpackStep {
    fn would_change(&self, host: &dyn FilterHost, head: HeadView<'_>) -> bool {
        host.location().gzip.as_deref().is_some_and(|plan| would_unpack(plan, head, &host.gzip_client()))
    }

    fn begin(&self, host: &mut dyn FilterHost, head: &mut ReplyHead, compress: Compress) -> Option<Box<dyn Stage>> {
        let is_due = compress != Compress::No && self.would_change(host, head.with(host.upstream_bytes()));
        is_due.then(|| begin(head, host.upstream_bytes()))
    }
}

/// Turns a head into that of an unpacked response, and returns the unpacker.
fn begin(head: &mut ReplyHead, answer: &[u8]) -> Box<dyn Stage> {
    let tag = head.fields.value(FieldId::ETag, answer).and_then(weak_tag);
    for id in [
        FieldId::ContentEncoding,
        FieldId::ContentLength,
        FieldId::AcceptRanges,
        FieldId::ETag,
        FieldId::TransferEncoding,
    ] {
        head.fields.remove(id);
    }
    if let Some(tag) = tag {
        head.fields.push(FieldId::ETag, &tag);
    }
    head.length = None;
    head.fields.move_mark_last(Mark::Length);
    Box::new(Transform::new(Gunzip { decoder: MultiGzDecoder::new(Vec::new()), has_begun: false }))
}

/// An unpacker of one response.
struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    has_begun: bool,
}

impl fmt::Debug for Gunzip {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Gunzip")
    }
}

impl Edit for Gunzip {
    fn edit(&mut self, piece: &[u8], last: bool, out: &mut Vec<u8>) -> io::Result<Taken> {
        self.has_begun |= !piece.is_empty();
        // One call returns one buffer at most.
        let count = if piece.is_empty() { 0 } else { self.decoder.write(piece)? };
        if count == piece.len() && self.has_begun {
            if last {
                self.decoder.try_finish()?;
            } else {
                self.decoder.flush()?;
            }
        }
        out.append(self.decoder.get_mut());
        Ok(Taken { count, more: false })
    }

    fn own_bytes(&self) -> usize {
        GUNZIP_BYTES + self.decoder.get_ref().capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::stage::Piece;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The output, and the largest piece of it.
    fn unpacked(packed: &[u8], piece: usize) -> io::Result<(Vec<u8>, usize)> {
        let mut stage = begin(&mut ReplyHead::default(), b"");
        let (mut out, mut largest) = (Vec::new(), 0);
        let mut pieces = packed.chunks(piece);
        loop {
            match stage.next_piece()? {
                Piece::Bytes(bytes) => {
                    largest = largest.max(bytes.len());
                    out.extend(bytes);
                }
                Piece::Nothing => match pieces.next() {
                    Some(piece) => stage.hold(piece, false),
                    None => stage.hold(b"", true),
                },
                Piece::End => return Ok((out, largest)),
            }
        }
    }

    #[test]
    fn pieces_and_members_are_unpacked_in_bounded_steps() {
        let zeros = vec![0; 4 << 20];
        for piece in [1000, 100_000] {
            let (out, largest) = unpacked(&packed(&zeros), piece).unwrap();
            assert!(out == zeros);
            assert!(largest <= 256 * 1024, "{largest}");
        }
        let two = [packed(b"first "), packed(b"second")].concat();
        for piece in [1, 7, 1000] {
            assert_eq!(unpacked(&two, piece).unwrap().0, b"first second");
        }
        assert_eq!(unpacked(b"", 1).unwrap().0, b"");
    }

    #[test]
    fn text_and_truncated_gzip_are_errors() {
        let whole = packed(b"a text that is long enough to be cut");
        unpacked(b"not gzip at all", 4).unwrap_err();
        unpacked(&whole[..whole.len() - 3], 1000).unwrap_err();
        unpacked(&[&whole[..], b"garbage"].concat(), 1000).unwrap_err();
    }
}
