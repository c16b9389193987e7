//! Tests the language server as editors use it: one scripted client of the real binary, and another client that sends
//! garbage.

use std::time::{Duration, Instant};

use crate::lsp_client::{Client, about, address, edited, place};
use clk_testing::random::Random;
use clk_testing::setting;
use serde_json::{Value, json};

const TEXT: &str = "\
/// Twice as much.
kernel double(x: [f32; N], out y: [f32; N]) threads(i: N) {
    let value = x[i]
    y[i] = 2.0 * value
}

let y = double(ones(4))
print(y)
test \"doubled\" { assert(double([1.0]) == [2.0]) }
";

#[test]
fn every_request_of_an_editor() {
    let folder = tempfile::tempdir().expect("a folder");
    let uri = address(folder.path(), "a.clk");
    let mut client = Client::session(folder.path());
    client.open(&uri, TEXT);
    assert_eq!(client.diagnostics(&uri)["diagnostics"], json!([]));

    let hover = client.at("textDocument/hover", &uri, 3, 18);
    assert!(hover["contents"]["value"].as_str().is_some_and(|t| t.contains("let value: f32")), "{hover}");
    assert_eq!(hover["range"]["start"], json!({ "line": 3, "character": 17 }));

    let definition = client.at("textDocument/definition", &uri, 6, 9);
    assert_eq!(definition["uri"], uri);
    assert_eq!(definition["range"]["start"], json!({ "line": 1, "character": 7 }));

    let references = client.request("textDocument/references", {
        let mut params = place(&uri, 1, 8);
        params["context"] = json!({ "includeDeclaration": false });
        params
    });
    assert_eq!(references.as_array().map(Vec::len), Some(2), "{references}");
    let highlights = client.at("textDocument/documentHighlight", &uri, 2, 9);
    assert_eq!(highlights.as_array().map(Vec::len), Some(2));

    let prepared = client.at("textDocument/prepareRename", &uri, 2, 9);
    assert_eq!(prepared["end"], json!({ "line": 2, "character": 13 }));
    let mut params = place(&uri, 2, 9);
    params["newName"] = json!("v");
    let renamed = client.request("textDocument/rename", params.clone());
    assert_eq!(renamed["changes"][&uri].as_array().map(Vec::len), Some(2), "{renamed}");
    params["newName"] = json!("fn");
    let refused = client.ask("textDocument/rename", params);
    assert!(refused["error"]["message"].as_str().is_some_and(|m| m.contains("keyword")), "{refused}");

    let completion = client.at("textDocument/completion", &uri, 3, 8);
    let labels: Vec<&str> =
        completion["items"].as_array().into_iter().flatten().filter_map(|i| i["label"].as_str()).collect();
    assert!(labels.contains(&"x") && labels.contains(&"value") && !labels.contains(&"load"), "{labels:?}");
    let signature = client.at("textDocument/signatureHelp", &uri, 6, 15);
    assert!(
        signature["signatures"][0]["label"].as_str().is_some_and(|l| l.starts_with("kernel double(")),
        "{signature}"
    );

    let symbols = client.request("textDocument/documentSymbol", about(&uri));
    let names: Vec<&str> = symbols.as_array().into_iter().flatten().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["double", "y", "test \"doubled\""]);
    let symbols = client.request("workspace/symbol", json!({ "query": "DOUB" }));
    assert_eq!(symbols.as_array().map(Vec::len), Some(2), "{symbols}");
    let folds = client.request("textDocument/foldingRange", about(&uri));
    assert_eq!(folds[0], json!({ "startLine": 1, "endLine": 3 }), "{folds}");

    let tokens = client.request("textDocument/semanticTokens/full", about(&uri));
    let data = tokens["data"].as_array().expect("numbers");
    assert!(data.len().is_multiple_of(5) && data.len() > 100);
    let lenses = client.request("textDocument/codeLens", about(&uri));
    let commands: Vec<&str> =
        lenses.as_array().into_iter().flatten().filter_map(|l| l["command"]["command"].as_str()).collect();
    assert_eq!(commands, ["clk.run", "clk.prove", "clk.profile", "clk.emit", "clk.test"]);
    let proved = client.request("workspace/executeCommand", lenses[1]["command"].clone());
    assert!(proved.as_str().is_some_and(|text| text.starts_with("double\n  in bounds       proved")), "{proved}");
    let mut params = about(&uri);
    params["range"] = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 9, "character": 0 } });
    let hints = client.request("textDocument/inlayHint", params.clone());
    let shown: Vec<&str> = hints.as_array().into_iter().flatten().filter_map(|h| h["label"].as_str()).collect();
    assert_eq!(shown, [": f32", ": [f32; 4]"]);
    assert_eq!(
        client.request("textDocument/semanticTokens/range", params)["data"].as_array().map(Vec::len),
        Some(data.len())
    );
    assert_eq!(client.request("textDocument/formatting", about(&uri)), json!([]));
    assert_eq!(client.end(), 0);
}

#[test]
fn diagnostics_follow_edits() {
    let folder = tempfile::tempdir().expect("a folder");
    let uri = address(folder.path(), "a.clk");
    let mut client = Client::session(folder.path());
    client.open(&uri, "let x = 1\nlet y = x\n");
    assert_eq!(client.diagnostics(&uri)["diagnostics"].as_array().map(Vec::len), Some(0));
    let change = |version: i64, line: u32, from: u32, to: u32, text: &str| {
        let range = json!({ "start": { "line": line, "character": from }, "end": { "line": line, "character": to } });
        json!({ "textDocument": { "uri": uri, "version": version }, "contentChanges": [{ "range": range, "text": text }] })
    };
    client.notify("textDocument/didChange", change(2, 1, 8, 9, "True"));
    let published = client.diagnostics(&uri);
    assert_eq!(published["version"], 2);
    let first = &published["diagnostics"][0];
    assert_eq!((first["code"].as_str(), first["severity"].as_i64()), (Some("E0128"), Some(1)), "{published}");
    let mut params = about(&uri);
    params["range"] = first["range"].clone();
    params["context"] = json!({ "diagnostics": [first] });
    let actions = client.request("textDocument/codeAction", params);
    let edit = &actions[0]["edit"]["changes"][&uri][0];
    assert_eq!(
        (actions[0]["isPreferred"].as_bool(), edit["newText"].as_str()),
        (Some(true), Some("true")),
        "{actions}"
    );
    let all = actions.as_array().into_iter().flatten().find(|a| a["kind"] == "source.fixAll").expect("a fix for all");
    assert_eq!(all["edit"]["changes"][&uri].as_array().map(Vec::len), Some(1));
    client.notify("textDocument/didChange", change(3, 1, 8, 12, "  x+1"));
    assert_eq!(client.diagnostics(&uri)["diagnostics"], json!([]));
    let edits = client.request("textDocument/formatting", about(&uri));
    assert_eq!(edits.as_array().map(Vec::len), Some(3), "{edits}");
    let mut params = about(&uri);
    params["range"] = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 0, "character": 5 } });
    assert_eq!(client.request("textDocument/rangeFormatting", params), json!([]));
    client.notify("textDocument/didClose", about(&uri));
    assert_eq!(client.diagnostics(&uri)["diagnostics"], json!([]));
    assert_eq!(client.end(), 0);
}

#[test]
fn several_files_and_the_library() {
    let folder = tempfile::tempdir().expect("a folder");
    let (main, shapes) = (address(folder.path(), "main.clk"), address(folder.path(), "shapes.clk"));
    std::fs::write(folder.path().join("shapes.clk"), "fn area(r: f32) -> f32 { 3.0 * r * r }\n").expect("written");
    let mut client = Client::session(folder.path());
    client.open(&main, "import \"./shapes.clk\" as shapes\nimport std.nn.{relu}\nlet a = relu(shapes.area(1.0))\n");
    assert_eq!(client.diagnostics(&main)["diagnostics"], json!([]));
    assert_eq!(client.at("textDocument/definition", &main, 2, 22)["uri"], shapes);
    let library = client.at("textDocument/definition", &main, 2, 9);
    let path = library["uri"].as_str().and_then(|u| u.strip_prefix("file://")).expect("a file").to_owned();
    let text = std::fs::read_to_string(path).expect("the library as a file");
    let line =
        text.lines().nth(library["range"]["start"]["line"].as_u64().expect("a line") as usize).expect("that line");
    assert!(line.starts_with("fn relu"), "{line}");

    // An unsaved change is visible to the files that import it.
    client.open(&shapes, "fn area(r: f32) -> f32 { 3.0 * r * r }\n");
    client.diagnostics(&shapes);
    assert_eq!(client.diagnostics(&main)["diagnostics"], json!([]), "checked again, since its import is open now");
    let renamed = client.request("textDocument/rename", {
        let mut params = place(&shapes, 0, 4);
        params["newName"] = json!("surface");
        params
    });
    assert_eq!(renamed["changes"].as_object().map(|c| c.len()), Some(2), "{renamed}");
    let whole = json!({ "textDocument": { "uri": shapes, "version": 2 }, "contentChanges": [{ "text": "fn other() -> f32 { 1.0 }\n" }] });
    client.notify("textDocument/didChange", whole);
    let published = client.diagnostics(&main);
    assert!(!published["diagnostics"].as_array().is_none_or(Vec::is_empty), "{published}");
    assert_eq!(client.end(), 0);
}

#[test]
fn renames_change_closed_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = [
        ("shapes.clk", "fn area(r: f32) -> f32 { 3.0 * r * r }\nfn twice(r: f32) -> f32 { 2.0 * area(r) }\n"),
        (
            "main.clk",
            "import \"./shapes.clk\" as shapes\nlet area = shapes.area(1.0)\nprint(area + shapes.twice(area))\n",
        ),
        ("names.clk", "import \"./shapes.clk\".{area, twice}\nprint(area(2.0) + twice(1.0))\n"),
        ("other.clk", "// an area of its own\nfn area() -> f32 { 1.0 }\nprint(area())\n"),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let shapes = address(folder.path(), "shapes.clk");
    let mut client = Client::session(folder.path());
    client.open(&shapes, files[0].1);
    client.diagnostics(&shapes);
    let mut params = place(&shapes, 0, 4);
    params["newName"] = json!("surface");
    let renamed = client.request("textDocument/rename", params);
    let expected = [
        ("shapes.clk", "fn surface(r: f32) -> f32 { 3.0 * r * r }\nfn twice(r: f32) -> f32 { 2.0 * surface(r) }\n"),
        (
            "main.clk",
            "import \"./shapes.clk\" as shapes\nlet area = shapes.surface(1.0)\nprint(area + shapes.twice(area))\n",
        ),
        ("names.clk", "import \"./shapes.clk\".{surface, twice}\nprint(surface(2.0) + twice(1.0))\n"),
        ("other.clk", files[3].1),
    ];
    for ((name, before), (_, after)) in files.iter().zip(expected) {
        let changes = &renamed["changes"][address(folder.path(), name)];
        assert_eq!(edited(before, changes), after, "{name}: {renamed}");
    }
    assert_eq!(client.end(), 0);
}

#[cfg(unix)]
#[test]
fn a_rename_needs_all_files_that_can_import_the_name() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let mode = |name: &str, mode| {
        std::fs::set_permissions(root.join(name), std::fs::Permissions::from_mode(mode)).expect("ours");
    };
    let text = "fn area(r: f32) -> f32 { 3.0 * r * r }\n";
    std::fs::create_dir(root.join("closed")).expect("made");
    std::fs::write(root.join("shapes.clk"), text).expect("written");
    std::fs::write(root.join("use.clk"), "import \"./shapes.clk\" as shapes\nprint(shapes.area(1.0))\n")
        .expect("written");
    std::fs::write(root.join("broken.clk"), b"\xff").expect("written");
    mode("", 0o755);
    let shapes = address(root, "shapes.clk");
    // Permissions do not restrict root. If the test runs as root, the server therefore runs as another user.
    let rename = || {
        let mut command = clk_testing::clk(root);
        command.arg("lsp").env("XDG_CACHE_HOME", root.join("cache"));
        if std::fs::read_dir(root.join("closed")).is_ok()
            && std::fs::metadata("/").is_ok_and(|data| {
                use std::os::unix::fs::MetadataExt;
                data.uid() == std::fs::metadata(root).expect("there").uid()
            })
        {
            command.uid(65_534).gid(65_534);
        }
        let mut client = Client::of(command);
        client.request("initialize", json!({ "capabilities": {}, "rootUri": address(root, "") }));
        client.open(&shapes, text);
        let mut params = place(&shapes, 0, 4);
        params["newName"] = json!("surface");
        let answer = client.ask("textDocument/rename", params);
        let references = client.request("textDocument/references", place(&shapes, 0, 4));
        (answer, references.as_array().map_or(0, Vec::len))
    };
    let refused = |(answer, count): &(Value, usize), case: &str| {
        let message = answer["error"]["message"].as_str().unwrap_or("").to_string();
        assert!(message.contains(case) && message.contains("nothing was renamed"), "{answer}");
        assert_eq!(*count, 2, "readable files are searched");
    };
    let renamed = |(answer, found): &(Value, usize)| {
        assert_eq!(answer["result"]["changes"].as_object().map(|changes| changes.len()), Some(2), "{answer}");
        assert_eq!(*found, 2);
    };
    // A file that is not text is not a program, so it imports nothing.
    renamed(&rename());
    // Without projects, a program in an unreadable folder may import the renamed function, so the rename is refused.
    mode("closed", 0o000);
    refused(&rename(), "closed");
    mode("closed", 0o755);
    renamed(&rename());
    // The same holds for an unreadable folder of the same project.
    std::fs::write(root.join("clk.toml"), "name = \"own\"\n").expect("written");
    mode("closed", 0o000);
    refused(&rename(), "closed");
    mode("closed", 0o755);
    // An unreadable folder of another project matters only if that project depends on this one.
    std::fs::create_dir_all(root.join("other/closed")).expect("made");
    std::fs::write(root.join("other/clk.toml"), "name = \"other\"\n").expect("written");
    mode("other", 0o755);
    mode("other/closed", 0o000);
    renamed(&rename());
    std::fs::write(root.join("other/clk.toml"), "name = \"other\"\n[dependencies]\nown = { path = \"..\" }\n")
        .expect("written");
    refused(&rename(), "closed");
    mode("other/closed", 0o755);
}

#[test]
fn all_line_endings_of_the_protocol_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = Client::session(folder.path());
    let uri = address(folder.path(), "a.clk");
    client.open(&uri, "// one\rtwo\r\nlet x = 1\n\rlet y = nosuch\n");
    let diagnostics = client.diagnostics(&uri)["diagnostics"].clone();
    let unknown =
        diagnostics.as_array().and_then(|all| all.iter().find(|d| d["message"].to_string().contains("nosuch")));
    assert_eq!(
        unknown.map(|d| d["range"]["start"].clone()),
        Some(json!({ "line": 4, "character": 8 })),
        "{diagnostics}"
    );
    // An edit after all these kinds of line breaks is applied at the position that the client means.
    let range = json!({ "start": { "line": 4, "character": 8 }, "end": { "line": 4, "character": 14 } });
    let change = json!({ "textDocument": { "uri": uri, "version": 2 }, "contentChanges": [{ "range": range, "text": "x + 1" }] });
    client.notify("textDocument/didChange", change);
    let later_diagnostics = client.diagnostics(&uri)["diagnostics"].clone();
    assert!(!later_diagnostics.to_string().contains("nosuch"), "{later_diagnostics}");
}

#[test]
fn canceled_requests_are_not_executed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = Client::session(folder.path());
    let uri = address(folder.path(), "a.clk");
    let text: String = (0..3000).map(|n| format!("fn f{n}(x: f32) -> f32 {{ x * {n}.0 + sin(x) }}\n")).collect();
    let open = json!({ "method": "textDocument/didOpen", "params": { "textDocument": { "uri": uri, "languageId": "clk", "version": 1, "text": text } } });
    let hover = |id: u64| json!({ "id": id, "method": "textDocument/hover", "params": place(&uri, 0, 3) });
    let cancel = json!({ "method": "$/cancelRequest", "params": { "id": 903 } });
    let change = |n: u64| {
        let at = json!({ "line": 0, "character": 0 });
        json!({ "method": "textDocument/didChange", "params": { "textDocument": { "uri": uri, "version": n },
            "contentChanges": [{ "range": { "start": at, "end": at }, "text": " " }] } })
    };
    let mut all = vec![open, hover(901), hover(902), hover(903), cancel];
    // All document changes that arrive between the requests must be applied.
    all.extend((2..3000).map(change));
    all.push(hover(904));
    let bytes: String = all
        .iter()
        .map(|message| message.to_string())
        .map(|text| format!("Content-Length: {}\r\n\r\n{text}", text.len()))
        .collect();
    client.raw(bytes.as_bytes());
    let mut answers = Vec::new();
    while answers.len() < 4 {
        let message = client.receive();
        if message.get("id").is_some() {
            answers.push(message);
        }
    }
    // The answers may arrive in another order, since the server handles cancellations while it computes.
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let codes: Vec<Value> = answers.iter().map(|answer| answer["error"]["code"].clone()).collect();
    assert_eq!(codes, [Value::Null, Value::Null, json!(-32800), Value::Null], "{codes:?}");
    assert!(answers[1]["result"].is_object() && answers[3]["result"].is_null(), "2998 blanks precede the name now");
    assert_eq!(client.at("textDocument/hover", &uri, 0, 2998 + 3)["range"]["start"]["character"], 2998 + 3);
}

/// While one document is analyzed, requests about others are answered, and its own requests can be canceled.
#[test]
fn the_server_replies_during_computations() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = Client::session(folder.path());
    let (slow, fast) = (address(folder.path(), "slow.clk"), address(folder.path(), "fast.clk"));
    let mut text = String::new();
    for n in 0..20_000 {
        text += &format!(
            "fn g{n}(x: f32) -> f32 {{ let y = x * {n}.0; if y > 1.0 {{ y }} else {{ exp(y) + sqrt(y) }} }}\n"
        );
    }
    client.open(&slow, &text);
    client.open(&fast, "let number = 1\nprint(number)\n");
    client.send(&json!({ "id": 901, "method": "textDocument/hover", "params": place(&slow, 0, 4) }));
    client.send(&json!({ "id": 902, "method": "textDocument/hover", "params": place(&fast, 1, 7) }));
    client.send(&json!({ "method": "$/cancelRequest", "params": { "id": 901 } }));
    client.send(&json!({ "id": 903, "method": "shutdown" }));
    let (mut answered, mut is_done) = (vec![], false);
    while answered.len() < 3 {
        let message = client.receive();
        let of_slow = message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == *slow;
        is_done |= of_slow;
        if message.get("id").is_some() {
            answered.push((message["id"].clone(), message["error"]["code"].clone()));
        }
    }
    answered.sort_by_key(|(id, _)| id.as_u64());
    assert_eq!(answered, [(json!(901), json!(-32800)), (json!(902), Value::Null), (json!(903), Value::Null)]);
    assert!(!is_done, "the slow document is still examined");
    client.notify("exit", Value::Null);
    assert_eq!(client.child.wait().expect("clk ends").code(), Some(0));
}

#[test]
fn columns_count_utf_16_by_default() {
    let folder = tempfile::tempdir().expect("a folder");
    let uri = address(folder.path(), "a.clk");
    let mut client = Client::start(folder.path());
    let answer = client.request("initialize", json!({ "capabilities": {} }));
    assert_eq!(answer["capabilities"]["positionEncoding"], "utf-16");
    client.open(&uri, "let s = \"\u{1F600}\"; let t = s\n");
    client.diagnostics(&uri);
    // The smiley is two UTF-16 units: `t` is at 18, `s` at 22.
    let hover = client.at("textDocument/hover", &uri, 0, 18);
    assert_eq!(hover["range"]["start"]["character"], 18, "{hover}");
    let definition = client.at("textDocument/definition", &uri, 0, 22);
    assert_eq!(definition["range"]["start"]["character"], 4);
    assert_eq!(client.end(), 0);
}

#[test]
fn session_order_is_preserved() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = Client::start(folder.path());
    assert_eq!(client.ask("textDocument/hover", place("file:///a.clk", 0, 0))["error"]["code"], -32002);
    client.request("initialize", json!({}));
    assert_eq!(client.ask("initialize", json!({}))["error"]["code"], -32600);
    assert_eq!(client.ask("no/such", json!({}))["error"]["code"], -32601);
    assert_eq!(client.request("textDocument/hover", place("file:///not-open.clk", 0, 0)), Value::Null);
    assert_eq!(client.ask("textDocument/hover", json!(7))["error"]["code"], -32602);
    client.request("shutdown", Value::Null);
    assert_eq!(client.ask("textDocument/hover", json!({}))["error"]["code"], -32600);
    client.notify("exit", Value::Null);
    assert_eq!(client.child.wait().expect("clk ends").code(), Some(0));
    let mut client = Client::start(folder.path());
    client.input = None;
    assert_eq!(client.child.wait().expect("clk ends").code(), Some(1), "the stream ended without a shutdown");
}

fn rounds(default: usize) -> usize {
    setting("CLK_LSP_ROUNDS", default)
}

const METHODS: &[&str] = &[
    "hover",
    "completion",
    "signatureHelp",
    "definition",
    "references",
    "documentHighlight",
    "prepareRename",
    "rename",
    "documentSymbol",
    "foldingRange",
    "semanticTokens/full",
    "inlayHint",
    "codeLens",
    "codeAction",
    "formatting",
    "rangeFormatting",
];

/// Random edits with requests in between: each request gets its response, and the server's text stays equal to the
/// client's.
#[test]
fn random_edits_are_survived() {
    let folder = tempfile::tempdir().expect("a folder");
    let uri = address(folder.path(), "a.clk");
    let mut client = Client::session(folder.path());
    let mut random = Random(11);
    let mut lines: Vec<String> = TEXT.lines().map(str::to_string).collect();
    client.open(&uri, &lines.join("\n"));
    let pieces = [
        "{",
        "}",
        "(",
        ")",
        "x",
        " ",
        "\n",
        "\"",
        "kernel ",
        "é",
        "\u{1F600}",
        ".",
        ",",
        "0.5",
        "/*",
        "*/",
        "[",
        "import std.",
        "",
        "",
    ];
    for version in 0..rounds(150) {
        if version % 25 == 24 {
            // Restores the valid text now and then, since random edits soon destroy most of it.
            lines = TEXT.split('\n').map(str::to_string).collect();
            let whole = json!([{ "text": TEXT }]);
            client.notify("textDocument/didChange", json!({ "textDocument": { "uri": uri }, "contentChanges": whole }));
        }
        let mut text = lines.join("\n");
        let boundaries: Vec<usize> = (0..=text.len()).filter(|&i| text.is_char_boundary(i)).collect();
        let start = random.next_below(boundaries.len());
        let end = (start + random.next_below(6)).min(boundaries.len() - 1);
        let (start, end) = (boundaries[start], boundaries[end]);
        let new = pieces[random.next_below(pieces.len())];
        let position = |at: usize| {
            let before = &text[..at];
            let line = before.matches('\n').count();
            json!({ "line": line, "character": at - before.rfind('\n').map_or(0, |n| n + 1) })
        };
        let range = json!({ "start": position(start), "end": position(end) });
        let change = json!({ "range": range, "text": new });
        client.notify(
            "textDocument/didChange",
            json!({ "textDocument": { "uri": uri, "version": version }, "contentChanges": [change] }),
        );
        text.replace_range(start..end, new);
        lines = text.split('\n').map(str::to_string).collect();
        let mut params = place(&uri, random.next_below(lines.len() + 1) as u32, random.next_below(60) as u32);
        params["newName"] = json!("other");
        params["range"] = json!({ "start": { "line": 0, "character": 0 }, "end": params["position"] });
        let answer = client.ask(&format!("textDocument/{}", METHODS[random.next_below(METHODS.len())]), params);
        assert_ne!(answer["error"]["code"], -32603, "{answer}\n{text}");
    }
    client.notify(
        "textDocument/didChange",
        json!({ "textDocument": { "uri": uri, "version": 9999 }, "contentChanges": [{ "text": TEXT }] }),
    );
    assert_eq!(client.request("textDocument/documentSymbol", about(&uri)).as_array().map(Vec::len), Some(3));
    assert_eq!(client.end(), 0);
}

/// Sends invalid frames and malformed messages; the server must still answer the next valid request.
#[test]
fn garbage() {
    let folder = tempfile::tempdir().expect("a folder");
    let uri = address(folder.path(), "a.clk");
    let mut client = Client::session(folder.path());
    client.open(&uri, TEXT);
    let mut random = Random(5);
    let values = [
        json!(null),
        json!(-1),
        json!(1e300),
        json!("x"),
        json!([]),
        json!({}),
        json!([[1]]),
        json!({ "line": -5, "character": 4_000_000_000u64 }),
        json!({ "line": "a" }),
        json!({ "uri": uri }),
        json!({ "uri": 3 }),
        json!([{ "range": {}, "text": 3 }, { "range": null, "text": "let" }, 7]),
    ];
    let keys = ["textDocument", "position", "range", "contentChanges", "newName", "context", "query"];
    for _ in 0..rounds(150) {
        match random.next_below(6) {
            0 => client.raw(b"Content-Length: 5\r\n\r\n{,,,}"),
            1 => client.raw(b"\r\n\r\n"),
            2 => client.raw(b"X-Nothing: 1\r\n\r\n"),
            3 => {
                let value = values[random.next_below(values.len())].clone();
                client.send(&value);
            }
            _ => {
                let mut params = json!({});
                for key in keys {
                    if random.next_below(2) == 0 {
                        params[key] = values[random.next_below(values.len())].clone();
                    }
                }
                let method = match random.next_below(4) {
                    0 => "textDocument/didChange".to_string(),
                    1 => "textDocument/didOpen".to_string(),
                    _ => format!("textDocument/{}", METHODS[random.next_below(METHODS.len())]),
                };
                let mut message = json!({ "method": method, "params": params });
                if random.next_below(2) == 0 {
                    message["id"] = json!("unasked");
                }
                client.send(&message);
            }
        }
        let answer = client.ask("workspace/symbol", json!({ "query": "double" }));
        assert!(answer["result"].is_array(), "{answer}");
        let internal = client.notes.iter().find(|m| m["error"]["code"] == -32603);
        assert!(internal.is_none(), "{internal:?}");
        client.notes.clear();
    }
    assert_eq!(client.end(), 0);
}

/// Measures the time from a keystroke in 10,000 lines to the diagnostics, and compares it with a generous limit.
#[test]
fn large_texts() {
    let folder = tempfile::tempdir().expect("a folder");
    let uri = address(folder.path(), "a.clk");
    let mut client = Client::session(folder.path());
    let one = "kernel k@(x: [f32; N], out y: [f32; N]) threads(i: N) {\n    var acc = x[i]\n    for j in 0..4 { acc += f32(j) * x[i] }\n    if acc > 1.0 { acc = sqrt(acc) }\n    y[i] = acc\n}\n\nlet v@ = k@(ones(8))\n";
    let text: String = (0..1250).map(|i| one.replace('@', &i.to_string())).collect();
    assert_eq!(text.lines().count(), 10_000);
    client.open(&uri, &text);
    client.diagnostics(&uri);
    let mut times = Vec::new();
    for version in 2..12 {
        let position = json!({ "line": 5000, "character": 0 });
        let change = json!({ "range": { "start": position, "end": position }, "text": " " });
        let started = Instant::now();
        client.notify(
            "textDocument/didChange",
            json!({ "textDocument": { "uri": uri, "version": version }, "contentChanges": [change] }),
        );
        assert_eq!(client.diagnostics(&uri)["version"], version);
        times.push(started.elapsed());
    }
    times.sort();
    println!("diagnostics of 10,000 lines after a keystroke: {:?} (median), {:?} (best)", times[5], times[0]);
    assert!(times[0] < Duration::from_secs(5), "{times:?}");
    assert_eq!(client.end(), 0);
}
