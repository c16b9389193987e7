//! Tests the caches of the host, which `docs/internals/host-caches.md` lists: the result of a session entry must not
//! depend on the entries before it.
//!
//! A test case ([`Row`]) has a prelude and session entries that differ in an input of a cache. Each entry runs once
//! alone, and once after each other entry. Both runs must have the same output and errors, so a case states no expected
//! result.

use std::sync::Arc;

use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::Checks;
use clk_runtime::Control;
use clk_testing::world::CapturedOutput;
use clk_testing::world::SimulatorNode;

struct Row {
    /// The tested caches, and the inputs of theirs in which the entries differ.
    caches: &'static str,
    prelude: &'static str,
    /// The session entries. A line `---` separates the parts of an entry. The parts `check` and `no check` turn checks
    /// on and off.
    entries: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        caches: "cuts: arrays that a launch makes, layouts, shapes, geometry",
        prelude: "
kernel twice(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }
kernel some(x: [f32; N], out y: [f32; N]) threads(i: N) { if x[i] > 2.0 { y[i] = x[i] } }
kernel next(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[min(i + 1, N - 1)] }
let x = shard(f32(arange(8)), gpus(2))
let three = shard(f32(arange(8)), gpus(3))
let wide = shard(f32(arange(8)), gpus(2), halo = 1)
let long = shard(f32(arange(10)), gpus(2))
",
        entries: &[
            "print(twice(x))",
            "var a = full(8, -1.0)\ntwice(x, a)\nprint(a)",
            "var b = shard(full(8, -1.0), gpus(2))\ntwice(x, b)\nprint(b)",
            "print(some(x))",
            "var c = full(8, -1.0)\nsome(x, c)\nprint(c)",
            "var d = shard(full(8, -1.0), gpus(2))\nsome(x, d)\nprint(d)",
            "print(twice(three), twice(wide), twice(long))",
            "print(next(wide))",
            "print(next(x))",
            "print(twice<<<8, 1>>>(x))",
            "print(twice<<<2, 4>>>(x))",
            "print(twice(gather(x)))",
            "print(twice(shard(gather(x) + 1.0, gpus(2), granule = 3)))",
        ],
    },
    Row {
        caches: "cuts: values of integers; axes",
        prelude: "
kernel ahead(x: [f32; N], by: i32, out y: [f32; N]) threads(i: N) { if i + by < N { y[i] = x[i + by] } else { y[i] = 0.0 } }
kernel scaled(x: [f32; R, C], s: f32, out y: [f32; R, C]) threads(i: R, j: C) { y[i, j] = s * x[i, j] }
let x = shard(f32(arange(12)), gpus(3), halo = 2)
let rows = shard(reshape(f32(arange(12)), 3, 4), gpus(2))
let columns = shard(reshape(f32(arange(12)), 3, 4), gpus(2), axis = 1)
",
        entries: &[
            "print(ahead(x, 0))",
            "print(ahead(x, 1))",
            "print(ahead(x, 2))",
            "print(ahead(x, 3))",
            "print(ahead(x, -1))",
            "print(scaled(rows, 2.0), scaled(rows, 3.0))",
            "print(scaled(columns, 2.0))",
            "print(scaled(transpose(columns), 2.0))",
        ],
    },
    Row {
        caches: "parts of arrays, halos, whether they are fresh",
        prelude: "
kernel bump(inout x: [f32; N]) threads(i: N) { x[i] += 1.0 }
kernel spread(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[max(i - 1, 0)] + x[min(i + 1, N - 1)] }
fn both(x: [f32; N]) -> [f32; N] { spread(x) + x }
var x = shard(f32(arange(8)), gpus(2), halo = 1)
",
        entries: &[
            "print(spread(x))",
            "var y = x\nbump(y)\nprint(spread(y), spread(x))",
            "var y = x\ny[3] = 50.0\nprint(both(y))",
            "var y = gather(x)\nbump(y)\nprint(spread(y))",
            "var y = x\ny[2..6] = 7.0\nprint(sum(y), both(x))",
        ],
    },
    Row {
        caches: "sites and calls of one place: types, shapes, compile-time arguments, dimensions given by name, conditions",
        prelude: "
kernel shifted<const BY: i32, T: Num>(x: [T; N], s: i32, out y: [T; N]) threads(i: N) assume s < 5 { y[i] = x[i] + T(BY + s) }
kernel filled(v: f32, out y: [f32; N]) threads(i: N) { y[i] = v }
kernel mixed(x: [f32; N], out y: [f32; 2 * N]) threads(i: 2 * N) { y[i] = x[i / 2] }
fn by<const BY: i32, T: Num>(x: [T; N], s: i32) -> [T; N] { shifted(x, s, BY = BY) }
fn fill(v: f32, n: i32) -> [f32; _] { filled(v, N = n) }
fn double(x: [f32; N]) -> [f32; _] { mixed(x) }
",
        entries: &[
            "print(by([1.0, 2.0], 1, BY = 1))",
            "print(by([1.0, 2.0], 1, BY = 2))",
            "print(by([1.0, 2.0], 3, BY = 1))",
            "print(by([1.0, 2.0], 7, BY = 1))",
            "print(by([1.0, 2.0, 3.0], 1, BY = 1))",
            "print(by([1, 2], 1, BY = 1))",
            "print(by(f64([1.0, 2.0]), 1, BY = 1))",
            "print(fill(1.0, 3), fill(2.0, 3), fill(2.0, 4))",
            "print(double([1.0]), double([1.0, 2.0]))",
            "let n = 2\nprint(filled(1.0, N = n))",
        ],
    },
    Row {
        caches: "definitions: code of functions, kernels, constants, layouts of structs, lifted functions, calls",
        prelude: "
const K: i32 = 1
struct P { a: f32, b: f32 }
fn plus(x: f32) -> f32 { x + f32(K) }
fn least(a: f32, b: f32) -> f32 { if a < b { a } else { b } }
kernel add(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = plus(x[i]) }
fn go(x: [f32; N]) -> [f32; N] { add(x) + f32(K) }
fn first(x: [f32; N]) -> f32 { P { a: x[0], b: 2.0 }.a }
let x = f32(arange(100))
",
        entries: &[
            "print(go(x)[3], plus(x)[4], plus(1.0), first(x))",
            "const K: i32 = 5\n---\nprint(go(x)[3], plus(x)[4], plus(1.0))",
            "fn plus(x: f32) -> f32 { x - 1.0 }\n---\nprint(go(x)[3], plus(x)[4], plus(1.0))",
            "kernel add(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 7.0 }\n---\nprint(go(x)[3])",
            "struct P { b: f32, a: f32 }\n---\nprint(first(x), P { b: 1.0, a: 4.0 }.a)",
            "fn plus(x: f64) -> f64 { x + 0.5 }\n---\nprint(plus(f64(x))[4])",
            "fn least(a: f32, b: f32) -> f32 { b }\n---\nprint(least(x, 3.0)[5], least(x, x)[5])",
            "print(least(x, 3.0)[5], least(3.0, x)[5], least(x, x)[5])",
        ],
    },
    Row {
        caches: "checks of launches, functions and lifted functions",
        prelude: "
kernel over(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i] + 2147483647 }
kernel most(x: [i32; N], inout y: [i32; 1]) threads(i: N) { y[0] = x[i] }
fn up(x: i32) -> i32 { x + 2147483647 }
let x = arange(100)
var y = [0]
",
        entries: &[
            "no check\n---\nprint(over(x)[5])",
            "check\n---\nprint(over(x)[5])",
            "no check\n---\nprint(up(x)[5], up(3))",
            "check\n---\nprint(up(x)[5])",
            "check\n---\nprint(up(3))",
            "no check\n---\nmost(x, y)\nprint(y)",
            "check\n---\nmost(x, y)\nprint(y)",
        ],
    },
    Row {
        caches: "derivatives: kernels, extents, active arguments, lifted functions",
        prelude: "
kernel cube(x: [f32; N], s: f32, out y: [f32; N]) threads(i: N) { y[i] = s * x[i] * x[i] * x[i] }
kernel pairs(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] * x[(i + 1) % N] }
fn bend(x: f32) -> f32 { if x > 2.0 { x * x } else { sin(x) } }
fn of_cube(x: [f32; N], s: f32) -> f32 { sum(cube(x, s)) }
fn of_pairs(x: [f32; N]) -> f32 { sum(pairs(x)) }
fn of_bend(x: [f32; N]) -> f32 { sum(bend(x)) }
let x = f32(arange(100)) / 10.0
",
        entries: &[
            "print(grad(of_cube, wrt = x)(x, 2.0)[5])",
            "print(grad(of_cube, wrt = s)(x, 2.0))",
            "print(grad(of_cube, wrt = x)(x[..50], 3.0)[5])",
            "print(grad(of_pairs)(x)[7])",
            "print(grad(of_pairs)(x[..10])[7])",
            "print(grad(of_bend)(x)[7], bend(x)[7])",
            "print(hessian(of_pairs)(x[..3]))",
            "kernel pairs(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 3.0 * x[i] }\n---\nprint(grad(of_pairs)(x)[7])",
        ],
    },
    Row {
        caches: "kernels of expressions: operations, types, strides, offsets, constants, parts, donation",
        prelude: "
let x = f32(arange(4000)) / 8.0
let t = reshape(x, 50, 80)
",
        entries: &[
            "print((x * 2.0 + 1.0)[7], (x * 3.0 + 1.0)[7], (x + 2.0 * 1.0)[7])",
            "print((x ** 2.0)[7], (x ** 3.0)[7], (x ** 2.5)[7], (x ** -2.0)[7])",
            "print((f64(x) * 2.0)[7], (i32(x) * 2)[17], (i64(x) * 2)[17])",
            "print((x[1..] - x[..3999])[7], (x[2..] - x[..3998])[7], (x[..3998] - x[2..])[7])",
            "print((x[0..4000 step 2] + 1.0)[7], (x[0..4000 step 3] + 1.0)[7], (flip(x) + 1.0)[7])",
            "print((t + t[0, ..])[3, 4], (t + t[.., 0..1])[3, 4], (transpose(t) + t[.., 0])[4, 3])",
            "print(bitcast(u32, x + 1.0)[7], f32(bitcast(u32, x + 1.0))[7], (x + 1.0)[7])",
            "var y = x + 1.0\ny = y * 2.0\ny[3..2000] = x[4..2001] + 1.0\nprint(y[5], y[3000])",
            "var y = x\nfor k in 0..3 { y = y * 2.0 + x }\nprint(y[5], x[5])",
            "print(concat(x + 1.0, x[..100])[4050], concat(x[..100], x + 1.0)[150], stack(x, x + 1.0)[1, 9])",
            "print(x[i32(x)][77], x[i32(x) + 1][77], x[x > 3.0][2], x[x > 4.0][2])",
        ],
    },
    Row {
        caches: "kernels of rows and reductions: numbers of rows, lengths, types, divisors",
        prelude: "
fn softmax(t: [f32; R, C]) -> [f32; R, C] {
    let e = exp(t - reshape(max(t, axis = 1), len(t), 1))
    e / reshape(sum(e, axis = 1), len(t), 1)
}
let x = f32(arange(64 * 1024)) % 13.0
",
        entries: &[
            "print(softmax(reshape(x, 64, 1024))[3, 4])",
            "print(softmax(reshape(x, 128, 512))[3, 4])",
            "print(softmax(reshape(x, 1024, 64))[3, 4])",
            "print(softmax(reshape(x, 1024, 64)[..1000, ..])[3, 4])",
            "print(softmax(reshape(x, 1024, 64)[.., ..63])[3, 4])",
            "let t = reshape(x, 64, 1024)\nlet y = t * 2.0\nprint((y / reshape(sum(y, axis = 1), 64, 1) + f32(bitcast(u32, y)))[3, 4])",
            "let t = reshape(x, 64, 1024)\nlet y = t * 2.0\nprint((f32(bitcast(u32, y)) + y / reshape(sum(y, axis = 1), 64, 1))[3, 4])",
            "print(mean(x), mean(x[..1000]), sum(x), sum(x[1..]), mean(reshape(x, 64, 1024), axis = 0)[5])",
            "print(argmax(x), argmin(x), argmax(flip(x)), argmax(reshape(x, 64, 1024), axis = 1)[5], cumsum(x)[99])",
            "print((reshape(x, 64, 1024) @ reshape(x, 1024, 64))[3, 4], dot(x, x), sort(x)[5000], sort(f64(x))[5000])",
        ],
    },
    Row {
        caches: "facts about elements: positions, extremes, counting, views, replicas",
        prelude: "
let x = f32(arange(300)) * 1.0
var at = random_int(0, 299, 200, seed = 3)
fn get(x: [f32; N], at: [i32; M]) -> [f32; M] { x[at] }
",
        entries: &[
            "print(sum(get(x, at)))",
            "var own = at\nprint(sum(get(x, own)))\nown[5] = 300\nprint(sum(get(x, own)))",
            "var own = at\nprint(sum(get(x, own)))\nown[5] = 0\nprint(sum(get(x, own)))",
            "print(sum(get(x[..100], at)))",
            "var own = arange(300)\nprint(sum(get(x, own)))\nown[7] = 1\nprint(sum(get(x, own)))",
            "var own = x\nlet part = own[10..200]\nown[20] = -1.0\nprint(sum(part), sum(own[10..200]))",
            "print(sum(at), min(at), max(at), sum(at % 7))",
        ],
    },
    Row {
        caches: "devices",
        prelude: "
kernel twice(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }
fn go(x: [f32; N]) -> [f32; N] { twice(x) + x }
let x = f32(arange(200))
",
        entries: &[
            "print(go(x)[9])",
            "on sim(1) { print(go(x)[9]) }",
            "on sim(2) { let y = go(x)\non sim(1) { print(go(y)[9]) } }",
            "print(go(shard(x, gpus(2)))[150], go(shard(x, gpus(3)))[150])",
            "on sim(1) { print(go(shard(x, gpus(2)))[150]) }",
        ],
    },
];

/// Keywords that begin a definition.
const DEFINES: [&str; 4] = ["const ", "fn ", "kernel ", "struct "];

struct Script {
    session: Session,
    interpreter: Interpreter,
}

impl Script {
    fn new() -> Script {
        let node = Arc::new(SimulatorNode::new(3));
        let control = Control { workers: 1, ..Control::default() };
        let options = ScriptOptions { args: vec![], control, seed: None, device: node.0[0].clone() };
        let mut interpreter = Interpreter::new(options);
        interpreter.device_pool.available = Some(node);
        Script { session: Session::default(), interpreter }
    }

    /// Runs an entry; returns its output and the codes of its errors.
    fn enter(&mut self, entry: &str) -> String {
        let mut paper = CapturedOutput::default();
        for part in entry.split("---") {
            let checks = match part.trim() {
                "check" => Some(Checks { memory: true, arithmetic: true, nan: false }),
                "no check" => Some(Checks::default()),
                _ => None,
            };
            if let Some(checks) = checks {
                self.interpreter.set_checks(checks);
                continue;
            }
            let outcome = self.session.enter("entry", part, &NoFiles).outcome;
            let refused: Vec<&str> = outcome.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.code).collect();
            if !refused.is_empty() {
                return paper.0 + &refused.join(" ");
            }
            for chunk in outcome.chunks {
                if let Err(error) = self.interpreter.run_chunk(&self.session, chunk, &mut paper) {
                    assert_ne!(error.code, "E0999", "{part}\n{error:#?}");
                    return paper.0 + error.code + " " + &error.title;
                }
            }
        }
        paper.0
    }
}

/// Runs entries in one session after the prelude; returns the output of the last one.
fn last_of(row: &Row, entries: &[&str]) -> String {
    let mut script = Script::new();
    let prelude = script.enter(row.prelude);
    assert_eq!(prelude, "", "{}: the prelude fails", row.caches);
    entries.iter().map(|entry| script.enter(entry)).last().unwrap_or_default()
}

#[test]
fn entries_do_not_depend_on_previous_entries() {
    for row in ROWS {
        let results: Vec<String> = row.entries.iter().map(|entry| last_of(row, &[entry])).collect();
        let distinct: std::collections::HashSet<&String> = results.iter().collect();
        assert!(distinct.len() > row.entries.len() / 2, "{}: entries without a difference: {results:#?}", row.caches);
        assert!(!results.iter().any(String::is_empty), "{}: an entry has no output: {results:#?}", row.caches);
        for before in row.entries {
            for (entry, expected) in row.entries.iter().zip(&results) {
                // A definition of the first entry stays in the session, so the expected result is that of the second
                // entry after the definition.
                let (definition, _) = before.split_once("---").unwrap_or_default();
                let expected = match DEFINES.iter().any(|word| definition.starts_with(word)) {
                    true => &last_of(row, &[definition, entry]),
                    false => expected,
                };
                let actual = last_of(row, &[before, entry]);
                assert_eq!(&actual, expected, "{}:\n{entry}\nafter\n{before}", row.caches);
            }
        }
    }
}
