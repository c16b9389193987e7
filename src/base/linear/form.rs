//! Integer-linear forms: a constant plus integer multiples of variables.
//!
//! Input: variables and `i128` coefficients. Output: sums, multiples, values and a text that parses back.
//! Idea: terms are sorted by variable and never zero, so equal forms are equal values, and two forms merge in one pass.
//! All arithmetic is checked: an operation whose result leaves `i128` is `None`, never a wrong form.

use std::fmt;

/// A variable: an index into the names of its [`Problem`](super::Problem).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(pub u32);

impl Var {
    /// The position of the variable in names and points.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// `constant + Σ coefficient · variable`, over the integers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Linear {
    constant: i128,
    terms: Vec<(Var, i128)>,
}

impl From<Var> for Linear {
    fn from(var: Var) -> Self {
        Linear { constant: 0, terms: vec![(var, 1)] }
    }
}

impl From<i128> for Linear {
    fn from(constant: i128) -> Self {
        Linear { constant, terms: Vec::new() }
    }
}

impl Linear {
    /// The form with this constant and these terms, in any order; terms of one variable are added up.
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
        Some(Linear { constant, terms: merged })
    }

    /// The constant part.
    pub fn constant(&self) -> i128 {
        self.constant
    }

    /// The terms, sorted by variable, without zeros.
    pub fn terms(&self) -> &[(Var, i128)] {
        &self.terms
    }

    /// The coefficient of `var`, zero where it does not occur.
    pub fn coefficient(&self, var: Var) -> i128 {
        self.terms.binary_search_by_key(&var, |term| term.0).map_or(0, |at| self.terms[at].1)
    }

    /// `self + other`.
    pub fn add(&self, other: &Linear) -> Option<Linear> {
        self.add_scaled(other, 1)
    }

    /// `self - other`.
    pub fn sub(&self, other: &Linear) -> Option<Linear> {
        self.add_scaled(other, -1)
    }

    /// `self + constant`.
    pub fn offset(&self, constant: i128) -> Option<Linear> {
        Some(Linear { constant: self.constant.checked_add(constant)?, terms: self.terms.clone() })
    }

    /// `factor · self`.
    pub fn scale(&self, factor: i128) -> Option<Linear> {
        Linear::default().add_scaled(self, factor)
    }

    /// `self + factor · other`.
    pub fn add_scaled(&self, other: &Linear, factor: i128) -> Option<Linear> {
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
        Some(Linear { constant, terms })
    }

    /// The value where variable `v` is `point[v]`; `None` outside `i128` or the point.
    pub fn eval(&self, point: &[i128]) -> Option<i128> {
        self.terms.iter().try_fold(self.constant, |sum, &(var, coefficient)| {
            sum.checked_add(coefficient.checked_mul(*point.get(var.index())?)?)
        })
    }

    /// Whether the coefficients of one are those of the other with opposite signs.
    pub(super) fn is_opposite(&self, other: &Linear) -> bool {
        let negated = |(a, b): (&(Var, i128), &(Var, i128))| a.0 == b.0 && a.1.checked_neg() == Some(b.1);
        self.terms.len() == other.terms.len() && self.terms.iter().zip(&other.terms).all(negated)
    }

    /// The form with `var` replaced by `by`.
    pub fn substitute(&self, var: Var, by: &Linear) -> Option<Linear> {
        let Ok(at) = self.terms.binary_search_by_key(&var, |term| term.0) else { return Some(self.clone()) };
        let mut rest = self.clone();
        let (_, coefficient) = rest.terms.remove(at);
        rest.add_scaled(by, coefficient)
    }

    /// The greatest common divisor of the coefficients, without the constant; zero without terms, `None` where it is 2^127.
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

    /// The form divided by `divisor > 0`, the constant rounded down; `None` unless `divisor` divides all coefficients.
    pub fn divide_floor(&self, divisor: i128) -> Option<Linear> {
        if divisor <= 0 || self.terms.iter().any(|term| term.1 % divisor != 0) {
            return None;
        }
        let terms = self.terms.iter().map(|&(var, coefficient)| (var, coefficient / divisor)).collect();
        Some(Linear { constant: self.constant.div_euclid(divisor), terms })
    }

    /// The form as text, with the names of its variables; those without a name are written `x7`.
    pub fn display<'a>(&'a self, names: &'a [String]) -> impl fmt::Display + 'a {
        Named { form: self, names }
    }

    /// Reads the text of a form that was written without names, such as `2*x3 - x5 + 7`.
    pub fn parse(text: &str) -> Option<Linear> {
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
        Linear::new(constant, terms)
    }
}

/// The number in `digits` with this sign, the least `i128` included.
fn signed(sign: i128, digits: &str) -> Option<i128> {
    let magnitude: u128 = digits.parse().ok()?;
    if sign < 0 { 0i128.checked_sub_unsigned(magnitude) } else { i128::try_from(magnitude).ok() }
}

/// The greatest common divisor; that of zero and `b` is `b`.
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

struct Named<'a> {
    form: &'a Linear,
    names: &'a [String],
}

impl fmt::Display for Named<'_> {
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

impl fmt::Display for Linear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.display(&[]).fmt(f)
    }
}
