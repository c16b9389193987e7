//! DeviceIR: arenas of pure expressions, a tree of statements with effects, structured control flow.
//!
//! - Everything is monomorphic: a value is a scalar or a vector of scalars. Structs and tuples are split into one value
//!   per leaf (field of scalar or vector type).
//! - An **expression** is evaluated at one position: at its `Let`, or at the statement that has it as a result. It is
//!   visible from that position to the end of the enclosing block, including nested blocks. *Free* expressions
//!   ([`ExprKind::is_free`]: constants, parameters, indices, extents) are constant during a thread's life and need no
//!   `Let`.
//! - `Read` of a local and `Load` of memory are expressions. The position of their `Let` determines when they execute.
//! - `verify` lists and checks all invariants. Devices accept only [`crate::verify::Verified`] modules.

use std::fmt;
use std::sync::Arc;

use crate::inlined_calls::InlinedCall;
use clk_base::arena::{Arena, Id, SideTable};
use clk_base::source::Span;
pub use clk_scalar::Scalar;
use clk_scalar::ScalarValue;
use clk_scalar::ops::{AtomicOp, BarrierKind, BinaryOp, MathFn, UnaryOp, WarpOp};
use clk_scalar::tensor_core_model::TensorCoreModel;

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

/// Formats as `f32` or `i32x4`.
impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Scalar(s) => f.write_str(s.name()),
            Ty::Vector(s, n) => write!(f, "{}x{n}", s.name()),
        }
    }
}

impl Ty {
    pub fn scalar(self) -> Scalar {
        match self {
            Ty::Scalar(s) | Ty::Vector(s, _) => s,
        }
    }

    /// Returns the type if it is a scalar integer.
    pub fn as_int(self) -> Option<Scalar> {
        match self {
            Ty::Scalar(s) if s.is_int() => Some(s),
            _ => None,
        }
    }

    /// Returns the number of lanes. A scalar has one.
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

    /// Returns the size in memory in bytes, without padding.
    pub fn size(self) -> usize {
        self.scalar().size() * self.lanes() as usize
    }

    /// Returns the alignment, as in CUDA. A vector of 2 or 4 lanes is aligned to its size (at most 16 bytes), a vector
    /// of 3 lanes to the size of one lane.
    pub fn align(self) -> usize {
        match self {
            Ty::Vector(s, n) if n != 3 => (s.size() * n as usize).min(16),
            _ => self.scalar().size(),
        }
    }
}

/// The memory layout of an array element. Its leaves (fields of scalar or vector type) have the same byte offsets as in
/// the equivalent C struct.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementLayout {
    pub leaves: Vec<Leaf>,
    pub size: usize,
    pub align: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// Access path inside the element, such as `pos.x`, for messages and generated code. Empty if the element is a
    /// scalar or a vector.
    pub path: String,
    pub ty: Ty,
    pub offset: usize,
}

impl ElementLayout {
    /// Returns the number of scalars in an element.
    pub fn scalar_count(&self) -> usize {
        self.leaves.iter().map(|leaf| usize::from(leaf.ty.lanes())).sum()
    }

    /// Returns the number of scalars before a leaf, or before a component of it.
    pub fn scalars_before(&self, leaf: u32, component: Option<u8>) -> usize {
        let leaves = self.leaves.iter().take(leaf as usize);
        leaves.map(|leaf| usize::from(leaf.ty.lanes())).sum::<usize>() + usize::from(component.unwrap_or(0))
    }

    /// Returns the layout of an element that is a single scalar or vector.
    pub fn plain(ty: Ty) -> ElementLayout {
        let (size, align) = (ty.size(), ty.align());
        ElementLayout { leaves: vec![Leaf { path: String::new(), ty, offset: 0 }], size, align }
    }

    /// Returns the layout that C defines for a struct with these leaves.
    pub fn from_leaves(leaves: impl IntoIterator<Item = (String, Ty)>) -> ElementLayout {
        let mut layout = ElementLayout { leaves: vec![], size: 0, align: 1 };
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
    /// Callees precede their callers. The kernel's body is the last function.
    pub functions: Arena<Function>,
    pub kernel: Kernel,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    pub name: String,
    pub body: FunctionId,
    pub form: LaunchForm,
    /// The launch parameters, in signature order. `Param(i)` and the global memories of `body` refer to parameters by
    /// position.
    pub params: Vec<KernelParam>,
    /// Whether the kernel contains a grid barrier. Its launches must then be cooperative.
    pub cooperative: bool,
    /// Set if the whole kernel is a matrix product. Devices with tensor cores run this instead of `body`.
    pub gemm: Option<Arc<GemmKernel>>,
    /// Set if the kernel computes only with tiles. Devices may run this instead of `body`.
    pub tile_program: Option<Arc<TileProgram>>,
    pub span: Span,
}

/// The operation that the threads of a block perform together by executing a loop. Automatic differentiation treats it
/// as one operation, and the simulator may execute it as one operation instead of interpreting the loop.
#[derive(Clone, Debug, PartialEq)]
pub enum CollectiveLoop {
    Gemm(CollectiveGemm),
    Copy(Box<TileCopy>),
}

/// A copy of a window of an array to a matrix or a shared array of the block. A window is the set of elements with
/// certain indices along each axis ([`AxisWindow`]). Elements of the window that are outside the array read as zero.
#[derive(Clone, Debug, PartialEq)]
pub struct TileCopy {
    /// The destination. The copy writes all its elements.
    pub to: MemId,
    pub from: MemId,
    /// The window along each axis of `from`. Elements are copied in memory order.
    pub axes: Vec<AxisWindow>,
    /// Whether `to` is a matrix that receives the elements in column-major order.
    pub transposed: bool,
    /// Whether the copied elements are rounded to `tf32`.
    pub rounded: bool,
}

impl TileCopy {
    /// Returns whether `to` and the window have the same number and type of elements, and `from` has the same number of
    /// axes as the window.
    pub fn is_consistent(&self, f: &Function) -> bool {
        let (Some(to), Some(from)) = (f.memories.get(self.to), f.memories.get(self.from)) else { return false };
        let extents = self.axes.iter().map(|window| match window {
            AxisWindow::Index(_) => 1,
            AxisWindow::Range { extent, .. } => u64::from(*extent),
        });
        let count = extents.fold(1, u64::saturating_mul);
        let is_same_size = to.known_len() == Some(count) && self.axes.len() == from.extents.len();
        is_same_size
            && to.layout == from.layout
            && to.layout.leaves.len() == 1
            && (!self.transposed || to.extents.len() == 2)
    }
}

/// The indices along one axis that a copy reads. All expressions are `i32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisWindow {
    Index(ExprId),
    /// `extent` indices: `start`, `start + step`, and so on. An index that is outside the array or at least `end` reads
    /// as zero.
    Range {
        start: ExprId,
        extent: u32,
        step: u32,
        end: Option<ExprId>,
    },
}

/// A matrix product that a loop accumulates: `sum += left @ right`. All three are matrices of the block with known
/// extents. Each thread of the block computes some elements of the sum, between two barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveGemm {
    pub sum: MemId,
    pub left: MemId,
    pub right: MemId,
    pub precision: MmaPrecision,
}

/// How `mma` (matrix multiply-accumulate) rounds its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaPrecision {
    /// The same rounding as these tensor cores: terms are truncated to a common exponent and added in groups (see
    /// `clk_lower::mma_emulation`).
    TensorCore(TensorCoreModel),
    /// Terms are added in order, each with one `f32` rounding.
    Sequential,
}

impl Default for MmaPrecision {
    fn default() -> MmaPrecision {
        MmaPrecision::TensorCore(TensorCoreModel::default())
    }
}

impl MmaPrecision {
    /// Returns the tensor core generation that determines the rounding; for `Sequential`, the default generation.
    pub fn cores(self) -> TensorCoreModel {
        match self {
            MmaPrecision::TensorCore(cores) => cores,
            MmaPrecision::Sequential => TensorCoreModel::default(),
        }
    }
}

impl CollectiveGemm {
    /// Returns the number of rows and columns of the sum, and the length of the summation axis. `None` if the extents
    /// are not known or do not match.
    pub fn extents(&self, f: &Function) -> Option<[u32; 3]> {
        let matrix_extents = |memory: MemId| match f.memories.get(memory)?.extents[..] {
            [Extent::Known(rows), Extent::Known(columns)] => Some((rows, columns)),
            _ => None,
        };
        let ((m, n), (rows, k), (l, columns)) =
            (matrix_extents(self.sum)?, matrix_extents(self.left)?, matrix_extents(self.right)?);
        ((m, n, k) == (rows, columns, l)).then_some([m, n, k])
    }
}

/// A tile program: the body of a kernel that computes only with tiles, as steps that a whole block executes. A device
/// may run the steps instead of the body, with bit-identical results. It may keep the tiles in any kind of memory. Tile
/// programs have no shared arrays, no atomics, no prints, and no values that differ between the threads of a block.
///
/// Each number or element that a step needs is computed by a kernel `threads(row, column)`. Its parameters are:
/// - the parameters of this kernel,
/// - the block's indices along x, y and z, and the counters of all loops, all as `i32`,
/// - elements of tiles, in the order of the step's operands.
///
/// It stores the result in its last parameter, an array without axes. If the step writes an array of the tile program's
/// kernel, it stores the element in that array instead. It may then read the same element of that array before.
#[derive(Clone, Debug, PartialEq)]
pub struct TileProgram {
    /// How the sums of products are rounded.
    pub sums: MmaPrecision,
    /// The number of rows of all tiles.
    pub rows: u32,
    /// The shapes of the kernel's array parameters.
    pub arrays: Vec<ArrayShape>,
    pub tiles: Vec<TileVar>,
    /// The names of the loop counters.
    pub counters: Vec<String>,
    pub steps: Vec<TileStep>,
}

/// The declared shape of an array parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// The position of the kernel parameter.
    pub param: u32,
    /// The dimension along each axis. Axes with the same dimension have the same extent in every launch. `None` for
    /// other axes.
    pub dims: Vec<Option<String>>,
}

/// A variable of a tile program: a matrix with `columns` columns, or a vector with one value per row if `columns` is
/// `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileVar {
    pub name: String,
    pub scalar: Scalar,
    pub columns: Option<u32>,
    /// Whether the tile is used only as the left operand of matrix products. The elements of such a tile are `f16`,
    /// `bf16`, or `f32` rounded to TF32.
    pub is_lhs: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TileStep {
    /// Computes each element from the operands' elements at the same position. An operand without columns provides its
    /// value for the row.
    Map { to: TileTarget, operands: Vec<usize>, element: Module },
    /// Reduces each row to one value, pairwise: combines element `k + h` into element `k`, where `h` is the largest
    /// power of two below the number of remaining elements, and repeats. `combine` receives element `k`, then element
    /// `k + h`.
    Reduce { to: usize, of: usize, combine: Module },
    /// Adds a matrix product to a tile. Groups of terms are added in ascending order, with the rounding that
    /// [`TileProgram::sums`] names. `f32` operands are rounded to TF32.
    Mma { sum: usize, terms: u32, a: TileGemmOperand, b: ArrayWindow },
    /// Runs `then` if `cond` computes a nonzero number, otherwise `other`.
    If { cond: Module, then: Vec<TileStep>, other: Vec<TileStep> },
    /// Orders stores: those before this step complete before any store after it.
    Barrier,
    /// A counting loop. The counter starts at the first bound and grows by `step`, which is positive; `body` runs while
    /// the counter is below the second bound.
    Repeat { counter: usize, bounds: Box<[Module; 2]>, step: u32, body: Vec<TileStep> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileTarget {
    /// The tile at this index of [`TileProgram::tiles`].
    Tile(usize),
    /// An array of the kernel. The number is the number of columns written in each row; `None` writes one element per
    /// row.
    Array(Option<u32>),
}

/// The left operand of a matrix product in a tile program.
#[derive(Clone, Debug, PartialEq)]
pub enum TileGemmOperand {
    Tile(usize),
    Window(ArrayWindow),
}

/// A window (a set of indices along each axis) of an array that the kernel does not write, viewed as a matrix. Columns
/// run along the last axis, and rows along all other axes in memory order. Elements outside the array read as zero.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayWindow {
    /// The position of the kernel parameter.
    pub param: u32,
    pub scalar: Scalar,
    /// Whether the operand is the transpose of the window.
    pub transposed: bool,
    pub axes: Vec<TileAxis>,
    /// A kernel that loads the element at a row and a column.
    pub element: Module,
}

/// The window along an axis: `extent` indices, from `start` in steps of `step`.
#[derive(Clone, Debug, PartialEq)]
pub struct TileAxis {
    pub start: Module,
    pub extent: u32,
    pub step: u32,
    /// Whether the window has only the index `start` along this axis, and it is a fault if that is out of bounds.
    pub is_index: bool,
}

/// A product of two matrices with `f32` sums: a tile program that does nothing else. Tensor cores compute it instead of
/// the kernel's body, with bit-identical results, in tiles of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct GemmKernel {
    pub a: GemmOperand,
    pub b: GemmOperand,
    /// The tensor core generation whose rounding the sums follow.
    pub cores: TensorCoreModel,
    /// The rows and columns of the result that one block of the launch computes. The grid covers the result with such
    /// tiles; elements outside the operands are zero.
    pub tile: [u32; 2],
    /// A kernel `threads(row, column)` that processes one element of the product. Its parameters are the parameters of
    /// this kernel, followed by the element as an `f32`.
    pub epilogue: Module,
}

/// An operand of a [`GemmKernel`]: an array of `f16`, `bf16` or `f32` with two axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmOperand {
    /// The position of the kernel parameter.
    pub param: u32,
    /// The array stores the operand transposed: the summation axis is the first axis of `a`, or the second axis of `b`.
    pub transposed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchForm {
    /// `threads(…)` with `rank` indices. The body runs once per index tuple; `Index(k)` is the k-th index, and the last
    /// index varies fastest. Such a kernel has no barriers, warp operations, shared memory or thread ids.
    Threads { rank: u8 },
    /// `grid(…) block(…)`: a grid of blocks, as in CUDA.
    Grid,
}

/// A launch parameter. A struct or tuple passed by value becomes one `Value` for each leaf (scalar or vector field).
#[derive(Clone, Debug, PartialEq)]
pub enum KernelParam {
    Value { name: String, ty: Ty },
    Array { name: String, access: Access, memory: MemId },
}

impl KernelParam {
    /// Returns how the kernel may access the array (`in`, `out` or `inout`); `None` for a by-value parameter.
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
    /// The types of the value parameters; `ExprKind::Param(i)` refers to parameter `i`. Empty for the kernel's body,
    /// where `Param(i)` refers to `Kernel::params[i]`, which is then a `Value`.
    pub params: Vec<Ty>,
    /// The types of the values that `Return` returns: one for each leaf of the result. Empty for unit and for kernels.
    pub results: Vec<Ty>,
    pub locals: Arena<Local>,
    pub memories: Arena<Memory>,
    pub exprs: Arena<Expr>,
    pub spans: SideTable<Expr, Span>,
    pub body: Block,
    pub span: Span,
    /// The calls that were inlined into this function. Recorded only if checks are enabled.
    pub calls: Vec<InlinedCall>,
}

impl Function {
    /// Returns the value of an expression if it is a scalar constant.
    pub fn const_value(&self, id: ExprId) -> Option<ScalarValue> {
        match self.exprs[id] {
            Expr { kind: ExprKind::Const(bits), ty: Ty::Scalar(ty) } => Some(ScalarValue { ty, bits }),
            _ => None,
        }
    }

    /// Returns the value of an expression if it is a constant integer or `bool`.
    pub fn const_integer(&self, id: ExprId) -> Option<i128> {
        self.const_value(id)?.as_integer()
    }

    /// Returns the position of an element in its array, in row-major order, if its indices are constants that are in
    /// bounds.
    pub fn const_position(&self, place: &Place) -> Option<u64> {
        let extents = &self.memories[place.memory].extents;
        let mut axes = extents.iter().zip(&place.indices);
        let position = axes.try_fold(0u64, |position, (extent, &index)| {
            let extent = u64::from(extent.known()?);
            let index = u64::try_from(self.const_integer(index)?).ok().filter(|&index| index < extent)?;
            position.checked_mul(extent)?.checked_add(index)
        });
        position.filter(|_| extents.len() == place.indices.len())
    }

    /// Returns whether several threads may access the elements of a memory and at least one of them may write.
    pub fn is_shared_between_threads(&self, memory: MemId) -> bool {
        match self.memories[memory].space {
            MemorySpace::Global { access, .. } | MemorySpace::Param { access, .. } => access != Access::In,
            MemorySpace::Shared => true,
            MemorySpace::Local | MemorySpace::Constant => false,
        }
    }
}

/// A mutable variable that is private to a thread, or a parameter that was copied into one.
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
    pub space: MemorySpace,
    pub layout: ElementLayout,
    /// The extents of the axes, outermost first.
    pub extents: Vec<Extent>,
    /// The contents of a [`MemorySpace::Constant`] memory: the bits of each scalar, ordered by element, then by leaf
    /// (field), then by vector lane. Empty for other spaces.
    pub values: Arc<[u64]>,
    pub span: Span,
}

impl Memory {
    /// Returns the number of elements, if its extents are known.
    pub fn known_len(&self) -> Option<u64> {
        self.extents.iter().try_fold(1_u64, |all, extent| Some(all.saturating_mul(u64::from(extent.known()?))))
    }

    /// Returns the distance between neighbors along an axis if an element has this size and the inner extents are
    /// known.
    pub fn known_stride(&self, axis: usize, element: i64) -> Option<i64> {
        let inner = self.extents.get(axis + 1..)?;
        inner.iter().try_fold(element, |stride, extent| stride.checked_mul(extent.known()?.into()))
    }

    /// Returns the contents of a [`MemorySpace::Constant`] memory as bytes.
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
pub enum MemorySpace {
    /// Global memory: the kernel's array parameter at this position.
    Global {
        param: u32,
        access: Access,
    },
    Shared,
    /// Private to a thread.
    Local,
    /// Contents known at compile time, equal for all threads, and never written.
    Constant,
    /// An array parameter of a function: the array at this position of the call's `memories`. The actual memory space
    /// depends on the caller.
    Param {
        position: u32,
        access: Access,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    Known(u32),
    /// The extent of a `shared` array of dynamic size: an `i32` expression that consists of free expressions and
    /// operators and is equal for all threads of a launch. The device evaluates it when a block starts.
    Dynamic(ExprId),
    /// Determined by the launch (global memory) or by the caller (`MemorySpace::Param`).
    Launch,
}

impl Extent {
    pub fn known(self) -> Option<u32> {
        match self {
            Extent::Known(n) => Some(n),
            Extent::Dynamic(_) | Extent::Launch => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: Ty,
}

/// A memory location: one leaf (scalar or vector field) of an array element, or one component of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub memory: MemId,
    /// One index per axis, of any integer type. Bounds are checked at run time.
    pub indices: Vec<ExprId>,
    /// The leaf's position in `layout.leaves`.
    pub leaf: u32,
    /// The component of a vector leaf, as in `p[i].x = …`; `None` for the whole leaf.
    pub component: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheHint {
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

/// The built-in thread and block indices and dimensions, all `i32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuiltinIndex {
    Thread,
    Block,
    BlockDim,
    GridDim,
    Global,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExprKind {
    /// The bits of a scalar, zero-extended to 64 bits (see `clk_scalar::ScalarValue`).
    Const(u64),
    /// The function's value parameter at this position.
    Param(u32),
    Id(BuiltinIndex, Axis),
    /// The k-th index of a kernel of the form `LaunchForm::Threads`.
    Index(u8),
    /// The thread's lane in its warp, `i32`.
    LaneIdx,
    WarpIdx,
    /// A memory's extent along an axis, `i32`.
    Extent(MemId, u8),
    Read(LocalId),
    Load {
        place: Place,
        hint: CacheHint,
    },
    Unary {
        op: UnaryOp,
        value: ExprId,
    },
    /// Both operands have the same type; vectors are combined lane by lane. The right operand of a shift may have
    /// another integer type.
    Binary {
        op: BinOp,
        left: ExprId,
        right: ExprId,
    },
    Math {
        function: MathFn,
        args: Vec<ExprId>,
    },
    /// `cond` is a `bool`, or a vector of `bool` with the same number of lanes as the operands.
    Select {
        cond: ExprId,
        then: ExprId,
        other: ExprId,
    },
    /// Scalar conversion by the rules of `clk_scalar::convert`. Vectors are converted lane by lane.
    Convert(ExprId),
    /// The same bits, interpreted as another type. A bitcast of a float to its own type returns the operand, and marks
    /// it as a constant for derivatives.
    Bitcast(ExprId),
    /// A vector made of scalars, one for each lane.
    Compose(Vec<ExprId>),
    Extract {
        value: ExprId,
        lane: u8,
    },
    /// The result of the statement that refers to this expression as its result: an atomic, a barrier, a warp operation
    /// or a call.
    Result,
}

impl ExprKind {
    /// Returns whether the expression is constant during a thread's life. It can then be used anywhere without a `Let`.
    pub fn is_free(&self) -> bool {
        use ExprKind::*;
        matches!(self, Const(_) | Param(_) | Id(..) | Index(_) | LaneIdx | WarpIdx | Extent(..))
    }
}

/// Strict binary operators: both operands are always evaluated. `&&` and `||` of the source are lowered to control
/// flow, or to `And`/`Or` if the operands are free of side effects.
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

    /// Returns the DeviceIR operator for an operator of the language; `None` for `&&`, `||` and matrix products.
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

    /// Returns the operator of the language with the same result. `And`, `Or` and `Xor` map to the strict operators
    /// `&`, `|` and `^`.
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
    /// Evaluates the expression at this position.
    Let(ExprId),
    Write {
        local: LocalId,
        value: ExprId,
    },
    Store {
        place: Place,
        value: ExprId,
        hint: CacheHint,
    },
    /// An atomic operation on a scalar. `result` is the old value, an `ExprKind::Result` of the location's type; `None`
    /// if the old value is unused.
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
    /// `lane` is the second argument of shuffles (`i32` or `u32`). `among` is the mask of the participating lanes
    /// (`u32`); if it is `None`, all lanes of the warp participate.
    Warp {
        op: WarpOp,
        value: ExprId,
        lane: Option<ExprId>,
        among: Option<ExprId>,
        result: ExprId,
    },
    Fence(FenceScope),
    If {
        cond: ExprId,
        then: Block,
        other: Block,
    },
    /// `local` runs from `start` by `step` while it is `< end` (`<= end` if inclusive; `>`/`>=` if `step` is negative).
    /// Bounds and step have the local's integer type and are evaluated once. A zero step is a fault. The body does not
    /// write the local. The number of iterations is fixed on entry, and the loop ends before the local would overflow.
    For {
        label: Label,
        local: LocalId,
        start: ExprId,
        end: ExprId,
        step: ExprId,
        inclusive: bool,
        unroll: Unroll,
        /// Set if the threads of the block together perform a collective operation by this loop, between two barriers.
        /// Each thread handles its own elements.
        collective: Option<CollectiveLoop>,
        body: Block,
    },
    /// Repeats until a `Break`.
    Loop {
        label: Label,
        unroll: Unroll,
        body: Block,
    },
    /// A `Break` with its label exits the block. Used for early returns of inlined functions, `&&` and `||`.
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
        message: Vec<MessageSegment>,
    },
    Print {
        parts: Vec<MessageSegment>,
    },
    /// Marks all elements of the memory as unwritten: a local array that is declared in a loop is a new array in each
    /// iteration.
    Declare(MemId),
}

/// The threads for which a fence orders memory accesses, from few to many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FenceScope {
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

/// A segment of a message that a kernel formats.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageSegment {
    Text(String),
    /// A value and its format specification: the text after the colon, possibly empty.
    Value(ExprId, String),
}
