//! Evaluates constant expressions on the host, including calls of functions, in the arithmetic that all stages share.
//!
//! A value is flat: one scalar per component of each leaf, the elements of an array in sequence.

mod place;
mod run;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::error::{Fallible, internal};
use super::instance::Argument;
use super::mono::Mono;
use super::types;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::base::stop;
use crate::check::literal::Literal;
use crate::check::typed::{ConstId, Dim, Expr, ExprKind, LocalId, Program, Type};
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::exact::{exact, holds, is_reported_math};
use crate::lang::scalar::{Scalar, Value, dynamic};

/// Maximum number of loop iterations and calls in one constant; a longer evaluation is treated as an error.
const MAX_STEPS: u64 = 50_000_000;
const MAX_DEPTH: usize = 64;
/// Maximum number of elements of a constant array.
const MAX_ELEMENTS: i64 = 1 << 20;

/// The environment of an evaluation: compile-time arguments, and for a launch also dimensions and parameters.
#[derive(Clone)]
pub struct Constants<'a> {
    program: &'a Program,
    mono: Mono<'a>,
    dims: Vec<Option<i64>>,
    locals: HashMap<LocalId, Stored>,
    steps: Rc<Cell<u64>>,
    /// Constants evaluated so far; each is evaluated once and shared by nested evaluations.
    known: Rc<RefCell<HashMap<ConstId, Vec<Value>>>>,
    depth: usize,
}

/// A variable during an evaluation.
#[derive(Clone, Debug, Default)]
struct Stored {
    values: Vec<Value>,
    /// The extents, if it is an array.
    extents: Vec<i64>,
}

impl<'a> Constants<'a> {
    pub fn new(program: &'a Program, arguments: &[Argument]) -> Self {
        Constants {
            program,
            mono: Mono::new(program, arguments),
            dims: vec![],
            locals: HashMap::new(),
            steps: Rc::default(),
            known: Rc::default(),
            depth: 0,
        }
    }

    /// Evaluates an expression to a single scalar.
    pub fn evaluate(&mut self, expr: &Expr) -> Fallible<Value> {
        match self.leaves(expr)?.as_slice() {
            [one] => Ok(*one),
            values => Err(internal(expr.span, format!("a constant of {} parts where one is needed", values.len()))),
        }
    }

    /// Evaluates an expression to all scalars of its value.
    pub fn leaves(&mut self, expr: &Expr) -> Fallible<Vec<Value>> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(number) => self.literal(Literal::Int(*number), expr),
            ExprKind::Float(number) => self.literal(Literal::Float(*number), expr),
            ExprKind::Bool(value) => Ok(vec![Value::of(*value)]),
            ExprKind::Const(id) => self.item(*id, span),
            ExprKind::ConstParam(i) => Ok(vec![self.mono.const_param(*i, span)?]),
            ExprKind::Dim(dim) => match self.dims.get(*dim as usize).copied().flatten() {
                Some(extent) => Ok(vec![Value::of(extent as i32)]),
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
                    values.iter().try_for_each(|value| in_range(BinaryOp::Sub, Value::zero(value.ty), *value, span))?;
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
            | ExprKind::Stated(_)
            | ExprKind::Launch(_)
            | ExprKind::Range { .. }
            | ExprKind::Time(_) => Err(not_constant(span, "this is only known when the program runs")),
        }
    }

    /// The value of a constant that has a name.
    pub fn item(&mut self, id: ConstId, span: Span) -> Fallible<Vec<Value>> {
        let program = self.program;
        let constant = program.consts.get(id).ok_or_else(|| internal(span, "a constant that is not there"))?;
        if let Some(known) = self.known.borrow().get(&id) {
            return Ok(known.clone());
        }
        self.step(span)?;
        let values = self.nested(&[]).guarded(span)?.leaves(&constant.value);
        let values =
            values.map_err(|d| reached(d, constant.span, || format!("the value of `{}` needs it", constant.name)))?;
        self.known.borrow_mut().insert(id, values.clone());
        Ok(values)
    }

    fn literal(&self, literal: Literal, expr: &Expr) -> Fallible<Vec<Value>> {
        let ty = types::single(&self.ty(expr)?, expr.span)?;
        let value = literal.to(ty.scalar()).ok_or_else(|| literal.misfit(ty.scalar(), expr.span))?;
        Ok(vec![value; ty.lanes() as usize])
    }

    fn ty(&self, expr: &Expr) -> Fallible<Type> {
        self.mono.ty(&expr.ty, expr.span)
    }

    fn all(&mut self, parts: &[Expr]) -> Fallible<Vec<Value>> {
        let mut values = Vec::new();
        for part in parts {
            values.extend(self.leaves(part)?);
        }
        Ok(values)
    }

    fn convert(&mut self, to: Scalar, operand: &Expr) -> Fallible<Vec<Value>> {
        Ok(self.leaves(operand)?.into_iter().map(|value| value.to_type(to)).collect())
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> Fallible<Vec<Value>> {
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
            let equal = same.into_iter().all(Value::is_true);
            return Ok(vec![Value::of(equal == (op == BinaryOp::Eq))]);
        }
        apply(op, &first, &second, span, right.span)
    }

    fn builtin(&mut self, builtin: Builtin, args: &[Expr], expr: &Expr) -> Fallible<Vec<Value>> {
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
            (Builtin::WarpSize, _) => Ok(vec![Value::of(32_i32)]),
            // `full`: the last argument is the value of every element.
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

    fn shape(&mut self, builtin: Builtin, array: &Expr, rest: &[Expr], span: Span) -> Fallible<Vec<Value>> {
        let extents = self.extents(array)?;
        let axis = match (builtin, rest) {
            (Builtin::Len, _) => Some(0),
            (_, [axis, ..]) => self.evaluate(axis)?.as_integer(),
            (_, []) => return Ok(extents.into_iter().map(|n| Value::of(n as i32)).collect()),
        };
        axis.and_then(|axis| extents.get(usize::try_from(axis).ok()?).copied())
            .map(|n| vec![Value::of(n as i32)])
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
        let known = |dim: &Dim| match dim {
            Dim::Known(n) => Ok(*n),
            _ => Err(not_constant(array.span, "an array whose size is not known here")),
        };
        ty.dims.iter().map(known).collect()
    }

    // Limits on evaluation

    fn step(&self, span: Span) -> Fallible<()> {
        stop::poll();
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if steps > MAX_STEPS { Err(failed(span, "this takes too many steps to compute")) } else { Ok(()) }
    }

    /// Returns the environment for a called function or another constant.
    fn nested(&self, arguments: &[Argument]) -> Constants<'a> {
        let mut inner = Constants::new(self.program, arguments);
        inner.steps = self.steps.clone();
        inner.known = self.known.clone();
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
fn pure_builtin(builtin: Builtin, args: &[Vec<Value>], span: Span) -> Fallible<Vec<Value>> {
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
            let turned = |v: &[Value], by: usize| v.iter().cycle().skip(by).take(v.len()).copied().collect::<Vec<_>>();
            let product = |i, j| apply(BinaryOp::Mul, &turned(a, i), &turned(b, j), span, span);
            apply(BinaryOp::Sub, &product(1, 2)?, &product(2, 1)?, span, span)
        }
        _ => Err(not_constant(span, "this is only known when the program runs")),
    }
}

fn dot(a: &[Value], b: &[Value], span: Span) -> Fallible<Value> {
    let products = apply(BinaryOp::Mul, a, b, span, span)?;
    let (first, rest) = products.split_first().ok_or_else(|| internal(span, "`dot` of nothing"))?;
    rest.iter().try_fold(*first, |sum, &next| {
        in_range(BinaryOp::Add, sum, next, span)?;
        dynamic::binary(BinaryOp::Add, sum, next).map_err(|failure| failed(span, &failure.to_string()))
    })
}

fn math(function: MathFn, args: &[Vec<Value>], span: Span) -> Fallible<Vec<Value>> {
    let lanes = args.iter().map(Vec::len).max().unwrap_or(0);
    let mut results = Vec::with_capacity(lanes);
    for lane in 0..lanes {
        let scalars: Vec<Value> = args.iter().filter_map(|arg| arg.get(lane).or(arg.first()).copied()).collect();
        if is_reported_math(function, &scalars) {
            let shown: Vec<String> = scalars.iter().map(Value::to_string).collect();
            let ty = scalars.first().map_or("", |value| value.ty.name());
            return Err(failed(span, &format!("{}({}) does not fit `{ty}`", function.row().name, shown.join(", "))));
        }
        results.push(dynamic::math(function, &scalars).map_err(|failure| failed(span, &failure.to_string()))?);
    }
    Ok(results)
}

/// Matches the lowered form: the quotient plus one if there is a remainder.
fn ceil_div(x: Value, y: Value) -> Result<Value, dynamic::Failure> {
    let quotient = dynamic::binary(BinaryOp::Div, x, y)?;
    let covered = dynamic::binary(BinaryOp::Mul, quotient, y)?;
    let rest = dynamic::binary(BinaryOp::Ne, covered, x)?.to_type(quotient.ty);
    dynamic::binary(BinaryOp::Add, quotient, rest)
}

fn each(
    values: &[Value],
    apply: impl Fn(Value) -> Result<Value, dynamic::Failure>,
    span: Span,
) -> Fallible<Vec<Value>> {
    let results: Result<Vec<Value>, _> = values.iter().map(|&value| apply(value)).collect();
    results.map_err(|failure| failed(span, &failure.to_string()))
}

/// Combines two values componentwise; a single scalar is broadcast.
fn zip(
    left: &[Value],
    right: &[Value],
    apply: impl Fn(Value, Value) -> Result<Value, dynamic::Failure>,
    span: Span,
) -> Fallible<Vec<Value>> {
    let apply = |(l, r)| apply(l, r).map_err(|failure| failed(span, &failure.to_string()));
    pairs(left, right).map(apply).collect()
}

/// Returns the components of two values side by side; a single scalar is broadcast.
fn pairs(left: &[Value], right: &[Value]) -> impl Iterator<Item = (Value, Value)> {
    let at = |values: &[Value], lane: usize| values.get(lane).or(values.first()).copied();
    (0..left.len().max(right.len())).filter_map(move |lane| at(left, lane).zip(at(right, lane)))
}

/// Evaluates an operator. Overflow of signed integers is an error: a constant has one value, whether a run is checked or not.
fn apply(op: BinaryOp, left: &[Value], right: &[Value], span: Span, divisor: Span) -> Fallible<Vec<Value>> {
    pairs(left, right).try_for_each(|(l, r)| in_range(op, l, r, span))?;
    zip(left, right, |l, r| dynamic::binary(op, l, r), divisor)
}

/// Checks that the type of two signed integers represents the result of an operation.
fn in_range(op: BinaryOp, left: Value, right: Value, span: Span) -> Fallible<()> {
    let (Some(a), Some(b)) = (left.as_integer(), right.as_integer()) else { return Ok(()) };
    let ty = left.ty;
    let arithmetic = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Pow | BinaryOp::Div);
    if !ty.is_int() || !ty.is_signed() || !arithmetic || op == BinaryOp::Div && b == 0 {
        return Ok(());
    }
    match exact(op, a, b) {
        Some(found) if holds(ty, found) => Ok(()),
        _ => Err(failed(span, &format!("{a} {} {b} does not fit `{ty}`", op.symbol()))),
    }
}

fn negative(value: Value) -> bool {
    dynamic::unary(UnaryOp::Neg, value).is_ok() && value.as_f64() < 0.0
}

fn not_constant(span: Span, why: &str) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0489", "a constant cannot be computed").at(span, why).note(
            "constants are made of literals, other constants, const parameters, operators and calls of functions",
        ),
    )
}

/// Says how a mistake was reached, unless that has been said of the last few steps.
fn reached(d: Box<Diagnostic>, span: Span, how: impl FnOnce() -> String) -> Box<Diagnostic> {
    const STEPS: usize = 5;
    if d.labels.len() < STEPS { Box::new(d.because(span, how())) } else { d }
}

fn failed(span: Span, why: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("E0489", "a constant cannot be computed").at(span, why))
}
