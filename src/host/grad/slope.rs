//! The derivative of a function of one number at 0, by differences, and whether it has one there.
//!
//! # Idea
//! Central differences with steps `h` and `h / 2` give the slope without its error in `h * h` (Richardson). The differences to the right
//! and to the left are apart by `h` times the curvature, which the same two steps cancel: what is left is the bend of a kink.

/// What differences say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Slope {
    /// The derivative, and how far rounding may put it off.
    Smooth { value: f64, noise: f64 },
    /// Left and right, or two steps, disagree however small the step is.
    Kink,
    /// The function has no finite value on both sides, however close.
    Outside,
}

/// How differences are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    /// The relative precision of the function.
    pub epsilon: f64,
    /// The part of `scale` that does not matter.
    pub tolerance: f64,
    /// The sum of the sizes of what adds up to the derivative, and to the function.
    pub scale: f64,
    pub size: f64,
}

/// What two steps say, one twice the other.
struct Pair {
    value: f64,
    /// What is left of the bend at a kink; else rounding.
    kink: f64,
    apart: f64,
}

impl Steps {
    /// Returns the slope of `f`, which gives its change from 0 to a step; none where it has no value.
    pub fn slope<E>(&self, mut f: impl FnMut(f64) -> Result<Option<f64>, E>) -> Result<Slope, E> {
        let mut found = Slope::Outside;
        let first = self.epsilon.powf(0.2);
        // Large steps are for what lacks digits.
        let sizes: &[i32] = if self.epsilon < 1e-12 { &[0, -1, -2, -3, 1] } else { &[0, -1] };
        for size in sizes {
            let h = first * 16f64.powi(*size);
            let Some(pair) = pair(&mut f, h)? else { continue };
            found = Slope::Kink;
            if !self.is_smooth(&pair, h) {
                continue;
            }
            // Steps of another size tell what is left of the error.
            let smaller = 0.37 * h;
            let Some(other) = self::pair(&mut f, smaller)? else { continue };
            if self.is_smooth(&other, smaller) {
                let noise = self.noise(h) + 4.0 * ((pair.value - other.value).abs() + pair.kink);
                return Ok(Slope::Smooth { value: pair.value, noise });
            }
        }
        Ok(found)
    }

    /// How far rounding of the function's value may put a slope off.
    fn noise(&self, h: f64) -> f64 {
        32.0 * self.epsilon * self.size / h
    }

    fn is_smooth(&self, pair: &Pair, h: f64) -> bool {
        let scale = self.scale + pair.value.abs();
        pair.kink <= 0.5 * self.tolerance * scale + 4.0 * self.noise(h)
            && pair.apart <= 0.1 * self.tolerance.sqrt() * scale + self.noise(h)
    }
}

fn pair<E>(f: &mut impl FnMut(f64) -> Result<Option<f64>, E>, h: f64) -> Result<Option<Pair>, E> {
    let mut at = |t: f64| f(t).map(|change| change.filter(|change| change.is_finite()));
    let (Some(right), Some(left)) = (at(h)?, at(-h)?) else { return Ok(None) };
    let (Some(near_right), Some(near_left)) = (at(h / 2.0)?, at(-h / 2.0)?) else { return Ok(None) };
    let (wide, narrow) = ((right - left) / (2.0 * h), (near_right - near_left) / h);
    let (bend, near_bend) = ((right + left) / h, (near_right + near_left) / (h / 2.0));
    let (value, kink) = ((4.0 * narrow - wide) / 3.0, (2.0 * near_bend - bend).abs());
    Ok(Some(Pair { value, kink, apart: (wide - narrow).abs() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slope(f: impl Fn(f64) -> f64) -> Slope {
        let steps = Steps { epsilon: f64::EPSILON, tolerance: 1e-6, scale: 0.0, size: f(0.0).abs() + 1.0 };
        let Ok(slope) = steps.slope(|t| Ok::<_, ()>(Some(f(t) - f(0.0)))) else { return Slope::Outside };
        slope
    }

    fn is_about(slope: Slope, wanted: f64) -> bool {
        matches!(slope, Slope::Smooth { value, .. } if (value - wanted).abs() <= 1e-8 * wanted.abs().max(1.0))
    }

    #[test]
    fn smooth_functions_have_slopes() {
        assert!(is_about(slope(|t| (1.0 + t).exp()), 1f64.exp()));
        assert!(is_about(slope(|t| (100.0 * t).sin()), 100.0), "{:?}", slope(|t| (100.0 * t).sin()));
        assert!(is_about(slope(|t| 1.0 / (1e-3 + t)), -1e6), "{:?}", slope(|t| 1.0 / (1e-3 + t)));
        assert!(is_about(slope(|t| (t - 1e-4).abs()), -1.0));
        assert!(is_about(slope(|_| 3.0), 0.0));
    }

    #[test]
    fn digits_that_the_function_loses_are_noise() {
        let x = 1e-5;
        let Slope::Smooth { value, noise } = slope(|t| ((1.0 + (x + 0.7 * x * t)) - 1.0).ln()) else {
            panic!("smooth")
        };
        assert!((value - 0.7).abs() <= noise && noise < 1e-3, "{value} {noise}");
    }

    #[test]
    fn kinks_jumps_and_limits_have_none() {
        assert_eq!(slope(f64::abs), Slope::Kink);
        assert_eq!(slope(|t| 5.0 * t + 1e-3 * t.max(0.0)), Slope::Kink);
        assert_eq!(slope(|t| (1e9 + t).floor() + t), Slope::Kink);
        assert_eq!(slope(f64::sqrt), Slope::Outside);
        assert_eq!(slope(f64::cbrt), Slope::Kink);
    }
}
