//! The answers to challenges, in one Secret that the leader writes and all replicas watch: the authority's request reaches any
//! of them.

use super::ChallengeAnswer;
use super::secrets::{challenges, is_answer, of_challenges};
use crate::api::{Api, ApiError, JSON};
use crate::backoff::Backoff;
use crate::controller::Inner;
use crate::kinds;
use crate::options::Severity;
use crate::watch::escaped;
use futures_util::TryStreamExt as _;
use http::Method;
use ingress::{Kind, Name};
use kube::core::WatchEvent;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

/// Most answers: four orders of a hundred hosts, and some that a former leader has left.
const ANSWERS_MAX: usize = 512;
/// How long the own watch may take to bring what was written.
const SEEN_MAX: Duration = Duration::from_secs(10);
/// After the own watch has brought it, those of the other replicas have this long. The API server sends an event to all watches
/// at once, which takes some milliseconds; a replica with a broken watch asks again after half a second.
const OTHERS: Duration = Duration::from_secs(2);
/// As the other watches have it: the server ends a watch, and the next one begins.
const WATCH_SECONDS: u64 = 300;
/// A silent connection is given up.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS + 60);

/// The Secret with the answers.
pub(super) struct Board {
    inner: Arc<Inner>,
    api: Api,
    name: Name,
    /// What the leader has written, by the Secret that is ordered. Locked while it is written.
    own: Mutex<BTreeMap<Name, Vec<ChallengeAnswer>>>,
    /// What this replica answers.
    seen: watch::Sender<BTreeMap<String, String>>,
}

impl Board {
    pub(super) fn new(inner: Arc<Inner>, api: Api, namespace: &str, account: &str) -> Self {
        let name = Name::new(namespace, format!("{account}-challenges"));
        Self { inner, api, name, own: Mutex::default(), seen: watch::Sender::default() }
    }

    /// Publishes answers for an order; ends when all replicas give them.
    pub(super) async fn publish(&self, order: &Name, answers: Vec<ChallengeAnswer>) -> Result<(), String> {
        if let Some(wrong) = answers.iter().find(|answer| !is_answer(&answer.token, &answer.authorization)) {
            return Err(format!("the authority's token \"{}\" is not valid", wrong.token.escape_debug()));
        }
        let mut own = self.own.lock().await;
        own.insert(order.clone(), answers.clone());
        let written = self.write(&own).await;
        drop(own);
        written.map_err(|error| format!("the answers to challenges could not be written: {error}"))?;
        let mut seen = self.seen.subscribe();
        let has_all = |seen: &BTreeMap<String, String>| answers.iter().all(|it| seen.contains_key(&it.token));
        let is_seen = matches!(timeout(SEEN_MAX, seen.wait_for(has_all)).await, Ok(Ok(_)));
        if !is_seen {
            return Err(format!("the Secret {} was written, but no watch has brought it", self.name));
        }
        tokio::time::sleep(OTHERS).await;
        Ok(())
    }

    /// Takes the answers of an order back.
    pub(super) async fn withdraw(&self, order: &Name) {
        let mut own = self.own.lock().await;
        if own.remove(order).is_some() {
            // What stays does no harm, and the next write takes it away.
            let _ = self.write(&own).await;
        }
    }

    /// A new leader begins without the answers of the last one.
    pub(super) async fn clear(&self) {
        let mut own = self.own.lock().await;
        own.clear();
        if !self.seen.borrow().is_empty() {
            let _ = self.write(&own).await;
        }
    }

    /// The path of all Secrets of the namespace.
    fn all(&self) -> String {
        kinds::place(Kind::Secret).list("v1", Some(&self.name.namespace))
    }

    async fn write(&self, own: &BTreeMap<Name, Vec<ChallengeAnswer>>) -> Result<(), ApiError> {
        let answers = own.values().flatten().map(|answer| (&answer.token, &answer.authorization));
        let body = of_challenges(&self.name.name, answers);
        let (one, all) = (kinds::place(Kind::Secret).one("v1", &self.name), self.all());
        match self.api.send(Method::PUT, &one, JSON, &body).await {
            Err(error) if error.code() == 404 => self.api.send(Method::POST, &all, JSON, &body).await.map(drop),
            outcome => outcome.map(drop),
        }
    }

    /// Keeps this replica's answers as the Secret has them. Runs as long as the controller.
    pub(super) async fn follow(self: Arc<Self>) {
        let (mut backoff, mut told) = (Backoff::default(), None);
        loop {
            match self.look().await {
                Ok(()) => {
                    backoff.reset();
                    told = None;
                }
                Err(error) => {
                    let message = format!("the Secret {}: {error}; it is tried again", self.name);
                    if told.as_ref() != Some(&message) {
                        self.inner.log(Severity::Warning, &message);
                        told = Some(message);
                    }
                    tokio::time::sleep(backoff.next(fastrand::f64())).await;
                }
            }
        }
    }

    /// Lists and watches, until the watch ends.
    async fn look(&self) -> Result<(), ApiError> {
        let filter = format!("fieldSelector=metadata.name%3D{}", escaped(&self.name.name));
        let list = self.api.get(&format!("{}?{filter}", self.all())).await?;
        self.set(&list["items"][0]);
        let at = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let path =
            format!("{}?watch=1&{filter}&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}", self.all(), escaped(at));
        let mut events = self.api.watch(&path).await?;
        loop {
            let Ok(event) = timeout(SILENCE_MAX, events.try_next()).await else { return Ok(()) };
            match event? {
                Some(WatchEvent::Added(secret) | WatchEvent::Modified(secret)) => self.set(&secret),
                Some(WatchEvent::Deleted(_)) => self.set(&Value::Null),
                Some(WatchEvent::Bookmark(_)) => {}
                // It is listed again.
                Some(WatchEvent::Error(status)) if status.code == 410 => return Ok(()),
                Some(WatchEvent::Error(status)) => {
                    return Err(ApiError::Refused { code: status.code, message: status.message.clone() });
                }
                None => return Ok(()),
            }
        }
    }

    fn set(&self, secret: &Value) {
        let answers = challenges(secret, ANSWERS_MAX);
        self.inner.host.challenges(&answers);
        self.seen.send_replace(answers);
    }
}
