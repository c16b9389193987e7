//! Control flow simplification: removes jumps to where control continues anyway, that is, `break`, `continue` and `return` at the
//! end of what they leave; `if c { …; break } rest` becomes `if c { … } else { rest }`. Early returns of inlined functions become
//! plain branches, for which lanes can be masked and which later passes can convert to selects. A block that no break leaves is
//! spliced into the enclosing one.

use super::edit::breaks;
use crate::base::stop;
use crate::ir::def::*;

/// The nesting depth up to which `rest` moves into branches.
const MAX_DEPTH: usize = 40;

pub(crate) fn run(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let body = std::mem::take(&mut function.body);
        let mut ends = Ends::default();
        // A kernel has no result, so its return only ends the body.
        if function.results.is_empty() {
            ends.jumps.push(StmtKind::Return(vec![]));
        }
        function.body = block(body, &mut ends, 0);
    }
}

/// The jumps that are equivalent to reaching the end of the current block.
#[derive(Default, Clone)]
struct Ends {
    jumps: Vec<StmtKind>,
}

impl Ends {
    fn has(&self, kind: &StmtKind) -> bool {
        self.jumps.contains(kind)
    }
}

/// Simplifies a block whose end is equivalent to the jumps in `ends`.
fn block(stmts: Block, ends: &mut Ends, depth: usize) -> Block {
    let mut out: Block = Vec::with_capacity(stmts.len());
    let mut rest = stmts.into_iter();
    while let Some(mut stmt) = rest.next() {
        stop::poll();
        if ends.has(&stmt.kind) {
            // The end of the block; what follows is unreachable.
            return out;
        }
        if stmt.kind.leaves() {
            out.push(stmt);
            return out;
        }
        let last = rest.len() == 0;
        match &mut stmt.kind {
            StmtKind::If { then, other, .. } => {
                if !last && depth < MAX_DEPTH {
                    let (leaves, others) = (jumps_to(then, ends), jumps_to(other, ends));
                    if leaves || others {
                        // The rest runs only where the branches do not jump over it.
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
                let mut inside = if last { ends.clone() } else { Ends::default() };
                *then = block(std::mem::take(then), &mut inside, depth + 1);
                *other = block(std::mem::take(other), &mut inside, depth + 1);
                out.push(stmt);
            }
            StmtKind::Block { label, body } => {
                let label = *label;
                let mut inside = if last { ends.clone() } else { Ends::default() };
                inside.jumps.push(StmtKind::Break(label));
                *body = block(std::mem::take(body), &mut inside, depth + 1);
                if breaks(body, label) {
                    out.push(stmt);
                } else {
                    let body = std::mem::take(body);
                    let leaves = body.last().is_some_and(|stmt| stmt.kind.leaves());
                    out.extend(body);
                    if leaves {
                        return out;
                    }
                }
            }
            StmtKind::For { label, body, .. } | StmtKind::Loop { label, body, .. } => {
                let mut inside = Ends { jumps: vec![StmtKind::Continue(*label)] };
                *body = block(std::mem::take(body), &mut inside, depth + 1);
                out.push(stmt);
            }
            _ => out.push(stmt),
        }
    }
    out
}

/// Returns whether all paths through a block end with a jump of `ends`.
fn jumps_to(block: &Block, ends: &Ends) -> bool {
    block.last().is_some_and(|last| match &last.kind {
        StmtKind::If { then, other, .. } => jumps_to(then, ends) && jumps_to(other, ends),
        kind => ends.has(kind),
    })
}
