//! Canonical numbering of expressions: those that statements evaluate in the order of evaluation, then free ones in the order of
//! their first use, then those only dynamic extents use. Unused expressions are removed, equal free ones merged. The text form
//! refers to expressions by number, so a parsed module always has this numbering.

use rustc_hash::FxHashMap;

use crate::base::arena::{Arena, Side};
use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::visit::{each_stmt, each_stmt_mut};

/// Renumbers the expressions of every function. Ids that are out of range remain so, for the verifier to find.
pub fn compact(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        compact_function(function);
    }
}

pub(crate) fn compact_function(function: &mut Function) {
    let mut order = Order { function, evaluated: vec![], free: vec![], seen: FxHashMap::default() };
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
    let Order { evaluated, free, .. } = order;
    Renumber::new(function, &evaluated, &free).apply(function);
}

/// The largest expression tree of a dynamic extent that is copied (the verifier rejects larger ones).
pub(crate) const TREE_SIZE: usize = 500;

struct Order<'a> {
    function: &'a Function,
    evaluated: Vec<ExprId>,
    free: Vec<ExprId>,
    seen: FxHashMap<ExprId, ()>,
}

impl Order<'_> {
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
        if self.seen.insert(id, ()).is_none() {
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
    new: FxHashMap<ExprId, ExprId>,
    exprs: Arena<Expr>,
    spans: Side<Expr, Span>,
}

impl Renumber {
    fn new(function: &Function, evaluated: &[ExprId], free: &[ExprId]) -> Renumber {
        let mut this = Renumber { new: FxHashMap::default(), exprs: Arena::new(), spans: Side::default() };
        for &id in evaluated {
            this.push(function, id);
        }
        let mut interned: FxHashMap<&Expr, ExprId> = FxHashMap::default();
        for &id in free {
            let Some(expr) = function.exprs.get(id) else { continue };
            match interned.get(expr) {
                Some(&new) => {
                    this.new.insert(id, new);
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
        self.new.insert(id, new);
        new
    }

    fn renamed(&self, id: ExprId) -> ExprId {
        // An expression without a `Let` keeps a number that is out of range, so that it stays an error.
        self.new.get(&id).copied().unwrap_or_else(|| stray(id, self.exprs.len()))
    }

    fn apply(mut self, function: &mut Function) {
        for id in self.exprs.ids() {
            let mut kind = std::mem::replace(&mut self.exprs[id].kind, ExprKind::Result);
            kind.operands_mut(|operand| *operand = self.renamed(*operand));
            self.exprs[id].kind = kind;
        }
        let mut body = std::mem::take(&mut function.body);
        each_stmt_mut(&mut body, &mut |stmt| {
            if let StmtKind::Let(id) = &mut stmt.kind {
                *id = self.renamed(*id);
            }
            stmt.kind.operands_mut(|operand| *operand = self.renamed(*operand));
            stmt.kind.results_mut(|result| *result = self.renamed(*result));
        });
        function.body = body;
        let mut memories = std::mem::take(&mut function.memories);
        for (_, memory) in memories.iter_mut() {
            for extent in &mut memory.extents {
                if let Extent::Dynamic(id) = extent {
                    let fits = tree_size(function, *id).is_some();
                    *id = if fits { self.tree(function, *id) } else { self.renamed(*id) };
                }
            }
        }
        function.memories = memories;
        function.exprs = self.exprs;
        function.spans = self.spans;
    }

    /// Copies the tree of a dynamic extent, so that each extent has its own; free operands are shared.
    fn tree(&mut self, old: &Function, id: ExprId) -> ExprId {
        let Some(expr) = old.exprs.get(id) else { return self.renamed(id) };
        if expr.kind.is_free() {
            return self.renamed(id);
        }
        let mut copy = expr.clone();
        copy.kind.operands_mut(|operand| *operand = self.tree(old, *operand));
        let new = self.exprs.push(copy);
        self.spans.push(if id.index() < old.spans.len() { old.spans[id] } else { Span::default() });
        new
    }
}

/// Returns an id that is out of range, distinct for distinct ids.
fn stray(id: ExprId, len: usize) -> ExprId {
    ExprId::new(len.saturating_add(id.index()).min(u32::MAX as usize))
}

/// Returns the number of expressions that `id` is computed from, counted as a tree; `None` if more than [`TREE_SIZE`].
pub(crate) fn tree_size(function: &Function, id: ExprId) -> Option<usize> {
    fn count(function: &Function, id: ExprId, left: &mut usize) -> Option<()> {
        *left = left.checked_sub(1)?;
        let mut fits = Some(());
        if let Some(expr) = function.exprs.get(id) {
            expr.kind.operands(|operand| fits = fits.and_then(|()| count(function, operand, left)));
        }
        fits
    }
    let mut left = TREE_SIZE;
    count(function, id, &mut left)?;
    Some(TREE_SIZE - left)
}
