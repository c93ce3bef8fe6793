//! The client of ACME of the control plane, as the crate `kubernetes` asks it.

use control::{AcmeAnswer, AcmeClient, AcmeSettings};
use kubernetes::{AcmeOptions, Authority, Boxed, ChallengeAnswer, IssuedCertificate, OrderFailure, Publish};
use std::path::PathBuf;
use std::sync::Arc;

/// What the command line says about the authority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AcmeStart {
    /// `--acme-directory`.
    pub(crate) directory: String,
    /// `--acme-contact`.
    pub(crate) contacts: Vec<String>,
    /// `--acme-accept-terms`.
    pub(crate) accepts_terms: bool,
    /// `--acme-trusted-certificate`.
    pub(crate) trusted: Option<PathBuf>,
    /// `--acme-secret`.
    pub(crate) secret: String,
}

/// Makes the client. An error: its settings cannot be used.
pub(super) fn options(start: AcmeStart) -> Result<AcmeOptions, String> {
    let AcmeStart { directory, contacts, accepts_terms, trusted, secret } = start;
    let read = |path: PathBuf| {
        let failed = |error: std::io::Error| format!("{}: {}", path.display(), crate::report::errno(&error));
        std::fs::read(&path).map_err(failed)
    };
    let trusted = trusted.map(read).transpose()?;
    let settings = AcmeSettings { directory: directory.clone(), contacts, accepts_terms, trusted };
    let client = AcmeClient::new(settings).map_err(|error| format!("--acme-directory: {error}"))?;
    Ok(AcmeOptions { directory, secret, authority: Arc::new(Client(Arc::new(client))) })
}

struct Client(Arc<AcmeClient>);

impl Authority for Client {
    fn order(
        &self,
        account_key: String,
        hosts: Vec<String>,
        publish: Publish,
    ) -> Boxed<Result<IssuedCertificate, OrderFailure>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move {
            let publish = |answers: Vec<AcmeAnswer>| publish(answers.into_iter().map(answer).collect());
            match client.order(&account_key, &hosts, publish).await {
                Ok(issued) => Ok(IssuedCertificate { chain: issued.chain, key: issued.key }),
                Err(failure) => Err(OrderFailure { text: failure.text, patience: failure.patience }),
            }
        })
    }
}

fn answer(answer: AcmeAnswer) -> ChallengeAnswer {
    ChallengeAnswer { token: answer.token, authorization: answer.authorization }
}
