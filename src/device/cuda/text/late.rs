//! Guards that do not end loops early, which would keep loads from being in flight together: in a loop without effects an access that
//! is out of bounds gives zero, and the first one is reported behind the loop.
//!
//! What the loop computes meanwhile is discarded, as the thread then ends. It rests on nothing that such an access would contradict:
//! neither ranges nor proofs know anything of elements that an array does not have.

use super::abi::Place as FaultPlace;
use super::generator::{Gen, Late, LateSite};
use super::tree::{Expr, Stmt as Out};
use crate::ir::def::*;
use crate::ir::ranges::Site;

impl Gen<'_> {
    /// Returns whether guards in a `for` may be reported behind it: some load is guarded, nothing else reports a fault, nothing happens
    /// but that locals change, and the loop ends soon whatever its bounds are.
    pub fn may_be_late(&self, label: Label, counter: LocalId, body: &[Stmt]) -> bool {
        let soon = self.function.locals[counter].ty.scalar().size() <= 4;
        let mut guarded = false;
        let quiet = soon && self.is_quiet(body, &mut vec![label], &mut guarded);
        self.options.checked && self.late.is_none() && quiet && guarded
    }

    fn is_quiet(&self, body: &[Stmt], labels: &mut Vec<Label>, guarded: &mut bool) -> bool {
        let kind = |id: ExprId| &self.function.exprs[id].kind;
        let constant = |id: &ExprId| matches!(kind(*id), ExprKind::Const(_));
        body.iter().all(|stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                *guarded |= self.ranges.guards.contains_key(&Site::Load(*id));
                !self.ranges.zero_divisors.contains(id)
            }
            StmtKind::Write { .. } | StmtKind::Declare(_) => true,
            StmtKind::If { then, other, .. } => {
                self.is_quiet(then, labels, guarded) && self.is_quiet(other, labels, guarded)
            }
            StmtKind::Block { label, body } => {
                labels.push(*label);
                self.is_quiet(body, labels, guarded)
            }
            StmtKind::For { label, start, end, step, body, .. } => {
                labels.push(*label);
                [start, end, step].into_iter().all(constant) && self.is_quiet(body, labels, guarded)
            }
            StmtKind::Break(label) | StmtKind::Continue(label) => labels.contains(label),
            _ => false,
        })
    }

    /// Starts a loop whose guards report behind it.
    pub fn begin_late(&mut self) {
        let missed = self.names.fresh("missed");
        self.late = Some(Late { missed, indices: vec![], sites: vec![] });
    }

    /// Emits the guard of a load in such a loop: whether the load is in bounds has a name from here on, and the first one that is
    /// not leaves its indices.
    pub fn guard_late(&mut self, id: ExprId, inside: Expr, place: FaultPlace, [indices, extents]: [Vec<Expr>; 2]) {
        let Some(mut late) = self.late.take() else { return };
        let name = self.names.fresh("inside");
        self.declare("bool", &name, inside);
        let first = Expr::binary("&&", Expr::unary("!", Expr::atom(&name)), Expr::unary("!", Expr::atom(&late.missed)));
        let mut notes = vec![];
        for (axis, index) in indices.into_iter().enumerate() {
            if late.indices.len() == axis {
                late.indices.push(self.names.fresh(&format!("{}_at", late.missed)));
            }
            notes.push(Out::Assign(Expr::atom(&late.indices[axis]), index));
        }
        late.sites.push(LateSite { place: self.places.len(), extents });
        self.places.push(place);
        notes.push(Out::Assign(Expr::atom(&late.missed), Expr::int(late.sites.len() as i128)));
        self.push(Out::If(first, notes, vec![]));
        self.inside.insert(id, name);
        self.late = Some(late);
    }

    /// Returns a load that gives zero where its guard says that it is out of bounds.
    pub fn guarded_load(&mut self, id: ExprId, load: Expr) -> Expr {
        match self.inside.get(&id) {
            Some(inside) => {
                let inside = Expr::atom(inside);
                let zero = Expr::Braces(self.helpers.ty(self.function.exprs[id].ty), vec![]);
                Expr::choose(inside, load, zero)
            }
            None => load,
        }
    }

    /// Emits a loop with its guards: what they leave is declared in front of it, and reported behind it.
    pub fn end_late(&mut self, emit: impl FnOnce(&mut Self)) {
        let Some(late) = self.late.take() else { return emit(self) };
        let declare = |ty: &str, name: &str| Out::Declare {
            ty: ty.into(),
            name: name.into(),
            suffix: String::new(),
            value: Some(Expr::int(0)),
        };
        self.push(declare("unsigned", &late.missed));
        self.helpers.need("u64");
        late.indices.iter().for_each(|name| self.push(declare("u64", name)));
        emit(self);
        let missed = || Expr::atom(&late.missed);
        let mut reports = vec![];
        for (i, site) in late.sites.into_iter().enumerate() {
            let indices = late.indices.iter().take(site.extents.len()).map(Expr::atom);
            let report = self.report(site.place, indices.chain(site.extents).collect());
            reports.push(Out::If(Expr::binary("==", missed(), Expr::int(i as i128 + 1)), vec![report], vec![]));
        }
        reports.push(Out::Return);
        self.push(Out::If(missed(), reports, vec![]));
    }
}
