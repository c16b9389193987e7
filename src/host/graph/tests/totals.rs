//! Tests sums, products, arg-reductions and cumulative sums of random arrays along random axes against a simple
//! reference implementation.

use super::*;
use crate::graph::kernel_builder::{self, ArgReduceRound, ReductionRound};
use crate::graph::node::ElementwiseOp;
use crate::graph::plan::FusionPlan;
use crate::ops::ReduceKind;

const SHAPES: &[&[usize]] = &[
    &[5000],
    &[1],
    &[63, 65],
    &[3, 130, 20],
    &[1, 70, 1],
    &[2, 3, 4, 300],
    &[64, 1],
    &[9],
    &[3, 0, 2],
    &[17, 257],
    &[2, 4100],
    &[64, 1024],
];

fn numbers_of(random: &mut Random, scalar: Scalar, shape: &[usize], product: bool) -> ExpectedArray {
    let mut array = Array::zeros(scalar, shape).expect("memory");
    let most = random.pick(&[7, 7, 1000, usize::MAX]);
    let mut items = Vec::new();
    for place in array.bytes_mut().expect("memory").chunks_exact_mut(scalar.size()) {
        let number = match random.random_below(300) {
            0 if scalar.is_float() => clk_scalar::ScalarValue::of(f64::NAN),
            0 | 1 if product => clk_scalar::ScalarValue::of(random.pick(&[2i64, 3, -2])),
            _ if product => clk_scalar::ScalarValue::of(1i64),
            _ if scalar.is_float() => clk_scalar::ScalarValue::of(random.random_below(most) as f64 / 7.0 - 0.5),
            _ => clk_scalar::ScalarValue::of(random.random_below(most) as i64),
        };
        let number = number.to_type(scalar);
        place.copy_from_slice(&number.to_bytes()[..scalar.size()]);
        items.push(number);
    }
    ExpectedArray { value: HostValue::Array(array), shape: shape.to_vec(), items }
}

/// Returns the shape of the result of a reduction, and for each result its elements in memory order.
pub(super) fn columns(known: &ExpectedArray, axes: &[usize]) -> (Vec<usize>, Vec<Vec<clk_scalar::ScalarValue>>) {
    let kept_axes: Vec<usize> = (0..known.shape.len()).filter(|axis| !axes.contains(axis)).collect();
    let shape: Vec<usize> = kept_axes.iter().map(|&axis| known.shape[axis]).collect();
    let mut found = vec![Vec::new(); shape.iter().product()];
    for (position, &item) in known.items.iter().enumerate() {
        let (mut rest, mut stride, mut place) = (position, 1, 0);
        for axis in (0..known.shape.len()).rev() {
            if kept_axes.contains(&axis) {
                place += rest % known.shape[axis] * stride;
                stride *= known.shape[axis];
            }
            rest /= known.shape[axis];
        }
        found[place].push(item);
    }
    (shape, found)
}

/// Computes the sum or the product of integers; `None` if it does not fit the type `to`.
pub(super) fn total(how: ReduceKind, items: &[clk_scalar::ScalarValue], to: Scalar) -> Option<clk_scalar::ScalarValue> {
    let mut numbers = items.iter().map(|item| item.as_integer().expect("an integer"));
    let total = match how {
        ReduceKind::Sum => numbers.try_fold(0i128, |sum, n| sum.checked_add(n)),
        _ if numbers.clone().any(|n| n == 0) => Some(0),
        _ => numbers.try_fold(1i128, |product, n| product.checked_mul(n)),
    };
    total.and_then(|n| clk_scalar::ScalarValue::from_integer(to, n))
}

pub(super) fn first(how: ReduceKind, items: &[clk_scalar::ScalarValue]) -> clk_scalar::ScalarValue {
    let mut best: Option<usize> = None;
    for (i, item) in items.iter().enumerate().filter(|(_, item)| !item.is_nan()) {
        let op = if how == ReduceKind::Argmin { BinaryOp::Lt } else { BinaryOp::Gt };
        if best.is_none_or(|best| dynamic::binary(op, *item, items[best]).expect("an order").is_true()) {
            best = Some(i);
        }
    }
    clk_scalar::ScalarValue::of(best.unwrap_or(0) as i32)
}

fn totals(exec: &ExecContext, seed: u64) {
    let mut random = Random(seed ^ 0x70a);
    let shape = random.pick(SHAPES);
    let scalar = random.pick(&NUMBERS);
    let hows = [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Argmin, ReduceKind::Argmax];
    let kind = random.pick(if scalar.is_int() { &hows } else { &hows[2..] });
    let mut operand = numbers_of(&mut random, scalar, shape, kind == ReduceKind::Prod);
    if random.random_below(2) == 0 && kind != ReduceKind::Prod {
        // Make the operand a deferred expression.
        operand.value = ops::math(exec, MathFn::Max, &[operand.value.clone(), operand.value.clone()]).expect("maxima");
    }
    let mut axes: Vec<usize> = (0..shape.len()).filter(|_| random.random_below(2) == 0).collect();
    if matches!(kind, ReduceKind::Argmin | ReduceKind::Argmax) || axes.is_empty() {
        let first = random.random_below(shape.len());
        axes = (first..shape.len()).take(1 + random.random_below(2)).collect();
    }
    let given: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    let (left, columns) = columns(&operand, &axes);
    let to = ops::totals::total_type(scalar);
    let text = format!("seed {seed}: {kind:?} of {scalar} {shape:?} along {axes:?}");
    let found = ops::reduce_to(exec, kind, &operand.value, Some(&given), None);
    let is_empty = axes.iter().any(|&axis| shape[axis] == 0);
    let expected: Option<Vec<clk_scalar::ScalarValue>> = match kind {
        ReduceKind::Argmin | ReduceKind::Argmax => Some(columns.iter().map(|items| first(kind, items)).collect()),
        _ => columns.iter().map(|items| total(kind, items, to)).collect(),
    };
    match (found, expected) {
        (Err(error), _) if is_empty && error.code == "E0542" => {}
        (Ok(value), Some(items)) => ExpectedArray { value, shape: left, items }.check(&text),
        (Err(error), None) => assert_eq!(error.code, "E0546", "{text}"),
        (Ok(_), None) => panic!("{text}: not refused"),
        (Err(error), Some(_)) => panic!("{text}: {error:?}"),
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of kernels")]
fn totals_are_exact_and_arg_reductions_return_the_first_position() {
    on_each(1, totals);
}

/// Sums floats along several axes in the documented order (reference implementation).
fn staged(known: &ExpectedArray, axes: &[usize]) -> Vec<clk_scalar::ScalarValue> {
    let mut known =
        ExpectedArray { items: known.items.iter().map(|x| x.to_type(Scalar::F64)).collect(), ..known.clone() };
    let mut axes = axes.to_vec();
    while let Some(end) = axes.pop() {
        let mut stage = vec![end];
        while axes.last().is_some_and(|axis| axis + 1 == stage[0]) {
            stage.insert(0, axes.pop().expect("an axis"));
        }
        let (shape, columns) = columns(&known, &stage);
        let sum = |items: &Vec<clk_scalar::ScalarValue>| {
            tree(items.clone(), |a, b| dynamic::binary(BinaryOp::Add, a, b).expect("a sum"))
        };
        known = ExpectedArray { items: columns.iter().map(sum).collect(), shape, ..known };
    }
    known.items
}

fn sums_along_axes(exec: &ExecContext, seed: u64) {
    let mut random = Random(seed ^ 0x51);
    let shape = random.pick(&[&[3usize, 130, 20] as &[usize], &[2, 3, 4, 300], &[5, 40, 30], &[70, 2, 70]]);
    let scalar = random.pick(&[Scalar::F16, Scalar::F32, Scalar::F64]);
    let known = numbers_of(&mut random, scalar, shape, false);
    let mut axes: Vec<usize> = (0..shape.len()).filter(|_| random.random_below(2) == 0).collect();
    if axes.is_empty() {
        axes.push(0);
    }
    let given: Vec<i64> = axes.iter().rev().map(|&axis| axis as i64).collect();
    let value = ops::reduce_to(exec, ReduceKind::Sum, &known.value, Some(&given), None).expect("sums");
    let items = staged(&known, &axes).into_iter().map(|sum| sum.to_type(scalar)).collect();
    let shape = columns(&known, &axes).0;
    ExpectedArray { value, shape, items }.check(&format!("seed {seed}: sums of {scalar} along {axes:?}"));
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of kernels")]
fn sums_along_several_axes_have_the_documented_order() {
    on_each(1, sums_along_axes);
}

/// Computes cumulative sums in the documented order. A result is the sum within the element's run of 16, plus the sum
/// of all earlier runs, which is computed recursively.
pub(super) fn running(elements: &[clk_scalar::ScalarValue]) -> Vec<clk_scalar::ScalarValue> {
    let add = |a, b| dynamic::binary(BinaryOp::Add, a, b).expect("a sum");
    let within: Vec<clk_scalar::ScalarValue> = (0..elements.len())
        .map(|i| {
            let run = &elements[i / 16 * 16..=i];
            run[1..].iter().fold(run[0], |sum, &x| add(sum, x))
        })
        .collect();
    let runs: Vec<clk_scalar::ScalarValue> = within.chunks(16).map(|run| run[run.len() - 1]).collect();
    let before = earlier(&runs);
    within.iter().enumerate().map(|(i, &sum)| add(before[i / 16], sum)).collect()
}

/// Returns, for each element, the sum of all elements before it.
fn earlier(elements: &[clk_scalar::ScalarValue]) -> Vec<clk_scalar::ScalarValue> {
    let zero = clk_scalar::ScalarValue::zero(elements[0].ty);
    let add = |a, b| dynamic::binary(BinaryOp::Add, a, b).expect("a sum");
    let runs: Vec<clk_scalar::ScalarValue> =
        elements.chunks(16).map(|run| run[1..].iter().fold(run[0], |sum, &x| add(sum, x))).collect();
    let before = if runs.len() == 1 { vec![zero] } else { earlier(&runs) };
    let sum = |i: usize| {
        let run = &elements[i / 16 * 16..i];
        let within = run.iter().copied().reduce(add);
        within.map_or(before[i / 16], |within| add(before[i / 16], within))
    };
    (0..elements.len()).map(sum).collect()
}

fn cumulative(exec: &ExecContext, seed: u64) {
    let mut random = Random(seed ^ 0xc5);
    let shape = random.pick(&[&[5000usize] as &[usize], &[9], &[3, 130, 2], &[20_000], &[2, 300], &[4097, 2], &[0]]);
    let scalar = random.pick(&NUMBERS);
    let known = numbers_of(&mut random, scalar, shape, false);
    let axis = random.random_below(shape.len());
    let inner: usize = shape[axis + 1..].iter().product();
    let to = ops::totals::total_type(scalar);
    let wide = if scalar.is_float() { Scalar::F64 } else { to };
    let mut items = known.items.clone();
    let mut fits = true;
    for start in (0..items.len()).filter(|at| (at / inner.max(1)).is_multiple_of(shape[axis])) {
        let places: Vec<usize> = (0..shape[axis]).map(|row| start + row * inner).collect();
        let elements: Vec<clk_scalar::ScalarValue> = places.iter().map(|&at| known.items[at]).collect();
        let sums: Vec<clk_scalar::ScalarValue> = if scalar.is_float() {
            running(&elements.iter().map(|x| x.to_type(wide)).collect::<Vec<_>>())
                .iter()
                .map(|x| x.to_type(scalar))
                .collect()
        } else {
            let mut sum = 0i128;
            let mut next = |x: &clk_scalar::ScalarValue| {
                sum += x.as_integer().expect("an integer");
                let number = clk_scalar::ScalarValue::from_integer(to, sum);
                fits &= number.is_some();
                number.unwrap_or(*x)
            };
            elements.iter().map(&mut next).collect()
        };
        places.iter().zip(sums).for_each(|(&at, sum)| items[at] = sum);
    }
    let text = format!("seed {seed}: cumsum of {scalar} {shape:?} along {axis}");
    match ops::cumsum_to(exec, &known.value, Some(axis as i64), None) {
        Ok(value) if fits => ExpectedArray { value, shape: shape.to_vec(), items }.check(&text),
        Err(error) if !fits => assert_eq!(error.code, "E0546", "{text}"),
        Ok(_) => panic!("{text}: not refused"),
        Err(error) => panic!("{text}: {error:?}"),
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of kernels")]
fn cumulative_sums_have_the_documented_order() {
    on_each(1, cumulative);
}

/// The kernels for axes whose indices need 64 bits pass the verifier.
#[test]
fn rounds_of_long_axes() {
    let exec = &ExecContext::default();
    let x = numbers(5000);
    let (plan, element, _) = FusionPlan::for_axis_groups(array(&x), &[5000], &[1], exec).expect("a plan");
    for index in [Scalar::I32, Scalar::I64] {
        let (combine, wide, result) = (ElementwiseOp::Binary(BinaryOp::Add), Scalar::F64, Scalar::F32);
        let round = ReductionRound {
            element,
            axis: 0,
            index,
            combine,
            accumulator: wide,
            few_threads: false,
            divide: false,
            result,
        };
        clk_pass::prepare(kernel_builder::reduction_kernel(&plan, &round).expect("a kernel"))
            .map(drop)
            .expect("a valid one");
        let best = ArgReduceRound { element, position: None, axis: 0, index, scalar: Scalar::F32, largest: true };
        clk_pass::prepare(kernel_builder::arg_reduce_kernel(&plan, &best).expect("a kernel"))
            .map(drop)
            .expect("a valid one");
    }
}
