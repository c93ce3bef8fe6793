//! The account at an authority: restored from the state directory, found by its key, or created.

use crate::acme::http::Http;
use crate::acme::store::Store;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway::acme::AcmeIssuerPlan;
use instant_acme::{Account, Error, ExternalAccountKey, Key, NewAccount};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io;

/// An account, and the result of storing it.
pub(crate) type Opened = (Account, io::Result<()>);

/// Restores the stored account without creating one; `None` if there is none.
pub(crate) async fn restore(plan: &AcmeIssuerPlan, store: &Store, http: &Http) -> Option<Result<Account, Error>> {
    let kept = store.account(&plan.uri)?;
    let (url, key) = (kept.url?, tls::account_key(&kept.key_pem).ok()?);
    if plan.account_key.as_ref().is_some_and(|own| *own != key) {
        return None;
    }
    let builder = Account::builder_with_http(Box::new(http.clone()));
    Some(builder.from_parts(url, PrivatePkcs8KeyDer::from(key), plan.uri.clone()).await)
}

/// The stored account, one found by the stored or configured key, or a new one.
pub(crate) async fn open(plan: &AcmeIssuerPlan, store: &Store, http: &Http) -> Result<Opened, Error> {
    if let Some(restored) = restore(plan, store, http).await {
        return Ok((restored?, Ok(())));
    }
    let kept = store.account(&plan.uri).and_then(|kept| tls::account_key(&kept.key_pem).ok());
    let builder = Account::builder_with_http(Box::new(http.clone()));
    let contacts: Vec<&str> = plan.contacts.iter().map(String::as_str).collect();
    let (account, credentials) = match plan.account_key.clone().or(kept) {
        // An external account binding is sent only with a key made here, so an existing key is used only without one.
        Some(key) if plan.external_key.is_none() => {
            let key = PrivatePkcs8KeyDer::from(key);
            let pair = (Key::from_pkcs8_der(key.clone_key())?, PrivateKeyDer::Pkcs8(key));
            let opened = if plan.accepts_terms {
                builder.create_from_key(pair, plan.uri.clone()).await?
            } else {
                builder.from_key(pair, plan.uri.clone()).await?
            };
            if !contacts.is_empty() {
                opened.0.update_contacts(&contacts).await?;
            }
            opened
        }
        _ => {
            let external = plan.external_key.as_ref().map(|(id, key)| ExternalAccountKey::new(id.clone(), key));
            let new = NewAccount {
                contact: &contacts,
                terms_of_service_agreed: plan.accepts_terms,
                only_return_existing: false,
            };
            builder.create(&new, plan.uri.clone(), external.as_ref()).await?
        }
    };
    let pem = to_pem(credentials.private_key().secret_pkcs8_der());
    let kept = store.keep_account(pem.as_bytes(), account.id(), &plan.uri);
    Ok((account, kept))
}

/// A private key in PEM.
fn to_pem(der: &[u8]) -> String {
    const LINE: usize = 64;
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    for line in text.as_bytes().chunks(LINE) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    pem
}
