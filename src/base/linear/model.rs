//! Where to look for points: small ones, for people to read, and ones whose products are right.
//!
//! Input: a problem and perhaps a point of it. Output: further facts, with which the problem is easier.
//! Idea: a box from zero up; or values of factors, which make their products linear. Nothing is proved with these facts, so
//! that a wrong guess costs a little time and no more.

use super::form::{Linear, Var};
use super::formula::Problem;

/// A form that is not negative, or that is zero.
pub(super) struct Guess {
    pub form: Linear,
    pub equal: bool,
}

/// The bounds of boxes in which a smaller point than this may lie.
pub(super) fn bounds(point: &[i128]) -> impl Iterator<Item = i128> + use<> {
    let largest = point.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0);
    let negative = point.iter().any(|value| *value < 0);
    (0..10).map(|power| 1i128 << (2 * power)).take_while(move |bound| negative || bound.unsigned_abs() < largest)
}

/// All variables are from zero to `bound`.
pub(super) fn within(problem: &Problem, bound: i128) -> Option<Vec<Guess>> {
    let mut guesses = Vec::new();
    for index in 0..problem.variables.len() {
        let var = Linear::from(Var(u32::try_from(index).ok()?));
        guesses.push(Guess { form: Linear::from(bound).sub(&var)?, equal: false });
        guesses.push(Guess { form: var, equal: false });
    }
    Some(guesses)
}

/// One factor of each product has the value that it has at the point, or a small one; `attempt` numbers the combinations.
pub(super) fn fixed_factors(problem: &Problem, point: &[i128], attempt: u32) -> Option<Vec<Guess>> {
    let mut guesses = Vec::new();
    let mut values = Vec::new();
    for (rank, var) in cover(&problem.products).into_iter().enumerate() {
        let value = candidate(attempt, rank, point.get(var.index()).copied());
        guesses.push(Guess { form: Linear::from(var).offset(value.checked_neg()?)?, equal: true });
        values.push((var, value));
    }
    for &(p, x, y) in &problem.products {
        let (var, value) = values.iter().find(|(var, _)| *var == x || *var == y)?;
        let other = if *var == x { y } else { x };
        let form = Linear::from(p).add_scaled(&Linear::from(other), value.checked_neg()?)?;
        guesses.push(Guess { form, equal: true });
    }
    Some(guesses)
}

/// The value of a factor: every second time the point's own, and small ones in changing combinations.
fn candidate(attempt: u32, rank: usize, own: Option<i128>) -> i128 {
    const SMALL: [i128; 7] = [2, 1, 3, 0, 4, 8, 5];
    match own {
        Some(own) if attempt.is_multiple_of(2) => own,
        _ => SMALL[(attempt as usize / 2) / SMALL.len().pow(rank.min(2) as u32) % SMALL.len()],
    }
}

/// Variables of which each product has one as a factor, those of most products first.
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
