//! Limits for reading a head, and which of nginx's leniencies apply. Values only: the gateway fills them from the
//! configuration, once per server or location.

/// Lines of a request head in nginx's default: `large_client_header_buffers 4 8k`.
const LARGE_BUFFERS: usize = 4;
/// Size of each of them.
const LARGE_BUFFER_BYTES: usize = 8 * 1024;
/// nginx's default `client_header_buffer_size 1k`.
const HEADER_BUFFER_BYTES: usize = 1024;
/// nginx's default `max_headers 1000`.
const FIELDS_MAX: usize = 1000;
/// No configuration may ask for longer heads: spans are 32 bits wide and a head is held in memory whole.
pub const HEAD_BYTES_CEILING: usize = 1 << 30;

/// What to do with a line that ends in LF without CR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BareLf {
    /// Accept it as a line end, as nginx does and RFC 9112 §2.2 allows; heads that we send always have CRLF.
    #[default]
    Accept,
    /// Refuse the head.
    Reject,
}

/// Bounds and leniencies for one head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The whole head with its line ends, in bytes. Beyond it [`crate::RequestError::HeadTooLarge`].
    pub head_bytes_max: usize,
    /// One line with its line end, in bytes. The request line beyond it is 414, any other line 400.
    pub line_bytes_max: usize,
    /// Number of fields, dropped ones included.
    pub fields_max: usize,
    /// `underscores_in_headers`: whether `_` is an ordinary character of a field name. Off: see `ignore_invalid_headers`.
    pub underscores_in_headers: bool,
    /// `ignore_invalid_headers`. A name made of token characters that nginx does not count among the valid ones
    /// (letters, digits, `-`, and `_` if allowed) is dropped when this is on, and taken like any other when off.
    ///
    /// It does **not** make us drop, or accept, a line that is no field: a line without colon, an empty name, a space
    /// before the colon or a byte that no token may have is always 400. Two parties that disagree about such a line
    /// disagree about the request.
    pub ignore_invalid_headers: bool,
    /// How to handle a line end without CR in a head. In chunked bodies it is always an error.
    pub bare_lf: BareLf,
}

impl Limits {
    /// From nginx's directives: `client_header_buffer_size`, the two values of `large_client_header_buffers`, and
    /// `max_headers`. As in nginx no line is longer than one (large) buffer and no head longer than all of them.
    pub fn from_buffers(header_buffer: usize, large_count: usize, large_size: usize, fields_max: usize) -> Self {
        Self {
            head_bytes_max: large_count
                .saturating_mul(large_size)
                .saturating_add(header_buffer)
                .min(HEAD_BYTES_CEILING),
            line_bytes_max: header_buffer.max(large_size).min(HEAD_BYTES_CEILING),
            fields_max,
            ..Self::default()
        }
    }

    /// Limits that admit everything that either of the two admits.
    #[must_use]
    pub fn widened(self, other: &Self) -> Self {
        Self {
            head_bytes_max: self.head_bytes_max.max(other.head_bytes_max),
            line_bytes_max: self.line_bytes_max.max(other.line_bytes_max),
            fields_max: self.fields_max.max(other.fields_max),
            underscores_in_headers: self.underscores_in_headers || other.underscores_in_headers,
            ignore_invalid_headers: self.ignore_invalid_headers && other.ignore_invalid_headers,
            ..self
        }
    }

    /// For response heads: the whole head fits into `proxy_buffer_size`, and any token is a valid field name.
    pub fn response(buffer_bytes: usize) -> Self {
        let bytes = buffer_bytes.min(HEAD_BYTES_CEILING);
        Self { head_bytes_max: bytes, line_bytes_max: bytes, underscores_in_headers: true, ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: HEADER_BUFFER_BYTES + LARGE_BUFFERS * LARGE_BUFFER_BYTES,
            line_bytes_max: LARGE_BUFFER_BYTES,
            fields_max: FIELDS_MAX,
            underscores_in_headers: false,
            ignore_invalid_headers: true,
            bare_lf: BareLf::Accept,
        }
    }
}
