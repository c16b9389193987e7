//! Tests the formatter: its output, that it is idempotent, and that it never changes the meaning of a program.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use clk_base::source::FileId;
use clk_compile::library;
use clk_fmt::{WIDTH, apply, format, format_range, format_to};
use clk_syntax::token::{CONTEXTUAL, Tok};
use clk_syntax::{lex, parse};
use clk_testing::random::Random;
use clk_testing::root;
use clk_testing::run_with_input;
use clk_testing::setting;

fn formatted(text: &str) -> String {
    match format(FileId(0), text) {
        Ok(formatted) => {
            assert_eq!(apply(text, &formatted.edits), formatted.text, "the edits of {text}");
            formatted.text
        }
        Err(diagnostics) => panic!("{diagnostics:?} for {text}"),
    }
}

/// Checks that the formatter turns a text into the expected text, and does not change the expected text.
#[track_caller]
fn check(text: &str, expected: &str) {
    let actual = formatted(text);
    assert_eq!(actual, expected, "\n--- found\n{actual}\n--- expected\n{expected}");
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
    check("t . 0 . 0 [ 1 ]", "t.0 .0[1]\n");
    check("t.0 .0.1+t.0.0 .1", "t.0 .0.1 + t.0.0.1\n");
    check("a.0 [1] + b.0.1 [2] + [1 , 2]", "a.0[1] + b.0.1[2] + [1, 2]\n");
}

#[test]
fn line_breaks_of_the_author_are_kept() {
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
    let text = formatted(&format!("let list = [{}]", numbers.join(", ")));
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().all(|l| l.len() <= WIDTH), "{text}");
}

#[test]
fn ranges() {
    let text = "let  a=1\nlet  b=2\nlet  c=3\n";
    let range_result = format_range(FileId(0), text, 9..17).expect("formatted");
    assert_eq!(range_result.text, "let  a=1\nlet b = 2\nlet  c=3\n");
}

#[test]
fn broken_programs_are_not_formatted() {
    let broken = format(FileId(0), "let x = = 1\n");
    assert!(broken.is_err_and(|d| d.iter().all(|d| d.code.starts_with("E01"))));
}

fn programs(folder: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path());
    for path in entries {
        if path.is_dir() {
            programs(&path, paths);
        } else if path.extension().is_some_and(|e| e == "clk") {
            paths.push(path);
        }
    }
}

/// Returns every program of the repository that has no intentional syntax error.
fn corpus() -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    for folder in ["examples", "stdlib", "tests"] {
        programs(&root().join(folder), &mut paths);
    }
    paths.sort();
    let text = |path: &PathBuf| fs::read_to_string(path).expect("a text");
    paths.iter().map(|p| (p.clone(), text(p))).filter(|(_, text)| is_sound(text)).collect()
}

#[test]
fn examples_and_library_are_formatted() {
    let wrong: Vec<_> = corpus()
        .into_iter()
        .filter(|(path, _)| !path.starts_with(root().join("tests")))
        .filter(|(_, text)| formatted(text) != *text)
        .map(|(path, _)| path)
        .collect();
    assert!(wrong.is_empty(), "`clk fmt examples stdlib` would change {wrong:?}");
    assert!(library::MODULES.len() > 5);
}

/// Formats a text to a line width and checks that the edits produce the formatted text, that no comment is lost, and
/// that formatting again changes nothing.
#[track_caller]
fn settles(text: &str, width: usize, what: &dyn Display) {
    let first = match format_to(FileId(0), text, width) {
        Ok(formatted) => formatted,
        Err(diagnostics) => panic!("{what} to {width}: {diagnostics:?} for\n{text}"),
    };
    assert_eq!(apply(text, &first.edits), first.text, "{what} to {width}: the edits of\n{text}");
    let second = format_to(FileId(0), &first.text, width).expect("laid out again");
    assert_eq!(second.text, first.text, "{what} to {width}, a second time:\n{text}");
    assert!(second.edits.is_empty(), "{what} to {width}");
}

/// Returns the number of random rounds: the value of `CLK_FMT_ROUNDS` if it is set, else `usual`.
fn rounds(usual: usize) -> usize {
    setting("CLK_FMT_ROUNDS", usual)
}

fn is_sound(text: &str) -> bool {
    parse(FileId(0), text).1.iter().all(|d| !d.is_error())
}

/// Formats each program to a few line widths, or to all widths from 20 to 200 if `CLK_FMT_ROUNDS` is set.
#[test]
fn formatting_is_idempotent_at_any_width() {
    let mut random = Random(11);
    let all = std::env::var_os("CLK_FMT_ROUNDS").is_some();
    for (path, text) in corpus() {
        settles(&text, WIDTH, &path.display());
        for width in 20..=200 {
            if all || random.next_below(60) == 0 {
                settles(&text, width, &path.display());
            }
        }
    }
}

/// Splits a text into tokens, each with the blanks and comments before it. A string literal is one token.
fn parts(text: &str) -> Vec<(&str, &str)> {
    let (mut parts, mut at, mut depth, mut start) = (Vec::new(), 0usize, 0usize, 0usize);
    for token in lex(FileId(0), text).tokens {
        if depth == 0 {
            start = token.start as usize;
        }
        depth += usize::from(token.kind == Tok::StrStart);
        depth -= usize::from(token.kind == Tok::StrEnd);
        if depth == 0 {
            parts.push((&text[at..start], &text[start..token.end as usize]));
            at = token.end as usize;
        }
    }
    parts
}

/// Returns a text with random blanks, line breaks and comments between its tokens.
fn disturbed(text: &str, random: &mut Random) -> String {
    let rate = 1 + random.next_below(60);
    let mut out = String::new();
    for (gap, token) in parts(text) {
        out.push_str(gap);
        if random.next_below(rate) == 0 {
            let gaps = [
                " ",
                "\n",
                "  \n\n\n",
                "/* c */",
                " // c\n",
                "\t",
                "\n// own\n",
                "",
                ";",
                ",",
                "/* a\n b */",
                "\n/* o */ ",
                "/**/\n",
            ];
            out.push_str(gaps[random.next_below(gaps.len())]);
        }
        out.push_str(token);
    }
    out
}

/// Inserts random text between the tokens of programs. If the result still parses, formatting it keeps its meaning, as
/// the formatter itself verifies, and is idempotent.
#[test]
fn any_layout_is_formatted() {
    let mut random = Random(7);
    let mut sound = 0;
    for (path, text) in corpus() {
        for _ in 0..rounds(2) {
            let text = disturbed(&text, &mut random);
            if is_sound(&text) {
                sound += 1;
                settles(&text, 20 + random.next_below(180), &path.display());
            }
        }
    }
    assert!(sound > 20, "only {sound} texts were programs");
}

/// Returns the top-level statements and items of a text, each with the comments before it.
fn top_parts(text: &str) -> Vec<String> {
    let (tree, _) = parse(FileId(0), text);
    let mut at = 0;
    let mut parts = Vec::new();
    for item in &tree.items {
        let end = item.span.range().end;
        parts.extend(text.get(at..end).map(str::to_owned));
        at = end;
    }
    parts
}

/// Inserts a comment at two random places in a statement. Formatting the result must be idempotent: no two rules may
/// undo each other.
#[test]
fn comments_between_any_two_tokens() {
    let comments = [
        "/* c */",
        " // c\n",
        "\n// own\n",
        "/* a\n   b */",
        "\n/* o */",
        "/* e */\n",
        "/* long comment, long comment, long comment */",
    ];
    let mut random = Random(17);
    let mut sound = 0;
    for (path, text) in corpus() {
        for part in top_parts(&text) {
            let tokens = parts(&part);
            for at in 0..tokens.len() {
                if random.next_below(60) >= rounds(1) {
                    continue;
                }
                let comment = random.pick(&comments);
                let second = random.next_below(tokens.len());
                let mut text = String::new();
                for (index, (gap, token)) in tokens.iter().enumerate() {
                    text += gap;
                    text += if index == at || index == second { comment } else { "" };
                    text += token;
                }
                if is_sound(&text) {
                    sound += 1;
                    settles(
                        &text,
                        if random.next_below(2) == 0 { WIDTH } else { 20 + random.next_below(180) },
                        &path.display(),
                    );
                }
            }
        }
    }
    assert!(sound > 100, "only {sound} texts were programs");
}

/// Lengthens the names of programs by random amounts, so that lines become too long by one or two characters at every
/// kind of token.
#[test]
fn names_of_any_length() {
    let mut random = Random(13);
    let mut sound = 0;
    for (path, text) in corpus() {
        for part in top_parts(&text) {
            for _ in 0..rounds(1) {
                let longest = 1 + random.next_below(130);
                let grown: String = parts(&part)
                    .into_iter()
                    .map(|(gap, token)| {
                        let name = lex(FileId(0), token).tokens.first().is_some_and(|t| t.kind == Tok::Name);
                        let more = if name && !CONTEXTUAL.contains(&token) {
                            "_".repeat(random.next_below(longest))
                        } else {
                            String::new()
                        };
                        let gap = if random.next_below(2) == 0 { gap.replace('\n', " ") } else { gap.to_owned() };
                        format!("{gap}{token}{more}")
                    })
                    .collect();
                for text in [grown.clone(), part.split_whitespace().collect::<Vec<_>>().join(" ")] {
                    if is_sound(&text) {
                        sound += 1;
                        settles(&text, WIDTH, &path.display());
                    }
                }
            }
        }
    }
    assert!(sound > 100, "only {sound} texts were programs");
}

/// Texts that once made the formatter run forever, or alternate between two rules.
#[test]
fn unbreakable_lines_stay_long() {
    for length in 90..=130 {
        let name = "n".repeat(length);
        for text in [
            format!("let {name} = f(1) - 2"),
            format!("let x = {name}(1) - 2"),
            format!("let x = f({name}) - 2 - {name}"),
            format!("{name}[1] = -{name} - {name}"),
            format!("fn f({name}: f32) {{ let a = {name}; let b = x; b }}"),
            format!("fn f<{name}: Num, op: fn(T) -> T, const N: i32>(x: T) -> T {{ op(x) }}"),
            format!("kernel k<{name}: Num>(x: [T; N]) grid(1) block(N) {{ barrier() }}"),
            format!("let a: [f32; {name}] = {name}.{name}.{name}(x)"),
            format!("if {name} {{ a }} else {{ b }}"),
            format!("import std.{{{name}, b as {name}}}"),
            format!("let s = S {{ a: {name}, b: -{name} }}"),
            format!("for i in 0..{name} step {name} {{ f(i) }}"),
            format!("return_({name}) /* {name} */ - 2"),
        ] {
            assert!(is_sound(&text), "{text}");
            settles(&text, WIDTH, &"a long name");
        }
    }
}

#[test]
fn the_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.clk");
    fs::write(&path, "let  x=1\n").expect("written");
    let checked = clk_testing::run(folder.path(), &["fmt", "--check", "a.clk"]);
    assert_eq!(checked.code, 1, "{}", checked.err);
    assert!(checked.out.contains("-let  x=1\n+let x = 1\n"), "{}", checked.out);
    assert_eq!(clk_testing::run(folder.path(), &["fmt"]).code, 0);
    assert_eq!(fs::read_to_string(&path).expect("a text"), "let x = 1\n");
    assert_eq!(clk_testing::run(folder.path(), &["fmt", "--check"]).code, 0);
    let piped = run_with_input(folder.path(), &["fmt", "-"], "f( x )");
    assert_eq!((piped.code, piped.out.as_str()), (0, "f(x)\n"));
    let part = run_with_input(folder.path(), &["fmt", "--range", "2:2", "-"], "f( x )\nf( x )\n");
    assert_eq!(part.out, "f( x )\nf(x)\n");
    let broken = run_with_input(folder.path(), &["fmt", "-"], "let = 1");
    assert_eq!((broken.code, broken.out.as_str()), (1, ""));
    assert!(broken.err.contains("error[E01"), "{}", broken.err);
}
