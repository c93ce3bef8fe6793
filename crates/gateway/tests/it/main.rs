//! The integration tests of `gateway`, one module per subject: a real gateway in this process, with scripted or real
//! peers.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod access;
mod balance;
mod bodies;
mod charset;
mod close_reasons;
mod codings;
mod differential;
mod drain;
mod error_lines;
mod error_pages;
mod examples;
mod explain;
mod fastcgi_origin;
mod field;
mod files;
mod geoip2;
mod gzip;
mod h2;
mod h2_upstream;
mod handover;
mod limits;
mod memcached;
mod mmdb;
mod more_headers;
mod one_request;
mod php;
mod ports;
mod proxy_protocol;
mod rates;
mod request_trace;
mod rewriting;
mod route_to;
mod rows;
mod scene;
mod status_page;
mod steering;
mod stream;
mod tls;
mod upstream_tls;
mod user_id;
mod variables;

use testkit::site;
