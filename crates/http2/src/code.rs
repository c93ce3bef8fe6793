//! Error codes of `RST_STREAM` and GOAWAY (RFC 9113 §7).

use std::fmt;

/// An error code; the peer may send any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! codes {
    ($( $name:ident $value:literal )*) => {
        impl ErrorCode {
            $( #[doc = concat!("`", stringify!($name), "`")] pub const $name: Self = Self($value); )*

            /// The name in the RFC; `None` for a number that it does not define.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $( $value => Some(stringify!($name)), )* _ => None }
            }
        }
    };
}

codes! {
    NO_ERROR 0 PROTOCOL_ERROR 1 INTERNAL_ERROR 2 FLOW_CONTROL_ERROR 3 SETTINGS_TIMEOUT 4 STREAM_CLOSED 5
    FRAME_SIZE_ERROR 6 REFUSED_STREAM 7 CANCEL 8 COMPRESSION_ERROR 9 CONNECT_ERROR 10 ENHANCE_YOUR_CALM 11
    INADEQUATE_SECURITY 12 HTTP_1_1_REQUIRED 13
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_codes_have_their_names() {
        assert_eq!(ErrorCode::ENHANCE_YOUR_CALM.to_string(), "ENHANCE_YOUR_CALM");
        assert_eq!(ErrorCode(99).to_string(), "error code 99");
    }
}
