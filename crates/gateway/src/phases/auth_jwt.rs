//! `auth_jwt`: a JSON Web Token decides. The signature is verified on the worker: it takes some tens of
//! microseconds, less than a job for another thread is worth, and at most eight keys are tried. Files are read
//! elsewhere, and private RSA keys decrypt elsewhere.

use crate::base::counters::{JwtRefusal, bump};
use crate::base::logs::error::quoted;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::subrequest::{Errand, LOOK_AGAIN};
use crate::exchange::view::ExchangeView;
use crate::exchange::waiting::Wants;
use crate::phases::access::AccessVerdict;
use crate::plan::auth_jwt::{JwtPlan, KeyFilePlan};
use http1::FieldId;
use jwt::keys::KEY_SET_BYTES_MAX;
use jwt::{Content, Envelope, KeySet, Token, TokenFault};
use reactor::Woken;
use rules::template::Template;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// Why there are no keys.
enum NoKeys {
    /// The client has left.
    ClientGone,
    Failed,
}

impl Exchange {
    /// Whether the request has a valid token. `asks`: subrequests may be made; otherwise (`holdfast explain`) a token
    /// whose keys need one counts as valid. The error: the client has left.
    pub(super) async fn auth_jwt(&mut self, plan: &JwtPlan, asks: bool) -> Result<AccessVerdict, Reply> {
        self.routing.set_token(None);
        let bytes = self.token_bytes(plan);
        if bytes.is_empty() {
            self.client_log("no token was provided for \"auth_jwt\"");
            self.count_refusal(JwtRefusal::Missing);
            return Ok(self.ask_for_token(plan, false));
        }
        let (token, envelope) = match plan.encrypted {
            None => match Token::parse(&bytes) {
                Ok(token) => (token, None),
                Err(fault) => return Ok(self.refuse_token(plan, &fault)),
            },
            Some(content) => match Envelope::parse(&bytes) {
                Ok(envelope) => (Token::closed(&envelope), Some((envelope, content))),
                Err(fault) => return Ok(self.refuse_token(plan, &fault)),
            },
        };
        // Variables may select the keys by what the token says. They lose its values again unless it is verified.
        self.routing.set_token(Some(token));
        let sets = if asks || plan.key_requests.is_empty() { self.key_sets(plan).await.map(Some) } else { Ok(None) };
        let verdict = match sets {
            Ok(Some(sets)) => self.check_token(plan, envelope, sets).await,
            Ok(None) => Ok(()),
            Err(no_keys) => {
                self.routing.set_token(None);
                return match no_keys {
                    NoKeys::ClientGone => Err(Reply::to_nobody(499)),
                    NoKeys::Failed => Ok(AccessVerdict::Failed(500)),
                };
            }
        };
        if let Err(fault) = verdict {
            self.routing.set_token(None);
            return Ok(self.refuse_token(plan, &fault));
        }
        Ok(self.check_requires(plan))
    }

    /// Decrypts the token if it is encrypted; then its signature and times.
    async fn check_token(
        &mut self,
        plan: &JwtPlan,
        envelope: Option<(Envelope, Content)>,
        sets: Vec<Arc<KeySet>>,
    ) -> Result<(), TokenFault> {
        if let Some((envelope, content)) = envelope {
            let keys = sets.clone();
            let is_costly = envelope.is_costly();
            let open = move || Token::open(&envelope, content, keys.iter().map(|set| &**set));
            let opened = if is_costly {
                // No other thread could take the job.
                self.offload(open).await.unwrap_or(Err(TokenFault::Undecipherable))
            } else {
                open()
            };
            self.routing.set_token(Some(opened?));
        }
        let Some(token) = self.routing.token().cloned() else { return Err(TokenFault::Undecipherable) };
        let now_s = u64::try_from(self.now_s()).unwrap_or(0);
        token.verify(sets.iter().map(|set| &**set), now_s, plan.leeway_s)
    }

    /// `auth_jwt_require`
    fn check_requires(&mut self, plan: &JwtPlan) -> AccessVerdict {
        for require in &plan.requires {
            let holds = require.values.iter().all(|value| self.any_is_true(std::slice::from_ref(value)));
            if !holds {
                self.client_log("auth_jwt: a value of \"auth_jwt_require\" is empty or 0");
                self.count_refusal(JwtRefusal::Requirement);
                return match require.status {
                    401 => self.ask_for_token(plan, true),
                    status => AccessVerdict::Deny(status),
                };
            }
        }
        AccessVerdict::Allow
    }

    /// The text of the token; empty if there is none.
    fn token_bytes(&self, plan: &JwtPlan) -> Vec<u8> {
        if let Some(template) = &plan.token {
            return self.evaluated(template);
        }
        let value = self.request.head.value(FieldId::Authorization, &self.request.bytes).unwrap_or_default();
        let (scheme, token) = value.split_at(value.iter().position(|byte| *byte == b' ').unwrap_or(value.len()));
        if scheme.eq_ignore_ascii_case(b"Bearer") { token.trim_ascii().to_vec() } else { Vec::new() }
    }

    fn evaluated(&self, template: &Template) -> Vec<u8> {
        let mut value = Vec::new();
        template.write(&ExchangeView::of(self), &mut value);
        value
    }

    fn refuse_token(&mut self, plan: &JwtPlan, fault: &TokenFault) -> AccessVerdict {
        self.client_log(&format!("auth_jwt: {fault}"));
        self.count_refusal(refusal_of(fault));
        self.ask_for_token(plan, true)
    }

    fn count_refusal(&self, refusal: JwtRefusal) {
        bump(&self.thread.counters().jwt_refused[refusal as usize], 1);
    }

    /// Logs and counts keys that cannot be used.
    fn keys_failed(&self, line: &str) {
        self.error_log(line);
        bump(&self.thread.counters().jwt_keys_failed, 1);
    }

    /// 401 with the challenge (RFC 6750 section 3).
    fn ask_for_token(&mut self, plan: &JwtPlan, is_invalid: bool) -> AccessVerdict {
        let error: &[u8] = if is_invalid { b",error=\"invalid_token\"" } else { b"" };
        let challenge = [b"Bearer realm=\"", &*self.evaluated(&plan.realm), b"\"", error].concat();
        let challenge = self.one_line(challenge, || "\"auth_jwt\"".to_owned());
        self.response.carry(FieldId::WwwAuthenticate.name().as_bytes(), &challenge);
        AccessVerdict::Deny(401)
    }

    /// All keys of the location. As in nginx, one source that fails is a failure of the check.
    async fn key_sets(&mut self, plan: &JwtPlan) -> Result<Vec<Arc<KeySet>>, NoKeys> {
        let mut sets = Vec::with_capacity(plan.key_files.len() + plan.key_requests.len());
        for file in &plan.key_files {
            sets.push(self.keys_of_file(plan, file).await?);
        }
        for template in &plan.key_requests {
            let uri = self.evaluated(template);
            sets.push(self.keys_by_request(plan, uri).await?);
        }
        Ok(sets)
    }

    async fn keys_of_file(&self, plan: &JwtPlan, file: &KeyFilePlan) -> Result<Arc<KeySet>, NoKeys> {
        let mut path = Vec::new();
        file.path.write(&ExchangeView::of(self), &mut path);
        if path.contains(&0) {
            self.keys_failed(&format!("\"{}\" is no path of a file", quoted(&path)));
            return Err(NoKeys::Failed);
        }
        let shown = quoted(&path);
        let (path, generation) = (PathBuf::from(OsString::from_vec(path)), self.generation.number);
        let registry = self.thread.registry;
        if let Some(keys) = registry.key_sets.fresh(&path, generation, plan.key_cache) {
            return Ok(keys);
        }
        let at_start = file.at_start.clone();
        let looked = self.offload(move || registry.key_sets.look(&path, generation, at_start)).await;
        let reason = match looked {
            Ok(Ok((keys, None))) => return Ok(keys),
            Ok(Ok((keys, Some(trouble)))) => {
                self.keys_failed(&format!("the keys in \"{shown}\" cannot be used: {trouble}; the earlier ones stay"));
                return Ok(keys);
            }
            Ok(Err(trouble)) => trouble,
            Err(error) => error.to_string(),
        };
        self.keys_failed(&format!("the keys in \"{shown}\" cannot be used: {reason}"));
        Err(NoKeys::Failed)
    }

    /// `auth_jwt_key_request`
    async fn keys_by_request(&mut self, plan: &JwtPlan, uri: Vec<u8>) -> Result<Arc<KeySet>, NoKeys> {
        let shown = quoted(&uri);
        let request = (self.generation.number, self.routing.target.server(), uri.as_slice().into());
        let registry = self.thread.registry;
        if let Some(keys) = registry.key_sets.answer(&request, plan.key_cache) {
            return Ok(keys);
        }
        let fetched = if uri.starts_with(b"/") { self.fetch_keys(uri).await? } else { Err("it is no URI".to_owned()) };
        let keys = fetched.and_then(|body| KeySet::parse(&body).map_err(|fault| fault.to_string()));
        match keys {
            Ok(keys) => {
                let keys = Arc::new(keys);
                if !plan.key_cache.is_zero() {
                    registry.key_sets.keep_answer(request, &keys);
                }
                Ok(keys)
            }
            Err(reason) => {
                self.keys_failed(&format!("the keys of \"{shown}\" (auth_jwt_key_request) cannot be used: {reason}"));
                Err(NoKeys::Failed)
            }
        }
    }

    /// The body of a subrequest's 200; the inner error says why there is none.
    async fn fetch_keys(&mut self, uri: Vec<u8>) -> Result<Result<Vec<u8>, String>, NoKeys> {
        let subrequest = self.start(Errand::for_reading(uri));
        let mut body = Vec::new();
        loop {
            let is_over = subrequest.is_over();
            let bytes = subrequest.take_body();
            body.extend_from_slice(&bytes);
            if body.len() > KEY_SET_BYTES_MAX {
                return Ok(Err(format!("the response is longer than {KEY_SET_BYTES_MAX} bytes")));
            }
            if !bytes.is_empty() {
                continue;
            }
            if is_over {
                let status = subrequest.ended().map_or(0, |ended| ended.status);
                return Ok(match status {
                    200 => Ok(body),
                    0 => Err("the response is incomplete".to_owned()),
                    status => Err(format!("unexpected status {status}")),
                });
            }
            if self.wait(Wants::NOTHING.holding(body.capacity()), LOOK_AGAIN).await == Woken::PeerGone {
                return Err(NoKeys::ClientGone);
            }
        }
    }
}

/// The reason by which a fault of a token is counted.
fn refusal_of(fault: &TokenFault) -> JwtRefusal {
    match fault {
        TokenFault::TooLong
        | TokenFault::NotThreeParts
        | TokenFault::NotFiveParts
        | TokenFault::Encrypted
        | TokenFault::NotEncrypted
        | TokenFault::Compressed
        | TokenFault::NotBase64(_)
        | TokenFault::NotAnObject(_)
        | TokenFault::UnknownAlgorithm(_)
        | TokenFault::CriticalExtension
        | TokenFault::BadTime(_) => JwtRefusal::Malformed,
        TokenFault::Undecipherable => JwtRefusal::Undecipherable,
        TokenFault::NoKey | TokenFault::TooManyKeys => JwtRefusal::NoKey,
        TokenFault::BadSignature => JwtRefusal::Signature,
        TokenFault::Expired => JwtRefusal::Expired,
        TokenFault::NotYetValid => JwtRefusal::NotYetValid,
    }
}
