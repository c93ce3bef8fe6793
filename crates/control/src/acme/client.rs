//! A client of one authority for a cluster: it has no state directory and no renewals. The caller keeps the account's key,
//! publishes the answers to challenges, stores the certificate, and decides when to order again.

use crate::acme::failure::Failure;
use crate::acme::http::Http;
use crate::acme::order::{self, Answer};
use crate::acme::store::Store;
use crate::acme::{ORDER_TIMEOUT, account};
use gateway::acme::{AcmeChallenge, AcmeIdentifier, AcmeIssuerPlan, AcmeOrderPlan, CertificateKey};
use instant_acme::Account;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// An authority, and how it is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The directory URL: `https`.
    pub directory: String,
    /// Addresses or URLs of contacts; an address without a scheme is `mailto:`.
    pub contacts: Vec<String>,
    /// Whether the terms of service are accepted.
    pub accepts_terms: bool,
    /// Trusted authorities for the server's own certificate, in PEM; `None`: the system's.
    pub trusted: Option<Vec<u8>>,
}

/// What the authority asks for at `/.well-known/acme-challenge/TOKEN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeAnswer {
    /// The token.
    pub token: String,
    /// Its key authorization.
    pub authorization: String,
}

/// A certificate.
pub struct AcmeCertificate {
    /// Its chain in PEM.
    pub chain: String,
    /// Its key in PEM.
    pub key: String,
}

/// Why there is no certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeFailure {
    /// The reason.
    pub text: String,
    /// The pause that the authority requests.
    pub patience: Duration,
}

impl From<Failure> for AcmeFailure {
    fn from(failure: Failure) -> Self {
        Self { text: failure.text, patience: failure.patience }
    }
}

/// A client. Orders may run at the same time.
pub struct AcmeClient {
    plan: AcmeIssuerPlan,
    http: Http,
    /// The account, with the key that it was opened by.
    account: Mutex<Option<(Vec<u8>, Account)>>,
}

impl AcmeClient {
    /// Does not connect yet. An error: the URL or the trusted certificates cannot be used.
    pub fn new(settings: AcmeSettings) -> Result<Self, String> {
        if !settings.directory.starts_with("https://") {
            return Err(format!("\"{}\" does not begin with https://", settings.directory));
        }
        let plan = AcmeIssuerPlan {
            name: "cluster".into(),
            uri: settings.directory,
            account_key: None,
            challenge: AcmeChallenge::Http01,
            contacts: settings.contacts.into_iter().map(contact).collect(),
            external_key: None,
            profile: None,
            trusted: settings.trusted,
            verify: true,
            state: None,
            accepts_terms: settings.accepts_terms,
            resolver: None,
        };
        let http = Http::new(&plan).map_err(|error| error.to_string())?;
        Ok(Self { plan, http, account: Mutex::default() })
    }

    /// Orders a certificate for host names by `http-01`. The account is the one of this key, in PEM; it is made if the
    /// authority does not know it. `publish` gets the answers, and ends when the authority may ask for them.
    pub async fn order<P, F>(
        &self,
        account_key: &str,
        hosts: &[String],
        publish: P,
    ) -> Result<AcmeCertificate, AcmeFailure>
    where
        P: FnOnce(Vec<AcmeAnswer>) -> F,
        F: Future<Output = Result<(), String>>,
    {
        let outcome = timeout(ORDER_TIMEOUT, self.try_order(account_key, hosts, publish)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(Failure::ours("the order took too long")));
        if outcome.is_err() {
            // Nonces and URLs of a failed attempt are not used again.
            *self.account.lock().await = None;
        }
        Ok(outcome?)
    }

    async fn try_order<P, F>(&self, account_key: &str, hosts: &[String], publish: P) -> Result<AcmeCertificate, Failure>
    where
        P: FnOnce(Vec<AcmeAnswer>) -> F,
        F: Future<Output = Result<(), String>>,
    {
        let key = tls::account_key(account_key.as_bytes()).map_err(|finding| Failure::ours(&finding.text))?;
        let account = self.account(key).await?;
        let plan = AcmeOrderPlan {
            issuer: Arc::new(self.plan.clone()),
            identifiers: hosts.iter().cloned().map(AcmeIdentifier::Name).collect(),
            key: CertificateKey::Ecdsa256,
        };
        let publish = |answers: Vec<Answer>| {
            let ended = publish(answers.into_iter().filter_map(of_http).collect());
            async move { ended.await.map_err(|text| Failure::ours(&text)) }
        };
        let issued = order::issue(&account, &plan, None, publish).await?;
        Ok(AcmeCertificate { chain: issued.chain, key: issued.key })
    }

    /// The account. Several orders that begin at the same time open it once.
    async fn account(&self, key: Vec<u8>) -> Result<Account, Failure> {
        let mut known = self.account.lock().await;
        if let Some((_, account)) = known.as_ref().filter(|(own, _)| *own == key) {
            return Ok(account.clone());
        }
        let plan = AcmeIssuerPlan { account_key: Some(key.clone()), ..self.plan.clone() };
        let (account, _) = account::open(&plan, &Store::new(None), &self.http).await?;
        *known = Some((key, account.clone()));
        Ok(account)
    }
}

fn of_http(answer: Answer) -> Option<AcmeAnswer> {
    match answer {
        Answer::Http(token, authorization) => Some(AcmeAnswer { token, authorization }),
        Answer::Tls(..) => None,
    }
}

/// An address without a scheme is one of mail.
fn contact(text: String) -> String {
    if text.contains(':') { text } else { format!("mailto:{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_without_a_connection() {
        let settings = |directory: &str| AcmeSettings { directory: directory.to_owned(), ..AcmeSettings::default() };
        assert!(AcmeClient::new(settings("https://ca.test/directory")).is_ok());
        assert!(AcmeClient::new(settings("http://ca.test/directory")).is_err_and(|text| text.contains("https://")));
        let broken = AcmeSettings { trusted: Some(b"no PEM".to_vec()), ..settings("https://ca.test/directory") };
        assert!(AcmeClient::new(broken).is_err());
    }

    #[test]
    fn contacts_without_a_scheme_are_addresses_of_mail() {
        assert_eq!(contact("a@b.test".into()), "mailto:a@b.test");
        assert_eq!(contact("mailto:a@b.test".into()), "mailto:a@b.test");
    }
}
