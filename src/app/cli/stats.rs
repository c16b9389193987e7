//! `--stats`: a device's statistics in one line, and the lines of a script that copy arrays to a device and back.

use std::sync::atomic::Ordering;

use super::test::duration;
use crate::base::source::Sources;
use crate::device::{Device, MachineCode, Statistics, size};
use crate::host::interp::{Copied, Copies};
use crate::host::shard::Counts;

pub(crate) fn line(device: &dyn Device) -> String {
    let s = device.statistics();
    if let Some(code) = s.machine_code {
        return format!("{}: {}", device.name(), of_simulator(&s, &code));
    }
    let products = match s.on_tensor_cores {
        0 => String::new(),
        n => format!(", {n} of them on tensor cores"),
    };
    let beside = match s.uploaded_beside {
        0 => String::new(),
        bytes => format!(", {} of them beside kernels", size(bytes)),
    };
    format!(
        "{}: {} launches begun in {}{products}, {} in kernels; {} copies to the device ({}{beside}), {} back ({}); {} kernels compiled in {}, {} from the cache in {}, loaded in {}; {} of {} accesses and divisions guarded; arrays hold {}, at most {}",
        device.name(),
        s.launches,
        duration(s.begin_seconds),
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
        s.checkable,
        size(s.held),
        size(s.held_most),
    )
}

/// Maximum number of statements shown.
const SHOWN: usize = 5;

/// Returns the statements that cause copies between host and device.
pub(crate) fn copies(copies: &Copies, sources: &Sources) -> Vec<String> {
    let statements = copies.statements();
    let mut lines: Vec<String> = Vec::new();
    for (span, Copied { to_device, back }) in statements.iter().take(SHOWN) {
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

/// Returns what was moved between the parts of arrays, if there are any.
pub(crate) fn parts(counts: &Counts) -> Option<String> {
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

/// The simulator copies nothing and compiles only parts of kernels, their regions.
fn of_simulator(s: &Statistics, code: &MachineCode) -> String {
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
