//! The abstract interpreter of range analysis, which executes a kernel's body on intervals.

use rustc_hash::FxHashMap;

use super::results::{BodySite, ParamFacts, RangeAnalysis, RangeAssumptions, SymbolInequality, parameter};
use super::transfer;
use super::value_bounds::{LaunchConstant, ValueBounds};
use crate::def::*;
use crate::visit::each_stmt;
use clk_scalar::exact::limits;
use clk_scalar::ops::{BarrierKind, UnaryOp};
use clk_scalar::{Scalar, ScalarValue};

/// Expressions nested more deeply are treated as unknown.
const MAX_DEPTH: u32 = 12;
/// After this many iterations of a loop, bounds that still change are treated as unknown.
const MAX_ROUNDS: u32 = 6;
/// In loops nested more deeply, all locals that the loop writes are treated as unknown at once.
const MAX_NESTING: u32 = 3;
/// The largest constant index that may be assumed to be in bounds and checked at launch.
const LARGEST_ASSUMED: i128 = 65536;

/// The bounds of locals; a local that is not in the map is unknown. `None` means that the point is unreachable.
type LocalFacts = Option<FxHashMap<LocalId, ValueBounds>>;

struct RangeJumpTarget {
    label: Label,
    breaks: LocalFacts,
    continues: LocalFacts,
}

pub(crate) struct RangeWalker<'a> {
    function: &'a Function,
    assumptions: RangeAssumptions,
    param_facts: Option<&'a ParamFacts>,
    pub analysis: RangeAnalysis,
    /// The bounds of the value that the last store wrote, if it is an integer.
    pub stored: Option<ValueBounds>,
    state: LocalFacts,
    /// Bounds of loads, reads of locals, and results of statements.
    evaluated: FxHashMap<ExprId, ValueBounds>,
    /// Bounds of values that follow from enclosing conditions, innermost last.
    refinements: Vec<(ExprId, ValueBounds)>,
    cache: FxHashMap<ExprId, ValueBounds>,
    targets: Vec<RangeJumpTarget>,
    recording: bool,
    nesting: u32,
    /// The pre-order number of the next statement.
    stmt: u32,
}

fn join(a: LocalFacts, b: LocalFacts) -> LocalFacts {
    match (a, b) {
        (Some(a), Some(b)) => {
            Some(a.iter().filter_map(|(local, fact)| Some((*local, fact.join(b.get(local)?)))).collect())
        }
        (one, None) | (None, one) => one,
    }
}

impl<'a> RangeWalker<'a> {
    pub fn new(function: &'a Function, assumptions: RangeAssumptions, param_facts: Option<&'a ParamFacts>) -> Self {
        RangeWalker {
            function,
            assumptions,
            param_facts,
            analysis: RangeAnalysis::default(),
            stored: None,
            state: Some(FxHashMap::default()),
            evaluated: FxHashMap::default(),
            refinements: vec![],
            cache: FxHashMap::default(),
            targets: vec![],
            recording: true,
            nesting: 0,
            stmt: 0,
        }
    }

    pub fn run(&mut self) {
        self.block(&self.function.body);
    }

    fn limit(&self) -> i128 {
        if self.assumptions.largest == 0 { i128::from(i32::MAX) } else { i128::from(self.assumptions.largest) }
    }

    // Bounds of values.

    fn scalar(&self, id: ExprId) -> Option<Scalar> {
        self.function.exprs[id].ty.as_int()
    }

    /// Returns the bounds of a value parameter.
    fn param_range(&self, i: u32, any: &ValueBounds) -> ValueBounds {
        let facts = self.param_facts.and_then(|facts| Some((facts, i.checked_sub(facts.first)?)));
        match facts {
            None => any.clone().with(LaunchConstant::Param(i), 0),
            Some((_, k @ 0..=2)) => self.builtin_range(BuiltinIndex::Block, [Axis::X, Axis::Y, Axis::Z][k as usize]),
            Some((facts, k)) => facts.facts.get(k as usize - 3).unwrap_or(any).clone(),
        }
    }

    /// Returns the bounds of an integer scalar at this point.
    fn fact(&mut self, id: ExprId) -> ValueBounds {
        self.fact_at(id, 0)
    }

    fn fact_at(&mut self, id: ExprId, depth: u32) -> ValueBounds {
        let Some(scalar) = self.scalar(id) else { return ValueBounds::any(Scalar::I64) };
        if let Some(known) = self.cache.get(&id) {
            return known.clone();
        }
        let mut fact = if depth > MAX_DEPTH { ValueBounds::any(scalar) } else { self.base(id, scalar, depth) };
        for (refined, refinement) in &self.refinements {
            if *refined == id {
                fact = fact.intersect(refinement);
            }
        }
        // The bounds contradict each other, so this code is unreachable.
        if fact.low > fact.high {
            fact = ValueBounds::any(scalar);
        }
        if depth <= MAX_DEPTH / 2 {
            self.cache.insert(id, fact.clone());
        }
        fact
    }

    /// Returns the bounds that follow from the expression, without those that follow from conditions on it.
    fn base(&mut self, id: ExprId, scalar: Scalar, depth: u32) -> ValueBounds {
        let function = self.function;
        let any = ValueBounds::any(scalar);
        let exact = match &function.exprs[id].kind {
            ExprKind::Const(bits) => {
                let value = ScalarValue { ty: scalar, bits: *bits }.as_integer().unwrap_or(0);
                Some(ValueBounds::new(value, value))
            }
            ExprKind::Param(i) => Some(self.param_range(*i, &any)),
            ExprKind::Id(id, axis) => Some(self.builtin_range(*id, *axis)),
            ExprKind::Index(k) => Some(ValueBounds::new(0, self.limit() - 1).with(LaunchConstant::Index(*k), -1)),
            ExprKind::LaneIdx => Some(ValueBounds::new(0, self.max_threads_per_block().min(32) - 1)),
            ExprKind::WarpIdx => Some(ValueBounds::new(0, (self.max_threads_per_block() - 1) / 32)),
            ExprKind::Extent(memory, axis) => Some(self.extent(*memory, *axis, depth)),
            ExprKind::Read(_) | ExprKind::Load { .. } | ExprKind::Result => self.evaluated.get(&id).cloned(),
            ExprKind::Unary { op: UnaryOp::Neg, value } => {
                let value = self.fact_at(*value, depth + 1);
                Some(ValueBounds { nonzero: value.nonzero, ..ValueBounds::new(-value.high, -value.low) })
            }
            ExprKind::Binary { op, left, right } => {
                let assumed = self.assumed_result(*op, *left, *right);
                let rounded = transfer::match_ceil_div(function, *op, *left, *right)
                    .map(|(value, by)| transfer::ceil_div(&self.fact_at(value, depth + 1), by));
                let (left, right) = (self.fact_at(*left, depth + 1), self.fact_at(*right, depth + 1));
                assumed.or(rounded).or_else(|| transfer::binary(*op, &left, &right, scalar))
            }
            ExprKind::Math { function, args } => {
                let args: Vec<ValueBounds> = args.iter().map(|&arg| self.fact_at(arg, depth + 1)).collect();
                transfer::math(*function, &args, scalar)
            }
            ExprKind::Select { then, other, .. } => {
                let (then, other) = (self.fact_at(*then, depth + 1), self.fact_at(*other, depth + 1));
                Some(then.join(&other))
            }
            ExprKind::Convert(value) => match function.exprs[*value].ty {
                Ty::Scalar(Scalar::Bool) => Some(ValueBounds::new(0, 1)),
                ty if ty.as_int().is_some() => Some(self.fact_at(*value, depth + 1)),
                _ => None,
            },
            ExprKind::Bitcast(value) if self.scalar(*value).is_some() => Some(self.fact_at(*value, depth + 1)),
            _ => None,
        };
        exact.filter(|fact| fact.fits_in(scalar)).unwrap_or(any)
    }

    fn builtin_range(&self, id: BuiltinIndex, axis: Axis) -> ValueBounds {
        let k = axis as usize;
        let axis = axis as u8;
        let most = [1024, 1024, 64][k];
        let block_size = self.assumptions.block.map(|block| i128::from(block[k]));
        let threads = if self.assumptions.largest == 0 { None } else { Some(self.limit()) };
        let blocks = match (threads, block_size) {
            (Some(threads), Some(block)) => (threads / block.max(1)).max(1),
            _ => self.limit(),
        };
        match id {
            BuiltinIndex::Thread => {
                ValueBounds::new(0, block_size.unwrap_or(most) - 1).with(LaunchConstant::BlockDim(axis), -1)
            }
            BuiltinIndex::BlockDim => match block_size {
                Some(block) => ValueBounds::new(block, block).with(LaunchConstant::BlockDim(axis), 0),
                None => ValueBounds::new(1, most).with(LaunchConstant::BlockDim(axis), 0),
            },
            BuiltinIndex::Block => ValueBounds::new(0, blocks - 1).with(LaunchConstant::GridDim(axis), -1),
            BuiltinIndex::GridDim => ValueBounds::new(1, blocks).with(LaunchConstant::GridDim(axis), 0),
            // The index wraps around in a grid of more than 2^31 threads, so it is unknown without a limit on the
            // threads.
            BuiltinIndex::Global => match threads {
                Some(threads) => ValueBounds::new(0, threads - 1).with(LaunchConstant::Threads(axis), -1),
                None => ValueBounds::any(Scalar::I32),
            },
        }
    }

    /// Returns the maximum number of threads per block.
    fn max_threads_per_block(&self) -> i128 {
        self.assumptions.block.map_or(1024, |block| block.iter().map(|&n| i128::from(n)).product::<i128>().max(1))
    }

    /// Returns the bounds of a result that follow from the assumptions about the launch, for operations where these are
    /// tighter than the bounds that follow from the operands.
    fn assumed_result(&mut self, op: BinOp, left: ExprId, right: ExprId) -> Option<ValueBounds> {
        match op {
            BinOp::Mul => self
                .thread_index_range(left, right)
                .or_else(|| self.tile_offset_range(left, right))
                .or_else(|| self.tile_offset_range(right, left)),
            BinOp::Sub => self.last_index_range(left, right),
            _ => None,
        }
    }

    /// Returns the bounds of products such as `block_idx.x * 4096`, for kernels in which a block processes more
    /// elements than it has threads. The number of blocks is assumed to be small enough that the product does not
    /// overflow. That is checked at launch, and holds for grids that just cover an array.
    fn tile_offset_range(&mut self, blocks: ExprId, tile: ExprId) -> Option<ValueBounds> {
        let ExprKind::Id(id @ (BuiltinIndex::Block | BuiltinIndex::GridDim), axis) = self.function.exprs[blocks].kind
        else {
            return None;
        };
        let tile = self.function.const_integer(tile).filter(|&tile| (1..=self.limit()).contains(&tile))?;
        let all = self.builtin_range(BuiltinIndex::GridDim, axis).high;
        if !self.assumptions.assume || self.assumptions.largest == 0 || all * tile <= i128::from(i32::MAX) {
            return None;
        }
        let most = self.limit() / tile;
        let right = Err(u32::try_from(most).ok()?);
        self.add_launch_check(SymbolInequality { left: Some(LaunchConstant::GridDim(axis as u8)), plus: 0, right });
        Some(match id {
            BuiltinIndex::Block => ValueBounds::new(0, (most - 1) * tile),
            _ => ValueBounds::new(tile, most * tile),
        })
    }

    /// Returns the bounds of `len(x) - 1`, the last index of a nonempty array. The launch checks that the array is not
    /// empty.
    fn last_index_range(&mut self, extent: ExprId, less: ExprId) -> Option<ValueBounds> {
        let LaunchConstant::Extent { param, axis } = self.symbol(extent)? else { return None };
        let less = self.function.const_integer(less).filter(|&less| (1..=LARGEST_ASSUMED).contains(&less))?;
        if !self.assumptions.assume {
            return None;
        }
        let symbol = LaunchConstant::Extent { param, axis };
        self.add_launch_check(SymbolInequality { left: None, plus: less as i64, right: Ok(symbol) });
        Some(ValueBounds::new(0, self.limit() - less).with(symbol, -less))
    }

    fn add_launch_check(&mut self, bound: SymbolInequality) {
        if !self.analysis.assumptions.contains(&bound) {
            self.analysis.assumptions.push(bound);
        }
    }

    /// Returns the bounds of `block_idx.x * block_dim.x`, the first thread index of a block, and of the number of
    /// threads along an axis, `grid_dim.x * block_dim.x`. The block size may be a constant.
    fn thread_index_range(&self, left: ExprId, right: ExprId) -> Option<ValueBounds> {
        if self.assumptions.largest == 0 {
            return None;
        }
        let kind = |id: ExprId| &self.function.exprs[id].kind;
        let product = |blocks: &ExprKind, size: &ExprKind| {
            let ExprKind::Id(blocks @ (BuiltinIndex::Block | BuiltinIndex::GridDim), axis) = blocks else {
                return None;
            };
            let whole = match size {
                ExprKind::Id(BuiltinIndex::BlockDim, other) => axis == other,
                ExprKind::Const(bits) => {
                    self.assumptions.block.is_some_and(|block| u64::from(block[*axis as usize]) == *bits)
                }
                _ => false,
            };
            let (least, most) = if *blocks == BuiltinIndex::Block { (0, self.limit() - 1) } else { (1, self.limit()) };
            whole.then(|| ValueBounds::new(least, most))
        };
        product(kind(left), kind(right)).or_else(|| product(kind(right), kind(left)))
    }

    fn extent(&mut self, memory: MemId, axis: u8, depth: u32) -> ValueBounds {
        let memory_def = &self.function.memories[memory];
        match memory_def.extents.get(axis as usize) {
            Some(Extent::Known(n)) => ValueBounds::new(i128::from(*n), i128::from(*n)),
            Some(Extent::Dynamic(id)) => {
                self.fact_at(*id, depth + 1).intersect(&ValueBounds::new(0, i128::from(i32::MAX)))
            }
            _ => {
                let any = ValueBounds::new(i128::from(self.param_facts.is_some()), self.limit());
                match parameter(self.function, memory) {
                    Some(param) => any.with(LaunchConstant::Extent { param, axis }, 0),
                    None => any,
                }
            }
        }
    }

    // Refinement by conditions.

    fn refine_value(&mut self, id: ExprId, fact: ValueBounds) {
        self.refinements.push((id, fact));
        self.cache.clear();
    }

    fn pop_refinements(&mut self, len: usize) {
        if self.refinements.len() > len {
            self.refinements.truncate(len);
            self.cache.clear();
        }
    }

    /// Assumes that a condition is true or false from here on.
    fn assume(&mut self, cond: ExprId, holds: bool) {
        match &self.function.exprs[cond].kind {
            ExprKind::Unary { op: UnaryOp::Not, value } => self.assume(*value, !holds),
            ExprKind::Binary { op: BinOp::And, left, right } if holds => {
                self.assume(*left, true);
                self.assume(*right, true);
            }
            ExprKind::Binary { op: BinOp::Or, left, right } if !holds => {
                self.assume(*left, false);
                self.assume(*right, false);
            }
            ExprKind::Select { cond, then, other } => {
                let constant = |id: ExprId| Some(self.function.const_value(id)?.bits != 0);
                let (cond, then, other) = (*cond, *then, *other);
                // `if a { b } else { false }` and `if a { b } else { a }` are `a && b`; `if a { true } else { b }` and
                // `if a { a } else { b }` are `a || b`.
                if (constant(other) == Some(false) || other == cond) && holds {
                    self.assume(cond, true);
                    self.assume(then, true);
                } else if (constant(then) == Some(true) || then == cond) && !holds {
                    self.assume(cond, false);
                    self.assume(other, false);
                }
            }
            ExprKind::Binary { op, left, right } if op.is_comparison() && self.scalar(*left).is_some() => {
                let op = if holds { *op } else { negated(*op) };
                self.compare(op, *left, *right);
            }
            _ => {}
        }
    }

    fn compare(&mut self, op: BinOp, left: ExprId, right: ExprId) {
        let (a, b) = (self.fact(left), self.fact(right));
        let at_least = |fact: &ValueBounds, low: i128| {
            ValueBounds { low, high: i128::MAX, upper_bounds: vec![], nonzero: false }.intersect(fact)
        };
        match op {
            BinOp::Lt | BinOp::Le => {
                let gap = i128::from(op == BinOp::Lt);
                self.refine_summand(left, &b, gap);
                self.refine_value(left, a.limited_by(&b, -gap));
                self.refine_value(right, at_least(&b, a.low + gap));
            }
            BinOp::Gt => self.compare(BinOp::Lt, right, left),
            BinOp::Ge => self.compare(BinOp::Le, right, left),
            BinOp::Eq => {
                self.refine_value(left, a.intersect(&b));
                self.refine_value(right, b.intersect(&a));
            }
            _ if (b.low, b.high) == (0, 0) => self.refine_value(left, a.without_zero()),
            _ if (a.low, a.high) == (0, 0) => self.refine_value(right, b.without_zero()),
            _ => {}
        }
    }

    /// Derives bounds of `x` from `x + 4096 <= n`, if the sum cannot wrap around.
    fn refine_summand(&mut self, sum: ExprId, limit: &ValueBounds, gap: i128) {
        let ExprKind::Binary { op: BinOp::Add, left, right } = self.function.exprs[sum].kind else { return };
        let (value, plus) = match (self.function.const_integer(left), self.function.const_integer(right)) {
            (None, Some(plus)) => (left, plus),
            (Some(plus), None) => (right, plus),
            _ => return,
        };
        let (Some(scalar), fact) = (self.scalar(sum), self.fact(value)) else { return };
        if fact.shifted(plus).fits_in(scalar) {
            self.refine_value(value, fact.limited_by(limit, -gap - plus));
        }
    }

    // Interpretation of statements.

    fn block(&mut self, block: &'a Block) {
        let count = self.refinements.len();
        for stmt in block {
            self.stmt(stmt);
        }
        self.pop_refinements(count);
    }

    fn set_range(&mut self, id: ExprId, fact: ValueBounds) {
        self.evaluated.insert(id, fact);
        self.cache.clear();
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        let number = self.stmt;
        self.stmt += 1;
        match &stmt.kind {
            StmtKind::Let(id) => self.evaluate(*id),
            StmtKind::Write { local, value } => {
                let fact = self.scalar(*value).map(|_| self.fact(*value));
                if let Some(state) = &mut self.state {
                    match fact {
                        Some(fact) => state.insert(*local, fact),
                        None => state.remove(local),
                    };
                }
            }
            StmtKind::Store { place, value, .. } => {
                self.access(BodySite::Stmt(number), place);
                self.stored = self.scalar(*value).map(|_| self.fact(*value));
            }
            StmtKind::Atomic { place, result, .. } => {
                self.access(BodySite::Stmt(number), place);
                result.iter().for_each(|&result| self.forget_value(result));
            }
            StmtKind::Barrier { kind, result, .. } => {
                if let Some(result) = *result {
                    let counts = *kind == BarrierKind::BlockCount;
                    if counts { self.set_range(result, ValueBounds::new(0, 1024)) } else { self.forget_value(result) }
                }
            }
            StmtKind::Warp { result, .. } => self.forget_value(*result),
            StmtKind::Call { results, .. } => results.iter().for_each(|&result| self.forget_value(result)),
            StmtKind::If { cond, then, other } => self.branch(*cond, then, other),
            StmtKind::For { .. } => self.for_(&stmt.kind),
            StmtKind::Loop { label, body, .. } => {
                let exit = self.loop_(*label, body, None);
                self.state = exit;
            }
            StmtKind::Block { label, body } => {
                self.targets.push(RangeJumpTarget { label: *label, breaks: None, continues: None });
                self.block(body);
                if let Some(target) = self.targets.pop() {
                    self.state = join(self.state.take(), target.breaks);
                }
            }
            StmtKind::Break(label) | StmtKind::Continue(label) => {
                let state = self.state.take();
                if let Some(target) = self.targets.iter_mut().rfind(|target| target.label == *label) {
                    let breaks = matches!(stmt.kind, StmtKind::Break(_));
                    let slot = if breaks { &mut target.breaks } else { &mut target.continues };
                    *slot = join(slot.take(), state);
                }
            }
            StmtKind::Return(_) => self.state = None,
            // After the statement, the condition is true, because a launch stops if an assertion fails.
            StmtKind::Assert { cond, .. } => self.assume(*cond, true),
            StmtKind::Fence(_) | StmtKind::Print { .. } | StmtKind::Declare(_) => {}
        }
    }

    fn forget_value(&mut self, id: ExprId) {
        self.evaluated.remove(&id);
        self.cache.clear();
    }

    fn evaluate(&mut self, id: ExprId) {
        let function = self.function;
        match &function.exprs[id].kind {
            ExprKind::Read(local) => match self.state.as_ref().and_then(|state| state.get(local)).cloned() {
                Some(fact) => self.set_range(id, fact),
                None => self.forget_value(id),
            },
            ExprKind::Load { place, .. } => {
                self.access(BodySite::Load(id), place);
                self.forget_value(id);
            }
            kind => {
                self.cache.remove(&id);
                if self.recording {
                    self.record(id, kind);
                }
            }
        }
    }

    /// Records whether an operation may overflow or divide by zero.
    fn record(&mut self, id: ExprId, kind: &ExprKind) {
        let scalar = self.function.exprs[id].ty.scalar();
        let exact = match kind {
            ExprKind::Binary { op: BinOp::Div | BinOp::Rem, left, right } if scalar.is_int() => {
                self.division(id, *left, *right, scalar);
                None
            }
            ExprKind::Binary { op, left, right } if self.scalar(id).is_some() => {
                let assumed = self.assumed_result(*op, *left, *right);
                let (left, right) = (self.fact(*left), self.fact(*right));
                if matches!(op, BinOp::Shl | BinOp::Shr) && right.low >= 0 && right.high < i128::from(scalar.bits()) {
                    self.analysis.in_range_shifts.insert(id);
                }
                assumed.or_else(|| transfer::binary(*op, &left, &right, scalar))
            }
            ExprKind::Unary { op: UnaryOp::Neg, value } if self.scalar(id).is_some() => {
                let value = self.fact(*value);
                Some(ValueBounds::new(-value.high, -value.low))
            }
            ExprKind::Math { function, args } if self.scalar(id).is_some() => {
                let args: Vec<ValueBounds> = args.iter().map(|&arg| self.fact(arg)).collect();
                transfer::math(*function, &args, scalar)
            }
            _ => None,
        };
        if exact.is_some_and(|fact| fact.fits_in(scalar)) {
            self.analysis.exact.insert(id);
        }
    }

    fn division(&mut self, id: ExprId, left: ExprId, right: ExprId, scalar: Scalar) {
        self.analysis.summary.divisions += 1;
        let (a, b) = match self.scalar(right) {
            Some(_) => (self.fact(left), self.fact(right)),
            None => (ValueBounds::any(scalar), ValueBounds { nonzero: false, ..ValueBounds::any(scalar) }),
        };
        if !b.nonzero {
            self.analysis.summary.guarded_divisions += 1;
            self.analysis.zero_divisors.insert(id);
        }
        let least = limits(scalar).0;
        if scalar.is_signed() && b.low <= -1 && b.high >= -1 && a.low == least {
            self.analysis.overflowing_divisions.insert(id);
        }
    }

    fn branch(&mut self, cond: ExprId, then: &'a Block, other: &'a Block) {
        let count = self.refinements.len();
        let before = self.state.clone();
        self.assume(cond, true);
        self.block(then);
        self.pop_refinements(count);
        let after_then = std::mem::replace(&mut self.state, before);
        self.assume(cond, false);
        self.block(other);
        self.pop_refinements(count);
        let after_other = self.state.take();
        // If one branch always exits, the rest of the block executes only under the condition of the other branch.
        match (after_then.is_some(), after_other.is_some()) {
            (true, false) => self.assume(cond, true),
            (false, true) => self.assume(cond, false),
            _ => {}
        }
        self.state = join(after_then, after_other);
    }

    fn for_(&mut self, kind: &'a StmtKind) {
        let StmtKind::For { label, local, start, end, step, inclusive, body, .. } = kind else { return };
        let scalar = self.scalar(*start).unwrap_or(Scalar::I32);
        let (first, last, by) = (self.fact(*start), self.fact(*end), self.fact(*step));
        let inside = i128::from(!*inclusive);
        // A step of zero is a fault, so it need not be considered inside the loop.
        let counter = if by.low >= 0 {
            // The upper bounds of `end` are also upper bounds of the counter.
            let limited = ValueBounds { low: first.low, high: i128::MAX, upper_bounds: vec![], nonzero: false };
            Some(limited.limited_by(&last, -inside))
        } else if by.high < 0 {
            let upper_bounds = first.upper_bounds.clone();
            Some(ValueBounds { low: last.low + inside, high: first.high, upper_bounds, nonzero: false })
        } else {
            None
        };
        let counter = counter.filter(|fact| fact.low <= fact.high).unwrap_or(ValueBounds::any(scalar));
        if self.recording && (by.low > 0 || by.high < 0) {
            let beyond = match by.low > 0 {
                true => ValueBounds::new(0, last.high - inside + by.high),
                false => ValueBounds::new((last.low + inside + by.low).min(0), 0),
            };
            if beyond.fits_in(scalar) {
                self.analysis.non_overflowing_counters.insert(*label, by.low > 0);
            }
        }
        let before = self.state.clone();
        let exit = self.loop_(*label, body, Some((*local, counter)));
        // The counter may be read after the loop, so its bounds must be known there.
        self.state = join(exit, before);
        if let Some(state) = &mut self.state {
            state.remove(local);
        }
    }

    /// Interprets a loop's body repeatedly until the state at its start is stable, then once more to record results.
    /// Returns the state after the loop. For a `for` loop, for which `counter` is set, this state also covers the exit
    /// at the end of the range.
    fn loop_(&mut self, label: Label, body: &'a Block, counter: Option<(LocalId, ValueBounds)>) -> LocalFacts {
        let first = self.stmt;
        let recording = std::mem::replace(&mut self.recording, false);
        let entry = self.state.take();
        let mut head = entry.clone();
        self.nesting += 1;
        let mut rounds = if self.nesting > MAX_NESTING { MAX_ROUNDS } else { 0 };
        while rounds < MAX_ROUNDS {
            self.stmt = first;
            let (back, _) = self.iteration(label, body, &head, &counter);
            let next = join(entry.clone(), back);
            let (stable, widened) = self.widen_head(&head, next);
            head = widened;
            if stable {
                break;
            }
            rounds += 1;
        }
        if rounds == MAX_ROUNDS
            && let Some(head) = &mut head
        {
            each_stmt(body, &mut |stmt| {
                if let StmtKind::Write { local, .. } | StmtKind::For { local, .. } = &stmt.kind {
                    head.remove(local);
                }
            });
        }
        self.recording = recording;
        self.stmt = first;
        let (back, breaks) = self.iteration(label, body, &head, &counter);
        self.nesting -= 1;
        if counter.is_some() { join(back, breaks) } else { breaks }
    }

    /// Interprets one iteration. Returns the state at its end and the state at its `break`s.
    fn iteration(
        &mut self,
        label: Label,
        body: &'a Block,
        head: &LocalFacts,
        counter: &Option<(LocalId, ValueBounds)>,
    ) -> (LocalFacts, LocalFacts) {
        self.state = head.clone();
        if let (Some(state), Some((local, fact))) = (&mut self.state, counter) {
            state.insert(*local, fact.clone());
        }
        self.targets.push(RangeJumpTarget { label, breaks: None, continues: None });
        self.block(body);
        let target = self.targets.pop();
        let (breaks, continues) = target.map_or((None, None), |target| (target.breaks, target.continues));
        let mut back = join(self.state.take(), continues);
        if let (Some(state), Some((local, _))) = (&mut back, counter) {
            state.remove(local);
        }
        (back, breaks)
    }

    /// Returns whether the bounds in `head` include those in `next`, and a widened `head` that includes both.
    fn widen_head(&self, head: &LocalFacts, next: LocalFacts) -> (bool, LocalFacts) {
        let (Some(head), Some(next)) = (head, next) else { return (true, head.clone()) };
        let mut stable = true;
        let mut weaker = FxHashMap::default();
        for (local, fact) in head {
            let scalar = self.function.locals[*local].ty.as_int();
            match (next.get(local), scalar) {
                (Some(also), _) if also.implies(fact) => drop(weaker.insert(*local, fact.clone())),
                (Some(also), Some(scalar)) => {
                    stable = false;
                    weaker.insert(*local, fact.widened(also, scalar));
                }
                _ => stable = false,
            }
        }
        (stable, Some(weaker))
    }

    // Array accesses.

    fn access(&mut self, site: BodySite, place: &Place) {
        if !self.recording {
            return;
        }
        let mut guards = Vec::new();
        let mut assumed = Vec::new();
        for (axis, &index) in place.indices.iter().enumerate() {
            match self.in_bounds(place.memory, axis as u8, index) {
                InBounds::Proved => {}
                InBounds::If(bound) if self.assumptions.assume => assumed.push(bound),
                InBounds::If(_) | InBounds::Unknown => guards.push(axis as u8),
            }
        }
        let summary = &mut self.analysis.summary;
        summary.accesses += 1;
        summary.assumed += u32::from(guards.is_empty() && !assumed.is_empty());
        summary.guarded += u32::from(!guards.is_empty());
        self.analysis.assumptions.append(&mut assumed);
        if !guards.is_empty() {
            self.analysis.guards.insert(site, guards);
        }
    }

    fn in_bounds(&mut self, memory: MemId, axis: u8, index: ExprId) -> InBounds {
        let fact = self.fact(index);
        if fact.low < 0 {
            return InBounds::Unknown;
        }
        let memory_def = &self.function.memories[memory];
        let right = match (memory_def.extents.get(axis as usize), parameter(self.function, memory)) {
            (Some(Extent::Known(n)), _) if fact.high < i128::from(*n) => return InBounds::Proved,
            (Some(Extent::Known(n)), _) => Err(*n),
            (Some(Extent::Launch), Some(param)) => Ok(LaunchConstant::Extent { param, axis }),
            (Some(Extent::Dynamic(extent)), _) => {
                let extent = *extent;
                let least = self.fact(extent);
                if fact.high < least.low {
                    return InBounds::Proved;
                }
                match self.symbol(extent) {
                    Some(symbol) => Ok(symbol),
                    None => return InBounds::Unknown,
                }
            }
            _ => return InBounds::Unknown,
        };
        if let Ok(symbol) = right
            && fact.upper_bounds.iter().any(|(s, plus)| *s == symbol && *plus < 0)
        {
            return InBounds::Proved;
        }
        let bound = |(left, plus): (Option<LaunchConstant>, i128)| {
            i64::try_from(plus + 1).ok().map(|plus| InBounds::If(SymbolInequality { left, plus, right }))
        };
        // If another access already requires a launch check that implies this one, no further check is needed.
        let is_checked = |&&(symbol, plus): &&(LaunchConstant, i128)| {
            let implies = |known: &SymbolInequality| {
                known.left == Some(symbol) && known.right == right && plus < i128::from(known.plus)
            };
            self.analysis.assumptions.iter().any(implies)
        };
        if let Some(&(symbol, plus)) = fact.upper_bounds.iter().find(is_checked) {
            return bound((Some(symbol), plus)).unwrap_or(InBounds::Unknown);
        }
        let symbolic = fact.upper_bounds.iter().min_by_key(|(symbol, plus)| (preference(*symbol), *plus));
        let symbolic = symbolic.map(|(symbol, plus)| (Some(*symbol), *plus));
        // If the block size is unknown, an upper bound of 1023 or 63 is that of an arbitrary thread index. A launch
        // check with this bound would fail for small arrays, even if the blocks are small.
        let all_threads = self.assumptions.block.is_none() && [1023, 63].contains(&fact.high);
        let number = (right.is_ok() && fact.high < LARGEST_ASSUMED && !all_threads).then_some((None, fact.high));
        // The launch check for a constant index compares the constant with the extent. It does not use a symbolic bound
        // of the index.
        let varies = fact.low < fact.high;
        let dimension = varies && symbolic.is_some_and(|(symbol, _)| symbol.is_some_and(|s| preference(s) < 3));
        let best = if dimension { symbolic } else { number.or(symbolic) };
        // Rejects launch checks that would fail in most launches: `n + c <= n` with a positive constant `c`, or
        // `m + c <= n` with a large one.
        let is_plausible = |(left, plus): &(Option<LaunchConstant>, i128)| {
            left.is_none() || (*plus < LARGEST_ASSUMED && (*plus < 0 || left.map(Ok) != Some(right)))
        };
        best.filter(is_plausible).and_then(bound).unwrap_or(InBounds::Unknown)
    }

    /// Returns the launch constant that an expression refers to; `None` if it is not a launch constant.
    fn symbol(&self, id: ExprId) -> Option<LaunchConstant> {
        match self.function.exprs[id].kind {
            ExprKind::Param(i) => {
                self.param_facts.is_none_or(|facts| i < facts.first).then_some(LaunchConstant::Param(i))
            }
            ExprKind::Id(BuiltinIndex::BlockDim, axis) => Some(LaunchConstant::BlockDim(axis as u8)),
            ExprKind::Id(BuiltinIndex::GridDim, axis) => Some(LaunchConstant::GridDim(axis as u8)),
            ExprKind::Extent(memory, axis) => {
                parameter(self.function, memory).map(|param| LaunchConstant::Extent { param, axis })
            }
            _ => None,
        }
    }
}

enum InBounds {
    Proved,
    If(SymbolInequality),
    Unknown,
}

/// Ranks launch constants as symbolic bounds, the tightest first: extents, then indices and parameters, then
/// dimensions, then the number of threads, which is rounded up to whole blocks.
fn preference(symbol: LaunchConstant) -> u8 {
    match symbol {
        LaunchConstant::Extent { .. } => 0,
        LaunchConstant::Index(_) => 1,
        LaunchConstant::Param(_) => 2,
        LaunchConstant::GridDim(_) | LaunchConstant::BlockDim(_) => 3,
        LaunchConstant::Threads(_) => 4,
    }
}

fn negated(op: BinOp) -> BinOp {
    match op {
        BinOp::Eq => BinOp::Ne,
        BinOp::Ne => BinOp::Eq,
        BinOp::Lt => BinOp::Ge,
        BinOp::Le => BinOp::Gt,
        BinOp::Gt => BinOp::Le,
        BinOp::Ge => BinOp::Lt,
        other => other,
    }
}
