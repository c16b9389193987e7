//! Reductions over all elements or along axes, cumulative sums, and `close`. This module checks the operands;
//! [`crate::graph`] computes the results.
//!
//! Sums of floats are computed in `f64` and rounded once, in the order of [`graph`]; minima and maxima use the same
//! order. Adjacent axes are merged and reduced as one axis. Axes that are not adjacent, or that would exceed the
//! maximum length of an axis if merged, are reduced one at a time, beginning with the last one. Sums of integers are
//! exact: see [`mod@totals`].

use crate::array::{Array, ElementType, MAX_EXTENT, shape_text};
use crate::graph::scan::ScanTypes;
use crate::graph::{self, ElementwiseOp, ExecContext, ReductionOp, ReductionShape};
use crate::ops::operand::{self, array_or_plain, undefined};
use crate::ops::totals::{self, total_type};
use crate::problem::{HostResult, RuntimeError};
use crate::shard::{self, Sharded, lift, ordered_reduce};
use crate::value::HostValue;
use clk_scalar::Scalar;
use clk_scalar::ops::{BinaryOp, MathFn};

/// The kind of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceKind {
    Sum,
    Prod,
    Mean,
    Min,
    Max,
    /// The position of the first minimum: in row-major order of the whole array, or along the reduced axis.
    Argmin,
    Argmax,
    All,
    Any,
}

impl ReduceKind {
    pub fn name(self) -> &'static str {
        match self {
            ReduceKind::Sum => "sum",
            ReduceKind::Prod => "prod",
            ReduceKind::Mean => "mean",
            ReduceKind::Min => "min",
            ReduceKind::Max => "max",
            ReduceKind::Argmin => "argmin",
            ReduceKind::Argmax => "argmax",
            ReduceKind::All => "all",
            ReduceKind::Any => "any",
        }
    }
}

/// Reduces all elements to one value, or the elements along one axis.
pub fn reduce(exec: &ExecContext, how: ReduceKind, value: &HostValue, axis: Option<i64>) -> HostResult<HostValue> {
    reduce_to(exec, how, value, axis.as_ref().map(std::slice::from_ref), None)
}

/// Like [`reduce`], but along several axes and with a result type: sums and products of integers have the type `to` if
/// given.
pub(crate) fn reduce_to(
    exec: &ExecContext,
    how: ReduceKind,
    value: &HostValue,
    axes: Option<&[i64]>,
    to: Option<Scalar>,
) -> HostResult<HostValue> {
    let function_name = format!("`{}`", how.name());
    let array = array_or_plain(value, &function_name)?;
    let undefined = || undefined(&function_name, &[value]);
    let axes = match axes {
        None => (0..array.rank()).collect(),
        Some(axes) => operand::axes(axes, array.rank(), &function_name)?,
    };
    let len = axes.iter().map(|&axis| array.shape()[axis]).product::<usize>();
    let left = array.shape().iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    let shape: Vec<usize> = left.map(|(_, &extent)| extent).collect();
    let scalar = array.scalar().ok_or_else(undefined)?;
    let (finds, lanes) = (matches!(how, ReduceKind::Argmin | ReduceKind::Argmax), array.element().lanes());
    if finds && lanes != 1 {
        return Err(undefined());
    }
    if len == 0 && !matches!(how, ReduceKind::Sum | ReduceKind::Prod | ReduceKind::All | ReduceKind::Any) {
        return Err(RuntimeError::new("E0542", format!("{function_name} of no elements"))
            .label(format!("its type is {}", value.type_name())));
    }
    if (finds || scalar.is_int() && matches!(how, ReduceKind::Sum | ReduceKind::Prod)) && len > MAX_EXTENT {
        let problem = RuntimeError::new("E0509", format!("{function_name} of {len} elements"));
        return Err(match finds {
            true => problem.note("its result is an `i32`, which counts to 2147483647"),
            false => problem.note("at most 2147483647 integers are added exactly"),
        }
        .help(format!("look at one row at a time: `{}(x[i, ..])`", how.name())));
    }
    if finds && axes.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
        let problem = RuntimeError::new("E0507", format!("{function_name} along axes that are not adjacent"));
        return Err(problem.label("positions count elements along adjacent axes, in order"));
    }
    if let Some(sharded) = shard::as_sharded(&array) {
        let to = to.unwrap_or(total_type(scalar));
        if let Some(result) = reduce_by_shards(exec, how, &sharded, scalar, &axes, to)? {
            return Ok(match shape.is_empty() {
                true => result.item(0)?.unwrap_or(HostValue::Unit),
                false => HostValue::Array(result),
            });
        }
    }
    let job = ReduceJob { how, array: array.into_owned(), axes, len, shape, to: to.unwrap_or(total_type(scalar)) };
    let result = match job.fold(scalar) {
        Some(fold) => match job.reduce_across_shards(exec, &fold)? {
            Some(result) => result,
            None => job.reduce_operand(exec, &fold)?,
        },
        None => job.multi_pass(exec, scalar).ok_or_else(undefined)??,
    };
    // Reductions of rows may be deferred, so that they can be fused with the expressions that use them.
    Ok(match job.shape.is_empty() {
        true => result.item(0)?.unwrap_or(HostValue::Unit),
        false => HostValue::Array(result),
    })
}

/// Reduces a sharded array by reducing each shard separately. `None` if the result depends on the order of the
/// elements, or if this would not save work.
fn reduce_by_shards(
    exec: &ExecContext,
    how: ReduceKind,
    sharded: &Sharded,
    scalar: Scalar,
    axes: &[usize],
    to: Scalar,
) -> HostResult<Option<Array>> {
    let cut = sharded.layout().axis;
    let given_axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    let part = |exec: &ExecContext, part: &Array, to| match reduce_to(
        exec,
        how,
        &HostValue::Array(part.clone()),
        Some(&given_axes),
        to,
    )? {
        HostValue::Array(array) => Ok(array),
        value => Array::full(&value, &[]),
    };
    if !axes.contains(&cut) {
        let axis = cut - axes.iter().filter(|&&axis| axis < cut).count();
        let totals = scalar.is_int() && matches!(how, ReduceKind::Sum | ReduceKind::Prod);
        return lift::lift_rows(exec, sharded, axis, totals, |exec, _, own| part(exec, own, Some(to))).map(Some);
    }
    let wide = match how {
        ReduceKind::Min | ReduceKind::Max if scalar.is_int() => None,
        ReduceKind::All | ReduceKind::Any if scalar == Scalar::Bool => None,
        // `i64` is exact, because the sum of fewer than 2^31 integers of 32 bits has at most 63 bits.
        ReduceKind::Sum if scalar.is_int() && scalar.bits() <= 32 => Some(Scalar::I64),
        _ => return Ok(None),
    };
    let partials = lift::map_owned_parts(exec, sharded, |exec, own| match own.is_empty() {
        true => Ok(None),
        false => part(exec, own, wide).map(Some),
    })?;
    let partials: Vec<HostValue> = partials.into_iter().flatten().map(HostValue::Array).collect();
    let Some(first) = partials.first() else { return Ok(None) };
    let stacked = if partials.len() == 1 { with_leading_axis(first)? } else { super::stack(exec, &partials, 0)? };
    match reduce_to(exec, how, &stacked, Some(&[0]), Some(to))? {
        HostValue::Array(array) => Ok(Some(array)),
        value => Array::full(&value, &[]).map(Some),
    }
}

/// Returns an array with an additional first axis.
fn with_leading_axis(value: &HostValue) -> HostResult<HostValue> {
    let array = operand::array(value, "a reduction")?;
    array.with_shape(&[&[1], array.shape()].concat()).map(HostValue::Array)
}

struct ReduceJob {
    how: ReduceKind,
    array: Array,
    /// The reduced axes, in ascending order.
    axes: Vec<usize>,
    /// Number of elements that are reduced to one.
    len: usize,
    /// The shape of the result.
    shape: Vec<usize>,
    /// The result type of integer sums and products.
    to: Scalar,
}

/// One of the steps of a reduction along several axes: reduces adjacent axes as one. In the shapes, the components of
/// vectors are the last axis.
struct ReduceStage {
    groups: Vec<u8>,
    rows: ReductionShape,
}

impl ReduceJob {
    /// Returns the operation if one kind of reduction kernel computes the result; `None` if it needs several passes or
    /// is not defined for the type.
    fn fold(&self, scalar: Scalar) -> Option<ReductionOp> {
        let fold = |combine, wide, result| Some(ReductionOp { combine, accumulator: wide, divisor: None, result });
        let sum = ElementwiseOp::Binary(BinaryOp::Add);
        match self.how {
            ReduceKind::Sum if scalar.is_float() => fold(sum, Scalar::F64, scalar),
            ReduceKind::Mean if scalar.is_float() => {
                let divisor = Some(self.len as f64);
                Some(ReductionOp { combine: sum, accumulator: Scalar::F64, divisor, result: scalar })
            }
            ReduceKind::Prod if scalar.is_float() => fold(ElementwiseOp::Binary(BinaryOp::Mul), Scalar::F64, scalar),
            ReduceKind::Min if scalar.is_num() => fold(ElementwiseOp::Math(MathFn::Min), scalar, scalar),
            ReduceKind::Max if scalar.is_num() => fold(ElementwiseOp::Math(MathFn::Max), scalar, scalar),
            ReduceKind::All if scalar == Scalar::Bool => fold(ElementwiseOp::Binary(BinaryOp::BitAnd), scalar, scalar),
            ReduceKind::Any if scalar == Scalar::Bool => fold(ElementwiseOp::Binary(BinaryOp::BitOr), scalar, scalar),
            _ => None,
        }
    }

    /// Computes reductions that need several passes: sums and products of integers, and arg-reductions.
    fn multi_pass(&self, exec: &ExecContext, scalar: Scalar) -> Option<HostResult<Array>> {
        match self.how {
            ReduceKind::Sum if scalar.is_int() && scalar.bits() <= 32 => Some(self.sum(exec)),
            ReduceKind::Sum if scalar.is_int() => Some(self.long_sum(exec, scalar)),
            ReduceKind::Prod if scalar.is_int() => Some(self.product(exec)),
            ReduceKind::Argmin | ReduceKind::Argmax if scalar.is_num() => Some(self.position(exec)),
            _ => None,
        }
    }

    /// Reduces a sharded array shard after shard, in the order of elements of the whole array.
    fn reduce_across_shards(&self, exec: &ExecContext, fold: &ReductionOp) -> HostResult<Option<Array>> {
        let Some(sharded) = shard::as_sharded(&self.array) else { return Ok(None) };
        let reduced = ordered_reduce::reduce_across_cut(exec, &sharded, fold, &self.axes)?;
        reduced.map(|reduced| reduced.reinterpret_as(ElementType::Scalar(fold.result), &self.shape)).transpose()
    }

    fn reduce_operand(&self, exec: &ExecContext, fold: &ReductionOp) -> HostResult<Array> {
        self.reduce_array(exec, &self.array, fold)
    }

    /// Reduces an array with the shape of the operand, one step after the other, beginning with the last axes.
    fn reduce_array(&self, exec: &ExecContext, array: &Array, fold: &ReductionOp) -> HostResult<Array> {
        let element = array.element().with_scalar(fold.result);
        let lanes = array.element().lanes();
        let count = self.shape.iter().product::<usize>() * lanes;
        if self.len == 0 || count == 0 {
            return self.empty_reduction(fold, element);
        }
        let mut shape = array.shape().to_vec();
        shape.extend((lanes > 1).then_some(lanes));
        let mut axes = self.axes.clone();
        if axes.is_empty() {
            // A 0-d array gets an axis of extent 1.
            shape.insert(0, 1);
            axes.push(0);
        }
        let mut array = array.clone();
        while let Some(&end) = axes.last() {
            let start = first_of_run(&shape, &axes);
            axes.retain(|&axis| axis < start);
            let stage = ReduceStage::new(&shape, start, end + 1);
            let (result, divisor) =
                if axes.is_empty() { (fold.result, fold.divisor) } else { (fold.accumulator, None) };
            let reduced = graph::reduce(
                exec,
                &ReductionOp { result, divisor, ..*fold },
                &array,
                &shape,
                &stage.groups,
                stage.rows,
            )?;
            let reduced = reduced.ok_or_else(|| too_long(self.how, &self.array))?;
            shape.drain(start..=end);
            array = reduced.reinterpret_as(ElementType::Scalar(result), &shape)?;
        }
        array.reinterpret_as(element, &self.shape)
    }

    /// Returns the result of a reduction of zero elements; an error if it is undefined.
    fn empty_reduction(&self, fold: &ReductionOp, element: ElementType) -> HostResult<Array> {
        let start = i64::from(matches!(self.how, ReduceKind::Prod | ReduceKind::All));
        let shape = [self.shape.as_slice(), &[element.lanes()]].concat();
        let full = Array::full(&HostValue::Scalar(clk_scalar::ScalarValue::of(start).to_type(fold.result)), &shape)?;
        full.reinterpret_as(element, &self.shape)
    }

    /// Computes the sum of integers of at most 32 bits. The sum of fewer than 2^31 of them has at most 63 bits.
    fn sum(&self, exec: &ExecContext) -> HostResult<Array> {
        let add = ElementwiseOp::Binary(BinaryOp::Add);
        let total = self.reduce_operand(
            exec,
            &ReductionOp { combine: add, accumulator: Scalar::I64, divisor: None, result: Scalar::I64 },
        )?;
        graph::integer_range::narrow_exactly(exec, &total, self.to)?
            .map_err(|wrong| totals::too_large("sum", Some(wrong), self.to))
    }

    /// Computes the sum of 64-bit integers from the sums of their upper and lower halves.
    fn long_sum(&self, exec: &ExecContext, scalar: Scalar) -> HostResult<Array> {
        let add = ElementwiseOp::Binary(BinaryOp::Add);
        let fold = ReductionOp { combine: add, accumulator: Scalar::I64, divisor: None, result: Scalar::I64 };
        let [high, low] = totals::halves(exec, &self.array, scalar)?;
        let [high, low] = [self.reduce_array(exec, &high, &fold)?, self.reduce_array(exec, &low, &fold)?];
        let halves = high.items::<i64>()?.iter().zip(low.items::<i64>()?);
        let numbers: Vec<_> = halves.map(|(&high, &low)| Some((i128::from(high) << 32) + i128::from(low))).collect();
        totals::fitted("sum", &self.array, &numbers, &self.shape, self.to)
    }

    /// Computes the product of integers from its low 64 bits and its approximation in `f64`.
    fn product(&self, exec: &ExecContext) -> HostResult<Array> {
        let fold = |wide| ReductionOp {
            combine: ElementwiseOp::Binary(BinaryOp::Mul),
            accumulator: wide,
            divisor: None,
            result: wide,
        };
        let (bits, about) =
            (self.reduce_operand(exec, &fold(Scalar::I64))?, self.reduce_operand(exec, &fold(Scalar::F64))?);
        let pairs = bits.items::<i64>()?.iter().zip(about.items::<f64>()?);
        let numbers: Vec<_> = pairs.map(|(&bits, &about)| totals::product_of(bits, about)).collect();
        totals::fitted("prod", &self.array, &numbers, &self.shape, self.to)
    }

    /// Computes the position of the first smallest or largest element along adjacent axes.
    fn position(&self, exec: &ExecContext) -> HostResult<Array> {
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
        let stage = ReduceStage::new(&shape, start, end);
        let positions = graph::arg_reduce::arg_reduce(
            exec,
            self.how == ReduceKind::Argmax,
            &self.array,
            &shape,
            &stage.groups,
            stage.rows,
        )?;
        positions.ok_or_else(|| too_long(self.how, &self.array))?.with_shape(&self.shape)
    }
}

impl ReduceStage {
    fn new(shape: &[usize], start: usize, end: usize) -> ReduceStage {
        let product = |part: &[usize]| part.iter().product();
        let groups = (0..shape.len()).map(|axis| u8::from(axis >= start) + u8::from(axis >= end)).collect();
        let rows = ReductionShape {
            outer: product(&shape[..start]),
            len: product(&shape[start..end]),
            inner: product(&shape[end..]),
        };
        ReduceStage { groups, rows }
    }
}

/// Returns the first of the axes that the next step reduces as one: the last adjacent reduced axes whose product does
/// not exceed the maximum length of an axis.
fn first_of_run(shape: &[usize], axes: &[usize]) -> usize {
    let mut start = axes.last().copied().unwrap_or(0);
    let mut len = shape.get(start).copied().unwrap_or(1);
    for &axis in axes.iter().rev().skip(1) {
        let longer = len.checked_mul(shape[axis]).filter(|&len| len <= MAX_EXTENT);
        match longer {
            Some(longer) if axis + 1 == start => (start, len) = (axis, longer),
            _ => break,
        }
    }
    start
}

fn too_long(how: ReduceKind, array: &Array) -> RuntimeError {
    let title = format!("`{}` of the shape {} is too large for one launch", how.name(), shape_text(array.shape()));
    RuntimeError::new("E0520", title).help("compute it in parts")
}

/// Evaluates `abs(a - b) <= atol + rtol * abs(b)`, elementwise. Two NaNs are close, and so are equal infinities.
pub fn close(exec: &ExecContext, a: &HostValue, b: &HostValue, rtol: f64, atol: f64) -> HostResult<HostValue> {
    let difference = super::binary(exec, BinaryOp::Eq, a, b)?;
    let scalar = operand::common_scalar(&[a, b]).unwrap_or(Scalar::F32);
    if !scalar.is_num() {
        return Err(undefined("`close`", &[a, b]));
    }
    let wide = |value: &HostValue| super::convert(exec, Scalar::F64, value);
    let (a, b) = (wide(&operand::adapt(a, scalar, "`close`")?)?, wide(&operand::adapt(b, scalar, "`close`")?)?);
    let test = |function, x: &HostValue| super::math(exec, function, std::slice::from_ref(x));
    let distance = test(MathFn::Abs, &super::binary(exec, BinaryOp::Sub, &a, &b)?)?;
    let relative = super::binary(exec, BinaryOp::Mul, &HostValue::of(rtol), &test(MathFn::Abs, &b)?)?;
    let near = super::binary(
        exec,
        BinaryOp::Le,
        &distance,
        &super::binary(exec, BinaryOp::Add, &HostValue::of(atol), &relative)?,
    )?;
    let near = super::binary(exec, BinaryOp::BitAnd, &near, &test(MathFn::IsFinite, &b)?)?;
    let nans = super::binary(exec, BinaryOp::BitAnd, &test(MathFn::IsNan, &a)?, &test(MathFn::IsNan, &b)?)?;
    super::binary(exec, BinaryOp::BitOr, &difference, &super::binary(exec, BinaryOp::BitOr, &near, &nans)?)
}

/// Returns the cumulative sums of a 1-d array. Floats are added in `f64` in the order of [`mod@graph::scan`], and each
/// result is rounded once.
pub fn cumsum(exec: &ExecContext, value: &HostValue) -> HostResult<HostValue> {
    cumsum_to(exec, value, None, None)
}

/// Like [`cumsum`], but along an axis of an array and with a result type: sums of integers have the type `to` if given.
pub(crate) fn cumsum_to(
    exec: &ExecContext,
    value: &HostValue,
    axis: Option<i64>,
    to: Option<Scalar>,
) -> HostResult<HostValue> {
    let array = operand::array(value, "`cumsum`")?;
    let axis = match axis {
        Some(axis) => operand::axis(axis, array.rank(), "`cumsum`")?,
        None if array.rank() == 1 => 0,
        None => {
            let title = format!("`cumsum` of an array with {} axes", array.rank());
            let problem = RuntimeError::new("E0503", title);
            return Err(problem.help("say along which: `cumsum(x, axis = 0)`; all elements are `reshape(x, -1)`"));
        }
    };
    let undefined = || undefined("`cumsum`", &[value]);
    let scalar = array.scalar().filter(|scalar| scalar.is_num()).ok_or_else(undefined)?;
    let stage = ReduceStage::new(array.shape(), axis, axis + 1);
    let rows = ReductionShape { inner: stage.rows.inner * array.element().lanes(), ..stage.rows };
    let scan = |array: &Array, wide, result: Scalar| {
        let sums = graph::scan::scan(exec, array, rows, ScanTypes { accumulator: wide, result })?;
        sums.reinterpret_as(array.element().with_scalar(result), array.shape())
    };
    let to = to.unwrap_or(total_type(scalar));
    let wrong = |wrong| totals::too_large("cumsum", Some(wrong), to);
    Ok(HostValue::Array(match scalar {
        _ if scalar.is_float() => scan(array, Scalar::F64, scalar)?,
        _ if scalar.bits() <= 32 => {
            graph::integer_range::narrow_exactly(exec, &scan(array, Scalar::I64, Scalar::I64)?, to)?.map_err(wrong)?
        }
        _ => {
            let [high, low] = totals::halves(exec, array, scalar)?;
            let [high, low] = [scan(&high, Scalar::I64, Scalar::I64)?, scan(&low, Scalar::I64, Scalar::I64)?];
            graph::integer_range::join_halves(exec, &high, &low, to)?.map_err(wrong)?
        }
    }))
}
