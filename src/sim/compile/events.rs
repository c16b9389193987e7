//! Code generation for checks: the event ops of `events` and `sanitizer::arithmetic`, and the tables that they refer
//! to.

use super::decide::{deciding, taking};
use super::state::{CompiledAffine, OpClass};
use super::*;
use crate::code::PollingLoopDef;
use crate::events::{
    AccessKind, AccessSite, AccessTraits, ReportAccess, ReportBlockBarrier, ReportDivergence, ReportExit, ReportFence,
    ReportLocalDeclaration, ReportLoopEntry, ReportPoll, ReportWarpBarrier,
};
use crate::sanitizer::arithmetic;
use clk_ir::disjoint_writes::{self, DisjointWrites};
use clk_ir::visit::{depends_on_atomic_order, each_stmt};
use clk_ir::{RaceFreedom, definite_init, spin_loop_exits};
use clk_scalar::Scalar;
use clk_scalar::ops::BarrierKind;

/// Returns what checks need to know of each memory; `None` where no access can be wrong. `apart` is what is proved of
/// them.
pub(crate) fn watched(f: &Function, apart: &[RaceFreedom]) -> Vec<Option<TrackedMemory>> {
    let mut tables: Vec<TrackedMemory> = f.memories.iter().map(|(_, memory)| TrackedMemory::of(memory)).collect();
    each_stmt(&f.body, &mut |stmt| {
        let mut see = |place: &Place, touch: AccessKind| {
            let table = &mut tables[place.memory.index()];
            match touch {
                AccessKind::Load => table.loads = true,
                AccessKind::Store => table.stores = true,
                AccessKind::AtomicRmw => table.atomics = true,
                AccessKind::AtomicLoad => table.atomic_loads = true,
            }
            table.is_single_word &= place.component.is_none();
        };
        match &stmt.kind {
            StmtKind::Let(e) => {
                if let ExprKind::Load { place, .. } = &f.exprs[*e].kind {
                    see(place, AccessKind::Load);
                }
            }
            StmtKind::Store { place, .. } => see(place, AccessKind::Store),
            StmtKind::Atomic { place, value, compare, .. } => {
                see(place, if *compare == Some(*value) { AccessKind::AtomicLoad } else { AccessKind::AtomicRmw })
            }
            _ => {}
        }
    });
    let mut syncs = false;
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::Loop { body, .. } => syncs |= takes(body),
        StmtKind::Fence(_) => syncs = true,
        _ => {}
    });
    let filled = definite_init::find_initialized_arrays(f);
    let of = |((table, own), (id, memory)): ((TrackedMemory, DisjointWrites), (MemId, &Memory))| {
        let mut table = TrackedMemory { owner: own, ..table };
        // Marks of what is written know of no updates.
        let proved = apart.get(id.index()).copied().unwrap_or_default();
        table.starts_unwritten &= !proved.is_filled;
        table.is_race_free = proved.is_free && !(table.starts_unwritten && (table.atomics || table.atomic_loads));
        if table.is_single_word {
            table.unit = memory.layout.size.max(1);
        }
        let is_fine = filled[id.index()] || table.is_race_free && !table.starts_unwritten;
        (table.matters(memory.space, syncs) && !is_fine).then_some(table)
    };
    tables.into_iter().zip(disjoint_writes::find_disjoint_writes(f)).zip(f.memories.iter()).map(of).collect()
}

impl TrackedMemory {
    fn of(memory: &Memory) -> TrackedMemory {
        let fresh = match memory.space {
            MemorySpace::Shared | MemorySpace::Local => true,
            MemorySpace::Constant => false,
            MemorySpace::Global { access, .. } | MemorySpace::Param { access, .. } => {
                access == clk_ir::def::Access::Out
            }
        };
        let smallest = memory.layout.leaves.iter().map(|l| l.ty.scalar().size()).min().unwrap_or(1);
        let whole = memory.layout.leaves.len() == 1;
        TrackedMemory {
            loads: false,
            stores: false,
            atomics: false,
            atomic_loads: false,
            starts_unwritten: fresh,
            unit: smallest,
            is_single_word: whole,
            owner: DisjointWrites::default(),
            is_race_free: false,
            site_ids: vec![],
        }
    }

    /// Returns whether any access can be wrong; `syncs` if threads may wait for values of its elements or be ordered by
    /// them.
    fn matters(&self, space: MemorySpace, syncs: bool) -> bool {
        match space {
            MemorySpace::Global { access: clk_ir::def::Access::In, .. } | MemorySpace::Constant => false,
            MemorySpace::Global { access: clk_ir::def::Access::Out, .. } => true,
            MemorySpace::Global { .. } | MemorySpace::Param { .. } => {
                self.stores || (self.atomics && self.loads) || (syncs && (self.atomics || self.atomic_loads))
            }
            MemorySpace::Shared => self.loads || self.stores || self.atomics || self.atomic_loads,
            MemorySpace::Local => self.loads,
        }
    }
}

/// Returns whether an access to such memory costs a warp more or less.
fn is_shared_by_warps(space: MemorySpace) -> bool {
    matches!(space, MemorySpace::Shared | MemorySpace::Global { .. })
}

/// Returns whether a block, including nested blocks, contains a barrier or a warp operation.
fn meets(block: &Block) -> bool {
    let mut found = false;
    each_stmt(block, &mut |stmt| {
        found |= matches!(stmt.kind, StmtKind::Barrier { .. } | StmtKind::Warp { .. });
    });
    found
}

/// Returns whether it contains an atomic operation whose result is used.
pub(crate) fn takes(block: &Block) -> bool {
    let mut found = false;
    each_stmt(block, &mut |stmt| found |= matches!(stmt.kind, StmtKind::Atomic { result: Some(_), .. }));
    found
}

impl<'a> KernelCompiler<'a> {
    pub(crate) fn instrument(&mut self, checks: Checks, apart: &[RaceFreedom]) {
        self.tables.events.checks = checks;
        let f = self.f;
        self.tables.events.tracked =
            if checks.memory { watched(f, apart) } else { f.memories.iter().map(|_| None).collect() };
        self.facts.has_meetings = meets(&f.body);
        self.facts.changes = vec![false; f.memories.len()];
        each_stmt(&f.body, &mut |stmt| {
            if let StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } = &stmt.kind {
                self.facts.changes[place.memory.index()] = true;
            }
            if let StmtKind::Store { place, .. } = &stmt.kind
                && checks.memory
            {
                self.facts.stored.insert((place.memory, place.indices.clone()));
            }
        });
        let mut waits = false;
        each_stmt(&f.body, &mut |stmt| {
            waits |= match &stmt.kind {
                StmtKind::Loop { body, .. } => self.polls(body),
                StmtKind::For { body, .. } => takes(body),
                _ => false,
            };
        });
        if checks.memory {
            self.facts.deciding = deciding(f);
            self.facts.taking = taking(f);
        }
        let mut fences = false;
        each_stmt(&f.body, &mut |stmt| fences |= matches!(stmt.kind, StmtKind::Fence(_)));
        self.tables.properties.has_sync = fences && !self.facts.deciding.is_empty();
        // Warps of kernels whose threads synchronize may run separately, so that all barriers have to be emitted.
        self.facts.waits = waits || self.tables.properties.has_sync;
        let mut barriers = false;
        each_stmt(&f.body, &mut |stmt| {
            barriers |= matches!(stmt.kind, StmtKind::Barrier { kind: BarrierKind::Block, .. })
        });
        self.tables.properties.can_split_warps = self.facts.waits || !barriers;
        each_stmt(&f.body, &mut |stmt| match stmt.kind {
            StmtKind::Atomic { ref place, .. } if f.memories[place.memory].space != MemorySpace::Shared => {
                self.tables.properties.depends_on_order |= depends_on_atomic_order(f, &stmt.kind);
            }
            StmtKind::Warp { .. } | StmtKind::Barrier { kind: BarrierKind::Warp, .. } => {
                self.tables.properties.has_warp_ops = true
            }
            _ => {}
        });
    }

    /// Emits the event of the access that follows.
    pub(crate) fn report_touch(
        &mut self,
        touch: AccessKind,
        access: u32,
        form: Variance,
        values: Vec<Reg>,
        traits: AccessTraits,
    ) {
        let def = &self.tables.accesses[access as usize];
        let (memory, scalar) = (def.memory as usize, def.scalar);
        let components = if touch.is_atomic() { 1 } else { def.regs.len() as u8 };
        let counted = self.tables.events.counted_warps.is_some()
            && self.f.memories.iter().nth(memory).is_some_and(|(_, m)| is_shared_by_warps(m.space));
        let (x, atomic) = (self.tables.events.access_sites.len() as u32, self.tables.atomics.len() as u32);
        let number = match self.tables.events.tracked.get_mut(memory).and_then(Option::as_mut) {
            Some(watched) => {
                watched.site_ids.push(x);
                watched.site_ids.len() as u32 - 1
            }
            None if counted => 0,
            None => return,
        };
        let site = number.min(255) as u8;
        let pitch = scalar.size();
        self.tables.events.access_sites.push(AccessSite {
            kind: touch,
            access,
            index_in_memory: number,
            shadow_id: site,
            variance: form,
            components,
            pitch,
            values,
            traits,
            atomic,
        });
        self.emit(plain::<ReportAccess>(), Op { x, ..nothing() });
        self.sort(OpClass::ReportedAccess);
    }

    /// Returns whether some store has the same location expression as this load.
    pub(crate) fn is_stored(&self, place: &Place) -> bool {
        self.facts.stored.contains(&(place.memory, place.indices.clone()))
    }

    pub fn is_observed(&self) -> bool {
        self.tables.events.checks.memory
    }

    /// Emits the event that all threads of the block, or (`warps`) the active ones warp by warp, have synchronized.
    pub(crate) fn report_met(&mut self, warps: bool) {
        if self.is_observed() {
            let run = if warps { plain::<ReportWarpBarrier>() } else { plain::<ReportBlockBarrier>() };
            self.emit(run, nothing());
        }
    }

    pub(crate) fn report_fenced(&mut self, scope: FenceScope) {
        if self.is_observed() {
            let x = u32::from(scope == FenceScope::Block);
            self.emit(plain::<ReportFence>(), Op { x, ..nothing() });
        }
    }

    pub(crate) fn report_declared(&mut self, memory: MemId) {
        if self.is_observed() {
            self.emit(plain::<ReportLocalDeclaration>(), Op { x: memory.index() as u32, ..nothing() });
        }
    }

    /// At the start of a block that contains a barrier: emits an event for the lanes of mask `from` that are not active
    /// here.
    pub(crate) fn report_parted(&mut self, from: MaskId, span: Span, body: &Block, first: bool) {
        if self.is_observed() && meets(body) {
            let (x, y) = (u32::from(first), self.span(span));
            self.emit(plain::<ReportDivergence>(), Op { b: from, x, y, ..nothing() });
        }
    }

    /// In front of a jump that only some lanes take: emits the event that the active lanes leave.
    pub(crate) fn report_left(&mut self, span: Span) {
        if self.is_observed() && self.facts.has_meetings {
            let y = self.span(span);
            self.emit(plain::<ReportExit>(), Op { y, ..nothing() });
        }
    }

    /// In front of a loop that contains a barrier: emits the event that all active lanes enter it.
    pub(crate) fn report_gathered(&mut self, body: &Block) {
        if self.is_observed() && meets(body) {
            self.emit(plain::<ReportLoopEntry>(), nothing());
        }
    }

    /// At the end of an iteration of a polling loop, which the lanes of mask `from` have entered: emits the event of
    /// another iteration.
    pub(crate) fn report_polls(&mut self, from: MaskId, label: Label, body: &Block, span: Span) {
        if !self.is_observed() {
            return;
        }
        let ends = spin_loop_exits::find_exit_counters(self.f, label, body);
        let of = |&local: &LocalId| {
            let scalar = self.f.locals[local].ty.scalar();
            let reg = |val: &CompiledValue| if let CompiledValue::Reg(reg) = *val { Some((reg, scalar)) } else { None };
            self.values.locals[local.index()].iter().filter_map(reg).collect::<Vec<_>>()
        };
        let (counts, weak) =
            (ends.unconditional.iter().flat_map(of).collect(), ends.conditional.iter().flat_map(of).collect());
        let (x, span) = (self.tables.events.polling_loops.len() as u32, self.span(span));
        self.tables.events.polling_loops.push(PollingLoopDef {
            entered: from,
            span,
            progress_locals: counts,
            weak_locals: weak,
        });
        self.tables.properties.has_polling = true;
        self.emit(plain::<ReportPoll>(), Op { x, ..nothing() });
    }

    /// Returns whether a loop with this body may wait for other threads.
    pub(crate) fn polls(&self, body: &Block) -> bool {
        takes(body) || self.idles(body)
    }

    /// Returns whether a loop in machine code might wait for what other threads of the group do, without end. Loops
    /// that only wait for what atomics find leave after a while, and those over ranges end.
    pub(crate) fn waits_for_others(&self, stmt: &Stmt) -> bool {
        let (StmtKind::For { body, .. } | StmtKind::Loop { body, .. }) = &stmt.kind else { return false };
        let (mut updates, mut looks) = (false, false);
        each_stmt(body, &mut |stmt| match &stmt.kind {
            StmtKind::Atomic { .. } => updates = true,
            StmtKind::Let(e) => looks |= self.looks(*e),
            _ => {}
        });
        let repeats = matches!(stmt.kind, StmtKind::Loop { .. });
        self.idles(body) || updates && (repeats && looks || self.is_observed())
    }

    /// Returns whether it reads memory that other threads may write.
    fn looks(&self, e: ExprId) -> bool {
        let ExprKind::Load { place, .. } = &self.f.exprs[e].kind else { return false };
        self.f.memories[place.memory].space != MemorySpace::Local && self.facts.changes[place.memory.index()]
    }

    /// Returns whether an iteration only reads memory that other threads may write, so that iterations repeat
    /// identically until one of them does.
    pub(super) fn idles(&self, body: &Block) -> bool {
        let (mut looks, mut acts) = (false, false);
        let (mut written, mut read) = (vec![], vec![]);
        each_stmt(body, &mut |stmt| match &stmt.kind {
            StmtKind::Let(e) => match &self.f.exprs[*e].kind {
                ExprKind::Read(local) => read.push(*local),
                _ => looks |= self.looks(*e),
            },
            StmtKind::Write { local, .. } => written.push(*local),
            StmtKind::If { .. } | StmtKind::Block { .. } | StmtKind::Break(_) | StmtKind::Continue(_) => {}
            StmtKind::Fence(_) | StmtKind::Return(_) => {}
            _ => acts = true,
        });
        looks && !acts && !written.iter().any(|local| read.contains(local))
    }

    /// Emits an overflow check in front of a signed operator on registers.
    pub(crate) fn check_overflow(&mut self, op: BinOp, scalar: Scalar, a: Reg, b: Reg, span: u32) {
        if self.tables.events.checks.arithmetic
            && let Some(run) = arithmetic::overflow_check(op, scalar, self.isa)
        {
            self.emit(run, Op { a, b, x: span, ..nothing() });
        }
    }

    /// Emits an overflow check in front of a negation of a signed number.
    pub(crate) fn check_negative(&mut self, scalar: Scalar, a: Reg, span: u32) {
        if scalar.is_int() && scalar.is_signed() && self.tables.events.checks.arithmetic {
            let zero = self.const_reg(crate::lanes::is_wide(scalar), 0);
            self.check_overflow(BinOp::Sub, scalar, zero, a, span);
        }
    }

    /// Emits an overflow check in front of an operator on affine values.
    pub(crate) fn check_affine(&mut self, op: BinOp, a: &CompiledAffine, b: &CompiledAffine, span: u32) {
        if let Some((run, which)) = arithmetic::affine_overflow_check(op) {
            let axes = vec![self.affine_index(a), self.affine_index(b)];
            let y = self.push_index(axes);
            self.emit(run, Op { a: which, x: span, y, ..nothing() });
        }
    }

    /// Emits a range check of the amount in front of a shift.
    pub(crate) fn check_shift(&mut self, scalar: Scalar, by: Scalar, amount: &CompiledValue, span: u32) {
        if !self.tables.events.checks.arithmetic {
            return;
        }
        if let CompiledValue::Const(bits) = amount
            && *bits < scalar.bits() as u64
        {
            return;
        }
        let b = self.reg_as(amount, crate::lanes::is_wide(by));
        if let Some(run) = arithmetic::shift_check(by, self.isa) {
            self.emit(run, Op { b, x: span, y: arithmetic::scalar_index(scalar), ..nothing() });
        }
    }

    /// Emits a range check in front of a conversion from float to integer.
    pub(crate) fn check_conversion(&mut self, from: Scalar, to: Scalar, a: Reg, span: u32) {
        if self.tables.events.checks.arithmetic && from.is_float() && to.is_int() {
            let op = Op {
                a,
                c: arithmetic::scalar_index(from) as u16,
                x: span,
                y: arithmetic::scalar_index(to),
                ..nothing()
            };
            self.emit(arithmetic::conversion_check(), op);
        }
    }

    /// Emits, after an operation on floats, the check that finite operands gave a finite result (`--trap-nan`).
    pub(crate) fn check_finite(
        &mut self,
        name: &str,
        infix: bool,
        out: Scalar,
        result: &CompiledValue,
        args: &[(Reg, Scalar)],
        span: u32,
    ) {
        let &CompiledValue::Reg(d) = result else { return };
        if self.tables.events.checks.nan && out.is_float() {
            let x = self.tables.events.nan_checks.len() as u32;
            self.tables.events.nan_checks.push(NanCheck { name: name.into(), infix, scalar: out, args: args.to_vec() });
            self.emit(arithmetic::finite_check(), Op { d, x, y: span, ..nothing() });
        }
    }
}
