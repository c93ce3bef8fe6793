//! The groups of the last regular expression that matched. `Captures` owns a copy of the subject, because the URI that
//! matched may be rewritten while `$1` is still in use. One value lives as long as the exchange and each match overwrites
//! it, so only the first match of an exchange allocates. `pattern` fills it; the variables `$1` to `$9` read it.

/// Marks a group that took no part in the match.
const UNSET: (u32, u32) = (u32::MAX, u32::MAX);

/// The groups of the last match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captures {
    subject: Vec<u8>,
    spans: Vec<(u32, u32)>,
}

impl Captures {
    /// The bytes of group `number` (0 is the whole match); `None` if there is no such group or it took no part.
    pub fn group(&self, number: usize) -> Option<&[u8]> {
        let &(start, end) = self.spans.get(number)?;
        self.subject.get(start as usize..end as usize)
    }

    /// The group that one digit names; empty if it took no part and a later one did. `None`: the name is none of a group.
    pub(crate) fn of_digit(&self, name: &[u8]) -> Option<&[u8]> {
        let [digit @ b'0'..=b'9'] = name else { return None };
        let number = usize::from(digit - b'0');
        let has_part = self.spans.iter().skip(number).any(|span| *span != UNSET);
        has_part.then(|| self.group(number).unwrap_or_default())
    }

    /// Forgets the last match, keeping the memory for the next one.
    pub fn clear(&mut self) {
        self.subject.clear();
        self.spans.clear();
    }

    /// Records a match of `subject`: one span for each group, the whole match first.
    pub(crate) fn record(&mut self, subject: &[u8], spans: impl Iterator<Item = Option<(usize, usize)>>) {
        self.clear();
        self.subject.extend_from_slice(subject);
        self.spans.extend(spans.map(|span| span.map_or(UNSET, |(start, end)| (start as u32, end as u32))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_part_in_the_match_is_none() {
        let mut captures = Captures::default();
        captures.record(b"abc", [Some((0, 3)), None, Some((1, 2))].into_iter());
        assert_eq!(captures.group(0), Some(&b"abc"[..]));
        assert_eq!(captures.group(1), None);
        assert_eq!(captures.group(2), Some(&b"b"[..]));
        assert_eq!(captures.group(3), None);
    }
}
