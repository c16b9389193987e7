//! The data of footprints: launches in symbols, accesses, barriers, obligations.

use rustc_hash::FxHashMap;

use super::form::{and, not, or};
use super::space::Space as Variables;
use crate::base::linear::{Formula, Linear, Var};
use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::ranges::Site as At;
use crate::lang::ops::AtomicOp;
use crate::lang::scalar::Scalar;

/// A launch in symbols.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub variables: Variables,
    /// By position of the array parameter, and axis.
    pub extents: FxHashMap<(u32, u8), Linear>,
    /// Integer value parameters by position.
    pub params: FxHashMap<u32, Linear>,
    /// The indices of a `threads` kernel.
    pub indices: Vec<Linear>,
    /// The geometry of a `grid` kernel.
    pub grid: Option<Grid>,
}

/// Along x, y, z.
#[derive(Clone, Debug)]
pub struct Grid {
    pub thread: [Linear; 3],
    pub at: [Linear; 3],
    pub block: [Linear; 3],
    pub grid: [Linear; 3],
    pub global: [Linear; 3],
}

/// What a kernel does to memory.
#[derive(Default)]
pub struct Footprint {
    pub variables: Variables,
    pub accesses: Vec<Touch>,
    pub obligations: Vec<Obligation>,
    pub barriers: Vec<BarrierSite>,
    /// The counters of loops that lanes leave together if they enter together, each with the counters of the loops around it.
    /// After such a loop its counter is still the same for all lanes; after another one each lane has its own.
    pub together: FxHashMap<Var, Vec<Var>>,
    /// The most iterations of a loop by its counter, if a number is known.
    pub turns: FxHashMap<Var, i128>,
    /// Why the walk gave up, and where: nothing is proved then.
    pub stopped: Option<(String, Span)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    Reads,
    Writes,
    /// Atomically.
    Updates(Update),
}

/// An atomic operation, as far as its place in an order with others matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Update {
    pub change: Change,
    /// Something that the kernel does depends on the old value.
    pub is_used: bool,
}

/// What an atomic operation does to the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Nothing,
    /// Adds or subtracts integers, modulo a power of two.
    Sum,
    /// An operation on integers that is commutative and associative.
    Folds(AtomicOp),
    /// Anything else, sums of floats among them.
    Other,
}

impl Change {
    pub fn of(op: AtomicOp, scalar: Scalar) -> Change {
        match op {
            AtomicOp::Exchange | AtomicOp::CompareExchange => Change::Other,
            _ if scalar.is_float() => Change::Other,
            AtomicOp::Add | AtomicOp::Sub => Change::Sum,
            AtomicOp::Min | AtomicOp::Max | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => Change::Folds(op),
        }
    }
}

impl Update {
    /// Returns whether two operations on one element have the same effect in either order, for what the kernel does with them.
    pub fn commutes(self, other: Update) -> bool {
        let seen = |a: Update, b: Update| a.is_used && b.change != Change::Nothing;
        let alike = self.change == Change::Nothing
            || other.change == Change::Nothing
            || self.change == other.change && self.change != Change::Other;
        alike && !seen(self, other) && !seen(other, self)
    }
}

/// One access of a thread, with all its iterations.
#[derive(Clone, Debug)]
pub struct Touch {
    /// Where it is in the body.
    pub at: At,
    pub deed: Deed,
    pub memory: MemId,
    pub leaf: u32,
    pub component: Option<u8>,
    pub indices: Vec<Linear>,
    pub extents: Vec<Linear>,
    pub path: Vec<Formula>,
    pub clocks: Clocks,
    /// Every thread that goes this way makes the access; `None` where none is known.
    pub sure: Option<Vec<Step>>,
    /// The iterations of the loops around it.
    pub counters: Vec<Var>,
    pub span: Span,
}

/// A part of a way that leads somewhere for sure.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Threads for which it holds go on.
    If(Formula),
    /// Threads for which it does not hold stop the launch.
    Assert(Formula),
}

impl Step {
    pub fn renamed(&self, with: &mut impl FnMut(&Formula) -> Formula) -> Step {
        match self {
            Step::If(condition) => Step::If(with(condition)),
            Step::Assert(condition) => Step::Assert(with(condition)),
        }
    }
}

/// Returns what holds for a thread that goes all the way, where the rest holds, or stops the launch.
pub(super) fn goes(way: &[Step], rest: Formula) -> Formula {
    way.iter().rev().fold(rest, |rest, step| match step {
        Step::If(condition) => and([condition.clone(), rest]),
        Step::Assert(condition) => or([not(condition), rest]),
    })
}

/// What the last barrier was: of the block (or the grid), and of the grid.
pub(crate) type Clocks = [Vec<Moment>; 2];

/// A barrier that may be the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    pub site: Site,
    /// The iterations of the loops around the barrier.
    pub counters: Vec<Linear>,
    /// What holds if it is the last one.
    pub when: Vec<Formula>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    Start,
    Barrier(u32),
    /// It may be any.
    Any,
    /// The one before the current iteration, while a loop is examined.
    Before,
}

/// How an operation treats a result that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// An overflow, reported in runs with checks.
    Fault,
    /// Defined: modulo a power of two.
    Wraps,
}

/// A result that has to be in range for its form to be its value.
#[derive(Clone, Debug)]
pub struct Obligation {
    pub expr: ExprId,
    pub span: Span,
    pub strictness: Strictness,
    pub path: Vec<Formula>,
    pub value: Linear,
    pub low: i128,
    pub high: i128,
}

#[derive(Clone, Debug)]
pub struct BarrierSite {
    pub span: Span,
    pub reached: Reached,
}

/// Whether all threads of the block (of the launch, at a barrier of the grid) surely reach a barrier together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    ByAll,
    /// If what they read from memory does not depend on a race.
    WithoutRaces,
    Perhaps,
}

pub(crate) fn int(ty: Ty) -> Option<Scalar> {
    match ty {
        Ty::Scalar(s) if s.is_int() => Some(s),
        _ => None,
    }
}
