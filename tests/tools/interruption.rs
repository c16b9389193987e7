//! Tests that every command can be interrupted, exits with the conventional code, and leaves no files or processes
//! behind.
//!
//! Most tests are deterministic: an operation runs with the stop flag set, and has to unwind because its loops poll the
//! flag. Some tests interrupt running processes and sessions; their timeouts only end tests that hang.

use std::sync::Arc;

use clk_base::stop::StopFlag;
use clk_base::{alloc, stop};
use clk_compile::{NoFiles, Session};
use clk_host::array::{Array, SliceSpec};
use clk_host::ops::{self, ReduceKind};
use clk_host::picture::chart::{self, ChartKind, ChartOptions};
use clk_host::problem::RuntimeError;
use clk_host::unwind::{UnwindReason, catch_stop};
use clk_host::value::HostValue;
use clk_host::{files, picture};
use clk_scalar::Scalar;
use clk_scalar::ops::{BinaryOp, MathFn, TextFn, UnaryOp};
use clk_testing::exec;

/// Number of elements in arrays: more than a loop processes between two polls of the stop flag, but few enough that
/// allocating them does not poll.
const N: usize = 3 * stop::POLL_INTERVAL;

fn floats(shape: &[usize]) -> HostValue {
    let items: Vec<f32> = (0..shape.iter().product::<usize>()).map(|i| (i % 97) as f32).collect();
    HostValue::Array(Array::from_shaped(&items, shape).expect("an array"))
}

fn integers() -> HostValue {
    HostValue::Array(Array::from_items(&(0..N as i32).map(|i| i % 7 + 1).collect::<Vec<_>>()).expect("an array"))
}

fn array(value: &HostValue) -> &Array {
    match value {
        HostValue::Array(array) => array,
        other => panic!("an array was expected, not {other:?}"),
    }
}

/// An operation that processes all elements of its arguments, after its name.
type Work = (&'static str, Box<dyn Fn()>);

macro_rules! work {
    ($list:ident, $name:expr, $do:expr) => {
        $list.push(($name, Box::new(move || drop($do))))
    };
}

/// Forces the result of an operation, which is computed lazily.
fn computed(result: Result<HostValue, RuntimeError>) -> Result<(), RuntimeError> {
    if let HostValue::Array(array) = result? {
        array.bytes()?;
    }
    Ok(())
}

fn elementwise() -> Vec<Work> {
    let mut all: Vec<Work> = vec![];
    let (row, one, tall, wide) = (floats(&[N]), HostValue::f32(1.5), floats(&[N / 3, 3]), floats(&[3, N / 3]));
    let (truths, ints) = (ops::binary(exec(), BinaryOp::Lt, &row, &one).expect("truths"), integers());
    for (name, op) in [("+", BinaryOp::Add), ("<", BinaryOp::Lt), ("==", BinaryOp::Eq), ("**", BinaryOp::Pow)] {
        let (a, b) = (row.clone(), row.clone());
        work!(all, name, computed(ops::binary(exec(), op, &a, &b)));
    }
    let (a, b) = (row.clone(), one.clone());
    work!(all, "a scalar", computed(ops::binary(exec(), BinaryOp::Mul, &a, &b)));
    let (a, b) = (tall.clone(), floats(&[3]));
    work!(all, "short rows", computed(ops::binary(exec(), BinaryOp::Mul, &a, &b)));
    let (a, b) = (ints.clone(), ints.clone());
    work!(all, "a search for zeros", computed(ops::binary(exec(), BinaryOp::Div, &a, &b)));
    let a = row.clone();
    work!(all, "-", computed(ops::unary(exec(), UnaryOp::Neg, &a)));
    let a = row.clone();
    work!(all, "sin", computed(ops::math(exec(), MathFn::Sin, std::slice::from_ref(&a))));
    let a = row.clone();
    work!(
        all,
        "clamp",
        computed(ops::math(exec(), MathFn::Clamp, &[a.clone(), HostValue::Float(0.0), HostValue::Float(9.0)]))
    );
    let (a, b, c) = (truths, row.clone(), row.clone());
    work!(all, "select", computed(ops::select(exec(), &a, &b, &c)));
    let a = row.clone();
    work!(all, "convert", computed(ops::convert(exec(), Scalar::F64, &a)));
    let a = row.clone();
    work!(all, "close", computed(ops::close(exec(), &a, &a, 1e-5, 1e-8)));
    let (a, b) = (floats(&[N / 3, 3]), floats(&[3, 1]));
    work!(all, "a matrix by a vector", ops::matmul(exec(), &a, &b));
    let (a, b) = (wide, tall);
    work!(all, "a product with a long inner axis", ops::matmul(exec(), &a, &b));
    let (a, b) = (floats(&[400, 300]), floats(&[300, 400]));
    work!(all, "@", ops::matmul(exec(), &a, &b));
    let a = row.clone();
    work!(all, "dot", ops::dot(exec(), &a, &a));
    all
}

fn reductions_and_rearrangements() -> Vec<Work> {
    let mut all: Vec<Work> = vec![];
    let (row, ints, tall) = (floats(&[N]), integers(), floats(&[N / 3, 3]));
    let truths = ops::binary(exec(), BinaryOp::Ge, &row, &HostValue::Float(0.0)).expect("truths");
    for how in [
        ReduceKind::Sum,
        ReduceKind::Prod,
        ReduceKind::Mean,
        ReduceKind::Min,
        ReduceKind::Max,
        ReduceKind::Argmin,
        ReduceKind::Argmax,
    ] {
        for axis in [None, Some(0), Some(1)] {
            let a = tall.clone();
            work!(all, how.name(), computed(ops::reduce(exec(), how, &a, axis)));
        }
    }
    let a = ints.clone();
    work!(all, "a sum of integers", ops::reduce(exec(), ReduceKind::Sum, &a, None));
    let a = truths;
    work!(all, "all", ops::reduce(exec(), ReduceKind::All, &a, None));
    let a = row.clone();
    work!(all, "cumsum", computed(ops::cumsum(exec(), &a)));
    let a = ints;
    work!(all, "sort", ops::sort(exec(), &a, ops::SortOrder::default()));
    let a = tall.clone();
    work!(all, "transpose", computed(ops::transpose(exec(), &a, None)));
    let a = ops::reshape(&row, &[3, -1, 4]).expect("three axes");
    work!(all, "transpose of three axes", computed(ops::transpose(exec(), &a, None)));
    let a = row.clone();
    work!(all, "flip", computed(ops::flip(exec(), &a, 0)));
    let a = tall.clone();
    work!(all, "a slice of many runs", computed(ops::index(exec(), &a, &[SliceSpec::ALL, SliceSpec::At(1)])));
    let a = tall.clone();
    work!(
        all,
        "an assignment to a slice",
        array(&a).clone().assign(&[SliceSpec::ALL, SliceSpec::At(1)], &HostValue::f32(1.0))
    );
    let a = row.clone();
    work!(all, "an assignment of one value", array(&a).clone().assign(&[SliceSpec::ALL], &HostValue::f32(1.0)));
    let parts: Vec<HostValue> = (0..N).map(|_| floats(&[1])).collect();
    work!(all, "concat of rows", ops::concat(exec(), &[floats(&[N / 3, 3]), floats(&[N / 3, 3])], 1));
    work!(all, "a literal", ops::literal(exec(), &vec![HostValue::Float(1.0); N], None));
    drop(parts);
    for (name, make) in [
        ("full", (|| ops::full(&[N as i64], &HostValue::Float(2.0))) as fn() -> _),
        ("linspace", || ops::linspace(&HostValue::Float(0.0), &HostValue::Float(1.0), N as i64)),
        ("arange", || ops::arange(&[HostValue::Int(N as i128)])),
        ("random", || ops::random(&[4 * N as i64], 1, Scalar::F32)),
        ("random_normal", || ops::random_normal(&[N as i64], 1, Scalar::F64)),
        ("random_int", || ops::random_int(&HostValue::Int(0), &HostValue::Int(9), &[N as i64], 1)),
    ] {
        work!(all, name, make());
    }
    let words: String = "some words ".repeat(N / 2);
    let texts = ops::text::call(TextFn::Split, &[HostValue::str(words.as_str())]).expect("texts");
    let (words, comma) = (HostValue::str(words), HostValue::str(","));
    for (f, more) in [
        (TextFn::Split, vec![]),
        (TextFn::Split, vec![HostValue::str(" ")]),
        (TextFn::Replace, vec![HostValue::str("s"), comma.clone()]),
        (TextFn::Upper, vec![]),
    ] {
        let values: Vec<HostValue> = [words.clone()].into_iter().chain(more).collect();
        work!(all, "a function of text", ops::text::call(f, &values));
    }
    for f in [TextFn::Trim, TextFn::Find, TextFn::Join, TextFn::StartsWith] {
        let more = if f == TextFn::Trim { vec![] } else { vec![comma.clone()] };
        let values: Vec<HostValue> = [texts.clone()].into_iter().chain(more).collect();
        work!(all, "a function of texts", ops::text::call(f, &values));
    }
    let lines = HostValue::str("line\n".repeat(N));
    work!(all, "lines", ops::text::call(TextFn::Lines, std::slice::from_ref(&lines)));
    let numbers = HostValue::Strings(vec!["1.5".into(); N].into());
    work!(all, "parse of texts", ops::parse(Scalar::F64, &numbers));
    let a = texts.clone();
    work!(all, "sort of texts", ops::sort(exec(), &a, ops::SortOrder::default()));
    let a = texts.clone();
    work!(all, "concat of texts", ops::concat(exec(), &[a.clone(), a.clone()], 0));
    let a = texts.clone();
    work!(all, "flip of texts", ops::flip(exec(), &a, 0));
    let a = texts.clone();
    work!(all, "== of texts", ops::binary(exec(), BinaryOp::Eq, &a, &a));
    work!(all, "< of texts and a text", ops::binary(exec(), BinaryOp::Lt, &texts, &comma));
    all
}

fn files_and_pictures() -> Vec<Work> {
    let mut all: Vec<Work> = vec![];
    // Large enough that even the copy of the bytes polls for interrupts.
    let large = HostValue::Array(Array::zeros(Scalar::U8, &[5000, 5000]).expect("an array"));
    for name in ["x.npy", "x.npz", "x.safetensors", "x.png", "x.csv"] {
        let a = if name == "x.csv" { floats(&[N / 3, 3]) } else { large.clone() };
        let bytes = files::encode(name, &[(None, &a)]).expect("a file");
        work!(all, name, files::encode(name, &[(None, &a)]));
        work!(all, name, files::decode(name, &bytes));
    }
    for name in ["x.txt", "x.mtx", "x.json", "x.apng"] {
        let a = if name == "x.apng" { floats(&[2, 300, 300]) } else { floats(&[N / 3, 3]) };
        let bytes = files::encode(name, &[(None, &a)]).expect("a file");
        work!(all, name, files::encode(name, &[(None, &a)]));
        work!(all, name, files::decode(name, &bytes));
    }
    let samples = [(Some("samples"), &large), (Some("rate"), &HostValue::of(8000))];
    let bytes = files::encode("x.wav", &samples).expect("a file");
    work!(all, "x.wav", files::decode("x.wav", &bytes));
    let bytes = std::fs::read(clk_testing::root().join("tests/pictures/color.jpg")).expect("a picture");
    work!(all, "x.jpg", files::decode("x.jpg", &bytes));
    let texts = HostValue::Strings(vec!["a text".into(); N].into());
    let bytes = files::encode("t.csv", &[(Some("name"), &texts)]).expect("a file");
    let columns = texts.clone();
    work!(all, "t.csv", files::encode("t.csv", &[(Some("name"), &columns)]));
    work!(all, "t.csv", files::decode("t.csv", &bytes));
    let (x, y) = (floats(&[N]), floats(&[N]));
    for path in ["p.png", "p.svg"] {
        let values = [x.clone(), y.clone()];
        for kind in [ChartKind::Plot, ChartKind::Scatter] {
            let values = values.clone();
            work!(all, path, chart::figures(kind, &values, &ChartOptions::default()));
        }
        let figures = chart::figures(ChartKind::Plot, &values, &ChartOptions::default()).expect("a figure");
        work!(all, path, picture::chart_file(path, &figures, None));
        let a = floats(&[300, 300]);
        work!(all, path, picture::heat_file(path, array(&a), None));
        let a = floats(&[300, 300]);
        work!(all, path, picture::image_file(path, array(&a), None));
    }
    let samples = [x.clone()];
    work!(all, "hist", chart::figures(ChartKind::Hist, &samples, &ChartOptions::default()));
    let frames = floats(&[3, 300, 300]);
    work!(all, "frames", picture::heat_file("p.png", array(&frames), Some(20.0)));
    work!(all, "zeros that are written", Array::zeros(Scalar::F32, &[8 << 20]));
    work!(all, "a copy", alloc::copy(&vec![1u8; 2 * stop::POLL_BYTES]));
    all
}

#[test]
fn every_loop_over_data_can_be_stopped() {
    let mut deaf = vec![];
    for (name, work) in elementwise().into_iter().chain(reductions_and_rearrangements()).chain(files_and_pictures()) {
        if !matches!(catch_stop(StopFlag::new(true.into()), work), Err(UnwindReason::Stopped)) {
            deaf.push(name);
        }
    }
    assert!(deaf.is_empty(), "these did not stop: {deaf:?}");
}

#[test]
fn compilation_can_be_stopped_in_each_of_its_stages() {
    let lines: String = (0..200).map(|i| format!("let a{i} = {i} + {i} * 2\n")).collect();
    let nested = format!("let x = {}1{}\n", "(".repeat(150), ")".repeat(150));
    let literal = format!("let x = [{}]\n", "1, ".repeat(20_000));
    let bodies: String = (0..600).map(|i| format!("fn f{i}(x: f32) -> f32 {{ x * {i}.0 }}\n")).collect();
    for text in [lines, nested, literal, bodies] {
        let stopped =
            catch_stop(StopFlag::new(true.into()), || Session::default().add("<text>", &text, &NoFiles).failed());
        assert!(matches!(stopped, Err(UnwindReason::Stopped)), "{}", &text[..20]);
    }
    // The kernel is parsed and checked without interruption. Then lowering, the passes, and loading on the simulator
    // are each interrupted.
    let mut session = Session::default();
    let kernel = "const C: i32 = 3\nkernel k(out y: [i32; N]) threads(i: N) { for j in 0..C { y[i] = i * j } }\n";
    assert!(!session.add("<text>", kernel, &NoFiles).failed());
    let kernel = session.program.kernels.iter().next().expect("a kernel").0;
    let instance = clk_lower::Instance::new(kernel, vec![]);
    let lowered = clk_lower::lower(&session.program, &instance).expect("lowered");
    let prepared = Arc::new(clk_pass::prepare(lowered.clone()).expect("prepared"));
    let stages: [(&str, Box<dyn FnOnce()>); 3] = [
        ("lower", Box::new(|| drop(clk_lower::lower(&session.program, &instance)))),
        ("pass", Box::new(|| drop(clk_pass::prepare(lowered)))),
        (
            "simulator",
            Box::new(|| {
                use clk_runtime::Device;
                drop(clk_sim::Simulator::default().load(prepared, None));
            }),
        ),
    ];
    for (name, stage) in stages {
        assert!(matches!(catch_stop(StopFlag::new(true.into()), stage), Err(UnwindReason::Stopped)), "{name}");
    }
}

#[cfg(target_os = "linux")]
mod processes {
    use std::io::{Read, Write};
    use std::path::Path;
    use std::process::{Child, Command, Output, Stdio};
    use std::time::{Duration, Instant};

    use clk_testing::clk;

    /// Timeout of the tests: interrupted work ends sooner, and uninterrupted work would take longer.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Sends a signal to a child that has not been waited for.
    fn signal(child: &Child, signal: libc::c_int) {
        // SAFETY: only sends a signal.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
    }

    /// Waits until a condition holds.
    fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !so() {
            assert!(start.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for a child to end.
    fn ended(mut child: Child, what: &str) -> Output {
        wait_until(&format!("the end of: {what}"), || child.try_wait().expect("a state").is_some());
        child.wait_with_output().expect("output")
    }

    /// Signals, and the exit codes of processes that they end.
    const SIGNALS: [(libc::c_int, i32); 3] = [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129)];

    fn start(folder: &Path, words: &[&str]) -> Child {
        clk(folder)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("clk")
    }

    /// Starts a script that writes a file and then runs `then`.
    fn script(folder: &Path, then: &str) -> Child {
        std::fs::write(folder.join("a.clk"), format!("save(\"begun.npy\", [1])\n{then}\n")).expect("written");
        let _ = std::fs::remove_file(folder.join("begun.npy"));
        let child = start(folder, &["run", "a.clk"]);
        wait_until("the script begins", || folder.join("begun.npy").exists());
        child
    }

    const EMPTY: &str =
        "kernel empty(out y: [i32; 1]) grid(2147483647) block(1) { if block_idx.x < 0 { y[0] = 1 } }\nempty()";

    #[test]
    fn long_operations_end_by_every_signal() {
        let folder = tempfile::tempdir().expect("a folder");
        for (then, code) in [
            (EMPTY, "interrupted"),
            ("loop { }", "E0599"),
            ("fn fib(n: i32) -> i32 { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }\nprint(fib(60))", "E0599"),
            ("let x = ones(3000, 3000)\nloop { let y = x @ x }", "E0599"),
            ("let x = random(2000000)\nloop { let y = sort(x) }", "E0599"),
        ] {
            for (number, exit) in SIGNALS {
                let child = script(folder.path(), then);
                signal(&child, number);
                let output = ended(child, then);
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(exit), "{then}: {text}");
                // On a busy machine, the script may not poll in time. The process then ends itself, and its message has
                // no location.
                assert!(text.contains(code) || text.contains("error[E0599]: interrupted"), "{then}: {text}");
            }
        }
    }

    #[test]
    fn waiting_processes_end_by_every_signal() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("k.clk"), "kernel k(out y: [i32; N]) threads(i: N) { y[i] = i }\n")
            .expect("written");
        for words in [&["run", "-"][..], &["fmt", "-"], &["lsp"], &["launch", "k.clk", "--serve"], &["launch", "k.clk"]]
        {
            for (number, exit) in SIGNALS {
                let mut child = start(folder.path(), words);
                // Signals are handled once the handler thread runs; before that they have their default action.
                let tasks = format!("/proc/{}/task", child.id());
                wait_until("it listens", || {
                    let names = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
                    let thread_name =
                        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
                    names.map(thread_name).any(|name| name.trim() == "clk-signals") || !Path::new("/proc").exists()
                });
                // The thread has its name slightly before it handles signals.
                std::thread::sleep(Duration::from_millis(50));
                let stdin = child.stdin.take();
                signal(&child, number);
                let output = ended(child, &words.join(" "));
                drop(stdin);
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(exit), "{words:?}: {text}");
            }
        }
    }

    #[test]
    fn interrupted_writes_leave_no_partial_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = |folder: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(folder).expect("listed").flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        for (number, exit) in SIGNALS {
            let child = script(folder.path(), "let x = ones(30000000)\nloop { save(\"x.npy\", x) }");
            wait_until("a part is there", || names(folder.path()).iter().any(|name| name.ends_with(".part")));
            signal(&child, number);
            assert_eq!(ended(child, "save").status.code(), Some(exit));
            let _ = std::fs::remove_file(folder.path().join("x.npy"));
            let mut left = names(folder.path());
            left.sort();
            assert_eq!(left, ["a.clk", "begun.npy"]);
        }
    }

    #[test]
    fn noninteractive_sessions_survive_an_interrupt() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = start(folder.path(), &["repl", "--plain"]);
        let mut input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in std::io::BufRead::lines(std::io::BufReader::new(output)).map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let next = || lines.recv_timeout(PATIENCE).expect("a line");
        input.write_all(b"var n = 7\nprint(\"ready\")\n").expect("written");
        while next() != "ready" {}
        for long in ["n = 8; loop { }", "let s = sum(ones(3000, 3000) @ ones(3000, 3000))"] {
            let file = folder.path().join("begun.npy");
            let _ = std::fs::remove_file(&file);
            input.write_all(format!("save(\"begun.npy\", [1]); {long}\n").as_bytes()).expect("written");
            wait_until("it begins", || file.exists());
            signal(&child, libc::SIGINT);
            input.write_all(b"print(\"n = {n}\")\n").expect("written");
            assert_eq!(next(), "n = 7", "the session continues with unchanged variables");
        }
        signal(&child, libc::SIGTERM);
        let mut text = String::new();
        let status = child.wait().expect("the end");
        child.stderr.take().expect("a pipe").read_to_string(&mut text).expect("text");
        assert_eq!(status.code(), Some(143), "{text}");
        assert_eq!(text.matches("[ <entry ").count(), 2, "{text}");
        drop(input);
    }

    #[test]
    fn ended_sessions_remove_editor_files() {
        use std::fs;
        use std::os::unix::fs::PermissionsExt;
        let (folder, temporary) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let editor = folder.path().join("editor");
        fs::write(&editor, "#!/bin/sh\ntest -s \"$1\" && kill -TERM $PPID && exec sleep 60 >/dev/null 2>&1\n")
            .expect("written");
        fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).expect("runs");
        let mut command = clk(folder.path());
        command.args(["repl", "--plain"]).env("EDITOR", &editor).env_remove("VISUAL").env("TMPDIR", temporary.path());
        let ran = clk_testing::finish_with_input(&mut command, "let x = 1\n:edit\n");
        assert_eq!(ran.code, 143, "{}{}", ran.out, ran.err);
        assert_eq!(fs::read_dir(temporary.path()).expect("listed").count(), 0);
    }

    /// Returns a command with resource limits.
    fn limited(folder: &Path, words: &[&str], limits: &'static [(libc::__rlimit_resource_t, u64)]) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = clk(folder);
        command.args(words);
        // SAFETY: only a system call is made between fork and exec.
        unsafe {
            command.pre_exec(move || {
                for &(resource, most) in limits {
                    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
                    if libc::setrlimit(resource, &raw const limit) != 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        command
    }

    #[test]
    fn file_size_limits_are_write_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.clk"), "save(\"x.npy\", ones(1000000))\n").expect("written");
        let ran = clk_testing::finish(&mut limited(folder.path(), &["run", "a.clk"], &[(libc::RLIMIT_FSIZE, 1 << 20)]));
        assert!(
            ran.code == 1 && ran.err.contains("E0702") && ran.err.contains("too large"),
            "{} {}",
            ran.code,
            ran.err
        );
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1, "no part is left");
    }

    /// With too little address space for an allocator arena per thread, each small allocation used to cost a dozen
    /// system calls. Saving this file then took 20 s instead of 1 s.
    #[test]
    fn limited_address_space_does_not_slow_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.clk"), "save(\"x.csv\", ones(1000, 3000))\n").expect("written");
        let limits: &[_] = &[(libc::RLIMIT_AS, 600 << 20), (libc::RLIMIT_CPU, 14)];
        let ran = clk_testing::finish(&mut limited(folder.path(), &["run", "--workers", "2", "a.clk"], limits));
        assert!(ran.code == 0 || ran.err.contains("E0509"), "{} {}", ran.code, ran.err);
    }

    /// Each script runs out of memory at a different point.
    #[test]
    fn oversized_arrays_are_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let literal = format!("let x = [{}]\nprint(len(x))\n", "1.5, ".repeat(2_500_000));
        // The memory limit suffices for the process itself, mostly the address space of its stack, but not for the data
        // of the scripts.
        let scripts = [
            "let x = zeros(200000000)\nprint(x[0])\n",
            "let x = ones(60000000)\nlet y = x + 1.0\nprint(y[0])\n",
            "let x = ones(60000000)\nsave(\"x.npy\", x)\n",
            "let x = ones(60000000)\nsave(\"x.npz\", x = x)\n",
            "let x = ones(60000000)\nsave(\"x.safetensors\", x = x)\n",
            "let x = ones(7000, 7000)\nheat(\"x.png\", x)\n",
            "let x = ones(60000000)\nplot(\"x.png\", x)\n",
            "let x = ones(60000000)\nprint(sum(sort(x)))\n",
            "kernel k(out y: [f32; N]) threads(i: N) { y[i] = 1.0 }\nprint(k(N = 200000000)[0])\n",
            &literal,
        ];
        for script in scripts {
            std::fs::write(folder.path().join("a.clk"), script).expect("written");
            let few: &[_] = &[(libc::RLIMIT_AS, 1000 << 20)];
            let mut command = limited(folder.path(), &["run", "--workers", "2", "a.clk"], few);
            let ran = clk_testing::finish(&mut command);
            let short: String = script.chars().take(60).collect();
            assert!(ran.code == 1 || ran.code == 70, "{short}: {} {}", ran.code, ran.err);
            assert!(ran.err.contains("E0509"), "{short}: {} {}", ran.code, ran.err);
            let parts = std::fs::read_dir(folder.path()).expect("listed").flatten();
            assert_eq!(parts.filter(|e| e.file_name().to_string_lossy().ends_with(".part")).count(), 0, "{short}");
        }
    }
}

#[test]
fn empty_arrays_take_no_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "let x = zeros(0, 2147483647)\nprint(x)\nlet y = zeros(0, 0) @ zeros(0, 2147483647)\nprint(shape(y))\n\
                  print(shape(zeros(0, 2147483647) @ zeros(2147483647, 0)))\nprint(shape(transpose(x)))\n\
                  save(\"x.csv\", x)\nsave(\"x.npy\", x)\nprint(shape(load_array(\"x.npy\")))\nprint(\"{x:.2}\")\n";
    std::fs::write(folder.path().join("a.clk"), script.replace("load_array", "load")).expect("written");
    let ran = clk_testing::run(folder.path(), &["run", "a.clk"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!(ran.out, "[]\n(0, 2147483647)\n(0, 0)\n(2147483647, 0)\n(0, 2147483647)\n[]\n");
}
