//! An unresolved name is an error in every context, and an error in compiling a kernel is reported before the script
//! starts.

use std::fs;
use std::path::{Path, PathBuf};

use clk_base::source::FileId;
use clk_compile::{NoFiles, Session};
use clk_syntax::lex;
use clk_syntax::token::Tok;
use clk_testing::random::Random;
use clk_testing::{diagnostics, run};

/// Returns the codes of the diagnostics that the checker reports for a text.
fn checker_codes(text: &str) -> Vec<&'static str> {
    let mut session = Session::default();
    let mut outcome = session.add("<text>", text, &NoFiles);
    if !outcome.failed() {
        outcome.diagnostics.extend(session.examine());
    }
    outcome.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.code).collect()
}

fn programs() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for folder in ["examples", "stdlib", "tests/check", "tests/sound", "tests/cuda"] {
        let entries = fs::read_dir(root.join(folder)).expect("a folder").map(|e| e.expect("an entry").path());
        paths.extend(entries.filter(|path| path.extension().is_some_and(|e| e == "clk")));
    }
    paths.sort();
    let read = |path: PathBuf| fs::read_to_string(&path).map(|text| (path, text)).expect("a text");
    let sound = |(_, text): &(PathBuf, String)| checker_codes(text).is_empty();
    paths.into_iter().map(read).filter(sound).collect()
}

/// Replaces about 40 names in each program of the repository, one at a time, with a path that does not resolve. The
/// checker must report each of them.
#[test]
fn undefined_names_are_errors_everywhere() {
    let mut random = Random(29);
    let (mut tried, mut silent) = (0, String::new());
    for (path, text) in programs() {
        let tokens = lex(FileId(0), &text).tokens;
        let names: Vec<_> = tokens.iter().filter(|token| token.kind == Tok::Name).collect();
        for name in &names {
            if random.next_below(names.len()) >= 40 {
                continue;
            }
            tried += 1;
            let (before, after) = (&text[..name.start as usize], &text[name.end as usize..]);
            let changed = format!("{before}no.such.function{after}");
            let codes = checker_codes(&changed);
            // Fields of a loaded file are resolved only at run time.
            let of_file = before.ends_with('.') && text.contains("load(");
            if codes.is_empty() && !of_file || codes.contains(&"E0999") {
                let line = changed[before.rfind('\n').map_or(0, |at| at + 1)..].lines().next().unwrap_or("");
                silent += &format!("{}: {codes:?} {line}\n", path.display());
            }
        }
    }
    assert!(tried > 500, "only {tried} names");
    assert!(silent.is_empty(), "{silent}");
}

#[test]
fn function_parameters_accept_only_functions() {
    let kernel = "fn twice<op: fn(f32) -> f32>(x: f32) -> f32 { op(op(x)) }\nfn sq(x: f32) -> f32 { x * x }\n\
        kernel k<op: fn(f32) -> f32>(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = op(x[i]) }\n";
    let codes =
        |argument: &str| checker_codes(&format!("{kernel}import std.nn\nlet r = k([1.0, 2.0], op = {argument})"));
    assert_eq!(codes("sq"), Vec::<&str>::new());
    assert_eq!(codes("sqrt"), Vec::<&str>::new());
    assert_eq!(codes("nn.relu"), Vec::<&str>::new());
    for (argument, code) in [
        ("no.such.function", "E0201"),
        ("nothing", "E0201"),
        ("nn.nothing", "E0203"),
        ("nn.no.such", "E0203"),
        ("sq.x", "E0207"),
        ("select", "E0301"),
        ("max", "E0301"),
        ("print", "E0301"),
        ("k", "E0207"),
        ("1.0", "E0207"),
        ("sq(1.0)", "E0207"),
        ("f32", "E0207"),
        ("np.sqrt", "E0201"),
    ] {
        assert_eq!(codes(argument), [code], "{argument}");
    }
    assert_eq!(checker_codes(&format!("{kernel}let r = twice(1.0, op = no.such.function)")), ["E0201"]);
    assert_eq!(checker_codes("fn f<op: fn(f32) -> f32 = no.such.function>(x: f32) -> f32 { op(x) }"), ["E0201"]);
    assert_eq!(checker_codes("let r = no.such.thing<<<1, 1>>>(1.0)"), ["E0201"]);
}

/// An error in compiling a kernel is reported by `check`, and by `run` before the first statement.
#[test]
fn uncompilable_kernels_are_refused_before_the_run() {
    let kernel = |params: &str, body: &str| {
        format!("kernel k{params}(x: [i32; N], out y: [i32; N]) threads(i: N) {{\n    {body}\n}}\n")
    };
    let divides = kernel("<const T: i32>", "y[i] = x[i] / T");
    let reads = kernel("<const T: i32>", "var t: [i32; 4] = 0\n    y[i] = t[T]");
    let large = kernel("<const T: i32>", "var t: [i32; T] = 0\n    y[i] = t[i % T]");
    let halves = kernel("<const T: i32, const U: i32 = T / 2>", "var t: [i32; U] = 0\n    y[i] = t[0] + x[i] % T");
    let applies = kernel("<op: fn(i32) -> i32>", "y[i] = op(x[i])");
    let fatal = [
        ("E0485", format!("{divides}print(\"started\")\nlet r = k([1, 2], T = 0)")),
        ("E0485", format!("{divides}print(\"started\")\nif false {{ let r = k([1, 2], T = 1 - 1) }}")),
        (
            "E0485",
            format!("{divides}print(\"started\")\nfn f(x: [i32; N]) -> [i32; N] {{ k(x, T = 0) }}\nprint(f([1]))"),
        ),
        ("E0485", format!("{divides}print(\"started\")\ntest \"t\" {{ assert(k([1], T = 0) == [1]) }}")),
        ("E0485", format!("{divides}print(\"started\")\nbench \"b\" {{ k([1], T = 0) }}")),
        ("E0484", format!("{reads}const AT: i32 = 4\nprint(\"started\")\nlet r = k([1, 2], T = AT)")),
        ("E0481", format!("{large}print(\"started\")\nlet r = k([1, 2], T = 0)")),
        ("E0482", format!("{large}print(\"started\")\nlet r = k([1, 2], T = 1000000)")),
        ("E0481", format!("{halves}print(\"started\")\nlet r = k([1, 2], T = 1)")),
        ("E0485", format!("{}print(\"started\")", kernel("", "y[i] = x[i] / 0"))),
        ("E0485", format!("{applies}fn bad(x: i32) -> i32 {{ x % 0 }}\nprint(\"started\")\nlet r = k([1], op = bad)")),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for (code, text) in &fatal {
        fs::write(folder.path().join("a.clk"), text).expect("written");
        for command in ["check", "run", "test"] {
            let ran = run(folder.path(), &[command, "--json", "a.clk"]);
            let codes: Vec<_> =
                diagnostics(&ran).iter().map(|d| d["code"].as_str().unwrap_or("?").to_string()).collect();
            let codes: Vec<_> = codes.into_iter().filter(|code| code.starts_with('E')).collect();
            assert_eq!(
                (ran.code, codes.as_slice()),
                (1, [code.to_string()].as_slice()),
                "{command} of\n{text}\n{}",
                ran.out
            );
            assert!(!ran.out.contains("started"), "{command} of\n{text}");
        }
    }
    let fine = [
        format!("{divides}let r = k([1, 2], T = 1)"),
        format!("{divides}let t = 2\nlet r = k([1, 2], T = t)"),
        format!("{reads}let r = k([1, 2], T = 3)"),
        format!("{halves}let r = k([1, 2], T = 2)"),
        kernel("<const T: i32 = 0>", "y[i] = if T == 0 { 0 } else { x[i] / T }"),
    ];
    for text in &fine {
        assert_eq!(checker_codes(text), Vec::<&str>::new(), "{text}");
    }
}

/// For every test program: `check` succeeds if and only if `run` reaches the first statement.
#[test]
fn check_and_run_refuse_the_same_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut paths = Vec::new();
    for part in ["tests/diagnostics", "tests/diagnostics/golden", "tests/check"] {
        let entries = fs::read_dir(root.join(part)).expect("a folder").map(|e| e.expect("an entry").path());
        paths.extend(entries.filter(|path| path.extension().is_some_and(|e| e == "clk")));
    }
    assert!(paths.len() > 20);
    for path in paths {
        // Inserts a statement that prints a marker before all other statements.
        let text = fs::read_to_string(&path).expect("a text");
        fs::write(folder.path().join("a.clk"), format!("print(\"it has started\")\n{text}")).expect("written");
        let checked = run(folder.path(), &["check", "--json", "a.clk"]);
        let ran = run(folder.path(), &["run", "--json", "--max-steps", "10000", "a.clk"]);
        let started = ran.out.contains("it has started");
        assert_eq!(checked.code == 0, started, "{}\n{}\n{}", path.display(), checked.out, ran.out);
    }
}

/// Checks a text, which must have no errors, and returns the codes of its warnings.
fn warnings(text: &str) -> Vec<&'static str> {
    let outcome = Session::default().add("<text>", text, &NoFiles);
    assert!(!outcome.failed(), "{text}: {:?}", outcome.diagnostics);
    outcome.diagnostics.iter().map(|d| d.code).filter(|code| code.starts_with("W01")).collect()
}

#[test]
fn comments_that_look_like_divisions_are_warnings() {
    for text in [
        "7 // 2",
        "let n = 7\nlet h = n // 2",
        "let n = 7\nlet h = n //2",
        "let n = 7\nlet h = n// 2",
        "let n = 7\nlet tile = 2\nlet h = n // tile",
        "let n = 7\nlet h = (n + 1) // 2",
        "let n = 7\nlet h = n // 2 + 1",
        "let n = 7\nvar h = 0\nh = n // 2",
        "let n = 7\nlet h = n // (2 * n)",
        "fn half(n: i32) -> i32 {\n    n // 2\n}",
        "fn half(n: i32) -> i32 {\n    return n // 2\n}",
        "const N = 7 // 2",
        "var n = 7\nn //= 2",
        "let k = 2\nvar n = 7\nn //= k + 1",
        "let k = 2\nvar x = [7, 8]\nx[k - 1] //= 2 // halved",
        "let x = [1.0, 2.0]\nlet h = len(x) // 2",
        "let n = 7\nprint(\n    n // 2\n)",
        "let n = 7\nprint(\n    n // 2,\n)",
        "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {\n    let j = i // 2\n    y[i] = x[j]\n}",
    ] {
        assert_eq!(warnings(text), ["W0101"], "{text}");
    }
}

#[test]
fn ordinary_comments_are_not_warnings() {
    for text in [
        "let n = 7 // seven",
        "let n = 7 // the 2nd",
        "let n = 7  // 2",
        "print(7) // 7",
        "print(3 * 4) // 12",
        "let n = 3 * 4 // 12",
        "let n = 7 // 7 elements",
        "let n = 7 // = 7",
        "let n = 7 //= 7",
        "var n = 7\nn = 8 //= 8",
        "var n = 7\nn /= 2 //= 3",
        "print(7) //= 7",
        "let n = 7 // n",
        "let x = [1.5, 2.5]\nlet y = x[0] // 1.5",
        "let x = [\n    1, // 0\n    2, // 1\n]",
        "let x = [\n    1, // 0\n    2 // 1\n]",
        "struct S {\n    a: i32, // 4\n    b: i32 // 8\n}",
        "fn f(\n    a: i32, // 1\n    b: i32 // 2\n) -> i32 { a + b }",
        "let n = max(\n    1,\n    2,\n) // 2",
        "let n = 7\n// 2\nlet m = n",
        "let n = 7 // todo",
        "let n = 7 // [1, 2]",
        "let n = 7 // https",
        "let s = \"7 // 2\"",
        "let n = 7 /* 2 */",
    ] {
        assert_eq!(warnings(text), Vec::<&str>::new(), "{text}");
    }
}

#[test]
fn xor_that_looks_like_a_power_is_a_warning() {
    for text in [
        "let x = 2 ^ 10",
        "let x = 10 ^ 6",
        "let n = 3\nlet x = 2 ^ n",
        "let n = 3\nlet x = 10 ^ (n + 1)",
        "let (a, b) = (3, 4)\nlet x = a ^ 2 + b",
        "let (a, b) = (3, 4)\nlet x = 2 * a ^ 2",
        "let a = [1, 2]\nlet x = 3 * a[0] ^ 2",
    ] {
        assert!(warnings(text).iter().all(|code| *code == "W0102"), "{text}");
        assert!(!warnings(text).is_empty(), "{text}");
    }
    for text in [
        "let (a, b) = (3, 4)\nlet x = a ^ b",
        "let t = 3\nlet x = t ^ 1",
        "let t = 3\nlet x = t ^ 16",
        "let x = 0x2 ^ 0xa",
        "let x = 2u32 ^ 10u32",
        "let x = 2 ** 10",
        "let t = 3\nlet x = (t ^ 1) + 1",
        "let t = 3\nlet x = t ^ t ^ 5",
        "var t = 3\nt ^= 2",
    ] {
        assert_eq!(warnings(text), Vec::<&str>::new(), "{text}");
    }
}

/// The programs of the repository cause none of the warnings tested above.
#[test]
fn programs_of_the_repository_have_no_warnings() {
    for (path, text) in programs() {
        assert_eq!(warnings_of_syntax(&text), Vec::<String>::new(), "{}", path.display());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in
        ["README.md", "grammar/README.md", "docs/gradients.md", "docs/proofs.md", "docs/tiles.md", "docs/tour.md"]
    {
        let text = fs::read_to_string(root.join(name)).expect("a text");
        for block in text.split("```clk").skip(1) {
            let block = block.split("```").next().unwrap_or("");
            assert_eq!(warnings_of_syntax(block), Vec::<String>::new(), "{name}:\n{block}");
        }
    }
}

fn warnings_of_syntax(text: &str) -> Vec<String> {
    let (_, reported) = clk_syntax::parse(FileId(0), text);
    reported.iter().filter(|d| d.code.starts_with("W01")).map(|d| format!("{d:?}")).collect()
}
