//! What a script shows, for whoever draws it: as a raster in a size that suits screens, or as the content of a file.

use crate::host::interp::Shown;
use crate::host::picture::raster::Raster;
use crate::host::picture::{enlargement, plot};
use crate::host::problem::{Outcome, Problem};

/// Renders a picture as a file: its MIME type, its content, and what it shows.
pub fn file(shown: &Shown) -> Outcome<(&'static str, Vec<u8>, String)> {
    if let Shown::Plot { x, y } = shown {
        let svg = plot::svg(x, y)?;
        return Ok(("image/svg+xml", svg.into_bytes(), format!("a plot of {} points", x.count())));
    }
    let text = match shown {
        Shown::Heat(heat) => format!("{} … {}, from dark to bright", number(heat.low), number(heat.high)),
        Shown::Image(array) => format!("a picture, {}", array.type_name()),
        Shown::Plot { .. } => String::new(),
    };
    let raster = match shown {
        // An array that is no picture says so.
        Shown::Image(array) => sized(&Raster::of(array)?),
        _ => raster(shown).ok_or_else(|| Problem::new("E0717", "this is no picture"))?,
    };
    Ok(("image/png", raster.png()?, text))
}

/// Renders a picture as pixels in a size that suits a terminal.
pub fn raster(shown: &Shown) -> Option<Raster> {
    match shown {
        Shown::Image(array) => Raster::of(array).ok().map(|raster| sized(&raster)),
        Shown::Plot { x, y } => plot::raster(x, y).ok(),
        Shown::Heat(heat) => Some(sized(&heat.raster)),
    }
}

/// Enlarges a small picture, and thins a large one.
fn sized(raster: &Raster) -> Raster {
    const SIZE: usize = 480;
    match raster.width.max(raster.height).div_ceil(2 * SIZE) {
        1 => raster.enlarged(enlargement(raster, SIZE)),
        step => raster.thinned(step),
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
