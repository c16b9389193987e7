//! Draws pictures in the terminal. If the terminal has a graphics protocol, draws pixels. Otherwise, draws images as
//! half blocks (in ASCII, shades) and curves as braille dots (in ASCII, stars).

use crate::console::paint;
use crate::graphics::{self, Protocol};
use clk_base::render::RenderStyle;
use clk_host::array::HostArray;
use clk_host::interp::ShownPicture;
use clk_host::picture::raster::Raster;
use clk_host::picture::shown::{number, raster};
use clk_scalar::{Scalar, ScalarValue};

/// Maximum height of a picture in terminal rows.
const ROWS: usize = 24;

pub(crate) fn draw(shown: &ShownPicture, style: RenderStyle, protocol: Option<Protocol>) -> String {
    let pixels = protocol.and_then(|protocol| graphics::draw(&raster(shown)?, protocol));
    let mut text = match (pixels, shown) {
        (Some(pixels), _) => pixels,
        (None, ShownPicture::Image(array)) => match Pixels::of(array) {
            Some(pixels) => image(&pixels, style),
            None => format!("(an array of type {} is no picture: [H, W] or [H, W, 3 or 4] is)\n", array.type_name()),
        },
        (None, ShownPicture::Plot { x, y }) => plot(&numbers(x), &numbers(y), style),
        (None, ShownPicture::Heat(heat)) => image(&Pixels::of_raster(&heat.raster), style),
    };
    if let ShownPicture::Heat(heat) = shown {
        let dots = if style.ascii { "..." } else { "…" };
        text += &format!("{} {dots} {}, from dark to bright\n", number(heat.low), number(heat.high));
    }
    text
}

/// Converts the elements of an array to `f64`.
fn numbers(array: &HostArray) -> Vec<f64> {
    let Some(ty) = array.scalar() else { return vec![] };
    array.bytes().chunks_exact(ty.size()).map(|bytes| ScalarValue::from_bytes(ty, bytes).as_f64()).collect()
}

/// An array interpreted as an image, with color channels from 0 to 1.
struct Pixels<'a> {
    bytes: &'a [u8],
    ty: Scalar,
    height: usize,
    width: usize,
    channels: usize,
}

impl<'a> Pixels<'a> {
    fn of(array: &'a HostArray) -> Option<Self> {
        let (height, width, channels) = match *array.shape() {
            [h, w] => (h, w, 1),
            [h, w, c @ (3 | 4)] => (h, w, c),
            _ => return None,
        };
        let ty = array.scalar()?;
        let whole = height * width * channels * ty.size();
        let is_complete = height > 0 && width > 0 && array.bytes().len() == whole;
        is_complete.then_some(Pixels { bytes: array.bytes(), ty, height, width, channels })
    }

    fn of_raster(raster: &'a Raster) -> Self {
        Pixels { bytes: &raster.pixels, ty: Scalar::U8, height: raster.height, width: raster.width, channels: 3 }
    }

    fn channel(&self, y: usize, x: usize, channel: usize) -> f64 {
        let at = ((y * self.width + x) * self.channels + channel) * self.ty.size();
        let value =
            self.bytes.get(at..at + self.ty.size()).map_or(0.0, |b| ScalarValue::from_bytes(self.ty, b).as_f64());
        let unit = if self.ty.is_int() { value / 255.0 } else { value };
        if unit.is_nan() { 0.0 } else { unit.clamp(0.0, 1.0) }
    }

    /// Returns the mean color of a rectangle, computed from at most 4 by 4 samples.
    fn mean(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> [f64; 3] {
        let mut sum = [0.0; 3];
        let mut count = 0.0;
        for y in rows.clone().step_by(rows.len().div_ceil(4).max(1)) {
            for x in columns.clone().step_by(columns.len().div_ceil(4).max(1)) {
                let alpha = if self.channels == 4 { self.channel(y, x, 3) } else { 1.0 };
                for (k, total) in sum.iter_mut().enumerate() {
                    *total += alpha * self.channel(y, x, if self.channels == 1 { 0 } else { k });
                }
                count += 1.0;
            }
        }
        sum.map(|total| if count > 0.0 { total / count } else { 0.0 })
    }
}

/// Returns the part of `0..len` that is drawn in cell `i` of `cells`. It is never empty.
fn cell(i: usize, cells: usize, len: usize) -> std::ops::Range<usize> {
    let start = (i * len / cells).min(len - 1);
    start..((i + 1) * len / cells).clamp(start + 1, len)
}

fn image(pixels: &Pixels<'_>, style: RenderStyle) -> String {
    // The height of a character cell is about twice its width, so a cell shows two pixels, one above the other.
    let columns = pixels.width.min(style.width.saturating_sub(2)).min(2 * ROWS * pixels.width / pixels.height).max(1);
    let lines = (columns * pixels.height / pixels.width).clamp(1, 2 * ROWS).div_ceil(2);
    let mut text = String::new();
    for line in 0..lines {
        for column in 0..columns {
            let color = |half: usize| {
                pixels.mean(cell(2 * line + half, 2 * lines, pixels.height), cell(column, columns, pixels.width))
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

/// Returns the minimum and the maximum of the finite values. If they are equal, widens the interval.
fn extent(values: &[f64]) -> Option<(f64, f64)> {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let (low, high) = (finite().reduce(f64::min)?, finite().reduce(f64::max)?);
    Some(if low == high { (low - 0.5, high + 0.5) } else { (low, high) })
}

fn plot(x: &[f64], y: &[f64], style: RenderStyle) -> String {
    let (Some((left, right)), Some((bottom, top))) = (extent(x), extent(y)) else {
        return "(nothing to plot: no finite values)\n".into();
    };
    let (columns, rows) = (style.width.saturating_sub(14).clamp(10, 72), 16);
    let (across, down) = if style.ascii { (1, 1) } else { (2, 4) };
    let mut canvas = DotCanvas::new(columns * across, rows * down);
    let place = |x: f64, y: f64| {
        let dot = |v: f64, low: f64, high: f64, dots: usize| (v - low) / (high - low) * (dots - 1) as f64;
        (dot(x, left, right, canvas.width), (canvas.height - 1) as f64 - dot(y, bottom, top, canvas.height))
    };
    let points: Vec<Option<(f64, f64)>> =
        x.iter().zip(y).map(|(&x, &y)| (x.is_finite() && y.is_finite()).then(|| place(x, y))).collect();
    for pair in points.windows(2) {
        if let [Some((x0, y0)), Some((x1, y1))] = *pair {
            canvas.line(x0, y0, x1, y1);
        }
    }
    for (x, y) in points.into_iter().flatten() {
        canvas.line(x, y, x, y);
    }
    frame(&canvas, left, right, bottom, top, style)
}

/// A bitmap of dots.
struct DotCanvas {
    width: usize,
    height: usize,
    dots: Vec<bool>,
}

impl DotCanvas {
    fn new(width: usize, height: usize) -> Self {
        DotCanvas { width, height, dots: vec![false; width * height] }
    }

    fn line(&mut self, x0: f64, y0: f64, x1: f64, y1: f64) {
        let steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0) as usize;
        for step in 0..=steps {
            let t = step as f64 / steps as f64;
            let (x, y) = ((x0 + t * (x1 - x0)).round() as usize, (y0 + t * (y1 - y0)).round() as usize);
            if x < self.width
                && let Some(dot) = self.dots.get_mut(y * self.width + x)
            {
                *dot = true;
            }
        }
    }

    fn at(&self, x: usize, y: usize) -> bool {
        self.dots.get(y * self.width + x).copied().unwrap_or(false)
    }

    /// Returns the braille character for the dots in a cell, which are two columns by four rows.
    fn braille(&self, column: usize, row: usize) -> char {
        const BITS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let mut bits = 0;
        for (dy, pair) in BITS.iter().enumerate() {
            for (dx, bit) in pair.iter().enumerate() {
                if self.at(2 * column + dx, 4 * row + dy) {
                    bits |= bit;
                }
            }
        }
        char::from_u32(0x2800 + bits).unwrap_or(' ')
    }
}

/// Returns the text of the canvas with axes, whose ends are labeled.
fn frame(canvas: &DotCanvas, left: f64, right: f64, bottom: f64, top: f64, style: RenderStyle) -> String {
    let (columns, rows) =
        if style.ascii { (canvas.width, canvas.height) } else { (canvas.width / 2, canvas.height / 4) };
    let (bar, corner, rule) = if style.ascii { ("|", "+", "-") } else { ("│", "└", "─") };
    let mut text = String::new();
    for row in 0..rows {
        let label = match row {
            0 => number(top),
            r if r + 1 == rows => number(bottom),
            _ => String::new(),
        };
        let line: String = (0..columns)
            .map(|column| match style.ascii {
                true if canvas.at(column, row) => '*',
                true => ' ',
                false => canvas.braille(column, row),
            })
            .collect();
        text += &format!("{label:>10} {bar}{}\n", paint(style, "36", line.trim_end_matches([' ', '\u{2800}'])));
    }
    text += &format!("{:>10} {corner}{}\n", "", rule.repeat(columns));
    let (from, to) = (number(left), number(right));
    text + &format!("{:>12}{from}{to:>width$}\n", "", width = columns.saturating_sub(from.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_host::array::Array;

    fn ascii() -> RenderStyle {
        RenderStyle { ascii: true, ..RenderStyle::default() }
    }

    fn array(items: &[f32], shape: &[usize]) -> HostArray {
        Array::from_shaped(items, shape).and_then(Array::fetched).expect("an array")
    }

    #[test]
    fn a_gray_image_in_ascii() {
        let shown = ShownPicture::Image(array(&[0.0, 1.0, 0.0, 1.0], &[2, 2]));
        assert_eq!(draw(&shown, ascii(), None), " @\n");
        let color = draw(&shown, RenderStyle { color: true, ..RenderStyle::default() }, None);
        assert!(color.contains("\x1b[38;2;255;255;255;48;2;255;255;255m▀"), "{color:?}");
    }

    #[test]
    fn odd_pictures_do_not_panic() {
        for shape in [&[0, 4][..], &[4], &[1, 1], &[3, 1000], &[1000, 3], &[2, 2, 3], &[2, 2, 4], &[2, 2, 5]] {
            let items = vec![f32::NAN; shape.iter().product()];
            draw(&ShownPicture::Image(array(&items, shape)), RenderStyle::default(), None);
            draw(&ShownPicture::Image(array(&items, shape)), RenderStyle::default(), Some(Protocol::Sixel));
        }
        for y in [&[][..], &[1.0], &[f32::NAN, 1.0], &[f32::INFINITY], &[1e30, -1e30]] {
            draw(
                &ShownPicture::Plot { x: array(y, &[y.len()]), y: array(y, &[y.len()]) },
                RenderStyle::default(),
                None,
            );
        }
    }

    #[test]
    fn diagonal_line_connects_the_corners() {
        let y: Vec<f32> = (0..10).map(|i| i as f32).collect();
        let drawn = draw(&ShownPicture::Plot { x: array(&y, &[10]), y: array(&y, &[10]) }, ascii(), None);
        let lines: Vec<&str> = drawn.lines().collect();
        assert!(lines[0].trim_start().starts_with("9 |") && lines[0].ends_with('*'), "{drawn}");
        assert!(lines[15].trim_start().starts_with("0 |*"), "{drawn}");
    }
}
