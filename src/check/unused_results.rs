//! Warns about calls without side effects whose result is not used, such as the statement `sort(x)`.
//!
//! Input: checked bodies. A function has a side effect if it or one of its callees modifies an argument, prints,
//! asserts, draws random numbers, or reads or writes files. A launch has a side effect if it passes an array that the
//! kernel writes, or if the kernel prints or asserts.

use rustc_hash::FxHashMap;

use crate::typed::*;
use crate::visit;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::builtin::Builtin;

/// The callee of an unused result, as the warning describes it.
struct Callee {
    name: SmolStr,
    /// The variable that was probably meant to be assigned.
    variable: Option<SmolStr>,
    is_launch: bool,
}

pub(crate) struct UnusedResults<'p> {
    program: &'p Program,
    /// For each function examined so far, whether it has no side effects.
    pure: FxHashMap<FnId, bool>,
}

impl<'p> UnusedResults<'p> {
    pub fn new(program: &'p Program) -> Self {
        UnusedResults { program, pure: FxHashMap::default() }
    }

    /// Reports the statements of a body that discard the result of a call without side effects.
    pub fn body(&mut self, body: &Body, warnings: &mut Vec<Diagnostic>) {
        let mut calls = vec![];
        visit::stmts(&body.root, &mut |stmt| {
            if let StmtKind::Expr { expr, .. } = &stmt.kind {
                calls.push(expr);
            }
        });
        for call in calls {
            if matches!(call.ty, Type::Unit | Type::Never | Type::Error) {
                continue;
            }
            if let Some(callee) = self.callee(call, body)
                && !self.has_effect(call)
            {
                warnings.push(warning(call.span, &callee));
            }
        }
    }

    fn callee(&self, call: &Expr, body: &Body) -> Option<Callee> {
        let name = match &call.kind {
            ExprKind::Call { callee: FnRef::Fn { id, .. }, .. }
            | ExprKind::Lift { callee: FnRef::Fn { id, .. }, .. } => self.program.fns.get(*id)?.name.clone(),
            ExprKind::Launch(launch) => self.program.kernels.get(launch.kernel)?.name.clone(),
            ExprKind::Derive(_) => "grad".into(),
            // Another warning reports these calls as unused values.
            ExprKind::Builtin { builtin: Builtin::Math(_) | Builtin::Text(_), .. } => return None,
            ExprKind::Builtin { builtin, .. } => builtin.name().into(),
            _ => return None,
        };
        let variable = match &call.kind {
            ExprKind::Builtin { args, .. } | ExprKind::Call { args, .. } => {
                args.first().filter(|arg| arg.ty == call.ty).and_then(|arg| match arg.kind {
                    ExprKind::Local(id) => {
                        body.locals.get(id).filter(|local| local.mutable).map(|local| local.name.clone())
                    }
                    ExprKind::Global(id) => {
                        self.program.globals.get(id).filter(|global| global.mutable).map(|global| global.name.clone())
                    }
                    _ => None,
                })
            }
            _ => None,
        };
        Some(Callee { name, variable, is_launch: matches!(call.kind, ExprKind::Launch(_)) })
    }

    fn has_effect(&mut self, e: &Expr) -> bool {
        let mut parts = vec![];
        visit::expr(e, &mut |part| {
            parts.push(match &part.kind {
                ExprKind::Call { callee, .. } | ExprKind::Lift { callee, .. } => ExprEffect::Call(callee.clone()),
                ExprKind::Launch(launch) => {
                    ExprEffect::Launch(launch.kernel, launch.args.iter().map(Option::is_some).collect())
                }
                ExprKind::Builtin { builtin, .. } if builtin.has_effect() => ExprEffect::Effect,
                ExprKind::Time(_) => ExprEffect::Effect,
                _ => ExprEffect::None,
            });
        });
        parts.into_iter().any(|part| match part {
            ExprEffect::None => false,
            ExprEffect::Effect => true,
            ExprEffect::Call(callee) => self.changes(&callee),
            ExprEffect::Launch(kernel, given) => self.launch_has_effect(kernel, &given),
        })
    }

    fn changes(&mut self, callee: &FnRef) -> bool {
        match callee {
            FnRef::Builtin(builtin) => builtin.has_effect(),
            FnRef::Param(_) => true,
            FnRef::Fn { id, generics } => {
                let argument_changes =
                    generics.iter().any(|generic| matches!(generic, GenericArg::Fn(f) if self.changes(f)));
                argument_changes || !self.is_pure(*id)
            }
        }
    }

    fn is_pure(&mut self, id: FnId) -> bool {
        if let Some(is_pure) = self.pure.get(&id) {
            return *is_pure;
        }
        // A recursive function may not terminate, which is treated as a side effect.
        self.pure.insert(id, false);
        let Some((f, body)) = self.program.fns.get(id).and_then(|f| Some((f, f.body.as_ref()?))) else { return false };
        let keeps = f.sig.params.iter().all(|param| param.access == Access::In);
        let pure = keeps && !self.block_has_effect(&body.root);
        self.pure.insert(id, pure);
        pure
    }

    fn block_has_effect(&mut self, block: &Block) -> bool {
        let mut calls: Vec<Expr> = vec![];
        let mut effect = false;
        visit::exprs(block, &mut |part| match &part.kind {
            ExprKind::Call { .. } | ExprKind::Lift { .. } | ExprKind::Launch(_) => calls.push(part.clone()),
            ExprKind::Builtin { builtin, .. } => effect |= builtin.has_effect(),
            ExprKind::Time(_) => effect = true,
            _ => {}
        });
        effect || calls.iter().any(|call| self.has_effect(call))
    }

    fn launch_has_effect(&mut self, kernel: KernelId, given: &[bool]) -> bool {
        let program = self.program;
        let Some((kernel, body)) = program.kernels.get(kernel).and_then(|k| Some((k, k.body.as_ref()?))) else {
            return true;
        };
        let writes =
            |(param, given): (&Param, &bool)| param.access == Access::InOut || param.access == Access::Out && *given;
        let (mut prints, mut callees) = (false, vec![]);
        visit::exprs(&body.root, &mut |part| match &part.kind {
            ExprKind::Builtin { builtin, .. } => prints |= matches!(builtin, Builtin::Print | Builtin::Assert),
            ExprKind::Call { callee, .. } => callees.push(callee.clone()),
            _ => {}
        });
        prints || kernel.sig.params.iter().zip(given).any(writes) || callees.iter().any(|callee| self.changes(callee))
    }
}

/// The side effect of a subexpression, without those of its own subexpressions.
enum ExprEffect {
    None,
    Effect,
    Call(FnRef),
    Launch(KernelId, Vec<bool>),
}

fn warning(span: Span, callee: &Callee) -> Diagnostic {
    let name = &callee.name;
    let d = Diagnostic::warning("W0012", format!("the result of `{name}` is not used"))
        .at(span, format!("`{name}` changes nothing, and its result is dropped"));
    match (&callee.variable, callee.is_launch) {
        (Some(variable), _) => {
            let before = Span { end: span.start, ..span };
            let title = format!("assign it to `{variable}`");
            d.help(format!("`{name}` does not change `{variable}`; it returns a new value")).fix(
                title,
                before,
                format!("{variable} = "),
                Applicability::MaybeIncorrect,
            )
        }
        (None, true) => d.help(format!("name the launch's result: `let y = {name}(…)`, or pass it the `out` arrays")),
        (None, false) => d.help("give it a name with `let`, print it, or remove the call"),
    }
}
