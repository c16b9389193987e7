//! Arrays that are modified while their value is in use.
//!
//! An array expression evaluates to memory, but means the array's value at that point. Where the two can differ (a later
//! argument modifies an array argument, or the body of a `for` modifies the array it iterates over), the array is copied
//! first; if its extents are unknown, an error is reported. Also, atomic operations on an array that is passed as a copy are
//! rejected, since no other thread could see them.

use super::copy::Row;
use super::error::Fallible;
use super::unit::Body;
use crate::base::arena::Arena;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::changes;
use crate::check::typed::{Block, Expr, ExprKind, LocalId, SliceIndex};
use crate::check::walk::root;
use crate::ir::def::{self, FunctionId, MemId, Space, StmtKind};
use crate::ir::visit::each_stmt;

impl Body<'_, '_> {
    /// Returns the memory of a read-only array argument; a copy, if one of the `later` arguments modifies the array.
    pub(crate) fn array_before(&mut self, expr: &Expr, later: &[Expr]) -> Fallible<MemId> {
        let memory = self.array(expr)?;
        let ExprKind::Local(id) = expr.kind else { return Ok(memory) };
        let program = self.program;
        match later.iter().find_map(|arg| changes::of_expr(program, arg, &|place| is_local(place, id))) {
            Some(at) => self.snapshot(memory, expr, at),
            None => Ok(memory),
        }
    }

    /// Returns the memory of an array that a `for` iterates over; a copy, if the body modifies it. Global and shared arrays
    /// are not copied, since other threads can modify them too.
    pub(crate) fn array_during(&mut self, expr: &Expr, body: &Block) -> Fallible<MemId> {
        let memory = self.array(expr)?;
        let ExprKind::Local(id) = expr.kind else { return Ok(memory) };
        if matches!(self.out.function().memories[memory].space, Space::Global { .. } | Space::Shared) {
            return Ok(memory);
        }
        match changes::of_block(self.program, body, &|place| is_local(place, id)) {
            Some(at) => self.snapshot(memory, expr, at),
            None => Ok(memory),
        }
    }

    fn snapshot(&mut self, memory: MemId, expr: &Expr, at: Span) -> Fallible<MemId> {
        let Ok(extents) = self.sizes(memory, expr.span) else {
            return Err(in_use(&self.out.function().memories[memory].name, expr.span, at));
        };
        self.row_copy(&Row::whole(memory, extents), expr.span)
    }

    /// Rejects an index expression that modifies the variable it indexes, since the element's old value would be meant.
    pub(crate) fn check_steady(&self, expr: &Expr) -> Fallible<()> {
        let ExprKind::Local(id) = root(expr).kind else { return Ok(()) };
        let mut part = expr;
        loop {
            part = match &part.kind {
                ExprKind::Index { base, indices } => {
                    let is = |place: &Expr| is_local(place, id);
                    if let Some(at) = indices.iter().find_map(|index| changes::of_expr(self.program, index, &is)) {
                        return Err(in_use(self.name_of(id), base.span, at));
                    }
                    base
                }
                ExprKind::Slice { base, indices } => {
                    let is = |place: &Expr| is_local(place, id);
                    let at = |index: &SliceIndex| match index {
                        SliceIndex::At(index) => changes::of_expr(self.program, index, &is),
                        _ => None,
                    };
                    if let Some(at) = indices.iter().find_map(at) {
                        return Err(in_use(self.name_of(id), base.span, at));
                    }
                    base
                }
                ExprKind::Field { base, .. } | ExprKind::TupleField { base, .. } | ExprKind::Swizzle { base, .. } => {
                    base
                }
                _ => return Ok(()),
            };
        }
    }

    fn name_of(&self, id: LocalId) -> &str {
        self.locals.get(id).map_or("it", |local| local.name.as_str())
    }

    /// Rejects a thread-local array for a parameter that is used with atomic operations.
    pub(crate) fn check_shared(
        &self,
        memory: MemId,
        arg: &Expr,
        function: FunctionId,
        position: usize,
    ) -> Fallible<()> {
        if !matches!(self.out.function().memories[memory].space, Space::Local) {
            return Ok(());
        }
        let Some(at) = atomic_on(&self.unit.functions, function, position) else { return Ok(()) };
        let (what, help) = match arg.kind {
            ExprKind::Slice { .. } => (
                "the call works on a copy of this row, which only one thread has",
                "pass the whole array, and the index of the row as a parameter of its own",
            ),
            _ => ("only one thread has this array", "give it a whole `inout` or `shared` array"),
        };
        Err(Box::new(
            Diagnostic::error("E0414", "an atomic operation needs an array that threads share")
                .at(arg.span, what)
                .because(at, "the atomic operation")
                .help(help),
        ))
    }
}

fn is_local(place: &Expr, id: LocalId) -> bool {
    matches!(place.kind, ExprKind::Local(local) if local == id)
}

/// Returns the span of an atomic operation that a function applies to an array parameter, if there is one.
fn atomic_on(functions: &Arena<def::Function>, function: FunctionId, position: usize) -> Option<Span> {
    let function = &functions[function];
    let mine = |memory: MemId| {
        let space = &function.memories[memory].space;
        matches!(space, Space::Param { position: own, .. } if *own as usize == position)
    };
    let mut found = None;
    each_stmt(&function.body, &mut |stmt| match &stmt.kind {
        StmtKind::Atomic { place, .. } if mine(place.memory) => found = found.or(Some(stmt.span)),
        StmtKind::Call { function, memories, .. } => {
            let mut inner = memories.iter().enumerate().filter(|(_, memory)| mine(**memory));
            found = found.or_else(|| inner.find_map(|(position, _)| atomic_on(functions, *function, position)));
        }
        _ => {}
    });
    found
}

fn in_use(name: &str, used: Span, changed: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0326", format!("`{name}` changes while its value is in use"))
            .at(used, "the value that it has here")
            .because(changed, "changed here")
            .help("change it in a statement of its own, before this one or behind it"),
    )
}
