//! Checks assumptions about the elements of an integer array, which a kernel states in `assume` clauses such as `assume
//! ascending(x)`. Such an assumption is called a promise.
//!
//! Given a [`PromiseValue`] and the bytes of the elements, [`find_violation`] finds the first element that violates the
//! promise.

use crate::ops::BinaryOp;
use crate::{Scalar, ScalarValue};
use clk_base::{alloc, stop};

/// A promise whose bound has been evaluated for a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromiseValue {
    /// `all(x < n)`, for any comparison: it is true for each element `x` and this number `n`.
    All(BinaryOp, i128),
    Ascending,
    Distinct,
    Permutation,
}

/// An element that violates a promise, and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromiseViolation {
    /// The element violates [`PromiseValue::All`] or is not in the range of a permutation.
    InvalidElement { index: usize, value: i128 },
    /// The element is less than the element before it.
    Descending { index: usize, value: i128, before: i128 },
    /// The element is equal to an earlier element, whose index is `first`.
    Duplicate { index: usize, value: i128, first: usize },
}

/// The elements of an integer array.
#[derive(Clone, Copy)]
struct Elements<'a> {
    scalar: Scalar,
    bytes: &'a [u8],
}

impl Elements<'_> {
    fn len(self) -> usize {
        self.bytes.len() / self.scalar.size()
    }

    fn get(self, index: usize) -> i128 {
        let size = self.scalar.size();
        let mut bits = [0; 8];
        let from = self.bytes.get(index * size..(index + 1) * size).unwrap_or(&[]);
        bits.iter_mut().zip(from).for_each(|(to, byte)| *to = *byte);
        ScalarValue { ty: self.scalar, bits: u64::from_le_bytes(bits) }.as_integer().unwrap_or(0)
    }

    /// Calls `check` for each element and returns the first violation that it finds.
    fn first_violation(
        self,
        mut check: impl FnMut(usize, i128) -> Option<PromiseViolation>,
    ) -> Option<PromiseViolation> {
        stop::polled(0..self.len()).find_map(|index| check(index, self.get(index)))
    }

    /// Finds the first element that is equal to an earlier element.
    fn first_duplicate(self) -> Option<PromiseViolation> {
        let (mut low, mut high) = (i128::MAX, i128::MIN);
        stop::polled(0..self.len()).for_each(|index| {
            let value = self.get(index);
            (low, high) = (low.min(value), high.max(value));
        });
        let span = high.saturating_sub(low).saturating_add(1);
        let index = match span <= 64 * self.len() as i128 {
            true => self.duplicate_in_range(low, span as usize),
            false => self.duplicate_by_sorting(),
        }?;
        let value = self.get(index);
        let first = stop::polled(0..index).find(|&i| self.get(i) == value)?;
        Some(PromiseViolation::Duplicate { index, value, first })
    }

    /// Returns the index of the first duplicate. Uses one bit for each value in the range, so the range must be short.
    fn duplicate_in_range(self, low: i128, span: usize) -> Option<usize> {
        let mut bitset = alloc::zeros::<u64>(span / 64 + 1);
        stop::polled(0..self.len()).find(|&index| {
            let at = (self.get(index) - low) as usize;
            let Some(word) = bitset.get_mut(at / 64) else { return false };
            let previous = *word;
            *word |= 1 << (at % 64);
            previous == *word
        })
    }

    fn duplicate_by_sorting(self) -> Option<usize> {
        let mut all = alloc::vec(self.len());
        all.extend(stop::polled(0..self.len()).map(|index| (self.get(index), index)));
        all.sort_unstable();
        all.windows(2).filter_map(|pair| (pair[0].0 == pair[1].0).then_some(pair[1].1)).min()
    }
}

/// Returns the first element that violates a promise.
pub fn find_violation(promise: PromiseValue, scalar: Scalar, bytes: &[u8]) -> Option<PromiseViolation> {
    let elements = Elements { scalar, bytes };
    match promise {
        PromiseValue::All(op, bound) => elements.first_violation(|index, value| {
            (!evaluate_comparison(op, value, bound)).then_some(PromiseViolation::InvalidElement { index, value })
        }),
        PromiseValue::Ascending => {
            let mut before = i128::MIN;
            elements.first_violation(|index, value| {
                let last = std::mem::replace(&mut before, value);
                (value < last).then_some(PromiseViolation::Descending { index, value, before: last })
            })
        }
        PromiseValue::Distinct => elements.first_duplicate(),
        PromiseValue::Permutation => {
            let count = elements.len() as i128;
            let outside = |index, value| {
                (!(0..count).contains(&value)).then_some(PromiseViolation::InvalidElement { index, value })
            };
            elements.first_violation(outside).or_else(|| elements.first_duplicate())
        }
    }
}

/// Returns whether all integers from `least` to `most` are valid as single elements of an array of `count` elements
/// with this promise. Ignores conditions on the order and on duplicates.
pub fn holds_within(promise: PromiseValue, least: i128, most: i128, count: usize) -> bool {
    match promise {
        PromiseValue::All(BinaryOp::Ne, bound) => bound < least || most < bound,
        PromiseValue::All(op, bound) => evaluate_comparison(op, least, bound) && evaluate_comparison(op, most, bound),
        PromiseValue::Permutation => least >= 0 && most < count as i128,
        PromiseValue::Ascending | PromiseValue::Distinct => true,
    }
}

/// Evaluates a comparison of two integers; false for other operators.
pub fn evaluate_comparison(op: BinaryOp, a: i128, b: i128) -> bool {
    match op {
        BinaryOp::Eq => a == b,
        BinaryOp::Ne => a != b,
        BinaryOp::Lt => a < b,
        BinaryOp::Le => a <= b,
        BinaryOp::Gt => a > b,
        BinaryOp::Ge => a >= b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(promise: PromiseValue, values: &[i16]) -> Option<PromiseViolation> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        find_violation(promise, Scalar::I16, &bytes)
    }

    #[test]
    fn the_first_violation_is_found() {
        let invalid = |index, value| Some(PromiseViolation::InvalidElement { index, value });
        assert_eq!(of(PromiseValue::All(BinaryOp::Ge, 0), &[3, 0, -1, -2]), invalid(2, -1));
        assert_eq!(of(PromiseValue::All(BinaryOp::Lt, 4), &[3, 0, -1]), None);
        assert_eq!(of(PromiseValue::All(BinaryOp::Lt, 4), &[]), None);
        assert_eq!(of(PromiseValue::Ascending, &[-3, -3, 5, 5]), None);
        assert_eq!(
            of(PromiseValue::Ascending, &[1, 5, 4]),
            Some(PromiseViolation::Descending { index: 2, value: 4, before: 5 })
        );
        assert_eq!(of(PromiseValue::Permutation, &[2, 0, 1]), None);
        assert_eq!(of(PromiseValue::Permutation, &[2, 0, 3]), invalid(2, 3));
        assert_eq!(of(PromiseValue::Permutation, &[2, -1, 3]), invalid(1, -1));
        let duplicate = |index, value, first| Some(PromiseViolation::Duplicate { index, value, first });
        assert_eq!(of(PromiseValue::Permutation, &[1, 0, 1]), duplicate(2, 1, 0));
        assert_eq!(of(PromiseValue::Distinct, &[7, -7, 9, 9, 7]), duplicate(3, 9, 2));
        assert_eq!(of(PromiseValue::Distinct, &[30000, -30000, 0, 1, 30000]), duplicate(4, 30000, 0));
        assert_eq!(of(PromiseValue::Distinct, &[30000, -30000, 0]), None);
        assert_eq!(of(PromiseValue::Distinct, &[]), None);
    }

    #[test]
    fn range_checks_agree_with_element_checks() {
        let all = [BinaryOp::Eq, BinaryOp::Ne, BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge];
        let promises = all.into_iter().flat_map(|op| (-1..5).map(move |bound| PromiseValue::All(op, bound)));
        for promise in promises.chain([PromiseValue::Permutation]) {
            for (least, most) in [(0, 0), (0, 3), (1, 2), (-1, 2)] {
                let is_kept = holds_within(promise, least, most, 3);
                let values: Vec<i16> = (least as i16..=most as i16).collect();
                let truly = match promise {
                    PromiseValue::Permutation => least >= 0 && most < 3,
                    _ => of(promise, &values).is_none(),
                };
                assert_eq!(is_kept, truly, "{promise:?} {least} {most}");
            }
        }
    }

    #[test]
    fn unsigned_elements_are_not_negative() {
        assert_eq!(find_violation(PromiseValue::All(BinaryOp::Ge, 0), Scalar::U8, &[255]), None);
        assert_eq!(find_violation(PromiseValue::Ascending, Scalar::U8, &[127, 128]), None);
    }
}
