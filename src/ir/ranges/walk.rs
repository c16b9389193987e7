//! The abstract interpretation of a body.

use rustc_hash::FxHashMap;

use super::fact::{Fact, Symbol};
use super::found::{Bound, Given, Ranges, Setting, Site, parameter};
use super::transfer;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;
use crate::lang::ops::{BarrierKind, UnaryOp};
use crate::lang::scalar::{Scalar, Value};

/// Expressions nested deeper are treated as unknown.
const MAX_DEPTH: u32 = 12;
/// Iterations of a loop after which everything that still grows is treated as unknown.
const MAX_ROUNDS: u32 = 6;
/// Loops nested deeper are not iterated.
const MAX_NESTING: u32 = 3;
/// The largest constant index that may be assumed to be in bounds of an array.
const LARGEST_ASSUMED: i128 = 65536;

/// Facts about locals; missing ones may have any value. `None` is unreachable.
type State = Option<FxHashMap<LocalId, Fact>>;

struct Target {
    label: Label,
    breaks: State,
    continues: State,
}

pub(crate) struct Walk<'a> {
    function: &'a Function,
    setting: Setting,
    given: Option<&'a Given>,
    pub found: Ranges,
    /// The fact about what the last store so far stores, if it is an integer.
    pub stored: Option<Fact>,
    state: State,
    /// Facts about loads, reads and results.
    known: FxHashMap<ExprId, Fact>,
    /// Refinements of values by enclosing conditions, inner ones last.
    refined: Vec<(ExprId, Fact)>,
    cache: FxHashMap<ExprId, Fact>,
    targets: Vec<Target>,
    recording: bool,
    nesting: u32,
    /// The number of the next statement.
    stmt: u32,
}

fn join(a: State, b: State) -> State {
    match (a, b) {
        (Some(a), Some(b)) => {
            Some(a.iter().filter_map(|(local, fact)| Some((*local, fact.join(b.get(local)?)))).collect())
        }
        (one, None) | (None, one) => one,
    }
}

fn int(ty: Ty) -> Option<Scalar> {
    match ty {
        Ty::Scalar(s) if s.is_int() => Some(s),
        _ => None,
    }
}

impl<'a> Walk<'a> {
    pub fn new(function: &'a Function, setting: Setting, given: Option<&'a Given>) -> Self {
        Walk {
            function,
            setting,
            given,
            found: Ranges::default(),
            stored: None,
            state: Some(FxHashMap::default()),
            known: FxHashMap::default(),
            refined: vec![],
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
        if self.setting.largest == 0 { i128::from(i32::MAX) } else { i128::from(self.setting.largest) }
    }

    // Values.

    fn scalar(&self, id: ExprId) -> Option<Scalar> {
        int(self.function.exprs[id].ty)
    }

    /// Returns the fact about a value parameter.
    fn parameter(&self, i: u32, any: &Fact) -> Fact {
        let own = self.given.and_then(|given| Some((given, i.checked_sub(given.from)?)));
        match own {
            None => any.clone().with(Symbol::Param(i), 0),
            Some((_, k @ 0..=2)) => self.identity(Id3::Block, [Axis::X, Axis::Y, Axis::Z][k as usize]),
            Some((given, k)) => given.facts.get(k as usize - 3).unwrap_or(any).clone(),
        }
    }

    /// Returns the fact about an integer scalar here.
    fn fact(&mut self, id: ExprId) -> Fact {
        self.fact_at(id, 0)
    }

    fn fact_at(&mut self, id: ExprId, depth: u32) -> Fact {
        let Some(scalar) = self.scalar(id) else { return Fact::any(Scalar::I64) };
        if let Some(known) = self.cache.get(&id) {
            return known.clone();
        }
        let mut fact = if depth > MAX_DEPTH { Fact::any(scalar) } else { self.base(id, scalar, depth) };
        for (refined, also) in &self.refined {
            if *refined == id {
                fact = fact.meet(also);
            }
        }
        // A contradiction means unreachable code.
        if fact.low > fact.high {
            fact = Fact::any(scalar);
        }
        if depth <= MAX_DEPTH / 2 {
            self.cache.insert(id, fact.clone());
        }
        fact
    }

    /// Returns the fact without refinements of the value itself.
    fn base(&mut self, id: ExprId, scalar: Scalar, depth: u32) -> Fact {
        let function = self.function;
        let any = Fact::any(scalar);
        let exact = match &function.exprs[id].kind {
            ExprKind::Const(bits) => {
                let value = Value { ty: scalar, bits: *bits }.as_integer().unwrap_or(0);
                Some(Fact::of(value, value))
            }
            ExprKind::Param(i) => Some(self.parameter(*i, &any)),
            ExprKind::Id(id, axis) => Some(self.identity(*id, *axis)),
            ExprKind::Index(k) => Some(Fact::of(0, self.limit() - 1).with(Symbol::Index(*k), -1)),
            ExprKind::LaneIdx => Some(Fact::of(0, self.threads_of_block().min(32) - 1)),
            ExprKind::WarpIdx => Some(Fact::of(0, (self.threads_of_block() - 1) / 32)),
            ExprKind::Extent(memory, axis) => Some(self.extent(*memory, *axis, depth)),
            ExprKind::Read(_) | ExprKind::Load { .. } | ExprKind::Result => self.known.get(&id).cloned(),
            ExprKind::Unary { op: UnaryOp::Neg, value } => {
                let value = self.fact_at(*value, depth + 1);
                Some(Fact { nonzero: value.nonzero, ..Fact::of(-value.high, -value.low) })
            }
            ExprKind::Binary { op, left, right } => {
                let assumed = self.by_assumption(*op, *left, *right);
                let rounded = transfer::rounded_up(function, *op, *left, *right)
                    .map(|(value, by)| transfer::divided_up(&self.fact_at(value, depth + 1), by));
                let (left, right) = (self.fact_at(*left, depth + 1), self.fact_at(*right, depth + 1));
                assumed.or(rounded).or_else(|| transfer::binary(*op, &left, &right, scalar))
            }
            ExprKind::Math { function, args } => {
                let args: Vec<Fact> = args.iter().map(|&arg| self.fact_at(arg, depth + 1)).collect();
                transfer::math(*function, &args, scalar)
            }
            ExprKind::Select { then, other, .. } => {
                let (then, other) = (self.fact_at(*then, depth + 1), self.fact_at(*other, depth + 1));
                Some(then.join(&other))
            }
            ExprKind::Convert(value) => match function.exprs[*value].ty {
                Ty::Scalar(Scalar::Bool) => Some(Fact::of(0, 1)),
                ty if int(ty).is_some() => Some(self.fact_at(*value, depth + 1)),
                _ => None,
            },
            ExprKind::Bitcast(value) if self.scalar(*value).is_some() => Some(self.fact_at(*value, depth + 1)),
            _ => None,
        };
        exact.filter(|fact| fact.fits(scalar)).unwrap_or(any)
    }

    fn identity(&self, id: Id3, axis: Axis) -> Fact {
        let k = axis as usize;
        let axis = axis as u8;
        let most = [1024, 1024, 64][k];
        let known = self.setting.block.map(|block| i128::from(block[k]));
        let threads = if self.setting.largest == 0 { None } else { Some(self.limit()) };
        let blocks = match (threads, known) {
            (Some(threads), Some(block)) => (threads / block.max(1)).max(1),
            _ => self.limit(),
        };
        match id {
            Id3::Thread => Fact::of(0, known.unwrap_or(most) - 1).with(Symbol::BlockDim(axis), -1),
            Id3::BlockDim => match known {
                Some(block) => Fact::of(block, block).with(Symbol::BlockDim(axis), 0),
                None => Fact::of(1, most).with(Symbol::BlockDim(axis), 0),
            },
            Id3::Block => Fact::of(0, blocks - 1).with(Symbol::GridDim(axis), -1),
            Id3::GridDim => Fact::of(1, blocks).with(Symbol::GridDim(axis), 0),
            // Wraps beyond 2^31 threads.
            Id3::Global => match threads {
                Some(threads) => Fact::of(0, threads - 1).with(Symbol::Threads(axis), -1),
                None => Fact::any(Scalar::I32),
            },
        }
    }

    /// Returns the largest number of threads of a block.
    fn threads_of_block(&self) -> i128 {
        self.setting.block.map_or(1024, |block| block.iter().map(|&n| i128::from(n)).product::<i128>().max(1))
    }

    /// Returns the result of an operation in the launches that the text is for, where that is more precise than what follows from
    /// the operands.
    fn by_assumption(&mut self, op: BinOp, left: ExprId, right: ExprId) -> Option<Fact> {
        match op {
            BinOp::Mul => self
                .in_whole_blocks(left, right)
                .or_else(|| self.in_large_tiles(left, right))
                .or_else(|| self.in_large_tiles(right, left)),
            BinOp::Sub => self.last_of_some(left, right),
            _ => None,
        }
    }

    fn constant(&self, id: ExprId) -> Option<i128> {
        match self.function.exprs[id].kind {
            ExprKind::Const(bits) => Value { ty: self.scalar(id)?, bits }.as_integer(),
            _ => None,
        }
    }

    /// Handles `block_idx.x * 4096`, where a block processes more elements than it has threads: a grid that covers an array has
    /// so few blocks that this does not overflow, which is assumed of the launch.
    fn in_large_tiles(&mut self, blocks: ExprId, tile: ExprId) -> Option<Fact> {
        let ExprKind::Id(id @ (Id3::Block | Id3::GridDim), axis) = self.function.exprs[blocks].kind else {
            return None;
        };
        let tile = self.constant(tile).filter(|&tile| (1..=self.limit()).contains(&tile))?;
        let all = self.identity(Id3::GridDim, axis).high;
        if !self.setting.assume || self.setting.largest == 0 || all * tile <= i128::from(i32::MAX) {
            return None;
        }
        let most = self.limit() / tile;
        let right = Err(u32::try_from(most).ok()?);
        self.assume_of_launch(Bound { left: Some(Symbol::GridDim(axis as u8)), plus: 0, right });
        Some(match id {
            Id3::Block => Fact::of(0, (most - 1) * tile),
            _ => Fact::of(tile, most * tile),
        })
    }

    /// Handles `len(x) - 1`, an index of a nonempty array; that it is nonempty is assumed of the launch.
    fn last_of_some(&mut self, extent: ExprId, less: ExprId) -> Option<Fact> {
        let Symbol::Extent { param, axis } = self.symbol(extent)? else { return None };
        let less = self.constant(less).filter(|&less| (1..=LARGEST_ASSUMED).contains(&less))?;
        if !self.setting.assume {
            return None;
        }
        let symbol = Symbol::Extent { param, axis };
        self.assume_of_launch(Bound { left: None, plus: less as i64, right: Ok(symbol) });
        Some(Fact::of(0, self.limit() - less).with(symbol, -less))
    }

    fn assume_of_launch(&mut self, bound: Bound) {
        if !self.found.assumptions.contains(&bound) {
            self.found.assumptions.push(bound);
        }
    }

    /// Handles `block_idx.x * block_dim.x`, an index of a thread, and `grid_dim.x * block_dim.x`, the number of threads along an
    /// axis; the block's size may be a constant.
    fn in_whole_blocks(&self, left: ExprId, right: ExprId) -> Option<Fact> {
        if self.setting.largest == 0 {
            return None;
        }
        let kind = |id: ExprId| &self.function.exprs[id].kind;
        let product = |blocks: &ExprKind, size: &ExprKind| {
            let ExprKind::Id(blocks @ (Id3::Block | Id3::GridDim), axis) = blocks else { return None };
            let whole = match size {
                ExprKind::Id(Id3::BlockDim, other) => axis == other,
                ExprKind::Const(bits) => {
                    self.setting.block.is_some_and(|block| u64::from(block[*axis as usize]) == *bits)
                }
                _ => false,
            };
            let (least, most) = if *blocks == Id3::Block { (0, self.limit() - 1) } else { (1, self.limit()) };
            whole.then(|| Fact::of(least, most))
        };
        product(kind(left), kind(right)).or_else(|| product(kind(right), kind(left)))
    }

    fn extent(&mut self, memory: MemId, axis: u8, depth: u32) -> Fact {
        let found = &self.function.memories[memory];
        match found.extents.get(axis as usize) {
            Some(Extent::Known(n)) => Fact::of(i128::from(*n), i128::from(*n)),
            Some(Extent::Dynamic(id)) => self.fact_at(*id, depth + 1).meet(&Fact::of(0, i128::from(i32::MAX))),
            _ => {
                let any = Fact::of(i128::from(self.given.is_some()), self.limit());
                match parameter(self.function, memory) {
                    Some(param) => any.with(Symbol::Extent { param, axis }, 0),
                    None => any,
                }
            }
        }
    }

    // Conditions.

    fn refine_value(&mut self, id: ExprId, fact: Fact) {
        self.refined.push((id, fact));
        self.cache.clear();
    }

    fn forget_to(&mut self, len: usize) {
        if self.refined.len() > len {
            self.refined.truncate(len);
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
                let constant = |id: ExprId| match self.function.exprs[id].kind {
                    ExprKind::Const(bits) => Some(bits != 0),
                    _ => None,
                };
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
        let at_least = |fact: &Fact, low: i128| Fact { low, high: i128::MAX, below: vec![], nonzero: false }.meet(fact);
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
                self.refine_value(left, a.meet(&b));
                self.refine_value(right, b.meet(&a));
            }
            _ if (b.low, b.high) == (0, 0) => self.refine_value(left, a.without_zero()),
            _ if (a.low, a.high) == (0, 0) => self.refine_value(right, b.without_zero()),
            _ => {}
        }
    }

    /// Refines `x` by `x + 4096 <= n`, if the sum cannot wrap.
    fn refine_summand(&mut self, sum: ExprId, limit: &Fact, gap: i128) {
        let ExprKind::Binary { op: BinOp::Add, left, right } = self.function.exprs[sum].kind else { return };
        let (value, plus) = match (self.constant(left), self.constant(right)) {
            (None, Some(plus)) => (left, plus),
            (Some(plus), None) => (right, plus),
            _ => return,
        };
        let (Some(scalar), fact) = (self.scalar(sum), self.fact(value)) else { return };
        if fact.shifted(plus).fits(scalar) {
            self.refine_value(value, fact.limited_by(limit, -gap - plus));
        }
    }

    // Statements.

    fn block(&mut self, block: &'a Block) {
        let known = self.refined.len();
        for stmt in block {
            self.stmt(stmt);
        }
        self.forget_to(known);
    }

    fn know(&mut self, id: ExprId, fact: Fact) {
        self.known.insert(id, fact);
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
                self.access(Site::Stmt(number), place);
                self.stored = self.scalar(*value).map(|_| self.fact(*value));
            }
            StmtKind::Atomic { place, result, .. } => {
                self.access(Site::Stmt(number), place);
                result.iter().for_each(|&result| self.unknown(result));
            }
            StmtKind::Barrier { kind, result, .. } => {
                if let Some(result) = *result {
                    let counts = *kind == BarrierKind::BlockCount;
                    if counts { self.know(result, Fact::of(0, 1024)) } else { self.unknown(result) }
                }
            }
            StmtKind::Warp { result, .. } => self.unknown(*result),
            StmtKind::Call { results, .. } => results.iter().for_each(|&result| self.unknown(result)),
            StmtKind::If { cond, then, other } => self.branch(*cond, then, other),
            StmtKind::For { .. } => self.for_(&stmt.kind),
            StmtKind::Loop { label, body, .. } => {
                let exit = self.loop_(*label, body, None);
                self.state = exit;
            }
            StmtKind::Block { label, body } => {
                self.targets.push(Target { label: *label, breaks: None, continues: None });
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
            // An assertion is true behind it: devices stop where it fails.
            StmtKind::Assert { cond, .. } => self.assume(*cond, true),
            StmtKind::Fence(_) | StmtKind::Print { .. } | StmtKind::Declare(_) => {}
        }
    }

    fn unknown(&mut self, id: ExprId) {
        self.known.remove(&id);
        self.cache.clear();
    }

    fn evaluate(&mut self, id: ExprId) {
        let function = self.function;
        match &function.exprs[id].kind {
            ExprKind::Read(local) => match self.state.as_ref().and_then(|state| state.get(local)).cloned() {
                Some(fact) => self.know(id, fact),
                None => self.unknown(id),
            },
            ExprKind::Load { place, .. } => {
                self.access(Site::Load(id), place);
                self.unknown(id);
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
                let assumed = self.by_assumption(*op, *left, *right);
                let (left, right) = (self.fact(*left), self.fact(*right));
                if matches!(op, BinOp::Shl | BinOp::Shr) && right.low >= 0 && right.high < i128::from(scalar.bits()) {
                    self.found.small_shifts.insert(id);
                }
                assumed.or_else(|| transfer::binary(*op, &left, &right, scalar))
            }
            ExprKind::Unary { op: UnaryOp::Neg, value } if self.scalar(id).is_some() => {
                let value = self.fact(*value);
                Some(Fact::of(-value.high, -value.low))
            }
            ExprKind::Math { function, args } if self.scalar(id).is_some() => {
                let args: Vec<Fact> = args.iter().map(|&arg| self.fact(arg)).collect();
                transfer::math(*function, &args, scalar)
            }
            _ => None,
        };
        if exact.is_some_and(|fact| fact.fits(scalar)) {
            self.found.exact.insert(id);
        }
    }

    fn division(&mut self, id: ExprId, left: ExprId, right: ExprId, scalar: Scalar) {
        self.found.summary.divisions += 1;
        let (a, b) = match self.scalar(right) {
            Some(_) => (self.fact(left), self.fact(right)),
            None => (Fact::any(scalar), Fact { nonzero: false, ..Fact::any(scalar) }),
        };
        if !b.nonzero {
            self.found.summary.guarded_divisions += 1;
            self.found.zero_divisors.insert(id);
        }
        let least = super::fact::type_range(scalar).0;
        if scalar.is_signed() && b.low <= -1 && b.high >= -1 && a.low == least {
            self.found.overflowing_divisions.insert(id);
        }
    }

    fn branch(&mut self, cond: ExprId, then: &'a Block, other: &'a Block) {
        let known = self.refined.len();
        let before = self.state.clone();
        self.assume(cond, true);
        self.block(then);
        self.forget_to(known);
        let after_then = std::mem::replace(&mut self.state, before);
        self.assume(cond, false);
        self.block(other);
        self.forget_to(known);
        let after_other = self.state.take();
        // Where one branch leaves, the rest of the block runs under the other branch's condition.
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
        // A step of zero is a fault, so the body runs with none.
        let counter = if by.low >= 0 {
            // Upper bounds of the end are upper bounds of the counter.
            let limited = Fact { low: first.low, high: i128::MAX, below: vec![], nonzero: false };
            Some(limited.limited_by(&last, -inside))
        } else if by.high < 0 {
            let below = first.below.clone();
            Some(Fact { low: last.low + inside, high: first.high, below, nonzero: false })
        } else {
            None
        };
        let counter = counter.filter(|fact| fact.low <= fact.high).unwrap_or(Fact::any(scalar));
        if self.recording && (by.low > 0 || by.high < 0) {
            let beyond = match by.low > 0 {
                true => Fact::of(0, last.high - inside + by.high),
                false => Fact::of((last.low + inside + by.low).min(0), 0),
            };
            if beyond.fits(scalar) {
                self.found.roomy_loops.insert(*label, by.low > 0);
            }
        }
        let before = self.state.clone();
        let exit = self.loop_(*label, body, Some((*local, counter)));
        // The counter may also be read behind the loop.
        self.state = join(exit, before);
        if let Some(state) = &mut self.state {
            state.remove(local);
        }
    }

    /// Iterates a body until the state at its head is stable, then once more to record results. Returns the state behind it; for
    /// a `for` (with its counter) that includes the normal end.
    fn loop_(&mut self, label: Label, body: &'a Block, counter: Option<(LocalId, Fact)>) -> State {
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
            let (stable, widened) = self.settle(&head, next);
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

    /// Interprets one iteration; returns the states at its end and at jumps out of the loop.
    fn iteration(
        &mut self,
        label: Label,
        body: &'a Block,
        head: &State,
        counter: &Option<(LocalId, Fact)>,
    ) -> (State, State) {
        self.state = head.clone();
        if let (Some(state), Some((local, fact))) = (&mut self.state, counter) {
            state.insert(*local, fact.clone());
        }
        self.targets.push(Target { label, breaks: None, continues: None });
        self.block(body);
        let target = self.targets.pop();
        let (breaks, continues) = target.map_or((None, None), |target| (target.breaks, target.continues));
        let mut back = join(self.state.take(), continues);
        if let (Some(state), Some((local, _))) = (&mut back, counter) {
            state.remove(local);
        }
        (back, breaks)
    }

    /// Returns whether `head` covers `next`; if not, also a weaker head.
    fn settle(&self, head: &State, next: State) -> (bool, State) {
        let (Some(head), Some(next)) = (head, next) else { return (true, head.clone()) };
        let mut stable = true;
        let mut weaker = FxHashMap::default();
        for (local, fact) in head {
            let scalar = int(self.function.locals[*local].ty);
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

    // Accesses.

    fn access(&mut self, site: Site, place: &Place) {
        if !self.recording {
            return;
        }
        let mut guards = Vec::new();
        let mut assumed = Vec::new();
        for (axis, &index) in place.indices.iter().enumerate() {
            match self.in_bounds(place.memory, axis as u8, index) {
                InBounds::Proved => {}
                InBounds::If(bound) if self.setting.assume => assumed.push(bound),
                InBounds::If(_) | InBounds::Unknown => guards.push(axis as u8),
            }
        }
        let summary = &mut self.found.summary;
        summary.accesses += 1;
        summary.assumed += u32::from(guards.is_empty() && !assumed.is_empty());
        summary.guarded += u32::from(!guards.is_empty());
        self.found.assumptions.append(&mut assumed);
        if !guards.is_empty() {
            self.found.guards.insert(site, guards);
        }
    }

    fn in_bounds(&mut self, memory: MemId, axis: u8, index: ExprId) -> InBounds {
        let fact = self.fact(index);
        if fact.low < 0 {
            return InBounds::Unknown;
        }
        let found = &self.function.memories[memory];
        let right = match (found.extents.get(axis as usize), parameter(self.function, memory)) {
            (Some(Extent::Known(n)), _) if fact.high < i128::from(*n) => return InBounds::Proved,
            (Some(Extent::Known(n)), _) => Err(*n),
            (Some(Extent::Launch), Some(param)) => Ok(Symbol::Extent { param, axis }),
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
            && fact.below.iter().any(|(s, plus)| *s == symbol && *plus < 0)
        {
            return InBounds::Proved;
        }
        let bound = |(left, plus): (Option<Symbol>, i128)| {
            i64::try_from(plus + 1).ok().map(|plus| InBounds::If(Bound { left, plus, right }))
        };
        // What is assumed already asks nothing more of a launch.
        let is_assumed = |&&(symbol, plus): &&(Symbol, i128)| {
            let implies =
                |known: &Bound| known.left == Some(symbol) && known.right == right && plus < i128::from(known.plus);
            self.found.assumptions.iter().any(implies)
        };
        if let Some(&(symbol, plus)) = fact.below.iter().find(is_assumed) {
            return bound((Some(symbol), plus)).unwrap_or(InBounds::Unknown);
        }
        let symbolic = fact.below.iter().min_by_key(|(symbol, plus)| (preference(*symbol), *plus));
        let symbolic = symbolic.map(|(symbol, plus)| (Some(*symbol), *plus));
        // The largest size of an unknown block is an arbitrary bound.
        let all_threads = self.setting.block.is_none() && [1023, 63].contains(&fact.high);
        let number = (right.is_ok() && fact.high < LARGEST_ASSUMED && !all_threads).then_some((None, fact.high));
        // For a constant, comparisons with dimensions add nothing.
        let varies = fact.low < fact.high;
        let dimension = varies && symbolic.is_some_and(|(symbol, _)| symbol.is_some_and(|s| preference(s) < 3));
        let best = if dimension { symbolic } else { number.or(symbolic) };
        // Launches hardly ever meet what compares an extent with itself, or with one that is far away.
        let meets = |(left, plus): &(Option<Symbol>, i128)| {
            left.is_none() || (*plus < LARGEST_ASSUMED && (*plus < 0 || left.map(Ok) != Some(right)))
        };
        best.filter(meets).and_then(bound).unwrap_or(InBounds::Unknown)
    }

    /// Returns the launch constant that an expression is.
    fn symbol(&self, id: ExprId) -> Option<Symbol> {
        match self.function.exprs[id].kind {
            ExprKind::Param(i) => self.given.is_none_or(|given| i < given.from).then_some(Symbol::Param(i)),
            ExprKind::Id(Id3::BlockDim, axis) => Some(Symbol::BlockDim(axis as u8)),
            ExprKind::Id(Id3::GridDim, axis) => Some(Symbol::GridDim(axis as u8)),
            ExprKind::Extent(memory, axis) => {
                parameter(self.function, memory).map(|param| Symbol::Extent { param, axis })
            }
            _ => None,
        }
    }
}

enum InBounds {
    Proved,
    If(Bound),
    Unknown,
}

/// Ranks symbols as bounds: dimensions are the most informative, sizes in whole blocks the least.
fn preference(symbol: Symbol) -> u8 {
    match symbol {
        Symbol::Extent { .. } => 0,
        Symbol::Index(_) => 1,
        Symbol::Param(_) => 2,
        Symbol::GridDim(_) | Symbol::BlockDim(_) => 3,
        Symbol::Threads(_) => 4,
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
