//! Constant folding and algebraic simplification.
//!
//! Rewrites never change a result, apart from the bits of a NaN. On floats, only `x * 1`, `x / 1`, `x - 0` and `x + -0`
//! are removed; `x + 0` is not, because it is `+0` for `x = -0`. A division becomes a multiplication only for powers of
//! two, whose reciprocal is exact. An integer division by a constant zero is kept, because it is a fault. With checks
//! enabled, operations that the checks would report are also kept.

use rustc_hash::FxHashSet;

use super::edit::{self, Renames, rename_all};
use clk_base::stop;
use clk_ir::def::*;
use clk_scalar::exact::{is_first_nonfinite, is_reported, is_reported_conversion, is_reported_math, is_reported_unary};
use clk_scalar::ops::UnaryOp;
use clk_scalar::{Scalar, ScalarValue, dynamic};

pub(crate) fn run(module: &mut Module) {
    run_with(module, ReportedFaults::Nothing);
}

/// Like [`run`], but does not fold operations on constants that checks report.
pub(crate) fn run_checked(module: &mut Module) {
    run_with(module, ReportedFaults::Arithmetic);
}

/// Like [`run_checked`], but also does not fold operations on constants that result in a NaN or an infinity.
pub(crate) fn run_trapping(module: &mut Module) {
    run_with(module, ReportedFaults::Nonfinite);
}

/// The faults in operations on constants that the launch reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReportedFaults {
    Nothing,
    /// Overflow, out-of-range shifts and conversions.
    Arithmetic,
    /// The faults of `Arithmetic`, and the first NaN or infinity.
    Nonfinite,
}

/// Removes the markers of values that derivatives treat as constants. For kernels that will not be differentiated.
pub(crate) fn drop_gradient_barriers(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let mut renames = Renames::default();
        for (id, expr) in function.exprs.iter().filter(|(id, _)| is_gradient_barrier(function, *id)) {
            expr.kind.operands(|value| renames.set(id, value));
        }
        rename_all(function, &renames);
    }
}

/// Returns whether an expression only marks its operand as a constant for derivatives: a bitcast of a float to its own
/// type.
pub fn is_gradient_barrier(function: &Function, id: ExprId) -> bool {
    let Expr { kind, ty } = &function.exprs[id];
    matches!(kind, ExprKind::Bitcast(value) if function.exprs[*value].ty == *ty)
}

fn run_with(module: &mut Module, reported: ReportedFaults) {
    for (_, function) in module.functions.iter_mut() {
        fold_extents(function);
        let body = std::mem::take(&mut function.body);
        let mut simplify =
            Simplify { reported, nonnegative_counters: FxHashSet::default(), function, renames: Renames::default() };
        simplify.simplify_block(&body);
        let renames = simplify.renames;
        function.body = body;
        rename_all(function, &renames);
    }
}

/// Replaces extents that are known at compile time by constants.
fn fold_extents(function: &mut Function) {
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
    reported: ReportedFaults,
    function: &'a mut Function,
    renames: Renames,
    /// Those counters of enclosing loops that are never negative.
    nonnegative_counters: FxHashSet<LocalId>,
}

impl Simplify<'_> {
    fn simplify_block(&mut self, block: &Block) {
        for stmt in block {
            if let StmtKind::Let(id) = stmt.kind {
                stop::poll();
                let kind = &mut self.function.exprs[id].kind;
                kind.operands_mut(|operand| *operand = self.renames.resolve(*operand));
                self.simplify_expr(id);
            }
            let counter = self.nonnegative_counter(&stmt.kind);
            self.nonnegative_counters.extend(counter);
            for inner in stmt.kind.blocks() {
                self.simplify_block(inner);
            }
            if let Some(counter) = counter {
                self.nonnegative_counters.remove(&counter);
            }
        }
    }

    fn nonnegative_counter(&self, kind: &StmtKind) -> Option<LocalId> {
        let StmtKind::For { local, start, step, .. } = kind else { return None };
        let (start, step) = (self.renames.resolve(*start), self.renames.resolve(*step));
        let up = self.function.const_integer(step).is_some_and(|step| step > 0);
        (up && self.is_nonnegative(start, 0)).then_some(*local)
    }

    /// Simplifies one expression until no rule applies.
    fn simplify_expr(&mut self, id: ExprId) {
        // Each step makes the expression smaller or moves a constant to the right, so the loop terminates anyway. The
        // limit guards against rules that undo each other.
        for _ in 0..8 {
            let replacement =
                find_replacement(self.function, id, self.reported).or_else(|| self.divide_by_power_of_two(id));
            match replacement {
                Some(Replacement::Operand(other)) => return self.renames.set(id, other),
                Some(Replacement::Constant(value)) => {
                    self.function.exprs[id].kind = ExprKind::Const(value.bits);
                    return;
                }
                Some(Replacement::Kind(kind)) => self.function.exprs[id].kind = kind,
                None => return,
            }
        }
    }

    /// Replaces the division of a nonnegative value by a power of two by a shift or a mask.
    fn divide_by_power_of_two(&mut self, id: ExprId) -> Option<Replacement> {
        let ExprKind::Binary { op: op @ (BinOp::Div | BinOp::Rem), left, right } = self.function.exprs[id].kind else {
            return None;
        };
        let divisor = self.function.const_integer(right)?;
        let scalar = self.function.exprs[right].ty.scalar();
        if divisor <= 0 || !(divisor as u128).is_power_of_two() || !self.is_nonnegative(left, 0) {
            return None;
        }
        let (op, amount) = match op {
            BinOp::Div => (BinOp::Shr, divisor.trailing_zeros() as u64),
            _ => (BinOp::And, divisor as u64 - 1),
        };
        let right = edit::constant(self.function, ScalarValue { ty: scalar, bits: amount });
        Some(Kind(ExprKind::Binary { op, left, right }))
    }

    /// Returns whether an integer is known to be nonnegative.
    fn is_nonnegative(&self, id: ExprId, depth: usize) -> bool {
        let expr = &self.function.exprs[id];
        if expr.ty.scalar().is_unsigned() {
            return true;
        }
        if depth > 4 || !matches!(expr.ty, Ty::Scalar(_)) {
            return false;
        }
        let operand_is_nonnegative = |id: &ExprId| self.is_nonnegative(*id, depth + 1);
        match &expr.kind {
            ExprKind::Const(_) => self.function.const_integer(id).is_some_and(|value| value >= 0),
            // `global_idx` may wrap around to a negative number in a grid of more than 2^31 threads.
            ExprKind::Id(BuiltinIndex::Global, _) => false,
            ExprKind::Id(..) | ExprKind::Index(_) | ExprKind::LaneIdx | ExprKind::WarpIdx => true,
            ExprKind::Extent(..) => true,
            ExprKind::Read(local) => self.nonnegative_counters.contains(local),
            ExprKind::Binary { op: BinOp::Div | BinOp::Rem, left, right } => {
                operand_is_nonnegative(left) && operand_is_nonnegative(right)
            }
            ExprKind::Binary { op: BinOp::Shr, left, .. } => operand_is_nonnegative(left),
            ExprKind::Binary { op: BinOp::And, left, right } => {
                operand_is_nonnegative(left) || operand_is_nonnegative(right)
            }
            ExprKind::Select { then, other, .. } => operand_is_nonnegative(then) && operand_is_nonnegative(other),
            _ => false,
        }
    }
}

/// What replaces an expression.
enum Replacement {
    Operand(ExprId),
    Constant(ScalarValue),
    Kind(ExprKind),
}
use Replacement::{Constant, Kind, Operand};

fn find_replacement(function: &mut Function, id: ExprId, reported: ReportedFaults) -> Option<Replacement> {
    let checked = reported != ReportedFaults::Nothing;
    if checked && is_reported_fault(function, id) {
        return None;
    }
    if let Some(value) = fold(function, id) {
        return (reported != ReportedFaults::Nonfinite || !is_trapped_nonfinite(function, id, value))
            .then_some(Constant(value));
    }
    let expr = function.exprs[id].clone();
    match expr.kind {
        ExprKind::Unary { op, value } => match &function.exprs[value].kind {
            // Checks report the negation of the smallest integer, so negations of signed integers are kept.
            ExprKind::Unary { op: UnaryOp::Neg, .. } if checked && !expr.ty.scalar().is_float() => None,
            ExprKind::Unary { op: inner, value } if *inner == op => Some(Operand(*value)),
            ExprKind::Binary { op: inner, left, right } if op == UnaryOp::Not => {
                let op = negated_comparison(*inner, function.exprs[*left].ty)?;
                Some(Kind(ExprKind::Binary { op, left: *left, right: *right }))
            }
            _ => None,
        },
        ExprKind::Binary { op, left, right } => simplify_binary(function, op, left, right, expr.ty, reported),
        ExprKind::Select { cond, then, other } => simplify_select(function, cond, then, other, expr.ty),
        ExprKind::Convert(value) if function.exprs[value].ty == expr.ty => Some(Operand(value)),
        ExprKind::Bitcast(value) => match function.exprs[value].kind {
            ExprKind::Bitcast(inner) if !is_gradient_barrier(function, value) && !is_gradient_barrier(function, id) => {
                // A bitcast to the original type is dropped, because derivatives would treat it as a constant marker.
                let is_back = function.exprs[inner].ty == expr.ty;
                Some(if is_back { Operand(inner) } else { Kind(ExprKind::Bitcast(inner)) })
            }
            _ => None,
        },
        ExprKind::Extract { value, lane } => match &function.exprs[value].kind {
            ExprKind::Compose(parts) => parts.get(lane as usize).map(|&part| Operand(part)),
            _ => None,
        },
        ExprKind::Compose(parts) => recomposed_vector(function, &parts, expr.ty).map(Operand),
        ExprKind::Load { place, .. } => fold_constant_load(function, &place),
        _ => None,
    }
}

/// Returns the element of a constant array if the indices are constants.
fn fold_constant_load(function: &mut Function, place: &Place) -> Option<Replacement> {
    let memory = &function.memories[place.memory];
    if memory.space != MemorySpace::Constant {
        return None;
    }
    let at = usize::try_from(function.const_position(place)?).ok()?;
    let leaf = memory.layout.leaves.get(place.leaf as usize)?.ty;
    let first = at * memory.layout.scalar_count() + memory.layout.scalars_before(place.leaf, place.component);
    let count = if place.component.is_some() { 1 } else { usize::from(leaf.lanes()) };
    let values: Vec<ScalarValue> =
        memory.values.get(first..first + count)?.iter().map(|&bits| ScalarValue { ty: leaf.scalar(), bits }).collect();
    Some(match values.as_slice() {
        [one] => Constant(*one),
        lanes => Kind(ExprKind::Compose(lanes.iter().map(|&lane| edit::constant(function, lane)).collect())),
    })
}

/// Returns whether checks report a fault for an operation on constants.
fn is_reported_fault(function: &Function, id: ExprId) -> bool {
    let expr = &function.exprs[id];
    let value = |id: ExprId| function.const_value(id);
    let is_reported_op = match &expr.kind {
        ExprKind::Unary { op, value: operand } => value(*operand).map(|x| is_reported_unary(*op, x)),
        ExprKind::Binary { op, left, right } => {
            value(*left).zip(value(*right)).map(|(l, r)| is_reported(op.operator(), l, r))
        }
        ExprKind::Math { function: math, args } => {
            let args: Option<Vec<ScalarValue>> = args.iter().map(|&arg| value(arg)).collect();
            args.map(|args| is_reported_math(*math, &args))
        }
        ExprKind::Convert(operand) => value(*operand).map(|x| is_reported_conversion(expr.ty.scalar(), x)),
        _ => None,
    };
    is_reported_op == Some(true)
}

/// Returns whether an operation on finite constants results in a NaN or an infinity.
fn is_trapped_nonfinite(function: &Function, id: ExprId, result: ScalarValue) -> bool {
    let kind = &function.exprs[id].kind;
    let mut operands = vec![];
    kind.operands(|operand| operands.extend(function.const_value(operand)));
    !matches!(kind, ExprKind::Bitcast(_)) && is_first_nonfinite(&operands, result)
}

/// Computes an operation on constants.
fn fold(function: &Function, id: ExprId) -> Option<ScalarValue> {
    let expr = &function.exprs[id];
    let Ty::Scalar(scalar) = expr.ty else { return None };
    let value = |id: ExprId| function.const_value(id);
    let result = match &expr.kind {
        ExprKind::Unary { op, value: operand } => dynamic::unary(*op, value(*operand)?).ok()?,
        ExprKind::Binary { op, left, right } => dynamic::binary(op.operator(), value(*left)?, value(*right)?).ok()?,
        ExprKind::Math { function: math, args } => {
            let args: Option<Vec<ScalarValue>> = args.iter().map(|&arg| value(arg)).collect();
            dynamic::math(*math, &args?).ok()?
        }
        ExprKind::Convert(operand) => dynamic::convert(scalar, value(*operand)?),
        ExprKind::Bitcast(operand) => dynamic::bitcast(scalar, value(*operand)?).ok()?,
        _ => return None,
    };
    (result.ty == scalar).then_some(result)
}

/// Returns the comparison with the opposite result. For floats, this exists only for `==` and `!=`, because ordered
/// comparisons with NaN are always false.
fn negated_comparison(op: BinOp, operands: Ty) -> Option<BinOp> {
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

fn simplify_binary(
    function: &mut Function,
    op: BinOp,
    left: ExprId,
    right: ExprId,
    ty: Ty,
    reported: ReportedFaults,
) -> Option<Replacement> {
    use BinOp::*;
    let operands = function.exprs[left].ty;
    // Fault reports show the operands in source order, so operands of reported operations must not be swapped.
    let shows_operands = match operands.scalar().is_float() {
        true => reported >= ReportedFaults::Nonfinite,
        false => reported >= ReportedFaults::Arithmetic && operands.scalar().is_signed(),
    };
    let commutes = matches!(op, And | Or | Xor | Eq | Ne) || matches!(op, Add | Mul) && !shows_operands;
    if commutes && function.const_value(left).is_some() && function.const_value(right).is_none() {
        return Some(Kind(ExprKind::Binary { op, left: right, right: left }));
    }
    let scalar = operands.scalar();
    if scalar.is_float() {
        return simplify_float(function, op, left, right, shows_operands);
    }
    if left == right {
        let same = match op {
            And | Or => Some(Operand(left)),
            Eq | Le | Ge => bool_constant(ty, true),
            Ne | Lt | Gt => bool_constant(ty, false),
            Sub | Xor => zero_constant(ty),
            _ => None,
        };
        if same.is_some() {
            return same;
        }
    }
    let constant = function.const_value(right)?;
    let all_ones = ScalarValue::from_bits(constant.ty, u64::MAX).bits;
    match (op, function.const_integer(right)) {
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
        (Rem, Some(1)) => zero_constant(ty),
        (And, Some(_)) if constant.bits == all_ones => Some(Operand(left)),
        (Or, Some(_)) if constant.bits == all_ones => Some(Operand(right)),
        _ => None,
    }
}

fn simplify_float(
    function: &mut Function,
    op: BinOp,
    left: ExprId,
    right: ExprId,
    is_shown: bool,
) -> Option<Replacement> {
    let constant = function.const_value(right)?;
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

/// Returns `1 / value` if it is exact: if the value is a power of two and the reciprocal a normal number.
fn exact_reciprocal(value: ScalarValue) -> Option<ScalarValue> {
    let exact: f64 = value.to();
    let (mantissa, least) = match value.ty {
        Scalar::F32 => (value.bits & 0x007f_ffff, f32::MIN_POSITIVE as f64),
        _ => (value.bits & 0x000f_ffff_ffff_ffff, f64::MIN_POSITIVE),
    };
    let reciprocal = 1.0 / exact;
    let normal = exact.is_finite() && exact.abs() >= least && reciprocal.abs() >= least;
    (mantissa == 0 && normal).then(|| ScalarValue::of(reciprocal).to_type(value.ty))
}

fn bool_constant(ty: Ty, holds: bool) -> Option<Replacement> {
    (ty == Ty::Scalar(Scalar::Bool)).then(|| Constant(ScalarValue::of(holds)))
}

fn zero_constant(ty: Ty) -> Option<Replacement> {
    matches!(ty, Ty::Scalar(_)).then(|| Constant(ScalarValue::zero(ty.scalar())))
}

fn simplify_select(function: &Function, cond: ExprId, then: ExprId, other: ExprId, ty: Ty) -> Option<Replacement> {
    if then == other {
        return Some(Operand(then));
    }
    if let Some(cond) = function.const_value(cond) {
        return Some(Operand(if cond.bits == 1 { then } else { other }));
    }
    if let ExprKind::Unary { op: UnaryOp::Not, value } = function.exprs[cond].kind {
        return Some(Kind(ExprKind::Select { cond: value, then: other, other: then }));
    }
    if ty != Ty::Scalar(Scalar::Bool) {
        return None;
    }
    let constant = |id: ExprId| function.const_value(id).map(|value| value.bits == 1);
    match (constant(then), constant(other)) {
        (Some(true), Some(false)) => Some(Operand(cond)),
        (Some(false), Some(true)) => Some(Kind(ExprKind::Unary { op: UnaryOp::Not, value: cond })),
        (None, Some(false)) => Some(Kind(ExprKind::Binary { op: BinOp::And, left: cond, right: then })),
        (Some(true), None) => Some(Kind(ExprKind::Binary { op: BinOp::Or, left: cond, right: other })),
        _ => None,
    }
}

/// If all lanes of a vector are extracted and composed again in the same order, returns the original vector.
fn recomposed_vector(function: &Function, parts: &[ExprId], ty: Ty) -> Option<ExprId> {
    let source = |(i, &part): (usize, &ExprId)| match function.exprs[part].kind {
        ExprKind::Extract { value, lane } if lane as usize == i => Some(value),
        _ => None,
    };
    let mut sources = parts.iter().enumerate().map(source);
    let first = sources.next()??;
    (function.exprs[first].ty == ty && sources.all(|s| s == Some(first))).then_some(first)
}
