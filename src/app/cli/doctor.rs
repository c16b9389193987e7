//! `clk doctor`: reports the devices and libraries found and the cache in use.

use crate::app::cache::{self, Cache};
use crate::app::context::Context;
use crate::app::{devices, exit, libraries};
use crate::device::cuda::no_nvrtc;
use crate::device::cuda::nvrtc::Nvrtc;
use crate::device::sim::{Isa, Jit, Obstacle};
use crate::device::size;

pub(crate) fn report(context: &mut Context) -> u8 {
    let (isa, jit) = (context.isa, context.jit);
    let console = &mut context.console;
    console.fact(&format!("clk       {}", env!("CARGO_PKG_VERSION")));
    for (name, about) in devices::list() {
        let how = if name == "sim" { format!(", {}, {}", instructions(isa), engine(isa, jit)) } else { String::new() };
        console.fact(&format!("{name:<10}{about}{how}"));
    }
    let nvrtc = match Nvrtc::open(&libraries::nvrtc_places()) {
        Ok(nvrtc) => {
            let (major, minor) = nvrtc.version();
            format!("{major}.{minor}, {}", nvrtc.place().display())
        }
        Err(complaints) => format!("none: {}", no_nvrtc(&complaints)),
    };
    console.fact(&format!("nvrtc     {nvrtc}"));
    console.fact(&format!("cache     {}", kernels()));
    exit::OK
}

/// Describes the simulator's instruction set, and the best available one if it differs.
fn instructions(isa: Isa) -> String {
    let best = Isa::detect();
    if isa == best { isa.to_string() } else { format!("{isa}, as {} says ({best} is here too)", devices::ISA) }
}

/// Says whether kernels run as machine code, and if not, why.
fn engine(isa: Isa, jit: Jit) -> String {
    match jit.obstacle(isa) {
        None if jit == Jit::Always => format!("machine code from the first launch on ({}={jit})", devices::JIT),
        None => "machine code".into(),
        Some(Obstacle::Off) => format!("interpreted ({}={jit})", devices::JIT),
        Some(why) => format!("interpreted: {why}"),
    }
}

fn kernels() -> String {
    let Some(folder) = cache::folder() else { return "none: neither `CLK_CACHE_DIR` nor `HOME` is set".into() };
    match Cache::existing(&folder) {
        Ok(cache) => {
            let entries = cache.map_or(vec![], |cache| cache.entries());
            let bytes = entries.iter().map(|entry| entry.bytes).sum();
            format!("{}, {} kernels, {}", folder.display(), entries.len(), size(bytes))
        }
        Err(refusal) => format!("{} is not used: {}", folder.display(), refusal.why()),
    }
}
