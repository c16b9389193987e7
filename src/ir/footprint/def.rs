//! The data of footprints: symbolic launches, accesses, barriers, overflow obligations.

use rustc_hash::FxHashMap;

use super::formula::{and, not, or};
use super::vars::VarSpace as Variables;
use crate::def::*;
use crate::ranges::BodySite;
use clk_base::linear::{AffineForm, Formula, Var};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::ops::AtomicOp;

/// A launch whose sizes, parameters and coordinates are variables.
#[derive(Clone, Debug, Default)]
pub struct SymbolicLaunch {
    pub variables: Variables,
    /// The extents of arrays, by position of the parameter and axis.
    pub extents: FxHashMap<(u32, u8), AffineForm>,
    /// Integer value parameters by position.
    pub params: FxHashMap<u32, AffineForm>,
    /// The indices of a `threads` kernel.
    pub indices: Vec<AffineForm>,
    /// The geometry of a `grid` kernel.
    pub grid: Option<SymbolicGrid>,
}

/// The block and grid of a launch along x, y and z.
#[derive(Clone, Debug)]
pub struct SymbolicGrid {
    pub thread: [AffineForm; 3],
    pub block_idx: [AffineForm; 3],
    pub block: [AffineForm; 3],
    pub grid: [AffineForm; 3],
    pub global: [AffineForm; 3],
}

/// The accesses, barriers and overflow obligations of a kernel.
#[derive(Default)]
pub struct Footprint {
    pub variables: Variables,
    pub accesses: Vec<FootprintAccess>,
    pub obligations: Vec<OverflowObligation>,
    pub barriers: Vec<BarrierSite>,
    pub assertions: Vec<AssertionSite>,
    /// Convergent loops: lanes that enter the loop together also leave it together. The key is the loop's counter, the
    /// value the counters of the enclosing loops. After a convergent loop, its counter is still equal for these lanes;
    /// after any other loop, it may differ between lanes.
    pub convergent_loops: FxHashMap<Var, Vec<Var>>,
    /// Maps the counter of a loop to an upper bound on its number of iterations, if one is known.
    pub max_iterations: FxHashMap<Var, i128>,
    /// Set if the analysis gave up: the reason and the location. The footprint then proves nothing.
    pub stopped: Option<(String, Span)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FootprintAccessKind {
    Load,
    Store,
    /// An atomic operation.
    Atomic(AtomicUpdate),
}

/// The properties of an atomic operation that determine whether it commutes with other atomic operations on the same
/// element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AtomicUpdate {
    pub change: AtomicEffect,
    /// Whether the kernel's behavior depends on the old value that the operation returns.
    pub is_used: bool,
}

/// How an atomic operation changes the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicEffect {
    Nothing,
    /// Adds or subtracts an integer, modulo a power of two.
    Sum,
    /// A commutative and associative operation on integers.
    Reduction(AtomicOp),
    /// Any other change, including floating-point addition, whose rounding depends on the order of the operations.
    Other,
}

impl AtomicEffect {
    pub fn from_op(op: AtomicOp, scalar: Scalar) -> AtomicEffect {
        match op {
            AtomicOp::Exchange | AtomicOp::CompareExchange => AtomicEffect::Other,
            _ if scalar.is_float() => AtomicEffect::Other,
            AtomicOp::Add | AtomicOp::Sub => AtomicEffect::Sum,
            AtomicOp::Min | AtomicOp::Max | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => AtomicEffect::Reduction(op),
        }
    }
}

impl AtomicUpdate {
    /// Returns whether two operations on one element have the same observable effect in either order.
    pub fn commutes(self, other: AtomicUpdate) -> bool {
        let is_observed = |a: AtomicUpdate, b: AtomicUpdate| a.is_used && b.change != AtomicEffect::Nothing;
        let same_effect = self.change == AtomicEffect::Nothing
            || other.change == AtomicEffect::Nothing
            || self.change == other.change && self.change != AtomicEffect::Other;
        same_effect && !is_observed(self, other) && !is_observed(other, self)
    }
}

/// An access site (a load, store or atomic operation in the code), executed by an arbitrary thread in arbitrary
/// iterations of the enclosing loops.
#[derive(Clone, Debug)]
pub struct FootprintAccess {
    /// The position of the access in the kernel's body.
    pub site: BodySite,
    pub kind: FootprintAccessKind,
    pub memory: MemId,
    pub leaf: u32,
    pub component: Option<u8>,
    pub indices: Vec<AffineForm>,
    pub extents: Vec<AffineForm>,
    pub path: Vec<Formula>,
    pub last_barriers: LastBarriers,
    /// Conditions that suffice for the access: every thread that satisfies them executes it, unless a fault stops the
    /// launch. `None` if no such conditions are known.
    pub certain_path: Option<Vec<PathStep>>,
    /// The counters of the enclosing loops.
    pub counters: Vec<Var>,
    pub span: Span,
}

/// A condition on a path through the body. Every thread that satisfies all conditions of the path takes it.
#[derive(Clone, Debug, PartialEq)]
pub enum PathStep {
    /// A branch condition: threads that satisfy it continue on this path.
    If(Formula),
    /// An assertion: a thread that violates it stops the launch.
    Assert(Formula),
}

impl PathStep {
    pub fn renamed(&self, with: &mut impl FnMut(&Formula) -> Formula) -> PathStep {
        match self {
            PathStep::If(condition) => PathStep::If(with(condition)),
            PathStep::Assert(condition) => PathStep::Assert(with(condition)),
        }
    }
}

/// Returns a formula that is true if the thread takes the whole path and satisfies `rest`. It is also true if the
/// thread fails an assertion on the path, because that stops the launch.
pub(super) fn path_formula(way: &[PathStep], rest: Formula) -> Formula {
    way.iter().rev().fold(rest, |rest, step| match step {
        PathStep::If(condition) => and([condition.clone(), rest]),
        PathStep::Assert(condition) => or([not(condition), rest]),
    })
}

/// Two lists of the barriers that a thread may have passed last. The first list contains block and grid barriers, the
/// second one only grid barriers.
pub(crate) type LastBarriers = [Vec<LastBarrier>; 2];

/// A barrier that may be the last one a thread has passed.
#[derive(Clone, Debug, PartialEq)]
pub struct LastBarrier {
    pub site: SyncSite,
    /// The iterations of the barrier's enclosing loops in which the thread passed the barrier.
    pub counters: Vec<AffineForm>,
    /// The conditions under which the thread has passed no barrier after this one.
    pub conditions: Vec<Formula>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncSite {
    Start,
    Barrier(u32),
    /// The last barrier is unknown: it may be any barrier.
    Any,
    /// A placeholder while a loop is analyzed: the last barrier that the thread passed before the current iteration.
    BeforeIteration,
}

/// What an analysis may rely on about signed operations whose results might not fit their types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedOverflow {
    /// Nothing: the result is unknown unless it is proved to fit.
    Possible,
    /// The result fits, because overflow is undefined behavior. The analysis says nothing about launches with an
    /// overflow.
    Undefined,
}

/// How an operation treats a result that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowRule {
    /// The operation overflows, which is a fault if overflow checks are enabled.
    Fault,
    /// The result wraps around, modulo a power of two.
    Wraps,
}

/// An operation whose result must be in the range of its type. Otherwise the result differs from the affine form that
/// the footprint uses for it.
#[derive(Clone, Debug)]
pub struct OverflowObligation {
    pub expr: ExprId,
    pub span: Span,
    pub rule: OverflowRule,
    pub path: Vec<Formula>,
    pub value: AffineForm,
    pub low: i128,
    pub high: i128,
}

/// An `assert` in the code, reached by an arbitrary thread in arbitrary iterations of the enclosing loops.
#[derive(Clone, Debug)]
pub struct AssertionSite {
    pub span: Span,
    pub path: Vec<Formula>,
    pub holds: Formula,
}

#[derive(Clone, Debug)]
pub struct BarrierSite {
    pub span: Span,
    pub reach: BarrierReach,
}

/// Whether all threads of the block are certain to reach a barrier together; for a grid barrier, all threads of the
/// launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierReach {
    Always,
    /// Always, provided that there are no races on memory whose values affect the control flow.
    IfRaceFree,
    Unknown,
}
