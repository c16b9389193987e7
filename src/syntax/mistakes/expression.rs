//! Recognizes expressions and types of other languages by the unexpected token and the tokens before it: Python's slices,
//! conditional expressions, comprehensions and `f"…"`, Rust's `as`, Julia's `.+`, closures, C's array types.

use super::here::{Here, c_type, maybe, sure};
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::syntax::miss::Label;
use crate::syntax::token::Tok;

pub(crate) fn explain(here: &Here<'_>) -> Option<Diagnostic> {
    prefixed_string(here)
        .or_else(|| array_type(here))
        .or_else(|| slice(here))
        .or_else(|| conversion(here))
        .or_else(|| comprehension(here))
        .or_else(|| trailing_condition(here))
        .or_else(|| closure(here))
        .or_else(|| dotted_operator(here))
        .or_else(|| bare_point(here))
        .or_else(|| several_places(here))
}

/// Whether a token opens a bracket.
fn opens(kind: Tok) -> bool {
    matches!(kind, Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::InterpOpen)
}

fn closes(kind: Tok) -> bool {
    matches!(kind, Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::InterpClose)
}

impl Here<'_> {
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

    /// Whether the token before the unexpected one could end an operand.
    fn behind_operand(&self) -> bool {
        matches!(self.before(), Tok::Name | Tok::Int | Tok::Float | Tok::RParen | Tok::RBracket | Tok::StrEnd)
    }

    /// Returns the source text of the tokens `first..end`; empty if there are none.
    fn words(&self, first: usize, end: usize) -> &str {
        if first < end { self.slice(self.spans(first, end - 1)) } else { "" }
    }
}

/// Reports `f"n is {n}"`, `r"…"`, `b"…"`.
fn prefixed_string(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    if here.found() != Tok::StrStart || here.before() != Tok::Name || !here.adjacent(at - 1, at) {
        return None;
    }
    let word = here.word(at - 1);
    let error = Diagnostic::error("E0138", format!("a string has no prefix `{word}`"));
    let span = here.span(at - 1);
    match word {
        "f" | "F" => {
            let error = error.at(span, "every string puts the values between its braces in");
            Some(sure(error, format!("leave the `{word}` off"), span, ""))
        }
        "r" | "R" | "b" | "B" | "u" | "U" | "L" | "fr" | "rf" | "rb" | "br" => {
            let error = error.at(span, "not a word of Clk").help("`\\\\` is a backslash, `{{` and `}}` are braces");
            Some(maybe(error, format!("leave the `{word}` off"), span, ""))
        }
        _ => None,
    }
}

/// Reports `x: f32[N]`, `x: float[3][3]`.
fn array_type(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    let typed = at >= here.start + 2 && matches!(here.kind(at - 2), Tok::Colon | Tok::Arrow | Tok::Comma);
    let ty = c_type(here.word(at.checked_sub(1)?)).filter(|ty| !ty.is_empty())?;
    if here.found() != Tok::LBracket || here.before() != Tok::Name || !here.adjacent(at - 1, at) || !typed {
        return None;
    }
    let (mut dims, mut last) = (Vec::new(), at);
    let mut open = at;
    while here.kind(open) == Tok::LBracket {
        last = here.closing(open)?;
        dims.push(here.words(open + 1, last));
        open = last + 1;
    }
    let span = here.spans(at - 1, last);
    let error = Diagnostic::error("E0141", format!("an array type is written `[{ty}; …]`"))
        .at(span, "the element type and the size stand together in brackets");
    let named = dims.iter().all(|dim| !dim.is_empty() && !dim.contains(':'));
    let size = if named { dims.join(", ") } else { ["N", "M, N", "K, M, N"].get(dims.len() - 1)?.to_string() };
    let text = format!("[{ty}; {size}]");
    Some(match named {
        true => sure(error, format!("write `{text}`"), span, text),
        false => maybe(error, format!("write `{text}`"), span, text),
    })
}

/// Reports `x[:, 1]`, `x[1:3]`, `x[::2]`, `x[-3:]`, `x[..., 0]`.
fn slice(here: &Here<'_>) -> Option<Diagnostic> {
    let open = here.bracket().filter(|&open| here.kind(open) == Tok::LBracket && open > here.start)?;
    let indexes = matches!(here.kind(open - 1), Tok::Name | Tok::RParen | Tok::RBracket);
    let dots = here.found() == Tok::Dot && here.before() == Tok::DotDot;
    if !indexes || !(dots || matches!(here.found(), Tok::Colon | Tok::ColonColon)) {
        return None;
    }
    let close = here.closing(open)?;
    let span = here.spans(open, close);
    let error = Diagnostic::error("E0138", "a slice is written with `..`")
        .at(span, "`a..b` goes from a to b - 1, `..` takes a whole axis, `a..b step s` every s-th element");
    let plain = here.kind(open - 1) == Tok::Name && (open < 2 || here.kind(open - 2) != Tok::Dot);
    let parts = split(here, open + 1, close, |kind| kind == Tok::Comma);
    let is_new = |(first, end): (usize, usize)| matches!(here.words(first, end), "None" | "newaxis" | "np.newaxis");
    if parts.iter().copied().any(is_new) {
        let error = error.help(
            "`reshape` adds an axis: `reshape(x, -1, 1)` stands for `x[:, None]`, `reshape(x, 1, -1)` for `x[None, :]`",
        );
        let extents = match parts[..] {
            [row, column] if here.words(row.0, row.1) == ":" && is_new(column) => "-1, 1",
            [row, column] if is_new(row) && here.words(column.0, column.1) == ":" => "1, -1",
            _ => return Some(error),
        };
        return Some(match plain {
            true => {
                let text = format!("reshape({}, {extents})", here.word(open - 1));
                sure(error, format!("write `{text}`"), here.spans(open - 1, close), text)
            }
            false => error,
        });
    }
    match sliced(here, open, close, plain.then(|| here.word(open - 1))) {
        Some(text) => Some(sure(error, format!("write `{text}`"), span, text)),
        None => Some(error.help("an index counts from 0; `flip(x)` turns an array around")),
    }
}

/// Rewrites a Python index list to Clk's syntax; none if replacing the colons is not enough.
fn sliced(here: &Here<'_>, open: usize, close: usize, base: Option<&str>) -> Option<String> {
    let mut parts = Vec::new();
    for (axis, (first, end)) in split(here, open + 1, close, |kind| kind == Tok::Comma).into_iter().enumerate() {
        if here.kind(first) == Tok::DotDot && here.kind(first + 1) == Tok::Dot && first + 2 == end {
            parts.push("..".to_owned());
            continue;
        }
        let from_end = |(first, end): (usize, usize)| match here.kind(first) {
            Tok::Minus if first < end => {
                let base = base?;
                let extent = if axis == 0 { format!("len({base})") } else { format!("shape({base}, {axis})") };
                Some(format!("{extent} - {}", here.words(first + 1, end)))
            }
            _ => Some(here.words(first, end).to_owned()),
        };
        let mut bounds = Vec::new();
        for (first, end) in split(here, first, end, |kind| kind == Tok::Colon) {
            // A `::` token stands for two colons.
            let halves = split(here, first, end, |kind| kind == Tok::ColonColon);
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
            [start, end, step] if here.kind(step.0) != Tok::Minus => {
                let step = here.words(step.0, step.1);
                let step = if matches!(step, "" | "1") { String::new() } else { format!(" step {step}") };
                format!("{}..{}{step}", from_end(*start)?, from_end(*end)?)
            }
            _ => return None,
        });
    }
    Some(format!("[{}]", parts.join(", ")))
}

/// Splits a token range at separators outside of nested brackets.
fn split(here: &Here<'_>, first: usize, end: usize, separates: impl Fn(Tok) -> bool) -> Vec<(usize, usize)> {
    let (mut parts, mut from, mut depth) = (Vec::new(), first, 0usize);
    for index in first..end {
        depth += usize::from(opens(here.kind(index)));
        depth = depth.saturating_sub(usize::from(closes(here.kind(index))));
        if depth == 0 && separates(here.kind(index)) {
            parts.push((from, index));
            from = index + 1;
        }
    }
    parts.push((from, end));
    parts
}

/// Reports `n as f32`.
fn conversion(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    if here.found() != Tok::Name || here.word(at) != "as" || !here.behind_operand() {
        return None;
    }
    let first = here.operand(at - 1)?;
    let operand = here.slice(here.spans(first, at - 1));
    let ty = c_type(here.word(at + 1)).filter(|ty| here.kind(at + 1) == Tok::Name && !ty.is_empty());
    let inside = match operand.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) if here.opening(at - 1) == Some(first) => inner,
        _ => operand,
    };
    let shown = ty.unwrap_or("f32");
    let error = Diagnostic::error("E0131", format!("a conversion is written `{shown}(…)`"))
        .at(here.span(at), "`as` converts nothing in Clk");
    Some(match ty {
        Some(ty) => {
            let text = format!("{ty}({inside})");
            sure(error, format!("write `{text}`"), here.spans(first, at + 1), text)
        }
        None => error.help("write the type like a function: `f32(n)`"),
    })
}

/// Reports `[x * x for x in 0..10]`.
fn comprehension(here: &Here<'_>) -> Option<Diagnostic> {
    let inside = here.bracket().is_some_and(|open| matches!(here.kind(open), Tok::LBracket | Tok::LParen));
    if here.found() != Tok::For || !inside || !here.behind_operand() {
        return None;
    }
    let error = Diagnostic::error("E0138", "there are no comprehensions in Clk");
    Some(
        error
            .at(here.span(here.miss.at), "a loop inside of an expression")
            .help("operators and functions work on whole arrays: `let i = arange(10)`, then `i * i`")
            .help("what depends on more goes into a `kernel` with `threads(i: N)`, or into a `for` loop"),
    )
}

/// Reports `a if p else b`.
fn trailing_condition(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    let last = (at..here.end).rev().find(|&index| !matches!(here.kind(index), Tok::Newline | Tok::Semi))?;
    let otherwise = here.find(at, Tok::Else)?;
    // Exclude an `if` statement after a line whose end was not recognized.
    let braces = (at..otherwise).any(|index| here.kind(index) == Tok::LBrace);
    if here.found() != Tok::If || !here.behind_operand() || braces || otherwise + 1 > last || otherwise < at + 2 {
        return None;
    }
    let error = Diagnostic::error("E0120", "a condition stands before the values it chooses from")
        .at(here.span(at), "not an operator")
        .help("`if` is an expression: `if p { a } else { b }`");
    // The first value starts where the value of a `let`, an argument or a `return` starts.
    let begins = |kind| matches!(kind, Tok::Assign | Tok::Return | Tok::Comma | Tok::LParen | Tok::LBracket);
    let first = (here.start..at).rev().find(|&index| begins(here.kind(index))).map_or(here.start, |index| index + 1);
    let alone = here.bracket().is_none();
    if !alone || first >= at {
        return Some(error);
    }
    let text = format!(
        "if {} {{ {} }} else {{ {} }}",
        here.words(at + 1, otherwise),
        here.words(first, at),
        here.words(otherwise + 1, last + 1)
    );
    Some(maybe(error, format!("write `{text}`"), here.spans(first, last), text))
}

/// Reports `x -> x + 1`, `x => x + 1`, `fn(x) { … }`, `lambda x: …`, and keywords of other languages before an operand.
fn closure(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    let header = matches!(here.kind(here.start), Tok::Fn | Tok::Kernel | Tok::Struct);
    let arrow = matches!(here.found(), Tok::Arrow | Tok::FatArrow) && here.behind_operand();
    let inside = here.bracket().is_some_and(|open| here.kind(open) != Tok::LBrace)
        || (here.start..at).any(|index| here.kind(index) == Tok::Assign);
    let function = here.found() == Tok::Fn && here.miss.expected_label(Label::Expression);
    let word = if here.before() == Tok::Name { here.word(at - 1) } else { "" };
    if here.before() == Tok::Name && matches!(word, "match" | "switch" | "await" | "new" | "yield") {
        let operand = here.found().starts_expression() && !matches!(here.found(), Tok::LParen | Tok::LBracket);
        return operand.then(|| super::statement::foreign_word(word, here.span(at - 1)));
    }
    let span = match word {
        "lambda" | "function" | "func" if here.found() == Tok::Name || here.found() == Tok::Colon => here.span(at - 1),
        _ if function || arrow && inside && !header => here.span(at),
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
fn dotted_operator(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    if here.before() != Tok::Dot || !here.adjacent(at - 1, at) {
        return None;
    }
    let operator = match here.found() {
        Tok::Caret => "**",
        Tok::Plus | Tok::Minus | Tok::Star | Tok::Slash | Tok::Percent | Tok::StarStar => here.word(at),
        Tok::EqEq | Tok::NotEq | Tok::Lt | Tok::Le | Tok::Gt | Tok::Ge | Tok::And | Tok::Pipe => here.word(at),
        _ => return None,
    };
    let span = here.spans(at - 1, at);
    let error = Diagnostic::error("E0121", format!("`.{}` is written `{operator}`", here.word(at)))
        .at(span, "operators work on whole arrays as they are");
    Some(sure(error, format!("write `{operator}`"), span, operator))
}

/// Reports `.5`.
fn bare_point(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    if here.found() != Tok::Dot || here.kind(at + 1) != Tok::Int || !here.adjacent(at, at + 1) {
        return None;
    }
    if !here.miss.expected_label(Label::Expression) && !here.miss.expected_label(Label::Statement) {
        return None;
    }
    let span = here.spans(at, at + 1);
    let text = format!("0.{}", here.word(at + 1));
    let error =
        Diagnostic::error("E0107", "a number begins with a digit").at(span, "a digit should stand before the point");
    Some(sure(error, format!("write `{text}`"), span, text))
}

/// Reports `a, b = b, a`.
fn several_places(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    let equals = here.find(at, Tok::Assign)?;
    let names = (here.start..equals).all(|index| match (index - here.start) % 2 {
        0 => here.kind(index) == Tok::Name,
        _ => here.kind(index) == Tok::Comma,
    });
    if here.found() != Tok::Comma || !here.miss.expected_label(Label::End) || !names {
        return None;
    }
    let span = here.spans(here.start, equals - 1);
    Some(crate::syntax::miss::several_places(span, here.span(equals)))
}
