//! Splits indices of flat arrays into rows and columns: `row * w + column` with `0 <= column < w`.
//!
//! If two indices that are split at the same length are equal, so are their rows and their columns. These equations are
//! linear even if the row is a product, such as `block_idx.y * block_dim.y + thread_idx.y`.

use super::formula::*;
use super::vars::VarSpace as Variables;
use clk_base::linear::{AffineForm, Formula, Var};

/// The maximum number of lengths at which an index is split.
const MAX_SPLITS: usize = 4;

/// An index `row * length + column` with `0 <= column < length`. The length is equal for all threads.
pub(super) struct RowSplit {
    length: Var,
    row: AffineForm,
    column: AffineForm,
}

/// Splits an index, then its row, and so on. `follows` tells whether the path of the access implies a formula.
pub(super) fn split_rows(space: &Variables, index: &AffineForm, follows: &dyn Fn(&Formula) -> bool) -> Vec<RowSplit> {
    let mut splits: Vec<RowSplit> = vec![];
    while splits.len() < MAX_SPLITS
        && let Some(split) = split_at_any(space, splits.last().map_or(index, |last| &last.row), follows)
    {
        splits.push(split);
    }
    splits
}

fn split_at_any(space: &Variables, index: &AffineForm, follows: &dyn Fn(&Formula) -> bool) -> Option<RowSplit> {
    let products = index.terms().iter().filter_map(|(var, _)| space.products.get(var));
    let mut lengths: Vec<Var> = products.flat_map(|product| [product.left, product.right]).collect();
    lengths.retain(|&length| space.is_launch_constant(length));
    lengths.sort();
    lengths.dedup();
    lengths.into_iter().find_map(|length| {
        let (mut row, mut column) = (number(0), index.clone());
        for &(var, weight) in index.terms() {
            let Some(product) = space.products.get(&var) else { continue };
            let other = match (product.left == length, product.right == length) {
                (true, _) => product.right,
                (_, true) => product.left,
                _ => continue,
            };
            row = row.plus(&variable(other).times(weight));
            column = column.minus(&variable(var).times(weight));
        }
        let is_column = and([at_most(&number(0), &column), less(&column, &variable(length))]);
        follows(&is_column).then_some(RowSplit { length, row, column })
    })
}

/// Returns pairs of forms of two indices that are equal if and only if the indices are; none if the indices are not
/// split at the same length.
pub(super) fn equal_parts<'a>(a: &'a [RowSplit], b: &'a [RowSplit]) -> Vec<(&'a AffineForm, &'a AffineForm)> {
    let common = a.iter().zip(b).take_while(|(a, b)| a.length == b.length);
    let mut parts = vec![];
    for (a, b) in common {
        // The rows of the previous split are equal if and only if their own rows and columns are.
        parts.pop();
        parts.push((&a.column, &b.column));
        parts.push((&a.row, &b.row));
    }
    parts
}
