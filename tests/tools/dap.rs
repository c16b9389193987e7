//! Tests the debug adapter, `clk dap`, as editors use it: one scripted client debugs programs with the real binary, and
//! another client sends garbage.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

const REVERSE: &str = "kernel reverse(x: [i32; N], out y: [i32; N]) grid(N / 64) block(64) {
    shared s: [i32; 64]
    let t = thread_idx.x
    s[t] = x[global_idx.x]
    barrier()
    var sum = 0
    for k in 0..3 {
        sum += s[63 - t] + k
    }
    y[global_idx.x] = sum
}
print(reverse(arange(128))[0])
";

/// A running debug adapter, and the client's end of the connection.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Events that arrived while waiting for a response.
    events: VecDeque<Value>,
    seq: i64,
    last: i64,
    program: PathBuf,
    _folder: tempfile::TempDir,
}

impl Client {
    fn start(text: &str) -> Client {
        Client::with(text, &[])
    }

    /// Starts the debug adapter with these command line options.
    fn with(text: &str, options: &[&str]) -> Client {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program.clk");
        fs::write(&program, text).expect("written");
        let mut child = clk_testing::clk(folder.path())
            .arg("dap")
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("clk dap starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            while let Some(message) = read_message(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Client { child, input, messages, events: VecDeque::new(), seq: 0, last: 0, program, _folder: folder }
    }

    /// Starts debugging a program with breakpoints in these lines.
    fn session(text: &str, lines: &[(u32, Option<&str>)]) -> Client {
        let mut client = Client::start(text);
        client.launch(json!({}));
        client.breakpoints(lines);
        client.request("configurationDone", json!({}));
        client
    }

    fn launch(&mut self, mut arguments: Value) {
        let capabilities = self.request("initialize", json!({ "adapterID": "clk" }));
        assert_eq!(capabilities["supportsStepBack"], true);
        arguments["program"] = json!(self.program.to_string_lossy());
        self.request("launch", arguments);
        self.event("initialized");
    }

    fn breakpoints(&mut self, lines: &[(u32, Option<&str>)]) -> Value {
        let breakpoints: Vec<Value> = lines
            .iter()
            .map(|(line, condition)| match condition {
                Some(condition) => json!({ "line": line, "condition": condition }),
                None => json!({ "line": line }),
            })
            .collect();
        let source = json!({ "path": self.program.to_string_lossy() });
        self.request("setBreakpoints", json!({ "source": source, "breakpoints": breakpoints }))
    }

    fn raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("the server reads");
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        self.raw(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    fn receive(&mut self) -> Value {
        let message = self.messages.recv_timeout(PATIENCE).expect("an answer in time");
        let seq = message["seq"].as_i64().expect("a number");
        assert_eq!(seq, self.last + 1, "messages are numbered: {message}");
        self.last = seq;
        message
    }

    fn response(&mut self) -> Value {
        loop {
            let message = self.receive();
            if message["type"] == "response" {
                return message;
            }
            self.events.push_back(message);
        }
    }

    /// Sends a request and returns the whole response.
    fn ask(&mut self, command: &str, arguments: Value) -> Value {
        self.seq += 1;
        self.send(&json!({ "seq": self.seq, "type": "request", "command": command, "arguments": arguments }));
        let answer = self.response();
        assert_eq!((&answer["request_seq"], &answer["command"]), (&json!(self.seq), &json!(command)));
        answer
    }

    #[track_caller]
    fn request(&mut self, command: &str, arguments: Value) -> Value {
        let answer = self.ask(command, arguments);
        assert_eq!(answer["success"], true, "{command}: {answer}");
        answer["body"].clone()
    }

    /// Returns the body of the next event of this name.
    fn event(&mut self, name: &str) -> Value {
        loop {
            let message = self.events.pop_front().unwrap_or_else(|| self.receive());
            assert_eq!(message["type"], "event", "{message}");
            if message["event"] == name {
                return message["body"].clone();
            }
        }
    }

    /// Sends a command that continues or steps; returns the thread and the line where the program stops.
    #[track_caller]
    fn moved(&mut self, command: &str, thread: i64) -> (Value, i64) {
        self.request(command, json!({ "threadId": thread }));
        self.stopped()
    }

    fn stopped(&mut self) -> (Value, i64) {
        let stopped = self.event("stopped");
        let line = self.top(stopped["threadId"].as_i64().expect("a thread"))["line"].as_i64().expect("a line");
        (stopped, line)
    }

    fn top(&mut self, thread: i64) -> Value {
        let trace = self.request("stackTrace", json!({ "threadId": thread }));
        trace["stackFrames"][0].clone()
    }

    fn value(&mut self, thread: i64, text: &str) -> Value {
        let frame = self.top(thread)["id"].clone();
        self.request("evaluate", json!({ "expression": text, "frameId": frame, "context": "watch" }))
    }

    fn result(&mut self, thread: i64, text: &str) -> String {
        self.value(thread, text)["result"].as_str().expect("a text").to_string()
    }

    fn end(mut self) -> i32 {
        self.request("disconnect", json!({}));
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

fn read_message(output: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        length = line.strip_prefix("Content-Length: ")?.parse().ok()?;
    }
    let mut bytes = vec![0; length];
    output.read_exact(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[test]
fn a_session() {
    let mut client = Client::session(REVERSE, &[(10, Some("t == 5"))]);
    let (stopped, line) = client.stopped();
    assert_eq!((stopped["reason"].as_str(), line), (Some("breakpoint"), 10), "{stopped}");
    assert_eq!(stopped["hitBreakpointIds"], json!([1]));
    let thread = stopped["threadId"].as_i64().expect("a thread");
    assert_eq!(client.result(thread, "t"), "5");
    assert_eq!(client.result(thread, "sum"), (3 * 58 + 3).to_string());
    // Steps back through the loop.
    for (line, k) in [(8, 2), (8, 1), (8, 0)] {
        let (stopped, at) = client.moved("stepBack", thread);
        assert_eq!((stopped["threadId"].as_i64(), at), (Some(thread), line));
        assert_eq!(client.result(thread, "k"), k.to_string());
    }
    // Steps back over the barrier, to a point where the last thread has not written its element yet.
    for line in [7, 6, 5] {
        assert_eq!(client.moved("stepBack", thread).1, line);
    }
    let frame = client.top(thread)["id"].clone();
    let answer = client.ask("evaluate", json!({ "expression": "s[63]", "frameId": frame }));
    assert_eq!(answer["success"], false, "{answer}");
    // Steps forward over the barrier again.
    assert_eq!(client.moved("next", thread).1, 6);
    assert_eq!(client.result(thread, "s[63]"), "63");
    // The program stops once more in this block, and then in the next block.
    let (stopped, line) = client.moved("continue", thread);
    assert_eq!((stopped["threadId"].as_i64(), line), (Some(thread), 10));
    let (stopped, _) = client.moved("continue", thread);
    let other = stopped["threadId"].as_i64().expect("a thread");
    assert_ne!(other, thread);
    assert_eq!(client.result(other, "block_idx.x"), "1");
    let (stopped, _) = client.moved("reverseContinue", thread);
    assert_eq!(stopped["threadId"].as_i64(), Some(thread));
    client.breakpoints(&[]);
    client.request("continue", json!({ "threadId": thread }));
    let output = client.event("output");
    assert_eq!(output["output"].as_str().map(str::trim), Some("192"), "{output}");
    client.event("terminated");
    assert_eq!(client.end(), 0);
}

#[test]
fn structured_variables_expand() {
    let mut client = Client::session(REVERSE, &[(10, None)]);
    let (stopped, _) = client.stopped();
    let thread = stopped["threadId"].as_i64().expect("a thread");
    let threads = client.request("threads", json!({}));
    // The list has the 32 threads of the stopped warp, and the first thread of the other warp.
    assert_eq!(threads["threads"].as_array().map(Vec::len), Some(33), "{threads}");
    let frame = client.top(thread)["id"].clone();
    let scopes = client.request("scopes", json!({ "frameId": frame }));
    let of = |name: &str| {
        let all = scopes["scopes"].as_array().expect("scopes");
        all.iter()
            .find(|scope| scope["name"] == name)
            .map(|scope| scope["variablesReference"].clone())
            .expect("a scope")
    };
    let variables_of = |client: &mut Client, scope: &str| -> Vec<(String, String)> {
        let reply = client.request("variables", json!({ "variablesReference": of(scope) }));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        reply["variables"]
            .as_array()
            .expect("variables")
            .iter()
            .map(|v| (text(&v["name"]), text(&v["value"])))
            .collect()
    };
    let locals = variables_of(&mut client, "Locals");
    assert!(locals.contains(&("t".into(), "0".into())), "{locals:?}");
    assert!(locals.contains(&("sum".into(), "192".into())), "{locals:?}");
    assert!(variables_of(&mut client, "Arguments").contains(&("N".into(), "128".into())));
    assert!(variables_of(&mut client, "Indices").contains(&("block_dim".into(), "(64, 1, 1)".into())));
    let arrays = client.request("variables", json!({ "variablesReference": of("Arrays") }));
    let x = arrays["variables"].as_array().expect("arrays").iter().find(|v| v["name"] == "x").expect("x").clone();
    assert_eq!((&x["indexedVariables"], &x["type"]), (&json!(128), &json!("[i32; 128]")));
    let part = json!({ "variablesReference": x["variablesReference"], "filter": "indexed", "start": 100, "count": 2 });
    let part = client.request("variables", part);
    assert_eq!(part["variables"][1]["name"], "[101]");
    assert_eq!(part["variables"][1]["value"], "101");
    assert_eq!(part["variables"].as_array().map(Vec::len), Some(2));
    client.end();
}

#[test]
fn data_breakpoints_work_in_both_directions() {
    let mut client = Client::start(REVERSE);
    client.launch(json!({}));
    let info = client.request("dataBreakpointInfo", json!({ "name": "s[63]" }));
    assert_eq!(info["dataId"], "s[63]");
    let request = json!({ "breakpoints": [{ "dataId": info["dataId"], "accessType": "write" }] });
    let set = client.request("setDataBreakpoints", request);
    assert_eq!(set["breakpoints"][0]["verified"], true);
    client.request("configurationDone", json!({}));
    let (stopped, _) = client.stopped();
    assert_eq!(stopped["reason"], "data breakpoint");
    let first = stopped["threadId"].as_i64().expect("a thread");
    assert_eq!(client.result(first, "s[63]"), "63");
    let (stopped, _) = client.moved("continue", first);
    let second = stopped["threadId"].as_i64().expect("a thread");
    assert_eq!(client.result(second, "(block_idx.x, s[63])"), "(1, 127)");
    let (stopped, _) = client.moved("reverseContinue", second);
    assert_eq!(stopped["threadId"].as_i64(), Some(first));
    client.end();
}

#[test]
fn faults_and_nan_stop() {
    let text = "kernel shift(x: [f32; N], out y: [f32; N]) threads(i: N) {
    let root = sqrt(x[i] - 2.0)
    y[i] = x[i + 1] + root
}
shift([3.0, 1.0, 5.0])
";
    let mut client = Client::start(text);
    client.launch(json!({}));
    client.request("setExceptionBreakpoints", json!({ "filters": ["fault", "nan"] }));
    client.request("configurationDone", json!({}));
    let (stopped, line) = client.stopped();
    assert_eq!((stopped["reason"].as_str(), stopped["text"].as_str()), (Some("exception"), Some("NaN was computed")));
    assert_eq!(line, 2);
    client.request("setExceptionBreakpoints", json!({ "filters": ["fault"] }));
    let (stopped, line) = client.moved("continue", 1);
    assert_eq!((stopped["reason"].as_str(), line), (Some("exception"), 3), "{stopped}");
    let info = client.request("exceptionInfo", json!({ "threadId": stopped["threadId"] }));
    assert_eq!(info["exceptionId"], "E0601");
    assert_eq!(info["details"]["message"], "guard the access: `if i + 1 < N { … }`");
    let thread = stopped["threadId"].as_i64().expect("a thread");
    assert_eq!(client.moved("stepBack", thread).1, 3);
    assert_eq!(client.moved("stepBack", thread).1, 2);
    client.request("continue", json!({ "threadId": thread }));
    let (stopped, _) = client.stopped();
    assert_eq!(stopped["reason"], "exception");
    client.request("continue", json!({ "threadId": thread }));
    assert!(client.event("output")["output"].as_str().is_some_and(|text| text.contains("error[E0601]")));
    client.end();
}

#[test]
fn entry_pause_and_functions() {
    let text = "fn twice(v: i32) -> i32 {
    2 * v
}
kernel spin(out y: [i32; N]) threads(i: N) {
    var n = 0
    while n >= 0 {
        n = twice(n) % 7
    }
    y[i] = n
}
spin(N = 3)
";
    let mut client = Client::start(text);
    client.launch(json!({ "stopOnEntry": true }));
    let set =
        client.request("setFunctionBreakpoints", json!({ "breakpoints": [{ "name": "twice" }, { "name": "thrice" }] }));
    assert_eq!((&set["breakpoints"][0]["verified"], &set["breakpoints"][1]["verified"]), (&json!(true), &json!(false)));
    client.request("configurationDone", json!({}));
    let (stopped, line) = client.stopped();
    assert_eq!((stopped["reason"].as_str(), line), (Some("entry"), 4));
    let (stopped, line) = client.moved("continue", 1);
    assert_eq!((stopped["reason"].as_str(), line), (Some("breakpoint"), 2));
    let trace = client.request("stackTrace", json!({ "threadId": 1 }));
    let names: Vec<&Value> = trace["stackFrames"].as_array().expect("frames").iter().map(|f| &f["name"]).collect();
    assert_eq!(names, ["twice", "spin"]);
    client.request("stepOut", json!({ "threadId": 1 }));
    client.stopped();
    client.request("setFunctionBreakpoints", json!({ "breakpoints": [] }));
    // The program loops endlessly until the client stops it.
    client.request("continue", json!({ "threadId": 1 }));
    client.request("pause", json!({ "threadId": 1 }));
    let (stopped, _) = client.stopped();
    assert_eq!(stopped["reason"], "pause");
    client.end();
}

#[test]
fn wrong_requests_do_not_end_the_session() {
    let mut client = Client::start(REVERSE);
    let refused = |answer: &Value| answer["success"] == false && answer["message"].is_string();
    for garbage in
        ["Content-Length: 3\r\n\r\n{,}", "Content-Length: 2\r\n\r\n[]", "Content-Length: 13\r\n\r\n{\"command\":7} "]
    {
        client.raw(garbage.as_bytes());
        let answer = client.response();
        assert!(refused(&answer), "{answer}");
    }
    assert!(refused(&client.ask("stackTrace", json!({}))));
    assert!(refused(&client.ask("launch", json!({}))));
    client.launch(json!({}));
    assert!(refused(&client.ask("nonsense", json!({}))));
    assert!(refused(&client.ask("next", json!({ "threadId": 1 }))));
    let nowhere = json!({ "source": { "path": "/nowhere.clk" }, "breakpoints": [{ "line": 1 }] });
    assert_eq!(client.request("setBreakpoints", nowhere)["breakpoints"][0]["verified"], false);
    let path = client.program.to_string_lossy().into_owned();
    let lines =
        json!({ "source": { "path": path }, "breakpoints": [{ "line": -5 }, { "line": "four" }, { "line": 0 }, {}] });
    let answers = client.request("setBreakpoints", lines);
    let answers = answers["breakpoints"].as_array().expect("answers");
    assert!(answers.len() == 4 && answers.iter().all(|answer| answer["verified"] == false), "{answers:?}");
    client.breakpoints(&[(4, None)]);
    client.request("configurationDone", json!({}));
    client.stopped();
    for (command, arguments) in [
        ("nonsense", json!({})),
        ("stackTrace", json!({ "threadId": 99999 })),
        ("scopes", json!({ "frameId": 77 })),
        ("variables", json!({ "variablesReference": -3 })),
        ("evaluate", json!({ "expression": "s[" })),
        ("evaluate", json!({ "expression": "nobody" })),
        ("next", json!({})),
        ("source", json!({ "sourceReference": 5000 })),
    ] {
        let answer = client.ask(command, arguments);
        assert!(refused(&answer), "{command}: {answer}");
    }
    assert_eq!(client.result(1, "t"), "0");
    client.end();
}

#[test]
fn ineffective_check_options_are_reported() {
    let mut client = Client::with(REVERSE, &["--check"]);
    client.launch(json!({}));
    let said = client.event("output");
    let text = said["output"].as_str().unwrap_or_default();
    assert!(text.contains("`--check` and `--trap-nan` do nothing in the debugger"), "{said}");
    client.end();
}

#[test]
fn a_program_with_mistakes_is_not_run() {
    let mut client = Client::start("kernel k(out y: [i32; N]) threads(i: N) { y[i] = z }\n");
    client.request("initialize", json!({}));
    let program = json!({ "program": client.program.to_string_lossy() });
    let answer = client.ask("launch", program);
    assert_eq!(answer["success"], false, "{answer}");
    client.event("terminated");
    assert_eq!(client.end(), 1);
}

/// A pause request also stops a launch that runs on the simulator instead of the stepper, because it has no
/// breakpoints.
#[test]
fn a_pause_stops_a_launch_that_is_not_stepped() {
    let text = "kernel count(inout x: [i32; N], n: i32) threads(i: N) {
    var k = 0
    while k != n {
        k = (k + 1) % 1000
    }
    x[i] += k
}
var x = zeros(4, type = i32)
count(x, 5)
print(\"begun {x[0]}\")
count(x, -1)
print(\"never\")
";
    let mut client = Client::start(text);
    client.launch(json!({}));
    client.request("configurationDone", json!({}));
    assert_eq!(client.event("output")["output"], "begun 5\n");
    for _ in 0..3 {
        client.request("pause", json!({ "threadId": 1 }));
        let (stopped, line) = client.stopped();
        assert_eq!((stopped["reason"].as_str(), line), (Some("pause"), 1), "it is at its start");
        // The stepper has restarted the launch, so its arrays have their initial values again.
        let thread = stopped["threadId"].as_i64().expect("a thread");
        assert_eq!(client.result(thread, "x[0]"), "5");
        client.request("continue", json!({ "threadId": 1 }));
    }
    client.request("pause", json!({ "threadId": 1 }));
    client.stopped();
    let (stopped, line) = client.moved("next", 1);
    assert_eq!((stopped["reason"].as_str(), line), (Some("step"), 2));
    client.end();
}

/// A pause request that arrives between two launches stops the next launch, but does not end the script.
#[test]
fn pauses_between_short_launches_do_not_end_the_script() {
    let text = "kernel add(inout x: [i32; N]) threads(i: N) { x[i] += 1 }
var x = zeros(4, type = i32)
for k in 0..400 { add(x) }
print(x[3])
";
    let mut client = Client::start(text);
    client.launch(json!({}));
    client.request("configurationDone", json!({}));
    let mut pauses = 0;
    loop {
        client.request("pause", json!({ "threadId": 1 }));
        let event = client.events.pop_front().unwrap_or_else(|| client.receive());
        if event["event"] == "output" {
            assert_eq!(event["body"]["output"], "400\n");
            break;
        }
        assert_eq!(event["event"], "stopped");
        client.request("continue", json!({ "threadId": 1 }));
        pauses += 1;
        assert!(pauses <= 400);
    }
    client.end();
}
