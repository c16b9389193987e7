//! Lowers operators: folds constants, broadcasts a scalar to a vector, and emits short-circuit evaluation of `&&` and
//! `||` if the right operand may have side effects, may fault or is expensive. An operation that a checked execution
//! reports is not folded, so that the report is not lost.

use super::context::BodyLowering;
use super::error::{Fallible, internal};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Expr, Type};
use clk_ir::def::{BinOp, ExprId, ExprKind, StmtKind, Ty};
use clk_scalar::exact::{is_first_nonfinite, is_reported, is_reported_conversion, is_reported_unary};
use clk_scalar::ops::{BinaryOp, UnaryOp};
use clk_scalar::{Scalar, ScalarValue, dynamic};

/// Maximum cost of the right operand of `&&` or `||` for evaluating it unconditionally.
const LOGICAL_BUDGET: u32 = 10;

impl BodyLowering<'_, '_> {
    pub fn unary(&mut self, op: UnaryOp, operand: &Expr, span: Span) -> Fallible<Vec<ExprId>> {
        let value = self.scalar(operand)?;
        Ok(vec![self.unary_value(op, value, span)])
    }

    pub(crate) fn unary_value(&mut self, op: UnaryOp, value: ExprId, span: Span) -> ExprId {
        if let Some(known) = self.out.const_value(value)
            && !is_reported_unary(op, known)
            && let Ok(folded) = dynamic::unary(op, known)
        {
            return self.out.constant(folded, span);
        }
        let ty = self.out.ty(value);
        self.out.value(ExprKind::Unary { op, value }, ty, span)
    }

    pub fn convert(&mut self, value: ExprId, to: Scalar, span: Span) -> ExprId {
        match self.out.const_value(value) {
            Some(known) if !is_reported_conversion(to, known) && !self.is_trapped(&[known], known.to_type(to)) => {
                self.out.constant(known.to_type(to), span)
            }
            _ => self.out.convert(value, to, span),
        }
    }

    /// Returns whether run-time checks may report this operation on constants, so that it must not be folded.
    pub(super) fn is_trapped(&self, operands: &[ScalarValue], result: ScalarValue) -> bool {
        self.unit.has_checks && is_first_nonfinite(operands, result)
    }

    pub fn bitcast(&mut self, value: ExprId, to: Ty, span: Span) -> Fallible<ExprId> {
        let from = self.out.ty(value);
        if from.scalar() == to.scalar() {
            return Ok(value);
        }
        if from.scalar().size() != to.scalar().size() {
            return Err(size_mismatch(from.scalar(), to.scalar(), span));
        }
        Ok(match self.out.const_value(value) {
            Some(known) => self.out.constant(ScalarValue::from_bits(to.scalar(), known.bits), span),
            None => self.out.value(ExprKind::Bitcast(value), from.with_scalar(to.scalar()), span),
        })
    }

    pub fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr, expr: &Expr) -> Fallible<Vec<ExprId>> {
        if op.is_logical() && matches!(expr.ty, Type::Scalar(_)) {
            return Ok(vec![self.logical(op, left, right, expr.span)?]);
        }
        let left_values = self.value(left)?;
        let right_values = self.value(right)?;
        match (left_values.as_slice(), right_values.as_slice()) {
            ([l], [r]) => Ok(vec![self.apply(op, *l, *r, right.span, expr.span)?]),
            (l, r) if op.is_comparison() && l.len() == r.len() => Ok(vec![self.compare_leaves(op, l, r, expr.span)?]),
            _ if self.out.is_done() => self.unreachable(&self.type_of(expr)?, expr.span),
            _ => Err(internal(expr.span, "an operator on values of several parts")),
        }
    }

    /// Lowers `left op right` of two scalars or vectors. A constant zero divisor is reported at the span `divisor`.
    pub fn apply(&mut self, op: BinaryOp, left: ExprId, right: ExprId, divisor: Span, span: Span) -> Fallible<ExprId> {
        if matches!(op, BinaryOp::Div | BinaryOp::Rem)
            && self.out.const_value(right).is_some_and(|known| known.ty.is_int() && known.bits == 0)
        {
            return Err(division_by_zero(divisor));
        }
        if let (Some(l), Some(r)) = (self.out.const_value(left), self.out.const_value(right))
            && !is_reported(op, l, r)
            && let Ok(folded) = dynamic::binary(op, l, r)
            && !self.is_trapped(&[l, r], folded)
        {
            return Ok(self.out.constant(folded, span));
        }
        let op = BinOp::strict(op).ok_or_else(|| internal(span, format!("`{}` in a kernel", op.symbol())))?;
        let lanes = self.out.ty(left).lanes().max(self.out.ty(right).lanes());
        let widen = |ty: Ty| if lanes == 1 { ty } else { Ty::Vector(ty.scalar(), lanes) };
        let (left_ty, right_ty) = (widen(self.out.ty(left)), widen(self.out.ty(right)));
        let left = self.out.broadcast(left, left_ty, span);
        let right = self.out.broadcast(right, right_ty, span);
        Ok(self.out.binary(op, left, right, span))
    }

    /// Lowers the equality of structs and tuples: compares all leaves and all their components.
    fn compare_leaves(&mut self, op: BinaryOp, left: &[ExprId], right: &[ExprId], span: Span) -> Fallible<ExprId> {
        let (compare, join) = match op {
            BinaryOp::Eq => (BinOp::Eq, BinOp::And),
            BinaryOp::Ne => (BinOp::Ne, BinOp::Or),
            _ => return Err(internal(span, "an order of values of several parts")),
        };
        let mut all: Option<ExprId> = None;
        for (&left, &right) in left.iter().zip(right) {
            let same = self.out.binary(compare, left, right, span);
            for lane in self.out.lanes(same, span) {
                all = Some(match all {
                    Some(before) => self.out.binary(join, before, lane, span),
                    None => lane,
                });
            }
        }
        Ok(all.unwrap_or_else(|| self.out.bool(op == BinaryOp::Eq, span)))
    }

    fn logical(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> Fallible<ExprId> {
        // The value of the left operand for which the right operand is evaluated.
        let goes_on = op == BinaryOp::And;
        let first = self.scalar(left)?;
        if let Some(known) = self.out.const_value(first) {
            return if (known.bits != 0) == goes_on { self.scalar(right) } else { Ok(first) };
        }
        let join = if goes_on { BinOp::And } else { BinOp::Or };
        if self.simple(right, &mut LOGICAL_BUDGET.clone()) {
            let second = self.scalar(right)?;
            return Ok(match self.out.const_value(second) {
                Some(known) if (known.bits != 0) == goes_on => first,
                Some(_) => second,
                None => self.out.binary(join, first, second, span),
            });
        }
        let result = self.out.local("holds", Ty::Scalar(Scalar::Bool), span);
        self.out.stmt(StmtKind::Write { local: result, value: first }, span);
        self.out.open();
        let second = self.scalar(right);
        if let Ok(value) = second {
            self.out.stmt(StmtKind::Write { local: result, value }, span);
        }
        let (block, _) = self.out.close();
        second?;
        let (then, other) = if goes_on { (block, vec![]) } else { (vec![], block) };
        self.out.stmt(StmtKind::If { cond: first, then, other }, span);
        Ok(self.out.read(result, span))
    }
}

/// Builds the diagnostic for a `bitcast` between types that have different sizes after monomorphization.
fn size_mismatch(from: Scalar, to: Scalar, span: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0323", format!("`{from}` and `{to}` differ in size"))
            .at(span, "`bitcast` keeps every bit")
            .help("an `if` on constants skips code that does not fit a type; on the host, a function can choose another kernel"),
    )
}

pub(crate) fn division_by_zero(span: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0485", "an integer is divided by a constant zero")
            .at(span, "this is always 0")
            .help("guard it with an `if` on the constant: only the branch that is taken is compiled"),
    )
}
