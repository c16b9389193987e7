//! Tests charts: golden files of each renderer, and properties of charts of random numbers.

use std::fs;

use clk_host::array::Array;
use clk_host::picture::chart::{ChartKind, ChartOptions, figures};
use clk_host::picture::figure::Figure;
use clk_host::picture::{chart_file, figure_svg};
use clk_host::value::HostValue;
use clk_testing::random::Random;
use clk_testing::{root, setting};

/// Runs each program of `tests/plots`, and compares its output in Unicode and in ASCII and its SVG file.
#[test]
fn charts_match_golden_files() {
    let folder = root().join("tests/plots");
    let bless = std::env::var_os("CLK_BLESS").is_some();
    let mut failures = String::new();
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the programs") {
        let program = entry.expect("an entry").path();
        if program.extension().is_none_or(|extension| extension != "clk") {
            continue;
        }
        count += 1;
        let name = program.file_stem().expect("a name").to_string_lossy().into_owned();
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = program.to_string_lossy();
        let unicode = clk_testing::run(scratch.path(), &["run", &path]);
        let ascii = clk_testing::run(scratch.path(), &["run", "--ascii", &path]);
        let mut results = vec![
            (format!("{name}.txt"), unicode.out + &unicode.err),
            (format!("{name}.ascii.txt"), ascii.out + &ascii.err),
        ];
        if let Ok(svg) = fs::read_to_string(scratch.path().join(format!("{name}.svg"))) {
            check_svg(&svg);
            results.push((format!("{name}.svg"), svg));
        }
        for (file, now) in results {
            let golden = folder.join(&file);
            if bless {
                fs::write(golden, now).expect("written");
            } else if fs::read_to_string(golden).unwrap_or_default() != now {
                failures += &format!("{file} is now:\n{now}\n");
            }
        }
    }
    assert!(count >= 6 && failures.is_empty(), "of {count} programs:\n{failures}");
}

/// Checks that a text is a well-formed SVG document without numbers that readers do not understand.
fn check_svg(svg: &str) {
    let document = roxmltree::Document::parse(svg).unwrap_or_else(|error| panic!("{error}:\n{svg}"));
    assert_eq!(document.root_element().tag_name().name(), "svg");
    for attribute in document.descendants().flat_map(|node| node.attributes()) {
        let value = attribute.value();
        assert!(!value.contains("NaN") && !value.contains("inf"), "{} is {value}", attribute.name());
    }
}

/// Returns an array of random length. Its numbers have all magnitudes, and some are NaN or infinite.
fn numbers(random: &mut Random, length: usize) -> Vec<f64> {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, f64::MAX, -f64::MAX, 5e-324];
    let magnitude = random.range(-300, 300) as i32;
    let is_constant = random.chance(15);
    let value = random.range(-1000, 1000) as f64;
    let number = |random: &mut Random| match random.next_below(12) {
        0 => random.pick(&special),
        _ if is_constant => value,
        1 => random.range(-5, 5) as f64,
        _ => random.range(-1000, 1000) as f64 * 10f64.powi(magnitude),
    };
    (0..length).map(|_| number(random)).collect()
}

fn array(numbers: &[f64]) -> HostValue {
    HostValue::Array(Array::from_items(numbers).expect("an array"))
}

fn text(random: &mut Random) -> String {
    let characters = ['a', '<', '&', '>', '"', '\'', '\n', '\u{0}', '\u{1b}', 'é', '漢', '\u{fffe}', ']', ' '];
    (0..random.next_below(40)).map(|_| random.pick(&characters)).collect()
}

/// Draws charts of random numbers and texts: they are refused with a reason, or all renderers draw them.
#[test]
fn random_charts_are_drawn_or_refused() {
    let mut random = Random::from_seed(setting("CLK_RANDOM_SEED", 1));
    let mut drawn = 0;
    let rounds = 400;
    for round in 0..rounds {
        let kind = random.pick(&[ChartKind::Plot, ChartKind::Scatter, ChartKind::Bar, ChartKind::Hist]);
        let length = random.next_below(50);
        let mut curves = random.next_below(3) + 1;
        let mut values: Vec<HostValue> = (0..=curves).map(|_| array(&numbers(&mut random, length))).collect();
        if kind == ChartKind::Hist {
            curves += 1;
        } else if random.chance(30) {
            values.truncate(1);
            curves = 1;
        }
        let mut options = ChartOptions { title: text(&mut random), x_label: text(&mut random), ..Default::default() };
        if random.chance(30) {
            options.log = random.pick(&["x", "y", "xy"]).to_string();
        }
        if random.chance(50) {
            options.labels = (0..curves).map(|_| text(&mut random)).collect();
        }
        if random.chance(20) && curves == 1 {
            let bound = |random: &mut Random| Array::from_items(&numbers(random, length)).expect("an array");
            (options.low, options.high) = (Some(bound(&mut random)), Some(bound(&mut random)));
        }
        match figures(kind, &values, &options) {
            Err(problem) => assert!(!problem.title.is_empty(), "round {round}: {problem:?}"),
            Ok(figures) => {
                drawn += 1;
                let [figure] = &figures[..] else { panic!("round {round}: one figure") };
                check_svg(&figure_svg(figure));
                check_scales(figure, round);
                // Painting takes much longer than writing SVG.
                if drawn % 8 == 0 {
                    let png = chart_file("p.png", &figures, None).expect("a file");
                    assert!(png.starts_with(b"\x89PNG"), "round {round}");
                }
            }
        }
    }
    assert!(drawn > rounds / 5, "only {drawn} of {rounds} charts were drawn");
}

/// Checks that all ticks and all finite points are within the axes.
fn check_scales(figure: &Figure, round: usize) {
    let is_inside = |position: f64| (-1e-6..=1.0 + 1e-6).contains(&position);
    for axis in [&figure.x, &figure.y] {
        for tick in axis.scale.ticks() {
            let position = axis.scale.position(tick.value);
            assert!(is_inside(position), "round {round}: {tick:?} is at {position}");
        }
    }
    for series in &figure.series {
        for (x, y) in series.points().filter(|(x, y)| x.is_finite() && y.is_finite()) {
            let (left, right) = series.sides(x);
            if !left.is_finite() || !right.is_finite() {
                continue;
            }
            let places = [left, right].map(|x| figure.x.scale.position(x)).into_iter();
            for position in places.chain([figure.y.scale.position(y)]) {
                assert!(is_inside(position), "round {round}: ({x}, {y}) is at {position} of {:?}", figure.y.scale);
            }
        }
    }
}

/// Returns the title of the error of a chart.
fn refusal(kind: ChartKind, values: &[HostValue], options: ChartOptions) -> String {
    figures(kind, values, &options).expect_err("an error").title
}

#[test]
fn charts_that_would_mislead_are_refused() {
    let none = ChartOptions::default;
    let (x, y) = (array(&[0.0, 1.0, 2.0]), array(&[1.0, 2.0, 3.0]));
    let short = array(&[1.0]);
    let names = || HostValue::Strings(["a".into(), "b".into()].into());
    let bound = |numbers: &[f64]| Some(Array::from_items(numbers).expect("an array"));
    let cases = [
        (ChartKind::Plot, vec![array(&[])], none(), "there is nothing to plot"),
        (ChartKind::Plot, vec![array(&[f64::NAN])], none(), "there is nothing to plot"),
        (ChartKind::Plot, vec![x.clone(), short], none(), "`plot` needs as many x as y"),
        (ChartKind::Plot, vec![x.clone(), y.clone()], ChartOptions { log: "x".into(), ..none() }, "the number 0"),
        (ChartKind::Bar, vec![x.clone(), y.clone()], ChartOptions { log: "x".into(), ..none() }, "`log` of `bar`"),
        (ChartKind::Plot, vec![y.clone()], ChartOptions { low: bound(&[0.0; 3]), ..none() }, "without `high`"),
        (
            ChartKind::Plot,
            vec![y.clone()],
            ChartOptions { low: bound(&[1.0; 3]), high: bound(&[0.0; 3]), ..none() },
            "`low` is above `high`",
        ),
        (
            ChartKind::Plot,
            vec![y.clone()],
            ChartOptions { low: bound(&[0.0; 3]), high: bound(&[0.0]), ..none() },
            "don't fit 1 curve of 3 points",
        ),
        (
            ChartKind::Plot,
            vec![x.clone(), y.clone(), y.clone()],
            ChartOptions { labels: vec!["a".into()], ..none() },
            "1 label given for 2 curves",
        ),
        (ChartKind::Plot, vec![y.clone()], ChartOptions { styles: vec!["dots".into()], ..none() }, "no style \"dots\""),
        (ChartKind::Plot, vec![y.clone()], ChartOptions { is_animated: true, ..none() }, "one row for each frame"),
        (ChartKind::Hist, vec![array(&[1.0, f64::NAN])], none(), "1 of these are not finite"),
        (ChartKind::Hist, vec![y.clone()], ChartOptions { bins: Some(0), ..none() }, "`bins` is from 1 to 2000"),
        (ChartKind::Bar, vec![array(&[1.0; 2001])], none(), "at most 2000 bars"),
        (ChartKind::Bar, vec![x.clone(), names(), y.clone()], none(), "`bar` does not take"),
        (ChartKind::Bar, vec![names(), y.clone()], none(), "as many x as y, not arrays of shape (2,) and (3,)"),
        (ChartKind::Plot, vec![HostValue::Tuple(vec![x.clone(), y.clone()]), y], none(), "either arrays, or tuples"),
    ];
    for (kind, values, options, words) in cases {
        let title = refusal(kind, &values, options);
        assert!(title.contains(words), "{title} does not say: {words}");
    }
}
