//! The simulators under test: every instruction set, with the interpreter and with machine code.

use std::cell::Cell;
use std::sync::OnceLock;

use clk_runtime::Isa;
use clk_sim::{Jit, Simulator};

/// Returns simulators with and without machine code for each instruction set of this machine, the best one last. If
/// `CLK_SIM_ISA` names an instruction set, returns a simulator for that one only. Prints which instruction sets are
/// skipped.
pub fn simulators() -> &'static [Simulator] {
    static ALL: OnceLock<Vec<Simulator>> = OnceLock::new();
    ALL.get_or_init(|| by_isa().iter().flatten().cloned().collect())
}

/// The simulators of each instruction set.
fn by_isa() -> &'static [Vec<Simulator>] {
    static ALL: OnceLock<Vec<Vec<Simulator>>> = OnceLock::new();
    ALL.get_or_init(|| match std::env::var("CLK_SIM_ISA") {
        Ok(name) if !name.is_empty() => {
            let isa = name.parse().unwrap_or_else(|why| panic!("CLK_SIM_ISA: {why}"));
            vec![vec![Simulator::with_isa(isa).with_jit(jit().unwrap_or_default())]]
        }
        _ => {
            let (here, absent): (Vec<Isa>, Vec<Isa>) = Isa::ALL.iter().partition(|isa| isa.is_supported());
            absent.iter().for_each(|isa| println!("skipped: {isa}: this machine has not got it"));
            let all = |isa: Isa| {
                let ways = jit().map_or(vec![Jit::Off, Jit::Always, Jit::Forced], |jit| vec![jit]);
                let useful = ways.into_iter().filter(|jit| *jit == Jit::Off || jit.is_available(isa));
                useful.map(|jit| Simulator::with_isa(isa).with_jit(jit)).collect()
            };
            here.into_iter().map(all).collect()
        }
    })
}

/// Returns some of the [`simulators`]: at most two per instruction set, and different ones from call to call.
pub fn some_simulators() -> Vec<&'static Simulator> {
    thread_local!(static ASKED: Cell<usize> = const { Cell::new(0) });
    let query_count = ASKED.replace(ASKED.get() + 1);
    let some = by_isa().iter().enumerate().flat_map(|(number, all)| {
        let absent = (all.len() > 2).then_some((query_count + number) % all.len().max(1));
        all.iter().enumerate().filter(move |(at, _)| Some(*at) != absent).map(|(_, simulator)| simulator)
    });
    some.collect()
}

/// Returns the machine code setting that `CLK_SIM_JIT` selects, if any.
fn jit() -> Option<Jit> {
    let name = std::env::var("CLK_SIM_JIT").ok().filter(|name| !name.is_empty())?;
    Some(name.parse().unwrap_or_else(|why| panic!("CLK_SIM_JIT: {why}")))
}
