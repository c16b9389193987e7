//! Deferred bounds checks for loops without side effects. An out-of-bounds load yields zero and does not end the loop,
//! so several loads can be in flight. The first such load is reported after the loop.
//!
//! After the report, the thread ends, so the results of the loop are discarded. Range analysis and proofs assume
//! nothing about the values of out-of-bounds elements, so they remain valid until the loop ends.

use super::generator::{CudaGenerator, DeferredBoundsChecks, DeferredSite};
use super::tree::{CudaExpr, CudaStmt as Out};
use clk_ir::def::*;
use clk_ir::ranges::BodySite;
use clk_runtime::fault_record::FaultSite as FaultPlace;

impl CudaGenerator<'_> {
    /// Returns whether the bounds checks of a `for` loop can be deferred. This requires that some load has a guard,
    /// nothing else in the loop reports a fault, the loop only changes locals, and its trip count is small for any
    /// bounds.
    pub fn can_defer_checks(&self, label: Label, counter: LocalId, body: &[Stmt]) -> bool {
        let soon = self.function.locals[counter].ty.scalar().size() <= 4;
        let mut guarded = false;
        let quiet = soon && self.has_no_effects(body, &mut vec![label], &mut guarded);
        self.options.checked && self.deferred.checks.is_none() && quiet && guarded
    }

    fn has_no_effects(&self, body: &[Stmt], labels: &mut Vec<Label>, guarded: &mut bool) -> bool {
        let kind = |id: ExprId| &self.function.exprs[id].kind;
        let constant = |id: &ExprId| matches!(kind(*id), ExprKind::Const(_));
        body.iter().all(|stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                *guarded |= self.analyses.ranges.guards.contains_key(&BodySite::Load(*id));
                !self.analyses.ranges.zero_divisors.contains(id)
            }
            StmtKind::Write { .. } | StmtKind::Declare(_) => true,
            StmtKind::If { then, other, .. } => {
                self.has_no_effects(then, labels, guarded) && self.has_no_effects(other, labels, guarded)
            }
            StmtKind::Block { label, body } => {
                labels.push(*label);
                self.has_no_effects(body, labels, guarded)
            }
            StmtKind::For { label, start, end, step, body, .. } => {
                labels.push(*label);
                [start, end, step].into_iter().all(constant) && self.has_no_effects(body, labels, guarded)
            }
            StmtKind::Break(label) | StmtKind::Continue(label) => labels.contains(label),
            _ => false,
        })
    }

    /// Begins the body of a loop with deferred checks.
    pub fn begin_deferred_checks(&mut self) {
        let missed = self.naming.used.fresh("missed");
        self.deferred.checks = Some(DeferredBoundsChecks { first_site: missed, indices: vec![], sites: vec![] });
    }

    /// Emits the deferred guard of a load: a variable that is true if the load is in bounds, and code that records the
    /// indices of the first load that is out of bounds.
    pub fn defer_guard(
        &mut self,
        id: ExprId,
        inside: CudaExpr,
        place: FaultPlace,
        [indices, extents]: [Vec<CudaExpr>; 2],
    ) {
        let Some(mut late) = self.deferred.checks.take() else { return };
        let name = self.naming.used.fresh("inside");
        self.declare("bool", &name, inside);
        let first = CudaExpr::binary(
            "&&",
            CudaExpr::unary("!", CudaExpr::atom(&name)),
            CudaExpr::unary("!", CudaExpr::atom(&late.first_site)),
        );
        let mut notes = vec![];
        for (axis, index) in indices.into_iter().enumerate() {
            if late.indices.len() == axis {
                late.indices.push(self.naming.used.fresh(&format!("{}_at", late.first_site)));
            }
            notes.push(Out::Assign(CudaExpr::atom(&late.indices[axis]), index));
        }
        late.sites.push(DeferredSite { place: self.records.places.len(), extents });
        self.records.places.push(place);
        notes.push(Out::Assign(CudaExpr::atom(&late.first_site), CudaExpr::int(late.sites.len() as i128)));
        self.push(Out::If(first, notes, vec![]));
        self.naming.in_bounds_flags.insert(id, name);
        self.deferred.checks = Some(late);
    }

    /// Returns an expression for a load. If the load has a deferred guard, the expression is zero when the load is out
    /// of bounds.
    pub fn guarded_load(&mut self, id: ExprId, load: CudaExpr) -> CudaExpr {
        match self.naming.in_bounds_flags.get(&id) {
            Some(inside) => {
                let inside = CudaExpr::atom(inside);
                let zero = CudaExpr::Braces(self.preamble.helpers.ty(self.function.exprs[id].ty), vec![]);
                CudaExpr::choose(inside, load, zero)
            }
            None => load,
        }
    }

    /// Emits a loop with deferred checks by calling `emit`. Declares the variables of the checks before the loop, and
    /// reports the first fault after it.
    pub fn end_deferred_checks(&mut self, emit: impl FnOnce(&mut Self)) {
        let Some(late) = self.deferred.checks.take() else { return emit(self) };
        let declare = |ty: &str, name: &str| Out::Declare {
            ty: ty.into(),
            name: name.into(),
            suffix: String::new(),
            value: Some(CudaExpr::int(0)),
        };
        self.push(declare("unsigned", &late.first_site));
        self.preamble.helpers.need("u64");
        late.indices.iter().for_each(|name| self.push(declare("u64", name)));
        emit(self);
        let missed = || CudaExpr::atom(&late.first_site);
        let mut reports = vec![];
        for (i, site) in late.sites.into_iter().enumerate() {
            let indices = late.indices.iter().take(site.extents.len()).map(CudaExpr::atom);
            let report = self.report(site.place, indices.chain(site.extents).collect());
            reports.push(Out::If(CudaExpr::binary("==", missed(), CudaExpr::int(i as i128 + 1)), vec![report], vec![]));
        }
        reports.push(Out::Return);
        self.push(Out::If(missed(), reports, vec![]));
    }
}
