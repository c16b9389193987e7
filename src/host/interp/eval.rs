//! Evaluation of expressions.

use std::sync::Arc;

use crate::base::diag::Diagnostic;
use crate::base::room;
use crate::base::source::Span;
use crate::check::literal::Literal;
use crate::check::typed::{ConstId, Expr, ExprKind, GlobalId, SliceIndex, SmolStr, Type};
use crate::device::profile::{Standing, standing_at};
use crate::host::array::SliceSpec;
use crate::host::grad;
use crate::host::ops::{self, Pick, Selector, overflow};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Range, Record, Value};
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::Scalar;
use crate::lower::Argument;

use super::code::COMPUTED;
use super::conform::{Extents, Place};
use super::frame::Frame;
use super::machine::{Eval, Machine, Signal};
use super::open::{is_open, nested_shape};

/// A bound of a range expression.
type Bound<'e> = &'e Option<Box<Expr>>;
/// Start, end and step.
type Bounds = (Option<i64>, Option<i64>, i64);

/// The least bytes of an array that is named where memory is short.
const WORTH_NAMING: usize = 1 << 20;

impl Machine<'_> {
    pub(crate) fn eval(&mut self, frame: &mut Frame, expr: &Expr) -> Eval {
        let _standing = self.standing_at(expr.span);
        let value = match self.interp.recorded.is_some() && self.interp.tracing == 0 {
            true => self.noted(frame, expr)?,
            false => self.evaluate(frame, expr)?,
        };
        if cfg!(debug_assertions) {
            self.promised(frame, expr, &value)?;
        }
        Ok(value)
    }

    /// Says where it belongs what expressions launch from now on, if that is counted.
    pub(super) fn standing_at(&self, span: Span) -> Option<Standing> {
        let counting = self.interp.options.control.counting.as_ref();
        counting.filter(|counting| counting.expressions).map(|_| standing_at(span))
    }

    /// Checks a value against the type that the checker inferred. Done for every expression in tests, but omitted otherwise for
    /// speed.
    fn promised(&mut self, frame: &Frame, expr: &Expr, value: &Value) -> Eval<()> {
        let mut extents = Extents { names: frame.dims.clone(), ..Extents::default() };
        if self.fits(frame, &mut extents, &expr.ty, &mut value.clone()).is_ok() {
            return Ok(());
        }
        let promised = crate::check::show_type(self.program, None, &expr.ty);
        Err(self.broken(expr.span, &format!("the check took a `{}` for a `{promised}`", value.type_name())))
    }

    pub(super) fn evaluate(&mut self, frame: &mut Frame, expr: &Expr) -> Eval {
        match &expr.kind {
            ExprKind::Int(value) => self.literal(frame, Literal::Int(*value), &expr.ty, expr.span),
            ExprKind::Float(value) => self.literal(frame, Literal::Float(*value), &expr.ty, expr.span),
            ExprKind::Bool(value) => Ok(Value::bool(*value)),
            ExprKind::Str(parts) => self.string(frame, parts),
            ExprKind::Local(local) if local.index() >= COMPUTED => {
                self.computed(frame, local.index() - COMPUTED, expr.span)
            }
            ExprKind::Local(local) => match frame.get(*local) {
                Some(value) => Ok(value),
                None => Err(self.unset(expr.span)),
            },
            ExprKind::Global(id) => self.global(*id, expr.span),
            ExprKind::Const(id) => {
                let source = &self.program.consts[*id].value;
                if let Some((of, value)) = self.interp.constants.get(id)
                    && Arc::ptr_eq(of, source)
                {
                    return Ok(value.clone());
                }
                if self.interp.computing.contains(id) {
                    return Err(self.circular(*id, expr.span));
                }
                let source = source.clone();
                self.interp.computing.push(*id);
                let value = self.eval(&mut Frame::empty(), &source);
                self.interp.computing.pop();
                let value = value?;
                self.interp.constants.insert(*id, (source, value.clone()));
                Ok(value)
            }
            ExprKind::ConstParam(i) => match frame.generics.get(*i as usize) {
                Some(Argument::Const(value)) => Ok(Value::Scalar(*value)),
                _ => Err(self.broken(expr.span, "a const parameter has no value")),
            },
            ExprKind::Dim(i) => match frame.dims.get(*i as usize) {
                Some(Some(extent)) => Ok(Value::i32(*extent as i32)),
                _ => Err(self.broken(expr.span, "a dimension has no value yet")),
            },
            ExprKind::Variable(Builtin::Args) => {
                Ok(Value::Strings(self.interp.options.args.iter().map(SmolStr::new).collect()))
            }
            ExprKind::Variable(_) => Err(self.broken(expr.span, "a device variable reached the host")),
            ExprKind::Unary { op, expr: inner } => self.unary(frame, *op, inner, expr.span),
            ExprKind::Binary { op, left, right } => self.binary(frame, *op, left, right, expr.span),
            ExprKind::Convert { to, expr: inner } => {
                let value = self.eval(frame, inner)?;
                self.sound(expr.span, || overflow::of_conversion(*to, &value))?;
                grad::ops::convert(*to, &value).map_err(|p| self.problem(p, expr.span))
            }
            ExprKind::ConvertParam { to, expr: inner } => self.convert_param(frame, *to, inner, expr.span),
            ExprKind::Bitcast { expr: inner } => {
                let value = self.eval(frame, inner)?;
                if let (Value::Array(array), Type::Array(ty)) = (&value, &expr.ty) {
                    let to = self.concrete(frame, &ty.element);
                    let to = self.interp.layouts.element(self.program, &to);
                    return ops::bitcast_array(to, array).map_err(|p| self.problem(p, expr.span));
                }
                let to = self.scalar_of(frame, &expr.ty, expr.span)?;
                grad::ops::bitcast(to, &value).map_err(|p| self.problem(p, expr.span))
            }
            ExprKind::Vector { parts } => self.vector(frame, parts, &expr.ty, expr.span),
            ExprKind::Swizzle { base, lanes } => {
                let base = self.eval(frame, base)?;
                grad::ops::swizzle(&base, lanes).map_err(|p| self.problem(p, expr.span))
            }
            ExprKind::Field { base, field } | ExprKind::TupleField { base, field } => {
                let base = self.eval(frame, base)?;
                ops::field(&base, *field as usize).map_err(|p| self.problem(p, expr.span))
            }
            ExprKind::DynField { base, name } => {
                let base = self.eval(frame, base)?;
                grad::ops::named_field(&base, name).map_err(|p| self.problem(p, expr.span))
            }
            ExprKind::Index { base, indices } => self.index(frame, base, indices, expr.span),
            ExprKind::Slice { base, indices } => self.slice(frame, base, indices, expr.span),
            ExprKind::Call { callee, args } => self.call(frame, callee, args, expr.span),
            ExprKind::Lift { callee, args } => self.lift(frame, callee, args, expr),
            ExprKind::Builtin { builtin, args, named } => self.builtin(frame, *builtin, args, named, expr),
            ExprKind::Derive(derive) => self.derive(frame, derive, expr.span),
            ExprKind::Stated(stated) => self.stated(frame, stated, expr.span),
            ExprKind::Launch(launch) => self.launch(frame, launch, expr.span),
            ExprKind::Range { start, end, inclusive, step } => {
                let (start, end, step) = self.range_bounds(frame, start, end, step, expr.span)?;
                Ok(Value::Range(Range { start, end, step, inclusive: *inclusive }))
            }
            ExprKind::If { .. } | ExprKind::Block(_) => self.by_itself(frame, expr),
            ExprKind::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.eval(frame, p)).collect::<Eval<Vec<_>>>()?;
                Ok(if parts.is_empty() { Value::Unit } else { Value::Tuple(parts) })
            }
            ExprKind::Array(items) => self.array_literal(frame, items, expr),
            ExprKind::Struct { id, fields } => {
                let mut values = Vec::with_capacity(fields.len());
                for (expr, field) in fields.iter().zip(&self.program.structs[*id].fields) {
                    let mut value = self.eval(frame, expr)?;
                    if let Err(misfit) = self.fits(frame, &mut Extents::default(), &field.ty, &mut value) {
                        let wanted = crate::check::show_type(self.program, None, &field.ty);
                        let what = format!("the field `{}` is declared as `{wanted}`", field.name);
                        let place = Place { code: "E0524", what, declared: Some(field.span) };
                        return Err(self.misfit(&misfit, &place, &value, expr.span));
                    }
                    values.push(value);
                }
                let layout = self.interp.layouts.of_struct(self.program, *id);
                Ok(Value::Record(Record { layout, fields: values }))
            }
            ExprKind::Time(block) => self.time(frame, block),
            ExprKind::Error => Err(self.broken(expr.span, "a program with errors ran")),
        }
    }

    /// Stops a run with arithmetic checks at an operation that loses information, such as an overflow.
    pub(crate) fn sound(&self, span: Span, check: impl FnOnce() -> Outcome<()>) -> Eval<()> {
        if self.checked() { check().map_err(|problem| self.problem(problem, span)) } else { Ok(()) }
    }

    /// Evaluates a condition.
    pub(crate) fn truth(&mut self, frame: &mut Frame, cond: &Expr) -> Eval<bool> {
        let value = self.eval(frame, cond)?;
        self.truth_of(&value, cond.span)
    }

    /// Returns the value of a condition.
    pub(super) fn truth_of(&self, value: &Value, span: Span) -> Eval<bool> {
        match value.as_bool() {
            Some(b) => Ok(b),
            None => Err(self.error(
                Diagnostic::error("E0513", format!("a condition has to be `bool`, not `{}`", value.type_name()))
                    .at(span, "decides which way to go")
                    .help("compare it: `x != 0`, or `all(x > 0)` for an array"),
            )),
        }
    }

    /// Evaluates an integer of any type.
    pub(crate) fn integer(&mut self, frame: &mut Frame, expr: &Expr) -> Eval<i64> {
        let value = self.eval(frame, expr)?;
        self.as_integer(&value, expr.span)
    }

    pub(super) fn as_integer(&self, value: &Value, span: Span) -> Eval<i64> {
        match value.as_int().and_then(|i| i64::try_from(i).ok()) {
            Some(i) => Ok(i),
            None => Err(self.error(
                Diagnostic::error("E0514", format!("an integer is needed here, not `{}`", value.type_name()))
                    .at(span, format!("this is `{}`", value.type_name())),
            )),
        }
    }

    /// Evaluates a number literal; an error if its type is a type parameter that turns out not to fit it.
    fn literal(&mut self, frame: &Frame, number: Literal, ty: &Type, span: Span) -> Eval {
        match (self.concrete(frame, ty), number) {
            (Type::Scalar(s), _) => match number.to(s) {
                Some(number) => Ok(Value::Scalar(number)),
                None => Err(self.error(number.misfit(s, span))),
            },
            (Type::Unknown, Literal::Int(number)) => Ok(Value::Int(number)),
            (Type::Unknown, Literal::Float(number)) => Ok(Value::Float(number.as_f64())),
            _ => Err(self.broken(span, "a literal without a number's type")),
        }
    }

    /// Returns the type with the frame's type arguments substituted.
    pub(crate) fn concrete(&self, frame: &Frame, ty: &Type) -> Type {
        match ty {
            Type::Param(i) => match frame.generics.get(*i as usize) {
                Some(Argument::Type(ty)) => ty.clone(),
                _ => Type::Unknown,
            },
            Type::Tuple(parts) => Type::Tuple(parts.iter().map(|p| self.concrete(frame, p)).collect()),
            other => other.clone(),
        }
    }

    pub(crate) fn scalar_of(&mut self, frame: &Frame, ty: &Type, span: Span) -> Eval<Scalar> {
        match self.concrete(frame, ty) {
            Type::Scalar(s) | Type::Vector(s, _) => Ok(s),
            Type::Array(array) => match array.element {
                Type::Scalar(s) | Type::Vector(s, _) => Ok(s),
                _ => Err(self.broken(span, "an array of scalars was expected")),
            },
            _ => Err(self.broken(span, "a scalar type was expected")),
        }
    }

    fn global(&mut self, id: GlobalId, span: Span) -> Eval {
        match self.interp.globals.get(id.index()) {
            Some(Some(value)) => Ok(value.clone()),
            _ => Err(self.unset(span)),
        }
    }

    /// Returns the error for a constant that depends on itself through functions; the checker reports direct cycles.
    fn circular(&self, id: ConstId, span: Span) -> Signal {
        let constant = &self.program.consts[id];
        let diagnostic = Diagnostic::error("E0489", "a constant cannot be computed")
            .at(span, format!("this needs the value of `{}`, which is just being computed", constant.name))
            .because(constant.value.span, "computed from this");
        self.error(diagnostic)
    }

    pub(super) fn unset(&self, span: Span) -> Signal {
        let diagnostic =
            Diagnostic::error("E0515", "this variable has no value yet").at(span, "read before it is written");
        self.error(diagnostic.help("give it a value where it is declared"))
    }

    fn unary(&mut self, frame: &mut Frame, op: UnaryOp, inner: &Expr, span: Span) -> Eval {
        let value = self.eval(frame, inner)?;
        self.sound(span, || overflow::of_unary(op, &value))?;
        grad::ops::unary(op, &value).map_err(|p| self.problem(p, span))
    }

    fn binary(&mut self, frame: &mut Frame, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> Eval {
        if op.is_logical() {
            let first = self.truth(frame, left)?;
            return match (op, first) {
                (BinaryOp::And, false) => Ok(Value::bool(false)),
                (BinaryOp::Or, true) => Ok(Value::bool(true)),
                _ => self.truth(frame, right).map(Value::bool),
            };
        }
        let (mut a, mut b) = (self.eval(frame, left)?, self.eval(frame, right)?);
        if is_open(left) || is_open(right) {
            let mut operands = [a, b];
            self.adapt_literals(frame, &[left, right], &mut operands, &format!("`{}`", op.symbol()))?;
            [a, b] = operands;
        }
        self.sound(span, || overflow::of_binary(op, &a, &b))?;
        grad::ops::binary(op, &a, &b).map_err(|problem| {
            self.problem_because(problem, span, || {
                vec![(left.span, format!("`{}`", a.type_name())), (right.span, format!("`{}`", b.type_name()))]
            })
        })
    }

    fn convert_param(&mut self, frame: &mut Frame, to: u32, inner: &Expr, span: Span) -> Eval {
        let value = self.eval(frame, inner)?;
        match self.concrete(frame, &Type::Param(to)) {
            Type::Scalar(s) => {
                self.sound(span, || overflow::of_conversion(s, &value))?;
                grad::ops::convert(s, &value).map_err(|p| self.problem(p, span))
            }
            _ => Ok(value),
        }
    }

    /// Evaluates `bitcast(u32, x)` where only the run shows whether `x` is an array. The type is a named argument.
    pub(super) fn open_bitcast(&mut self, frame: &mut Frame, args: &[Expr], to: Option<&Expr>, span: Span) -> Eval {
        let (Some(value), Some(to)) = (args.first(), to) else { return Err(self.broken(span, "`bitcast` of nothing")) };
        let value = self.eval(frame, value)?;
        let result = match &value {
            Value::Array(array) => {
                let to = self.concrete(frame, &to.ty);
                ops::bitcast_array(self.interp.layouts.element(self.program, &to), array)
            }
            one => grad::ops::bitcast(self.scalar_of(frame, &to.ty, span)?, one),
        };
        result.map_err(|p| self.problem(p, span))
    }

    fn vector(&mut self, frame: &mut Frame, parts: &[Expr], ty: &Type, span: Span) -> Eval {
        let Type::Vector(scalar, width) = *ty else { return Err(self.broken(span, "a vector type was expected")) };
        let values = self.values(frame, parts)?;
        grad::ops::compose(scalar, width, &values).map_err(|p| self.problem(p, span))
    }

    fn index(&mut self, frame: &mut Frame, base: &Expr, indices: &[Expr], span: Span) -> Eval {
        let value = self.eval(frame, base)?;
        if let (Value::Table(_), [name]) = (&value, indices) {
            return match self.eval(frame, name)? {
                Value::Str(text) => grad::ops::named_field(&value, &text).map_err(|p| self.problem(p, span)),
                other => Err(self.no_name(&value, &other, name.span)),
            };
        }
        let at = match self.positions(frame, base, indices)? {
            Selector::Specs(at) => at,
            Selector::Picks(picks) => return grad::ops::gather(&value, &picks).map_err(|p| self.problem(p, span)),
        };
        let what = match value {
            Value::Str(_) => "the text",
            Value::Vector(_) => "the vector",
            _ => "the array",
        };
        grad::ops::index(&value, &at).map_err(|p| self.index_problem(p, (base, what), indices, span))
    }

    /// Returns the error for a table index that is not a name.
    fn no_name(&self, table: &Value, given: &Value, place: Span) -> Signal {
        let found = given.type_name();
        let diagnostic = Diagnostic::error("E0505", format!("a table is indexed by a name, not by `{found}`"));
        let diagnostic = diagnostic.at(place, format!("this is `{found}`"));
        let first = match ops::keys(table) {
            Ok(Value::Strings(names)) => names.first().cloned(),
            _ => None,
        };
        self.error(match first {
            Some(name) => diagnostic.help(format!("`t[{name:?}]` is an array of it, `t[{name:?}][0]` one element")),
            None => diagnostic.help("`keys(t)` gives its names"),
        })
    }

    fn slice(&mut self, frame: &mut Frame, base: &Expr, indices: &[SliceIndex], span: Span) -> Eval {
        let value = self.eval(frame, base)?;
        let selected = match self.selector(frame, indices)? {
            Selector::Specs(specs) => grad::ops::index(&value, &specs),
            Selector::Picks(picks) => grad::ops::gather(&value, &picks),
        };
        selected.map_err(|p| self.problem(p, span))
    }

    /// Evaluates an index: a position, or what is known to be a range only at run time. It may be an array where the type of the
    /// result does not say otherwise.
    fn position(&mut self, frame: &mut Frame, index: &Expr, lists: bool) -> Eval<Pick> {
        let spec = match self.eval(frame, index)? {
            Value::Range(Range { start, end, inclusive, step }) => {
                SliceSpec::Range { start, end, inclusive, step: Some(step) }
            }
            Value::Array(array) if lists => return Ok(Pick::Array(array)),
            value => SliceSpec::At(self.as_integer(&value, index.span)?),
        };
        Ok(Pick::Spec(spec))
    }

    /// Evaluates one index per axis of an element.
    pub(crate) fn positions(&mut self, frame: &mut Frame, base: &Expr, indices: &[Expr]) -> Eval<Selector> {
        let mut picks = Vec::with_capacity(indices.len());
        for index in indices {
            picks.push(self.position(frame, index, base.ty == Type::Unknown)?);
        }
        Ok(Selector::new(picks))
    }

    pub(crate) fn selector(&mut self, frame: &mut Frame, indices: &[SliceIndex]) -> Eval<Selector> {
        let mut picks = Vec::with_capacity(indices.len());
        for index in indices {
            picks.push(match index {
                SliceIndex::At(expr) => self.position(frame, expr, false)?,
                SliceIndex::Of(expr) => self.position(frame, expr, true)?,
                SliceIndex::Range { start, end, inclusive, step } => Pick::Spec(SliceSpec::Range {
                    start: start.as_ref().map(|e| self.integer(frame, e)).transpose()?,
                    end: end.as_ref().map(|e| self.integer(frame, e)).transpose()?,
                    inclusive: *inclusive,
                    step: step.as_ref().map(|e| self.integer(frame, e)).transpose()?,
                }),
            });
        }
        Ok(Selector::new(picks))
    }

    /// Evaluates start, end and step of a range; the step is not zero.
    fn range_bounds(
        &mut self,
        frame: &mut Frame,
        start: Bound<'_>,
        end: Bound<'_>,
        step: Bound<'_>,
        span: Span,
    ) -> Eval<Bounds> {
        let mut bound = |e: Bound<'_>| e.as_ref().map(|e| self.integer(frame, e)).transpose();
        let (start, end, by) = (bound(start)?, bound(end)?, bound(step)?.unwrap_or(1));
        if by == 0 {
            let place = step.as_ref().map_or(span, |s| s.span);
            let diagnostic = Diagnostic::error("E0516", "a range cannot go in steps of zero").at(place, "this is 0");
            return Err(self.error(diagnostic.help("steps are positive, or negative to count down")));
        }
        Ok((start, end, by))
    }

    fn array_literal(&mut self, frame: &mut Frame, items: &[Expr], expr: &Expr) -> Eval {
        let (items, rows) = in_rows(items, &expr.ty);
        let mut values = room::vec(items.len());
        for item in &items {
            values.push(self.eval(frame, item)?);
        }
        let nested = nested_shape(&expr.ty, values.len()).or(rows);
        if expr.ty == Type::Strings || values.iter().any(|value| matches!(value, Value::Str(_))) {
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
                element => Some(self.interp.layouts.element(self.program, &element)),
            },
            _ => None,
        };
        let is_array = |value: &Value| matches!(value, Value::Array(_));
        let arrays = values.iter().filter(|value| is_array(value)).count();
        if arrays > 0 && (nested.is_some() || arrays < values.len()) {
            return Err(self.mixed_literal(&values, &items, nested.is_some()));
        }
        let made = grad::ops::literal(&values, element.as_ref()).and_then(|flat| match nested {
            Some(shape) => grad::ops::reshape(&flat, &shape),
            None => Ok(flat),
        });
        made.map_err(|p| self.problem(p, expr.span))
    }

    /// Returns the error for an array literal that mixes arrays and single elements.
    fn mixed_literal(&self, values: &[Value], items: &[&Expr], nested: bool) -> Signal {
        let title = match nested {
            true => "the rows of an array literal hold single elements",
            false => "an array literal mixes arrays and single elements",
        };
        let first = |array: bool| {
            let found = values.iter().zip(items).find(|(value, _)| matches!(value, Value::Array(_)) == array);
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

    /// Returns the number of iterations of a `for` over an array (along its first axis) or over texts.
    pub(crate) fn items_of(&self, value: &Value, span: Span) -> Eval<i64> {
        let count = ops::len(&grad::primal(value)).map_err(|p| self.problem(p, span))?.as_int().unwrap_or(0);
        Ok(count as i64)
    }

    /// Returns the value of one iteration; created on demand, since all together might not fit into memory.
    pub(crate) fn item_of(&self, value: &Value, item: i64, span: Span) -> Eval {
        grad::ops::index(value, &[SliceSpec::At(item)]).map_err(|p| self.problem(p, span))
    }

    /// Returns a problem as a diagnostic with a location.
    pub(crate) fn problem(&self, problem: Problem, span: Span) -> Signal {
        self.problem_because(problem, span, Vec::new)
    }

    /// Returns a problem as a diagnostic with a location and labels on what has caused it. The failure of a device has other
    /// causes: it belongs to the whole statement, whose operand happened to be read first.
    pub(super) fn problem_because(
        &self,
        problem: Problem,
        span: Span,
        causes: impl FnOnce() -> Vec<(Span, String)>,
    ) -> Signal {
        let problem = match problem.code {
            "E0509" | "E0620" => self.largest_arrays(WORTH_NAMING).into_iter().fold(problem, Problem::note),
            _ => problem,
        };
        if problem.device().is_some() {
            return self.error(problem.at(self.interp.at));
        }
        let causes = causes().into_iter();
        self.error(causes.fold(problem.at(span), |diagnostic, (span, text)| diagnostic.because(span, text)))
    }

    pub(super) fn index_problem(&self, problem: Problem, base: (&Expr, &str), indices: &[Expr], span: Span) -> Signal {
        let place = indices.first().map_or(span, |i| i.span.to(indices[indices.len() - 1].span));
        self.problem_because(problem, place, || vec![(base.0.span, base.1.to_string())])
    }

    pub(crate) fn error(&self, diagnostic: Diagnostic) -> Signal {
        Signal::Error(Box::new(diagnostic))
    }

    /// Returns the internal error for a violated invariant of an earlier stage, instead of a panic.
    pub(crate) fn broken(&self, span: Span, what: &str) -> Signal {
        let title = format!("internal error: {what}");
        self.error(
            Diagnostic::error("E0999", title).at(span, "while running this").help("please report this as a bug of Clk"),
        )
    }
}

/// Returns the elements of an array literal, and its shape if it consists of nested rows of unknown type.
fn in_rows<'e>(items: &'e [Expr], ty: &Type) -> (Vec<&'e Expr>, Option<Vec<i64>>) {
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

/// Returns a named argument.
pub(crate) fn named<'e>(named: &'e [(SmolStr, Expr)], name: &str) -> Option<&'e Expr> {
    named.iter().find(|(n, _)| n == name).map(|(_, e)| e)
}
