//! Evaluates expressions in the stepper, with `clk_scalar::dynamic`.

use super::check::{self, ThreadFault};
use super::event::{AccessEvent, AccessKind};
use super::thread::{ByteLocation as At, Thread, ThreadEnvironment};
use super::value::ThreadValue;
use clk_base::source::Span;
use clk_ir::Checks;
use clk_ir::def::*;
use clk_runtime::FaultKind;
use clk_scalar::ScalarValue;
use clk_scalar::dynamic::{self, ScalarError};

impl Thread<'_> {
    /// Returns the value of an expression. Uses the value that a `Let` or another statement has computed for it;
    /// otherwise evaluates the expression.
    pub(super) fn eval(&mut self, world: &mut ThreadEnvironment<'_>, expr: ExprId) -> Result<ThreadValue, ThreadFault> {
        match self.frame().values[expr.index()] {
            Some(val) => Ok(val),
            None => self.compute(world, expr),
        }
    }

    pub(super) fn compute(
        &mut self,
        world: &mut ThreadEnvironment<'_>,
        expr: ExprId,
    ) -> Result<ThreadValue, ThreadFault> {
        let function = self.frame().function;
        let (kind, ty, span) = (&function.exprs[expr].kind, function.exprs[expr].ty, function.spans[expr]);
        Ok(match kind {
            ExprKind::Const(bits) => ThreadValue { ty, lanes: [*bits; 4] },
            ExprKind::Param(i) => self.frame().params[*i as usize],
            ExprKind::Id(id, axis) => ThreadValue::i32(self.id(*id, *axis)),
            ExprKind::Index(k) => ThreadValue::i32(self.ids.index.map_or(0, |(index, _)| index[*k as usize]) as i32),
            ExprKind::LaneIdx => ThreadValue::i32((self.ids.flat % 32) as i32),
            ExprKind::WarpIdx => ThreadValue::i32((self.ids.flat / 32) as i32),
            ExprKind::Extent(memory, axis) => {
                ThreadValue::i32(self.frame().arrays[memory.index()].extents[*axis as usize] as i32)
            }
            ExprKind::Read(local) => self.frame().local(*local).unwrap_or_else(|| ThreadValue::zero(ty)),
            ExprKind::Load { place, .. } => {
                let at = self.place(world, place, false, span)?;
                let (value, before) = self.load(world, at);
                if before.is_none() {
                    let space = self.frame().function.memories[place.memory].space;
                    check::read(world.checks, &self.frame().arrays[at.array], at.offset, space, span)?;
                }
                let array = &self.frame().arrays[at.array];
                let access =
                    AccessEvent { kind: AccessKind::Load, array, offset: at.offset, ty: at.ty, before, value, span };
                world.observer.access(world.at, &access);
                value
            }
            ExprKind::Unary { op, value } => {
                let val = self.eval(world, *value)?;
                for value in val.values() {
                    check::unary(world.checks, *op, value, span)?;
                }
                lanes(ty, |i| dynamic::unary(*op, val.lane(i)), span)?
            }
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.eval(world, *left)?, self.eval(world, *right)?);
                binary(world.checks, *op, ty, left, right, span)?
            }
            ExprKind::Math { function, args } => {
                let args =
                    args.iter().map(|&a| self.eval(world, a)).collect::<Result<Vec<ThreadValue>, ThreadFault>>()?;
                let at = |i: usize| args.iter().map(|a| a.lane(i)).collect::<Vec<ScalarValue>>();
                let val = lanes(ty, |i| dynamic::math(*function, &at(i)), span)?;
                for (i, result) in val.values().enumerate() {
                    check::math(world.checks, *function, &at(i), result, span)?;
                }
                val
            }
            ExprKind::Select { cond, then, other } => {
                let cond = self.eval(world, *cond)?;
                let (then, other) = (self.eval(world, *then)?, self.eval(world, *other)?);
                let holds = |i: usize| cond.lane(if cond.ty.lanes() == 1 { 0 } else { i }).is_true();
                lanes(ty, |i| Ok(if holds(i) { then.lane(i) } else { other.lane(i) }), span)?
            }
            ExprKind::Convert(value) => {
                let val = self.eval(world, *value)?;
                let to = lanes(ty, |i| Ok(dynamic::convert(ty.scalar(), val.lane(i))), span)?;
                for (value, result) in val.values().zip(to.values()) {
                    check::conversion(world.checks, value, result, span)?;
                }
                to
            }
            ExprKind::Bitcast(value) => {
                let val = self.eval(world, *value)?;
                lanes(ty, |i| dynamic::bitcast(ty.scalar(), val.lane(i)), span)?
            }
            ExprKind::Compose(parts) => {
                let parts =
                    parts.iter().map(|&p| self.eval(world, p)).collect::<Result<Vec<ThreadValue>, ThreadFault>>()?;
                ThreadValue::from_values(ty, parts.iter().map(|p| p.lane(0)))
            }
            ExprKind::Extract { value, lane } => ThreadValue::scalar(self.eval(world, *value)?.lane(*lane as usize)),
            ExprKind::Result => panic!("a result is used before its statement"),
        })
    }

    fn id(&self, id: BuiltinIndex, axis: Axis) -> i32 {
        let axis = axis as usize;
        let ids = &self.ids;
        (match id {
            BuiltinIndex::Thread => ids.thread[axis],
            BuiltinIndex::Block => ids.block[axis],
            BuiltinIndex::BlockDim => ids.block_dim[axis],
            BuiltinIndex::GridDim => ids.grid_dim[axis],
            BuiltinIndex::Global => ids.block[axis] * ids.block_dim[axis] + ids.thread[axis],
        }) as i32
    }

    /// Evaluates the indices of a memory access, and returns the location of the accessed bytes.
    pub(super) fn place(
        &mut self,
        world: &mut ThreadEnvironment<'_>,
        place: &Place,
        write: bool,
        span: Span,
    ) -> Result<At, ThreadFault> {
        let indices =
            place.indices.iter().map(|&i| self.eval(world, i)).collect::<Result<Vec<ThreadValue>, ThreadFault>>()?;
        let indices: Vec<i128> = indices.iter().map(ThreadValue::integer).collect();
        let array = &self.frame().arrays[place.memory.index()];
        let mut element = 0;
        for (axis, (&index, &extent)) in indices.iter().zip(&array.extents).enumerate() {
            if index < 0 || index >= extent.into() {
                let indices = indices.iter().map(|&i| i as i64).collect();
                let (array, shape) = (array.name.to_string(), array.extents.clone());
                return Err((FaultKind::OutOfBounds { array, indices, shape, axis, write }, span));
            }
            element = element * extent as usize + index as usize;
        }
        let leaf = &array.layout.leaves[place.leaf as usize];
        let offset = element * array.layout.size + leaf.offset;
        let (store, array) = (array.store, place.memory.index());
        Ok(match place.component {
            None => At { array, store, offset, ty: leaf.ty },
            Some(lane) => {
                let scalar = leaf.ty.scalar();
                At { array, store, offset: offset + lane as usize * scalar.size(), ty: Ty::Scalar(scalar) }
            }
        })
    }
}

fn lanes(
    ty: Ty,
    at: impl Fn(usize) -> Result<ScalarValue, ScalarError>,
    span: Span,
) -> Result<ThreadValue, ThreadFault> {
    let mut val = ThreadValue::zero(ty);
    for lane in 0..ty.lanes() as usize {
        let value = at(lane).unwrap_or_else(|e| panic!("{e} at {span:?}: the verifier lets no such module pass"));
        assert_eq!(value.ty, ty.scalar(), "the type of an expression at {span:?}");
        val.lanes[lane] = value.bits;
    }
    Ok(val)
}

fn binary(
    checks: Checks,
    op: BinOp,
    ty: Ty,
    left: ThreadValue,
    right: ThreadValue,
    span: Span,
) -> Result<ThreadValue, ThreadFault> {
    let divides = matches!(op, BinOp::Div | BinOp::Rem) && left.ty.scalar().is_int();
    for (left, right) in left.values().zip(right.values()) {
        if divides && right == ScalarValue::zero(right.ty) {
            return Err((FaultKind::DivisionByZero { left }, span));
        }
        check::binary(checks, op, left, right, span)?;
    }
    let val = lanes(ty, |i| dynamic::binary(op.operator(), left.lane(i), right.lane(i)), span)?;
    for (i, result) in val.values().enumerate() {
        check::computed(checks, op, [left.lane(i), right.lane(i)], result, span)?;
    }
    Ok(val)
}
