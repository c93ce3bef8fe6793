//! A start with many files in a cache: hits are served at once, also while the folder is read, and the next start has the
//! index from a snapshot. `HOLDFAST_CACHE_FILES=1000000` is the long tier's number of files.
#![allow(clippy::print_stdout)] // the long tier shows what was measured

use cache::{Entry, Key, Levels};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use testkit::{Gateway, Peer, Talk};

/// Files without the variable: enough for a walk in several steps.
const FILES: usize = 3000;

/// Number of requests that are timed.
const SAMPLE: usize = 2000;

/// The claim: ready within this time from a snapshot.
const READY_MAX: Duration = Duration::from_secs(5);

/// Reading a folder of a million files takes minutes.
const WALK_MAX: Duration = Duration::from_mins(20);

const BODY: &[u8] = b"a response of some bytes that was stored by an earlier process";

fn fill(folder: &Path, levels: Levels, files: usize) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY.len());
    for number in 0..files {
        let text = format!("/{number}");
        let entry = Entry { valid_until: now + 36_000, date_s: now, body_bytes: BODY.len() as u64, ..Entry::default() };
        let mut path = folder.as_os_str().as_bytes().to_vec();
        levels.write_path(Key::of(text.as_bytes()), &mut path);
        let path = Path::new(OsStr::from_bytes(&path));
        let bytes = [&entry.encode(text.as_bytes(), head.as_bytes()).unwrap(), BODY].concat();
        if fs::write(path, &bytes).is_err() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &bytes).unwrap();
        }
    }
}

/// A gateway with this folder. The loader takes more files at a time than by default, as an operator sets it for large caches.
fn start(folder: &Path) -> Gateway {
    // A request that reaches the upstream is a failure.
    let nowhere = Peer::saying("HTTP/1.1 500 Missing\r\nContent-Length: 0\r\n\r\n");
    let text = format!(
        "error_log stderr notice; events {{}} http {{ access_log off; keepalive_requests 100000000;
            proxy_cache_path {} levels=1:2 keys_zone=one:200m inactive=10h loader_files=1000;
            server {{ listen {{listen}};
                location / {{ proxy_pass http://{{upstream:0}}; proxy_cache one; proxy_cache_key $uri; }}
                location /status {{ status_page; }}
            }} }}",
        folder.display()
    );
    Gateway::start(&text, &[nowhere.address()])
}

fn keys(client: &mut Talk) -> usize {
    let page = client.get("/status/metrics", "").text();
    let line = page.lines().find(|line| line.starts_with("holdfast_cache_keys{")).unwrap();
    line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as usize
}

/// The time of a hit.
fn hit(client: &mut Talk, number: usize) -> Duration {
    let begun = Instant::now();
    let response = client.get(&format!("/{number}"), "");
    assert_eq!((response.status(), &*response.body), (200, BODY), "/{number}");
    begun.elapsed()
}

fn quantile(times: &mut [Duration], of_thousand: usize) -> Duration {
    times.sort();
    times[(times.len() * of_thousand / 1000).min(times.len() - 1)]
}

#[test]
fn many_files_delay_neither_the_start_nor_hits() {
    let files = std::env::var("HOLDFAST_CACHE_FILES").map_or(FILES, |number| number.parse().unwrap());
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("cache");
    fill(&folder, Levels([1, 2, 0]), files);

    // Without a snapshot: the folder is read while requests are served.
    let begun = Instant::now();
    let gateway = start(&folder);
    let mut client = gateway.client();
    hit(&mut client, 0);
    let first = begun.elapsed();
    assert!(first < READY_MAX, "the first hit took {first:?}");
    let (mut during, mut number) = (Vec::new(), 0);
    // Each request is for another file, in an order that is not the folder's.
    let mut next = || {
        number = (number + 7919) % files;
        number
    };
    while keys(&mut client) < files {
        for _ in 0..50 {
            during.push(hit(&mut client, next()));
        }
        assert!(begun.elapsed() < WALK_MAX, "{} of {files} keys", keys(&mut client));
    }
    let walk = begun.elapsed();
    let mut after: Vec<Duration> = (0..SAMPLE).map(|_| hit(&mut client, next())).collect();
    let [middle, late] = [500, 990].map(|part| quantile(&mut during, part));
    let [calm_middle, calm_late] = [500, 990].map(|part| quantile(&mut after, part));
    println!(
        "{files} files: first hit {first:.0?} after the start, all known after {walk:.1?}; hits meanwhile ({}): p50 \
         {middle:.0?}, p99 {late:.0?}; afterwards ({SAMPLE}): p50 {calm_middle:.0?}, p99 {calm_late:.0?}",
        during.len()
    );
    // A walk takes a thread of the pool, not the worker: a hit may wait for a core, not for the walk.
    let most = Duration::from_millis(50).max(calm_late * 10);
    assert!(late < most, "p99 of hits during the walk is {late:?}, afterwards {calm_late:?}");

    // With the snapshot that this gateway leaves.
    drop((client, gateway));
    let begun = Instant::now();
    let gateway = start(&folder);
    let mut client = gateway.client();
    testkit::until("the index is complete", || (keys(&mut client) == files).then_some(()));
    let ready = begun.elapsed();
    println!("{files} files: all known {ready:.0?} after the start from a snapshot");
    assert!(ready < READY_MAX, "the snapshot took {ready:?}");
    hit(&mut client, files - 1);
}
