//! One step of a body: bytes go in as they arrive, and come out as fast as the next step takes them. The limit for
//! content sent ahead bounds the waiting input; the step bounds its output per call.

use std::fmt::Debug;
use std::io;

/// Bytes of a body that a step processes before it returns its output.
const STEP_BYTES: usize = 16 * 1024;

/// The next output of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// Nothing now: the step before it has to run first.
    Nothing,
    /// The body is complete.
    End,
}

/// A step.
pub(crate) trait Stage: Debug {
    /// Adds a part of the body; `last`: nothing follows.
    fn hold(&mut self, body: &[u8], last: bool);

    /// The next output, as far as it is ready. An error: the body cannot be read.
    fn next_piece(&mut self) -> io::Result<Piece>;

    /// Whether output waits for something other than the step itself.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Bytes of the body that wait to be processed.
    fn held_bytes(&self) -> usize;

    /// Further bytes of memory.
    fn own_bytes(&self) -> usize {
        0
    }
}

/// What a [`Transform`] does to its bytes.
pub(crate) trait Edit: Debug {
    /// Processes a piece and appends the output; returns how many bytes it took, and whether it has more output without
    /// further input. `last`: nothing follows the piece.
    fn edit(&mut self, piece: &[u8], last: bool, out: &mut Vec<u8>) -> io::Result<Taken>;

    /// Bytes of memory that it holds.
    fn own_bytes(&self) -> usize;
}

/// The result of an [`Edit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) count: usize,
    pub(crate) more: bool,
}

/// A step that turns its bytes into other bytes.
#[derive(Debug)]
pub(crate) struct Transform<E> {
    edit: E,
    held: Vec<u8>,
    /// Number of bytes of `held` that are processed.
    at: usize,
    /// The edit has more output without further input.
    more: bool,
    is_over: bool,
    is_done: bool,
}

impl<E: Edit> Transform<E> {
    pub(crate) fn new(edit: E) -> Self {
        Self { edit, held: Vec::new(), at: 0, more: false, is_over: false, is_done: false }
    }
}

impl<E: Edit> Stage for Transform<E> {
    fn hold(&mut self, body: &[u8], last: bool) {
        self.held.extend_from_slice(body);
        self.is_over |= last;
    }

    fn next_piece(&mut self) -> io::Result<Piece> {
        let mut out = Vec::new();
        while !self.is_done {
            let left = &self.held[self.at..];
            if left.is_empty() && !self.more && !self.is_over {
                return Ok(Piece::Nothing);
            }
            let piece = &left[..left.len().min(STEP_BYTES)];
            let last = self.is_over && piece.len() == left.len();
            let taken = self.edit.edit(piece, last, &mut out)?;
            self.is_done = last && taken.count == piece.len() && !taken.more;
            self.more = taken.more;
            self.at += taken.count;
            if self.at == self.held.len() {
                self.held.clear();
                self.at = 0;
            }
            if !out.is_empty() {
                return Ok(Piece::Bytes(out));
            }
        }
        Ok(Piece::End)
    }

    fn held_bytes(&self) -> usize {
        self.held.len() - self.at
    }

    fn own_bytes(&self) -> usize {
        self.edit.own_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles each byte, and returns three bytes at once.
    #[derive(Debug, Default)]
    struct Doubled(Vec<u8>);

    impl Edit for Doubled {
        fn edit(&mut self, piece: &[u8], _: bool, out: &mut Vec<u8>) -> io::Result<Taken> {
            self.0.extend(piece.iter().flat_map(|byte| [*byte, *byte]));
            out.extend(self.0.drain(..self.0.len().min(3)));
            Ok(Taken { count: piece.len(), more: !self.0.is_empty() })
        }

        fn own_bytes(&self) -> usize {
            self.0.capacity()
        }
    }

    #[test]
    fn a_transform_gives_all_that_it_took_and_then_its_end() {
        let mut stage = Transform::new(Doubled::default());
        assert_eq!(stage.next_piece().unwrap(), Piece::Nothing);
        stage.hold(b"ab", false);
        assert_eq!(stage.held_bytes(), 2);
        assert_eq!(stage.next_piece().unwrap(), Piece::Bytes(b"aab".to_vec()));
        assert_eq!(stage.next_piece().unwrap(), Piece::Bytes(b"b".to_vec()));
        assert_eq!(stage.next_piece().unwrap(), Piece::Nothing);
        stage.hold(b"c", false);
        stage.hold(b"", true);
        assert_eq!(stage.next_piece().unwrap(), Piece::Bytes(b"cc".to_vec()));
        assert_eq!(stage.next_piece().unwrap(), Piece::End);
        assert_eq!(stage.next_piece().unwrap(), Piece::End);
    }
}
