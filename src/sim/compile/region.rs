//! Regions: runs of statements that machine code can do at once, in front of the interpreter's code for the same
//! statements.
//!
//! Input: statements of a block. Output: an [`EnterRegion`] op, the interpreter's code, and the region's LaneIR. A
//! group that is in no machine code, or whose machine code leaves, runs the interpreter's code; the other jumps over
//! it. A region with barriers is for blocks of whole vectors; inside of its interpreted code are the regions between
//! its barriers, for other blocks.

use rustc_hash::FxHashSet;

use super::uses::references;
use super::*;
use crate::enter_region::EnterRegion;
use crate::events::{AccessKind, AccessSite};
use crate::lir::build::{NoRegionReason, RegionBuilder, RegionContext, RegionSupport, outside};
use crate::lir::check_facts::{AccessGuard, CheckFacts};
use crate::lir::{LaneOp, LaneRegion, for_each_inst_mut};
use clk_ir::visit::each_stmt;
use clk_scalar::ops::BarrierKind;

/// A region whose interpreted code is being written.
pub(crate) struct OpenRegion<'a> {
    /// The statements of the block, from one up to another.
    start: usize,
    end: usize,
    /// The op that enters it.
    enter: usize,
    builder: RegionBuilder<'a>,
    inputs: Vec<ExprId>,
    /// The number of notes in front of it.
    notes: usize,
    /// The number of regions in front of it.
    regions: usize,
    /// It has barriers: its interpreted code has regions between them.
    together: bool,
}

/// A region, and the expressions that it takes from outside.
type Built<'a> = Result<(RegionBuilder<'a>, Vec<ExprId>), NoRegionReason>;

/// The least number of instructions that make a region worthwhile.
const LEAST: u32 = 2;

impl<'a> KernelCompiler<'a> {
    /// Opens a region at a statement, if there is one.
    pub(crate) fn open_machine(&mut self, block: &'a [Stmt], start: usize) -> Option<OpenRegion<'a>> {
        if !self.lane_regions.is_enabled || self.lane_regions.is_inside || self.writer.section != CodeSection::Body {
            return None;
        }
        self.open_region(block, start, false)
    }

    /// Opens a region with barriers at a statement that all threads of the block run, if there is one. `scanned`: up to
    /// which statement there is none, or it has been opened.
    pub(crate) fn open_together(
        &mut self,
        block: &'a [Stmt],
        start: usize,
        scanned: &mut usize,
    ) -> Option<OpenRegion<'a>> {
        let possible = self.lane_regions.is_enabled
            && !self.lane_regions.is_inside
            && !self.lane_regions.is_inside_phases
            && self.writer.section == CodeSection::Body;
        if !possible
            || start < *scanned
            || self.flow.mask != 0
            || self.facts.waits
            || self.is_observed() && !self.runs_whole()
        {
            return None;
        }
        let open = self.open_region(block, start, true);
        *scanned = match &open {
            Some(open) => open.end,
            // A barrier that is no part of a region here is none of one that begins between here and there.
            None => block[start..].iter().position(has_barrier).map_or(block.len(), |at| start + at + 1),
        };
        open
    }

    /// Returns whether a region with barriers pays although there are checks: the checker need not hear of barriers,
    /// since it compares no times of accesses, and global arrays are not read where a missing mark would have the
    /// region leave, so that it logs all stores.
    fn runs_whole(&self) -> bool {
        let mut guards =
            self.lane_regions.check_facts.memories.iter().zip(&self.tables.events.tracked).zip(self.f.memories.iter());
        guards.all(|((guard, watched), (_, memory))| match guard {
            AccessGuard::Shared => false,
            AccessGuard::OwnedInit { .. } => {
                memory.space == MemorySpace::Shared || watched.as_ref().is_none_or(|w| !w.loads)
            }
            AccessGuard::Unchecked | AccessGuard::Owned | AccessGuard::Forbidden => true,
        })
    }

    /// Opens a region at a statement; one that is `together` has barriers.
    fn open_region(&mut self, block: &'a [Stmt], start: usize, together: bool) -> Option<OpenRegion<'a>> {
        let waits = |stmt: &Stmt| self.waits_for_others(stmt);
        let refused =
            |memory: MemId| self.lane_regions.check_facts.memories.get(memory.index()) == Some(&AccessGuard::Forbidden);
        // Where threads wait for one another, checks want to know who left.
        let parts =
            |label: Label| self.is_observed() && self.facts.has_meetings && self.variances.has_divergent_exit(label);
        let tiles = |stmt: &Stmt| self.is_of_tiles(stmt);
        let support = RegionSupport {
            f: self.f,
            barriers: together,
            waits: &waits,
            tiles: &tiles,
            refused: &refused,
            parts: &parts,
        };
        // Of accesses to these memories the checker hears when they happen, of others before the region runs.
        let mut told = vec![];
        let mut count = block[start..].iter().take_while(|stmt| support.statement(stmt)).count();
        loop {
            if together && !block[start..start + count].iter().any(has_barrier) {
                return None;
            }
            match self.build_region(&block[start..start + count], &told)? {
                Ok((builder, inputs)) => {
                    self.target();
                    let enter = self.emit_jump(plain::<EnterRegion>(), nothing());
                    *(if together {
                        &mut self.lane_regions.is_inside_phases
                    } else {
                        &mut self.lane_regions.is_inside
                    }) = true;
                    let (end, notes, regions) =
                        (start + count, self.tables.events.access_sites.len(), self.tables.regions.len());
                    return Some(OpenRegion { start, end, enter, builder, inputs, notes, regions, together });
                }
                // It ends in front of a statement without LaneIR.
                Err(NoRegionReason::SupportedPrefix(built)) => count = built.min(count - 1),
                Err(NoRegionReason::NotReportable(memory)) => told.push(memory),
            }
        }
    }

    /// Builds the region of some statements, if it could be worthwhile.
    fn build_region(&mut self, stmts: &'a [Stmt], told: &[MemId]) -> Option<Built<'a>> {
        if weight(stmts) < LEAST {
            return None;
        }
        let (values, locals) = outside(self.f, stmts);
        let known = |c: &Self, e: ExprId| c.values.by_expr.contains_key(&e) || c.f.exprs[e].kind.is_free();
        if values.iter().any(|&e| !known(self, e)) {
            return None;
        }
        let mut from = RegionContext::default();
        for &e in &values {
            let vals = self.value(e);
            from.values.insert(e, vals);
        }
        let inside = references(stmts, self.f);
        for local in locals {
            if self.variances.may_be_read_unwritten(local)
                || inside.get(&local) != self.lane_regions.references.get(&local)
            {
                from.locals.insert(local, self.values.locals[local.index()].clone());
            }
        }
        from.uniform = self.uniform_regs();
        from.guards = self.lane_regions.check_facts.clone();
        from.reported_on_access = told.to_vec();
        let builder = RegionBuilder::new(self.f, self.variances.clone(), from, stmts, self.flow.stmt);
        Some(builder.map(|builder| (builder, values)))
    }

    /// Ends a region behind the statement at `at`.
    pub(crate) fn close_machine(&mut self, open: &mut Option<OpenRegion<'a>>, block: &'a [Stmt], at: usize) {
        let Some(OpenRegion { start, enter, builder, inputs, notes, regions, together, .. }) =
            open.take_if(|open| open.end == at + 1)
        else {
            return;
        };
        *(if together { &mut self.lane_regions.is_inside_phases } else { &mut self.lane_regions.is_inside }) = false;
        let stmts = &block[start..=at];
        let mut values = vec![];
        for stmt in stmts {
            let e = match stmt.kind {
                StmtKind::Let(e) | StmtKind::Atomic { result: Some(e), .. } | StmtKind::Warp { result: e, .. } => e,
                _ => continue,
            };
            if let Some(vals) = self.values.by_expr.get(&e)
                && self.uses.last[e] >= self.flow.stmt
            {
                values.push((e, vals.clone()));
                // The lanes of an affine value, where a later use reads those.
                if let Some(&reg) = self.values.spread.get(&e) {
                    values.push((e, vec![CompiledValue::Reg(reg)]));
                }
            }
        }
        let inside = references(stmts, self.f);
        let mut locals: Vec<(LocalId, Vec<CompiledValue>)> = vec![];
        let mut own: FxHashSet<Reg> = FxHashSet::default();
        each_stmt(stmts, &mut |stmt| {
            if let StmtKind::Write { local, .. } = stmt.kind {
                let vals = &self.values.locals[local.index()];
                own.extend(vals.iter().filter_map(|v| if let CompiledValue::Reg(reg) = v { Some(*reg) } else { None }));
                if inside.get(&local) != self.lane_regions.references.get(&local) && locals.iter().all(|l| l.0 != local)
                {
                    locals.push((local, vals.clone()));
                }
            }
        });
        // The local may be written behind the region.
        for (_, vals) in values.iter().filter(|(e, _)| self.values.in_place.contains(e)) {
            own.extend(vals.iter().filter_map(|v| if let CompiledValue::Reg(reg) = v { Some(*reg) } else { None }));
        }
        // What still has the value that it had in front of the region need not be written.
        let mut same: FxHashSet<Reg> = FxHashSet::default();
        for e in inputs {
            for val in self.values.by_expr.get(&e).into_iter().flatten() {
                Self::each_reg(val, &mut |reg| {
                    same.insert(reg);
                });
            }
        }
        let held = &self.registers.held;
        let fresh = |reg: Reg| own.contains(&reg) || !(same.contains(&reg) || held[reg as usize] >= PERMANENT);
        let region = builder.finish(&values, &locals, &fresh, self.uniform_regs());
        let region = region.and_then(|region| self.with_notes(region, notes));
        self.writer.ops[enter].x = self.target();
        self.writer.ops[enter].y = match region {
            Some(region) => {
                let region = LaneRegion { inner: (self.tables.regions.len() - regions) as u32, ..region };
                let span = self.span(stmts[0].span);
                self.tables.source.region_spans.push(span);
                self.tables.regions.push(region);
                self.tables.regions.len() as u32 - 1
            }
            None => u32::MAX,
        };
    }

    /// Returns what regions have to check and to record of arithmetic and of each memory.
    pub(crate) fn guards_of_regions(&self) -> CheckFacts {
        let guard = |((_, memory), watched): ((MemId, &Memory), &Option<TrackedMemory>)| match watched {
            None => AccessGuard::Unchecked,
            // Whether the indices of a kernel prove that elements are private also depends on the launch.
            Some(watched)
                if watched.is_race_free
                    || watched.owner.axes != 0 && matches!(memory.space, MemorySpace::Global { .. }) =>
            {
                match watched.starts_unwritten {
                    true if memory.layout.size.is_multiple_of(watched.unit.max(1)) => {
                        AccessGuard::OwnedInit { unit: watched.unit }
                    }
                    true => AccessGuard::Forbidden,
                    false => AccessGuard::Owned,
                }
            }
            Some(_) if memory.space == MemorySpace::Local => AccessGuard::Forbidden,
            Some(_) => AccessGuard::Shared,
        };
        CheckFacts {
            arithmetic: self.tables.events.checks.arithmetic,
            memory: self.is_observed(),
            nan: self.tables.events.checks.nan,
            exact: self.facts.exact.clone(),
            memories: self.f.memories.iter().zip(&self.tables.events.tracked).map(guard).collect(),
        }
    }

    /// Numbers the reports of a region by the notes of the same accesses that the interpreter's code has, from `first`
    /// on.
    fn with_notes(&self, mut region: LaneRegion, first: usize) -> Option<LaneRegion> {
        let of =
            |note: &AccessSite| (self.tables.accesses[note.access as usize].memory, note.kind == AccessKind::Store);
        let notes = self.tables.events.access_sites[first..].iter().map(of);
        if self.is_observed()
            && !notes.eq(region.checked_accesses.iter().map(|&(memory, store)| (memory.index() as u32, store)))
        {
            return None;
        }
        region.reports.iter_mut().for_each(|report| report.note += first as u32);
        for_each_inst_mut(&mut region.body, &mut |inst| {
            if let LaneOp::ReportAccess(_, _, note) = &mut inst.op {
                *note += first as u32;
            }
        });
        Some(region)
    }

    fn uniform_regs(&self) -> Vec<bool> {
        self.tables.registers.defs.iter().map(|def| matches!(def, RegDef::Uniform { .. })).collect()
    }
}

/// Returns whether there is a barrier of the block in a statement.
fn has_barrier(stmt: &Stmt) -> bool {
    let mut found = false;
    each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
        found |= matches!(stmt.kind, StmtKind::Barrier { kind: BarrierKind::Block, .. });
    });
    found
}

/// Counts the statements that compute something, those in loops ten times.
fn weight(stmts: &[Stmt]) -> u32 {
    stmts.iter().fold(0, |sum, stmt| {
        let inner: u32 = stmt.kind.blocks().map(|block| weight(block)).sum();
        sum + match stmt.kind {
            StmtKind::For { .. } | StmtKind::Loop { .. } => 10 * inner.max(1),
            StmtKind::Let(_) | StmtKind::Store { .. } | StmtKind::Atomic { .. } | StmtKind::Warp { .. } => 1,
            _ => inner,
        }
    })
}
