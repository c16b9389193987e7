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
