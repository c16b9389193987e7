//! Common subexpression elimination: an expression that an enclosing block has computed already is not computed again.
//!
//! Pure operations have the same value wherever their operands do. A load has the same value as long as the memory cannot have
//! changed: by a store or an atomic to it, or, for memory that other threads write, across a barrier, a fence or a warp
//! operation. Store-to-load forwarding: a load of what the thread itself has just stored is the stored value. Different memories
//! never overlap: the host passes each array once, or a copy. Reads of locals are handled by `forward`.

use rustc_hash::{FxHashMap, FxHashSet};

use super::edit::{Renames, breaks, rename_all};
use crate::base::stop;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;

pub(crate) fn run(module: &mut Module) {
    eliminate(module, true);
}

/// Like [`run`], but a load of what the thread has just stored to shared or global memory stays: where several threads store the same
/// value, this load is what races.
pub(crate) fn run_checked(module: &mut Module) {
    eliminate(module, false);
}

fn eliminate(module: &mut Module, forwards: bool) {
    for (_, function) in module.functions.iter_mut() {
        intern_free(function);
        let body = std::mem::take(&mut function.body);
        let mut cse = Cse { function, forwards, renames: Renames::default(), pure: vec![], loads: vec![] };
        let body = cse.block(body);
        let renames = cse.renames;
        function.body = body;
        rename_all(function, &renames);
    }
}

/// Merges equal free expressions, so that equal operands have equal ids.
fn intern_free(function: &mut Function) {
    let mut seen: FxHashMap<Expr, ExprId> = FxHashMap::default();
    let mut renames = Renames::default();
    for (id, expr) in function.exprs.iter() {
        if expr.kind.is_free() {
            renames.set(id, *seen.entry(expr.clone()).or_insert(id));
        }
    }
    rename_all(function, &renames);
}

/// The effects of a piece of code on memory.
#[derive(Default)]
struct Effects {
    stored: FxHashSet<MemId>,
    /// Other threads' stores may become visible.
    synchronises: bool,
}

impl Effects {
    fn add(&mut self, kind: &StmtKind) {
        match kind {
            StmtKind::Store { place, .. } => {
                self.stored.insert(place.memory);
            }
            StmtKind::Atomic { place, .. } => {
                self.stored.insert(place.memory);
                self.synchronises = true;
            }
            StmtKind::Declare(memory) => {
                self.stored.insert(*memory);
            }
            StmtKind::Call { memories, .. } => {
                self.stored.extend(memories);
                self.synchronises = true;
            }
            StmtKind::Barrier { .. } | StmtKind::Warp { .. } | StmtKind::Fence(_) => self.synchronises = true,
            _ => {}
        }
    }

    fn of(block: &Block) -> Effects {
        let mut effects = Effects::default();
        each_stmt(block, &mut |stmt| effects.add(&stmt.kind));
        effects
    }

    fn touches(&self, function: &Function, memory: MemId) -> bool {
        let private = match function.memories[memory].space {
            Space::Local | Space::Constant | Space::Global { access: Access::In, .. } => true,
            Space::Global { .. } | Space::Shared | Space::Param { .. } => false,
        };
        self.stored.contains(&memory) || (self.synchronises && !private)
    }
}

struct Cse<'a> {
    function: &'a mut Function,
    /// Loads from memory of several threads may become the value that the thread has just stored.
    forwards: bool,
    renames: Renames,
    /// By open block, the pure expressions it computed.
    pure: Vec<FxHashMap<Expr, ExprId>>,
    /// By open block, the loads whose value is still valid.
    loads: Vec<FxHashMap<Expr, ExprId>>,
}

impl Cse<'_> {
    fn block(&mut self, block: Block) -> Block {
        self.pure.push(FxHashMap::default());
        self.loads.push(FxHashMap::default());
        let mut out = Vec::with_capacity(block.len());
        for mut stmt in block {
            stop::poll();
            self.renames.stmt(self.function, &mut stmt.kind);
            if let StmtKind::Let(id) = stmt.kind
                && self.known(id)
            {
                continue;
            }
            self.inner(&mut stmt.kind);
            out.push(stmt);
        }
        self.pure.pop();
        self.loads.pop();
        out
    }

    /// Renames an expression that was computed before; else remembers it.
    fn known(&mut self, id: ExprId) -> bool {
        let expr = &self.function.exprs[id];
        let is_load = matches!(expr.kind, ExprKind::Load { .. });
        if expr.kind.is_free() || !(is_load || expr.kind.is_pure()) {
            return false;
        }
        let tables = if is_load { &mut self.loads } else { &mut self.pure };
        if let Some(&before) = tables.iter().rev().find_map(|table| table.get(expr)) {
            self.renames.set(id, before);
            return true;
        }
        if let Some(table) = tables.last_mut() {
            table.insert(expr.clone(), id);
        }
        false
    }

    fn inner(&mut self, kind: &mut StmtKind) {
        let mut effects = Effects::default();
        effects.add(kind);
        match kind {
            StmtKind::If { then, other, .. } => {
                // Effects of one branch do not invalidate loads in the other, which starts with those valid before.
                let loads = self.loads.clone();
                *then = self.block(std::mem::take(then));
                let after_then = std::mem::replace(&mut self.loads, loads);
                *other = self.block(std::mem::take(other));
                self.loads.iter_mut().zip(after_then).for_each(|(mine, theirs)| {
                    mine.retain(|key, _| theirs.contains_key(key));
                });
            }
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } => {
                self.forget(&Effects::of(body));
                *body = self.block(std::mem::take(body));
                return;
            }
            StmtKind::Block { label, body } => {
                let effects = Effects::of(body);
                *body = self.block(std::mem::take(body));
                if breaks(body, *label) {
                    self.forget(&effects);
                }
                return;
            }
            _ => {}
        }
        self.forget(&effects);
        if let StmtKind::Store { place, value, hint: Hint::None } = kind
            && (self.forwards || self.function.memories[place.memory].space == Space::Local)
            && let Some(table) = self.loads.last_mut()
        {
            // The thread's own load returns the stored value, until another thread may have stored.
            let load = ExprKind::Load { place: place.clone(), hint: Hint::None };
            table.insert(Expr { kind: load, ty: self.function.exprs[*value].ty }, *value);
        }
    }

    fn forget(&mut self, effects: &Effects) {
        if effects.stored.is_empty() && !effects.synchronises {
            return;
        }
        let function = &self.function;
        for table in &mut self.loads {
            table.retain(|key, _| match &key.kind {
                ExprKind::Load { place, .. } => !effects.touches(function, place.memory),
                _ => false,
            });
        }
    }
}
