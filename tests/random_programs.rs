//! Random kernels: what the pipeline and the simulator make of them is what the reference interpreter says they mean.
//!
//! `CLK_RANDOM_PROGRAMS` says how many, `CLK_RANDOM_SEED` from which seed on.

mod generate;
mod reference;

use clk_lang::ir::text;
use clk_lang::ir::verify;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn reference_only() {
    let first = setting("CLK_RANDOM_SEED", 0);
    let mut kinds = std::collections::BTreeMap::new();
    for seed in first..first + setting("CLK_RANDOM_PROGRAMS", 1000) {
        let mut program = generate::program(seed);
        if let Err(violations) = verify::verify(program.module.clone()) {
            panic!("seed {seed}: {violations:#?}\n{}", text::print(&program.module));
        }
        let mut args = generate::launch_arguments(&mut program.arguments);
        let outcome = reference::launch(&program.module, program.extents, &mut args);
        let kind =
            outcome.faults.first().map(|f| format!("{:?}", f.kind).split([' ', '{']).next().unwrap().to_string());
        if kind.as_deref() == Some("Divergence") || kind.as_deref() == Some("StepLimit") {
            panic!("seed {seed}: {:?}\n{}", outcome.faults, text::print(&program.module));
        }
        *kinds.entry(kind).or_insert(0) += 1;
    }
    println!("{kinds:?}");
}
