//! Splits the indices of flat arrays at their strides: `(z * H + y) * W + x` into `x`, `y` and `z`.
//!
//! Input: an index. Output: a [`FlatIndex`], a mixed-radix number whose place values may be products of dimensions.

use super::def::Footprint;
use super::formula::*;
use super::vars::{DerivedVar, VarSpace as Variables};
use clk_base::affine::{Affine, gcd};
use clk_base::linear::{AffineForm, Var};

/// The maximum number of terms of an index that is split.
const MAX_TERMS: usize = 24;

/// An index that is split at its strides. For each split, in order, `index == row * stride + column`. The row is the
/// index of the next split, or `top` after the last one.
pub(super) struct FlatIndex {
    pub splits: Vec<(AffineForm, Stride)>,
    pub top: AffineForm,
}

/// `factor` times the product of `lengths`, which are variables of the launch. `factor` is positive.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stride {
    pub factor: i128,
    pub lengths: Vec<Var>,
}

/// `weight` times the product of `lengths` and, unless the term is equal for all threads, `own`. The lengths are
/// variables of the launch, in ascending order.
#[derive(Clone)]
struct Term {
    weight: i128,
    lengths: Vec<Var>,
    own: Option<Var>,
}

impl Term {
    fn times(&self, other: &Term) -> Option<Term> {
        if self.own.is_some() && other.own.is_some() {
            return None;
        }
        let mut lengths = [&self.lengths[..], &other.lengths].concat();
        lengths.sort();
        Some(Term { weight: self.weight.checked_mul(other.weight)?, lengths, own: self.own.or(other.own) })
    }

    fn scaled(self, factor: i128) -> Option<Term> {
        Some(Term { weight: self.weight.checked_mul(factor)?, ..self })
    }

    /// Returns the quotient if the stride divides the term.
    fn divided_by(mut self, stride: &Stride) -> Option<Term> {
        for length in &stride.lengths {
            let at = self.lengths.iter().position(|known| known == length)?;
            self.lengths.remove(at);
        }
        (self.weight % stride.factor == 0).then_some(Term { weight: self.weight / stride.factor, ..self })
    }

    /// Returns a term that is equal for all threads as an affine form, if the footprint has a variable for it.
    fn launch_form(&self, space: &Variables) -> Option<AffineForm> {
        let Some((&first, rest)) = self.lengths.split_first() else { return Some(number(self.weight)) };
        let product = rest.iter().try_fold(first, |product, &length| space.known_product(product, length))?;
        Some(variable(product).times(self.weight))
    }

    /// Returns the term as an affine form if it is a single variable of the footprint. This includes the product in a
    /// remainder `a - (a / n) * n`.
    fn whole(&self, space: &Variables) -> Option<AffineForm> {
        let own = self.own?;
        if self.lengths.is_empty() {
            return Some(variable(own).times(self.weight));
        }
        let divisor = single(space.divided(own)?.1)?;
        let is_divisor = matches!(&factors(space, divisor)?[..], [by] if by.weight == 1 && by.own.is_none() && by.lengths == self.lengths);
        let product = space.known_product(own, divisor).filter(|_| is_divisor)?;
        Some(variable(product).times(self.weight))
    }
}

/// A summand of an index that is equal for all threads, as a sum of terms. `form` is its affine form, if it is known.
struct Constant {
    form: Option<AffineForm>,
    terms: Vec<Term>,
}

impl Constant {
    fn of_term(space: &Variables, term: Term) -> Constant {
        Constant { form: term.launch_form(space), terms: vec![term] }
    }

    /// Returns the summands of an affine form of variables of the launch.
    fn of_form(space: &Variables, form: &AffineForm) -> Option<Vec<Constant>> {
        let number_term = Term { weight: form.constant(), lengths: vec![], own: None };
        let mut all = vec![];
        all.extend((form.constant() != 0).then(|| Constant::of_term(space, number_term)));
        for &(var, weight) in form.terms() {
            let terms = factors(space, var)?.into_iter().map(|term| term.scaled(weight)).collect::<Option<_>>()?;
            all.push(Constant { form: Some(variable(var).times(weight)), terms });
        }
        Some(all)
    }
}

impl FlatIndex {
    /// Splits an index. `None` if its terms have no common stride.
    pub fn split(space: &Variables, footprint: &Footprint, index: &AffineForm) -> Option<FlatIndex> {
        let mut flat = FlatIndex { splits: vec![], top: number(0) };
        let (mut terms, mut column) = (vec![], number(0));
        let mut constants = Constant::of_form(space, &number(index.constant()))?;
        for &(var, weight) in index.terms() {
            let form = variable(var).times(weight);
            if space.is_launch_constant(var) {
                constants.extend(Constant::of_form(space, &form)?);
            } else if !space.products.contains_key(&var) {
                column = column.plus(&form);
            } else {
                let all = factors(space, var)?.into_iter();
                for term in all.map(|term| term.scaled(weight)).collect::<Option<Vec<_>>>()? {
                    match term.own {
                        Some(_) => terms.push(term),
                        None => constants.push(Constant::of_term(space, term)),
                    }
                }
            }
        }
        loop {
            let mut rows: Vec<Term> = vec![];
            for term in terms {
                match term.whole(space) {
                    Some(whole) => column = column.plus(&whole),
                    None => rows.push(term),
                }
            }
            let stride = common_stride(&rows);
            let (rest, row_constants) = divide_constants(space, constants, stride.as_ref())?;
            column = column.plus(&rest);
            let Some(stride) = stride else {
                flat.top = flat.push_columns(space, footprint, column);
                return (rows.is_empty() && flat.is_tame() && flat.is_exact(space, index)?).then_some(flat);
            };
            // Splits within the column divide the row's stride as well, so the stride must be a multiple of theirs.
            let first = flat.splits.len();
            let mut top = flat.push_columns(space, footprint, column.clone());
            let steps =
                flat.splits[first..].iter().try_fold(1i128, |steps, (_, step)| steps.checked_mul(step.factor))?;
            let mut rest_stride = stride.clone();
            if stride.factor % steps == 0 {
                rest_stride.factor /= steps;
            } else {
                flat.splits.truncate(first);
                top = column;
            }
            terms = rows.into_iter().map(|row| row.divided_by(&stride)).collect::<Option<_>>()?;
            flat.splits.push((top, rest_stride));
            constants = row_constants;
            column = number(0);
        }
    }

    /// Splits a form that is equal for all threads at the strides of this index. Returns the summand for each split and
    /// for the top row: adding them to the columns and to the top row adds the form to the index.
    pub fn split_constant(&self, space: &Variables, form: &AffineForm) -> Option<Vec<AffineForm>> {
        if !form.terms().iter().all(|&(var, _)| space.is_launch_constant(var)) {
            return None;
        }
        let (mut parts, mut constants) = (vec![], Constant::of_form(space, form)?);
        for (_, stride) in &self.splits {
            let (rest, row) = divide_constants(space, constants, Some(stride))?;
            parts.push(rest);
            constants = row;
        }
        parts.push(divide_constants(space, constants, None)?.0);
        let strides = self.splits.iter().map(|(_, stride)| stride);
        let is_exact = recomposed(space, parts[..self.splits.len()].iter().zip(strides), parts.last()?)?
            == polynomial(terms_of(space, form)?)?;
        (is_exact && parts.iter().all(is_tame)).then_some(parts)
    }

    /// Returns whether the columns, strides and top row make up the index. Everything that follows relies on this.
    fn is_exact(&self, space: &Variables, index: &AffineForm) -> Option<bool> {
        let splits = self.splits.iter().map(|(column, stride)| (column, stride));
        let is_exact = recomposed(space, splits, &self.top)? == polynomial(terms_of(space, index)?)?;
        debug_assert!(is_exact, "an index is split wrongly");
        Some(is_exact)
    }

    fn is_tame(&self) -> bool {
        let has_tame_split =
            |(column, stride): &(AffineForm, Stride)| is_tame(column) && is_tame(&number(stride.factor));
        is_tame(&self.top) && self.splits.iter().all(has_tame_split)
    }

    /// Splits an index whose coordinates have only numbers as weights, such as `t + 16 * b + 100 * r`, at the weights
    /// that are not multiples of the preceding one. Returns the remaining row.
    fn push_columns(&mut self, space: &Variables, footprint: &Footprint, mut index: AffineForm) -> AffineForm {
        // The counter of a loop with at most one iteration is always 0, so its weight does not matter.
        let is_still = |var: Var| footprint.max_iterations.get(&var).is_some_and(|&most| most <= 1);
        let is_own = |var: Var| !space.is_launch_constant(var) && !is_still(var);
        loop {
            let own: Vec<(Var, i128)> = index.terms().iter().copied().filter(|(var, _)| is_own(*var)).collect();
            let mut weights: Vec<i128> = own.iter().map(|(_, weight)| weight.abs()).collect();
            weights.sort_unstable();
            let step = weights.windows(2).find(|pair| pair[1] % pair[0] != 0).map(|pair| pair[1]);
            let is_simple = own.iter().all(|(var, _)| space.find_quotient(*var).is_none());
            let Some(step) = step.filter(|_| is_simple) else { return index };
            let rows = own.iter().filter(|(_, weight)| weight.abs() >= step);
            if rows.clone().any(|(_, weight)| weight % step != 0) {
                return index;
            }
            let row = rows.fold(number(0), |row, &(var, weight)| row.plus(&variable(var).times(weight / step)));
            let column = index.minus(&row.times(step));
            self.splits.push((column, Stride { factor: step, lengths: vec![] }));
            index = row;
        }
    }
}

/// Returns a variable as a sum of terms. `None` if it is not a polynomial of degree one in variables that differ
/// between threads.
fn factors(space: &Variables, var: Var) -> Option<Vec<Term>> {
    let sum = if let Some(times) = space.products.get(&var) {
        let (left, right) = (factors(space, times.left)?, factors(space, times.right)?);
        let pairs = left.iter().flat_map(|left| right.iter().map(move |right| left.times(right)));
        pairs.take(MAX_TERMS + 1).collect::<Option<Vec<_>>>()?
    } else if space.is_launch_constant(var) {
        vec![Term { weight: 1, lengths: vec![var], own: None }]
    } else if let Some(DerivedVar::Form(form)) = space.definitions.get(&var) {
        let mut sum = terms_of(space, form)?;
        sum.retain(|term| term.weight != 0);
        sum
    } else {
        vec![Term { weight: 1, lengths: vec![], own: Some(var) }]
    };
    (sum.len() <= MAX_TERMS).then_some(sum)
}

/// Returns an affine form as a sum of terms.
fn terms_of(space: &Variables, form: &AffineForm) -> Option<Vec<Term>> {
    let mut sum = vec![Term { weight: form.constant(), lengths: vec![], own: None }];
    for &(var, weight) in form.terms() {
        let part = factors(space, var)?.into_iter();
        sum.extend(part.map(|term| term.scaled(weight)).collect::<Option<Vec<_>>>()?);
    }
    Some(sum)
}

/// An affine form whose variables are the products of `lengths` and `own`. The empty product has the constant's weight.
type Polynomial = Affine<(Vec<Var>, Option<Var>)>;

fn polynomial(terms: Vec<Term>) -> Option<Polynomial> {
    Affine::new(0, terms.into_iter().map(|term| ((term.lengths, term.own), term.weight)))
}

/// Returns the index that consists of these columns, with the strides of their rows, and of the top row.
fn recomposed<'a>(
    space: &Variables,
    splits: impl DoubleEndedIterator<Item = (&'a AffineForm, &'a Stride)>,
    top: &AffineForm,
) -> Option<Polynomial> {
    let mut index = terms_of(space, top)?;
    for (column, stride) in splits.rev() {
        let stride = Term { weight: stride.factor, lengths: stride.lengths.clone(), own: None };
        let row = index.iter().map(|term| term.times(&stride)).collect::<Option<Vec<_>>>()?;
        index = terms_of(space, column)?;
        index.extend(row);
    }
    polynomial(index)
}

/// Divides the constants by a stride that divides them. Returns the sum of the other constants, and the quotients.
fn divide_constants(
    space: &Variables,
    constants: Vec<Constant>,
    stride: Option<&Stride>,
) -> Option<(AffineForm, Vec<Constant>)> {
    let (mut rest, mut row) = (number(0), vec![]);
    for Constant { form, terms } in constants {
        let quotient = |stride| terms.iter().map(|term| term.clone().divided_by(stride)).collect::<Option<Vec<_>>>();
        match stride.and_then(quotient) {
            Some(terms) => row.extend(terms.into_iter().map(|term| Constant::of_term(space, term))),
            None => rest = rest.plus(&form?),
        }
    }
    Some((rest, row))
}

/// Returns the greatest common divisor of the terms; `None` if no dimension divides all of them.
fn common_stride(rows: &[Term]) -> Option<Stride> {
    let (first, rest) = rows.split_first()?;
    let mut stride = Stride { factor: first.weight.abs(), lengths: first.lengths.clone() };
    for row in rest {
        stride.factor = gcd(stride.factor, row.weight);
        let mut unused = row.lengths.clone();
        stride.lengths.retain(|length| {
            let at = unused.iter().position(|known| known == length);
            at.map(|at| unused.remove(at)).is_some()
        });
    }
    (!stride.lengths.is_empty()).then_some(stride)
}
