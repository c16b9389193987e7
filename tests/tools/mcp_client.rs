//! A client of the MCP server over pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A running server, and the client's end of the connection.
pub struct Client {
    pub child: Child,
    pub input: Option<ChildStdin>,
    pub messages: Receiver<Value>,
    /// Messages that arrived while waiting for another one.
    pub others: Vec<Value>,
    id: i64,
}

pub const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    pub fn start(folder: &Path, words: &[&str]) -> Client {
        let mut command = clk_testing::clk(folder);
        command.arg("mcp").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("clk mcp starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while output.read_line(&mut line).is_ok_and(|length| length > 0) {
                let message = serde_json::from_str(&line).expect("each line of the output is JSON");
                if sender.send(message).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Client { input: child.stdin.take(), child, messages, others: vec![], id: 0 }
    }

    /// Starts a server and initializes the session with a revision of the protocol.
    pub fn with_revision(folder: &Path, words: &[&str], revision: &str) -> Client {
        let mut client = Client::start(folder, words);
        let answer = client.request("initialize", initialization(revision));
        assert_eq!(answer["serverInfo"]["name"], "clk");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    pub fn session(folder: &Path, words: &[&str]) -> Client {
        Client::with_revision(folder, words, "2025-06-18")
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("the server reads");
    }

    pub fn send(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    pub fn receive(&mut self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("an answer in time")
    }

    /// Waits for a message that meets a condition, and keeps the others.
    pub fn wait_for(&mut self, condition: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.others.iter().position(&condition) {
            return self.others.remove(index);
        }
        loop {
            let message = self.receive();
            if condition(&message) {
                return message;
            }
            self.others.push(message);
        }
    }

    /// Sends a request without waiting; returns its id.
    pub fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }));
        self.id
    }

    /// Sends a request and returns the whole response, result or error.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.wait_for(|message| message["id"] == id);
        assert_eq!(answer["jsonrpc"], "2.0");
        answer
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    #[track_caller]
    pub fn error(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// Calls a tool, and checks what holds for every result.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> ToolResult {
        let result = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let data = result["structuredContent"].clone();
        for field in ["output", "diagnostics", "results", "notes", "left_out", "exit_code", "status"] {
            assert!(data.get(field).is_some(), "{tool}: no `{field}` in {data}");
        }
        let content = result["content"].as_array().expect("content");
        assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")), "{tool}");
        let text = content[0]["text"].as_str().expect("a text").to_owned();
        assert!(!text.is_empty(), "{tool}: the text is empty");
        ToolResult { is_error: result["isError"].as_bool().expect("a verdict"), text, data }
    }

    /// Closes the input and returns the exit code.
    pub fn end(mut self) -> i32 {
        self.input = None;
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the process is known") {
                return status.code().unwrap_or(-1);
            }
            assert!(start.elapsed() < PATIENCE, "the server has not ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // If the test passed, the server has already ended, and killing it fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The result of a call.
#[derive(Debug)]
pub struct ToolResult {
    pub is_error: bool,
    pub text: String,
    pub data: Value,
}

impl ToolResult {
    pub fn status(&self) -> &str {
        self.data["status"].as_str().unwrap_or("")
    }

    #[track_caller]
    pub fn expect(self, status: &str, is_error: bool, text: &str) -> ToolResult {
        assert_eq!((self.status(), self.is_error), (status, is_error), "{self:?}");
        assert!(self.text.contains(text), "no {text:?} in {self:?}");
        self
    }
}

pub fn initialization(revision: &str) -> Value {
    json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } })
}

pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A program without an end.
pub const ENDLESS: &str = "var i = 0\nwhile true { i += 1 }";

/// Returns the ids of the child processes of a process.
#[cfg(target_os = "linux")]
pub fn children(process: u32) -> Vec<u32> {
    let mut found = vec![];
    for task in std::fs::read_dir(format!("/proc/{process}/task")).expect("running").flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    found
}
