//! Builds figures from the arguments of `plot`, `scatter`, `bar` and `hist`.

use super::figure::{ErrorBand, Figure, FigureOptions, MAX_BARS, MAX_LABELS, Mark, Series, clean};
use super::numbers::numbers;
use super::scale::position_between;
use crate::array::{Array, shape_text};
use crate::ops::operand;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::{alloc, stop};

/// A builtin that draws a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartKind {
    Plot,
    Scatter,
    Bar,
    Hist,
}

impl ChartKind {
    pub fn name(self) -> &'static str {
        match self {
            ChartKind::Plot => "plot",
            ChartKind::Scatter => "scatter",
            ChartKind::Bar => "bar",
            ChartKind::Hist => "hist",
        }
    }
}

/// The named arguments of a call.
#[derive(Clone, Debug, Default)]
pub struct ChartOptions {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    /// The axes that are logarithmic: empty, `x`, `y` or `xy`.
    pub log: String,
    pub labels: Vec<String>,
    /// `line` or `points`, for all series or for each of them.
    pub styles: Vec<String>,
    pub low: Option<Array>,
    pub high: Option<Array>,
    /// The number of intervals of a histogram.
    pub bins: Option<i64>,
    /// Whether the first axis of `y` is that of the frames of an animation.
    pub is_animated: bool,
}

/// The points of a series before it has a style.
struct Curve {
    x: Vec<f64>,
    y: Vec<f64>,
}

/// Returns the figure of a call, or one figure per frame of an animation.
pub fn figures(kind: ChartKind, values: &[HostValue], options: &ChartOptions) -> HostResult<Vec<Figure>> {
    let (log_x, log_y) = match options.log.as_str() {
        "" => (false, false),
        "y" => (false, true),
        "x" if matches!(kind, ChartKind::Plot | ChartKind::Scatter) => (true, false),
        "xy" if matches!(kind, ChartKind::Plot | ChartKind::Scatter) => (true, true),
        other => {
            let title = format!("`log` of `{}` can't be \"{other}\"", kind.name());
            return Err(RuntimeError::new("E0717", title).help("it is \"x\", \"y\" or \"xy\"; bars have only \"y\""));
        }
    };
    let mut figure_options = FigureOptions {
        title: options.title.clone(),
        x_label: options.x_label.clone(),
        y_label: options.y_label.clone(),
        log_x,
        log_y,
        names: vec![],
    };
    let frames = match kind {
        ChartKind::Hist => {
            if figure_options.y_label.is_empty() {
                figure_options.y_label = "count".into();
            }
            vec![histograms(values, options.bins, log_y)?]
        }
        _ => {
            figure_options.names = names(values);
            curves(kind, values, options.is_animated)?
                .into_iter()
                .map(|curves| styled(kind, curves, options))
                .collect::<HostResult<_>>()?
        }
    };
    let mut labeled = Vec::with_capacity(frames.len());
    for mut series in frames {
        label(&mut series, &options.labels)?;
        labeled.push(series);
    }
    Figure::frames(labeled, &figure_options)
}

/// Returns the names of bars, if the first argument is an array of texts.
fn names(values: &[HostValue]) -> Vec<String> {
    match values {
        [HostValue::Strings(names), _, ..] => names.iter().map(|name| clean(name)).collect(),
        _ => vec![],
    }
}

/// Returns the error for values that are not arrays. The checker reports the same error if it knows their types.
fn unsupported(kind: ChartKind, values: &[HostValue]) -> RuntimeError {
    let values: Vec<&HostValue> = values.iter().collect();
    let problem = operand::undefined(&format!("`{}`", kind.name()), &values);
    problem.help("it takes a path as text, which comes first, and arrays of numbers")
}

/// Returns the curves of each frame.
fn curves(kind: ChartKind, values: &[HostValue], is_animated: bool) -> HostResult<Vec<Vec<Curve>>> {
    let mut pairs: Vec<(Option<&HostValue>, &Array)> = vec![];
    for (at, value) in values.iter().enumerate() {
        match value {
            HostValue::Array(y) if values.len() == 1 => pairs.push((None, y)),
            HostValue::Array(y) => pairs.push((values.first(), y)),
            // Names in place of x.
            HostValue::Strings(_) if kind == ChartKind::Bar && at == 0 && values.len() > 1 => {}
            HostValue::Tuple(parts) => match &parts[..] {
                [x @ HostValue::Array(_), HostValue::Array(y)] => pairs.push((Some(x), y)),
                _ => return Err(unsupported(kind, values)),
            },
            _ => return Err(unsupported(kind, values)),
        }
    }
    let is_tuple = |value: &HostValue| matches!(value, HostValue::Tuple(_));
    if values.iter().any(is_tuple) && !values.iter().all(is_tuple) {
        let title = format!("`{}` takes either arrays, or tuples of x and y", kind.name());
        return Err(RuntimeError::new("E0717", title).help("write a tuple for each curve: `(x, y), (x, z)`"));
    }
    // The first of several arrays is x.
    if matches!(values, [HostValue::Array(_), _, ..]) {
        pairs.remove(0);
    }
    let count = match (is_animated, pairs.first()) {
        (true, Some((_, y))) => y.shape().first().copied().unwrap_or(0),
        _ => 1,
    };
    let mut frames: Vec<Vec<Curve>> = (0..count).map(|_| vec![]).collect();
    for (x, y) in pairs {
        add_curves(kind, x, y, is_animated, &mut frames)?;
    }
    Ok(frames)
}

/// Adds the curves of one `y` to each frame: its rows are curves, or, in an animation, frames.
fn add_curves(
    kind: ChartKind,
    x: Option<&HostValue>,
    y: &Array,
    is_animated: bool,
    frames: &mut [Vec<Curve>],
) -> HostResult<()> {
    let (rows, length) = match (y.shape(), is_animated) {
        (&[length], false) => (1, length),
        (&[rows, length], _) => (rows, length),
        (shape, _) => {
            let shape = shape_text(shape);
            let title = match is_animated {
                false => format!(
                    "`{}` needs arrays of one axis, or one row for each curve, not of shape {shape}",
                    kind.name()
                ),
                true => {
                    format!("with `fps`, `{}` needs one row for each frame, not an array of shape {shape}", kind.name())
                }
            };
            return Err(RuntimeError::new("E0717", title));
        }
    };
    if is_animated && rows != frames.len() {
        let title =
            format!("all curves of an animation have the same number of frames, not {} and {rows}", frames.len());
        return Err(RuntimeError::new("E0717", title));
    }
    let different = |a: String| {
        let title =
            format!("`{}` needs as many x as y, not arrays of shape {a} and {}", kind.name(), shape_text(y.shape()));
        Err(RuntimeError::new("E0717", title))
    };
    let xs = match x {
        Some(HostValue::Array(x)) => match *x.shape() {
            [n] if n == length => numbers(kind.name(), x)?,
            [n, m] if is_animated && n == rows && m == length => numbers(kind.name(), x)?,
            ref shape => return different(shape_text(shape)),
        },
        Some(HostValue::Strings(names)) if names.len() != length => return different(shape_text(&[names.len()])),
        _ => alloc::collect(length, stop::polled((0..length).map(|at| at as f64))),
    };
    let ys = numbers(kind.name(), y)?;
    if let ([only], 1) = (&mut *frames, rows) {
        only.push(Curve { x: xs, y: ys });
        return Ok(());
    }
    for row in 0..rows {
        let part = |all: &[f64], row: usize| alloc::copy(&all[row * length..(row + 1) * length]);
        let x = if xs.len() == length { alloc::copy(&xs) } else { part(&xs, row) };
        let frame = if is_animated { row } else { 0 };
        frames[frame].push(Curve { x, y: part(&ys, row) });
    }
    Ok(())
}

/// Gives the curves of a frame their styles and error bands.
fn styled(kind: ChartKind, curves: Vec<Curve>, options: &ChartOptions) -> HostResult<Vec<Series>> {
    let marks = match kind {
        ChartKind::Plot => line_marks(&options.styles, curves.len())?,
        ChartKind::Scatter => vec![Mark::Points; curves.len()],
        _ => bar_marks(&curves),
    };
    let mut bands = bands(kind, &curves, options)?;
    let series = curves.into_iter().zip(marks).enumerate();
    let series = series.map(|(at, (Curve { x, y }, mark))| {
        let band = bands.get_mut(at).and_then(Option::take);
        Series { label: String::new(), mark, x, y, band }
    });
    Ok(series.collect())
}

fn line_marks(styles: &[String], count: usize) -> HostResult<Vec<Mark>> {
    if styles.len() > 1 && styles.len() != count {
        let title = format!("{} given for {}", plural(styles.len(), "style"), plural(count, "curve"));
        return Err(RuntimeError::new("E0717", title).help("give one style for all curves, or one for each"));
    }
    let mark = |at: usize| match styles.get(at).or(styles.first()).map(String::as_str) {
        None | Some("line") => Ok(Mark::Line),
        Some("points") => Ok(Mark::Points),
        Some(other) => Err(RuntimeError::new("E0717", format!("there is no style \"{other}\""))
            .help("a style is \"line\" or \"points\"")),
    };
    (0..count).map(mark).collect()
}

/// Places the bars of several series side by side.
fn bar_marks(curves: &[Curve]) -> Vec<Mark> {
    let distance = curves.iter().map(|curve| smallest_distance(&curve.x)).fold(f64::INFINITY, f64::min);
    let distance = if distance.is_finite() { distance } else { 1.0 };
    let width = 0.8 * distance / curves.len() as f64;
    let middle = (curves.len() as f64 - 1.0) / 2.0;
    (0..curves.len()).map(|at| Mark::Bars { offset: (at as f64 - middle) * width, width }).collect()
}

/// Returns the smallest distance of two different numbers; infinity if there are no two. Ignores numbers after the
/// first [`MAX_BARS`], because a chart with more bars is refused.
fn smallest_distance(numbers: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = numbers.iter().copied().take(MAX_BARS).filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|d| *d > 0.0).fold(f64::INFINITY, f64::min)
}

/// Returns the error band of each curve; empty if there are none.
fn bands(kind: ChartKind, curves: &[Curve], options: &ChartOptions) -> HostResult<Vec<Option<ErrorBand>>> {
    let (low, high) = match (&options.low, &options.high) {
        (None, None) => return Ok(vec![]),
        (Some(low), Some(high)) => (low, high),
        (low, _) => {
            let (given, missing) = if low.is_some() { ("low", "high") } else { ("high", "low") };
            let title = format!("`{given}` is given without `{missing}`");
            return Err(RuntimeError::new("E0717", title).help("an error band has both bounds"));
        }
    };
    if options.is_animated {
        return Err(RuntimeError::new("E0717", "an animation has no error bands").help("leave `low` and `high` off"));
    }
    let length = curves.first().map_or(0, |curve| curve.y.len());
    for array in [low, high] {
        let fits = match *array.shape() {
            [n] => curves.len() == 1 && n == length,
            [rows, n] => rows == curves.len() && curves.iter().all(|curve| curve.y.len() == n),
            _ => false,
        };
        if !fits {
            let shape = shape_text(array.shape());
            let title =
                format!("bounds of shape {shape} don't fit {} of {length} points", plural(curves.len(), "curve"));
            return Err(RuntimeError::new("E0717", title)
                .help("for several curves, the bounds have one row for each: `stack(a, b)`"));
        }
    }
    let (low, high) = (numbers(kind.name(), low)?, numbers(kind.name(), high)?);
    let rows = low.chunks(length.max(1)).zip(high.chunks(length.max(1)));
    Ok(rows.map(|(low, high)| Some(ErrorBand { low: alloc::copy(low), high: alloc::copy(high) })).collect())
}

/// Counts the numbers of each array in intervals of equal width.
fn histograms(values: &[HostValue], bins: Option<i64>, is_log: bool) -> HostResult<Vec<Series>> {
    let mut samples = Vec::with_capacity(values.len());
    for value in values {
        let HostValue::Array(array) = value else { return Err(unsupported(ChartKind::Hist, values)) };
        samples.push(numbers(ChartKind::Hist.name(), array)?);
    }
    let all = || stop::polled(samples.iter().flatten().copied());
    let skipped = all().filter(|x| !x.is_finite()).count();
    if skipped > 0 {
        let title = format!("`hist` counts finite numbers, and {skipped} of these are not finite");
        return Err(RuntimeError::new("E0717", title).help("`x[x == x]` leaves out NaN"));
    }
    let Some((low, high)) = all().map(|x| (x, x)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
        return Err(RuntimeError::new("E0717", "there is nothing to plot").label("the array is empty"));
    };
    let most = samples.iter().map(Vec::len).max().unwrap_or(1);
    let count = match bins {
        Some(bins) if (1..=MAX_BARS as i64).contains(&bins) => bins as usize,
        Some(bins) => {
            return Err(RuntimeError::new("E0717", format!("`bins` is from 1 to {MAX_BARS}, not {bins}")));
        }
        // Sturges' rule.
        None => 1 + (most.max(1) as f64).log2().ceil() as usize,
    };
    let (low, high) = if low < high { (low, high) } else { (low - 0.5, high + 0.5) };
    let width = match (high - low) / count as f64 {
        width if width.is_finite() => width,
        _ => high / count as f64 - low / count as f64,
    };
    if !(width > 0.0 && low + width > low) {
        let title = format!("the numbers from {low} to {high} are too close for {}", plural(count, "interval"));
        return Err(RuntimeError::new("E0717", title));
    }
    let centers: Vec<f64> = (0..count).map(|bin| low + (bin as f64 + 0.5) * width).collect();
    let series = samples.into_iter().map(|sample| {
        let mut counts = vec![0.0; count];
        for x in stop::polled(sample) {
            counts[interval(low, high, width, count, x)] += 1.0;
        }
        // An empty interval has no bar on a logarithmic axis.
        let counts = counts.into_iter().map(|count| if is_log && count == 0.0 { f64::NAN } else { count }).collect();
        let mark = Mark::Bars { offset: 0.0, width };
        Series { label: String::new(), mark, x: centers.clone(), y: counts, band: None }
    });
    Ok(series.collect())
}

/// Returns the index of the interval of a histogram that contains `x`. An interval includes its lower end, and the last
/// one also its upper end.
fn interval(low: f64, high: f64, width: f64, count: usize, x: f64) -> usize {
    let lower_end = |index: usize| low + index as f64 * width;
    // Rounding can move a number at an end to the neighbor.
    match ((position_between(low, high, x) * count as f64) as usize).min(count - 1) {
        index if x < lower_end(index) => index.saturating_sub(1),
        index if index + 1 < count && x >= lower_end(index + 1) => index + 1,
        index => index,
    }
}

fn label(series: &mut [Series], labels: &[String]) -> HostResult<()> {
    if labels.is_empty() {
        return Ok(());
    }
    if labels.len() != series.len() {
        let title = format!("{} given for {}", plural(labels.len(), "label"), plural(series.len(), "curve"));
        return Err(RuntimeError::new("E0717", title).help("give a label for each curve; \"\" is not in the legend"));
    }
    if labels.len() > MAX_LABELS {
        let title = format!("a legend has at most {MAX_LABELS} labels, because there are as many colors");
        return Err(RuntimeError::new("E0717", title).help("leave `labels` off, or draw fewer curves"));
    }
    series.iter_mut().zip(labels).for_each(|(series, label)| series.label = clean(label));
    Ok(())
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_ends_of_intervals_belong_to_the_upper_one() {
        for (low, width) in [(-50.0, 8.0), (-3.0, 1.0), (0.0, 3.0), (1e15, 7.0)] {
            for count in 1..100 {
                let high = low + width * count as f64;
                for index in 0..count {
                    let ends = [low + width * index as f64, low + width * (index as f64 + 1.0) - 0.25];
                    let found = ends.map(|x| interval(low, high, width, count, x));
                    assert_eq!(found, [index, index], "intervals of {width} from {low} to {high}");
                }
                assert_eq!(interval(low, high, width, count, high), count - 1);
            }
        }
        let (low, high) = (-f64::MAX, f64::MAX);
        assert_eq!([low, 0.0, high].map(|x| interval(low, high, f64::MAX, 2, x)), [0, 1, 1]);
    }
}
