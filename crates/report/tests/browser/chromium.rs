//! Chromium without a window, driven over its `DevTools` pipe: JSON messages that end in a NUL byte, on descriptors 3 and 4.

use base64::Engine as _;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than any answer takes on a loaded machine; the test fails then, and does not hang.
const ANSWER_MAX: Duration = Duration::from_mins(1);

pub(crate) struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: String,
    id: u64,
    complaints: Vec<String>,
}

/// The program: unpacked by `cargo xtask peers`, or installed.
pub(crate) fn find() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let peers = std::env::var_os("HOLDFAST_PEERS").map(PathBuf::from);
    let folders = peers.into_iter().chain([workspace.join("target/peers/bin"), PathBuf::from("/usr/bin")]);
    let named = folders.flat_map(|folder| ["chromium-headless-shell", "chromium"].map(|name| folder.join(name)));
    named.into_iter().find(|program| program.is_file())
}

impl Browser {
    /// Starts it with a profile in `folder`.
    pub(crate) fn start(program: &Path, folder: &Path) -> Self {
        let pipes = ["to", "from"].map(|name| folder.join(name));
        for pipe in &pipes {
            assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo is there").success());
        }
        let [to, from] = &pipes;
        // A shell gives the pipes their numbers; opening a FIFO waits for the other end, so both sides open in the same order.
        let flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --remote-debugging-pipe about:blank";
        let script = format!("exec 3<\"$2\" 4>\"$3\"; exec \"$1\" --user-data-dir=\"$4\" {flags}");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).args([program, to, from, &folder.join("profile")]);
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
        let mut browser = Self { child, to, from: receiver, session: String::new(), id: 0, complaints: Vec::new() };
        let target = browser.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = browser.ask("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        attached["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        for domain in ["Page", "Log", "Runtime", "Network"] {
            browser.ask(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Opens the page at that size and scheme, and returns what the expression yields.
    pub(crate) fn look(&mut self, page: &Path, (width, height): (u32, u32), scheme: &str, expression: &str) -> String {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", &size);
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", &media);
        self.ask("Page.navigate", &json!({"url": format!("file://{}", page.display())}));
        self.wait(|message| message["method"] == "Page.loadEventFired");
        let answer = self.ask("Runtime.evaluate", &json!({"expression": expression, "returnByValue": true}));
        answer["result"]["value"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The whole page as it is now.
    pub(crate) fn screenshot(&mut self, path: &Path) {
        let answer = self.ask("Page.captureScreenshot", &json!({"captureBeyondViewport": true}));
        let data = answer["data"].as_str().expect("an image");
        let image = base64::engine::general_purpose::STANDARD.decode(data).expect("base64");
        std::fs::write(path, image).expect("written");
    }

    /// Everything that the console, the policy or a request complained of.
    pub(crate) fn complaints(&self) -> &[String] {
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
            let method = message["method"].as_str().unwrap_or_default();
            let asks_elsewhere = method == "Network.requestWillBeSent"
                && message["params"]["request"]["url"]
                    .as_str()
                    .is_none_or(|url| !url.starts_with("file:") && !url.starts_with("data:"));
            if asks_elsewhere
                || ["Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"].contains(&method)
            {
                self.complaints.push(message["params"].to_string());
            }
            if fits(&message) {
                return message;
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Whatever state it is in: its children end with it, as their pipes close.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
