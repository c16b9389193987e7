//! Tests of complete renderings, and of unusual sources.

use super::*;
use crate::diag::Applicability;
use crate::source::Span;

fn ascii() -> RenderStyle {
    RenderStyle { ascii: true, ..RenderStyle::default() }
}

fn sources(text: &str) -> (SourceMap, FileId) {
    let mut sources = SourceMap::default();
    let file = sources.add("demo.clk", text);
    (sources, file)
}

#[test]
fn complete_message() {
    let (sources, file) = sources("let n = 3\nlet x = 1.0 * n\n");
    let diagnostic = Diagnostic::error("E0301", "`*` needs two numbers of one type")
        .at(Span::new(file, 24, 25), "this is `i32`")
        .because(Span::new(file, 18, 21), "this is `f32`")
        .note("nothing is converted silently")
        .fix("convert it with `f32(…)`", Span::new(file, 24, 25), "f32(n)", Applicability::MachineApplicable);
    let expected = "\
error[E0301]: `*` needs two numbers of one type
   ,-[ demo.clk:2:15 ]
   |
 2 | let x = 1.0 * n
   |         ^|^   |
   |          `------- this is `f32`
   |               |
   |               `-- this is `i32`
   |
   | Help: convert it with `f32(...)`:
   |       2 | let x = 1.0 * f32(n)
   |
   | Note: nothing is converted silently
---'
";
    assert_eq!(text(&diagnostic, &sources, ascii()), expected);
}

#[test]
fn fixes_go_below_the_help_text_that_suggests_them() {
    let (sources, file) = sources("let n = 3\nlet x = 1.0 * n\n");
    let diagnostic = Diagnostic::error("E0302", "`*` can't mix two types")
        .at(Span::new(file, 24, 25), "this is `i32`")
        .help("there are no implicit conversions: write `f32(…)`")
        .fix("convert it with `f32(…)`", Span::new(file, 24, 25), "f32(n)", Applicability::MachineApplicable);
    // The help text is recognized although `…` is replaced in ASCII and although it may be wrapped.
    for style in [RenderStyle::default(), ascii(), RenderStyle { width: 50, ..ascii() }] {
        let drawn = text(&diagnostic, &sources, style);
        assert_eq!((drawn.matches("Help").count(), drawn.matches("f32(n)").count()), (1, 1), "{drawn}");
    }
}

#[test]
fn help_and_notes_show_without_a_location() {
    let diagnostic = Diagnostic::error("E0701", "no file `a.clk`").help("did you mean `b.clk`?").note("looked in `.`");
    let drawn = text(&diagnostic, &SourceMap::default(), ascii());
    assert_eq!(drawn, "error[E0701]: no file `a.clk`\n  Help: did you mean `b.clk`?\n  Note: looked in `.`\n");
}

#[test]
fn two_files() {
    let (mut sources, main) = sources("import \"./lib.clk\"\nlib.f(1)\n");
    let lib = sources.add("lib.clk", "fn f() { }\n");
    let diagnostic = Diagnostic::error("E0310", "too many arguments")
        .because(Span::new(lib, 3, 4), "takes none")
        .at(Span::new(main, 25, 26), "one is given");
    let drawn = text(&diagnostic, &sources, ascii());
    let main_at = drawn.find("demo.clk:2:7").expect("the main file");
    assert!(main_at < drawn.find("lib.clk:1:4").expect("the other file"), "{drawn}");
}

#[test]
fn a_line_of_ten_megabytes_is_cut() {
    let long = format!("{}oops{}\n", "a".repeat(5_000_000), "b".repeat(5_000_000));
    let (sources, file) = sources(&long);
    let diagnostic = Diagnostic::error("E0101", "odd").at(Span::new(file, 5_000_000, 5_000_004), "here");
    let drawn = text(&diagnostic, &sources, ascii());
    assert!(drawn.len() < 1000, "{} bytes", drawn.len());
    assert!(drawn.contains("demo.clk:1:5000001") && drawn.contains("aoopsb"), "{drawn}");
    let all = Diagnostic::error("E0101", "odd").at(Span::new(file, 0, 10_000_004), "all of it");
    assert!(text(&all, &sources, ascii()).len() < 2000);
}

#[test]
fn no_span_of_any_text_panics() {
    for source in
        ["", "\n", "é\t→\n", "a\r\nb\r\n", "x\u{2028}y\u{85}z\n\n", "\u{1b}[31m\u{202e}", "ab\ncd\nef", "\n\n\n"]
    {
        let (sources, file) = sources(source);
        for start in 0..source.len() + 3 {
            for end in start..source.len() + 4 {
                for other in [0, source.len(), 4_000_000_000] {
                    let diagnostic = Diagnostic::warning("W0001", "w")
                        .at(Span { file, start: start as u32, end: end as u32 }, "text")
                        .because(Span::new(file, other, other + 1), "")
                        .because(Span::new(FileId(9), 0, 1), "elsewhere");
                    let drawn = text(&diagnostic, &sources, ascii());
                    assert!(!drawn.contains(['\u{1b}', '\u{202e}', '\u{1}']), "{drawn:?}");
                    assert!(drawn.contains("text"), "{source:?} {start}..{end}: {drawn}");
                    json(&diagnostic, &sources);
                }
            }
        }
    }
}

#[test]
fn reversed_spans_do_not_panic() {
    let (sources, file) = sources("abc def\n");
    let diagnostic = Diagnostic::error("E0101", "odd").at(Span { file, start: 5, end: 2 }, "here");
    assert!(text(&diagnostic, &sources, ascii()).contains("here"));
}

#[test]
fn the_end_of_the_input_is_shown_on_the_last_line() {
    let (sources, file) = sources("fn f() {\n    1\n\n");
    let diagnostic =
        Diagnostic::error("E0102", "this is never closed").at(Span::new(file, 16, 16), "the input ends here");
    assert!(text(&diagnostic, &sources, ascii()).contains("demo.clk:2:6"));
}

#[test]
fn json_has_lines_columns_and_bytes() {
    let (sources, file) = sources("é = 1\nb\n");
    let diagnostic = Diagnostic::error("E0201", "who is \"b\"?").at(Span::new(file, 7, 8), "unknown");
    let value: serde_json::Value = serde_json::from_str(&json(&diagnostic, &sources)).expect("JSON");
    assert_eq!(value["code"], "E0201");
    assert_eq!((&value["version"], &value["kind"]), (&JSON_VERSION.into(), &"diagnostic".into()));
    let label = &value["labels"][0];
    assert_eq!(label["role"], "primary");
    assert_eq!((&label["line"], &label["column"], &label["start"]), (&2.into(), &1.into(), &7.into()));
}

#[test]
fn summaries() {
    let tally = |errors, warnings| DiagCounts { errors, warnings }.summary().unwrap_or_default();
    assert_eq!(tally(2, 1), "2 errors and 1 warning");
    assert_eq!(tally(1, 0), "1 error");
    assert_eq!(tally(0, 3), "3 warnings");
    assert_eq!(tally(0, 0), "");
}

#[test]
fn color_is_optional() {
    let (sources, file) = sources("x\n");
    let diagnostic = Diagnostic::error("E0201", "no").at(Span::new(file, 0, 1), "here");
    assert!(text(&diagnostic, &sources, RenderStyle { color: true, ..ascii() }).contains('\u{1b}'));
    assert!(!text(&diagnostic, &sources, ascii()).contains('\u{1b}'));
}

#[test]
fn adjacent_codes_of_one_color_are_merged() {
    assert_eq!(merge_colors("a\x1b[31mb\x1b[0m\x1b[31mc\x1b[0m\x1b[34md\x1b[0m"), "a\x1b[31mbc\x1b[0m\x1b[34md\x1b[0m");
    assert_eq!(merge_colors("\x1b[31mb\x1b[0m \x1b[31mc\x1b[0m\x1b["), "\x1b[31mb\x1b[0m \x1b[31mc\x1b[0m\x1b[");
}
