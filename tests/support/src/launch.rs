//! Helpers for tests of `clk launch`: a program with kernels, functions that send requests, and a server process.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::Value;

use crate::{RunOutput, clk, finish_with_input};

pub const PROGRAM: &str = r#"
struct Body { pos: f32x3, mass: f32, on: bool }

kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = alpha * x[i] + y[i] }
kernel copy<T: Any>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] }
kernel fold<T: Num, op: fn(T, T) -> T = max>(a: T, x: [T; N, M], out y: [T; N, M]) threads(i: N, j: M) {
    y[i, j] = op(a, x[i, j])
}
kernel moved(b: [Body; N], d: Body, inout o: [Body; N], out s: [(f32, i64); N]) threads(i: N) {
    o[i].pos = b[i].pos + d.pos
    o[i].mass = b[i].mass
    o[i].on = !b[i].on
    s[i] = (b[i].mass, i64(i) + 9007199254740993)
    print("body {i}")
}
kernel add(inout x: [i32; N], by: i32) threads(i: N) { x[i] = x[i] + by }
kernel half(inout x: [i32; N], by: i32) threads(i: N) { x[i] = x[i] / by }
kernel iota(out x: [i32; H, W]) threads(i: H, j: W) { x[i, j] = i * W + j }
kernel whole(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 4)) block(4) {
    let i = global_idx.x
    if i < N { y[i] = x[i] + f32(grid_dim.x) }
}
kernel unguarded(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 4)) block(4) { y[global_idx.x] = x[global_idx.x] }
kernel both(inout a: [i32; N], inout b: [i32; N]) threads(i: N) { a[i] = b[i]; b[i] = 0 }

print("a script that does not run")
"#;

/// Returns a folder that contains the program.
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.clk"), PROGRAM).expect("written");
    folder
}

/// Runs one launch; `words` are added to `clk launch a.clk`.
pub fn launch(folder: &Path, words: &[&str], request: &str) -> RunOutput {
    finish_with_input(clk(folder).args(["launch", "a.clk"]).args(words), request)
}

/// Returns the answer to a launch that succeeds.
pub fn answer(words: &[&str], request: &str) -> Value {
    let ran = launch(folder().path(), words, request);
    assert_eq!(ran.code, 0, "{request}\n{}", ran.err);
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.out))
}

/// Returns the codes of an answer's errors.
pub fn codes(answer: &Value) -> Vec<&str> {
    let errors = answer["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    errors.iter().map(|e| e["code"].as_str().unwrap_or("?")).collect()
}

/// Builds a frame; the header has to list the blocks.
pub fn frame(header: &str, blocks: &[&[u8]]) -> Vec<u8> {
    let payload: usize = blocks.iter().map(|block| block.len()).sum();
    let mut bytes = b"CLK\x01".to_vec();
    bytes.extend((header.len() as u32).to_le_bytes());
    bytes.extend((payload as u64).to_le_bytes());
    bytes.extend(header.as_bytes());
    blocks.iter().for_each(|block| bytes.extend(*block));
    bytes
}

/// Reads a frame from a stream: its header and payload.
pub fn read_frame(input: &mut impl Read) -> (Value, Vec<u8>) {
    let mut prefix = [0; 16];
    input.read_exact(&mut prefix).expect("a frame");
    assert_eq!(&prefix[..4], b"CLK\x01");
    let header = u32::from_le_bytes(prefix[4..8].try_into().expect("4 bytes"));
    let payload = u64::from_le_bytes(prefix[8..].try_into().expect("8 bytes"));
    let mut bytes = vec![0; header as usize];
    input.read_exact(&mut bytes).expect("a header");
    let header: Value = serde_json::from_slice(&bytes).expect("JSON");
    let mut bytes = vec![0; payload as usize];
    input.read_exact(&mut bytes).expect("blocks");
    (header, bytes)
}

/// A process `clk launch a.clk --serve` that communicates through pipes.
pub struct Server {
    pub child: Child,
    input: Option<ChildStdin>,
    pub output: BufReader<ChildStdout>,
    pub folder: tempfile::TempDir,
}

impl Server {
    pub fn new(words: &[&str]) -> Server {
        let folder = folder();
        let mut command = clk(folder.path());
        command.args(["launch", "a.clk", "--serve"]).args(words);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().expect("clk starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Server { child, input, output, folder }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("the server reads");
    }

    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the server answers");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: `{line}`"))
    }

    /// Sends a request and returns its answer.
    pub fn ask(&mut self, request: &str) -> Value {
        self.send(format!("{request}\n").as_bytes());
        self.receive()
    }

    /// Closes the input; returns the exit code and the remaining answers.
    pub fn end(mut self) -> (i32, String) {
        drop(self.input.take());
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).expect("the rest");
        let rest = String::from_utf8_lossy(&rest).into_owned();
        (self.child.wait().expect("it ends").code().unwrap_or(-1), rest)
    }
}
