//! Proofs about launch sizes that a run did not test.
//!
//! Input: the warnings of a run, and the kernels all of whose launches were small. Output: the warnings that proofs do
//! not refute, and new warnings about faults at other sizes.

use super::instances::kernels_of_file;
use super::prover::prove_kernel;
use super::report::{ProofReport, ProofVerdict, Property};
use clk_base::diag::Diagnostic;
use clk_check::typed::{KernelId, ModuleId, Program};

/// A kernel whose launches never had several blocks (`blocks`), or never had several warps per block (`warps`),
/// although its signature allows that.
#[derive(Clone, Copy, Debug)]
pub struct UntestedSizes {
    pub kernel: KernelId,
    pub blocks: bool,
    pub warps: bool,
}

/// The properties that may hold for small launches and be violated by larger ones.
const SIZE_DEPENDENT: [Property; 4] =
    [Property::InBounds, Property::RaceFree, Property::Barriers, Property::NoOverflow];

/// Tries to prove the kernels of the program's main file, and updates the warnings of a run. Drops warnings about
/// hazards that are proved impossible, and adds the reason to those that could not be decided. Adds warnings about
/// faults of larger launches, except the fault with which the run itself `failed`. Returns early if `is_stopped`
/// returns `true`.
pub fn settle_warnings(
    (mut warnings, failed): (Vec<Diagnostic>, Option<&Diagnostic>),
    untested: impl Iterator<Item = UntestedSizes>,
    program: &Program,
    main: Option<ModuleId>,
    is_stopped: &dyn Fn() -> bool,
) -> Vec<Diagnostic> {
    let kernels = kernels_of_file(program, main);
    let reported: Vec<_> = warnings.iter().map(|warning| (warning.code, warning.primary())).collect();
    let is_new = |found: &Diagnostic| {
        let place = (found.code, found.primary());
        !reported.contains(&place) && failed.is_none_or(|failed| (failed.code, failed.primary()) != place)
    };
    for untested_sizes in untested.filter(|untested_sizes| kernels.contains(&untested_sizes.kernel)) {
        if is_stopped() {
            break;
        }
        let (kernel, report) = (&program.kernels[untested_sizes.kernel], prove_kernel(program, untested_sizes.kernel));
        let proved = matches!(report.verdict(Property::RaceFree), Some(ProofVerdict::Proved { .. }));
        let is_about_kernel = |one: &Diagnostic| one.code == "W0603" && one.primary() == Some(kernel.name_span);
        warnings.retain(|one| !(proved && is_about_kernel(one)));
        warnings.iter_mut().filter(|one| is_about_kernel(one)).for_each(|hazard| add_proof_note(hazard, &report));
        let refuted = report.verdicts.iter().filter(|(property, _)| SIZE_DEPENDENT.contains(property));
        let is_about_sizes = |(property, verdict): &&(Property, ProofVerdict)| {
            let depends_on_contents = matches!(property, Property::InBounds | Property::NoOverflow);
            !(depends_on_contents && matches!(verdict, ProofVerdict::Refuted { needs_contents: true, .. }))
        };
        warnings.extend(
            refuted
                .filter(is_about_sizes)
                .filter_map(|(_, verdict)| larger_launch_warning(verdict, &report.kernel, untested_sizes, is_new)),
        );
    }
    warnings
}

/// Adds the result of the proof to the warning about a hazard.
fn add_proof_note(hazard: &mut Diagnostic, report: &ProofReport) {
    let note = match report.verdict(Property::RaceFree) {
        Some(ProofVerdict::Refuted { sizes, .. }) => format!("a launch with {sizes} has a race, reported below"),
        Some(ProofVerdict::Unknown { why, .. }) => format!("a proof for all sizes did not settle it: {why}"),
        _ => return,
    };
    hazard.notes.push(note);
}

/// Returns the warning about a fault of a larger launch.
fn larger_launch_warning(
    verdict: &ProofVerdict,
    kernel: &str,
    untested: UntestedSizes,
    is_new: impl FnOnce(&Diagnostic) -> bool,
) -> Option<Diagnostic> {
    let ProofVerdict::Refuted { sizes, found, .. } = verdict else { return None };
    if !is_new(found) {
        return None;
    }
    let tested_sizes = match (untested.blocks, untested.warps) {
        (true, true) => "at most one block, of at most 32 threads",
        (true, false) => "at most one block",
        _ => "blocks of at most 32 threads",
    };
    let problem = if found.is_error() { "has a fault" } else { "does this" };
    let mut warning = Diagnostic::warning("W0611", format!("another launch of `{kernel}` {problem}: {}", found.title));
    warning.labels.clone_from(&found.labels);
    warning.notes.push(format!("launches of this run had {tested_sizes}; one with {sizes} has it ({})", found.code));
    warning.notes.extend(found.notes.iter().cloned());
    warning.help.clone_from(&found.help);
    Some(warning)
}
