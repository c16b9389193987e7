//! The derivations of a search, and the certificate made of those that its proof uses.
//!
//! Input: derived lines, each with the lines it comes from, and a tree of cases. Output: a certificate.
//! Idea: a step knows which assumptions it rests on, as a set of levels of the search; a case whose refutation does not rest
//! on its own assumption refutes the whole split. Steps that round nothing are folded into those that use them.

use rustc_hash::{FxHashMap, FxHashSet};

use super::certificate::{Certificate, End, Line, Node};
use super::form::{Linear, Var, common_divisor};

/// The number of a step.
pub(super) type StepId = usize;
/// The number of a disjunction.
pub(super) type ChoiceId = usize;
/// The levels whose assumptions something rests on, one bit each; the facts are no level.
pub(super) type Levels = u128;

/// Where a line comes from.
enum Origin {
    Assumed,
    Combination { terms: Vec<(StepId, i128)>, divisor: i128, rounded: bool },
    Product(StepId, StepId),
    Same(Var, Var),
}

struct Step {
    origin: Origin,
    needs: Levels,
}

/// All lines derived in a search.
#[derive(Default)]
pub(super) struct Steps {
    steps: Vec<Step>,
}

/// Why there is no point under the assumptions of `needs`.
pub(super) struct Proof {
    pub argument: Argument,
    pub needs: Levels,
}

/// The end of an argument: a contradictory line, or cases.
pub(super) enum Argument {
    Line(StepId),
    Choice(ChoiceId, Vec<Case>),
    Split(Linear, i128, Vec<Case>),
}

/// What one case assumes, in order, and its refutation.
pub(super) struct Case {
    pub assumed: Assumed,
    pub proof: Proof,
}

/// The atoms and disjunctions of an assumption, and the bit of its level.
#[derive(Default)]
pub(super) struct Assumed {
    pub level: Levels,
    pub steps: Vec<StepId>,
    pub choices: Vec<ChoiceId>,
}

impl Steps {
    /// A line that is assumed under these levels.
    pub fn assume(&mut self, needs: Levels) -> StepId {
        self.push(Origin::Assumed, needs)
    }

    /// The line `floor(Σ multiplier · line / divisor)`; `rounded` says whether the constant changes.
    pub fn combine(&mut self, terms: Vec<(StepId, i128)>, divisor: i128, rounded: bool) -> StepId {
        if let ([(step, 1)], 1) = (terms.as_slice(), divisor) {
            return *step;
        }
        let needs = terms.iter().fold(0, |needs, term| needs | self.steps[term.0].needs);
        self.push(Origin::Combination { terms, divisor, rounded }, needs)
    }

    /// The product of two lines.
    pub fn product(&mut self, a: StepId, b: StepId) -> StepId {
        let needs = self.steps[a].needs | self.steps[b].needs;
        self.push(Origin::Product(a, b), needs)
    }

    /// The line that two variables are the same product.
    pub fn same(&mut self, a: Var, b: Var) -> StepId {
        self.push(Origin::Same(a, b), 0)
    }

    /// The proof that ends with this line.
    pub fn contradiction(&self, step: StepId) -> Proof {
        Proof { argument: Argument::Line(step), needs: self.steps[step].needs }
    }

    fn push(&mut self, origin: Origin, needs: Levels) -> StepId {
        self.steps.push(Step { origin, needs });
        self.steps.len() - 1
    }

    /// The certificate of a proof from the facts alone.
    pub fn certificate(&self, facts: &Assumed, proof: &Proof, products: Vec<(Var, Var)>) -> Certificate {
        let mut writer = Writer { steps: &self.steps, sums: FxHashMap::default(), path: Path::default() };
        writer.path.assume(facts);
        Certificate { products, root: writer.node(proof) }
    }
}

/// The numbers of the lines and disjunctions on the path from the root.
#[derive(Default)]
struct Path {
    levels: Levels,
    numbers: FxHashMap<StepId, usize>,
    lines: Vec<StepId>,
    choices: Vec<ChoiceId>,
}

impl Path {
    fn push(&mut self, step: StepId) {
        self.numbers.insert(step, self.lines.len());
        self.lines.push(step);
    }

    fn assume(&mut self, assumed: &Assumed) {
        self.levels |= assumed.level;
        assumed.steps.iter().for_each(|&step| self.push(step));
        self.choices.extend(&assumed.choices);
    }

    fn forget(&mut self, lines: usize, choices: usize, level: Levels) {
        self.levels &= !level;
        for step in self.lines.drain(lines..) {
            self.numbers.remove(&step);
        }
        self.choices.truncate(choices);
    }
}

/// `Σ multiplier · line / divisor`, of lines that are written down.
#[derive(Clone)]
struct Sum {
    terms: Vec<(StepId, i128)>,
    divisor: i128,
}

struct Writer<'a> {
    steps: &'a [Step],
    sums: FxHashMap<StepId, Sum>,
    path: Path,
}

impl Writer<'_> {
    fn node(&mut self, proof: &Proof) -> Node {
        let mut lines = Vec::new();
        let cases = match &proof.argument {
            Argument::Line(step) => {
                let sum = self.expand(*step);
                self.write_terms(&sum, &mut lines);
                let sum = Sum { divisor: 1, ..sum };
                self.write_line(*step, &sum, &mut lines);
                return Node { lines, end: End::Contradiction };
            }
            Argument::Choice(_, cases) | Argument::Split(_, _, cases) => cases,
        };
        for step in self.shared(cases) {
            self.write(step, &mut lines);
        }
        let mut nodes = cases.iter().map(|case| self.case(case)).collect::<Vec<_>>();
        let end = match &proof.argument {
            Argument::Split(form, bound, _) => {
                let (high, low) = (nodes.pop(), nodes.pop());
                let cases = Box::new([low, high].map(|node| node.expect("a split has two cases")));
                End::Split { form: form.clone(), bound: *bound, cases }
            }
            Argument::Choice(id, _) => {
                let choice =
                    self.path.choices.iter().position(|choice| choice == id).expect("the disjunction is on the path");
                End::Choice { choice, cases: nodes }
            }
            Argument::Line(_) => End::Contradiction,
        };
        Node { lines, end }
    }

    fn case(&mut self, case: &Case) -> Node {
        let (lines, choices) = (self.path.lines.len(), self.path.choices.len());
        self.path.assume(&case.assumed);
        let node = self.node(&case.proof);
        self.path.forget(lines, choices, case.assumed.level);
        node
    }

    /// The steps that more than one case uses and that hold before the split, in order.
    fn shared(&mut self, cases: &[Case]) -> Vec<StepId> {
        let mut uses: FxHashMap<StepId, usize> = FxHashMap::default();
        for case in cases {
            let mut used = FxHashSet::default();
            self.used(&case.proof, &mut used);
            used.into_iter().for_each(|step| *uses.entry(step).or_default() += 1);
        }
        let levels = self.path.levels;
        let fits = |step: &StepId| self.steps[*step].needs & !levels == 0;
        let mut shared: Vec<StepId> =
            uses.into_iter().filter(|(_, count)| *count > 1).map(|(step, _)| step).filter(fits).collect();
        shared.sort_unstable();
        shared
    }

    /// The steps that the proof writes down, assumptions aside.
    fn used(&mut self, proof: &Proof, used: &mut FxHashSet<StepId>) {
        match &proof.argument {
            Argument::Line(step) => {
                let sum = self.expand(*step);
                sum.terms.iter().for_each(|term| self.used_by(term.0, used));
            }
            Argument::Choice(_, cases) | Argument::Split(_, _, cases) => {
                cases.iter().for_each(|case| self.used(&case.proof, used));
            }
        }
    }

    fn used_by(&mut self, step: StepId, used: &mut FxHashSet<StepId>) {
        match self.steps[step].origin {
            Origin::Assumed => {}
            _ if !used.insert(step) => {}
            Origin::Same(..) => {}
            Origin::Product(a, b) => [a, b].into_iter().for_each(|step| self.used_by(step, used)),
            Origin::Combination { .. } => {
                let sum = self.expand(step);
                sum.terms.iter().for_each(|term| self.used_by(term.0, used));
            }
        }
    }

    /// Writes the line of a step, after those it uses, unless it is known already.
    fn write(&mut self, step: StepId, lines: &mut Vec<Line>) {
        if self.path.numbers.contains_key(&step) {
            return;
        }
        match self.steps[step].origin {
            Origin::Assumed => unreachable!("an assumption is on the path of what uses it"),
            Origin::Same(a, b) => {
                lines.push(Line::Same(a, b));
                self.path.push(step);
            }
            Origin::Product(a, b) => {
                self.write(a, lines);
                self.write(b, lines);
                lines.push(Line::Product(self.path.numbers[&a], self.path.numbers[&b]));
                self.path.push(step);
            }
            Origin::Combination { .. } => {
                let sum = self.expand(step);
                self.write_terms(&sum, lines);
                self.write_line(step, &sum, lines);
            }
        }
    }

    fn write_terms(&mut self, sum: &Sum, lines: &mut Vec<Line>) {
        sum.terms.iter().for_each(|term| self.write(term.0, lines));
    }

    fn write_line(&mut self, step: StepId, sum: &Sum, lines: &mut Vec<Line>) {
        let terms = sum.terms.iter().map(|&(step, multiplier)| (self.path.numbers[&step], multiplier)).collect();
        lines.push(Line::Combination { terms, divisor: sum.divisor });
        self.path.push(step);
    }

    /// The step as a combination of lines that are written down; the step alone where it is none.
    fn expand(&mut self, step: StepId) -> Sum {
        if let Some(sum) = self.sums.get(&step) {
            return sum.clone();
        }
        let steps = self.steps;
        let sum = match &steps[step].origin {
            Origin::Combination { terms, divisor, .. } => {
                let parts: Vec<Sum> = terms.iter().map(|term| self.inline(term.0)).collect();
                let multiplied = terms.iter().map(|term| term.1).zip(parts);
                total(multiplied, *divisor).unwrap_or_else(|| Sum { terms: terms.clone(), divisor: *divisor })
            }
            _ => Sum { terms: vec![(step, 1)], divisor: 1 },
        };
        self.sums.insert(step, sum.clone());
        sum
    }

    /// What stands for the step where it is used: itself, or its sum where nothing was rounded.
    fn inline(&mut self, step: StepId) -> Sum {
        match self.steps[step].origin {
            Origin::Combination { rounded: false, .. } => self.expand(step),
            _ => Sum { terms: vec![(step, 1)], divisor: 1 },
        }
    }
}

/// `Σ multiplier · part / divisor` in lowest terms; `None` where a multiplier leaves `i128`.
fn total(parts: impl Iterator<Item = (i128, Sum)>, divisor: i128) -> Option<Sum> {
    let (mut terms, mut common): (Vec<(StepId, i128)>, i128) = (Vec::new(), 1);
    for (multiplier, part) in parts {
        let gcd = gcd(common, part.divisor);
        let (own, other) = (part.divisor / gcd, common / gcd);
        for term in &mut terms {
            term.1 = term.1.checked_mul(own)?;
        }
        common = common.checked_mul(own)?;
        for (step, inner) in part.terms {
            let inner = inner.checked_mul(multiplier)?.checked_mul(other)?;
            match terms.iter_mut().find(|term| term.0 == step) {
                Some(term) => term.1 = term.1.checked_add(inner)?,
                None => terms.push((step, inner)),
            }
        }
    }
    terms.retain(|term| term.1 != 0);
    terms.sort_unstable();
    let divisor = common.checked_mul(divisor)?;
    let shared = terms.iter().fold(divisor, |shared, term| gcd(shared, term.1));
    terms.iter_mut().for_each(|term| term.1 /= shared);
    Some(Sum { terms, divisor: divisor / shared })
}

/// The greatest common divisor where `a` is positive.
fn gcd(a: i128, b: i128) -> i128 {
    common_divisor(a.unsigned_abs(), b.unsigned_abs()) as i128
}
