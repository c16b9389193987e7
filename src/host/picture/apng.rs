//! Encodes animations as APNG files: PNG files with several frames.

use png::{BitDepth, ColorType, Encoder};

use crate::array::{Array, ElementType};
use crate::picture::image::{file_samples, shape_extents};
use crate::picture::raster::Raster;
use crate::problem::{HostResult, RuntimeError};
use clk_base::alloc::ByteSink;
use clk_base::stop;

/// Encodes an array of frames, whose first axis is time: `[N, H, W]` or `[N, H, W, C]`. Each frame is encoded like a
/// picture and shown for `delay` seconds; the animation repeats forever.
pub(crate) fn animation(frames: &Array, delay: f64) -> HostResult<Vec<u8>> {
    let mut shape = frames.shape().to_vec();
    if let ElementType::Vector(_, lanes) = frames.element() {
        shape.push(usize::from(*lanes));
    }
    let no_frames = || {
        let title = format!("an array of type {} is not an animation", frames.type_name());
        RuntimeError::new("E0716", title).note("an animation is `[N, H, W]` or `[N, H, W, 3]`: N pictures of one size")
    };
    let (count, frame) = shape.split_first().ok_or_else(no_frames)?;
    let (height, width, color) = shape_extents(frame).ok_or_else(no_frames)??;
    if *count == 0 {
        return Err(RuntimeError::new("E0716", "an animation without frames is empty"));
    }
    let (depth, samples) = file_samples(frames)?;
    let frames = samples.chunks(samples.len() / count);
    encode(FrameFormat { width, height, color, depth, count: *count }, frames, delay)
}

/// Encodes rasters of one size as frames that are shown for `delay` seconds each.
pub(crate) fn of_rasters(mut rasters: impl ExactSizeIterator<Item = Raster>, delay: f64) -> HostResult<Vec<u8>> {
    let count = rasters.len();
    let no_frames = || RuntimeError::new("E0716", "an animation without frames is empty");
    let first = rasters.next().ok_or_else(no_frames)?;
    let (width, height) = (first.width as u32, first.height as u32);
    let format = FrameFormat { width, height, color: ColorType::Rgb, depth: BitDepth::Eight, count };
    encode(format, std::iter::once(first).chain(rasters).map(|raster| raster.pixels), delay)
}

/// The format that all frames of an animation have, and their number.
struct FrameFormat {
    width: u32,
    height: u32,
    color: ColorType,
    depth: BitDepth,
    count: usize,
}

fn encode<F: AsRef<[u8]>>(format: FrameFormat, frames: impl Iterator<Item = F>, delay: f64) -> HostResult<Vec<u8>> {
    let milliseconds = (delay * 1000.0).round();
    if !(1.0..=65_535.0).contains(&milliseconds) {
        let title = format!("a frame is shown for {delay} seconds, which is not from 0.001 to 65.535");
        return Err(RuntimeError::new("E0716", title));
    }
    let failed =
        |error: png::EncodingError| RuntimeError::new("E0715", format!("the animation cannot be written: {error}"));
    let mut bytes = ByteSink::default();
    let mut encoder = Encoder::new(&mut bytes, format.width, format.height);
    encoder.set_color(format.color);
    encoder.set_depth(format.depth);
    encoder.set_animated(format.count as u32, 0).map_err(failed)?;
    encoder.set_frame_delay(milliseconds as u16, 1000).map_err(failed)?;
    let mut writer = encoder.write_header().map_err(failed)?;
    for frame in frames {
        stop::poll();
        writer.write_image_data(frame.as_ref()).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    Ok(bytes.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_their_duration_are_decoded_again() {
        let frame = |level| Raster { width: 2, height: 1, pixels: vec![level; 6] };
        let bytes = of_rasters([frame(1), frame(2), frame(3)].into_iter(), 0.05).expect("an animation");
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG");
        assert_eq!(reader.info().animation_control.expect("an animation").num_frames, 3);
        let mut pixels = [0; 6];
        for level in 1..=3 {
            reader.next_frame(&mut pixels).expect("a frame");
            assert_eq!(pixels, [level; 6]);
            let control = reader.info().frame_control.expect("a duration");
            assert_eq!((control.delay_num, control.delay_den), (50, 1000));
        }
        assert_eq!(of_rasters([].into_iter(), 0.05).unwrap_err().code, "E0716");
    }
}
