//! Tests the limits of the MCP server: memory, launches, output, time, and clients that do not read.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use crate::mcp_client::children;
use crate::mcp_client::{Client, ENDLESS, PATIENCE, folder, initialization};

const LAUNCHES: &str = "\
kernel k(x: [f32; N], out r: [f32; N]) threads(i: N) {
    r[i] = x[i] + 1.0
}
var x = zeros(4)
for j in 0..10 { x = k(x) }
print(x)
";

#[test]
fn waiting_calls_have_a_limited_size() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &["--parallel", "1", "--time", "300"]);
    let token = json!({ "progressToken": "p" });
    let endless =
        client.begin("tools/call", json!({ "name": "run", "arguments": { "source": ENDLESS }, "_meta": token }));
    client.wait_for(|message| message["method"] == "notifications/progress");
    // Invalid arguments do not wait.
    let junk = format!("[{}0]", "0,".repeat(4 << 20));
    for id in 0..8 {
        let call = "\"method\": \"tools/call\", \"params\": {\"name\": \"check\", \"arguments\": {\"nothing\": ";
        client.raw(format!("{{\"jsonrpc\": \"2.0\", \"id\": \"junk{id}\", {call}{junk}}}}}}}\n").as_bytes());
        let answer = client.wait_for(|message| message["id"] == format!("junk{id}"));
        assert_eq!(answer["result"]["structuredContent"]["status"], "refused", "{answer}");
    }
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string(format!("/proc/{}/status", client.child.id())).expect("running");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak");
        let kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
        assert!(kib < 600 << 10, "the server took {kib} KiB");
    }
    let source = format!("// {}", "x".repeat(15 << 20));
    let waiting: Vec<i64> = (0..5)
        .map(|_| client.begin("tools/call", json!({ "name": "check", "arguments": { "source": source } })))
        .collect();
    let refused = client.wait_for(|message| message["id"] == waiting[4]);
    assert_eq!(refused["result"]["isError"], true);
    assert!(refused.to_string().contains("too many calls wait"), "{refused}");
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": waiting[0] } }));
    let small = client.begin("tools/call", json!({ "name": "check", "arguments": { "source": source } }));
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": endless } }));
    for id in waiting[1..4].iter().chain([&small]) {
        let answer = client.wait_for(|message| message["id"] == *id);
        assert_eq!(answer["result"]["structuredContent"]["status"], "ok", "a canceled call leaves its room");
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn debugged_launches_count() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &["--launches", "3"]);
    for tool in ["run", "debug_at"] {
        let mut arguments = json!({ "source": LAUNCHES });
        if tool == "debug_at" {
            (arguments["line"], arguments["thread"]) = (json!(2), json!([99]));
        }
        client.call(tool, arguments).expect("launch_limit", true, "the limit of 3 launches");
    }
    let stop = client.call("debug_at", json!({ "source": LAUNCHES, "line": 2, "hit": 12 })).expect("ok", false, "k");
    assert_eq!(stop.data["results"][0]["launch"], 3);
    // The exit code of a script does not mean that the arguments are invalid.
    let exits = LAUNCHES.replace("0..10", "0..2") + "exit(2)\n";
    client.call("debug_at", json!({ "source": exits, "line": 2, "thread": [99] })).expect(
        "failed",
        true,
        "no thread stopped at this line",
    );
    assert_eq!(client.end(), 0);
}

#[test]
fn client_that_does_not_read() {
    let folder = folder();
    let mut command = clk_testing::clk(folder.path());
    command.args(["mcp", "--time", "1"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("clk mcp starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut send = |id: i64, method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        input.write_all(format!("{message}\n").as_bytes()).expect("the server reads");
    };
    send(0, "initialize", initialization("2025-06-18"));
    for id in 1..20 {
        send(id, "resources/read", json!({ "uri": "clk://reference" }));
    }
    let call = json!({ "name": "run", "arguments": { "source": ENDLESS }, "_meta": { "progressToken": 1 } });
    send(99, "tools/call", call);
    #[cfg(target_os = "linux")]
    {
        let start = Instant::now();
        while children(child.id()).is_empty() && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The time limit holds.
        while !children(child.id()).is_empty() {
            assert!(start.elapsed() < PATIENCE, "the call has not ended");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let start = Instant::now();
    drop(input);
    while child.try_wait().expect("known").is_none() {
        assert!(start.elapsed() < Duration::from_secs(30), "the server has not ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn memory_limit_is_nearly_exact() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &["--memory", "64M"]);
    let program =
        |mebibytes: u32| json!({ "source": format!("let x = random({})\nprint(x[0] >= 0.0)", mebibytes << 18) });
    client.call("run", program(16)).expect("ok", false, "true");
    let too_much = client.call("run", program(400));
    assert!(["failed", "crashed"].contains(&too_much.status()) && too_much.text.contains("memory"), "{too_much:?}");
    assert_eq!(client.end(), 0);
    let refused = clk_testing::run(folder.path(), &["mcp", "--memory", "1M"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("at least 64M"), "{}", refused.err);
}

#[test]
fn data_is_limited_as_json() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &["--output", "8K"]);
    let controls =
        "for i in 0..1000 { print(\"\\u{1}\\u{1}\") }\nvar k = 0\nfor i in 0..9 { k = i }\nprint(ones(2)[k])\n";
    let result = client.call("run", json!({ "source": controls }));
    let size = result.data.to_string().len();
    assert!((5000..8192 + 300).contains(&size), "{size} bytes: {result:?}");
    assert_eq!(result.data["diagnostics"][0]["severity"], "error", "the output leaves room for the fault");
    assert!(json!(result.text).to_string().len() < 8192 + 200);
    assert_eq!(client.end(), 0);
}

#[test]
fn results_are_as_described() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &[]);
    let checked = client.call("check", json!({ "source": "print(1)" })).expect("ok", false, "no mistakes found");
    assert_eq!(checked.data["output"], "", "nothing was printed");
    assert_eq!((&checked.data["results"][0]["errors"], &checked.data["results"][1]), (&json!(0), &Value::Null));
    let proved = client.call("prove", json!({ "source": "print(1)" })).expect("ok", false, "no kernels");
    assert_eq!(proved.data["output"], "");
    assert!(proved.data["notes"][0].as_str().is_some_and(|note| note.contains("no kernels")), "{proved:?}");
    let shown = client.call("run", json!({ "source": "plot(linspace(0.0, 1.0, 9))" })).expect(
        "ok",
        false,
        "a picture was shown",
    );
    assert_eq!((&shown.data["output"], shown.data["notes"].as_array().map(Vec::len)), (&json!(""), Some(1)));
    // Integers with a fraction of zero, and long times.
    let arguments = json!({ "source": LAUNCHES, "line": 2.0, "thread": [1.0], "hit": 1.0, "time_limit": 1e10 });
    client.call("debug_at", arguments).expect("ok", false, "index 1");
    // Ids that would change.
    for id in ["123456789012345678901", "1e300", &format!("\"{}\"", "x".repeat(2000))] {
        client.raw(format!("{{\"jsonrpc\": \"2.0\", \"id\": {id}, \"method\": \"ping\"}}\n").as_bytes());
        assert_eq!(client.receive()["error"]["code"], -32600, "{id}");
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn special_paths() {
    let folder = folder();
    let root = folder.path().canonicalize().expect("resolved").join("top");
    std::fs::create_dir(&root).expect("made");
    std::fs::write(root.join("ok.clk"), "print(1)").expect("written");
    let mut client = Client::session(folder.path(), &["--root", "top"]);
    // No tool reads the standard input of its process, which the server uses.
    client.call("run", json!({ "path": "-" })).expect("failed", false, "cannot be read");
    std::fs::write(root.join("-"), "print(41 + 1)").expect("written");
    client.call("run", json!({ "path": "-" })).expect("ok", false, "42");
    client.call("run", json!({ "path": root.display().to_string() })).expect("failed", false, "it is a folder");
    let outside = "it is outside of the root folder";
    for elsewhere in ["../top/ok.clk", "../missing/../top/ok.clk"] {
        client.call("run", json!({ "path": elsewhere })).expect("refused", true, outside);
        let path = root.join(elsewhere).display().to_string();
        client
            .call("run", json!({ "source": format!("print(read_text(\"{path}\"))") }))
            .expect("failed", false, outside);
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("top", folder.path().join("alias")).expect("a link");
        let mut aliased = Client::session(folder.path(), &["--root", "alias"]);
        let path = std::path::absolute(folder.path().join("alias/ok.clk")).expect("absolute").display().to_string();
        aliased.call("run", json!({ "path": path })).expect("ok", false, "1");
        assert_eq!(aliased.end(), 0);
        std::os::unix::fs::symlink("missing.clk", root.join("dangling.clk")).expect("a link");
        let dangling = client.call("run", json!({ "path": "dangling.clk" })).expect("failed", false, "no such file");
        assert!(!dangling.text.contains(outside), "{dangling:?}");
    }
    let long = format!("// {}", "x".repeat(17 << 20));
    std::fs::write(root.join("long.clk"), long).expect("written");
    client.call("check", json!({ "path": "long.clk" })).expect("failed", false, "larger than 16 MiB");
    assert_eq!(client.end(), 0);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"\xff");
        std::fs::create_dir(folder.path().join(name)).expect("made");
        let ran = clk_testing::clk(folder.path()).args(["mcp", "--root"]).arg(name).output().expect("clk runs");
        assert_eq!(ran.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&ran.stderr).contains("not valid UTF-8"), "{ran:?}");
    }
}
