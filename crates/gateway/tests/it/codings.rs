//! `brotli` and `zstd`: which coding a client gets, streamed responses, truncated ones, memory, and log lines.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use std::io::{Read as _, Write as _};
use testkit::{Gateway, Peer, Signal};

fn gateway(http: &str, location: &str, peer: &Peer) -> Gateway {
    let text = format!(
        "events {{}} http {{ log_format ratio '$gzip_ratio $brotli_ratio $zstd_ratio'; access_log access.log ratio; \
         gzip on; gzip_types *; gzip_vary on; brotli on; brotli_types *; zstd on; zstd_types *; {http} \
         server {{ listen {{listen}}; location / {{ {location} proxy_pass http://{{upstream:0}}; }} }} }}"
    );
    Gateway::start(&text, &[peer.address()])
}

fn unpacked(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        "gzip" => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap()),
        "br" => brotli::BrotliDecompress(&mut &*bytes, &mut out).unwrap(),
        "zstd" => {
            out.resize(4 << 20, 0);
            let count = zstd_safe::decompress(&mut out[..], bytes).unwrap();
            out.truncate(count);
        }
        _ => panic!("{coding}"),
    }
    out
}

fn get(accepted: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n")
}

fn body() -> Vec<u8> {
    (0..40_000).flat_map(|line| format!("line {line} of {}\n", line * line % 1009).into_bytes()).collect()
}

fn large() -> Peer {
    let body = body();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nETag: \"x\"\r\n\r\n", body.len());
    Peer::saying([head.as_bytes(), &body].concat())
}

#[test]
fn the_client_gets_the_coding_that_it_prefers() {
    let peer = large();
    let gateway = gateway("", "", &peer);
    for (accepted, coding) in [
        ("gzip, deflate, br, zstd", Some("br")),
        ("zstd, gzip", Some("zstd")),
        ("gzip", Some("gzip")),
        ("gzip;q=1, br;q=0.5", Some("gzip")),
        ("br;q=0.1, zstd;q=0.2, gzip;q=0.15", Some("zstd")),
        ("br;q=0, zstd;q=0, gzip;q=0", None),
        ("br;q=0, zstd;q=0.5", Some("zstd")),
        ("identity", None),
        ("*", None),
    ] {
        let mut client = gateway.client();
        client.send(get(accepted));
        let response = client.response();
        assert_eq!(response.value("Content-Encoding"), coding, "{accepted}");
        assert_eq!(response.values("Vary"), ["Accept-Encoding"], "{accepted}");
        assert_eq!(response.value("ETag"), Some(if coding.is_some() { "W/\"x\"" } else { "\"x\"" }), "{accepted}");
        let whole = coding.map_or(response.body.clone(), |coding| unpacked(coding, &response.body));
        assert!(whole == body(), "{accepted}");
        assert!(coding.is_none() || response.body.len() * 3 < whole.len(), "{accepted}: {}", response.body.len());
    }
}

#[test]
fn each_coding_has_a_variable_for_its_ratio() {
    let peer = large();
    let gateway = gateway("", "", &peer);
    for coding in ["gzip", "br", "zstd"] {
        let mut client = gateway.client();
        client.send(get(coding));
        client.response();
    }
    let lines = gateway.access_lines(3);
    for (at, line) in lines.iter().enumerate() {
        let values: Vec<&str> = line.split(' ').collect();
        for (place, value) in values.iter().enumerate() {
            let is_ratio = value.parse::<f64>().is_ok_and(|ratio| ratio > 3.0);
            assert_eq!((is_ratio, *value == "-"), (place == at, place != at), "{line}");
        }
    }
}

#[test]
fn without_buffering_each_part_can_be_unpacked_at_once() {
    for coding in ["br", "zstd"] {
        let seen = Signal::new();
        let peer = Peer::script({
            let seen = seen.clone();
            move |mut talk| {
                talk.request().unwrap();
                talk.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
                talk.wait(&seen);
                talk.send("6\r\nsecond\r\n0\r\n\r\n");
            }
        });
        let gateway = gateway("", "proxy_buffering off;", &peer);
        let mut client = gateway.client();
        client.send(get(coding));
        let head = client.head().unwrap();
        assert_eq!((head.status(), head.value("Content-Encoding")), (200, Some(coding)));
        let mut packed = Vec::new();
        let mut chunk = |client: &mut testkit::Talk| {
            let mut size = Vec::new();
            while !size.ends_with(b"\r\n") {
                size.extend_from_slice(&client.read(1));
            }
            let size = usize::from_str_radix(std::str::from_utf8(&size).unwrap().trim(), 16).unwrap();
            packed.extend_from_slice(&client.read(size + 2)[..size]);
            (size, so_far(coding, &packed))
        };
        // The peer continues only when the first part could be unpacked.
        while chunk(&mut client).1 != b"first" {}
        seen.raise();
        while chunk(&mut client).0 > 0 {}
        assert_eq!(unpacked(coding, &packed), b"firstsecond", "{coding}");
    }
}

/// What can be unpacked of the beginning of a body.
fn so_far(coding: &str, packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if coding == "br" {
        let mut decoder = brotli::DecompressorWriter::new(&mut out, 4096);
        decoder.write_all(packed).unwrap();
        let _ = decoder.flush();
        drop(decoder);
    } else {
        let mut decoder = zstd_safe::DCtx::create();
        let mut buffer = [0; 4096];
        let mut output = zstd_safe::OutBuffer::around(&mut buffer[..]);
        decoder.decompress_stream(&mut output, &mut zstd_safe::InBuffer::around(packed)).unwrap();
        let count = output.pos();
        out.extend_from_slice(&buffer[..count]);
    }
    out
}

#[test]
fn truncated_compressed_response_is_visibly_cut() {
    for coding in ["br", "zstd"] {
        let peer = Peer::script(|mut talk| {
            talk.request().unwrap();
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nnot all of it");
            talk.close();
        });
        let gateway = gateway("", "", &peer);
        let mut client = gateway.client();
        client.send(get(coding));
        let (response, _) = client.cut_response();
        assert_eq!(response.value("Content-Encoding"), Some(coding));
        gateway.logged("upstream prematurely closed connection");
    }
}

#[test]
fn next_coding_is_used_without_memory_for_brotli() {
    let peer = large();
    // There is room for gzip's 300 KB, not for the 4 MB of brotli at level 6.
    let text = "memory_budget 2m; events {} http { access_log off; gzip on; gzip_types *; brotli on; brotli_types *; \
                server { listen {listen}; location / { proxy_pass http://{upstream:0}; } } }";
    let gateway = Gateway::start(text, &[peer.address()]);
    let mut client = gateway.client();
    client.send(get("br, gzip"));
    assert_eq!(client.response().value("Content-Encoding"), Some("gzip"));
}

#[test]
fn the_highest_levels_and_windows_are_bounded_and_work() {
    let peer = large();
    let gateway = gateway("brotli_comp_level 11; brotli_window 16m; zstd_comp_level 22;", "", &peer);
    for coding in ["br", "zstd"] {
        let mut client = gateway.client();
        client.send(get(coding));
        assert!(unpacked(coding, &client.response().body) == body());
    }
}
