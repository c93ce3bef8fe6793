//! Combines the figures of several loads of one sample. Pure; called by `figures`.

use super::client;
use super::figures::{Client, most};
use std::collections::BTreeMap;

/// Counts are summed and means are weighted. If every load reports its complete histogram, the quantiles are those of all
/// requests. Otherwise the worst quantile is used, because quantiles cannot be added.
pub(super) fn of_loads(clients: &[Client]) -> Vec<(String, f64)> {
    let sum = |of: &dyn Fn(&client::Figures) -> f64| -> f64 { clients.iter().map(|client| of(&client.figures)).sum() };
    let (requests, failed) = (sum(&|told| told.requests as f64), sum(&|told| told.failed as f64));
    let attempts = sum(&|told| told.attempts as f64);
    let mut figures = vec![("failed".to_owned(), failed)];
    // A load that only waits or holds connections has no rate, not a rate of zero.
    if requests > 0.0 || failed > 0.0 || attempts == 0.0 {
        let rate = sum(&|told| told.requests_per_second);
        figures.extend([("requests".to_owned(), requests), ("requests_per_second".to_owned(), rate)]);
    }
    if attempts > 0.0 {
        figures.push(("failed_share".to_owned(), failed / attempts));
    }
    let merged = if clients.len() > 1 { merged_latency(clients) } else { None };
    let mut latencies: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for client in clients {
        for (name, value) in client.figures.latency.each() {
            latencies.entry(name).or_default().push((value, client.figures.requests as f64));
        }
    }
    for (name, values) in latencies {
        let value = if name == "mean" {
            let weight: f64 = values.iter().map(|(_, weight)| weight).sum();
            let weighted: f64 = values.iter().map(|(value, weight)| value * weight).sum();
            (weight > 0.0).then(|| weighted / weight)
        } else if let Some(all) = merged.as_ref().and_then(|merged| quantile_ms(merged, name)) {
            Some(all)
        } else {
            most(values.into_iter().map(|(value, _)| value))
        };
        figures.extend(value.map(|value| (format!("latency_ms.{name}"), value)));
    }
    figures
}

/// The latencies of all loads in one histogram; `None` if a load with latencies does not report its histogram.
fn merged_latency(clients: &[Client]) -> Option<stats::Histogram> {
    let mut merged = stats::Histogram::new();
    for told in clients.iter().map(|client| &client.figures).filter(|told| told.latency.each().next().is_some()) {
        if told.histogram.is_empty() {
            return None;
        }
        // The buckets have the same bounds as the load's, so each value falls into its original bucket.
        told.histogram.iter().for_each(|(latency_ns, count)| merged.record_n(*latency_ns, *count));
    }
    (!merged.is_empty()).then_some(merged)
}

/// A quantile by its name in figures. The maximum is `None`, because the loads report it exactly.
fn quantile_ms(merged: &stats::Histogram, name: &str) -> Option<f64> {
    let percentile: f64 = name.strip_prefix('p')?.parse().ok()?;
    Some(merged.percentile_ns(percentile)? as f64 / 1e6)
}
