//! The tape of what was done while a function ran.

use std::sync::{Arc, Mutex, PoisonError};

use super::deed::Deed;
use super::form::Form;
use super::kernel::Launch;
use super::wrap::traced;
use crate::base::source::Span;
use crate::host::problem::{NO_GRAD, Outcome, Problem};
use crate::host::value::{Link, Value};

/// What was done at one level, in order: the nodes of the values that came of it.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    pub(super) steps: Mutex<Vec<Step>>,
    /// Where statements of the function begin and go on: the number of steps so far, and the place.
    places: Mutex<Vec<(u32, Span)>>,
}

/// A node: a parameter, or the result of a deed.
#[derive(Debug)]
pub(super) struct Step {
    /// None for a parameter.
    pub deed: Option<Deed>,
    pub operands: Vec<Operand>,
    /// Kept if the derivative needs it.
    pub result: Option<Value>,
    pub form: Form,
}

#[derive(Debug)]
pub(super) struct Operand {
    /// The node, if it is traced at this level.
    pub node: Option<u32>,
    /// Kept if the derivative needs it.
    pub value: Option<Value>,
    /// None for an untyped literal and a condition.
    pub form: Option<Form>,
}

impl Tape {
    /// Notes which statement the next steps belong to.
    pub fn reached(&self, at: Span) {
        let count = self.steps.lock().unwrap_or_else(PoisonError::into_inner).len() as u32;
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.last().is_some_and(|(since, _)| *since == count) {
            places.pop();
        }
        if places.last().is_none_or(|(_, place)| *place != at) {
            places.push((count, at));
        }
    }

    /// Returns the statement that a step belongs to.
    pub(super) fn place(&self, step: usize) -> Option<Span> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let next = places.partition_point(|(since, _)| *since as usize <= step);
        places.get(next.checked_sub(1)?).map(|(_, place)| *place)
    }

    /// Returns the tape of linked values, if they are nodes.
    pub(super) fn of(links: &[Option<Link>]) -> Option<Arc<Tape>> {
        links.iter().flatten().find_map(|link| match link {
            Link::Node(tape, _) => tape.clone().downcast().ok(),
            Link::Tangent(_) | Link::Audit(_) => None,
        })
    }

    /// Adds a parameter; returns the value as a node.
    pub fn leaf(self: &Arc<Tape>, value: Value, level: u32) -> Outcome<(Value, u32)> {
        let form = Form::of(&value).ok_or_else(|| lost(&format!("a `{}` has no derivative", value.type_name())))?;
        let node = self.add(Step { deed: None, operands: vec![], result: None, form });
        Ok((traced(value, level, Link::Node(self.clone(), node)), node))
    }

    pub(super) fn add(&self, step: Step) -> u32 {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push(step);
        (steps.len() - 1) as u32
    }

    pub(super) fn record(&self, deed: &Deed, args: Vec<Value>, links: &[Option<Link>], result: &Value) -> Option<u32> {
        let form = Form::of(result)?;
        let (needs_operands, needs_result) = deed.needs();
        let count = links.iter().flatten().count();
        let operand = |(arg, link): (Value, &Option<Link>)| {
            let node = link.as_ref().and_then(Link::node);
            // The derivative of a product by one factor needs the others alone.
            let is_lone_factor = deed.is_product() && count == usize::from(node.is_some());
            let needed = needs_operands && !is_lone_factor;
            Operand { node, form: Form::of(&arg), value: needed.then_some(arg) }
        };
        let operands = args.into_iter().zip(links).map(operand).collect();
        let result = needs_result.then(|| result.clone());
        Some(self.add(Step { deed: Some(deed.clone()), operands, result, form }))
    }
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Finds {
    Wrong,
    Kinks,
}

/// Judges the derivative of each operation by itself.
pub(super) trait Judge: Send + Sync {
    fn finds(&self) -> Finds;
    /// `active` says which operands have a derivative.
    fn deed(&self, deed: &Deed, args: &[Value], active: &[bool], result: &Value) -> Outcome<()>;
    fn launch(&self, launch: &Launch, args: &[Value], active: &[bool]) -> Outcome<()>;
}

/// What values are linked to whose derivatives are judged.
pub(crate) struct Auditor(pub(super) Box<dyn Judge>);

impl Auditor {
    /// Returns the judge of linked values, if they have one, and the link that results get.
    pub(super) fn of(links: &[Option<Link>]) -> Option<(Arc<Auditor>, Link)> {
        links.iter().flatten().find_map(|link| match link {
            Link::Audit(auditor) => Some((auditor.clone().downcast().ok()?, link.clone())),
            _ => None,
        })
    }
}

/// Returns the error for an operation that has no derivative.
pub(crate) fn lost(what: &str) -> Problem {
    Problem::new("E0720", "the derivative is lost here").label(what).help(NO_GRAD)
}
