//! A scripted client of the language server.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// A running language server, and the client's end of the connection.
pub(crate) struct Client {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) messages: Receiver<Value>,
    /// Notifications that arrived while waiting for a response.
    pub(crate) notes: Vec<Value>,
    pub(crate) id: i64,
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    pub(crate) fn start(folder: &Path) -> Client {
        let mut command = clk_testing::clk(folder);
        command.arg("lsp").env("XDG_CACHE_HOME", folder.join("cache"));
        Client::of(command)
    }

    pub(crate) fn of(mut command: std::process::Command) -> Client {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("clk lsp starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            while let Some(message) = read_message(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Client { input: child.stdin.take(), child, messages, notes: vec![], id: 0 }
    }

    /// Starts a session for a folder, with positions in UTF-8.
    pub(crate) fn session(folder: &Path) -> Client {
        let mut client = Client::start(folder);
        let capabilities = json!({ "general": { "positionEncodings": ["utf-16", "utf-8"] } });
        let root = address(folder, "");
        let answer = client.request("initialize", json!({ "capabilities": capabilities, "rootUri": root }));
        assert_eq!(answer["capabilities"]["positionEncoding"], "utf-8");
        client.notify("initialized", json!({}));
        client
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("the server reads");
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let text = message.to_string();
        self.raw(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub(crate) fn receive(&mut self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("an answer in time")
    }

    /// Sends a request and returns the whole response, result or error.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.receive();
            if message["id"] == id {
                assert_eq!(message["jsonrpc"], "2.0");
                return message;
            }
            self.notes.push(message);
        }
    }

    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub(crate) fn open(&mut self, uri: &str, text: &str) {
        self.open_as(uri, "clk", text);
    }

    pub(crate) fn open_as(&mut self, uri: &str, language: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": language, "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    /// Returns the next diagnostics published for a document.
    pub(crate) fn diagnostics(&mut self, uri: &str) -> Value {
        let is_publication = |m: &Value| m["method"] == "textDocument/publishDiagnostics" && m["params"]["uri"] == uri;
        if let Some(index) = self.notes.iter().position(is_publication) {
            return self.notes.remove(index)["params"].clone();
        }
        loop {
            let message = self.receive();
            if is_publication(&message) {
                return message["params"].clone();
            }
            self.notes.push(message);
        }
    }

    /// Sends a request about a position; line and column count from 0.
    #[track_caller]
    pub(crate) fn at(&mut self, method: &str, uri: &str, line: u32, column: u32) -> Value {
        self.request(method, place(uri, line, column))
    }

    pub(crate) fn end(mut self) -> i32 {
        self.request("shutdown", Value::Null);
        self.notify("exit", Value::Null);
        self.child.wait().expect("clk ends").code().unwrap_or(-1)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // If the test passed, the server has already ended, and killing it fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn read_message(output: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim() {
            "" => break,
            header => length = header.strip_prefix("Content-Length: ")?.parse().ok()?,
        }
    }
    let mut body = vec![0; length];
    output.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

pub(crate) fn address(folder: &Path, name: &str) -> String {
    format!("file://{}/{name}", folder.display()).trim_end_matches('/').to_string()
}

pub(crate) fn place(uri: &str, line: u32, column: u32) -> Value {
    json!({ "textDocument": { "uri": uri }, "position": { "line": line, "character": column } })
}

pub(crate) fn about(uri: &str) -> Value {
    json!({ "textDocument": { "uri": uri } })
}

/// Applies the edits of a response to a text; columns are byte offsets, since the texts are ASCII.
pub(crate) fn edited(text: &str, edits: &Value) -> String {
    let offset = |position: &Value| {
        let line = position["line"].as_u64().expect("a line") as usize;
        let column = position["character"].as_u64().expect("a column") as usize;
        text.split_inclusive('\n').take(line).map(str::len).sum::<usize>() + column
    };
    let mut edits: Vec<(usize, usize, &str)> = edits
        .as_array()
        .into_iter()
        .flatten()
        .map(|e| (offset(&e["range"]["start"]), offset(&e["range"]["end"]), e["newText"].as_str().expect("a text")))
        .collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.0));
    let mut text = text.to_owned();
    edits.iter().for_each(|(start, end, new)| text.replace_range(*start..*end, new));
    text
}
