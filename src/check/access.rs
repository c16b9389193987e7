//! Field access, swizzles, indexing and slicing, and the lvalues of assignments.

use std::sync::Arc;

use crate::build::{I32, bare, count, make};
use crate::context::{BodyKind, Cx, ErrorReported, ResolvedName};
use crate::gather::ArrayIndex;
use crate::infer::{TypeClass, array};
use crate::initialization::EarlyRead;
use crate::scopes::LocalMeaning;
use crate::typed::*;
use crate::{const_eval, suggestions, value_advice, visit};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::ops::BinaryOp;
use clk_syntax::ast::{self, ExprKind as Ast};

/// Returns whether a word is a common name of an array attribute or method in other languages, such as `shape` or
/// `sum`.
fn is_array_word(word: &str) -> bool {
    matches!(word, "shape" | "size" | "length" | "len" | "ndim" | "dtype" | "T" | "to")
}

impl Cx<'_> {
    /// Resolves `base.name` to an item of a module. Returns `None` if `base` is not a module. `call` has the arguments
    /// and the span of a call of the item.
    pub fn module_item(
        &mut self,
        base: &ast::Expr,
        name: &ast::Name,
        call: Option<(&[ast::Arg], Span)>,
    ) -> Option<Result<NameBinding, ErrorReported>> {
        let Some(module) = self.module_of(base) else { return self.foreign_member(base, name, call).map(Err) };
        let names = &self.program.modules.get(module)?.names;
        if let Some(binding) = names.get(&name.text) {
            self.record_member(name, *binding);
        }
        Some(names.get(&name.text).copied().ok_or_else(|| {
            let module_name = self.program.modules.get(module).map_or("", |m| m.name.as_str());
            let near = suggestions::nearest(&name.text, names.keys().map(|k| k.as_str())).map(str::to_owned);
            let mut d = Diagnostic::error("E0203", format!("there is no `{}` in `{module_name}`", name.text))
                .at(name.span, "the module has no such name");
            let foreign =
                clk_scalar::foreign_names::find(&name.text).filter(|row| row.replacement(&name.text).is_none());
            let is_same_but_case = near.as_ref().is_some_and(|near| near.eq_ignore_ascii_case(&name.text));
            match (near, foreign) {
                (_, Some(row)) if !is_same_but_case => d = d.help(row.help(&name.text)),
                (Some(near), _) => {
                    d = d.help(format!("did you mean `{near}`?"));
                    d = d.fix(format!("write `{near}`"), name.span, near, Applicability::MaybeIncorrect);
                }
                (None, _) => {}
            }
            self.report_error(d)
        }))
    }

    fn module_of(&mut self, base: &ast::Expr) -> Option<ModuleId> {
        match &base.kind {
            Ast::Name(n) if !self.scopes.contains(n.text.as_str()) => match self.resolve(n) {
                Some(ResolvedName::Item(NameBinding::Module(id))) => Some(id),
                _ => None,
            },
            Ast::Field { base, name } => {
                let outer = self.module_of(base)?;
                match self.program.modules.get(outer)?.names.get(&name.text) {
                    Some(NameBinding::Module(id)) => {
                        self.record_member(name, NameBinding::Module(*id));
                        Some(*id)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    pub fn field(&mut self, base: &ast::Expr, name: &ast::Name, span: Span) -> Expr {
        if let Some(item) = self.module_item(base, name, None) {
            return match item {
                Ok(NameBinding::Const(id)) => {
                    let ty = self.program.consts.get(id).map_or(Type::Error, |c| c.ty.clone());
                    make(ExprKind::Const(id), ty, span)
                }
                Ok(NameBinding::Global(_)) => self.foreign_variable(name),
                Ok(NameBinding::Error) | Err(_) => self.bad(span),
                Ok(_) => self.not_a_value(name, "a function or a type", "call it: put the arguments in parentheses"),
            };
        }
        if self.coordinate_of_named_index(base, name) {
            return self.bad(span);
        }
        let base = self.expr(base, None);
        self.field_of(base, name, span)
    }

    /// Reports `lib.base` if `base` is a script variable of the module `lib`. An import provides items but does not
    /// execute the module's statements, so the variable has no value.
    fn foreign_variable(&mut self, name: &ast::Name) -> Expr {
        let d = Diagnostic::error(
            "E0203",
            format!("`{}` is a variable of a script and can't be reached from another file", name.text),
        )
        .at(name.span, "functions, kernels, structs and constants can be imported")
        .note("importing a file does not run its statements, so its variables have no values")
        .help(format!("make it a constant there: `const {}: … = …`", name.text));
        self.report(d);
        self.bad(name.span)
    }

    fn field_of(&mut self, base: Expr, name: &ast::Name, span: Span) -> Expr {
        let ty = self.vars.shallow(&base.ty);
        let word = name.text.as_str();
        match &ty {
            Type::Error => self.bad(span),
            Type::Unknown => {
                let kind = ExprKind::DynField { base: Box::new(base), name: name.text.clone() };
                make(kind, Type::Unknown, span)
            }
            Type::Timing => {
                let ty = match word {
                    "median" | "min" | "max" => Type::Scalar(Scalar::F64),
                    "runs" => I32,
                    _ => {
                        self.unknown_field(name, &ty, ["median", "min", "max", "runs"].into_iter());
                        return self.bad(span);
                    }
                };
                make(ExprKind::DynField { base: Box::new(base), name: name.text.clone() }, ty, span)
            }
            Type::Vector(s, n) => self.swizzle(base, *s, *n, name, span),
            Type::Struct(id) => {
                let Some(def) = self.program.structs.get(*id) else { return self.bad(span) };
                match def.fields.iter().position(|f| f.name == word) {
                    Some(i) => {
                        self.record_use(name.span, NameTarget::Field(*id, i as u32));
                        let ty = def.fields.get(i).map_or(Type::Error, |f| f.ty.clone());
                        make(ExprKind::Field { base: Box::new(base), field: i as u32 }, ty, span)
                    }
                    None => {
                        self.unknown_field(name, &ty, def.fields.iter().map(|f| f.name.as_str()));
                        self.bad(span)
                    }
                }
            }
            Type::Tuple(parts) => match word.parse::<usize>().ok().and_then(|i| parts.get(i).map(|t| (i, t))) {
                Some((i, t)) => make(ExprKind::TupleField { base: Box::new(base), field: i as u32 }, t.clone(), span),
                None => {
                    let d = Diagnostic::error("E0205", format!("a tuple of {} has no field `{word}`", parts.len()))
                        .at(name.span, format!("fields are `.0` to `.{}`", parts.len().saturating_sub(1)));
                    self.report(d);
                    self.bad(span)
                }
            },
            Type::Array(a) => self.column(base, &a.clone(), name, span),
            _ => self.no_fields(&base, &ty, name),
        }
    }

    /// Checks `p.x` for an array `p` of structs, tuples or vectors. It is the array of the fields `x` of all elements.
    fn column(&mut self, base: Expr, a: &ArrayType, name: &ast::Name, span: Span) -> Expr {
        let element = self.vars.shallow(&a.element);
        let has_field = match &element {
            Type::Struct(id) => {
                let fields = self.program.structs.get(*id).map_or(&[][..], |def| &def.fields);
                !is_array_word(&name.text) || fields.iter().any(|f| f.name == name.text)
            }
            Type::Vector(..) | Type::Tuple(_) => !is_array_word(&name.text),
            _ => false,
        };
        if !has_field || self.in_kernel() {
            let ty = Type::Array(Arc::new(a.clone()));
            return self.no_fields(&base, &ty, name);
        }
        if !self.need_host(span, "a column of an array") {
            return self.bad(span);
        }
        let one = make(ExprKind::Error, element, base.span);
        let part = self.field_of(one, name, span);
        let base = Box::new(base);
        let kind = match part.kind {
            ExprKind::Field { field, .. } => ExprKind::Field { base, field },
            ExprKind::TupleField { field, .. } => ExprKind::TupleField { base, field },
            ExprKind::Swizzle { lanes, .. } => ExprKind::Swizzle { base, lanes },
            _ => return self.bad(span),
        };
        make(kind, array(part.ty, a.dims.clone()), span)
    }

    fn no_fields(&mut self, base: &Expr, ty: &Type, name: &ast::Name) -> Expr {
        let actual = self.ty_text(ty);
        let mut d = Diagnostic::error("E0205", format!("`{actual}` has no field `{}`", name.text))
            .at(name.span, "unknown field")
            .because(base.span, format!("this is `{actual}`"));
        if let Type::Array(a) = ty {
            let parts = matches!(self.vars.shallow(&a.element), Type::Struct(_) | Type::Vector(..) | Type::Tuple(_));
            d = match name.text.as_str() {
                word if parts && !is_array_word(word) => d.help(format!(
                    "`.{word}` is a field of one element: `x[i].{word}`; whole columns exist only on the host"
                )),
                "shape" => d.help("write `shape(x)`, or `shape(x, 0)` for one extent"),
                "size" | "length" | "len" => as_len(
                    d.help("`len(x)` is the first extent; a kernel also has it by its name in the signature"),
                    base.span,
                    name.span,
                ),
                "to" => d.help("arrays move to where they are used; no call is needed"),
                _ => self.foreign_field(d, base, name),
            };
        } else if crate::build::is_text(ty) && matches!(name.text.as_str(), "size" | "length" | "len") {
            d = as_len(d, base.span, name.span);
        }
        self.report(d);
        self.bad(base.span)
    }

    pub fn unknown_field<'n>(&mut self, name: &ast::Name, of: &Type, fields: impl Iterator<Item = &'n str>) {
        let fields: Vec<&str> = fields.collect();
        let of = self.ty_text(of);
        let mut d =
            Diagnostic::error("E0205", format!("`{of}` has no field `{}`", name.text)).at(name.span, "unknown field");
        match suggestions::nearest(&name.text, fields.iter().copied()) {
            Some(near) => {
                d = d.help(format!("did you mean `{near}`?"));
                d = d.fix(format!("write `{near}`"), name.span, near, Applicability::MaybeIncorrect);
            }
            None => d = d.help(format!("its fields are {}", list(&fields))),
        }
        self.report(d);
    }

    fn swizzle(&mut self, base: Expr, s: Scalar, n: u8, name: &ast::Name, span: Span) -> Expr {
        let lanes: Option<Vec<u8>> =
            name.text.bytes().map(|b| b"xyzw".iter().position(|&l| l == b).map(|i| i as u8)).collect();
        let lanes = match lanes {
            Some(lanes) if (1..=4).contains(&lanes.len()) => lanes,
            _ => {
                let d = Diagnostic::error("E0205", format!("`{}` is not a component of `{s}x{n}`", name.text))
                    .at(name.span, "components are `x y z w`, alone or together as in `.xy`");
                self.report(d);
                return self.bad(span);
            }
        };
        if lanes.iter().any(|&l| l >= n) {
            let components = "xyzw".get(..n as usize).unwrap_or("xyzw");
            let d = Diagnostic::error("E0205", format!("`{s}x{n}` has no component `{}`", name.text))
                .at(name.span, format!("it has {n}: `{components}`"));
            self.report(d);
            return self.bad(span);
        }
        let ty = if lanes.len() == 1 { Type::Scalar(s) } else { Type::Vector(s, lanes.len() as u8) };
        make(ExprKind::Swizzle { base: Box::new(base), lanes }, ty, span)
    }

    // Elements and slices

    /// Checks `base[args]`. `read` is false if the element is written but not read.
    pub fn index(&mut self, base: &ast::Expr, args: &[ast::Expr], span: Span, read: bool) -> Expr {
        if let Some(element) = self.split_index(base, args, span, read) {
            return element;
        }
        let base = self.expr(base, None);
        if read {
            self.note_read(&base, span);
        }
        let ty = self.vars.shallow(&base.ty);
        match &ty {
            Type::Array(a) => {
                let a = a.clone();
                self.element(base, &a, args, span)
            }
            Type::Error => {
                for arg in args {
                    if !matches!(arg.kind, Ast::Range { .. }) {
                        self.expr(arg, Some(&I32));
                    }
                }
                self.bad(span)
            }
            Type::Str | Type::Strings => self.text_element(base, args, span),
            Type::Unknown => self.unknown_element(base, args, span),
            Type::Vector(s, n) => self.component_at(base, *s, *n, args, span),
            _ => {
                let actual = self.ty_text(&ty);
                let mut d = Diagnostic::error("E0309", format!("`{actual}` can't be indexed"))
                    .at(base.span, format!("this is `{actual}`"));
                if let Type::Tuple(parts) = &ty {
                    d = value_advice::tuple_part_help(d, base.span, span, args, parts.len());
                }
                self.report(d);
                for arg in args {
                    if !matches!(arg.kind, Ast::Range { .. }) {
                        self.expr(arg, None);
                    }
                }
                self.bad(span)
            }
        }
    }

    /// Checks `v[i]` for a vector `v`. A literal index selects the component statically.
    fn component_at(&mut self, base: Expr, s: Scalar, n: u8, args: &[ast::Expr], span: Span) -> Expr {
        let [arg] = args else {
            let d = Diagnostic::error("E0306", format!("{} for a vector", count(args.len(), "index", "indices")))
                .at(span, "a vector has one axis")
                .help("write `v[i]`, or name the component: `.x .y .z .w`");
            self.report(d);
            return self.bad(span);
        };
        let index = if matches!(arg.kind, Ast::Range { .. }) { None } else { Some(self.expr(arg, Some(&I32))) };
        let Some(index) = index.filter(|index| self.vars.shallow(&index.ty) != Type::Range) else {
            let d = Diagnostic::error("E0309", "a vector can't be sliced")
                .at(arg.span, "a range as an index")
                .help("several components are named together: `v.xy`");
            self.report(d);
            return self.bad(span);
        };
        let index = self.index_kind(index);
        let before = self.diagnostics.len();
        self.check_bounds(&index, &Dim::Known(n.into()), None);
        if index.ty == Type::Error || self.diagnostics.len() > before {
            return self.bad(span);
        }
        let base = Box::new(base);
        let kind = match index.kind {
            ExprKind::Int(lane) => ExprKind::Swizzle { base, lanes: vec![lane as u8] },
            _ => ExprKind::Index { base, indices: vec![index] },
        };
        make(kind, Type::Scalar(s), span)
    }

    fn element(&mut self, base: Expr, a: &ArrayType, args: &[ast::Expr], span: Span) -> Expr {
        let rank = a.dims.len();
        let sliced = args.iter().any(|a| matches!(a.kind, Ast::Range { .. })) || args.len() < rank;
        let row = sliced && self.is_row(a, args);
        if args.len() > rank || args.is_empty() || (sliced && !row && self.in_kernel() && !self.in_tile()) {
            return self.wrong_rank(&base, a, args, span);
        }
        let mut dims = Vec::new();
        let mut lists = Vec::new();
        let mut open = false;
        let mut indices = Vec::with_capacity(args.len());
        for (axis, (arg, dim)) in args.iter().zip(&a.dims).enumerate() {
            let (index, axis_dim) = self.slice_index(arg, dim, Some((&base, axis)));
            if let SliceIndex::Of(by) = &index
                && let Some(ty) = self.array_index_type(by)
            {
                lists.push(ArrayIndex { span: by.span, ty, before: dims.len() });
            }
            open |= matches!(&index, SliceIndex::Of(by) if self.is_open_index(by));
            indices.push(index);
            dims.extend(axis_dim);
        }
        if open {
            return make(ExprKind::Slice { base: Box::new(base), indices }, Type::Unknown, span);
        }
        if !lists.is_empty() {
            return self.array_index_access(base, a, indices, dims, &lists, span);
        }
        if args.len() == rank && dims.is_empty() {
            let at = |index| if let SliceIndex::At(e) = index { Some(e) } else { None };
            let indices = indices.into_iter().filter_map(at).collect();
            return make(ExprKind::Index { base: Box::new(base), indices }, a.element.clone(), span);
        }
        if !row {
            self.need_arrays(span, "a slice of an array");
        }
        dims.extend(a.dims.iter().skip(args.len()).cloned());
        let ty = array(a.element.clone(), dims);
        make(ExprKind::Slice { base: Box::new(base), indices }, ty, span)
    }

    /// Returns whether a slice such as `m[i, ..]` in a kernel or a function is a row: each axis has an index or a range
    /// that covers the whole axis, and the extents of the whole axes are known.
    fn is_row(&self, a: &ArrayType, args: &[ast::Expr]) -> bool {
        let whole = |arg: &ast::Expr| match &arg.kind {
            Ast::Range { start, end, step, .. } => Some(start.is_none() && end.is_none() && step.is_none()),
            _ => None,
        };
        let device = self.in_kernel() || self.home == BodyKind::Fn;
        device
            && args.len() == a.dims.len()
            && args.iter().zip(&a.dims).all(|(arg, dim)| whole(arg).is_none_or(|w| w && matches!(dim, Dim::Known(1..))))
    }

    fn index_kind(&mut self, index: Expr) -> Expr {
        self.vars.admit_integers(&index.ty);
        if matches!(index.ty, Type::Scalar(s) if s.is_int()) || self.require_kind(&index, TypeClass::Int, "an index") {
            return index;
        }
        self.bad(index.span)
    }

    /// Checks that a constant index is less than the extent `dim`. `of` is the array and the axis, if known, which the
    /// diagnostic names.
    fn check_bounds(&mut self, index: &Expr, dim: &Dim, of: Option<(&Expr, usize)>) {
        if !matches!(index.kind, ExprKind::Int(_)) {
            return;
        }
        let ExprKind::Int(i) = index.kind else { return };
        if i < 0 {
            let d =
                Diagnostic::error("E0325", format!("the index {i} is negative")).at(index.span, "indices count from 0");
            let d = self.counted_from_the_end(d, index.span, -i, dim, of);
            self.report(d);
        } else if let Dim::Known(n) = dim
            && i >= i128::from(*n)
        {
            let d = Diagnostic::error("E0325", format!("the index {i} is outside of an axis of {n}"))
                .at(index.span, valid_indices(*n));
            let declared = match of.map(|(base, _)| &base.kind) {
                Some(ExprKind::Local(id)) => {
                    self.locals.get(*id).filter(|local| !matches!(local.kind, LocalKind::Param(_)))
                }
                _ => None,
            };
            let d = match declared {
                Some(local) => d.because(local.span, format!("`{}` is declared here", local.name)).help(format!(
                    "the last index is {}; for the index {i}, the axis needs {} elements",
                    n - 1,
                    i + 1
                )),
                None => d,
            };
            self.report(d);
        }
    }

    pub fn slice_index(&mut self, arg: &ast::Expr, dim: &Dim, of: Option<(&Expr, usize)>) -> (SliceIndex, Option<Dim>) {
        let Ast::Range { start, end, inclusive, step } = &arg.kind else {
            let before = self.diagnostics.len();
            let index = self.expr(arg, Some(&I32));
            self.no_float_index(arg, before);
            if self.vars.shallow(&index.ty) == Type::Range {
                return (SliceIndex::Of(index), Some(Dim::Unknown));
            }
            if self.array_index_type(&index).is_some() || self.is_open_index(&index) {
                return (SliceIndex::Of(index), None);
            }
            let index = self.index_kind(index);
            self.check_bounds(&index, dim, of);
            return (SliceIndex::At(index), None);
        };
        let mut part = |e: &Option<Box<ast::Expr>>| {
            e.as_ref().map(|e| {
                let e = self.expr(e, Some(&I32));
                self.index_kind(e)
            })
        };
        let (start, end, step) = (part(start), part(end), part(step));
        let full = if let Dim::Known(n) = dim { Some(*n) } else { None };
        let s = step.as_ref().map_or(Some(1), |step| const_eval::int(self, step));
        // With a negative step, the exclusive end is -1 if the range includes the first element.
        let down = step.is_some() && s.is_none_or(|s| s < 0);
        let mut bound_value = |e: &Option<Expr>, default: Option<i64>, least: i64| match e {
            Some(e) => {
                if const_eval::int(self, e).is_none_or(|at| at < least) {
                    self.check_bounds(e, &Dim::Unknown, of);
                }
                const_eval::int(self, e)
            }
            None => default,
        };
        let last = full.map(|n| n - 1);
        let (a, b) = match down {
            true => (bound_value(&start, last, 0), bound_value(&end, Some(-1), -1)),
            false => (bound_value(&start, Some(0), 0), bound_value(&end, full, 0)),
        };
        let extent = match (a, b, s) {
            (Some(a), Some(b), Some(s)) if s < 0 => {
                let b = b - i64::from(*inclusive);
                if let Some(n) = full.filter(|n| a >= (*n).max(1)) {
                    let d = Diagnostic::error("E0325", format!("the slice starts at {a}, outside of an axis of {n}"))
                        .at(arg.span, valid_indices(n));
                    self.report(d);
                }
                Dim::Known(((a - b).max(0) - s - 1) / -s)
            }
            (Some(a), Some(b), Some(s)) if s > 0 => {
                let b = b + i64::from(*inclusive);
                if full.is_some_and(|n| b > n) {
                    let n = full.unwrap_or(0);
                    let d = Diagnostic::error("E0325", format!("the slice ends at {b}, outside of an axis of {n}"))
                        .at(arg.span, format!("the axis ends at {n}"));
                    self.report(match (&start, s) {
                        (None, 1) => d.help("`..` takes the whole axis"),
                        (Some(_), 1) if a <= n => d.help(format!("leave the end off to take the rest: `{a}..`")),
                        _ => d,
                    });
                }
                Dim::Known(((b - a).max(0) + s - 1) / s)
            }
            _ if start.is_none() && end.is_none() && step.is_none() => dim.clone(),
            _ => Dim::Unknown,
        };
        (SliceIndex::Range { start, end, inclusive: *inclusive, step }, Some(extent))
    }

    // Lvalues

    /// Checks an lvalue and that it may be written. `also_read` is true for `op=`, which also reads it.
    pub fn place(&mut self, e: &ast::Expr, also_read: bool) -> Expr {
        let place = self.checked_place(e, also_read);
        if matches!(place.kind, ExprKind::Error) {
            self.record_skipped(e);
        }
        place
    }

    fn checked_place(&mut self, e: &ast::Expr, also_read: bool) -> Expr {
        let place = match &bare(e).kind {
            Ast::Name(name) => {
                let reads = self.initialization.early_reads.len();
                let place = self.name_place(name);
                if !also_read {
                    self.initialization.early_reads.truncate(reads);
                }
                place
            }
            Ast::Index { base, args } => self.part_of(base, also_read, |this| this.index(base, args, e.span, false)),
            Ast::Field { base, name } => self.part_of(base, also_read, |this| this.field(base, name, e.span)),
            Ast::Call { .. } => {
                let reads = self.initialization.early_reads.len();
                let place = self.expr(e, None);
                match &place.kind {
                    // `streaming(r[i]) = …` only writes the element.
                    ExprKind::Builtin { builtin, .. } if is_hint(*builtin) => {
                        self.initialization.early_reads.truncate(reads);
                        place
                    }
                    _ => return self.no_place(place),
                }
            }
            _ => {
                let place = self.expr(e, None);
                return self.no_place(place);
            }
        };
        if also_read && let ExprKind::Index { base, .. } | ExprKind::Slice { base, .. } = &place.kind {
            let base = (**base).clone();
            self.note_read(&base, place.span);
            if let ExprKind::Local(id) = base.kind
                && self.locals.get(id).is_some_and(|l| l.kind == LocalKind::Param(Access::In))
            {
                self.local(id, base.span);
            }
        }
        let writes = self.initialization.writes_in_loops.len();
        let writable = self.text_place(&place) && self.check_writable(&place);
        if also_read {
            // `acc += x` reads the old value, so it cannot be the first write in a loop.
            self.initialization.writes_in_loops.truncate(writes);
        }
        if writable { place } else { self.bad(place.span) }
    }

    /// Checks an access path that begins with `base`. Unless `also_read`, the access is not recorded as a read of the
    /// path's root variable, because `r[i].x = …` writes a component of an element without reading the element.
    fn part_of(&mut self, base: &ast::Expr, also_read: bool, place: impl FnOnce(&mut Self) -> Expr) -> Expr {
        let root_used = self.root_used(base);
        let reads = self.initialization.early_reads.len();
        let place = place(self);
        if let (Some((LocalMeaning::Local(root), _)), false) = (root_used, also_read) {
            let mut later_reads = self.initialization.early_reads.split_off(reads);
            // Reads of the variable in index expressions are kept.
            later_reads.retain(|read| read.local != root || read.span.start != bare(base).span.start);
            self.initialization.early_reads.append(&mut later_reads);
        }
        self.restore_used(root_used);
        place
    }

    /// Returns the root variable of an access path and whether it has been used so far. A write is not a use, so
    /// callers restore this flag after they have checked the path.
    fn root_used(&mut self, e: &ast::Expr) -> Option<(LocalMeaning, bool)> {
        let mut e = bare(e);
        while let Ast::Index { base, .. } | Ast::Field { base, .. } = &e.kind {
            e = bare(base);
        }
        let Ast::Name(name) = &e.kind else { return None };
        let slot = self.scopes.get(&name.text)?;
        let used = match slot {
            LocalMeaning::Local(id) => self.local_info(id)?.used,
            LocalMeaning::Global(id) => self.global_info(id)?.used,
            _ => return None,
        };
        Some((slot, used))
    }

    fn restore_used(&mut self, root: Option<(LocalMeaning, bool)>) {
        let info = match root {
            Some((LocalMeaning::Local(id), used)) => self.local_info(id).map(|i| (i, used)),
            Some((LocalMeaning::Global(id), used)) => self.global_info(id).map(|i| (i, used)),
            _ => None,
        };
        if let Some((info, used)) = info {
            info.used = used;
        }
    }

    fn name_place(&mut self, name: &ast::Name) -> Expr {
        let e = ast::Expr { kind: Ast::Name(name.clone()), span: name.span };
        let root = self.root_used(&e);
        let place = self.name(name);
        self.restore_used(root);
        place
    }

    fn no_place(&mut self, e: Expr) -> Expr {
        if e.ty != Type::Error {
            let d = Diagnostic::error("E0319", "this can't be assigned to")
                .at(e.span, "not a variable, an element or a field")
                .help("the left side of `=` is a variable, `x[i]` or `p.field`");
            self.report(d);
        }
        self.bad(e.span)
    }

    /// Checks that an lvalue may be written. Returns false if the expression is not an lvalue; then its type has no
    /// meaning.
    fn check_writable(&mut self, place: &Expr) -> bool {
        if let ExprKind::Swizzle { lanes, .. } = &place.kind {
            let twice = lanes.iter().enumerate().any(|(i, l)| lanes.iter().skip(i + 1).any(|m| m == l));
            if twice {
                let d = Diagnostic::error("E0319", "a component is written twice")
                    .at(place.span, "each component may appear only once here");
                self.report(d);
            }
        }
        let mut root = place;
        loop {
            root = match (visit::base(root), &root.kind) {
                (Some(base), _) => base,
                (None, ExprKind::Builtin { builtin, args, .. }) if is_hint(*builtin) => match args.first() {
                    Some(inner) => inner,
                    None => return true,
                },
                _ => break,
            };
        }
        match &root.kind {
            ExprKind::Local(id) => return self.write_local(*id, place, root.span),
            ExprKind::Global(id) => self.write_global(*id, root.span),
            ExprKind::Error => {}
            ExprKind::Const(_) | ExprKind::ConstParam(_) | ExprKind::Dim(_) => {
                let d =
                    Diagnostic::error("E0317", "a constant can't be assigned to").at(root.span, "this never changes");
                self.report(d);
            }
            _ => {
                let d = Diagnostic::error("E0319", "this can't be assigned to").at(root.span, "not a variable");
                self.report(d);
            }
        }
        true
    }

    pub fn write_global(&mut self, id: GlobalId, span: Span) {
        let Some(global) = self.global(id) else { return };
        let (mutable, name, declared) = (global.mutable, global.name.clone(), global.span);
        let info = self.global_info(id);
        let word = info.as_ref().and_then(|i| i.keyword);
        if let Some(info) = info {
            info.assigned = true;
        }
        if !mutable {
            self.immutable(&name, span, declared, word);
        }
    }

    fn immutable(&mut self, name: &str, span: Span, declared: Span, word: Option<Span>) {
        let mut d = Diagnostic::error("E0317", format!("`{name}` can't change: it was declared with `let`"))
            .at(span, "it is written here")
            .because(declared, "declared here");
        d = match word {
            Some(word) => d.fix("declare it with `var`", word, "var", Applicability::MachineApplicable),
            None => d.help("declare it with `var`"),
        };
        self.report(d);
    }

    /// Records a write to a local, and reports it if the local must not be written. Returns false if `place` is not
    /// assignable as a whole.
    pub fn write_local(&mut self, id: LocalId, place: &Expr, span: Span) -> bool {
        let outer_loop = self.loops.outermost();
        let Some(local) = self.locals.get(id) else { return true };
        let (kind, name, declared, mutable) = (local.kind, local.name.clone(), local.span, local.mutable);
        let ty = local.ty.clone();
        let is_array = matches!(self.vars.shallow(&ty), Type::Array(_));
        let Some(info) = self.info.get_mut(id.index()) else { return true };
        info.assigned = true;
        info.written = true;
        let keyword = info.keyword;
        if let Some(outer) = outer_loop {
            self.initialization.writes_in_loops.push((id, outer));
        }
        let whole = matches!(place.kind, ExprKind::Local(_));
        let lent = kind == LocalKind::Param(Access::InOut) && self.home == BodyKind::Fn;
        let own = (kind == LocalKind::Var || lent) && self.is_device_array(&ty);
        if is_array && whole && kind == LocalKind::Shared && self.in_blocks() {
            return true;
        }
        if is_array && whole && !own && (self.in_kernel() || matches!(kind, LocalKind::Param(_))) {
            if !self.in_kernel() && kind == LocalKind::Param(Access::In) {
                self.read_only_param(id, &name, span, declared);
                return false;
            }
            let d = Diagnostic::error("E0319", format!("the array `{name}` can't be assigned as a whole here"));
            let d = match self.in_kernel() {
                true => d
                    .at(span, "only a thread's own array of constant extents is")
                    .help(format!("write `{name}[i] = …`")),
                false => d.at(span, "it belongs to the caller").help(format!("`{name}[..] = …` sets all elements")),
            };
            self.report(d);
            return false;
        }
        if is_array && whole && !own {
            self.need_host(span, "assigning an array as a whole");
        }
        match kind {
            LocalKind::Param(Access::In) if is_array => self.read_only_param(id, &name, span, declared),
            LocalKind::Param(Access::In) => {
                let d = Diagnostic::error("E0318", format!("the parameter `{name}` can't change"))
                    .at(span, "it is written here")
                    .because(declared, "parameters are read only")
                    .help(format!("copy it first: `var {name} = {name}`"));
                self.report(d);
            }
            LocalKind::Param(_) | LocalKind::Shared => {}
            LocalKind::ThreadIndex | LocalKind::Loop => {
                let noun = if kind == LocalKind::Loop { "loop variable" } else { "index" };
                let d = Diagnostic::error("E0317", format!("the {noun} `{name}` can't change"))
                    .at(span, "it is written here")
                    .because(declared, "declared here")
                    .help(format!("copy it first: `var j = {name}`"));
                self.report(d);
            }
            LocalKind::Var if !mutable => self.immutable(&name, span, declared, keyword),
            LocalKind::Var => {}
        }
        true
    }

    fn read_only_param(&mut self, id: LocalId, name: &str, span: Span, declared: Span) {
        // The first write decides between `out` and `inout`; later ones would repeat the error.
        let is_repeated = |d: &Diagnostic| d.code == "E0318" && d.labels.iter().any(|label| label.span == declared);
        if self.diagnostics.iter().any(is_repeated) {
            return;
        }
        let read = self.info.get(id.index()).is_some_and(|i| i.used);
        let access = if read { "inout" } else { "out" };
        let before = Span { end: declared.start, ..declared };
        let d = Diagnostic::error("E0318", format!("the array `{name}` is read only"))
            .at(span, "it is written here")
            .because(declared, "a parameter is read only unless it is `out` or `inout`")
            .fix(format!("declare it `{access} {name}`"), before, format!("{access} "), Applicability::MaybeIncorrect);
        self.report(d);
    }

    /// Records a read of array elements that no earlier statement has written. [`Cx::report_early_reads`] determines
    /// later whether it is an error.
    pub fn note_read(&mut self, base: &Expr, span: Span) {
        let ExprKind::Local(id) = base.kind else { return };
        let is_out = self.locals.get(id).is_some_and(|l| l.kind == LocalKind::Param(Access::Out));
        let Some(info) = self.info.get(id.index()) else { return };
        if !info.written
            && (info.uninitialized || is_out && matches!(self.home, BodyKind::Kernel { .. } | BodyKind::Fn))
        {
            self.early_read(id, span);
        }
    }

    pub fn early_read(&mut self, local: LocalId, span: Span) {
        let outer_loop = self.loops.outermost();
        self.initialization.early_reads.push(EarlyRead { local, span, outer_loop, op: None, depends_on_thread: true });
    }

    /// Reports reads of `out` parameters and of uninitialized variables, unless the variable is written before the read
    /// or in the same outermost loop.
    pub fn report_early_reads(&mut self) {
        let reads = std::mem::take(&mut self.initialization.early_reads);
        let mut reported = Vec::new();
        for read in reads {
            let later = |outer| self.initialization.writes_in_loops.contains(&(read.local, outer));
            if reported.contains(&read.local) || read.outer_loop.is_some_and(later) {
                continue;
            }
            reported.push(read.local);
            let Some(local) = self.locals.get(read.local) else { continue };
            let (name, declared) = (local.name.clone(), local.span);
            if local.kind == LocalKind::Var {
                let d = Diagnostic::error("E0515", format!("`{name}` is read before it has a value"))
                    .at(read.span, "nothing was written to it yet")
                    .because(declared, "declared without a value")
                    .help(format!("give it one where it is declared: `var {name} = …`"));
                self.report(d);
                continue;
            }
            let word = Span { start: declared.start.saturating_sub(4), end: declared.start, ..declared };
            let d = Diagnostic::error("E0406", format!("`{name}` is read before it is written"))
                .at(read.span, "an `out` array holds nothing yet")
                .because(declared, "declared `out` here");
            if let (Some(op), Some(_)) = (read.op, read.outer_loop) {
                let symbol = op.symbol();
                let start = if matches!(op, BinaryOp::Mul | BinaryOp::Div) { "1.0" } else { "0.0" };
                let is_free = |word: &&str| self.locals.iter().all(|(_, local)| local.name != *word);
                let s = ["s", "total", "acc"].into_iter().find(is_free).unwrap_or("value");
                self.report(d.help(format!(
                    "a variable collects the value: `var {s} = {start}` before the loop, `{s} {symbol}= …` in it, and \
                     `{name}[…] = {s}` after it"
                )));
                continue;
            }
            let d = d.fix("declare it `inout`", word, "inout ", Applicability::MaybeIncorrect);
            if let (Some(BinaryOp::Add), true, false) = (read.op, self.in_kernel(), read.depends_on_thread) {
                self.report(d.help(format!(
                    "all threads change one element: use `atomic_add({name}[…], …)` with `inout`, and pass a variable at the \
                     launch, `var {name} = zeros(1)`; or call `sum` in the script"
                )));
                continue;
            }
            let explanation = "`inout` arrays keep the caller's values";
            let d = match read.op {
                Some(op) => {
                    d.help(format!("{explanation}; or write `=` instead of `{}=`, which does not read it", op.symbol()))
                }
                None => d.help(explanation),
            };
            self.report(d);
        }
    }
}

/// Formats the range of valid indices of an axis with `n` elements.
fn valid_indices(n: i64) -> String {
    match n {
        0 => "the axis has no elements".into(),
        n => format!("indices go from 0 to {}", n - 1),
    }
}

/// Adds the fix `len(x)` for `x.len`.
fn as_len(d: Diagnostic, base: Span, name: Span) -> Diagnostic {
    let rest = Span { start: base.end, ..name };
    let edits = vec![(Span { end: base.start, ..base }, "len(".to_string()), (rest, ")".to_string())];
    d.fix_all("write `len(x)`", edits, Applicability::MaybeIncorrect)
}

fn is_hint(b: clk_scalar::builtin::Builtin) -> bool {
    use clk_scalar::builtin::Builtin;
    matches!(b, Builtin::Cached | Builtin::Streaming)
}

/// Formats a list of names: `` `a`, `b` and `c` ``.
pub(crate) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    match quoted.split_last() {
        None => "none".into(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}
