//! Runs kernels with checks on the stepper and on the simulator, and compares the results.

use std::sync::Arc;

use clk_ir::def::Module;
use clk_ir::{Checks, PreparedKernel};
use clk_runtime::{Control, Device, Fault, FaultKind, LaunchExtents};
use clk_sim::Simulator;
use clk_step::launch_checked;

use crate::generate::{self, Argument};

/// The result of a run: its arrays, its printed lines in any order, the faults of its threads.
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

/// Runs a lowered module in the stepper, without optimizations.
pub fn by_stepper(module: &Module, extents: LaunchExtents, arguments: &[Argument], checks: Checks) -> Run {
    let mut arguments = arguments.to_vec();
    let outcome = launch_checked(module, extents, &mut generate::launch_arguments(&mut arguments), checks);
    Run { arguments, output: lines(&outcome.output), faults: outcome.faults }
}

/// Runs a kernel that was prepared with checks on the simulator. The result lists warnings as faults as well.
pub fn by_simulator(
    simulator: &Simulator,
    prepared: PreparedKernel,
    extents: LaunchExtents,
    arguments: &[Argument],
    workers: usize,
) -> Run {
    let mut arguments = arguments.to_vec();
    let control = Control { workers, ..Control::default() };
    let executable = simulator.load(Arc::new(prepared), None);
    match executable.launch(&extents.into(), &mut generate::launch_arguments(&mut arguments), &control) {
        Ok(output) => {
            let mut faults = control.warnings.lock().expect("no panic").clone();
            // Ignores warnings about unwritten elements of `out` arrays, which the stepper does not report.
            faults.retain(|fault| !matches!(fault.kind, FaultKind::Incomplete { .. } | FaultKind::CoverageGaps { .. }));
            Run { arguments, output: lines(&output), faults }
        }
        Err(fault) => Run { arguments, output: vec![], faults: vec![*fault] },
    }
}

/// Returns whether two faults have the same kind, source location and thread.
fn is_same(a: &Fault, b: &Fault) -> bool {
    let kind = |fault: &Fault| match &fault.kind {
        // Ignores the name of the place: only the simulator's name includes the component of a vector.
        FaultKind::Unwritten { space, .. } => FaultKind::Unwritten { place: String::new(), space },
        FaultKind::Divergence { what, arrived, expected, .. } => {
            FaultKind::Divergence { what, arrived: *arrived, expected: *expected, elsewhere: None }
        }
        kind => kind.clone(),
    };
    // Ignores the span of a zero step: equal constants share one expression, and thus one span.
    let span = |fault: &Fault| (fault.kind != FaultKind::ZeroStep).then_some(fault.span);
    (kind(a), span(a), a.block, a.thread, &a.index) == (kind(b), span(b), b.block, b.thread, &b.index)
}

/// Describes how a run differs from that of the stepper.
pub fn difference(expected: &Run, actual: &Run) -> Option<String> {
    if let Some(surplus) = actual.faults.iter().find(|f| !expected.faults.iter().any(|e| is_same(e, f))) {
        return Some(format!("a fault that is none: {surplus:?}\nexpected one of {:#?}", expected.faults));
    }
    if let Some(missing) = expected.faults.first() {
        return actual.faults.is_empty().then(|| format!("no fault where there is one: {missing:?}"));
    }
    for (i, pair) in expected.arguments.iter().zip(&actual.arguments).enumerate() {
        let (Argument::Array { layout, bytes, .. }, Argument::Array { bytes: actual, .. }) = pair else { continue };
        let leaves = layout.leaves.iter().map(|leaf| (leaf.offset, leaf.ty.size()));
        for (offset, size) in leaves {
            let parts = |bytes: &[u8]| -> Vec<Vec<u8>> {
                bytes.chunks(layout.size).map(|element| element[offset..offset + size].to_vec()).collect()
            };
            let (expected_leaves, actual) = (parts(bytes.get()), parts(actual.get()));
            if let Some(at) = (0..expected_leaves.len()).find(|&at| expected_leaves[at] != actual[at]) {
                let (expected_leaves, actual) = (&expected_leaves[at], &actual[at]);
                return Some(format!(
                    "argument {i}, element {at}: {actual:02x?}, and should be {expected_leaves:02x?}"
                ));
            }
        }
    }
    (expected.output != actual.output)
        .then(|| format!("it printed {:#?}\nand should have printed {:#?}", actual.output, expected.output))
}
