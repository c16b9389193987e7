//! Scalar functions that become part of an array expression: one whose body is arithmetic is evaluated with whole arrays instead of
//! numbers, so that it is computed by the kernel of the expression around it. In: the function and its arguments; out: the deferred
//! result. Others, and all in runs with checks, are kernels of their own ([`map`](super::map)).

use crate::check::typed::{Block, Body, Expr, ExprKind, LocalId, Pattern, StmtKind, Type};
use crate::host::array::Element;
use crate::host::array::broadcast::common_shape;
use crate::host::grad::is_traced;
use crate::host::value::Value;
use crate::lang::builtin::Builtin;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::Scalar;
use crate::lower::{Argument, Function};

use super::frame::Frame;
use super::machine::{Eval, Machine};
use super::map::put_in;

/// The most operations of a function; of one that is differentiated, whose operations keep their operands for the way back.
const MOST: usize = 40;
const MOST_TRACED: usize = 3;

/// The body of a function as assignments to variables and a result.
struct Formula {
    lets: Vec<(LocalId, Expr)>,
    result: Expr,
}

/// Rewrites expressions, and counts their operations.
struct Rewriter<'a> {
    arguments: &'a [Argument],
    operations: usize,
}

impl Machine<'_> {
    /// Applies a function to arrays as a part of the expression around it; `None` if that is done by a kernel, which also reports
    /// errors. `result` is the element type of the result.
    pub(super) fn inlined(&mut self, function: &Function, values: &[Value], result: &Type) -> Eval<Option<Value>> {
        let (Function::Fn { id, arguments }, Type::Scalar(scalar)) = (function, result) else { return Ok(None) };
        let arrays: Vec<(&str, &[usize])> = values
            .iter()
            .filter_map(|value| if let Value::Array(a) = primal(value) { Some(("", a.shape())) } else { None })
            .collect();
        let Ok(shape) = common_shape(&arrays) else { return Ok(None) };
        let is_plain = |value: &Value| match primal(value) {
            Value::Array(array) => matches!(array.element(), Element::Scalar(_)),
            value => matches!(value, Value::Scalar(_)),
        };
        if self.checks().any() || self.checked() || !values.iter().all(is_plain) || shape.contains(&0) {
            return Ok(None);
        }
        let Some(body) = self.program.fns[*id].body.clone() else { return Ok(None) };
        let most = if values.iter().any(is_traced) { MOST_TRACED } else { MOST };
        let Some(formula) = Formula::of(&body, arguments, most) else { return Ok(None) };
        let mut frame = Frame::new(arguments.clone().into(), Vec::new());
        for (at, value) in values.iter().enumerate() {
            *frame.place(LocalId::new(at)) = Some(value.clone());
        }
        for (local, value) in &formula.lets {
            let Ok(value) = self.eval(&mut frame, value) else { return Ok(None) };
            *frame.place(*local) = Some(value);
        }
        Ok(match self.eval(&mut frame, &formula.result) {
            Ok(found) => match primal(&found) {
                Value::Array(plain) if plain.shape() == shape && plain.scalar() == Some(*scalar) => Some(found),
                _ => None,
            },
            Err(_) => None,
        })
    }
}

/// Returns a value without what its derivative needs.
fn primal(value: &Value) -> &Value {
    match value {
        Value::Traced(traced) => primal(traced.primal()),
        value => value,
    }
}

impl Formula {
    /// `None` if the body is not only arithmetic.
    fn of(body: &Body, arguments: &[Argument], most: usize) -> Option<Formula> {
        let mut rewriter = Rewriter { arguments, operations: 0 };
        let mut lets = Vec::with_capacity(body.root.stmts.len());
        for stmt in &body.root.stmts {
            let StmtKind::Let { pattern: Pattern::Local(local), value: Some(value), declared } = &stmt.kind else {
                return None;
            };
            if declared.as_ref().is_some_and(|declared| declared.ty != value.ty) {
                return None;
            }
            lets.push((*local, rewriter.expr(value)?));
        }
        let result = rewriter.expr(body.root.tail.as_deref()?)?;
        (rewriter.operations <= most).then_some(Formula { lets, result })
    }
}

impl Rewriter<'_> {
    fn scalar(&self, ty: &Type) -> Option<Scalar> {
        if let Type::Scalar(scalar) = put_in(ty, self.arguments) { Some(scalar) } else { None }
    }

    /// Returns an expression whose operators take arrays as they take numbers, and which has no effects and no errors.
    fn expr(&mut self, expr: &Expr) -> Option<Expr> {
        let scalar = self.scalar(&expr.ty)?;
        let mut made = expr.clone();
        if matches!(made.kind, ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_)) {
            return Some(made);
        }
        // Values are compared with types that are known.
        made.ty = Type::Unknown;
        match &mut made.kind {
            ExprKind::Local(_) => return Some(made),
            ExprKind::Unary { expr: inner, .. }
            | ExprKind::Convert { expr: inner, .. }
            | ExprKind::ConvertParam { expr: inner, .. } => **inner = self.expr(inner)?,
            ExprKind::Binary { op, left, right } => {
                if matches!(op, BinaryOp::Div | BinaryOp::Rem) && scalar.is_int() {
                    return None;
                }
                *op = match *op {
                    BinaryOp::And => BinaryOp::BitAnd,
                    BinaryOp::Or => BinaryOp::BitOr,
                    other => other,
                };
                (**left, **right) = (self.expr(left)?, self.expr(right)?);
            }
            ExprKind::Builtin { builtin: Builtin::Math(_) | Builtin::Select, args, named } if named.is_empty() => {
                *args = args.iter().map(|arg| self.expr(arg)).collect::<Option<_>>()?;
            }
            ExprKind::If { cond, then, other: Some(other) } => {
                let args = vec![self.expr(cond)?, self.block(then)?, self.block(other)?];
                made.kind = ExprKind::Builtin { builtin: Builtin::Select, args, named: Vec::new() };
            }
            ExprKind::Block(block) => return self.block(block),
            _ => return None,
        }
        self.operations += 1;
        Some(made)
    }

    fn block(&mut self, block: &Block) -> Option<Expr> {
        if block.stmts.is_empty() { self.expr(block.tail.as_deref()?) } else { None }
    }
}
