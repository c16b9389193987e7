//! The bindings of a call or launch: the arguments for the callee's type, constant and function parameters, and the
//! values of its dimensions.

use std::sync::Arc;

use crate::build::{I32, bare, make};
use crate::const_eval::{self, EvalScope};
use crate::context::{Cx, ErrorReported, ResolvedName};
use crate::infer::{TypeClass, array, same_dim};
use crate::scopes::LocalMeaning;
use crate::solve_dims;
use crate::typed::*;
use crate::visit;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_syntax::ast::{self, ExprKind as Ast};

pub(crate) struct Bind<'s> {
    pub sig: &'s Signature,
    /// A type variable for each type parameter (`Error` for generics of other kinds).
    pub types: Vec<Type>,
    /// For each generic parameter, whether the call passes it by name.
    explicit: Vec<bool>,
    pub consts: Vec<Option<Expr>>,
    pub fns: Vec<Option<Result<FnRef, ErrorReported>>>,
    /// The extent that each dimension is bound to, and the span of the argument that determined it.
    pub dims: Vec<Option<(Dim, Span)>>,
    /// Dimensions that the launch passes by name.
    pub named_dims: Vec<(u32, Expr)>,
    /// Extents of arguments for which the signature has an expression. They are checked after all other parameters are
    /// bound.
    deferred_dims: Vec<(u32, Dim, Span)>,
}

impl Cx<'_> {
    pub fn start_binding<'s>(&mut self, sig: &'s Signature) -> Bind<'s> {
        let types = sig.generics.iter().map(|g| match g.kind {
            GenericKind::Type { bound } => self.vars.fresh(TypeClass::of_bound(bound)),
            GenericKind::Const { .. } | GenericKind::Fn { .. } => Type::Error,
        });
        let types: Vec<Type> = types.collect();
        // The results of the callee depend on these types.
        types.iter().for_each(|ty| self.vars.record_use(ty));
        Bind {
            sig,
            types,
            explicit: vec![false; sig.generics.len()],
            consts: vec![None; sig.generics.len()],
            fns: vec![None; sig.generics.len()],
            dims: vec![None; sig.dims.len()],
            named_dims: vec![],
            deferred_dims: vec![],
        }
    }

    /// Substitutes the bindings into a type of the callee.
    pub fn subst(&self, ty: &Type, bind: &Bind<'_>) -> Type {
        match ty {
            Type::Param(p) => bind.types.get(*p as usize).map_or(Type::Error, |t| self.vars.shallow(t)),
            Type::Array(a) => {
                let dims = a.dims.iter().map(|d| self.subst_dim(d, bind)).collect();
                array(self.subst(&a.element, bind), dims)
            }
            Type::Tuple(parts) => Type::Tuple(parts.iter().map(|p| self.subst(p, bind)).collect()),
            Type::Fn(f) => Type::Fn(Arc::new(self.subst_fn(f, bind))),
            other => other.clone(),
        }
    }

    fn subst_fn(&self, f: &FnType, bind: &Bind<'_>) -> FnType {
        let params = f.params.iter().map(|p| self.subst(p, bind)).collect();
        FnType { params, result: self.subst(&f.result, bind) }
    }

    fn subst_dim(&self, dim: &Dim, bind: &Bind<'_>) -> Dim {
        match dim {
            Dim::Name(i) => bind.dims.get(*i as usize).and_then(|d| d.as_ref()).map_or(Dim::Unknown, |d| d.0.clone()),
            Dim::Expr(i) => match self.eval_dim(*i, bind, None) {
                Some(n) => Dim::Known(n),
                None => Dim::Unknown,
            },
            other => other.clone(),
        }
    }

    /// Evaluates a dimension expression of the callee. `assumed` is an unbound dimension and a value to use for it.
    fn eval_dim(&self, i: u32, bind: &Bind<'_>, assumed: Option<(u32, i64)>) -> Option<i64> {
        let e = bind.sig.dim_exprs.get(i as usize)?;
        self.eval_bound(bind, e, &|i| match (bind.dims.get(i as usize)?, assumed) {
            (Some((Dim::Known(n), _)), _) => Some(*n),
            (None, Some((dim, value))) if dim == i => Some(value),
            _ => None,
        })
    }

    /// Returns the values of the callee's constant parameters: the argument or the default, which may depend on earlier
    /// parameters. Evaluates each once.
    fn bound_consts(&self, bind: &Bind<'_>) -> Vec<Option<i64>> {
        let mut values: Vec<Option<i64>> = vec![];
        for (generic, argument) in bind.sig.generics.iter().zip(&bind.consts) {
            let value = match (argument, &generic.kind) {
                (Some(e), _) => const_eval::int(self, e),
                (None, GenericKind::Const { default: Some(e), .. }) => {
                    self.eval_with(&|i| values.get(i as usize).copied().flatten(), e, &|_| None)
                }
                (None, _) => None,
            };
            values.push(value);
        }
        values
    }

    /// Evaluates an expression of the callee's signature.
    fn eval_bound(&self, bind: &Bind<'_>, e: &Expr, dim: &dyn std::ops::Fn(u32) -> Option<i64>) -> Option<i64> {
        let constants = std::cell::OnceCell::new();
        let const_param = |i: u32| *constants.get_or_init(|| self.bound_consts(bind)).get(i as usize)?;
        self.eval_with(&const_param, e, dim)
    }

    fn eval_with(
        &self,
        const_param: &dyn std::ops::Fn(u32) -> Option<i64>,
        e: &Expr,
        dim: &dyn std::ops::Fn(u32) -> Option<i64>,
    ) -> Option<i64> {
        let scope = EvalScope { program: self.program, dim, const_param, local: &|_| None, global: &|_| None };
        const_eval::eval(&scope, e, 0)?.try_into().ok()
    }

    /// Returns whether the type of a parameter does not depend on the other arguments.
    fn is_independent(bind: &Bind<'_>, ty: &Type) -> bool {
        match ty {
            Type::Param(p) => {
                let generic = bind.sig.generics.get(*p as usize);
                let is_integer = |g: &Generic| matches!(g.kind, GenericKind::Type { bound: TypeBound::Int });
                bind.explicit.get(*p as usize) == Some(&true) || generic.is_some_and(is_integer)
            }
            Type::Array(a) => Self::is_independent(bind, &a.element),
            Type::Tuple(parts) => parts.iter().all(|part| Self::is_independent(bind, part)),
            _ => true,
        }
    }

    /// Returns whether an argument is an output made by `zeros`. It is bound after the inputs, which determine its
    /// element type.
    pub fn is_output_of_zeros(&self, bind: &Bind<'_>, param: &Param, arg: &Expr) -> bool {
        let Type::Array(a) = self.vars.shallow(&arg.ty) else { return false };
        param.access != Access::In
            && !Self::is_independent(bind, &param.ty)
            && self.vars.kind(&a.element) == Some(TypeClass::Element)
    }

    /// Adds advice to the errors after `before` about two arguments that fit each other's parameters: `power(3, 2.5)`
    /// for `power(x: f32, n: i32)`. `written` are the arguments in the order of the parameters.
    pub fn suggest_exchange(
        &mut self,
        before: usize,
        params: &[Param],
        written: &[Option<&ast::Expr>],
        values: &[&Expr],
    ) {
        let is_mismatch = |d: &&Diagnostic| d.code == "E0301" && values.len() == params.len();
        let Some(d) = self.diagnostics.get(before).filter(is_mismatch) else { return };
        let Some(wrong) = values.iter().position(|value| d.primary() == Some(value.span)) else { return };
        let fits = |value: usize, param: usize| {
            let (Some(value), Some(param)) = (values.get(value), params.get(param)) else { return false };
            match (&param.ty, &self.vars.shallow(&value.ty)) {
                (Type::Scalar(to), _) if matches!(value.kind, ExprKind::Int(_)) => to.is_num(),
                (Type::Scalar(to), _) if matches!(value.kind, ExprKind::Float(_)) => to.is_float(),
                (Type::Scalar(to), Type::Scalar(from)) => to == from,
                (Type::Array(to), Type::Array(from)) => {
                    to.dims.len() == from.dims.len()
                        && matches!(to.element, Type::Scalar(_))
                        && self.vars.clone().unify(&to.element, &from.element)
                }
                _ => false,
            }
        };
        let mut others = (0..values.len()).filter(|&other| other != wrong && fits(wrong, other) && fits(other, wrong));
        let (Some(other), None) = (others.next(), others.next()) else { return };
        let text = |at: usize| written.get(at).copied().flatten().map(|e| (e.span, literal_or_name(e)));
        let (first, second) = (text(wrong), text(other));
        if first.as_ref().map(|(_, text)| text) == second.as_ref().map(|(_, text)| text) && first.is_some() {
            return;
        }
        let other_span = values.get(other).map(|value| value.span);
        if let Some(d) = self.diagnostics.get_mut(before) {
            (d.help, d.fixes) = (vec![], vec![]);
            *d = match (first, second) {
                (Some((first_span, Some(first))), Some((second_span, Some(second)))) => d.clone().fix_all(
                    "exchange the two arguments",
                    vec![(first_span, second), (second_span, first)],
                    Applicability::MaybeIncorrect,
                ),
                _ => d.clone().help("this argument and the other one with a wrong type fit if they are exchanged"),
            };
        }
        // The error about the other argument has the same cause.
        let mut at = 0;
        self.diagnostics.retain(|d| {
            at += 1;
            at <= before + 1 || d.primary() != other_span || other_span.is_none()
        });
    }

    /// Unifies an argument with a parameter's type, binding type parameters and dimensions. Reports a mismatch.
    pub fn bind_arg(&mut self, bind: &mut Bind<'_>, param: &Param, arg: &Expr) -> bool {
        if Self::is_independent(bind, &param.ty) || self.is_output_of_zeros(bind, param, arg) {
            let want = self.subst(&param.ty, bind);
            self.vars.admit_declared(&arg.ty, &want);
        }
        let Type::Array(expected) = &param.ty else {
            let want = self.subst(&param.ty, bind);
            return self.coerce(arg, &want, Some((param.span, format!("the parameter `{}`", param.name))));
        };
        let actual = self.vars.shallow(&arg.ty);
        let Type::Array(a) = &actual else {
            if matches!(actual, Type::Error | Type::Unknown) {
                self.leave_open(bind, &expected.element);
                return true;
            }
            return self.array_wanted(bind, param, arg);
        };
        let element = self.subst(&expected.element, bind);
        if a.dims.len() != expected.dims.len() {
            let (w, f) = (self.param_text(bind, param), self.ty_text(&actual));
            let d = Diagnostic::error(
                "E0306",
                format!(
                    "`{}` takes an array of {}, but this has {}",
                    param.name,
                    crate::build::count(expected.dims.len(), "axis", "axes"),
                    a.dims.len()
                ),
            )
            .at(arg.span, format!("this is `{f}`"))
            .because(param.span, format!("declared as `{w}`"));
            self.report(d);
            return false;
        }
        if !self.vars.unify(&a.element, &element) {
            let want = array(element, a.dims.clone());
            let w = self.param_text(bind, param);
            let d = self.mismatch(arg, &want, Some((param.span, format!("`{}` is declared as `{w}`", param.name))));
            self.report(d);
            return false;
        }
        let mut ok = true;
        for (axis, (w, f)) in expected.dims.iter().zip(&a.dims).enumerate() {
            ok &= self.bind_dim(bind, param, axis, w, f, arg);
        }
        ok
    }

    /// Defers the inference of a type parameter to run time if it is not determined by other arguments than one of
    /// unknown type.
    pub fn leave_open(&mut self, bind: &Bind<'_>, ty: &Type) {
        if let Type::Param(p) = ty
            && let Some(var) = bind.types.get(*p as usize).cloned()
            && self.vars.kind(&var).is_some()
        {
            self.vars.unify(&var, &Type::Unknown);
        }
    }

    fn param_text(&self, bind: &Bind<'_>, param: &Param) -> String {
        crate::format_types::Show { sig: Some(bind.sig), ..self.show() }.ty(&param.ty)
    }

    fn array_wanted(&mut self, bind: &Bind<'_>, param: &Param, arg: &Expr) -> bool {
        let (w, f) = (self.param_text(bind, param), self.ty_text(&arg.ty));
        let d = Diagnostic::error("E0301", format!("`{}` takes an array, but this is `{f}`", param.name))
            .at(arg.span, format!("this is `{f}`"))
            .because(param.span, format!("declared as `{w}`"));
        self.report(d);
        false
    }

    fn bind_dim(
        &mut self,
        bind: &mut Bind<'_>,
        param: &Param,
        axis: usize,
        want: &Dim,
        actual: &Dim,
        arg: &Expr,
    ) -> bool {
        match want {
            Dim::Name(i) => {
                let Some(slot) = bind.dims.get_mut(*i as usize) else { return true };
                match slot {
                    None => *slot = Some((actual.clone(), arg.span)),
                    Some((Dim::Unknown, _)) => *slot = Some((actual.clone(), arg.span)),
                    Some((before, _)) if same_dim(before, actual) => {}
                    Some((before, at)) => {
                        let (before, at) = (before.clone(), *at);
                        let name = bind.sig.dims.get(*i as usize).map_or("_".into(), |d| d.name.clone());
                        return self.dims_differ(&name, (&before, at), (actual, arg.span), param, axis);
                    }
                }
                true
            }
            Dim::Known(n) => {
                if same_dim(want, actual) {
                    return true;
                }
                let f = self.show().dim(actual);
                let d = Diagnostic::error(
                    "E0305",
                    format!("`{}` needs {n} along axis {axis}, but this has {f}", param.name),
                )
                .at(arg.span, format!("axis {axis} is {f}"))
                .because(param.span, format!("axis {axis} is {n}"));
                self.report(d);
                false
            }
            Dim::Expr(i) => {
                self.infer_const(bind, *i, actual, arg);
                bind.deferred_dims.push((*i, actual.clone(), arg.span));
                true
            }
            Dim::Local(_) | Dim::Unknown => true,
        }
    }

    /// Infers a constant parameter from the extent of an argument, if the dimension in the signature is exactly that
    /// parameter.
    fn infer_const(&self, bind: &mut Bind<'_>, i: u32, actual: &Dim, arg: &Expr) {
        let Some(ExprKind::ConstParam(g)) = bind.sig.dim_exprs.get(i as usize).map(|e| &e.kind) else { return };
        let Some(slot @ None) = bind.consts.get_mut(*g as usize) else { return };
        let ty = match bind.sig.generics.get(*g as usize).map(|g| &g.kind) {
            Some(GenericKind::Const { ty, .. }) => ty.clone(),
            _ => I32,
        };
        match (actual, &arg.kind) {
            (Dim::Known(n), _) => *slot = Some(make(ExprKind::Int(i128::from(*n)), ty, Span::default())),
            (Dim::Local(k), ExprKind::Local(id)) => {
                let extent = self.extents.get(id).and_then(|e| e.get(*k as usize));
                *slot = extent.filter(|e| is_constant(e) && e.ty == ty).cloned();
            }
            _ => {}
        }
    }

    fn dims_differ(&mut self, name: &str, before: (&Dim, Span), now: (&Dim, Span), param: &Param, axis: usize) -> bool {
        let (a, b) = (self.show().dim(before.0), self.show().dim(now.0));
        let d = Diagnostic::error("E0305", format!("the dimension `{name}` is both {a} and {b}"))
            .at(now.1, format!("axis {axis} of `{}` is {b}", param.name))
            .because(before.1, format!("`{name}` is {a} here"))
            .because(param.span, format!("`{name}` must be the same for all arguments"));
        self.report(d);
        false
    }

    /// Checks the extents for which the signature has an expression. All dimensions in these expressions are bound or
    /// solved for first.
    pub fn check_late(&mut self, bind: &mut Bind<'_>) {
        while let Some((position, dim)) = next_unknown(bind) {
            let (i, found, at) = bind.deferred_dims[position].clone();
            let value = match (&found, self.eval_dim(i, bind, Some((dim, 0))), self.eval_dim(i, bind, Some((dim, 1)))) {
                (Dim::Known(extent), Some(at_0), Some(at_1)) => match solve_dims::solution(*extent, at_0, at_1) {
                    Some(value) => Dim::Known(value),
                    None => {
                        bind.deferred_dims.remove(position);
                        self.no_solution(bind, dim, i, *extent, at);
                        Dim::Unknown
                    }
                },
                // If the extent is unknown at compile time, the equation is solved at run time.
                _ => Dim::Unknown,
            };
            bind.dims[dim as usize] = Some((value, at));
        }
        for (i, found, span) in std::mem::take(&mut bind.deferred_dims) {
            if let (Some(n), Dim::Known(m)) = (self.eval_dim(i, bind, None), &found)
                && n != *m
            {
                let at = bind.sig.dim_exprs.get(i as usize).map_or(span, |e| e.span);
                let d = Diagnostic::error("E0305", format!("an extent of {n} was expected, but this has {m}"))
                    .at(span, format!("this has {m}"))
                    .because(at, format!("this gives {n}"));
                self.report(d);
            }
        }
    }

    fn no_solution(&mut self, bind: &Bind<'_>, dim: u32, i: u32, extent: i64, at: Span) {
        let name = bind.sig.dims.get(dim as usize).map_or("_".into(), |d| d.name.clone());
        let d = Diagnostic::error("E0305", format!("no `{name}` gives an extent of {extent}"))
            .at(at, format!("this has {extent}"));
        let d = match bind.sig.dim_exprs.get(i as usize) {
            Some(e) => d.because(e.span, format!("this is its extent, and `{name}` a whole number of at least 0")),
            None => d,
        };
        self.report(d);
    }

    /// Binds a compile-time parameter to an argument that is passed by name.
    pub fn bind_generic(&mut self, bind: &mut Bind<'_>, i: usize, value: &ast::Expr) {
        let Some(generic) = bind.sig.generics.get(i) else { return };
        match &generic.kind {
            GenericKind::Type { .. } => {
                let ty = self.type_argument(value);
                let var = bind.types.get(i).cloned().unwrap_or_default();
                if ty != Type::Error && !self.vars.unify(&var, &ty) {
                    let text = self.ty_text(&ty);
                    let d = Diagnostic::error("E0312", format!("`{}` can't be `{text}`", generic.name))
                        .at(value.span, "its bound does not allow this")
                        .because(generic.span, "declared here");
                    self.report(d);
                }
                if let Some(explicit) = bind.explicit.get_mut(i) {
                    *explicit = true;
                }
            }
            GenericKind::Const { ty, .. } => {
                let ty = self.subst(ty, bind);
                let mut e = self.expr_as(value, &ty);
                if let Some(n) = const_eval::int(self, &e).filter(|_| !matches!(e.kind, ExprKind::Int(_))) {
                    e.kind = ExprKind::Int(i128::from(n));
                } else if !self.in_host() && !is_constant(&e) {
                    let d = Diagnostic::error(
                        "E0314",
                        format!("`{}` must be known when the kernel is compiled", generic.name),
                    )
                    .at(value.span, "this is only known when it runs");
                    self.report(d);
                }
                if let Some(slot) = bind.consts.get_mut(i) {
                    *slot = Some(e);
                }
            }
            GenericKind::Fn { ty, .. } => {
                let want = self.subst_fn(ty, bind);
                let f = self.fn_argument(value, &want);
                if let Some(slot) = bind.fns.get_mut(i) {
                    *slot = Some(f);
                }
            }
        }
    }

    /// Checks a type that is passed as an argument: `T = f64`, `type = i32`, the first argument of `bitcast`.
    pub fn type_argument(&mut self, e: &ast::Expr) -> Type {
        let mut path = Vec::new();
        let mut at = bare(e);
        loop {
            match &at.kind {
                Ast::Name(n) => {
                    path.push(n.clone());
                    break;
                }
                Ast::Field { base, name } => {
                    path.push(name.clone());
                    at = base;
                }
                _ => {
                    let d = Diagnostic::error("E0207", "a type was expected here")
                        .at(e.span, "this is not the name of a type");
                    self.report(d);
                    return Type::Error;
                }
            }
        }
        path.reverse();
        self.named_type(&path, e.span)
    }

    /// Checks a function that is passed as a compile-time argument.
    pub fn fn_argument(&mut self, e: &ast::Expr, want: &FnType) -> Result<FnRef, ErrorReported> {
        let meaning = match &bare(e).kind {
            Ast::Name(n) => Some(self.resolve(n).ok_or_else(|| self.unknown_name(n))?),
            Ast::Field { base, name } => match self.module_item(base, name, None) {
                Some(item) => Some(ResolvedName::Item(item?)),
                None => {
                    self.known_root(base)?;
                    None
                }
            },
            _ => None,
        };
        match meaning {
            Some(ResolvedName::Slot(LocalMeaning::FnParam(i))) => {
                let Some(GenericKind::Fn { ty, .. }) = self.sig.generics.get(i as usize).map(|g| &g.kind) else {
                    return Err(self.no_function(e.span));
                };
                self.fn_fits(e.span, &Type::Fn(ty.clone()), want)?;
                Ok(FnRef::Param(i))
            }
            Some(ResolvedName::Item(NameBinding::Fn(id))) => {
                let f = &self.program.fns[id];
                self.require_read_only_params(f, e.span, "passed as a function")?;
                self.needs.calls.push((id, e.span));
                let bind = self.start_binding(&f.sig);
                let params = f.sig.params.iter().map(|p| self.subst(&p.ty, &bind)).collect();
                let ty = Type::Fn(self.fn_type(params, self.subst(&f.result, &bind)));
                self.fn_fits(e.span, &ty, want)?;
                let generics = self.generic_args(&bind, e.span, &f.name);
                Ok(FnRef::Fn { id, generics })
            }
            Some(ResolvedName::Builtin(entry)) => {
                if self.builtin_fits(entry.builtin, want) {
                    return Ok(FnRef::Builtin(entry.builtin));
                }
                let expected = self.ty_text(&Type::Fn(Arc::new(want.clone())));
                let d = Diagnostic::error("E0301", format!("`{}` is not a `{expected}`", entry.name))
                    .at(e.span, format!("`{}{}`", entry.name, entry.signature));
                Err(self.report_error(d))
            }
            Some(ResolvedName::Item(NameBinding::Error)) => Err(ErrorReported::with_definition()),
            _ => Err(self.no_function(e.span)),
        }
    }

    /// Checks that the first name of a path is defined, and the next one too if the first is a module.
    pub fn known_root(&mut self, path: &ast::Expr) -> Result<(), ErrorReported> {
        match &bare(path).kind {
            Ast::Name(n) if self.resolve(n).is_none() => Err(self.unknown_name(n)),
            Ast::Field { base, name } => match self.module_item(base, name, None) {
                Some(item) => item.map(|_| ()),
                None => self.known_root(base),
            },
            _ => Ok(()),
        }
    }

    fn no_function(&mut self, span: Span) -> ErrorReported {
        self.report_error(
            Diagnostic::error("E0207", "a function was expected here").at(span, "this is not the name of a function"),
        )
    }

    fn fn_fits(&mut self, span: Span, actual: &Type, want: &FnType) -> Result<(), ErrorReported> {
        let want = Type::Fn(Arc::new(want.clone()));
        if self.vars.unify(actual, &want) {
            return Ok(());
        }
        let (f, w) = (self.ty_text(actual), self.ty_text(&want));
        let d = Diagnostic::error("E0301", format!("`{w}` was expected here, but this is `{f}`"))
            .at(span, format!("this is `{f}`"));
        Err(self.report_error(d))
    }

    /// Reports a type argument that contains an array. Generic code may use its type parameters as types of array
    /// elements, and array elements cannot contain arrays.
    fn holds_array(&mut self, callee: &str, g: &Generic, ty: &Type, span: Span) {
        let text = self.ty_text(ty);
        let d = Diagnostic::error("E0312", format!("`{callee}` can't take `{text}`, which holds an array"))
            .at(span, format!("`{}` would be `{text}`", g.name))
            .because(g.span, "a type parameter accepts only types that can be array elements")
            .help("write a function for this struct, or pass its fields");
        self.report(d);
    }

    /// Returns the compile-time arguments of a call after all of its parameters have been bound.
    pub fn generic_args(&mut self, bind: &Bind<'_>, span: Span, callee: &str) -> Vec<GenericArg> {
        let mut out = Vec::with_capacity(bind.sig.generics.len());
        for (i, g) in bind.sig.generics.iter().enumerate() {
            out.push(match &g.kind {
                GenericKind::Type { .. } => {
                    let ty = bind.types.get(i).map_or(Type::Error, |t| self.vars.shallow(t));
                    if self.vars.kind(&ty) == Some(TypeClass::Any) && !self.failed() {
                        self.unbound(callee, g, span, "T = f32");
                    }
                    if crate::scalar_count::holds_array(self.program, &ty) {
                        self.holds_array(callee, g, &ty, span);
                    }
                    GenericArg::Type(ty)
                }
                GenericKind::Const { default, .. } => match (bind.consts.get(i).cloned().flatten(), default) {
                    (Some(e), _) => GenericArg::Const(e),
                    // The host evaluates the default at run time, with the values of earlier arguments.
                    (None, Some(e)) if is_open(e) => GenericArg::Infer,
                    (None, Some(e)) => self.default_number(bind, e),
                    (None, None) if self.mentioned(bind, i) => GenericArg::Infer,
                    (None, None) => {
                        self.unbound(callee, g, span, "16");
                        GenericArg::Infer
                    }
                },
                GenericKind::Fn { default, .. } => match (bind.fns.get(i).cloned().flatten(), default) {
                    (Some(Ok(f)), _) => GenericArg::Fn(f),
                    (Some(Err(ErrorReported { .. })), _) => GenericArg::Error,
                    (None, Some(f)) => {
                        if let FnRef::Fn { id, .. } = f {
                            self.needs.calls.push((*id, span));
                        }
                        if is_open_fn(f) { GenericArg::Infer } else { GenericArg::Fn(f.clone()) }
                    }
                    (None, None) => {
                        self.unbound(callee, g, span, "max");
                        GenericArg::Infer
                    }
                },
            });
        }
        out
    }

    /// Returns the default of a constant parameter. If its type is a type parameter, the default has the type that the
    /// call binds to this parameter. If that type is known only at run time, the host converts the default.
    fn default_number(&self, bind: &Bind<'_>, e: &Expr) -> GenericArg {
        let mut e = e.clone();
        let mut part = &mut e;
        while matches!(part.ty, Type::Param(_)) {
            part.ty = self.subst(&part.ty, bind);
            if part.ty == Type::Unknown {
                return GenericArg::Infer;
            }
            let ExprKind::Unary { expr, .. } = &mut part.kind else { break };
            part = expr;
        }
        GenericArg::Const(e)
    }

    /// Returns whether the extents of arguments determine a constant parameter at run time.
    fn mentioned(&self, bind: &Bind<'_>, generic: usize) -> bool {
        self.in_host()
            && bind.sig.dim_exprs.iter().any(|e| matches!(e.kind, ExprKind::ConstParam(g) if g as usize == generic))
    }

    fn unbound(&mut self, callee: &str, g: &Generic, span: Span, example: &str) {
        let d = Diagnostic::error("E0307", format!("nothing says what `{}` of `{callee}` is", g.name))
            .at(span, "no argument fixes it")
            .because(g.span, "declared here")
            .help(format!("give it by name: `{} = {example}`", g.name));
        self.report(d);
    }
}

/// Returns whether a default depends on earlier compile-time parameters. A literal does not, even if its type is a type
/// parameter.
fn is_open(e: &Expr) -> bool {
    let mut open = false;
    visit::expr(e, &mut |part| {
        open |= match &part.kind {
            ExprKind::ConstParam(_) | ExprKind::ConvertParam { .. } => true,
            ExprKind::Call { callee, .. } => is_open_fn(callee),
            _ => false,
        }
    });
    open
}

/// Like [`is_open`], for a function argument.
fn is_open_fn(f: &FnRef) -> bool {
    match f {
        FnRef::Param(_) => true,
        FnRef::Builtin(_) => false,
        FnRef::Fn { generics, .. } => generics.iter().any(|generic| match generic {
            GenericArg::Type(ty) => has_param(ty),
            GenericArg::Const(e) => is_open(e),
            GenericArg::Fn(f) => is_open_fn(f),
            GenericArg::Error | GenericArg::Infer => false,
        }),
    }
}

fn has_param(ty: &Type) -> bool {
    match ty {
        Type::Param(_) => true,
        Type::Array(array) => has_param(&array.element),
        Type::Tuple(parts) => parts.iter().any(has_param),
        Type::Fn(f) => f.params.iter().any(has_param) || has_param(&f.result),
        _ => false,
    }
}

/// Returns whether an expression is a compile-time constant of a kernel.
pub(crate) fn is_constant(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Const(_) | ExprKind::ConstParam(_) => {
            true
        }
        ExprKind::Unary { expr, .. } | ExprKind::Convert { expr, .. } => is_constant(expr),
        ExprKind::Binary { left, right, .. } => is_constant(left) && is_constant(right),
        ExprKind::Builtin { args, .. } => args.iter().all(is_constant),
        ExprKind::Error => true,
        _ => false,
    }
}

/// Finds a dimension that is not bound yet and can be computed from the extent of an argument. Returns the position of
/// that extent in `deferred_dims`, and the dimension.
fn next_unknown(bind: &Bind<'_>) -> Option<(usize, u32)> {
    let open = |dim: u32| bind.dims.get(dim as usize).is_some_and(Option::is_none);
    let unknown = |i: u32| solve_dims::solvable_dim(bind.sig.dim_exprs.get(i as usize)?, &open);
    let mut deferred = bind.deferred_dims.iter().enumerate();
    deferred.find_map(|(position, (i, ..))| Some((position, unknown(*i)?)))
}

/// Returns the text of a name, or of a number without a suffix.
pub(crate) fn literal_or_name(e: &ast::Expr) -> Option<String> {
    match &e.kind {
        ast::ExprKind::Int { value, suffix: None } => Some(value.to_string()),
        ast::ExprKind::Float { text, suffix: None } => Some(text.to_string()),
        ast::ExprKind::Name(name) => Some(name.text.to_string()),
        _ => None,
    }
}
