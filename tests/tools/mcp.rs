//! Tests the MCP server as agents use it: a client of the real binary over pipes, and another client that sends
//! garbage.

use std::collections::BTreeSet;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use clk_testing::planted::{ExpectedFault, planted_programs};
use clk_testing::random::Random;
use clk_testing::setting;
use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use crate::mcp_client::children;
use crate::mcp_client::{Client, ENDLESS, PATIENCE, folder, initialization};

const PROGRAM: &str = "\
kernel saxpy(a: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {
    let scaled = a * x[i]
    r[i] = scaled + y[i]
}
let r = saxpy(2.0, linspace(0.0, 1.0, 5), ones(5))
print(r)
test \"first\" { assert(r[0] == 1.0) }
";

const FAULTY: &str = "\
kernel shift(x: [f32; N], out y: [f32; N]) threads(i: N) {
    y[i] = x[i + 1]
}
print(shift(ones(4)))
";

const CUDA: &str = "\
__global__ void shift(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 1 < n) x[i] = x[i + 1];
}
";

#[test]
fn every_tool_answers() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &[]);
    client.call("check", json!({ "source": PROGRAM })).expect("ok", false, "[clk check: ok]");
    let wrong = client.call("check", json!({ "source": "let x: i32 = 1.5\n" })).expect("failed", false, "E0301");
    assert_eq!(wrong.data["diagnostics"][0]["code"], "E0301");
    assert_eq!(wrong.data["diagnostics"][0]["labels"][0]["line"], 1);
    assert_eq!(wrong.data["exit_code"], 1);

    let ran = client.call("run", json!({ "source": PROGRAM })).expect("ok", false, "[1.  1.5 2.  2.5 3. ]");
    assert_eq!(ran.data["output"], "[1.  1.5 2.  2.5 3. ]\n");
    let ran = client
        .call("run", json!({ "source": "print(args[1], random(1) == random(1))", "args": ["a", "b"], "seed": 7 }));
    ran.expect("ok", false, "b [false]");
    let fault = client.call("run", json!({ "source": FAULTY })).expect("failed", false, "index 4 is out of bounds");
    assert_eq!(fault.data["diagnostics"][0]["labels"][0]["line"], 2);
    // A script chooses its exit code; none of them means that the arguments are invalid or that the process crashed.
    for code in [2, 3, 70] {
        let ended = client.call("run", json!({ "source": format!("exit({code})") }));
        assert_eq!(ended.expect("failed", false, "exit code").data["exit_code"], code);
    }
    client.call("run", json!({ "source": "on sim { print(sum(ones(3))) }" })).expect("ok", false, "3");
    client.call("run", json!({ "source": "on gpu { print(1) }" })).expect("failed", false, "E0595");

    let proved = client.call("prove", json!({ "source": PROGRAM })).expect("ok", false, "proved for all sizes");
    assert!(proved.data["results"].as_array().is_some_and(|all| all.iter().all(|line| line["verdict"] == "proved")));
    let refuted =
        client.call("prove", json!({ "source": FAULTY, "kernel": "shift" })).expect("failed", false, "refuted");
    assert_eq!(refuted.data["results"][0]["verdict"], "refuted");
    assert_eq!(refuted.data["diagnostics"][0]["labels"][0]["line"], 2);
    client.call("prove", json!({ "source": FAULTY, "kernel": "x" })).expect("failed", true, "no kernel `x`");
    client.call("prove", json!({ "source": "let" })).expect("failed", true, "error");
    let cuda = client.call("prove", json!({ "source": CUDA, "language": "cuda" })).expect("failed", false, "refuted");
    assert_eq!(cuda.data["diagnostics"][0]["labels"][0]["line"], 3);
    let guarded =
        "#ifdef GUARD\n__global__ void k(float* x) { if (blockIdx.x == 0 && threadIdx.x == 0) x[0] = 1.0f; }\n#endif\n";
    client
        .call("prove", json!({ "source": guarded, "language": "cuda", "defines": ["GUARD"] }))
        .expect("ok", false, "k");
    let correct = CUDA.replace("x[i + 1];", "1.0f;");
    client.call("check", json!({ "source": correct, "language": "cuda" })).expect("ok", false, "ok");

    let profile = client.call("profile", json!({ "source": PROGRAM, "gpu": "a100" })).expect("ok", false, "A100");
    assert_eq!(profile.data["results"][0]["kernel"], "saxpy");
    client.call("profile", json!({ "source": PROGRAM, "gpu": "none" })).expect("refused", true, "no GPU `none`");
    client.call("profile", json!({ "source": "print(1)" })).expect("failed", true, "launched no kernel");

    let arguments =
        json!({ "source": PROGRAM, "line": 3, "thread": [2], "expressions": ["scaled * 2.0", "x", "none"] });
    let stop = client.call("debug_at", arguments).expect("ok", false, "index 2 at <source>.clk:3");
    let state = &stop.data["results"][0];
    assert_eq!((&state["line"], &state["kernel"], &state["thread"]), (&json!(3), &json!("saxpy"), &json!("index 2")));
    let scaled = state["variables"].as_array().and_then(|all| all.iter().find(|v| v["name"] == "scaled"));
    assert_eq!(scaled.expect("the variable")["value"], "1.0");
    assert_eq!(state["expressions"][0], json!({ "expression": "scaled * 2.0", "value": "2.0" }));
    assert_eq!(state["expressions"][1]["value"], "[0.0 0.25 0.5 0.75 1.0]");
    assert!(state["expressions"][2]["error"].is_string(), "{state}");
    let second =
        client.call("debug_at", json!({ "source": PROGRAM, "line": 3, "hit": 2 })).expect("ok", false, "index 1");
    assert_eq!(second.data["results"][0]["fault"], Value::Null);
    let condition = json!({ "source": PROGRAM, "line": 3, "condition": "i == 4", "test": "first" });
    client.call("debug_at", condition).expect("ok", false, "index 4");
    let fault = client.call("debug_at", json!({ "source": FAULTY, "line": 2, "hit": 99 })).expect("ok", false, "E0601");
    assert_eq!(fault.data["results"][0]["fault"]["code"], "E0601");
    for (arguments, why) in [
        (json!({ "source": PROGRAM, "line": 3, "hit": 6 }), "no thread stopped at this line more than 5 times"),
        (json!({ "source": PROGRAM, "line": 3, "condition": "nothing > 0" }), "the condition has no value"),
        (json!({ "source": PROGRAM, "line": 99 }), "no statement of a kernel or function is on line 99"),
        (json!({ "source": PROGRAM, "line": 3, "test": "second" }), "no test has a title"),
        (json!({ "source": PROGRAM, "line": 3, "file": "lib.clk" }), "no file `lib.clk`"),
    ] {
        client.call("debug_at", arguments).expect("failed", true, why);
    }

    let why = client.call("why", json!({ "source": PROGRAM, "element": "r[3]" })).expect("ok", false, "r[3] = 2.5");
    assert_eq!(why.data["results"][0]["element"], "r[3]");
    client.call("why", json!({ "source": PROGRAM, "element": "r[9]" })).expect("failed", true, "not an element");
    let nan = "let x = ones(3)\nlet y = x / (x - x)\n";
    client.call("why", json!({ "source": nan, "element": "y", "nan": true })).expect("ok", false, "inf");

    let page = client.call("explain", json!({ "code": "E0301" })).expect("ok", false, "mismatched types");
    assert_eq!(page.data["results"][0]["code"], "E0301");
    let codes = client.call("explain", json!({})).expect("ok", false, "E0301");
    assert!(codes.data["results"].as_array().is_some_and(|all| all.len() > 100));
    client.call("explain", json!({ "code": "E9999" })).expect("failed", true, "no code `E9999`");

    client.call("doc", json!({ "name": "sqrt" })).expect("ok", false, "square root");
    client.call("doc", json!({ "name": "std.linalg" })).expect("ok", false, "matmul");
    client.call("doc", json!({ "name": "__syncthreads" })).expect("ok", false, "barrier");
    client.call("doc", json!({ "name": "qqqqqqqq" })).expect("failed", true, "nothing is documented");

    let imported = client.call("import_cuda", json!({ "source": CUDA })).expect("ok", false, "kernel shift(");
    assert!(imported.data["output"].as_str().is_some_and(|text| text.ends_with("}\n")));
    assert_eq!(imported.data["results"][0]["accepted"], true);
    assert!(imported.data["notes"].as_array().is_some_and(|notes| !notes.is_empty()));
    let partly = format!("{CUDA}__global__ void other(float* x) {{ asm(\"\"); x[0] = 1.0f; }}\n");
    let partly = client.call("import_cuda", json!({ "source": partly })).expect("failed", false, "1 of 2 kernels");
    assert_eq!(partly.data["diagnostics"].as_array().map(Vec::len), Some(1));
    assert_eq!(client.end(), 0);
}

#[test]
fn data_is_that_of_json_output() {
    let folder = folder();
    std::fs::write(folder.path().join("a.clk"), FAULTY).expect("written");
    let lines =
        |text: &str| -> Vec<Value> { text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect() };
    let mut client = Client::session(folder.path(), &["--root", "."]);
    for (tool, words) in [
        ("check", &["--json", "check", "a.clk"][..]),
        ("prove", &["--json", "prove", "a.clk"]),
        ("run", &["--json", "--check", "run", "a.clk"]),
    ] {
        let expected = clk_testing::run(folder.path(), words);
        let actual = client.call(tool, json!({ "path": "a.clk" })).data;
        assert_eq!(actual["diagnostics"], Value::Array(lines(&expected.err)), "{tool}");
        assert_eq!(actual["exit_code"], expected.code, "{tool}");
        match tool {
            "run" => assert_eq!(actual["output"], expected.out),
            _ => assert_eq!(actual["results"], Value::Array(lines(&expected.out)), "{tool}"),
        }
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn lists_and_resources() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &[]);
    let tools = client.request("tools/list", json!({}));
    let names: Vec<&str> =
        tools["tools"].as_array().expect("a list").iter().filter_map(|t| t["name"].as_str()).collect();
    assert_eq!(names, ["check", "run", "prove", "profile", "debug_at", "why", "explain", "doc", "import_cuda"]);
    for tool in tools["tools"].as_array().expect("a list") {
        assert_eq!((&tool["inputSchema"]["type"], &tool["outputSchema"]["type"]), (&json!("object"), &json!("object")));
    }
    assert_eq!(client.error("tools/list", json!({ "cursor": "x" })), -32602);
    let resources = client.request("resources/list", json!({ "cursor": null }));
    let uris: Vec<&str> =
        resources["resources"].as_array().expect("a list").iter().filter_map(|r| r["uri"].as_str()).collect();
    assert!(uris.contains(&"clk://manual/tour") && uris.contains(&"clk://reference"), "{uris:?}");
    assert_eq!(uris.iter().collect::<BTreeSet<_>>().len(), uris.len(), "URIs are unique");
    for uri in uris {
        let read = client.request("resources/read", json!({ "uri": uri }));
        assert!(read["contents"][0]["text"].as_str().is_some_and(|text| text.starts_with("# ")), "{uri}");
    }
    assert_eq!(client.error("resources/read", json!({ "uri": "clk://manual/none" })), -32002);
    assert_eq!(client.error("resources/read", json!({ "uri": 5 })), -32602);
    assert_eq!(client.request("resources/templates/list", json!({})), json!({ "resourceTemplates": [] }));
    assert_eq!(client.end(), 0);
}

#[test]
fn revisions_are_negotiated() {
    let folder = folder();
    for (wanted, expected) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let mut client = Client::start(folder.path(), &[]);
        assert_eq!(client.request("ping", json!({})), json!({}), "before the session");
        for method in ["tools/list", "tools/call", "resources/read"] {
            assert_eq!(client.error(method, json!({})), -32600, "{method} before `initialize`");
        }
        // Clients of revision 2026-07-28 try this first, and then `initialize`.
        assert_eq!(client.error("server/discover", json!({})), -32601);
        assert_eq!(client.error("initialize", json!({ "protocolVersion": 3 })), -32602);
        let answer = client.request("initialize", initialization(wanted));
        assert_eq!(answer["protocolVersion"], expected);
        assert!(answer["capabilities"]["tools"].is_object() && answer["capabilities"]["resources"].is_object());
        assert_eq!(client.error("initialize", initialization(wanted)), -32600, "a second time");
        assert_eq!(client.end(), 0);
    }
}

#[test]
fn invalid_messages_are_answered() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &[]);
    let invalid: [(&[u8], i64); 22] = [
        (b"{", -32700),
        (b"nonsense", -32700),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"p\xff\"}", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"{\"id\": 1} {\"id\": 2}", -32700),
        (b"5", -32600),
        (b"null", -32600),
        (b"\"text\"", -32600),
        (b"[]", -32600),
        (b"[{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}]", -32600),
        (b"{}", -32600),
        (b"{\"jsonrpc\": \"1.0\", \"id\": 1, \"method\": \"ping\"}", -32600),
        (b"{\"id\": 1, \"method\": \"ping\"}", -32600),
        (b"{\"jsonrpc\": \"2.0\", \"id\": null, \"method\": \"ping\"}", -32600),
        (b"{\"jsonrpc\": \"2.0\", \"id\": true, \"method\": \"ping\"}", -32600),
        (b"{\"jsonrpc\": \"2.0\", \"id\": [1], \"method\": \"ping\"}", -32600),
        (b"{\"jsonrpc\": \"2.0\", \"id\": {}, \"method\": \"ping\"}", -32600),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": 5}", -32600),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/list\", \"params\": [1]}", -32602),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/call\", \"params\": {}}", -32602),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/call\", \"params\": {\"name\": \"rm\"}}", -32602),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"prompts/list\"}", -32601),
    ];
    for (line, code) in invalid {
        client.raw(&[line, b"\n"].concat());
        let answer = client.receive();
        assert_eq!(answer["error"]["code"], code, "{}: {answer}", String::from_utf8_lossy(line));
    }
    // Neither notifications nor responses are answered, also if they are invalid; nor are empty lines.
    for line in [
        "{\"jsonrpc\": \"2.0\", \"method\": \"ping\"}",
        "{\"jsonrpc\": \"2.0\", \"method\": \"tools/call\", \"params\": {\"name\": \"check\"}}",
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/none\", \"params\": [1]}",
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/cancelled\"}",
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/cancelled\", \"params\": {\"requestId\": {}}}",
        "{\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": {}}",
        "{\"jsonrpc\": \"2.0\", \"id\": 1, \"error\": {}}",
        "",
        "  \t",
    ] {
        client.raw(format!("{line}\r\n").as_bytes());
    }
    for id in [json!("text"), json!(""), json!(-3), json!(1.5), json!(u64::MAX), json!("é\n")] {
        client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
        assert_eq!(client.receive(), json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }
    // A line that is too long is skipped.
    let huge = vec![b'x'; (16 << 20) + 100];
    client.raw(&huge);
    client.raw(b"\n");
    assert_eq!(client.receive()["error"]["code"], -32700);
    let deep = format!(
        "{{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\", \"params\": {}1{}}}\n",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    client.raw(deep.as_bytes());
    assert_eq!(client.receive()["error"]["code"], -32700);
    // Invalid arguments are failures of the tool, so that the model can correct them.
    for (arguments, why) in [
        (json!({}), "give either `source`"),
        (json!({ "source": "", "path": "a.clk" }), "give either `source`"),
        (json!({ "source": 5 }), "must be a string"),
        (json!({ "sauce": "" }), "there is no argument `sauce`"),
        (json!([1]), "not an object"),
        (json!({ "source": "", "time_limit": -1 }), "a positive number"),
    ] {
        client.call("check", arguments).expect("refused", true, why);
    }
    client.call("debug_at", json!({ "source": PROGRAM })).expect("refused", true, "`line` is missing");
    client.call("check", json!({ "source": "" })).expect("ok", false, "ok");
    assert_eq!(client.end(), 0);
}

#[test]
fn batches_of_the_revision_that_has_them() {
    let folder = folder();
    let mut client = Client::with_revision(folder.path(), &[], "2025-03-26");
    client.send(&json!([
        { "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": { "name": "explain", "arguments": { "code": "E0301" } } },
        { "jsonrpc": "2.0", "method": "notifications/none" },
        { "jsonrpc": "2.0", "id": "b", "method": "ping" },
        { "jsonrpc": "2.0", "id": "c", "method": "none" },
        7,
    ]));
    let answer = client.receive();
    let answers = answer.as_array().expect("one answer to the batch");
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{id} in {answer}"));
    assert_eq!(answers.len(), 4, "{answer}");
    assert!(answers.iter().all(|answer| answer["jsonrpc"] == "2.0"));
    assert_eq!(of(json!("a"))["result"]["isError"], false);
    assert_eq!(of(json!("b"))["result"], json!({}));
    assert_eq!(of(json!("c"))["error"]["code"], -32601);
    assert_eq!(of(Value::Null)["error"]["code"], -32600);
    // A batch of notifications has no answer.
    client.send(&json!([{ "jsonrpc": "2.0", "method": "notifications/none" }]));
    client.raw(b"[]\n");
    assert_eq!(client.receive()["error"]["code"], -32600);
    assert_eq!(client.end(), 0);
}

/// A folder with a root and files outside of it.
fn root_with_secrets() -> tempfile::TempDir {
    let folder = folder();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    write("secret.clk", "let secret = 41\nkernel hidden(x: [f32; N]) threads(i: N) { }\n");
    write("secret.txt", "SECRET");
    write("secret.cu", "__global__ void hidden(float* x) { x[0] = 1.0f; }\n");
    write("clk.toml", "name = \"outer\"\n");
    write("outer.clk", "let outer = 1\n");
    write("package/clk.toml", "name = \"package\"\n");
    write("package/package.clk", "let secret = 41\n");
    write("root/inside.txt", "INSIDE");
    write("root/sub/lib.clk", "import \"../base.clk\" as base\nconst twice: i32 = 2 * base.one\n");
    write("root/base.clk", "const one: i32 = 1\n");
    write("root/ok.clk", "import \"sub/lib.clk\" as lib\nprint(lib.twice, read_text(\"inside.txt\"))\n");
    write("root/project/clk.toml", "name = \"project\"\n[dependencies]\npackage = { path = \"../../package\" }\n");
    write("root/project/main.clk", "import package\n");
    write("root/outer/main.clk", "import outer\n");
    #[cfg(unix)]
    for (target, link) in [("../secret.txt", "link.txt"), ("../secret.clk", "link.clk"), ("..", "up"), ("sub", "down")]
    {
        std::os::unix::fs::symlink(target, folder.path().join("root").join(link)).expect("a link");
    }
    folder
}

#[test]
fn files_outside_of_the_root_are_refused() {
    let folder = root_with_secrets();
    let base = folder.path().canonicalize().expect("resolved");
    let absolute = |name: &str| base.join(name).display().to_string();
    let mut client = Client::session(folder.path(), &["--root", "root"]);
    client.call("run", json!({ "path": "ok.clk" })).expect("ok", false, "2 INSIDE");
    client.call("run", json!({ "path": "sub/../ok.clk" })).expect("ok", false, "2 INSIDE");
    client.call("run", json!({ "path": absolute("root/ok.clk") })).expect("ok", false, "2 INSIDE");
    client.call("doc", json!({ "name": "base.clk" })).expect("ok", false, "base.clk");
    let outside = "it is outside of the root folder";
    let mut paths = vec![
        "../secret.clk".into(),
        "sub/../../secret.clk".into(),
        absolute("secret.clk"),
        "/etc/passwd".into(),
        "..".into(),
    ];
    if cfg!(unix) {
        paths.extend(["link.clk".into(), "up/secret.clk".into()]);
    }
    for path in &paths {
        for tool in ["check", "run", "prove", "profile"] {
            client.call(tool, json!({ "path": path })).expect("refused", true, outside);
        }
        client.call("why", json!({ "path": path, "element": "secret" })).expect("refused", true, outside);
        client.call("debug_at", json!({ "path": path, "line": 1 })).expect("refused", true, outside);
        let read = client.call("run", json!({ "source": format!("print(load(\"{path}\"))") }));
        read.expect("failed", false, outside);
        let import = client.call("run", json!({ "source": format!("import \"{path}\" as other\nprint(1)\n") }));
        assert!(!import.text.contains("41") && import.status() == "failed", "{import:?}");
    }
    // A refusal does not tell whether the file exists.
    let texts: Vec<String> = ["../secret.txt", "../no-such.txt", "../root2/x"]
        .iter()
        .map(|path| {
            client.call("run", json!({ "source": format!("print(read_text(\"{path}\"))") })).text.replace(path, "PATH")
        })
        .collect();
    assert!(texts[0].contains(outside) && !texts[0].contains("SECRET"), "{}", texts[0]);
    assert_eq!(texts[0].lines().next(), texts[1].lines().next());
    assert_eq!(texts[0].lines().next(), texts[2].lines().next());
    client.call("import_cuda", json!({ "path": "../secret.cu" })).expect("refused", true, outside);
    client.call("doc", json!({ "name": "../secret.clk" })).expect("failed", true, outside);
    let header = client.call("check", json!({ "source": "#include \"../secret.txt\"\n__global__ void k(float* x) { x[0] = 1.0f; }\n", "language": "cuda" }));
    assert!(!header.text.contains("SECRET"), "{header:?}");
    // Packages: a dependency and a project above the root.
    client.call("check", json!({ "path": "project/main.clk" })).expect("failed", false, outside);
    client.call("check", json!({ "path": "outer/main.clk" })).expect("failed", false, "E0");
    for write in ["write_text(\"new.txt\", \"x\")", "save(\"new.npy\", ones(3))", "image(\"new.png\", ones(3, 3))"] {
        client.call("run", json!({ "source": write })).expect("failed", false, "no files may be written");
    }
    assert!(!folder.path().join("root/new.txt").exists());
    assert_eq!(client.end(), 0);

    let mut client = Client::session(folder.path(), &["--root", "root", "--write"]);
    client.call("run", json!({ "source": "write_text(\"new.txt\", \"x\")" })).expect("ok", false, "ok");
    assert_eq!(std::fs::read_to_string(folder.path().join("root/new.txt")).expect("written"), "x");
    let mut targets = vec!["../new.txt".to_owned(), absolute("new.txt"), "../secret.txt".into()];
    if cfg!(unix) {
        targets.extend(["link.txt".into(), "up/new.txt".into()]);
    }
    for target in targets {
        let write = client.call("run", json!({ "source": format!("write_text(\"{target}\", \"x\")") }));
        write.expect("failed", false, outside);
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("secret.txt")).expect("there"), "SECRET");
    assert!(!folder.path().join("new.txt").exists());
    assert_eq!(client.end(), 0);

    let mut client = Client::session(folder.path(), &[]);
    client.call("run", json!({ "path": "root/ok.clk" })).expect("refused", true, "`--root` names no folder");
    let read = client.call("run", json!({ "source": "print(read_text(\"secret.txt\"))" }));
    read.expect("failed", false, "`--root` names no folder");
    client.call("run", json!({ "source": "import \"secret.clk\" as s" })).expect(
        "failed",
        false,
        "`--root` names no folder",
    );
    assert_eq!(client.end(), 0);
    let refused = clk_testing::run(folder.path(), &["mcp", "--root", "nowhere"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
}

#[test]
fn limits_end_a_call_and_not_the_server() {
    let folder = folder();
    let words = ["--time", "1.5", "--memory", "256M", "--launches", "50", "--output", "2K", "--parallel", "2"];
    let mut client = Client::session(folder.path(), &words);
    let endless = client.call("run", json!({ "source": "print(\"begun\")\nvar i = 0\nwhile true { i += 1 }" }));
    // The output so far and the place are part of the result.
    let endless = endless.expect("time_limit", true, "the time limit was reached");
    assert_eq!(endless.data["output"], "begun\n");
    assert_eq!(endless.data["diagnostics"][0]["labels"][0]["line"], 3);
    client.call("run", json!({ "source": "print(1 + 1)" })).expect("ok", false, "2");
    let kernel =
        "kernel k(inout x: [f32; N]) threads(i: N) { while x[i] < 2.0 { x[i] = x[i] * 1.0 } }\nvar x = ones(4)\nk(x)\n";
    client.call("run", json!({ "source": kernel })).expect("time_limit", true, "");
    client.call("why", json!({ "source": kernel, "element": "x[0]", "time_limit": 0.3 })).expect(
        "time_limit",
        true,
        "",
    );
    client.call("debug_at", json!({ "source": kernel, "line": 1, "hit": 1_000_000_000, "time_limit": 0.3 })).expect(
        "time_limit",
        true,
        "",
    );
    let launches = |n: u32| {
        let kernel = "kernel k(inout x: [f32; N]) threads(i: N) { x[i] = x[i] + 1.0 }";
        json!({ "source": format!("{kernel}\nvar x = ones(4)\nfor j in 0..{n} {{ k(x) }}\nprint(x)\n") })
    };
    client.call("run", launches(50)).expect("ok", false, "51");
    client.call("run", launches(51)).expect("launch_limit", true, "50 launches");
    let output = client.call("run", json!({ "source": "for i in 0..1000 { print(\"0123456789\") }" })).expect(
        "ok",
        false,
        "are left out",
    );
    assert!(output.text.len() < 2300 && output.data["output"].as_str().is_some_and(|text| text.len() <= 2048));
    // Three quarters of the data, in which the end of a line takes two bytes.
    assert_eq!(output.data["left_out"]["output_bytes"], 11 * (1000 - 1536 / 12));
    if cfg!(target_os = "linux") {
        let memory = client.call("run", json!({ "source": "let x = zeros(1500000000)\nprint(sum(x + 1.0))" }));
        assert!(["failed", "crashed"].contains(&memory.status()) && memory.text.contains("memory"), "{memory:?}");
    }
    client
        .call("run", json!({ "source": "fn f(n: i32) -> i32 { f(n + 1) + 1 }\nprint(f(0))" }))
        .expect("failed", false, "E0517");
    let brackets = format!("let x = {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    client.call("check", json!({ "source": brackets })).expect("failed", false, "E0111");
    client.call("run", json!({ "source": "print(7)" })).expect("ok", false, "7");
    assert_eq!(client.end(), 0);
}

#[test]
fn calls_are_canceled() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &["--parallel", "1"]);
    let token = json!({ "progressToken": "p" });
    let endless = json!({ "name": "run", "arguments": { "source": ENDLESS }, "_meta": token });
    let running = client.begin("tools/call", endless.clone());
    client.wait_for(|message| message["params"]["progressToken"] == "p");
    // The id of a call that is in progress is refused, and the call goes on.
    client.send(&json!({ "jsonrpc": "2.0", "id": running, "method": "tools/call", "params": endless }));
    assert_eq!(client.wait_for(|message| message["id"] == running)["error"]["code"], -32600);
    let waiting = client.begin("tools/call", json!({ "name": "check", "arguments": { "source": "" } }));
    let last = client.begin("tools/call", json!({ "name": "run", "arguments": { "source": "print(7)" } }));
    let cancel = |id: Value| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id, "reason": "test" } });
    client.send(&cancel(json!("none")));
    client.send(&cancel(json!(waiting)));
    assert_eq!(client.request("ping", json!({})), json!({}), "the server answers during a call");
    let start = Instant::now();
    client.send(&cancel(json!(running)));
    let answer = client.wait_for(|message| message["id"] == last);
    assert_eq!(answer["result"]["structuredContent"]["output"], "7\n");
    assert!(start.elapsed() < Duration::from_secs(20), "the endless call has not been ended");
    let is_answer = |message: &Value| message["id"] == running || message["id"] == waiting;
    assert!(!client.others.iter().any(is_answer), "canceled calls are not answered: {:?}", client.others);
    assert_eq!(client.messages.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
    // The id is free again.
    client.send(&json!({ "jsonrpc": "2.0", "id": running, "method": "ping" }));
    assert_eq!(client.receive()["result"], json!({}));
    assert_eq!(client.end(), 0);
}

#[test]
fn progress_is_reported() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &[]);
    for token in [json!("text"), json!(5)] {
        let arguments = json!({ "source": ENDLESS, "time_limit": 1.2 });
        let id = client
            .begin("tools/call", json!({ "name": "run", "arguments": arguments, "_meta": { "progressToken": token } }));
        client.wait_for(|message| message["id"] == id);
        let values: Vec<f64> = client
            .others
            .drain(..)
            .map(|message| {
                assert_eq!(
                    (&message["method"], &message["params"]["progressToken"]),
                    (&json!("notifications/progress"), &token)
                );
                assert!(message["params"]["message"].as_str().is_some_and(|text| text.starts_with("run: ")));
                message["params"]["progress"].as_f64().expect("a number")
            })
            .collect();
        assert!(values.len() >= 2 && values.is_sorted_by(|a, b| a < b), "{values:?}");
    }
    // Without a token, and with an invalid one, there are no notifications.
    for meta in [json!({}), json!({ "progressToken": [1] }), json!(7)] {
        let arguments = json!({ "source": "print(1)" });
        client.request("tools/call", json!({ "name": "run", "arguments": arguments, "_meta": meta }));
        assert!(client.others.is_empty(), "{:?}", client.others);
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn end_of_the_input_ends_the_server() {
    let folder = folder();
    assert_eq!(Client::start(folder.path(), &[]).end(), 0);
    assert_eq!(Client::session(folder.path(), &[]).end(), 0);
    // Requests before the end are answered.
    let request = |id: u32, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let input = [
        request(1, "initialize", initialization("2025-06-18")),
        request(2, "tools/call", json!({ "name": "run", "arguments": { "source": "print(6 * 7)" } })),
    ];
    let input: String = input.iter().map(|message| format!("{message}\n")).collect();
    let ran = clk_testing::run_with_input(folder.path(), &["mcp"], &input);
    assert_eq!(ran.code, 0);
    assert!(ran.out.lines().count() == 2 && ran.out.contains("42"), "{}", ran.out);
}

#[cfg(target_os = "linux")]
#[test]
fn calls_end_with_the_server() {
    let folder = folder();
    for is_killed in [true, false] {
        let mut client = Client::session(folder.path(), &[]);
        let params = json!({ "name": "run", "arguments": { "source": ENDLESS }, "_meta": { "progressToken": 1 } });
        client.begin("tools/call", params);
        client.wait_for(|message| message["method"] == "notifications/progress");
        let start = Instant::now();
        let child = loop {
            match children(client.child.id())[..] {
                [child, ..] => break child,
                [] if start.elapsed() > PATIENCE => {
                    println!("skipped: this system does not list child processes");
                    return;
                }
                [] => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if is_killed {
            client.child.kill().expect("running");
        } else {
            // The client has ended: both streams are closed, and the next write of the server fails.
            assert_eq!(client.end(), 0);
        }
        let is_running = || {
            let status = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            status.rsplit_once(')').is_some_and(|(_, state)| !state.trim_start().starts_with('Z'))
        };
        while is_running() {
            assert!(start.elapsed() < PATIENCE, "process {child} has not ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Changes a message at random: bytes, or parts of its JSON.
fn mutated(message: &Value, random: &mut Random) -> Vec<u8> {
    let mut message = message.clone();
    if random.chance(60) {
        let values = [
            json!(null),
            json!([]),
            json!({}),
            json!(-1),
            json!(1e300),
            json!("x"),
            json!("../x"),
            json!(true),
            json!([[1]]),
        ];
        let mut place = &mut message;
        loop {
            let is_last = random.chance(30);
            let length = match place {
                Value::Object(fields) if !fields.is_empty() => fields.len(),
                Value::Array(items) if !items.is_empty() => items.len(),
                _ => break,
            };
            let index = random.next_below(length);
            if is_last && random.chance(40) {
                match place {
                    Value::Object(fields) => {
                        let name = fields.keys().nth(index).expect("a name").clone();
                        fields.remove(&name);
                    }
                    Value::Array(items) => drop(items.remove(index)),
                    _ => {}
                }
                break;
            }
            place = match place {
                Value::Object(fields) => fields.values_mut().nth(index).expect("a value"),
                Value::Array(items) => &mut items[index],
                _ => break,
            };
            if is_last {
                *place = random.pick(&values);
                break;
            }
        }
    }
    let mut bytes = message.to_string().into_bytes();
    if random.chance(40) {
        for _ in 0..=random.next_below(4) {
            let at = random.next_below(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match random.next_below(3) {
                0 => bytes[at] = random.next_below(256) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, b"{}[]\",:0\\"[random.next_below(9)]),
            }
        }
    }
    bytes.retain(|byte| *byte != b'\n');
    bytes
}

#[test]
fn random_messages_never_end_the_server() {
    let folder = folder();
    let seconds: u64 = setting("CLK_FUZZ_SECONDS", 5);
    let mut random = Random::from_seed(setting("CLK_FUZZ_SEED", 1));
    let call = |name: &str, arguments: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": arguments, "_meta": { "progressToken": 1 } } });
    let simple =
        |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": "x", "method": method, "params": params });
    let messages = [
        simple("initialize", initialization("2025-03-26")),
        simple("tools/list", json!({ "cursor": null })),
        simple("resources/read", json!({ "uri": "clk://manual/tour" })),
        simple("resources/list", json!({})),
        simple("ping", json!({})),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
        json!([simple("ping", json!({})), simple("tools/list", json!({}))]),
        call("explain", json!({ "code": "E0301" })),
        call("check", json!({ "source": PROGRAM, "language": "clk", "time_limit": 1.0 })),
        call("debug_at", json!({ "source": PROGRAM, "line": 3, "thread": [1], "expressions": ["i"], "hit": 1 })),
    ];
    let start = Instant::now();
    let (mut sent, mut answered) = (0u64, 0u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        // Each session ends with a request that only a working server answers.
        let revision = random.pick(&["2025-03-26", "2025-06-18"]);
        let mut client = Client::with_revision(folder.path(), &["--time", "2"], revision);
        for _ in 0..300 {
            let message = random.pick(&messages);
            // Calls start processes, so most of them are left out.
            if message["method"] == "tools/call" && !random.chance(15) {
                continue;
            }
            let bytes = mutated(&message, &mut random);
            client.raw(&[&bytes[..], b"\n"].concat());
            sent += 1;
        }
        client.send(&json!({ "jsonrpc": "2.0", "id": "last", "method": "ping" }));
        client.wait_for(|message| message["id"] == "last");
        let ran = client.call("run", json!({ "source": "print(6 * 7)" }));
        ran.expect("ok", false, "42");
        answered += client.others.len() as u64;
        assert_eq!(client.end(), 0);
    }
    println!("{sent} random messages, {answered} answers and notifications");
    assert!(sent > 0 && answered > 0);
}

#[test]
fn planted_faults_are_reported_at_their_lines() {
    let folder = folder();
    let mut client = Client::session(folder.path(), &["--time", "60"]);
    let (mut reported, mut missed, mut alarms) = (0, vec![], vec![]);
    let programs = planted_programs();
    for program in &programs {
        let is_cuda = program.name.ends_with(".cu");
        let mut call = |tool: &str, text: &str| {
            let mut arguments = json!({ "source": text });
            if tool != "run" {
                arguments["language"] = if is_cuda { json!("cuda") } else { Value::Null };
            }
            client.call(tool, arguments)
        };
        for tool in program.commands() {
            let result = call(tool, &program.text);
            let is_refuted = |result: &Value| result["verdict"] == "refuted";
            let refuted = result.data["results"].as_array().is_some_and(|all| all.iter().any(is_refuted));
            if result.status() != "ok" || refuted || result.data["diagnostics"] != json!([]) {
                alarms.push(format!("{} {tool}: {}", program.name, result.text));
            }
        }
        let mut is_found = true;
        let expected = program.expected.iter().flat_map(|fault| fault.commands.iter().map(move |tool| (tool, fault)));
        for (tool, ExpectedFault { line, code, .. }) in expected {
            let result = call(tool, &program.variant);
            let matches = |diagnostic: &Value| {
                let labels = diagnostic["labels"].as_array();
                let at_line =
                    labels.is_some_and(|all| all.iter().any(|l| l["primary"] == true && l["line"] == json!(line)));
                diagnostic["code"] == *code.as_str() && at_line
            };
            if !result.data["diagnostics"].as_array().is_some_and(|all| all.iter().any(matches)) {
                is_found = false;
                missed.push(format!("{}: {tool} {code} on line {line}: {}", program.name, result.text));
            }
        }
        reported += usize::from(is_found);
    }
    println!("{reported} of {} planted faults are reported at their lines; {} alarms", programs.len(), alarms.len());
    assert!(missed.is_empty() && alarms.is_empty(), "missed: {missed:#?}\nfalse alarms: {alarms:#?}");
    assert!(!programs.is_empty() && reported == programs.len());
    assert_eq!(client.end(), 0);
}
