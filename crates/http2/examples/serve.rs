//! A small HTTP/2 server over the engine, to measure it and to let other clients speak to it:
//! `cargo run --release -p http2 --example serve -- 127.0.0.1:8080 [tls] [BYTES]`. Every request is answered with a page of that many
//! bytes, `/bytes/NUMBER` with this many.

#![expect(clippy::print_stdout, reason = "it speaks to the person who runs it")]

#[path = "../tests/it/support/server.rs"]
mod server;

use server::{Options, Server};

/// The page of the benches.
const PAGE_BYTES: usize = 612;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let address = words.first().ok_or("the address to listen on is missing")?.parse()?;
    let page_bytes = words.iter().find_map(|word| word.parse().ok()).unwrap_or(PAGE_BYTES);
    let tls = words.iter().any(|word| word == "tls");
    let server = Server::start(Options { address, tls, page_bytes, config: http2::Config::default() })?;
    println!("listening on {}", server.address);
    server.wait()?;
    Ok(())
}
