//! `clk prove`: for each kernel of a program, reports which properties are proved for all sizes, and shows
//! counterexamples.

use std::path::Path;

use crate::context::AppContext;
use crate::script::{self, CompiledScript};
use crate::{cuda_proofs, exit, proof, suggestions};
use clk_base::diag::Diagnostic;
use clk_check::typed::{Kernel, KernelId};
use clk_prove::{ProofReport, ProofVerdict, kernels_of_file, prove_kernel_until};

pub(crate) fn file(path: &Path, kernel: Option<&str>, certificates: bool, context: &mut AppContext) -> u8 {
    let Some(compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let CompiledScript { session, cuda, .. } = &compiled;
    let with_name = |id: KernelId| (id, session.program.kernels[id].name.to_string());
    let own: Vec<(KernelId, String)> =
        kernels_of_file(&session.program, session.main).into_iter().map(with_name).collect();
    // The name in a CUDA file is that of all instances of a template.
    let is_named = |name: &str, wanted: &str| {
        name == wanted || cuda.kernels.iter().any(|own| own.clk_name == name && own.name == wanted)
    };
    let selected: Vec<KernelId> =
        own.iter().filter(|(_, name)| kernel.is_none_or(|wanted| is_named(name, wanted))).map(|(id, _)| *id).collect();
    if selected.is_empty() {
        let Some(name) = kernel else {
            let text = "the file has no kernels; to prove those of imported files, name these files";
            match context.console.is_human() && context.console.stage.is_none() {
                true => context.console.fact(text),
                false => context.console.error_line(&format!("note: {text}")),
            }
            return exit::OK;
        };
        let help = suggestions::did_you_mean(name, own.iter().map(|(_, name)| name.as_str()))
            .map(|meant| format!("\n  Help: {meant}"))
            .unwrap_or_default();
        context.console.error_line(&format!("error: `{}` has no kernel `{name}`{help}", path.display()));
        return exit::FAILURE;
    }
    let program = ProvedProgram { compiled: &compiled, certificates };
    let is_refuted = program.prove_kernels(&selected, &[], context);
    if let Some(code) = context.interrupt.exit_code() {
        return code;
    }
    // A kernel of a CUDA file that cannot be translated was reported as an error.
    if is_refuted || context.console.tally.errors > 0 { exit::FAILURE } else { exit::OK }
}

/// A program whose kernels are proved.
pub(super) struct ProvedProgram<'a> {
    pub compiled: &'a CompiledScript,
    /// Whether to print the proofs.
    pub certificates: bool,
}

impl ProvedProgram<'_> {
    /// Proves kernels. Reports the verdicts, and the counterexamples that are not among those already `reported`.
    /// Returns whether a property is refuted. Ends early if the command is interrupted.
    pub fn prove_kernels(&self, kernels: &[KernelId], reported: &[Diagnostic], context: &mut AppContext) -> bool {
        let CompiledScript { session, cuda, .. } = self.compiled;
        let is_cuda = self.compiled.is_cuda();
        let mut is_refuted = false;
        for id in kernels {
            let stop = context.interrupt.flag();
            let report = match is_cuda {
                true => cuda_proofs::prove(session, *id, &cuda.kernels, &stop),
                false => prove_kernel_until(&session.program, *id, &stop),
            };
            is_refuted |= report.is_refuted();
            self.show(&report, &session.program.kernels[*id], reported, context);
            if context.interrupt.exit_code().is_some() {
                break;
            }
        }
        is_refuted
    }

    fn show(&self, report: &ProofReport, kernel: &Kernel, reported: &[Diagnostic], context: &mut AppContext) {
        let console = &mut context.console;
        let CompiledScript { session, cuda, .. } = self.compiled;
        let sources = &session.sources;
        let translation = cuda.kernels.iter().find(|own| own.clk_name == report.kernel.as_str());
        let certificates = if self.certificates { report.certificates.as_str() } else { "" };
        console.results(
            "verdict",
            || proof::verdict_records(report, kernel, translation, sources),
            |style| proof::verdicts_text(report, sources, style) + certificates,
        );
        for (property, verdict) in &report.verdicts {
            if let ProofVerdict::Unknown { why, place } = verdict {
                let message = format!("`{}` is not proved {}: {why}", report.kernel, property.name());
                console.notice("Clk proof", &message, *place, sources);
            }
        }
        for found in proof::counterexamples(report).iter().filter(|found| !reported.contains(found)) {
            console.report(found, sources);
        }
    }
}
