//! Warnings about CUDA kernels that take a lock without a fence.
//!
//! In the translation, an atomic operation orders the accesses after it. In CUDA, it orders nothing without a fence, so
//! a run of the translation cannot show the mistake.

use clk_base::diag::Diagnostic;
use clk_compile::{Session, compile_kernel, default_instance};
use clk_import::TranslatedKernel;
use clk_ir::Checks;
use clk_ir::acquire_fences::{UnfencedSection, find_unfenced_sections};
use clk_ir::def::{FenceScope, Function};
use clk_ir::inlined_calls::resolve_span;

/// The code of these warnings.
const UNFENCED: &str = "W0858";

/// Returns the warnings for the kernels of a translated file.
pub(crate) fn unfenced_locks(session: &Session, translated: &[TranslatedKernel]) -> Vec<Diagnostic> {
    let program = &session.program;
    let Some(file) = session.main.and_then(|main| program.modules.get(main)).map(|main| main.file) else {
        return vec![];
    };
    // Compiling takes time, and kernels without fences have no such warnings.
    if !session.sources.text(file).contains("fence") {
        return vec![];
    }
    let mut warnings: Vec<Diagnostic> = vec![];
    for (id, kernel) in program.kernels_of(session.main) {
        // Checks record the calls that are inlined.
        let checks = Checks { memory: true, ..Checks::default() };
        let prepared = default_instance(program, id).and_then(|it| compile_kernel(program, &it, checks).ok());
        let Some(prepared) = prepared else { continue };
        let function = &prepared.module.functions[prepared.module.kernel.body];
        let translated = translated.iter().find(|translated| translated.clk_name == kernel.name);
        let has_one_block = translated.is_some_and(|translated| translated.has_one_block);
        for section in find_unfenced_sections(function, has_one_block) {
            let warning = warning(function, &section);
            // Several kernels may call the same function.
            if warnings.iter().all(|known| known.primary() != warning.primary()) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

fn warning(function: &Function, found: &UnfencedSection) -> Diagnostic {
    let place = |span| resolve_span(&function.calls, span).0;
    let fence = match found.scope {
        FenceScope::Block => "__threadfence_block()",
        FenceScope::Device => "__threadfence()",
    };
    Diagnostic::warning(UNFENCED, "a lock is taken without a fence")
        .at(place(found.lock), "the lock is taken here")
        .because(place(found.access), "on a GPU, this access may come before the lock is taken")
        .note("the translation orders the two, so a run reports no race here")
        .help(format!("call `{fence}` after the lock is taken"))
}
