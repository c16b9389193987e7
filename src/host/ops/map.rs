//! A function of every scalar of an array.

use crate::base::stop;
use crate::host::array::{Array, Item};
use crate::host::problem::Outcome;

/// Applies `f` to every scalar of an array.
pub(crate) fn map<T: Item, R: Item>(array: &Array, f: impl Fn(T) -> R) -> Outcome<Array> {
    let items = array.items::<T>()?;
    Array::build(array.element().with_scalar(R::SCALAR), array.shape(), |result: &mut [R]| {
        for (start, places) in stop::parts_mut(result) {
            let items = items.get(start..).unwrap_or(&[]);
            places.iter_mut().zip(items).for_each(|(place, &x)| *place = f(x));
        }
    })
}
