//! Inlining: calls are replaced by the bodies of the callees, so that a device sees one function.
//!
//! A result is passed through a local: `return` writes it and, unless it is the body's last statement, breaks out of a block
//! around the inlined body. `structure` and `forward` remove both in the common cases.

use rustc_hash::FxHashMap;

use super::edit;
use crate::base::arena::Arena;
use crate::base::source::{FileId, Span};
use crate::base::stop;
use crate::ir::calls::{self, Call};
use crate::ir::def::*;
use crate::ir::visit::{each_stmt, each_stmt_mut};

pub(crate) fn run(module: &mut Module) {
    run_with(module, false);
}

/// The variant for runs with checks: spans record the call that they were inlined for.
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
    /// Preceding functions, with all calls inlined.
    flat: &'a [Function],
    function: &'a mut Function,
    labels: u32,
    traced: bool,
}

/// The mapping of the callee's items to the caller's.
#[derive(Default)]
struct Names {
    exprs: FxHashMap<ExprId, ExprId>,
    locals: Vec<LocalId>,
    memories: Vec<MemId>,
    /// Offset added to the callee's labels.
    labels: u32,
}

/// The mapping of a callee's spans.
#[derive(Clone, Copy)]
struct Moved {
    file: FileId,
    call: usize,
    first: usize,
}

impl Moved {
    fn span(&self, span: Span) -> Span {
        calls::inlined(span, self.file, self.call, self.first)
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
                    let moved = self.traced.then(|| self.note_call(callee, stmt.span));
                    self.call(callee, moved, (&args, &memories, &results), &mut out);
                }
                _ => out.push(stmt),
            }
        }
        out
    }

    /// Records a call and the calls inside of the callee.
    fn note_call(&mut self, callee: &Function, span: Span) -> Moved {
        let calls = &mut self.function.calls;
        let (file, call) = (callee.span.file, calls.len());
        calls.push(Call { file, span });
        let moved = Moved { file, call, first: calls.len() };
        calls.extend(callee.calls.iter().map(|inner| Call { span: moved.span(inner.span), ..*inner }));
        moved
    }

    fn call(
        &mut self,
        callee: &Function,
        moved: Option<Moved>,
        (args, memories, results): (&[ExprId], &[MemId], &[ExprId]),
        out: &mut Block,
    ) {
        let names = self.names(callee, moved, args, memories);
        let mut body = callee.body.clone();
        each_stmt_mut(&mut body, &mut |stmt| {
            names.stmt(&mut stmt.kind);
            stmt.span = moved.map_or(stmt.span, |m| m.span(stmt.span));
        });
        self.labels += edit::next_label(&callee.body);
        let returns: Vec<LocalId> = callee
            .results
            .iter()
            .map(|&ty| self.function.locals.push(Local { name: callee.name.clone(), ty, span: callee.span }))
            .collect();
        let exit = Label(self.labels);
        self.labels += 1;
        let body = returned(body, &returns, exit);
        match only_last(&body, exit) {
            true => out.extend(body.into_iter().filter(|stmt| stmt.kind != StmtKind::Break(exit))),
            false => out.push(Stmt { kind: StmtKind::Block { label: exit, body }, span: callee.span }),
        }
        for (&result, &local) in results.iter().zip(&returns) {
            self.function.exprs[result].kind = ExprKind::Read(local);
            out.push(edit::let_stmt(self.function, result));
        }
    }

    /// Returns the caller's array of the same constants, if it has one.
    fn constants(&self, wanted: &Memory) -> Option<MemId> {
        let same = |memory: &Memory| {
            memory.space == Space::Constant
                && memory.layout == wanted.layout
                && memory.extents == wanted.extents
                && memory.name == wanted.name
                && memory.values == wanted.values
        };
        self.function.memories.iter().find(|(_, memory)| same(memory)).map(|(id, _)| id)
    }

    /// Copies the callee's declarations and expressions into the caller.
    fn names(&mut self, callee: &Function, moved: Option<Moved>, args: &[ExprId], memories: &[MemId]) -> Names {
        let mut names = Names { labels: self.labels, ..Names::default() };
        names.locals = callee.locals.iter().map(|(_, local)| self.function.locals.push(local.clone())).collect();
        let mut extents = Vec::new();
        for (_, memory) in callee.memories.iter() {
            names.memories.push(match memory.space {
                Space::Param { position, .. } => memories[position as usize],
                // All functions of a kernel share one copy of a constant array.
                Space::Constant if let Some(known) = self.constants(memory) => known,
                Space::Global { .. } | Space::Shared | Space::Local | Space::Constant => {
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
                    let span = moved.map_or(callee.spans[id], |m| m.span(callee.spans[id]));
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

impl Names {
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
fn returned(block: Block, results: &[LocalId], exit: Label) -> Block {
    let mut out = Vec::with_capacity(block.len());
    for mut stmt in block {
        for inner in stmt.kind.blocks_mut() {
            *inner = returned(std::mem::take(inner), results, exit);
        }
        let span = stmt.span;
        match stmt.kind {
            StmtKind::Return(values) => {
                for (&local, value) in results.iter().zip(values) {
                    out.push(Stmt { kind: StmtKind::Write { local, value }, span });
                }
                out.push(Stmt { kind: StmtKind::Break(exit), span });
                // Statements behind a return are unreachable.
                return out;
            }
            _ => out.push(stmt),
        }
    }
    out
}

/// Returns whether the only break to `exit`, if any, is the block's last statement.
fn only_last(block: &Block, exit: Label) -> bool {
    let mut count = 0;
    each_stmt(block, &mut |stmt| count += usize::from(stmt.kind == StmtKind::Break(exit)));
    let last = block.last().is_some_and(|stmt| stmt.kind == StmtKind::Break(exit));
    count == usize::from(last)
}
