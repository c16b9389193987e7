//! Evaluation of expressions.

use std::sync::Arc;

use crate::array::SliceSpec;
use crate::grad;
use crate::ops::{self, GatherIndex, IndexSelector, overflow};
use crate::problem::{HostResult, RuntimeError};
use crate::value::{HostValue, RangeValue, RecordValue};
use clk_base::alloc;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::literal::NumberLiteral;
use clk_check::typed::{ConstId, Expr, ExprKind, GlobalId, SliceIndex, SmolStr, Type};
use clk_compile::advice::explain_device_error;
use clk_lower::GenericArgument;
use clk_runtime::DeviceError;
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, UnaryOp};

use super::code::COMPUTED;
use super::context::{Eval, EvalContext, Signal};
use super::frame::HostFrame;
use super::open_literals::{is_open_literal, nested_shape};
use super::type_mismatch::{DimBindings, ValueDestination};

/// A bound of a range expression.
type RangeBound<'e> = &'e Option<Box<Expr>>;
/// Start, end and step of a range.
type EvaluatedRange = (Option<i64>, Option<i64>, i64);

/// Minimum size in bytes of the arrays that an out-of-memory error lists.
const MIN_NAMED_BYTES: usize = 1 << 20;

impl EvalContext<'_> {
    pub(crate) fn eval(&mut self, frame: &mut HostFrame, expr: &Expr) -> Eval {
        let outer = self.exec.counts_launches().then(|| self.exec.replace_location(expr.span));
        let value = match self.interp.observers.recorded_launches.is_some() && self.interp.derivatives.depth == 0 {
            true => self.eval_traced(frame, expr),
            false => self.evaluate(frame, expr),
        };
        if let Some(outer) = outer {
            self.exec.replace_location(outer);
        }
        let value = value?;
        if cfg!(debug_assertions) {
            self.check_inferred_type(frame, expr, &value)?;
        }
        Ok(value)
    }

    /// Checks a value against the type that the checker inferred. Only debug builds do this, for every expression.
    fn check_inferred_type(&mut self, frame: &HostFrame, expr: &Expr, value: &HostValue) -> Eval<()> {
        let mut extents = DimBindings { names: frame.dims.clone(), ..DimBindings::default() };
        if self.conform(frame, &mut extents, &expr.ty, &mut value.clone()).is_ok() {
            return Ok(());
        }
        let promised = clk_check::show_type(self.program, None, &expr.ty);
        Err(self.internal_error(expr.span, &format!("the check took a `{}` for a `{promised}`", value.type_name())))
    }

    pub(super) fn evaluate(&mut self, frame: &mut HostFrame, expr: &Expr) -> Eval {
        match &expr.kind {
            ExprKind::Int(value) => self.eval_literal(frame, NumberLiteral::Int(*value), &expr.ty, expr.span),
            ExprKind::Float(value) => self.eval_literal(frame, NumberLiteral::Float(*value), &expr.ty, expr.span),
            ExprKind::Bool(value) => Ok(HostValue::bool(*value)),
            ExprKind::Str(parts) => self.eval_string(frame, parts),
            ExprKind::Local(local) if local.index() >= COMPUTED => {
                self.run_operand(frame, local.index() - COMPUTED, expr.span)
            }
            ExprKind::Local(local) => match frame.get(*local) {
                Some(value) => Ok(value),
                None => Err(self.unset_variable(expr.span)),
            },
            ExprKind::Global(id) => self.read_global(*id, expr.span),
            ExprKind::Const(id) => {
                let source = &self.program.consts[*id].value;
                if let Some((of, value)) = self.interp.const_values.known.get(id)
                    && Arc::ptr_eq(of, source)
                {
                    return Ok(value.clone());
                }
                if self.interp.const_values.in_progress.contains(id) {
                    return Err(self.circular_constant(*id, expr.span));
                }
                let source = source.clone();
                self.interp.const_values.in_progress.push(*id);
                let value = self.eval(&mut HostFrame::empty(), &source);
                self.interp.const_values.in_progress.pop();
                let value = value?;
                self.interp.const_values.known.insert(*id, (source, value.clone()));
                Ok(value)
            }
            ExprKind::ConstParam(i) => match frame.generics.get(*i as usize) {
                Some(GenericArgument::Const(value)) => Ok(HostValue::Scalar(*value)),
                _ => Err(self.internal_error(expr.span, "a const parameter has no value")),
            },
            ExprKind::Dim(i) => match frame.dims.get(*i as usize) {
                Some(Some(extent)) => Ok(HostValue::i32(*extent as i32)),
                _ => Err(self.internal_error(expr.span, "a dimension has no value yet")),
            },
            ExprKind::Variable(Builtin::Args) => {
                Ok(HostValue::Strings(self.interp.options.args.iter().map(SmolStr::new).collect()))
            }
            ExprKind::Variable(_) => Err(self.internal_error(expr.span, "a device variable reached the host")),
            ExprKind::Unary { op, expr: inner } => self.eval_unary(frame, *op, inner, expr.span),
            ExprKind::Binary { op, left, right } => self.eval_binary(frame, *op, left, right, expr.span),
            ExprKind::Convert { to, expr: inner } => {
                let value = self.eval(frame, inner)?;
                self.check_arithmetic(expr.span, || overflow::check_conversion(*to, &value))?;
                grad::ops::convert(&self.exec, *to, &value).map_err(|p| self.problem(p, expr.span))
            }
            ExprKind::ConvertParam { to, expr: inner } => self.convert_param(frame, *to, inner, expr.span),
            ExprKind::Bitcast { expr: inner } => {
                let value = self.eval(frame, inner)?;
                if let (HostValue::Array(array), Type::Array(ty)) = (&value, &expr.ty) {
                    let to = self.concrete(frame, &ty.element);
                    let to = self.interp.caches.layouts.element(self.program, &to);
                    return ops::bitcast_array(to, array).map_err(|p| self.problem(p, expr.span));
                }
                let to = self.scalar_of(frame, &expr.ty, expr.span)?;
                grad::ops::bitcast(to, &value).map_err(|p| self.problem(p, expr.span))
            }
            ExprKind::Vector { parts } => self.eval_vector(frame, parts, &expr.ty, expr.span),
            ExprKind::Swizzle { base, lanes } => {
                let base = self.eval(frame, base)?;
                grad::ops::swizzle(&self.exec, &base, lanes).map_err(|p| self.problem(p, expr.span))
            }
            ExprKind::Field { base, field } | ExprKind::TupleField { base, field } => {
                let base = self.eval(frame, base)?;
                ops::field(&self.exec, &base, *field as usize).map_err(|p| self.problem(p, expr.span))
            }
            ExprKind::DynField { base, name } => {
                let base = self.eval(frame, base)?;
                grad::ops::named_field(&self.exec, &base, name).map_err(|p| self.problem(p, expr.span))
            }
            ExprKind::Index { base, indices } => self.eval_index(frame, base, indices, expr.span),
            ExprKind::Slice { base, indices } => self.eval_slice(frame, base, indices, expr.span),
            ExprKind::Call { callee, args } => self.call(frame, callee, args, expr.span),
            ExprKind::Lift { callee, args } => self.apply_elementwise(frame, callee, args, expr),
            ExprKind::Builtin { builtin, args, named } => self.eval_builtin(frame, *builtin, args, named, expr),
            ExprKind::Derive(derive) => self.eval_derivative(frame, derive, expr.span),
            ExprKind::CustomVjp(stated) => self.eval_custom_vjp(frame, stated, expr.span),
            ExprKind::Launch(launch) => self.eval_launch(frame, launch, expr.span),
            ExprKind::Range { start, end, inclusive, step } => {
                let (start, end, step) = self.range_bounds(frame, start, end, step, expr.span)?;
                Ok(HostValue::Range(RangeValue { start, end, step, inclusive: *inclusive }))
            }
            ExprKind::If { .. } | ExprKind::Block(_) => self.eval_with_own_code(frame, expr),
            ExprKind::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.eval(frame, p)).collect::<Eval<Vec<_>>>()?;
                Ok(if parts.is_empty() { HostValue::Unit } else { HostValue::Tuple(parts) })
            }
            ExprKind::Array(items) => self.array_literal(frame, items, expr),
            ExprKind::Struct { id, fields } => {
                let mut values = Vec::with_capacity(fields.len());
                for (expr, field) in fields.iter().zip(&self.program.structs[*id].fields) {
                    let mut value = self.eval(frame, expr)?;
                    if let Err(misfit) = self.conform(frame, &mut DimBindings::default(), &field.ty, &mut value) {
                        let expected = clk_check::show_type(self.program, None, &field.ty);
                        let description = format!("the field `{}` is declared as `{expected}`", field.name);
                        let place = ValueDestination { code: "E0524", description, declared: Some(field.span) };
                        return Err(self.mismatch_error(&misfit, &place, &value, expr.span));
                    }
                    values.push(value);
                }
                let layout = self.interp.caches.layouts.struct_layout(self.program, *id);
                Ok(HostValue::Record(RecordValue { layout, fields: values }))
            }
            ExprKind::Time(block) => self.eval_time(frame, block),
            ExprKind::Error => Err(self.internal_error(expr.span, "a program with errors ran")),
        }
    }

    /// If arithmetic checks are enabled, runs `check`, which returns an error if an operation loses information, for
    /// example by overflow.
    pub(crate) fn check_arithmetic(&self, span: Span, check: impl FnOnce() -> HostResult<()>) -> Eval<()> {
        if self.checks_arithmetic() { check().map_err(|problem| self.problem(problem, span)) } else { Ok(()) }
    }

    /// Evaluates an expression that must be a `bool`.
    pub(crate) fn eval_condition(&mut self, frame: &mut HostFrame, cond: &Expr) -> Eval<bool> {
        let value = self.eval(frame, cond)?;
        self.as_condition(&value, cond.span)
    }

    /// Returns the `bool` in the value of a condition; an error for other values.
    pub(super) fn as_condition(&self, value: &HostValue, span: Span) -> Eval<bool> {
        match value.as_bool() {
            Some(b) => Ok(b),
            None => Err(self.error(
                Diagnostic::error("E0513", format!("a condition must be `bool`, not `{}`", value.type_name()))
                    .at(span, "this is the condition")
                    .help("compare it: `x != 0`, or `all(x > 0)` for an array"),
            )),
        }
    }

    /// Evaluates an expression that must be an integer. It may have any integer type, but must be in the range of
    /// `i64`.
    pub(crate) fn eval_integer(&mut self, frame: &mut HostFrame, expr: &Expr) -> Eval<i64> {
        let value = self.eval(frame, expr)?;
        self.as_integer(&value, expr.span)
    }

    pub(super) fn as_integer(&self, value: &HostValue, span: Span) -> Eval<i64> {
        match value.as_int().and_then(|i| i64::try_from(i).ok()) {
            Some(i) => Ok(i),
            None => Err(self.error(
                Diagnostic::error("E0514", format!("an integer is needed here, not `{}`", value.type_name()))
                    .at(span, format!("this is `{}`", value.type_name())),
            )),
        }
    }

    /// Evaluates a number literal. If its type is a type parameter that is bound to a type without this number, returns
    /// an error.
    fn eval_literal(&mut self, frame: &HostFrame, number: NumberLiteral, ty: &Type, span: Span) -> Eval {
        match (self.concrete(frame, ty), number) {
            (Type::Scalar(s), _) => match number.to(s) {
                Some(number) => Ok(HostValue::Scalar(number)),
                None => Err(self.error(number.out_of_range(s, span))),
            },
            (Type::Unknown, NumberLiteral::Int(number)) => Ok(HostValue::Int(number)),
            (Type::Unknown, NumberLiteral::Float(number)) => Ok(HostValue::Float(number.as_f64())),
            _ => Err(self.internal_error(span, "a literal without a number's type")),
        }
    }

    /// Returns the type with the frame's type arguments substituted.
    pub(crate) fn concrete(&self, frame: &HostFrame, ty: &Type) -> Type {
        match ty {
            Type::Param(i) => match frame.generics.get(*i as usize) {
                Some(GenericArgument::Type(ty)) => ty.clone(),
                _ => Type::Unknown,
            },
            Type::Tuple(parts) => Type::Tuple(parts.iter().map(|p| self.concrete(frame, p)).collect()),
            other => other.clone(),
        }
    }

    pub(crate) fn scalar_of(&mut self, frame: &HostFrame, ty: &Type, span: Span) -> Eval<Scalar> {
        match self.concrete(frame, ty) {
            Type::Scalar(s) | Type::Vector(s, _) => Ok(s),
            Type::Array(array) => match array.element {
                Type::Scalar(s) | Type::Vector(s, _) => Ok(s),
                _ => Err(self.internal_error(span, "an array of scalars was expected")),
            },
            _ => Err(self.internal_error(span, "a scalar type was expected")),
        }
    }

    fn read_global(&mut self, id: GlobalId, span: Span) -> Eval {
        match self.interp.globals.get(id.index()) {
            Some(Some(value)) => Ok(value.clone()),
            _ => Err(self.unset_variable(span)),
        }
    }

    /// Returns the error for a constant that depends on itself through functions; the checker reports direct cycles.
    fn circular_constant(&self, id: ConstId, span: Span) -> Signal {
        let constant = &self.program.consts[id];
        let diagnostic = Diagnostic::error("E0489", "a constant cannot be computed")
            .at(span, format!("this needs the value of `{}`, which is just being computed", constant.name))
            .because(constant.value.span, "computed from this");
        self.error(diagnostic)
    }

    pub(super) fn unset_variable(&self, span: Span) -> Signal {
        let diagnostic =
            Diagnostic::error("E0515", "this variable has no value yet").at(span, "read before it is written");
        self.error(diagnostic.help("give it a value where it is declared"))
    }

    fn eval_unary(&mut self, frame: &mut HostFrame, op: UnaryOp, inner: &Expr, span: Span) -> Eval {
        let value = self.eval(frame, inner)?;
        self.check_arithmetic(span, || overflow::check_unary(op, &value))?;
        grad::ops::unary(&self.exec, op, &value).map_err(|p| self.problem(p, span))
    }

    fn eval_binary(&mut self, frame: &mut HostFrame, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> Eval {
        if op.is_logical() {
            let first = self.eval_condition(frame, left)?;
            return match (op, first) {
                (BinaryOp::And, false) => Ok(HostValue::bool(false)),
                (BinaryOp::Or, true) => Ok(HostValue::bool(true)),
                _ => self.eval_condition(frame, right).map(HostValue::bool),
            };
        }
        let (mut a, mut b) = (self.eval(frame, left)?, self.eval(frame, right)?);
        if is_open_literal(left) || is_open_literal(right) {
            let mut operands = [a, b];
            self.adapt_literals(frame, &[left, right], &mut operands, &format!("`{}`", op.symbol()))?;
            [a, b] = operands;
        }
        self.check_arithmetic(span, || overflow::check_binary(op, &a, &b))?;
        grad::ops::binary(&self.exec, op, &a, &b).map_err(|problem| {
            self.problem_because(problem, span, || {
                vec![(left.span, format!("`{}`", a.type_name())), (right.span, format!("`{}`", b.type_name()))]
            })
        })
    }

    fn convert_param(&mut self, frame: &mut HostFrame, to: u32, inner: &Expr, span: Span) -> Eval {
        let value = self.eval(frame, inner)?;
        match self.concrete(frame, &Type::Param(to)) {
            Type::Scalar(s) => {
                self.check_arithmetic(span, || overflow::check_conversion(s, &value))?;
                grad::ops::convert(&self.exec, s, &value).map_err(|p| self.problem(p, span))
            }
            _ => Ok(value),
        }
    }

    /// Evaluates `bitcast(u32, x)`, if the checker does not know whether `x` is an array. The checker passes the type
    /// as a named argument.
    pub(super) fn dynamic_bitcast(
        &mut self,
        frame: &mut HostFrame,
        args: &[Expr],
        to: Option<&Expr>,
        span: Span,
    ) -> Eval {
        let (Some(value), Some(to)) = (args.first(), to) else {
            return Err(self.internal_error(span, "`bitcast` of nothing"));
        };
        let value = self.eval(frame, value)?;
        let result = match &value {
            HostValue::Array(array) => {
                let to = self.concrete(frame, &to.ty);
                ops::bitcast_array(self.interp.caches.layouts.element(self.program, &to), array)
            }
            one => grad::ops::bitcast(self.scalar_of(frame, &to.ty, span)?, one),
        };
        result.map_err(|p| self.problem(p, span))
    }

    fn eval_vector(&mut self, frame: &mut HostFrame, parts: &[Expr], ty: &Type, span: Span) -> Eval {
        let Type::Vector(scalar, width) = *ty else {
            return Err(self.internal_error(span, "a vector type was expected"));
        };
        let values = self.eval_all(frame, parts)?;
        grad::ops::compose(&self.exec, scalar, width, &values).map_err(|p| self.problem(p, span))
    }

    fn eval_index(&mut self, frame: &mut HostFrame, base: &Expr, indices: &[Expr], span: Span) -> Eval {
        let value = self.eval(frame, base)?;
        if let (HostValue::Table(_), [name]) = (&value, indices) {
            return match self.eval(frame, name)? {
                HostValue::Str(text) => {
                    grad::ops::named_field(&self.exec, &value, &text).map_err(|p| self.problem(p, span))
                }
                other => Err(self.table_index_error(&value, &other, name.span)),
            };
        }
        let at = match self.eval_positions(frame, base, indices)? {
            IndexSelector::Specs(at) => at,
            IndexSelector::Picks(picks) => {
                return grad::ops::gather(&self.exec, &value, &picks).map_err(|p| self.problem(p, span));
            }
        };
        let base_name = match value {
            HostValue::Str(_) => "the text",
            HostValue::Vector(_) => "the vector",
            _ => "the array",
        };
        grad::ops::index(&self.exec, &value, &at).map_err(|p| self.index_problem(p, base, base_name, indices, span))
    }

    /// Returns the error for an index of a table that is not a column name.
    fn table_index_error(&self, table: &HostValue, given: &HostValue, place: Span) -> Signal {
        let actual = given.type_name();
        let diagnostic = Diagnostic::error("E0505", format!("a table is indexed by a name, not by `{actual}`"));
        let diagnostic = diagnostic.at(place, format!("this is `{actual}`"));
        let first = match ops::keys(table) {
            Ok(HostValue::Strings(names)) => names.first().cloned(),
            _ => None,
        };
        self.error(match first {
            Some(name) => diagnostic.help(format!("`t[{name:?}]` is an array of it, `t[{name:?}][0]` one element")),
            None => diagnostic.help("`keys(t)` gives its names"),
        })
    }

    fn eval_slice(&mut self, frame: &mut HostFrame, base: &Expr, indices: &[SliceIndex], span: Span) -> Eval {
        let value = self.eval(frame, base)?;
        let selected = match self.eval_selector(frame, indices)? {
            IndexSelector::Specs(specs) => grad::ops::index(&self.exec, &value, &specs),
            IndexSelector::Picks(picks) => grad::ops::gather(&self.exec, &value, &picks),
        };
        selected.map_err(|p| self.problem(p, span))
    }

    /// Evaluates an index: a position or a range, or an array of positions (gather) if `lists` is true.
    fn eval_position(&mut self, frame: &mut HostFrame, index: &Expr, lists: bool) -> Eval<GatherIndex> {
        let spec = match self.eval(frame, index)? {
            HostValue::Range(RangeValue { start, end, inclusive, step }) => {
                SliceSpec::Range { start, end, inclusive, step: Some(step) }
            }
            HostValue::Array(array) if lists => return Ok(GatherIndex::Array(array)),
            value => SliceSpec::At(self.as_integer(&value, index.span)?),
        };
        Ok(GatherIndex::Spec(spec))
    }

    /// Evaluates the indices of an element, one for each axis.
    pub(crate) fn eval_positions(
        &mut self,
        frame: &mut HostFrame,
        base: &Expr,
        indices: &[Expr],
    ) -> Eval<IndexSelector> {
        let mut picks = Vec::with_capacity(indices.len());
        for index in indices {
            picks.push(self.eval_position(frame, index, base.ty == Type::Unknown)?);
        }
        Ok(IndexSelector::new(picks))
    }

    pub(crate) fn eval_selector(&mut self, frame: &mut HostFrame, indices: &[SliceIndex]) -> Eval<IndexSelector> {
        let mut picks = Vec::with_capacity(indices.len());
        for index in indices {
            picks.push(match index {
                SliceIndex::At(expr) => self.eval_position(frame, expr, false)?,
                SliceIndex::Of(expr) => self.eval_position(frame, expr, true)?,
                SliceIndex::Range { start, end, inclusive, step } => GatherIndex::Spec(SliceSpec::Range {
                    start: start.as_ref().map(|e| self.eval_integer(frame, e)).transpose()?,
                    end: end.as_ref().map(|e| self.eval_integer(frame, e)).transpose()?,
                    inclusive: *inclusive,
                    step: step.as_ref().map(|e| self.eval_integer(frame, e)).transpose()?,
                }),
            });
        }
        Ok(IndexSelector::new(picks))
    }

    /// Evaluates start, end and step of a range. Returns an error if the step is zero.
    fn range_bounds(
        &mut self,
        frame: &mut HostFrame,
        start: RangeBound<'_>,
        end: RangeBound<'_>,
        step: RangeBound<'_>,
        span: Span,
    ) -> Eval<EvaluatedRange> {
        let mut bound = |e: RangeBound<'_>| e.as_ref().map(|e| self.eval_integer(frame, e)).transpose();
        let (start, end, by) = (bound(start)?, bound(end)?, bound(step)?.unwrap_or(1));
        if by == 0 {
            let place = step.as_ref().map_or(span, |s| s.span);
            let diagnostic = Diagnostic::error("E0516", "a range cannot go in steps of zero").at(place, "this is 0");
            return Err(self.error(diagnostic.help("steps are positive, or negative to count down")));
        }
        Ok((start, end, by))
    }

    fn array_literal(&mut self, frame: &mut HostFrame, items: &[Expr], expr: &Expr) -> Eval {
        let (items, rows) = flatten_rows(items, &expr.ty);
        let mut values = alloc::vec(items.len());
        for item in &items {
            values.push(self.eval(frame, item)?);
        }
        let nested = nested_shape(&expr.ty, values.len()).or(rows);
        if expr.ty == Type::Strings || values.iter().any(|value| matches!(value, HostValue::Str(_))) {
            return match nested {
                None => self.texts_literal(values, &items, expr.span),
                Some(_) => {
                    let diagnostic = Diagnostic::error("E0505", "an array of texts has one axis");
                    Err(self.error(diagnostic.at(expr.span, "this has more")))
                }
            };
        }
        let element = match &expr.ty {
            Type::Array(array) => match self.concrete(frame, &array.element) {
                Type::Unknown => None,
                element => Some(self.interp.caches.layouts.element(self.program, &element)),
            },
            _ => None,
        };
        let is_array = |value: &HostValue| matches!(value, HostValue::Array(_));
        let arrays = values.iter().filter(|value| is_array(value)).count();
        if arrays > 0 && (nested.is_some() || arrays < values.len()) {
            return Err(self.mixed_literal(&values, &items, nested.is_some()));
        }
        let made = grad::ops::literal(&self.exec, &values, element.as_ref()).and_then(|flat| match nested {
            Some(shape) => grad::ops::reshape(&self.exec, &flat, &shape),
            None => Ok(flat),
        });
        made.map_err(|p| self.problem(p, expr.span))
    }

    /// Returns the error for an array literal that mixes arrays and single elements.
    fn mixed_literal(&self, values: &[HostValue], items: &[&Expr], nested: bool) -> Signal {
        let title = match nested {
            true => "the rows of an array literal hold single elements",
            false => "an array literal mixes arrays and single elements",
        };
        let first = |array: bool| {
            let found = values.iter().zip(items).find(|(value, _)| matches!(value, HostValue::Array(_)) == array);
            found.map(|(value, item)| (item.span, format!("this is `{}`", value.type_name())))
        };
        let (span, label) = first(true).unwrap_or_default();
        let diagnostic = Diagnostic::error("E0505", title)
            .at(span, label)
            .help("`stack(a, b)` puts arrays of one shape along a new first axis");
        self.error(match first(false).filter(|_| !nested) {
            Some((span, label)) => diagnostic.because(span, label),
            None => diagnostic,
        })
    }

    /// Returns the number of iterations of a `for` over an array (along its first axis) or an array of texts.
    pub(crate) fn iteration_count(&self, value: &HostValue, span: Span) -> Eval<i64> {
        let count = ops::len(&grad::primal(value)).map_err(|p| self.problem(p, span))?.as_int().unwrap_or(0);
        Ok(count as i64)
    }

    /// Returns the value of the loop variable in iteration `item` of a `for`. Each value is created when it is needed,
    /// because all values together might not fit in memory.
    pub(crate) fn iteration_value(&self, value: &HostValue, item: i64, span: Span) -> Eval {
        grad::ops::index(&self.exec, value, &[SliceSpec::At(item)]).map_err(|p| self.problem(p, span))
    }

    /// Converts a run-time error to a diagnostic with a location.
    pub(crate) fn problem(&self, problem: RuntimeError, span: Span) -> Signal {
        self.problem_because(problem, span, Vec::new)
    }

    /// Converts a run-time error to a diagnostic with a location, and with labels for its causes. A device failure is
    /// reported at the whole statement: it shows when an operand is read, but that operand did not cause it.
    pub(super) fn problem_because(
        &self,
        problem: RuntimeError,
        span: Span,
        causes: impl FnOnce() -> Vec<(Span, String)>,
    ) -> Signal {
        let problem = match problem.code {
            "E0509" | "E0620" => self.largest_arrays(MIN_NAMED_BYTES).into_iter().fold(problem, RuntimeError::note),
            _ => problem,
        };
        match problem.device() {
            Some(error @ (DeviceError::EarlierLaunch(_) | DeviceError::Lost(_))) => {
                return self.device_error(error, self.interp.stack.span);
            }
            Some(_) => return self.error(problem.at(self.interp.stack.span)),
            None => {}
        }
        let causes = causes().into_iter();
        self.error(causes.fold(problem.at(span), |diagnostic, (span, text)| diagnostic.because(span, text)))
    }

    /// Returns an error of an element access with the indices as its location. `base_text` is the label of the array.
    pub(super) fn index_problem(
        &self,
        problem: RuntimeError,
        base: &Expr,
        base_text: &str,
        indices: &[Expr],
        span: Span,
    ) -> Signal {
        let place = indices.first().map_or(span, |i| i.span.to(indices[indices.len() - 1].span));
        self.problem_because(problem, place, || vec![(base.span, base_text.to_string())])
    }

    /// Returns the error of a device, which was noticed at `span`.
    pub(super) fn device_error(&self, error: &DeviceError, span: Span) -> Signal {
        self.error(explain_device_error(self.program, error, span))
    }

    pub(crate) fn error(&self, diagnostic: Diagnostic) -> Signal {
        Signal::Error(Box::new(diagnostic))
    }

    /// Returns the error that is reported instead of a panic if an earlier stage, such as the checker, violated an
    /// invariant.
    pub(crate) fn internal_error(&self, span: Span, what: &str) -> Signal {
        let title = format!("internal error: {what}");
        self.error(
            Diagnostic::error("E0999", title).at(span, "while running this").help("please report this as a bug of Clk"),
        )
    }
}

/// Returns the elements of an array literal. If it consists of nested literals of unknown type, returns all innermost
/// elements, and the shape of the literal.
fn flatten_rows<'e>(items: &'e [Expr], ty: &Type) -> (Vec<&'e Expr>, Option<Vec<i64>>) {
    let (mut items, mut shape): (Vec<&Expr>, _) = (items.iter().collect(), vec![items.len() as i64]);
    let row = |item: &'e Expr| match &item.kind {
        ExprKind::Array(row) if *ty == Type::Unknown && item.ty == Type::Unknown => Some(row),
        _ => None,
    };
    while let Some(rows) =
        items.iter().map(|item| row(item)).collect::<Option<Vec<_>>>().filter(|rows| !rows.is_empty())
    {
        shape.push(rows[0].len() as i64);
        items = rows.into_iter().flatten().collect();
    }
    (items, (shape.len() > 1).then_some(shape))
}

/// Returns the expression of the named argument `name`.
pub(crate) fn named_arg<'e>(named: &'e [(SmolStr, Expr)], name: &str) -> Option<&'e Expr> {
    named.iter().find(|(n, _)| n == name).map(|(_, e)| e)
}
