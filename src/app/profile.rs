//! The text of a profile: for each kernel its bound, its hottest lines, and its source with the counts beside.

pub(crate) mod advice;
pub(crate) mod expressions;
mod numbers;

use std::fmt::Write as _;

use serde_json::{Value, json};

use self::numbers::{count, percent, ratio, time};
use crate::app::console::paint;
use crate::base::escape;
use crate::base::render::Style;
use crate::base::source::{FileId, Sources, Span};
use crate::device::Extents;
use crate::device::profile::{Cost, Counted, Deed, Profile};
use crate::profile::Resources;
use crate::profile::bound::{Resource, blocks, bound};
use crate::profile::devices::{Gpu, Keeps, occupancy};
use crate::profile::lines::{Row, Rows, rows};
use crate::profile::repair::Kernels;

/// A kernel's profile with what is known beside.
pub(crate) struct Shown<'a> {
    pub profile: &'a Profile,
    pub resources: Option<Resources>,
    pub gpu: &'a Gpu,
    pub sources: &'a Sources,
    pub kernels: &'a Kernels<'a>,
}

/// Lines that are named above the source.
const HOTTEST: usize = 3;

/// Returns how a kernel was launched.
fn launched(profile: &Profile) -> String {
    let triple = |n: [u32; 3]| {
        let last = n.iter().rposition(|&n| n != 1).unwrap_or(0);
        n[..=last].iter().map(u32::to_string).collect::<Vec<_>>().join(" x ")
    };
    let extents = match profile.extents {
        Extents::Threads(n) => format!("{} threads", triple(n)),
        Extents::Grid { grid, block } => format!("{} blocks of {} threads", triple(grid), triple(block)),
    };
    let times = if profile.launches == 1 { String::new() } else { format!(", {} launches", profile.launches) };
    extents + &times
}

impl Shown<'_> {
    /// Returns the whole text.
    pub fn text(&self, style: Style) -> String {
        let rows = rows(self.profile, self.sources);
        let mut text = self.head(style);
        text += &self.hottest(&rows);
        text += &self.listing(&rows, style);
        text
    }

    fn head(&self, style: Style) -> String {
        let (profile, gpu) = (self.profile, self.gpu);
        let found = bound(profile, gpu);
        let name = paint(style, "1", &escape::name(&profile.kernel));
        let mut text = format!("{name}: {}\n", launched(profile));
        let [(first, seconds), rest @ ..] = &found.parts[..] else { return text };
        let others = rest.iter().filter(|(what, s)| *what != Resource::Launch && *s > 0.1 * seconds).take(3);
        let others: Vec<String> = others.map(|(what, s)| format!("{} {}", what.name(), time(*s))).collect();
        let beside = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        let _ = writeln!(text, "  at best {} on {}: {}{beside}", time(*seconds), gpu.with_article(), first.name());
        if let Some(part) = profile.sampled {
            let _ = writeln!(text, "  counted in {} of its blocks; what is said of all is extrapolated", percent(part));
        }
        if profile.tiled {
            text += "  tiles are counted as the simulator computes them, not as tensor cores do\n";
        }
        if let Some(resources) = self.resources {
            let (_, threads) = blocks(profile);
            let shared = profile.shared.max(resources.shared.into());
            let held = occupancy(gpu.limits, threads as u32, resources.registers, shared);
            let why = match held.keeps {
                Keeps::Nothing => "",
                Keeps::Registers => ", by its registers",
                Keeps::Shared => ", by its shared memory",
                Keeps::Blocks => ", by the number of blocks",
                Keeps::Threads => ", by the size of blocks",
            };
            let spilled =
                if resources.spilled > 0 { format!(", {} bytes spilled", resources.spilled) } else { String::new() };
            let _ = writeln!(
                text,
                "  {} registers a thread{spilled}, {shared} bytes of shared memory a block, occupancy {}{why}",
                resources.registers,
                percent(held.part)
            );
        }
        text
    }

    fn hottest(&self, rows: &Rows) -> String {
        let mut order: Vec<(&(FileId, usize), &Row)> = rows.iter().filter(|(_, row)| row.part >= 0.05).collect();
        order.sort_by(|a, b| b.1.part.total_cmp(&a.1.part));
        let mut text = String::new();
        for ((file, line), row) in order.into_iter().take(HOTTEST) {
            let mut said: Vec<String> = vec![];
            let (global, shared) = (row.global, row.shared);
            if global.requests > 0 {
                said.push(format!("{} sectors a request", ratio(global.sectors, global.requests)));
            }
            if 2 * global.sectors > 3 * global.fewest && global.fewest > 0 {
                said.push(format!("moves {} times the bytes it uses", ratio(global.sectors, global.fewest)));
            }
            if shared.passes > shared.least {
                said.push(format!("{} times the passes of shared memory", ratio(shared.passes, shared.least)));
            }
            if row.warps > 0 && row.lanes * 10 < row.warps * 32 * 9 {
                said.push(format!("{} of the lanes", percent(row.lanes as f64 / (32 * row.warps) as f64)));
            }
            let said = if said.is_empty() { String::new() } else { format!(": {}", said.join(", ")) };
            let own = *file == self.profile.span.file;
            let file = if own { String::new() } else { format!("{}:", self.sources.name(*file)) };
            let _ = writeln!(text, "  line {}{line} has {} of the cost{said}", escape::name(&file), percent(row.part));
        }
        text
    }

    /// Returns the source with the counts beside it.
    fn listing(&self, rows: &Rows, style: Style) -> String {
        let bar = if style.ascii { "|" } else { "│" };
        let columns: Vec<&Column> = COLUMNS.iter().filter(|column| style.width >= column.from).collect();
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
            let source = self.sources.text(at.0).lines().nth(at.1 - 1).unwrap_or_default();
            text += &self.line(rows.get(&at), at.1, source, &columns, style, bar);
        }
        text
    }

    fn line(
        &self,
        row: Option<&Row>,
        line: usize,
        source: &str,
        columns: &[&Column],
        style: Style,
        bar: &str,
    ) -> String {
        let mut left = String::from(" ");
        for column in columns {
            let value = row.map_or(String::new(), |row| (column.value)(row));
            let _ = write!(left, " {value:>0$}", column.width);
        }
        let used = left.chars().count() + 10;
        let room = style.width.saturating_sub(used).max(16);
        let mut source = escape::name(source).to_string();
        if source.chars().count() > room {
            source = source.chars().take(room - 1).chain(['…']).collect();
        }
        let hot = row.is_some_and(|row| row.part >= 0.2);
        let left = if hot { paint(style, "31", &left) } else { left };
        format!("{left}   {line:>4} {bar} {source}").trim_end().to_string() + "\n"
    }

    /// Returns the file of the kernel, and its first and last line.
    fn extent(&self) -> (FileId, usize, usize) {
        let place = self.profile.span;
        let span = self.kernels.at(place).map_or(place, |(span, _)| span);
        let end = Span::new(span.file, span.end.saturating_sub(1) as usize, span.end as usize);
        (span.file, self.sources.line_column(span).0, self.sources.line_column(end).0)
    }

    /// Returns all counts as JSON.
    pub fn json(&self) -> Value {
        let (profile, gpu) = (self.profile, self.gpu);
        let found = bound(profile, gpu);
        let cost = |cost: &Cost| {
            json!({
                "requests": cost.requests, "threads": cost.lanes, "bytes_used": cost.used,
                "sectors": cost.sectors, "fewest_sectors": cost.fewest, "lines": cost.lines,
                "passes": cost.passes, "fewest_passes": cost.least, "crowd": cost.crowd, "repeated": cost.repeated,
                "stride": cost.stride,
            })
        };
        let accesses: Vec<Value> = profile
            .accesses
            .iter()
            .map(|access| {
                let (line, column) = self.sources.line_column(access.span);
                let deed = match access.deed {
                    Deed::Load => "load",
                    Deed::Store => "store",
                    Deed::Atomic => "atomic",
                };
                let mut all = cost(&access.cost);
                all["file"] = json!(self.sources.name(access.span.file));
                (all["line"], all["column"]) = (json!(line), json!(column));
                (all["array"], all["deed"]) = (json!(access.array), json!(deed));
                all["shared"] = json!(access.shared);
                all
            })
            .collect();
        let rows = rows(profile, self.sources);
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
                    "line": self.sources.line_column(branch.span).0, "loop": branch.is_loop,
                    "met": parent.map(|parent| parent.warps), "warps": segment.warps, "threads": segment.lanes,
                    "parted": segment.parted,
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
        let parts: Vec<Value> =
            found.parts.iter().map(|(what, seconds)| json!({"resource": what.name(), "seconds": seconds})).collect();
        json!({
            "kernel": profile.kernel, "expression": (profile.of == Counted::Expression).then(|| expressions::source(profile.span, self.sources)),
            "launches": profile.launches, "threads": profile.threads, "warps": profile.warps,
            "sampled": profile.sampled, "extents": launched(profile), "gpu": gpu.name, "seconds": found.seconds, "bound": parts,
            "registers": self.resources.map(|r| r.registers), "spilled": self.resources.map(|r| r.spilled),
            "shared_bytes": profile.shared, "accesses": accesses, "lines": lines, "branches": branches, "arrays": arrays,
            "fetched": profile.fetched,
        })
    }
}

/// A column of the listing.
struct Column {
    title: &'static str,
    width: usize,
    /// The width of the terminal from which it is shown.
    from: usize,
    value: fn(&Row) -> String,
}

const COLUMNS: &[Column] = &[
    Column { title: "cost", width: 5, from: 0, value: |row| percent(row.part) },
    Column {
        title: "active",
        width: 6,
        from: 80,
        value: |row| match row.warps {
            0 => String::new(),
            warps => percent(row.lanes as f64 / (32 * warps) as f64),
        },
    },
    Column { title: "requests", width: 8, from: 0, value: |row| count(row.global.requests + row.shared.requests) },
    Column { title: "sectors", width: 7, from: 0, value: |row| ratio(row.global.sectors, row.global.requests) },
    Column { title: "moved", width: 5, from: 70, value: |row| ratio(row.global.sectors, row.global.fewest) },
    Column { title: "passes", width: 6, from: 0, value: |row| ratio(row.shared.passes, row.shared.requests) },
    Column { title: "flops", width: 6, from: 90, value: |row| count(row.work.flops()) },
];
