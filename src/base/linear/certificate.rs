//! Certificates: why a problem has no point, in steps that are checked one by one.
//!
//! Input: a tree of derived lines and case splits. Output: its compact text, one step a line, and the tree again.
//! Idea: the lines known at a node are numbered along the path from the root: first the atoms of the facts, in order, then
//! derived lines and the atoms of the cases chosen, as they come. So a step names lines by number and nothing else.

use std::fmt;

use super::form::{Linear, Var};

/// Certificates nested deeper than this are refused.
pub(super) const DEEPEST: usize = 200;

/// A proof that a problem has no point. [`recheck`](super::recheck()) verifies it; its text is read back by [`Certificate::parse`].
///
/// The text has one step a line: `= 2*0 -1*3 / 2` combines the lines 0 and 3, `. 4 7` multiplies two lines, `~ 2 5` equates two
/// variables, `!` is a contradiction, and `or 0 of 2` or `split 7 : x0 - x3` opens cases, whose steps follow in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Products that the problem does not name: the first is the value of a variable after the problem's, and so on.
    pub products: Vec<(Var, Var)>,
    /// The tree, from the facts down.
    pub root: Node,
}

/// Lines that follow from those known before, and how the argument ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Each is numbered next and may use the ones before.
    pub lines: Vec<Line>,
    /// The end of the argument, or its cases.
    pub end: End,
}

/// One derived line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// `floor((Σ multiplier · line) / divisor)`: multipliers of inequalities are not negative, `divisor` divides all
    /// coefficients, and the constant is rounded down.
    Combination {
        /// Lines by number, with their multipliers.
        terms: Vec<(usize, i128)>,
        /// Positive.
        divisor: i128,
    },
    /// The product of two lines: of two that are not negative it is not negative, and with one that is zero it is zero.
    Product(usize, usize),
    /// Two variables are equal: as products of products, they are the same product.
    Same(Var, Var),
}

/// The end of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The last line known holds nowhere: a negative constant, or an equality whose coefficients' divisor misses the constant.
    Contradiction,
    /// One alternative of a disjunction holds; each is refuted.
    Choice {
        /// The disjunction, numbered along the path as lines are.
        choice: usize,
        /// One for each alternative.
        cases: Vec<Node>,
    },
    /// `form <= bound` or `form >= bound + 1`; both are refuted.
    Split {
        /// An integer form.
        form: Linear,
        /// The greatest value of the first case.
        bound: i128,
        /// The case of at most `bound`, then that of more.
        cases: Box<[Node; 2]>,
    },
}

/// How large a certificate is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Derived lines.
    pub lines: usize,
    /// Lines that end in a contradiction.
    pub leaves: usize,
    /// Multipliers in all combinations.
    pub multipliers: usize,
}

impl Certificate {
    /// The number of its lines, leaves and multipliers.
    pub fn size(&self) -> Size {
        let mut size = Size::default();
        self.root.measure(&mut size);
        size
    }

    /// Reads the text that `Display` writes.
    pub fn parse(text: &str) -> Result<Certificate, String> {
        let mut steps = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        let mut products = Vec::new();
        while let Some(step) = steps.next_if(|step| step.starts_with("with ")) {
            products.push(product(step).ok_or_else(|| format!("not a product: `{step}`"))?);
        }
        let root = node(&mut steps, 0)?;
        match steps.next() {
            None => Ok(Certificate { products, root }),
            Some(step) => Err(format!("the certificate ends before `{step}`")),
        }
    }
}

impl Node {
    fn measure(&self, size: &mut Size) {
        size.lines += self.lines.len();
        for line in &self.lines {
            if let Line::Combination { terms, .. } = line {
                size.multipliers += terms.len();
            }
        }
        match &self.end {
            End::Contradiction => size.leaves += 1,
            End::Choice { cases, .. } => cases.iter().for_each(|case| case.measure(size)),
            End::Split { cases, .. } => cases.iter().for_each(|case| case.measure(size)),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{:depth$}{line}", "")?;
        }
        let cases = match &self.end {
            End::Contradiction => return writeln!(f, "{:depth$}!", ""),
            End::Choice { choice, cases } => {
                writeln!(f, "{:depth$}or {choice} of {}", "", cases.len())?;
                cases.as_slice()
            }
            End::Split { form, bound, cases } => {
                writeln!(f, "{:depth$}split {bound} : {form}", "")?;
                cases.as_slice()
            }
        };
        cases.iter().try_for_each(|case| case.write(f, depth + 1))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Product(a, b) => write!(f, ". {a} {b}"),
            Line::Same(a, b) => write!(f, "~ {} {}", a.0, b.0),
            Line::Combination { terms, divisor } => {
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

fn node<'a>(steps: &mut impl Iterator<Item = &'a str>, depth: usize) -> Result<Node, String> {
    if depth > DEEPEST {
        return Err(format!("more than {DEEPEST} cases within each other"));
    }
    let mut lines = Vec::new();
    for step in &mut *steps {
        if let Some(line) = line(step) {
            lines.push(line);
        } else if step == "!" {
            return Ok(Node { lines, end: End::Contradiction });
        } else {
            let end = cases(step, steps, depth).ok_or_else(|| format!("not a step: `{step}`"))??;
            return Ok(Node { lines, end });
        }
    }
    Err("the certificate ends within a case".to_string())
}

fn line(step: &str) -> Option<Line> {
    if let Some(factors) = step.strip_prefix(". ") {
        let (a, b) = factors.split_once(' ')?;
        return Some(Line::Product(a.parse().ok()?, b.parse().ok()?));
    }
    if let Some(variables) = step.strip_prefix("~ ") {
        let (a, b) = variables.split_once(' ')?;
        return Some(Line::Same(Var(a.parse().ok()?), Var(b.parse().ok()?)));
    }
    let (sum, divisor) = match step.strip_prefix('=')?.split_once(" / ") {
        Some((sum, divisor)) => (sum, divisor.parse().ok()?),
        None => (step.strip_prefix('=')?, 1),
    };
    let term = |word: &str| {
        let (multiplier, line) = word.split_once('*')?;
        Some((line.parse().ok()?, multiplier.parse().ok()?))
    };
    Some(Line::Combination { terms: sum.split_whitespace().map(term).collect::<Option<_>>()?, divisor })
}

fn cases<'a>(step: &str, steps: &mut impl Iterator<Item = &'a str>, depth: usize) -> Option<Result<End, String>> {
    if let Some(choice) = step.strip_prefix("or ") {
        let (choice, count) = choice.split_once(" of ")?;
        let (choice, count): (usize, usize) = (choice.parse().ok()?, count.parse().ok()?);
        let cases: Result<Vec<Node>, String> = (0..count).map(|_| node(steps, depth + 1)).collect();
        return Some(cases.map(|cases| End::Choice { choice, cases }));
    }
    let (bound, form) = step.strip_prefix("split ")?.split_once(" : ")?;
    let (bound, form) = (bound.parse().ok()?, Linear::parse(form)?);
    let first = node(steps, depth + 1);
    let both = first.and_then(|first| Ok(Box::new([first, node(steps, depth + 1)?])));
    Some(both.map(|cases| End::Split { form, bound, cases }))
}
