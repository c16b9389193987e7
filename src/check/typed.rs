//! The typed tree: the syntax tree with every name resolved, every type known and every default filled in.
//!
//! Invariants (for a program without errors):
//! - every `Expr` has the type its context expects; no implicit conversions remain, except where a type is [`Type::Unknown`]
//!   (host only) and the interpreter decides at run time;
//! - an `Index` has one index per axis; partial indexing and slicing is a `Slice` (host only);
//! - the operands of a `Binary` have the same type, except for shifts (any integer right operand), a vector with its scalar
//!   (either side), and host arrays (which broadcast; a scalar operand has the element type);
//! - device bodies contain no host builtins, and host bodies no device builtins;
//! - after an error, `Expr::Error` and `Type::Error` take the place of what could not be determined. Such a program does not run.

use std::sync::Arc;

use indexmap::IndexMap;
pub use smol_str::SmolStr;

use crate::base::arena::{Arena, Id};
use crate::base::shared::Shared;
use crate::base::source::{FileId, Span};
pub use crate::check::clauses::{Expect, Expected, Tunable};
use crate::lang::builtin::{Builtin, Derivative};
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::Scalar;
use crate::lang::scalar::decimal::Decimal;
use crate::syntax::ast;
pub use crate::syntax::ast::{Access, Format, Unroll};

pub type FnId = Id<Fn>;
pub type KernelId = Id<Kernel>;
pub type StructId = Id<Struct>;
pub type ConstId = Id<Const>;
pub type GlobalId = Id<Global>;
pub type LocalId = Id<Local>;
pub type ModuleId = Id<Module>;

/// All modules and items checked so far; a REPL entry or an imported file only adds to it.
/// Cloning is cheap (unchanged arenas are shared), so that the state before an entry can be kept, and an entry can be checked
/// tentatively at every keystroke.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub modules: Arena<Module>,
    pub structs: Shared<Arena<Struct>>,
    pub consts: Shared<Arena<Const>>,
    pub fns: Shared<Arena<Fn>>,
    pub kernels: Shared<Arena<Kernel>>,
    pub globals: Arena<Global>,
    pub tests: Arena<Section>,
    pub benches: Arena<Section>,
    /// Chunks of script statements, one per file or REPL entry, imported modules first.
    pub chunks: Vec<Arc<Chunk>>,
    /// Looks up the standard library module that defines a name; used in diagnostics about unresolved names.
    pub library: Option<fn(&str) -> Option<&'static str>>,
}

impl Program {
    /// Returns the number of definitions so far, which grows with each, also with one that takes the name of another.
    pub fn definitions(&self) -> usize {
        self.structs.len() + self.consts.len() + self.fns.len() + self.kernels.len()
    }

    /// Returns the kernels that a module defines.
    pub fn kernels_of(&self, module: Option<ModuleId>) -> impl Iterator<Item = (KernelId, &Kernel)> {
        self.kernels.iter().filter(move |(_, kernel)| Some(kernel.module) == module)
    }
}

/// The scope of one source file (or of the REPL session).
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Dotted name as in `std.linalg`, or a path; empty for the main script.
    pub name: SmolStr,
    pub file: FileId,
    pub doc: Option<String>,
    pub names: IndexMap<SmolStr, Binding>,
}

/// The item, variable or module that a name of a module refers to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Binding {
    Fn(FnId),
    Kernel(KernelId),
    Struct(StructId),
    Const(ConstId),
    Module(ModuleId),
    Global(GlobalId),
    /// The definition had errors, which were reported; uses of the name are not reported again.
    Error,
}

/// Script statements of one file or REPL entry, in execution order.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub module: ModuleId,
    pub body: Body,
}

/// A variable at the top level of a script.
#[derive(Clone, Debug)]
pub struct Global {
    pub name: SmolStr,
    pub ty: Type,
    pub mutable: bool,
    pub span: Span,
}

/// A `test` or `bench` section.
#[derive(Clone, Debug)]
pub struct Section {
    pub title: SmolStr,
    pub module: ModuleId,
    pub span: Span,
    pub body: Arc<Body>,
    /// `bytes`, `flops`, `items` of a bench: amounts per run, evaluated in the script's scope.
    pub rates: Vec<(SmolStr, Expr)>,
    /// The section reads script variables, so the script has to run first.
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
    /// A scalar, vector, struct, tuple or array of known extents.
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
    /// The value, if it is an integer that the checker could evaluate. Expressions that name the constant take it from here, so that
    /// each constant is evaluated once.
    pub known: Option<i128>,
    pub span: Span,
    pub doc: Option<String>,
}

/// A type, constant or function parameter in angle brackets, referred to by its position.
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
    /// Every scalar type but `bool`.
    Num,
    Int,
    Float,
}

impl Bound {
    /// Returns whether a concrete type satisfies the bound.
    pub fn allows(self, ty: &Type) -> bool {
        let scalar = |test: fn(Scalar) -> bool| matches!(ty, Type::Scalar(s) if test(*s));
        match self {
            Bound::Any => matches!(ty, Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) | Type::Tuple(_)),
            Bound::Num => scalar(Scalar::is_num),
            Bound::Int => scalar(Scalar::is_int),
            Bound::Float => scalar(Scalar::is_float),
        }
    }
}

/// A dimension name of a signature, referred to by its position.
#[derive(Clone, Debug)]
pub struct DimName {
    pub name: SmolStr,
    /// First occurrence.
    pub span: Span,
    /// The name occurs only in the result type of a function.
    pub of_result: bool,
}

#[derive(Clone, Debug)]
pub struct Fn {
    pub name: SmolStr,
    pub module: ModuleId,
    pub sig: Signature,
    pub result: Type,
    /// Span of the result type, or of the function's name if there is no result type.
    pub result_span: Span,
    /// None while the body is being checked, or after an error in it.
    pub body: Option<Arc<Body>>,
    /// Whether the function (or anything it calls) uses host-only or device-only operations.
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

/// The part of a declaration that functions and kernels share. `params[i]` is `body.locals` number i.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    pub generics: Vec<Generic>,
    pub dims: Vec<DimName>,
    pub params: Vec<Param>,
    /// Dimensions other than a number or a name (`ceil_div(N, 256)`, `2 * T`): expressions over dims, constants and const generics.
    pub dim_exprs: Vec<Arc<Expr>>,
}

impl Signature {
    /// The dimensions that no array parameter carries as one of its extents.
    pub fn hidden_dims(&self) -> impl Iterator<Item = u32> {
        let carried = |dim: u32| {
            let carries = |ty: &Type| matches!(ty, Type::Array(array) if array.dims.contains(&Dim::Name(dim)));
            self.params.iter().any(|param| carries(&param.ty))
        };
        (0..self.dims.len() as u32).filter(move |&dim| !carried(dim))
    }
}

#[derive(Clone, Debug)]
pub struct Param {
    pub name: SmolStr,
    pub access: Access,
    pub ty: Type,
    /// The default for an omitted argument.
    pub default: Option<ParamDefault>,
    pub span: Span,
}

/// The default value of a parameter.
#[derive(Clone, Debug)]
pub enum ParamDefault {
    /// An anonymous constant.
    Const(ConstId),
    /// A number, for a parameter whose type is a type parameter: it gets the type that each call binds that parameter to.
    Literal(Arc<ast::Expr>),
}

#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: SmolStr,
    pub module: ModuleId,
    pub sig: Signature,
    pub geometry: Geometry,
    pub assumes: Vec<Assume>,
    pub expects: Vec<Expect>,
    pub tunes: Vec<Tunable>,
    pub body: Option<Arc<Body>>,
    pub span: Span,
    pub name_span: Span,
    pub doc: Option<String>,
    /// The kernel calls `grid_barrier`, so its launch is cooperative.
    pub cooperative: bool,
}

/// Launch geometry. The expressions are `i32`, over dims, const generics and scalar parameters (as `Local`); the host
/// evaluates them at the launch.
#[derive(Clone, Debug)]
pub enum Geometry {
    /// `indices[k]` is the local that holds the k-th index; the last index varies fastest.
    Threads { indices: Vec<LocalId>, extents: Vec<Expr>, block: Option<Vec<Expr>>, span: Span },
    /// One to three extents each, x first.
    Grid { grid: Vec<Expr>, block: Vec<Expr>, span: Span },
}

/// What the launches of a kernel have in common.
#[derive(Clone, Debug)]
pub struct Assume {
    pub kind: AssumeKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum AssumeKind {
    /// A `bool` over dims, const generics and scalar parameters (as `Local`).
    Condition(Expr),
    /// Of the elements of an integer array, a parameter by position.
    Array { param: u32, promise: Promise },
}

/// What is so of the elements of an array.
#[derive(Clone, Debug)]
pub enum Promise {
    /// Each of them compares so with an integer.
    All { op: BinaryOp, bound: Expr },
    /// None is less than the one before it.
    Ascending,
    /// No two are equal.
    Distinct,
    /// Distinct, at least 0 and less than the length.
    Permutation,
}

impl Assume {
    /// The expressions in it, which the host evaluates at a launch.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        match &self.kind {
            AssumeKind::Condition(expr) | AssumeKind::Array { promise: Promise::All { bound: expr, .. }, .. } => {
                Some(expr)
            }
            AssumeKind::Array { .. } => None,
        }
        .into_iter()
    }
}

/// The body of a function, kernel, script chunk, test or bench.
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
    /// An index variable of `threads(i: N)`.
    ThreadIndex,
    Var,
    /// The variable of a `for` loop.
    Loop,
    /// A `shared` array, or a `shared` scalar, which is an array of rank 0.
    Shared,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Type {
    #[default]
    Error,
    /// `()`
    Unit,
    /// The type of `return`, `break`, `continue`.
    Never,
    /// Host only: determined at run time (the result of `load`, or an element of it).
    Unknown,
    Scalar(Scalar),
    /// 2, 3 or 4 components of a scalar type other than bool; `bool` vectors are the result of comparisons.
    Vector(Scalar, u8),
    /// The type parameter at this position of the enclosing item's `generics`.
    Param(u32),
    Array(Arc<ArrayType>),
    Struct(StructId),
    Tuple(Arc<[Type]>),
    Fn(Arc<FnType>),
    /// A string. This and the types below are host only.
    Str,
    /// The type of `a..b`.
    Range,
    /// The result of `time { }`: fields `median min max` in seconds (f64), `runs` (i32).
    Timing,
    /// An array of strings, `[str; _]`: one axis, whose extent is not part of the type.
    Strings,
    /// A kernel as a value, by name.
    Kernel(KernelId),
    Module(ModuleId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayType {
    /// A scalar, vector, struct, tuple or type parameter.
    pub element: Type,
    /// Outermost first; empty for a `shared` scalar.
    pub dims: Vec<Dim>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    Known(i64),
    /// The dimension name at this position of the enclosing item's `sig.dims`.
    Name(u32),
    /// The expression `sig.dim_exprs[i]` of the enclosing item.
    Expr(u32),
    /// In a body (a `shared` or local array): the i-th extent expression of that array; `Local`s in it are launch-uniform. On
    /// the host: an index into the `extents` of [`Declared`].
    Local(u32),
    /// Host: known only at run time.
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
    /// The value of the block; none means unit (or never).
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
    /// A `let` or `var` of any value; on the device the extents of an array are constants. None: a `var` without an initial value.
    Let {
        pattern: Pattern,
        value: Option<Expr>,
        /// The declared type, which the host checks the value against at run time (none in kernels).
        declared: Option<Box<Declared>>,
    },
    /// Device: a local array. `extents` has one expression per axis (constants after monomorphization).
    LocalArray {
        local: LocalId,
        extents: Vec<Expr>,
        init: ArrayInit,
    },
    /// Device: `extents` is launch-uniform; static shared memory if all extents are constants.
    Shared {
        local: LocalId,
        extents: Vec<Expr>,
    },
    /// With `op`, a compound assignment: `place = place op value`, where `place` is evaluated once.
    Assign {
        place: Box<Expr>,
        op: Option<BinaryOp>,
        value: Expr,
    },
    Expr {
        expr: Expr,
        quiet: bool,
    },
    /// `iter` is a `Range` (of any integer type) or an array.
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

/// The device that launches inside an `on` block run on.
#[derive(Clone, Debug)]
pub enum OnDevice {
    /// `sim`, or `sim(i)`, a virtual device.
    Sim(Option<Box<Expr>>),
    /// `gpu` or `gpu(i)`.
    Gpu(Option<Box<Expr>>),
}

impl OnDevice {
    /// Returns the number, if there is one.
    pub fn number(&self) -> Option<&Expr> {
        let (OnDevice::Sim(number) | OnDevice::Gpu(number)) = self;
        number.as_deref()
    }
}

#[derive(Clone, Debug)]
pub enum ArrayInit {
    /// No initial value: uninitialized until assigned.
    None,
    /// `= 0.0`: the value of every element.
    Fill(Expr),
    /// `= [a, b, c]`: the elements in row-major order.
    Elements(Vec<Expr>),
    /// `= other`: a copy of another array.
    Copy(Expr),
}

/// The type annotation of a host variable; what the checker cannot compare is compared at run time.
#[derive(Clone, Debug)]
pub struct Declared {
    /// A `Dim::Local(i)` in it refers to `extents[i]`.
    pub ty: Type,
    pub extents: Vec<Extent>,
    pub span: Span,
}

/// An extent in a type annotation that is not a known number.
#[derive(Clone, Debug)]
pub enum Extent {
    /// An expression.
    Is(Expr),
    /// A name that is otherwise undefined: the value determines it, and it is the same on every axis where it occurs.
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
    /// Whether the expression selects some elements of an array, or one component of each element: an assignment to it broadcasts.
    pub fn is_part(&self) -> bool {
        match &self.kind {
            ExprKind::Slice { .. } => true,
            ExprKind::Field { base, .. } | ExprKind::TupleField { base, .. } | ExprKind::Swizzle { base, .. } => {
                matches!(base.ty, Type::Array(_))
            }
            _ => false,
        }
    }

    /// Whether the expression is an array literal that consists of number literals, or an `arange` of them.
    pub fn is_literal_array(&self) -> bool {
        let is_number = |e: &Expr| match &e.kind {
            ExprKind::Int(_) | ExprKind::Float(_) => true,
            ExprKind::Unary { op: UnaryOp::Neg, expr } => matches!(expr.kind, ExprKind::Int(_) | ExprKind::Float(_)),
            _ => false,
        };
        match &self.kind {
            ExprKind::Array(items) => items.iter().all(is_number),
            ExprKind::Builtin { builtin: Builtin::Arange, args, .. } => args.iter().all(is_number),
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    /// Has the expression's type (`Scalar`, `Param`, or `Unknown`, which adapts to the other operand). May be negative when folded.
    Int(i128),
    Float(Decimal),
    Bool(bool),
    Str(Vec<StrPart>),
    Local(LocalId),
    Global(GlobalId),
    Const(ConstId),
    /// A const parameter of the enclosing item, by position in `generics`.
    ConstParam(u32),
    /// A dimension of the enclosing item, by position in `dims` (i32).
    Dim(u32),
    /// `thread_idx` and the like: see `lang::builtin` for the variables. `thread_idx.x` is a `Swizzle` of it.
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
    /// Converts a scalar (or vector, or host array elementwise) to another scalar type: `f32(x)`.
    Convert {
        to: Scalar,
        expr: Box<Expr>,
    },
    /// Converts to a type parameter: `T(x)`.
    ConvertParam {
        to: u32,
        expr: Box<Expr>,
    },
    /// `bitcast(u32, x)`; the target type is the expression's type.
    Bitcast {
        expr: Box<Expr>,
    },
    /// `f32x3(a, b, c)`; the parts are scalars or vectors whose component counts add up, or a single scalar that is broadcast.
    Vector {
        parts: Vec<Expr>,
    },
    /// `.x`, `.xyz`; a single component has the scalar type.
    Swizzle {
        base: Box<Expr>,
        lanes: Vec<u8>,
    },
    /// A struct field by position.
    Field {
        base: Box<Expr>,
        field: u32,
    },
    /// A tuple element by position: `t.0`.
    TupleField {
        base: Box<Expr>,
        field: u32,
    },
    /// A field of an `Unknown` or `Timing` value, looked up by name at run time (host).
    DynField {
        base: Box<Expr>,
        name: SmolStr,
    },
    /// One element, with one integer index per axis; or a vector component whose index is known only at run time. On the host
    /// also an element of a `Str`, a `Strings` or an `Unknown`.
    Index {
        base: Box<Expr>,
        indices: Vec<Expr>,
    },
    /// Host: at least one index is a range or omitted.
    Slice {
        base: Box<Expr>,
        indices: Vec<SliceIndex>,
    },
    Call {
        callee: FnRef,
        args: Vec<Expr>,
    },
    /// Host: a scalar function applied to arrays elementwise, with broadcasting.
    Lift {
        callee: FnRef,
        args: Vec<Expr>,
    },
    /// Positional arguments in the order of the builtin's signature; omitted named arguments are absent from `named`.
    Builtin {
        builtin: Builtin,
        args: Vec<Expr>,
        named: Vec<(SmolStr, Expr)>,
    },
    /// Host: a derivative of a function at the arguments of its call.
    Derive(Box<Derive>),
    /// Host: a function whose derivative is stated, at these arguments.
    Stated(Box<Stated>),
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
    /// An array literal in row-major order; the shape is in `ty`.
    Array(Vec<Expr>),
    /// Values of all fields, in the order of the definition.
    Struct {
        id: StructId,
        fields: Vec<Expr>,
    },
    Time(Block),
    Error,
}

// Not boxed: slices are rare, and a `SliceIndex` is only ever stored in the vector of a slice.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum SliceIndex {
    At(Expr),
    /// A range-typed value, or an array of positions or truth values: `x[r]`.
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

/// A function as a callee or as a compile-time argument.
#[derive(Clone, Debug)]
pub enum FnRef {
    Fn {
        id: FnId,
        generics: Vec<GenericArg>,
    },
    /// A function parameter of the enclosing item, by position in `generics`.
    Param(u32),
    /// A builtin, such as `max` passed as `op`.
    Builtin(Builtin),
}

/// A compile-time argument; one per generic parameter of the callee, in order.
#[derive(Clone, Debug)]
pub enum GenericArg {
    Type(Type),
    Const(Expr),
    Fn(FnRef),
    /// The argument had an error, which was reported: the program does not run.
    Error,
    /// Inferred from the argument values at run time, on the host; or the default, which depends on the arguments before it.
    Infer,
}

/// A derivative of a host function.
#[derive(Clone, Debug)]
pub struct Derive {
    pub what: Derivative,
    /// The function and its arguments: a `Call`, or a `Derive` of one.
    pub of: Expr,
    /// The parameters of the function by which it is differentiated, by position.
    pub wrt: Vec<u32>,
    /// The tangent of `jvp`, the cotangent of `vjp`.
    pub seed: Option<Expr>,
}

/// A call of a function whose derivative is stated.
#[derive(Clone, Debug)]
pub struct Stated {
    pub args: Vec<Expr>,
    pub rule: Arc<Rule>,
}

/// A function and its stated derivative.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The locals that stand for the arguments in `of` and `back`.
    pub params: Vec<LocalId>,
    pub of: Expr,
    /// The local that stands for the cotangent of the result in `back`.
    pub cotangent: LocalId,
    /// The cotangents of the active arguments: one, or a tuple of several.
    pub back: Expr,
    /// Which arguments consist of floats.
    pub active: Vec<bool>,
}

/// A kernel launch. The checker has compared the shapes it knows; the host binds dimensions and checks shapes at run time.
#[derive(Clone, Debug)]
pub struct Launch {
    pub kernel: KernelId,
    pub generics: Vec<GenericArg>,
    /// One per parameter. None: an `out` argument that the launch allocates and returns.
    pub args: Vec<Option<Expr>>,
    /// Dimensions given by name: position in `dims` and value.
    pub dims: Vec<(u32, Expr)>,
    /// `<<<grid, block>>>`: integers or tuples of up to three (x first).
    pub grid: Option<Expr>,
    pub block: Option<Expr>,
    /// The compile-time constants that the launch leaves to their defaults, by position in `generics`.
    pub left_off: Vec<u32>,
}
