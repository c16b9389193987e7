//! Tests of what a kernel's `assume` clauses promise about the elements of an integer array.
//!
//! Input: a [`Promise`] and the elements' bytes. Output: the first element that breaks it, if any.

use crate::base::{room, stop};
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::{Scalar, Value};

/// A promise with the values of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Each element compares so with a number.
    All(BinaryOp, i128),
    Ascending,
    Distinct,
    Permutation,
}

/// An element that breaks a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// On its own.
    Alone { index: usize, value: i128 },
    /// It is less than the one before it.
    Descends { index: usize, value: i128, before: i128 },
    /// It is equal to an earlier one.
    Again { index: usize, value: i128, first: usize },
}

/// The integers of an array.
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
        Value { ty: self.scalar, bits: u64::from_le_bytes(bits) }.as_integer().unwrap_or(0)
    }

    /// Returns the first index for which `broken` says so.
    fn first(self, mut broken: impl FnMut(usize, i128) -> Option<Broken>) -> Option<Broken> {
        stop::polled(0..self.len()).find_map(|index| broken(index, self.get(index)))
    }

    /// Finds the first element that is equal to an earlier one.
    fn again(self) -> Option<Broken> {
        let (mut low, mut high) = (i128::MAX, i128::MIN);
        stop::polled(0..self.len()).for_each(|index| {
            let value = self.get(index);
            (low, high) = (low.min(value), high.max(value));
        });
        let span = high.saturating_sub(low).saturating_add(1);
        let index = match span <= 64 * self.len() as i128 {
            true => self.again_in(low, span as usize),
            false => self.again_sorted(),
        }?;
        let value = self.get(index);
        let first = stop::polled(0..index).find(|&i| self.get(i) == value)?;
        Some(Broken::Again { index, value, first })
    }

    /// Values in a short range: one bit each.
    fn again_in(self, low: i128, span: usize) -> Option<usize> {
        let mut seen = room::zeros::<u64>(span / 64 + 1);
        stop::polled(0..self.len()).find(|&index| {
            let at = (self.get(index) - low) as usize;
            let Some(word) = seen.get_mut(at / 64) else { return false };
            let was = *word;
            *word |= 1 << (at % 64);
            was == *word
        })
    }

    fn again_sorted(self) -> Option<usize> {
        let mut all = room::vec(self.len());
        all.extend(stop::polled(0..self.len()).map(|index| (self.get(index), index)));
        all.sort_unstable();
        all.windows(2).filter_map(|pair| (pair[0].0 == pair[1].0).then_some(pair[1].1)).min()
    }
}

/// Returns the first element that breaks a promise.
pub fn broken(promise: Promise, scalar: Scalar, bytes: &[u8]) -> Option<Broken> {
    let elements = Elements { scalar, bytes };
    match promise {
        Promise::All(op, bound) => {
            elements.first(|index, value| (!compares(op, value, bound)).then_some(Broken::Alone { index, value }))
        }
        Promise::Ascending => {
            let mut before = i128::MIN;
            elements.first(|index, value| {
                let last = std::mem::replace(&mut before, value);
                (value < last).then_some(Broken::Descends { index, value, before: last })
            })
        }
        Promise::Distinct => elements.again(),
        Promise::Permutation => {
            let count = elements.len() as i128;
            let outside = |index, value| (!(0..count).contains(&value)).then_some(Broken::Alone { index, value });
            elements.first(outside).or_else(|| elements.again())
        }
    }
}

/// Returns whether all integers between two keep what is promised of how elements compare with numbers, of an array of so many elements;
/// how elements compare with each other is not looked at.
pub fn is_kept_within(promise: Promise, (least, most): (i128, i128), count: usize) -> bool {
    match promise {
        Promise::All(BinaryOp::Ne, bound) => bound < least || most < bound,
        Promise::All(op, bound) => compares(op, least, bound) && compares(op, most, bound),
        Promise::Permutation => least >= 0 && most < count as i128,
        Promise::Ascending | Promise::Distinct => true,
    }
}

/// Whether a comparison of two integers holds.
pub fn compares(op: BinaryOp, a: i128, b: i128) -> bool {
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

    fn of(promise: Promise, values: &[i16]) -> Option<Broken> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        broken(promise, Scalar::I16, &bytes)
    }

    #[test]
    fn the_first_element_that_breaks_a_promise_is_found() {
        let alone = |index, value| Some(Broken::Alone { index, value });
        assert_eq!(of(Promise::All(BinaryOp::Ge, 0), &[3, 0, -1, -2]), alone(2, -1));
        assert_eq!(of(Promise::All(BinaryOp::Lt, 4), &[3, 0, -1]), None);
        assert_eq!(of(Promise::All(BinaryOp::Lt, 4), &[]), None);
        assert_eq!(of(Promise::Ascending, &[-3, -3, 5, 5]), None);
        assert_eq!(of(Promise::Ascending, &[1, 5, 4]), Some(Broken::Descends { index: 2, value: 4, before: 5 }));
        assert_eq!(of(Promise::Permutation, &[2, 0, 1]), None);
        assert_eq!(of(Promise::Permutation, &[2, 0, 3]), alone(2, 3));
        assert_eq!(of(Promise::Permutation, &[2, -1, 3]), alone(1, -1));
        let again = |index, value, first| Some(Broken::Again { index, value, first });
        assert_eq!(of(Promise::Permutation, &[1, 0, 1]), again(2, 1, 0));
        assert_eq!(of(Promise::Distinct, &[7, -7, 9, 9, 7]), again(3, 9, 2));
        assert_eq!(of(Promise::Distinct, &[30000, -30000, 0, 1, 30000]), again(4, 30000, 0));
        assert_eq!(of(Promise::Distinct, &[30000, -30000, 0]), None);
        assert_eq!(of(Promise::Distinct, &[]), None);
    }

    #[test]
    fn what_holds_between_the_extremes_holds_of_all() {
        let all = [BinaryOp::Eq, BinaryOp::Ne, BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge];
        let promises = all.into_iter().flat_map(|op| (-1..5).map(move |bound| Promise::All(op, bound)));
        for promise in promises.chain([Promise::Permutation]) {
            for (least, most) in [(0, 0), (0, 3), (1, 2), (-1, 2)] {
                let kept = is_kept_within(promise, (least, most), 3);
                let values: Vec<i16> = (least as i16..=most as i16).collect();
                let truly = match promise {
                    Promise::Permutation => least >= 0 && most < 3,
                    _ => of(promise, &values).is_none(),
                };
                assert_eq!(kept, truly, "{promise:?} {least} {most}");
            }
        }
    }

    #[test]
    fn unsigned_elements_are_not_negative() {
        assert_eq!(broken(Promise::All(BinaryOp::Ge, 0), Scalar::U8, &[255]), None);
        assert_eq!(broken(Promise::Ascending, Scalar::U8, &[127, 128]), None);
    }
}
