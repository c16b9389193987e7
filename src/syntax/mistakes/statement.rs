//! Recognizes statements of other languages by their first tokens.

use super::here::{Here, c_type, maybe, sure};
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::syntax::token::Tok;

pub(crate) fn explain(here: &Here<'_>) -> Option<Diagnostic> {
    match here.kind(here.start) {
        Tok::Name => named(here),
        Tok::At if here.miss.at == here.start => Some(
            Diagnostic::error("E0117", "there are no decorators in Clk")
                .at(here.span(here.start), "a decorator of Python")
                .help("what runs on many threads begins with `kernel`: `kernel name(x: [f32; N], out r: [f32; N]) threads(i: N) { … }`"),
        ),
        Tok::For if here.kind(here.start + 1) == Tok::LParen => Some(c_for(here)),
        Tok::Let | Tok::Var => binding(here),
        Tok::Const if c_type(here.word(here.start + 1)).is_some() && here.kind(here.start + 2) == Tok::Name => {
            c_declaration(here, here.start, here.start + 1)
        }
        Tok::Import => import(here),
        Tok::Else => Some(
            Diagnostic::error("E0136", "`else` without an `if`")
                .at(here.span(here.start), "no `if` ends just before this")
                .help("`else` follows the `}` of its `if`"),
        ),
        Tok::Kernel if here.kind(here.start + 1) == Tok::Name && here.kind(here.start + 2) == Tok::Name => {
            let span = here.span(here.start + 1);
            let error = Diagnostic::error("E0114", "a kernel has no result type")
                .at(span, "remove this")
                .note("what a kernel computes it writes to its `out` arrays");
            Some(sure(error, "remove it", span.to(here.span(here.start + 2)), here.word(here.start + 2)))
        }
        Tok::Kernel | Tok::Fn | Tok::Struct | Tok::Const | Tok::Test | Tok::Bench if here.miss.at == here.start => {
            Some(nested_item(here))
        }
        _ => None,
    }
}

fn named(here: &Here<'_>) -> Option<Diagnostic> {
    let start = here.start;
    let word = here.word(start);
    let next = here.kind(start + 1);
    let span = here.span(start);
    match word {
        "__global__" | "__device__" | "__host__" | "__forceinline__" | "extern" | "static" | "inline" | "template" => {
            Some(qualifier(here, word))
        }
        "__shared__" | "__constant__" | "__managed__" => Some(c_shared(here, word)),
        "def" | "func" | "function" | "fun" | "proc" if next == Tok::Name => {
            let error = Diagnostic::error("E0117", "a function begins with `fn`")
                .at(span, format!("`{word}` is not a keyword of Clk"))
                .help("`fn name(x: f32) -> f32 { … }`; what runs on many threads is a `kernel`");
            Some(sure(error, "write `fn`", span, "fn"))
        }
        "elif" | "elseif" | "elsif" | "elsef" => {
            let error =
                Diagnostic::error("E0122", format!("`{word}` is written `else if`")).at(span, "not a keyword of Clk");
            Some(sure(error, "write `else if`", span, "else if"))
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
            if here.miss.at > start =>
        {
            Some(foreign_word(word, span))
        }
        "print" | "assert" | "printf" if matches!(next, Tok::StrStart | Tok::Name | Tok::Int | Tok::Float) => {
            let mut end = here.end;
            while end > start + 2 && matches!(here.kind(end - 1), Tok::Newline | Tok::Semi) {
                end -= 1;
            }
            let inside = here.slice(here.spans(start + 1, end - 1));
            let error = Diagnostic::error("E0131", format!("`{word}` is called with parentheses"))
                .at(here.span(start + 1), "the arguments stand in `( )`");
            Some(maybe(error, "add parentheses", here.spans(start, end - 1), format!("{word}({inside})")))
        }
        "dim3" if next == Tok::Name => Some(
            Diagnostic::error("E0116", "extents are no variables of a type of their own")
                .at(span, "a type of CUDA")
                .help("a launch has them, `k<<<(16, 8), 256>>>(…)`, or the head, `grid(…) block(…)`"),
        ),
        _ if here.miss.at == start + 1 && next == Tok::Colon => Some(bare_declaration(here)),
        _ if here.miss.at > start && c_type(word).is_some() => c_declaration(here, start, start),
        _ => None,
    }
}

fn qualifier(here: &Here<'_>, word: &str) -> Diagnostic {
    let span = here.span(here.start);
    let error = Diagnostic::error("E0114", format!("`{word}` is CUDA C++"));
    match word {
        "__global__" => {
            let error = error
                .at(span, "a kernel begins with `kernel` in Clk")
                .help("`kernel name(x: [f32; N], out r: [f32; N]) threads(i: N) { … }`");
            let void = here.word(here.start + 1) == "void";
            let last = if void { here.start + 1 } else { here.start };
            maybe(error, "write `kernel`", here.spans(here.start, last), "kernel")
        }
        "template" => error
            .at(span, "there are no template headers")
            .help("parameters follow the name: `kernel f<const T: i32 = 16>(…)`, `fn g<T: Float>(x: T) -> T`"),
        _ => error
            .at(span, "remove this")
            .help("a `fn` can be called from kernels and from the host alike: `fn name(x: f32) -> f32 { … }`"),
    }
}

/// Reports `__shared__ float s[256];` and other CUDA qualifiers.
fn c_shared(here: &Here<'_>, word: &str) -> Diagnostic {
    let span = here.span(here.start);
    if word != "__shared__" {
        return Diagnostic::error("E0115", format!("`{word}` is CUDA C++"))
            .at(span, "not a word of Clk")
            .help("pass the values to the kernel; small uniform ones are cached by the GPU anyway");
    }
    let error = Diagnostic::error("E0115", "shared memory is declared with `shared`")
        .at(span, "the CUDA C++ spelling")
        .help("`shared tile: [f32; 256]` declares it; more axes are more numbers: `[f32; 16, 17]`");
    match declaration(here, here.start + 1) {
        Some(d) if !d.ty.is_empty() => {
            let text = format!("shared {}: {}", d.name, d.full_type());
            maybe(error, format!("write `{text}`"), here.spans(here.start, d.last), text)
        }
        _ => error,
    }
}

/// A C declaration: `float x`, `float x[4][4]`.
struct Declaration<'t> {
    ty: &'static str,
    name: &'t str,
    dims: Vec<&'t str>,
    /// Index of the last token.
    last: usize,
}

impl Declaration<'_> {
    fn full_type(&self) -> String {
        match self.dims.is_empty() {
            true => self.ty.to_owned(),
            false => format!("[{}; {}]", self.ty, self.dims.join(", ")),
        }
    }
}

fn declaration<'t>(here: &Here<'t>, first: usize) -> Option<Declaration<'t>> {
    let mut ty = c_type(here.word(first))?;
    let mut at = first + 1;
    while here.kind(at) == Tok::Name && here.kind(at + 1) == Tok::Name {
        // `unsigned int x`, `long long x`.
        ty = match (ty, c_type(here.word(at))?) {
            ("u32", "i64") => "u64",
            ("u32", "i8") => "u8",
            ("u32", "i16") => "u16",
            (ty, _) => ty,
        };
        at += 1;
    }
    if here.kind(at) != Tok::Name {
        return None;
    }
    let name = here.word(at);
    let (mut dims, mut last) = (Vec::new(), at);
    while here.kind(last + 1) == Tok::LBracket {
        let close = here.find(last + 1, Tok::RBracket)?;
        if close < last + 3 {
            return None;
        }
        dims.push(here.slice(here.spans(last + 2, close - 1)));
        last = close;
    }
    Some(Declaration { ty, name, dims, last })
}

/// Reports `float x = 1;`, `const int n = 3;`, `int f(…) { … }`.
fn c_declaration(here: &Here<'_>, start: usize, first: usize) -> Option<Diagnostic> {
    if here.kind(first + 1) == Tok::Star {
        return Some(
            Diagnostic::error("E0116", "there are no pointers in Clk")
                .at(here.spans(first, first + 1), "a C declaration")
                .help("memory is an array with its size: `x: [f32; N]`"),
        );
    }
    let d = declaration(here, first)?;
    if here.kind(d.last + 1) == Tok::LParen {
        let error = Diagnostic::error("E0117", "a function begins with `fn`")
            .at(here.spans(start, first), "the C way")
            .help(format!("`fn {}(x: f32) -> f32 {{ … }}`: each type follows its name", d.name));
        return Some(error);
    }
    let assigned = here.kind(d.last + 1) == Tok::Assign;
    let word = if assigned && d.dims.is_empty() && start == first { "let" } else { "var" };
    let word = if start != first { "const" } else { word };
    let text = match d.ty {
        "" => format!("{word} {}", d.name),
        _ => format!("{word} {}: {}", d.name, d.full_type()),
    };
    let error = Diagnostic::error("E0116", "a variable begins with `let` or `var`, and its type follows its name")
        .at(here.spans(start, first), "the C way")
        .help("`let x = 1.0` never changes, `var x = 1.0` may; the type can be left off");
    Some(maybe(error, format!("write `{text}`"), here.spans(start, d.last), text))
}

/// Reports `x: f32 = 1` and `x := 1`.
fn bare_declaration(here: &Here<'_>) -> Diagnostic {
    let (start, name) = (here.start, here.word(here.start));
    if here.start > 1 && here.kind(start - 1) == Tok::LBrace && here.kind(start - 2) == Tok::Name {
        return Diagnostic::error("E0132", "a struct value needs parentheses here")
            .at(here.spans(start - 2, start - 1), "this `{` was read as the start of the body")
            .help(format!("write `({} {{ {name}: … }})`", here.word(start - 2)));
    }
    let error = Diagnostic::error("E0116", "a new variable begins with `let` or `var`")
        .at(here.span(start), "a new name without `let`");
    if here.kind(start + 2) == Tok::Assign && here.adjacent(start + 1, start + 2) {
        return sure(error, "write `let`", here.spans(start, start + 2), format!("let {name} ="));
    }
    sure(error, "write `let`", here.span(start), format!("let {name}"))
}

/// Reports `for (int i = 0; i < n; i++)`.
fn c_for(here: &Here<'_>) -> Diagnostic {
    let open = here.start + 1;
    let close = here.find(open, Tok::RParen).filter(|&close| here.kind(close + 1) == Tok::In);
    if let Some(close) = close {
        return Diagnostic::error("E0118", "a `for` has one variable")
            .at(here.spans(open, close), "several in parentheses")
            .help("count through the positions, and take the elements: `for i in 0..len(x) { let v = x[i] … }`");
    }
    let error =
        Diagnostic::error("E0118", "a `for` goes over a range").at(here.spans(here.start, open), "the C way").help(
            "`for i in 0..n { … }` counts from 0 to n - 1; `0..n step 2` in larger steps; anything else is a `while`",
        );
    let fixed = || {
        let close = here.find(open, Tok::RParen).filter(|&c| here.kind(c + 1) == Tok::LBrace)?;
        let at = if here.kind(open + 2) == Tok::Name { open + 2 } else { open + 1 };
        let name = here.word(at);
        let first = here.find(open, Tok::Semi)?;
        let second = here.find(first + 1, Tok::Semi)?;
        let simple = here.kind(at + 1) == Tok::Assign
            && first > at + 2
            && here.word(first + 1) == name
            && matches!(here.kind(first + 2), Tok::Lt | Tok::Le)
            && second > first + 3;
        if !simple {
            return None;
        }
        let from = here.slice(here.spans(at + 2, first - 1));
        let to = here.slice(here.spans(first + 3, second - 1));
        let dots = if here.kind(first + 2) == Tok::Le { "..=" } else { ".." };
        let step = match here.kind(second + 2) {
            Tok::PlusPlus => String::new(),
            Tok::PlusAssign if close > second + 3 => {
                format!(" step {}", here.slice(here.spans(second + 3, close - 1)))
            }
            _ if here.kind(second + 1) == Tok::PlusPlus => String::new(),
            _ => return None,
        };
        Some((here.spans(here.start, close), format!("for {name} in {from}{dots}{to}{step}")))
    };
    match fixed() {
        Some((span, text)) => maybe(error, format!("write `{text}`"), span, text),
        None => error,
    }
}

/// Reports `let mut x`, and `let x` or `let x =` without a value.
fn binding(here: &Here<'_>) -> Option<Diagnostic> {
    let (start, at) = (here.start, here.miss.at);
    if here.word(start + 1) == "mut" && here.kind(start + 2) == Tok::Name {
        let error = Diagnostic::error("E0139", "a variable that changes begins with `var`")
            .at(here.span(start + 1), "`mut` is not a keyword of Clk");
        return Some(sure(error, "write `var`", here.spans(start, start + 1), "var"));
    }
    if c_type(here.word(start + 1)).is_some_and(|ty| !ty.is_empty())
        && here.kind(start + 2) == Tok::Name
        && at == start + 2
    {
        let (ty, name) = (c_type(here.word(start + 1)).unwrap_or(""), here.word(start + 2));
        let error = Diagnostic::error("E0116", "a type follows its name")
            .at(here.span(start + 1), "the type stands before the name");
        let text = format!("{name}: {ty}");
        return Some(sure(error, format!("write `{text}`"), here.spans(start + 1, start + 2), text));
    }
    let no_value = matches!(here.found(), Tok::Newline | Tok::Eof | Tok::Semi | Tok::RBrace);
    if no_value && here.miss.expected(Tok::Assign) && at > start + 1 {
        let word = here.word(start);
        return Some(
            Diagnostic::error("E0126", format!("`{word}` needs a value"))
                .at(here.behind_before(), "`= value` should follow")
                .because(here.span(start + 1), "this name has nothing to stand for")
                .help("a variable that gets its value later names its type: `var x: f32`"),
        );
    }
    None
}

/// Reports `import foo from bar`, `import * from x`, `import a, b`.
fn import(here: &Here<'_>) -> Option<Diagnostic> {
    let from = (here.start..here.end).any(|index| here.kind(index) == Tok::Name && here.word(index) == "from");
    let other = matches!(here.found(), Tok::Comma | Tok::Star | Tok::ColonColon | Tok::LBrace | Tok::Slash);
    (from || other).then(|| {
        Diagnostic::error("E0129", "this is not how modules are imported")
            .at(here.span(here.miss.at), "not expected here")
            .help("`import std.nn`, `import std.nn.{relu, softmax}`, or a file: `import \"./shapes.clk\" as shapes`")
    })
}

/// Reports a keyword of another language.
pub(super) fn foreign_word(word: &str, span: Span) -> Diagnostic {
    let error = Diagnostic::error("E0138", format!("there is no `{word}` in Clk")).at(span, "not a keyword of Clk");
    match word {
        "switch" | "match" | "case" => error.help("use `if … { } else if … { } else { }`; it is an expression, too"),
        "do" => error.help("use `loop { … if done { break } }`"),
        "try" | "throw" | "raise" => {
            error.help("there are no exceptions; state what must hold with `assert(condition, \"message\")`")
        }
        "class" | "impl" | "trait" | "enum" | "typedef" => {
            error.help("data is a `struct`, and what works on it is a `fn`")
        }
        "lambda" => error.help("name the function with `fn` and pass its name"),
        "new" => {
            error.help("a struct is made by its name: `Particle { mass: 1.0 }`; an array by `zeros(n)` and its kin")
        }
        _ => error,
    }
}

/// Reports an item inside a block.
fn nested_item(here: &Here<'_>) -> Diagnostic {
    let word = here.word(here.start);
    let error = Diagnostic::error("E0133", format!("`{word}` stands inside a block"))
        .at(here.span(here.start), "only at the top of a file");
    match here.kind(here.start) {
        Tok::Const => sure(
            error.help("a value that does not change is a `let` here"),
            "write `let`",
            here.span(here.start),
            "let",
        ),
        _ => error.help("move it out of the block; or is a `}` missing above?"),
    }
}
