//! Short programs with exponentially large meaning: if the meaning can be shared, the cost is linear in the text, and
//! otherwise the program is rejected with a diagnostic. Each test would run for years, or exhaust memory, if its work doubled
//! with each line; the timeout only ends a hang.

mod common;

use std::fmt::Write;
use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use clk_lang::base::diag::Diagnostic;
use clk_lang::compile::{NoFiles, Session};
use common::{diagnostics, run};

const HANG: Duration = Duration::from_secs(120);

/// Returns the compile-time errors of a text.
fn found(text: String) -> Vec<Diagnostic> {
    within(move || {
        let mut session = Session::default();
        let mut outcome = session.add("<text>", &text, &NoFiles);
        if !outcome.failed() {
            outcome.diagnostics.extend(session.examine());
        }
        outcome.diagnostics.retain(Diagnostic::is_error);
        outcome.diagnostics
    })
}

fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    thread.spawn(move || drop(done.send(work()))).expect("a thread");
    wait.recv_timeout(HANG).expect("an end")
}

fn codes(found: &[Diagnostic]) -> Vec<&'static str> {
    found.iter().map(|d| d.code).collect()
}

/// Builds a text of a first line, then one line per level, in which `{a}` is the previous name and `{b}` the new one.
fn levels(prefix: &str, first: &str, each: &str, count: usize) -> String {
    let mut text = format!("{first}\n");
    for n in 1..=count {
        let (a, b) = (format!("{prefix}{}", n - 1), format!("{prefix}{n}"));
        writeln!(text, "{}", each.replace("{a}", &a).replace("{b}", &b)).expect("written");
    }
    text
}

#[test]
fn constants_are_computed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let floats = levels("C", "const C0 = 1.0", "const {b} = ({a} + {a}) / 2.0", 50);
    let ints = levels("D", "const D0 = 3", "const {b} = min({a}, {a})", 50);
    let calls = levels("E", "fn same(x: i32) -> i32 { x }\nconst E0 = 3", "const {b} = max(same({a}), {a})", 50);
    let kernel = "kernel k(out y: [f32; D50]) threads(i: D50) { y[i] = C50 + f32(E50) }\n";
    fs::write(folder.path().join("a.clk"), format!("{floats}{ints}{calls}{kernel}print(C50, D50, E50, k())\n"))
        .expect("written");
    let ran = run(folder.path(), &["run", "a.clk"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "1.0 3 3 [4. 4. 4.]\n"), "{}", ran.err);
}

#[test]
fn literals_of_many_elements() {
    let text = format!("let x = [{}1.5]\nprint(x[0])", "1.5, ".repeat(200_000));
    let first = within(move || found(text));
    assert_eq!(codes(&first), [""; 0], "{first:#?}");
}

#[test]
fn constants_may_need_those_that_come_later() {
    let chain: String = (0..20_000).map(|k| format!("const C{k} = C{} + 1\n", k + 1)).collect();
    let first = within(move || found(format!("{chain}const C20000 = 1\nconst CIRCLE = CIRCLE\nprint(C0)")));
    assert_eq!(codes(&first), ["E0327"], "{first:#?}");
}

#[test]
fn tuples_and_structs_have_a_bound() {
    for count in [13, 24, 60, 150] {
        let tuples = levels("t", "let t0 = (1.0, 2.0)", "let {b} = ({a}, {a})", count);
        assert_eq!(codes(&found(tuples))[0], "E0329", "{count} levels");
        let device = levels("t", "let t0 = (x[i], 2.0)", "let {b} = ({a}, {a})", count);
        let kernel = format!("kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {{\n{device}y[i] = t{count}.0\n}}");
        assert_eq!(codes(&found(kernel))[0], "E0329", "{count} levels");
        let structs = levels("S", "struct S0 { a: f32 }", "struct {b} { a: {a}, b: {a} }", count);
        let large = found(structs);
        assert_eq!(codes(&large), ["E0329"], "{count} levels");
        assert_eq!(large[0].notes.first().map(String::as_str), Some("`S13` holds 2 of `S12`"));
    }
    let nested =
        format!("fn pair<T>(x: T) -> (T, T) {{ (x, x) }}\nlet t = {}1.0{}", "pair(".repeat(40), ")".repeat(40));
    assert_eq!(codes(&found(nested))[0], "E0329");
    let endless = "fn f<T>(x: T) -> f32 { f((x, x)) }\n\
        kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = f(x[i]) }";
    assert!(!found(endless.into()).is_empty());
    // Realistic structs have a few dozen parts.
    let fine = levels("S", "struct S0 { a: f32x4 }", "struct {b} { a: {a}, b: {a} }", 11);
    assert_eq!(codes(&found(fine)), Vec::<&str>::new());
}

#[test]
fn calls_have_a_bound() {
    let kernel = |count: usize| {
        let functions =
            levels("go", "fn go0(x: f32) -> f32 { sin(x) }", "fn {b}(x: f32) -> f32 { {a}(x) + {a}(x + 1.0) }", count);
        format!("{functions}kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {{ y[i] = go{count}(x[i]) }}\n")
    };
    for count in [24, 60, 120] {
        let large = found(kernel(count));
        assert_eq!(codes(&large), ["E0490"], "{count} levels");
        let note = large[0].notes.first().expect("the chain");
        assert!(note.contains("calls `go") && note.ends_with("2 times"), "{note}");
    }
    assert_eq!(codes(&found(kernel(8))), Vec::<&str>::new());
}

/// Similar names are searched for diagnostics that are shown, and no others.
#[test]
fn thousands_of_unknown_names() {
    let mut script = String::from("let known = 1\n");
    let mut functions = String::new();
    for n in 0..8000 {
        writeln!(script, "let value{n} = knwon + other{n}").expect("written");
        writeln!(functions, "fn function{n}(x: f32) -> f32 {{ functoin{n}(x) }}").expect("written");
    }
    for (text, near) in [(script, "did you mean `known`?"), (functions, "did you mean `function0`?")] {
        let found = found(text);
        assert_eq!(found.len(), 20);
        assert_eq!(codes(&found)[0], "E0201");
        assert_eq!(found[0].help, [near]);
        assert!(found.iter().all(|d| d.misspelt.is_none()));
    }
}

#[test]
fn one_name_of_a_million_letters() {
    let (a, b) = ("a".repeat(1_000_000), "b".repeat(1_000_000));
    let text = format!(
        "let {a}c = 1\nprint({a}b)\nprint({b})\nlet t = math.{a}\nstruct {a}d {{ {a}e: f32 }}\nlet u: {a}f = 1"
    );
    assert_eq!(codes(&found(text))[0], "E0201");
}

#[test]
fn a_table_of_many_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let header: Vec<String> = (0..100_000).map(|n| format!("column{n}")).collect();
    let numbers = vec!["1"; header.len()].join(",");
    fs::write(folder.path().join("good.csv"), format!("{}\n{numbers}\n", header.join(","))).expect("written");
    fs::write(folder.path().join("bad.csv"), format!("{},column7\n{numbers},1\n", header.join(","))).expect("written");
    let at = folder.path().to_path_buf();
    let ran = within(move || run(&at, &["-e", "let t = load(\"good.csv\")\nprint(t.column99999)"]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "[1.]\n"), "{}", ran.err);
    let ran = run(folder.path(), &["--json", "-e", "load(\"bad.csv\")"]);
    let titles: Vec<_> = diagnostics(&ran).iter().map(|d| d["title"].as_str().unwrap_or("").to_string()).collect();
    assert_eq!(titles, ["`bad.csv` has two columns called `column7`"]);
}
