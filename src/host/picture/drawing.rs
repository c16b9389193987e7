//! [`Drawing`]: a figure laid out in pixels, as a list of shapes. [`super::svg`] writes the shapes as SVG, and
//! [`super::canvas`] paints them, so both formats have the same content.

use super::figure::{Figure, FigureAxis, MAX_LABELS, Mark, Series};
use super::font;
use super::scale::Tick;
use clk_base::{alloc, stop};

pub(crate) type Color = [u8; 3];

/// A point: x and y in pixels from the top left corner.
pub(crate) type PixelPoint = (f64, f64);

pub(crate) const WIDTH: usize = 960;
pub(crate) const HEIGHT: usize = 600;
pub(crate) const PAPER: Color = [255, 255, 255];
const GRID: Color = [225, 228, 232];
const FRAME: Color = [110, 118, 129];
const INK: Color = [36, 41, 47];

/// The colors of series.
const COLORS: [Color; MAX_LABELS] = [
    [9, 105, 218],
    [219, 109, 40],
    [26, 127, 55],
    [207, 34, 46],
    [130, 80, 223],
    [27, 150, 160],
    [191, 57, 137],
    [125, 78, 0],
    [110, 119, 129],
    [154, 135, 0],
];

/// Width in pixels that suffices for the longest numbers of ticks.
const NUMBER_ROOM: f64 = (23 * font::WIDTH) as f64;

/// A line of at most this many points has a dot at each.
const DOTTED: usize = 40;

/// A series with more points than this is reduced to those that can be told apart.
const DENSE: usize = 4 * WIDTH;

/// The position of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A shape in one color.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DrawnShape {
    /// A rectangle with its top left corner, width and height.
    Rectangle {
        corner: PixelPoint,
        size: PixelPoint,
        color: Color,
        opacity: f64,
    },
    /// A line through points, with round ends.
    Polyline {
        points: Vec<PixelPoint>,
        width: f64,
        color: Color,
    },
    Polygon {
        points: Vec<PixelPoint>,
        color: Color,
        opacity: f64,
    },
    Disc {
        center: PixelPoint,
        radius: f64,
        color: Color,
    },
    /// A text in one line that is vertically centered at a point. `is_vertical` texts are read from bottom to top.
    Text {
        text: String,
        at: PixelPoint,
        anchor: Anchor,
        is_vertical: bool,
    },
}

/// The color of all texts.
pub(crate) const TEXT_COLOR: Color = INK;

/// A figure laid out in pixels.
pub(crate) struct Drawing {
    pub shapes: Vec<DrawnShape>,
}

impl Drawing {
    pub fn of(figure: &Figure) -> Drawing {
        let mut drawing = Drawing { shapes: vec![] };
        let layout = drawing.texts(figure);
        drawing.grid(figure, &layout);
        // Bars at the same place may hide each other.
        let in_place = |series: &&Series| matches!(series.mark, Mark::Bars { offset: 0.0, .. });
        let is_overlaid = figure.series.iter().filter(in_place).count() > 1;
        // Dots on a line would look like the points of another series.
        let has_points = figure.series.iter().any(|series| series.mark == Mark::Points);
        for (at, series) in figure.series.iter().enumerate() {
            let color = COLORS[at % COLORS.len()];
            match series.mark {
                Mark::Line => drawing.line(series, color, !has_points, &layout),
                Mark::Points => drawing.points(series, color, &layout),
                Mark::Bars { .. } => {
                    drawing.bars(series, color, if is_overlaid { 0.6 } else { 1.0 }, &layout);
                    drawing.whiskers(series, INK, &layout);
                }
            }
        }
        drawing.frame(&layout);
        drawing
    }

    fn text(&mut self, text: &str, at: PixelPoint, anchor: Anchor, room: f64) {
        self.shapes.push(DrawnShape::Text { text: fit(text, room), at, anchor, is_vertical: false });
    }

    fn rectangle(&mut self, left: f64, top: f64, width: f64, height: f64, color: Color) {
        self.shapes.push(DrawnShape::Rectangle { corner: (left, top), size: (width, height), color, opacity: 1.0 });
    }

    /// Draws the title, the legend, and the labels of the axes. Returns the layout of the rest.
    fn texts<'f>(&mut self, figure: &'f Figure) -> Layout<'f> {
        const MARGIN: f64 = 24.0;
        const LINE: f64 = 28.0;
        let (width, height) = (WIDTH as f64, HEIGHT as f64);
        let widest =
            figure.y.scale.ticks().iter().map(|tick| text_width(&tick.label)).fold(0.0, f64::max).min(NUMBER_ROOM);
        let right = width - 32.0;
        let y_label = if figure.y.label.is_empty() { 0.0 } else { LINE };
        let left = widest + MARGIN + y_label;
        let mut top = MARGIN;
        if !figure.title.is_empty() {
            self.text(&figure.title, ((left + right) / 2.0, top), Anchor::Middle, right - left);
            top += LINE;
        }
        top = self.legend(figure, left, right, top);
        let mut bottom = height - 42.0;
        if !figure.x.label.is_empty() {
            bottom -= LINE;
            self.text(&figure.x.label, ((left + right) / 2.0, height - 20.0), Anchor::Middle, right - left);
        }
        if !figure.y.label.is_empty() {
            let at = (20.0, (top + bottom) / 2.0);
            let text = fit(&figure.y.label, bottom - top);
            self.shapes.push(DrawnShape::Text { text, at, anchor: Anchor::Middle, is_vertical: true });
        }
        Layout { left, right, top, bottom, x: &figure.x, y: &figure.y }
    }

    /// Draws the legend in one or more lines. Returns where the chart begins.
    fn legend(&mut self, figure: &Figure, left: f64, right: f64, top: f64) -> f64 {
        const SWATCH: f64 = 28.0;
        const LINE: f64 = 24.0;
        let (mut x, mut y) = (left, top);
        let labeled = figure.series.iter().enumerate().filter(|(_, series)| !series.label.is_empty());
        let mut is_empty = true;
        for (at, series) in labeled {
            is_empty = false;
            let label = fit(&series.label, right - left - SWATCH);
            let width = SWATCH + text_width(&label) + 24.0;
            if x > left && x + width > right + 24.0 {
                (x, y) = (left, y + LINE);
            }
            let color = COLORS[at % COLORS.len()];
            match series.mark {
                Mark::Line => self.shapes.push(DrawnShape::Polyline {
                    points: vec![(x + 2.0, y), (x + SWATCH - 8.0, y)],
                    width: 2.5,
                    color,
                }),
                Mark::Points => {
                    let center = (x + SWATCH / 2.0 - 3.0, y);
                    self.shapes.push(DrawnShape::Disc { center, radius: 4.0, color });
                }
                Mark::Bars { .. } => self.rectangle(x + 4.0, y - 7.0, 16.0, 14.0, color),
            }
            self.text(&label, (x + SWATCH, y), Anchor::Start, right - left);
            x += width;
        }
        if is_empty { top } else { y + LINE }
    }

    fn grid(&mut self, figure: &Figure, layout: &Layout<'_>) {
        let Layout { left, right, top, bottom, .. } = *layout;
        let mut free = 0.0;
        let ticks = figure.x.scale.ticks();
        let room = match figure.x.scale.has_names() {
            true => ((right - left) / ticks.len().max(1) as f64).max(90.0) - 8.0,
            // Without its last digits, a number would be misleading.
            false => NUMBER_ROOM,
        };
        for (tick, at) in layout.x_ticks() {
            // Lines one pixel wide are sharp if they cover whole pixels.
            self.rectangle(at.floor(), top, 1.0, bottom - top, GRID);
            self.rectangle(at.floor(), bottom, 1.0, 6.0, FRAME);
            // A label that would overlap its neighbor or the edge of the picture is left out.
            let label = fit(&tick.label, room);
            let half = text_width(&label) / 2.0;
            if at - half > free && at + half <= WIDTH as f64 {
                self.text(&label, (at, bottom + 20.0), Anchor::Middle, right);
                free = at + half + 4.0;
            }
        }
        for (tick, at) in layout.y_ticks() {
            self.rectangle(left, at.floor(), right - left, 1.0, GRID);
            self.rectangle(left - 6.0, at.floor(), 6.0, 1.0, FRAME);
            self.text(&tick.label, (left - 10.0, at), Anchor::End, NUMBER_ROOM);
        }
    }

    /// Draws the axes, over the shapes that end there.
    fn frame(&mut self, layout: &Layout<'_>) {
        let Layout { left, right, top, bottom, .. } = *layout;
        self.rectangle(left, top, 1.0, bottom - top, FRAME);
        self.rectangle(left, bottom, right - left, 1.0, FRAME);
    }

    fn points(&mut self, series: &Series, color: Color, layout: &Layout<'_>) {
        self.whiskers(series, color, layout);
        let radius = if series.x.len() > 1000 { 2.0 } else { 3.5 };
        let centers = stop::polled(distinct(layout.pixels(series)));
        self.shapes.extend(centers.map(|center| DrawnShape::Disc { center, radius, color }));
    }

    fn line(&mut self, series: &Series, color: Color, may_have_dots: bool, layout: &Layout<'_>) {
        if series.band.is_some() {
            let bounds = alloc::collect(series.x.len(), series.bounds().map(|bounds| layout.bounds(bounds)));
            for run in stop::polled(runs(&bounds, |bounds| bounds.0.is_nan())) {
                let points = outline(&thin_bounds(run));
                self.shapes.push(DrawnShape::Polygon { points, color, opacity: 0.2 });
            }
        }
        let points = layout.pixels(series);
        for run in stop::polled(runs(&points, |point| point.0.is_nan())) {
            self.shapes.push(match *run {
                // A line through one point would be invisible.
                [center] => DrawnShape::Disc { center, radius: 2.0, color },
                _ => DrawnShape::Polyline { points: thin_points(run), width: 2.5, color },
            });
        }
        if may_have_dots && points.len() <= DOTTED {
            let dots = points.into_iter().filter(|point| !point.0.is_nan());
            self.shapes.extend(dots.map(|center| DrawnShape::Disc { center, radius: 4.0, color }));
        }
    }

    fn bars(&mut self, series: &Series, color: Color, opacity: f64, layout: &Layout<'_>) {
        let zero = layout.base();
        for (x, y) in series.points() {
            let (left, right) = series.sides(x);
            let ((left, top), (right, _)) = (layout.pixel((left, y)), layout.pixel((right, y)));
            if left.is_nan() || right.is_nan() {
                continue;
            }
            let corner = (left, top.min(zero));
            let size = (right - left, (top - zero).abs());
            self.shapes.push(DrawnShape::Rectangle { corner, size, color, opacity });
        }
    }

    /// Draws the error band as a vertical line at each point.
    fn whiskers(&mut self, series: &Series, color: Color, layout: &Layout<'_>) {
        const CAP: f64 = 4.0;
        let offset = if let Mark::Bars { offset, .. } = series.mark { offset } else { 0.0 };
        for (x, low, high) in stop::polled(series.bounds()) {
            let (x, high, low) = layout.bounds((x + offset, low, high));
            // Equal bounds are no error.
            if x.is_nan() || high == low {
                continue;
            }
            let line = |points: Vec<PixelPoint>| DrawnShape::Polyline { points, width: 1.5, color };
            self.shapes.push(line(vec![(x, high), (x, low)]));
            self.shapes.push(line(vec![(x - CAP, high), (x + CAP, high)]));
            self.shapes.push(line(vec![(x - CAP, low), (x + CAP, low)]));
        }
    }
}

/// The rectangle of a chart in pixels, and its axes.
struct Layout<'f> {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: &'f FigureAxis,
    y: &'f FigureAxis,
}

impl Layout<'_> {
    fn x_pixel(&self, value: f64) -> f64 {
        self.left + self.x.scale.position(value) * (self.right - self.left)
    }

    fn y_pixel(&self, value: f64) -> f64 {
        self.bottom - self.y.scale.position(value) * (self.bottom - self.top)
    }

    /// Returns the position of a point; NaN if the point is not finite.
    fn pixel(&self, (x, y): (f64, f64)) -> PixelPoint {
        if x.is_finite() && y.is_finite() { (self.x_pixel(x), self.y_pixel(y)) } else { (f64::NAN, f64::NAN) }
    }

    /// Returns the position of `(x, low, high)`, as x and the pixel rows of `high` and `low`; NaN if one of them is not
    /// finite.
    fn bounds(&self, (x, low, high): (f64, f64, f64)) -> (f64, f64, f64) {
        match x.is_finite() && low.is_finite() && high.is_finite() {
            true => (self.x_pixel(x), self.y_pixel(high), self.y_pixel(low)),
            false => (f64::NAN, f64::NAN, f64::NAN),
        }
    }

    fn pixels(&self, series: &Series) -> Vec<PixelPoint> {
        alloc::collect(series.x.len(), stop::polled(series.points().map(|point| self.pixel(point))))
    }

    /// Returns the pixel row at which bars begin: that of zero, or the lower end of a logarithmic axis.
    fn base(&self) -> f64 {
        self.y_pixel(0.0).clamp(self.top, self.bottom)
    }

    fn x_ticks(&self) -> impl Iterator<Item = (&Tick, f64)> {
        self.x.scale.ticks().iter().map(|tick| (tick, self.x_pixel(tick.value)))
    }

    fn y_ticks(&self) -> impl Iterator<Item = (&Tick, f64)> {
        self.y.scale.ticks().iter().map(|tick| (tick, self.y_pixel(tick.value)))
    }
}

/// Splits points into sequences without gaps.
fn runs<T>(points: &[T], is_gap: fn(&T) -> bool) -> impl Iterator<Item = &[T]> {
    points.split(is_gap).filter(|run| !run.is_empty())
}

/// Reduces very many points with nondecreasing x to the first, lowest, highest and last point of each column of pixels.
/// The chart looks the same.
fn thin_points(points: &[PixelPoint]) -> Vec<PixelPoint> {
    let is_rising = stop::polled(points.windows(2)).all(|pair| pair[0].0 <= pair[1].0);
    if points.len() <= DENSE || !is_rising {
        return alloc::copy(points);
    }
    let mut kept = Vec::new();
    for column in stop::polled(points.chunk_by(|a, b| a.0.floor() == b.0.floor())) {
        let by_height = |a: &&PixelPoint, b: &&PixelPoint| a.1.total_cmp(&b.1);
        kept.extend(column.first());
        kept.extend(column.iter().min_by(by_height));
        kept.extend(column.iter().max_by(by_height));
        kept.extend(column.last());
    }
    kept
}

/// Like [`thin_points`], for `(x, top, bottom)`: keeps the highest top and the lowest bottom of each column.
fn thin_bounds(bounds: &[(f64, f64, f64)]) -> Vec<(f64, f64, f64)> {
    let is_rising = stop::polled(bounds.windows(2)).all(|pair| pair[0].0 <= pair[1].0);
    if bounds.len() <= DENSE || !is_rising {
        return alloc::copy(bounds);
    }
    let columns = stop::polled(bounds.chunk_by(|a, b| a.0.floor() == b.0.floor()));
    columns
        .filter_map(|column| {
            let top = column.iter().map(|bounds| bounds.1).reduce(f64::min)?;
            let bottom = column.iter().map(|bounds| bounds.2).reduce(f64::max)?;
            Some((column.first()?.0, top, bottom))
        })
        .collect()
}

/// Returns the outline of a band: its upper side from left to right, then its lower side backward.
fn outline(bounds: &[(f64, f64, f64)]) -> Vec<PixelPoint> {
    let above = bounds.iter().map(|&(x, top, _)| (x, top));
    let below = bounds.iter().rev().map(|&(x, _, bottom)| (x, bottom));
    alloc::collect(2 * bounds.len(), above.chain(below))
}

/// Drops gaps, and points of very many in the same pixel as an earlier one.
fn distinct(mut points: Vec<PixelPoint>) -> Vec<PixelPoint> {
    points.retain(|point| !point.0.is_nan());
    if points.len() > DENSE {
        let mut is_taken = vec![false; WIDTH * HEIGHT];
        points.retain(|(x, y)| {
            let at = (*y as usize).min(HEIGHT - 1) * WIDTH + (*x as usize).min(WIDTH - 1);
            !std::mem::replace(&mut is_taken[at], true)
        });
    }
    points
}

/// Returns the width of a text in pixels.
fn text_width(text: &str) -> f64 {
    (text.chars().count() * font::WIDTH) as f64
}

/// Cuts a text that is wider than `room`.
fn fit(text: &str, room: f64) -> String {
    let most = (room / font::WIDTH as f64).max(4.0) as usize;
    match text.chars().count() <= most {
        true => text.to_string(),
        false => text.chars().take(most - 3).chain("...".chars()).collect(),
    }
}
