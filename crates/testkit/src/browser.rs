//! Pages in a real browser: Chromium without a window, driven over its `DevTools` pipe (JSON messages that end in a NUL byte, on
//! descriptors 3 and 4). `cargo xtask peers` provides it as `chromium`.
//!
//! A test of a page that a command has written is one line. It opens the page at desktop and phone width, light and dark. It fails if
//! a chart is missing, something overflows, a text leaves its drawing, or the console reports anything.
//!
//! ```no_run
//! # let page = std::path::Path::new("report.html");
//! testkit::assert_page_holds(page, 3);
//! ```
//!
//! For more, [`Browser::start`] and [`Browser::look`] with an expression of one's own. With `HOLDFAST_SCREENSHOTS` set to a folder,
//! what was seen is kept there as images.

use crate::program::peer_or_skip;
use base64::Engine as _;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than any answer takes on a loaded machine; the test fails then, and does not hang.
const ANSWER_MAX: Duration = Duration::from_mins(1);
/// Text below this many pixels cannot be read.
const TEXT_PX_MIN: u32 = 9;

/// How a page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// In CSS pixels.
    pub width: u32,
    /// In CSS pixels.
    pub height: u32,
    /// The reader prefers a dark page.
    pub dark: bool,
}

impl Window {
    /// Desktop and phone, light and dark.
    pub const ALL: [Self; 4] = [
        Self { width: 1280, height: 900, dark: false },
        Self { width: 1280, height: 900, dark: true },
        Self { width: 360, height: 740, dark: false },
        Self { width: 360, height: 740, dark: true },
    ];

    /// Its width and theme, for the names of screenshots.
    pub fn name(self) -> String {
        format!("{}-{}", self.width, if self.dark { "dark" } else { "light" })
    }
}

/// What a page of ours shows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Seen {
    /// Charts: drawings with a role.
    pub charts: usize,
    /// Of those, the ones without a single line, area or bar.
    pub empty: Vec<String>,
    /// Pixels that the page is wide, and that the window has.
    pub wide: u32,
    /// The window's.
    pub room: u32,
    /// The page's colour, as CSS writes it.
    pub background: String,
    /// Texts of charts that leave their drawing.
    pub outside: Vec<String>,
    /// Texts of charts that are too small to read.
    pub small: usize,
    /// Charts with overlapping marks on the axis.
    pub overlap: usize,
    /// Tables that are wider than their box: a part of them is out of sight.
    pub wide_tables: Vec<String>,
}

/// Chromium, with a profile of its own that goes with it.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: String,
    id: u64,
    complaints: Vec<String>,
    /// Pipes and profile.
    _folder: tempfile::TempDir,
}

/// Looks at a page in all four ways.
///
/// # Panics
/// When it has another number of charts, or one of them is empty; when something overflows, cannot be read or leaves its drawing; when
/// light and dark look the same; when the console, the page's policy or a request complains. Without Chromium: see [`Browser::start`].
#[track_caller]
pub fn assert_page_holds(page: &Path, charts: usize) {
    let Some(mut browser) = Browser::start() else { return };
    let mut backgrounds = Vec::new();
    for window in Window::ALL {
        let seen = browser.see(page, window);
        let at = format!("{} of {}: {seen:?}", window.name(), page.display());
        assert_eq!(seen.charts, charts, "charts: {at}");
        assert!(seen.empty.is_empty(), "every chart shows something: {at}");
        assert_eq!((seen.room, seen.wide), (window.width, window.width), "nothing overflows: {at}");
        assert!(seen.outside.is_empty(), "texts stay in their drawing: {at}");
        assert_eq!((seen.small, seen.overlap), (0, 0), "texts can be read: {at}");
        // On a phone a table scrolls in its own box.
        assert!(window.width < 600 || seen.wide_tables.is_empty(), "tables are whole: {at}");
        backgrounds.push((window.dark, seen.background));
        if let Some(shots) = std::env::var_os("HOLDFAST_SCREENSHOTS") {
            let stem = page.file_stem().unwrap_or_default().to_string_lossy();
            browser.screenshot(&Path::new(&shots).join(format!("{stem}-{}.png", window.name())));
        }
    }
    let differ = |one: &(bool, String), other: &(bool, String)| (one.0 == other.0) == (one.1 == other.1);
    let all = backgrounds.iter().all(|one| backgrounds.iter().all(|other| differ(one, other)));
    assert!(all, "light and dark are two: {backgrounds:?}");
    assert_eq!(browser.complaints(), [""; 0], "the console is empty");
}

impl Browser {
    /// Starts Chromium; `None`, reported on standard error, if there is no Chromium.
    ///
    /// # Panics
    /// Under CI when there is none: a page without a browser is not tested.
    pub fn start() -> Option<Self> {
        let program = peer_or_skip(&["chromium-headless-shell", "chromium"])?;
        Some(Self::of(&program))
    }

    fn of(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let pipes = ["to", "from"].map(|name| folder.path().join(name));
        for pipe in &pipes {
            assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo is there").success());
        }
        let [to, from] = &pipes;
        // A shell gives the pipes their numbers; opening a FIFO waits for the other end, so both sides open in the same order.
        let flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --remote-debugging-pipe about:blank";
        let script = format!("exec 3<\"$2\" 4>\"$3\"; exec \"$1\" --user-data-dir=\"$4\" {flags}");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).args([program, to, from, &folder.path().join("profile")]);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh starts");
        let to = OpenOptions::new().write(true).open(to).expect("its reading end is opened by the shell");
        let reader = BufReader::new(File::open(from).expect("its writing end too"));
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for message in reader.split(0).map_while(Result::ok) {
                let value = serde_json::from_slice(&message).expect("DevTools speaks JSON");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let (session, complaints) = (String::new(), Vec::new());
        let mut browser = Self { child, to, from: receiver, session, id: 0, complaints, _folder: folder };
        let target = browser.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = browser.ask("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        attached["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        for domain in ["Page", "Log", "Runtime", "Network"] {
            browser.ask(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Pages are shown in a window like this from now on.
    pub fn set_window(&mut self, window: Window) {
        let Window { width, height, dark } = window;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", &media);
    }

    /// Opens a page and returns the text that the expression yields. The page's policy does not apply to the expression, because the
    /// browser itself evaluates it.
    #[track_caller]
    pub fn look(&mut self, page: &Path, window: Window, expression: &str) -> String {
        self.set_window(window);
        self.ask("Page.navigate", &json!({"url": format!("file://{}", page.display())}));
        self.wait(|message| message["method"] == "Page.loadEventFired");
        let answer = self.ask("Runtime.evaluate", &json!({"expression": expression, "returnByValue": true}));
        answer["result"]["value"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Opens a page of a server, with any certificate, and returns the text of the promise that the expression yields.
    #[track_caller]
    pub fn run_at(&mut self, url: &str, expression: &str) -> String {
        self.ask("Security.setIgnoreCertificateErrors", &json!({"ignore": true}));
        self.ask("Page.navigate", &json!({"url": url}));
        self.wait(|message| message["method"] == "Page.loadEventFired");
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", &asked);
        answer["result"]["value"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Opens a page that `report` has rendered, and returns what it shows.
    #[track_caller]
    pub fn see(&mut self, page: &Path, window: Window) -> Seen {
        let expression = format!(
            "JSON.stringify((() => {{
                // What is folded has no size: it is opened for the look, and closed again.
                const closed = [...document.querySelectorAll('details:not([open])')];
                closed.forEach(part => part.open = true);
                const charts = [...document.querySelectorAll('svg[role=img]')];
                const texts = [...document.querySelectorAll('svg[role=img] text')];
                const seen = {{
                    charts: charts.length,
                    empty: charts.filter(svg => !svg.querySelector('[points]:not([points=\"\"]), rect, circle'))
                        .map(svg => svg.querySelector('title').textContent),
                    wide: document.documentElement.scrollWidth,
                    room: window.innerWidth,
                    background: getComputedStyle(document.body).backgroundColor,
                    outside: texts.filter(text => {{
                        const [own, all] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
                        return own.left < all.left - 1 || own.right > all.right + 1 || own.bottom > all.bottom + 1;
                    }}).map(text => text.textContent),
                    small: texts.filter(text => text.getBoundingClientRect().height < {TEXT_PX_MIN}).length,
                    overlap: charts.filter(svg => {{
                        const boxes = [...svg.querySelectorAll('text[text-anchor=middle]')].map(text => text.getBoundingClientRect());
                        return boxes.some((box, at) => at > 0 && box.left < boxes[at - 1].right);
                    }}).length,
                    wide_tables: [...document.querySelectorAll('.scroll')]
                        .filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.getAttribute('aria-label')),
                }};
                closed.forEach(part => part.open = false);
                return seen;
            }})())"
        );
        serde_json::from_str(&self.look(page, window, &expression)).expect("the expression's own JSON")
    }

    /// Keeps the whole page as it is now, as an image.
    pub fn screenshot(&mut self, path: &Path) {
        let answer = self.ask("Page.captureScreenshot", &json!({"captureBeyondViewport": true}));
        let data = answer["data"].as_str().expect("an image");
        let image = base64::engine::general_purpose::STANDARD.decode(data).expect("base64");
        std::fs::write(path, image).expect("written");
    }

    /// Everything that the console, the policy or a request complained of, in all pages so far.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        let id = self.id;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = Value::from(self.session.as_str());
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser reads");
        let answer = self.wait(|message| message["id"] == id);
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// The next message that fits; complaints among the others are kept.
    fn wait(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + ANSWER_MAX;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self.from.recv_timeout(left).expect("the browser answers");
            if is_complaint(&message) {
                self.complaints.push(message["params"].to_string());
            }
            if fits(&message) {
                return message;
            }
        }
    }
}

/// A line in the console, an exception, or a page that asks for something elsewhere.
fn is_complaint(message: &Value) -> bool {
    match message["method"].as_str().unwrap_or_default() {
        "Log.entryAdded" | "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" => true,
        "Network.requestWillBeSent" => {
            let url = message["params"]["request"]["url"].as_str();
            url.is_none_or(|url| !url.starts_with("file:") && !url.starts_with("data:"))
        }
        _ => false,
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // In any state: its children end with it, as their pipes close.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
