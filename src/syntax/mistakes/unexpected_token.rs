//! Recognizes common errors by the unexpected token and the tokens before it: operators of other languages, errors in
//! parameters and types, and missing braces, values and commas.

use super::c_head::{self, CParameter};
use super::context::{MistakeContext, c_type, certain_fix, possible_fix};
use crate::syntax_error::ExpectedConstruct;
use crate::token::Tok;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::builtin;
use clk_scalar::foreign_names::{self, ClkEquivalent};

pub(crate) fn explain(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    increment(cx)
        .or_else(|| comma_between_clauses(cx))
        .or_else(|| word_operator(cx))
        .or_else(|| doubled_operator(cx))
        .or_else(|| foreign_mark(cx))
        .or_else(|| c_parameter(cx))
        .or_else(|| parameter(cx))
        .or_else(|| index_without_name(cx))
        .or_else(|| field(cx))
        .or_else(|| types(cx))
        .or_else(|| geometry(cx))
        .or_else(|| body(cx))
        .or_else(|| access_as_name(cx))
        .or_else(|| keyword_as_function(cx))
        .or_else(|| keyword_as_name(cx))
        .or_else(|| value(cx))
        .or_else(|| dictionary(cx))
        .or_else(|| shared_memory_of_launch(cx))
        .or_else(|| fields_without_names(cx))
        .or_else(|| percent_comment(cx))
        .or_else(|| bare_call(cx))
        .or_else(|| comma(cx))
        .or_else(|| end(cx))
}

/// Reports `i++`, `i--`.
fn increment(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let (first, sign) = if cx.found_token() == Tok::PlusPlus {
        (at, "+")
    } else if at >= cx.start + 3
        && cx.kind(at - 1) == Tok::Minus
        && cx.kind(at - 2) == Tok::Minus
        && cx.adjacent(at - 2, at - 1)
    {
        (at - 2, "-")
    } else {
        return None;
    };
    let last = if sign == "+" { first } else { at - 1 };
    let span = cx.spans(first, last);
    let error = Diagnostic::error("E0119", format!("there is no `{sign}{sign}` in Clk")).at(span, "not an operator");
    if first == cx.start {
        return Some(error.help(format!("write `i {sign}= 1`, a statement of its own")));
    }
    Some(certain_fix(error, format!("write `{sign}= 1`"), span, format!(" {sign}= 1")))
}

/// Reports `a and b`, `not a`.
fn word_operator(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let is_not = |index: usize| cx.kind(index) == Tok::Name && cx.word(index) == "not";
    let (index, symbol) = match (cx.found_token(), cx.word(at)) {
        (Tok::Name, "and") => (at, "&&"),
        (Tok::Name, "or") => (at, "||"),
        (Tok::Name, "is") => (at, "=="),
        (Tok::Name, "mod") => (at, "%"),
        (Tok::Name, "xor") => (at, "^"),
        _ if at > cx.start && is_not(at - 1) => (at - 1, "!"),
        _ => return None,
    };
    if symbol != "!" && !cx.kind(index + 1).starts_expression() {
        return None;
    }
    let span = cx.span(index);
    let word = cx.word(index);
    let error =
        Diagnostic::error("E0121", format!("`{word}` is written `{symbol}`")).at(span, "not an operator of Clk");
    let span = if symbol == "!" { span.to(cx.span(index + 1)) } else { span };
    let text = if symbol == "!" { format!("!{}", cx.word(index + 1)) } else { symbol.to_owned() };
    Some(certain_fix(error, format!("write `{symbol}`"), span, text))
}

/// Reports `3 +* 4`, `a * / b`: two binary operators in a row. `a + *p` is a pointer instead.
fn doubled_operator(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    use Tok::*;
    let at = cx.unexpected.at;
    let binary = |kind| {
        matches!(
            kind,
            Plus | Minus | Star | Slash | Percent | StarStar | Lt | Le | Gt | Ge | EqEq | NotEq | AndAnd | PipePipe
        )
    };
    let is_second = matches!(cx.found_token(), Star | Slash | Percent | StarStar | Lt | Le | Gt | Ge | EqEq | NotEq);
    let is_pointer = cx.found_token() == Star && cx.kind(at + 1) == Name && !cx.adjacent(at.checked_sub(1)?, at);
    let is_operand = cx.unexpected.expected_label(ExpectedConstruct::Expression);
    if !is_operand || !is_second || !binary(cx.token_before()) || is_pointer {
        return None;
    }
    let (first, second) = (cx.word(at - 1), cx.word(at));
    let error = Diagnostic::error("E0126", format!("`{first}` and `{second}` follow each other"))
        .at(cx.span(at), "a value is missing before this operator")
        .because(cx.span(at - 1), "after this operator");
    Some(error.help(format!("remove `{first}` or `{second}`, or write the value between them")))
}

/// Reports operators and punctuation of other languages.
fn foreign_mark(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let span = cx.span(at);
    let operand = cx.unexpected.expected_label(ExpectedConstruct::Expression)
        || cx.unexpected.expected_label(ExpectedConstruct::Statement);
    let error = |title: &str| Diagnostic::error("E0101", title);
    Some(match cx.found_token() {
        Tok::Question => Diagnostic::error("E0120", "there is no `? :` in Clk")
            .at(span, "not an operator")
            .help("`if` is an expression: `if x > 0 { a } else { b }`; or `select(x > 0, a, b)`, which computes both"),
        Tok::Tilde => certain_fix(
            error("`~` is written `!`").at(span, "`!` flips the bits of an integer"),
            "write `!`",
            span,
            "!",
        ),
        Tok::ColonColon => {
            certain_fix(error("`::` is written `.`").at(span, "names are joined by a dot"), "write `.`", span, ".")
        }
        Tok::FatArrow => error("`=>` means nothing in Clk").at(span, "unexpected").help("a result type follows `->`"),
        Tok::Assign if cx.token_before() == Tok::EqEq && cx.adjacent(at - 1, at) => {
            let both = cx.spans(at - 1, at);
            certain_fix(
                error("`===` is written `==`").at(both, "values are compared with `==`"),
                "write `==`",
                both,
                "==",
            )
        }
        Tok::Plus if operand => {
            possible_fix(error("there is no unary `+`").at(span, "remove it"), "remove it", span, "")
        }
        Tok::And | Tok::Star if operand => pointer(cx),
        Tok::Pipe | Tok::PipePipe if operand => Diagnostic::error("E0140", "there are no closures in Clk")
            .at(span, "an operator needs a value on its left")
            .help("write a `fn` and pass its name"),
        Tok::Arrow if cx.kind(cx.start) == Tok::Kernel => Diagnostic::error("E0114", "a kernel has no result type")
            .at(span, "remove this")
            .help("a kernel writes its results to its `out` arrays: `out r: [f32; N]`"),
        Tok::Colon if cx.kind(cx.start) == Tok::Fn && cx.token_before() == Tok::RParen => {
            certain_fix(error("a result type follows `->`").at(span, "expected `->`"), "write ` ->`", span, " ->")
        }
        _ => return None,
    })
}

/// Reports `&x`, `*p`, `*(p + i)`.
fn pointer(cx: &MistakeContext<'_>) -> Diagnostic {
    let at = cx.unexpected.at;
    let span = cx.span(at);
    let error = Diagnostic::error("E0140", "there are no pointers or references in Clk")
        .at(span, format!("`{}` needs a value on its left", cx.word(at)));
    if cx.found_token() == Tok::And && cx.word(at + 1) == "mut" && cx.kind(at + 2) == Tok::Name {
        let error = error.help("a function declares what it writes: `inout x: [f32; N]`");
        return possible_fix(
            error,
            "leave the `&mut` off",
            cx.span(at).to(Span { end: cx.span(at + 2).start, ..cx.span(at) }),
            "",
        );
    }
    if cx.found_token() == Tok::And && cx.kind(at + 1) == Tok::Name {
        let error = error.help("a place is passed as it is: `atomic_add(bins[i], 1)`");
        return possible_fix(error, "leave the `&` off", span, "");
    }
    let element = [Tok::LParen, Tok::Name, Tok::Plus, Tok::Name, Tok::RParen];
    if cx.found_token() == Tok::Star && (0..element.len()).all(|i| cx.kind(at + 1 + i) == element[i]) {
        let text = format!("{}[{}]", cx.word(at + 2), cx.word(at + 4));
        return certain_fix(error, format!("write `{text}`"), cx.spans(at, at + element.len()), text);
    }
    error.help(
        "arrays are passed as they are, an element is `x[i]`; a kernel's `out` and `inout` parameters are written to",
    )
}

/// Reports parameters with the type first as in C: `float x`, `const float *x`. The fix translates all parameters if
/// each of them has the syntax of C or Clk.
fn c_parameter(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let is_kernel = cx.kind(cx.start) == Tok::Kernel;
    let open = cx.bracket().filter(|&open| cx.kind(open) == Tok::LParen)?;
    let is_head = is_kernel || cx.kind(cx.start) == Tok::Fn;
    if !is_head || cx.find(cx.start, Tok::LParen) != Some(open) {
        return None;
    }
    let first =
        (open + 1..=cx.unexpected.at).rev().find(|&index| matches!(cx.kind(index - 1), Tok::LParen | Tok::Comma))?;
    let end = c_head::parameter_end(cx, first)?;
    let param = CParameter::read(cx, first, end)?;
    let note = match param.is_array() {
        true => "there are no pointers; an array has its size in its type",
        false => "the type follows the name",
    };
    let error = Diagnostic::error("E0124", "a parameter is written `name: type`")
        .at(cx.spans(first, end - 1), "the C order")
        .note(note);
    let (span, text) = match c_head::parameters(cx, open, is_kernel) {
        Some(all) => (cx.spans(open + 1, all.close - 1), all.text),
        None => (cx.spans(first, end - 1), param.translate(is_kernel)),
    };
    Some(possible_fix(error, format!("write `{text}`"), span, text))
}

/// Reports parameters without a type.
fn parameter(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let header = matches!(cx.kind(cx.start), Tok::Fn | Tok::Kernel);
    let open = cx.bracket().filter(|&open| cx.kind(open) == Tok::LParen)?;
    if !header || !cx.unexpected.expected(Tok::Colon) || cx.token_before() != Tok::Name {
        return None;
    }
    if open > cx.start && cx.word(open - 1) == "threads" {
        return Some(index_name(cx, open));
    }
    let before = cx.word(at - 1);
    let typed =
        cx.found_token() == Tok::LBracket || cx.found_token() == Tok::Name && Scalar::from_name(cx.word(at)).is_some();
    if typed && c_type(before).is_none() {
        let error = Diagnostic::error("E0124", format!("a `:` is missing after `{before}`"))
            .at(cx.span_after_previous(), "expected `:`")
            .because(cx.span(open), "in these parameters");
        return Some(certain_fix(error, "insert `:`", cx.span_after_previous(), ":"));
    }
    if !matches!(cx.found_token(), Tok::Comma | Tok::RParen | Tok::Assign) {
        return None;
    }
    let error = Diagnostic::error("E0124", format!("parameter `{before}` has no type"))
        .at(cx.span(at - 1), "its type is missing")
        .because(cx.span(open), "in these parameters")
        .help(format!("`{before}: f32` is one number, `{before}: [f32; N]` an array of N"));
    Some(possible_fix(error, "add `: f32`", cx.span(at - 1).after(), ": f32"))
}

/// Reports `threads(N)`, `threads(i)`, `threads(i < N)`, `threads(i, j: M, N)`: each index needs a name and an extent.
fn index_name(cx: &MistakeContext<'_>, open: usize) -> Diagnostic {
    let at = cx.unexpected.at;
    let name = cx.word(at - 1);
    let dims = dimensions(cx, open);
    let is_extent = cx.kind(at - 1) != Tok::Name || dims.contains(&name) || name.chars().all(char::is_uppercase);
    let extent = dims.first().copied().unwrap_or("N");
    let error = Diagnostic::error("E0125", "`threads` gives each index a name and its extent")
        .because(cx.span(open - 1), "in this shape")
        .help("`threads(i: N)` runs the body for every `i` from 0 to N - 1, `threads(row: M, col: N)` for every pair");
    let is_used =
        |word: &str| (cx.start..cx.end).any(|index| cx.kind(index + 1) == Tok::Colon && cx.word(index) == word);
    match cx.found_token() {
        Tok::In | Tok::Lt | Tok::Assign if !is_extent => {
            let span = cx.spans(at - 1, at);
            let error = error.at(cx.span(at), "a `:` should follow");
            certain_fix(error, format!("write `{name}:`"), span, format!("{name}:"))
        }
        Tok::RParen if is_extent && at == open + 2 && own_index(cx).is_some() => {
            let error = error.at(cx.span(at - 1), "the index of this extent has no name");
            let Some((first, name)) = own_index(cx) else { return error };
            let text = format!("{}: {}", cx.word(first), name);
            let line = cx.span(first - 2).after().to(cx.span(first + 4));
            let edits = vec![(cx.span(at - 1), text.clone()), (line, String::new())];
            error.fix_all(format!("write `{text}`, and leave its `let` out"), edits, Applicability::MaybeIncorrect)
        }
        Tok::Comma | Tok::RParen if is_extent => {
            let index = ["i", "j", "k", "n"].into_iter().find(|word| !is_used(word)).unwrap_or("i");
            let error = error.at(cx.span(at - 1), "the index of this extent has no name");
            // If the body uses `i`, the user probably meant it as the index name. If there are several extents, each
            // one needs a name.
            let used = (at..cx.end).any(|token| cx.kind(token) == Tok::Name && cx.word(token) == index);
            let text = format!("{index}: {name}");
            match used && cx.found_token() == Tok::RParen && at == open + 2 {
                true => certain_fix(error, format!("write `{text}`"), cx.span(at - 1), text),
                false => possible_fix(error, format!("write `{text}`"), cx.span(at - 1), text),
            }
        }
        Tok::Comma | Tok::RParen => {
            let error = error.at(cx.span(at - 1), "the extent of this index is missing");
            possible_fix(error, format!("write `{name}: {extent}`"), cx.span(at - 1), format!("{name}: {extent}"))
        }
        _ => error.at(cx.span(at), "a `:` should follow"),
    }
}

/// Returns the name of `let i = thread_idx.x` or `let i = global_idx.x` in a kernel, and the extent before it.
fn own_index<'t>(cx: &MistakeContext<'t>) -> Option<(usize, &'t str)> {
    let at = cx.unexpected.at;
    let name = (at..cx.end).find(|&index| {
        cx.kind(index - 1) == Tok::Let
            && cx.kind(index + 1) == Tok::Assign
            && matches!(cx.word(index + 2), "thread_idx" | "global_idx")
            && cx.kind(index + 3) == Tok::Dot
            && cx.word(index + 4) == "x"
            && matches!(cx.kind(index + 5), Tok::Newline | Tok::Semi)
    })?;
    Some((name, cx.word(at - 1)))
}

/// Returns the dimension names in the parameters of a kernel whose geometry begins at `open`.
fn dimensions<'t>(cx: &MistakeContext<'t>, open: usize) -> Vec<&'t str> {
    let mut dims = Vec::new();
    let mut sizes = false;
    for index in cx.start..open {
        match cx.kind(index) {
            Tok::Semi => sizes = true,
            Tok::RBracket => sizes = false,
            Tok::Name if sizes && !dims.contains(&cx.word(index)) => dims.push(cx.word(index)),
            _ => {}
        }
    }
    dims
}

/// Reports `threads(256)`.
fn index_without_name(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let open = cx.bracket().filter(|&open| open > cx.start && cx.word(open - 1) == "threads")?;
    let number = cx.found_token() == Tok::Int && cx.kind(cx.start) == Tok::Kernel && at == open + 1;
    if !number {
        return None;
    }
    let text = format!("i: {}", cx.word(at));
    let error = Diagnostic::error("E0125", "`threads` gives each index a name and its extent")
        .at(cx.span(at), "the index of this extent has no name")
        .because(cx.span(open - 1), "in this shape")
        .help("`block(256)` after `grid(…)` or `threads(…)` sets the number of threads in a block");
    Some(possible_fix(error, format!("write `{text}`"), cx.span(at), text))
}

/// Reports a struct field without the `:` before its type.
fn field(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let inside = cx.bracket().is_some_and(|open| cx.kind(open) == Tok::LBrace);
    let is_struct = cx.kind(cx.start) == Tok::Struct && inside && cx.token_before() == Tok::Name;
    if !is_struct || !cx.unexpected.expected(Tok::Colon) || !matches!(cx.found_token(), Tok::Name | Tok::LBracket) {
        return None;
    }
    let error = Diagnostic::error("E0101", format!("a `:` is missing after `{}`", cx.word(cx.unexpected.at - 1)))
        .at(cx.span_after_previous(), "expected `:`")
        .help("a field is written `name: type`");
    Some(certain_fix(error, "insert `:`", cx.span_after_previous(), ":"))
}

/// Reports a missing or invalid type.
fn types(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    if cx.unexpected.expected(Tok::Semi) && cx.bracket().is_some_and(|open| cx.kind(open) == Tok::LBracket) {
        let help = "an array type says how many elements there are: `[f32; N]`, `[f32; 16, 16]`";
        if let Some(diagnostic) = size_before_type(cx) {
            return Some(diagnostic);
        }
        if cx.found_token() == Tok::RBracket {
            let error =
                Diagnostic::error("E0127", "an array type needs its size").at(cx.span(at), "`; size` is missing");
            if at > cx.start && cx.kind(at - 1) == Tok::Name && cx.word(at - 1) == "str" {
                let help = "an array of strings has any length: `[str; _]`";
                return Some(certain_fix(error.help(help), "write `[str; _]`", cx.span_after_previous(), "; _"));
            }
            return Some(possible_fix(error.help(help), "add a dimension name", cx.span_after_previous(), "; N"));
        }
        if cx.found_token() == Tok::Comma {
            let error = Diagnostic::error("E0127", "the element type and the size are separated by `;`")
                .at(cx.span(at), "should be `;`");
            return Some(certain_fix(error.help(help), "write `;`", cx.span(at), ";"));
        }
    }
    // `[]f32` has neither an element type nor a size in its brackets.
    if let Some(diagnostic) = size_before_type(cx) {
        return Some(diagnostic);
    }
    let after_type = at > cx.start + 1 && cx.kind(at - 2) == Tok::Colon && cx.token_before() == Tok::Name;
    if cx.found_token() == Tok::Star && after_type {
        return pointer_type(cx, at - 1);
    }
    if let Some(diagnostic) = generic_array(cx) {
        return Some(diagnostic);
    }
    if !cx.unexpected.expected_label(ExpectedConstruct::Type) {
        return None;
    }
    let span = cx.span(at);
    // `&[f32]` of Rust.
    let slice = [Tok::And, Tok::LBracket, Tok::Name, Tok::RBracket];
    if slice.iter().enumerate().all(|(offset, kind)| cx.kind(at + offset) == *kind) {
        let text = format!("[{}; N]", c_type(cx.word(at + 2)).unwrap_or("f32"));
        let error = Diagnostic::error("E0140", "there are no pointers or references in Clk")
            .at(cx.spans(at, at + 3), "an array has its size in its type");
        return Some(possible_fix(error, format!("write `{text}`"), cx.spans(at, at + 3), text));
    }
    let error = |title: &str| Diagnostic::error("E0141", title);
    Some(match (cx.token_before(), cx.found_token()) {
        (_, Tok::And | Tok::Star) => Diagnostic::error("E0140", "there are no pointers or references in Clk")
            .at(span, "not a type")
            .help("memory is an array with its size: `[f32; N]`"),
        (_, Tok::Out | Tok::InOut) => {
            let word = cx.word(at);
            let error = error(&format!("`{word}` goes before the parameter's name")).at(span, "not here");
            if at < cx.start + 2 || cx.kind(at - 2) != Tok::Name {
                return Some(error);
            }
            let name = cx.word(at - 2);
            certain_fix(error, format!("write `{word} {name}:`"), cx.spans(at - 2, at), format!("{word} {name}:"))
        }
        (Tok::Arrow, _) => error("the result type is missing")
            .at(cx.span_after_previous(), "a type should follow")
            .because(cx.span(at - 1), "this promises a result")
            .help("name the type (`-> f32`), or remove the `->` if there is no result"),
        (Tok::Colon, Tok::Const) => {
            pointer_type(cx, at).unwrap_or_else(|| error("a type is expected here").at(span, "`const` is a keyword"))
        }
        (Tok::Colon, _) => error("the type is missing").at(cx.span_after_previous(), "a type should follow").help(
            "types are `f32`, `i32`, `[f32; N]` and the like; after `let` and `var` the `:` can be left off with it",
        ),
        (_, Tok::Int | Tok::Float) => error("a type is expected here").at(span, "this is a number"),
        (_, kind) if kind.is_keyword() => {
            error("a type is expected here").at(span, format!("`{}` is a keyword", cx.word(at)))
        }
        _ => return None,
    })
}

/// Reports `Vec<f32>`, `Array<f32>` and the like.
fn generic_array(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    // `wp.array(dtype=float)` of Warp.
    let warp = [Tok::LParen, Tok::Name, Tok::Assign, Tok::Name, Tok::RParen];
    let is_warp = warp.iter().enumerate().all(|(offset, kind)| cx.kind(at + offset) == *kind);
    if is_warp && at >= cx.start + 3 && cx.kind(at - 2) == Tok::Dot && cx.word(at - 1).starts_with("array") {
        let ty = c_type(cx.word(at + 3)).filter(|ty| !ty.is_empty())?;
        let text = format!("[{ty}; N]");
        let span = cx.spans(at - 3, at + 4);
        let error = Diagnostic::error("E0141", format!("an array type is written `[{ty}; …]`"))
            .at(span, "the element type and the size go together in brackets");
        return Some(possible_fix(error, format!("write `{text}`"), span, text));
    }
    let before = at.checked_sub(1)?;
    let is_array =
        matches!(cx.word(before), "Vec" | "Array" | "array" | "List" | "list" | "Tensor" | "vector" | "Buffer");
    let is_type = at >= cx.start + 2 && matches!(cx.kind(at - 2), Tok::Colon | Tok::Arrow);
    let ty = c_type(cx.word(at + 1)).filter(|ty| !ty.is_empty() && is_array && is_type)?;
    let brackets = (cx.found_token(), cx.kind(at + 2));
    if !matches!(
        brackets,
        (Tok::Lt, Tok::Gt) | (Tok::LBracket, Tok::RBracket) | (Tok::LParen, Tok::RParen) | (Tok::LBrace, Tok::RBrace)
    ) {
        return None;
    }
    let text = format!("[{ty}; N]");
    let error = Diagnostic::error("E0141", format!("an array type is written `[{ty}; …]`"))
        .at(cx.spans(before, at + 2), "the element type and the size go together in brackets");
    Some(possible_fix(error, format!("write `{text}`"), cx.spans(before, at + 2), text))
}

/// Reports `[n]f32` and `[]f32`, where the size is before the element type.
fn size_before_type(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let close = cx.unexpected.at;
    let open = (cx.start..close).rev().find(|&index| cx.kind(index) == Tok::LBracket)?;
    let ty = c_type(cx.word(close + 1)).filter(|ty| !ty.is_empty())?;
    if cx.found_token() != Tok::RBracket || open + 2 < close || !cx.adjacent(close, close + 1) {
        return None;
    }
    let size = if open + 1 < close { cx.word(open + 1) } else { "N" };
    let text = format!("[{ty}; {size}]");
    let error = Diagnostic::error("E0141", format!("an array type is written `[{ty}; …]`"))
        .at(cx.spans(open, close + 1), "the element type and the size go together in brackets");
    Some(certain_fix(error, format!("write `{text}`"), cx.spans(open, close + 1), text))
}

/// Reports the type `float*` or `const float*` that begins at `first`.
fn pointer_type(cx: &MistakeContext<'_>, first: usize) -> Option<Diagnostic> {
    let word = if cx.kind(first) == Tok::Const { first + 1 } else { first };
    let ty = c_type(cx.word(word)).filter(|ty| !ty.is_empty())?;
    let star = cx.kind(word + 1) == Tok::Star;
    let (text, last) = if star { (format!("[{ty}; N]"), word + 1) } else { (ty.to_owned(), word) };
    let error = match star {
        true => Diagnostic::error("E0140", "there are no pointers or references in Clk")
            .at(cx.spans(first, last), "memory is an array with its size"),
        false => Diagnostic::error("E0141", "a type has no `const`")
            .at(cx.span(first), "a parameter is read only unless it is `out` or `inout`"),
    };
    Some(possible_fix(error, format!("write `{text}`"), cx.spans(first, last), text))
}

fn geometry(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    if !cx.unexpected.expected_label(ExpectedConstruct::Geometry) {
        return None;
    }
    let span = match cx.found_token() {
        Tok::Newline | Tok::Eof => cx.span_after_previous(),
        _ => cx.span(cx.unexpected.at),
    };
    let shaped = (cx.start..cx.unexpected.at)
        .any(|index| cx.kind(index) == Tok::Name && matches!(cx.word(index), "threads" | "grid" | "block"));
    Some(match shaped {
        true => Diagnostic::error("E0134", "the kernel's body is missing").at(span, "expected `{`"),
        false => Diagnostic::error("E0125", "a kernel must say how many threads it runs")
            .at(span, "its shape belongs here")
            .help("`threads(i: N)` runs the body once for every `i` from 0 to N - 1")
            .help("`grid(blocks) block(threads)` is the CUDA way, with barriers and shared memory"),
    })
}

/// Reports a missing `{`: conditions with `=`, Python's colons, C's bodies without braces.
fn body(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    if !cx.unexpected.expected(Tok::LBrace) {
        return None;
    }
    let span = cx.span(cx.unexpected.at);
    if let Some(diagnostic) = function_body(cx) {
        return Some(diagnostic);
    }
    match cx.found_token() {
        Tok::Assign => {
            let error =
                Diagnostic::error("E0123", "`=` in a condition").at(span, "this would assign").help("`==` compares");
            Some(certain_fix(error, "write `==`", span, "=="))
        }
        Tok::Colon => Some(
            Diagnostic::error("E0134", "a body needs braces")
                .at(span, "expected `{`")
                .help("write `{ … }`; indentation has no meaning in Clk"),
        ),
        Tok::LBracket | Tok::LParen | Tok::Dot => None,
        token => {
            let span = if matches!(token, Tok::Newline | Tok::Eof) { cx.span_after_previous() } else { span };
            Some(
                Diagnostic::error("E0134", "a body needs braces")
                    .at(span, "expected `{`")
                    .because(cx.span(cx.start), "the body of this")
                    .help("write `{ … }`, also around a single statement"),
            )
        }
    }
}

/// Reports `fn sq(x: f32) = x * x` and `fn sq(x: f32) f32 { … }`.
fn function_body(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let after_parameters = cx.token_before() == Tok::RParen;
    if cx.kind(cx.start) != Tok::Fn || cx.bracket().is_some() {
        return None;
    }
    match cx.found_token() {
        Tok::Assign | Tok::FatArrow => {
            let error = Diagnostic::error("E0134", "the body of a function needs braces")
                .at(cx.span(at), "expected `{`")
                .because(cx.span(cx.start), "the body of this");
            let result = if after_parameters { common_parameter_type(cx) } else { Some("") };
            let last = (at + 1..cx.end).rev().find(|&index| !matches!(cx.kind(index), Tok::Newline | Tok::Semi));
            let Some((result, last)) = result.zip(last).filter(|(_, last)| cx.kind(*last) != Tok::RBrace) else {
                return Some(error.help("`fn name(x: f32) -> f32 { x * x }`: the result type follows `->`"));
            };
            let arrow = if result.is_empty() { String::new() } else { format!("-> {result} ") };
            let value = cx.slice(cx.spans(at + 1, last));
            let text = format!("{arrow}{{ {value} }}");
            Some(possible_fix(error, format!("write `{text}`"), cx.spans(at, last), text))
        }
        Tok::Name | Tok::LBracket if after_parameters => {
            let body = cx.find(at, Tok::LBrace)?;
            let ty = cx.slice(cx.spans(at, body - 1));
            let error = Diagnostic::error("E0134", "a result type follows `->`")
                .at(cx.spans(at, body - 1), "expected `->` before this type");
            Some(certain_fix(error, format!("write `-> {ty}`"), cx.spans(at, body - 1), format!("-> {ty}")))
        }
        _ => None,
    }
}

/// Returns the type that all parameters of a function have.
fn common_parameter_type<'t>(cx: &MistakeContext<'t>) -> Option<&'t str> {
    let mut first = cx.find(cx.start, Tok::LParen)? + 1;
    let mut common = None;
    loop {
        let end = c_head::parameter_end(cx, first)?;
        let colon = (first..end).find(|&index| cx.kind(index) == Tok::Colon).filter(|colon| colon + 1 < end)?;
        let ty = cx.slice(cx.spans(colon + 1, end - 1));
        if common.is_some_and(|common| common != ty) {
            return None;
        }
        common = Some(ty);
        if cx.kind(end) == Tok::RParen {
            return common;
        }
        first = end + 1;
    }
}

/// Reports `inout: [f32; N]`, where the access keyword is used as the parameter's name.
fn access_as_name(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let expects_name = cx.found_token() == Tok::Colon && cx.unexpected.expected_label(ExpectedConstruct::Name);
    if !expects_name || !matches!(cx.token_before(), Tok::Out | Tok::InOut) {
        return None;
    }
    let word = cx.word(cx.unexpected.at - 1);
    let span = cx.span(cx.unexpected.at - 1);
    let error = Diagnostic::error("E0137", format!("`{word}` is a keyword"))
        .at(span.after(), "the parameter's name is missing")
        .help(format!("`{word}` says what the kernel does with a parameter: `{word} y: [f32; N]`"));
    Some(possible_fix(error, format!("write `{word} y`"), span, format!("{word} y")))
}

/// Reports `np.var(x)` and `var(x)`, where a function of another language has the name of a keyword.
fn keyword_as_function(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    if !cx.found_token().is_keyword() || cx.kind(at + 1) != Tok::LParen || at == cx.start {
        return None;
    }
    // A keyword at the beginning of a line begins a statement: `var (a, b) = …`.
    let is_on_line = !cx.slice(cx.spans(at - 1, at)).contains('\n');
    let word = cx.word(at);
    let row = foreign_names::find(word).filter(|row| is_on_line && row.equivalent != ClkEquivalent::Same)?;
    let error = Diagnostic::error("E0137", format!("`{word}` is a keyword")).at(cx.span(at), "not a function in Clk");
    Some(error.help(row.help(word)))
}

fn keyword_as_name(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let expects_name = cx.unexpected.expected_label(ExpectedConstruct::Name)
        || cx.unexpected.expected_label(ExpectedConstruct::Pattern);
    if !expects_name || !cx.found_token().is_keyword() {
        return None;
    }
    let word = cx.word(cx.unexpected.at);
    let span = cx.span(cx.unexpected.at);
    let error = Diagnostic::error("E0137", format!("`{word}` is a keyword"))
        .at(span, "a name is expected here")
        .help("choose another name");
    Some(possible_fix(error, format!("write `{word}_`"), span, format!("{word}_")))
}

/// Reports `let x =` and operators without a right operand.
fn value(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    if !cx.unexpected.expected_label(ExpectedConstruct::Expression) || cx.unexpected.at == cx.start {
        return None;
    }
    let before = cx.unexpected.at - 1;
    let text = cx.word(before);
    let ended = matches!(
        cx.found_token(),
        Tok::Newline
            | Tok::Eof
            | Tok::Semi
            | Tok::RBrace
            | Tok::RParen
            | Tok::RBracket
            | Tok::Comma
            | Tok::Let
            | Tok::Var
    );
    let waits = cx.token_before().continues_line() || matches!(cx.token_before(), Tok::Minus | Tok::Bang);
    let bracket = matches!(cx.token_before(), Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::Comma | Tok::Dot);
    if !ended || !waits || bracket {
        return None;
    }
    let title = match cx.token_before() {
        Tok::Assign => "the value is missing".to_owned(),
        _ => format!("`{text}` needs a value on its right"),
    };
    Some(
        Diagnostic::error("E0126", title)
            .at(cx.span(before).after(), "an expression should follow")
            .because(cx.span(before), format!("after this `{text}`")),
    )
}

/// Reports `{"a": 1}`.
fn dictionary(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    // The brace was read as the start of a block, so the key begins a statement.
    let open = cx.start.checked_sub(1).filter(|&open| cx.kind(open) == Tok::LBrace)?;
    let is_key = matches!(cx.token_before(), Tok::StrEnd | Tok::Int | Tok::Float);
    (cx.found_token() == Tok::Colon && is_key).then(|| no_dictionaries(cx, open))
}

/// Builds the diagnostic for a dictionary of Python that begins at `open`.
pub(super) fn no_dictionaries(cx: &MistakeContext<'_>, open: usize) -> Diagnostic {
    Diagnostic::error("E0138", "there are no dictionaries in Clk")
        .at(cx.spans(open, cx.unexpected.at), "`{` begins a block")
        .help("fixed names are the fields of a struct: `struct Point { x: f32, y: f32 }`, then `Point { x: 1.0, y: 2.0 }`")
        .help("other keys go into one array and the values into another")
}

/// Reports `print(len x)`, `let n = len x`: a function without parentheses around its argument.
fn bare_call(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let callee = at.checked_sub(1).filter(|&callee| callee >= cx.start && cx.kind(callee) == Tok::Name)?;
    let name = cx.word(callee);
    let row = foreign_names::find(name).and_then(|row| row.replacement(name));
    let name = row.filter(|clk| builtin::find(clk).is_some()).unwrap_or(name);
    let is_own = (1..cx.tokens.len()).any(|index| cx.kind(index - 1) == Tok::Fn && cx.word(index) == name);
    let is_function = is_own || builtin::find(name).is_some_and(|entry| entry.signature.starts_with(['(', '<']));
    let starts = matches!(cx.found_token(), Tok::Name | Tok::Int | Tok::Float | Tok::StrStart);
    let is_member = callee > cx.start && cx.kind(callee - 1) == Tok::Dot;
    let between = cx.token(callee).end as usize..cx.token(at).start as usize;
    let on_one_line = cx.text.get(between).is_some_and(|between| !between.is_empty() && !between.contains('\n'));
    if !is_function || !starts || is_member || !on_one_line {
        return None;
    }
    let error = Diagnostic::error("E0131", format!("`{name}` is called with parentheses"))
        .at(cx.span(at), "the argument goes in `( )`")
        .because(cx.span(callee), "this is a function");
    let ends = |kind| matches!(kind, Tok::Comma | Tok::RParen | Tok::RBracket | Tok::Newline | Tok::Eof | Tok::Semi);
    Some(match cx.found_token() != Tok::StrStart && ends(cx.kind(at + 1)) {
        true => {
            let text = format!("{name}({})", cx.word(at));
            certain_fix(error, format!("write `{text}`"), cx.spans(callee, at), text)
        }
        false => error.help(format!("write `{name}(…)`")),
    })
}

/// Reports `Point { 3.0, 4.0 }` and `Point { x = 3.0, y = 4.0 }`.
fn fields_without_names(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let name = at.checked_sub(1).map(|before| cx.word(before))?;
    let is_struct = |index: &usize| cx.kind(*index) == Tok::Struct && cx.word(index + 1) == name;
    let definition = (0..cx.tokens.len()).find(is_struct)?;
    if cx.found_token() != Tok::LBrace || cx.token_before() != Tok::Name {
        return None;
    }
    let close = |open: usize| (open..cx.tokens.len()).find(|&index| cx.kind(index) == Tok::RBrace);
    let fields: Vec<&str> = (definition + 3..close(definition)?)
        .filter(|&index| cx.kind(index + 1) == Tok::Colon)
        .map(|index| cx.word(index))
        .collect();
    let end = close(at)?;
    let inside = cx.slice(cx.span(at).after().to(Span { end: cx.span(end).start, ..cx.span(end) }));
    let values: Vec<&str> = inside.split(',').map(str::trim).filter(|value| !value.is_empty()).collect();
    let is_simple = !inside.contains(['(', '[', '{']) && values.len() == fields.len();
    let pairs = fields.iter().zip(values).map(|(field, value)| match value.split_once('=') {
        Some((name, value)) => format!("{}: {}", name.trim().trim_start_matches('.'), value.trim()),
        None => format!("{field}: {value}"),
    });
    let text = format!("{name} {{ {} }}", pairs.collect::<Vec<_>>().join(", "));
    let error = Diagnostic::error("E0131", format!("the fields of `{name}` are given by name"))
        .at(cx.spans(at - 1, at), "a value of this struct");
    Some(match is_simple {
        true => possible_fix(error, format!("write `{text}`"), cx.spans(at - 1, end), text),
        false => error.help(format!("write `{name} {{ {}: … }}`", fields.join(": …, "))),
    })
}

/// Reports `grid(n), block(256)`.
fn comma_between_clauses(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let is_clause = matches!(cx.word(at + 1), "grid" | "block" | "threads") && cx.kind(at + 2) == Tok::LParen;
    if cx.found_token() != Tok::Comma || cx.kind(cx.start) != Tok::Kernel || !is_clause || cx.bracket().is_some() {
        return None;
    }
    let error = Diagnostic::error("E0127", "no comma separates the clauses of a kernel").at(cx.span(at), "remove this");
    Some(certain_fix(error, "remove the comma", cx.span(at), ""))
}

/// Reports `f<<<grid, block, bytes>>>(x)`.
fn shared_memory_of_launch(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    if cx.found_token() != Tok::Comma || !cx.unexpected.expected(Tok::LaunchClose) {
        return None;
    }
    let close = cx.find(at, Tok::LaunchClose)?;
    let error = Diagnostic::error("E0101", "a launch has a grid and a block, but no size of shared memory")
        .at(cx.spans(at, close - 1), "remove this")
        .help("`shared s: [f32; 64]` in the kernel states the size");
    Some(possible_fix(error, "remove it", cx.spans(at, close - 1), ""))
}

/// Reports a comment of MATLAB: `let a = 1  % the first`.
fn percent_comment(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let percent = (cx.start..=at).rev().find(|&index| cx.kind(index) == Tok::Percent)?;
    let start = cx.token(percent).start as usize;
    let line = &cx.text[..start][cx.text[..start].rfind('\n').map_or(0, |newline| newline + 1)..];
    let is_apart = line.trim().is_empty() || line.ends_with("  ");
    let is_followed = !cx.adjacent(percent, percent + 1);
    if !is_apart || !is_followed || cx.text[start..cx.span(at).start as usize].contains('\n') {
        return None;
    }
    let error = Diagnostic::error("E0131", "a comment begins with `//`").at(cx.span(percent), "the remainder operator");
    Some(possible_fix(error, "write `//`", cx.span(percent), "//"))
}

/// Reports a missing comma between two expressions or parameters in brackets.
fn comma(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let open = cx.bracket()?;
    let next = cx.found_token();
    let starts = next.starts_expression() || matches!(next, Tok::Out | Tok::InOut | Tok::Const);
    if !cx.unexpected.expected(Tok::Comma) || !starts || matches!(next, Tok::LBrace | Tok::Minus) {
        return None;
    }
    let place = cx.span_after_previous();
    let error = Diagnostic::error("E0127", "a comma is missing")
        .at(place, "expected `,`")
        .because(cx.span(open), "between the parts of this");
    // Between two names, an operator may be missing instead of a comma, or the names are words of another language.
    let literal =
        |kind: Tok| matches!(kind, Tok::Int | Tok::Float | Tok::True | Tok::False | Tok::StrStart | Tok::StrEnd);
    let touching = cx.adjacent(cx.unexpected.at - 1, cx.unexpected.at);
    let between = cx.token(cx.unexpected.at - 1).end as usize..cx.token(cx.unexpected.at).start as usize;
    let next_line = cx.text.get(between).is_some_and(|between| between.contains('\n'));
    let parameter = matches!(next, Tok::Out | Tok::InOut | Tok::Const);
    let certain = next_line || parameter || !touching && (literal(next) || literal(cx.token_before()));
    Some(match certain {
        true => certain_fix(error, "insert `,`", place, ","),
        false => possible_fix(error, "insert `,`", place, ","),
    })
}

/// Reports tokens after the end of a statement.
fn end(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    if !cx.unexpected.expected_label(ExpectedConstruct::End)
        || cx.bracket().is_some_and(|open| cx.kind(open) != Tok::LBrace)
    {
        return None;
    }
    let at = cx.unexpected.at;
    let span = cx.span(at);
    let error = |title: &str| Diagnostic::error("E0131", title);
    if cx.found_token() == Tok::Assign {
        return Some(
            error("an assignment has no value")
                .at(span, "a second `=`")
                .help("assign one variable per statement: `b = c; a = b`"),
        );
    }
    if let Some(diagnostic) = cast(cx) {
        return Some(diagnostic);
    }
    let new = cx.found_token().starts_expression() || cx.found_token().is_keyword();
    new.then(|| {
        let diagnostic = error("two statements without a separator")
            .at(span, "a second statement begins here")
            .because(cx.span_after_previous(), "the first could end here")
            .help("put them on two lines, or a `;` between them; a call has its arguments in `( )`");
        possible_fix(diagnostic, "insert `;`", cx.span_after_previous(), ";")
    })
}

/// Reports `(float)n`.
fn cast(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let at = cx.unexpected.at;
    let is_cast = at >= cx.start + 3
        && (cx.kind(at - 3), cx.kind(at - 2), cx.kind(at - 1)) == (Tok::LParen, Tok::Name, Tok::RParen);
    let ty = c_type(cx.word(at.checked_sub(2)?)).filter(|ty| is_cast && !ty.is_empty())?;
    let error = Diagnostic::error("E0131", format!("a conversion is written `{ty}(…)`"))
        .at(cx.spans(at - 3, at - 1), "a C cast");
    let simple = matches!(cx.found_token(), Tok::Name | Tok::Int | Tok::Float)
        && !matches!(cx.kind(at + 1), Tok::LParen | Tok::LBracket | Tok::Dot);
    Some(match simple {
        true => {
            let text = format!("{ty}({})", cx.word(at));
            certain_fix(error, format!("write `{text}`"), cx.spans(at - 3, at), text)
        }
        false => error.help(format!("write the type like a function: `{ty}(x + 1)`")),
    })
}
