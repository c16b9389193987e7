//! `heat`: a two-dimensional array as an image, from its minimum (dark blue) to its maximum (yellow).

use super::numbers::numbers;
use super::raster::Raster;
use super::scale::position_between;
use crate::array::{Array, shape_text};
use crate::problem::{HostResult, RuntimeError};
use clk_base::{alloc, stop};

/// Samples of the color map viridis (by S. van der Walt and N. Smith, public domain), evenly spaced.
const COLORS: [[u8; 3]; 10] = [
    [68, 1, 84],
    [72, 40, 120],
    [62, 74, 137],
    [49, 104, 142],
    [38, 130, 142],
    [31, 158, 137],
    [53, 183, 121],
    [109, 205, 89],
    [180, 222, 44],
    [253, 231, 37],
];

/// Color of NaN, gray.
const NAN: [u8; 3] = [128, 128, 128];

/// An array rendered in colors.
#[derive(Clone, Debug)]
pub struct Heat {
    /// One picture, or the frames of an animation.
    pub rasters: Vec<Raster>,
    /// The smallest finite element, which has the first color of the map. `high` is the largest one, with the last
    /// color.
    pub low: f64,
    pub high: f64,
}

impl Heat {
    /// Renders an array of two axes, or, if `is_animated`, the frames along the first of three axes. All frames have
    /// the same colors.
    pub fn of(array: &Array, is_animated: bool) -> HostResult<Heat> {
        let (height, width) = match (array.shape(), is_animated) {
            (&[height, width], false) | (&[_, height, width], true) => (height, width),
            (shape, _) => return Err(wrong_shape(shape, is_animated)),
        };
        if array.is_empty() {
            return Err(RuntimeError::new("E0717", "there is nothing to show").label("the array is empty"));
        }
        let numbers = numbers("heat", array)?;
        let finite = || stop::polled(&numbers).copied().filter(|x| x.is_finite());
        let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 0.0) };
        // If all numbers are equal, they have the first color.
        let brightest = if low < high { high } else { low.next_up() };
        let raster = |frame: &[f64]| {
            let pixels = stop::polled(frame).flat_map(|&x| color(position_between(low, brightest, x)));
            Raster { width, height, pixels: alloc::collect(frame.len().saturating_mul(3), pixels) }
        };
        Ok(Heat { rasters: numbers.chunks_exact(height * width).map(raster).collect(), low, high })
    }
}

fn wrong_shape(shape: &[usize], is_animated: bool) -> RuntimeError {
    let expected = if is_animated { "frames of two axes" } else { "arrays of two axes" };
    let title = format!("`heat` shows {expected}, not an array of shape {}", shape_text(shape));
    let problem = RuntimeError::new("E0717", title);
    match shape {
        [_] => problem.help("give it two axes: `reshape(x, height, width)`"),
        [_, _, _] => problem.help("choose two axes: `x[0, .., ..]`; with `fps`, the first axis is that of frames"),
        _ => problem.help("choose two axes: `x[0, .., ..]`"),
    }
}

/// Returns the color for a position in the color map, which is clamped to the range from 0 to 1.
fn color(at: f64) -> [u8; 3] {
    if at.is_nan() {
        return NAN;
    }
    let place = at.clamp(0.0, 1.0) * (COLORS.len() - 1) as f64;
    let below = (place as usize).min(COLORS.len() - 2);
    let part = place - below as f64;
    let (a, b) = (COLORS[below], COLORS[below + 1]);
    std::array::from_fn(|k| (f64::from(a[k]) * (1.0 - part) + f64::from(b[k]) * part).round() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_have_the_extreme_colors() {
        let array = Array::from_shaped(&[1i32, 5, 3, 5], &[2, 2]).expect("an array");
        let heat = Heat::of(&array, false).expect("a picture");
        assert_eq!((heat.low, heat.high), (1.0, 5.0));
        assert_eq!(heat.rasters[0].pixels[..6], [68, 1, 84, 253, 231, 37]);
        let widest = Array::from_shaped(&[-f64::MAX, f64::MAX], &[1, 2]).expect("an array");
        let heat = Heat::of(&widest, false).expect("a picture");
        assert_eq!(heat.rasters[0].pixels[..], [68, 1, 84, 253, 231, 37]);
    }

    #[test]
    fn non_finite_numbers_have_colors() {
        let array = Array::from_shaped(&[f32::NAN, f32::INFINITY, 1.0, 1.0], &[2, 2]).expect("an array");
        let heat = Heat::of(&array, false).expect("a picture");
        assert_eq!(heat.rasters[0].pixels[..6], [128, 128, 128, 253, 231, 37]);
        let none = Array::from_shaped(&[f64::NAN], &[1, 1]).expect("an array");
        assert_eq!(Heat::of(&none, false).expect("a picture").rasters[0].pixels, NAN);
        let flat = Array::from_shaped(&[1.0f32, 2.0], &[2]).expect("an array");
        assert_eq!(Heat::of(&flat, false).map(drop).unwrap_err().code, "E0717");
    }
}
