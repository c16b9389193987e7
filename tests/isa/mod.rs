//! The instruction sets that the simulator is tested with, the interpreter and machine code.

use std::sync::OnceLock;

use clk_lang::device::sim::{Isa, Jit, Simulator};

/// Returns a simulator for each instruction set of this machine, the best one last, interpreting and compiling; or only for the
/// one that `CLK_SIM_ISA` names. Prints which ones are skipped.
pub fn simulators() -> &'static [Simulator] {
    static ALL: OnceLock<Vec<Simulator>> = OnceLock::new();
    ALL.get_or_init(|| match std::env::var("CLK_SIM_ISA") {
        Ok(name) if !name.is_empty() => {
            let isa = name.parse().unwrap_or_else(|why| panic!("CLK_SIM_ISA: {why}"));
            vec![Simulator::with(isa).compiling(jit().unwrap_or_default())]
        }
        _ => {
            let (here, absent): (Vec<Isa>, Vec<Isa>) = Isa::ALL.iter().partition(|isa| isa.is_here());
            absent.iter().for_each(|isa| println!("skipped: {isa}: this machine has not got it"));
            let both = |isa: Isa| {
                let ways = jit().map_or(vec![Jit::Off, Jit::Always, Jit::Forced], |jit| vec![jit]);
                let useful = ways.into_iter().filter(move |jit| *jit == Jit::Off || jit.is_here(isa));
                useful.map(move |jit| Simulator::with(isa).compiling(jit))
            };
            here.into_iter().flat_map(both).collect()
        }
    })
}

/// Returns what `CLK_SIM_JIT` says.
fn jit() -> Option<Jit> {
    let name = std::env::var("CLK_SIM_JIT").ok().filter(|name| !name.is_empty())?;
    Some(name.parse().unwrap_or_else(|why| panic!("CLK_SIM_JIT: {why}")))
}
