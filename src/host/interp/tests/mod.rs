//! Tests of the interpreter: script variables in loops, inlined functions, and scripts that read arrays of a failed
//! GPU.

mod call_cache;

use std::sync::Arc;

use super::*;
use crate::picture::shown::ShownPicture;
use clk_base::file_error::FileError;
use clk_compile::NoFiles;
use clk_runtime::storage::FailedMemory;
use clk_runtime::{Control, EarlierFault, FaultKind, LaunchExtents, LaunchOrigin};
use clk_sim::Simulator;

/// Records the side effects of scripts.
#[derive(Default)]
struct RecordedEffects(Vec<String>);

impl HostEffects for RecordedEffects {
    fn print(&mut self, text: &str) {
        self.0.push(format!("print {text}"));
    }
    fn show(&mut self, _: ShownPicture) {
        self.0.push("show".into());
    }
    fn read(&mut self, _: &str) -> Result<Vec<u8>, FileError> {
        Err(FileError::Refused("there are no files here"))
    }
    fn write(&mut self, path: &str, _: &[u8]) -> Result<(), FileError> {
        self.0.push(format!("write {path}"));
        Ok(())
    }
}

const DEFINITIONS: &str = "
struct Body { pos: f32x3, mass: f32 }
kernel scale(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }
kernel double(inout y: [f32; N]) threads(i: N) { y[i] *= 2.0 }
fn half(a: f32) -> f32 { 0.5 * a }
fn halved(a: f32) -> f32 { f32(i32(a) / 2) }
fn both(a: f32, b: f32) -> f32 { a + b }
fn first(a: [f32; N]) -> f32 { a[0] }
var here = [1.0, 2.0, 3.0]
";

/// Definitions of variables whose arrays will be in the memory of the failed device.
const LOST_VARIABLES: &str = "
var x = [1.0, 2.0, 3.0]
var m = zeros(4, 4)
var n = [1, 2, 3]
var flags = [true, false, true]
var bodies = [Body { pos: f32x3(1.0, 2.0, 3.0), mass: 1.0 }, Body { pos: f32x3(1.0, 2.0, 3.0), mass: 2.0 }]
var pair = (1, [1.0, 2.0, 3.0])
";

struct Script {
    session: Session,
    interpreter: Interpreter,
    effects: RecordedEffects,
}

impl Script {
    /// Runs the definitions in [`LOST_VARIABLES`]. After that, the device that holds their arrays fails with `error`.
    fn new(checks: Checks, error: &DeviceError) -> Script {
        let control = Control { checks, ..Control::default() };
        let options = ScriptOptions { args: vec![], control, seed: None, device: Arc::new(Simulator::default()) };
        let interpreter = Interpreter::new(options);
        let mut script = Script { session: Session::default(), interpreter, effects: RecordedEffects::default() };
        script.enter(DEFINITIONS).expect("sound definitions");
        let own = script.interpreter.globals.len();
        script.enter(LOST_VARIABLES).expect("sound variables");
        script.interpreter.globals.iter_mut().skip(own).flatten().for_each(|value| lose_arrays(value, error));
        script
    }

    fn enter(&mut self, text: &str) -> Result<Option<LastValue>, Box<Diagnostic>> {
        let entered = self.session.enter("<entry>", text, &NoFiles);
        if let Some(error) = entered.outcome.diagnostics.into_iter().find(Diagnostic::is_error) {
            return Err(Box::new(error));
        }
        let mut last = None;
        for chunk in entered.outcome.chunks {
            last = self.interpreter.run_entry(&self.session, chunk, &mut self.effects)?;
        }
        Ok(last)
    }
}

/// The new value of a variable may be computed into the memory of its old value (buffer donation). If the computation
/// faults, the variable must keep its old value.
#[test]
fn a_fault_keeps_the_old_value() {
    let error = DeviceError::Unavailable { device: "gpu:0".into(), why: "gone".into() };
    let mut script = Script::new(Checks::default(), &error);
    script.enter("var k = i32(linspace(0.0, 299999.0, 300000))\nk = k + 1").expect("a variable");
    for fault in ["k = (k * 2) / (k - 1)", "k = (k + 1) % (k - 100000)", "k = (k + k) + k[300000]", "k += 7 / (k * 0)"]
    {
        let error = script.enter(fault).expect_err("a fault");
        assert!(matches!(error.code, "E0506" | "E0502"), "{error:?}");
        let last = script.enter("(k[0], k[299999], k[7])").expect("the old value").expect("a value").value;
        let HostValue::Tuple(found) = last else { panic!("{last:?}") };
        assert_eq!(found, [1, 300_000, 8].map(HostValue::of), "{fault}");
    }
    script.enter("k = k * 2 + 1").expect("a new value");
    assert_eq!(script.enter("k[1]").expect("it").expect("a value").value, HostValue::of(5));
}

/// A function, an expression that applies it to arrays, and whether the expression inlines the function.
const APPLIED: &[(&str, &str, bool)] = &[
    ("fn logistic(x: f32) -> f32 { 1.0 / (1.0 + exp(-x)) }", "logistic(a) * 2.0 + a", true),
    (
        "fn step(x: f32, h: f32) -> f32 { let d = x * h; let e = d + 1.0; e * e - d }",
        "step(a, 0.25) + step(a, b)",
        true,
    ),
    ("fn relu(x: f32) -> f32 { if x > 0.0 && x < 40.0 { x } else { 0.5 * x } }", "relu(a - 20.0)", true),
    ("fn wide<T: Num>(x: T) -> f64 { f64(x) * 0.1 + f64(T(3)) }", "wide(a) + wide(k)", true),
    ("fn mixed(x: i32, y: f32) -> bool { (x << 3) ^ x > i32(y) || y < 3.0 }", "mixed(k, a)", true),
    ("fn outer(x: f32, y: f32) -> f32 { x + y }", "outer(a, reshape(a, 100, 1)) + 1.0", true),
    ("fn second(x: f32, y: f32) -> f32 { y + 1.0 }", "second(a, b)", true),
    // Not inlined, because the result has fewer elements than an argument, or because of a division, loop or call.
    ("fn last(x: f32, y: f32) -> f32 { y }", "last(reshape(a, 100, 1), a)", false),
    ("fn half(x: i32) -> i32 { x / 2 }", "half(k)", false),
    ("fn power(x: f32) -> f32 { var y = x; for _ in 0..3 { y *= x }; y }", "power(a)", false),
    ("fn twice(x: f32) -> f32 { logistic(logistic(x)) }", "twice(a)", false),
];

#[test]
fn functions_of_numbers_become_part_of_expressions() {
    let error = DeviceError::Unavailable { device: "gpu:0".into(), why: "gone".into() };
    let run = |checks: Checks| {
        let mut script = Script::new(checks, &error);
        let arrays = "let a = linspace(0.0, 49.5, 100)\nlet b = 0.5 * a\nlet k = i32(a) - 7\nprint(a, b, k)";
        script.enter(arrays).expect("arrays");
        let run = |(definition, applied, _): &(&str, &str, bool)| {
            script.enter(definition).expect("a function");
            let before = script.interpreter.options.device.statistics().launches;
            let result = script.enter(applied).unwrap_or_else(|error| panic!("{applied}: {error:?}"));
            let launches = script.interpreter.options.device.statistics().launches - before;
            let result = result.expect("a value").value;
            let HostValue::Array(array) = &result else { panic!("{applied}: {result:?}") };
            (array.type_name(), array.bytes().expect("computed").to_vec(), launches)
        };
        APPLIED.iter().map(run).collect::<Vec<_>>()
    };
    let parts = run(Checks::default());
    let kernels = run(Checks { arithmetic: true, ..Checks::default() });
    for ((part, kernel), (_, applied, is_part)) in parts.iter().zip(&kernels).zip(APPLIED) {
        assert_eq!((&part.0, &part.1), (&kernel.0, &kernel.1), "{applied}");
        assert!(!is_part || part.2 == 1, "{applied}: {} launches", part.2);
    }
}

/// A session entry that changes script variables in a loop, an expression with the variables, and the expected value of
/// the expression. If the entry must fail, the code of the error precedes the value.
const LOOPS: &[(&str, &str, &str)] = &[
    ("var s = 0\nvar f = 0.5\nfor i in 0..1000 { s += i; f = f * 0.5 + f32(s) }", "(s, f)", "(499500, 997004.0)"),
    ("var k = 0\nwhile k * k < 500 { k += 1 }", "k", "23"),
    ("var d = 0\nloop { d += 1; if d < 7 { continue }; if d == 9 { break } }", "d", "9"),
    ("var n = 5\nvar t = 0\nfor i in 0..n { n -= 1; for j in 0..=i { t += j + n } }", "(n, t)", "(0, 40)"),
    // Loops in which code other than scalar instructions reads or writes the variables.
    ("var text = \"\"\nvar m = 0\nfor i in 0..4 { m += i; text = text + \"{m} \"; m += 1 }", "text", "0 2 5 9 "),
    ("fn bump(inout k: i32) { k += 2 }\nvar b = 1\nfor _ in 0..3 { b *= 3; bump(b); b += 1 }", "b", "66"),
    ("var (p, q) = (1, 2)\nfor _ in 0..5 { let (a, c) = (q, p + q); p = a; q = c }", "(p, q)", "(13, 21)"),
    ("var e = 0\nfor _ in 0..3 { e += 1; let w = { e += 10; e * 2 }; e += w }", "e", "429"),
    ("var y = [1, 2, 3]\nvar total = 0\nfor v in y { total += v; y[0] = total }", "(total, y[0])", "(6, 6)"),
    ("var r = 0\nif here[0] > 0.0 { for i in 0..3 { r += i } }\nfor i in 0..3 { r = 2 * r + i }", "r", "28"),
    ("var g = 0\nlet took = time { g = 0; for i in 0..9 { g += i } }", "g", "36"),
    ("var o = 1i64\nvar z = true\nfor i in 0i64..5 { o = o * 3 + i; z = !z && o > 2 }", "(o, z)", "(301, false)"),
    // Loops that end with an error.
    ("var u = 0\nfor i in 0..9 { u = i; u = 10 / (5 - u) + u }", "u", "E0506: 5"),
    ("var v = 0\nfor i in 0..9 { v = i; here[v] = 1.0; v += 100 }", "v", "E0502: 3"),
    ("var a: i32\nvar c = 0\nfor i in 0..9 { c += 1; if i == 4 { c += a } }", "c", "E0515: 5"),
    ("var l: i32\nfor i in 0..9 { l = i }", "l", "8"),
    (
        "fn half_of(n: i32) -> i32 { assert(n < 4); n / 2 }\nvar h = 0\nloop { h += 1; h += half_of(h) }",
        "h",
        "E0530: 4",
    ),
];

#[test]
fn loops_change_script_variables() {
    let error = DeviceError::Unavailable { device: "gpu:0".into(), why: "gone".into() };
    for checks in [Checks::default(), Checks { arithmetic: true, ..Checks::default() }] {
        let mut script = Script::new(checks, &error);
        for (text, wanted, expected) in LOOPS {
            let failed = script.enter(text).err().map_or(String::new(), |error| format!("{}: ", error.code));
            let value = script.enter(&format!("\"{{{wanted}}}\"")).expect("a text").expect("a value").value;
            let HostValue::Str(found) = value else { panic!("{value:?}") };
            assert_eq!(format!("{failed}{found}"), *expected, "{text}");
        }
    }
}

fn lose_arrays(value: &mut HostValue, error: &DeviceError) {
    match value {
        HostValue::Array(array) => {
            array.storage_mut().expect("memory").set_device_copy(Arc::new(FailedMemory(error.clone())));
        }
        HostValue::Tuple(parts) => parts.iter_mut().for_each(|part| lose_arrays(part, error)),
        _ => {}
    }
}

/// Session entries that read an array on the failed device.
const READS: &[&str] = &[
    "x",
    "pair",
    "(m, 1)",
    "print(x)",
    "print(1, pair)",
    "print(\"{x}\")",
    "print(\"{x:.2}\")",
    "print(\"{pair}\")",
    "print(bodies)",
    "str(x);",
    "x[1];",
    "x[0..2]",
    "x[..]",
    "m[.., 1]",
    "m[1]",
    "m[1, 2];",
    "bodies[0].mass;",
    "print(bodies.mass)",
    "print(bodies.pos.xy)",
    "let (_, part) = pair; part[0];",
    "x[1] = 2.0",
    "x[..] = 1.0",
    "x[0..2] = here[0..2]",
    "here[0..2] = x[0..2]",
    "here[..] = x",
    "x[1] += 1.0",
    "bodies[0].mass = 3.0",
    "bodies.mass = [1.0, 2.0]",
    "print(x + 1.0)",
    "print(1.0 - x)",
    "print(x * here)",
    "print(here / x)",
    "print(x ** 2.0)",
    "print(n % 2)",
    "n / n;",
    "print(n << 1)",
    "print(1 << n)",
    "print(n & 1)",
    "print(n + 1)",
    "print(-n)",
    "print(abs(n))",
    "print(i32(x))",
    "print(f64(x))",
    "print(-x)",
    "print(!flags)",
    "print(x == here)",
    "print(here != x)",
    "print(x < 2.0)",
    "pair == (1, here);",
    "print(flags | flags)",
    "print(sqrt(x))",
    "print(min(x, here))",
    "print(clamp(x, 0.0, 1.0))",
    "print(fma(here, x, here))",
    "print(select(flags, here, here))",
    "print(select([true, false, true], here, x))",
    "print(close(here, x))",
    "sum(x);",
    "sum(m, axis = 0);",
    "sum(n);",
    "prod(x);",
    "mean(x);",
    "min(x);",
    "max(m, axis = 1);",
    "argmin(x);",
    "argmax(n);",
    "all(flags);",
    "any(flags);",
    "cumsum(x);",
    "cumsum(n);",
    "dot(x, here);",
    "dot(n, n);",
    "m @ m;",
    "transpose(m)",
    "concat(here, x);",
    "stack(here, x);",
    "sort(x);",
    "flip(x)",
    "for v in x { print(v) }",
    "if x[0] > 0.0 { print(1) }",
    "assert(flags)",
    "assert(all(x == here))",
    "assert(x == here)",
    "save(\"a.npy\", x)",
    "save(\"a.npy\", bodies)",
    "save(\"a.npz\", x = x)",
    "save(\"a.safetensors\", x = here, y = x)",
    "save(\"a.csv\", x)",
    "save(\"a.csv\", x = x)",
    "save(\"a.png\", m)",
    "image(m)",
    "image(\"a.png\", m)",
    "plot(x)",
    "plot(here, x)",
    "plot(\"a.png\", x)",
    "scatter(x, here)",
    "bar(x)",
    "hist(x)",
    "plot(here, low = x, high = here)",
    "heat(m)",
    "heat(\"a.svg\", m)",
    "print(both(ones(2, 3), x))",
    "both(x[0], 1.0);",
];

/// Session entries that need only the type and shape of an array, and so succeed after the failure.
const SHAPES: &[&str] = &[
    "x + 1.0;",
    "let z = sqrt(x) * here",
    "x == here;",
    "select(flags, here, here);",
    "len(x)",
    "shape(m)",
    "reshape(m, -1);",
    "let z = x",
    "let z = pair",
    "bitcast(i32, x);",
    "x[0..2];",
    "x[..];",
    "m[.., 1];",
    "m[1];",
    "transpose(m);",
    "flip(x);",
    "bodies.mass;",
    "bodies.pos.xy;",
    "if len(x) > 2 { 1 } else { 2 }",
    "x = here",
    "here = x;",
    "here = ones(3)",
];

/// Returns a diagnostic's code, title, labels with their source text, and notes and helps.
fn diagnostic_texts(session: &Session, diagnostic: &Diagnostic) -> (&'static str, String, Vec<String>, Vec<String>) {
    let label = |label: &clk_base::diag::DiagLabel| format!("{}|{}", session.sources.slice(label.span), label.text);
    let more = diagnostic.notes.iter().chain(&diagnostic.help).cloned().collect();
    (diagnostic.code, diagnostic.title.clone(), diagnostic.labels.iter().map(label).collect(), more)
}

#[test]
fn every_read_reports_the_device_error() {
    let mut wrong = Vec::new();
    for checks in [Checks::default(), Checks { arithmetic: true, ..Checks::default() }] {
        for text in READS {
            let mut script = Script::new(checks, &FailedMemory::unavailable().0);
            let Err(diagnostic) = script.enter(text) else {
                wrong.push(format!("{text}: no error"));
                continue;
            };
            let texts = diagnostic_texts(&script.session, &diagnostic);
            let statement = text.trim_end_matches(';').rsplit("; ").next().unwrap_or(text);
            let expected = (
                "E0595",
                "`gpu:0` cannot be used: gone".to_string(),
                vec![format!("{statement}|")],
                vec![
                    "found when a result was read".to_string(),
                    "run it on the simulator: `on sim { … }` or `--device sim`".to_string(),
                ],
            );
            if texts != expected || !script.effects.0.is_empty() {
                wrong.push(format!("{text}: {texts:?} {:?}", script.effects.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn metadata_operations_need_no_bytes() {
    for text in SHAPES {
        let mut script = Script::new(Checks::default(), &FailedMemory::unavailable().0);
        let result = script.enter(text).map(drop);
        assert!(result.is_ok(), "{text}: {result:?}");
    }
}

#[test]
fn simulator_faults_name_the_launch_location() {
    for text in ["scale(x);", "double(x);", "halved(x);"] {
        let mut script = Script::new(Checks::default(), &FailedMemory::unavailable().0);
        let diagnostic = script.enter(text).expect_err("the argument cannot be read");
        let (code, title, labels, _) = diagnostic_texts(&script.session, &diagnostic);
        assert_eq!((code, title.as_str()), ("E0595", "`gpu:0` cannot be used: gone"), "{text}");
        let launched = format!("{}|launched here", text.trim_end_matches(';'));
        assert!(labels.contains(&launched), "{text}: {labels:?}");
        // The failed launch did not change the variable.
        assert!(script.enter("len(x)").is_ok(), "{text}");
    }
}

#[test]
fn reading_functions_name_their_call_location() {
    let mut script = Script::new(Checks::default(), &FailedMemory::unavailable().0);
    let diagnostic = script.enter("fn second(a: [f32; N]) -> f32 { let b = a[1]; b }\nsecond(x);").expect_err("lost");
    let (code, _, labels, _) = diagnostic_texts(&script.session, &diagnostic);
    assert_eq!(
        (code, labels),
        ("E0595", vec!["let b = a[1]|".to_string(), "second(x)|`second` is called here".into()])
    );
}

#[test]
fn a_fault_of_an_earlier_launch_is_shown_at_its_own_lines() {
    let mut script = Script::new(Checks::default(), &FailedMemory::unavailable().0);
    let file = script.session.main.map(|main| script.session.program.modules[main].file).expect("a file");
    let place = |text: &str| {
        let start = DEFINITIONS.find(text).expect("a part of the definitions");
        Span::new(file, start, start + text.len())
    };
    let fault = *FaultKind::ZeroStep.into_launch_fault(place("y[i] *= 2.0"));
    let launched = place("var here = [1.0, 2.0, 3.0]");
    let origin = LaunchOrigin { kernel: None, extents: LaunchExtents::Threads([3, 1, 1]), launched };
    let error = DeviceError::EarlierLaunch(Box::new(EarlierFault { fault, origin }));
    let expected = clk_runtime::device_diagnostic(&error, Span::default());
    script.interpreter.globals.iter_mut().flatten().for_each(|value| lose_arrays(value, &error));
    for text in ["print(x)", "x[0];", "print(x + 1.0)", "save(\"a.npy\", x)", "x"] {
        assert_eq!(*script.enter(text).expect_err("lost"), expected, "{text}");
    }
}
