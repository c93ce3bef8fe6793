//! One step of a body on its way: bytes go in as they come, and are taken out as fast as the next step wants them. What waits is bounded
//! by what content may send ahead, and what comes out at once by the step.

use std::fmt::Debug;
use std::io;

/// Bytes of a body that a step looks at before it gives what is ready.
const STEP_BYTES: usize = 16 * 1024;

/// What comes next of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// Nothing at the moment: what comes before has to go on.
    Nothing,
    /// Everything has come.
    End,
}

/// A step.
pub(crate) trait Stage: Debug {
    /// Keeps a part of the body; `last`: nothing follows.
    fn hold(&mut self, body: &[u8], last: bool);

    /// What comes next, as far as it is there. An error: the body cannot be read.
    fn next_piece(&mut self) -> io::Result<Piece>;

    /// Whether there is something to send that waits for something else than the step itself.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Bytes of the body that wait to be looked at.
    fn held_bytes(&self) -> usize;

    /// Bytes of memory besides.
    fn own_bytes(&self) -> usize {
        0
    }
}

/// What a [`Transform`] does with its bytes.
pub(crate) trait Edit: Debug {
    /// Takes a piece and appends what is ready; says how many bytes it took, and whether there is more without any.
    /// `last`: nothing follows the piece.
    fn edit(&mut self, piece: &[u8], last: bool, out: &mut Vec<u8>) -> io::Result<Taken>;

    /// Bytes of memory that it holds.
    fn own_bytes(&self) -> usize;
}

/// What an [`Edit`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) count: usize,
    pub(crate) more: bool,
}

/// A step that makes other bytes of its bytes.
#[derive(Debug)]
pub(crate) struct Transform<E> {
    edit: E,
    held: Vec<u8>,
    /// The bytes of `held` that are done.
    at: usize,
    /// The edit has more without further bytes.
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

    /// Doubles each byte, and gives three bytes at once.
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
