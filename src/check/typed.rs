//! The typed tree: the syntax tree with every name resolved, every type known and every default filled in.
//!
//! Invariants (for a program without errors):
//! - every `Expr` has the type that its context expects. There are no implicit conversions, except for values of type
//!   [`Type::Unknown`] (host only), which the interpreter converts at run time;
//! - an `Index` has one index per axis. Partial indexing and slicing are a `Slice` (host only);
//! - the operands of a `Binary` have the same type, with three exceptions: the right operand of a shift has any integer
//!   type, a vector can be combined with its scalar type, and host arrays broadcast (a scalar operand has the element
//!   type);
//! - device bodies contain no host builtins, and host bodies no device builtins;
//! - after an error, `Expr::Error` and `Type::Error` represent expressions and types that could not be determined. Such
//!   a program is not executed.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxHashMap;
pub use smol_str::SmolStr;

pub use crate::kernel_clauses::{Expect, Expected, Tunable};
use clk_base::arena::{Arena, Id};
use clk_base::shared::CopyOnWrite;
use clk_base::source::{FileId, Span};
use clk_scalar::Scalar;
use clk_scalar::builtin::{Builtin, DerivativeKind};
use clk_scalar::decimal::Decimal;
use clk_scalar::ops::{BinaryOp, UnaryOp};
use clk_syntax::ast;
pub use clk_syntax::ast::{Access, FormatSpec, Unroll};

pub type FnId = Id<Fn>;
pub type KernelId = Id<Kernel>;
pub type StructId = Id<Struct>;
pub type ConstId = Id<Const>;
pub type GlobalId = Id<Global>;
pub type LocalId = Id<Local>;
pub type ModuleId = Id<Module>;

/// All modules and items checked so far. Checking a REPL entry or an imported file only adds items. A clone shares
/// unchanged arenas and is therefore cheap. Editors clone the program to check an entry tentatively at every keystroke.
/// A session that runs an entry does not: after a failure, it drops the items that the entry has added.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub modules: Arena<Module>,
    pub structs: CopyOnWrite<Arena<Struct>>,
    pub consts: CopyOnWrite<Arena<Const>>,
    pub fns: CopyOnWrite<Arena<Fn>>,
    pub kernels: CopyOnWrite<Arena<Kernel>>,
    pub globals: Arena<Global>,
    pub tests: Arena<TestSection>,
    pub benches: Arena<TestSection>,
    /// Chunks of script statements, one per file or REPL entry, imported modules first.
    pub chunks: Vec<Arc<ScriptChunk>>,
    /// The definitions and uses of names in the files checked so far. The checker records them only if there is a
    /// table. Editors add an empty one.
    pub names: Option<CopyOnWrite<NameTable>>,
    /// A function that returns the standard library module that defines a name. Diagnostics about unresolved names call
    /// it.
    pub library: Option<fn(&str) -> Option<&'static str>>,
}

impl Program {
    /// Returns the number of definitions so far, including redefinitions.
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
    /// Dotted name such as `std.linalg`, or a path; empty for the main script.
    pub name: SmolStr,
    pub file: FileId,
    pub doc: Option<String>,
    pub names: IndexMap<SmolStr, NameBinding>,
}

/// The item, variable or module that a name of a module refers to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NameBinding {
    Fn(FnId),
    Kernel(KernelId),
    Struct(StructId),
    Const(ConstId),
    Module(ModuleId),
    Global(GlobalId),
    /// The definition had errors, which have been reported. Uses of the name cause no further errors.
    Error,
}

/// The kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    Fn,
    Kernel,
    Struct,
    Const,
    Field,
    /// A name bound by an import.
    Import,
    Let,
    Var,
    Loop,
    Shared,
    ThreadIndex,
    Param(Access),
    TypeParam,
    ConstParam,
    FnParam,
    Dimension,
}

/// The definition of a name.
#[derive(Clone, Debug)]
pub struct Definition {
    pub name: SmolStr,
    /// The span of the name.
    pub span: Span,
    pub kind: DefinitionKind,
    /// The target of the uses of this name. For an import, this is the imported item.
    pub target: NameTarget,
    /// The byte range in which the name is visible.
    pub scope: (u32, u32),
}

/// The definition that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NameTarget {
    /// An item, a module or a script variable.
    Item(NameBinding),
    Field(StructId, u32),
    /// A local variable, a parameter, a compile-time parameter or a dimension, given by the span of its name. Also an
    /// import with an error.
    Local(Span),
    /// A builtin of this name.
    Builtin(&'static str),
    /// A predefined type.
    Type,
}

/// A use of a name.
#[derive(Clone, Copy, Debug)]
pub struct NameUse {
    pub span: Span,
    pub target: NameTarget,
    /// Whether the use is an assignment to the variable or a part of it.
    pub written: bool,
}

/// The definitions and uses of names in the checked files, in the order in which they were recorded.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    pub(crate) definitions: Vec<Definition>,
    pub(crate) uses: Vec<NameUse>,
    /// Uses in expressions whose check ended early because of an error. A record in `uses` takes precedence.
    pub(crate) skipped_uses: Vec<NameUse>,
    /// The names that imports with errors bind.
    pub(crate) failed_imports: FxHashMap<(FileId, SmolStr), Span>,
}

/// The definitions and uses of names in one file, sorted by span.
#[derive(Clone, Debug, Default)]
pub struct FileNames {
    pub definitions: Vec<Definition>,
    pub uses: Vec<NameUse>,
}

/// Script statements of one file or REPL entry, in execution order.
#[derive(Clone, Debug)]
pub struct ScriptChunk {
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
pub struct TestSection {
    pub title: SmolStr,
    pub module: ModuleId,
    pub span: Span,
    pub body: Arc<Body>,
    /// The amounts `bytes`, `flops` and `items` per execution of a bench, evaluated in the scope of the script.
    pub rates: Vec<(SmolStr, Expr)>,
    /// Whether the section reads script variables. If so, the script runs first.
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
    /// The value, if it is an integer that the checker could evaluate. Expressions that contain the constant use this
    /// value, so each constant is evaluated only once.
    pub const_value: Option<i128>,
    pub span: Span,
    pub doc: Option<String>,
}

/// A type, constant or function parameter in angle brackets, referred to by its position.
#[derive(Clone, Debug)]
pub struct Generic {
    pub name: SmolStr,
    pub kind: GenericKind,
    pub span: Span,
    pub name_span: Span,
}

#[derive(Clone, Debug)]
pub enum GenericKind {
    Type { bound: TypeBound },
    Const { ty: Type, default: Option<Arc<Expr>> },
    Fn { ty: Arc<FnType>, default: Option<FnRef> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeBound {
    /// Any plain data: scalar, vector, struct, tuple.
    Any,
    /// Every scalar type but `bool`.
    Num,
    Int,
    Float,
}

impl TypeBound {
    /// Returns whether a concrete type satisfies the bound.
    pub fn allows(self, ty: &Type) -> bool {
        let scalar = |test: fn(Scalar) -> bool| matches!(ty, Type::Scalar(s) if test(*s));
        match self {
            TypeBound::Any => matches!(ty, Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) | Type::Tuple(_)),
            TypeBound::Num => scalar(Scalar::is_num),
            TypeBound::Int => scalar(Scalar::is_int),
            TypeBound::Float => scalar(Scalar::is_float),
        }
    }
}

/// A dimension name of a signature, referred to by its position.
#[derive(Clone, Debug)]
pub struct DimName {
    pub name: SmolStr,
    /// Span of the first occurrence.
    pub span: Span,
    /// Whether the name occurs only in the result type of a function.
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
    /// The body; `None` while it is being checked, or after an error in it.
    pub body: Option<Arc<Body>>,
    /// Where the function can run, which depends on whether the function or its callees use host-only or device-only
    /// operations.
    pub space: ExecutionSpace,
    pub span: Span,
    pub name_span: Span,
    pub doc: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionSpace {
    Both,
    Host,
    Device,
}

/// The signature of a function or kernel. Parameter `params[i]` is the local `body.locals[i]`.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    pub generics: Vec<Generic>,
    pub dims: Vec<DimName>,
    pub params: Vec<Param>,
    /// Dimensions that are neither a number nor a name, such as `ceil_div(N, 256)`: expressions of dimensions,
    /// constants and constant parameters.
    pub dim_exprs: Vec<Arc<Expr>>,
}

impl Signature {
    /// Returns the dimensions that are not the extent of any array parameter.
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
    pub name_span: Span,
}

/// The default value of a parameter.
#[derive(Clone, Debug)]
pub enum ParamDefault {
    /// An anonymous constant.
    Const(ConstId),
    /// A number, for a parameter whose type is a type parameter. In each call, it has the type that the call binds to
    /// this type parameter.
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
    /// Whether the kernel calls `grid_barrier`, so that its launch must be cooperative.
    pub cooperative: bool,
}

/// The launch geometry. The extents are `i32` expressions of dimensions, constant parameters and scalar parameters (as
/// `Local`). The host evaluates them at the launch.
#[derive(Clone, Debug)]
pub enum Geometry {
    /// `indices[k]` is the local that holds the k-th index; the last index varies fastest.
    Threads { indices: Vec<LocalId>, extents: Vec<Expr>, block: Option<Vec<Expr>>, span: Span },
    /// One to three extents each, x first.
    Grid { grid: Vec<Expr>, block: Vec<Expr>, span: Span },
}

/// An assumption of a kernel, which all of its launches must satisfy.
#[derive(Clone, Debug)]
pub struct Assume {
    pub kind: AssumeKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum AssumeKind {
    /// A `bool` expression of dimensions, constant parameters and scalar parameters (as `Local`).
    Condition(Expr),
    /// A promise about the elements of an integer array. `param` is the position of the array parameter.
    Array { param: u32, promise: ArrayPromise },
}

/// A property of the elements of an array.
#[derive(Clone, Debug)]
pub enum ArrayPromise {
    /// `element op bound` holds for every element.
    All { op: BinaryOp, bound: Expr },
    /// No element is less than the element before it.
    Ascending,
    /// No two elements are equal.
    Distinct,
    /// The elements are distinct, at least 0 and less than the length of the array.
    Permutation,
}

impl Assume {
    /// Returns the expressions that the host evaluates at a launch.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        match &self.kind {
            AssumeKind::Condition(expr) | AssumeKind::Array { promise: ArrayPromise::All { bound: expr, .. }, .. } => {
                Some(expr)
            }
            AssumeKind::Array { .. } => None,
        }
        .into_iter()
    }
}

/// The body of a function, kernel, script chunk, test or bench, with its locals.
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
    /// Host only: a type that is known only at run time, such as that of the result of `load`.
    Unknown,
    Scalar(Scalar),
    /// A vector with 2, 3 or 4 components. Programs cannot declare `bool` vectors; they are the results of comparisons.
    Vector(Scalar, u8),
    /// The type parameter at this position of the enclosing item's `generics`.
    Param(u32),
    Array(Arc<ArrayType>),
    Struct(StructId),
    Tuple(Arc<[Type]>),
    Fn(Arc<FnType>),
    /// A string. This type and the following types are host only.
    Str,
    /// The type of `a..b`.
    Range,
    /// The result of `time { }`: fields `median min max` in seconds (f64), `runs` (i32).
    Timing,
    /// An array of strings, `[str; _]`. It has one axis, whose extent is not part of the type.
    Strings,
    /// A kernel as a value, by name.
    Kernel(KernelId),
    Module(ModuleId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayType {
    /// A scalar, vector, struct, tuple or type parameter.
    pub element: Type,
    /// The extents of the axes, outermost first; empty for a `shared` scalar.
    pub dims: Vec<Dim>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    Known(i64),
    /// The dimension name at this position of the enclosing item's `sig.dims`.
    Name(u32),
    /// The expression `sig.dim_exprs[i]` of the enclosing item.
    Expr(u32),
    /// In the type of a `shared` or local array: the i-th extent expression of that array, whose value is the same in
    /// all threads of a launch. On the host: an index into the `extents` of [`DeclaredType`].
    Local(u32),
    /// An extent that is known only at run time (host only).
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
    /// The value of the block; `None` if the type of the block is unit or `Never`.
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
    /// A `let` or `var`. On the device, the extents of an array are constants. `value` is `None` for a `var` without an
    /// initial value.
    Let {
        pattern: Pattern,
        value: Option<Expr>,
        /// The declared type. The host checks at run time that the value has this type. `None` in kernels.
        declared: Option<Box<DeclaredType>>,
    },
    /// Device: a local array. `extents` has one expression per axis, which is a constant after monomorphization.
    LocalArray {
        local: LocalId,
        extents: Vec<Expr>,
        init: ArrayInit,
    },
    /// Device: a `shared` array. The values of `extents` are the same in all threads of a launch. If all extents are
    /// constants, the array is in static shared memory.
    Shared {
        local: LocalId,
        extents: Vec<Expr>,
    },
    /// An assignment. With `op`, it is a compound assignment, `place = place op value`, in which `place` is evaluated
    /// once.
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

/// The device that executes the launches in an `on` block.
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
    /// No initial value. The elements are uninitialized until they are assigned.
    None,
    /// `= 0.0`: the value of every element.
    Fill(Expr),
    /// `= [a, b, c]`: the elements in row-major order.
    Elements(Vec<Expr>),
    /// `= other`: a copy of another array.
    Copy(Expr),
}

/// The type annotation of a host variable. The host checks those extents that the checker does not know.
#[derive(Clone, Debug)]
pub struct DeclaredType {
    /// The declared type. A [`Dim::Local`]`(i)` in it refers to `extents[i]`.
    pub ty: Type,
    pub extents: Vec<DeclaredExtent>,
    pub span: Span,
}

/// An extent in a type annotation that is not a known number.
#[derive(Clone, Debug)]
pub enum DeclaredExtent {
    /// An expression.
    Is(Expr),
    /// A name without a definition. It represents the extent of the value, which must be the same on all axes with this
    /// name.
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
    /// Returns whether the expression selects some elements of an array, or a component of each element. An assignment
    /// to such an expression broadcasts the value.
    pub fn is_part(&self) -> bool {
        match &self.kind {
            ExprKind::Slice { .. } => true,
            ExprKind::Field { base, .. } | ExprKind::TupleField { base, .. } | ExprKind::Swizzle { base, .. } => {
                matches!(base.ty, Type::Array(_))
            }
            _ => false,
        }
    }

    /// Returns whether the expression is an array literal that consists of number literals, or an `arange` of them.
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
    /// An integer of the expression's type: `Scalar`, `Param`, or `Unknown`, which adapts to the other operand.
    /// Negative only after constant folding.
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
    /// A builtin variable such as `thread_idx`; `clk_scalar::builtin` lists them. `thread_idx.x` is a `Swizzle` of it.
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
    /// `f32x3(a, b, c)`. The arguments are scalars or vectors with three components in total, or a single scalar that
    /// is broadcast.
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
    /// An element of an array, with one integer index per axis, or a vector component whose index is known only at run
    /// time. On the host, also an element of a value of type `Str`, `Strings` or `Unknown`.
    Index {
        base: Box<Expr>,
        indices: Vec<Expr>,
    },
    /// Host: a slice. At least one index is a range or is omitted.
    Slice {
        base: Box<Expr>,
        indices: Vec<SliceIndex>,
    },
    Call {
        callee: FnRef,
        args: Vec<Expr>,
    },
    /// Host: a scalar function that is applied to arrays elementwise, with broadcasting.
    Lift {
        callee: FnRef,
        args: Vec<Expr>,
    },
    /// A call of a builtin. Positional arguments are in the order of the builtin's signature; `named` does not contain
    /// omitted named arguments.
    Builtin {
        builtin: Builtin,
        args: Vec<Expr>,
        named: Vec<(SmolStr, Expr)>,
    },
    /// Host: a derivative of a function, evaluated at the arguments of a call.
    Derive(Box<Derive>),
    /// Host: a call of a function with a custom derivative.
    CustomVjp(Box<CustomVjp>),
    Launch(Box<LaunchExpr>),
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
    /// An array literal. The elements are in row-major order, and the type of the expression has the shape.
    Array(Vec<Expr>),
    /// A struct literal, with the values of all fields in the order of the struct's definition.
    Struct {
        id: StructId,
        fields: Vec<Expr>,
    },
    Time(Block),
    Error,
}

// The variants are not boxed, because slices are rare and a `SliceIndex` is stored only in the vector of a slice.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum SliceIndex {
    At(Expr),
    /// A value of type `Range`, or an array of positions or truth values: `x[r]`.
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
    Value { expr: Expr, format: Option<FormatSpec> },
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

/// A compile-time argument. A call has one for each generic parameter of the callee, in order.
#[derive(Clone, Debug)]
pub enum GenericArg {
    Type(Type),
    Const(Expr),
    Fn(FnRef),
    /// The argument had an error, which has been reported. The program is not executed.
    Error,
    /// The host infers the argument from the values of other arguments at run time, or evaluates the default, which
    /// depends on earlier compile-time arguments.
    Infer,
}

/// A derivative of a host function.
#[derive(Clone, Debug)]
pub struct Derive {
    pub kind: DerivativeKind,
    /// The function and its arguments: a `Call`, or a `Derive` that contains a `Call`.
    pub of: Expr,
    /// The positions of the parameters with respect to which the function is differentiated.
    pub wrt: Vec<u32>,
    /// The tangent argument of `jvp`, or the cotangent argument of `vjp`.
    pub seed: Option<Expr>,
}

/// A call of a function with a custom derivative: `with_grad(f, rule)(args)`.
#[derive(Clone, Debug)]
pub struct CustomVjp {
    pub args: Vec<Expr>,
    pub rule: Arc<Rule>,
}

/// A function and its custom derivative.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The locals that `of` and `back` use as arguments.
    pub params: Vec<LocalId>,
    pub of: Expr,
    /// The local that `back` uses as the cotangent of the result.
    pub cotangent: LocalId,
    /// The derivative rule: an expression for the cotangent of the active argument, or for the tuple of the cotangents
    /// if there are several.
    pub back: Expr,
    /// For each argument, whether it is active: it consists of floats, so it has a cotangent.
    pub active: Vec<bool>,
}

/// A kernel launch. The checker has compared the shapes that are known at compile time. The host binds dimensions and
/// checks all shapes at run time.
#[derive(Clone, Debug)]
pub struct LaunchExpr {
    pub kernel: KernelId,
    pub generics: Vec<GenericArg>,
    /// One argument for each parameter; `None` for an `out` argument, which the launch allocates and returns.
    pub args: Vec<Option<Expr>>,
    /// Dimensions that are passed by name: the position in `Signature::dims` and the value.
    pub dims: Vec<(u32, Expr)>,
    /// The grid of `<<<grid, block>>>`: an integer or a tuple of up to three (x first).
    pub grid: Option<Expr>,
    pub block: Option<Expr>,
    /// The compile-time constants that the launch does not pass, so that they have their defaults, by position in
    /// `Signature::generics`.
    pub left_off: Vec<u32>,
}
