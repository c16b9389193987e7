//! The facts about a launch on which generated code of a GPU back end depends: values of parameters, extents of arrays
//! and of the launch. Code may have conditions about these facts, which are tested before each launch.

use super::{Arg, LaunchExtents, SignaturePromise};
use clk_ir::def::{BuiltinIndex, ExprId, ExprKind, Function, MemorySpace};
use clk_ir::ranges::{LaunchConstant, SymbolInequality};
use clk_ir::{MAX_ELEMENTS, PreparedKernel};
use clk_scalar::{ScalarValue, dynamic};

/// The facts about a launch on which the conditions of generated code depend.
pub trait LaunchFacts {
    /// Returns the value of the value parameter at this position.
    fn value(&self, param: usize) -> Option<ScalarValue>;
    /// Returns the extent of an array parameter.
    fn extent(&self, param: usize, axis: usize) -> Option<u32>;
    /// Returns the rank of an array parameter, or `None` for other parameters.
    fn rank(&self, param: usize) -> Option<usize>;
    /// Returns the extents of the launch.
    fn extents(&self) -> LaunchExtents;
}

/// The facts of a launch with these arguments.
pub struct ArgFacts<'a, 'b> {
    /// The arguments of the launch.
    pub args: &'a [Arg<'b>],
    /// The extents of the launch.
    pub extents: LaunchExtents,
    /// What the host has verified about the launch, if it satisfies the kernel's signature.
    pub declared: Option<SignaturePromise>,
}

impl LaunchFacts for ArgFacts<'_, '_> {
    fn value(&self, param: usize) -> Option<ScalarValue> {
        match self.args.get(param)? {
            Arg::Value(values) => values.first().copied(),
            _ => None,
        }
    }

    fn extent(&self, param: usize, axis: usize) -> Option<u32> {
        self.args.get(param)?.shape()?.get(axis).copied()
    }

    fn rank(&self, param: usize) -> Option<usize> {
        self.args.get(param)?.shape().map(<[u32]>::len)
    }

    fn extents(&self) -> LaunchExtents {
        self.extents
    }
}

/// Returns the value of a launch constant in a launch.
fn constant_value(facts: &dyn LaunchFacts, constant: LaunchConstant) -> Option<i128> {
    match (constant, facts.extents()) {
        (LaunchConstant::Extent { param, axis }, _) => facts.extent(param as usize, axis as usize).map(i128::from),
        (LaunchConstant::Param(param), _) => facts.value(param as usize)?.as_integer(),
        (LaunchConstant::Index(k), LaunchExtents::Threads(sizes)) => sizes.get(k as usize).copied().map(i128::from),
        (LaunchConstant::BlockDim(axis), LaunchExtents::Grid { block, .. }) => {
            block.get(axis as usize).copied().map(i128::from)
        }
        (LaunchConstant::GridDim(axis), LaunchExtents::Grid { grid, .. }) => {
            grid.get(axis as usize).copied().map(i128::from)
        }
        (LaunchConstant::Threads(axis), LaunchExtents::Grid { grid, block }) => {
            Some(i128::from(*grid.get(axis as usize)?) * i128::from(*block.get(axis as usize)?))
        }
        _ => None,
    }
}

/// Returns whether an inequality holds in a launch, or `None` if the launch does not have one of its constants.
pub fn holds(bound: &SymbolInequality, facts: &dyn LaunchFacts) -> Option<bool> {
    let left = match bound.left {
        Some(left) => constant_value(facts, left)?,
        None => 0,
    };
    let right = match bound.right {
        Ok(right) => constant_value(facts, right)?,
        Err(number) => number.into(),
    };
    Some(left + i128::from(bound.plus) <= right)
}

/// Evaluates an expression that is the same for all threads of a launch. Returns `None` if the expression varies or has
/// no value.
pub fn evaluate(function: &Function, id: ExprId, facts: &dyn LaunchFacts) -> Option<ScalarValue> {
    let expr = function.exprs.get(id)?;
    let number = |n: u32| Some(ScalarValue::of(n as i32));
    let of = |id: ExprId| evaluate(function, id, facts);
    match &expr.kind {
        ExprKind::Const(bits) => Some(ScalarValue { ty: expr.ty.scalar(), bits: *bits }),
        ExprKind::Param(i) => facts.value(*i as usize),
        ExprKind::Id(id, axis) => match (id, facts.extents()) {
            (BuiltinIndex::BlockDim, LaunchExtents::Grid { block, .. }) => number(block[*axis as usize]),
            (BuiltinIndex::GridDim, LaunchExtents::Grid { grid, .. }) => number(grid[*axis as usize]),
            _ => None,
        },
        ExprKind::Extent(memory, axis) => match function.memories[*memory].space {
            MemorySpace::Global { param, .. } => number(facts.extent(param as usize, *axis as usize)?),
            _ => None,
        },
        ExprKind::Unary { op, value } => dynamic::unary(*op, of(*value)?).ok(),
        ExprKind::Binary { op, left, right } => dynamic::binary(op.operator(), of(*left)?, of(*right)?).ok(),
        ExprKind::Math { function, args } => {
            let args: Option<Vec<ScalarValue>> = args.iter().map(|&arg| of(arg)).collect();
            dynamic::math(*function, &args?).ok()
        }
        ExprKind::Select { cond, then, other } => of(if of(*cond)?.is_true() { *then } else { *other }),
        ExprKind::Convert(value) => Some(of(*value)?.to_type(expr.ty.scalar())),
        ExprKind::Bitcast(value) => dynamic::bitcast(expr.ty.scalar(), of(*value)?).ok(),
        _ => None,
    }
}

/// Returns whether some conditions are about the values of parameters.
pub fn depend_on_values(conditions: &[SymbolInequality]) -> bool {
    let is_value = |constant: &LaunchConstant| matches!(constant, LaunchConstant::Param(_));
    let mut conditions = conditions.iter();
    conditions.any(|b| b.left.as_ref().is_some_and(is_value) || b.right.as_ref().is_ok_and(is_value))
}

/// Returns whether the in-bounds proofs for launches that match the kernel's signature apply to a launch. Returns true
/// if no such proofs are used.
pub fn has_proved_bounds(kernel: &PreparedKernel, declared: Option<SignaturePromise>) -> bool {
    let Some(declared_launches) = &kernel.declared_launches else { return true };
    let proofs = declared_launches.in_bounds(&kernel.module);
    let applies =
        |launch: SignaturePromise| launch.largest <= MAX_ELEMENTS && (launch.promises || !proofs.uses_promises);
    proofs.axes.is_empty() || declared.is_some_and(applies)
}
