//! Operations of the random programs that are not elementwise: reductions, arg-reductions, cumulative sums, products,
//! slices and transposes.

use super::totals::{columns, first, running, total};
use super::*;
use crate::array::SliceSpec;
use crate::ops::ReduceKind;

impl Builder {
    /// Applies a random operation to a random array. `None` if the array does not support the operation, or if an error
    /// is expected.
    pub(super) fn array_operation(&mut self, exec: &ExecContext, pool: &[ExpectedArray]) -> Option<ExpectedArray> {
        self.operand = self.random.random_below(pool.len());
        let x = pool[self.operand].clone();
        if !matches!(x.value, HostValue::Array(_)) || x.shape.is_empty() {
            return None;
        }
        let (made, text) = match self.random.random_below(10) {
            0 | 1 => self.reduction(exec, &x),
            2 => self.position(exec, &x),
            3 => self.cumulative(exec, &x),
            4 => self.product(exec, pool, &x),
            5 => self.slice(exec, &x),
            6 => self.transposed(exec, &x),
            7 => self.random_sort(exec, &x),
            _ => self.random_gather(exec, pool, &x),
        }?;
        self.text += &format!("{text}({}) {:?} -> {:?}\n", x.scalar(), x.shape, made.shape);
        if self.now {
            made.check(&self.text);
        }
        Some(made)
    }

    fn reduction(&mut self, exec: &ExecContext, x: &ExpectedArray) -> Option<(ExpectedArray, String)> {
        let hows: &[ReduceKind] = match x.scalar() {
            Scalar::Bool => &[ReduceKind::All, ReduceKind::Any],
            scalar if scalar.is_int() => &[ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Min, ReduceKind::Max],
            _ => &[ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Prod, ReduceKind::Min, ReduceKind::Max],
        };
        let (how, axis) = (self.random.pick(hows), self.random.random_below(x.shape.len()));
        let text = format!("{how:?} along {axis}");
        let outcome = ops::reduce(exec, how, &x.value, Some(axis as i64));
        let (shape, columns) = columns(x, &[axis]);
        let is_total = x.scalar().is_int() && matches!(how, ReduceKind::Sum | ReduceKind::Prod);
        let to = if is_total { ops::totals::total_type(x.scalar()) } else { x.scalar() };
        let items: Option<Vec<clk_scalar::ScalarValue>> = if x.shape[axis] == 0 {
            match how {
                ReduceKind::Min | ReduceKind::Max | ReduceKind::Mean => {
                    assert_eq!(outcome.expect_err("a reduction of nothing").code, "E0542", "{}", self.text);
                    return None;
                }
                ReduceKind::Prod | ReduceKind::All => {
                    Some(columns.iter().map(|_| clk_scalar::ScalarValue::one(to)).collect())
                }
                _ => Some(columns.iter().map(|_| clk_scalar::ScalarValue::zero(to)).collect()),
            }
        } else if is_total {
            columns.iter().map(|items| total(how, items, to)).collect()
        } else {
            Some(reference_reduction(how, x, Some(axis)))
        };
        self.check_outcome(outcome, items, shape, text)
    }

    /// Checks the outcome of an operation. Returns the result, or `None` if it is correctly rejected because it
    /// overflows its type.
    fn check_outcome(
        &self,
        found: crate::problem::HostResult<HostValue>,
        items: Option<Vec<clk_scalar::ScalarValue>>,
        shape: Vec<usize>,
        text: String,
    ) -> Option<(ExpectedArray, String)> {
        match (found, items) {
            (Ok(value), Some(items)) => Some((ExpectedArray { value, shape, items }, text)),
            (Err(error), None) => {
                assert_eq!(error.code, "E0546", "{}{text}", self.text);
                None
            }
            (Ok(_), None) => panic!("{}{text}: not refused", self.text),
            (Err(error), Some(_)) => panic!("{}{text}: {error:?}", self.text),
        }
    }

    fn position(&mut self, exec: &ExecContext, x: &ExpectedArray) -> Option<(ExpectedArray, String)> {
        if x.scalar() == Scalar::Bool {
            return None;
        }
        let (how, axis) =
            (self.random.pick(&[ReduceKind::Argmin, ReduceKind::Argmax]), self.random.random_below(x.shape.len()));
        if x.shape[axis] == 0 {
            return None;
        }
        let (shape, columns) = columns(x, &[axis]);
        let value = ops::reduce(exec, how, &x.value, Some(axis as i64)).expect("positions");
        let items = columns.iter().map(|items| first(how, items)).collect();
        Some((ExpectedArray { value, shape, items }, format!("{how:?} along {axis}")))
    }

    fn cumulative(&mut self, exec: &ExecContext, x: &ExpectedArray) -> Option<(ExpectedArray, String)> {
        let (scalar, axis) = (x.scalar(), self.random.random_below(x.shape.len()));
        if scalar == Scalar::Bool {
            return None;
        }
        let outcome = ops::cumsum_to(exec, &x.value, Some(axis as i64), None);
        let (inner, len): (usize, usize) = (x.shape[axis + 1..].iter().product(), x.shape[axis]);
        let to = if scalar.is_int() { ops::totals::total_type(scalar) } else { scalar };
        let mut items = Some(vec![clk_scalar::ScalarValue::zero(to); x.items.len()]);
        for start in (0..x.items.len()).filter(|at| (at / inner.max(1)).is_multiple_of(len.max(1))) {
            let places: Vec<usize> = (0..len).map(|row| start + row * inner).collect();
            let elements: Vec<clk_scalar::ScalarValue> = places.iter().map(|&at| x.items[at]).collect();
            let sums: Option<Vec<clk_scalar::ScalarValue>> = if scalar.is_int() {
                (1..=len).map(|count| total(ReduceKind::Sum, &elements[..count], to)).collect()
            } else {
                let wide: Vec<clk_scalar::ScalarValue> = elements.iter().map(|x| x.to_type(Scalar::F64)).collect();
                Some(running(&wide).iter().map(|sum| sum.to_type(to)).collect())
            };
            items = items.zip(sums).map(|(mut items, sums)| {
                places.iter().zip(sums).for_each(|(&at, sum)| items[at] = sum);
                items
            });
        }
        self.check_outcome(outcome, items, x.shape.clone(), format!("cumsum along {axis}"))
    }

    /// Returns the product of `x` with an array of a matching shape from the pool; if there is none, with its own
    /// transpose.
    fn product(
        &mut self,
        exec: &ExecContext,
        pool: &[ExpectedArray],
        x: &ExpectedArray,
    ) -> Option<(ExpectedArray, String)> {
        let scalar = x.scalar();
        if scalar == Scalar::Bool || x.shape.len() > 2 || x.items.len() > 4000 {
            return None;
        }
        let inner = *x.shape.last()?;
        let is_factor = |y: &&ExpectedArray| {
            y.scalar() == scalar
                && matches!(y.value, HostValue::Array(_))
                && (1..=2).contains(&y.shape.len())
                && y.shape[0] == inner
        };
        let other = match pool.iter().find(is_factor) {
            Some(other) => other.clone(),
            None => self.transposed(exec, x)?.0,
        };
        if *other.shape.first()? != inner {
            return None;
        }
        let rows = x.items.len().checked_div(inner)?;
        let columns = other.items.len() / inner;
        let with_vector = x.shape.len() == 1 || other.shape.len() == 1;
        let element = |at: usize| {
            let pair = |k: usize| (x.items[at / columns * inner + k], other.items[k * columns + at % columns]);
            let pairs: Vec<_> = (0..inner).map(pair).collect();
            match scalar.is_int() {
                true => products::exact(&pairs, scalar),
                false if with_vector => Some(products::ordered(&pairs, scalar)),
                false => Some(products::chain(&pairs, scalar)),
            }
        };
        let items: Option<Vec<clk_scalar::ScalarValue>> = (0..rows * columns).map(element).collect();
        let mut shape = x.shape[..x.shape.len() - 1].to_vec();
        shape.extend(&other.shape[1..]);
        let outcome = ops::matmul(exec, &x.value, &other.value);
        self.check_outcome(outcome, items, shape, format!("@ {:?}", other.shape))
    }

    fn slice(&mut self, exec: &ExecContext, x: &ExpectedArray) -> Option<(ExpectedArray, String)> {
        let axis = self.random.random_below(x.shape.len());
        let len = x.shape[axis];
        let start = self.random.random_below(len + 1);
        let end = start + self.random.random_below(len - start + 1);
        let mut specs: Vec<SliceSpec> = vec![SliceSpec::ALL; axis];
        specs.push(SliceSpec::Range { start: Some(start as i64), end: Some(end as i64), inclusive: false, step: None });
        let value = ops::index(exec, &x.value, &specs).expect("a slice");
        let inner: usize = x.shape[axis + 1..].iter().product();
        let inside = |at: &usize| (start..end).contains(&(at / inner.max(1) % len.max(1)));
        let items = (0..x.items.len()).filter(inside).map(|at| x.items[at]).collect();
        let mut shape = x.shape.clone();
        shape[axis] = end - start;
        Some((ExpectedArray { value, shape, items }, format!("[{start}..{end}] along {axis}")))
    }

    /// Returns `x` with its axes in reverse order.
    fn transposed(&mut self, exec: &ExecContext, x: &ExpectedArray) -> Option<(ExpectedArray, String)> {
        let value = ops::transpose(exec, &x.value, None).expect("a transpose");
        let shape: Vec<usize> = x.shape.iter().rev().copied().collect();
        let item = |position: usize| {
            let (mut rest, mut stride, mut at) = (position, 1, 0);
            let mut indices = Vec::new();
            for &len in shape.iter().rev() {
                indices.push(rest % len);
                rest /= len;
            }
            // Convert the reversed indices to the position in the operand.
            for (&index, &len) in indices.iter().rev().zip(shape.iter()) {
                at += index * stride;
                stride *= len;
            }
            x.items[at]
        };
        let items = (0..x.items.len()).map(item).collect();
        Some((ExpectedArray { value, shape, items }, "transpose".to_string()))
    }
}
