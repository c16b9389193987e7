//! The typed tree: what was written, with every name resolved, every type known and every default filled in.
//!
//! Invariants (for a program without errors):
//! - every `Expr` has the type its context asks for; there are no implicit conversions left to make, except where a type is
//!   [`Type::Unknown`] (host only), in which case the host decides when it runs;
//! - an `Index` has one index per axis; a partial or sliced one is a `Slice` (host only);
//! - operands of `Binary` have one type, but for: shifts (any integer right operand), vector with its scalar (either side),
//!   and host arrays (which broadcast; a scalar has the element type);
//! - device bodies hold no host builtin and host bodies no device builtin;
//! - after an error, `Expr::Error` and `Type::Error` stand where nothing better is known. Such a program does not run.

use std::sync::Arc;

use indexmap::IndexMap;
pub use smol_str::SmolStr;

use crate::base::arena::{Arena, Id};
use crate::base::shared::Shared;
use crate::base::source::{FileId, Span};
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::Scalar;
use crate::syntax::ast;
pub use crate::syntax::ast::{Access, Format, Unroll};

pub type FnId = Id<Fn>;
pub type KernelId = Id<Kernel>;
pub(crate) type StructId = Id<Struct>;
pub(crate) type ConstId = Id<Const>;
pub(crate) type GlobalId = Id<Global>;
pub type LocalId = Id<Local>;
pub type ModuleId = Id<Module>;

/// Everything that has been checked so far; a REPL entry or an imported file only adds to it.
/// Cloning is cheap enough to keep the state before an entry, and to try one out at every keystroke: what the entry does not
/// define is shared.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub modules: Arena<Module>,
    pub structs: Shared<Arena<Struct>>,
    pub consts: Shared<Arena<Const>>,
    pub fns: Shared<Arena<Fn>>,
    pub kernels: Shared<Arena<Kernel>>,
    pub globals: Arena<Global>,
    pub tests: Arena<Section>,
    pub(crate) benches: Arena<Section>,
    /// The chunk of script statements of each file or REPL entry, imported modules first.
    pub chunks: Vec<Arc<Chunk>>,
    /// Which module of the standard library has a name, for messages about names that mean nothing.
    pub library: Option<fn(&str) -> Option<&'static str>>,
}

/// One source file's (or the REPL session's) scope.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// As in `std.linalg` or a path; empty for the main script.
    pub name: SmolStr,
    pub file: FileId,
    pub doc: Option<String>,
    pub names: IndexMap<SmolStr, Binding>,
}

/// What a name of a module stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Binding {
    Fn(FnId),
    Kernel(KernelId),
    Struct(StructId),
    Const(ConstId),
    Module(ModuleId),
    Global(GlobalId),
    /// Its definition had errors; uses are not reported again.
    Error,
}

/// Script statements in the order they run.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub module: ModuleId,
    pub body: Body,
}

/// A variable of a script's top level.
#[derive(Clone, Debug)]
pub struct Global {
    pub name: SmolStr,
    pub ty: Type,
    pub mutable: bool,
    pub span: Span,
}

/// `test` or `bench`.
#[derive(Clone, Debug)]
pub struct Section {
    pub title: SmolStr,
    pub module: ModuleId,
    pub span: Span,
    pub body: Arc<Body>,
    /// `bytes`, `flops`, `items` of a bench: numbers per run, evaluated in the script's scope.
    pub rates: Vec<(SmolStr, Expr)>,
    /// It reads script variables, so the script has to run first.
    pub uses_globals: bool,
}

#[derive(Clone, Debug)]
pub struct Struct {
    pub name: SmolStr,
    pub module: ModuleId,
    pub fields: Vec<Field>,
    pub span: Span,
    pub doc: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: SmolStr,
    /// A scalar, vector, struct or tuple.
    pub ty: Type,
    pub span: Span,
    pub doc: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Const {
    pub name: SmolStr,
    pub module: ModuleId,
    pub ty: Type,
    /// A constant expression: literals, other constants, operators, pure builtins and calls of `fn`s.
    pub value: Arc<Expr>,
    /// The integer that the checker knows it to be.
    pub known: Option<i64>,
    pub span: Span,
    pub doc: Option<String>,
}

/// A type, constant or function parameter in angle brackets. Referred to by its position.
#[derive(Clone, Debug)]
pub struct Generic {
    pub name: SmolStr,
    pub kind: GenericKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum GenericKind {
    Type { bound: Bound },
    Const { ty: Type, default: Option<Arc<Expr>> },
    Fn { ty: Arc<FnType>, default: Option<FnRef> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Any plain data: scalar, vector, struct, tuple.
    Any,
    /// Every scalar but `bool`.
    Num,
    Int,
    Float,
}

/// A dimension name of a signature. Referred to by its position.
#[derive(Clone, Debug)]
pub struct DimName {
    pub name: SmolStr,
    /// Where it first stands.
    pub span: Span,
    /// It stands in the type of a function's result only.
    pub of_result: bool,
}

#[derive(Clone, Debug)]
pub struct Fn {
    pub name: SmolStr,
    pub module: ModuleId,
    pub sig: Signature,
    pub result: Type,
    /// Where the result's type stands; the name of a function that gives nothing.
    pub result_span: Span,
    /// None while it is being checked or after an error in it.
    pub body: Option<Arc<Body>>,
    /// It (or what it calls) uses something of only one world.
    pub world: World,
    pub span: Span,
    pub name_span: Span,
    pub doc: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    Both,
    Host,
    Device,
}

/// The part that functions and kernels share. `params[i]` is `body.locals` number i.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    pub generics: Vec<Generic>,
    pub dims: Vec<DimName>,
    pub params: Vec<Param>,
    /// Dimensions that are more than a number or a name (`ceil_div(N, 256)`, `2 * T`): over dims, constants and const generics.
    pub dim_exprs: Vec<Arc<Expr>>,
}

#[derive(Clone, Debug)]
pub struct Param {
    pub name: SmolStr,
    pub access: Access,
    pub ty: Type,
    /// What stands for an argument that is left off.
    pub default: Option<ParamDefault>,
    pub span: Span,
}

/// The default of a parameter.
#[derive(Clone, Debug)]
pub enum ParamDefault {
    /// A constant that has no name.
    Const(ConstId),
    /// A number for a parameter whose type is a type parameter: it takes the type that the call gives this.
    Literal(Arc<ast::Expr>),
}

#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: SmolStr,
    pub module: ModuleId,
    pub sig: Signature,
    pub geometry: Geometry,
    pub body: Option<Arc<Body>>,
    pub span: Span,
    pub name_span: Span,
    pub doc: Option<String>,
    /// It calls `grid_barrier`, so its launch is cooperative.
    pub cooperative: bool,
}

/// The expressions are `i32`, over dims, const generics and scalar parameters (as `Local`), evaluated by the host at the launch.
#[derive(Clone, Debug)]
pub enum Geometry {
    /// `indices[k]` is the local that holds the k-th index; the last varies fastest.
    Threads { indices: Vec<LocalId>, extents: Vec<Expr>, block: Option<Vec<Expr>>, span: Span },
    /// One to three of each, x first.
    Grid { grid: Vec<Expr>, block: Vec<Expr>, span: Span },
}

/// A function body, a script chunk, a test.
#[derive(Clone, Debug, Default)]
pub struct Body {
    pub locals: Arena<Local>,
    pub root: Block,
}

#[derive(Clone, Debug)]
pub struct Local {
    pub name: SmolStr,
    pub ty: Type,
    pub mutable: bool,
    pub kind: LocalKind,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKind {
    Param(Access),
    /// An index of `threads(i: N)`.
    ThreadIndex,
    Var,
    /// A `for` variable.
    Loop,
    /// A `shared` array (or `shared` scalar-like: an array of no axes).
    Shared,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Type {
    #[default]
    Error,
    /// `()`
    Unit,
    /// Of `return`, `break`, `continue`.
    Never,
    /// Host only: found out when the script runs (the result of `load`, an element of such).
    Unknown,
    Scalar(Scalar),
    /// A scalar other than bool, times 2, 3 or 4; `bool` vectors arise from comparisons.
    Vector(Scalar, u8),
    /// The type parameter at this position of the enclosing item's `generics`.
    Param(u32),
    Array(Arc<ArrayType>),
    Struct(StructId),
    Tuple(Arc<[Type]>),
    Fn(Arc<FnType>),
    /// Host only from here on.
    Str,
    /// `a..b`
    Range,
    /// What `time { }` gives: fields `median min max` in seconds (f64), `runs` (i32).
    Timing,
    /// An array of texts, `[str; _]`: of one axis, whose extent is no part of the type.
    Strings,
    /// A kernel by name, as a value.
    Kernel(KernelId),
    Module(ModuleId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayType {
    /// A scalar, vector, struct, tuple or type parameter.
    pub element: Type,
    /// Outermost first; none for a `shared` scalar.
    pub dims: Vec<Dim>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    Known(i64),
    /// The dimension name at this position of the enclosing item's `sig.dims`.
    Name(u32),
    /// Its `sig.dim_exprs[i]`.
    Expr(u32),
    /// In a body (a `shared` or local array) an expression is kept as it is: `Local`s it reads are launch-uniform. On the host
    /// it is an extent of [`Declared`], which the variable keeps.
    Local(u32),
    /// Host: known when it runs.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FnType {
    pub params: Vec<Type>,
    pub result: Type,
}

#[derive(Clone, Debug, Default)]
pub struct Block {
    pub stmts: Vec<Stmt>,
    /// Its value; none means unit (or never).
    pub tail: Option<Box<Expr>>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum StmtKind {
    /// A `let` or `var` of any value; on the device the extents of an array are constants. None: `var` without a value.
    Let {
        pattern: Pattern,
        value: Option<Expr>,
        /// The type beside it, which the host compares with the value (none in kernels).
        declared: Option<Box<Declared>>,
    },
    /// Device: a local array. `extents` gives each axis (constants after monomorphisation).
    LocalArray {
        local: LocalId,
        extents: Vec<Expr>,
        init: ArrayInit,
    },
    /// Device: `extents` is launch-uniform; all constant means static shared memory.
    Shared {
        local: LocalId,
        extents: Vec<Expr>,
    },
    /// `op`: `place = place op value`, the place evaluated once.
    Assign {
        place: Box<Expr>,
        op: Option<BinaryOp>,
        value: Expr,
    },
    Expr {
        expr: Expr,
        quiet: bool,
    },
    /// `iter` is `Range` (i32 or any integer) or an array.
    For {
        var: LocalId,
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
    On {
        device: OnDevice,
        body: Block,
    },
    Batch {
        body: Block,
    },
}

/// Where launches inside an `on` block run.
#[derive(Clone, Debug)]
pub enum OnDevice {
    Sim,
    /// `gpu` or `gpu(i)`
    Gpu(Option<Box<Expr>>),
}

#[derive(Clone, Debug)]
pub enum ArrayInit {
    /// No value: unwritten until assigned.
    None,
    /// `= 0.0`: every element.
    Fill(Expr),
    /// `= [a, b, c]`: row-major.
    Elements(Vec<Expr>),
    /// `= other`: a copy of an array.
    Copy(Expr),
}

/// A type as it stands beside a variable: what of it only shows when the script runs is asked then.
#[derive(Clone, Debug)]
pub struct Declared {
    /// A `Dim::Local(i)` in it is `extents[i]`.
    pub ty: Type,
    pub(crate) extents: Vec<Extent>,
    pub span: Span,
}

/// An extent that is no number before the script runs.
#[derive(Clone, Debug)]
pub(crate) enum Extent {
    /// An expression.
    Is(Expr),
    /// A name that nothing else has: the value says what it is, the same on every axis.
    Named(SmolStr),
}

#[derive(Clone, Debug)]
pub enum Pattern {
    Local(LocalId),
    Global(GlobalId),
    Discard,
    Tuple(Vec<Pattern>),
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: Type,
    pub span: Span,
}

impl Expr {
    /// Whether it stands for some elements of an array, or for a part of each of them: what is assigned to it spreads.
    pub fn is_part(&self) -> bool {
        match &self.kind {
            ExprKind::Slice { .. } => true,
            ExprKind::Field { base, .. } | ExprKind::TupleField { base, .. } | ExprKind::Swizzle { base, .. } => {
                matches!(base.ty, Type::Array(_))
            }
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    /// The type is the expression's (`Scalar`, `Param`, or `Unknown`: adapts to what it meets). May be negative when folded.
    Int(i128),
    Float(f64),
    Bool(bool),
    Str(Vec<StrPart>),
    Local(LocalId),
    Global(GlobalId),
    Const(ConstId),
    /// A const parameter of the enclosing item, by position in `generics`.
    ConstParam(u32),
    /// A dimension of the enclosing item, by position in `dims` (i32).
    Dim(u32),
    /// `thread_idx` …: see `lang::builtin` for the variables. `thread_idx.x` is a `Swizzle` of it.
    Variable(Builtin),
    Unary {
        op: UnaryOp,
        expr: Box<Expr>,
    },
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// A scalar (or vector, or host array elementwise) to another scalar type: `f32(x)`.
    Convert {
        to: Scalar,
        expr: Box<Expr>,
    },
    /// To a type parameter: `T(x)`.
    ConvertParam {
        to: u32,
        expr: Box<Expr>,
    },
    /// `bitcast(u32, x)`; the result type is the expression's.
    Bitcast {
        expr: Box<Expr>,
    },
    /// `f32x3(a, b, c)`; parts are scalars or vectors that add up, or a single scalar for all.
    Vector {
        parts: Vec<Expr>,
    },
    /// `.x`, `.xyz`; one component gives a scalar.
    Swizzle {
        base: Box<Expr>,
        lanes: Vec<u8>,
    },
    /// A struct's field by position.
    Field {
        base: Box<Expr>,
        field: u32,
    },
    /// A tuple's part by position: `t.0`.
    TupleField {
        base: Box<Expr>,
        field: u32,
    },
    /// A field of an `Unknown` or `Timing` value, looked up by name when it runs (host).
    DynField {
        base: Box<Expr>,
        name: SmolStr,
    },
    /// One element: one integer per axis. A component of a vector, where it is only known at run time. Of a `Str`, a `Strings`
    /// or an `Unknown` too (host).
    Index {
        base: Box<Expr>,
        indices: Vec<Expr>,
    },
    /// Host: at least one axis is a range or left out.
    Slice {
        base: Box<Expr>,
        indices: Vec<SliceIndex>,
    },
    Call {
        callee: FnRef,
        args: Vec<Expr>,
    },
    /// Host: a scalar function applied to arrays, elementwise with broadcasting.
    Lift {
        callee: FnRef,
        args: Vec<Expr>,
    },
    /// Positional arguments in the order of the builtin's signature; a named one left off is not in `named`.
    Builtin {
        builtin: Builtin,
        args: Vec<Expr>,
        named: Vec<(SmolStr, Expr)>,
    },
    Launch(Box<Launch>),
    Range {
        start: Option<Box<Expr>>,
        end: Option<Box<Expr>>,
        inclusive: bool,
        step: Option<Box<Expr>>,
    },
    If {
        cond: Box<Expr>,
        then: Box<Block>,
        other: Option<Box<Block>>,
    },
    Block(Block),
    Tuple(Vec<Expr>),
    /// An array literal, row-major, `ty` has its shape.
    Array(Vec<Expr>),
    /// All fields, in the order of the definition.
    Struct {
        id: StructId,
        fields: Vec<Expr>,
    },
    Time(Block),
    Error,
}

// Slices are few, and a vector of them is all that ever holds one: boxing would buy nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum SliceIndex {
    At(Expr),
    /// A range that is a value: `x[r]`.
    Of(Expr),
    Range {
        start: Option<Expr>,
        end: Option<Expr>,
        inclusive: bool,
        step: Option<Expr>,
    },
}

#[derive(Clone, Debug)]
pub enum StrPart {
    Text(SmolStr),
    Value { expr: Expr, format: Option<Format> },
}

/// A function as the target of a call or as a compile-time argument.
#[derive(Clone, Debug)]
pub enum FnRef {
    Fn {
        id: FnId,
        generics: Vec<GenericArg>,
    },
    /// A function parameter of the enclosing item, by position in `generics`.
    Param(u32),
    /// `max` passed as `op`.
    Builtin(Builtin),
}

/// One per generic of the callee, in order.
#[derive(Clone, Debug)]
pub enum GenericArg {
    Type(Type),
    Const(Expr),
    Fn(FnRef),
    /// It had a mistake, which was reported: the program does not run.
    Error,
    /// Host: found from the values of the arguments when it runs, else the default.
    Infer,
}

/// A kernel launch. The host binds dimensions and checks shapes when it runs; the checker has done so where it could.
#[derive(Clone, Debug)]
pub struct Launch {
    pub kernel: KernelId,
    pub(crate) generics: Vec<GenericArg>,
    /// One per parameter. None: an `out` argument that the launch allocates and returns.
    pub args: Vec<Option<Expr>>,
    /// Dimensions given by name: position in `dims` and value.
    pub dims: Vec<(u32, Expr)>,
    /// `<<<grid, block>>>`: integers or tuples of up to three (x first).
    pub grid: Option<Expr>,
    pub block: Option<Expr>,
}
