//! Certificates by ACME for Ingresses that ask for them. Every replica answers the authority's requests (`board`); the leader
//! orders (`leader`). What is ordered, and when, is decided by pure rules: `order_schedule` has the wishes, `budget` the pace, `secrets`
//! the form of what is kept. The protocol is not here: [`Authority`] speaks it.

mod board;
mod budget;
mod leader;
mod order_schedule;
mod secrets;

use crate::api::Api;
use crate::controller::Inner;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A future behind a pointer.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the authority asks for at `/.well-known/acme-challenge/TOKEN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeAnswer {
    /// The token.
    pub token: String,
    /// Its key authorization.
    pub authorization: String,
}

/// Publishes answers; ends when every replica gives them.
pub type Publish = Box<dyn FnOnce(Vec<ChallengeAnswer>) -> Boxed<Result<(), String>> + Send>;

/// A certificate with its key, in PEM.
pub struct IssuedCertificate {
    /// The chain.
    pub chain: String,
    /// The key.
    pub key: String,
}

/// Why an order failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderFailure {
    /// The reason.
    pub text: String,
    /// The pause that the authority requests.
    pub patience: Duration,
}

/// Speaks ACME.
pub trait Authority: Send + Sync + 'static {
    /// Orders a certificate for these hosts, with the account of this key in PEM.
    fn order(
        &self,
        account_key: String,
        hosts: Vec<String>,
        publish: Publish,
    ) -> Boxed<Result<IssuedCertificate, OrderFailure>>;
}

/// Settings of the orders.
#[derive(Clone)]
pub struct AcmeOptions {
    /// `--acme-directory`: a certificate of another authority is replaced.
    pub directory: String,
    /// `--acme-secret`: the Secret with the account, in the namespace of the Pod. The one with the challenges has the suffix
    /// `-challenges`.
    pub secret: String,
    /// The authority.
    pub authority: Arc<dyn Authority>,
}

impl fmt::Debug for AcmeOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AcmeOptions").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// Starts what all replicas do, and what the leader does. Without an authority, nothing.
pub(crate) fn start(inner: &Arc<Inner>, api: &Api) {
    let Some(options) = inner.options.acme.clone() else { return };
    let namespace = inner.options.namespace.clone().unwrap_or_else(|| api.namespace().to_owned());
    let board = Arc::new(board::Board::new(Arc::clone(inner), api.clone(), &namespace, &options.secret));
    tokio::spawn(Arc::clone(&board).follow());
    tokio::spawn(leader::run(Arc::clone(inner), api.clone(), board, options, namespace));
}
