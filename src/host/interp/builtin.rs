//! Evaluates builtins on the host.

use crate::grad;
use crate::ops::{self, ReduceKind, SortOrder, overflow};
use crate::picture::chart::ChartKind;
use crate::problem::HostResult;
use crate::value::HostValue;
use crate::{files, format};
use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_base::source::Span;
use clk_base::{alloc, stop};
use clk_check::typed::{Expr, ExprKind, SmolStr, Type};
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, MathFn};

use super::context::{Eval, EvalContext, Signal};
use super::eval::named_arg;
use super::frame::HostFrame;

/// The named arguments of a call.
pub(super) type NamedArgs<'e> = &'e [(SmolStr, Expr)];

impl EvalContext<'_> {
    pub(crate) fn eval_builtin(
        &mut self,
        frame: &mut HostFrame,
        builtin: Builtin,
        args: &[Expr],
        more: NamedArgs<'_>,
        expr: &Expr,
    ) -> Eval {
        use Builtin::*;
        let span = expr.span;
        match builtin {
            Print => self.print(frame, args).map(|()| HostValue::Unit),
            Assert => self.assert(frame, args).map(|()| HostValue::Unit),
            Load => self.load_file(frame, args, span),
            Save => self.save_file(frame, args, more, span),
            Image | Heat => self.raster_builtin(frame, builtin == Heat, (args, more), span),
            Plot => self.chart_builtin(frame, ChartKind::Plot, (args, more), span),
            Scatter => self.chart_builtin(frame, ChartKind::Scatter, (args, more), span),
            Bar => self.chart_builtin(frame, ChartKind::Bar, (args, more), span),
            Hist => self.chart_builtin(frame, ChartKind::Hist, (args, more), span),
            Sum | Prod | Mean | Argmin | Argmax | All | Any => self.reduce(frame, builtin, args, more, expr),
            Math(f @ (MathFn::Min | MathFn::Max)) if args.len() == 1 => {
                let kind = if f == MathFn::Min { ReduceKind::Min } else { ReduceKind::Max };
                self.reduce_with(frame, kind, args, more, expr)
            }
            Cumsum | Dot => {
                let to = self.total_type(frame, &expr.ty);
                let mut values = self.eval_all(frame, args)?;
                self.adapt_arguments(frame, args, &mut values, builtin)?;
                let axis = match named_arg(more, "axis") {
                    Some(axis) => Some(self.eval_integer(frame, axis)?),
                    None => None,
                };
                self.locate_error(
                    match &values[..] {
                        [a, b] => grad::ops::dot_to(&self.exec, a, b, to),
                        [x] => grad::ops::cumsum_to(&self.exec, x, axis, to),
                        _ => return Err(self.internal_error(span, "a wrong number of arguments")),
                    },
                    span,
                )
            }
            Zeros | Ones | Full | Eye | Random | RandomNormal | RandomInt | Linspace | Arange => {
                self.create_array(frame, builtin, args, more, expr)
            }
            Parse => self.parse(frame, args, more, expr),
            Bitcast => self.dynamic_bitcast(frame, args, named_arg(more, "type"), span),
            ReadText => self.read_text(frame, args, span),
            WriteText => self.write_text(frame, args, span),
            SeedRandom => self.seed_random(frame, args, span),
            Exit => self.exit(frame, args, span),
            Gpus => self.eval_gpus(frame, args, span),
            Shard => self.eval_shard(frame, args, more, span),
            RankFn(what) => self.eval_collective(frame, what, args, more, expr),
            NoGrad => match args {
                [x] => {
                    let value = grad::primal(&self.eval(frame, x)?);
                    Ok(self.interp.derivatives.no_grad.capture(value))
                }
                _ => Err(self.internal_error(span, "a wrong number of arguments")),
            },
            _ => {
                let mut values = self.eval_all(frame, args)?;
                self.adapt_arguments(frame, args, &mut values, builtin)?;
                if self.interp.derivatives.depth > 0 && !has_derivative(builtin) {
                    values.iter_mut().for_each(|value| *value = grad::primal(value));
                }
                self.check_arithmetic(span, || match (builtin, &values[..]) {
                    (Math(f), values) => overflow::check_math(f, values),
                    (CeilDiv, [x, y]) => overflow::check_binary(BinaryOp::Div, x, y),
                    _ => Ok(()),
                })?;
                let result = self.eval_pure_builtin(frame, builtin, &values, more, span)?;
                self.locate_error(result, span)
            }
        }
    }

    /// Evaluates a builtin whose result depends only on the values of its arguments.
    fn eval_pure_builtin(
        &mut self,
        frame: &mut HostFrame,
        builtin: Builtin,
        values: &[HostValue],
        more: NamedArgs<'_>,
        span: Span,
    ) -> Eval<HostResult<HostValue>> {
        use Builtin::*;
        let axis = match named_arg(more, "axis") {
            Some(axis) => Some(self.eval_integer(frame, axis)?),
            None => None,
        };
        let descending = match named_arg(more, "descending") {
            Some(descending) => self.eval(frame, descending)?.as_bool() == Some(true),
            None => false,
        };
        Ok(match (builtin, values) {
            (Math(f), values) => grad::ops::math(&self.exec, f, values),
            (Keys, [x]) => ops::keys(x),
            (Gather, [x]) => ops::gather_shards(x),
            (Text(f), values) => ops::text::call(f, values),
            (Select, [cond, then, other]) => grad::ops::select(&self.exec, cond, then, other),
            (CeilDiv, [x, y]) => ops::ceil_div(&self.exec, x, y),
            (Cross, [a, b]) => grad::ops::cross(&self.exec, a, b),
            (Length, [v]) => grad::ops::length(&self.exec, v),
            (Normalize, [v]) => grad::ops::normalize(&self.exec, v),
            (Len, [x]) => ops::len(x),
            (Shape, [x]) => ops::shape(x, None),
            (Shape, [x, axis]) => ops::shape(x, axis.as_int().and_then(|a| i64::try_from(a).ok())),
            (Close, [a, b, tolerances @ ..]) => {
                let mut tolerance =
                    |i: usize, name: &str, default: f64| match (tolerances.get(i), named_arg(more, name)) {
                        (Some(given), _) => self.tolerance(name, given, span),
                        (None, Some(given)) => {
                            let value = self.eval(frame, given)?;
                            self.tolerance(name, &value, given.span)
                        }
                        (None, None) => Ok(default),
                    };
                let (rtol, atol) = (tolerance(0, "rtol", 1e-5)?, tolerance(1, "atol", 1e-8)?);
                ops::close(&self.exec, a, b, rtol, atol)
            }
            (Reshape, [x, dims @ ..]) => {
                let dims = dims.iter().flat_map(HostValue::parts).map(|dim| self.as_integer(dim, span));
                grad::ops::reshape(&self.exec, x, &dims.collect::<Eval<Vec<i64>>>()?)
            }
            (Transpose, [x]) => grad::ops::transpose(&self.exec, x, None),
            (Transpose, [x, axes]) => grad::ops::transpose(&self.exec, x, Some(&self.axis_list(axes, span)?)),
            (Concat, parts) => grad::ops::concat(&self.exec, parts, axis.unwrap_or(0)),
            (Stack, parts) => grad::ops::stack(&self.exec, parts, axis.unwrap_or(0)),
            (Sort, [x]) => grad::ops::sort(&self.exec, x, SortOrder { axis, descending }),
            (Sort, [keys, values]) => grad::ops::sort_with(&self.exec, keys, values, descending),
            (Argsort, [x]) => ops::argsort(&self.exec, x, SortOrder { axis, descending }),
            (Einsum, [HostValue::Str(subscripts), operands @ ..]) => {
                grad::einsum::einsum(&self.exec, subscripts, operands)
            }
            (Flip, [x]) => grad::ops::flip(&self.exec, x, axis.unwrap_or(0)),
            (Flip, [x, axis]) => {
                grad::ops::flip(&self.exec, x, axis.as_int().and_then(|a| i64::try_from(a).ok()).unwrap_or(0))
            }
            _ => return Err(self.internal_error(Span::default(), "a builtin that the host does not have")),
        })
    }

    pub(super) fn locate_error<T>(&self, result: HostResult<T>, span: Span) -> Eval<T> {
        result.map_err(|p| self.problem(p, span))
    }

    pub(crate) fn eval_all(&mut self, frame: &mut HostFrame, args: &[Expr]) -> Eval<Vec<HostValue>> {
        let mut values = alloc::vec(args.len());
        for arg in stop::polled(args) {
            values.push(self.eval(frame, arg)?);
        }
        Ok(values)
    }

    /// Evaluates `assert(cond, "message {x}")`.
    fn assert(&mut self, frame: &mut HostFrame, args: &[Expr]) -> Eval<()> {
        let Some(cond) = args.first() else { return Ok(()) };
        let draws = self.interp.random_position;
        let value = self.eval(frame, cond)?;
        let wrong = match &value {
            HostValue::Array(array) if array.scalar() == Some(Scalar::Bool) => {
                let array = array.clone().fetched().map_err(|p| self.problem(p, cond.span))?;
                match array.bytes().iter().position(|&b| b == 0) {
                    None => return Ok(()),
                    Some(first) => Some((array, first)),
                }
            }
            other if other.as_bool() == Some(true) => return Ok(()),
            _ => None,
        };
        let message = match args.get(1) {
            Some(message) => self.eval(frame, message)?,
            None => HostValue::Unit,
        };
        let title = match &message {
            HostValue::Str(text) if !text.is_empty() => format!("assertion failed: {text}"),
            _ => "assertion failed".to_string(),
        };
        let mut diagnostic = Diagnostic::error("E0530", title).at(cond.span, "this is not true");
        // The operands are evaluated again for the message. Restoring the random position gives them the same values.
        self.interp.random_position = draws;
        if let Some((array, first)) = wrong {
            let at = format_indices(first, array.shape());
            let count = array.bytes().iter().filter(|&&b| b == 0).count();
            let others =
                if count > 1 { format!(", and {} more of {}", count - 1, array.count()) } else { String::new() };
            diagnostic = diagnostic.note(format!("it fails at {at}{others}"));
            diagnostic = self.show_operands(frame, cond, first, array.shape(), diagnostic)?;
        } else {
            diagnostic = self.show_operands(frame, cond, 0, &[], diagnostic)?;
        }
        Err(self.error(diagnostic))
    }

    /// If the failed condition is a comparison, adds the values of its operands to the diagnostic.
    fn show_operands(
        &mut self,
        frame: &mut HostFrame,
        cond: &Expr,
        at: usize,
        shape: &[usize],
        mut diagnostic: Diagnostic,
    ) -> Eval<Diagnostic> {
        let sides: Vec<&Expr> = match &cond.kind {
            ExprKind::Binary { op, left, right } if op.is_comparison() => vec![left, right],
            ExprKind::Builtin { builtin: Builtin::Close | Builtin::All, args, .. } => args.iter().take(2).collect(),
            _ => return Ok(diagnostic),
        };
        let is_equality = matches!(cond.kind, ExprKind::Binary { op: BinaryOp::Eq, .. });
        let mut numbers = vec![];
        let mut shapes = vec![];
        for side in sides {
            if let ExprKind::Float(number) = side.kind {
                numbers.push(number.as_f64());
            }
            if matches!(side.kind, ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_)) {
                continue;
            }
            let Ok(value) = self.eval(frame, side) else { continue };
            if let HostValue::Array(array) = &value {
                shapes.push(array.shape().to_vec());
            }
            numbers.extend(value.as_scalar().filter(|value| value.ty.is_float()).map(|value| value.as_f64()));
            let shown = match &value {
                HostValue::Array(array) if array.shape() == shape => array.item(at),
                HostValue::Strings(texts) if [texts.len()] == shape => Ok(texts.get(at).cloned().map(HostValue::Str)),
                HostValue::Array(_) | HostValue::Strings(_) => Ok(None),
                other => Ok(Some(other.clone())),
            };
            let shown = shown.and_then(|shown| shown.as_ref().map(format::print_brief).transpose());
            if let Some(shown) = shown.map_err(|p| self.problem(p, side.span))? {
                diagnostic = diagnostic.because(side.span, format!("this is {shown}"));
            }
        }
        if let ([left, right], true) = (&numbers[..], is_equality)
            && (left - right).abs() <= 1e-5 * f64::max(left.abs(), right.abs())
        {
            diagnostic = diagnostic.help("floats are rounded: `close(a, b)` compares them with a tolerance");
        }
        if let [left, right] = &shapes[..]
            && left != right
        {
            let note = format!("the shapes differ: {left:?} and {right:?} are compared as {shape:?}, by broadcasting");
            diagnostic = diagnostic.note(note);
        }
        Ok(diagnostic)
    }

    fn reduce(
        &mut self,
        frame: &mut HostFrame,
        builtin: Builtin,
        args: &[Expr],
        more: NamedArgs<'_>,
        expr: &Expr,
    ) -> Eval {
        let kind = match builtin {
            Builtin::Sum => ReduceKind::Sum,
            Builtin::Prod => ReduceKind::Prod,
            Builtin::Mean => ReduceKind::Mean,
            Builtin::Argmin => ReduceKind::Argmin,
            Builtin::Argmax => ReduceKind::Argmax,
            Builtin::All => ReduceKind::All,
            _ => ReduceKind::Any,
        };
        self.reduce_with(frame, kind, args, more, expr)
    }

    /// Returns the type of an integer sum or product. Returns `None` for floats, and if the checker does not know the
    /// type.
    fn total_type(&self, frame: &HostFrame, ty: &Type) -> Option<Scalar> {
        match self.concrete(frame, ty) {
            Type::Scalar(s) | Type::Vector(s, _) => Some(s).filter(|s| s.is_int()),
            Type::Array(array) => self.total_type(frame, &array.element),
            _ => None,
        }
    }

    /// Returns the axes that the `axis` argument of a reduction specifies: an integer, or a tuple of integers.
    fn axis_list(&self, value: &HostValue, span: Span) -> Eval<Vec<i64>> {
        value.parts().iter().map(|part| self.as_integer(part, span)).collect()
    }

    fn reduce_with(
        &mut self,
        frame: &mut HostFrame,
        kind: ReduceKind,
        args: &[Expr],
        more: NamedArgs<'_>,
        expr: &Expr,
    ) -> Eval {
        let span = expr.span;
        let values = self.eval_all(frame, args)?;
        let axes = match (named_arg(more, "axis"), values.get(1)) {
            (Some(axis), _) => {
                let value = self.eval(frame, axis)?;
                Some(self.axis_list(&value, axis.span)?)
            }
            (None, Some(axis)) => Some(self.axis_list(axis, span)?),
            (None, None) => None,
        };
        let Some(value) = values.first() else { return Err(self.internal_error(span, "a reduction of nothing")) };
        let to = match kind {
            ReduceKind::Sum | ReduceKind::Prod => self.total_type(frame, &expr.ty),
            _ => None,
        };
        self.locate_error(grad::ops::reduce_to(&self.exec, kind, value, axes.as_deref(), to), span)
    }

    pub(super) fn text_argument(&mut self, frame: &mut HostFrame, args: &[Expr], span: Span) -> Eval<SmolStr> {
        let Some(first) = args.first() else { return Err(self.internal_error(span, "a text was expected")) };
        match self.eval(frame, first)? {
            HostValue::Str(text) => Ok(text),
            other => {
                let actual = other.type_name();
                let diagnostic = Diagnostic::error("E0505", format!("a text is needed here, not `{actual}`"));
                let diagnostic = diagnostic.at(first.span, format!("this is `{actual}`"));
                Err(self.error(match other {
                    HostValue::Strings(_) => {
                        diagnostic.help("do it for each of them in a loop: `for name in names { … }`")
                    }
                    _ => diagnostic.help("`str(x)` makes text of a value"),
                }))
            }
        }
    }

    /// Returns the value of a tolerance argument of `close`, or an error if it is not a number.
    fn tolerance(&self, name: &str, value: &HostValue, span: Span) -> Eval<f64> {
        let is_number = !matches!(value, HostValue::Scalar(v) if v.ty == Scalar::Bool);
        as_f64(value).filter(|_| is_number).ok_or_else(|| {
            let actual = value.type_name();
            let diagnostic = Diagnostic::error("E0505", format!("`{name}` must be a number, but this is `{actual}`"));
            let diagnostic = diagnostic.at(span, format!("this is `{actual}`"));
            self.error(diagnostic.help("`close` has one tolerance for all elements"))
        })
    }

    fn load_file(&mut self, frame: &mut HostFrame, args: &[Expr], span: Span) -> Eval {
        let path = self.text_argument(frame, args, span)?;
        let place = args.first().map_or(span, |a| a.span);
        let loaded = if files::is_archive(&path) {
            let source = self.effects.open(&path).map_err(|reason| self.unreadable_file(&path, &reason, place))?;
            files::open_archive(&path, source)
        } else {
            let bytes = self.read_file(&path, place)?;
            files::decode(&path, &bytes)
        };
        loaded.map_err(|p| self.problem(p, place))
    }

    pub(super) fn read_file(&mut self, path: &str, place: Span) -> Eval<Vec<u8>> {
        self.effects.read(path).map_err(|reason| self.unreadable_file(path, &reason, place))
    }

    fn unreadable_file(&self, path: &str, reason: &FileError, place: Span) -> Signal {
        let diagnostic = Diagnostic::error("E0701", format!("cannot read `{path}`: {reason}"));
        self.error(diagnostic.at(place, "this file").note(PATH_NOTE))
    }

    fn save_file(&mut self, frame: &mut HostFrame, args: &[Expr], more: NamedArgs<'_>, span: Span) -> Eval {
        let path = self.text_argument(frame, args, span)?;
        let mut values = Vec::new();
        for arg in args.iter().skip(1) {
            values.push((None, self.eval(frame, arg)?));
        }
        for (name, arg) in more {
            values.push((Some(name.as_str()), self.eval(frame, arg)?));
        }
        let named_values: Vec<(Option<&str>, &HostValue)> = values.iter().map(|(n, v)| (*n, v)).collect();
        let bytes = files::encode(&path, &named_values).map_err(|p| self.problem(p, span))?;
        self.write_file(&path, &bytes, args.first().map_or(span, |a| a.span))?;
        Ok(HostValue::Unit)
    }

    pub(super) fn write_file(&mut self, path: &str, bytes: &[u8], place: Span) -> Eval<()> {
        self.effects.write(path, bytes).map_err(|reason| {
            let diagnostic = Diagnostic::error("E0702", format!("cannot write `{path}`: {reason}"));
            self.error(diagnostic.at(place, "this file").note(PATH_NOTE))
        })
    }
}

/// Returns whether a builtin has a derivative: its result depends continuously on its arguments.
fn has_derivative(builtin: Builtin) -> bool {
    use Builtin::*;
    matches!(
        builtin,
        Math(_) | Select | Cross | Length | Normalize | Reshape | Transpose | Concat | Stack | Sort | Flip | Einsum
    )
}

const PATH_NOTE: &str = "paths are relative to the folder that `clk` runs in";

pub(crate) fn as_f64(value: &HostValue) -> Option<f64> {
    match value {
        HostValue::Float(x) => Some(*x),
        HostValue::Int(n) => Some(*n as f64),
        HostValue::Scalar(number) => Some(number.as_f64()),
        _ => None,
    }
}

/// Formats a row-major position as indices, for example `[2, 5]`.
fn format_indices(mut position: usize, shape: &[usize]) -> String {
    let mut at = vec![0; shape.len()];
    for (slot, &extent) in at.iter_mut().zip(shape).rev() {
        *slot = position % extent.max(1);
        position /= extent.max(1);
    }
    format!("{at:?}")
}
