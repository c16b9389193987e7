//! Warnings about valid code that means something else in other languages: `7 // 2` is 7 and a comment, `2 ^ 10` is an
//! exclusive or, `"n = $n"` contains no value.
//!
//! Input: the tokens of a text without errors. Output: warnings that suggest the operator that was probably meant. A
//! comment is suspicious only if it could be the divisor of the value before it and this value is used. In `print(x) //
//! 4`, the comment is not suspicious: it documents the output.

use crate::token::{Tok, Token};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::{FileId, Span};

/// Maximum number of warnings per file.
const MAX: usize = 20;

/// Returns the warnings for a text.
pub(crate) fn find(file: FileId, text: &str, tokens: &[Token]) -> Vec<Diagnostic> {
    let reader = OperatorReader { file, text, tokens };
    let warnings = (0..tokens.len()).filter_map(|at| match tokens[at].kind {
        Tok::Caret => reader.power(at),
        Tok::StrText => reader.interpolation(at),
        _ => reader.division(at),
    });
    warnings.take(MAX).collect()
}

#[derive(Clone, Copy)]
struct OperatorReader<'t> {
    file: FileId,
    text: &'t str,
    tokens: &'t [Token],
}

impl<'t> OperatorReader<'t> {
    fn kind(&self, at: usize) -> Tok {
        self.tokens.get(at).map_or(Tok::Eof, |token| token.kind)
    }

    /// Returns the kind of the token before `at`; [`Tok::Newline`] at the start.
    fn before(&self, at: usize) -> Tok {
        at.checked_sub(1).map_or(Tok::Newline, |at| self.kind(at))
    }

    fn word(&self, at: usize) -> &'t str {
        self.tokens.get(at).map_or("", |token| token.text(self.text))
    }

    fn span(&self, at: usize) -> Span {
        self.tokens.get(at).map_or_else(Span::default, |token| token.span(self.file))
    }

    // Warnings about `//`:

    /// Checks for `n // 2`, where `at` is the last token of `n`.
    fn division(&self, at: usize) -> Option<Diagnostic> {
        use Tok::*;
        if !matches!(self.kind(at), Name | Int | Float | RParen | RBracket) {
            return None;
        }
        let (slashes, comment) = self.comment_after(at)?;
        if let Some(by) = comment.strip_prefix('=') {
            return self.division_in_place(at, slashes, by);
        }
        let operand = comment.split("//").next().unwrap_or("").trim().trim_end_matches(',');
        if !self.is_operand(operand) || !self.may_be_divided(at, operand) {
            return None;
        }
        let span = Span::new(self.file, slashes, slashes + 2);
        Some(
            Diagnostic::warning("W0101", "a comment that looks like a division")
                .at(span, "this begins a comment")
                .note(format!("`{operand}` is not part of the program: the value ends before the comment"))
                .fix("write `/`: integers are divided without a remainder", span, "/", Applicability::MaybeIncorrect)
                .help("if it is a comment, say more in it, or put it on a line of its own"),
        )
    }

    /// Checks for `n //= 2`, where `at` is the last token of `n`: a statement that is only an lvalue and does nothing.
    fn division_in_place(&self, at: usize, slashes: usize, by: &str) -> Option<Diagnostic> {
        use Tok::*;
        let operand = by.split("//").next().unwrap_or("").trim();
        let start = self.statement(at)?;
        let is_place =
            self.kind(start) == Name && (start..=at).all(|i| !self.kind(i).is_assignment() && self.kind(i) != LParen);
        if !is_place || !self.is_operand(operand) {
            return None;
        }
        let span = Span::new(self.file, slashes, slashes + 3);
        Some(
            Diagnostic::warning("W0101", "a comment that looks like a division")
                .at(span, "this begins a comment")
                .note(format!("`= {operand}` is not part of the program: nothing is divided"))
                .fix("write `/=`: integers are divided without a remainder", span, "/=", Applicability::MaybeIncorrect),
        )
    }

    /// Returns the offset of a `//` after a token, with at most one space between them, and the text of that comment.
    fn comment_after(&self, at: usize) -> Option<(usize, &'t str)> {
        let end = self.tokens.get(at)?.end as usize;
        let rest = self.text.get(end..)?;
        let unspaced = rest.strip_prefix(' ').unwrap_or(rest);
        let comment = unspaced.strip_prefix("//").filter(|comment| !comment.starts_with('/'))?;
        let slashes = end + rest.len() - unspaced.len();
        Some((slashes, comment.lines().next().unwrap_or("")))
    }

    /// Returns whether a comment is an arithmetic expression on numbers and variables of this text.
    fn is_operand(&self, comment: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || " _+-*/%()[].".contains(c);
        let begins = comment.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '(');
        if !begins || comment.len() > 60 || !comment.chars().all(plain) {
            return false;
        }
        let (tree, mistakes, tokens) = crate::parse::file(self.file, comment);
        let is_known = |token: &Token| match token.kind {
            Tok::Name => self.declares(token.text(comment)),
            Tok::Float => false,
            kind => kind == Tok::Int || !kind.can_end_line() || matches!(kind, Tok::RParen | Tok::RBracket),
        };
        mistakes.is_empty() && tree.items.len() == 1 && tokens.iter().all(is_known)
    }

    /// Returns whether the text declares a variable, parameter or constant of this name.
    fn declares(&self, name: &str) -> bool {
        (0..self.tokens.len()).any(|at| {
            let declared = matches!(self.before(at), Tok::Let | Tok::Var | Tok::Const | Tok::For);
            self.kind(at) == Tok::Name && (declared || self.kind(at + 1) == Tok::Colon) && self.word(at) == name
        })
    }

    /// Returns whether the value that ends with this token is likely to be divided.
    fn may_be_divided(&self, at: usize, by: &str) -> bool {
        use Tok::*;
        // Types, elements of lists and tables, and ends of multi-line calls are unlikely to be divided.
        let type_or_label = matches!(self.before(at), Colon | Arrow | Comma | LBracket | LParen);
        let starts_line =
            self.text.get(..self.tokens[at].start as usize).is_some_and(|t| t.trim_end_matches(' ').ends_with('\n'));
        if matches!(self.kind(at), RParen | RBracket) && starts_line
            || self.before(at) == Colon
            || self.before(at) == Arrow
        {
            return false;
        }
        let Some(start) = self.statement(at) else {
            // In a list, a `// 0` after an element may document the element's index.
            return !matches!(self.kind(at), Int | Float) || !type_or_label;
        };
        let assigns = (start..at).any(|i| self.kind(i).is_assignment());
        match self.kind(start) {
            // In `let n = 7 // n` the comment describes the value.
            Let | Var | Const | Shared => assigns && self.word(start + 1) != by && !self.is_all_numbers(start, at),
            Return => true,
            Name if matches!(self.kind(start + 1), LParen | Dot | LaunchOpen) => assigns,
            Name | Int | Float | LParen | Minus => true,
            _ => false,
        }
    }

    /// Returns whether the value is arithmetic on literals, as in `3 * 4 // 12`, where the comment states the result.
    fn is_all_numbers(&self, start: usize, end: usize) -> bool {
        let from = (start..end).find(|&at| self.kind(at) == Tok::Assign).unwrap_or(start) + 1;
        end > from && !(from..=end).any(|at| self.kind(at) == Tok::Name)
    }

    /// Returns the first token of the statement that contains `at`; `None` inside brackets.
    fn statement(&self, at: usize) -> Option<usize> {
        use Tok::*;
        let (mut start, mut depth) = (at, 0);
        for i in (0..=at).rev() {
            match self.kind(i) {
                RParen | RBracket | RBrace => depth += 1,
                LParen | LBracket if depth == 0 => return None,
                LBrace | Newline | Semi if depth == 0 => return Some(start),
                LParen | LBracket | LBrace => depth -= 1,
                _ => {}
            }
            start = i;
        }
        Some(start)
    }

    // Warnings about `$`:

    /// Checks for `"n = $n"`, where `at` is the text of the string and `n` a variable. `${n}` may be an amount of
    /// money.
    fn interpolation(&self, at: usize) -> Option<Diagnostic> {
        if let Some(warning) = self.c_format(at) {
            return Some(warning);
        }
        let start = self.tokens.get(at)?.start as usize;
        let (before, rest) = self.word(at).split_once('$')?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
        if name.is_empty() || !self.declares(name) {
            return None;
        }
        let dollar = start + before.len();
        let span = Span::new(self.file, dollar, dollar + 1 + name.len());
        let text = format!("{{{name}}}");
        Some(
            Diagnostic::warning("W0103", format!("`${name}` in a string is not replaced by a value"))
                .at(span, "printed as it is")
                .fix(format!("write `{text}`"), span, text, Applicability::MaybeIncorrect),
        )
    }

    /// Checks for `print("n = %d", n)`, where `at` is the text of the string.
    fn c_format(&self, at: usize) -> Option<Diagnostic> {
        let is_first = at >= 3 && self.word(at - 3) == "print" && self.kind(at - 2) == Tok::LParen;
        let has_values = self.kind(at + 1) == Tok::StrEnd && self.kind(at + 2) == Tok::Comma;
        let text = self.word(at);
        let percent = text.find('%')?;
        let format = &text[percent + 1..];
        let letter = format.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        if !is_first || !has_values || !format[letter..].starts_with(['d', 'i', 'u', 'f', 'g', 'e', 's', 'x']) {
            return None;
        }
        let start = self.tokens.get(at)?.start as usize + percent;
        let span = Span::new(self.file, start, start + letter + 2);
        let value = match self.kind(at + 4) {
            Tok::RParen | Tok::Comma => self.word(at + 3),
            _ => "x",
        };
        Some(
            Diagnostic::warning(
                "W0103",
                format!("`{}` in a string is not replaced by a value", &self.text[span.range()]),
            )
            .at(span, "printed as it is")
            .help(format!(
                "values go between braces in the text: `print(\"{{{value}}}\")`, `print(\"{{{value}:.3}}\")`"
            )),
        )
    }

    // Warnings about `^`:

    /// Checks `2 ^ 10`, `10 ^ n`, `x ^ 2 + y ^ 2`, where `at` is the `^` token.
    fn power(&self, at: usize) -> Option<Diagnostic> {
        let (left, right) = (self.decimal(at.checked_sub(1)?), self.decimal(at + 1));
        let tight = |kind| matches!(kind, Tok::Plus | Tok::Minus | Tok::Star | Tok::Slash | Tok::Percent);
        let operand = self.operand(at);
        let isolated = !tight(self.before(operand)) && self.before(at - 1) != Tok::Dot;
        let d = match (left, right) {
            (Some(a), Some(b)) if isolated => {
                Diagnostic::warning("W0102", format!("`{a} ^ {b}` is {}, not a power", a ^ b))
            }
            (Some(base @ (2 | 10)), None) if isolated && matches!(self.kind(at + 1), Tok::Name | Tok::LParen) => {
                Diagnostic::warning("W0102", format!("`{base} ^ …` is an exclusive or, not a power"))
            }
            (None, Some(exponent @ 2..=9)) if isolated && self.is_tight(at) => {
                Diagnostic::warning("W0102", format!("`… ^ {exponent}` is an exclusive or, not a power"))
            }
            (_, Some(2..=9)) if tight(self.kind(at + 2)) || tight(self.before(operand)) => Diagnostic::warning(
                "W0102",
                "`^` is an exclusive or, and binds less tightly than the arithmetic around it",
            ),
            _ => return None,
        };
        let d = d.at(self.span(at), "exclusive or, bit by bit");
        let d = d.fix("write `**` for the power", self.span(at), "**", Applicability::MaybeIncorrect);
        Some(d.help("for the bit operation, put parentheses around it and write a number in hexadecimal: `(x ^ 0x2)`"))
    }

    /// Returns whether no blanks surround an operator.
    fn is_tight(&self, at: usize) -> bool {
        let (Some(before), Some(token), Some(after)) =
            (at.checked_sub(1).and_then(|at| self.tokens.get(at)), self.tokens.get(at), self.tokens.get(at + 1))
        else {
            return false;
        };
        before.end == token.start && token.end == after.start
    }

    /// Returns the value of an unsuffixed decimal literal.
    fn decimal(&self, at: usize) -> Option<u64> {
        (self.kind(at) == Tok::Int).then(|| self.word(at).replace('_', "").parse().ok()).flatten()
    }

    /// Returns the first token of the operand that ends before this token: `x.y`, `f(x)`, `(a + b)[i]`.
    fn operand(&self, at: usize) -> usize {
        use Tok::*;
        let (mut start, mut depth) = (at, 0);
        for i in (0..at).rev() {
            match self.kind(i) {
                RParen | RBracket => depth += 1,
                LParen | LBracket if depth == 0 => break,
                LParen | LBracket => depth -= 1,
                _ if depth > 0 => {}
                Name | Int | Float | Dot => {}
                _ => break,
            }
            start = i;
        }
        start
    }
}
