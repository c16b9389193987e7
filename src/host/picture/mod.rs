//! Rendering of arrays as pictures for files, notebooks and the terminal, as pure functions that return bytes and text.
//!
//! Images and heat maps are [`raster::Raster`]s. Charts are [`figure::Figure`]s: [`chart`] builds them from the
//! arguments of a call, `drawing` lays them out, and `svg` and `canvas` write the result. A script
//! that writes no file shows a [`shown::ShownPicture`].

pub(crate) mod apng;
pub mod base64;
mod canvas;
pub mod chart;
mod drawing;
pub mod figure;
mod font;
pub mod heat;
pub(crate) mod image;
mod numbers;
pub mod raster;
pub mod scale;
pub mod shown;
mod svg;

use crate::array::Array;
use crate::problem::{HostResult, RuntimeError};
use drawing::Drawing;
use figure::Figure;
use heat::Heat;
use raster::Raster;

/// Returns whether the file extension selects SVG; all other files are written as PNG.
fn is_svg(path: &str) -> bool {
    path.len() >= 4 && path.is_char_boundary(path.len() - 4) && path[path.len() - 4..].eq_ignore_ascii_case(".svg")
}

/// Refuses an animation in an SVG file.
fn check_format(path: &str, fps: Option<f64>) -> HostResult<()> {
    if fps.is_none() || !is_svg(path) {
        return Ok(());
    }
    let title = format!("an animation is not written to `{path}`");
    Err(RuntimeError::new("E0717", title).help("write a PNG file, which browsers play: `\"frames.png\"`"))
}

/// Returns the content of the file written by `image(path, x)`. With `fps`, the first axis is that of frames.
pub fn image_file(path: &str, array: &Array, fps: Option<f64>) -> HostResult<Vec<u8>> {
    check_format(path, fps)?;
    if let Some(fps) = fps {
        return apng::animation(array, frame_delay(fps)?);
    }
    let png = image::png(array)?;
    if !is_svg(path) {
        return Ok(png);
    }
    let (height, width, _) = image::extents(array)?;
    Ok(svg::of_png(width as usize, height as usize, &png).into_bytes())
}

/// Returns the content of the file written by `heat(path, x)`. Small arrays are enlarged. With `fps`, the first axis is
/// that of frames.
pub fn heat_file(path: &str, array: &Array, fps: Option<f64>) -> HostResult<Vec<u8>> {
    check_format(path, fps)?;
    let mut rasters = Heat::of(array, fps.is_some())?.rasters;
    let factor = rasters.first().map_or(1, |raster| enlargement(raster, 512));
    if let Some(fps) = fps {
        return apng::of_rasters(rasters.iter().map(|raster| raster.enlarge(factor)), frame_delay(fps)?);
    }
    let none = || RuntimeError::new("E0717", "there is nothing to show");
    let raster = rasters.pop().ok_or_else(none)?.enlarge(factor);
    let png = raster.png()?;
    Ok(if is_svg(path) { svg::of_png(raster.width, raster.height, &png).into_bytes() } else { png })
}

/// Returns the content of the file of a chart: the frames of an animation if there is `fps`, else the first figure.
pub fn chart_file(path: &str, figures: &[Figure], fps: Option<f64>) -> HostResult<Vec<u8>> {
    check_format(path, fps)?;
    let first = || figures.first().ok_or_else(|| RuntimeError::new("E0717", "there is nothing to plot"));
    match fps {
        Some(fps) => apng::of_rasters(figures.iter().map(figure_raster), frame_delay(fps)?),
        None if is_svg(path) => Ok(figure_svg(first()?).into_bytes()),
        None => figure_raster(first()?).png(),
    }
}

/// Renders a chart as SVG.
pub fn figure_svg(figure: &Figure) -> String {
    svg::of_drawing(&Drawing::of(figure))
}

/// Renders a chart as pixels.
pub(crate) fn figure_raster(figure: &Figure) -> Raster {
    canvas::paint(&Drawing::of(figure))
}

/// Returns the seconds for which a frame is shown, or an error for an odd number of frames per second.
pub(crate) fn frame_delay(fps: f64) -> HostResult<f64> {
    const RATES: std::ops::RangeInclusive<f64> = 0.1..=100.0;
    if RATES.contains(&fps) {
        return Ok(1.0 / fps);
    }
    let title = format!("`fps` is from {} to {}, not {fps}", RATES.start(), RATES.end());
    Err(RuntimeError::new("E0717", title).label("the number of frames in a second"))
}

/// Returns the integer factor that enlarges a small picture to about `size` pixels in its longer dimension.
pub(crate) fn enlargement(raster: &Raster, size: usize) -> usize {
    (size / raster.width.max(raster.height).max(1)).clamp(1, 64)
}
