//! Variance analysis: how values vary between the threads that run in lockstep, and where control diverges.
//!
//! Input: the body of a kernel, with all calls inlined. Output: uniform ⊂ affine ⊂ varying for each expression and local, the
//! statements that some threads leave early, and the writes that must preserve the values of inactive threads.
//!
//! Lockstep is assumed: threads that reach a load together read before any of them writes.
//!
//! A *region* is the function, a branch of an `if`, a loop or a labeled block. A region is *partial* from the point where some of
//! the threads that entered it may have left. A local is owned by the innermost block that contains all its uses: threads outside of
//! that block never read it, so that only partial regions inside of the owner matter to its writes. Facts about locals and loops
//! influence code that was visited before, so the walk is repeated to a fixed point; values only move up the lattice.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::arena::Side;
use crate::ir::def::*;
use crate::lang::ops::UnaryOp;
use crate::lang::scalar::Scalar;

/// How a value varies between the threads of a block that reach it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variance {
    Uniform,
    /// `i32` or `u32`, modulo 2^32: a uniform base plus uniform multiples of the thread's coordinates (or of the `threads` indices).
    Affine,
    Varying,
}

/// The number of a statement in pre-order (an outer statement before the statements inside of it).
pub type Number = u32;

/// The variance of a function's values, and where its threads diverge.
pub struct Variances {
    pub exprs: Side<Expr, Variance>,
    /// The join over all writes, including control dependence.
    pub locals: Side<Local, Variance>,
    /// Labeled statements that some lanes leave before they end.
    pub leaky: FxHashSet<Label>,
    /// Loops in which some lanes `continue`, that is, skip the rest of an iteration.
    pub continue_leaky: FxHashSet<Label>,
    /// Some lanes return while others go on.
    pub returns: bool,
    /// Writes of locals that must preserve the inactive lanes.
    pub blend: FxHashSet<Number>,
    homes: Vec<Home>,
}

impl Variances {
    /// Returns whether lanes leave the loop, or skip the rest of an iteration, while others go on.
    pub fn parts(&self, label: Label) -> bool {
        self.leaky.contains(&label) || self.continue_leaky.contains(&label)
    }

    /// Returns whether the local may be read before it is written (conservative).
    pub fn starts_unwritten(&self, local: LocalId) -> bool {
        !self.homes[local.index()].set_first
    }
}

/// The scope of a local.
#[derive(Clone, Copy, Debug, Default)]
struct Home {
    /// The statement whose block owns the local; `None` is the function body.
    owner: Option<Number>,
    /// The loop directly in that block that contains all reads, if there is one.
    only_loop: Option<Number>,
    set_first: bool,
}

struct Region {
    label: Option<Label>,
    number: Option<Number>,
    is_loop: bool,
    partial: bool,
}

struct Walk<'a> {
    f: &'a Function,
    a: Variances,
    regions: Vec<Region>,
    number: Number,
    changed: bool,
}

/// Analyzes a function without calls.
pub fn analyze(f: &Function) -> Variances {
    let a = Variances {
        exprs: Side::filled(&f.exprs, Variance::Uniform),
        locals: Side::filled(&f.locals, Variance::Uniform),
        leaky: FxHashSet::default(),
        continue_leaky: FxHashSet::default(),
        returns: false,
        blend: FxHashSet::default(),
        homes: homes(f),
    };
    let mut walk = Walk { f, a, regions: vec![], number: 0, changed: true };
    while walk.changed {
        walk.changed = false;
        walk.number = 0;
        walk.a.blend.clear();
        walk.regions = vec![Region { label: None, number: None, is_loop: false, partial: walk.a.returns }];
        for (id, expr) in f.exprs.iter() {
            if expr.kind.is_free() {
                walk.a.exprs[id] = free(&expr.kind);
            }
        }
        walk.block(&f.body);
    }
    walk.a
}

fn free(kind: &ExprKind) -> Variance {
    match kind {
        ExprKind::Id(Id3::Thread | Id3::Global, _) | ExprKind::Index(_) => Variance::Affine,
        ExprKind::LaneIdx | ExprKind::WarpIdx => Variance::Varying,
        _ => Variance::Uniform,
    }
}

impl Walk<'_> {
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
            StmtKind::Write { local, value } => self.write(number, *local, self.a.exprs[*value]),
            StmtKind::Atomic { result: Some(e), .. } | StmtKind::Warp { result: e, .. } => {
                self.raise(*e, Variance::Varying)
            }
            StmtKind::If { cond, then, other } => {
                let partial = self.a.exprs[*cond] != Variance::Uniform;
                self.region(None, number, false, partial, then);
                self.region(None, number | ELSE, false, partial, other);
            }
            StmtKind::For { label, local, start, end, step, body, .. } => {
                let class = |e: &ExprId| self.a.exprs[*e];
                let (start, end, step) = (class(start), class(end), class(step));
                let ragged = start.max(end).max(step) != Variance::Uniform;
                let class = if step == Variance::Uniform { start } else { Variance::Varying };
                self.raise_local(*local, class);
                let partial = ragged || self.a.parts(*label);
                self.region(Some(*label), number, true, partial, body);
            }
            StmtKind::Loop { label, body, .. } => {
                let partial = self.a.parts(*label);
                self.region(Some(*label), number, true, partial, body);
            }
            StmtKind::Block { label, body } => self.region(Some(*label), number, false, false, body),
            StmtKind::Break(label) => self.leave(Some(*label), false),
            StmtKind::Continue(label) => self.leave(Some(*label), true),
            StmtKind::Return(_) => self.leave(None, false),
            _ => {}
        }
    }

    fn region(&mut self, label: Option<Label>, number: Number, is_loop: bool, partial: bool, body: &Block) {
        self.regions.push(Region { label, number: Some(number), is_loop, partial });
        self.block(body);
        self.regions.pop();
    }

    /// The active lanes jump to the end of the labeled statement (`None`: of the function; `skips`: of the current iteration).
    fn leave(&mut self, label: Option<Label>, skips: bool) {
        let target = match label {
            Some(_) => self.regions.iter().rposition(|r| r.label == label).unwrap_or(0),
            None => 0,
        };
        // Blocks in between that some lanes leave early have masks of their own, even where all lanes are still active.
        let masked = |r: &Region| r.label.is_some_and(|l| self.a.leaky.contains(&l));
        let inner = self.regions.get(target + 1..).unwrap_or_default();
        if !self.regions[target..].iter().any(|r| r.partial) && !inner.iter().any(masked) {
            return;
        }
        for i in target..self.regions.len() {
            self.regions[i].partial = true;
            let Some(inner) = self.regions[i].label else {
                continue;
            };
            let set = if i == target && skips { &mut self.a.continue_leaky } else { &mut self.a.leaky };
            self.changed |= set.insert(inner);
        }
        if label.is_none() {
            self.changed |= !self.a.returns;
            self.a.returns = true;
        }
    }

    fn write(&mut self, number: Number, local: LocalId, class: Variance) {
        let home = self.a.homes[local.index()];
        let depth = match home.owner {
            None => 1,
            Some(owner) => self.regions.iter().rposition(|r| r.number == Some(owner)).map_or(1, |p| p + 1),
        };
        let spared = |r: &Region| {
            r.is_loop
                && r.number.is_some()
                && r.number == home.only_loop
                && r.label.is_some_and(|l| !self.a.continue_leaky.contains(&l))
        };
        let inside = self.regions.get(depth..).unwrap_or_default();
        if inside.iter().any(|r| r.partial && !spared(r)) {
            self.a.blend.insert(number);
            self.raise_local(local, Variance::Varying);
        }
        self.raise_local(local, if class == Variance::Uniform { class } else { Variance::Varying });
    }

    fn raise(&mut self, e: ExprId, class: Variance) {
        let old = &mut self.a.exprs[e];
        self.changed |= class > *old;
        *old = class.max(*old);
    }

    fn raise_local(&mut self, local: LocalId, class: Variance) {
        let old = &mut self.a.locals[local];
        self.changed |= class > *old;
        *old = class.max(*old);
    }

    fn expr(&self, e: ExprId) -> Variance {
        let expr = &self.f.exprs[e];
        let class = |e: &ExprId| self.a.exprs[*e];
        let word = matches!(expr.ty, Ty::Scalar(Scalar::I32 | Scalar::U32));
        match &expr.kind {
            ExprKind::Read(local) => self.a.locals[*local],
            ExprKind::Load { place, .. } if self.f.memories[place.memory].space == Space::Local => Variance::Varying,
            ExprKind::Unary { op: UnaryOp::Neg, value } if word => class(value),
            ExprKind::Binary { op: BinOp::Add | BinOp::Sub, left, right } if word => class(left).max(class(right)),
            ExprKind::Binary { op: BinOp::Mul, left, right } if word => match (class(left), class(right)) {
                (Variance::Uniform, other) | (other, Variance::Uniform) => other,
                _ => Variance::Varying,
            },
            ExprKind::Convert(value) if word && is_word(self.f.exprs[*value].ty) => class(value),
            kind => {
                let mut join = free(kind);
                kind.operands(|o| join = join.max(self.a.exprs[o]));
                if join == Variance::Uniform { join } else { Variance::Varying }
            }
        }
    }
}

pub fn is_word(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(Scalar::I32 | Scalar::U32))
}

/// Finds the owner of each local.
fn homes(f: &Function) -> Vec<Home> {
    let mut finder = Finder { f, number: 0, path: vec![], uses: FxHashMap::default() };
    finder.block(&f.body, None);
    f.locals.ids().map(|l| finder.uses.remove(&l.index()).map_or(Home::default(), |u| u.home())).collect()
}

/// A position in the statement tree, outermost first: (statement that holds the block, statement in that block).
type Path = Vec<(Option<Number>, Number)>;

struct Use {
    path: Path,
    write: bool,
    is_for: bool,
}

#[derive(Default)]
struct Uses(Vec<Use>);

impl Uses {
    fn home(&self) -> Home {
        let Some(first) = self.0.first() else {
            return Home::default();
        };
        let shared = |n: usize| self.0.iter().all(|u| u.path.len() > n && u.path[n].0 == first.path[n].0);
        let depth = (0..first.path.len()).take_while(|&n| shared(n)).count().saturating_sub(1);
        // The first use must be a write by all lanes directly in that block: then no value is carried over from an earlier
        // iteration.
        if !first.write || first.is_for || first.path.len() != depth + 1 {
            return Home::default();
        }
        let reads = || self.0.iter().filter(|u| !u.write);
        let statement = reads().next().and_then(|u| u.path.get(depth)).map(|p| p.1);
        let only_loop = statement.filter(|&s| reads().all(|u| u.path[depth].1 == s && u.path.len() > depth + 1));
        Home { owner: first.path[depth].0, only_loop, set_first: true }
    }
}

struct Finder<'a> {
    f: &'a Function,
    number: Number,
    path: Path,
    uses: FxHashMap<usize, Uses>,
}

impl Finder<'_> {
    /// `holder` is the statement whose block this is; the two branches of an `if` differ in the bit [`ELSE`].
    fn block(&mut self, block: &Block, holder: Option<Number>) {
        for stmt in block {
            let number = self.number;
            self.number += 1;
            self.path.push((holder, number));
            match &stmt.kind {
                StmtKind::Let(e) => {
                    if let ExprKind::Read(local) = self.f.exprs[*e].kind {
                        self.note(local, false, false);
                    }
                }
                StmtKind::Write { local, .. } => self.note(*local, true, false),
                StmtKind::For { local, .. } => self.note(*local, true, true),
                _ => {}
            }
            for (branch, inner) in stmt.kind.blocks().enumerate() {
                self.block(inner, Some(number | if branch == 1 { ELSE } else { 0 }));
            }
            self.path.pop();
        }
    }

    fn note(&mut self, local: LocalId, write: bool, is_for: bool) {
        let path = self.path.clone();
        self.uses.entry(local.index()).or_default().0.push(Use { path, write, is_for });
    }
}

/// Distinguishes the `else` branch of an `if` from its `then` branch.
const ELSE: Number = 1 << 31;

#[cfg(test)]
mod tests;
