//! `--device both`, with a second device that is correct in a different way (opposite order, other roundings) or wrong.

#[path = "common/world.rs"]
mod world;

use std::sync::Arc;

use clk_lang::base::diag::Diagnostic;
use clk_lang::compile::{NoFiles, Session};
use clk_lang::device::both::{Both, Loose, jittered};
use clk_lang::device::sim::Simulator;
use clk_lang::device::{Arg, Control, Device, Executable, Extents, Fault, Output};
use clk_lang::host::interp::{Interpreter, Options};
use clk_lang::ir::Prepared;
use world::Paper;

/// How the second device differs from the simulator.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Not at all.
    Same,
    /// Blocks, warps and lanes run in the opposite order.
    Backward,
    /// Functions are off by some ULPs, different from those of any run that the first device makes.
    Rounded,
    /// The last element of each array it writes is wrong in its lowest bit.
    Wrong,
}

struct Second(Way);

impl Device for Second {
    fn name(&self) -> String {
        "second".into()
    }
    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        let kernel = match self.0 {
            Way::Rounded => Arc::new(jittered(&kernel, Loose::Functions, 4711).unwrap()),
            _ => kernel,
        };
        Arc::new(Kernel { kernel: Simulator::default().load(kernel), way: self.0 })
    }
}

struct Kernel {
    kernel: Arc<dyn Executable>,
    way: Way,
}

impl Executable for Kernel {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        let control = Control { backward: self.way == Way::Backward, ..control.clone() };
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
    let device = Arc::new(Both::new(Arc::new(Simulator::default()), Arc::new(Second(way)), true));
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
