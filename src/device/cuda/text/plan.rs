//! Decides which values get a name and which are inlined at their use.
//!
//! DeviceIR names every value; people write `y[i] = a * x[i] + y[i]`. A value is inlined if that preserves semantics: it has one
//! use, no loop repeats that, and its operands are not written in between. A read of a local is just the local's name as long as
//! the local is not written before the last use.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::def::*;
use crate::ir::ranges::Site;

/// Expressions nested deeper get names.
const MAX_DEPTH: u8 = 5;

/// A statement, numbered in pre-order.
struct Node<'a> {
    stmt: &'a Stmt,
    /// The number of the enclosing statement; `None` for statements of the body itself.
    parent: Option<usize>,
    /// Which block of the parent.
    branch: u8,
    /// The number after its last nested statement.
    end: usize,
}

/// A use of a value.
#[derive(Clone, Copy)]
struct Use {
    stmt: usize,
    /// The number of expressions around it in the statement.
    depth: u8,
    /// Evaluated in each iteration of the loop that the statement is.
    repeated: bool,
    /// Evaluated conditionally.
    lazy: bool,
}

pub(crate) struct Plan {
    inline: FxHashSet<ExprId>,
    /// Values with at least one use.
    used: FxHashSet<ExprId>,
}

impl Plan {
    pub fn is_inline(&self, id: ExprId) -> bool {
        self.inline.contains(&id)
    }

    pub fn is_used(&self, id: ExprId) -> bool {
        self.used.contains(&id)
    }
}

struct Planner<'a> {
    function: &'a Function,
    nodes: Vec<Node<'a>>,
    uses: FxHashMap<ExprId, Vec<Use>>,
    /// The writes of each local.
    writes: FxHashMap<LocalId, Vec<usize>>,
    /// Values and statements whose operands are emitted twice: in their guard and in themselves.
    twice: &'a FxHashSet<Site>,
    plan: Plan,
}

/// Computes the plan for a body. Operands of the values and statements in `twice` get names.
pub(crate) fn plan(function: &Function, twice: &FxHashSet<Site>) -> Plan {
    let mut planner = Planner {
        function,
        nodes: vec![],
        uses: FxHashMap::default(),
        writes: FxHashMap::default(),
        twice,
        plan: Plan { inline: FxHashSet::default(), used: FxHashSet::default() },
    };
    planner.number(&function.body, None, 0);
    planner.statements();
    for at in (0..planner.nodes.len()).rev() {
        if let StmtKind::Let(id) = planner.nodes[at].stmt.kind {
            planner.decide(id, at);
        }
    }
    planner.plan
}

impl<'a> Planner<'a> {
    fn number(&mut self, block: &'a Block, parent: Option<usize>, branch: u8) {
        for stmt in block {
            let at = self.nodes.len();
            self.nodes.push(Node { stmt, parent, branch, end: 0 });
            if let StmtKind::Write { local, .. } | StmtKind::For { local, .. } = stmt.kind {
                self.writes.entry(local).or_default().push(at);
            }
            for (branch, inner) in stmt.kind.blocks().enumerate() {
                self.number(inner, Some(at), branch as u8);
            }
            self.nodes[at].end = self.nodes.len();
        }
    }

    fn use_of(&mut self, id: ExprId, usage: Use) {
        self.plan.used.insert(id);
        if !self.function.exprs[id].kind.is_free() {
            self.uses.entry(id).or_default().push(usage);
        }
    }

    /// Records the uses by statements other than `Let`.
    fn statements(&mut self) {
        for at in 0..self.nodes.len() {
            let stmt = self.nodes[at].stmt;
            let usage = Use { stmt: at, depth: 0, repeated: false, lazy: false };
            match &stmt.kind {
                StmtKind::Let(_) => {}
                StmtKind::For { start, end, step, .. } => {
                    self.use_of(*start, usage);
                    self.use_of(*end, Use { repeated: true, ..usage });
                    self.use_of(*step, Use { repeated: true, ..usage });
                }
                StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => {
                    let guarded = self.twice.contains(&Site::Stmt(at as u32));
                    let index = Use { depth: 1, ..usage };
                    for &id in &place.indices {
                        (0..1 + u32::from(guarded)).for_each(|_| self.use_of(id, index));
                    }
                    match &stmt.kind {
                        StmtKind::Store { value, .. } => self.use_of(*value, usage),
                        // An atomic may become a loop, which must not repeat its operands.
                        StmtKind::Atomic { value, compare, .. } => {
                            let usage = Use { lazy: true, ..usage };
                            std::iter::once(value).chain(compare).for_each(|&id| self.use_of(id, usage));
                        }
                        _ => {}
                    }
                }
                kind => kind.operands(|id| self.use_of(id, usage)),
            }
        }
    }

    /// Returns whether a loop lies between the block of statement `from` and the nested statement `to`.
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

    fn decide(&mut self, id: ExprId, at: usize) {
        let uses = self.uses.get(&id).cloned().unwrap_or_default();
        let expr = &self.function.exprs[id];
        let inline = !uses.is_empty()
            && match &expr.kind {
                ExprKind::Read(local) => self.is_name(*local, at, &uses),
                ExprKind::Load { .. } => self.load_moves(at, &uses),
                ExprKind::Extract { .. } => uses.iter().all(|u| u.depth <= MAX_DEPTH),
                ExprKind::Result => false,
                _ => self.moves(at, &uses),
            };
        if inline {
            self.plan.inline.insert(id);
        }
        if self.twice.contains(&Site::Load(id)) {
            let usage = Use { stmt: at, depth: 0, repeated: false, lazy: false };
            expr.kind.operands(|operand| self.use_of(operand, usage));
        }
        let lazy = matches!(expr.kind, ExprKind::Select { .. });
        let own = [Use { stmt: at, depth: 0, repeated: false, lazy: false }];
        let uses = if inline { uses.as_slice() } else { &own };
        for usage in uses {
            let inner = Use { depth: usage.depth + 1, lazy: usage.lazy || lazy, ..*usage };
            expr.kind.operands(|operand| self.use_of(operand, inner));
        }
    }

    /// Returns whether a read can be the local's name: nothing writes the local before the last use.
    fn is_name(&self, local: LocalId, at: usize, uses: &[Use]) -> bool {
        let Some(writes) = self.writes.get(&local) else { return true };
        uses.iter().all(|usage| {
            let holder = self.holder(at, usage.stmt);
            let loops = usage.repeated || self.repeats(at, usage.stmt);
            let until = if loops { self.nodes[holder].end } else { usage.stmt };
            writes.iter().all(|&write| write <= at || write >= until)
        })
    }

    /// Returns whether a load can be inlined: it may move over values and writes of locals only.
    fn load_moves(&self, at: usize, uses: &[Use]) -> bool {
        let [usage] = uses else { return false };
        let near = |node: usize| matches!(self.nodes[node].stmt.kind, StmtKind::Let(_) | StmtKind::Write { .. });
        !usage.repeated
            && !usage.lazy
            && usage.depth <= MAX_DEPTH
            && self.nodes[usage.stmt].parent == self.nodes[at].parent
            && self.nodes[usage.stmt].branch == self.nodes[at].branch
            && (at + 1..usage.stmt).all(near)
    }

    fn moves(&self, at: usize, uses: &[Use]) -> bool {
        let [usage] = uses else { return false };
        usage.depth <= MAX_DEPTH && !self.repeats(at, usage.stmt)
    }
}
