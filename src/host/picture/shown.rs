//! Renders the pictures that a script shows: as pixels for a terminal, or as the content of a file for a notebook.

use crate::interp::ShownPicture;
use crate::picture::raster::Raster;
use crate::picture::{enlargement, plot};
use crate::problem::{HostResult, RuntimeError};

/// Renders a picture as a file. Returns its MIME type, its content, and a description as text.
pub fn file(shown: &ShownPicture) -> HostResult<(&'static str, Vec<u8>, String)> {
    if let ShownPicture::Plot { x, y } = shown {
        let svg = plot::svg(x, y)?;
        return Ok(("image/svg+xml", svg.into_bytes(), format!("a plot of {} points", x.count())));
    }
    let text = match shown {
        ShownPicture::Heat(heat) => format!("{} … {}, from dark to bright", number(heat.low), number(heat.high)),
        ShownPicture::Image(array) => format!("a picture, {}", array.type_name()),
        ShownPicture::Plot { .. } => String::new(),
    };
    let raster = match shown {
        // Returns an error if the array is not a valid image.
        ShownPicture::Image(array) => resize(&Raster::of(array)?),
        _ => raster(shown).ok_or_else(|| RuntimeError::new("E0717", "this is not a picture"))?,
    };
    Ok(("image/png", raster.png()?, text))
}

/// Renders a picture as pixels in a size that suits a terminal.
pub fn raster(shown: &ShownPicture) -> Option<Raster> {
    match shown {
        ShownPicture::Image(array) => Raster::of(array).ok().map(|raster| resize(&raster)),
        ShownPicture::Plot { x, y } => plot::raster(x, y).ok(),
        ShownPicture::Heat(heat) => Some(resize(&heat.raster)),
    }
}

/// Enlarges a small picture, and subsamples a large one.
fn resize(raster: &Raster) -> Raster {
    const SIZE: usize = 480;
    match raster.width.max(raster.height).div_ceil(2 * SIZE) {
        1 => raster.enlarge(enlargement(raster, SIZE)),
        step => raster.subsample(step),
    }
}

/// Formats a number briefly enough for an axis label.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e5).contains(&size) {
        let text = format!("{value:.4}");
        let short = text.trim_end_matches('0').trim_end_matches('.');
        if short == "-0" { "0".into() } else { short.into() }
    } else {
        format!("{value:.2e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_numbers() {
        assert_eq!([number(0.5), number(-0.0), number(1234.0), number(1e9)], ["0.5", "0", "1234", "1.00e9"]);
    }
}
