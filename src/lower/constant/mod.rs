//! Evaluates constant expressions on the host, including calls of functions, with the arithmetic of `clk_scalar`.
//!
//! A value is represented as a flat list of scalars: the components of each leaf of the value; for an array, the
//! scalars of all elements in sequence.

mod place;
mod run;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::error::{Fallible, internal};
use super::instance::GenericArgument;
use super::mono::Mono;
use super::types;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_base::stop;
use clk_check::literal::NumberLiteral;
use clk_check::typed::{ConstId, Dim, Expr, ExprKind, LocalId, Program, Type};
use clk_scalar::builtin::Builtin;
use clk_scalar::exact::{exact, is_reported_math, is_representable};
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};
use clk_scalar::{Scalar, ScalarValue, dynamic};

/// Maximum number of loop iterations and calls in the evaluation of a constant. Exceeding it is an error.
const MAX_STEPS: u64 = 50_000_000;
const MAX_DEPTH: usize = 64;
/// Maximum number of elements of a constant array.
const MAX_ELEMENTS: i64 = 1 << 20;

/// Evaluates expressions in an environment of compile-time arguments, and for a launch also of dimensions and
/// parameters.
#[derive(Clone)]
pub struct ConstEvaluator<'a> {
    program: &'a Program,
    mono: Mono<'a>,
    dims: Vec<Option<i64>>,
    locals: HashMap<LocalId, Stored>,
    steps: Rc<Cell<u64>>,
    /// The values of constants that have been evaluated. Nested evaluations share this map, so each constant is
    /// evaluated once.
    cache: Rc<RefCell<HashMap<ConstId, Vec<ScalarValue>>>>,
    depth: usize,
}

/// The value of a variable during an evaluation.
#[derive(Clone, Debug, Default)]
struct Stored {
    values: Vec<ScalarValue>,
    /// The extents, if the variable is an array.
    extents: Vec<i64>,
}

impl<'a> ConstEvaluator<'a> {
    pub fn new(program: &'a Program, arguments: &[GenericArgument]) -> Self {
        ConstEvaluator {
            program,
            mono: Mono::new(program, arguments),
            dims: vec![],
            locals: HashMap::new(),
            steps: Rc::default(),
            cache: Rc::default(),
            depth: 0,
        }
    }

    /// Evaluates an expression to a single scalar.
    pub fn evaluate(&mut self, expr: &Expr) -> Fallible<ScalarValue> {
        match self.leaves(expr)?.as_slice() {
            [one] => Ok(*one),
            values => Err(internal(expr.span, format!("a constant of {} parts where one is needed", values.len()))),
        }
    }

    /// Evaluates an expression to all scalars of its value.
    pub fn leaves(&mut self, expr: &Expr) -> Fallible<Vec<ScalarValue>> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(number) => self.literal(NumberLiteral::Int(*number), expr),
            ExprKind::Float(number) => self.literal(NumberLiteral::Float(*number), expr),
            ExprKind::Bool(value) => Ok(vec![ScalarValue::of(*value)]),
            ExprKind::Const(id) => self.item(*id, span),
            ExprKind::ConstParam(i) => Ok(vec![self.mono.const_param(*i, span)?]),
            ExprKind::Dim(dim) => match self.dims.get(*dim as usize).copied().flatten() {
                Some(extent) => Ok(vec![ScalarValue::of(extent as i32)]),
                None => Err(not_constant(span, "this dimension is only known at the launch")),
            },
            ExprKind::Local(_)
            | ExprKind::Swizzle { .. }
            | ExprKind::Field { .. }
            | ExprKind::TupleField { .. }
            | ExprKind::Index { .. }
            | ExprKind::Slice { .. } => self.read(expr),
            ExprKind::Unary { op, expr: operand } => {
                let values = self.leaves(operand)?;
                if *op == UnaryOp::Neg {
                    values
                        .iter()
                        .try_for_each(|value| in_range(BinaryOp::Sub, ScalarValue::zero(value.ty), *value, span))?;
                }
                each(&values, |value| dynamic::unary(*op, value), span)
            }
            ExprKind::Binary { op, left, right } => self.binary(*op, left, right, span),
            ExprKind::Convert { to, expr: operand } => self.convert(*to, operand),
            ExprKind::ConvertParam { to, expr: operand } => {
                let to = self.mono.scalar_param(*to, span)?;
                self.convert(to, operand)
            }
            ExprKind::Bitcast { expr: operand } => {
                let to = types::single(&self.ty(expr)?, span)?.scalar();
                let values = self.leaves(operand)?;
                each(&values, |value| dynamic::bitcast(to, value), span)
            }
            ExprKind::Vector { parts } => {
                let lanes = types::single(&self.ty(expr)?, span)?.lanes() as usize;
                let values = self.all(parts)?;
                Ok(if values.len() == 1 { values.repeat(lanes) } else { values })
            }
            ExprKind::Tuple(parts) | ExprKind::Array(parts) | ExprKind::Struct { fields: parts, .. } => self.all(parts),
            ExprKind::If { cond, then, other } => {
                if self.evaluate(cond)?.is_true() {
                    self.block(then)
                } else {
                    other.as_ref().map_or(Ok(vec![]), |other| self.block(other))
                }
            }
            ExprKind::Block(block) => self.block(block),
            ExprKind::Call { callee, args } => self.call(callee, args, span),
            ExprKind::Builtin { builtin, args, .. } => self.builtin(*builtin, args, expr),
            ExprKind::Error => Err(internal(span, "an expression with an error was let through")),
            ExprKind::Str(_)
            | ExprKind::Global(_)
            | ExprKind::Variable(_)
            | ExprKind::DynField { .. }
            | ExprKind::Lift { .. }
            | ExprKind::Derive(_)
            | ExprKind::CustomVjp(_)
            | ExprKind::Launch(_)
            | ExprKind::Range { .. }
            | ExprKind::Time(_) => Err(not_constant(span, "this is only known when the program runs")),
        }
    }

    /// Returns the value of a named constant.
    pub fn item(&mut self, id: ConstId, span: Span) -> Fallible<Vec<ScalarValue>> {
        let program = self.program;
        let constant = program.consts.get(id).ok_or_else(|| internal(span, "a constant that is not there"))?;
        if let Some(cached) = self.cache.borrow().get(&id) {
            return Ok(cached.clone());
        }
        self.step(span)?;
        let values = self.nested(&[]).guarded(span)?.leaves(&constant.value);
        let values =
            values.map_err(|d| reached(d, constant.span, || format!("the value of `{}` needs it", constant.name)))?;
        self.cache.borrow_mut().insert(id, values.clone());
        Ok(values)
    }

    fn literal(&self, literal: NumberLiteral, expr: &Expr) -> Fallible<Vec<ScalarValue>> {
        let ty = types::single(&self.ty(expr)?, expr.span)?;
        let value = literal.to(ty.scalar()).ok_or_else(|| literal.out_of_range(ty.scalar(), expr.span))?;
        Ok(vec![value; ty.lanes() as usize])
    }

    fn ty(&self, expr: &Expr) -> Fallible<Type> {
        self.mono.ty(&expr.ty, expr.span)
    }

    fn all(&mut self, parts: &[Expr]) -> Fallible<Vec<ScalarValue>> {
        let mut values = Vec::new();
        for part in parts {
            values.extend(self.leaves(part)?);
        }
        Ok(values)
    }

    fn convert(&mut self, to: Scalar, operand: &Expr) -> Fallible<Vec<ScalarValue>> {
        Ok(self.leaves(operand)?.into_iter().map(|value| value.to_type(to)).collect())
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> Fallible<Vec<ScalarValue>> {
        let first = self.leaves(left)?;
        if let (true, [cond]) = (op.is_logical(), first.as_slice())
            && cond.is_true() != (op == BinaryOp::And)
        {
            return Ok(first);
        }
        let second = self.leaves(right)?;
        let whole = matches!(self.ty(left)?, Type::Struct(_) | Type::Tuple(_));
        if whole && matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
            let same = zip(&first, &second, |l, r| dynamic::binary(BinaryOp::Eq, l, r), span)?;
            let equal = same.into_iter().all(ScalarValue::is_true);
            return Ok(vec![ScalarValue::of(equal == (op == BinaryOp::Eq))]);
        }
        apply(op, &first, &second, span, right.span)
    }

    fn builtin(&mut self, builtin: Builtin, args: &[Expr], expr: &Expr) -> Fallible<Vec<ScalarValue>> {
        let span = expr.span;
        match (builtin, args) {
            (Builtin::Len | Builtin::Shape, [array, rest @ ..]) => self.shape(builtin, array, rest, span),
            (Builtin::Assert, [cond, ..]) => match self.evaluate(cond)?.is_true() {
                true => Ok(vec![]),
                false => Err(failed(span, "this `assert` fails")),
            },
            (Builtin::Bitcast, [.., value]) => {
                let to = types::single(&self.ty(expr)?, span)?.scalar();
                let values = self.leaves(value)?;
                each(&values, |value| dynamic::bitcast(to, value), span)
            }
            (Builtin::WarpSize, _) => Ok(vec![ScalarValue::of(32_i32)]),
            // The last argument of `full` is the value of all elements.
            (Builtin::Full, [.., value]) => {
                let count = self.extents(expr)?.iter().product::<i64>();
                if count > MAX_ELEMENTS {
                    return Err(failed(span, "an array of this size"));
                }
                Ok(self.leaves(value)?.repeat(count as usize))
            }
            _ => {
                let mut values = Vec::with_capacity(args.len());
                for arg in args {
                    values.push(self.leaves(arg)?);
                }
                pure_builtin(builtin, &values, span)
            }
        }
    }

    fn shape(&mut self, builtin: Builtin, array: &Expr, rest: &[Expr], span: Span) -> Fallible<Vec<ScalarValue>> {
        let extents = self.extents(array)?;
        let axis = match (builtin, rest) {
            (Builtin::Len, _) => Some(0),
            (_, [axis, ..]) => self.evaluate(axis)?.as_integer(),
            (_, []) => return Ok(extents.into_iter().map(|n| ScalarValue::of(n as i32)).collect()),
        };
        axis.and_then(|axis| extents.get(usize::try_from(axis).ok()?).copied())
            .map(|n| vec![ScalarValue::of(n as i32)])
            .ok_or_else(|| failed(span, "the array has no such axis"))
    }

    /// Returns the extents of an array expression, or the number of components of a vector.
    fn extents(&mut self, array: &Expr) -> Fallible<Vec<i64>> {
        if let Type::Vector(_, lanes) = array.ty {
            return Ok(vec![lanes.into()]);
        }
        if let ExprKind::Local(id) = &array.kind
            && let Some(stored) = self.locals.get(id)
        {
            return Ok(stored.extents.clone());
        }
        let Type::Array(ty) = &array.ty else { return Ok(vec![]) };
        let extent = |dim: &Dim| match dim {
            Dim::Known(n) => Ok(*n),
            _ => Err(not_constant(array.span, "an array whose size is not known here")),
        };
        ty.dims.iter().map(extent).collect()
    }

    // Limits on evaluation

    fn step(&self, span: Span) -> Fallible<()> {
        stop::poll();
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if steps > MAX_STEPS { Err(failed(span, "this takes too many steps to compute")) } else { Ok(()) }
    }

    /// Returns an evaluator for a called function or another constant.
    fn nested(&self, arguments: &[GenericArgument]) -> ConstEvaluator<'a> {
        let mut inner = ConstEvaluator::new(self.program, arguments);
        inner.steps = self.steps.clone();
        inner.cache = self.cache.clone();
        inner.depth = self.depth + 1;
        inner
    }

    fn guarded(self, span: Span) -> Fallible<Self> {
        if self.depth > MAX_DEPTH {
            Err(failed(span, "this needs its own value, or calls nest too deep"))
        } else {
            Ok(self)
        }
    }
}

/// Evaluates a builtin without side effects on flat values.
fn pure_builtin(builtin: Builtin, args: &[Vec<ScalarValue>], span: Span) -> Fallible<Vec<ScalarValue>> {
    match (builtin, args) {
        (Builtin::Math(function), args) => math(function, args, span),
        (Builtin::Select, [cond, then, other]) => match cond.as_slice() {
            [cond] => Ok(if cond.is_true() { then.clone() } else { other.clone() }),
            lanes => Ok(lanes
                .iter()
                .zip(then.iter().zip(other))
                .map(|(cond, (then, other))| if cond.is_true() { *then } else { *other })
                .collect()),
        },
        (Builtin::CeilDiv, [x, y]) => {
            pairs(x, y).try_for_each(|(l, r)| in_range(BinaryOp::Div, l, r, span))?;
            zip(x, y, ceil_div, span)
        }
        (Builtin::Dot, [a, b]) => Ok(vec![dot(a, b, span)?]),
        (Builtin::Length, [v]) => math(MathFn::Sqrt, &[vec![dot(v, v, span)?]], span),
        (Builtin::Normalize, [v]) => {
            let length = math(MathFn::Sqrt, &[vec![dot(v, v, span)?]], span)?;
            zip(v, &length, |l, r| dynamic::binary(BinaryOp::Div, l, r), span)
        }
        (Builtin::Cross, [a, b]) => {
            let rotated =
                |v: &[ScalarValue], by: usize| v.iter().cycle().skip(by).take(v.len()).copied().collect::<Vec<_>>();
            let product = |i, j| apply(BinaryOp::Mul, &rotated(a, i), &rotated(b, j), span, span);
            apply(BinaryOp::Sub, &product(1, 2)?, &product(2, 1)?, span, span)
        }
        _ => Err(not_constant(span, "this is only known when the program runs")),
    }
}

fn dot(a: &[ScalarValue], b: &[ScalarValue], span: Span) -> Fallible<ScalarValue> {
    let products = apply(BinaryOp::Mul, a, b, span, span)?;
    let (first, rest) = products.split_first().ok_or_else(|| internal(span, "`dot` of nothing"))?;
    rest.iter().try_fold(*first, |sum, &next| {
        in_range(BinaryOp::Add, sum, next, span)?;
        dynamic::binary(BinaryOp::Add, sum, next).map_err(|failure| failed(span, &failure.to_string()))
    })
}

fn math(function: MathFn, args: &[Vec<ScalarValue>], span: Span) -> Fallible<Vec<ScalarValue>> {
    let lanes = args.iter().map(Vec::len).max().unwrap_or(0);
    let mut results = Vec::with_capacity(lanes);
    for lane in 0..lanes {
        let scalars: Vec<ScalarValue> = args.iter().filter_map(|arg| arg.get(lane).or(arg.first()).copied()).collect();
        if is_reported_math(function, &scalars) {
            let shown: Vec<String> = scalars.iter().map(ScalarValue::to_string).collect();
            let ty = scalars.first().map_or("", |value| value.ty.name());
            return Err(failed(span, &format!("{}({}) does not fit `{ty}`", function.row().name, shown.join(", "))));
        }
        results.push(dynamic::math(function, &scalars).map_err(|failure| failed(span, &failure.to_string()))?);
    }
    Ok(results)
}

/// Computes the quotient, plus one if there is a remainder, like the code that lowering emits.
fn ceil_div(x: ScalarValue, y: ScalarValue) -> Result<ScalarValue, dynamic::ScalarError> {
    let quotient = dynamic::binary(BinaryOp::Div, x, y)?;
    let covered = dynamic::binary(BinaryOp::Mul, quotient, y)?;
    let rest = dynamic::binary(BinaryOp::Ne, covered, x)?.to_type(quotient.ty);
    dynamic::binary(BinaryOp::Add, quotient, rest)
}

fn each(
    values: &[ScalarValue],
    apply: impl Fn(ScalarValue) -> Result<ScalarValue, dynamic::ScalarError>,
    span: Span,
) -> Fallible<Vec<ScalarValue>> {
    let results: Result<Vec<ScalarValue>, _> = values.iter().map(|&value| apply(value)).collect();
    results.map_err(|failure| failed(span, &failure.to_string()))
}

/// Applies a function to the components of two values. A single scalar is broadcast.
fn zip(
    left: &[ScalarValue],
    right: &[ScalarValue],
    apply: impl Fn(ScalarValue, ScalarValue) -> Result<ScalarValue, dynamic::ScalarError>,
    span: Span,
) -> Fallible<Vec<ScalarValue>> {
    let apply = |(l, r)| apply(l, r).map_err(|failure| failed(span, &failure.to_string()));
    pairs(left, right).map(apply).collect()
}

/// Returns pairs of the corresponding components of two values. A single scalar is broadcast.
fn pairs(left: &[ScalarValue], right: &[ScalarValue]) -> impl Iterator<Item = (ScalarValue, ScalarValue)> {
    let at = |values: &[ScalarValue], lane: usize| values.get(lane).or(values.first()).copied();
    (0..left.len().max(right.len())).filter_map(move |lane| at(left, lane).zip(at(right, lane)))
}

/// Evaluates an operator. Overflow of signed integers is an error, because a constant must have the same value in
/// checked and unchecked executions.
fn apply(
    op: BinaryOp,
    left: &[ScalarValue],
    right: &[ScalarValue],
    span: Span,
    divisor: Span,
) -> Fallible<Vec<ScalarValue>> {
    pairs(left, right).try_for_each(|(l, r)| in_range(op, l, r, span))?;
    zip(left, right, |l, r| dynamic::binary(op, l, r), divisor)
}

/// Checks that the result of an operation on two signed integers does not overflow their type.
fn in_range(op: BinaryOp, left: ScalarValue, right: ScalarValue, span: Span) -> Fallible<()> {
    let (Some(a), Some(b)) = (left.as_integer(), right.as_integer()) else { return Ok(()) };
    let ty = left.ty;
    let arithmetic = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Pow | BinaryOp::Div);
    if !ty.is_int() || !ty.is_signed() || !arithmetic || op == BinaryOp::Div && b == 0 {
        return Ok(());
    }
    match exact(op, a, b) {
        Some(result) if is_representable(ty, result) => Ok(()),
        _ => Err(failed(span, &format!("{a} {} {b} does not fit `{ty}`", op.symbol()))),
    }
}

fn negative(value: ScalarValue) -> bool {
    dynamic::unary(UnaryOp::Neg, value).is_ok() && value.as_f64() < 0.0
}

fn not_constant(span: Span, why: &str) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0489", "a constant cannot be computed").at(span, why).note(
            "constants are made of literals, other constants, const parameters, operators and calls of functions",
        ),
    )
}

/// Adds a label that shows a call or constant through which the evaluation reached an error. Only the innermost few are
/// labeled.
fn reached(d: Box<Diagnostic>, span: Span, how: impl FnOnce() -> String) -> Box<Diagnostic> {
    const STEPS: usize = 5;
    if d.labels.len() < STEPS { Box::new(d.because(span, how())) } else { d }
}

fn failed(span: Span, why: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("E0489", "a constant cannot be computed").at(span, why))
}
