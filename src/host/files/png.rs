//! .png files: images as arrays of `u8` (or `u16`, if the file has 16 bits): `[H, W]` gray, `[H, W, 2]` gray with
//! alpha, `[H, W, 3]` color, `[H, W, 4]` color with alpha. Palettes and samples of fewer than 8 bits are expanded.

use std::io::{self, BufRead, Cursor, Read, Seek, SeekFrom};

use ::png::{BitDepth, Decoder, DecodingError, Limits, Transformations};

use crate::array::{Array, ElementType};
use crate::files::file::NamedFile;
use crate::picture;
use crate::problem::{HostResult, RuntimeError};
use clk_base::{alloc, stop};
use clk_scalar::Scalar;

/// Returns an upper bound of the decoded size in bytes, from the best compression ratio of deflate and the size of
/// headers.
fn max_decoded_size(file_len: usize) -> usize {
    file_len.saturating_mul(1040).saturating_add(65_536)
}

pub(crate) fn decode(file: &NamedFile) -> HostResult<Array> {
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
    let mut array = Array::zeros(scalar, &shape)?;
    let bytes = array.bytes_mut()?;
    if bytes.len() != size {
        return Err(file.damaged("its rows do not have the size that its header promises"));
    }
    reader.next_frame(bytes).map_err(|error| damaged(file, error))?;
    if scalar == Scalar::U16 {
        stop::polled(bytes.chunks_exact_mut(2)).for_each(<[u8]>::reverse);
    }
    Ok(array)
}

/// A reader of bytes in memory that returns few bytes at a time, and polls for a stop request before each read.
struct InterruptibleReader<'a>(Cursor<&'a [u8]>);

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

/// Encodes an image. `u8` and `u16` are stored unchanged; floats from 0 to 1 are converted to `u8`.
pub(crate) fn encode(array: &Array) -> HostResult<Vec<u8>> {
    match array.element() {
        ElementType::Scalar(Scalar::U16) => {
            let (height, width, color) = picture::image::extents(array)?;
            let swapped = array.bytes()?.chunks_exact(2).flat_map(|pair| pair.iter().rev().copied());
            let swapped = alloc::collect(array.byte_len(), swapped);
            picture::image::write(width, height, color, BitDepth::Sixteen, &swapped)
        }
        _ => picture::image::png(array),
    }
}
