//! .png files: images as arrays of `u8` (or `u16`, if the file has 16 bits): `[H, W]` gray, `[H, W, 2]` gray with alpha,
//! `[H, W, 3]` color, `[H, W, 4]` color with alpha. Palettes and samples of fewer than 8 bits are expanded.

use std::io::{self, BufRead, Cursor, Read, Seek, SeekFrom};

use ::png::{BitDepth, Decoder, DecodingError, Limits, Transformations};

use crate::base::{room, stop};
use crate::host::array::{Array, Element};
use crate::host::files::file::File;
use crate::host::picture;
use crate::host::problem::{Outcome, Problem};
use crate::lang::scalar::Scalar;

/// Returns an upper bound of the decoded size: the best compression ratio of deflate, plus headers.
fn largest_content(file_len: usize) -> usize {
    file_len.saturating_mul(1040).saturating_add(65_536)
}

pub(crate) fn decode(file: &File) -> Outcome<Array> {
    if !file.bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Err(file.damaged("it does not begin as a PNG picture does"));
    }
    let limit = largest_content(file.bytes.len());
    let mut decoder = Decoder::new_with_limits(Polled(Cursor::new(file.bytes)), Limits { bytes: limit });
    decoder.set_transformations(Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(|error| damaged(file, error))?;
    let (width, height) = reader.info().size();
    let (color, depth) = reader.output_color_type();
    let raw = reader.info().raw_bytes();
    let size = reader.output_buffer_size().filter(|_| raw <= limit);
    let size = size.ok_or_else(|| {
        let have = file.bytes.len();
        file.damaged(format!("its header promises {width} by {height} pixels, more than {have} bytes can hold"))
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

/// A reader in small pieces that polls for a stop request before each.
struct Polled<'a>(Cursor<&'a [u8]>);

/// Size of a piece in bytes; it may decompress to a thousand times as much.
const LITTLE: usize = 1 << 14;

impl Read for Polled<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        stop::poll();
        self.0.read(into)
    }
}

impl BufRead for Polled<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        stop::poll();
        self.0.fill_buf().map(|bytes| bytes.get(..LITTLE).unwrap_or(bytes))
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }
}

impl Seek for Polled<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

fn damaged(file: &File, error: DecodingError) -> Problem {
    match error {
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            file.damaged(format!("it ends early, after {} bytes", file.bytes.len()))
        }
        DecodingError::LimitsExceeded => file.damaged("it claims more data than its bytes can hold"),
        other => file.damaged(other),
    }
}

/// Encodes an image: `u8` and `u16` as they are, floats from 0 to 1.
pub(crate) fn encode(array: &Array) -> Outcome<Vec<u8>> {
    match array.element() {
        Element::Scalar(Scalar::U16) => {
            let (height, width, color) = picture::image::extents(array)?;
            let swapped = array.bytes()?.chunks_exact(2).flat_map(|pair| pair.iter().rev().copied());
            let swapped = room::collect(array.byte_len(), swapped);
            picture::image::write(width, height, color, BitDepth::Sixteen, &swapped)
        }
        _ => picture::image::png(array),
    }
}
