//! Tests `--device both` with a second device that differs from the simulator in a permitted way (opposite order, other
//! rounding), or that computes wrong results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;
use clk_compile::{NoFiles, Session};
use clk_differential::{Both, Loose, perturb_roundings};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::def::{BinOp, ExprKind, Module, Ty};
use clk_ir::verify::verify;
use clk_ir::{Checks, PreparedKernel};
use clk_runtime::{Arg, BlockOrder, Control, Device, DeviceWrapper, Executable, Fault, LaunchConfig, PrintedText};
use clk_scalar::Scalar;
use clk_sim::Simulator;
use clk_testing::world::CapturedOutput;

/// How the second device differs from the simulator.
#[derive(Clone, Copy, PartialEq)]
enum DeviceDeviation {
    /// Identical to the simulator.
    Same,
    /// Runs blocks, warps and lanes in the opposite order.
    Backward,
    /// Runs the first launch of each kernel in the opposite order, as several workers may do by chance.
    Once,
    /// Runs the first block first, and the others in the opposite order.
    Rotated,
    /// Results of math functions are a few ULPs off, which never happens on the first device.
    Rounded,
    /// In each array that the device writes, the lowest bit of the last element is wrong.
    Wrong,
    /// Adds two `f32` wherever the program multiplies them.
    Adds,
}

struct DeviatingDevice(DeviceDeviation, Simulator);

impl DeviceWrapper for DeviatingDevice {
    fn inner(&self) -> &dyn Device {
        &self.1
    }
    fn name(&self) -> String {
        "second".into()
    }
    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        let kernel = match self.0 {
            DeviceDeviation::Rounded => Arc::new(perturb_roundings(&kernel, Loose::Functions, 4711).unwrap()),
            DeviceDeviation::Adds => Arc::new(adding(&kernel)),
            _ => kernel,
        };
        Arc::new(Kernel { kernel: self.1.load(kernel, sources), deviation: self.0, launched: AtomicBool::new(false) })
    }
}

/// Returns a copy of the kernel with every `f32` multiplication replaced by an addition.
fn adding(kernel: &PreparedKernel) -> PreparedKernel {
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
    PreparedKernel::new(verify(module).unwrap(), Checks::default())
}

struct Kernel {
    kernel: Arc<dyn Executable>,
    deviation: DeviceDeviation,
    launched: AtomicBool,
}

impl Executable for Kernel {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        let is_first = !self.launched.swap(true, Ordering::Relaxed);
        let blocks = if self.deviation == DeviceDeviation::Rotated { BlockOrder::Rotated(1) } else { control.blocks };
        let backward = match self.deviation {
            DeviceDeviation::Backward | DeviceDeviation::Rotated => true,
            DeviceDeviation::Once => is_first || control.reverse_order,
            _ => control.reverse_order,
        };
        let control = Control { reverse_order: backward, blocks, ..control.clone() };
        let end = self.kernel.launch(config, args, &control);
        for arg in args {
            let bytes: &mut [u8] = match arg {
                Arg::Write { bytes, .. } => bytes,
                Arg::ArrayMut { storage, .. } => storage.bytes_mut().unwrap(),
                _ => continue,
            };
            if self.deviation == DeviceDeviation::Wrong && bytes.len() >= 4 {
                let at = bytes.len() - 4;
                bytes[at] ^= 1;
            }
        }
        end
    }

    fn depends_on_promises(&self) -> bool {
        self.kernel.depends_on_promises()
    }

    fn prepare_block_shape(&self, block: [u32; 3]) {
        self.kernel.prepare_block_shape(block);
    }
}

/// Runs a script on both devices; returns the notes, and the error that ended it.
fn run(deviation: DeviceDeviation, text: &str) -> (Vec<Diagnostic>, Option<Box<Diagnostic>>) {
    run_on(Arc::new(Simulator::default()), deviation, text)
}

fn run_on(
    reference: Arc<dyn Device>,
    deviation: DeviceDeviation,
    text: &str,
) -> (Vec<Diagnostic>, Option<Box<Diagnostic>>) {
    let device = Arc::new(Both::new(reference, Arc::new(DeviatingDevice(deviation, Simulator::default())), true));
    // Uses one worker, since with several the order of blocks would depend on their speed.
    let control = Control { workers: 1, ..Control::default() };
    let options = ScriptOptions { args: vec![], control, seed: None, device };
    let (mut session, mut interpreter, mut paper) =
        (Session::default(), Interpreter::new(options), CapturedOutput::default());
    let outcome = session.add("entry", text, &NoFiles);
    assert!(!outcome.failed(), "{:#?}", outcome.diagnostics);
    let error = outcome.chunks.into_iter().find_map(|chunk| interpreter.run_chunk(&session, chunk, &mut paper).err());
    (interpreter.take_warnings(), error)
}

/// Returns the titles of the notes, and the code of the error.
fn warning_titles(deviation: DeviceDeviation, text: &str) -> (Vec<String>, &'static str) {
    let (notes, error) = run(deviation, text);
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

/// Three blocks take a lock in turn and record which block came second: the middle one, in forward and in reverse
/// order.
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

/// Programs with arrays that several kernels write in part, and with results that reuse the buffers of their operands.
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

/// A kernel with atomic operations between barriers, whose order does not affect the result.
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
fn order_dependence_is_noted_and_other_results_are_compared() {
    assert_eq!(warning_titles(DeviceDeviation::Same, QUEUE), (vec![], ""));
    assert_eq!(
        warning_titles(DeviceDeviation::Backward, QUEUE),
        (vec!["`queue` depends on which thread comes first".into()], "")
    );
    assert_eq!(
        warning_titles(DeviceDeviation::Backward, LOCK),
        (vec!["`owner` depends on which thread comes first".into()], "")
    );
    assert_eq!(warning_titles(DeviceDeviation::Backward, HISTOGRAM), (vec![], ""));
    assert_eq!(warning_titles(DeviceDeviation::Backward, MIRROR), (vec![], ""));
}

/// The language does not specify the order of blocks, so the first device may use an unusual order. A result that
/// depends on the order is noted nevertheless.
#[test]
fn accidental_orders_of_the_first_run_are_noted() {
    let order_note = |reference: DeviceDeviation, deviation: DeviceDeviation, text: &str| {
        let (notes, error) = run_on(Arc::new(DeviatingDevice(reference, Simulator::default())), deviation, text);
        (notes.into_iter().map(|note| note.title).collect::<Vec<_>>(), error.map_or("", |error| error.code))
    };
    let noted = |what: &str| (vec![format!("{what} depends on which thread comes first")], "");
    assert_eq!(order_note(DeviceDeviation::Once, DeviceDeviation::Same, LOCK), noted("`owner`"));
    assert_eq!(order_note(DeviceDeviation::Once, DeviceDeviation::Same, QUEUE), noted("`queue`"));
    assert_eq!(order_note(DeviceDeviation::Once, DeviceDeviation::Backward, LOCK), (vec![], ""));
    assert_eq!(order_note(DeviceDeviation::Same, DeviceDeviation::Rotated, MIDDLE), noted("`owner`"));
    assert_eq!(order_note(DeviceDeviation::Once, DeviceDeviation::Rotated, MIDDLE), noted("`owner`"));
    assert_eq!(order_note(DeviceDeviation::Once, DeviceDeviation::Wrong, MIDDLE).1, "E0623");
    let race = "kernel last(inout y: [i32; 1]) threads(i: 1000) { y[0] = i }\nvar y = [0]\nlast(y)";
    assert_eq!(order_note(DeviceDeviation::Once, DeviceDeviation::Same, race).1, "E0623");
}

/// The unwritten bytes of arrays differ from run to run, which must not be reported as a difference of the devices.
#[test]
fn partially_written_and_donated_arrays_agree() {
    for text in PARTS {
        for deviation in [DeviceDeviation::Same, DeviceDeviation::Backward] {
            assert_eq!(warning_titles(deviation, text), (vec![], ""), "{text}");
        }
        assert_eq!(warning_titles(DeviceDeviation::Wrong, text).1, "E0623", "{text}");
    }
}

#[test]
fn wrong_devices_are_reported() {
    for text in [QUEUE, LOCK, HISTOGRAM, MIRROR, AMPLIFIED[0], AMPLIFIED[1]] {
        let (_, code) = warning_titles(DeviceDeviation::Wrong, text);
        let approximate = AMPLIFIED.contains(&text);
        // In programs that call math functions, a difference of one bit is within the tolerance.
        assert_eq!(code, if approximate { "" } else { "E0623" }, "{text}");
    }
    let text = "kernel f(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] * 2.0 }\nlet y = f(ones(8))";
    assert_eq!(warning_titles(DeviceDeviation::Wrong, text).1, "E0623");
}

#[test]
fn races_are_reported_with_differences() {
    let text = "kernel last(inout y: [i32; 1]) threads(i: 1000) { y[0] = i }\nvar y = [0]\nlast(y)";
    let (notes, error) = run(DeviceDeviation::Backward, text);
    let error = error.unwrap();
    assert_eq!((notes.len(), error.code), (0, "E0623"));
    assert!(error.notes.iter().any(|note| note.contains("`--check` finds the race")), "{:?}", error.notes);
}

/// Programs that amplify small errors of math functions: by cancellation, by a chaotic map, and by branches that depend
/// on rounding.
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
fn amplified_rounding_is_noted() {
    for text in AMPLIFIED {
        let (notes, code) = warning_titles(DeviceDeviation::Rounded, text);
        assert_eq!(
            (notes.as_slice(), code),
            (&["`y` depends on how functions are rounded".to_string()][..], ""),
            "{text}"
        );
        assert_eq!(warning_titles(DeviceDeviation::Same, text), (vec![], ""));
    }
    // Integer results have no tolerance.
    let wrong = AMPLIFIED[1].replace("[f32; 500]", "[i32; 500]").replace("y[i] = x", "y[i] = i + i32(x * 0.0)");
    assert_eq!(warning_titles(DeviceDeviation::Wrong, &wrong).1, "E0623");
    // If a program does not amplify errors, there is no note.
    let text = "kernel f(out y: [f32; 4000]) threads(i: 4000) { y[i] = exp(f32(i) * 0.001) }\nlet y = f()";
    assert_eq!(warning_titles(DeviceDeviation::Rounded, text), (vec![], ""));
}

#[test]
fn order_dependent_faults_and_output_are_attributed_to_the_program() {
    let ticket = "kernel take(inout n: [i32; 1]) threads(i: 100) {
        let ticket = atomic_add(n[0], 1)
        ACTION
    }
    var n = [0]
    take(n)";
    let assert = ticket.replace("ACTION", "assert(ticket == i)");
    assert_eq!(warning_titles(DeviceDeviation::Backward, &assert), (vec![], "E0603"));
    assert_eq!(warning_titles(DeviceDeviation::Same, &assert), (vec![], ""));
    let print = ticket.replace("ACTION", "if i == 0 { print(f\"{ticket}\") }").replace("f\"{ticket}\"", "ticket");
    assert_eq!(
        warning_titles(DeviceDeviation::Backward, &print),
        (vec!["the printed text depends on which thread comes first".into()], "")
    );
}

/// Returns the source of the operation at which the devices first diverge, and the text of the label there.
fn parting(text: &str) -> (String, String) {
    let (_, error) = run(DeviceDeviation::Adds, text);
    let error = error.unwrap_or_else(|| panic!("no difference: {text}"));
    assert_eq!(error.code, "E0623", "{error:#?}");
    let label = error.labels.iter().find(|label| label.text.starts_with("the devices diverge here: "));
    let label = label.unwrap_or_else(|| panic!("{error:#?}\n{text}"));
    let (start, end) = (label.span.start as usize, label.span.end as usize);
    (text[start..end].to_string(), label.text["the devices diverge here: ".len()..].to_string())
}

/// A difference is traced back to the first operation that has equal operands and a different result.
#[test]
fn differences_are_traced_to_the_first_divergence() {
    let direct = "kernel f(x: [f32; N], out y: [f32; N]) threads(i: N) {
    let a = x[i] - 1.0
    let b = a * 3.0
    y[i] = sqrt(abs(b)) + 1.0
}
let y = f([4.0, 7.0])";
    let said = "the thread of index 0 computes 9.0 on `sim` and 6.0 on `second` of 3.0 and 3.0";
    assert_eq!(parting(direct), ("a * 3.0".into(), said.into()));
    // Thread 3 reads a value that thread 60 computed, so the devices diverge in thread 60.
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
    // The third iteration is the first that computes a different value.
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

/// If both devices compute the same values but return different results, a note says so.
#[test]
fn equivalent_computations_are_not_a_divergence() {
    let text = "kernel f(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 2 }\nlet y = f(arange(8))";
    let error = run(DeviceDeviation::Wrong, text).1.unwrap();
    assert!(
        error.notes.iter().any(|note| note.contains("values that the thread of index 7 computes are the same on both")),
        "{error:#?}"
    );
}
