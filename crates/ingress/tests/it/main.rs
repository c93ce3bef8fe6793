//! Tests of the translation: objects in, the text of a tree out.

mod annotations;
mod config_map;
mod cves;
mod gateway_api_output;
mod pages;
mod properties;
mod routing;
mod scale;
mod streams;
mod world;
