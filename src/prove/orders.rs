//! Runs a kernel in two orders of blocks and warps and compares what it leaves in its arrays.

use super::replay::{Arguments, Filling, Found, Runner, Try};
use super::report::Property;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::device::both::{Difference, difference};
use crate::device::{Control, Executable, Extents, FaultKind};
use crate::ir::Checks;
use crate::ir::def::{Access, KernelParam};

const UNCHECKED: Checks = Checks { memory: false, arithmetic: false, nan: false };

/// Loop iterations of a lane group: threads that wait for each other are not run to their end.
const MAX_STEPS: u64 = 20_000;
/// Threads of a launch.
const MAX_THREADS: u64 = 1 << 14;

/// Returns a difference between the arrays after a run forward and one backward; `None` if there is none, or if launches are
/// refused or stopped.
pub(super) fn compare(runner: &Runner<'_>, tries: &[Try]) -> Option<Found> {
    let executable = runner.load(UNCHECKED)?;
    for what in tries {
        for filling in [Filling::Digits, Filling::Numbers(0)] {
            let Some(first) = runner.arguments(what, filling).filter(is_small) else { continue };
            let Some(last) = runner.arguments(what, filling) else { continue };
            match twice(runner, &*executable, [first, last]) {
                Ok(Some((array, found))) => return Some(shown(runner, what, &array, &found)),
                Err(FaultKind::StepLimit { .. }) => return None,
                Ok(None) | Err(_) => {}
            }
        }
    }
    None
}

fn is_small(arguments: &Arguments) -> bool {
    let count = |n: [u32; 3]| n.iter().map(|&n| u64::from(n)).product::<u64>();
    match arguments.extents {
        Extents::Threads(n) => count(n) <= MAX_THREADS,
        Extents::Grid { grid, block } => count(grid) * count(block) <= MAX_THREADS,
    }
}

/// Runs forward and backward; returns the array that differs.
fn twice(
    runner: &Runner<'_>,
    executable: &dyn Executable,
    [mut first, mut last]: [Arguments; 2],
) -> Result<Option<(String, Difference)>, FaultKind> {
    for (arguments, backward) in [(&mut first, false), (&mut last, true)] {
        let extents = arguments.extents;
        let control = runner.control(UNCHECKED, extents);
        let control = Control { backward, max_steps: control.max_steps.min(MAX_STEPS), ..control };
        let Some(mut args) = arguments.all(runner.module) else { return Ok(None) };
        executable.launch(extents, &mut args, &control).map_err(|fault| fault.kind)?;
    }
    Ok(differing(runner, &first, &last))
}

fn differing(runner: &Runner<'_>, first: &Arguments, last: &Arguments) -> Option<(String, Difference)> {
    let body = runner.module.functions.get(runner.module.kernel.body)?;
    for (position, param) in runner.module.kernel.params.iter().enumerate() {
        let KernelParam::Array { name, access, memory } = param else { continue };
        if *access == Access::In {
            continue;
        }
        let (one, shape) = first.storage[position].as_ref()?;
        let (other, _) = last.storage[position].as_ref()?;
        let layout = &body.memories.get(*memory)?.layout;
        if let Some(found) = difference(one, other, shape, layout) {
            return Some((name.clone(), found));
        }
    }
    None
}

fn shown(runner: &Runner<'_>, what: &Try, array: &str, found: &Difference) -> Found {
    let diagnostic = described(array, found, runner.module.kernel.span);
    Found { property: Property::Order, diagnostic, sizes: runner.sizes(what), fault: None }
}

/// Returns the report of a difference.
pub(super) fn described(array: &str, found: &Difference, kernel: Span) -> Diagnostic {
    let element = format!("{array}[{}]{}", found.index, found.field);
    let [first, last] = &found.values;
    Diagnostic::warning("W0605", format!("`{array}` depends on the order of blocks and warps"))
        .at(kernel, "this kernel was run twice, from the same arrays")
        .note(format!("`{element}` is {first} if the first block and the first warp come first"))
        .note(format!("`{element}` is {last} if the last ones do"))
}
