//! Lemmas about products of variables.
//!
//! Input: a system and a vertex that violates some `p == x · y`. Output: lines that the vertex violates, or a case split.
//! Idea: the product of two lines that are not negative is not negative. Where no instance cuts the vertex off, the sign of a
//! difference of two factors is split: `i < i'` gives `(i' - i - 1) · N >= 0`, so that rows of `i · N + j` do not overlap.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::form::{Linear, Var};
use super::formula::{Problem, monomial, sides};
use super::point::Scaled;
use super::steps::StepId;

/// Lemmas added for one vertex; in a second attempt, where so many lead to large numbers.
const LEMMAS: usize = 6;
const FEW_LEMMAS: usize = 2;
/// Products that a search may name on top of the problem's.
const UNNAMED: usize = 12;
/// Beyond this depth a factor is not split by its value.
const DEEPEST_VALUE: u32 = 24;

/// The products of a problem, by their factors.
#[derive(Default)]
pub(super) struct Products {
    named: FxHashMap<(Var, Var), Var>,
    factors: Vec<bool>,
    /// Lemmas added for one vertex.
    lemmas: usize,
}

impl Products {
    /// The products of the problem.
    pub fn new(problem: &Problem) -> Products {
        let factors = vec![false; problem.variables.len()];
        let mut products = Products { named: FxHashMap::default(), factors, lemmas: LEMMAS };
        for &(product, x, y) in &problem.products {
            products.named.entry((x.min(y), x.max(y))).or_insert(product);
            products.factors[x.index()] = true;
            products.factors[y.index()] = true;
        }
        products
    }

    /// The same, with fewer lemmas at a time.
    pub fn hesitant(self) -> Products {
        Products { lemmas: FEW_LEMMAS, ..self }
    }

    /// Whether a line can be multiplied at all.
    fn is_factor(&self, known: &Known) -> bool {
        let terms = known.form.terms();
        !terms.is_empty() && terms.iter().all(|term| self.factors[term.0.index()])
    }

    /// The product of two forms; `None` where a product of variables has no name or a coefficient leaves `i128`.
    fn multiply(&self, a: &Linear, b: &Linear) -> Option<Linear> {
        let constant = a.constant().checked_mul(b.constant())?;
        let mut terms = Vec::with_capacity(a.terms().len() * b.terms().len());
        for &(x, c) in a.terms() {
            terms.push((x, c.checked_mul(b.constant())?));
            for &(y, d) in b.terms() {
                terms.push((*self.named.get(&(x.min(y), x.max(y)))?, c.checked_mul(d)?));
            }
        }
        for &(y, d) in b.terms() {
            terms.push((y, d.checked_mul(a.constant())?));
        }
        Linear::new(constant, terms)
    }
}

/// The problem with names for further products, unless those are many: the other ways to multiply three variables, and the
/// products of two factors.
pub(super) fn with_unnamed(problem: &Problem) -> (Problem, Vec<(Var, Var)>) {
    let mut extended = problem.clone();
    for ways in [other_ways, pairs] {
        let mut trial = extended.clone();
        ways(&mut trial);
        if trial.products.len() - problem.products.len() <= UNNAMED {
            extended = trial;
        }
    }
    let unnamed = extended.products[problem.products.len()..].iter().map(|(_, x, y)| (*x, *y)).collect();
    (extended, unnamed)
}

/// Names `a · b`, and `(a · b) · c`, for all orders of the three factors of a product.
fn other_ways(problem: &mut Problem) {
    for (product, _, _) in problem.products.clone() {
        let Some(factors) = monomial(&problem.products, product, 0) else { continue };
        let [a, b, c] = factors[..] else { continue };
        for (x, y, z) in [(a, b, c), (a, c, b), (b, c, a)] {
            let pair = problem.product(x, y);
            problem.product(pair, z);
        }
    }
}

/// Names the products of any two factors.
fn pairs(problem: &mut Problem) {
    let mut factors: Vec<Var> = problem.products.iter().flat_map(|(_, x, y)| [*x, *y]).collect();
    factors.sort_unstable();
    factors.dedup();
    for (rank, &x) in factors.iter().enumerate() {
        factors[rank..].iter().for_each(|&y| _ = problem.product(x, y));
    }
}

/// The pairs of products that multiply the same variables.
pub(super) fn same(problem: &Problem) -> Vec<(Var, Var)> {
    let mut first: FxHashMap<Vec<Var>, Var> = FxHashMap::default();
    let mut same = Vec::new();
    for &(product, _, _) in &problem.products {
        let Some(factors) = monomial(&problem.products, product, 0) else { continue };
        let known = *first.entry(factors).or_insert(product);
        if known != product {
            same.push((known, product));
        }
    }
    same
}

/// An atom as it was assumed, over the problem's variables.
pub(super) struct Known {
    pub form: Linear,
    pub step: StepId,
    pub equal: bool,
}

/// The product of two known lines.
pub(super) struct Lemma {
    pub form: Linear,
    pub factors: [StepId; 2],
    pub equal: bool,
}

/// The products of all known lines that have one.
#[derive(Clone, Default)]
pub(super) struct Lemmas {
    lemmas: Vec<Rc<Lemma>>,
    factors: Vec<Rc<Known>>,
    /// How many known lines were looked at.
    seen: usize,
}

impl Lemmas {
    /// Multiplies the lines that are new with all others.
    pub fn extend(&mut self, products: &Products, known: &[Rc<Known>]) {
        for line in known[self.seen..].iter().filter(|line| products.is_factor(line)) {
            self.factors.push(line.clone());
            for other in &self.factors {
                if let Some(form) = products.multiply(&line.form, &other.form) {
                    let equal = line.equal || other.equal;
                    self.lemmas.push(Rc::new(Lemma { form, factors: [line.step, other.step], equal }));
                }
            }
        }
        self.seen = known.len();
    }

    /// The simplest lemmas that the vertex violates.
    pub fn violated(&self, products: &Products, point: &Scaled) -> Vec<Rc<Lemma>> {
        let violates = |lemma: &&Rc<Lemma>| {
            let value = point.eval(&lemma.form).unwrap_or(0);
            value < 0 || lemma.equal && value > 0
        };
        let mut violated: Vec<_> = self.lemmas.iter().filter(violates).cloned().collect();
        violated.sort_by_key(|lemma| (!lemma.equal, lemma.form.terms().len()));
        violated.dedup_by(|a, b| a.form == b.form);
        violated.truncate(products.lemmas);
        violated
    }
}

/// The form and bound of a split that makes lemmas applicable to a product that is wrong at the point.
pub(super) fn split(problem: &Problem, known: &[Rc<Known>], point: &[i128], depth: u32) -> Option<(Linear, i128)> {
    let wrong: Vec<(Var, Var, Var)> =
        problem.products.iter().copied().filter(|product| is_wrong(*product, point)).collect();
    let undecided = |form: &Linear, bound: i128| !is_decided(known, form, bound);
    let mut best: Option<(u32, Linear, i128)> = None;
    let mut offer = |score: u32, form: &Linear, bound: i128| {
        if undecided(form, bound) && best.as_ref().is_none_or(|best| score < best.0) {
            best = Some((score, form.clone(), bound));
        }
    };
    for &(p, x, y) in &wrong {
        for &other in problem.products.iter().filter(|other| other.0 != p) {
            let together =
                known.iter().any(|known| known.form.coefficient(p) != 0 && known.form.coefficient(other.0) != 0);
            for difference in differences((x, y), (other.1, other.2)) {
                offer(if together { 0 } else { 3 }, &difference, -1);
                offer(if together { 1 } else { 4 }, &difference, 0);
            }
        }
        for factor in [x, y] {
            let form = Linear::from(factor);
            offer(2, &form, -1);
            offer(5, &form, 0);
            if depth < DEEPEST_VALUE {
                offer(6, &form, point[factor.index()].checked_sub(1)?);
                offer(7, &form, point[factor.index()]);
            }
        }
    }
    best.map(|(_, form, bound)| (form, bound))
}

/// Whether the product has another value at the point.
pub(super) fn is_wrong((p, x, y): (Var, Var, Var), point: &[i128]) -> bool {
    point[x.index()].checked_mul(point[y.index()]) != Some(point[p.index()])
}

/// The differences of the other factors where two products share one.
fn differences(a: (Var, Var), b: (Var, Var)) -> Vec<Linear> {
    let mut differences = Vec::new();
    for (shared, own) in [(a.0, a.1), (a.1, a.0)] {
        for (other, rest) in [(b.0, b.1), (b.1, b.0)] {
            if shared == other && own != rest {
                differences.extend(Linear::from(own.min(rest)).sub(&Linear::from(own.max(rest))));
            }
        }
    }
    differences
}

/// Whether some line says `form <= bound` or `form > bound`.
fn is_decided(known: &[Rc<Known>], form: &Linear, bound: i128) -> bool {
    let Some([low, high]) = sides(form, bound) else { return true };
    known.iter().any(|known| {
        let implies = |side: &Linear| known.form.terms() == side.terms() && known.form.constant() <= side.constant();
        implies(&low) || implies(&high)
    })
}
