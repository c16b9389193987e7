//! Calls: of functions, function parameters, types (conversions and vectors), and callees that cannot be called.

use std::ops::RangeInclusive;

use crate::arguments::{Accepted, NamedParam, args_with_names, at, by_name};
use crate::build::{bare, count, is_literal, make};
use crate::context::{Cx, ResolvedName};
use crate::foreign_names;
use crate::format_types::Show;
use crate::generics::Bind;
use crate::infer::{TypeClass, array};
use crate::ops::{scalar_of, with_scalar};
use crate::scopes::LocalMeaning;
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::builtin;
use clk_syntax::ast::{self, ExprKind as Ast};

impl Cx<'_> {
    pub fn call(&mut self, callee: &ast::Expr, args: &[ast::Arg], span: Span, want: Option<&Type>) -> Expr {
        match &bare(callee).kind {
            Ast::Name(name) => match self.resolve(name) {
                Some(meaning) => self.call_meaning(meaning, callee, name, args, span, want),
                None => {
                    self.unknown_callee(name, args, span);
                    self.after_error(args, span)
                }
            },
            Ast::Field { base, name } => match self.module_item(base, name, Some((args, span))) {
                Some(Ok(binding)) => self.call_meaning(ResolvedName::Item(binding), callee, name, args, span, want),
                Some(Err(_)) => self.after_error(args, span),
                None => self.method(base, name, args, span),
            },
            Ast::Call { .. } => {
                if let Some(derivative) = self.derivative_of(callee) {
                    return self.derivative(derivative, args, span);
                }
                if let Some(stated) = self.with_grad_callee(callee) {
                    return self.check_with_grad(stated, args, span);
                }
                let e = self.expr(callee, None);
                self.not_callable(&e, args, span)
            }
            _ => {
                let e = self.expr(callee, None);
                self.not_callable(&e, args, span)
            }
        }
    }

    fn call_meaning(
        &mut self,
        meaning: ResolvedName,
        callee: &ast::Expr,
        name: &ast::Name,
        args: &[ast::Arg],
        span: Span,
        want: Option<&Type>,
    ) -> Expr {
        match meaning {
            ResolvedName::Slot(LocalMeaning::FnParam(i)) => self.call_param(i, name, args, span),
            ResolvedName::Slot(LocalMeaning::TypeParam(i)) => self.convert_param(i, args, span),
            ResolvedName::Item(NameBinding::Fn(id)) => self.call_fn(id, name, args, span, want),
            ResolvedName::Item(NameBinding::Kernel(_)) => self.launch_as(callee, None, args, span),
            ResolvedName::Item(NameBinding::Struct(id)) => {
                let fields = self.program.structs.get(id).map(|s| &s.fields);
                let fields: Vec<String> = fields.into_iter().flatten().map(|f| format!("{}: …", f.name)).collect();
                let d = Diagnostic::error("E0311", format!("the struct `{}` is not made by a call", name.text))
                    .at(name.span, "this is a struct")
                    .help(format!("name its fields: `{} {{ {} }}`", name.text, fields.join(", ")));
                self.report(d);
                self.after_error(args, span)
            }
            ResolvedName::Item(NameBinding::Error) => self.after_error(args, span),
            // A module cannot be called, so the name refers to the builtin of the same name: after `import std.image`,
            // `image(…)` still calls the builtin.
            ResolvedName::Item(NameBinding::Module(_)) if builtin::find(&name.text).is_some() => {
                let meaning = builtin::find(&name.text).map_or(meaning, ResolvedName::Builtin);
                self.record_resolved(name, &meaning);
                self.call_meaning(meaning, callee, name, args, span, want)
            }
            ResolvedName::Builtin(entry) if entry.signature.starts_with('(') || entry.signature.starts_with('<') => {
                self.call_builtin(entry, name, args, span, want)
            }
            ResolvedName::Type(Type::Scalar(s)) => self.convert(s, args, span),
            ResolvedName::Type(Type::Vector(s, n)) => self.vector(s, n, args, span),
            ResolvedName::Type(Type::Str) => self.str_of(args, span),
            ResolvedName::Slot(_) | ResolvedName::Item(_) | ResolvedName::Builtin(_) => {
                let e = self.name(name);
                self.not_callable(&e, args, span)
            }
            ResolvedName::Type(_) => {
                let d = Diagnostic::error("E0311", format!("`{}` does not convert", name.text))
                    .at(name.span, "this is a type");
                self.report(d);
                self.after_error(args, span)
            }
        }
    }

    /// Checks the arguments of a call whose callee has an error, so that errors in the arguments are reported too.
    pub fn after_error(&mut self, args: &[ast::Arg], span: Span) -> Expr {
        for arg in args.iter().filter(|a| a.name.is_none()) {
            match &bare(&arg.value).kind {
                // The name may be that of a function or a type, so it is marked as used but not checked as a value.
                Ast::Name(n) => match self.resolve(n) {
                    // A valid callee might have read or modified the variable.
                    Some(ResolvedName::Slot(LocalMeaning::Local(id))) => {
                        if let Some(info) = self.local_info(id) {
                            (info.used, info.assigned) = (true, true);
                        }
                    }
                    Some(ResolvedName::Slot(LocalMeaning::Global(id))) => {
                        if let Some(info) = self.global_info(id) {
                            (info.used, info.assigned) = (true, true);
                        }
                    }
                    _ => {}
                },
                Ast::Str(parts) => drop(self.text(parts, arg.value.span)),
                _ => drop(self.expr(&arg.value, None)),
            }
        }
        self.bad(span)
    }

    fn not_callable(&mut self, e: &Expr, args: &[ast::Arg], span: Span) -> Expr {
        if e.ty != Type::Error {
            let actual = self.ty_text(&e.ty);
            let mut d = Diagnostic::error("E0311", format!("`{actual}` can't be called"))
                .at(e.span, format!("this is `{actual}`, not a function"));
            if matches!(self.vars.shallow(&e.ty), Type::Array(_)) {
                match args {
                    // Languages with indices in parentheses count from 1.
                    [ast::Arg { name: None, value: ast::Expr { kind: Ast::Int { value, .. }, .. } }] if *value > 0 => {
                        let index = format!("[{}]", value - 1);
                        let parentheses = Span { end: span.end, ..e.span.after() };
                        d = d
                            .help(
                                "an element is written with brackets, and indices start at 0: `x[0]` is the first one",
                            )
                            .fix(format!("write `{index}`"), parentheses, index, Applicability::MaybeIncorrect);
                    }
                    _ => d = d.help("an element is written with brackets, and indices start at 0: `x[i]`"),
                }
            }
            self.report(d);
        }
        self.after_error(args, span)
    }

    /// Reports a method call such as `x.sum()`: Clk has only free functions.
    fn method(&mut self, base: &ast::Expr, name: &ast::Name, args: &[ast::Arg], span: Span) -> Expr {
        let word = name.text.as_str();
        let base = foreign_names::without_iterators(base);
        let value = self.expr(base, None);
        if value.ty == Type::Error {
            return self.after_error(args, span);
        }
        let is_function =
            builtin::find(word).is_some() || matches!(self.module.names.get(word), Some(NameBinding::Fn(_)));
        let d = Diagnostic::error("E0311", format!("Clk has no methods, so there is no `.{word}()`"))
            .at(name.span, "written as a method");
        let mut d = match self.foreign_method(d, (base, &value.ty), name, (args, span)) {
            Ok(d) => {
                self.report(d);
                return self.after_error(args, span);
            }
            Err(d) => *d,
        };
        if is_function {
            let edits = foreign_names::call_edits(word, base.span, name.span, !args.is_empty());
            d = d.help(format!("`{word}` is a function: write `{word}(…)` with the value as first argument"));
            d = d.fix_all(format!("call the function `{word}`"), edits, Applicability::MaybeIncorrect);
        } else if let Some(ty) = foreign_names::target_type(word, args) {
            let before = Span { end: base.span.start, ..base.span };
            let after = Span { start: base.span.end, ..span };
            let edits = vec![(before, format!("{ty}(")), (after, ")".to_owned())];
            d = d.fix_all(format!("write `{ty}(…)`"), edits, Applicability::MaybeIncorrect);
        } else if word == "to" {
            d = d.help("arrays move to where they are used; no call is needed");
        } else {
            d = d.help("a function takes the value as an argument: `f(x)`");
        }
        self.report(d);
        self.after_error(args, span)
    }

    // Conversions and vectors

    fn convert(&mut self, to: Scalar, args: &[ast::Arg], span: Span) -> Expr {
        let Some(arg) = self.one_argument(to.name(), args, span) else { return self.after_error(args, span) };
        let e = self.expr(&arg.value, None);
        if is_literal(&arg.value) && to.is_num() {
            self.vars.unify(&e.ty, &Type::Scalar(to));
        }
        let ty = self.vars.shallow(&e.ty);
        let result = match &ty {
            Type::Error => return self.bad(span),
            Type::Unknown => Type::Unknown,
            other => {
                let scalar = scalar_of(other);
                let number = match &scalar {
                    Type::Scalar(_) | Type::Unknown => true,
                    // A type parameter bounded by `Any` may be a vector or a struct.
                    Type::Param(_) => self.vars.scalar_kind(&scalar).is_some_and(|kind| kind != TypeClass::Any),
                    _ => false,
                };
                if !number {
                    return self.no_conversion(&e, to.name(), span);
                }
                with_scalar(other, &Type::Scalar(to))
            }
        };
        if matches!(ty, Type::Array(_)) {
            self.need_arrays(span, "a conversion of a whole array");
        }
        make(ExprKind::Convert { to, expr: Box::new(e) }, result, span)
    }

    /// Returns the argument of a conversion. Reports an error and returns `None` if there is not exactly one argument.
    pub fn one_argument<'e>(&mut self, callee: &str, args: &'e [ast::Arg], span: Span) -> Option<&'e ast::Arg> {
        if !self.no_names(args, callee) {
            return None;
        }
        if let [arg] = args {
            return Some(arg);
        }
        let d = Diagnostic::error("E0304", format!("`{callee}` converts one value, but {} are given", args.len()))
            .at(span, "one argument is expected");
        self.report(d);
        None
    }

    fn no_conversion(&mut self, e: &Expr, to: &str, span: Span) -> Expr {
        let actual = self.ty_text(&e.ty);
        let mut d = Diagnostic::error("E0323", format!("`{actual}` can't be converted to `{to}`"))
            .at(e.span, format!("this is `{actual}`"));
        if crate::build::is_text(&e.ty) {
            let before = Span { end: e.span.start, ..span };
            d = d.help(format!("`parse({to}, text)` reads a number from text"));
            d = d.fix(
                format!("write `parse({to}, …)`"),
                before,
                format!("parse({to}, "),
                Applicability::MaybeIncorrect,
            );
        }
        self.report(d);
        self.bad(span)
    }

    fn convert_param(&mut self, to: u32, args: &[ast::Arg], span: Span) -> Expr {
        let name = self.sig.generics.get(to as usize).map_or("T".into(), |g| g.name.clone());
        let Some(arg) = self.one_argument(&name, args, span) else { return self.after_error(args, span) };
        let e = self.expr(&arg.value, None);
        if e.ty == Type::Error {
            return self.bad(span);
        }
        let ty = self.vars.shallow(&e.ty);
        let any = self.vars.scalar_kind(&ty) == Some(TypeClass::Any);
        if !matches!(ty, Type::Scalar(_) | Type::Param(_)) || any {
            return self.no_conversion(&e, &name, span);
        }
        if is_literal(&arg.value) && self.vars.unify(&e.ty, &Type::Param(to)) {
            return e;
        }
        make(ExprKind::ConvertParam { to, expr: Box::new(e) }, Type::Param(to), span)
    }

    fn vector(&mut self, s: Scalar, n: u8, args: &[ast::Arg], span: Span) -> Expr {
        let name = format!("{s}x{n}");
        if !self.no_names(args, &name) {
            return self.after_error(args, span);
        }
        let want = Type::Scalar(s);
        let mut parts = Vec::with_capacity(args.len());
        let mut lanes = 0;
        for arg in args {
            let e = self.expr(&arg.value, Some(&want));
            match self.vars.shallow(&e.ty) {
                Type::Vector(from, m) if args.len() == 1 && m == n && from != s => {
                    return make(ExprKind::Convert { to: s, expr: Box::new(e) }, Type::Vector(s, n), span);
                }
                Type::Vector(from, m) if from == s => lanes += usize::from(m),
                Type::Error => return self.bad(span),
                Type::Unknown => lanes += 1,
                _ => {
                    if !self.coerce(&e, &want, None) {
                        return self.bad(span);
                    }
                    lanes += 1;
                }
            }
            parts.push(e);
        }
        let broadcast = parts.len() == 1 && lanes == 1;
        if lanes != usize::from(n) && !broadcast {
            let d = Diagnostic::error("E0304", format!("`{name}` needs {n} components, but these make {lanes}"))
                .at(span, format!("{n} components, or one for all"));
            self.report(d);
            return self.bad(span);
        }
        make(ExprKind::Vector { parts }, Type::Vector(s, n), span)
    }

    // Functions

    fn call_param(&mut self, i: u32, name: &ast::Name, args: &[ast::Arg], span: Span) -> Expr {
        let Some(GenericKind::Fn { ty, .. }) = self.sig.generics.get(i as usize).map(|g| &g.kind) else {
            return self.after_error(args, span);
        };
        let ty = ty.clone();
        if !self.no_names(args, &name.text) {
            return self.after_error(args, span);
        }
        if args.len() != ty.params.len() {
            let text = self.ty_text(&Type::Fn(ty.clone()));
            let n = ty.params.len();
            let d = Diagnostic::error("E0304", wrong_count(&name.text, n..=n, args.len()))
                .at(span, format!("{} given", args.len()))
                .note(format!("`{}` is `{text}`", name.text));
            self.report(d);
            return self.after_error(args, span);
        }
        let args = args.iter().zip(&ty.params).map(|(a, p)| self.expr_as(&a.value, p)).collect();
        make(ExprKind::Call { callee: FnRef::Param(i), args }, ty.result.clone(), span)
    }

    fn call_fn(&mut self, id: FnId, name: &ast::Name, args: &[ast::Arg], span: Span, want: Option<&Type>) -> Expr {
        let Some(f) = self.program.fns.get(id) else { return self.after_error(args, span) };
        self.needs.calls.push((id, span));
        let sig = &f.sig;
        let mut bind = self.start_binding(sig);
        let Some(given) = self.sort_args(&mut bind, args, &f.name, false) else { return self.after_error(args, span) };
        let lacks = |(param, given): (&Param, &Option<&ast::Expr>)| given.is_none() && param.default.is_none();
        if sig.params.iter().zip(&given).any(lacks) {
            let text = Show { sig: Some(sig), ..self.show() }.signature("fn", &f.name, sig, Some(&f.result));
            let count = given.iter().flatten().count();
            let missing = sig.params.iter().zip(&given).filter(|pair| lacks(*pair)).map(|(param, _)| param);
            let names: Vec<&str> = missing.clone().map(|param| param.name.as_str()).collect();
            let mut d = Diagnostic::error("E0304", wrong_count(&f.name, arity(&sig.params), count))
                .at(span, format!("missing: {}", crate::access::list(&names)))
                .note(format!("`{text}`"));
            if let Some(first) = missing.map(|param| param.span).next() {
                d = d.because(first, "nothing is given for this");
            }
            self.report(d);
            return self.after_error(args, span);
        }
        // The expected type of the result may determine a type parameter that a literal argument does not determine.
        let mut values = Vec::with_capacity(given.len());
        let mut outputs: Vec<(&Param, usize)> = vec![];
        let mut lift: Vec<usize> = vec![];
        let mut unknown = false;
        let before = self.diagnostics.len();
        for (param, value) in sig.params.iter().zip(given.iter().copied()) {
            let Some(e) = self.check_argument_or_default(&bind, param, value, span) else { continue };
            let ty = self.vars.shallow(&e.ty);
            let takes_one = !matches!(param.ty, Type::Array(_) | Type::Str | Type::Strings);
            match &ty {
                Type::Array(a) if takes_one => {
                    lift.push(values.len());
                    let one = make(ExprKind::Error, a.element.clone(), e.span);
                    self.bind_arg(&mut bind, param, &one);
                }
                Type::Unknown if takes_one => {
                    unknown = true;
                    self.leave_open(&bind, &param.ty);
                }
                _ if self.is_output_of_zeros(&bind, param, &e) => outputs.push((param, values.len())),
                _ => {
                    self.bind_arg(&mut bind, param, &e);
                }
            }
            values.push(e);
        }
        for (param, at) in outputs {
            self.bind_arg(&mut bind, param, &values[at]);
        }
        if self.diagnostics.len() > before {
            self.suggest_exchange(before, &sig.params, &given, &values.iter().collect::<Vec<_>>());
        }
        self.check_late(&mut bind);
        let result = self.subst(&f.result, &bind);
        if !sig.generics.is_empty() && self.bounded("what this call gives", &result, span).is_err() {
            return self.bad(span);
        }
        if let (Some(want), true) = (want, lift.is_empty() && !unknown && !sig.generics.is_empty())
            && self.vars.kind(&result).is_some()
            && matches!(want, Type::Scalar(_) | Type::Param(_))
        {
            self.vars.unify(&result, want);
        }
        let generics = self.generic_args(&bind, span, &f.name);
        let callee = FnRef::Fn { id, generics };
        let refs: Vec<Option<&Expr>> = values.iter().map(Some).collect();
        if !self.check_exclusive_access(&f.name, sig, &refs, false) {
            return self.bad(span);
        }
        if !lift.is_empty() && self.require_read_only_params(f, name.span, "applied to whole arrays").is_err() {
            return self.bad(span);
        }
        // A function that modifies its arguments cannot be applied to arrays elementwise, even if the type of an
        // argument is unknown.
        let unknown = unknown && sig.params.iter().all(|p| p.access == Access::In);
        if !lift.is_empty() || unknown {
            let lifted = self.lift(callee, values, lift, unknown, result, span);
            return self.in_written_order(lifted);
        }
        self.in_written_order(make(ExprKind::Call { callee, args: values }, result, span))
    }

    fn lift(
        &mut self,
        callee: FnRef,
        args: Vec<Expr>,
        lift: Vec<usize>,
        unknown: bool,
        result: Type,
        span: Span,
    ) -> Expr {
        if !self.need_arrays(span, "a function applied to whole arrays") {
            return self.bad(span);
        }
        if let (FnRef::Fn { id, generics }, false) = (&callee, lift.is_empty()) {
            self.needs.lifts.push((*id, span));
            self.needs.lifts.extend(generics.iter().filter_map(|generic| match generic {
                GenericArg::Fn(FnRef::Fn { id, .. }) => Some((*id, span)),
                _ => None,
            }));
        }
        let arrays: Vec<&Expr> = lift.iter().filter_map(|&i| args.get(i)).collect();
        let ty = if unknown {
            Type::Unknown
        } else if !matches!(
            self.vars.shallow(&result),
            Type::Scalar(_) | Type::Vector(..) | Type::Param(_) | Type::Struct(_) | Type::Error
        ) {
            let text = self.ty_text(&result);
            let d =
                Diagnostic::error("E0301", format!("a function that gives `{text}` can't be applied to whole arrays"))
                    .at(span, "an array is given where one value is expected");
            self.report(d);
            Type::Error
        } else if self.is_element(&result, span).is_err() {
            Type::Error
        } else {
            self.dims_together(&arrays, span, "this call").map_or(Type::Error, |dims| array(result, dims))
        };
        make(ExprKind::Lift { callee, args }, ty, span)
    }

    /// Checks the value of a parameter: its argument or its default. Returns `None` for an omitted `out` array.
    pub fn check_argument_or_default(
        &mut self,
        bind: &Bind<'_>,
        param: &Param,
        given: Option<&ast::Expr>,
        call: Span,
    ) -> Option<Expr> {
        match (given, &param.default) {
            (Some(value), _) => Some(self.check_argument(bind, param, value)),
            (None, Some(ParamDefault::Const(id))) => Some(make(ExprKind::Const(*id), param.ty.clone(), call)),
            (None, Some(ParamDefault::Literal(literal))) => Some(self.check_argument(bind, param, literal)),
            (None, None) => None,
        }
    }

    /// Checks an argument. The known part of the parameter's type is the expected type.
    pub fn check_argument(&mut self, bind: &Bind<'_>, param: &Param, value: &ast::Expr) -> Expr {
        let hint = match &param.ty {
            Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) => param.ty.clone(),
            ty => self.subst(ty, bind),
        };
        match param.access {
            Access::In => {
                let e = self.expr(value, Some(&hint));
                if matches!(param.ty, Type::Array(_)) {
                    self.note_read(&e, e.span);
                    let is_named = matches!(e.kind, ExprKind::Local(_) | ExprKind::Const(_) | ExprKind::Error);
                    if self.in_kernel() && !is_named && !self.is_device_array(&e.ty) {
                        let d = Diagnostic::error("E0401", "a kernel can only pass on an array by its name")
                            .at(e.span, "this would make a new array, whose extents are not constants");
                        self.report(d);
                    }
                }
                e
            }
            Access::Out | Access::InOut => self.check_mutable_argument(value, param),
        }
    }

    /// Checks an argument for an `out` or `inout` parameter: a mutable variable, or an element or field of one.
    pub fn check_mutable_argument(&mut self, value: &ast::Expr, param: &Param) -> Expr {
        let word = if param.access == Access::Out { "out" } else { "inout" };
        let Ast::Name(name) = &bare(value).kind else {
            let is_place = matches!(bare(value).kind, Ast::Index { .. } | Ast::Field { .. });
            if is_place {
                return self.check_mutable_place(value, param);
            }
            let e = self.expr(value, None);
            if e.ty != Type::Error {
                let d = Diagnostic::error("E0319", format!("an `{word}` argument must be a variable"))
                    .at(e.span, "a value written here would be lost")
                    .because(param.span, "this parameter is written");
                self.report(d.help("make a variable first: `var r = zeros(n)`"));
            }
            return self.bad(value.span);
        };
        let reads = self.initialization.early_reads.len();
        let e = self.name(name);
        if param.access == Access::Out {
            self.initialization.early_reads.truncate(reads);
        }
        match e.kind {
            ExprKind::Local(id) => {
                if param.access == Access::InOut {
                    self.note_read(&e, e.span);
                }
                let element = make(ExprKind::Error, Type::Error, e.span);
                self.write_local(id, &element, e.span);
            }
            ExprKind::Global(id) => self.write_global(id, e.span),
            ExprKind::Error => {}
            _ => {
                let d = Diagnostic::error("E0319", format!("an `{word}` argument must be a variable"))
                    .at(e.span, "not a variable");
                self.report(match e.kind {
                    ExprKind::Const(_) => d.help(format!("a constant never changes; copy it: `var x = {}`", name.text)),
                    _ => d,
                });
            }
        }
        e
    }

    /// Checks an element, field or component that is passed to an `inout` parameter. It is copied in before the call
    /// and copied out after it.
    fn check_mutable_place(&mut self, value: &ast::Expr, param: &Param) -> Expr {
        let e = self.place(value, true);
        let is_variable = |base: &Expr| matches!(base.kind, ExprKind::Local(_) | ExprKind::Global(_));
        if let ExprKind::Slice { base, .. } = &e.kind
            && !self.in_host()
            && !is_variable(base)
        {
            let d = Diagnostic::error("E0319", "a row of a nested array can't be changed by a function here")
                .at(e.span, "the array is part of another value")
                .because(param.span, "this parameter is written");
            self.report(d.help("copy it to a variable, pass that, and write it back after the call"));
            return self.bad(e.span);
        }
        match crate::visit::root(&e).kind {
            ExprKind::Local(id) => {
                if let Some(info) = self.local_info(id) {
                    info.used = true;
                }
            }
            ExprKind::Global(id) => {
                if let Some(info) = self.global_info(id) {
                    info.used = true;
                }
            }
            _ => {}
        }
        e
    }

    /// Binds arguments to parameters, including named generics and, for a launch, named dimensions. Returns `None`
    /// after an error that makes further checks of the call impossible.
    pub fn sort_args<'e>(
        &mut self,
        bind: &mut Bind<'_>,
        args: &'e [ast::Arg],
        callee: &str,
        launch: bool,
    ) -> Option<Vec<Option<&'e ast::Expr>>> {
        let sig = bind.sig;
        self.record_argument_names(sig, args);
        let positional = args.iter().filter(|a| a.name.is_none()).count();
        let outs = sig.params.iter().filter(|p| p.access == Access::Out).count();
        // If a launch has as many positional arguments as the kernel has inputs, all outputs are omitted, regardless of
        // their positions in the parameter list.
        let skip_outs = launch && outs > 0 && positional + outs <= sig.params.len();
        let mut most = 0;
        let mut named_params: Vec<NamedParam<'_>> = sig.generics.iter().map(|generic| by_name(&generic.name)).collect();
        for param in &sig.params {
            if skip_outs && param.access == Access::Out {
                named_params.push(by_name(&param.name));
            } else {
                named_params.push(at(&param.name, most));
                most += 1;
            }
        }
        if launch {
            // An unnamed dimension gets the empty name, which no argument has.
            named_params.extend(sig.dims.iter().map(|dim| by_name(if dim.name == "_" { "" } else { &dim.name })));
        }
        let accepted = Accepted { sig: Some(sig), is_launch: launch, ..Accepted::new(callee, most, named_params) };
        let bound = self.bind_arguments(&accepted, args_with_names(args));
        if let Some(surplus) = bound.surplus {
            self.too_many(bind, callee, positional, surplus, launch);
            return None;
        }
        let mut slots = bound.by_param.into_iter().map(|slot| slot.map(|(value, _)| value));
        for (i, value) in slots.by_ref().take(sig.generics.len()).enumerate() {
            if let Some(value) = value {
                self.bind_generic(bind, i, value);
            }
        }
        let param_args = slots.by_ref().take(sig.params.len()).collect();
        for (i, value) in slots.enumerate() {
            let Some(value) = value else { continue };
            let e = self.expr(value, Some(&crate::build::I32));
            self.require_kind(&e, TypeClass::Int, "a dimension");
            let extent = crate::const_eval::int(self, &e).map_or(Dim::Unknown, Dim::Known);
            if let Some(slot) = bind.dims.get_mut(i) {
                *slot = Some((extent, value.span));
            }
            bind.named_dims.push((i as u32, e));
        }
        (!bound.wrong_name).then_some(param_args)
    }

    fn too_many(&mut self, bind: &Bind<'_>, callee: &str, found: usize, span: Span, launch: bool) {
        let word = if launch { "kernel" } else { "fn" };
        let text = Show { sig: Some(bind.sig), ..self.show() }.signature(word, callee, bind.sig, None);
        let d = Diagnostic::error("E0304", wrong_count(callee, arity(&bind.sig.params), found))
            .at(span, "one too many")
            .note(format!("`{text}`"));
        self.report(d);
    }
}

/// Returns the range of argument counts that these parameters accept.
pub(crate) fn arity(params: &[Param]) -> RangeInclusive<usize> {
    params.iter().filter(|param| param.default.is_none()).count()..=params.len()
}

pub(crate) fn wrong_count(callee: &str, expected: RangeInclusive<usize>, count_given: usize) -> String {
    let verb = if count_given == 1 { "is" } else { "are" };
    let most = count(*expected.end(), "argument", "arguments");
    let expected = if expected.start() == expected.end() { most } else { format!("{} to {most}", expected.start()) };
    format!("`{callee}` takes {expected}, but {count_given} {verb} given")
}
