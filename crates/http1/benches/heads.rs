//! Cost of one head: all spans, framing and hop-by-hop decisions, into a recycled struct. `httparse` beside it only
//! tokenizes, into a borrowed array: it is the price of the first third of the work. Results are in `src/lib.rs`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http1::{Limits, RequestHead, RequestKind, ResponseHead};

const WRK: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const API: &[u8] = b"GET /api/v1/orders/42?expand=lines&limit=20 HTTP/1.1\r\nHost: shop.example.com\r\n\
User-Agent: okhttp/4.12.0\r\nAccept: application/json\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\
Authorization: Bearer 0123456789abcdef0123456789abcdef\r\nX-Request-Id: 5f1c7d62-7a4e-4d55-9f6e-3c1b\r\n\
Cookie: session=0123456789\r\n\r\n";

const BROWSER: &[u8] = b"GET /assets/app.js?v=3f2a HTTP/1.1\r\nHost: www.example.com\r\nConnection: keep-alive\r\n\
Cache-Control: max-age=0\r\nsec-ch-ua: \"Chromium\";v=\"128\", \"Not;A=Brand\";v=\"24\"\r\nsec-ch-ua-mobile: ?0\r\n\
sec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\
Referer: https://www.example.com/shop/list?page=2\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
Cookie: _ga=GA1.2.1234567890.1700000000; session=0123456789abcdef0123456789abcdef; theme=dark\r\n\r\n";

const NGINX_STATIC: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 20:48:42 GMT\r\n\
Content-Type: text/html\r\nContent-Length: 612\r\nLast-Modified: Tue, 04 Oct 2022 10:10:10 GMT\r\n\
Connection: keep-alive\r\nETag: \"633c0662-264\"\r\nAccept-Ranges: bytes\r\n\r\n";

fn requests(criterion: &mut Criterion) {
    let limits = Limits::default();
    for (name, bytes) in [("wrk", WRK), ("api", API), ("browser", BROWSER)] {
        let mut group = criterion.benchmark_group(format!("request/{name}"));
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        let mut head = RequestHead::default();
        group.bench_function("http1", |bencher| {
            bencher.iter(|| http1::request::parse(black_box(bytes), &limits, &mut head));
        });
        group.bench_function("httparse", |bencher| {
            bencher.iter(|| {
                let mut fields = [httparse::EMPTY_HEADER; 32];
                httparse::Request::new(&mut fields).parse(black_box(bytes)).map(|status| status.is_complete())
            });
        });
        group.bench_function("forward", |bencher| {
            http1::request::parse(bytes, &limits, &mut head).expect("the head is valid");
            let mut out = Vec::with_capacity(2048);
            bencher.iter(|| {
                out.clear();
                let kept = head.fields.iter().filter(|field| !field.hop);
                http1::encode::encode_fields(black_box(bytes), kept, &mut out);
                out.len()
            });
        });
        group.finish();
    }
}

fn responses(criterion: &mut Criterion) {
    let limits = Limits::response(8192);
    let mut group = criterion.benchmark_group("response/nginx static");
    group.throughput(Throughput::Bytes(NGINX_STATIC.len() as u64));
    let mut head = ResponseHead::default();
    group.bench_function("http1", |bencher| {
        bencher.iter(|| http1::response::parse(black_box(NGINX_STATIC), &limits, RequestKind::Other, &mut head));
    });
    group.bench_function("httparse", |bencher| {
        bencher.iter(|| {
            let mut fields = [httparse::EMPTY_HEADER; 32];
            httparse::Response::new(&mut fields).parse(black_box(NGINX_STATIC)).map(|status| status.is_complete())
        });
    });
    group.finish();
}

criterion_group!(benches, requests, responses);
criterion_main!(benches);
