//! Expressions: dispatch over their kinds, names, literals, strings, blocks and conditionals.

use std::sync::Arc;

use crate::arguments::{Accepted, by_name};
use crate::build::{BOOL, I32, bare, make};
use crate::context::{BodyKind, Cx, ErrorReported, ResolvedName};
use crate::divergence::Fork;
use crate::infer::{TypeClass, array};
use crate::literal::{self, NumberLiteral};
use crate::ops::scalar_of;
use crate::recovery::unflattened_index;
use crate::scopes::LocalMeaning;
use crate::suggestions;
use crate::typed::*;
use crate::unknown_names::belongs_to_ended_block;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_base::stop;
use clk_scalar::Scalar;
use clk_scalar::builtin::{Builtin, BuiltinEntry};
use clk_scalar::decimal::Decimal;
use clk_scalar::ops::BinaryOp;
use clk_syntax::ast::{self, ExprKind as Ast};

/// Maximum depth of a syntax tree, so that the recursion cannot overflow the stack. The parser's limit is much lower.
pub(crate) const MAX_DEPTH: u32 = 1500;

impl Cx<'_> {
    /// Checks an expression. `want` is the type that the context prefers. It is a hint: the expression may have another
    /// type.
    pub fn expr(&mut self, e: &ast::Expr, want: Option<&Type>) -> Expr {
        stop::poll();
        self.depth += 1;
        let checked = if self.depth > MAX_DEPTH { self.too_deep(e.span) } else { self.expr_inner(e, want) };
        self.depth -= 1;
        if matches!(checked.kind, ExprKind::Error) {
            self.record_skipped(e);
        }
        checked
    }

    pub fn too_deep(&mut self, span: Span) -> Expr {
        if !self.diagnostics.iter().any(|d| d.code == "E0111") {
            let d = Diagnostic::error("E0111", "an expression is nested too deeply")
                .at(span, format!("more than {MAX_DEPTH} levels"))
                .help("name a part of it with `let`");
            self.report(d);
        }
        self.bad(span)
    }

    fn expr_inner(&mut self, e: &ast::Expr, want: Option<&Type>) -> Expr {
        match &e.kind {
            Ast::Int { value, suffix } => self.int(i128::from(*value), suffix.as_ref(), e.span, want),
            Ast::Float { text, suffix } => self.float(text, suffix.as_ref(), e.span, want),
            Ast::Bool(b) => make(ExprKind::Bool(*b), BOOL, e.span),
            Ast::Str(parts) => {
                self.need_host(e.span, "text as a value");
                self.text(parts, e.span)
            }
            Ast::Name(name) => self.name(name),
            Ast::Field { base, name } => self.field(base, name, e.span),
            Ast::Index { base, args } => self.index(base, args, e.span, true),
            Ast::Call { callee, args } => self.call(callee, args, e.span, want),
            Ast::Launch { callee, grid, block, args } => self.launch_as(callee, Some((grid, block)), args, e.span),
            Ast::Unary { op, op_span, expr } => self.unary(*op, *op_span, expr, e.span, want),
            Ast::Binary { op, op_span, left, right } => self.binary(*op, *op_span, left, right, e.span, want),
            Ast::Range { start, end, inclusive, step } => {
                self.need_host(e.span, "a range as a value");
                self.range(start.as_deref(), end.as_deref(), *inclusive, step.as_deref(), e.span).0
            }
            Ast::If { cond, then, other } => self.if_value(cond, then, other.as_deref(), e.span, want),
            Ast::Block(b) => {
                let (block, ty) = self.block(b, true, want);
                make(ExprKind::Block(block), ty, e.span)
            }
            Ast::Tuple(parts) => self.tuple(parts, e.span, want),
            Ast::Array(parts) => self.array_literal(parts, e.span, want),
            Ast::Struct { path, fields } => self.struct_literal(path, fields, e.span),
            Ast::Time(b) => {
                self.need_host(e.span, "`time`");
                let block = self.measured(b);
                make(ExprKind::Time(block), Type::Timing, e.span)
            }
            Ast::Paren(inner) => self.expr(inner, want),
            Ast::Error => self.bad(e.span),
        }
    }

    /// Checks an expression and reports an error if its type is not `want`.
    pub fn expr_as(&mut self, e: &ast::Expr, want: &Type) -> Expr {
        let checked = self.expr(e, Some(want));
        if checked.ty != *want {
            self.coerce_to_declared(&checked, want, None);
        }
        checked
    }

    /// Like [`Cx::coerce`], but for a type that the program declares explicitly, which also determines the element type
    /// of `zeros(…)`.
    pub fn coerce_to_declared(&mut self, e: &Expr, want: &Type, why: Option<(Span, String)>) -> bool {
        self.vars.admit_declared(&e.ty, want);
        self.coerce(e, want, why)
    }

    /// Unifies the type of an expression with `want` and reports a mismatch. `why` is a note that explains why the type
    /// `want` is required.
    pub fn coerce(&mut self, e: &Expr, want: &Type, why: Option<(Span, String)>) -> bool {
        if self.vars.unify(&e.ty, want) {
            return true;
        }
        let d = self.mismatch(e, want, why);
        self.report(d);
        false
    }

    pub fn mismatch(&self, e: &Expr, want: &Type, why: Option<(Span, String)>) -> Diagnostic {
        let (actual, expected) = (self.ty_text(&e.ty), self.ty_text(want));
        let mut d = Diagnostic::error("E0301", format!("`{expected}` was expected here, but this is `{actual}`"))
            .at(e.span, format!("this is `{actual}`"));
        if let Some((span, text)) = why {
            d = d.because(span, text);
        }
        let (from, to) = (self.vars.shallow(&e.ty), self.vars.shallow(want));
        match (&from, &to) {
            (_, Type::Scalar(s)) if s.is_int() && matches!(e.kind, ExprKind::Float(_)) => {
                d = d.help("write an integer");
            }
            (_, Type::Scalar(s)) if self.vars.scalar_kind(&from).is_some() && s.is_num() => {
                d = self.conversion_fix(d, e, s.name());
            }
            (_, open)
                if matches!(self.vars.scalar_kind(&from), Some(TypeClass::Int | TypeClass::Num))
                    && matches!(self.vars.kind(open), Some(TypeClass::Float | TypeClass::Element)) =>
            {
                d = self.conversion_fix(d, e, "f32");
            }
            (_, Type::Param(p)) if self.vars.scalar_kind(&from).is_some() && self.vars.kind(&to).is_none() => {
                let name = self.sig.generics.get(*p as usize).map_or("T", |g| g.name.as_str());
                d = self.conversion_fix(d, e, name);
            }
            (from, _) if crate::build::is_text(from) && self.vars.kind(&to) == Some(TypeClass::Any) => {
                d = d.help("a type parameter accepts only plain data; for text, declare a parameter of type `str`");
            }
            (Type::Scalar(Scalar::Bool), Type::Scalar(s)) if s.is_num() => {
                d = self.conversion_fix(d, e, s.name()).note("`true` is converted to 1, and `false` to 0");
            }
            (Type::Scalar(s), Type::Scalar(Scalar::Bool)) if s.is_num() => {
                d = d.help("compare it with something: `x != 0`");
            }
            (Type::Array(_), Type::Scalar(_)) => {
                let (mut is_row, mut edits) = (false, None);
                crate::visit::expr(e, &mut |part| {
                    let is_index = matches!(part.kind, ExprKind::Index { .. } | ExprKind::Slice { .. });
                    is_row |= is_index && matches!(self.vars.shallow(&part.ty), Type::Array(_));
                    if let ExprKind::Slice { base, indices } = &part.kind
                        && let [SliceIndex::At(flat)] = &indices[..]
                        && let Type::Array(array) = self.vars.shallow(&base.ty)
                    {
                        edits = unflattened_index(flat, array.dims.len());
                    }
                });
                if let Some(edits) = edits {
                    d = d.fix_all("give each axis its index", edits, Applicability::MaybeIncorrect);
                } else if is_row {
                    d = d.help("an element has an index for each axis: `x[row, column]`");
                }
            }
            (Type::Scalar(_), Type::Vector(s, n)) => {
                d = self.conversion_fix(d, e, &format!("{s}x{n}"));
            }
            (Type::Array(a), Type::Array(b)) if a.dims.len() == b.dims.len() => {
                if let (Type::Scalar(x), Type::Scalar(y)) =
                    (self.vars.shallow(&a.element), self.vars.shallow(&b.element))
                    && x != y
                {
                    d = self.conversion_fix(d, e, y.name());
                }
            }
            _ => {}
        }
        let d = self.without_result(d, e);
        self.element_fix(d, &e.ty, want)
    }

    /// If one of the types has float elements only because of a call such as `zeros(…)`, and the other one has
    /// integers, suggests adding `type = …` with the integer type to the call.
    pub fn element_fix(&self, d: Diagnostic, a: &Type, b: &Type) -> Diagnostic {
        let integer = |ty: &Type| match scalar_of(&self.vars.shallow(ty)) {
            Type::Scalar(s) if s.is_int() => Some(s.name()),
            ref open if matches!(self.vars.kind(open), Some(TypeClass::Int | TypeClass::Num)) => Some("i32"),
            _ => None,
        };
        let pairs = [(a, b), (b, a)].into_iter();
        let mut candidates = pairs.filter_map(|(made, other)| Some((self.vars.element_calls(made), integer(other)?)));
        match candidates.find(|(calls, _)| !calls.is_empty()) {
            Some((calls, to)) => self.type_fix(d, &calls, to),
            None => d,
        }
    }

    /// Suggests adding `type = …` to the calls, at these spans.
    pub fn type_fix(&self, d: Diagnostic, calls: &[Span], to: &str) -> Diagnostic {
        let edits = calls.iter().map(|end| (*end, format!(", type = {to}"))).collect();
        d.help(format!("`zeros`, `ones` and `eye` make floats: `type = {to}` makes integers")).fix_all(
            format!("write `type = {to}`"),
            edits,
            Applicability::MaybeIncorrect,
        )
    }

    /// Suggests a conversion of `e` to the type `to`. For a float type, converts the operands of a quotient of integers
    /// instead: `f32(a / b)` loses the fraction.
    pub fn conversion_fix(&self, d: Diagnostic, e: &Expr, to: &str) -> Diagnostic {
        let mut edits = vec![];
        let (title, help) = match &e.kind {
            ExprKind::Binary { op: BinaryOp::Div, .. }
                if Scalar::from_name(to).is_some_and(Scalar::is_float) && self.is_integer(&e.ty) =>
            {
                quotient_edits(e, to, &mut edits);
                ("convert the operands", "a quotient of integers has no fraction: convert the operands".to_owned())
            }
            _ => {
                edits.extend(conversion_edits(e.span, to));
                ("convert it", format!("there are no implicit conversions: write `{to}(…)`"))
            }
        };
        d.help(help).fix_all(format!("{title} with `{to}(…)`"), edits, Applicability::MaybeIncorrect)
    }

    /// Returns whether a type is an integer, or an array of integers.
    fn is_integer(&self, ty: &Type) -> bool {
        let scalar = self.vars.shallow(&scalar_of(&self.vars.shallow(ty)));
        matches!(self.vars.scalar_kind(&scalar), Some(TypeClass::Int | TypeClass::Num))
    }

    /// Checks that an expression is a scalar whose type belongs to a class, and reports an error otherwise.
    pub fn require_kind(&mut self, e: &Expr, kind: TypeClass, what: &str) -> bool {
        if self.vars.require(&e.ty, kind) && !matches!(self.vars.shallow(&e.ty), Type::Vector(..) | Type::Array(_)) {
            return true;
        }
        let actual = self.ty_text(&e.ty);
        let noun = match kind {
            TypeClass::Int => "an integer",
            TypeClass::Float => "a float",
            _ => "a number",
        };
        let mut d = Diagnostic::error("E0301", format!("{what} must be {noun}, but this is `{actual}`"))
            .at(e.span, format!("this is `{actual}`"));
        if kind == TypeClass::Int && matches!(self.vars.scalar_kind(&e.ty), Some(TypeClass::Float | TypeClass::Element))
        {
            // A conversion of a float literal says less than the integer itself.
            d = match e.kind {
                ExprKind::Float(_) => d.help("write an integer"),
                _ => self.conversion_fix(d, e, "i32"),
            };
            let calls = self.vars.element_calls(&e.ty);
            if !calls.is_empty() {
                d = self.type_fix(d, &calls, "i32");
            }
        }
        if let Type::Vector(..) = self.vars.shallow(&e.ty) {
            d = self.component(d, e);
        }
        self.report(d);
        false
    }

    // Literals

    fn suffix(&mut self, suffix: &ast::Name) -> Type {
        match Scalar::from_name(&suffix.text) {
            Some(s) if s.is_num() => Type::Scalar(s),
            _ => {
                let d = Diagnostic::error("E0204", format!("`{}` is not a numeric type", suffix.text))
                    .at(suffix.span, "a suffix is a numeric type such as `u32` or `f64`");
                self.report(d);
                Type::Error
            }
        }
    }

    /// Returns the type of an unsuffixed literal: the preferred type if the literal can have it, else a fresh type
    /// variable.
    fn literal_type(&mut self, want: Option<&Type>, kind: TypeClass) -> Type {
        match want {
            Some(Type::Scalar(s)) if kind.takes_scalar(*s) => Type::Scalar(*s),
            Some(Type::Vector(s, _)) if kind.takes_scalar(*s) => Type::Scalar(*s),
            Some(Type::Param(_)) => {
                let ty = self.vars.fresh(kind);
                let want = want.cloned().unwrap_or_default();
                self.vars.unify(&ty, &want);
                ty
            }
            _ => self.vars.fresh(kind),
        }
    }

    pub fn int(&mut self, value: i128, suffix: Option<&ast::Name>, span: Span, want: Option<&Type>) -> Expr {
        let ty = match suffix {
            Some(s) => self.suffix(s),
            None => self.literal_type(want, TypeClass::Num),
        };
        make(ExprKind::Int(value), ty, span)
    }

    fn float(&mut self, text: &str, suffix: Option<&ast::Name>, span: Span, want: Option<&Type>) -> Expr {
        let ty = match suffix {
            Some(s) => match self.suffix(s) {
                Type::Scalar(s) if s.is_int() => {
                    let d = Diagnostic::error("E0313", format!("{text} is no `{s}`")).at(span, "this has a fraction");
                    self.report(d);
                    Type::Error
                }
                ty => ty,
            },
            None => self.literal_type(want, TypeClass::Float),
        };
        let Some(number) = Decimal::parse(text) else { return make(ExprKind::Error, Type::Error, span) };
        if NumberLiteral::Float(number).to(Scalar::F64).is_none() {
            self.report(literal::out_of_all_ranges(text, number, span));
            return self.bad(span);
        }
        make(ExprKind::Float(number), ty, span)
    }

    /// Checks a string with its interpolated expressions, in contexts where strings are allowed (also in kernels).
    pub fn text(&mut self, parts: &[ast::StrPart], span: Span) -> Expr {
        let parts = parts.iter().map(|p| match p {
            ast::StrPart::Text(t) => StrPart::Text(t.clone()),
            ast::StrPart::Value { expr, format } => {
                StrPart::Value { expr: self.printable(expr), format: format.clone() }
            }
        });
        let parts = parts.collect();
        make(ExprKind::Str(parts), Type::Str, span)
    }

    /// Checks a value that `print`, `assert` or a string formats; strings are allowed even in kernels.
    pub fn printable(&mut self, e: &ast::Expr) -> Expr {
        if let Ast::Str(parts) = &bare(e).kind {
            return self.text(parts, e.span);
        }
        let value = self.expr(e, None);
        let whole = matches!(value.ty, Type::Array(_));
        if !whole && !crate::scalar_count::holds_array(self.program, &value.ty) {
            return value;
        }
        if self.in_kernel() {
            let d = Diagnostic::error("E0401", "a kernel can't print a whole array")
                .at(value.span, if whole { "this is an array" } else { "this holds an array" });
            self.report(d.help("print elements of it, or print it from the script"));
        } else {
            self.need_host(value.span, "printing a whole array");
        }
        value
    }

    // Names

    pub fn name(&mut self, name: &ast::Name) -> Expr {
        let span = name.span;
        match self.resolve(name) {
            Some(ResolvedName::Slot(slot)) => {
                let e = self.slot(slot, name);
                self.vars.record_use(&e.ty);
                e
            }
            Some(ResolvedName::Item(binding)) => self.item(binding, name),
            Some(ResolvedName::Builtin(entry)) => self.builtin_value(entry, span),
            Some(ResolvedName::Type(_)) => self.not_a_value(name, "a type", "call it to convert: `f32(x)`"),
            None => {
                self.unknown_name(name);
                self.bad(span)
            }
        }
    }

    /// Reports a use of a dimension that is determined only by the function's result.
    fn of_result(&mut self, dim: &DimName, span: Span) -> Expr {
        let d = Diagnostic::error("E0412", format!("nothing fixes the dimension `{}`", dim.name))
            .at(span, "it is known only after the function returns")
            .because(dim.span, "no parameter has it")
            .help("compute the number here, or take it as a parameter");
        self.report(d);
        self.bad(span)
    }

    fn slot(&mut self, slot: LocalMeaning, name: &ast::Name) -> Expr {
        let span = name.span;
        match slot {
            LocalMeaning::Local(id) => {
                let e = self.local(id, span);
                let no_axes = matches!(&e.ty, Type::Array(a) if a.dims.is_empty());
                if no_axes { self.shared_scalar(e) } else { e }
            }
            LocalMeaning::Global(id) => self.read_global(id, name),
            LocalMeaning::Dim(i) => {
                if let Some(dim) = self.sig.dims.get(i as usize).filter(|dim| dim.of_result).cloned() {
                    return self.of_result(&dim, span);
                }
                make(ExprKind::Dim(i), I32, span)
            }
            LocalMeaning::ConstParam(i) => {
                self.uses.const_params.insert(i);
                let ty = match self.sig.generics.get(i as usize).map(|g| &g.kind) {
                    Some(GenericKind::Const { ty, .. }) => ty.clone(),
                    _ => Type::Error,
                };
                make(ExprKind::ConstParam(i), ty, span)
            }
            LocalMeaning::FnParam(_) => self.not_a_value(name, "a function", "call it, or pass it by name: `op = …`"),
            LocalMeaning::TypeParam(_) => self.not_a_value(name, "a type", "call it to convert: `T(x)`"),
        }
    }

    /// Checks the use of a local as a value and marks it as used.
    pub fn local(&mut self, id: LocalId, span: Span) -> Expr {
        let Some(local) = self.locals.get(id) else { return self.bad(span) };
        let varying = local.kind == LocalKind::ThreadIndex;
        let ty = self.vars.shallow(&local.ty);
        if let Some(info) = self.info.get_mut(id.index()) {
            info.used = true;
            self.divergence.varying_reads += u32::from(varying || info.varying);
            if info.uninitialized && !info.written && !matches!(ty, Type::Array(_)) {
                self.early_read(id, span);
            }
        }
        make(ExprKind::Local(id), ty, span)
    }

    /// Reads a `shared` scalar. It is an array of rank 0, and its name alone accesses the element.
    fn shared_scalar(&mut self, base: Expr) -> Expr {
        let ty = match &base.ty {
            Type::Array(a) => a.element.clone(),
            other => other.clone(),
        };
        let span = base.span;
        make(ExprKind::Index { base: Box::new(base), indices: vec![] }, ty, span)
    }

    pub fn read_global(&mut self, id: GlobalId, name: &ast::Name) -> Expr {
        if !self.in_host() {
            self.script_variable(name);
            return self.bad(name.span);
        }
        self.uses.has_globals = true;
        if let Some(info) = self.global_info(id) {
            info.used = true;
        }
        let Some(ty) = self.global(id).map(|g| g.ty.clone()) else { return self.bad(name.span) };
        let ty = self.vars.shallow(&ty);
        make(ExprKind::Global(id), ty, name.span)
    }

    pub fn script_variable(&mut self, name: &ast::Name) -> ErrorReported {
        if let Some(declared) = self.script_names.and_then(|names| names.get(&name.text)) {
            self.record_use(name.span, NameTarget::Local(*declared));
        }
        let context = match self.home {
            BodyKind::Kernel { .. } => "a kernel",
            BodyKind::Const | BodyKind::Signature => "a constant",
            BodyKind::Fn | BodyKind::Script | BodyKind::Section => "a function",
        };
        let d = Diagnostic::error("E0209", format!("{context} can't see the script's variable `{}`", name.text))
            .at(name.span, "this is a variable of the script");
        self.report_error(match self.home {
            BodyKind::Const | BodyKind::Signature => d.help(format!("make `{}` a `const`", name.text)),
            _ => d.help(format!(
                "pass it as a parameter, or make it a `const`; `inout {}: …` is a parameter that changes the caller's variable",
                name.text
            )),
        })
    }

    fn item(&mut self, binding: NameBinding, name: &ast::Name) -> Expr {
        match binding {
            NameBinding::Const(id) => {
                let ty = self.program.consts.get(id).map_or(Type::Error, |c| c.ty.clone());
                make(ExprKind::Const(id), ty, name.span)
            }
            NameBinding::Global(id) => self.read_global(id, name),
            NameBinding::Fn(_) => self.not_a_value(name, "a function", "call it: put the arguments in parentheses"),
            NameBinding::Kernel(_) => self.not_a_value(
                name,
                "a kernel",
                "launch it: `name(…)`, or with a geometry of your own `name<<<grid, block>>>(…)`",
            ),
            NameBinding::Struct(_) => self.not_a_value(name, "a struct", "give its fields: `Name { field: value }`"),
            NameBinding::Module(_) => self.not_a_value(name, "a module", "name something in it: `module.name`"),
            NameBinding::Error => self.bad(name.span),
        }
    }

    pub fn not_a_value(&mut self, name: &ast::Name, what: &str, help: &str) -> Expr {
        let d = Diagnostic::error("E0207", format!("`{}` is {what}, not a value", name.text))
            .at(name.span, "a value was expected here")
            .help(help);
        self.report(d);
        self.bad(name.span)
    }

    fn builtin_value(&mut self, entry: &'static BuiltinEntry, span: Span) -> Expr {
        let b = entry.builtin;
        let ty = match b {
            Builtin::ThreadIdx | Builtin::BlockIdx | Builtin::BlockDim | Builtin::GridDim | Builtin::GlobalIdx => {
                Type::Vector(Scalar::I32, 3)
            }
            Builtin::LaneIdx | Builtin::WarpIdx | Builtin::WarpSize => I32,
            Builtin::Args => {
                self.need_host(span, "`args`");
                return make(ExprKind::Variable(b), Type::Strings, span);
            }
            _ => {
                let name = ast::Name { text: entry.name.into(), span };
                if let Some(ended) = self.ended_local(&name) {
                    let d = Diagnostic::error("E0207", format!("`{}` is a function here, not a variable", name.text))
                        .at(span, "a value was expected here");
                    self.report(belongs_to_ended_block(d, &name.text, ended));
                    return self.bad(span);
                }
                return self.not_a_value(&name, "a function", "call it: put the arguments in parentheses");
            }
        };
        if b != Builtin::WarpSize && !self.need_device(span, &format!("`{}`", entry.name), true) {
            return make(ExprKind::Error, ty, span);
        }
        if matches!(b, Builtin::ThreadIdx | Builtin::GlobalIdx | Builtin::LaneIdx) {
            self.divergence.varying_reads += 1;
        }
        make(ExprKind::Variable(b), ty, span)
    }

    // Compound values

    fn tuple(&mut self, parts: &[ast::Expr], span: Span, want: Option<&Type>) -> Expr {
        if parts.is_empty() {
            return make(ExprKind::Tuple(vec![]), Type::Unit, span);
        }
        let wants = match want {
            Some(Type::Tuple(w)) if w.len() == parts.len() => Some(w.clone()),
            _ => None,
        };
        let parts: Vec<Expr> =
            parts.iter().enumerate().map(|(i, p)| self.expr(p, wants.as_ref().and_then(|w| w.get(i)))).collect();
        let ty = Type::Tuple(parts.iter().map(|p| p.ty.clone()).collect());
        if self.bounded("this tuple", &ty, span).is_err() {
            return self.bad(span);
        }
        if matches!(self.home, BodyKind::Kernel { .. } | BodyKind::Fn) && self.vars.holds_array(&ty) {
            self.need_host(span, "a tuple with an array");
        }
        make(ExprKind::Tuple(parts), ty, span)
    }

    /// Checks `[a, b]`, which is nested for several axes. The typed tree contains the elements as one flat list.
    pub fn array_literal(&mut self, parts: &[ast::Expr], span: Span, want: Option<&Type>) -> Expr {
        if parts.is_empty() && want == Some(&Type::Strings) {
            return make(ExprKind::Array(vec![]), Type::Strings, span);
        }
        let want = match want {
            Some(Type::Array(a)) => Some(a.element.clone()),
            _ => None,
        };
        let element = want.unwrap_or_else(|| self.vars.fresh(TypeClass::Any));
        let mut flat = Vec::with_capacity(parts.len());
        let mut dims = Vec::new();
        let before = self.diagnostics.len();
        let ok = self.array_axis(parts, span, &element, 0, &mut dims, &mut flat);
        if !ok {
            self.merge_element_errors(before, parts);
        }
        if flat.is_empty() && ok && self.vars.kind(&element).is_some() {
            let d =
                Diagnostic::error("E0307", "an empty array needs a type").at(span, "the type of its elements is open");
            self.report(d.help(
                "write `zeros(0, type = i32)` with the type of the elements, to which `x = concat(x, [v])` appends, or `zeros(n)` \
                 for elements that are set later",
            ));
            return self.bad(span);
        }
        let ty = match ok {
            false => Type::Error,
            // Elements of unknown type may be arrays, which add axes. In this case, the tree contains the rows, because
            // the type does not include their shape.
            true if flat.iter().any(|e| self.vars.shallow(&e.ty) == Type::Unknown) => {
                return in_rows(flat, dims.get(1..).unwrap_or(&[]), span);
            }
            true => self
                .text_literal(&flat, &dims, span)
                .unwrap_or_else(|| array(element, dims.into_iter().map(Dim::Known).collect())),
        };
        make(ExprKind::Array(flat), ty, span)
    }

    fn array_axis(
        &mut self,
        parts: &[ast::Expr],
        span: Span,
        element: &Type,
        axis: usize,
        dims: &mut Vec<i64>,
        flat: &mut Vec<Expr>,
    ) -> bool {
        match dims.get(axis) {
            None => dims.push(parts.len() as i64),
            Some(&n) if n == parts.len() as i64 => {}
            Some(&n) => {
                let d = Diagnostic::error("E0305", "the rows of this array differ in length").at(
                    span,
                    format!("{} here, {n} in the rows above", crate::build::count(parts.len(), "element", "elements")),
                );
                self.report(d);
                return false;
            }
        }
        let mut ok = true;
        for part in parts {
            match &bare(part).kind {
                Ast::Array(inner) if axis < 8 => {
                    ok &= self.array_axis(inner, part.span, element, axis + 1, dims, flat);
                }
                _ if axis + 1 < dims.len() => {
                    let d = Diagnostic::error("E0305", "an array mixes rows and single elements")
                        .at(part.span, "a row was expected here");
                    self.report(d);
                    return false;
                }
                _ => match self.array_element(part, element, flat) {
                    Some(has_type) => ok &= has_type,
                    None => return false,
                },
            }
        }
        ok
    }

    /// Checks one element and returns whether its type is correct. Returns `None` after an error that would be repeated
    /// for the other elements.
    fn array_element(&mut self, part: &ast::Expr, element: &Type, flat: &mut Vec<Expr>) -> Option<bool> {
        let hint = self.vars.shallow(element);
        let e = self.expr(part, Some(&hint));
        if e.ty == Type::Str && self.in_kernel() {
            return None;
        }
        let texts = flat.first().is_none_or(|first| matches!(first.ty, Type::Str | Type::Unknown));
        // Only the first element of known type is examined, so that long literals take linear time.
        let of_texts = flat.iter().find(|e| e.ty != Type::Unknown).is_some_and(|e| e.ty == Type::Str);
        if e.ty == Type::Str && texts || e.ty == Type::Unknown && of_texts {
            flat.push(e);
            return Some(true);
        }
        if of_texts {
            let first = flat.first().map(|f| (f.span, "the elements before are `str`".to_string()));
            let d = self.mismatch(&e, &Type::Str, first).help("`str(x)` makes text of a value");
            self.report(d);
            return None;
        }
        if e.ty == Type::Strings {
            let d = Diagnostic::error("E0316", "an array of texts can't be an element of an array");
            let d = d.at(e.span, "this is an array of texts");
            self.report(d.help("`concat(a, b)` joins arrays of texts"));
            return Some(false);
        }
        if matches!(self.vars.shallow(&e.ty), Type::Array(_)) {
            let d = Diagnostic::error("E0316", "an array can't be an element of an array literal")
                .at(e.span, "this is an array");
            self.report(d.help(
                "`concat(a, b)` joins arrays, and `stack(a, b)` puts arrays of one shape along a new first axis",
            ));
            return Some(false);
        }
        if self.is_element(&e.ty, e.span).is_err() {
            return None;
        }
        if !self.vars.unify(&e.ty, element) {
            let first = flat.first().map(|f| (f.span, format!("the elements before are `{}`", self.ty_text(element))));
            let d = self.mismatch(&e, element, first);
            self.report(d);
            return Some(false);
        }
        flat.push(e);
        Some(true)
    }

    fn struct_literal(&mut self, path: &[ast::Name], fields: &[(ast::Name, ast::Expr)], span: Span) -> Expr {
        let name_span = path.first().map_or(span, |n| n.span);
        let id = match self.named_type(path, name_span) {
            Type::Struct(id) => id,
            other => {
                if other != Type::Error {
                    let d = Diagnostic::error("E0207", "only a struct is made with `{ … }`")
                        .at(name_span, format!("this is `{}`", self.ty_text(&other)));
                    self.report(d);
                }
                for (_, e) in fields {
                    self.expr(e, None);
                }
                return self.bad(span);
            }
        };
        let Some(def) = self.program.structs.get(id) else { return self.bad(span) };
        let names = def.fields.iter().map(|field| by_name(&field.name)).collect();
        let of = Type::Struct(id);
        let accepted = Accepted { fields_of: Some(&of), ..Accepted::new(&def.name, 0, names) };
        let field_args = fields.iter().map(|(name, value)| (Some(name), value));
        let bound = self.bind_arguments(&accepted, field_args);
        let mut values: Vec<Option<Expr>> = vec![None; def.fields.len()];
        self.record_field_names(id, def, fields);
        for (_, value) in fields {
            let is_this = |slot: &Option<(&ast::Expr, Span)>| slot.is_some_and(|(bound, _)| std::ptr::eq(bound, value));
            match bound.by_param.iter().position(is_this).and_then(|i| def.fields.get(i).zip(values.get_mut(i))) {
                Some((field, slot)) => *slot = Some(self.expr_as(value, &field.ty)),
                None => drop(self.expr(value, None)),
            }
        }
        // A field whose name is misspelled has been reported already.
        let field_names = || def.fields.iter().map(|field| field.name.as_str());
        let unknown = fields.iter().filter(|(name, _)| field_names().all(|field| field != name.text));
        let meant: Vec<&str> =
            unknown.filter_map(|(name, _)| suggestions::nearest(&name.text, field_names())).collect();
        let missing: Vec<String> = (def.fields.iter().zip(&values))
            .filter(|(field, value)| value.is_none() && !meant.contains(&field.name.as_str()))
            .map(|(field, _)| format!("`{}`", field.name))
            .collect();
        if !missing.is_empty() {
            let d = Diagnostic::error("E0315", format!("this `{}` lacks {}", def.name, missing.join(", ")))
                .at(span, "every field needs a value")
                .because(def.span, "the struct is defined here");
            self.report(d);
        }
        let fields = values.into_iter().map(|v| v.unwrap_or_else(|| self.bad(span))).collect();
        self.in_written_order(make(ExprKind::Struct { id, fields }, Type::Struct(id), span))
    }

    // Conditionals

    pub fn condition(&mut self, cond: &ast::Expr, of: Fork) -> Expr {
        let before = self.divergence.varying_reads;
        // The condition is treated as a separate statement before the code that it controls.
        let begin = self.vars.begin_statement();
        let checked = self.expr(cond, Some(&BOOL));
        self.vars.end_statement(begin);
        if !self.vars.unify(&checked.ty, &BOOL) {
            let actual = self.ty_text(&checked.ty);
            let mut d = Diagnostic::error("E0308", format!("a condition must be `bool`, but this is `{actual}`"))
                .at(checked.span, format!("this is `{actual}`"));
            d = match self.vars.shallow(&checked.ty) {
                Type::Array(a) if a.element == BOOL => d
                    .help("say which you mean: `all(…)` or `any(…)`")
                    .help("`select(condition, a, b)` chooses for each element"),
                ty if self.vars.scalar_kind(&ty).is_some() => d.help("compare it with something: `x != 0`"),
                _ => d,
            };
            self.report(d);
        }
        self.divergence.enter(cond.span, of, before);
        checked
    }

    /// Ends the scope of a condition that `condition` began.
    pub fn end_condition(&mut self) {
        self.divergence.leave();
    }

    fn if_value(
        &mut self,
        cond: &ast::Expr,
        then: &ast::Block,
        other: Option<&ast::Expr>,
        span: Span,
        want: Option<&Type>,
    ) -> Expr {
        let Some(other) = other else {
            let e = self.if_statement(cond, then, None, span);
            if then.tail.is_some()
                && !matches!(e.ty, Type::Error | Type::Never)
                && want.is_some_and(|w| *w != Type::Unit)
            {
                let d = Diagnostic::error("E0310", "an `if` that gives a value needs an `else`")
                    .at(span, "this has no value if the condition is false")
                    .help("add the other value: `if … { … } else { … }`");
                self.report(d);
                return self.bad(span);
            }
            return e;
        };
        let cond = self.condition(cond, Fork::If);
        let (then, then_ty) = self.block(then, true, want);
        let hint = want.cloned().or_else(|| (!matches!(then_ty, Type::Never | Type::Error)).then(|| then_ty.clone()));
        let (other, other_ty) = self.else_block(other, true, hint.as_ref());
        self.end_condition();
        let ty = match self.vars.join(&then_ty, &other_ty) {
            Some(ty) => ty,
            None => {
                let (a, b) = (self.ty_text(&then_ty), self.ty_text(&other_ty));
                let (a_span, b_span) = (tail_span(&then), tail_span(&other));
                let d = Diagnostic::error("E0301", format!("the branches of this `if` differ: `{a}` and `{b}`"))
                    .at(b_span, format!("this is `{b}`"))
                    .because(a_span, format!("this is `{a}`"));
                self.report(d);
                Type::Error
            }
        };
        make(ExprKind::If { cond: Box::new(cond), then: Box::new(then), other: Some(Box::new(other)) }, ty, span)
    }

    /// Checks an `if` whose value is unused.
    pub fn if_statement(&mut self, cond: &ast::Expr, then: &ast::Block, other: Option<&ast::Expr>, span: Span) -> Expr {
        let cond = self.condition(cond, Fork::If);
        let (then, then_ty) = self.block(then, false, None);
        let other = other.map(|o| self.else_block(o, false, None));
        self.end_condition();
        let never = then_ty == Type::Never && matches!(&other, Some((_, Type::Never)));
        let ty = if never { Type::Never } else { Type::Unit };
        make(ExprKind::If { cond: Box::new(cond), then: Box::new(then), other: other.map(|o| Box::new(o.0)) }, ty, span)
    }

    fn else_block(&mut self, e: &ast::Expr, value: bool, want: Option<&Type>) -> (Block, Type) {
        match &e.kind {
            Ast::Block(b) => self.block(b, value, want),
            Ast::If { cond, then, other } if !value => {
                let e = self.if_statement(cond, then, other.as_deref(), e.span);
                let (span, ty) = (e.span, e.ty.clone());
                let stmt = Stmt { kind: StmtKind::Expr { expr: e, quiet: true }, span };
                (Block { stmts: vec![stmt], tail: None, span }, ty)
            }
            _ => {
                let e = self.expr(e, want);
                let (span, ty) = (e.span, e.ty.clone());
                (Block { stmts: vec![], tail: Some(Box::new(e)), span }, ty)
            }
        }
    }

    // Ranges

    /// Checks a range, whose bounds must have the same integer type.
    pub fn range(
        &mut self,
        start: Option<&ast::Expr>,
        end: Option<&ast::Expr>,
        inclusive: bool,
        step: Option<&ast::Expr>,
        span: Span,
    ) -> (Expr, Type) {
        let ty = self.vars.fresh(TypeClass::Int);
        let mut part = |e: Option<&ast::Expr>| {
            e.map(|e| {
                let hint = self.vars.shallow(&ty);
                let checked = self.expr(e, Some(&hint));
                if self.require_kind(&checked, TypeClass::Int, "the end of a range")
                    && !self.vars.unify(&checked.ty, &ty)
                {
                    let d = self.mismatch(&checked, &ty, None);
                    self.report(d);
                }
                Box::new(checked)
            })
        };
        let (start, end, step) = (part(start), part(end), part(step));
        (make(ExprKind::Range { start, end, inclusive, step }, Type::Range, span), ty)
    }

    pub fn fn_type(&self, params: Vec<Type>, result: Type) -> Arc<FnType> {
        Arc::new(FnType { params, result })
    }
}

pub(crate) fn conversion_edits(span: Span, to: &str) -> [(Span, String); 2] {
    [(Span { end: span.start, ..span }, format!("{to}(")), (span.after(), ")".to_owned())]
}

/// Converts the operands of a division, and of divisions in its operands, to a float type.
fn quotient_edits(e: &Expr, to: &str, edits: &mut Vec<(Span, String)>) {
    match &e.kind {
        ExprKind::Binary { op: BinaryOp::Div, left, right } => {
            quotient_edits(left, to, edits);
            quotient_edits(right, to, edits);
        }
        ExprKind::Int(value) => edits.push((e.span, format!("{value}.0"))),
        _ => edits.extend(conversion_edits(e.span, to)),
    }
}

fn tail_span(b: &Block) -> Span {
    b.tail.as_ref().map_or(b.span, |t| t.span)
}

/// Builds an array literal of unknown type from rows with these extents.
fn in_rows(flat: Vec<Expr>, dims: &[i64], span: Span) -> Expr {
    let Some((&length, inner)) = dims.split_first() else { return make(ExprKind::Array(flat), Type::Unknown, span) };
    let size = inner.iter().product::<i64>().max(1) * length.max(1);
    let rows = flat.chunks(size as usize).map(|row| in_rows(row.to_vec(), dims.get(1..).unwrap_or(&[]), span));
    make(ExprKind::Array(rows.collect()), Type::Unknown, span)
}
