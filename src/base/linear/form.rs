//! Affine forms of the variables of a problem: their values at a point, and their text, which can be parsed.

use std::fmt;

use crate::affine::Affine;

/// A variable: the index of its name in [`LinearProblem::variables`](super::LinearProblem::variables).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(pub u32);

impl Var {
    /// Returns the index of the variable in a list of names or in a point (a list of values).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An affine form of the variables of a problem.
pub type AffineForm = Affine<Var>;

impl From<Var> for AffineForm {
    fn from(var: Var) -> Self {
        Affine::variable(var)
    }
}

impl AffineForm {
    /// Evaluates the form with `point[v]` for variable `v`; `None` on overflow or if the point lacks a variable.
    pub fn eval(&self, point: &[i128]) -> Option<i128> {
        self.terms().iter().try_fold(self.constant(), |sum, &(var, coefficient)| {
            sum.checked_add(coefficient.checked_mul(*point.get(var.index())?)?)
        })
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

struct FormDisplay<'a> {
    form: &'a AffineForm,
    names: &'a [String],
}

impl fmt::Display for FormDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, &(var, coefficient)) in self.form.terms().iter().enumerate() {
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
        match (self.form.terms().is_empty(), self.form.constant()) {
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
