//! The syntax tree: owned nodes with spans, including error nodes. It represents the source as written, before name resolution.

use crate::base::source::{FileId, Span};
use crate::lang::ops::{BinaryOp, UnaryOp};
pub(crate) use smol_str::SmolStr;

/// An identifier and its span.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    pub text: SmolStr,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct File {
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
    Test(Section),
    Bench(Section),
    /// A statement of the script.
    Stmt(Stmt),
    /// An item that failed to parse; a definition keeps its name, so that uses of it are not reported too.
    Error(Option<Name>),
}

/// `test "name" { … }` or `bench "name" bytes = …, flops = … { … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    pub title: SmolStr,
    pub title_span: Span,
    /// `bench` only: `bytes = expr`, `flops = expr`, `items = expr`.
    pub rates: Vec<(Name, Expr)>,
    pub body: Block,
}

/// `const NAME: type = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Const {
    pub name: Name,
    pub ty: Option<Type>,
    pub value: Expr,
}

/// `struct Name { field: type, … }`.
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
    /// `T: Float`. The bound is kept as a name so that an unknown one can be reported. None means `Any`.
    Type { bound: Option<Name> },
    /// `const N: i32 = 16`.
    Const { ty: Type, default: Option<Expr> },
    /// `op: fn(f32, f32) -> f32`.
    Fn { ty: Type, default: Option<Expr> },
}

/// `fn name<generics>(params) -> result { body }`.
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
    /// No keyword: read-only.
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

/// `kernel name<generics>(params) geometry contracts { body }`.
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

/// `BM in [64, 128]` behind `tune`: the values that a compile-time parameter may be given.
#[derive(Clone, Debug, PartialEq)]
pub struct Tune {
    pub name: Name,
    pub values: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Geometry {
    /// `threads(row: M, col: N) block(16, 16)`; the last index varies fastest.
    Threads { indices: Vec<(Name, Expr)>, block: Option<Vec<Expr>>, span: Span },
    /// `grid(…) block(…)` in x, y, z order.
    Grid { grid: Vec<Expr>, block: Vec<Expr>, span: Span },
    /// No geometry (reported by the parser).
    Missing(Span),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    pub source: ImportSource,
    pub span: Span,
    pub what: ImportWhat,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ImportSource {
    /// `std.linalg`.
    Path(Vec<Name>),
    /// `"./shapes.clk"`.
    File { path: SmolStr, span: Span },
}

#[derive(Clone, Debug, PartialEq)]
pub enum ImportWhat {
    /// The module itself, under the last name of its path or the alias after `as`.
    Module { alias: Option<Name> },
    /// `.{a, b as c}`.
    Names(Vec<(Name, Option<Name>)>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    pub kind: TypeKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `f32`, `f32x4`, `Body`, `T`, `shapes.Circle`.
    Name(Vec<Name>),
    /// `[T; D0, D1]`; a dimension is an expression over constants and dimension names, or `_` (represented as the name `_`).
    Array {
        element: Box<Type>,
        dims: Vec<Expr>,
    },
    Tuple(Vec<Type>),
    Fn {
        params: Vec<Type>,
        result: Option<Box<Type>>,
    },
    /// `[f32; N] @gpu`.
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
    /// `let pattern: type = value`, or `var …`. A `var` may omit its value (`var acc: [f32; 4]`, uninitialized until assigned).
    Let {
        mutable: bool,
        pattern: Pattern,
        ty: Option<Box<Type>>,
        value: Option<Expr>,
    },
    /// `shared name: type`.
    Shared {
        name: Name,
        ty: Box<Type>,
    },
    /// `place = value`, `place += value`.
    Assign {
        place: Box<Expr>,
        op: Option<(BinaryOp, Span)>,
        value: Expr,
    },
    /// An expression statement. `quiet` means that a `;` follows it, so that the REPL prints nothing.
    Expr {
        expr: Expr,
        quiet: bool,
    },
    For {
        var: Name,
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
    /// `on gpu(0) { … }`.
    On {
        device: Expr,
        body: Block,
    },
    /// `batch { … }`.
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

#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    Name(Name),
    /// `(a, b, _)`; `_` is represented as a name.
    Tuple(Vec<Pattern>, Span),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// An integer literal and its suffix. A value over `u64::MAX`, which the lexer reports, saturates.
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
    /// A field access; `name` is an identifier or the number of a tuple element.
    Field {
        base: Box<Expr>,
        name: Name,
    },
    Index {
        base: Box<Expr>,
        args: Vec<Expr>,
    },
    /// `f(x, T = 3)`, also `f32(x)` and `f32x4(1, 2, 3, 4)`.
    Call {
        callee: Box<Expr>,
        args: Vec<Arg>,
    },
    /// `k<<<grid, block>>>(args)`.
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
    /// `a..b step s`, `a..=b`, `..` (in an index: the whole axis).
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
    /// `[1, 2, 3]`, nested for more dimensions.
    Array(Vec<Expr>),
    /// `Body { pos: p, mass: 1.0 }`.
    Struct {
        path: Vec<Name>,
        fields: Vec<(Name, Expr)>,
    },
    /// `time { … }`.
    Time(Block),
    /// `(e)`: kept because the formatter and diagnostics depend on the parentheses.
    Paren(Box<Expr>),
    Error,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    pub name: Option<Name>,
    pub value: Expr,
}

/// A segment of a string literal, with escapes resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum StrPart {
    Text(SmolStr),
    /// `{expr}` or `{expr:.3}`.
    Value {
        expr: Expr,
        format: Option<Format>,
    },
}

/// The format specification after the colon of `{x:>8.3}`: `[fill][<^>][+][0][width][.precision][x|X|b|o|e|?]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    pub text: SmolStr,
    pub span: Span,
}
