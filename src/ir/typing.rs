//! Type rules: the result type of each operation for given operand types, shared by builder, verifier and passes.

use crate::def::{BinOp, Place, Ty};
use crate::def::{ElementLayout, Function};
use clk_scalar::Scalar;
use clk_scalar::ops::{AtomicOp, BarrierKind, MathFamily, MathFn, MathFnInfo, UnaryOp, WarpOp};

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

/// Parses the name of a type. The inverse of [`name`].
pub(crate) fn from_name(text: &str) -> Option<Ty> {
    if let Some(s) = Scalar::from_name(text) {
        return Some(Ty::Scalar(s));
    }
    let (scalar, lanes) = text.rsplit_once('x')?;
    let lanes: u8 = lanes.parse().ok().filter(|n| (2..=4).contains(n))?;
    Some(Ty::Vector(Scalar::from_name(scalar)?, lanes))
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

pub fn unary(op: UnaryOp, value: Ty) -> Result<Ty, String> {
    let s = value.scalar();
    let is_valid = match op {
        UnaryOp::Neg => s.is_num(),
        UnaryOp::Not => s.is_int() || s == Scalar::Bool,
    };
    ensure(is_valid, || format!("{op:?} of {}", name(value)))?;
    Ok(value)
}

pub fn binary(op: BinOp, left: Ty, right: Ty) -> Result<Ty, String> {
    use BinOp::*;
    let s = left.scalar();
    let describe = || format!("{op:?} of {} and {}", name(left), name(right));
    if matches!(op, Shl | Shr) {
        ensure(s.is_int() && right.scalar().is_int() && left.lanes() == right.lanes(), describe)?;
        return Ok(left);
    }
    ensure(left == right, describe)?;
    let is_valid = match op {
        Add | Sub | Mul | Div | Rem | Pow | Lt | Le | Gt | Ge => s.is_num(),
        And | Or | Xor => s.is_int() || s == Scalar::Bool,
        Eq | Ne => true,
        Shl | Shr => s.is_int(),
    };
    ensure(is_valid, describe)?;
    Ok(if op.is_comparison() { left.with_scalar(Scalar::Bool) } else { left })
}

fn family_accepts(family: MathFamily, s: Scalar) -> bool {
    match family {
        MathFamily::Numbers => s.is_num(),
        MathFamily::Integers => s.is_int(),
        MathFamily::Floats | MathFamily::Tests | MathFamily::Approximations | MathFamily::Powers => s.is_float(),
        // Shadow programs, in which `f64` replaces all floats, use these functions with `f64`.
        MathFamily::Singles => matches!(s, Scalar::F32 | Scalar::F64),
    }
}

pub fn math(function: MathFn, args: &[Ty]) -> Result<Ty, String> {
    let &MathFnInfo { name: called, arity, family, .. } = function.row();
    ensure(args.len() == arity, || format!("{called} takes {arity} arguments, not {}", args.len()))?;
    let Some(&first) = args.first() else { return Err(format!("{called} without arguments")) };
    ensure(args.iter().all(|&a| a == first) && family_accepts(family, first.scalar()), || {
        format!("{called} of {}", args.iter().map(|&a| name(a)).collect::<Vec<_>>().join(", "))
    })?;
    Ok(if family == MathFamily::Tests { first.with_scalar(Scalar::Bool) } else { first })
}

pub fn select(cond: Ty, then: Ty, other: Ty) -> Result<Ty, String> {
    let lanes = cond.lanes() == 1 || cond.lanes() == then.lanes();
    ensure(cond.scalar() == Scalar::Bool && lanes && then == other, || {
        format!("select by {} of {} and {}", name(cond), name(then), name(other))
    })?;
    Ok(then)
}

pub(crate) fn convert(from: Ty, to: Ty) -> Result<Ty, String> {
    ensure(from.lanes() == to.lanes(), || format!("convert of {} to {}", name(from), name(to)))?;
    Ok(to)
}

pub(crate) fn bitcast(from: Ty, to: Ty) -> Result<Ty, String> {
    let is_valid = from.lanes() == to.lanes()
        && from.scalar().size() == to.scalar().size()
        && from.scalar().is_num()
        && to.scalar().is_num();
    ensure(is_valid, || format!("bitcast of {} to {}", name(from), name(to)))?;
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

/// Returns the type of a leaf of an element, or of a component of that leaf.
pub(crate) fn leaf(layout: &ElementLayout, leaf: u32, component: Option<u8>) -> Result<Ty, String> {
    let Some(leaf_layout) = layout.leaves.get(leaf as usize) else {
        return Err(format!("leaf {leaf} of a layout of {}", layout.leaves.len()));
    };
    match component {
        None => Ok(leaf_layout.ty),
        Some(lane) => {
            extract(leaf_layout.ty, lane).map_err(|_| format!("component {lane} of {}", name(leaf_layout.ty)))
        }
    }
}

/// Returns the type of a memory location. Does not check the indices.
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
    let is_valid = match op {
        Add | Sub | Min | Max => s.is_num(),
        And | Or | Xor => s.is_int() || s == Scalar::Bool,
        Exchange | CompareExchange => true,
    };
    ensure(is_valid, || format!("atomic {op:?} on {}", name(place)))?;
    Ok(place)
}

/// Returns the operand type and the result type of a barrier; `None` for a barrier without operand or result.
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
    let (is_valid, result) = match op {
        Shuffle | ShuffleUp | ShuffleDown | ShuffleXor => (true, value),
        Ballot => (value == BOOL, U32),
        Any | All => (value == BOOL, BOOL),
        ReduceAdd | ReduceMin | ReduceMax => (scalar && s.is_num(), value),
        ReduceAnd | ReduceOr | ReduceXor => (scalar && s.is_int(), value),
        MatchAny => (scalar, U32),
    };
    ensure(is_valid, || format!("{op:?} of {}", name(value)))?;
    Ok(result)
}
