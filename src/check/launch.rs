//! Kernel launches by the host.

use crate::build::{I32, bare, make};
use crate::call::{arity, wrong_count};
use crate::context::{BodyKind, Cx, ResolvedName};
use crate::format_types::Show;
use crate::generics::Bind;
use crate::infer::TypeClass;
use crate::scopes::LocalMeaning;
use crate::typed::*;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_syntax::ast::{self, ExprKind as Ast};

impl Cx<'_> {
    /// Checks `kernel(args)` or `kernel<<<grid, block>>>(args)`.
    pub fn launch_as(
        &mut self,
        callee: &ast::Expr,
        geometry: Option<(&ast::Expr, &ast::Expr)>,
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        let meaning = match &bare(callee).kind {
            Ast::Name(name) => match self.resolve(name) {
                None => {
                    self.unknown_name(name);
                    return self.after_error(args, span);
                }
                found => found,
            },
            Ast::Field { base, name } => match self.module_item(base, name, None) {
                Some(Ok(item)) => Some(ResolvedName::Item(item)),
                Some(Err(_)) => return self.after_error(args, span),
                None if self.known_root(base).is_err() => return self.after_error(args, span),
                None => None,
            },
            _ => None,
        };
        match meaning {
            Some(ResolvedName::Item(NameBinding::Kernel(id))) => self.launch(id, geometry, args, callee.span, span),
            Some(ResolvedName::Item(NameBinding::Error)) => self.after_error(args, span),
            _ => {
                let d = Diagnostic::error("E0410", "only a kernel can be launched")
                    .at(callee.span, "this is not a kernel")
                    .help("a function is called without `<<<…>>>`");
                self.report(d);
                self.after_error(args, span)
            }
        }
    }

    fn launch(
        &mut self,
        id: KernelId,
        geometry: Option<(&ast::Expr, &ast::Expr)>,
        args: &[ast::Arg],
        at: Span,
        span: Span,
    ) -> Expr {
        let Some(kernel) = self.program.kernels.get(id) else { return self.after_error(args, span) };
        if self.in_kernel() {
            let d = Diagnostic::error("E0405", format!("the kernel `{}` can't be launched from a kernel", kernel.name))
                .at(at, "only the host launches kernels")
                .because(kernel.name_span, "this is a kernel")
                .help("move what both need to an `fn`, which kernels can call");
            self.report(d);
            return self.after_error(args, span);
        }
        if matches!(self.home, BodyKind::Const | BodyKind::Signature) || !self.need_host(span, "a launch") {
            return self.after_error(args, span);
        }
        if self.dimensions_by_place(kernel, args) {
            return self.after_error(args, span);
        }
        if self.surplus_number(kernel, args) {
            return self.after_error(args, span);
        }
        let mut bind = self.start_binding(&kernel.sig);
        let Some(given) = self.sort_args(&mut bind, args, &kernel.name, true) else {
            return self.after_error(args, span);
        };
        if self.lacks_arguments(kernel, &given, span) {
            return self.after_error(args, span);
        }
        let mut values = Vec::with_capacity(given.len());
        let mut outputs: Vec<(&Param, usize)> = vec![];
        let mut is_valid = true;
        let before = self.diagnostics.len();
        for (param, value) in kernel.sig.params.iter().zip(given.iter().copied()) {
            let argument = self.check_argument_or_default(&bind, param, value, span);
            if let Some(e) = &argument {
                let whole = self.writes_whole(param, e);
                match whole && self.is_output_of_zeros(&bind, param, e) {
                    true => outputs.push((param, values.len())),
                    false => is_valid &= whole && self.bind_arg(&mut bind, param, e),
                }
            }
            values.push(argument);
        }
        for (param, at) in outputs {
            is_valid &= values[at].as_ref().is_some_and(|e| self.bind_arg(&mut bind, param, e));
        }
        if !is_valid {
            if let Some(values) = values.iter().map(Option::as_ref).collect::<Option<Vec<_>>>() {
                self.suggest_exchange(before, &kernel.sig.params, &given, &values);
            }
            return self.bad(span);
        }
        let refs: Vec<Option<&Expr>> = values.iter().map(Option::as_ref).collect();
        if !self.check_exclusive_access(&kernel.name, &kernel.sig, &refs, true) {
            return self.bad(span);
        }
        self.check_late(&mut bind);
        self.check_dims_bound(kernel, &bind, &values, span);
        let ty = self.launch_result(kernel, &bind, &values);
        let generics = self.generic_args(&bind, span, &kernel.name);
        let (grid, block) = match geometry {
            Some((g, b)) => (Some(self.extents(g)), Some(self.extents(b))),
            None => (None, None),
        };
        let consts = kernel.sig.generics.iter().zip(&bind.consts).enumerate();
        let left_off =
            consts.filter(|(_, (generic, given))| matches!(generic.kind, GenericKind::Const { .. }) && given.is_none());
        let left_off = left_off.map(|(i, _)| i as u32).collect();
        let launch = LaunchExpr { kernel: id, generics, args: values, dims: bind.named_dims, grid, block, left_off };
        self.in_written_order(make(ExprKind::Launch(Box::new(launch)), ty, span))
    }

    /// Checks that an argument which a launch writes is a whole variable. Reports elements and slices, and returns
    /// false for them.
    fn writes_whole(&mut self, param: &Param, e: &Expr) -> bool {
        let whole = matches!(e.kind, ExprKind::Local(_) | ExprKind::Global(_) | ExprKind::Error);
        if param.access == Access::In || whole {
            return true;
        }
        let d = Diagnostic::error("E0319", "a launch writes to whole variables")
            .at(e.span, "a part of one")
            .because(param.span, "this parameter is written");
        self.report(d.help("copy it to a variable, launch with that, and write it back after the launch"));
        false
    }

    /// Reports a number that is passed in the place of an array, usually the length of the arrays.
    fn surplus_number(&mut self, kernel: &Kernel, args: &[ast::Arg]) -> bool {
        let inputs: Vec<Param> = kernel.sig.params.iter().filter(|p| p.access != Access::Out).cloned().collect();
        let count = args.len();
        let has_too_many = count > inputs.len() && args.iter().all(|arg| arg.name.is_none());
        let surplus = kernel.sig.params.iter().zip(args).find_map(|(param, arg)| {
            let value = Some(&arg.value).filter(|_| has_too_many && matches!(param.ty, Type::Array(_)))?;
            let is_number = match &bare(value).kind {
                ast::ExprKind::Int { .. } | ast::ExprKind::Float { .. } => true,
                ast::ExprKind::Name(name) => match self.lookup(&name.text)? {
                    ResolvedName::Slot(LocalMeaning::Local(id)) => self.locals.get(id).map(|local| &local.ty),
                    ResolvedName::Slot(LocalMeaning::Global(id)) | ResolvedName::Item(NameBinding::Global(id)) => {
                        self.global(id).map(|global| &global.ty)
                    }
                    _ => None,
                }
                .is_some_and(|ty| !matches!(self.vars.shallow(ty), Type::Array(_) | Type::Unknown | Type::Error)),
                _ => false,
            };
            is_number.then_some((param, value.span))
        });
        let Some((param, at)) = surplus else { return false };
        let d = Diagnostic::error("E0304", wrong_count(&kernel.name, arity(&inputs), count))
            .at(at, format!("a number, but `{}` is an array", param.name))
            .because(param.span, "declared here")
            .help("lengths are not passed: they are those of the arrays, and the launch returns the `out` arrays");
        self.report(d);
        true
    }

    fn lacks_arguments(&mut self, kernel: &Kernel, given: &[Option<&ast::Expr>], span: Span) -> bool {
        let lacks =
            |(p, g): &(&Param, &Option<&ast::Expr>)| g.is_none() && p.access != Access::Out && p.default.is_none();
        let any = kernel.sig.params.iter().zip(given).any(|pair| lacks(&pair));
        if any {
            let text =
                Show { sig: Some(&kernel.sig), ..self.show() }.signature("kernel", &kernel.name, &kernel.sig, None);
            let missing: Vec<&str> =
                kernel.sig.params.iter().zip(given).filter(lacks).map(|(p, _)| p.name.as_str()).collect();
            let inputs: Vec<Param> = kernel.sig.params.iter().filter(|p| p.access != Access::Out).cloned().collect();
            let count_given = given.iter().flatten().count();
            let d = Diagnostic::error("E0304", wrong_count(&kernel.name, arity(&inputs), count_given))
                .at(span, format!("missing: {}", crate::access::list(&missing)))
                .because(kernel.name_span, "defined here")
                .note(format!("`{text}`"))
                .note("`out` arguments may be left off; the launch then returns them.");
            self.report(d);
        }
        any
    }

    /// Reports dimensions that neither an array argument nor a named argument determines. Without them, the shape of
    /// the result is not known.
    fn check_dims_bound(&mut self, kernel: &Kernel, bind: &Bind<'_>, values: &[Option<Expr>], span: Span) {
        let unknown = values.iter().flatten().any(|v| matches!(self.vars.shallow(&v.ty), Type::Unknown | Type::Error));
        // The dimension may occur in a parameter whose type has an error.
        if unknown || kernel.sig.params.iter().any(|param| param.ty == Type::Error) {
            return;
        }
        for (i, dim) in kernel.sig.dims.iter().enumerate() {
            let bound = bind.dims.get(i).is_some_and(Option::is_some);
            if !bound && dim.name != "_" {
                let d = Diagnostic::error(
                    "E0412",
                    format!("nothing fixes the dimension `{}` of `{}`", dim.name, kernel.name),
                )
                .at(span, "no argument has it")
                .because(dim.span, "named here")
                .help(format!("give it by name: `{} = 1024`", dim.name));
                self.report(d);
                return;
            }
        }
    }

    fn launch_result(&mut self, kernel: &Kernel, bind: &Bind<'_>, values: &[Option<Expr>]) -> Type {
        let left_off = kernel.sig.params.iter().zip(values).filter(|(_, v)| v.is_none());
        let mut types: Vec<Type> = left_off.map(|(p, _)| self.subst(&p.ty, bind)).collect();
        match types.len() {
            0 => Type::Unit,
            1 => types.pop().unwrap_or_default(),
            _ => Type::Tuple(types.into()),
        }
    }

    /// Checks `<<<grid, block>>>` extents: an integer or a tuple of up to three, x first.
    fn extents(&mut self, e: &ast::Expr) -> Expr {
        let checked = self.expr(e, Some(&I32));
        let ty = self.vars.shallow(&checked.ty);
        let ok = match &ty {
            Type::Tuple(parts) => {
                (1..=3).contains(&parts.len()) && parts.iter().all(|p| self.vars.require(p, TypeClass::Int))
            }
            other => self.vars.require(other, TypeClass::Int) && !matches!(other, Type::Vector(..)),
        };
        if !ok {
            let actual = self.ty_text(&ty);
            let d = Diagnostic::error("E0410", "the extents of a launch are one to three integers")
                .at(checked.span, format!("this is `{actual}`"))
                .help("write `kernel<<<(16, 16), 256>>>(…)`: the grid and then the block, x first");
            self.report(d);
            return self.bad(e.span);
        }
        checked
    }
}
