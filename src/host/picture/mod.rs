//! Arrays as pictures, in files and in the terminal. Pure functions: bytes and text come back.

pub(crate) mod base64;
mod canvas;
mod font;
pub(crate) mod heat;
pub(crate) mod image;
pub(crate) mod plot;
pub(crate) mod raster;

use crate::host::array::Array;
use crate::host::problem::Outcome;
use heat::Heat;
use raster::Raster;

/// Files whose name ends so are written as SVG; all others as PNG.
fn is_svg(path: &str) -> bool {
    path.len() >= 4 && path.is_char_boundary(path.len() - 4) && path[path.len() - 4..].eq_ignore_ascii_case(".svg")
}

/// The file of `image(path, x)`.
pub fn image_file(path: &str, array: &Array) -> Outcome<Vec<u8>> {
    let png = image::png(array)?;
    if !is_svg(path) {
        return Ok(png);
    }
    let (height, width, _) = image::extents(array)?;
    Ok(raster::svg(width as usize, height as usize, &png).into_bytes())
}

/// The file of `plot(x, y, path)`.
pub fn plot_file(path: &str, x: &Array, y: &Array) -> Outcome<Vec<u8>> {
    if is_svg(path) { plot::svg(x, y).map(String::into_bytes) } else { plot::png(x, y) }
}

/// The file of `heat(x, path)`. Small arrays get large pixels.
pub fn heat_file(path: &str, array: &Array) -> Outcome<Vec<u8>> {
    let raster = Heat::of(array)?.raster;
    let raster = raster.enlarged(enlargement(&raster, 512));
    let png = raster.png()?;
    Ok(if is_svg(path) { raster::svg(raster.width, raster.height, &png).into_bytes() } else { png })
}

/// The factor by which a small picture comes near to `size` pixels in its longer direction.
pub(crate) fn enlargement(raster: &Raster, size: usize) -> usize {
    (size / raster.width.max(raster.height).max(1)).clamp(1, 64)
}
