//! Certificates that an authority issues by ACME: who issues, and what is asked for.

use crate::plan::name::ResolverPlan;
use conf::model::{AcmeChallenge, AcmeIdentifier, AcmeProfile, CertificateKey};
use md5::{Digest as _, Md5};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

/// `acme_issuer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeIssuerPlan {
    /// Its name.
    pub name: Box<str>,
    /// The directory URL.
    pub uri: String,
    /// The account's key as PKCS #8; `None`: one is made.
    pub account_key: Option<Vec<u8>>,
    /// The challenge that is answered.
    pub challenge: AcmeChallenge,
    /// URLs of contacts.
    pub contacts: Vec<String>,
    /// Identifier and MAC key that bind the account to another one.
    pub external_key: Option<(String, Vec<u8>)>,
    /// The profile that is asked for.
    pub profile: Option<AcmeProfile>,
    /// Authorities of the server's own certificate, in PEM; `None` are the system's.
    pub trusted: Option<Vec<u8>>,
    /// Whether that certificate is checked.
    pub verify: bool,
    /// The directory in which keys and certificates are kept; `None`: they are not.
    pub state: Option<PathBuf>,
    /// Whether the terms of service are agreed to.
    pub accepts_terms: bool,
    /// Who looks the server's name up; `None`: the system's resolver.
    pub resolver: Option<Arc<ResolverPlan>>,
}

/// `acme_certificate`; servers with the same one share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeOrderPlan {
    /// Who issues it.
    pub issuer: Arc<AcmeIssuerPlan>,
    /// What it is for; at least one.
    pub identifiers: Vec<AcmeIdentifier>,
    /// Its private key.
    pub key: CertificateKey,
}

impl AcmeOrderPlan {
    /// Tells it from other orders of its issuer, in logs and as the name of a file: the first identifier, and a hash of all of them
    /// with the key's kind.
    pub fn id(&self) -> String {
        let mut digest = Md5::new();
        for identifier in &self.identifiers {
            digest.update(identifier.to_string());
            digest.update([0]);
        }
        digest.update(format!("{:?}", self.key));
        let mut id = self.identifiers.first().map(AcmeIdentifier::to_string).unwrap_or_default();
        id.push('-');
        for byte in &digest.finalize()[..8] {
            // Writing to a String cannot fail.
            let _ = write!(id, "{byte:02x}");
        }
        id
    }

    /// The certificate's name in messages.
    pub(crate) fn shown(&self) -> String {
        format!("acme {}/{}", self.issuer.name, self.id())
    }

    /// The file that has the certificate's chain and its key.
    pub fn file(&self) -> Option<PathBuf> {
        self.issuer.state.as_ref().map(|state| state.join(format!("{}.pem", self.id())))
    }
}

/// Index into `Plan::acme_orders`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcmeOrderId(pub(crate) u32);
