//! Requests to the API server: paths and JSON, over `kube`'s client, which has the credentials.

use crate::options::Options;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{Method, Request};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use serde_json::Value;
use std::time::Duration;

/// The longest time for an answer: a page of 500 objects takes some 100 ms.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The longest time to connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The server refuses.
    #[error("the API server refuses: {message} ({code})")]
    Refused { code: u16, message: String },
    /// No answer, or not a valid one.
    #[error("{0}")]
    Failed(String),
}

impl ApiError {
    /// The status of a refusal; 0 without one.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Refused { code, .. } => *code,
            Self::Failed(_) => 0,
        }
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused { code: status.code, message: status.message.clone() },
            other => {
                let mut text = other.to_string();
                let mut cause = std::error::Error::source(&other);
                while let Some(inner) = cause {
                    let inner_text = inner.to_string();
                    if !text.contains(&inner_text) {
                        text = format!("{text}: {inner_text}");
                    }
                    cause = inner.source();
                }
                Self::Failed(text)
            }
        }
    }
}

/// A client of the API server.
#[derive(Clone)]
pub(crate) struct Api {
    client: kube::Client,
}

/// What a change is sent as.
pub(crate) const JSON: &str = "application/json";
/// RFC 7386.
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

impl Api {
    /// A client with the credentials that the options name. It does not connect yet.
    pub(crate) async fn new(options: &Options) -> Result<Self, String> {
        let mut config = config(options).await?;
        config.connect_timeout = Some(CONNECT_MAX);
        // A watch is silent for long; `watch` has its own limit.
        config.read_timeout = None;
        let client = kube::Client::try_from(config).map_err(|error| ApiError::from(error).to_string())?;
        Ok(Self { client })
    }

    /// The namespace of the credentials.
    pub(crate) fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.answer(request(Method::GET, path, JSON, Vec::new())?).await
    }

    /// Sends an object or a patch; the answer is the object as it is then.
    pub(crate) async fn send(&self, method: Method, path: &str, form: &str, body: &Value) -> Result<Value, ApiError> {
        let body = serde_json::to_vec(body).map_err(|error| ApiError::Failed(error.to_string()))?;
        self.answer(request(method, path, form, body)?).await
    }

    async fn answer(&self, request: Request<Vec<u8>>) -> Result<Value, ApiError> {
        match tokio::time::timeout(ANSWER_MAX, self.client.request(request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(ApiError::Failed(format!("no answer within {} s", ANSWER_MAX.as_secs()))),
        }
    }

    /// The events of a watch.
    pub(crate) async fn watch(
        &self,
        path: &str,
    ) -> Result<BoxStream<'static, Result<WatchEvent<Value>, ApiError>>, ApiError> {
        let opened = self.client.request_events::<Value>(request(Method::GET, path, JSON, Vec::new())?);
        match tokio::time::timeout(ANSWER_MAX, opened).await {
            Ok(events) => Ok(events?.map(|event| event.map_err(ApiError::from)).boxed()),
            Err(_) => Err(ApiError::Failed(format!("no answer within {} s", ANSWER_MAX.as_secs()))),
        }
    }
}

fn request(method: Method, path: &str, form: &str, body: Vec<u8>) -> Result<Request<Vec<u8>>, ApiError> {
    let request = Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, form);
    request.body(body).map_err(|error| ApiError::Failed(error.to_string()))
}

async fn config(options: &Options) -> Result<Config, String> {
    let mut config = if let Some(path) = &options.kubeconfig {
        let file = Kubeconfig::read_from(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let loaded = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        loaded.map_err(|error| format!("{}: {error}", path.display()))?
    } else if let Some(host) = &options.apiserver_host {
        return Ok(Config::new(host.parse().map_err(|error| format!("--apiserver-host \"{host}\": {error}"))?));
    } else {
        let hint = "without --kubeconfig and --apiserver-host, the program must run in a Pod with a service account";
        Config::incluster().map_err(|error| format!("{error}; {hint}"))?
    };
    if let Some(host) = &options.apiserver_host {
        config.cluster_url = host.parse().map_err(|error| format!("--apiserver-host \"{host}\": {error}"))?;
    }
    Ok(config)
}
