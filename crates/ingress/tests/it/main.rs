//! Tests of the translation: objects in, the text of a tree out.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)] // helpers of tests; `json!` makes values

mod admission;
mod annotations;
mod certificates;
mod config_map;
mod cves;
mod gateway;
mod gateway_api_output;
mod pages;
mod properties;
mod reuse;
mod routing;
mod scale;
mod streams;
mod world;
