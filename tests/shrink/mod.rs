//! Makes a failing program small: statements are left out as long as it stays valid and fails.

use clk_lang::ir::def::*;
use clk_lang::ir::verify;

use crate::generate::Program;

/// The statement of each block on the way to one statement, and which block of it is meant.
type Path = Vec<(usize, usize)>;

pub fn shrink(mut program: Program, fails: impl Fn(&Program) -> bool) -> Program {
    let mut tries = 3000;
    loop {
        let mut smaller = false;
        for function in program.module.functions.ids() {
            // From the end, where nothing depends on a statement any more.
            for path in paths(&program.module.functions[function].body).into_iter().rev() {
                tries -= 1;
                if tries == 0 {
                    return program;
                }
                let mut candidate = program.clone();
                let removed = remove(&mut candidate.module.functions[function].body, &path);
                if removed && verify::violations(&candidate.module).is_empty() && fails(&candidate) {
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

/// Leaves out a statement, unless that could make threads meet or share differently, or a loop endless.
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
    let keeps = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Barrier { .. } | StmtKind::Break(_));
    if block.get(at).is_none_or(keeps) || contains_kept(&mut block[at].clone(), &keeps) {
        return false;
    }
    block.remove(at);
    true
}

fn contains_kept(stmt: &mut Stmt, keeps: &impl Fn(&Stmt) -> bool) -> bool {
    blocks(stmt).into_iter().any(|block| block.iter_mut().any(|s| keeps(s) || contains_kept(s, keeps)))
}
