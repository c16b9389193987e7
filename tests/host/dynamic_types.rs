//! Tests values whose type is known only at run time: operations give the same results for loaded arrays as for arrays
//! of declared type.
//!
//! Each row of `OPERATIONS` runs twice on the same files: with `let a: [i32; _] = load("a.npy")` and with `let a =
//! load("a.npy")`. Both runs must print the same, or both must be rejected. Another test requires a row for each
//! builtin.

use std::sync::Arc;

use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_runtime::Control;
use clk_scalar::builtin::{Builtin, BuiltinGroup, BuiltinSpaces, TABLE};
use clk_sim::Simulator;
use clk_testing::world::FilesInMemory;

/// The operands: each has a name, a declared type, and a value.
const OPERANDS: [(&str, &str, &str); 10] = [
    ("at", "[i32; _]", "[2, 0, 1]"),
    ("v", "[i32; _]", "[30, 10, 20]"),
    ("m", "[bool; _]", "[true, false, true]"),
    ("w", "[f32; _]", "[1.5, -2.0, 0.25]"),
    ("x", "[f32; _, _]", "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]]"),
    ("q", "[f32; _, _]", "[[1.0, 2.0], [3.0, 5.0]]"),
    ("i", "[i32; _, _]", "[[1, 2, 3], [4, 5, 6]]"),
    ("b", "[i8; _]", "[1i8, 2i8, 3i8]"),
    ("c", "[i8; _, _]", "[[1i8, 2i8, 3i8], [3i8, 4i8, 5i8]]"),
    ("u", "[u32; _]", "[1u32, 2u32, 3u32]"),
];

const FUNCTIONS: &str = "\
fn half(x: f32) -> f32 { x / 2.0 }
fn clamped<T: Num>(x: T, low: T, high: T) -> T { min(max(x, low), high) }
fn longest<T: Num>(x: [T; N]) -> [T; _] { concat(x, x) }
fn squares(x: [f32; N]) -> f32 { sum(x * x) }
kernel twice(x: [f32; N], out y: [f32; N]) threads(k: N) { y[k] = 2.0 * x[k] }
kernel add<T: Num>(x: [T; N], inout y: [T; N]) threads(k: N) { y[k] += x[k] }
";

/// Statements that print the results of operations, each with the builtin that it tests, if any.
const OPERATIONS: &[(&str, &str)] = &[
    // Indices.
    ("", "print(v[at], v[0], v[at[0]], v[m], v[..2], v[at][1])"),
    ("", "print(x[.., at], x[0, at], x[1], x[1, ..], x[.., m], x[0, at[0]], x[.., 0..2])"),
    ("", "print(i[[0, 1, 0], at], i[at[1], at[0]])"),
    ("", "print(v[at + 0], v[at % 3], v[at > 0], x[x > 2.0])"),
    ("", "print(sum(v[m]), sum(v[at]), max(v[m]), mean(w[m]), len(v[m]), shape(x[.., at]))"),
    ("", "for k in at { print(v[k], x[0, k]) }"),
    ("", "for k in 0..len(at) { print(v[at[k]]) }"),
    ("", "let names = [\"a\", \"b\", \"c\"]\nprint(names[at[0]], names[at[1]..])"),
    // Assignments.
    ("", "var r = [1, 2, 3]\nr[m] = 7\nprint(r)"),
    ("", "var r = [1, 2, 3]\nr[at] = v\nprint(r)"),
    ("", "var r = [1, 2, 3]\nr[at] = [7, 8, 9]\nprint(r)"),
    ("", "var r = [1, 2, 3]\nr[at] += 1\nprint(r)"),
    ("", "var r = [1, 2, 3]\nr[at[0]] = 5\nr[at[1]] += v[0]\nprint(r)"),
    ("", "var r = [1, 2, 3]\nr[0] = v[1]\nr[1] = at[0]\nprint(r)"),
    ("", "var r = zeros(2, 3)\nr[.., at] = x\nprint(r)"),
    ("", "var r = zeros(2, 3)\nr[0, at] = 1\nr[1, m] = 2.5\nprint(r)"),
    ("", "var r = zeros(2, 3)\nr[x > 2.0] = 9.0\nr[1] = w\nprint(r)"),
    ("", "var r = x\nr[0, 0] = 9.0\nr[1] = w\nr[.., 1] *= 2.0\nprint(r)"),
    ("", "var r = v\nr[m] = 1\nr[at] += 2\nprint(r, v)"),
    ("", "var r = w\nr += w\nr *= 2.0\nr = r - 1.0\nprint(r)"),
    ("", "var total = 0\nfor k in v { total += k }\nprint(total)"),
    // Operators.
    ("", "print(x + w, w + x, x * 2.0, 1.0 / w, v / 7, v % 7, -w, v ** 2, x - x[0])"),
    ("", "print(b << 1, c << b, min(c << b, axis = 1), 1 << b, v >> 1, v & 6, v | 1, v ^ 3, !m, !v)"),
    ("", "print(m & (w > 0.0), m | m, m ^ m, w < x, w == w, v != 10, v >= at)"),
    ("", "print(x @ w, w @ w, q @ q)"),
    ("", "if v[0] > v[1] && m[0] || m[1] { print(1) } else { print(2) }\nwhile m[1] { break }"),
    ("", "print(if m[0] { v } else { at })"),
    // A literal adopts the type of the other operand.
    (
        "",
        "print(w + [1, 2, 3], [1, 2, 3] - w, w * [-1, 2, 0], w / [2.0, 4.0, 8.0], b + [1, 2, 3], u * [1, 2, 3], v + [1, 2, 3])",
    ),
    ("", "print(x + [[1, 2, 3], [4, 5, 6]], x + [1, 2, 3], x > [1, 2, 3], w == [1.5, -2, 0.25], v != [30, 10, 2])"),
    ("", "print(w + arange(3), arange(1, 4) * b, x @ [1, 2, 3], [1, 2, 3] @ w, w ** [2, 1, 0], b & [1, 1, 1])"),
    ("", "print(w[m] + [1, 2], f32(v) + [1, 2, 3], w[at] * [1, 2, 3], (w + [1, 2, 3]) * [2, 2, 2])"),
    ("", "print(min(w, [1, 2, 3]), clamp(w, [0, 0, 0], [1, 1, 1]), select(m, w, [1, 2, 3]), dot(w, [1, 2, 3]))"),
    ("", "print(close(w, [1.5, -2.0, 0.25]), concat(w, [1, 2]), stack(w, [1, 2, 3]))"),
    ("", "var r = w\nr += [1, 2, 3]\nr[at] = [7, 8, 9]\nr[0..2] *= [2, 3]\nprint(r)"),
    ("", "var r = x\nr[1] = [7, 8, 9]\nr[.., at] = [[1, 2, 3], [4, 5, 6]]\nprint(r)"),
    // Conversions.
    ("", "print(f32(v), i32(w), f64(x), u8(at), bool_of(m))\nfn bool_of(m: [bool; N]) -> [i32; N] { i32(m) }"),
    ("", "print(f32(longest(v)), i32(longest(w)), sum(f64(longest(v))), f32(v[at]), f32(sum(v)))"),
    ("", "print(longest(v)[at], v[longest(at)], all(longest(v) > 5), max(longest(w)), longest(v) * 2)"),
    ("", "print(\"{v} {w[0]:.2} {sum(x):.1}\", str(v))"),
    // Calls and launches.
    ("", "print(half(w), half(x), half(w[0]), clamped(v, 15, 25), clamped(w, 0.0, 1.0), squares(w))"),
    ("", "print(twice(w))\nvar y = zeros(3)\nadd(w, y)\nadd(w, y)\nprint(y)"),
    ("", "print(shape(x), shape(x, 1), len(v) + 1, zeros(shape(x)), full(len(v), v[0]), zeros(at[0]))"),
    ("", "let (rows, columns) = shape(x)\nprint(rows * columns, reshape(x, columns, rows))"),
    ("", "print([v[0], v[1]], [w[0], 2.0], (v[0], w[0]), [v[0], 7])"),
    ("", "print(d_of(w))\nfn d_of(x: [f32; N]) -> [f32; N] { grad(squares)(x) }"),
    // Builtins, in the order of the table of builtins.
    ("abs", "print(abs(w), abs(v))"),
    ("min", "print(min(w, 0.5), min(v, at), min(x), min(x, axis = 0), min(x, axis = (0, 1)))"),
    ("max", "print(max(w, 0.5), max(v, at), max(x), max(x, axis = 1))"),
    ("clamp", "print(clamp(w, -1.0, 1.0), clamp(v, 15, 25))"),
    (
        "select",
        "print(select(m, v, at), select(m, w, 0.0), select(w > 0.0, 1, v), select(m, 1.0, 2.0), select(m[0], v, at))",
    ),
    ("ceil_div", "print(ceil_div(v[0], 7), ceil_div(100, v[1]), ceil_div(v[0], at[0] + 1))"),
    ("bitcast", "print(bitcast(u32, w), bitcast(i32, w[0]), bitcast(f32, u), bitcast(u32, x), bitcast(i32, w[m]))"),
    ("len", "print(len(v), len(x))"),
    ("shape", "print(shape(v), shape(x), shape(x, 0))"),
    ("assert", "assert(m[0], \"text\")\nassert(w == w)\nassert(v[0] == 30)\nprint(1)"),
    ("print", "print(v, x, m)"),
    ("dot", "print(dot(w, w), dot(v, at), dot(w[m], w[m]))"),
    ("linspace", "print(linspace(w[1], w[0], at[0]), linspace(0.0, w[0], 3))"),
    ("arange", "print(arange(v[1]), arange(at[1], v[1], 3))"),
    ("zeros", "print(zeros(at[0]), zeros(at[0], 2), zeros(at[0], type = i32), zeros(shape(v)))"),
    ("ones", "print(ones(at[0]), ones(shape(x)), ones(shape(x), type = i32))"),
    ("full", "print(full(at[0], 3), full(2, w[0]), full(2, v[0]), full(shape(x), 1.5))"),
    ("eye", "print(eye(at[0]))"),
    ("random", "print(random(at[0], seed = 3), random(shape(x), seed = at[0]))"),
    ("random_normal", "print(random_normal(at[0], seed = 3))"),
    ("random_int", "print(random_int(at[1], v[1], at[0], seed = 3), random_int(0, 9, shape(x), seed = 3))"),
    ("sum", "print(sum(v), sum(b), sum(x, axis = 0), sum(x, axis = at[2]), sum(c, axis = 1), sum(x, axis = (0, 1)))"),
    ("prod", "print(prod(v), prod(x, axis = 1))"),
    ("mean", "print(mean(w), mean(x, axis = 0))"),
    ("argmin", "print(argmin(v), argmin(x, axis = 1), v[argmin(v)])"),
    ("argmax", "print(argmax(v), argmax(x, axis = 0), x[0, argmax(w)])"),
    ("all", "print(all(m), all(w > -3.0), all(x > 1.0, axis = 1))"),
    ("any", "print(any(m), any(w > 3.0), any(x > 5.0, axis = 0))"),
    ("close", "print(close(w, w), close(x, x + 0.001, rtol = 0.1), all(close(w, w * 1.0)))"),
    ("cumsum", "print(cumsum(v), cumsum(b), cumsum(x, axis = 1))"),
    ("reshape", "print(reshape(x, 3, 2), reshape(x, -1), reshape(v, len(v), 1), reshape(w, shape(v)))"),
    ("transpose", "print(transpose(x), shape(transpose(x)))"),
    ("concat", "print(concat(v, at), concat(x, x, axis = 1), concat(v, [1, 2]), concat(w[m], w))"),
    ("stack", "print(stack(v, at), stack(w, w, w))"),
    ("einsum", "print(einsum(\"ij->ji\", x), einsum(\"ij,ik->jk\", x, q), einsum(\"i,i\", w, w))"),
    ("sort", "print(sort(v), sort(w), sort(v, at), sort(v, x[0]), sort(v)[0])"),
    ("argsort", "print(argsort(v), v[argsort(v)])"),
    ("flip", "print(flip(v), flip(x, axis = 1))"),
    ("keys", "print(1)"),
    ("parse", "print(parse(i32, str(v[0])))"),
    (
        "save",
        "save(\"s.npy\", v[at])\nprint(load(\"s.npy\"))\nsave(\"t.npz\", a = v, b = x[.., at])\nprint(load(\"t.npz\").b)",
    ),
    ("load", "print(load(\"v.npy\"))"),
    ("image", "image(\"p.png\", x / 10.0)\nprint(1)"),
    ("plot", "plot(\"p.png\", w, w, v)\nplot(w, low = w, high = w)\nprint(1)"),
    ("scatter", "scatter(\"p.png\", w, w)\nprint(1)"),
    ("bar", "bar(\"p.png\", w, w, labels = \"w\")\nprint(1)"),
    ("hist", "hist(\"p.png\", w, bins = v[1])\nprint(1)"),
    ("heat", "heat(\"p.png\", x)\nprint(1)"),
    ("seed_random", "seed_random(v[0])\nprint(random(2))"),
    ("exit", "print(v)\nif v[0] < 0 { exit(v[0]) }"),
    ("shard", "print(shard(v, gpus(1)), sum(shard(x, gpus(1))))"),
    ("gather", "print(gather(shard(v, gpus(1))))"),
    ("gpus", "print(gpus(v[1] / 10))"),
    ("all_reduce", "print(all_reduce(v), all_reduce(w[0]))"),
    ("all_gather", "print(all_gather(v), all_gather(v[0]))"),
    ("reduce_scatter", "print(reduce_scatter(v))"),
    ("broadcast", "print(broadcast(v), broadcast(w[0]))"),
    ("grad", "print(grad(squares)(w), grad(squares)(w[m]))"),
    ("value_and_grad", "print(value_and_grad(squares)(w))"),
    ("vjp", "print(vjp(half)(w[0], cotangent = w[2]))"),
    ("jvp", "print(jvp(squares)(w, tangent = w))"),
    ("hessian", "print(hessian(squares)(w))"),
    ("gradcheck", "gradcheck(squares, w)\nprint(1)"),
    ("no_grad", "print(no_grad(v), no_grad(w[0]))"),
];

/// Host builtins without a row in `OPERATIONS`, each with the reason.
const WITHOUT: &[(&str, &str)] = &[
    ("cross", "files hold no vectors"),
    ("length", "files hold no vectors"),
    ("normalize", "files hold no vectors"),
    ("args", "it is a variable without operands"),
    ("read_text", "it takes a path"),
    ("write_text", "it takes texts"),
    ("rank", "it takes no operand"),
    ("ranks", "it takes no operand"),
    ("send", "it needs a second rank"),
    ("receive", "it needs a second rank"),
    ("jacobian", "it is `vjp` for each number of the result"),
    ("with_grad", "it takes functions"),
];

/// Runs an operation on operands of declared or of unknown type. Returns the printed text, or the error.
fn outcome(operation: &str, declared: bool) -> Result<String, String> {
    let mut text = String::from(FUNCTIONS);
    for (name, ty, value) in OPERANDS {
        text += &format!("save(\"{name}.npy\", {value})\n");
        match declared {
            true => text += &format!("let {name}: {ty} = load(\"{name}.npy\")\n"),
            false => text += &format!("let {name} = load(\"{name}.npy\")\n"),
        }
    }
    text += operation;
    text += "\n";
    let mut session = Session::default();
    let compiled = session.add("<test>", &text, &NoFiles);
    let code = |d: &clk_base::diag::Diagnostic| format!("{} {}", d.code, d.title);
    if compiled.failed() {
        return Err(compiled.diagnostics.iter().find(|d| d.is_error()).map(code).unwrap_or_default());
    }
    let device = Arc::new(Simulator::default());
    let options = ScriptOptions { args: vec![], control: Control::default(), seed: None, device };
    let mut interpreter = Interpreter::new(options);
    let mut world = FilesInMemory::default();
    for chunk in compiled.chunks {
        interpreter.run_chunk(&session, chunk, &mut world).map_err(|d| code(&d))?;
    }
    Ok(world.printed)
}

#[test]
fn loaded_operands_match_declared_operands() {
    let mut wrong = vec![];
    for (_, operation) in OPERATIONS {
        let (declared, loaded) = (outcome(operation, true), outcome(operation, false));
        match (&declared, &loaded) {
            (Ok(a), Ok(b)) if a == b && !a.is_empty() => {}
            (Err(why), _) => wrong.push(format!("{operation}\n  declared: {why}")),
            _ => wrong.push(format!("{operation}\n  declared: {declared:?}\n  loaded:   {loaded:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), OPERATIONS.len(), wrong.join("\n"));
}

/// An operation that is rejected for declared operands is also rejected for loaded ones.
#[test]
fn invalid_loaded_operands_are_refused() {
    for operation in [
        "print(v[w])",
        "print(v[[5, 0]])",
        "print(v + w)",
        "print(v + [0.5, 1.5, 2.5])",
        "print(b + [1, 2, 300])",
        "print(w + [1i8, 2i8, 3i8])",
        "print(f32(m[0]) + v)",
        "print(x[at, at, at])",
        "var r = [1, 2, 3]\nr[m] = w",
        "var r = [1, 2, 3]\nr[at] = [1, 2]",
        "print(all(v))",
        "print(w << 1)",
        "print(sum(m))",
        "print(concat(v, w))",
        "print(half(v))",
        "print(v[at, 0])",
    ] {
        let (declared, loaded) = (outcome(operation, true), outcome(operation, false));
        assert!(declared.is_err() && loaded.is_err(), "{operation}\n{declared:?}\n{loaded:?}");
    }
}

#[test]
fn every_host_builtin_is_tested() {
    let elementwise: Vec<&str> =
        TABLE.iter().filter(|entry| matches!(entry.builtin, Builtin::Math(_))).map(|entry| entry.name).collect();
    for entry in TABLE {
        let row = OPERATIONS.iter().any(|(name, _)| *name == entry.name);
        let without = WITHOUT.iter().any(|(name, _)| *name == entry.name);
        let other = entry.spaces == BuiltinSpaces::Device
            || entry.group == BuiltinGroup::Text
            || elementwise.contains(&entry.name);
        assert!(row || without || other, "{} has no row", entry.name);
    }
}

/// Tests each mathematical function with loaded operands that suit its signature.
#[test]
fn elementwise_functions_accept_loaded_arrays() {
    for entry in TABLE.iter().filter(|entry| matches!(entry.builtin, Builtin::Math(_))) {
        let operand = if entry.signature.contains("<T: Int>") { "u" } else { "w" };
        let count = entry.signature.split(')').next().unwrap_or("").matches(':').count()
            - usize::from(entry.signature.starts_with('<'));
        let operands = vec![operand; count].join(", ");
        let operation = format!("print({}({operands}))", entry.name);
        let (declared, loaded) = (outcome(&operation, true), outcome(&operation, false));
        assert!(declared.is_ok(), "{operation}: {declared:?}");
        assert_eq!(declared, loaded, "{operation}");
    }
}
