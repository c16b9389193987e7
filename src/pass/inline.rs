//! Calls become the bodies they call, so that a device sees one function.
//!
//! A result travels through a local: `return` writes it and, unless it is the body's last statement, leaves a block around
//! the inlined body. `structure` and `forward` make both disappear in the common cases.

use rustc_hash::FxHashMap;

use super::edit;
use crate::base::arena::Arena;
use crate::ir::def::*;
use crate::ir::visit::{each_stmt, each_stmt_mut};

pub fn run(module: &mut Module) {
    let mut flat: Vec<Function> = Vec::new();
    for (_, function) in module.functions.iter() {
        let mut function = function.clone();
        let body = std::mem::take(&mut function.body);
        let mut inliner = Inliner { labels: edit::next_label(&body), flat: &flat, function: &mut function };
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
    /// Functions before this one, free of calls.
    flat: &'a [Function],
    function: &'a mut Function,
    labels: u32,
}

/// How the callee's things are called in the caller.
#[derive(Default)]
struct Names {
    exprs: FxHashMap<ExprId, ExprId>,
    locals: Vec<LocalId>,
    memories: Vec<MemId>,
    /// Added to the callee's labels.
    labels: u32,
}

impl Inliner<'_> {
    fn block(&mut self, block: Block) -> Block {
        let mut out = Vec::with_capacity(block.len());
        for mut stmt in block {
            for inner in stmt.kind.blocks_mut() {
                *inner = self.block(std::mem::take(inner));
            }
            match stmt.kind {
                StmtKind::Call { function, args, memories, results } => {
                    self.call(&self.flat[function.index()], &args, &memories, &results, &mut out);
                }
                _ => out.push(stmt),
            }
        }
        out
    }

    fn call(&mut self, callee: &Function, args: &[ExprId], memories: &[MemId], results: &[ExprId], out: &mut Block) {
        let names = self.names(callee, args, memories);
        let mut body = callee.body.clone();
        each_stmt_mut(&mut body, &mut |stmt| names.stmt(&mut stmt.kind));
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

    /// Copies the callee's declarations and expressions into the caller.
    fn names(&mut self, callee: &Function, args: &[ExprId], memories: &[MemId]) -> Names {
        let mut names = Names { labels: self.labels, ..Names::default() };
        names.locals = callee.locals.iter().map(|(_, local)| self.function.locals.push(local.clone())).collect();
        let mut extents = Vec::new();
        for (_, memory) in callee.memories.iter() {
            names.memories.push(match memory.space {
                Space::Param { position, .. } => memories[position as usize],
                Space::Global { .. } | Space::Shared | Space::Local => {
                    let id = self.function.memories.push(memory.clone());
                    extents.push(id);
                    id
                }
            });
        }
        for (id, expr) in callee.exprs.iter() {
            let new = match expr.kind {
                ExprKind::Param(i) => args[i as usize],
                _ => edit::push(self.function, expr.kind.clone(), expr.ty, callee.spans[id]),
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

/// Every `return` writes the results and breaks to `exit`.
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
                // What stands behind a return never runs.
                return out;
            }
            _ => out.push(stmt),
        }
    }
    out
}

/// Whether the only break to `exit`, if any, is the block's last statement.
fn only_last(block: &Block, exit: Label) -> bool {
    let mut count = 0;
    each_stmt(block, &mut |stmt| count += usize::from(stmt.kind == StmtKind::Break(exit)));
    let last = block.last().is_some_and(|stmt| stmt.kind == StmtKind::Break(exit));
    count == usize::from(last)
}
