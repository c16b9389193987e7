//! Affine forms: an integer constant plus integer multiples of variables, such as `2*x3 - x5 + 7`.
//!
//! Input: variables of any ordered type, and `i128` coefficients. Output: sums, products and multiples of forms. Idea:
//! the terms are sorted by variable and have nonzero coefficients, so equal forms compare equal, and one pass adds two
//! forms. All arithmetic is checked: an operation that overflows `i128` returns `None`, never a wrong form.

use std::borrow::Borrow;

/// An affine form, `constant + Σ coefficient · variable`, over the integers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Affine<V> {
    constant: i128,
    terms: Vec<(V, i128)>,
}

impl<V> Default for Affine<V> {
    fn default() -> Self {
        Affine::from(0)
    }
}

impl<V> From<i128> for Affine<V> {
    fn from(constant: i128) -> Self {
        Affine { constant, terms: Vec::new() }
    }
}

impl<V> Affine<V> {
    /// Returns the form that consists of one variable.
    pub fn variable(variable: V) -> Self {
        Affine::term(variable, 1)
    }

    /// `coefficient · variable`.
    pub fn term(variable: V, coefficient: i128) -> Self {
        let terms = if coefficient == 0 { vec![] } else { vec![(variable, coefficient)] };
        Affine { constant: 0, terms }
    }

    /// Returns the constant.
    pub fn constant(&self) -> i128 {
        self.constant
    }

    /// Returns the nonzero terms, sorted by variable.
    pub fn terms(&self) -> &[(V, i128)] {
        &self.terms
    }

    /// Returns the value of a form without variables; `None` if it has variables.
    pub fn as_constant(&self) -> Option<i128> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Returns the variable if the form is just one variable.
    pub fn as_variable(&self) -> Option<&V> {
        match (&self.terms[..], self.constant) {
            ([(variable, 1)], 0) => Some(variable),
            _ => None,
        }
    }

    /// Returns the greatest common divisor of the coefficients, without the constant. It is zero for a form without
    /// variables. `None` if it is 2^127, which exceeds `i128`.
    pub fn content(&self) -> Option<i128> {
        let mut content = 0u128;
        for (_, coefficient) in &self.terms {
            content = unsigned_gcd(content, coefficient.unsigned_abs());
            if content == 1 {
                break;
            }
        }
        i128::try_from(content).ok()
    }
}

impl<V: Ord + Clone> Affine<V> {
    /// Creates a form from its constant and its terms in any order; adds up terms of the same variable.
    pub fn new(constant: i128, terms: impl IntoIterator<Item = (V, i128)>) -> Option<Self> {
        let mut sorted: Vec<(V, i128)> = terms.into_iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        let mut merged: Vec<(V, i128)> = Vec::with_capacity(sorted.len());
        for (variable, coefficient) in sorted {
            match merged.last_mut() {
                Some(last) if last.0 == variable => last.1 = last.1.checked_add(coefficient)?,
                _ => merged.push((variable, coefficient)),
            }
        }
        merged.retain(|term| term.1 != 0);
        Some(Affine { constant, terms: merged })
    }

    /// Returns the coefficient of a variable; zero if it does not occur.
    pub fn coefficient<Q: Ord + ?Sized>(&self, variable: &Q) -> i128
    where
        V: Borrow<Q>,
    {
        self.position(variable).map_or(0, |at| self.terms[at].1)
    }

    /// Returns the position of a variable's term.
    fn position<Q: Ord + ?Sized>(&self, variable: &Q) -> Option<usize>
    where
        V: Borrow<Q>,
    {
        self.terms.binary_search_by(|term| term.0.borrow().cmp(variable)).ok()
    }

    /// `self + other`.
    pub fn add(&self, other: &Self) -> Option<Self> {
        self.add_scaled(other, 1)
    }

    /// `self - other`.
    pub fn sub(&self, other: &Self) -> Option<Self> {
        self.add_scaled(other, -1)
    }

    /// `self + constant`.
    pub fn offset(&self, constant: i128) -> Option<Self> {
        Some(Affine { constant: self.constant.checked_add(constant)?, terms: self.terms.clone() })
    }

    /// `factor · self`.
    pub fn scale(&self, factor: i128) -> Option<Self> {
        Affine::default().add_scaled(self, factor)
    }

    /// `self + factor · other`.
    pub fn add_scaled(&self, other: &Self, factor: i128) -> Option<Self> {
        if factor == 0 {
            return Some(self.clone());
        }
        let constant = self.constant.checked_add(other.constant.checked_mul(factor)?)?;
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let mut left = self.terms.iter().cloned().peekable();
        for (variable, coefficient) in &other.terms {
            while let Some(term) = left.next_if(|term| term.0 < *variable) {
                terms.push(term);
            }
            let own = left.next_if(|term| term.0 == *variable).map_or(0, |term| term.1);
            let sum = own.checked_add(coefficient.checked_mul(factor)?)?;
            if sum != 0 {
                terms.push((variable.clone(), sum));
            }
        }
        terms.extend(left);
        Some(Affine { constant, terms })
    }

    /// `self · other`. `product` returns the variable that is the product of two variables. `None` if a product of
    /// variables does not exist.
    pub fn multiply(&self, other: &Self, mut product: impl FnMut(&V, &V) -> Option<V>) -> Option<Self> {
        let constant = self.constant.checked_mul(other.constant)?;
        let mut terms = Vec::with_capacity((self.terms.len() + 1) * (other.terms.len() + 1) - 1);
        for (x, p) in &self.terms {
            terms.push((x.clone(), p.checked_mul(other.constant)?));
            for (y, q) in &other.terms {
                terms.push((product(x, y)?, p.checked_mul(*q)?));
            }
        }
        for (y, q) in &other.terms {
            terms.push((y.clone(), q.checked_mul(self.constant)?));
        }
        Affine::new(constant, terms)
    }

    /// Returns whether each coefficient of `other` is the negated coefficient of `self`. Ignores the constants.
    pub fn is_opposite(&self, other: &Self) -> bool {
        let negated = |(a, b): (&(V, i128), &(V, i128))| a.0 == b.0 && a.1.checked_neg() == Some(b.1);
        self.terms.len() == other.terms.len() && self.terms.iter().zip(&other.terms).all(negated)
    }

    /// Replaces `variable` by `by`.
    pub fn substitute(&self, variable: &V, by: &Self) -> Option<Self> {
        let Some(at) = self.position(variable) else { return Some(self.clone()) };
        let mut rest = self.clone();
        let (_, coefficient) = rest.terms.remove(at);
        rest.add_scaled(by, coefficient)
    }

    /// Replaces each variable `v` by `by(v)`, a form of other variables.
    pub fn substitute_all<W: Ord + Clone>(&self, mut by: impl FnMut(&V) -> Option<Affine<W>>) -> Option<Affine<W>> {
        let constant = Affine::from(self.constant);
        self.terms.iter().try_fold(constant, |sum, (variable, factor)| sum.add_scaled(&by(variable)?, *factor))
    }

    /// Divides by `divisor > 0` and rounds the constant down; `None` unless `divisor` divides all coefficients.
    pub fn divide_floor(&self, divisor: i128) -> Option<Self> {
        if divisor <= 0 || self.terms.iter().any(|term| term.1 % divisor != 0) {
            return None;
        }
        let terms =
            self.terms.iter().map(|(variable, coefficient)| (variable.clone(), coefficient / divisor)).collect();
        Some(Affine { constant: self.constant.div_euclid(divisor), terms })
    }
}

/// Returns the greatest common divisor of two numbers. It is positive, or 0 if both numbers are 0. If one of them is
/// `i128::MIN`, the other must be neither 0 nor `i128::MIN`: their divisor would be 2^127.
pub fn gcd(a: i128, b: i128) -> i128 {
    unsigned_gcd(a.unsigned_abs(), b.unsigned_abs()) as i128
}

fn unsigned_gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        if let (Ok(mut small), Ok(mut smaller)) = (u64::try_from(a), u64::try_from(b)) {
            while smaller != 0 {
                (small, smaller) = (smaller, small % smaller);
            }
            return u128::from(small);
        }
        (a, b) = (b, a % b);
    }
    a
}
