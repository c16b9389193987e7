//! `--stats`: prints a device's statistics on one line, and the statements that copy arrays between host and device.

use std::sync::atomic::Ordering;

use super::test::duration;
use clk_base::source::SourceMap;
use clk_host::interp::{CopyCounts, CopyStatistics};
use clk_host::shard::ShardTransferCounters;
use clk_runtime::{Device, MachineCode, Statistics, size};

pub(crate) fn device_line(device: &dyn Device) -> String {
    let s = device.statistics();
    if let Some(code) = s.machine_code {
        return format!("{}: {}", device.name(), simulator_text(&s, &code));
    }
    let products = match s.on_matrix_units {
        0 => String::new(),
        n => format!(", {n} of them on tensor cores"),
    };
    let overlapped = match s.overlapped_upload_bytes {
        0 => String::new(),
        bytes => format!(", {} of them concurrent with kernels", size(bytes)),
    };
    format!(
        "{}: {} launches begun in {}{products}, {} in kernels; {} copies to the device ({}{overlapped}), {} back ({}); {} kernels compiled in {}, {} from the cache in {}, loaded in {}; {} of {} accesses and divisions guarded; arrays hold {}, at most {}",
        device.name(),
        s.launches,
        duration(s.issue_seconds),
        duration(s.kernel_seconds),
        s.uploads,
        size(s.uploaded),
        s.downloads,
        size(s.downloaded),
        s.compiled,
        duration(s.compile_seconds),
        s.cached,
        duration(s.cached_seconds),
        duration(s.load_seconds),
        s.guarded,
        s.checkable_ops,
        size(s.array_bytes),
        size(s.peak_array_bytes),
    )
}

/// Maximum number of statements shown.
const SHOWN: usize = 5;

/// Returns the statements that cause copies between host and device.
pub(crate) fn copy_lines(copies: &CopyStatistics, sources: &SourceMap) -> Vec<String> {
    let statements = copies.statements();
    let mut lines: Vec<String> = Vec::new();
    for (span, CopyCounts { to_device, to_host: back }) in statements.iter().take(SHOWN) {
        let place = format!("{}:{}", sources.name(span.file), sources.line_column(*span).0);
        let some = |(count, bytes): (u64, u64), way: &str| {
            let word = if count == 1 { "copy" } else { "copies" };
            (count > 0).then(|| format!("{count} {word} {way} ({})", size(bytes)))
        };
        let ways: Vec<String> =
            [some(*to_device, "to the device"), some(*back, "back")].into_iter().flatten().collect();
        lines.push(format!("{place}: {}", ways.join(", ")));
    }
    if statements.len() > SHOWN {
        lines.push(format!("{} more statements copy less", statements.len() - SHOWN));
    }
    lines
}

/// Returns a line on the data moved between shards of arrays; `None` if no array was sharded.
pub(crate) fn shard_line(counts: &ShardTransferCounters) -> Option<String> {
    let [launches, exchanges, exchanged, gathers, gathered] =
        [&counts.launches, &counts.exchanges, &counts.exchanged, &counts.gathers, &counts.gathered]
            .map(|count| count.load(Ordering::Relaxed));
    if launches + exchanges + gathers == 0 {
        return None;
    }
    Some(format!(
        "sharded arrays: {launches} launches in parts, {exchanges} copies to halos ({}); put together {gathers} times for what does not work on \
         parts ({})",
        size(exchanged),
        size(gathered),
    ))
}

/// Formats the statistics of the simulator. They contain no copies, but the number of kernel regions compiled to
/// machine code.
fn simulator_text(s: &Statistics, code: &MachineCode) -> String {
    let launches = s.launches;
    if code.regions == 0 {
        return format!("{launches} launches, interpreted");
    }
    let regions = format!("{launches} launches; {} of {} regions compiled", code.compiled, code.regions);
    if code.compiled == 0 {
        return regions;
    }
    format!(
        "{regions} to {} of machine code in {}; entered {} times, left {} times for the interpreter",
        size(code.bytes),
        duration(code.seconds),
        code.entered,
        code.left,
    )
}
