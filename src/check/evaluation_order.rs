//! Evaluates arguments in the order in which they are written.
//!
//! Input: a checked call, launch, struct literal or derivative, with its operands in the order of the parameters.
//! Output: an expression that evaluates the operands in the order of the source text. If the two orders differ and the
//! difference can be observed, the operands are computed before the call: `f(b = g(), a = h())` becomes `{ let x = g();
//! let y = h(); f(y, x) }`. The orders differ only if there are named arguments. The difference can be observed only if
//! an operand has a side effect.

use crate::build::make;
use crate::context::{BodyKind, Cx, Info};
use crate::typed::*;
use crate::visit;
use clk_base::source::Span;

/// Returns the operands of an expression in evaluation order. The flag is true for an lvalue that the expression
/// writes.
fn operands<'e>(program: &Program, e: &'e mut Expr) -> Vec<(&'e mut Expr, bool)> {
    let consts = |generics: &'e mut Vec<GenericArg>| {
        generics.iter_mut().filter_map(|generic| match generic {
            GenericArg::Const(e) => Some((e, false)),
            _ => None,
        })
    };
    let is_written = |sig: Option<&Signature>, i: usize| {
        sig.and_then(|sig| sig.params.get(i)).is_some_and(|param| param.access != Access::In)
    };
    match &mut e.kind {
        ExprKind::Call { callee, args } | ExprKind::Lift { callee, args } => {
            let (sig, generics) = match callee {
                FnRef::Fn { id, generics } => (program.fns.get(*id).map(|f| &f.sig), Some(generics)),
                _ => (None, None),
            };
            let args = args.iter_mut().enumerate().map(|(i, arg)| (arg, is_written(sig, i)));
            args.chain(generics.into_iter().flat_map(consts)).collect()
        }
        ExprKind::Launch(launch) => {
            let sig = program.kernels.get(launch.kernel).map(|kernel| &kernel.sig);
            let args = launch.args.iter_mut().enumerate();
            let args = args.filter_map(|(i, arg)| arg.as_mut().map(|arg| (arg, is_written(sig, i))));
            let dims = launch.dims.iter_mut().map(|(_, e)| (e, false));
            let geometry = launch.grid.iter_mut().chain(&mut launch.block).map(|e| (e, false));
            args.chain(consts(&mut launch.generics)).chain(dims).chain(geometry).collect()
        }
        ExprKind::Struct { fields, .. } => fields.iter_mut().map(|e| (e, false)).collect(),
        ExprKind::Builtin { args, named, .. } => {
            args.iter_mut().chain(named.iter_mut().map(|(_, e)| e)).map(|e| (e, false)).collect()
        }
        ExprKind::Derive(derive) => {
            let Derive { of, seed, .. } = &mut **derive;
            operands(program, of).into_iter().chain(seed.iter_mut().map(|e| (e, false))).collect()
        }
        _ => vec![],
    }
}

/// Returns whether the value of an expression does not depend on when it is evaluated.
fn is_constant(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Error => true,
        ExprKind::Const(_) | ExprKind::ConstParam(_) | ExprKind::Dim(_) => true,
        ExprKind::Unary { expr, .. } => is_constant(expr),
        _ => false,
    }
}

/// Returns whether evaluating an expression has a side effect, or may have a different result each time.
fn has_effect(e: &Expr) -> bool {
    let mut effect = false;
    visit::expr(e, &mut |part| {
        effect |= match &part.kind {
            ExprKind::Call { .. }
            | ExprKind::Lift { .. }
            | ExprKind::Launch(_)
            | ExprKind::Derive(_)
            | ExprKind::CustomVjp(_)
            | ExprKind::Time(_) => true,
            ExprKind::Block(block) => !block.stmts.is_empty(),
            ExprKind::If { then, other, .. } => {
                !then.stmts.is_empty() || other.as_ref().is_some_and(|other| !other.stmts.is_empty())
            }
            ExprKind::Builtin { builtin, .. } => builtin.has_effect(),
            _ => false,
        };
    });
    effect
}

impl Cx<'_> {
    /// Makes an expression evaluate its operands in the order in which they are written.
    pub fn in_written_order(&mut self, mut call: Expr) -> Expr {
        let (program, span) = (self.program, call.span);
        // The call in the source text does not contain defaults and inferred constants.
        let is_written = |e: &Expr| {
            e.span != span && e.span.file == span.file && e.span.start >= span.start && e.span.end <= span.end
        };
        let mut all = operands(program, &mut call);
        all.retain(|(e, _)| is_written(e) && !is_constant(e));
        let is_ordered = all.is_sorted_by_key(|(e, _)| e.span.start);
        if is_ordered || !all.iter().any(|(e, _)| has_effect(e)) {
            return call;
        }
        all.sort_by_key(|(e, _)| e.span.start);
        let mut stmts = vec![];
        for (e, is_place) in all {
            if is_place {
                self.compute_indices_first(e, &mut stmts);
            } else {
                self.compute_first(e, &mut stmts);
            }
        }
        let ty = call.ty.clone();
        make(ExprKind::Block(Block { stmts, tail: Some(Box::new(call)), span }), ty, span)
    }

    /// Undoes [`Cx::in_written_order`] for a call that becomes an operand of another expression.
    pub fn in_parameter_order(&self, e: Expr) -> Expr {
        let ExprKind::Block(Block { stmts, tail: Some(mut call), .. }) = e.kind else { return e };
        let mut values: Vec<(LocalId, Expr)> = stmts.into_iter().filter_map(computed).collect();
        for (operand, _) in operands(self.program, &mut call) {
            if let ExprKind::Local(id) = operand.kind
                && let Some(at) = values.iter().position(|(local, _)| *local == id)
            {
                *operand = values.swap_remove(at).1;
            }
        }
        *call
    }

    /// Declares a variable without a name.
    pub fn hidden_local(&mut self, ty: Type, span: Span) -> LocalId {
        self.info.push(Info { used: true, varying: true, ..Info::default() });
        self.locals.push(Local { name: "_".into(), ty, mutable: false, kind: LocalKind::Var, span })
    }

    /// Moves the evaluation of an operand to a hidden variable.
    fn compute_first(&mut self, e: &mut Expr, stmts: &mut Vec<Stmt>) {
        let is_array = matches!(self.vars.shallow(&e.ty), Type::Array(_));
        // On devices, arrays are passed by reference. A function sees all modifications of its array arguments,
        // regardless of the evaluation order.
        let on_host = self.in_host() || self.home == BodyKind::Fn && self.needs.host.is_some();
        if is_constant(e) || is_array && !on_host {
            return;
        }
        let (ty, span) = (e.ty.clone(), e.span);
        let id = self.hidden_local(ty.clone(), span);
        let value = std::mem::replace(e, make(ExprKind::Local(id), ty, span));
        stmts.push(Stmt {
            kind: StmtKind::Let { pattern: Pattern::Local(id), value: Some(value), declared: None },
            span,
        });
    }

    /// Moves the evaluation of the indices of an lvalue to hidden variables.
    fn compute_indices_first(&mut self, place: &mut Expr, stmts: &mut Vec<Stmt>) {
        match &mut place.kind {
            ExprKind::Index { base, indices } => {
                self.compute_indices_first(base, stmts);
                indices.iter_mut().for_each(|index| self.compute_first(index, stmts));
            }
            ExprKind::Slice { base, indices } => {
                self.compute_indices_first(base, stmts);
                for index in indices {
                    match index {
                        SliceIndex::At(e) | SliceIndex::Of(e) => self.compute_first(e, stmts),
                        SliceIndex::Range { start, end, step, .. } => {
                            let parts = start.iter_mut().chain(end.iter_mut()).chain(step.iter_mut());
                            parts.for_each(|e| self.compute_first(e, stmts));
                        }
                    }
                }
            }
            ExprKind::Field { base, .. }
            | ExprKind::TupleField { base, .. }
            | ExprKind::DynField { base, .. }
            | ExprKind::Swizzle { base, .. } => self.compute_indices_first(base, stmts),
            _ => {}
        }
    }
}

/// Returns the hidden variable that a statement declares, and its value.
fn computed(stmt: Stmt) -> Option<(LocalId, Expr)> {
    match stmt.kind {
        StmtKind::Let { pattern: Pattern::Local(id), value: Some(value), .. } => Some((id, value)),
        _ => None,
    }
}
