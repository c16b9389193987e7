//! `clk prove`: for each kernel of a program, reports which properties are proved for all sizes, and shows
//! counterexamples.

use std::path::Path;

use serde_json::json;

use crate::context::AppContext;
use crate::script::{self, CompiledScript};
use crate::{derived_lengths, exit, proof, suggestions};
use clk_base::escape;
use clk_base::source::Span;
use clk_check::typed::KernelId;
use clk_compile::Session;
use clk_import::TranslatedKernel;
use clk_prove::{ProofOptions, ProofReport, ProofVerdict, Property, kernels_of_file, prove_kernel_with};

pub(crate) fn file(path: &Path, kernel: Option<&str>, certificates: bool, context: &mut AppContext) -> u8 {
    let Some(compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let is_cuda = compiled.is_cuda();
    let CompiledScript { session, cuda_kernels, .. } = compiled;
    let with_name = |id: KernelId| (id, session.program.kernels[id].name.to_string());
    let own: Vec<(KernelId, String)> =
        kernels_of_file(&session.program, session.main).into_iter().map(with_name).collect();
    // The name in a CUDA file is that of all instances of a template.
    let is_named = |name: &str, wanted: &str| {
        name == wanted || cuda_kernels.iter().any(|own| own.clk_name == name && own.name == wanted)
    };
    let selected: Vec<KernelId> =
        own.iter().filter(|(_, name)| kernel.is_none_or(|wanted| is_named(name, wanted))).map(|(id, _)| *id).collect();
    if selected.is_empty() {
        let Some(name) = kernel else {
            context.console.fact("the file has no kernels; to prove those of imported files, name these files");
            return exit::OK;
        };
        let help = suggestions::did_you_mean(name, own.iter().map(|(_, name)| name.as_str()))
            .map(|meant| format!("\n  Help: {meant}"))
            .unwrap_or_default();
        context.console.error_line(&format!("error: `{}` has no kernel `{name}`{help}", path.display()));
        return exit::FAILURE;
    }
    let mut refuted = false;
    for id in selected {
        let options = ProofOptions { stop: context.interrupt.flag(), unstated_lengths: is_cuda };
        let mut report = prove_kernel_with(&session.program, id, &options);
        if is_cuda {
            leave_contents_open(&mut report);
            for (_, verdict) in &mut report.verdicts {
                derived_lengths::explain(verdict, &report.kernel, &cuda_kernels, &session.sources);
            }
        }
        refuted |= report.is_refuted();
        let translation = cuda_kernels.iter().find(|own| own.clk_name == report.kernel.as_str());
        show(&report, translation, &session, certificates, context);
        if let Some(code) = context.interrupt.exit_code() {
            return code;
        }
    }
    // Kernels of a CUDA file that are not translated are errors, too.
    if refuted || context.console.tally.errors > 0 { exit::FAILURE } else { exit::OK }
}

/// A CUDA file does not state which elements its arrays have, so an index that is read from memory is not known to be
/// out of bounds.
fn leave_contents_open(report: &mut ProofReport) {
    for (property, verdict) in &mut report.verdicts {
        if let (Property::InBounds, ProofVerdict::Refuted { needs_contents: true, found, .. }) = (*property, &*verdict)
        {
            let (why, place) = ("the index depends on elements of an array".to_owned(), found.primary());
            *verdict = ProofVerdict::Unknown { why, place };
        }
    }
}

/// Prints the verdicts about a kernel. `translation` is the kernel of a CUDA file.
fn show(
    report: &ProofReport,
    translation: Option<&TranslatedKernel>,
    session: &Session,
    certificates: bool,
    context: &mut AppContext,
) {
    let console = &mut context.console;
    let sources = &session.sources;
    let unexamined =
        |(text, place): &(String, Span)| json!({ "arguments": text, "at": proof::position(*place, sources) });
    if console.json {
        let mut assuming = proof::assumptions(report, sources);
        let notes =
            translation.iter().flat_map(|kernel| &kernel.assumptions).filter(|assumption| !assumption.is_clause);
        assuming.extend(notes.map(|assumption| assumption.text.to_string()));
        for (property, verdict) in &report.verdicts {
            let mut line = json!({
                "kernel": report.kernel,
                "instance": report.instance,
                "property": property.name(),
                "verdict": verdict.word(),
                "assuming": assuming,
                "unexamined": report.unexamined.iter().map(unexamined).collect::<Vec<_>>(),
            });
            match verdict {
                ProofVerdict::Proved { steps } => {
                    line["certificates"] = json!(steps);
                    line["largest"] = json!(report.largest.map(|n| n as i64));
                }
                ProofVerdict::Refuted { sizes, .. } => line["sizes"] = json!(sizes),
                ProofVerdict::Unknown { why, place } => {
                    line["why"] = json!(why);
                    line["at"] = json!(place.map(|place| proof::position(place, sources)));
                }
            }
            console.line(&escape::json(line.to_string()));
        }
    } else {
        console.print(&proof::verdicts_text(report, sources, console.style));
        if certificates && !report.certificates.is_empty() {
            console.print(&report.certificates);
        }
    }
    for found in proof::counterexamples(report) {
        console.report(&found, sources);
    }
}
