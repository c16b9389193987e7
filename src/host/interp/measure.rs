//! What forward mode, reverse mode and differences say of the derivative of a [`Subject`], along random directions that are always the
//! same. A direction that meets a kink is tried again without the numbers that are at it.

use std::ops::Range;

use crate::base::room;
use crate::base::source::Span;
use crate::host::grad::{self, Finds, Slope, Steps};

use super::machine::{Eval, Signal};
use super::subject::Subject;

/// Directions by each parameter.
pub(super) const ROUNDS: usize = 3;

/// How many directions are tried to leave out numbers at kinks.
const TRIES: u32 = 100;

/// What a derivative is measured along.
pub(super) struct Plan {
    /// The numbers of each parameter among all.
    pub params: Vec<Range<usize>>,
    /// By round.
    cotangents: Vec<Vec<f64>>,
    /// By round, of all parameters: of one size, and relative to the numbers.
    even: Vec<Vec<f64>>,
    relative: Vec<Vec<f64>>,
}

/// How precise a function is.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub epsilon: f64,
    /// The part of a derivative that may differ.
    pub tolerance: f64,
}

/// What is said of the derivative along one direction.
pub(super) struct Measured {
    /// The position in `wrt`.
    pub param: usize,
    pub round: usize,
    pub direction: Vec<f64>,
    pub cotangent: Vec<f64>,
    pub slope: Slope,
    /// The size of the numbers that the function adds up and cancels: see [`Along::size`].
    pub size: f64,
    /// How many numbers of the parameter are left out, being at kinks.
    pub left_out: usize,
    pub modes: Modes,
    /// Why forward mode is refused, and where.
    pub refused: Option<(Span, String)>,
}

/// What forward and reverse mode say, and the size of what adds up to it.
#[derive(Clone, Copy)]
pub(super) struct Modes {
    /// None if it is refused.
    pub forward: Option<f64>,
    pub reverse: f64,
    pub scale: f64,
}

impl Modes {
    /// Returns what is said, in reverse and in forward mode.
    pub fn all(self) -> impl Iterator<Item = f64> {
        std::iter::once(self.reverse).chain(self.forward)
    }
}

impl Plan {
    pub fn new(subject: &mut Subject<'_>) -> Eval<Plan> {
        let (point, params, results) = subject.begin()?;
        let count = subject.all_numbers(&results)?.len();
        let seeds = 0..ROUNDS as u64;
        let mut plan = Plan { params, cotangents: vec![], even: vec![], relative: vec![] };
        for seed in seeds {
            let cotangent = grad::random_like(&grad::repeated(1.0, count), 3 * seed);
            plan.cotangents.push(subject.rounded(&results, &cotangent)?);
            let (mut even, mut relative) = (vec![], vec![]);
            for range in &plan.params {
                let own = &point[range.clone()];
                let mean = own.iter().map(|x| x.abs()).sum::<f64>() / own.len().max(1) as f64;
                let size = if mean > 0.0 && mean.is_finite() { mean } else { 1.0 };
                let seed = 3 * (seed + 7 * range.start as u64);
                room::append(&mut even, &grad::random_like(&grad::repeated(size, own.len()), seed + 1));
                room::append(&mut relative, &grad::random_like(own, seed + 2));
            }
            let leaves = subject.leaves();
            plan.even.push(subject.rounded(&leaves, &even)?);
            plan.relative.push(subject.rounded(&leaves, &relative)?);
        }
        Ok(plan)
    }

    fn direction(&self, of: &[f64], param: usize) -> Vec<f64> {
        let range = &self.params[param];
        let own = of.iter().enumerate().map(|(at, &v)| if range.contains(&at) { v } else { 0.0 });
        room::collect(of.len(), own)
    }
}

/// Measures along all directions.
pub(super) fn measured(subject: &mut Subject<'_>, plan: &Plan, way: Way) -> Eval<Vec<Measured>> {
    let (_, _, results) = subject.begin()?;
    let base = subject.all_numbers(&results)?;
    let gradients = subject.reverse(&plan.cotangents)?;
    let mut all = vec![];
    for (round, gradient) in gradients.iter().enumerate() {
        for param in 0..plan.params.len() {
            let cotangent = &plan.cotangents[round];
            let mut along = Along { subject, way, base: &base, gradient, cotangent, size: None, tries: TRIES };
            let relative = plan.direction(&plan.relative[round], param);
            let even = plan.direction(&plan.even[round], param);
            // The first direction weighs all numbers alike, unless it leaves the domain of the function.
            let mut direction = if round == 0 { even } else { relative.clone() };
            let mut slope = along.slope(&direction)?;
            if round == 0 && !is_smooth(slope) {
                direction = relative;
                slope = along.slope(&direction)?;
            }
            let mut left_out = 0;
            if !is_smooth(slope) {
                let support = support(&direction);
                let free = along.free(&direction, &support)?;
                let narrowed = restricted(&direction, &free);
                if !free.is_empty() {
                    let found = along.slope(&narrowed)?;
                    if is_smooth(found) {
                        (slope, direction, left_out) = (found, narrowed, support.len() - free.len());
                    }
                }
            }
            let size = along.size(&direction)?;
            let (modes, refused) = modes(subject, gradient, cotangent, &direction)?;
            let cotangent = cotangent.clone();
            all.push(Measured { param, round, direction, cotangent, slope, size, left_out, modes, refused });
        }
    }
    Ok(all)
}

/// Returns what both modes say of the same directions.
pub(super) fn again(subject: &mut Subject<'_>, measured: &[Measured]) -> Eval<Vec<Modes>> {
    let mut cotangents: Vec<Vec<f64>> = vec![];
    for of in measured.iter().filter(|of| of.param == 0) {
        cotangents.push(of.cotangent.clone());
    }
    let gradients = subject.reverse(&cotangents)?;
    let one =
        |of: &Measured| modes(subject, &gradients[of.round], &of.cotangent, &of.direction).map(|(modes, _)| modes);
    measured.iter().map(one).collect()
}

fn modes(
    subject: &mut Subject<'_>,
    gradient: &[f64],
    cotangent: &[f64],
    direction: &[f64],
) -> Eval<(Modes, Option<(Span, String)>)> {
    let (forward, refused) = match subject.forward(direction) {
        Ok(tangent) => (Some(grad::dot(cotangent, &tangent)), None),
        // A rule that is stated may have none.
        Err(Signal::Error(error)) if error.code != "E0999" => {
            (None, Some((error.primary().unwrap_or(subject.span), error.title.clone())))
        }
        Err(other) => return Err(other),
    };
    let (reverse, scale) = (grad::dot(gradient, direction), grad::size(gradient, direction));
    Ok((Modes { forward, reverse, scale }, refused))
}

/// The number at which reverse mode is off the most, what it says of it, and what differences say.
pub(super) fn worst(subject: &mut Subject<'_>, measured: &Measured, way: Way) -> Eval<Option<(usize, f64, f64)>> {
    let (_, _, results) = subject.begin()?;
    let base = subject.all_numbers(&results)?;
    let gradients = subject.reverse(std::slice::from_ref(&measured.cotangent))?;
    let Some(gradient) = gradients.first() else { return Ok(None) };
    let cotangent = &measured.cotangent;
    let mut along = Along { subject, way, base: &base, gradient, cotangent, size: None, tries: TRIES };
    let mut support = support(&measured.direction);
    while support.len() > 1 {
        let (left, right) = support.split_at(support.len() / 2);
        let mut off = vec![];
        for half in [left, right] {
            let direction = restricted(&measured.direction, half);
            let Slope::Smooth { value, .. } = along.slope(&direction)? else { return Ok(None) };
            off.push((grad::dot(gradient, &direction) - value).abs());
        }
        support = if off[0] >= off[1] { left.to_vec() } else { right.to_vec() };
    }
    let Some(&at) = support.first() else { return Ok(None) };
    let slope = along.slope(&restricted(&measured.direction, &support))?;
    let size = measured.direction[at];
    Ok(match slope {
        Slope::Smooth { value, noise } if (gradient[at] * size - value).abs() > way.tolerance * value.abs() + noise => {
            Some((at, gradient[at], value / size))
        }
        _ => None,
    })
}

/// Returns where a function has no derivative, if a line is found.
pub(super) fn kink(subject: &mut Subject<'_>) -> Option<(Span, String)> {
    subject.culprit(Finds::Kinks)
}

pub(super) fn is_smooth(slope: Slope) -> bool {
    matches!(slope, Slope::Smooth { .. })
}

/// Returns the positions of the numbers that are not 0.
fn support(direction: &[f64]) -> Vec<usize> {
    let count = direction.iter().filter(|number| **number != 0.0).count();
    room::collect(count, (0..direction.len()).filter(|&at| direction[at] != 0.0))
}

fn restricted(direction: &[f64], support: &[usize]) -> Vec<f64> {
    let mut part: Vec<f64> = room::zeros(direction.len());
    for &at in support {
        part[at] = direction[at];
    }
    part
}

/// A function seen along directions, weighted by a cotangent.
struct Along<'s, 'm> {
    subject: &'s mut Subject<'m>,
    way: Way,
    base: &'s [f64],
    gradient: &'s [f64],
    cotangent: &'s [f64],
    size: Option<f64>,
    /// Directions that may still be tried.
    tries: u32,
}

impl Along<'_, '_> {
    /// Returns the size of the function: of its results, or of the larger numbers that cancel in them, as in `sum(x - mean(x))`. Steps
    /// of a few units in the last place tell the latter, since the results then change by the rounding errors of these numbers.
    fn size(&mut self, direction: &[f64]) -> Eval<f64> {
        /// A larger ratio of this size to the sizes of arguments and results is a jump.
        const MOST: f64 = 1e6;
        if let Some(size) = self.size {
            return Ok(size);
        }
        let results = grad::size(self.cotangent, self.base);
        let mut rounding = 0f64;
        for units in [2.0, -3.0, 5.0] {
            match self.subject.moved(direction, units * self.way.epsilon) {
                Ok(there) if there.len() == self.base.len() => {
                    let change: Vec<f64> = there.iter().zip(self.base).map(|(new, old)| new - old).collect();
                    rounding = rounding.max(grad::size(self.cotangent, &change));
                }
                Ok(_) | Err(Signal::Error(_)) => {}
                Err(other) => return Err(other),
            }
        }
        let largest = direction.iter().fold(results, |largest, part| largest.max(part.abs()));
        let cancelled = rounding / self.way.epsilon;
        let size = if cancelled <= MOST * largest { results.max(cancelled) } else { results };
        self.size = Some(size);
        Ok(size)
    }

    fn slope(&mut self, direction: &[f64]) -> Eval<Slope> {
        let scale = grad::size(self.gradient, direction);
        let size = self.size(direction)?;
        if !size.is_finite() {
            return Ok(Slope::Outside);
        }
        let scale = if scale.is_finite() { scale } else { 0.0 };
        let steps = Steps { epsilon: self.way.epsilon, tolerance: self.way.tolerance, scale, size };
        steps.slope(|by| match self.subject.moved(direction, by) {
            Ok(there) if there.len() != self.base.len() => Ok(None),
            Ok(there) => {
                let changes = there.iter().zip(self.base).zip(self.cotangent);
                Ok(Some(changes.map(|((new, old), weight)| weight * (new - old)).sum()))
            }
            // What the function asserts may not hold there.
            Err(Signal::Error(_)) => Ok(None),
            Err(other) => Err(other),
        })
    }

    /// Returns the numbers without those at kinks, as far as they are found.
    fn free(&mut self, direction: &[f64], support: &[usize]) -> Eval<Vec<usize>> {
        if support.is_empty() || self.tries == 0 {
            return Ok(vec![]);
        }
        self.tries -= 1;
        if is_smooth(self.slope(&restricted(direction, support))?) {
            return Ok(support.to_vec());
        }
        if support.len() == 1 {
            return Ok(vec![]);
        }
        let (left, right) = support.split_at(support.len() / 2);
        Ok([self.free(direction, left)?, self.free(direction, right)?].concat())
    }
}
