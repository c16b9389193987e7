//! Tests the table of builtins: every entry is documented, and no builtin ignores an argument. Also compares library
//! functions with equivalent builtins.

mod arange;
mod library;

use std::collections::BTreeSet;

use clk_compile::{NoFiles, Session};
use clk_scalar::builtin::{BuiltinSpaces, TABLE, find};

#[test]
fn every_builtin_is_documented() {
    for entry in TABLE {
        assert!(entry.doc.trim().len() >= 3, "{} has no documentation", entry.name);
        assert!(entry.doc.trim_end().ends_with('.'), "{}: documentation ends with a full stop", entry.name);
        assert!(!entry.signature.trim().is_empty(), "{} has no signature", entry.name);
        assert_eq!(entry.doc.matches('`').count() % 2, 0, "{}: a backquote is not closed", entry.name);
    }
}

#[test]
fn names_are_distinct_and_found() {
    let names: BTreeSet<&str> = TABLE.iter().map(|e| e.name).collect();
    assert_eq!(names.len(), TABLE.len(), "two builtins have one name");
    for entry in TABLE {
        assert_eq!(find(entry.name).map(|e| e.builtin), Some(entry.builtin));
        assert_eq!(entry.builtin.name(), entry.name);
    }
}

/// The documentation of a host builtin mentions tiles exactly if the compiler accepts the builtin in tile expressions.
#[test]
fn builtins_of_tiles_say_so() {
    let calls = [
        ("sum", "reshape(sum(t, axis = 1), 4, 1)"),
        ("transpose", "transpose(t)"),
        ("reshape", "reshape(t, 4, 4)"),
        ("arange", "f32(arange(4))"),
        ("cumsum", "cumsum(t)"),
        ("flip", "flip(t)"),
        ("sort", "sort(t)"),
    ];
    for (name, call) in calls {
        let text = format!(
            "kernel k(out y: [f32; 4, 4]) grid(1) block(32) {{\n    shared t: [f32; 4, 4]\n    t = 1.0\n    t = t + {call}\n    y[0..4, ..] = t\n}}\n"
        );
        let outcome = Session::default().add("<text>", &text, &NoFiles);
        let entry = find(name).expect("a builtin");
        assert_eq!(entry.spaces, BuiltinSpaces::Host, "{name}");
        assert_eq!(!outcome.failed(), entry.in_tiles(), "{name}: {:?}", outcome.diagnostics);
        assert_eq!(entry.availability().contains("tiles"), entry.in_tiles(), "{name}");
    }
    let listed = TABLE.iter().filter(|entry| entry.in_tiles());
    assert!(listed.into_iter().all(|entry| calls.iter().any(|(name, _)| *name == entry.name)), "each is tried above");
}

/// The code that surrounds the call of a builtin.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Script,
    /// A kernel with `threads(…)`.
    Threads,
    /// The body of a kernel with `grid(…) block(…)`.
    Blocks,
}

/// Valid arguments for each builtin, including every named argument.
const ARGUMENTS: &[(&str, &str)] = &[
    ("select", "m, u, 0.0"),
    ("ceil_div", "7, 2"),
    ("bitcast", "u32, 1.0"),
    ("len", "x"),
    ("shape", "x, 0"),
    ("assert", "true, \"text\""),
    ("print", "1, 2"),
    ("dot", "u, u"),
    ("cross", "f32x3(1.0), f32x3(2.0)"),
    ("length", "f32x3(1.0)"),
    ("normalize", "f32x3(1.0)"),
    ("barrier", ""),
    ("barrier_any", "true"),
    ("barrier_all", "true"),
    ("barrier_count", "true"),
    ("warp_barrier", ""),
    ("grid_barrier", ""),
    ("fence", ""),
    ("fence_block", ""),
    ("atomic_add", "n[0], 1"),
    ("atomic_sub", "n[0], 1"),
    ("atomic_min", "n[0], 1"),
    ("atomic_max", "n[0], 1"),
    ("atomic_and", "n[0], 1"),
    ("atomic_or", "n[0], 1"),
    ("atomic_xor", "n[0], 1"),
    ("atomic_exchange", "n[0], 1"),
    ("atomic_compare_exchange", "n[0], 1, 2"),
    ("atomic_load", "n[0]"),
    ("atomic_store", "n[0], 1"),
    ("shuffle", "1, 0, among = 1u32"),
    ("shuffle_up", "1, 0, among = 1u32"),
    ("shuffle_down", "1, 0, among = 1u32"),
    ("shuffle_xor", "1, 0, among = 1u32"),
    ("ballot", "true, among = 1u32"),
    ("warp_any", "true, among = 1u32"),
    ("warp_all", "true, among = 1u32"),
    ("warp_reduce_add", "1, among = 1u32"),
    ("warp_reduce_min", "1, among = 1u32"),
    ("warp_reduce_max", "1, among = 1u32"),
    ("warp_reduce_and", "1, among = 1u32"),
    ("warp_reduce_or", "1, among = 1u32"),
    ("warp_reduce_xor", "1, among = 1u32"),
    ("match_any", "1, among = 1u32"),
    ("mma", "t, h, h"),
    ("cached", "n[0]"),
    ("streaming", "n[0]"),
    ("linspace", "0.0, 1.0, 3"),
    ("arange", "0, 6, 2"),
    ("zeros", "1, 2, 3, 4, 5, 6, 7, 8, type = i32"),
    ("ones", "1, 2, 3, 4, 5, 6, 7, 8, type = i32"),
    ("full", "1, 2, 3, 4, 5, 6, 7, 8, 0.5"),
    ("eye", "2, type = i32"),
    ("random", "1, 2, 3, 4, 5, 6, 7, 8, seed = 1, type = f64"),
    ("random_normal", "1, 2, 3, 4, 5, 6, 7, 8, seed = 1, type = f64"),
    ("random_int", "0, 9, 1, 2, 3, 4, 5, 6, 7, 8, seed = 1"),
    ("sum", "x, axis = 0"),
    ("prod", "x, axis = 0"),
    ("mean", "x, axis = 0"),
    ("argmin", "x, axis = 0"),
    ("argmax", "x, axis = 0"),
    ("all", "m, axis = 0"),
    ("any", "m, axis = 0"),
    ("close", "u, u, rtol = 0.1, atol = 0.1"),
    ("cumsum", "x, axis = 0"),
    ("reshape", "x, 1, 2, 3, 1, 1, 1, 1, 1"),
    ("transpose", "x, axes = (1, 0)"),
    ("concat", "x, x, axis = 0"),
    ("stack", "x, x, axis = 1"),
    ("sort", "v, v, descending = true"),
    ("argsort", "x, axis = 0, descending = true"),
    ("einsum", "\"ij,kj->ik\", x, x"),
    ("flip", "x, axis = 0"),
    ("split", "\"a b\", \" \""),
    ("lines", "\"a\""),
    ("join", "lines(\"a\"), \"b\""),
    ("trim", "\"a\""),
    ("find", "\"a\", \"b\""),
    ("contains", "\"a\", \"b\""),
    ("starts_with", "\"a\", \"b\""),
    ("ends_with", "\"a\", \"b\""),
    ("replace", "\"a\", \"b\", \"c\""),
    ("upper", "\"a\""),
    ("lower", "\"a\""),
    ("parse", "i32, \"1\""),
    ("load", "\"x.npy\""),
    ("save", "\"x.npz\", a = x"),
    ("keys", "load(\"x.npz\")"),
    ("read_text", "\"a\""),
    ("write_text", "\"a\", \"b\""),
    ("image", "\"a.png\", x, fps = 1"),
    (
        "plot",
        "\"a.png\", u, u, labels = \"a\", style = \"line\", low = u, high = u, log = \"x\", title = \"a\", xlabel = \"a\", ylabel = \"a\", fps = 1",
    ),
    ("scatter", "\"a.png\", u, u, labels = \"a\", title = \"a\""),
    ("bar", "\"a.png\", lines(\"a\"), u, low = u, high = u"),
    ("hist", "\"a.png\", u, bins = 3"),
    ("heat", "\"a.png\", x, fps = 1"),
    ("seed_random", "7"),
    ("exit", "0"),
    ("gpus", "1"),
    ("shard", "x, gpus(1), axis = 0, halo = 0, granule = 1"),
    ("gather", "x"),
    ("rank", ""),
    ("ranks", ""),
    ("all_reduce", "u, op = \"sum\""),
    ("all_gather", "u"),
    ("reduce_scatter", "u, op = \"sum\""),
    ("broadcast", "u, from = 0"),
    ("send", "u, to = 0"),
    ("receive", "u, from = 0"),
    ("grad", "f, wrt = x"),
    ("value_and_grad", "f, wrt = x"),
    ("vjp", "f, wrt = x"),
    ("jvp", "f, wrt = x"),
    ("jacobian", "f, wrt = x"),
    ("hessian", "f, wrt = x"),
    ("gradcheck", "f, u, wrt = x"),
    ("no_grad", "1.0"),
    ("with_grad", "f, back"),
];

/// The builtins that take an unlimited number of positional arguments.
const UNLIMITED: [&str; 7] = ["print", "concat", "stack", "plot", "scatter", "bar", "hist"];

/// Returns the codes and titles of the errors that a call causes.
fn errors(name: &str, place: Place, arguments: &str) -> Vec<String> {
    let called = match name {
        "grad" | "value_and_grad" | "jacobian" | "hessian" | "with_grad" => "(u)",
        "vjp" => "(u, cotangent = 1.0)",
        "jvp" => "(u, tangent = u)",
        _ => "",
    };
    let call = format!("{name}({arguments}){called}");
    let text = match place {
        Place::Script => format!(
            "fn f(x: [f32; N]) -> f32 {{ sum(x * x) }}\nfn back(x: [f32; N], c: f32) -> [f32; N] {{ 2.0 * c * x }}\n\
             let x = ones(2, 3)\nlet v = [3, 1, 2]\nlet u = [1.0, 2.0]\nlet m = [true, false]\n{call}\n"
        ),
        Place::Threads => format!("kernel k(inout n: [i32; N]) threads(i: N) {{\n    {call}\n}}\n"),
        Place::Blocks => format!(
            "kernel k(inout n: [i32; N]) grid(1) block(32) {{\n    shared t: [f32; 16, 16]\n    shared h: [f16; 16, 16]\n    \
             t = 0.0\n    h = 0.0\n    {}{call}\n}}\n",
            if name == "mma" { "t = " } else { "" }
        ),
    };
    let outcome = Session::default().add("<text>", &text, &NoFiles);
    outcome.diagnostics.iter().filter(|d| d.is_error()).map(|d| format!("{}: {}", d.code, d.title)).collect()
}

/// Splits an argument list at its outermost commas.
fn split(arguments: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (vec![], 0, 0);
    for (at, c) in arguments.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(arguments[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(arguments[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// No builtin silently drops an argument: excess, duplicate and unknown arguments are reported.
#[test]
fn builtins_refuse_arguments_that_they_do_not_take() {
    let mut wrong = vec![];
    for entry in TABLE.iter().filter(|entry| entry.signature.starts_with(['(', '<'])) {
        let name = entry.name;
        let scalars = match entry.signature.split('(').nth(1).map_or(0, |params| params.matches(':').count()) {
            count if entry.signature.starts_with("<T: Int>") => vec!["6"; count].join(", "),
            count => vec!["0.5"; count].join(", "),
        };
        let listed = ARGUMENTS.iter().find(|(other, _)| *other == name).map(|(_, arguments)| *arguments);
        let is_math = matches!(entry.builtin, clk_scalar::builtin::Builtin::Math(_));
        assert!(listed.is_some() || is_math, "{name} has no row");
        let arguments = listed.unwrap_or(&scalars);
        let places = [Place::Script, Place::Threads, Place::Blocks];
        let Some(place) = places.into_iter().find(|place| errors(name, *place, arguments).is_empty()) else {
            wrong.push(format!("{name}({arguments}): {:?}", errors(name, Place::Script, arguments)));
            continue;
        };
        let parts = split(arguments);
        let (by_name, by_position): (Vec<&str>, Vec<&str>) = parts.iter().partition(|part| part.contains(" = "));
        let mut expect = |arguments: String, codes: &[&str], words: &str| {
            let reported = errors(name, place, &arguments);
            let says = |error: &String| codes.iter().any(|code| error.starts_with(code)) && error.contains(words);
            if !reported.iter().any(says) {
                wrong.push(format!("{name}({arguments}): {reported:?}, not {codes:?} {words}"));
            }
        };
        if name != "save" {
            let unknown = [arguments, "nonsuch = 1"].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
            expect(unknown.join(", "), &["E0206", "E0333"], "");
        }
        for duplicate in &by_name {
            expect(format!("{arguments}, {duplicate}"), &["E0206"], "is given twice");
        }
        if !UNLIMITED.contains(&name) {
            let longer = by_position.iter().chain(&vec!["1"; 12]).copied().collect::<Vec<_>>().join(", ");
            expect(longer, &["E0304", "E0332", "E0333"], "");
        }
    }
    // A parameter may be passed by position or by name, but not both.
    for (name, arguments) in [
        ("sum", "x, 0, axis = 1"),
        ("argmax", "x, 0, axis = 1"),
        ("flip", "x, 0, axis = 0"),
        ("close", "u, u, 0.1, rtol = 0.1"),
        ("close", "u, u, 0.1, 0.1, atol = 0.1"),
        ("all_reduce", "u, \"sum\", op = \"sum\""),
        ("broadcast", "u, 0, from = 0"),
        ("save", "\"x.npz\", a = x, a = x"),
        ("vjp", "f)(u, cotangent = 1.0, cotangent = 2.0"),
    ] {
        let reported = errors(name, Place::Script, arguments);
        if !reported.iter().any(|error| error.starts_with("E0206") && error.contains("is given twice")) {
            wrong.push(format!("{name}({arguments}): {reported:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
