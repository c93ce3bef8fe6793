//! The Grafana dashboards, `packaging/grafana/*.json`, from one table. A test in `holdfast` (`monitoring`) sends every
//! query to a real Prometheus.

mod gateway;

use serde_json::{Value, json};

/// A file in `packaging/grafana`.
pub(crate) struct Dashboard {
    pub(crate) file: &'static str,
    title: &'static str,
    /// Variables for the drop-down lists: name, query for its values.
    variables: &'static [(&'static str, &'static str)],
    panels: &'static [Panel],
}

/// One chart or number.
struct Panel {
    title: &'static str,
    /// Grafana's name of the unit.
    unit: &'static str,
    shape: Shape,
    /// What it shows and what to do about it: the text of the (i) symbol.
    text: &'static str,
    /// Queries with their legends.
    queries: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A large number with its history in the background.
    Number,
    /// Lines over time.
    Lines,
    /// Areas on top of each other over time.
    Stack,
}

/// Number of columns in Grafana's grid.
const COLUMNS: u64 = 24;

const INSTANCE: (&str, &str) = ("instance", "label_values(holdfast_build_info, instance)");
const GROUP: (&str, &str) = ("group", "label_values(holdfast_upstream_connections{instance=~\"$instance\"}, group)");

const fn number(
    title: &'static str,
    unit: &'static str,
    text: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, unit, shape: Shape::Number, text, queries }
}

const fn lines(
    title: &'static str,
    unit: &'static str,
    text: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, unit, shape: Shape::Lines, text, queries }
}

const fn stack(
    title: &'static str,
    unit: &'static str,
    text: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, unit, shape: Shape::Stack, text, queries }
}

/// All dashboards.
pub(crate) const DASHBOARDS: [Dashboard; 5] = [
    Dashboard { file: "gateway.json", title: "Holdfast: gateway", variables: &[INSTANCE], panels: gateway::PANELS },
    Dashboard {
        file: "upstream.json",
        title: "Holdfast: upstream pool",
        variables: &[INSTANCE, GROUP],
        panels: &[
            number(
                "Reused",
                "percentunit",
                "Share of the exchanges that needed no new connection.",
                &[(
                    "sum(rate(holdfast_upstream_reused_total{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval])) / (sum(rate(holdfast_upstream_reused_total{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval])) + sum(rate(holdfast_upstream_opened_total{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval])))",
                    "reused",
                )],
            ),
            number(
                "Opened",
                "cps",
                "Connections opened a second.",
                &[(
                    "sum(rate(holdfast_upstream_opened_total{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval]))",
                    "opened",
                )],
            ),
            number(
                "Requests that wait",
                "short",
                "For a connection under max_connections.",
                &[("sum(holdfast_upstream_waiting_requests{instance=~\"$instance\", group=~\"$group\"})", "waiting")],
            ),
            number(
                "No live peer",
                "reqps",
                "Requests answered with 502 because every peer is out.",
                &[(
                    "sum(rate(holdfast_upstream_no_live_peer_total{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval]))",
                    "requests",
                )],
            ),
            stack(
                "Connections by state",
                "short",
                "leased: with an exchange or a tunnel; idle: in the pool.",
                &[(
                    "sum by (state) (holdfast_upstream_connections{instance=~\"$instance\", group=~\"$group\"})",
                    "{{state}}",
                )],
            ),
            stack(
                "Thrown away by reason",
                "cps",
                "pool_full: keepalive is too small for the load.",
                &[(
                    "sum by (reason) (rate(holdfast_upstream_discarded_total{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval])) > 0",
                    "{{reason}}",
                )],
            ),
            lines(
                "Failed attempts by peer",
                "percentunit",
                "Share of all attempts at the peer.",
                &[(
                    "rate(holdfast_peer_failed_total{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval]) / rate(holdfast_peer_attempts_total[$__rate_interval])",
                    "{{peer}}",
                )],
            ),
            stack(
                "Retries by reason",
                "reqps",
                "What clients did not notice.",
                &[(
                    "sum by (reason) (rate(holdfast_upstream_retries_total{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval]))",
                    "{{reason}}",
                )],
            ),
            lines(
                "Response time, p99",
                "s",
                "From the beginning of an attempt to the last byte of its response.",
                &[(
                    "histogram_quantile(0.99, sum by (le, peer) (rate(holdfast_peer_response_duration_seconds_bucket{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval])))",
                    "{{peer}}",
                )],
            ),
            lines(
                "Response time, median",
                "s",
                "From the beginning of an attempt to the last byte of its response.",
                &[(
                    "histogram_quantile(0.5, sum by (le, peer) (rate(holdfast_peer_response_duration_seconds_bucket{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval])))",
                    "{{peer}}",
                )],
            ),
            lines(
                "Connect time, p99",
                "s",
                "1, 3 or 7 s mean that the peer's accept queue overflows.",
                &[(
                    "histogram_quantile(0.99, sum by (le, peer) (rate(holdfast_peer_connect_duration_seconds_bucket{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval])))",
                    "{{peer}}",
                )],
            ),
            lines(
                "Health",
                "short",
                "1 for the state that a peer is in.",
                &[(
                    "holdfast_peer_check_state{instance=~\"$instance\", group=~\"$group\", state=\"unhealthy\"}",
                    "unhealthy {{peer}}",
                )],
            ),
            lines(
                "Free local ports",
                "short",
                "Towards each peer.",
                &[("holdfast_ports{instance=~\"$instance\", state=\"free\"}", "{{source}} to {{peer}}")],
            ),
            lines(
                "Responses by peer",
                "reqps",
                "Balance between the peers.",
                &[(
                    "sum by (peer) (rate(holdfast_peer_responses_total{instance=~\"$instance\", group=~\"$group\"}[$__rate_interval]))",
                    "{{peer}}",
                )],
            ),
        ],
    },
    Dashboard {
        file: "tunnels.json",
        title: "Holdfast: tunnels",
        variables: &[INSTANCE],
        panels: &[
            number(
                "Open tunnels",
                "short",
                "WebSockets and other upgraded connections.",
                &[("sum(holdfast_tunnels{instance=~\"$instance\"})", "tunnels")],
            ),
            number(
                "Memory per tunnel",
                "bytes",
                "What the gateway holds for one of them.",
                &[(
                    "sum(holdfast_memory_held_bytes{instance=~\"$instance\", by=\"tunnels\"}) / sum(holdfast_tunnels{instance=~\"$instance\"})",
                    "bytes",
                )],
            ),
            number(
                "Lost in 5 minutes",
                "short",
                "Tunnels that are fewer than they were 5 minutes ago.",
                &[("clamp_min(-sum(delta(holdfast_tunnels{instance=~\"$instance\"}[5m])), 0)", "fewer")],
            ),
            lines(
                "Open tunnels by instance",
                "short",
                "An imbalance stays until clients connect again.",
                &[("holdfast_tunnels{instance=~\"$instance\"}", "{{instance}}")],
            ),
            lines(
                "Ended tunnels",
                "cps",
                "tunnel_ended: one side closed; tunnel_timeout: silent for too long; client_aborted: the client reset.",
                &[(
                    "sum by (reason) (rate(holdfast_connections_closed_total{instance=~\"$instance\", reason=~\"tunnel_.*|client_aborted|shutdown\"}[$__rate_interval]))",
                    "{{reason}}",
                )],
            ),
            stack(
                "Memory by owner",
                "bytes",
                "A slow reader costs its sender's pace and not the gateway's memory.",
                &[("sum by (by) (holdfast_memory_held_bytes{instance=~\"$instance\"})", "{{by}}")],
            ),
            lines(
                "Free local ports",
                "short",
                "Each tunnel holds one towards its peer.",
                &[("holdfast_ports{instance=~\"$instance\", state=\"free\"}", "{{source}} to {{peer}}")],
            ),
        ],
    },
    Dashboard {
        file: "kernel.json",
        title: "Holdfast: the kernel's sockets (holdfast watch)",
        variables: &[("instance", "label_values(holdfast_sockets, instance)")],
        panels: &[
            stack(
                "Sockets by state",
                "short",
                "TIME_WAIT: this side closed first.",
                &[("sum by (state) (holdfast_sockets{instance=~\"$instance\"})", "{{state}}")],
            ),
            stack(
                "Sockets of the watched ports",
                "short",
                "By port and state.",
                &[("sum by (port, state) (holdfast_port_sockets{instance=~\"$instance\"}) > 0", "{{port}} {{state}}")],
            ),
            lines(
                "Accept queues",
                "short",
                "Connections that wait to be accepted.",
                &[
                    ("holdfast_listener_queue{instance=~\"$instance\"}", "{{address}}"),
                    ("holdfast_listener_backlog{instance=~\"$instance\"}", "{{address}} backlog"),
                ],
            ),
            lines(
                "Dropped at a full accept queue",
                "cps",
                "Each costs its client 1, 3 or 7 s.",
                &[("rate(holdfast_listener_drops_total{instance=~\"$instance\"}[$__rate_interval])", "{{address}}")],
            ),
            lines(
                "Local ports left",
                "short",
                "Towards the tightest destinations.",
                &[(
                    "bottomk(5, holdfast_destination_ports{instance=~\"$instance\", kind=\"free\"})",
                    "{{local}} to {{remote}}",
                )],
            ),
            stack(
                "Bytes in queues by cause",
                "bytes",
                "not_read: a program here does not read; peer_window_zero: the other side does not.",
                &[("sum by (cause) (holdfast_queued_bytes{instance=~\"$instance\"})", "{{cause}}")],
            ),
            stack(
                "Who closes first",
                "cps",
                "this_side leaves a TIME_WAIT here.",
                &[(
                    "sum by (first) (rate(holdfast_closes_total{instance=~\"$instance\"}[$__rate_interval]))",
                    "{{first}}",
                )],
            ),
            lines(
                "Missed connections",
                "cps",
                "Opened by the kernel's counters and by what was seen. The difference was too short for a look.",
                &[("sum by (by) (rate(holdfast_opens_total{instance=~\"$instance\"}[$__rate_interval]))", "{{by}}")],
            ),
        ],
    },
    Dashboard {
        file: "load.json",
        title: "Holdfast: load run (holdfast load)",
        variables: &[("instance", "label_values(holdfast_load_requests_total, instance)")],
        panels: &[
            number(
                "Responses",
                "reqps",
                "Answered requests.",
                &[("sum(rate(holdfast_load_responses_total{instance=~\"$instance\"}[$__rate_interval]))", "responses")],
            ),
            number(
                "Latency, p99",
                "s",
                "From when a request was due.",
                &[("max(holdfast_load_latency_seconds{instance=~\"$instance\", quantile=\"0.99\"})", "p99")],
            ),
            number(
                "Generator late, p99",
                "s",
                "Near the latency, the run measures the generator.",
                &[("max(holdfast_load_lag_own_seconds{instance=~\"$instance\", quantile=\"0.99\"})", "p99")],
            ),
            stack(
                "Responses by status",
                "reqps",
                "Answered requests.",
                &[(
                    "sum by (status) (rate(holdfast_load_responses_total{instance=~\"$instance\"}[$__rate_interval]))",
                    "{{status}}",
                )],
            ),
            lines(
                "Latency",
                "s",
                "Quantiles of the last interval.",
                &[("holdfast_load_latency_seconds{instance=~\"$instance\"}", "p{{quantile}}")],
            ),
            lines(
                "Lag of the generator",
                "s",
                "How late it sent, and which part of that its own work caused.",
                &[
                    ("holdfast_load_lag_seconds{instance=~\"$instance\", quantile=\"0.99\"}", "p99"),
                    (
                        "holdfast_load_lag_own_seconds{instance=~\"$instance\", quantile=\"0.99\"}",
                        "p99 of its own part",
                    ),
                ],
            ),
            stack(
                "Sockets by state",
                "short",
                "Towards the target.",
                &[("sum by (state) (holdfast_load_sockets{instance=~\"$instance\"})", "{{state}}")],
            ),
            lines(
                "Connections opened",
                "cps",
                "With keepalive it falls to 0.",
                &[(
                    "rate(holdfast_load_connections_opened_total{instance=~\"$instance\"}[$__rate_interval])",
                    "opened",
                )],
            ),
            lines(
                "Bytes",
                "Bps",
                "Received and sent.",
                &[
                    ("rate(holdfast_load_received_bytes_total{instance=~\"$instance\"}[$__rate_interval])", "received"),
                    ("rate(holdfast_load_sent_bytes_total{instance=~\"$instance\"}[$__rate_interval])", "sent"),
                ],
            ),
            lines(
                "Trouble on the way",
                "short",
                "Segments sent again, and targets that do not read.",
                &[
                    (
                        "rate(holdfast_load_segments_sent_again_total{instance=~\"$instance\"}[$__rate_interval])",
                        "sent again a second",
                    ),
                    ("holdfast_load_sockets_window_zero{instance=~\"$instance\"}", "window zero"),
                ],
            ),
        ],
    },
];

impl Dashboard {
    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        let mut panels = Vec::new();
        let (mut x, mut y, mut tallest) = (0, 0, 0);
        for (id, panel) in self.panels.iter().enumerate() {
            let (width, height) = if panel.shape == Shape::Number { (6, 4) } else { (12, 8) };
            if x + width > COLUMNS || (tallest != height && x > 0) {
                (x, y) = (0, y + tallest);
            }
            panels.push(panel.json(id as u64 + 1, &json!({ "x": x, "y": y, "w": width, "h": height })));
            (x, tallest) = (x + width, height);
        }
        let uid = format!("holdfast-{}", self.file.trim_end_matches(".json"));
        let dashboard = json!({
            "uid": uid, "title": self.title, "tags": ["holdfast"], "schemaVersion": 39, "version": 1, "editable": true,
            "timezone": "browser", "refresh": "10s", "time": { "from": "now-1h", "to": "now" },
            "graphTooltip": 1, "templating": { "list": self.variables() }, "panels": panels,
        });
        serde_json::to_string_pretty(&dashboard).expect("a dashboard is JSON") + "\n"
    }

    fn variables(&self) -> Vec<Value> {
        let source = json!({
            "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1,
        });
        let queried = self.variables.iter().map(|(name, query)| {
            json!({
                "name": name, "label": name, "type": "query", "query": query, "definition": query, "refresh": 2, "sort": 1,
                "multi": true, "includeAll": true, "allValue": ".*", "current": { "text": "All", "value": "$__all" },
                "datasource": { "type": "prometheus", "uid": "${datasource}" },
            })
        });
        std::iter::once(source).chain(queried).collect()
    }
}

impl Panel {
    fn json(&self, id: u64, place: &Value) -> Value {
        let targets = self.queries.iter().zip('A'..).map(|((query, legend), letter)| {
            json!({ "refId": letter.to_string(), "expr": query, "legendFormat": legend, "range": true })
        });
        let (kind, custom) = match self.shape {
            Shape::Number => ("stat", json!({})),
            Shape::Lines => ("timeseries", json!({ "lineWidth": 2, "fillOpacity": 0 })),
            Shape::Stack => ("timeseries", json!({ "fillOpacity": 40, "stacking": { "mode": "normal" } })),
        };
        json!({
            "id": id, "type": kind, "title": self.title, "description": self.text, "gridPos": place,
            "datasource": { "type": "prometheus", "uid": "${datasource}" },
            "targets": targets.collect::<Vec<_>>(),
            "fieldConfig": { "defaults": { "unit": self.unit, "min": 0, "custom": custom }, "overrides": [] },
            "options": if kind == "stat" {
                json!({ "graphMode": "area", "reduceOptions": { "calcs": ["lastNotNull"] } })
            } else {
                json!({ "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi", "sort": "desc" } })
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboard_files_match_the_table() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/grafana");
        for dashboard in &DASHBOARDS {
            let file = std::fs::read_to_string(folder.join(dashboard.file)).unwrap_or_default();
            assert!(file == dashboard.text(), "{} is stale: run `cargo xtask docs`", dashboard.file);
        }
    }

    #[test]
    fn panels_do_not_overlap() {
        for dashboard in &DASHBOARDS {
            let value: Value = serde_json::from_str(&dashboard.text()).unwrap();
            let mut taken = std::collections::BTreeSet::new();
            for panel in value["panels"].as_array().unwrap() {
                let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
                for x in side("x")..side("x") + side("w") {
                    for y in side("y")..side("y") + side("h") {
                        assert!(x < COLUMNS && taken.insert((x, y)), "{}: {}", dashboard.file, panel["title"]);
                    }
                }
            }
        }
    }
}
