//! Inlines scalar functions into array expressions. A function whose body is plain arithmetic is evaluated on whole
//! arrays, so that it fuses with the surrounding expression. Input: the function and its arguments. Output: the
//! deferred result. Other functions run as separate kernels ([`elementwise_call`](super::elementwise_call)), and so do
//! all functions if checks are enabled.

use crate::array::ElementType;
use crate::array::broadcast::common_shape;
use crate::grad::is_traced;
use crate::value::HostValue;
use clk_check::typed::{Block, Body, Expr, ExprKind, LocalId, Pattern, StmtKind, Type};
use clk_lower::{FunctionInstance, GenericArgument};
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::BinaryOp;

use super::context::{Eval, EvalContext};
use super::elementwise_call::substitute;
use super::frame::HostFrame;

/// Maximum number of operations of an inlined function. [`MAX_TRACED_OPERATIONS`] applies if arguments are traced,
/// because each operation then keeps its operands in memory for the reverse sweep.
const MAX_OPERATIONS: usize = 40;
const MAX_TRACED_OPERATIONS: usize = 3;

/// The body of a function as a list of `let` statements and a result expression.
struct InlineBody {
    lets: Vec<(LocalId, Expr)>,
    result: Expr,
}

/// Rewrites scalar expressions so that they work on whole arrays, and counts their operations.
struct Rewriter<'a> {
    arguments: &'a [GenericArgument],
    operations: usize,
}

impl EvalContext<'_> {
    /// Evaluates the body of a function on whole arrays, as part of the surrounding array expression. Returns `None` if
    /// the function must run as a kernel instead, also after an error, which the kernel then reports. `result` is the
    /// element type of the result.
    pub(super) fn try_inline(
        &mut self,
        function: &FunctionInstance,
        values: &[HostValue],
        result: &Type,
    ) -> Eval<Option<HostValue>> {
        let (FunctionInstance::Fn { id, arguments }, Type::Scalar(scalar)) = (function, result) else {
            return Ok(None);
        };
        let arrays: Vec<(&str, &[usize])> = values
            .iter()
            .filter_map(|value| if let HostValue::Array(a) = untraced(value) { Some(("", a.shape())) } else { None })
            .collect();
        let Ok(shape) = common_shape(&arrays) else { return Ok(None) };
        let is_plain = |value: &HostValue| match untraced(value) {
            HostValue::Array(array) => matches!(array.element(), ElementType::Scalar(_)),
            value => matches!(value, HostValue::Scalar(_)),
        };
        if self.active_checks().any() || self.checks_arithmetic() || !values.iter().all(is_plain) || shape.contains(&0)
        {
            return Ok(None);
        }
        let Some(body) = self.program.fns[*id].body.clone() else { return Ok(None) };
        let most = if values.iter().any(is_traced) { MAX_TRACED_OPERATIONS } else { MAX_OPERATIONS };
        let Some(formula) = InlineBody::from_body(&body, arguments, most) else { return Ok(None) };
        let mut frame = HostFrame::new(arguments.clone().into(), Vec::new());
        for (at, value) in values.iter().enumerate() {
            *frame.local_mut(LocalId::new(at)) = Some(value.clone());
        }
        for (local, value) in &formula.lets {
            let Ok(value) = self.eval(&mut frame, value) else { return Ok(None) };
            *frame.local_mut(*local) = Some(value);
        }
        Ok(match self.eval(&mut frame, &formula.result) {
            Ok(found) => match untraced(&found) {
                HostValue::Array(plain) if plain.shape() == shape && plain.scalar() == Some(*scalar) => Some(found),
                _ => None,
            },
            Err(_) => None,
        })
    }
}

/// Returns a value without its tape nodes and tangents.
fn untraced(value: &HostValue) -> &HostValue {
    match value {
        HostValue::Traced(traced) => untraced(traced.primal()),
        value => value,
    }
}

impl InlineBody {
    /// Rewrites a function body. Returns `None` unless the body is plain arithmetic with at most `most` operations.
    fn from_body(body: &Body, arguments: &[GenericArgument], most: usize) -> Option<InlineBody> {
        let mut rewriter = Rewriter { arguments, operations: 0 };
        let mut lets = Vec::with_capacity(body.root.stmts.len());
        for stmt in &body.root.stmts {
            let StmtKind::Let { pattern: Pattern::Local(local), value: Some(value), declared } = &stmt.kind else {
                return None;
            };
            if declared.as_ref().is_some_and(|declared| declared.ty != value.ty) {
                return None;
            }
            lets.push((*local, rewriter.rewrite_expr(value)?));
        }
        let result = rewriter.rewrite_expr(body.root.tail.as_deref()?)?;
        (rewriter.operations <= most).then_some(InlineBody { lets, result })
    }
}

impl Rewriter<'_> {
    fn scalar_type(&self, ty: &Type) -> Option<Scalar> {
        if let Type::Scalar(scalar) = substitute(ty, self.arguments) { Some(scalar) } else { None }
    }

    /// Rewrites an expression so that it also works on whole arrays, for example `if` to `select`. Returns `None` if
    /// the expression may fail or has side effects.
    fn rewrite_expr(&mut self, expr: &Expr) -> Option<Expr> {
        let scalar = self.scalar_type(&expr.ty)?;
        let mut rewritten = expr.clone();
        if matches!(rewritten.kind, ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_)) {
            return Some(rewritten);
        }
        // The value may now be an array, so the type must not be checked.
        rewritten.ty = Type::Unknown;
        match &mut rewritten.kind {
            ExprKind::Local(_) => return Some(rewritten),
            ExprKind::Unary { expr: inner, .. }
            | ExprKind::Convert { expr: inner, .. }
            | ExprKind::ConvertParam { expr: inner, .. } => **inner = self.rewrite_expr(inner)?,
            ExprKind::Binary { op, left, right } => {
                if matches!(op, BinaryOp::Div | BinaryOp::Rem) && scalar.is_int() {
                    return None;
                }
                *op = match *op {
                    BinaryOp::And => BinaryOp::BitAnd,
                    BinaryOp::Or => BinaryOp::BitOr,
                    other => other,
                };
                (**left, **right) = (self.rewrite_expr(left)?, self.rewrite_expr(right)?);
            }
            ExprKind::Builtin { builtin: Builtin::Math(_) | Builtin::Select, args, named } if named.is_empty() => {
                *args = args.iter().map(|arg| self.rewrite_expr(arg)).collect::<Option<_>>()?;
            }
            ExprKind::If { cond, then, other: Some(other) } => {
                let args = vec![self.rewrite_expr(cond)?, self.rewrite_block(then)?, self.rewrite_block(other)?];
                rewritten.kind = ExprKind::Builtin { builtin: Builtin::Select, args, named: Vec::new() };
            }
            ExprKind::Block(block) => return self.rewrite_block(block),
            _ => return None,
        }
        self.operations += 1;
        Some(rewritten)
    }

    fn rewrite_block(&mut self, block: &Block) -> Option<Expr> {
        if block.stmts.is_empty() { self.rewrite_expr(block.tail.as_deref()?) } else { None }
    }
}
