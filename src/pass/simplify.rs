//! Constant folding and algebraic simplification.
//!
//! Everything is exact, for every value. On floats only `x * 1`, `x / 1`, `x - 0` and `x + -0` are removed: they change no number, only
//! the bits of a loaded NaN. `x + 0` stays because of `-0`. A division becomes a multiplication only for a power of two, whose reciprocal
//! is exact. An integer division by a constant zero stays: it is a fault. So does, for runs with checks, what these report.

use rustc_hash::FxHashSet;

use super::edit::{self, Renames, integer_of, rename_all, value_of};
use crate::base::stop;
use crate::ir::def::*;
use crate::lang::ops::UnaryOp;
use crate::lang::scalar::exact::{
    is_first_nonfinite, is_reported, is_reported_conversion, is_reported_math, is_reported_unary,
};
use crate::lang::scalar::{Scalar, Value, dynamic};

pub(crate) fn run(module: &mut Module) {
    run_with(module, Reported::Nothing);
}

/// As [`run`], but operations on constants that checks report stay.
pub(crate) fn run_checked(module: &mut Module) {
    run_with(module, Reported::Arithmetic);
}

/// Like [`run_checked`], but also keeps operations on constants that give a NaN or an infinity.
pub(crate) fn run_trapping(module: &mut Module) {
    run_with(module, Reported::Nonfinite);
}

/// Which operations on constants a run reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reported {
    Nothing,
    /// Overflow, shifts by too much, conversions out of range.
    Arithmetic,
    /// These, and the first NaN or infinity.
    Nonfinite,
}

/// Forgets what derivatives take as constants, where none is taken any more.
pub(crate) fn release(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let mut renames = Renames::default();
        for (id, expr) in function.exprs.iter().filter(|(id, _)| is_held(function, *id)) {
            expr.kind.operands(|value| renames.set(id, value));
        }
        rename_all(function, &renames);
    }
}

/// Returns whether an expression is its operand, taken as a constant.
pub fn is_held(function: &Function, id: ExprId) -> bool {
    let Expr { kind, ty } = &function.exprs[id];
    matches!(kind, ExprKind::Bitcast(value) if function.exprs[*value].ty == *ty)
}

fn run_with(module: &mut Module, reported: Reported) {
    for (_, function) in module.functions.iter_mut() {
        known_extents(function);
        let body = std::mem::take(&mut function.body);
        let mut simplify = Simplify { reported, counters: FxHashSet::default(), function, renames: Renames::default() };
        simplify.walk(&body);
        let renames = simplify.renames;
        function.body = body;
        rename_all(function, &renames);
    }
}

/// Replaces extents that are known at compile time by constants.
fn known_extents(function: &mut Function) {
    let memories = &function.memories;
    for (_, expr) in function.exprs.iter_mut() {
        if let ExprKind::Extent(memory, axis) = expr.kind
            && let Some(Extent::Known(n)) = memories[memory].extents.get(axis as usize)
        {
            expr.kind = ExprKind::Const(*n as u64);
        }
    }
}

struct Simplify<'a> {
    reported: Reported,
    function: &'a mut Function,
    renames: Renames,
    /// Counters of enclosing loops that are never negative.
    counters: FxHashSet<LocalId>,
}

impl Simplify<'_> {
    fn walk(&mut self, block: &Block) {
        for stmt in block {
            if let StmtKind::Let(id) = stmt.kind {
                stop::poll();
                let kind = &mut self.function.exprs[id].kind;
                kind.operands_mut(|operand| *operand = self.renames.resolve(*operand));
                self.visit(id);
            }
            let counter = self.counter(&stmt.kind);
            self.counters.extend(counter);
            for inner in stmt.kind.blocks() {
                self.walk(inner);
            }
            if let Some(counter) = counter {
                self.counters.remove(&counter);
            }
        }
    }

    fn counter(&self, kind: &StmtKind) -> Option<LocalId> {
        let StmtKind::For { local, start, step, .. } = kind else { return None };
        let (start, step) = (self.renames.resolve(*start), self.renames.resolve(*step));
        let up = integer_of(self.function, step).is_some_and(|step| step > 0);
        (up && self.not_negative(start, 0)).then_some(*local)
    }

    /// Simplifies one expression as far as possible.
    fn visit(&mut self, id: ExprId) {
        // Each step makes the expression smaller or moves a constant to the right, so this ends; the bound is for safety.
        for _ in 0..8 {
            let found = simplified(self.function, id, self.reported).or_else(|| self.power_of_two(id));
            match found {
                Some(Found::Operand(other)) => return self.renames.set(id, other),
                Some(Found::Constant(value)) => {
                    self.function.exprs[id].kind = ExprKind::Const(value.bits);
                    return;
                }
                Some(Found::Kind(kind)) => self.function.exprs[id].kind = kind,
                None => return,
            }
        }
    }

    /// Replaces the division of a nonnegative value by a power of two by a shift or a mask.
    fn power_of_two(&mut self, id: ExprId) -> Option<Found> {
        let ExprKind::Binary { op: op @ (BinOp::Div | BinOp::Rem), left, right } = self.function.exprs[id].kind else {
            return None;
        };
        let divisor = integer_of(self.function, right)?;
        let scalar = self.function.exprs[right].ty.scalar();
        if divisor <= 0 || !(divisor as u128).is_power_of_two() || !self.not_negative(left, 0) {
            return None;
        }
        let (op, amount) = match op {
            BinOp::Div => (BinOp::Shr, divisor.trailing_zeros() as u64),
            _ => (BinOp::And, divisor as u64 - 1),
        };
        let right = edit::constant(self.function, Value { ty: scalar, bits: amount });
        Some(Kind(ExprKind::Binary { op, left, right }))
    }

    /// Returns whether an integer is known to be nonnegative.
    fn not_negative(&self, id: ExprId, depth: usize) -> bool {
        let expr = &self.function.exprs[id];
        if expr.ty.scalar().is_unsigned() {
            return true;
        }
        if depth > 4 || !matches!(expr.ty, Ty::Scalar(_)) {
            return false;
        }
        let certain = |id: &ExprId| self.not_negative(*id, depth + 1);
        match &expr.kind {
            ExprKind::Const(_) => integer_of(self.function, id).is_some_and(|value| value >= 0),
            // Global ids may wrap in a grid of more than 2^31 threads.
            ExprKind::Id(Id3::Global, _) => false,
            ExprKind::Id(..) | ExprKind::Index(_) | ExprKind::LaneIdx | ExprKind::WarpIdx => true,
            ExprKind::Extent(..) => true,
            ExprKind::Read(local) => self.counters.contains(local),
            ExprKind::Binary { op: BinOp::Div | BinOp::Rem, left, right } => certain(left) && certain(right),
            ExprKind::Binary { op: BinOp::Shr, left, .. } => certain(left),
            ExprKind::Binary { op: BinOp::And, left, right } => certain(left) || certain(right),
            ExprKind::Select { then, other, .. } => certain(then) && certain(other),
            _ => false,
        }
    }
}

/// The replacement of an expression.
enum Found {
    Operand(ExprId),
    Constant(Value),
    Kind(ExprKind),
}
use Found::{Constant, Kind, Operand};

fn simplified(function: &mut Function, id: ExprId, reported: Reported) -> Option<Found> {
    let checked = reported != Reported::Nothing;
    if checked && is_fault(function, id) {
        return None;
    }
    if let Some(value) = folded(function, id) {
        return (reported != Reported::Nonfinite || !is_trapped(function, id, value)).then_some(Constant(value));
    }
    let expr = function.exprs[id].clone();
    match expr.kind {
        ExprKind::Unary { op, value } => match &function.exprs[value].kind {
            // The smallest number has no negative, which checks report.
            ExprKind::Unary { op: UnaryOp::Neg, .. } if checked && !expr.ty.scalar().is_float() => None,
            ExprKind::Unary { op: inner, value } if *inner == op => Some(Operand(*value)),
            ExprKind::Binary { op: inner, left, right } if op == UnaryOp::Not => {
                let op = inverse(*inner, function.exprs[*left].ty)?;
                Some(Kind(ExprKind::Binary { op, left: *left, right: *right }))
            }
            _ => None,
        },
        ExprKind::Binary { op, left, right } => binary(function, op, (left, right), expr.ty, reported),
        ExprKind::Select { cond, then, other } => select(function, cond, then, other, expr.ty),
        ExprKind::Convert(value) if function.exprs[value].ty == expr.ty => Some(Operand(value)),
        ExprKind::Bitcast(value) => match function.exprs[value].kind {
            ExprKind::Bitcast(inner) if !is_held(function, value) && !is_held(function, id) => {
                // Not a view as its own type, which would be taken as a constant by derivatives.
                let is_back = function.exprs[inner].ty == expr.ty;
                Some(if is_back { Operand(inner) } else { Kind(ExprKind::Bitcast(inner)) })
            }
            _ => None,
        },
        ExprKind::Extract { value, lane } => match &function.exprs[value].kind {
            ExprKind::Compose(parts) => parts.get(lane as usize).map(|&part| Operand(part)),
            _ => None,
        },
        ExprKind::Compose(parts) => recomposed(function, &parts, expr.ty).map(Operand),
        ExprKind::Load { place, .. } => constants(function, &place),
        _ => None,
    }
}

/// Returns the value of an array of constants at a known location.
fn constants(function: &mut Function, place: &Place) -> Option<Found> {
    let memory = &function.memories[place.memory];
    if memory.space != Space::Constant || !edit::in_bounds(function, place) {
        return None;
    }
    let mut at = 0;
    for (extent, &index) in memory.extents.iter().zip(&place.indices) {
        let Extent::Known(extent) = *extent else { return None };
        at = at * extent as usize + usize::try_from(integer_of(function, index)?).ok()?;
    }
    let leaves = &memory.layout.leaves;
    let leaf = leaves.get(place.leaf as usize)?.ty;
    let before: usize = leaves[..place.leaf as usize].iter().map(|leaf| usize::from(leaf.ty.lanes())).sum();
    let first = at * memory.layout.scalars() + before + usize::from(place.component.unwrap_or(0));
    let count = if place.component.is_some() { 1 } else { usize::from(leaf.lanes()) };
    let values: Vec<Value> =
        memory.values.get(first..first + count)?.iter().map(|&bits| Value { ty: leaf.scalar(), bits }).collect();
    Some(match values.as_slice() {
        [one] => Constant(*one),
        lanes => Kind(ExprKind::Compose(lanes.iter().map(|&lane| edit::constant(function, lane)).collect())),
    })
}

/// Whether checks report an operation on constants.
fn is_fault(function: &Function, id: ExprId) -> bool {
    let expr = &function.exprs[id];
    let value = |id: ExprId| value_of(function, id);
    let found = match &expr.kind {
        ExprKind::Unary { op, value: operand } => value(*operand).map(|x| is_reported_unary(*op, x)),
        ExprKind::Binary { op, left, right } => {
            value(*left).zip(value(*right)).map(|(l, r)| is_reported(op.operator(), l, r))
        }
        ExprKind::Math { function: math, args } => {
            let args: Option<Vec<Value>> = args.iter().map(|&arg| value(arg)).collect();
            args.map(|args| is_reported_math(*math, &args))
        }
        ExprKind::Convert(operand) => value(*operand).map(|x| is_reported_conversion(expr.ty.scalar(), x)),
        _ => None,
    };
    found == Some(true)
}

/// Whether an operation on constants gives the first NaN or infinity.
fn is_trapped(function: &Function, id: ExprId, result: Value) -> bool {
    let kind = &function.exprs[id].kind;
    let mut operands = vec![];
    kind.operands(|operand| operands.extend(value_of(function, operand)));
    !matches!(kind, ExprKind::Bitcast(_)) && is_first_nonfinite(&operands, result)
}

/// Returns the value of an operation on constants.
fn folded(function: &Function, id: ExprId) -> Option<Value> {
    let expr = &function.exprs[id];
    let Ty::Scalar(scalar) = expr.ty else { return None };
    let value = |id: ExprId| value_of(function, id);
    let result = match &expr.kind {
        ExprKind::Unary { op, value: operand } => dynamic::unary(*op, value(*operand)?).ok()?,
        ExprKind::Binary { op, left, right } => dynamic::binary(op.operator(), value(*left)?, value(*right)?).ok()?,
        ExprKind::Math { function: math, args } => {
            let args: Option<Vec<Value>> = args.iter().map(|&arg| value(arg)).collect();
            dynamic::math(*math, &args?).ok()?
        }
        ExprKind::Convert(operand) => dynamic::convert(scalar, value(*operand)?),
        ExprKind::Bitcast(operand) => dynamic::bitcast(scalar, value(*operand)?).ok()?,
        _ => return None,
    };
    (result.ty == scalar).then_some(result)
}

/// Returns the negation of a comparison. With NaN only equality has one.
fn inverse(op: BinOp, operands: Ty) -> Option<BinOp> {
    let ordered = !operands.scalar().is_float();
    match op {
        BinOp::Eq => Some(BinOp::Ne),
        BinOp::Ne => Some(BinOp::Eq),
        BinOp::Lt if ordered => Some(BinOp::Ge),
        BinOp::Ge if ordered => Some(BinOp::Lt),
        BinOp::Gt if ordered => Some(BinOp::Le),
        BinOp::Le if ordered => Some(BinOp::Gt),
        _ => None,
    }
}

fn binary(
    function: &mut Function,
    op: BinOp,
    (left, right): (ExprId, ExprId),
    ty: Ty,
    reported: Reported,
) -> Option<Found> {
    use BinOp::*;
    let operands = function.exprs[left].ty;
    // Reports show the operands as they were written.
    let is_shown = match operands.scalar().is_float() {
        true => reported >= Reported::Nonfinite,
        false => reported >= Reported::Arithmetic && operands.scalar().is_signed(),
    };
    let commutes = matches!(op, And | Or | Xor | Eq | Ne) || matches!(op, Add | Mul) && !is_shown;
    if commutes && value_of(function, left).is_some() && value_of(function, right).is_none() {
        return Some(Kind(ExprKind::Binary { op, left: right, right: left }));
    }
    let scalar = operands.scalar();
    if scalar.is_float() {
        return float(function, op, left, right, is_shown);
    }
    if left == right {
        let same = match op {
            And | Or => Some(Operand(left)),
            Eq | Le | Ge => truth(ty, true),
            Ne | Lt | Gt => truth(ty, false),
            Sub | Xor => zero(ty),
            _ => None,
        };
        if same.is_some() {
            return same;
        }
    }
    let constant = value_of(function, right)?;
    let all_ones = Value::from_bits(constant.ty, u64::MAX).bits;
    match (op, integer_of(function, right)) {
        (And, _) if scalar == Scalar::Bool => Some(if constant.bits == 1 { Operand(left) } else { Operand(right) }),
        (Or, _) if scalar == Scalar::Bool => Some(if constant.bits == 1 { Operand(right) } else { Operand(left) }),
        (Eq | Ne, _) if scalar == Scalar::Bool => Some(if (op == Eq) == (constant.bits == 1) {
            Operand(left)
        } else {
            Kind(ExprKind::Unary { op: UnaryOp::Not, value: left })
        }),
        (Add | Sub | Or | Xor | Shl | Shr, Some(0)) => Some(Operand(left)),
        (Mul | Div, Some(1)) => Some(Operand(left)),
        (Mul | And, Some(0)) => Some(Operand(right)),
        (Rem, Some(1)) => zero(ty),
        (And, Some(_)) if constant.bits == all_ones => Some(Operand(left)),
        (Or, Some(_)) if constant.bits == all_ones => Some(Operand(right)),
        _ => None,
    }
}

fn float(function: &mut Function, op: BinOp, left: ExprId, right: ExprId, is_shown: bool) -> Option<Found> {
    let constant = value_of(function, right)?;
    let value: f64 = constant.to();
    let negative_zero = value == 0.0 && value.is_sign_negative();
    match op {
        BinOp::Mul | BinOp::Div if value == 1.0 => Some(Operand(left)),
        BinOp::Sub if value == 0.0 && !negative_zero => Some(Operand(left)),
        BinOp::Add if negative_zero => Some(Operand(left)),
        BinOp::Div if matches!(constant.ty, Scalar::F32 | Scalar::F64) && !is_shown => {
            let reciprocal = exact_reciprocal(constant)?;
            let right = edit::constant(function, reciprocal);
            Some(Kind(ExprKind::Binary { op: BinOp::Mul, left, right }))
        }
        _ => None,
    }
}

/// Returns `1 / value`, if that is exact: for powers of two in the normal range.
fn exact_reciprocal(value: Value) -> Option<Value> {
    let exact: f64 = value.to();
    let (mantissa, least) = match value.ty {
        Scalar::F32 => (value.bits & 0x007f_ffff, f32::MIN_POSITIVE as f64),
        _ => (value.bits & 0x000f_ffff_ffff_ffff, f64::MIN_POSITIVE),
    };
    let reciprocal = 1.0 / exact;
    let normal = exact.is_finite() && exact.abs() >= least && reciprocal.abs() >= least;
    (mantissa == 0 && normal).then(|| Value::of(reciprocal).to_type(value.ty))
}

fn truth(ty: Ty, holds: bool) -> Option<Found> {
    (ty == Ty::Scalar(Scalar::Bool)).then(|| Constant(Value::of(holds)))
}

fn zero(ty: Ty) -> Option<Found> {
    matches!(ty, Ty::Scalar(_)).then(|| Constant(Value::zero(ty.scalar())))
}

fn select(function: &Function, cond: ExprId, then: ExprId, other: ExprId, ty: Ty) -> Option<Found> {
    if then == other {
        return Some(Operand(then));
    }
    if let Some(cond) = value_of(function, cond) {
        return Some(Operand(if cond.bits == 1 { then } else { other }));
    }
    if let ExprKind::Unary { op: UnaryOp::Not, value } = function.exprs[cond].kind {
        return Some(Kind(ExprKind::Select { cond: value, then: other, other: then }));
    }
    if ty != Ty::Scalar(Scalar::Bool) {
        return None;
    }
    let constant = |id: ExprId| value_of(function, id).map(|value| value.bits == 1);
    match (constant(then), constant(other)) {
        (Some(true), Some(false)) => Some(Operand(cond)),
        (Some(false), Some(true)) => Some(Kind(ExprKind::Unary { op: UnaryOp::Not, value: cond })),
        (None, Some(false)) => Some(Kind(ExprKind::Binary { op: BinOp::And, left: cond, right: then })),
        (Some(true), None) => Some(Kind(ExprKind::Binary { op: BinOp::Or, left: cond, right: other })),
        _ => None,
    }
}

/// Returns the vector that is reassembled from all its lanes in order.
fn recomposed(function: &Function, parts: &[ExprId], ty: Ty) -> Option<ExprId> {
    let source = |(i, &part): (usize, &ExprId)| match function.exprs[part].kind {
        ExprKind::Extract { value, lane } if lane as usize == i => Some(value),
        _ => None,
    };
    let mut sources = parts.iter().enumerate().map(source);
    let first = sources.next()??;
    (function.exprs[first].ty == ty && sources.all(|s| s == Some(first))).then_some(first)
}
