//! One order, from its identifiers to a certificate. The caller publishes the answers to challenges: for the workers of this
//! process, or for all replicas of a cluster.

use crate::acme::failure::Failure;
use gateway::acme::{AcmeChallenge, AcmeIdentifier, AcmeOrderPlan, CertificateKey, Challenge, Challenges};
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Error, Identifier, NewOrder,
    Order, OrderStatus, RetryPolicy,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tls::{CertificateRequest, KeyKind, ServerSide};

/// How long an authority may take to validate the challenges, and then to issue. Let's Encrypt takes seconds.
const PATIENCE: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).backoff(1.5).timeout(Duration::from_secs(90));

/// The result of an order: a chain and its key, both in PEM.
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Issued {
    /// The text of the stored file: chain and key in one file, so that they always match.
    pub(crate) fn to_file(&self) -> String {
        format!("{}\n{}", self.chain.trim_end(), self.key)
    }
}

/// The answer to a challenge: published before the authority asks for it.
pub(crate) enum Answer {
    /// A token and its key authorization.
    Http(String, String),
    /// The name in SNI, and the settings for its handshake.
    Tls(String, Arc<ServerSide>),
}

/// Orders a certificate. `replaces` is the certificate that it renews, for authorities that ask for it. `publish` gets the
/// answers; what it gives is held until the authority has validated them.
pub(crate) async fn issue<P, F, H>(
    account: &Account,
    plan: &AcmeOrderPlan,
    replaces: Option<CertificateIdentifier<'static>>,
    publish: P,
) -> Result<Issued, Failure>
where
    P: FnOnce(Vec<Answer>) -> F,
    F: Future<Output = Result<H, Failure>>,
{
    let identifiers: Vec<Identifier> = plan.identifiers.iter().map(identifier).collect();
    let mut order = begin(account, plan, &identifiers, replaces).await?;
    let held = publish(answers(&mut order, plan.issuer.challenge).await?).await?;
    announce(&mut order, plan.issuer.challenge).await?;
    let ready = order.poll_ready(&PATIENCE).await;
    if !matches!(ready, Ok(OrderStatus::Ready)) {
        return Err(rejection(&mut order, ready).await);
    }
    drop(held);
    let names: Vec<String> = plan.identifiers.iter().map(ToString::to_string).collect();
    let kind = key_kind(plan.key);
    // An RSA key takes up to a second, which would delay names and checks on this thread.
    let request = tokio::task::spawn_blocking(move || CertificateRequest::new(&names, kind)).await;
    let request = request.map_err(|_| Failure::ours("the key could not be made"))?;
    let request = request.map_err(|error| Failure::ours(&error.to_string()))?;
    order.finalize_csr(&request.der).await?;
    let chain = order.poll_certificate(&PATIENCE).await?;
    Ok(Issued { chain, key: request.key_pem })
}

async fn begin(
    account: &Account,
    plan: &AcmeOrderPlan,
    identifiers: &[Identifier],
    replaces: Option<CertificateIdentifier<'static>>,
) -> Result<Order, Failure> {
    let profile = match &plan.issuer.profile {
        Some(profile) if account.profiles().any(|known| known.name == profile.name) => Some(profile.name.as_str()),
        Some(profile) if profile.require => {
            return Err(Failure::ours(&format!("the authority has no profile \"{}\"", profile.name)));
        }
        _ => None,
    };
    let new = || profile.map_or_else(|| NewOrder::new(identifiers), |name| NewOrder::new(identifiers).profile(name));
    let Some(replaces) = replaces else { return Ok(account.new_order(&new()).await?) };
    match account.new_order(&new().replaces(replaces)).await {
        // The old certificate was replaced already, is not known any more, or its serial number is a fault of the
        // authority (Pebble answers 500 to some): order without `replaces`, which no authority needs.
        Err(Error::Api(_)) => Ok(account.new_order(&new()).await?),
        begun => Ok(begun?),
    }
}

/// The answers to all challenges that are pending.
async fn answers(order: &mut Order, kind: AcmeChallenge) -> Result<Vec<Answer>, Failure> {
    let mut found = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => return Err(Failure::ours(&format!("an authorization is {other:?}"))),
        }
        let subject = authorization.identifier().to_string();
        let Some(challenge) = authorization.challenge(challenge_type(kind)) else {
            let name = if kind == AcmeChallenge::Http01 { "http-01" } else { "tls-alpn-01" };
            let message = format!("the authority does not offer the challenge \"{name}\" for {subject}");
            return Err(Failure::ours(&message));
        };
        found.push(answer(&challenge, kind)?);
    }
    Ok(found)
}

/// Tells the authority that the answers are published.
async fn announce(order: &mut Order, kind: AcmeChallenge) -> Result<(), Failure> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Pending
            && let Some(mut challenge) = authorization.challenge(challenge_type(kind))
        {
            challenge.set_ready().await?;
        }
    }
    Ok(())
}

fn answer(challenge: &ChallengeHandle<'_>, kind: AcmeChallenge) -> Result<Answer, Failure> {
    let authorization = challenge.key_authorization();
    if kind == AcmeChallenge::Http01 {
        return Ok(Answer::Http(challenge.token.clone(), authorization.as_str().to_owned()));
    }
    let digest: [u8; 32] = authorization.digest().as_ref().try_into().map_err(|_| Failure::ours("no SHA-256"))?;
    let (subject, sni) = match challenge.identifier().identifier {
        Identifier::Dns(name) => (name.clone(), name.to_ascii_lowercase()),
        Identifier::Ip(address) => (address.to_string(), reverse_name(*address)),
        _ => return Err(Failure::ours("an identifier that was not asked for")),
    };
    let side = tls::challenge_side(&subject, &digest).map_err(|error| Failure::ours(&error.to_string()))?;
    Ok(Answer::Tls(sni, Arc::new(side)))
}

/// Answers of workers to authorities while the result lives.
pub(crate) fn hold(challenges: &Challenges, answers: Vec<Answer>) -> Vec<Challenge> {
    let held = answers.into_iter().map(|answer| match answer {
        Answer::Http(token, authorization) => challenges.answer_http(token, &authorization),
        Answer::Tls(name, side) => challenges.answer_tls(name, side),
    });
    held.collect()
}

/// Why the order is not ready: the authority's messages about its challenges.
async fn rejection(order: &mut Order, ready: Result<OrderStatus, Error>) -> Failure {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let name = authorization.identifier().to_string();
        let Ok(state) = authorization.refresh().await else { continue };
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.clone()) {
            return Failure::rejected(&name, &problem);
        }
    }
    match ready {
        Err(error) => error.into(),
        Ok(status) => Failure::ours(&format!("the order is {status:?}")),
    }
}

fn identifier(identifier: &AcmeIdentifier) -> Identifier {
    match identifier {
        AcmeIdentifier::Name(name) => Identifier::Dns(name.clone()),
        AcmeIdentifier::Address(address) => Identifier::Ip(*address),
    }
}

/// The SNI that an authority sends for an address (RFC 8738 § 6).
fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}")).collect::<Vec<_>>().join(".") + ".ip6.arpa"
        }
    }
}

const fn challenge_type(kind: AcmeChallenge) -> ChallengeType {
    match kind {
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
    }
}

const fn key_kind(key: CertificateKey) -> KeyKind {
    match key {
        CertificateKey::Ecdsa256 => KeyKind::Ecdsa256,
        CertificateKey::Ecdsa384 => KeyKind::Ecdsa384,
        CertificateKey::Ecdsa521 => KeyKind::Ecdsa521,
        CertificateKey::Rsa2048 => KeyKind::Rsa2048,
        CertificateKey::Rsa3072 => KeyKind::Rsa3072,
        CertificateKey::Rsa4096 => KeyKind::Rsa4096,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_name_of_its_reverse_lookup() {
        assert_eq!(reverse_name("192.0.2.1".parse().unwrap()), "1.2.0.192.in-addr.arpa");
        let v6 = reverse_name("2001:db8::1".parse().unwrap());
        assert_eq!(v6, "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa");
    }
}
