//! Numbers expressions canonically: first evaluated expressions in evaluation order, then free expressions in the order
//! of their first use, then expressions used only by dynamic extents. Removes unused expressions and merges equal free
//! expressions. In the text form, the number of an expression is its id, so a parsed module always has this numbering.

use rustc_hash::FxHashMap;

use crate::def::*;
use crate::visit::{each_stmt, each_stmt_mut};
use clk_base::arena::{Arena, SideTable};
use clk_base::source::Span;

/// Renumbers the expressions of every function. Ids that are out of range stay out of range; the verifier reports them.
pub fn compact(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        compact_function(function);
    }
}

pub(crate) fn compact_function(function: &mut Function) {
    let mut order = ExprOrder { function, evaluated: vec![], free: vec![], visited: FxHashMap::default() };
    each_stmt(&function.body, &mut |stmt| order.stmt(stmt));
    for (_, memory) in function.memories.iter() {
        for extent in &memory.extents {
            if let Extent::Dynamic(id) = extent
                && tree_size(function, *id).is_some()
            {
                order.tree_leaves(*id);
            }
        }
    }
    let ExprOrder { evaluated, free, .. } = order;
    Renumber::new(function, &evaluated, &free).apply(function);
}

/// The maximum size of the expression tree of a dynamic extent. The verifier rejects larger ones.
pub(crate) const MAX_TREE_SIZE: usize = 500;

struct ExprOrder<'a> {
    function: &'a Function,
    evaluated: Vec<ExprId>,
    free: Vec<ExprId>,
    visited: FxHashMap<ExprId, ()>,
}

impl ExprOrder<'_> {
    fn stmt(&mut self, stmt: &Stmt) {
        if let StmtKind::Let(id) = stmt.kind {
            if let Some(expr) = self.function.exprs.get(id) {
                expr.kind.operands(|operand| self.free_operand(operand));
            }
            self.define(id);
        }
        stmt.kind.operands(|operand| self.free_operand(operand));
        stmt.kind.results(|result| self.define(result));
    }

    fn define(&mut self, id: ExprId) {
        let Some(expr) = self.function.exprs.get(id) else { return };
        if self.visited.insert(id, ()).is_none() {
            if expr.kind.is_free() { self.free.push(id) } else { self.evaluated.push(id) }
        }
    }

    fn free_operand(&mut self, id: ExprId) {
        if self.function.exprs.get(id).is_some_and(|e| e.kind.is_free()) {
            self.define(id);
        }
    }

    fn tree_leaves(&mut self, id: ExprId) {
        self.free_operand(id);
        if let Some(expr) = self.function.exprs.get(id) {
            expr.kind.operands(|operand| self.tree_leaves(operand));
        }
    }
}

struct Renumber {
    new_ids: FxHashMap<ExprId, ExprId>,
    exprs: Arena<Expr>,
    spans: SideTable<Expr, Span>,
}

impl Renumber {
    fn new(function: &Function, evaluated: &[ExprId], free: &[ExprId]) -> Renumber {
        let mut this = Renumber { new_ids: FxHashMap::default(), exprs: Arena::new(), spans: SideTable::default() };
        for &id in evaluated {
            this.push(function, id);
        }
        let mut interned: FxHashMap<&Expr, ExprId> = FxHashMap::default();
        for &id in free {
            let Some(expr) = function.exprs.get(id) else { continue };
            match interned.get(expr) {
                Some(&new) => {
                    this.new_ids.insert(id, new);
                }
                None => {
                    interned.insert(expr, this.push(function, id));
                }
            }
        }
        this
    }

    fn push(&mut self, function: &Function, id: ExprId) -> ExprId {
        let new = self.exprs.push(function.exprs[id].clone());
        self.spans.push(if id.index() < function.spans.len() { function.spans[id] } else { Span::default() });
        self.new_ids.insert(id, new);
        new
    }

    fn renumbered(&self, id: ExprId) -> ExprId {
        // An expression without a `Let` gets an id that is out of range, so it stays an error.
        self.new_ids.get(&id).copied().unwrap_or_else(|| out_of_range_id(id, self.exprs.len()))
    }

    fn apply(mut self, function: &mut Function) {
        for id in self.exprs.ids() {
            let mut kind = std::mem::replace(&mut self.exprs[id].kind, ExprKind::Result);
            kind.operands_mut(|operand| *operand = self.renumbered(*operand));
            self.exprs[id].kind = kind;
        }
        let mut body = std::mem::take(&mut function.body);
        each_stmt_mut(&mut body, &mut |stmt| {
            if let StmtKind::Let(id) = &mut stmt.kind {
                *id = self.renumbered(*id);
            }
            stmt.kind.operands_mut(|operand| *operand = self.renumbered(*operand));
            stmt.kind.results_mut(|result| *result = self.renumbered(*result));
        });
        function.body = body;
        let mut memories = std::mem::take(&mut function.memories);
        for (_, memory) in memories.iter_mut() {
            for extent in &mut memory.extents {
                if let Extent::Dynamic(id) = extent {
                    let is_small = tree_size(function, *id).is_some();
                    *id = if is_small { self.copy_tree(function, *id) } else { self.renumbered(*id) };
                }
            }
        }
        function.memories = memories;
        function.exprs = self.exprs;
        function.spans = self.spans;
    }

    /// Copies the expression tree of a dynamic extent, so that no two extents share a tree. Only free operands are
    /// shared.
    fn copy_tree(&mut self, old: &Function, id: ExprId) -> ExprId {
        let Some(expr) = old.exprs.get(id) else { return self.renumbered(id) };
        if expr.kind.is_free() {
            return self.renumbered(id);
        }
        let mut copy = expr.clone();
        copy.kind.operands_mut(|operand| *operand = self.copy_tree(old, *operand));
        let new = self.exprs.push(copy);
        self.spans.push(if id.index() < old.spans.len() { old.spans[id] } else { Span::default() });
        new
    }
}

/// Returns an out-of-range id; distinct ids give distinct results.
fn out_of_range_id(id: ExprId, len: usize) -> ExprId {
    ExprId::new(len.saturating_add(id.index()).min(u32::MAX as usize))
}

/// Returns the number of nodes of the expression tree rooted at `id`; `None` if it exceeds [`MAX_TREE_SIZE`].
pub(crate) fn tree_size(function: &Function, id: ExprId) -> Option<usize> {
    fn count(function: &Function, id: ExprId, remaining: &mut usize) -> Option<()> {
        *remaining = remaining.checked_sub(1)?;
        let mut within_limit = Some(());
        if let Some(expr) = function.exprs.get(id) {
            expr.kind
                .operands(|operand| within_limit = within_limit.and_then(|()| count(function, operand, remaining)));
        }
        within_limit
    }
    let mut left = MAX_TREE_SIZE;
    count(function, id, &mut left)?;
    Some(MAX_TREE_SIZE - left)
}
