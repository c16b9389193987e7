//! Tests `clk launch`, by which other programs launch kernels, with one launch per process.

use std::fs;

use clk_testing::launch::{answer, codes, folder, frame, launch as launch_in, read_frame};
use clk_testing::random::Random;
use clk_testing::{clk, run};
use serde_json::{Value, json};

#[test]
fn launches_by_json() {
    let request = r#"{"scalars": {"alpha": 2.0}, "arrays": {"x": [1, 2, 3], "y": [0.5, 1e-40, -0.0]}}"#;
    let reply = answer(&["saxpy"], request);
    assert_eq!(reply, json!({"arrays": {"r": {"type": "f32", "shape": [3], "data": [2.5, 4.0, 6.0]}}}));
}

#[test]
fn every_type_round_trips_through_json() {
    let cases = [
        ("bool", r#"[true, false]"#),
        ("i8", "[-128, 127]"),
        ("i16", "[-32768, 32767]"),
        ("i32", "[-2147483648, 2147483647]"),
        ("i64", "[-9223372036854775808, 9223372036854775807, 9007199254740993]"),
        ("u8", "[0, 255]"),
        ("u16", "[0, 65535]"),
        ("u32", "[0, 4294967295]"),
        ("u64", "[0, 18446744073709551615]"),
        ("f16", r#"[0.1, -65500.0, 6e-8, "NaN", "Infinity", "-Infinity", -0.0]"#),
        ("bf16", r#"[0.1, 3.39e38, 9e-41, "NaN", "Infinity", "-Infinity", -0.0]"#),
        ("f32", r#"[0.1, 3.4028235e38, 1e-45, "NaN", "Infinity", "-Infinity", -0.0, 16777216.0]"#),
        ("f64", r#"[0.1, 1.7976931348623157e308, 5e-324, "NaN", "Infinity", "-Infinity", -0.0]"#),
        ("u8x4", "[[1, 2, 3, 4], [5, 6, 7, 255]]"),
        ("f32x3", r#"[[0.1, "NaN", 3.0]]"#),
        ("f64x2", "[]"),
    ];
    for (ty, data) in cases {
        let count = serde_json::from_str::<Value>(data).expect("JSON").as_array().expect("a list").len();
        let text = format!(r#"{{"arrays": {{"x": {{"type": "{ty}", "shape": [{count}], "data": {data}}}}}}}"#);
        let ran = launch_in(folder().path(), &["copy"], &text);
        // Compares the answer as text, because a JSON library would round the numbers.
        assert_eq!(
            ran.out,
            format!("{{\"arrays\": {{\"y\": {{\"type\": \"{ty}\", \"shape\": [{count}], \"data\": {data}}}}}}}\n")
        );
    }
}

#[test]
fn non_finite_numbers_in_json() {
    let reply = answer(&["copy"], r#"{"arrays": {"x": [NaN, Infinity, -Infinity, "-Infinity", 1.5]}}"#);
    assert_eq!(reply["arrays"]["y"]["data"], json!(["NaN", "Infinity", "-Infinity", "-Infinity", 1.5]));
}

#[test]
fn shortest_digits_read_back_bit_for_bit() {
    let mut numbers = Random(7);
    let bits: Vec<u32> = (0..3000).map(|_| numbers.word() as u32).filter(|b| f32::from_bits(*b).is_finite()).collect();
    let floats: Vec<String> = bits.iter().map(|b| format!("{:?}", f32::from_bits(*b))).collect();
    let list = launch_in(folder().path(), &["copy"], &format!(r#"{{"arrays": {{"x": [{}]}}}}"#, floats.join(", ")));
    let at = list.out.find("\"data\": [").expect("data") + 9;
    assert_eq!(&list.out[at..list.out.find("]}").expect("an end")], floats.join(", "));
    // Every finite f16, passed as bytes.
    let all: Vec<u8> = (0..=u16::MAX).filter(|b| b >> 10 & 31 != 31).flat_map(u16::to_le_bytes).collect();
    let count = all.len() / 2;
    let request = format!(
        r#"{{"blocks": [{}], "arrays": {{"x": {{"type": "f16", "shape": [{count}], "block": 0}}}}, "as": "list"}}"#,
        all.len()
    );
    let folder = folder();
    let words = ["launch", "a.clk", "copy", "--stream"];
    let lists = stream(folder.path(), &words, &frame(&request, &[&all])).0["arrays"]["y"]["data"].to_string();
    let request = format!(r#"{{"arrays": {{"x": {{"type": "f16", "data": {lists}}}}}, "as": "block"}}"#);
    let (_, bytes) = stream(folder.path(), &words, &frame(&request, &[]));
    assert!(bytes == all, "the texts of all f16 read back as the same bits");
}

/// Runs one launch whose request is sent as a frame (a header with binary blocks).
fn stream(folder: &std::path::Path, words: &[&str], request: &[u8]) -> (Value, Vec<u8>) {
    use std::io::Write;
    let mut command = clk(folder);
    command.args(words).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("clk starts");
    let mut input = child.stdin.take().expect("a pipe");
    let request = request.to_vec();
    let writing = std::thread::spawn(move || input.write_all(&request));
    let frame = read_frame(child.stdout.as_mut().expect("a pipe"));
    writing.join().expect("no panic").expect("written");
    child.wait().expect("it ends");
    frame
}

#[test]
fn vectors_structs_and_tuples() {
    let request = r#"{"scalars": {"d": {"mass": 0, "on": false, "pos": [1, 2, 3]}},
        "arrays": {"b": [[[0, 0, 0.5], 1.5, true]], "o": [{"pos": [0, 0, 0], "mass": 1, "on": true}]}}"#;
    let reply = answer(&["moved"], request);
    assert_eq!(
        reply,
        json!({
            "arrays": {
                "o": {"type": "Body", "shape": [1], "data": [{"pos": [1.0, 2.0, 3.5], "mass": 1.5, "on": false}]},
                "s": {"type": "(f32, i64)", "shape": [1], "data": [[1.5, 9007199254740993i64]]},
            },
            "output": "body 0\n",
        })
    );
}

#[test]
fn flat_lists_with_explicit_shapes() {
    for data in ["[[1, 2], [3, 4]]", "[1, 2, 3, 4]"] {
        let request = format!(r#"{{"scalars": {{"a": 2}}, "arrays": {{"x": {{"shape": [2, 2], "data": {data}}}}}}}"#);
        assert_eq!(answer(&["fold"], &request)["arrays"]["y"]["data"], json!([[2, 2], [3, 4]]));
    }
    let base64 =
        answer(&["copy", "--base64"], r#"{"arrays": {"x": {"type": "u8", "shape": [4], "data64": "AQID/w=="}}}"#);
    assert_eq!(base64["arrays"]["y"], json!({"type": "u8", "shape": [4], "data64": "AQID/w=="}));
}

#[test]
fn compile_time_arguments_dimensions_and_geometry() {
    let request = r#"{"scalars": {"a": 2}, "arrays": {"x": [[1, 2.5]]}, "generics": {"T": "f64", "op": "min"}}"#;
    assert_eq!(
        answer(&["fold"], request)["arrays"]["y"],
        json!({"type": "f64", "shape": [1, 2], "data": [[1.0, 2.0]]})
    );
    let by_words = answer(&["fold", "--generic", "op=min", "--scalar", "a=2"], r#"{"arrays": {"x": [[1, 3]]}}"#);
    assert_eq!(by_words["arrays"]["y"]["data"], json!([[1, 2]]));
    let iota = json!([[0, 1, 2], [3, 4, 5]]);
    assert_eq!(answer(&["iota"], r#"{"dims": {"H": 2, "W": 3}}"#)["arrays"]["x"]["data"], iota);
    assert_eq!(answer(&["iota", "--dim", "H=2", "--dim", "W=3"], "")["arrays"]["x"]["data"], iota);
    assert_eq!(answer(&["whole"], r#"{"arrays": {"x": [1, 2, 3, 4, 5]}}"#)["arrays"]["y"]["data"][4], json!(7.0));
    let own = r#"{"arrays": {"x": [1, 2, 3, 4, 5]}, "grid": 5, "block": [1, 1]}"#;
    assert_eq!(answer(&["whole"], own)["arrays"]["y"]["data"][4], json!(10.0));
    let words = answer(&["whole", "--grid", "3,1,1", "--block", "2"], r#"{"arrays": {"x": [1, 2, 3, 4, 5]}}"#);
    assert_eq!(words["arrays"]["y"]["data"][4], json!(8.0));
}

#[test]
fn errors_have_the_codes_of_scripts_and_places() {
    let cases = [
        ("saxpy", r#"{"scalars": {"alpha": 2}, "arrays": {"x": [1, 2, 3], "y": [1, 2]}}"#, "E0510"),
        ("saxpy", r#"{"scalars": {"alpha": 2}, "arrays": {"x": [[1, 2]], "y": [1, 2]}}"#, "E0804"),
        (
            "saxpy",
            r#"{"scalars": {"alpha": 2}, "arrays": {"x": {"type": "f64", "shape": [1], "data": [1]}, "y": [2]}}"#,
            "E0301",
        ),
        ("saxpy", r#"{"scalars": {"alpha": 2}, "arrays": {"x": [1]}}"#, "E0802"),
        ("saxpy", r#"{"scalars": {"alpha": 2}, "arrays": {"x": [1], "y": [1], "z": [1]}}"#, "E0803"),
        ("saxpy", r#"{"scalars": {"x": 2}}"#, "E0802"),
        ("saxpy", r#"{"scalars": {"alpha": 1e39}, "arrays": {"x": [1], "y": [1]}}"#, "E0804"),
        ("saxpy", r#"{"scalars": {"alpha": 1}, "arrays": {"x": "kept", "y": [1]}}"#, "E0803"),
        ("saxpi", "{}", "E0803"),
        ("iota", "{}", "E0412"),
        ("iota", r#"{"dims": {"H": -1, "W": 2}}"#, "E0520"),
        ("iota", r#"{"dims": {"H": 2147483647, "W": 2147483647}}"#, "E0509"),
        ("iota", r#"{"dims": {"H": 100000, "W": 100000}}"#, "E0806"),
        ("whole", r#"{"arrays": {"x": [1]}, "grid": 1, "block": 2000}"#, "E0521"),
        ("whole", r#"{"arrays": {"x": [1]}, "grid": 1}"#, "E0802"),
        ("unguarded", r#"{"arrays": {"x": [1, 2, 3]}}"#, "E0601"),
        ("fold", r#"{"scalars": {"a": 1}, "arrays": {"x": [[1]]}, "generics": {"op": "sqrt"}}"#, "E0301"),
        ("fold", r#"{"scalars": {"a": 1}, "arrays": {"x": [[1]]}, "generics": {"op": "max); print(1"}}"#, "E0802"),
        ("half", r#"{"scalars": {"by": 0}, "arrays": {"x": [1]}}"#, "E0602"),
    ];
    let folder = folder();
    for (kernel, request, code) in cases {
        let ran = launch_in(folder.path(), &[kernel], request);
        let reply: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.out));
        assert_eq!((ran.code, codes(&reply)), (1, vec![code]), "{kernel} {request}\n{}", ran.err);
        assert!(ran.err.contains(code), "{}", ran.err);
    }
    let ran = launch_in(folder.path(), &["saxpy"], "{\"scalars\": {\"alpha\": 2},\n \"arrays\": {\"x\": [1, x]}}");
    let reply: Value = serde_json::from_str(&ran.out).expect("JSON");
    let label = &reply["errors"][0]["labels"][0];
    assert_eq!((&label["file"], &label["line"], &label["column"]), (&json!("<request>"), &json!(2), &json!(22)));
    let missing = run(folder.path(), &["launch", "b.clk", "saxpy"]);
    assert!(missing.code == 1 && missing.out.contains("E0701"), "{}", missing.out);
}

#[test]
fn malformed_requests() {
    let folder = folder();
    let malformed = [
        "{",
        "[]",
        "1",
        "nul",
        "{\"arrays\": }",
        "{\"arrays\": {\"x\": [1,]}}",
        "\u{0}",
        "{\"x\": \"\\q\"}",
        "{} {}",
        "{\"arrays\": []}",
        "{\"scalars\": 3}",
        "{\"gird\": 1}",
        "{\"grid\": \"1\"}",
        "{\"arrays\": {\"x\": 3}}",
        "{\"arrays\": {\"x\": [1], \"x\": [1]}}",
        "{\"as\": \"block\"}",
        "{\"as\": \"csv\"}",
        "{\"kernel\": 1}",
        "{\"dims\": {\"N\": 1.5}}",
        "{\"generics\": {\"T\": []}}",
        "{\"id\": {}}",
    ];
    for text in malformed {
        let ran = launch_in(folder.path(), &["saxpy"], text);
        let reply: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.out));
        assert!(ran.code == 1 && !codes(&reply).is_empty(), "{text}: {}", ran.out);
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let lies = [
        (r#"{"shape": [1099511627776], "data": [1]}"#, "E0806"),
        (r#"{"shape": [2147483647], "data": [1]}"#, "E0805"),
        (r#"{"shape": [2147483647, 2147483647, 2147483647], "data": [1]}"#, "E0805"),
        (r#"{"shape": [-1], "data": [1]}"#, "E0802"),
        (r#"{"shape": [2], "data": [1, 2, 3]}"#, "E0805"),
        (r#"{"shape": [3], "data": [1, 2]}"#, "E0805"),
        (r#"{"shape": [2000000000], "data64": "AAAA"}"#, "E0805"),
        (r#"{"shape": [2147483647, 2], "data64": "AAAA"}"#, "E0806"),
        (r#"{"shape": [1], "data64": "AAA*AA=="}"#, "E0804"),
        (r#"{"shape": [1], "block": 0}"#, "E0805"),
        (r#"{"shape": [1]}"#, "E0802"),
        (r#"{"shape": [1], "data": [1], "data64": ""}"#, "E0802"),
        ("[[1, 2], [3]]", "E0804"),
    ];
    let folder = folder();
    for (array, code) in lies {
        let request = format!(r#"{{"scalars": {{"alpha": 1}}, "arrays": {{"y": [1], "x": {array}}}}}"#);
        let ran = launch_in(folder.path(), &["saxpy"], &request);
        let reply: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(codes(&reply), [code], "{array}\n{}", ran.err);
    }
    let ragged = launch_in(folder.path(), &["fold"], r#"{"scalars": {"a": 1}, "arrays": {"x": [[1, 2], [3]]}}"#);
    assert!(ragged.out.contains("E0805"), "{}", ragged.out);
    let long = launch_in(
        folder.path(),
        &["copy", "--max-bytes", "1K"],
        &format!("{{\"arrays\": {{\"x\": [{}1]}}}}", "1, ".repeat(1000)),
    );
    assert!(long.out.contains("E0806"), "{}", long.out);
    assert!(long.code == 1 && launch_in(folder.path(), &["copy", "--max-bytes", "1X"], "").code == 2);
}

#[test]
fn arrays_in_files() {
    let folder = folder();
    let path = folder.path();
    let script = r#"let h = f16([0.5, 1.5])
        save("in.npz", x = [1.0, 2.0], y = [0.5, 0.25], alpha = [3.0])
        save("v.npz", x = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        save("dims.npz", H = [2], W = [2])
        save("one.npy", [1.0])"#;
    assert_eq!(run(path, &["-e", script]).code, 0);
    let show = |name: &str, field: &str| run(path, &["-e", &format!("load(\"{name}\").{field}")]).out;
    let launch = |words: &[&str]| run(path, &[&["launch", "a.clk"], words].concat());
    let ran = launch(&["saxpy", "--npz", "in.npz", "out.npz"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    assert!(show("out.npz", "r").starts_with("[3.5  6.25]"), "{}", show("out.npz", "r"));
    assert_eq!(launch(&["copy", "--generic", "T=f32x3", "--npz", "v.npz", "w.npz"]).code, 0);
    assert!(show("w.npz", "y").contains("[4. 5. 6.]"), "{}", show("w.npz", "y"));
    assert_eq!(launch(&["iota", "--npz", "dims.npz", "iota.safetensors"]).code, 0);
    assert!(show("iota.safetensors", "x").contains("[2 3]"));
    for (words, code) in [
        (["saxpy", "--npz", "none.npz", "o.npz"], "E0701"),
        (["saxpy", "--npz", "one.npy", "o.npz"], "E0804"),
        (["saxpy", "--npz", "v.npz", "o.npz"], "E0802"),
        (["whole", "--npz", "in.npz", "o.npz"], "E0803"),
        (["saxpy", "--npz", "in.npz", "o.xyz"], "E0710"),
        (["saxpy", "--npz", "in.npz", "no/o.npz"], "E0702"),
    ] {
        let ran = launch(&words);
        assert!(ran.code == 1 && ran.err.contains(code), "{words:?} {}", ran.err);
    }
    assert!(launch(&["saxpy", "--max-bytes", "100", "--npz", "in.npz", "o.npz"]).err.contains("E0806"));
    assert!(!path.join("o.npz").exists());
}

#[test]
fn arrays_as_frames() {
    let folder = folder();
    let count = 1 << 20;
    let x: Vec<u8> = (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let header = format!(
        r#"{{"scalars": {{"alpha": 2}}, "blocks": [{0}, {0}],
            "arrays": {{"y": {{"shape": [{count}], "block": 1}}, "x": {{"shape": [{count}], "block": 0}}}}}}"#,
        x.len()
    );
    let (reply, bytes) = stream(folder.path(), &["launch", "a.clk", "saxpy", "--stream"], &frame(&header, &[&x, &x]));
    assert_eq!(reply["arrays"]["r"], json!({"type": "f32", "shape": [count], "block": 0}), "{reply}");
    assert_eq!(reply["blocks"], json!([x.len()]));
    let sums = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("4 bytes")));
    assert!(sums.eq((0..count).map(|i| 3.0 * i as f32)));
    let truths =
        frame(r#"{"blocks": [3], "arrays": {"x": {"type": "bool", "shape": [3], "block": 0}}}"#, &[&[0, 1, 7]]);
    assert_eq!(stream(folder.path(), &["launch", "a.clk", "copy", "--stream"], &truths).1, [0, 1, 1]);
    for (header, blocks, code) in [
        (
            r#"{"blocks": [3], "arrays": {"x": {"type": "f32", "shape": [1], "block": 0}}}"#,
            &[&[0u8; 3][..]][..],
            "E0805",
        ),
        (r#"{"blocks": [4], "arrays": {"x": {"type": "f32", "shape": [1], "block": 1}}}"#, &[&[0; 4]], "E0805"),
        (r#"{"blocks": [5], "arrays": {}}"#, &[&[0; 4]], "E0807"),
        (r#"{"blocks": [4], "arrays": {"x": {"type": "f33", "shape": [1], "block": 0}}}"#, &[&[0; 4]], "E0803"),
        (r#"{"blocks": [4], "arrays": {"x": {"shape": [1], "block": 0}}}"#, &[&[0; 4]], "E0802"),
    ] {
        let (reply, _) = stream(folder.path(), &["launch", "a.clk", "copy", "--stream"], &frame(header, blocks));
        assert_eq!(codes(&reply), [code], "{header}");
    }
    let (cut, _) = stream(folder.path(), &["launch", "a.clk", "copy", "--stream"], b"");
    assert_eq!(codes(&cut), ["E0807"]);
}

#[test]
fn the_protocol_is_shown_and_checks_are_opt_in() {
    let folder = folder();
    let shown = run(folder.path(), &["launch", "--protocol"]);
    assert!(shown.code == 0 && shown.out.contains("How other programs launch kernels"), "{}", shown.err);
    assert_eq!(run(folder.path(), &["launch"]).code, 2);
    let racy = "kernel racy(out x: [i32; 1]) grid(1) block(64) { x[0] = thread_idx.x }";
    fs::write(folder.path().join("a.clk"), racy).expect("written");
    assert_eq!(launch_in(folder.path(), &["racy"], "").code, 0);
    let checked = launch_in(folder.path(), &["racy", "--check"], "");
    assert!(checked.code == 1 && checked.out.contains("E0610"), "{}", checked.out);
}

#[test]
fn parameters_with_defaults_may_be_omitted() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "const A: f32 = 3.0\nkernel scale(x: [f32; N], a: f32 = A, out y: [f32; N]) threads(i: N) { y[i] = a * x[i] }\n";
    fs::write(folder.path().join("scale.clk"), text).expect("written");
    let scaled = |request: &str| {
        let ran = clk_testing::run_with_input(folder.path(), &["launch", "scale.clk", "scale"], request);
        serde_json::from_str::<Value>(&ran.out).expect("JSON")
    };
    assert_eq!(scaled(r#"{"arrays": {"x": [1, 2]}}"#)["arrays"]["y"]["data"], json!([3.0, 6.0]));
    assert_eq!(scaled(r#"{"scalars": {"a": 0.5}, "arrays": {"x": [1, 2]}}"#)["arrays"]["y"]["data"], json!([0.5, 1.0]));
    assert_eq!(codes(&scaled("{}")), ["E0802"]);
}
