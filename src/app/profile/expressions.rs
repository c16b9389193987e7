//! What array expressions cost, a row for each kernel that computes one.
//!
//! Input: the profiles of a run that are of expressions. Output: a table, the kernel with the longest time of all its launches first. Such
//! kernels have no lines of their own: all that they do belongs to the expression, with the operations that are fused into it.

use std::fmt::Write as _;

use super::numbers::{count, percent, ratio, time};
use crate::app::console::paint;
use crate::base::escape;
use crate::base::render::Style;
use crate::base::source::{Sources, Span};
use crate::device::profile::{Cost, Counted, Profile};
use crate::profile::bound::{Resource, bound};
use crate::profile::devices::Gpu;

/// Rows that are shown.
const MOST: usize = 30;
/// The longest text of an expression.
const LONGEST: usize = 60;
/// Launches from which on it is worth saying that most of the time is theirs.
const MANY: u64 = 100;

/// The launches of a kernel.
struct Row<'a> {
    profile: &'a Profile,
    /// All launches together.
    seconds: f64,
    by: Resource,
}

/// Returns the text of an expression on one line, cut where it is long.
pub(super) fn source(span: Span, sources: &Sources) -> String {
    let text = sources.text(span.file).get(span.start as usize..span.end as usize).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = escape::name(&words.join(" ")).to_string();
    match line.chars().count() > LONGEST {
        true => line.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => line,
    }
}

/// Returns the table of those profiles that are of expressions; nothing if none is.
pub(crate) fn table<'a>(
    profiles: impl Iterator<Item = &'a Profile>,
    gpu: &Gpu,
    sources: &Sources,
    style: Style,
) -> Option<String> {
    let row = |profile: &'a Profile| {
        let found = bound(profile, gpu);
        let by = found.parts.first().map_or(Resource::Launch, |(by, _)| *by);
        Row { profile, seconds: found.seconds * profile.launches as f64, by }
    };
    let mut rows: Vec<Row<'_>> = profiles.filter(|profile| profile.of == Counted::Expression).map(row).collect();
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
        time(all),
        gpu.with_article()
    );
    if let Some(part) = rows.iter().filter_map(|row| row.profile.sampled).min_by(f64::total_cmp) {
        let _ = writeln!(
            text,
            "  counted in {} of the blocks at least; what is said of all is extrapolated",
            percent(part)
        );
    }
    text += "     total launches  at best  requests sectors moved  flops\n";
    for row in rows.iter().take(MOST) {
        text += &line(row, all, sources, style);
    }
    if let Some(rest) = rows.get(MOST..).filter(|rest| !rest.is_empty()) {
        let rest: f64 = rest.iter().map(|row| row.seconds).sum();
        let _ = writeln!(text, "  and {} more, {}", rows.len() - MOST, time(rest));
    }
    let idle: Vec<&Row<'_>> = rows.iter().filter(|row| row.by == Resource::Launch).collect();
    let part = idle.iter().map(|row| row.seconds).sum::<f64>() / all;
    if part > 0.5 && idle.iter().map(|row| row.profile.launches).sum::<u64>() >= MANY {
        let _ = writeln!(
            text,
            "  {} of that is launches of kernels with little to do: larger arrays, or a kernel with the loop in it, would save it",
            percent(part)
        );
    }
    Some(text)
}

fn line(row: &Row<'_>, all: f64, sources: &Sources, style: Style) -> String {
    let profile = row.profile;
    let mut cost = Cost::default();
    profile.accesses.iter().filter(|access| !access.shared).for_each(|access| cost.add(&access.cost));
    let flops: u64 = profile
        .segments
        .iter()
        .map(|segment| segment.work.iter().map(|(_, work)| work.flops()).sum::<u64>() * segment.lanes)
        .sum();
    let left = format!(
        "{:>10} {:>8} {:>8} {:>9} {:>7} {:>5} {:>6}",
        time(row.seconds),
        profile.launches,
        time(row.seconds / profile.launches as f64),
        count(cost.requests),
        ratio(cost.sectors, cost.requests),
        ratio(cost.sectors, cost.fewest),
        count(flops),
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
