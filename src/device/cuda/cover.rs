//! Finds arrays that the blocks of a `grid` kernel overwrite completely, so that their old contents need not be cleared or copied
//! to the GPU.
//!
//! The indices of a store are decomposed into sums of independent parts, each a constant times a component of the thread's
//! identity: block, thread (or its quotient and remainder by a number, or its warp and lane), iteration of a loop. Stores of a
//! block of statements that differ only in constants are considered together. The elements that they reach along an axis are then
//! a set of small numbers plus a multiple of the block's position, and the launch can decide whether those cover the array.
//! Conditions that only keep a store in bounds do not matter, nor do branches both sides of which cover.

use rustc_hash::FxHashMap;

use super::text::LaunchFacts;
use super::text::abi::symbol;
use crate::device::Extents;
use crate::ir::def::*;
use crate::ir::ranges::Symbol;
use crate::ir::visit::each_stmt;

/// The conditions on a launch under which the array is overwritten completely.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cover {
    needs: Vec<Need>,
}

/// A condition on an axis of the array.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Need {
    /// The blocks along axis `grid`, with `each` elements per block, reach the end of the array.
    Blocks { axis: u8, grid: u8, each: u32 },
    /// The extent is at most this.
    AtMost { axis: u8, length: u32 },
    /// The extent is at most the value of this launch constant.
    Within { axis: u8, limit: Symbol },
}

/// The largest set of reachable elements that is computed.
const MAX_SET: usize = 1 << 16;

/// A component of a thread's identity, or of its position in loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Part {
    Block(u8),
    Thread(u8),
    /// A thread's position along an axis, divided by a number, and the remainder.
    Quotient(u8, u32),
    Remainder(u8, u32),
    Warp,
    Lane,
    /// The number of steps that a loop has taken.
    Iteration(LocalId),
    /// All numbers below a launch constant: a loop whose iterations are distributed over threads.
    All(LocalId),
}

/// `constant + Σ factor · part`
#[derive(Clone, Debug, Default, PartialEq)]
struct Linear {
    constant: i64,
    parts: Vec<(Part, i64)>,
}

impl Linear {
    fn of(part: Part) -> Linear {
        Linear { constant: 0, parts: vec![(part, 1)] }
    }

    fn plus(mut self, other: &Linear, times: i64) -> Linear {
        self.constant += times * other.constant;
        for &(part, factor) in &other.parts {
            match self.parts.iter_mut().find(|(known, _)| *known == part) {
                Some((_, known)) => *known += times * factor,
                None => self.parts.push((part, times * factor)),
            }
        }
        self.parts.retain(|(_, factor)| *factor != 0);
        self.parts.sort_unstable();
        self
    }

    fn times(&self, by: i64) -> Linear {
        Linear::default().plus(self, by)
    }
}

/// A store that executes unless its index is out of bounds.
struct Store {
    indices: Vec<Linear>,
    /// Guards of the store: the index along an axis is below a launch constant.
    kept_in: Vec<(u8, Symbol)>,
}

/// A condition that guards a store.
#[derive(Clone)]
enum Guard {
    Below {
        index: Linear,
        limit: Symbol,
    },
    /// Only one thread of the block continues, as far as this component of its identity is concerned.
    One(Part),
}

struct Finder<'a> {
    function: &'a Function,
    memory: MemId,
    block: [u32; 3],
    /// Enclosing and earlier loops, by counter.
    loops: FxHashMap<LocalId, Loop>,
    /// The counters of the enclosing loops.
    open: Vec<LocalId>,
}

enum Loop {
    Counted {
        start: Linear,
        step: i64,
        iterations: u32,
    },
    /// Its iterations are distributed over the threads that `used` identifies, and cover all numbers below the limit.
    Shared {
        limit: Symbol,
        used: Vec<Part>,
    },
}

/// Returns, for each array parameter of a `grid` kernel with such blocks, the conditions under which it is overwritten
/// completely.
pub fn covers(module: &Module, block: [u32; 3]) -> Vec<Option<Cover>> {
    let params = &module.kernel.params;
    let function = &module.functions[module.kernel.body];
    let mut leaves_early = module.kernel.form != Form::Grid;
    each_stmt(&function.body, &mut |stmt| leaves_early |= matches!(stmt.kind, StmtKind::Return(_)));
    let of = |param: &KernelParam| match param {
        KernelParam::Array { memory, .. } if !leaves_early && !super::whole::is_read(function, *memory) => {
            let plain = function.memories[*memory].layout.leaves.len() == 1;
            let mut finder = Finder { function, memory: *memory, block, loops: FxHashMap::default(), open: vec![] };
            let needs = if plain { finder.block(&function.body, &[]) } else { None };
            needs.map(|needs| Cover { needs })
        }
        _ => None,
    };
    params.iter().map(of).collect()
}

impl Cover {
    /// Returns whether the conditions depend on the values of parameters.
    pub(crate) fn asks_for_values(&self) -> bool {
        self.needs.iter().any(|need| matches!(need, Need::Within { limit: Symbol::Param(_), .. }))
    }

    /// Returns whether the conditions hold for a launch; `shape` is the array's.
    pub fn holds(&self, shape: &[u32], facts: &dyn LaunchFacts) -> bool {
        let Extents::Grid { grid, .. } = facts.extents() else { return false };
        self.needs.iter().all(|need| match *need {
            Need::Blocks { axis, grid: k, each } => shape
                .get(usize::from(axis))
                .is_some_and(|&extent| u64::from(grid[usize::from(k)]) * u64::from(each) >= u64::from(extent)),
            Need::AtMost { axis, length } => shape.get(usize::from(axis)).is_some_and(|&extent| extent <= length),
            Need::Within { axis, limit } => {
                let extent = shape.get(usize::from(axis)).copied().map(i128::from);
                extent.zip(symbol(facts, limit)).is_some_and(|(extent, limit)| extent <= limit)
            }
        })
    }
}

impl Finder<'_> {
    /// Returns the conditions under which these statements alone overwrite the whole array.
    fn block(&mut self, block: &[Stmt], guards: &[Guard]) -> Option<Vec<Need>> {
        let mut stores = vec![];
        for stmt in block {
            if let Some(needs) = self.stmt(stmt, guards, &mut stores) {
                return Some(needs);
            }
        }
        self.together(&stores)
    }

    /// Collects a statement's stores; returns the conditions if the statement covers the array by itself.
    fn stmt(&mut self, stmt: &Stmt, guards: &[Guard], stores: &mut Vec<Store>) -> Option<Vec<Need>> {
        match &stmt.kind {
            StmtKind::Store { place, .. } if place.memory == self.memory && place.component.is_none() => {
                stores.extend(self.store(place, guards));
                None
            }
            StmtKind::If { cond, then, other } => match self.guards(*cond) {
                Some(more) if !self.stores_in(other) => {
                    let guards: Vec<Guard> = guards.iter().cloned().chain(more).collect();
                    then.iter().find_map(|stmt| self.stmt(stmt, &guards, stores))
                }
                _ => {
                    let mut needs = self.block(then, guards)?;
                    needs.extend(self.block(other, guards)?);
                    Some(needs)
                }
            },
            StmtKind::For { label, local, start, end, step, inclusive: false, body, .. } if self.stores_in(body) => {
                let mut left = false;
                each_stmt(body, &mut |stmt| {
                    left |= matches!(&stmt.kind, StmtKind::Break(l) | StmtKind::Continue(l) if l == label);
                });
                if left || self.loops.contains_key(local) {
                    return None;
                }
                let found = self.counted(*start, *end, *step)?;
                self.loops.insert(*local, found);
                self.open.push(*local);
                let needs = body.iter().find_map(|stmt| self.stmt(stmt, guards, stores));
                self.open.pop();
                needs
            }
            _ => None,
        }
    }

    fn stores_in(&self, block: &[Stmt]) -> bool {
        let mut found = false;
        each_stmt(block, &mut |stmt| {
            found |= matches!(&stmt.kind, StmtKind::Store { place, .. } if place.memory == self.memory);
        });
        found
    }

    fn store(&self, place: &Place, guards: &[Guard]) -> Option<Store> {
        let indices: Vec<Linear> = place.indices.iter().map(|&index| self.linear(index, 0)).collect::<Option<_>>()?;
        let told: Vec<Part> =
            indices.iter().flat_map(|index| &index.parts).flat_map(|(part, _)| self.told(*part)).collect();
        // An enclosing loop with no iterations, or one that is distributed over threads but does not identify the element.
        let skips = |local: &LocalId| match self.loops.get(local) {
            Some(Loop::Counted { iterations, .. }) => *iterations == 0,
            _ => !told.contains(&Part::All(*local)),
        };
        if self.open.iter().any(skips) {
            return None;
        }
        let mut kept_in = vec![];
        let mut ones: Vec<Part> = vec![];
        for guard in guards {
            match guard {
                Guard::Below { index, limit } => {
                    let axis = indices.iter().position(|own| own == index)?;
                    kept_in.push((axis as u8, *limit));
                }
                Guard::One(part) => {
                    // The thread that continues must be independent of the element, and of the other conditions.
                    if told.iter().chain(&ones).any(|other| depend(*part, *other)) {
                        return None;
                    }
                    ones.push(*part);
                }
            }
        }
        Some(Store { indices, kept_in })
    }

    /// Returns a component together with the components of the thread's identity that it depends on.
    fn told(&self, part: Part) -> Vec<Part> {
        let mut told = vec![part];
        if let Part::All(local) = part
            && let Some(Loop::Shared { used, .. }) = self.loops.get(&local)
        {
            told.extend(used);
        }
        told
    }

    /// Decomposes a condition that is a conjunction of terms such as `index < limit` and `thread_idx.x == 0`.
    fn guards(&self, cond: ExprId) -> Option<Vec<Guard>> {
        match &self.function.exprs[cond].kind {
            ExprKind::Binary { op: BinOp::And, left, right } => {
                let mut both = self.guards(*left)?;
                both.extend(self.guards(*right)?);
                Some(both)
            }
            ExprKind::Select { cond, then, other } if self.constant(*other) == Some(0) => {
                let mut both = self.guards(*cond)?;
                both.extend(self.guards(*then)?);
                Some(both)
            }
            ExprKind::Binary { op: BinOp::Lt, left, right } => {
                Some(vec![Guard::Below { index: self.linear(*left, 0)?, limit: self.symbol(*right)? }])
            }
            ExprKind::Binary { op: BinOp::Gt, left, right } => {
                Some(vec![Guard::Below { index: self.linear(*right, 0)?, limit: self.symbol(*left)? }])
            }
            ExprKind::Binary { op: BinOp::Eq, left, right }
                if self.function.exprs[*left].ty == Ty::Scalar(Scalar::I32) =>
            {
                let number = u32::try_from(self.constant(*right)?).ok()?;
                let index = self.linear(*left, 0)?;
                match index.parts.as_slice() {
                    [(part, 1)] if index.constant == 0 && number < self.size(*part)? => Some(vec![Guard::One(*part)]),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn symbol(&self, id: ExprId) -> Option<Symbol> {
        match self.function.exprs[id].kind {
            ExprKind::Param(i) => Some(Symbol::Param(i)),
            ExprKind::Extent(memory, axis) => {
                let param = crate::ir::ranges::parameter(self.function, memory)?;
                Some(Symbol::Extent { param, axis })
            }
            _ => None,
        }
    }

    fn constant(&self, id: ExprId) -> Option<i64> {
        let linear = self.linear(id, 0)?;
        linear.parts.is_empty().then_some(linear.constant)
    }

    /// Returns a loop whose trip count is known, or whose iterations are distributed over threads with a step of their number.
    fn counted(&self, start: ExprId, end: ExprId, step: ExprId) -> Option<Loop> {
        let (start, step) = (self.linear(start, 0)?, self.constant(step).filter(|&step| step > 0)?);
        if let (true, Some(end)) = (start.parts.is_empty(), self.constant(end)) {
            let iterations = ((end - start.constant).max(0) as u64).div_ceil(step as u64);
            return Some(Loop::Counted { start, step, iterations: u32::try_from(iterations).ok()? });
        }
        let shared = self.reach(&start.parts, &[start.constant])? as i64 >= step;
        let used = start.parts.iter().map(|&(part, _)| part).collect();
        shared.then_some(Loop::Shared { limit: self.symbol(end)?, used })
    }

    fn linear(&self, id: ExprId, depth: u32) -> Option<Linear> {
        if depth > 16 {
            return None;
        }
        let expr = &self.function.exprs[id];
        let of = |id: ExprId| self.linear(id, depth + 1);
        let number = |n: i64| Linear { constant: n, parts: vec![] };
        Some(match &expr.kind {
            ExprKind::Const(bits) if expr.ty == Ty::Scalar(Scalar::I32) => number(i64::from(*bits as i32)),
            ExprKind::Id(Id3::BlockDim, axis) => number(self.block[*axis as usize].into()),
            ExprKind::Id(Id3::Thread, axis) => Linear::of(Part::Thread(*axis as u8)),
            ExprKind::Id(Id3::Block, axis) => Linear::of(Part::Block(*axis as u8)),
            ExprKind::Id(Id3::Global, axis) => Linear::of(Part::Thread(*axis as u8))
                .plus(&Linear::of(Part::Block(*axis as u8)), self.block[*axis as usize].into()),
            ExprKind::WarpIdx => Linear::of(Part::Warp),
            ExprKind::LaneIdx => Linear::of(Part::Lane),
            ExprKind::Read(local) if self.open.contains(local) => match self.loops.get(local)? {
                Loop::Counted { start, step, .. } => start.clone().plus(&Linear::of(Part::Iteration(*local)), *step),
                Loop::Shared { .. } => Linear::of(Part::All(*local)),
            },
            ExprKind::Binary { op: BinOp::Add, left, right } => of(*left)?.plus(&of(*right)?, 1),
            ExprKind::Binary { op: BinOp::Sub, left, right } => of(*left)?.plus(&of(*right)?, -1),
            ExprKind::Binary { op: BinOp::Mul, left, right } => {
                let (left, right) = (of(*left)?, of(*right)?);
                match (left.parts.is_empty(), right.parts.is_empty()) {
                    (_, true) => left.times(right.constant),
                    (true, _) => right.times(left.constant),
                    _ => return None,
                }
            }
            ExprKind::Binary { op: op @ (BinOp::Div | BinOp::Rem), left, right } => {
                let ExprKind::Id(Id3::Thread, axis) = self.function.exprs[*left].kind else { return None };
                let by = u32::try_from(self.constant(*right)?).ok().filter(|&by| by > 0)?;
                let axis = axis as u8;
                Linear::of(if *op == BinOp::Div { Part::Quotient(axis, by) } else { Part::Remainder(axis, by) })
            }
            // The forms that division and remainder by powers of two have after simplification.
            ExprKind::Binary { op: BinOp::Shr, left, right } => {
                let ExprKind::Id(Id3::Thread, axis) = self.function.exprs[*left].kind else { return None };
                let by = u32::try_from(self.constant(*right)?).ok().filter(|&by| by < 16)?;
                Linear::of(Part::Quotient(axis as u8, 1 << by))
            }
            ExprKind::Binary { op: BinOp::And, left, right } => {
                let ExprKind::Id(Id3::Thread, axis) = self.function.exprs[*left].kind else { return None };
                let by = u32::try_from(self.constant(*right)? + 1).ok().filter(|by| by.is_power_of_two())?;
                Linear::of(Part::Remainder(axis as u8, by))
            }
            ExprKind::Binary { op: BinOp::Shl, left, right } => {
                let by = self.constant(*right).filter(|by| (0..31).contains(by))?;
                of(*left)?.times(1 << by)
            }
            _ => return None,
        })
    }

    /// Returns how many values a component has; `None` for blocks and distributed loops.
    fn size(&self, part: Part) -> Option<u32> {
        let threads: u32 = self.block.iter().product();
        let flat = self.block[1] == 1 && self.block[2] == 1 && threads.is_multiple_of(32);
        match part {
            Part::Thread(k) => Some(self.block[usize::from(k)]),
            Part::Quotient(k, by) => Some(self.block[usize::from(k)]).filter(|n| n % by == 0).map(|n| n / by),
            Part::Remainder(k, by) => Some(self.block[usize::from(k)]).filter(|n| n % by == 0).map(|_| by),
            Part::Warp => flat.then_some(threads / 32),
            Part::Lane => flat.then_some(32),
            Part::Iteration(local) => match self.loops.get(&local)? {
                Loop::Counted { iterations, .. } => Some(*iterations),
                Loop::Shared { .. } => None,
            },
            Part::Block(_) | Part::All(_) => None,
        }
    }

    /// Returns the length of the gap-free range of sums, from 0 on, of these parts and one of the constants.
    fn reach(&self, parts: &[(Part, i64)], constants: &[i64]) -> Option<usize> {
        let mut set = vec![false; MAX_SET];
        let mut most = 0usize;
        for &constant in constants {
            let at = usize::try_from(constant).ok().filter(|&at| at < MAX_SET)?;
            set[at] = true;
            most = most.max(at);
        }
        for &(part, factor) in parts {
            let (factor, size) = (usize::try_from(factor).ok()?, self.size(part)? as usize);
            let further = factor.checked_mul(size.saturating_sub(1))?;
            if size == 0 || most + further >= MAX_SET {
                return None;
            }
            let before = set[..=most].to_vec();
            for iteration in 1..size {
                for (at, _) in before.iter().enumerate().filter(|(_, known)| **known) {
                    set[at + iteration * factor] = true;
                }
            }
            most += further;
        }
        Some(set.iter().take_while(|&&known| known).count())
    }

    /// Returns the conditions under which these stores, which differ only in constants, reach all elements.
    fn together(&self, stores: &[Store]) -> Option<Vec<Need>> {
        let first = stores.first()?;
        let rank = first.indices.len();
        let alike = |store: &&Store| (0..rank).all(|k| store.indices[k].parts == first.indices[k].parts);
        let stores: Vec<&Store> = stores.iter().filter(alike).collect();
        // A component must not determine the indices of two axes.
        let mut seen: Vec<Part> = vec![];
        for (part, _) in first.indices.iter().flat_map(|index| &index.parts) {
            let bound = self.told(*part);
            if bound.iter().any(|part| seen.iter().any(|other| depend(*part, *other))) {
                return None;
            }
            seen.extend(bound);
        }
        let mut constants: Vec<Vec<i64>> =
            stores.iter().map(|s| s.indices.iter().map(|i| i.constant).collect()).collect();
        constants.sort();
        constants.dedup();
        let along = |axis: usize| {
            let mut all: Vec<i64> = constants.iter().map(|c| c[axis]).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let pairs: usize = (0..rank).map(|axis| along(axis).len()).product();
        if pairs != constants.len() {
            return None;
        }
        let mut needs = vec![];
        for (axis, index) in first.indices.iter().enumerate() {
            needs.push(self.axis(axis as u8, &index.parts, &along(axis))?);
        }
        for &(axis, limit) in stores.iter().flat_map(|store| &store.kept_in) {
            needs.push(Need::Within { axis, limit });
        }
        Some(needs)
    }

    fn axis(&self, axis: u8, parts: &[(Part, i64)], constants: &[i64]) -> Option<Need> {
        if let ([(Part::All(local), 1)], [0]) = (parts, constants)
            && let Some(Loop::Shared { limit, .. }) = self.loops.get(local)
        {
            return Some(Need::Within { axis, limit: *limit });
        }
        let (blocks, own): (Vec<_>, Vec<_>) = parts.iter().partition(|(part, _)| matches!(part, Part::Block(_)));
        let reach = u32::try_from(self.reach(&own, constants)?).ok()?;
        match blocks.as_slice() {
            [] => Some(Need::AtMost { axis, length: reach }),
            [(Part::Block(grid), each)] => {
                let each = u32::try_from(*each).ok()?;
                (reach >= each).then_some(Need::Blocks { axis, grid: *grid, each })
            }
            _ => None,
        }
    }
}

/// Returns whether two components depend on each other.
fn depend(a: Part, b: Part) -> bool {
    let thread = |part: Part| match part {
        Part::Thread(k) => Some((k, None)),
        Part::Quotient(k, by) => Some((k, Some((by, true)))),
        Part::Remainder(k, by) => Some((k, Some((by, false)))),
        _ => None,
    };
    let flat = |part: Part| matches!(part, Part::Warp | Part::Lane);
    match (thread(a), thread(b)) {
        // Quotient and remainder by the same number are independent; all other pairs of one axis are not.
        (Some((k, Some((by, high)))), Some((l, Some((other, also))))) => k == l && (by != other || high == also),
        (Some((k, _)), Some((l, _))) => k == l,
        (Some(_), None) => flat(b),
        (None, Some(_)) => flat(a),
        (None, None) => a == b,
    }
}
