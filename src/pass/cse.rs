//! Common subexpression elimination: reuses expressions that an enclosing block has already computed.
//!
//! Pure operations on equal operands have equal values. A load can be reused until a store or an atomic to the same
//! memory. If other threads may write the memory, a barrier, a fence or a warp operation also ends the reuse.
//! Store-to-load forwarding: a load from an element to which the thread has just stored is replaced by the stored
//! value. Different memories never alias, because the host does not pass the same array twice: it passes a copy
//! instead. `forward_locals` handles reads of locals.

use rustc_hash::{FxHashMap, FxHashSet};

use super::edit::{Renames, has_break, rename_all};
use clk_base::stop;
use clk_ir::def::*;
use clk_ir::visit::each_stmt;

pub(crate) fn run(module: &mut Module) {
    eliminate(module, true);
}

/// Like [`run`], but does not forward stores to shared or global memory. If several threads store the same value, the
/// load after the store may be a race that the checks must report.
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
    let mut first_ids: FxHashMap<Expr, ExprId> = FxHashMap::default();
    let mut renames = Renames::default();
    for (id, expr) in function.exprs.iter() {
        if expr.kind.is_free() {
            renames.set(id, *first_ids.entry(expr.clone()).or_insert(id));
        }
    }
    rename_all(function, &renames);
}

/// The effects of a statement or block on memory.
#[derive(Default)]
struct MemoryEffects {
    stored: FxHashSet<MemId>,
    /// Whether stores of other threads may become visible.
    synchronizes: bool,
}

impl MemoryEffects {
    fn add(&mut self, kind: &StmtKind) {
        match kind {
            StmtKind::Store { place, .. } => {
                self.stored.insert(place.memory);
            }
            StmtKind::Atomic { place, .. } => {
                self.stored.insert(place.memory);
                self.synchronizes = true;
            }
            StmtKind::Declare(memory) => {
                self.stored.insert(*memory);
            }
            StmtKind::Call { memories, .. } => {
                self.stored.extend(memories);
                self.synchronizes = true;
            }
            StmtKind::Barrier { .. } | StmtKind::Warp { .. } | StmtKind::Fence(_) => self.synchronizes = true,
            _ => {}
        }
    }

    fn of_block(block: &Block) -> MemoryEffects {
        let mut effects = MemoryEffects::default();
        each_stmt(block, &mut |stmt| effects.add(&stmt.kind));
        effects
    }

    fn may_change(&self, function: &Function, memory: MemId) -> bool {
        let private = match function.memories[memory].space {
            MemorySpace::Local | MemorySpace::Constant | MemorySpace::Global { access: Access::In, .. } => true,
            MemorySpace::Global { .. } | MemorySpace::Shared | MemorySpace::Param { .. } => false,
        };
        self.stored.contains(&memory) || (self.synchronizes && !private)
    }
}

struct Cse<'a> {
    function: &'a mut Function,
    /// Whether a load of shared or global memory may be replaced by the value that the thread has just stored.
    forwards: bool,
    renames: Renames,
    /// The pure expressions computed so far, one map per open block.
    pure: Vec<FxHashMap<Expr, ExprId>>,
    /// The loads that can still be reused, one map per open block.
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
                && self.replace_known(id)
            {
                continue;
            }
            self.visit_blocks(&mut stmt.kind);
            out.push(stmt);
        }
        self.pure.pop();
        self.loads.pop();
        out
    }

    /// If an equal expression was computed before, replaces the uses of this one and returns `true`. Otherwise records
    /// this one for reuse.
    fn replace_known(&mut self, id: ExprId) -> bool {
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

    fn visit_blocks(&mut self, kind: &mut StmtKind) {
        let mut effects = MemoryEffects::default();
        effects.add(kind);
        match kind {
            StmtKind::If { then, other, .. } => {
                // Both branches start with the loads that are valid before the `if`: stores in one branch do not affect
                // the other branch.
                let loads = self.loads.clone();
                *then = self.block(std::mem::take(then));
                let after_then = std::mem::replace(&mut self.loads, loads);
                *other = self.block(std::mem::take(other));
                self.loads.iter_mut().zip(after_then).for_each(|(mine, theirs)| {
                    mine.retain(|key, _| theirs.contains_key(key));
                });
            }
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } => {
                self.invalidate(&MemoryEffects::of_block(body));
                *body = self.block(std::mem::take(body));
                return;
            }
            StmtKind::Block { label, body } => {
                let effects = MemoryEffects::of_block(body);
                *body = self.block(std::mem::take(body));
                if has_break(body, *label) {
                    self.invalidate(&effects);
                }
                return;
            }
            _ => {}
        }
        self.invalidate(&effects);
        if let StmtKind::Store { place, value, hint: CacheHint::None } = kind
            && (self.forwards || self.function.memories[place.memory].space == MemorySpace::Local)
            && let Some(table) = self.loads.last_mut()
        {
            // A load from this location returns the stored value, until another thread may have stored to it.
            let load = ExprKind::Load { place: place.clone(), hint: CacheHint::None };
            table.insert(Expr { kind: load, ty: self.function.exprs[*value].ty }, *value);
        }
    }

    fn invalidate(&mut self, effects: &MemoryEffects) {
        if effects.stored.is_empty() && !effects.synchronizes {
            return;
        }
        let function = &self.function;
        for table in &mut self.loads {
            table.retain(|key, _| match &key.kind {
                ExprKind::Load { place, .. } => !effects.may_change(function, place.memory),
                _ => false,
            });
        }
    }
}
