//! Finds the atomic operations that can order threads: those whose results influence control flow or addresses.
//!
//! A thread that only stores the result of an atomic, or ignores it, behaves the same whatever the other threads did
//! before; such an atomic establishes no happens-before edge worth tracking. The analysis is a backward slice: from
//! conditions, loop bounds and indices through operators, locals and memories to atomic operations.

use rustc_hash::{FxHashMap, FxHashSet};

use clk_ir::def::*;
use clk_ir::visit::each_stmt;

/// Returns the results of such operations.
pub(crate) fn deciding(f: &Function) -> FxHashSet<ExprId> {
    let mut flow = OrderingAtomicsAnalysis::new(f);
    each_stmt(&f.body, &mut |stmt| flow.see(&stmt.kind));
    flow.run()
}

/// Returns the results of atomic operations that are the only effect of a loop's body: spin loops that retry until the
/// operation succeeds, as when a lock is taken.
pub(crate) fn taking(f: &Function) -> FxHashSet<ExprId> {
    let mut found = FxHashSet::default();
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Loop { body, .. } = &stmt.kind {
            found.extend(alone(body));
        }
    });
    found
}

/// Returns the result of the only effect of a loop's body, if that is an atomic operation whose result is used.
fn alone(body: &Block) -> Option<ExprId> {
    let (mut results, mut acts) = (vec![], false);
    each_stmt(body, &mut |stmt| match &stmt.kind {
        StmtKind::Atomic { result: Some(result), .. } => results.push(*result),
        StmtKind::Let(_) | StmtKind::Write { .. } | StmtKind::If { .. } | StmtKind::Block { .. } => {}
        StmtKind::Break(_) | StmtKind::Continue(_) | StmtKind::Fence(_) => {}
        _ => acts = true,
    });
    match results[..] {
        [result] if !acts => Some(result),
        _ => None,
    }
}

struct OrderingAtomicsAnalysis<'a> {
    f: &'a Function,
    /// Values written to locals and to memories, and the operands of statements with results.
    locals: FxHashMap<LocalId, Vec<ExprId>>,
    memories: FxHashMap<MemId, Vec<ExprId>>,
    results: FxHashMap<ExprId, Vec<ExprId>>,
    /// The memory that an atomic operation's result was read from.
    found: FxHashMap<ExprId, MemId>,
    todo: Vec<ExprId>,
}

impl<'a> OrderingAtomicsAnalysis<'a> {
    fn new(f: &'a Function) -> OrderingAtomicsAnalysis<'a> {
        OrderingAtomicsAnalysis {
            f,
            locals: FxHashMap::default(),
            memories: FxHashMap::default(),
            results: FxHashMap::default(),
            found: FxHashMap::default(),
            todo: vec![],
        }
    }

    fn see(&mut self, kind: &StmtKind) {
        match kind {
            StmtKind::Let(e) => {
                if let ExprKind::Load { place, .. } = &self.f.exprs[*e].kind {
                    self.todo.extend(&place.indices);
                }
            }
            StmtKind::Write { local, value } => self.locals.entry(*local).or_default().push(*value),
            StmtKind::Store { place, value, .. } => {
                self.todo.extend(&place.indices);
                self.memories.entry(place.memory).or_default().push(*value);
            }
            StmtKind::Atomic { place, value, compare, result, .. } => {
                self.todo.extend(&place.indices);
                let memory = self.memories.entry(place.memory).or_default();
                memory.push(*value);
                memory.extend(compare);
                self.found.extend(result.map(|result| (result, place.memory)));
            }
            StmtKind::If { cond, .. } | StmtKind::Assert { cond, .. } => self.todo.push(*cond),
            StmtKind::For { local, start, end, step, .. } => {
                self.todo.extend([start, end, step]);
                self.locals.entry(*local).or_default().extend([start, step]);
            }
            other => {
                let mut operands = vec![];
                other.operands(|e| operands.push(e));
                other.results(|result| {
                    self.results.insert(result, operands.clone());
                });
            }
        }
    }

    /// Follows the work list to all values that it depends on; returns the atomic results among them.
    fn run(mut self) -> FxHashSet<ExprId> {
        let (mut seen, mut deciding) = (FxHashSet::default(), FxHashSet::default());
        let none = vec![];
        while let Some(e) = self.todo.pop() {
            if !seen.insert(e) {
                continue;
            }
            let kind = &self.f.exprs[e].kind;
            kind.operands(|operand| self.todo.push(operand));
            let from = match kind {
                ExprKind::Read(local) => self.locals.get(local),
                ExprKind::Load { place, .. } => self.memories.get(&place.memory),
                ExprKind::Result => match self.found.get(&e) {
                    Some(memory) => {
                        deciding.insert(e);
                        self.memories.get(memory)
                    }
                    None => self.results.get(&e),
                },
                _ => None,
            };
            self.todo.extend(from.unwrap_or(&none));
        }
        deciding
    }
}
