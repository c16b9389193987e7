//! Heuristics that find a point: one with small values, which is easier to read, or one that satisfies the products.
//!
//! Input: a problem and possibly a point. Output: guesses, which are additional facts that make the problem easier.
//! Idea: limit all variables to `0..=bound`, or fix the values of factors, which makes their products linear.
//! Certificates never use a guess, so a wrong guess costs time only.

use super::form::{AffineForm, Var};
use super::formula::LinearProblem;

/// A guess that a linear form is nonnegative, or zero if `equal`.
pub(super) struct Guess {
    pub form: AffineForm,
    pub equal: bool,
}

/// Returns increasing values of `bound` to search `0..=bound` for a point with smaller values than this one.
pub(super) fn bounds(point: &[i128]) -> impl Iterator<Item = i128> + use<> {
    let largest = point.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0);
    let negative = point.iter().any(|value| *value < 0);
    (0..10).map(|power| 1i128 << (2 * power)).take_while(move |bound| negative || bound.unsigned_abs() < largest)
}

/// Returns guesses that limit all variables to `0..=bound`.
pub(super) fn within(problem: &LinearProblem, bound: i128) -> Option<Vec<Guess>> {
    let mut guesses = Vec::new();
    for index in 0..problem.variables.len() {
        let var = AffineForm::from(Var(u32::try_from(index).ok()?));
        guesses.push(Guess { form: AffineForm::from(bound).sub(&var)?, equal: false });
        guesses.push(Guess { form: var, equal: false });
    }
    Some(guesses)
}

/// Returns guesses for the value of one factor of each product: its value at the point or a small number. `attempt`
/// selects one of the combinations.
pub(super) fn fixed_factors(problem: &LinearProblem, point: &[i128], attempt: u32) -> Option<Vec<Guess>> {
    let mut guesses = Vec::new();
    let mut values = Vec::new();
    for (rank, var) in cover(&problem.products).into_iter().enumerate() {
        let value = candidate(attempt, rank, point.get(var.index()).copied());
        guesses.push(Guess { form: AffineForm::from(var).offset(value.checked_neg()?)?, equal: true });
        values.push((var, value));
    }
    for &(p, x, y) in &problem.products {
        let (var, value) = values.iter().find(|(var, _)| *var == x || *var == y)?;
        let other = if *var == x { y } else { x };
        let form = AffineForm::from(p).add_scaled(&AffineForm::from(other), value.checked_neg()?)?;
        guesses.push(Guess { form, equal: true });
    }
    Some(guesses)
}

/// Returns the value to guess for the factor with this rank: in even attempts its value at the point, in odd attempts a
/// small number that depends on the attempt and the rank.
fn candidate(attempt: u32, rank: usize, own: Option<i128>) -> i128 {
    const SMALL: [i128; 7] = [2, 1, 3, 0, 4, 8, 5];
    match own {
        Some(own) if attempt.is_multiple_of(2) => own,
        _ => SMALL[(attempt as usize / 2) / SMALL.len().pow(rank.min(2) as u32) % SMALL.len()],
    }
}

/// Returns variables such that each product has one of them as a factor. This is a greedy vertex cover, which picks the
/// most frequent factor first.
fn cover(products: &[(Var, Var, Var)]) -> Vec<Var> {
    let mut left = products.to_vec();
    let mut cover = Vec::new();
    while let Some(first) = left.first() {
        let uses = |var: &Var| left.iter().filter(|(_, x, y)| x == var || y == var).count();
        let factors = left.iter().flat_map(|(_, x, y)| [*x, *y]);
        let var = factors.max_by_key(uses).unwrap_or(first.1);
        cover.push(var);
        left.retain(|(_, x, y)| *x != var && *y != var);
    }
    cover
}
