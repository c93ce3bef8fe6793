//! Cost of a mask and of a frame. The mask goes eight bytes at a time; a server's frame that came whole is not copied.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use websocket::{Decoder, Opcode, Sender, encode_frame, mask};

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

fn masks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mask");
    for len in [125, 16 * 1024] {
        let mut bytes = vec![b'a'; len];
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(format!("{len}"), |bencher| bencher.iter(|| mask(black_box(&mut bytes), KEY, 1)));
    }
}

fn frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for (name, sender, key) in [("client", Sender::Client, Some(KEY)), ("server", Sender::Server, None)] {
        let mut bytes = Vec::new();
        encode_frame(true, Opcode::Text, key, &[b'a'; 125], &mut bytes);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        let mut decoder = Decoder::new(sender, 1 << 20);
        group.bench_function(name, |bencher| {
            bencher.iter(|| decoder.decode(black_box(&bytes)).map(|decoded| decoded.consumed));
        });
    }
}

criterion_group!(benches, masks, frames);
criterion_main!(benches);
