//! Formats the profile of each kernel: a lower bound for its time, its most expensive lines, and its source with the
//! costs of each line.

pub(crate) mod advice;
pub(crate) mod expressions;
mod numbers;

use std::fmt::Write as _;

use serde_json::{Value, json};

use self::numbers::{format_count, format_percent, format_ratio, format_time};
use crate::console::paint;
use clk_base::escape;
use clk_base::render::RenderStyle;
use clk_base::source::{FileId, SourceMap, Span};
use clk_profile::KernelResources;
use clk_profile::edits::ParsedKernels;
use clk_profile::gpus::{GpuModel, OccupancyLimit, occupancy};
use clk_profile::lines::{LineCost, LineCosts, line_costs};
use clk_profile::roofline::{Resource, block_counts, roofline};
use clk_runtime::LaunchExtents;
use clk_runtime::profile::{AccessCost, AccessKind, CostCounting, Profile};

/// A kernel's profile, with the other data that its text needs.
pub(crate) struct ProfileView<'a> {
    pub profile: &'a Profile,
    pub resources: Option<KernelResources>,
    pub gpu: &'a GpuModel,
    pub sources: &'a SourceMap,
    pub kernels: &'a ParsedKernels<'a>,
}

/// Number of lines in the list of the most expensive lines above the source.
const SHOWN_LINES: usize = 3;

/// Describes the number of a kernel's launches, and their grid and block sizes.
fn launch_text(profile: &Profile) -> String {
    let triple = |n: [u32; 3]| {
        let last = n.iter().rposition(|&n| n != 1).unwrap_or(0);
        n[..=last].iter().map(u32::to_string).collect::<Vec<_>>().join(" x ")
    };
    let extents = match profile.extents {
        LaunchExtents::Threads(n) => format!("{} threads", triple(n)),
        LaunchExtents::Grid { grid, block } => format!("{} blocks of {} threads", triple(grid), triple(block)),
    };
    let times = if profile.launches == 1 { String::new() } else { format!(", {} launches", profile.launches) };
    extents + &times
}

impl ProfileView<'_> {
    /// Returns the complete text of the profile.
    pub fn text(&self, style: RenderStyle) -> String {
        let rows = line_costs(self.profile, self.sources);
        let mut text = self.head(style);
        text += &self.hottest(&rows);
        text += &self.listing(&rows, style);
        text
    }

    fn head(&self, style: RenderStyle) -> String {
        let (profile, gpu) = (self.profile, self.gpu);
        let lower_bound = roofline(profile, gpu);
        let name = paint(style, "1", &escape::name(&profile.kernel));
        let mut text = format!("{name}: {}\n", launch_text(profile));
        let [(first, seconds), rest @ ..] = &lower_bound.parts[..] else { return text };
        let others = rest.iter().filter(|(what, s)| *what != Resource::Launch && *s > 0.1 * seconds).take(3);
        let others: Vec<String> = others.map(|(what, s)| format!("{} {}", what.name(), format_time(*s))).collect();
        let other_bounds = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        let _ = writeln!(
            text,
            "  at best {} on {}: {}{other_bounds}",
            format_time(*seconds),
            gpu.with_article(),
            first.name()
        );
        if let Some(part) = profile.sampled {
            let _ = writeln!(text, "  counted in {} of its blocks; the totals are extrapolated", format_percent(part));
        }
        if profile.tiled {
            text += "  tiles are counted as the simulator computes them, not as tensor cores do\n";
        }
        if let Some(resources) = self.resources {
            let (_, threads) = block_counts(profile);
            let shared = profile.shared.max(resources.shared.into());
            let estimate = occupancy(gpu.limits, threads as u32, resources.registers, shared);
            let why = match estimate.limit {
                OccupancyLimit::Nothing => "",
                OccupancyLimit::Registers => ", by its registers",
                OccupancyLimit::Shared => ", by its shared memory",
                OccupancyLimit::Blocks => ", by the number of blocks",
                OccupancyLimit::Threads => ", by the size of blocks",
            };
            let spilled =
                if resources.spilled > 0 { format!(", {} bytes spilled", resources.spilled) } else { String::new() };
            let _ = writeln!(
                text,
                "  {} registers a thread{spilled}, {shared} bytes of shared memory a block, occupancy {}{why}",
                resources.registers,
                format_percent(estimate.part)
            );
        }
        text
    }

    fn hottest(&self, rows: &LineCosts) -> String {
        let mut order: Vec<(&(FileId, usize), &LineCost)> = rows.iter().filter(|(_, row)| row.part >= 0.05).collect();
        order.sort_by(|a, b| b.1.part.total_cmp(&a.1.part));
        let mut text = String::new();
        for ((file, line), row) in order.into_iter().take(SHOWN_LINES) {
            let mut said: Vec<String> = vec![];
            let (global, shared) = (row.global, row.shared);
            if global.requests > 0 {
                said.push(format!("{} sectors a request", format_ratio(global.sectors, global.requests)));
            }
            if 2 * global.sectors > 3 * global.fewest && global.fewest > 0 {
                said.push(format!("moves {} times the bytes it uses", format_ratio(global.sectors, global.fewest)));
            }
            if shared.passes > shared.least {
                said.push(format!("{} times the passes of shared memory", format_ratio(shared.passes, shared.least)));
            }
            if row.warps > 0 && row.lanes * 10 < row.warps * 32 * 9 {
                said.push(format!("{} of the lanes", format_percent(row.lanes as f64 / (32 * row.warps) as f64)));
            }
            let said = if said.is_empty() { String::new() } else { format!(": {}", said.join(", ")) };
            let own = *file == self.sources.original(self.profile.span).file;
            let file = if own { String::new() } else { format!("{}:", self.sources.name(*file)) };
            let _ = writeln!(
                text,
                "  line {}{line} has {} of the cost{said}",
                escape::name(&file),
                format_percent(row.part)
            );
        }
        text
    }

    /// Returns the source of the kernel, with the costs of each line on its left.
    fn listing(&self, rows: &LineCosts, style: RenderStyle) -> String {
        let bar = if style.ascii { "|" } else { "│" };
        let columns: Vec<&ListingColumn> = COLUMNS.iter().filter(|column| style.width >= column.from).collect();
        let mut text = String::from(" ");
        for column in &columns {
            let _ = write!(text, " {:>1$}", column.title, column.width);
        }
        let (own, first, last) = self.extent();
        let _ = writeln!(text, "   {:>4} {bar} {}", "", escape::name(self.sources.name(own)));
        let mut lines: Vec<(FileId, usize)> = (first..=last).map(|line| (own, line)).collect();
        lines.extend(rows.keys().filter(|(file, line)| *file != own || !(first..=last).contains(line)));
        let mut before = (own, first.saturating_sub(1));
        for at in lines {
            if at.0 != before.0 {
                let _ = writeln!(text, "  {}", escape::name(self.sources.name(at.0)));
            } else if at.1 != before.1 + 1 {
                text += if style.ascii { "  ...\n" } else { "  …\n" };
            }
            before = at;
            text += &self.line(rows.get(&at), at.1, self.sources.line_text(at.0, at.1), &columns, style, bar);
        }
        text
    }

    fn line(
        &self,
        row: Option<&LineCost>,
        line: usize,
        source: &str,
        columns: &[&ListingColumn],
        style: RenderStyle,
        bar: &str,
    ) -> String {
        let mut left = String::from(" ");
        for column in columns {
            let value = row.map_or(String::new(), |row| (column.value)(row));
            let _ = write!(left, " {value:>0$}", column.width);
        }
        let used = left.chars().count() + 10;
        let columns_left = style.width.saturating_sub(used).max(16);
        let mut source = escape::name(source).to_string();
        if source.chars().count() > columns_left {
            source = source.chars().take(columns_left - 1).chain(['…']).collect();
        }
        let hot = row.is_some_and(|row| row.part >= 0.2);
        let left = if hot { paint(style, "31", &left) } else { left };
        format!("{left}   {line:>4} {bar} {source}").trim_end().to_string() + "\n"
    }

    /// Returns the file of the kernel, and the numbers of its first and last line.
    fn extent(&self) -> (FileId, usize, usize) {
        let place = self.profile.span;
        let span = self.kernels.at(place).map_or(place, |(span, _)| span);
        if self.sources.is_generated(span.file) {
            return self.original_extent(span);
        }
        let end = Span::new(span.file, span.end.saturating_sub(1) as usize, span.end as usize);
        (span.file, self.sources.line_column(span).0, self.sources.line_column(end).0)
    }

    /// Like [`extent`](Self::extent), for a kernel whose text was generated: the lines from its name to the last line
    /// from which a line of the text was generated.
    fn original_extent(&self, kernel: Span) -> (FileId, usize, usize) {
        let name = self.sources.original(self.profile.span);
        let first = self.sources.line_column(name).0;
        let mut last = first;
        let mut start = kernel.start as usize;
        for line in self.sources.slice(kernel).split_inclusive('\n') {
            let indent = line.len() - line.trim_start().len();
            let own = Span::new(kernel.file, start + indent, start + line.trim_end().len());
            start += line.len();
            let place = self.sources.original(own);
            if place.file == name.file {
                last = last.max(self.sources.line_column(place).0);
            }
        }
        (name.file, first, last)
    }

    /// Returns the complete profile as JSON.
    pub fn json(&self) -> Value {
        let (profile, gpu) = (self.profile, self.gpu);
        let lower_bound = roofline(profile, gpu);
        let cost = |cost: &AccessCost| {
            json!({
                "requests": cost.requests, "threads": cost.lanes, "bytes_used": cost.used,
                "sectors": cost.sectors, "fewest_sectors": cost.fewest, "lines": cost.lines,
                "passes": cost.passes, "fewest_passes": cost.least, "crowd": cost.atomic_contention, "repeated": cost.repeated,
                "stride": cost.stride,
            })
        };
        let accesses: Vec<Value> = profile
            .accesses
            .iter()
            .map(|access| {
                let place = self.sources.original(access.span);
                let (line, column) = self.sources.line_column(place);
                let access_kind = match access.access_kind {
                    AccessKind::Load => "load",
                    AccessKind::Store => "store",
                    AccessKind::AtomicRmw | AccessKind::AtomicLoad => "atomic",
                };
                let mut all = cost(&access.cost);
                all["file"] = json!(self.sources.name(place.file));
                (all["line"], all["column"]) = (json!(line), json!(column));
                (all["array"], all["deed"]) = (json!(access.array), json!(access_kind));
                all["shared"] = json!(access.shared);
                all
            })
            .collect();
        let rows = line_costs(profile, self.sources);
        let lines: Vec<Value> = rows
            .iter()
            .map(|((file, line), row)| {
                json!({
                    "file": self.sources.name(*file), "line": line, "part": row.part,
                    "warps": row.warps, "threads": row.lanes, "global": cost(&row.global), "shared": cost(&row.shared),
                    "f64": row.work.f64, "f32": row.work.f32, "f16": row.work.f16, "special": row.work.special,
                    "int": row.work.int, "instructions": row.instructions,
                })
            })
            .collect();
        let branches: Vec<Value> = profile
            .segments
            .iter()
            .filter_map(|segment| {
                let branch = segment.branch?;
                let parent = branch.parent.and_then(|at| profile.segments.get(at as usize));
                Some(json!({
                    "line": self.sources.line_column(self.sources.original(branch.span)).0, "loop": branch.is_loop,
                    "met": parent.map(|parent| parent.warps), "warps": segment.warps, "threads": segment.lanes,
                    "parted": segment.divergent_warps,
                }))
            })
            .collect();
        let arrays: Vec<Value> = profile
            .arrays
            .iter()
            .map(
                |array| json!({"name": array.name, "bytes": array.bytes, "read": array.read, "written": array.written}),
            )
            .collect();
        let parts: Vec<Value> = lower_bound
            .parts
            .iter()
            .map(|(what, seconds)| json!({"resource": what.name(), "seconds": seconds}))
            .collect();
        json!({
            "kernel": profile.kernel, "expression": (profile.of == CostCounting::Expression).then(|| expressions::source(profile.span, self.sources)),
            "launches": profile.launches, "threads": profile.threads, "warps": profile.warps,
            "sampled": profile.sampled, "extents": launch_text(profile), "gpu": gpu.name, "seconds": lower_bound.seconds, "bound": parts,
            "registers": self.resources.map(|r| r.registers), "spilled": self.resources.map(|r| r.spilled),
            "shared_bytes": profile.shared, "accesses": accesses, "lines": lines, "branches": branches, "arrays": arrays,
            "fetched": profile.min_group_sectors,
        })
    }
}

/// A column of costs in the source listing.
struct ListingColumn {
    title: &'static str,
    width: usize,
    /// Minimum terminal width, in columns, at which this column is shown.
    from: usize,
    value: fn(&LineCost) -> String,
}

const COLUMNS: &[ListingColumn] = &[
    ListingColumn { title: "cost", width: 5, from: 0, value: |row| format_percent(row.part) },
    ListingColumn {
        title: "active",
        width: 6,
        from: 80,
        value: |row| match row.warps {
            0 => String::new(),
            warps => format_percent(row.lanes as f64 / (32 * warps) as f64),
        },
    },
    ListingColumn {
        title: "requests",
        width: 8,
        from: 0,
        value: |row| format_count(row.global.requests + row.shared.requests),
    },
    ListingColumn {
        title: "sectors",
        width: 7,
        from: 0,
        value: |row| format_ratio(row.global.sectors, row.global.requests),
    },
    ListingColumn {
        title: "moved",
        width: 5,
        from: 70,
        value: |row| format_ratio(row.global.sectors, row.global.fewest),
    },
    ListingColumn {
        title: "passes",
        width: 6,
        from: 0,
        value: |row| format_ratio(row.shared.passes, row.shared.requests),
    },
    ListingColumn { title: "flops", width: 6, from: 90, value: |row| format_count(row.work.flops()) },
];
