//! Facts that code generation needs before the first op: how each value varies between lanes, where lanes diverge, live ranges,
//! and the writes that must preserve inactive lanes.
//!
//! A *region* is the function, a branch of an `if`, a loop or a labeled block. A region is *partial* from the point where some of
//! the lanes that entered it may have left. A local is owned by the innermost block that contains all its uses: lanes outside of
//! that block never read it, so that only partial regions inside of the owner matter to its writes.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::def::*;
use crate::lang::ops::{AtomicOp, UnaryOp};
use crate::lang::scalar::Scalar;

/// How a value varies between the lanes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Uniform,
    /// A uniform base plus uniform multiples of the lane's coordinates.
    Affine,
    Lanes,
}

/// The number of a statement in pre-order (an outer statement before the statements inside of it).
pub(crate) type Number = u32;

pub(crate) struct Analysis {
    pub class: Vec<Class>,
    pub locals: Vec<Class>,
    /// By expression: the last statement that uses it, and the number of uses.
    pub last_use: Vec<Number>,
    pub uses: Vec<u32>,
    /// By expression: affine and used by some consumer that needs one value per lane.
    pub spread: Vec<bool>,
    /// Labeled statements that some lanes leave before they end.
    pub leaky: FxHashSet<Label>,
    /// Loops in which some lanes `continue`, that is, skip the rest of an iteration.
    pub turn_leaky: FxHashSet<Label>,
    /// Some lanes return while others go on.
    pub returns: bool,
    /// Writes of locals that must preserve the inactive lanes.
    pub blend: FxHashSet<Number>,
    homes: Vec<Home>,
}

impl Analysis {
    /// Returns whether the local may be read before it is written (conservative).
    pub(crate) fn starts_unwritten(&self, local: LocalId) -> bool {
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
    a: Analysis,
    regions: Vec<Region>,
    number: Number,
    changed: bool,
}

pub(crate) fn analyse(f: &Function) -> Analysis {
    let count = f.exprs.len();
    let a = Analysis {
        class: vec![Class::Uniform; count],
        locals: vec![Class::Uniform; f.locals.len()],
        last_use: vec![0; count],
        uses: vec![0; count],
        spread: vec![false; count],
        leaky: FxHashSet::default(),
        turn_leaky: FxHashSet::default(),
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
                walk.a.class[id.index()] = free_class(&expr.kind);
            }
        }
        walk.block(&f.body);
    }
    let mut a = walk.a;
    uses(f, &mut a);
    a
}

fn free_class(kind: &ExprKind) -> Class {
    match kind {
        ExprKind::Id(Id3::Thread | Id3::Global, _) | ExprKind::Index(_) => Class::Affine,
        ExprKind::LaneIdx | ExprKind::WarpIdx => Class::Lanes,
        _ => Class::Uniform,
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
            StmtKind::Write { local, value } => self.write(number, *local, self.a.class[value.index()]),
            StmtKind::Atomic { result: Some(e), .. } | StmtKind::Warp { result: e, .. } => self.raise(*e, Class::Lanes),
            StmtKind::If { cond, then, other } => {
                let partial = self.a.class[cond.index()] != Class::Uniform;
                self.region(None, number, false, partial, then);
                self.region(None, number | ELSE, false, partial, other);
            }
            StmtKind::For { label, local, start, end, step, body, .. } => {
                let class = |e: &ExprId| self.a.class[e.index()];
                let (start, end, step) = (class(start), class(end), class(step));
                let ragged = start.max(end).max(step) != Class::Uniform;
                let class = if step == Class::Uniform { start } else { Class::Lanes };
                self.raise_local(*local, class);
                let partial = ragged || self.a.leaky.contains(label) || self.a.turn_leaky.contains(label);
                self.region(Some(*label), number, true, partial, body);
            }
            StmtKind::Loop { label, body, .. } => {
                let partial = self.a.leaky.contains(label) || self.a.turn_leaky.contains(label);
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

    /// The active lanes jump to the end of the labeled statement (`None`: of the function; `turn`: of the current iteration).
    fn leave(&mut self, label: Option<Label>, turn: bool) {
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
            let set = if i == target && turn { &mut self.a.turn_leaky } else { &mut self.a.leaky };
            self.changed |= set.insert(inner);
        }
        if label.is_none() {
            self.changed |= !self.a.returns;
            self.a.returns = true;
        }
    }

    fn write(&mut self, number: Number, local: LocalId, class: Class) {
        let home = self.a.homes[local.index()];
        let depth = match home.owner {
            None => 1,
            Some(owner) => self.regions.iter().rposition(|r| r.number == Some(owner)).map_or(1, |p| p + 1),
        };
        let spared = |r: &Region| {
            r.is_loop
                && r.number.is_some()
                && r.number == home.only_loop
                && r.label.is_some_and(|l| !self.a.turn_leaky.contains(&l))
        };
        let inside = self.regions.get(depth..).unwrap_or_default();
        if inside.iter().any(|r| r.partial && !spared(r)) {
            self.a.blend.insert(number);
            self.raise_local(local, Class::Lanes);
        }
        self.raise_local(local, if class == Class::Uniform { class } else { Class::Lanes });
    }

    fn raise(&mut self, e: ExprId, class: Class) {
        let old = &mut self.a.class[e.index()];
        self.changed |= class > *old;
        *old = class.max(*old);
    }

    fn raise_local(&mut self, local: LocalId, class: Class) {
        let old = &mut self.a.locals[local.index()];
        self.changed |= class > *old;
        *old = class.max(*old);
    }

    fn expr(&self, e: ExprId) -> Class {
        let expr = &self.f.exprs[e];
        let class = |e: &ExprId| self.a.class[e.index()];
        let word = matches!(expr.ty, Ty::Scalar(Scalar::I32 | Scalar::U32));
        match &expr.kind {
            ExprKind::Read(local) => self.a.locals[local.index()],
            ExprKind::Load { place, .. } if self.f.memories[place.memory].space == Space::Local => Class::Lanes,
            ExprKind::Unary { op: UnaryOp::Neg, value } if word => class(value),
            ExprKind::Binary { op: BinOp::Add | BinOp::Sub, left, right } if word => class(left).max(class(right)),
            ExprKind::Binary { op: BinOp::Mul, left, right } if word => match (class(left), class(right)) {
                (Class::Uniform, other) | (other, Class::Uniform) => other,
                _ => Class::Lanes,
            },
            ExprKind::Convert(value) if word && is_word(self.f.exprs[*value].ty) => class(value),
            kind => {
                let mut join = free_class(kind);
                kind.operands(|o| join = join.max(self.a.class[o.index()]));
                if join == Class::Uniform { join } else { Class::Lanes }
            }
        }
    }
}

pub(crate) fn is_word(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(Scalar::I32 | Scalar::U32))
}

/// Counts uses of expressions, and marks affine values that are needed per lane.
fn uses(f: &Function, a: &mut Analysis) {
    let mut number = 0;
    crate::ir::visit::each_stmt(&f.body, &mut |stmt| {
        let note = |e: ExprId, lanes: bool, a: &mut Analysis| {
            a.last_use[e.index()] = number;
            a.uses[e.index()] += 1;
            a.spread[e.index()] |= lanes && a.class[e.index()] == Class::Affine;
        };
        match &stmt.kind {
            StmtKind::Let(e) => {
                let affine = a.class[e.index()] == Class::Affine;
                let kind = &f.exprs[*e].kind;
                let by_form = match kind {
                    ExprKind::Load { .. } => true,
                    ExprKind::Binary { op, left, right } if op.is_comparison() && is_word(f.exprs[*left].ty) => {
                        a.class[left.index()].max(a.class[right.index()]) <= Class::Affine
                    }
                    _ => affine,
                };
                kind.operands(|o| note(o, !by_form, a));
            }
            StmtKind::Store { place, value, .. } => {
                place.indices.iter().for_each(|&i| note(i, false, a));
                note(*value, true, a);
            }
            StmtKind::Atomic { place, value, compare, .. } => {
                place.indices.iter().for_each(|&i| note(i, false, a));
                note(*value, true, a);
                compare.iter().for_each(|&c| note(c, true, a));
            }
            kind => kind.operands(|o| note(o, true, a)),
        }
        number += 1;
    });
    outlive(f, a);
}

/// Returns whether the value may share the registers of its operands because the bits are the same. (Affine values share
/// registers with their operands too.)
pub(crate) fn may_share(kind: &ExprKind) -> bool {
    use ExprKind::*;
    matches!(kind, Extract { .. } | Compose(_) | Bitcast(_) | Convert(_))
}

/// Extends the live range of operands whose registers a result may share to the end of the result's live range.
fn outlive(f: &Function, a: &mut Analysis) {
    let mut lets = vec![];
    crate::ir::visit::each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Let(e) = stmt.kind {
            lets.push(e);
        }
    });
    for e in lets.into_iter().rev() {
        let kind = &f.exprs[e].kind;
        if may_share(kind) || a.class[e.index()] == Class::Affine {
            let last = a.last_use[e.index()];
            kind.operands(|o| a.last_use[o.index()] = a.last_use[o.index()].max(last));
        }
    }
}

/// Returns, by memory, whether its only accesses are atomic additions of 4-byte integers whose results are unused.
pub(crate) fn sums(f: &Function) -> Vec<bool> {
    let mut sums = vec![true; f.memories.len()];
    for (_, expr) in f.exprs.iter() {
        if let ExprKind::Load { place, .. } = &expr.kind {
            sums[place.memory.index()] = false;
        }
    }
    crate::ir::visit::each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } => sums[place.memory.index()] = false,
        StmtKind::Atomic { op, place, result, .. } => {
            let leaf = &f.memories[place.memory].layout.leaves[place.leaf as usize];
            let adds = matches!(op, AtomicOp::Add | AtomicOp::Sub);
            let word = matches!(leaf.ty.scalar(), Scalar::I32 | Scalar::U32);
            sums[place.memory.index()] &= adds && word && result.is_none();
        }
        _ => {}
    });
    sums
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
