//! The formatter: what it does to a text, that it does it once, and that it never changes what a program means.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use clk_lang::base::source::FileId;
use clk_lang::compile::library;
use clk_lang::fmt::{WIDTH, apply, format, format_range};
use clk_lang::syntax::{lex, parse};
use common::random::Random;
use common::run_with_input;

fn formatted(text: &str) -> String {
    match format(FileId(0), text) {
        Ok(formatted) => {
            assert_eq!(apply(text, &formatted.edits), formatted.text, "the edits of {text}");
            formatted.text
        }
        Err(diagnostics) => panic!("{diagnostics:?} for {text}"),
    }
}

/// One check for all: the text becomes the other one, which stays as it is.
#[track_caller]
fn check(text: &str, expected: &str) {
    let found = formatted(text);
    assert_eq!(found, expected, "\n--- found\n{found}\n--- expected\n{expected}");
    assert_eq!(formatted(expected), expected, "a second time");
}

#[test]
fn blanks() {
    check("let  x=1+2 *3", "let x = 1 + 2 * 3\n");
    check("x=-1- -y", "x = -1 - -y\n");
    check("f( a ,b , T=3 ) [ 0 ,.. ]", "f(a, b, T = 3)[0, ..]\n");
    check("for i in 0 .. n step  2{ g ( i ) }", "for i in 0..n step 2 { g(i) }\n");
    check(
        "fn f < T : Num , op : fn (T)->T > ( x:T )->T{ op ( x ) }",
        "fn f<T: Num, op: fn(T) -> T>(x: T) -> T { op(x) }\n",
    );
    check("k <<< (4,2) ,32 >>> (x)", "k<<<(4, 2), 32>>>(x)\n");
    check("let b=Body{pos:p ,mass:1.0}", "let b = Body { pos: p, mass: 1.0 }\n");
    check("import std . nn . { relu , softmax  as s }", "import std.nn.{relu, softmax as s}\n");
    check("let a:[f32;N,M]=zeros(N,M)", "let a: [f32; N, M] = zeros(N, M)\n");
    check("if !a&&b{c=(1)}else{c=2}", "if !a && b { c = (1) } else { c = 2 }\n");
    check("let s = \"a  {x+1:.3}  b\"", "let s = \"a  {x+1:.3}  b\"\n");
    check("#unroll( 4 )\nfor i in 0..4 { }", "#unroll(4)\nfor i in 0..4 {}\n");
    check("let z: [f32; N] @gpu = x @ y", "let z: [f32; N] @gpu = x @ y\n");
    check("let u = f(..)(..2)", "let u = f(..)(..2)\n");
}

#[test]
fn line_breaks_of_the_author() {
    check("fn f() { 1 }\n\n\n\nfn g() {\n\n1\n\n}", "fn f() { 1 }\n\nfn g() {\n    1\n}\n");
    check("if a\n{\nb()\n}\nelse\n{ c() }", "if a {\n    b()\n} else {\n    c()\n}\n");
    check("let x = 1\n  + 2\n     + 3", "let x = 1\n    + 2\n    + 3\n");
    check("f(a,\n  b)", "f(\n    a,\n    b,\n)\n");
    check("let m = [\n1, 2,\n3, 4]", "let m = [\n    1, 2,\n    3, 4,\n]\n");
    check("f(\n  a\n  , b\n)", "f(\n    a,\n    b,\n)\n");
    check("f(g([\n1, 2\n]))", "f(g([\n    1, 2,\n]))\n");
    check("kernel k(x: [f32; N])\n grid(1) block(N) {\n}", "kernel k(x: [f32; N])\n    grid(1) block(N) {}\n");
    check(
        "kernel k(x: [f32; N])\n grid(1) block(N) {\nbarrier() }",
        "kernel k(x: [f32; N])\n    grid(1) block(N)\n{\n    barrier()\n}\n",
    );
}

#[test]
fn separators() {
    check("let a = 1;\nlet b = 2; f(a);\nx = 3;", "let a = 1\nlet b = 2; f(a);\nx = 3\n");
    check("f(a, b,)", "f(a, b)\n");
    check("let t = (a,)", "let t = (a,)\n");
    check("struct S {\na: f32\nb: i32 }", "struct S {\n    a: f32,\n    b: i32,\n}\n");
    check("struct S { a: f32, b: i32, }", "struct S { a: f32, b: i32 }\n");
}

#[test]
fn comments_stay() {
    check("// a\n\n\n// b\nlet x = 1 // c\n// d", "// a\n\n// b\nlet x = 1 // c\n// d\n");
    check("f(a, // first\n  b) // all", "f(\n    a, // first\n    b,\n) // all\n");
    check("f(a /* one */ , /* two */ b)", "f(a /* one */, /* two */ b)\n");
    check("fn f() {\n// nothing\n}", "fn f() {\n    // nothing\n}\n");
    check("if a { // why\nb() }", "if a { // why\n    b()\n}\n");
    check("let a = 1  // one\nlet bcd = 2   // two", "let a = 1 // one\nlet bcd = 2 // two\n");
    check("let a = 1     // one\nlet bcd = 20  // two", "let a = 1    // one\nlet bcd = 20 // two\n");
    check("/// Doc.   \nfn f() {}", "/// Doc.\nfn f() {}\n");
    check("#!/usr/bin/env clk\nlet x = 1", "#!/usr/bin/env clk\nlet x = 1\n");
    check("struct S {\n/// the a\na: f32 // here\n}", "struct S {\n    /// the a\n    a: f32, // here\n}\n");
    check("x = [1, 2 // two\n]", "x = [\n    1, 2, // two\n]\n");
}

#[test]
fn long_lines() {
    let word = "a_rather_long_name_of_a_value";
    check(
        &format!("let x = f({word}, {word}, {word}, g({word}, {word}))"),
        &format!("let x = f(\n    {word},\n    {word},\n    {word},\n    g({word}, {word}),\n)\n"),
    );
    check(
        &format!("let x = {word} + {word} * {word} + {word} + {word}"),
        &format!("let x = {word} + {word} * {word}\n    + {word} + {word}\n"),
    );
    check(
        &format!("fn long_{word}({word}: f32, b: f32, c: f32, d: f32) -> f32 {{ {word} + b }}"),
        &format!("fn long_{word}({word}: f32, b: f32, c: f32, d: f32) -> f32 {{\n    {word} + b\n}}\n"),
    );
    check(
        &format!("if {word} < 1 && {word} < 2 && {word} < 3 && {word} < 4 {{\nx = 1\n}}"),
        &format!("if {word} < 1 && {word} < 2 && {word} < 3\n    && {word} < 4\n{{\n    x = 1\n}}\n"),
    );
    check(
        "kernel a_kernel(first: [f32; M, N], second: [f32; N, K], out third: [f32; M, K]) grid(ceil_div(K, 16), ceil_div(M, 16)) block(16, 16) { barrier() }",
        "kernel a_kernel(first: [f32; M, N], second: [f32; N, K], out third: [f32; M, K])\n    grid(ceil_div(K, 16), ceil_div(M, 16)) block(16, 16)\n{\n    barrier()\n}\n",
    );
    let numbers: Vec<String> = (100..160).map(|n| n.to_string()).collect();
    let found = formatted(&format!("let list = [{}]", numbers.join(", ")));
    assert_eq!(found.lines().count(), 5, "{found}");
    assert!(found.lines().all(|l| l.len() <= WIDTH), "{found}");
}

#[test]
fn ranges() {
    let text = "let  a=1\nlet  b=2\nlet  c=3\n";
    let found = format_range(FileId(0), text, 9..17).expect("formatted");
    assert_eq!(found.text, "let  a=1\nlet b = 2\nlet  c=3\n");
}

#[test]
fn broken_programs_are_left_alone() {
    let found = format(FileId(0), "let x = = 1\n");
    assert!(found.is_err_and(|d| d.iter().all(|d| d.code.starts_with("E01"))));
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path());
    for path in entries {
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|e| e == "clk") {
            found.push(path);
        }
    }
}

/// Every program of the repository that has no syntax error on purpose.
fn corpus() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["examples", "stdlib", "tests"] {
        programs(&here().join(folder), &mut found);
    }
    found.sort();
    let text = |path: &PathBuf| fs::read_to_string(path).expect("a text");
    let sound = |text: &str| parse(FileId(0), text).1.iter().all(|d| !d.is_error());
    found.iter().map(|p| (p.clone(), text(p))).filter(|(_, text)| sound(text)).collect()
}

#[test]
fn examples_and_library_are_formatted() {
    let wrong: Vec<_> = corpus()
        .into_iter()
        .filter(|(path, _)| !path.starts_with(here().join("tests")))
        .filter(|(_, text)| formatted(text) != *text)
        .map(|(path, _)| path)
        .collect();
    assert!(wrong.is_empty(), "`clk fmt examples stdlib` would change {wrong:?}");
    assert!(library::MODULES.len() > 5);
}

#[test]
fn a_second_time_changes_nothing() {
    for (path, text) in corpus() {
        let once = formatted(&text);
        assert_eq!(formatted(&once), once, "{}", path.display());
    }
}

/// The tokens of a text with other blanks, line breaks and comments between them.
fn disturbed(text: &str, random: &mut Random) -> String {
    let tokens = lex(FileId(0), text).tokens;
    let rate = 2 + random.below(60);
    let (mut out, mut at, mut in_string) = (String::new(), 0usize, 0usize);
    for token in tokens {
        use clk_lang::syntax::token::Tok;
        let (start, end) = (token.start as usize, token.end as usize);
        out.push_str(&text[at..start]);
        if in_string == 0 && random.below(rate) == 0 {
            let gap = [" ", "\n", "  \n\n\n", "/* c */", " // c\n", "\t", "\n// own\n", "", ";", ","];
            out.push_str(gap[random.below(gap.len())]);
        }
        in_string += usize::from(token.kind == Tok::StrStart);
        in_string -= usize::from(token.kind == Tok::StrEnd);
        out.push_str(&text[start..end]);
        at = end;
    }
    out + &text[at..]
}

/// Whatever stands between the tokens: if it is a program, it is laid out without a change of meaning (the formatter says so
/// itself), once and for all.
#[test]
fn any_layout_is_laid_out() {
    let rounds: usize = std::env::var("CLK_FMT_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let mut random = Random(7);
    let mut sound = 0;
    for (path, text) in corpus() {
        for _ in 0..rounds {
            let text = disturbed(&text, &mut random);
            if parse(FileId(0), &text).1.iter().any(|d| d.is_error()) {
                continue;
            }
            sound += 1;
            let once = formatted(&text);
            assert_eq!(formatted(&once), once, "{}, disturbed:\n{text}", path.display());
        }
    }
    assert!(sound > 20, "only {sound} texts were programs");
}

#[test]
fn the_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.clk");
    fs::write(&path, "let  x=1\n").expect("written");
    let checked = common::run(folder.path(), &["fmt", "--check", "a.clk"]);
    assert_eq!(checked.code, 1, "{}", checked.err);
    assert!(checked.out.contains("-let  x=1\n+let x = 1\n"), "{}", checked.out);
    assert_eq!(common::run(folder.path(), &["fmt"]).code, 0);
    assert_eq!(fs::read_to_string(&path).expect("a text"), "let x = 1\n");
    assert_eq!(common::run(folder.path(), &["fmt", "--check"]).code, 0);
    let piped = run_with_input(folder.path(), &["fmt", "-"], "f( x )");
    assert_eq!((piped.code, piped.out.as_str()), (0, "f(x)\n"));
    let part = run_with_input(folder.path(), &["fmt", "--range", "2:2", "-"], "f( x )\nf( x )\n");
    assert_eq!(part.out, "f( x )\nf(x)\n");
    let broken = run_with_input(folder.path(), &["fmt", "-"], "let = 1");
    assert_eq!((broken.code, broken.out.as_str()), (1, ""));
    assert!(broken.err.contains("error[E01"), "{}", broken.err);
}
