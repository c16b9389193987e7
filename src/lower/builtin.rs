//! Builtins of kernels.

use super::error::{Fallible, internal};
use super::types;
use super::unit::Body;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{self, Expr, Type};
use crate::ir::def::{Axis, BinOp, ExprId, ExprKind, Id3, Scalar, Scope, StmtKind, Ty};
use crate::ir::typing;
use crate::lang::builtin::Builtin;
use crate::lang::ops::{AtomicOp, BarrierKind, BinaryOp, Family, MathFn, WarpOp};
use crate::lang::scalar::exact::is_reported_math;
use crate::lang::scalar::{Value, dynamic};

const I32: Ty = Ty::Scalar(Scalar::I32);

impl Body<'_, '_> {
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
            Builtin::Fence => self.fence(Scope::Device, span),
            Builtin::FenceBlock => self.fence(Scope::Block, span),
            Builtin::Bitcast => {
                let to = types::single(&self.type_of(expr)?, span)?;
                // The type argument, which comes first in the source, is reflected in the expression's type already.
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
            return Ok(leaves.iter().map(|&leaf| self.held(leaf, span)).collect());
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

    /// Takes a float as a constant of derivatives.
    fn held(&mut self, value: ExprId, span: Span) -> ExprId {
        let ty = self.out.ty(value);
        match self.out.known(value) {
            None if ty.scalar().is_float() => self.out.value(ExprKind::Bitcast(value), ty, span),
            _ => value,
        }
    }

    pub fn math(&mut self, function: MathFn, args: &[ExprId], span: Span) -> ExprId {
        let known: Option<Vec<Value>> = args.iter().map(|&arg| self.out.known(arg)).collect();
        if let Some(known) = known
            && !is_reported_math(function, &known)
            && let Ok(folded) = dynamic::math(function, &known)
            && !self.is_trapped(&known, folded)
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

    /// Emits the quotient plus one if there is a remainder: unlike `(x + y - 1) / y` this never overflows.
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
        match self.out.known(chosen).and_then(Value::as_integer) {
            Some(k) if (0..i128::from(axes)).contains(&k) => Ok(vec![self.extent(memory, k as u8, expr.span)]),
            Some(k) => Err(Box::new(
                Diagnostic::error("E0484", format!("there is no axis {k}"))
                    .at(axis.span, format!("the array has {axes}, numbered from 0")),
            )),
            None => Err(Box::new(
                Diagnostic::error("E0480", "an axis is not known when the kernel is compiled")
                    .at(axis.span, "this has to be a constant")
                    .help("`shape(x)` gives all extents as a tuple"),
            )),
        }
    }

    // Thread indices

    /// Lowers a whole index variable: a vector of three components, or a number.
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
        if let (Builtin::BlockIdx, Some(block)) = (builtin, self.block) {
            return block.get(usize::from(lane)).copied().ok_or_else(|| internal(span, "a block has x, y and z"));
        }
        let id = match builtin {
            Builtin::ThreadIdx => Id3::Thread,
            Builtin::BlockIdx => Id3::Block,
            Builtin::BlockDim => Id3::BlockDim,
            Builtin::GridDim => Id3::GridDim,
            Builtin::GlobalIdx => Id3::Global,
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

    fn fence(&mut self, scope: Scope, span: Span) -> Fallible<Vec<ExprId>> {
        self.out.stmt(StmtKind::Fence(scope), span);
        Ok(vec![])
    }

    /// Lowers an atomic operation. `used` says whether its result, the old value, is used.
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

    /// Lowers an atomic load to a compare-exchange of a value for itself, which never changes memory. Devices recognize that form.
    fn atomic_load(&mut self, args: &[Expr], span: Span) -> Fallible<Vec<ExprId>> {
        let [at] = args else { return Err(internal(span, "an atomic load of several places")) };
        let (place, ty) = self.atomic_place(at)?;
        let any = self.out.constant(Value::from_bits(ty.scalar(), 0), span);
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
        let named = match &expr.kind {
            typed::ExprKind::Builtin { named, .. } => named.iter().find(|(name, _)| name == "among"),
            _ => None,
        };
        let among = match named {
            Some((_, among)) => Some(self.scalar(among)?),
            None => None,
        };
        let at = WarpAt { lane, among, span };
        let found = leaves.into_iter().map(|leaf| self.warp_leaf(op, leaf, &at)).collect();
        Ok(if op == WarpOp::MatchAny { self.all_match(found, span) } else { found })
    }

    /// Combines the match masks of the parts of a value: the lanes in which all parts are equal.
    fn all_match(&mut self, parts: Vec<ExprId>, span: Span) -> Vec<ExprId> {
        let both = |a: ExprId, b: ExprId| self.out.binary(BinOp::And, a, b, span);
        parts.into_iter().reduce(both).into_iter().collect()
    }

    /// Lowers a warp operation on one leaf. Shuffles move whole vectors; other operations take scalars, so a vector is split
    /// into its components.
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

/// The operands that a warp operation uses for every leaf.
struct WarpAt {
    lane: Option<ExprId>,
    among: Option<ExprId>,
    span: Span,
}

/// Returns the result type of a builtin without side effects for arguments of these types.
pub(crate) fn result_type(builtin: Builtin, args: &[Type]) -> Option<Type> {
    let widest = || args.iter().find(|ty| matches!(ty, Type::Vector(..))).or(args.first()).cloned();
    match builtin {
        Builtin::Math(function) if function.row().family == Family::Tests => match args.first()? {
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
