//! `image`: converts an array of gray or color values to an image.

use std::io::Write as _;

use png::{BitDepth, ColorType, Encoder};

use crate::array::{Array, ElementType};
use crate::problem::{HostResult, RuntimeError};
use clk_base::alloc::{self, ByteSink};
use clk_base::stop::{self, POLL_INTERVAL};
use clk_scalar::with_float;
use clk_scalar::{Scalar, ScalarType as _};

/// Returns height, width and color type of an image.
pub(crate) fn extents(array: &Array) -> HostResult<(u32, u32, ColorType)> {
    let mut shape = array.shape().to_vec();
    if let ElementType::Vector(_, lanes) = array.element() {
        shape.push(usize::from(*lanes));
    }
    shape_extents(&shape).ok_or_else(|| no_picture(array))?
}

/// Returns height, width and color type of an image with this shape; `None` if it is not the shape of an image.
pub(crate) fn shape_extents(shape: &[usize]) -> Option<HostResult<(u32, u32, ColorType)>> {
    let (height, width, color) = match shape {
        [h, w] | [h, w, 1] => (*h, *w, ColorType::Grayscale),
        [h, w, 2] => (*h, *w, ColorType::GrayscaleAlpha),
        [h, w, 3] => (*h, *w, ColorType::Rgb),
        [h, w, 4] => (*h, *w, ColorType::Rgba),
        _ => return None,
    };
    if height == 0 || width == 0 {
        return Some(Err(RuntimeError::new("E0716", format!("a picture of {width} by {height} pixels is empty"))));
    }
    Some(Ok((height as u32, width as u32, color)))
}

fn no_picture(array: &Array) -> RuntimeError {
    let title = format!("an array of type {} is not a picture", array.type_name());
    let problem = RuntimeError::new("E0716", title)
        .note("a picture is `[H, W]` (gray), `[H, W, 3]` (red, green, blue) or `[H, W, 4]` (with opacity)");
    match array.shape() {
        [3 | 4, _, _] => problem.help("the colors have to be the last axis"),
        [_] => problem.help("give it two axes: `reshape(x, height, width)`"),
        [_, _, _] => problem.help("with `fps`, the first axis is that of the frames: `image(x, fps = 20)`"),
        _ => problem,
    }
}

/// Converts the elements of an image to 8-bit samples. `u8` is unchanged. Floats are clamped to the range from 0 to 1;
/// a NaN is 0. A `bool` is black or white.
pub(crate) fn samples(array: &Array) -> HostResult<Vec<u8>> {
    let none = || {
        let element = array.element();
        RuntimeError::new("E0716", format!("a picture's samples are u8 or floats from 0 to 1, not {element}"))
            .help("convert them: `u8(x)`, or `f32(x) / 255.0`")
    };
    let scalar = array.scalar().ok_or_else(none)?;
    match scalar {
        Scalar::U8 => Ok(alloc::copy(array.bytes()?)),
        Scalar::U16 => {
            let high = array.bytes()?.chunks_exact(2).filter_map(|pair| pair.last().copied());
            Ok(alloc::collect(array.byte_len() / 2, high))
        }
        Scalar::Bool => {
            Ok(alloc::collect(array.byte_len(), array.bytes()?.iter().map(|&b| if b != 0 { 255 } else { 0 })))
        }
        _ => with_float!(scalar, T => {
            let items = array.items::<T>()?;
            Ok(alloc::collect(items.len(), items.iter().map(|x| level(x.to::<f64>()))))
        }, _ => Err(none())),
    }
}

/// Converts the elements of an image to samples for a file: `u16` is unchanged, and other types become 8-bit samples.
pub(crate) fn file_samples(array: &Array) -> HostResult<(BitDepth, Vec<u8>)> {
    match array.scalar() {
        Some(Scalar::U16) => {
            let swapped = array.bytes()?.chunks_exact(2).flat_map(|pair| pair.iter().rev().copied());
            Ok((BitDepth::Sixteen, alloc::collect(array.byte_len(), swapped)))
        }
        _ => Ok((BitDepth::Eight, samples(array)?)),
    }
}

fn level(x: f64) -> u8 {
    (x.clamp(0.0, 1.0) * 255.0).round_ties_even() as u8
}

/// Encodes an image as PNG.
pub(crate) fn png(array: &Array) -> HostResult<Vec<u8>> {
    let (height, width, color) = extents(array)?;
    write(width, height, color, BitDepth::Eight, &samples(array)?)
}

/// Encodes samples in row order as PNG.
pub(crate) fn write(width: u32, height: u32, color: ColorType, depth: BitDepth, samples: &[u8]) -> HostResult<Vec<u8>> {
    let failed =
        |error: png::EncodingError| RuntimeError::new("E0715", format!("the picture cannot be written: {error}"));
    let mut bytes = ByteSink::default();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(depth);
    let mut writer = encoder.write_header().map_err(failed)?;
    let mut stream = writer.stream_writer_with_size(POLL_INTERVAL).map_err(failed)?;
    for (_, part) in stop::polled_chunks(samples) {
        stream.write_all(part).map_err(|error| failed(error.into()))?;
    }
    stream.finish().map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes.0)
}
