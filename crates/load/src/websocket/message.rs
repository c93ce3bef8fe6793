//! The text of a broadcast message. It contains the run, the room, a number and the time it was due, so a receiver knows
//! how long it took and which messages are missing. A server may wrap it in other text; it is found anywhere in a message.
//! Pure.

use memchr::memmem;

/// Marks the start of the values.
const MARK: &[u8] = b"~hf~";
/// Hexadecimal digits of run, room, number and time.
const DIGITS: [usize; 4] = [8, 8, 8, 16];
/// Shortest message: mark, values, end mark.
pub const MESSAGE_BYTES_MIN: usize = MARK.len() + 8 + 8 + 8 + 16 + 2;

/// A message's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Distinguishes runs that load one server at the same time.
    pub(super) run: u32,
    /// Number of the room; without rooms the number of the connection.
    pub(super) room: u32,
    /// Number of the message in the room, from 1.
    pub(super) number: u32,
    /// When it was due, in nanoseconds since the start of the run.
    pub(super) due_ns: u64,
}

impl Stamp {
    /// Writes the message with this many bytes.
    pub(super) fn encode(&self, bytes: usize, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(MARK);
        for (value, digits) in
            [u64::from(self.run), u64::from(self.room), u64::from(self.number), self.due_ns].into_iter().zip(DIGITS)
        {
            for place in (0..digits).rev() {
                let digit = (value >> (4 * place)) as u32 & 15;
                out.push(char::from_digit(digit, 16).map_or(b'0', |digit| digit as u8));
            }
        }
        out.extend_from_slice(b"~ ");
        out.resize(bytes.max(out.len()), b'x');
    }

    /// Finds the values in a received message.
    pub(super) fn find(payload: &[u8]) -> Option<Self> {
        let at = memmem::find(payload, MARK)?;
        let mut rest = payload.get(at + MARK.len()..)?;
        let mut values = [0; 4];
        for (value, digits) in values.iter_mut().zip(DIGITS) {
            for digit in rest.get(..digits)? {
                *value = *value << 4 | u64::from(char::from(*digit).to_digit(16)?);
            }
            rest = rest.get(digits..)?;
        }
        let [run, room, number, due_ns] = values;
        Some(Self { run: run as u32, room: room as u32, number: number as u32, due_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_it_at_any_place() {
        let stamp = Stamp { run: 0xfeed_beef, room: 7, number: u32::MAX, due_ns: 123_456_789_012 };
        let mut bytes = Vec::new();
        stamp.encode(200, &mut bytes);
        assert_eq!((bytes.len(), Stamp::find(&bytes)), (200, Some(stamp)));
        let wrapped = [b"{\"event\":\"say\",\"text\":\"".as_slice(), &bytes, b"\"}"].concat();
        assert_eq!(Stamp::find(&wrapped), Some(stamp));
        stamp.encode(0, &mut bytes);
        assert_eq!(bytes.len(), MESSAGE_BYTES_MIN);
        assert_eq!(Stamp::find(&bytes[..MESSAGE_BYTES_MIN - 4]), None);
        assert_eq!(Stamp::find(b"hello ~hf~ world, which is no stamp of anybody's run"), None);
    }
}
