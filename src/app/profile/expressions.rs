//! Formats the costs of array expressions as a table. Each row is one generated kernel.
//!
//! Input: the profiles of a run. Output: a table of the kernels generated for expressions, sorted by total time. Such a
//! kernel has no source lines of its own: its cost belongs to the expression and the operations fused into it.

use std::fmt::Write as _;

use super::numbers::{format_count, format_percent, format_ratio, format_time};
use crate::console::paint;
use clk_base::escape;
use clk_base::render::RenderStyle;
use clk_base::source::{SourceMap, Span};
use clk_profile::gpus::GpuModel;
use clk_profile::roofline::{Resource, roofline};
use clk_runtime::profile::{AccessCost, CostCounting, Profile};

/// Maximum number of rows in the table.
const MOST: usize = 30;
/// Maximum length of an expression's text, in characters.
const LONGEST: usize = 60;
/// Minimum number of short launches for which the table advises to reduce the overhead of launches.
const MANY: u64 = 100;

/// A row of the table: the launches of one generated kernel.
struct KernelRow<'a> {
    profile: &'a Profile,
    /// Estimated total time of the launches, in seconds.
    seconds: f64,
    by: Resource,
}

/// Returns the text of an expression on one line, truncated if it is long.
pub(super) fn source(span: Span, sources: &SourceMap) -> String {
    let text = sources.text(span.file).get(span.start as usize..span.end as usize).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = escape::name(&words.join(" ")).to_string();
    match line.chars().count() > LONGEST {
        true => line.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => line,
    }
}

/// Returns the table for those profiles that belong to array expressions; `None` if there are none.
pub(crate) fn table<'a>(
    profiles: impl Iterator<Item = &'a Profile>,
    gpu: &GpuModel,
    sources: &SourceMap,
    style: RenderStyle,
) -> Option<String> {
    let row = |profile: &'a Profile| {
        let lower_bound = roofline(profile, gpu);
        let by = lower_bound.parts.first().map_or(Resource::Launch, |(by, _)| *by);
        KernelRow { profile, seconds: lower_bound.seconds * profile.launches as f64, by }
    };
    let mut rows: Vec<KernelRow<'_>> =
        profiles.filter(|profile| profile.of == CostCounting::Expression).map(row).collect();
    if rows.is_empty() {
        return None;
    }
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let all: f64 = rows.iter().map(|row| row.seconds).sum();
    let launches: u64 = rows.iter().map(|row| row.profile.launches).sum();
    let several = |n: u64, what: &str, more: &str| format!("{n} {}", if n == 1 { what } else { more });
    let mut text = format!(
        "{}: {}, {}, at best {} on {}\n",
        paint(style, "1", "array expressions"),
        several(rows.len() as u64, "kernel", "kernels"),
        several(launches, "launch", "launches"),
        format_time(all),
        gpu.with_article()
    );
    if let Some(part) = rows.iter().filter_map(|row| row.profile.sampled).min_by(f64::total_cmp) {
        let _ =
            writeln!(text, "  counted in {} of the blocks at least; the totals are extrapolated", format_percent(part));
    }
    text += "     total launches  at best  requests sectors moved  flops\n";
    for row in rows.iter().take(MOST) {
        text += &line(row, all, sources, style);
    }
    if let Some(rest) = rows.get(MOST..).filter(|rest| !rest.is_empty()) {
        let rest: f64 = rest.iter().map(|row| row.seconds).sum();
        let _ = writeln!(text, "  and {} more, {}", rows.len() - MOST, format_time(rest));
    }
    let idle: Vec<&KernelRow<'_>> = rows.iter().filter(|row| row.by == Resource::Launch).collect();
    let part = idle.iter().map(|row| row.seconds).sum::<f64>() / all;
    if part > 0.5 && idle.iter().map(|row| row.profile.launches).sum::<u64>() >= MANY {
        let _ = writeln!(
            text,
            "  {} of that is launches of kernels with little to do: larger arrays, or a kernel with the loop in it, would save it",
            format_percent(part)
        );
    }
    Some(text)
}

fn line(row: &KernelRow<'_>, all: f64, sources: &SourceMap, style: RenderStyle) -> String {
    let profile = row.profile;
    let mut cost = AccessCost::default();
    profile.accesses.iter().filter(|access| !access.shared).for_each(|access| cost.add(&access.cost));
    let flops: u64 = profile
        .segments
        .iter()
        .map(|segment| segment.work.iter().map(|(_, work)| work.flops()).sum::<u64>() * segment.lanes)
        .sum();
    let left = format!(
        "{:>10} {:>8} {:>8} {:>9} {:>7} {:>5} {:>6}",
        format_time(row.seconds),
        profile.launches,
        format_time(row.seconds / profile.launches as f64),
        format_count(cost.requests),
        format_ratio(cost.sectors, cost.requests),
        format_ratio(cost.sectors, cost.fewest),
        format_count(flops),
    );
    let left = if row.seconds >= 0.2 * all { paint(style, "31", &left) } else { left };
    let (line, _) = sources.line_column(profile.span);
    let bar = if style.ascii { "|" } else { "│" };
    let file = escape::name(sources.name(profile.span.file)).to_string();
    let kernel = match &*profile.kernel {
        "expression" => String::new(),
        other => format!(" by `{}`", escape::name(other)),
    };
    format!("{left}  {bar} {file}:{line} {}{kernel}: {}\n", source(profile.span, sources), row.by.name())
}
