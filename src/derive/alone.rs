//! Which accesses no two threads make to one element at a time, so that their mirror images need no atomic operations.
//!
//! Input: a kernel, with jumps, its activity, its launches. Output: [`Alone`]. Idea: loads become additions to adjoints and stores
//! take them, between the same barriers as here. An addition has to be atomic if another thread may add to the element, an
//! adjoint be taken so if another thread may take it. Footprints tell; what races here is not looked at: it has no derivative.

use rustc_hash::{FxHashMap, FxHashSet};

use super::active::{Activity, activity};
use super::launches::Launches;
use crate::base::linear::Budget;
use crate::base::source::Span;
use crate::base::stop;
use crate::ir::def::*;
use crate::ir::footprint::question::{Answer, Question};
use crate::ir::footprint::settle::settle;
use crate::ir::footprint::{Footprint, Given, Touch, claim};
use crate::ir::ranges::Site;
use crate::ir::visit::each_stmt;

/// The work for an answer, and the answers for a kernel.
const WORK: Budget = Budget { cases: 60, exchanges: 1_500 };
const MAX_QUESTIONS: usize = 800;

/// Accesses that a thread makes alone, of all active ones to memory that threads share.
#[derive(Default)]
pub(super) struct Alone {
    loads: FxHashSet<ExprId>,
    /// Of the stores at a place of the source, all or none.
    stores: FxHashMap<(MemId, u32, Option<u8>, Span), bool>,
}

impl Alone {
    pub fn load(&self, f: &Function, id: ExprId, place: &Place) -> bool {
        !is_shared(f, place.memory) || self.loads.contains(&id)
    }

    pub fn store(&self, f: &Function, place: &Place, span: Span) -> bool {
        !is_shared(f, place.memory) || self.stores.get(&key(place, span)).copied().unwrap_or(false)
    }
}

fn key(place: &Place, span: Span) -> (MemId, u32, Option<u8>, Span) {
    (place.memory, place.leaf, place.component, span)
}

fn is_shared(f: &Function, memory: MemId) -> bool {
    !matches!(f.memories[memory].space, Space::Local | Space::Constant)
}

/// The active accesses to memory that threads share.
#[derive(Default)]
struct Wanted<'a> {
    loads: FxHashMap<ExprId, &'a Place>,
    stores: FxHashMap<Site, (&'a Place, Span)>,
}

/// Finds the accesses that a thread makes alone.
pub(super) fn alone(module: &Module, active: &[bool], launches: &Launches) -> Alone {
    let f = &module.functions[module.kernel.body];
    let activity = activity(f, active);
    let wanted = wanted(f, &activity);
    let mut found = Alone::default();
    let mut open = false;
    let is_private = |memory: MemId| match f.memories[memory].space {
        Space::Global { param, .. } => launches.private.contains(&param),
        _ => false,
    };
    for (id, place) in &wanted.loads {
        let own = is_private(place.memory);
        found.loads.extend(own.then_some(*id));
        open |= !own;
    }
    for (place, span) in wanted.stores.values() {
        let own = is_private(place.memory);
        found.stores.insert(key(place, *span), own);
        open |= !own;
    }
    if let (Some(given), true) = (launches.given(), open) {
        let search = Search { module, f, given, left: MAX_QUESTIONS };
        search.run(&wanted, &mut found);
    }
    found
}

fn wanted<'a>(f: &'a Function, activity: &Activity) -> Wanted<'a> {
    let (mut wanted, mut number) = (Wanted::default(), 0);
    let mut in_products = FxHashSet::default();
    each_stmt(&f.body, &mut |stmt| {
        match &stmt.kind {
            StmtKind::For { together: Some(Together::Product(_)), body, .. } => each_stmt(body, &mut |stmt| {
                if let StmtKind::Let(id) = stmt.kind {
                    in_products.insert(id);
                }
            }),
            StmtKind::Let(id) if !in_products.contains(id) => {
                if let ExprKind::Load { place, .. } = &f.exprs[*id].kind
                    && is_shared(f, place.memory)
                    && activity.place(f, place)
                {
                    wanted.loads.insert(*id, place);
                }
            }
            StmtKind::Store { place, value, .. }
                if is_shared(f, place.memory) && activity.place(f, place) && activity.expr(*value) =>
            {
                wanted.stores.insert(Site::Stmt(number), (place, stmt.span));
            }
            _ => {}
        }
        number += 1;
    });
    wanted
}

struct Search<'a> {
    module: &'a Module,
    f: &'a Function,
    given: &'a Given,
    /// Questions that may still be asked.
    left: usize,
}

impl Search<'_> {
    fn run(mut self, wanted: &Wanted<'_>, found: &mut Alone) {
        let (module, given) = (self.module, self.given);
        let Some(settled) = settle(module, given, &mut |question| self.never(question).then_some(())) else { return };
        let mut footprint = settled.found;
        if footprint.stopped.is_some() {
            return;
        }
        let accesses = std::mem::take(&mut footprint.accesses);
        let stores: Vec<&Touch> = accesses.iter().filter(|touch| wanted.stores.contains_key(&touch.at)).collect();
        let apart = self.apart(&footprint, &stores);
        let mut by_place: FxHashMap<(MemId, u32, Option<u8>, Span), bool> = FxHashMap::default();
        for (site, (place, span)) in &wanted.stores {
            *by_place.entry(key(place, *span)).or_insert(true) &= apart.contains(site);
        }
        by_place.into_iter().for_each(|(key, apart)| *found.stores.entry(key).or_default() |= apart);
        // A kernel may read an element twice although the index is promised to be another one for each thread, and only
        // checked runs test that: so no addition rests on it.
        for promised in footprint.variables.promised.values_mut() {
            (promised.ascending, promised.distinct) = (false, false);
        }
        let is_wanted = |touch: &&Touch| matches!(touch.at, Site::Load(id) if wanted.loads.contains_key(&id));
        let loads: Vec<&Touch> = accesses.iter().filter(is_wanted).collect();
        let apart = self.apart(&footprint, &loads).into_iter();
        found.loads.extend(apart.filter_map(|site| if let Site::Load(id) = site { Some(id) } else { None }));
        self.all_or_none(wanted, found);
    }

    /// Of the additions to one adjoint in global memory, all are atomic or none: what is also read as it was before has no derivative.
    fn all_or_none(&self, wanted: &Wanted<'_>, found: &mut Alone) {
        let is_global = |memory: MemId| matches!(self.f.memories[memory].space, Space::Global { .. });
        let shared = wanted.loads.iter().filter(|(id, place)| !found.loads.contains(*id) && is_global(place.memory));
        let mixed: FxHashSet<MemId> = shared.map(|(_, place)| place.memory).collect();
        found.loads.retain(|id| wanted.loads.get(id).is_none_or(|place| !mixed.contains(&place.memory)));
    }

    /// Returns the sites whose accesses meet none of another thread.
    fn apart(&mut self, footprint: &Footprint, touches: &[&Touch]) -> FxHashSet<Site> {
        let mut apart: FxHashSet<Site> = touches.iter().map(|touch| touch.at).collect();
        for (i, a) in touches.iter().enumerate() {
            stop::poll();
            for b in &touches[i..] {
                let matters = apart.contains(&a.at) || apart.contains(&b.at);
                if matters && !self.never_meet(footprint, a, b) {
                    apart.remove(&a.at);
                    apart.remove(&b.at);
                }
            }
        }
        apart
    }

    fn never_meet(&mut self, footprint: &Footprint, a: &Touch, b: &Touch) -> bool {
        claim::meetings(self.f, self.given, footprint, a, b).iter().all(|question| self.never(question))
    }

    fn never(&mut self, question: &Question) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        matches!(question.answer(&WORK), Answer::Never(..))
    }
}
