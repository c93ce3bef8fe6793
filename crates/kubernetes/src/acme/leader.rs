//! The leader's part: takes wishes, makes orders, writes certificates, and leaves what the next leader has to know.

use super::board::Board;
use super::order_schedule::{Book, Job, Known, Outcome};
use super::secrets::{self, Issuer};
use super::{AcmeOptions, IssuedCertificate};
use crate::api::{Api, ApiError, JSON};
use crate::backoff::Backoff;
use crate::controller::{Inner, lock};
use crate::kinds;
use crate::options::Severity;
use http::Method;
use ingress::objects::core::Secret;
use ingress::{CertificateWish, Kind, Name};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use tokio::task::JoinSet;

/// Most tries to write a certificate that was issued: they take two minutes. Without the Secret the order was in vain.
const WRITES_MAX: usize = 10;

/// What orders need.
struct Issuance {
    inner: Arc<Inner>,
    api: Api,
    board: Arc<Board>,
    options: AcmeOptions,
    issuer: Issuer,
    /// The account's Secret, and all of its namespace.
    account: Name,
}

/// The account's Secret as it was read or written last.
struct Account {
    key: String,
    secret: Value,
}

/// What is ordered, without the objects that ask for it.
fn wish_of(job: Job) -> CertificateWish {
    CertificateWish { secret: job.secret, hosts: job.hosts.into_iter().collect(), objects: Vec::new() }
}

/// Runs as long as the controller.
pub(super) async fn run(inner: Arc<Inner>, api: Api, board: Arc<Board>, options: AcmeOptions, namespace: String) {
    let account = Name::new(namespace, options.secret.as_str());
    let issuer = Issuer { account: account.to_string(), directory: options.directory.clone() };
    let issuance = Arc::new(Issuance { inner, api, board, options, issuer, account });
    let (mut backoff, mut told) = (Backoff::default(), None);
    loop {
        if !issuance.leads() || issuance.wishes().is_none() {
            issuance.inner.to_order.notified().await;
            continue;
        }
        match issuance.open().await {
            Ok((account, book)) => {
                (backoff, told) = (Backoff::default(), None);
                issuance.board.clear().await;
                issuance.lead(account, book).await;
                *lock(&issuance.inner.order_findings) = Arc::default();
            }
            Err(text) => {
                let message =
                    format!("acme: the Secret {} with the account: {text}; it is tried again", issuance.account);
                if told.as_ref() != Some(&message) {
                    issuance.inner.log(Severity::Error, &message);
                    told = Some(message);
                }
                tokio::time::sleep(backoff.next(fastrand::f64())).await;
            }
        }
    }
}

impl Issuance {
    fn leads(&self) -> bool {
        self.inner.figures.leader.load(Ordering::SeqCst) && self.inner.is_complete()
    }

    /// The wishes of the last configuration; `None`: there was none yet.
    fn wishes(&self) -> Option<Arc<Vec<CertificateWish>>> {
        lock(&self.inner.wishes).clone()
    }

    fn path(name: &Name) -> String {
        kinds::place(Kind::Secret).one("v1", name)
    }

    fn all(namespace: &str) -> String {
        kinds::place(Kind::Secret).list("v1", Some(namespace))
    }

    async fn get(&self, name: &Name) -> Result<Option<Value>, ApiError> {
        match self.api.get(&Self::path(name)).await {
            Ok(secret) => Ok(Some(secret)),
            Err(error) if error.code() == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the account, or makes one. Its key is written before the authority hears of it, so that there is one account.
    async fn open(&self) -> Result<(Account, Book), String> {
        let failed = |error: ApiError| error.to_string();
        let mut secret = self.get(&self.account).await.map_err(failed)?;
        if secret.is_none() {
            let key = tls::new_account_key().map_err(|error| error.to_string())?;
            let body = secrets::of_account(&self.account.name, &key);
            secret = match self.api.send(Method::POST, &Self::all(&self.account.namespace), JSON, &body).await {
                Ok(secret) => Some(secret),
                // Another one was faster.
                Err(error) if error.code() == 409 => self.get(&self.account).await.map_err(failed)?,
                Err(error) => return Err(failed(error)),
            };
        }
        let secret = secret.ok_or("it was deleted")?;
        let (key, memory) = secrets::account(&secret)?;
        Ok((Account { key, secret }, Book::recall(memory)))
    }

    /// Makes orders as long as this replica leads.
    async fn lead(self: &Arc<Self>, mut account: Account, mut book: Book) {
        // Dropping it ends all orders.
        let mut orders: JoinSet<(Name, Outcome)> = JoinSet::new();
        while self.leads() {
            self.sync(&mut book);
            while let Some(job) = book.next(SystemTime::now()) {
                // Before the order: a leader that dies again and again has spent what it ordered.
                self.save(&mut account, &book).await;
                let issuance = Arc::clone(self);
                let (key, wish) = (account.key.clone(), wish_of(job));
                orders.spawn(async move {
                    let outcome = issuance.order(key, &wish).await;
                    (wish.secret, outcome)
                });
            }
            self.publish(&book);
            let pause = book.look_at(SystemTime::now()).duration_since(SystemTime::now()).unwrap_or_default();
            tokio::select! {
                Some(ended) = orders.join_next() => match ended {
                    Ok((secret, outcome)) => {
                        self.count(&outcome);
                        let line = book.finish(&secret, outcome, SystemTime::now(), fastrand::u64(..));
                        if let Some((is_trouble, text)) = line {
                            let severity = if is_trouble { Severity::Warning } else { Severity::Notice };
                            self.inner.log(severity, &format!("acme: namespace {}: {text}", secret.namespace));
                        }
                        self.save(&mut account, &book).await;
                    }
                    // A panic has printed its message. From what was saved on.
                    Err(error) => return self.inner.log(Severity::Error, &format!("acme: an order has ended: {error}")),
                },
                () = self.inner.to_order.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn sync(&self, book: &mut Book) {
        let wishes = self.wishes().unwrap_or_default();
        let store = self.inner.store();
        let find = |name: &Name| store.cluster.secrets.get(name).cloned();
        book.sync(&wishes, find, |secret, wish| secrets::judge(secret, wish, &self.issuer));
    }

    fn publish(&self, book: &Book) {
        let findings = book.findings();
        let mut told = lock(&self.inner.order_findings);
        if **told != findings {
            *told = Arc::new(findings);
            drop(told);
            self.inner.to_report.notify_one();
        }
    }

    fn count(&self, outcome: &Outcome) {
        let figures = &self.inner.figures;
        match outcome {
            Outcome::Issued(_) => figures.issued.fetch_add(1, Ordering::Relaxed),
            Outcome::Failed { .. } => figures.failed_orders.fetch_add(1, Ordering::Relaxed),
            Outcome::Present(_) | Outcome::Postponed => 0,
        };
    }

    /// Leaves what the next leader has to know. Without it, that one tries failed orders at once.
    async fn save(&self, account: &mut Account, book: &Book) {
        for _ in 0..2 {
            let outcome = match secrets::remember(&mut account.secret, &book.memory()) {
                Ok(()) => self.api.send(Method::PUT, &Self::path(&self.account), JSON, &account.secret).await,
                Err(text) => Err(ApiError::Failed(text)),
            };
            match outcome {
                Ok(secret) => {
                    account.secret = secret;
                    return;
                }
                // Someone wrote a label, or something else: on top of that.
                Err(error) if error.code() == 409 => {
                    if let Ok(Some(secret)) = self.get(&self.account).await {
                        account.secret = secret;
                    }
                }
                Err(error) => {
                    let message = format!("acme: the Secret {} cannot be written: {error}", self.account);
                    return self.inner.log(Severity::Warning, &message);
                }
            }
        }
    }

    /// Makes one order. The Secret is asked for first: what the watches brought may be old.
    async fn order(self: Arc<Self>, key: String, wish: &CertificateWish) -> Outcome {
        let Ok(present) = self.get(&wish.secret).await else { return Outcome::Postponed };
        let known = self.judge(present.as_ref(), wish);
        if secrets::is_settled(&known, SystemTime::now()) {
            return Outcome::Present(known);
        }
        let (board, secret) = (Arc::clone(&self.board), wish.secret.clone());
        let publish = Box::new(move |answers| -> super::Boxed<Result<(), String>> {
            Box::pin(async move { board.publish(&secret, answers).await })
        });
        let hosts = wish.hosts.iter().cloned().collect();
        let issued = self.options.authority.order(key, hosts, publish).await;
        self.board.withdraw(&wish.secret).await;
        match issued {
            Ok(issued) => self.keep(wish, &issued, present).await,
            Err(failure) => Outcome::Failed { reason: failure.text, patience: failure.patience },
        }
    }

    fn judge(&self, secret: Option<&Value>, wish: &CertificateWish) -> Known {
        let Some(secret) = secret else { return Known::Missing };
        let mut secret = secret.clone();
        ingress::objects::without_nulls(&mut secret);
        match serde_json::from_value::<Secret>(secret) {
            Ok(secret) => secrets::judge(&secret, wish, &self.issuer),
            Err(_) => Known::Foreign,
        }
    }

    /// Writes a certificate. Where a Secret of another has appeared meanwhile, that stays.
    async fn keep(&self, wish: &CertificateWish, issued: &IssuedCertificate, mut present: Option<Value>) -> Outcome {
        let failed = |reason: String| Outcome::Failed { reason, patience: std::time::Duration::ZERO };
        let Some(found) = secrets::validity(issued.chain.as_bytes(), issued.key.as_bytes(), wish) else {
            return failed("the authority's certificate cannot be used".to_owned());
        };
        if !found.suffices {
            return failed("the authority's certificate is not for all hosts".to_owned());
        }
        let mut backoff = Backoff::default();
        let mut trouble = String::new();
        for _ in 0..WRITES_MAX {
            let body = secrets::of_certificate(present.clone(), wish, &self.issuer, &issued.chain, &issued.key);
            let outcome = if present.is_some() {
                self.api.send(Method::PUT, &Self::path(&wish.secret), JSON, &body).await
            } else {
                self.api.send(Method::POST, &Self::all(&wish.secret.namespace), JSON, &body).await
            };
            match outcome {
                Ok(_) => return Outcome::Issued(found),
                Err(error) if matches!(error.code(), 404 | 409) => match self.get(&wish.secret).await {
                    Ok(secret) => {
                        let known = self.judge(secret.as_ref(), wish);
                        if known == Known::Foreign {
                            return failed("a Secret that is not ours has appeared meanwhile".to_owned());
                        }
                        present = secret;
                        trouble = error.to_string();
                    }
                    Err(error) => trouble = error.to_string(),
                },
                Err(error) if matches!(error.code(), 403 | 422) => {
                    return failed(format!("the Secret cannot be written: {error}"));
                }
                Err(error) => trouble = error.to_string(),
            }
            tokio::time::sleep(backoff.next(fastrand::f64())).await;
        }
        failed(format!("the Secret cannot be written: {trouble}"))
    }
}
