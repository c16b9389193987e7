//! Recognizes statements of other languages by their first tokens.

use super::c_head;
use super::context::{MistakeContext, c_type, certain_fix, joined_type, possible_fix};
use crate::token::Tok;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;

pub(crate) fn explain(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    match cx.kind(cx.start) {
        Tok::Name => explain_name(cx),
        Tok::At if cx.unexpected.at == cx.start => Some(
            Diagnostic::error("E0117", "there are no decorators in Clk")
                .at(cx.span(cx.start), "a decorator of Python")
                .help("code that runs on many threads begins with `kernel`: `kernel name(x: [f32; N], out r: [f32; N]) threads(i: N) { … }`"),
        ),
        Tok::For if cx.kind(cx.start + 1) == Tok::LParen => Some(c_for(cx)),
        Tok::Let | Tok::Var => binding(cx),
        Tok::Const if c_type(cx.word(cx.start + 1)).is_some() && cx.kind(cx.start + 2) == Tok::Name => {
            c_declaration(cx, cx.start, cx.start + 1)
        }
        Tok::Import => import(cx),
        Tok::Shared => shared(cx),
        Tok::Else => Some(
            Diagnostic::error("E0136", "`else` without an `if`")
                .at(cx.span(cx.start), "no `if` ends just before this")
                .help("`else` follows the `}` of its `if`"),
        ),
        Tok::Kernel if cx.kind(cx.start + 1) == Tok::Name && cx.kind(cx.start + 2) == Tok::Name => {
            let span = cx.span(cx.start + 1);
            let error = Diagnostic::error("E0114", "a kernel has no result type")
                .at(span, "remove this")
                .note("a kernel writes its results to its `out` arrays");
            Some(certain_fix(error, "remove it", span.to(cx.span(cx.start + 2)), cx.word(cx.start + 2)))
        }
        Tok::Kernel | Tok::Fn | Tok::Struct | Tok::Const | Tok::Test | Tok::Bench if cx.unexpected.at == cx.start => {
            Some(nested_item(cx))
        }
        _ => None,
    }
}

fn explain_name(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let start = cx.start;
    let word = cx.word(start);
    let next = cx.kind(start + 1);
    let span = cx.span(start);
    match word {
        "__global__" | "__device__" | "__host__" | "__forceinline__" | "extern" | "static" | "inline" | "template" => {
            Some(qualifier(cx, word))
        }
        "__shared__" | "__constant__" | "__managed__" => Some(c_shared(cx, word)),
        "def" | "func" | "function" | "fun" | "proc" if next == Tok::Name => {
            let error = Diagnostic::error("E0117", "a function begins with `fn`")
                .at(span, format!("`{word}` is not a keyword of Clk"))
                .help("`fn name(x: f32) -> f32 { … }`; code that runs on many threads is a `kernel`");
            Some(certain_fix(error, "write `fn`", span, "fn"))
        }
        "elif" | "elseif" | "elsif" | "elsef" => {
            let error =
                Diagnostic::error("E0122", format!("`{word}` is written `else if`")).at(span, "not a keyword of Clk");
            Some(certain_fix(error, "write `else if`", span, "else if"))
        }
        "from" | "use" | "using" | "require" | "include" if next == Tok::Name || next == Tok::StrStart => Some(
            Diagnostic::error("E0129", "modules are loaded with `import`")
                .at(span, format!("`{word}` is not a keyword of Clk"))
                .help(
                    "`import std.nn`, `import std.nn.{relu, softmax}`, or a file: `import \"./shapes.clk\" as shapes`",
                ),
        ),
        "switch" | "match" | "case" | "do" | "try" | "class" | "goto" | "throw" | "raise" | "typedef" | "enum"
        | "trait" | "impl" | "namespace" | "with" | "async" | "lambda" | "del" | "global"
            if cx.unexpected.at > start =>
        {
            Some(foreign_word(word, span))
        }
        "print" | "assert" | "printf" if matches!(next, Tok::StrStart | Tok::Name | Tok::Int | Tok::Float) => {
            let mut end = cx.end;
            while end > start + 2 && matches!(cx.kind(end - 1), Tok::Newline | Tok::Semi) {
                end -= 1;
            }
            let inside = cx.slice(cx.spans(start + 1, end - 1));
            let error = Diagnostic::error("E0131", format!("`{word}` is called with parentheses"))
                .at(cx.span(start + 1), "the arguments go in `( )`");
            Some(possible_fix(error, "add parentheses", cx.spans(start, end - 1), format!("{word}({inside})")))
        }
        "dim3" if next == Tok::Name => Some(
            Diagnostic::error("E0116", "launch extents have no type of their own")
                .at(span, "a type of CUDA")
                .help("a launch has them, `k<<<(16, 8), 256>>>(…)`, or the head, `grid(…) block(…)`"),
        ),
        _ if cx.unexpected.at == start + 1 && next == Tok::Colon => Some(bare_declaration(cx)),
        _ if cx.unexpected.at > start && c_type(word).is_some() => c_declaration(cx, start, start),
        _ => None,
    }
}

fn qualifier(cx: &MistakeContext<'_>, word: &str) -> Diagnostic {
    let span = cx.span(cx.start);
    let error = Diagnostic::error("E0114", format!("`{word}` is CUDA C++"));
    match word {
        "__global__" => {
            let error = error.at(span, "a kernel begins with `kernel` in Clk");
            if let Some((last, head)) = kernel_head(cx) {
                let error = error.help("an array that the kernel only writes is `out`, not `inout`");
                return possible_fix(error, format!("write `{head}`"), cx.spans(cx.start, last), head);
            }
            let error = error.help("`kernel name(x: [f32; N], out r: [f32; N]) threads(i: N) { … }`");
            let void = cx.word(cx.start + 1) == "void";
            let last = if void { cx.start + 1 } else { cx.start };
            possible_fix(error, "write `kernel`", cx.spans(cx.start, last), "kernel")
        }
        "template" => error
            .at(span, "there are no template headers")
            .help("parameters follow the name: `kernel f<const T: i32 = 16>(…)`, `fn g<T: Float>(x: T) -> T`"),
        _ if let Some((last, head)) = function_head(cx, cx.start) => possible_fix(
            error.at(span, "a function begins with `fn`"),
            format!("write `{head}`"),
            cx.spans(cx.start, last),
            head,
        ),
        _ => error
            .at(span, "remove this")
            .help("a `fn` can be called from kernels and from the host alike: `fn name(x: f32) -> f32 { … }`"),
    }
}

/// Translates `__global__ void name(…)`. Returns the last token of this head and the head of the Clk kernel.
fn kernel_head(cx: &MistakeContext<'_>) -> Option<(usize, String)> {
    let name = (cx.start + 1..cx.start + 4).find(|&index| cx.kind(index + 1) == Tok::LParen)?;
    let params = c_head::parameters(cx, name + 1, true).filter(|_| cx.kind(name) == Tok::Name)?;
    let launch = match (cx.kind(params.close + 1), params.has_array) {
        (Tok::LBrace | Tok::Eof, true) => " grid(ceil_div(N, 256)) block(256)",
        (Tok::LBrace | Tok::Eof, false) => " grid(1) block(256)",
        // The text has its own launch clause.
        _ => "",
    };
    Some((params.close, format!("kernel {}({}){launch}", cx.word(name), params.text)))
}

/// Translates `float name(…)` with any qualifiers before it. Returns the last token of this head and the head of the
/// Clk function.
fn function_head(cx: &MistakeContext<'_>, first: usize) -> Option<(usize, String)> {
    let name = (first + 1..first + 6).find(|&index| cx.kind(index + 1) == Tok::LParen)?;
    let ty = c_type(cx.word(name - 1)).filter(|_| cx.kind(name) == Tok::Name)?;
    let params = c_head::parameters(cx, name + 1, false)?;
    let result = if ty.is_empty() { String::new() } else { format!(" -> {ty}") };
    Some((params.close, format!("fn {}({}){result}", cx.word(name), params.text)))
}

/// Reports `__shared__ float s[256];` and other CUDA qualifiers.
fn c_shared(cx: &MistakeContext<'_>, word: &str) -> Diagnostic {
    let span = cx.span(cx.start);
    if word != "__shared__" {
        return Diagnostic::error("E0115", format!("`{word}` is CUDA C++"))
            .at(span, "not a word of Clk")
            .help("pass the values to the kernel; small uniform ones are cached by the GPU anyway");
    }
    let error = Diagnostic::error("E0115", "shared memory is declared with `shared`")
        .at(span, "the CUDA C++ spelling")
        .help("`shared tile: [f32; 256]` declares it; more axes are more numbers: `[f32; 16, 17]`");
    match declaration(cx, cx.start + 1) {
        Some(d) if !d.ty.is_empty() => {
            let text = format!("shared {}: {}", d.name, d.full_type());
            possible_fix(error, format!("write `{text}`"), cx.spans(cx.start, d.last), text)
        }
        _ => error,
    }
}

/// Reports `shared float s[64]` and `shared s = zeros(64)`.
fn shared(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let error = Diagnostic::error("E0115", "shared memory is declared with its type: `shared tile: [f32; 256]`");
    if let Some(d) = declaration(cx, cx.start + 1).filter(|d| !d.ty.is_empty()) {
        let text = format!("shared {}: {}", d.name, d.full_type());
        let error = error.at(cx.spans(cx.start + 1, d.last), "the C way");
        return Some(possible_fix(error, format!("write `{text}`"), cx.spans(cx.start, d.last), text));
    }
    if cx.unexpected.at != cx.start + 2 || cx.kind(cx.start + 2) != Tok::Assign {
        return None;
    }
    let error = error
        .at(cx.span(cx.start + 2), "shared memory has no value at the start")
        .help("assign to its elements, and separate writes from reads of other threads by `barrier()`");
    let is_array = matches!(cx.word(cx.start + 3), "zeros" | "ones" | "full") && cx.kind(cx.start + 4) == Tok::LParen;
    let extent = matches!(cx.kind(cx.start + 5), Tok::Int | Tok::Name)
        && matches!(cx.kind(cx.start + 6), Tok::RParen | Tok::Comma);
    let close = cx.find(cx.start + 4, Tok::RParen).filter(|_| is_array && extent)?;
    let text = format!("shared {}: [f32; {}]", cx.word(cx.start + 1), cx.word(cx.start + 5));
    Some(possible_fix(error, format!("write `{text}`"), cx.spans(cx.start, close), text))
}

/// A C declaration: `float x`, `float x[4][4]`.
struct CDeclaration<'t> {
    ty: &'static str,
    name: &'t str,
    dims: Vec<&'t str>,
    /// Index of the last token.
    last: usize,
}

impl CDeclaration<'_> {
    fn full_type(&self) -> String {
        match self.dims.is_empty() {
            true => self.ty.to_owned(),
            false => format!("[{}; {}]", self.ty, self.dims.join(", ")),
        }
    }
}

fn declaration<'t>(cx: &MistakeContext<'t>, first: usize) -> Option<CDeclaration<'t>> {
    let mut ty = c_type(cx.word(first))?;
    let mut at = first + 1;
    while cx.kind(at) == Tok::Name && cx.kind(at + 1) == Tok::Name {
        // `unsigned int x`, `long long x`.
        ty = joined_type(ty, c_type(cx.word(at))?);
        at += 1;
    }
    if cx.kind(at) != Tok::Name {
        return None;
    }
    let name = cx.word(at);
    let (mut dims, mut last) = (Vec::new(), at);
    while cx.kind(last + 1) == Tok::LBracket {
        let close = cx.find(last + 1, Tok::RBracket)?;
        if close < last + 3 {
            return None;
        }
        dims.push(cx.slice(cx.spans(last + 2, close - 1)));
        last = close;
    }
    Some(CDeclaration { ty, name, dims, last })
}

/// Reports `float x = 1;`, `const int n = 3;`, `int f(…) { … }`.
fn c_declaration(cx: &MistakeContext<'_>, start: usize, first: usize) -> Option<Diagnostic> {
    if cx.kind(first + 1) == Tok::Star {
        return Some(
            Diagnostic::error("E0116", "there are no pointers in Clk")
                .at(cx.spans(first, first + 1), "a C declaration")
                .help("memory is an array with its size: `x: [f32; N]`"),
        );
    }
    let d = declaration(cx, first)?;
    if cx.kind(d.last + 1) == Tok::LParen {
        let error = Diagnostic::error("E0117", "a function begins with `fn`").at(cx.spans(start, first), "the C way");
        if let Some((last, head)) = function_head(cx, first) {
            return Some(possible_fix(error, format!("write `{head}`"), cx.spans(start, last), head));
        }
        let error = error.help(format!("`fn {}(x: f32) -> f32 {{ … }}`: each type follows its name", d.name));
        return Some(error);
    }
    let assigned = cx.kind(d.last + 1) == Tok::Assign;
    let word = if assigned && d.dims.is_empty() && start == first { "let" } else { "var" };
    let word = if start != first { "const" } else { word };
    let text = match d.ty {
        "" => format!("{word} {}", d.name),
        _ => format!("{word} {}: {}", d.name, d.full_type()),
    };
    let error = Diagnostic::error("E0116", "a variable begins with `let` or `var`, and its type follows its name")
        .at(cx.spans(start, first), "the C way")
        .help("`let x = 1.0` never changes, `var x = 1.0` may; the type can be left off");
    Some(possible_fix(error, format!("write `{text}`"), cx.spans(start, d.last), text))
}

/// Reports `x: f32 = 1` and `x := 1`.
fn bare_declaration(cx: &MistakeContext<'_>) -> Diagnostic {
    let (start, name) = (cx.start, cx.word(cx.start));
    if cx.start > 1 && cx.kind(start - 1) == Tok::LBrace && cx.kind(start - 2) == Tok::Name {
        return Diagnostic::error("E0132", "a struct value needs parentheses here")
            .at(cx.spans(start - 2, start - 1), "this `{` was read as the start of the body")
            .help(format!("write `({} {{ {name}: … }})`", cx.word(start - 2)));
    }
    // A block is preceded by a keyword, a condition or a head; a value in braces is a dictionary of Python.
    let is_value = |kind| matches!(kind, Tok::Assign | Tok::LParen | Tok::Comma | Tok::Return);
    if cx.start > 1 && cx.kind(start - 1) == Tok::LBrace && is_value(cx.kind(start - 2)) {
        return super::unexpected_token::no_dictionaries(cx, start - 1);
    }
    let error = Diagnostic::error("E0116", "a new variable begins with `let` or `var`")
        .at(cx.span(start), "a new name without `let`");
    if cx.kind(start + 2) == Tok::Assign && cx.adjacent(start + 1, start + 2) {
        return certain_fix(error, "write `let`", cx.spans(start, start + 2), format!("let {name} ="));
    }
    certain_fix(error, "write `let`", cx.span(start), format!("let {name}"))
}

/// Reports `for (int i = 0; i < n; i++)`.
fn c_for(cx: &MistakeContext<'_>) -> Diagnostic {
    let open = cx.start + 1;
    let error =
        Diagnostic::error("E0118", "a `for` loops over a range").at(cx.spans(cx.start, open), "the C way").help(
            "`for i in 0..n { … }` counts from 0 to n - 1; `0..n step 2` in larger steps; anything else is a `while`",
        );
    let fixed = || {
        let close = cx.find(open, Tok::RParen).filter(|&c| cx.kind(c + 1) == Tok::LBrace)?;
        let at = if cx.kind(open + 2) == Tok::Name { open + 2 } else { open + 1 };
        let name = cx.word(at);
        let first = cx.find(open, Tok::Semi)?;
        let second = cx.find(first + 1, Tok::Semi)?;
        let simple = cx.kind(at + 1) == Tok::Assign
            && first > at + 2
            && cx.word(first + 1) == name
            && matches!(cx.kind(first + 2), Tok::Lt | Tok::Le)
            && second > first + 3;
        if !simple {
            return None;
        }
        let from = cx.slice(cx.spans(at + 2, first - 1));
        let to = cx.slice(cx.spans(first + 3, second - 1));
        let dots = if cx.kind(first + 2) == Tok::Le { "..=" } else { ".." };
        let step = match cx.kind(second + 2) {
            Tok::PlusPlus => String::new(),
            Tok::PlusAssign if close > second + 3 => {
                format!(" step {}", cx.slice(cx.spans(second + 3, close - 1)))
            }
            _ if cx.kind(second + 1) == Tok::PlusPlus => String::new(),
            _ => return None,
        };
        Some((cx.spans(cx.start, close), format!("for {name} in {from}{dots}{to}{step}")))
    };
    match fixed() {
        Some((span, text)) => possible_fix(error, format!("write `{text}`"), span, text),
        None => error,
    }
}

/// Reports `let mut x`, and `let x` or `let x =` without a value.
fn binding(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let (start, at) = (cx.start, cx.unexpected.at);
    if cx.word(start + 1) == "mut" && cx.kind(start + 2) == Tok::Name {
        let error = Diagnostic::error("E0139", "a variable that changes begins with `var`")
            .at(cx.span(start + 1), "`mut` is not a keyword of Clk");
        return Some(certain_fix(error, "write `var`", cx.spans(start, start + 1), "var"));
    }
    if c_type(cx.word(start + 1)).is_some_and(|ty| !ty.is_empty()) && cx.kind(start + 2) == Tok::Name && at == start + 2
    {
        let (ty, name) = (c_type(cx.word(start + 1)).unwrap_or(""), cx.word(start + 2));
        let error = Diagnostic::error("E0116", "a type follows its name")
            .at(cx.span(start + 1), "the type comes before the name");
        let text = format!("{name}: {ty}");
        return Some(certain_fix(error, format!("write `{text}`"), cx.spans(start + 1, start + 2), text));
    }
    let no_value = matches!(cx.found_token(), Tok::Newline | Tok::Eof | Tok::Semi | Tok::RBrace);
    if no_value && cx.unexpected.expected(Tok::Assign) && at > start + 1 {
        let word = cx.word(start);
        return Some(
            Diagnostic::error("E0126", format!("`{word}` needs a value"))
                .at(cx.span_after_previous(), "`= value` should follow")
                .because(cx.span(start + 1), "this name has no value")
                .help("a variable that gets its value later names its type: `var x: f32`"),
        );
    }
    None
}

/// Reports `import foo from bar`, `import * from x`, `import a, b`.
fn import(cx: &MistakeContext<'_>) -> Option<Diagnostic> {
    let has_from = (cx.start..cx.end).any(|index| cx.kind(index) == Tok::Name && cx.word(index) == "from");
    let is_foreign = matches!(cx.found_token(), Tok::Comma | Tok::Star | Tok::ColonColon | Tok::LBrace | Tok::Slash);
    (has_from || is_foreign).then(|| {
        Diagnostic::error("E0129", "this is not how modules are imported")
            .at(cx.span(cx.unexpected.at), "not expected here")
            .help("`import std.nn`, `import std.nn.{relu, softmax}`, or a file: `import \"./shapes.clk\" as shapes`")
    })
}

/// Reports a keyword of another language.
pub(super) fn foreign_word(word: &str, span: Span) -> Diagnostic {
    let error = Diagnostic::error("E0138", format!("there is no `{word}` in Clk")).at(span, "not a keyword of Clk");
    match word {
        "switch" | "match" | "case" => error.help("use `if … { } else if … { } else { }`; it is also an expression"),
        "do" => error.help("use `loop { … if done { break } }`"),
        "try" | "throw" | "raise" => {
            error.help("there are no exceptions; state what must hold with `assert(condition, \"message\")`")
        }
        "class" | "impl" | "trait" | "enum" | "typedef" => {
            error.help("data is a `struct`, and the code that works on it is a `fn`")
        }
        "lambda" => error.help("name the function with `fn` and pass its name"),
        "new" => {
            error.help("a struct is made by its name: `Particle { mass: 1.0 }`; an array by `zeros(n)` and its kin")
        }
        _ => error,
    }
}

/// Reports an item inside a block.
fn nested_item(cx: &MistakeContext<'_>) -> Diagnostic {
    let word = cx.word(cx.start);
    let error = Diagnostic::error("E0133", format!("`{word}` is not allowed inside a block"))
        .at(cx.span(cx.start), "only allowed at the top level of a file");
    match cx.kind(cx.start) {
        Tok::Const => certain_fix(
            error.help("a value that does not change is a `let` here"),
            "write `let`",
            cx.span(cx.start),
            "let",
        ),
        _ => error.help("move it out of the block; or is a `}` missing above?"),
    }
}
