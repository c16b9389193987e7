//! Shrinks a failing program: removes statements as long as the program stays valid and fails.

use std::cell::RefCell;

use clk_ir::def::*;
use clk_ir::verify;

use crate::generate::Program;

/// The path to a statement. For each block on the way: the index of a statement in it, and the number of that
/// statement's nested block in which the path continues.
type Path = Vec<(usize, usize)>;

pub fn shrink(mut program: Program, fails: impl Fn(&Program) -> bool) -> Program {
    let mut tries = 3000;
    loop {
        let mut smaller = false;
        for function in program.module.functions.ids() {
            // Starts at the end, since no other statement depends on the last one.
            for path in paths(&program.module.functions[function].body).into_iter().rev() {
                tries -= 1;
                if tries == 0 {
                    return program;
                }
                let mut candidate = program.clone();
                let removed = remove(&mut candidate.module.functions[function].body, &path);
                let (old, new) = (&program.module.functions[function], &candidate.module.functions[function]);
                let valid = removed && keeps_writes(old, new);
                if valid && verify::violations(&candidate.module).is_empty() && fails(&candidate) {
                    (program, smaller) = (candidate, true);
                }
            }
        }
        if !smaller {
            return program;
        }
    }
}

fn blocks(stmt: &mut Stmt) -> Vec<&mut Block> {
    match &mut stmt.kind {
        StmtKind::If { then, other, .. } => vec![then, other],
        StmtKind::For { body, .. } | StmtKind::Loop { body, .. } | StmtKind::Block { body, .. } => vec![body],
        _ => vec![],
    }
}

fn paths(block: &Block) -> Vec<Path> {
    let mut block = block.clone();
    let mut all = vec![];
    for (i, stmt) in block.iter_mut().enumerate() {
        all.push(vec![(i, 0)]);
        for (b, inner) in blocks(stmt).into_iter().enumerate() {
            all.extend(paths(inner).into_iter().map(|path| [vec![(i, b)], path].concat()));
        }
    }
    all
}

/// Removes a statement, unless it contains a barrier or a `break`: removing those could change which threads reach a
/// barrier.
fn remove(block: &mut Block, path: &[(usize, usize)]) -> bool {
    let Some((&(at, inner), rest)) = path.split_first() else { return false };
    if rest.is_empty() {
        return remove_here(block, at);
    }
    match block.get_mut(at) {
        Some(stmt) => blocks(stmt).into_iter().nth(inner).is_some_and(|block| remove(block, rest)),
        None => false,
    }
}

fn remove_here(block: &mut Block, at: usize) -> bool {
    if block.get(at).is_none_or(|stmt| any(&mut stmt.clone(), &keeps)) {
        return false;
    }
    block.remove(at);
    true
}

fn keeps(stmt: &Stmt) -> bool {
    matches!(stmt.kind, StmtKind::Barrier { .. } | StmtKind::Break(_))
}

fn any(stmt: &mut Stmt, holds: &impl Fn(&Stmt) -> bool) -> bool {
    holds(stmt) || blocks(stmt).into_iter().any(|block| block.iter_mut().any(|s| any(s, holds)))
}

fn is_global(function: &Function, place: &Place) -> bool {
    matches!(function.memories[place.memory].space, MemorySpace::Global { .. })
}

/// For each local its initial value and whether it is read; for each array the number of writes and whether it is read.
type Uses = (Vec<(Option<ExprId>, bool)>, Vec<(usize, bool)>);

fn uses(function: &Function) -> Uses {
    let mut locals = vec![(None, false); function.locals.len()];
    let mut memories = vec![(0, false); function.memories.len()];
    let (l, m) = (RefCell::new(&mut locals), RefCell::new(&mut memories));
    let note = |stmt: &Stmt| {
        match &stmt.kind {
            StmtKind::Write { local, value } => {
                l.borrow_mut()[local.index()].0.get_or_insert(*value);
            }
            StmtKind::Store { place, .. } if !is_global(function, place) => {
                m.borrow_mut()[place.memory.index()].0 += 1;
            }
            StmtKind::Let(expr) => match &function.exprs[*expr].kind {
                ExprKind::Read(local) => l.borrow_mut()[local.index()].1 = true,
                ExprKind::Load { place, .. } => m.borrow_mut()[place.memory.index()].1 = true,
                _ => {}
            },
            StmtKind::Atomic { place, .. } => m.borrow_mut()[place.memory.index()].1 = true,
            StmtKind::Call { memories, .. } => memories.iter().for_each(|id| m.borrow_mut()[id.index()].1 = true),
            _ => {}
        }
        false
    };
    function.body.clone().iter_mut().for_each(|stmt| {
        any(stmt, &note);
    });
    (locals, memories)
}

/// Returns whether locals and arrays that are still read have kept their writes.
fn keeps_writes(before: &Function, after: &Function) -> bool {
    let (before, after) = (uses(before), uses(after));
    let locals = before.0.iter().zip(&after.0).all(|(b, a)| !a.1 || a.0 == b.0);
    locals && before.1.iter().zip(&after.1).all(|(b, a)| !a.1 || a.0 == b.0)
}
