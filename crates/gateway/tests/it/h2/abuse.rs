//! Limits against abuse: each ends the connection with GOAWAY, a line in the log and a counter of its own.

use super::gateway;
use testkit::{Gateway, Http2Talk, Talk, http2_block, http2_frame};

const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// `ENHANCE_YOUR_CALM`
const CALM: u32 = 11;

fn request_block() -> Vec<u8> {
    http2_block(&[(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")])
}

/// The code of the GOAWAY that ends the connection.
fn goaway(client: &mut Talk) -> u32 {
    let (bytes, _) = client.rest();
    let mut rest = &bytes[..];
    let mut code = None;
    while let Some((header, behind)) = rest.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let Some((payload, behind)) = behind.split_at_checked(length) else { break };
        if header[3] == 7 {
            code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        rest = behind;
    }
    code.expect("a GOAWAY")
}

fn metric(gateway: &Gateway, reason: &str) -> bool {
    let mut client = Talk::connect(gateway.address());
    let text = client.get("/status?format=prometheus", "").text();
    text.contains(&format!("holdfast_http2_connection_faults_total{{reason=\"{reason}\"}} 1"))
}

/// Sends the closure's frames for increasing numbers until the gateway closes; it must do so before 10,000.
fn flood(reason: &str, code: u32, frames: impl Fn(u32) -> Vec<u8>) {
    let gateway = gateway("location / { return 200 x; } location /status { status_page; }", &[]);
    let mut healthy = Http2Talk::connect(gateway.address());
    assert_eq!(healthy.get("/").status, 200);
    let mut client = Talk::connect(gateway.address());
    let mut bytes = BEGINNING.to_vec();
    for number in 0..10_000 {
        bytes.extend(frames(number));
    }
    let socket = client.socket().try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        use std::io::Write as _;
        // The gateway closes while this is still sending.
        let _ = (&socket).write_all(&bytes);
    });
    assert_eq!(goaway(&mut client), code, "{reason}");
    writer.join().unwrap();
    gateway.logged("client broke off HTTP/2: ");
    assert!(metric(&gateway, reason), "{reason} is counted");
    assert_eq!(healthy.get("/").status, 200, "others do not notice");
}

#[test]
fn h31_rapid_resets_end_the_connection() {
    let block = request_block();
    flood("rapid_reset", CALM, |number| {
        let stream = number * 2 + 1;
        // The request is incomplete, so that there is work to reset.
        [http2_frame(1, 4, stream, &block), http2_frame(3, 0, stream, &[0, 0, 0, 8])].concat()
    });
}

#[test]
fn h32_a_block_in_endless_pieces_ends_the_connection() {
    flood("continuation_flood", CALM, |number| match number {
        0 => http2_frame(1, 1, 1, &request_block()),
        _ => http2_frame(9, 0, 1, b""),
    });
}

#[test]
fn h33_windows_that_overflow_end_the_connection() {
    flood("window_overflow", 3, |_| http2_frame(8, 0, 0, &0x7FFF_FFFF_u32.to_be_bytes()));
}

#[test]
fn h34_pings_settings_and_empty_frames_have_budgets() {
    flood("ping_flood", CALM, |_| http2_frame(6, 0, 0, &[7; 8]));
    flood("settings_flood", CALM, |_| http2_frame(4, 0, 0, &[0, 4, 0, 0, 255, 255]));
    flood("priority_flood", CALM, |_| http2_frame(2, 0, 3, &[0, 0, 0, 1, 1]));
    let block = request_block();
    flood("empty_flood", CALM, |number| match number {
        0 => http2_frame(1, 4, 1, &block),
        _ => http2_frame(0, 0, 1, b""),
    });
}

#[test]
fn h35_streams_beyond_the_limit_are_refused_and_no_more() {
    let gateway = gateway(
        "http2_max_concurrent_streams 2; client_body_timeout 60s; location / { client_max_body_size 1m; proxy_pass http://127.0.0.1:1; }",
        &[],
    );
    let mut client = Http2Talk::connect(gateway.address());
    client.get("/");
    let mut raw = Talk::connect(gateway.address());
    raw.send(BEGINNING);
    let block = http2_block(&[(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")]);
    for stream in [1, 3, 5] {
        raw.send(http2_frame(1, 4, stream, &block));
    }
    loop {
        let header = raw.read(9);
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let payload = raw.read(length);
        if header[3] == 3 {
            assert_eq!((header[8], &payload[..]), (5, &[0, 0, 0, 7][..]), "REFUSED_STREAM");
            break;
        }
    }
}
