//! Tests that for any text, the front end neither panics nor hangs, reports at most twenty diagnostics, and its spans
//! are inside the text. `CLK_FUZZ_SECONDS=60 CLK_FUZZ_SEED=7 cargo test --test language fuzz_front_end::` runs longer,
//! on other texts.

use std::time::{Duration, Instant};

use clk_base::source::FileId;
use clk_compile::{NoFiles, Session};
use clk_syntax::token::{KEYWORDS, OPERATORS};
use clk_syntax::{dump, is_incomplete, parse};
use clk_testing::random::Random;
use clk_testing::{optional_setting, setting};

const SOURCES: &[&str] = &[
    "kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {\n    r[i] = alpha * x[i] + y[i]\n}\n",
    "kernel m<const T: i32 = 16>(a: [f32; M, K], out c: [f32; M, N])\n  grid(ceil_div(N, T), 2) block(T, T)\n{\n  shared ta: [f32; T, T]\n  for k in 0..K step T { ta[k, 0] += if k < 3 { a[0, k] } else { 0.0 } }\n  barrier()\n}\n",
    "let s = \"a {x:.3} {f(\"b{c}\")[1]} {{d}}\\n\"\nprint(s)\nlet (a, b) = (1, 2.5e-3f64)\n",
    "/// doc\nfn f<T: Float, op: fn(T) -> T>(x: T) -> (T, i32) { return (op(x) ** 2, -1) }\nstruct B { p: f32x3, m: f32 }\nimport std.nn.{relu, softmax as s}\n",
    "test \"t\" { assert(k<<<(4, 2), 32>>>(x, T = 3) == [5.0]) }\nbench \"b\" bytes = 12 * N { time { a @ b } }\non gpu(0) { batch { k(x); k(y) } }\n#unroll(4)\nwhile !a && b | c { break }\n",
];

fn check(text: &str) {
    let (file, diagnostics) = parse(FileId(0), text);
    assert!(diagnostics.len() <= 20, "{text:?}");
    for d in &diagnostics {
        assert!(d.primary().is_some(), "no place: {d:?}");
        let spans = d.labels.iter().map(|l| l.span).chain(d.fixes.iter().flat_map(|f| f.edits.iter().map(|(s, _)| *s)));
        for span in spans {
            assert!(text.get(span.range()).is_some(), "{span:?} is not in {text:?}: {d:?}");
        }
    }
    for item in &file.items {
        assert!(text.get(item.span.range()).is_some(), "{text:?}");
    }
    dump(&file);
    is_incomplete(text);
}

fn bytes(random: &mut Random) -> String {
    let length = random.next_below(80);
    let raw: Vec<u8> =
        (0..length).map(|_| random.word() as u8 & if random.next_below(4) == 0 { 0xff } else { 0x7f }).collect();
    String::from_utf8_lossy(&raw).into_owned()
}

fn soup(random: &mut Random) -> String {
    let extra = [
        "x",
        "f32",
        "1",
        "2.5",
        "\"",
        "{",
        "}",
        "\n",
        "\n",
        " ",
        "threads",
        "grid",
        "block",
        "step",
        "'",
        "#",
        "?",
        "++",
        "//",
        "/*",
        "*/",
        "é",
        "__shared__",
        "float",
        "int",
        "and",
        "def",
        "0x",
        "1e",
        "..",
        "\\",
        "\"a{x}b\"",
        "True",
        "time",
        "on",
    ];
    let mut out = String::new();
    for _ in 0..random.next_below(40) {
        match random.next_below(4) {
            0 => out.push_str(KEYWORDS[random.next_below(KEYWORDS.len())].0),
            1 => out.push_str(OPERATORS[random.next_below(OPERATORS.len())].0),
            _ => out.push_str(random.pick(&extra)),
        }
        if random.next_below(3) > 0 {
            out.push(' ');
        }
    }
    out
}

fn mutation(random: &mut Random) -> String {
    let mut chars: Vec<char> = random.pick(SOURCES).chars().collect();
    for _ in 0..=random.next_below(4) {
        if chars.is_empty() {
            break;
        }
        let at = random.next_below(chars.len());
        match random.next_below(4) {
            0 => {
                chars.remove(at);
            }
            1 => chars.insert(at, (random.next_below(95) as u8 + 32) as char),
            2 => {
                let end = (at + random.next_below(20)).min(chars.len());
                let part: Vec<char> = chars[at..end].to_vec();
                let to = random.next_below(chars.len());
                chars.splice(to..to, part);
            }
            _ => chars.truncate(at.max(1)),
        }
    }
    chars.into_iter().collect()
}

/// Runs the later stages of the front end: name resolution, type checking, and lowering of the kernels that need no
/// compile-time arguments.
fn compile(text: &str) {
    let mut session = Session::default();
    let outcome = session.add("<fuzz>", text, &NoFiles);
    if !outcome.failed() {
        session.examine();
    }
}

#[test]
fn any_text_is_parsed_without_panics() {
    let seconds = optional_setting("CLK_FUZZ_SECONDS");
    let end = seconds.map(|s| Instant::now() + Duration::from_secs(s));
    let seed: u64 = setting("CLK_FUZZ_SEED", 0);
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
    let mut done = 0u64;
    while end.map_or(done < 20_000, |end| Instant::now() < end) {
        let text = match done % 3 {
            0 => bytes(&mut random),
            1 => soup(&mut random),
            _ => mutation(&mut random),
        };
        let shown = text.clone();
        let before = Instant::now();
        let result = std::panic::catch_unwind(move || {
            check(&text);
            compile(&text);
        });
        assert!(result.is_ok(), "case {done}: {shown:?}");
        // The limit only detects hangs; it is generous because the machine may be busy.
        assert!(before.elapsed() < Duration::from_secs(60), "case {done}: {shown:?}");
        done += 1;
    }
    println!("{done} texts");
}

#[test]
fn every_prefix_of_a_source_is_parsed_without_panics() {
    for source in SOURCES {
        let diagnostics = parse(FileId(0), source).1;
        assert!(diagnostics.is_empty(), "{source}\n{diagnostics:#?}");
        for end in 0..source.len() {
            check(&source[..end]);
        }
    }
}

#[test]
fn huge_texts_do_not_stall() {
    let start = Instant::now();
    for text in [
        "x ".repeat(2_000_000),
        "\u{1f600}".repeat(1_000_000),
        "let s = \"".to_owned() + &"a".repeat(8_000_000),
        format!("let x = [{}1]", "1, ".repeat(1_000_000)),
        "/*".repeat(2_000_000),
        "let x = 1 +\n".repeat(300_000),
        ")".repeat(4_000_000),
        "\"{\n".repeat(1_000_000),
        "{\n".repeat(180) + &"a b\n".repeat(500_000),
    ] {
        check(&text);
    }
    assert!(start.elapsed() < Duration::from_secs(600), "{:?}", start.elapsed());
}
