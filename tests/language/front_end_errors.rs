//! Tests diagnostics of the front end: the code, the location, and the text after the first fix is applied.

use clk_base::diag::Diagnostic;
use clk_base::source::FileId;
use clk_syntax::parse;

fn diagnostics(text: &str) -> Vec<Diagnostic> {
    parse(FileId(0), text).1
}

fn codes_of(text: &str) -> Vec<&'static str> {
    diagnostics(text).iter().map(|d| d.code).collect()
}

fn fixed(text: &str, diagnostic: &Diagnostic) -> String {
    let mut out = text.to_owned();
    let mut edits = diagnostic.fixes.first().map(|f| f.edits.clone()).unwrap_or_default();
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, new) in edits {
        out.replace_range(span.range(), &new);
    }
    out
}

/// Checks a text with one error: its code, the text of its primary label, and the text after the first fix (empty if
/// there is none).
#[track_caller]
fn one(text: &str, code: &str, place: &str, after: &str) {
    let all = diagnostics(text);
    assert_eq!(all.len(), 1, "{text}\n{all:#?}");
    let d = &all[0];
    assert_eq!(d.code, code, "{text}\n{d:#?}");
    let span = d.primary().unwrap();
    assert_eq!(&text[span.range()], place, "{text}\n{d:#?}");
    if after.is_empty() {
        assert!(d.fixes.is_empty(), "{text}\n{d:#?}");
    } else {
        let fixed = fixed(text, d);
        assert_eq!(fixed, after, "{text}\n{d:#?}");
        assert!(diagnostics(&fixed).is_empty(), "the fix does not mend it: {fixed}");
    }
    assert!(clk_codes::find(d.code).is_some(), "{} has no page", d.code);
}

#[test]
fn cuda_and_c() {
    one(
        "__global__ void f(x: [f32; N]) threads(i: N)\n{\n}\n",
        "E0114",
        "__global__",
        "kernel f(x: [f32; N]) threads(i: N)\n{\n}\n",
    );
    one("kernel void f(x: [f32; N]) threads(i: N) { }", "E0114", "void", "kernel f(x: [f32; N]) threads(i: N) { }");
    let text = "__global__ void add(const float* a, float* r, int n)\n{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    r[i] = a[i];\n}\n";
    assert_eq!(codes_of(text), ["E0114"]);
}

#[test]
fn declarations_of_c() {
    one("float x = 1.0;", "E0116", "float", "let x = 1.0");
    one("const int n = 3;", "E0116", "const int", "const n: i32 = 3");
    one("unsigned int n = 3", "E0116", "unsigned", "let n: u32 = 3");
    one("fn f() { float acc[4][2]; }", "E0116", "float", "fn f() { var acc: [f32; 4, 2] }");
    one("fn f() { __shared__ float s[256]; }", "E0115", "__shared__", "fn f() { shared s: [f32; 256] }");
    one("fn f() { shared s: f32 = 0.0 }", "E0115", "= 0.0", "");
    one("x := 1", "E0116", "x", "let x = 1");
    one("x: f32 = 1.0", "E0116", "x", "let x: f32 = 1.0");
    one("let mut x = 1", "E0139", "mut", "var x = 1");
    one("let float x = 1.0", "E0116", "float", "let x: f32 = 1.0");
    one("float f(float x) { return x; }", "E0117", "float", "fn f(x: f32) -> f32 { x }");
}

#[test]
fn expressions_of_other_languages() {
    one("print(f\"n is {n}\")", "E0138", "f", "print(\"n is {n}\")");
    one("let s = f\"{n}\"", "E0138", "f", "let s = \"{n}\"");
    one("print(n as f32)", "E0131", "as", "print(f32(n))");
    one("let y = a + (b + c) as i32 * 2", "E0131", "as", "let y = a + i32(b + c) * 2");
    one("let y = f(x).z[0] as float", "E0131", "as", "let y = f32(f(x).z[0])");
    one("let y = n as usize", "E0131", "as", "let y = i32(n)");
    one("let y = match n { 1 => 2, _ => 3 }", "E0138", "match", "");
    one("print(match n { 1 => 2 })", "E0138", "match", "");
    one("let p = new Point(1)", "E0138", "new", "");
    one("let f = lambda x: x + 1", "E0140", "lambda", "fn f(x: f32) -> f32 { x + 1.0 }");
    one("apply(lambda x: x, 1)", "E0140", "lambda", "");
    one("let f = x -> x + 1", "E0140", "->", "fn f(x: f32) -> f32 { x + 1.0 }");
    one("apply(x => x + 1)", "E0140", "=>", "");
    one("let f = fn(x: i32) -> i32 { x }", "E0140", "fn", "");
    one("let a = [i * i for i in 0..10]", "E0138", "for", "let a = arange(10) * arange(10)");
    one("print(sum(i for i in x))", "E0138", "for", "print(sum(x))");
    one("let y = a if p else b", "E0120", "if", "let y = if p { a } else { b }");
    one("f(a if p else b)", "E0120", "if", "f(if p { a } else { b })");
    one("let y = a .+ b", "E0121", ".+", "let y = a + b");
    one("let y = a .^ 2", "E0121", ".^", "let y = a ** 2");
    one("print(a .* b)", "E0121", ".*", "print(a * b)");
    one("let y = .5", "E0107", ".5", "let y = 0.5");
    one("print(-.25 * x)", "E0107", ".25", "print(-0.25 * x)");
    one("a, b = b, a", "E0135", "a, b", "");
    one("(a, b) += (b, a)", "E0135", "(a, b)", "");
}

#[test]
fn slices_of_python() {
    one("print(x[:, 1])", "E0138", "[:, 1]", "print(x[.., 1])");
    one("print(x[1:3])", "E0138", "[1:3]", "print(x[1..3])");
    one("x[a + 1:f(b, c)] = 0", "E0138", "[a + 1:f(b, c)]", "x[a + 1..f(b, c)] = 0");
    one("print(x[::2])", "E0138", "[::2]", "print(x[.. step 2])");
    one("print(x[1:9:2, ...])", "E0138", "[1:9:2, ...]", "print(x[1..9 step 2, ..])");
    one("print(x[-3:])", "E0138", "[-3:]", "print(x[len(x) - 3..])");
    one("print(x[0, :-1])", "E0138", "[0, :-1]", "print(x[0, ..shape(x, 1) - 1])");
    one("print(x[::-1])", "E0138", "[::-1]", "print(flip(x))");
    one("print(x[:, None])", "E0138", "[:, None]", "print(reshape(x, -1, 1))");
    one("print(x[None, :])", "E0138", "[None, :]", "print(reshape(x, 1, -1))");
    one("print(x[:, None, :])", "E0138", "[:, None, :]", "");
    one("print(p.x[-1:])", "E0138", "[-1:]", "print(p.x[len(p.x) - 1..])");
}

#[test]
fn shapes_of_kernels() {
    let head = "kernel f(x: [f32; M, N]) ";
    let whole = |shape: &str, body: &str| format!("{head}{shape} {{ {body} }}");
    let one = |shape: &str, body: &str, place: &str, after: &str| {
        let after = if after.is_empty() { String::new() } else { whole(after, body) };
        self::one(&whole(shape, body), "E0125", place, &after);
    };
    one("threads(N)", "x[i] = 1", "N", "threads(i: N)");
    assert_eq!(codes_of(&whole("threads(M, N)", "")), ["E0125"]);
    one("threads(i)", "", "i", "threads(i: M)");
    one("threads(i in N)", "", "in", "threads(i: N)");
    one("threads(i < N)", "", "<", "threads(i: N)");
    one("threads(256)", "", "256", "threads(i: 256)");
}

#[test]
fn array_types_of_other_languages() {
    one("fn f(x: f32[N]) { }", "E0141", "f32[N]", "fn f(x: [f32; N]) { }");
    one("fn f(x: float[3][4], n: i32) { }", "E0141", "float[3][4]", "fn f(x: [f32; 3, 4], n: i32) { }");
    one("fn f(x: f32[]) { }", "E0141", "f32[]", "fn f(x: [f32; N]) { }");
    one("let x: f32[3] = zeros(3)", "E0141", "f32[3]", "let x: [f32; 3] = zeros(3)");
    one("struct P { x: i32[3] }", "E0141", "i32[3]", "struct P { x: [i32; 3] }");
    one("fn f() -> f32[3] { }", "E0141", "f32[3]", "fn f() -> [f32; 3] { }");
    one("kernel k(inout: [f32; N]) threads(i: N) { }", "E0137", "", "kernel k(inout y: [f32; N]) threads(i: N) { }");
}

#[test]
fn comparisons_are_joined_by_logical_operators() {
    one("assert(x > 0 & y > 0)", "E0130", "&", "assert((x > 0) & (y > 0))");
    one("assert(x == 1 | y == 2)", "E0130", "|", "assert((x == 1) | (y == 2))");
    // A chain of comparisons causes one error, however long it is.
    assert_eq!(codes_of("let t = a < b < c < d"), ["E0130"]);
}

/// A fix that may be incorrect is offered, but not machine-applicable.
#[test]
fn uncertain_fixes_are_marked() {
    use clk_base::diag::Applicability;
    for (text, sure) in [
        ("print(f\"n\")", true),
        ("print(n as f32)", true),
        ("f(a b)", false),
        ("f(a, b \"text\")", true),
        ("let x = [\n    a,\n    b\n    c,\n]", true),
        ("f(re\"a\")", false),
        ("x[1:2]", true),
        ("let y = a if p else b", false),
        ("if a < b < c { }", true),
        ("if a < f(b) < c { }", false),
    ] {
        let all = diagnostics(text);
        let fix = all[0].fixes.first().unwrap_or_else(|| panic!("{text}: {all:#?}"));
        assert_eq!(fix.applicability == Applicability::MachineApplicable, sure, "{text}\n{all:#?}");
    }
}

#[test]
fn loops_and_operators_of_other_languages() {
    one("fn f() { for (int i = 0; i < n; i++) { g(i) } }", "E0118", "for (", "fn f() { for i in 0..n { g(i) } }");
    one("for (i = 1; i <= n; i += 2) { g(i) }", "E0118", "for (", "for i in 1..=n step 2 { g(i) }");
    one("i++", "E0119", "++", "i += 1");
    one("i--\nlet y = 1", "E0119", "--", "i -= 1\nlet y = 1");
    one("let y = x > 0 ? 1 : 2", "E0120", "?", "let y = if x > 0 { 1 } else { 2 }");
    one("if a and b { }", "E0121", "and", "if a && b { }");
    one("let c = a or b", "E0121", "or", "let c = a || b");
    one("if not a { }", "E0121", "not", "if !a { }");
    one("if a { }\nelif b { }", "E0122", "elif", "if a { }\nelse if b { }");
    one("if x = 3 { }", "E0123", "=", "if x == 3 { }");
    one("if a < b < c { }", "E0130", "<", "if a < b && b < c { }");
    one("let y = zeros<i32>(10)", "E0130", "<i32>", "");
    one("let y = zeros<i32>(10, 4) + 1", "E0130", "<i32>", "");
    one("let y = scale<f32>(x)", "E0130", "<f32>", "");
    one("let y = scale<4>(x)", "E0130", "<4>", "");
    one("let y = a<b>(c) ", "E0130", "<b>", "");
    one("let y = a < b > (c)", "E0130", ">", "let y = a < b && b > (c)");
    one("let x = ~y", "E0101", "~", "let x = !y");
    one("let x = a === b", "E0101", "===", "let x = a == b");
    one("let p = &x", "E0140", "&", "let p = x");
    one("let y = *(p + i)", "E0140", "*", "let y = p[i]");
    one("let y = (float)n", "E0131", "(float)", "let y = f32(n)");
    one("let f = |x| x", "E0140", "|", "fn f(x: f32) -> f32 { x }");
    one("switch x { }", "E0138", "switch", "");
    one("'outer: for i in 0..3 { g(i) }", "E0138", "'outer: for i in 0..3 { g(i) }", "");
}

#[test]
fn functions_of_other_languages() {
    one("def f(x: f32) { x }", "E0117", "def", "fn f(x: f32) { x }");
    one("func f(x: f32) -> f32 { x }", "E0117", "func", "fn f(x: f32) -> f32 { x }");
    one("fn f(x) -> f32 { x }", "E0124", "x", "fn f(x: f32) -> f32 { x }");
    one("fn f(float x) { }", "E0124", "float x", "fn f(x: f32) { }");
    one("kernel f(float* x) threads(i: N) { }", "E0124", "float* x", "kernel f(x: [f32; N]) threads(i: N) { }");
    one("fn f(x: f32): f32 { x }", "E0101", ":", "fn f(x: f32) -> f32 { x }");
    one("fn f(x: f32) -> { x }", "E0141", "", "");
    one("fn f(x: out [f32; 3]) { }", "E0141", "out", "fn f(out x: [f32; 3]) { }");
    one("fn f(x: [f32]) { }", "E0127", "]", "fn f(x: [f32; N]) { }");
    one("fn f(x: [f32, 3]) { }", "E0127", ",", "fn f(x: [f32; 3]) { }");
    one("kernel f(x: [f32; N]) { }", "E0125", "", "kernel f(x: [f32; N]) threads(i: N) { }");
    one("kernel f(x: [f32; N]) grid(1) { }", "E0125", "grid(1)", "kernel f(x: [f32; N]) grid(1) block(256) { }");
    one("import foo from bar", "E0129", "from", "");
    one("from numpy import array\nlet x = 1", "E0129", "from", "\nlet x = 1");
    one("#include <math.h>\nlet x = 1", "E0113", "#include", "\nlet x = 1");
    one("let x = True", "E0128", "True", "let x = true");
    one("let x = None", "E0128", "None", "");
    one("print \"a\"", "E0131", "\"", "print(\"a\")");
    one("fn f() { fn g() { } }", "E0133", "fn", "");
    one("fn f() { const x = 1 }", "E0133", "const", "fn f() { let x = 1 }");
}

#[test]
fn missing_things() {
    one("let x = ", "E0126", "", "");
    one("let x", "E0126", "", "");
    one("let x = 1 +\n\nlet y = 2", "E0126", "", "");
    one("let y = f(a b)", "E0127", "", "let y = f(a, b)");
    one("let y = [1 2]", "E0127", "", "let y = [1, 2]");
    one("let y = f(a, b", "E0102", "(", "let y = f(a, b)");
    one("let y = f(a, b\nlet z = 1", "E0102", "(", "let y = f(a, b)\nlet z = 1");
    one("let y = [1, (2]", "E0102", "(", "let y = [1, (2)]");
    one("let y = (1]", "E0103", "]", "let y = (1)");
    one("let y = 1)", "E0103", ")", "let y = 1");
    one("fn f() {\n  g()\n", "E0102", "{", "");
    one("fn f() {\n  g()\n\nfn h() { }", "E0102", "{", "fn f() {\n  g()\n}\n\nfn h() { }");
    // The indentation shows which `{` is unclosed, and before which line its `}` belongs.
    let broken = "fn f(a: i32) -> i32 {\n  if a > 0 {\n    1\n  else {\n    2\n  }\n}\nlet x = f(1)\n";
    one(broken, "E0102", "{", &broken.replace("  else", "  } else"));
    let broken = "kernel k() threads(i: 3) {\n  for j in 0..3 {\n    g(j)\n  h()\n}\nlet x = 1\n";
    one(broken, "E0102", "{", &broken.replace("g(j)\n", "g(j)\n  }\n"));
    one("fn f() {\n  g(a[1]\n  h(b)\n}", "E0102", "(", "fn f() {\n  g(a[1])\n  h(b)\n}");
    one("x[1 = 3", "E0102", "[", "x[1] = 3");
    one("while (x < 3 {\n  g()\n}", "E0102", "(", "while (x < 3) {\n  g()\n}");
    one("fn f(a: i32, b i32) { }", "E0124", "", "fn f(a: i32, b: i32) { }");
    one("struct S { a f32 }", "E0101", "", "struct S { a: f32 }");
    one("for i in 0..3: g(i)", "E0134", ":", "for i in 0..3 { g(i) }");
    one("let if = 3", "E0137", "if", "let if_ = 3");
    one("let a = 1 let b = 2", "E0131", "let", "let a = 1; let b = 2");
    one("if x == Body { pos: p } { }", "E0132", "Body {", "");
    one("f(x) = 1", "E0135", "f(x)", "");
}

#[test]
fn text_and_numbers() {
    one("let s = \"abc", "E0104", "\"", "let s = \"abc\"");
    one("let s = \"a{x\"", "E0110", "{", "");
    one("let s = \"a}\"", "E0110", "}", "let s = \"a}}\"");
    one("let s = \"a{}\"", "E0110", "{}", "let s = \"a{{}}\"");
    one("let s = \"a\\q\"", "E0109", "\\q", "let s = \"a\\\\q\"");
    one("let s = 'c'", "E0112", "'c'", "let s = \"c\"");
    one("/* open", "E0105", "/*", "");
    one("let x = 99999999999999999999", "E0107", "99999999999999999999", "");
    one("let x = 1.0f", "E0107", "f", "let x = 1.0");
    one("let x = 1 – 2", "E0106", "–", "let x = 1 - 2");
    one("let x\u{a0}= 1", "E0106", "\u{a0}", "let x = 1");
    one("# a comment", "E0113", "#", "// a comment");
    one("let é = 1", "E0106", "é", "");
}

#[test]
fn all_syntax_errors_are_reported() {
    let text = "fn f(x: f32) -> f32 {\n  let a = 1 +\n  let b = f(1 2)\n  i++\n  let c = 3\n  b\n}\nlet z = (1\nlet w = 4 5\nlet ok = 1\n";
    assert_eq!(codes_of(text), ["E0126", "E0127", "E0119", "E0102", "E0131"]);
}

#[test]
fn at_most_twenty_syntax_errors_are_reported() {
    let text = "let x = = 3\n".repeat(1000);
    assert_eq!(diagnostics(&text).len(), 20);
}

#[test]
fn deep_nesting_is_one_error() {
    for text in [
        "(".repeat(100_000),
        "[".repeat(100_000) + &"]".repeat(100_000),
        "{".repeat(100_000),
        "f(".repeat(100_000),
        format!("let x = {}1", "-".repeat(100_000)),
        format!("let x = {}1", "!".repeat(100_000)),
        format!("let x = 1{}", " + 1".repeat(100_000)),
        format!("let x = 1{}", " ** 1".repeat(100_000)),
        format!("let x = a{}", ".b".repeat(100_000)),
        format!("let x = a{}", "(b)".repeat(100_000)),
        format!("if a {{ }}{}", " else if a { }".repeat(100_000)),
        format!("let x: {}i32 = 1", "fn() -> ".repeat(100_000)),
        format!("let s = {}", "\"{".repeat(100_000)),
    ] {
        let codes = codes_of(&text);
        let shown: String = text.chars().take(40).collect();
        assert_eq!(codes, ["E0111"], "{shown}");
    }
    assert!(codes_of(&format!("let x = {}1{}", "(".repeat(190), ")".repeat(190))).is_empty());
    assert!(codes_of(&format!("let x = 1{}", " + 1".repeat(390))).is_empty());
}

/// Consecutive statements do not add to the nesting depth.
#[test]
fn many_statements_do_not_count_as_nesting() {
    for statement in ["g()", "barrier()", "g().x = a[0]", "while c { g() }", "if c { g() } else { g() }"] {
        let text = format!("fn f() {{\n{}}}\n", format!("    {statement}\n").repeat(2000));
        assert!(codes_of(&text).is_empty(), "{statement}: {:?}", codes_of(&text));
    }
}

/// Returns the fenced code blocks of a page whose opening line is `fence`.
fn blocks(text: &str, fence: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == fence {
            out.push(lines.by_ref().take_while(|l| *l != "```").map(|l| format!("{l}\n")).collect());
        } else if line.starts_with("```") {
            let _ = lines.by_ref().take_while(|l| *l != "```").count();
        }
    }
    out
}

#[test]
fn examples_of_explain_pages_hold() {
    for page in clk_codes::pages().filter(|page| page.code[1..].starts_with("01")) {
        for text in blocks(page.text, "```clk fails") {
            assert_eq!(codes_of(&text), [page.code], "{text}");
        }
        let good = blocks(page.text, "```clk");
        assert!(!good.is_empty(), "{}", page.code);
        for text in good {
            assert!(codes_of(&text).is_empty(), "{}: {text}\n{:#?}", page.code, diagnostics(&text));
        }
    }
}
