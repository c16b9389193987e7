//! Contents of an array that keep what is promised of it, for runs that may show a counterexample.

use crate::ir::footprint::constant;
use crate::ir::footprint::space::Promised;
use crate::lang::ops::BinaryOp;
use crate::lang::promise::{Promise, broken};
use crate::lang::scalar::{Scalar, Value};

/// Fills an array of integers; other seeds choose other elements. `None`: no such elements were found, so such a launch is refused
/// by `--check`, or not known to be allowed.
pub(super) fn keep(promised: &Promised, scalar: Scalar, seed: u64, data: &mut [u8]) -> Option<()> {
    let promises = promises(promised)?;
    let count = data.len() / scalar.size();
    let (mut low, mut high) = (i128::MIN, i128::MAX);
    for promise in &promises {
        match *promise {
            Promise::All(BinaryOp::Ge, bound) => low = low.max(bound),
            Promise::All(BinaryOp::Gt, bound) => low = low.max(bound + 1),
            Promise::All(BinaryOp::Le, bound) => high = high.min(bound),
            Promise::All(BinaryOp::Lt, bound) => high = high.min(bound - 1),
            Promise::All(BinaryOp::Eq, bound) => (low, high) = (bound, bound),
            _ => {}
        }
    }
    // Small numbers where nothing is said.
    let least = if seed == 2 { -(count as i128) } else { 0 };
    let low = if low == i128::MIN { high.min(least) } else { low };
    let high = if high == i128::MAX { low.saturating_add(count as i128) } else { high };
    for (i, chunk) in data.chunks_mut(scalar.size()).enumerate() {
        let number = element(promised, seed, (i as i128, count as i128), (low, high));
        let bits = Value::from_integer(scalar, number)?.bits;
        chunk.iter_mut().zip(bits.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    promises.iter().all(|promise| broken(*promise, scalar, data).is_none()).then_some(())
}

/// Returns whether the elements of an array keep what is promised of it.
pub(super) fn is_kept(promised: &Promised, scalar: Scalar, data: &[u8]) -> bool {
    promises(promised).is_some_and(|all| all.iter().all(|promise| broken(*promise, scalar, data).is_none()))
}

fn promises(promised: &Promised) -> Option<Vec<Promise>> {
    let mut all = vec![];
    for (op, bound) in &promised.all {
        all.push(Promise::All(*op, constant(bound)?));
    }
    all.extend(promised.ascending.then_some(Promise::Ascending));
    all.extend(promised.distinct.then_some(Promise::Distinct));
    Some(all)
}

/// Returns an element that may be allowed.
fn element(promised: &Promised, seed: u64, (i, count): (i128, i128), (low, high): (i128, i128)) -> i128 {
    let spread = |at: i128, of: i128| low + (high - low).max(0) * at / of.max(1);
    match (promised.distinct, promised.ascending, seed) {
        (true, false, 1) => low + count - 1 - i,
        (true, true, 1) => high - (count - 1 - i),
        (true, false, 2) => low + (i + 1) % count,
        (true, false, 3) => low + (i + 2) % count,
        (true, ..) => low + i,
        (_, true, 1) => spread(i, count - 1),
        (_, true, 2) => high,
        (_, true, 3) => {
            if 2 * i < count {
                low
            } else {
                high
            }
        }
        (_, _, 1) => low + (i * 7 + 3) % (high - low + 1).clamp(1, 5),
        (_, _, 2) => high,
        (_, _, 3) => spread((i * 7 + 3) % 5, 4),
        _ => {
            if (low..=high).contains(&0) {
                0
            } else {
                low
            }
        }
    }
}
