//! Tests several processes (ranks) that run one script on the simulator: collective operations, mismatched collectives,
//! and ranks that are killed.
//!
//! A test waits for events, and never for a fixed time. Timeouts exist only to turn a hang into a failure.
#![cfg(unix)]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use clk_testing::{RunOutput, clk, finish};

fn folder(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.clk"), text).expect("a file");
    folder
}

fn ranks(count: u32, text: &str) -> RunOutput {
    let folder = folder(text);
    finish(clk(folder.path()).args(["run", "--ranks", &count.to_string(), "a.clk"]))
}

/// Collective operations on every type. Each rank compares the result with one that it computes by itself.
const COLLECTIVES: &str = r#"
let (r, n) = (rank(), ranks())
fn of(rank: i32) -> [f32; _] { f32(arange(6)) * 0.1 + f32(rank) }
var total = of(0)
var least = of(0)
for k in 1..n {
    total = total + of(k)
    least = min(least, of(k))
}
let x = of(r)
assert(all_reduce(x) == total, "sum")
assert(all_reduce(x, op = "min") == least, "min")
assert(all_reduce(x, "max") == of(n - 1), "max")
assert(all_reduce(f64(x)) == f64(all_reduce(f64(x))), "f64")
assert(all(close(f32(all_reduce(f16(x))), total, rtol = 0.01)), "f16")
assert(all(close(f32(all_reduce(bf16(x))), total, rtol = 0.05)), "bf16")
let w = arange(4) + r
assert(all_reduce(w) == arange(4) * n + n * (n - 1) / 2, "i32")
assert(all_reduce(i64(w), "max") == i64(arange(4) + n - 1), "i64")
assert(all_reduce(u8(w), "min") == u8(arange(4)), "u8")
var product = 1
for k in 0..n { product *= k + 1 }
assert(all_reduce(r + 1, "prod") == product, "a number")
assert(all_reduce(f32x3(1.0, 2.0, f32(r))).z == f32(n * (n - 1) / 2), "a vector")

let gathered = all_gather(x)
assert(len(gathered) == 6 * n, "gathered")
for k in 0..n { assert(gathered[6 * k..6 * k + 6] == of(k), "gathered") }
assert(all_gather(r) == arange(n), "numbers")
let table = all_gather(reshape(x, 2, 3))
assert(shape(table, 0) == 2 * n && shape(table, 1) == 3, "two axes")
assert(all_gather([r % 2 == 0, true])[0] == true, "truth values")

let rows = f32(reshape(arange(2 * n * 3), 2 * n, 3)) + f32(r)
let own = reduce_scatter(rows)
assert(own == all_reduce(rows)[2 * r..2 * r + 2], "a part")
assert(shape(own, 0) == 2 && shape(own, 1) == 3, "its shape")

struct P { a: f32, b: i32 }
let p = broadcast(P { a: f32(r), b: r }, from = n - 1)
assert(p.b == n - 1, "a struct")
assert(broadcast(x) == of(0), "broadcast")
assert(len(broadcast(zeros(0))) == 0, "nothing")

if n > 1 {
    let (right, left) = ((r + 1) % n, (r + n - 1) % n)
    send(x, right)
    send(r, to = right)
    assert(receive(x, left) == of(left), "from the left")
    assert(receive(0, from = left) == left, "in order")
}
print("rank {r} of {n} is well")
"#;

#[test]
fn collectives_give_what_one_rank_computes() {
    for count in 1..=5 {
        let ran = ranks(count, COLLECTIVES);
        assert_eq!((ran.code, &ran.err[..]), (0, ""), "{count} ranks: {}", ran.out);
        let mut lines: Vec<&str> = ran.out.lines().collect();
        lines.sort_unstable();
        let expected: Vec<String> = (0..count).map(|rank| format!("rank {rank} of {count} is well")).collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn without_a_launcher_there_is_one_rank() {
    let folder = folder(COLLECTIVES);
    let ran = finish(clk(folder.path()).args(["run", "a.clk"]));
    assert_eq!((ran.code, &ran.out[..]), (0, "rank 0 of 1 is well\n"), "{}", ran.err);
}

#[test]
fn collective_mismatches_name_both_lines() {
    let ran =
        ranks(3, "let x = ones(3)\nif rank() == 0 {\n    print(all_reduce(x))\n} else {\n    print(all_gather(x))\n}");
    assert_eq!((ran.code, &ran.out[..]), (1, ""));
    for part in ["E0550", "a.clk:3", "rank 0 is here: `all_reduce` of `[f32; 3]`", " 5 ", "`all_gather` of `[f32; 3]`"]
    {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let ran = ranks(2, "print(all_reduce(ones(3 + rank())))");
    assert!(
        ran.code == 1 && ran.err.contains("rank 0: `all_reduce` of `[f32; 3]`; rank 1: `all_reduce` of `[f32; 4]`"),
        "{}",
        ran.err
    );
    let ran = ranks(2, "if rank() == 0 { print(all_reduce(1)) } else { print(all_reduce(1, \"max\")) }");
    assert!(
        ran.code == 1 && ran.err.contains("rank 1 is here: `all_reduce`") && ran.err.contains("(max)"),
        "{}",
        ran.err
    );
}

#[test]
fn ranks_time_collectives_equally_often() {
    // If each rank used its own clock, the ranks would take different numbers of samples, and thus call the collective
    // different numbers of times.
    let text = r#"
fn slow(n: i32) -> f32 {
    var s = 0.0
    for i in 0..n { s = s + 1.0 }
    s
}
let mine = time { slow(20000 * rank()) }
let t = time {
    slow(10000 * (1 + rank()))
    all_reduce(rank())
}
assert(all_reduce(1) == ranks())
print("{t}")
"#;
    let ran = ranks(3, text);
    assert_eq!((ran.code, ran.out.matches("median of 20 runs").count()), (0, 3), "{}{}", ran.out, ran.err);
}

#[test]
fn ranks_do_not_wait_for_ended_ranks() {
    let ran = ranks(2, "if rank() == 0 { print(all_reduce(1)) }");
    assert!(ran.code == 1 && ran.err.contains("rank 1 has ended its script, and rank 0 waits for it"), "{}", ran.err);
    let ran = ranks(2, "if rank() == 0 { print(receive(1, from = 1)) } else { print(all_reduce(1)) }");
    assert!(ran.code == 1 && ran.err.contains("ranks 0 and 1 wait for each other"), "{}", ran.err);
    let ran = ranks(2, "if rank() == 0 { send(1, to = 1) }");
    assert!(ran.code == 1 && ran.err.contains("without receiving what rank 0 sends to it"), "{}", ran.err);
    let ran = ranks(3, "print(receive(1, from = (rank() + 1) % 3))");
    assert!(ran.code == 1 && ran.err.contains("wait for each other"), "{}", ran.err);
}

#[test]
fn a_rank_that_fails_ends_the_others() {
    let ran = ranks(3, "if rank() == 1 { assert(1 == 2, \"bad luck\") }\nprint(all_reduce(1))");
    assert_eq!((ran.code, &ran.out[..]), (1, ""));
    assert!(
        ran.err.contains("E0530") && ran.err.contains("rank 1 has ended: assertion failed: bad luck (a.clk:1)"),
        "{}",
        ran.err
    );
    let ran = ranks(3, "if rank() == 2 { exit(7) }\nprint(all_reduce(1))");
    assert!(ran.code != 0 && ran.err.contains("rank 2 has ended its script"), "{}", ran.err);
    let ran = ranks(2, "print(all_reduce(2_000_000_000))");
    assert!(
        ran.code == 1 && ran.err.contains("E0612") && ran.err.contains("the sum of all ranks does not fit `i32`"),
        "{}",
        ran.err
    );
    let ran = ranks(2, "let x = all_reduce(1)\nif rank() == 1 { exit(7) }");
    assert_eq!((ran.code, &ran.err[..]), (7, ""), "the others need it no more");
}

#[test]
fn computing_ranks_are_ended() {
    let ran = ranks(2, "let x = all_reduce(1)\nif rank() == 0 { loop { } }\nassert(x == 3)");
    assert!(
        ran.code == 1 && ran.err.contains("E0551") && ran.err.contains("rank 1 has ended: assertion failed"),
        "{}",
        ran.err
    );
}

/// When one rank fails, the kernels of the other ranks are interrupted.
#[test]
fn ranks_in_a_kernel_are_ended() {
    let text = "kernel spin(inout x: [i32; N]) threads(i: N) {
    while x[i] >= 0 { x[i] = (x[i] + 1) % 7 }
}
var x = zeros(64, type = i32)
let a = all_reduce(1)
if rank() != 0 { spin(x) }
assert(a == 4, \"bad luck\")
print(x)
";
    let folder = folder(text);
    let port = free_port();
    let ranks: Vec<Rank> = (0..3).map(|rank| start(folder.path(), &own(rank, 3, port))).collect();
    for (rank, ran) in ranks.into_iter().map(ended).enumerate() {
        let (code, title) = if rank == 0 { (1, "E0530") } else { (4, "E0551") };
        assert!(ran.code == code && ran.err.contains(title), "rank {rank}: {} {}", ran.code, ran.err);
        assert!(rank == 0 || ran.err.contains("rank 0 has ended: assertion failed: bad luck"), "{}", ran.err);
        assert!(!ran.err.contains("interrupted"), "{}", ran.err);
    }
    let ran = ranks_of(&folder, 3);
    assert!(ran.code == 1 && !ran.err.contains("interrupted"), "{}", ran.err);
}

fn ranks_of(folder: &tempfile::TempDir, count: u32) -> RunOutput {
    finish(clk(folder.path()).args(["run", "--ranks", &count.to_string(), "a.clk"]))
}

/// At each memory limit a different allocation fails: the arrays, their copies, or the sum. No rank waits for a reply
/// that never comes.
#[cfg(target_os = "linux")]
#[test]
fn a_sum_that_does_not_fit_into_memory_ends_all_ranks() {
    // Rank 1 reaches the sum last. Therefore the thread of rank 0 that receives from rank 1 computes the sum.
    let folder = folder(
        "let x = ones(12_000_000)\nsend(1, to = 1 - rank())\nlet r = receive(1, from = 1 - rank())\nif rank() == 1 { for i in 0..100_000 { assert(i >= 0) } }\nlet y = all_reduce(x)\nprint(y[0])",
    );
    let mut ends = std::collections::BTreeSet::new();
    for limit in (560..1100).step_by(60) {
        let mut command = Command::new("sh");
        command.current_dir(folder.path()).env("CLK_DEVICE", "sim").stdin(Stdio::null());
        command.args(["-c", &format!("ulimit -v {}; exec timeout -k 1 60 \"$0\" run --ranks 2 a.clk", limit * 1024)]);
        let ran = finish(command.arg(env!("CARGO_BIN_EXE_clk")));
        assert_ne!(ran.code, 124, "{limit} MiB: {}", ran.err);
        let is_said = ["E0509", "E0551", "cannot be started"].iter().any(|words| ran.err.contains(words));
        assert!(if ran.code == 0 { ran.out == "2.0\n2.0\n" } else { is_said }, "{limit} MiB: {} {}", ran.code, ran.err);
        assert!(!ran.err.contains("E0999"), "{limit} MiB: {}", ran.err);
        ends.insert(ran.err.contains("rank 0 needs it for"));
    }
    assert!(ends.contains(&true), "the sum itself does not fit at one of these limits");
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    for (text, code) in
        [("print(all_reduce(1))", 1), ("print(all_reduce(1))\nexit(7)", 7), ("let x = all_reduce(1)", 0)]
    {
        let folder = folder(text);
        let full = fs::File::options().write(true).open("/dev/full").expect("a device");
        let mut command = clk(folder.path());
        let child = command.args(["run", "--ranks", "2", "a.clk"]).stdout(full).stderr(Stdio::piped()).spawn();
        let output = child.and_then(Child::wait_with_output).expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{text}: {err}");
        assert_eq!(err.contains("standard output cannot be written"), text.contains("print"), "{text}: {err}");
    }
}

#[test]
fn unsupported_operations_of_ranks_are_errors() {
    let failing = |text: &str, expected: &str| {
        let ran = ranks(2, text);
        assert!(ran.code == 1 && ran.err.contains(expected), "{text}: {}", ran.err);
    };
    failing("print(reduce_scatter(ones(3)))", "cannot be cut into 2 equal parts");
    failing("print(broadcast(1, from = 2))", "there is no rank 2");
    failing("send(1, to = rank())", "this is the same one");
    failing("let op = \"mean\"\nprint(all_reduce(1.0, op = op))", "there is no operation `mean`");
    failing("print(all_reduce(\"a\"))", "takes numbers and arrays");
    failing("print(all_reduce(true))", "takes numbers");
    failing("fn f(x: f32) -> f32 { all_reduce(x * x) }\nprint(grad(f)(1.0))", "E0553");
}

/// The process of a rank, which is killed when this value is dropped.
struct Rank(Child);

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a rank. Environment variables give it its rank number, the number of ranks, and the port.
fn start(folder: &Path, variables: &[(&str, String)]) -> Rank {
    let mut command = clk(folder);
    command.args(["run", "a.clk"]).envs(variables.iter().map(|(name, value)| (name, value)));
    Rank(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a rank"))
}

fn ended(mut rank: Rank) -> RunOutput {
    let text = |from: &mut dyn Read| {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("text");
        text
    };
    let out = rank.0.stdout.take().map_or(String::new(), |mut out| text(&mut out));
    let err = rank.0.stderr.take().map_or(String::new(), |mut err| text(&mut err));
    RunOutput { code: rank.0.wait().expect("it ends").code().unwrap_or(-1), out, err }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port()
}

fn own(rank: u32, ranks: u32, port: u16) -> Vec<(&'static str, String)> {
    vec![("CLK_RANK", rank.to_string()), ("CLK_RANKS", ranks.to_string()), ("CLK_PORT", port.to_string())]
}

#[test]
fn launchers_start_ranks_by_their_variables() {
    let text = "print(\"{rank()} {all_reduce(rank() + 1)}\")";
    let folder = folder(text);
    let all = |variables: &dyn Fn(u32, u16) -> Vec<(&'static str, String)>| {
        let port = free_port();
        let started: Vec<Rank> = (0..2).map(|rank| start(folder.path(), &variables(rank, port))).collect();
        for (rank, ran) in started.into_iter().map(ended).enumerate() {
            assert_eq!((ran.code, ran.out, &ran.err[..]), (0, format!("{rank} 3\n"), ""));
        }
    };
    let two = || "2".to_string();
    all(&|rank, port| own(rank, 2, port));
    let has_six = TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has_six {
        println!("no IPv6 here: an address of it is not tried");
    }
    for host in ["127.0.0.1", "::1"].into_iter().take(1 + usize::from(has_six)) {
        all(&|rank, port| {
            let port = (port - 1).to_string();
            let address = ("MASTER_ADDR", host.to_string());
            vec![("RANK", rank.to_string()), ("WORLD_SIZE", two()), address, ("MASTER_PORT", port)]
        });
    }
    all(&|rank, port| {
        let (own, size) = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
        let local = ("OMPI_COMM_WORLD_LOCAL_SIZE", two());
        vec![(own, rank.to_string()), (size, two()), local, ("CLK_PORT", port.to_string())]
    });
    all(&|rank, port| {
        let local = ("MPI_LOCALNRANKS", two());
        vec![("PMI_RANK", rank.to_string()), ("PMI_SIZE", two()), local, ("CLK_PORT", port.to_string())]
    });
    all(&|rank, port| {
        let (id, nodes) = (("SLURM_PROCID", rank.to_string()), ("SLURM_NNODES", "1".to_string()));
        vec![id, ("SLURM_NTASKS", two()), nodes, ("CLK_PORT", port.to_string())]
    });
}

#[test]
fn ranks_of_other_programs_are_refused() {
    let (one, other) = (folder("print(all_reduce(1))"), folder("print(all_reduce(2))"));
    let port = free_port();
    let with =
        |folder: &Path, rank| start(folder, &[own(rank, 2, port), vec![("CLK_TOKEN", "a word".into())]].concat());
    let (first, second) = (with(one.path(), 0), with(other.path(), 1));
    for ran in [ended(first), ended(second)] {
        assert!(
            ran.code == 1 && ran.err.contains("E0554") && ran.err.contains("rank 1 runs another program"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn foreign_connections_are_ignored() {
    let folder = folder("print(all_reduce(1))");
    let port = free_port();
    let first = start(folder.path(), &own(0, 2, port));
    let mut strangers: Vec<TcpStream> = vec![];
    while strangers.len() < 4 {
        strangers.extend(TcpStream::connect(("127.0.0.1", port)));
    }
    for (at, text) in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], &[2, 0, 0, 0, b'{', b'}'], &[]].iter().enumerate()
    {
        let _ = strangers[at].write_all(text);
    }
    let second = start(folder.path(), &own(1, 2, port));
    for ran in [ended(first), ended(second)] {
        assert_eq!((ran.code, &ran.out[..]), (0, "2\n"), "{}", ran.err);
    }
}

#[test]
fn many_foreign_connections_do_not_reject_a_rank() {
    let folder = folder("print(all_reduce(1))");
    let port = free_port();
    let first = start(folder.path(), &own(0, 2, port));
    // Opens more connections than rank 0 greets concurrently, so the other rank has to wait for its turn.
    let mut strangers: Vec<TcpStream> = vec![];
    while strangers.len() < 300 {
        strangers.extend(TcpStream::connect(("127.0.0.1", port)));
    }
    let second = start(folder.path(), &own(1, 2, port));
    for ran in [ended(first), ended(second)] {
        assert_eq!((ran.code, &ran.out[..]), (0, "2\n"), "{}", ran.err);
    }
}

/// Connects and sends the greeting of a rank that runs another version of Clk.
fn greet_as_another_version(port: u16) -> TcpStream {
    // The variant `Hello` with the protocol, the version, an empty program and token, the rank and the number of ranks.
    let hello = b"\x00\x02\x039.9\x00\x00\x01\x02";
    loop {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let bytes = [&(hello.len() as u32).to_le_bytes()[..], &hello[..], &[0; 8]].concat();
            stream.write_all(&bytes).expect("written");
            let mut answer = vec![];
            stream.read_to_end(&mut answer).expect("an answer");
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.contains("another version") || answer.contains("another token"), "{answer}");
            return stream;
        }
    }
}

/// A connection with a wrong greeting does not end the ranks: it comes from an unrelated process, or lacks the token
/// that the ranks share.
#[test]
fn foreign_greetings_do_not_end_the_ranks() {
    let folder = folder("print(all_reduce(1))");
    for token in ["", "a word"] {
        let port = free_port();
        let with = |rank| start(folder.path(), &[own(rank, 2, port), vec![("CLK_TOKEN", token.into())]].concat());
        let first = with(0);
        let _stranger = greet_as_another_version(port);
        let second = with(1);
        for ran in [ended(first), ended(second)] {
            assert_eq!((ran.code, &ran.out[..]), (0, "2\n"), "{}", ran.err);
        }
    }
    // If the other rank never connects, the error describes the refused connections.
    let port = free_port();
    let first = start(folder.path(), &[own(0, 2, port), vec![("CLK_RANKS_WAIT", "2".into())]].concat());
    let _stranger = greet_as_another_version(port);
    let ran = ended(first);
    assert!(
        ran.code == 1 && ran.err.contains("a connection was refused: rank 1 runs another version of Clk: 9.9"),
        "{}",
        ran.err
    );
}

/// Foreign connections that send a byte now and then do not delay a rank: their time limit is that of silent
/// connections.
#[test]
fn slow_foreign_connections_do_not_delay_the_start() {
    let folder = folder("print(all_reduce(1))");
    let port = free_port();
    // The ranks wait for each other for less time than the greeting of one foreign connection may take.
    let wait = || vec![("CLK_RANKS_WAIT", "9".to_string())];
    let first = start(folder.path(), &[own(0, 2, port), wait()].concat());
    let mut strangers: Vec<TcpStream> = vec![];
    while strangers.len() < 385 {
        strangers.extend(TcpStream::connect(("127.0.0.1", port)));
    }
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let drip = std::thread::spawn(move || {
        while stopped
            .recv_timeout(std::time::Duration::from_millis(200))
            .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            strangers.iter_mut().for_each(|stranger| stranger.write_all(&[1]).unwrap_or_default());
        }
    });
    let second = start(folder.path(), &[own(1, 2, port), wait()].concat());
    for ran in [ended(first), ended(second)] {
        assert_eq!((ran.code, &ran.out[..]), (0, "2\n"), "{}", ran.err);
    }
    drop(stop);
    drip.join().expect("it ends");
}

#[test]
fn a_wrong_token_is_refused() {
    let folder = folder("print(all_reduce(1))");
    let port = free_port();
    let with = |rank, token: &str| {
        let mut variables = own(rank, 2, port);
        variables.push(("CLK_TOKEN", token.to_string()));
        start(folder.path(), &variables)
    };
    let first = with(0, "right");
    let refused = ended(with(1, "wrong"));
    assert!(refused.code == 1 && refused.err.contains("another token"), "{}", refused.err);
    let second = with(1, "right");
    assert_eq!((ended(first).code, ended(second).code), (0, 0));
}

#[test]
fn used_ports_and_missing_ranks_are_errors() {
    let folder = folder("print(all_reduce(1))");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let ran = ended(start(folder.path(), &own(0, 2, port)));
    assert!(
        ran.code == 1 && ran.err.contains("another program uses it") && ran.err.contains("CLK_PORT"),
        "{}",
        ran.err
    );
    drop(listener);
    for rank in 0..2 {
        let mut variables = own(rank, 2, free_port());
        variables.push(("CLK_RANKS_WAIT", "0".into()));
        let ran = ended(start(folder.path(), &variables));
        assert!(ran.code == 1 && ran.err.contains("CLK_RANKS_WAIT"), "{}", ran.err);
    }
}

#[test]
fn ranks_wait_for_each_other_without_a_timeout() {
    let folder = folder("print(all_reduce(1))");
    for wait in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 40] {
        let port = free_port();
        let with =
            |rank| start(folder.path(), &[own(rank, 2, port), vec![("CLK_RANKS_WAIT", wait.to_string())]].concat());
        for ran in [with(0), with(1)].map(ended) {
            assert_eq!((ran.code, &ran.out[..]), (0, "2\n"), "{wait}: {}", ran.err);
        }
    }
    for wait in ["18446744073709551616", "-1", "soon"] {
        let ran =
            ended(start(folder.path(), &[own(1, 2, free_port()), vec![("CLK_RANKS_WAIT", wait.into())]].concat()));
        assert!(ran.code == 1 && ran.err.contains("E0554") && ran.err.contains("no number of seconds"), "{}", ran.err);
    }
}

#[test]
fn a_script_without_ranks_does_not_connect() {
    let folder = folder("let rank = [1]\nprint(rank[0])");
    let ran = ended(start(folder.path(), &own(1, 2, free_port())));
    assert_eq!((ran.code, &ran.out[..]), (0, "1\n"), "{}", ran.err);
}

#[test]
fn a_killed_rank_ends_the_others_at_any_point() {
    // Each rank writes a file to announce that it has started, since its output appears only at its end.
    let folder = folder(
        "let x = all_reduce(1)\nwrite_text(\"{rank()}.txt\", \"here\")\nif rank() == 2 { loop { } }\nprint(all_reduce(1))",
    );
    for killed in 0..3 {
        let port = free_port();
        let mut started: Vec<Rank> = (0..3).map(|rank| start(folder.path(), &own(rank, 3, port))).collect();
        let rank_file = |rank: u32| folder.path().join(format!("{rank}.txt"));
        while !(0..3).all(|rank| rank_file(rank).exists()) {
            std::thread::yield_now();
        }
        let mut gone = started.remove(killed as usize);
        gone.0.kill().expect("killed");
        for ran in started.into_iter().map(ended) {
            assert_eq!((ran.code, &ran.out[..]), (4, ""), "{}", ran.err);
            assert!(ran.err.contains(&format!("rank {killed} has ended: its process is gone")), "{}", ran.err);
        }
        (0..3).for_each(|rank| fs::remove_file(rank_file(rank)).expect("removed"));
    }
}

/// Starts a script on three ranks, waits until all run, and returns the launcher and the processes.
fn launched(folder: &Path) -> (Rank, Vec<u32>) {
    let mut command = clk(folder);
    command.args(["run", "--ranks", "3", "a.clk"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let launcher = Rank(command.spawn().expect("a launcher"));
    while !(0..3).all(|rank| folder.join(format!("{rank}.txt")).exists()) {
        std::thread::yield_now();
    }
    let children = Command::new("pgrep").args(["-P", &launcher.0.id().to_string()]).output().expect("pgrep");
    let text = String::from_utf8(children.stdout).expect("numbers");
    (launcher, text.lines().filter_map(|line| line.parse().ok()).collect())
}

fn is_alive(process: u32) -> bool {
    // A zombie process has ended, but was not waited for; it is not alive.
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// A stopped rank cannot notice by itself that its launcher is gone.
#[cfg(target_os = "linux")]
#[test]
fn a_stopped_rank_does_not_outlive_its_launcher() {
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let folder = folder("let x = all_reduce(1)\nwrite_text(\"{rank()}.txt\", \"here\")\nloop { }");
        let (launcher, children) = launched(folder.path());
        // SAFETY: only sends a signal to a process of this test.
        unsafe { libc::kill(children[1] as i32, libc::SIGSTOP) };
        // SAFETY: as above.
        unsafe { libc::kill(launcher.0.id() as i32, signal) };
        ended(launcher);
        while children.iter().any(|&child| is_alive(child)) {
            std::thread::yield_now();
        }
    }
}

/// Ranks that are killed while they write leave temporary files, which the next run removes.
#[cfg(target_os = "linux")]
#[test]
fn temporary_files_of_killed_ranks_are_removed_by_the_next_run() {
    let text = "let x = all_reduce(1)\nlet a = ones(2_000_000)\nwrite_text(\"{rank()}.txt\", \"here\")\nloop { save(\"a{rank()}.npy\", a) }";
    let folder = folder(text);
    let parts = || {
        let names = fs::read_dir(folder.path()).expect("listed").map(|entry| entry.expect("read").file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".part")).count()
    };
    // Repeats this until a rank is killed while it writes a file.
    while parts() == 0 {
        let (launcher, children) = launched(folder.path());
        // SAFETY: only sends signals to processes of this test.
        children.iter().for_each(|&child| unsafe {
            libc::kill(child as i32, libc::SIGKILL);
        });
        ended(launcher);
        (0..3).for_each(|rank| fs::remove_file(folder.path().join(format!("{rank}.txt"))).expect("removed"));
    }
    fs::write(folder.path().join("b.clk"), "save(\"b.npy\", ones(3))\n").expect("written");
    let ran = finish(clk(folder.path()).args(["run", "b.clk"]));
    assert_eq!((ran.code, parts()), (0, 0), "{}", ran.err);
}

#[cfg(target_os = "linux")]
#[test]
fn no_process_outlives_a_run() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let folder = folder("let x = all_reduce(1)\nwrite_text(\"{rank()}.txt\", \"here\")\nloop { }");
        let (launcher, children) = launched(folder.path());
        assert_eq!(children.len(), 3);
        // SAFETY: only sends a signal to a process of this test.
        unsafe { libc::kill(launcher.0.id() as i32, signal) };
        let ran = ended(launcher);
        let expected_code = if signal == libc::SIGKILL { -1 } else { 128 + signal };
        assert_eq!(ran.code, expected_code, "{}", ran.err);
        while children.iter().any(|&child| is_alive(child)) {
            std::thread::yield_now();
        }
    }
}
