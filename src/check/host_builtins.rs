//! Calls of host-only builtins: creating, reducing and rearranging arrays, and files.

use crate::arguments::{Accepted, at, by_name};
use crate::build::{BOOL, I32, bare, count, is_literal, make};
use crate::builtin_call::BuiltinCall;
use crate::const_eval;
use crate::context::Cx;
use crate::generics::literal_or_name;
use crate::infer::{TypeClass, array};
use crate::ops::{CommonType, scalar_of, with_scalar};
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_syntax::ast::{self, ExprKind as Ast};

impl Cx<'_> {
    pub fn host_builtin(&mut self, call: BuiltinCall<'_>, want: Option<&Type>) -> Expr {
        match call.entry.builtin {
            Builtin::Load => self.load(call),
            Builtin::Save => self.save(call),
            Builtin::Image | Builtin::Heat | Builtin::Plot | Builtin::Scatter | Builtin::Bar | Builtin::Hist => {
                self.picture(call)
            }
            Builtin::Linspace => self.linspace(call),
            Builtin::Arange => self.arange(call),
            Builtin::Zeros | Builtin::Ones => self.filled(call, TypeClass::Element, &["type"], want),
            Builtin::Random | Builtin::RandomNormal => self.filled(call, TypeClass::Float, &["seed", "type"], want),
            Builtin::Eye => self.eye(call),
            Builtin::Full => self.full(call, want),
            Builtin::RandomInt => self.random_int(call),
            Builtin::Sum | Builtin::Prod => self.reduce(call, Some(TypeClass::Num)),
            Builtin::Mean => self.reduce(call, Some(TypeClass::Float)),
            Builtin::Argmin | Builtin::Argmax => self.reduce(call, Some(TypeClass::Num)),
            Builtin::All | Builtin::Any => self.reduce(call, None),
            Builtin::Close => self.is_close(call),
            Builtin::Cumsum => self.cumsum(call),
            Builtin::Sort if call.args.iter().filter(|arg| arg.name.is_none()).count() > 1 => self.sort_with(call),
            Builtin::Sort | Builtin::Argsort => self.sort(call),
            Builtin::Transpose => self.transpose(call),
            Builtin::Einsum => self.einsum(call),
            Builtin::Flip => self.flip(call),
            Builtin::Reshape => self.reshape(call),
            Builtin::Concat => self.concat(call),
            Builtin::Stack => self.stack(call),
            Builtin::Text(f) => self.text_call(call, f),
            Builtin::Parse => self.parse(call),
            Builtin::ReadText => self.read_text(call),
            Builtin::WriteText => self.write_text(call),
            Builtin::SeedRandom => self.seed_random(call),
            Builtin::Exit => self.exit(call),
            Builtin::Keys => self.keys(call),
            Builtin::Gpus => self.gpus(call),
            Builtin::Shard => self.shard(call),
            Builtin::Gather => self.gather_shards(call),
            Builtin::RankFn(what) => self.rank_call(call, what, want),
            _ => self.bad(call.span),
        }
    }

    /// Checks an integer argument that is passed by name.
    pub(super) fn named_int(&mut self, call: BuiltinCall<'_>, name: &'static str) -> Option<(SmolStr, Expr)> {
        let e = call.named_arg(name)?;
        let e = self.expr(e, None);
        self.require_kind(&e, TypeClass::Int, &format!("`{name}`"));
        Some((name.into(), e))
    }

    /// Checks extents that are passed as arguments, or as a single tuple such as the result of `shape(x)`.
    pub fn dims_of(&mut self, positional: &[&ast::Expr], minus_one: bool) -> Option<(Vec<Expr>, Vec<Dim>)> {
        let mut args = Vec::with_capacity(positional.len());
        let mut dims = Vec::with_capacity(positional.len());
        for e in positional {
            let e = self.expr(e, Some(&I32));
            match self.vars.shallow(&e.ty) {
                Type::Tuple(parts) if positional.len() == 1 => {
                    for (i, part) in parts.iter().enumerate() {
                        let own = match &e.kind {
                            ExprKind::Tuple(es) => es.get(i),
                            _ => None,
                        };
                        let span = own.map_or(e.span, |own| own.span);
                        if !self.require_kind(&make(ExprKind::Error, part.clone(), span), TypeClass::Int, "a dimension")
                        {
                            return None;
                        }
                        let extent = own.and_then(|own| const_eval::int(self, own));
                        dims.push(extent.map_or(Dim::Unknown, Dim::Known));
                    }
                }
                Type::Error => return None,
                Type::Array(shape) if positional.len() == 1 && shape.dims.len() == 1 => {
                    self.shape_as_list(&e, &shape);
                    return None;
                }
                _ => {
                    if !self.require_kind(&e, TypeClass::Int, "a dimension") {
                        return None;
                    }
                    dims.push(self.extent(&e, minus_one)?);
                }
            }
            args.push(e);
        }
        Some((args, dims))
    }

    /// Reports a shape that is passed as an array, such as `zeros([2, 3])`.
    fn shape_as_list(&mut self, e: &Expr, shape: &ArrayType) {
        let actual = self.ty_text(&e.ty);
        let d = Diagnostic::error("E0301", "the extents of an array are integers or a tuple, not an array")
            .at(e.span, format!("this is `{actual}`"))
            .help("write one argument for each axis: `zeros(2, 3)`; `shape(x)` is the shape of another array");
        let fix = match (&e.kind, &shape.dims[..]) {
            (ExprKind::Array(_), _) => {
                let open = Span { end: e.span.start + 1, ..e.span };
                let close = Span { start: e.span.end - 1, ..e.span };
                Some(("leave the brackets off", vec![(open, String::new()), (close, String::new())]))
            }
            (ExprKind::Local(_) | ExprKind::Global(_), [Dim::Known(rank @ 1..=4)]) => {
                let name = self.variable_of(e).unwrap_or_default();
                let elements: Vec<String> = (0..*rank).map(|axis| format!("{name}[{axis}]")).collect();
                Some(("pass the elements", vec![(e.span, elements.join(", "))]))
            }
            _ => None,
        };
        self.report(match fix {
            Some((title, edits)) => d.fix_all(title, edits, Applicability::MaybeIncorrect),
            None => d,
        });
    }

    fn extent(&mut self, e: &Expr, minus_one: bool) -> Option<Dim> {
        if let ExprKind::Dim(i) = e.kind {
            return Some(Dim::Name(i));
        }
        match const_eval::int(self, e) {
            Some(-1) if minus_one => Some(Dim::Known(-1)),
            Some(n) if (0..=i64::from(i32::MAX)).contains(&n) => Some(Dim::Known(n)),
            Some(n) => {
                let d = Diagnostic::error("E0316", format!("an array can't have a dimension of {n}"))
                    .at(e.span, "a dimension is from 0 to 2147483647");
                self.report(d);
                None
            }
            None => Some(Dim::Unknown),
        }
    }

    fn element_of(&mut self, call: BuiltinCall<'_>, kind: TypeClass, want: Option<&Type>) -> Type {
        if let Some(e) = call.named_arg("type") {
            let ty = self.type_argument(e);
            if self.is_element(&ty, e.span).is_err() {
                return Type::Error;
            }
            // `zeros` supports all plain types, because all-zero bytes are a valid value of each.
            let zeroed = call.entry.name == "zeros" && self.vars.require(&ty, TypeClass::Any);
            let allowed = if kind == TypeClass::Element { TypeClass::Num } else { kind };
            if !zeroed && !self.vars.require(&ty, allowed) && ty != BOOL {
                let text = self.ty_text(&ty);
                let d = Diagnostic::error("E0312", format!("`{}` can't make an array of `{text}`", call.entry.name))
                    .at(
                        e.span,
                        if kind == TypeClass::Float {
                            "a float type is expected"
                        } else {
                            "a numeric type is expected"
                        },
                    );
                self.report(d);
                return Type::Error;
            }
            return ty;
        }
        match want {
            Some(Type::Array(a)) if self.vars.kind(&a.element).is_none() && self.vars.require(&a.element, kind) => {
                a.element.clone()
            }
            _ if kind == TypeClass::Element => {
                let end = call.args.last().map_or(call.span, |arg| arg.value.span);
                self.vars.fresh_element(end.after())
            }
            _ => self.vars.fresh(kind),
        }
    }

    fn filled(&mut self, call: BuiltinCall<'_>, kind: TypeClass, names: &[&str], want: Option<&Type>) -> Expr {
        let element = self.element_of(call, kind, want);
        let names: Vec<_> = names.iter().map(|name| by_name(name)).collect();
        let Some(positional) = self.take_positional(call, 1..=8, &names) else {
            return self.after_error(call.args, call.span);
        };
        let Some((args, dims)) = self.dims_of(&positional, false) else { return self.bad(call.span) };
        let mut named_args: Vec<(SmolStr, Expr)> = self.named_int(call, "seed").into_iter().collect();
        let ty = self.array_of(element.clone(), dims, &args);
        if ty == Type::Unknown {
            named_args.push(("type".into(), make(ExprKind::Bool(false), element, call.span)));
        }
        call.make_named(args, named_args, ty)
    }

    /// Returns the type of an array with these extents. A single argument of unknown type may be a tuple of all
    /// extents.
    pub fn array_of(&self, element: Type, dims: Vec<Dim>, extents: &[Expr]) -> Type {
        match extents {
            [one] if self.vars.shallow(&one.ty) == Type::Unknown => Type::Unknown,
            _ => array(element, dims),
        }
    }

    fn eye(&mut self, call: BuiltinCall<'_>) -> Expr {
        let element = self.element_of(call, TypeClass::Element, None);
        let Some(positional) = self.take_positional(call, 1..=1, &[by_name("type")]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((args, dims)) = self.dims_of(&positional, false) else { return self.bad(call.span) };
        let n = dims.first().cloned().unwrap_or(Dim::Unknown);
        call.make(args, array(element, vec![n.clone(), n]))
    }

    fn full(&mut self, call: BuiltinCall<'_>, want: Option<&Type>) -> Expr {
        let Some(positional) = self.take_positional(call, 2..=9, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((value, extents)) = positional.split_last() else { return self.bad(call.span) };
        let before = self.diagnostics.len();
        let Some((mut args, dims)) = self.dims_of(extents, false) else {
            self.suggest_value_last(before, &positional);
            return self.bad(call.span);
        };
        let hint = match want {
            Some(Type::Array(a)) => Some(a.element.clone()),
            _ => None,
        };
        let value = self.expr(value, hint.as_ref());
        let element = value.ty.clone();
        args.push(value);
        match self.vars.shallow(&element) {
            Type::Array(_) | Type::Str | Type::Range | Type::Unit => {
                let text = self.ty_text(&element);
                let d = Diagnostic::error("E0316", format!("an array can't have elements of type `{text}`"))
                    .at(call.span, "the value comes last: `full(3, 4, 0.5)`");
                self.report(d);
                self.bad(call.span)
            }
            element if self.is_element(&element, call.span).is_err() => self.bad(call.span),
            element => {
                let ty = self.array_of(element, dims, &args[..extents.len()]);
                call.make(args, ty)
            }
        }
    }

    /// Adds a fix for `full(7.0, 3)` to the error at its first argument.
    fn suggest_value_last(&mut self, before: usize, args: &[&ast::Expr]) {
        let [value, extents @ ..] = args else { return };
        let texts: Option<Vec<String>> = extents.iter().map(|extent| literal_or_name(extent)).collect();
        let (Some(texts), Some(last), Some(d)) = (texts, extents.last(), self.diagnostics.get_mut(before)) else {
            return;
        };
        // In `full([2, 3], 7.0)` the extents come first already.
        if d.primary() != Some(value.span) || matches!(bare(value).kind, Ast::Array(_)) {
            return;
        }
        let edits = vec![
            (Span { end: value.span.start, ..value.span }, format!("{}, ", texts.join(", "))),
            (Span { start: value.span.end, end: last.span.end, ..value.span }, String::new()),
        ];
        d.help = vec!["the extents come first, and the value comes last: `full(3, 4, 0.5)`".to_owned()];
        d.fixes.clear();
        *d = d.clone().fix_all("write the value last", edits, Applicability::MaybeIncorrect);
    }

    fn linspace(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 3..=3, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let [start, stop, n] = positional.as_slice() else { return self.bad(call.span) };
        let element = self.vars.fresh(TypeClass::Float);
        let mut args = Vec::with_capacity(3);
        for e in [start, stop] {
            let hint = self.vars.shallow(&element);
            let e = self.expr(e, Some(&hint));
            if !self.coerce(&e, &element, None) {
                return self.bad(call.span);
            }
            args.push(e);
        }
        let before = self.diagnostics.len();
        let Some((extents, dims)) = self.dims_of(&[n], false) else {
            if let (Ast::Float { .. }, Some(d)) = (&bare(n).kind, self.diagnostics.get_mut(before)) {
                (d.help, d.fixes) =
                    (vec!["the number of elements comes last: `linspace(0.0, 1.0, 5)`".to_owned()], vec![]);
            }
            return self.bad(call.span);
        };
        args.extend(extents);
        call.make(args, array(element, dims))
    }

    fn arange(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=3, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let element = self.vars.fresh(TypeClass::Num);
        let mut args = Vec::with_capacity(3);
        for literal in [false, true] {
            for e in positional.iter().filter(|e| is_literal(e) == literal) {
                let hint = self.vars.shallow(&element);
                let e = self.expr(e, Some(&hint));
                if !self.coerce(&e, &element, None) {
                    return self.bad(call.span);
                }
                args.push(e);
            }
        }
        args.sort_by_key(|e| e.span.start);
        let values: Option<Vec<i64>> = args.iter().map(|e| const_eval::int(self, e)).collect();
        let n = values.and_then(|v| match v.as_slice() {
            [stop] => const_eval::count(0, *stop, 1),
            [start, stop] => const_eval::count(*start, *stop, 1),
            [start, stop, step] => const_eval::count(*start, *stop, *step),
            _ => None,
        });
        call.make(args, array(element, vec![n.map_or(Dim::Unknown, Dim::Known)]))
    }

    fn random_int(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 3..=10, &[by_name("seed")]) else {
            return self.after_error(call.args, call.span);
        };
        let element = self.vars.fresh(TypeClass::Int);
        let (bounds, extents) = positional.split_at(2);
        let mut args = Vec::with_capacity(positional.len());
        for e in bounds {
            let hint = self.vars.shallow(&element);
            let e = self.expr(e, Some(&hint));
            if !self.coerce(&e, &element, None) {
                return self.bad(call.span);
            }
            args.push(e);
        }
        let Some((more, dims)) = self.dims_of(extents, false) else { return self.bad(call.span) };
        let ty = self.array_of(element, dims, &more);
        args.extend(more);
        let named_args = self.named_int(call, "seed").into_iter().collect();
        call.make_named(args, named_args, ty)
    }

    fn seed_random(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=1, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some(seed) = positional.first().map(|e| self.expr(e, None)) else { return self.bad(call.span) };
        self.require_kind(&seed, TypeClass::Int, "a seed");
        call.make(vec![seed], Type::Unit)
    }

    // Reductions

    /// Checks an array argument. Returns `None` after reporting an error. An argument of type `Unknown` is accepted;
    /// its array type is `None`.
    pub(super) fn array_arg(
        &mut self,
        call: BuiltinCall<'_>,
        e: &ast::Expr,
        kind: Option<TypeClass>,
    ) -> Option<(Expr, Option<std::sync::Arc<ArrayType>>)> {
        let e = self.expr(e, None);
        match self.vars.shallow(&e.ty) {
            Type::Array(a) => {
                if let Some(kind) = kind {
                    let ordered = matches!(call.entry.builtin, Builtin::Sort | Builtin::Argsort);
                    let scalar = if ordered { a.element.clone() } else { scalar_of(&a.element) };
                    if !self.vars.require(&scalar, kind) {
                        let actual = self.ty_text(&scalar);
                        let noun = if kind == TypeClass::Float { "floats" } else { "numbers" };
                        let mut d = Diagnostic::error(
                            "E0312",
                            format!("`{}` takes {noun}, but this holds `{actual}`", call.entry.name),
                        )
                        .at(e.span, format!("elements are `{actual}`"));
                        d = match scalar {
                            Type::Scalar(Scalar::Bool) => d.help("count how many hold with `sum(i32(x))`"),
                            Type::Vector(..) => d.help("use one component: `x.x`"),
                            _ => self.conversion_fix(d, &e, "f32"),
                        };
                        self.report(d);
                        return None;
                    }
                }
                Some((e, Some(a)))
            }
            Type::Unknown => Some((e, None)),
            Type::Strings if matches!(call.entry.builtin, Builtin::Sort | Builtin::Flip | Builtin::Concat) => {
                Some((e, None))
            }
            Type::Error => None,
            _ => {
                let actual = self.ty_text(&e.ty);
                let texts = self.vars.shallow(&e.ty) == Type::Strings;
                let expected = if texts { "an array of numbers" } else { "an array" };
                let title = format!("`{}` takes {expected}, but this is `{actual}`", call.entry.name);
                let d = Diagnostic::error("E0301", title).at(e.span, format!("this is `{actual}`"));
                self.report(match texts {
                    true => d.help("`parse(f64, texts)` makes numbers of an array of texts"),
                    false => d,
                });
                None
            }
        }
    }

    pub(super) fn axis(
        &mut self,
        call: BuiltinCall<'_>,
        second: Option<&ast::Expr>,
        rank: Option<usize>,
    ) -> Option<(Expr, Option<usize>)> {
        let e = call.named_arg("axis").or(second)?;
        let e = self.expr(e, Some(&I32));
        self.require_kind(&e, TypeClass::Int, "`axis`");
        let value = const_eval::int(self, &e);
        let value = match (value, rank) {
            (Some(k), Some(n)) => self.check_axis(k, n, e.span).then_some(k as usize),
            _ => None,
        };
        Some((e, value))
    }

    /// Checks the axes of a reduction: one axis, or a tuple of several. Returns the number of axes (0 if it is known
    /// only at run time) and, if known, their values.
    fn axes(
        &mut self,
        call: BuiltinCall<'_>,
        second: Option<&ast::Expr>,
        rank: Option<usize>,
    ) -> Option<(Expr, usize, Option<Vec<usize>>)> {
        call.named_arg("axis").or(second).and_then(|e| self.axes_of(e, rank, "`axis`"))
    }

    /// Like [`Self::axes`], for this argument, which is called `what`.
    pub(super) fn axes_of(
        &mut self,
        e: &ast::Expr,
        rank: Option<usize>,
        what: &str,
    ) -> Option<(Expr, usize, Option<Vec<usize>>)> {
        let e = self.expr(e, Some(&I32));
        let Type::Tuple(parts) = self.vars.shallow(&e.ty) else {
            self.require_kind(&e, TypeClass::Int, what);
            if self.vars.shallow(&e.ty) == Type::Unknown {
                return Some((e, 0, None));
            }
            let values = const_eval::int(self, &e);
            let values = values.zip(rank).and_then(|(k, n)| self.check_axis(k, n, e.span).then(|| vec![k as usize]));
            return Some((e, 1, values));
        };
        let mut values = rank.map(|_| Vec::with_capacity(parts.len()));
        for (i, part) in parts.iter().enumerate() {
            self.vars.require(part, TypeClass::Int);
            let number = match &e.kind {
                ExprKind::Tuple(numbers) => numbers.get(i).and_then(|e| Some((const_eval::int(self, e)?, e.span))),
                _ => None,
            };
            values = match (values, number, rank) {
                (Some(mut values), Some((k, span)), Some(n)) if self.check_axis(k, n, span) => {
                    if values.contains(&(k as usize)) {
                        let d = Diagnostic::error("E0306", format!("axis {k} is given twice"));
                        self.report(d.at(span, "each axis can be given once"));
                    }
                    values.push(k as usize);
                    Some(values)
                }
                _ => None,
            };
        }
        Some((e, parts.len(), values))
    }

    /// Checks `sum(x)`, `sum(x, axis = 0)`, `sum(x, axis = (0, 1))` and the other reductions.
    pub fn reduce(&mut self, call: BuiltinCall<'_>, kind: Option<TypeClass>) -> Expr {
        // The second positional argument of `min` and `max` is another number, not the axis.
        let (most, axis) = match call.entry.builtin {
            Builtin::Math(_) => (1, by_name("axis")),
            _ => (2, at("axis", 1)),
        };
        let Some(positional) = self.take_positional(call, 1..=most, &[axis]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((x, a)) = positional.first().and_then(|e| self.array_arg(call, e, kind)) else {
            return self.bad(call.span);
        };
        let axes = self.axes(call, positional.get(1).copied(), a.as_ref().map(|a| a.dims.len()));
        let of_bools = matches!(call.entry.builtin, Builtin::All | Builtin::Any);
        let element = match (call.entry.builtin, &a) {
            (Builtin::Argmin | Builtin::Argmax, _) => I32,
            _ if of_bools => BOOL,
            (Builtin::Sum | Builtin::Prod, Some(a)) => self.total_of(&a.element),
            (_, Some(a)) => a.element.clone(),
            (_, None) => Type::Unknown,
        };
        let is_open = |ty: &Type| *ty == BOOL || *ty == Type::Unknown;
        if let Some(a) = a.as_ref().filter(|a| of_bools && !is_open(&self.vars.shallow(&a.element))) {
            let actual = self.ty_text(&a.element);
            let d = Diagnostic::error(
                "E0312",
                format!("`{}` takes an array of `bool`, but this holds `{actual}`", call.entry.name),
            )
            .at(x.span, format!("elements are `{actual}`"))
            .help("compare it with something: `all(x > 0)`");
            self.report(d);
        }
        let ty = match (&a, &axes) {
            (_, None) => element,
            (None, Some(_)) | (_, Some((_, 0, _))) => Type::Unknown,
            (Some(a), Some((_, count, _))) if a.dims.len() <= *count => element,
            (Some(a), Some((_, count, values))) => {
                let left =
                    a.dims.iter().enumerate().filter(|(k, _)| values.as_ref().is_some_and(|axes| !axes.contains(k)));
                let mut dims: Vec<Dim> = left.map(|(_, dim)| dim.clone()).collect();
                if values.is_none() {
                    dims = vec![Dim::Unknown; a.dims.len() - count];
                }
                array(element, dims)
            }
        };
        let named_args = axes.map(|(e, ..)| ("axis".into(), e)).into_iter().collect();
        call.make_named(vec![x], named_args, ty)
    }

    /// Returns the type of the sum of elements, which depends on the width of integers. If the element type of `zeros`
    /// is not determined yet, it becomes a float type.
    pub fn total_of(&mut self, element: &Type) -> Type {
        if self.vars.kind(element) == Some(TypeClass::Element) {
            self.vars.require(element, TypeClass::Float);
        }
        accumulator_type(&self.vars.shallow(element))
    }

    /// Checks `cumsum(x)`, and `cumsum(x, axis = 0)` of an array with several axes.
    fn cumsum(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=1, &[by_name("axis")]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((x, a)) = positional.first().and_then(|e| self.array_arg(call, e, Some(TypeClass::Num))) else {
            return self.bad(call.span);
        };
        let axis = self.axis(call, None, a.as_ref().map(|a| a.dims.len()));
        if let Some(a) = a.as_ref().filter(|a| axis.is_none() && a.dims.len() != 1) {
            let title =
                format!("`cumsum` of an array of {} goes along one of them", count(a.dims.len(), "axis", "axes"));
            let d = Diagnostic::error("E0306", title).at(x.span, format!("this is `{}`", self.ty_text(&x.ty)));
            self.report(d.help("say along which: `axis = 0`; all elements are `reshape(x, -1)`"));
            return self.bad(call.span);
        }
        let ty = match a {
            Some(a) => array(self.total_of(&a.element), a.dims.clone()),
            None => self.open_array(&x),
        };
        let named_args = axis.map(|(e, _)| ("axis".into(), e)).into_iter().collect();
        call.make_named(vec![x], named_args, ty)
    }

    /// Checks `gather(x)`, whose result has the type of its argument.
    fn gather_shards(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=1, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((x, a)) = positional.first().and_then(|e| self.array_arg(call, e, None)) else {
            return self.bad(call.span);
        };
        let ty = a.map_or_else(|| self.open_array(&x), |a| array(a.element.clone(), a.dims.clone()));
        call.make(vec![x], ty)
    }

    /// Returns the result type of a builtin for an array whose element type and shape are unknown: `Strings` if the
    /// array has this type, else `Unknown`.
    pub(super) fn open_array(&self, x: &Expr) -> Type {
        if self.vars.shallow(&x.ty) == Type::Strings { Type::Strings } else { Type::Unknown }
    }

    fn is_close(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 2..=4, &[at("rtol", 2), at("atol", 3)]) else {
            return self.after_error(call.args, call.span);
        };
        let (pair, tolerances) = positional.split_at(2);
        let mut parts: Vec<Expr> = Vec::with_capacity(4);
        for e in pair {
            let hint = parts.first().map(|p| p.ty.clone());
            parts.push(self.expr(e, hint.as_ref()));
        }
        let refs: Vec<&Expr> = parts.iter().collect();
        let ty = match self.elementwise(&refs, call.at, "close") {
            CommonType::Is { scalar, whole } => {
                self.vars.require(&scalar, TypeClass::Float);
                with_scalar(&whole, &BOOL)
            }
            other => other.whole(),
        };
        let f64 = Type::Scalar(Scalar::F64);
        let mut named_args: Vec<(SmolStr, Expr)> = vec![];
        for (name, position) in [("rtol", 0), ("atol", 1)] {
            if let Some(e) = call.named_arg(name).or(tolerances.get(position).copied()) {
                let e = self.expr(e, Some(&f64));
                self.require_kind(&e, TypeClass::Float, &format!("`{name}`"));
                named_args.push((name.into(), e));
            }
        }
        call.make_named(parts, named_args, ty)
    }

    // Files

    fn load(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=1, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let args = positional.iter().map(|e| self.text_argument(e)).collect();
        call.make(args, Type::Unknown)
    }

    fn data(&mut self, e: &ast::Expr, callee: &str) -> Expr {
        let e = self.expr(e, None);
        match self.vars.shallow(&e.ty) {
            Type::Array(_) | Type::Scalar(_) | Type::Strings | Type::Unknown | Type::Error => {}
            ty if self.vars.scalar_kind(&ty).is_some_and(|kind| kind != TypeClass::Any) => {}
            ty => {
                let actual = self.ty_text(&e.ty);
                let d =
                    Diagnostic::error("E0301", format!("`{callee}` takes arrays and numbers, but this is `{actual}`"))
                        .at(e.span, format!("this is `{actual}`"));
                self.report(match ty {
                    Type::Str => d.help("`write_text(path, text)` writes a text"),
                    _ => d,
                });
            }
        }
        e
    }

    fn save(&mut self, call: BuiltinCall<'_>) -> Expr {
        let accepted =
            Accepted { entry: Some(call.entry), any_name: true, ..Accepted::new(call.entry.name, 2, vec![]) };
        let Some(positional) = self.take_accepted(call, 1, &accepted) else {
            return self.after_error(call.args, call.span);
        };
        let mut args = Vec::with_capacity(2);
        if let [data, path] = positional[..]
            && matches!(bare(path).kind, Ast::Str(_))
            && !matches!(bare(data).kind, Ast::Str(_))
        {
            let d = Diagnostic::error("E0304", "the first argument of `save` is the path")
                .at(data.span, "this is not a path")
                .because(path.span, "this is one");
            let edits = literal_or_name(data).map(|name| {
                let after = Span { start: path.span.end, ..path.span };
                vec![(Span { end: path.span.start, ..data.span }, String::new()), (after, format!(", {name}"))]
            });
            self.report(match edits {
                Some(edits) => d.fix_all("exchange the arguments", edits, Applicability::MaybeIncorrect),
                None => d.help("write `save(\"x.npy\", x)`"),
            });
            return self.after_error(call.args, call.span);
        }
        if let Some(path) = positional.first() {
            args.push(self.text_argument(path));
        }
        if let Some(x) = positional.get(1) {
            args.push(self.data(x, "save"));
        }
        let mut named_args = Vec::new();
        for arg in call.args {
            if let Some(name) = &arg.name {
                named_args.push((name.text.clone(), self.data(&arg.value, "save")));
            }
        }
        if args.len() + named_args.len() < 2 {
            let d = Diagnostic::error("E0304", "`save` is given nothing to save")
                .at(call.span, "only a path")
                .help("write `save(\"x.npy\", x)`, or `save(\"all.npz\", x = x, y = y)`");
            self.report(d);
        }
        call.make_named(args, named_args, Type::Unit)
    }
}

/// Returns the type in which a sum is accumulated: 64 bits for 8- and 16-bit integers.
fn accumulator_type(element: &Type) -> Type {
    let wide = |s: Scalar| match s {
        Scalar::I8 | Scalar::I16 => Scalar::I64,
        Scalar::U8 | Scalar::U16 => Scalar::U64,
        other => other,
    };
    match element {
        Type::Scalar(s) => Type::Scalar(wide(*s)),
        Type::Vector(s, n) => Type::Vector(wide(*s), *n),
        other => other.clone(),
    }
}
