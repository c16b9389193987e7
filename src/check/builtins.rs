//! Calls of builtins that are available in kernels: mathematics, values, and device operations.

use crate::arguments::by_name;
use crate::build::{BOOL, F32, I32, bare, count, is_literal, make};
use crate::builtin_call::BuiltinCall;
use crate::context::{BodyKind, Cx};
use crate::divergence::{DivergentCondition, Fork};
use crate::infer::TypeClass;
use crate::ops::{CommonType, scalar_of, with_scalar};
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::builtin::{Builtin, BuiltinEntry, BuiltinSpaces, DerivativeKind};
use clk_scalar::ops::{AtomicOp, BarrierKind, MathFamily, MathFn, WarpOp};
use clk_syntax::ast::{self, ExprKind as Ast};

/// Help text for a barrier in a loop in which some threads may execute fewer iterations than others.
const AS_OFTEN: &str =
    "give all threads of the block the same number of iterations, and let only the work in them depend on the thread";

/// Returns the number of arguments of a mathematical function, the class of types that they can have, and whether the
/// result is `bool`.
pub(crate) fn math_shape(entry: &BuiltinEntry) -> (usize, TypeClass, bool) {
    let signature = entry.signature;
    let kind = if signature.starts_with("<T: Float>") || is_of_f32(entry) {
        TypeClass::Float
    } else if signature.starts_with("<T: Int>") {
        TypeClass::Int
    } else {
        TypeClass::Num
    };
    let params = signature.split('(').nth(1).and_then(|s| s.split(')').next()).unwrap_or("");
    (params.split(',').filter(|p| !p.trim().is_empty()).count(), kind, signature.ends_with("-> bool"))
}

/// Returns whether a mathematical function takes `f32` and no other type.
fn is_of_f32(entry: &BuiltinEntry) -> bool {
    matches!(entry.builtin, Builtin::Math(function) if function.row().family == MathFamily::Singles)
}

impl Cx<'_> {
    pub fn call_builtin(
        &mut self,
        entry: &'static BuiltinEntry,
        name: &ast::Name,
        args: &[ast::Arg],
        span: Span,
        want: Option<&Type>,
    ) -> Expr {
        let checked = self.builtin_of(entry, name, args, span, want);
        if args.iter().any(|arg| arg.name.is_some()) { self.in_written_order(checked) } else { checked }
    }

    fn builtin_of(
        &mut self,
        entry: &'static BuiltinEntry,
        name: &ast::Name,
        args: &[ast::Arg],
        span: Span,
        want: Option<&Type>,
    ) -> Expr {
        let call = BuiltinCall { entry, args, at: name.span, span };
        let of_tiles = entry.in_tiles()
            && match entry.builtin {
                Builtin::Sum => self.reduces_tile(call),
                Builtin::Arange => self.in_tile() && args.len() == 1,
                _ => self.in_tile(),
            };
        if entry.spaces == BuiltinSpaces::Host && !of_tiles && !self.need_host(name.span, &format!("`{}`", entry.name))
        {
            return self.after_error(args, span);
        }
        match entry.builtin {
            Builtin::Math(f) => self.math(call, f, want),
            Builtin::Select => self.select(call, want),
            Builtin::CeilDiv => self.ceil_div(call, want),
            Builtin::Bitcast => self.bitcast(call),
            Builtin::Len => self.of_extents(|cx| cx.len(call)),
            Builtin::Shape => self.of_extents(|cx| cx.shape(call)),
            Builtin::Assert => self.assert(call),
            Builtin::Print => {
                if !self.no_names(args, "print") {
                    return self.after_error(args, span);
                }
                self.need_print(call.at);
                let values = args.iter().map(|a| self.printable(&a.value)).collect();
                call.make(values, Type::Unit)
            }
            Builtin::NoGrad => self.no_grad(call),
            Builtin::Dot => self.dot(call),
            Builtin::Cross | Builtin::Length | Builtin::Normalize => self.geometric(call),
            Builtin::Barrier(kind) => self.barrier(call, kind),
            Builtin::Atomic(_) | Builtin::AtomicLoad | Builtin::AtomicStore => self.atomic(call),
            Builtin::Warp(op) => self.warp(call, op),
            Builtin::Mma => self.mma(call),
            Builtin::Fence | Builtin::FenceBlock => {
                self.need_device(call.at, &format!("`{}`", entry.name), false);
                match self.take_positional(call, 0..=0, &[]) {
                    Some(_) => call.make(vec![], Type::Unit),
                    None => self.after_error(args, span),
                }
            }
            Builtin::Cached | Builtin::Streaming => self.hint(call),
            Builtin::ThreadIdx
            | Builtin::BlockIdx
            | Builtin::BlockDim
            | Builtin::GridDim
            | Builtin::GlobalIdx
            | Builtin::LaneIdx
            | Builtin::WarpIdx
            | Builtin::WarpSize
            | Builtin::Args => self.bad(span),
            Builtin::Derive(DerivativeKind::Check) => self.gradcheck(name, args, span),
            Builtin::Derive(_) => self.uncalled_derivative(name, args, span),
            Builtin::WithGrad => self.uncalled_with_grad(name, span),
            Builtin::Sum if of_tiles => self.as_tile(|cx| cx.host_builtin(call, want)),
            _ => self.host_builtin(call, want),
        }
    }

    /// Checks operands that must have the same type. Literals are checked last, so that they take the type of the other
    /// operands.
    fn operands(&mut self, positional: &[&ast::Expr], want: Option<&Type>) -> Vec<Expr> {
        let mut hint = want.map(scalar_of);
        let mut out: Vec<Option<Expr>> = vec![None; positional.len()];
        for literal in [false, true] {
            for (e, slot) in positional.iter().zip(&mut out) {
                if is_literal(e) == literal {
                    let e = self.expr(e, hint.as_ref());
                    hint = Some(scalar_of(&e.ty));
                    *slot = Some(e);
                }
            }
        }
        out.into_iter().flatten().collect()
    }

    fn math(&mut self, call: BuiltinCall<'_>, f: MathFn, want: Option<&Type>) -> Expr {
        let name = call.entry.name;
        let (arity, kind, gives_bool) = math_shape(call.entry);
        let reduces = matches!(f, MathFn::Min | MathFn::Max);
        if reduces && (call.positional().count() == 1 || call.named_arg("axis").is_some()) {
            if !self.reduces_tile(call) {
                self.need_host(call.at, &format!("`{name}` of a whole array"));
                return self.reduce(call, Some(kind));
            }
            return self.as_tile(|cx| {
                cx.need_arrays(call.at, &format!("`{name}` of a whole array"));
                cx.reduce(call, Some(kind))
            });
        }
        let Some(positional) = self.take_positional(call, arity..=arity, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let parts = self.operands(&positional, if gives_bool { None } else { want });
        // A fast path for a single scalar operand, which is by far the most frequent case.
        if let [Expr { ty: Type::Scalar(s), .. }] = parts.as_slice()
            && kind.takes_scalar(*s)
            && (!is_of_f32(call.entry) || *s == Scalar::F32)
        {
            let ty = if gives_bool { BOOL } else { Type::Scalar(*s) };
            return call.make(parts, ty);
        }
        let refs: Vec<&Expr> = parts.iter().collect();
        let joined = self.elementwise(&refs, call.at, name);
        let ty = match joined {
            CommonType::Is { scalar, whole } => {
                let is_valid = self.vars.require(&scalar, kind);
                if !is_valid || is_of_f32(call.entry) && !self.vars.unify(&scalar, &F32) {
                    self.wrong_kind(call, &parts, &scalar, kind);
                    return self.bad(call.span);
                }
                if gives_bool { with_scalar(&whole, &BOOL) } else { whole }
            }
            other => other.whole(),
        };
        call.make(parts, ty)
    }

    fn wrong_kind(&mut self, call: BuiltinCall<'_>, parts: &[Expr], scalar: &Type, kind: TypeClass) {
        let actual = self.ty_text(scalar);
        let noun = match kind {
            _ if is_of_f32(call.entry) => "`f32`",
            TypeClass::Float => "floats",
            TypeClass::Int => "integers",
            _ => "numbers",
        };
        let span = parts.first().map_or(call.at, |p| p.span);
        let mut d = Diagnostic::error("E0312", format!("`{}` takes {noun}, but this is `{actual}`", call.entry.name))
            .at(span, format!("this is `{actual}`"));
        if let Type::Param(p) = scalar {
            if is_of_f32(call.entry) {
                d = d.help("a type parameter may be another type: write `f32(…)`, or `f32` instead of the parameter");
            } else if let Some(g) = self.sig.generics.get(*p as usize) {
                d = d.because(g.span, "its bound allows other types");
                d = d.help(format!(
                    "write the bound `{}: {}`",
                    g.name,
                    if kind == TypeClass::Float { "Float" } else { "Int" }
                ));
            }
        } else if matches!(scalar, Type::Vector(..)) {
            d = d.help("its components are numbers: `.x .y .z .w`");
        } else if let [part] = parts {
            d = self.conversion_fix(d, part, if kind == TypeClass::Float { "f32" } else { "i32" });
        }
        self.report(d);
    }

    /// Returns whether a builtin can be passed where a function of type `want` is expected.
    pub fn builtin_fits(&mut self, builtin: Builtin, want: &FnType) -> bool {
        let Builtin::Math(_) = builtin else { return false };
        let (arity, kind, gives_bool) = math_shape(builtin.entry());
        let Some(first) = want.params.first().cloned() else { return false };
        want.params.len() == arity
            && want.params.iter().all(|p| self.vars.unify(p, &first))
            && self.vars.require(&scalar_of(&first), kind)
            && (!is_of_f32(builtin.entry()) || self.vars.unify(&scalar_of(&first), &F32))
            && self.vars.unify(&want.result, if gives_bool { &BOOL } else { &first })
    }

    fn select(&mut self, call: BuiltinCall<'_>, want: Option<&Type>) -> Expr {
        let Some(positional) = self.take_positional(call, 3..=3, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let [cond, then, other] = positional.as_slice() else { return self.bad(call.span) };
        let cond = self.expr(cond, Some(&BOOL));
        let cond_ty = self.vars.shallow(&cond.ty);
        if !self.vars.unify(&scalar_of(&cond_ty), &BOOL) {
            let d = self.mismatch(&cond, &BOOL, None);
            self.report(d);
            return self.bad(call.span);
        }
        let branches = self.operands(&[then, other], want);
        let [a, b] = branches.as_slice() else { return self.bad(call.span) };
        let simple = matches!(cond_ty, Type::Scalar(_));
        let ty = if simple && matches!(a.ty, Type::Struct(_) | Type::Tuple(_)) {
            if !self.coerce(b, &a.ty.clone(), None) {
                return self.bad(call.span);
            }
            a.ty.clone()
        } else {
            match self.elementwise(&[a, b], call.at, "select") {
                CommonType::Is { scalar, whole } if simple => {
                    let _ = scalar;
                    whole
                }
                CommonType::Is { scalar, .. } => {
                    self.shape_together(&[&cond, a, b], call.at, "select", &scalar).unwrap_or_default()
                }
                other => other.whole(),
            }
        };
        let mut args = vec![cond];
        args.extend(branches);
        call.make(args, ty)
    }

    /// Checks `no_grad(x)`: any value on the host, anything but arrays in kernels.
    fn no_grad(&mut self, call: BuiltinCall<'_>) -> Expr {
        let positional = self.take_positional(call, 1..=1, &[]);
        let Some([x]) = positional.as_deref() else { return self.after_error(call.args, call.span) };
        let x = self.expr(x, None);
        let ty = self.vars.shallow(&x.ty);
        if matches!(ty, Type::Array(_)) && !self.need_host(call.at, "`no_grad` of an array") {
            return self.bad(call.span);
        }
        call.make(vec![x], ty)
    }

    fn ceil_div(&mut self, call: BuiltinCall<'_>, want: Option<&Type>) -> Expr {
        let Some(positional) = self.take_positional(call, 2..=2, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let parts = self.operands(&positional, want);
        for part in &parts {
            if !self.require_kind(part, TypeClass::Int, "an argument of `ceil_div`") {
                return self.bad(call.span);
            }
        }
        let refs: Vec<&Expr> = parts.iter().collect();
        let ty = self.elementwise(&refs, call.at, "ceil_div").whole();
        call.make(parts, ty)
    }

    fn bitcast(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 2..=2, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let [to, value] = positional.as_slice() else { return self.bad(call.span) };
        let to_ty = self.type_argument(to);
        let value = self.expr(value, None);
        let from = self.vars.finish(&self.vars.shallow(&value.ty));
        let size = |t: &Type| match t {
            Type::Scalar(s) => Some(s.size()),
            Type::Vector(s, n) => Some(s.size() * usize::from(*n)),
            _ => None,
        };
        let is_array = matches!(from, Type::Array(_));
        let one_bool = |a: &Type, b: &Type| {
            [a, b].iter().any(|t| matches!(t, Type::Scalar(Scalar::Bool) | Type::Vector(Scalar::Bool, _)))
        };
        let inner = match &from {
            Type::Array(a) => {
                self.need_host(call.at, "`bitcast` of a whole array");
                a.element.clone()
            }
            other => other.clone(),
        };
        match (&to_ty, size(&to_ty), size(&inner)) {
            (Type::Error, ..) => return self.bad(call.span),
            _ if matches!(from, Type::Error) => return self.bad(call.span),
            // It is known only at run time whether the operand is an array.
            _ if inner == Type::Unknown => {
                let to = make(ExprKind::Bool(false), to_ty, call.span);
                return call.make_named(vec![value], vec![("type".into(), to)], Type::Unknown);
            }
            (_, Some(a), Some(b)) if a == b => {}
            // The target is a numeric type parameter, whose size is known only after monomorphization.
            (_, None, Some(_)) if self.is_number_param(&to_ty) => {}
            (_, Some(_), None) if self.is_number_param(&inner) => {}
            (_, None, None) if self.is_number_param(&to_ty) && self.is_number_param(&inner) => {}
            // The size of the elements of a host array may change if each row consists of a whole number of the new
            // elements. This is checked at run time.
            (_, Some(_), Some(_)) if is_array && !one_bool(&to_ty, &inner) => {}
            _ => {
                let (a, b) = (self.ty_text(&inner), self.ty_text(&to_ty));
                let d = Diagnostic::error("E0323", format!("`{a}` and `{b}` differ in size"))
                    .at(call.span, "`bitcast` keeps every bit")
                    .because(value.span, format!("this is `{a}`"))
                    .help("to convert the value, call the type: `u32(x)`");
                self.report(d);
                return self.bad(call.span);
            }
        }
        let ty = match &from {
            Type::Array(a) => {
                let mut dims = a.dims.clone();
                if let (Some(last), true) = (dims.last_mut(), size(&to_ty) != size(&inner)) {
                    *last = Dim::Unknown;
                }
                crate::infer::array(to_ty, dims)
            }
            _ => to_ty,
        };
        make(ExprKind::Bitcast { expr: Box::new(value) }, ty, call.span)
    }

    fn is_number_param(&self, ty: &Type) -> bool {
        matches!(ty, Type::Param(_)) && self.vars.scalar_kind(ty).is_some_and(|kind| kind != TypeClass::Any)
    }

    /// Checks the array argument of a builtin that only uses its shape.
    fn shaped(&mut self, call: BuiltinCall<'_>, e: &ast::Expr) -> Option<Expr> {
        let e = self.expr(e, None);
        match self.vars.shallow(&e.ty) {
            Type::Array(_) | Type::Unknown | Type::Strings => Some(e),
            Type::Str if call.entry.builtin == Builtin::Len => Some(e),
            Type::Error => None,
            _ => {
                let actual = self.ty_text(&e.ty);
                let d =
                    Diagnostic::error("E0301", format!("`{}` takes an array, but this is `{actual}`", call.entry.name))
                        .at(e.span, format!("this is `{actual}`"));
                self.report(d);
                None
            }
        }
    }

    fn len(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=1, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let e = positional.first().and_then(|e| self.shaped(call, e));
        match e {
            Some(e) => call.make(vec![e], I32),
            None => make(ExprKind::Error, I32, call.span),
        }
    }

    fn shape(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=2, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some(e) = positional.first().and_then(|e| self.shaped(call, e)) else { return self.bad(call.span) };
        let rank = match self.vars.shallow(&e.ty) {
            Type::Array(a) => Some(a.dims.len()),
            Type::Strings => Some(1),
            _ => None,
        };
        let Some(axis) = positional.get(1) else {
            let ty = rank.map_or(Type::Unknown, |n| Type::Tuple(vec![I32; n].into()));
            return call.make(vec![e], ty);
        };
        let axis = self.expr_as(axis, &I32);
        let axis_value = crate::const_eval::int(self, &axis);
        if let (Some(k), Some(n)) = (axis_value, rank) {
            self.check_axis(k, n, axis.span);
        } else if axis_value.is_none() && !self.in_host() && self.home != BodyKind::Fn {
            let d = Diagnostic::error("E0314", "the axis must be a constant")
                .at(axis.span, "this is only known when it runs");
            self.report(d);
        }
        call.make(vec![e, axis], I32)
    }

    pub fn check_axis(&mut self, axis: i64, rank: usize, span: Span) -> bool {
        let ok = usize::try_from(axis).is_ok_and(|a| a < rank);
        if !ok {
            let d = Diagnostic::error("E0306", format!("there is no axis {axis}"))
                .at(span, format!("the array has {}, counted from 0", count(rank, "axis", "axes")));
            // `axis = -1` is the last one in Python.
            let from_end = i64::try_from(rank).map_or(-1, |rank| rank + axis);
            self.report(match axis < 0 && from_end >= 0 {
                true => d.fix(format!("write `{from_end}`"), span, from_end.to_string(), Applicability::MaybeIncorrect),
                false => d,
            });
        }
        ok
    }

    fn assert(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=2, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let mut args = Vec::with_capacity(2);
        if let Some(cond) = positional.first() {
            let e = self.expr(cond, Some(&BOOL));
            let ty = self.vars.shallow(&e.ty);
            let whole = matches!(&ty, Type::Array(_)) && self.need_host(e.span, "an `assert` of a whole array");
            let inner = if whole { scalar_of(&ty) } else { ty };
            if !self.vars.unify(&inner, &BOOL) {
                let actual = self.ty_text(&e.ty);
                let d = Diagnostic::error("E0308", format!("`assert` takes a condition, but this is `{actual}`"))
                    .at(e.span, format!("this is `{actual}`"));
                self.report(d);
            }
            args.push(e);
        }
        if let Some(message) = positional.get(1) {
            let e = self.printable(message);
            self.coerce(&e, &Type::Str, None);
            args.push(e);
        }
        call.make(args, Type::Unit)
    }

    /// Checks `cross`, `length` and `normalize`, which take vectors of floats.
    fn geometric(&mut self, call: BuiltinCall<'_>) -> Expr {
        let (name, cross) = (call.entry.name, call.entry.builtin == Builtin::Cross);
        let n = if cross { 2 } else { 1 };
        let Some(positional) = self.take_positional(call, n..=n, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let parts = self.operands(&positional, None);
        let types: Vec<Type> = parts.iter().map(|part| self.vars.shallow(&part.ty)).collect();
        if types.contains(&Type::Error) {
            return self.bad(call.span);
        }
        let lanes = |n: u8| !cross || n == 3;
        let is_valid =
            |ty: &Type| matches!(ty, Type::Vector(s, n) if s.is_float() && lanes(*n)) || *ty == Type::Unknown;
        let odd = types.iter().position(|ty| !is_valid(ty));
        let ty = types.iter().find(|ty| **ty != Type::Unknown).cloned().unwrap_or(Type::Unknown);
        let differs = types.iter().position(|other| *other != ty && *other != Type::Unknown);
        if let Some(part) = odd.or(differs).and_then(|at| parts.get(at)) {
            let actual = self.ty_text(&part.ty);
            let expected = if cross { "two vectors of three floats of one type" } else { "a vector of floats" };
            let mut d = Diagnostic::error("E0302", format!("`{name}` takes {expected}, not `{actual}`"))
                .at(part.span, format!("this is `{actual}`"));
            if let (Type::Array(_), Builtin::Length) = (self.vars.shallow(&part.ty), call.entry.builtin) {
                d = d.help("`len(x)` is the extent of an array");
            }
            self.report(d);
            return self.bad(call.span);
        }
        let ty = if call.entry.builtin == Builtin::Length { scalar_of(&ty) } else { ty };
        call.make(parts, ty)
    }

    fn dot(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 2..=2, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let parts = self.operands(&positional, None);
        let [a, b] = parts.as_slice() else { return self.bad(call.span) };
        let (at, bt) = (self.vars.shallow(&a.ty), self.vars.shallow(&b.ty));
        let ty = match (&at, &bt) {
            (Type::Error, _) | (_, Type::Error) => return self.bad(call.span),
            (Type::Unknown, _) | (_, Type::Unknown) => {
                self.leave_literals_open(&[a, b]);
                Type::Unknown
            }
            (Type::Vector(s, n), Type::Vector(t, m)) if s == t && n == m => Type::Scalar(*s),
            (Type::Array(x), Type::Array(y)) if x.dims.len() == 1 && y.dims.len() == 1 => {
                self.need_host(call.at, "`dot` of arrays");
                let mut whole = self.elementwise(&[a, b], call.at, "dot").whole();
                if let Type::Array(w) = &whole {
                    whole = self.total_of(&w.element);
                }
                whole
            }
            _ => {
                let (x, y) = (self.ty_text(&at), self.ty_text(&bt));
                let d = Diagnostic::error("E0302", format!("`dot` takes two vectors of one type, not `{x}` and `{y}`"))
                    .at(call.at, "the sum of the products of their components")
                    .because(a.span, format!("this is `{x}`"))
                    .because(b.span, format!("this is `{y}`"));
                let has_axes = |ty: &Type| matches!(ty, Type::Array(array) if array.dims.len() == 2);
                let d = match (has_axes(&at) && has_axes(&bt), self.in_host()) {
                    (true, true) => d.help("`a @ b` is the product of matrices"),
                    (true, false) => d.help("the product of two tiles is added to a third: `acc = mma(acc, a, b)`"),
                    _ => d,
                };
                self.report(d);
                return self.bad(call.span);
            }
        };
        call.make(parts, ty)
    }

    /// Checks a builtin that needs only the extents of its argument. It does not determine the element type of the
    /// argument.
    fn of_extents(&mut self, check: impl FnOnce(&mut Self) -> Expr) -> Expr {
        let begin = self.vars.begin_statement();
        let extents = check(self);
        self.vars.discard_uses(begin);
        extents
    }

    // Device operations

    /// Warns if some threads of a block may not reach an operation that all threads of the block must reach.
    pub fn require_convergence(&mut self, at: Span, what: &str) {
        let is_repeated = |d: &Diagnostic| d.code == "W0008" && d.primary() == Some(at);
        if self.diagnostics.iter().any(is_repeated) {
            return;
        }
        let warning = Diagnostic::warning("W0008", format!("some threads may not reach this {what}"))
            .at(at, "every thread of the block must get here");
        if let Some(DivergentCondition { at, of }) = self.divergence.condition() {
            let (differs, help) = match of {
                Fork::If => ("condition", "move it out of the `if`: threads with nothing to do still have to wait"),
                Fork::While => ("condition", AS_OFTEN),
                Fork::For => ("range", AS_OFTEN),
            };
            self.report(warning.because(at, format!("this {differs} differs between threads")).help(help));
        } else if let Some(returns) = self.divergence.early_return {
            let d = warning.because(returns, "some threads return here");
            self.report(d.help("put the work of the other threads into an `if`, and let all threads continue to here"));
        }
    }

    fn barrier(&mut self, call: BuiltinCall<'_>, kind: BarrierKind) -> Expr {
        if !self.need_device(call.at, &format!("`{}`", call.entry.name), true) {
            return self.after_error(call.args, call.span);
        }
        if kind == BarrierKind::Grid {
            self.needs.grid_barrier = true;
        }
        if kind != BarrierKind::Warp {
            self.require_convergence(call.at, &format!("`{}`", call.entry.name));
        }
        let (arity, ty) = match kind {
            BarrierKind::Block | BarrierKind::Warp | BarrierKind::Grid => (0, Type::Unit),
            BarrierKind::BlockAny | BarrierKind::BlockAll => (1, BOOL),
            BarrierKind::BlockCount => (1, I32),
        };
        let Some(positional) = self.take_positional(call, arity..=arity, &[]) else {
            return self.after_error(call.args, call.span);
        };
        // The result is the same for all threads of the block, even if the arguments differ between threads.
        let before = self.divergence.varying_reads;
        let args = positional.iter().map(|e| self.expr_as(e, &BOOL)).collect();
        self.divergence.varying_reads = before;
        call.make(args, ty)
    }

    fn warp(&mut self, call: BuiltinCall<'_>, op: WarpOp) -> Expr {
        if !self.need_device(call.at, &format!("`{}`", call.entry.name), true) {
            return self.after_error(call.args, call.span);
        }
        let lanes = matches!(op, WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor);
        let n = if lanes { 2 } else { 1 };
        let Some(positional) = self.take_positional(call, n..=n, &[by_name("among")]) else {
            return self.after_error(call.args, call.span);
        };
        let among = call.named_arg("among").map(|among| self.expr_as(among, &Type::Scalar(Scalar::U32)));
        let named_args: Vec<(SmolStr, Expr)> = among.into_iter().map(|among| ("among".into(), among)).collect();
        let Some(first) = positional.first() else { return self.bad(call.span) };
        let (ty, kind) = match op {
            WarpOp::Ballot => (Type::Scalar(Scalar::U32), None),
            WarpOp::Any | WarpOp::All => (BOOL, None),
            WarpOp::ReduceAdd | WarpOp::ReduceMin | WarpOp::ReduceMax => (Type::Error, Some(TypeClass::Num)),
            WarpOp::ReduceAnd | WarpOp::ReduceOr | WarpOp::ReduceXor => (Type::Error, Some(TypeClass::Int)),
            WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor | WarpOp::MatchAny => {
                (Type::Error, Some(TypeClass::Any))
            }
        };
        let Some(kind) = kind else {
            let arg = self.expr_as(first, &BOOL);
            return call.make_named(vec![arg], named_args, ty);
        };
        let value = self.expr(first, None);
        let scalar = scalar_of(&self.vars.shallow(&value.ty));
        if !self.vars.require(&scalar, kind) || matches!(self.vars.shallow(&value.ty), Type::Array(_)) {
            self.wrong_kind(call, std::slice::from_ref(&value), &scalar, kind);
            return self.bad(call.span);
        }
        let ty = if op == WarpOp::MatchAny { Type::Scalar(Scalar::U32) } else { value.ty.clone() };
        let mut args = vec![value];
        if let Some(lane) = positional.get(1) {
            let lane = self.expr(lane, Some(&I32));
            self.require_kind(&lane, TypeClass::Int, "a lane");
            args.push(lane);
        }
        call.make_named(args, named_args, ty)
    }

    fn atomic(&mut self, call: BuiltinCall<'_>) -> Expr {
        let builtin = call.entry.builtin;
        if !self.need_device(call.at, &format!("`{}`", call.entry.name), false) {
            return self.after_error(call.args, call.span);
        }
        let n = match builtin {
            Builtin::AtomicLoad => 1,
            Builtin::Atomic(AtomicOp::CompareExchange) => 3,
            _ => 2,
        };
        let Some(positional) = self.take_positional(call, n..=n, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((first, rest)) = positional.split_first() else { return self.bad(call.span) };
        let is_place = matches!(&bare(first).kind, Ast::Index { .. } | Ast::Name(_) | Ast::Field { .. });
        // An atomic load reads the location. An atomic store or exchange is allowed on an uninitialized location.
        let place = match builtin {
            Builtin::AtomicLoad => self.expr(first, None),
            _ if !is_place => self.expr(first, None),
            Builtin::Atomic(AtomicOp::Exchange) | Builtin::AtomicStore => self.place(first, false),
            _ => self.place(first, true),
        };
        if place.ty == Type::Error {
            return self.bad(call.span);
        }
        if let ExprKind::Index { base, .. } = &place.kind
            && matches!(self.vars.shallow(&base.ty), Type::Vector(..))
        {
            let d = Diagnostic::error("E0414", format!("`{}` needs a named component", call.entry.name))
                .at(place.span, "the component is known only at run time")
                .help("branch on the index and name the component in each branch: `.x .y .z .w`");
            self.report(d);
            return self.bad(call.span);
        }
        if !self.is_shared_place(&place) {
            let d = Diagnostic::error("E0414", format!("`{}` needs a place that threads share", call.entry.name))
                .at(place.span, "this is not an element of an array")
                .help("give it an element of an `inout` or `shared` array: `atomic_add(hist[b], 1)`");
            self.report(d);
            return self.bad(call.span);
        }
        if let ExprKind::Index { base, .. } = &place.kind
            && let ExprKind::Local(id) = base.kind
        {
            self.local(id, base.span);
        }
        if builtin == Builtin::AtomicLoad && self.is_read_only(&place) {
            let d = Diagnostic::error("E0414", "`atomic_load` needs a place that threads change")
                .at(place.span, "the array is read only: it does not change while the kernel runs")
                .help("read it without `atomic_load`, or make the array `inout`");
            self.report(d);
            return self.bad(call.span);
        }
        let ty = self.vars.shallow(&place.ty);
        let bits = matches!(builtin, Builtin::Atomic(AtomicOp::And | AtomicOp::Or | AtomicOp::Xor));
        let kind = match builtin {
            _ if bits && ty == BOOL => TypeClass::Any,
            Builtin::Atomic(AtomicOp::Add | AtomicOp::Sub | AtomicOp::Min | AtomicOp::Max) => TypeClass::Num,
            Builtin::Atomic(AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) => TypeClass::Int,
            _ => TypeClass::Any,
        };
        if !self.vars.require(&ty, kind)
            || matches!(ty, Type::Vector(..) | Type::Struct(_) | Type::Tuple(_) | Type::Array(_))
        {
            self.wrong_kind(call, std::slice::from_ref(&place), &ty, kind);
            return self.bad(call.span);
        }
        let values: Vec<Expr> = rest.iter().map(|e| self.expr_as(e, &ty)).collect();
        let mut args = vec![place];
        args.extend(values);
        call.make(args, if builtin == Builtin::AtomicStore { Type::Unit } else { ty })
    }

    fn is_read_only(&self, place: &Expr) -> bool {
        match &place.kind {
            ExprKind::Local(id) => self.locals.get(*id).is_some_and(|l| l.kind == LocalKind::Param(Access::In)),
            ExprKind::Index { base, .. } | ExprKind::Field { base, .. } | ExprKind::Swizzle { base, .. } => {
                self.is_read_only(base)
            }
            _ => false,
        }
    }

    fn is_shared_place(&self, place: &Expr) -> bool {
        match &place.kind {
            ExprKind::Index { base, .. } => match &base.kind {
                ExprKind::Local(id) => self.locals.get(*id).is_some_and(|l| l.kind != LocalKind::Var),
                _ => false,
            },
            ExprKind::Field { base, .. } | ExprKind::Swizzle { base, .. } => self.is_shared_place(base),
            _ => false,
        }
    }

    fn hint(&mut self, call: BuiltinCall<'_>) -> Expr {
        self.need_device(call.at, &format!("`{}`", call.entry.name), false);
        let Some(positional) = self.take_positional(call, 1..=1, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some(e) = positional.first().map(|e| self.expr(e, None)) else { return self.bad(call.span) };
        if !matches!(e.kind, ExprKind::Index { .. } | ExprKind::Error) {
            let d = Diagnostic::error("E0319", format!("`{}` takes an element of an array", call.entry.name))
                .at(e.span, "this is not an element");
            self.report(d);
            return self.bad(call.span);
        }
        let ty = e.ty.clone();
        call.make(vec![e], ty)
    }
}
