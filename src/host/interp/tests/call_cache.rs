//! Tests of the call and launch caches: repeated calls at one location whose arguments, definitions or modes differ
//! must not reuse cached bindings.

use super::*;

fn script(checks: Checks) -> Script {
    Script::new(checks, &DeviceError::Unavailable { device: "gpu:0".into(), why: "gone".into() })
}

const FUNCTIONS: &str = "
fn part<T: Num>(x: [T; N], k: i32) -> [T; N] { if k > 0 { part(x * T(2), k - 1) } else { x } }
fn rows(x: [f32; R, C]) -> [f32; C, R] { transpose(x) }
fn pick<op: fn(f32, f32) -> f32, const K: i32>(x: [f32; N]) -> [f32; N] { x + op(x[0], f32(K)) }
fn least(a: f32, b: f32) -> f32 { if a < b { a } else { b } }
fn most<op: fn(f32, f32) -> f32>(x: [f32; N], a: f32) -> [f32; N] { pick(x, op = op, K = 2) + a }
fn zeroed(n: i32) -> [f32; _] { zeros(n) }
fn grown(x: [f32; N], n: i32) -> [f32; _] { concat(x, zeros(n)) }
fn bump(inout x: [f32; N], inout a: f32, by: f32) -> f32 {
    x[0] += by
    a += by
    a
}
fn fibonacci(n: i64) -> i64 { if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) } }
kernel shifted<const BY: i32>(x: [f32; N], s: i32, out y: [f32; N]) threads(i: N)
    assume BY < 5, s >= 0, N > 1
{ y[i] = x[i] + f32(BY + s) }
fn by<const BY: i32>(x: [f32; N], s: i32) -> [f32; N] { shifted(x, s, BY = BY) }
";

/// Programs whose assertions fail if a call or launch reuses the cached bindings of an earlier one by mistake.
const PROGRAMS: &[&str] = &[
    // Calls with arguments of other types and shapes.
    "for n in 1..6 { assert(part(ones(n), 3) == full(n, 8.0)); assert(part(ones(n, type = i64), 2) == full(n, 4i64)) }",
    "for n in 1..6 { let x = zeros(n, 3); let y = rows(x); assert(shape(y, 0) == 3 && shape(y, 1) == n) }",
    // Calls that depend on the compile-time arguments of the caller.
    "for k in 0..4 {
        let x = [1.0, 5.0]
        assert(most(x, 0.5, op = least) == [2.5, 6.5])
        assert(most(x, f32(k), op = max) == [3.0 + f32(k), 7.0 + f32(k)])
    }",
    "for s in 0..4 {
        for k in 0..2 { assert(by([1.0, 2.0], s, BY = 1) == [2.0 + f32(s), 3.0 + f32(s)]) }
        assert(by([1.0, 2.0], s, BY = 4) == [5.0 + f32(s), 6.0 + f32(s)])
    }",
    // Calls whose result has extents that depend on the value of an argument.
    "for n in 0..6 { assert(len(zeroed(n)) == n); assert(len(grown([1.0, 2.0], n)) == n + 2) }",
    // Calls that pass an element or a variable to an `inout` parameter.
    "var x = [[1.0, 2.0], [3.0, 4.0]]
    var a = 0.0
    for k in 0..3 {
        var row = x[1, ..]
        assert(bump(row, a, f32(k)) == a)
        x[1, ..] = row
    }
    assert(all(x == [[1.0, 2.0], [6.0, 4.0]]) && a == 3.0)",
    "assert(fibonacci(15) == 610)",
];

/// Calls that fail after many successful calls at the same location, and their error codes.
const FAULTS: &[(&str, &str)] = &[
    ("for s in 0..9 { by([1.0, 2.0], 4 - s, BY = 1) }", "E0525"),
    ("for n in 0..4 { by(ones(5 - n), 1, BY = 1) ; by(ones(4 - n), 1, BY = 2) }", "E0525"),
    (
        "fn wrong(x: [f32; N], k: i32) -> [f32; N] { if k < 3 { x } else { x[1..] } }\nfor k in 0..5 { wrong([1.0, 2.0], k) }",
        "E0524",
    ),
];

#[test]
fn changed_arguments_are_bound_again() {
    for checks in [Checks::default(), Checks { memory: true, arithmetic: true, nan: false }] {
        let mut script = script(checks);
        script.enter(FUNCTIONS).expect("functions");
        for program in PROGRAMS {
            script.enter(program).unwrap_or_else(|error| panic!("{program}: {error:?}"));
        }
        for (program, code) in FAULTS {
            let error = script.enter(program).err().unwrap_or_else(|| panic!("{program} is an error"));
            assert_eq!(error.code, *code, "{program}: {error:?}");
        }
        // The programs must also succeed after calls that failed.
        for program in PROGRAMS {
            script.enter(program).unwrap_or_else(|error| panic!("{program}, again: {error:?}"));
        }
    }
}

#[test]
fn redefined_functions_invalidate_the_cache() {
    let mut script = script(Checks::default());
    script
        .enter("fn f(x: [f32; N]) -> [f32; N] { x + 1.0 }\nfn g(x: [f32; N]) -> [f32; N] { f(x) }")
        .expect("functions");
    let value = |script: &mut Script, text: &str| script.enter(text).expect(text).expect("a value").value;
    assert_eq!(value(&mut script, "g([1.0])[0]"), HostValue::of(2.0f32));
    script.enter("fn f(x: [f32; N]) -> [f32; N] { x * 10.0 }").expect("another");
    assert_eq!(value(&mut script, "f([1.0])[0]"), HostValue::of(10.0f32));
    script.enter("fn g(x: [f32; N]) -> [f32; N] { f(x) }").expect("another");
    for _ in 0..3 {
        assert_eq!(value(&mut script, "g([1.0])[0]"), HostValue::of(10.0f32));
    }
}

/// A redefinition may change the meaning of a name that is passed as a compile-time argument. In these programs, the
/// argument determines an extent or a derivative.
#[test]
fn compile_time_arguments_follow_new_definitions() {
    let before = "const C: i32 = 2
fn op(a: i32) -> i32 { a + 1 }
";
    let functions = "fn scaled<const K: i32>(x: i32) -> i32 { x * K }
fn apply<f: fn(i32) -> i32>(x: i32) -> i32 { f(x) }
kernel mapped<f: fn(i32) -> i32>(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = f(x[i]) }
kernel repeated<const K: i32>(x: [i32; N], out y: [i32; N * K]) threads(i: N * K) { y[i] = x[i / K] }
fn times<const K: i32>(x: [f32; N]) -> [f32; N] { x * f32(K) }
fn rule<const K: i32>(_x: [f32; N], d: [f32; N]) -> [f32; N] { d * f32(K) }
fn own(x: [f32; N]) -> [f32; N] { times(x, K = C) }
fn back(x: [f32; N], d: [f32; N]) -> [f32; N] { rule(x, d, K = C) }
fn stated(x: [f32; N]) -> f32 { sum(with_grad(own, back)(x)) }
fn a() -> i32 { scaled(10, K = C) }
fn b() -> i32 { apply(10, f = op) }
fn c() -> [i32; _] { mapped([10], f = op) }
fn d() -> [i32; _] { repeated([7], K = C) }
";
    let mut script = script(Checks::default());
    script.enter(before).expect("constants");
    script.enter(functions).expect("functions");
    for (definition, expected) in [
        ("", "a() == 20 && b() == 11 && all(c() == [11]) && all(d() == [7, 7]) && all(grad(stated)([1.0]) == [2.0])"),
        ("const C: i32 = 3", "a() == 30 && all(d() == [7, 7, 7]) && all(grad(stated)([1.0]) == [3.0])"),
        ("fn op(a: i32) -> i32 { a + 100 }", "b() == 110 && all(c() == [110]) && stated([2.0]) == 6.0"),
    ] {
        script.enter(definition).expect(definition);
        for _ in 0..2 {
            script.enter(&format!("assert({expected})")).unwrap_or_else(|error| panic!("{definition}: {error:?}"));
        }
    }
}

/// Defaults that depend on other compile-time parameters use the call's arguments, not the caller's.
#[test]
fn defaults_are_computed_from_the_arguments_of_the_call() {
    let functions = "fn f<const K: i32 = 3, const L: i32 = 2 * K>(x: i32) -> i32 { x + 1000 * K + L }
fn plus(a: i32, b: i32) -> i32 { a + b }
fn twice<first: fn(i32, i32) -> i32 = plus, then: fn(i32, i32) -> i32 = first>(x: i32) -> i32 { then(first(x, x), 1) }
fn both(a: i32, b: i32) -> i32 { a * b + 1 }
fn given<op: fn(i32) -> i32>(x: i32) -> i32 { op(x) }
kernel k<const K: i32 = 3, const L: i32 = 2 * K>(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 1000 * K + L }
kernel wide<const K: i32 = 2, const L: i32 = K + 1>(x: [i32; N], out y: [i32; N * L]) threads(i: N * L) { y[i] = x[i / L] }
kernel calls<const Z: i32 = 50>(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = f(x[i]) + f(x[i], K = Z) + 0 * Z + given(0, op = f) }
fn host<const Z: i32, z: fn(i32, i32) -> i32>() -> i32 { f(1) + f(0, K = Z) + z(0, 0) + twice(2, first = z) + given(0, op = f) }
fn launched<const Z: i32>() -> [i32; _] { k([0, Z]) }";
    for checks in [Checks::default(), Checks { memory: true, arithmetic: true, nan: false }] {
        let mut script = script(checks);
        script.enter(functions).expect("functions");
        for expected in [
            "f(1) == 3007",
            "f(1, K = 1) == 1003",
            "f(1, K = 1, L = 5) == 1006",
            "twice(2) == 5",
            "twice(2, then = both) == 5",
            "twice(2, first = both) == 6",
            "given(0, op = f) == 3006",
            "k([0]) == [3006]",
            "k([0], K = 1) == [1002]",
            "all(wide([7]) == [7, 7, 7])",
            "len(wide([7], K = 4)) == 5",
            "calls([0]) == [3006 + 50100 + 3006]",
            "host(Z = 50, z = both) == 3007 + 50100 + 1 + 6 + 3006",
            "all(launched(Z = 50) == [3006, 3056])",
        ] {
            script.enter(&format!("assert({expected})")).unwrap_or_else(|error| panic!("{expected}: {error:?}"));
        }
    }
}

/// Values inside derivatives are traced, so a cached plain call must not be reused.
#[test]
fn calls_inside_derivatives_are_cached_separately() {
    let mut script = script(Checks::default());
    script
        .enter("fn f<T: Float>(x: [T; N], k: T) -> [T; N] { x * x * k }\nfn g(x: [f32; N]) -> f32 { sum(f(x, 3.0)) }")
        .expect("functions");
    for _ in 0..2 {
        script.enter("assert(g([1.0, 2.0]) == 15.0)").expect("a value");
        script.enter("assert(grad(g)([1.0, 2.0]) == [6.0, 12.0])").expect("a derivative");
    }
}
