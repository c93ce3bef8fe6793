//! The dashboard of the gateway as a whole.

use super::{Panel, lines, number, stack};

pub(super) const PANELS: &[Panel] = &[
    number(
        "Requests",
        "reqps",
        "Requests begun.",
        &[("sum(rate(holdfast_requests_total{instance=~\"$instance\"}[$__rate_interval]))", "requests")],
    ),
    number(
        "5xx responses",
        "percentunit",
        "Share of all responses.",
        &[(
            "sum(rate(holdfast_responses_total{instance=~\"$instance\", class=\"5xx\"}[$__rate_interval])) / sum(rate(holdfast_responses_total{instance=~\"$instance\"}[$__rate_interval]))",
            "5xx",
        )],
    ),
    number(
        "Client connections",
        "short",
        "Open connections, tunnels included.",
        &[("sum(holdfast_connections{instance=~\"$instance\"})", "connections")],
    ),
    number(
        "Fewest free ports",
        "short",
        "Towards one peer. At 0 connect() fails with 99.",
        &[("min(holdfast_ports_free_least{instance=~\"$instance\"})", "ports")],
    ),
    stack(
        "Responses by class",
        "reqps",
        "Responses a second by the first digit of their status.",
        &[("sum by (class) (rate(holdfast_responses_total{instance=~\"$instance\"}[$__rate_interval]))", "{{class}}")],
    ),
    stack(
        "Client connections by state",
        "short",
        "waiting: idle keepalive; reading: part of a head has come; writing: with a request or a tunnel.",
        &[("sum by (state) (holdfast_connections{instance=~\"$instance\"})", "{{state}}")],
    ),
    stack(
        "Closed connections by reason",
        "cps",
        "The page \"Close reasons\" of the handbook explains each.",
        &[(
            "sum by (reason) (rate(holdfast_connections_closed_total{instance=~\"$instance\"}[$__rate_interval])) > 0",
            "{{reason}}",
        )],
    ),
    lines(
        "Turned away",
        "cps",
        "Clients that were not served. Any value above 0 needs an answer.",
        &[
            ("sum by (what) (rate(holdfast_overload_total{instance=~\"$instance\"}[$__rate_interval]))", "{{what}}"),
            ("sum(rate(holdfast_connections_dropped_total{instance=~\"$instance\"}[$__rate_interval]))", "dropped"),
        ],
    ),
    lines(
        "Accept queues",
        "percentunit",
        "Connections that wait to be accepted, as a share of the backlog. A full queue costs clients 1, 3 or 7 s.",
        &[(
            "holdfast_listener_queue_connections{instance=~\"$instance\"} / holdfast_listener_backlog_connections",
            "{{listener}}",
        )],
    ),
    stack(
        "Memory by owner",
        "bytes",
        "Buffers and connections.",
        &[("sum by (by) (holdfast_memory_held_bytes{instance=~\"$instance\"})", "{{by}}")],
    ),
    lines(
        "Memory and its budget",
        "bytes",
        "Claimed memory never exceeds memory_budget.",
        &[
            ("holdfast_memory_claimed_bytes{instance=~\"$instance\"}", "claimed"),
            ("holdfast_memory_budget_bytes{instance=~\"$instance\"}", "budget"),
        ],
    ),
    lines(
        "Configuration",
        "short",
        "The generation rises with each reload.",
        &[("holdfast_generation{instance=~\"$instance\"}", "generation {{instance}}")],
    ),
    lines(
        "Busiest locations",
        "reqps",
        "Responses a second of the ten locations with most of them.",
        &[(
            "topk(10, sum by (server, location) (rate(holdfast_location_responses_total{instance=~\"$instance\"}[$__rate_interval])))",
            "{{server}} {{location}}",
        )],
    ),
    lines(
        "Slowest locations",
        "s",
        "The time that 99 of 100 requests stay below, for the ten slowest locations.",
        &[(
            "topk(10, histogram_quantile(0.99, sum by (server, location, le) \
             (rate(holdfast_location_duration_seconds_bucket{instance=~\"$instance\"}[$__rate_interval]))))",
            "{{server}} {{location}}",
        )],
    ),
];
