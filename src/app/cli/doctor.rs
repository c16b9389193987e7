//! `clk doctor`: which devices and libraries are found, and where kernels are kept.

use super::Context;
use crate::app::cache::{self, Cache};
use crate::app::{exit, libraries};
use crate::device::cuda::driver::nvidia;
use crate::device::cuda::no_nvrtc;
use crate::device::cuda::nvrtc::Nvrtc;
use crate::device::size;

pub fn report(context: &mut Context) -> u8 {
    let console = &mut context.console;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    console.line(&format!("clk       {}", env!("CARGO_PKG_VERSION")));
    console.line(&format!("sim       {threads} threads"));
    match nvidia::count() {
        Err(absent) => console.line(&format!("gpu       none: {absent}")),
        Ok(count) => (0..count).for_each(|number| console.line(&gpu(number))),
    }
    let nvrtc = match Nvrtc::open(&libraries::nvrtc_places()) {
        Ok(nvrtc) => {
            let (major, minor) = nvrtc.version();
            format!("{major}.{minor}, {}", nvrtc.place().display())
        }
        Err(complaints) => format!("none: {}", no_nvrtc(&complaints)),
    };
    console.line(&format!("nvrtc     {nvrtc}"));
    console.line(&format!("cache     {}", kernels()));
    exit::OK
}

fn gpu(number: u32) -> String {
    match nvidia::probe(number) {
        Err(absent) => format!("gpu:{number:<6}{absent}"),
        Ok(gpu) => format!(
            "gpu:{number:<6}{}, {}, sm_{}, {} multiprocessors, driver for CUDA {}.{}",
            gpu.name,
            size(gpu.memory),
            gpu.architecture,
            gpu.multiprocessors,
            gpu.driver / 1000,
            gpu.driver % 1000 / 10
        ),
    }
}

fn kernels() -> String {
    let Some(folder) = cache::folder() else { return "none: neither `CLK_CACHE_DIR` nor `HOME` is set".into() };
    match Cache::open(&folder) {
        Ok(cache) => {
            let entries = cache.entries();
            let bytes = entries.iter().map(|entry| entry.bytes).sum();
            format!("{}, {} kernels, {}", folder.display(), entries.len(), size(bytes))
        }
        Err(why) => format!("{} is not used: {why}", folder.display()),
    }
}
