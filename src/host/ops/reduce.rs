//! Reductions over all elements or along one axis, cumulative sums, and `close`.
//!
//! Sums of floats are computed in `f64` and rounded once, in the order of [`graph`], as are minima and maxima.
//! Sums of integers are exact: see [`mod@totals`].

use std::cmp::Ordering;

use crate::base::stop;
use crate::host::array::{Array, Element, Item, MAX_EXTENT};
use crate::host::graph::{self, Fold, Op, Rows};
use crate::host::ops::grid::Grid;
use crate::host::ops::operand::{self, array_or_plain, undefined};
use crate::host::ops::totals::{self, Total, total_type, totals};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, MathFn};
use crate::lang::scalar::{self, Integer, Number, Scalar};
use crate::{with_float, with_integer, with_number};

/// The kind of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    Sum,
    Prod,
    Mean,
    Min,
    Max,
    /// The flat position of the first minimum, or its position along the axis.
    Argmin,
    Argmax,
    All,
    Any,
}

impl Reduce {
    pub fn name(self) -> &'static str {
        match self {
            Reduce::Sum => "sum",
            Reduce::Prod => "prod",
            Reduce::Mean => "mean",
            Reduce::Min => "min",
            Reduce::Max => "max",
            Reduce::Argmin => "argmin",
            Reduce::Argmax => "argmax",
            Reduce::All => "all",
            Reduce::Any => "any",
        }
    }
}

/// Reduces all elements to a value, or the elements along one axis.
pub fn reduce(how: Reduce, value: &Value, axis: Option<i64>) -> Outcome<Value> {
    reduce_to(how, value, axis, None)
}

/// As [`reduce`]; sums and products of integers have type `to` if given.
pub(crate) fn reduce_to(how: Reduce, value: &Value, axis: Option<i64>, to: Option<Scalar>) -> Outcome<Value> {
    let what = format!("`{}`", how.name());
    let array = array_or_plain(value, &what)?;
    let undefined = || undefined(&what, &[value]);
    let lanes = array.element().lanes();
    let (grid, shape) = match axis {
        None => (Grid { outer: 1, len: array.count(), inner: lanes }, vec![]),
        Some(axis) => {
            let axis = operand::axis(axis, array.rank(), &what)?;
            let (before, after) = (array.shape().iter().take(axis), array.shape().iter().skip(axis + 1));
            let inner = after.clone().product::<usize>() * lanes;
            let len = array.shape().get(axis).copied().unwrap_or(0);
            (Grid { outer: before.clone().product(), len, inner }, before.chain(after).copied().collect())
        }
    };
    let scalar = array.scalar().ok_or_else(undefined)?;
    if matches!(how, Reduce::Argmin | Reduce::Argmax) && lanes != 1 {
        return Err(undefined());
    }
    if grid.len == 0 && !matches!(how, Reduce::Sum | Reduce::Prod | Reduce::All | Reduce::Any) {
        return Err(
            Problem::new("E0542", format!("{what} of no elements")).label(format!("its type is {}", value.type_name()))
        );
    }
    if matches!(how, Reduce::Argmin | Reduce::Argmax) && grid.len > MAX_EXTENT {
        return Err(Problem::new("E0509", format!("{what} of {} elements", grid.len))
            .note("its result is an `i32`, which counts to 2147483647")
            .help(format!("look at one row at a time: `{}(x[i, ..])`", how.name())));
    }
    let job = Job { how, value, array: &array, grid, shape: &shape, axis, to: to.unwrap_or(total_type(scalar)) };
    let result = match job.fold(scalar) {
        Some(fold) => job.folded(&fold)?,
        None => job.run(scalar).ok_or_else(undefined)??,
    };
    Ok(match result.item(0)? {
        Some(item) if shape.is_empty() => item,
        _ => Value::Array(result),
    })
}

struct Job<'a> {
    how: Reduce,
    value: &'a Value,
    array: &'a Array,
    grid: Grid,
    shape: &'a [usize],
    axis: Option<i64>,
    /// The type of integer totals.
    to: Scalar,
}

impl Job<'_> {
    /// Returns the reduction as one that kernels compute, if it is one.
    fn fold(&self, scalar: Scalar) -> Option<Fold> {
        let fold = |combine, wide, result| Some(Fold { combine, wide, divisor: None, result });
        let sum = Op::Binary(BinaryOp::Add);
        match self.how {
            Reduce::Sum if scalar.is_float() => fold(sum, Scalar::F64, scalar),
            // No total of less than 2^31 numbers of 32 bits exceeds 63.
            Reduce::Sum if scalar.is_int() && scalar.bits() <= 32 => fold(sum, Scalar::I64, Scalar::I64),
            Reduce::Mean if scalar.is_float() => {
                let divisor = Some(self.grid.len as f64);
                Some(Fold { combine: sum, wide: Scalar::F64, divisor, result: scalar })
            }
            Reduce::Prod if scalar.is_float() => fold(Op::Binary(BinaryOp::Mul), Scalar::F64, scalar),
            Reduce::Min if scalar.is_num() => fold(Op::Math(MathFn::Min), scalar, scalar),
            Reduce::Max if scalar.is_num() => fold(Op::Math(MathFn::Max), scalar, scalar),
            Reduce::All if scalar == Scalar::Bool => fold(Op::Binary(BinaryOp::BitAnd), scalar, scalar),
            Reduce::Any if scalar == Scalar::Bool => fold(Op::Binary(BinaryOp::BitOr), scalar, scalar),
            _ => None,
        }
    }

    fn folded(&self, fold: &Fold) -> Outcome<Array> {
        let lanes = self.array.element().lanes();
        let mut shape = self.array.shape().to_vec();
        let along = |axis: usize| match self.axis {
            None => 1,
            Some(own) => match (axis as i64).cmp(&own) {
                Ordering::Less => 0,
                Ordering::Equal => 1,
                Ordering::Greater => 2,
            },
        };
        let mut groups: Vec<u8> = (0..shape.len()).map(along).collect();
        if lanes > 1 {
            shape.push(lanes);
            groups.push(2);
        }
        if groups.is_empty() {
            (shape, groups) = (vec![1], vec![1]);
        }
        let Grid { outer, len, inner } = self.grid;
        let found = match graph::fold(fold, self.array, &shape, &groups, Rows { outer, len, inner })? {
            Some(found) => found,
            None if len == 0 || outer * inner == 0 => self.of_none(fold)?,
            None => self.in_two(fold)?,
        };
        if fold.result == Scalar::I64 && self.how == Reduce::Sum {
            let numbers: Vec<Option<i128>> = found.items::<i64>()?.iter().map(|&n| Some(i128::from(n))).collect();
            return totals::fitted("sum", self.array, &numbers, self.shape, self.to);
        }
        found.seen_as(self.element(fold.result), self.shape)
    }

    /// Returns the reduction of no elements.
    fn of_none(&self, fold: &Fold) -> Outcome<Array> {
        let start = i64::from(matches!(self.how, Reduce::Prod | Reduce::All));
        let shape = [self.grid.outer, 1, self.grid.inner];
        Array::full(&Value::Scalar(scalar::Value::of(start).to_type(fold.result)), &shape)
    }

    /// Reduces the last axis first: for more elements than an axis has.
    fn in_two(&self, fold: &Fold) -> Outcome<Array> {
        let last = self.array.rank().saturating_sub(1) as i64;
        let part = Fold { divisor: None, result: fold.wide, ..*fold };
        let (rest, columns) = match self.array.shape().split_last() {
            Some((&columns, rest)) if self.axis.is_none() && self.array.rank() > 1 => (rest, columns),
            _ => return Err(undefined(&format!("`{}`", self.how.name()), &[self.value])),
        };
        let (rows, inner) = (rest.iter().product(), self.grid.inner);
        let grid = Grid { outer: rows, len: columns, inner };
        let part = Job { axis: Some(last), grid, shape: rest, ..*self }.folded(&part)?;
        let grid = Grid { outer: 1, len: rows, inner };
        Job { array: &part, grid, ..*self }.folded(fold)
    }

    fn run(&self, scalar: Scalar) -> Option<Outcome<Array>> {
        match self.how {
            Reduce::Sum => with_integer!(scalar, T => Some(self.totals::<T>(Total::Sum)), _ => None),
            Reduce::Prod => with_integer!(scalar, T => Some(self.totals::<T>(Total::Product)), _ => None),
            Reduce::Argmin => with_number!(scalar, T => Some(self.columns(|c| first(c, |a: T, b: T| a.op_lt(b)))),
                bool => None),
            Reduce::Argmax => with_number!(scalar, T => Some(self.columns(|c| first(c, |a: T, b: T| a.op_gt(b)))),
                bool => None),
            Reduce::Mean | Reduce::Min | Reduce::Max | Reduce::All | Reduce::Any => None,
        }
    }

    fn totals<T: Item + Integer>(&self, how: Total) -> Outcome<Array> {
        totals::<T>(how, self.array, self.grid, self.shape, self.to)
    }

    /// Computes one result for every column of scalars.
    fn columns<T: Item, R: Item>(&self, reduce: impl Fn(Column<T>) -> R) -> Outcome<Array> {
        let Grid { outer, len, inner } = self.grid;
        let items = self.array.items::<T>()?;
        let element = self.element(R::SCALAR);
        Array::build(element, self.shape, |result| {
            let places = (0..outer).flat_map(|o| (0..inner).map(move |i| o * len * inner + i));
            for (place, start) in stop::polled(result.iter_mut().zip(places)) {
                *place = reduce(Column { items: items.get(start..).unwrap_or(&[]), stride: inner, len });
            }
        })
    }

    fn element(&self, scalar: Scalar) -> Element {
        self.array.element().with_scalar(scalar)
    }
}

/// A strided view: every `stride`-th item.
struct Column<'a, T> {
    items: &'a [T],
    stride: usize,
    len: usize,
}

impl<'a, T: Item> Column<'a, T> {
    fn into_iter(self) -> impl Iterator<Item = T> + 'a {
        stop::polled(self.items.iter().copied().step_by(self.stride.max(1)).take(self.len))
    }
}

/// Returns the position of the first best element, where `before` is the strict order; NaNs are skipped. 0 if there is none.
fn first<T: Item + Number>(column: Column<T>, before: impl Fn(T, T) -> bool) -> i32 {
    let mut best: Option<(usize, T)> = None;
    for (position, item) in column.into_iter().enumerate() {
        let is_nan = item.op_ne(item);
        if !is_nan && best.is_none_or(|(_, so_far)| before(item, so_far)) {
            best = Some((position, item));
        }
    }
    best.map_or(0, |(position, _)| position as i32)
}

/// Evaluates `abs(a - b) <= atol + rtol * abs(b)`, elementwise; NaNs are close to each other, and equal infinities are.
pub fn close(a: &Value, b: &Value, rtol: f64, atol: f64) -> Outcome<Value> {
    let difference = super::binary(BinaryOp::Eq, a, b)?;
    let scalar = operand::common_scalar(&[a, b]).unwrap_or(Scalar::F32);
    if !scalar.is_num() {
        return Err(undefined("`close`", &[a, b]));
    }
    let wide = |value: &Value| super::convert(Scalar::F64, value);
    let (a, b) = (wide(&operand::adapt(a, scalar, "`close`")?)?, wide(&operand::adapt(b, scalar, "`close`")?)?);
    let test = |function, x: &Value| super::math(function, std::slice::from_ref(x));
    let distance = test(MathFn::Abs, &super::binary(BinaryOp::Sub, &a, &b)?)?;
    let relative = super::binary(BinaryOp::Mul, &Value::of(rtol), &test(MathFn::Abs, &b)?)?;
    let near = super::binary(BinaryOp::Le, &distance, &super::binary(BinaryOp::Add, &Value::of(atol), &relative)?)?;
    let near = super::binary(BinaryOp::BitAnd, &near, &test(MathFn::IsFinite, &b)?)?;
    let nans = super::binary(BinaryOp::BitAnd, &test(MathFn::IsNan, &a)?, &test(MathFn::IsNan, &b)?)?;
    super::binary(BinaryOp::BitOr, &difference, &super::binary(BinaryOp::BitOr, &near, &nans)?)
}

/// Returns the cumulative sums of a 1-d array; of floats in `f64`, each rounded once.
pub fn cumsum(value: &Value) -> Outcome<Value> {
    cumsum_to(value, None)
}

/// As [`cumsum`]; sums of integers have type `to` if given.
pub(crate) fn cumsum_to(value: &Value, to: Option<Scalar>) -> Outcome<Value> {
    let array = operand::array(value, "`cumsum`")?;
    if array.rank() != 1 {
        let title = format!("`cumsum` of an array with {} axes", array.rank());
        return Err(Problem::new("E0503", title).help("make it one axis with `reshape(x, -1)`"));
    }
    let lanes = array.element().lanes();
    let scalar = array.scalar().ok_or_else(|| undefined("`cumsum`", &[value]))?;
    with_float!(scalar, T => Some(running::<T, f64>(array, lanes)),
        _ => with_integer!(scalar, T => {
            Some(totals::running::<T>(array, lanes, to.unwrap_or(total_type(scalar))))
        }, _ => None))
    .ok_or_else(|| undefined("`cumsum`", &[value]))?
    .map(Value::Array)
}

fn running<T: Item, A: Item + Number>(array: &Array, lanes: usize) -> Outcome<Array> {
    let items = array.items::<T>()?;
    Array::build(array.element().clone(), array.shape(), |result: &mut [T]| {
        let mut sums = vec![A::default(); lanes];
        let rows = result.chunks_exact_mut(lanes.max(1)).zip(items.chunks_exact(lanes.max(1)));
        for (out, row) in stop::polled(rows) {
            for ((place, sum), &x) in out.iter_mut().zip(&mut sums).zip(row) {
                *sum = sum.op_add(x.to::<A>());
                *place = sum.to::<T>();
            }
        }
    })
}
