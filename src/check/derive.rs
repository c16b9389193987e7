//! Derivatives of host functions: `grad(f)(x)` and the related builtins.
//!
//! Input: the call of a derivative. Output: an [`ExprKind::Derive`] that contains the call of the function itself,
//! which is checked like any call. Types that cannot be differentiated are compile-time errors. Operations that cannot
//! be differentiated are reported at run time.

use crate::arguments::{self, Accepted, by_name};
use crate::build::{bare, make};
use crate::context::{Cx, ResolvedName};
use crate::infer::{TypeClass, array};
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::builtin::{Builtin, DerivativeKind};
use clk_syntax::ast::{self, ExprKind as Ast};

const CODE: &str = "E0332";

/// The callee of a call such as `grad(f, wrt = w)(x)`.
pub(crate) struct DerivativeCallee<'e> {
    kind: DerivativeKind,
    /// The name of the builtin: `grad`.
    name: &'e ast::Name,
    /// The arguments of the builtin: `f, wrt = w`.
    args: &'e [ast::Arg],
}

/// The operands of a derivative.
struct Differentiated<'e> {
    /// The call to differentiate.
    of: Expr,
    /// The argument `wrt`.
    by: Option<&'e ast::Expr>,
    /// The name of the seed: `cotangent` or `tangent`.
    word: Option<&'e str>,
    seed: Option<&'e ast::Expr>,
}

impl Cx<'_> {
    /// Recognizes a callee that is itself a call of a derivative: `grad(f, wrt = w)`.
    pub fn derivative_of<'e>(&mut self, callee: &'e ast::Expr) -> Option<DerivativeCallee<'e>> {
        let Ast::Call { callee, args } = &bare(callee).kind else { return None };
        let Ast::Name(name) = &bare(callee).kind else { return None };
        match self.resolve(name)? {
            ResolvedName::Builtin(entry) => match entry.builtin {
                Builtin::Derive(kind) => Some(DerivativeCallee { kind, name, args }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Checks `grad(f, wrt = w)(args)`.
    pub fn derivative(&mut self, callee: DerivativeCallee<'_>, args: &[ast::Arg], span: Span) -> Expr {
        let DerivativeCallee { kind, name, args: callee_args } = callee;
        if !self.need_host(name.span, &format!("`{}`", name.text)) {
            return self.after_error(args, span);
        }
        if kind == DerivativeKind::Check {
            return self.gradcheck_called(name, callee_args, args, span);
        }
        let Some((of, by)) = self.differentiated(name, callee_args) else { return self.after_error(args, span) };
        let word = match kind {
            DerivativeKind::Vjp => Some("cotangent"),
            DerivativeKind::Jvp => Some("tangent"),
            _ => None,
        };
        if !self.own_argument_once(&name.text, word, args) {
            return self.after_error(args, span);
        }
        let is_seed = |arg: &&ast::Arg| word.is_some() && arg.name.as_ref().map(|name| name.text.as_str()) == word;
        let own: Vec<ast::Arg> = args.iter().filter(|arg| !is_seed(arg)).cloned().collect();
        let inner = match self.derivative_of(of) {
            Some(inner) => self.derivative(inner, &own, span),
            None => self.call(of, &own, span, None),
        };
        let inner = self.called_once(inner);
        let seed = args.iter().find(is_seed).map(|arg| &arg.value);
        let derived = self.derived(kind, name, Differentiated { of: inner, by, word, seed }, span);
        self.in_written_order(derived)
    }

    /// Returns the call to differentiate. An argument of unknown type is assumed to have the type of its parameter, so
    /// that the function is not applied elementwise.
    fn called_once(&self, inner: Expr) -> Expr {
        let inner = self.in_parameter_order(inner);
        let is_array = |arg: &Expr| matches!(self.vars.shallow(&arg.ty), Type::Array(_));
        match inner.kind {
            ExprKind::Lift { callee: callee @ FnRef::Fn { id, .. }, args } if !args.iter().any(is_array) => {
                let result = self.program.fns.get(id).map(|f| f.result.clone());
                let ty = result.filter(|ty| matches!(ty, Type::Scalar(_) | Type::Vector(..) | Type::Struct(_)));
                make(ExprKind::Call { callee, args }, ty.unwrap_or(Type::Unknown), inner.span)
            }
            _ => inner,
        }
    }

    /// Checks that no named argument, of the derivative or of the function, is passed twice.
    fn own_argument_once(&mut self, callee: &str, word: Option<&str>, args: &[ast::Arg]) -> bool {
        let named_params = word.into_iter().map(by_name).collect();
        let accepted = Accepted { any_name: true, ..Accepted::new(callee, usize::MAX, named_params) };
        !self.bind_arguments(&accepted, arguments::args_with_names(args)).wrong_name
    }

    /// Returns the function `f` and, if present, the argument `w` of `grad(f, wrt = w)`.
    fn differentiated<'e>(
        &mut self,
        name: &ast::Name,
        given: &'e [ast::Arg],
    ) -> Option<(&'e ast::Expr, Option<&'e ast::Expr>)> {
        let accepted = Accepted::new(&name.text, 1, vec![by_name("wrt")]);
        let bound = self.bind_arguments(&accepted, arguments::args_with_names(given));
        if bound.wrong_name {
            return None;
        }
        let by = bound.by_param.first().copied().flatten().map(|(by, _)| by);
        let mut functions = bound.positional.into_iter();
        match (functions.next(), functions.next()) {
            (Some(of), None) => Some((of, by)),
            (_, more) => {
                let d = Diagnostic::error(CODE, format!("`{}` differentiates one function", name.text))
                    .at(
                        more.map_or(name.span, |more| more.span),
                        if more.is_some() { "one too many" } else { "of which function?" },
                    )
                    .help(format!(
                        "write `{0}(f)(x)`, or `{0}(f, wrt = w)(x, w)` for another parameter than the first",
                        name.text
                    ));
                self.report(d);
                None
            }
        }
    }

    fn derived(
        &mut self,
        kind: DerivativeKind,
        name: &ast::Name,
        differentiated: Differentiated<'_>,
        span: Span,
    ) -> Expr {
        let Differentiated { of, by, word, seed } = differentiated;
        let Some(wrt) = self.by_params(name, &of, by, span) else { return self.bad(span) };
        let result = self.vars.shallow(&of.ty);
        if let Some(refused) = self.not_derived(kind, name, &of, &wrt, &result) {
            self.report(refused);
            return self.bad(span);
        }
        let types: Vec<Type> = primal_arguments(&of).iter().map(|arg| self.vars.shallow(&arg.ty)).collect();
        let inputs: Vec<Type> = wrt.iter().filter_map(|&at| types.get(at as usize).cloned()).collect();
        let input = match &inputs[..] {
            [one] => one.clone(),
            several => Type::Tuple(several.into()),
        };
        let pair = |second: &Type| Type::Tuple([result.clone(), second.clone()].into());
        let (ty, seeded) = match kind {
            DerivativeKind::Gradient => (input, None),
            DerivativeKind::ValueAndGradient => (pair(&input), None),
            DerivativeKind::Vjp => (pair(&input), Some(result.clone())),
            DerivativeKind::Jvp => (pair(&result), Some(input)),
            DerivativeKind::Jacobian => (outer(&result, &input), None),
            DerivativeKind::Hessian => (outer(&input, &input), None),
            DerivativeKind::Check => (Type::Unit, None),
        };
        let seed = match (seeded, seed, word) {
            (None, _, _) | (_, _, None) => None,
            (Some(ty), Some(seed), _) => Some(self.expr_as(seed, &ty)),
            (Some(ty), None, Some(word)) => {
                let ty = self.ty_text(&ty);
                let d = Diagnostic::error("E0304", format!("`{}` needs a `{word}`", name.text))
                    .at(span, format!("`{word} = …` is missing"))
                    .note(format!("it is a `{ty}`"));
                self.report(d);
                return self.bad(span);
            }
        };
        make(ExprKind::Derive(Box::new(Derive { kind, of, wrt, seed })), ty, span)
    }

    /// Returns the positions of the parameters that `wrt` names; without `wrt`, the first.
    fn by_params(&mut self, name: &ast::Name, of: &Expr, by: Option<&ast::Expr>, span: Span) -> Option<Vec<u32>> {
        let call = differentiated(of);
        let params: Option<Vec<(SmolStr, Access)>> = match &call.kind {
            ExprKind::Call { callee: FnRef::Fn { id, .. }, .. } => {
                let function = self.program.fns.get(*id);
                function.map(|f| f.sig.params.iter().map(|param| (param.name.clone(), param.access)).collect())
            }
            ExprKind::Call { callee: FnRef::Param(_), args } => {
                Some((0..args.len()).map(|i| (format!("argument {}", i + 1).into(), Access::In)).collect())
            }
            ExprKind::Error => return None,
            _ => None,
        };
        let Some(params) = params else {
            let d = Diagnostic::error(CODE, format!("`{}` differentiates functions of the host", name.text))
                .at(call.span, "this is not a call of one")
                .help("write a function around it: `fn f(x: [f32; N]) -> f32 { … }`");
            self.report(d);
            return None;
        };
        if let Some((param, _)) = params.iter().find(|(_, access)| *access != Access::In) {
            let d = Diagnostic::error(CODE, "a function that changes its arguments is not differentiated")
                .at(span, format!("`{param}` is changed"))
                .help("return the new value instead");
            self.report(d);
            return None;
        }
        let Some(by) = by else { return Some(vec![0]).filter(|_| self.has_params(name, &params, span)) };
        let names = match &bare(by).kind {
            Ast::Tuple(parts) => parts.iter().collect(),
            _ => vec![by],
        };
        let sig = match &call.kind {
            ExprKind::Call { callee: FnRef::Fn { id, .. }, .. } => self.program.fns.get(*id).map(|f| &f.sig),
            _ => None,
        };
        let mut positions = vec![];
        for e in names {
            let at = self.param_named(name, e, &params)?;
            if positions.contains(&at) {
                let d = Diagnostic::error(CODE, "a parameter is named twice").at(e.span, "again here");
                self.report(d);
                return None;
            }
            if let (Some(sig), Ast::Name(param)) = (sig, &bare(e).kind)
                && let Some(own) = sig.params.get(at as usize)
            {
                self.record_use(param.span, NameTarget::Local(own.name_span));
            }
            positions.push(at);
        }
        Some(positions)
    }

    fn has_params(&mut self, name: &ast::Name, params: &[(SmolStr, Access)], span: Span) -> bool {
        if params.is_empty() {
            let d = Diagnostic::error(CODE, format!("`{}` of a function without parameters", name.text));
            self.report(d.at(span, "there is nothing to differentiate by"));
        }
        !params.is_empty()
    }

    fn param_named(&mut self, name: &ast::Name, e: &ast::Expr, params: &[(SmolStr, Access)]) -> Option<u32> {
        let position = match &bare(e).kind {
            Ast::Name(param) => params.iter().position(|(own, _)| *own == param.text),
            _ => None,
        };
        if position.is_none() {
            let names: Vec<&str> = params.iter().map(|(name, _)| name.as_str()).collect();
            let d = Diagnostic::error(CODE, format!("`{}` can't differentiate with respect to this", name.text))
                .at(e.span, "this is not a parameter of the function")
                .help(format!(
                    "`wrt` is the name of a parameter, or several as in `wrt = (a, b)`: {}",
                    crate::access::list(&names)
                ));
            self.report(d);
        }
        position.map(|at| at as u32)
    }

    /// Returns an error if a function with these types cannot be differentiated.
    fn not_derived(
        &mut self,
        kind: DerivativeKind,
        name: &ast::Name,
        of: &Expr,
        wrt: &[u32],
        result: &Type,
    ) -> Option<Diagnostic> {
        let args = primal_arguments(of);
        for &at in wrt {
            let arg = args.get(at as usize)?;
            let ty = self.vars.shallow(&arg.ty);
            if !self.is_differentiable(&ty) {
                let text = self.ty_text(&ty);
                let d = Diagnostic::error(CODE, format!("there is no derivative by a `{text}`"))
                    .at(arg.span, "only floats, and arrays, tuples and structs of them, change continuously");
                return Some(d.help("name another parameter, `wrt = …`, or declare this one as `f32`"));
            }
        }
        let scalar = matches!(result, Type::Unknown)
            || matches!(self.vars.scalar_kind(result), Some(TypeClass::Float | TypeClass::Element));
        let text = self.ty_text(result);
        match kind {
            DerivativeKind::Gradient | DerivativeKind::ValueAndGradient | DerivativeKind::Hessian if !scalar => {
                let d = Diagnostic::error(CODE, format!("`{}` needs a function that gives one float", name.text))
                    .at(of.span, format!("this gives `{text}`"));
                Some(d.help("for several results, `jacobian(f)(x)` gives all derivatives, and `vjp(f)(x, cotangent = u)` their sum weighted by `u`"))
            }
            _ if !self.is_differentiable(result) => {
                let d = Diagnostic::error(CODE, format!("a `{text}` has no derivative"));
                Some(d.at(of.span, "the result of the function must consist of floats"))
            }
            DerivativeKind::Jacobian | DerivativeKind::Hessian => {
                let inputs: Vec<Type> =
                    wrt.iter().filter_map(|&at| args.get(at as usize)).map(|arg| self.vars.shallow(&arg.ty)).collect();
                let plain = |cx: &Cx<'_>, ty: &Type| match ty {
                    Type::Array(array) => cx.vars.scalar_kind(&array.element).is_some(),
                    Type::Unknown => true,
                    other => cx.vars.scalar_kind(other).is_some(),
                };
                let is_valid = plain(self, result) && inputs.len() == 1 && inputs.iter().all(|ty| plain(self, ty));
                (!is_valid).then(|| {
                    Diagnostic::error(CODE, format!("`{}` differentiates one array of numbers by another", name.text))
                        .at(of.span, format!("this gives `{text}`"))
                        .help("`jvp` and `vjp` differentiate functions of tuples and structs")
                })
            }
            _ => None,
        }
    }

    /// Returns whether a type consists of floats.
    pub fn is_differentiable(&self, ty: &Type) -> bool {
        self.consists_of(ty, |cx, scalar| {
            matches!(cx.vars.scalar_kind(scalar), Some(TypeClass::Float | TypeClass::Element))
        })
    }

    /// Returns whether a type consists of floats, or of a type parameter `T: Num` that an instance may replace by a
    /// float.
    pub fn may_be_differentiable(&self, ty: &Type) -> bool {
        self.consists_of(ty, |cx, scalar| match cx.vars.scalar_kind(scalar) {
            Some(TypeClass::Num) => cx.vars.is_declared(scalar),
            kind => matches!(kind, Some(TypeClass::Float | TypeClass::Element)),
        })
    }

    fn consists_of(&self, ty: &Type, is_part: fn(&Self, &Type) -> bool) -> bool {
        match self.vars.shallow(ty) {
            Type::Unknown => true,
            Type::Vector(scalar, _) => scalar.is_float(),
            Type::Array(array) => {
                let element = self.vars.shallow(&array.element);
                !matches!(element, Type::Struct(_) | Type::Tuple(_)) && self.consists_of(&element, is_part)
            }
            Type::Tuple(parts) => !parts.is_empty() && parts.iter().all(|part| self.consists_of(part, is_part)),
            Type::Struct(id) => {
                let fields = self.program.structs.get(id).map(|s| &s.fields);
                fields.is_some_and(|fields| fields.iter().all(|field| self.consists_of(&field.ty, is_part)))
            }
            other => is_part(self, &other),
        }
    }

    /// Checks `gradcheck(f, args, wrt = w)`.
    pub fn gradcheck(&mut self, name: &ast::Name, args: &[ast::Arg], span: Span) -> Expr {
        if !self.need_host(name.span, &format!("`{}`", name.text)) {
            return self.after_error(args, span);
        }
        if !self.own_argument_once(&name.text, Some("wrt"), args) {
            return self.after_error(args, span);
        }
        let is_wrt = |arg: &&ast::Arg| arg.name.as_ref().is_some_and(|name| name.text == "wrt");
        let Some(at) = args.iter().position(|arg| arg.name.is_none()) else {
            let d = Diagnostic::error(CODE, format!("`{}` checks the derivative of a function", name.text));
            self.report(d.at(name.span, "of which function?").help("write `gradcheck(f, x)`"));
            return self.after_error(args, span);
        };
        let by = args.iter().find(is_wrt).map(|arg| &arg.value);
        let others = args.iter().enumerate().filter(|(i, arg)| *i != at && !is_wrt(arg));
        let own: Vec<ast::Arg> = others.map(|(_, arg)| arg.clone()).collect();
        let of = &args[at].value;
        let inner = match self.derivative_of(of) {
            Some(inner) => self.derivative(inner, &own, span),
            None => self.call(of, &own, span, None),
        };
        let inner = self.called_once(inner);
        let derived =
            self.derived(DerivativeKind::Check, name, Differentiated { of: inner, by, word: None, seed: None }, span);
        self.in_written_order(derived)
    }

    /// Reports `gradcheck(f)(x)`.
    fn gradcheck_called(&mut self, name: &ast::Name, given: &[ast::Arg], args: &[ast::Arg], span: Span) -> Expr {
        let mut d = Diagnostic::error(CODE, "`gradcheck` does not return a function")
            .at(span, "the result is called")
            .help("it takes the arguments too: `gradcheck(f, x, wrt = x)`");
        if let ([f], [first, ..]) = (given, args) {
            let between = Span { start: f.value.span.end, end: first.value.span.start, ..span };
            d = d.fix("pass the arguments along", between, ", ", Applicability::MaybeIncorrect);
        }
        self.report(d.because(name.span, "`grad` and similar builtins return functions; `gradcheck` runs a test"));
        self.after_error(args, span)
    }

    /// Reports a derivative that is not called: `grad(f)`.
    pub fn uncalled_derivative(&mut self, name: &ast::Name, args: &[ast::Arg], span: Span) -> Expr {
        let mut d = Diagnostic::error(CODE, format!("`{}(…)` is a function, and functions are not values", name.text))
            .at(span, "nothing is given to it")
            .help(format!("call it: `{}(f)(x)`; to pass it on, write a function that calls it", name.text));
        if let [f, x, seed @ ..] = args
            && let (None, None, Ast::Name(_)) = (&f.name, &x.name, &bare(&f.value).kind)
        {
            let between = Span { start: f.value.span.end, end: x.value.span.start, ..span };
            let mut edits = vec![(between, ")(".to_owned())];
            let word = match name.text.as_str() {
                "vjp" => "cotangent",
                "jvp" => "tangent",
                _ => "",
            };
            // The last argument of `vjp(f, x, u)` is the seed.
            if let ([.., ast::Arg { name: None, value }], false) = (seed, word.is_empty()) {
                edits.push((Span { end: value.span.start, ..value.span }, format!("{word} = ")));
            }
            d = d.fix_all("call the derivative", edits, Applicability::MaybeIncorrect);
        }
        self.report(d);
        self.bad(span)
    }
}

impl Derive {
    /// Returns the innermost call: the call of the function that nested derivatives differentiate.
    pub fn call(&self) -> &Expr {
        match &self.of.kind {
            ExprKind::Derive(inner) => inner.call(),
            _ => &self.of,
        }
    }
}

/// Returns the innermost call: the call of the function that nested derivatives differentiate.
fn differentiated(of: &Expr) -> &Expr {
    match &of.kind {
        ExprKind::Derive(derive) => derive.call(),
        _ => of,
    }
}

/// Returns the arguments of the innermost call: the call of the function that nested derivatives differentiate.
fn primal_arguments(of: &Expr) -> &[Expr] {
    match &differentiated(of).kind {
        ExprKind::Call { args, .. } => args,
        _ => &[],
    }
}

/// Returns the type of the Jacobian of `of` with respect to `by`, which are numbers or arrays of numbers. Its
/// dimensions are those of `of`, then those of `by`.
fn outer(of: &Type, by: &Type) -> Type {
    let dims = |ty: &Type| match ty {
        Type::Array(array) => Some((array.element.clone(), array.dims.clone())),
        Type::Unknown => None,
        other => Some((other.clone(), vec![])),
    };
    let (Some((element, mut all)), Some((_, more))) = (dims(of), dims(by)) else { return Type::Unknown };
    all.extend(more);
    if all.is_empty() { element } else { array(element, all) }
}
