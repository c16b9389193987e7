//! Draws pictures in the terminal. If the terminal has a graphics protocol, draws pixels. Otherwise, draws images as
//! half blocks (in ASCII, shades) and charts as characters.

use std::time::{Duration, Instant};

use crate::console::Console;
use crate::figure_text;
use crate::graphics::{self, Protocol};
use clk_base::render::RenderStyle;
use clk_base::stop;
use clk_host::picture::raster::Raster;
use clk_host::picture::shown::{PictureFrame, ShownPicture, number};

/// Maximum height of a picture in terminal rows.
const ROWS: usize = 24;

/// The longest time between two polls for a stop request.
const POLLED: Duration = Duration::from_millis(50);

/// Draws a picture, or the last frame of an animation.
pub(crate) fn draw(shown: &ShownPicture, style: RenderStyle, protocol: Option<Protocol>) -> String {
    let pixels = protocol.and_then(|protocol| graphics::draw(&shown.last().raster(), protocol));
    let mut text = pixels.unwrap_or_else(|| characters(shown.last(), style));
    if let Some((low, high)) = shown.range {
        let dots = if style.ascii { "..." } else { "…" };
        text += &format!("{} {dots} {}, from dark to bright\n", number(low), number(high));
    }
    text
}

/// Plays an animation in characters at its place on the screen, then erases it. The caller draws the last frame.
///
/// All frames have the same height, because their charts have the same axes.
pub(crate) fn play(shown: &ShownPicture, delay: f64, console: &mut Console) {
    for frame in shown.frames() {
        stop::poll();
        let text = characters(frame, console.style);
        console.print(&text);
        let end = Instant::now() + Duration::from_secs_f64(delay);
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            stop::poll();
            std::thread::sleep(left.min(POLLED));
        }
        // Moves to the start of the frame, and clears the screen below.
        console.print(&format!("\x1b[{}A\x1b[J", text.lines().count()));
    }
}

fn characters(frame: &PictureFrame, style: RenderStyle) -> String {
    match frame {
        PictureFrame::Figure(figure) => figure_text::draw(figure, style),
        PictureFrame::Raster(raster) => image(raster, style),
    }
}

/// Returns the mean color of a rectangle, from 0 to 1, computed from at most 4 by 4 samples.
fn mean(raster: &Raster, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> [f64; 3] {
    let mut sum = [0.0; 3];
    let mut count = 0.0;
    for y in rows.clone().step_by(rows.len().div_ceil(4).max(1)) {
        for x in columns.clone().step_by(columns.len().div_ceil(4).max(1)) {
            let pixel = raster.pixels.iter().skip((y * raster.width + x) * 3);
            sum.iter_mut().zip(pixel).for_each(|(total, level)| *total += f64::from(*level) / 255.0);
            count += 1.0;
        }
    }
    sum.map(|total| if count > 0.0 { total / count } else { 0.0 })
}

/// Returns the part of `0..len` that is drawn in cell `i` of `cells`. It is never empty.
fn cell(i: usize, cells: usize, len: usize) -> std::ops::Range<usize> {
    let start = (i * len / cells).min(len - 1);
    start..((i + 1) * len / cells).clamp(start + 1, len)
}

fn image(raster: &Raster, style: RenderStyle) -> String {
    // The height of a character cell is about twice its width, so a cell shows two pixels, one above the other.
    let columns = raster.width.min(style.width.saturating_sub(2)).min(2 * ROWS * raster.width / raster.height).max(1);
    let lines = (columns * raster.height / raster.width).clamp(1, 2 * ROWS).div_ceil(2);
    let mut text = String::new();
    for line in 0..lines {
        for column in 0..columns {
            let color = |half: usize| {
                mean(raster, cell(2 * line + half, 2 * lines, raster.height), cell(column, columns, raster.width))
            };
            let (above, below) = (color(0), color(1));
            if style.color && !style.ascii {
                text += &format!("\x1b[38;2;{};48;2;{}m▀", triple(above), triple(below));
            } else {
                text.push(shade((luma(above) + luma(below)) / 2.0));
            }
        }
        text += if style.color && !style.ascii { "\x1b[0m\n" } else { "\n" };
    }
    text
}

fn triple(color: [f64; 3]) -> String {
    let [r, g, b] = color.map(|c| (c * 255.0).round() as u8);
    format!("{r};{g};{b}")
}

fn luma([r, g, b]: [f64; 3]) -> f64 {
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn shade(luma: f64) -> char {
    const RAMP: &[u8] = b" .:-=+*#%@";
    let at = (luma * RAMP.len() as f64) as usize;
    RAMP.get(at.min(RAMP.len() - 1)).map_or(' ', |&c| c.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_host::array::Array;

    fn ascii() -> RenderStyle {
        RenderStyle { ascii: true, ..RenderStyle::default() }
    }

    fn array(items: &[f32], shape: &[usize]) -> Array {
        Array::from_shaped(items, shape).expect("an array")
    }

    #[test]
    fn a_gray_image_in_ascii() {
        let shown = ShownPicture::image(&array(&[0.0, 1.0, 0.0, 1.0], &[2, 2]), None).expect("a picture");
        assert_eq!(draw(&shown, ascii(), None), " @\n");
        let color = draw(&shown, RenderStyle { color: true, ..RenderStyle::default() }, None);
        assert!(color.contains("\x1b[38;2;255;255;255;48;2;255;255;255m▀"), "{color:?}");
    }

    #[test]
    fn odd_pictures_do_not_panic() {
        for shape in [&[0, 4][..], &[4], &[1, 1], &[3, 1000], &[1000, 3], &[2, 2, 3], &[2, 2, 4], &[2, 2, 5]] {
            let items = vec![f32::NAN; shape.iter().product()];
            let Ok(shown) = ShownPicture::image(&array(&items, shape), None) else { continue };
            assert!(!draw(&shown, RenderStyle::default(), None).is_empty());
            assert!(!draw(&shown, RenderStyle::default(), Some(Protocol::Sixel)).is_empty());
        }
    }

    #[test]
    fn the_last_frame_is_drawn_where_nothing_moves() {
        let frames = array(&[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0], &[2, 2, 2]);
        let shown = ShownPicture::heat(&frames, Some(10.0)).expect("an animation");
        let last = ShownPicture::heat(&array(&[0.0, 0.0, 1.0, 1.0], &[2, 2]), None).expect("a picture");
        assert_eq!(draw(&shown, ascii(), None), draw(&last, ascii(), None));
    }
}
