//! Tests the memory of long sessions: an array is freed when its variable is redefined, or when the last name of a
//! result is dropped.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clk_host::array::Array;
use clk_host::value::HostValue;
use clk_lang::embed::{CallOptions, EmbedCall, EmbedProgram, Event, Notebook};
use clk_scalar::Scalar;

/// Number of redefinitions, and number of redefinitions before the memory is first measured.
const COUNT: usize = 1000;
const FIRST: usize = 200;

/// Largest allowed growth in bytes. Some growth is expected, since a session keeps the text of its entries. Each entry
/// creates an array of about 1 MB, so a leak of the arrays exceeds this limit.
const GROWTH: usize = 32 << 20;

/// Returns the resident memory of a process in bytes.
fn resident(process: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a number");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

const DEFINITIONS: &str = "struct Pair { a: f32, b: f32 }
fn half(x: [f32; N]) -> [f32; N] { x / 2.0 }
kernel twice(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }
";

/// Returns an entry that creates an array, with a different size each time.
fn entry(k: usize) -> String {
    let n = 250_000 + k;
    match k % 8 {
        0 => format!("let z = ones({n})"),
        1 => format!("let z = f32(arange({n})) * 2.0"),
        2 => format!("ones({n});"),
        3 => format!("let (z, w) = (ones({n}), {k})"),
        4 => format!("var z = half(ones({n})); z[3] = 5.0"),
        5 => format!("let z = twice(ones({n}))"),
        6 => format!("for k in 0..2 {{ let z = ones({n}); assert(z[k] == 1.0) }}"),
        _ => format!("let z = ones({n}); let z = z[10..] + z[..{n} - 10]; assert(z[3] == 2.0)"),
    }
}

#[test]
fn a_terminal_session_is_flat() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_clk"))
        .args(["repl", "--plain", "--no-check"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("clk starts");
    let (mut input, mut output) =
        (child.stdin.take().expect("input"), BufReader::new(child.stdout.take().expect("output")));
    // Waits until all entries have run.
    let mut memory = |mark: &str, input: &mut std::process::ChildStdin| {
        writeln!(input, "print(\"{mark}\")").expect("written");
        let mut line = String::new();
        while line.trim() != mark {
            line.clear();
            assert_ne!(output.read_line(&mut line).expect("a line"), 0, "the session has ended before {mark}");
        }
        resident(&child.id().to_string())
    };
    for line in DEFINITIONS.lines() {
        writeln!(input, "{line}").expect("written");
    }
    let start = memory("start", &mut input);
    let mut first = 0;
    for k in 0..COUNT {
        if k == FIRST {
            first = memory("first", &mut input);
        }
        writeln!(input, "{}", entry(k)).expect("written");
    }
    let last = memory("last", &mut input);
    writeln!(input, ":reset").expect("written");
    let empty = memory("empty", &mut input);
    drop(input);
    child.wait().expect("it ends");
    println!("{start} at first, {first} after {FIRST} entries, {last} after {COUNT}, {empty} after `:reset`");
    assert!(last < first + GROWTH, "from {first} to {last} bytes");
    assert!(empty < start + GROWTH, "{empty} bytes after `:reset`, {start} at first");
}

/// Runs a cell; panics if it fails.
fn run(notebook: &Notebook, cell: &str) {
    for event in notebook.run(cell) {
        match event {
            Event::Done(succeeded, _) => assert!(succeeded, "{cell}"),
            Event::Report(report) => panic!("{cell}: {report:?}"),
            _ => {}
        }
    }
}

/// These checks are a single test, because they measure the memory of their own process.
#[test]
fn notebooks_and_programs_are_flat() {
    let notebook = Notebook::start(false).expect("a session");
    run(&notebook, DEFINITIONS);
    let flat = |label: &str, growth: usize, step: &mut dyn FnMut(usize)| {
        let mut first = 0;
        for k in 0..COUNT {
            if k == FIRST {
                first = resident("self");
            }
            step(k);
        }
        let last = resident("self");
        println!("{label}: {first} bytes after {FIRST}, {last} after {COUNT}");
        assert!(last < first + growth, "{label}: from {first} to {last} bytes");
    };
    flat("cells", GROWTH, &mut |k| run(&notebook, &entry(k)));
    flat("variables", GROWTH, &mut |k| {
        let array = Array::zeros(Scalar::F32, &[250_000 + k]);
        notebook.set("z", HostValue::Array(array.expect("memory"))).expect("a variable");
    });
    let text = "let z = ones(200000)\nlet z = z + 1.0\nfn more(n: i32) -> [f32; _] { ones(n) + 1.0 }";
    let mut program =
        EmbedProgram::new("program", text, PathBuf::new()).unwrap_or_else(|failure| panic!("{failure:?}"));
    let options = CallOptions { device: Some("sim".into()), ..CallOptions::default() };
    // The program keeps the buffers of its last calls for later calls, so more growth is allowed.
    flat("calls", 5 * GROWTH, &mut |k| {
        let arguments = vec![Some(clk_lang::embed::EmbedValue::Int(250_000 + k as i128, None))];
        let called = program.call(0, &options, EmbedCall { arguments, ..EmbedCall::default() }, 0);
        drop(called.unwrap_or_else(|failure| panic!("{failure:?}")));
        if k.is_multiple_of(50) {
            program.run(&options, vec![], 0).unwrap_or_else(|failure| panic!("{failure:?}"));
        }
    });
}
