//! Functions that state their derivative: `with_grad(f, rule)(args)`.
//!
//! Input is the call, output an [`ExprKind::Stated`]: calls of `f` and of its rule with hidden locals, which stand for the arguments and for
//! the cotangent of the result. So the rule is checked where it is stated, as any call.

use std::sync::Arc;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::cx::{Cx, Meaning};
use crate::check::make::{bare, make};
use crate::check::typed::*;
use crate::lang::builtin::Builtin;
use crate::syntax::ast::{self, ExprKind as Ast};

/// The name and the arguments of `with_grad(f, rule)`.
type Named<'e> = (&'e ast::Name, &'e [ast::Arg]);

impl Cx<'_> {
    /// Returns the function with a rule that an expression forms, if it does.
    pub fn stated_of<'e>(&mut self, callee: &'e ast::Expr) -> Option<Named<'e>> {
        let Ast::Call { callee, args } = &bare(callee).kind else { return None };
        let Ast::Name(name) = &bare(callee).kind else { return None };
        let is_it = matches!(self.lookup(&name.text)?, Meaning::Builtin(entry) if entry.builtin == Builtin::WithGrad);
        is_it.then_some((name, args))
    }

    /// Checks `with_grad(f, rule)(args)`.
    pub fn stated(&mut self, (name, given): Named<'_>, args: &[ast::Arg], span: Span) -> Expr {
        if !self.need_host(name.span, "`with_grad`") {
            return self.after_error(args, span);
        }
        let [ast::Arg { name: None, value: of }, ast::Arg { name: None, value: rule }] = given else {
            let d = Diagnostic::error("E0333", "`with_grad` takes a function and the rule of its derivative");
            self.report(d.at(name.span, "these are not two").help("write `with_grad(f, rule)(x)`"));
            return self.after_error(args, span);
        };
        if let Some(named) = args.iter().find_map(|arg| arg.name.as_ref()) {
            let d = Diagnostic::error("E0333", "a function with a rule takes its arguments by position");
            self.report(d.at(named.span, "leave the name off"));
            return self.after_error(args, span);
        }
        let values: Vec<Expr> = args.iter().map(|arg| self.expr(&arg.value, None)).collect();
        self.open();
        let (mut params, mut own) = (vec![], vec![]);
        for (i, value) in values.iter().enumerate() {
            let local = ast::Name { text: format!("argument {}", i + 1).into(), span: value.span };
            params.push(self.hidden(&local, &value.ty));
            own.push(local);
        }
        let call = |callee: &ast::Expr, names: &[ast::Name]| {
            let arg = |name: &ast::Name| ast::Arg {
                name: None,
                value: ast::Expr { kind: Ast::Name(name.clone()), span: name.span },
            };
            let args = names.iter().map(arg).collect();
            ast::Expr { kind: Ast::Call { callee: Box::new(callee.clone()), args }, span: callee.span }
        };
        let of = self.expr(&call(of, &own), None);
        let last = ast::Name { text: "the cotangent".into(), span: rule.span };
        let cotangent = self.hidden(&last, &of.ty);
        let types: Vec<Type> = values.iter().map(|value| self.vars.shallow(&value.ty)).collect();
        let active: Vec<bool> = types.iter().map(|ty| self.may_be_differentiable(ty)).collect();
        let floats = types.iter().zip(&active).filter(|(_, active)| **active).map(|(ty, _)| ty.clone());
        let wanted = match &floats.collect::<Vec<Type>>()[..] {
            [one] => one.clone(),
            several => Type::Tuple(several.into()),
        };
        let back = self.expr(&call(rule, &[&own[..], &[last]].concat()), None);
        self.close();
        self.stated_types(name, (&of, &back), &wanted);
        let ty = of.ty.clone();
        let rule = Arc::new(Rule { params, of, cotangent, back, active });
        make(ExprKind::Stated(Box::new(Stated { args: values, rule })), ty, span)
    }

    /// Adds a local that stands nowhere in the text.
    fn hidden(&mut self, name: &ast::Name, ty: &Type) -> LocalId {
        let name = ast::Name { text: name.text.clone(), span: Span { end: name.span.start, ..name.span } };
        self.declare(&name, ty.clone(), false, LocalKind::Param(Access::In), None)
    }

    /// Reports a result that has no derivative, and a rule that gives something else than derivatives by the parameters.
    fn stated_types(&mut self, name: &ast::Name, (of, back): (&Expr, &Expr), wanted: &Type) {
        let result = self.vars.shallow(&of.ty);
        if matches!(result, Type::Error) || matches!(self.vars.shallow(&back.ty), Type::Error) {
            return;
        }
        let title = match () {
            () if !self.may_be_differentiable(&result) => {
                format!("a `{}` has no derivative", self.ty_text(&result))
            }
            () if matches!(wanted, Type::Tuple(parts) if parts.is_empty()) => {
                "a function of no floats has no derivative".to_string()
            }
            () => {
                let why = "a rule gives the cotangents of the arguments that are floats, in order";
                self.coerce(back, wanted, Some((name.span, why.to_string())));
                return;
            }
        };
        let d = Diagnostic::error("E0333", title).at(of.span, "nothing is to be stated of this");
        self.report(d.help("call the function itself"));
    }

    /// Reports `with_grad(f, rule)` that is not called.
    pub fn uncalled_stated(&mut self, name: &ast::Name, span: Span) -> Expr {
        let d = Diagnostic::error("E0333", "`with_grad(…)` is a function, and functions are no values")
            .at(span, "nothing is given to it")
            .help("call it: `with_grad(f, rule)(x)`; to pass it on, write a function that calls it");
        self.report(d.because(name.span, "it states the derivative of a function at its arguments"));
        self.bad(span)
    }
}
