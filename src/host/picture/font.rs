//! The bitmap font of charts: Latin letters, digits and punctuation.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, RasterizedChar, get_raster, get_raster_width};

const WEIGHT: FontWeight = FontWeight::Regular;
const SIZE: RasterHeight = RasterHeight::Size20;

/// Width of each character in pixels.
pub(crate) const WIDTH: usize = get_raster_width(WEIGHT, SIZE);

pub(crate) const HEIGHT: usize = SIZE.val();

/// Returns the coverage of the pixels of a character; that of U+FFFD for a character that the font does not have.
pub(crate) fn glyph(c: char) -> Option<RasterizedChar> {
    get_raster(c, WEIGHT, SIZE).or_else(|| get_raster('\u{FFFD}', WEIGHT, SIZE))
}
