//! The page of `holdfast load --html` in a real browser, at desktop and phone width, light and dark. All charts exist
//! and show data, nothing overflows, and the console is empty. The page of a WebSocket load is tested where it is
//! written.

use crate::support::holdfast;
use crate::support::load::origin;
use std::process::Stdio;

#[test]
fn the_page_of_a_load_holds_with_and_without_failures() {
    let origin = origin();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let url = |path: &str| format!("http://{}{path}", origin.address());
    let (sound, resetting) =
        (url("/delay/2?a-rather-long-path-that-does-not-fit-on-a-phone"), url("/reset/at?point=request"));
    // Spectrum, latency, rate, and three charts of TCP; with failures also failures by cause, and errors over time.
    for (name, urls, charts) in [("sound", vec![&sound], 6), ("failing", vec![&sound, &resetting], 8)] {
        let page = folder.path().join(format!("load-{name}.html"));
        let mut load = holdfast();
        load.args([
            "load",
            "-q",
            "-c",
            "6",
            "-d",
            "900ms",
            "--interval",
            "100ms",
            "--allow-lag",
            "--expect",
            "p99<10s",
        ]);
        let output = load.arg("--html").arg(&page).args(urls).stdin(Stdio::null()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        testkit::assert_page_holds(&page, charts);
    }
}
