//! Derived kernels and the roles of their parameters.

use crate::base::source::Span;
use crate::ir::def::{ExprKind, Function, MemId, Module, Place, Space, Stmt, StmtKind, Ty};
use crate::ir::typing;
use crate::lang::scalar::Scalar;

/// What a parameter of a derived kernel is; the numbers are positions in the parameters of the original kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// As for the original kernel. Reverse: an `inout` array is a copy with the contents before the launch; an `out` array is
    /// scratch. Both are overwritten.
    Primal(usize),
    /// The tangent of a parameter, with its type, extents and access.
    Tangent(usize),
    /// The adjoint of a parameter, `inout`: of an array with its extents and the same elements (but `f32` for `f16` and `bf16`), of a
    /// value an array of any number of such elements, whose sum it is (many threads add to it: the more elements, the less they wait for each other). Adjoints
    /// of results come in and are consumed, those of inputs are added to; arrays that are neither begin with zeros.
    Adjoint(usize),
    /// The extent of the launch's index space along an axis, `i32`.
    Extent(u8),
    /// An `out` array of `f64` with so many sums, for each thread: its extents are their number, and those of the launch.
    Sums(u32),
    /// An `inout` array of these scalars without contents: its extents are the slots that one thread needs, and then those of the
    /// index space (`threads`) or the number of all threads (`grid`).
    Tape(Scalar),
    /// Of a counting kernel: `out`, `i32`, with an extent of the number of tapes, and then as those of a tape: the slots that each
    /// thread needs of each tape.
    Counts,
}

/// A derived kernel.
#[derive(Clone, Debug)]
pub struct Derived {
    pub module: Module,
    /// One per parameter of the derived kernel.
    pub params: Vec<Role>,
    /// If the kernel has tapes: a kernel that counts the slots they need.
    pub counting: Option<Counting>,
    /// The loop that records the most on each tape.
    pub recorders: Vec<Recorder>,
    /// Kernels that run before it, each for an adjoint that it then does not have.
    pub gathers: Vec<Gather>,
    /// A kernel that runs before it, for adjoints that it then does not have.
    pub totals: Option<Totals>,
    /// Whether it does anything besides.
    pub has_effect: bool,
}

/// An innermost loop that records on a tape.
#[derive(Clone, Copy, Debug)]
pub struct Recorder {
    pub span: Span,
    /// The numbers that it records in each turn.
    pub numbers: u64,
}

/// A kernel whose threads add up what the threads of the launch add to a few elements: it has as many indices, and any extents.
#[derive(Clone, Debug)]
pub struct Totals {
    pub module: Module,
    pub params: Vec<Role>,
    /// Of each sum, whose adjoint it is a part of, and of which element: the indices, or the component of a value that is a vector.
    pub sums: Vec<(usize, Vec<u32>)>,
}

/// A kernel over the elements of an adjoint: its index space has that one's extents.
#[derive(Clone, Debug)]
pub struct Gather {
    pub module: Module,
    pub params: Vec<Role>,
    /// Whose adjoint it is.
    pub param: usize,
}

/// A kernel that runs the forward part only, and counts what it would record. It is launched as the derived one.
#[derive(Clone, Debug)]
pub struct Counting {
    pub module: Module,
    pub params: Vec<Role>,
}

/// Returns the position of the launch parameter that a memory is.
pub(super) fn param_of(f: &Function, memory: MemId) -> Option<usize> {
    match f.memories[memory].space {
        Space::Global { param, .. } => Some(param as usize),
        _ => None,
    }
}

/// Returns the role of the parameter that a memory is.
pub(super) fn role_of(f: &Function, roles: &[Role], memory: MemId) -> Option<Role> {
    roles.get(param_of(f, memory)?).copied()
}

/// Returns the place that a statement loads from.
pub(super) fn loaded<'f>(f: &'f Function, stmt: &Stmt) -> Option<&'f Place> {
    match stmt.kind {
        StmtKind::Let(id) => match &f.exprs[id].kind {
            ExprKind::Load { place, .. } => Some(place),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the type of a leaf or component at a place, if it is a float.
pub(super) fn float_at(f: &Function, place: &Place) -> Option<Ty> {
    typing::place(f, place).ok().filter(|ty| ty.scalar().is_float())
}
