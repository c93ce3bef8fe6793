//! Errors in received bytes: one enum per role. Each value has a status, a phrase in nginx's log words if nginx has one
//! (people and tools search for those), and a precise reason of ours (`Display`). The callers decide who logs it, and
//! how often.

use thiserror::Error;

/// What is wrong with one field line; the same for requests and responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum LineFault {
    /// The line starts with a space or tab: line folding (RFC 9112 §5.2), or a space before the first field.
    #[error("the line starts with white space (obsolete line folding)")]
    Folded,
    /// There is no colon.
    #[error("the line has no colon")]
    NoColon,
    /// The name before the colon is empty.
    #[error("the field name is empty")]
    EmptyName,
    /// White space is between name and colon (RFC 9112 §5.1).
    #[error("white space before the colon")]
    SpaceBeforeColon,
    /// A byte that no field name may have.
    #[error("a byte in the field name that is not a token character")]
    NameByte,
    /// NUL or another control character in the value.
    #[error("a control character in the field value")]
    ValueByte,
    /// CR that is not followed by LF.
    #[error("a carriage return that is not part of a line end")]
    BareCr,
    /// LF without CR where the limits forbid it.
    #[error("a line feed without a carriage return")]
    BareLf,
}

/// Why a request head is refused. The connection is closed after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum RequestError {
    /// The method is empty, in lower case, or has a byte that no method may have.
    #[error("the method is not an upper-case token")]
    InvalidMethod,
    /// The request line has not the form `METHOD SP target SP HTTP/1.x`.
    #[error("the request line is not: method, one space, target, one space, version")]
    InvalidRequestLine,
    /// The request line ends after the target.
    #[error("the request line has no version (HTTP/0.9)")]
    NoVersion,
    /// The version is not `HTTP/` digit `.` digit.
    #[error("the version is not of the form HTTP/1.x")]
    MalformedVersion,
    /// A version that is not 1.x.
    #[error("a version other than HTTP/1.x")]
    UnsupportedVersion,
    /// A control character, `#` or a byte above 0x7E in the target.
    #[error("a byte in the request target that is not allowed there")]
    TargetByte,
    /// The target has none of the four forms, or one that does not fit the method.
    #[error("the request target has no form that fits the method")]
    InvalidTarget,
    /// The scheme of an absolute target is neither http nor https.
    #[error("a scheme other than http and https")]
    UnsupportedScheme,
    /// CONNECT or TRACE.
    #[error("the method is not allowed on a gateway")]
    MethodNotAllowed,
    /// The request line is longer than `line_bytes_max`.
    #[error("the request line is longer than one header buffer")]
    RequestLineTooLong,
    /// A field line is longer than `line_bytes_max`.
    #[error("a header line is longer than one header buffer")]
    FieldLineTooLong,
    /// The head is longer than `head_bytes_max`.
    #[error("the header is longer than all header buffers")]
    HeadTooLarge,
    /// More fields than `fields_max`.
    #[error("more header lines than allowed")]
    TooManyFields,
    /// A field line is malformed.
    #[error("{0}")]
    InvalidField(LineFault),
    /// A field that may appear only once is there twice.
    #[error("a field that may appear only once is repeated")]
    DuplicateField,
    /// HTTP/1.1 without Host.
    #[error("no Host field")]
    NoHost,
    /// Two Host fields.
    #[error("more than one Host field")]
    DuplicateHost,
    /// Host, or the authority of an absolute target, is empty, has user info or a path, or a bad name or port.
    #[error("the host is not a name or address with an optional port")]
    InvalidHost,
    /// Content-Length is not a decimal number that fits, or is a list.
    #[error("Content-Length is not one decimal number below 2^63")]
    InvalidContentLength,
    /// Two Content-Length fields.
    #[error("more than one Content-Length field")]
    DuplicateContentLength,
    /// Content-Length and Transfer-Encoding.
    #[error("both Content-Length and Transfer-Encoding")]
    ContentLengthAndTransferEncoding,
    /// Two Transfer-Encoding fields.
    #[error("more than one Transfer-Encoding field")]
    DuplicateTransferEncoding,
    /// Transfer-Encoding on HTTP/1.0.
    #[error("Transfer-Encoding in an HTTP/1.0 request")]
    TransferEncodingOnHttp10,
    /// Transfer-Encoding is empty, has chunked twice or not last.
    #[error("chunked is not the one and last transfer coding")]
    InvalidTransferEncoding,
    /// A transfer coding other than chunked.
    #[error("a transfer coding other than chunked")]
    UnknownTransferEncoding,
    /// `Connection` is no list of tokens, or a very long one.
    #[error("Connection is not a short list of tokens")]
    InvalidConnection,
    /// An extended CONNECT for anything but a WebSocket (RFC 8441).
    #[error("a :protocol other than websocket")]
    UnknownProtocol,
    /// An expectation other than 100-continue.
    #[error("an expectation other than 100-continue")]
    UnknownExpectation,
}

impl RequestError {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::MethodNotAllowed => 405,
            Self::RequestLineTooLong => 414,
            Self::UnknownExpectation => 417,
            Self::UnknownTransferEncoding | Self::UnknownProtocol => 501,
            Self::UnsupportedVersion => 505,
            _ => 400,
        }
    }

    /// Whether the part after the request line exceeds its limits: nginx's `error_page` calls that 494.
    pub fn is_too_large(self) -> bool {
        matches!(self, Self::FieldLineTooLong | Self::HeadTooLarge | Self::TooManyFields)
    }

    /// The phrase of nginx's error log for this case, without its details.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::InvalidMethod => "client sent invalid method",
            Self::InvalidRequestLine
            | Self::NoVersion
            | Self::MalformedVersion
            | Self::TargetByte
            | Self::InvalidTarget
            | Self::UnsupportedScheme => "client sent invalid request",
            Self::UnsupportedVersion => "client sent invalid version",
            Self::MethodNotAllowed => "client sent CONNECT or TRACE method",
            Self::RequestLineTooLong => "client sent too long URI",
            Self::FieldLineTooLong => "client sent too long header line",
            Self::HeadTooLarge => "client sent too large request",
            Self::TooManyFields => "client sent too many header lines",
            Self::InvalidField(_) => "client sent invalid header line",
            Self::DuplicateField | Self::DuplicateContentLength | Self::DuplicateTransferEncoding => {
                "client sent duplicate header line"
            }
            Self::NoHost => "client sent HTTP/1.1 request without \"Host\" header",
            Self::DuplicateHost => "client sent duplicate host header",
            Self::InvalidHost => "client sent invalid host header",
            Self::InvalidContentLength => "client sent invalid \"Content-Length\" header",
            Self::ContentLengthAndTransferEncoding => {
                "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"
            }
            Self::TransferEncodingOnHttp10 => "client sent HTTP/1.0 request with \"Transfer-Encoding\" header",
            Self::InvalidTransferEncoding => "client sent invalid \"Transfer-Encoding\" header",
            Self::UnknownTransferEncoding => "client sent unknown \"Transfer-Encoding\"",
            Self::InvalidConnection => "client sent invalid \"Connection\" header",
            Self::UnknownProtocol => "client sent unknown \":protocol\"",
            Self::UnknownExpectation => "client sent unknown \"Expect\"",
        }
    }
}

/// Why a response head is refused. The client is answered with 502, the upstream connection closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ResponseError {
    /// The first line is not `HTTP/1.x SP three digits`, or the status is below 100.
    #[error("the status line is not: HTTP/1.x, one space, a status from 100 to 999")]
    InvalidStatusLine,
    /// The head is longer than `head_bytes_max`.
    #[error("the header does not fit into its buffer")]
    HeadTooLarge,
    /// More fields than `fields_max`.
    #[error("more header lines than allowed")]
    TooManyFields,
    /// A field line is malformed.
    #[error("{0}")]
    InvalidField(LineFault),
    /// Content-Length is not a decimal number that fits, or is a list.
    #[error("Content-Length is not one decimal number below 2^63")]
    InvalidContentLength,
    /// Two Content-Length fields.
    #[error("more than one Content-Length field")]
    DuplicateContentLength,
    /// Content-Length and Transfer-Encoding.
    #[error("both Content-Length and Transfer-Encoding")]
    ContentLengthAndTransferEncoding,
    /// Two Transfer-Encoding fields.
    #[error("more than one Transfer-Encoding field")]
    DuplicateTransferEncoding,
    /// Transfer-Encoding on HTTP/1.0.
    #[error("Transfer-Encoding in an HTTP/1.0 response")]
    TransferEncodingOnHttp10,
    /// Transfer-Encoding is empty, has chunked twice or not last.
    #[error("chunked is not the one and last transfer coding")]
    InvalidTransferEncoding,
    /// A transfer coding other than chunked.
    #[error("a transfer coding other than chunked")]
    UnknownTransferEncoding,
    /// `Connection` is no list of tokens, or a very long one.
    #[error("Connection is not a short list of tokens")]
    InvalidConnection,
}

impl ResponseError {
    /// The status for the client: always 502.
    pub fn status(self) -> u16 {
        502
    }

    /// The phrase of nginx's error log for this case, without its details.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::InvalidStatusLine => "upstream sent no valid HTTP/1.0 header",
            Self::HeadTooLarge => "upstream sent too big header",
            Self::TooManyFields => "upstream sent too many headers",
            Self::InvalidField(_) => "upstream sent invalid header",
            Self::DuplicateContentLength | Self::DuplicateTransferEncoding => "upstream sent duplicate header line",
            Self::InvalidContentLength => "upstream sent invalid \"Content-Length\" header",
            Self::ContentLengthAndTransferEncoding => {
                "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"
            }
            Self::TransferEncodingOnHttp10 => "upstream sent HTTP/1.0 response with \"Transfer-Encoding\" header",
            Self::InvalidTransferEncoding => "upstream sent invalid \"Transfer-Encoding\" header",
            Self::UnknownTransferEncoding => "upstream sent unknown \"Transfer-Encoding\"",
            Self::InvalidConnection => "upstream sent invalid \"Connection\" header",
        }
    }
}

/// Why a chunked body is refused. Nothing after the bad byte is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ChunkError {
    /// The chunk size does not start with a hexadecimal digit.
    #[error("the chunk size is missing or not hexadecimal")]
    InvalidSize,
    /// More digits than fit, or a size from 2^63.
    #[error("the chunk size is too large")]
    SizeOverflow,
    /// A control character in a chunk extension, or white space that no extension follows.
    #[error("a malformed chunk extension")]
    InvalidExtension,
    /// Extensions beyond the bound.
    #[error("chunk extensions are too long")]
    ExtensionTooLong,
    /// A chunk line or chunk data that does not end in CRLF.
    #[error("a chunk line or chunk data does not end in CRLF")]
    MissingCrLf,
    /// A trailer line is malformed.
    #[error("trailer: {0}")]
    InvalidTrailer(LineFault),
    /// The trailer section is longer than the bound.
    #[error("the trailer section is too long")]
    TrailerTooLarge,
}

impl ChunkError {
    /// The status for a client that sent this; for an upstream it is 502.
    pub fn status(self) -> u16 {
        400
    }

    /// The phrase of nginx's error log for a bad client body.
    pub fn request_phrase(self) -> &'static str {
        "client sent invalid chunked body"
    }

    /// The phrase of nginx's error log for a bad upstream body.
    pub fn response_phrase(self) -> &'static str {
        "upstream sent invalid chunked response"
    }
}
