//! A headless Chromium, driven by its DevTools protocol over a pipe: JSON messages that end with a zero byte.
//!
//! A shell hands the pipe over as descriptors 3 and 4, where the browser expects it. No port is opened.
//!
//! Source: <https://chromedevtools.github.io/devtools-protocol/>, `--remote-debugging-pipe`.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The timeout of a reply: a browser that starts beside a build needs a while.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// Problems of the page: exceptions, violations of the security policy, error responses.
    pub(crate) problems: Vec<String>,
    _home: tempfile::TempDir,
}

impl Browser {
    /// A browser with an empty page of this size; `None`, with a line, if none is installed.
    pub(crate) fn start(what: &str, width: u32, height: u32) -> Option<Self> {
        let found = Command::new("chromium").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            assert!(
                std::env::var_os("WEIR_NO_SKIP").is_none(),
                "WEIR_NO_SKIP is set, and there is no chromium for {what}"
            );
            // Not by eprintln!, which a passing test swallows.
            let line = format!("skipped: {what} needs chromium (Debian package chromium)\n");
            std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
            return None;
        }
        let home = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec chromium "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#, "sh"]);
        // The page is a trusted one, and in a container of root's the sandbox cannot be set up.
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]);
        command
            .args(["--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", home.path().display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let (to, out) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, from) = channel();
        let read = move || {
            for message in BufReader::new(out).split(0) {
                let Ok(message) = message else { return };
                let value = serde_json::from_slice(&message).expect("JSON from the browser");
                if sender.send(value).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().spawn(read).expect("a thread");
        let mut browser = Self { child, to, from, session: None, last: 0, problems: Vec::new(), _home: home };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", size);
        Some(browser)
    }

    /// Calls a method and gives its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser reads");
        loop {
            let message = match self.from.recv_timeout(PATIENCE) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => panic!("no reply to {method}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the browser ended before its reply to {method}"),
            };
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.problems.push(parameters["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                self.problems.push(parameters["entry"]["text"].to_string());
            }
            Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => {
                self.problems.push(parameters["args"].to_string());
            }
            _ => {}
        }
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn wait(&mut self, what: &str, expression: &str) {
        for _ in 0..600 {
            if self.value(&format!("Boolean({expression})")) == Value::Bool(true) {
                return;
            }
            self.value("new Promise((done) => setTimeout(done, 50))");
        }
        panic!("{what} did not come about; problems: {:?}", self.problems);
    }

    pub(crate) fn key(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key, "text": text }));
        }
    }

    /// The page as it looks, as a PNG file.
    pub(crate) fn picture(&mut self, path: &Path) {
        use base64::Engine;
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let data = shot["data"].as_str().expect("a picture");
        std::fs::write(path, base64::engine::general_purpose::STANDARD.decode(data).expect("base64")).expect("written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The pipe's end ends the browser and all its processes; if it does not, the main one is killed.
        let _ = self.to.write_all(b"{\"id\":999999999,\"method\":\"Browser.close\"}\0");
        let closed = loop {
            match self.from.recv_timeout(Duration::from_secs(10)) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) => break false,
            }
        };
        if !closed {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
