//! More line breaks for a line that is too long.
//!
//! In this order: the blocks in it are opened up; a kernel's geometry goes below its parameters; the line is broken at its
//! loosest operators; a bracket is opened up, one item a line, or filled if the items are plain numbers.

use super::breaks::{add, break_ends, headers, inside, trailing_comma};
use super::elements::Element;
use super::layout::width;
use super::roles::Role;
use crate::syntax::token::Tok;

/// A line that is too long: the elements from `start` to before `end`.
pub(crate) struct Line {
    pub start: usize,
    pub end: usize,
    pub indent: usize,
    /// Of what goes on in the next line.
    pub continuation: usize,
    /// Characters that a line should have at most.
    pub limit: usize,
}

impl Line {
    /// Breaks the line; false if there is no place to.
    pub fn split(&self, elements: &mut [Element]) -> bool {
        let done = self.blocks(elements)
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

    /// The elements of the line outside of brackets that open and close in it.
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

    /// Whole brackets of the line with something in them.
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

    fn geometry(&self, elements: &mut [Element]) -> bool {
        let outer = self.outer(elements);
        let Some(&first) = outer.iter().find(|&&i| elements[i].role == Role::Geometry) else { return false };
        let fits = first > self.start && self.indent + width(elements, self.start, first) <= self.limit;
        fits && add(elements, first)
    }

    /// Between the items of a list, and between the parts of a bench.
    fn at_commas(&self, elements: &mut [Element]) -> bool {
        let behind = |&i: &usize| elements[i].is(Tok::Comma) && i + 1 < self.end;
        let places: Vec<usize> = self.outer(elements).into_iter().filter(behind).map(|i| i + 1).collect();
        let listed = self.start == 0 || !elements[self.start].boundary;
        self.fill(elements, &places, if listed { self.indent } else { self.continuation })
    }

    /// The line begins with an operator: what is left of it is better broken in its brackets.
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
        // A line can't begin with a minus: it would be another statement.
        let place = |i: usize| if elements[i].is(Tok::Minus) { i + 1 } else { i };
        let places: Vec<usize> = outer.iter().copied().filter(|i| strength(i) == Some(loosest)).map(place).collect();
        self.fill(elements, &places, self.continuation)
    }

    /// Breaks at the last of the places that fits, again and again; false if none does.
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

    /// Opens the widest bracket up.
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

    /// All items are numbers or words.
    fn is_plain(&self, elements: &[Element], open: usize) -> bool {
        use Tok::*;
        let plain = |i: usize| {
            matches!(elements[i].tok(), Some(Int | Float | True | False | Comma)) || elements[i].role == Role::Prefix
        };
        inside(elements, open).all(plain)
    }
}
