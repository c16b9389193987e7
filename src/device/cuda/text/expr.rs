//! Expressions: by name, or inlined at their use.

use super::generator::{Gen, Known};
use super::helpers::COMPONENTS;
use super::tree::{Expr, Stmt};
use crate::ir::def::*;
use crate::lang::ops::{MathFn, UnaryOp};
use crate::lang::scalar::Value;

impl Gen<'_> {
    /// Returns a value as an operand.
    pub fn value(&mut self, id: ExprId) -> Expr {
        let function = self.function;
        let expr = &function.exprs[id];
        if expr.kind.is_free() {
            return self.free(&expr.kind, expr.ty);
        }
        match self.values.get(&id) {
            Some(name) => Expr::atom(name),
            None => self.build(id, false),
        }
    }

    /// Returns an expression that no `Let` evaluates, such as a dynamic extent, expanded down to its free operands.
    pub fn tree(&mut self, id: ExprId) -> Expr {
        self.build(id, true)
    }

    fn operand(&mut self, id: ExprId, whole: bool) -> Expr {
        if whole && !self.function.exprs[id].kind.is_free() { self.build(id, true) } else { self.value(id) }
    }

    /// Returns a free expression.
    fn free(&mut self, kind: &ExprKind, ty: Ty) -> Expr {
        match kind {
            ExprKind::Const(bits) => self.helpers.literal(Value { ty: ty.scalar(), bits: *bits }),
            ExprKind::Param(i) => Expr::atom(&self.params[*i as usize]),
            ExprKind::Index(k) => match self.indices.get(*k as usize) {
                Some((index, _)) => Expr::atom(index),
                None => Expr::int(0),
            },
            ExprKind::Extent(memory, axis) => self.extent(*memory, *axis as usize),
            ExprKind::Id(Id3::BlockDim, axis) if self.options.block.is_some() => {
                let block = self.options.block.unwrap_or([1; 3]);
                Expr::int(i128::from(block[*axis as usize]))
            }
            _ => Expr::Atom(self.identity(kind)),
        }
    }

    /// Returns the name of an index of the thread in block or grid: a constant that is declared on first use.
    pub fn identity(&mut self, kind: &ExprKind) -> String {
        if let Some(known) = self.identities.get(kind) {
            return known.clone();
        }
        let (name, text) = match kind {
            ExprKind::Id(id, axis) => self.three(*id, *axis),
            ExprKind::LaneIdx => {
                let thread = self.flat_thread();
                ("lane".to_string(), format!("{thread} & 31"))
            }
            _ => {
                let thread = self.flat_thread();
                ("warp".to_string(), format!("{thread} >> 5"))
            }
        };
        let name = self.names.fresh(&name);
        let value = Some(Expr::Atom(text));
        self.prologue.push(Stmt::Declare { ty: "const int".into(), name: name.clone(), suffix: String::new(), value });
        self.identities.insert(kind.clone(), name.clone());
        name
    }

    fn three(&self, id: Id3, axis: Axis) -> (String, String) {
        let c = ["x", "y", "z"][axis as usize];
        let size = match self.options.block {
            Some(block) => block[axis as usize].to_string(),
            None => format!("blockDim.{c}"),
        };
        match id {
            Id3::Thread => (format!("thread_{c}"), format!("threadIdx.{c}")),
            Id3::Block => (format!("block_{c}"), format!("blockIdx.{c}")),
            Id3::BlockDim => (format!("block_dim_{c}"), size),
            Id3::GridDim => (format!("grid_dim_{c}"), format!("gridDim.{c}")),
            Id3::Global => (format!("global_{c}"), format!("blockIdx.{c} * {size} + threadIdx.{c}")),
        }
    }

    /// Returns the linear index of a thread in its block.
    fn flat_thread(&self) -> String {
        match self.options.block {
            Some([_, 1, 1]) => "threadIdx.x".into(),
            Some([x, y, _]) => format!("((threadIdx.z * {y} + threadIdx.y) * {x} + threadIdx.x)"),
            None => "((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x)".into(),
        }
    }

    fn known(&self, id: ExprId) -> Known {
        Known {
            exact: self.ranges.exact.contains(&id),
            may_overflow: self.ranges.overflowing_divisions.contains(&id),
            small_shift: self.ranges.small_shifts.contains(&id),
        }
    }

    /// Returns the expression itself; `whole` expands its operands too.
    pub fn build(&mut self, id: ExprId, whole: bool) -> Expr {
        let function = self.function;
        let expr = &function.exprs[id];
        let (ty, s) = (expr.ty, expr.ty.scalar());
        let known = self.known(id);
        let ty_of = |id: ExprId| function.exprs[id].ty;
        match &expr.kind {
            kind if kind.is_free() => self.free(kind, ty),
            ExprKind::Read(local) => Expr::atom(&self.locals[local.index()]),
            ExprKind::Load { place, hint } => {
                let load = self.load(place, *hint, ty);
                self.guarded_load(id, load)
            }
            ExprKind::Unary { op, value } => {
                let value = self.operand(*value, whole);
                self.unary(*op, ty, value, known)
            }
            ExprKind::Binary { op, left, right } => {
                let (of, by) = (ty_of(*left), ty_of(*right));
                let (left, right) = (self.operand(*left, whole), self.operand(*right, whole));
                self.binary(*op, of, by, left, right, known)
            }
            ExprKind::Math { function, args } => {
                let of = args.first().map_or(ty, |&arg| ty_of(arg));
                let args = args.iter().map(|&arg| self.operand(arg, whole)).collect();
                self.math(*function, of, ty, args, known)
            }
            ExprKind::Select { cond, then, other } => {
                let by = ty_of(*cond);
                let (cond, then) = (self.operand(*cond, whole), self.operand(*then, whole));
                let other = self.operand(*other, whole);
                if by.lanes() == 1 {
                    return Expr::choose(cond, then, other);
                }
                self.helpers.lanewise("select", ty, &[by, ty, ty], |_, args| {
                    let mut args = args.into_iter();
                    match (args.next(), args.next(), args.next()) {
                        (Some(cond), Some(then), Some(other)) => Expr::choose(cond, then, other),
                        _ => Expr::int(0),
                    }
                });
                Expr::call("select", [cond, then, other])
            }
            ExprKind::Convert(value) => {
                let from = ty_of(*value);
                let value = self.operand(*value, whole);
                self.change("to", from, ty, value, |helpers, x| helpers.convert(from.scalar(), s, x))
            }
            ExprKind::Bitcast(value) => {
                let from = ty_of(*value);
                let value = self.operand(*value, whole);
                self.change("as", from, ty, value, |helpers, x| helpers.bitcast(from.scalar(), s, x))
            }
            ExprKind::Compose(parts) => {
                let parts = parts.iter().map(|&part| self.operand(part, whole)).collect();
                Expr::Braces(self.helpers.ty(ty), parts)
            }
            ExprKind::Extract { value, lane } => {
                let value = self.operand(*value, whole);
                Expr::member(value, COMPONENTS[*lane as usize & 3])
            }
            _ => Expr::int(0),
        }
    }

    fn load(&mut self, place: &Place, hint: Hint, ty: Ty) -> Expr {
        let global = matches!(self.function.memories[place.memory].space, Space::Global { .. });
        let place = self.place(place);
        if hint == Hint::Streaming && global && streams(ty) {
            return Expr::call("__ldcs", [Expr::address(place)]);
        }
        place
    }

    fn unary(&mut self, op: UnaryOp, ty: Ty, value: Expr, known: Known) -> Expr {
        let s = ty.scalar();
        if ty.lanes() == 1 {
            return self.helpers.unary(op, s, value, known);
        }
        let (name, sign) = match op {
            UnaryOp::Neg => ("operator-", "-"),
            UnaryOp::Not => ("operator~", "~"),
        };
        self.helpers.lanewise(name, ty, &[ty], |helpers, args| {
            helpers.unary(op, s, args.into_iter().next().unwrap_or(Expr::int(0)), Known::default())
        });
        Expr::unary(sign, value)
    }

    fn binary(&mut self, op: BinOp, ty: Ty, by: Ty, left: Expr, right: Expr, known: Known) -> Expr {
        let s = ty.scalar();
        if ty.lanes() == 1 {
            return self.helpers.binary(op, s, left, right, known);
        }
        let result = if op.is_comparison() { ty.with_scalar(Scalar::Bool) } else { ty };
        let symbol = super::scalar::symbol(op);
        let name = if op == BinOp::Pow { "power_of".to_string() } else { format!("operator{symbol}") };
        let known = Known { may_overflow: true, ..Known::default() };
        self.helpers.lanewise(&name, result, &[ty, by], |helpers, args| {
            let mut args = args.into_iter();
            match (args.next(), args.next()) {
                (Some(a), Some(b)) => helpers.binary(op, s, a, b, known),
                _ => Expr::int(0),
            }
        });
        if op == BinOp::Pow { Expr::call(name, [left, right]) } else { Expr::binary(symbol, left, right) }
    }

    fn math(&mut self, function: MathFn, of: Ty, result: Ty, args: Vec<Expr>, known: Known) -> Expr {
        let s = of.scalar();
        if of.lanes() == 1 {
            return self.helpers.math(function, s, args, known);
        }
        let name = format!("{function:?}").to_lowercase() + "_of";
        let tys = vec![of; args.len()];
        self.helpers.lanewise(&name, result, &tys, |helpers, args| helpers.math(function, s, args, Known::default()));
        Expr::call(name, args)
    }

    /// Returns a conversion; for vectors a call of a function named after the type.
    fn change(
        &mut self,
        how: &str,
        from: Ty,
        to: Ty,
        value: Expr,
        lane: impl Fn(&mut super::helpers::Helpers, Expr) -> Expr,
    ) -> Expr {
        if to.lanes() == 1 {
            return lane(&mut self.helpers, value);
        }
        let name = format!("{how}_{}", self.helpers.ty(to));
        self.helpers.lanewise(&name, to, &[from], |helpers, args| {
            lane(helpers, args.into_iter().next().unwrap_or(Expr::int(0)))
        });
        Expr::call(name, [value])
    }
}

/// Returns whether `__ldcs` and `__stcs` accept this type.
pub(crate) fn streams(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(s) if !matches!(s, Scalar::Bool | Scalar::F16 | Scalar::Bf16))
}
