//! Additional line breaks in a line that is too long.
//!
//! In this order: expand the blocks in it; move a kernel's geometry below its parameters; break at the operators of lowest
//! precedence; expand a bracket with one item per line, or filled if the items are plain numbers.

use super::breaks::{add, break_ends, headers, inside, trailing_comma};
use super::elements::{Element, Role};
use super::space::width;
use crate::syntax::token::Tok;

/// A line that is too long: the elements from `start` (inclusive) to `end` (exclusive).
pub(crate) struct Line {
    pub start: usize,
    pub end: usize,
    pub indent: usize,
    /// Indentation of continuation lines.
    pub continuation: usize,
    /// Maximum width in characters.
    pub limit: usize,
}

impl Line {
    /// Splits the line; returns false if that is not possible.
    pub fn split(&self, elements: &mut [Element]) -> bool {
        let done = self.blocks(elements)
            || self.clauses(elements)
            || self.at_commas(elements)
            || self.geometry(elements)
            || self.goes_on(elements) && self.bracket(elements)
            || self.operators(elements)
            || self.bracket(elements);
        if done {
            headers(elements, self.start, self.end);
        }
        done
    }

    /// Returns the elements of the line outside of brackets that open and close in it.
    fn outer(&self, elements: &[Element]) -> Vec<usize> {
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
    fn brackets(&self, elements: &[Element]) -> Vec<usize> {
        let whole = |&i: &usize| {
            elements[i].opens && (elements[i].mate as usize) < self.end && elements[i].mate as usize > i + 1
        };
        self.outer(elements).into_iter().filter(whole).collect()
    }

    fn blocks(&self, elements: &mut [Element]) -> bool {
        let mut blocks = self.brackets(elements);
        blocks.retain(|&i| elements[i].role == Role::Block);
        let mut done = false;
        for &open in &blocks {
            done |= break_ends(elements, open);
            let starts: Vec<usize> = inside(elements, open).filter(|&i| elements[i].is(Tok::Semi)).collect();
            for semi in starts {
                done |= add(elements, semi + 1);
            }
        }
        done
    }

    /// Breaks before the clauses of a kernel.
    fn clauses(&self, elements: &mut [Element]) -> bool {
        let outer = self.outer(elements);
        let mut done = false;
        for index in outer.into_iter().filter(|&i| i > self.start) {
            done |= elements[index].role == Role::Clause && add(elements, index);
        }
        done
    }

    fn geometry(&self, elements: &mut [Element]) -> bool {
        let outer = self.outer(elements);
        let Some(&first) = outer.iter().find(|&&i| elements[i].role == Role::Geometry) else { return false };
        let fits = first > self.start && self.indent + width(elements, self.start, first) <= self.limit;
        fits && add(elements, first)
    }

    /// Breaks between the items of a list or the parts of a bench.
    fn at_commas(&self, elements: &mut [Element]) -> bool {
        let behind = |&i: &usize| elements[i].is(Tok::Comma) && i + 1 < self.end;
        let places: Vec<usize> = self.outer(elements).into_iter().filter(behind).map(|i| i + 1).collect();
        let listed = self.start == 0 || !elements[self.start].boundary;
        self.fill(elements, &places, if listed { self.indent } else { self.continuation })
    }

    /// Whether the line begins with an operator: it is then better broken inside of brackets.
    fn goes_on(&self, elements: &[Element]) -> bool {
        matches!(elements[self.start].role, Role::Binary(_))
    }

    fn operators(&self, elements: &mut [Element]) -> bool {
        let outer = self.outer(elements);
        let strength = |&i: &usize| match elements[i].role {
            Role::Binary(strength) if i > self.start => Some(strength),
            _ => None,
        };
        let Some(loosest) = outer.iter().filter_map(strength).min() else { return false };
        // A line cannot begin with a minus, which would start another statement.
        let place = |i: usize| if elements[i].is(Tok::Minus) { i + 1 } else { i };
        let places: Vec<usize> = outer.iter().copied().filter(|i| strength(i) == Some(loosest)).map(place).collect();
        self.fill(elements, &places, self.continuation)
    }

    /// Fills lines: breaks repeatedly at the last of these places that fits; returns false if no break was added.
    fn fill(&self, elements: &mut [Element], places: &[usize], next_indent: usize) -> bool {
        let (mut from, mut indent, mut done) = (self.start, self.indent, false);
        for (n, &place) in places.iter().enumerate() {
            let until = places.get(n + 1).copied().unwrap_or(self.end);
            let inside = from < place && place < self.end;
            if inside && indent + width(elements, from, until) > self.limit && add(elements, place) {
                (from, indent, done) = (place, next_indent, true);
            }
        }
        done
    }

    /// Expands the widest bracket.
    fn bracket(&self, elements: &mut [Element]) -> bool {
        let mut brackets = self.brackets(elements);
        brackets.retain(|&i| !elements[i].is(Tok::LaunchOpen) && elements[i].mate as usize > i + 2);
        brackets.retain(|&i| self.indent + width(elements, self.start, i + 1) <= self.limit);
        let inner = |i: &usize| width(elements, *i, elements[*i].mate as usize);
        let Some(open) = brackets.into_iter().max_by_key(inner) else { return false };
        let mut done = break_ends(elements, open);
        if !self.is_plain(elements, open) {
            let commas: Vec<usize> = inside(elements, open).filter(|&i| elements[i].is(Tok::Comma)).collect();
            for comma in commas {
                if elements.get(comma + 1).is_some_and(|e| !e.is_comment()) {
                    done |= add(elements, comma + 1);
                }
            }
        }
        trailing_comma(elements, open);
        done
    }

    /// Whether all items are numbers or words.
    fn is_plain(&self, elements: &[Element], open: usize) -> bool {
        use Tok::*;
        let plain = |i: usize| {
            matches!(elements[i].tok(), Some(Int | Float | True | False | Comma)) || elements[i].role == Role::Prefix
        };
        inside(elements, open).all(plain)
    }
}
