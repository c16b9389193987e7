//! Numerical differentiation of a function of one variable at 0, including the detection of kinks.
//!
//! Central differences with steps `h` and `h / 2` are combined such that the error term in `h * h` cancels (Richardson
//! extrapolation). The one-sided differences of a smooth function deviate by `h` times the curvature. This term also
//! cancels between the two steps; a large remainder indicates a kink.

/// The result of numerical differentiation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Slope {
    /// The derivative, and a bound for its error (`noise`).
    Smooth { value: f64, noise: f64 },
    /// The derivative does not exist: the one-sided slopes, or the slopes for two step sizes, differ even for small
    /// steps.
    Kink,
    /// The function is not finite on both sides of 0, even for small steps.
    Outside,
}

/// The parameters of numerical differentiation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DifferenceSteps {
    /// Relative precision of the function's values.
    pub epsilon: f64,
    /// Relative tolerance: differences below this fraction of `scale` are negligible.
    pub tolerance: f64,
    /// The sum of the magnitudes of the derivative's terms.
    pub scale: f64,
    /// The sum of the magnitudes of the function's terms.
    pub size: f64,
}

/// The result of numerical differentiation with a step and half of that step.
struct DifferencePair {
    value: f64,
    /// The difference of the one-sided slopes after the curvature has been cancelled. Without a kink, only rounding
    /// errors remain.
    kink: f64,
    apart: f64,
}

impl DifferenceSteps {
    /// Returns the slope of a function at 0. `f` returns the change of the function's value between 0 and a step, or
    /// `None` if the function is not defined or not finite there.
    pub fn slope<E>(&self, mut f: impl FnMut(f64) -> Result<Option<f64>, E>) -> Result<Slope, E> {
        let mut found = Slope::Outside;
        let first = self.epsilon.powf(0.2);
        // Large steps are tried too, because they help for functions whose values lose many digits.
        let sizes: &[i32] = if self.epsilon < 1e-12 { &[0, -1, -2, -3, 1] } else { &[0, -1] };
        for size in sizes {
            let h = first * 16f64.powi(*size);
            let Some(pair) = difference_pair(&mut f, h)? else { continue };
            found = Slope::Kink;
            if !self.is_smooth(&pair, h) {
                continue;
            }
            // The deviation for another step size estimates the remaining error.
            let smaller = 0.37 * h;
            let Some(other) = self::difference_pair(&mut f, smaller)? else { continue };
            if self.is_smooth(&other, smaller) {
                let noise = self.noise(h) + 4.0 * ((pair.value - other.value).abs() + pair.kink);
                return Ok(Slope::Smooth { value: pair.value, noise });
            }
        }
        Ok(found)
    }

    /// Returns a bound for the rounding error of a slope that is computed with the step `h`.
    fn noise(&self, h: f64) -> f64 {
        32.0 * self.epsilon * self.size / h
    }

    fn is_smooth(&self, pair: &DifferencePair, h: f64) -> bool {
        let scale = self.scale + pair.value.abs();
        pair.kink <= 0.5 * self.tolerance * scale + 4.0 * self.noise(h)
            && pair.apart <= 0.1 * self.tolerance.sqrt() * scale + self.noise(h)
    }
}

fn difference_pair<E>(f: &mut impl FnMut(f64) -> Result<Option<f64>, E>, h: f64) -> Result<Option<DifferencePair>, E> {
    let mut at = |t: f64| f(t).map(|change| change.filter(|change| change.is_finite()));
    let (Some(right), Some(left)) = (at(h)?, at(-h)?) else { return Ok(None) };
    let (Some(near_right), Some(near_left)) = (at(h / 2.0)?, at(-h / 2.0)?) else { return Ok(None) };
    let (wide, narrow) = ((right - left) / (2.0 * h), (near_right - near_left) / h);
    let (bend, near_bend) = ((right + left) / h, (near_right + near_left) / (h / 2.0));
    let (value, kink) = ((4.0 * narrow - wide) / 3.0, (2.0 * near_bend - bend).abs());
    Ok(Some(DifferencePair { value, kink, apart: (wide - narrow).abs() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slope(f: impl Fn(f64) -> f64) -> Slope {
        let steps = DifferenceSteps { epsilon: f64::EPSILON, tolerance: 1e-6, scale: 0.0, size: f(0.0).abs() + 1.0 };
        let Ok(slope) = steps.slope(|t| Ok::<_, ()>(Some(f(t) - f(0.0)))) else { return Slope::Outside };
        slope
    }

    fn is_about(slope: Slope, wanted: f64) -> bool {
        matches!(slope, Slope::Smooth { value, .. } if (value - wanted).abs() <= 1e-8 * wanted.abs().max(1.0))
    }

    #[test]
    fn smooth_functions_have_derivatives() {
        assert!(is_about(slope(|t| (1.0 + t).exp()), 1f64.exp()));
        assert!(is_about(slope(|t| (100.0 * t).sin()), 100.0), "{:?}", slope(|t| (100.0 * t).sin()));
        assert!(is_about(slope(|t| 1.0 / (1e-3 + t)), -1e6), "{:?}", slope(|t| 1.0 / (1e-3 + t)));
        assert!(is_about(slope(|t| (t - 1e-4).abs()), -1.0));
        assert!(is_about(slope(|_| 3.0), 0.0));
    }

    #[test]
    fn cancellation_is_treated_as_noise() {
        let x = 1e-5;
        let Slope::Smooth { value, noise } = slope(|t| ((1.0 + (x + 0.7 * x * t)) - 1.0).ln()) else {
            panic!("smooth")
        };
        assert!((value - 0.7).abs() <= noise && noise < 1e-3, "{value} {noise}");
    }

    #[test]
    fn kinks_jumps_and_limits_have_no_derivative() {
        assert_eq!(slope(f64::abs), Slope::Kink);
        assert_eq!(slope(|t| 5.0 * t + 1e-3 * t.max(0.0)), Slope::Kink);
        assert_eq!(slope(|t| (1e9 + t).floor() + t), Slope::Kink);
        assert_eq!(slope(f64::sqrt), Slope::Outside);
        assert_eq!(slope(f64::cbrt), Slope::Kink);
    }
}
