//! The form of what is kept: certificates in Secrets of tenants, and the account in one of the controller's namespace. Pure.

use super::order_schedule::{Known, Memory, Validity};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ingress::CertificateWish;
use ingress::objects::core::Secret;
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The label of everything that is written here. Its value says what it is.
const LABEL: &str = "holdfast.dev/acme";
const CERTIFICATE: &str = "certificate";
const ACCOUNT: &str = "account";
const CHALLENGES: &str = "challenges";
/// The account that a certificate was ordered with, as `NAMESPACE/NAME` of its Secret: two controllers in one cluster do not
/// take each other's for their own.
const OF_ACCOUNT: &str = "holdfast.dev/acme-account";
/// The authority that issued a certificate.
const OF_DIRECTORY: &str = "holdfast.dev/acme-directory";
const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";
const ACCOUNT_KEY: &str = "account.key";
const MEMORY: &str = "state.json";

/// Who orders: the own account and the authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issuer {
    /// `NAMESPACE/NAME` of the account's Secret.
    pub(super) account: String,
    /// The directory URL.
    pub(super) directory: String,
}

/// What a Secret is to a wish.
pub(super) fn judge(secret: &Secret, wish: &CertificateWish, issuer: &Issuer) -> Known {
    let metadata = &secret.metadata;
    let is_ours = metadata.labels.get(LABEL).is_some_and(|value| value == CERTIFICATE)
        && metadata.annotations.get(OF_ACCOUNT) == Some(&issuer.account);
    if !is_ours {
        return Known::Foreign;
    }
    let text = |key: &str| secret.data.get(key).and_then(|text| STANDARD.decode(text.trim()).ok()).unwrap_or_default();
    let is_of_authority = metadata.annotations.get(OF_DIRECTORY) == Some(&issuer.directory);
    let found = validity(&text(CHAIN), &text(KEY), wish);
    let found = found.unwrap_or(Validity { start: UNIX_EPOCH, end: UNIX_EPOCH, suffices: false, chance: 0.0 });
    Known::Ours(Validity { suffices: found.suffices && is_of_authority, ..found })
}

/// What a chain and its key say; `None`: they cannot be used.
pub(super) fn validity(chain: &[u8], key: &[u8], wish: &CertificateWish) -> Option<Validity> {
    let facts = tls::Pair::from_pem(chain, key, b"").ok()?.facts()?;
    let at = |unix_s: i64| UNIX_EPOCH + Duration::from_secs(u64::try_from(unix_s).unwrap_or(0));
    let suffices = wish.hosts.iter().all(|host| facts.names.iter().any(|name| name.eq_ignore_ascii_case(host)));
    let mut hasher = DefaultHasher::new();
    (chain, wish.secret.to_string()).hash(&mut hasher);
    let chance = hasher.finish() as f64 / u64::MAX as f64;
    Some(Validity { start: at(facts.not_before), end: at(facts.not_after), suffices, chance })
}

/// The Secret with a certificate: a new one, or the present one with other contents.
pub(super) fn of_certificate(
    present: Option<Value>,
    wish: &CertificateWish,
    issuer: &Issuer,
    chain: &str,
    key: &str,
) -> Value {
    let mut secret = present.unwrap_or_else(|| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": &*wish.secret.name, "namespace": &*wish.secret.namespace},
        })
    });
    secret["metadata"]["labels"][LABEL] = json!(CERTIFICATE);
    secret["metadata"]["annotations"][OF_ACCOUNT] = json!(issuer.account);
    secret["metadata"]["annotations"][OF_DIRECTORY] = json!(issuer.directory);
    secret["data"] = json!({CHAIN: STANDARD.encode(chain), KEY: STANDARD.encode(key)});
    secret
}

/// A new Secret with an account.
pub(super) fn of_account(name: &str, key_pem: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "labels": {LABEL: ACCOUNT}},
        "data": {ACCOUNT_KEY: STANDARD.encode(key_pem)},
    })
}

/// The account's key in PEM, and what the last leader has left. An error: the Secret is not one with an account, and is left as
/// it is.
pub(super) fn account(secret: &Value) -> Result<(String, Memory), String> {
    let text = |key: &str| STANDARD.decode(secret["data"][key].as_str().unwrap_or_default().trim()).unwrap_or_default();
    if secret["metadata"]["labels"][LABEL] != ACCOUNT {
        return Err(format!("it has no label {LABEL}={ACCOUNT}"));
    }
    let key = String::from_utf8(text(ACCOUNT_KEY)).map_err(|_| format!("\"{ACCOUNT_KEY}\" is no text"))?;
    tls::account_key(key.as_bytes()).map_err(|finding| format!("\"{ACCOUNT_KEY}\": {}", finding.text))?;
    // Without it, failed orders are tried again at once; that is all.
    let memory = serde_json::from_slice(&text(MEMORY)).unwrap_or_default();
    Ok((key, memory))
}

/// Puts what the next leader has to know into the account's Secret.
pub(super) fn remember(secret: &mut Value, memory: &Memory) -> Result<(), String> {
    let text = serde_json::to_vec(memory).map_err(|error| error.to_string())?;
    secret["data"][MEMORY] = json!(STANDARD.encode(text));
    Ok(())
}

/// The Secret with the answers to challenges.
pub(super) fn of_challenges<'a>(name: &str, answers: impl Iterator<Item = (&'a String, &'a String)>) -> Value {
    let data: serde_json::Map<String, Value> =
        answers.map(|(token, authorization)| (token.clone(), json!(STANDARD.encode(authorization)))).collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "labels": {LABEL: CHALLENGES}},
        "data": data,
    })
}

/// The answers in it. What is no answer is left out.
pub(super) fn challenges(secret: &Value, most: usize) -> std::collections::BTreeMap<String, String> {
    if secret["metadata"]["labels"][LABEL] != CHALLENGES {
        return std::collections::BTreeMap::new();
    }
    let entries = secret["data"].as_object().into_iter().flatten();
    let answers = entries.filter_map(|(token, value)| {
        let authorization = String::from_utf8(STANDARD.decode(value.as_str()?.trim()).ok()?).ok()?;
        is_answer(token, &authorization).then(|| (token.clone(), authorization))
    });
    answers.take(most).collect()
}

/// Whether a token and its authorization have the form of RFC 8555 § 8.1: letters of base64url, and a point between them.
pub(super) fn is_answer(token: &str, authorization: &str) -> bool {
    /// The name of a key of a Secret.
    const TOKEN_BYTES_MAX: usize = 253;
    /// A thumbprint has 43.
    const THUMBPRINT_BYTES_MAX: usize = 128;
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let thumbprint = authorization.strip_prefix(token).and_then(|rest| rest.strip_prefix('.'));
    (1..=TOKEN_BYTES_MAX).contains(&token.len())
        && is_plain(token)
        && thumbprint.is_some_and(|text| (1..=THUMBPRINT_BYTES_MAX).contains(&text.len()) && is_plain(text))
}

/// Whether an order has nothing to do: the Secret is not ours, or its certificate is not due.
pub(super) fn is_settled(known: &Known, now: SystemTime) -> bool {
    known.due().is_none_or(|due| due > now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingress::Name;
    use testkit::Authority;

    fn wish(hosts: &[&str]) -> CertificateWish {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        CertificateWish { secret: Name::new("shop", "front"), hosts, objects: Vec::new() }
    }

    fn issuer() -> Issuer {
        Issuer { account: "sys/holdfast-acme".into(), directory: "https://ca.test/dir".into() }
    }

    fn typed(value: &Value) -> Secret {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn suffices(known: Known) -> Option<bool> {
        let Known::Ours(found) = known else { return None };
        Some(found.suffices)
    }

    #[test]
    fn certificate_is_matched_by_label_account_and_hosts() {
        let issued = Authority::new("ca").issue(&["a.test", "b.test"]);
        let secret = of_certificate(None, &wish(&["a.test"]), &issuer(), &issued.chain, &issued.key);
        let look = |hosts: &[&str], issuer: &Issuer| judge(&typed(&secret), &wish(hosts), issuer);
        assert_eq!(suffices(look(&["a.test", "b.test"], &issuer())), Some(true));
        assert_eq!(suffices(look(&["a.test", "c.test"], &issuer())), Some(false), "a host is missing");
        let production = Issuer { directory: "https://ca.test/live".into(), ..issuer() };
        assert_eq!(suffices(look(&["a.test"], &production)), Some(false), "it is another authority's");
        let other = Issuer { account: "sys/other".into(), ..issuer() };
        assert_eq!(look(&["a.test"], &other), Known::Foreign);
        let mut unlabelled = secret.clone();
        unlabelled["metadata"]["labels"] = json!({});
        assert_eq!(judge(&typed(&unlabelled), &wish(&["a.test"]), &issuer()), Known::Foreign);
        let mut broken = secret.clone();
        broken["data"]["tls.key"] = json!("bm8=");
        assert_eq!(suffices(judge(&typed(&broken), &wish(&["a.test"]), &issuer())), Some(false));
    }

    #[test]
    fn a_renewed_secret_keeps_what_others_wrote_to_its_metadata() {
        let present = json!({"metadata": {"name": "front", "resourceVersion": "7", "labels": {"team": "x"}},
            "data": {"tls.crt": "old", "more": "gone"}});
        let secret = of_certificate(Some(present), &wish(&["a.test"]), &issuer(), "chain", "key");
        assert_eq!(
            (&secret["metadata"]["resourceVersion"], &secret["metadata"]["labels"]["team"]),
            (&json!("7"), &json!("x"))
        );
        assert_eq!(secret["data"], json!({"tls.crt": STANDARD.encode("chain"), "tls.key": STANDARD.encode("key")}));
    }

    #[test]
    fn account_is_restored_and_foreign_secret_is_unused() {
        let key = tls::new_account_key().unwrap();
        let mut secret = of_account("holdfast-acme", &key);
        assert_eq!(account(&secret), Ok((key.clone(), Memory::default())));
        remember(&mut secret, &Memory::default()).unwrap();
        assert_eq!(account(&secret), Ok((key, Memory::default())));
        secret["metadata"]["labels"] = json!({});
        assert!(account(&secret).is_err_and(|text| text.contains("no label")));
        let broken = of_account("holdfast-acme", "no key");
        assert!(account(&broken).is_err_and(|text| text.contains("account.key")));
    }

    #[test]
    fn answers_have_the_form_of_the_protocol() {
        assert!(is_answer("aB-_9", "aB-_9.thumb_-print"));
        for (token, authorization) in
            [("", ".t"), ("a/b", "a/b.t"), ("a", "b.t"), ("a", "a"), ("a", "a."), ("a", "a.<x>")]
        {
            assert!(!is_answer(token, authorization), "{token} {authorization}");
        }
        let answers =
            std::collections::BTreeMap::from([("a".to_owned(), "a.t".to_owned()), ("b".into(), "b.t".into())]);
        let mut secret = of_challenges("c", answers.iter());
        assert_eq!(challenges(&secret, 10), answers);
        assert_eq!(challenges(&secret, 1).len(), 1);
        secret["data"]["c"] = json!(STANDARD.encode("other.t"));
        assert_eq!(challenges(&secret, 10), answers);
        secret["metadata"]["labels"] = json!({});
        assert!(challenges(&secret, 10).is_empty());
    }
}
