//! Derived kernels (tangent and adjoint kernels), and the roles of their parameters.

use clk_base::source::Span;
use clk_ir::def::{ExprKind, Function, MemId, MemorySpace, Module, Place, Stmt, StmtKind, Ty};
use clk_ir::typing;
use clk_scalar::Scalar;

/// The role of a parameter of a derived kernel. A number is the position of a parameter of the primal kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DerivedParamRole {
    /// The primal parameter. In reverse mode, an `inout` array is a copy of the contents before the launch, and an
    /// `out` array is scratch memory. Both are overwritten.
    Primal(usize),
    /// The tangent of a parameter, with the same type, extents and access.
    Tangent(usize),
    /// The adjoint of a parameter, an `inout` array. For an array parameter, it has the same extents and element type,
    /// with `f32` in place of `f16` and `bf16`. For a by-value parameter, it is an array whose sum is the adjoint; the
    /// caller chooses its length, and a longer array reduces contention. The kernel consumes (reads and zeroes) the
    /// adjoints of outputs, and adds to the adjoints of inputs. All adjoints that are not passed in start at 0.
    Adjoint(usize),
    /// The extent of the launch's index space along an axis, `i32`.
    Extent(u8),
    /// An `out` array of `f64` that contains this number of sums for each thread. Its extents are the number of sums,
    /// then the extents of the launch.
    Sums(u32),
    /// An `inout` array of this scalar type, whose initial contents do not matter. Its first extent is the number of
    /// slots that one thread needs, followed by the extents of the index space (`threads` kernel) or the number of
    /// threads (`grid` kernel).
    Tape(Scalar),
    /// Only in a counting kernel: an `out` array of `i32` with the number of slots that each thread needs on each tape.
    /// Its first extent is the number of tapes, followed by the extents of a tape except the first.
    Counts,
}

/// A derived kernel, and the kernels that must run before it.
#[derive(Clone, Debug)]
pub struct Derived {
    pub module: Module,
    /// The role of each parameter of the derived kernel.
    pub params: Vec<DerivedParamRole>,
    /// A kernel that counts the tape slots each thread needs; `None` if there are no tapes.
    pub counting: Option<TapeCountingKernel>,
    /// For each tape, the loop that records the most values.
    pub tape_loops: Vec<TapeLoop>,
    /// Gather kernels, which run before the derived kernel. The derived kernel does not compute their adjoints.
    pub gathers: Vec<GatherKernel>,
    /// A reduction kernel, which runs before the derived kernel. The derived kernel does not compute its adjoints.
    pub reduction: Option<ReductionKernel>,
    /// Whether the derived kernel does more than zero adjoints, so it must run.
    pub has_effect: bool,
}

/// A loop that records values on a tape.
#[derive(Clone, Copy, Debug)]
pub struct TapeLoop {
    pub span: Span,
    /// The number of values recorded per iteration.
    pub value_count: u64,
}

/// A kernel that computes the sums over all threads of the additions to a few adjoint elements. It has the same number
/// of indices as the primal kernel; the caller chooses the extents.
#[derive(Clone, Debug)]
pub struct ReductionKernel {
    pub module: Module,
    pub params: Vec<DerivedParamRole>,
    /// For each sum: the parameter to whose adjoint it is added, and the element of the adjoint. The element is given
    /// by its indices, or by the component of a by-value vector.
    pub sums: Vec<(usize, Vec<u32>)>,
}

/// A kernel that computes each element of an adjoint in one thread. Its index space has the extents of the adjoint.
#[derive(Clone, Debug)]
pub struct GatherKernel {
    pub module: Module,
    pub params: Vec<DerivedParamRole>,
    /// The parameter whose adjoint the kernel computes.
    pub param: usize,
}

/// A kernel that executes only the forward part, and counts the values that it would record. It is launched with the
/// same geometry as the derived kernel.
#[derive(Clone, Debug)]
pub struct TapeCountingKernel {
    pub module: Module,
    pub params: Vec<DerivedParamRole>,
}

/// Returns the position of the kernel parameter to which a memory belongs.
pub(super) fn param_of(f: &Function, memory: MemId) -> Option<usize> {
    match f.memories[memory].space {
        MemorySpace::Global { param, .. } => Some(param as usize),
        _ => None,
    }
}

/// Returns the role of the parameter to which a memory belongs.
pub(super) fn role_of(f: &Function, roles: &[DerivedParamRole], memory: MemId) -> Option<DerivedParamRole> {
    roles.get(param_of(f, memory)?).copied()
}

/// Returns the memory location from which a statement loads, if it is a load.
pub(super) fn loaded_place<'f>(f: &'f Function, stmt: &Stmt) -> Option<&'f Place> {
    match stmt.kind {
        StmtKind::Let(id) => match &f.exprs[id].kind {
            ExprKind::Load { place, .. } => Some(place),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the type of a memory location if it is a float or a vector of floats.
pub(super) fn float_type_at(f: &Function, place: &Place) -> Option<Ty> {
    typing::place(f, place).ok().filter(|ty| ty.scalar().is_float())
}
