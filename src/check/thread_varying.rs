//! Determines which variables of a pattern may have different values in the threads of a block. Warnings about barriers
//! that some threads do not reach depend on it.

use crate::context::Cx;
use crate::typed::*;
use crate::visit;
use clk_scalar::builtin::Builtin;

impl Cx<'_> {
    /// Marks which variables of `let (a, b) = …` may differ between threads.
    pub fn mark_varying_parts(&mut self, pattern: &Pattern, value: &Expr, varying: bool) {
        let Pattern::Tuple(names) = pattern else { return };
        for (at, name) in names.iter().enumerate() {
            let part = if let ExprKind::Tuple(parts) = &value.kind { parts.get(at) } else { None };
            let varies = varying && part.is_none_or(|part| self.reads_varying(part));
            match name {
                Pattern::Local(id) => {
                    if let Some(info) = self.info.get_mut(id.index()) {
                        info.varying = varies;
                    }
                }
                name => self.mark_varying_parts(name, part.unwrap_or(value), varies),
            }
        }
    }

    /// Returns whether an expression may differ between threads or blocks, or only some threads evaluate it.
    pub fn depends_on_thread_or_block(&self, e: &Expr) -> bool {
        let mut reads_block = false;
        visit::expr(e, &mut |e| {
            reads_block |= matches!(e.kind, ExprKind::Variable(Builtin::BlockIdx | Builtin::WarpIdx))
        });
        reads_block || self.reads_varying(e) || self.divergence.condition().is_some()
    }

    /// Returns whether an expression reads a value that may differ between threads.
    fn reads_varying(&self, e: &Expr) -> bool {
        let (mut varies, mut has_barrier) = (false, false);
        visit::expr(e, &mut |e| {
            varies |= match &e.kind {
                ExprKind::Variable(variable) => {
                    matches!(variable, Builtin::ThreadIdx | Builtin::GlobalIdx | Builtin::LaneIdx)
                }
                ExprKind::Local(id) => {
                    self.locals.get(*id).is_some_and(|local| local.kind == LocalKind::ThreadIndex)
                        || self.info.get(id.index()).is_some_and(|info| info.varying)
                }
                _ => false,
            };
            has_barrier |= matches!(&e.kind, ExprKind::Builtin { builtin: Builtin::Barrier(_), .. });
        });
        // The result of a barrier is the same for all threads of the block.
        varies && !has_barrier
    }
}
