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

/// The next frame of one of these types: its type and payload.
fn frame_of(client: &mut Talk, kinds: &[u8]) -> (u8, Vec<u8>) {
    loop {
        let header = client.read(9);
        let payload = client.read(u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize);
        if kinds.contains(&header[3]) {
            return (header[3], payload);
        }
    }
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

/// CVE-2025-8671: the client makes the gateway reset its streams, so that resets of the client's own are not needed.
#[test]
fn h31_resets_that_the_client_provokes_end_the_connection() {
    let block = request_block();
    flood("provoked_reset", CALM, |number| {
        let stream = number * 2 + 1;
        [http2_frame(1, 4, stream, &block), http2_frame(8, 0, stream, &[0; 4])].concat()
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
fn h32_header_bombs_close_the_connection() {
    // A field of 4,000 bytes enters the dynamic table, and one byte refers to it.
    let mut block = request_block();
    block.extend([0x40, 1, b'x', 0x7F, 0xA1, 0x1E]);
    block.extend([b'y'; 4000]);
    block.extend([0xBE; 8000]);
    flood("header_bomb", CALM, |number| match number {
        0 => http2_frame(1, 5, 1, &block),
        _ => Vec::new(),
    });
    let block = request_block();
    flood("block_too_large", CALM, |number| match number {
        0 => http2_frame(1, 1, 1, &block),
        1..10 => http2_frame(9, 0, 1, &[0; 16_000]),
        _ => Vec::new(),
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
    flood("priority_flood", CALM, |_| http2_frame(16, 0, 0, b"\0\0\0\x01u=1"));
    flood("window_flood", CALM, |_| http2_frame(8, 0, 0, &1_u32.to_be_bytes()));
    flood("stray_flood", CALM, |_| http2_frame(0xFE, 0, 0, b"unknown"));
    let block = request_block();
    flood("empty_flood", CALM, |number| match number {
        0 => http2_frame(1, 4, 1, &block),
        _ => http2_frame(0, 0, 1, b""),
    });
}

/// CVE-2019-9511: a response in frames of one byte.
#[test]
fn h106_windows_of_one_byte_end_the_connection() {
    let gateway = gateway("location / { root .; } location /status { status_page; }", &[]);
    std::fs::write(gateway.prefix().join("large"), vec![b'x'; 100_000]).unwrap();
    let mut client = Talk::connect(gateway.address());
    client.send(BEGINNING);
    // SETTINGS_INITIAL_WINDOW_SIZE
    client.send(http2_frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    let large = [(&b":method"[..], &b"GET"[..]), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/large")];
    let streams = (0..50).map(|number| number * 2 + 1);
    client.send(streams.clone().flat_map(|id| http2_frame(1, 5, id, &http2_block(&large))).collect::<Vec<u8>>());
    // One byte of each stream in each round: many frames in few rounds, because the budget is refilled with time.
    for _ in 0..10_000 / 50 {
        let updates = streams.clone().flat_map(|id| http2_frame(8, 0, id, &1_u32.to_be_bytes()));
        client.send(updates.collect::<Vec<u8>>());
        for _ in streams.clone() {
            let (kind, payload) = frame_of(&mut client, &[0, 7]);
            if kind == 7 {
                assert_eq!(payload[4..8], CALM.to_be_bytes());
                gateway.logged("client broke off HTTP/2: too many window updates, or windows of a few bytes");
                assert!(metric(&gateway, "window_flood"));
                return;
            }
            assert_eq!(payload, b"x");
        }
    }
    panic!("10,000 frames of one byte were sent");
}

#[test]
fn h107_exhausted_stream_numbers_lead_to_goaway() {
    let gateway = gateway("return 200 x;", &[]);
    let mut raw = Talk::connect(gateway.address());
    raw.send(BEGINNING);
    let last = 0x7FFF_FFFF - 1000;
    raw.send(http2_frame(1, 5, last, &request_block()));
    assert_eq!(frame_of(&mut raw, &[7]).1[..4], 0x7FFF_FFFF_u32.to_be_bytes(), "the first GOAWAY");
    assert_eq!(frame_of(&mut raw, &[0]).1, b"x", "the request is answered");
    assert_eq!(frame_of(&mut raw, &[7]).1[..4], last.to_be_bytes(), "the second GOAWAY");
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
