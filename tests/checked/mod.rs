//! Runs of kernels with checks, by the stepper and by the simulator, and how they differ.

use std::sync::Arc;

use clk_lang::device::sim::Simulator;
use clk_lang::device::step::launch_checked;
use clk_lang::device::{Control, Device, Extents, Fault, FaultKind};
use clk_lang::ir::def::Module;
use clk_lang::ir::{Checks, Prepared};

use crate::generate::{self, Argument};

/// The result of a run: its arrays, the lines it printed in no order, the faults of its threads.
pub struct Run {
    pub arguments: Vec<Argument>,
    output: Vec<String>,
    pub faults: Vec<Fault>,
}

fn lines(output: &str) -> Vec<String> {
    let mut lines: Vec<String> = output.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

/// Runs a module that is as it was lowered.
pub fn by_stepper(module: &Module, extents: Extents, arguments: &[Argument], checks: Checks) -> Run {
    let mut arguments = arguments.to_vec();
    let outcome = launch_checked(module, extents, &mut generate::launch_arguments(&mut arguments), checks);
    Run { arguments, output: lines(&outcome.output), faults: outcome.faults }
}

/// Runs a kernel that was prepared with checks. Warnings are faults too.
pub fn by_simulator(
    simulator: &Simulator,
    prepared: Prepared,
    extents: Extents,
    arguments: &[Argument],
    workers: usize,
) -> Run {
    let mut arguments = arguments.to_vec();
    let control = Control { workers, ..Control::default() };
    let executable = simulator.load(Arc::new(prepared));
    match executable.launch(extents, &mut generate::launch_arguments(&mut arguments), &control) {
        Ok(output) => {
            let mut faults = control.warnings.lock().expect("no panic").clone();
            // Kernels need not write all of their `out` arrays.
            faults.retain(|fault| !matches!(fault.kind, FaultKind::Incomplete { .. } | FaultKind::Unseen { .. }));
            Run { arguments, output: lines(&output), faults }
        }
        Err(fault) => Run { arguments, output: vec![], faults: vec![*fault] },
    }
}

/// Whether two faults have the same kind, place and thread.
fn is_same(a: &Fault, b: &Fault) -> bool {
    let kind = |fault: &Fault| match &fault.kind {
        // The simulator names components of vectors.
        FaultKind::Unwritten { space, .. } => FaultKind::Unwritten { place: String::new(), space },
        FaultKind::Divergence { what, arrived, expected, .. } => {
            FaultKind::Divergence { what, arrived: *arrived, expected: *expected, elsewhere: None }
        }
        kind => kind.clone(),
    };
    // Equal constants are one expression, with one span.
    let span = |fault: &Fault| (fault.kind != FaultKind::ZeroStep).then_some(fault.span);
    (kind(a), span(a), a.block, a.thread, &a.index) == (kind(b), span(b), b.block, b.thread, &b.index)
}

/// Describes how a run differs from the stepper's.
pub fn difference(expected: &Run, found: &Run) -> Option<String> {
    if let Some(surplus) = found.faults.iter().find(|f| !expected.faults.iter().any(|e| is_same(e, f))) {
        return Some(format!("a fault that is none: {surplus:?}\nexpected one of {:#?}", expected.faults));
    }
    if let Some(missing) = expected.faults.first() {
        return found.faults.is_empty().then(|| format!("no fault where there is one: {missing:?}"));
    }
    for (i, pair) in expected.arguments.iter().zip(&found.arguments).enumerate() {
        let (Argument::Array { layout, bytes, .. }, Argument::Array { bytes: found, .. }) = pair else { continue };
        let leaves = layout.leaves.iter().map(|leaf| (leaf.offset, leaf.ty.size()));
        for (offset, size) in leaves {
            let parts = |bytes: &[u8]| -> Vec<Vec<u8>> {
                bytes.chunks(layout.size).map(|element| element[offset..offset + size].to_vec()).collect()
            };
            let (wanted, found) = (parts(bytes.get()), parts(found.get()));
            if let Some(at) = (0..wanted.len()).find(|&at| wanted[at] != found[at]) {
                let (wanted, found) = (&wanted[at], &found[at]);
                return Some(format!("argument {i}, element {at}: {found:02x?}, and should be {wanted:02x?}"));
            }
        }
    }
    (expected.output != found.output)
        .then(|| format!("it printed {:#?}\nand should have printed {:#?}", found.output, expected.output))
}
