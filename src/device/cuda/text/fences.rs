//! Inserts the fences that Clk's memory model requires and the source does not contain, since it guarantees more than CUDA's
//! instructions do.
//!
//! Input: a kernel's body. Output: the statements that need a `__threadfence()` in front, and the warp operations that need a
//! `__syncwarp()` behind.
//!
//! - **Acquire.** Accesses of a thread behind an atomic operation whose result it uses are ordered after the operation that wrote
//!   that value. CUDA's atomic operations are relaxed. So a fence follows each whose result is used: as late as possible, before
//!   the next access that is visible to other threads, so that a loop that polls one location has its fence behind it, and an
//!   explicit fence of the program serves as well. In kernels without fences atomic operations order nothing, nor do sums whose
//!   result is unused: neither costs anything.
//! - **Warp operations** order the memory accesses of their threads. CUDA's exchange registers only. So a `__syncwarp()` is
//!   inserted where, for one array, an access before the last warp operation and one behind it are not both reads (nor both
//!   sums).

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::plan::Plan;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;

#[derive(Default)]
pub(crate) struct Fences {
    /// By number of the statement.
    before: FxHashMap<u32, Scope>,
    /// Warp operations.
    synced: FxHashSet<u32>,
}

impl Fences {
    pub fn before(&self, stmt: u32) -> Option<Scope> {
        self.before.get(&stmt).copied()
    }

    pub fn syncs(&self, warp: u32) -> bool {
        self.synced.contains(&warp)
    }
}

/// The kind of an access with regard to ordering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Reads,
    Writes,
    /// An atomic update whose result is unused: commutes with others.
    Adds,
}

/// A pending acquire: an atomic operation whose result is used, without a fence since.
#[derive(Clone, PartialEq)]
struct Told {
    scope: Scope,
    /// Its location, if there is only one: accesses to that are ordered anyway.
    place: Option<Place>,
}

/// Accesses with no barrier since.
#[derive(Clone, Default, PartialEq)]
struct Since {
    /// Some path from such an access to here has no warp operation.
    open: bool,
    /// The last warp operations on the other paths.
    behind: BTreeSet<u32>,
}

/// The data flow state at a point of the program, joined over all paths.
#[derive(Clone, Default, PartialEq)]
struct State {
    told: Option<Told>,
    since: BTreeMap<(MemId, Deed), Since>,
}

impl State {
    fn join(&mut self, other: &State) {
        self.told = match (self.told.take(), &other.told) {
            (Some(a), Some(b)) => {
                let scope = if b.scope == Scope::Device { b.scope } else { a.scope };
                Some(Told { scope, place: a.place.filter(|p| b.place.as_ref() == Some(p)) })
            }
            (a, b) => a.or_else(|| b.clone()),
        };
        for (key, since) in &other.since {
            let own = self.since.entry(*key).or_default();
            own.open |= since.open;
            own.behind.extend(&since.behind);
        }
    }
}

fn join(to: &mut Option<State>, from: Option<State>) {
    match (to, from) {
        (Some(to), Some(from)) => to.join(&from),
        (to @ None, from) => *to = from,
        (_, None) => {}
    }
}

struct Search<'a> {
    f: &'a Function,
    plan: &'a Plan,
    /// The scope at which atomic operations on global memory acquire; `None` if they do not.
    scope: Option<Scope>,
    warps: bool,
    stmt: u32,
    /// States at jumps out of, and to the next iteration of, enclosing statements.
    breaks: FxHashMap<Label, Option<State>>,
    continues: FxHashMap<Label, Option<State>>,
    fences: Fences,
}

pub(crate) fn fences(f: &Function, plan: &Plan) -> Fences {
    let (mut scope, mut warps) = (None, false);
    each_stmt(&f.body, &mut |stmt| match stmt.kind {
        StmtKind::Fence(Scope::Device) => scope = Some(Scope::Device),
        StmtKind::Fence(Scope::Block) => {
            scope.get_or_insert(Scope::Block);
        }
        StmtKind::Warp { among: None, .. } => warps = true,
        _ => {}
    });
    if scope.is_none() && !warps {
        return Fences::default();
    }
    let (breaks, continues) = (FxHashMap::default(), FxHashMap::default());
    let mut search = Search { f, plan, scope, warps, stmt: 0, breaks, continues, fences: Fences::default() };
    search.block(&f.body, Some(State::default()));
    search.fences
}

impl Search<'_> {
    /// Returns the state behind a block; `None` if it is unreachable.
    fn block(&mut self, block: &Block, mut state: Option<State>) -> Option<State> {
        for stmt in block {
            state = self.stmt(stmt, state);
        }
        state
    }

    fn stmt(&mut self, stmt: &Stmt, state: Option<State>) -> Option<State> {
        let number = self.stmt;
        self.stmt += 1;
        let Some(mut state) = state else {
            // Unreachable statements still count in the numbering.
            stmt.kind.blocks().for_each(|inner| each_stmt(inner, &mut |_| self.stmt += 1));
            return None;
        };
        match &stmt.kind {
            StmtKind::Let(id) => self.value(*id, number, &mut state),
            StmtKind::Store { place, .. } => {
                self.settle(number, &mut state);
                self.access(place.memory, Deed::Writes, &mut state);
            }
            StmtKind::Atomic { place, result, .. } => self.atomic(place, *result, number, &mut state),
            // Barriers release too: other threads continue behind them, also after what this thread acquired. All kinds of
            // barriers order the memory accesses of a warp.
            StmtKind::Barrier { .. } => {
                self.settle(number, &mut state);
                state.since.clear();
            }
            // Lanes outside of the mask do not wait.
            StmtKind::Warp { among: Some(_), .. } => self.settle(number, &mut state),
            StmtKind::Warp { .. } => {
                self.settle(number, &mut state);
                if self.fences.syncs(number) {
                    state.since.clear();
                }
                for since in state.since.values_mut() {
                    *since = Since { open: false, behind: BTreeSet::from([number]) };
                }
            }
            StmtKind::Fence(scope) => {
                state.told = state.told.take().filter(|told| *scope == Scope::Block && told.scope == Scope::Device);
            }
            StmtKind::If { then, other, .. } => {
                let mut behind = self.block(then, Some(state.clone()));
                let other = self.block(other, Some(state));
                join(&mut behind, other);
                return behind;
            }
            StmtKind::For { label, body, .. } => return self.iterations(*label, body, state, true),
            StmtKind::Loop { label, body, .. } => return self.iterations(*label, body, state, false),
            StmtKind::Block { label, body } => {
                self.breaks.insert(*label, None);
                let mut behind = self.block(body, Some(state));
                join(&mut behind, self.breaks.remove(label).flatten());
                return behind;
            }
            StmtKind::Break(label) => {
                join(self.breaks.entry(*label).or_default(), Some(state));
                return None;
            }
            StmtKind::Continue(label) => {
                join(self.continues.entry(*label).or_default(), Some(state));
                return None;
            }
            StmtKind::Return(_) => return None,
            StmtKind::Write { .. }
            | StmtKind::Call { .. }
            | StmtKind::Assert { .. }
            | StmtKind::Print { .. }
            | StmtKind::Declare(_) => {}
        }
        Some(state)
    }

    /// Analyzes a loop, repeated until the state at its head is stable. `counts`: the trip count may be zero.
    fn iterations(&mut self, label: Label, body: &Block, state: State, counts: bool) -> Option<State> {
        let first = self.stmt;
        let mut head = Some(state);
        loop {
            self.stmt = first;
            self.breaks.insert(label, None);
            self.continues.insert(label, None);
            let marks = (self.fences.before.len(), self.fences.synced.len());
            let mut next = self.block(body, head.clone());
            join(&mut next, self.continues.remove(&label).flatten());
            let mut behind = self.breaks.remove(&label).flatten();
            let mut again = head.clone();
            join(&mut again, next);
            let stable = again == head && marks == (self.fences.before.len(), self.fences.synced.len());
            head = again;
            if stable {
                if counts {
                    join(&mut behind, head);
                }
                return behind;
            }
        }
    }

    /// Returns whether other threads access a memory, at least one of them writing.
    fn is_exchanged(&self, memory: MemId) -> bool {
        match self.f.memories[memory].space {
            Space::Global { access, .. } | Space::Param { access, .. } => access != Access::In,
            Space::Shared => true,
            Space::Local | Space::Constant => false,
        }
    }

    fn value(&mut self, id: ExprId, number: u32, state: &mut State) {
        // If an index is computed anew, the location may be a different one.
        if let Some(told) = &mut state.told {
            told.place = told.place.take().filter(|place| !place.indices.contains(&id));
        }
        if let ExprKind::Load { place, .. } = &self.f.exprs[id].kind
            && self.is_exchanged(place.memory)
        {
            self.settle(number, state);
            self.access(place.memory, Deed::Reads, state);
        }
    }

    fn atomic(&mut self, place: &Place, result: Option<ExprId>, number: u32, state: &mut State) {
        let memory = place.memory;
        if !self.is_exchanged(memory) {
            return;
        }
        if state.told.as_ref().is_some_and(|told| told.place.as_ref() != Some(place)) {
            self.settle(number, state);
        }
        let used = result.is_some_and(|id| self.plan.is_used(id));
        self.access(memory, if used { Deed::Writes } else { Deed::Adds }, state);
        if let (true, Some(scope)) = (used, self.scope) {
            let shared = self.f.memories[memory].space == Space::Shared;
            let scope = if shared { Scope::Block } else { scope };
            state.told = Some(Told { scope, place: Some(place.clone()) });
        }
    }

    /// Inserts the pending acquire fence, if any, before this statement.
    fn settle(&mut self, number: u32, state: &mut State) {
        if let Some(told) = state.told.take() {
            let scope = self.fences.before.entry(number).or_insert(told.scope);
            if told.scope == Scope::Device {
                *scope = Scope::Device;
            }
        }
    }

    fn access(&mut self, memory: MemId, deed: Deed, state: &mut State) {
        if !self.warps || !self.is_exchanged(memory) {
            return;
        }
        let meets = |other: Deed| other == Deed::Writes || deed == Deed::Writes || other != deed;
        for (_, since) in state.since.iter().filter(|((m, other), _)| *m == memory && meets(*other)) {
            self.fences.synced.extend(&since.behind);
        }
        // A warp operation with a `__syncwarp()` orders everything before it.
        state.since.retain(|_, since| {
            since.behind.retain(|warp| !self.fences.synced.contains(warp));
            since.open || !since.behind.is_empty()
        });
        state.since.entry((memory, deed)).or_default().open = true;
    }
}
