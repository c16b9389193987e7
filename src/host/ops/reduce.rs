//! Reductions over all elements or along axes, cumulative sums, and `close`: operands are checked here, and become folds and scans
//! of [`crate::host::graph`].
//!
//! Sums of floats are computed in `f64` and rounded once, in the order of [`graph`], as are minima and maxima.
//! Adjacent axes are reduced as one; axes that are not adjacent, or longer than an axis may be, one after the other from the last.
//! Sums of integers are exact: see [`mod@totals`].

use crate::host::array::{Array, Element, MAX_EXTENT, shape_text};
use crate::host::graph::scan::Adds;
use crate::host::graph::{self, Fold, Op, Rows};
use crate::host::ops::operand::{self, array_or_plain, undefined};
use crate::host::ops::totals::{self, total_type};
use crate::host::problem::{Outcome, Problem};
use crate::host::shard::{self, Sharded, chain, lift};
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, MathFn};
use crate::lang::scalar::{self, Scalar};

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
    reduce_to(how, value, axis.as_ref().map(std::slice::from_ref), None)
}

/// As [`reduce`], along several axes; sums and products of integers have type `to` if given.
pub(crate) fn reduce_to(how: Reduce, value: &Value, axes: Option<&[i64]>, to: Option<Scalar>) -> Outcome<Value> {
    let what = format!("`{}`", how.name());
    let array = array_or_plain(value, &what)?;
    let undefined = || undefined(&what, &[value]);
    let axes = match axes {
        None => (0..array.rank()).collect(),
        Some(axes) => operand::axes(axes, array.rank(), &what)?,
    };
    let len = axes.iter().map(|&axis| array.shape()[axis]).product::<usize>();
    let left = array.shape().iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    let shape: Vec<usize> = left.map(|(_, &extent)| extent).collect();
    let scalar = array.scalar().ok_or_else(undefined)?;
    let (finds, lanes) = (matches!(how, Reduce::Argmin | Reduce::Argmax), array.element().lanes());
    if finds && lanes != 1 {
        return Err(undefined());
    }
    if len == 0 && !matches!(how, Reduce::Sum | Reduce::Prod | Reduce::All | Reduce::Any) {
        return Err(
            Problem::new("E0542", format!("{what} of no elements")).label(format!("its type is {}", value.type_name()))
        );
    }
    if (finds || scalar.is_int() && matches!(how, Reduce::Sum | Reduce::Prod)) && len > MAX_EXTENT {
        let problem = Problem::new("E0509", format!("{what} of {len} elements"));
        return Err(match finds {
            true => problem.note("its result is an `i32`, which counts to 2147483647"),
            false => problem.note("at most 2147483647 integers are added exactly"),
        }
        .help(format!("look at one row at a time: `{}(x[i, ..])`", how.name())));
    }
    if finds && axes.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
        let problem = Problem::new("E0507", format!("{what} along axes that are not next to each other"));
        return Err(problem.label("positions count elements along adjacent axes, in order"));
    }
    if let Some(sharded) = shard::of(&array) {
        let to = to.unwrap_or(total_type(scalar));
        if let Some(result) = in_parts(how, &sharded, scalar, &axes, to)? {
            return Ok(match shape.is_empty() {
                true => result.item(0)?.unwrap_or(Value::Unit),
                false => Value::Array(result),
            });
        }
    }
    let job = Job { how, array: array.into_owned(), axes, len, shape, to: to.unwrap_or(total_type(scalar)) };
    let result = match job.fold(scalar) {
        Some(fold) => match job.chained(&fold)? {
            Some(result) => result,
            None => job.folded(&fold)?,
        },
        None => job.other(scalar).ok_or_else(undefined)??,
    };
    // Rows may be reduced later, with what depends on them.
    Ok(match job.shape.is_empty() {
        true => result.item(0)?.unwrap_or(Value::Unit),
        false => Value::Array(result),
    })
}

/// Reduces a sharded array by its parts; `None` where the order of the parts' elements matters, or as much work would be left.
fn in_parts(how: Reduce, sharded: &Sharded, scalar: Scalar, axes: &[usize], to: Scalar) -> Outcome<Option<Array>> {
    let cut = sharded.layout().axis;
    let given: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    let part = |part: &Array, to| match reduce_to(how, &Value::Array(part.clone()), Some(&given), to)? {
        Value::Array(array) => Ok(array),
        value => Array::full(&value, &[]),
    };
    if !axes.contains(&cut) {
        let axis = cut - axes.iter().filter(|&&axis| axis < cut).count();
        let totals = scalar.is_int() && matches!(how, Reduce::Sum | Reduce::Prod);
        return lift::rows(sharded, axis, totals, |_, own| part(own, Some(to))).map(Some);
    }
    let wide = match how {
        Reduce::Min | Reduce::Max if scalar.is_int() => None,
        Reduce::All | Reduce::Any if scalar == Scalar::Bool => None,
        // Exact, as less than 2^31 of them have at most 63 bits.
        Reduce::Sum if scalar.is_int() && scalar.bits() <= 32 => Some(Scalar::I64),
        _ => return Ok(None),
    };
    let found = lift::each_own(sharded, |own| match own.is_empty() {
        true => Ok(None),
        false => part(own, wide).map(Some),
    })?;
    let found: Vec<Value> = found.into_iter().flatten().map(Value::Array).collect();
    let Some(first) = found.first() else { return Ok(None) };
    let stacked = if found.len() == 1 { reshaped(first)? } else { super::stack(&found)? };
    match reduce_to(how, &stacked, Some(&[0]), Some(to))? {
        Value::Array(array) => Ok(Some(array)),
        value => Array::full(&value, &[]).map(Some),
    }
}

/// Returns an array with one more axis in front.
fn reshaped(value: &Value) -> Outcome<Value> {
    let array = operand::array(value, "a reduction")?;
    array.with_shape(&[&[1], array.shape()].concat()).map(Value::Array)
}

struct Job {
    how: Reduce,
    array: Array,
    /// In ascending order.
    axes: Vec<usize>,
    /// The number of elements that become one.
    len: usize,
    /// The shape of the result.
    shape: Vec<usize>,
    /// The type of integer totals.
    to: Scalar,
}

/// Adjacent axes that are reduced as one, in a shape that has the components of vectors as a last axis.
struct Stage {
    groups: Vec<u8>,
    rows: Rows,
}

impl Job {
    /// Returns the reduction as one that kernels compute without further ado.
    fn fold(&self, scalar: Scalar) -> Option<Fold> {
        let fold = |combine, wide, result| Some(Fold { combine, wide, divisor: None, result });
        let sum = Op::Binary(BinaryOp::Add);
        match self.how {
            Reduce::Sum if scalar.is_float() => fold(sum, Scalar::F64, scalar),
            Reduce::Mean if scalar.is_float() => {
                let divisor = Some(self.len as f64);
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

    /// Computes what needs more than one fold: totals of integers, and positions.
    fn other(&self, scalar: Scalar) -> Option<Outcome<Array>> {
        match self.how {
            Reduce::Sum if scalar.is_int() && scalar.bits() <= 32 => Some(self.sum()),
            Reduce::Sum if scalar.is_int() => Some(self.long_sum(scalar)),
            Reduce::Prod if scalar.is_int() => Some(self.product()),
            Reduce::Argmin | Reduce::Argmax if scalar.is_num() => Some(self.position()),
            _ => None,
        }
    }

    /// Folds a sharded array from part to part, in the order of the whole.
    fn chained(&self, fold: &Fold) -> Outcome<Option<Array>> {
        let Some(sharded) = shard::of(&self.array) else { return Ok(None) };
        let found = chain::folded(&sharded, fold, &self.axes)?;
        found.map(|found| found.seen_as(Element::Scalar(fold.result), &self.shape)).transpose()
    }

    fn folded(&self, fold: &Fold) -> Outcome<Array> {
        self.folded_of(&self.array, fold)
    }

    /// Folds an array of the shape of the operand: adjacent axes as one, the last ones first.
    fn folded_of(&self, array: &Array, fold: &Fold) -> Outcome<Array> {
        let element = array.element().with_scalar(fold.result);
        let lanes = array.element().lanes();
        let count = self.shape.iter().product::<usize>() * lanes;
        if self.len == 0 || count == 0 {
            return self.of_none(fold, element);
        }
        let mut shape = array.shape().to_vec();
        shape.extend((lanes > 1).then_some(lanes));
        let mut axes = self.axes.clone();
        if axes.is_empty() {
            // A single element.
            shape.insert(0, 1);
            axes.push(0);
        }
        let mut array = array.clone();
        while let Some(&end) = axes.last() {
            let start = run(&shape, &axes);
            axes.retain(|&axis| axis < start);
            let stage = Stage::new(&shape, start, end + 1);
            let (result, divisor) = if axes.is_empty() { (fold.result, fold.divisor) } else { (fold.wide, None) };
            let found = graph::fold(&Fold { result, divisor, ..*fold }, &array, &shape, &stage.groups, stage.rows)?;
            let found = found.ok_or_else(|| too_long(self.how, &self.array))?;
            shape.drain(start..=end);
            array = found.seen_as(Element::Scalar(result), &shape)?;
        }
        array.seen_as(element, &self.shape)
    }

    /// Returns the reduction of no elements.
    fn of_none(&self, fold: &Fold, element: Element) -> Outcome<Array> {
        let start = i64::from(matches!(self.how, Reduce::Prod | Reduce::All));
        let shape = [self.shape.as_slice(), &[element.lanes()]].concat();
        let full = Array::full(&Value::Scalar(scalar::Value::of(start).to_type(fold.result)), &shape)?;
        full.seen_as(element, &self.shape)
    }

    /// The sum of integers of at most 32 bits; of less than 2^31 of them, none exceeds 63 bits.
    fn sum(&self) -> Outcome<Array> {
        let add = Op::Binary(BinaryOp::Add);
        let found = self.folded(&Fold { combine: add, wide: Scalar::I64, divisor: None, result: Scalar::I64 })?;
        graph::integers::narrowed(&found, self.to)?.map_err(|wrong| totals::too_large("sum", Some(wrong), self.to))
    }

    /// The sum of integers of 64 bits, by the sums of their halves.
    fn long_sum(&self, scalar: Scalar) -> Outcome<Array> {
        let add = Op::Binary(BinaryOp::Add);
        let fold = Fold { combine: add, wide: Scalar::I64, divisor: None, result: Scalar::I64 };
        let [high, low] = totals::halves(&self.array, scalar)?;
        let [high, low] = [self.folded_of(&high, &fold)?, self.folded_of(&low, &fold)?];
        let halves = high.items::<i64>()?.iter().zip(low.items::<i64>()?);
        let numbers: Vec<_> = halves.map(|(&high, &low)| Some((i128::from(high) << 32) + i128::from(low))).collect();
        totals::fitted("sum", &self.array, &numbers, &self.shape, self.to)
    }

    /// The product of integers: its 64 lowest bits, and the number rounded, which together determine it.
    fn product(&self) -> Outcome<Array> {
        let fold = |wide| Fold { combine: Op::Binary(BinaryOp::Mul), wide, divisor: None, result: wide };
        let (bits, about) = (self.folded(&fold(Scalar::I64))?, self.folded(&fold(Scalar::F64))?);
        let pairs = bits.items::<i64>()?.iter().zip(about.items::<f64>()?);
        let numbers: Vec<_> = pairs.map(|(&bits, &about)| totals::product_of(bits, about)).collect();
        totals::fitted("prod", &self.array, &numbers, &self.shape, self.to)
    }

    /// The position of the first best element along adjacent axes.
    fn position(&self) -> Outcome<Array> {
        if self.shape.contains(&0) {
            return Array::zeros(Scalar::I32, &self.shape);
        }
        let mut shape = self.array.shape().to_vec();
        let (start, end) = match (self.axes.first(), self.axes.last()) {
            (Some(&first), Some(&last)) => (first, last + 1),
            _ => {
                shape.push(1);
                (0, 1)
            }
        };
        let stage = Stage::new(&shape, start, end);
        let found = graph::best::best(self.how == Reduce::Argmax, &self.array, &shape, &stage.groups, stage.rows)?;
        found.ok_or_else(|| too_long(self.how, &self.array))?.with_shape(&self.shape)
    }
}

impl Stage {
    fn new(shape: &[usize], start: usize, end: usize) -> Stage {
        let product = |part: &[usize]| part.iter().product();
        let groups = (0..shape.len()).map(|axis| u8::from(axis >= start) + u8::from(axis >= end)).collect();
        let rows =
            Rows { outer: product(&shape[..start]), len: product(&shape[start..end]), inner: product(&shape[end..]) };
        Stage { groups, rows }
    }
}

/// Returns the first of the last axes that are reduced as one: adjacent ones that have no more elements than an axis may.
fn run(shape: &[usize], axes: &[usize]) -> usize {
    let mut found = axes.last().copied().unwrap_or(0);
    let mut len = shape.get(found).copied().unwrap_or(1);
    for &axis in axes.iter().rev().skip(1) {
        let longer = len.checked_mul(shape[axis]).filter(|&len| len <= MAX_EXTENT);
        match longer {
            Some(longer) if axis + 1 == found => (found, len) = (axis, longer),
            _ => break,
        }
    }
    found
}

fn too_long(how: Reduce, array: &Array) -> Problem {
    let title = format!("`{}` of the shape {} is too large for one launch", how.name(), shape_text(array.shape()));
    Problem::new("E0520", title).help("compute it in parts")
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

/// Returns the cumulative sums of a 1-d array; of floats in `f64`, each rounded once, in the order of [`mod@graph::scan`].
pub fn cumsum(value: &Value) -> Outcome<Value> {
    cumsum_to(value, None, None)
}

/// As [`cumsum`], along an axis of an array with several; sums of integers have type `to` if given.
pub(crate) fn cumsum_to(value: &Value, axis: Option<i64>, to: Option<Scalar>) -> Outcome<Value> {
    let array = operand::array(value, "`cumsum`")?;
    let axis = match axis {
        Some(axis) => operand::axis(axis, array.rank(), "`cumsum`")?,
        None if array.rank() == 1 => 0,
        None => {
            let title = format!("`cumsum` of an array with {} axes", array.rank());
            let problem = Problem::new("E0503", title);
            return Err(problem.help("say along which: `cumsum(x, axis = 0)`; all elements are `reshape(x, -1)`"));
        }
    };
    let undefined = || undefined("`cumsum`", &[value]);
    let scalar = array.scalar().filter(|scalar| scalar.is_num()).ok_or_else(undefined)?;
    let stage = Stage::new(array.shape(), axis, axis + 1);
    let rows = Rows { inner: stage.rows.inner * array.element().lanes(), ..stage.rows };
    let scan = |array: &Array, wide, result: Scalar| {
        let found = graph::scan::scan(array, rows, Adds { wide, result })?;
        found.seen_as(array.element().with_scalar(result), array.shape())
    };
    let to = to.unwrap_or(total_type(scalar));
    let wrong = |wrong| totals::too_large("cumsum", Some(wrong), to);
    Ok(Value::Array(match scalar {
        _ if scalar.is_float() => scan(array, Scalar::F64, scalar)?,
        _ if scalar.bits() <= 32 => {
            graph::integers::narrowed(&scan(array, Scalar::I64, Scalar::I64)?, to)?.map_err(wrong)?
        }
        _ => {
            let [high, low] = totals::halves(array, scalar)?;
            let [high, low] = [scan(&high, Scalar::I64, Scalar::I64)?, scan(&low, Scalar::I64, Scalar::I64)?];
            graph::integers::joined(&high, &low, to)?.map_err(wrong)?
        }
    }))
}
