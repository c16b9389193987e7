//! Describes launches of CUDA files.

use super::planned_launch::{PlannedLaunch, PlannedValue};
use super::sizes::ChosenNumber;
use crate::script;
use clk_base::source::{SourceMap, Span};
use clk_host::value::HostValue;

/// Returns the geometry, the arguments and the chosen numbers of a launch.
pub(super) fn launch_text(launch: &PlannedLaunch, sources: &SourceMap) -> String {
    let place = sources.original(launch.place);
    let mut words = vec![];
    for argument in &launch.inputs.arguments {
        match &argument.value {
            PlannedValue::Geometry(_) => {}
            PlannedValue::Scalar(value) => words.push(format!("{} = {}", argument.name, shown(value))),
            PlannedValue::Array(array) => words.push(format!("{}[{}]", argument.name, array.length)),
        }
    }
    let mut line = format!(
        "line {}: {}<<<{}, {}>>>({})",
        sources.line_column(place).0,
        launch.kernel,
        extents_text(&launch.inputs.numbers.grid),
        extents_text(&launch.inputs.numbers.block),
        words.join(", "),
    );
    let mut remarks: Vec<String> = launch.inputs.numbers.chosen.iter().map(number_text).collect();
    if launch.inputs.numbers.has_chosen_geometry {
        remarks.push("grid and block chosen".into());
    }
    if !launch.is_from_file {
        remarks.push("the file does not launch it".into());
    }
    if !remarks.is_empty() {
        line += &format!(" with {}", remarks.join(", "));
    }
    line
}

/// Describes a kernel or launch that is not run.
pub(super) fn left_out_text(place: Span, kernel: &str, why: &str, sources: &SourceMap) -> String {
    let (line, _) = sources.line_column(sources.original(place));
    format!("line {line}: {kernel} is not run: {why}")
}

pub(super) fn number_text(number: &ChosenNumber) -> String {
    let origin = if number.is_given { "given" } else { "chosen" };
    format!("{} = {} ({origin})", number.name, number.value)
}

pub(super) fn shown(value: &HostValue) -> String {
    script::format_value(value).unwrap_or_default()
}

/// Returns the extents without those of unused axes.
fn extents_text(extents: &[i128; 3]) -> String {
    let used = extents.iter().rposition(|extent| *extent != 1).unwrap_or(0);
    let all: Vec<String> = extents[..=used].iter().map(i128::to_string).collect();
    if used == 0 { all.concat() } else { format!("({})", all.join(", ")) }
}
