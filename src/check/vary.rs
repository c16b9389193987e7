//! Which variables of a pattern may differ between the threads of a block, for warnings about barriers that some do not reach.

use crate::check::cx::Cx;
use crate::check::typed::*;
use crate::check::walk;
use crate::lang::builtin::Builtin;

impl Cx<'_> {
    /// Marks which variables of `let (a, b) = …` may differ between threads.
    pub fn parts_vary(&mut self, pattern: &Pattern, value: &Expr, varying: bool) {
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
                name => self.parts_vary(name, part.unwrap_or(value), varies),
            }
        }
    }

    /// Whether an expression reads what may differ between threads.
    fn reads_varying(&self, e: &Expr) -> bool {
        let (mut found, mut together) = (false, false);
        walk::expr(e, &mut |e| {
            found |= match &e.kind {
                ExprKind::Variable(variable) => {
                    matches!(variable, Builtin::ThreadIdx | Builtin::GlobalIdx | Builtin::LaneIdx)
                }
                ExprKind::Local(id) => {
                    self.locals.get(*id).is_some_and(|local| local.kind == LocalKind::ThreadIndex)
                        || self.info.get(id.index()).is_some_and(|info| info.varying)
                }
                _ => false,
            };
            together |= matches!(&e.kind, ExprKind::Builtin { builtin: Builtin::Barrier(_), .. });
        });
        // What a barrier gives is the same for all threads of the block.
        found && !together
    }
}
