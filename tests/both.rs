//! `--device both`, with a second device that is correct in a different way (opposite order, other roundings) or wrong.

#[path = "common/world.rs"]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clk_lang::base::diag::Diagnostic;
use clk_lang::compile::{NoFiles, Session};
use clk_lang::device::both::{Both, Loose, jittered};
use clk_lang::device::sim::Simulator;
use clk_lang::device::{Arg, BlockOrder, Control, Device, Executable, Extents, Fault, Output};
use clk_lang::host::interp::{Interpreter, Options};
use clk_lang::ir::def::{BinOp, ExprKind, Module, Ty};
use clk_lang::ir::verify::verify;
use clk_lang::ir::{Checks, Prepared};
use clk_lang::lang::scalar::Scalar;
use world::Paper;

/// How the second device differs from the simulator.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Not at all.
    Same,
    /// Blocks, warps and lanes run in the opposite order.
    Backward,
    /// The first launch of each kernel runs backward, as one with several workers may by chance.
    Once,
    /// The first block runs first, and the others in the opposite order.
    Rotated,
    /// Functions are off by some ULPs, different from those of any run that the first device makes.
    Rounded,
    /// The last element of each array it writes is wrong in its lowest bit.
    Wrong,
    /// Products of `f32` are sums.
    Adds,
}

struct Second(Way);

impl Device for Second {
    fn name(&self) -> String {
        "second".into()
    }
    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        let kernel = match self.0 {
            Way::Rounded => Arc::new(jittered(&kernel, Loose::Functions, 4711).unwrap()),
            Way::Adds => Arc::new(adding(&kernel)),
            _ => kernel,
        };
        Arc::new(Kernel { kernel: Simulator::default().load(kernel), way: self.0, launched: AtomicBool::new(false) })
    }
}

/// Returns a kernel whose products of `f32` are sums.
fn adding(kernel: &Prepared) -> Prepared {
    let mut module: Module = (*kernel.module).clone();
    for (_, function) in module.functions.iter_mut() {
        for (_, expr) in function.exprs.iter_mut() {
            if let (ExprKind::Binary { op, .. }, Ty::Scalar(Scalar::F32)) = (&mut expr.kind, expr.ty)
                && *op == BinOp::Mul
            {
                *op = BinOp::Add;
            }
        }
    }
    Prepared::new(verify(module).unwrap(), Checks::default())
}

struct Kernel {
    kernel: Arc<dyn Executable>,
    way: Way,
    launched: AtomicBool,
}

impl Executable for Kernel {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        let is_first = !self.launched.swap(true, Ordering::Relaxed);
        let blocks = if self.way == Way::Rotated { BlockOrder::Rotated(1) } else { control.blocks };
        let backward = match self.way {
            Way::Backward | Way::Rotated => true,
            Way::Once => is_first || control.backward,
            _ => control.backward,
        };
        let control = Control { backward, blocks, ..control.clone() };
        let end = self.kernel.launch(extents, args, &control);
        for arg in args {
            let bytes: &mut [u8] = match arg {
                Arg::Write { bytes, .. } => bytes,
                Arg::ArrayMut { storage, .. } => storage.bytes_mut().unwrap(),
                _ => continue,
            };
            if self.way == Way::Wrong && bytes.len() >= 4 {
                let at = bytes.len() - 4;
                bytes[at] ^= 1;
            }
        }
        end
    }
}

/// Runs a script on both devices; returns the notes, and the error that ended it.
fn run(way: Way, text: &str) -> (Vec<Diagnostic>, Option<Box<Diagnostic>>) {
    run_on(Arc::new(Simulator::default()), way, text)
}

fn run_on(reference: Arc<dyn Device>, way: Way, text: &str) -> (Vec<Diagnostic>, Option<Box<Diagnostic>>) {
    let device = Arc::new(Both::new(reference, Arc::new(Second(way)), true));
    // With several workers, the order of blocks would depend on which of them is quicker.
    let control = Control { workers: 1, ..Control::default() };
    let options = Options { args: vec![], control, seed: None, device };
    let (mut session, mut interpreter, mut paper) = (Session::default(), Interpreter::new(options), Paper::default());
    let outcome = session.add("entry", text, &NoFiles);
    assert!(!outcome.failed(), "{:#?}", outcome.diagnostics);
    let error = outcome.chunks.into_iter().find_map(|chunk| interpreter.run_chunk(&session, chunk, &mut paper).err());
    (interpreter.take_warnings(), error)
}

/// Returns the titles of the notes, and the code of the error.
fn told(way: Way, text: &str) -> (Vec<String>, &'static str) {
    let (notes, error) = run(way, text);
    assert!(notes.iter().all(|note| note.code == "W0604"), "{notes:#?}");
    (notes.into_iter().map(|note| note.title).collect(), error.map_or("", |error| error.code))
}

const QUEUE: &str = "
kernel enqueue(x: [i32; N], inout queue: [i32; N], inout count: [i32; 1], out seen: [i32; N]) threads(i: N) {
    seen[i] = x[i] + 1
    if x[i] % 3 == 0 {
        let place = atomic_add(count[0], 1)
        queue[place] = i
    }
}
let n = 999
var queue = zeros(n, type = i32)
var count = zeros(1, type = i32)
let seen = enqueue(arange(n), queue, count)
assert(count[0] == 333)
assert(sum(queue) == 3 * 332 * 333 / 2)
";

const LOCK: &str = "
kernel last(inout lock: [i32; 1], inout owner: [i32; 1], inout sum: [i32; 1]) grid(37) block(32) {
    if thread_idx.x == 0 {
        while atomic_compare_exchange(lock[0], 0, 1) != 0 { }
        fence()
        owner[0] = block_idx.x
        sum[0] = sum[0] + block_idx.x
        fence()
        atomic_exchange(lock[0], 0)
    }
}
var lock = zeros(1, type = i32)
var owner = zeros(1, type = i32)
var sum = zeros(1, type = i32)
last(lock, owner, sum)
assert(sum[0] == 666)
";

const HISTOGRAM: &str = "
kernel count(x: [i32; N], inout bins: [i32; 7]) threads(i: N) { atomic_add(bins[x[i] % 7], 1) }
var bins = zeros(7, type = i32)
count(arange(1000), bins)
";

/// Three blocks take a lock and note the second one, which is the same in the usual and the reverse order.
const MIDDLE: &str = "
kernel second(inout lock: [i32; 1], inout count: [i32; 1], inout owner: [i32; 1]) grid(3) block(32) {
    if thread_idx.x == 0 {
        while atomic_compare_exchange(lock[0], 0, 1) != 0 { }
        fence()
        if count[0] == 1 { owner[0] = block_idx.x }
        count[0] = count[0] + 1
        fence()
        atomic_exchange(lock[0], 0)
    }
}
var lock = zeros(1, type = i32)
var count = zeros(1, type = i32)
var owner = zeros(1, type = i32)
second(lock, count, owner)
assert(count[0] == 3)
";

/// Arrays that several kernels write in part, and results that are written over operands, in memory that was used before.
const PARTS: [&str; 4] = [
    "fn smooth(image: [f64; R, C], steps: i32) -> [f64; R, C] {
        var u = image * 0.5
        for t in 0..steps {
            let up = concat(u[1.., ..], u[R - 1.., ..]) - u
            let left = concat(u[.., ..1], u[.., ..C - 1], axis = 1) - u
            u += 0.25 * (up + left)
        }
        u
    }
    let y = smooth(reshape(f64(arange(256 * 192)), 256, 192), 4)
    print(y[3, 4])",
    "var y = f32(arange(300000))
    let x = y + 1.0
    for k in 0..4 { y = y * 2.0 + x }
    y = concat(y[150000..] + x[..150000], flip(y)[..150000] * 2.0)
    print(y[7])",
    "var y = f32(arange(300000))
    for k in 0..4 { let z = stack(y, y * 2.0, y + 1.0)\n y = z[1, ..] + z[2, ..] }
    y[1000..200000] = y[2000..201000] * 3.0
    print(y[7])",
    "let x = reshape(f32(arange(512 * 512)), 512, 512)
    var y = x * 2.0
    for k in 0..3 { y = y / (reshape(sum(y, axis = 1), 512, 1) + 1.0)\n y = concat(y[..256, ..] + 1.0, y[256.., ..] * 2.0) }
    print(y[7, 7], f32(bitcast(u32, y[8, 8])))",
];

/// Barriers with atomic operations in between, whose order does not matter.
const MIRROR: &str = "
kernel mirror(x: [i32; N], inout n: [i32; 1], out y: [i32; N]) grid(N / 64) block(64) {
    shared s: [i32; 64]
    let t = thread_idx.x
    s[t] = x[global_idx.x]
    barrier()
    atomic_add(n[0], s[63 - t])
    y[global_idx.x] = s[63 - t]
}
var n = zeros(1, type = i32)
let y = mirror(arange(512), n)
";

#[test]
fn what_depends_on_the_order_is_noted_and_the_rest_is_compared() {
    assert_eq!(told(Way::Same, QUEUE), (vec![], ""));
    assert_eq!(told(Way::Backward, QUEUE), (vec!["`queue` depends on which thread comes first".into()], ""));
    assert_eq!(told(Way::Backward, LOCK), (vec!["`owner` depends on which thread comes first".into()], ""));
    assert_eq!(told(Way::Backward, HISTOGRAM), (vec![], ""));
    assert_eq!(told(Way::Backward, MIRROR), (vec![], ""));
}

/// The order of blocks of the first run is no other one than the language leaves open, whichever that is.
#[test]
fn an_order_that_the_first_run_had_by_chance_is_noted() {
    let told = |reference: Way, way: Way, text: &str| {
        let (notes, error) = run_on(Arc::new(Second(reference)), way, text);
        (notes.into_iter().map(|note| note.title).collect::<Vec<_>>(), error.map_or("", |error| error.code))
    };
    let noted = |what: &str| (vec![format!("{what} depends on which thread comes first")], "");
    assert_eq!(told(Way::Once, Way::Same, LOCK), noted("`owner`"));
    assert_eq!(told(Way::Once, Way::Same, QUEUE), noted("`queue`"));
    assert_eq!(told(Way::Once, Way::Backward, LOCK), (vec![], ""));
    assert_eq!(told(Way::Same, Way::Rotated, MIDDLE), noted("`owner`"));
    assert_eq!(told(Way::Once, Way::Rotated, MIDDLE), noted("`owner`"));
    assert_eq!(told(Way::Once, Way::Wrong, MIDDLE).1, "E0623");
    let race = "kernel last(inout y: [i32; 1]) threads(i: 1000) { y[0] = i }\nvar y = [0]\nlast(y)";
    assert_eq!(told(Way::Once, Way::Same, race).1, "E0623");
}

/// Bytes that no kernel has written yet differ from run to run.
#[test]
fn arrays_that_are_written_in_part_or_over_operands_agree() {
    for text in PARTS {
        for way in [Way::Same, Way::Backward] {
            assert_eq!(told(way, text), (vec![], ""), "{text}");
        }
        assert_eq!(told(Way::Wrong, text).1, "E0623", "{text}");
    }
}

#[test]
fn a_wrong_device_is_not_excused() {
    for text in [QUEUE, LOCK, HISTOGRAM, MIRROR, AMPLIFIED[0], AMPLIFIED[1]] {
        let (_, code) = told(Way::Wrong, text);
        let approximate = AMPLIFIED.contains(&text);
        // One bit of a float is within the tolerance of the functions.
        assert_eq!(code, if approximate { "" } else { "E0623" }, "{text}");
    }
    let text = "kernel f(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] * 2.0 }\nlet y = f(ones(8))";
    assert_eq!(told(Way::Wrong, text).1, "E0623");
}

#[test]
fn a_race_is_no_excuse_but_it_is_named() {
    let text = "kernel last(inout y: [i32; 1]) threads(i: 1000) { y[0] = i }\nvar y = [0]\nlast(y)";
    let (notes, error) = run(Way::Backward, text);
    let error = error.unwrap();
    assert_eq!((notes.len(), error.code), (0, "E0623"));
    assert!(error.notes.iter().any(|note| note.contains("`--check` finds the race")), "{:?}", error.notes);
}

/// Small errors of functions are amplified: by cancellation, a chaotic map, and branches that depend on a rounding.
const AMPLIFIED: [&str; 3] = [
    "kernel slope(out y: [f32; 4000]) threads(i: 4000) {
        let x = f32(i) * 0.001
        y[i] = (exp(x + 0.0001) - exp(x)) / 0.0001
    }
    let y = slope()",
    "kernel chaos(out y: [f32; 500]) threads(i: 500) {
        var x = 0.1 + f32(i) * 0.001
        for k in 0..60 { x = fract(exp(3.0 * x)) }
        y[i] = x
    }
    let y = chaos()",
    "kernel counts(out y: [i32; 2000]) threads(i: 2000) {
        var x = 0.1 + f32(i) * 0.0004
        var n = 0
        while n < 500 && x < 0.999 { x = sin(3.14 * x)
            n += 1 }
        y[i] = n
    }
    let y = counts()",
];

#[test]
fn what_is_amplified_is_noted() {
    for text in AMPLIFIED {
        let (notes, code) = told(Way::Rounded, text);
        assert_eq!(
            (notes.as_slice(), code),
            (&["`y` depends on how functions are rounded".to_string()][..], ""),
            "{text}"
        );
        assert_eq!(told(Way::Same, text), (vec![], ""));
    }
    // An integer has no tolerance.
    let wrong = AMPLIFIED[1].replace("[f32; 500]", "[i32; 500]").replace("y[i] = x", "y[i] = i + i32(x * 0.0)");
    assert_eq!(told(Way::Wrong, &wrong).1, "E0623");
    // No note where nothing is amplified.
    let text = "kernel f(out y: [f32; 4000]) threads(i: 4000) { y[i] = exp(f32(i) * 0.001) }\nlet y = f()";
    assert_eq!(told(Way::Rounded, text), (vec![], ""));
}

#[test]
fn faults_and_lines_of_another_order_are_the_programs_own() {
    let ticket = "kernel take(inout n: [i32; 1]) threads(i: 100) {
        let ticket = atomic_add(n[0], 1)
        ACTION
    }
    var n = [0]
    take(n)";
    let assert = ticket.replace("ACTION", "assert(ticket == i)");
    assert_eq!(told(Way::Backward, &assert), (vec![], "E0603"));
    assert_eq!(told(Way::Same, &assert), (vec![], ""));
    let print = ticket.replace("ACTION", "if i == 0 { print(f\"{ticket}\") }").replace("f\"{ticket}\"", "ticket");
    assert_eq!(told(Way::Backward, &print), (vec!["what is printed depends on which thread comes first".into()], ""));
}

/// The operation in which the devices part, and what is said of it.
fn parting(text: &str) -> (String, String) {
    let (_, error) = run(Way::Adds, text);
    let error = error.unwrap_or_else(|| panic!("no difference: {text}"));
    assert_eq!(error.code, "E0623", "{error:#?}");
    let label = error.labels.iter().find(|label| label.text.starts_with("here they part: "));
    let label = label.unwrap_or_else(|| panic!("{error:#?}\n{text}"));
    let (start, end) = (label.span.start as usize, label.span.end as usize);
    (text[start..end].to_string(), label.text["here they part: ".len()..].to_string())
}

/// A difference of results goes back to the first operation that has the same operands and another result.
#[test]
fn a_difference_is_followed_to_where_the_devices_part() {
    let direct = "kernel f(x: [f32; N], out y: [f32; N]) threads(i: N) {
    let a = x[i] - 1.0
    let b = a * 3.0
    y[i] = sqrt(abs(b)) + 1.0
}
let y = f([4.0, 7.0])";
    let said = "the thread of index 0 computes 9.0 on `sim` and 6.0 on `second` of 3.0 and 3.0";
    assert_eq!(parting(direct), ("a * 3.0".into(), said.into()));
    // Thread 60 has computed what thread 3 reads.
    let shared = "kernel f(x: [f32; N], out y: [f32; N]) grid(N / 64) block(64) {
    shared s: [f32; 64]
    let t = thread_idx.x
    s[t] = if t == 60 { x[global_idx.x] * 5.0 } else { x[global_idx.x] }
    barrier()
    y[global_idx.x] = s[63 - t] + 1.0
}
let y = f(linspace(0.0, 63.0, 64))";
    let said = "thread 60 of block 0 computes 300.0 on `sim` and 65.0 on `second` of 60.0 and 5.0";
    assert_eq!(parting(shared), ("x[global_idx.x] * 5.0".into(), said.into()));
    // The third turn is the first with another value.
    let turns = "kernel f(x: [f32; N], out y: [i32; 1]) threads(i: 1) {
    var n = 0
    for k in 0..N {
        if x[k] * 2.0 > 5.0 { n += 1 }
    }
    y[0] = n
}
let y = f([2.0, 2.0, 2.75, 2.0])";
    let said = "the thread of index 0 computes 5.5 on `sim` and 4.75 on `second` of 2.75 and 2.0";
    assert_eq!(parting(turns), ("x[k] * 2.0".into(), said.into()));
}

/// Where what is computed is the same, that is said.
#[test]
fn what_is_computed_alike_is_no_parting() {
    let text = "kernel f(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 2 }\nlet y = f(arange(8))";
    let error = run(Way::Wrong, text).1.unwrap();
    assert!(
        error.notes.iter().any(|note| note.contains("values that the thread of index 7 computes are the same on both")),
        "{error:#?}"
    );
}
