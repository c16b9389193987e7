//! Control flow structurization: removes a `break`, `continue` or `return` if execution reaches the jump's target
//! anyway.
//!
//! `if c { …; break } rest` becomes `if c { … } else { rest }`. Early returns of inlined functions become plain
//! branches, which need only lane masks, and which later passes can convert to selects. A labeled block without breaks
//! is merged into the enclosing block.

use super::edit::has_break;
use clk_base::stop;
use clk_ir::def::*;

/// The nesting depth up to which the statements after an `if` are moved into its branches.
const MAX_DEPTH: usize = 40;

pub(crate) fn run(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let body = std::mem::take(&mut function.body);
        let mut ends = FallthroughJumps::default();
        // In a function without results, a `return` is equivalent to reaching the end of the body.
        if function.results.is_empty() {
            ends.jumps.push(StmtKind::Return(vec![]));
        }
        function.body = block(body, &mut ends, 0);
    }
}

/// The jumps that are equivalent to reaching the end of the current block.
#[derive(Default, Clone)]
struct FallthroughJumps {
    jumps: Vec<StmtKind>,
}

impl FallthroughJumps {
    fn contains(&self, kind: &StmtKind) -> bool {
        self.jumps.contains(kind)
    }
}

/// Simplifies a block. A jump in `ends` is equivalent to reaching the end of the block.
fn block(stmts: Block, ends: &mut FallthroughJumps, depth: usize) -> Block {
    let mut out: Block = Vec::with_capacity(stmts.len());
    let mut rest = stmts.into_iter();
    while let Some(mut stmt) = rest.next() {
        stop::poll();
        if ends.contains(&stmt.kind) {
            // This jump is equivalent to the end of the block, and the statements after it are unreachable.
            return out;
        }
        if stmt.kind.is_jump() {
            out.push(stmt);
            return out;
        }
        let last = rest.len() == 0;
        match &mut stmt.kind {
            StmtKind::If { then, other, .. } => {
                if !last && depth < MAX_DEPTH {
                    let (leaves, others) = (jumps_to(then, ends), jumps_to(other, ends));
                    if leaves || others {
                        // The statements after the `if` are moved into the branch that does not jump.
                        let following: Block = rest.collect();
                        match (leaves, others) {
                            (true, false) => other.extend(following),
                            (false, true) => then.extend(following),
                            _ => {}
                        }
                        *then = block(std::mem::take(then), ends, depth + 1);
                        *other = block(std::mem::take(other), ends, depth + 1);
                        out.push(stmt);
                        return out;
                    }
                }
                let mut body_ends = if last { ends.clone() } else { FallthroughJumps::default() };
                *then = block(std::mem::take(then), &mut body_ends, depth + 1);
                *other = block(std::mem::take(other), &mut body_ends, depth + 1);
                out.push(stmt);
            }
            StmtKind::Block { label, body } => {
                let label = *label;
                let mut body_ends = if last { ends.clone() } else { FallthroughJumps::default() };
                body_ends.jumps.push(StmtKind::Break(label));
                *body = block(std::mem::take(body), &mut body_ends, depth + 1);
                if has_break(body, label) {
                    out.push(stmt);
                } else {
                    let body = std::mem::take(body);
                    let leaves = body.last().is_some_and(|stmt| stmt.kind.is_jump());
                    out.extend(body);
                    if leaves {
                        return out;
                    }
                }
            }
            StmtKind::For { label, body, .. } | StmtKind::Loop { label, body, .. } => {
                let mut body_ends = FallthroughJumps { jumps: vec![StmtKind::Continue(*label)] };
                *body = block(std::mem::take(body), &mut body_ends, depth + 1);
                out.push(stmt);
            }
            _ => out.push(stmt),
        }
    }
    out
}

/// Returns whether all paths through a block end with a jump of `ends`.
fn jumps_to(block: &Block, ends: &FallthroughJumps) -> bool {
    block.last().is_some_and(|last| match &last.kind {
        StmtKind::If { then, other, .. } => jumps_to(then, ends) && jumps_to(other, ends),
        kind => ends.contains(kind),
    })
}
