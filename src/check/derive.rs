//! Derivatives of host functions: `grad(f)(x)` and its kin.
//!
//! Input is the call of a derivative, output an [`ExprKind::Derive`] around the call of the function itself, which is checked as any
//! call. What has no derivative because of its type is refused here; what loses it on the way is found when it runs.

use crate::base::diag::{Applicability, Diagnostic};
use crate::base::source::Span;
use crate::check::arguments::{self, Accepted, by_name};
use crate::check::cx::{Cx, Meaning};
use crate::check::infer::{Kind, array};
use crate::check::make::{bare, make};
use crate::check::typed::*;
use crate::lang::builtin::{Builtin, Derivative};
use crate::syntax::ast::{self, ExprKind as Ast};

const CODE: &str = "E0332";

/// How a callee names a derivative: `grad` of `grad(f, wrt = w)`, and its arguments.
type Named<'e> = (Derivative, &'e ast::Name, &'e [ast::Arg]);

impl Cx<'_> {
    /// Returns the derivative that an expression forms, if it does.
    pub fn derivative_of<'e>(&mut self, callee: &'e ast::Expr) -> Option<Named<'e>> {
        let Ast::Call { callee, args } = &bare(callee).kind else { return None };
        let Ast::Name(name) = &bare(callee).kind else { return None };
        match self.lookup(&name.text)? {
            Meaning::Builtin(entry) => match entry.builtin {
                Builtin::Derive(what) => Some((what, name, args)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Checks `grad(f, wrt = w)(args)`.
    pub fn derivative(&mut self, (what, name, given): Named<'_>, args: &[ast::Arg], span: Span) -> Expr {
        if !self.need_host(name.span, &format!("`{}`", name.text)) {
            return self.after_error(args, span);
        }
        if what == Derivative::Check {
            return self.gradcheck_called(name, given, args, span);
        }
        let Some((of, by)) = self.differentiated(name, given) else { return self.after_error(args, span) };
        let word = match what {
            Derivative::Vjp => Some("cotangent"),
            Derivative::Jvp => Some("tangent"),
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
        let derived = self.derived(what, name, (inner, by), (word, seed), span);
        self.in_written_order(derived)
    }

    /// Returns the call that a derivative is taken of. Arguments whose type only the run knows have the types of the parameters.
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

    /// Checks that a derivative is given no argument twice by name, including the arguments of the function.
    fn own_argument_once(&mut self, callee: &str, word: Option<&str>, args: &[ast::Arg]) -> bool {
        let named = word.into_iter().map(by_name).collect();
        let accepted = Accepted { any_name: true, ..Accepted::new(callee, usize::MAX, named) };
        !self.bind_arguments(&accepted, arguments::given(args)).wrong_name
    }

    /// Returns the function of `grad(f, wrt = w)`, and by what it is differentiated.
    fn differentiated<'e>(
        &mut self,
        name: &ast::Name,
        given: &'e [ast::Arg],
    ) -> Option<(&'e ast::Expr, Option<&'e ast::Expr>)> {
        let accepted = Accepted::new(&name.text, 1, vec![by_name("wrt")]);
        let bound = self.bind_arguments(&accepted, arguments::given(given));
        if bound.wrong_name {
            return None;
        }
        let by = bound.named.first().copied().flatten().map(|(by, _)| by);
        let mut functions = bound.positional.into_iter();
        match (functions.next(), functions.next()) {
            (Some(of), None) => Some((of, by)),
            (_, more) => {
                let d = Diagnostic::error(CODE, format!("`{}` differentiates one function", name.text))
                    .at(
                        more.map_or(name.span, |more| more.span),
                        if more.is_some() { "one too many" } else { "of which?" },
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
        what: Derivative,
        name: &ast::Name,
        (of, by): (Expr, Option<&ast::Expr>),
        (word, seed): (Option<&str>, Option<&ast::Expr>),
        span: Span,
    ) -> Expr {
        let Some(wrt) = self.by_params(name, &of, by, span) else { return self.bad(span) };
        let result = self.vars.shallow(&of.ty);
        if let Some(refused) = self.not_derived(what, name, &of, &wrt, &result) {
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
        let (ty, seeded) = match what {
            Derivative::Gradient => (input, None),
            Derivative::ValueAndGradient => (pair(&input), None),
            Derivative::Vjp => (pair(&input), Some(result.clone())),
            Derivative::Jvp => (pair(&result), Some(input)),
            Derivative::Jacobian => (outer(&result, &input), None),
            Derivative::Hessian => (outer(&input, &input), None),
            Derivative::Check => (Type::Unit, None),
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
        make(ExprKind::Derive(Box::new(Derive { what, of, wrt, seed })), ty, span)
    }

    /// Returns the positions of the parameters named by `wrt`; without it, of the first.
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
                .at(call.span, "this is no call of one")
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
        let mut found = vec![];
        for e in names {
            let at = self.param_named(name, e, &params)?;
            if found.contains(&at) {
                let d = Diagnostic::error(CODE, "a parameter is named twice").at(e.span, "again here");
                self.report(d);
                return None;
            }
            found.push(at);
        }
        Some(found)
    }

    fn has_params(&mut self, name: &ast::Name, params: &[(SmolStr, Access)], span: Span) -> bool {
        if params.is_empty() {
            let d = Diagnostic::error(CODE, format!("`{}` of a function without parameters", name.text));
            self.report(d.at(span, "there is nothing to differentiate by"));
        }
        !params.is_empty()
    }

    fn param_named(&mut self, name: &ast::Name, e: &ast::Expr, params: &[(SmolStr, Access)]) -> Option<u32> {
        let found = match &bare(e).kind {
            Ast::Name(param) => params.iter().position(|(own, _)| *own == param.text),
            _ => None,
        };
        if found.is_none() {
            let names: Vec<&str> = params.iter().map(|(name, _)| name.as_str()).collect();
            let d = Diagnostic::error(CODE, format!("`{}` does not know by what to differentiate", name.text))
                .at(e.span, "this is no parameter of the function")
                .help(format!(
                    "`wrt` is the name of a parameter, or several as in `wrt = (a, b)`: {}",
                    crate::check::access::list(&names)
                ));
            self.report(d);
        }
        found.map(|at| at as u32)
    }

    /// Returns why there is no such derivative, as far as types tell.
    fn not_derived(
        &mut self,
        what: Derivative,
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
                return Some(d.help("name another parameter: `wrt = …`"));
            }
        }
        let scalar = matches!(result, Type::Unknown)
            || matches!(self.vars.scalar_kind(result), Some(Kind::Float | Kind::Element));
        let text = self.ty_text(result);
        match what {
            Derivative::Gradient | Derivative::ValueAndGradient | Derivative::Hessian if !scalar => {
                let d = Diagnostic::error(CODE, format!("`{}` needs a function that gives one float", name.text))
                    .at(of.span, format!("this gives `{text}`"));
                Some(d.help("of several results `jacobian(f)(x)` gives all derivatives, `vjp(f)(x, cotangent = u)` their sum weighted by `u`"))
            }
            _ if !self.is_differentiable(result) => {
                let d = Diagnostic::error(CODE, format!("a `{text}` has no derivative"));
                Some(d.at(of.span, "what the function gives has to be floats"))
            }
            Derivative::Jacobian | Derivative::Hessian => {
                let inputs: Vec<Type> =
                    wrt.iter().filter_map(|&at| args.get(at as usize)).map(|arg| self.vars.shallow(&arg.ty)).collect();
                let plain = |cx: &Cx<'_>, ty: &Type| match ty {
                    Type::Array(array) => cx.vars.scalar_kind(&array.element).is_some(),
                    Type::Unknown => true,
                    other => cx.vars.scalar_kind(other).is_some(),
                };
                let fits = plain(self, result) && inputs.len() == 1 && inputs.iter().all(|ty| plain(self, ty));
                (!fits).then(|| {
                    Diagnostic::error(CODE, format!("`{}` is of one array of numbers by another", name.text))
                        .at(of.span, format!("this gives `{text}`"))
                        .help("`jvp` and `vjp` differentiate functions of tuples and structs")
                })
            }
            _ => None,
        }
    }

    /// Whether a type consists of floats.
    pub fn is_differentiable(&self, ty: &Type) -> bool {
        self.consists_of(ty, |cx, scalar| matches!(cx.vars.scalar_kind(scalar), Some(Kind::Float | Kind::Element)))
    }

    /// Whether a type consists of floats, or of a type parameter `T: Num` that an instance may replace by a float.
    pub fn may_be_differentiable(&self, ty: &Type) -> bool {
        self.consists_of(ty, |cx, scalar| match cx.vars.scalar_kind(scalar) {
            Some(Kind::Num) => cx.vars.is_declared(scalar),
            kind => matches!(kind, Some(Kind::Float | Kind::Element)),
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
            self.report(d.at(name.span, "of which?").help("write `gradcheck(f, x)`"));
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
        let derived = self.derived(Derivative::Check, name, (inner, by), (None, None), span);
        self.in_written_order(derived)
    }

    /// Reports `gradcheck(f)(x)`.
    fn gradcheck_called(&mut self, name: &ast::Name, given: &[ast::Arg], args: &[ast::Arg], span: Span) -> Expr {
        let mut d = Diagnostic::error(CODE, "`gradcheck` gives no function")
            .at(span, "the result is called")
            .help("it takes the arguments along: `gradcheck(f, x, wrt = x)`");
        if let ([f], [first, ..]) = (given, args) {
            let between = Span { start: f.value.span.end, end: first.value.span.start, ..span };
            d = d.fix("pass the arguments along", between, ", ", Applicability::MaybeIncorrect);
        }
        self.report(d.because(name.span, "`grad` and its kin are functions of functions; this is a test"));
        self.after_error(args, span)
    }

    /// Reports a derivative that is not called: `grad(f)`.
    pub fn uncalled_derivative(&mut self, name: &ast::Name, args: &[ast::Arg], span: Span) -> Expr {
        let mut d = Diagnostic::error(CODE, format!("`{}(…)` is a function, and functions are no values", name.text))
            .at(span, "nothing is given to it")
            .help(format!("call it: `{}(f)(x)`; to pass it on, write a function that calls it", name.text));
        if let [f, x] = args
            && let (None, None, Ast::Name(_)) = (&f.name, &x.name, &bare(&f.value).kind)
        {
            let between = Span { start: f.value.span.end, end: x.value.span.start, ..span };
            d = d.fix("call the derivative", between, ")(", Applicability::MaybeIncorrect);
        }
        self.report(d);
        self.bad(span)
    }
}

impl Derive {
    /// Returns the call of the function that is differentiated in the end.
    pub fn call(&self) -> &Expr {
        match &self.of.kind {
            ExprKind::Derive(inner) => inner.call(),
            _ => &self.of,
        }
    }
}

/// Returns the call of the function that is differentiated in the end.
fn differentiated(of: &Expr) -> &Expr {
    match &of.kind {
        ExprKind::Derive(derive) => derive.call(),
        _ => of,
    }
}

/// Returns the arguments of that function.
fn primal_arguments(of: &Expr) -> &[Expr] {
    match &differentiated(of).kind {
        ExprKind::Call { args, .. } => args,
        _ => &[],
    }
}

/// Returns the type of all derivatives of one array of numbers, or number, by another.
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
