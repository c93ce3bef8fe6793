//! Follows one kind: a list in pages, then a watch from there; after 410 the list again. Failures are told once and tried
//! again with growing pauses.

use crate::api::{Api, ApiError};
use crate::backoff::Backoff;
use crate::controller::{Inner, lock};
use crate::kinds::{self, Place};
use crate::options::Severity;
use crate::store::name_of;
use futures_util::TryStreamExt as _;
use ingress::{Kind, Name};
use kube::core::WatchEvent;
use serde_json::Value;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Objects of one page: what client-go asks for.
const PAGE: usize = 500;
/// The time after which a kind that the server lacks is asked for again.
const ABSENT_PAUSE: Duration = Duration::from_secs(30);
/// How long the server keeps a watch open; a random part is added, so that not all end together.
const WATCH_SECONDS: u64 = 240;
/// A watch without a word for this long is opened again: bookmarks come each minute, so the connection is probably dead.
const SILENCE_MAX: Duration = Duration::from_secs(150);
/// A watch that ends sooner than this counts as a failure.
const SHORT: Duration = Duration::from_secs(1);

/// Why a kind must be listed again or asked for elsewhere.
enum Ended {
    /// The watch ended as watches do, or lost its connection: it continues where it was.
    Over,
    /// The version is too old.
    Expired,
}

struct Follower {
    inner: Arc<Inner>,
    api: Api,
    kind: Kind,
    place: Place,
    backoff: Backoff,
    /// The last failure, so that it is told once.
    told: Option<String>,
}

/// Runs as long as the controller.
pub(crate) async fn follow(inner: Arc<Inner>, api: Api, kind: Kind) {
    let mut follower =
        Follower { place: kinds::place(kind), inner, api, kind, backoff: Backoff::default(), told: None };
    if kind == Kind::Node && follower.inner.options.node.is_none() {
        return follower.is_absent();
    }
    follower.wait_for_those_that_name_it().await;
    loop {
        match follower.version().await {
            Ok(Some(version)) => follower.follow_version(version).await,
            Ok(None) => {
                follower.is_absent();
                tokio::time::sleep(ABSENT_PAUSE).await;
            }
            Err(error) => follower.failed(&error).await,
        }
    }
}

impl Follower {
    /// Only named Secrets and `ConfigMap`s are kept, so the objects that name them come first.
    async fn wait_for_those_that_name_it(&self) {
        let waits_for = |kind: Kind| match self.kind {
            Kind::ConfigMap => !kinds::is_kept_if_named(kind),
            Kind::Secret => kind != Kind::Secret,
            _ => false,
        };
        loop {
            let listed = self.inner.listed.notified();
            let mut listed = pin!(listed);
            listed.as_mut().enable();
            if !self.inner.store().unlisted().into_iter().any(waits_for) {
                return;
            }
            listed.await;
        }
    }

    /// The version that the server has; `None`: it lacks the kind.
    async fn version(&self) -> Result<Option<&'static str>, ApiError> {
        if !self.place.optional {
            return Ok(self.place.versions.first().copied());
        }
        let group = match self.api.get(&format!("/apis/{}", self.place.group)).await {
            Ok(group) => group,
            Err(error) if error.code() == 404 => return Ok(None),
            Err(error) => return Err(error),
        };
        let has =
            |version: &str| group["versions"].as_array().into_iter().flatten().any(|one| one["version"] == version);
        for version in self.place.versions.iter().filter(|version| has(version)) {
            match self.api.get(&self.place.base(version)).await {
                Ok(list) => {
                    if list["resources"].as_array().into_iter().flatten().any(|one| one["name"] == self.place.plural) {
                        return Ok(Some(version));
                    }
                }
                Err(error) if error.code() == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The server does not have the kind: there are no objects.
    fn is_absent(&mut self) {
        let effect = self.inner.store().listed(self.kind, &BTreeSet::new());
        self.inner.act(&effect);
        self.inner.note_listed(self.kind);
        self.recovered();
    }

    /// Lists and watches, until the kind must be looked for again.
    async fn follow_version(&mut self, version: &'static str) {
        lock(&self.inner.served).insert(self.kind, version);
        let path = self.place.list(version, self.inner.options.watch_namespace.as_deref());
        let mut at = match self.list(&path).await {
            Ok(at) => at,
            // The version of a kind may go away with its definition.
            Err(error) => return self.failed(&error).await,
        };
        self.inner.note_listed(self.kind);
        self.recovered();
        loop {
            let begun = Instant::now();
            match self.watch(&path, &mut at).await {
                Ok(Ended::Expired) => {
                    self.inner.figures.relists.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(Ended::Over) if begun.elapsed() >= SHORT => self.recovered(),
                Ok(Ended::Over) => tokio::time::sleep(self.backoff.next(fastrand::f64())).await,
                Err(error) if matches!(error.code(), 404 | 410) => return,
                Err(error) => self.failed(&error).await,
            }
        }
    }

    async fn list(&mut self, path: &str) -> Result<String, ApiError> {
        let (mut seen, mut next) = (BTreeSet::new(), String::new());
        loop {
            let more = if next.is_empty() { String::new() } else { format!("&continue={}", escaped(&next)) };
            let page = self.api.get(&format!("{path}?limit={PAGE}{}{more}", self.filter())).await;
            let mut page = match page {
                // The rest of the list is of a version that is gone: from the start.
                Err(error) if error.code() == 410 && !next.is_empty() => {
                    (seen, next) = (BTreeSet::new(), String::new());
                    continue;
                }
                page => page?,
            };
            if let Value::Array(items) = page["items"].take() {
                for object in items {
                    seen.extend(name_of(&object));
                    self.put(object);
                }
            }
            page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut next);
            if next.is_empty() {
                let effect = self.inner.store().listed(self.kind, &seen);
                self.inner.act(&effect);
                return Ok(page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned());
            }
        }
    }

    async fn watch(&mut self, path: &str, at: &mut String) -> Result<Ended, ApiError> {
        let seconds = WATCH_SECONDS + fastrand::u64(..60);
        let filter = self.filter();
        let path = format!(
            "{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}{filter}",
            escaped(at)
        );
        let mut events = self.api.watch(&path).await?;
        loop {
            let Ok(event) = tokio::time::timeout(SILENCE_MAX, events.try_next()).await else { return Ok(Ended::Over) };
            let Some(event) = event? else { return Ok(Ended::Over) };
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    advance(at, &object);
                    self.put(object);
                }
                WatchEvent::Deleted(object) => {
                    advance(at, &object);
                    if let Some(name) = name_of(&object) {
                        let effect = self.inner.store().remove(self.kind, &name);
                        self.inner.act(&effect);
                    }
                }
                WatchEvent::Bookmark(mark) => at.clone_from(&mark.metadata.resource_version),
                WatchEvent::Error(status) if status.code == 410 => return Ok(Ended::Expired),
                WatchEvent::Error(status) => {
                    return Err(ApiError::Refused { code: status.code, message: status.message.clone() });
                }
            }
        }
    }

    /// Only the own node is read.
    fn filter(&self) -> String {
        match (&self.kind, &self.inner.options.node) {
            (Kind::Node, Some(node)) => format!("&fieldSelector=metadata.name%3D{}", escaped(node)),
            _ => String::new(),
        }
    }

    fn put(&self, object: Value) {
        put(&self.inner, self.kind, object);
    }

    async fn failed(&mut self, error: &ApiError) {
        self.inner.figures.watch_failures.fetch_add(1, Ordering::Relaxed);
        let message = format!("{}: {error}; it is tried again", self.place.plural);
        if self.told.as_ref() != Some(&message) {
            self.inner.log(Severity::Warning, &message);
            self.told = Some(message);
        }
        tokio::time::sleep(self.backoff.next(fastrand::f64())).await;
    }

    fn recovered(&mut self) {
        self.backoff.reset();
        if self.told.take().is_some() {
            self.inner.log(Severity::Notice, &format!("{}: the API server answers again", self.place.plural));
        }
    }
}

fn put(inner: &Inner, kind: Kind, object: Value) {
    let name = name_of(&object);
    let outcome = inner.store().put(kind, object);
    match outcome {
        Ok(effect) => inner.act(&effect),
        Err(error) => {
            let name = name.map_or_else(String::new, |name: Name| name.to_string());
            inner.log(Severity::Warning, &format!("{} {name} is left out: {error}", kind.word()));
        }
    }
}

fn advance(at: &mut String, object: &Value) {
    if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
        version.clone_into(at);
    }
}

/// A value of a query.
pub(crate) fn escaped(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    value.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Gets Secrets and `ConfigMap`s that became named after they were listed.
pub(crate) async fn fetch_missing(inner: Arc<Inner>, api: Api) {
    let mut backoff = Backoff::default();
    let mut wanted = BTreeSet::new();
    loop {
        if wanted.is_empty() {
            inner.missing.notified().await;
        }
        wanted.extend(inner.store().take_missing());
        let mut failed = false;
        for (kind, name) in std::mem::take(&mut wanted) {
            if inner.options.watch_namespace.as_deref().is_some_and(|only| *only != *name.namespace) {
                continue;
            }
            match api.get(&kinds::place(kind).one("v1", &name)).await {
                // A watch may have brought a newer one meanwhile.
                Ok(object) if !inner.store().has(kind, &name) => put(&inner, kind, object),
                Ok(_) => {}
                // It is absent, or this replica may not read it: a watch tells when it appears.
                Err(error) if matches!(error.code(), 403 | 404) => {}
                Err(_) => {
                    failed = true;
                    wanted.insert((kind, name));
                }
            }
        }
        if failed {
            tokio::time::sleep(backoff.next(fastrand::f64())).await;
        } else {
            backoff.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_query_are_escaped() {
        assert_eq!(escaped("12345"), "12345");
        assert_eq!(escaped("a=b&c/+"), "a%3Db%26c%2F%2B");
    }
}
