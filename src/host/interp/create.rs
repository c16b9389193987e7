//! Builtins that create arrays, such as `zeros`, `linspace` and `random`.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Expr, Type};
use crate::host::array::Array;
use crate::host::grad;
use crate::host::ops;
use crate::host::value::Value;
use crate::lang::builtin::Builtin;
use crate::lang::philox::Philox;
use crate::lang::scalar::Scalar;

use super::builtin::Named;
use super::eval::named;
use super::frame::Frame;
use super::machine::{Draws, Eval, Machine};

impl Machine<'_> {
    pub(super) fn create(
        &mut self,
        frame: &mut Frame,
        builtin: Builtin,
        args: &[Expr],
        more: Named<'_>,
        expr: &Expr,
    ) -> Eval {
        use Builtin::*;
        let values = self.values(frame, args)?;
        let element = match (&expr.ty, named(more, "type")) {
            (Type::Array(array), _) => self.concrete(frame, &array.element),
            (_, Some(element)) => self.concrete(frame, &element.ty),
            _ => Type::Unknown,
        };
        let scalar = match element {
            Type::Scalar(s) => s,
            _ => Scalar::F32,
        };
        // Arguments that are not dimensions come first or last.
        let (before, behind) = match builtin {
            Full => (0, 1),
            RandomInt | Linspace => (2, 0),
            Arange => (values.len(), 0),
            _ => (0, 0),
        };
        let sized = before.min(values.len())..values.len().saturating_sub(behind).max(before.min(values.len()));
        let dims = self.dimensions(&args[sized.clone()], &values[sized])?;
        let result = match (builtin, &values[..], &dims[..]) {
            (Zeros, _, dims) if matches!(element, Type::Struct(_) | Type::Tuple(_) | Type::Vector(..)) => {
                let element = self.interp.layouts.element(self.program, &element);
                let shape = dims.iter().map(|&d| usize::try_from(d)).collect::<Result<Vec<usize>, _>>();
                match shape {
                    Ok(shape) => Array::zeros(element, &shape).map(Value::Array),
                    // A negative extent is reported by the same error as for all arrays.
                    Err(_) => ops::zeros(dims, Scalar::F32),
                }
            }
            (Zeros, _, dims) => ops::zeros(dims, scalar),
            (Ones, _, dims) => ops::ones(dims, scalar),
            (Full, [.., value], dims) => {
                let value = value.adapt(scalar).map_or_else(|| value.clone(), Value::Scalar);
                grad::ops::full(dims, &value)
            }
            (Eye, _, [n]) => ops::eye(*n, scalar),
            (Random, _, dims) => ops::random(dims, self.stream(frame, more)?, scalar),
            (RandomNormal, _, dims) => ops::random_normal(dims, self.stream(frame, more)?, scalar),
            (RandomInt, [low, high, ..], dims) => ops::random_int(low, high, dims, self.stream(frame, more)?),
            (Linspace, [start, stop, _], [n]) => ops::linspace(start, stop, *n),
            (Arange, values, _) => ops::arange(values),
            _ => return Err(self.broken(expr.span, "a wrong number of arguments")),
        };
        self.settle_problem(result, expr.span)
    }

    /// Evaluates `seed_random(seed)`.
    pub(super) fn seed_random(&mut self, frame: &mut Frame, args: &[Expr], span: Span) -> Eval {
        let Some(seed) = args.first() else { return Err(self.broken(span, "`seed_random` without a seed")) };
        let value = self.eval(frame, seed)?;
        let number = match value.as_int() {
            // Seeds are `u64`, and may exceed the largest `i64`.
            Some(number) => number as u64,
            None => self.as_integer(&value, seed.span)? as u64,
        };
        self.interp.draws = Draws::begin(Some(number));
        Ok(Value::Unit)
    }

    /// Returns the random stream of a call: that of its `seed` argument, else the next substream of the script's.
    fn stream(&mut self, frame: &mut Frame, more: Named<'_>) -> Eval<Philox> {
        if let Some(seed) = named(more, "seed") {
            return Ok(Philox::new(self.integer(frame, seed)? as u64));
        }
        let Draws { seed, next } = self.interp.draws;
        self.interp.draws.next = next.wrapping_add(1);
        Ok(Philox::new(seed).part(next))
    }

    /// Returns the extents in arguments: integers, or one tuple of integers (`zeros(shape(x))`).
    fn dimensions(&self, args: &[Expr], values: &[Value]) -> Eval<Vec<i64>> {
        let mut dims = Vec::with_capacity(values.len());
        for (arg, value) in args.iter().zip(values) {
            for part in value.parts() {
                match part.as_int().and_then(|d| i64::try_from(d).ok()) {
                    Some(extent) => dims.push(extent),
                    None => {
                        let found = part.type_name();
                        let title = format!("an integer is needed here, not `{found}`");
                        let diagnostic = Diagnostic::error("E0514", title).at(arg.span, format!("this is `{found}`"));
                        return Err(self.error(diagnostic.help("convert it: `i32(…)`")));
                    }
                }
            }
        }
        Ok(dims)
    }
}
