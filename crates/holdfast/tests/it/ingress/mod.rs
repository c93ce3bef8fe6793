//! `holdfast ingress` against a real API server: what it serves, what changes without a reload, and how it behaves when the
//! API server, objects or replicas go away.

mod acme;
mod busy;
mod cert_manager;
mod certificates;
mod changes;
mod endpoints;
mod gateway;
mod outages;
mod replicas;
mod scale;
mod scene;
mod webhook;
