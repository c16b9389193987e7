//! Segments of a kernel, for launches in which everything is counted.
//!
//! Input: the statements of a block. Output: an event in front of those that the same threads execute one after the
//! other, and an entry that says what one thread does there. So a run has to count warps and threads once per segment,
//! and not for each operation.

use super::*;
use crate::events::ReportSegment;
use clk_runtime::profile::{Branch, OpCounts, StraightLineSegment};
use clk_scalar::Scalar;
use clk_scalar::ops::{MathFn, UnaryOp, WarpOp};

/// Instructions of a division, a root and a function, about.
const DIVISION: u64 = 9;
const INTEGER_DIVISION: u64 = 20;
const ROOT: u64 = 8;
const RECIPROCAL_ROOT: u64 = 5;
const FUNCTION: u64 = 20;
/// Instructions of a reduction of a warp: five steps of two.
const REDUCTION: u64 = 10;
/// Instructions that move a loop with a counter on: the counter, and a jump that compares. Others have their conditions
/// in their bodies.
const ITERATION: u64 = 2;

/// What a segment begins behind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentStart {
    Branch,
    Loop,
    /// A loop with a counter.
    For,
}

impl KernelCompiler<'_> {
    pub(super) fn is_profiled(&self) -> bool {
        self.tables.events.counted_warps.is_some() && !self.tables.events.checks.memory
    }

    /// Says where the next segment branches off: from the lanes of a mask, at a place, behind a segment.
    pub(super) fn branches_off(&mut self, from: MaskId, span: Span, way: SegmentStart, parent: Option<u32>) {
        if self.is_profiled() {
            let (is_loop, counts) = (way != SegmentStart::Branch, way == SegmentStart::For);
            self.profile.branch = Some((from, Branch { span, is_loop, counts, parent }));
        }
    }

    /// Begins a segment in front of a statement, if one begins there: at the start of a block, and behind a statement
    /// with blocks.
    pub(super) fn segment(&mut self, block: &[Stmt], at: usize, head: &mut Option<u32>) {
        let parts = |stmt: &Stmt| stmt.kind.blocks().next().is_some();
        if !self.is_profiled() || (at > 0 && !parts(&block[at - 1])) {
            return;
        }
        let mut work = vec![];
        for stmt in &block[at..] {
            self.statement(stmt, &mut work);
            if parts(stmt) {
                break;
            }
        }
        let (from, branch) = match self.profile.branch.take() {
            Some((from, branch)) => (from, Some(branch)),
            None => (self.flow.mask, None),
        };
        if let Some(Branch { span, counts: true, .. }) = branch {
            add(&mut work, span, OpCounts { int: 1, instructions: ITERATION, ..OpCounts::default() });
        }
        let x = self.tables.events.segments.len() as u32;
        let head = Some(*head.get_or_insert(x));
        self.tables.events.segments.push(StraightLineSegment { work, branch, head, ..StraightLineSegment::default() });
        self.emit(plain::<ReportSegment>(), Op { b: from, x, ..nothing() });
        self.profile.segment = Some(x);
    }

    /// Adds what a thread does in a statement, without its blocks.
    fn statement(&self, stmt: &Stmt, work: &mut Vec<(Span, OpCounts)>) {
        let one = OpCounts { instructions: 1, ..OpCounts::default() };
        let access = |place: &Place| {
            let leaf = self.f.memories[place.memory].layout.leaves.get(place.leaf as usize);
            let pieces =
                leaf.map_or(1, |leaf| memory_transactions::split_access(leaf.ty, place.component).len() as u64);
            match self.f.memories[place.memory].space {
                MemorySpace::Local => OpCounts::default(),
                // The address, and the access.
                _ => OpCounts { instructions: 1 + pieces, ..OpCounts::default() },
            }
        };
        match &stmt.kind {
            StmtKind::Let(e) => {
                let span = self.f.spans[*e];
                match &self.f.exprs[*e].kind {
                    ExprKind::Load { place, .. } => add(work, span, access(place)),
                    kind => add(work, span, self.operation(kind, self.f.exprs[*e].ty)),
                }
            }
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => add(work, stmt.span, access(place)),
            StmtKind::If { cond, .. } => add(work, self.f.spans[*cond], one),
            StmtKind::Warp { op, .. } => {
                use WarpOp::*;
                let all = matches!(op, ReduceAdd | ReduceMin | ReduceMax | ReduceAnd | ReduceOr | ReduceXor);
                add(work, stmt.span, OpCounts { instructions: if all { REDUCTION } else { 2 }, ..OpCounts::default() });
            }
            StmtKind::Barrier { .. } | StmtKind::Fence(_) => add(work, stmt.span, one),
            StmtKind::Break(_) | StmtKind::Continue(_) | StmtKind::Return(_) => add(work, stmt.span, one),
            _ => {}
        }
    }

    /// Returns the work of an operation.
    fn operation(&self, kind: &ExprKind, ty: Ty) -> OpCounts {
        let lanes = u64::from(ty.lanes());
        let of = |scalar: Scalar, instructions: u64| {
            // Wide integers take two instructions.
            let wide = if scalar.is_int() && scalar.size() == 8 { 2 } else { 1 };
            let work = OpCounts { instructions: lanes * instructions * wide, ..OpCounts::default() };
            match scalar {
                Scalar::F64 => OpCounts { f64: lanes, ..work },
                Scalar::F32 => OpCounts { f32: lanes, ..work },
                Scalar::F16 | Scalar::Bf16 => OpCounts { f16: lanes, ..work },
                _ => OpCounts { int: lanes, ..work },
            }
        };
        let scalar = ty.scalar();
        let special = |work: OpCounts| OpCounts { special: lanes, ..work };
        match kind {
            ExprKind::Binary { op, left, .. } => {
                let from = self.f.exprs[*left].ty.scalar();
                match op {
                    // Conditions are put together by the comparisons.
                    BinOp::And | BinOp::Or | BinOp::Xor if from == Scalar::Bool => OpCounts::default(),
                    _ if op.is_comparison() => OpCounts { int: lanes, instructions: lanes, ..OpCounts::default() },
                    BinOp::Div | BinOp::Rem if from.is_float() => special(of(from, DIVISION)),
                    BinOp::Div | BinOp::Rem => of(from, INTEGER_DIVISION),
                    BinOp::Pow => special(of(from, 2 * FUNCTION)),
                    _ => of(from, 1),
                }
            }
            ExprKind::Unary { op: UnaryOp::Not, .. } if scalar == Scalar::Bool => OpCounts::default(),
            ExprKind::Unary { .. } => of(scalar, 1),
            ExprKind::Math { function, args } => {
                let from = args.first().map_or(scalar, |&arg| self.f.exprs[arg].ty.scalar());
                match function {
                    MathFn::Fma => {
                        let (one, two) = (of(from, 1), of(from, 1));
                        let mut both = one;
                        both.add(&OpCounts { instructions: 0, ..two }, 1);
                        both
                    }
                    MathFn::Sqrt => special(of(from, ROOT)),
                    MathFn::Rsqrt => special(of(from, RECIPROCAL_ROOT)),
                    _ if function.row().cost >= 100 => special(of(from, FUNCTION)),
                    _ => of(from, 1),
                }
            }
            ExprKind::Select { .. } | ExprKind::Convert(_) => {
                OpCounts { int: lanes, instructions: lanes, ..OpCounts::default() }
            }
            _ => OpCounts::default(),
        }
    }
}

/// Adds work at a place.
fn add(work: &mut Vec<(Span, OpCounts)>, span: Span, new: OpCounts) {
    if new == OpCounts::default() {
        return;
    }
    match work.iter_mut().find(|(at, _)| *at == span) {
        Some((_, old)) => old.add(&new, 1),
        None => work.push((span, new)),
    }
}
