//! Variance analysis: how values differ between the threads that run in lockstep, and where control flow diverges.
//!
//! Input: the body of a kernel, with all calls inlined. Output: the [`Variance`] of each expression and local (uniform,
//! affine or varying), the statements that some threads leave early, and the writes that must preserve the values of
//! inactive threads. Lockstep means that threads that reach a load together all read before any of them writes.
//!
//! A *region* is the function, a branch of an `if`, a loop or a labeled block. It is *partial* from the point where
//! some of its threads may have left. A local is owned by the innermost block that contains all its uses, so its writes
//! must preserve inactive threads only if a region inside the owner is partial. The analysis repeats until a fixpoint;
//! values only move up the lattice (divergence analysis, Karrenberg and Hack 2012).

use rustc_hash::{FxHashMap, FxHashSet};

use crate::def::*;
use clk_base::arena::SideTable;
use clk_scalar::Scalar;
use clk_scalar::ops::UnaryOp;

/// How a value varies between the threads of a block that reach it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variance {
    Uniform,
    /// An `i32` or `u32` that is, modulo 2^32, a uniform base plus uniform multiples of the thread's coordinates or of
    /// the indices of a `threads` kernel.
    Affine,
    Varying,
}

/// The number of a statement in pre-order: outer statements precede the statements inside them.
pub type StmtNumber = u32;

/// The variance of a function's values, and where its threads diverge.
pub struct Variances {
    pub exprs: SideTable<Expr, Variance>,
    /// The variance of each local: the join over all its writes, including the conditions under which they execute.
    pub locals: SideTable<Local, Variance>,
    /// Labeled statements from which some lanes exit early.
    pub early_exits: FxHashSet<Label>,
    /// Loops in which some lanes skip the rest of an iteration by `continue`.
    pub early_continues: FxHashSet<Label>,
    /// Some lanes return while others continue.
    pub has_early_return: bool,
    /// Writes of locals that must preserve the values of inactive lanes.
    pub masked_writes: FxHashSet<StmtNumber>,
    scopes: Vec<LocalScope>,
}

impl Variances {
    /// Returns whether some lanes leave the loop, or skip the rest of an iteration, while others continue.
    pub fn has_divergent_exit(&self, label: Label) -> bool {
        self.early_exits.contains(&label) || self.early_continues.contains(&label)
    }

    /// Returns `false` only if the local is certainly written before it is read.
    pub fn may_be_read_unwritten(&self, local: LocalId) -> bool {
        !self.scopes[local.index()].written_first
    }
}

/// The scope of a local.
#[derive(Clone, Copy, Debug, Default)]
struct LocalScope {
    /// The statement whose block owns the local; `None` if the function body owns it.
    owner: Option<StmtNumber>,
    /// The statement directly in the owning block that contains all reads in nested blocks, if there is one.
    only_loop: Option<StmtNumber>,
    written_first: bool,
}

struct DivergentRegion {
    label: Option<Label>,
    number: Option<StmtNumber>,
    is_loop: bool,
    partial: bool,
}

struct VarianceAnalysis<'a> {
    f: &'a Function,
    variances: Variances,
    regions: Vec<DivergentRegion>,
    number: StmtNumber,
    changed: bool,
}

/// Analyzes a function without calls.
pub fn analyze(f: &Function) -> Variances {
    let a = Variances {
        exprs: SideTable::filled(&f.exprs, Variance::Uniform),
        locals: SideTable::filled(&f.locals, Variance::Uniform),
        early_exits: FxHashSet::default(),
        early_continues: FxHashSet::default(),
        has_early_return: false,
        masked_writes: FxHashSet::default(),
        scopes: find_local_scopes(f),
    };
    let mut analysis = VarianceAnalysis { f, variances: a, regions: vec![], number: 0, changed: true };
    while analysis.changed {
        analysis.changed = false;
        analysis.number = 0;
        analysis.variances.masked_writes.clear();
        analysis.regions = vec![DivergentRegion {
            label: None,
            number: None,
            is_loop: false,
            partial: analysis.variances.has_early_return,
        }];
        for (id, expr) in f.exprs.iter() {
            if expr.kind.is_free() {
                analysis.variances.exprs[id] = variance_of_free(&expr.kind);
            }
        }
        analysis.block(&f.body);
    }
    analysis.variances
}

fn variance_of_free(kind: &ExprKind) -> Variance {
    match kind {
        ExprKind::Id(BuiltinIndex::Thread | BuiltinIndex::Global, _) | ExprKind::Index(_) => Variance::Affine,
        ExprKind::LaneIdx | ExprKind::WarpIdx => Variance::Varying,
        _ => Variance::Uniform,
    }
}

impl VarianceAnalysis<'_> {
    fn block(&mut self, block: &Block) {
        for stmt in block {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let number = self.number;
        self.number += 1;
        match &stmt.kind {
            StmtKind::Let(e) => {
                let class = self.expr(*e);
                self.raise(*e, class);
            }
            StmtKind::Write { local, value } => self.write(number, *local, self.variances.exprs[*value]),
            StmtKind::Atomic { result: Some(e), .. } | StmtKind::Warp { result: e, .. } => {
                self.raise(*e, Variance::Varying)
            }
            StmtKind::If { cond, then, other } => {
                let partial = self.variances.exprs[*cond] != Variance::Uniform;
                self.visit_region(None, number, false, partial, then);
                self.visit_region(None, number | ELSE, false, partial, other);
            }
            StmtKind::For { label, local, start, end, step, body, .. } => {
                let class = |e: &ExprId| self.variances.exprs[*e];
                let (start, end, step) = (class(start), class(end), class(step));
                let is_divergent = start.max(end).max(step) != Variance::Uniform;
                let class = if step == Variance::Uniform { start } else { Variance::Varying };
                self.raise_local(*local, class);
                let partial = is_divergent || self.variances.has_divergent_exit(*label);
                self.visit_region(Some(*label), number, true, partial, body);
            }
            StmtKind::Loop { label, body, .. } => {
                let partial = self.variances.has_divergent_exit(*label);
                self.visit_region(Some(*label), number, true, partial, body);
            }
            StmtKind::Block { label, body } => self.visit_region(Some(*label), number, false, false, body),
            StmtKind::Break(label) => self.leave(Some(*label), false),
            StmtKind::Continue(label) => self.leave(Some(*label), true),
            StmtKind::Return(_) => self.leave(None, false),
            _ => {}
        }
    }

    fn visit_region(&mut self, label: Option<Label>, number: StmtNumber, is_loop: bool, partial: bool, body: &Block) {
        self.regions.push(DivergentRegion { label, number: Some(number), is_loop, partial });
        self.block(body);
        self.regions.pop();
    }

    /// Handles a jump of the active lanes to the end of the labeled statement, or of the function if `label` is `None`.
    /// If `skips` is set, they jump only to the end of the current iteration.
    fn leave(&mut self, label: Option<Label>, skips: bool) {
        let target = match label {
            Some(_) => self.regions.iter().rposition(|r| r.label == label).unwrap_or(0),
            None => 0,
        };
        // A block between the jump and its target has its own mask if some lanes leave it early, even while all lanes
        // are active.
        let is_masked = |r: &DivergentRegion| r.label.is_some_and(|l| self.variances.early_exits.contains(&l));
        let inner = self.regions.get(target + 1..).unwrap_or_default();
        if !self.regions[target..].iter().any(|r| r.partial) && !inner.iter().any(is_masked) {
            return;
        }
        for i in target..self.regions.len() {
            self.regions[i].partial = true;
            let Some(inner) = self.regions[i].label else {
                continue;
            };
            let set = if i == target && skips {
                &mut self.variances.early_continues
            } else {
                &mut self.variances.early_exits
            };
            self.changed |= set.insert(inner);
        }
        if label.is_none() {
            self.changed |= !self.variances.has_early_return;
            self.variances.has_early_return = true;
        }
    }

    fn write(&mut self, number: StmtNumber, local: LocalId, class: Variance) {
        let home = self.variances.scopes[local.index()];
        let depth = match home.owner {
            None => 1,
            Some(owner) => self.regions.iter().rposition(|r| r.number == Some(owner)).map_or(1, |p| p + 1),
        };
        let is_exempt = |r: &DivergentRegion| {
            r.is_loop
                && r.number.is_some()
                && r.number == home.only_loop
                && r.label.is_some_and(|l| !self.variances.early_continues.contains(&l))
        };
        let inside = self.regions.get(depth..).unwrap_or_default();
        if inside.iter().any(|r| r.partial && !is_exempt(r)) {
            self.variances.masked_writes.insert(number);
            self.raise_local(local, Variance::Varying);
        }
        self.raise_local(local, if class == Variance::Uniform { class } else { Variance::Varying });
    }

    fn raise(&mut self, e: ExprId, class: Variance) {
        let old = &mut self.variances.exprs[e];
        self.changed |= class > *old;
        *old = class.max(*old);
    }

    fn raise_local(&mut self, local: LocalId, class: Variance) {
        let old = &mut self.variances.locals[local];
        self.changed |= class > *old;
        *old = class.max(*old);
    }

    fn expr(&self, e: ExprId) -> Variance {
        let expr = &self.f.exprs[e];
        let class = |e: &ExprId| self.variances.exprs[*e];
        let word = matches!(expr.ty, Ty::Scalar(Scalar::I32 | Scalar::U32));
        match &expr.kind {
            ExprKind::Read(local) => self.variances.locals[*local],
            ExprKind::Load { place, .. } if self.f.memories[place.memory].space == MemorySpace::Local => {
                Variance::Varying
            }
            ExprKind::Unary { op: UnaryOp::Neg, value } if word => class(value),
            ExprKind::Binary { op: BinOp::Add | BinOp::Sub, left, right } if word => class(left).max(class(right)),
            ExprKind::Binary { op: BinOp::Mul, left, right } if word => match (class(left), class(right)) {
                (Variance::Uniform, other) | (other, Variance::Uniform) => other,
                _ => Variance::Varying,
            },
            ExprKind::Convert(value) if word && is_32_bit_integer(self.f.exprs[*value].ty) => class(value),
            kind => {
                let mut join = variance_of_free(kind);
                kind.operands(|o| join = join.max(self.variances.exprs[o]));
                if join == Variance::Uniform { join } else { Variance::Varying }
            }
        }
    }
}

pub fn is_32_bit_integer(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(Scalar::I32 | Scalar::U32))
}

/// Finds the owner of each local.
fn find_local_scopes(f: &Function) -> Vec<LocalScope> {
    let mut finder = LocalHomeFinder { f, number: 0, path: vec![], uses: FxHashMap::default() };
    finder.block(&f.body, None);
    f.locals.ids().map(|l| finder.uses.remove(&l.index()).map_or(LocalScope::default(), |u| u.scope())).collect()
}

/// A path in the statement tree, outermost first. Each step is a statement and the statement whose block contains it.
type StmtPath = Vec<(Option<StmtNumber>, StmtNumber)>;

struct LocalUse {
    path: StmtPath,
    write: bool,
    is_for: bool,
}

#[derive(Default)]
struct LocalUseList(Vec<LocalUse>);

impl LocalUseList {
    fn scope(&self) -> LocalScope {
        let Some(first) = self.0.first() else {
            return LocalScope::default();
        };
        let shared = |n: usize| self.0.iter().all(|u| u.path.len() > n && u.path[n].0 == first.path[n].0);
        let depth = (0..first.path.len()).take_while(|&n| shared(n)).count().saturating_sub(1);
        // The first use must be a write by all lanes directly in that block. Otherwise a read may see a value of an
        // earlier iteration.
        if !first.write || first.is_for || first.path.len() != depth + 1 {
            return LocalScope::default();
        }
        let reads = || self.0.iter().filter(|u| !u.write);
        let statement = reads().next().and_then(|u| u.path.get(depth)).map(|p| p.1);
        let only_loop = statement.filter(|&s| reads().all(|u| u.path[depth].1 == s && u.path.len() > depth + 1));
        LocalScope { owner: first.path[depth].0, only_loop, written_first: true }
    }
}

struct LocalHomeFinder<'a> {
    f: &'a Function,
    number: StmtNumber,
    path: StmtPath,
    uses: FxHashMap<usize, LocalUseList>,
}

impl LocalHomeFinder<'_> {
    /// Visits a block. `holder` is the statement that contains it, with the bit [`ELSE`] set for the `else` branch of
    /// an `if`.
    fn block(&mut self, block: &Block, holder: Option<StmtNumber>) {
        for stmt in block {
            let number = self.number;
            self.number += 1;
            self.path.push((holder, number));
            match &stmt.kind {
                StmtKind::Let(e) => {
                    if let ExprKind::Read(local) = self.f.exprs[*e].kind {
                        self.record_use(local, false, false);
                    }
                }
                StmtKind::Write { local, .. } => self.record_use(*local, true, false),
                StmtKind::For { local, .. } => self.record_use(*local, true, true),
                _ => {}
            }
            for (branch, inner) in stmt.kind.blocks().enumerate() {
                self.block(inner, Some(number | if branch == 1 { ELSE } else { 0 }));
            }
            self.path.pop();
        }
    }

    fn record_use(&mut self, local: LocalId, write: bool, is_for: bool) {
        let path = self.path.clone();
        self.uses.entry(local.index()).or_default().0.push(LocalUse { path, write, is_for });
    }
}

/// Distinguishes the `else` branch of an `if` from its `then` branch.
const ELSE: StmtNumber = 1 << 31;

#[cfg(test)]
mod tests;
