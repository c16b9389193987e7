//! Tests short programs whose expansion is exponential. If its parts can be shared, compiling must take linear time;
//! otherwise the program must be rejected with a diagnostic. If the work doubled with each line, a test would run for
//! years or exhaust memory. The timeout only ends tests that hang.

use std::fmt::Write;
use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use clk_base::diag::Diagnostic;
use clk_compile::{NoFiles, Session};
use clk_testing::{diagnostics, run};

const HANG: Duration = Duration::from_secs(120);

/// Returns the compile-time errors of a text.
fn diagnostics_of(text: String) -> Vec<Diagnostic> {
    within(move || {
        let mut session = Session::default();
        let mut outcome = session.add("<text>", &text, &NoFiles);
        if !outcome.failed() {
            outcome.diagnostics.extend(session.examine());
        }
        outcome.diagnostics.retain(Diagnostic::is_error);
        outcome.diagnostics
    })
}

fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    thread.spawn(move || drop(done.send(work()))).expect("a thread");
    wait.recv_timeout(HANG).expect("an end")
}

fn codes(diagnostics: &[Diagnostic]) -> Vec<&'static str> {
    diagnostics.iter().map(|d| d.code).collect()
}

/// Returns the line `first`, then `count` copies of `each`. In each copy, `{b}` becomes a new name, and `{a}` the new
/// name of the copy before it.
fn levels(prefix: &str, first: &str, each: &str, count: usize) -> String {
    let mut text = format!("{first}\n");
    for n in 1..=count {
        let (a, b) = (format!("{prefix}{}", n - 1), format!("{prefix}{n}"));
        writeln!(text, "{}", each.replace("{a}", &a).replace("{b}", &b)).expect("written");
    }
    text
}

#[test]
fn constants_are_computed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let floats = levels("C", "const C0 = 1.0", "const {b} = ({a} + {a}) / 2.0", 50);
    let ints = levels("D", "const D0 = 3", "const {b} = min({a}, {a})", 50);
    let calls = levels("E", "fn same(x: i32) -> i32 { x }\nconst E0 = 3", "const {b} = max(same({a}), {a})", 50);
    let kernel = "kernel k(out y: [f32; D50]) threads(i: D50) { y[i] = C50 + f32(E50) }\n";
    fs::write(folder.path().join("a.clk"), format!("{floats}{ints}{calls}{kernel}print(C50, D50, E50, k())\n"))
        .expect("written");
    let ran = run(folder.path(), &["run", "a.clk"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "1.0 3 3 [4. 4. 4.]\n"), "{}", ran.err);
}

/// Chains of constants in which each one applies an operator to two uses of the previous one, for all operators and
/// several integer types. Also a chain of defaults of compile-time parameters.
#[test]
fn integer_constants_are_computed_once() {
    let mut text = String::new();
    let mut last = vec![];
    for (suffix, ty) in [("", "i32"), ("i64", "i64"), ("u8", "u8"), ("u64", "u64")] {
        for (at, op) in ["+", "-", "*", "/", "%", "**", "&", "|", "^", "<<", ">>"].into_iter().enumerate() {
            let name = format!("C{ty}_{at}_");
            let each = format!("const {{b}} = ({{a}} {op} {{a}}) * 0{suffix} + 1{suffix}");
            text += &levels(&name, &format!("const {name}0 = 1{suffix}"), &each, 60);
            last.push(format!("{name}60"));
        }
    }
    let params: Vec<String> = (1..60).map(|n| format!("const K{n}: i32 = K{0} + K{0} - K{0}", n - 1)).collect();
    text += &format!("fn first<const K0: i32 = 1, {}>(x: [f32; K59]) -> f32 {{ x[0] }}\n", params.join(", "));
    text += &format!("assert(first(ones(1)) == 1.0)\nprint({})\n", last.join(", "));
    let first = diagnostics_of(text);
    assert_eq!(codes(&first), [""; 0], "{first:#?}");
}

/// Each local is computed from the two locals before it. The prover traces the origins of the last one at a condition,
/// a barrier and an access.
#[test]
fn value_origins_are_computed_once() {
    let mut text = "kernel k(a: i32, b: i32, x: [f32; N], inout y: [f32; N]) grid(ceil_div(N, 32)) block(32)
        assume a >= 0, b >= 0, a < 1000, b < 1000 expect bank_ways <= 1, sectors <= 4
    {
        shared s: [f32; 2048]
        let (t, i) = (thread_idx.x, global_idx.x)
        let (q0, q1) = (a / 2, b / 3)\n"
        .to_string();
    for n in 2..60 {
        writeln!(text, "let q{n} = (q{} + q{}) / 2", n - 1, n - 2).expect("written");
    }
    text += "s[q59 + t] = 1.0\nif q59 > 3 { barrier() }\nif i < N { y[i] = x[min(i, q59)] }\n}\n";
    let verdicts = within(move || {
        let mut session = Session::default();
        let outcome = session.add("<text>", &text, &NoFiles);
        assert!(!outcome.failed(), "{:?}", outcome.diagnostics);
        let (id, _) = session.program.kernels.iter().next().expect("a kernel");
        clk_prove::prove_kernel(&session.program, id).verdicts.len()
    });
    assert_eq!(verdicts, 8);
}

#[test]
fn literals_of_many_elements() {
    let text = format!("let x = [{}1.5]\nprint(x[0])", "1.5, ".repeat(200_000));
    let first = within(move || diagnostics_of(text));
    assert_eq!(codes(&first), [""; 0], "{first:#?}");
}

#[test]
fn constants_may_use_later_constants() {
    let chain: String = (0..20_000).map(|k| format!("const C{k} = C{} + 1\n", k + 1)).collect();
    let first = within(move || diagnostics_of(format!("{chain}const C20000 = 1\nconst CIRCLE = CIRCLE\nprint(C0)")));
    assert_eq!(codes(&first), ["E0327"], "{first:#?}");
}

#[test]
fn tuples_and_structs_have_a_bound() {
    for count in [13, 24, 60, 150] {
        let tuples = levels("t", "let t0 = (1.0, 2.0)", "let {b} = ({a}, {a})", count);
        assert_eq!(codes(&diagnostics_of(tuples))[0], "E0329", "{count} levels");
        let device = levels("t", "let t0 = (x[i], 2.0)", "let {b} = ({a}, {a})", count);
        let kernel = format!("kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {{\n{device}y[i] = t{count}.0\n}}");
        assert_eq!(codes(&diagnostics_of(kernel))[0], "E0329", "{count} levels");
        let structs = levels("S", "struct S0 { a: f32 }", "struct {b} { a: {a}, b: {a} }", count);
        let large = diagnostics_of(structs);
        assert_eq!(codes(&large), ["E0329"], "{count} levels");
        assert_eq!(large[0].notes.first().map(String::as_str), Some("`S13` holds 2 of `S12`"));
    }
    let nested =
        format!("fn pair<T>(x: T) -> (T, T) {{ (x, x) }}\nlet t = {}1.0{}", "pair(".repeat(40), ")".repeat(40));
    assert_eq!(codes(&diagnostics_of(nested))[0], "E0329");
    let endless = "fn f<T>(x: T) -> f32 { f((x, x)) }\n\
        kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = f(x[i]) }";
    assert!(!diagnostics_of(endless.into()).is_empty());
    // This struct has 2048 vector fields; realistic structs have a few dozen fields.
    let fine = levels("S", "struct S0 { a: f32x4 }", "struct {b} { a: {a}, b: {a} }", 11);
    assert_eq!(codes(&diagnostics_of(fine)), Vec::<&str>::new());
}

#[test]
fn calls_have_a_bound() {
    let kernel = |count: usize| {
        let functions =
            levels("go", "fn go0(x: f32) -> f32 { sin(x) }", "fn {b}(x: f32) -> f32 { {a}(x) + {a}(x + 1.0) }", count);
        format!("{functions}kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {{ y[i] = go{count}(x[i]) }}\n")
    };
    for count in [24, 60, 120] {
        let large = diagnostics_of(kernel(count));
        assert_eq!(codes(&large), ["E0490"], "{count} levels");
        let note = large[0].notes.first().expect("the chain");
        assert!(note.contains("calls `go") && note.ends_with("2 times"), "{note}");
    }
    assert_eq!(codes(&diagnostics_of(kernel(8))), Vec::<&str>::new());
}

/// The search for similar names is slow, so it runs only for the diagnostics that are shown.
#[test]
fn thousands_of_undefined_names_are_reported_quickly() {
    let mut script = String::from("let known = 1\n");
    let mut functions = String::new();
    for n in 0..8000 {
        writeln!(script, "let value{n} = knwon + other{n}").expect("written");
        writeln!(functions, "fn function{n}(x: f32) -> f32 {{ functoin{n}(x) }}").expect("written");
    }
    for (text, near) in [(script, "did you mean `known`?"), (functions, "did you mean `function0`?")] {
        let errors = diagnostics_of(text);
        assert_eq!(errors.len(), 20);
        assert_eq!(codes(&errors)[0], "E0201");
        assert_eq!(errors[0].help, [near]);
        assert!(errors.iter().all(|d| d.misspelled.is_none()));
    }
}

#[test]
fn names_of_a_million_letters() {
    let (a, b) = ("a".repeat(1_000_000), "b".repeat(1_000_000));
    let text = format!(
        "let {a}c = 1\nprint({a}b)\nprint({b})\nlet t = math.{a}\nstruct {a}d {{ {a}e: f32 }}\nlet u: {a}f = 1"
    );
    assert_eq!(codes(&diagnostics_of(text))[0], "E0201");
}

#[test]
fn a_table_of_many_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let header: Vec<String> = (0..100_000).map(|n| format!("column{n}")).collect();
    let numbers = vec!["1"; header.len()].join(",");
    fs::write(folder.path().join("good.csv"), format!("{}\n{numbers}\n", header.join(","))).expect("written");
    fs::write(folder.path().join("bad.csv"), format!("{},column7\n{numbers},1\n", header.join(","))).expect("written");
    let at = folder.path().to_path_buf();
    let ran = within(move || run(&at, &["-e", "let t = load(\"good.csv\")\nprint(t.column99999)"]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "[1.]\n"), "{}", ran.err);
    let ran = run(folder.path(), &["--json", "-e", "load(\"bad.csv\")"]);
    let titles: Vec<_> = diagnostics(&ran).iter().map(|d| d["title"].as_str().unwrap_or("").to_string()).collect();
    assert_eq!(titles, ["`bad.csv` has two columns called `column7`"]);
}

/// The analysis of the atomic operations in a loop examines each expression once, although each value occurs twice in
/// the next expression.
#[test]
fn atomic_results_in_loops_are_visited_once() {
    let sums: String = (0..60).map(|k| format!("        let v{} = v{k} * v{k}\n", k + 1)).collect();
    let text = format!(
        "kernel k(x: [i32; N], inout y: [i32; N]) threads(i: N) {{\n    let v0 = x[i]\n    while atomic_or(y[0], 1) == 0 {{\n{sums}        atomic_max(y[0], v60)\n    }}\n}}\nvar y = [0]\nk([0], y)\nprint(y)\n"
    );
    let ran = within(move || run(std::path::Path::new("."), &["-e", &text]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "[1]\n"), "{}", ran.err);
}

/// The work of these programs and commands is linear in the text: four times the text takes less than eight times the
/// processor time. Quadratic work would take sixteen times as long.
#[cfg(unix)]
#[test]
fn work_is_linear_in_the_text() {
    let loops = |n: usize| {
        let all: String = (0..n).map(|k| format!("    for k{k} in 0..N {{ s += x[i] }}\n")).collect();
        let head = "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {\n    var s = 0.0\n";
        format!("{head}{all}    y[i] = s\n}}\nprint(k(ones(4)))\n")
    };
    // Each loop changes its own variable, and the end of the kernel reads all of them.
    let locals = |n: usize| {
        let all: String = (0..n).map(|k| format!("    for k{k} in 0..N {{ s{k} += x[i] }}\n")).collect();
        let vars: String = (0..n).map(|k| format!("    var s{k} = 0.0\n")).collect();
        let sums: String = (0..n).map(|k| format!("    s0 += s{k}\n")).collect();
        let head = "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {\n";
        format!("{head}{vars}{all}{sums}    y[i] = s0\n}}\nprint(k(ones(4)))\n")
    };
    let kernels = |n: usize| {
        let kernel =
            |k: usize| format!("kernel k{k}(x: [f32; N], out y: [f32; N]) threads(i: N) {{ y[i] = x[i] + {k}.0 }}\n");
        let all: String = (0..n).map(kernel).collect();
        all + &(0..n).map(|k| format!("print(sum(k{k}(ones(4))))\n")).collect::<String>()
    };
    let comments = |n: usize| (0..n).map(|k| format!("// comment {k}\n")).collect::<String>() + "print(1)\n";
    let manifest =
        |n: usize| "name = \"a\"\n".to_string() + &(0..n).map(|k| format!("key{k} = {k}\n")).collect::<String>();
    type Text<'t> = &'t dyn Fn(usize) -> String;
    let cases: [(&str, Text<'_>, &[&str], usize); 7] = [
        ("prove loops", &loops, &["prove", "a.clk"], 600),
        ("profile loops", &loops, &["profile", "a.clk"], 600),
        ("emit loops", &loops, &["emit", "a.clk"], 600),
        ("emit locals", &locals, &["emit", "a.clk"], 200),
        ("profile kernels", &kernels, &["profile", "a.clk"], 60),
        ("fmt comments", &comments, &["fmt", "a.clk"], 10_000),
        ("fetch", &manifest, &["fetch"], 2_000),
    ];
    let mut slow = String::new();
    for (name, text, words, size) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let file = if words.len() > 1 { "a.clk" } else { "clk.toml" };
        let fastest = |size: usize| {
            let measure = |_| {
                fs::write(folder.path().join(file), text(size)).expect("written");
                // Without this, `clk profile` would compile with an installed NVRTC, whose time need not be linear in
                // the text.
                processor_time(clk_testing::clk(folder.path()).env_remove("CLK_NVRTC").args(words))
            };
            (0..2).map(measure).fold(f64::INFINITY, f64::min)
        };
        let (small, large) = (fastest(size), fastest(4 * size));
        println!("{name}: {small:.2} s for {size}, {large:.2} s for {}", 4 * size);
        if large > 8.0 * small + 0.05 {
            writeln!(slow, "{name}: {small:.2} s for {size}, {large:.2} s for {}", 4 * size).expect("written");
        }
    }
    assert!(slow.is_empty(), "{slow}");
}

/// Runs a command; returns the processor time that it took, in seconds.
#[cfg(unix)]
#[expect(clippy::zombie_processes, reason = "`wait4` waits for the child")]
fn processor_time(command: &mut std::process::Command) -> f64 {
    use std::process::Stdio;
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("clk starts");
    let mut status = 0;
    // SAFETY: all zeros is a valid value of the struct, which `wait4` fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the child was not waited for, and both pointers are to variables that outlive the call.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    assert_eq!(waited, child.id() as i32);
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
