//! Tests that no optimization drops a run-time check: neither the interpreter's fused ops nor the passes on LaneIR.
//!
//! Each [`Case`] is a kernel whose compiled code must contain an optimized pattern, and data for which an operation of
//! the pattern faults. The expected faults come from the stepper, which does not optimize. The test reads the lists of
//! all ops, strip operations and passes from the source, so it fails if one of them has no case.

mod reductions;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clk_compile::{NoFiles, Session};
use clk_ir::Checks;
use clk_ir::def::{Access, KernelParam, Ty};
use clk_lower::{Instance, lower_for};
use clk_runtime::Isa;
use clk_runtime::{Device, FaultKind, LaunchExtents};
use clk_scalar::{Scalar, ScalarValue};
use clk_sim::{CodePatterns, Jit, Simulator, code_patterns};
use clk_testing::checked::{by_simulator, by_stepper, difference};
use clk_testing::generate::{Argument, Bytes};
use reductions::{dots, strips, trees};

/// The kind of fault that the data of a case cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Flaw {
    None,
    Overflow,
    Shift,
    Conversion,
    Division,
    Bounds,
    NotFinite,
    Unwritten,
}
use Flaw::*;

impl Flaw {
    const ALL: [Flaw; 8] = [None, Overflow, Shift, Conversion, Division, Bounds, NotFinite, Unwritten];

    /// Returns the check settings with which this kind of fault is reported.
    fn checks(self) -> Vec<Checks> {
        let of = |memory, arithmetic, nan| Checks { memory, arithmetic, nan };
        match self {
            None | Division | Bounds => {
                vec![of(false, false, false), of(false, true, false), of(true, true, false), of(true, true, true)]
            }
            Overflow | Shift | Conversion => vec![of(false, true, false), of(true, true, false), of(true, true, true)],
            NotFinite => vec![of(false, false, true), of(true, true, true)],
            Unwritten => vec![of(true, false, false), of(true, true, false)],
        }
    }

    fn matches_fault(self, kind: &FaultKind) -> bool {
        use FaultKind as F;
        match self {
            None => false,
            Overflow => matches!(kind, F::Overflow { .. }),
            Shift => matches!(kind, F::ShiftAmount { .. }),
            Conversion => matches!(kind, F::Conversion { .. }),
            Division => matches!(kind, F::DivisionByZero { .. }),
            Bounds => matches!(kind, F::OutOfBounds { .. }),
            NotFinite => matches!(kind, F::NotFinite { .. }),
            Unwritten => matches!(kind, F::Unwritten { .. }),
        }
    }
}

/// An argument of a case: a number, or an array of numbers, which is later converted to the parameter's type.
#[derive(Clone)]
enum CaseArgument {
    Number(f64),
    Array(Vec<u32>, Vec<f64>),
}

/// The optimized pattern that the compiled kernel of a case must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pattern {
    /// An op of the interpreter, if the kernel is compiled without checks.
    Op(&'static str),
    /// The arithmetic of a strip (a chain of array operations), if the kernel is compiled without checks.
    Strip(&'static str),
    /// A pass that changes the kernel's LaneIR, if the kernel is compiled with checks.
    Pass(&'static str),
}

/// A kernel with an optimized pattern, and inputs for which the pattern has the given fault, or none.
struct Case {
    pattern: Pattern,
    flaw: Flaw,
    source: String,
    extents: LaunchExtents,
    inputs: Vec<CaseArgument>,
}

fn ones(shape: &[u32]) -> CaseArgument {
    filled(shape, 1.0)
}

fn filled(shape: &[u32], value: f64) -> CaseArgument {
    CaseArgument::Array(shape.to_vec(), vec![value; shape.iter().product::<u32>() as usize])
}

/// Returns an array that contains `value`, except for other values at the given positions.
fn with(shape: &[u32], value: f64, others: &[(usize, f64)]) -> CaseArgument {
    let CaseArgument::Array(shape, mut values) = filled(shape, value) else { unreachable!() };
    others.iter().for_each(|&(at, value)| values[at] = value);
    CaseArgument::Array(shape, values)
}

/// Number of threads in the launches of most cases.
const THREADS: u32 = 64;

fn threads(n: u32) -> LaunchExtents {
    LaunchExtents::Threads([n, 1, 1])
}

fn grid(blocks: u32, block: u32) -> LaunchExtents {
    LaunchExtents::Grid { grid: [blocks, 1, 1], block: [block, 1, 1] }
}

/// Cases for the other fused or vectorized ops of the interpreter.
fn ops() -> Vec<Case> {
    let case = |op, flaw, source: &str, extents, inputs: Vec<CaseArgument>| Case {
        pattern: Pattern::Op(op),
        flaw,
        source: source.into(),
        extents,
        inputs,
    };
    let n = [THREADS];
    let map = |flaw, op, ty: &str, to: &str, body: &str, x: CaseArgument| {
        let source = format!("kernel k(x: [{ty}; N], out y: [{to}; N]) threads(i: N) {{ y[i] = {body} }}");
        case(op, flaw, &source, threads(THREADS), vec![x, ones(&n)])
    };
    let atomic = |flaw, op, ty: &str, at: &str, x: CaseArgument| {
        let source =
            format!("kernel k(x: [{ty}; N], inout y: [{ty}; 64]) threads(i: N) {{ atomic_add(y[{at}], x[i]) }}");
        case(op, flaw, &source, threads(THREADS), vec![x, filled(&[64], if ty == "f32" { 3e38 } else { 2e9 })])
    };
    let masked = "kernel k(x: [f32; N], q: [f32; N], out y: [f32; N], out z: [f32; N], out w: [f32; N]) threads(i: N) {
            let v = x[i]
            var s = 2.0
            if v > q[i] {
                z[i] = 1.0
                s = v * 4.0
                w[i] = v
            }
            y[i] = s
        }";
    let escape = "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {
            var a = x[i]
            var n = 0
            while a < 100.0 && n < 40 {
                a = a * a + x[i]
                n += 1
            }
            y[i] = a + f32(n)
        }";
    let uniform = "kernel k(n: i32, out y: [i32; N]) threads(i: N) {
            if n * n > 5 { y[i] = i } else { y[i] = 2 }
        }";
    let keeps = "kernel k(n: i32, out y: [i32; N]) threads(i: N) {
            if i * n > 5 { y[i] = i * 3 }
        }";
    let both = "kernel k(x: [i32; N], out y: [i32; N], out z: [i32; N]) threads(i: N) {
            let v = x[i]
            let p = v * v > 5
            let q = v < 1000000
            z[i] = v
            if p && q { y[i] = v }
        }";
    let gather = "kernel k(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[x[i]] }";
    let scatter = "kernel k(x: [i32; N], inout y: [i32; N]) threads(i: N) { y[x[i] + i - 1] = 3 }";
    let affine = "kernel k(x: [i32; N], n: i32, out y: [i32; N]) threads(i: N) { y[i] = x[i + n] }";
    let stored = "kernel k(n: i32, out y: [f32; N]) threads(i: N) { y[i * n] = f32(i) * 0.5 + 1.0 }";
    let constant = "kernel k(x: [i32; N], n: i32, out y: [i32; N]) threads(i: N) { y[i] = x[n] }";
    let warp = "kernel k(x: [i32; N], out y: [i32; N]) grid(2) block(32) {
            let i = global_idx.x
            y[i] = warp_reduce_add(x[i])
        }";
    let tile = "kernel k(x: [bf16; 64, 16], z: [bf16; 16, 16], n: i32, out y: [f32; 16, 16]) grid(1) block(32) {
            let r = n * n
            shared t: [f32; 16, 16]
            t = 0.0
            t = mma(t, x[r..r + 16, 0..16], z[0..16, 0..16])
            y[.., ..] = t
        }";
    let product = "kernel k(x: [bf16; 16, 16], z: [bf16; 16, 16], out y: [f32; 16, 16]) grid(1) block(32) {
            shared t: [f32; 16, 16]
            t = 0.0
            t = mma(t, x[0..16, 0..16], z[0..16, 0..16])
            y[.., ..] = t
        }";
    let old =
        "kernel k(x: [i32; N], inout y: [i32; N], out z: [i32; N]) threads(i: N) { z[i] = atomic_add(y[i], x[i]) }";
    let uniforms = "kernel k(a: f32, b: f32, out y: [f32; N]) threads(i: N) { y[i] = a * b + b - a }";
    let local = "kernel k(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var a: [i32; 4]
            a[x[i] & 1] = 3
            y[i] = a[x[i] & 1]
        }";
    let unwritten = "kernel k(x: [i32; N], out y: [i32; N]) threads(i: N) {
            var a: [i32; 4]
            a[x[i]] = 3
            y[i] = a[1]
        }";
    let number = |value| CaseArgument::Number(value);
    let at = |value| with(&n, 1.0, &[(37, value)]);
    vec![
        case("masked", None, masked, threads(THREADS), vec![at(2.0), ones(&n), ones(&n), ones(&n), ones(&n)]),
        case("masked", NotFinite, masked, threads(THREADS), vec![at(3e38), ones(&n), ones(&n), ones(&n), ones(&n)]),
        case("strip loop", None, escape, threads(THREADS), vec![filled(&n, 0.1), ones(&n)]),
        case("strip loop", NotFinite, escape, threads(THREADS), vec![with(&n, 0.1, &[(9, -3e38)]), ones(&n)]),
        case("compare, jump", None, uniform, threads(THREADS), vec![number(3.0), ones(&n)]),
        case("compare, jump", Overflow, uniform, threads(THREADS), vec![number(1e5), ones(&n)]),
        case("compare, keep", None, keeps, threads(THREADS), vec![number(3.0), ones(&n)]),
        case("compare, keep", Overflow, keeps, threads(THREADS), vec![number(1e8), ones(&n)]),
        case("keep both", None, both, threads(THREADS), vec![at(5.0), ones(&n), ones(&n)]),
        case("keep both", Overflow, both, threads(THREADS), vec![at(1e5), ones(&n), ones(&n)]),
        case("load gather", None, gather, threads(THREADS), vec![ones(&n), ones(&n)]),
        case("load gather", Bounds, gather, threads(THREADS), vec![at(64.0), ones(&n)]),
        case("store scatter", None, scatter, threads(THREADS), vec![ones(&n), ones(&n)]),
        case("store scatter", Bounds, scatter, threads(THREADS), vec![with(&n, 1.0, &[(63, 2.0)]), ones(&n)]),
        case("store scatter", Overflow, scatter, threads(THREADS), vec![at(i32::MAX.into()), ones(&n)]),
        case("load affine", None, affine, threads(THREADS), vec![ones(&n), number(0.0), ones(&n)]),
        case("load affine", Bounds, affine, threads(THREADS), vec![ones(&n), number(1.0), ones(&n)]),
        case("load affine", Overflow, affine, threads(THREADS), vec![ones(&n), number(i32::MAX.into()), ones(&n)]),
        case("store unless aimed", None, stored, threads(THREADS), vec![number(1.0), ones(&n)]),
        case("store unless aimed", Bounds, stored, threads(THREADS), vec![number(2.0), ones(&n)]),
        case("store unless aimed", Overflow, stored, threads(THREADS), vec![number(1e8), ones(&n)]),
        case("load uniform", None, constant, threads(THREADS), vec![ones(&n), number(3.0), ones(&n)]),
        case("load uniform", Bounds, constant, threads(THREADS), vec![ones(&n), number(-1.0), ones(&n)]),
        case("warp", None, warp, grid(2, 32), vec![ones(&n), ones(&n)]),
        case("warp", Overflow, warp, grid(2, 32), vec![with(&n, 0.0, &[(40, 2e9), (50, 2e9)]), ones(&n)]),
        case(
            "copy to a tile",
            None,
            tile,
            grid(1, 32),
            vec![ones(&[64, 16]), ones(&[16, 16]), number(4.0), ones(&[16, 16])],
        ),
        case(
            "copy to a tile",
            Overflow,
            tile,
            grid(1, 32),
            vec![ones(&[64, 16]), ones(&[16, 16]), number(1e5), ones(&[16, 16])],
        ),
        case("product of tiles", None, product, grid(1, 32), vec![ones(&[16, 16]), ones(&[16, 16]), ones(&[16, 16])]),
        case(
            "product of tiles",
            NotFinite,
            product,
            grid(1, 32),
            vec![filled(&[16, 16], 1e30), filled(&[16, 16], 1e30), ones(&[16, 16])],
        ),
        case("local lanewise", None, local, threads(THREADS), vec![ones(&n), ones(&n)]),
        case("local lanewise", Bounds, unwritten, threads(THREADS), vec![at(4.0), ones(&n)]),
        case("local lanewise", Unwritten, unwritten, threads(THREADS), vec![at(2.0), ones(&n)]),
        atomic(None, "add rows", "i32", "i", ones(&n)),
        atomic(Overflow, "add rows", "i32", "i", at(2e9)),
        atomic(None, "count", "i32", "x[i] & 1", ones(&n)),
        atomic(Overflow, "count", "i32", "x[i] & 1", at(2e9)),
        case("add word", None, old, threads(THREADS), vec![ones(&n), ones(&n), ones(&n)]),
        case("add word", Overflow, old, threads(THREADS), vec![at(2e9), filled(&n, 2e9), ones(&n)]),
        atomic(NotFinite, "add floats", "f32", "i", at(3.4e38)),
        atomic(None, "add floats", "f32", "i", ones(&n)),
        map(None, "divide", "i32", "i32", "100 / x[i]", ones(&n)),
        map(Division, "divide", "i32", "i32", "100 / x[i]", at(0.0)),
        map(Overflow, "divide", "i32", "i32", "(0 - 2147483647 - x[i] * x[i]) / x[i]", at(-1.0)),
        map(None, "map 2", "i32", "i32", "1 << x[i]", ones(&n)),
        map(Shift, "map 2", "i32", "i32", "1 << x[i]", at(32.0)),
        map(Shift, "map 2", "i32", "i32", "x[i] >> (x[i] - 2)", with(&n, 3.0, &[(37, 1.0)])),
        map(None, "map 1", "f32", "i32", "i32(x[i])", ones(&n)),
        map(Conversion, "map 1", "f32", "i32", "i32(x[i])", at(3e9)),
        map(Conversion, "slow", "f32", "u8", "u8(x[i])", at(-1.5)),
        map(NotFinite, "map 1", "f32", "f32", "exp(x[i])", at(1e3)),
        map(NotFinite, "map 1", "f64", "f32", "f32(x[i])", at(1e300)),
        case("three", None, uniforms, threads(THREADS), vec![number(2.0), number(3.0), ones(&n)]),
        case("three", NotFinite, uniforms, threads(THREADS), vec![number(3e38), number(3.0), ones(&n)]),
        map(None, "map 3", "f64", "f64", "fma(x[i], x[i], x[i])", ones(&n)),
        map(NotFinite, "map 3", "f64", "f64", "fma(x[i], x[i], x[i])", at(1e300)),
        map(None, "slow", "i8", "i8", "x[i] ** x[i]", ones(&n)),
        map(Overflow, "slow", "i8", "i8", "x[i] ** x[i]", at(5.0)),
    ]
}

/// Cases for the passes on LaneIR: for each pass a kernel into which one statement is inserted, for each kind of fault.
fn lanes() -> Vec<Case> {
    // The inserted statement can use the arrays `n` of integers and `f` of floats, the index `i`, and the accumulators
    // `a` and `v`.
    let head = "n: [i32; N], f: [f32; N], inout g: [i32; N], out z: [i32; N], out y: [i32; N], out w: [f32; N]";
    let plain = |body: &str| format!("kernel k({head}) threads(i: N) {{\n{body}\n}}");
    let block = |body: &str| format!("kernel k({head}) grid(N / 64) block(64) {{\nlet i = global_idx.x\n{body}\n}}");
    let end = "y[i] = a\nw[i] = v";
    let start = "var a = n[i] & 3\nvar v = f[i]";
    let meeting = |flaw: &str| {
        block(&format!(
            "shared s: [i32; 64]\nlet t = thread_idx.x\n{start}\nfor k in 0..3 {{\ns[t] = a\nbarrier()\n\
             a = a ^ s[63 - t]\n{flaw}\nbarrier()\n}}\n{end}"
        ))
    };
    type Frame<'f> = &'f dyn Fn(&str) -> String;
    let frames: [(&str, Frame<'_>, LaunchExtents); 7] = [
        ("full_group", &|flaw| block(&format!("{start}\nfor k in 0..4 {{\n{flaw}\n}}\n{end}")), grid(2, 64)),
        (
            "copy_coalescing",
            &|flaw| {
                plain(&format!(
                    "{start}\nvar b = a\nfor k in 0..4 {{\nlet c = a\na = b\nb = c\n{flaw}\n}}\na = a ^ b\n{end}"
                ))
            },
            threads(128),
        ),
        ("phases", &meeting, grid(2, 64)),
        ("fold_displacements", &meeting, grid(2, 64)),
        ("fold", &meeting, grid(2, 64)),
        (
            "strength_reduction",
            &|flaw| plain(&format!("{start}\nfor k in 0..4 {{\na = a ^ n[k * 8] ^ n[k * 24 + 3]\n{flaw}\n}}\n{end}")),
            threads(128),
        ),
        (
            "liveness",
            &|flaw| plain(&format!("{start}\nvar b = 0\nfor k in 0..4 {{\nb = a ^ k\n{flaw}\n}}\n{end}")),
            threads(128),
        ),
    ];
    let flaws: [(Flaw, &str, f64, f64); 12] = [
        (None, "a = a ^ (n[i] * n[i])", 1.0, 1.0),
        (Overflow, "a = a ^ (n[i] * n[i])", 1e5, 1.0),
        (Overflow, "a = (a & 1) + n[i] + 1", i32::MAX.into(), 1.0),
        (Overflow, "let _unused = n[i] - (0 - 2147483647)", 5.0, 1.0),
        (Overflow, "a = a ^ abs(n[i] - 2147483647 - 2)", 0.0, 1.0),
        (Shift, "a = a ^ (1 << n[i])", 40.0, 1.0),
        (Conversion, "a = a ^ i32(f[i])", 1.0, -3e9),
        (Conversion, "if n[i] > 5 { a = a ^ i32(1e20) }", 9.0, 1.0),
        (Division, "a = a ^ (100 / n[i])", 0.0, 1.0),
        (Bounds, "a = a ^ n[n[i]]", -1.0, 1.0),
        (NotFinite, "v = v + f[i] * f[i]", 1.0, 1e30),
        (Unwritten, "if n[i] == 1 { z[i] = 1 }\na = a ^ z[i]", 2.0, 1.0),
    ];
    let mut cases = vec![];
    for (pass, source, extents) in frames {
        for (flaw, statement, int, float) in flaws {
            // With memory checks, regions of machine code end at barriers, so these passes have nothing to change.
            if flaw == Unwritten && WITH_BARRIERS.contains(&pass) {
                continue;
            }
            let n = [128];
            let inputs = vec![
                with(&n, 1.0, &[(77, if flaw == None { 1.0 } else { int })]),
                with(&n, 1.0, &[(77, float)]),
                ones(&n),
                ones(&n),
                ones(&n),
                ones(&n),
            ];
            cases.push(Case { pattern: Pattern::Pass(pass), flaw, source: source(statement), extents, inputs });
        }
    }
    cases
}

fn cases() -> Vec<Case> {
    [trees(), dots(), strips(), ops(), lanes()].into_iter().flatten().collect()
}

/// Compiles the kernel of a case; returns the session and the kernel.
fn session(case: &Case) -> (Session, Instance) {
    let mut session = Session::default();
    let outcome = session.add("patterns.clk", &case.source, &NoFiles);
    assert!(!outcome.failed(), "{:#?}\n{}", outcome.diagnostics, case.source);
    let kernel = session.program.kernels.ids().next_back().expect("a kernel");
    (session, Instance::new(kernel, vec![]))
}

/// Returns the inputs of a case, converted to the parameter types of its kernel.
fn arguments(case: &Case, module: &clk_ir::def::Module) -> Vec<Argument> {
    let body = &module.functions[module.kernel.body];
    let argument = |(param, inputs): (&KernelParam, &CaseArgument)| match (param, inputs) {
        (KernelParam::Value { ty: Ty::Scalar(scalar), .. }, CaseArgument::Number(value)) => {
            Argument::Value(vec![ScalarValue::of(*value).to_type(*scalar)])
        }
        (KernelParam::Array { memory, .. }, CaseArgument::Array(shape, values)) => {
            let layout = body.memories[*memory].layout.clone();
            let mut bytes = Bytes::zeros(values.len() * layout.size);
            let scalar = layout.leaves[0].ty.scalar();
            for (element, value) in bytes.get_mut().chunks_mut(layout.size).zip(values) {
                element.copy_from_slice(&ScalarValue::of(*value).to_type(scalar).to_bytes()[..layout.size]);
            }
            let write = param.access() != Some(Access::In);
            Argument::Array { layout, shape: shape.clone(), bytes, write }
        }
        _ => panic!("an argument does not fit its parameter: {}", case.source),
    };
    assert_eq!(module.kernel.params.len(), case.inputs.len(), "{}", case.source);
    module.kernel.params.iter().zip(&case.inputs).map(argument).collect()
}

/// Returns the most capable instruction set that this machine supports.
fn best() -> Isa {
    Isa::ALL.iter().copied().rfind(|isa| isa.is_supported()).expect("a set")
}

/// Returns whether the compiled kernel of a case contains the case's pattern. A pass must apply even with the checks
/// that report the case's fault.
fn has_pattern(case: &Case, patterns_of: &dyn Fn(Checks) -> CodePatterns) -> bool {
    match case.pattern {
        Pattern::Op(op) => patterns_of(Checks::default()).ops.contains(&op),
        Pattern::Strip(code) => patterns_of(Checks::default()).strips.iter().any(|name| name == code),
        Pattern::Pass(pass) => case.flaw.checks().into_iter().any(|checks| patterns_of(checks).passes.contains(&pass)),
    }
}

#[test]
fn optimized_patterns_keep_every_check() {
    let with_machine_code = Jit::Always.is_available(best());
    if !with_machine_code {
        println!("skipped: the passes of LaneIR: this machine or system has no machine code");
    }
    let mut failures = vec![];
    let mut reported: BTreeSet<(Pattern, Flaw)> = BTreeSet::new();
    for case in cases() {
        if matches!(case.pattern, Pattern::Pass(_)) && !with_machine_code {
            continue;
        }
        let title = format!("{:?}, {:?}\n{}", case.pattern, case.flaw, case.source);
        let (session, instance) = session(&case);
        let prepare =
            |checks| clk_compile::compile_kernel(&session.program, &instance, checks).expect("a kernel that compiles");
        let is_lanes = matches!(case.pattern, Pattern::Pass(_));
        let patterns_of = |checks| code_patterns(&prepare(checks), best(), &case.extents, is_lanes);
        if !has_pattern(&case, &patterns_of) {
            let patterns = patterns_of(Checks::default());
            failures.push(format!("the code does not have the pattern: {title}\n{patterns:?}"));
            continue;
        }
        for checks in case.flaw.checks() {
            let module = lower_for(&session.program, &instance, checks).expect("a kernel that can be lowered");
            let arguments = arguments(&case, &module);
            let expected = by_stepper(&module, case.extents, &arguments, checks);
            let is_right = match case.flaw {
                None => expected.faults.is_empty(),
                flaw => expected.faults.iter().any(|fault| flaw.matches_fault(&fault.kind)),
            };
            if !is_right {
                failures.push(format!("the stepper finds {:?}: {title}, {checks:?}", expected.faults));
                continue;
            }
            for isa in Isa::ALL.iter().copied().filter(|isa| isa.is_supported()) {
                for jit in [Jit::Off, Jit::Always, Jit::Forced] {
                    if jit != Jit::Off && !jit.is_available(isa) {
                        continue;
                    }
                    let simulator = Simulator::with_isa(isa).with_jit(jit);
                    let actual = by_simulator(&simulator, prepare(checks), case.extents, &arguments, 2);
                    if let Some(why) = difference(&expected, &actual) {
                        failures.push(format!("{isa}, {jit}, {checks:?}: {why}: {title}"));
                    }
                    let entered = simulator.statistics().machine_code.map_or(0, |counts| counts.entered);
                    if is_lanes && jit == Jit::Always && isa == best() && entered == 0 {
                        failures.push(format!("no machine code ran with {checks:?}: {title}"));
                    }
                }
            }
        }
        reported.insert((case.pattern, case.flaw));
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n\n"));
    if with_machine_code {
        for pass in PASSES {
            let possible = |flaw: &Flaw| *flaw != Unwritten || !WITH_BARRIERS.contains(&pass);
            for flaw in Flaw::ALL.into_iter().filter(possible) {
                assert!(reported.contains(&(Pattern::Pass(pass), flaw)), "no case for `{pass}` with {flaw:?}");
            }
        }
    }
}

/// Kernels that make the bits of NaNs observable: of computed NaNs, of copied NaNs, and of both together.
fn nans() -> Vec<Case> {
    let case =
        |source: String, extents, inputs| Case { pattern: Pattern::Op("jump"), flaw: None, source, extents, inputs };
    // Quiet and signaling NaNs with different signs and payloads, and ordinary numbers.
    let bits = [0xffc12345u32, 0x7f812345, 0x7fc00000, 0x7fffffff, 0xff800000, 0x7f800000, 0x3f800000, 0x80000000];
    let x = |shift: u32| {
        CaseArgument::Array(vec![64], (0..64).map(|i| f64::from(bits[(i * 5 + i / 8) % 8] >> shift)).collect())
    };
    let c = || CaseArgument::Array(vec![64], (0..64).map(|i| f64::from(i / 3 % 2)).collect());
    let mut cases = vec![];
    for (ty, word, from, shift) in [
        ("f32", "u32", "x[i]", 0),
        ("f16", "u16", "x[i]", 16),
        ("bf16", "u16", "x[i]", 16),
        ("f64", "u64", "(u64(x[i]) << 32) | u64(3)", 0),
    ] {
        let narrow = if word == "u64" { "u32" } else { word };
        let source = format!(
            "kernel k(x: [{narrow}; N], c: [i32; N], out y: [{word}; N, 12], out z: [{ty}; N, 4]) threads(i: N) {{
                let v = bitcast({ty}, {from})
                let one = {ty}(c[i])
                var joined = v
                for k in 0..3 {{ if c[i] == k {{ joined = v * one }} }}
                y[i, 0] = bitcast({word}, joined)
                y[i, 1] = bitcast({word}, select(c[i] == 1, v - v, v))
                y[i, 2] = bitcast({word}, v)
                y[i, 3] = bitcast({word}, v * {ty}(2.5))
                y[i, 4] = bitcast({word}, -v)
                y[i, 5] = bitcast({word}, min(v, v + one))
                y[i, 6] = bitcast({word}, max(v - v, v))
                y[i, 7] = bitcast({word}, copysign(one, v - v))
                y[i, 8] = bitcast({word}, sqrt(v))
                y[i, 9] = bitcast({word}, fma(v, v, -v))
                y[i, 10] = bitcast({word}, abs(v))
                y[i, 11] = bitcast({word}, {ty}(f32(v)))
                z[i, 0] = v
                z[i, 1] = v / v
                z[i, 2] = joined
                z[i, 3] = if c[i] == 1 {{ v }} else {{ v - v }}
            }}"
        );
        cases.push(case(source, threads(64), vec![x(shift), c(), ones(&[64, 12]), ones(&[64, 4])]));
    }
    let shared = "kernel k(x: [u32; N], inout y: [f32; N], out z: [f32; N], out w: [f32; N], out r: [f32; N]) grid(2) block(32) {
            shared s: [f32; 32]
            let i = global_idx.x
            let t = thread_idx.x
            let v = bitcast(f32, x[i])
            s[t] = v
            barrier()
            z[i] = s[31 - t]
            barrier()
            s[t] = v * 2.0
            barrier()
            var h = 16
            while h > 0 {
                if t < h { s[t] = s[t] + s[t + h] }
                barrier()
                h /= 2
            }
            w[i] = s[t]
            r[i] = shuffle_xor(v, 1) + 0.0
            atomic_add(y[i], v)
            z[i] = select(t > 5, z[i], warp_reduce_add(v))
        }";
    let inputs = vec![x(0), filled(&[64], f64::NEG_INFINITY), ones(&[64]), ones(&[64]), ones(&[64])];
    cases.push(case(shared.into(), grid(2, 32), inputs));
    cases
}

/// NaNs have the same bits in the stepper, in interpreted code, and in machine code of every instruction set.
#[test]
fn nan_bits_are_defined() {
    let mut failures = vec![];
    for case in nans() {
        let (session, instance) = session(&case);
        for checks in [Checks::default(), Checks { memory: true, arithmetic: true, nan: false }] {
            let module = lower_for(&session.program, &instance, checks).expect("a kernel that can be lowered");
            let arguments = arguments(&case, &module);
            let expected = by_stepper(&module, case.extents, &arguments, checks);
            assert!(expected.faults.is_empty(), "{:?}\n{}", expected.faults, case.source);
            for isa in Isa::ALL.iter().copied().filter(|isa| isa.is_supported()) {
                for jit in [Jit::Off, Jit::Always].into_iter().filter(|jit| *jit == Jit::Off || jit.is_available(isa)) {
                    let prepared = clk_compile::compile_kernel(&session.program, &instance, checks)
                        .expect("a kernel that compiles");
                    let simulator = Simulator::with_isa(isa).with_jit(jit);
                    let actual = by_simulator(&simulator, prepared, case.extents, &arguments, 1);
                    if let Some(why) = difference(&expected, &actual) {
                        failures.push(format!("{isa}, {jit}, {checks:?}: {why}\n{}", case.source));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n\n"));
    for scalar in [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64] {
        let nan = ScalarValue { ty: scalar, bits: scalar.canonical_nan() };
        assert!(nan.is_nan() && ScalarValue::of(f64::NAN).to_type(scalar).with_canonical_nan().bits == nan.bits);
    }
}

/// The passes on LaneIR, and `fold`, which turns loads into memory operands of instructions.
const PASSES: [&str; 7] =
    ["copy_coalescing", "fold_displacements", "fold", "strength_reduction", "liveness", "phases", "full_group"];

/// Passes whose cases are kernels with barriers.
const WITH_BARRIERS: [&str; 3] = ["phases", "fold_displacements", "fold"];

/// Source files of LaneIR that contain no pass.
const NO_PASSES: [&str; 6] = ["value_ranges", "build", "check_facts", "text", "verify", "tests"];

/// Ops that perform a single operation, which a separate op checks, or which needs no check.
const SINGLE: &[&str] = &[
    "blend",
    "compare",
    "copy",
    "select",
    "spread",
    "strip",
    "load column",
    "store affine",
    "store column",
    "store words",
    "atomic",
    "aim",
];

/// Ops for control flow, checks and events.
const CONTROL: &[&str] = &[
    "again",
    "again if",
    "arrange",
    "assert",
    "barrier",
    "clear",
    "copy mask",
    "declare",
    "end",
    "enter",
    "fence",
    "for",
    "for lanes",
    "grid barrier",
    "jump",
    "jump if",
    "jump unless",
    "keep",
    "leave",
    "next",
    "next lanes",
    "poll",
    "print",
    "resume",
    "split",
    "warp barrier",
    "warp ids",
    "affine overflow",
    "conversion check",
    "finite check",
    "overflow",
    "shift check",
    "report begins",
    "report block met",
    "report declared",
    "report dot",
    "report fenced",
    "report gathered",
    "report left",
    "report parted",
    "report polls",
    "report touch",
    "report tree",
    "report warps met",
];

/// Strip operations that are not arithmetic, or that equal another strip operation with its operands exchanged.
const PLAIN_STRIPS: &[&str] = &[
    "Load",
    "LoadB",
    "Store",
    "StoreB",
    "StoreMasked",
    "Keep",
    "KeepNot",
    "Ahead",
    "And",
    "Or",
    "Xor",
    "Not",
    "FromI",
    "FromU",
    "Le",
    "Gt",
    "Ge",
    "Eq",
    "Ne",
    "LeI",
    "GtI",
    "GeI",
    "LtU",
    "LeU",
    "GtU",
    "GeU",
    "EqI",
    "NeI",
    "Add",
    "Sub",
    "SubFrom",
    "Mul",
    "AddB",
    "SubB",
    "SubFromB",
    "MulB",
    "SubFromAB",
    "SquareB",
    "DoubleB",
    "DivInto",
];

fn source(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sim").join(path)).expect("a source")
}

fn files(folder: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(&path, all),
            false => all.push(fs::read_to_string(path).expect("a source")),
        }
    }
}

/// Every op, strip operation and pass has a case, or is in a list that states why it needs none.
#[test]
fn every_pattern_has_a_case() {
    let cases = cases();
    let covered: BTreeSet<Pattern> = cases.iter().filter(|case| case.flaw != None).map(|case| case.pattern).collect();
    let mut sources = vec![];
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sim"), &mut sources);
    let mut ops = BTreeSet::new();
    for text in &sources {
        for part in text.split("Shape::new(\"").skip(1) {
            ops.extend(part.split('"').next().map(str::to_string));
        }
    }
    assert!(ops.len() > 60, "the names of ops were not found in the source: {ops:?}");
    for op in &ops {
        let is_listed = SINGLE.contains(&op.as_str()) || CONTROL.contains(&op.as_str());
        let has_case = covered.iter().any(|pattern| matches!(pattern, Pattern::Op(name) if name == op));
        assert!(is_listed || has_case, "the op `{op}` has no case");
    }
    let text = source("strip/def.rs");
    let codes = text
        .split("pub(crate) enum StripOpcode {")
        .nth(1)
        .and_then(|rest| rest.split("\n}").next())
        .expect("the codes");
    let lines = codes.lines().filter(|line| !line.trim_start().starts_with("//"));
    let names: BTreeSet<&str> = lines.flat_map(|line| line.split([',', ' '])).filter(|name| !name.is_empty()).collect();
    assert!(names.len() > 70, "the strip operations were not found in the source: {names:?}");
    for name in names {
        let has_case = covered.iter().any(|pattern| matches!(pattern, Pattern::Strip(code) if *code == name));
        assert!(PLAIN_STRIPS.contains(&name) || has_case, "the strip operation `{name}` has no case");
    }
    let modules = source("lir/mod.rs");
    for module in modules.lines().filter_map(|line| line.strip_prefix("pub(crate) mod ")?.strip_suffix(';')) {
        assert!(PASSES.contains(&module) || NO_PASSES.contains(&module), "the pass `{module}` has no case");
    }
}
