//! Recognizes errors by the unexpected token and the tokens before it.

use super::here::{Here, c_type, maybe, sure};
use crate::base::diag::{Applicability, Diagnostic};
use crate::lang::scalar::Scalar;
use crate::syntax::miss::Label;
use crate::syntax::token::Tok;

pub(crate) fn explain(here: &Here<'_>) -> Option<Diagnostic> {
    increment(here)
        .or_else(|| word_operator(here))
        .or_else(|| foreign_mark(here))
        .or_else(|| parameter(here))
        .or_else(|| index_without_name(here))
        .or_else(|| field(here))
        .or_else(|| types(here))
        .or_else(|| geometry(here))
        .or_else(|| body(here))
        .or_else(|| access_as_name(here))
        .or_else(|| keyword_as_name(here))
        .or_else(|| value(here))
        .or_else(|| comma(here))
        .or_else(|| end(here))
}

/// Reports `i++`, `i--`.
fn increment(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    let (first, sign) = if here.found() == Tok::PlusPlus {
        (at, "+")
    } else if at >= here.start + 3
        && here.kind(at - 1) == Tok::Minus
        && here.kind(at - 2) == Tok::Minus
        && here.adjacent(at - 2, at - 1)
    {
        (at - 2, "-")
    } else {
        return None;
    };
    let last = if sign == "+" { first } else { at - 1 };
    let span = here.spans(first, last);
    let error = Diagnostic::error("E0119", format!("there is no `{sign}{sign}` in Clk")).at(span, "not an operator");
    if first == here.start {
        return Some(error.help(format!("write `i {sign}= 1`, a statement of its own")));
    }
    Some(sure(error, format!("write `{sign}= 1`"), span, format!(" {sign}= 1")))
}

/// Reports `a and b`, `not a`.
fn word_operator(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    let is_not = |index: usize| here.kind(index) == Tok::Name && here.word(index) == "not";
    let (index, symbol) = match (here.found(), here.word(at)) {
        (Tok::Name, "and") => (at, "&&"),
        (Tok::Name, "or") => (at, "||"),
        (Tok::Name, "is") => (at, "=="),
        (Tok::Name, "mod") => (at, "%"),
        (Tok::Name, "xor") => (at, "^"),
        _ if at > here.start && is_not(at - 1) => (at - 1, "!"),
        _ => return None,
    };
    if symbol != "!" && !here.kind(index + 1).starts_expression() {
        return None;
    }
    let span = here.span(index);
    let word = here.word(index);
    let error =
        Diagnostic::error("E0121", format!("`{word}` is written `{symbol}`")).at(span, "not an operator of Clk");
    let span = if symbol == "!" { span.to(here.span(index + 1)) } else { span };
    let text = if symbol == "!" { format!("!{}", here.word(index + 1)) } else { symbol.to_owned() };
    Some(sure(error, format!("write `{symbol}`"), span, text))
}

/// Reports punctuation and operators of other languages.
fn foreign_mark(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    let span = here.span(at);
    let operand = here.miss.expected_label(Label::Expression) || here.miss.expected_label(Label::Statement);
    let error = |title: &str| Diagnostic::error("E0101", title);
    Some(match here.found() {
        Tok::Question => Diagnostic::error("E0120", "there is no `? :` in Clk")
            .at(span, "not an operator")
            .help("`if` is an expression: `if x > 0 { a } else { b }`; or `select(x > 0, a, b)`, which computes both"),
        Tok::Tilde => {
            sure(error("`~` is written `!`").at(span, "`!` flips the bits of an integer"), "write `!`", span, "!")
        }
        Tok::ColonColon => {
            sure(error("`::` is written `.`").at(span, "names are joined by a dot"), "write `.`", span, ".")
        }
        Tok::FatArrow => error("`=>` means nothing in Clk").at(span, "unexpected").help("a result type follows `->`"),
        Tok::Assign if here.before() == Tok::EqEq && here.adjacent(at - 1, at) => {
            let both = here.spans(at - 1, at);
            sure(error("`===` is written `==`").at(both, "values are compared with `==`"), "write `==`", both, "==")
        }
        Tok::Plus if operand => maybe(error("there is no unary `+`").at(span, "remove it"), "remove it", span, ""),
        Tok::And | Tok::Star if operand => pointer(here),
        Tok::Pipe | Tok::PipePipe if operand => Diagnostic::error("E0140", "there are no closures in Clk")
            .at(span, "an operator needs a value on its left")
            .help("write a `fn` and pass its name"),
        Tok::Arrow if here.kind(here.start) == Tok::Kernel => Diagnostic::error("E0114", "a kernel has no result type")
            .at(span, "remove this")
            .help("what a kernel computes it writes to its `out` arrays: `out r: [f32; N]`"),
        Tok::Colon if here.kind(here.start) == Tok::Fn && here.before() == Tok::RParen => {
            sure(error("a result type follows `->`").at(span, "expected `->`"), "write ` ->`", span, " ->")
        }
        _ => return None,
    })
}

/// Reports `&x`, `*p`, `*(p + i)`.
fn pointer(here: &Here<'_>) -> Diagnostic {
    let at = here.miss.at;
    let span = here.span(at);
    let error = Diagnostic::error("E0140", "there are no pointers or references in Clk")
        .at(span, format!("`{}` needs a value on its left", here.word(at)));
    if here.found() == Tok::And && here.kind(at + 1) == Tok::Name {
        let error = error.help("a place is passed as it is: `atomic_add(bins[i], 1)`");
        return maybe(error, "leave the `&` off", span, "");
    }
    let element = [Tok::LParen, Tok::Name, Tok::Plus, Tok::Name, Tok::RParen];
    if here.found() == Tok::Star && (0..element.len()).all(|i| here.kind(at + 1 + i) == element[i]) {
        let text = format!("{}[{}]", here.word(at + 2), here.word(at + 4));
        return sure(error, format!("write `{text}`"), here.spans(at, at + element.len()), text);
    }
    error.help(
        "arrays are passed as they are, an element is `x[i]`; a kernel's `out` and `inout` parameters are written to",
    )
}

/// Reports parameters without a type, or with the type first as in C.
fn parameter(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    let header = matches!(here.kind(here.start), Tok::Fn | Tok::Kernel);
    let open = here.bracket().filter(|&open| here.kind(open) == Tok::LParen)?;
    if !header || !here.miss.expected(Tok::Colon) || here.before() != Tok::Name {
        return None;
    }
    if open > here.start && here.word(open - 1) == "threads" {
        return Some(index_name(here, open));
    }
    let before = here.word(at - 1);
    let typed =
        here.found() == Tok::LBracket || here.found() == Tok::Name && Scalar::from_name(here.word(at)).is_some();
    if typed && c_type(before).is_none() {
        let error = Diagnostic::error("E0124", format!("a `:` is missing behind `{before}`"))
            .at(here.behind_before(), "expected `:`")
            .because(here.span(open), "in these parameters");
        return Some(sure(error, "insert `:`", here.behind_before(), ":"));
    }
    if let Some(ty) = c_type(before).filter(|ty| !ty.is_empty()) {
        let star = here.found() == Tok::Star;
        let name_at = if star { at + 1 } else { at };
        if here.kind(name_at) == Tok::Name {
            let name = here.word(name_at);
            let text = if star { format!("{name}: [{ty}; N]") } else { format!("{name}: {ty}") };
            let note = if star {
                "there are no pointers; an array has its size in its type"
            } else {
                "the type follows the name"
            };
            let error = Diagnostic::error("E0124", "a parameter is written `name: type`")
                .at(here.spans(at - 1, name_at), "the C order")
                .note(note);
            return Some(maybe(error, format!("write `{text}`"), here.spans(at - 1, name_at), text));
        }
    }
    if !matches!(here.found(), Tok::Comma | Tok::RParen | Tok::Assign) {
        return None;
    }
    let error = Diagnostic::error("E0124", format!("parameter `{before}` has no type"))
        .at(here.span(at - 1), "its type is missing")
        .because(here.span(open), "in these parameters")
        .help(format!("`{before}: f32` is one number, `{before}: [f32; N]` an array of N"));
    Some(maybe(error, "add `: f32`", here.span(at - 1).after(), ": f32"))
}

/// Reports `threads(N)`, `threads(i)`, `threads(i < N)`, `threads(i, j: M, N)`: each index needs a name and an extent.
fn index_name(here: &Here<'_>, open: usize) -> Diagnostic {
    let at = here.miss.at;
    let name = here.word(at - 1);
    let dims = dimensions(here, open);
    let is_extent = here.kind(at - 1) != Tok::Name || dims.contains(&name) || name.chars().all(char::is_uppercase);
    let extent = dims.first().copied().unwrap_or("N");
    let error = Diagnostic::error("E0125", "`threads` gives each index a name and its extent")
        .because(here.span(open - 1), "in this shape")
        .help("`threads(i: N)` runs the body for every `i` from 0 to N - 1, `threads(row: M, col: N)` for every pair");
    let taken =
        |word: &str| (here.start..here.end).any(|index| here.kind(index + 1) == Tok::Colon && here.word(index) == word);
    match here.found() {
        Tok::In | Tok::Lt | Tok::Assign if !is_extent => {
            let span = here.spans(at - 1, at);
            let error = error.at(here.span(at), "a `:` should stand here");
            sure(error, format!("write `{name}:`"), span, format!("{name}:"))
        }
        Tok::Comma | Tok::RParen if is_extent => {
            let index = ["i", "j", "k", "n"].into_iter().find(|word| !taken(word)).unwrap_or("i");
            let error = error.at(here.span(at - 1), "the index of this extent has no name");
            // If the body uses `i`, that is the intended index name; several extents need several names.
            let used = (at..here.end).any(|token| here.kind(token) == Tok::Name && here.word(token) == index);
            let text = format!("{index}: {name}");
            match used && here.found() == Tok::RParen && at == open + 2 {
                true => sure(error, format!("write `{text}`"), here.span(at - 1), text),
                false => maybe(error, format!("write `{text}`"), here.span(at - 1), text),
            }
        }
        Tok::Comma | Tok::RParen => {
            let error = error.at(here.span(at - 1), "how far this index goes is missing");
            maybe(error, format!("write `{name}: {extent}`"), here.span(at - 1), format!("{name}: {extent}"))
        }
        _ => error.at(here.span(at), "a `:` should stand here"),
    }
}

/// Returns the dimension names in the parameters of a kernel whose geometry begins at `open`.
fn dimensions<'t>(here: &Here<'t>, open: usize) -> Vec<&'t str> {
    let mut dims = Vec::new();
    let mut sizes = false;
    for index in here.start..open {
        match here.kind(index) {
            Tok::Semi => sizes = true,
            Tok::RBracket => sizes = false,
            Tok::Name if sizes && !dims.contains(&here.word(index)) => dims.push(here.word(index)),
            _ => {}
        }
    }
    dims
}

/// Reports `threads(256)`.
fn index_without_name(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    let open = here.bracket().filter(|&open| open > here.start && here.word(open - 1) == "threads")?;
    let number = here.found() == Tok::Int && here.kind(here.start) == Tok::Kernel && at == open + 1;
    if !number {
        return None;
    }
    let text = format!("i: {}", here.word(at));
    let error = Diagnostic::error("E0125", "`threads` gives each index a name and its extent")
        .at(here.span(at), "the index of this extent has no name")
        .because(here.span(open - 1), "in this shape")
        .help("the number of threads in a block is said by `block(256)`, behind `grid(…)` or `threads(…)`");
    Some(maybe(error, format!("write `{text}`"), here.span(at), text))
}

/// Reports a struct field without the `:` before its type.
fn field(here: &Here<'_>) -> Option<Diagnostic> {
    let inside = here.bracket().is_some_and(|open| here.kind(open) == Tok::LBrace);
    let is_struct = here.kind(here.start) == Tok::Struct && inside && here.before() == Tok::Name;
    if !is_struct || !here.miss.expected(Tok::Colon) || !matches!(here.found(), Tok::Name | Tok::LBracket) {
        return None;
    }
    let error = Diagnostic::error("E0101", format!("a `:` is missing behind `{}`", here.word(here.miss.at - 1)))
        .at(here.behind_before(), "expected `:`")
        .help("a field is written `name: type`");
    Some(sure(error, "insert `:`", here.behind_before(), ":"))
}

/// Reports a missing or invalid type.
fn types(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    if here.miss.expected(Tok::Semi) && here.bracket().is_some_and(|open| here.kind(open) == Tok::LBracket) {
        let help = "an array type says how many elements there are: `[f32; N]`, `[f32; 16, 16]`";
        if here.found() == Tok::RBracket {
            let error =
                Diagnostic::error("E0127", "an array type needs its size").at(here.span(at), "`; size` is missing");
            if at > here.start && here.kind(at - 1) == Tok::Name && here.word(at - 1) == "str" {
                let help = "an array of texts is of any length: `[str; _]`";
                return Some(sure(error.help(help), "write `[str; _]`", here.behind_before(), "; _"));
            }
            return Some(maybe(error.help(help), "add a dimension name", here.behind_before(), "; N"));
        }
        if here.found() == Tok::Comma {
            let error = Diagnostic::error("E0127", "the element type and the size are separated by `;`")
                .at(here.span(at), "should be `;`");
            return Some(sure(error.help(help), "write `;`", here.span(at), ";"));
        }
    }
    if !here.miss.expected_label(Label::Type) {
        return None;
    }
    let span = here.span(at);
    let error = |title: &str| Diagnostic::error("E0141", title);
    Some(match (here.before(), here.found()) {
        (_, Tok::And | Tok::Star) => Diagnostic::error("E0140", "there are no pointers or references in Clk")
            .at(span, "not a type")
            .help("memory is an array with its size: `[f32; N]`"),
        (_, Tok::Out | Tok::InOut) => {
            let word = here.word(at);
            let error = error(&format!("`{word}` stands before the parameter's name")).at(span, "not here");
            if at < here.start + 2 || here.kind(at - 2) != Tok::Name {
                return Some(error);
            }
            let name = here.word(at - 2);
            sure(error, format!("write `{word} {name}:`"), here.spans(at - 2, at), format!("{word} {name}:"))
        }
        (Tok::Arrow, _) => error("the result type is missing")
            .at(here.behind_before(), "a type should follow")
            .because(here.span(at - 1), "this promises a result")
            .help("name the type (`-> f32`), or remove the `->` if there is no result"),
        (Tok::Colon, _) => error("the type is missing").at(here.behind_before(), "a type should follow").help(
            "types are `f32`, `i32`, `[f32; N]` and the like; after `let` and `var` the `:` can be left off with it",
        ),
        (_, Tok::Int | Tok::Float) => error("a type is expected here").at(span, "this is a number"),
        (_, kind) if kind.is_keyword() => {
            error("a type is expected here").at(span, format!("`{}` is a keyword", here.word(at)))
        }
        _ => return None,
    })
}

fn geometry(here: &Here<'_>) -> Option<Diagnostic> {
    if !here.miss.expected_label(Label::Geometry) {
        return None;
    }
    let span = match here.found() {
        Tok::Newline | Tok::Eof => here.behind_before(),
        _ => here.span(here.miss.at),
    };
    let shaped = (here.start..here.miss.at)
        .any(|index| here.kind(index) == Tok::Name && matches!(here.word(index), "threads" | "grid" | "block"));
    Some(match shaped {
        true => Diagnostic::error("E0134", "the kernel's body is missing").at(span, "expected `{`"),
        false => Diagnostic::error("E0125", "a kernel says how many threads it runs")
            .at(span, "its shape should stand here")
            .help("`threads(i: N)` runs the body once for every `i` from 0 to N - 1")
            .help("`grid(blocks) block(threads)` is the CUDA way, with barriers and shared memory"),
    })
}

/// Reports a missing `{`: conditions with `=`, Python's colons, C's bodies without braces.
fn body(here: &Here<'_>) -> Option<Diagnostic> {
    if !here.miss.expected(Tok::LBrace) {
        return None;
    }
    let span = here.span(here.miss.at);
    match here.found() {
        Tok::Assign => {
            let error =
                Diagnostic::error("E0123", "`=` in a condition").at(span, "this would assign").help("`==` compares");
            Some(sure(error, "write `==`", span, "=="))
        }
        Tok::Colon => {
            let error = Diagnostic::error("E0134", "a body stands in braces")
                .at(span, "expected `{`")
                .help("write `{ … }`; indentation has no meaning in Clk");
            Some(in_braces(here, error))
        }
        Tok::LBracket | Tok::LParen | Tok::Dot => None,
        found => {
            let span = if matches!(found, Tok::Newline | Tok::Eof) { here.behind_before() } else { span };
            Some(
                Diagnostic::error("E0134", "a body stands in braces")
                    .at(span, "expected `{`")
                    .because(here.span(here.start), "the body of this")
                    .help("write `{ … }`, also around a single statement"),
            )
        }
    }
}

/// Adds a fix that puts braces around the rest of the line after a Python colon.
fn in_braces(here: &Here<'_>, error: Diagnostic) -> Diagnostic {
    let last = here.end.saturating_sub(1);
    if last <= here.miss.at {
        return error;
    }
    let edits = vec![(here.span(here.miss.at), " {".to_owned()), (here.span(last).after(), " }".to_owned())];
    error.fix_all("put braces around it", edits, Applicability::MaybeIncorrect)
}

/// Reports `inout: [f32; N]`, where the access keyword is used as the parameter's name.
fn access_as_name(here: &Here<'_>) -> Option<Diagnostic> {
    let named = here.found() == Tok::Colon && here.miss.expected_label(Label::Name);
    if !named || !matches!(here.before(), Tok::Out | Tok::InOut) {
        return None;
    }
    let word = here.word(here.miss.at - 1);
    let span = here.span(here.miss.at - 1);
    let error = Diagnostic::error("E0137", format!("`{word}` is a keyword"))
        .at(span.after(), "the parameter's name is missing")
        .help(format!("`{word}` says what the kernel does with a parameter: `{word} y: [f32; N]`"));
    Some(maybe(error, format!("write `{word} y`"), span, format!("{word} y")))
}

fn keyword_as_name(here: &Here<'_>) -> Option<Diagnostic> {
    let wanted = here.miss.expected_label(Label::Name) || here.miss.expected_label(Label::Pattern);
    if !wanted || !here.found().is_keyword() {
        return None;
    }
    let word = here.word(here.miss.at);
    let span = here.span(here.miss.at);
    let error = Diagnostic::error("E0137", format!("`{word}` is a keyword"))
        .at(span, "a name is expected here")
        .help("choose another name");
    Some(maybe(error, format!("write `{word}_`"), span, format!("{word}_")))
}

/// Reports `let x =` and operators without a right operand.
fn value(here: &Here<'_>) -> Option<Diagnostic> {
    if !here.miss.expected_label(Label::Expression) || here.miss.at == here.start {
        return None;
    }
    let before = here.miss.at - 1;
    let text = here.word(before);
    let ended = matches!(
        here.found(),
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
    let waits = here.before().continues_line() || matches!(here.before(), Tok::Minus | Tok::Bang);
    let bracket = matches!(here.before(), Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::Comma | Tok::Dot);
    if !ended || !waits || bracket {
        return None;
    }
    let title = match here.before() {
        Tok::Assign => "the value is missing".to_owned(),
        _ => format!("`{text}` needs a value on its right"),
    };
    Some(
        Diagnostic::error("E0126", title)
            .at(here.span(before).after(), "an expression should follow")
            .because(here.span(before), format!("after this `{text}`")),
    )
}

/// Reports a missing comma between two expressions or parameters in brackets.
fn comma(here: &Here<'_>) -> Option<Diagnostic> {
    let open = here.bracket()?;
    let found = here.found();
    let starts = found.starts_expression() || matches!(found, Tok::Out | Tok::InOut | Tok::Const);
    if !here.miss.expected(Tok::Comma) || !starts || matches!(found, Tok::LBrace | Tok::Minus) {
        return None;
    }
    let place = here.behind_before();
    let error = Diagnostic::error("E0127", "a comma is missing")
        .at(place, "expected `,`")
        .because(here.span(open), "between the parts of this");
    // Two adjacent names may lack an operator, or be words of another language.
    let literal =
        |kind: Tok| matches!(kind, Tok::Int | Tok::Float | Tok::True | Tok::False | Tok::StrStart | Tok::StrEnd);
    let touching = here.adjacent(here.miss.at - 1, here.miss.at);
    let between = here.token(here.miss.at - 1).end as usize..here.token(here.miss.at).start as usize;
    let next_line = here.text.get(between).is_some_and(|between| between.contains('\n'));
    let parameter = matches!(found, Tok::Out | Tok::InOut | Tok::Const);
    let certain = next_line || parameter || !touching && (literal(found) || literal(here.before()));
    Some(match certain {
        true => sure(error, "insert `,`", place, ","),
        false => maybe(error, "insert `,`", place, ","),
    })
}

/// Reports tokens after the end of a statement.
fn end(here: &Here<'_>) -> Option<Diagnostic> {
    if !here.miss.expected_label(Label::End) || here.bracket().is_some_and(|open| here.kind(open) != Tok::LBrace) {
        return None;
    }
    let at = here.miss.at;
    let span = here.span(at);
    let error = |title: &str| Diagnostic::error("E0131", title);
    if here.found() == Tok::Assign {
        return Some(
            error("an assignment has no value")
                .at(span, "a second `=`")
                .help("assign one variable a statement: `b = c; a = b`"),
        );
    }
    if let Some(found) = cast(here) {
        return Some(found);
    }
    let new = here.found().starts_expression() || here.found().is_keyword();
    new.then(|| {
        let found = error("two statements stand side by side")
            .at(span, "a second statement begins here")
            .because(here.behind_before(), "the first could end here")
            .help("put them on two lines, or a `;` between them; a call has its arguments in `( )`");
        maybe(found, "insert `;`", here.behind_before(), ";")
    })
}

/// Reports `(float)n`.
fn cast(here: &Here<'_>) -> Option<Diagnostic> {
    let at = here.miss.at;
    let is_cast = at >= here.start + 3
        && (here.kind(at - 3), here.kind(at - 2), here.kind(at - 1)) == (Tok::LParen, Tok::Name, Tok::RParen);
    let ty = c_type(here.word(at.checked_sub(2)?)).filter(|ty| is_cast && !ty.is_empty())?;
    let error = Diagnostic::error("E0131", format!("a conversion is written `{ty}(…)`"))
        .at(here.spans(at - 3, at - 1), "a cast as C has it");
    let simple = matches!(here.found(), Tok::Name | Tok::Int | Tok::Float)
        && !matches!(here.kind(at + 1), Tok::LParen | Tok::LBracket | Tok::Dot);
    Some(match simple {
        true => {
            let text = format!("{ty}({})", here.word(at));
            sure(error, format!("write `{text}`"), here.spans(at - 3, at), text)
        }
        false => error.help(format!("write the type like a function: `{ty}(x + 1)`")),
    })
}
