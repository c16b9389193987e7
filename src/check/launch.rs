//! Kernel launches by the host.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::call::{arity, wrong_count};
use crate::check::cx::{Cx, Home, Meaning};
use crate::check::generics::Bind;
use crate::check::infer::Kind;
use crate::check::make::{I32, bare, make};
use crate::check::show::Show;
use crate::check::typed::*;
use crate::syntax::ast::{self, ExprKind as Ast};

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
            Ast::Name(name) => match self.lookup(&name.text) {
                None => {
                    self.unknown_name(name);
                    return self.after_error(args, span);
                }
                found => found,
            },
            Ast::Field { base, name } => match self.module_item(base, name) {
                Some(Ok(item)) => Some(Meaning::Item(item)),
                Some(Err(_)) => return self.after_error(args, span),
                None if self.known_root(base).is_err() => return self.after_error(args, span),
                None => None,
            },
            _ => None,
        };
        match meaning {
            Some(Meaning::Item(Binding::Kernel(id))) => self.launch(id, geometry, args, callee.span, span),
            Some(Meaning::Item(Binding::Error)) => self.after_error(args, span),
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
                .help("make what both need an `fn`, which kernels can call");
            self.report(d);
            return self.after_error(args, span);
        }
        if matches!(self.home, Home::Const | Home::Signature) || !self.need_host(span, "a launch") {
            return self.after_error(args, span);
        }
        if self.dimensions_by_place(kernel, args) {
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
        let mut fits = true;
        for (param, value) in kernel.sig.params.iter().zip(given) {
            let passed = self.passed(&bind, param, value, span);
            if let Some(e) = &passed {
                let whole = self.writes_whole(param, e);
                match whole && self.is_output_of_zeros(&bind, param, e) {
                    true => outputs.push((param, values.len())),
                    false => fits &= whole && self.bind_arg(&mut bind, param, e),
                }
            }
            values.push(passed);
        }
        for (param, at) in outputs {
            fits &= values[at].as_ref().is_some_and(|e| self.bind_arg(&mut bind, param, e));
        }
        if !fits {
            return self.bad(span);
        }
        let refs: Vec<Option<&Expr>> = values.iter().map(Option::as_ref).collect();
        if !self.lent_once(&kernel.name, &kernel.sig, &refs, true) {
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
        let launch = Launch { kernel: id, generics, args: values, dims: bind.named_dims, grid, block, left_off };
        self.in_written_order(make(ExprKind::Launch(Box::new(launch)), ty, span))
    }

    /// Whether an argument that a launch writes is a whole variable; reports an element or a slice of one.
    fn writes_whole(&mut self, param: &Param, e: &Expr) -> bool {
        let whole = matches!(e.kind, ExprKind::Local(_) | ExprKind::Global(_) | ExprKind::Error);
        if param.access == Access::In || whole {
            return true;
        }
        let d = Diagnostic::error("E0319", "a launch writes to whole variables")
            .at(e.span, "a part of one")
            .because(param.span, "this parameter is written");
        self.report(d.help("copy it to a variable, launch with that, and write it back behind the launch"));
        false
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
            let found = given.iter().flatten().count();
            let d = Diagnostic::error("E0304", wrong_count(&kernel.name, arity(&inputs), found))
                .at(span, format!("missing: {}", crate::check::access::list(&missing)))
                .because(kernel.name_span, "defined here")
                .note(format!("`{text}`"))
                .note("`out` arguments may be left off; the launch then returns them.");
            self.report(d);
        }
        any
    }

    /// Reports dimensions that neither an array argument nor a named argument binds, since they leave the result's shape open.
    fn check_dims_bound(&mut self, kernel: &Kernel, bind: &Bind<'_>, values: &[Option<Expr>], span: Span) {
        let unknown = values.iter().flatten().any(|v| matches!(self.vars.shallow(&v.ty), Type::Unknown | Type::Error));
        // A parameter whose type had an error may have it.
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
                (1..=3).contains(&parts.len()) && parts.iter().all(|p| self.vars.require(p, Kind::Int))
            }
            other => self.vars.require(other, Kind::Int) && !matches!(other, Type::Vector(..)),
        };
        if !ok {
            let found = self.ty_text(&ty);
            let d = Diagnostic::error("E0410", "the extents of a launch are one to three integers")
                .at(checked.span, format!("this is `{found}`"))
                .help("write `kernel<<<(16, 16), 256>>>(…)`: the grid and then the block, x first");
            self.report(d);
            return self.bad(e.span);
        }
        checked
    }
}
