//! Which statements have a LaneIR. Input: statements. Output: whether a region may contain them, what they take from outside, and
//! how much a region of them would save.

use rustc_hash::FxHashSet;

use crate::ir::def::{ExprId, ExprKind, Function, Id3, Label, LocalId, MemId, Place, Space, Stmt, StmtKind};
use crate::ir::visit::each_stmt;
use crate::lang::ops::BarrierKind;

/// What is asked about statements.
pub(crate) struct Support<'a> {
    pub f: &'a Function,
    /// Whether this loop may wait for other threads, so that they have to go on meanwhile.
    pub waits: &'a dyn Fn(&Stmt) -> bool,
    /// Whether an op of the interpreter does this loop at once.
    pub tiles: &'a dyn Fn(&Stmt) -> bool,
    /// Whether checks keep regions from accessing a memory.
    pub refused: &'a dyn Fn(MemId) -> bool,
    /// Regions may have barriers of the block.
    pub barriers: bool,
    /// Whether checks want to know which threads leave the loop or block with this label.
    pub parts: &'a dyn Fn(Label) -> bool,
}

impl Support<'_> {
    /// Returns whether a region may contain the statement: nothing in it goes to a place outside, and nothing waits, tells or
    /// synchronizes (but by barriers, where these are allowed). (What it computes may still turn out to have no LaneIR.)
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
        !matches!(memory.space, Space::Param { .. }) && !(self.refused)(place.memory)
    }
}

/// Returns the expressions and locals that statements take from outside.
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
    // What is the same wherever it is computed need not come from outside.
    values.retain(|&e| !matches!(f.exprs[e].kind, ExprKind::Const(_) | ExprKind::Id(Id3::Thread, _)));
    (values, locals)
}
