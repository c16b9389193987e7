//! Lemmas about products of variables: inequalities obtained by multiplying two atoms.
//!
//! Input: a system and a vertex that violates some `p == x · y`. Output: lemmas that the vertex violates, or a split.
//! Idea: the product of two nonnegative forms is nonnegative. If no such lemma excludes the vertex, split on the sign
//! of the difference of two factors. For example, `i < i'` implies the lemma `(i' - i - 1) · N >= 0`, which proves that
//! the offsets `i · N + j` of different rows `i` differ.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::form::{AffineForm, Var};
use super::formula::{LinearProblem, monomial, sides};
use super::point::Scaled;
use super::steps::StepId;

/// Maximum number of lemmas added for one vertex: in the first search, and in the search that repeats it after an
/// overflow.
const LEMMAS: usize = 6;
const FEW_LEMMAS: usize = 2;
/// Maximum number of products that a search adds to the products of the problem.
const MAX_EXTRA: usize = 12;
/// Maximum depth in the search tree at which a split compares a factor with its value at the vertex.
const DEEPEST_VALUE: u32 = 24;

/// The products of a problem, indexed by their factors.
#[derive(Default)]
pub(super) struct Products {
    defined: FxHashMap<(Var, Var), Var>,
    factors: Vec<bool>,
    /// Maximum number of lemmas added for one vertex: [`LEMMAS`] or [`FEW_LEMMAS`].
    lemmas: usize,
}

impl Products {
    /// Collects the products of the problem.
    pub fn new(problem: &LinearProblem) -> Products {
        let factors = vec![false; problem.variables.len()];
        let mut products = Products { defined: FxHashMap::default(), factors, lemmas: LEMMAS };
        for &(product, x, y) in &problem.products {
            products.defined.entry((x.min(y), x.max(y))).or_insert(product);
            products.factors[x.index()] = true;
            products.factors[y.index()] = true;
        }
        products
    }

    /// Lowers the maximum number of lemmas added for one vertex to [`FEW_LEMMAS`].
    pub fn with_few_lemmas(self) -> Products {
        Products { lemmas: FEW_LEMMAS, ..self }
    }

    /// Returns whether an atom can be multiplied to obtain a lemma: all its variables are factors of products.
    fn is_factor(&self, atom: &AssumedAtom) -> bool {
        let terms = atom.form.terms();
        !terms.is_empty() && terms.iter().all(|term| self.factors[term.0.index()])
    }

    /// Returns the product of two forms; `None` on overflow or if a product of variables is not defined.
    fn multiply(&self, a: &AffineForm, b: &AffineForm) -> Option<AffineForm> {
        a.multiply(b, |&x, &y| self.defined.get(&(x.min(y), x.max(y))).copied())
    }
}

/// Adds definitions of products to the problem: the other ways to associate each product of three variables, and the
/// products of all pairs of factors. Skips either kind if it would exceed [`MAX_EXTRA`]. Returns the extended problem
/// and the factors of the added products.
pub(super) fn with_extra_products(problem: &LinearProblem) -> (LinearProblem, Vec<(Var, Var)>) {
    let mut extended = problem.clone();
    for ways in [define_reassociations, define_pairs] {
        let mut trial = extended.clone();
        ways(&mut trial);
        if trial.products.len() - problem.products.len() <= MAX_EXTRA {
            extended = trial;
        }
    }
    let extra = extended.products[problem.products.len()..].iter().map(|(_, x, y)| (*x, *y)).collect();
    (extended, extra)
}

/// For each product of three factors, defines `a · b` and `(a · b) · c` for all orders of the factors.
fn define_reassociations(problem: &mut LinearProblem) {
    for (product, _, _) in problem.products.clone() {
        let Some(factors) = monomial(&problem.products, product, 0) else { continue };
        let [a, b, c] = factors[..] else { continue };
        for (x, y, z) in [(a, b, c), (a, c, b), (b, c, a)] {
            let pair = problem.product(x, y);
            problem.product(pair, z);
        }
    }
}

/// Defines the products of all pairs of factors.
fn define_pairs(problem: &mut LinearProblem) {
    let mut factors: Vec<Var> = problem.products.iter().flat_map(|(_, x, y)| [*x, *y]).collect();
    factors.sort_unstable();
    factors.dedup();
    for (rank, &x) in factors.iter().enumerate() {
        factors[rank..].iter().for_each(|&y| _ = problem.product(x, y));
    }
}

/// Returns pairs of variables that are defined as products of the same factors.
pub(super) fn equal_products(problem: &LinearProblem) -> Vec<(Var, Var)> {
    let mut first: FxHashMap<Vec<Var>, Var> = FxHashMap::default();
    let mut equal_products = Vec::new();
    for &(product, _, _) in &problem.products {
        let Some(factors) = monomial(&problem.products, product, 0) else { continue };
        let original = *first.entry(factors).or_insert(product);
        if original != product {
            equal_products.push((original, product));
        }
    }
    equal_products
}

/// An assumed or derived atom over the problem's variables: `form >= 0`, or `form == 0` if `equal`.
pub(super) struct AssumedAtom {
    pub form: AffineForm,
    pub step: StepId,
    pub equal: bool,
}

/// The product of two atoms: `form >= 0`, or `form == 0` if `equal`.
pub(super) struct Lemma {
    pub form: AffineForm,
    pub factors: [StepId; 2],
    pub equal: bool,
}

/// The products of all pairs of atoms for which the needed products of variables are defined.
#[derive(Clone, Default)]
pub(super) struct Lemmas {
    lemmas: Vec<Rc<Lemma>>,
    factors: Vec<Rc<AssumedAtom>>,
    /// Number of atoms multiplied so far.
    processed: usize,
}

impl Lemmas {
    /// Multiplies each new atom with all earlier atoms and with itself.
    pub fn extend(&mut self, products: &Products, assumed: &[Rc<AssumedAtom>]) {
        for line in assumed[self.processed..].iter().filter(|line| products.is_factor(line)) {
            self.factors.push(line.clone());
            for other in &self.factors {
                if let Some(form) = products.multiply(&line.form, &other.form) {
                    let equal = line.equal || other.equal;
                    self.lemmas.push(Rc::new(Lemma { form, factors: [line.step, other.step], equal }));
                }
            }
        }
        self.processed = assumed.len();
    }

    /// Returns the shortest lemmas that the vertex violates, equalities first.
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

/// Returns the form and bound of a split whose assumptions can be multiplied to obtain lemmas about a product that the
/// point violates.
pub(super) fn split(
    problem: &LinearProblem,
    assumed: &[Rc<AssumedAtom>],
    point: &[i128],
    depth: u32,
) -> Option<(AffineForm, i128)> {
    let violated: Vec<(Var, Var, Var)> =
        problem.products.iter().copied().filter(|product| is_violated(product, point)).collect();
    let undecided = |form: &AffineForm, bound: i128| !is_decided(assumed, form, bound);
    let mut best: Option<(u32, AffineForm, i128)> = None;
    let mut offer = |score: u32, form: &AffineForm, bound: i128| {
        if undecided(form, bound) && best.as_ref().is_none_or(|best| score < best.0) {
            best = Some((score, form.clone(), bound));
        }
    };
    for &(p, x, y) in &violated {
        for &other in problem.products.iter().filter(|other| other.0 != p) {
            let share_line =
                assumed.iter().any(|atom| atom.form.coefficient(&p) != 0 && atom.form.coefficient(&other.0) != 0);
            for difference in differences((x, y), (other.1, other.2)) {
                offer(if share_line { 0 } else { 3 }, &difference, -1);
                offer(if share_line { 1 } else { 4 }, &difference, 0);
            }
        }
        for factor in [x, y] {
            let form = AffineForm::from(factor);
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

/// Returns whether the point violates `p == x · y`.
pub(super) fn is_violated(product: &(Var, Var, Var), point: &[i128]) -> bool {
    let &(p, x, y) = product;
    point[x.index()].checked_mul(point[y.index()]) != Some(point[p.index()])
}

/// If two products share a factor, returns the difference of their other factors: `i - k` for `i · n` and `n · k`.
fn differences(a: (Var, Var), b: (Var, Var)) -> Vec<AffineForm> {
    let mut differences = Vec::new();
    for (shared, own) in [(a.0, a.1), (a.1, a.0)] {
        for (other, rest) in [(b.0, b.1), (b.1, b.0)] {
            if shared == other && own != rest {
                differences.extend(AffineForm::from(own.min(rest)).sub(&AffineForm::from(own.max(rest))));
            }
        }
    }
    differences
}

/// Returns whether some atom implies `form <= bound` or `form > bound`.
fn is_decided(assumed: &[Rc<AssumedAtom>], form: &AffineForm, bound: i128) -> bool {
    let Some([low, high]) = sides(form, bound) else { return true };
    assumed.iter().any(|atom| {
        let implies = |side: &AffineForm| atom.form.terms() == side.terms() && atom.form.constant() <= side.constant();
        implies(&low) || implies(&high)
    })
}
