//! Recognizes expressions and types of other languages by the unexpected token and the tokens before it: Python's
//! slices, conditional expressions, comprehensions and `f"…"`, Rust's `as`, Julia's `.+`, closures, C's array types.

use super::context::{MistakeContext, c_type, certain_fix, possible_fix};
use crate::syntax_error::ExpectedConstruct;
use crate::token::Tok;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;

pub(crate) fn explain(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    prefixed_string(cx)
        .or_else(|| array_type(cx))
        .or_else(|| slice(cx))
        .or_else(|| conversion(cx))
        .or_else(|| comprehension(cx))
        .or_else(|| trailing_condition(cx))
        .or_else(|| closure(cx))
        .or_else(|| dotted_operator(cx))
        .or_else(|| bare_point(cx))
        .or_else(|| multiple_assignment_error(cx))
}

/// Returns whether a token opens a bracket.
fn opens(kind: Tok) -> bool {
    matches!(kind, Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::InterpOpen)
}

fn closes(kind: Tok) -> bool {
    matches!(kind, Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::InterpClose)
}

impl MistakeContext<'_> {
    /// Returns the bracket that closes the one at `open`, within the statement.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for index in open..self.end {
            depth += usize::from(opens(self.kind(index)));
            if closes(self.kind(index)) {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(index);
                }
            }
        }
        None
    }

    /// Returns the first token of the operand that ends with the token `last`: `x`, `f(x)`, `a.b[i]`, `(a + b)`.
    fn operand(&self, last: usize) -> Option<usize> {
        let mut at = last;
        loop {
            match self.kind(at) {
                Tok::Name | Tok::Int | Tok::Float | Tok::True | Tok::False => {}
                Tok::RParen | Tok::RBracket => {
                    at = self.opening(at)?;
                    let called = at > self.start
                        && self.adjacent(at - 1, at)
                        && matches!(self.kind(at - 1), Tok::Name | Tok::RParen | Tok::RBracket);
                    if called {
                        at -= 1;
                        continue;
                    }
                }
                _ => return None,
            }
            match at.checked_sub(2).filter(|&before| before >= self.start && self.kind(at - 1) == Tok::Dot) {
                Some(before) => at = before,
                None => return Some(at),
            }
        }
    }

    fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0usize;
        for index in (self.start..=close).rev() {
            depth += usize::from(closes(self.kind(index)));
            if opens(self.kind(index)) {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(index);
                }
            }
        }
        None
    }

    /// Returns whether the token before the unexpected one may end an operand.
    fn is_after_operand(&self) -> bool {
        matches!(self.token_before(), Tok::Name | Tok::Int | Tok::Float | Tok::RParen | Tok::RBracket | Tok::StrEnd)
    }

    /// Returns the source text of the tokens `first..end`; empty if there are none.
    fn words(&self, first: usize, end: usize) -> &str {
        if first < end { self.slice(self.spans(first, end - 1)) } else { "" }
    }
}

/// Reports `f"n is {n}"`, `r"…"`, `b"…"`.
fn prefixed_string(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    if cx.found_token() != Tok::StrStart || cx.token_before() != Tok::Name || !cx.adjacent(at - 1, at) {
        return None;
    }
    let word = cx.word(at - 1);
    let error = Diagnostic::error("E0138", format!("a string has no prefix `{word}`"));
    let span = cx.span(at - 1);
    match word {
        "f" | "F" => {
            let error = error.at(span, "every string interpolates the values in its braces");
            Some(certain_fix(error, format!("leave the `{word}` off"), span, ""))
        }
        "r" | "R" | "b" | "B" | "u" | "U" | "L" | "fr" | "rf" | "rb" | "br" => {
            let error = error.at(span, "not a word of Clk").help("`\\\\` is a backslash, `{{` and `}}` are braces");
            Some(possible_fix(error, format!("leave the `{word}` off"), span, ""))
        }
        _ => None,
    }
}

/// Reports `x: f32[N]`, `x: float[3][3]`.
fn array_type(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let typed = at >= cx.start + 2 && matches!(cx.kind(at - 2), Tok::Colon | Tok::Arrow | Tok::Comma);
    let ty = c_type(cx.word(at.checked_sub(1)?)).filter(|ty| !ty.is_empty())?;
    if cx.found_token() != Tok::LBracket || cx.token_before() != Tok::Name || !cx.adjacent(at - 1, at) || !typed {
        return None;
    }
    let (mut dims, mut last) = (Vec::new(), at);
    let mut open = at;
    while cx.kind(open) == Tok::LBracket {
        last = cx.closing(open)?;
        dims.push(cx.words(open + 1, last));
        open = last + 1;
    }
    let span = cx.spans(at - 1, last);
    let error = Diagnostic::error("E0141", format!("an array type is written `[{ty}; …]`"))
        .at(span, "the element type and the size go together in brackets");
    let has_extents = dims.iter().all(|dim| !dim.is_empty() && !dim.contains(':'));
    let size = if has_extents { dims.join(", ") } else { ["N", "M, N", "K, M, N"].get(dims.len() - 1)?.to_string() };
    let text = format!("[{ty}; {size}]");
    Some(match has_extents {
        true => certain_fix(error, format!("write `{text}`"), span, text),
        false => possible_fix(error, format!("write `{text}`"), span, text),
    })
}

/// Reports `x[:, 1]`, `x[1:3]`, `x[::2]`, `x[-3:]`, `x[..., 0]`.
fn slice(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let open = cx.bracket().filter(|&open| cx.kind(open) == Tok::LBracket && open > cx.start)?;
    let indexes = matches!(cx.kind(open - 1), Tok::Name | Tok::RParen | Tok::RBracket);
    let dots = cx.found_token() == Tok::Dot && cx.token_before() == Tok::DotDot;
    if !indexes || !(dots || matches!(cx.found_token(), Tok::Colon | Tok::ColonColon)) {
        return None;
    }
    let close = cx.closing(open)?;
    let span = cx.spans(open, close);
    let error = Diagnostic::error("E0138", "a slice is written with `..`")
        .at(span, "`a..b` goes from a to b - 1, `..` takes a whole axis, `a..b step s` every s-th element");
    let plain = cx.kind(open - 1) == Tok::Name && (open < 2 || cx.kind(open - 2) != Tok::Dot);
    let parts = split(cx, open + 1, close, |kind| kind == Tok::Comma);
    let is_new = |range: (usize, usize)| matches!(cx.words(range.0, range.1), "None" | "newaxis" | "np.newaxis");
    if parts.iter().copied().any(is_new) {
        let error = error.help(
            "`reshape` adds an axis: `reshape(x, -1, 1)` stands for `x[:, None]`, `reshape(x, 1, -1)` for `x[None, :]`",
        );
        let extents = match parts[..] {
            [row, column] if cx.words(row.0, row.1) == ":" && is_new(column) => "-1, 1",
            [row, column] if is_new(row) && cx.words(column.0, column.1) == ":" => "1, -1",
            _ => return Some(error),
        };
        return Some(match plain {
            true => {
                let text = format!("reshape({}, {extents})", cx.word(open - 1));
                certain_fix(error, format!("write `{text}`"), cx.spans(open - 1, close), text)
            }
            false => error,
        });
    }
    match sliced(cx, open, close, plain.then(|| cx.word(open - 1))) {
        Some(text) => Some(certain_fix(error, format!("write `{text}`"), span, text)),
        None => Some(error.help("an index counts from 0; `flip(x)` reverses an array")),
    }
}

/// Rewrites a Python index list in Clk's syntax; `None` if replacing colons does not suffice.
fn sliced(cx: &MistakeContext<'_>, open: usize, close: usize, base: Option<&str>) -> Option<String> {
    let mut parts = Vec::new();
    for (axis, (first, end)) in split(cx, open + 1, close, |kind| kind == Tok::Comma).into_iter().enumerate() {
        if cx.kind(first) == Tok::DotDot && cx.kind(first + 1) == Tok::Dot && first + 2 == end {
            parts.push("..".to_owned());
            continue;
        }
        let from_end = |(first, end): (usize, usize)| match cx.kind(first) {
            Tok::Minus if first < end => {
                let base = base?;
                let extent = if axis == 0 { format!("len({base})") } else { format!("shape({base}, {axis})") };
                Some(format!("{extent} - {}", cx.words(first + 1, end)))
            }
            _ => Some(cx.words(first, end).to_owned()),
        };
        let mut bounds = Vec::new();
        for (first, end) in split(cx, first, end, |kind| kind == Tok::Colon) {
            // The lexer produces a single `::` token for two colons.
            let halves = split(cx, first, end, |kind| kind == Tok::ColonColon);
            let double = halves.len() > 1;
            for (number, half) in halves.into_iter().enumerate() {
                if double && number > 0 {
                    bounds.push((half.0, half.0));
                }
                bounds.push(half);
            }
        }
        parts.push(match bounds.as_slice() {
            [index] => from_end(*index)?,
            [start, end] => format!("{}..{}", from_end(*start)?, from_end(*end)?),
            [start, end, step] if cx.kind(step.0) != Tok::Minus => {
                let step = cx.words(step.0, step.1);
                let step = if matches!(step, "" | "1") { String::new() } else { format!(" step {step}") };
                format!("{}..{}{step}", from_end(*start)?, from_end(*end)?)
            }
            _ => return None,
        });
    }
    Some(format!("[{}]", parts.join(", ")))
}

/// Splits a token range at the separators outside nested brackets.
fn split(cx: &MistakeContext<'_>, first: usize, end: usize, separates: impl Fn(Tok) -> bool) -> Vec<(usize, usize)> {
    let (mut parts, mut from, mut depth) = (Vec::new(), first, 0usize);
    for index in first..end {
        depth += usize::from(opens(cx.kind(index)));
        depth = depth.saturating_sub(usize::from(closes(cx.kind(index))));
        if depth == 0 && separates(cx.kind(index)) {
            parts.push((from, index));
            from = index + 1;
        }
    }
    parts.push((from, end));
    parts
}

/// Reports `n as f32`.
fn conversion(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    if cx.found_token() != Tok::Name || cx.word(at) != "as" || !cx.is_after_operand() {
        return None;
    }
    let first = cx.operand(at - 1)?;
    let operand = cx.slice(cx.spans(first, at - 1));
    let ty = c_type(cx.word(at + 1)).filter(|ty| cx.kind(at + 1) == Tok::Name && !ty.is_empty());
    let operand_text = match operand.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) if cx.opening(at - 1) == Some(first) => inner,
        _ => operand,
    };
    let shown = ty.unwrap_or("f32");
    let error = Diagnostic::error("E0131", format!("a conversion is written `{shown}(…)`"))
        .at(cx.span(at), "`as` converts nothing in Clk");
    Some(match ty {
        Some(ty) => {
            let text = format!("{ty}({operand_text})");
            certain_fix(error, format!("write `{text}`"), cx.spans(first, at + 1), text)
        }
        None => error.help("write the type like a function: `f32(n)`"),
    })
}

/// Reports `[x * x for x in 0..10]`.
fn comprehension(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let inside = cx.bracket().is_some_and(|open| matches!(cx.kind(open), Tok::LBracket | Tok::LParen));
    if cx.found_token() != Tok::For || !inside || !cx.is_after_operand() {
        return None;
    }
    let error = Diagnostic::error("E0138", "there are no comprehensions in Clk");
    Some(
        error
            .at(cx.span(cx.unexpected.at), "a loop inside of an expression")
            .help("operators and functions work on whole arrays: `let i = arange(10)`, then `i * i`")
            .help("for anything else, use a `kernel` with `threads(i: N)` or a `for` loop"),
    )
}

/// Reports `a if p else b`.
fn trailing_condition(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let last = (at..cx.end).rev().find(|&index| !matches!(cx.kind(index), Tok::Newline | Tok::Semi))?;
    let otherwise = cx.find(at, Tok::Else)?;
    // Not `a if p else b` but an `if` statement after a line whose end was not recognized.
    let braces = (at..otherwise).any(|index| cx.kind(index) == Tok::LBrace);
    if cx.found_token() != Tok::If || !cx.is_after_operand() || braces || otherwise + 1 > last || otherwise < at + 2 {
        return None;
    }
    Some(
        Diagnostic::error("E0120", "a condition comes before the values")
            .at(cx.span(at), "not an operator")
            .help("`if` is an expression: `if p { a } else { b }`"),
    )
}

/// Reports `x -> x + 1`, `x => x + 1`, `fn(x) { … }`, `lambda x: …`, and keywords of other languages before an operand.
fn closure(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let header = matches!(cx.kind(cx.start), Tok::Fn | Tok::Kernel | Tok::Struct);
    let arrow = matches!(cx.found_token(), Tok::Arrow | Tok::FatArrow) && cx.is_after_operand();
    let inside = cx.bracket().is_some_and(|open| cx.kind(open) != Tok::LBrace)
        || (cx.start..at).any(|index| cx.kind(index) == Tok::Assign);
    let function = cx.found_token() == Tok::Fn && cx.unexpected.expected_label(ExpectedConstruct::Expression);
    let word = if cx.token_before() == Tok::Name { cx.word(at - 1) } else { "" };
    if cx.token_before() == Tok::Name && matches!(word, "match" | "switch" | "await" | "new" | "yield") {
        let operand = cx.found_token().starts_expression() && !matches!(cx.found_token(), Tok::LParen | Tok::LBracket);
        return operand.then(|| super::statement::foreign_word(word, cx.span(at - 1)));
    }
    let span = match word {
        "lambda" | "function" | "func" if cx.found_token() == Tok::Name || cx.found_token() == Tok::Colon => {
            cx.span(at - 1)
        }
        _ if function || arrow && inside && !header => cx.span(at),
        _ => return None,
    };
    Some(no_closures(span))
}

fn no_closures(span: Span) -> Diagnostic {
    Diagnostic::error("E0140", "there are no closures in Clk")
        .at(span, "a function without a name")
        .help("write a `fn` and pass its name")
}

/// Reports `a .+ b`, `a .* b`.
fn dotted_operator(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    if cx.token_before() != Tok::Dot || !cx.adjacent(at - 1, at) {
        return None;
    }
    let operator = match cx.found_token() {
        Tok::Caret => "**",
        Tok::Plus | Tok::Minus | Tok::Star | Tok::Slash | Tok::Percent | Tok::StarStar => cx.word(at),
        Tok::EqEq | Tok::NotEq | Tok::Lt | Tok::Le | Tok::Gt | Tok::Ge | Tok::And | Tok::Pipe => cx.word(at),
        _ => return None,
    };
    let span = cx.spans(at - 1, at);
    let error = Diagnostic::error("E0121", format!("`.{}` is written `{operator}`", cx.word(at)))
        .at(span, "operators work on whole arrays as they are");
    Some(certain_fix(error, format!("write `{operator}`"), span, operator))
}

/// Reports `.5`.
fn bare_point(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    if cx.found_token() != Tok::Dot || cx.kind(at + 1) != Tok::Int || !cx.adjacent(at, at + 1) {
        return None;
    }
    if !cx.unexpected.expected_label(ExpectedConstruct::Expression)
        && !cx.unexpected.expected_label(ExpectedConstruct::Statement)
    {
        return None;
    }
    let span = cx.spans(at, at + 1);
    let text = format!("0.{}", cx.word(at + 1));
    let error =
        Diagnostic::error("E0107", "a number begins with a digit").at(span, "a digit should come before the point");
    Some(certain_fix(error, format!("write `{text}`"), span, text))
}

/// Reports `a, b = b, a`.
fn multiple_assignment_error(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let equals = cx.find(at, Tok::Assign)?;
    let names = (cx.start..equals).all(|index| match (index - cx.start) % 2 {
        0 => cx.kind(index) == Tok::Name,
        _ => cx.kind(index) == Tok::Comma,
    });
    if cx.found_token() != Tok::Comma || !cx.unexpected.expected_label(ExpectedConstruct::End) || !names {
        return None;
    }
    let span = cx.spans(cx.start, equals - 1);
    Some(crate::syntax_error::multiple_assignment_error(span, cx.span(equals)))
}
