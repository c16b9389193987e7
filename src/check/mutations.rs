//! Finds modifications of a variable: assignments, calls and launches that take it as an `out` or `inout` argument, and
//! atomic operations.
//!
//! Input: typed code and a predicate for the variable. Output: the span of the first expression that modifies it or a
//! component of it.

use crate::typed::{Access, Block, Expr, ExprKind, FnRef, Param, Program, Stmt, StmtKind};
use crate::visit::{self, Visit, root};
use clk_base::source::Span;
use clk_scalar::builtin::Builtin;

/// Searches an expression and its subexpressions.
pub fn of_expr(program: &Program, e: &Expr, is: &dyn Fn(&Expr) -> bool) -> Option<Span> {
    let mut search = MutationSearch { program, is, first: None };
    search.visit_expr(e);
    search.first
}

/// Searches a block and all statements and expressions nested in it.
pub fn of_block(program: &Program, block: &Block, is: &dyn Fn(&Expr) -> bool) -> Option<Span> {
    let mut search = MutationSearch { program, is, first: None };
    search.visit_block(block);
    search.first
}

struct MutationSearch<'s> {
    program: &'s Program,
    is: &'s dyn Fn(&Expr) -> bool,
    first: Option<Span>,
}

impl MutationSearch<'_> {
    /// Returns the argument that an expression modifies.
    fn modified<'e>(&self, e: &'e Expr) -> Option<&'e Expr> {
        let is_modified = |params: &[Param], at: usize, arg: &Expr| {
            params.get(at).is_some_and(|param| param.access != Access::In) && (self.is)(root(arg))
        };
        match &e.kind {
            ExprKind::Call { callee: FnRef::Fn { id, .. }, args } => {
                let params = &self.program.fns.get(*id)?.sig.params;
                args.iter().enumerate().find(|(at, arg)| is_modified(params, *at, arg)).map(|(_, arg)| arg)
            }
            ExprKind::Launch(launch) => {
                let params = &self.program.kernels.get(launch.kernel)?.sig.params;
                let mut args = launch.args.iter().enumerate().filter_map(|(at, arg)| Some((at, arg.as_ref()?)));
                args.find(|(at, arg)| is_modified(params, *at, arg)).map(|(_, arg)| arg)
            }
            ExprKind::Builtin { builtin: Builtin::Atomic(_) | Builtin::AtomicStore, args, .. } => {
                args.first().filter(|place| (self.is)(root(place)))
            }
            _ => None,
        }
    }
}

impl Visit<'_> for MutationSearch<'_> {
    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let StmtKind::Assign { place, .. } = &stmt.kind
            && (self.is)(root(place))
        {
            self.first.get_or_insert(place.span);
        }
        visit::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, e: &Expr) {
        if let Some(arg) = self.modified(e) {
            self.first.get_or_insert(arg.span);
        }
        visit::walk_expr(self, e);
    }
}
