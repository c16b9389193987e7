//! Non-atomic accumulation: finds accesses for which the reverse sweep needs no atomics, because no two threads execute
//! them concurrently on the same element.
//!
//! Input: the kernel before jumps are removed, its activity and its launches. Output: [`NonAtomicAccesses`]. In the
//! reverse sweep, a load becomes an addition to an adjoint, a store reads and zeroes one, and barriers stay in place.
//! The addition must be atomic if another thread may concurrently add to the same element; the adjoint must be
//! exchanged atomically if another thread may concurrently consume it. The proofs use footprints and assume that the
//! primal kernel has no races, because a kernel with races has no derivative.

use rustc_hash::{FxHashMap, FxHashSet};

use super::activity::{Activity, analyze_activity};
use super::launches::DerivativeLaunches;
use clk_base::linear::SolverBudget;
use clk_base::source::Span;
use clk_base::stop;
use clk_ir::def::*;
use clk_ir::footprint::SignedOverflow;
use clk_ir::footprint::overflow_free::compute_overflow_free;
use clk_ir::footprint::proof_obligation::{ObligationAnswer, ProofObligation};
use clk_ir::footprint::{Footprint, FootprintAccess, SymbolicLaunch, property_obligations};
use clk_ir::ranges::BodySite;
use clk_ir::visit::each_stmt;

/// Work limits: solver budget for one obligation, and the number of obligations for a kernel.
const WORK: SolverBudget = SolverBudget { cases: 60, exchanges: 1_500 };
const MAX_QUESTIONS: usize = 800;

/// The active accesses to shared or global memory whose elements no other thread accesses concurrently.
#[derive(Default)]
pub(super) struct NonAtomicAccesses {
    loads: FxHashSet<ExprId>,
    /// Maps the memory, field and source location of a store to whether the store is exclusive: whether no other thread
    /// accesses the stored elements concurrently. If several stores have the same key, it is `true` only if all of them
    /// are exclusive.
    stores: FxHashMap<(MemId, u32, Option<u8>, Span), bool>,
}

impl NonAtomicAccesses {
    pub fn load(&self, f: &Function, id: ExprId, place: &Place) -> bool {
        !is_shared(f, place.memory) || self.loads.contains(&id)
    }

    pub fn store(&self, f: &Function, place: &Place, span: Span) -> bool {
        !is_shared(f, place.memory) || self.stores.get(&store_key(place, span)).copied().unwrap_or(false)
    }
}

fn store_key(place: &Place, span: Span) -> (MemId, u32, Option<u8>, Span) {
    (place.memory, place.leaf, place.component, span)
}

fn is_shared(f: &Function, memory: MemId) -> bool {
    !matches!(f.memories[memory].space, MemorySpace::Local | MemorySpace::Constant)
}

/// The active accesses to shared and global memory.
#[derive(Default)]
struct ActiveAccesses<'a> {
    loads: FxHashMap<ExprId, &'a Place>,
    stores: FxHashMap<BodySite, (&'a Place, Span)>,
}

/// Finds the accesses that need no atomics.
pub(super) fn find_non_atomic(module: &Module, active: &[bool], launches: &DerivativeLaunches) -> NonAtomicAccesses {
    let f = &module.functions[module.kernel.body];
    let activity = analyze_activity(f, active);
    let accesses = active_accesses(f, &activity);
    let mut exclusive = NonAtomicAccesses::default();
    let mut needs_proof = false;
    let is_private = |memory: MemId| match f.memories[memory].space {
        MemorySpace::Global { param, .. } => launches.private.contains(&param),
        _ => false,
    };
    for (id, place) in &accesses.loads {
        let is_exclusive = is_private(place.memory);
        exclusive.loads.extend(is_exclusive.then_some(*id));
        needs_proof |= !is_exclusive;
    }
    for (place, span) in accesses.stores.values() {
        let is_exclusive = is_private(place.memory);
        exclusive.stores.insert(store_key(place, *span), is_exclusive);
        needs_proof |= !is_exclusive;
    }
    if let (Some(launch), true) = (launches.symbolic_launch(), needs_proof) {
        let search = NonAtomicAnalysis { module, f, launch, obligations_left: MAX_QUESTIONS };
        search.run(&accesses, &mut exclusive);
    }
    exclusive
}

fn active_accesses<'a>(f: &'a Function, activity: &Activity) -> ActiveAccesses<'a> {
    let (mut accesses, mut number) = (ActiveAccesses::default(), 0);
    let mut in_products = FxHashSet::default();
    each_stmt(&f.body, &mut |stmt| {
        match &stmt.kind {
            StmtKind::For { collective: Some(CollectiveLoop::Gemm(_)), body, .. } => each_stmt(body, &mut |stmt| {
                if let StmtKind::Let(id) = stmt.kind {
                    in_products.insert(id);
                }
            }),
            StmtKind::Let(id) if !in_products.contains(id) => {
                if let ExprKind::Load { place, .. } = &f.exprs[*id].kind
                    && is_shared(f, place.memory)
                    && activity.place(f, place)
                {
                    accesses.loads.insert(*id, place);
                }
            }
            StmtKind::Store { place, value, .. }
                if is_shared(f, place.memory) && activity.place(f, place) && activity.expr(*value) =>
            {
                accesses.stores.insert(BodySite::Stmt(number), (place, stmt.span));
            }
            _ => {}
        }
        number += 1;
    });
    accesses
}

struct NonAtomicAnalysis<'a> {
    module: &'a Module,
    f: &'a Function,
    launch: &'a SymbolicLaunch,
    /// The number of obligations that may still be tried.
    obligations_left: usize,
}

impl NonAtomicAnalysis<'_> {
    fn run(mut self, active: &ActiveAccesses<'_>, exclusive: &mut NonAtomicAccesses) {
        let (module, launch) = (self.module, self.launch);
        let Some(analyzed) = compute_overflow_free(module, launch, SignedOverflow::Possible, &mut |question| {
            self.is_proved(question).then_some(())
        }) else {
            return;
        };
        let mut footprint = analyzed.footprint;
        if footprint.stopped.is_some() {
            return;
        }
        let accesses = std::mem::take(&mut footprint.accesses);
        let stores: Vec<&FootprintAccess> =
            accesses.iter().filter(|access| active.stores.contains_key(&access.site)).collect();
        let exclusive_sites = self.exclusive_sites(&footprint, &stores);
        let mut by_place: FxHashMap<(MemId, u32, Option<u8>, Span), bool> = FxHashMap::default();
        for (site, (place, span)) in &active.stores {
            *by_place.entry(store_key(place, *span)).or_insert(true) &= exclusive_sites.contains(site);
        }
        for (store_key, is_exclusive) in by_place {
            *exclusive.stores.entry(store_key).or_default() |= is_exclusive;
        }
        // Additions do not rely on promises that indices are ascending or distinct: such promises are verified only
        // with checks enabled, and a broken one would cause lost updates.
        for promised in footprint.variables.array_promises.values_mut() {
            (promised.ascending, promised.distinct) = (false, false);
        }
        let is_wanted =
            |access: &&FootprintAccess| matches!(access.site, BodySite::Load(id) if active.loads.contains_key(&id));
        let loads: Vec<&FootprintAccess> = accesses.iter().filter(is_wanted).collect();
        let exclusive_sites = self.exclusive_sites(&footprint, &loads).into_iter();
        let load_of = |site| if let BodySite::Load(id) = site { Some(id) } else { None };
        exclusive.loads.extend(exclusive_sites.filter_map(load_of));
        self.drop_mixed_loads(active, exclusive);
    }

    /// Ensures that the additions to one global adjoint are either all atomic or all non-atomic.
    fn drop_mixed_loads(&self, active: &ActiveAccesses<'_>, exclusive: &mut NonAtomicAccesses) {
        let is_global = |memory: MemId| matches!(self.f.memories[memory].space, MemorySpace::Global { .. });
        let shared =
            active.loads.iter().filter(|(id, place)| !exclusive.loads.contains(*id) && is_global(place.memory));
        let mixed: FxHashSet<MemId> = shared.map(|(_, place)| place.memory).collect();
        exclusive.loads.retain(|id| active.loads.get(id).is_none_or(|place| !mixed.contains(&place.memory)));
    }

    /// Returns the access sites whose elements no other thread accesses at any of these sites.
    fn exclusive_sites(&mut self, footprint: &Footprint, accesses: &[&FootprintAccess]) -> FxHashSet<BodySite> {
        let mut exclusive: FxHashSet<BodySite> = accesses.iter().map(|access| access.site).collect();
        for (i, a) in accesses.iter().enumerate() {
            stop::poll();
            for b in &accesses[i..] {
                let is_candidate = exclusive.contains(&a.site) || exclusive.contains(&b.site);
                if is_candidate && !self.never_overlap(footprint, a, b) {
                    exclusive.remove(&a.site);
                    exclusive.remove(&b.site);
                }
            }
        }
        exclusive
    }

    fn never_overlap(&mut self, footprint: &Footprint, a: &FootprintAccess, b: &FootprintAccess) -> bool {
        property_obligations::no_overlap(self.f, self.launch, footprint, a, b)
            .iter()
            .all(|question| self.is_proved(question))
    }

    fn is_proved(&mut self, question: &ProofObligation) -> bool {
        let Some(remaining) = self.obligations_left.checked_sub(1) else { return false };
        self.obligations_left = remaining;
        matches!(question.answer(&WORK), ObligationAnswer::Proved(..))
    }
}
