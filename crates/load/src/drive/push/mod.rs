//! Sends the metrics of each interval to servers that store them: Prometheus remote write, OTLP over HTTP, the line protocol
//! of `InfluxDB`. A thread of its own sends, so that the load never waits for a server. `client` makes the requests;
//! `report::metrics` has the formats.

mod client;

use crate::Url;
use client::{Client, Request};
use report::metrics::{Metric, influx_lines, otlp_request, remote_write_request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Intervals that may wait for a server: a minute at one a second, with some tens of kilobytes each.
const WAITING_MAX: usize = 64;
/// Time for what waits at the end of a run: the report comes after it.
const FLUSH_MAX: Duration = Duration::from_secs(10);

/// A protocol in which metrics are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushProtocol {
    /// Prometheus remote write 1.0.
    RemoteWrite,
    /// OTLP over HTTP.
    Otlp,
    /// The line protocol of `InfluxDB`.
    Influx,
}

impl PushProtocol {
    fn name(self) -> &'static str {
        match self {
            Self::RemoteWrite => "remote write",
            Self::Otlp => "OTLP",
            Self::Influx => "InfluxDB",
        }
    }
}

/// A server that gets the metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Push {
    /// How it gets them.
    pub protocol: PushProtocol,
    /// Where, with its path.
    pub url: Url,
    /// Header fields, such as `Authorization`.
    pub fields: Vec<(String, String)>,
    /// Labels of all samples.
    pub labels: Vec<(String, String)>,
}

/// The metrics of an interval, and when they were true.
struct Batch {
    metrics: Vec<Metric>,
    time_ns: u64,
}

/// The thread that sends.
pub(crate) struct Pushes {
    sender: SyncSender<Arc<Batch>>,
    thread: JoinHandle<Vec<String>>,
    is_over: Arc<AtomicBool>,
    /// Intervals that did not fit the queue.
    dropped: u64,
}

impl Pushes {
    /// Starts the thread, unless there is no server.
    pub(crate) fn start(targets: &[Push]) -> Result<Option<Self>, String> {
        if targets.is_empty() {
            return Ok(None);
        }
        let begun_ns = unix_now_ns();
        let servers: Vec<Server> =
            targets.iter().map(|push| Server::new(push.clone(), begun_ns)).collect::<Result<_, String>>()?;
        let (sender, batches) = sync_channel(WAITING_MAX);
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("the metrics cannot be sent: {error}"))?;
        let thread = std::thread::spawn(move || runtime.block_on(send_all(servers, &batches, &told)));
        Ok(Some(Self { sender, thread, is_over, dropped: 0 }))
    }

    /// Hands over the metrics of an interval.
    pub(crate) fn take(&mut self, metrics: Vec<Metric>) {
        let batch = Arc::new(Batch { metrics, time_ns: unix_now_ns() });
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.sender.try_send(batch) {
            self.dropped += 1;
        }
    }

    /// Waits until everything was sent, until a server fails once more, or for [`FLUSH_MAX`]. Returns what went wrong.
    pub(crate) fn finish(self) -> Vec<String> {
        self.is_over.store(true, Ordering::Release);
        drop(self.sender);
        let mut problems =
            self.thread.join().unwrap_or_else(|_| vec!["the thread that sends metrics panicked".to_owned()]);
        if self.dropped > 0 {
            problems.push(format!("the metrics of {} intervals were not sent: the servers are too slow", self.dropped));
        }
        problems
    }
}

/// A server and what came of the requests to it.
struct Server {
    push: Push,
    client: Client,
    begun_ns: u64,
    sent: u64,
    failed: u64,
    /// The last failure.
    failure: String,
}

impl Server {
    fn new(push: Push, begun_ns: u64) -> Result<Self, String> {
        let client = Client::new(&push.url, push.protocol.name())?;
        Ok(Self { push, client, begun_ns, sent: 0, failed: 0, failure: String::new() })
    }

    async fn send(&mut self, batch: &Batch) -> bool {
        match self.client.post(&self.request(batch)).await {
            Ok(()) => {
                self.sent += 1;
                true
            }
            Err(failure) => {
                (self.failed, self.failure) = (self.failed + 1, failure);
                false
            }
        }
    }

    fn request(&self, Batch { metrics, time_ns }: &Batch) -> Request {
        let Push { protocol, labels, fields, .. } = &self.push;
        let with = |name: &str, value: &str| {
            let mut all = labels.clone();
            if !all.iter().any(|(given, _)| given == name) {
                all.push((name.to_owned(), value.to_owned()));
            }
            all
        };
        let mut fields = fields.clone();
        let mut add = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
        let body = match protocol {
            PushProtocol::RemoteWrite => {
                add("Content-Type", "application/x-protobuf");
                add("Content-Encoding", "snappy");
                add("X-Prometheus-Remote-Write-Version", "0.1.0");
                let labels = with("job", "holdfast_load");
                let message = remote_write_request(metrics, &labels, (time_ns / 1_000_000) as i64);
                // It fails for messages above 4 GB only.
                snap::raw::Encoder::new().compress_vec(&message).unwrap_or_default()
            }
            PushProtocol::Otlp => {
                add("Content-Type", "application/x-protobuf");
                otlp_request(metrics, &with("service.name", "holdfast-load"), self.begun_ns, *time_ns)
            }
            PushProtocol::Influx => {
                add("Content-Type", "text/plain; charset=utf-8");
                influx_lines(metrics, labels, *time_ns).into_bytes()
            }
        };
        Request { fields, body }
    }

    fn problem(&self) -> Option<String> {
        let Self { push, sent, failed, failure, .. } = self;
        let (name, url, all) = (push.protocol.name(), &push.url, sent + failed);
        (*failed > 0).then(|| format!("{name} to {url}: {failed} of {all} intervals were not accepted: {failure}"))
    }
}

/// Sends each batch to each server. A batch that fails is not sent again: counters are sums over the run, so the next one
/// has them. After the end of the run, a server that fails gets nothing more, and the others have a limited time.
async fn send_all(mut servers: Vec<Server>, batches: &Receiver<Arc<Batch>>, is_over: &AtomicBool) -> Vec<String> {
    let mut given_up = vec![false; servers.len()];
    let mut over_since = None;
    while let Ok(batch) = batches.recv() {
        if is_over.load(Ordering::Acquire) {
            over_since.get_or_insert_with(Instant::now);
        }
        let is_late = over_since.is_some_and(|since| since.elapsed() > FLUSH_MAX);
        for (server, given_up) in servers.iter_mut().zip(&mut given_up) {
            if *given_up {
                server.failed += 1;
            } else if is_late {
                (server.failed, server.failure) = (server.failed + 1, "too slow: the run is over".to_owned());
            } else if !server.send(&batch).await {
                *given_up = is_over.load(Ordering::Acquire);
            }
        }
    }
    servers.iter().filter_map(Server::problem).collect()
}

fn unix_now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos() as u64
}
