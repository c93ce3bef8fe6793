//! What an application sends: records with its standard output, its standard error, and the end of the request.

use super::kind;
use super::records::{RecordError, Records, Step};

/// Bytes of standard error that are kept until the caller takes them; further bytes are dropped.
pub const STDERR_BYTES_MAX: usize = 16 * 1024;

/// A step of [`Decoder::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Standard output.
    Stdout(&'a [u8]),
    /// The application has ended the request; further bytes belong to no request.
    End,
    /// All bytes are used: more are needed.
    NeedMore,
}

/// Takes records apart; they come in pieces of any size.
#[derive(Debug, Default)]
pub struct Decoder {
    records: Records,
    stderr: Vec<u8>,
    has_closed_stdout: bool,
    has_ended: bool,
}

impl Decoder {
    /// Takes the next piece off the front of `bytes`.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Piece<'a>, RecordError> {
        while !self.has_ended {
            match self.records.next(bytes, &[kind::STDOUT, kind::STDERR, kind::END_REQUEST])? {
                Step::Content(kind::STDOUT, content) => return Ok(Piece::Stdout(content)),
                Step::Content(kind::STDERR, content) => self.keep_stderr(content),
                Step::End(kind::STDOUT) => self.has_closed_stdout |= self.records.content_bytes() == 0,
                Step::End(kind) => self.has_ended = kind == kind::END_REQUEST,
                Step::Content(..) => {}
                Step::NeedMore => return Ok(Piece::NeedMore),
            }
        }
        Ok(Piece::End)
    }

    /// Whether the application has closed its standard output, by an empty record.
    pub fn has_closed_stdout(&self) -> bool {
        self.has_closed_stdout
    }

    /// Whether the application has ended the request.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The standard error received since the last call.
    pub fn take_stderr(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.stderr)
    }

    /// Bytes of memory behind it.
    pub fn held_bytes(&self) -> usize {
        self.stderr.capacity()
    }

    fn keep_stderr(&mut self, content: &[u8]) {
        let room = STDERR_BYTES_MAX - self.stderr.len();
        self.stderr.extend_from_slice(&content[..content.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fastcgi::header;
    use proptest::prelude::*;

    fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let mut bytes = header(kind, content.len() as u16, padding).to_vec();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len() + usize::from(padding), 0xff);
        bytes
    }

    /// Standard output, standard error, whether it ended, and bytes behind the end.
    fn decode(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>, bool, usize), RecordError> {
        let mut decoder = Decoder::default();
        let (mut stdout, mut stderr, mut excess) = (Vec::new(), Vec::new(), 0);
        for mut part in bytes.chunks(piece) {
            loop {
                match decoder.next(&mut part)? {
                    Piece::Stdout(content) => stdout.extend_from_slice(content),
                    Piece::NeedMore => break,
                    Piece::End => {
                        excess += part.len();
                        break;
                    }
                }
            }
            stderr.extend(decoder.take_stderr());
        }
        Ok((stdout, stderr, decoder.has_ended(), excess))
    }

    fn response() -> Vec<u8> {
        [
            record(kind::STDERR, b"warning\n", 0),
            record(kind::STDOUT, b"Content-Type: text/plain\r\n\r\n", 3),
            record(kind::STDOUT, b"hello", 255),
            record(kind::STDOUT, b"", 8),
            record(kind::STDERR, b"", 0),
            record(kind::END_REQUEST, &[0; 8], 1),
        ]
        .concat()
    }

    #[test]
    fn records_in_pieces_of_any_size_give_the_same() {
        let bytes = [response(), b"more".to_vec()].concat();
        for piece in 1..=bytes.len() {
            let stdout = b"Content-Type: text/plain\r\n\r\nhello".to_vec();
            assert_eq!(decode(&bytes, piece), Ok((stdout, b"warning\n".to_vec(), true, 4)), "{piece}");
        }
    }

    #[test]
    fn request_ends_only_with_its_last_byte() {
        let bytes = response();
        let (.., ended, _) = decode(&bytes[..bytes.len() - 1], 7).unwrap();
        assert!(!ended);
    }

    #[test]
    fn refuses_other_json_as_record() {
        let changed = |at: usize, byte: u8| {
            let mut bytes = record(kind::STDOUT, b"x", 0);
            bytes[at] = byte;
            decode(&bytes, 1)
        };
        assert_eq!(changed(0, b'H'), Err(RecordError::Version(b'H')));
        assert_eq!(changed(1, kind::STDIN), Err(RecordError::Kind(kind::STDIN)));
        assert_eq!(changed(1, 11), Err(RecordError::Kind(11)));
        assert_eq!(changed(2, 1), Err(RecordError::RequestId(257)));
        assert_eq!(changed(3, 0), Err(RecordError::RequestId(0)));
    }

    #[test]
    fn an_empty_record_closes_standard_output() {
        let mut decoder = Decoder::default();
        let bytes =
            [record(kind::STDERR, b"", 0), record(kind::STDOUT, b"x", 0), record(kind::STDOUT, b"", 4)].concat();
        let mut rest = &bytes[..];
        assert_eq!(decoder.next(&mut rest), Ok(Piece::Stdout(b"x")));
        assert!(!decoder.has_closed_stdout());
        assert_eq!(decoder.next(&mut rest), Ok(Piece::NeedMore));
        assert!(decoder.has_closed_stdout() && !decoder.has_ended());
    }

    #[test]
    fn wrong_byte_of_an_id_is_reported_as_in_nginx() {
        assert_eq!(RecordError::RequestId(2).to_string(), "upstream sent unexpected FastCGI request id low byte: 2");
        assert_eq!(RecordError::RequestId(257).to_string(), "upstream sent unexpected FastCGI request id high byte: 1");
    }

    #[test]
    fn standard_error_is_kept_within_its_bound() {
        let bytes = record(kind::STDERR, &vec![b'x'; 60_000], 0);
        let mut decoder = Decoder::default();
        assert_eq!(decoder.next(&mut &bytes[..]), Ok(Piece::NeedMore));
        assert_eq!(decoder.take_stderr().len(), STDERR_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn bytes_from_a_network_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1usize..50) {
            let _ = decode(&bytes, piece);
        }

        #[test]
        fn output_matches_the_records(parts in prop::collection::vec((any::<bool>(), 0usize..2000, any::<u8>()), 0..10),
                                          piece in 1usize..3000) {
            let mut bytes = Vec::new();
            let mut expected = (Vec::new(), Vec::new());
            for (number, (is_output, length, padding)) in parts.into_iter().enumerate() {
                let content = vec![number as u8; length];
                bytes.extend(record(if is_output { kind::STDOUT } else { kind::STDERR }, &content, padding));
                if is_output { &mut expected.0 } else { &mut expected.1 }.extend(content);
            }
            bytes.extend(record(kind::END_REQUEST, &[0; 8], 0));
            prop_assert_eq!(decode(&bytes, piece), Ok((expected.0, expected.1, true, 0)));
        }
    }
}
