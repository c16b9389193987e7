//! Inlining: replaces calls by the bodies of the callees, so that a device receives a single function.
//!
//! Each result is passed through a local. A `return` writes the local and, unless it is the last statement, breaks out
//! of a labeled block around the inlined body. In common cases, `structurize` removes the break and `forward_locals`
//! the local.

use rustc_hash::FxHashMap;

use super::edit;
use clk_base::arena::Arena;
use clk_base::source::{FileId, Span};
use clk_base::stop;
use clk_ir::def::*;
use clk_ir::inlined_calls::{self, InlinedCall};
use clk_ir::visit::{each_stmt, each_stmt_mut};

pub(crate) fn run(module: &mut Module) {
    run_with(module, false);
}

/// Like [`run`], but for launches with checks: spans also identify the inlined call.
pub(crate) fn run_traced(module: &mut Module) {
    run_with(module, true);
}

fn run_with(module: &mut Module, traced: bool) {
    let mut flat: Vec<Function> = Vec::new();
    for (_, function) in module.functions.iter() {
        let mut function = function.clone();
        let body = std::mem::take(&mut function.body);
        let mut inliner = Inliner { labels: edit::next_label(&body), flat: &flat, function: &mut function, traced };
        let body = inliner.block(body);
        function.body = body;
        flat.push(function);
    }
    let mut functions = Arena::new();
    if let Some(body) = flat.into_iter().nth(module.kernel.body.index()) {
        module.kernel.body = functions.push(body);
    }
    module.functions = functions;
}

struct Inliner<'a> {
    /// The functions before this one, with all calls inlined.
    flat: &'a [Function],
    function: &'a mut Function,
    labels: u32,
    traced: bool,
}

/// Maps items of the callee to items of the caller.
#[derive(Default)]
struct InlineMap {
    exprs: FxHashMap<ExprId, ExprId>,
    locals: Vec<LocalId>,
    memories: Vec<MemId>,
    /// The number that is added to the callee's labels.
    labels: u32,
}

/// Maps spans of the callee to spans of the caller.
#[derive(Clone, Copy)]
struct SpanMap {
    file: FileId,
    call: usize,
    first: usize,
}

impl SpanMap {
    fn span(&self, span: Span) -> Span {
        inlined_calls::inline_span(span, self.file, self.call, self.first)
    }
}

impl Inliner<'_> {
    fn block(&mut self, block: Block) -> Block {
        let mut out = Vec::with_capacity(block.len());
        for mut stmt in block {
            stop::poll();
            for inner in stmt.kind.blocks_mut() {
                *inner = self.block(std::mem::take(inner));
            }
            match stmt.kind {
                StmtKind::Call { function, args, memories, results } => {
                    let callee = &self.flat[function.index()];
                    let span_map = self.traced.then(|| self.record_call(callee, stmt.span));
                    self.inline_call(callee, span_map, &args, &memories, &results, &mut out);
                }
                _ => out.push(stmt),
            }
        }
        out
    }

    /// Records an inlined call, and the calls that were inlined into the callee.
    fn record_call(&mut self, callee: &Function, span: Span) -> SpanMap {
        let calls = &mut self.function.calls;
        let (file, call) = (callee.span.file, calls.len());
        calls.push(InlinedCall { file, span });
        let span_map = SpanMap { file, call, first: calls.len() };
        calls.extend(callee.calls.iter().map(|inner| InlinedCall { span: span_map.span(inner.span), ..*inner }));
        span_map
    }

    fn inline_call(
        &mut self,
        callee: &Function,
        span_map: Option<SpanMap>,
        args: &[ExprId],
        memories: &[MemId],
        results: &[ExprId],
        out: &mut Block,
    ) {
        let names = self.copy_items(callee, span_map, args, memories);
        let mut body = callee.body.clone();
        each_stmt_mut(&mut body, &mut |stmt| {
            names.stmt(&mut stmt.kind);
            stmt.span = span_map.map_or(stmt.span, |m| m.span(stmt.span));
        });
        self.labels += edit::next_label(&callee.body);
        let returns: Vec<LocalId> = callee
            .results
            .iter()
            .map(|&ty| self.function.locals.push(Local { name: callee.name.clone(), ty, span: callee.span }))
            .collect();
        let exit = Label(self.labels);
        self.labels += 1;
        let body = replace_returns(body, &returns, exit);
        match breaks_only_at_end(&body, exit) {
            true => out.extend(body.into_iter().filter(|stmt| stmt.kind != StmtKind::Break(exit))),
            false => out.push(Stmt { kind: StmtKind::Block { label: exit, body }, span: callee.span }),
        }
        for (&result, &local) in results.iter().zip(&returns) {
            self.function.exprs[result].kind = ExprKind::Read(local);
            out.push(edit::let_stmt(self.function, result));
        }
    }

    /// Returns the caller's array with the same constants as `table`, if there is one.
    fn find_constants(&self, table: &Memory) -> Option<MemId> {
        let same = |memory: &Memory| {
            memory.space == MemorySpace::Constant
                && memory.layout == table.layout
                && memory.extents == table.extents
                && memory.name == table.name
                && memory.values == table.values
        };
        self.function.memories.iter().find(|(_, memory)| same(memory)).map(|(id, _)| id)
    }

    /// Copies the callee's declarations and expressions into the caller.
    fn copy_items(
        &mut self,
        callee: &Function,
        span_map: Option<SpanMap>,
        args: &[ExprId],
        memories: &[MemId],
    ) -> InlineMap {
        let mut names = InlineMap { labels: self.labels, ..InlineMap::default() };
        names.locals = callee.locals.iter().map(|(_, local)| self.function.locals.push(local.clone())).collect();
        let mut extents = Vec::new();
        for (_, memory) in callee.memories.iter() {
            names.memories.push(match memory.space {
                MemorySpace::Param { position, .. } => memories[position as usize],
                // All functions of a kernel share one copy of a constant array.
                MemorySpace::Constant if let Some(existing) = self.find_constants(memory) => existing,
                MemorySpace::Global { .. } | MemorySpace::Shared | MemorySpace::Local | MemorySpace::Constant => {
                    let id = self.function.memories.push(memory.clone());
                    extents.push(id);
                    id
                }
            });
        }
        for (id, expr) in callee.exprs.iter() {
            let new = match expr.kind {
                ExprKind::Param(i) => args[i as usize],
                _ => {
                    let span = span_map.map_or(callee.spans[id], |m| m.span(callee.spans[id]));
                    edit::push(self.function, expr.kind.clone(), expr.ty, span)
                }
            };
            names.exprs.insert(id, new);
        }
        for (id, expr) in callee.exprs.iter() {
            if !matches!(expr.kind, ExprKind::Param(_)) {
                names.expr(&mut self.function.exprs[names.exprs[&id]].kind);
            }
        }
        for id in extents {
            for extent in &mut self.function.memories[id].extents {
                if let Extent::Dynamic(id) = extent {
                    *id = names.exprs[id];
                }
            }
        }
        names
    }
}

impl InlineMap {
    fn expr(&self, kind: &mut ExprKind) {
        kind.operands_mut(|operand| *operand = self.exprs[operand]);
        if let Some(memory) = kind.memory_mut() {
            *memory = self.memories[memory.index()];
        }
        if let ExprKind::Read(local) = kind {
            *local = self.locals[local.index()];
        }
    }

    fn stmt(&self, kind: &mut StmtKind) {
        if let StmtKind::Let(id) = kind {
            *id = self.exprs[id];
        }
        kind.operands_mut(|operand| *operand = self.exprs[operand]);
        kind.results_mut(|result| *result = self.exprs[result]);
        kind.memories_mut(|memory| *memory = self.memories[memory.index()]);
        if let Some(local) = kind.local_mut() {
            *local = self.locals[local.index()];
        }
        match kind {
            StmtKind::For { label, .. }
            | StmtKind::Loop { label, .. }
            | StmtKind::Block { label, .. }
            | StmtKind::Break(label)
            | StmtKind::Continue(label) => label.0 += self.labels,
            _ => {}
        }
    }
}

/// Replaces every `return` by writes of the results and a break to `exit`.
fn replace_returns(block: Block, results: &[LocalId], exit: Label) -> Block {
    let mut out = Vec::with_capacity(block.len());
    for mut stmt in block {
        for inner in stmt.kind.blocks_mut() {
            *inner = replace_returns(std::mem::take(inner), results, exit);
        }
        let span = stmt.span;
        match stmt.kind {
            StmtKind::Return(values) => {
                for (&local, value) in results.iter().zip(values) {
                    out.push(Stmt { kind: StmtKind::Write { local, value }, span });
                }
                out.push(Stmt { kind: StmtKind::Break(exit), span });
                // Statements after a return are unreachable.
                return out;
            }
            _ => out.push(stmt),
        }
    }
    out
}

/// Returns whether the block has no break to `exit`, except as its last statement.
fn breaks_only_at_end(block: &Block, exit: Label) -> bool {
    let mut count = 0;
    each_stmt(block, &mut |stmt| count += usize::from(stmt.kind == StmtKind::Break(exit)));
    let last = block.last().is_some_and(|stmt| stmt.kind == StmtKind::Break(exit));
    count == usize::from(last)
}
