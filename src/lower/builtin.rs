//! Lowers calls of builtins in kernels.

use super::context::BodyLowering;
use super::error::{Fallible, internal};
use super::types;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{self, Expr, Type};
use clk_ir::def::{Axis, BinOp, BuiltinIndex, ExprId, ExprKind, FenceScope, Scalar, StmtKind, Ty};
use clk_ir::typing;
use clk_scalar::builtin::Builtin;
use clk_scalar::exact::is_reported_math;
use clk_scalar::ops::{AtomicOp, BarrierKind, BinaryOp, MathFamily, MathFn, WarpOp};
use clk_scalar::{ScalarValue, dynamic};

const I32: Ty = Ty::Scalar(Scalar::I32);

impl BodyLowering<'_, '_> {
    pub fn builtin(&mut self, builtin: Builtin, args: &[Expr], expr: &Expr) -> Fallible<Vec<ExprId>> {
        let span = expr.span;
        match builtin {
            Builtin::Len | Builtin::Shape => self.shape(builtin, args, expr),
            Builtin::Assert => self.assert(args, span).map(|()| vec![]),
            Builtin::Print => self.print(args, span).map(|()| vec![]),
            Builtin::Barrier(kind) => self.barrier(kind, args, span),
            Builtin::Atomic(op) => self.atomic(op, args, expr, true),
            Builtin::AtomicLoad => self.atomic_load(args, span),
            Builtin::AtomicStore => self.atomic(AtomicOp::Exchange, args, expr, false),
            Builtin::Warp(op) => self.warp(op, args, expr),
            Builtin::Fence => self.fence(FenceScope::Device, span),
            Builtin::FenceBlock => self.fence(FenceScope::Block, span),
            Builtin::Bitcast => {
                let to = types::single(&self.type_of(expr)?, span)?;
                // The type of the expression already contains the type argument, which comes first in the source.
                let value = args.last().ok_or_else(|| internal(span, "`bitcast` of nothing"))?;
                let value = self.scalar(value)?;
                Ok(vec![self.bitcast(value, to, span)?])
            }
            Builtin::ThreadIdx
            | Builtin::BlockIdx
            | Builtin::BlockDim
            | Builtin::GridDim
            | Builtin::GlobalIdx
            | Builtin::LaneIdx
            | Builtin::WarpIdx
            | Builtin::WarpSize => Ok(vec![self.variable_builtin(builtin, span)?]),
            Builtin::Sum | Builtin::Math(MathFn::Min | MathFn::Max)
                if args.first().is_some_and(|arg| matches!(arg.ty, Type::Array(_))) =>
            {
                Ok(vec![self.tile_scalar(expr)?])
            }
            _ => {
                let mut values = Vec::with_capacity(args.len());
                for arg in args {
                    values.push(self.value(arg)?);
                }
                if self.out.is_done() {
                    let ty = self.type_of(expr)?;
                    return self.unreachable(&ty, span);
                }
                self.pure_builtin(builtin, &values, span)
            }
        }
    }

    /// Lowers a builtin without side effects, given the leaves of its arguments.
    pub(crate) fn pure_builtin(&mut self, builtin: Builtin, args: &[Vec<ExprId>], span: Span) -> Fallible<Vec<ExprId>> {
        if let (Builtin::Select, [cond, then, other]) = (builtin, args) {
            let &[cond] = cond.as_slice() else { return Err(internal(span, "a condition of several parts")) };
            return self.select_leaves(cond, then, other, span);
        }
        if let (Builtin::NoGrad, [leaves]) = (builtin, args) {
            return Ok(leaves.iter().map(|&leaf| self.detach(leaf, span)).collect());
        }
        let values: Vec<ExprId> = args.iter().flatten().copied().collect();
        if values.len() != args.len() {
            return Err(internal(span, format!("`{}` of a value of several parts", builtin.name())));
        }
        match (builtin, values.as_slice()) {
            (Builtin::Math(function), values) => Ok(vec![self.math(function, values, span)]),
            (Builtin::CeilDiv, &[x, y]) => Ok(vec![self.ceil_div(x, y, span)?]),
            (Builtin::Dot, &[a, b]) => Ok(self.dot(a, b, span).into_iter().collect()),
            (Builtin::Cross, &[a, b]) => Ok(vec![self.cross(a, b, span)]),
            (Builtin::Length, &[v]) => Ok(self.length(v, span).into_iter().collect()),
            (Builtin::Normalize, &[v]) => match self.length(v, span) {
                Some(length) => Ok(vec![self.apply(BinaryOp::Div, v, length, span, span)?]),
                None => Err(internal(span, "`normalize` of nothing")),
            },
            _ => Err(internal(span, format!("`{}` with {} arguments in a kernel", builtin.name(), values.len()))),
        }
    }

    /// Lowers `no_grad` of a float to a bitcast to its own type, which derivatives treat as a constant.
    fn detach(&mut self, value: ExprId, span: Span) -> ExprId {
        let ty = self.out.ty(value);
        match self.out.const_value(value) {
            None if ty.scalar().is_float() => self.out.value(ExprKind::Bitcast(value), ty, span),
            _ => value,
        }
    }

    pub fn math(&mut self, function: MathFn, args: &[ExprId], span: Span) -> ExprId {
        let const_args: Option<Vec<ScalarValue>> = args.iter().map(|&arg| self.out.const_value(arg)).collect();
        if let Some(const_args) = const_args
            && !is_reported_math(function, &const_args)
            && let Ok(folded) = dynamic::math(function, &const_args)
            && !self.is_trapped(&const_args, folded)
        {
            return self.out.constant(folded, span);
        }
        let lanes = args.iter().map(|&arg| self.out.ty(arg).lanes()).max().unwrap_or(1);
        let mut spread = Vec::with_capacity(args.len());
        for &arg in args {
            let ty = self.out.ty(arg);
            let ty = if lanes == 1 { ty } else { Ty::Vector(ty.scalar(), lanes) };
            spread.push(self.out.broadcast(arg, ty, span));
        }
        let types: Vec<Ty> = spread.iter().map(|&arg| self.out.ty(arg)).collect();
        let ty = typing::math(function, &types).unwrap_or(types.first().copied().unwrap_or(I32));
        self.out.value(ExprKind::Math { function, args: spread }, ty, span)
    }

    /// Emits the quotient, plus one if there is a remainder. Unlike `(x + y - 1) / y`, this cannot overflow.
    fn ceil_div(&mut self, x: ExprId, y: ExprId, span: Span) -> Fallible<ExprId> {
        let quotient = self.apply(BinaryOp::Div, x, y, span, span)?;
        let covered = self.apply(BinaryOp::Mul, quotient, y, span, span)?;
        let rest = self.apply(BinaryOp::Ne, covered, x, span, span)?;
        let scalar = self.out.ty(quotient).scalar();
        let one = self.convert(rest, scalar, span);
        self.apply(BinaryOp::Add, quotient, one, span, span)
    }

    fn length(&mut self, v: ExprId, span: Span) -> Option<ExprId> {
        let square = self.dot(v, v, span)?;
        Some(self.math(MathFn::Sqrt, &[square], span))
    }

    fn cross(&mut self, a: ExprId, b: ExprId, span: Span) -> ExprId {
        let (a, b) = (self.out.lanes(a, span), self.out.lanes(b, span));
        let mut product = |i: usize, j: usize| self.out.binary(BinOp::Mul, a[i % a.len()], b[j % b.len()], span);
        let terms: Vec<(ExprId, ExprId)> = (0..3).map(|k| (product(k + 1, k + 2), product(k + 2, k + 1))).collect();
        let lanes = terms.into_iter().map(|(plus, minus)| self.out.binary(BinOp::Sub, plus, minus, span)).collect();
        self.out.compose(lanes, span)
    }

    fn dot(&mut self, a: ExprId, b: ExprId, span: Span) -> Option<ExprId> {
        let (a, b) = (self.out.lanes(a, span), self.out.lanes(b, span));
        let mut sum: Option<ExprId> = None;
        for (&a, &b) in a.iter().zip(&b) {
            let product = self.out.binary(BinOp::Mul, a, b, span);
            sum = Some(match sum {
                Some(before) => self.out.binary(BinOp::Add, before, product, span),
                None => product,
            });
        }
        sum
    }

    fn shape(&mut self, builtin: Builtin, args: &[Expr], expr: &Expr) -> Fallible<Vec<ExprId>> {
        let Some(of) = args.first() else { return Err(internal(expr.span, "the shape of nothing")) };
        let memory = self.array(of)?;
        let axes = self.out.function().memories[memory].extents.len() as u8;
        if builtin == Builtin::Len {
            return Ok(vec![self.extent(memory, 0, expr.span)]);
        }
        let Some(axis) = args.get(1) else {
            return Ok((0..axes).map(|axis| self.extent(memory, axis, expr.span)).collect());
        };
        let chosen = self.scalar(axis)?;
        match self.out.const_value(chosen).and_then(ScalarValue::as_integer) {
            Some(k) if (0..i128::from(axes)).contains(&k) => Ok(vec![self.extent(memory, k as u8, expr.span)]),
            Some(k) => Err(Box::new(
                Diagnostic::error("E0484", format!("there is no axis {k}"))
                    .at(axis.span, format!("the array has {axes}, numbered from 0")),
            )),
            None => Err(Box::new(
                Diagnostic::error("E0480", "an axis is not known when the kernel is compiled")
                    .at(axis.span, "this must be a constant")
                    .help("`shape(x)` gives all extents as a tuple"),
            )),
        }
    }

    // Thread indices

    /// Lowers a builtin index variable as a whole: a vector of three components, or a number.
    pub(crate) fn variable_builtin(&mut self, builtin: Builtin, span: Span) -> Fallible<ExprId> {
        match builtin {
            Builtin::LaneIdx => Ok(self.out.value(ExprKind::LaneIdx, I32, span)),
            Builtin::WarpIdx => Ok(self.out.value(ExprKind::WarpIdx, I32, span)),
            Builtin::WarpSize => Ok(self.out.i32(32, span)),
            _ => {
                let mut parts = Vec::with_capacity(3);
                for lane in 0..3 {
                    parts.push(self.thread_index(builtin, lane, span)?);
                }
                Ok(self.out.compose(parts, span))
            }
        }
    }

    /// Lowers one component of an index variable.
    pub(crate) fn thread_index(&mut self, builtin: Builtin, lane: u8, span: Span) -> Fallible<ExprId> {
        let id = match builtin {
            Builtin::ThreadIdx => BuiltinIndex::Thread,
            Builtin::BlockIdx => BuiltinIndex::Block,
            Builtin::BlockDim => BuiltinIndex::BlockDim,
            Builtin::GridDim => BuiltinIndex::GridDim,
            Builtin::GlobalIdx => BuiltinIndex::Global,
            other => return Err(internal(span, format!("`{}` has no components", other.name()))),
        };
        let axis = match lane {
            0 => Axis::X,
            1 => Axis::Y,
            2 => Axis::Z,
            _ => return Err(internal(span, "a thread variable has x, y and z")),
        };
        Ok(self.out.value(ExprKind::Id(id, axis), I32, span))
    }

    // Barriers, fences, atomics and warp operations

    fn barrier(&mut self, kind: BarrierKind, args: &[Expr], span: Span) -> Fallible<Vec<ExprId>> {
        let value = match args.first() {
            Some(arg) => Some(self.scalar(arg)?),
            None => None,
        };
        self.unit.cooperative |= kind == BarrierKind::Grid;
        let result = typing::barrier(kind).1.map(|ty| self.out.result(ty, span));
        self.out.stmt(StmtKind::Barrier { kind, value, result }, span);
        Ok(result.into_iter().collect())
    }

    fn fence(&mut self, scope: FenceScope, span: Span) -> Fallible<Vec<ExprId>> {
        self.out.stmt(StmtKind::Fence(scope), span);
        Ok(vec![])
    }

    /// Lowers an atomic operation. `used` is true if the program uses its result, the old value.
    pub fn atomic(&mut self, op: AtomicOp, args: &[Expr], expr: &Expr, used: bool) -> Fallible<Vec<ExprId>> {
        let span = expr.span;
        let (at, compare, value) = match (op, args) {
            (AtomicOp::CompareExchange, [at, compare, value]) => (at, Some(compare), value),
            (_, [at, value]) => (at, None, value),
            _ => return Err(internal(span, "an atomic operation with the wrong number of arguments")),
        };
        let (place, ty) = self.atomic_place(at)?;
        let compare = match compare {
            Some(compare) => Some(self.scalar(compare)?),
            None => None,
        };
        let value = self.scalar(value)?;
        let result = used.then(|| self.out.result(ty, span));
        self.out.stmt(StmtKind::Atomic { op, place, value, compare, result }, span);
        Ok(result.into_iter().collect())
    }

    /// Lowers an atomic load to a compare-exchange with equal compared and new values, which does not change memory.
    /// Devices recognize this pattern.
    fn atomic_load(&mut self, args: &[Expr], span: Span) -> Fallible<Vec<ExprId>> {
        let [at] = args else { return Err(internal(span, "an atomic load of several places")) };
        let (place, ty) = self.atomic_place(at)?;
        let any = self.out.constant(ScalarValue::from_bits(ty.scalar(), 0), span);
        let result = self.out.result(ty, span);
        let op = AtomicOp::CompareExchange;
        self.out.stmt(StmtKind::Atomic { op, place, value: any, compare: Some(any), result: Some(result) }, span);
        Ok(vec![result])
    }

    fn warp(&mut self, op: WarpOp, args: &[Expr], expr: &Expr) -> Fallible<Vec<ExprId>> {
        let span = expr.span;
        let value = args.first().ok_or_else(|| internal(span, "a warp operation on nothing"))?;
        let leaves = self.value(value)?;
        let lane = match args.get(1) {
            Some(lane) => Some(self.scalar(lane)?),
            None => None,
        };
        let among_arg = match &expr.kind {
            typed::ExprKind::Builtin { named, .. } => named.iter().find(|(name, _)| name == "among"),
            _ => None,
        };
        let among = match among_arg {
            Some((_, among)) => Some(self.scalar(among)?),
            None => None,
        };
        let at = WarpAt { lane, among, span };
        let results = leaves.into_iter().map(|leaf| self.warp_leaf(op, leaf, &at)).collect();
        Ok(if op == WarpOp::MatchAny { self.all_match(results, span) } else { results })
    }

    /// Combines the match masks of the leaves of a value. The result is the mask of the lanes in which all leaves are
    /// equal.
    fn all_match(&mut self, parts: Vec<ExprId>, span: Span) -> Vec<ExprId> {
        let both = |a: ExprId, b: ExprId| self.out.binary(BinOp::And, a, b, span);
        parts.into_iter().reduce(both).into_iter().collect()
    }

    /// Lowers a warp operation on one leaf (scalar or vector) of a value. Shuffles support vectors. For other
    /// operations, a vector is split into its components.
    fn warp_leaf(&mut self, op: WarpOp, value: ExprId, at: &WarpAt) -> ExprId {
        let (ty, span) = (self.out.ty(value), at.span);
        if ty.lanes() > 1 && !typing::warp_has_lane(op) {
            let parts = self.out.lanes(value, span);
            let parts: Vec<ExprId> = parts.into_iter().map(|part| self.warp_leaf(op, part, at)).collect();
            return match op {
                WarpOp::MatchAny => self.all_match(parts, span)[0],
                _ => self.out.compose(parts, span),
            };
        }
        let result = self.out.result(typing::warp(op, ty).unwrap_or(ty), span);
        self.out.stmt(StmtKind::Warp { op, value, lane: at.lane, among: at.among, result }, span);
        result
    }
}

/// The operands of a warp operation that are the same for all leaves of the value.
struct WarpAt {
    lane: Option<ExprId>,
    among: Option<ExprId>,
    span: Span,
}

/// Returns the result type of a builtin without side effects for arguments of these types.
pub(crate) fn result_type(builtin: Builtin, args: &[Type]) -> Option<Type> {
    let widest = || args.iter().find(|ty| matches!(ty, Type::Vector(..))).or(args.first()).cloned();
    match builtin {
        Builtin::Math(function) if function.row().family == MathFamily::Tests => match args.first()? {
            Type::Scalar(_) => Some(Type::Scalar(Scalar::Bool)),
            Type::Vector(_, n) => Some(Type::Vector(Scalar::Bool, *n)),
            _ => None,
        },
        Builtin::Math(_) | Builtin::CeilDiv => widest(),
        Builtin::Select => args.get(1).cloned(),
        Builtin::Dot => match args.first()? {
            Type::Vector(s, _) => Some(Type::Scalar(*s)),
            _ => None,
        },
        _ => None,
    }
}
