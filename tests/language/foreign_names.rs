//! Names of NumPy, Python, CUDA and Triton lead to their equivalents in Clk, everywhere they may be typed; and these
//! equivalents compile. `tests/foreign_names/names.txt` lists the names that people type from habit.

use std::fmt::Write as _;
use std::fs;

use clk_base::diag::Diagnostic;
use clk_compile::{NoFiles, Session};
use clk_ide::Analysis;
use clk_scalar::Scalar;
use clk_scalar::builtin;
use clk_scalar::foreign_names::{self, ClkEquivalent, ForeignName};
use clk_syntax::token::{CONTEXTUAL, KEYWORDS};
use clk_testing::root;

/// Returns the names of the list. A line is `NumPy: abs absolute …`; a line that begins with `#` is a heading.
fn names() -> Vec<String> {
    let text = fs::read_to_string(root().join("tests/foreign_names/names.txt")).expect("the list");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split_once(": ")).flat_map(|(_, names)| names.split(' '));
    names.map(str::to_owned).collect()
}

/// Returns the errors of a script.
fn errors(script: &str) -> Vec<Diagnostic> {
    let mut session = Session::default();
    let mut outcome = session.add("<script>", script, &NoFiles);
    if !outcome.failed() {
        outcome.diagnostics.extend(session.examine());
    }
    outcome.diagnostics.into_iter().filter(Diagnostic::is_error).collect()
}

fn is_word_of_clk(name: &str) -> bool {
    let is_keyword = KEYWORDS.iter().any(|(word, _)| *word == name) || CONTEXTUAL.contains(&name);
    is_keyword || builtin::find(name).is_some() || Scalar::from_name(name).is_some() || name == "str"
}

fn row(name: &str) -> Option<ForeignName> {
    foreign_names::find(name).filter(|row| row.equivalent != ClkEquivalent::Same || name.contains('.'))
}

/// Returns a text that the help of a diagnostic about this name contains.
fn expected_help(row: &ForeignName, name: &str) -> String {
    match row.equivalent {
        ClkEquivalent::Code { .. } if row.is_library_item(name) => format!(".{{{name}}}`"),
        _ => row.help(name),
    }
}

/// Programs of names that are keywords in Python or CUDA, where a call is not the usual form, each with a text of the
/// message.
const STATEMENTS: &[(&str, &str, &str)] = &[
    ("import", "import numpy as np", "array functions are built in"),
    ("lambda", "let f = lambda x: x * x", "fn f(x"),
    ("def", "def f(x):\n    return x", "a function begins with `fn`"),
    ("class", "class Particle:\n    mass = 1.0", "`struct`"),
    ("try", "try:\n    print(1)", "assert"),
    ("raise", "raise 1", "assert"),
    ("is", "let x = 1\nlet y = x is 2", "write `==`"),
    ("not", "let y = not true", "write `!`"),
    ("and", "let y = true and false", "write `&&`"),
    ("or", "let y = true or false", "write `||`"),
    ("None", "let y = None", "mark a missing one"),
    ("True", "let y = True", "write `true`"),
    ("False", "let y = False", "write `false`"),
    ("var", "let x = [1.0, 2.0]\nlet y = var(x)", "mean((x - mean(x)) ** 2.0)"),
    ("__global__", "__global__ void f(float *x) { }", "kernel f("),
    ("__shared__", "__shared__ float s[64];", "shared s: [f32; 64]"),
    ("dim3", "dim3 block(16, 16);", "a launch has them"),
    ("float4", "kernel k(x: [float4; N], out y: [f32; N]) threads(i: N) { y[i] = x[i].x }", "f32x4"),
    ("half2", "kernel k(x: [half2; N], out y: [f32; N]) threads(i: N) { y[i] = 1.0 }", "f16x2"),
    ("tl.constexpr", "kernel k(out y: [i32; N], B: tl.constexpr) threads(i: N) { y[i] = 1 }", "const BLOCK"),
];

#[test]
fn each_name_leads_to_its_row_in_errors() {
    let mut wrong = String::new();
    for name in names() {
        if is_word_of_clk(&name) && row(&name).is_none() {
            continue;
        }
        let Some(row) = row(&name) else {
            writeln!(wrong, "{name}: no row").expect("written");
            continue;
        };
        // Clk's own `select` and `split` take other arguments, so the errors are about those.
        if is_word_of_clk(&name) || STATEMENTS.iter().any(|(word, ..)| *word == name) {
            continue;
        }
        let script = format!("let x = [1.0, 2.0]\nlet y = {name}(x)\n");
        let found = errors(&script);
        let help = expected_help(&row, &name).replace("`x`", "");
        let messages: Vec<String> =
            found.iter().flat_map(|d| d.help.iter().chain(d.fixes.iter().map(|fix| &fix.title))).cloned().collect();
        if found.len() != 1 || !messages.iter().any(|message| message.replace("`x`", "").contains(&help)) {
            writeln!(wrong, "{name}: {messages:?}, not {help}").expect("written");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn statements_of_other_languages_are_explained() {
    let mut wrong = String::new();
    for (name, script, text) in STATEMENTS {
        let found = errors(script);
        let messages: Vec<&String> = found
            .iter()
            .flat_map(|d| {
                let edits = d.fixes.iter().flat_map(|fix| fix.edits.iter().map(|(_, text)| text).chain([&fix.title]));
                std::iter::once(&d.title).chain(&d.help).chain(edits)
            })
            .collect();
        if !messages.iter().any(|message| message.contains(text)) {
            writeln!(wrong, "{name}: {messages:?}, not {text}").expect("written");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn prefixes_of_modules_lead_to_the_same_row() {
    for (script, text) in [
        ("np.clip(x, 0.0, 1.0)", "Clk calls it `clamp`"),
        ("numpy.clip(x, 0.0, 1.0)", "Clk calls it `clamp`"),
        ("torch.clamp(x, 0.0, 1.0)", "Clk calls it `clamp`"),
        ("jnp.where(x > 0.0, x, x)", "Clk calls it `select`"),
        ("np.linalg.det(x)", "`linalg.det(a)`"),
        ("np.linalg.eig(x)", "`np.linalg.eig` is not in Clk, because"),
        ("np.random.rand(3)", "Clk calls it `random`"),
        ("np.fft.fft(x)", "`fft.fft(z)`"),
        ("tl.load(x)", "`x[i..i + 64]`"),
        ("triton.cdiv(7, 2)", "Clk calls it `ceil_div`"),
        ("triton.testing.do_bench(x)", "`bench \"f\" { f(y) }`"),
        ("triton.language.program_id(0)", "`block_idx.x`"),
    ] {
        let found = errors(&format!("let x = [1.0, 2.0]\nlet y = {script}\n"));
        assert_eq!(found.len(), 1, "{script}: {found:?}");
        assert!(found[0].help.iter().any(|help| help.contains(text)), "{script}: {:?}", found[0].help);
    }
}

#[test]
fn methods_and_attributes_lead_to_expressions() {
    for (expression, text) in [
        ("x.clip(0.0, 1.0)", "Clk's function for it is `clamp(…)`"),
        ("x.sum()", "`sum` is a function"),
        ("x.astype(f32)", "`f32(x)`"),
        ("x.reshape(2, 1)", "`reshape` is a function"),
        ("x.flatten()", "`reshape(x, -1)`"),
        ("x.std()", "`sqrt(mean((x - mean(x)) ** 2.0))`"),
        ("x.split(2)", "`(x[..k], x[k..])`"),
        ("x.numpy()", "arrays move to the device that uses them"),
        ("x.T", "`transpose(x)`"),
        ("x.shape", "`shape(x)`"),
        ("x.dtype", "`[f32; N]` has elements of type `f32`"),
        ("x.ndim", "`[f32; M, N]` has two"),
        ("x.size", "`len(x)`"),
    ] {
        let found = errors(&format!("let x = [1.0, 2.0]\nlet y = {expression}\n"));
        assert_eq!(found.len(), 1, "{expression}: {found:?}");
        assert!(found[0].help.iter().any(|help| help.contains(text)), "{expression}: {:?}", found[0].help);
    }
}

/// The operands that the code of rows uses.
const HOST: &str = "\
import std.arrays
import std.complex
import std.fft
import std.histogram
import std.linalg
import std.math
import std.nn
import std.random
import std.scan
import std.sort
fn f(v: f32) -> f32 { v * v }
var x = [1.0, 2.0, 3.0, 4.0]
let y = [2.0, 3.0, 4.0, 5.0]
let a = reshape(arange(16.0), 4, 4)
let b = a
let (m, n, k, i, j) = (4, 4, 2, 1, 2)
let (low, high, mu, sigma, v, w) = (0.0, 1.0, 0.0, 1.0, 0.5, 2.0)
let (xs, ys, counts) = (x, y, [1, 0, 2, 1])
let indices = [0, 1, 2, 3]
let p = x > 1.0
let q = x < 3.0
let table = load(\"x.csv\")
let path = \"x.txt\"
";

/// The operands of code in kernels. `STATEMENT` is replaced.
const KERNEL: &str = "\
import std.random
import std.nn
kernel operands(x: [f32; N], y: [f32; N], a: [bf16; H, W], b: [bf16; H, W], inout total: [i32; N], out r: [f32; N])
    grid(ceil_div(N, 64)) block(64) {
    let (i, j, k, lane, delta, seed) = (64 * block_idx.x, 0, 0, 1, 1, 7u64)
    let (v, w, p, m) = (x[0], 2.0, x[0] > 0.0, 3u32)
    var rng = random.stream(seed, u32(i))
    shared acc: [f32; 16, 16]
    acc = 0.0
    STATEMENT
}
";

/// Returns whether the code of a row compiles: as a value or a statement of a script or kernel, or as an item.
fn compiles(code: &str) -> bool {
    let host = |line: String| {
        // A copy has the name of a complex array that other code uses.
        let complex = if code.starts_with("var z") { "" } else { "let z = [f32x2(1.0, 2.0), f32x2(3.0, 4.0)]\n" };
        format!("{HOST}{complex}{line}\n")
    };
    let kernel = |line: String| KERNEL.replace("STATEMENT", &line);
    let value = format!("let result = {code}");
    [host(value.clone()), host(code.to_owned()), kernel(value), kernel(code.to_owned()), code.to_owned()]
        .iter()
        .any(|script| errors(script).is_empty())
}

#[test]
fn the_code_of_each_row_compiles() {
    let mut wrong = String::new();
    for row in foreign_names::rows() {
        if let ClkEquivalent::Code { clk, .. } = row.equivalent
            && !compiles(clk)
        {
            writeln!(wrong, "{}: {clk}", row.names).expect("written");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn names_of_rows_are_builtins_types_or_operators() {
    for row in foreign_names::rows() {
        if let ClkEquivalent::Name(clk) = row.equivalent {
            let is_vector = clk.split_once('x').is_some_and(|(scalar, _)| Scalar::from_name(scalar).is_some());
            let is_derivative = matches!(clk, "with_grad" | "gradcheck");
            let is_operator = matches!(clk, "==" | "&&" | "||" | "!");
            assert!(is_word_of_clk(clk) || is_vector || is_derivative || is_operator, "{}: {clk}", row.names);
        }
    }
}

/// Every backtick-quoted Clk name in a cell of `grammar/numpy.md`, up to the first space or parenthesis.
fn cell_names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).filter_map(|text| text.split([' ', '(', '[']).next()).collect()
}

/// The verdict of each row of `grammar/numpy.md` agrees with the table, and an example uses the builtins of the table's
/// code. Cells such as `x[mask]` are syntax, which the table does not contain.
#[test]
fn the_list_of_numpy_functions_agrees_with_the_table() {
    let text = fs::read_to_string(root().join("grammar/numpy.md")).expect("the list");
    let mut wrong = String::new();
    let mut listed = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').splitn(3, " | ").map(str::trim).collect();
        let [cell, verdict, example] = cells[..] else { panic!("not three cells: {line}") };
        for name in cell_names(cell) {
            let name = name.trim_start_matches('.');
            listed.push(foreign_names::last_name(name).to_owned());
            let is_syntax = matches!(name, "x" | "@");
            let row = foreign_names::find(&format!("np.{name}"));
            let agrees = match row.map(|row| row.equivalent) {
                None => is_syntax,
                Some(ClkEquivalent::Same) => verdict == "same" || verdict == "as",
                Some(ClkEquivalent::Name(_) | ClkEquivalent::Code { .. }) => verdict != "no",
                Some(ClkEquivalent::Absent { .. }) => verdict == "no" || matches!(name, "ndim" | "vectorize"),
            };
            if !agrees {
                writeln!(wrong, "{name}: {verdict}, but {row:?}").expect("written");
            }
            let Some(ClkEquivalent::Code { clk, .. }) = row.map(|row| row.equivalent) else { continue };
            let words = |text: &str| -> Vec<String> {
                text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
            };
            let used = words(example);
            let missing: Vec<String> = words(clk)
                .into_iter()
                .filter(|word| builtin::find(word).is_some() && word != "len" && !used.contains(word))
                .collect();
            // A row of several names shows one of them.
            if !missing.is_empty() && cell_names(cell).len() == 1 {
                writeln!(wrong, "{name}: {example} has no {missing:?}, but the table {clk}").expect("written");
            }
        }
    }
    let is_numpy = |row: &&ForeignName| row.origin == foreign_names::NameOrigin::NumPy;
    for row in foreign_names::rows().filter(is_numpy) {
        let is_listed = |name: &str| listed.iter().any(|known| known == name);
        let is_module = row.names.split(' ').any(foreign_names::is_module);
        if row.equivalent != ClkEquivalent::Same && !is_module && !row.names.split(' ').any(is_listed) {
            writeln!(wrong, "{}: not in grammar/numpy.md", row.names).expect("written");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn documentation_shows_the_equivalent() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("clip", "Clk calls it clamp"),
        ("np.clip", "Clk calls it clamp"),
        ("numpy.linalg.norm", "linalg.norm(x)"),
        ("tl.load", "x[i..i + 64]"),
        ("np.sqrt", "Clk calls it sqrt"),
        ("eig", "is not in Clk, because"),
        ("split", "x[..k], x[k..]"),
    ] {
        let page = clk_testing::run(folder.path(), &["doc", name]);
        assert_eq!(page.code, 0, "{name}: {}", page.err);
        assert!(page.out.replace('`', "").contains(text), "{name}: {}", page.out);
    }
}

#[test]
fn completion_offers_the_equivalent() {
    let complete = |text: &str| Analysis::new("a.clk", text, &NoFiles).complete(text.len(), &NoFiles);
    for (text, label, insert, replaced) in [
        ("let y = cli", "clip", "clamp", "cli"),
        ("let y = np.cli", "np.clip", "clamp", "np.cli"),
        ("let y = flatt", "flatten", "reshape(x, -1)", "flatt"),
        ("let y = np.sqr", "np.sqrt", "sqrt", "np.sqr"),
        ("let y = tl.loa", "tl.load", "x[i..i + 64]", "tl.loa"),
    ] {
        let all = complete(text);
        let one = all.iter().find(|one| one.label == label).unwrap_or_else(|| panic!("{text}: {all:?}"));
        assert_eq!((one.insert.as_str(), &text[one.replace.clone()]), (insert, replaced), "{text}");
    }
    assert!(complete("let y = vectoriz").is_empty(), "names without an equivalent are not offered");
}

#[test]
fn similar_names_are_suggested_only_if_they_are_near() {
    let help = |script: &str| errors(script).into_iter().flat_map(|d| d.help).collect::<Vec<String>>().join("\n");
    assert!(help("let y = sqtr(2.0)").contains("did you mean `sqrt`"));
    assert!(help("let y = transpos([1.0])").contains("did you mean `transpose`"));
    for (script, other) in [("clip", "flip"), ("power", "lower"), ("det", "dot"), ("map", "max"), ("hstack", "stack")] {
        assert!(!help(&format!("let x = [1.0]\nlet y = {script}(x)")).contains(&format!("`{other}`?")), "{script}");
    }
    assert_eq!(help("let y = transactions([1.0])"), "");
}
