//! [`Scale`]: the mapping of an axis from values to positions, linear or logarithmic, with its ticks.

/// A tick of an axis: its value and its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    pub label: String,
}

/// The range of an axis. It is never empty, and all its bounds and ticks are finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// The bounds. For a logarithmic axis, these are the decimal logarithms of the bounds.
    low: f64,
    high: f64,
    is_log: bool,
    has_names: bool,
    ticks: Vec<Tick>,
}

impl Scale {
    /// Creates a linear scale for finite values from `low` to `high`, widened on both sides by the fraction `margin`,
    /// with about `count` ticks.
    pub fn linear(low: f64, high: f64, margin: f64, count: usize) -> Scale {
        // Half of the range, because the whole one may overflow.
        let half = high / 2.0 - low / 2.0;
        // If all values are equal, the range is centered at them.
        let margin = match half > 0.0 {
            true => half * margin * 2.0,
            false if low == 0.0 => 0.5,
            false => (low.abs() / 2.0).max(f64::MIN_POSITIVE),
        };
        let (low, high) = ((low - margin).max(-f64::MAX), (high + margin).min(f64::MAX));
        Scale { low, high, is_log: false, has_names: false, ticks: linear_ticks(low, high, count) }
    }

    /// Like [`Scale::linear`], but logarithmic, for finite positive values.
    pub fn logarithmic(low: f64, high: f64, margin: f64, count: usize) -> Scale {
        let (low, high) = (low.log10(), high.log10());
        let margin = if high > low { (high - low) * margin } else { 0.5 };
        let (low, high) = (low - margin, high + margin);
        Scale { low, high, is_log: true, has_names: false, ticks: log_ticks(low, high, count) }
    }

    /// Creates a scale for named categories, which have the values 0, 1, 2, ….
    pub fn of_names(names: &[String]) -> Scale {
        let ticks = names.iter().enumerate().map(|(at, name)| Tick { value: at as f64, label: name.clone() });
        let high = names.len().max(1) as f64 - 0.5;
        Scale { low: -0.5, high, is_log: false, has_names: true, ticks: ticks.collect() }
    }

    pub fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    pub fn is_log(&self) -> bool {
        self.is_log
    }

    /// Returns whether the labels of the ticks are names, not numbers.
    pub fn has_names(&self) -> bool {
        self.has_names
    }

    /// Returns the position of a value: 0 at the lower bound of the axis, 1 at the upper one. A value that a
    /// logarithmic axis does not have is at negative infinity.
    pub fn position(&self, value: f64) -> f64 {
        let value = match self.is_log {
            true if value > 0.0 => value.log10(),
            true => return f64::NEG_INFINITY,
            false => value,
        };
        position_between(self.low, self.high, value)
    }
}

/// Returns the position of a value relative to two finite numbers: 0 at `low`, 1 at `high`.
pub(crate) fn position_between(low: f64, high: f64, value: f64) -> f64 {
    // Halves, because the difference may overflow. For tiny numbers, halves would lose digits.
    match high - low {
        range if range.is_finite() => (value - low) / range,
        _ => (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0),
    }
}

/// Returns ticks at multiples of a round number.
fn linear_ticks(low: f64, high: f64, count: usize) -> Vec<Tick> {
    let step = round_step((high / 2.0 - low / 2.0) / count.max(1) as f64 * 2.0);
    let first = (low / step).ceil() as i64;
    let values = (0..100).map(|k| first.saturating_add(k) as f64 * step);
    // Rounding can move the first multiple out of the range, and makes neighbors equal if the range has few floats.
    let mut values: Vec<f64> = values.filter(|value| (low..=high).contains(value)).collect();
    values.dedup();
    let labels = labels(&values, step);
    values.into_iter().zip(labels).map(|(value, label)| Tick { value, label }).collect()
}

/// Returns ticks between two powers of ten: at powers of ten, at 1, 2 and 5 times these, or, in a range of less than
/// half a decade, as on a linear axis. `low` and `high` are logarithms.
fn log_ticks(low: f64, high: f64, count: usize) -> Vec<Tick> {
    let decades = low.floor() as i32..=high.ceil() as i32;
    let at = |factors: &[u32], step: i32| -> Vec<Tick> {
        let powers = decades.clone().filter(|power| power % step == 0);
        let marks = powers.flat_map(|power| factors.iter().map(move |factor| format!("{factor}e{power}")));
        let values = marks.filter_map(|mark| Some((mark.parse::<f64>().ok()?, mark)));
        let inside = values.filter(|(value, _)| value.is_finite() && (low..=high).contains(&value.log10()));
        inside.map(|(value, mark)| Tick { label: log_label(value, mark), value }).collect()
    };
    let step = ((high - low) / count.max(1) as f64).ceil().max(1.0) as i32;
    let powers = at(&[1], step);
    if powers.len() > 2 {
        return powers;
    }
    let fine = at(&[1, 2, 5], 1);
    if fine.len() > 2 {
        return fine;
    }
    let ticks = linear_ticks(10f64.powf(low), 10f64.powf(high).min(f64::MAX), count);
    ticks.into_iter().filter(|tick| tick.value > 0.0 && (low..=high).contains(&tick.value.log10())).collect()
}

fn log_label(value: f64, scientific: String) -> String {
    if (1e-3..1e5).contains(&value) { value.to_string() } else { scientific }
}

/// Returns a number near `step` that is 1, 2 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * 0.999).unwrap_or(10.0);
    let rounded = factor * power;
    if rounded.is_finite() && rounded > 0.0 { rounded } else { f64::MIN_POSITIVE }
}

/// Formats ticks, with as many decimals as their distance requires. Very large or small numbers are in scientific
/// notation.
fn labels(ticks: &[f64], step: f64) -> Vec<String> {
    let largest = ticks.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let is_short = largest < 1e6 && decimals <= 6;
    let digits = (largest / step).log10().ceil().clamp(0.0, 16.0) as usize;
    let label = |tick: &f64| match is_short {
        // Avoids `-0.0`.
        true => format!("{:.decimals$}", if *tick == 0.0 { 0.0 } else { *tick }),
        false if *tick == 0.0 => "0".into(),
        false => trim_mantissa(&format!("{tick:.digits$e}")),
    };
    ticks.iter().map(label).collect()
}

/// Removes trailing zeros of the mantissa: `1.500e3` becomes `1.5e3`.
fn trim_mantissa(text: &str) -> String {
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels_of(scale: &Scale) -> Vec<&str> {
        scale.ticks().iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels_of(&Scale::linear(0.0, 1.0, 0.0, 5)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels_of(&Scale::linear(-30.0, 70.0, 0.0, 5)), ["-20", "0", "20", "40", "60"]);
        assert_eq!(labels_of(&Scale::linear(0.0, 4e-9, 0.0, 4)), ["0", "1e-9", "2e-9", "3e-9", "4e-9"]);
        assert_eq!(labels_of(&Scale::linear(7.0, 7.0, 0.1, 3)), ["5", "10"]);
        assert_eq!(labels_of(&Scale::linear(1e-9, 1e-9, 0.1, 3)), ["5e-10", "1e-9", "1.5e-9"]);
        let nanoseconds = ["1.7e18", "1.7000000000000005e18", "1.700000000000001e18"];
        assert_eq!(labels_of(&Scale::linear(1.7e18, 1.7e18 + 1024.0, 0.0, 3)), nanoseconds);
    }

    #[test]
    fn logarithmic_ticks_are_powers_or_multiples_of_powers() {
        assert_eq!(labels_of(&Scale::logarithmic(1.0, 1000.0, 0.0, 7)), ["1", "10", "100", "1000"]);
        assert_eq!(labels_of(&Scale::logarithmic(1e-12, 1e6, 0.0, 4)), ["1e-10", "1e-5", "1", "1e5"]);
        assert_eq!(labels_of(&Scale::logarithmic(0.9, 12.0, 0.0, 7)), ["1", "2", "5", "10"]);
        assert_eq!(labels_of(&Scale::logarithmic(3.0, 4.0, 0.0, 5)), ["3.0", "3.2", "3.4", "3.6", "3.8", "4.0"]);
    }

    #[test]
    fn every_range_has_a_scale_with_ticks_inside() {
        let numbers = [
            -f64::MAX,
            -1e300,
            -7.5,
            -1e-300,
            0.0,
            5e-324,
            f64::MIN_POSITIVE,
            1e-9,
            1.0,
            1.0 + f64::EPSILON,
            2.0,
            1e17,
            1e300,
            f64::MAX,
        ];
        for (at, low) in numbers.into_iter().enumerate() {
            for high in numbers[at..].iter().copied() {
                check(&Scale::linear(low, high, 0.05, 7), low, high);
                if low > 0.0 {
                    check(&Scale::logarithmic(low, high, 0.05, 7), low, high);
                }
            }
        }
    }

    fn check(scale: &Scale, low: f64, high: f64) {
        for value in [low, high] {
            let position = scale.position(value);
            assert!((0.0..=1.0).contains(&position), "{value} is at {position} of {scale:?}");
        }
        assert!(scale.ticks().len() <= 100, "{scale:?}");
        for tick in scale.ticks() {
            let position = scale.position(tick.value);
            assert!((-1e-9..=1.0 + 1e-9).contains(&position), "{tick:?} is at {position} of {scale:?}");
        }
        let rising = scale.ticks().windows(2).all(|pair| pair[0].value < pair[1].value);
        assert!(rising, "{scale:?}");
    }
}
