//! The steps of a body between content and the client's side: cut out a range, run the stages, compress, limit the
//! rate. In this order; each step exists only if the response needs it.

use crate::base::buffer::Flushed;
use crate::downstream::Downstream;
use crate::downstream::reply_head::{Fields, HeadView};
use crate::filter::compress::Packer;
use crate::filter::stage::{Piece, Stage};
use crate::plan::filters::Coding;
use reactor::{OpenFile, Reactor};
use rules::pace::Pace;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use std::{fmt, io};

/// The steps of one response.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The range of the body that is sent; `None` for all of it.
    portion: Option<Box<BodyPortion>>,
    /// The stages that change the body, in order.
    stages: Vec<Box<dyn Stage>>,
    /// The first stage has the complete body.
    is_over: bool,
    /// Content has passed on at least one byte.
    had_content: bool,
    /// Why a stage failed.
    fault: Option<io::Error>,
    /// `gzip`, `brotli`, `zstd`
    packer: Option<Box<Packer>>,
    /// `limit_rate`
    rate: Option<Box<Rate>>,
}

/// The range of a body that is sent: bytes before and after it are dropped.
#[derive(Debug)]
struct BodyPortion {
    skipped: u64,
    left: u64,
}

impl BodyPortion {
    /// The part of the next bytes that belongs to it.
    fn cut<'a>(&mut self, body: &'a [u8]) -> &'a [u8] {
        let count = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX).min(body.len());
        let (_, behind) = body.split_at(count(self.skipped));
        self.skipped -= (body.len() - behind.len()) as u64;
        let part = &behind[..count(self.left).min(behind.len())];
        self.left -= part.len() as u64;
        part
    }
}

/// The pace of the response, and the clock for it.
struct Rate {
    pace: Pace,
    reactor: Rc<Reactor>,
}

impl fmt::Debug for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pace.fmt(out)
    }
}

impl Chain {
    /// Sends only these bytes of the following body.
    pub(crate) fn send_only(&mut self, range: &Range<u64>) {
        self.portion = Some(Box::new(BodyPortion { skipped: range.start, left: range.end - range.start }));
    }

    /// Runs the following body through these stages.
    pub(crate) fn set_stages(&mut self, stages: Vec<Box<dyn Stage>>) {
        self.stages = stages;
        self.is_over = false;
    }

    /// Why the body could not be processed further, once.
    pub(crate) fn take_fault(&mut self) -> Option<io::Error> {
        self.fault.take()
    }

    /// Compresses the following body; `None` leaves it as it is.
    pub(crate) fn set_packer(&mut self, packer: Option<Packer>) {
        self.packer = packer.map(Box::new);
    }

    /// Sets the pace of the response from now on.
    pub(crate) fn set_pace(&mut self, pace: Pace, reactor: &Rc<Reactor>, down: &mut Downstream) {
        down.hold_back();
        self.rate = Some(Box::new(Rate { pace, reactor: Rc::clone(reactor) }));
    }

    /// Sends a final head and the beginning of the body; `last`: the body is complete.
    pub(crate) fn send_head(
        &mut self,
        down: &mut Downstream,
        head: HeadView<'_>,
        body: &[u8],
        last: bool,
    ) -> io::Result<()> {
        self.send(down, Some(head), body, last)
    }

    /// Sends a part of the body; `last`: nothing follows.
    pub(crate) fn send_body(&mut self, down: &mut Downstream, body: &[u8], last: bool) -> io::Result<()> {
        self.send(down, None, body, last)
    }

    fn send(&mut self, down: &mut Downstream, head: Option<HeadView<'_>>, body: &[u8], last: bool) -> io::Result<()> {
        self.had_content |= !body.is_empty();
        let body = match &mut self.portion {
            None => body,
            Some(portion) => match portion.cut(body) {
                [] if head.is_none() && !last => return Ok(()),
                part => part,
            },
        };
        let Some(first) = self.stages.first_mut() else { return self.pack(down, head, body, last) };
        first.hold(body, last);
        self.is_over |= last;
        if head.is_some() {
            self.pack(down, head, b"", false)?;
        }
        self.run_stages(down)
    }

    /// Sends the output of the stages until the client's socket accepts no more.
    fn run_stages(&mut self, down: &mut Downstream) -> io::Result<()> {
        while down.waiting_bytes() == 0 {
            // The last stage runs first, so that no stage takes bytes before there is room for them.
            let mut come = None;
            for (place, stage) in self.stages.iter_mut().enumerate().rev() {
                match stage.next_piece() {
                    Ok(Piece::Nothing) => {}
                    Ok(piece) => {
                        come = Some((place, piece));
                        break;
                    }
                    Err(error) => {
                        let kind = error.kind();
                        self.fault = Some(error);
                        return Err(kind.into());
                    }
                }
            }
            match come {
                None => return Ok(()),
                Some((place, Piece::Bytes(bytes))) => match self.stages.get_mut(place + 1) {
                    Some(next) => next.hold(&bytes, false),
                    None => self.pack(down, None, &bytes, false)?,
                },
                Some((place, _)) => {
                    self.stages.drain(..=place);
                    match self.stages.first_mut() {
                        Some(next) => next.hold(b"", true),
                        None => self.pack(down, None, b"", true)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Compresses the bytes, if the response is compressed.
    fn pack(&mut self, down: &mut Downstream, head: Option<HeadView<'_>>, body: &[u8], last: bool) -> io::Result<()> {
        let Some(packer) = &mut self.packer else { return self.give(down, head, body, last) };
        let packed = packer.compress(body, last)?;
        let nothing = head.is_none() && packed.is_empty() && !last;
        let sent = if nothing { Ok(()) } else { self.give(down, head, &packed, last) };
        if let Some(packer) = &mut self.packer {
            packer.give_back(packed);
        }
        sent
    }

    /// Passes the output of the steps to the client's side.
    fn give(&mut self, down: &mut Downstream, head: Option<HeadView<'_>>, body: &[u8], last: bool) -> io::Result<()> {
        match head {
            Some(head) => down.send_head(head, body, last)?,
            None => down.send_body(body, last)?,
        }
        self.let_go(down)
    }

    /// Sends as much of the bytes just passed on as the pace allows.
    fn let_go(&mut self, down: &mut Downstream) -> io::Result<()> {
        if self.rate.is_some() { self.flush_waiting(down).map(drop) } else { Ok(()) }
    }

    /// Sends a final head and the beginning of its body; [`Self::send_file`] sends the rest.
    pub(crate) fn send_head_of_file(
        &mut self,
        down: &mut Downstream,
        head: HeadView<'_>,
        begun: &[u8],
    ) -> io::Result<()> {
        down.send_head_of_file(head, begun)?;
        self.let_go(down)
    }

    /// Sends a part of the body from a file, past all steps but the pace, and advances the offset. 0: the socket
    /// accepts none, or the file has ended.
    pub(crate) fn send_file(
        &mut self,
        down: &mut Downstream,
        file: &OpenFile,
        offset: &mut u64,
        count: usize,
    ) -> io::Result<usize> {
        if self.flush(down)? == Flushed::Waiting {
            return Ok(0);
        }
        let Some(room) = self.room(down) else { return Ok(0) };
        let before = down.bytes_sent();
        let sent = down.send_file(file, offset, count.min(room))?;
        self.note_pace(before, down);
        Ok(sent)
    }

    /// Sends the end of a body, with its trailers.
    pub(crate) fn end_with_trailers(&mut self, down: &mut Downstream, trailers: &Fields) -> io::Result<()> {
        down.end_with_trailers(trailers)?;
        self.let_go(down)
    }

    /// The body breaks off here: sends what the compressor still holds, without an end.
    pub(crate) fn break_off(&mut self, down: &mut Downstream) -> io::Result<()> {
        let Some(packer) = self.packer.as_mut().filter(|packer| packer.bytes_in > 0) else { return Ok(()) };
        let packed = packer.break_off()?;
        if packed.is_empty() { Ok(()) } else { self.give(down, None, &packed, false) }
    }

    /// Sends waiting bytes, as far as the pace allows.
    pub(crate) fn flush(&mut self, down: &mut Downstream) -> io::Result<Flushed> {
        loop {
            let flushed = self.flush_waiting(down)?;
            if flushed == Flushed::Waiting || self.stages.is_empty() {
                return Ok(flushed);
            }
            self.run_stages(down)?;
            if down.waiting_bytes() == 0 {
                return Ok(Flushed::all_if(!self.awaits_subrequest()));
            }
        }
    }

    /// Whether content has passed on at least one byte.
    pub(crate) fn had_content(&self) -> bool {
        self.had_content
    }

    /// Whether content has passed on the whole body, and a stage may still hold the rest of it.
    pub(crate) fn holds_rest(&self) -> bool {
        self.is_over && !self.stages.is_empty()
    }

    /// Whether bytes of the response wait for a subrequest, which wakes the exchange, or for the exchange's next wait, which
    /// executes the commands of a page.
    pub(crate) fn awaits_subrequest(&self) -> bool {
        self.stages.iter().any(|stage| stage.is_waiting())
    }

    fn flush_waiting(&mut self, down: &mut Downstream) -> io::Result<Flushed> {
        if self.rate.is_none() || down.waiting_bytes() == 0 {
            return down.flush(usize::MAX);
        }
        let Some(room) = self.room(down) else { return Ok(Flushed::Waiting) };
        let before = down.bytes_sent();
        let flushed = down.flush(room)?;
        self.note_pace(before, down);
        Ok(flushed)
    }

    /// How long the pace holds all bytes back; `None`: bytes may be sent now.
    pub(crate) fn pause(&self, down: &Downstream) -> Option<Duration> {
        let Rate { pace, reactor } = self.rate.as_deref()?;
        pace.room(down.bytes_sent(), reactor.now().0).err().map(Duration::from_millis)
    }

    /// Number of bytes that the pace allows now.
    fn room(&self, down: &Downstream) -> Option<usize> {
        let Some(Rate { pace, reactor }) = self.rate.as_deref() else { return Some(usize::MAX) };
        let room = pace.room(down.bytes_sent(), reactor.now().0).ok()?;
        Some(usize::try_from(room).unwrap_or(usize::MAX))
    }

    fn note_pace(&mut self, before: u64, down: &Downstream) {
        if let Some(Rate { pace, reactor }) = self.rate.as_deref_mut() {
            pace.note(before, down.bytes_sent(), reactor.now().0);
        }
    }

    /// Whether a step changes the body, which takes time and needs its bytes.
    pub(crate) fn changes_body(&self) -> bool {
        self.packer.is_some() || !self.stages.is_empty()
    }

    /// Whether the rate is limited.
    pub(crate) fn is_paced(&self) -> bool {
        self.rate.is_some()
    }

    /// `$gzip_ratio`, `$brotli_ratio`, `$zstd_ratio`
    pub(crate) fn ratio(&self, coding: Coding) -> Option<String> {
        self.packer.as_ref().and_then(|packer| packer.ratio(coding))
    }

    /// Bytes of the body that wait in a step or for the client's socket.
    pub(crate) fn waiting_bytes(&self, down: &Downstream) -> usize {
        down.waiting_bytes() + self.stages.iter().map(|stage| stage.held_bytes()).sum::<usize>()
    }

    /// Bytes of memory that the steps hold.
    pub(crate) fn held_bytes(&self) -> usize {
        let staged = self.stages.iter().map(|stage| stage.held_bytes() + stage.own_bytes()).sum::<usize>();
        staged + self.packer.as_ref().map_or(0, |packer| packer.held_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_is_cut_out_of_pieces() {
        let mut portion = BodyPortion { skipped: 3, left: 4 };
        let cut: Vec<&[u8]> = [&b"ab"[..], b"cdef", b"", b"ghij"].map(|piece| portion.cut(piece)).to_vec();
        assert_eq!(cut, [&b""[..], b"def", b"", b"g"]);
    }
}
