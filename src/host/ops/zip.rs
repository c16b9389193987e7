//! Loops over two operands with broadcasting: the shape is split into rows along which each operand either advances by one or
//! stays, so that the inner loops run over plain slices.

use crate::base::stop::{self, PART, Ticks};
use crate::host::array::broadcast::{Walk, strides};

/// A loop over rows. Axes of extent 1 are dropped, and adjacent axes with compatible strides are merged.
pub(crate) struct Rows {
    outer: Vec<usize>,
    strides: [Vec<usize>; 2],
    inner: usize,
    advances: [bool; 2],
}

impl Rows {
    /// Creates the loop for operands of these shapes, which broadcast to `shape`.
    pub fn new(shape: &[usize], left: &[usize], right: &[usize]) -> Rows {
        let (mut lens, mut lefts, mut rights) = (vec![], vec![], vec![]);
        let (left, right) = (strides(left, shape), strides(right, shape));
        for ((&len, &l), &r) in shape.iter().zip(&left).zip(&right) {
            let joins = |strides: &[usize], stride: usize| strides.last().is_some_and(|&before| before == stride * len);
            if len == 1 {
                continue;
            }
            match lens.last_mut() {
                Some(last) if joins(&lefts, l) && joins(&rights, r) => {
                    *last *= len;
                    lefts.pop();
                    rights.pop();
                }
                _ => lens.push(len),
            }
            lefts.push(l);
            rights.push(r);
        }
        let inner = lens.pop().unwrap_or(1);
        let advances = [lefts.pop().is_some_and(|s| s != 0), rights.pop().is_some_and(|s| s != 0)];
        Rows { outer: lens, strides: [lefts, rights], inner, advances }
    }

    /// Calls `row` for each row with the slices of the operands (one element if an operand stays) and of the result.
    pub fn each<A, B, R>(&self, a: &[A], b: &[B], result: &mut [R], mut row: impl FnMut(&[A], &[B], &mut [R])) {
        let mut walk = Walk::new(&self.outer, self.strides.clone());
        let [left, right] = self.advances.map(|advances| if advances { self.inner } else { 1 });
        let ticks = Ticks::default();
        for out in result.chunks_exact_mut(self.inner.max(1)) {
            let [at, bt] = walk.offsets();
            if let (Some(a), Some(b)) = (a.get(at..at + left), b.get(bt..bt + right)) {
                row(a, b, out);
            }
            ticks.pass(self.inner);
            walk.advance();
        }
    }

    /// Writes `f` of every pair to the result.
    pub fn map<A: Copy, B: Copy, R>(&self, a: &[A], b: &[B], result: &mut [R], f: impl Fn(A, B) -> R + Copy) {
        self.each(a, b, result, |a, b, out| match out.len() > PART {
            false => row(a, b, out, f),
            true => stop::parts_mut(out).for_each(|(start, out)| {
                row(part(a, start, out.len()), part(b, start, out.len()), out, f);
            }),
        });
    }
}

/// Returns the slice of an operand for a part of a long row; an operand that stays is returned whole.
fn part<T>(operand: &[T], start: usize, len: usize) -> &[T] {
    if operand.len() == 1 { operand } else { operand.get(start..start + len).unwrap_or(&[]) }
}

fn row<A: Copy, B: Copy, R>(a: &[A], b: &[B], out: &mut [R], f: impl Fn(A, B) -> R) {
    match (a, b) {
        (&[a], b) if b.len() == out.len() => out.iter_mut().zip(b).for_each(|(r, &b)| *r = f(a, b)),
        (a, &[b]) if a.len() == out.len() => out.iter_mut().zip(a).for_each(|(r, &a)| *r = f(a, b)),
        (&[a], &[b]) => out.iter_mut().for_each(|r| *r = f(a, b)),
        _ => out.iter_mut().zip(a).zip(b).for_each(|((r, &a), &b)| *r = f(a, b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(shape: &[usize], left: &[usize], right: &[usize]) -> Vec<i32> {
        let count = |shape: &[usize]| (0..shape.iter().product::<usize>() as i32).collect::<Vec<_>>();
        let mut result = vec![-1; shape.iter().product()];
        Rows::new(shape, left, right).map(&count(left), &count(right), &mut result, |a, b| a + 10 * b);
        result
    }

    #[test]
    fn rows_broadcast() {
        assert_eq!(add(&[3], &[3], &[3]), [0, 11, 22]);
        assert_eq!(add(&[3], &[3], &[]), [0, 1, 2]);
        assert_eq!(add(&[2, 3], &[2, 1], &[3]), [0, 10, 20, 1, 11, 21]);
        assert_eq!(add(&[2, 2, 2], &[2, 2, 2], &[2, 1, 1]), [0, 1, 2, 3, 14, 15, 16, 17]);
        assert_eq!(add(&[2, 1, 2], &[1, 1, 2], &[2, 1, 2]), [0, 11, 20, 31]);
        assert_eq!(add(&[], &[], &[]), [0]);
        assert!(add(&[2, 0], &[2, 1], &[1, 0]).is_empty());
        assert_eq!(Rows::new(&[2, 3, 4], &[2, 3, 4], &[2, 3, 4]).inner, 24);
    }
}
