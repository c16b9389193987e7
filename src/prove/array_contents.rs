//! Generates array contents that satisfy the promises about an array, for replays that try to confirm a counterexample.

use std::ops::RangeInclusive;

use clk_ir::footprint::constant;
use clk_ir::footprint::vars::ArrayPromises;
use clk_scalar::array_assumption::{PromiseValue, find_violation};
use clk_scalar::ops::BinaryOp;
use clk_scalar::{Scalar, ScalarValue};

/// Fills an array of integers. Different seeds result in different elements. Returns `None` if no elements were found
/// that satisfy the promises; the launch cannot be replayed then.
pub(super) fn fill_with_promises(
    array_promises: &ArrayPromises,
    scalar: Scalar,
    seed: u64,
    data: &mut [u8],
) -> Option<()> {
    let promises = concrete_promises(array_promises)?;
    let count = data.len() / scalar.size();
    let (mut low, mut high) = (i128::MIN, i128::MAX);
    for promise in &promises {
        match *promise {
            PromiseValue::All(BinaryOp::Ge, bound) => low = low.max(bound),
            PromiseValue::All(BinaryOp::Gt, bound) => low = low.max(bound + 1),
            PromiseValue::All(BinaryOp::Le, bound) => high = high.min(bound),
            PromiseValue::All(BinaryOp::Lt, bound) => high = high.min(bound - 1),
            PromiseValue::All(BinaryOp::Eq, bound) => (low, high) = (bound, bound),
            _ => {}
        }
    }
    // If there is no bound, the elements are small numbers.
    let least = if seed == 2 { -(count as i128) } else { 0 };
    let low = if low == i128::MIN { high.min(least) } else { low };
    let high = if high == i128::MAX { low.saturating_add(count as i128) } else { high };
    for (i, chunk) in data.chunks_mut(scalar.size()).enumerate() {
        let number = element(array_promises, seed, i as i128, count as i128, low..=high);
        let bits = ScalarValue::from_integer(scalar, number)?.bits;
        chunk.iter_mut().zip(bits.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    promises.iter().all(|promise| find_violation(*promise, scalar, data).is_none()).then_some(())
}

/// Returns whether the elements of an array satisfy the promises about it.
pub(super) fn keeps_promises(array_promises: &ArrayPromises, scalar: Scalar, data: &[u8]) -> bool {
    concrete_promises(array_promises)
        .is_some_and(|all| all.iter().all(|promise| find_violation(*promise, scalar, data).is_none()))
}

/// Returns the promises with constant bounds; `None` if a bound is not a constant.
fn concrete_promises(array_promises: &ArrayPromises) -> Option<Vec<PromiseValue>> {
    let mut all = vec![];
    for (op, bound) in &array_promises.all {
        all.push(PromiseValue::All(*op, constant(bound)?));
    }
    all.extend(array_promises.ascending.then_some(PromiseValue::Ascending));
    all.extend(array_promises.distinct.then_some(PromiseValue::Distinct));
    Some(all)
}

/// Returns element `i` of an array that is likely to satisfy the promises.
fn element(array_promises: &ArrayPromises, seed: u64, i: i128, count: i128, bounds: RangeInclusive<i128>) -> i128 {
    let (low, high) = (*bounds.start(), *bounds.end());
    let interpolate = |at: i128, of: i128| low + (high - low).max(0) * at / of.max(1);
    match (array_promises.distinct, array_promises.ascending, seed) {
        (true, false, 1) => low + count - 1 - i,
        (true, true, 1) => high - (count - 1 - i),
        (true, false, 2) => low + (i + 1) % count,
        (true, false, 3) => low + (i + 2) % count,
        (true, ..) => low + i,
        (_, true, 1) => interpolate(i, count - 1),
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
        (_, _, 3) => interpolate((i * 7 + 3) % 5, 4),
        _ => {
            if bounds.contains(&0) {
                0
            } else {
                low
            }
        }
    }
}
