//! Proofs of the kernels of CUDA files: complete ones, and the search for faults with a time limit, which `clk check`
//! and the language server run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::cuda_launches::scalar_of;
use super::derived_lengths;
use clk_base::diag::Diagnostic;
use clk_check::typed::{Access, Kernel, KernelId, Param, Type};
use clk_compile::Session;
use clk_import::{KernelParameter, ParameterRole, TranslatedKernel};
use clk_prove::{ProofOptions, ProofReport, ProofVerdict, Property, prove_kernel_with};
use clk_scalar::ScalarValue;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// The time for the search for faults of a kernel, and of all kernels of a program.
pub(crate) const KERNEL_TIME: Duration = Duration::from_millis(100);
pub(crate) const TOTAL_TIME: Duration = Duration::from_secs(2);

/// Proves a kernel of the translation of a CUDA file until `stop` is set.
pub(crate) fn prove(
    session: &Session,
    id: KernelId,
    translated: &[TranslatedKernel],
    stop: &Arc<AtomicBool>,
) -> ProofReport {
    let options = ProofOptions { overflow_is_undefined: true, ..options(session, id, translated, stop) };
    prove_with(session, id, translated, &options)
}

fn options(session: &Session, id: KernelId, translated: &[TranslatedKernel], stop: &Arc<AtomicBool>) -> ProofOptions {
    let initial_contents = initial_contents(session, id, translated);
    ProofOptions { stop: stop.clone(), unstated_lengths: true, initial_contents, ..ProofOptions::default() }
}

/// Returns the initial values of the file's variables that a kernel uses, by parameter. Variables that other kernels
/// write are left out: they may have other values at a launch.
fn initial_contents(
    session: &Session,
    id: KernelId,
    translated: &[TranslatedKernel],
) -> FxHashMap<String, Vec<ScalarValue>> {
    let kernels = &session.program.kernels;
    let is_written_by_others = |name: &SmolStr| {
        let mut others = kernels.iter().filter(|(other, _)| *other != id);
        others.any(|(_, other)| {
            file_variables(other, translated).any(|(param, own)| own.name == *name && param.access != Access::In)
        })
    };
    let own = kernels.get(id).into_iter().flat_map(|kernel| file_variables(kernel, translated));
    let contents = own.filter_map(|(param, own)| {
        let ParameterRole::FileVariable { initial: Some(values) } = &own.role else { return None };
        let is_scalars = matches!(&param.ty, Type::Array(array) if matches!(array.element, Type::Scalar(_)));
        let is_known = is_scalars && !is_written_by_others(&own.name);
        is_known.then(|| (param.name.to_string(), values.iter().map(|value| scalar_of(*value)).collect()))
    });
    contents.collect()
}

/// Returns the parameters of a translated kernel that stand for variables of the file: each in the text and in the CUDA
/// file.
fn file_variables<'a>(
    kernel: &'a Kernel,
    translated: &'a [TranslatedKernel],
) -> impl Iterator<Item = (&'a Param, &'a KernelParameter)> {
    let translated = translated.iter().find(|translated| translated.clk_name == kernel.name);
    let parameters = translated.into_iter().flat_map(|translated| kernel.sig.params.iter().zip(&translated.parameters));
    parameters.filter(|(_, own)| matches!(own.role, ParameterRole::FileVariable { .. }))
}

fn prove_with(session: &Session, id: KernelId, translated: &[TranslatedKernel], options: &ProofOptions) -> ProofReport {
    let mut report = prove_kernel_with(&session.program, id, options);
    leave_contents_open(&mut report);
    derived_lengths::adapt_verdicts(&mut report, translated, &session.sources);
    report
}

/// Tries to prove a kernel within a time limit, and returns the faults found.
pub(crate) fn find_faults(
    session: &Session,
    id: KernelId,
    translated: &[TranslatedKernel],
    limit: Duration,
) -> Vec<Diagnostic> {
    let report =
        with_time_limit(limit, |stop| prove_with(session, id, translated, &options(session, id, translated, stop)));
    let (mut seen, mut faults): (Vec<&Diagnostic>, Vec<Diagnostic>) = (vec![], vec![]);
    for (property, verdict) in &report.verdicts {
        let is_fault =
            matches!(property, Property::InBounds | Property::RaceFree | Property::Initialized | Property::Barriers);
        if let (true, ProofVerdict::Refuted { sizes, needs_contents: false, found, .. }) = (is_fault, verdict) {
            // Several properties may fail for the same reason.
            if !seen.contains(&found.as_ref()) {
                let sizes = if sizes.is_empty() { "all sizes" } else { sizes.as_str() };
                seen.push(found);
                faults.push(found.as_ref().clone().note(format!("with {sizes}")));
            }
        }
    }
    faults
}

/// A CUDA file does not state which elements its arrays have, so an index that is read from memory is not known to be
/// out of bounds, and a count that is read from memory is not known to leave elements unwritten.
fn leave_contents_open(report: &mut ProofReport) {
    for (property, verdict) in &mut report.verdicts {
        let why = match property {
            Property::InBounds => "the index depends on elements of an array",
            Property::Initialized => "whether the element is written depends on elements of an array",
            _ => continue,
        };
        if let ProofVerdict::Refuted { needs_contents: true, found, .. } = &*verdict {
            *verdict = ProofVerdict::Unknown { why: why.to_owned(), place: found.primary() };
        }
    }
}

/// Calls `work` with a flag that is set when the time is over.
pub(crate) fn with_time_limit<T>(limit: Duration, work: impl FnOnce(&Arc<AtomicBool>) -> T) -> T {
    let stop = Arc::<AtomicBool>::default();
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            if is_done.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                stop.store(true, Ordering::Relaxed);
            }
        });
        let result = work(stop);
        drop(done);
        result
    })
}
