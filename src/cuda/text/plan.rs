//! Decides which values are declared as constants with a name, and which are inlined at their use.
//!
//! DeviceIR has a name for every value, but readable code is like `y[i] = a * x[i] + y[i]`. A value is inlined if this
//! preserves semantics: the value has one use, no loop repeats this use, and its operands are not written in between. A
//! read of a local becomes the local's name if the local is not written before the last use of the read.

use rustc_hash::{FxHashMap, FxHashSet};

use clk_ir::def::*;
use clk_ir::ranges::BodySite;

/// Maximum nesting depth of expressions. Deeper subexpressions get names.
const MAX_DEPTH: u8 = 5;

/// A statement. Statements are numbered in pre-order.
struct StmtNode<'a> {
    stmt: &'a Stmt,
    /// The number of the enclosing statement, or `None` for statements directly in the body.
    parent: Option<usize>,
    /// The index of the parent's block that contains the statement.
    branch: u8,
    /// The number that follows the number of the last nested statement.
    end: usize,
}

/// A use of a value in a statement.
#[derive(Clone, Copy)]
struct ExprUse {
    stmt: usize,
    /// The number of expressions that enclose the use in the statement.
    depth: u8,
    /// Whether the statement is a loop that evaluates the use in each iteration.
    repeated: bool,
    /// Whether the use is evaluated only under a condition.
    is_conditional: bool,
}

pub(crate) struct InliningPlan {
    inline: FxHashSet<ExprId>,
    /// Values with at least one use.
    used: FxHashSet<ExprId>,
}

impl InliningPlan {
    pub fn is_inline(&self, id: ExprId) -> bool {
        self.inline.contains(&id)
    }

    pub fn is_used(&self, id: ExprId) -> bool {
        self.used.contains(&id)
    }
}

struct InliningPlanner<'a> {
    function: &'a Function,
    nodes: Vec<StmtNode<'a>>,
    uses: FxHashMap<ExprId, Vec<ExprUse>>,
    /// The writes of each local.
    writes: FxHashMap<LocalId, Vec<usize>>,
    /// Values and statements whose operands are emitted twice: in the guard, and in the value or statement itself.
    guarded_sites: &'a FxHashSet<BodySite>,
    plan: InliningPlan,
}

/// Decides for each value of a body whether it is inlined. Operands of the values and statements in `guarded_sites` get
/// names.
pub(crate) fn plan(function: &Function, guarded_sites: &FxHashSet<BodySite>) -> InliningPlan {
    let mut planner = InliningPlanner {
        function,
        nodes: vec![],
        uses: FxHashMap::default(),
        writes: FxHashMap::default(),
        guarded_sites,
        plan: InliningPlan { inline: FxHashSet::default(), used: FxHashSet::default() },
    };
    planner.number(&function.body, None, 0);
    planner.statements();
    for at in (0..planner.nodes.len()).rev() {
        if let StmtKind::Let(id) = planner.nodes[at].stmt.kind {
            planner.decide_inlining(id, at);
        }
    }
    planner.plan
}

impl<'a> InliningPlanner<'a> {
    fn number(&mut self, block: &'a Block, parent: Option<usize>, branch: u8) {
        for stmt in block {
            let at = self.nodes.len();
            self.nodes.push(StmtNode { stmt, parent, branch, end: 0 });
            if let StmtKind::Write { local, .. } | StmtKind::For { local, .. } = stmt.kind {
                self.writes.entry(local).or_default().push(at);
            }
            for (branch, inner) in stmt.kind.blocks().enumerate() {
                self.number(inner, Some(at), branch as u8);
            }
            self.nodes[at].end = self.nodes.len();
        }
    }

    fn use_of(&mut self, id: ExprId, usage: ExprUse) {
        self.plan.used.insert(id);
        if !self.function.exprs[id].kind.is_free() {
            self.uses.entry(id).or_default().push(usage);
        }
    }

    /// Records the uses of values by statements other than `Let`.
    fn statements(&mut self) {
        for at in 0..self.nodes.len() {
            let stmt = self.nodes[at].stmt;
            let usage = ExprUse { stmt: at, depth: 0, repeated: false, is_conditional: false };
            match &stmt.kind {
                StmtKind::Let(_) => {}
                StmtKind::For { start, end, step, .. } => {
                    self.use_of(*start, usage);
                    self.use_of(*end, ExprUse { repeated: true, ..usage });
                    self.use_of(*step, ExprUse { repeated: true, ..usage });
                }
                StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => {
                    let guarded = self.guarded_sites.contains(&BodySite::Stmt(at as u32));
                    let index = ExprUse { depth: 1, ..usage };
                    for &id in &place.indices {
                        (0..1 + u32::from(guarded)).for_each(|_| self.use_of(id, index));
                    }
                    match &stmt.kind {
                        StmtKind::Store { value, .. } => self.use_of(*value, usage),
                        // An atomic operation may become a loop, which must not evaluate its operands repeatedly.
                        StmtKind::Atomic { value, compare, .. } => {
                            let usage = ExprUse { is_conditional: true, ..usage };
                            std::iter::once(value).chain(compare).for_each(|&id| self.use_of(id, usage));
                        }
                        _ => {}
                    }
                }
                kind => kind.operands(|id| self.use_of(id, usage)),
            }
        }
    }

    /// Returns whether a loop encloses statement `to` but not statement `from`.
    fn repeats(&self, from: usize, to: usize) -> bool {
        let home = self.nodes[from].parent;
        let mut at = self.nodes[to].parent;
        while at != home {
            let Some(outer) = at else { return true };
            if matches!(self.nodes[outer].stmt.kind, StmtKind::For { .. } | StmtKind::Loop { .. }) {
                return true;
            }
            at = self.nodes[outer].parent;
        }
        false
    }

    /// Returns the statement in the block of `from` that contains `to`.
    fn holder(&self, from: usize, to: usize) -> usize {
        let home = self.nodes[from].parent;
        let mut at = to;
        while self.nodes[at].parent != home {
            match self.nodes[at].parent {
                Some(outer) => at = outer,
                None => return at,
            }
        }
        at
    }

    fn decide_inlining(&mut self, id: ExprId, at: usize) {
        let uses = self.uses.get(&id).cloned().unwrap_or_default();
        let expr = &self.function.exprs[id];
        let inline = !uses.is_empty()
            && match &expr.kind {
                ExprKind::Read(local) => self.can_use_local_name(*local, at, &uses),
                ExprKind::Load { .. } => self.can_inline_load(at, &uses),
                ExprKind::Extract { .. } => uses.iter().all(|u| u.depth <= MAX_DEPTH),
                ExprKind::Result => false,
                _ => self.can_inline(at, &uses),
            };
        if inline {
            self.plan.inline.insert(id);
        }
        if self.guarded_sites.contains(&BodySite::Load(id)) {
            let usage = ExprUse { stmt: at, depth: 0, repeated: false, is_conditional: false };
            expr.kind.operands(|operand| self.use_of(operand, usage));
        }
        let is_conditional = matches!(expr.kind, ExprKind::Select { .. });
        let own = [ExprUse { stmt: at, depth: 0, repeated: false, is_conditional: false }];
        let uses = if inline { uses.as_slice() } else { &own };
        for usage in uses {
            let inner =
                ExprUse { depth: usage.depth + 1, is_conditional: usage.is_conditional || is_conditional, ..*usage };
            expr.kind.operands(|operand| self.use_of(operand, inner));
        }
    }

    /// Returns whether a read can be replaced by the local's name, because nothing writes the local before the last use
    /// of the read.
    fn can_use_local_name(&self, local: LocalId, at: usize, uses: &[ExprUse]) -> bool {
        let Some(writes) = self.writes.get(&local) else { return true };
        uses.iter().all(|usage| {
            let holder = self.holder(at, usage.stmt);
            let loops = usage.repeated || self.repeats(at, usage.stmt);
            let last_use = if loops { self.nodes[holder].end } else { usage.stmt };
            writes.iter().all(|&write| write <= at || write >= last_use)
        })
    }

    /// Returns whether a load can be inlined at its use. It may be moved only past computations and writes of locals.
    fn can_inline_load(&self, at: usize, uses: &[ExprUse]) -> bool {
        let [usage] = uses else { return false };
        let near = |node: usize| matches!(self.nodes[node].stmt.kind, StmtKind::Let(_) | StmtKind::Write { .. });
        !usage.repeated
            && !usage.is_conditional
            && usage.depth <= MAX_DEPTH
            && self.nodes[usage.stmt].parent == self.nodes[at].parent
            && self.nodes[usage.stmt].branch == self.nodes[at].branch
            && (at + 1..usage.stmt).all(near)
    }

    fn can_inline(&self, at: usize, uses: &[ExprUse]) -> bool {
        let [usage] = uses else { return false };
        usage.depth <= MAX_DEPTH && !self.repeats(at, usage.stmt)
    }
}
