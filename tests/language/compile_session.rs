//! Compiles sources to DeviceIR through the whole front end, and checks the IR.

use std::collections::HashMap;
use std::path::Path;

use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_check::typed::{KernelId, NameBinding};
use clk_compile::{CompileResult, Files, NoFiles, Session, default_instance};
use clk_ir::{text, verify::verify};
use clk_lower::lower;

struct Memory(HashMap<&'static str, &'static str>);

impl Files for Memory {
    fn read(&self, path: &Path) -> Result<String, FileError> {
        let source = path.to_str().and_then(|path| self.0.get(path));
        source.map(|text| text.to_string()).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound).into())
    }

    fn neighbors(&self, path: &Path) -> Vec<String> {
        let siblings = self.0.keys().filter(|known| Path::new(known).parent() == path.parent());
        siblings.filter_map(|known| known.rsplit('/').next()).map(str::to_string).collect()
    }
}

fn files(files: &[(&'static str, &'static str)]) -> Memory {
    Memory(files.iter().copied().collect())
}

fn codes(diagnostics: &[Diagnostic]) -> Vec<&'static str> {
    diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

#[track_caller]
fn added(session: &mut Session, text: &str, files: &dyn Files) -> CompileResult {
    let outcome = session.add("main.clk", text, files);
    assert!(!outcome.failed(), "{:#?}\n{text}", outcome.diagnostics);
    outcome
}

fn kernel(session: &Session, name: &str) -> KernelId {
    let main = session.main.expect("a main module");
    match session.program.modules[main].names.get(name) {
        Some(NameBinding::Kernel(id)) => *id,
        other => panic!("`{name}` is {other:?}"),
    }
}

/// Returns the verified IR of every kernel of a text that needs no compile-time arguments.
#[track_caller]
fn all_ir(source: &str) -> String {
    let mut session = Session::default();
    added(&mut session, source, &NoFiles);
    let mut printed = String::new();
    for (id, kernel) in session.program.kernels.iter() {
        let Some(instance) = default_instance(&session.program, id) else { continue };
        let module = lower(&session.program, &instance).unwrap_or_else(|e| panic!("{}: {e:#?}", kernel.name));
        printed.push_str(&text::print(&module));
        if let Err(violations) = verify(module) {
            panic!("{violations:#?}\n{printed}");
        }
    }
    printed
}

#[test]
fn the_kernels_of_the_reference() {
    let text = all_ir(
        "/// r = alpha·x + y
kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {
    r[i] = alpha * x[i] + y[i]
}

kernel matmul<const T: i32 = 16>(a: [f32; M, K], b: [f32; K, N], out c: [f32; M, N])
    grid(ceil_div(N, T), ceil_div(M, T)) block(T, T)
{
    shared ta: [f32; T, T]
    shared tb: [f32; T, T]
    let row = global_idx.y
    let col = global_idx.x
    let ty = thread_idx.y
    let tx = thread_idx.x
    var acc = 0.0
    for k0 in 0..K step T {
        ta[ty, tx] = if row < M && k0 + tx < K { a[row, k0 + tx] } else { 0.0 }
        tb[ty, tx] = if k0 + ty < K && col < N { b[k0 + ty, col] } else { 0.0 }
        barrier()
        for k in 0..T { acc += ta[ty, k] * tb[k, tx] }
        barrier()
    }
    if row < M && col < N { c[row, col] = acc }
}
",
    );
    assert!(text.contains("shared @ta: f32[16, 16]"), "{text}");
    assert_eq!(text.matches("barrier").count(), 2, "{text}");
}

#[test]
fn a_corpus_of_kernels() {
    for source in [
        // Softmax of rows, one warp per row.
        "kernel softmax(x: [f32; M, N], out y: [f32; M, N]) grid(M) block(32) {
    let row = block_idx.x
    var top = f32(-1e30)
    for j in lane_idx..N step 32 { top = max(top, x[row, j]) }
    top = warp_reduce_max(top)
    var sum = 0.0
    for j in lane_idx..N step 32 { sum += exp(x[row, j] - top) }
    sum = warp_reduce_add(sum)
    for j in lane_idx..N step 32 { y[row, j] = exp(x[row, j] - top) / sum }
}",
        // A scan with shuffles.
        "fn inclusive<T: Num>(v: T) -> T {
    var acc = v
    var d = 1
    while d < 32 {
        let below = shuffle_up(acc, d)
        if lane_idx >= d { acc += below }
        d *= 2
    }
    acc
}
kernel scan(x: [i32; 32], out y: [i32; 32]) grid(1) block(32) {
    y[lane_idx] = inclusive(x[lane_idx])
}",
        // Structs, vectors and component stores.
        "struct Body { pos: f32x3, vel: f32x3, mass: f32 }
fn pull(a: Body, b: Body) -> f32x3 {
    let d = b.pos - a.pos
    let r2 = dot(d, d) + 1e-6
    d * (b.mass * rsqrt(r2) / r2)
}
kernel step(dt: f32, bodies: [Body; N], out next: [Body; N]) threads(i: N) {
    var me = bodies[i]
    var force = f32x3(0.0)
    for j in 0..N { if j != i { force += pull(me, bodies[j]) } }
    me.vel += force * dt
    me.pos = me.pos + me.vel * dt
    me.pos.z = clamp(me.pos.z, -1.0, 1.0)
    next[i] = me
}",
        // Function parameters and nested tuples.
        "fn twice<f: fn(f32) -> f32>(x: f32) -> f32 { f(f(x)) }
fn square(x: f32) -> f32 { x * x }
fn pair(x: f32) -> ((f32, i32), bool) { ((x, 1), x > 0.0) }
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {
    let ((a, n), positive) = pair(x[i])
    y[i] = if positive { twice(a, f = square) } else { f32(n) }
}",
        // Early returns, in kernels and functions, and loops with early exits.
        "fn first(x: [f32; N], limit: f32) -> i32 {
    for i in 0..N {
        if x[i] < 0.0 { continue }
        if x[i] > limit { return i }
    }
    -1
}
kernel k(x: [f32; M, N], limit: f32, out y: [i32; N]) threads(i: N) {
    if i > 0 && x[0, i - 1] > limit {
        y[i] = -1
        return
    }
    var n = 0
    loop {
        n += 1
        if n > i { break }
    }
    y[i] = n
}
kernel f(x: [f32; N], out y: [i32; 1]) threads(i: 1) { y[i] = first(x, 0.5) }",
        // Constants, tables and local arrays.
        "fn power(n: i32) -> i32 { if n <= 0 { 1 } else { 2 * n } }
const SIZE: i32 = power(4)
const SHARE: f32 = 0.25
kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {
    var t: [f32; SIZE] = 0.0
    for j in 0..SIZE { t[j] = x[i] }
    var sum = 0.0
    for w in [1.0, 2.0, 4.0] { sum += w }
    for j in 0..3 { sum += SHARE * t[j] }
    y[i] = sum
}",
        // Atomics and assertion messages.
        "kernel histogram(x: [i32; N], inout bins: [i32; B]) threads(i: N) {
    assert(x[i] >= 0 && x[i] < B, \"bin {x[i]} of {B}\")
    atomic_add(bins[x[i]], 1)
}",
    ] {
        all_ir(source);
    }
}

#[test]
fn imports_are_read_once_relative_to_their_file() {
    let files = files(&[
        ("lib/a.clk", "import \"b.clk\" as b\nfn one() -> i32 { b.half() * 2 }"),
        ("lib/b.clk", "fn half() -> i32 { 1 }"),
    ]);
    let mut session = Session::default();
    added(&mut session, "import \"lib/a.clk\" as a\nimport \"./lib/../lib/b.clk\"\nlet x = a.one() + b.half()", &files);
    assert_eq!(session.program.modules.len(), 3);
    added(&mut session, "import \"lib/b.clk\" as again", &files);
    assert_eq!(session.program.modules.len(), 3);
    assert_eq!(session.sources.len(), 4);
}

#[test]
fn imports_that_fail() {
    let files = files(&[
        ("a.clk", "import \"b.clk\""),
        ("b.clk", "import \"a.clk\""),
        ("me.clk", "import \"me.clk\""),
        ("broken.clk", "fn f() -> i32 { 1.5 }"),
    ]);
    let errors = |text: &str| {
        let mut session = Session::default();
        let outcome = session.add("main.clk", text, &files);
        assert!(outcome.failed() && outcome.chunks.is_empty());
        assert!(session.main.is_none() && session.program.modules.is_empty(), "the session is still empty");
        outcome.diagnostics
    };
    let circle = errors("import \"a.clk\"");
    assert_eq!(codes(&circle), ["E0292"]);
    assert_eq!(circle[0].title, "imports go in a circle: a.clk → b.clk → a.clk");
    assert_eq!(errors("import \"me.clk\"")[0].title, "`me.clk` imports itself");
    let missing = errors("import \"brokn.clk\"");
    assert_eq!(missing[0].title, "`brokn.clk` cannot be imported: there is no such file");
    assert_eq!(missing[0].fixes[0].edits[0].1, "\"broken.clk\"");
    assert_eq!(codes(&errors("import std.linag")), ["E0291"]);
    assert_eq!(codes(&errors("import shapes")), ["E0293"]);
    let inside = errors("import \"broken.clk\"\nimport \"./broken.clk\" as again");
    assert_eq!(inside.len(), 1, "once: {inside:#?}");
}

#[test]
fn failed_entries_change_nothing() {
    let mut session = Session { folder: "somewhere".into(), ..Session::default() };
    let first = session.add("<entry 1>", "let x = 1\nfn f() -> i32 { 2 }", &NoFiles);
    assert!(!first.failed(), "{:#?}", first.diagnostics);
    assert_eq!(first.chunks, 0..1);
    let second = session.add("<entry 2>", "fn f() -> i32 { 3 }\nlet y: i32 = 1.5", &NoFiles);
    assert!(second.failed());
    assert_eq!(session.program.fns.len(), 1);
    let third = session.add("<entry 3>", "let z = x + f()", &NoFiles);
    assert!(!third.failed(), "{:#?}", third.diagnostics);
    assert_eq!(third.chunks, 1..2);
}

#[test]
fn kernels_are_proved_without_running() {
    let mut session = Session::default();
    added(
        &mut session,
        "kernel k<const T: i32 = 4>(out r: [f32; N]) threads(i: N) { var t: [f32; T - 4] = 0.0\n r[i] = t[0] }",
        &NoFiles,
    );
    assert!(default_instance(&session.program, kernel(&session, "k")).is_some());
    let reported = session.examine();
    assert_eq!(codes(&reported), ["E0481"]);
    assert_eq!(reported[0].notes, ["this is `k` with T = 4"]);
}

/// Definitions of a session, of which some depend on others.
const DEFINITIONS: &str = "
const WIDTH = 4
struct Pair { a: f32, b: f32 }
fn scaled(x: f32) -> f32 { x * f32(WIDTH) }
fn twice(x: f32) -> f32 { scaled(x) + scaled(x) }
fn total(p: Pair) -> f32 { p.a + p.b }
let x = 1.0
test \"sums\" { assert(1 + 1 == 2) }
";

#[test]
fn failed_entries_leave_the_session_unchanged() {
    let entries = [
        "let y = x +",
        "let y = x + nothing",
        "import std.linalg\nlet y = nothing",
        "/// A new text.\nstruct Pair { a: f32, b: f32 }\nfn other() -> Pair { 1 }",
        "struct Pair { a: f32 }\nlet y = nothing",
        "fn scaled(x: f32, y: f32) -> f32 { x * y }\nlet y = nothing",
        "fn scaled(x: f32, y: f32) -> f32 { x * y }\nlet y = twice(1.0)",
        "const WIDTH = 5\ntest \"other\" { }\nbench \"other\" { x }\nlet x = nothing",
        "kernel k<const T: i32 = 4>(out r: [f32; N]) threads(i: N) { var t: [f32; T - 4] = 0.0\n r[i] = t[0] }",
    ];
    let mut session = Session::default();
    assert!(!session.enter("<entry 1>", DEFINITIONS, &NoFiles).outcome.failed());
    let state = |session: &Session| format!("{:?} {:?} {:?}", session.program, session.modules, session.definitions);
    let before = state(&session);
    for entry in entries {
        let outcome = session.enter("<entry>", entry, &NoFiles).outcome;
        assert!(outcome.failed(), "{entry}");
        assert_eq!(state(&session), before, "{entry}");
        let mut other = session.clone();
        if other.add("<text>", entry, &NoFiles).failed() {
            assert_eq!(state(&other), before, "{entry}");
        }
    }
}

/// Warnings about dependents are reported once, when they are entered.
#[test]
fn entries_with_dependents_report_their_own_warnings() {
    let mut session = Session::default();
    let outcome = session.enter("<entry 1>", DEFINITIONS, &NoFiles).outcome;
    assert!(!outcome.failed(), "{:#?}", outcome.diagnostics);
    let unused = session.enter("<entry 2>", "fn wide(x: f32) -> f32 { scaled(x)\n twice(x) }", &NoFiles).outcome;
    assert_eq!(codes(&unused.diagnostics), ["W0012"]);
    let entered = session.enter("<entry 3>", "fn scaled(x: f32) -> f32 { x + 1.0\n x }", &NoFiles);
    assert_eq!(codes(&entered.outcome.diagnostics), ["W0005"]);
    assert_eq!(entered.outcome.diagnostics[0].primary().map(|span| span.file), Some(entered.outcome.file));
    assert_eq!(entered.followed, ["twice", "wide"]);
}

/// An entry that consists of imports gets no warning about unused ones, whether its names have dependents or not.
#[test]
fn imports_alone_are_not_unused() {
    let mut session = Session::default();
    let uses = "import std.nn.{relu}\nfn f(x: [f32; N]) -> [f32; N] { relu(x) }";
    assert!(!session.enter("<entry 1>", uses, &NoFiles).outcome.failed());
    let outcome = session.enter("<entry 2>", "import std.nn.{relu, silu}", &NoFiles).outcome;
    assert_eq!(codes(&outcome.diagnostics), [""; 0]);
}

/// An entry with an error of its own has the same diagnostics whether its definitions have dependents or not.
#[test]
fn errors_of_entries_do_not_depend_on_dependents() {
    let entry = "fn scaled(x: f32, y: f32) -> f32 { x * why }";
    let mut session = Session::default();
    let alone = session.enter("<entry 1>", entry, &NoFiles).outcome.diagnostics;
    assert!(!session.enter("<entry 2>", DEFINITIONS, &NoFiles).outcome.failed());
    let with_dependents = session.enter("<entry 3>", entry, &NoFiles).outcome.diagnostics;
    assert_eq!(codes(&alone), ["E0201"]);
    let titles = |all: &[Diagnostic]| all.iter().map(|d| d.title.clone()).collect::<Vec<_>>();
    assert_eq!(titles(&with_dependents), titles(&alone));
}

#[test]
fn kernels_of_entries_are_compiled_when_they_are_entered() {
    let mut session = Session::default();
    let text = "kernel k<const T: i32 = 4>(out r: [f32; N]) threads(i: N) { var t: [f32; T - 4] = 0.0\n r[i] = t[0] }";
    let outcome = session.enter("<entry 1>", text, &NoFiles).outcome;
    assert_eq!(codes(&outcome.diagnostics), ["E0481"]);
    assert_eq!(session.program.kernels.len(), 0);
}

#[test]
fn the_library_compiles() {
    for (name, _) in clk_compile::library::MODULES {
        let mut session = Session::default();
        added(&mut session, &format!("import std.{name}"), &NoFiles);
        for (id, kernel) in session.program.kernels.iter() {
            let Some(instance) = default_instance(&session.program, id) else { continue };
            let module = lower(&session.program, &instance).unwrap_or_else(|e| panic!("{}: {e:#?}", kernel.name));
            let printed = text::print(&module);
            verify(module).unwrap_or_else(|violations| panic!("{violations:#?}\n{printed}"));
        }
    }
}
