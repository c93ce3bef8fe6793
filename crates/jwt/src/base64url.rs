//! Base64 of URLs without padding, as JOSE uses it (RFC 7515 section 2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The decoded bytes; `None` if the text is not base64url.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
