//! Tests `clk launch --serve`: sequences of requests, arrays that persist between requests, and sockets.

use std::io::Read;

use clk_testing::launch::{PROGRAM, Server, codes, folder, frame, read_frame};
use clk_testing::random::Random;
use clk_testing::{finish_with_input, run};
use serde_json::{Value, json};

#[test]
fn arrays_persist_and_are_written_in_place() {
    let mut server = Server::new(&[]);
    let reply =
        server.ask(r#"{"id": 1, "op": "put", "arrays": {"u": {"type": "i32", "shape": [3], "data": [1, 2, 3]}}}"#);
    assert_eq!(reply, json!({"id": 1}));
    let add = server.ask(r#"{"id": "two", "kernel": "add", "scalars": {"by": 10}, "arrays": {"x": "u"}}"#);
    assert_eq!(add, json!({"id": "two"}), "a kept array is not returned");
    let got = server.ask(r#"{"op": "get", "names": ["u"]}"#);
    assert_eq!(got, json!({"arrays": {"u": {"type": "i32", "shape": [3], "data": [11, 12, 13]}}}));
    // If the name given for an `out` parameter is new, the launch creates an array.
    assert_eq!(server.ask(r#"{"kernel": "copy", "arrays": {"x": "u", "y": "v"}}"#), json!({}));
    assert_eq!(server.ask(r#"{"kernel": "add", "scalars": {"by": 1}, "arrays": {"x": "v"}}"#), json!({}));
    let both = server.ask(r#"{"op": "get", "names": ["u", "v"], "as": "base64"}"#);
    assert_eq!(both["arrays"]["u"]["data64"], json!("CwAAAAwAAAANAAAA"), "a copy is not its original");
    assert_eq!(both["arrays"]["v"]["data64"], json!("DAAAAA0AAAAOAAAA"));
    let list = server.ask(r#"{"op": "list"}"#);
    assert_eq!(list["arrays"]["v"], json!({"type": "i32", "shape": [3], "bytes": 12}));
    assert_eq!(list["kernels"]["add"][0], json!({"name": "x", "type": "[i32; N]", "access": "inout"}));
    assert_eq!(server.ask(r#"{"op": "free", "names": ["u"]}"#), json!({}));
    assert_eq!(codes(&server.ask(r#"{"op": "get", "names": ["u"]}"#)), ["E0803"]);
    assert_eq!(codes(&server.ask(r#"{"kernel": "both", "arrays": {"a": "v", "b": "v"}}"#)), ["E0802"]);
    assert_eq!(server.ask(r#"{"op": "sync"}"#), json!({}));
    assert_eq!(server.end(), (0, String::new()));
}

#[test]
fn another_program_takes_over_the_arrays() {
    let mut server = Server::new(&[]);
    server.ask(r#"{"op": "put", "arrays": {"u": [1, 2], "b": {"type": "Body", "data": [{"pos": [1, 2, 3], "mass": 4, "on": true}]}}}"#);
    std::fs::write(
        server.folder.path().join("b.clk"),
        "kernel twice(inout x: [i32; N]) threads(i: N) { x[i] = 2 * x[i] }
         kernel any<T: Any>(x: [T; N], out y: [T; N]) threads(i: N) { y[i] = x[i] }",
    )
    .expect("written");
    assert_eq!(codes(&server.ask(r#"{"op": "load", "file": "c.clk"}"#)), ["E0701"]);
    assert_eq!(
        server.ask(r#"{"kernel": "add", "scalars": {"by": 1}, "arrays": {"x": "u"}}"#),
        json!({}),
        "the old program still works"
    );
    assert_eq!(server.ask(r#"{"op": "load", "file": "b.clk"}"#), json!({}));
    assert_eq!(server.ask(r#"{"kernel": "twice", "arrays": {"x": "u"}}"#), json!({}));
    assert_eq!(server.ask(r#"{"op": "get", "names": ["u"]}"#)["arrays"]["u"]["data"], json!([4, 6]));
    assert_eq!(codes(&server.ask(r#"{"kernel": "any", "arrays": {"x": "b"}}"#)), ["E0803"], "its struct is unknown");
    assert_eq!(codes(&server.ask(r#"{"kernel": "add", "scalars": {"by": 1}, "arrays": {"x": "u"}}"#)), ["E0803"]);
}

#[test]
fn a_fault_fails_only_its_launch() {
    let mut server = Server::new(&[]);
    server.ask(r#"{"op": "put", "arrays": {"u": [8, 6], "f": [1.0, 2.0, 3.0]}}"#);
    let fault = server.ask(r#"{"id": 5, "kernel": "half", "scalars": {"by": 0}, "arrays": {"x": "u"}}"#);
    assert_eq!((codes(&fault), &fault["id"]), (vec!["E0602"], &json!(5)));
    assert_eq!(codes(&server.ask(r#"{"kernel": "unguarded", "arrays": {"x": "f"}}"#)), ["E0601"]);
    assert_eq!(server.ask(r#"{"kernel": "half", "scalars": {"by": 2}, "arrays": {"x": "u"}}"#), json!({}));
    assert_eq!(server.ask(r#"{"op": "get", "names": ["u"]}"#)["arrays"]["u"]["data"], json!([4, 3]));
    assert_eq!(server.ask(r#"{"op": "get", "names": ["f"]}"#)["arrays"]["f"]["data"], json!([1.0, 2.0, 3.0]));
}

#[test]
fn a_thousand_launches_without_waiting() {
    let mut server = Server::new(&[]);
    let mut requests = String::from("{\"op\": \"put\", \"arrays\": {\"u\": [0, 0]}}\n");
    for id in 0..1000 {
        requests += &format!(
            "{{\"id\": {id}, \"kernel\": \"add\", \"scalars\": {{\"by\": {id}}}, \"arrays\": {{\"x\": \"u\"}}}}\n"
        );
    }
    server.send((requests + "{\"op\": \"get\", \"names\": [\"u\"]}\n").as_bytes());
    assert_eq!(server.receive(), json!({}));
    for id in 0..1000 {
        assert_eq!(server.receive(), json!({"id": id}));
    }
    assert_eq!(server.receive()["arrays"]["u"]["data"], json!([499500, 499500]));
}

#[test]
fn lines_and_frames_side_by_side() {
    let mut server = Server::new(&[]);
    let floats: Vec<u8> = [1.5f32, f32::NAN, -0.0].into_iter().flat_map(f32::to_le_bytes).collect();
    let request =
        r#"{"id": 1, "op": "put", "blocks": [12], "arrays": {"x": {"type": "f32", "shape": [3], "block": 0}}}"#;
    server.send(&frame(request, &[&floats]));
    assert_eq!(read_frame(&mut server.output), (json!({"id": 1}), vec![]));
    assert_eq!(
        server.ask(r#"{"kernel": "copy", "arrays": {"x": "x"}}"#)["arrays"]["y"]["data"],
        json!([1.5, "NaN", -0.0])
    );
    server.send(&frame(r#"{"kernel": "copy", "arrays": {"x": "x"}}"#, &[]));
    let (header, bytes) = read_frame(&mut server.output);
    assert_eq!((bytes, &header["blocks"]), (floats, &json!([12])));
    // A frame with inconsistent lengths is skipped.
    server.send(&frame(r#"{"blocks": [5]}"#, &[b"CLK\x01{}\n"]));
    assert_eq!(codes(&read_frame(&mut server.output).0), ["E0807"]);
    assert_eq!(codes(&server.ask(r#"{"op": "get", "names": ["x"], "as": "block"}"#)), ["E0802"]);
    // Bytes that are not a frame are answered with an error, and end the connection.
    server.send(b"CLX\x01\n{}\n");
    assert_eq!(codes(&read_frame(&mut server.output).0), ["E0807"]);
    assert_eq!(server.end().0, 0);
}

#[test]
fn malformed_requests_are_answered_and_cost_nothing_else() {
    let mut server = Server::new(&["--max-bytes", "4K"]);
    server.ask(r#"{"op": "put", "arrays": {"u": [1]}}"#);
    let long = format!("{{\"op\": \"{}\"}}", "x".repeat(5000));
    let large = format!("{{\"op\": \"put\", \"arrays\": {{\"v\": [{}1]}}}}", "1,".repeat(1030));
    let cases = [
        ("{", "E0801"),
        ("nonsense", "E0801"),
        ("[1]", "E0802"),
        (r#"{"id": 7, "op": "lanch"}"#, "E0802"),
        (r#"{"id": 7, "op": "put", "kernel": "add"}"#, "E0802"),
        (r#"{"id": 7, "op": "put"}"#, "E0802"),
        (r#"{"id": {}, "op": "list"}"#, "E0802"),
        (r#"{"id": 7, "op": "get", "names": "u"}"#, "E0802"),
        (r#"{"id": 7, "op": "free", "names": [1]}"#, "E0802"),
        (r#"{"id": 7, "op": "put", "arrays": {"v": {"type": "u8", "shape": [4097], "data64": ""}}}"#, "E0806"),
        (r#"{"id": 7, "kernel": "iota", "dims": {"H": 64, "W": 64}}"#, "E0806"),
        (&long, "E0806"),
        (&large, "E0806"),
    ];
    for (request, code) in cases {
        let reply = server.ask(request);
        assert_eq!(codes(&reply), [code], "{request}: {reply}");
        assert!(!request.contains("\"id\": 7") || reply["id"] == json!(7), "{reply}");
    }
    server.send(b"\xff\xfe\n");
    assert_eq!(codes(&server.receive()), ["E0801"]);
    assert_eq!(server.ask(r#"{"op": "get", "names": ["u"]}"#)["arrays"]["u"]["data"], json!([1]));
    assert_eq!(server.end(), (0, String::new()));
}

/// Valid requests to be mutated.
const GOOD: [&str; 7] = [
    r#"{"id": 1, "kernel": "add", "scalars": {"by": 10}, "arrays": {"x": [1, 2, 3]}}"#,
    r#"{"id": 2, "kernel": "fold", "scalars": {"a": {"type": "f64", "value": NaN}}, "arrays": {"x": {"type": "f64", "shape": [1, 2], "data": [1.5, 2e3]}}}"#,
    r#"{"id": "c", "op": "put", "arrays": {"u": {"type": "u8x4", "shape": [1], "data64": "AAAAAA=="}, "v": [[1, 2], [3, 4]]}}"#,
    r#"{"op": "get", "names": ["u", "v"], "as": "base64"}"#,
    r#"{"kernel": "whole", "arrays": {"x": "v"}, "grid": [1, 2], "block": 3, "dims": {"N": 4}}"#,
    r#"{"kernel": "moved", "scalars": {"d": [[1, 2, 3], 4.0, true]}, "arrays": {"b": [], "o": []}}"#,
    r#"{"op": "list"}"#,
];

/// Returns a request with a few bytes changed. The result is still a single, non-blank line, and not a frame.
fn damaged(numbers: &mut Random) -> Vec<u8> {
    let mut bytes = GOOD[numbers.next_below(GOOD.len())].as_bytes().to_vec();
    for _ in 0..=numbers.next_below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = numbers.next_below(bytes.len());
        match numbers.next_below(6) {
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, b"{}[]\",:0e-.tnN\\"[numbers.next_below(15)]),
            2 => bytes[at] = numbers.word() as u8,
            3 => bytes.truncate(at + 1),
            4 => {
                let piece = GOOD[numbers.next_below(GOOD.len())].as_bytes();
                let from = numbers.next_below(piece.len());
                bytes.splice(at..at, piece[from..(from + 12).min(piece.len())].iter().copied());
            }
            _ => {
                let end = (at + numbers.next_below(20)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes.iter_mut().filter(|b| matches!(b, b'\n' | b'\r')).for_each(|b| *b = b' ');
    match bytes.first() {
        Some(b'C' | b' ' | b'\t') | None => bytes.insert(0, b'{'),
        _ => {}
    }
    // A `stop` request would end the server, so it is replaced by an invalid request.
    if bytes.windows(4).any(|w| w == b"stop") { b"{".to_vec() } else { bytes }
}

#[test]
fn damaged_requests_are_answered_one_by_one() {
    let mut server = Server::new(&["--max-bytes", "1M"]);
    let mut numbers = Random(20);
    for round in 0..30 {
        let requests: Vec<Vec<u8>> = (0..100).map(|_| damaged(&mut numbers)).collect();
        let framed = round % 3 == 2;
        let bytes: Vec<u8> = match framed {
            true => requests.iter().flat_map(|r| frame(&String::from_utf8_lossy(r), &[])).collect(),
            false => requests.iter().flat_map(|r| [&r[..], b"\n"].concat()).collect(),
        };
        server.send(&bytes);
        for request in &requests {
            let answer = if framed { read_frame(&mut server.output).0 } else { server.receive() };
            assert!(answer.is_object(), "{} to {}", answer, String::from_utf8_lossy(request));
            let internal = codes(&answer).contains(&"E0999");
            assert!(!internal, "{} to {}", answer, String::from_utf8_lossy(request));
        }
    }
    assert_eq!(server.ask(r#"{"id": "end", "op": "sync"}"#), json!({"id": "end"}));
    assert_eq!(server.end(), (0, String::new()));
}

#[test]
fn clients_that_go_away() {
    // The input ends in the middle of a frame: an answer is still sent.
    let mut server = Server::new(&[]);
    server.send(&frame(r#"{"blocks": [100]}"#, &[&[0; 100]])[..60]);
    let (code, rest) = server.end();
    assert!(code == 0 && rest.contains("E0807"), "{code} {rest}");
    // The client does not read the answers.
    let mut server = Server::new(&[]);
    server.send(&"{\"op\": \"list\"}\n".repeat(500).into_bytes());
    drop(server.output);
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    // The server does not start if the program does not compile.
    let folder = folder();
    std::fs::write(folder.path().join("a.clk"), "kernel (").expect("written");
    assert_eq!(run(folder.path(), &["launch", "a.clk", "--serve"]).code, 1);
}

/// Returns the resident memory of a process, in KiB.
#[cfg(target_os = "linux")]
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[cfg(target_os = "linux")]
#[test]
fn refused_launches_free_their_arrays() {
    let mut server = Server::new(&[]);
    let refused = [
        r#"{"kernel": "copy", "arrays": {"x": [1, 2]}, "generics": {"T": "nosuch"}}"#,
        r#"{"kernel": "saxpy", "scalars": {"alpha": 1}, "arrays": {"x": {"type": "i32", "shape": [1], "data": [1]}, "y": [1.0]}}"#,
        r#"{"kernel": "add", "scalars": {"by": 1}, "arrays": {"x": [1]}, "dims": {"Q": 4}}"#,
        r#"{"kernel": "half", "scalars": {"by": 0}, "arrays": {"x": [1]}}"#,
        r#"{"kernel": "nosuch"}"#,
        r#"{"op": "load", "file": "nosuch.clk"}"#,
    ];
    let round = |server: &mut Server, times: usize| {
        for _ in 0..times {
            for request in refused {
                assert_eq!(codes(&server.ask(request)).len(), 1, "{request}");
            }
        }
    };
    round(&mut server, 40);
    let before = resident(server.child.id());
    round(&mut server, 300);
    let grown = resident(server.child.id()).saturating_sub(before);
    println!("1800 refused requests: {grown} KiB more");
    // A leaked request would take at least 2 KiB, for its source, module and variables.
    assert!(grown < 1024, "{grown} KiB were leaked");
    assert_eq!(server.ask(r#"{"op": "sync"}"#), json!({}));
}

#[test]
fn recursive_types_are_rejected() {
    let mut server = Server::new(&[]);
    for depth in [17, 1000, 30_000] {
        let ty = format!("{}f32{}", "(".repeat(depth), ")".repeat(depth));
        let request =
            format!(r#"{{"op": "put", "arrays": {{"u": {{"type": "{ty}", "shape": [1], "data64": "AAAAAA=="}}}}}}"#);
        assert_eq!(codes(&server.ask(&request)), ["E0803"], "{depth}");
    }
    let request = r#"{"op": "put", "arrays": {"u": {"type": "((f32, i32), u8)", "shape": [0], "data64": ""}}}"#;
    assert_eq!(server.ask(request), json!({}));
}

#[cfg(unix)]
#[test]
fn named_pipes_are_not_read_as_programs() {
    let mut server = Server::new(&[]);
    let status = std::process::Command::new("mkfifo").arg(server.folder.path().join("p.clk")).status();
    assert!(status.expect("mkfifo runs").success());
    assert_eq!(codes(&server.ask(r#"{"op": "load", "file": "p.clk"}"#)), ["E0701"]);
    assert_eq!(codes(&server.ask(r#"{"op": "load", "file": "/dev/zero"}"#)), ["E0701"]);
    assert_eq!(server.ask(r#"{"op": "sync"}"#), json!({}));
}

/// Runs the client shown in the manual, with the binary under test as `clk`.
#[test]
fn the_client_in_the_manual_works() {
    let page = include_str!("../../docs/gpu.md");
    let client = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a client");
    let folder = tempfile::tempdir().expect("a folder");
    let programs = page.split("```clk\n").skip(1).filter_map(|rest| rest.split("```").next());
    let kernel =
        programs.into_iter().find(|program| program.contains("kernel saxpy")).expect("the kernel that it launches");
    std::fs::write(folder.path().join("saxpy.clk"), kernel).expect("written");
    let client = client.replace("\"clk\"", &format!("{:?}", env!("CARGO_BIN_EXE_clk")));
    let mut python = std::process::Command::new("python3");
    python.arg("-c").arg(client).current_dir(folder.path()).env("CLK_DEVICE", "sim");
    match python.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(said.trim(), "[2.5, 'Infinity']", "{}", String::from_utf8_lossy(&output.stderr));
        }
        Err(error) => println!("skipped: no python3: {error}"),
    }
}

#[cfg(unix)]
mod sockets {
    use std::fs;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use clk_testing::{RunOutput, clk, finish};

    struct SocketServer {
        child: Child,
        folder: tempfile::TempDir,
    }

    impl SocketServer {
        /// Serves `s/clk.sock` in a temporary folder.
        fn new() -> SocketServer {
            SocketServer::with(&[])
        }

        /// Like [`SocketServer::new`], with options.
        fn with(words: &[&str]) -> SocketServer {
            let folder = folder();
            let child = start_with(folder.path(), "s/clk.sock", words);
            SocketServer { child, folder }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("s/clk.sock")
        }

        /// Waits for the server to end; returns its exit code.
        fn end(&mut self) -> Option<i32> {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(30) {
                if let Some(status) = self.child.try_wait().expect("a child") {
                    return status.code();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            panic!("the server does not end");
        }
    }

    impl Drop for SocketServer {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn start(folder: &Path, socket: &str) -> Child {
        start_with(folder, socket, &[])
    }

    fn start_with(folder: &Path, socket: &str, words: &[&str]) -> Child {
        let mut command = clk(folder);
        command.args(["launch", "a.clk", "--serve", "--socket", socket]).args(words).stderr(Stdio::piped());
        let mut child = command.spawn().expect("clk starts");
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("serving on"), "{line}");
        child
    }

    /// Starts a server on a socket on which it must refuse to start; returns its output.
    fn refused(folder: &Path, socket: &str) -> RunOutput {
        finish(clk(folder).args(["launch", "a.clk", "--serve", "--socket", socket]))
    }

    fn ask(stream: &UnixStream, request: &str) -> Value {
        let mut writer = stream;
        writeln!(writer, "{request}").expect("sent");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: `{line}`"))
    }

    #[test]
    fn clients_have_separate_arrays() {
        let mut served = SocketServer::new();
        let data = fs::symlink_metadata(served.path()).expect("a socket");
        assert_eq!(data.mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(served.folder.path().join("s")).expect("a folder").mode() & 0o777, 0o700);
        let (a, b) = (UnixStream::connect(served.path()).expect("a"), UnixStream::connect(served.path()).expect("b"));
        ask(&a, r#"{"op": "put", "arrays": {"u": [1]}}"#);
        assert_eq!(codes(&ask(&b, r#"{"op": "get", "names": ["u"]}"#)), ["E0803"]);
        ask(&b, r#"{"op": "put", "arrays": {"u": [5]}}"#);
        ask(&a, r#"{"kernel": "add", "scalars": {"by": 1}, "arrays": {"x": "u"}}"#);
        assert_eq!(ask(&a, r#"{"op": "get", "names": ["u"]}"#)["arrays"]["u"]["data"], json!([2]));
        assert_eq!(ask(&b, r#"{"op": "get", "names": ["u"]}"#)["arrays"]["u"]["data"], json!([5]));
        // A client that sends garbage and disconnects does not affect the other client.
        let mut writer = &b;
        writer.write_all(b"CLX!").expect("sent");
        let mut rest = Vec::new();
        BufReader::new(&b).read_to_end(&mut rest).expect("the end");
        assert!(String::from_utf8_lossy(&rest).contains("E0807"));
        drop(b);
        assert_eq!(ask(&a, r#"{"op": "get", "names": ["u"]}"#)["arrays"]["u"]["data"], json!([2]));
        assert_eq!(ask(&a, r#"{"op": "stop"}"#), json!({}));
        assert_eq!(served.end(), Some(0));
        assert!(!served.path().exists());
    }

    #[test]
    fn only_one_of_concurrent_servers_survives() {
        let folder = folder();
        for round in 0..8 {
            let name = format!("s/{round}.sock");
            let mut servers: Vec<Child> = (0..4)
                .map(|_| {
                    let mut command = clk(folder.path());
                    command.args(["launch", "a.clk", "--serve", "--socket", &name]).stderr(Stdio::piped());
                    command.spawn().expect("clk starts")
                })
                .collect();
            let said: Vec<String> = servers
                .iter_mut()
                .map(|child| {
                    let mut line = String::new();
                    BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut line).expect("a line");
                    line
                })
                .collect();
            let serving = said.iter().filter(|line| line.starts_with("serving on")).count();
            assert_eq!(serving, 1, "{said:?}");
            assert_eq!(said.iter().filter(|line| line.contains("E0808")).count(), 3, "{said:?}");
            let client = UnixStream::connect(folder.path().join(&name)).expect("connected");
            assert_eq!(ask(&client, r#"{"op": "stop"}"#), json!({}));
            servers.iter_mut().for_each(|child| assert!(child.wait().is_ok()));
        }
        let left: Vec<_> = fs::read_dir(folder.path().join("s")).expect("listed").collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn idle_clients_are_disconnected_when_the_server_is_full() {
        let served = SocketServer::new();
        let connect = || UnixStream::connect(served.path()).expect("connected");
        // A connection that is idle between two requests is kept open indefinitely.
        let idle = connect();
        ask(&idle, r#"{"op": "put", "arrays": {"u": [1]}}"#);
        let stuck: Vec<UnixStream> = (0..63)
            .map(|number| {
                let mut stream = connect();
                let half: &[u8] = [&b""[..], b"{\"op\": ", b"CLK\x01\x02\0\0\0"][number % 3];
                stream.write_all(half).expect("sent");
                stream
            })
            .collect();
        let early = connect();
        let mut line = String::new();
        early.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        BufReader::new(&early).read_line(&mut line).expect("an answer");
        assert!(line.contains("E0808"), "all places are taken by who may still go on: {line}");
        std::thread::sleep(Duration::from_millis(5500));
        let new: Vec<UnixStream> = (0..4).map(|_| connect()).collect();
        for client in &new {
            assert_eq!(ask(client, r#"{"op": "sync"}"#), json!({}));
        }
        assert_eq!(ask(&idle, r#"{"op": "get", "names": ["u"]}"#)["arrays"]["u"]["data"], json!([1]));
        drop(stuck);
    }

    /// If a client disconnects while its pending requests exceed the server's memory limit, the server closes its
    /// connection and ends its threads.
    #[cfg(target_os = "linux")]
    #[test]
    fn arrays_of_disconnected_clients_are_freed() {
        let served = SocketServer::with(&["--max-bytes", "64K"]);
        let count =
            |what: &str| fs::read_dir(format!("/proc/{}/{what}", served.child.id())).expect("a process").count();
        let own = UnixStream::connect(served.path()).expect("connected");
        ask(&own, r#"{"op": "sync"}"#);
        let (files, threads) = (count("fd"), count("task"));
        let numbers = vec!["1.5"; 4000].join(",");
        let request = format!(r#"{{"kernel": "copy", "arrays": {{"x": {{"type": "f32", "data": [{numbers}]}}}}}}"#);
        for _ in 0..8 {
            let mut client = UnixStream::connect(served.path()).expect("connected");
            client.set_nonblocking(true).expect("set");
            // Sends requests until the server stops reading.
            let text = format!("{request}\n").repeat(100);
            let mut sent = 0;
            while let Ok(more) = client.write(&text.as_bytes()[sent % text.len()..]) {
                sent += more;
            }
            assert!(sent > 100_000, "{sent} bytes");
            // Waits until the server has accepted the connection.
            while count("fd") <= files {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let begun = Instant::now();
        while (count("fd"), count("task")) != (files, threads) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{files} files, {threads} threads before; now {} and {}",
                count("fd"),
                count("task")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(ask(&own, r#"{"op": "sync"}"#), json!({}));
    }

    #[test]
    fn signals_shut_the_server_down_cleanly() {
        for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
            let mut served = SocketServer::new();
            let client = UnixStream::connect(served.path()).expect("connected");
            ask(&client, r#"{"op": "sync"}"#);
            // SAFETY: only sends a signal, to a child that has not been waited for.
            assert_eq!(unsafe { libc::kill(served.child.id() as libc::pid_t, signal) }, 0);
            assert_eq!(served.end(), Some(code), "{signal}");
            assert!(!served.path().exists(), "{signal}");
        }
    }

    #[test]
    fn only_own_stale_sockets_are_replaced() {
        let mut served = SocketServer::new();
        let root = served.folder.path();
        let second = refused(root, "s/clk.sock");
        assert!(second.code == 1 && second.err.contains("E0808") && second.err.contains("answers"), "{}", second.err);
        served.child.kill().expect("killed");
        served.child.wait().expect("ended");
        assert!(served.path().exists(), "a killed server leaves its socket behind");
        served.child = start(root, "s/clk.sock");
        assert_eq!(ask(&UnixStream::connect(served.path()).expect("connected"), r#"{"op": "sync"}"#), json!({}));
        fs::write(root.join("s/file"), "data").expect("written");
        assert!(refused(root, "s/file").err.contains("E0808"));
        assert_eq!(fs::read(root.join("s/file")).expect("still there"), b"data");
        std::os::unix::fs::symlink(served.path(), root.join("s/link")).expect("a link");
        assert!(refused(root, "s/link").err.contains("E0808"), "a link may lead anywhere");
        assert!(refused(root, "a.clk/x").err.contains("E0808"));
    }

    #[test]
    fn folders_of_others_are_refused() {
        let folder = folder();
        let open = folder.path().join("open");
        fs::create_dir(&open).expect("a folder");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("ours");
        assert!(refused(folder.path(), "open/s").err.contains("other users may write"));
        // The folder `/` belongs to root, another user. If the test itself runs as root, it gives one of its folders to
        // another user instead.
        if fs::metadata("/").is_ok_and(|data| data.uid() != fs::metadata(&open).expect("there").uid()) {
            assert!(refused(folder.path(), "/clk-test.sock").err.contains("E0808"));
            return;
        }
        fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).expect("ours");
        let stale = UnixListener::bind(open.join("s")).expect("a socket");
        drop(stale);
        if chown(open.join("s"), Some(65534), None).is_err() {
            println!("skipped: no right to give files away");
            return;
        }
        assert!(refused(folder.path(), "open/s").err.contains("of another user"));
        chown(&open, Some(65534), None).expect("given away");
        assert!(refused(folder.path(), "open/t").err.contains("belongs to another user"));
    }

    #[test]
    fn peers_of_others_are_refused() {
        use std::os::unix::process::CommandExt;
        let served = SocketServer::new();
        // The permissions let any user connect, so only the server's check of the connecting user protects the socket.
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        open(&served.path(), 0o666);
        open(&served.folder.path().join("s"), 0o755);
        open(served.folder.path(), 0o755);
        let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nprint(s.makefile().readline())";
        let mut python = std::process::Command::new("python3");
        python.args(["-c", script]).arg(served.path()).uid(65534);
        match python.output() {
            Ok(output) if output.status.success() => {
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(said.contains("E0808") && said.contains("another user"), "{said}");
            }
            Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => println!("skipped: no python3 as another user: {error}"),
        }
        let own = UnixStream::connect(served.path()).expect("connected");
        assert_eq!(ask(&own, r#"{"op": "sync"}"#), json!({}));
    }
}

#[test]
fn a_request_without_a_newline_at_the_end() {
    let folder = folder();
    let mut command = clk_testing::clk(folder.path());
    let ran = finish_with_input(command.args(["launch", "a.clk", "--serve"]), r#"{"id": 1, "op": "sync"}"#);
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\"id\": 1}\n"));
    assert!(PROGRAM.contains("a script that does not run"));
    let mut rest = String::new();
    assert_eq!(ran.err.as_bytes().read_to_string(&mut rest).expect("text"), 0);
}
