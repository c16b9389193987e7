//! .jpg and .jpeg files, decoded to arrays of `u8`: `[H, W]` gray or `[H, W, 3]` color. Clk does not write them.
//!
//! Pixels are in the order of the file: an orientation in its metadata is ignored, as is a color profile.

use std::io::Cursor;

use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::array::Array;
use crate::files::file::NamedFile;
use crate::files::png::InterruptibleReader;
use crate::problem::{HostResult, RuntimeError};
use clk_scalar::Scalar;

/// Upper bound of the number of pixels for each byte of a file: a block of 8 by 8 pixels takes at least a bit.
const MOST_PIXELS_PER_BYTE: usize = 8 * 64;

pub(crate) fn decode(file: &NamedFile) -> HostResult<Array> {
    if !file.bytes.starts_with(b"\xff\xd8\xff") {
        return Err(file.damaged("it does not begin as a JPEG picture does"));
    }
    // Without the strict mode, missing pixels are gray.
    let longest = usize::from(u16::MAX);
    let options = DecoderOptions::new_safe().set_strict_mode(true).set_max_width(longest).set_max_height(longest);
    let mut decoder = JpegDecoder::new_with_options(InterruptibleReader(Cursor::new(file.bytes)), options);
    decoder.decode_headers().map_err(|error| damaged(file, &error))?;
    let no_header = || file.damaged("it has no header");
    let info = decoder.info().ok_or_else(no_header)?;
    let (height, width) = (usize::from(info.height), usize::from(info.width));
    if height * width > file.bytes.len().saturating_mul(MOST_PIXELS_PER_BYTE) {
        let file_bytes = file.bytes.len();
        let title = format!("its header promises {width} by {height} pixels, more than {file_bytes} bytes can hold");
        return Err(file.damaged(title));
    }
    let is_gray = decoder.input_colorspace().ok_or_else(no_header)? == ColorSpace::Luma;
    let (color, shape) =
        if is_gray { (ColorSpace::Luma, vec![height, width]) } else { (ColorSpace::RGB, vec![height, width, 3]) };
    decoder.set_options(options.jpeg_set_out_colorspace(color));
    let mut array = Array::zeros(Scalar::U8, &shape)?;
    let bytes = array.bytes_mut()?;
    if decoder.output_buffer_size() != Some(bytes.len()) {
        return Err(file.damaged("its rows do not have the size that its header promises"));
    }
    decoder.decode_into(bytes).map_err(|error| damaged(file, &error))?;
    Ok(array)
}

fn damaged(file: &NamedFile, error: &DecodeErrors) -> RuntimeError {
    match error {
        DecodeErrors::Unsupported(kind) => file
            .unsupported(format!("is a JPEG picture of a kind that Clk does not read ({kind:?})"))
            .help("convert the picture to .png"),
        DecodeErrors::Format(reason) => file.damaged(reason),
        DecodeErrors::FormatStatic(reason) => file.damaged(reason),
        DecodeErrors::IoErrors(_) | DecodeErrors::ExhaustedData => {
            file.damaged(format!("it ends early, after {} bytes", file.bytes.len()))
        }
        other => file.damaged(other),
    }
}
