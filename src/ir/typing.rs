//! Type rules: the result type of each operation for given operand types, shared by builder, verifier and passes.

use thiserror::Error;

use crate::def::{BinOp, ElementLayout, Function, LocalId, MemId, Place, Ty};
use clk_scalar::Scalar;
use clk_scalar::ops::{AtomicOp, BarrierKind, MathFamily, MathFn, MathFnInfo, UnaryOp, WarpOp};

pub const BOOL: Ty = Ty::Scalar(Scalar::Bool);
pub const I32: Ty = Ty::Scalar(Scalar::I32);
pub const U32: Ty = Ty::Scalar(Scalar::U32);
pub const F32: Ty = Ty::Scalar(Scalar::F32);

/// Parses the name of a type.
pub(crate) fn from_name(text: &str) -> Option<Ty> {
    if let Some(s) = Scalar::from_name(text) {
        return Some(Ty::Scalar(s));
    }
    let (scalar, lanes) = text.rsplit_once('x')?;
    let lanes: u8 = lanes.parse().ok().filter(|n| (2..=4).contains(n))?;
    Some(Ty::Vector(Scalar::from_name(scalar)?, lanes))
}

/// Why an operation has no result type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TypingError {
    #[error("{op:?} of {value}")]
    Unary { op: UnaryOp, value: Ty },
    #[error("{op:?} of {left} and {right}")]
    Binary { op: BinOp, left: Ty, right: Ty },
    #[error("{function} takes {arity} arguments, not {count}")]
    ArgumentCount { function: &'static str, arity: usize, count: usize },
    #[error("{function} of {}", list(.args))]
    Math { function: &'static str, args: Vec<Ty> },
    #[error("select by {cond} of {then} and {other}")]
    Select { cond: Ty, then: Ty, other: Ty },
    #[error("convert of {from} to {to}")]
    Convert { from: Ty, to: Ty },
    #[error("bitcast of {from} to {to}")]
    Bitcast { from: Ty, to: Ty },
    #[error("compose of {}", list(.0))]
    Compose(Vec<Ty>),
    #[error("extract of lane {lane} of {value}")]
    Extract { value: Ty, lane: u8 },
    #[error("leaf {leaf} of a layout of {count}")]
    Leaf { leaf: u32, count: usize },
    #[error("component {component} of {leaf}")]
    Component { component: u8, leaf: Ty },
    #[error("atomic {op:?} on {place}")]
    Atomic { op: AtomicOp, place: Ty },
    #[error("{op:?} of {value}")]
    Warp { op: WarpOp, value: Ty },
    #[error("a constant of {0}")]
    Constant(Ty),
    #[error("the bits {bits:#x} do not fit {scalar}")]
    ConstantBits { bits: u64, scalar: Scalar },
    #[error("a thread id in a `threads` kernel")]
    ThreadId,
    #[error("index {0}, which the kernel does not have")]
    NoIndex(u8),
    #[error("axis {axis} of `{memory}`")]
    NoAxis { axis: u8, memory: String },
    #[error("value parameter {0} does not exist")]
    NoParam(u32),
    #[error("local {0:?} does not exist")]
    NoLocal(LocalId),
    #[error("memory {0:?} does not exist")]
    NoMemory(MemId),
    #[error("{count} indices into `{memory}` of rank {rank}")]
    IndexCount { count: usize, memory: String, rank: usize },
    #[error("an index into `{memory}` is {index}")]
    Index { memory: String, index: Ty },
    #[error("`{0}` is read-only, but it is written")]
    ReadOnly(String),
}

fn list(types: &[Ty]) -> String {
    types.iter().map(Ty::to_string).collect::<Vec<_>>().join(", ")
}

type TypingResult = Result<Ty, TypingError>;

pub fn unary(op: UnaryOp, value: Ty) -> TypingResult {
    let s = value.scalar();
    let is_valid = match op {
        UnaryOp::Neg => s.is_num(),
        UnaryOp::Not => s.is_int() || s == Scalar::Bool,
    };
    if is_valid { Ok(value) } else { Err(TypingError::Unary { op, value }) }
}

pub fn binary(op: BinOp, left: Ty, right: Ty) -> TypingResult {
    use BinOp::*;
    let s = left.scalar();
    let is_valid = match op {
        Add | Sub | Mul | Div | Rem | Pow | Lt | Le | Gt | Ge => left == right && s.is_num(),
        And | Or | Xor => left == right && (s.is_int() || s == Scalar::Bool),
        Eq | Ne => left == right,
        Shl | Shr => s.is_int() && right.scalar().is_int() && left.lanes() == right.lanes(),
    };
    if !is_valid {
        return Err(TypingError::Binary { op, left, right });
    }
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

pub fn math(function: MathFn, args: &[Ty]) -> TypingResult {
    let &MathFnInfo { name: function, arity, family, .. } = function.row();
    match args {
        _ if args.len() != arity => Err(TypingError::ArgumentCount { function, arity, count: args.len() }),
        [first, rest @ ..] if rest.iter().all(|ty| ty == first) && family_accepts(family, first.scalar()) => {
            Ok(if family == MathFamily::Tests { first.with_scalar(Scalar::Bool) } else { *first })
        }
        _ => Err(TypingError::Math { function, args: args.to_vec() }),
    }
}

pub fn select(cond: Ty, then: Ty, other: Ty) -> TypingResult {
    let lanes = cond.lanes() == 1 || cond.lanes() == then.lanes();
    let is_valid = cond.scalar() == Scalar::Bool && lanes && then == other;
    if is_valid { Ok(then) } else { Err(TypingError::Select { cond, then, other }) }
}

pub(crate) fn convert(from: Ty, to: Ty) -> TypingResult {
    if from.lanes() == to.lanes() { Ok(to) } else { Err(TypingError::Convert { from, to }) }
}

pub(crate) fn bitcast(from: Ty, to: Ty) -> TypingResult {
    let is_valid = from.lanes() == to.lanes()
        && from.scalar().size() == to.scalar().size()
        && from.scalar().is_num()
        && to.scalar().is_num();
    if is_valid { Ok(to) } else { Err(TypingError::Bitcast { from, to }) }
}

pub(crate) fn compose(parts: &[Ty]) -> TypingResult {
    let first = parts.first().copied();
    match first {
        Some(Ty::Scalar(s)) if (2..=4).contains(&parts.len()) && parts.iter().all(|&p| Some(p) == first) => {
            Ok(Ty::Vector(s, parts.len() as u8))
        }
        _ => Err(TypingError::Compose(parts.to_vec())),
    }
}

pub fn extract(value: Ty, lane: u8) -> TypingResult {
    match value {
        Ty::Vector(s, n) if lane < n => Ok(Ty::Scalar(s)),
        _ => Err(TypingError::Extract { value, lane }),
    }
}

/// Returns the type of a leaf of an element, or of a component of that leaf.
pub(crate) fn leaf(layout: &ElementLayout, leaf: u32, component: Option<u8>) -> TypingResult {
    let Some(leaf_layout) = layout.leaves.get(leaf as usize) else {
        return Err(TypingError::Leaf { leaf, count: layout.leaves.len() });
    };
    let leaf = leaf_layout.ty;
    component
        .map_or(Ok(leaf), |component| extract(leaf, component).map_err(|_| TypingError::Component { component, leaf }))
}

/// Returns the type of a memory location. Does not check the indices.
pub fn place(function: &Function, place: &Place) -> TypingResult {
    match function.memories.get(place.memory) {
        Some(memory) => leaf(&memory.layout, place.leaf, place.component),
        None => Err(TypingError::NoMemory(place.memory)),
    }
}

/// Returns the type of the old value of an atomic operation on a location of this type.
pub(crate) fn atomic(op: AtomicOp, place: Ty) -> TypingResult {
    use AtomicOp::*;
    let s = place.scalar();
    let is_valid = match op {
        Add | Sub | Min | Max => s.is_num(),
        And | Or | Xor => s.is_int() || s == Scalar::Bool,
        Exchange | CompareExchange => true,
    };
    if is_valid && place.lanes() == 1 { Ok(place) } else { Err(TypingError::Atomic { op, place }) }
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

pub fn warp(op: WarpOp, value: Ty) -> TypingResult {
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
    if is_valid { Ok(result) } else { Err(TypingError::Warp { op, value }) }
}
