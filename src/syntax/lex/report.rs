//! The lexer's diagnostics for invalid characters, numbers, comments and `#` lines.

use super::LexReader;
use crate::literal::LiteralError;
use clk_base::diag::{Applicability, Diagnostic};

impl LexReader<'_> {
    pub(super) fn bad_character(&mut self, start: usize, end: usize) {
        let continues_run = self.bad_until == start;
        self.bad_until = end;
        if continues_run {
            return;
        }
        let text = self.text.get(start..end).unwrap_or("");
        let span = self.span(start, end);
        let c = text.chars().next().unwrap_or('\u{fffd}');
        let shown: String = if c.is_control() { format!("U+{:04X}", c as u32) } else { format!("`{c}`") };
        let diagnostic = Diagnostic::error("E0106", format!("{shown} means nothing in Clk"));
        let diagnostic = match look_alike(c) {
            Some((meant, "")) => diagnostic
                .at(span, "an invisible character")
                .note(format!("{meant}, U+{:04X}, usually comes from copied text", c as u32))
                .fix("remove it", span, "", Applicability::MachineApplicable),
            Some((meant, plain)) => diagnostic.at(span, format!("U+{:04X}, {meant}", c as u32)).fix(
                format!("write `{plain}`"),
                span,
                plain,
                Applicability::MachineApplicable,
            ),
            None if c == '\\' => diagnostic
                .at(span, "unexpected backslash")
                .help("a line continues inside brackets, after an operator, or before one")
                .help("`linalg.solve(a, b)` of `import std.linalg` solves the equations `a @ x == b`"),
            None if c == '$' || c == '`' => {
                diagnostic.at(span, "unexpected character").help("a value in a string is written `{x}`: `\"x = {x}\"`")
            }
            None if c == '\'' && is_label(self.text.get(start + 1..).unwrap_or("")) => Diagnostic::error(
                "E0138",
                "there are no labels in Clk",
            )
            .at(span, "a label of Rust")
            .help(
                "put the loops into a function, where `return` ends all of them, or let a variable end the outer loop",
            ),
            None if c == '\'' => {
                diagnostic.at(span, "a single quote without a partner").help("strings need double quotes: `\"text\"`")
            }
            None if c.is_alphabetic() => diagnostic.at(span, "not part of a name").help(
                "names are made of the letters a to z, digits and `_`; other scripts are fine in strings and comments",
            ),
            None => diagnostic.at(span, "unexpected character"),
        };
        self.report(diagnostic);
    }

    pub(super) fn bad_number(&mut self, problem: LiteralError, text: &str, start: usize, end: usize) {
        let span = self.span(start, end);
        let diagnostic = match problem {
            LiteralError::NoDigits => Diagnostic::error("E0107", format!("`{text}` has no digits"))
                .at(span, "digits should follow")
                .help("hexadecimal is `0xff`, binary is `0b1010`"),
            LiteralError::TooLarge => Diagnostic::error("E0107", "a number is too large")
                .at(span, "it does not fit in 64 bits")
                .note(format!("the largest integer is {}", u64::MAX))
                .help("write a float if that is what you need: `1e20`"),
            LiteralError::FloatWithIntSuffix(ty) => {
                Diagnostic::error("E0107", format!("a fraction cannot be an `{ty}`"))
                    .at(span, format!("it has a point or an exponent, and `{ty}` is an integer type"))
                    .help("use a float suffix (`f16`, `f32`, `f64`), or convert with `i32(x)`")
            }
            LiteralError::Suffix { suffix, meant } => {
                let suffix_start = end - suffix.len();
                let place = self.span(suffix_start, end);
                let diagnostic = Diagnostic::error("E0107", format!("`{suffix}` is not a number suffix"))
                    .at(place, "unknown suffix")
                    .help("a suffix is a number type: `7u32`, `1f16`, `2.5f64`");
                let is_float = text.contains('.') || text.contains(['e', 'E']) && !text.starts_with("0x");
                match meant {
                    Some("f32") if is_float => diagnostic.fix(
                        "leave it off: a float is an `f32` by default",
                        place,
                        "",
                        Applicability::MachineApplicable,
                    ),
                    Some(meant) => {
                        diagnostic.fix(format!("write `{meant}`"), place, meant, Applicability::MachineApplicable)
                    }
                    None if text.starts_with("0o") => diagnostic.note("there are no octal numbers; use `0x` or `0b`"),
                    None => diagnostic,
                }
            }
        };
        self.report(diagnostic);
    }

    pub(super) fn unterminated_comment(&mut self, start: usize) {
        let span = self.span(start, start + 2);
        self.report(
            Diagnostic::error("E0105", "a comment is never closed")
                .at(span, "this needs a `*/`")
                .note("comments nest: each `/*` inside needs its own `*/`"),
        );
    }

    /// Reports `#include`, `#pragma`, `# comment`, and skips the line.
    pub(super) fn hash(&mut self, start: usize, end: usize) {
        let word = self.text.get(start + 1..end).unwrap_or("");
        let rest = self.text.get(end..).unwrap_or("");
        let line = rest.find('\n').unwrap_or(rest.len());
        let span = self.span(start, end);
        let error = |title: &str| Diagnostic::error("E0113", title);
        let diagnostic = match word {
            "include" => error("there is no `#include` in Clk")
                .at(span, "a preprocessor line")
                .help("mathematical functions are built in; a module is loaded with `import std.nn` or `import \"./shapes.clk\"`"),
            "define" => error("there is no preprocessor in Clk")
                .at(span, "a preprocessor line")
                .help("a constant is `const NAME: i32 = 16`, and a macro is a `fn`"),
            "pragma" if rest.trim_start().starts_with("unroll") => error("`#pragma unroll` is written `#unroll`")
                .at(self.span(start, start + 7 + rest.len() - rest.trim_start().len() + 6), "the C form")
                .help("write `#unroll` or `#unroll(4)` before the loop"),
            "pragma" | "if" | "ifdef" | "ifndef" | "else" | "elif" | "endif" | "undef" | "error" | "line" => {
                error("there is no preprocessor in Clk")
                    .at(span, "a preprocessor line")
                    .help("use an ordinary `if`: with a constant condition it costs nothing at run time")
            }
            _ => error("a comment starts with `//`")
                .at(span, "`#` starts only the loop hints `#unroll` and `#nounroll`")
                .fix("write `//`", self.span(start, start + 1), "//", Applicability::MaybeIncorrect),
        };
        self.report(diagnostic);
        self.lexer.bump(line);
    }
}

/// Returns whether the text after a quote is a label: `outer: for …`.
fn is_label(rest: &str) -> bool {
    let name = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
    name > 0 && rest[name..].starts_with(':')
}

/// Maps a look-alike or invisible Unicode character to its description and its ASCII equivalent.
fn look_alike(c: char) -> Option<(&'static str, &'static str)> {
    Some(match c {
        '“' | '”' | '„' | '‘' | '’' | '«' | '»' => ("a typographic quote", "\""),
        '–' | '—' | '−' | '‐' | '‑' => ("a dash that is not the minus sign", "-"),
        '×' | '·' | '∙' | '⋅' | '∗' => ("a multiplication sign", "*"),
        '÷' | '∕' => ("a division sign", "/"),
        '≤' => ("less or equal", "<="),
        '≥' => ("greater or equal", ">="),
        '≠' => ("not equal", "!="),
        '→' => ("an arrow", "->"),
        '…' => ("three dots", ".."),
        '∧' => ("logical and", "&&"),
        '∨' => ("logical or", "||"),
        '¬' => ("logical not", "!"),
        '²' => ("a square", "**2"),
        '³' => ("a cube", "**3"),
        '；' | ';' => ("a semicolon of another script", ";"),
        '：' => ("a full-width colon", ":"),
        '，' | '、' => ("a full-width comma", ","),
        '（' => ("a full-width parenthesis", "("),
        '）' => ("a full-width parenthesis", ")"),
        '［' => ("a full-width bracket", "["),
        '］' => ("a full-width bracket", "]"),
        '｛' => ("a full-width brace", "{"),
        '｝' => ("a full-width brace", "}"),
        '＝' => ("a full-width equals sign", "="),
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{3000}' | '\u{2003}' | '\u{2002}' | '\u{2009}' => {
            ("a space that is not the plain one", " ")
        }
        '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => ("a zero-width character", ""),
        _ => return None,
    })
}
