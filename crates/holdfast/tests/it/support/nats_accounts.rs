//! The accounts of a NATS server in operator mode, and a user's file of credentials, as the tool `nsc` makes them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

/// An operator with one account and one user.
pub(crate) struct Accounts {
    operator: String,
    account_key: String,
    account: String,
    user: String,
    user_seed: String,
}

impl Accounts {
    pub(crate) fn new() -> Self {
        let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
        let no_limits = json!({"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
            "conn": -1, "leaf": -1});
        let of_account = json!({"type": "account", "version": 2, "limits": no_limits});
        let of_user = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
        Self {
            operator: jwt(&operator, &operator, &json!({"type": "operator", "version": 2})),
            account_key: account.public_key(),
            account: jwt(&operator, &account, &of_account),
            user: jwt(&account, &user, &of_user),
            user_seed: user.seed().expect("it was made here"),
        }
    }

    /// Lines of the server's configuration.
    pub(crate) fn configuration(&self) -> String {
        format!(
            "operator: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {} }}\n",
            self.operator, self.account_key, self.account
        )
    }

    /// The user's file of credentials.
    pub(crate) fn credentials(&self) -> String {
        format!(
            "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            self.user, self.user_seed
        )
    }
}

/// A JWT of NATS: who signs it, for whom, and what it grants.
fn jwt(by: &KeyPair, subject: &KeyPair, grants: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let claims = json!({"jti": "TEST", "iat": 1_700_000_000, "iss": by.public_key(), "name": "test",
        "sub": subject.public_key(), "nats": grants});
    let signed = format!("{}.{}", part(&head), part(&claims));
    let signature = by.sign(signed.as_bytes()).expect("it has a seed");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}
