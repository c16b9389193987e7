//! Encodes animations as APNG files: PNG files with several frames.

use png::Encoder;

use crate::array::{Array, ElementType};
use crate::picture::image::{file_samples, shape_extents};
use crate::problem::{HostResult, RuntimeError};
use clk_base::alloc::ByteSink;
use clk_base::stop;

/// Encodes an array of frames, whose first axis is time: `[N, H, W]` or `[N, H, W, C]`. Each frame is encoded like a
/// picture and shown for `delay` seconds; the animation repeats forever.
pub(crate) fn animation(frames: &Array, delay: f64) -> HostResult<Vec<u8>> {
    let milliseconds = (delay * 1000.0).round();
    if !(1.0..=65_535.0).contains(&milliseconds) {
        let title = format!("a frame is shown for {delay} seconds, which is not from 0.001 to 65.535");
        return Err(RuntimeError::new("E0716", title));
    }
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
    let failed =
        |error: png::EncodingError| RuntimeError::new("E0715", format!("the animation cannot be written: {error}"));
    let mut bytes = ByteSink::default();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(depth);
    encoder.set_animated(*count as u32, 0).map_err(failed)?;
    encoder.set_frame_delay(milliseconds as u16, 1000).map_err(failed)?;
    let mut writer = encoder.write_header().map_err(failed)?;
    for frame in samples.chunks(samples.len() / count) {
        stop::poll();
        writer.write_image_data(frame).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    Ok(bytes.0)
}
