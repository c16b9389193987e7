//! `plot`: a line chart with a grid and labeled ticks.

use std::fmt::Write as _;

use super::canvas::{Color, PixelCanvas, PixelPoint};
use super::font;
use super::raster::Raster;
use crate::array::{Array, shape_text};
use crate::problem::{HostResult, RuntimeError};
use clk_base::{alloc, stop};
use clk_scalar::ScalarValue;

const WIDTH: usize = 960;
const HEIGHT: usize = 600;
const SCALE: i64 = 2;
const PAPER: Color = [255, 255, 255];
const GRID: Color = [225, 228, 232];
const FRAME: Color = [110, 118, 129];
const INK: Color = [36, 41, 47];
const LINE: Color = [9, 105, 218];

/// Encodes the chart as PNG.
pub(crate) fn png(x: &Array, y: &Array) -> HostResult<Vec<u8>> {
    raster(x, y)?.png()
}

/// Splits the points into sequences of finite points. Each is drawn as a separate line.
fn runs(points: &[PixelPoint]) -> Vec<&[PixelPoint]> {
    let mut runs = Vec::new();
    let mut start = 0;
    for (at, (x, y)) in stop::polled(points.iter().enumerate()) {
        if !x.is_finite() || !y.is_finite() {
            alloc::reserve(&mut runs, 1);
            runs.push(&points[start..at]);
            start = at + 1;
        }
    }
    runs.push(&points[start..]);
    runs.retain(|run| !run.is_empty());
    runs
}

/// Renders the chart as pixels.
pub fn raster(x: &Array, y: &Array) -> HostResult<Raster> {
    let points = points(x, y)?;
    let canvas = Chart::new(&points)?.draw(&points);
    let (width, height) = canvas.size();
    Ok(Raster { width: width as usize, height: height as usize, pixels: canvas.pixels().to_vec() })
}

/// Renders the chart as SVG.
pub fn svg(x: &Array, y: &Array) -> HostResult<String> {
    let points = points(x, y)?;
    Ok(Chart::new(&points)?.svg(&points))
}

/// Returns the points whose coordinates are the elements of `x` and `y`, which must have the same length.
fn points(x: &Array, y: &Array) -> HostResult<Vec<PixelPoint>> {
    if x.count() != y.count() || x.rank() > 1 || y.rank() > 1 {
        let (a, b) = (shape_text(x.shape()), shape_text(y.shape()));
        let title = format!("`plot` needs two arrays of one axis and one length, not of shape {a} and {b}");
        return Err(RuntimeError::new("E0717", title));
    }
    let (x, y) = (numbers(x)?, numbers(y)?);
    Ok(alloc::collect(x.len(), x.into_iter().zip(y)))
}

fn numbers(array: &Array) -> HostResult<Vec<f64>> {
    let Some(scalar) = array.scalar().filter(|_| array.element().lanes() == 1) else {
        let title = format!("`plot` draws numbers, not elements of type {}", array.element());
        return Err(RuntimeError::new("E0717", title));
    };
    let numbers =
        array.bytes()?.chunks_exact(scalar.size()).map(|bytes| ScalarValue::from_bytes(scalar, bytes).as_f64());
    Ok(alloc::collect(array.count(), stop::polled(numbers)))
}

/// An axis: its range of values, its range of pixels, and its ticks.
struct PlotAxis {
    low: f64,
    high: f64,
    /// Pixel coordinates of `low` and `high`.
    from: f64,
    to: f64,
    ticks: Vec<f64>,
    labels: Vec<String>,
}

impl PlotAxis {
    /// Creates an axis for values in a range, with a margin and about `count` ticks.
    fn new(low: f64, high: f64, margin: f64, count: f64) -> PlotAxis {
        // If all values are equal, the range of the axis is centered at them.
        let spread = if high > low { high - low } else { low.abs().max(1.0) };
        let margin = if high > low { spread * margin } else { spread / 2.0 };
        let (low, high) = ((low - margin).max(-f64::MAX / 4.0), (high + margin).min(f64::MAX / 4.0));
        let step = nice((high - low) / count);
        let first = (low / step).ceil() as i64;
        let ticks: Vec<f64> = (0..100).map(|k| (first + k) as f64 * step).take_while(|tick| *tick <= high).collect();
        let labels = labels(&ticks, step);
        PlotAxis { low, high, from: 0.0, to: 1.0, ticks, labels }
    }

    fn pixel(&self, number: f64) -> f64 {
        self.from + (number - self.low) / (self.high - self.low) * (self.to - self.from)
    }
}

/// Returns a number near `step` that is 1, 2 or 5 times a power of ten, for the distance of ticks.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * 0.999).unwrap_or(10.0);
    let nice = factor * power;
    if nice.is_finite() && nice > 0.0 { nice } else { f64::MIN_POSITIVE }
}

/// Formats the ticks, with as many decimals as their distance requires. Very large or small numbers are in scientific
/// notation.
fn labels(ticks: &[f64], step: f64) -> Vec<String> {
    let largest = ticks.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let short = largest < 1e6 && decimals <= 6;
    let digits = (largest / step).log10().ceil().clamp(0.0, 12.0) as usize;
    let label = |tick: &f64| match short {
        true => format!("{tick:.decimals$}"),
        false if *tick == 0.0 => "0".into(),
        false => trim(&format!("{tick:.digits$e}")),
    };
    let label = |tick: &f64| if *tick == 0.0 && short { format!("{:.decimals$}", 0.0) } else { label(tick) };
    ticks.iter().map(label).collect()
}

/// Removes trailing zeros of the mantissa: `1.500e3` becomes `1.5e3`.
fn trim(text: &str) -> String {
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.to_string(),
    }
}

struct Chart {
    x: PlotAxis,
    y: PlotAxis,
}

const TOP: i64 = 24;
const RIGHT: i64 = 32;
const BOTTOM: i64 = 52;
const GAP: i64 = 10;

impl Chart {
    fn new(points: &[PixelPoint]) -> HostResult<Chart> {
        let finite = || stop::polled(points).filter(|(x, y)| x.is_finite() && y.is_finite());
        if finite().next().is_none() {
            return Err(RuntimeError::new("E0717", "there is nothing to plot").label("no point has two finite numbers"));
        }
        let range = |of: fn(&PixelPoint) -> f64| {
            finite().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), n| (low.min(n), high.max(n)))
        };
        let ((left, right), (low, high)) = (range(|p| p.0), range(|p| p.1));
        let (mut x, mut y) = (PlotAxis::new(left, right, 0.02, 9.0), PlotAxis::new(low, high, 0.06, 7.0));
        let widest = y.labels.iter().map(|label| text_width(label)).max().unwrap_or(0);
        (x.from, x.to) = ((widest + 3 * GAP) as f64, (WIDTH as i64 - RIGHT) as f64);
        (y.from, y.to) = ((HEIGHT as i64 - BOTTOM) as f64, TOP as f64);
        Ok(Chart { x, y })
    }

    fn pixels(&self, run: &[PixelPoint]) -> Vec<PixelPoint> {
        alloc::collect(run.len(), run.iter().map(|(x, y)| (self.x.pixel(*x), self.y.pixel(*y))))
    }

    fn draw(&self, points: &[PixelPoint]) -> PixelCanvas {
        let mut canvas = PixelCanvas::new(WIDTH, HEIGHT, PAPER);
        self.grid(&mut canvas);
        for run in stop::polled(runs(points)) {
            canvas.line(&thin_points(self.pixels(run)), 2.5, LINE);
        }
        if points.len() <= 40 {
            let finite = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            finite.for_each(|(x, y)| canvas.dot((self.x.pixel(*x), self.y.pixel(*y)), 4.0, LINE));
        }
        canvas
    }

    fn grid(&self, canvas: &mut PixelCanvas) {
        let (left, right) = (self.x.from as i64, self.x.to as i64);
        let (top, bottom) = (self.y.to as i64, self.y.from as i64);
        for (tick, label) in self.x.ticks.iter().zip(&self.x.labels) {
            let at = self.x.pixel(*tick).round() as i64;
            canvas.rectangle(at, top, 1, bottom - top, GRID);
            canvas.rectangle(at, bottom, 1, 6, FRAME);
            canvas.text(label, at - text_width(label) / 2, bottom + GAP + 4, SCALE, INK);
        }
        for (tick, label) in self.y.ticks.iter().zip(&self.y.labels) {
            let at = self.y.pixel(*tick).round() as i64;
            canvas.rectangle(left, at, right - left, 1, GRID);
            canvas.rectangle(left - 6, at, 6, 1, FRAME);
            let half = font::HEIGHT as i64 * SCALE / 2;
            canvas.text(label, left - GAP - text_width(label), at - half, SCALE, INK);
        }
        canvas.rectangle(left, top, 1, bottom - top, FRAME);
        canvas.rectangle(left, bottom, right - left, 1, FRAME);
    }

    fn svg(&self, points: &[PixelPoint]) -> String {
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n",
            hex(PAPER)
        );
        self.svg_grid(&mut text);
        for run in stop::polled(runs(points)) {
            let pixels = thin_points(self.pixels(run));
            let line = alloc::collect(pixels.len(), pixels.iter().map(|(x, y)| format!("{x:.2},{y:.2}")));
            let _ = writeln!(
                text,
                "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2.5\" stroke-linejoin=\"round\" stroke-linecap=\"round\" points=\"{}\"/>",
                hex(LINE),
                line.join(" ")
            );
        }
        if points.len() <= 40 {
            for (x, y) in points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
                let (x, y) = (self.x.pixel(*x), self.y.pixel(*y));
                let _ = writeln!(text, "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"4\" fill=\"{}\"/>", hex(LINE));
            }
        }
        text + "</svg>\n"
    }

    fn svg_grid(&self, text: &mut String) {
        let mut line = |x1: f64, y1: f64, x2: f64, y2: f64, color: Color| {
            let color = hex(color);
            let _ = writeln!(
                text,
                "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\"/>"
            );
        };
        let (left, right, top, bottom) = (self.x.from, self.x.to, self.y.to, self.y.from);
        for at in self.x.ticks.iter().map(|tick| self.x.pixel(*tick)) {
            line(at, top, at, bottom, GRID);
            line(at, bottom, at, bottom + 6.0, FRAME);
        }
        for at in self.y.ticks.iter().map(|tick| self.y.pixel(*tick)) {
            line(left, at, right, at, GRID);
            line(left - 6.0, at, left, at, FRAME);
        }
        line(left, top, left, bottom, FRAME);
        line(left, bottom, right, bottom, FRAME);
        let mut label = |x: f64, y: f64, anchor: &str, label: &str| {
            let style = "font-family=\"sans-serif\" font-size=\"16\"";
            let _ = writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" {style} text-anchor=\"{anchor}\" fill=\"{}\">{label}</text>",
                hex(INK)
            );
        };
        for (tick, words) in self.x.ticks.iter().zip(&self.x.labels) {
            label(self.x.pixel(*tick), bottom + 26.0, "middle", words);
        }
        for (tick, words) in self.y.ticks.iter().zip(&self.y.labels) {
            label(left - GAP as f64, self.y.pixel(*tick) + 5.0, "end", words);
        }
    }
}

fn hex([red, green, blue]: Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn text_width(text: &str) -> i64 {
    text.chars().count() as i64 * (font::WIDTH as i64 + 1) * SCALE
}

/// Reduces very many points with nondecreasing x to the first, lowest, highest and last point of each column of pixels.
/// The chart looks the same.
fn thin_points(points: Vec<PixelPoint>) -> Vec<PixelPoint> {
    let rising = stop::polled(points.windows(2)).all(|pair| if let [a, b] = pair { a.0 <= b.0 } else { true });
    if points.len() <= 4 * WIDTH || !rising {
        return points;
    }
    let mut kept_points = Vec::new();
    for column in stop::polled(points.chunk_by(|a, b| a.0.floor() == b.0.floor())) {
        let by_height = |a: &&PixelPoint, b: &&PixelPoint| a.1.total_cmp(&b.1);
        kept_points.extend(column.first());
        kept_points.extend(column.iter().min_by(by_height));
        kept_points.extend(column.iter().max_by(by_height));
        kept_points.extend(column.last());
    }
    kept_points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let axis = PlotAxis::new(0.0, 1.0, 0.0, 5.0);
        assert_eq!(axis.labels, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(PlotAxis::new(-30.0, 70.0, 0.0, 5.0).labels, ["-20", "0", "20", "40", "60"]);
        assert_eq!(PlotAxis::new(0.0, 4e-9, 0.0, 4.0).labels, ["0", "1e-9", "2e-9", "3e-9", "4e-9"]);
        assert_eq!(PlotAxis::new(7.0, 7.0, 0.1, 3.0).labels, ["5", "10"]);
    }

    #[test]
    fn every_range_has_an_axis() {
        for (low, high) in
            [(-f64::MAX, f64::MAX), (0.0, f64::MIN_POSITIVE), (1.0, 1.0 + f64::EPSILON), (1e300, 2e300), (0.0, 0.0)]
        {
            let axis = PlotAxis::new(low, high, 0.05, 7.0);
            assert!(axis.high > axis.low && axis.ticks.len() < 100, "{low} {high}");
        }
    }

    #[test]
    fn charts_are_pictures() {
        let y = Array::from_items(&[1.0f32, f32::NAN, -3.0, 2.0]).unwrap();
        let x = Array::from_items(&[0i32, 1, 2, 3]).unwrap();
        assert!(png(&x, &y).unwrap().starts_with(b"\x89PNG"));
        let drawing = svg(&x, &y).unwrap();
        assert!(drawing.starts_with("<svg ") && drawing.contains("<text ") && drawing.ends_with("</svg>\n"));
        assert_eq!(drawing.matches("<polyline ").count(), 2, "NaN breaks the line");
        let short = Array::from_items(&[0i32]).unwrap();
        assert_eq!(png(&short, &y).unwrap_err().code, "E0717");
        let nothing = Array::from_items(&[f64::NAN]).unwrap();
        assert_eq!(png(&short, &nothing).unwrap_err().label, "no point has two finite numbers");
        assert!(thin_points((0..100_000).map(|i| (i as f64 / 1000.0, (i % 7) as f64)).collect()).len() <= 404);
    }
}
