//! The syntax tree: boxes with spans, error nodes included. It holds what was written, not what it means.

use crate::base::source::{FileId, Span};
use crate::lang::ops::{BinaryOp, UnaryOp};
pub(crate) use smol_str::SmolStr;

/// An identifier and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    pub text: SmolStr,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct File {
    pub file: FileId,
    /// `///` lines before a blank line at the top of the file: the module's documentation.
    pub doc: Option<String>,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub kind: ItemKind,
    pub span: Span,
    /// Markdown of the `///` lines above it, without the slashes.
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
    /// What could not be read; of a definition its name is kept, so that its uses are not reported too.
    Error(Option<Name>),
}

/// `test "name" { … }` or `bench "name" bytes = …, flops = … { … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    pub title: SmolStr,
    pub title_span: Span,
    /// `bench` only: `bytes = expr`, `flops = expr`, `items = expr`.
    pub(crate) rates: Vec<(Name, Expr)>,
    pub(crate) body: Block,
}

/// `const NAME: type = value`
#[derive(Clone, Debug, PartialEq)]
pub struct Const {
    pub name: Name,
    pub(crate) ty: Option<Type>,
    pub(crate) value: Expr,
}

/// `struct Name { field: type, … }`
#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    pub name: Name,
    pub(crate) fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: Name,
    pub(crate) ty: Type,
    pub doc: Option<String>,
}

/// `<T: Float, const N: i32 = 4, op: fn(T, T) -> T = add>`
#[derive(Clone, Debug, PartialEq)]
pub struct Generic {
    pub name: Name,
    pub kind: GenericKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum GenericKind {
    /// `T: Float`; the bound is a name so that a wrong one can be reported. None means `Any`.
    Type { bound: Option<Name> },
    /// `const N: i32 = 16`
    Const { ty: Type, default: Option<Expr> },
    /// `op: fn(f32, f32) -> f32`
    Fn { ty: Type, default: Option<Expr> },
}

/// `fn name<generics>(params) -> result { body }`
#[derive(Clone, Debug, PartialEq)]
pub struct Fn {
    pub name: Name,
    pub(crate) generics: Vec<Generic>,
    pub(crate) params: Vec<Param>,
    pub(crate) result: Option<Type>,
    pub(crate) body: Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No keyword: read only.
    In,
    Out,
    InOut,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub access: Access,
    pub name: Name,
    pub(crate) ty: Type,
    /// What stands for an argument that is left off.
    pub(crate) default: Option<Expr>,
    pub span: Span,
}

/// `kernel name<generics>(params) geometry { body }`
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    pub name: Name,
    pub(crate) generics: Vec<Generic>,
    pub(crate) params: Vec<Param>,
    pub(crate) geometry: Geometry,
    pub(crate) body: Block,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Geometry {
    /// `threads(row: M, col: N) block(16, 16)`; the last name varies fastest.
    Threads { indices: Vec<(Name, Expr)>, block: Option<Vec<Expr>>, span: Span },
    /// `grid(…) block(…)` in x, y, z order.
    Grid { grid: Vec<Expr>, block: Vec<Expr>, span: Span },
    /// None was written (reported by the parser).
    Missing(Span),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    pub(crate) source: ImportSource,
    pub span: Span,
    pub(crate) what: ImportWhat,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ImportSource {
    /// `std.linalg`
    Path(Vec<Name>),
    /// `"./shapes.clk"`
    File { path: SmolStr, span: Span },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ImportWhat {
    /// The module itself, under its last name or the one after `as`.
    Module { alias: Option<Name> },
    /// `.{a, b as c}`
    Names(Vec<(Name, Option<Name>)>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    pub(crate) kind: TypeKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TypeKind {
    /// `f32`, `f32x4`, `Body`, `T`, `shapes.Circle`
    Name(Vec<Name>),
    /// `[T; D0, D1]`; a dimension is an expression over constants and dimension names, or `_` (kept as the name `_`).
    Array {
        element: Box<Type>,
        dims: Vec<Expr>,
    },
    Tuple(Vec<Type>),
    Fn {
        params: Vec<Type>,
        result: Option<Box<Type>>,
    },
    /// `[f32; N] @gpu`
    Placed {
        ty: Box<Type>,
        place: Name,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub stmts: Vec<Stmt>,
    /// The value of the block: its last expression, if nothing but a newline follows it.
    pub(crate) tail: Option<Box<Expr>>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    pub(crate) kind: StmtKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `let pattern: type = value`, or `var …`. A `var` may leave its value off (`var acc: [f32; 4]`, unwritten until assigned).
    Let {
        mutable: bool,
        pattern: Pattern,
        ty: Option<Box<Type>>,
        value: Option<Expr>,
    },
    /// `shared name: type`
    Shared {
        name: Name,
        ty: Box<Type>,
    },
    /// `place = value`, `place += value`
    Assign {
        place: Box<Expr>,
        op: Option<(BinaryOp, Span)>,
        value: Expr,
    },
    /// `quiet`: a `;` stands behind it (the REPL then prints nothing).
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
    /// `on gpu(0) { … }`
    On {
        device: Expr,
        body: Block,
    },
    /// `batch { … }`
    Batch {
        body: Block,
    },
    Error,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unroll {
    #[default]
    Auto,
    /// `#unroll`
    Full,
    /// `#unroll(4)`
    By(u32),
    /// `#nounroll`
    Never,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    Name(Name),
    /// `(a, b, _)`; `_` is kept as a name.
    Tuple(Vec<Pattern>, Span),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub(crate) kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    /// The value of an integer literal (saturated to u128 is not needed: a literal over u64::MAX is reported by the lexer) and its suffix.
    Int {
        value: u64,
        suffix: Option<Name>,
    },
    /// The digits as written, without underscores and suffix.
    Float {
        text: SmolStr,
        suffix: Option<Name>,
    },
    Bool(bool),
    Str(Vec<StrPart>),
    Name(Name),
    /// `_`, `..` and the like are not names; see `Index`.
    Field {
        base: Box<Expr>,
        name: Name,
    },
    Index {
        base: Box<Expr>,
        args: Vec<Expr>,
    },
    /// `f(x, T = 3)`, also `f32(x)` and `f32x4(1, 2, 3, 4)`
    Call {
        callee: Box<Expr>,
        args: Vec<Arg>,
    },
    /// `k<<<grid, block>>>(args)`
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
    /// `a..b step s`, `a..=b`, `..` (in an index: the whole axis)
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
    /// `[1, 2, 3]`, nested for more dimensions
    Array(Vec<Expr>),
    /// `Body { pos: p, mass: 1.0 }`
    Struct {
        path: Vec<Name>,
        fields: Vec<(Name, Expr)>,
    },
    /// `time { … }`
    Time(Block),
    /// `(e)`: kept so that the formatter and the messages can see the parentheses.
    Paren(Box<Expr>),
    Error,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arg {
    pub name: Option<Name>,
    pub value: Expr,
}

/// A piece of a string literal, escapes resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StrPart {
    Text(SmolStr),
    /// `{expr}` or `{expr:.3}`
    Value {
        expr: Expr,
        format: Option<Format>,
    },
}

/// What stands behind the colon of `{x:>8.3}`: `[fill][<^>][+][0][width][.precision][x|X|b|o|e|?]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    pub text: SmolStr,
    pub span: Span,
}
