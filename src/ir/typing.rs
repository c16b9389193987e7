//! Type rules: the result type of each operation for given operand types, shared by builder, verifier and passes.

use crate::ir::def::{BinOp, Place, Ty};
use crate::ir::def::{Function, Layout};
use crate::lang::ops::{AtomicOp, BarrierKind, Family, MathFn, Row, UnaryOp, WarpOp};
use crate::lang::scalar::Scalar;

pub const BOOL: Ty = Ty::Scalar(Scalar::Bool);
pub const I32: Ty = Ty::Scalar(Scalar::I32);
pub const U32: Ty = Ty::Scalar(Scalar::U32);
pub const F32: Ty = Ty::Scalar(Scalar::F32);

/// Returns the name of a type: `f32`, `i32x4`.
pub fn name(ty: Ty) -> String {
    match ty {
        Ty::Scalar(s) => s.name().to_string(),
        Ty::Vector(s, n) => format!("{}x{n}", s.name()),
    }
}

/// Parses a name; the inverse of [`name`].
pub(crate) fn from_name(text: &str) -> Option<Ty> {
    if let Some(s) = Scalar::from_name(text) {
        return Some(Ty::Scalar(s));
    }
    let (scalar, lanes) = text.rsplit_once('x')?;
    let lanes: u8 = lanes.parse().ok().filter(|n| (2..=4).contains(n))?;
    Some(Ty::Vector(Scalar::from_name(scalar)?, lanes))
}

fn need(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

pub fn unary(op: UnaryOp, value: Ty) -> Result<Ty, String> {
    let s = value.scalar();
    let fits = match op {
        UnaryOp::Neg => s.is_num(),
        UnaryOp::Not => s.is_int() || s == Scalar::Bool,
    };
    need(fits, || format!("{op:?} of {}", name(value)))?;
    Ok(value)
}

pub fn binary(op: BinOp, left: Ty, right: Ty) -> Result<Ty, String> {
    use BinOp::*;
    let s = left.scalar();
    let describe = || format!("{op:?} of {} and {}", name(left), name(right));
    if matches!(op, Shl | Shr) {
        need(s.is_int() && right.scalar().is_int() && left.lanes() == right.lanes(), describe)?;
        return Ok(left);
    }
    need(left == right, describe)?;
    let fits = match op {
        Add | Sub | Mul | Div | Rem | Pow | Lt | Le | Gt | Ge => s.is_num(),
        And | Or | Xor => s.is_int() || s == Scalar::Bool,
        Eq | Ne => true,
        Shl | Shr => s.is_int(),
    };
    need(fits, describe)?;
    Ok(if op.is_comparison() { left.with_scalar(Scalar::Bool) } else { left })
}

fn family_takes(family: Family, s: Scalar) -> bool {
    match family {
        Family::Numbers => s.is_num(),
        Family::Integers => s.is_int(),
        Family::Floats | Family::Tests | Family::Approximations | Family::Powers => s.is_float(),
        // Of `f64` in twins.
        Family::Singles => matches!(s, Scalar::F32 | Scalar::F64),
    }
}

pub fn math(function: MathFn, args: &[Ty]) -> Result<Ty, String> {
    let &Row { name: called, arity, family, .. } = function.row();
    need(args.len() == arity, || format!("{called} takes {arity} arguments, not {}", args.len()))?;
    let Some(&first) = args.first() else { return Err(format!("{called} without arguments")) };
    need(args.iter().all(|&a| a == first) && family_takes(family, first.scalar()), || {
        format!("{called} of {}", args.iter().map(|&a| name(a)).collect::<Vec<_>>().join(", "))
    })?;
    Ok(if family == Family::Tests { first.with_scalar(Scalar::Bool) } else { first })
}

pub fn select(cond: Ty, then: Ty, other: Ty) -> Result<Ty, String> {
    let lanes = cond.lanes() == 1 || cond.lanes() == then.lanes();
    need(cond.scalar() == Scalar::Bool && lanes && then == other, || {
        format!("select by {} of {} and {}", name(cond), name(then), name(other))
    })?;
    Ok(then)
}

pub(crate) fn convert(from: Ty, to: Ty) -> Result<Ty, String> {
    need(from.lanes() == to.lanes(), || format!("convert of {} to {}", name(from), name(to)))?;
    Ok(to)
}

pub(crate) fn bitcast(from: Ty, to: Ty) -> Result<Ty, String> {
    let fits = from.lanes() == to.lanes()
        && from.scalar().size() == to.scalar().size()
        && from.scalar().is_num()
        && to.scalar().is_num();
    need(fits, || format!("bitcast of {} to {}", name(from), name(to)))?;
    Ok(to)
}

pub(crate) fn compose(parts: &[Ty]) -> Result<Ty, String> {
    let first = parts.first().copied();
    match first {
        Some(Ty::Scalar(s)) if (2..=4).contains(&parts.len()) && parts.iter().all(|&p| Some(p) == first) => {
            Ok(Ty::Vector(s, parts.len() as u8))
        }
        _ => Err(format!("compose of {}", parts.iter().map(|&p| name(p)).collect::<Vec<_>>().join(", "))),
    }
}

pub fn extract(value: Ty, lane: u8) -> Result<Ty, String> {
    match value {
        Ty::Vector(s, n) if lane < n => Ok(Ty::Scalar(s)),
        _ => Err(format!("extract of lane {lane} of {}", name(value))),
    }
}

/// Returns the type of a leaf of an element, or of a component of it.
pub(crate) fn leaf(layout: &Layout, leaf: u32, component: Option<u8>) -> Result<Ty, String> {
    let Some(found) = layout.leaves.get(leaf as usize) else {
        return Err(format!("leaf {leaf} of a layout of {}", layout.leaves.len()));
    };
    match component {
        None => Ok(found.ty),
        Some(lane) => extract(found.ty, lane).map_err(|_| format!("component {lane} of {}", name(found.ty))),
    }
}

/// Returns the type of a memory location; its indices are not checked.
pub fn place(function: &Function, place: &Place) -> Result<Ty, String> {
    match function.memories.get(place.memory) {
        Some(memory) => leaf(&memory.layout, place.leaf, place.component),
        None => Err(format!("memory {:?} does not exist", place.memory)),
    }
}

/// Returns the type of the old value of an atomic operation on a location of this type.
pub(crate) fn atomic(op: AtomicOp, place: Ty) -> Result<Ty, String> {
    use AtomicOp::*;
    let Ty::Scalar(s) = place else { return Err(format!("atomic {op:?} on {}", name(place))) };
    let fits = match op {
        Add | Sub | Min | Max => s.is_num(),
        And | Or | Xor => s.is_int() || s == Scalar::Bool,
        Exchange | CompareExchange => true,
    };
    need(fits, || format!("atomic {op:?} on {}", name(place)))?;
    Ok(place)
}

/// Returns the operand type and the result type of a barrier.
pub fn barrier(kind: BarrierKind) -> (Option<Ty>, Option<Ty>) {
    use BarrierKind::*;
    match kind {
        Block | Warp | Grid => (None, None),
        BlockAny | BlockAll => (Some(BOOL), Some(BOOL)),
        BlockCount => (Some(BOOL), Some(I32)),
    }
}

/// Returns whether a warp operation has a second argument.
pub fn warp_has_lane(op: WarpOp) -> bool {
    use WarpOp::*;
    matches!(op, Shuffle | ShuffleUp | ShuffleDown | ShuffleXor)
}

pub fn warp(op: WarpOp, value: Ty) -> Result<Ty, String> {
    use WarpOp::*;
    let s = value.scalar();
    let scalar = value.lanes() == 1;
    let (fits, result) = match op {
        Shuffle | ShuffleUp | ShuffleDown | ShuffleXor => (true, value),
        Ballot => (value == BOOL, U32),
        Any | All => (value == BOOL, BOOL),
        ReduceAdd | ReduceMin | ReduceMax => (scalar && s.is_num(), value),
        ReduceAnd | ReduceOr | ReduceXor => (scalar && s.is_int(), value),
        MatchAny => (scalar, U32),
    };
    need(fits, || format!("{op:?} of {}", name(value)))?;
    Ok(result)
}
