//! Tests the language server on CUDA files.

use std::time::{Duration, Instant};

use crate::lsp_client::{Client, about, address, edited, place};
use serde_json::{Value, json};

/// The kernel lacks a barrier between lines 5 and 6.
const BLUR: &str = "\
__device__ float half_of(float v) { return 0.5f * v; }
__global__ void blur(const float *x, float *y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    float left = threadIdx.x > 0 ? s[threadIdx.x - 1] : 0.0f;
    if (i < n) y[i] = half_of(s[threadIdx.x] + left);
}
template <typename T> __global__ void fill(T *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 1;
}
template __global__ void fill<float>(float *, int);
template __global__ void fill<int>(int *, int);
__global__ void refused(float *x) { asm(\"trap;\"); x[0] = 1; }
void host(float *x, float *y, int n) { blur<<<(n + 255) / 256, 256>>>(x, y, n); }
";

/// Waits until the search for faults finds one of this code, and returns the diagnostics published then. The search has
/// a time limit, so it is repeated on a slow machine.
#[track_caller]
fn fault(client: &mut Client, uri: &str, text: &str, code: &str) -> Value {
    for version in 2..100 {
        // The answer arrives after all publications for the previous version, or is one of them.
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            client.request("textDocument/codeLens", about(uri));
            while client.notes.iter().any(|note| note["params"]["uri"] == uri) {
                let published = client.diagnostics(uri);
                if codes(&published).iter().any(|(found, ..)| found == code) {
                    return published;
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let document = json!({ "uri": uri, "version": version });
        let change = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
        client.notify("textDocument/didChange", change);
    }
    panic!("no {code} in {uri}");
}

/// Returns the codes of published diagnostics, with their first lines and columns.
fn codes(published: &Value) -> Vec<(String, u64, u64)> {
    let all = published["diagnostics"].as_array().into_iter().flatten();
    let one = |found: &Value| {
        let start = &found["range"]["start"];
        let number = |key: &str| start[key].as_u64().expect("a number");
        (found["code"].as_str().expect("a code").to_owned(), number("line"), number("character"))
    };
    all.map(one).collect()
}

#[test]
fn cuda_files_have_diagnostics_lenses_and_hovers() {
    let folder = tempfile::tempdir().expect("a folder");
    let uri = address(folder.path(), "blur.cu");
    let mut client = Client::session(folder.path());
    client.open_as(&uri, "cuda-cpp", BLUR);
    // The translation's errors are published before the proofs, which find the race.
    assert_eq!(codes(&client.diagnostics(&uri)), [("E0850".into(), 14, 36)]);
    let published = fault(&mut client, &uri, BLUR, "E0610");
    assert_eq!(codes(&published), [("E0850".into(), 14, 36), ("E0610".into(), 5, 35)], "{published}");
    let race = &published["diagnostics"][1];
    assert_eq!(race["relatedInformation"][0]["location"]["uri"], uri);
    assert_eq!(race["relatedInformation"][0]["location"]["range"]["start"]["line"], 4, "{race}");

    let lenses = client.request("textDocument/codeLens", about(&uri));
    let titles: Vec<&str> =
        lenses.as_array().into_iter().flatten().filter_map(|l| l["command"]["title"].as_str()).collect();
    assert_eq!(
        titles,
        ["prove", "profile", "prove fill_f32", "profile fill_f32", "prove fill_i32", "profile fill_i32"]
    );
    assert_eq!(lenses[0]["command"]["arguments"], json!([uri, "blur"]));
    let proved = client.request("workspace/executeCommand", lenses[2]["command"].clone());
    let proved = proved.as_str().expect("a text");
    assert!(proved.contains("`x` has at least `n` elements (line 11)"), "{proved}");
    assert!(proved.contains("fill_f32\n  assuming n >= 0, X_LEN >= n\n  in bounds       proved for all sizes"));
    let refuted = client.request("workspace/executeCommand", lenses[0]["command"].clone());
    assert!(refuted.as_str().is_some_and(|text| text.contains("blur.cu:6:")), "{refuted}");

    let hover = client.at("textDocument/hover", &uri, 1, 18);
    let text = hover["contents"]["value"].as_str().expect("a text");
    assert!(text.starts_with("```clk\nkernel blur(") && text.contains("assume block_x == 256"), "{text}");
    assert!(text.contains("- `n` is not negative (line 5)"), "{text}");
    assert_eq!(hover["range"]["start"], json!({ "line": 1, "character": 16 }));
    let hover = client.at("textDocument/hover", &uri, 8, 40);
    let text = hover["contents"]["value"].as_str().expect("a text");
    assert!(text.contains("kernel fill_f32(") && text.contains("kernel fill_i32("), "{text}");

    let symbols = client.request("textDocument/documentSymbol", about(&uri));
    let named = |symbol: &Value| (symbol["name"].clone(), symbol["detail"].clone());
    let names: Vec<(Value, Value)> = symbols.as_array().into_iter().flatten().map(named).collect();
    let expected = [
        ("half_of", "__device__"),
        ("blur", "__global__"),
        ("fill", "__global__"),
        ("refused", "__global__"),
        ("host", ""),
    ];
    assert_eq!(names, expected.map(|(name, detail)| (json!(name), json!(detail))));
    assert_eq!(symbols[1]["range"]["end"], json!({ "line": 7, "character": 1 }));
    assert_eq!(client.end(), 0);
}

/// Every other request is answered with nothing, at every place of the file.
#[test]
fn other_requests_about_cuda_files_are_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let uri = address(folder.path(), "blur.cu");
    let mut client = Client::session(folder.path());
    client.open_as(&uri, "cpp", BLUR);
    for (line, column) in [(1, 18), (4, 30), (6, 24), (15, 40)] {
        for method in ["completion", "signatureHelp", "definition", "documentHighlight", "prepareRename"] {
            let method = format!("textDocument/{method}");
            assert_eq!(client.at(&method, &uri, line, column), Value::Null, "{method} in line {line}");
        }
        let mut params = place(&uri, line, column);
        params["newName"] = json!("other");
        params["context"] = json!({ "includeDeclaration": true });
        for method in ["textDocument/rename", "textDocument/references"] {
            assert_eq!(client.request(method, params.clone()), Value::Null, "{method} in line {line}");
        }
        if line != 1 {
            assert_eq!(client.at("textDocument/hover", &uri, line, column), Value::Null, "line {line}");
        }
    }
    for method in ["foldingRange", "semanticTokens/full", "inlayHint", "formatting", "rangeFormatting"] {
        assert_eq!(client.request(&format!("textDocument/{method}"), about(&uri)), Value::Null, "{method}");
    }
    // The only fixes of the checker are edits of the translation.
    assert_eq!(client.request("textDocument/codeAction", about(&uri)), json!([]));
    let found = client.request("workspace/symbol", json!({ "query": "blur" }));
    assert_eq!(found, json!([]));
    assert_eq!(client.end(), 0);
}

#[test]
fn an_action_states_the_length_of_a_cuda_array() {
    let text = "\
__global__ void other(float *x) { if (blockIdx.x == 0 && threadIdx.x == 0) x[0] = 1; }
  __global__ void smooth(const float *__restrict__ x, float *__restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n) y[i] = x[i - 1] + x[i + 1];
}
";
    let folder = tempfile::tempdir().expect("a folder");
    let uri = address(folder.path(), "smooth.cu");
    let mut client = Client::session(folder.path());
    client.open_as(&uri, "cuda", text);
    assert_eq!(codes(&client.diagnostics(&uri)), []);
    let published = fault(&mut client, &uri, text, "W0853");
    assert_eq!(codes(&published), [("W0853".into(), 3, 42)]);
    let actions = client.request("textDocument/codeAction", about(&uri));
    assert_eq!(actions.as_array().map(Vec::len), Some(1), "{actions}");
    assert_eq!(actions[0]["title"], "state that `x` has at least n + 1 elements");
    let fixed = edited(text, &actions[0]["edit"]["changes"][&uri]);
    assert_eq!(fixed.lines().nth(1), Some("  // clk: x[n + 1]"));
    client.notify(
        "textDocument/didChange",
        json!({ "textDocument": { "uri": uri, "version": 200 }, "contentChanges": [{ "text": fixed }] }),
    );
    assert_eq!(codes(&client.diagnostics(&uri)), []);
    let prove = json!({ "command": "clk.prove", "arguments": [uri, "smooth"] });
    let proved = client.request("workspace/executeCommand", prove);
    assert!(proved.as_str().is_some_and(|text| text.contains("in bounds       proved for all sizes")), "{proved}");
    assert_eq!(client.end(), 0);
}

/// Messages about a header are at the `#include`; an unsaved header is read as the editor shows it.
#[test]
fn headers_of_cuda_files_follow_the_editor() {
    let folder = tempfile::tempdir().expect("a folder");
    let (main, header) = (address(folder.path(), "main.cu"), address(folder.path(), "own.cuh"));
    std::fs::write(folder.path().join("own.cuh"), "#define VALUE 1\n").expect("written");
    let mut client = Client::session(folder.path());
    client.open_as(
        &main,
        "cuda-cpp",
        "#include <cstdio>\n#include \"own.cuh\"\n__global__ void k(float *x) { x[0] = VALUE; }\n",
    );
    assert_eq!(codes(&client.diagnostics(&main)), []);
    let text = "#define VALUE 1\n__global__ void k2(float *x) { asm(\"trap;\"); x[0] = 1; }\n";
    client.open_as(&header, "cuda-cpp", text);
    assert_eq!(codes(&client.diagnostics(&header)), [("E0850".into(), 1, 31)]);
    let published = client.diagnostics(&main);
    assert_eq!(codes(&published), [("E0850".into(), 1, 0)], "{published}");
    assert_eq!(published["diagnostics"][0]["relatedInformation"][0]["location"]["uri"], header);
    // A program that imports an open CUDA file sees its unsaved text, and its definitions are places in that file.
    let script = address(folder.path(), "main.clk");
    client.open(&script, "import \"./own.cuh\"\nvar x = zeros(1)\nown.k2(x, grid_x = 1, block_x = 1)\n");
    let published = client.diagnostics(&script);
    assert_eq!(codes(&published).first().map(|(code, ..)| code.as_str()), Some("W0850"), "{published}");
    let text = "__global__ void k2(float *x) { if (blockIdx.x + threadIdx.x == 0) x[0] = 1; }\n";
    client.notify(
        "textDocument/didChange",
        json!({ "textDocument": { "uri": header, "version": 2 }, "contentChanges": [{ "text": text }] }),
    );
    assert_eq!(codes(&client.diagnostics(&script)), []);
    let definition = client.at("textDocument/definition", &script, 2, 5);
    assert_eq!(definition["uri"], header);
    assert_eq!(definition["range"]["start"], json!({ "line": 0, "character": 16 }), "{definition}");
    assert_eq!(client.at("textDocument/definition", &script, 2, 1), Value::Null, "the module is no text of the file");
    let refused = client.ask("textDocument/prepareRename", place(&script, 2, 5));
    assert!(refused["error"].is_object(), "{refused}");
    assert_eq!(client.end(), 0);
}

/// Proofs of one CUDA file do not delay requests about it for longer than one kernel takes, and a change stops them.
#[test]
fn proofs_of_cuda_files_wait_for_requests() {
    let mut text = String::new();
    for number in 0..40 {
        // The proof of a product of unknowns takes all the time it gets.
        text += &format!(
            "__global__ void k{number}(float *x, int n, int m) {{
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                for (int j = 0; j < m; ++j) if (i * j % (n + {number}) < n * m) x[(i * j + n * j) % (n * m + 1)] = j;
            }}\n"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let uri = address(folder.path(), "slow.cu");
    let mut client = Client::session(folder.path());
    client.open_as(&uri, "cuda-cpp", &text);
    client.diagnostics(&uri);
    let start = Instant::now();
    for version in 2..20 {
        let change = json!({ "contentChanges": [{ "text": format!("{text}// {version}\n") }],
            "textDocument": { "uri": uri, "version": version } });
        client.notify("textDocument/didChange", change);
        let symbols = client.request("textDocument/documentSymbol", about(&uri));
        assert_eq!(symbols.as_array().map(Vec::len), Some(40));
    }
    // With all proofs of each version, this would take 18 times 2 seconds.
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    assert_eq!(client.end(), 0);
}
