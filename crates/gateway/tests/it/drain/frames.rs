//! Where the close frame goes, and how a tunnel ends.

use super::{KEY, Scene, client_frame, close, echo, echoes, frame, in_a_frame, masked, masked_close, switching};
use std::time::Duration;
use testkit::{End, Signal, until};
use websocket::{CloseCode, Opcode};

const FAST: &str = "drain_rate 1000;";
const RESTART: CloseCode = CloseCode::SERVICE_RESTART;
const OTHER: &str = "proxy_read_timeout 70s;";
/// The payload of a close frame with 1012.
const RESTART_PAYLOAD: [u8; 2] = [0x03, 0xf4];

#[test]
fn both_ends_get_a_close_frame_and_answer_it() {
    let answered = Signal::new();
    let peer = switching({
        let answered = answered.clone();
        move |mut talk| {
            let (opcode, payload) = client_frame(&mut talk).unwrap();
            assert_eq!((opcode, payload.as_slice()), (Opcode::Close, &RESTART_PAYLOAD[..]));
            talk.send(close(RESTART));
            assert_eq!(talk.end(), End::Fin, "the client's answer is not passed on behind a close frame");
            answered.raise();
        }
    });
    let mut scene = Scene::new(FAST, vec![peer]);
    let mut client = scene.tunnel("/chat");
    scene.change_chat(OTHER);
    client.expect(close(RESTART));
    client.send(masked_close(RESTART));
    assert_eq!(client.end(), End::Fin);
    answered.wait();
    scene.until_drained();
    let line = scene.gateway.logged("tunnel drained: a reload changed or removed its location");
    assert!(line.contains(" [info] "), "{line}");
    scene.until_closed(gateway::CloseReason::DrainedRoute, 1);
    let lines = scene.gateway.access_lines(1);
    assert!(lines[0].starts_with("101 side=gateway "), "{lines:?}");
}

#[test]
fn upstream_frame_in_progress_reaches_the_client() {
    let (asked, large) = (Signal::new(), frame(&vec![b'x'; 70_000]));
    let mut scene = Scene::new(FAST, vec![in_a_frame(&asked, &large)]);
    let mut client = scene.tunnel("/chat");
    client.expect(&large[..1000]);
    scene.change_chat(OTHER);
    asked.wait();
    client.expect(&large[1000..]);
    client.expect(close(RESTART));
    client.send(masked_close(RESTART));
    assert_eq!(client.end(), End::Fin, "no frame follows a close frame");
}

#[test]
fn client_frame_in_progress_reaches_the_upstream() {
    let (begun, whole) = (Signal::new(), masked(&[b'y'; 5000]));
    let peer = switching({
        let (begun, whole) = (begun.clone(), whole.clone());
        move |mut talk| {
            talk.expect(&whole[..100]);
            begun.raise();
            talk.expect(&whole[100..]);
            let (opcode, payload) = client_frame(&mut talk).unwrap();
            assert_eq!((opcode, payload.as_slice()), (Opcode::Close, &RESTART_PAYLOAD[..]));
            talk.send(close(RESTART));
            assert_eq!(talk.end(), End::Fin);
        }
    });
    let mut scene = Scene::new(FAST, vec![peer]);
    let mut client = scene.tunnel("/chat");
    client.send(&whole[..100]);
    begun.wait();
    scene.change_chat(OTHER);
    client.expect(close(RESTART));
    // The rest of the frame, and the answer to the close at once.
    client.send([&whole[100..], &masked_close(RESTART)].concat());
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn each_upstream_close_frame_has_its_own_mask() {
    let keys = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let peer = switching({
        let keys = std::sync::Arc::clone(&keys);
        move |mut talk| {
            let frame = talk.read(8);
            assert_eq!(&frame[..2], b"\x88\x82", "masked");
            keys.lock().unwrap().push(frame[2..6].to_vec());
            talk.send(close(RESTART));
            talk.rest();
        }
    });
    let mut scene = Scene::new(FAST, vec![peer]);
    let mut clients: Vec<_> = (0..3).map(|_| scene.tunnel("/chat")).collect();
    scene.change_chat(OTHER);
    for client in &mut clients {
        super::closes(client, RESTART);
    }
    let keys = keys.lock().unwrap().clone();
    assert!(keys.len() == 3 && (keys[0] != keys[1] || keys[1] != keys[2]) && keys[0] != KEY, "{keys:?}");
}

#[test]
fn ends_that_do_not_answer_are_closed_at_the_timeout() {
    let peer = switching(|mut talk| {
        // It reads the close frame, and neither answers nor closes.
        assert_eq!(talk.read(8)[..2], *b"\x88\x82");
        assert_eq!(talk.end(), End::Fin);
    });
    let mut scene = Scene::new("drain_rate 1000; drain_timeout 300ms;", vec![peer]);
    let mut client = scene.tunnel("/chat");
    scene.change_chat(OTHER);
    client.expect(close(RESTART));
    assert_eq!(client.end(), End::Fin);
    drop(client);
    scene.until_drained();
    scene.gateway.logged("tunnel drained: ");
}

#[test]
fn a_frame_that_never_ends_is_cut_at_the_timeout() {
    let peer = switching(|mut talk| {
        talk.send(b"\x82\x7f\0\0\0\0\0\x10\0\0begun");
        assert_eq!(talk.read(8)[..2], *b"\x88\x82");
        assert_eq!(talk.end(), End::Fin);
    });
    let mut scene = Scene::new("drain_rate 1000; drain_timeout 300ms;", vec![peer]);
    let mut client = scene.tunnel("/chat");
    client.read(15);
    scene.change_chat(OTHER);
    assert_eq!(client.end(), End::Fin, "nothing is put into the frame");
    drop(client);
    scene.until_drained();
}

#[test]
fn self_closing_tunnel_gets_no_second_close_frame() {
    let (closing, drained) = (Signal::new(), Signal::new());
    let peer = switching({
        let (closing, drained) = (closing.clone(), drained.clone());
        move |mut talk| {
            assert_eq!(client_frame(&mut talk).unwrap(), (Opcode::Close, vec![0x03, 0xe8]));
            closing.raise();
            talk.wait(&drained);
            talk.send(close(CloseCode::NORMAL));
        }
    });
    let mut scene = Scene::new(FAST, vec![peer]);
    let mut client = scene.tunnel("/chat");
    client.send(masked_close(CloseCode::NORMAL));
    closing.wait();
    scene.change_chat(OTHER);
    scene.gateway.until_totals("it is drained", |totals| totals.draining == 1);
    drained.raise();
    client.expect(close(CloseCode::NORMAL));
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn other_protocols_end_at_the_timeout() {
    let peer = switching(|mut talk| {
        let mut heard = Vec::new();
        while let Some(bytes) = talk.whatever_came() {
            heard.extend_from_slice(&bytes);
            talk.send(bytes);
        }
        assert_eq!(heard, b"onetwo");
        assert_eq!(talk.end(), End::Fin);
    });
    let mut scene = Scene::new("drain_rate 1000; drain_timeout 700ms;", vec![peer]);
    let mut client = scene.tunnel_for("other", "/chat");
    client.send("one");
    client.expect("one");
    scene.change_chat(OTHER);
    scene.gateway.until_totals("it is drained", |totals| totals.draining == 1);
    client.send("two");
    client.expect("two");
    assert_eq!(client.end(), End::Fin, "no frame was put into it");
    drop(client);
    scene.until_drained();
    scene.until_closed(gateway::CloseReason::DrainedRoute, 1);
}

#[test]
fn a_compressed_websocket_is_closed_like_any_other() {
    let peer = switching(|mut talk| {
        talk.send(b"\xc1\x02hi");
        assert_eq!(client_frame(&mut talk).unwrap().0, Opcode::Close);
        talk.send(close(RESTART));
        talk.rest();
    });
    let mut scene = Scene::new(FAST, vec![peer]);
    let mut client = scene.tunnel("/chat");
    client.expect(b"\xc1\x02hi");
    scene.change_chat(OTHER);
    super::closes(&mut client, RESTART);
}

#[test]
fn client_sending_after_the_close_is_cut_off() {
    let mut scene = Scene::new("drain_rate 1000; drain_timeout 300ms;", vec![echo()]);
    let mut client = scene.tunnel("/chat");
    echoes(&mut client);
    scene.change_chat(OTHER);
    client.expect(close(RESTART));
    // Its frames are dropped, and none of them reaches the upstream.
    let sender = client.socket().try_clone().unwrap();
    let flood = std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut sender, frame) = (sender, masked(&[b'z'; 1000]));
        while sender.write_all(&frame).is_ok() {
            std::thread::park_timeout(Duration::from_millis(2));
        }
    });
    let (rest, _) = client.rest();
    assert!(rest.is_empty(), "{}", rest.escape_ascii());
    until("the tunnel has ended", || (scene.gateway.totals().tunnels == 0).then_some(()));
    drop(client);
    flood.join().unwrap();
}
