//! [`Figure`]: the content of a chart, independent of the renderer: series, axes and texts.
//!
//! Input: series of numbers and the options of a call. Output: a figure, or the reason why it cannot be drawn.
//! [`super::drawing`] lays it out for PNG and SVG; `app` draws it in the terminal.

use super::scale::Scale;
use crate::problem::{HostResult, RuntimeError};
use clk_base::stop;

/// The largest number of labeled series, which is the number of colors.
pub const MAX_LABELS: usize = 10;

/// The largest number of bars of a series. More of them would be narrower than a pixel.
pub(crate) const MAX_BARS: usize = 2000;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    Line,
    Points,
    /// Bars from zero to each value. The bar of `x` is centered at `x + offset`.
    Bars {
        offset: f64,
        width: f64,
    },
}

/// The lower and upper bounds of the values of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorBand {
    pub low: Vec<f64>,
    pub high: Vec<f64>,
}

/// Points that are drawn in one color.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The text in the legend; empty if it has none.
    pub label: String,
    pub mark: Mark,
    pub x: Vec<f64>,
    /// As many numbers as `x`.
    pub y: Vec<f64>,
    pub band: Option<ErrorBand>,
}

impl Series {
    /// Returns the points, in order. A point that is not finite is a gap.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.x.iter().copied().zip(self.y.iter().copied())
    }

    /// Returns the left and right ends of the bar at `x`, or `x` twice if the series has no bars.
    pub fn sides(&self, x: f64) -> (f64, f64) {
        match self.mark {
            Mark::Bars { offset, width } => (x + offset - width / 2.0, x + offset + width / 2.0),
            Mark::Line | Mark::Points => (x, x),
        }
    }

    /// Returns the bounds of the values: `(x, low, high)` for each point.
    pub fn bounds(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let band = self.band.iter().flat_map(|band| band.low.iter().copied().zip(band.high.iter().copied()));
        self.x.iter().copied().zip(band).map(|(x, (low, high))| (x, low, high))
    }
}

/// An axis: its scale and its label.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureAxis {
    pub label: String,
    pub scale: Scale,
}

/// A chart. It has at least one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub title: String,
    pub x: FigureAxis,
    pub y: FigureAxis,
    pub series: Vec<Series>,
}

/// The texts and scales of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FigureOptions {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub log_x: bool,
    pub log_y: bool,
    /// The names of the values 0, 1, 2, … of x, if they have names.
    pub names: Vec<String>,
}

/// The smallest and the largest value of an axis.
type FiniteRange = Option<(f64, f64)>;

impl Figure {
    /// Creates figures with the same axes, one for each frame of an animation. A frame is a list of series.
    pub fn frames(frames: Vec<Vec<Series>>, options: &FigureOptions) -> HostResult<Vec<Figure>> {
        let (mut x, mut y): (FiniteRange, FiniteRange) = (None, None);
        for series in frames.iter().flatten() {
            check_series(series, options)?;
            extend(series, &mut x, &mut y);
        }
        let (Some((left, right)), Some((low, high))) = (x, y) else {
            return Err(RuntimeError::new("E0717", "there is nothing to plot").label("no point has two finite numbers"));
        };
        // Bars begin at zero, or, on a logarithmic axis, at its lower bound.
        let is_bars = frames.iter().flatten().any(|series| matches!(series.mark, Mark::Bars { .. }));
        let (low, high) = if is_bars && !options.log_y { (low.min(0.0), high.max(0.0)) } else { (low, high) };
        let x = match options.log_x {
            _ if !options.names.is_empty() => Scale::of_names(&options.names),
            true => Scale::logarithmic(left, right, 0.02, 9),
            false => Scale::linear(left, right, 0.02, 9),
        };
        let y = match options.log_y {
            true => Scale::logarithmic(low, high, 0.06, 7),
            // There is no margin below bars, so that they stand on the axis.
            false if is_bars && low == 0.0 && high > 0.0 => Scale::linear(0.0, (high * 1.06).min(f64::MAX), 0.0, 7),
            false => Scale::linear(low, high, 0.06, 7),
        };
        let figure = |series| Figure {
            title: clean(&options.title),
            x: FigureAxis { label: clean(&options.x_label), scale: x.clone() },
            y: FigureAxis { label: clean(&options.y_label), scale: y.clone() },
            series,
        };
        Ok(frames.into_iter().map(figure).collect())
    }

    /// Creates a figure.
    pub fn new(series: Vec<Series>, options: &FigureOptions) -> HostResult<Figure> {
        let none = || RuntimeError::new("E0717", "there is nothing to plot").label("there are no frames");
        Figure::frames(vec![series], options)?.pop().ok_or_else(none)
    }

    /// Returns the number of points of all series.
    pub fn point_count(&self) -> usize {
        self.series.iter().map(|series| series.x.len()).sum()
    }
}

/// Replaces line ends and tabs by spaces, and other control characters by U+FFFD, for a text in one line.
pub fn clean(text: &str) -> String {
    let replaced = text.chars().map(|c| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => '\u{FFFD}',
        c => c,
    });
    replaced.collect()
}

fn check_series(series: &Series, options: &FigureOptions) -> HostResult<()> {
    if options.log_x {
        positive(series.x.iter().copied(), 'x')?;
    }
    if options.log_y {
        positive(series.y.iter().copied(), 'y')?;
        positive(series.bounds().flat_map(|(_, low, high)| [low, high]), 'y')?;
    }
    if series.x.len() > MAX_BARS && matches!(series.mark, Mark::Bars { .. }) {
        let title = format!("a chart shows at most {MAX_BARS} bars, not {}", series.x.len());
        return Err(RuntimeError::new("E0717", title).help("`plot` draws this many values, and `hist` counts them"));
    }
    let crossed = || stop::polled(series.bounds()).find(|(_, low, high)| low > high);
    if let Some((x, low, high)) = crossed() {
        let title = format!("`low` is above `high` at x = {x}: {low} and {high}");
        return Err(RuntimeError::new("E0717", title));
    }
    Ok(())
}

/// Refuses numbers that a logarithmic axis does not have.
fn positive(numbers: impl Iterator<Item = f64>, axis: char) -> HostResult<()> {
    match stop::polled(numbers).find(|number| *number <= 0.0) {
        Some(number) => Err(RuntimeError::new(
            "E0717",
            format!("a logarithmic axis does not have the number {number}"),
        )
        .label(format!("{axis} is logarithmic, and one of its numbers is not positive"))
        .help("leave such points out with a mask: `let keep = y > 0.0`, then `plot(x[keep], y[keep], log = \"y\")`")),
        None => Ok(()),
    }
}

fn extend(series: &Series, x: &mut FiniteRange, y: &mut FiniteRange) {
    let add = |extent: &mut FiniteRange, low: f64, high: f64| {
        let (least, most) = extent.unwrap_or((low, high));
        *extent = Some((least.min(low), most.max(high)));
    };
    let values = series.points().map(|(x, y)| (x, y, y));
    for (at, low, high) in stop::polled(values.chain(series.bounds())) {
        let (left, right) = series.sides(at);
        if left.is_finite() && right.is_finite() && low.is_finite() && high.is_finite() {
            add(x, left, right);
            add(y, low, high);
        }
    }
}
