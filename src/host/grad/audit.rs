//! Judges the derivative of each operation where it is done: forward and reverse rule against differences of the operation alone.
//!
//! In: an operation on values linked to an [`Auditor`]. Out: the problem of the first whose rule is wrong, or whose operands are where
//! it has no derivative, which the interpreter shows at its line.

use std::sync::Arc;

use super::apply::{apply, tangent};
use super::deed::Deed;
use super::form::Form;
use super::kernel::Launch;
use super::launch::{forward, launched, parts as launch_parts};
use super::numbers::{dot, numbers, of_numbers, random_like, repeated, size};
use super::pull::{Part, parts};
use super::slope::{Slope, Steps};
use super::tape::{Auditor, Finds, Judge, Operand, Step};
use super::wrap::links;
use crate::base::room;
use crate::host::ops;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Link, Value};

/// The part of a derivative that may be wrong.
const TOLERANCE: f64 = 1e-6;

/// Returns what judges operations on `f64`: finds the first whose rule is wrong, or the first without a derivative where it is done.
pub(crate) fn auditor(finds: Finds) -> Arc<Auditor> {
    Arc::new(Auditor(Box::new(finds)))
}

/// Parts of adjoints, by the position of the operand.
type Parts = Outcome<Vec<(usize, Part)>>;

/// An operation in all ways in which it is done.
struct Done<'d> {
    args: &'d [Value],
    active: &'d [bool],
    results: &'d [Value],
    again: &'d dyn Fn(Vec<Value>) -> Outcome<Vec<Value>>,
    forward: &'d dyn Fn(&[Option<Value>]) -> Outcome<Vec<Value>>,
    reverse: &'d dyn Fn(&Step, &[Value]) -> Parts,
}

impl Judge for Finds {
    fn finds(&self) -> Finds {
        *self
    }

    fn deed(&self, deed: &Deed, args: &[Value], active: &[bool], result: &Value) -> Outcome<()> {
        let one = |adjoints: &[Value]| adjoints.first().cloned().unwrap_or(Value::Unit);
        judged(
            *self,
            &Done {
                args,
                active,
                results: std::slice::from_ref(result),
                again: &|args| apply(deed, args).map(|result| vec![result]),
                forward: &|tangents| tangent(deed, args, result, tangents).map(|tangent| vec![tangent]),
                reverse: &|step, adjoints| parts(deed, step, one(adjoints), None),
            },
        )
    }

    fn launch(&self, launch: &Launch, args: &[Value], active: &[bool]) -> Outcome<()> {
        let results = launched(launch, args.to_vec())?;
        let along = |tangents: &[Option<Value>]| {
            let found = forward(launch, args.to_vec(), tangents, 1)?;
            let tangent = |result: Value| match links(&result, 1) {
                (_, Some(Link::Tangent(tangent))) => tangent,
                (value, _) => value,
            };
            Ok(found.into_iter().map(tangent).collect())
        };
        let back =
            |step: &Step, adjoints: &[Value]| launch_parts(launch, step, adjoints.iter().cloned().map(Some).collect());
        let again = |args: Vec<Value>| launched(launch, args);
        judged(*self, &Done { args, active, results: &results, again: &again, forward: &along, reverse: &back })
    }
}

/// The values of an operation: its operands, which of them have a derivative, and its results.
type Values<'v> = (&'v [Value], &'v [bool], &'v [Value]);

/// Judges a function whose derivative is stated, as the auditor does that its operands are linked to.
pub(crate) fn judged_rule(
    link: &Link,
    (args, active, results): Values<'_>,
    again: &dyn Fn(Vec<Value>) -> Outcome<Vec<Value>>,
    forward: &dyn Fn(&[Option<Value>]) -> Outcome<Vec<Value>>,
    back: &dyn Fn(&[Value]) -> Outcome<Vec<Value>>,
) -> Outcome<()> {
    let Some((auditor, _)) = Auditor::of(&[Some(link.clone())]) else { return Ok(()) };
    let reverse = |_: &Step, adjoints: &[Value]| Ok(back(adjoints)?.into_iter().map(Part::Whole).enumerate().collect());
    let finds = auditor.0.finds();
    let judged = judged(finds, &Done { args, active, results, again, forward, reverse: &reverse });
    judged.map_err(|problem| match finds {
        Finds::Wrong if problem.code == "E0721" => problem.label("the rule that is stated here is wrong"),
        _ => problem,
    })
}

fn judged(finds: Finds, done: &Done<'_>) -> Outcome<()> {
    // What gives integers, too, is judged as a whole only.
    if done.results.iter().any(|result| Form::of(result).is_none()) {
        return Ok(());
    }
    let (mut directions, mut tangents) = (vec![], vec![]);
    for (at, (arg, active)) in done.args.iter().zip(done.active).enumerate() {
        let direction = if *active { random_like(&numbers(arg)?, at as u64 + 1) } else { vec![] };
        tangents.push(active.then(|| of_numbers(arg, &direction, None)).transpose()?);
        directions.push(direction);
    }
    let values = all_numbers(done.results)?;
    let weights = random_like(&repeated(1.0, values.len()), 97);
    // A stated derivative may have no forward mode.
    let forward = (done.forward)(&tangents).and_then(|tangents| all_numbers(&tangents)).ok();
    let forward = forward.map(|tangents| dot(&weights, &tangents));
    let (reverse, scale) = pulled(done, &weights, &directions)?;
    let steps = Steps {
        epsilon: f64::EPSILON,
        tolerance: TOLERANCE,
        scale: scale + forward.unwrap_or(0.0).abs(),
        size: size(&weights, &values),
    };
    let found = steps.slope(|t| {
        let moved = done.args.iter().zip(&directions).zip(done.active);
        let args = moved.map(|((arg, direction), active)| match active {
            true => {
                let there: Vec<f64> = numbers(arg)?.iter().zip(direction).map(|(x, v)| x + t * v).collect();
                of_numbers(arg, &there, None)
            }
            false => Ok(arg.clone()),
        });
        let args = args.collect::<Outcome<Vec<Value>>>()?;
        let Ok(results) = (done.again)(args) else { return Ok(None) };
        let change: f64 =
            all_numbers(&results)?.iter().zip(&values).zip(&weights).map(|((new, old), u)| u * (new - old)).sum();
        Ok::<_, Problem>(Some(change))
    })?;
    match (finds, found) {
        (Finds::Wrong, Slope::Smooth { value, noise }) => {
            let within = TOLERANCE * (scale + value.abs()) + noise;
            let is_right = |found: f64| (found - value).abs() <= within;
            let says = match (forward.is_none_or(is_right), is_right(reverse)) {
                (true, true) => return Ok(()),
                (true, _) => "the rule of reverse mode is wrong here",
                (_, true) => "the rule of forward mode is wrong here",
                _ => "the derivative of this is wrong",
            };
            Err(Problem::new("E0721", says).label(says))
        }
        (Finds::Kinks, Slope::Kink | Slope::Outside) => {
            Err(Problem::new("E0721", "no derivative").label("this has no derivative there"))
        }
        _ => Ok(()),
    }
}

fn all_numbers(values: &[Value]) -> Outcome<Vec<f64>> {
    let mut all = vec![];
    for value in values {
        room::append(&mut all, &numbers(value)?);
    }
    Ok(all)
}

/// Returns the derivative along directions in reverse mode, and the size of what adds up to it.
fn pulled(done: &Done<'_>, weights: &[f64], directions: &[Vec<f64>]) -> Outcome<(f64, f64)> {
    let mut left = weights;
    let mut adjoints = vec![];
    for result in done.results {
        let (own, others) = left.split_at(numbers(result)?.len().min(left.len()));
        adjoints.push(of_numbers(result, own, None)?);
        left = others;
    }
    let operand = |(arg, active): (&Value, &bool)| Operand {
        node: active.then_some(0),
        value: Some(arg.clone()),
        form: Form::of(arg),
    };
    let operands = done.args.iter().zip(done.active).map(operand).collect();
    let result = done.results.first().cloned();
    let form = result.as_ref().and_then(Form::of).ok_or_else(|| Problem::new("E0720", "the result is no float"))?;
    let step = Step { deed: None, operands, result, form };
    let (mut sum, mut scale) = (0.0, 0.0);
    for (at, part) in (done.reverse)(&step, &adjoints)? {
        if !done.active[at] {
            continue;
        }
        let whole = of_numbers(&done.args[at], &directions[at], None)?;
        let (part, along) = match part {
            Part::Whole(value) => (value, whole),
            Part::At(specs, value) => (value, ops::index(&whole, &specs)?),
        };
        let Some(form) = Form::of(&along) else { continue };
        let (part, along) = (numbers(&form.expanded(part)?)?, numbers(&along)?);
        sum += dot(&part, &along);
        scale += size(&part, &along);
    }
    Ok((sum, scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::ops::{BinaryOp, MathFn};

    fn array(numbers: &[f64]) -> Value {
        Value::Array(crate::host::array::Array::from_items(numbers).expect("an array"))
    }

    /// Judges an operation whose modes give `forward` and `reverse` times what is right.
    fn judge(deed: &Deed, args: &[Value], (forward, reverse): (f64, f64), finds: Finds) -> Outcome<()> {
        let times = |value: &Value, by: f64| ops::binary(BinaryOp::Mul, value, &Value::of(by));
        let result = apply(deed, args.to_vec())?;
        judged(
            finds,
            &Done {
                args,
                active: &vec![true; args.len()],
                results: std::slice::from_ref(&result),
                again: &|args| apply(deed, args).map(|result| vec![result]),
                forward: &|tangents| Ok(vec![times(&tangent(deed, args, &result, tangents)?, forward)?]),
                reverse: &|step, adjoints| parts(deed, step, times(&adjoints[0], reverse)?, None),
            },
        )
    }

    #[test]
    fn wrong_rules_are_found_in_each_mode() {
        let (x, y) = (array(&[0.5, 2.0, -1.0]), array(&[3.0, 0.25, 1.5]));
        let deeds = [
            (Deed::Binary(BinaryOp::Mul), vec![x.clone(), y.clone()]),
            (Deed::Math(MathFn::Sin), vec![x.clone()]),
            (Deed::Flip(0), vec![x.clone()]),
            (Deed::Index(vec![crate::host::array::SliceSpec::At(1)]), vec![x.clone()]),
            (Deed::Concat(0), vec![x.clone(), y]),
        ];
        for (deed, args) in deeds {
            let says = |factors| judge(&deed, &args, factors, Finds::Wrong).map_err(|problem| problem.title);
            assert_eq!(says((1.0, 1.0)), Ok(()), "{deed:?}");
            let text = |text: &str| Err(text.to_string());
            assert_eq!(says((1.0, 1.00001)), text("the rule of reverse mode is wrong here"), "{deed:?}");
            assert_eq!(says((0.5, 1.0)), text("the rule of forward mode is wrong here"), "{deed:?}");
            assert_eq!(says((2.0, 2.0)), text("the derivative of this is wrong"), "{deed:?}");
            assert_eq!(judge(&deed, &args, (1.0, 1.0), Finds::Kinks), Ok(()), "{deed:?}");
        }
        let kink = judge(&Deed::Math(MathFn::Abs), &[array(&[0.0, 1.0])], (1.0, 1.0), Finds::Kinks);
        assert_eq!(kink.map_err(|problem| problem.label), Err("this has no derivative there".to_string()));
    }
}
