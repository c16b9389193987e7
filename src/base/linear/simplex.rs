//! The dual simplex method over the rationals. It finds a vertex that satisfies all inequalities, or multipliers that
//! refute them.
//!
//! Input: linear forms that must be nonnegative. Output: a dictionary at a feasible vertex, or Farkas multipliers.
//! Idea: the value of each form is a slack variable, which must be nonnegative. First make the coordinates (the
//! variables of the forms) basic by pivoting them with slacks. Then, while the value of a slack is negative, pivot it
//! with a nonbasic slack that can raise it. If a row has no such slack, its entries are the multipliers. Inequalities
//! that are added later start from the last vertex.

use std::rc::Rc;

use super::form::{AffineForm, Var};
use super::number::{CheckedInt, gcd};
use super::steps::StepId;
use crate::stop;

/// An inequality `form >= 0` and the proof step that derives it.
pub(super) struct Inequality {
    pub form: AffineForm,
    pub step: StepId,
    /// Whether it is a cutting plane. A cutting plane follows from the other inequalities, so it may be dropped.
    pub cut: bool,
}

/// A row of a dictionary, the equation `denominator · basic = constant + Σ entry · nonbasic`, in lowest terms.
#[derive(Clone, Debug)]
pub(super) struct TableauRow<T = i128> {
    pub denominator: T,
    pub constant: T,
    pub entries: Vec<T>,
}

/// The variable of a row or column of a dictionary: the slack of an inequality, by the index of the inequality, or a
/// variable of the linear forms, which may have any sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TableauVar {
    Slack(usize),
    Free(Var),
}

/// Why the simplex method found no feasible vertex.
pub(super) enum SimplexError {
    /// No point satisfies the inequalities: `Σ multiplier · step`, over these steps and multipliers, is a negative
    /// constant.
    Infeasible(Vec<(StepId, i128)>),
    /// A number overflowed.
    Overflow,
    /// The budget of pivots was spent.
    Exhausted,
}

/// Number of pivots for which the most negative slack leaves the basis. After that, Bland's rule selects the pivots,
/// because it cannot cycle.
const GREEDY: u64 = 60;

/// A simplex dictionary: equations for the basic variables in terms of the nonbasic variables, which are zero at the
/// vertex.
#[derive(Clone, Default)]
pub(super) struct Dictionary<T> {
    lines: Vec<Rc<Inequality>>,
    rows: Vec<TableauRow<T>>,
    basic: Vec<TableauVar>,
    nonbasic: Vec<TableauVar>,
}

impl<T: CheckedInt> Dictionary<T> {
    /// Returns the inequalities. Slack `i` belongs to inequality `i`.
    pub fn lines(&self) -> &[Rc<Inequality>] {
        &self.lines
    }

    /// Returns the nonbasic variables, one for each entry of a row.
    pub fn nonbasic(&self) -> &[TableauVar] {
        &self.nonbasic
    }

    /// Returns the basic variables with their rows.
    pub fn rows(&self) -> impl Iterator<Item = (TableauVar, &TableauRow<T>)> {
        self.basic.iter().copied().zip(&self.rows)
    }

    /// Adds inequalities and moves to a vertex that satisfies all inequalities. Decrements `exchanges` at each pivot.
    pub fn extend<'b>(
        &mut self,
        lines: impl Iterator<Item = &'b Rc<Inequality>>,
        exchanges: &mut u64,
    ) -> Result<(), SimplexError> {
        let first = self.lines.len();
        for line in lines {
            self.add(line).ok_or(SimplexError::Overflow)?;
        }
        self.free_columns(first).ok_or(SimplexError::Overflow)?;
        let mut count = 0;
        while let Some(row) = self.violated(count >= GREEDY) {
            stop::poll();
            *exchanges = exchanges.checked_sub(1).ok_or(SimplexError::Exhausted)?;
            count += 1;
            match self.raising(row, count >= GREEDY) {
                Some(column) => self.pivot_at(row, column).ok_or(SimplexError::Overflow)?,
                None => return Err(self.refutation(row)),
            }
        }
        Ok(())
    }

    /// Adds an inequality: a row that defines its slack in terms of the nonbasic variables.
    fn add(&mut self, line: &Rc<Inequality>) -> Option<()> {
        let constant = T::from_wide(line.form.constant())?;
        let mut row = TableauRow { denominator: T::ONE, constant, entries: vec![T::ZERO; self.nonbasic.len()] };
        for &(var, coefficient) in line.form.terms() {
            let coefficient = T::from_wide(coefficient)?;
            let column = TableauVar::Free(var);
            if let Some(at) = self.basic.iter().position(|basic| *basic == column) {
                row.add(coefficient.times(row.denominator)?, &self.rows[at])?;
                continue;
            }
            let at = self.nonbasic.iter().position(|nonbasic| *nonbasic == column).unwrap_or_else(|| {
                self.nonbasic.push(column);
                self.rows.iter_mut().for_each(|row| row.entries.push(T::ZERO));
                row.entries.push(T::ZERO);
                self.nonbasic.len() - 1
            });
            row.entries[at] = row.entries[at].plus(coefficient.times(row.denominator)?)?;
        }
        self.basic.push(TableauVar::Slack(self.lines.len()));
        self.rows.push(row);
        self.lines.push(line.clone());
        Some(())
    }

    /// Makes nonbasic coordinates basic by pivoting them with slacks of the inequalities from index `first` on. Prefers
    /// inequalities with a unit coefficient and few terms.
    fn free_columns(&mut self, first: usize) -> Option<()> {
        for column in 0..self.nonbasic.len() {
            if matches!(self.nonbasic[column], TableauVar::Slack(_)) {
                continue;
            }
            let weight = |row: &usize| {
                let TableauVar::Slack(line) = self.basic[*row] else { return (true, usize::MAX, false) };
                let entry = self.rows[*row].entries[column].wide();
                (entry.unsigned_abs() != 1, self.lines[line].form.terms().len(), entry < 0)
            };
            let usable = |row: &usize| matches!(self.basic[*row], TableauVar::Slack(line) if line >= first);
            let with_entry = (0..self.rows.len()).filter(|&row| self.rows[row].entries[column] != T::ZERO);
            if let Some(row) = with_entry.filter(usable).min_by_key(weight) {
                self.pivot_at(row, column)?;
            }
        }
        Some(())
    }

    fn violated(&self, first: bool) -> Option<usize> {
        let negative =
            |row: &usize| matches!(self.basic[*row], TableauVar::Slack(_)) && self.rows[*row].constant < T::ZERO;
        let rows = (0..self.rows.len()).filter(negative);
        match first {
            true => rows.min_by_key(|&row| self.basic[row]),
            false => rows.min_by_key(|&row| self.rows[row].constant.quotient(self.rows[row].denominator)),
        }
    }

    fn raising(&self, row: usize, first: bool) -> Option<usize> {
        let columns = (0..self.nonbasic.len()).filter(|&column| match self.nonbasic[column] {
            TableauVar::Slack(_) => self.rows[row].entries[column] > T::ZERO,
            TableauVar::Free(_) => self.rows[row].entries[column] != T::ZERO,
        });
        match first {
            true => columns.min_by_key(|&column| self.nonbasic[column]),
            false => {
                columns.min_by_key(|&column| self.rows.iter().filter(|row| row.entries[column] != T::ZERO).count())
            }
        }
    }

    fn refutation(&self, row: usize) -> SimplexError {
        let mut multipliers = Vec::new();
        let mut add = |column: TableauVar, multiplier: i128| {
            if let (TableauVar::Slack(line), true) = (column, multiplier != 0) {
                multipliers.push((self.lines[line].step, multiplier));
            }
        };
        add(self.basic[row], self.rows[row].denominator.wide());
        for (column, entry) in self.rows[row].entries.iter().enumerate() {
            let Some(multiplier) = entry.wide().checked_neg() else { return SimplexError::Overflow };
            add(self.nonbasic[column], multiplier);
        }
        SimplexError::Infeasible(multipliers)
    }

    /// Makes the basic variable of `row` nonbasic and the nonbasic variable of `column` basic.
    fn pivot_at(&mut self, row: usize, column: usize) -> Option<()> {
        let mut entering = self.rows[row].clone();
        let pivot = entering.entries[column];
        entering.entries[column] = entering.denominator.negated()?;
        entering.denominator = pivot;
        if pivot < T::ZERO {
            entering.denominator = pivot.negated()?;
        } else {
            entering.constant = entering.constant.negated()?;
            for entry in &mut entering.entries {
                *entry = entry.negated()?;
            }
        }
        for (at, other) in self.rows.iter_mut().enumerate() {
            if at != row && other.entries[column] != T::ZERO {
                let factor = std::mem::replace(&mut other.entries[column], T::ZERO);
                other.add(factor, &entering)?;
            }
        }
        self.rows[row] = entering;
        std::mem::swap(&mut self.basic[row], &mut self.nonbasic[column]);
        Some(())
    }

    /// Removes the inequalities that `is_needed` rejects, but only those whose slacks are basic, because removing them
    /// does not move the vertex. Renumbers the inequalities.
    pub fn retain(&mut self, is_needed: impl Fn(&Inequality) -> bool) {
        let must_keep =
            |column: &TableauVar| !matches!(column, TableauVar::Slack(line) if !is_needed(&self.lines[*line]));
        let is_kept: Vec<bool> = self.basic.iter().map(must_keep).collect();
        let mut flags = is_kept.iter();
        self.rows.retain(|_| *flags.next().unwrap_or(&true));
        let mut flags = is_kept.iter();
        self.basic.retain(|_| *flags.next().unwrap_or(&true));
        let mut lines = Vec::new();
        for column in self.basic.iter_mut().chain(&mut self.nonbasic) {
            if let TableauVar::Slack(line) = column {
                lines.push(self.lines[*line].clone());
                *line = lines.len() - 1;
            }
        }
        self.lines = lines;
    }
}

impl<T: CheckedInt> TableauRow<T> {
    /// Adds `factor / other.denominator` times the right side of another row.
    fn add(&mut self, factor: T, other: &TableauRow<T>) -> Option<()> {
        let shared = gcd(other.denominator, factor)?;
        let (scale, factor) = (other.denominator.quotient(shared), factor.quotient(shared));
        if scale != T::ONE {
            self.denominator = self.denominator.times(scale)?;
            self.constant = self.constant.times(scale)?;
            for entry in &mut self.entries {
                *entry = entry.times(scale)?;
            }
        }
        self.constant = self.constant.plus(other.constant.times(factor)?)?;
        for (own, other) in self.entries.iter_mut().zip(&other.entries) {
            if *other != T::ZERO {
                *own = own.plus(other.times(factor)?)?;
            }
        }
        self.reduce()
    }

    /// Reduces the row to lowest terms.
    fn reduce(&mut self) -> Option<()> {
        let mut shared = self.denominator;
        for entry in self.entries.iter().chain([&self.constant]) {
            if shared == T::ONE {
                return Some(());
            }
            shared = gcd(shared, *entry)?;
        }
        if shared != T::ONE {
            self.denominator = self.denominator.quotient(shared);
            self.constant = self.constant.quotient(shared);
            self.entries.iter_mut().for_each(|entry| *entry = entry.quotient(shared));
        }
        Some(())
    }

    /// Converts the row to `i128`.
    pub fn wide(&self) -> TableauRow {
        let entries = self.entries.iter().map(|entry| entry.wide()).collect();
        TableauRow { denominator: self.denominator.wide(), constant: self.constant.wide(), entries }
    }

    /// Returns whether the value of the basic variable at the vertex is not an integer.
    pub fn is_fractional(&self) -> bool {
        self.constant.wide() % self.denominator.wide() != 0
    }
}
