//! The syntax tree, with spans and error nodes. It represents the source as written, before name resolution.

use clk_base::source::{FileId, Span};
use clk_scalar::ops::{BinaryOp, UnaryOp};
pub(crate) use smol_str::SmolStr;

/// An identifier and its span.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    pub text: SmolStr,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SourceFile {
    pub file: FileId,
    /// The module's documentation: `///` lines at the top of the file, before a blank line.
    pub doc: Option<String>,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub kind: ItemKind,
    pub span: Span,
    /// Documentation in Markdown: the `///` lines above the item, without the slashes.
    pub doc: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ItemKind {
    Const(Const),
    Struct(Struct),
    Fn(Fn),
    Kernel(Kernel),
    Import(Import),
    Test(SectionItem),
    Bench(SectionItem),
    /// A statement of the script.
    Stmt(Stmt),
    /// An item that failed to parse. A definition keeps its name, so that its uses cause no further errors.
    Error(Option<Name>),
}

/// A test, `test "name" { … }`, or a benchmark, `bench "name" bytes = …, flops = … { … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct SectionItem {
    pub title: SmolStr,
    pub title_span: Span,
    /// The rates of a `bench`: `bytes = expr`, `flops = expr`, `items = expr`. A `test` has none.
    pub rates: Vec<(Name, Expr)>,
    pub body: Block,
}

/// A constant: `const NAME: type = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Const {
    pub name: Name,
    pub ty: Option<Type>,
    pub value: Expr,
}

/// A struct definition: `struct Name { field: type, … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    pub name: Name,
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: Name,
    pub ty: Type,
    pub doc: Option<String>,
}

/// A generic parameter of `<T: Float, const N: i32 = 4, op: fn(T, T) -> T = add>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Generic {
    pub name: Name,
    pub kind: GenericKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum GenericKind {
    /// A type parameter: `T: Float`. The bound is a name, so that an unknown bound can be reported. `None` is the bound
    /// `Any`.
    Type { bound: Option<Name> },
    /// A constant parameter: `const N: i32 = 16`.
    Const { ty: Type, default: Option<Expr> },
    /// A function parameter: `op: fn(f32, f32) -> f32`.
    Fn { ty: Type, default: Option<Expr> },
}

/// A function: `fn name<generics>(params) -> result { body }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fn {
    pub name: Name,
    pub generics: Vec<Generic>,
    pub params: Vec<Param>,
    pub result: Option<Type>,
    pub body: Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The access of a parameter without a keyword: read-only.
    In,
    Out,
    InOut,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub access: Access,
    pub name: Name,
    pub ty: Type,
    /// The default for an omitted argument.
    pub default: Option<Expr>,
    pub span: Span,
}

/// A kernel: `kernel name<generics>(params) geometry contracts { body }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    pub name: Name,
    pub generics: Vec<Generic>,
    pub params: Vec<Param>,
    pub geometry: Geometry,
    pub assumes: Vec<Expr>,
    pub expects: Vec<Expr>,
    pub tunes: Vec<Tune>,
    pub body: Block,
}

/// `BM in [64, 128]` in a `tune` clause: the candidate values of a compile-time parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Tune {
    pub name: Name,
    pub values: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Geometry {
    /// The geometry `threads(row: M, col: N) block(16, 16)`. The last index varies fastest.
    Threads { indices: Vec<(Name, Expr)>, block: Option<Vec<Expr>>, span: Span },
    /// The geometry `grid(…) block(…)`, with the extents in x, y, z order.
    Grid { grid: Vec<Expr>, block: Vec<Expr>, span: Span },
    /// The geometry is missing, which the parser has reported.
    Missing(Span),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    pub source: ImportSource,
    pub span: Span,
    pub items: ImportItems,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ImportSource {
    /// A dotted path: `std.linalg`.
    Path(Vec<Name>),
    /// A file path: `"./shapes.clk"`.
    File { path: SmolStr, span: Span },
}

#[derive(Clone, Debug, PartialEq)]
pub enum ImportItems {
    /// Imports the module itself, under the last name of its path or under the alias after `as`.
    Module { alias: Option<Name> },
    /// Imports some names of the module: `.{a, b as c}`.
    Names(Vec<(Name, Option<Name>)>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    pub kind: TypeKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// A type name or a path of names: `f32`, `f32x4`, `Body`, `T`, `shapes.Circle`.
    Name(Vec<Name>),
    /// An array type, `[T; D0, D1]`. A dimension is an expression of constants and dimension names, or `_` (represented
    /// as the name `_`).
    Array {
        element: Box<Type>,
        dims: Vec<Expr>,
    },
    Tuple(Vec<Type>),
    Fn {
        params: Vec<Type>,
        result: Option<Box<Type>>,
    },
    /// An array type with the device that stores the array: `[f32; N] @gpu`.
    Placed {
        ty: Box<Type>,
        place: Name,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub stmts: Vec<Stmt>,
    /// The value of the block: its last statement, if that is an expression without a `;`.
    pub tail: Option<Box<Expr>>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// A declaration: `let pattern: type = value`, or `var …`. A `var` may omit its value (`var acc: [f32; 4]`,
    /// uninitialized until assigned).
    Let {
        mutable: bool,
        pattern: Pattern,
        ty: Option<Box<Type>>,
        value: Option<Expr>,
    },
    /// The declaration of a shared array or scalar: `shared name: type`.
    Shared {
        name: Name,
        ty: Box<Type>,
    },
    /// An assignment: `place = value`, `place += value`. In `(a, b) = value`, the place is a tuple of places.
    Assign {
        place: Box<Expr>,
        op: Option<(BinaryOp, Span)>,
        value: Expr,
    },
    /// An expression statement. `quiet` means that a `;` follows, so the REPL does not print the value.
    Expr {
        expr: Expr,
        quiet: bool,
    },
    For {
        pattern: Pattern,
        iter: Expr,
        body: Box<Block>,
        unroll: Unroll,
    },
    While {
        cond: Expr,
        body: Box<Block>,
        unroll: Unroll,
    },
    Loop {
        body: Block,
    },
    Break,
    Continue,
    Return(Option<Expr>),
    /// A block that launches on a device: `on gpu(0) { … }`.
    On {
        device: Expr,
        body: Block,
    },
    /// A batch of launches: `batch { … }`.
    Batch {
        body: Block,
    },
    Error,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unroll {
    #[default]
    Auto,
    /// `#unroll`.
    Full,
    /// `#unroll(4)`.
    By(u32),
    /// `#nounroll`.
    Never,
}

/// Strips parentheses from an expression.
pub fn bare(expr: &Expr) -> &Expr {
    let mut inner = expr;
    while let ExprKind::Paren(expr) = &inner.kind {
        inner = expr;
    }
    inner
}

#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    Name(Name),
    /// A tuple pattern, `(a, b, _)`. The `_` is represented as a name.
    Tuple(Vec<Pattern>, Span),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// An integer literal and its suffix. A value over `u64::MAX` becomes `u64::MAX`; the lexer has reported it.
    Int {
        value: u64,
        suffix: Option<Name>,
    },
    /// A float literal: its digits as written, without underscores and suffix.
    Float {
        text: SmolStr,
        suffix: Option<Name>,
    },
    Bool(bool),
    Str(Vec<StrPart>),
    Name(Name),
    /// A field access. `name` is an identifier or the number of a tuple element.
    Field {
        base: Box<Expr>,
        name: Name,
    },
    Index {
        base: Box<Expr>,
        args: Vec<Expr>,
    },
    /// A call: `f(x, T = 3)`, also `f32(x)` and `f32x4(1, 2, 3, 4)`.
    Call {
        callee: Box<Expr>,
        args: Vec<Arg>,
    },
    /// A launch with an explicit geometry: `k<<<grid, block>>>(args)`.
    Launch {
        callee: Box<Expr>,
        grid: Box<Expr>,
        block: Box<Expr>,
        args: Vec<Arg>,
    },
    Unary {
        op: UnaryOp,
        op_span: Span,
        expr: Box<Expr>,
    },
    Binary {
        op: BinaryOp,
        op_span: Span,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// A range: `a..b step s`, `a..=b`, or `..`, which selects a whole axis in an index.
    Range {
        start: Option<Box<Expr>>,
        end: Option<Box<Expr>>,
        inclusive: bool,
        step: Option<Box<Expr>>,
    },
    If {
        cond: Box<Expr>,
        then: Box<Block>,
        other: Option<Box<Expr>>,
    },
    Block(Block),
    Tuple(Vec<Expr>),
    /// An array literal: `[1, 2, 3]`, nested for several dimensions.
    Array(Vec<Expr>),
    /// A struct literal: `Body { pos: p, mass: 1.0 }`.
    Struct {
        path: Vec<Name>,
        fields: Vec<(Name, Expr)>,
    },
    /// A block whose execution is timed: `time { … }`.
    Time(Block),
    /// `(e)`. The tree contains parentheses because the formatter and diagnostics depend on them.
    Paren(Box<Expr>),
    Error,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    pub name: Option<Name>,
    pub value: Expr,
}

/// A segment of a string literal: text, in which escapes are resolved, or an interpolated value.
#[derive(Clone, Debug, PartialEq)]
pub enum StrPart {
    Text(SmolStr),
    /// An interpolated value: `{expr}` or `{expr:.3}`.
    Value {
        expr: Expr,
        format: Option<FormatSpec>,
    },
}

/// The format specification after the colon of `{x:>8.3}`: `[fill][<^>][+][0][width][.precision][x|X|b|o|e|?]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FormatSpec {
    pub text: SmolStr,
    pub span: Span,
}
