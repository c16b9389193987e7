//! Copies arrays that are modified while their value is in use.
//!
//! The value of an array expression is represented by the memory of the array, but must be the value at the time of its
//! evaluation. If the array could be modified afterward (by a later argument of a call, or by the body of a `for` that
//! iterates over it), it is copied first. If its extents are unknown, an error is reported instead. Atomic operations
//! on an array that is passed as a copy are rejected too, because no other thread could see them.

use super::array_values::ArraySlice;
use super::context::BodyLowering;
use super::error::Fallible;
use clk_base::arena::Arena;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::mutations;
use clk_check::typed::{Block, Expr, ExprKind, LocalId, SliceIndex};
use clk_check::visit::root;
use clk_ir::def::{self, FunctionId, MemId, MemorySpace, StmtKind};
use clk_ir::visit::each_stmt;

impl BodyLowering<'_, '_> {
    /// Returns the memory of a read-only array argument, or of a copy if one of the `later` arguments modifies the
    /// array.
    pub(crate) fn array_value_before(&mut self, expr: &Expr, later: &[Expr]) -> Fallible<MemId> {
        let memory = self.array(expr)?;
        let ExprKind::Local(id) = expr.kind else { return Ok(memory) };
        let program = self.program;
        match later.iter().find_map(|arg| mutations::of_expr(program, arg, &|place| is_local(place, id))) {
            Some(at) => self.snapshot(memory, expr, at),
            None => Ok(memory),
        }
    }

    /// Returns the memory of an array that a `for` iterates over, or of a copy if the body modifies the array. Global
    /// and shared arrays are not copied, because other threads can modify them anyway.
    pub(crate) fn array_value_during(&mut self, expr: &Expr, body: &Block) -> Fallible<MemId> {
        let memory = self.array(expr)?;
        let ExprKind::Local(id) = expr.kind else { return Ok(memory) };
        if matches!(self.out.function().memories[memory].space, MemorySpace::Global { .. } | MemorySpace::Shared) {
            return Ok(memory);
        }
        match mutations::of_block(self.program, body, &|place| is_local(place, id)) {
            Some(at) => self.snapshot(memory, expr, at),
            None => Ok(memory),
        }
    }

    fn snapshot(&mut self, memory: MemId, expr: &Expr, at: Span) -> Fallible<MemId> {
        let Ok(extents) = self.sizes(memory, expr.span) else {
            return Err(in_use(&self.out.function().memories[memory].name, expr.span, at));
        };
        self.copy_slice(&ArraySlice::whole(memory, extents), expr.span)
    }

    /// Rejects an index expression that modifies the indexed variable, because the access would have to use the
    /// variable's old value.
    pub(crate) fn check_unmodified(&self, expr: &Expr) -> Fallible<()> {
        let ExprKind::Local(id) = root(expr).kind else { return Ok(()) };
        let mut part = expr;
        loop {
            part = match &part.kind {
                ExprKind::Index { base, indices } => {
                    let is_indexed = |place: &Expr| is_local(place, id);
                    if let Some(at) =
                        indices.iter().find_map(|index| mutations::of_expr(self.program, index, &is_indexed))
                    {
                        return Err(in_use(self.name_of(id), base.span, at));
                    }
                    base
                }
                ExprKind::Slice { base, indices } => {
                    let is_indexed = |place: &Expr| is_local(place, id);
                    let at = |index: &SliceIndex| match index {
                        SliceIndex::At(index) => mutations::of_expr(self.program, index, &is_indexed),
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

    /// Rejects a thread-local array as the argument for a parameter to which the callee applies atomic operations.
    pub(crate) fn check_shared(
        &self,
        memory: MemId,
        arg: &Expr,
        function: FunctionId,
        position: usize,
    ) -> Fallible<()> {
        if !matches!(self.out.function().memories[memory].space, MemorySpace::Local) {
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
        matches!(space, MemorySpace::Param { position: own, .. } if *own as usize == position)
    };
    let mut first_atomic = None;
    each_stmt(&function.body, &mut |stmt| match &stmt.kind {
        StmtKind::Atomic { place, .. } if mine(place.memory) => first_atomic = first_atomic.or(Some(stmt.span)),
        StmtKind::Call { function, memories, .. } => {
            let mut inner = memories.iter().enumerate().filter(|(_, memory)| mine(**memory));
            first_atomic =
                first_atomic.or_else(|| inner.find_map(|(position, _)| atomic_on(functions, *function, position)));
        }
        _ => {}
    });
    first_atomic
}

fn in_use(name: &str, used: Span, changed: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0326", format!("`{name}` changes while its value is in use"))
            .at(used, "the value that it has here")
            .because(changed, "changed here")
            .help("change it in a separate statement before or after this one"),
    )
}
