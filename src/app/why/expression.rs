//! The part of a tree that array expressions of the script are.
//!
//! Input: a step of the run, and an element of its result. Output: lines. Idea: the step tells which elements it took ([`Origin`]); each of
//! these is an element of an expression within it, or of an array that a launch or an earlier expression has left.

use crate::base::source::Span;
use crate::host::format::brief;
use crate::host::interp::{Operand, Origin, Reduced};
use crate::host::value::Value;
use crate::lang::scalar::format;

use super::{Answer, Teller, listed, unfolded};

impl Teller<'_> {
    /// Tells what an element of the result of an expression was made of. It has the name, and the text of the expression is shown unless
    /// the name says it.
    pub(super) fn step(
        &mut self,
        number: usize,
        (name, says_it): (&str, bool),
        at: usize,
        level: usize,
    ) -> Answer<()> {
        if self.is_full() {
            return Ok(());
        }
        let interpreter = self.interpreter;
        let Some(step) = interpreter.trail.steps.get(number) else { return Ok(()) };
        let value = value_at(&step.result, at)?;
        let mut said = match says_it {
            true => format!("{name} = {value}"),
            false => format!("{name} = {value}: {}: {}", self.place(step.span), self.source(step.span)),
        };
        let origin = step.origin(at);
        match &origin {
            Origin::Unknown(why) => said += &format!(", {why}"),
            Origin::Reduced(Reduced { count: 0, .. }) => said += ", of no elements",
            Origin::Reduced(Reduced { count, is, .. }) => said += &format!(", of {count} elements, of which {is} is"),
            Origin::Each(..) | Origin::Moved(..) | Origin::Created => {}
        }
        let ends = matches!(origin, Origin::Unknown(_) | Origin::Created);
        if !ends && self.told_steps.contains(&(number, at)) {
            self.say(level, &format!("{said}, as above"));
            return Ok(());
        }
        self.say(level, &said);
        if ends {
            return Ok(());
        }
        if level + 1 >= self.levels {
            self.say(level + 1, "…");
            return Ok(());
        }
        self.told_steps.push((number, at));
        let launches = step.launches;
        match origin {
            Origin::Each(places, other) => {
                if let Some(other) = other {
                    let other = text(&other)?;
                    self.say(level + 1, &format!("computed once more on the host, of the values below, it is {other}"));
                }
                for (operand, place) in step.operands.iter().zip(places) {
                    self.operand(operand, place, launches, level + 1)?;
                }
            }
            Origin::Moved(operand, place) => self.operand(&step.operands[operand], Some(place), launches, level + 1)?,
            Origin::Reduced(Reduced { at, .. }) => {
                if let (Some(operand), Some(at)) = (step.operands.first(), at) {
                    self.operand(operand, Some(at), launches, level + 1)?;
                }
            }
            Origin::Unknown(_) | Origin::Created => {}
        }
        Ok(())
    }

    /// Tells what an operand is, at a flat position if it is an array.
    fn operand(&mut self, operand: &Operand, place: Option<usize>, launches: usize, level: usize) -> Answer<()> {
        let own = self.source(operand.span);
        let (Some(at), Value::Array(array)) = (place, &operand.value) else {
            let value = value_at(&operand.value, 0)?;
            match operand.step {
                Some(step) => return self.step(step, (&own, true), 0, level),
                None if is_number(&own) => self.say(level, &constant(&own, &value)),
                None if is_name(&own) => self.say(level, &format!("{own} = {value}, a variable, which is not followed")),
                None => self.say(level, &format!("{own} = {value}, which is not followed")),
            }
            return Ok(());
        };
        let index = unfolded(at, array.shape());
        if let Some(step) = operand.step {
            return self.step(step, (&self.element_of(operand.span, &index), true), at, level);
        }
        let name = match is_name(&own) || is_whole(&own) {
            true => own,
            false => format!("({own})"),
        };
        self.element((&array.clone(), launches), (&name, &index), level)
    }

    /// Returns the text of an element of an expression.
    fn element_of(&self, span: Span, index: &[usize]) -> String {
        let own = self.source(span);
        match is_name(&own) || is_whole(&own) {
            true => format!("{own}[{}]", listed(index)),
            false => format!("({own})[{}]", listed(index)),
        }
    }
}

fn constant(own: &str, value: &str) -> String {
    if own == value { format!("{own}, a constant") } else { format!("{own} = {value}, a constant") }
}

fn is_number(text: &str) -> bool {
    let text = text.trim_start_matches('-');
    text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c))
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns whether an index may follow a text without parentheses around it: a call, an index, or a list, or what is in parentheses.
fn is_whole(text: &str) -> bool {
    let body = text.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    let mut depth = 0;
    let mut parts = 0;
    for c in body.chars() {
        if depth == 0 {
            parts += 1;
            if !"([".contains(c) {
                return false;
            }
        }
        depth += i32::from("([".contains(c)) - i32::from(")]".contains(c));
    }
    parts > 0 && depth == 0
}

/// Returns the text of an element of an array, or of a value that is none.
fn value_at(value: &Value, at: usize) -> Answer<String> {
    let Value::Array(array) = value else { return text(value) };
    let item = array.item(at).map_err(|problem| problem.anywhere().title)?;
    item.map_or(Ok("?".into()), |item| text(&item))
}

fn text(value: &Value) -> Answer<String> {
    match value {
        Value::Scalar(number) => Ok(format::plain(*number)),
        value => brief(value).map_err(|problem| problem.anywhere().title),
    }
}
