//! Variance analysis: how values vary between the threads of a block, in the lattice uniform ⊂ affine ⊂ varying, for each
//! expression and local.
//!
//! A value is uniform if all threads that reach it together have the same one. Control dependence matters as much as data
//! dependence: where only some of the threads run, a local keeps different values in the others. So every block that is open
//! during the walk is marked *partial* if fewer threads may run it than the enclosing block: under a condition that is not
//! uniform, and behind a `break` or `continue` that not all threads take. A write makes its local varying if a partial block lies
//! between it and the local's *home*: the innermost block that contains all its accesses and writes it first. A `return` is
//! harmless, since threads that have returned read nothing any more.
//!
//! Facts about locals and loops influence code that was walked before, so the walk is repeated to a fixed point; facts only grow.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::arena::Side;
use crate::ir::def::*;
use crate::lang::ops::UnaryOp;
use crate::lang::scalar::Scalar;
use Variance::*;

/// Analyzes the kernel's body, which contains no calls.
pub(crate) fn analyse(module: &Module) -> Facts {
    let Some(function) = module.functions.get(module.kernel.body) else { return Facts::default() };
    let (homes, escaping) = homes(function);
    let mut analysis = Analysis {
        function,
        facts: Facts { exprs: Side::filled(&function.exprs, Uniform), locals: Side::filled(&function.locals, Uniform) },
        homes,
        escaping,
        open: vec![],
        next_block: 0,
        partial_loops: FxHashSet::default(),
        changed: true,
    };
    for (id, expr) in function.exprs.iter() {
        if expr.kind.is_free() {
            analysis.facts.exprs[id] = free(&expr.kind, expr.ty);
        }
    }
    while analysis.changed {
        analysis.changed = false;
        analysis.next_block = 0;
        analysis.block(&function.body, None, false);
    }
    analysis.facts
}

/// A block during the walk.
struct Open {
    /// Its number in walk order.
    number: usize,
    /// The label of the loop or `Block` whose body it is.
    label: Option<Label>,
    /// Some threads of the enclosing block may not be active here.
    partial: bool,
}

struct Analysis<'a> {
    function: &'a Function,
    facts: Facts,
    homes: FxHashMap<LocalId, usize>,
    /// Counters that are read outside of their loops, where threads may hold values of different iterations.
    escaping: FxHashSet<LocalId>,
    open: Vec<Open>,
    next_block: usize,
    /// Loops that threads may leave in different iterations.
    partial_loops: FxHashSet<Label>,
    changed: bool,
}

fn free(kind: &ExprKind, ty: Ty) -> Variance {
    match kind {
        ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::Extent(..) => Uniform,
        ExprKind::Id(Id3::Block | Id3::BlockDim | Id3::GridDim, _) => Uniform,
        ExprKind::Id(Id3::Thread | Id3::Global, _) | ExprKind::Index(_) if affine_type(ty) => Affine,
        _ => Varying,
    }
}

fn affine_type(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(Scalar::I32 | Scalar::U32))
}

impl Analysis<'_> {
    fn block(&mut self, block: &Block, label: Option<Label>, partial: bool) {
        self.open.push(Open { number: self.next_block, label, partial });
        self.next_block += 1;
        for stmt in block {
            self.stmt(&stmt.kind);
        }
        self.open.pop();
    }

    fn of(&self, id: ExprId) -> Variance {
        self.facts.exprs[id]
    }

    fn set(&mut self, id: ExprId, variance: Variance) {
        if variance > self.facts.exprs[id] {
            self.facts.exprs[id] = variance;
            self.changed = true;
        }
    }

    /// Records a write of `variance` to a local here.
    fn write(&mut self, local: LocalId, variance: Variance) {
        let home = self.homes.get(&local).copied().unwrap_or(0);
        let partial = self.open.iter().any(|open| open.number > home && open.partial);
        let variance = if partial { Varying } else { variance };
        if variance > self.facts.locals[local] {
            self.facts.locals[local] = variance;
            self.changed = true;
        }
    }

    fn stmt(&mut self, kind: &StmtKind) {
        match kind {
            StmtKind::Let(id) => {
                let variance = self.expr(*id);
                self.set(*id, variance);
            }
            StmtKind::Write { local, value } => self.write(*local, self.of(*value)),
            StmtKind::Atomic { result, .. } => {
                if let Some(result) = result {
                    self.set(*result, Varying);
                }
            }
            // The result of a barrier is the same for the whole block.
            StmtKind::Barrier { .. } => {}
            StmtKind::Warp { result, .. } => self.set(*result, Varying),
            StmtKind::Call { results, .. } => results.iter().for_each(|&result| self.set(result, Varying)),
            StmtKind::If { cond, then, other } => {
                let partial = self.of(*cond) != Uniform;
                self.block(then, None, partial);
                self.block(other, None, partial);
            }
            StmtKind::For { label, local, start, end, step, body, .. } => {
                let turn = self.of(*start).max(self.of(*step));
                // Threads with affine starts stay affine under a uniform step, but not under different ones.
                let counter = if self.of(*step) == Uniform { turn } else { Varying };
                let ends = turn.max(self.of(*end)) != Uniform;
                let exits = ends || self.partial_loops.contains(label);
                let counter = if exits && self.escaping.contains(local) { Varying } else { counter };
                // The counter is written in every iteration, by all threads still in the loop: its home is the body.
                if counter > self.facts.locals[*local] {
                    self.facts.locals[*local] = counter;
                    self.changed = true;
                }
                self.block(body, Some(*label), exits);
            }
            StmtKind::Loop { label, body, .. } => {
                let exits = self.partial_loops.contains(label);
                self.block(body, Some(*label), exits);
            }
            StmtKind::Block { label, body } => self.block(body, Some(*label), false),
            StmtKind::Break(label) => self.leave(*label, true),
            StmtKind::Continue(label) => self.leave(*label, false),
            StmtKind::Store { .. }
            | StmtKind::Fence(_)
            | StmtKind::Return(_)
            | StmtKind::Assert { .. }
            | StmtKind::Print { .. }
            | StmtKind::Declare(_) => {}
        }
    }

    /// Records a jump of some threads to the end of the block with this label, or out of the loop: the rest of the blocks that
    /// they leave is partial, unless all of them jump.
    fn leave(&mut self, label: Label, breaks: bool) {
        let Some(target) = self.open.iter().rposition(|open| open.label == Some(label)) else { return };
        // The target itself is included: threads that have continued with the next iteration do not take a following break.
        if !self.open.iter().skip(target).any(|open| open.partial) {
            return;
        }
        for open in self.open.iter_mut().skip(target) {
            open.partial = true;
            // Enclosed loops are left too.
            if let Some(passed) = open.label
                && (breaks || passed != label)
            {
                self.changed |= self.partial_loops.insert(passed);
            }
        }
    }

    fn expr(&self, id: ExprId) -> Variance {
        let expr = &self.function.exprs[id];
        let join = || {
            let mut all = Uniform;
            expr.kind.operands(|operand| all = all.max(self.of(operand)));
            all
        };
        let linear = |variance: Variance| if affine_type(expr.ty) { variance } else { pure(variance) };
        match &expr.kind {
            ExprKind::Read(local) => self.facts.locals[*local],
            ExprKind::Load { place, .. } => match self.function.memories[place.memory].space {
                Space::Global { access: Access::In, .. } | Space::Constant => pure(join()),
                Space::Global { .. } | Space::Shared | Space::Local | Space::Param { .. } => Varying,
            },
            ExprKind::Binary { op: BinOp::Add | BinOp::Sub, .. } => linear(join()),
            ExprKind::Binary { op: BinOp::Mul, left, right } => match (self.of(*left), self.of(*right)) {
                (Uniform, other) | (other, Uniform) => linear(other),
                _ => Varying,
            },
            ExprKind::Unary { op: UnaryOp::Neg, .. } => linear(join()),
            ExprKind::Convert(value) | ExprKind::Bitcast(value) if affine_type(self.function.exprs[*value].ty) => {
                linear(join())
            }
            // The statement that defines the result sets its variance.
            ExprKind::Result => Uniform,
            kind if kind.is_free() => self.of(id),
            _ => pure(join()),
        }
    }
}

/// An operation without a specific rule preserves only uniformity.
fn pure(operands: Variance) -> Variance {
    if operands == Uniform { Uniform } else { Varying }
}

/// Returns the home of each local, as the number of a block (the whole body for locals without one), and the locals that are read
/// outside of the loops they count.
fn homes(function: &Function) -> (FxHashMap<LocalId, usize>, FxHashSet<LocalId>) {
    let mut finder = Homes {
        function,
        next_block: 0,
        path: vec![],
        accesses: FxHashMap::default(),
        counting: vec![],
        escaping: FxHashSet::default(),
    };
    finder.block(&function.body);
    let home = |(local, accesses): (LocalId, Accesses)| {
        let &home = accesses.common.last()?;
        accesses.written_first.contains(&home).then_some((local, home))
    };
    (finder.accesses.into_iter().filter_map(home).collect(), finder.escaping)
}

/// The accesses of a local.
#[derive(Default)]
struct Accesses {
    /// The blocks around all accesses, outermost first.
    common: Vec<usize>,
    /// Blocks whose own statements write it before any access in a nested block.
    written_first: FxHashSet<usize>,
    /// Blocks with an access so far.
    touched: FxHashSet<usize>,
}

struct Homes<'a> {
    function: &'a Function,
    next_block: usize,
    path: Vec<usize>,
    accesses: FxHashMap<LocalId, Accesses>,
    /// The counters of the enclosing loops.
    counting: Vec<LocalId>,
    escaping: FxHashSet<LocalId>,
}

impl Homes<'_> {
    fn block(&mut self, block: &Block) {
        self.path.push(self.next_block);
        self.next_block += 1;
        for stmt in block {
            match &stmt.kind {
                StmtKind::Let(id) => {
                    if let ExprKind::Read(local) = self.function.exprs[*id].kind {
                        self.access(local, false);
                        if !self.counting.contains(&local) {
                            self.escaping.insert(local);
                        }
                    }
                }
                StmtKind::Write { local, .. } => self.access(*local, true),
                StmtKind::For { local, .. } => self.access(*local, false),
                _ => {}
            }
            let counter = match &stmt.kind {
                StmtKind::For { local, .. } => Some(*local),
                _ => None,
            };
            self.counting.extend(counter);
            for inner in stmt.kind.blocks() {
                self.block(inner);
            }
            self.counting.truncate(self.counting.len() - counter.iter().len());
        }
        self.path.pop();
    }

    fn access(&mut self, local: LocalId, is_write: bool) {
        let path = &self.path;
        let new = !self.accesses.contains_key(&local);
        let accesses = self.accesses.entry(local).or_default();
        if new {
            accesses.common.clone_from(path);
        } else {
            let shared = accesses.common.iter().zip(path).take_while(|(a, b)| a == b).count();
            accesses.common.truncate(shared);
        }
        if let Some(&block) = path.last()
            && is_write
            && !accesses.touched.contains(&block)
        {
            accesses.written_first.insert(block);
        }
        accesses.touched.extend(path);
    }
}
