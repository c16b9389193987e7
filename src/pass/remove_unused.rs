//! Removes unused locals and memories, and renumbers expressions. Unused array parameters are kept, because they are
//! part of the kernel's interface.

use clk_base::arena::Arena;
use clk_ir::def::*;
use clk_ir::renumber::compact;
use clk_ir::visit::{each_stmt, each_stmt_mut};

pub(crate) fn run(module: &mut Module) {
    compact(module);
    for (_, function) in module.functions.iter_mut() {
        remove_unused(function);
    }
    // Memories are renumbered only in the kernel's body, and array parameters keep their order.
    let Some(body) = module.functions.get(module.kernel.body) else { return };
    for (position, param) in module.kernel.params.iter_mut().enumerate() {
        if let KernelParam::Array { memory, .. } = param {
            let is_own_memory =
                |m: &Memory| matches!(m.space, MemorySpace::Global { param, .. } if param as usize == position);
            *memory = body.memories.iter().find(|(_, m)| is_own_memory(m)).map_or(*memory, |(id, _)| id);
        }
    }
}

fn remove_unused(function: &mut Function) {
    let mut locals = vec![false; function.locals.len()];
    let mut memories: Vec<bool> = function
        .memories
        .iter()
        .map(|(_, memory)| matches!(memory.space, MemorySpace::Global { .. } | MemorySpace::Param { .. }))
        .collect();
    let mut exprs = function.exprs.clone();
    for (_, expr) in exprs.iter_mut() {
        if let ExprKind::Read(local) = expr.kind {
            locals[local.index()] = true;
        }
        if let Some(memory) = expr.kind.memory_mut() {
            memories[memory.index()] = true;
        }
    }
    let mut body = std::mem::take(&mut function.body);
    each_stmt_mut(&mut body, &mut |stmt| {
        if let Some(local) = stmt.kind.local_mut() {
            locals[local.index()] = true;
        }
        stmt.kind.memories_mut(|memory| memories[memory.index()] = true);
    });
    let (new_locals, local_ids) = compact_arena(&function.locals, &locals);
    let (new_memories, memory_ids) = compact_arena(&function.memories, &memories);
    for (_, expr) in exprs.iter_mut() {
        if let ExprKind::Read(local) = &mut expr.kind {
            *local = local_ids[local.index()];
        }
        if let Some(memory) = expr.kind.memory_mut() {
            *memory = memory_ids[memory.index()];
        }
    }
    each_stmt_mut(&mut body, &mut |stmt| {
        if let Some(local) = stmt.kind.local_mut() {
            *local = local_ids[local.index()];
        }
        stmt.kind.memories_mut(|memory| *memory = memory_ids[memory.index()]);
    });
    (function.locals, function.memories, function.exprs, function.body) = (new_locals, new_memories, exprs, body);
    let labels = labels(&function.body);
    each_stmt_mut(&mut function.body, &mut |stmt| {
        if let StmtKind::For { label, .. }
        | StmtKind::Loop { label, .. }
        | StmtKind::Block { label, .. }
        | StmtKind::Break(label)
        | StmtKind::Continue(label) = &mut stmt.kind
        {
            let new = labels.iter().position(|l| l == label);
            *label = new.map_or(*label, |new| Label(new as u32));
        }
    });
}

/// Returns the labels in order of their definition.
fn labels(body: &Block) -> Vec<Label> {
    let mut out = Vec::new();
    each_stmt(body, &mut |stmt| out.extend(stmt.kind.label()));
    out
}

/// Returns an arena of the used items, and the new id for each old index.
fn compact_arena<T: Clone>(arena: &Arena<T>, used: &[bool]) -> (Arena<T>, Vec<clk_base::arena::Id<T>>) {
    let mut new = Arena::new();
    let mut ids = Vec::new();
    for (id, item) in arena.iter() {
        ids.push(clk_base::arena::Id::new(new.len()));
        if used[id.index()] {
            new.push(item.clone());
        }
    }
    (new, ids)
}
