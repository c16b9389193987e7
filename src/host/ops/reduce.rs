//! Reductions over all elements or along one axis, cumulative sums, and `close`.
//!
//! Sums of floats are computed pairwise in `f64` and rounded once, so they hardly depend on the order. Sums of integers are
//! exact: see [`mod@totals`].

use crate::base::room;
use crate::base::stop::{self, PART, Ticks};
use crate::host::array::{Array, Element, Item, MAX_EXTENT};
use crate::host::ops::grid::Grid;
use crate::host::ops::operand::{self, array_or_plain, undefined};
use crate::host::ops::totals::{self, Total, total_type, totals};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::{Element as _, Integer, Number, Scalar};
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
    let job = Job { how, array: &array, grid, shape: &shape, to: to.unwrap_or(total_type(scalar)) };
    let result = job.run(scalar).ok_or_else(undefined)??;
    Ok(match result.item(0)? {
        Some(item) if shape.is_empty() => item,
        _ => Value::Array(result),
    })
}

struct Job<'a> {
    how: Reduce,
    array: &'a Array,
    grid: Grid,
    shape: &'a [usize],
    /// The type of integer totals.
    to: Scalar,
}

impl Job<'_> {
    fn run(&self, scalar: Scalar) -> Option<Outcome<Array>> {
        match self.how {
            Reduce::All | Reduce::Any if scalar != Scalar::Bool => None,
            Reduce::All => Some(self.columns(|rows: Column<bool>| rows.into_iter().all(|x| x))),
            Reduce::Any => Some(self.columns(|rows: Column<bool>| rows.into_iter().any(|x| x))),
            Reduce::Sum => with_float!(scalar, T => Some(self.sums::<T, f64>(|sum, _| sum)),
                _ => with_integer!(scalar, T => Some(self.totals::<T>(Total::Sum)), _ => None)),
            Reduce::Mean => with_float!(scalar, T => Some(self.sums::<T, f64>(|sum, n| sum / n as f64)), _ => None),
            Reduce::Prod => with_float!(scalar, T => Some(self.columns(product::<T, f64>)),
                _ => with_integer!(scalar, T => Some(self.totals::<T>(Total::Product)), _ => None)),
            Reduce::Min => with_number!(scalar, T => Some(self.fold(|a: T, b: T| a.op_min(b))), bool => None),
            Reduce::Max => with_number!(scalar, T => Some(self.fold(|a: T, b: T| a.op_max(b))), bool => None),
            Reduce::Argmin => with_number!(scalar, T => Some(self.columns(|c| first(c, |a: T, b: T| a.op_lt(b)))),
                bool => None),
            Reduce::Argmax => with_number!(scalar, T => Some(self.columns(|c| first(c, |a: T, b: T| a.op_gt(b)))),
                bool => None),
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

    /// Combines the rows of a block in sequence, scalar by scalar, with contiguous accesses.
    fn fold<T: Item>(&self, combine: impl Fn(T, T) -> T) -> Outcome<Array> {
        let Grid { len, inner, .. } = self.grid;
        let items = self.array.items::<T>()?;
        Array::build(self.element(T::SCALAR), self.shape, |result: &mut [T]| {
            let blocks = items.chunks_exact((len * inner).max(1));
            for (out, block) in stop::polled(result.chunks_exact_mut(inner.max(1)).zip(blocks)) {
                if inner == 1 {
                    fold_run(block, out, &combine);
                    continue;
                }
                let mut rows = block.chunks_exact(inner);
                rows.next().into_iter().for_each(|first| out.copy_from_slice(first));
                let ticks = Ticks::default();
                for row in rows {
                    ticks.pass(inner);
                    out.iter_mut().zip(row).for_each(|(a, &b)| *a = combine(*a, b));
                }
            }
        })
    }

    /// Computes pairwise sums in type `A`.
    fn sums<T: Item, A: Item + Number>(&self, finish: impl Fn(A, usize) -> A) -> Outcome<Array> {
        let Grid { len, inner, .. } = self.grid;
        let items = self.array.items::<T>()?;
        Array::build(self.element(T::SCALAR), self.shape, |result: &mut [T]| {
            let blocks = items.chunks_exact((len * inner).max(1));
            for (out, block) in stop::polled(result.chunks_exact_mut(inner.max(1)).zip(blocks)) {
                let mut sums = room::filled(A::default(), inner);
                match sums.as_mut_slice() {
                    [sum] => *sum = sum_run(block),
                    sums => sum_rows(block, sums),
                }
                out.iter_mut().zip(sums).for_each(|(place, sum)| *place = finish(sum, len).to::<T>());
            }
        })
    }
}

/// Uses eight partial results so that the loop is vectorized.
fn fold_run<T: Item>(run: &[T], out: &mut [T], combine: impl Fn(T, T) -> T) {
    let (Some(&first), [place]) = (run.first(), out) else { return };
    let mut partial = [first; 8];
    let rest = run.chunks_exact(8).remainder();
    for (_, part) in stop::parts(run) {
        for chunk in part.chunks_exact(8) {
            partial.iter_mut().zip(chunk).for_each(|(a, &b)| *a = combine(*a, b));
        }
    }
    *place = partial.into_iter().chain(rest.iter().copied()).fold(first, &combine);
}

/// Number of terms up to which sums are not split.
const PAIRWISE: usize = 256;

fn sum_run<T: Item, A: Number>(run: &[T]) -> A {
    if run.len() > PAIRWISE {
        if run.len() > PART {
            stop::poll();
        }
        let half = (run.len() / 2).next_multiple_of(8);
        let (a, b) = run.split_at(half);
        return sum_run::<T, A>(a).op_add(sum_run::<T, A>(b));
    }
    let mut partial = [A::default(); 8];
    let chunks = run.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        partial.iter_mut().zip(chunk).for_each(|(a, &b)| *a = a.op_add(b.to::<A>()));
    }
    let sum = partial.into_iter().fold(A::default(), A::op_add);
    rest.iter().fold(sum, |sum, &x| sum.op_add(x.to::<A>()))
}

/// Adds rows of the width of `sums` to it, pairwise.
fn sum_rows<T: Item, A: Number>(rows: &[T], sums: &mut [A]) {
    let width = sums.len().max(1);
    let count = rows.len() / width;
    if count > PAIRWISE {
        stop::poll();
        let (a, b) = rows.split_at(count / 2 * width);
        sum_rows(a, sums);
        let mut others = room::filled(A::default(), sums.len());
        sum_rows(b, &mut others);
        sums.iter_mut().zip(others).for_each(|(a, b)| *a = a.op_add(b));
        return;
    }
    let ticks = Ticks::default();
    for row in rows.chunks_exact(width) {
        ticks.pass(width);
        sums.iter_mut().zip(row).for_each(|(a, &b)| *a = a.op_add(b.to::<A>()));
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

fn product<T: Item, A: Number>(column: Column<T>) -> T {
    let one = true.to::<A>();
    column.into_iter().fold(one, |product, x| product.op_mul(x.to::<A>())).to::<T>()
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
    let is_close = |x: f64, y: f64| (x - y).abs() <= atol + rtol * y.abs() && y.is_finite() || x.is_nan() && y.is_nan();
    let near = super::elementwise(&a, &b, "`close`", is_close)?;
    super::binary(BinaryOp::BitOr, &difference, &near)
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
