//! The `priority` field and `PRIORITY_UPDATE` (RFC 9218): urgency and incremental. As the RFC says, a malformed value
//! counts as absent.

/// How to schedule a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// Whether a part of the response is useful: such responses share the connection, others are sent one by one.
    pub incremental: bool,
}

/// Number of urgencies.
pub(crate) const URGENCIES: usize = 8;

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Reads the value of a `priority` field: a dictionary of structured fields (RFC 9651), of which `u` and `i` are known.
    pub fn parse(value: &[u8]) -> Self {
        let mut priority = Self::default();
        for member in value.split(|&byte| byte == b',') {
            // Parameters of a member are ignored.
            let item = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            match item {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgency_and_incremental_are_read() {
        let is = |text: &str, urgency, incremental| {
            assert_eq!(Priority::parse(text.as_bytes()), Priority { urgency, incremental }, "{text}");
        };
        is("", 3, false);
        is("u=0", 0, false);
        is("u=5, i", 5, true);
        is("i;x=1 , u=7", 7, true);
        is("i=?0", 3, false);
        is("i=?1", 3, true);
        is("u=8", 3, false);
        is("u=-1, i=1", 3, false);
        is("u=1, u=2", 2, false);
        is("foo=bar, u=1", 1, false);
    }
}
