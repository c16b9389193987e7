//! The linear relaxation of a system: its vertex, cutting planes, and the linear form to branch on.
//!
//! Input: the inequalities of a system. Output: a rational vertex, cutting planes that exclude it, and a linear form
//! whose value at the vertex is fractional. Idea: use `i64` numbers until they overflow, then `i128`. The fractional
//! parts of a row's entries are multipliers of tight inequalities. Their sum has integer coefficients and a fractional
//! constant, so the constant may be rounded down (a Gomory cut).

use std::rc::Rc;

use super::form::{AffineForm, Var};
use super::simplex::{Dictionary, Inequality, SimplexError, TableauRow, TableauVar};
use super::steps::StepId;
use crate::affine::gcd;

/// Maximum coefficient of a cutting plane. Larger coefficients slow down the simplex method.
const LARGEST_CUT: u128 = 1 << 16;

/// Maximum number of rows to derive cutting planes from. Rows with the smallest denominators are used.
const CUT_ROWS: usize = 8;
/// Number of inequalities in a dictionary that the system no longer contains, from which on they are removed.
const FORGOTTEN: usize = 4;

/// The simplex dictionary of a system.
#[derive(Clone)]
pub(super) enum Relaxation {
    /// All numbers fit in 64 bits.
    Narrow(Dictionary<i64>),
    /// At least one number does not fit in 64 bits.
    Wide(Dictionary<i128>),
}

impl Default for Relaxation {
    fn default() -> Self {
        Relaxation::Narrow(Dictionary::default())
    }
}

/// An inequality `form >= 0` that holds at all integer points of the system but not at the vertex. `form` is `floor(Σ
/// multiplier · step / divisor)`, where `terms` has the steps and their multipliers.
pub(super) struct CuttingPlane {
    pub form: AffineForm,
    pub terms: Vec<(StepId, i128)>,
    pub divisor: i128,
}

impl Relaxation {
    /// Adds the inequalities that are not yet in the dictionary, and moves to a feasible vertex.
    pub fn extend(&mut self, lines: &[Rc<Inequality>], exchanges: &mut u64) -> Result<(), SimplexError> {
        let new = |present: &[Rc<Inequality>]| {
            let is_new = |line: &&Rc<Inequality>| !present.iter().any(|present| present.step == line.step);
            lines.iter().filter(is_new).cloned().collect::<Vec<_>>()
        };
        self.forget(lines);
        let before = match self {
            Relaxation::Wide(dictionary) => {
                let new = new(dictionary.lines());
                return dictionary.extend(new.iter(), exchanges);
            }
            Relaxation::Narrow(dictionary) => {
                let new = new(dictionary.lines());
                match dictionary.extend(new.iter(), exchanges) {
                    Err(SimplexError::Overflow) => dictionary.lines().to_vec(),
                    result => return result,
                }
            }
        };
        let (mut wide, mut all) = (Dictionary::default(), before);
        all.extend(new(&all));
        let result = wide.extend(all.iter(), exchanges);
        *self = Relaxation::Wide(wide);
        result
    }

    /// Removes inequalities that are no longer in the system, if there are many of them.
    fn forget(&mut self, lines: &[Rc<Inequality>]) {
        if self.lines().len() < lines.len() + FORGOTTEN {
            return;
        }
        let is_in_system = |line: &Inequality| lines.iter().any(|current| current.step == line.step);
        match self {
            Relaxation::Narrow(dictionary) => dictionary.retain(is_in_system),
            Relaxation::Wide(dictionary) => dictionary.retain(is_in_system),
        }
    }

    /// Returns whether the inequality is tight (an equality) at the vertex because its slack is nonbasic.
    pub fn is_tight(&self, line: &Inequality) -> bool {
        let tight =
            |column: &TableauVar| matches!(column, TableauVar::Slack(at) if self.lines()[*at].step == line.step);
        self.nonbasic().iter().any(tight)
    }

    fn lines(&self) -> &[Rc<Inequality>] {
        match self {
            Relaxation::Narrow(dictionary) => dictionary.lines(),
            Relaxation::Wide(dictionary) => dictionary.lines(),
        }
    }

    fn nonbasic(&self) -> &[TableauVar] {
        match self {
            Relaxation::Narrow(dictionary) => dictionary.nonbasic(),
            Relaxation::Wide(dictionary) => dictionary.nonbasic(),
        }
    }

    /// Returns the rows whose basic variable is a coordinate, not a slack, if `free`. Else returns the rows whose value
    /// at the vertex is fractional.
    fn rows(&self, free: bool) -> Vec<(TableauVar, TableauRow)> {
        let is_selected = |column: TableauVar, fractional: bool| {
            if free { matches!(column, TableauVar::Free(_)) } else { fractional }
        };
        match self {
            Relaxation::Narrow(dictionary) => dictionary
                .rows()
                .filter(|(column, row)| is_selected(*column, row.is_fractional()))
                .map(|(column, row)| (column, row.wide()))
                .collect(),
            Relaxation::Wide(dictionary) => dictionary
                .rows()
                .filter(|(column, row)| is_selected(*column, row.is_fractional()))
                .map(|(column, row)| (column, row.wide()))
                .collect(),
        }
    }

    /// Returns the coordinates of the vertex: their least common denominator, and the numerator of each basic
    /// coordinate. The others are zero.
    pub fn vertex(&self) -> Option<(i128, Vec<(Var, i128)>)> {
        let rows = self.rows(true);
        let mut common = 1i128;
        for (_, row) in &rows {
            let own = row.denominator / gcd(row.constant, row.denominator);
            common = common.checked_mul(own / gcd(own, common))?;
        }
        let value = |(column, row): &(TableauVar, TableauRow)| match column {
            TableauVar::Free(var) => Some((*var, row.constant.checked_mul(common)? / row.denominator)),
            TableauVar::Slack(_) => None,
        };
        Some((common, rows.iter().map(value).collect::<Option<_>>()?))
    }

    /// Returns cutting planes that exclude the vertex, those with the smallest coefficients first.
    pub fn cuts(&self) -> Vec<CuttingPlane> {
        let (mut cuts, mut rows) = (Vec::new(), self.rows(false));
        rows.sort_by_key(|(_, row)| row.denominator);
        for (_, row) in rows.into_iter().take(CUT_ROWS) {
            cuts.extend([1, -1].into_iter().filter_map(|sign| self.cut(&row, sign)));
        }
        cuts.sort_by_key(|cut| (largest(&cut.form), cut.terms.len()));
        cuts.dedup_by(|a, b| a.form == b.form);
        cuts
    }

    fn cut(&self, row: &TableauRow, sign: i128) -> Option<CuttingPlane> {
        let (mut terms, mut sum) = (Vec::new(), AffineForm::default());
        for (entry, column) in row.entries.iter().zip(self.nonbasic()) {
            let fraction = entry.checked_mul(sign)?.rem_euclid(row.denominator);
            match column {
                _ if fraction == 0 => {}
                TableauVar::Free(_) => return None,
                TableauVar::Slack(at) => {
                    let line = &self.lines()[*at];
                    sum = sum.add_scaled(&line.form, fraction)?;
                    terms.push((line.step, fraction));
                }
            }
        }
        let form = sum.divide_floor(row.denominator)?;
        (largest(&form) <= LARGEST_CUT).then_some(CuttingPlane { form, terms, divisor: row.denominator })
    }

    /// Returns the linear form to branch on and the bound of its lower branch. Selects the form with the narrowest
    /// range among those whose value at the vertex is fractional.
    pub fn fractional(&self) -> Option<(AffineForm, i128)> {
        let mut best: Option<((i128, usize), AffineForm, i128)> = None;
        for (column, row) in self.rows(false) {
            let (form, width) = match column {
                TableauVar::Free(var) => (AffineForm::from(var), i128::MAX),
                TableauVar::Slack(at) => {
                    let form = &self.lines()[at].form;
                    (form.clone(), self.width(form).unwrap_or(i128::MAX - 1))
                }
            };
            let key = (width, form.terms().len());
            if best.as_ref().is_none_or(|best| key < best.0) {
                let bound = row.constant.div_euclid(row.denominator).checked_sub(form.constant())?;
                let plain = form.offset(form.constant().checked_neg()?)?;
                best = Some((key, plain, bound));
            }
        }
        best.map(|(_, form, bound)| (form, bound))
    }

    /// Returns the width of a form's range: its upper bound minus its lower bound. `None` if no inequality bounds it
    /// from the other side.
    fn width(&self, form: &AffineForm) -> Option<i128> {
        let opposites = self.lines().iter().filter(|other| other.form.is_opposite(form));
        opposites.filter_map(|other| other.form.constant().checked_add(form.constant())).min()
    }
}

fn largest(form: &AffineForm) -> u128 {
    form.terms().iter().map(|term| term.1.unsigned_abs()).max().unwrap_or(0)
}
