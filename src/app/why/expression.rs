//! The part of a tree that array expressions of the script are.
//!
//! Input: a step of the run, and an element of its result. Output: lines. Idea: the step tells which elements it took ([`Origin`]); each of
//! these is an element of an expression within it, or of an array that a launch or an earlier expression has left.

use crate::base::source::Span;
use crate::host::interp::{Operand, Origin, Reduced, Step};
use crate::host::value::Value;

use super::words::{Passed, constant, is_name, is_number, is_plain, not_finite, short, text, value_at};
use super::{Answer, Teller, listed, unfolded};

impl Teller<'_> {
    /// Tells what an element of the result of an expression was made of. It has the name, and the text of the expression is shown unless
    /// the name says it.
    pub(super) fn step(&mut self, number: usize, (name, says_it): (&str, bool), at: usize, level: usize) -> Answer<()> {
        if self.tree.is_full() {
            return Ok(());
        }
        let interpreter = self.interpreter;
        let Some(step) = interpreter.trail.steps.get(number) else { return Ok(()) };
        let value = value_at(&step.result, at)?;
        let mut said = match says_it {
            true => format!("{name} = {value}"),
            false => format!("{name} = {value}: {}: {}", self.place(step.span), short(self.source(step.span))),
        };
        let origin = match step.origin(at) {
            // A constant of a list says nothing that the value does not.
            Origin::Moved(operand, _) if step.operands.get(operand).is_some_and(|own| self.is_constant(own)) => {
                Origin::Created
            }
            origin => origin,
        };
        match &origin {
            Origin::Unknown(why) => said += &format!(", {why}"),
            Origin::Reduced(Reduced { count: 0, of, .. }) => said += &format!(", of no {of}"),
            Origin::Reduced(Reduced { count: 1, of: "products", .. }) => said += ", the product of",
            Origin::Reduced(Reduced { count, of: of @ "products", is, .. }) => {
                said += &format!(", of {count} {of}, {is} that of")
            }
            Origin::Reduced(Reduced { count, of, is, .. }) => said += &format!(", of {count} {of}, {is}"),
            Origin::Each(..) if step.is_function() => said += ", a function of these",
            Origin::Each(..) | Origin::Moved(..) | Origin::Created => {}
        }
        let ends = match &origin {
            Origin::Unknown(_) | Origin::Created => true,
            Origin::Reduced(reduced) => reduced.at.is_empty(),
            Origin::Each(..) | Origin::Moved(..) => false,
        };
        if !ends && self.told_steps.contains(&(number, at)) {
            self.say(level, &format!("{said}, as above"));
            return Ok(());
        }
        self.say(level, &said);
        if ends {
            return Ok(());
        }
        if !self.goes_on(level) {
            return Ok(());
        }
        self.told_steps.push((number, at));
        self.parts(step, origin, level + 1)
    }

    /// Tells what an element of an argument was made of that is an expression, and was told.
    pub(super) fn parts_of_argument(&mut self, number: usize, at: usize, level: usize) -> Answer<()> {
        let Some(step) = self.interpreter.trail.steps.get(number) else { return Ok(()) };
        match step.origin(at) {
            origin @ (Origin::Each(..) | Origin::Moved(..)) => self.parts(step, origin, level),
            _ => {
                let index = match &step.result {
                    Value::Array(array) => unfolded(at, array.shape()),
                    _ => vec![],
                };
                self.step(number, (&self.element_of(step.span, &index), true), at, level)
            }
        }
    }

    fn is_constant(&self, operand: &Operand) -> bool {
        let own = self.source(operand.span);
        operand.step.is_none() && (is_number(&own) || text(&operand.value).is_ok_and(|value| value == own))
    }

    fn parts(&mut self, step: &Step, origin: Origin, level: usize) -> Answer<()> {
        match origin {
            Origin::Each(places, other) => {
                if let Some(other) = other {
                    let other = text(&other)?;
                    self.say(level, &format!("done once more on the host, with the values below, it is {other}"));
                }
                for (operand, place) in step.operands.iter().zip(places) {
                    self.operand(operand, place, step.launches, level)?;
                }
            }
            Origin::Moved(operand, place) => {
                self.operand(&step.operands[operand], Some(place), step.launches, level)?
            }
            Origin::Reduced(Reduced { at, .. }) => {
                for (operand, place) in at {
                    self.operand(&step.operands[operand], Some(place), step.launches, level)?;
                }
            }
            Origin::Unknown(_) | Origin::Created => {}
        }
        Ok(())
    }

    /// Follows a number that is not finite through expressions: to an array that a launch left, or to where it began, which is told.
    pub(super) fn through(&mut self, mut number: usize, mut at: usize) -> Answer<Option<Passed>> {
        let interpreter = self.interpreter;
        while let Some(step) = interpreter.trail.steps.get(number) {
            let mut wrong = None;
            let leads = step.leads(at);
            for (operand, place) in leads.iter().flatten() {
                let operand = &step.operands[*operand];
                match not_finite(&operand.value, place.unwrap_or(0))? {
                    None => {
                        return self.began(number, at, "a number that is not finite, of which more is not known, in");
                    }
                    Some(false) => {}
                    Some(true) => {
                        wrong = Some((operand, place.unwrap_or(0)));
                        break;
                    }
                }
            }
            let Some((operand, place)) = wrong else {
                let title = match leads {
                    Some(_) => "the first number that is not finite, in",
                    None => "a number that is not finite, of which more is not known, in",
                };
                return self.began(number, at, title);
            };
            if let Some(next) = operand.step {
                (number, at) = (next, place);
                continue;
            }
            let made = match &operand.value {
                Value::Array(array) if self.maker(array, step.launches).is_some() => {
                    let (from, text) = (array.clone(), self.source(operand.span));
                    return Ok(Some(Passed { from, text, at: place, launches: step.launches }));
                }
                Value::Array(array) => interpreter.trail.maker(array),
                _ => None,
            };
            match made {
                Some((next, _)) => (number, at) = (next, place),
                None => return self.began(number, at, "a number that is not finite was an operand of"),
            }
        }
        Ok(None)
    }

    fn began(&mut self, number: usize, at: usize, title: &str) -> Answer<Option<Passed>> {
        let Some(step) = self.interpreter.trail.steps.get(number) else { return Ok(None) };
        let place = self.place(step.span);
        self.say(0, &format!("{title} the expression at {place}:"));
        let name = match &step.result {
            Value::Array(array) => self.element_of(step.span, &unfolded(at, array.shape())),
            _ => self.source(step.span),
        };
        self.step(number, (&name, true), at, 1)?;
        Ok(None)
    }

    /// Tells what an operand is, at a flat position if it is an array.
    fn operand(&mut self, operand: &Operand, place: Option<usize>, launches: usize, level: usize) -> Answer<()> {
        let own = self.source(operand.span);
        let (Some(at), Value::Array(array)) = (place, &operand.value) else {
            let value = value_at(&operand.value, 0)?;
            match operand.step.filter(|_| !is_number(&own)) {
                Some(number) => {
                    // A variable has the step of its definition.
                    let is_itself = |step: &Step| step.span == operand.span;
                    let says_it = self.interpreter.trail.steps.get(number).is_some_and(is_itself);
                    return self.step(number, (&own, says_it), 0, level);
                }
                None if is_number(&own) => self.say(level, &constant(&own, &value)),
                None if is_name(&own) => {
                    self.say(level, &format!("{own} = {value}, a variable, which is not followed"))
                }
                None => self.say(level, &format!("{own} = {value}, which is not followed")),
            }
            return Ok(());
        };
        let index = unfolded(at, array.shape());
        if let Some(step) = operand.step {
            return self.step(step, (&self.element_of(operand.span, &index), true), at, level);
        }
        let name = match is_plain(&own) {
            true => own,
            false => format!("({own})"),
        };
        self.element((&array.clone(), launches), (&name, &index), level)
    }

    /// Returns the text of an element of an expression.
    fn element_of(&self, span: Span, index: &[usize]) -> String {
        let own = self.source(span);
        match is_plain(&own) {
            true => format!("{own}[{}]", listed(index)),
            false => format!("({own})[{}]", listed(index)),
        }
    }
}
