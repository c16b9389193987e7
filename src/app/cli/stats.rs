//! `--stats`: a device's statistics in one line.

use super::test::duration;
use crate::device::{Device, MachineCode, Statistics, size};

pub(crate) fn line(device: &dyn Device) -> String {
    let s = device.statistics();
    if let Some(code) = s.machine_code {
        return format!("{}: {}", device.name(), of_simulator(&s, &code));
    }
    format!(
        "{}: {} launches begun in {}, {} in kernels; {} copies to the device ({}), {} back ({}); {} kernels compiled in {}, {} from the cache in {}, loaded in {}; {} of {} accesses and divisions guarded; arrays hold {}, at most {}",
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
