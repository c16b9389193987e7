//! Helpers for tests of tensor-core kernels: parse a kernel from source, and find errors in its CUDA text.

use clk_compile::{NoFiles, Session, default_instance};
use clk_cuda::nvrtc::{Nvrtc, NvrtcError};
use clk_cuda::text::{CodegenOptions, OperandStaging, cuda_text, shared_limit_of};
use clk_ir::PreparedKernel;
use clk_ir::def::Module;

/// Returns the only kernel of a text.
#[track_caller]
pub fn prepared(source: &str) -> PreparedKernel {
    clk_pass::prepare(lowered(source)).expect("it is sound")
}

/// Returns the only kernel of a text, before the passes.
#[track_caller]
pub fn lowered(source: &str) -> Module {
    let mut session = Session::default();
    let outcome = session.add("main.clk", source, &NoFiles);
    assert!(!outcome.failed(), "{:#?}\n{source}", outcome.diagnostics);
    let own = |name: &str| source.contains(&format!("kernel {name}("));
    let (id, _) = session.program.kernels.iter().find(|(_, kernel)| own(&kernel.name)).expect("a kernel");
    let instance = default_instance(&session.program, id).expect("no compile-time arguments");
    clk_lower::lower(&session.program, &instance).unwrap_or_else(|errors| panic!("{errors:#?}\n{source}"))
}

/// Compiles a kernel's text for tensor cores; returns the log if it reports spills or contains one of these words.
pub fn complaint(nvrtc: &Nvrtc, kernel: &PreparedKernel, copies: OperandStaging, words: &[&str]) -> Option<String> {
    complaint_of(nvrtc, 90, kernel, copies, words)
}

/// Like [`complaint`], for a GPU of this architecture.
pub fn complaint_of(
    nvrtc: &Nvrtc,
    architecture: u32,
    kernel: &PreparedKernel,
    copies: OperandStaging,
    words: &[&str],
) -> Option<String> {
    let options = CodegenOptions {
        product: Some(copies),
        stop: true,
        room: shared_limit_of(architecture),
        ..CodegenOptions::default()
    };
    let text = cuda_text(kernel, &options, None);
    if text.options.product != Some(copies) {
        return Some("it has the usual text".into());
    }
    let mut flags = text.options.flags();
    flags.push("--ptxas-options=-v".into());
    match nvrtc.compile(&text.text, "tensor.cu", architecture, &flags) {
        Ok(compiled) => {
            let spills = !compiled.log.contains("0 bytes spill stores, 0 bytes spill loads");
            let warns = words.iter().any(|word| compiled.log.contains(word));
            (spills || warns).then_some(compiled.log)
        }
        Err(NvrtcError::Rejected { log }) => Some(format!("{log}\n{}", text.text)),
        Err(failure) => Some(format!("{failure:?}")),
    }
}
