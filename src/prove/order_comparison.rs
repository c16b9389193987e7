//! Runs a kernel in two orders of blocks and warps, and compares the resulting arrays.

use super::replay::{ReplayArguments, ReplayFilling, ReplayFinding, ReplayRunner, ReplaySizes};
use super::report::Property;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_differential::{Difference, difference};
use clk_ir::Checks;
use clk_ir::def::{Access, KernelParam};
use clk_runtime::{Control, Executable, FaultKind, LaunchConfig, LaunchExtents};

const UNCHECKED: Checks = Checks { memory: false, arithmetic: false, nan: false };

/// The maximum number of loop iterations per lane group. A kernel whose threads wait for each other may not terminate
/// if they run in order.
const MAX_STEPS: u64 = 20_000;
/// The maximum number of threads of a launch.
const MAX_THREADS: u64 = 1 << 14;

/// Returns a difference between the arrays after a run in forward order and one in reverse order; `None` if there is
/// none, or if the launches are rejected or stopped.
pub(super) fn compare_orders(runner: &ReplayRunner<'_>, tries: &[ReplaySizes]) -> Option<ReplayFinding> {
    let executable = runner.load(UNCHECKED)?;
    for launch in tries {
        for filling in [ReplayFilling::Digits, ReplayFilling::Numbers(0)] {
            let Some(first) = runner.arguments(launch, filling).filter(is_small) else { continue };
            let Some(last) = runner.arguments(launch, filling) else { continue };
            match run_both_orders(runner, &*executable, [first, last]) {
                Ok(Some((array, found))) => return Some(order_finding(runner, launch, &array, &found)),
                Err(FaultKind::StepLimit { .. }) => return None,
                Ok(None) | Err(_) => {}
            }
        }
    }
    None
}

fn is_small(arguments: &ReplayArguments) -> bool {
    let count = |n: [u32; 3]| n.iter().map(|&n| u64::from(n)).product::<u64>();
    match arguments.extents {
        LaunchExtents::Threads(n) => count(n) <= MAX_THREADS,
        LaunchExtents::Grid { grid, block } => count(grid) * count(block) <= MAX_THREADS,
    }
}

/// Runs the kernel in forward and in reverse order. Returns the first array that differs.
fn run_both_orders(
    runner: &ReplayRunner<'_>,
    executable: &dyn Executable,
    [mut first, mut last]: [ReplayArguments; 2],
) -> Result<Option<(String, Difference)>, FaultKind> {
    for (arguments, backward) in [(&mut first, false), (&mut last, true)] {
        let extents = arguments.extents;
        let control = runner.control(UNCHECKED, extents);
        let control = Control { reverse_order: backward, max_steps: control.max_steps.min(MAX_STEPS), ..control };
        let Some(mut args) = arguments.all(runner.module) else { return Ok(None) };
        executable
            .launch(&LaunchConfig::from(extents).synchronous(), &mut args, &control)
            .map_err(|fault| fault.kind)?;
    }
    Ok(first_difference(runner, &first, &last))
}

fn first_difference(
    runner: &ReplayRunner<'_>,
    first: &ReplayArguments,
    last: &ReplayArguments,
) -> Option<(String, Difference)> {
    let body = runner.module.functions.get(runner.module.kernel.body)?;
    for (position, param) in runner.module.kernel.params.iter().enumerate() {
        let KernelParam::Array { name, access, memory } = param else { continue };
        if *access == Access::In {
            continue;
        }
        let (one, shape) = first.storage[position].as_ref()?;
        let (other, _) = last.storage[position].as_ref()?;
        let layout = &body.memories.get(*memory)?.layout;
        if let Some(difference_found) = difference(one, other, shape, layout) {
            return Some((name.clone(), difference_found));
        }
    }
    None
}

fn order_finding(runner: &ReplayRunner<'_>, launch: &ReplaySizes, array: &str, found: &Difference) -> ReplayFinding {
    let diagnostic = describe_difference(array, found, runner.module.kernel.span);
    ReplayFinding {
        property: Property::Order,
        diagnostic,
        sizes: runner.sizes(launch),
        needs_contents: false,
        fault: None,
    }
}

/// Returns the diagnostic about an array that depends on the order.
pub(super) fn describe_difference(array: &str, found: &Difference, kernel: Span) -> Diagnostic {
    let element = format!("{array}[{}]{}", found.index, found.field);
    let [first, last] = &found.values;
    Diagnostic::warning("W0605", format!("`{array}` depends on the order of blocks and warps"))
        .at(kernel, "this kernel was run twice, from the same arrays")
        .note(format!("`{element}` is {first} if the first block and the first warp come first"))
        .note(format!("`{element}` is {last} if the last ones do"))
}
