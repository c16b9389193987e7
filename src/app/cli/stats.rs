//! `--stats`: a device's statistics in one line.

use super::test::duration;
use crate::device::{Device, size};

pub(crate) fn line(device: &dyn Device) -> String {
    let s = device.statistics();
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
