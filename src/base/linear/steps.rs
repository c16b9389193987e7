//! Records the proof steps of a search and extracts a certificate from them.
//!
//! Input: proof steps, each with its premises, and a tree of case distinctions. Output: a certificate that contains
//! only the steps that the proof uses. Idea: each step has the set of assumption levels that it depends on. If the
//! refutation of a case does not depend on the level of that case, it refutes the whole case distinction. A linear
//! combination without rounding is inlined into the steps that use it.

use rustc_hash::{FxHashMap, FxHashSet};

use super::certificate::{Certificate, CertificateEnd, CertificateNode, DerivedLine};
use super::form::{AffineForm, Var};
use crate::affine::gcd;

/// The number of a proof step within its search.
pub(super) type StepId = usize;
/// The number of a disjunction within its search.
pub(super) type ChoiceId = usize;
/// A set of assumption levels. Bit `d` is the level of the assumptions in the cases of a node at depth `d` of the
/// search tree. Facts have no level.
pub(super) type Levels = u128;

/// How a proof step is derived.
enum LineOrigin {
    Assumed,
    Combination { terms: Vec<(StepId, i128)>, divisor: i128, rounded: bool },
    Product(StepId, StepId),
    Same(Var, Var),
}

struct ProofStep {
    origin: LineOrigin,
    needs: Levels,
}

/// All proof steps of a search, used or not.
#[derive(Default)]
pub(super) struct ProofSteps {
    steps: Vec<ProofStep>,
}

/// A proof that no point satisfies the facts and the assumptions of the assumption levels in `needs`.
pub(super) struct Proof {
    pub argument: RefutationEnd,
    pub needs: Levels,
}

/// How a proof ends: with a contradictory step, or with the refuted cases of a case distinction.
pub(super) enum RefutationEnd {
    Line(StepId),
    Choice(ChoiceId, Vec<ProofCase>),
    Split(AffineForm, i128, Vec<ProofCase>),
}

/// A refuted case: its assumptions and its proof.
pub(super) struct ProofCase {
    pub assumed: Assumed,
    pub proof: Proof,
}

/// The steps and disjunctions that a case assumes, and the bit of the case's assumption level.
#[derive(Default)]
pub(super) struct Assumed {
    pub level: Levels,
    pub steps: Vec<StepId>,
    pub choices: Vec<ChoiceId>,
}

impl ProofSteps {
    /// Adds a step that is an assumption of these levels.
    pub fn assume(&mut self, needs: Levels) -> StepId {
        self.push(LineOrigin::Assumed, needs)
    }

    /// Adds the step `floor(Σ multiplier · step / divisor)`. `rounded` is whether the floor changes the constant.
    pub fn combine(&mut self, terms: Vec<(StepId, i128)>, divisor: i128, rounded: bool) -> StepId {
        if let ([(step, 1)], 1) = (terms.as_slice(), divisor) {
            return *step;
        }
        let needs = terms.iter().fold(0, |needs, term| needs | self.steps[term.0].needs);
        self.push(LineOrigin::Combination { terms, divisor, rounded }, needs)
    }

    /// Adds the product of two steps.
    pub fn product(&mut self, a: StepId, b: StepId) -> StepId {
        let needs = self.steps[a].needs | self.steps[b].needs;
        self.push(LineOrigin::Product(a, b), needs)
    }

    /// Adds the step that two variables are equal because they are products of the same factors.
    pub fn same(&mut self, a: Var, b: Var) -> StepId {
        self.push(LineOrigin::Same(a, b), 0)
    }

    /// Returns the proof that ends with this contradictory step.
    pub fn contradiction(&self, step: StepId) -> Proof {
        Proof { argument: RefutationEnd::Line(step), needs: self.steps[step].needs }
    }

    fn push(&mut self, origin: LineOrigin, needs: Levels) -> StepId {
        self.steps.push(ProofStep { origin, needs });
        self.steps.len() - 1
    }

    /// Returns the certificate of a proof that depends on no assumption level, only on the facts.
    pub fn certificate(&self, facts: &Assumed, proof: &Proof, products: Vec<(Var, Var)>) -> Certificate {
        let mut writer =
            CertificateWriter { steps: &self.steps, sums: FxHashMap::default(), path: CertificatePath::default() };
        writer.path.assume(facts);
        Certificate { products, root: writer.node(proof) }
    }
}

/// The steps and disjunctions on the path from the root of the proof tree to a node, with their numbers in the
/// certificate.
#[derive(Default)]
struct CertificatePath {
    levels: Levels,
    numbers: FxHashMap<StepId, usize>,
    lines: Vec<StepId>,
    choices: Vec<ChoiceId>,
}

impl CertificatePath {
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

/// The linear combination `Σ multiplier · step / divisor` of steps that the certificate contains.
#[derive(Clone)]
struct LineCombination {
    terms: Vec<(StepId, i128)>,
    divisor: i128,
}

struct CertificateWriter<'a> {
    steps: &'a [ProofStep],
    sums: FxHashMap<StepId, LineCombination>,
    path: CertificatePath,
}

impl CertificateWriter<'_> {
    fn node(&mut self, proof: &Proof) -> CertificateNode {
        let mut lines = Vec::new();
        let cases = match &proof.argument {
            RefutationEnd::Line(step) => {
                let sum = self.expand(*step);
                self.write_terms(&sum, &mut lines);
                let sum = LineCombination { divisor: 1, ..sum };
                self.write_line(*step, &sum, &mut lines);
                return CertificateNode { lines, end: CertificateEnd::Contradiction };
            }
            RefutationEnd::Choice(_, cases) | RefutationEnd::Split(_, _, cases) => cases,
        };
        for step in self.shared(cases) {
            self.write(step, &mut lines);
        }
        let mut nodes = cases.iter().map(|case| self.case(case)).collect::<Vec<_>>();
        let end = match &proof.argument {
            RefutationEnd::Split(form, bound, _) => {
                let (high, low) = (nodes.pop(), nodes.pop());
                let cases = Box::new([low, high].map(|node| node.expect("a split has two cases")));
                CertificateEnd::Split { form: form.clone(), bound: *bound, cases }
            }
            RefutationEnd::Choice(id, _) => {
                let choice =
                    self.path.choices.iter().position(|choice| choice == id).expect("the disjunction is on the path");
                CertificateEnd::Choice { choice, cases: nodes }
            }
            RefutationEnd::Line(_) => CertificateEnd::Contradiction,
        };
        CertificateNode { lines, end }
    }

    fn case(&mut self, case: &ProofCase) -> CertificateNode {
        let (lines, choices) = (self.path.lines.len(), self.path.choices.len());
        self.path.assume(&case.assumed);
        let node = self.node(&case.proof);
        self.path.forget(lines, choices, case.assumed.level);
        node
    }

    /// Returns the steps that more than one case uses and that do not depend on the assumptions of the cases, in the
    /// order of their derivation.
    fn shared(&mut self, cases: &[ProofCase]) -> Vec<StepId> {
        let mut uses: FxHashMap<StepId, usize> = FxHashMap::default();
        for case in cases {
            let mut used = FxHashSet::default();
            self.used(&case.proof, &mut used);
            used.into_iter().for_each(|step| *uses.entry(step).or_default() += 1);
        }
        let levels = self.path.levels;
        let is_valid = |step: &StepId| self.steps[*step].needs & !levels == 0;
        let mut shared: Vec<StepId> =
            uses.into_iter().filter(|(_, count)| *count > 1).map(|(step, _)| step).filter(is_valid).collect();
        shared.sort_unstable();
        shared
    }

    /// Collects the steps that the certificate of the proof contains, except assumptions.
    fn used(&mut self, proof: &Proof, used: &mut FxHashSet<StepId>) {
        match &proof.argument {
            RefutationEnd::Line(step) => {
                let sum = self.expand(*step);
                sum.terms.iter().for_each(|term| self.used_by(term.0, used));
            }
            RefutationEnd::Choice(_, cases) | RefutationEnd::Split(_, _, cases) => {
                cases.iter().for_each(|case| self.used(&case.proof, used));
            }
        }
    }

    fn used_by(&mut self, step: StepId, used: &mut FxHashSet<StepId>) {
        match self.steps[step].origin {
            LineOrigin::Assumed => {}
            _ if !used.insert(step) => {}
            LineOrigin::Same(..) => {}
            LineOrigin::Product(a, b) => [a, b].into_iter().for_each(|step| self.used_by(step, used)),
            LineOrigin::Combination { .. } => {
                let sum = self.expand(step);
                sum.terms.iter().for_each(|term| self.used_by(term.0, used));
            }
        }
    }

    /// Writes a step after its premises, unless the path already contains it.
    fn write(&mut self, step: StepId, lines: &mut Vec<DerivedLine>) {
        if self.path.numbers.contains_key(&step) {
            return;
        }
        match self.steps[step].origin {
            LineOrigin::Assumed => unreachable!("an assumption is on the path of the steps that use it"),
            LineOrigin::Same(a, b) => {
                lines.push(DerivedLine::Same(a, b));
                self.path.push(step);
            }
            LineOrigin::Product(a, b) => {
                self.write(a, lines);
                self.write(b, lines);
                lines.push(DerivedLine::Product(self.path.numbers[&a], self.path.numbers[&b]));
                self.path.push(step);
            }
            LineOrigin::Combination { .. } => {
                let sum = self.expand(step);
                self.write_terms(&sum, lines);
                self.write_line(step, &sum, lines);
            }
        }
    }

    fn write_terms(&mut self, sum: &LineCombination, lines: &mut Vec<DerivedLine>) {
        sum.terms.iter().for_each(|term| self.write(term.0, lines));
    }

    fn write_line(&mut self, step: StepId, sum: &LineCombination, lines: &mut Vec<DerivedLine>) {
        let terms = sum.terms.iter().map(|&(step, multiplier)| (self.path.numbers[&step], multiplier)).collect();
        lines.push(DerivedLine::Combination { terms, divisor: sum.divisor });
        self.path.push(step);
    }

    /// Returns a linear combination in terms of steps that the certificate contains. Returns any other kind of step
    /// unchanged, as a combination of itself.
    fn expand(&mut self, step: StepId) -> LineCombination {
        if let Some(sum) = self.sums.get(&step) {
            return sum.clone();
        }
        let steps = self.steps;
        let sum = match &steps[step].origin {
            LineOrigin::Combination { terms, divisor, .. } => {
                let parts: Vec<LineCombination> = terms.iter().map(|term| self.inline(term.0)).collect();
                let multiplied = terms.iter().map(|term| term.1).zip(parts);
                total(multiplied, *divisor)
                    .unwrap_or_else(|| LineCombination { terms: terms.clone(), divisor: *divisor })
            }
            _ => LineCombination { terms: vec![(step, 1)], divisor: 1 },
        };
        self.sums.insert(step, sum.clone());
        sum
    }

    /// Returns the replacement for a premise: its expansion if it is a linear combination without rounding, else the
    /// premise itself.
    fn inline(&mut self, step: StepId) -> LineCombination {
        match self.steps[step].origin {
            LineOrigin::Combination { rounded: false, .. } => self.expand(step),
            _ => LineCombination { terms: vec![(step, 1)], divisor: 1 },
        }
    }
}

/// Returns the sum of multiplied linear combinations, divided by `divisor` and reduced to lowest terms. `None` on
/// overflow.
fn total(parts: impl Iterator<Item = (i128, LineCombination)>, divisor: i128) -> Option<LineCombination> {
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
    Some(LineCombination { terms, divisor: divisor / shared })
}
