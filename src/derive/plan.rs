//! What the reverse mode has to know of a kernel's blocks: where each expression is evaluated, which of them are used in inner
//! blocks.

use rustc_hash::{FxHashMap, FxHashSet};

use super::active::Activity;
use super::factors::{Sources, sources};
use super::settled::settled;
use crate::ir::def::*;
use crate::pass::edit;

/// How a block relates to its mirror image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The mirror image follows in the same scope.
    Joined,
    /// The block runs once at most.
    Branch,
    /// The block is in a loop.
    Looped,
}

/// Identifies a block of the body while that is borrowed.
pub(super) type Key = usize;

pub(super) fn key(block: &Block) -> Key {
    std::ptr::from_ref(block).addr()
}

pub(super) struct Scope {
    pub kind: Kind,
    /// What its statements evaluate, in order.
    pub evaluated: Vec<ExprId>,
    /// It changes a derivative, or waits for other threads.
    pub matters: bool,
}

pub(super) struct Plan {
    pub scopes: FxHashMap<Key, Scope>,
    pub home: FxHashMap<ExprId, Key>,
    /// Expressions that are used in blocks inside of their own.
    pub nested: FxHashSet<ExprId>,
    /// Reads of the counter of an enclosing loop.
    pub counters: FxHashSet<ExprId>,
    /// Memories that the kernel never writes.
    pub constant: Vec<bool>,
    /// Loads whose values are still in memory when the mirror image runs.
    pub settled: FxHashSet<ExprId>,
    /// Memories that the kernel reads.
    pub read: Vec<bool>,
    /// Where loops that add products get their factors from in the mirror image.
    pub factors: FxHashMap<Label, Sources>,
}

pub(super) fn plan(f: &Function, activity: &Activity) -> Plan {
    let constant: Vec<bool> = f.memories.iter().map(|(_, m)| is_constant(m)).collect();
    let plan = Plan {
        factors: sources(f, activity, &constant),
        scopes: FxHashMap::default(),
        home: FxHashMap::default(),
        nested: FxHashSet::default(),
        counters: FxHashSet::default(),
        constant,
        settled: settled(f),
        read: vec![false; f.memories.len()],
    };
    let mut planner = Planner { f, activity, plan, counters: vec![] };
    planner.block(&f.body, Kind::Joined);
    planner.plan
}

fn is_constant(memory: &Memory) -> bool {
    matches!(memory.space, Space::Constant | Space::Global { access: Access::In, .. })
}

struct Planner<'a> {
    f: &'a Function,
    activity: &'a Activity,
    plan: Plan,
    /// Of the enclosing loops.
    counters: Vec<LocalId>,
}

impl Planner<'_> {
    /// Returns whether the block matters.
    fn block(&mut self, block: &Block, kind: Kind) -> bool {
        let own = key(block);
        let (mut evaluated, mut matters) = (vec![], false);
        for (position, stmt) in block.iter().enumerate() {
            if let StmtKind::Let(id) = stmt.kind {
                self.f.exprs[id].kind.operands(|operand| self.used(operand, own));
                self.expr(id);
                self.plan.home.insert(id, own);
                evaluated.push(id);
            }
            stmt.kind.operands(|operand| self.used(operand, own));
            stmt.kind.results(|result| {
                self.plan.home.insert(result, own);
                evaluated.push(result);
            });
            matters |= self.matters(stmt);
            let inner = match (&stmt.kind, kind) {
                (StmtKind::For { .. } | StmtKind::Loop { .. }, _) | (_, Kind::Looped) => Kind::Looped,
                (_, Kind::Joined) if position + 1 == block.len() => Kind::Joined,
                _ => Kind::Branch,
            };
            let counter = match stmt.kind {
                StmtKind::For { local, .. } => Some(local),
                _ => None,
            };
            self.counters.extend(counter);
            for block in stmt.kind.blocks() {
                matters |= self.block(block, inner);
            }
            if counter.is_some() {
                self.counters.pop();
            }
        }
        self.plan.scopes.insert(own, Scope { kind, evaluated, matters });
        matters
    }

    fn used(&mut self, id: ExprId, own: Key) {
        if self.plan.home.get(&id).is_some_and(|home| *home != own) {
            self.plan.nested.insert(id);
        }
    }

    fn expr(&mut self, id: ExprId) {
        match &self.f.exprs[id].kind {
            ExprKind::Read(local) if self.counters.contains(local) => drop(self.plan.counters.insert(id)),
            ExprKind::Load { place, .. } => self.plan.read[place.memory.index()] = true,
            _ => {}
        }
    }

    fn matters(&mut self, stmt: &Stmt) -> bool {
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

/// Moves reads of locals that a loop does not write in front of it, so that their values need not be recorded in each turn.
pub(super) fn hoist_reads(f: &mut Function) {
    let body = std::mem::take(&mut f.body);
    let mut renames = edit::Renames::default();
    f.body = hoisted(f, body, &mut renames);
    edit::rename_all(f, &renames);
}

fn hoisted(f: &mut Function, block: Block, renames: &mut edit::Renames) -> Block {
    let mut out = Vec::with_capacity(block.len());
    for mut stmt in block {
        if let StmtKind::For { body, .. } | StmtKind::Loop { body, .. } = &mut stmt.kind {
            let mut written = edit::written(body);
            if let Some(&mut local) = StmtKind::local_mut(&mut stmt.kind) {
                written.insert(local);
            }
            let mut found: FxHashMap<LocalId, ExprId> = FxHashMap::default();
            for body in stmt.kind.blocks_mut() {
                take_reads(f, body, &written, &mut found, renames, &mut out);
            }
        }
        for inner in stmt.kind.blocks_mut() {
            *inner = hoisted(f, std::mem::take(inner), renames);
        }
        out.push(stmt);
    }
    out
}

fn take_reads(
    f: &mut Function,
    block: &mut Block,
    written: &FxHashSet<LocalId>,
    found: &mut FxHashMap<LocalId, ExprId>,
    renames: &mut edit::Renames,
    out: &mut Block,
) {
    block.retain(|stmt| {
        let StmtKind::Let(id) = stmt.kind else { return true };
        let ExprKind::Read(local) = f.exprs[id].kind else { return true };
        if written.contains(&local) {
            return true;
        }
        let new = *found.entry(local).or_insert_with(|| {
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
            take_reads(f, inner, written, found, renames, out);
        }
    }
}
