//! `$jwt_…`: values of the request's JSON Web Token.

use crate::exchange::Exchange;
use jwt::claims::{text_at, text_of};
use rules::variable::JwtVariable;

impl Exchange {
    /// Appends the value; `false`: there is no token that was verified, or it has no such value. Keys may be selected by
    /// a token that is not verified yet (`auth_jwt_key_file` with variables).
    pub(super) fn write_token(&self, variable: &JwtVariable, out: &mut Vec<u8>) -> bool {
        let Some(token) = &self.routing.token else { return false };
        let text = match variable {
            JwtVariable::Payload => {
                out.extend_from_slice(token.payload());
                return true;
            }
            JwtVariable::Header(name) => text_of(token.header(), name),
            JwtVariable::Claim(name) => text_of(token.claims(), name),
            JwtVariable::HeaderAt(path) => text_at(token.header(), path.iter().map(|name| &**name)),
            JwtVariable::ClaimAt(path) => text_at(token.claims(), path.iter().map(|name| &**name)),
        };
        let has_value = text.is_some();
        out.extend_from_slice(text.unwrap_or_default().as_bytes());
        has_value
    }
}
