//! The plan of the reverse mode: facts about a kernel's blocks and expressions that code generation needs, such as the
//! block that evaluates each expression.

use rustc_hash::{FxHashMap, FxHashSet};

use super::activity::Activity;
use super::gemm_operands::{FactorSources, find_sources};
use super::reloadable::find_reloadable;
use clk_ir::def::*;
use clk_pass::edit;

/// How a block relates to its reverse, which determines how the reverse obtains the block's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AdjointBlockKind {
    /// The reverse follows in the same scope, so the block's expressions are still visible.
    Joined,
    /// The block executes at most once per thread, so a local can hold each value.
    Branch,
    /// The block is in a loop, so its values must be recorded on the tape.
    Looped,
}

/// The address of a block, which identifies the block while the body is borrowed.
pub(super) type BlockKey = usize;

pub(super) fn block_key(block: &Block) -> BlockKey {
    std::ptr::from_ref(block).addr()
}

pub(super) struct AdjointScope {
    pub kind: AdjointBlockKind,
    /// The expressions that the block's own statements evaluate, in order.
    pub evaluated: Vec<ExprId>,
    /// Whether the block, or a nested one, changes a derivative or synchronizes threads, so that it needs a reverse.
    pub has_effect: bool,
}

pub(super) struct AdjointPlan {
    pub scopes: FxHashMap<BlockKey, AdjointScope>,
    /// For each expression, the block that evaluates it.
    pub home_block: FxHashMap<ExprId, BlockKey>,
    /// Expressions that are also used in blocks nested in the one that evaluates them.
    pub nested: FxHashSet<ExprId>,
    /// Expressions that read the counter of an enclosing loop.
    pub counters: FxHashSet<ExprId>,
    /// Memories that the kernel never writes.
    pub constant: Vec<bool>,
    /// Loads whose values are still in memory during the reverse sweep.
    pub reloadable: FxHashSet<ExprId>,
    /// Memories that the kernel reads.
    pub read: Vec<bool>,
    /// For each loop that accumulates a matrix product, how the reverse sweep gets the operands.
    pub factors: FxHashMap<Label, FactorSources>,
}

pub(super) fn make_plan(f: &Function, activity: &Activity) -> AdjointPlan {
    let constant: Vec<bool> = f.memories.iter().map(|(_, m)| is_constant(m)).collect();
    let plan = AdjointPlan {
        factors: find_sources(f, activity, &constant),
        scopes: FxHashMap::default(),
        home_block: FxHashMap::default(),
        nested: FxHashSet::default(),
        counters: FxHashSet::default(),
        constant,
        reloadable: find_reloadable(f),
        read: vec![false; f.memories.len()],
    };
    let mut planner = AdjointPlanner { f, activity, plan, counters: vec![] };
    planner.visit_block(&f.body, AdjointBlockKind::Joined);
    planner.plan
}

fn is_constant(memory: &Memory) -> bool {
    matches!(memory.space, MemorySpace::Constant | MemorySpace::Global { access: Access::In, .. })
}

struct AdjointPlanner<'a> {
    f: &'a Function,
    activity: &'a Activity,
    plan: AdjointPlan,
    /// The counters of the enclosing loops.
    counters: Vec<LocalId>,
}

impl AdjointPlanner<'_> {
    /// Analyzes a block. Returns whether it needs a reverse.
    fn visit_block(&mut self, block: &Block, kind: AdjointBlockKind) -> bool {
        let own = block_key(block);
        let (mut evaluated, mut has_effect) = (vec![], false);
        for (position, stmt) in block.iter().enumerate() {
            if let StmtKind::Let(id) = stmt.kind {
                self.f.exprs[id].kind.operands(|operand| self.record_use(operand, own));
                self.record_expr(id);
                self.plan.home_block.insert(id, own);
                evaluated.push(id);
            }
            stmt.kind.operands(|operand| self.record_use(operand, own));
            stmt.kind.results(|result| {
                self.plan.home_block.insert(result, own);
                evaluated.push(result);
            });
            has_effect |= self.has_effect(stmt);
            let inner = match (&stmt.kind, kind) {
                (StmtKind::For { .. } | StmtKind::Loop { .. }, _) | (_, AdjointBlockKind::Looped) => {
                    AdjointBlockKind::Looped
                }
                (_, AdjointBlockKind::Joined) if position + 1 == block.len() => AdjointBlockKind::Joined,
                _ => AdjointBlockKind::Branch,
            };
            let counter = match stmt.kind {
                StmtKind::For { local, .. } => Some(local),
                _ => None,
            };
            self.counters.extend(counter);
            for block in stmt.kind.blocks() {
                has_effect |= self.visit_block(block, inner);
            }
            if counter.is_some() {
                self.counters.pop();
            }
        }
        self.plan.scopes.insert(own, AdjointScope { kind, evaluated, has_effect });
        has_effect
    }

    fn record_use(&mut self, id: ExprId, own: BlockKey) {
        if self.plan.home_block.get(&id).is_some_and(|home| *home != own) {
            self.plan.nested.insert(id);
        }
    }

    fn record_expr(&mut self, id: ExprId) {
        match &self.f.exprs[id].kind {
            ExprKind::Read(local) if self.counters.contains(local) => drop(self.plan.counters.insert(id)),
            ExprKind::Load { place, .. } => self.plan.read[place.memory.index()] = true,
            _ => {}
        }
    }

    fn has_effect(&mut self, stmt: &Stmt) -> bool {
        match &stmt.kind {
            StmtKind::Let(id) => self.activity.expr(*id),
            StmtKind::Write { local, .. } => self.activity.local(*local),
            StmtKind::Store { place, .. } => self.activity.place(self.f, place),
            StmtKind::Atomic { place, result, .. } => {
                self.plan.read[place.memory.index()] |= result.is_some();
                self.activity.place(self.f, place)
            }
            StmtKind::Barrier { .. } | StmtKind::Fence(_) => true,
            StmtKind::Warp { result, among, .. } => among.is_none() || self.activity.expr(*result),
            StmtKind::Declare(memory) => self.activity.memories[memory.index()],
            _ => false,
        }
    }
}

/// Hoists reads of locals out of loops that do not write them, so their values need not be recorded in each iteration.
pub(super) fn hoist_reads(f: &mut Function) {
    let body = std::mem::take(&mut f.body);
    let mut renames = edit::Renames::default();
    f.body = hoist_in_block(f, body, &mut renames);
    edit::rename_all(f, &renames);
}

fn hoist_in_block(f: &mut Function, block: Block, renames: &mut edit::Renames) -> Block {
    let mut out = Vec::with_capacity(block.len());
    for mut stmt in block {
        if let StmtKind::For { body, .. } | StmtKind::Loop { body, .. } = &mut stmt.kind {
            let mut written = edit::written_locals(body);
            if let Some(&mut local) = StmtKind::local_mut(&mut stmt.kind) {
                written.insert(local);
            }
            let mut hoisted: FxHashMap<LocalId, ExprId> = FxHashMap::default();
            for body in stmt.kind.blocks_mut() {
                hoist_from_loop(f, body, &written, &mut hoisted, renames, &mut out);
            }
        }
        for inner in stmt.kind.blocks_mut() {
            *inner = hoist_in_block(f, std::mem::take(inner), renames);
        }
        out.push(stmt);
    }
    out
}

fn hoist_from_loop(
    f: &mut Function,
    block: &mut Block,
    written: &FxHashSet<LocalId>,
    hoisted: &mut FxHashMap<LocalId, ExprId>,
    renames: &mut edit::Renames,
    out: &mut Block,
) {
    block.retain(|stmt| {
        let StmtKind::Let(id) = stmt.kind else { return true };
        let ExprKind::Read(local) = f.exprs[id].kind else { return true };
        if written.contains(&local) {
            return true;
        }
        let new = *hoisted.entry(local).or_insert_with(|| {
            let (ty, span) = (f.exprs[id].ty, f.spans[id]);
            let new = edit::push(f, ExprKind::Read(local), ty, span);
            out.push(edit::let_stmt(f, new));
            new
        });
        renames.set(id, new);
        false
    });
    for stmt in block {
        for inner in stmt.kind.blocks_mut() {
            hoist_from_loop(f, inner, written, hoisted, renames, out);
        }
    }
}
