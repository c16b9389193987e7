//! Draws charts as characters: braille dots, or in ASCII, a mark for each series.

use crate::console::paint;
use clk_base::render::RenderStyle;
use clk_base::stop;
use clk_host::picture::figure::{Figure, MAX_LABELS, Mark, Series};
use clk_host::picture::scale::Scale;

/// Height of the chart in terminal rows.
const ROWS: usize = 16;

/// The least and the most columns for the labels of the y axis.
const LABEL_COLUMNS: (usize, usize) = (10, 24);

/// The colors of series, as parameters of the escape sequence "select graphic rendition".
const COLORS: [&str; MAX_LABELS] = ["36", "33", "32", "31", "35", "34", "96", "93", "92", "91"];

/// The marks of series without color.
const MARKS: [char; MAX_LABELS] = ['*', '+', 'x', 'o', '#', '@', '%', '&', '=', '$'];

/// The mark of error bands.
const BAND: char = '.';

pub(crate) fn draw(figure: &Figure, style: RenderStyle) -> String {
    // Without color, braille dots of several series look the same.
    let has_marks = style.ascii || !style.color && figure.series.len() > 1;
    let widest = figure.y.scale.ticks().iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0);
    let label_columns = widest.clamp(LABEL_COLUMNS.0, LABEL_COLUMNS.1);
    let columns = style.width.saturating_sub(label_columns + 4).clamp(10, 72);
    let (across, down) = if has_marks { (1, 1) } else { (2, 4) };
    let mut canvas = DotCanvas::new(columns * across, ROWS * down);
    for (at, series) in figure.series.iter().enumerate() {
        canvas.series(series, at, figure);
    }
    let chart = TextChart { figure, canvas, label_columns, columns, has_marks, style };
    chart.text()
}

/// A dot of a chart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SeriesDot {
    series: usize,
    is_band: bool,
}

/// A bitmap of dots.
struct DotCanvas {
    width: usize,
    height: usize,
    dots: Vec<Option<SeriesDot>>,
}

impl DotCanvas {
    fn new(width: usize, height: usize) -> Self {
        DotCanvas { width, height, dots: vec![None; width * height] }
    }

    /// Returns the column and the row of a point, which may be outside of the canvas; none if it is not finite.
    fn place(&self, (x, y): (f64, f64), figure: &Figure) -> Option<(f64, f64)> {
        let dot = |scale: &Scale, value: f64, dots: usize| scale.position(value) * (dots - 1) as f64;
        let is_finite = x.is_finite() && y.is_finite();
        let row = |y: f64| (self.height - 1) as f64 - dot(&figure.y.scale, y, self.height);
        is_finite.then(|| (dot(&figure.x.scale, x, self.width), row(y)))
    }

    fn series(&mut self, series: &Series, at: usize, figure: &Figure) {
        let dot = SeriesDot { series: at, is_band: false };
        self.band(series, at, figure);
        match series.mark {
            Mark::Line => {
                let mut before = None;
                for point in stop::polled(series.points()) {
                    let place = self.place(point, figure);
                    if let Some(to) = place {
                        self.line(before.unwrap_or(to), to, dot);
                    }
                    before = place;
                }
            }
            Mark::Points => {
                for point in stop::polled(series.points()) {
                    let Some(place) = self.place(point, figure) else { continue };
                    self.line(place, place, dot);
                }
            }
            Mark::Bars { .. } => self.bars(series, dot, figure),
        }
    }

    fn bars(&mut self, series: &Series, dot: SeriesDot, figure: &Figure) {
        let base = figure.y.scale.position(0.0).clamp(0.0, 1.0);
        let base = (1.0 - base) * (self.height - 1) as f64;
        for (x, y) in stop::polled(series.points()) {
            let (left, right) = series.sides(x);
            let ends = (self.place((left, y), figure), self.place((right, y), figure));
            let (Some((left, top)), Some((right, _)), true) = (ends.0, ends.1, y != 0.0) else { continue };
            // The last column belongs to the next bar, unless the bar has only one.
            let (left, right) = (left.round(), (right.round() - 1.0).max(left.round()));
            for column in left as usize..=right as usize {
                self.line((column as f64, base), (column as f64, top), dot);
            }
        }
    }

    fn band(&mut self, series: &Series, at: usize, figure: &Figure) {
        let dot = SeriesDot { series: at, is_band: true };
        let offset = if let Mark::Bars { offset, .. } = series.mark { offset } else { 0.0 };
        for (x, low, high) in stop::polled(series.bounds()) {
            let ends = (self.place((x + offset, low), figure), self.place((x + offset, high), figure));
            if let (Some(low), Some(high)) = ends {
                self.line(low, high, dot);
            }
        }
    }

    fn line(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64), dot: SeriesDot) {
        let steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0) as usize;
        for step in 0..=steps {
            let t = step as f64 / steps as f64;
            let (x, y) = ((x0 + t * (x1 - x0)).round(), (y0 + t * (y1 - y0)).round());
            // Bands are drawn sparsely.
            let is_left_out = dot.is_band && self.height > ROWS && !((x + y) as i64).rem_euclid(3).eq(&0);
            if x < 0.0 || y < 0.0 || x as usize >= self.width || is_left_out {
                continue;
            }
            if let Some(place) = self.dots.get_mut(y as usize * self.width + x as usize)
                && !(dot.is_band && place.is_some())
            {
                *place = Some(dot);
            }
        }
    }

    fn at(&self, x: usize, y: usize) -> Option<SeriesDot> {
        self.dots.get(y * self.width + x).copied().flatten()
    }

    /// Returns the braille character for the dots in a cell, which are two columns by four rows, and the last series in
    /// it.
    fn braille(&self, column: usize, row: usize) -> (char, Option<usize>) {
        const BITS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let (mut bits, mut series) = (0, None);
        for (dy, pair) in BITS.iter().enumerate() {
            for (dx, bit) in pair.iter().enumerate() {
                if let Some(dot) = self.at(2 * column + dx, 4 * row + dy) {
                    bits |= bit;
                    series = series.max(Some(dot.series));
                }
            }
        }
        (char::from_u32(0x2800 + bits).unwrap_or(' '), series)
    }
}

/// A chart whose series have been drawn.
struct TextChart<'f> {
    figure: &'f Figure,
    canvas: DotCanvas,
    /// Width of the labels of the y axis.
    label_columns: usize,
    columns: usize,
    has_marks: bool,
    style: RenderStyle,
}

impl TextChart<'_> {
    /// Returns the text of the chart with its title, legend and axes.
    fn text(&self) -> String {
        let mut text = String::new();
        let indent = " ".repeat(self.label_columns + 2);
        if !self.figure.title.is_empty() {
            text += &format!("{indent}{}\n", center(&self.figure.title, self.columns));
        }
        if !self.figure.y.label.is_empty() {
            text += &format!("{}\n", cut(&self.figure.y.label, self.columns + self.label_columns));
        }
        text += &self.legend(&indent);
        let bar = if self.style.ascii { '|' } else { '│' };
        let labels = self.row_labels();
        for (row, label) in labels.iter().enumerate() {
            text += &format!("{label:>0$} {bar}{1}\n", self.label_columns, self.row(row));
        }
        text += &self.x_axis(&indent);
        if !self.figure.x.label.is_empty() {
            text += &format!("{indent}{}\n", center(&self.figure.x.label, self.columns));
        }
        text
    }

    /// Returns the labels of the series, as many in each line as fit.
    fn legend(&self, indent: &str) -> String {
        let mut text = String::new();
        let mut used = 0;
        for (at, series) in self.figure.series.iter().enumerate().filter(|(_, series)| !series.label.is_empty()) {
            let label = cut(&series.label, self.columns.saturating_sub(4));
            let width = label.chars().count() + 5;
            match used {
                0 => text += indent,
                _ if used + width > self.columns => {
                    text += &format!("\n{indent}");
                    used = 0;
                }
                _ => text += "   ",
            }
            let mark = if self.has_marks { MARKS[at % MARKS.len()] } else { '━' };
            text += &format!("{} {label}", paint(self.style, COLORS[at % COLORS.len()], &mark.to_string()));
            used += width;
        }
        if text.is_empty() { text } else { text + "\n" }
    }

    /// Returns the label of each row, from the top.
    fn row_labels(&self) -> Vec<String> {
        let mut labels = vec![String::new(); ROWS];
        for tick in self.figure.y.scale.ticks() {
            let row = (1.0 - self.figure.y.scale.position(tick.value)) * (ROWS - 1) as f64;
            if let Some(label) = labels.get_mut(row.round().max(0.0) as usize)
                && label.is_empty()
            {
                *label = cut(&tick.label, self.label_columns);
            }
        }
        labels
    }

    /// Returns a row of the canvas, with one escape sequence for neighbors of the same color.
    fn row(&self, row: usize) -> String {
        let cell = |column: usize| match self.has_marks {
            false => self.canvas.braille(column, row),
            true => match self.canvas.at(column, row) {
                Some(SeriesDot { series, is_band: true }) => (BAND, Some(series)),
                Some(SeriesDot { series, .. }) => (MARKS[series % MARKS.len()], Some(series)),
                None => (' ', None),
            },
        };
        let mut cells: Vec<(char, Option<usize>)> = (0..self.columns).map(cell).collect();
        let last = cells.iter().rposition(|(_, series)| series.is_some());
        cells.truncate(last.map_or(0, |last| last + 1));
        let mut text = String::new();
        for part in cells.chunk_by(|a, b| a.1 == b.1) {
            let words: String = part.iter().map(|(c, _)| *c).collect();
            match part.first().and_then(|(_, series)| *series) {
                Some(series) => text += &paint(self.style, COLORS[series % COLORS.len()], &words),
                None => text += &words,
            }
        }
        text
    }

    /// Returns the x axis with its ticks, and their labels where they do not overlap.
    fn x_axis(&self, indent: &str) -> String {
        let (corner, rule, mark) = if self.style.ascii { ('+', '-', '+') } else { ('└', '─', '┬') };
        let mut axis = vec![rule; self.columns];
        let mut labels = String::new();
        for tick in self.figure.x.scale.ticks() {
            let column =
                (self.figure.x.scale.position(tick.value) * (self.columns - 1) as f64).round().max(0.0) as usize;
            if let Some(place) = axis.get_mut(column) {
                *place = mark;
            }
            let used = labels.chars().count();
            let length = tick.label.chars().count();
            let start = (column + 1).saturating_sub(length.div_ceil(2));
            let is_free = used == 0 || start > used;
            if is_free && start + length <= self.columns + 2 {
                labels += &format!("{}{}", " ".repeat(start - used), tick.label);
            }
        }
        let axis: String = axis.into_iter().collect();
        format!("{} {corner}{axis}\n{indent}{labels}\n", " ".repeat(self.label_columns))
    }
}

/// Cuts a text that is longer than `most` characters.
fn cut(text: &str, most: usize) -> String {
    match text.chars().count() <= most {
        true => text.to_string(),
        false => text.chars().take(most.saturating_sub(3)).chain("...".chars()).collect(),
    }
}

fn center(text: &str, width: usize) -> String {
    let text = cut(text, width);
    format!("{}{text}", " ".repeat((width - text.chars().count()) / 2))
}
