//! Runs of `holdfast load`, and servers that misbehave.

use super::holdfast;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Output, Stdio};

/// The result of `holdfast load` with these arguments.
pub(crate) fn load(words: &[&str]) -> Output {
    holdfast().arg("load").args(words).stdin(Stdio::null()).output().expect("the program starts")
}

/// The output of a program.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Starts a server that passes each connection to a function, one after the other, as long as the test runs; returns
/// its URL.
pub(crate) fn server(scheme: &str, treat: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("{scheme}://{}/", listener.local_addr().expect("bound"));
    std::thread::spawn(move || listener.incoming().flatten().for_each(treat));
    url
}

/// A server that answers each request with these bytes, and closes.
pub(crate) fn answering(scheme: &str, bytes: &'static [u8]) -> String {
    server(scheme, move |mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        // Waits until the client has read it and closed.
        let _ = stream.read(&mut [0; 1]);
    })
}
