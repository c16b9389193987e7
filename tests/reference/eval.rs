//! Expressions of the reference interpreter, evaluated by `lang::scalar::dynamic`.

use clk_lang::base::source::Span;
use clk_lang::device::FaultKind;
use clk_lang::ir::def::*;
use clk_lang::lang::scalar::Value;
use clk_lang::lang::scalar::dynamic::{self, Failure};

use super::memory::{Store, Val};
use super::thread::{Stop, Thread, World};

impl Thread<'_> {
    /// Returns the value of an expression: the one computed by a `Let` or a statement, or evaluates one that has no such statement.
    pub(super) fn eval(&mut self, world: &mut World<'_>, expr: ExprId) -> Result<Val, Stop> {
        match self.frame().values[expr.index()] {
            Some(val) => Ok(val),
            None => self.compute(world, expr),
        }
    }

    pub(super) fn compute(&mut self, world: &mut World<'_>, expr: ExprId) -> Result<Val, Stop> {
        let function = self.frame().function;
        let (kind, ty, span) = (&function.exprs[expr].kind, function.exprs[expr].ty, function.spans[expr]);
        Ok(match kind {
            ExprKind::Const(bits) => Val { ty, lanes: [*bits; 4] },
            ExprKind::Param(i) => self.frame().params[*i as usize],
            ExprKind::Id(id, axis) => Val::i32(self.id(*id, *axis)),
            ExprKind::Index(k) => Val::i32(self.ids.index.map_or(0, |(index, _)| index[*k as usize]) as i32),
            ExprKind::LaneIdx => Val::i32((self.ids.flat % 32) as i32),
            ExprKind::WarpIdx => Val::i32((self.ids.flat / 32) as i32),
            ExprKind::Extent(memory, axis) => {
                Val::i32(self.frame().arrays[memory.index()].extents[*axis as usize] as i32)
            }
            ExprKind::Read(local) => self.frame().locals[local.index()],
            ExprKind::Load { place, .. } => {
                let (store, offset, ty) = self.place(world, place, false, span)?;
                self.arrays(world).load(store, offset, ty)
            }
            ExprKind::Unary { op, value } => {
                let val = self.eval(world, *value)?;
                lanes(ty, |i| dynamic::unary(*op, val.lane(i)), span)?
            }
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.eval(world, *left)?, self.eval(world, *right)?);
                binary(*op, ty, left, right, span)?
            }
            ExprKind::Math { function, args } => {
                let args = args.iter().map(|&a| self.eval(world, a)).collect::<Result<Vec<Val>, Stop>>()?;
                let at = |i: usize| args.iter().map(|a| a.lane(i)).collect::<Vec<Value>>();
                lanes(ty, |i| dynamic::math(*function, &at(i)), span)?
            }
            ExprKind::Select { cond, then, other } => {
                let cond = self.eval(world, *cond)?;
                let (then, other) = (self.eval(world, *then)?, self.eval(world, *other)?);
                let holds = |i: usize| cond.lane(if cond.ty.lanes() == 1 { 0 } else { i }).is_true();
                lanes(ty, |i| Ok(if holds(i) { then.lane(i) } else { other.lane(i) }), span)?
            }
            ExprKind::Convert(value) => {
                let val = self.eval(world, *value)?;
                lanes(ty, |i| Ok(dynamic::convert(ty.scalar(), val.lane(i))), span)?
            }
            ExprKind::Bitcast(value) => {
                let val = self.eval(world, *value)?;
                lanes(ty, |i| dynamic::bitcast(ty.scalar(), val.lane(i)), span)?
            }
            ExprKind::Compose(parts) => {
                let parts = parts.iter().map(|&p| self.eval(world, p)).collect::<Result<Vec<Val>, Stop>>()?;
                Val::from_values(ty, parts.iter().map(|p| p.lane(0)))
            }
            ExprKind::Extract { value, lane } => Val::scalar(self.eval(world, *value)?.lane(*lane as usize)),
            ExprKind::Result => panic!("a result is used before its statement"),
        })
    }

    fn id(&self, id: Id3, axis: Axis) -> i32 {
        let axis = axis as usize;
        let ids = &self.ids;
        (match id {
            Id3::Thread => ids.thread[axis],
            Id3::Block => ids.block[axis],
            Id3::BlockDim => ids.block_dim[axis],
            Id3::GridDim => ids.grid_dim[axis],
            Id3::Global => ids.block[axis] * ids.block_dim[axis] + ids.thread[axis],
        }) as i32
    }

    /// Returns the byte offset of a memory location, and its current value.
    pub(super) fn place(
        &mut self,
        world: &mut World<'_>,
        place: &Place,
        write: bool,
        span: Span,
    ) -> Result<(Store, usize, Ty), Stop> {
        let indices = place.indices.iter().map(|&i| self.eval(world, i)).collect::<Result<Vec<Val>, Stop>>()?;
        let indices: Vec<i128> = indices.iter().map(Val::integer).collect();
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
        Ok(match place.component {
            None => (array.store, offset, leaf.ty),
            Some(lane) => {
                let scalar = leaf.ty.scalar();
                (array.store, offset + lane as usize * scalar.size(), Ty::Scalar(scalar))
            }
        })
    }
}

fn lanes(ty: Ty, at: impl Fn(usize) -> Result<Value, Failure>, span: Span) -> Result<Val, Stop> {
    let mut val = Val::zero(ty);
    for lane in 0..ty.lanes() as usize {
        let value = at(lane).unwrap_or_else(|e| panic!("{e} at {span:?}: the verifier lets no such module pass"));
        assert_eq!(value.ty, ty.scalar(), "the type of an expression at {span:?}");
        val.lanes[lane] = value.bits;
    }
    Ok(val)
}

fn binary(op: BinOp, ty: Ty, left: Val, right: Val, span: Span) -> Result<Val, Stop> {
    let divides = matches!(op, BinOp::Div | BinOp::Rem) && left.ty.scalar().is_int();
    let zero = |value: Value| divides && value == Value::zero(value.ty);
    if let Some(lane) = right.values().position(zero) {
        return Err((FaultKind::DivisionByZero { left: left.lane(lane) }, span));
    }
    let op = op.operator();
    lanes(ty, |i| dynamic::binary(op, left.lane(i), right.lane(i)), span)
}

/// Whether two values are the same; all NaNs are equal.
pub fn same(a: Value, b: Value) -> bool {
    a.ty == b.ty && (a.bits == b.bits || a.is_nan() && b.is_nan())
}
