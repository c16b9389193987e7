//! Computes directional derivatives of a [`GradcheckFunction`] in forward mode, in reverse mode and by finite
//! differences. The directions are pseudo-random, and the same in every execution. If a direction crosses a kink (a
//! point without a derivative), it is tried again without the inputs at the kink.

use std::ops::Range;

use crate::grad::{self, AuditTarget, DifferenceSteps, Slope};
use clk_base::alloc;
use clk_base::source::Span;

use super::context::{Eval, Signal};
use super::gradcheck_function::GradcheckFunction;

/// Number of directions for each parameter. Each round uses one direction for each parameter, and one cotangent.
pub(super) const ROUNDS: usize = 3;

/// Maximum number of directions in the search for inputs at kinks.
const MAX_KINK_SEARCHES: u32 = 100;

/// The directions and cotangents of a gradient check.
pub(super) struct GradcheckPlan {
    /// For each parameter: its range in the flat vector of all inputs.
    pub params: Vec<Range<usize>>,
    /// For each round: the weights of the function's results.
    cotangents: Vec<Vec<f64>>,
    /// For each round: a direction whose components have equal magnitude within a parameter. `relative` has components
    /// proportional to the inputs instead.
    even: Vec<Vec<f64>>,
    relative: Vec<Vec<f64>>,
}

/// Precision of a function's arithmetic (`epsilon`), and tolerance for its derivatives.
#[derive(Clone, Copy)]
pub(super) struct DifferencePrecision {
    pub epsilon: f64,
    /// Relative tolerance of a derivative.
    pub tolerance: f64,
}

/// The derivative along one direction, computed by finite differences and in both modes of differentiation.
pub(super) struct DirectionalDerivative {
    /// The index of the parameter in `wrt`, the list of differentiated parameters.
    pub param: usize,
    pub round: usize,
    pub direction: Vec<f64>,
    pub cotangent: Vec<f64>,
    pub slope: Slope,
    /// Magnitude of the numbers that the function adds, even if they cancel: see [`DirectionalFunction::magnitude`].
    pub size: f64,
    /// Number of inputs of the parameter that are left out because they are at kinks.
    pub left_out: usize,
    pub modes: DerivativeModes,
    /// If the function does not support forward mode: the location and the reason.
    pub refused: Option<(Span, String)>,
}

/// The derivative along a direction in forward and reverse mode. `scale` is the sum of the magnitudes of the terms of
/// the reverse-mode derivative (gradient times direction).
#[derive(Clone, Copy)]
pub(super) struct DerivativeModes {
    /// `None` if the function does not support forward mode.
    pub forward: Option<f64>,
    pub reverse: f64,
    pub scale: f64,
}

impl DerivativeModes {
    /// Returns the derivatives in reverse and forward mode.
    pub fn values(self) -> impl Iterator<Item = f64> {
        std::iter::once(self.reverse).chain(self.forward)
    }
}

impl GradcheckPlan {
    pub fn new(subject: &mut GradcheckFunction<'_>) -> Eval<GradcheckPlan> {
        let (point, params, results) = subject.run_primal()?;
        let count = subject.flatten_all(&results)?.len();
        let seeds = 0..ROUNDS as u64;
        let mut plan = GradcheckPlan { params, cotangents: vec![], even: vec![], relative: vec![] };
        for seed in seeds {
            let cotangent = grad::random_like(&grad::repeat_number(1.0, count), 3 * seed);
            plan.cotangents.push(subject.round_to_types(&results, &cotangent)?);
            let (mut even, mut relative) = (vec![], vec![]);
            for range in &plan.params {
                let own = &point[range.clone()];
                let mean = own.iter().map(|x| x.abs()).sum::<f64>() / own.len().max(1) as f64;
                let size = if mean > 0.0 && mean.is_finite() { mean } else { 1.0 };
                let seed = 3 * (seed + 7 * range.start as u64);
                alloc::append(&mut even, &grad::random_like(&grad::repeat_number(size, own.len()), seed + 1));
                alloc::append(&mut relative, &grad::random_like(own, seed + 2));
            }
            let leaves = subject.input_leaves();
            plan.even.push(subject.round_to_types(&leaves, &even)?);
            plan.relative.push(subject.round_to_types(&leaves, &relative)?);
        }
        Ok(plan)
    }

    fn direction(&self, of: &[f64], param: usize) -> Vec<f64> {
        let range = &self.params[param];
        let own = of.iter().enumerate().map(|(at, &v)| if range.contains(&at) { v } else { 0.0 });
        alloc::collect(of.len(), own)
    }
}

/// Computes the derivatives along all directions of a plan, by finite differences and in both modes.
pub(super) fn measure(
    subject: &mut GradcheckFunction<'_>,
    plan: &GradcheckPlan,
    way: DifferencePrecision,
) -> Eval<Vec<DirectionalDerivative>> {
    let (_, _, results) = subject.run_primal()?;
    let base = subject.flatten_all(&results)?;
    let gradients = subject.reverse_mode(&plan.cotangents)?;
    let mut all = vec![];
    for (round, gradient) in gradients.iter().enumerate() {
        for param in 0..plan.params.len() {
            let cotangent = &plan.cotangents[round];
            let mut function = DirectionalFunction {
                subject,
                precision: way,
                base: &base,
                gradient,
                cotangent,
                size: None,
                tries: MAX_KINK_SEARCHES,
            };
            let relative = plan.direction(&plan.relative[round], param);
            let even = plan.direction(&plan.even[round], param);
            // The direction of the first round has components of equal magnitude. If the function is not smooth along
            // it, for example because it leaves the function's domain, the relative direction is used.
            let mut direction = if round == 0 { even } else { relative.clone() };
            let mut slope = function.slope(&direction)?;
            if round == 0 && !is_smooth(slope) {
                direction = relative;
                slope = function.slope(&direction)?;
            }
            let mut left_out = 0;
            if !is_smooth(slope) {
                let support = nonzero_positions(&direction);
                let free = function.smooth_positions(&direction, &support)?;
                let narrowed = restrict_to(&direction, &free);
                if !free.is_empty() {
                    let narrowed_slope = function.slope(&narrowed)?;
                    if is_smooth(narrowed_slope) {
                        (slope, direction, left_out) = (narrowed_slope, narrowed, support.len() - free.len());
                    }
                }
            }
            let size = function.magnitude(&direction)?;
            let (modes, refused) = both_modes(subject, gradient, cotangent, &direction)?;
            let cotangent = cotangent.clone();
            all.push(DirectionalDerivative {
                param,
                round,
                direction,
                cotangent,
                slope,
                size,
                left_out,
                modes,
                refused,
            });
        }
    }
    Ok(all)
}

/// Computes the derivatives of a function in both modes, along the directions and cotangents in `measured`.
pub(super) fn recompute_modes(
    subject: &mut GradcheckFunction<'_>,
    measured: &[DirectionalDerivative],
) -> Eval<Vec<DerivativeModes>> {
    let mut cotangents: Vec<Vec<f64>> = vec![];
    for of in measured.iter().filter(|of| of.param == 0) {
        cotangents.push(of.cotangent.clone());
    }
    let gradients = subject.reverse_mode(&cotangents)?;
    let one = |of: &DirectionalDerivative| {
        both_modes(subject, &gradients[of.round], &of.cotangent, &of.direction).map(|(modes, _)| modes)
    };
    measured.iter().map(one).collect()
}

fn both_modes(
    subject: &mut GradcheckFunction<'_>,
    gradient: &[f64],
    cotangent: &[f64],
    direction: &[f64],
) -> Eval<(DerivativeModes, Option<(Span, String)>)> {
    let (forward, refused) = match subject.forward_mode(direction) {
        Ok(tangent) => (Some(grad::dot(cotangent, &tangent)), None),
        // A custom VJP may have no forward mode.
        Err(Signal::Error(error)) if error.code != "E0999" => {
            (None, Some((error.primary().unwrap_or(subject.span), error.title.clone())))
        }
        Err(other) => return Err(other),
    };
    let (reverse, scale) = (grad::dot(gradient, direction), grad::dot_magnitude(gradient, direction));
    Ok((DerivativeModes { forward, reverse, scale }, refused))
}

/// Finds an input element for which reverse mode disagrees with finite differences, by bisection. Returns its position,
/// its derivative in reverse mode, and its derivative by finite differences.
pub(super) fn worst_number(
    subject: &mut GradcheckFunction<'_>,
    measured: &DirectionalDerivative,
    way: DifferencePrecision,
) -> Eval<Option<(usize, f64, f64)>> {
    let (_, _, results) = subject.run_primal()?;
    let base = subject.flatten_all(&results)?;
    let gradients = subject.reverse_mode(std::slice::from_ref(&measured.cotangent))?;
    let Some(gradient) = gradients.first() else { return Ok(None) };
    let cotangent = &measured.cotangent;
    let mut function = DirectionalFunction {
        subject,
        precision: way,
        base: &base,
        gradient,
        cotangent,
        size: None,
        tries: MAX_KINK_SEARCHES,
    };
    let mut support = nonzero_positions(&measured.direction);
    while support.len() > 1 {
        let (left, right) = support.split_at(support.len() / 2);
        let mut off = vec![];
        for half in [left, right] {
            let direction = restrict_to(&measured.direction, half);
            let Slope::Smooth { value, .. } = function.slope(&direction)? else { return Ok(None) };
            off.push((grad::dot(gradient, &direction) - value).abs());
        }
        support = if off[0] >= off[1] { left.to_vec() } else { right.to_vec() };
    }
    let Some(&at) = support.first() else { return Ok(None) };
    let slope = function.slope(&restrict_to(&measured.direction, &support))?;
    let size = measured.direction[at];
    Ok(match slope {
        Slope::Smooth { value, noise } if (gradient[at] * size - value).abs() > way.tolerance * value.abs() + noise => {
            Some((at, gradient[at], value / size))
        }
        _ => None,
    })
}

/// Returns the source location and description of an operation that is at a kink, if one is found.
pub(super) fn find_kink(subject: &mut GradcheckFunction<'_>) -> Option<(Span, String)> {
    subject.locate(AuditTarget::Kinks)
}

pub(super) fn is_smooth(slope: Slope) -> bool {
    matches!(slope, Slope::Smooth { .. })
}

/// Returns the positions of nonzero numbers.
fn nonzero_positions(direction: &[f64]) -> Vec<usize> {
    let count = direction.iter().filter(|number| **number != 0.0).count();
    alloc::collect(count, (0..direction.len()).filter(|&at| direction[at] != 0.0))
}

fn restrict_to(direction: &[f64], support: &[usize]) -> Vec<f64> {
    let mut part: Vec<f64> = alloc::zeros(direction.len());
    for &at in support {
        part[at] = direction[at];
    }
    part
}

/// A function of one variable: the step along a direction. Its value is the sum of the function's results, weighted by
/// a cotangent.
struct DirectionalFunction<'s, 'm> {
    subject: &'s mut GradcheckFunction<'m>,
    precision: DifferencePrecision,
    base: &'s [f64],
    gradient: &'s [f64],
    cotangent: &'s [f64],
    size: Option<f64>,
    /// Number of directions that may still be tried in the search for kinks.
    tries: u32,
}

impl DirectionalFunction<'_, '_> {
    /// Returns the magnitude of the function's results, or of larger intermediate numbers that cancel, as in
    /// `sum(x - mean(x))`. To estimate the latter, displaces the inputs by a few ULPs. The results then change by the
    /// rounding errors of the intermediate numbers, which are proportional to their magnitude.
    fn magnitude(&mut self, direction: &[f64]) -> Eval<f64> {
        /// Maximum ratio of the estimate to the magnitudes of arguments and results. A larger estimate is ignored,
        /// because it indicates a jump of the function.
        const MOST: f64 = 1e6;
        if let Some(size) = self.size {
            return Ok(size);
        }
        let results = grad::dot_magnitude(self.cotangent, self.base);
        let mut rounding = 0f64;
        for units in [2.0, -3.0, 5.0] {
            match self.subject.eval_displaced(direction, units * self.precision.epsilon) {
                Ok(there) if there.len() == self.base.len() => {
                    let change: Vec<f64> = there.iter().zip(self.base).map(|(new, old)| new - old).collect();
                    rounding = rounding.max(grad::dot_magnitude(self.cotangent, &change));
                }
                Ok(_) | Err(Signal::Error(_)) => {}
                Err(other) => return Err(other),
            }
        }
        let largest = direction.iter().fold(results, |largest, part| largest.max(part.abs()));
        let cancelled = rounding / self.precision.epsilon;
        let size = if cancelled <= MOST * largest { results.max(cancelled) } else { results };
        self.size = Some(size);
        Ok(size)
    }

    fn slope(&mut self, direction: &[f64]) -> Eval<Slope> {
        let scale = grad::dot_magnitude(self.gradient, direction);
        let size = self.magnitude(direction)?;
        if !size.is_finite() {
            return Ok(Slope::Outside);
        }
        let scale = if scale.is_finite() { scale } else { 0.0 };
        let steps =
            DifferenceSteps { epsilon: self.precision.epsilon, tolerance: self.precision.tolerance, scale, size };
        steps.slope(|by| match self.subject.eval_displaced(direction, by) {
            Ok(there) if there.len() != self.base.len() => Ok(None),
            Ok(there) => {
                let changes = there.iter().zip(self.base).zip(self.cotangent);
                Ok(Some(changes.map(|((new, old), weight)| weight * (new - old)).sum()))
            }
            // The function may fail at the displaced arguments, for example by an assertion.
            Err(Signal::Error(_)) => Ok(None),
            Err(other) => Err(other),
        })
    }

    /// Returns the positions in `support` of inputs that are not at kinks. Searches by bisection, and leaves out the
    /// rest when `tries` is used up.
    fn smooth_positions(&mut self, direction: &[f64], support: &[usize]) -> Eval<Vec<usize>> {
        if support.is_empty() || self.tries == 0 {
            return Ok(vec![]);
        }
        self.tries -= 1;
        if is_smooth(self.slope(&restrict_to(direction, support))?) {
            return Ok(support.to_vec());
        }
        if support.len() == 1 {
            return Ok(vec![]);
        }
        let (left, right) = support.split_at(support.len() / 2);
        Ok([self.smooth_positions(direction, left)?, self.smooth_positions(direction, right)?].concat())
    }
}
