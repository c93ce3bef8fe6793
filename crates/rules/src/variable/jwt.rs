//! `$jwt_…`: variables of a JSON Web Token.

/// A value of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwtVariable {
    /// `$jwt_payload`: the claims as they came.
    Payload,
    /// `$jwt_header_name`: a field of the header; variables have names in lower case, so case does not count.
    Header(Box<str>),
    /// `$jwt_claim_name`: a claim.
    Claim(Box<str>),
    /// `auth_jwt_header_set`: the value below these names, which are exact.
    HeaderAt(Box<[Box<str>]>),
    /// `auth_jwt_claim_set`
    ClaimAt(Box<[Box<str>]>),
}

impl JwtVariable {
    /// The name, with `$`, for messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Payload => "$jwt_payload".to_owned(),
            Self::Header(name) => format!("$jwt_header_{name}"),
            Self::Claim(name) => format!("$jwt_claim_{name}"),
            Self::HeaderAt(_) | Self::ClaimAt(_) => "$…".to_owned(),
        }
    }
}
