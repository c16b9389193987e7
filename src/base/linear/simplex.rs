//! The rational relaxation: a vertex that satisfies all inequalities, or multipliers that refute them.
//!
//! Input: forms that must not be negative. Output: a dictionary at a feasible vertex, or Farkas multipliers.
//! Idea: each inequality has a slack that is not negative. Variables are first exchanged for slacks; then a negative slack is
//! exchanged for one that can raise it. A row where none can is the refutation. Further inequalities start from the last vertex.

use std::rc::Rc;

use super::form::{Linear, Var};
use super::number::{Number, gcd};
use super::steps::StepId;

/// An inequality `form >= 0` and the step that derives it.
pub(super) struct Inequality {
    pub form: Linear,
    pub step: StepId,
    /// Whether it follows from others and may be forgotten.
    pub cut: bool,
}

/// `denominator · basic = constant + Σ entry · nonbasic`, in lowest terms.
#[derive(Clone, Debug)]
pub(super) struct Row<T = i128> {
    pub denominator: T,
    pub constant: T,
    pub entries: Vec<T>,
}

/// The variable of a row or column: the slack of a line, by number, or a variable of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Column {
    Slack(usize),
    Free(Var),
}

/// Why there is no vertex.
pub(super) enum Failure {
    /// `Σ multiplier · line` is a negative constant.
    Infeasible(Vec<(StepId, i128)>),
    /// A number leaves its type.
    Overflow,
    /// More exchanges than allowed.
    Exhausted,
}

/// Exchanges by greatest violation before the rule that cannot cycle takes over.
const GREEDY: u64 = 60;

/// Basic variables in terms of nonbasic ones, which are zero at the vertex.
#[derive(Clone, Default)]
pub(super) struct Dictionary<T> {
    lines: Vec<Rc<Inequality>>,
    rows: Vec<Row<T>>,
    basic: Vec<Column>,
    nonbasic: Vec<Column>,
}

impl<T: Number> Dictionary<T> {
    /// The lines; slacks are numbered like them.
    pub fn lines(&self) -> &[Rc<Inequality>] {
        &self.lines
    }

    /// The variables that are zero at the vertex, in the order of the rows' entries.
    pub fn nonbasic(&self) -> &[Column] {
        &self.nonbasic
    }

    /// The basic variables with their rows.
    pub fn rows(&self) -> impl Iterator<Item = (Column, &Row<T>)> {
        self.basic.iter().copied().zip(&self.rows)
    }

    /// Adds inequalities and moves to a vertex that satisfies all; `exchanges` counts down.
    pub fn extend<'b>(
        &mut self,
        lines: impl Iterator<Item = &'b Rc<Inequality>>,
        exchanges: &mut u64,
    ) -> Result<(), Failure> {
        let first = self.lines.len();
        for line in lines {
            self.add(line).ok_or(Failure::Overflow)?;
        }
        self.free_columns(first).ok_or(Failure::Overflow)?;
        let mut done = 0;
        while let Some(row) = self.violated(done >= GREEDY) {
            *exchanges = exchanges.checked_sub(1).ok_or(Failure::Exhausted)?;
            done += 1;
            match self.raising(row, done >= GREEDY) {
                Some(column) => self.exchange(row, column).ok_or(Failure::Overflow)?,
                None => return Err(self.refutation(row)),
            }
        }
        Ok(())
    }

    /// Adds the row of an inequality, in terms of the nonbasic variables.
    fn add(&mut self, line: &Rc<Inequality>) -> Option<()> {
        let constant = T::from_wide(line.form.constant())?;
        let mut row = Row { denominator: T::ONE, constant, entries: vec![T::ZERO; self.nonbasic.len()] };
        for &(var, coefficient) in line.form.terms() {
            let coefficient = T::from_wide(coefficient)?;
            let column = Column::Free(var);
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
        self.basic.push(Column::Slack(self.lines.len()));
        self.rows.push(row);
        self.lines.push(line.clone());
        Some(())
    }

    /// Exchanges each variable for a slack of the new lines, by the shortest form that has one.
    fn free_columns(&mut self, first: usize) -> Option<()> {
        for column in 0..self.nonbasic.len() {
            if matches!(self.nonbasic[column], Column::Slack(_)) {
                continue;
            }
            let weight = |row: &usize| {
                let Column::Slack(line) = self.basic[*row] else { return (true, usize::MAX, false) };
                let entry = self.rows[*row].entries[column].wide();
                (entry.unsigned_abs() != 1, self.lines[line].form.terms().len(), entry < 0)
            };
            let usable = |row: &usize| matches!(self.basic[*row], Column::Slack(line) if line >= first);
            let with_entry = (0..self.rows.len()).filter(|&row| self.rows[row].entries[column] != T::ZERO);
            if let Some(row) = with_entry.filter(usable).min_by_key(weight) {
                self.exchange(row, column)?;
            }
        }
        Some(())
    }

    fn violated(&self, first: bool) -> Option<usize> {
        let negative = |row: &usize| matches!(self.basic[*row], Column::Slack(_)) && self.rows[*row].constant < T::ZERO;
        let rows = (0..self.rows.len()).filter(negative);
        match first {
            true => rows.min_by_key(|&row| self.basic[row]),
            false => rows.min_by_key(|&row| self.rows[row].constant.over(self.rows[row].denominator)),
        }
    }

    fn raising(&self, row: usize, first: bool) -> Option<usize> {
        let columns = (0..self.nonbasic.len()).filter(|&column| match self.nonbasic[column] {
            Column::Slack(_) => self.rows[row].entries[column] > T::ZERO,
            Column::Free(_) => self.rows[row].entries[column] != T::ZERO,
        });
        match first {
            true => columns.min_by_key(|&column| self.nonbasic[column]),
            false => {
                columns.min_by_key(|&column| self.rows.iter().filter(|row| row.entries[column] != T::ZERO).count())
            }
        }
    }

    fn refutation(&self, row: usize) -> Failure {
        let mut multipliers = Vec::new();
        let mut add = |column: Column, multiplier: i128| {
            if let (Column::Slack(line), true) = (column, multiplier != 0) {
                multipliers.push((self.lines[line].step, multiplier));
            }
        };
        add(self.basic[row], self.rows[row].denominator.wide());
        for (column, entry) in self.rows[row].entries.iter().enumerate() {
            let Some(multiplier) = entry.wide().checked_neg() else { return Failure::Overflow };
            add(self.nonbasic[column], multiplier);
        }
        Failure::Infeasible(multipliers)
    }

    /// Makes the basic variable of `row` nonbasic and that of `column` basic.
    fn exchange(&mut self, row: usize, column: usize) -> Option<()> {
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

    /// Forgets basic slacks whose lines are not wanted, which leaves the vertex as it is, and numbers the lines anew.
    pub fn retain(&mut self, wanted: impl Fn(&Inequality) -> bool) {
        let keep = |column: &Column| !matches!(column, Column::Slack(line) if !wanted(&self.lines[*line]));
        let kept: Vec<bool> = self.basic.iter().map(keep).collect();
        let mut flags = kept.iter();
        self.rows.retain(|_| *flags.next().unwrap_or(&true));
        let mut flags = kept.iter();
        self.basic.retain(|_| *flags.next().unwrap_or(&true));
        let mut lines = Vec::new();
        for column in self.basic.iter_mut().chain(&mut self.nonbasic) {
            if let Column::Slack(line) = column {
                lines.push(self.lines[*line].clone());
                *line = lines.len() - 1;
            }
        }
        self.lines = lines;
    }
}

impl<T: Number> Row<T> {
    /// Adds `factor / denominator` times another row.
    fn add(&mut self, factor: T, other: &Row<T>) -> Option<()> {
        let shared = gcd(other.denominator, factor)?;
        let (scale, factor) = (other.denominator.over(shared), factor.over(shared));
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

    /// Divides by the common divisor.
    fn reduce(&mut self) -> Option<()> {
        let mut shared = self.denominator;
        for entry in self.entries.iter().chain([&self.constant]) {
            if shared == T::ONE {
                return Some(());
            }
            shared = gcd(shared, *entry)?;
        }
        if shared != T::ONE {
            self.denominator = self.denominator.over(shared);
            self.constant = self.constant.over(shared);
            self.entries.iter_mut().for_each(|entry| *entry = entry.over(shared));
        }
        Some(())
    }

    /// The row with wide numbers.
    pub fn wide(&self) -> Row {
        let entries = self.entries.iter().map(|entry| entry.wide()).collect();
        Row { denominator: self.denominator.wide(), constant: self.constant.wide(), entries }
    }

    /// Whether the value at the vertex is no integer.
    pub fn is_fractional(&self) -> bool {
        self.constant.wide() % self.denominator.wide() != 0
    }
}
