//! `clk doctor`: reports which devices and libraries are found, and which cache directory is used.

use crate::cache::{self, Cache};
use crate::context::AppContext;
use crate::{devices, exit};
use clk_runtime::Isa;
use clk_runtime::size;
use clk_sim::{Jit, NoJitReason};

pub(crate) fn report(context: &mut AppContext) -> u8 {
    let (isa, jit) = (context.isa, context.jit);
    let console = &mut context.console;
    console.fact(&format!("clk       {}", env!("CARGO_PKG_VERSION")));
    for (name, about) in devices::list_devices() {
        let details = if name == "sim" {
            format!(", {}, {}", instruction_set_text(isa), engine_text(isa, jit))
        } else {
            String::new()
        };
        console.fact(&format!("{name:<10}{about}{details}"));
    }
    for (name, about) in devices::list_libraries() {
        console.fact(&format!("{name:<10}{about}"));
    }
    console.fact(&format!("cache     {}", cache_text()));
    exit::OK
}

/// Describes the simulator's instruction set. If a better one is available, names that too.
fn instruction_set_text(isa: Isa) -> String {
    let best = Isa::detect();
    if isa == best { isa.to_string() } else { format!("{isa}, as {} says ({best} is here too)", devices::ISA) }
}

/// Describes whether the simulator compiles kernels to machine code, and if not, why.
fn engine_text(isa: Isa, jit: Jit) -> String {
    match jit.no_jit_reason(isa) {
        None if jit == Jit::Always => format!("machine code from the first launch on ({}={jit})", devices::JIT),
        None => "machine code".into(),
        Some(NoJitReason::Off) => format!("interpreted ({}={jit})", devices::JIT),
        Some(why) => format!("interpreted: {why}"),
    }
}

fn cache_text() -> String {
    let Some(folder) = cache::folder() else { return "none: neither `CLK_CACHE_DIR` nor `HOME` is set".into() };
    match Cache::existing(&folder) {
        Ok(cache) => {
            let entries = cache.map_or(vec![], |cache| cache.entries());
            let bytes = entries.iter().map(|entry| entry.bytes).sum();
            format!("{}, {} kernels, {}", folder.display(), entries.len(), size(bytes))
        }
        Err(refusal) => format!("{} is not used: {}", folder.display(), refusal),
    }
}
