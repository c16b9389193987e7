//! Linear forms: an integer constant plus integer multiples of variables, such as `2*x3 - x5 + 7`.
//!
//! Input: variables and `i128` coefficients. Output: sums, multiples and values of forms, and their text, which can be
//! parsed. Idea: the terms are sorted by variable and have nonzero coefficients, so equal forms compare equal, and one
//! pass adds two forms. All arithmetic is checked: an operation that overflows `i128` returns `None`, never a wrong
//! form.

use std::fmt;

/// A variable: the index of its name in [`LinearProblem::variables`](super::LinearProblem::variables).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(pub u32);

impl Var {
    /// Returns the index of the variable in a list of names or in a point (a list of values).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A linear form, `constant + Σ coefficient · variable`, over the integers. (Strictly, an affine form.)
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AffineForm {
    constant: i128,
    terms: Vec<(Var, i128)>,
}

impl From<Var> for AffineForm {
    fn from(var: Var) -> Self {
        AffineForm { constant: 0, terms: vec![(var, 1)] }
    }
}

impl From<i128> for AffineForm {
    fn from(constant: i128) -> Self {
        AffineForm { constant, terms: Vec::new() }
    }
}

impl AffineForm {
    /// Creates a form from its constant and its terms in any order; adds up terms of the same variable.
    pub fn new(constant: i128, terms: impl IntoIterator<Item = (Var, i128)>) -> Option<Self> {
        let mut sorted: Vec<(Var, i128)> = terms.into_iter().collect();
        sorted.sort_by_key(|term| term.0);
        let mut merged: Vec<(Var, i128)> = Vec::with_capacity(sorted.len());
        for (var, coefficient) in sorted {
            match merged.last_mut() {
                Some(last) if last.0 == var => last.1 = last.1.checked_add(coefficient)?,
                _ => merged.push((var, coefficient)),
            }
        }
        merged.retain(|term| term.1 != 0);
        Some(AffineForm { constant, terms: merged })
    }

    /// Returns the constant.
    pub fn constant(&self) -> i128 {
        self.constant
    }

    /// Returns the nonzero terms, sorted by variable.
    pub fn terms(&self) -> &[(Var, i128)] {
        &self.terms
    }

    /// Returns the coefficient of `var`; zero if it does not occur.
    pub fn coefficient(&self, var: Var) -> i128 {
        self.terms.binary_search_by_key(&var, |term| term.0).map_or(0, |at| self.terms[at].1)
    }

    /// `self + other`.
    pub fn add(&self, other: &AffineForm) -> Option<AffineForm> {
        self.add_scaled(other, 1)
    }

    /// `self - other`.
    pub fn sub(&self, other: &AffineForm) -> Option<AffineForm> {
        self.add_scaled(other, -1)
    }

    /// `self + constant`.
    pub fn offset(&self, constant: i128) -> Option<AffineForm> {
        Some(AffineForm { constant: self.constant.checked_add(constant)?, terms: self.terms.clone() })
    }

    /// `factor · self`.
    pub fn scale(&self, factor: i128) -> Option<AffineForm> {
        AffineForm::default().add_scaled(self, factor)
    }

    /// `self + factor · other`.
    pub fn add_scaled(&self, other: &AffineForm, factor: i128) -> Option<AffineForm> {
        if factor == 0 {
            return Some(self.clone());
        }
        let constant = self.constant.checked_add(other.constant.checked_mul(factor)?)?;
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let mut left = self.terms.iter().copied().peekable();
        for &(var, coefficient) in &other.terms {
            while let Some(term) = left.next_if(|term| term.0 < var) {
                terms.push(term);
            }
            let own = left.next_if(|term| term.0 == var).map_or(0, |term| term.1);
            let sum = own.checked_add(coefficient.checked_mul(factor)?)?;
            if sum != 0 {
                terms.push((var, sum));
            }
        }
        terms.extend(left);
        Some(AffineForm { constant, terms })
    }

    /// Evaluates the form with `point[v]` for variable `v`; `None` on overflow or if the point lacks a variable.
    pub fn eval(&self, point: &[i128]) -> Option<i128> {
        self.terms.iter().try_fold(self.constant, |sum, &(var, coefficient)| {
            sum.checked_add(coefficient.checked_mul(*point.get(var.index())?)?)
        })
    }

    /// Returns whether each coefficient of `other` is the negated coefficient of `self`. Ignores the constants.
    pub(super) fn is_opposite(&self, other: &AffineForm) -> bool {
        let negated = |(a, b): (&(Var, i128), &(Var, i128))| a.0 == b.0 && a.1.checked_neg() == Some(b.1);
        self.terms.len() == other.terms.len() && self.terms.iter().zip(&other.terms).all(negated)
    }

    /// Replaces `var` by `by`.
    pub fn substitute(&self, var: Var, by: &AffineForm) -> Option<AffineForm> {
        let Ok(at) = self.terms.binary_search_by_key(&var, |term| term.0) else { return Some(self.clone()) };
        let mut rest = self.clone();
        let (_, coefficient) = rest.terms.remove(at);
        rest.add_scaled(by, coefficient)
    }

    /// Returns the greatest common divisor of the coefficients, without the constant. It is zero for a form without
    /// variables. `None` if it is 2^127, which exceeds `i128`.
    pub fn content(&self) -> Option<i128> {
        let mut gcd = 0u128;
        for &(_, coefficient) in &self.terms {
            gcd = common_divisor(gcd, coefficient.unsigned_abs());
            if gcd == 1 {
                break;
            }
        }
        i128::try_from(gcd).ok()
    }

    /// Divides by `divisor > 0` and rounds the constant down; `None` unless `divisor` divides all coefficients.
    pub fn divide_floor(&self, divisor: i128) -> Option<AffineForm> {
        if divisor <= 0 || self.terms.iter().any(|term| term.1 % divisor != 0) {
            return None;
        }
        let terms = self.terms.iter().map(|&(var, coefficient)| (var, coefficient / divisor)).collect();
        Some(AffineForm { constant: self.constant.div_euclid(divisor), terms })
    }

    /// Returns the form as text with these variable names. Variable 7 is written `x7` if it has no name.
    pub fn display<'a>(&'a self, names: &'a [String]) -> impl fmt::Display + 'a {
        FormDisplay { form: self, names }
    }

    /// Parses a form that was written without names, such as `2*x3 - x5 + 7`.
    pub fn parse(text: &str) -> Option<AffineForm> {
        let spaced = text.replace('-', " -").replace('+', " +");
        let (mut sign, mut constant, mut terms) = (1, 0i128, Vec::new());
        for word in spaced.split_whitespace() {
            let (minus, word) = match word.strip_prefix('-') {
                Some(rest) => (-1, rest),
                None => (1, word.strip_prefix('+').unwrap_or(word)),
            };
            sign *= minus;
            if word.is_empty() {
                continue;
            }
            match word.split_once('x') {
                Some(("", var)) => terms.push((Var(var.parse().ok()?), sign)),
                Some((factor, var)) => {
                    let factor = signed(sign, factor.strip_suffix('*')?)?;
                    terms.push((Var(var.parse().ok()?), factor));
                }
                None => constant = constant.checked_add(signed(sign, word)?)?,
            }
            sign = 1;
        }
        AffineForm::new(constant, terms)
    }
}

/// Parses `digits` with this sign. Accepts `i128::MIN`, whose magnitude is not an `i128`.
fn signed(sign: i128, digits: &str) -> Option<i128> {
    let magnitude: u128 = digits.parse().ok()?;
    if sign < 0 { 0i128.checked_sub_unsigned(magnitude) } else { i128::try_from(magnitude).ok() }
}

/// Returns the greatest common divisor; `b` if `a` is zero.
pub(super) fn common_divisor(mut a: u128, mut b: u128) -> u128 {
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

struct FormDisplay<'a> {
    form: &'a AffineForm,
    names: &'a [String],
}

impl fmt::Display for FormDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, &(var, coefficient)) in self.form.terms.iter().enumerate() {
            match (at, coefficient < 0) {
                (0, false) => {}
                (0, true) => write!(f, "-")?,
                (_, false) => write!(f, " + ")?,
                (_, true) => write!(f, " - ")?,
            }
            if coefficient.unsigned_abs() != 1 {
                write!(f, "{}*", coefficient.unsigned_abs())?;
            }
            match self.names.get(var.index()) {
                Some(name) => write!(f, "{name}")?,
                None => write!(f, "x{}", var.0)?,
            }
        }
        match (self.form.terms.is_empty(), self.form.constant) {
            (true, constant) => write!(f, "{constant}"),
            (false, 0) => Ok(()),
            (false, constant) if constant < 0 => write!(f, " - {}", constant.unsigned_abs()),
            (false, constant) => write!(f, " + {constant}"),
        }
    }
}

impl fmt::Display for AffineForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.display(&[]).fmt(f)
    }
}
