//! Calls of functions that state their derivative.
//!
//! In: the call, with arguments that are traced or not. The function runs on plain values. In reverse mode the call is a step of the tape,
//! and its rule runs on the way back. A rule is linear in the cotangent, so in forward mode its transpose gives the tangent: the rule
//! runs with a cotangent that is traced, and is itself gone back over. Rules are ordinary code, so second derivatives differentiate them.

use std::cell::RefCell;
use std::sync::Arc;

use crate::base::source::Span;
use crate::check::typed::{Expr, Rule, Stated};
use crate::host::grad::{self, Ruled, Tape};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Link, Value};
use crate::lower::Argument;

use super::frame::Frame;
use super::machine::{Eval, Machine, Signal};

/// A call as a tape keeps it.
struct Called {
    rule: Arc<Rule>,
    generics: Arc<[Argument]>,
    dims: Vec<Option<i64>>,
    span: Span,
}

/// A call on the way back: its arguments and its result, without the level of the tape.
struct Kept {
    called: Arc<Called>,
    values: Vec<Value>,
    result: Value,
}

impl Called {
    /// Returns the floats, vectors and arrays of the arguments that have derivatives.
    fn leaves(&self, values: &[Value]) -> Vec<Value> {
        let active = values.iter().zip(&self.rule.active).filter(|(_, active)| **active);
        active.flat_map(|(value, _)| grad::leaves(value)).collect()
    }

    /// Returns arguments with others in place of these.
    fn with_leaves(&self, values: &[Value], leaves: Vec<Value>) -> Outcome<Vec<Value>> {
        let mut leaves = leaves.into_iter();
        let one = |(value, active): (&Value, &bool)| match active {
            true => grad::wrapped(value.clone(), &mut |leaf| Ok(leaves.next().unwrap_or(leaf))),
            false => Ok(value.clone()),
        };
        values.iter().zip(&self.rule.active).map(one).collect()
    }
}

impl Machine<'_> {
    pub(super) fn stated(&mut self, frame: &mut Frame, stated: &Stated, span: Span) -> Eval {
        let values = self.values(frame, &stated.args)?;
        let (generics, dims) = (frame.generics.clone(), frame.dims.clone());
        self.stated_at(&Arc::new(Called { rule: stated.rule.clone(), generics, dims, span }), values)
    }

    fn stated_at(&mut self, called: &Arc<Called>, values: Vec<Value>) -> Eval {
        let lost = values.iter().zip(&called.rule.active).any(|(value, active)| !active && grad::is_traced(value));
        if lost {
            let problem =
                Problem::new("E0720", "the derivative is lost here").label("no rule is stated for an argument");
            return Err(self.problem(problem, called.span));
        }
        let leaves = called.leaves(&values);
        let Some(level) = grad::level_of(&leaves) else { return self.within(called, &called.rule.of, values, None) };
        let inner: Vec<Value> = values.iter().map(|value| grad::stripped(value, level)).collect();
        let result = self.stated_at(called, inner.clone())?;
        if let Some(tape) = grad::tape_of(&leaves, level) {
            let kept = Kept { called: called.clone(), values: inner, result: result.clone() };
            let ruled = Ruled { call: Arc::new(kept), results: grad::leaves(&result).len() };
            return self.settle_problem(grad::kept(&tape, level, ruled, &leaves, result), called.span);
        }
        let links: Vec<Option<Link>> = leaves.iter().map(|leaf| grad::links(leaf, level).1).collect();
        if let Some(link @ Link::Audit(_)) = links.iter().flatten().next() {
            let active: Vec<bool> = links.iter().map(Option::is_some).collect();
            let judged = self.judged(called, &inner, &result, link, &active);
            self.settle_problem(judged, called.span)?;
            let linked = grad::wrapped(result, &mut |leaf| Ok(grad::traced(leaf, level, link.clone())));
            return self.settle_problem(linked, called.span);
        }
        let tangents = links.into_iter().map(|link| link.and_then(Link::into_tangent)).collect();
        let tangents = self.transposed(called, &inner, &result, tangents)?;
        self.settle_problem(grad::with_tangents(result, tangents, level), called.span)
    }

    /// Evaluates the function or the rule.
    fn within(&mut self, called: &Called, what: &Expr, values: Vec<Value>, cotangent: Option<Value>) -> Eval {
        let mut frame = Frame::new(called.generics.clone(), called.dims.clone());
        for (param, value) in called.rule.params.iter().zip(values) {
            *frame.place(*param) = Some(value);
        }
        if let Some(cotangent) = cotangent {
            *frame.place(called.rule.cotangent) = Some(cotangent);
        }
        self.eval(&mut frame, what)
    }

    /// Applies the rule; returns the cotangents of all floats, vectors and arrays of the arguments.
    fn back(&mut self, called: &Called, values: &[Value], cotangent: Value) -> Eval<Vec<Value>> {
        let found = self.within(called, &called.rule.back, values.to_vec(), Some(cotangent))?;
        let (found, wanted) = (grad::leaves(&found), called.leaves(values));
        let wrong = wanted.iter().zip(&found).find(|(wanted, found)| !grad::is_alike(wanted, found));
        let says = match wrong {
            Some((wanted, found)) => {
                let (wanted, found) = (grad::primal(wanted).type_name(), grad::primal(found).type_name());
                format!("the cotangent of a `{wanted}` has its type and shape, and this rule gives `{found}`")
            }
            None if wanted.len() != found.len() => "this rule gives not one cotangent for each argument".to_string(),
            None => return Ok(found),
        };
        let problem = Problem::new("E0722", "a stated derivative does not fit its function").label(says);
        Err(self.problem(problem, called.rule.back.span))
    }

    /// Goes back over a tape.
    pub(super) fn pulled(
        &mut self,
        tape: &Tape,
        seeds: Vec<(u32, Value)>,
        nodes: &[u32],
        span: Span,
    ) -> Eval<Vec<Value>> {
        let mut failed = None;
        let found = grad::pulled(tape, seeds, nodes, &mut |ruled, adjoints| {
            let Some(kept) = ruled.call.downcast_ref::<Kept>() else { return Err(unknown()) };
            let mut adjoints = adjoints.into_iter();
            let cotangent = grad::wrapped(kept.result.clone(), &mut |leaf| Ok(adjoints.next().unwrap_or(leaf)))?;
            self.back(&kept.called, &kept.values, cotangent).map_err(|signal| {
                failed = Some(signal);
                unknown()
            })
        });
        match failed {
            Some(signal) => Err(signal),
            None => self.settle_problem(found, span),
        }
    }

    /// Returns the tangents of the result: the transpose of the rule, which is linear in the cotangent, at those of the arguments.
    fn transposed(
        &mut self,
        called: &Called,
        values: &[Value],
        result: &Value,
        tangents: Vec<Option<Value>>,
    ) -> Eval<Vec<Value>> {
        self.interp.tracing += 1;
        let level = self.interp.tracing;
        let (tape, mut nodes) = (Arc::new(Tape::default()), vec![]);
        let cotangent = grad::wrapped(result.clone(), &mut |leaf| {
            let plain = grad::primal(&leaf);
            let ones = grad::repeated(1.0, grad::numbers(&plain)?.len());
            let (value, node) = tape.leaf(grad::of_numbers(&plain, &ones, None)?, level)?;
            nodes.push(node);
            Ok(value)
        });
        let found = self.settle_problem(cotangent, called.span).and_then(|cotangent| {
            let found = self.back(called, values, cotangent)?;
            let seeds = found.iter().zip(&tangents).filter_map(|(found, tangent)| {
                let node = grad::links(found, level).1?.node()?;
                Some((node, tangent.clone()?))
            });
            let seeds = seeds.collect();
            let along = self.pulled(&tape, seeds, &nodes, called.span)?;
            let linear = self.settle_problem(is_linear(&found, &tangents, &along), called.span)?;
            match linear {
                true => Ok(along),
                false => {
                    let problem = Problem::new("E0722", "a stated derivative has no forward mode")
                        .label("this rule is not linear in the cotangent")
                        .note("forward mode is the transpose of the rule, which only a linear one has");
                    Err(self.problem(problem, called.rule.back.span))
                }
            }
        });
        self.interp.tracing -= 1;
        found
    }

    /// Judges the rule by differences of the function.
    fn judged(
        &mut self,
        called: &Arc<Called>,
        values: &[Value],
        result: &Value,
        link: &Link,
        active: &[bool],
    ) -> Outcome<()> {
        let machine = RefCell::new(self);
        let plain = |signal: Signal| match signal {
            Signal::Error(error) => Problem::new(error.code, error.title.clone()),
            _ => unknown(),
        };
        let results = grad::leaves(result);
        let again = |leaves: Vec<Value>| {
            let values = called.with_leaves(values, leaves)?;
            let result = machine.borrow_mut().stated_at(called, values).map_err(plain)?;
            Ok(grad::leaves(&result))
        };
        let forward = |tangents: &[Option<Value>]| {
            machine.borrow_mut().transposed(called, values, result, tangents.to_vec()).map_err(plain)
        };
        let reverse = |adjoints: &[Value]| {
            let mut adjoints = adjoints.iter().cloned();
            let cotangent = grad::wrapped(result.clone(), &mut |leaf| Ok(adjoints.next().unwrap_or(leaf)))?;
            machine.borrow_mut().back(called, values, cotangent).map_err(plain)
        };
        let args = called.leaves(values);
        grad::judged_rule(link, (&args, active, &results), &again, &forward, &reverse)
    }
}

/// Whether a rule may be linear in the cotangent: applied to ones and weighted by tangents, it is what its transpose gives of these.
fn is_linear(found: &[Value], tangents: &[Option<Value>], along: &[Value]) -> Outcome<bool> {
    let (mut sum, mut size) = (0.0, 0.0);
    for (found, tangent) in found.iter().zip(tangents) {
        let Some(tangent) = tangent else { continue };
        let (found, tangent) = (grad::numbers(&grad::primal(found))?, grad::numbers(&grad::primal(tangent))?);
        sum += grad::dot(&found, &tangent);
        size += grad::size(&found, &tangent);
    }
    for along in along {
        let along = grad::numbers(&grad::primal(along))?;
        sum -= along.iter().sum::<f64>();
        size += along.iter().map(|x| x.abs()).sum::<f64>();
    }
    // Types of 16 bits round the most. What is not finite says nothing.
    Ok(sum.abs() <= 0.05 * size || !sum.is_finite())
}

fn unknown() -> Problem {
    Problem::new("E0999", "internal error: a rule that is not known")
}
