//! Calls of builtins that are available in kernels: mathematics, values, and device operations.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::arguments::by_name;
use crate::check::builtin_call::BuiltinCall;
use crate::check::cx::{Cx, Fork, Home, Parting};
use crate::check::infer::Kind;
use crate::check::make::{BOOL, F32, I32, bare, count, is_literal, make};
use crate::check::ops::{Joined, scalar_of, with_scalar};
use crate::check::typed::*;
use crate::lang::builtin::{Builtin, Derivative, Entry, Worlds};
use crate::lang::ops::{AtomicOp, BarrierKind, Family, MathFn, WarpOp};
use crate::lang::scalar::Scalar;
use crate::syntax::ast::{self, ExprKind as Ast};

/// What helps where a loop keeps some threads from something.
const AS_OFTEN: &str =
    "let all threads of the block run the loop as often, and let only the work in it depend on the thread";

/// Returns the shape of a mathematical function: number of arguments, their kind, and whether the result is `bool`.
pub(crate) fn math_shape(entry: &Entry) -> (usize, Kind, bool) {
    let signature = entry.signature;
    let kind = if signature.starts_with("<T: Float>") || is_of_f32(entry) {
        Kind::Float
    } else if signature.starts_with("<T: Int>") {
        Kind::Int
    } else {
        Kind::Num
    };
    let params = signature.split('(').nth(1).and_then(|s| s.split(')').next()).unwrap_or("");
    (params.split(',').filter(|p| !p.trim().is_empty()).count(), kind, signature.ends_with("-> bool"))
}

/// Whether a mathematical function takes `f32` and no other type.
fn is_of_f32(entry: &Entry) -> bool {
    matches!(entry.builtin, Builtin::Math(function) if function.row().family == Family::Singles)
}

impl Cx<'_> {
    pub fn call_builtin(
        &mut self,
        entry: &'static Entry,
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
        entry: &'static Entry,
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
        if entry.worlds == Worlds::Host && !of_tiles && !self.need_host(name.span, &format!("`{}`", entry.name)) {
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
                match self.take(call, 0..=0, &[]) {
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
            Builtin::Derive(Derivative::Check) => self.gradcheck(name, args, span),
            Builtin::Derive(_) => self.uncalled_derivative(name, args, span),
            Builtin::WithGrad => self.uncalled_stated(name, span),
            Builtin::Sum if of_tiles => self.as_tile(|cx| cx.host_builtin(call, want)),
            _ => self.host_builtin(call, want),
        }
    }

    /// Checks operands that share a type: literals last, so that they take the type of the others.
    fn operands(&mut self, given: &[&ast::Expr], want: Option<&Type>) -> Vec<Expr> {
        let mut hint = want.map(scalar_of);
        let mut out: Vec<Option<Expr>> = vec![None; given.len()];
        for literal in [false, true] {
            for (e, slot) in given.iter().zip(&mut out) {
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
        if reduces && (call.positional().count() == 1 || call.named("axis").is_some()) {
            if !self.reduces_tile(call) {
                self.need_host(call.at, &format!("`{name}` of a whole array"));
                return self.reduce(call, Some(kind));
            }
            return self.as_tile(|cx| {
                cx.need_arrays(call.at, &format!("`{name}` of a whole array"));
                cx.reduce(call, Some(kind))
            });
        }
        let Some(given) = self.take(call, arity..=arity, &[]) else { return self.after_error(call.args, call.span) };
        let parts = self.operands(&given, if gives_bool { None } else { want });
        // Fast path for a single scalar operand, by far the most frequent case.
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
            Joined::Is { scalar, whole } => {
                let fits = self.vars.require(&scalar, kind);
                if !fits || is_of_f32(call.entry) && !self.vars.unify(&scalar, &F32) {
                    self.wrong_kind(call, &parts, &scalar, kind);
                    return self.bad(call.span);
                }
                if gives_bool { with_scalar(&whole, &BOOL) } else { whole }
            }
            other => other.whole(),
        };
        call.make(parts, ty)
    }

    fn wrong_kind(&mut self, call: BuiltinCall<'_>, parts: &[Expr], scalar: &Type, kind: Kind) {
        let found = self.ty_text(scalar);
        let noun = match kind {
            _ if is_of_f32(call.entry) => "`f32`",
            Kind::Float => "floats",
            Kind::Int => "integers",
            _ => "numbers",
        };
        let span = parts.first().map_or(call.at, |p| p.span);
        let mut d = Diagnostic::error("E0312", format!("`{}` takes {noun}, but this is `{found}`", call.entry.name))
            .at(span, format!("this is `{found}`"));
        if let Type::Param(p) = scalar {
            if is_of_f32(call.entry) {
                d = d.help("a type parameter may be another type: write `f32(…)`, or `f32` instead of the parameter");
            } else if let Some(g) = self.sig.generics.get(*p as usize) {
                d = d.because(g.span, "its bound allows other types");
                d = d.help(format!(
                    "write the bound `{}: {}`",
                    g.name,
                    if kind == Kind::Float { "Float" } else { "Int" }
                ));
            }
        } else if matches!(scalar, Type::Vector(..)) {
            d = d.help("its components are numbers: `.x .y .z .w`");
        } else if *scalar != BOOL && parts.len() == 1 {
            d = self.conversion_fix(d, span, if kind == Kind::Float { "f32" } else { "i32" });
        }
        self.report(d);
    }

    /// Whether a builtin can be passed where a function of type `want` is expected.
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
        let Some(given) = self.take(call, 3..=3, &[]) else { return self.after_error(call.args, call.span) };
        let [cond, then, other] = given.as_slice() else { return self.bad(call.span) };
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
                Joined::Is { scalar, whole } if simple => {
                    let _ = scalar;
                    whole
                }
                Joined::Is { scalar, .. } => {
                    self.shape_together(&[&cond, a, b], call.at, "select", &scalar).unwrap_or_default()
                }
                other => other.whole(),
            }
        };
        let mut args = vec![cond];
        args.extend(branches);
        call.make(args, ty)
    }

    /// Checks `no_grad(x)`: of anything on the host, of values in kernels.
    fn no_grad(&mut self, call: BuiltinCall<'_>) -> Expr {
        let given = self.take(call, 1..=1, &[]);
        let Some([x]) = given.as_deref() else { return self.after_error(call.args, call.span) };
        let x = self.expr(x, None);
        let ty = self.vars.shallow(&x.ty);
        if matches!(ty, Type::Array(_)) && !self.need_host(call.at, "`no_grad` of an array") {
            return self.bad(call.span);
        }
        call.make(vec![x], ty)
    }

    fn ceil_div(&mut self, call: BuiltinCall<'_>, want: Option<&Type>) -> Expr {
        let Some(given) = self.take(call, 2..=2, &[]) else { return self.after_error(call.args, call.span) };
        let parts = self.operands(&given, want);
        for part in &parts {
            if !self.require_kind(part, Kind::Int, "an argument of `ceil_div`") {
                return self.bad(call.span);
            }
        }
        let refs: Vec<&Expr> = parts.iter().collect();
        let ty = self.elementwise(&refs, call.at, "ceil_div").whole();
        call.make(parts, ty)
    }

    fn bitcast(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(given) = self.take(call, 2..=2, &[]) else { return self.after_error(call.args, call.span) };
        let [to, value] = given.as_slice() else { return self.bad(call.span) };
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
            // The run knows whether this is an array.
            _ if inner == Type::Unknown => {
                let to = make(ExprKind::Bool(false), to_ty, call.span);
                return call.make_named(vec![value], vec![("type".into(), to)], Type::Unknown);
            }
            (_, Some(a), Some(b)) if a == b => {}
            // A numeric type parameter, whose size is known after monomorphization.
            (_, None, Some(_)) if self.is_number_param(&to_ty) => {}
            (_, Some(_), None) if self.is_number_param(&inner) => {}
            (_, None, None) if self.is_number_param(&to_ty) && self.is_number_param(&inner) => {}
            // A host array may change its element size if its rows hold a whole number of the new elements (checked at run time).
            (_, Some(_), Some(_)) if is_array && !one_bool(&to_ty, &inner) => {}
            _ => {
                let (a, b) = (self.ty_text(&inner), self.ty_text(&to_ty));
                let d = Diagnostic::error("E0323", format!("`{a}` and `{b}` differ in size"))
                    .at(call.span, "`bitcast` keeps every bit")
                    .because(value.span, format!("this is `{a}`"))
                    .help("a conversion of the value is written as a call of the type: `u32(x)`");
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
                crate::check::infer::array(to_ty, dims)
            }
            _ => to_ty,
        };
        make(ExprKind::Bitcast { expr: Box::new(value) }, ty, call.span)
    }

    fn is_number_param(&self, ty: &Type) -> bool {
        matches!(ty, Type::Param(_)) && self.vars.scalar_kind(ty).is_some_and(|kind| kind != Kind::Any)
    }

    /// Checks the array argument of a builtin that only uses its shape.
    fn shaped(&mut self, call: BuiltinCall<'_>, e: &ast::Expr) -> Option<Expr> {
        let e = self.expr(e, None);
        match self.vars.shallow(&e.ty) {
            Type::Array(_) | Type::Unknown | Type::Strings => Some(e),
            Type::Str if call.entry.builtin == Builtin::Len => Some(e),
            Type::Error => None,
            _ => {
                let found = self.ty_text(&e.ty);
                let d =
                    Diagnostic::error("E0301", format!("`{}` takes an array, but this is `{found}`", call.entry.name))
                        .at(e.span, format!("this is `{found}`"));
                self.report(d);
                None
            }
        }
    }

    fn len(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(given) = self.take(call, 1..=1, &[]) else { return self.after_error(call.args, call.span) };
        let e = given.first().and_then(|e| self.shaped(call, e));
        match e {
            Some(e) => call.make(vec![e], I32),
            None => make(ExprKind::Error, I32, call.span),
        }
    }

    fn shape(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(given) = self.take(call, 1..=2, &[]) else { return self.after_error(call.args, call.span) };
        let Some(e) = given.first().and_then(|e| self.shaped(call, e)) else { return self.bad(call.span) };
        let rank = match self.vars.shallow(&e.ty) {
            Type::Array(a) => Some(a.dims.len()),
            Type::Strings => Some(1),
            _ => None,
        };
        let Some(axis) = given.get(1) else {
            let ty = rank.map_or(Type::Unknown, |n| Type::Tuple(vec![I32; n].into()));
            return call.make(vec![e], ty);
        };
        let axis = self.expr_as(axis, &I32);
        let known = crate::check::eval::int(self, &axis);
        if let (Some(k), Some(n)) = (known, rank) {
            self.check_axis(k, n, axis.span);
        } else if known.is_none() && !self.in_host() && self.home != Home::Fn {
            let d = Diagnostic::error("E0314", "the axis has to be a constant")
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
            self.report(d);
        }
        ok
    }

    fn assert(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(given) = self.take(call, 1..=2, &[]) else { return self.after_error(call.args, call.span) };
        let mut args = Vec::with_capacity(2);
        if let Some(cond) = given.first() {
            let e = self.expr(cond, Some(&BOOL));
            let ty = self.vars.shallow(&e.ty);
            let whole = matches!(&ty, Type::Array(_)) && self.need_host(e.span, "an `assert` of a whole array");
            let inner = if whole { scalar_of(&ty) } else { ty };
            if !self.vars.unify(&inner, &BOOL) {
                let found = self.ty_text(&e.ty);
                let d = Diagnostic::error("E0308", format!("`assert` takes a condition, but this is `{found}`"))
                    .at(e.span, format!("this is `{found}`"));
                self.report(d);
            }
            args.push(e);
        }
        if let Some(message) = given.get(1) {
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
        let Some(given) = self.take(call, n..=n, &[]) else { return self.after_error(call.args, call.span) };
        let parts = self.operands(&given, None);
        let types: Vec<Type> = parts.iter().map(|part| self.vars.shallow(&part.ty)).collect();
        if types.contains(&Type::Error) {
            return self.bad(call.span);
        }
        let lanes = |n: u8| !cross || n == 3;
        let fits = |ty: &Type| matches!(ty, Type::Vector(s, n) if s.is_float() && lanes(*n)) || *ty == Type::Unknown;
        let odd = types.iter().position(|ty| !fits(ty));
        let ty = types.iter().find(|ty| **ty != Type::Unknown).cloned().unwrap_or(Type::Unknown);
        let differs = types.iter().position(|other| *other != ty && *other != Type::Unknown);
        if let Some(part) = odd.or(differs).and_then(|at| parts.get(at)) {
            let found = self.ty_text(&part.ty);
            let wanted = if cross { "two vectors of three floats of one type" } else { "a vector of floats" };
            let mut d = Diagnostic::error("E0302", format!("`{name}` takes {wanted}, not `{found}`"))
                .at(part.span, format!("this is `{found}`"));
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
        let Some(given) = self.take(call, 2..=2, &[]) else { return self.after_error(call.args, call.span) };
        let parts = self.operands(&given, None);
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
                self.report(d);
                return self.bad(call.span);
            }
        };
        call.make(parts, ty)
    }

    /// Checks what asks for the extents of its argument only, and so uses none of its numbers.
    fn of_extents(&mut self, check: impl FnOnce(&mut Self) -> Expr) -> Expr {
        let since = self.vars.statement();
        let extents = check(self);
        self.vars.unused(since);
        extents
    }

    // Device operations

    /// Warns if some threads of a block may not get to something that all of them do together.
    pub fn divergence(&mut self, at: Span, what: &str) {
        let said = |d: &Diagnostic| d.code == "W0008" && d.primary() == Some(at);
        if self.diagnostics.iter().any(said) {
            return;
        }
        let warning = Diagnostic::warning("W0008", format!("some threads may not reach this {what}"))
            .at(at, "every thread of the block has to get here");
        if let Some(Parting { at, of }) = self.divergent.iter().copied().flatten().next() {
            let (differs, help) = match of {
                Fork::If => ("condition", "move it out of the `if`: threads with nothing to do still have to wait"),
                Fork::While => ("condition", AS_OFTEN),
                Fork::For => ("range", AS_OFTEN),
            };
            self.report(warning.because(at, format!("this {differs} differs between threads")).help(help));
        } else if let Some(returns) = self.divergent_return {
            let d = warning.because(returns, "some threads return here");
            self.report(d.help("put the work of the others into an `if`, and let all threads go on to here"));
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
            self.divergence(call.at, &format!("`{}`", call.entry.name));
        }
        let (arity, ty) = match kind {
            BarrierKind::Block | BarrierKind::Warp | BarrierKind::Grid => (0, Type::Unit),
            BarrierKind::BlockAny | BarrierKind::BlockAll => (1, BOOL),
            BarrierKind::BlockCount => (1, I32),
        };
        let Some(given) = self.take(call, arity..=arity, &[]) else { return self.after_error(call.args, call.span) };
        // The result is the same for all threads of the block, even if the arguments vary.
        let before = self.varying_reads;
        let args = given.iter().map(|e| self.expr_as(e, &BOOL)).collect();
        self.varying_reads = before;
        call.make(args, ty)
    }

    fn warp(&mut self, call: BuiltinCall<'_>, op: WarpOp) -> Expr {
        if !self.need_device(call.at, &format!("`{}`", call.entry.name), true) {
            return self.after_error(call.args, call.span);
        }
        let lanes = matches!(op, WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor);
        let n = if lanes { 2 } else { 1 };
        let Some(given) = self.take(call, n..=n, &[by_name("among")]) else {
            return self.after_error(call.args, call.span);
        };
        let among = call.named("among").map(|among| self.expr_as(among, &Type::Scalar(Scalar::U32)));
        let named: Vec<(SmolStr, Expr)> = among.into_iter().map(|among| ("among".into(), among)).collect();
        let Some(first) = given.first() else { return self.bad(call.span) };
        let (ty, kind) = match op {
            WarpOp::Ballot => (Type::Scalar(Scalar::U32), None),
            WarpOp::Any | WarpOp::All => (BOOL, None),
            WarpOp::ReduceAdd | WarpOp::ReduceMin | WarpOp::ReduceMax => (Type::Error, Some(Kind::Num)),
            WarpOp::ReduceAnd | WarpOp::ReduceOr | WarpOp::ReduceXor => (Type::Error, Some(Kind::Int)),
            WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor | WarpOp::MatchAny => {
                (Type::Error, Some(Kind::Any))
            }
        };
        let Some(kind) = kind else {
            let arg = self.expr_as(first, &BOOL);
            return call.make_named(vec![arg], named, ty);
        };
        let value = self.expr(first, None);
        let scalar = scalar_of(&self.vars.shallow(&value.ty));
        if !self.vars.require(&scalar, kind) || matches!(self.vars.shallow(&value.ty), Type::Array(_)) {
            self.wrong_kind(call, std::slice::from_ref(&value), &scalar, kind);
            return self.bad(call.span);
        }
        let ty = if op == WarpOp::MatchAny { Type::Scalar(Scalar::U32) } else { value.ty.clone() };
        let mut args = vec![value];
        if let Some(lane) = given.get(1) {
            let lane = self.expr(lane, Some(&I32));
            self.require_kind(&lane, Kind::Int, "a lane");
            args.push(lane);
        }
        call.make_named(args, named, ty)
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
        let Some(given) = self.take(call, n..=n, &[]) else { return self.after_error(call.args, call.span) };
        let Some((first, rest)) = given.split_first() else { return self.bad(call.span) };
        let is_place = matches!(&bare(first).kind, Ast::Index { .. } | Ast::Name(_) | Ast::Field { .. });
        // An atomic load is a read; an atomic store or exchange does not need an initialized location.
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
            let d = Diagnostic::error("E0414", format!("`{}` needs a component that is named", call.entry.name))
                .at(place.span, "which one this is only shows at run time")
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
                .at(place.span, "the array is read only: nobody changes it while the kernel runs")
                .help("read it as it is, without `atomic_load`; or make the array `inout`");
            self.report(d);
            return self.bad(call.span);
        }
        let ty = self.vars.shallow(&place.ty);
        let bits = matches!(builtin, Builtin::Atomic(AtomicOp::And | AtomicOp::Or | AtomicOp::Xor));
        let kind = match builtin {
            _ if bits && ty == BOOL => Kind::Any,
            Builtin::Atomic(AtomicOp::Add | AtomicOp::Sub | AtomicOp::Min | AtomicOp::Max) => Kind::Num,
            Builtin::Atomic(AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) => Kind::Int,
            _ => Kind::Any,
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
        let Some(given) = self.take(call, 1..=1, &[]) else { return self.after_error(call.args, call.span) };
        let Some(e) = given.first().map(|e| self.expr(e, None)) else { return self.bad(call.span) };
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
