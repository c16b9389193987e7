//! Functions with a custom derivative (custom VJP): `with_grad(f, rule)(args)`.
//!
//! Input: the call. Output: an [`ExprKind::CustomVjp`] with calls of `f` and of its rule. In these calls, hidden locals
//! represent the arguments and the cotangent of the result. Therefore the rule is checked like any call.

use std::sync::Arc;

use crate::build::{bare, make};
use crate::context::{Cx, ResolvedName};
use crate::typed::*;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_scalar::builtin::Builtin;
use clk_syntax::ast::{self, ExprKind as Ast};
use smol_str::SmolStr;

/// The expression `with_grad(f, rule)`.
pub(crate) struct WithGradCall<'e> {
    name: &'e ast::Name,
    args: &'e [ast::Arg],
}

impl Cx<'_> {
    /// Recognizes a callee that is itself a call of `with_grad`.
    pub fn with_grad_callee<'e>(&mut self, callee: &'e ast::Expr) -> Option<WithGradCall<'e>> {
        let Ast::Call { callee, args } = &bare(callee).kind else { return None };
        let Ast::Name(name) = &bare(callee).kind else { return None };
        let is_with_grad =
            matches!(self.resolve(name)?, ResolvedName::Builtin(entry) if entry.builtin == Builtin::WithGrad);
        is_with_grad.then_some(WithGradCall { name, args })
    }

    /// Checks `with_grad(f, rule)(args)`.
    pub fn check_with_grad(&mut self, callee: WithGradCall<'_>, args: &[ast::Arg], span: Span) -> Expr {
        let WithGradCall { name, args: callee_args } = callee;
        if !self.need_host(name.span, "`with_grad`") {
            return self.after_error(args, span);
        }
        let [ast::Arg { name: None, value: of }, ast::Arg { name: None, value: rule }] = callee_args else {
            let d = Diagnostic::error("E0333", "`with_grad` takes a function and the rule of its derivative");
            self.report(d.at(name.span, "these are not two").help("write `with_grad(f, rule)(x)`"));
            return self.after_error(args, span);
        };
        // Compile-time arguments, such as functions, are given to the function and to the parameters of its rule at the
        // same places. The latter have no names in the source.
        let (named, args): (Vec<ast::Arg>, Vec<ast::Arg>) = args.iter().cloned().partition(|arg| arg.name.is_some());
        let (own_generics, rule_generics) = (self.generics_of(of), self.generics_of(rule));
        let mut for_rule = named.clone();
        for name in for_rule.iter_mut().filter_map(|arg| arg.name.as_mut()) {
            if let Some(at) = own_generics.iter().position(|generic| *generic == name.text) {
                let text = rule_generics.get(at).unwrap_or(&name.text).clone();
                *name = ast::Name { text, span: Span { end: name.span.start, ..name.span } };
                continue;
            }
            let d = Diagnostic::error("E0333", "a function with a rule takes its arguments by position");
            self.report(d.at(name.span, "leave the name off"));
            return self.after_error(&args, span);
        }
        let values: Vec<Expr> = args.iter().map(|arg| self.expr(&arg.value, None)).collect();
        self.scopes.open(span);
        let (mut params, mut own) = (vec![], vec![]);
        for (i, value) in values.iter().enumerate() {
            let local = ast::Name { text: format!("argument {}", i + 1).into(), span: value.span };
            params.push(self.hidden(&local, &value.ty));
            own.push(local);
        }
        let call = |callee: &ast::Expr, names: &[ast::Name], named: &[ast::Arg]| {
            let arg = |name: &ast::Name| ast::Arg {
                name: None,
                value: ast::Expr { kind: Ast::Name(name.clone()), span: name.span },
            };
            let args = names.iter().map(arg).chain(named.iter().cloned()).collect();
            ast::Expr { kind: Ast::Call { callee: Box::new(callee.clone()), args }, span: callee.span }
        };
        let of = self.expr(&call(of, &own, &named), None);
        let last = ast::Name { text: "the cotangent".into(), span: rule.span };
        let cotangent = self.hidden(&last, &of.ty);
        let types: Vec<Type> = values.iter().map(|value| self.vars.shallow(&value.ty)).collect();
        let active: Vec<bool> = types.iter().map(|ty| self.may_be_differentiable(ty)).collect();
        let floats = types.iter().zip(&active).filter(|(_, active)| **active).map(|(ty, _)| ty.clone());
        let cotangent_type = match &floats.collect::<Vec<Type>>()[..] {
            [one] => one.clone(),
            several => Type::Tuple(several.into()),
        };
        let back = self.expr(&call(rule, &[&own[..], &[last]].concat(), &for_rule), None);
        self.scopes.close();
        self.check_rule_types(name, &of, &back, &cotangent_type);
        let ty = of.ty.clone();
        let rule = Arc::new(Rule { params, of, cotangent, back, active });
        make(ExprKind::CustomVjp(Box::new(CustomVjp { args: values, rule })), ty, span)
    }

    /// Returns the names of the compile-time parameters of a function or kernel.
    fn generics_of(&mut self, function: &ast::Expr) -> Vec<SmolStr> {
        let meaning = match &bare(function).kind {
            Ast::Name(function) => self.resolve(function),
            Ast::Field { base, name } => {
                self.module_item(base, name, None).and_then(Result::ok).map(ResolvedName::Item)
            }
            _ => None,
        };
        let sig = match meaning {
            Some(ResolvedName::Item(NameBinding::Fn(id))) => self.program.fns.get(id).map(|found| &found.sig),
            Some(ResolvedName::Item(NameBinding::Kernel(id))) => self.program.kernels.get(id).map(|found| &found.sig),
            _ => None,
        };
        sig.map_or(vec![], |sig| sig.generics.iter().map(|generic| generic.name.clone()).collect())
    }

    /// Declares a hidden local, which the source does not contain.
    fn hidden(&mut self, name: &ast::Name, ty: &Type) -> LocalId {
        let name = ast::Name { text: name.text.clone(), span: Span { end: name.span.start, ..name.span } };
        self.declare(&name, ty.clone(), false, LocalKind::Param(Access::In), None)
    }

    /// Reports a function without a derivative, and a rule whose result does not have the type `expected`.
    fn check_rule_types(&mut self, name: &ast::Name, of: &Expr, back: &Expr, expected: &Type) {
        let result = self.vars.shallow(&of.ty);
        if matches!(result, Type::Error) || matches!(self.vars.shallow(&back.ty), Type::Error) {
            return;
        }
        let title = match () {
            () if !self.may_be_differentiable(&result) => {
                format!("a `{}` has no derivative", self.ty_text(&result))
            }
            () if matches!(expected, Type::Tuple(parts) if parts.is_empty()) => {
                "a function of no floats has no derivative".to_string()
            }
            () => {
                let why = "a rule gives the cotangents of the arguments that are floats, in order";
                self.coerce(back, expected, Some((name.span, why.to_string())));
                return;
            }
        };
        let d = Diagnostic::error("E0333", title).at(of.span, "this can't have a derivative");
        self.report(d.help("call the function itself"));
    }

    /// Reports `with_grad(f, rule)` that is not called.
    pub fn uncalled_with_grad(&mut self, name: &ast::Name, span: Span) -> Expr {
        let d = Diagnostic::error("E0333", "`with_grad(…)` is a function, and functions are not values")
            .at(span, "nothing is given to it")
            .help("call it: `with_grad(f, rule)(x)`; to pass it on, write a function that calls it");
        self.report(d.because(name.span, "it states the derivative of a function at its arguments"));
        self.bad(span)
    }
}
