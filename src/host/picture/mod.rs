//! Rendering of arrays as pictures for files and the terminal, as pure functions that return bytes and text.

pub(crate) mod apng;
pub mod base64;
mod canvas;
mod font;
pub mod heat;
pub(crate) mod image;
pub mod plot;
pub mod raster;
pub mod shown;

use crate::array::Array;
use crate::problem::HostResult;
use heat::Heat;
use raster::Raster;

/// Returns whether the file extension selects SVG; all other files are written as PNG.
fn is_svg(path: &str) -> bool {
    path.len() >= 4 && path.is_char_boundary(path.len() - 4) && path[path.len() - 4..].eq_ignore_ascii_case(".svg")
}

/// Returns the content of the file written by `image(path, x)`.
pub fn image_file(path: &str, array: &Array) -> HostResult<Vec<u8>> {
    let png = image::png(array)?;
    if !is_svg(path) {
        return Ok(png);
    }
    let (height, width, _) = image::extents(array)?;
    Ok(raster::svg(width as usize, height as usize, &png).into_bytes())
}

/// Returns the content of the file written by `plot(x, y, path)`.
pub fn plot_file(path: &str, x: &Array, y: &Array) -> HostResult<Vec<u8>> {
    if is_svg(path) { plot::svg(x, y).map(String::into_bytes) } else { plot::png(x, y) }
}

/// Returns the content of the file written by `heat(x, path)`. Small arrays are enlarged.
pub fn heat_file(path: &str, array: &Array) -> HostResult<Vec<u8>> {
    let raster = Heat::of(array)?.raster;
    let raster = raster.enlarge(enlargement(&raster, 512));
    let png = raster.png()?;
    Ok(if is_svg(path) { raster::svg(raster.width, raster.height, &png).into_bytes() } else { png })
}

/// Returns the integer factor that enlarges a small picture to about `size` pixels in its longer dimension.
pub(crate) fn enlargement(raster: &Raster, size: usize) -> usize {
    (size / raster.width.max(raster.height).max(1)).clamp(1, 64)
}
