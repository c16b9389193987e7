//! The vertex of a system, and what the integers say about it: cuts, and forms to split.
//!
//! Input: the inequalities of a system. Output: a rational point, inequalities that it violates, a form that is fractional.
//! Idea: narrow numbers until they overflow, then wide ones. The fractions of a row's entries combine tight lines to a form
//! with whole coefficients and a fractional constant, which may be rounded down (a cut of Gomory's).

use std::rc::Rc;

use super::form::{Linear, Var, common_divisor};
use super::simplex::{Column, Dictionary, Failure, Inequality, Row};
use super::steps::StepId;

/// Cuts whose coefficients are larger are not worth their digits.
const LARGEST_CUT: u128 = 1 << 16;

/// Rows that are tried for cuts, those of the smallest denominators.
const CUT_ROWS: usize = 8;
/// Lines that the system has dropped and that may stay in a dictionary.
const FORGOTTEN: usize = 4;

/// The dictionary of a system.
#[derive(Clone)]
pub(super) enum Relaxation {
    /// The numbers fit 64 bits.
    Narrow(Dictionary<i64>),
    /// They do not.
    Wide(Dictionary<i128>),
}

impl Default for Relaxation {
    fn default() -> Self {
        Relaxation::Narrow(Dictionary::default())
    }
}

/// An inequality that holds at integer points and not at the vertex: `floor(Σ multiplier · line / divisor)`.
pub(super) struct Cut {
    pub form: Linear,
    pub terms: Vec<(StepId, i128)>,
    pub divisor: i128,
}

impl Relaxation {
    /// Adds the lines that are new and moves to a vertex.
    pub fn extend(&mut self, lines: &[Rc<Inequality>], exchanges: &mut u64) -> Result<(), Failure> {
        let new = |known: &[Rc<Inequality>]| {
            let is_new = |line: &&Rc<Inequality>| !known.iter().any(|known| known.step == line.step);
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
                    Err(Failure::Overflow) => dictionary.lines().to_vec(),
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

    /// Drops lines that stronger ones have replaced, once there are many.
    fn forget(&mut self, lines: &[Rc<Inequality>]) {
        if self.lines().len() < lines.len() + FORGOTTEN {
            return;
        }
        let wanted = |line: &Inequality| lines.iter().any(|known| known.step == line.step);
        match self {
            Relaxation::Narrow(dictionary) => dictionary.retain(wanted),
            Relaxation::Wide(dictionary) => dictionary.retain(wanted),
        }
    }

    /// Whether the vertex lies on the line for certain.
    pub fn is_tight(&self, line: &Inequality) -> bool {
        let tight = |column: &Column| matches!(column, Column::Slack(at) if self.lines()[*at].step == line.step);
        self.nonbasic().iter().any(tight)
    }

    fn lines(&self) -> &[Rc<Inequality>] {
        match self {
            Relaxation::Narrow(dictionary) => dictionary.lines(),
            Relaxation::Wide(dictionary) => dictionary.lines(),
        }
    }

    fn nonbasic(&self) -> &[Column] {
        match self {
            Relaxation::Narrow(dictionary) => dictionary.nonbasic(),
            Relaxation::Wide(dictionary) => dictionary.nonbasic(),
        }
    }

    /// The rows of variables of the forms, or of all where the vertex is fractional.
    fn rows(&self, free: bool) -> Vec<(Column, Row)> {
        let wanted =
            |column: Column, fractional: bool| if free { matches!(column, Column::Free(_)) } else { fractional };
        match self {
            Relaxation::Narrow(dictionary) => dictionary
                .rows()
                .filter(|(column, row)| wanted(*column, row.is_fractional()))
                .map(|(column, row)| (column, row.wide()))
                .collect(),
            Relaxation::Wide(dictionary) => dictionary
                .rows()
                .filter(|(column, row)| wanted(*column, row.is_fractional()))
                .map(|(column, row)| (column, row.wide()))
                .collect(),
        }
    }

    /// The coordinates' values at the vertex, over their least common denominator.
    pub fn vertex(&self) -> Option<(i128, Vec<(Var, i128)>)> {
        let rows = self.rows(true);
        let mut common = 1i128;
        for (_, row) in &rows {
            let own = row.denominator / divisor(row.constant, row.denominator);
            common = common.checked_mul(own / divisor(own, common))?;
        }
        let value = |(column, row): &(Column, Row)| match column {
            Column::Free(var) => Some((*var, row.constant.checked_mul(common)? / row.denominator)),
            Column::Slack(_) => None,
        };
        Some((common, rows.iter().map(value).collect::<Option<_>>()?))
    }

    /// Inequalities that cut the vertex off, those of the smallest coefficients first.
    pub fn cuts(&self) -> Vec<Cut> {
        let (mut cuts, mut rows) = (Vec::new(), self.rows(false));
        rows.sort_by_key(|(_, row)| row.denominator);
        for (_, row) in rows.into_iter().take(CUT_ROWS) {
            cuts.extend([1, -1].into_iter().filter_map(|sign| self.cut(&row, sign)));
        }
        cuts.sort_by_key(|cut| (largest(&cut.form), cut.terms.len()));
        cuts.dedup_by(|a, b| a.form == b.form);
        cuts
    }

    fn cut(&self, row: &Row, sign: i128) -> Option<Cut> {
        let (mut terms, mut sum) = (Vec::new(), Linear::default());
        for (entry, column) in row.entries.iter().zip(self.nonbasic()) {
            let fraction = entry.checked_mul(sign)?.rem_euclid(row.denominator);
            match column {
                _ if fraction == 0 => {}
                Column::Free(_) => return None,
                Column::Slack(at) => {
                    let line = &self.lines()[*at];
                    sum = sum.add_scaled(&line.form, fraction)?;
                    terms.push((line.step, fraction));
                }
            }
        }
        let form = sum.divide_floor(row.denominator)?;
        (largest(&form) <= LARGEST_CUT).then_some(Cut { form, terms, divisor: row.denominator })
    }

    /// A form that is fractional at the vertex and the greatest value of its lower part: the narrowest between two bounds.
    pub fn fractional(&self) -> Option<(Linear, i128)> {
        let mut best: Option<((i128, usize), Linear, i128)> = None;
        for (column, row) in self.rows(false) {
            let (form, width) = match column {
                Column::Free(var) => (Linear::from(var), i128::MAX),
                Column::Slack(at) => {
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

    /// The distance to the opposite bound.
    fn width(&self, form: &Linear) -> Option<i128> {
        let opposites = self.lines().iter().filter(|other| other.form.is_opposite(form));
        opposites.filter_map(|other| other.form.constant().checked_add(form.constant())).min()
    }
}

fn largest(form: &Linear) -> u128 {
    form.terms().iter().map(|term| term.1.unsigned_abs()).max().unwrap_or(0)
}

/// The common divisor, where the second number is positive.
fn divisor(a: i128, b: i128) -> i128 {
    common_divisor(a.unsigned_abs(), b.unsigned_abs()) as i128
}
