//! Certificates: machine-checkable proofs that a problem has no solution.
//!
//! Input: a tree of proof steps and case distinctions. Output: its text, one step per line, and the tree parsed from
//! that text. Idea: each atom that is proven or assumed at a node has a number. Numbers count along the path from the
//! root of the tree to the node: first the atoms of the problem's facts, then the derived atoms and the assumptions of
//! the cases, in order of appearance. A proof step refers to its premises by these numbers.

use std::fmt;

use thiserror::Error;

use super::form::{AffineForm, Var};

/// Maximum depth of nested cases. [`recheck`](super::recheck()) and the parser reject deeper certificates.
pub(super) const DEEPEST: usize = 200;

/// A proof that a problem has no solution. [`recheck`](super::recheck()) verifies it, and [`Certificate::parse`] reads
/// its text.
///
/// The text has one proof step per line. `= 2*0 -1*3 / 2` divides a linear combination of the atoms 0 and 3 by 2, `. 4
/// 7` multiplies the atoms 4 and 7, `~ 2 5` states that the variables 2 and 5 are equal, and `!` ends a case with a
/// contradiction. `or 0 of 2` (the cases of a disjunction) and `split 7 : x0 - x3` (a form is at most 7 or greater)
/// begin a case distinction; the steps of the first case follow, then those of the next case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Factors of products that the proof uses and the problem does not define. Each pair defines a new variable equal
    /// to the product; these variables are numbered after those of the problem.
    pub products: Vec<(Var, Var)>,
    /// The root of the proof tree. The premises of its steps are the problem's facts.
    pub root: CertificateNode,
}

/// A node of the proof tree: derived atoms, then a contradiction or a case distinction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNode {
    /// The derived atoms. Each one gets the next free number, and its premises have smaller numbers.
    pub lines: Vec<DerivedLine>,
    /// The contradiction or the case distinction that ends the node.
    pub end: CertificateEnd,
}

/// A proof step: an atom and the rule that derives it from earlier atoms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DerivedLine {
    /// A linear combination of atoms, divided: `floor((Σ multiplier · form) / divisor) >= 0`, or `== 0` if all the
    /// atoms are equalities. Multipliers of inequalities are nonnegative, `divisor` divides all coefficients of the
    /// sum, and the constant is rounded down. An equality must not be rounded.
    Combination {
        /// The number of each combined atom, and its multiplier.
        terms: Vec<(usize, i128)>,
        /// The positive divisor; 1 for a plain combination.
        divisor: i128,
    },
    /// The product of the forms of two atoms: nonnegative if both are inequalities, zero if one of them is an equality.
    Product(usize, usize),
    /// States that two variables are equal, because both are defined as products of the same factors.
    Same(Var, Var),
}

/// How a node of the proof tree ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateEnd {
    /// The last atom is unsatisfiable: it is `c >= 0` for a negative constant `c`, or an equality whose constant is not
    /// a multiple of the greatest common divisor of its coefficients.
    Contradiction,
    /// A case distinction over the alternatives of a disjunction; every case ends in contradictions.
    Choice {
        /// The number of the disjunction. Disjunctions are numbered along the path from the root, like atoms but
        /// separately.
        choice: usize,
        /// One case for each alternative.
        cases: Vec<CertificateNode>,
    },
    /// A case distinction: `form <= bound` or `form >= bound + 1`; both cases end in contradictions.
    Split {
        /// The linear form whose range is split.
        form: AffineForm,
        /// The greatest value of the form that the first case allows.
        bound: i128,
        /// The case `form <= bound`, then the case `form > bound`.
        cases: Box<[CertificateNode; 2]>,
    },
}

/// Why a text is not a certificate. Steps are given as they stand in the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CertificateParseError {
    #[error("not a product: `{0}`")]
    NotAProduct(String),
    #[error("not a step: `{0}`")]
    NotAStep(String),
    /// The root of the proof tree is complete before this step.
    #[error("the certificate ends before `{0}`")]
    TrailingStep(String),
    #[error("the certificate ends within a case")]
    OpenCase,
    #[error("more than {DEEPEST} cases within each other")]
    TooDeep,
}

/// The size of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CertificateSize {
    /// Number of derived atoms.
    pub lines: usize,
    /// Number of contradictions.
    pub leaves: usize,
    /// Number of multipliers in all combinations.
    pub multipliers: usize,
}

impl Certificate {
    /// Counts the derived atoms, contradictions and multipliers.
    pub fn size(&self) -> CertificateSize {
        let mut size = CertificateSize::default();
        self.root.measure(&mut size);
        size
    }

    /// Parses the text that `Display` writes.
    pub fn parse(text: &str) -> Result<Certificate, CertificateParseError> {
        let mut steps = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        let mut products = Vec::new();
        while let Some(step) = steps.next_if(|step| step.starts_with("with ")) {
            products.push(product(step).ok_or_else(|| CertificateParseError::NotAProduct(step.into()))?);
        }
        let root = node(&mut steps, 0)?;
        match steps.next() {
            None => Ok(Certificate { products, root }),
            Some(step) => Err(CertificateParseError::TrailingStep(step.into())),
        }
    }
}

impl CertificateNode {
    fn measure(&self, size: &mut CertificateSize) {
        size.lines += self.lines.len();
        for line in &self.lines {
            if let DerivedLine::Combination { terms, .. } = line {
                size.multipliers += terms.len();
            }
        }
        match &self.end {
            CertificateEnd::Contradiction => size.leaves += 1,
            CertificateEnd::Choice { cases, .. } => cases.iter().for_each(|case| case.measure(size)),
            CertificateEnd::Split { cases, .. } => cases.iter().for_each(|case| case.measure(size)),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{:depth$}{line}", "")?;
        }
        let cases = match &self.end {
            CertificateEnd::Contradiction => return writeln!(f, "{:depth$}!", ""),
            CertificateEnd::Choice { choice, cases } => {
                writeln!(f, "{:depth$}or {choice} of {}", "", cases.len())?;
                cases.as_slice()
            }
            CertificateEnd::Split { form, bound, cases } => {
                writeln!(f, "{:depth$}split {bound} : {form}", "")?;
                cases.as_slice()
            }
        };
        cases.iter().try_for_each(|case| case.write(f, depth + 1))
    }
}

impl fmt::Display for DerivedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DerivedLine::Product(a, b) => write!(f, ". {a} {b}"),
            DerivedLine::Same(a, b) => write!(f, "~ {} {}", a.0, b.0),
            DerivedLine::Combination { terms, divisor } => {
                write!(f, "=")?;
                terms.iter().try_for_each(|(line, multiplier)| write!(f, " {multiplier}*{line}"))?;
                if *divisor == 1 { Ok(()) } else { write!(f, " / {divisor}") }
            }
        }
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (x, y) in &self.products {
            writeln!(f, "with x{}*x{}", x.0, y.0)?;
        }
        self.root.write(f, 0)
    }
}

fn product(step: &str) -> Option<(Var, Var)> {
    let (x, y) = step.strip_prefix("with x")?.split_once("*x")?;
    Some((Var(x.parse().ok()?), Var(y.parse().ok()?)))
}

fn node<'a>(steps: &mut impl Iterator<Item = &'a str>, depth: usize) -> Result<CertificateNode, CertificateParseError> {
    if depth > DEEPEST {
        return Err(CertificateParseError::TooDeep);
    }
    let mut lines = Vec::new();
    for step in &mut *steps {
        if let Some(line) = line(step) {
            lines.push(line);
        } else if step == "!" {
            return Ok(CertificateNode { lines, end: CertificateEnd::Contradiction });
        } else {
            let end = cases(step, steps, depth).ok_or_else(|| CertificateParseError::NotAStep(step.into()))??;
            return Ok(CertificateNode { lines, end });
        }
    }
    Err(CertificateParseError::OpenCase)
}

fn line(step: &str) -> Option<DerivedLine> {
    if let Some(factors) = step.strip_prefix(". ") {
        let (a, b) = factors.split_once(' ')?;
        return Some(DerivedLine::Product(a.parse().ok()?, b.parse().ok()?));
    }
    if let Some(variables) = step.strip_prefix("~ ") {
        let (a, b) = variables.split_once(' ')?;
        return Some(DerivedLine::Same(Var(a.parse().ok()?), Var(b.parse().ok()?)));
    }
    let (sum, divisor) = match step.strip_prefix('=')?.split_once(" / ") {
        Some((sum, divisor)) => (sum, divisor.parse().ok()?),
        None => (step.strip_prefix('=')?, 1),
    };
    let term = |word: &str| {
        let (multiplier, line) = word.split_once('*')?;
        Some((line.parse().ok()?, multiplier.parse().ok()?))
    };
    Some(DerivedLine::Combination { terms: sum.split_whitespace().map(term).collect::<Option<_>>()?, divisor })
}

fn cases<'a>(
    step: &str,
    steps: &mut impl Iterator<Item = &'a str>,
    depth: usize,
) -> Option<Result<CertificateEnd, CertificateParseError>> {
    if let Some(choice) = step.strip_prefix("or ") {
        let (choice, count) = choice.split_once(" of ")?;
        let (choice, count): (usize, usize) = (choice.parse().ok()?, count.parse().ok()?);
        let cases: Result<Vec<CertificateNode>, _> = (0..count).map(|_| node(steps, depth + 1)).collect();
        return Some(cases.map(|cases| CertificateEnd::Choice { choice, cases }));
    }
    let (bound, form) = step.strip_prefix("split ")?.split_once(" : ")?;
    let (bound, form) = (bound.parse().ok()?, AffineForm::parse(form)?);
    let first = node(steps, depth + 1);
    let both = first.and_then(|first| Ok(Box::new([first, node(steps, depth + 1)?])));
    Some(both.map(|cases| CertificateEnd::Split { form, bound, cases }))
}
