//! Emits expressions: as the name of a constant that has been declared, or inlined at their use.

use super::generator::{CudaGenerator, OpFacts};
use super::helpers::COMPONENTS;
use super::tree::{CudaExpr, CudaStmt};
use clk_ir::def::*;
use clk_scalar::ScalarValue;
use clk_scalar::ops::{MathFn, UnaryOp};

impl CudaGenerator<'_> {
    /// Returns a value as an operand: its name, or the inlined expression.
    pub fn value(&mut self, id: ExprId) -> CudaExpr {
        let function = self.function;
        let expr = &function.exprs[id];
        if expr.kind.is_free() {
            return self.free(&expr.kind, expr.ty);
        }
        match self.naming.values.get(&id) {
            Some(name) => CudaExpr::atom(name),
            None => self.build(id, false),
        }
    }

    /// Returns an expression that no `Let` statement evaluates, such as a dynamic extent. Its operands are expanded
    /// recursively.
    pub fn tree(&mut self, id: ExprId) -> CudaExpr {
        self.build(id, true)
    }

    fn operand(&mut self, id: ExprId, whole: bool) -> CudaExpr {
        if whole && !self.function.exprs[id].kind.is_free() { self.build(id, true) } else { self.value(id) }
    }

    /// Returns an expression that needs no evaluation, such as a constant, a parameter or an index.
    fn free(&mut self, kind: &ExprKind, ty: Ty) -> CudaExpr {
        match kind {
            ExprKind::Const(bits) => self.preamble.helpers.literal(ScalarValue { ty: ty.scalar(), bits: *bits }),
            ExprKind::Param(i) => CudaExpr::atom(&self.naming.params[*i as usize]),
            ExprKind::Index(k) => match self.naming.indices.get(*k as usize) {
                Some((index, _)) => CudaExpr::atom(index),
                None => CudaExpr::int(0),
            },
            ExprKind::Extent(memory, axis) => self.extent(*memory, *axis as usize),
            ExprKind::Id(BuiltinIndex::BlockDim, axis) if self.options.block.is_some() => {
                let block = self.options.block.unwrap_or([1; 3]);
                CudaExpr::int(i128::from(block[*axis as usize]))
            }
            _ => CudaExpr::Atom(self.identity(kind)),
        }
    }

    /// Returns the name of the constant with an index of the thread in the block or grid. Declares the constant on
    /// first use.
    pub fn identity(&mut self, kind: &ExprKind) -> String {
        if let Some(known) = self.naming.identities.get(kind) {
            return known.clone();
        }
        let (name, text) = match kind {
            ExprKind::Id(id, axis) => self.axis_index(*id, *axis),
            ExprKind::LaneIdx => {
                let thread = self.flat_thread();
                ("lane".to_string(), format!("{thread} & 31"))
            }
            _ => {
                let thread = self.flat_thread();
                ("warp".to_string(), format!("{thread} >> 5"))
            }
        };
        let name = self.naming.used.fresh(&name);
        let value = Some(CudaExpr::Atom(text));
        self.preamble.stmts.push(CudaStmt::Declare {
            ty: "const int".into(),
            name: name.clone(),
            suffix: String::new(),
            value,
        });
        self.naming.identities.insert(kind.clone(), name.clone());
        name
    }

    fn axis_index(&self, id: BuiltinIndex, axis: Axis) -> (String, String) {
        let c = ["x", "y", "z"][axis as usize];
        let size = match self.options.block {
            Some(block) => block[axis as usize].to_string(),
            None => format!("blockDim.{c}"),
        };
        match id {
            BuiltinIndex::Thread => (format!("thread_{c}"), format!("threadIdx.{c}")),
            BuiltinIndex::Block => (format!("block_{c}"), format!("blockIdx.{c}")),
            BuiltinIndex::BlockDim => (format!("block_dim_{c}"), size),
            BuiltinIndex::GridDim => (format!("grid_dim_{c}"), format!("gridDim.{c}")),
            BuiltinIndex::Global => (format!("global_{c}"), format!("blockIdx.{c} * {size} + threadIdx.{c}")),
        }
    }

    /// Returns the expression for the linear index of a thread in its block.
    fn flat_thread(&self) -> String {
        match self.options.block {
            Some([_, 1, 1]) => "threadIdx.x".into(),
            Some([x, y, _]) => format!("((threadIdx.z * {y} + threadIdx.y) * {x} + threadIdx.x)"),
            None => "((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x)".into(),
        }
    }

    fn op_facts(&self, id: ExprId) -> OpFacts {
        OpFacts {
            exact: self.analyses.ranges.exact.contains(&id),
            may_overflow: self.analyses.ranges.overflowing_divisions.contains(&id),
            small_shift: self.analyses.ranges.in_range_shifts.contains(&id),
        }
    }

    /// Returns the expression itself rather than its name. `whole`: its operands are expanded too.
    pub fn build(&mut self, id: ExprId, whole: bool) -> CudaExpr {
        let function = self.function;
        let expr = &function.exprs[id];
        let (ty, s) = (expr.ty, expr.ty.scalar());
        let facts = self.op_facts(id);
        let ty_of = |id: ExprId| function.exprs[id].ty;
        match &expr.kind {
            kind if kind.is_free() => self.free(kind, ty),
            ExprKind::Read(local) => CudaExpr::atom(&self.naming.locals[local.index()]),
            ExprKind::Load { place, hint } => {
                let load = self.load(place, *hint, ty);
                self.guarded_load(id, load)
            }
            ExprKind::Unary { op, value } => {
                let value = self.operand(*value, whole);
                self.unary(*op, ty, value, facts)
            }
            ExprKind::Binary { op, left, right } => {
                let (of, by) = (ty_of(*left), ty_of(*right));
                let (left, right) = (self.operand(*left, whole), self.operand(*right, whole));
                self.binary(*op, of, by, left, right, facts)
            }
            ExprKind::Math { function, args } => {
                let of = args.first().map_or(ty, |&arg| ty_of(arg));
                let args = args.iter().map(|&arg| self.operand(arg, whole)).collect();
                self.math(*function, of, ty, args, facts)
            }
            ExprKind::Select { cond, then, other } => {
                let by = ty_of(*cond);
                let (cond, then) = (self.operand(*cond, whole), self.operand(*then, whole));
                let other = self.operand(*other, whole);
                if by.lanes() == 1 {
                    return CudaExpr::choose(cond, then, other);
                }
                self.preamble.helpers.lanewise("select", ty, &[by, ty, ty], |_, args| {
                    let mut args = args.into_iter();
                    match (args.next(), args.next(), args.next()) {
                        (Some(cond), Some(then), Some(other)) => CudaExpr::choose(cond, then, other),
                        _ => CudaExpr::int(0),
                    }
                });
                CudaExpr::call("select", [cond, then, other])
            }
            ExprKind::Convert(value) => {
                let from = ty_of(*value);
                let value = self.operand(*value, whole);
                self.conversion("to", from, ty, value, |helpers, x| helpers.convert(from.scalar(), s, x))
            }
            ExprKind::Bitcast(value) => {
                let from = ty_of(*value);
                let value = self.operand(*value, whole);
                self.conversion("as", from, ty, value, |helpers, x| helpers.bitcast(from.scalar(), s, x))
            }
            ExprKind::Compose(parts) => {
                let parts = parts.iter().map(|&part| self.operand(part, whole)).collect();
                CudaExpr::Braces(self.preamble.helpers.ty(ty), parts)
            }
            ExprKind::Extract { value, lane } => {
                let value = self.operand(*value, whole);
                CudaExpr::member(value, COMPONENTS[*lane as usize & 3])
            }
            _ => CudaExpr::int(0),
        }
    }

    fn load(&mut self, place: &Place, hint: CacheHint, ty: Ty) -> CudaExpr {
        let global = matches!(self.function.memories[place.memory].space, MemorySpace::Global { .. });
        let place = self.place(place);
        if hint == CacheHint::Streaming && global && streams(ty) {
            return CudaExpr::call("__ldcs", [CudaExpr::address(place)]);
        }
        place
    }

    fn unary(&mut self, op: UnaryOp, ty: Ty, value: CudaExpr, known: OpFacts) -> CudaExpr {
        let s = ty.scalar();
        if ty.lanes() == 1 {
            return self.preamble.helpers.unary(op, s, value, known);
        }
        let (name, sign) = match op {
            UnaryOp::Neg => ("operator-", "-"),
            UnaryOp::Not => ("operator~", "~"),
        };
        self.preamble.helpers.lanewise(name, ty, &[ty], |helpers, args| {
            helpers.unary(op, s, args.into_iter().next().unwrap_or(CudaExpr::int(0)), OpFacts::default())
        });
        CudaExpr::unary(sign, value)
    }

    fn binary(&mut self, op: BinOp, ty: Ty, by: Ty, left: CudaExpr, right: CudaExpr, facts: OpFacts) -> CudaExpr {
        let s = ty.scalar();
        if ty.lanes() == 1 {
            return self.preamble.helpers.binary(op, s, left, right, facts);
        }
        let result = if op.is_comparison() { ty.with_scalar(Scalar::Bool) } else { ty };
        let symbol = super::scalar::symbol(op);
        let name = if op == BinOp::Pow { "power_of".to_string() } else { format!("operator{symbol}") };
        let facts = OpFacts { may_overflow: true, ..OpFacts::default() };
        self.preamble.helpers.lanewise(&name, result, &[ty, by], |helpers, args| {
            let mut args = args.into_iter();
            match (args.next(), args.next()) {
                (Some(a), Some(b)) => helpers.binary(op, s, a, b, facts),
                _ => CudaExpr::int(0),
            }
        });
        if op == BinOp::Pow { CudaExpr::call(name, [left, right]) } else { CudaExpr::binary(symbol, left, right) }
    }

    fn math(&mut self, function: MathFn, of: Ty, result: Ty, args: Vec<CudaExpr>, known: OpFacts) -> CudaExpr {
        let s = of.scalar();
        if of.lanes() == 1 {
            return self.preamble.helpers.math(function, s, args, known);
        }
        let name = format!("{function:?}").to_lowercase() + "_of";
        let tys = vec![of; args.len()];
        self.preamble
            .helpers
            .lanewise(&name, result, &tys, |helpers, args| helpers.math(function, s, args, OpFacts::default()));
        CudaExpr::call(name, args)
    }

    /// Returns a conversion to another type. For vectors, this is a call of a function that is named after the type.
    fn conversion(
        &mut self,
        how: &str,
        from: Ty,
        to: Ty,
        value: CudaExpr,
        lane: impl Fn(&mut super::helpers::Helpers, CudaExpr) -> CudaExpr,
    ) -> CudaExpr {
        if to.lanes() == 1 {
            return lane(&mut self.preamble.helpers, value);
        }
        let name = format!("{how}_{}", self.preamble.helpers.ty(to));
        self.preamble.helpers.lanewise(&name, to, &[from], |helpers, args| {
            lane(helpers, args.into_iter().next().unwrap_or(CudaExpr::int(0)))
        });
        CudaExpr::call(name, [value])
    }
}

/// Returns whether `__ldcs` and `__stcs` accept this type.
pub(crate) fn streams(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(s) if !matches!(s, Scalar::Bool | Scalar::F16 | Scalar::Bf16))
}
