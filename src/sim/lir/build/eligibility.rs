//! Decides which statements a region may contain. Input: statements. Output: whether they are supported, and which
//! values from outside the region they use.

use rustc_hash::FxHashSet;

use clk_ir::def::{
    BuiltinIndex, ExprId, ExprKind, Function, Label, LocalId, MemId, MemorySpace, Place, Stmt, StmtKind,
};
use clk_ir::visit::each_stmt;
use clk_scalar::ops::BarrierKind;

/// Restrictions on the statements of a region, and callbacks that answer queries about statements and memories.
pub(crate) struct RegionSupport<'a> {
    pub f: &'a Function,
    /// Returns whether a loop may be a spin loop, which waits for other threads. The other threads must make progress
    /// while it spins.
    pub waits: &'a dyn Fn(&Stmt) -> bool,
    /// Returns whether a single operation of the interpreter executes this entire loop.
    pub tiles: &'a dyn Fn(&Stmt) -> bool,
    /// Returns whether the checks of `--check` forbid regions to access a memory.
    pub refused: &'a dyn Fn(MemId) -> bool,
    /// Whether regions may contain block barriers.
    pub barriers: bool,
    /// Returns whether the sanitizer tracks the threads that leave the loop or block with this label.
    pub parts: &'a dyn Fn(Label) -> bool,
}

impl RegionSupport<'_> {
    /// Returns whether a region may contain the statement. The statement must not jump outside the region, wait for
    /// other threads, print, or synchronize except by allowed barriers. The region builder may still reject its
    /// expressions.
    pub fn statement(&self, stmt: &Stmt) -> bool {
        let mut labels: FxHashSet<Label> = FxHashSet::default();
        let mut fine = true;
        each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
            fine &= match &stmt.kind {
                StmtKind::Let(e) => self.expression(*e),
                StmtKind::Write { .. } | StmtKind::If { .. } => true,
                StmtKind::Warp { among, .. } => among.is_none(),
                StmtKind::Declare(memory) => !(self.refused)(*memory),
                StmtKind::Barrier { kind: BarrierKind::Block, value: None, .. } => self.barriers,
                StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => self.place(place),
                StmtKind::For { label, .. } | StmtKind::Loop { label, .. } => {
                    labels.insert(*label);
                    !(self.waits)(stmt) && !(self.tiles)(stmt) && !(self.parts)(*label)
                }
                StmtKind::Block { label, .. } => {
                    labels.insert(*label);
                    !(self.parts)(*label)
                }
                StmtKind::Break(label) | StmtKind::Continue(label) => labels.contains(label),
                _ => false,
            }
        });
        fine
    }

    fn expression(&self, e: ExprId) -> bool {
        if let ExprKind::Load { place, .. } = &self.f.exprs[e].kind { self.place(place) } else { true }
    }

    fn place(&self, place: &Place) -> bool {
        let memory = &self.f.memories[place.memory];
        !matches!(memory.space, MemorySpace::Param { .. }) && !(self.refused)(place.memory)
    }
}

/// Returns the expressions and locals that the statements use and that are computed outside them.
pub(crate) fn outside(f: &Function, stmts: &[Stmt]) -> (Vec<ExprId>, Vec<LocalId>) {
    let mut inside: FxHashSet<ExprId> = FxHashSet::default();
    let mut own: FxHashSet<LocalId> = FxHashSet::default();
    let (mut values, mut locals) = (vec![], vec![]);
    each_stmt(stmts, &mut |stmt| {
        let mut note = |e: ExprId| {
            if !inside.contains(&e) && !values.contains(&e) {
                values.push(e);
            }
        };
        match &stmt.kind {
            StmtKind::Let(e) => {
                f.exprs[*e].kind.operands(&mut note);
                if let ExprKind::Read(local) = f.exprs[*e].kind
                    && !own.contains(&local)
                    && !locals.contains(&local)
                {
                    locals.push(local);
                }
                inside.insert(*e);
            }
            StmtKind::Atomic { .. } | StmtKind::Warp { .. } => {
                stmt.kind.operands(&mut note);
                stmt.kind.results(|e| {
                    inside.insert(e);
                });
            }
            StmtKind::Write { local, value } => {
                note(*value);
                if !locals.contains(local) {
                    locals.push(*local);
                }
            }
            StmtKind::For { local, start, end, step, .. } => {
                [*start, *end, *step].into_iter().for_each(&mut note);
                own.insert(*local);
            }
            kind => kind.operands(&mut note),
        }
    });
    // A region computes constants and thread coordinates itself.
    values.retain(|&e| !matches!(f.exprs[e].kind, ExprKind::Const(_) | ExprKind::Id(BuiltinIndex::Thread, _)));
    (values, locals)
}
