//! Translations of constructs of other languages. `translations.txt` has a construct and its translation in each block;
//! `CLK_BLESS=1` rewrites the translations.

use clk_base::diag::Diagnostic;
use clk_base::source::FileId;
use std::path::Path;

/// Returns the text after the fix of the first error.
fn fixed(text: &str) -> String {
    let (_, diagnostics) = crate::parse(FileId(0), text);
    let Some(diagnostic) = diagnostics.first() else { return "no error\n".to_owned() };
    let Some(fix) = diagnostic.fixes.first() else { return format!("{}: {}\n", diagnostic.code, diagnostic.title) };
    let mut edits = fix.edits.clone();
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut fixed = text.to_owned();
    for (span, replacement) in edits {
        fixed.replace_range(span.range(), &replacement);
    }
    fixed
}

#[test]
fn constructs_are_translated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign/translations.txt");
    let text = std::fs::read_to_string(&path).expect("the translations");
    let mut all = String::new();
    for block in text.split("====\n") {
        let (construct, _) = block.split_once("----\n").expect("a construct and its translation");
        let separator = if all.is_empty() { "" } else { "====\n" };
        all += &format!("{separator}{construct}----\n{}", fixed(construct));
    }
    if std::env::var_os("CLK_BLESS").is_some() {
        std::fs::write(path, all).expect("the translations");
        return;
    }
    let differing = text.lines().zip(all.lines()).find(|(old, new)| old != new);
    assert!(text == all, "the first difference (expected, actual): {differing:?}");
}

/// After the translation, a text has no further errors in the construct.
#[test]
fn one_error_remains_for_each_construct() {
    let errors = |text: &str| -> Vec<Diagnostic> { crate::parse(FileId(0), text).1 };
    for text in [
        "def f(x):\n    y = 'a'\n    for i in range(3):\n        x += 1\n    return x\n",
        "__global__ void k(float *x, int n) {\n    int i = threadIdx.x;\n    if (i < n) { x[i]++; }\n}\n",
        "kernel k(x: [f32; N]) threads(i: N) {\n    float a = 0.0f;\n    for (int j = 0; j < 3; j++) { a += 1; }\n}\n",
    ] {
        let errors = errors(text);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        assert!(super::translated_span(&errors[0]).is_some(), "{text}");
    }
}

/// Any text is translated or left alone, without panics and in bounded time.
#[test]
fn broken_constructs_are_left_alone() {
    let nested = format!("x = {}1{}\n", "(".repeat(3000), ")".repeat(3000));
    let texts = [
        nested.as_str(),
        "def",
        "def f(",
        "def f(x):",
        "def f(x):\n",
        "for (;;",
        "for (int i = 0; i <",
        "__global__ void",
        "f\"{x",
        "f\"{x:{y}}\" :",
        "switch (x) {",
        "if x:\nelse:\n",
        "é = (float)ü ? 1 : 'ß';",
        "x ? y",
        "[x for x",
        "|x| |y",
        "template <typename",
        "@cuda.jit\n",
        "\\x -> \\",
        "for i in 1:n\n",
    ];
    for text in texts {
        for end in (0..=text.len().min(60)).filter(|end| text.is_char_boundary(*end)) {
            fixed(&text[..end]);
        }
        fixed(text);
    }
}

/// Nested constructs are read in bounded time: a part that is read again must not contain parts that are read again.
#[test]
fn nested_constructs_take_linear_time() {
    const OPENINGS: &[&str] = &[
        "(",
        "[",
        "{",
        "[(",
        "f(",
        "x[",
        "a.b<(",
        "a.b<",
        "-(",
        "(float)(",
        "[1 ",
        "[-",
        "x ? (",
        "lambda x: (",
        "|x| (",
        "if x { [",
    ];
    for opening in OPENINGS {
        for prefix in ["let y = ", "y = ", "float y = ", "def f(x):\n    return "] {
            fixed(&format!("{prefix}{}1 @@ 2\n", opening.repeat(100)));
        }
    }
}

/// Deterministic random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// Constructs with some changed characters do not panic. `CLK_FUZZ_CASES` is their number, `CLK_FUZZ_SEED` the seed.
#[test]
fn changed_constructs_do_not_panic() {
    const MARKS: [&str; 24] = [
        "/*", "*/", "/*/", "//", "#", "\"", "'", "f\"", "{", "}", "(", ")", "[", "]", ";", ":", "\\", "\n", "    ",
        "é", "0x", "?", "%", "${",
    ];
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let mut random = Random(number("CLK_FUZZ_SEED", 0));
    let text = include_str!("translations.txt");
    let constructs: Vec<&str> = text.split("====\n").filter_map(|block| Some(block.split_once("----\n")?.0)).collect();
    for case in 0..number("CLK_FUZZ_CASES", 5_000) {
        let mut chars: Vec<char> = constructs[random.below(constructs.len())].chars().collect();
        for _ in 0..=random.below(3) {
            let at = random.below(chars.len() + 1);
            let end = (at + random.below(12)).min(chars.len());
            match random.below(4) {
                0 => drop(chars.drain(at..end)),
                1 => {
                    let other = constructs[random.below(constructs.len())];
                    chars.splice(at..at, other.chars().skip(random.below(200)).take(random.below(60)));
                }
                2 => chars.truncate(at),
                _ => drop(chars.splice(at..at, MARKS[random.below(MARKS.len())].chars())),
            }
        }
        let text: String = chars.into_iter().collect();
        let result = std::panic::catch_unwind(|| fixed(&text));
        assert!(result.is_ok(), "case {case}: {text:?}");
    }
}
