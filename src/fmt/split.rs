//! Splits a line that is too long.
//!
//! It takes the first of these steps that is possible: expand the blocks in the line; break before a kernel's clauses;
//! break after commas; move a kernel's geometry below its parameters; break at the operators of lowest precedence;
//! expand a bracket, with one item per line. (If all items are numbers, as many as fit are put on each line.)

use super::breaks::{add, break_ends, headers, inside, trailing_comma};
use super::elements::{FormatElement, TokenRole};
use super::spacing::width;
use clk_syntax::token::Tok;

/// A line that is too long: the elements from `start` (inclusive) to `end` (exclusive).
pub(crate) struct LongLine {
    pub start: usize,
    pub end: usize,
    pub indent: usize,
    /// Indentation of continuation lines.
    pub continuation: usize,
    /// Maximum width in characters.
    pub limit: usize,
}

impl LongLine {
    /// Splits the line; returns false if that is impossible.
    pub fn split(&self, elements: &mut [FormatElement]) -> bool {
        let was_split = self.blocks(elements)
            || self.clauses(elements)
            || self.at_commas(elements)
            || self.geometry(elements)
            || self.starts_with_operator(elements) && self.bracket(elements)
            || self.operators(elements)
            || self.bracket(elements);
        if was_split {
            headers(elements, self.start, self.end);
        }
        was_split
    }

    /// Returns the elements of the line outside brackets that open and close in it.
    fn outer(&self, elements: &[FormatElement]) -> Vec<usize> {
        let mut outer = Vec::new();
        let mut at = self.start;
        while at < self.end {
            outer.push(at);
            let whole = elements[at].opens && (elements[at].mate as usize) < self.end;
            at = if whole { elements[at].mate as usize + 1 } else { at + 1 };
        }
        outer
    }

    /// Returns the nonempty brackets that open and close in the line.
    fn brackets(&self, elements: &[FormatElement]) -> Vec<usize> {
        let whole = |&i: &usize| {
            elements[i].opens && (elements[i].mate as usize) < self.end && elements[i].mate as usize > i + 1
        };
        self.outer(elements).into_iter().filter(whole).collect()
    }

    fn blocks(&self, elements: &mut [FormatElement]) -> bool {
        let mut blocks = self.brackets(elements);
        blocks.retain(|&i| elements[i].role == TokenRole::Block);
        let mut changed = false;
        for &open in &blocks {
            changed |= break_ends(elements, open);
            let starts: Vec<usize> = inside(elements, open).filter(|&i| elements[i].is_token(Tok::Semi)).collect();
            for semi in starts {
                changed |= add(elements, semi + 1);
            }
        }
        changed
    }

    /// Breaks before the clauses of a kernel.
    fn clauses(&self, elements: &mut [FormatElement]) -> bool {
        let outer = self.outer(elements);
        let mut changed = false;
        for index in outer.into_iter().filter(|&i| i > self.start) {
            changed |= elements[index].role == TokenRole::Clause && add(elements, index);
        }
        changed
    }

    fn geometry(&self, elements: &mut [FormatElement]) -> bool {
        let outer = self.outer(elements);
        let Some(&first) = outer.iter().find(|&&i| elements[i].role == TokenRole::Geometry) else { return false };
        let has_space = first > self.start && self.indent + width(elements, self.start, first) <= self.limit;
        has_space && add(elements, first)
    }

    /// Breaks after the commas of a list or of the rates of a bench.
    fn at_commas(&self, elements: &mut [FormatElement]) -> bool {
        let is_inner_comma = |&i: &usize| elements[i].is_token(Tok::Comma) && i + 1 < self.end;
        let places: Vec<usize> = self.outer(elements).into_iter().filter(is_inner_comma).map(|i| i + 1).collect();
        let listed = self.start == 0 || !elements[self.start].boundary;
        self.fill(elements, &places, if listed { self.indent } else { self.continuation })
    }

    /// Returns whether the line begins with an operator. It is better to break such a line inside a bracket.
    fn starts_with_operator(&self, elements: &[FormatElement]) -> bool {
        matches!(elements[self.start].role, TokenRole::Binary(_))
    }

    fn operators(&self, elements: &mut [FormatElement]) -> bool {
        let outer = self.outer(elements);
        let precedence = |&i: &usize| match elements[i].role {
            TokenRole::Binary(precedence) if i > self.start => Some(precedence),
            _ => None,
        };
        let Some(loosest) = outer.iter().filter_map(precedence).min() else { return false };
        // A line cannot begin with a minus, which would begin a new statement.
        let place = |i: usize| if elements[i].is_token(Tok::Minus) { i + 1 } else { i };
        let places: Vec<usize> = outer.iter().copied().filter(|i| precedence(i) == Some(loosest)).map(place).collect();
        self.fill(elements, &places, self.continuation)
    }

    /// Fills lines: breaks each line at the last of `places` that is within the line width. Returns whether it added a
    /// break.
    fn fill(&self, elements: &mut [FormatElement], places: &[usize], next_indent: usize) -> bool {
        let (mut from, mut indent, mut changed) = (self.start, self.indent, false);
        for (n, &place) in places.iter().enumerate() {
            let next_place = places.get(n + 1).copied().unwrap_or(self.end);
            let inside = from < place && place < self.end;
            if inside && indent + width(elements, from, next_place) > self.limit && add(elements, place) {
                (from, indent, changed) = (place, next_indent, true);
            }
        }
        changed
    }

    /// Expands the widest bracket.
    fn bracket(&self, elements: &mut [FormatElement]) -> bool {
        let mut brackets = self.brackets(elements);
        brackets.retain(|&i| !elements[i].is_token(Tok::LaunchOpen) && elements[i].mate as usize > i + 2);
        brackets.retain(|&i| self.indent + width(elements, self.start, i + 1) <= self.limit);
        let inner = |i: &usize| width(elements, *i, elements[*i].mate as usize);
        let Some(open) = brackets.into_iter().max_by_key(inner) else { return false };
        let mut changed = break_ends(elements, open);
        if !self.is_plain(elements, open) {
            let commas: Vec<usize> = inside(elements, open).filter(|&i| elements[i].is_token(Tok::Comma)).collect();
            for comma in commas {
                if elements.get(comma + 1).is_some_and(|e| !e.is_comment()) {
                    changed |= add(elements, comma + 1);
                }
            }
        }
        trailing_comma(elements, open);
        changed
    }

    /// Returns whether all items are numbers or truth values.
    fn is_plain(&self, elements: &[FormatElement], open: usize) -> bool {
        use Tok::*;
        let plain = |i: usize| {
            matches!(elements[i].tok(), Some(Int | Float | True | False | Comma))
                || elements[i].role == TokenRole::Prefix
        };
        inside(elements, open).all(plain)
    }
}
