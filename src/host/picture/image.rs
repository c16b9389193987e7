//! `image`: an array as an image.

use std::io::Write as _;

use png::{BitDepth, ColorType, Encoder};

use crate::base::room::{self, Sink};
use crate::base::stop::{self, PART};
use crate::host::array::{Array, Element};
use crate::host::problem::{Outcome, Problem};
use crate::lang::scalar::{Element as _, Scalar};
use crate::with_float;

/// Returns height, width and color type of an image.
pub(crate) fn extents(array: &Array) -> Outcome<(u32, u32, ColorType)> {
    let mut shape = array.shape().to_vec();
    if let Element::Vector(_, lanes) = array.element() {
        shape.push(usize::from(*lanes));
    }
    let (height, width, color) = match shape.as_slice() {
        [h, w] | [h, w, 1] => (*h, *w, ColorType::Grayscale),
        [h, w, 2] => (*h, *w, ColorType::GrayscaleAlpha),
        [h, w, 3] => (*h, *w, ColorType::Rgb),
        [h, w, 4] => (*h, *w, ColorType::Rgba),
        _ => return Err(no_picture(array)),
    };
    if height == 0 || width == 0 {
        return Err(Problem::new("E0716", format!("a picture of {width} by {height} pixels is empty")));
    }
    Ok((height as u32, width as u32, color))
}

fn no_picture(array: &Array) -> Problem {
    let title = format!("an array of type {} is not a picture", array.type_name());
    let problem = Problem::new("E0716", title)
        .note("a picture is `[H, W]` (grey), `[H, W, 3]` (red, green, blue) or `[H, W, 4]` (with opacity)");
    match array.shape() {
        [3 | 4, _, _] => problem.help("the colours have to be the last axis"),
        [_] => problem.help("give it two axes: `reshape(x, height, width)`"),
        _ => problem,
    }
}

/// Converts to 8-bit samples: `u8` unchanged, floats from 0 to 1 (clamped; NaN is 0), `bool` black and white.
pub(crate) fn samples(array: &Array) -> Outcome<Vec<u8>> {
    let none = || {
        let element = array.element();
        Problem::new("E0716", format!("a picture's samples are u8 or floats from 0 to 1, not {element}"))
            .help("convert them: `u8(x)`, or `f32(x) / 255.0`")
    };
    let scalar = array.scalar().ok_or_else(none)?;
    match scalar {
        Scalar::U8 => Ok(room::copy(array.bytes()?)),
        Scalar::U16 => {
            let high = array.bytes()?.chunks_exact(2).filter_map(|pair| pair.last().copied());
            Ok(room::collect(array.byte_len() / 2, high))
        }
        Scalar::Bool => {
            Ok(room::collect(array.byte_len(), array.bytes()?.iter().map(|&b| if b != 0 { 255 } else { 0 })))
        }
        _ => with_float!(scalar, T => {
            let items = array.items::<T>()?;
            Ok(room::collect(items.len(), items.iter().map(|x| level(x.to::<f64>()))))
        }, _ => Err(none())),
    }
}

fn level(x: f64) -> u8 {
    (x.clamp(0.0, 1.0) * 255.0).round_ties_even() as u8
}

/// Encodes an image as PNG.
pub(crate) fn png(array: &Array) -> Outcome<Vec<u8>> {
    let (height, width, color) = extents(array)?;
    write(width, height, color, BitDepth::Eight, &samples(array)?)
}

/// Encodes samples in row order as PNG.
pub(crate) fn write(width: u32, height: u32, color: ColorType, depth: BitDepth, samples: &[u8]) -> Outcome<Vec<u8>> {
    let failed = |error: png::EncodingError| Problem::new("E0715", format!("the picture cannot be written: {error}"));
    let mut bytes = Sink::default();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(depth);
    let mut writer = encoder.write_header().map_err(failed)?;
    let mut stream = writer.stream_writer_with_size(PART).map_err(failed)?;
    for (_, part) in stop::parts(samples) {
        stream.write_all(part).map_err(|error| failed(error.into()))?;
    }
    stream.finish().map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes.0)
}
