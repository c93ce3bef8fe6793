//! An incoming FastCGI response: splits records, turns its head into an HTTP head, and takes the rest of the output as
//! body.

use crate::upstream::response_body::CodingError;
use cgi::fastcgi::{Decoder, Piece, RecordError};
use cgi::{HeadError, head_end, http_head};

/// The received part of a response.
#[derive(Debug, Default)]
pub(crate) struct Records {
    decoder: Decoder,
    /// Unused output: a part of the head, or the beginning of the body.
    output: Vec<u8>,
    /// Remaining length of the body, if the head states it.
    left: Option<u64>,
    /// The head is complete.
    in_body: bool,
}

impl Records {
    /// Takes received bytes before the head is complete; returns how many of them belong to the request.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<usize, RecordError> {
        let mut rest = bytes;
        loop {
            match self.decoder.next(&mut rest)? {
                // As in nginx, a closed output has no head behind its end.
                Piece::Stdout(_) if self.decoder.has_closed_stdout() && !self.has_head() => {}
                Piece::Stdout(output) => self.output.extend_from_slice(output),
                Piece::NeedMore | Piece::End => return Ok(bytes.len() - rest.len()),
            }
        }
    }

    /// Whether the output so far has the whole head.
    fn has_head(&self) -> bool {
        self.in_body || head_end(&self.output).is_some()
    }

    /// Converts the head to HTTP/1.1, once it is complete.
    pub(crate) fn take_head(&mut self, out: &mut Vec<u8>) -> Result<bool, HeadError> {
        let Some(length) = http_head(&self.output, out)? else { return Ok(false) };
        self.output.drain(..length);
        Ok(true)
    }

    /// From now on output is body, of this length if the head states it.
    pub(crate) fn begin_body(&mut self, length: Option<u64>) {
        self.left = length;
        self.in_body = true;
    }

    /// Takes received bytes, and appends the body in them. Returns the number of bytes that belong to the request.
    pub(crate) fn take_body(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<usize, CodingError> {
        let used = self.receive(bytes).map_err(CodingError::Records)?;
        body.append(&mut self.output);
        if let Some(left) = &mut self.left {
            // As in nginx, output beyond the stated length is dropped.
            body.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= body.len() as u64;
            if self.decoder.has_ended() && *left > 0 {
                return Err(CodingError::EndedEarly);
            }
        }
        Ok(used)
    }

    /// The application has closed its standard output.
    pub(crate) fn has_closed_output(&self) -> bool {
        self.decoder.has_closed_stdout()
    }

    /// The application has ended the request.
    pub(crate) fn has_ended(&self) -> bool {
        self.decoder.has_ended()
    }

    /// Whether the request has ended, and there is no body.
    pub(crate) fn is_whole(&self) -> bool {
        self.has_ended() && self.output.is_empty()
    }

    /// Bytes of output that were not used yet.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.output.len()
    }

    /// Takes the standard error output since the last call.
    pub(crate) fn take_stderr(&mut self) -> Vec<u8> {
        self.decoder.take_stderr()
    }
}
