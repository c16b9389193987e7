//! Builtins that create arrays, such as `zeros`, `linspace` and `random`.

use crate::array::Array;
use crate::grad;
use crate::ops;
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Expr, Type};
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::philox::Philox;

use super::builtin::NamedArgs;
use super::context::{Eval, EvalContext, RandomPosition};
use super::eval::named_arg;
use super::frame::HostFrame;

impl EvalContext<'_> {
    pub(super) fn create_array(
        &mut self,
        frame: &mut HostFrame,
        builtin: Builtin,
        args: &[Expr],
        more: NamedArgs<'_>,
        expr: &Expr,
    ) -> Eval {
        use Builtin::*;
        let values = self.eval_all(frame, args)?;
        let element = match (&expr.ty, named_arg(more, "type")) {
            (Type::Array(array), _) => self.concrete(frame, &array.element),
            (_, Some(element)) => self.concrete(frame, &element.ty),
            _ => Type::Unknown,
        };
        let scalar = match element {
            Type::Scalar(s) => s,
            _ => Scalar::F32,
        };
        // `before` arguments precede the dimensions, and `behind` arguments come after the dimensions.
        let (before, behind) = match builtin {
            Full => (0, 1),
            RandomInt | Linspace => (2, 0),
            Arange => (values.len(), 0),
            _ => (0, 0),
        };
        let sized = before.min(values.len())..values.len().saturating_sub(behind).max(before.min(values.len()));
        let dims = self.dimension_args(&args[sized.clone()], &values[sized])?;
        let result = match (builtin, &values[..], &dims[..]) {
            (Zeros, _, dims) if matches!(element, Type::Struct(_) | Type::Tuple(_) | Type::Vector(..)) => {
                let element = self.interp.caches.layouts.element(self.program, &element);
                let shape = dims.iter().map(|&d| usize::try_from(d)).collect::<Result<Vec<usize>, _>>();
                match shape {
                    Ok(shape) => Array::zeros(element, &shape).map(HostValue::Array),
                    // An extent is negative; `ops::zeros` reports the same error for all element types.
                    Err(_) => ops::zeros(dims, Scalar::F32),
                }
            }
            (Zeros, _, dims) => ops::zeros(dims, scalar),
            (Ones, _, dims) => ops::ones(dims, scalar),
            (Full, [.., value], dims) => {
                let value = value.adapt(scalar).map_or_else(|| value.clone(), HostValue::Scalar);
                grad::ops::full(&self.exec, dims, &value)
            }
            (Eye, _, [n]) => ops::eye(*n, scalar),
            (Random, _, dims) => ops::random(dims, self.random_stream(frame, more)?, scalar),
            (RandomNormal, _, dims) => ops::random_normal(dims, self.random_stream(frame, more)?, scalar),
            (RandomInt, [low, high, ..], dims) => ops::random_int(low, high, dims, self.random_stream(frame, more)?),
            (Linspace, [start, stop, _], [n]) => ops::linspace(start, stop, *n),
            (Arange, values, _) => ops::arange(values),
            _ => return Err(self.internal_error(expr.span, "a wrong number of arguments")),
        };
        self.locate_error(result, expr.span)
    }

    /// Evaluates `seed_random(seed)`.
    pub(super) fn seed_random(&mut self, frame: &mut HostFrame, args: &[Expr], span: Span) -> Eval {
        let Some(seed) = args.first() else { return Err(self.internal_error(span, "`seed_random` without a seed")) };
        let value = self.eval(frame, seed)?;
        let number = match value.as_int() {
            // A seed may be a `u64` above the largest `i64`.
            Some(number) => number as u64,
            None => self.as_integer(&value, seed.span)? as u64,
        };
        self.interp.random_position = RandomPosition::begin(Some(number));
        Ok(HostValue::Unit)
    }

    /// Returns the random stream of a call: the stream of its `seed` argument, or the next substream of the script's
    /// stream.
    fn random_stream(&mut self, frame: &mut HostFrame, more: NamedArgs<'_>) -> Eval<Philox> {
        if let Some(seed) = named_arg(more, "seed") {
            return Ok(Philox::new(self.eval_integer(frame, seed)? as u64));
        }
        let RandomPosition { seed, next_substream: next } = self.interp.random_position;
        self.interp.random_position.next_substream = next.wrapping_add(1);
        Ok(Philox::new(seed).substream(next))
    }

    /// Returns the extents that arguments specify: integers, or one tuple of integers (`zeros(shape(x))`).
    fn dimension_args(&self, args: &[Expr], values: &[HostValue]) -> Eval<Vec<i64>> {
        let mut dims = Vec::with_capacity(values.len());
        for (arg, value) in args.iter().zip(values) {
            for part in value.parts() {
                match part.as_int().and_then(|d| i64::try_from(d).ok()) {
                    Some(extent) => dims.push(extent),
                    None => {
                        let actual = part.type_name();
                        let title = format!("an integer is needed here, not `{actual}`");
                        let diagnostic = Diagnostic::error("E0514", title).at(arg.span, format!("this is `{actual}`"));
                        return Err(self.error(diagnostic.help("convert it: `i32(…)`")));
                    }
                }
            }
        }
        Ok(dims)
    }
}
