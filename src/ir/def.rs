//! DeviceIR: arenas of pure expressions, a tree of statements with effects, structured control flow.
//!
//! - Everything is monomorphic: a value is a scalar or a vector of scalars. Structs and tuples are split into one value per leaf,
//!   that is, per scalar or vector component.
//! - An **expression** is evaluated once, by its `Let` (or by a statement that has it as its result), and is visible from there
//!   to the end of the enclosing block, including nested blocks. Expressions that are constant during a thread's life
//!   ([`ExprKind::is_free`]: constants, parameters, indices, extents) need no `Let`.
//! - `Read` of a local and `Load` of memory are expressions whose `Let` determines when they happen.
//! - `verify` lists and checks all invariants; only [`crate::ir::verify::Verified`] modules reach a device.

use std::sync::Arc;

use crate::base::arena::{Arena, Id, Side};
use crate::base::source::Span;
use crate::ir::calls::Call;
use crate::lang::cores::Cores;
use crate::lang::ops::{AtomicOp, BarrierKind, BinaryOp, MathFn, UnaryOp, WarpOp};
pub use crate::lang::scalar::Scalar;

pub type ExprId = Id<Expr>;
pub type LocalId = Id<Local>;
pub type MemId = Id<Memory>;
pub type FunctionId = Id<Function>;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    Scalar(Scalar),
    /// A vector of 2, 3 or 4 lanes.
    Vector(Scalar, u8),
}

impl Ty {
    pub fn scalar(self) -> Scalar {
        match self {
            Ty::Scalar(s) | Ty::Vector(s, _) => s,
        }
    }

    /// Returns the number of lanes; 1 for a scalar.
    pub fn lanes(self) -> u8 {
        match self {
            Ty::Scalar(_) => 1,
            Ty::Vector(_, n) => n,
        }
    }

    pub fn with_scalar(self, s: Scalar) -> Ty {
        match self {
            Ty::Scalar(_) => Ty::Scalar(s),
            Ty::Vector(_, n) => Ty::Vector(s, n),
        }
    }

    /// Returns the bytes in memory, without padding.
    pub fn size(self) -> usize {
        self.scalar().size() * self.lanes() as usize
    }

    /// Returns the alignment, as in CUDA: a vector of 2 or 4 is aligned to its size (at most 16), of 3 to its scalar.
    pub fn align(self) -> usize {
        match self {
            Ty::Vector(s, n) if n != 3 => (s.size() * n as usize).min(16),
            _ => self.scalar().size(),
        }
    }
}

/// The memory layout of an array element: its leaves (scalar and vector components) at byte offsets, as C would lay out the
/// struct.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    pub leaves: Vec<Leaf>,
    pub size: usize,
    pub align: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// Access path inside the element, such as `pos.x`, for messages and generated code; empty for a plain element.
    pub path: String,
    pub ty: Ty,
    pub offset: usize,
}

impl Layout {
    /// Returns the number of scalars in an element.
    pub fn scalars(&self) -> usize {
        self.leaves.iter().map(|leaf| usize::from(leaf.ty.lanes())).sum()
    }

    /// Returns the layout of a plain scalar or vector element.
    pub fn plain(ty: Ty) -> Layout {
        let (size, align) = (ty.size(), ty.align());
        Layout { leaves: vec![Leaf { path: String::new(), ty, offset: 0 }], size, align }
    }

    /// Returns C's layout of a struct with these leaves.
    pub fn of(leaves: impl IntoIterator<Item = (String, Ty)>) -> Layout {
        let mut layout = Layout { leaves: vec![], size: 0, align: 1 };
        for (path, ty) in leaves {
            let offset = layout.size.next_multiple_of(ty.align());
            layout.leaves.push(Leaf { path, ty, offset });
            layout.size = offset + ty.size();
            layout.align = layout.align.max(ty.align());
        }
        layout.size = layout.size.next_multiple_of(layout.align);
        layout
    }
}

/// A kernel with the functions it calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Callees precede their callers; the kernel's body is the last one.
    pub functions: Arena<Function>,
    pub kernel: Kernel,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    pub name: String,
    pub body: FunctionId,
    pub form: Form,
    /// In signature order; `body`'s `Param(i)` and global memories refer to them by position.
    pub params: Vec<KernelParam>,
    /// Contains a grid barrier, so that launches have to be cooperative.
    pub cooperative: bool,
    /// What the body is, if it is that.
    pub product: Option<Arc<Product>>,
    pub tiles: Option<Arc<Tiles>>,
    pub span: Span,
}

/// A product of two matrices with `f32` sums, as it is found in a kernel of tiles: tensor cores compute it in place of the
/// body, with the same bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    pub a: Factor,
    pub b: Factor,
    /// The tensor cores whose bits its sums have.
    pub cores: Cores,
    /// The rows and columns of the result that a block of the launch computes. The blocks along y and x together compute as many times
    /// these; what is beyond the factors is zero.
    pub tile: [u32; 2],
    /// What is done with an element of the product: a kernel `threads(row, column)`, with the parameters of this one and behind them
    /// the element, an `f32` value.
    pub epilogue: Module,
}

/// A factor: an array of `f16` or `bf16` with two axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// The position of the parameter.
    pub param: u32,
    /// The first factor is given by its columns, or the second one by its rows: the axis of the sum is the first one of `a`, or the
    /// second one of `b`.
    pub transposed: bool,
}

/// What a loop does for all threads of a block together; derivatives take it for that, and the simulator may do it otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum Together {
    Product(Factors),
    Copy(Box<Copied>),
}

/// What a loop fills a matrix or an array of the block with: a part of another one, with zeros beyond its edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Copied {
    /// Filled as a whole.
    pub to: MemId,
    pub from: MemId,
    /// One for each axis of `from`. The elements are taken in the order of memory.
    pub along: Vec<Taken>,
    /// `to` is a matrix, of which the elements in this order are the columns.
    pub transposed: bool,
    /// Elements are rounded by `tf32`.
    pub rounded: bool,
}

impl Copied {
    /// Returns whether there are as many elements as `to` has, of the same type, and as many axes as `from` has.
    pub fn fits(&self, f: &Function) -> bool {
        let (Some(to), Some(from)) = (f.memories.get(self.to), f.memories.get(self.from)) else { return false };
        let taken = self.along.iter().map(|taken| match taken {
            Taken::At(_) => 1,
            Taken::From { extent, .. } => u64::from(*extent),
        });
        let count = taken.fold(1, u64::saturating_mul);
        let fits = to.known_len() == Some(count) && self.along.len() == from.extents.len() && to.layout == from.layout;
        fits && to.layout.leaves.len() == 1 && (!self.transposed || to.extents.len() == 2)
    }
}

/// What is taken along an axis; numbers are `i32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    At(ExprId),
    /// So many indices from `start` on, every `step`-th, as far as they are below `end` and inside.
    From {
        start: ExprId,
        extent: u32,
        step: u32,
        end: Option<ExprId>,
    },
}

/// What a loop adds up: `sum += left @ right`. All three are matrices of the block with known extents; the threads of the block
/// share the elements of the sum among them, between barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factors {
    pub sum: MemId,
    pub left: MemId,
    pub right: MemId,
    pub sums: Sums,
}

/// How `mma` adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sums {
    /// With the bits of these tensor cores (`lower::tensor`): in groups of terms, cut to a common grid.
    Cut(Cores),
    /// Each term with one rounding in `f32`, in order.
    Rounded,
}

impl Default for Sums {
    fn default() -> Sums {
        Sums::Cut(Cores::default())
    }
}

impl Sums {
    /// Returns the tensor cores whose bits the sums have; the usual ones where they have those of none.
    pub fn cores(self) -> Cores {
        match self {
            Sums::Cut(cores) => cores,
            Sums::Rounded => Cores::default(),
        }
    }
}

impl Factors {
    /// Returns the rows and columns of the sum, and what is summed over.
    pub fn extents(&self, f: &Function) -> Option<[u32; 3]> {
        let of = |memory: MemId| match f.memories.get(memory)?.extents[..] {
            [Extent::Known(rows), Extent::Known(columns)] => Some((rows, columns)),
            _ => None,
        };
        let ((m, n), (rows, k), (l, columns)) = (of(self.sum)?, of(self.left)?, of(self.right)?);
        ((m, n, k) == (rows, columns, l)).then_some([m, n, k])
    }
}

/// A body that computes with tiles of values alone, as the steps of a block: a device may keep the tiles where it likes, and run the
/// steps in place of the body, with the same bits. What no step can do is not there: memory of the block that threads index, atomics,
/// prints, values that differ between the threads of a block.
///
/// Numbers and elements are computed by kernels `threads(row, column)`. Their parameters are those of this kernel, then the block's
/// numbers along x, y, z, then the counters of all loops (all `i32`), then elements of tiles, in the order of the step's operands. What they give
/// is stored in their last parameter, an array without axes; an element of an array of the kernel is stored there.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiles {
    /// The tensor cores whose bits the sums of its products have.
    pub cores: Cores,
    /// The rows of all tiles.
    pub rows: u32,
    pub held: Vec<HeldTile>,
    /// The names of the counters of loops.
    pub counters: Vec<String>,
    pub steps: Vec<TileStep>,
}

/// A tile, or with no columns a value for each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldTile {
    pub name: String,
    pub scalar: Scalar,
    pub columns: Option<u32>,
    /// The first factor of products, and nothing else: of `f16`, `bf16`, or `f32` that is rounded to tf32.
    pub is_factor: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TileStep {
    /// Computes each element from those at its place, and the values of its row.
    Each { to: TileTarget, operands: Vec<usize>, element: Module },
    /// Puts the elements of each row together, in halves: element `k + h` to element `k`, with `h` the largest power of two below their
    /// number. `fold` takes the two in this order.
    Fold { to: usize, of: usize, fold: Module },
    /// Adds a product to a tile, in groups of terms in ascending order, as its tensor cores do; elements of factors of `f32` are rounded to tf32.
    Product { sum: usize, terms: u32, a: TileFactor, b: TilePart },
    /// Does the one or the other; the number is not 0 where it is the first.
    If { cond: Module, then: Vec<TileStep>, other: Vec<TileStep> },
    /// What is stored before is stored before what is stored behind.
    Meet,
    /// Repeats steps; the counter starts at the first number, and grows by `step`, which is positive, while it is below the second one.
    Repeat { counter: usize, bounds: Box<[Module; 2]>, step: u32, body: Vec<TileStep> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileTarget {
    /// The tile at this position of [`Tiles::held`].
    Held(usize),
    /// Elements of an array, for so many columns, or one for each row.
    Array(Option<u32>),
}

/// The first factor of a product.
#[derive(Clone, Debug, PartialEq)]
pub enum TileFactor {
    Held(usize),
    Part(TilePart),
}

/// A part of an array that nobody writes, as a matrix: its columns run along the last axis, its rows along all others, in the order of
/// memory. Beyond the edge are zeros.
#[derive(Clone, Debug, PartialEq)]
pub struct TilePart {
    /// The position of the parameter.
    pub param: u32,
    pub scalar: Scalar,
    /// The factor is its transposition.
    pub transposed: bool,
    pub axes: Vec<TileAxis>,
    /// Loads the element in a row and a column, with the faults of indices that are none of windows.
    pub element: Module,
}

/// What a part has of an axis of its array: so many indices from `start` on, every `step`-th.
#[derive(Clone, Debug, PartialEq)]
pub struct TileAxis {
    pub start: Module,
    pub extent: u32,
    pub step: u32,
}

impl TilePart {
    /// The most axes of such an array.
    pub const MOST_AXES: usize = 5;

    /// Returns its rows and columns.
    pub fn extents(&self) -> [u32; 2] {
        let columns = self.axes.last().map_or(1, |axis| axis.extent);
        [self.axes.iter().map(|axis| axis.extent).product::<u32>() / columns, columns]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `threads(…)` with this many indices: the body runs once per index tuple, `Index(k)` is the k-th (last fastest). No
    /// barriers, warp operations, `shared` or thread ids.
    Threads { rank: u8 },
    /// `grid(…) block(…)`: explicit blocks.
    Grid,
}

/// A launch parameter. A struct or tuple by value is one `Value` per leaf.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelParam {
    Value { name: String, ty: Ty },
    Array { name: String, access: Access, memory: MemId },
}

impl KernelParam {
    /// Returns the access to an array.
    pub fn access(&self) -> Option<Access> {
        match self {
            KernelParam::Array { access, .. } => Some(*access),
            KernelParam::Value { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    In,
    Out,
    InOut,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: String,
    /// Types of the value parameters, `ExprKind::Param(i)`. Empty for the kernel's body, whose `Param(i)` is the i-th of
    /// `Kernel::params` (a `Value`).
    pub params: Vec<Ty>,
    /// The types that `Return` returns, one per leaf; empty for unit and for kernels.
    pub results: Vec<Ty>,
    pub locals: Arena<Local>,
    pub memories: Arena<Memory>,
    pub exprs: Arena<Expr>,
    pub spans: Side<Expr, Span>,
    pub body: Block,
    pub span: Span,
    /// The calls that were inlined, in runs with checks.
    pub calls: Vec<Call>,
}

/// A mutable variable of one thread, or a parameter copied into one.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    pub name: String,
    pub ty: Ty,
    pub span: Span,
}

/// An array that the function accesses.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    pub name: String,
    pub space: Space,
    pub layout: Layout,
    /// One per axis, outermost first.
    pub extents: Vec<Extent>,
    /// The contents of a [`Space::Constant`] memory, as scalar bits: element by element, leaf by leaf, lane by lane. Empty for
    /// other spaces.
    pub values: Arc<[u64]>,
    pub span: Span,
}

impl Memory {
    /// Returns the number of elements, if its extents are known.
    pub fn known_len(&self) -> Option<u64> {
        self.extents.iter().try_fold(1_u64, |all, extent| match extent {
            Extent::Known(n) => Some(all.saturating_mul(u64::from(*n))),
            Extent::Dynamic(_) | Extent::Launch => None,
        })
    }

    /// Returns the contents of a [`Space::Constant`] memory as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; (self.known_len().unwrap_or(0) as usize).saturating_mul(self.layout.size)];
        let mut values = self.values.iter();
        for element in bytes.chunks_mut(self.layout.size.max(1)) {
            for leaf in &self.layout.leaves {
                let size = leaf.ty.scalar().size();
                let lanes = element.get_mut(leaf.offset..leaf.offset + leaf.ty.size()).unwrap_or_default();
                for (lane, value) in lanes.chunks_mut(size).zip(&mut values) {
                    lane.copy_from_slice(&value.to_le_bytes()[..size]);
                }
            }
        }
        bytes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The kernel's parameter at this position.
    Global {
        param: u32,
        access: Access,
    },
    Shared,
    /// Private to a thread.
    Local,
    /// Known at compile time, the same for all threads, and never written.
    Constant,
    /// A function's array parameter at this position of the call's `memories`; the actual space depends on the caller.
    Param {
        position: u32,
        access: Access,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    Known(u32),
    /// A launch-uniform i32 expression (`shared` of dynamic size): free expressions and operators on them, evaluated by the
    /// device when a block starts.
    Dynamic(ExprId),
    /// Given by the launch (global memory) or by the caller (`Space::Param`).
    Launch,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: Ty,
}

/// A memory location: one element of a memory, or one leaf of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub memory: MemId,
    /// One per axis, each of any integer type; bounds are checked at run time.
    pub indices: Vec<ExprId>,
    /// Position in `layout.leaves`.
    pub leaf: u32,
    /// One component of a vector leaf (`p[i].x = …`); `None` for the whole leaf.
    pub component: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hint {
    #[default]
    None,
    Cached,
    Streaming,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    X,
    Y,
    Z,
}

/// The built-in indices and dimensions of a thread; all `i32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Id3 {
    Thread,
    Block,
    BlockDim,
    GridDim,
    Global,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExprKind {
    /// Scalar bits, zero-extended (`lang::scalar::Value`).
    Const(u64),
    /// The function's value parameter at this position.
    Param(u32),
    Id(Id3, Axis),
    /// `Form::Threads`: the k-th index.
    Index(u8),
    /// i32
    LaneIdx,
    WarpIdx,
    /// A memory's extent along an axis, i32.
    Extent(MemId, u8),
    Read(LocalId),
    Load {
        place: Place,
        hint: Hint,
    },
    Unary {
        op: UnaryOp,
        value: ExprId,
    },
    /// Operands of the same type (vectors elementwise); shifts take a right operand of any integer scalar type (per lane for
    /// vectors).
    Binary {
        op: BinOp,
        left: ExprId,
        right: ExprId,
    },
    Math {
        function: MathFn,
        args: Vec<ExprId>,
    },
    /// `cond` is bool (or a bool vector with as many lanes as the operands).
    Select {
        cond: ExprId,
        then: ExprId,
        other: ExprId,
    },
    /// Scalar conversion by the rules of `lang::scalar::convert`; elementwise on vectors.
    Convert(ExprId),
    /// The same bits as another type. A float as its own type is itself, taken as a constant by derivatives.
    Bitcast(ExprId),
    /// A vector of scalars, one per lane.
    Compose(Vec<ExprId>),
    Extract {
        value: ExprId,
        lane: u8,
    },
    /// The result of the statement that names this expression (atomic, barrier, warp operation, call).
    Result,
}

impl ExprKind {
    /// Returns whether it is constant during a thread's life, so that it is usable anywhere without a `Let`.
    pub fn is_free(&self) -> bool {
        use ExprKind::*;
        matches!(self, Const(_) | Param(_) | Id(..) | Index(_) | LaneIdx | WarpIdx | Extent(..))
    }
}

/// Strict binary operators (the source's `&&` and `||` are lowered to control flow, or to `And`/`Or` on pure bools).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Pow,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl BinOp {
    pub fn is_comparison(self) -> bool {
        use BinOp::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    /// Returns the DeviceIR operator, if there is one.
    pub fn strict(op: BinaryOp) -> Option<BinOp> {
        Some(match op {
            BinaryOp::Add => BinOp::Add,
            BinaryOp::Sub => BinOp::Sub,
            BinaryOp::Mul => BinOp::Mul,
            BinaryOp::Div => BinOp::Div,
            BinaryOp::Rem => BinOp::Rem,
            BinaryOp::Pow => BinOp::Pow,
            BinaryOp::MatMul => return None,
            BinaryOp::BitAnd | BinaryOp::And => BinOp::And,
            BinaryOp::BitOr | BinaryOp::Or => BinOp::Or,
            BinaryOp::BitXor => BinOp::Xor,
            BinaryOp::Shl => BinOp::Shl,
            BinaryOp::Shr => BinOp::Shr,
            BinaryOp::Eq => BinOp::Eq,
            BinaryOp::Ne => BinOp::Ne,
            BinaryOp::Lt => BinOp::Lt,
            BinaryOp::Le => BinOp::Le,
            BinaryOp::Gt => BinOp::Gt,
            BinaryOp::Ge => BinOp::Ge,
        })
    }

    /// Returns the operator of the language with the same result; `And`, `Or` and `Xor` are the strict ones.
    pub fn operator(self) -> BinaryOp {
        match self {
            BinOp::Add => BinaryOp::Add,
            BinOp::Sub => BinaryOp::Sub,
            BinOp::Mul => BinaryOp::Mul,
            BinOp::Div => BinaryOp::Div,
            BinOp::Rem => BinaryOp::Rem,
            BinOp::Pow => BinaryOp::Pow,
            BinOp::And => BinaryOp::BitAnd,
            BinOp::Or => BinaryOp::BitOr,
            BinOp::Xor => BinaryOp::BitXor,
            BinOp::Shl => BinaryOp::Shl,
            BinOp::Shr => BinaryOp::Shr,
            BinOp::Eq => BinaryOp::Eq,
            BinOp::Ne => BinaryOp::Ne,
            BinOp::Lt => BinaryOp::Lt,
            BinOp::Le => BinaryOp::Le,
            BinOp::Gt => BinaryOp::Gt,
            BinOp::Ge => BinaryOp::Ge,
        }
    }
}

pub type Block = Vec<Stmt>;

#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

/// The target of `Break` and `Continue`, unique in its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(pub u32);

#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// Evaluates the expression here.
    Let(ExprId),
    Write {
        local: LocalId,
        value: ExprId,
    },
    Store {
        place: Place,
        value: ExprId,
        hint: Hint,
    },
    /// `result` is an `ExprKind::Result` of the location's type, if the old value is used. The location is a scalar.
    Atomic {
        op: AtomicOp,
        place: Place,
        value: ExprId,
        compare: Option<ExprId>,
        result: Option<ExprId>,
    },
    Barrier {
        kind: BarrierKind,
        value: Option<ExprId>,
        result: Option<ExprId>,
    },
    /// `lane` is the second argument of shuffles (i32 or u32). `among` is the mask of the lanes that take part (u32); without it
    /// all lanes of the warp do.
    Warp {
        op: WarpOp,
        value: ExprId,
        lane: Option<ExprId>,
        among: Option<ExprId>,
        result: ExprId,
    },
    Fence(Scope),
    If {
        cond: ExprId,
        then: Block,
        other: Block,
    },
    /// `local` runs from `start` by `step` while it is `< end` (`<= end` if inclusive; `>`/`>=` if `step` is negative); all have
    /// the local's integer type and are evaluated once. A zero step is a fault. The body does not write the local. The trip count
    /// is fixed on entry; the local never overflows.
    For {
        label: Label,
        local: LocalId,
        start: ExprId,
        end: ExprId,
        step: ExprId,
        inclusive: bool,
        unroll: Unroll,
        /// What the threads of the block do by this loop, each for its own elements, between two barriers.
        together: Option<Together>,
        body: Block,
    },
    /// Repeats until a `Break`.
    Loop {
        label: Label,
        unroll: Unroll,
        body: Block,
    },
    /// A `Break` with its label leaves it (early return of inlined functions, `&&` and `||`).
    Block {
        label: Label,
        body: Block,
    },
    Break(Label),
    /// Starts the next iteration of the enclosing loop with this label.
    Continue(Label),
    Return(Vec<ExprId>),
    Call {
        function: FunctionId,
        args: Vec<ExprId>,
        memories: Vec<MemId>,
        results: Vec<ExprId>,
    },
    Assert {
        cond: ExprId,
        message: Vec<Part>,
    },
    Print {
        parts: Vec<Part>,
    },
    /// Makes the memory's elements unwritten (a local array that is declared in a loop is new in each iteration).
    Declare(MemId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Block,
    Device,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unroll {
    #[default]
    Auto,
    Full,
    By(u32),
    Never,
}

/// A piece of a message that a kernel formats.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text(String),
    /// The value and its format spec (the text behind the colon; may be empty).
    Value(ExprId, String),
}
