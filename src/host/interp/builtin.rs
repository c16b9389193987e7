//! Builtins on the host.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::base::{room, stop};
use crate::check::typed::{Expr, ExprKind, SmolStr, Type};
use crate::host::array::Array;
use crate::host::grad;
use crate::host::ops::{self, Reduce, overflow};
use crate::host::problem::Outcome;
use crate::host::value::Value;
use crate::host::{files, format, picture};
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, MathFn};
use crate::lang::scalar::Scalar;

use super::eval::named;
use super::frame::Frame;
use super::machine::{Eval, Machine, Shown, Signal};

/// The named arguments of a call.
pub(super) type Named<'e> = &'e [(SmolStr, Expr)];

impl Machine<'_> {
    pub(crate) fn builtin(
        &mut self,
        frame: &mut Frame,
        builtin: Builtin,
        args: &[Expr],
        more: Named<'_>,
        expr: &Expr,
    ) -> Eval {
        use Builtin::*;
        let span = expr.span;
        match builtin {
            Print => self.print(frame, args).map(|()| Value::Unit),
            Assert => self.assert(frame, args).map(|()| Value::Unit),
            Load => self.load_file(frame, args, span),
            Save => self.save_file(frame, args, more, span),
            Image => self.image(frame, args, span),
            Plot => self.plot(frame, args, span),
            Heat => self.heat(frame, args, span),
            Sum | Prod | Mean | Argmin | Argmax | All | Any => self.reduce(frame, builtin, args, more, expr),
            Math(f @ (MathFn::Min | MathFn::Max)) if args.len() == 1 => {
                let how = if f == MathFn::Min { Reduce::Min } else { Reduce::Max };
                self.reduce_as(frame, how, args, more, expr)
            }
            Cumsum | Dot => {
                let to = self.total_type(frame, &expr.ty);
                let mut values = self.values(frame, args)?;
                self.adapt_arguments(frame, args, &mut values, builtin)?;
                let axis = match named(more, "axis") {
                    Some(axis) => Some(self.integer(frame, axis)?),
                    None => None,
                };
                self.settle_problem(
                    match &values[..] {
                        [a, b] => grad::ops::dot_to(a, b, to),
                        [x] => grad::ops::cumsum_to(x, axis, to),
                        _ => return Err(self.broken(span, "a wrong number of arguments")),
                    },
                    span,
                )
            }
            Zeros | Ones | Full | Eye | Random | RandomNormal | RandomInt | Linspace | Arange => {
                self.create(frame, builtin, args, more, expr)
            }
            Parse => self.parse(frame, args, more, expr),
            Bitcast => self.open_bitcast(frame, args, named(more, "type"), span),
            ReadText => self.read_text(frame, args, span),
            WriteText => self.write_text(frame, args, span),
            SeedRandom => self.seed_random(frame, args, span),
            Exit => self.exit(frame, args, span),
            Gpus => self.gpus(frame, args, span),
            Shard => self.shard(frame, args, more, span),
            Together(what) => self.together(frame, what, args, more, expr),
            NoGrad => match args {
                [x] => {
                    let value = grad::primal(&self.eval(frame, x)?);
                    Ok(self.interp.held.pass(value))
                }
                _ => Err(self.broken(span, "a wrong number of arguments")),
            },
            _ => {
                let mut values = self.values(frame, args)?;
                self.adapt_arguments(frame, args, &mut values, builtin)?;
                if self.interp.tracing > 0 && !has_derivative(builtin) {
                    values.iter_mut().for_each(|value| *value = grad::primal(value));
                }
                self.sound(span, || match (builtin, &values[..]) {
                    (Math(f), values) => overflow::of_math(f, values),
                    (CeilDiv, [x, y]) => overflow::of_binary(BinaryOp::Div, x, y),
                    _ => Ok(()),
                })?;
                let result = self.plain(frame, builtin, &values, more, span)?;
                self.settle_problem(result, span)
            }
        }
    }

    /// Evaluates builtins that are pure functions of their values.
    fn plain(
        &mut self,
        frame: &mut Frame,
        builtin: Builtin,
        values: &[Value],
        more: Named<'_>,
        span: Span,
    ) -> Eval<Outcome<Value>> {
        use Builtin::*;
        let axis = match named(more, "axis") {
            Some(axis) => Some(self.integer(frame, axis)?),
            None => None,
        };
        Ok(match (builtin, values) {
            (Math(f), values) => grad::ops::math(f, values),
            (Keys, [x]) => ops::keys(x),
            (Gather, [x]) => ops::whole(x),
            (Text(f), values) => ops::text::call(f, values),
            (Select, [cond, then, other]) => grad::ops::select(cond, then, other),
            (CeilDiv, [x, y]) => ops::ceil_div(x, y),
            (Cross, [a, b]) => grad::ops::cross(a, b),
            (Length, [v]) => grad::ops::length(v),
            (Normalize, [v]) => grad::ops::normalize(v),
            (Len, [x]) => ops::len(x),
            (Shape, [x]) => ops::shape(x, None),
            (Shape, [x, axis]) => ops::shape(x, axis.as_int().and_then(|a| i64::try_from(a).ok())),
            (Close, [a, b, tolerances @ ..]) => {
                let mut tolerance = |i: usize, name: &str, default: f64| match (tolerances.get(i), named(more, name)) {
                    (Some(given), _) => self.tolerance(name, given, span),
                    (None, Some(given)) => {
                        let value = self.eval(frame, given)?;
                        self.tolerance(name, &value, given.span)
                    }
                    (None, None) => Ok(default),
                };
                let (rtol, atol) = (tolerance(0, "rtol", 1e-5)?, tolerance(1, "atol", 1e-8)?);
                ops::close(a, b, rtol, atol)
            }
            (Reshape, [x, dims @ ..]) => {
                let dims = dims.iter().flat_map(Value::parts).map(|dim| self.as_integer(dim, span));
                grad::ops::reshape(x, &dims.collect::<Eval<Vec<i64>>>()?)
            }
            (Transpose, [x]) => grad::ops::transpose(x),
            (Concat, parts) => grad::ops::concat(parts, axis.unwrap_or(0)),
            (Stack, parts) => grad::ops::stack(parts),
            (Sort, [x]) => grad::ops::sort(x),
            (Sort, [keys, values]) => grad::ops::sort_with(keys, values),
            (Argsort, [x]) => ops::argsort(x),
            (Flip, [x]) => grad::ops::flip(x, axis.unwrap_or(0)),
            (Flip, [x, axis]) => grad::ops::flip(x, axis.as_int().and_then(|a| i64::try_from(a).ok()).unwrap_or(0)),
            _ => return Err(self.broken(Span::default(), "a builtin that the host does not have")),
        })
    }

    pub(super) fn settle_problem<T>(&self, result: Outcome<T>, span: Span) -> Eval<T> {
        result.map_err(|p| self.problem(p, span))
    }

    pub(crate) fn values(&mut self, frame: &mut Frame, args: &[Expr]) -> Eval<Vec<Value>> {
        let mut values = room::vec(args.len());
        for arg in stop::polled(args) {
            values.push(self.eval(frame, arg)?);
        }
        Ok(values)
    }

    /// Evaluates `assert(cond, "message {x}")`.
    fn assert(&mut self, frame: &mut Frame, args: &[Expr]) -> Eval<()> {
        let Some(cond) = args.first() else { return Ok(()) };
        let draws = self.interp.draws;
        let value = self.eval(frame, cond)?;
        let wrong = match &value {
            Value::Array(array) if array.scalar() == Some(Scalar::Bool) => {
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
            None => Value::Unit,
        };
        let title = match &message {
            Value::Str(text) if !text.is_empty() => format!("assertion failed: {text}"),
            _ => "assertion failed".to_string(),
        };
        let mut diagnostic = Diagnostic::error("E0530", title).at(cond.span, "this is not true");
        // The operands are evaluated again for the message, with the same random numbers.
        self.interp.draws = draws;
        if let Some((array, first)) = wrong {
            let at = index_text(first, array.shape());
            let count = array.bytes().iter().filter(|&&b| b == 0).count();
            let others =
                if count > 1 { format!(", and {} more of {}", count - 1, array.count()) } else { String::new() };
            diagnostic = diagnostic.note(format!("it fails at {at}{others}"));
            diagnostic = self.sides(frame, cond, first, array.shape(), diagnostic)?;
        } else {
            diagnostic = self.sides(frame, cond, 0, &[], diagnostic)?;
        }
        Err(self.error(diagnostic))
    }

    /// Adds the values of both operands of a failed comparison to the diagnostic.
    fn sides(
        &mut self,
        frame: &mut Frame,
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
        for side in sides {
            if matches!(side.kind, ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_)) {
                continue;
            }
            let Ok(value) = self.eval(frame, side) else { continue };
            let shown = match &value {
                Value::Array(array) if array.shape() == shape => array.item(at),
                Value::Strings(texts) if [texts.len()] == shape => Ok(texts.get(at).cloned().map(Value::Str)),
                Value::Array(_) | Value::Strings(_) => Ok(None),
                other => Ok(Some(other.clone())),
            };
            let shown = shown.and_then(|shown| shown.as_ref().map(format::brief).transpose());
            if let Some(shown) = shown.map_err(|p| self.problem(p, side.span))? {
                diagnostic = diagnostic.because(side.span, format!("this is {shown}"));
            }
        }
        Ok(diagnostic)
    }

    fn reduce(&mut self, frame: &mut Frame, builtin: Builtin, args: &[Expr], more: Named<'_>, expr: &Expr) -> Eval {
        let how = match builtin {
            Builtin::Sum => Reduce::Sum,
            Builtin::Prod => Reduce::Prod,
            Builtin::Mean => Reduce::Mean,
            Builtin::Argmin => Reduce::Argmin,
            Builtin::Argmax => Reduce::Argmax,
            Builtin::All => Reduce::All,
            _ => Reduce::Any,
        };
        self.reduce_as(frame, how, args, more, expr)
    }

    /// Returns the integer type of a total as determined by the checker; `None` if it is known only at run time.
    fn total_type(&self, frame: &Frame, ty: &Type) -> Option<Scalar> {
        match self.concrete(frame, ty) {
            Type::Scalar(s) | Type::Vector(s, _) => Some(s).filter(|s| s.is_int()),
            Type::Array(array) => self.total_type(frame, &array.element),
            _ => None,
        }
    }

    /// Returns the axes of a reduction: one, or those of a tuple.
    fn axes(&self, value: &Value, span: Span) -> Eval<Vec<i64>> {
        value.parts().iter().map(|part| self.as_integer(part, span)).collect()
    }

    fn reduce_as(&mut self, frame: &mut Frame, how: Reduce, args: &[Expr], more: Named<'_>, expr: &Expr) -> Eval {
        let span = expr.span;
        let values = self.values(frame, args)?;
        let axes = match (named(more, "axis"), values.get(1)) {
            (Some(axis), _) => {
                let value = self.eval(frame, axis)?;
                Some(self.axes(&value, axis.span)?)
            }
            (None, Some(axis)) => Some(self.axes(axis, span)?),
            (None, None) => None,
        };
        let Some(value) = values.first() else { return Err(self.broken(span, "a reduction of nothing")) };
        let to = match how {
            Reduce::Sum | Reduce::Prod => self.total_type(frame, &expr.ty),
            _ => None,
        };
        self.settle_problem(grad::ops::reduce_to(how, value, axes.as_deref(), to), span)
    }

    pub(super) fn text_argument(&mut self, frame: &mut Frame, args: &[Expr], span: Span) -> Eval<SmolStr> {
        let Some(first) = args.first() else { return Err(self.broken(span, "a text was expected")) };
        match self.eval(frame, first)? {
            Value::Str(text) => Ok(text),
            other => {
                let found = other.type_name();
                let diagnostic = Diagnostic::error("E0505", format!("a text is needed here, not `{found}`"));
                let diagnostic = diagnostic.at(first.span, format!("this is `{found}`"));
                Err(self.error(match other {
                    Value::Strings(_) => diagnostic.help("do it for each of them in a loop: `for name in names { … }`"),
                    _ => diagnostic.help("`str(x)` makes text of a value"),
                }))
            }
        }
    }

    /// Returns the error for values that a builtin for pictures or files does not take, where the checker did not know their types.
    fn not_data(&self, name: &str, values: &[Value], span: Span) -> Signal {
        let values: Vec<&Value> = values.iter().collect();
        let problem = ops::operand::undefined(&format!("`{name}`"), &values);
        self.problem(problem.help("it takes arrays of numbers, and a path as text"), span)
    }

    /// Returns a tolerance of `close`.
    fn tolerance(&self, name: &str, value: &Value, span: Span) -> Eval<f64> {
        let is_number = !matches!(value, Value::Scalar(v) if v.ty == Scalar::Bool);
        number(value).filter(|_| is_number).ok_or_else(|| {
            let found = value.type_name();
            let diagnostic = Diagnostic::error("E0505", format!("`{name}` has to be a number, but this is `{found}`"));
            let diagnostic = diagnostic.at(span, format!("this is `{found}`"));
            self.error(diagnostic.help("`close` has one tolerance for all elements"))
        })
    }

    fn load_file(&mut self, frame: &mut Frame, args: &[Expr], span: Span) -> Eval {
        let path = self.text_argument(frame, args, span)?;
        let place = args.first().map_or(span, |a| a.span);
        let bytes = self.read_file(&path, place)?;
        files::decode(&path, &bytes).map_err(|p| self.problem(p, place))
    }

    pub(super) fn read_file(&mut self, path: &str, place: Span) -> Eval<Vec<u8>> {
        self.world.read(path).map_err(|reason| {
            let diagnostic = Diagnostic::error("E0701", format!("cannot read `{path}`: {reason}"));
            self.error(diagnostic.at(place, "this file").note(PATHS))
        })
    }

    fn save_file(&mut self, frame: &mut Frame, args: &[Expr], more: Named<'_>, span: Span) -> Eval {
        let path = self.text_argument(frame, args, span)?;
        let mut values = Vec::new();
        for arg in args.iter().skip(1) {
            values.push((None, self.eval(frame, arg)?));
        }
        for (name, arg) in more {
            values.push((Some(name.as_str()), self.eval(frame, arg)?));
        }
        let given: Vec<(Option<&str>, &Value)> = values.iter().map(|(n, v)| (*n, v)).collect();
        let bytes = files::encode(&path, &given).map_err(|p| self.problem(p, span))?;
        self.write_file(&path, &bytes, args.first().map_or(span, |a| a.span))?;
        Ok(Value::Unit)
    }

    pub(super) fn write_file(&mut self, path: &str, bytes: &[u8], place: Span) -> Eval<()> {
        self.world.write(path, bytes).map_err(|reason| {
            let diagnostic = Diagnostic::error("E0702", format!("cannot write `{path}`: {reason}"));
            self.error(diagnostic.at(place, "this file").note(PATHS))
        })
    }

    fn image(&mut self, frame: &mut Frame, args: &[Expr], span: Span) -> Eval {
        let values = self.values(frame, args)?;
        match &values[..] {
            [Value::Array(array)] => {
                let array = array.clone().fetched().map_err(|p| self.problem(p, span))?;
                self.world.show(Shown::Image(array));
                Ok(Value::Unit)
            }
            [Value::Str(path), Value::Array(array)] | [Value::Array(array), Value::Str(path)] => {
                let bytes = picture::image_file(path, array).map_err(|p| self.problem(p, span))?;
                self.write_file(path, &bytes, span)?;
                Ok(Value::Unit)
            }
            values => Err(self.not_data("image", values, span)),
        }
    }

    fn plot(&mut self, frame: &mut Frame, args: &[Expr], span: Span) -> Eval {
        let mut values = self.values(frame, args)?;
        let path = match values.last() {
            Some(Value::Str(path)) => Some(path.clone()),
            _ => None,
        };
        if path.is_some() {
            values.pop();
        }
        let (x, y) = match &values[..] {
            [Value::Array(y)] => {
                let count = ops::arange(&[Value::i32(y.count() as i32)]).and_then(|v| ops::convert(Scalar::F32, &v));
                match count {
                    Ok(Value::Array(x)) => (x, y.clone()),
                    Err(problem) => return Err(self.problem(problem, span)),
                    Ok(_) => return Err(self.broken(span, "a range for the x axis")),
                }
            }
            [Value::Array(x), Value::Array(y)] => (x.clone(), y.clone()),
            values => return Err(self.not_data("plot", values, span)),
        };
        match path {
            Some(path) => {
                let bytes = picture::plot_file(&path, &x, &y).map_err(|p| self.problem(p, span))?;
                self.write_file(&path, &bytes, span)?;
            }
            None => {
                let fetched = |array: Array| array.fetched().map_err(|p| self.problem(p, span));
                let (x, y) = (fetched(x)?, fetched(y)?);
                self.world.show(Shown::Plot { x, y });
            }
        }
        Ok(Value::Unit)
    }
}

impl Machine<'_> {
    fn heat(&mut self, frame: &mut Frame, args: &[Expr], span: Span) -> Eval {
        let values = self.values(frame, args)?;
        match &values[..] {
            [Value::Array(array)] => {
                let heat = picture::heat::Heat::of(array).map_err(|p| self.problem(p, span))?;
                self.world.show(Shown::Heat(heat));
            }
            [Value::Array(array), Value::Str(path)] | [Value::Str(path), Value::Array(array)] => {
                let bytes = picture::heat_file(path, array).map_err(|p| self.problem(p, span))?;
                self.write_file(path, &bytes, span)?;
            }
            values => return Err(self.not_data("heat", values, span)),
        }
        Ok(Value::Unit)
    }
}

/// Whether what a builtin gives depends continuously on its arguments.
fn has_derivative(builtin: Builtin) -> bool {
    use Builtin::*;
    matches!(
        builtin,
        Math(_) | Select | Cross | Length | Normalize | Reshape | Transpose | Concat | Stack | Sort | Flip
    )
}

const PATHS: &str = "paths are relative to the folder that `clk` runs in";

pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(x) => Some(*x),
        Value::Int(n) => Some(*n as f64),
        Value::Array(_) => None,
        other => match ops::convert(Scalar::F64, other) {
            Ok(Value::Scalar(v)) => Some(f64::from_bits(v.bits)),
            _ => None,
        },
    }
}

/// Formats a row-major position as indices, `[2, 5]`.
fn index_text(mut position: usize, shape: &[usize]) -> String {
    let mut at = vec![0; shape.len()];
    for (slot, &extent) in at.iter_mut().zip(shape).rev() {
        *slot = position % extent.max(1);
        position /= extent.max(1);
    }
    format!("{at:?}")
}
