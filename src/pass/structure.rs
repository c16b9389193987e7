//! Jumps to where control goes anyway: `break`, `continue` and `return` at the end of what they leave vanish, and
//! `if c { …; break } rest` becomes `if c { … } else { rest }`. Early returns of inlined functions become plain branches, which lanes
//! can mask and later passes can turn into selections. A block that nothing breaks is spliced into the one around it.

use super::edit::breaks;
use crate::base::stop;
use crate::ir::def::*;

/// `rest` moves into branches up to this depth of nesting.
const MAX_DEPTH: usize = 40;

pub(crate) fn run(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let body = std::mem::take(&mut function.body);
        let mut ends = Ends::default();
        // A kernel returns nothing, so its return only ends the body.
        if function.results.is_empty() {
            ends.jumps.push(StmtKind::Return(vec![]));
        }
        function.body = block(body, &mut ends, 0);
    }
}

/// The jumps that would go to where control arrives at the end of the block at hand.
#[derive(Default, Clone)]
struct Ends {
    jumps: Vec<StmtKind>,
}

impl Ends {
    fn has(&self, kind: &StmtKind) -> bool {
        self.jumps.contains(kind)
    }
}

/// A block whose end is reached by the jumps in `ends`.
fn block(stmts: Block, ends: &mut Ends, depth: usize) -> Block {
    let mut out: Block = Vec::with_capacity(stmts.len());
    let mut rest = stmts.into_iter();
    while let Some(mut stmt) = rest.next() {
        stop::poll();
        if ends.has(&stmt.kind) {
            // The end of the block; what follows never runs.
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

/// Whether a block ends with a jump of `ends` in every case.
fn jumps_to(block: &Block, ends: &Ends) -> bool {
    block.last().is_some_and(|last| match &last.kind {
        StmtKind::If { then, other, .. } => jumps_to(then, ends) && jumps_to(other, ends),
        kind => ends.has(kind),
    })
}
