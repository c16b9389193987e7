//! [`Raster`]: an RGB image, the result of rendering a picture.

use png::{BitDepth, ColorType};

use super::image;
use crate::array::Array;
use crate::problem::HostResult;
use clk_base::alloc;
use clk_base::stop::{self, Ticks};

#[derive(Clone, Debug, PartialEq)]
pub struct Raster {
    pub width: usize,
    pub height: usize,
    /// The pixels of all rows from top to bottom, with three bytes per pixel.
    pub pixels: Vec<u8>,
}

impl Raster {
    /// Renders an array as an image; transparent pixels are blended with black.
    pub fn of(array: &Array) -> HostResult<Raster> {
        let (height, width, color) = image::extents(array)?;
        let samples = image::samples(array)?;
        let channels = color.samples();
        let mut pixels = alloc::vec(width as usize * height as usize * 3);
        for sample in stop::polled(samples.chunks_exact(channels)) {
            let opacity = if channels % 2 == 0 { u32::from(sample[channels - 1]) } else { 255 };
            for k in 0..3 {
                let level = u32::from(sample[if channels < 3 { 0 } else { k }]);
                pixels.push((level * opacity / 255) as u8);
            }
        }
        Ok(Raster { width: width as usize, height: height as usize, pixels })
    }

    /// Renders the frames of an animation along the first axis.
    pub fn frames(array: &Array) -> HostResult<Vec<Raster>> {
        let shape = array.shape().get(1..).unwrap_or(&[]);
        let length = array.byte_len() / array.shape().first().map_or(1, |count| (*count).max(1));
        let frames = array.bytes()?.chunks_exact(length.max(1));
        frames.map(|bytes| Raster::of(&Array::from_bytes(array.element().clone(), shape, bytes)?)).collect()
    }

    /// Enlarges every pixel to `factor` by `factor`.
    pub fn enlarge(&self, factor: usize) -> Raster {
        if factor == 1 {
            return Raster { pixels: alloc::copy(&self.pixels), ..*self };
        }
        let row = |pixels: &[u8]| pixels.chunks_exact(3).flat_map(|pixel| pixel.repeat(factor)).collect::<Vec<u8>>();
        let pixels = self.pixels.chunks_exact(3 * self.width).flat_map(|line| row(line).repeat(factor));
        let pixels = alloc::collect(self.pixels.len() * factor * factor, pixels);
        Raster { width: self.width * factor, height: self.height * factor, pixels }
    }

    /// Keeps every `step`-th pixel of every `step`-th row.
    pub fn subsample(&self, step: usize) -> Raster {
        let (width, height) = (self.width.div_ceil(step), self.height.div_ceil(step));
        let mut pixels = alloc::vec(width * height * 3);
        let ticks = Ticks::default();
        for line in self.pixels.chunks_exact(3 * self.width).step_by(step) {
            ticks.advance(self.width);
            line.chunks_exact(3).step_by(step).for_each(|pixel| pixels.extend_from_slice(pixel));
        }
        Raster { width, height, pixels }
    }

    /// Encodes the image as PNG.
    pub fn png(&self) -> HostResult<Vec<u8>> {
        image::write(self.width as u32, self.height as u32, ColorType::Rgb, BitDepth::Eight, &self.pixels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_change_by_whole_factors() {
        let small = Raster { width: 2, height: 1, pixels: vec![1, 2, 3, 4, 5, 6] };
        let large = small.enlarge(2);
        assert_eq!((large.width, large.height), (4, 2));
        assert_eq!(large.pixels[..12], [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]);
        assert_eq!(large.subsample(2), small);
    }

    #[test]
    fn gray_and_opacity() {
        let grey = Array::from_shaped(&[0u8, 200], &[1, 2]).expect("an array");
        assert_eq!(Raster::of(&grey).expect("a picture").pixels, [0, 0, 0, 200, 200, 200]);
        let half = Array::from_shaped(&[100u8, 50, 0, 51], &[1, 1, 4]).expect("an array");
        assert_eq!(Raster::of(&half).expect("a picture").pixels, [20, 10, 0]);
    }
}
