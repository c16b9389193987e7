//! .png files: images as arrays of `u8` (or `u16`, if the file has 16 bits): `[H, W]` gray, `[H, W, 2]` gray with
//! alpha, `[H, W, 3]` color, `[H, W, 4]` color with alpha. Palettes and samples of fewer than 8 bits are expanded.
//!
//! Animations (APNG) have one more axis in front, for the frames. Each frame is the whole picture as a viewer shows it.

use std::io::{self, BufRead, Cursor, Read, Seek, SeekFrom};

use ::png::{BitDepth, BlendOp, ColorType, Decoder, DecodingError, DisposeOp, FrameControl, Limits, Transformations};

use crate::array::{Array, ElementType};
use crate::files::file::NamedFile;
use crate::files::items::SavedItems;
use crate::files::kind::FileFormat;
use crate::picture;
use crate::problem::{HostResult, RuntimeError};
use clk_base::{alloc, stop};
use clk_scalar::{Scalar, ScalarValue};

/// Returns an upper bound of the decoded size in bytes, from the best compression ratio of deflate and the size of
/// headers.
fn max_decoded_size(file_len: usize) -> usize {
    file_len.saturating_mul(1040).saturating_add(65_536)
}

/// Decodes a file: a picture, or an array of the frames of an animation. A .apng file always contains an animation.
pub(crate) fn decode(file: &NamedFile, format: FileFormat) -> HostResult<Array> {
    if !file.bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Err(file.damaged("it does not begin as a PNG picture does"));
    }
    let limit = max_decoded_size(file.bytes.len());
    let mut decoder = Decoder::new_with_limits(InterruptibleReader(Cursor::new(file.bytes)), Limits { bytes: limit });
    decoder.set_transformations(Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(|error| damaged(file, error))?;
    let (width, height) = reader.info().size();
    let (color, depth) = reader.output_color_type();
    let raw = reader.info().raw_bytes();
    let size = reader.output_buffer_size().filter(|_| raw <= limit);
    let size = size.ok_or_else(|| {
        let file_bytes = file.bytes.len();
        file.damaged(format!("its header promises {width} by {height} pixels, more than {file_bytes} bytes can hold"))
    })?;
    let scalar = if depth == BitDepth::Sixteen { Scalar::U16 } else { Scalar::U8 };
    let mut shape = vec![height as usize, width as usize];
    match color.samples() {
        1 => {}
        samples => shape.push(samples),
    }
    let frames = reader.info().animation_control().map_or(1, |animation| animation.num_frames.max(1) as usize);
    let is_animation = frames > 1 || format == FileFormat::Apng;
    if is_animation {
        shape.insert(0, frames);
    }
    // Frames may be smaller than the picture, so their number multiplies the decoded size.
    if size.saturating_mul(frames) > limit {
        return Err(
            file.unsupported(format!("holds {frames} frames of {width} by {height} pixels, too many to unpack"))
        );
    }
    let mut array = Array::zeros(scalar, &shape)?;
    let bytes = array.bytes_mut()?;
    if bytes.len() != size.saturating_mul(frames) {
        return Err(file.damaged("its rows do not have the size that its header promises"));
    }
    if is_animation {
        let sample_size = scalar.size();
        let has_alpha = matches!(color, ColorType::GrayscaleAlpha | ColorType::Rgba);
        let canvas = FrameCanvas {
            bytes: alloc::zeros(size),
            row_size: size / height as usize,
            pixel: PixelLayout { samples: color.samples(), sample_size, has_alpha },
        };
        canvas.decode_frames(&mut reader, bytes).map_err(|error| damaged(file, error))?;
    } else {
        reader.next_frame(bytes).map_err(|error| damaged(file, error))?;
    }
    if scalar == Scalar::U16 {
        stop::polled(bytes.chunks_exact_mut(2)).for_each(<[u8]>::reverse);
    }
    Ok(array)
}

/// The samples of a pixel. Samples of two bytes are in big-endian order.
#[derive(Clone, Copy)]
struct PixelLayout {
    samples: usize,
    sample_size: usize,
    has_alpha: bool,
}

impl PixelLayout {
    fn size(self) -> usize {
        self.samples * self.sample_size
    }

    fn sample(self, pixel: &[u8], index: usize) -> f64 {
        match pixel.get(index * self.sample_size..(index + 1) * self.sample_size) {
            Some([high, low]) => u16::from_be_bytes([*high, *low]).into(),
            Some([byte]) => f64::from(*byte),
            _ => 0.0,
        }
    }

    fn set_sample(self, pixel: &mut [u8], index: usize, value: f64) {
        match pixel.get_mut(index * self.sample_size..(index + 1) * self.sample_size) {
            Some([high, low]) => [*high, *low] = (value.round() as u16).to_be_bytes(),
            Some([byte]) => *byte = value.round() as u8,
            _ => {}
        }
    }

    /// Draws `upper` over `lower`, by the `over` operator of Porter and Duff.
    fn draw_over(self, lower: &mut [u8], upper: &[u8]) {
        let alpha_index = self.samples - 1;
        let most = if self.sample_size == 2 { 65_535.0 } else { 255.0 };
        let upper_alpha = self.sample(upper, alpha_index) / most;
        let lower_alpha = self.sample(lower, alpha_index) / most * (1.0 - upper_alpha);
        let alpha = upper_alpha + lower_alpha;
        if !self.has_alpha || upper_alpha == 1.0 {
            return lower.copy_from_slice(upper);
        }
        if upper_alpha == 0.0 {
            return;
        }
        for index in 0..alpha_index {
            let mixed = self.sample(upper, index) * upper_alpha + self.sample(lower, index) * lower_alpha;
            self.set_sample(lower, index, mixed / alpha);
        }
        self.set_sample(lower, alpha_index, alpha * most);
    }
}

/// The picture that the frames of an animation change.
struct FrameCanvas {
    bytes: Vec<u8>,
    row_size: usize,
    pixel: PixelLayout,
}

impl FrameCanvas {
    /// Decodes the frames of an animation into `frames`, which has the size of all of them.
    fn decode_frames<R: BufRead + Seek>(
        mut self,
        reader: &mut ::png::Reader<R>,
        frames: &mut [u8],
    ) -> Result<(), DecodingError> {
        let mut part = alloc::zeros(self.bytes.len());
        if reader.info().animation_control().is_some() && reader.info().frame_control().is_none() {
            // The first picture is for programs without animations.
            reader.next_frame(&mut part)?;
        }
        for frame in frames.chunks_exact_mut(self.bytes.len()) {
            stop::poll();
            let info = reader.next_frame(&mut part)?;
            let control = reader.info().frame_control().copied().unwrap_or(FrameControl {
                width: info.width,
                height: info.height,
                ..FrameControl::default()
            });
            let stride = if reader.info().interlaced { self.row_size } else { info.line_size };
            let before = (control.dispose_op == DisposeOp::Previous).then(|| alloc::copy(&self.bytes));
            let width = control.width as usize * self.pixel.size();
            for (row, source) in part.chunks_exact(stride.max(1)).take(control.height as usize).enumerate() {
                self.draw_row(&control, row, source.get(..width).unwrap_or(source));
            }
            frame.copy_from_slice(&self.bytes);
            match (control.dispose_op, before) {
                (DisposeOp::Previous, Some(before)) => self.bytes = before,
                (DisposeOp::Background, _) => {
                    for row in 0..control.height as usize {
                        self.row(&control, row).into_iter().for_each(|row| row.fill(0));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the part of a row of the canvas that a frame covers.
    fn row(&mut self, control: &FrameControl, row: usize) -> Option<&mut [u8]> {
        let size = self.pixel.size();
        let start = (control.y_offset as usize + row) * self.row_size + control.x_offset as usize * size;
        self.bytes.get_mut(start..start + control.width as usize * size)
    }

    fn draw_row(&mut self, control: &FrameControl, row: usize, source: &[u8]) {
        let pixel = self.pixel;
        let Some(target) = self.row(control, row) else { return };
        let pixels = target.chunks_exact_mut(pixel.size()).zip(source.chunks_exact(pixel.size()));
        match control.blend_op {
            BlendOp::Source => pixels.for_each(|(to, from)| to.copy_from_slice(from)),
            BlendOp::Over => pixels.for_each(|(lower, upper)| pixel.draw_over(lower, upper)),
        }
    }
}

/// A reader of bytes in memory that returns few bytes at a time, and polls for a stop request before each read.
pub(crate) struct InterruptibleReader<'a>(pub Cursor<&'a [u8]>);

/// Maximum number of bytes in a read. It is small because these bytes may decompress to a thousand times as many.
const READ_BYTES: usize = 1 << 14;

impl Read for InterruptibleReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        stop::poll();
        self.0.read(into)
    }
}

impl BufRead for InterruptibleReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        stop::poll();
        self.0.fill_buf().map(|bytes| bytes.get(..READ_BYTES).unwrap_or(bytes))
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }
}

impl Seek for InterruptibleReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

fn damaged(file: &NamedFile, error: DecodingError) -> RuntimeError {
    match error {
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            file.damaged(format!("it ends early, after {} bytes", file.bytes.len()))
        }
        DecodingError::LimitsExceeded => file.damaged("it claims more data than its bytes can hold"),
        other => file.damaged(other),
    }
}

/// Seconds for which a frame of an animation is shown unless the program says otherwise.
const DELAY: f64 = 0.1;

/// Encodes a picture, or an animation if the array is a sequence of frames. A .apng file always contains an animation.
/// `u8` and `u16` are stored unchanged; floats from 0 to 1 are converted to `u8`.
pub(crate) fn encode(items: &SavedItems, format: FileFormat) -> HostResult<Vec<u8>> {
    let arrays = items.arrays(format)?;
    match (arrays.get("frames"), arrays.get("delay"), arrays.len()) {
        (Some(frames), Some(delay), 2) => return picture::apng::animation(frames, seconds(delay)?),
        (Some(frames), None, 1) => return picture::apng::animation(frames, DELAY),
        _ => {}
    }
    let array = items.single(format)?;
    let axes = array.rank() + usize::from(matches!(array.element(), ElementType::Vector(..)));
    if format == FileFormat::Apng || axes == 4 {
        return picture::apng::animation(array, DELAY);
    }
    let (height, width, color) = picture::image::extents(array)?;
    let (depth, samples) = picture::image::file_samples(array)?;
    picture::image::write(width, height, color, depth, &samples)
}

fn seconds(delay: &Array) -> HostResult<f64> {
    let scalar = delay.scalar().filter(|scalar| delay.rank() == 0 && *scalar != Scalar::Bool);
    let scalar = scalar.ok_or_else(|| {
        RuntimeError::new("E0715", "the delay of an animation is a number of seconds")
            .help("write it as a number: `save(\"x.apng\", frames = x, delay = 0.04)`")
    })?;
    Ok(ScalarValue::from_bytes(scalar, delay.bytes()?).as_f64())
}
