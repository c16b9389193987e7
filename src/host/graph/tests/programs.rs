//! Operations of random programs that are not elementwise: reductions, positions, cumulative sums, products, slices and transposes.

use super::totals::{columns, first, running, total};
use super::*;
use crate::host::array::SliceSpec;
use crate::host::ops::Reduce;

impl Builder {
    /// Applies an operation to whole arrays; `None` if none of those drawn takes them, or if it is rightly refused.
    pub(super) fn whole(&mut self, pool: &[Known]) -> Option<Known> {
        self.operand = self.random.below(pool.len());
        let x = pool[self.operand].clone();
        if !matches!(x.value, Value::Array(_)) || x.shape.is_empty() {
            return None;
        }
        let (made, text) = match self.random.below(10) {
            0 | 1 => self.reduction(&x),
            2 => self.position(&x),
            3 => self.cumulative(&x),
            4 => self.product(pool, &x),
            5 => self.slice(&x),
            6 => self.turned(&x),
            7 => self.sorted(&x),
            _ => self.picked(pool, &x),
        }?;
        self.text += &format!("{text}({}) {:?} -> {:?}\n", x.scalar(), x.shape, made.shape);
        if self.now {
            made.check(&self.text);
        }
        Some(made)
    }

    fn reduction(&mut self, x: &Known) -> Option<(Known, String)> {
        let hows: &[Reduce] = match x.scalar() {
            Scalar::Bool => &[Reduce::All, Reduce::Any],
            scalar if scalar.is_int() => &[Reduce::Sum, Reduce::Prod, Reduce::Min, Reduce::Max],
            _ => &[Reduce::Sum, Reduce::Mean, Reduce::Prod, Reduce::Min, Reduce::Max],
        };
        let (how, axis) = (self.random.pick(hows), self.random.below(x.shape.len()));
        let text = format!("{how:?} along {axis}");
        let found = ops::reduce(how, &x.value, Some(axis as i64));
        let (shape, columns) = columns(x, &[axis]);
        let is_total = x.scalar().is_int() && matches!(how, Reduce::Sum | Reduce::Prod);
        let to = if is_total { ops::totals::total_type(x.scalar()) } else { x.scalar() };
        let items: Option<Vec<scalar::Value>> = if x.shape[axis] == 0 {
            match how {
                Reduce::Min | Reduce::Max | Reduce::Mean => {
                    assert_eq!(found.expect_err("a reduction of nothing").code, "E0542", "{}", self.text);
                    return None;
                }
                Reduce::Prod | Reduce::All => Some(columns.iter().map(|_| scalar::Value::one(to)).collect()),
                _ => Some(columns.iter().map(|_| scalar::Value::zero(to)).collect()),
            }
        } else if is_total {
            columns.iter().map(|items| total(how, items, to)).collect()
        } else {
            Some(reduced(how, x, Some(axis)))
        };
        self.settled(found, items, shape, text)
    }

    /// Returns a result, unless it is too large for its type and refused.
    fn settled(
        &self,
        found: crate::host::problem::Outcome<Value>,
        items: Option<Vec<scalar::Value>>,
        shape: Vec<usize>,
        text: String,
    ) -> Option<(Known, String)> {
        match (found, items) {
            (Ok(value), Some(items)) => Some((Known { value, shape, items }, text)),
            (Err(error), None) => {
                assert_eq!(error.code, "E0546", "{}{text}", self.text);
                None
            }
            (Ok(_), None) => panic!("{}{text}: not refused", self.text),
            (Err(error), Some(_)) => panic!("{}{text}: {error:?}", self.text),
        }
    }

    fn position(&mut self, x: &Known) -> Option<(Known, String)> {
        if x.scalar() == Scalar::Bool {
            return None;
        }
        let (how, axis) = (self.random.pick(&[Reduce::Argmin, Reduce::Argmax]), self.random.below(x.shape.len()));
        if x.shape[axis] == 0 {
            return None;
        }
        let (shape, columns) = columns(x, &[axis]);
        let value = ops::reduce(how, &x.value, Some(axis as i64)).expect("positions");
        let items = columns.iter().map(|items| first(how, items)).collect();
        Some((Known { value, shape, items }, format!("{how:?} along {axis}")))
    }

    fn cumulative(&mut self, x: &Known) -> Option<(Known, String)> {
        let (scalar, axis) = (x.scalar(), self.random.below(x.shape.len()));
        if scalar == Scalar::Bool {
            return None;
        }
        let found = ops::cumsum_to(&x.value, Some(axis as i64), None);
        let (inner, len): (usize, usize) = (x.shape[axis + 1..].iter().product(), x.shape[axis]);
        let to = if scalar.is_int() { ops::totals::total_type(scalar) } else { scalar };
        let mut items = Some(vec![scalar::Value::zero(to); x.items.len()]);
        for start in (0..x.items.len()).filter(|at| (at / inner.max(1)).is_multiple_of(len.max(1))) {
            let places: Vec<usize> = (0..len).map(|row| start + row * inner).collect();
            let elements: Vec<scalar::Value> = places.iter().map(|&at| x.items[at]).collect();
            let sums: Option<Vec<scalar::Value>> = if scalar.is_int() {
                (1..=len).map(|count| total(Reduce::Sum, &elements[..count], to)).collect()
            } else {
                let wide: Vec<scalar::Value> = elements.iter().map(|x| x.to_type(Scalar::F64)).collect();
                Some(running(&wide).iter().map(|sum| sum.to_type(to)).collect())
            };
            items = items.zip(sums).map(|(mut items, sums)| {
                places.iter().zip(sums).for_each(|(&at, sum)| items[at] = sum);
                items
            });
        }
        self.settled(found, items, x.shape.clone(), format!("cumsum along {axis}"))
    }

    /// The product with an array that fits, else with itself transposed.
    fn product(&mut self, pool: &[Known], x: &Known) -> Option<(Known, String)> {
        let scalar = x.scalar();
        if scalar == Scalar::Bool || x.shape.len() > 2 || x.items.len() > 4000 {
            return None;
        }
        let inner = *x.shape.last()?;
        let fits = |y: &&Known| {
            y.scalar() == scalar
                && matches!(y.value, Value::Array(_))
                && (1..=2).contains(&y.shape.len())
                && y.shape[0] == inner
        };
        let other = match pool.iter().find(fits) {
            Some(other) => other.clone(),
            None => self.turned(x)?.0,
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
        let items: Option<Vec<scalar::Value>> = (0..rows * columns).map(element).collect();
        let mut shape = x.shape[..x.shape.len() - 1].to_vec();
        shape.extend(&other.shape[1..]);
        let found = ops::matmul(&x.value, &other.value);
        self.settled(found, items, shape, format!("@ {:?}", other.shape))
    }

    fn slice(&mut self, x: &Known) -> Option<(Known, String)> {
        let axis = self.random.below(x.shape.len());
        let len = x.shape[axis];
        let start = self.random.below(len + 1);
        let end = start + self.random.below(len - start + 1);
        let mut specs: Vec<SliceSpec> = vec![SliceSpec::ALL; axis];
        specs.push(SliceSpec::Range { start: Some(start as i64), end: Some(end as i64), inclusive: false, step: None });
        let value = ops::index(&x.value, &specs).expect("a slice");
        let inner: usize = x.shape[axis + 1..].iter().product();
        let inside = |at: &usize| (start..end).contains(&(at / inner.max(1) % len.max(1)));
        let items = (0..x.items.len()).filter(inside).map(|at| x.items[at]).collect();
        let mut shape = x.shape.clone();
        shape[axis] = end - start;
        Some((Known { value, shape, items }, format!("[{start}..{end}] along {axis}")))
    }

    /// The axes in reverse order.
    fn turned(&mut self, x: &Known) -> Option<(Known, String)> {
        let value = ops::transpose(&x.value).expect("a transpose");
        let shape: Vec<usize> = x.shape.iter().rev().copied().collect();
        let item = |position: usize| {
            let (mut rest, mut stride, mut at) = (position, 1, 0);
            let mut indices = Vec::new();
            for &len in shape.iter().rev() {
                indices.push(rest % len);
                rest /= len;
            }
            // Now the indices of the operand, in order.
            for (&index, &len) in indices.iter().rev().zip(shape.iter()) {
                at += index * stride;
                stride *= len;
            }
            x.items[at]
        };
        let items = (0..x.items.len()).map(item).collect();
        Some((Known { value, shape, items }, "transpose".to_string()))
    }
}
