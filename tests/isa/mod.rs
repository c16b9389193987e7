//! The instruction sets that the simulator is tested with.

use std::sync::OnceLock;

use clk_lang::device::sim::{Isa, Simulator};

/// Returns a simulator for each instruction set of this machine, the best one last; or only for the one that `CLK_SIM_ISA`
/// names. Prints which ones are skipped.
pub fn simulators() -> &'static [Simulator] {
    static ALL: OnceLock<Vec<Simulator>> = OnceLock::new();
    ALL.get_or_init(|| match std::env::var("CLK_SIM_ISA") {
        Ok(name) if !name.is_empty() => {
            vec![Simulator::with(name.parse().unwrap_or_else(|why| panic!("CLK_SIM_ISA: {why}")))]
        }
        _ => {
            let (here, absent): (Vec<Isa>, Vec<Isa>) = Isa::ALL.iter().partition(|isa| isa.is_here());
            absent.iter().for_each(|isa| println!("skipped: {isa}: this machine has not got it"));
            here.into_iter().map(Simulator::with).collect()
        }
    })
}
