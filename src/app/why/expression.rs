//! Writes those parts of a provenance tree that describe array expressions of the script.
//!
//! Input: a recorded expression of the run, and an element of its result. Output: lines of the tree. The record of the
//! expression contains the elements that it read ([`ElementOrigin`]). Each is an element of a subexpression, or of an
//! array that a launch or an earlier expression has produced.

use clk_base::source::Span;
use clk_host::ExecContext;
use clk_host::interp::{ElementOrigin, ReductionOrigin, TraceOperand, TraceStep};
use clk_host::value::HostValue;

use super::expression_text::{
    SourceElement, constant_text, is_name, is_number, is_plain, not_finite, shortened, text, value_at,
};
use super::{ProvenanceWriter, join_indices, unflatten};
use crate::command_error::CommandResult;

impl ProvenanceWriter<'_> {
    /// Writes the provenance of an element of an expression's result. `name` denotes the element. Also writes the text
    /// of the expression, unless `is_named_by_text` is set because the name contains that text.
    pub(super) fn step(
        &mut self,
        number: usize,
        name: &str,
        is_named_by_text: bool,
        at: usize,
        level: usize,
    ) -> CommandResult<()> {
        if self.tree.is_full() {
            return Ok(());
        }
        let interpreter = self.interpreter;
        let Some(step) = interpreter.observers.provenance.steps.get(number) else { return Ok(()) };
        let value = value_at(&step.result, at)?;
        let mut said = match is_named_by_text {
            true => format!("{name} = {value}"),
            false => format!("{name} = {value}: {}: {}", self.place(step.span), shortened(self.source(step.span))),
        };
        let origin = match step.element_origin(&ExecContext::default(), at) {
            // For an element of a list that is a constant, the value alone is sufficient.
            ElementOrigin::Moved(operand, _) if step.operands.get(operand).is_some_and(|own| self.is_constant(own)) => {
                ElementOrigin::Created
            }
            origin => origin,
        };
        match &origin {
            ElementOrigin::Unknown(why) => said += &format!(", {why}"),
            ElementOrigin::Reduced(ReductionOrigin { count: 0, unit: of, .. }) => said += &format!(", of no {of}"),
            ElementOrigin::Reduced(ReductionOrigin { count: 1, unit: "products", .. }) => said += ", the product of",
            ElementOrigin::Reduced(ReductionOrigin { count, unit: of @ "products", relation: is, .. }) => {
                said += &format!(", of {count} {of}, {is} that of")
            }
            ElementOrigin::Reduced(ReductionOrigin { count, unit: of, relation: is, .. }) => {
                said += &format!(", of {count} {of}, {is}")
            }
            ElementOrigin::Each(..) if step.is_elementwise_call() => said += ", a function of these",
            ElementOrigin::Each(..) | ElementOrigin::Moved(..) | ElementOrigin::Created => {}
        }
        let ends = match &origin {
            ElementOrigin::Unknown(_) | ElementOrigin::Created => true,
            ElementOrigin::Reduced(reduced) => reduced.witness.is_empty(),
            ElementOrigin::Each(..) | ElementOrigin::Moved(..) => false,
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

    /// Writes the operands of an element of an expression that is an argument of a launch. The element itself was
    /// already written.
    pub(super) fn parts_of_argument(&mut self, number: usize, at: usize, level: usize) -> CommandResult<()> {
        let Some(step) = self.interpreter.observers.provenance.steps.get(number) else { return Ok(()) };
        match step.element_origin(&ExecContext::default(), at) {
            origin @ (ElementOrigin::Each(..) | ElementOrigin::Moved(..)) => self.parts(step, origin, level),
            _ => {
                let index = match &step.result {
                    HostValue::Array(array) => unflatten(at, array.shape()),
                    _ => vec![],
                };
                self.step(number, &self.element_of(step.span, &index), true, at, level)
            }
        }
    }

    fn is_constant(&self, operand: &TraceOperand) -> bool {
        let own = self.source(operand.span);
        operand.step.is_none() && (is_number(&own) || text(&operand.value).is_ok_and(|value| value == own))
    }

    fn parts(&mut self, step: &TraceStep, origin: ElementOrigin, level: usize) -> CommandResult<()> {
        match origin {
            ElementOrigin::Each(places, other) => {
                if let Some(other) = other {
                    let other = text(&other)?;
                    self.say(level, &format!("done once more on the host, with the values below, it is {other}"));
                }
                for (operand, place) in step.operands.iter().zip(places) {
                    self.operand(operand, place, step.launches, level)?;
                }
            }
            ElementOrigin::Moved(operand, place) => {
                self.operand(&step.operands[operand], Some(place), step.launches, level)?
            }
            ElementOrigin::Reduced(ReductionOrigin { witness: at, .. }) => {
                for (operand, place) in at {
                    self.operand(&step.operands[operand], Some(place), step.launches, level)?;
                }
            }
            ElementOrigin::Unknown(_) | ElementOrigin::Created => {}
        }
        Ok(())
    }

    /// Traces a non-finite number backward through expressions. If it came from an array that a launch wrote, returns
    /// the element. If an expression created it, writes that expression and returns `None`.
    pub(super) fn follow_nonfinite(
        &mut self,
        mut number: usize,
        mut at: usize,
    ) -> CommandResult<Option<SourceElement>> {
        let interpreter = self.interpreter;
        while let Some(step) = interpreter.observers.provenance.steps.get(number) {
            let mut wrong = None;
            let leads = step.possible_sources(&ExecContext::default(), at);
            for (operand, place) in leads.iter().flatten() {
                let operand = &step.operands[*operand];
                match not_finite(&operand.value, place.unwrap_or(0))? {
                    None => {
                        return self.report_start(
                            number,
                            at,
                            "a number that is not finite and has no further trace, in",
                        );
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
                    None => "a number that is not finite and has no further trace, in",
                };
                return self.report_start(number, at, title);
            };
            if let Some(next) = operand.step {
                (number, at) = (next, place);
                continue;
            }
            let producer = match &operand.value {
                HostValue::Array(array) if self.maker(array, step.launches).is_some() => {
                    let (from, text) = (array.clone(), self.source(operand.span));
                    return Ok(Some(SourceElement { from, text, at: place, launches: step.launches }));
                }
                HostValue::Array(array) => interpreter.observers.provenance.producing_step(array),
                _ => None,
            };
            match producer {
                Some((next, _)) => (number, at) = (next, place),
                None => return self.report_start(number, at, "a number that is not finite was an operand of"),
            }
        }
        Ok(None)
    }

    fn report_start(&mut self, number: usize, at: usize, title: &str) -> CommandResult<Option<SourceElement>> {
        let Some(step) = self.interpreter.observers.provenance.steps.get(number) else { return Ok(None) };
        let place = self.place(step.span);
        self.say(0, &format!("{title} the expression at {place}:"));
        let name = match &step.result {
            HostValue::Array(array) => self.element_of(step.span, &unflatten(at, array.shape())),
            _ => self.source(step.span),
        };
        self.step(number, &name, true, at, 1)?;
        Ok(None)
    }

    /// Writes the provenance of an operand. If the operand is an array, `place` is the row-major index of the element.
    fn operand(
        &mut self,
        operand: &TraceOperand,
        place: Option<usize>,
        launches: usize,
        level: usize,
    ) -> CommandResult<()> {
        let own = self.source(operand.span);
        let (Some(at), HostValue::Array(array)) = (place, &operand.value) else {
            let value = value_at(&operand.value, 0)?;
            match operand.step.filter(|_| !is_number(&own)) {
                Some(number) => {
                    // The record of a variable is that of its definition, which has another span than the operand.
                    let is_itself = |step: &TraceStep| step.span == operand.span;
                    let is_named_by_text =
                        self.interpreter.observers.provenance.steps.get(number).is_some_and(is_itself);
                    return self.step(number, &own, is_named_by_text, 0, level);
                }
                None if is_number(&own) => self.say(level, &constant_text(&own, &value)),
                None if is_name(&own) => {
                    self.say(level, &format!("{own} = {value}, a variable, which is not followed"))
                }
                None => self.say(level, &format!("{own} = {value}, which is not followed")),
            }
            return Ok(());
        };
        let index = unflatten(at, array.shape());
        if let Some(step) = operand.step {
            return self.step(step, &self.element_of(operand.span, &index), true, at, level);
        }
        let name = match is_plain(&own) {
            true => own,
            false => format!("({own})"),
        };
        self.element(&array.clone(), launches, &name, &index, level)
    }

    /// Returns the text of an expression followed by an index, with parentheses if necessary.
    fn element_of(&self, span: Span, index: &[usize]) -> String {
        let own = self.source(span);
        match is_plain(&own) {
            true => format!("{own}[{}]", join_indices(index)),
            false => format!("({own})[{}]", join_indices(index)),
        }
    }
}
